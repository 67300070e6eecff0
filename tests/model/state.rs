//! The model: what stands, and what is common to all operations: tokens, shape, lifecycle, keys
//! and facts. Each group of operations has a file of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use carebook::base::actor::ActorKind;
use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use super::expected::{Answer, Expected};
use super::world::{self, ACTORS, Command, FACTS, Who};

/// A fact as it stands.
#[derive(Clone, Debug)]
pub struct FactHeld {
    pub revision: i64,
    /// As values: moments in one form, nulls left out.
    pub facts: Value,
    /// When it was committed last.
    pub at: i64,
    /// Whether all its members are known: those of a new branch's office are not all determined.
    pub known: bool,
}

/// What a key was used for first.
#[derive(Clone, Debug)]
pub struct KeyHeld {
    pub facts: String,
    pub status: u16,
    pub body: Value,
}

/// A record that an operation made.
#[derive(Clone, Debug)]
pub struct Held {
    pub id: String,
    /// As it reads.
    pub body: Value,
    /// Whose command made it.
    pub subject: String,
    /// The facts of that command.
    pub facts: String,
    /// The position of its last commit.
    pub position: Option<u64>,
}

/// Everything.
pub struct Model {
    pub now: i64,
    pub facts: BTreeMap<(String, String), FactHeld>,
    recent: BTreeMap<String, VecDeque<String>>,
    pub keys: BTreeMap<(u16, String, String), KeyHeld>,
    ids: BTreeSet<String>,
    last_commit: u64,

    pub delegations: Vec<super::family::Delegation>,
    pub grants: Vec<Held>,
    pub organization_revision: i64,
    pub branches: Vec<super::branch::Branch>,
    pub offices: BTreeMap<String, Value>,
    pub office_revisions: BTreeSet<String>,
    pub snapshots: Vec<Held>,
    pub profiles: Vec<super::mother::Profile>,
    pub requests: Vec<Held>,
    pub statements: Vec<Held>,
    pub rosters: Vec<super::reservation::Roster>,
    pub assignment_ids: BTreeSet<String>,
    /// What consultations are to pay: only the mother may pre-register it.
    pub consultations: BTreeSet<String>,
    pub drafts_confirmed: Vec<(String, Option<String>)>,
    pub lifecycles: Vec<Held>,
    pub captures: BTreeMap<String, Value>,
    pub receipts: Vec<super::payout::Receipt>,
    pub registrations: Vec<Held>,
    pub audits: Vec<Held>,
    pub gateway_revisions: BTreeMap<String, i64>,
}

impl Model {
    pub fn new() -> Self {
        Self {
            now: 0,
            facts: BTreeMap::new(),
            recent: BTreeMap::new(),
            keys: BTreeMap::new(),
            ids: BTreeSet::new(),
            last_commit: 0,
            delegations: Vec::new(),
            grants: Vec::new(),
            organization_revision: 1,
            branches: Vec::new(),
            offices: BTreeMap::new(),
            office_revisions: BTreeSet::new(),
            snapshots: Vec::new(),
            profiles: Vec::new(),
            requests: Vec::new(),
            statements: Vec::new(),
            rosters: Vec::new(),
            assignment_ids: BTreeSet::new(),
            consultations: BTreeSet::new(),
            drafts_confirmed: Vec::new(),
            lifecycles: Vec::new(),
            captures: BTreeMap::new(),
            receipts: Vec::new(),
            registrations: Vec::new(),
            audits: Vec::new(),
            gateway_revisions: BTreeMap::new(),
        }
    }

    /// What the command has to be answered with. What only the service knows is taken from its
    /// answer.
    pub fn step(&mut self, command: &Command, answer: &Answer) -> Expected {
        let expected = self.decide(command, answer);
        if expected.committed
            && let Some(position) = answer.position
        {
            // A later commit has a higher position.
            assert!(
                position > self.last_commit,
                "{position} after {}",
                self.last_commit
            );
            self.last_commit = position;
        }
        expected
    }

    /// Takes note of a command that was carried out beside others, in whatever order their answers
    /// came: what stands is then nearly what the service has, enough to make commands from.
    pub fn note(&mut self, command: &Command, answer: &Answer) {
        self.decide(command, answer);
    }

