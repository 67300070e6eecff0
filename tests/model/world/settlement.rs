//! Commands of settlements.

use serde_json::{Value, json};

use super::super::state::{Model, n, s};
use super::{ACTORS, Command, HEADQUARTERS, World};

impl World {
    pub(super) fn open_data_room_request(&mut self) -> Command {
        let who = self.who(&[HEADQUARTERS, 10, 15, 6, 7]);
        let keys = self.pick(&[
            json!(["e-1"]),
            json!(["e-1"]),
            json!(["e-1", "e-2"]),
            json!(["e-1", "e-2"]),
            json!(["e-1", "e-2"]),
            json!(["e", "e"]),
            json!([]),
        ]);
        let mut body = json!({
            "requestCode": self.near("DR", 10, 60),
            "scope": {
                "collection": self.pick(&["statements", "statements", "statements", "lines", "lines", "Lines"]),
                "settlementPeriodStart": "2026-10-01",
                "settlementPeriodEnd": self.pick(&["2026-10-31", "2026-10-31", "2026-10-31", "2026-10-31", "2026-09-30"]),
                "branchProfileId": self.pick(&[json!("branch-1"), json!("branch-2"), Value::Null]),
                "externalRecipientCode": self.pick(&[json!("recipient"), Value::Null]),
                "sourceDatasetRevision": self.pick(&[1, 2, 3, 4, 5, 0]),
                "sourceEvidenceKeys": keys,
            },
            "idempotencyKey": self.key(),
        });
        self.acting(who, &mut body);
        Command::new(5, &[], who, body)
    }

    pub(super) fn mark_artifact_ready(&mut self, model: &Model) -> Command {
        let who = self.who(&[15, 16, 18]);
        let request = self.late(&model.requests, 5);
        let (id, revision) = request.map_or(("unknown".to_owned(), 1), |request| {
            (request.id.clone(), n(&request.body, "revision"))
        });
        let id = if self.chance(95) {
            id
        } else {
            "unknown".to_owned()
        };
        let artifact_id = self.near("artifact", 10, 100);
        let mut body = json!({
            "artifact": {
                "artifactId": artifact_id,
                "artifactKind": self.pick(&["summary", "lines"]),
                "storageBucket": "bucket",
                "storageObjectKey": "a/b.csv",
                "exportFormat": "csv",
                "fileName": "b.csv",
                "byteSize": self.pick(&[0, 1, 2, 3, 4, 5, 6, -1]),
                "contentSha256": self.pick(&["ab".repeat(32), "cd".repeat(32), "12".repeat(32), "12".repeat(32), "34".repeat(32), "ab".to_owned()]),
                "generatedAt": self.written(model.now),
                "sourceDatasetRevision": self.pick(&[5, 5, 5, 4, 1]),
            },
            "idempotencyKey": self.key(),
            "expectedRevision": self.revision(revision),
        });
        self.acting(who, &mut body);
        Command::new(6, &[&id], who, body)
    }

    pub(super) fn request_deposit(&mut self) -> Command {
        let who = self.who(&[HEADQUARTERS, 10, 15, 16]);
        let mut body = json!({
            "statementCode": self.near("ST", 10, 60),
            "statementKind": self.pick(&["head_office_to_branch", "platform_to_branch", "inter_office_service_handoff"]),
            "branchProfileId": self.pick(&["branch-1", "branch-2"]),
            "settlementPeriodStart": "2026-10-01",
            "settlementPeriodEnd": self.pick(&["2026-10-31", "2026-10-31", "2026-10-01", "2026-09-30"]),
            "remittanceAccountSnapshot": {
                "remittanceAccountSnapshotId": "remittance-1",
                "bankName": "한빛은행",
                "accountHolder": "본사",
                "accountNumberDisplay": "110-***-1",
                "capturedAt": self.pick(&["2026-10-31T00:00:00Z", "2026-10-31T09:00:00.000+09:00"]),
                "sourceReferenceKey": self.pick(&[json!("source"), Value::Null]),
            },
            "idempotencyKey": self.key(),
            "messageToBranch": self.pick(&[json!("please"), json!("soon"), Value::Null, Value::Null, json!("")]),
            "headOfficePrivateMemo": self.pick(&[json!("for us"), Value::Null]),
        });
        self.acting(who, &mut body);
        Command::new(9, &[], who, body)
    }

