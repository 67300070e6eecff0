//! Reservations: how they are created, and the decisions on them afterwards.
//!
//! A *draft* is another system's fact until it is confirmed; the confirmation belongs to this
//! service, and is final:
//!
//! ```text
//!  (none) ──first fact──▶ draft ──later fact──▶ draft
//!                               ──confirm_reservation_draft──▶ confirmed draft, revision + 1
//!                                                              + a booking (none for a consultation)
//!                                                              + a payment obligation
//!  confirmed draft ──later fact──▶ the same confirmation beside the later fact
//! ```
//!
//! The *care-team roster* of a booking is the sequence of its assignment decisions. Each decision
//! fills a slot, named by its target key, and may empty the slot of an earlier assignment that it
//! replaces. A roster is at revision 0 before its first decision and advances by one with each.
//!
//! The *financial lifecycle* of a booking and its *payment-change adjustments*. The system that
//! owns the adjustments' facts requests adjustments, makes them payable and cancels them:
//!
//! ```text
//!  financial lifecycle   (none) ──finalize_charge──▶ charge_finalized ──finalize_charge──▶ anew
//!  change adjustment     payable ──capture_adjustment_payment──▶ paid
//! ```

pub mod adjustment;
pub mod adjustment_event;
mod adjustment_version_1;
pub mod assign_caregiver;
pub mod capture_adjustment_payment;
pub mod confirm_reservation_draft;
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
