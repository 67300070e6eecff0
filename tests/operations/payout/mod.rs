//! Payouts to caregivers.

mod acknowledge_deposit;
mod repair_receipt;
