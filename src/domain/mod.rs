//! The decisions of the service, and nothing else: pure functions from a state and a command to a
//! commit or a refusal. No clock, no randomness, no I/O, nothing asynchronous.
//!
//! Each group of resources has a folder. In it, each kind of resource has a file that says what the
//! resource is and how events change it: `state.rs` where a group has one main kind (`branch`,
//! `mother`, `payout`, `settlement`), otherwise a file of the kind's name. Each operation and each read
//! has a file of its own. The statement of `settlement` has two: the readers of its older versions make
//! the struct of `statement.rs`, and `state.rs`, which uses them, says how events change it.
//!
//! The groups of operations, a folder each:
//!
//! - [`branch`]: branches, their managers, profiles and account snapshots;
//! - [`family`]: the rights that a mother gives to members of her family;
//! - [`mother`]: mothers' profiles;
//! - [`payment`]: obligations, their pre-registration, and the payment gateway;
//! - [`payout`]: the receipts of caregivers' payouts;
//! - [`reservation`]: drafts, care teams, charges and adjustments;
//! - [`settlement`]: statements and data rooms;
//! - [`reference`](mod@reference): the facts of other systems;
//! - [`outbox`] and [`webhook`]: messages to other systems and webhooks, by which the service is managed.
//!
//! What they share by subject: [`payment_words`], the vocabulary of payments; [`by_code`], which finds
//! resources by the code that people use; [`fact_kinds`], the table of the kinds of facts;
//! [`publication`], the progress of publishing events.
//!
//! The framework that they are written in:
//!
//! - [`operation`]: the contract of an operation, and the commit that it builds;
//! - [`report`]: statements of a resource that need no idempotency key;
//! - [`rejection`]: why a command or a read is refused;
//! - [`read`] and [`listing`]: reads, and lists with their filters;
//! - `response_body`: declares the body of a response with the source of each field;
//! - [`resource`]: the contract of a resource, and the view of other resources;
//! - `follow`: what is said of an event that cannot follow on a state;
//! - [`change`], [`index`] and [`rank`]: what a commit changes in a resource and in indexes;
//! - [`decoded`]: a state that was decoded before it is read;
//! - [`event`] and [`event_id`]: public events, and their identifiers;
//! - [`stored`] and [`version`]: the versions of stored forms;
//! - [`erased`] and [`registered`]: operations and kinds of resources with their types erased;
//! - [`example`] and [`sample_actors`]: the example of an operation, and who sends it;
//! - `scenario` and `ladder`, for tests: given, when, then; and the order of an operation's rejections.

pub mod branch;
pub mod by_code;
pub mod change;
pub mod decoded;
pub mod erased;
pub mod event;
pub mod event_id;
pub mod example;
pub mod fact_kinds;
pub mod family;
mod follow;
pub mod index;
#[cfg(test)]
pub mod ladder;
pub mod listing;
pub mod mother;
pub mod operation;
pub mod outbox;
pub mod payment;
pub mod payment_words;
pub mod payout;
pub mod publication;
pub mod rank;
pub mod read;
pub mod reference;
pub mod registered;
pub mod rejection;
pub mod report;
pub mod reservation;
pub mod resource;
mod response_body;
pub mod sample_actors;
#[cfg(test)]
pub mod scenario;
pub mod settlement;
pub mod stored;
pub mod version;
pub mod webhook;
