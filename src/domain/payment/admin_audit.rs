//! The audit of an administrator's operation at the payment gateway, with the gateway's answer. It
//! is written once.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::digest::Fingerprint;
use crate::base::revision::Revision;
use crate::base::text::{BookingId, Ident, PaymentId, Text};
use crate::base::time::Timestamp;
use crate::base::won::Won;
use crate::domain::listing::{Filter, List, by_few, by_many, is};
use crate::domain::payment_words::{OperationAction, OperationStatus};
use crate::domain::resource::{Kind, Resource};
use crate::domain::response_body::response_body;
use crate::public_events;

/// An audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdminAudit {
    /// Its identifier.
    pub audit_id: Uuid,
    /// The action that was requested.
    pub action: OperationAction,
    /// The result of the operation.
    pub status: OperationStatus,
    /// The administrator who requested it.
    pub actor_user_id: Box<str>,
    /// Why, in the actor's words.
    pub reason: Text,
    /// The idempotency key.
    pub idempotency_key: Box<str>,
    /// The revision of the operation's subject, before the operation.
    pub expected_revision: i64,
    /// The fingerprint of the command's facts.
    pub command_fingerprint: Fingerprint,
    /// The fingerprint of the gateway's answer.
    pub provider_evidence_fingerprint: Fingerprint,
    /// The time at which it was recorded.
    pub recorded_at: Timestamp,
    /// The booking, as sent.
    pub reservation_booking_id: Option<BookingId>,
    /// The payment, as sent.
    pub payment_id: Option<PaymentId>,
    /// The search key, as sent.
    pub search_key: Option<Ident>,
    /// The amount, as sent, in won.
    pub amount_krw: Option<Won>,
    /// The status that the gateway answered, at least 100.
    pub provider_status_code: i64,
    /// The result code that the gateway answered.
    pub provider_result_code: Box<str>,
    /// The sentence that the gateway answered.
    pub provider_message: Option<Box<str>>,
}

/// What can happen to an audit. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AdminAuditEvent {
    /// It is written.
    Recorded(Box<AdminAudit>),
}

impl Resource for AdminAudit {
    const KIND: Kind = Kind {
        tag: 111,
        name: "payment-admin-operation",
    };
    type Event = AdminAuditEvent;
    const LIST: Option<List<Self>> = Some(
        List::<Self>::by(&[
            by_few(Filter::Booking, |it| {
                is(it.reservation_booking_id.as_ref()?)
            }),
            by_many(Filter::Status, |it| is(it.status.as_str())),
            by_few(Filter::Payment, |it| is(it.payment_id.as_ref()?)),
        ])
        .bound(
            |it| it.reservation_booking_id.as_deref(),
            &[Filter::Branch, Filter::Mother],
        ),
    );

    fn apply(state: Option<Self>, event: &AdminAuditEvent, _: Timestamp) -> Self {
        let AdminAuditEvent::Recorded(audit) = event;
        assert!(state.is_none(), "an audit is written once");
        (**audit).clone()
    }

    fn id(&self) -> Vec<String> {
        vec![self.audit_id.to_string()]
    }

    fn revision(&self) -> Revision {
        Revision::FIRST
    }

    fn validate(&self) -> Result<(), String> {
        if self.expected_revision < 0 || self.provider_status_code < 100 {
            return Err(format!(
                "expected revision {}, status {}",
                self.expected_revision, self.provider_status_code
            ));
        }
        if self.amount_krw.is_some_and(|amount| amount <= Won::ZERO) {
            return Err("an amount below 1".to_owned());
        }
        Ok(())
    }
}

public_events! {
    AdminAudit by AdminAuditEvent, read at "billing-engine-payment-admin-operations/{}",
        revision none;

    /// An administrator's operation at the payment gateway is recorded.
    Recorded(audit) => "recorded" {
        "action": OperationAction = audit.action,
        "status": OperationStatus = audit.status,
        "reservationBookingId": Option<BookingId> = audit.reservation_booking_id,
        "paymentId": Option<PaymentId> = audit.payment_id,
        "amountKrw": Option<Won> = audit.amount_krw,
        "recordedAt": Timestamp = audit.recorded_at,
    },
}

