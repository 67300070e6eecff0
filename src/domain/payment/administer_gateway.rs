//! An administrator of the head office operates the payment gateway, and it is written down.
//!
//! Resource: what is operated on, the payment or, for a search, the search key. Its revision counts
//! the operations recorded on it. Rejections, in the order tested: a field that the action needs is
//! absent (invalid); the actor does not administer payments (403); the expected revision is stale
//! (409; the message names the current one). After that there is an audit, whatever the gateway says. That it does not know the
//! payment, or does not do what is asked, is an outcome of the operation and no refusal. A virtual
//! account that is closed and a chargeback that is recorded change the payment's fact, whose
//! revision advances by one.

use schemars::{Schema, SchemaGenerator};

use super::admin_audit::{AdminAudit, AdminAuditBody, AdminAuditEvent, mark_replayed_from_itself};
use super::gateway::{EmbeddedGateway, Gateway, GatewayAnswer, HeldPayment, PaymentOrder};
use super::gateway_subject::{
    PaymentOperated, PaymentSubject, PaymentSubjectEvent, SearchSubject, SearchSubjectEvent,
};
use crate::base::actor::{Actor, ActorKind};
use crate::base::digest::Digest;
use crate::base::json::{AtLeast, FaultCode, Reader, Shape};
use crate::base::revision::Revision;
use crate::base::text::{BodyKey, BookingId, Ident, PaymentId, Text};
use crate::base::time::Timestamp;
use crate::base::won::Won;
use crate::domain::erased::{AnyCommand, AnyOperation, Erased};
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{
    Commit, Context, Decision, Disposition, Operation, Parts, Request, to_json,
};
use crate::domain::payment_words::OperationAction;
use crate::domain::reference::kinds::gateway_payment::GatewayPayment;
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::{ReadView, Resource};
use crate::{json_object, module_doc, rejections};

/// The permission that an administrator needs, in addition to the kind of actor.
const PAYMENT_ADMINISTER: &str = "payment:administer";
/// The gateway that answers.
const GATEWAY: EmbeddedGateway = EmbeddedGateway;

json_object! {
    /// The body of the request.
    pub struct Command {
        /// What is asked for.
        pub operation_action: OperationAction = "operationAction",
        /// Why, in the actor's words.
        pub reason: Text = "reason" personal FreeText,
        /// The idempotency key.
        pub idempotency_key: BodyKey = "idempotencyKey",
        /// The revision of what is operated on, as the actor saw it; 0 before the first operation.
        pub expected_revision: AtLeast<0> = "expectedRevision",
        /// A booking that it is about.
        pub reservation_booking_id: Option<BookingId> = "reservationBookingId",
        /// The payment; required but for a search.
        pub payment_id: Option<PaymentId> = "paymentId",
        /// The search key; required for a search.
        pub search_key: Option<Ident> = "searchKey" personal Search,
        /// An amount in won; required for a chargeback.
        pub amount_krw: Option<AtLeast<1>> = "amountKrw",
    }
    rules whole(Fields)
}

/// Checks that the fields that the action needs are there.
fn whole(at: &mut Reader, fields: &Fields<'_>) {
    let Some(action) = fields.operation_action else {
        return;
    };
    let searches = *action == OperationAction::SearchPayments;
    if !searches && fields.payment_id == Some(&None) {
        at.fault_at::<()>("paymentId", FaultCode::Required);
    }
    if searches && fields.search_key == Some(&None) {
        at.fault_at::<()>("searchKey", FaultCode::Required);
    }
    if *action == OperationAction::RecordChargeback && fields.amount_krw == Some(&None) {
        at.fault_at::<()>("amountKrw", FaultCode::Required);
    }
}

rejections! {
    /// Why the gateway is not asked.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only headquarters administrators and finance operators of headquarters with payment:administer may operate \
             the payment gateway.",
        /// The revision is stale; the message names the current one.
        RevisionStale = Conflict "revision_stale" ["expectedRevision"]
            "The expected revision is not the current one: read again, then decide.",
    }
}