    fn decide(&mut self, command: &Command, answer: &Answer) -> Expected {
        let op = command.op;
        let nobody = Who::NOBODY;
        let who = match command.who {
            _ if op == 13 => &nobody,
            Some(who) => &ACTORS[who],
            None => {
                return Expected {
                    before_engine: true,
                    ..Expected::refused(401, "authentication_required")
                };
            }
        };
        // All faults are named at once.
        let mut faults = self.faults(command);
        faults.extend(command.fault.clone());
        if !faults.is_empty() {
            let status = if matches!(op, 3 | 7 | 13 | 14) {
                422
            } else {
                400
            };
            return Expected {
                faults: Some(faults),
                before_engine: true,
                ..Expected::refused(status, "request_invalid")
            };
        }
        if op != 13
            && let Some(actor) = self.fact("actor", who.subject)
        {
            match actor.facts["lifecycle"].as_str() {
                Some("inactive") => return Expected::refused(403, "actor_inactive"),
                Some("withdrawn") => return Expected::refused(403, "actor_withdrawn"),
                _ => {}
            }
        }
        if op == FACTS {
            return self.put_facts(command, who, answer);
        }
        if op > FACTS {
            return self.read(command, who, answer);
        }
        let key = match op {
            1 | 17 => None,
            2 | 3 | 4 | 7 | 14 | 18 | 20 => command.key.clone(),
            _ => Some(s(&command.body, key_member(op)).to_owned()),
        };
        let facts = facts_of(command);
        let scope = if op == 13 { "" } else { who.subject };
        let key = key.map(|key| (op, scope.to_owned(), key));
        if let Some(first) = key.as_ref().and_then(|key| self.keys.get(key)) {
            if first.facts == facts {
                return replay_of(op, first);
            }
            return match op {
                13 => Expected::conflict("charge_snapshot_reused"),
                18 => self.confirm_conflict(command, "idempotency_key_reused", answer),
                _ => Expected::conflict("idempotency_key_reused"),
            }
            .anywhere();
        }
        let expected = match op {
            1 => self.authorize_payment(command, who),
            2 => self.grant_payment(command, who, answer),
            3 => self.create_branch(command, who, answer),
            4 => self.grant_history(command, who, answer),
            5 => self.open_request(command, who, answer),
            6 => self.mark_ready(command, who, answer),
            7 => self.update_profile(command, who, answer),
            8 => self.acknowledge_deposit(command, who, answer),
            9 => self.request_deposit(command, who, answer),
            10 => self.assign(command, who),
            11 => self.repair(command, who),
            12 => self.acknowledge_payout(command, who),
            13 => self.finalize(command, answer),
            14 => self.accept_invitation(command, who, answer),
            15 => self.capture(command, who, answer),
            16 => self.snapshot(command, who, answer),
            17 => self.decide_receipt(command),
            18 => self.confirm(command, who, answer),
            19 => self.update_office(command, who),
            20 => self.pre_register(command, who, answer),
            21 => self.administer(command, who, answer),
            other => unreachable!("no operation {other}"),
        };
        if expected.committed
            && let Some(key) = key
        {
            let held = KeyHeld {
                facts,
                status: expected.status,
                body: expected.body.clone().unwrap_or_default(),
            };
            self.keys.insert(key, held);
        }
        expected
    }

    /// The faults of a command's values, as far as the world makes such.
    fn faults(&self, command: &Command) -> Vec<(String, String)> {
        let mut faults = Faults(Vec::new());
        let body = &command.body;
        match command.op {
            1 => faults.least(body, "amountKrw", 1),
            2 => faults.least(body, "maximumAuthorizedAmountKrw", 1),
            5 | 6 | 8 | 9 => self.settlement_faults(command, &mut faults),
            7 => self.profile_faults(body, &mut faults),
            10 => faults.least(body, "handoffOrder", 1),
            11 | 12 => self.payout_faults(command, &mut faults),
            13 => self.charge_faults(body, &mut faults),
            21 => self.gateway_faults(body, &mut faults),
            _ => {}
        }
        faults.0
    }

    pub fn fact(&self, kind: &str, id: &str) -> Option<&FactHeld> {
        self.facts.get(&(kind.to_owned(), id.to_owned()))
    }

    /// The facts of this kind, by their ids.
    pub fn facts_of_kind(&self, kind: &str) -> impl Iterator<Item = (&str, &FactHeld)> {
        let first = (kind.to_owned(), String::new());
        let kind = kind.to_owned();
        self.facts
            .range(first..)
            .take_while(move |((known, _), _)| *known == kind)
            .map(|((_, id), fact)| (id.as_str(), fact))
    }

