//! Reservations: how one comes into being, and what is decided on it afterwards.
//!
//! A *draft* is another system's fact until it is confirmed; its confirmation is this service's,
//! and for good:
//!
//! ```text
//!  (none) ──first fact──▶ draft ──later fact──▶ draft
//!                               ──confirm_draft──▶ confirmed draft, revision + 1
//!                                                  + a booking (none for a consultation)
//!                                                  + a payment obligation
//!  confirmed draft ──later fact──▶ the same confirmation beside the later fact
//! ```

pub mod confirm_draft;
pub mod draft;
