//! Settlement statements and data-room requests, as the service's description has them.

use carebook::base::actor::ActorKind;
use serde_json::{Value, json};

use super::commands::{Command, Who};
use super::expected::{Answer, Expected, and_digest};
use super::state::{
    Access, Faults, Found, Held, Model, facts_of, millis, moment, n, s, seen, texts,
};

const MINUTE: i64 = 60_000;

impl Model {
    pub fn settlement_faults(&self, command: &Command, faults: &mut Faults) {
        let body = &command.body;
        let kinds = [
            "headquarters_administrator",
            "branch_manager",
            "system_workflow",
        ];
        let kind = s(body, "actorKind");
        if !kinds.contains(&kind) || (command.op == 8 && kind != "branch_manager") {
            faults.add("actorKind", "not_allowed");
        }
        match command.op {
            5 => {
                let scope = &body["scope"];
                if s(scope, "settlementPeriodStart") > s(scope, "settlementPeriodEnd") {
                    faults.add("scope.settlementPeriodEnd", "out_of_range");
                }
                if n(scope, "sourceDatasetRevision") < 1 {
                    faults.add("scope.sourceDatasetRevision", "out_of_range");
                }
                let keys = texts(scope, "sourceEvidenceKeys");
                if keys.is_empty() {
                    faults.add("scope.sourceEvidenceKeys", "too_short");
                }
                if keys.len() == 2 && keys[0] == keys[1] {
                    faults.add("scope.sourceEvidenceKeys[1]", "not_unique");
                }
                if s(scope, "collection").starts_with(|first: char| !first.is_ascii_lowercase()) {
                    faults.add("scope.collection", "pattern");
                }
            }
            6 => {
                let artifact = &body["artifact"];
                if n(artifact, "byteSize") < 0 {
                    faults.add("artifact.byteSize", "out_of_range");
                }
                if s(artifact, "contentSha256").len() != 64 {
                    faults.add("artifact.contentSha256", "pattern");
                }
            }
            9 => {
                if s(body, "settlementPeriodStart") > s(body, "settlementPeriodEnd") {
                    faults.add("settlementPeriodEnd", "out_of_range");
                }
                for member in ["messageToBranch", "headOfficePrivateMemo"] {
                    if body[member] == "" {
                        faults.add(member, "too_short");
                    }
                }
            }
            _ => self.acknowledgement_faults(body, faults),
        }
    }

