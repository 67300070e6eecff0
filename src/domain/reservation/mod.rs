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
//!
//! The *care-team roster* of a booking is the sequence of its assignment decisions. Each fills a
//! slot, named by its target key, and may empty the slot of an earlier one that it replaces. A
//! roster is at revision 0 before its first decision and advances by one with each.
//!
//! The *financial lifecycle* of a booking and its *payment-change adjustments*, which are asked
//! for, made payable and cancelled by the system whose facts they are:
//!
//! ```text
//!  financial lifecycle   (none) ──finalize_charge──▶ charge_finalized ──finalize_charge──▶ anew
//!  change adjustment     payable ──capture_adjustment_payment──▶ paid
//! ```

pub mod adjustment;
pub mod assign_caregiver;
pub mod capture_adjustment_payment;
pub mod confirm_draft;
pub mod draft;
pub mod finalize_charge;
pub mod ledger;
pub mod lifecycle;
pub mod read_adjustment;
pub mod read_ledger;
pub mod read_lifecycle;
pub mod read_roster;
pub mod roster;
pub mod roster_body;
#[cfg(test)]
mod samples;
