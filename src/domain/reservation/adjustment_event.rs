//! What can happen to a payment-change adjustment.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::json::AnyObject;
use crate::base::revision::Revision;
use crate::base::text::{Ident, PaymentId};
use crate::base::won::Won;
use crate::domain::reference::kinds::payment_change_adjustment::PaymentChangeAdjustmentFact;

/// The event that a fact comes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdjustmentCameIn {
    /// The adjustment's identifier.
    pub id: Box<str>,
    /// The fact's revision.
    pub revision: Revision,
    /// The facts.
    pub fact: PaymentChangeAdjustmentFact,
}

/// The event that the mother's payment is captured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentCaptured {
    /// The payment.
    pub payment_id: PaymentId,
    /// The provider that collected it.
    pub provider_name: Ident,
    /// The provider's data about it.
    pub provider_context: AnyObject,
    /// The workflow that is asked to continue the settlement.
    pub workflow_request_id: Uuid,
    /// The adjustment; `None` in events of version 1, as the amount is.
    pub adjustment_id: Option<Ident>,
    /// The amount that is paid, in won.
    pub amount_krw: Option<Won>,
}

/// What can happen to an adjustment. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PaymentChangeAdjustmentEvent {
    /// A fact comes in; the first one creates the adjustment.
    FactCameIn(Box<AdjustmentCameIn>),
    /// The mother's payment is captured.
    PaymentCaptured(Box<PaymentCaptured>),
}
