//! The requests of each workload, as bytes, made before the clock starts.
//!
//! A workload is one operation, carried out again and again for the first time: each command has a
//! key of its own and resources of its own ([`crate::facts`]). What the contract leaves to one
//! actor is asked by one, whose token the server has seen before; where each resource has an owner
//! of its own, so has each command its token, and [`greetings`] shows them to the server before
//! the clock starts: what is measured is the operation, not the check of a signature.

use std::iter;

use carebook::base::actor::ActorKind;
use carebook::catalogue::{KeySource, Method, OPERATIONS, Row, Success};
use serde_json::{Value, json};

use crate::server::Server;

/// The branch that everything belongs to.
pub(crate) const BRANCH: &str = "branch-1";
/// The mother whom bookings, drafts, obligations and adjustments belong to.
pub(crate) const MOTHER: &str = "mother-1";
/// Her in the family accounts.
pub(crate) const MOTHER_MEMBER: &str = "member-mother-1";
/// Who pays for her.
pub(crate) const FAMILY_MEMBER: &str = "member-family-1";
/// The product plan of all payments.
pub(crate) const PLAN: &str = "plan-1";

/// Commands of a workload with a token for each: the server remembers some thirty thousand.
const TOKENS_MAX: usize = 20_000;

/// The operations that run one after the other on one server, since a later one goes on with what
/// an earlier one brought into being. Those that are not named run alone.
const CHAINS: [[&str; 2]; 4] = [
    ["request_deposit", "acknowledge_deposit"],
    ["grant_payment_authority", "authorize_payment"],
    ["create_branch", "accept_manager_invitation"],
    ["open_data_room_request", "mark_artifact_ready"],
];

/// One request, ready to be sent.
pub(crate) type Request = Vec<u8>;

/// The operation of this name.
pub(crate) fn row(operation: &str) -> &'static Row {
    OPERATIONS.iter().find(|row| row.name == operation).unwrap()
}

/// All operations, those that share a server together.
pub(crate) fn groups() -> Vec<Vec<&'static str>> {
    let mut groups: Vec<Vec<_>> = CHAINS.iter().map(|chain| chain.to_vec()).collect();
    for row in OPERATIONS {
        if !CHAINS.as_flattened().contains(&row.name) {
            groups.push(vec![row.name]);
        }
    }
    groups
}

/// The status of a first execution.
pub(crate) fn status(operation: &str) -> u16 {
    match row(operation).success {
        Success::Ok => 200,
        Success::Created | Success::CreatedOnce => 201,
    }
}

/// How many commands of the operation are sent when `commands` are asked for.
pub(crate) fn count(operation: &str, commands: usize) -> usize {
    match operation {
        "update_mother_profile" | "create_branch" | "accept_manager_invitation" => {
            commands.min(TOKENS_MAX)
        }
        _ => commands,
    }
}

/// Over how many connections the operation is asked for when `connections` are: each new branch
/// names the revision of the one organization, so that there is never more than one in flight.
pub(crate) fn connections(operation: &str, connections: usize) -> usize {
    if operation == "create_branch" {
        1
    } else {
        connections
    }
}

/// `count` commands of the operation; `before` are the answers of the operation before it on the
/// same server.
pub(crate) fn requests(
    operation: &str,
    server: &Server,
    count: usize,
    before: &[Vec<u8>],
) -> Vec<Request> {
    let row = row(operation);
    let tokens = tokens(operation, server, count);
    // An own answer for each command, or none at all.
    let before = before.iter().map(|answer| {
        let answer: Value = serde_json::from_slice(answer).unwrap();
        answer
    });
    before
        .chain(iter::repeat(Value::Null))
        .take(count)
        .enumerate()
        .map(|(number, before)| {
            let (parameter, body) = command(operation, number, &before);
            let token = &tokens[number % tokens.len()];
            request(row, &parameter, token, &format!("key-{number}"), &body)
        })
        .collect()
}