    /// The facts of an active or other booking.
    pub fn booking(&self, id: &str) -> Option<&FactHeld> {
        self.fact("reservation-booking", id)
    }

    /// The ids of this kind that came into being last.
    pub fn recent(&self, kind: &str) -> Vec<String> {
        let recent = self.recent.get(kind);
        recent
            .map(|ids| ids.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Puts a fact that an operation brings into being or changes.
    pub fn set_fact(&mut self, kind: &str, id: &str, revision: i64, facts: Value) {
        let key = (kind.to_owned(), id.to_owned());
        if !self.facts.contains_key(&key) {
            let recent = self.recent.entry(kind.to_owned()).or_default();
            recent.push_back(id.to_owned());
            if recent.len() > 8 {
                recent.pop_front();
            }
        }
        let held = FactHeld {
            revision,
            facts: plain(&facts),
            at: self.now,
            known: true,
        };
        self.facts.insert(key, held);
    }

    /// A new identifier, from the service's answer.
    pub fn new_id(&mut self, answer: &Answer, pointer: &str) -> Value {
        let id = answer.body.pointer(pointer).and_then(Value::as_str);
        let good = id.filter(|id| {
            let parsed = uuid::Uuid::try_parse(id);
            parsed.is_ok_and(|uuid| uuid.get_version_num() == 7 && uuid.to_string() == **id)
                && self.ids.insert((*id).to_owned())
        });
        good.map_or(json!("(a new UUIDv7)"), |id| json!(id))
    }

    /// An identifier that the service makes, in any form, from its answer.
    pub fn made(&mut self, answer: &Answer, pointer: &str) -> Value {
        match answer.body.pointer(pointer) {
            Some(Value::String(id)) if !id.is_empty() && self.ids.insert(id.clone()) => json!(id),
            _ => json!("(a new identifier)"),
        }
    }

    fn put_facts(&mut self, command: &Command, who: &Who, answer: &Answer) -> Expected {
        if who.kind != ActorKind::SystemWorkflow || !who.may("facts:write") {
            return Expected::forbidden();
        }
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        let mut problems = Vec::new();
        for (index, fact) in (0..).zip(command.body["facts"].as_array().into_iter().flatten()) {
            let index: u64 = index;
            let (result, faults) = self.put_fact(fact);
            *counts.entry(result).or_default() += 1;
            if !matches!(result, "applied" | "unchanged") {
                // The sentences for people are not determined.
                let place = problems.len();
                let faults: Vec<_> = (0..)
                    .zip(faults)
                    .map(|(index, (path, code)): (usize, _)| {
                        let pointer = format!("/problems/{place}/fieldErrors/{index}/message");
                        let message = seen(answer, &pointer);
                        json!({"fieldPath": path, "code": code, "message": message})
                    })
                    .collect();
                problems.push(json!({
                    "index": index,
                    "kind": fact["kind"],
                    "id": fact["id"],
                    "result": result,
                    "fieldErrors": faults,
                }));
            }
        }
        let count = |result: &str| counts.get(result).copied().unwrap_or_default();
        Expected::found(
            200,
            json!({
                "applied": count("applied"),
                "unchanged": count("unchanged"),
                "stale": count("stale"),
                "conflict": count("conflict"),
                "invalid": count("invalid"),
                "problems": problems,
            }),
        )
    }

    /// What becomes of a fact, and the faults of one that breaks its schema.
    fn put_fact(&mut self, fact: &Value) -> (&'static str, Vec<(&'static str, &'static str)>) {
        let (kind, id) = (s(fact, "kind"), s(fact, "id"));
        let revision = n(fact, "revision");
        let faults = world::bad_fact(fact);
        if !faults.is_empty() {
            return ("invalid", faults);
        }
        let facts = plain(&fact["facts"]);
        if kind == "mother-profile" {
            let other = self
                .profiles
                .iter()
                .any(|profile| profile.owner == s(&facts, "ownerSubject") && profile.id != id);
            if other {
                return ("conflict", Vec::new());
            }
        }
        if let Some(held) = self.fact(kind, id) {
            if revision < held.revision {
                return ("stale", Vec::new());
            }
            if revision == held.revision {
                if facts == held.facts {
                    return ("unchanged", Vec::new());
                }
                return ("conflict", Vec::new());
            }
            if kind == "payment-change-adjustment" && self.captures.contains_key(id) {
                return ("conflict", Vec::new());
            }
        }
        self.set_fact(kind, id, revision, facts.clone());
        match kind {
            "mother-profile" => self.profile_fact(id, &facts),
            "branch-office-profile" => self.office_fact(id, revision),
            _ => {}
        }
        ("applied", Vec::new())
    }

    fn read(&mut self, command: &Command, who: &Who, answer: &Answer) -> Expected {
        let (found, access) = match command.op {
            world::READ_DELEGATION => self.read_delegation(command, who),
            world::READ_GRANT => self.read_grant(command, who),
            world::READ_PROFILE => return self.read_profile(who),
            world::READ_STATEMENT => self.read_statement(command, who),
            world::READ_REQUEST => self.read_request(command, who),
            world::READ_ROSTER => self.read_roster(command, who),
            world::READ_FACT => return self.read_fact(command, who, answer),
            world::READ_ORGANIZATION => return self.read_organization(who),
            world::READ_BRANCH => self.read_branch(command, who),
            world::READ_OFFICE => self.read_office(command, who),
            world::READ_SNAPSHOT => self.read_snapshot(command, who),
            world::READ_REGISTRATION => self.read_registration(command, who),
            world::READ_AUDIT => self.read_audit(command, who),
            world::READ_RECEIPT => self.read_receipt(command, who),
            world::READ_LIFECYCLE => self.read_lifecycle(command, who),
            world::READ_ADJUSTMENT => self.read_adjustment(command, who),
            other => unreachable!("no read {other}"),
        };
        let missing = Expected::missing("not_found");
        match (found, access) {
            (None, _) | (_, Access::No) => missing,
            (Some((body, tag)), access) => Expected {
                tag,
                or_missing: access == Access::Undetermined,
                ..Expected::found(200, body)
            },
        }
    }

    fn read_fact(&self, command: &Command, who: &Who, answer: &Answer) -> Expected {
        if who.kind != ActorKind::SystemWorkflow
            || !(who.may("facts:read") || who.may("facts:write"))
        {
            return Expected::forbidden();
        }
        let (kind, id) = (&command.params[0], &command.params[1]);
        let Some(fact) = self.fact(kind, id) else {
            return Expected::missing("not_found");
        };
        let mut facts = fact.facts.clone();
        if !fact.known {
            for member in ["addressLine", "businessRegistrationReference"] {
                facts[member] = seen(answer, &format!("/facts/{member}"));
            }
        }
        let body = json!({"kind": kind, "id": id, "revision": fact.revision, "facts": facts});
        Expected {
            tag: Some(fact.revision.to_string()),
            nulls_may_lack: true,
            ..Expected::found(200, body)
        }
    }

    /// A read of everything that stands, by somebody who may read it.
    pub fn reads(&self) -> Vec<Command> {
        let workflow = world::WORKFLOW;
        let headquarters = world::HEADQUARTERS;
        let mut reads = Vec::new();
        let mut add = |op, params: &[&str], who| reads.push(Command::read(op, params, who));
        for (kind, id) in self.facts.keys() {
            add(world::READ_FACT, &[kind, id], workflow);
            if kind == "payment-change-adjustment" {
                let booking = s(
                    &self.facts[&(kind.clone(), id.clone())].facts,
                    "reservationBookingId",
                );
                add(world::READ_ADJUSTMENT, &[booking], headquarters);
            }
        }
        for delegation in &self.delegations {
            add(world::READ_DELEGATION, &[&delegation.id], headquarters);
        }
        for (op, list) in [
            (world::READ_GRANT, &self.grants),
            (world::READ_STATEMENT, &self.statements),
            (world::READ_REQUEST, &self.requests),
            (world::READ_SNAPSHOT, &self.snapshots),
            (world::READ_LIFECYCLE, &self.lifecycles),
            (world::READ_REGISTRATION, &self.registrations),
            (world::READ_AUDIT, &self.audits),
        ] {
            for held in list {
                add(op, &[&held.id], headquarters);
            }
        }
        for branch in &self.branches {
            add(world::READ_BRANCH, &[&branch.id], headquarters);
        }
        for id in self.offices.keys() {
            add(world::READ_OFFICE, &[id], headquarters);
        }
        for roster in &self.rosters {
            add(world::READ_ROSTER, &[&roster.booking], headquarters);
        }
        for receipt in &self.receipts {
            let id = &receipt.id;
            add(world::READ_RECEIPT, &[&id.0, &id.1, &id.2], headquarters);
        }
        for (who, actor) in ACTORS.iter().enumerate() {
            let owns = self
                .profiles
                .iter()
                .any(|profile| profile.owner == actor.subject);
            if owns {
                add(world::READ_PROFILE, &[], who);
            }
        }
        add(world::READ_ORGANIZATION, &[], headquarters);
        reads.retain(|read| {
            let who = read.who.map_or("", |who| ACTORS[who].subject);
            let lifecycle = self.fact("actor", who);
            lifecycle.is_none_or(|actor| actor.facts["lifecycle"] == "active")
        });
        reads
    }
}

/// Whether somebody may read something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Yes,
    No,
    /// The description leaves it open.
    Undetermined,
}

impl Access {
    pub fn when(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// What a read finds: the body, and the tag where it is determined.
pub type Found = (Option<(Value, Option<String>)>, Access);

/// Faults of values, with their places.
pub struct Faults(pub Vec<(String, String)>);

impl Faults {
    pub fn add(&mut self, path: impl Into<String>, code: &str) {
        self.0.push((path.into(), code.to_owned()));
    }

    /// An integer that has to be at least `least`.
    pub fn least(&mut self, body: &Value, member: &str, least: i64) {
        if body[member].as_i64().is_some_and(|number| number < least) {
            self.add(member, "out_of_range");
        }
    }
}

/// The member of the body that is the key.
pub fn key_member(op: u16) -> &'static str {
    match op {
        13 => "finalizedChargeSnapshotId",
        15 => "paymentId",
        19 => "commandId",
        _ => "idempotencyKey",
    }
}

/// The facts of a command: its operation, its path parameters, and its body without the key, as
/// values.
pub fn facts_of(command: &Command) -> String {
    let mut body = plain(&command.body);
    if !matches!(command.op, 2 | 3 | 4 | 7 | 14 | 18 | 20)
        && let Some(body) = body.as_object_mut()
    {
        body.remove(key_member(command.op));
    }
    json!([command.op, command.params, body]).to_string()
}

/// The answer to the same command again.
pub fn replay_of(op: u16, first: &KeyHeld) -> Expected {
    let mut body = first.body.clone();
    if body.get("idempotentReplay").is_some() {
        body["idempotentReplay"] = json!(true);
    }
    if op == 21 {
        body["replayedFromAuditId"] = body["billingAdminOperationAuditId"].clone();
    }
    let status = match op {
        3 | 7 | 14 => 200,
        _ => first.status,
    };
    Expected {
        replayed: true,
        ..Expected::found(status, body)
    }
}

/// A value with its moments in one form and without its nulls; what is free in form stays as it
/// is.
pub fn plain(value: &Value) -> Value {
    let mut value = without_nulls(value);
    in_one_form(&mut value);
    value
}

/// A value without nulls but in what is free in form.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| match name.as_str() {
                "providerContext" | "reviewedFacts" => (name.clone(), value.clone()),
                _ => (name.clone(), without_nulls(value)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn in_one_form(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("providerContext" | "reviewedFacts", _) => {}
                    ("registrationNumber", Value::String(text)) => *text = text.replace('-', ""),
                    (name, Value::String(text)) if name.ends_with("At") => {
                        *text = moment(millis(text));
                    }
                    (_, value) => in_one_form(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(in_one_form),
        _ => {}
    }
}

/// The moment as it is written.
pub fn moment(millis: i64) -> String {
    DateTime::from_timestamp_millis(millis)
        .unwrap()
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The moment as it is counted.
pub fn millis(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text)
        .unwrap()
        .timestamp_millis()
}

/// A text member.
pub fn s<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

/// An integer member.
pub fn n(value: &Value, member: &str) -> i64 {
    value[member].as_i64().unwrap_or_default()
}

/// The texts of an array member.
pub fn texts<'a>(value: &'a Value, member: &str) -> Vec<&'a str> {
    let items = value[member].as_array();
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// What the service said there.
pub fn seen(answer: &Answer, pointer: &str) -> Value {
    answer.body.pointer(pointer).cloned().unwrap_or_default()
}

/// A fingerprint that the service made.
pub fn fingerprint(answer: &Answer, pointer: &str) -> Value {
    let text = answer.body.pointer(pointer).and_then(Value::as_str);
    let good = text.filter(|text| {
        text.len() == 64
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    good.map_or(json!("(a fingerprint)"), |text| json!(text))
}

/// The number of an outbox message.
pub fn number(answer: &Answer, pointer: &str) -> Value {
    let number = answer.body.pointer(pointer).and_then(Value::as_i64);
    number.map_or(json!("(a number)"), |number| json!(number))
}
