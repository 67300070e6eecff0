//! The way of one command: its idempotency key, the actor of its resource, the decision and the read
//! set that it rests on, the response.

mod idempotency;
mod lifecycle;
mod pipeline;
mod read_set;
mod resource;
mod second_key;
mod settling;
