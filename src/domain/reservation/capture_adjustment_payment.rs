//! A mother pays the latest payment-change adjustment of her booking.
//!
//! Resource: the adjustment. The payment's identifier is the key. Rejections, in the order
//! tested: the actor is no mother, or not the one that the body names (403); the booking has no
//! adjustment (404), or its latest is another mother's (403); the payment has paid an adjustment of
//! hers before, under a key that is forgotten by now, it is not payable, or the payment is not the one
//! that was prepared for it (409). The commit queues a message for the system that goes on with the
//! settlement. A payment is captured once, also where its key is forgotten.

use serde::Serialize;
use uuid::Uuid;

#[cfg(test)]
use super::adjustment::CapturedPayment;
use super::adjustment::{ContinuationStatus, PaymentChangeAdjustment, PaymentChangeAdjustmentBody};
use super::adjustment_event::{PaymentCaptured, PaymentChangeAdjustmentEvent};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::AnyObject;
use crate::base::text::{BodyKey, BookingId, Ident, PaymentId};
use crate::base::time::Timestamp;
use crate::base::won::Won;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Commit, Context, Decision, MessageAbout, Operation, to_json};
use crate::domain::outbox::topics;
use crate::domain::reference::kinds::payment_change_adjustment::PaymentChangeAdjustmentFact;
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, path_and_body, rejections};

/// The topic of the message to the settlement's workflow.
const TOPIC: &str = topics::SETTLEMENT_CONTINUATION;

path_and_body! {
    /// The content of a request.
    pub struct Command {
        /// The booking.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        body: Body,
    }
}

json_object! {
    /// The body of the request.
    pub struct Body {
        /// The mother, as a user.
        pub mother_user_id: Ident = "motherUserId",
        /// The payment: the idempotency key.
        pub payment_id: BodyKey = "paymentId",
        /// Who collected it.
        pub provider_name: Ident = "providerName",
        /// What the provider says of it.
        pub provider_context: AnyObject = "providerContext" personal Open,
    }
}

rejections! {
    /// Why no payment is captured.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only the mother whom the body names may pay an adjustment.",
        /// There is nothing to adjust.
        AdjustmentNotFound = Missing "adjustment_not_found" []
            "The booking has no payment-change adjustment.",
        /// Authority by resource.
        NotThisMother = Forbidden "permission_denied" []
            "The adjustment is another mother's.",
        /// The payment was captured with other facts; its key is forgotten by now.
        PaymentReused = Conflict "idempotency_key_reused" []
            "The paymentId was used before with other request content.",
        /// It was done before under a key that is forgotten by now; the engine finds that.
        FirstAnswerForgotten = Conflict "first_answer_forgotten" []
            "This was done before, under an idempotency key that is forgotten by now: read the resource.",
        /// It cannot be paid, or no longer.
        AdjustmentNotPayable = Conflict "adjustment_not_payable" []
            "The adjustment is not payable, or there is nothing to pay.",
        /// Another payment was prepared; the fields are named where it is found.
        PaymentMismatch = Conflict "payment_mismatch" ["paymentId", "providerName"]
            "Another payment was prepared for this adjustment.",
    }
}

impl Command {
    /// Whether it is this command that has paid the adjustment.
    fn has_paid(&self, adjustment: &PaymentChangeAdjustment) -> bool {
        let (body, fact) = (&self.body, &adjustment.fact);
        adjustment.payment.as_ref().is_some_and(|payment| {
            payment.payment_id.as_str() == body.payment_id.as_str()
                && payment.provider_name == body.provider_name
                && payment.provider_context == body.provider_context
                && fact.reservation_booking_id == self.reservation_booking_id
                && fact.mother_user_id == body.mother_user_id
        })
    }
}

