//! A payment-change adjustment: the fact of its own system, and the mother's payment, which is
//! captured here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::adjustment_event::{AdjustmentCameIn, PaymentChangeAdjustmentEvent};
use super::adjustment_version_1;
use crate::base::digest::Digest;
use crate::base::json::AnyObject;
use crate::base::revision::Revision;
use crate::base::text::{BookingId, Ident, PaymentId};
use crate::base::time::Timestamp;
use crate::base::won::Won;
use crate::domain::index::{Index, IndexKey};
use crate::domain::listing::{Filter, List, by_few, by_many, is};
use crate::domain::outbox::message::{Message, by_reference};
use crate::domain::rank::Rank;
use crate::domain::reference::kinds::payment_change_adjustment::{
    AdjustmentPreRegistration, PaymentChangeAdjustmentFact, RequestedAdjustmentStatus,
    adjustments_of,
};
use crate::domain::reference::{FactHolder, FactKind};
use crate::domain::resource::{Kind, ReadView, Resource};
use crate::domain::response_body::response_body;
use crate::domain::stored::Older;
use crate::{public_events, wire_enum};

wire_enum! {
    /// An adjustment's status.
    pub enum AdjustmentStatus {
        /// It is asked for.
        Requested = "requested",
        /// The mother may pay it.
        Payable = "payable",
        /// It is not to be paid.
        Cancelled = "cancelled",
        /// The mother has paid it.
        Paid = "paid",
    }
}

wire_enum! {
    /// How far the settlement's continuation is.
    pub enum ContinuationStatus {
        /// It waits for its workflow.
        Queued = "queued",
        /// Its workflow has taken the message that asks for it.
        Delivered = "delivered",
    }
}

/// A captured payment of the mother.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedPayment {
    /// The payment.
    pub payment_id: PaymentId,
    /// The provider that collected it.
    pub provider_name: Ident,
    /// The provider's data about it.
    pub provider_context: AnyObject,
    /// When it was captured.
    pub captured_at: Timestamp,
    /// The workflow that was asked to continue the settlement.
    pub workflow_request_id: Uuid,
}

/// A payment-change adjustment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaymentChangeAdjustment {
    /// Its identifier.
    pub id: Box<str>,
    /// The number of commits that it has seen.
    pub revision: Revision,
    /// The revision of the fact, as its own system counts. A payment does not change the fact, so
    /// it does not change this revision.
    pub fact_revision: Revision,
    /// The last fact that came in.
    pub fact: PaymentChangeAdjustmentFact,
    /// The time of the last change.
    pub updated_at: Timestamp,
    /// The payment; `None` until one is captured.
    pub payment: Option<CapturedPayment>,
}

