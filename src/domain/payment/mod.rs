//! Payments for reservations: what is owed, how it may be paid, and which receipts are due.
//!
//! The rules of a product of the catalogue come in as the fact
//! [`PaymentProductPlan`](super::reference::kinds::payment_product_plan::PaymentProductPlan). Whether a
//! cash receipt may be issued depends on that plan and the request alone, and is decided in one place
//! for all operations.
//!
//! An [`Obligation`](obligation::Obligation) is an amount that a mother owes. It is pre-registered
//! once:
//!
//! ```text
//! open ──pre-register──▶ pre-registered: by whom, at which fee, with which cash receipt
//!                        (frozen; whatever the fact says later)
//! ```
//!
//! Each operation of an administrator at the payment gateway is recorded as an
//! [`AdminAudit`](admin_audit::AdminAudit). The revision of its subject, a payment or a search key,
//! keeps the operations in order.

pub mod admin_audit;
pub mod administer_gateway;
pub mod authority;
pub mod decide_cash_receipt_eligibility;
pub mod gateway;
pub mod gateway_subject;
pub mod obligation;
pub mod pre_register_payment;
pub mod read_admin_audit;
pub mod read_pre_registration;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod samples;
