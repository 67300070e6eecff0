//! A branch manager acknowledges the deposit that a statement asks for.
//!
//! Resource: the statement. Rejections, in the order tested: the actor is no branch manager, or
//! not the one that the body names (403); the statement is unknown (404) or another branch's
//! (403); the facts of a handoff between branches are missing or out of place (invalid); an
//! expected revision is stale, the statement awaits no deposit, a line was acknowledged before
//! (409). The head office's private memo is hidden from the answer.

use std::collections::BTreeSet;

use serde::Serialize;

use super::body::StatementBody;
use super::statement::{
    AcknowledgementSide, DepositAcknowledged, InterOfficeAcknowledgement, LineAcknowledgement,
    OnlyBranchManager, Statement, StatementEvent, StatementKind, StatementStatus,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::{
    AtLeast, FaultCode, FromJson, Json, NonEmpty, Nullable, Reader, Shape, all_differ,
    read_straight,
};
use crate::base::text::{BodyKey, Ident, StatementId, Text};
use crate::base::time::Timestamp;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation, Parts, Request, to_json};
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

/// How far ahead of this service's clock a branch's clock may be.
const CLOCK_SKEW_SECONDS_MAX: i64 = 300;

/// What a request asks for: its body.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Command(pub Body);

json_object! {
    /// The body of the request.
    pub struct Body {
        /// The statement.
        pub statement_id: StatementId = "statementId",
        /// The actor's kind.
        pub actor_kind: OnlyBranchManager = "actorKind",
        /// The actor's profile.
        pub actor_profile_id: Ident = "actorProfileId",
        /// The idempotency key.
        pub idempotency_key: BodyKey = "idempotencyKey",
        /// The statement's revision as the branch saw it.
        pub expected_revision: AtLeast<1> = "expectedRevision",
        /// Why, in the actor's words.
        pub reason: Nullable<Text> = "reason" personal FreeText,
        /// The lines acknowledged.
        pub line_acknowledgements: NonEmpty<LineAcknowledgement> = "lineAcknowledgements",
        /// The facts of a handoff between branches: required for a statement of the kind
        /// `inter_office_service_handoff`, not allowed for any other.
        pub inter_office_acknowledgement: Option<InterOfficeAcknowledgement> = "interOfficeAcknowledgement",
    }
}

impl Request for Command {
    fn read(parts: &Parts<'_>, at: &mut Reader) -> Option<Self> {
        let body = FromJson::read(parts.body, at);
        lines_consistent(parts.body, at);
        inter_office_consistent(parts.body, at);
        body.map(Self)
    }

    fn read_straight(_: &[(&str, &str)], body: &[u8], now: Timestamp) -> Option<(Self, usize)> {
        let (body, values) = read_straight::<Body>(body, now)?;
        is_consistent(&body, now).then_some((Self(body), values))
    }

    fn shape() -> Shape {
        <Body as FromJson>::shape()
    }
}

/// Whether the body certainly keeps the rules between fields. If not, its tree is read, which reports the
/// faults.
fn is_consistent(body: &Body, now: Timestamp) -> bool {
    let NonEmpty(lines) = &body.line_acknowledgements;
    let latest = now.plus_seconds(CLOCK_SKEW_SECONDS_MAX);
    let are_unique = |id: fn(&LineAcknowledgement) -> &str| all_differ(lines.iter().map(id));
    body.inter_office_acknowledgement.is_none()
        && lines.iter().all(|line| {
            line.acknowledged_by_actor_profile_id == body.actor_profile_id
                && line.acknowledged_at <= latest
        })
        && are_unique(|line| &line.line_acknowledgement_id)
        && are_unique(|line| &line.settlement_line_key)
}

// The rules between fields read the fields that they need from the body as it came, not from what
// was parsed of it: a fault of one line or field must not hide what is wrong with another (all
// value errors of a body are returned at once).

/// A field's value, where there is one; a fault of its own is reported elsewhere.
fn readable<T: FromJson>(object: &Json<'_>, name: &str, at: &Reader) -> Option<T> {
    T::read(member_of(object, name)?, &mut Reader::new(at.now()))
}

fn member_of<'v, 'a>(object: &'v Json<'a>, name: &str) -> Option<&'v Json<'a>> {
    let Json::Object(members) = object else {
        return None;
    };
    members
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value)
}

fn lines_of<'v, 'a>(body: &'v Json<'a>) -> &'v [Json<'a>] {
    match member_of(body, "lineAcknowledgements") {
        Some(Json::Array(lines)) => lines,
        _ => &[],
    }
}