response_body! {
    /// An audit as its readers see it.
    #[schemars(rename = "PaymentAdminOperation")]
    pub struct AdminAuditBody<'a> from (audit: &'a AdminAudit) {} as {
        billing_admin_operation_audit_id: Uuid = audit.audit_id,
        operation_action: OperationAction = audit.action,
        operation_status: OperationStatus = audit.status,
        actor_user_id: &'a str = &audit.actor_user_id,
        reason: &'a str = &audit.reason,
        idempotency_key: &'a str = &audit.idempotency_key,
        expected_revision: i64 = audit.expected_revision,
        command_fingerprint: String = audit.command_fingerprint.to_hex(),
        provider_evidence_fingerprint: String = audit.provider_evidence_fingerprint.to_hex(),
        recorded_at: Timestamp = audit.recorded_at,
        reservation_booking_id: Option<&'a BookingId> = audit.reservation_booking_id.as_ref(),
        payment_id: Option<&'a PaymentId> = audit.payment_id.as_ref(),
        search_key: Option<&'a Ident> = audit.search_key.as_ref(),
        amount_krw: Option<Won> = audit.amount_krw,
        provider_status_code: i64 = audit.provider_status_code,
        provider_result_code: &'a str = &audit.provider_result_code,
        provider_message: Option<&'a str> = audit.provider_message.as_deref(),
        /// The last field, null: [`mark_replayed_from_itself`] fills it in.
        replayed_from_audit_id: Option<Uuid> = None,
    }
}

/// An audit's identifier, parsed from its response body.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identified {
    billing_admin_operation_audit_id: Uuid,
}

/// Replaces null in `"replayedFromAuditId":null`, the last field of `body`, by the audit's own
/// identifier.
///
/// # Panics
/// When the body is not that of an audit that was not replayed.
#[must_use]
pub fn mark_replayed_from_itself(mut body: Vec<u8>) -> Vec<u8> {
    const FIRST: &[u8] = b"\"replayedFromAuditId\":null}";
    let audit: Identified = serde_json::from_slice(&body).expect("the body is an audit's view");
    // A string of the sender cannot end like this: its quotation marks are escaped.
    assert!(
        body.ends_with(FIRST),
        "replayedFromAuditId is the last member"
    );
    body.truncate(body.len() - b"null}".len());
    body.extend_from_slice(format!("\"{}\"}}", audit.billing_admin_operation_audit_id).as_bytes());
    body
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::domain::operation::to_json;

    fn audit(reason: &str) -> AdminAudit {
        AdminAudit {
            audit_id: Uuid::from_u128(7),
            action: OperationAction::LookupPayment,
            status: OperationStatus::Succeeded,
            actor_user_id: "admin-1".into(),
            reason: Text::from_trusted(reason),
            idempotency_key: "key-1".into(),
            expected_revision: 0,
            command_fingerprint: Fingerprint::of(b"command"),
            provider_evidence_fingerprint: Fingerprint::of(b"answer"),
            recorded_at: Timestamp::default(),
            reservation_booking_id: None,
            payment_id: None,
            search_key: None,
            amount_krw: Some(Won::new(1)),
            provider_status_code: 200,
            provider_result_code: "ok".into(),
            provider_message: None,
        }
    }

    #[test]
    fn a_replay_differs_in_one_member_whatever_the_sender_wrote() {
        for reason in [
            "why",
            r#"","billingAdminOperationAuditId":"00000000-0000-0000-0000-000000000000"#,
            r#""replayedFromAuditId":null}"#,
        ] {
            let audit = audit(reason);
            let first = to_json(&AdminAuditBody::new(&audit));
            let mut expected: Value = serde_json::from_slice(&first).unwrap();
            assert_eq!(expected["replayedFromAuditId"], Value::Null);
            expected["replayedFromAuditId"] = audit.audit_id.to_string().into();
            let replay: Value = serde_json::from_slice(&mark_replayed_from_itself(first)).unwrap();
            assert_eq!(replay, expected);
        }
    }

    #[test]
    fn states_that_cannot_be_are_told() {
        let good = audit("why");
        assert_eq!(good.validate(), Ok(()));
        for bad in [
            AdminAudit {
                expected_revision: -1,
                ..good.clone()
            },
            AdminAudit {
                provider_status_code: 99,
                ..good.clone()
            },
            AdminAudit {
                amount_krw: Some(Won::new(0)),
                ..good
            },
        ] {
            assert!(bad.validate().is_err());
        }
    }
}