/// Whether the actor may operate the gateway.
#[must_use]
pub fn may_administer(actor: &Actor) -> bool {
    matches!(
        actor.kind,
        ActorKind::HeadquartersAdministrator | ActorKind::HeadquartersFinanceOperator
    ) && actor.has_permission(PAYMENT_ADMINISTER)
}

/// Checks that the actor may operate the gateway, and expects the subject's current number of
/// operations.
fn permitted(
    command: &Command,
    operations: Revision,
    context: &Context<'_>,
) -> Result<(), Rejection> {
    if !may_administer(context.actor) {
        return Err(Reason::NotPermitted.into());
    }
    if command.expected_revision.0 != operations.number() {
        let stale = Rejection::from(Reason::RevisionStale);
        return Err(Rejection {
            message: format!("{} It is {operations}.", stale.message).into(),
            ..stale
        });
    }
    Ok(())
}

/// Ends a commit with the audit of the gateway's answer.
fn audited<R: Resource>(
    mut commit: Commit<R>,
    command: &Command,
    answered: &GatewayAnswer,
    context: &Context<'_>,
) -> Result<Decision<R>, Rejection> {
    let event = AdminAuditEvent::Recorded(Box::new(AdminAudit {
        audit_id: context.new_id,
        action: command.operation_action,
        status: answered.status(),
        actor_user_id: context.actor.subject.clone(),
        reason: command.reason.clone(),
        idempotency_key: context.key.into(),
        expected_revision: command.expected_revision.0,
        command_fingerprint: context.fingerprint,
        provider_evidence_fingerprint: answered.evidence,
        recorded_at: context.at,
        reservation_booking_id: command.reservation_booking_id.clone(),
        payment_id: command.payment_id.clone(),
        search_key: command.search_key.clone(),
        amount_krw: command.amount_krw.map(Won::from),
        provider_status_code: answered.status_code,
        provider_result_code: answered.result_code.into(),
        provider_message: answered.message.map(Into::into),
    }));
    let audit = commit.create::<AdminAudit>(&event);
    commit.answer(to_json(&AdminAuditBody::new(&audit)))
}

/// The operation. The resource that decides depends on the action, so the command is passed on.
pub struct AdministerGateway;

fn by_action(name: &'static str, command: Command) -> Box<dyn AnyCommand> {
    match command.operation_action {
        OperationAction::SearchPayments => Erased::<SearchPayments>::command(name, command),
        _ => Erased::<OperatePayment>::command(name, command),
    }
}

impl AnyOperation for AdministerGateway {
    fn read(
        &self,
        name: &'static str,
        parts: &Parts<'_>,
        at: &mut Reader,
    ) -> Option<Box<dyn AnyCommand>> {
        let command = <Command as Request>::read(parts, at)?;
        Some(by_action(name, command))
    }

    fn read_straight(
        &self,
        name: &'static str,
        path: &[(&str, &str)],
        body: &[u8],
        now: Timestamp,
    ) -> Option<(Box<dyn AnyCommand>, usize)> {
        let (command, values) = <Command as Request>::read_straight(path, body, now)?;
        Some((by_action(name, command), values))
    }

    fn replayed(&self, body: Vec<u8>) -> Vec<u8> {
        mark_replayed_from_itself(body)
    }

    fn final_response(&self, first: &[u8], view: &ReadView<'_>) -> Option<(Vec<u8>, Disposition)> {
        OperatePayment::final_response(first, view)
    }

    fn doc(&self) -> &'static str {
        OperatePayment::DOC
    }

    fn rejections(&self) -> &'static [Declared] {
        Reason::TABLE
    }

    fn shape(&self) -> Shape {
        Command::shape()
    }

    fn answer(&self, schemas: &mut SchemaGenerator) -> Schema {
        schemas.subschema_for::<AdminAuditBody<'static>>()
    }

    fn conflict(&self, _: &mut SchemaGenerator) -> Option<(&'static str, Schema)> {
        None
    }

    fn example(&self) -> &'static Example {
        &OperatePayment::EXAMPLE
    }

    #[cfg(test)]
    fn ladder(&self) -> Ladder {
        OperatePayment::ladder()
    }
}