    fn acknowledgement_faults(&self, body: &Value, faults: &mut Faults) {
        let lines = body["lineAcknowledgements"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if lines.is_empty() {
            faults.add("lineAcknowledgements", "too_short");
        }
        for (index, line) in lines.iter().enumerate() {
            for member in ["lineAcknowledgementId", "settlementLineKey"] {
                if lines[..index]
                    .iter()
                    .any(|earlier| earlier[member] == line[member])
                {
                    faults.add(
                        format!("lineAcknowledgements[{index}].{member}"),
                        "not_unique",
                    );
                }
            }
            let place = |member: &str| format!("lineAcknowledgements[{index}].{member}");
            if line["acknowledgedByActorProfileId"] != body["actorProfileId"] {
                faults.add(place("acknowledgedByActorProfileId"), "not_allowed");
            }
            if millis(s(line, "acknowledgedAt")) > self.now + 5 * MINUTE {
                faults.add(place("acknowledgedAt"), "out_of_range");
            }
        }
        let between = &body["interOfficeAcknowledgement"];
        if between.is_null() {
            return;
        }
        let place = |member: &str| format!("interOfficeAcknowledgement.{member}");
        let mut keys: Vec<_> = lines
            .iter()
            .map(|line| s(line, "settlementLineKey"))
            .collect();
        let mut projected = texts(between, "projectedSettlementLineKeys");
        keys.sort_unstable();
        keys.dedup();
        projected.sort_unstable();
        // Lines that are at fault themselves are not compared.
        if keys != projected && !lines.is_empty() {
            faults.add(place("projectedSettlementLineKeys"), "not_allowed");
        }
        let side = match s(between, "acknowledgementSide") {
            "service_delivery_branch" => "serviceDeliveryBranchProfileId",
            _ => "customerRelationshipBranchProfileId",
        };
        if between[side] != between["acknowledgingBranchProfileId"] {
            faults.add(place("acknowledgingBranchProfileId"), "not_allowed");
        }
        if between["actorProfileId"] != body["actorProfileId"] {
            faults.add(place("actorProfileId"), "not_allowed");
        }
        if n(between, "datasetRevision") < 1 {
            faults.add(place("datasetRevision"), "out_of_range");
        }
    }

    pub fn request_deposit(&mut self, command: &Command, who: &Who, answer: &Answer) -> Expected {
        let body = &command.body;
        if !who.is_body_of(body)
            || !matches!(
                who.kind,
                ActorKind::HeadquartersAdministrator | ActorKind::SystemWorkflow
            )
        {
            return Expected::forbidden();
        }
        let code = s(body, "statementCode");
        let facts = facts_of(command);
        if let Some(held) = self
            .statements
            .iter()
            .find(|held| s(&held.body, "statementCode") == code)
        {
            if held.facts == facts && held.subject == who.subject {
                return replay_by_code(self.first_answer(9, held));
            }
            return Expected::conflict("statement_code_conflict").anywhere();
        }
        let now = moment(self.now);
        let remittance = &body["remittanceAccountSnapshot"];
        let id = self.new_id(answer, "/statementId");
        let audit_id = self.made(answer, "/transitionAudits/0/auditId");
        let view = json!({
            "statementId": id,
            "statementCode": code,
            "statementKind": body["statementKind"],
            "branchProfileId": body["branchProfileId"],
            "settlementPeriodStart": body["settlementPeriodStart"],
            "settlementPeriodEnd": body["settlementPeriodEnd"],
            "status": "awaiting_branch_deposit",
            "revision": 1,
            "remittanceAccountSnapshot": {
                "remittanceAccountSnapshotId": remittance["remittanceAccountSnapshotId"],
                "bankName": remittance["bankName"],
                "accountHolder": remittance["accountHolder"],
                "accountNumberDisplay": remittance["accountNumberDisplay"],
                "capturedAt": moment(millis(s(remittance, "capturedAt"))),
                "sourceReferenceKey": remittance["sourceReferenceKey"],
            },
            "requestedByActorProfileId": who.profile_id(),
            "createdAt": now,
            "updatedAt": now,
            "messageToBranch": body["messageToBranch"],
            "headOfficePrivateMemo": body["headOfficePrivateMemo"],
            "transitionAudits": [{
                "auditId": audit_id,
                "commandKind": "request_deposit",
                "actorKind": who.kind.as_str(),
                "actorProfileId": who.profile_id(),
                "idempotencyKey": body["idempotencyKey"],
                "expectedRevision": 0,
                "committedRevision": 1,
                "beforeStatus": "awaiting_branch_deposit",
                "afterStatus": "awaiting_branch_deposit",
                "recordedAt": now,
                "reason": null,
                "resultMessage": null,
                "metadata": {},
            }],
            "lineAcknowledgements": [],
            "manualRows": [],
        });
        self.statements.push(Held {
            id: id.as_str().unwrap_or_default().to_owned(),
            body: view.clone(),
            subject: who.subject.to_owned(),
            facts,
            position: answer.position,
        });
        Expected::done(201, view)
    }

    /// What was answered when the record was made.
    pub fn first_answer(&self, op: u16, held: &Held) -> Value {
        let first = self.keys.iter().find(|((known, subject, _), key)| {
            *known == op && *subject == held.subject && key.facts == held.facts
        });
        first.map(|(_, key)| key.body.clone()).unwrap_or_default()
    }

    pub fn acknowledge_deposit(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        if who.kind != ActorKind::BranchManager || !who.is_body_of(body) {
            return Expected::forbidden();
        }
        let id = s(body, "statementId");
        let Some(place) = self.statements.iter().position(|held| held.id == id) else {
            return Expected::missing("statement_not_found");
        };
        let mut view = self.statements[place].body.clone();
        let branch = s(&view, "branchProfileId");
        let between = &body["interOfficeAcknowledgement"];
        if !who.branches.contains(&branch)
            || (!between.is_null() && s(between, "acknowledgingBranchProfileId") != branch)
        {
            return Expected::forbidden();
        }
        let wanted = view["statementKind"] == "inter_office_service_handoff";
        if wanted == between.is_null() {
            let code = if wanted { "required" } else { "not_allowed" };
            return Expected {
                faults: Some(vec![(
                    "interOfficeAcknowledgement".to_owned(),
                    code.to_owned(),
                )]),
                ..Expected::refused(400, "request_invalid")
            };
        }
        let revision = n(&view, "revision");
        let mut stale = Vec::new();
        if n(body, "expectedRevision") != revision {
            stale.push("expectedRevision".to_owned());
        }
        if !between.is_null() && n(between, "expectedStatementRevision") != revision {
            stale.push("interOfficeAcknowledgement.expectedStatementRevision".to_owned());
        }
        if !stale.is_empty() {
            return Expected {
                paths: Some(stale),
                ..Expected::conflict("revision_stale")
            };
        }
        if !matches!(s(&view, "status"), "awaiting_branch_deposit" | "arrears") {
            return Expected::conflict("statement_not_acknowledgeable").anywhere();
        }
        let now = moment(self.now);
        let before = view["status"].clone();
        for line in body["lineAcknowledgements"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let line = json!({
                "lineAcknowledgementId": line["lineAcknowledgementId"],
                "settlementLineKey": line["settlementLineKey"],
                "settlementLineKind": line["settlementLineKind"],
                "acknowledgedByActorProfileId": line["acknowledgedByActorProfileId"],
                "acknowledgedAt": moment(millis(s(line, "acknowledgedAt"))),
                "sourceEvidenceKey": line["sourceEvidenceKey"],
                "acknowledgementNote": line["acknowledgementNote"],
            });
            push(&mut view["lineAcknowledgements"], line);
        }
        let audit_id = self.made(answer, "/transitionAudits/1/auditId");
        let mut metadata = seen(answer, "/transitionAudits/1/metadata");
        let is_empty = metadata.as_object().is_none_or(serde_json::Map::is_empty);
        if is_empty != between.is_null() {
            metadata = json!("(the inter-office facts, when given)");
        }
        let audit = json!({
            "auditId": audit_id,
            "commandKind": "acknowledge_branch_deposit",
            "actorKind": "branch_manager",
            "actorProfileId": who.profile_id(),
            "idempotencyKey": body["idempotencyKey"],
            "expectedRevision": revision,
            "committedRevision": revision + 1,
            "beforeStatus": before,
            "afterStatus": "awaiting_confirmation",
            "recordedAt": now,
            "reason": body["reason"],
            "resultMessage": null,
            "metadata": metadata,
        });
        push(&mut view["transitionAudits"], audit);
        view["status"] = json!("awaiting_confirmation");
        view["revision"] = json!(revision + 1);
        view["updatedAt"] = json!(now);
        self.statements[place].body = view.clone();
        view["headOfficePrivateMemo"] = Value::Null;
        Expected::done(200, view)
    }

    pub fn read_statement(&self, command: &Command, who: &Who) -> Found {
        let found = self
            .statements
            .iter()
            .find(|held| held.id == command.params[0]);
        let Some(found) = found else {
            return (None, Access::No);
        };
        let mut view = found.body.clone();
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator | ActorKind::SystemWorkflow => Access::Yes,
            ActorKind::BranchManager => {
                let access = Access::when(who.branches.contains(&s(&view, "branchProfileId")));
                view["headOfficePrivateMemo"] = Value::Null;
                access
            }
            _ => Access::No,
        };
        let tag = and_digest(n(&view, "revision"));
        (Some((view, Some(tag))), access)
    }

