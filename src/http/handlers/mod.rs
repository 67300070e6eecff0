//! The handlers: they answer each kind of request once its route is known.

mod commands;
mod console;
pub mod events;
pub mod facts;
mod outbox;
mod reads;
mod specials;
