//! For each operation a good request in the sample world: what the tests of the contract, which
//! are the same for every operation, begin with.

use std::sync::MutexGuard;

use carebook::base::actor::{Actor, ActorKind};
use carebook::catalogue::{KeySource, Method, OPERATIONS, ProblemShape, Row, Success};
use serde_json::{Value, json};

use super::stage::{Stage, organization};
use super::{Answer, Client};

/// A request that is carried out when it is sent.
pub struct Good {
    pub row: &'static Row,
    pub actor: Actor,
    pub path: String,
    /// The key in the header, where the operation has it there.
    pub key: Option<String>,
    pub body: Value,
    /// A body with other facts, under the same key.
    pub other: Value,
    /// The organization has to stand still until the request was sent.
    _organization: Option<MutexGuard<'static, ()>>,
}

/// The operation with this number, when there is one.
pub fn row(tag: u16) -> Option<&'static Row> {
    OPERATIONS.iter().find(|row| row.tag == tag)
}

impl Good {
    /// The operation's good request on this stage; what it rests on is carried out.
    ///
    /// # Panics
    /// When there is no entry for the operation: a new one belongs here.
    pub fn of(row: &'static Row, stage: &Stage) -> Self {
        let Some((kind, path, body, pointer, value)) = entry(row.tag, stage) else {
            panic!("{} has no good request: add one here", row.name);
        };
        let guard = (row.tag == 3).then(organization);
        let mut body = stage.named(body);
        if guard.is_some() {
            body["expectedOrganizationRevision"] = organization_revision(stage);
        }
        let mut other = body.clone();
        *other.pointer_mut(pointer).unwrap() = stage.named(value);
        Self {
            row,
            actor: stage.actor(kind),
            path,
            key: (row.key == KeySource::Header).then(|| stage.id("key-1")),
            body,
            other,
            _organization: guard,
        }
    }

    pub fn method(&self) -> &'static str {
        method(self.row)
    }

    /// The token of the request's actor.
    pub fn token(&self, stage: &Stage) -> String {
        stage.token(&self.actor)
    }

    /// Sends this body as this actor.
    pub fn send(&self, client: &mut Client, token: &str, body: &Value) -> Answer {
        self.send_bytes(client, token, body.to_string().as_bytes())
    }

    /// Sends these bytes as a body.
    pub fn send_bytes(&self, client: &mut Client, token: &str, body: &[u8]) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Content-Type", "application/json")];
        if self.row.bearer {
            headers.push(("Authorization", &bearer));
        }
        if let Some(key) = &self.key {
            headers.push(("Idempotency-Key", key));
        }
        client.request(self.method(), &self.path, &headers, body)
    }

    /// Sends the request and expects that it is carried out, for the first time.
    #[track_caller]
    pub fn carried_out(&self, client: &mut Client, token: &str) -> Answer {
        let answer = self.send(client, token, &self.body);
        let status = match self.row.success {
            Success::Ok => 200,
            Success::Created | Success::CreatedOnce => 201,
        };
        assert_eq!(answer.status, status, "{}: {answer:?}", self.row.name);
        assert_eq!(answer.header("idempotent-replayed"), None);
        answer
    }
}

/// The operation's method, as it is sent.
pub fn method(row: &Row) -> &'static str {
    match row.method {
        Method::Post => "POST",
        Method::Patch => "PATCH",
    }
}

/// The word for what is wrong, wherever the operation's problems have it.
pub fn code(answer: &Answer) -> String {
    let body = answer.json();
    let code = [&body["code"], &body["conflictCode"]]
        .into_iter()
        .find_map(Value::as_str);
    code.unwrap_or_else(|| panic!("{body} has no code"))
        .to_owned()
}

