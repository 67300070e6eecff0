//! Payments for reservations: what is owed, how it may be paid, and which receipts are due.
//!
//! What a product of the catalogue allows comes in as the fact
//! [`PaymentProductPlan`](super::reference::payment_product_plan::PaymentProductPlan); whether a
//! cash receipt may be issued follows from it alone, and is decided in one place for everybody
//! who asks.

pub mod decide_cash_receipt;
pub mod words;
