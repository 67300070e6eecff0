//! Payments.

mod decide_cash_receipt;
