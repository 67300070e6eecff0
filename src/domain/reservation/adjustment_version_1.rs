//! Events of adjustments of version 1, in which a captured payment named neither the adjustment nor the
//! amount.

use serde::Deserialize;
use uuid::Uuid;

use super::adjustment_event::{AdjustmentCameIn, PaymentCaptured, PaymentChangeAdjustmentEvent};
use crate::base::codec::{self, DecodeError};
use crate::base::json::AnyObject;
use crate::base::text::{Ident, PaymentId};

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct OldCaptured {
    payment_id: PaymentId,
    provider_name: Ident,
    provider_context: AnyObject,
    workflow_request_id: Uuid,
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
enum OldEvent {
    FactCameIn(Box<AdjustmentCameIn>),
    PaymentCaptured(Box<OldCaptured>),
}

/// Reads an event of version 1.
///
/// # Errors
/// When the bytes are no such event.
pub(super) fn read_event(bytes: &[u8]) -> Result<PaymentChangeAdjustmentEvent, DecodeError> {
    Ok(match codec::decode(bytes)? {
        OldEvent::FactCameIn(came) => PaymentChangeAdjustmentEvent::FactCameIn(came),
        OldEvent::PaymentCaptured(captured) => {
            PaymentChangeAdjustmentEvent::PaymentCaptured(Box::new(PaymentCaptured {
                payment_id: captured.payment_id,
                provider_name: captured.provider_name,
                provider_context: captured.provider_context,
                workflow_request_id: captured.workflow_request_id,
                adjustment_id: None,
                amount_krw: None,
            }))
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::adjustment::PaymentChangeAdjustment;
    use super::super::adjustment::samples::{pay, payment, service};
    use super::*;
    use crate::base::revision::Revision;
    use crate::base::time::Timestamp;
    use crate::domain::resource::Resource as _;

    #[test]
    fn an_event_of_version_1_has_the_same_effect_as_it_had() {
        let mut service = service();
        let unpaid: PaymentChangeAdjustment = service.state(&["adjustment-1"]).unwrap();
        pay(&mut service, &payment()).committed();
        let paid: PaymentChangeAdjustment = service.state(&["adjustment-1"]).unwrap();
        let captured = paid.payment.clone().unwrap();
        let at = captured.captured_at;
        let event = OldEvent::PaymentCaptured(Box::new(OldCaptured {
            payment_id: captured.payment_id,
            provider_name: captured.provider_name,
            provider_context: captured.provider_context,
            workflow_request_id: captured.workflow_request_id,
        }));
        let event = read_event(&codec::encode(&event)).unwrap();
        let replayed = PaymentChangeAdjustment::apply(Some(unpaid.clone()), &event, at);
        assert_eq!(replayed, paid);

        let event = OldEvent::FactCameIn(Box::new(AdjustmentCameIn {
            id: unpaid.id.clone(),
            revision: Revision::FIRST,
            fact: unpaid.fact.clone(),
        }));
        let event = read_event(&codec::encode(&event)).unwrap();
        let born = PaymentChangeAdjustment::apply(None, &event, Timestamp::default());
        assert_eq!((born.id, born.fact), (unpaid.id, unpaid.fact));
    }
}
