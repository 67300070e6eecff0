//! Delivering: how what is committed is brought to somebody outside, attempt by attempt, until it
//! is taken or given up.
//!
//! [`channel`] is the whole of the rules, without a clock and without a network: order by subject,
//! pauses, how many are on their way at once, and what of it stands in the log. What it is fed from
//! and what carries an attempt out are its owner's: [`dispatcher`] feeds the events of the log to
//! webhooks.

pub mod channel;
pub mod dispatcher;