/// An operation on one payment.
struct OperatePayment;

impl OperatePayment {
    fn payment_id(command: &Command) -> &PaymentId {
        let payment_id = command.payment_id.as_ref();
        payment_id.expect("a command on a payment was read with its identifier")
    }

    fn order(command: &Command) -> PaymentOrder {
        match command.operation_action {
            OperationAction::LookupPayment => PaymentOrder::LookUp,
            OperationAction::CloseVirtualAccount => PaymentOrder::CloseVirtualAccount,
            OperationAction::InspectRefundStatus => PaymentOrder::InspectRefund,
            OperationAction::InspectChargebackStatus => PaymentOrder::InspectChargeback,
            OperationAction::RecordChargeback => {
                let amount = command.amount_krw;
                let amount = amount.expect("a chargeback was read with its amount");
                PaymentOrder::RecordChargeback(amount.into())
            }
            OperationAction::SearchPayments => unreachable!("a search is not on a payment"),
        }
    }
}

impl Operation for OperatePayment {
    type Command = Command;
    type Resource = PaymentSubject;
    type Answer = AdminAuditBody<'static>;

    const DOC: &'static str = module_doc!("administer_gateway.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::HeadquartersAdministrator,
        body: r#"{
  "operationAction": "lookup_payment",
  "reason": "A customer asked.",
  "idempotencyKey": "key-1",
  "expectedRevision": 0,
  "paymentId": "payment-1"
}"#,
        changed_value: ("/reason", r#""Another customer asked.""#),
        needs_facts: &[("gateway-payment", "payment-1")],
        unique_ids: &["reservation-booking-1", "payment-1"],
        id_in_response: "payment-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::of(&[
            ActorKind::HeadquartersAdministrator,
            ActorKind::HeadquartersFinanceOperator,
        ])
        .then(Reason::NotPermitted, |case| {
            case.actor.permissions.clear();
            case
        })
        .then(Reason::RevisionStale, |case| {
            case.set("/expectedRevision", 9)
        })
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(PaymentSubject::KIND.key(&[Self::payment_id(command)]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.idempotency_key.as_str())
    }

    fn decide(
        state: Option<&PaymentSubject>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<PaymentSubject>, Rejection> {
        let operations = state.map_or(Revision::NONE, |subject| subject.operations);
        permitted(command, operations, context)?;
        let payment_id = Self::payment_id(command);
        let held = state.and_then(|subject| subject.fact.as_ref());
        let held = held.map(|fact| HeldPayment {
            payment_id,
            payment: &fact.payment,
        });
        let answered = GATEWAY.operate(held, Self::order(command));
        let event = PaymentSubjectEvent::Operated(Box::new(PaymentOperated {
            payment_id: payment_id.as_str().into(),
            change: answered.change,
        }));
        let commit = Commit::new(state, event, context.at);
        audited(commit, command, &answered, context)
    }
}

/// A search for payments.
struct SearchPayments;

impl SearchPayments {
    fn search_key(command: &Command) -> &Ident {
        let search_key = command.search_key.as_ref();
        search_key.expect("a search was read with its key")
    }
}

impl Operation for SearchPayments {
    type Command = Command;
    type Resource = SearchSubject;
    type Answer = AdminAuditBody<'static>;

    const DOC: &'static str = OperatePayment::DOC;
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    // Both are one public operation, which has one example.
    const EXAMPLE: Example = OperatePayment::EXAMPLE;

