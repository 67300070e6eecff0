//! The requests that the service understands, and its answers.

use std::borrow::Cow;
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

/// The body of `POST /settlement-deposit-requests`. All fields are required, as by carebook.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Deposit<'a> {
    #[serde(borrow)]
    statement_code: Cow<'a, str>,
    #[serde(borrow)]
    statement_kind: Cow<'a, str>,
    #[serde(borrow)]
    branch_profile_id: Cow<'a, str>,
    #[serde(borrow)]
    settlement_period_start: Cow<'a, str>,
    #[serde(borrow)]
    settlement_period_end: Cow<'a, str>,
    #[serde(borrow)]
    remittance_account_snapshot: &'a RawValue,
    #[serde(borrow)]
    actor_kind: Cow<'a, str>,
    #[serde(borrow)]
    actor_profile_id: Cow<'a, str>,
    #[serde(borrow)]
    idempotency_key: Cow<'a, str>,
    #[serde(borrow)]
    message_to_branch: &'a RawValue,
    #[serde(borrow)]
    head_office_private_memo: &'a RawValue,
}

/// The body of `POST /commands/{resource}`; other fields are kept as the state of the resource.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Advance<'a> {
    #[serde(borrow)]
    idempotency_key: Cow<'a, str>,
    /// 0 where the resource must be new; without it, whatever there is is advanced.
    expected_revision: Option<i64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Statement<'a> {
    statement_id: Uuid,
    statement_code: &'a str,
    statement_kind: &'a str,
    branch_profile_id: &'a str,
    settlement_period_start: &'a str,
    settlement_period_end: &'a str,
    status: &'static str,
    revision: i64,
    remittance_account_snapshot: &'a RawValue,
    requested_by_actor_profile_id: &'a str,
    created_at: &'a str,
    updated_at: &'a str,
    message_to_branch: &'a RawValue,
    head_office_private_memo: &'a RawValue,
    transition_audits: [&'a RawValue; 1],
    line_acknowledgements: [(); 0],
    manual_rows: [(); 0],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Audit<'a> {
    audit_id: Uuid,
    command_kind: &'static str,
    actor_kind: &'a str,
    actor_profile_id: &'a str,
    idempotency_key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_revision: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    committed_revision: Option<i64>,
    before_status: &'static str,
    after_status: &'static str,
    recorded_at: &'a str,
    reason: Option<&'a str>,
    result_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Empty>,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    event: &'static str,
    resource: &'a str,
    idempotency_key: &'a str,
    occurred_at: &'a str,
}

const STATUS: &str = "awaiting_branch_deposit";

/// A statement to be opened, with all that is written for it.
pub(crate) struct Opening {
    pub(crate) key: String,
    pub(crate) fingerprint: [u8; 32],
    pub(crate) id: Uuid,
    pub(crate) code: String,
    pub(crate) entry: String,
    pub(crate) event: String,
    pub(crate) outcome: String,
}

/// A resource to be advanced, with all that is written for it. The outcome is `head`, the new
/// revision, and `tail`.
pub(crate) struct Advancing {
    pub(crate) key: String,
    pub(crate) fingerprint: [u8; 32],
    pub(crate) expected: Option<i64>,
    pub(crate) entry: String,
    pub(crate) event: String,
    pub(crate) head: String,
    pub(crate) tail: String,
}

impl Opening {
    /// What this body asks for; an error says what is wrong with it.
    pub(crate) fn of(body: &str) -> Result<Self, serde_json::Error> {
        let deposit: Deposit<'_> = serde_json::from_str(body)?;
        let now = now();
        let id = Uuid::now_v7();
        let audit = Audit {
            audit_id: Uuid::now_v7(),
            command_kind: "request_deposit",
            actor_kind: &deposit.actor_kind,
            actor_profile_id: &deposit.actor_profile_id,
            idempotency_key: &deposit.idempotency_key,
            expected_revision: Some(0),
            committed_revision: Some(1),
            before_status: STATUS,
            after_status: STATUS,
            recorded_at: &now,
            reason: None,
            result_message: None,
            metadata: Some(Empty {}),
        };
        let entry = RawValue::from_string(serde_json::to_string(&audit)?)?;
        let statement = Statement {
            statement_id: id,
            statement_code: &deposit.statement_code,
            statement_kind: &deposit.statement_kind,
            branch_profile_id: &deposit.branch_profile_id,
            settlement_period_start: &deposit.settlement_period_start,
            settlement_period_end: &deposit.settlement_period_end,
            status: STATUS,
            revision: 1,
            remittance_account_snapshot: deposit.remittance_account_snapshot,
            requested_by_actor_profile_id: &deposit.actor_profile_id,
            created_at: &now,
            updated_at: &now,
            message_to_branch: deposit.message_to_branch,
            head_office_private_memo: deposit.head_office_private_memo,
            transition_audits: [&entry],
            line_acknowledgements: [],
            manual_rows: [],
        };
        let outcome = serde_json::to_string(&statement)?;
        let event = event(
            "statement_opened",
            &deposit.statement_code,
            &deposit.idempotency_key,
            &now,
        )?;
        Ok(Self {
            fingerprint: fingerprint("deposit", body),
            id,
            entry: entry.get().to_owned(),
            event,
            outcome,
            key: deposit.idempotency_key.into_owned(),
            code: deposit.statement_code.into_owned(),
        })
    }
}