/// Requests that show the tokens of the operation's commands to the server, and the status of
/// their answers; none where one token is enough.
pub(crate) fn greetings(operation: &str, requests: &[Request]) -> Option<(Vec<Request>, u16)> {
    let (path, status) = match operation {
        "update_mother_profile" => ("/mother/profile", 200),
        // A manager may not read it, but is known from then on.
        "accept_manager_invitation" => ("/organization", 403),
        _ => return None,
    };
    let greet = |request: &Request| {
        let head = String::from_utf8_lossy(request);
        let bearer = head
            .lines()
            .find(|line| line.starts_with("Authorization: "))
            .unwrap();
        format!("GET {path} HTTP/1.1\r\nHost: bench\r\n{bearer}\r\n\r\n").into_bytes()
    };
    Some((requests.iter().map(greet).collect(), status))
}

/// The tokens of those who ask for the operation: one, or one for each command.
fn tokens(operation: &str, server: &Server, count: usize) -> Vec<String> {
    use ActorKind::{
        BranchManager, FamilyMember, HeadquartersAdministrator, Mother, SystemWorkflow,
    };
    let headquarters = |permission: &str| {
        let permissions = vec![permission.to_owned()];
        server.token(HeadquartersAdministrator, "hq-1", |claims| {
            claims.permissions = permissions;
        })
    };
    vec![match operation {
        "update_mother_profile" => {
            return (0..count)
                .map(|number| server.token(Mother, &format!("mother-{number}"), |_| ()))
                .collect();
        }
        "accept_manager_invitation" => {
            return (0..count)
                .map(|number| {
                    server.token(BranchManager, &format!("manager-{number}"), |claims| {
                        claims.email = Some(manager_email(number));
                        claims.email_verified = Some(true);
                    })
                })
                .collect();
        }
        "authorize_payment" => server.token(FamilyMember, "family-1", |claims| {
            claims.member_id = Some(FAMILY_MEMBER.to_owned());
        }),
        "grant_payment_authority"
        | "grant_care_history_access"
        | "capture_adjustment_payment"
        | "decide_cash_receipt_eligibility"
        | "confirm_reservation_draft"
        | "pre_register_payment" => server.token(Mother, MOTHER, |claims| {
            claims.member_id = Some(MOTHER_MEMBER.to_owned());
        }),
        "mark_artifact_ready" => server.token(SystemWorkflow, "workflow-1", |_| ()),
        "acknowledge_deposit" | "assign_caregiver" | "acknowledge_payout_deposit" => {
            server.token(BranchManager, "manager-1", |claims| {
                claims.branch_profile_ids = vec![BRANCH.to_owned()];
            })
        }
        "create_branch" => headquarters("branch:create"),
        "administer_gateway" => headquarters("payment:administer"),
        _ => server.token(HeadquartersAdministrator, "hq-1", |_| ()),
    }]
}

fn manager_email(number: usize) -> String {
    format!("manager-{number}@example.com")
}

/// A registration number of a business, a different one for each `number`, with its check digit.
fn registration_number(number: usize) -> String {
    let digits: Vec<usize> = format!("{number:09}")
        .bytes()
        .map(|digit| usize::from(digit - b'0'))
        .collect();
    let weights = [1, 3, 7, 1, 3, 7, 1, 3, 5];
    let sum: usize = digits.iter().zip(weights).map(|(d, w)| d * w).sum();
    let check = (10 - (sum + digits[8] * 5 / 10) % 10) % 10;
    format!("{number:09}{check}")
}

