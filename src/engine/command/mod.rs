//! The steps of one command: its idempotency key, the actor of its resource, the decision with its read set, and the
//! response.

mod awaiting_receivers;
pub(super) mod commit;
mod idempotency;
mod lifecycle;
mod pipeline;
mod read_set;
mod resource;
mod second_key;