impl Resource for PaymentChangeAdjustment {
    const KIND: Kind = PaymentChangeAdjustmentFact::KIND;
    type Event = PaymentChangeAdjustmentEvent;
    /// In version 1, the event of a payment named neither the adjustment nor the amount.
    const OLDER: &'static [Older<Self, PaymentChangeAdjustmentEvent>] = &[Older {
        event: adjustment_version_1::read_event,
        ..Older::ADDED_TO
    }];
    const LIST: Option<List<Self>> = Some(List {
        together: Some(|it| adjustments_of(&it.fact.reservation_booking_id).0),
        ..List::<Self>::by(&[
            by_few(Filter::Booking, |it| is(&it.fact.reservation_booking_id)),
            by_many(Filter::Status, |it| is(it.status().as_str())),
            by_few(Filter::Payment, |it| is(it.payment_id()?)),
            by_few(Filter::Mother, |it| is(&it.fact.mother_user_id)),
        ])
        .bound(
            |it| Some(&it.fact.reservation_booking_id),
            &[Filter::Branch],
        )
    });

    fn apply(state: Option<Self>, event: &PaymentChangeAdjustmentEvent, at: Timestamp) -> Self {
        let revision = state
            .as_ref()
            .map_or(Revision::FIRST, |state| state.revision.next());
        match (state, event) {
            (state, PaymentChangeAdjustmentEvent::FactCameIn(incoming)) => {
                assert!(
                    state.is_none_or(|state| state.payment.is_none()),
                    "what is paid stays as it is"
                );
                Self {
                    id: incoming.id.clone(),
                    revision,
                    fact_revision: incoming.revision,
                    fact: incoming.fact.clone(),
                    updated_at: at,
                    payment: None,
                }
            }
            (Some(adjustment), PaymentChangeAdjustmentEvent::PaymentCaptured(captured)) => {
                assert!(adjustment.is_payable(), "only what is payable is paid");
                Self {
                    revision,
                    updated_at: at,
                    payment: Some(CapturedPayment {
                        payment_id: captured.payment_id.clone(),
                        provider_name: captured.provider_name.clone(),
                        provider_context: captured.provider_context.clone(),
                        captured_at: at,
                        workflow_request_id: captured.workflow_request_id,
                    }),
                    ..adjustment
                }
            }
            (None, PaymentChangeAdjustmentEvent::PaymentCaptured(_)) => {
                panic!("an adjustment that does not exist cannot be paid")
            }
        }
    }

    fn id(&self) -> Vec<String> {
        vec![String::from(&*self.id)]
    }

    /// Returns the path of its booking, where the latest adjustment is read.
    fn path_by(&self, _: Vec<String>) -> Vec<String> {
        vec![self.fact.reservation_booking_id.as_str().to_owned()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn unique_keys(&self) -> Vec<IndexKey> {
        self.fact.unique_keys(&self.id)
    }

    /// Returns the list of what its payment has paid. A list, and not a unique key: a directory in which
    /// a payment was captured twice must still start.
    fn secondary_keys(&self) -> Vec<IndexKey> {
        let payments = self.payment.iter();
        payments
            .map(|payment| paid_with(&self.fact.mother_user_id, &payment.payment_id))
            .collect()
    }

    fn ranked(&self) -> Vec<(IndexKey, Rank)> {
        let list = adjustments_of(&self.fact.reservation_booking_id);
        vec![(list, Rank::new(self.fact.requested_at, &self.id))]
    }

    fn validate(&self) -> Result<(), String> {
        if self.revision < Revision::FIRST {
            return Err(format!("an adjustment at revision {}", self.revision));
        }
        if self.payment.is_some() && !self.was_payable() {
            return Err("an adjustment that was not payable is paid".to_owned());
        }
        Ok(())
    }
}

public_events! {
    PaymentChangeAdjustment by PaymentChangeAdjustmentEvent,
        read at "reservation-payment-change-adjustments/{}", revision none;

    /// The adjustment's fact came in.
    FactCameIn(came) => fact(&came.id, came.revision) and "changed" {
        "adjustmentId": Box<str> = came.id,
        "adjustmentStatus": RequestedAdjustmentStatus = came.fact.adjustment_status,
        "amountKrw": Won = came.fact.mother_payable_adjustment_krw,
    },
    /// The mother has paid the adjustment. Events of older commits have null for its identifier and
    /// the amount.
    PaymentCaptured(captured) => "payment-captured" {
        "paymentId": PaymentId = captured.payment_id,
        "providerName": Ident = captured.provider_name,
        "workflowRequestId": Uuid = captured.workflow_request_id,
        "adjustmentId": Option<Ident> = captured.adjustment_id,
        "amountKrw": Option<Won> = captured.amount_krw,
    },
}

/// Returns the key of the list of the adjustments that this mother has paid with this payment. The
/// idempotency key of the capture has the same scope.
fn paid_with(mother_user_id: &Ident, payment_id: &PaymentId) -> IndexKey {
    IndexKey::new(Index::CapturedPayment, &[mother_user_id, payment_id])
}

impl PaymentChangeAdjustment {
    /// Returns the adjustments that this mother has paid with this payment.
    #[must_use]
    pub fn all_paid_with(
        view: &ReadView<'_>,
        mother_user_id: &Ident,
        payment_id: &PaymentId,
    ) -> Vec<Self> {
        view.all_listed(paid_with(mother_user_id, payment_id))
    }

    /// Returns its status.
    #[must_use]
    pub fn status(&self) -> AdjustmentStatus {
        if self.payment.is_some() {
            return AdjustmentStatus::Paid;
        }
        match self.fact.adjustment_status {
            RequestedAdjustmentStatus::Requested => AdjustmentStatus::Requested,
            RequestedAdjustmentStatus::Payable => AdjustmentStatus::Payable,
            RequestedAdjustmentStatus::Cancelled => AdjustmentStatus::Cancelled,
        }
    }

    /// Returns the payment with which it was paid, or is to be paid.
    fn payment_id(&self) -> Option<&PaymentId> {
        let paid = self.payment.as_ref().map(|payment| &payment.payment_id);
        let registered = self.fact.pre_registration.as_ref();
        paid.or(registered.map(|registered| &registered.payment_id))
    }

    /// Whether the mother may pay it: it is payable, and the amount is above zero.
    #[must_use]
    pub fn is_payable(&self) -> bool {
        self.payment.is_none() && self.was_payable()
    }

    fn was_payable(&self) -> bool {
        self.fact.adjustment_status == RequestedAdjustmentStatus::Payable
            && self.fact.mother_payable_adjustment_krw > Won::ZERO
    }

    /// Returns the status of the settlement's continuation, if one was requested: it is delivered
    /// once the message with the request was taken.
    #[must_use]
    pub fn continuation(&self, view: &ReadView<'_>) -> ContinuationStatus {
        let payment = self.payment.as_ref();
        let name = payment.map(|payment| by_reference(payment.workflow_request_id));
        let message = name.and_then(|name| view.named::<Message>(name));
        match message {
            Some(message) if message.is_taken() => ContinuationStatus::Delivered,
            _ => ContinuationStatus::Queued,
        }
    }

    /// Returns the booking's latest adjustment by the time of its request; at equal times, the one
    /// with the largest identifier.
    #[must_use]
    pub fn latest_of(view: &ReadView<'_>, reservation_booking_id: &BookingId) -> Option<Self> {
        view.last_ranked(adjustments_of(reservation_booking_id))
    }

    /// Returns the key of the adjustment that [`PaymentChangeAdjustment::latest_of`] finds.
    #[must_use]
    pub fn latest_key_of(
        view: &ReadView<'_>,
        reservation_booking_id: &BookingId,
    ) -> Option<Digest> {
        view.last_ranked_key(adjustments_of(reservation_booking_id))
    }
}

impl FactHolder for PaymentChangeAdjustment {
    type Facts = PaymentChangeAdjustmentFact;

    // It takes no later revision, whatever that says.
    const CONFLICT_AT: &'static str = "revision";

    fn fact(&self) -> Option<(Revision, &PaymentChangeAdjustmentFact)> {
        Some((self.fact_revision, &self.fact))
    }

    /// Decides a fact that comes in: its own system can no longer change an adjustment that is
    /// paid.
    fn put(
        state: Option<&Self>,
        id: &str,
        revision: Revision,
        fact: &PaymentChangeAdjustmentFact,
    ) -> Option<PaymentChangeAdjustmentEvent> {
        if state.is_some_and(|adjustment| adjustment.payment.is_some()) {
            return None;
        }
        Some(PaymentChangeAdjustmentEvent::FactCameIn(Box::new(
            AdjustmentCameIn {
                id: id.into(),
                revision,
                fact: fact.clone(),
            },
        )))
    }
}

response_body! {
    /// An adjustment as its readers see it.
    #[schemars(rename = "PaymentChangeAdjustment")]
    pub struct PaymentChangeAdjustmentBody<'a> from (adjustment: &'a PaymentChangeAdjustment, continuation: ContinuationStatus) {
        // `continuation` says how far the settlement's continuation is, if it was asked for.
        let fact = &adjustment.fact;
        let payment = adjustment.payment.as_ref();
        let captured_at = payment.map(|payment| payment.captured_at);
    } as {
        payment_change_adjustment_id: &'a str = &adjustment.id,
        reservation_booking_id: &'a BookingId = &fact.reservation_booking_id,
        mother_user_id: &'a Ident = &fact.mother_user_id,
        customer_delta_krw: Won = fact.customer_delta_krw,
        coupon_adjustment_krw: Won = fact.coupon_adjustment_krw,
        pure_customer_amount_krw: Won = fact.pure_customer_amount_krw,
        mother_payable_adjustment_krw: Won = fact.mother_payable_adjustment_krw,
        adjustment_status: AdjustmentStatus = adjustment.status(),
        pre_registration: Option<&'a AdjustmentPreRegistration> = fact.pre_registration.as_ref(),
        payment_receipt: Option<ReceiptBody<'a>> = payment.map(|payment| ReceiptBody {
            payment_id: &payment.payment_id,
            provider_name: &payment.provider_name,
            provider_context: &payment.provider_context,
            deposited_at: payment.captured_at,
        }),
        settlement_continuation_status: Option<ContinuationStatus> = payment.map(|_| continuation),
        settlement_continuation_workflow_request_id: Option<Uuid> = payment
            .map(|payment| payment.workflow_request_id),
        /// Nothing that happens here gives one.
        settlement_continuation_reason: Option<&'a str> = None,
        settlement_continuation_recorded_at: Option<Timestamp> = captured_at,
        requested_at: Timestamp = fact.requested_at,
        completed_at: Option<Timestamp> = captured_at,
        updated_at: Timestamp = adjustment.updated_at,
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PaymentReceipt")]
struct ReceiptBody<'a> {
    payment_id: &'a PaymentId,
    provider_name: &'a Ident,
    provider_context: &'a AnyObject,
    deposited_at: Timestamp,
}

