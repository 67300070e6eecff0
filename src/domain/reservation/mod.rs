//! What is decided on a reservation.
//!
//! The *care-team roster* of a booking is the sequence of its assignment decisions. Each fills a
//! slot, named by its target key, and may empty the slot of an earlier one that it replaces. A
//! roster stands at revision 0 before its first decision and advances by one with each.

pub mod assign_caregiver;
pub mod read_roster;
pub mod roster;
#[cfg(test)]
mod samples;
