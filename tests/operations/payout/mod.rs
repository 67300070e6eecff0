//! Payouts to caregivers.

mod acknowledge_payout_deposit;
mod repair_payout_receipt;