impl Body {
    /// Checks that this is the payment that was prepared for the adjustment, where one was.
    fn is_as_prepared(&self, fact: &PaymentChangeAdjustmentFact) -> Result<(), Rejection> {
        let Some(prepared) = &fact.pre_registration else {
            return Ok(());
        };
        let mut mismatches = Vec::new();
        if prepared.payment_id.as_str() != self.payment_id.as_str() {
            mismatches.push("paymentId");
        }
        if prepared.provider_name != self.provider_name {
            mismatches.push("providerName");
        }
        match mismatches.is_empty() {
            true => Ok(()),
            false => Err(Rejection::from(Reason::PaymentMismatch).at(&mismatches)),
        }
    }
}

/// The message to the settlement's workflow.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContinuationRequested<'a> {
    workflow_request_id: Uuid,
    payment_change_adjustment_id: &'a str,
    reservation_booking_id: &'a BookingId,
    payment_id: &'a PaymentId,
    provider_name: &'a Ident,
    amount_krw: Won,
    deposited_at: Timestamp,
}

/// The operation.
pub struct CaptureAdjustmentPayment;

impl Operation for CaptureAdjustmentPayment {
    type Command = Command;
    type Resource = PaymentChangeAdjustment;
    type Answer = PaymentChangeAdjustmentBody<'static>;