    pub fn open_data_room_request(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        let scope = &body["scope"];
        let authorized = match who.kind {
            ActorKind::HeadquartersAdministrator | ActorKind::SystemWorkflow => true,
            ActorKind::BranchManager => who.branches.contains(&s(scope, "branchProfileId")),
            _ => false,
        };
        if !authorized || !who.is_body_of(body) {
            return Expected::forbidden();
        }
        let code = s(body, "requestCode");
        let facts = facts_of(command);
        if let Some(held) = self
            .requests
            .iter()
            .find(|held| s(&held.body, "requestCode") == code)
        {
            if held.facts == facts && held.subject == who.subject {
                return replay_by_code(self.first_answer(5, held));
            }
            return Expected::conflict("request_code_conflict").anywhere();
        }
        let now = moment(self.now);
        let id = self.new_id(answer, "/requestId");
        let action_id = self.made(answer, "/actionJournal/0/actionId");
        let view = json!({
            "requestId": id,
            "requestCode": code,
            "scope": scope,
            "status": "open",
            "revision": 1,
            "requestedByActorProfileId": who.profile_id(),
            "createdAt": now,
            "updatedAt": now,
            "artifacts": [],
            "actionJournal": [{
                "actionId": action_id,
                "actionKind": "open_request",
                "actorKind": who.kind.as_str(),
                "actorProfileId": who.profile_id(),
                "idempotencyKey": body["idempotencyKey"],
                "expectedRevision": 0,
                "committedRevision": 1,
                "recordedAt": now,
                "reason": null,
                "artifactId": null,
                "metadata": {},
            }],
        });
        self.requests.push(Held {
            id: id.as_str().unwrap_or_default().to_owned(),
            body: view.clone(),
            subject: who.subject.to_owned(),
            facts,
            position: answer.position,
        });
        Expected::done(201, view)
    }

