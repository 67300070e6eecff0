//! Reservations: their charges, and the payments that change them.
//!
//! ```text
//!  financial lifecycle   (none) ──finalize_charge──▶ charge_finalized ──finalize_charge──▶ anew
//!  change adjustment     payable ──capture_adjustment_payment──▶ paid
//! ```
//!
//! An adjustment is asked for, made payable, and cancelled by the system whose fact it is.

pub mod adjustment;
pub mod capture_adjustment_payment;
pub mod finalize_charge;
pub mod ledger;
pub mod lifecycle;
pub mod read_adjustment;
pub mod read_lifecycle;