    const DOC: &'static str = module_doc!("capture_adjustment_payment.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::Mother,
        path: &["reservation-booking-1"],
        body: r#"{
  "motherUserId": "mother-1",
  "paymentId": "adjustment-payment-2",
  "providerName": "sample-gateway",
  "providerContext": {"approval": {"number": "A-77"}}
}"#,
        changed_value: ("/providerContext", "{}"),
        needs_facts: &[
            ("reservation-booking", "reservation-booking-1"),
            ("payment-change-adjustment", "adjustment-2"),
        ],
        unique_ids: &[
            "reservation-booking-1",
            "adjustment-2",
            "adjustment-payment-2",
        ],
        id_in_response: "reservation-booking-1",
        ..Example::NEW
    };
    const KEY_FIELD: Option<&'static str> = Some("paymentId");

    #[cfg(test)]
    fn ladder() -> Ladder {
        const ADJUSTMENT: &str = "adjustment-2";
        Ladder::of(&[ActorKind::Mother])
            .then(Reason::NotPermitted, |case| {
                case.by(ActorKind::FamilyMember)
            })
            .then(Reason::AdjustmentNotFound, Case::at_unknown)
            .then(Reason::NotThisMother, |case| {
                case.alter(ADJUSTMENT, |adjustment: &mut PaymentChangeAdjustment| {
                    adjustment.fact.mother_user_id = Ident::from_trusted("another");
                })
            })
            .then(Reason::PaymentReused, |case| {
                let paid: PaymentChangeAdjustment = case.done(ADJUSTMENT);
                case.alter(ADJUSTMENT, |adjustment: &mut PaymentChangeAdjustment| {
                    adjustment.payment = paid.payment.map(|payment| CapturedPayment {
                        provider_name: Ident::from_trusted("a third"),
                        ..payment
                    });
                })
            })
            .then_by_engine(Reason::FirstAnswerForgotten)
            .then(Reason::AdjustmentNotPayable, |case| {
                case.alter(ADJUSTMENT, |adjustment: &mut PaymentChangeAdjustment| {
                    adjustment.fact.mother_payable_adjustment_krw = Won::ZERO;
                })
            })
            .then(
                Rejection::from(Reason::PaymentMismatch).at(&["providerName"]),
                |case| case.set("/providerName", "another"),
            )
    }

    fn target(command: &Command, context: &Context<'_>) -> Option<Digest> {
        PaymentChangeAdjustment::latest_key_of(&context.view, &command.reservation_booking_id)
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.body.payment_id.as_str())
    }

    fn decide(
        adjustment: Option<&PaymentChangeAdjustment>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<PaymentChangeAdjustment>, Rejection> {
        let body = &command.body;
        let actor = context.actor;
        if actor.kind != ActorKind::Mother || *actor.subject != *body.mother_user_id {
            return Err(Reason::NotPermitted.into());
        }
        let view = &context.view;
        let latest = PaymentChangeAdjustment::latest_key_of(view, &command.reservation_booking_id);
        let (Some(adjustment), Some(latest)) = (adjustment, latest) else {
            return Err(Reason::AdjustmentNotFound.into());
        };
        // A later adjustment may have come in since the engine looked this one up.
        let later = match latest == adjustment.key() {
            true => None,
            false => view.at::<PaymentChangeAdjustment>(latest),
        };
        let latest = later.as_ref().unwrap_or(adjustment);
        if latest.fact.mother_user_id != body.mother_user_id {
            return Err(Reason::NotThisMother.into());
        }
        let payment_id = PaymentId::from_trusted(body.payment_id.as_str());
        let paid = PaymentChangeAdjustment::all_paid_with(view, &body.mother_user_id, &payment_id);
        if paid.iter().any(|before| command.has_paid(before)) {
            return Ok(Decision::ReplayOf(body.payment_id.as_str().into()));
        }
        if !paid.is_empty() {
            return Err(Reason::PaymentReused.into());
        }
        if later.is_some() || !adjustment.is_payable() {
            return Err(Reason::AdjustmentNotPayable.into());
        }
        body.is_as_prepared(&adjustment.fact)?;
        let workflow_request_id = context.ids.id();
        let event = PaymentChangeAdjustmentEvent::PaymentCaptured(Box::new(PaymentCaptured {
            payment_id: payment_id.clone(),
            provider_name: body.provider_name.clone(),
            provider_context: body.provider_context.clone(),
            workflow_request_id,
            adjustment_id: Some(Ident::from_trusted(adjustment.id.clone())),
            amount_krw: Some(adjustment.fact.mother_payable_adjustment_krw),
        }));
        let mut commit = Commit::new(Some(adjustment), event, context.at);
        let message = ContinuationRequested {
            workflow_request_id,
            payment_change_adjustment_id: &adjustment.id,
            reservation_booking_id: &command.reservation_booking_id,
            payment_id: &payment_id,
            provider_name: &body.provider_name,
            amount_krw: adjustment.fact.mother_payable_adjustment_krw,
            deposited_at: context.at,
        };
        let about = MessageAbout {
            id: command.reservation_booking_id.as_str().into(),
            reference: Some(workflow_request_id),
        };
        let number = context.ids.outbox_number();
        commit.send_about(number, TOPIC, about, to_json(&message));
        let answer = to_json(&PaymentChangeAdjustmentBody::new(
            &commit.next,
            ContinuationStatus::Queued,
        ));
        commit.answer(answer)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::adjustment::samples::{PATH, adjustment, mother, pay, payment, service};
    use super::*;
    use crate::base::digest::Fingerprint;
    use crate::base::json::Json;
    use crate::base::json::Reader;
    use crate::domain::operation::IdSource;
    use crate::domain::operation::{Parts, Request};
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, member, with};

    const NAME: &str = "capture_adjustment_payment";
    const KIND: &str = "payment-change-adjustment";

    /// Makes a service whose adjustment has these fields; the mother acts.
    fn adjusted(changes: &[(&str, Value)]) -> Scenario {
        let mut service = service();
        service.fact(KIND, "adjustment-1", 4, with(&adjustment(), changes));
        service
    }

    fn ask(body: &Value) -> Then {
        pay(&mut service(), body)
    }

    #[track_caller]
    fn assert_refused(then: Then, class: Class, code: &str, places: &[&str]) {
        let refusal = then.refusal();
        assert_eq!((refusal.class, refusal.code), (class, code));
        assert_eq!(refusal.conflicting, places);
    }

    #[test]
    fn the_mother_pays_and_the_settlements_workflow_is_told() {
        let mut service = service();
        let answer = pay(&mut service, &payment()).committed();
        let workflow = answer["settlementContinuationWorkflowRequestId"].clone();
        assert!(Uuid::parse_str(workflow.as_str().unwrap()).is_ok());
        assert_eq!(
            answer,
            json!({
                "paymentChangeAdjustmentId": "adjustment-1",
                "reservationBookingId": "booking-1",
                "motherUserId": "mother-1",
                "customerDeltaKrw": 50_000,
                "couponAdjustmentKrw": -10_000,
                "pureCustomerAmountKrw": 50_000,
                "motherPayableAdjustmentKrw": 40_000,
                "adjustmentStatus": "paid",
                "preRegistration": {
                    "paymentId": "payment-1",
                    "providerName": "gateway-1",
                    "preRegisteredAt": "2026-11-18T00:00:00.000Z",
                },
                "paymentReceipt": {
                    "paymentId": "payment-1",
                    "providerName": "gateway-1",
                    "providerContext": {"a": "한글", "amount": 1.5, "z": [1, {"deep": null}]},
                    "depositedAt": "2026-11-20T12:00:00.000Z",
                },
                "settlementContinuationStatus": "queued",
                "settlementContinuationWorkflowRequestId": workflow,
                "settlementContinuationReason": null,
                "settlementContinuationRecordedAt": "2026-11-20T12:00:00.000Z",
                "requestedAt": "2026-11-18T00:00:00.000Z",
                "completedAt": "2026-11-20T12:00:00.000Z",
                "updatedAt": "2026-11-20T12:00:00.000Z",
            })
        );
        let [message] = service.outbox.as_slice() else {
            panic!("one message: {:?}", service.outbox);
        };
        assert_eq!(&*message.topic, "settlement.continuation.requested");
        let told: Value = serde_json::from_slice(&message.body.0).unwrap();
        assert_eq!(
            told,
            json!({
                "workflowRequestId": workflow,
                "paymentChangeAdjustmentId": "adjustment-1",
                "reservationBookingId": "booking-1",
                "paymentId": "payment-1",
                "providerName": "gateway-1",
                "amountKrw": 40_000,
                "depositedAt": "2026-11-20T12:00:00.000Z",
            })
        );
    }

    #[test]
    fn without_a_payment_prepared_any_will_do() {
        let mut service = adjusted(&[("preRegistration", Value::Null)]);
        let other = with(
            &payment(),
            &[
                ("paymentId", json!("payment-9")),
                ("providerName", json!("gateway-9")),
                ("providerContext", json!({})),
            ],
        );
        let answer = pay(&mut service, &other).committed();
        assert_eq!(answer["preRegistration"], Value::Null);
        assert_eq!(answer["paymentReceipt"]["paymentId"], "payment-9");
        assert_eq!(answer["paymentReceipt"]["providerName"], "gateway-9");
        assert_eq!(answer["paymentReceipt"]["providerContext"], json!({}));
    }

    #[test]
    fn a_single_won_can_be_paid() {
        let mut service = adjusted(&[("motherPayableAdjustmentKrw", json!(1))]);
        let answer = pay(&mut service, &payment()).committed();
        assert_eq!(answer["motherPayableAdjustmentKrw"], 1);
    }

    #[test]
    fn an_unpayable_adjustment_is_a_conflict_before_a_payment_mismatch() {
        let mismatch = with(&payment(), &[("paymentId", json!("payment-2"))]);
        for changes in [
            [("adjustmentStatus", json!("requested"))],
            [("adjustmentStatus", json!("cancelled"))],
            [("motherPayableAdjustmentKrw", json!(0))],
            [("motherPayableAdjustmentKrw", json!(-1))],
            [("motherPayableAdjustmentKrw", json!(i64::MIN))],
        ] {
            for body in [&payment(), &mismatch] {
                assert_refused(
                    pay(&mut adjusted(&changes), body),
                    Class::Conflict,
                    "adjustment_not_payable",
                    &[],
                );
            }
        }
    }

    #[test]
    fn a_paid_adjustment_is_not_paid_again() {
        let mut service = service();
        pay(&mut service, &payment()).committed();
        let paid: PaymentChangeAdjustment = service.state(&["adjustment-1"]).unwrap();
        assert_replayed(pay(&mut service, &payment()));
        let again = with(&payment(), &[("paymentId", json!("payment-2"))]);
        assert_refused(
            pay(&mut service, &again),
            Class::Conflict,
            "adjustment_not_payable",
            &[],
        );
        assert_eq!(service.state(&["adjustment-1"]), Some(paid));
        assert_eq!(service.outbox.len(), 1);
    }

    /// The command is the one that has paid with `payment-1`, whose key the engine no longer knows.
    #[track_caller]
    fn assert_replayed(then: Then) {
        let Then::ReplayOf(key) = then else {
            panic!("no replay: {then:?}");
        };
        assert_eq!(key, "payment-1");
    }

    /// A later adjustment of the booking, for which no payment was prepared.
    fn later() -> Value {
        let changes = [
            ("requestedAt", json!("2026-11-19T00:00:00Z")),
            ("preRegistration", Value::Null),
        ];
        with(&adjustment(), &changes)
    }

    #[test]
    fn a_payment_that_has_paid_an_adjustment_pays_no_later_one() {
        let mut service = service();
        pay(&mut service, &payment()).committed();
        service.fact(KIND, "adjustment-2", 1, later());
        assert_replayed(pay(&mut service, &payment()));
        for change in [
            ("providerName", json!("gateway-2")),
            ("providerContext", json!({})),
        ] {
            assert_refused(
                pay(&mut service, &with(&payment(), &[change])),
                Class::Conflict,
                "idempotency_key_reused",
                &[],
            );
        }
        // Nor one of another booking.
        let elsewhere = [("reservationBookingId", json!("booking-2"))];
        let elsewhere = with(&later(), &elsewhere);
        service.fact(KIND, "adjustment-3", 1, elsewhere);
        let path = [("reservationBookingId", "booking-2")];
        assert_eq!(
            service.when(NAME, &path, &payment()).code(),
            "idempotency_key_reused"
        );
        for id in ["adjustment-2", "adjustment-3"] {
            let unpaid: PaymentChangeAdjustment = service.state(&[id]).unwrap();
            assert_eq!(unpaid.payment, None, "{id}");
        }
        assert_eq!(service.outbox.len(), 1);
        let other = with(&payment(), &[("paymentId", json!("payment-2"))]);
        let answer = pay(&mut service, &other).committed();
        assert_eq!(answer["paymentChangeAdjustmentId"], "adjustment-2");
    }

    #[test]
    fn a_payment_that_was_captured_for_two_adjustments_pays_no_third_one() {
        let mut service = service();
        pay(&mut service, &payment()).committed();
        let paid: PaymentChangeAdjustment = service.state(&["adjustment-1"]).unwrap();
        service.given(&PaymentChangeAdjustment {
            id: "adjustment-0".into(),
            ..paid
        });
        service.fact(KIND, "adjustment-2", 1, later());
        assert_replayed(pay(&mut service, &payment()));
        let reused = with(&payment(), &[("providerName", json!("gateway-2"))]);
        assert_eq!(pay(&mut service, &reused).code(), "idempotency_key_reused");
    }

    #[test]
    fn a_payment_of_another_mother_is_another_one_whatever_it_is_called() {
        let mut service = service();
        pay(&mut service, &payment()).committed();
        let another = [
            ("motherUserId", json!("mother-2")),
            ("reservationBookingId", json!("booking-2")),
        ];
        service.fact(KIND, "adjustment-2", 1, with(&later(), &another));
        service.acting(member(ActorKind::Mother, "mother-2", "member-2"));
        let body = with(&payment(), &[("motherUserId", json!("mother-2"))]);
        let path = [("reservationBookingId", "booking-2")];
        let answer = service.when(NAME, &path, &body).committed();
        assert_eq!(answer["paymentReceipt"]["paymentId"], "payment-1");
    }

    #[test]
    fn another_payment_than_the_one_prepared_is_a_conflict() {
        let other_payment = ("paymentId", json!("payment-2"));
        let other_provider = ("providerName", json!("gateway-2"));
        for (changes, places) in [
            (vec![other_payment.clone()], vec!["paymentId"]),
            (vec![other_provider.clone()], vec!["providerName"]),
            (
                vec![other_payment, other_provider],
                vec!["paymentId", "providerName"],
            ),
        ] {
            assert_refused(
                ask(&with(&payment(), &changes)),
                Class::Conflict,
                "payment_mismatch",
                &places,
            );
        }
    }

    #[test]
    fn only_the_latest_adjustment_is_paid_whatever_the_earlier_ones_are() {
        let mut service = service();
        let later = with(
            &adjustment(),
            &[
                ("requestedAt", json!("2026-11-19T00:00:00Z")),
                ("adjustmentStatus", json!("requested")),
                ("preRegistration", Value::Null),
            ],
        );
        service.fact(KIND, "adjustment-0", 1, later.clone());
        assert_eq!(
            pay(&mut service, &payment()).code(),
            "adjustment_not_payable"
        );
        let payable = with(&later, &[("adjustmentStatus", json!("payable"))]);
        service.fact(KIND, "adjustment-0", 2, payable);
        let answer = pay(&mut service, &payment()).committed();
        assert_eq!(answer["paymentChangeAdjustmentId"], "adjustment-0");
        let earlier: PaymentChangeAdjustment = service.state(&["adjustment-1"]).unwrap();
        assert_eq!(earlier.payment, None);
    }

    /// A source without identifiers: it panics when the command needs one.
    struct Nothing;

    impl IdSource for Nothing {
        fn id(&self) -> Uuid {
            panic!("no identifier is needed")
        }
        fn outbox_number(&self) -> i64 {
            panic!("no message is sent")
        }
    }

    #[test]
    fn an_adjustment_that_is_no_longer_the_latest_is_not_paid() {
        let mut service = service();
        let found: PaymentChangeAdjustment = service.state(&["adjustment-1"]).unwrap();
        let text = payment().to_string();
        let body = Json::parse(text.as_bytes()).unwrap();
        let parts = Parts {
            path: &PATH,
            body: &body,
        };
        let command =
            <Command as Request>::read(&parts, &mut Reader::new(Timestamp::default())).unwrap();
        let decided = |service: &Scenario, state: Option<&PaymentChangeAdjustment>| {
            let context = Context {
                actor: &mother(),
                now: Timestamp::default(),
                at: Timestamp::default(),
                key: "payment-1",
                fingerprint: Fingerprint::NONE,
                new_id: Uuid::nil(),
                has_receiver: &|_| false,
                plain_webhooks: false,
                ids: &Nothing,
                view: service.own_view(),
                fact_revision: crate::domain::fact_kinds::revision_of,
            };
            match CaptureAdjustmentPayment::decide(state, &command, &context) {
                Ok(_) => "committed",
                Err(rejection) => rejection.code,
            }
        };
        assert_eq!(
            decided(&service, None),
            "adjustment_not_found",
            "there was none when the resource was looked up"
        );
        let later = with(
            &adjustment(),
            &[("requestedAt", json!("2026-11-19T00:00:00Z"))],
        );
        service.fact(KIND, "adjustment-2", 1, later);
        assert_eq!(decided(&service, Some(&found)), "adjustment_not_payable");
        let of_another = with(
            &adjustment(),
            &[
                ("requestedAt", json!("2026-11-19T00:00:01Z")),
                ("motherUserId", json!("another")),
            ],
        );
        service.fact(KIND, "adjustment-3", 1, of_another);
        assert_eq!(decided(&service, Some(&found)), "permission_denied");
    }

    #[test]
    fn the_fingerprint_does_not_know_how_the_context_is_spelt() {
        let text = r#"{"providerContext": {"amount": 15e-1, "a": "\ud55c글", "z": [1, {"deep": null}]},
            "providerName": "gateway-1", "paymentId": "payment-1", "motherUserId": "mother-1"}"#;
        let body = Json::parse(text.as_bytes()).unwrap();
        let parts = Parts {
            path: &PATH,
            body: &body,
        };
        let command =
            <Command as Request>::read(&parts, &mut Reader::new(Timestamp::default())).unwrap();
        assert_eq!(
            crate::domain::operation::fingerprint(NAME, &command).to_hex(),
            "3b2e09288c6edc7077d145529c00a712ba545d4c0b7499d8f83b5075aeed7dde"
        );
    }
}