/// A booking with an adjustment that its mother may pay, for the tests of this group.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod samples {
    use serde_json::{Value, json};

    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::scenario::{Scenario, Then, member};

    /// The booking.
    pub(crate) const PATH: [(&str, &str); 1] = [("reservationBookingId", "booking-1")];

    /// The mother who booked.
    pub(crate) fn mother() -> Actor {
        member(ActorKind::Mother, "mother-1", "member-1")
    }

    /// The facts of a booking of the mother's.
    pub(crate) fn booking() -> Value {
        json!({
            "motherUserId": "mother-1",
            "motherMemberId": "member-1",
            "branchProfileId": "branch-1",
            "state": "active",
        })
    }

    /// Returns the facts of an adjustment for which a payment was prepared.
    pub(crate) fn adjustment() -> Value {
        json!({
            "reservationBookingId": "booking-1",
            "motherUserId": "mother-1",
            "customerDeltaKrw": 50_000,
            "couponAdjustmentKrw": -10_000,
            "pureCustomerAmountKrw": 50_000,
            "motherPayableAdjustmentKrw": 40_000,
            "adjustmentStatus": "payable",
            "preRegistration": {
                "paymentId": "payment-1",
                "providerName": "gateway-1",
                "preRegisteredAt": "2026-11-18T09:00:00+09:00",
            },
            "requestedAt": "2026-11-18T00:00:00Z",
        })
    }

    /// Returns the body of the mother's payment.
    pub(crate) fn payment() -> Value {
        json!({
            "motherUserId": "mother-1",
            "paymentId": "payment-1",
            "providerName": "gateway-1",
            "providerContext": {"z": [1, {"deep": null}], "a": "한글", "amount": 1.50},
        })
    }

    /// Makes a service with the booking and its adjustment `adjustment-1`; the mother acts.
    pub(crate) fn service() -> Scenario {
        let mut scenario = Scenario::new();
        scenario
            .fact("reservation-booking", "booking-1", 1, booking())
            .at("2026-11-19T00:00:00Z")
            .fact("payment-change-adjustment", "adjustment-1", 3, adjustment())
            .at("2026-11-20T12:00:00Z")
            .acting(mother());
        scenario
    }

    /// Sends the payment as the acting actor.
    pub(crate) fn pay(scenario: &mut Scenario, body: &Value) -> Then {
        scenario.when("capture_adjustment_payment", &PATH, body)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::adjustment_event::PaymentCaptured;
    use super::samples::{adjustment, pay, payment, service};
    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::event::{Changed, PublicEvents as _};
    use crate::domain::scenario::{Scenario, Then, actor, with};

    const KIND: &str = "payment-change-adjustment";

    fn state(scenario: &Scenario) -> PaymentChangeAdjustment {
        scenario.state(&["adjustment-1"]).unwrap()
    }

    fn put(scenario: &mut Scenario, revision: i64, change: &[(&str, Value)]) -> Then {
        scenario.put_fact(KIND, "adjustment-1", revision, with(&adjustment(), change))
    }

    #[test]
    fn until_it_is_paid_a_later_fact_takes_its_place() {
        let mut service = service();
        assert_eq!(state(&service).fact_revision.number(), 3);
        assert_eq!(state(&service).revision.number(), 1);
        let cancelled = [("adjustmentStatus", json!("cancelled"))];
        assert_eq!(
            put(service.at("2026-11-21T00:00:00Z"), 7, &cancelled).committed(),
            "applied"
        );
        let adjustment = state(&service);
        assert_eq!(adjustment.status(), AdjustmentStatus::Cancelled);
        assert_eq!(adjustment.fact_revision.number(), 7);
        assert_eq!(adjustment.revision.number(), 2);
        assert_eq!(
            adjustment.updated_at.to_string(),
            "2026-11-21T00:00:00.000Z"
        );
        assert_eq!(put(&mut service, 6, &[]).code(), "stale");
        assert_eq!(put(&mut service, 7, &cancelled).answered(), "unchanged");
        assert_eq!(put(&mut service, 7, &[]).code(), "conflict");
    }

    #[test]
    fn once_it_is_paid_a_later_fact_is_a_conflict_and_the_fact_stays() {
        let mut service = service();
        pay(&mut service, &payment()).committed();
        let paid = state(&service);
        for revision in [4, 5, 1 << 62] {
            assert_eq!(put(&mut service, revision, &[]).code(), "conflict");
            let cancelled = [("adjustmentStatus", json!("cancelled"))];
            assert_eq!(put(&mut service, revision, &cancelled).code(), "conflict");
        }
        let faults = put(&mut service, 4, &[]).faults();
        assert_eq!(faults, [("revision".to_owned(), "not_allowed")]);
        assert_eq!(put(&mut service, 3, &[]).answered(), "unchanged");
        assert_eq!(put(&mut service, 2, &[]).code(), "stale");
        assert_eq!(state(&service), paid);
        assert_eq!(paid.revision.number(), 2);
        service.acting(Actor {
            permissions: vec!["facts:read".into()],
            ..actor(ActorKind::SystemWorkflow, "workflow")
        });
        let (tag, body) = service
            .read("read_fact", &[("kind", KIND), ("id", "adjustment-1")])
            .unwrap();
        assert_eq!(tag, "3");
        assert_eq!(body["facts"]["adjustmentStatus"], "payable");
    }

    #[test]
    fn events_have_the_adjustments_id_status_and_amount_null_if_unrecorded() {
        let adjustment = state(&service());
        let changed = Changed {
            is_fact: true,
            advances: true,
            path: &["booking-1"],
            revision: Revision::FIRST,
        };
        let fields = |event: &PaymentChangeAdjustmentEvent| {
            let told = PaymentChangeAdjustment::public_events(event, &changed);
            told.last().unwrap().fields.clone()
        };
        let came = AdjustmentCameIn {
            id: adjustment.id,
            revision: Revision::FIRST,
            fact: adjustment.fact,
        };
        assert_eq!(
            fields(&PaymentChangeAdjustmentEvent::FactCameIn(Box::new(came))),
            r#","adjustmentId":"adjustment-1","adjustmentStatus":"payable","amountKrw":40000"#
        );
        let mut captured = PaymentCaptured {
            payment_id: PaymentId::from_trusted("payment-1"),
            provider_name: Ident::from_trusted("gateway-1"),
            provider_context: paid_context(),
            workflow_request_id: Uuid::nil(),
            adjustment_id: Some(Ident::from_trusted("adjustment-1")),
            amount_krw: Some(Won::new(40_000)),
        };
        let mut told = |expected: &str| {
            let event = PaymentChangeAdjustmentEvent::PaymentCaptured(Box::new(captured.clone()));
            let found = fields(&event);
            assert!(found.ends_with(expected), "{found}");
            (captured.adjustment_id, captured.amount_krw) = (None, None);
        };
        told(r#","adjustmentId":"adjustment-1","amountKrw":40000"#);
        told(r#","adjustmentId":null,"amountKrw":null"#);
    }

    fn paid_context() -> AnyObject {
        let mut service = service();
        pay(&mut service, &payment()).committed();
        state(&service).payment.unwrap().provider_context
    }

    #[test]
    fn the_latest_is_the_one_that_was_asked_for_last() {
        let mut service = service();
        let latest = |service: &Scenario| {
            let latest = service.view(|view| {
                PaymentChangeAdjustment::latest_of(view, &BookingId::from_trusted("booking-1"))
            });
            latest.unwrap().id.to_string()
        };
        let asked = |when: &str| with(&adjustment(), &[("requestedAt", json!(when))]);
        assert_eq!(latest(&service), "adjustment-1");
        service.fact(KIND, "adjustment-0", 1, asked("2026-11-17T00:00:00Z"));
        assert_eq!(latest(&service), "adjustment-1");
        // At equal times, the largest identifier counts.
        service.fact(KIND, "adjustment-0", 2, asked("2026-11-18T00:00:00Z"));
        assert_eq!(latest(&service), "adjustment-1");
        service.fact(KIND, "adjustment-2", 1, asked("2026-11-18T00:00:00Z"));
        assert_eq!(latest(&service), "adjustment-2");
        service.fact(KIND, "adjustment-0", 3, asked("2026-11-18T00:00:00.001Z"));
        assert_eq!(latest(&service), "adjustment-0");
        // A later fact may move an adjustment to another booking.
        let moved = with(
            &asked("2026-11-19T00:00:00Z"),
            &[("reservationBookingId", json!("booking-2"))],
        );
        service.fact(KIND, "adjustment-0", 4, moved);
        assert_eq!(latest(&service), "adjustment-2");
        let none = service.view(|view| {
            PaymentChangeAdjustment::latest_of(view, &BookingId::from_trusted("booking-3"))
        });
        assert_eq!(none, None);
    }

    #[test]
    fn adjustments_paid_by_a_payment_are_found_by_mother_and_payment() {
        let mut service = service();
        let found = |service: &Scenario, mother: &str, payment: &str| {
            let paid = service.view(|view| {
                let mother = Ident::from_trusted(mother);
                let payment = PaymentId::from_trusted(payment);
                PaymentChangeAdjustment::all_paid_with(view, &mother, &payment)
            });
            let ids = paid.iter().map(|adjustment| adjustment.id.to_string());
            ids.collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        // A payment that is only prepared has paid nothing.
        assert_eq!(found(&service, "mother-1", "payment-1"), none);
        pay(&mut service, &payment()).committed();
        assert_eq!(found(&service, "mother-1", "payment-1"), ["adjustment-1"]);
        assert_eq!(found(&service, "mother-1", "payment-2"), none);
        assert_eq!(found(&service, "mother-2", "payment-1"), none);
    }

    #[test]
    fn the_latest_of_many_is_found_by_reading_one() {
        let mut service = service();
        for number in 0..300 {
            let when = format!("2026-11-17T00:00:00.{number:03}Z");
            let asked = with(&adjustment(), &[("requestedAt", json!(when))]);
            service.fact(KIND, &format!("other-{number}"), 1, asked);
        }
        let (latest, read) = service.counted_view(|view| {
            PaymentChangeAdjustment::latest_of(view, &BookingId::from_trusted("booking-1"))
        });
        assert_eq!((&*latest.unwrap().id, read), ("adjustment-1", 1));
    }

    #[test]
    fn a_state_that_cannot_be_is_told() {
        let mut service = service();
        pay(&mut service, &payment()).committed();
        let mut paid = state(&service);
        assert_eq!(paid.validate(), Ok(()));
        paid.fact.mother_payable_adjustment_krw = Won::ZERO;
        assert!(paid.validate().unwrap_err().contains("not payable"));
        paid.revision = Revision::NONE;
        assert!(paid.validate().unwrap_err().contains("revision 0"));
    }
}