    pub fn mark_artifact_ready(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        if who.kind != ActorKind::SystemWorkflow || !who.is_body_of(body) {
            return Expected::forbidden();
        }
        let id = &command.params[0];
        let Some(place) = self.requests.iter().position(|held| held.id == *id) else {
            return Expected::missing("data_room_request_not_found");
        };
        let mut view = self.requests[place].body.clone();
        let revision = n(&view, "revision");
        if n(body, "expectedRevision") != revision {
            return Expected::stale("expectedRevision");
        }
        let artifact = &body["artifact"];
        let artifacts = view["artifacts"].as_array().cloned().unwrap_or_default();
        if artifacts
            .iter()
            .any(|known| known["artifactId"] == artifact["artifactId"])
        {
            return Expected::conflict("artifact_id_conflict").anywhere();
        }
        if n(artifact, "sourceDatasetRevision") < n(&view["scope"], "sourceDatasetRevision") {
            return Expected::conflict("dataset_revision_stale").anywhere();
        }
        if artifacts.len() >= 200 {
            return Expected::conflict("artifacts_full").anywhere();
        }
        let now = moment(self.now);
        for known in view["artifacts"].as_array_mut().into_iter().flatten() {
            if known["artifactKind"] == artifact["artifactKind"] && known["supersededAt"].is_null()
            {
                known["supersededAt"] = json!(now);
            }
        }
        let mut added = artifact.clone();
        added["generatedAt"] = json!(moment(millis(s(artifact, "generatedAt"))));
        added["supersededAt"] = Value::Null;
        push(&mut view["artifacts"], added);
        let last = view["actionJournal"].as_array().map_or(0, Vec::len);
        let action_id = self.made(answer, &format!("/actionJournal/{last}/actionId"));
        let action = json!({
            "actionId": action_id,
            "actionKind": "mark_artifact_ready",
            "actorKind": "system_workflow",
            "actorProfileId": who.profile_id(),
            "idempotencyKey": body["idempotencyKey"],
            "expectedRevision": revision,
            "committedRevision": revision + 1,
            "recordedAt": now,
            "reason": null,
            "artifactId": artifact["artifactId"],
            "metadata": seen(answer, &format!("/actionJournal/{last}/metadata")),
        });
        push(&mut view["actionJournal"], action);
        view["status"] = json!("ready");
        view["revision"] = json!(revision + 1);
        view["updatedAt"] = json!(now);
        self.requests[place].body = view.clone();
        Expected::done(200, view)
    }

    pub fn read_request(&self, command: &Command, who: &Who) -> Found {
        let found = self
            .requests
            .iter()
            .find(|held| held.id == command.params[0]);
        let Some(found) = found else {
            return (None, Access::No);
        };
        let branch = s(&found.body["scope"], "branchProfileId");
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator | ActorKind::SystemWorkflow => Access::Yes,
            ActorKind::BranchManager => Access::when(who.branches.contains(&branch)),
            _ => Access::No,
        };
        let tag = found.body["revision"].to_string();
        (Some((found.body.clone(), Some(tag))), access)
    }
}

/// Adds an item to an array.
pub fn push(array: &mut Value, item: Value) {
    if let Some(array) = array.as_array_mut() {
        array.push(item);
    }
}

/// The first outcome again, under a key that it takes as well.
pub fn replay_by_code(body: Value) -> Expected {
    Expected {
        replayed: true,
        ..Expected::done(201, body)
    }
}
