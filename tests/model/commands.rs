//! What can be asked of the service, and who asks.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::json::{Json, Reader};
use carebook::base::text::MemberId;
use carebook::base::time::Timestamp;
use carebook::catalogue::{KeySource, OPERATIONS, Row};
use carebook::domain::example::filled;
use carebook::domain::operation::Parts;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::values::{n, s};
use crate::support::good::{method, row};

/// The batch of facts, in the numbers of operations; reads come after it.
pub const FACTS: u16 = 100;
pub const READ_DELEGATION: u16 = 101;
pub const READ_GRANT: u16 = 102;
pub const READ_PROFILE: u16 = 103;
pub const READ_STATEMENT: u16 = 104;
pub const READ_REQUEST: u16 = 105;
pub const READ_ROSTER: u16 = 106;
pub const READ_FACT: u16 = 107;
pub const READ_ORGANIZATION: u16 = 108;
pub const READ_BRANCH: u16 = 109;
pub const READ_OFFICE: u16 = 110;
pub const READ_SNAPSHOT: u16 = 111;
pub const READ_REGISTRATION: u16 = 112;
pub const READ_AUDIT: u16 = 113;
pub const READ_RECEIPT: u16 = 114;
pub const READ_LIFECYCLE: u16 = 115;
pub const READ_ADJUSTMENT: u16 = 116;

/// The numbers of the operations: as many as the catalogue has.
pub fn operations() -> RangeInclusive<u16> {
    1..=u16::try_from(OPERATIONS.len()).unwrap()
}

/// Whether a token is needed: of all operations, facts and reads, few do without.
pub fn needs_token(op: u16) -> bool {
    row(op).is_none_or(|row| row.bearer)
}

/// Whether the operation has its idempotency key in the header.
pub fn has_header_key(op: u16) -> bool {
    row(op).is_some_and(|row| row.key == KeySource::Header)
}

/// Whether the operation only reads, and so has no idempotency key.
pub fn has_no_key(op: u16) -> bool {
    row(op).is_some_and(|row| row.key == KeySource::None)
}

/// The field of the operation's body that is its idempotency key, if it has one there.
pub fn key_member(op: u16) -> Option<&'static str> {
    static MEMBERS: LazyLock<BTreeMap<u16, String>> = LazyLock::new(|| {
        let members = |row: &Row| Some((row.tag, key_member_of(row)?));
        OPERATIONS.iter().filter_map(members).collect()
    });
    MEMBERS.get(&op).map(String::as_str)
}

/// The field of the example's body whose value the operation takes as the key.
fn key_member_of(row: &Row) -> Option<String> {
    let example = row.operation.example();
    let before = example.before_of(&uuid::Uuid::from_u128(1).to_string());
    let params = example.path.iter().map(|text| filled(text, &before));
    let params: Vec<String> = params.collect();
    let path = row.parameters().zip(params.iter().map(String::as_str));
    let path: Vec<(&str, &str)> = path.collect();
    let body = example.body(&before);
    let text = body.to_string();
    let parts = Parts {
        path: &path,
        body: &Json::parse(text.as_bytes()).unwrap(),
    };
    let now = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
    let command = row
        .operation
        .read(row.name, &parts, &mut Reader::new(now))
        .unwrap_or_else(|| panic!("the example of {} has a fault", row.name));
    let key = command.key()?;
    let members = body.as_object()?.iter();
    let members: Vec<_> = members.filter(|(_, value)| **value == key).collect();
    let [(member, _)] = members[..] else {
        panic!("the example of {} has its key in {members:?}", row.name);
    };
    Some(member.clone())
}

/// An actor, as a token says.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub subject: &'static str,
    pub kind: ActorKind,
    pub member: Option<&'static str>,
    pub profile: Option<&'static str>,
    pub branches: &'static [&'static str],
    pub permissions: &'static [&'static str],
    pub email: Option<&'static str>,
    pub verified: bool,
}

impl Who {
    pub const NOBODY: Self = Self::new(ActorKind::FamilyMember, "");

    const fn new(kind: ActorKind, subject: &'static str) -> Self {
        Self {
            subject,
            kind,
            member: None,
            profile: None,
            branches: &[],
            permissions: &[],
            email: None,
            verified: false,
        }
    }

