//! The response that a command has to get: what is common to all operations, facts and reads. What
//! each operation decides is in its group's file.

use std::collections::BTreeMap;

use carebook::base::actor::ActorKind;
use carebook::catalogue::{Invalid, KeySource};
use serde_json::{Value, json};

use super::commands::{self, ACTORS, Command, FACTS, Who, key_member, needs_token};
use super::expected::{Answer, Expected};
use super::state::{Access, Faults, KeyHeld, Model, facts_of, replay_of, seen};
use super::values::{n, plain, s};
use crate::support::good;

impl Model {
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

    /// Takes note of a command that was carried out beside others, in whatever order their
    /// responses came: its state is then nearly the service's, enough to make commands from.
    pub fn note(&mut self, command: &Command, answer: &Answer) {
        self.decide(command, answer);
    }

    fn decide(&mut self, command: &Command, answer: &Answer) -> Expected {
        let op = command.op;
        let row = good::row(op);
        let nobody = Who::NOBODY;
        let who = match command.who {
            _ if !needs_token(op) => &nobody,
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
            let status = match row.map(|row| row.invalid) {
                Some(Invalid::Unprocessable) => 422,
                Some(Invalid::BadRequest) | None => 400,
            };
            return Expected {
                faults: Some(faults),
                before_engine: true,
                ..Expected::refused(status, "request_invalid")
            };
        }
        if needs_token(op)
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
        let Some(row) = row else {
            return self.read(command, who, answer);
        };
        let key = match row.key {
            KeySource::None => None,
            KeySource::Header | KeySource::HeaderIfSent => command.key.clone(),
            KeySource::Body | KeySource::BodyOfAll { .. } => {
                key_member(op).map(|member| s(&command.body, member).to_owned())
            }
        };
        let facts = facts_of(command);
        let scope = match row.key {
            KeySource::BodyOfAll { .. } => "",
            _ => who.subject,
        };
        let key = key.map(|key| (op, scope.to_owned(), key));
        if let Some(first) = key.as_ref().and_then(|key| self.keys.get(key)) {
            if first.facts == facts {
                return replay_of(op, first);
            }
            return match row.key {
                KeySource::BodyOfAll { reused } => Expected::conflict(reused),
                _ if op == 18 => self.confirm_conflict(command, "idempotency_key_reused", answer),
                _ => Expected::conflict("idempotency_key_reused"),
            }
            .anywhere();
        }
        let expected = match op {
            1 => self.authorize_payment(command, who),
            2 => self.grant_payment_authority(command, who, answer),
            3 => self.create_branch(command, who, answer),
            4 => self.grant_care_history_access(command, who, answer),
            5 => self.open_data_room_request(command, who, answer),
            6 => self.mark_artifact_ready(command, who, answer),
            7 => self.update_mother_profile(command, who, answer),
            8 => self.acknowledge_deposit(command, who, answer),
            9 => self.request_deposit(command, who, answer),
            10 => self.assign_caregiver(command, who),
            11 => self.repair_payout_receipt(command, who),
            12 => self.acknowledge_payout_deposit(command, who),
            13 => self.finalize_charge(command, answer),
            14 => self.accept_manager_invitation(command, who, answer),
            15 => self.capture_adjustment_payment(command, who, answer),
            16 => self.snapshot_settlement_account(command, who, answer),
            17 => self.decide_cash_receipt_eligibility(command),
            18 => self.confirm_reservation_draft(command, who, answer),
            19 => self.update_branch_office_profile(command, who),
            20 => self.pre_register_payment(command, who, answer),
            21 => self.administer_gateway(command, who, answer),
            other => unreachable!("tests/model/decide.rs: nothing decides operation {other}"),
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

    /// What becomes of a fact, and the faults of one that breaks its schema or conflicts with what is stored.
    fn put_fact(&mut self, fact: &Value) -> (&'static str, Vec<(&'static str, &'static str)>) {
        let (kind, id) = (s(fact, "kind"), s(fact, "id"));
        let revision = n(fact, "revision");
        let faults = commands::bad_fact(fact);
        if !faults.is_empty() {
            return ("invalid", faults);
        }
        let facts = plain(&fact["facts"]);
        let held = self.fact(kind, id);
        if let Some(held) = held {
            if revision < held.revision {
                return ("stale", Vec::new());
            }
            if revision == held.revision {
                if facts == held.facts {
                    return ("unchanged", Vec::new());
                }
                return ("conflict", vec![("facts", "not_allowed")]);
            }
        }
        if kind == "mother-profile" {
            let other = self
                .profiles
                .iter()
                .any(|profile| profile.owner == s(&facts, "ownerSubject") && profile.id != id);
            if other {
                return ("conflict", vec![("facts.ownerSubject", "not_unique")]);
            }
        }
        let is_paid = kind == "payment-change-adjustment" && self.captures.contains_key(id);
        if held.is_some() && is_paid {
            return ("conflict", vec![("revision", "not_allowed")]);
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
            commands::READ_DELEGATION => self.read_delegation(command, who),
            commands::READ_GRANT => self.read_grant(command, who),
            commands::READ_PROFILE => return self.read_profile(who),
            commands::READ_STATEMENT => self.read_statement(command, who),
            commands::READ_REQUEST => self.read_request(command, who),
            commands::READ_ROSTER => self.read_roster(command, who),
            commands::READ_FACT => return self.read_fact(command, who, answer),
            commands::READ_ORGANIZATION => return self.read_organization(who),
            commands::READ_BRANCH => self.read_branch(command, who),
            commands::READ_OFFICE => self.read_office(command, who),
            commands::READ_SNAPSHOT => self.read_snapshot(command, who),
            commands::READ_REGISTRATION => self.read_registration(command, who),
            commands::READ_AUDIT => self.read_audit(command, who),
            commands::READ_RECEIPT => self.read_receipt(command, who),
            commands::READ_LIFECYCLE => self.read_lifecycle(command, who),
            commands::READ_ADJUSTMENT => self.read_adjustment(command, who),
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

    /// A read of everything that exists, by an actor who may read it.
    pub fn reads(&self) -> Vec<Command> {
        let workflow = commands::WORKFLOW;
        let headquarters = commands::HEADQUARTERS;
        let mut reads = Vec::new();
        let mut add = |op, params: &[&str], who| reads.push(Command::read(op, params, who));
        for (kind, id) in self.facts.keys() {
            add(commands::READ_FACT, &[kind, id], workflow);
            if kind == "payment-change-adjustment" {
                let booking = s(
                    &self.facts[&(kind.clone(), id.clone())].facts,
                    "reservationBookingId",
                );
                add(commands::READ_ADJUSTMENT, &[booking], headquarters);
            }
        }
        for delegation in &self.delegations {
            add(commands::READ_DELEGATION, &[&delegation.id], headquarters);
        }
        for (op, list) in [
            (commands::READ_GRANT, &self.grants),
            (commands::READ_STATEMENT, &self.statements),
            (commands::READ_REQUEST, &self.requests),
            (commands::READ_SNAPSHOT, &self.snapshots),
            (commands::READ_LIFECYCLE, &self.lifecycles),
            (commands::READ_REGISTRATION, &self.registrations),
            (commands::READ_AUDIT, &self.audits),
        ] {
            for held in list {
                add(op, &[&held.id], headquarters);
            }
        }
        for branch in &self.branches {
            add(commands::READ_BRANCH, &[&branch.id], headquarters);
        }
        for id in self.offices.keys() {
            add(commands::READ_OFFICE, &[id], headquarters);
        }
        for roster in &self.rosters {
            add(commands::READ_ROSTER, &[&roster.booking], headquarters);
        }
        for receipt in &self.receipts {
            let id = &receipt.id;
            add(commands::READ_RECEIPT, &[&id.0, &id.1, &id.2], headquarters);
        }
        for (who, actor) in ACTORS.iter().enumerate() {
            let owns = self
                .profiles
                .iter()
                .any(|profile| profile.owner == actor.subject);
            if owns {
                add(commands::READ_PROFILE, &[], who);
            }
        }
        add(commands::READ_ORGANIZATION, &[], headquarters);
        reads.retain(|read| {
            let who = read.who.map_or("", |who| ACTORS[who].subject);
            let lifecycle = self.fact("actor", who);
            lifecycle.is_none_or(|actor| actor.facts["lifecycle"] == "active")
        });
        reads
    }
}
