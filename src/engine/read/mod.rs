//! Reads: of the state at one instant, of lists, of past states, and of events.

mod bases;
mod event_pages;
pub mod lists;
pub mod past;
mod reads;