    #[cfg(test)]
    fn ladder() -> Ladder {
        OperatePayment::ladder()
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(SearchSubject::KIND.key(&[Self::search_key(command)]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.idempotency_key.as_str())
    }

    fn decide(
        state: Option<&SearchSubject>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<SearchSubject>, Rejection> {
        let operations = state.map_or(Revision::NONE, |subject| subject.operations);
        permitted(command, operations, context)?;
        let search_key = Self::search_key(command);
        let list = GatewayPayment::found_by(search_key);
        let mut found = context.view.all_listed::<PaymentSubject>(list);
        found.sort_by(|a, b| a.payment_id.cmp(&b.payment_id));
        let held: Vec<_> = found
            .iter()
            .filter_map(|subject| {
                let fact = subject.fact.as_ref()?;
                Some(HeldPayment {
                    payment_id: &subject.payment_id,
                    payment: &fact.payment,
                })
            })
            .collect();
        let answered = GATEWAY.search(search_key, &held);
        let event = SearchSubjectEvent::Searched(search_key.clone());
        let commit = Commit::new(state, event, context.at);
        audited(commit, command, &answered, context)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::administrator;
    use super::*;
    use crate::domain::reference::kinds::gateway_payment::sample;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, actor, with, with_added};

    const NAME: &str = "administer_gateway";
    const ON_PAYMENTS: [&str; 5] = [
        "lookup_payment",
        "close_virtual_account",
        "inspect_refund_status",
        "inspect_chargeback_status",
        "record_chargeback",
    ];

    /// Makes a body with no more fields than the action needs.
    fn body(action: &str, expected_revision: i64) -> Value {
        let mut body = json!({
            "operationAction": action,
            "reason": "A customer called.",
            "idempotencyKey": format!("{action}-{expected_revision}"),
            "expectedRevision": expected_revision,
        });
        if action == "search_payments" {
            body["searchKey"] = json!("order-1");
        } else {
            body["paymentId"] = json!("payment-1");
        }
        if action == "record_chargeback" {
            body["amountKrw"] = json!(100_000);
        }
        body
    }

    /// Makes a service whose gateway knows a payment into an open virtual account; an administrator
    /// acts.
    fn service() -> Scenario {
        let mut service = Scenario::new();
        service
            .fact("gateway-payment", "payment-1", 3, sample())
            .acting(administrator());
        service
    }

    fn operate(service: &mut Scenario, body: &Value) -> Value {
        service.when(NAME, &[], body).committed()
    }

    /// Returns an audit's status, and the gateway's status and result code.
    fn outcome(audit: &Value) -> (&str, i64, &str) {
        assert_eq!(
            audit["operationStatus"] == "failed",
            audit["providerMessage"].is_string()
        );
        (
            audit["operationStatus"].as_str().unwrap(),
            audit["providerStatusCode"].as_i64().unwrap(),
            audit["providerResultCode"].as_str().unwrap(),
        )
    }

    const OK: (&str, i64, &str) = ("succeeded", 200, "ok");

    fn payment(service: &Scenario) -> PaymentSubject {
        service.state(&["payment-1"]).unwrap()
    }

    #[track_caller]
    fn refused(service: &mut Scenario, body: &Value) -> (Class, &'static str) {
        let subjects = |service: &Scenario| {
            (
                service.state::<PaymentSubject>(&["payment-1"]),
                service.state::<SearchSubject>(&["order-1"]),
            )
        };
        let before = subjects(service);
        let refusal = service.when(NAME, &[], body).refusal();
        assert_eq!(subjects(service), before);
        (refusal.class, refusal.code)
    }

    #[test]
    fn a_payment_is_looked_up_and_the_audit_tells_everything() {
        let mut service = service();
        let body = with_added(
            &body("lookup_payment", 0),
            &[("reservationBookingId", json!("booking-1"))],
        );
        let audit = operate(&mut service, &body);
        let id = audit["billingAdminOperationAuditId"].as_str().unwrap();
        assert_eq!(uuid::Uuid::parse_str(id).unwrap().get_version_num(), 7);
        let evidence = audit["providerEvidenceFingerprint"].as_str().unwrap();
        assert_eq!(evidence.len(), 64);
        assert!(
            evidence
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        );
        assert_eq!(
            audit,
            json!({
                "billingAdminOperationAuditId": id,
                "operationAction": "lookup_payment",
                "operationStatus": "succeeded",
                "actorUserId": "admin-1",
                "reason": "A customer called.",
                "idempotencyKey": "lookup_payment-0",
                "expectedRevision": 0,
                "commandFingerprint": service.fingerprint(NAME, &[], &body).to_hex(),
                "providerEvidenceFingerprint": evidence,
                "recordedAt": "2026-11-20T12:00:00.000Z",
                "reservationBookingId": "booking-1",
                "paymentId": "payment-1",
                "searchKey": null,
                "amountKrw": null,
                "providerStatusCode": 200,
                "providerResultCode": "ok",
                "providerMessage": null,
                "replayedFromAuditId": null,
            })
        );
        assert!(service.outbox.is_empty());
        let payment = payment(&service);
        assert_eq!(payment.operations, Revision::FIRST);
        assert_eq!(
            payment.fact.unwrap().revision.number(),
            3,
            "nothing changed"
        );
    }

    #[test]
    fn every_payment_operation_advances_the_revision_whatever_its_outcome() {
        let mut service = service();
        for (expected_revision, (action, came_to)) in [
            ("inspect_refund_status", OK),
            ("inspect_chargeback_status", OK),
            ("close_virtual_account", OK),
            (
                "close_virtual_account",
                ("failed", 409, "virtual_account_not_open"),
            ),
            ("record_chargeback", OK),
            ("lookup_payment", OK),
        ]
        .into_iter()
        .enumerate()
        {
            let expected_revision = i64::try_from(expected_revision).unwrap();
            let audit = operate(&mut service, &body(action, expected_revision));
            assert_eq!(outcome(&audit), came_to, "{action}");
            assert_eq!(audit["operationAction"], action);
            assert_eq!(audit["expectedRevision"], expected_revision);
            assert_eq!(payment(&service).operations.number(), expected_revision + 1);
        }
        // Two of the operations have changed the fact.
        assert_eq!(payment(&service).fact.unwrap().revision.number(), 5);
    }

    #[test]
    fn an_unknown_payment_is_a_failure_on_the_record() {
        for action in ON_PAYMENTS {
            let mut service = Scenario::new();
            service.acting(administrator());
            let audit = operate(&mut service, &body(action, 0));
            assert_eq!(
                outcome(&audit),
                ("failed", 404, "payment_not_found"),
                "{action}"
            );
            assert_eq!(payment(&service).fact, None);
            assert_eq!(refused(&mut service, &body(action, 0)), STALE);
            // The fact may still come in, at any revision, and the count of operations continues.
            service.fact("gateway-payment", "payment-1", 1, sample());
            let audit = operate(&mut service, &body("lookup_payment", 1));
            assert_eq!(outcome(&audit), OK);
        }
    }

    #[test]
    fn closing_a_virtual_account_changes_the_fact() {
        let mut service = service();
        operate(&mut service, &body("close_virtual_account", 0));
        service.acting(Actor {
            permissions: vec!["facts:read".into()],
            ..actor(ActorKind::SystemWorkflow, "workflow")
        });
        let path = [("kind", "gateway-payment"), ("id", "payment-1")];
        let (_, fact) = service.read("read_fact", &path).unwrap();
        assert_eq!(fact["revision"], 4);
        assert_eq!(
            fact["facts"],
            with(&sample(), &[("virtualAccountState", json!("closed"))])
        );
        // The system that owns the fact continues from the current revision.
        let then = service.put_fact("gateway-payment", "payment-1", 4, sample());
        assert_eq!(then.code(), "conflict");
        service.fact("gateway-payment", "payment-1", 5, sample());
        service.acting(administrator());
        let audit = operate(&mut service, &body("close_virtual_account", 1));
        assert_eq!(outcome(&audit), OK);
    }

    #[test]
    fn chargebacks_sum_up_to_the_amount_and_no_further() {
        let mut service = service();
        let mut charge = |expected_revision: i64, amount: i64| {
            let body = with(
                &body("record_chargeback", expected_revision),
                &[("amountKrw", json!(amount))],
            );
            let audit = operate(&mut service, &body);
            assert_eq!(audit["amountKrw"], amount);
            let GatewayPaymentNow {
                state,
                charged_back,
            } = now(&service);
            (
                audit["providerResultCode"].as_str().unwrap().to_owned(),
                state,
                charged_back,
            )
        };
        let came_to = |word: &str, state: &str, sum: i64| (word.to_owned(), state.to_owned(), sum);
        let exceeds = "chargeback_exceeds_amount";
        assert_eq!(charge(0, 330_001), came_to(exceeds, "none", 0));
        assert_eq!(charge(1, 300_000), came_to("ok", "recorded", 300_000));
        assert_eq!(charge(2, 30_001), came_to(exceeds, "recorded", 300_000));
        assert_eq!(charge(3, 30_000), came_to("ok", "recorded", 330_000));
        assert_eq!(charge(4, 1), came_to(exceeds, "recorded", 330_000));
        assert_eq!(charge(5, i64::MAX), came_to(exceeds, "recorded", 330_000));
        assert_eq!(payment(&service).fact.unwrap().revision.number(), 5);
    }

    struct GatewayPaymentNow {
        state: String,
        charged_back: i64,
    }

    fn now(service: &Scenario) -> GatewayPaymentNow {
        let fact = payment(service).fact.unwrap().payment;
        GatewayPaymentNow {
            state: fact.chargeback_state.to_string(),
            charged_back: fact.charged_back_krw.0,
        }
    }

    #[test]
    fn a_chargeback_above_the_amount_is_a_failure_of_its_own() {
        let body = with(
            &body("record_chargeback", 0),
            &[("amountKrw", json!(330_001))],
        );
        let audit = operate(&mut service(), &body);
        assert_eq!(
            outcome(&audit),
            ("failed", 422, "chargeback_exceeds_amount")
        );
    }

    #[test]
    fn a_search_is_on_its_key_and_finds_what_the_facts_say() {
        let mut service = service();
        let evidence = |service: &mut Scenario, body: &Value| {
            let audit = operate(service, body);
            assert_eq!(outcome(&audit), OK);
            audit["providerEvidenceFingerprint"].clone()
        };
        let one = evidence(&mut service, &body("search_payments", 0));
        assert_eq!(one, evidence(&mut service, &body("search_payments", 1)));
        service.fact("gateway-payment", "payment-2", 1, sample());
        let two = evidence(&mut service, &body("search_payments", 2));
        assert_ne!(one, two);
        let gone = with(&sample(), &[("searchKeys", json!([]))]);
        service.fact("gateway-payment", "payment-2", 2, gone);
        assert_eq!(one, evidence(&mut service, &body("search_payments", 3)));
        let searched: SearchSubject = service.state(&["order-1"]).unwrap();
        assert_eq!(searched.operations.number(), 4);
        assert_eq!(payment(&service).operations, Revision::NONE);
        // Another key is another subject; a search without results is no failure.
        let other = with(
            &body("search_payments", 0),
            &[("searchKey", json!("no-such"))],
        );
        assert_ne!(evidence(&mut service, &other), one);
    }

    #[test]
    fn given_both_a_search_is_on_its_key_and_a_lookup_on_the_payment() {
        let mut service = service();
        let search = with_added(
            &body("search_payments", 0),
            &[("paymentId", json!("no-such")), ("amountKrw", json!(5))],
        );
        let audit = operate(&mut service, &search);
        assert_eq!(outcome(&audit), OK);
        assert_eq!(audit["paymentId"], "no-such");
        assert_eq!(audit["searchKey"], "order-1");
        assert_eq!(audit["amountKrw"], 5);
        assert_eq!(service.state::<PaymentSubject>(&["no-such"]), None);
        let look = with_added(
            &body("lookup_payment", 0),
            &[("searchKey", json!("order-1"))],
        );
        assert_eq!(operate(&mut service, &look)["searchKey"], "order-1");
        let searched: SearchSubject = service.state(&["order-1"]).unwrap();
        assert_eq!(searched.operations, Revision::FIRST);
        assert_eq!(payment(&service).operations, Revision::FIRST);
    }

    const STALE: (Class, &str) = (Class::Conflict, "revision_stale");

    #[test]
    fn an_expected_revision_other_than_the_current_one_is_stale() {
        for action in ON_PAYMENTS.into_iter().chain(["search_payments"]) {
            let mut service = service();
            for wrong in [1, 3, i64::MAX] {
                assert_eq!(
                    refused(&mut service, &body(action, wrong)),
                    STALE,
                    "{action}"
                );
            }
            operate(&mut service, &body(action, 0));
            assert_eq!(refused(&mut service, &body(action, 0)), STALE, "{action}");
            assert_eq!(refused(&mut service, &body(action, 2)), STALE, "{action}");
            let refusal = service.when(NAME, &[], &body(action, 0)).refusal();
            assert_eq!(refusal.conflicting, ["expectedRevision"]);
            let told =
                "The expected revision is not the current one: read again, then decide. It is 1.";
            assert_eq!(refusal.message, told);
            operate(&mut service, &body(action, 1));
        }
    }

    fn ask(body: &Value) -> Then {
        service().when(NAME, &[], body)
    }

    fn at(faults: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        faults
            .iter()
            .map(|(path, code)| ((*path).to_owned(), *code))
            .collect()
    }

    #[test]
    fn each_action_requires_its_members_whether_absent_or_null() {
        for (action, member) in ON_PAYMENTS
            .into_iter()
            .map(|action| (action, "paymentId"))
            .chain([
                ("search_payments", "searchKey"),
                ("record_chargeback", "amountKrw"),
            ])
        {
            let mut absent = body(action, 0);
            absent.as_object_mut().unwrap().remove(member).unwrap();
            let null = with_added(&absent, &[(member, Value::Null)]);
            for body in [absent, null] {
                assert_eq!(ask(&body).faults(), at(&[(member, "required")]), "{action}");
            }
        }
        let mut both = body("record_chargeback", 0);
        both.as_object_mut()
            .unwrap()
            .retain(|name, _| name != "paymentId" && name != "amountKrw");
        both["reason"] = json!("");
        assert_eq!(
            ask(&both).faults(),
            at(&[
                ("reason", "too_short"),
                ("paymentId", "required"),
                ("amountKrw", "required")
            ])
        );
    }

    #[test]
    fn the_fingerprint_of_a_search_never_changes() {
        let fingerprint = service().fingerprint(NAME, &[], &body("search_payments", 0));
        assert_eq!(
            fingerprint.to_hex(),
            "cde53542f96bd6bd83317817193dd09addffe3110f172524254a47866f48d60f"
        );
    }

    #[test]
    fn a_refusal_names_the_permitted_actor_kinds_and_the_permission() {
        let mut service = service();
        service.acting(Actor {
            permissions: vec![PAYMENT_ADMINISTER.into()],
            ..actor(ActorKind::BranchFinanceOperator, "operator-1")
        });
        let refusal = service
            .when(NAME, &[], &body("search_payments", 0))
            .refusal();
        for words in [
            "headquarters administrators",
            "finance operators of headquarters",
            PAYMENT_ADMINISTER,
        ] {
            assert!(refusal.message.contains(words), "{}", refusal.message);
        }
    }

    #[test]
    fn a_search_takes_the_permission_too() {
        let mut service = service();
        service.acting(actor(ActorKind::HeadquartersAdministrator, "admin-1"));
        let refused = refused(&mut service, &body("search_payments", 0));
        assert_eq!(refused, (Class::Forbidden, "permission_denied"));
    }
}
