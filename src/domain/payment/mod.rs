//! Payments for reservations: what is owed, how it may be paid, and which receipts are due.
//!
//! What a product of the catalogue allows comes in as the fact
//! [`PaymentProductPlan`](super::reference::kinds::payment_product_plan::PaymentProductPlan); whether a
//! cash receipt may be issued follows from it alone, and is decided in one place for everybody
//! who asks.
//!
//! An [`Obligation`](obligation::Obligation) is what a mother owes. It is pre-registered once:
//!
//! ```text
//! open ──pre-register──▶ pre-registered: by whom, at which fee, with which cash receipt
//!                        (frozen; whatever the fact says later)
//! ```
//!
//! What administrators do at the payment gateway is written down operation by operation, each an
//! [`AdminAudit`](admin_audit::AdminAudit); their order is kept by the revision of what they
//! operate on: a payment, or a search key.

pub mod admin_audit;
pub mod administer_gateway;
pub mod authority;
pub mod decide_cash_receipt;
pub mod gateway;
pub mod gateway_subject;
pub mod obligation;
pub mod pre_register;
pub mod read_admin_audit;
pub mod read_pre_registration;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod samples;