fn lines_consistent(body: &Json<'_>, at: &mut Reader) {
    let actor: Option<Ident> = readable(body, "actorProfileId", at);
    let latest = at.now().plus_seconds(CLOCK_SKEW_SECONDS_MAX);
    let mut ids: BTreeSet<Ident> = BTreeSet::new();
    let mut keys: BTreeSet<Ident> = BTreeSet::new();
    let mut line_consistent = |line: &Json<'_>, at: &mut Reader| {
        if readable(line, "lineAcknowledgementId", at).is_some_and(|id| !ids.insert(id)) {
            at.fault_at::<()>("lineAcknowledgementId", FaultCode::NotUnique);
        }
        if readable(line, "settlementLineKey", at).is_some_and(|key| !keys.insert(key)) {
            at.fault_at::<()>("settlementLineKey", FaultCode::NotUnique);
        }
        let acknowledged_by = readable(line, "acknowledgedByActorProfileId", at);
        if differ(actor.as_ref(), acknowledged_by.as_ref()) {
            at.fault_at::<()>("acknowledgedByActorProfileId", FaultCode::NotAllowed);
        }
        if readable::<Timestamp>(line, "acknowledgedAt", at).is_some_and(|when| when > latest) {
            at.untimely_at("acknowledgedAt", FaultCode::OutOfRange);
        }
    };
    at.inside("lineAcknowledgements", |at| {
        for (index, line) in lines_of(body).iter().enumerate() {
            at.item(index, |at| line_consistent(line, at));
        }
    });
}

fn inter_office_consistent(body: &Json<'_>, at: &mut Reader) {
    let Some(facts) = member_of(body, "interOfficeAcknowledgement") else {
        return;
    };
    // The fault is reported at the later one of the two fields that disagree.
    let own_side = readable(facts, "acknowledgementSide", at).map(|side| match side {
        AcknowledgementSide::ServiceDeliveryBranch => "serviceDeliveryBranchProfileId",
        AcknowledgementSide::CustomerRelationshipBranch => "customerRelationshipBranchProfileId",
    });
    let acknowledging: Option<Ident> = readable(facts, "acknowledgingBranchProfileId", at);
    let body_actor: Option<Ident> = readable(body, "actorProfileId", at);
    let actor: Option<Ident> = readable(facts, "actorProfileId", at);
    let line_keys = lines_of(body)
        .iter()
        .map(|line| readable(line, "settlementLineKey", at));
    let line_keys: Option<BTreeSet<Ident>> = line_keys.collect();
    let line_keys = line_keys.filter(|keys| !keys.is_empty());
    let projected = readable(facts, "projectedSettlementLineKeys", at);
    let projected = projected.map(|NonEmpty(keys)| keys.into_iter().collect::<BTreeSet<Ident>>());
    at.inside("interOfficeAcknowledgement", |at| {
        if let Some(own_side) = own_side
            && differ(
                acknowledging.as_ref(),
                readable(facts, own_side, at).as_ref(),
            )
        {
            at.fault_at::<()>(own_side, FaultCode::NotAllowed);
        }
        if differ(body_actor.as_ref(), actor.as_ref()) {
            at.fault_at::<()>("actorProfileId", FaultCode::NotAllowed);
        }
        if differ(line_keys.as_ref(), projected.as_ref()) {
            at.fault_at::<()>("projectedSettlementLineKeys", FaultCode::NotAllowed);
        }
    });
}

/// Whether both are there and are not the same.
fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

rejections! {
    /// Why no deposit is acknowledged.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a branch manager, named in the body as in the token, may acknowledge a deposit.",
        /// The statement is unknown.
        StatementNotFound = Missing "statement_not_found" []
            "There is no settlement statement with this identifier.",
        /// Authority by resource.
        NotThisBranch = Forbidden "permission_denied" []
            "Only a manager of the statement's branch may acknowledge its deposit.",
        /// A revision is stale; the fields are named where it is found.
        RevisionStale = Conflict "revision_stale" ["expectedRevision"]
            "The expected revision is not the current one: read again, then decide.",
        /// The statement awaits no deposit.
        StatementNotAcknowledgeable = Conflict "statement_not_acknowledgeable" []
            "The statement does not await a deposit.",
        /// A line was acknowledged before.
        LineAlreadyAcknowledged = Conflict "line_already_acknowledged" ["lineAcknowledgements"]
            "A line of the statement was acknowledged before.",
    }
}

/// The operation.
pub struct AcknowledgeDeposit;

impl Operation for AcknowledgeDeposit {
    type Command = Command;
    type Resource = Statement;
    type Answer = StatementBody<'static>;