    pub(super) fn acknowledge_deposit(&mut self, model: &Model) -> Command {
        let view = self
            .late(&model.statements, 4)
            .map(|held| held.body.clone());
        let view = view.unwrap_or(json!({"statementId": "unknown", "revision": 1}));
        let branch = s(&view, "branchProfileId").to_owned();
        let good: &[usize] = if branch == "branch-2" { &[7] } else { &[6, 7] };
        let who = self.who(good);
        let acting = ACTORS[who].profile_id();
        let count = self.pick(&[1, 1, 2, 2, 0]);
        let same = self.chance(5);
        let lines: Vec<_> = (0..count)
            .map(|index| {
                let at = model.now + self.pick(&[0, 0, 0, -60_000, 299_999, 300_000, 300_001]);
                let mut line = json!({
                    "lineAcknowledgementId": format!("line-{index}"),
                    "settlementLineKey": format!("line-key-{}", if same { 0 } else { index }),
                    "settlementLineKind": self.pick(&["membership_due", "delivery_fee"]),
                    "acknowledgedByActorProfileId": if self.chance(97) { acting } else { "somebody" },
                    "acknowledgedAt": self.written(at),
                    "acknowledgementNote": self.pick(&[json!("paid"), Value::Null]),
                });
                if self.chance(50) {
                    line["sourceEvidenceKey"] = self.pick(&[json!("evidence"), Value::Null]);
                }
                line
            })
            .collect();
        let revision = n(&view, "revision");
        let mut body = json!({
            "statementId": if self.chance(96) { s(&view, "statementId") } else { "unknown" },
            "idempotencyKey": self.key(),
            "expectedRevision": self.revision(revision),
            "reason": self.pick(&[json!("as agreed"), Value::Null]),
            "lineAcknowledgements": lines,
        });
        self.acting(who, &mut body);
        body["actorKind"] = json!("branch_manager");
        let handoff = view["statementKind"] == "inter_office_service_handoff";
        if handoff != self.chance(6) {
            let mut keys: Vec<_> = texts_of(&lines, "settlementLineKey");
            keys.dedup();
            keys.reverse();
            if keys.is_empty() || self.chance(4) {
                keys.push("line-key-9".to_owned());
            }
            let other = if branch == "branch-1" {
                "branch-2"
            } else {
                "branch-1"
            };
            let delivers = self.chance(50);
            let acknowledging = if self.chance(95) {
                branch.as_str()
            } else {
                other
            };
            body["interOfficeAcknowledgement"] = json!({
                "interOfficeSettlementCode": "handoff-1",
                "reservationId": "reservation-1",
                "acknowledgementSide": if delivers { "service_delivery_branch" } else { "customer_relationship_branch" },
                "acknowledgingBranchProfileId": if acknowledging.is_empty() { "branch-1" } else { acknowledging },
                "serviceDeliveryBranchProfileId": if delivers { acknowledging } else { "branch-3" },
                "customerRelationshipBranchProfileId": if delivers { "branch-3" } else { acknowledging },
                "actorKind": "branch_manager",
                "actorProfileId": body["actorProfileId"],
                "expectedStatementRevision": self.revision(revision),
                "datasetRevision": self.pick(&[1, 2, 3, 4, 5, 0]),
                "projectedSettlementLineKeys": keys,
            });
            let between = &mut body["interOfficeAcknowledgement"];
            for member in [
                "serviceDeliveryBranchProfileId",
                "customerRelationshipBranchProfileId",
            ] {
                if between[member] == "" {
                    between[member] = json!("branch-1");
                }
            }
        }
        Command::new(8, &[], who, body)
    }
}

fn texts_of(items: &[Value], member: &str) -> Vec<String> {
    items
        .iter()
        .map(|item| s(item, member).to_owned())
        .collect()
}