/// Status, code and every member of a problem of this shape; without faults of members.
#[track_caller]
pub fn assert_problem(shape: ProblemShape, answer: &Answer, status: u16, code: &str) {
    let body = answer.json();
    assert_eq!(answer.status, status, "{body}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let retryable = matches!(status, 429 | 503);
    let mut expected = json!({"status": status, "code": code, "retryable": retryable});
    if shape != ProblemShape::Profile {
        let message = body["message"].as_str().unwrap_or_default();
        assert!(message.len() > 10 && message.ends_with('.'), "{body}");
        expected["message"] = json!(message);
    }
    if shape == ProblemShape::Full {
        for list in ["fieldErrors", "conflictingFieldPaths"] {
            assert!(body[list].is_array(), "{body}");
            expected[list] = body[list].clone();
        }
    }
    assert_eq!(body, expected);
    assert_eq!(answer.header("retry-after").is_some(), retryable);
}

fn organization_revision(stage: &Stage) -> Value {
    let answer = stage.client().get("/organization", &stage.headquarters());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["organizationRevision"].clone()
}

/// Carries the operation with this number out on the stage; its answer.
fn after(tag: u16, stage: &Stage) -> Value {
    let good = Good::of(row(tag).unwrap(), stage);
    let token = good.token(stage);
    good.carried_out(&mut stage.client(), &token).json()
}

/// A registration number of a business, a different one for each `number`, with its check digit.
pub fn registration_number(number: u32) -> String {
    let digits: Vec<u32> = format!("{number:09}")
        .chars()
        .map(|digit| digit.to_digit(10).unwrap())
        .collect();
    let weights = [1, 3, 7, 1, 3, 7, 1, 3, 5];
    let sum: u32 = digits.iter().zip(weights).map(|(d, w)| d * w).sum();
    let check = (10 - (sum + digits[8] * 5 / 10) % 10) % 10;
    format!("{number:09}{check}")
}

type Entry = (ActorKind, String, Value, &'static str, Value);

/// By the operation's number: who asks, where, what (with the samples' identifiers); a member of
/// the body and another value of it.
fn entry(tag: u16, stage: &Stage) -> Option<Entry> {
    use ActorKind::{
        BranchManager, FamilyMember, HeadquartersAdministrator, Mother, SystemWorkflow,
    };
    let id = |sample: &str| stage.id(sample);
    Some(match tag {
        1 => {
            after(2, stage);
            let body = json!({
                "familyAccountId": "family-account-1",
                "motherMemberId": "member-mother-1",
                "reservationBookingId": "reservation-booking-1",
                "scope": "reservation_deposit",
                "amountKrw": 300_000,
            });
            let path = "/family-reservation-payment-authorizations".to_owned();
            (FamilyMember, path, body, "/amountKrw", json!(1))
        }
        2 => {
            let body = json!({
                "familyAccountId": "family-account-1",
                "payerMemberId": "member-family-1",
                "motherMemberId": "member-mother-1",
                "reservationBookingId": "reservation-booking-1",
                "scopes": ["reservation_deposit"],
                "maximumAuthorizedAmountKrw": 500_000,
                "expiresAt": "2099-01-01T09:00:00+09:00",
            });
            let path = "/family-payment-delegations".to_owned();
            (Mother, path, body, "/maximumAuthorizedAmountKrw", json!(1))
        }
        3 => {
            let body = json!({
                "commandId": "command-1",
                "branchCode": format!("BR{}", stage.number),
                "expectedOrganizationRevision": 1,
                "legalName": "부산산후케어 주식회사",
                "displayName": "부산 1지점",
                "businessIdentity": {
                    "jurisdiction": "KR",
                    "registrationNumber": registration_number(100_000_000 + stage.number),
                },
                "contact": {"email": "busan-1@example.com", "phoneNumber": "+82511234567"},
                "address": {
                    "postalCode": "48058",
                    "roadAddress": "부산광역시 해운대구 센텀중앙로 79",
                    "detailAddress": "3층",
                },
                "managerInvitation": {"email": "manager-1@example.com", "displayName": "이바다"},
                "initialLifecycleStatus": "active",
                "initialMembershipFeePolicy": {
                    "policyVersion": "2026-01",
                    "monthlyFeeAmount": 150_000,
                    "currencyCode": "KRW",
                    "effectiveFrom": "2026-01-01",
                },
                "reason": "A branch for the south.",
            });
            let path = "/admin/branches".to_owned();
            let other = json!("Another reason.");
            (HeadquartersAdministrator, path, body, "/reason", other)
        }
        4 => {
            let path = format!(
                "/family-accounts/{}/reservation-care-history-access-grants",
                id("family-account-1")
            );
            let body = json!({
                "granteeMemberId": "member-family-1",
                "reservationBookingId": "reservation-booking-1",
                "scopes": ["summary"],
                "expiresAt": "2099-01-01T00:00:00Z",
            });
            (
                Mother,
                path,
                body,
                "/granteeMemberId",
                json!("member-family-2"),
            )
        }
        5 => {
            let body = json!({
                "requestCode": "request-code-1",
                "scope": {
                    "collection": "settlement_lines",
                    "settlementPeriodStart": "2026-10-01",
                    "settlementPeriodEnd": "2026-10-31",
                    "branchProfileId": "branch-seoul-1",
                    "externalRecipientCode": null,
                    "sourceDatasetRevision": 1,
                    "sourceEvidenceKeys": ["evidence-1"],
                },
                "actorKind": "headquarters_administrator",
                "actorProfileId": "headquarters-profile-1",
                "idempotencyKey": "key-1",
            });
            let path = "/settlement-data-room-export-requests".to_owned();
            let other = json!("request-code-2");
            (HeadquartersAdministrator, path, body, "/requestCode", other)
        }
        6 => {
            let request = after(5, stage);
            let path = format!(
                "/settlement-data-room-requests/{}/ready-artifacts",
                request["requestId"].as_str().unwrap()
            );
            let body = json!({
                "artifact": {
                    "artifactId": "artifact-1",
                    "artifactKind": "ledger",
                    "storageBucket": "exports",
                    "storageObjectKey": "2026/10/ledger.csv",
                    "exportFormat": "csv",
                    "fileName": "ledger.csv",
                    "byteSize": 1_024,
                    "contentSha256": "0123456789abcdef".repeat(4),
                    "generatedAt": "2026-11-01T00:00:00Z",
                    "sourceDatasetRevision": 1,
                },
                "actorKind": "system_workflow",
                "actorProfileId": "workflow-1",
                "idempotencyKey": "key-1",
                "expectedRevision": 1,
            });
            (
                SystemWorkflow,
                path,
                body,
                "/artifact/byteSize",
                json!(2_048),
            )
        }
        7 => {
            let body = json!({
                "expectedProfileRevision": 1,
                "expectedAddressRevision": 1,
                "fullName": "김하늘",
                "birthDate": "1992-03-14",
                "address": {
                    "postalCode": "06236",
                    "roadAddress": "서울특별시 강남구 테헤란로 1",
                    "detailAddress": "2층",
                },
                "consentAcceptances": [{"policyKey": "privacy", "versionLabel": "2025-01"}],
            });
            let other = json!("김바다");
            (
                Mother,
                "/mother/profile".to_owned(),
                body,
                "/fullName",
                other,
            )
        }
        8 => {
            let statement = after(9, stage);
            let body = json!({
                "statementId": statement["statementId"],
                "actorKind": "branch_manager",
                "actorProfileId": "manager-profile-1",
                "idempotencyKey": "key-1",
                "expectedRevision": 1,
                "reason": null,
                "lineAcknowledgements": [{
                    "lineAcknowledgementId": "line-acknowledgement-1",
                    "settlementLineKey": "line-1",
                    "settlementLineKind": "membership_due",
                    "acknowledgedByActorProfileId": "manager-profile-1",
                    "acknowledgedAt": "2026-11-02T10:00:00Z",
                    "acknowledgementNote": null,
                }],
            });
            let path = "/settlement-branch-deposit-acknowledgements".to_owned();
            (BranchManager, path, body, "/reason", json!("Paid."))
        }
        9 => {
            let body = json!({
                "statementCode": "statement-code-1",
                "statementKind": "head_office_to_branch",
                "branchProfileId": "branch-seoul-1",
                "settlementPeriodStart": "2026-10-01",
                "settlementPeriodEnd": "2026-10-31",
                "remittanceAccountSnapshot": {
                    "remittanceAccountSnapshotId": "remittance-1",
                    "bankName": "한빛은행",
                    "accountHolder": "Carebook",
                    "accountNumberDisplay": "110-***-000123",
                    "capturedAt": "2026-11-01T09:00:00+09:00",
                    "sourceReferenceKey": null,
                },
                "actorKind": "headquarters_administrator",
                "actorProfileId": "headquarters-profile-1",
                "idempotencyKey": "key-1",
                "messageToBranch": "By Friday, please.",
                "headOfficePrivateMemo": "Late twice this year.",
            });
            let path = "/settlement-deposit-requests".to_owned();
            let other = json!("statement-code-2");
            (
                HeadquartersAdministrator,
                path,
                body,
                "/statementCode",
                other,
            )
        }
        10 => {
            let body = json!({
                "assignmentDecisionId": "assignment-decision-1",
                "rosterDecisionId": "roster-decision-1",
                "reservationBookingId": "reservation-booking-1",
                "targetAssignmentKey": "assignment-1",
                "matchingRequestKey": "matching-request-1",
                "caregiverProfileId": "caregiver-profile-1",
                "role": "primary_caregiver",
                "handoffOrder": 1,
                "selectedCandidateSnapshotId": "candidate-snapshot-1",
                "expectedCandidateSnapshotRevision": 1,
                "expectedReservationRevision": 1,
                "expectedRosterRevision": 0,
                "scheduleProofId": "schedule-proof-1",
                "reasonCode": "first_choice",
                "idempotencyKey": "key-1",
            });
            let path = "/care-team-assignment-decisions/assign-from-candidate-snapshot".to_owned();
            (BranchManager, path, body, "/reasonCode", json!("second"))
        }
        11 => {
            let body = json!({
                "reservationBookingId": "reservation-booking-1",
                "contractAssignmentKey": "contract-assignment-1",
                "caregiverPayoutInstructionId": "payout-instruction-1",
                "caregiverRole": "primary_caregiver",
                "handoffOrder": 1,
                "caregiverId": "caregiver-1",
                "occurredAt": "2026-11-01T00:00:00Z",
                "idempotencyKey": "key-1",
                "expectedRevision": 0,
                "reason": "The receipt was lost.",
            });
            let path = "/caregiver-payout-receipt-states/repairs".to_owned();
            let other = json!("It was found.");
            (HeadquartersAdministrator, path, body, "/reason", other)
        }
        12 => {
            let body = json!({
                "reservationBookingId": "reservation-booking-1",
                "contractAssignmentKey": "contract-assignment-1",
                "caregiverPayoutInstructionId": "payout-instruction-1",
                "caregiverRole": "primary_caregiver",
                "handoffOrder": 1,
                "caregiverId": "caregiver-1",
                "occurredAt": "2026-11-01T00:00:00Z",
                "idempotencyKey": "key-1",
                "memo": "Paid today.",
            });
            let path = "/caregiver-payout-acknowledgements/branch-deposits".to_owned();
            (BranchManager, path, body, "/memo", json!("Paid."))
        }
        13 => {
            let path = format!(
                "/reservation-financial-lifecycles/{}/regional-benefit-charge-finalizations",
                id("reservation-booking-1")
            );
            let body = json!({
                "branchProfileId": "branch-seoul-1",
                "finalizedChargeSnapshotId": "charge-snapshot-1",
                "capturedOn": "2026-10-10",
                "serviceType": "postpartum_care",
                "serviceAddressLevel1": "서울특별시",
                "quotedOn": "2026-10-01",
                "servicePriceKrw": 1_500_000,
                "ownPriceKrw": 1_000_000,
            });
            (SystemWorkflow, path, body, "/ownPriceKrw", json!(900_000))
        }
        14 => {
            after(3, stage);
            let body = json!({"expectedOnboardingRevision": 1});
            let path = "/branch/manager-invitations/accept".to_owned();
            let member = "/expectedOnboardingRevision";
            (BranchManager, path, body, member, json!(2))
        }
        15 => {
            let path = format!(
                "/reservation-payment-change-adjustments/{}/mother-payments",
                id("reservation-booking-1")
            );
            let body = json!({
                "motherUserId": "mother-1",
                "paymentId": "adjustment-payment-2",
                "providerName": "sample-gateway",
                "providerContext": {"approval": {"number": "A-77"}},
            });
            (Mother, path, body, "/providerContext", json!({}))
        }
        16 => {
            let body = json!({
                "snapshotId": "snapshot-1",
                "settlementStatementId": "statement-1",
                "branchOfficeProfileId": "branch-seoul-1",
                "settlementAccountId": "settlement-account-1",
                "expectedSettlementAccountRevision": 1,
                "idempotencyKey": "key-1",
            });
            let path = "/branch-settlement-account-statement-snapshots".to_owned();
            let other = json!("statement-2");
            (BranchManager, path, body, "/settlementStatementId", other)
        }
        17 => {
            let path =
                "/payment-product-plans/plan-customer-share/cash-receipt-eligibility-decisions";
            let body = json!({
                "obligationPurpose": "customer_share_deposit",
                "requestState": "requested",
                "purpose": "income_deduction",
                "registrationIdentityReference": "identity-1",
            });
            let other = json!("business_expense_proof");
            (Mother, path.to_owned(), body, "/purpose", other)
        }
        18 => {
            let path = format!("/customer-reservation-drafts/{}/confirm", id("draft-1"));
            let body = json!({
                "expectedDraftRevision": 1,
                "reservationDraftStepAuthorityProjectionId": "review-projection-1",
                "expectedReviewRevision": 1,
            });
            (Mother, path, body, "/expectedReviewRevision", json!(2))
        }
        19 => {
            let body = json!({
                "commandId": "command-1",
                "revisionId": "revision-1",
                "branchOfficeProfileId": "branch-seoul-1",
                "expectedRevision": 1,
                "displayName": "서울 본점",
                "legalName": "서울산후케어 주식회사",
                "contactEmail": "seoul-1@example.com",
                "primaryPhoneNumber": "+82212345678",
                "addressLine": "서울특별시 중구 세종대로 110",
                "businessRegistrationReference": "business-registration-1",
                "reason": "A new name.",
            });
            let path = "/branch-office-profile-updates".to_owned();
            (BranchManager, path, body, "/reason", json!("Another."))
        }
        20 => {
            let body = json!({
                "paymentId": "payment-1",
                "cashReceiptIssueRequest": {
                    "requestState": "requested",
                    "purpose": "income_deduction",
                    "registrationIdentityReference": "identity-1",
                },
            });
            let path = "/reservation-payment-pre-registrations".to_owned();
            let member = "/cashReceiptIssueRequest/purpose";
            (Mother, path, body, member, json!("business_expense_proof"))
        }
        21 => {
            let body = json!({
                "operationAction": "lookup_payment",
                "reason": "A customer asked.",
                "idempotencyKey": "key-1",
                "expectedRevision": 0,
                "paymentId": "payment-1",
            });
            let path = "/billing-engine-payment-admin-operations".to_owned();
            let other = json!("Another customer asked.");
            (HeadquartersAdministrator, path, body, "/reason", other)
        }
        _ => return None,
    })
}