    const fn member(self, member: &'static str) -> Self {
        Self {
            member: Some(member),
            ..self
        }
    }

    const fn profile(self, profile: &'static str) -> Self {
        Self {
            profile: Some(profile),
            ..self
        }
    }

    const fn branches(self, branches: &'static [&'static str]) -> Self {
        Self { branches, ..self }
    }

    const fn permissions(self, permissions: &'static [&'static str]) -> Self {
        Self {
            permissions,
            ..self
        }
    }

    const fn email(self, email: &'static str, verified: bool) -> Self {
        Self {
            email: Some(email),
            verified,
            ..self
        }
    }

    pub fn may(&self, permission: &str) -> bool {
        self.permissions.contains(&permission)
    }

    /// The profile of the token, or the subject when the token has none.
    pub fn profile_id(&self) -> &'static str {
        self.profile.unwrap_or(self.subject)
    }

    /// In lower case.
    pub fn verified_email(&self) -> Option<String> {
        self.email.filter(|_| self.verified).map(str::to_lowercase)
    }

    /// Whether the body speaks of this actor.
    pub fn is_body_of(&self, body: &Value) -> bool {
        s(body, "actorKind") == self.kind.as_str() && s(body, "actorProfileId") == self.profile_id()
    }

    pub fn actor(&self) -> Actor {
        Actor {
            subject: self.subject.into(),
            kind: self.kind,
            member_id: self.member.map(MemberId::from_trusted),
            actor_profile_id: self.profile.map(Into::into),
            branch_profile_ids: self.branches.iter().map(|id| (*id).into()).collect(),
            permissions: self.permissions.iter().map(|id| (*id).into()).collect(),
            email: self.email.map(Into::into),
            email_verified: self.verified,
        }
    }
}

/// Reads everything.
pub const HEADQUARTERS: usize = 9;
/// Writes and reads facts.
pub const WORKFLOW: usize = 15;

/// All actors.
pub static ACTORS: &[Who] = &[
    Who::new(ActorKind::Mother, "user-m1")
        .member("member-m1")
        .email("mother-1@example.com", true),
    Who::new(ActorKind::Mother, "user-m2").member("member-m2"),
    Who::new(ActorKind::Mother, "user-m3"),
    Who::new(ActorKind::FamilyMember, "user-f1").member("member-f1"),
    Who::new(ActorKind::FamilyMember, "user-f2").member("member-f2"),
    Who::new(ActorKind::FamilyMember, "user-f3"),
    Who::new(ActorKind::BranchManager, "user-bm1")
        .profile("profile-bm1")
        .branches(&["branch-1"])
        .email("Manager-1@Example.com", true),
    Who::new(ActorKind::BranchManager, "user-bm2")
        .branches(&["branch-1", "branch-2"])
        .email("manager-2@example.com", true),
    Who::new(ActorKind::BranchManager, "user-bm3").email("manager-3@example.com", false),
    Who::new(ActorKind::HeadquartersAdministrator, "user-hq1")
        .profile("profile-hq1")
        .permissions(&["branch:create", "payment:administer"])
        .email("manager-4@example.com", true),
    Who::new(ActorKind::HeadquartersAdministrator, "user-hq2"),
    Who::new(ActorKind::HeadquartersFinanceOperator, "user-hf1")
        .permissions(&["payment:administer", "payment:authorize"]),
    Who::new(ActorKind::HeadquartersFinanceOperator, "user-hf2")
        .member("member-hf2")
        .permissions(&["payment:authorize"]),
    Who::new(ActorKind::BranchFinanceOperator, "user-bf1")
        .branches(&["branch-1"])
        .permissions(&["payment:authorize"]),
    Who::new(ActorKind::BranchFinanceOperator, "user-bf2").branches(&["branch-1"]),
    Who::new(ActorKind::SystemWorkflow, "user-w1").permissions(&["facts:write", "facts:read"]),
    Who::new(ActorKind::SystemWorkflow, "user-w2").profile("profile-w2"),
    Who::new(ActorKind::Mother, "user-m4")
        .member("member-m4")
        .permissions(&["branch:create"]),
    Who::new(ActorKind::SystemWorkflow, "user-w3").permissions(&["facts:read"]),
];