/// The parameter of the path, where there is one, and the body of a command. `before` is the
/// answer that it goes on with.
#[allow(clippy::too_many_lines)]
fn command(operation: &str, number: usize, before: &Value) -> (String, Value) {
    let key = format!("key-{number}");
    let booking = format!("booking-{number}");
    let text = |member: &str| before[member].as_str().unwrap_or_default().to_owned();
    match operation {
        "authorize_payment" => {
            let body = json!({
                "familyAccountId": format!("family-{number}"),
                "motherMemberId": MOTHER_MEMBER,
                "reservationBookingId": booking,
                "scope": "reservation_deposit",
                "amountKrw": 300_000,
            });
            (String::new(), body)
        }
        "grant_payment_authority" => {
            let body = json!({
                "familyAccountId": format!("family-{number}"),
                "payerMemberId": FAMILY_MEMBER,
                "motherMemberId": MOTHER_MEMBER,
                "reservationBookingId": booking,
                "scopes": ["reservation_deposit"],
                "maximumAuthorizedAmountKrw": 500_000,
                "expiresAt": "2099-01-01T00:00:00Z",
            });
            (String::new(), body)
        }
        "create_branch" => {
            let body = json!({
                "commandId": format!("command-{number}"),
                "branchCode": format!("BR{number}"),
                "expectedOrganizationRevision": number + 1,
                "legalName": "부산산후케어 주식회사",
                "displayName": "부산 1지점",
                "businessIdentity": {
                    "jurisdiction": "KR",
                    "registrationNumber": registration_number(100_000_000 + number),
                },
                "contact": {"email": "busan-1@example.com", "phoneNumber": "+82511234567"},
                "address": {
                    "postalCode": "48058",
                    "roadAddress": "부산광역시 해운대구 센텀중앙로 79",
                    "detailAddress": "3층",
                },
                "managerInvitation": {"email": manager_email(number), "displayName": "이바다"},
                "initialLifecycleStatus": "active",
                "initialMembershipFeePolicy": {
                    "policyVersion": "2026-01",
                    "monthlyFeeAmount": 150_000,
                    "currencyCode": "KRW",
                    "effectiveFrom": "2026-01-01",
                },
                "reason": "A branch for the south.",
            });
            (String::new(), body)
        }
        "grant_care_history_access" => {
            let body = json!({
                "granteeMemberId": FAMILY_MEMBER,
                "reservationBookingId": booking,
                "scopes": ["summary"],
                "expiresAt": "2099-01-01T00:00:00Z",
            });
            (format!("family-{number}"), body)
        }
        "open_data_room_request" => {
            let body = json!({
                "requestCode": format!("REQUEST-{number}"),
                "scope": {
                    "collection": "settlement_lines",
                    "settlementPeriodStart": "2026-10-01",
                    "settlementPeriodEnd": "2026-10-31",
                    "branchProfileId": BRANCH,
                    "externalRecipientCode": null,
                    "sourceDatasetRevision": 1,
                    "sourceEvidenceKeys": ["evidence-1"],
                },
                "actorKind": "headquarters_administrator",
                "actorProfileId": "hq-1",
                "idempotencyKey": key,
            });
            (String::new(), body)
        }
        "mark_artifact_ready" => {
            let body = json!({
                "artifact": {
                    "artifactId": "artifact-1",
                    "artifactKind": "ledger",
                    "storageBucket": "exports",
                    "storageObjectKey": format!("2026/10/ledger-{number}.csv"),
                    "exportFormat": "csv",
                    "fileName": "ledger.csv",
                    "byteSize": 1_024,
                    "contentSha256": "0123456789abcdef".repeat(4),
                    "generatedAt": "2026-11-01T00:00:00Z",
                    "sourceDatasetRevision": 1,
                },
                "actorKind": "system_workflow",
                "actorProfileId": "workflow-1",
                "idempotencyKey": key,
                "expectedRevision": 1,
            });
            (text("requestId"), body)
        }
        "update_mother_profile" => {
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
            (String::new(), body)
        }
        "acknowledge_deposit" => {
            let body = json!({
                "statementId": text("statementId"),
                "actorKind": "branch_manager",
                "actorProfileId": "manager-1",
                "idempotencyKey": key,
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
            (String::new(), body)
        }
        "request_deposit" => {
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
                "idempotencyKey": key,
                "messageToBranch": null,
                "headOfficePrivateMemo": null,
            });
            (String::new(), body)
        }
        "assign_caregiver" => {
            let body = json!({
                "assignmentDecisionId": format!("assignment-decision-{number}"),
                "rosterDecisionId": format!("roster-decision-{number}"),
                "reservationBookingId": booking,
                "targetAssignmentKey": "assignment-1",
                "matchingRequestKey": format!("matching-{number}"),
                "caregiverProfileId": "caregiver-profile-1",
                "role": "primary_caregiver",
                "handoffOrder": 1,
                "selectedCandidateSnapshotId": format!("snapshot-{number}"),
                "expectedCandidateSnapshotRevision": 1,
                "expectedReservationRevision": 1,
                "expectedRosterRevision": 0,
                "scheduleProofId": "schedule-proof-1",
                "reasonCode": "first_choice",
                "idempotencyKey": key,
            });
            (String::new(), body)
        }
        "repair_payout_receipt" | "acknowledge_payout_deposit" => {
            let mut body = json!({
                "reservationBookingId": booking,
                "contractAssignmentKey": "contract-assignment-1",
                "caregiverPayoutInstructionId": format!("instruction-{number}"),
                "caregiverRole": "primary_caregiver",
                "handoffOrder": 1,
                "caregiverId": "caregiver-1",
                "occurredAt": "2026-11-01T00:00:00Z",
                "idempotencyKey": key,
                "reason": "The receipt was lost.",
            });
            if operation == "repair_payout_receipt" {
                body["expectedRevision"] = json!(0);
            }
            (String::new(), body)
        }
        "finalize_charge" => {
            let body = json!({
                "branchProfileId": BRANCH,
                "finalizedChargeSnapshotId": format!("charge-{number}"),
                "capturedOn": "2026-10-10",
                "serviceType": "postpartum_care",
                "serviceAddressLevel1": "서울특별시",
                "quotedOn": "2026-10-01",
                "servicePriceKrw": 1_500_000,
                "ownPriceKrw": 1_000_000,
            });
            (booking, body)
        }
        "accept_manager_invitation" => (String::new(), json!({"expectedOnboardingRevision": 1})),
        "capture_adjustment_payment" => {
            let body = json!({
                "motherUserId": MOTHER,
                "paymentId": format!("adjustment-payment-{number}"),
                "providerName": "sample-gateway",
                "providerContext": {"approval": {"number": "A-77"}},
            });
            (booking, body)
        }
        "snapshot_settlement_account" => {
            let body = json!({
                "snapshotId": format!("snapshot-{number}"),
                "settlementStatementId": format!("statement-{number}"),
                "branchOfficeProfileId": BRANCH,
                "settlementAccountId": format!("account-{number}"),
                "expectedSettlementAccountRevision": 1,
                "idempotencyKey": key,
            });
            (String::new(), body)
        }
        "decide_cash_receipt_eligibility" => {
            let body = json!({
                "obligationPurpose": "customer_share_deposit",
                "requestState": "requested",
                "purpose": "income_deduction",
                "registrationIdentityReference": format!("identity-{number}"),
            });
            (PLAN.to_owned(), body)
        }
        "confirm_reservation_draft" => {
            let body = json!({
                "expectedDraftRevision": 1,
                "reservationDraftStepAuthorityProjectionId": format!("projection-{number}"),
                "expectedReviewRevision": 1,
            });
            (format!("draft-{number}"), body)
        }
        "update_branch_office_profile" => {
            let body = json!({
                "commandId": format!("command-{number}"),
                "revisionId": format!("revision-{number}"),
                "branchOfficeProfileId": format!("office-{number}"),
                "expectedRevision": 1,
                "displayName": "서울 본점",
                "legalName": "서울산후케어 주식회사",
                "contactEmail": "seoul-1@example.com",
                "primaryPhoneNumber": "+82212345678",
                "addressLine": "서울특별시 중구 세종대로 110",
                "businessRegistrationReference": "business-registration-1",
                "reason": "A new name.",
            });
            (String::new(), body)
        }
        "pre_register_payment" => {
            let body = json!({
                "paymentId": format!("payment-{number}"),
                "cashReceiptIssueRequest": {
                    "requestState": "requested",
                    "purpose": "income_deduction",
                    "registrationIdentityReference": "identity-1",
                },
            });
            (String::new(), body)
        }
        "administer_gateway" => {
            let body = json!({
                "operationAction": "lookup_payment",
                "reason": "A customer asked.",
                "idempotencyKey": key,
                "expectedRevision": 0,
                "paymentId": format!("payment-{number}"),
            });
            (String::new(), body)
        }
        _ => panic!("{operation} has no workload: add one here"),
    }
}

fn request(row: &Row, parameter: &str, token: &str, key: &str, body: &Value) -> Request {
    let method = match row.method {
        Method::Post => "POST",
        Method::Patch => "PATCH",
    };
    let path = match (row.path.find('{'), row.path.find('}')) {
        (Some(from), Some(to)) => {
            format!("{}{parameter}{}", &row.path[..from], &row.path[to + 1..])
        }
        _ => row.path.to_owned(),
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: bench\r\n");
    if row.bearer {
        head += &format!("Authorization: Bearer {token}\r\n");
    }
    if row.key == KeySource::Header {
        head += &format!("Idempotency-Key: {key}\r\n");
    }
    let body = body.to_string();
    let length = body.len();
    format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}
