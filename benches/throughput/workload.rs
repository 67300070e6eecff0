//! The requests of each workload, as bytes, made before the clock starts.

use carebook::base::actor::ActorKind;
use serde_json::{Value, json};

use crate::server::Server;

const BRANCH: &str = "branch-1";

/// One request, ready to be sent.
pub(crate) type Request = Vec<u8>;

/// Opens `count` statements.
pub(crate) fn request_deposits(server: &Server, count: usize) -> Vec<Request> {
    let token = server.token(ActorKind::HeadquartersAdministrator, "hq-1", BRANCH);
    (0..count)
        .map(|number| {
            let body = json!({
                "statementCode": format!("STATEMENT-{number}"),
                "statementKind": "head_office_to_branch",
                "branchProfileId": BRANCH,
                "settlementPeriodStart": "2026-10-01",
                "settlementPeriodEnd": "2026-10-31",
                "remittanceAccountSnapshot": {
                    "remittanceAccountSnapshotId": "remittance-1",
                    "bankName": "Bank",
                    "accountHolder": "Head Office",
                    "accountNumberDisplay": "110-***-000123",
                    "capturedAt": "2026-11-01T00:00:00Z",
                    "sourceReferenceKey": null,
                },
                "actorKind": "headquarters_administrator",
                "actorProfileId": "hq-1",
                "idempotencyKey": format!("open-{number}"),
                "messageToBranch": null,
                "headOfficePrivateMemo": null,
            });
            post("/settlement-deposit-requests", &token, &body)
        })
        .collect()
}

/// Acknowledges the deposit of each statement that `opened` answered.
pub(crate) fn acknowledge_deposits(server: &Server, opened: &[Vec<u8>]) -> Vec<Request> {
    let token = server.token(ActorKind::BranchManager, "manager-1", BRANCH);
    opened
        .iter()
        .enumerate()
        .map(|(number, answer)| {
            let answer: Value = serde_json::from_slice(answer).unwrap();
            let body = json!({
                "statementId": answer["statementId"],
                "actorKind": "branch_manager",
                "actorProfileId": "manager-1",
                "idempotencyKey": format!("acknowledge-{number}"),
                "expectedRevision": 1,
                "reason": null,
                "lineAcknowledgements": [{
                    "lineAcknowledgementId": format!("line-{number}"),
                    "settlementLineKey": "membership-2026-10",
                    "settlementLineKind": "membership_due",
                    "acknowledgedByActorProfileId": "manager-1",
                    "acknowledgedAt": "2026-11-20T00:00:00Z",
                    "acknowledgementNote": null,
                }],
            });
            post("/settlement-branch-deposit-acknowledgements", &token, &body)
        })
        .collect()
}

fn post(path: &str, token: &str, body: &Value) -> Request {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