    const DOC: &'static str = module_doc!("acknowledge_deposit.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::BranchManager,
        after: Some("request_deposit"),
        body: r#"{
  "statementId": "$statementId",
  "actorKind": "branch_manager",
  "actorProfileId": "manager-profile-1",
  "idempotencyKey": "key-1",
  "expectedRevision": 1,
  "reason": null,
  "lineAcknowledgements": [
    {
      "lineAcknowledgementId": "line-acknowledgement-1",
      "settlementLineKey": "line-1",
      "settlementLineKind": "membership_due",
      "acknowledgedByActorProfileId": "manager-profile-1",
      "acknowledgedAt": "2026-11-02T10:00:00Z",
      "acknowledgementNote": null
    }
  ]
}"#,
        changed_value: ("/reason", r#""Paid.""#),
        unique_ids: &["line-acknowledgement-1"],
        id_in_response: "line-acknowledgement-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::of(&[ActorKind::BranchManager])
            .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
            .then(Reason::StatementNotFound, |case| {
                case.set("/statementId", "unknown")
            })
            .then(Reason::NotThisBranch, |case| {
                case.actor.branch_profile_ids.clear();
                case
            })
            .then(Reason::RevisionStale, |case| {
                case.set("/expectedRevision", 9)
            })
            .then(Reason::StatementNotAcknowledgeable, |case| {
                let id = case.text("/statementId");
                let acknowledged: Statement = case.done(&id);
                case.set("/expectedRevision", 2)
                    .alter(&id, |statement| *statement = acknowledged)
            })
            .then(Reason::LineAlreadyAcknowledged, |case| {
                let id = case.text("/statementId");
                case.done_before(|_| ()).set("/expectedRevision", 2).alter(
                    &id,
                    |statement: &mut Statement| {
                        statement.transitions[0].after_status = StatementStatus::Arrears;
                    },
                )
            })
    }

    fn target(Command(body): &Command, _: &Context<'_>) -> Option<Digest> {
        Some(Statement::KIND.key(&[&body.statement_id]))
    }

    fn key(Command(body): &Command) -> Option<&str> {
        Some(body.idempotency_key.as_str())
    }

    fn decide(
        state: Option<&Statement>,
        Command(body): &Command,
        context: &Context<'_>,
    ) -> Result<Decision<Statement>, Rejection> {
        let actor = context.actor;
        if actor.kind != ActorKind::BranchManager
            || actor.profile_id() != body.actor_profile_id.as_str()
        {
            return Err(Reason::NotPermitted.into());
        }
        let Some(statement) = state else {
            return Err(Reason::StatementNotFound.into());
        };
        let branch = &statement.opening.branch_profile_id;
        let inter_office = body.inter_office_acknowledgement.as_ref();
        if !actor.manages_branch(branch)
            || inter_office.is_some_and(|facts| facts.acknowledging_branch_profile_id != *branch)
        {
            return Err(Reason::NotThisBranch.into());
        }
        let between_offices =
            statement.opening.statement_kind == StatementKind::InterOfficeServiceHandoff;
        if between_offices != inter_office.is_some() {
            let code = if between_offices {
                FaultCode::Required
            } else {
                FaultCode::NotAllowed
            };
            return Err(Rejection::invalid_at("interOfficeAcknowledgement", code));
        }
        let stale = stale_members(statement, body);
        if !stale.is_empty() {
            return Err(Rejection::from(Reason::RevisionStale).at(&stale));
        }
        if !matches!(
            statement.status(),
            StatementStatus::AwaitingBranchDeposit | StatementStatus::Arrears
        ) {
            return Err(Reason::StatementNotAcknowledgeable.into());
        }
        let NonEmpty(lines) = &body.line_acknowledgements;
        if lines.iter().any(|line| stands(statement, line)) {
            return Err(Reason::LineAlreadyAcknowledged.into());
        }
        let event = StatementEvent::DepositAcknowledged(Box::new(DepositAcknowledged {
            audit_id: context.ids.id(),
            actor_profile_id: actor.profile_id().into(),
            idempotency_key: context.key.into(),
            reason: body.reason.0.clone(),
            lines: lines.clone(),
            inter_office: inter_office.cloned(),
        }));
        let commit = Commit::new(state, event, context.at);
        let answer = to_json(&StatementBody::new(&commit.next, actor));
        commit.answer(answer)
    }
}

fn stale_members(statement: &Statement, body: &Body) -> Vec<&'static str> {
    let current = statement.revision().number();
    let inter_office = body.inter_office_acknowledgement.as_ref();
    let mut stale = Vec::new();
    if body.expected_revision.0 != current {
        stale.push("expectedRevision");
    }
    if inter_office.is_some_and(|facts| facts.expected_statement_revision != current) {
        stale.push("interOfficeAcknowledgement.expectedStatementRevision");
    }
    stale
}

