//! Reads: of the state of one instant, of lists, of the past, and of the events.

mod bases;
mod event_pages;
pub mod lists;
pub mod min_position;
pub mod past;
mod past_api;
mod reads;
