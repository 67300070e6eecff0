//! The receipts of caregivers' payouts, as far as they are known.
//!
//! A *receipt state* belongs to one payout: a booking, an assignment under contract, and the
//! instruction to pay.
//!
//! ```text
//!  unrecorded ──repair_payout_receipt──▶ repaired ◀──repair_payout_receipt──┐
//!      └───────acknowledge_payout_deposit──▶ acknowledged ──────────────────┘
//! ```
//!
//! `unrecorded` stands for revision 0: no receipt state exists yet, and none can be read. A deposit
//! is acknowledged once; a repair after that changes the state, but the acknowledgement of the
//! deposit stays.

pub mod acknowledge_payout_deposit;
mod guards;
pub mod read_receipt_state;
pub mod repair_payout_receipt;
#[cfg(test)]
mod samples;
pub mod state;
