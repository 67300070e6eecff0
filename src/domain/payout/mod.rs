//! What is known of the receipt of a caregiver's payout.
//!
//! A *receipt state* belongs to one payout: a booking, an assignment under contract, and the
//! instruction that says what is to be paid.
//!
//! ```text
//!  unrecorded ──repair_receipt──▶ repaired ◀──repair_receipt──┐
//!      └───────acknowledge_deposit──▶ acknowledged ───────────┘
//! ```
//!
//! `unrecorded` is the state at revision 0: there is none yet, and none can be read. A deposit is
//! acknowledged once; a repair after it changes the state, and not that the deposit was
//! acknowledged.

pub mod acknowledge_deposit;
mod guards;
pub mod read_receipt_state;
pub mod repair_receipt;
#[cfg(test)]
mod samples;
pub mod state;