fn stands(statement: &Statement, line: &LineAcknowledgement) -> bool {
    statement.line_acknowledgements.iter().any(|standing| {
        standing.settlement_line_key == line.settlement_line_key
            || standing.line_acknowledgement_id == line.line_acknowledgement_id
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{opened, with_profile};
    use super::*;
    use crate::base::revision::Revision;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, faults, manager, with, without};

    const NAME: &str = "acknowledge_deposit";
    const HANDOFF: &str = "inter_office_service_handoff";

    fn line(number: u32) -> Value {
        json!({
            "lineAcknowledgementId": format!("acknowledgement-{number}"),
            "settlementLineKey": format!("line-{number}"),
            "settlementLineKind": "membership_due",
            "acknowledgedByActorProfileId": "manager-1",
            "acknowledgedAt": "2026-11-20T11:00:00Z",
            "sourceEvidenceKey": format!("evidence-{number}"),
            "acknowledgementNote": "paid",
        })
    }

    /// The manager of `branch-1` acknowledges two lines at revision 1.
    fn body(statement: &str) -> Value {
        json!({
            "statementId": statement,
            "actorKind": "branch_manager",
            "actorProfileId": "manager-1",
            "idempotencyKey": "acknowledgement-key-1",
            "expectedRevision": 1,
            "reason": "Paid today.",
            "lineAcknowledgements": [line(1), line(2)],
        })
    }

    fn handoff_facts() -> Value {
        json!({
            "interOfficeSettlementCode": "handoff-1",
            "reservationId": "reservation-1",
            "acknowledgementSide": "service_delivery_branch",
            "acknowledgingBranchProfileId": "branch-1",
            "serviceDeliveryBranchProfileId": "branch-1",
            "customerRelationshipBranchProfileId": "branch-2",
            "actorKind": "branch_manager",
            "actorProfileId": "manager-1",
            "expectedStatementRevision": 1,
            "datasetRevision": 4,
            "projectedSettlementLineKeys": ["line-2", "line-1"],
        })
    }

    fn handoff_body(statement: &str) -> Value {
        let mut body = body(statement);
        body["interOfficeAcknowledgement"] = handoff_facts();
        body
    }

    #[test]
    fn only_bodies_certain_to_keep_the_rules_between_fields_skip_the_tree() {
        let now = Timestamp::parse("2026-11-20T11:00:00Z").unwrap();
        let is_read = |body: &Value| {
            let text = body.to_string();
            <Command as Request>::read_straight(&[], text.as_bytes(), now).is_some()
        };
        let good = body("statement-1");
        assert!(is_read(&good));
        let mut none = good.clone();
        none["interOfficeAcknowledgement"] = Value::Null;
        assert!(is_read(&none));
        assert!(!is_read(&handoff_body("statement-1")));
        for (field, value, is_kept) in [
            ("lineAcknowledgementId", "acknowledgement-1", false),
            ("settlementLineKey", "line-1", false),
            ("acknowledgedByActorProfileId", "manager-2", false),
            ("acknowledgedAt", "2026-11-20T11:05:00Z", true),
            ("acknowledgedAt", "2026-11-20T11:05:00.001Z", false),
        ] {
            let mut other = good.clone();
            other["lineAcknowledgements"][1][field] = json!(value);
            assert_eq!(is_read(&other), is_kept, "{field}: {value}");
        }
    }

    /// A statement of this kind, and the manager of its branch.
    fn scenario(kind: &str) -> (Scenario, String) {
        let (mut scenario, id) = opened(kind);
        scenario.acting(manager("manager-1", "branch-1"));
        (scenario, id)
    }

    fn acknowledge(changes: &[(&str, Value)]) -> Then {
        let (mut scenario, id) = scenario("head_office_to_branch");
        scenario.when(NAME, &[], &with(&body(&id), changes))
    }

    fn hand_over(changes: &[(&str, Value)]) -> Then {
        let (mut scenario, id) = scenario(HANDOFF);
        scenario.when(NAME, &[], &with(&handoff_body(&id), changes))
    }

    /// As [`scenario`], two lines acknowledged, and the statement in this status by now.
    fn moved_to(status: StatementStatus) -> (Scenario, String) {
        let (mut scenario, id) = scenario("head_office_to_branch");
        scenario.when(NAME, &[], &body(&id)).committed();
        let mut statement: Statement = scenario.state(&[&id]).unwrap();
        statement.transitions[0].after_status = status;
        scenario.given(&statement);
        (scenario, id)
    }

    /// The manager acknowledges one more line, at revision 2.
    fn further(statement: &str) -> Value {
        with(
            &body(statement),
            &[
                ("lineAcknowledgements", json!([line(3)])),
                ("expectedRevision", json!(2)),
                ("idempotencyKey", json!("acknowledgement-key-2")),
                ("reason", json!(null)),
            ],
        )
    }

    fn revision(scenario: &Scenario, id: &str) -> Revision {
        scenario.state::<Statement>(&[id]).unwrap().revision()
    }

    #[test]
    fn an_acknowledged_deposit_returns_the_whole_statement_but_the_memo() {
        let (mut scenario, id) = scenario("head_office_to_branch");
        scenario.at("2026-11-20T12:30:00Z");
        let mut body = with(
            &body(&id),
            &[("lineAcknowledgements.1.acknowledgementNote", json!(null))],
        );
        body = without(&body, "lineAcknowledgements.1.sourceEvidenceKey");
        assert_eq!(
            scenario.when(NAME, &[], &body).committed(),
            json!({
                "statementId": id,
                "statementCode": "HQ-2026-10",
                "statementKind": "head_office_to_branch",
                "branchProfileId": "branch-1",
                "settlementPeriodStart": "2026-10-01",
                "settlementPeriodEnd": "2026-10-31",
                "status": "awaiting_confirmation",
                "revision": 2,
                "remittanceAccountSnapshot": {
                    "remittanceAccountSnapshotId": "account-snapshot-1",
                    "bankName": "한국은행",
                    "accountHolder": "Carebook",
                    "accountNumberDisplay": "***-**-1234",
                    "capturedAt": "2026-11-01T00:00:00.000Z",
                    "sourceReferenceKey": "account-1@3",
                },
                "requestedByActorProfileId": "workflow",
                "createdAt": "2026-11-20T12:00:00.000Z",
                "updatedAt": "2026-11-20T12:30:00.000Z",
                "messageToBranch": "By Friday, please.",
                "headOfficePrivateMemo": null,
                "transitionAudits": [
                    {
                        "auditId": "01990000-0000-7000-80ff-fffffffffffe",
                        "commandKind": "request_deposit",
                        "actorKind": "system_workflow",
                        "actorProfileId": "workflow",
                        "idempotencyKey": "request-1",
                        "expectedRevision": 0,
                        "committedRevision": 1,
                        "beforeStatus": "awaiting_branch_deposit",
                        "afterStatus": "awaiting_branch_deposit",
                        "recordedAt": "2026-11-20T12:00:00.000Z",
                        "reason": null,
                        "resultMessage": null,
                        "metadata": {},
                    },
                    {
                        "auditId": "01990000-0000-7000-8000-000000000003",
                        "commandKind": "acknowledge_branch_deposit",
                        "actorKind": "branch_manager",
                        "actorProfileId": "manager-1",
                        "idempotencyKey": "acknowledgement-key-1",
                        "expectedRevision": 1,
                        "committedRevision": 2,
                        "beforeStatus": "awaiting_branch_deposit",
                        "afterStatus": "awaiting_confirmation",
                        "recordedAt": "2026-11-20T12:30:00.000Z",
                        "reason": "Paid today.",
                        "resultMessage": null,
                        "metadata": {},
                    },
                ],
                "lineAcknowledgements": [
                    {
                        "lineAcknowledgementId": "acknowledgement-1",
                        "settlementLineKey": "line-1",
                        "settlementLineKind": "membership_due",
                        "acknowledgedByActorProfileId": "manager-1",
                        "acknowledgedAt": "2026-11-20T11:00:00.000Z",
                        "sourceEvidenceKey": "evidence-1",
                        "acknowledgementNote": "paid",
                    },
                    {
                        "lineAcknowledgementId": "acknowledgement-2",
                        "settlementLineKey": "line-2",
                        "settlementLineKind": "membership_due",
                        "acknowledgedByActorProfileId": "manager-1",
                        "acknowledgedAt": "2026-11-20T11:00:00.000Z",
                        "sourceEvidenceKey": null,
                        "acknowledgementNote": null,
                    },
                ],
                "manualRows": [],
            })
        );
        assert!(scenario.outbox.is_empty());
    }

    #[test]
    fn a_manager_acts_under_the_profile_of_the_token() {
        let (mut scenario, id) = scenario("platform_to_branch");
        scenario.acting(with_profile(manager("user-9", "branch-1"), "manager-1"));
        let statement = scenario.when(NAME, &[], &body(&id)).committed();
        assert_eq!(
            statement["transitionAudits"][1]["actorProfileId"],
            "manager-1"
        );
    }

    #[test]
    fn a_handoff_is_acknowledged_from_either_side_and_its_facts_are_kept() {
        let (mut delivering, id) = scenario(HANDOFF);
        let statement = delivering.when(NAME, &[], &handoff_body(&id)).committed();
        assert_eq!(statement["status"], "awaiting_confirmation");
        assert_eq!(
            statement["transitionAudits"][1]["metadata"],
            handoff_facts()
        );

        let (mut relating, id) = scenario(HANDOFF);
        let body = with(
            &handoff_body(&id),
            &[
                (
                    "interOfficeAcknowledgement.acknowledgementSide",
                    json!("customer_relationship_branch"),
                ),
                (
                    "interOfficeAcknowledgement.serviceDeliveryBranchProfileId",
                    json!("branch-2"),
                ),
                (
                    "interOfficeAcknowledgement.customerRelationshipBranchProfileId",
                    json!("branch-1"),
                ),
            ],
        );
        let statement = relating.when(NAME, &[], &body).committed();
        assert_eq!(
            statement["transitionAudits"][1]["metadata"],
            body["interOfficeAcknowledgement"]
        );
    }

    #[test]
    fn a_branch_in_arrears_may_acknowledge_further_lines() {
        let (mut scenario, id) = moved_to(StatementStatus::Arrears);
        let statement = scenario.when(NAME, &[], &further(&id)).committed();
        assert_eq!(statement["status"], "awaiting_confirmation");
        assert_eq!(statement["revision"], 3);
        let keys: Vec<_> = statement["lineAcknowledgements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["settlementLineKey"].as_str().unwrap())
            .collect();
        assert_eq!(keys, ["line-1", "line-2", "line-3"]);
        let audit = &statement["transitionAudits"][2];
        assert_eq!(audit["beforeStatus"], "arrears");
        assert_eq!(audit["afterStatus"], "awaiting_confirmation");
        assert_eq!(
            (&audit["expectedRevision"], &audit["committedRevision"]),
            (&json!(2), &json!(3))
        );
        assert_eq!(audit["reason"], Value::Null);
    }

    #[test]
    fn the_body_must_name_the_profile_of_the_token() {
        let (mut scenario, id) = scenario("head_office_to_branch");
        scenario.acting(manager("manager-2", "branch-1"));
        for statement in [id.as_str(), "no-such-statement"] {
            assert_eq!(
                scenario.when(NAME, &[], &body(statement)).code(),
                "permission_denied"
            );
        }
        scenario.acting(with_profile(manager("manager-1", "branch-1"), "profile-1"));
        assert_eq!(
            scenario.when(NAME, &[], &body(&id)).code(),
            "permission_denied"
        );
    }

    #[test]
    fn a_handoff_is_acknowledged_for_the_statements_branch_only() {
        let (mut scenario, id) = scenario(HANDOFF);
        let mut both = manager("manager-1", "branch-1");
        both.branch_profile_ids.push("branch-2".into());
        scenario.acting(both);
        let other_branch = [
            (
                "interOfficeAcknowledgement.acknowledgingBranchProfileId",
                json!("branch-2"),
            ),
            (
                "interOfficeAcknowledgement.serviceDeliveryBranchProfileId",
                json!("branch-2"),
            ),
            (
                "interOfficeAcknowledgement.customerRelationshipBranchProfileId",
                json!("branch-1"),
            ),
            ("expectedRevision", json!(7)),
        ];
        let then = scenario.when(NAME, &[], &with(&handoff_body(&id), &other_branch));
        assert_eq!(then.code(), "permission_denied");
        assert_eq!(revision(&scenario, &id), Revision::FIRST);
    }

    #[test]
    fn handoff_facts_go_with_handoffs_alone_and_are_checked_before_conflicts() {
        for kind in ["head_office_to_branch", "platform_to_branch"] {
            let (mut scenario, id) = scenario(kind);
            let body = with(&handoff_body(&id), &[("expectedRevision", json!(7))]);
            assert_eq!(
                scenario.when(NAME, &[], &body).faults(),
                faults([("interOfficeAcknowledgement", "not_allowed")])
            );
        }
        let (mut scenario, id) = scenario(HANDOFF);
        let body = with(&body(&id), &[("expectedRevision", json!(7))]);
        for body in [body.clone(), with_null_facts(&body)] {
            let refusal = scenario.when(NAME, &[], &body).refusal();
            assert_eq!(
                (refusal.class, refusal.code),
                (Class::Invalid, "request_invalid")
            );
            let faults: Vec<_> = refusal
                .faults
                .iter()
                .map(|fault| (&*fault.path, fault.code))
                .collect();
            assert_eq!(
                faults,
                [("interOfficeAcknowledgement", FaultCode::Required)]
            );
        }
    }

    fn with_null_facts(body: &Value) -> Value {
        let mut body = body.clone();
        body["interOfficeAcknowledgement"] = Value::Null;
        body
    }

    #[test]
    fn a_stale_revision_is_named_where_it_stands() {
        let stale = |then: Then| {
            let refusal = then.refusal();
            assert_eq!(
                (refusal.class, refusal.code),
                (Class::Conflict, "revision_stale")
            );
            refusal.conflicting
        };
        let inner = "interOfficeAcknowledgement.expectedStatementRevision";
        assert_eq!(
            stale(acknowledge(&[("expectedRevision", json!(2))])),
            ["expectedRevision"]
        );
        assert_eq!(
            stale(hand_over(&[("expectedRevision", json!(2))])),
            ["expectedRevision"]
        );
        for number in [-1, 0, 2] {
            assert_eq!(stale(hand_over(&[(inner, json!(number))])), [inner]);
        }
        assert_eq!(
            stale(hand_over(&[
                ("expectedRevision", json!(2)),
                (inner, json!(2))
            ])),
            ["expectedRevision", inner]
        );
    }

    #[test]
    fn a_deposit_is_acknowledged_where_one_is_awaited_or_late() {
        for status in StatementStatus::ALL {
            let (mut scenario, id) = moved_to(status);
            let then = scenario.when(NAME, &[], &further(&id));
            match status {
                StatementStatus::AwaitingBranchDeposit | StatementStatus::Arrears => {
                    let statement = then.committed();
                    assert_eq!(statement["status"], "awaiting_confirmation");
                    assert_eq!(
                        statement["transitionAudits"][2]["beforeStatus"],
                        json!(status)
                    );
                }
                _ => {
                    let refusal = then.refusal();
                    assert_eq!(refusal.class, Class::Conflict);
                    assert_eq!(refusal.code, "statement_not_acknowledgeable", "{status:?}");
                    assert_eq!(revision(&scenario, &id).number(), 2);
                }
            }
        }
    }

    #[test]
    fn a_line_is_acknowledged_once_by_its_key_and_by_the_acknowledgements_id() {
        let (mut scenario, id) = moved_to(StatementStatus::Arrears);
        let mut same_key = line(3);
        same_key["settlementLineKey"] = json!("line-2");
        let mut same_id = line(3);
        same_id["lineAcknowledgementId"] = json!("acknowledgement-1");
        for second in [same_key, same_id] {
            let again = with(
                &body(&id),
                &[
                    ("lineAcknowledgements", json!([line(4), second])),
                    ("expectedRevision", json!(2)),
                    ("idempotencyKey", json!("acknowledgement-key-2")),
                ],
            );
            let refusal = scenario.when(NAME, &[], &again).refusal();
            assert_eq!(refusal.class, Class::Conflict);
            assert_eq!(refusal.code, "line_already_acknowledged");
            assert_eq!(refusal.conflicting, ["lineAcknowledgements"]);
        }
        assert_eq!(revision(&scenario, &id).number(), 2);
    }

    #[test]
    fn a_branchs_clock_may_be_five_minutes_ahead() {
        let path = "lineAcknowledgements.1.acknowledgedAt";
        for when in [
            "2026-11-20T12:05:00Z",
            "2026-11-20T21:05:00.000999+09:00",
            "0001-01-01T00:00:00Z",
        ] {
            acknowledge(&[(path, json!(when))]).committed();
        }
        assert_eq!(
            acknowledge(&[(path, json!("2026-11-20T12:05:00.001Z"))]).faults(),
            faults([("lineAcknowledgements[1].acknowledgedAt", "out_of_range")])
        );
    }

    #[test]
    fn lines_and_a_handoffs_facts_agree_with_the_rest_of_the_body() {
        let lines = "lineAcknowledgements";
        let handoff = "interOfficeAcknowledgement";
        for (pointer, value, place, code) in [
            (
                format!("{lines}.1.acknowledgedByActorProfileId"),
                json!("manager-2"),
                format!("{lines}[1].acknowledgedByActorProfileId"),
                "not_allowed",
            ),
            (
                format!("{lines}.1.lineAcknowledgementId"),
                json!("acknowledgement-1"),
                format!("{lines}[1].lineAcknowledgementId"),
                "not_unique",
            ),
            // A disagreement is reported at the later field: the branch of the acknowledging side.
            (
                format!("{handoff}.acknowledgingBranchProfileId"),
                json!("branch-2"),
                format!("{handoff}.serviceDeliveryBranchProfileId"),
                "not_allowed",
            ),
            (
                format!("{handoff}.acknowledgementSide"),
                json!("customer_relationship_branch"),
                format!("{handoff}.customerRelationshipBranchProfileId"),
                "not_allowed",
            ),
            (
                format!("{handoff}.actorProfileId"),
                json!("manager-2"),
                format!("{handoff}.actorProfileId"),
                "not_allowed",
            ),
            (
                format!("{handoff}.projectedSettlementLineKeys"),
                json!(["line-1"]),
                format!("{handoff}.projectedSettlementLineKeys"),
                "not_allowed",
            ),
            (
                format!("{handoff}.projectedSettlementLineKeys"),
                json!(["line-1", "line-2", "line-3"]),
                format!("{handoff}.projectedSettlementLineKeys"),
                "not_allowed",
            ),
        ] {
            let then = hand_over(&[(&pointer, value)]);
            assert_eq!(then.faults(), faults([(&place, code)]));
        }
        let mut one_key = [line(1), line(2)];
        one_key[1]["settlementLineKey"] = json!("line-1");
        assert_eq!(
            acknowledge(&[("lineAcknowledgements", json!(one_key))]).faults(),
            faults([("lineAcknowledgements[1].settlementLineKey", "not_unique")])
        );
    }

    #[test]
    fn the_fingerprint_of_a_handoff_never_changes() {
        let fingerprint = Scenario::new().fingerprint(NAME, &[], &handoff_body("statement-1"));
        assert_eq!(
            fingerprint.to_hex(),
            "f9cb701ebbdfb6848b6e080ad6270c4a174ef65ed1e2f65d95cb5d33dd33f579"
        );
    }

    #[test]
    fn a_fault_of_one_line_or_member_hides_none_of_another() {
        let then = hand_over(&[
            ("lineAcknowledgements.0.settlementLineKind", json!("manual")),
            (
                "lineAcknowledgements.0.acknowledgedAt",
                json!("2026-11-20T13:00:00Z"),
            ),
            ("lineAcknowledgements.1.acknowledgementNote", json!(5)),
            (
                "lineAcknowledgements.1.lineAcknowledgementId",
                json!("acknowledgement-1"),
            ),
            (
                "lineAcknowledgements.1.acknowledgedByActorProfileId",
                json!("manager-2"),
            ),
            ("interOfficeAcknowledgement.datasetRevision", json!(0)),
            (
                "interOfficeAcknowledgement.acknowledgingBranchProfileId",
                json!("branch-2"),
            ),
            (
                "interOfficeAcknowledgement.actorProfileId",
                json!("manager-2"),
            ),
            (
                "interOfficeAcknowledgement.projectedSettlementLineKeys",
                json!(["line-1"]),
            ),
        ]);
        let mut found = then.faults();
        found.sort();
        assert_eq!(
            found,
            faults([
                ("interOfficeAcknowledgement.actorProfileId", "not_allowed"),
                ("interOfficeAcknowledgement.datasetRevision", "out_of_range"),
                (
                    "interOfficeAcknowledgement.projectedSettlementLineKeys",
                    "not_allowed"
                ),
                (
                    "interOfficeAcknowledgement.serviceDeliveryBranchProfileId",
                    "not_allowed"
                ),
                ("lineAcknowledgements[0].acknowledgedAt", "out_of_range"),
                ("lineAcknowledgements[0].settlementLineKind", "not_allowed"),
                (
                    "lineAcknowledgements[1].acknowledgedByActorProfileId",
                    "not_allowed"
                ),
                ("lineAcknowledgements[1].acknowledgementNote", "wrong_type"),
                (
                    "lineAcknowledgements[1].lineAcknowledgementId",
                    "not_unique"
                ),
            ])
        );
    }

    #[test]
    fn an_unreadable_member_is_one_fault_and_is_compared_with_nothing() {
        let then = hand_over(&[
            ("actorProfileId", json!("")),
            ("lineAcknowledgements.0.settlementLineKey", json!(" ")),
            ("lineAcknowledgements.1.settlementLineKey", json!(" ")),
        ]);
        assert_eq!(
            then.faults(),
            faults([
                ("actorProfileId", "too_short"),
                ("lineAcknowledgements[0].settlementLineKey", "blank"),
                ("lineAcknowledgements[1].settlementLineKey", "blank"),
            ])
        );
    }
}