impl Advancing {
    /// What this body asks of the resource; an error says what is wrong with it.
    pub(crate) fn of(resource: &str, body: &str) -> Result<Self, serde_json::Error> {
        let advance: Advance<'_> = serde_json::from_str(body)?;
        let now = now();
        let audit = Audit {
            audit_id: Uuid::now_v7(),
            command_kind: "request_deposit",
            actor_kind: "headquarters_administrator",
            actor_profile_id: "hq-1",
            idempotency_key: &advance.idempotency_key,
            expected_revision: None,
            committed_revision: None,
            before_status: STATUS,
            after_status: STATUS,
            recorded_at: &now,
            reason: None,
            result_message: None,
            metadata: None,
        };
        let entry = serde_json::to_string(&audit)?;
        let event = event(
            "resource_advanced",
            resource,
            &advance.idempotency_key,
            &now,
        )?;
        let head = format!(r#"{{"resource":"{resource}","revision":"#);
        let tail = format!(
            r#","status":"{STATUS}","updatedAt":"{now}","command":{body},"transitionAudits":[{entry}]}}"#
        );
        Ok(Self {
            fingerprint: fingerprint(resource, body),
            expected: advance.expected_revision,
            entry,
            event,
            head,
            tail,
            key: advance.idempotency_key.into_owned(),
        })
    }
}

fn event(
    event: &'static str,
    resource: &str,
    idempotency_key: &str,
    occurred_at: &str,
) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Event {
        event,
        resource,
        idempotency_key,
        occurred_at,
    })
}

/// What distinguishes a request from another one with the same key: a digest of what it is about
/// and of its body.
pub(crate) fn fingerprint(about: &str, body: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(about.as_bytes());
    hasher.update(&[0]);
    hasher.update(body.as_bytes());
    hasher.finalize().into()
}

/// The time as the answers say it.
pub(crate) fn now() -> String {
    DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The body of an answer that says what is wrong.
pub(crate) fn problem(code: &str, message: &str) -> String {
    json!({"error": {"code": code, "message": message}}).to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::workload;

    #[test]
    fn an_opened_statement_says_what_was_asked() {
        let body = workload::deposit_body(7);
        let opening = Opening::of(&body).unwrap();
        let asked: Value = serde_json::from_str(&body).unwrap();
        let outcome: Value = serde_json::from_str(&opening.outcome).unwrap();
        for member in [
            "statementCode",
            "remittanceAccountSnapshot",
            "messageToBranch",
        ] {
            assert_eq!(outcome[member], asked[member], "{member}");
        }
        assert_eq!(outcome["revision"], 1);
        assert_eq!(
            outcome["transitionAudits"][0]["idempotencyKey"],
            asked["idempotencyKey"]
        );
        assert_eq!(opening.key, asked["idempotencyKey"].as_str().unwrap());
        // Within a tenth of what carebook answers.
        assert!(
            (1_010..=1_230).contains(&opening.outcome.len()),
            "{}",
            opening.outcome.len()
        );
    }

    #[test]
    fn each_member_of_a_deposit_is_required() {
        let body: Value = serde_json::from_str(&workload::deposit_body(7)).unwrap();
        for member in body.as_object().unwrap().keys() {
            let mut less = body.clone();
            less.as_object_mut().unwrap().remove(member);
            assert!(Opening::of(&less.to_string()).is_err(), "{member}");
        }
    }

    #[test]
    fn an_advanced_resource_answers_with_its_revision() {
        let body = workload::command_body(7);
        let advancing = Advancing::of("resource-1", &body).unwrap();
        let outcome = format!("{}{}{}", advancing.head, 41, advancing.tail);
        let parsed: Value = serde_json::from_str(&outcome).unwrap();
        assert_eq!(parsed["revision"], 41);
        assert_eq!(parsed["command"].to_string().len(), body.len());
        assert_eq!(advancing.expected, None);
        assert!((430..=470).contains(&body.len()), "{}", body.len());
        assert!((855..=945).contains(&outcome.len()), "{}", outcome.len());
    }

    #[test]
    fn a_request_differs_by_its_body_and_by_what_it_is_about() {
        let all = [
            fingerprint("a", "b"),
            fingerprint("a", "c"),
            fingerprint("b", "b"),
        ];
        assert!(all[0] != all[1] && all[0] != all[2]);
        assert_eq!(all[0], fingerprint("a", "b"));
    }
}
