//! What each operation's commands say: the parameter of the path, and the body.

use serde_json::{Value, json};

use crate::cast::{BRANCH, FAMILY_MEMBER, FIRST, MOTHER, MOTHER_MEMBER, PLAN};

pub(crate) fn manager_email(number: usize) -> String {
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
pub(crate) fn command(operation: &str, number: usize, before: &Value) -> (String, Value) {
    family(operation, number)
        .or_else(|| branch(operation, number))
        .or_else(|| settlement(operation, number, before))
        .or_else(|| data_room(operation, number, before))
        .or_else(|| reservation(operation, number))
        .or_else(|| payment(operation, number))
        .unwrap_or_else(|| panic!("{operation} has no workload: add one here"))
}

/// The families and the mothers.
fn family(operation: &str, number: usize) -> Option<(String, Value)> {
    let booking = format!("booking-{number}");
    Some(match operation {
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
        "grant_care_history_access" => {
            let body = json!({
                "granteeMemberId": FAMILY_MEMBER,
                "reservationBookingId": booking,
                "scopes": ["summary"],
                "expiresAt": "2099-01-01T00:00:00Z",
            });
            (format!("family-{number}"), body)
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
        _ => return None,
    })
}

/// The branches.
fn branch(operation: &str, number: usize) -> Option<(String, Value)> {
    let key = format!("key-{number}");
    Some(match operation {
        "create_branch" => {
            let body = json!({
                "commandId": format!("command-{number}"),
                "branchCode": format!("BR{number}"),
                "expectedOrganizationRevision": number - FIRST + 1,
                "legalName": "부산산후케어 주식회사",
                "displayName": "부산 1지점",
                "businessIdentity": {
                    "jurisdiction": "KR",
                    "registrationNumber": registration_number(number),
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
        "accept_manager_invitation" => (String::new(), json!({"expectedOnboardingRevision": 1})),
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
        _ => return None,
    })
}

/// The settlement.
fn settlement(operation: &str, number: usize, before: &Value) -> Option<(String, Value)> {
    let key = format!("key-{number}");
    let text = |member: &str| before[member].as_str().unwrap_or_default().to_owned();
    Some(match operation {
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
        _ => return None,
    })
}

/// The data rooms, and their files.
fn data_room(operation: &str, number: usize, before: &Value) -> Option<(String, Value)> {
    let key = format!("key-{number}");
    let text = |member: &str| before[member].as_str().unwrap_or_default().to_owned();
    Some(match operation {
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
        _ => return None,
    })
}

/// The reservations, and what caregivers are paid.
fn reservation(operation: &str, number: usize) -> Option<(String, Value)> {
    let key = format!("key-{number}");
    let booking = format!("booking-{number}");
    Some(match operation {
        "confirm_reservation_draft" => {
            let body = json!({
                "expectedDraftRevision": 1,
                "reservationDraftStepAuthorityProjectionId": format!("projection-{number}"),
                "expectedReviewRevision": 1,
            });
            (format!("draft-{number}"), body)
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
        _ => return None,
    })
}

/// The payments.
fn payment(operation: &str, number: usize) -> Option<(String, Value)> {
    let key = format!("key-{number}");
    let booking = format!("booking-{number}");
    Some(match operation {
        "capture_adjustment_payment" => {
            let body = json!({
                "motherUserId": MOTHER,
                "paymentId": format!("adjustment-payment-{number}"),
                "providerName": "sample-gateway",
                "providerContext": {"approval": {"number": "A-77"}},
            });
            (booking, body)
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
        _ => return None,
    })
}

/// What the answer to a command has to repeat: a word of the command's own, so that an answer that
/// was given to the wrong one is found. Where the answer repeats nothing, it is empty.
pub(crate) fn echo(operation: &str, number: usize) -> String {
    let what = match operation {
        "authorize_payment"
        | "grant_payment_authority"
        | "grant_care_history_access"
        | "finalize_charge"
        | "capture_adjustment_payment" => "booking-",
        "create_branch" => "BR",
        "open_data_room_request" => "REQUEST-",
        "mark_artifact_ready" => "2026/10/ledger-",
        "acknowledge_deposit" => "line-",
        "request_deposit" => "STATEMENT-",
        "assign_caregiver" => "roster-decision-",
        "repair_payout_receipt" | "acknowledge_payout_deposit" => "instruction-",
        "snapshot_settlement_account" => "snapshot-",
        "confirm_reservation_draft" => "draft-",
        "update_branch_office_profile" => "revision-",
        "pre_register_payment" => "payment-",
        "administer_gateway" => "key-",
        // Neither the profile nor the activation nor the decision names anything of the request.
        _ => return String::new(),
    };
    format!("{what}{number}")
}