/// A command or a read.
#[derive(Clone, Debug)]
pub struct Command {
    pub op: u16,
    pub who: Option<usize>,
    pub method: &'static str,
    pub path: String,
    pub params: Vec<String>,
    pub key: Option<String>,
    pub body: Value,
    /// The one fault of its shape that it was given.
    pub fault: Option<(String, String)>,
}

impl Command {
    pub fn new(op: u16, params: &[&str], who: usize, body: Value) -> Self {
        Self {
            op,
            who: Some(who),
            method: match row(op) {
                Some(row) => method(row),
                None if op == FACTS => "POST",
                None => "GET",
            },
            path: path(op, params),
            params: params.iter().map(|param| (*param).to_owned()).collect(),
            key: None,
            body,
            fault: None,
        }
    }

    pub fn read(op: u16, params: &[&str], who: usize) -> Self {
        Self::new(op, params, who, Value::Null)
    }
}

/// The path of the operation or read, with these parameters.
fn path(op: u16, params: &[&str]) -> String {
    let template = row(op).map_or_else(|| path_of_read(op), |row| row.path);
    let mut params = params.iter();
    let parts = template.split('/').map(|part| {
        if !part.starts_with('{') {
            return part.to_owned();
        }
        let param = params.next().expect("each parameter of the path is given");
        utf8_percent_encode(param, NON_ALPHANUMERIC).to_string()
    });
    parts.collect::<Vec<_>>().join("/")
}

/// The path of the batch of facts or of the read, with its parameters in braces.
fn path_of_read(op: u16) -> &'static str {
    match op {
        FACTS => "/reference-facts",
        READ_PROFILE => "/mother/profile",
        READ_DELEGATION => "/family-payment-delegations/{}",
        READ_GRANT => "/reservation-care-history-access-grants/{}",
        READ_STATEMENT => "/settlement-statements/{}",
        READ_REQUEST => "/settlement-data-room-requests/{}",
        READ_ROSTER => "/care-team-rosters/{}",
        READ_FACT => "/reference-facts/{}/{}",
        READ_ORGANIZATION => "/organization",
        READ_BRANCH => "/admin/branches/{}",
        READ_OFFICE => "/branch-office-profiles/{}",
        READ_SNAPSHOT => "/branch-settlement-account-statement-snapshots/{}",
        READ_REGISTRATION => "/reservation-payment-pre-registrations/{}",
        READ_AUDIT => "/billing-engine-payment-admin-operations/{}",
        READ_RECEIPT => "/caregiver-payout-receipt-states/{}/{}/{}",
        READ_LIFECYCLE => "/reservation-financial-lifecycles/{}",
        READ_ADJUSTMENT => "/reservation-payment-change-adjustments/{}",
        other => unreachable!("tests/model/commands.rs: {other} has no path"),
    }
}

/// The faults of a fact that breaks its schema, of those that the world makes.
pub fn bad_fact(fact: &Value) -> Vec<(&'static str, &'static str)> {
    let mut faults = Vec::new();
    if n(fact, "revision") < 1 {
        faults.push(("revision", "out_of_range"));
    }
    if fact["facts"].get("surprise").is_some() {
        faults.push(("facts.surprise", "unknown_field"));
    }
    if s(fact, "kind") == "actor" && s(&fact["facts"], "lifecycle") == "sleeping" {
        faults.push(("facts.lifecycle", "not_allowed"));
    }
    for (member, path) in [("fixedKrw", "facts.fixedKrw"), ("capKrw", "facts.capKrw")] {
        let amount = fact["facts"][member].as_i64();
        if s(fact, "kind") == "regional-benefit-policy" && amount.is_some_and(|won| won < 0) {
            faults.push((path, "out_of_range"));
        }
    }
    faults
}

#[test]
fn the_fields_that_are_keys_are_those_of_the_contract() {
    for op in operations() {
        let expected = match op {
            1..=4 | 7 | 14 | 17 | 18 | 20 => None,
            13 => Some("finalizedChargeSnapshotId"),
            15 => Some("paymentId"),
            19 => Some("commandId"),
            _ => Some("idempotencyKey"),
        };
        assert_eq!(key_member(op), expected, "{op}");
    }
}
