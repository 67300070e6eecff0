//! A walk through all operations in the samples' world, as lines for a shell: what the
//! demonstration prints, and the document about it, come from here.
//!
//! Each step is a `curl` line that works as it is pasted, in the order given, against a fresh
//! demonstration; what a later step needs of an answer is kept in a variable. No step needs more
//! than `sh`, `curl` and `sed`. Keys are literal, so that a second walk is a walk of replays.

use std::fmt::Write as _;

use crate::base::actor::ActorKind;
use crate::catalogue::{KeySource, Method, OPERATIONS, Row, Success};

/// The variable that holds the address of the service.
pub const ADDRESS: &str = "CAREBOOK";
/// The last line of the walk as it is printed.
pub const END: &str = "# That was all of it. Pasted once more, it is answered by replays.";

/// What a step calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The operation with this number.
    Operation(u16),
    /// A read.
    Read,
}

/// One request.
#[derive(Debug)]
pub struct Step {
    /// What it calls.
    pub call: Call,
    /// What happens, in one sentence that a shell can read past: without quotes and the like.
    pub title: &'static str,
    /// Whose token it has; none where none is looked at.
    pub who: Option<ActorKind>,
    /// The path; `$name` stands for what an earlier step has kept.
    pub path: &'static str,
    /// The body, as the path; empty for a read.
    pub body: &'static str,
    /// What is kept of the answer: the variable, and the member whose text it gets.
    pub kept: &'static [(&'static str, &'static str)],
    /// What to look at in the answer; for the document.
    pub look: &'static str,
}

/// Steps that belong together.
#[derive(Debug)]
pub struct Part {
    /// What they are about.
    pub title: &'static str,
    /// The steps.
    pub steps: &'static [Step],
}

use Call::{Operation, Read};

/// The walk.
pub static PARTS: &[Part] = &[
    Part {
        title: "A mother and her family",
        steps: &[
            Step {
                call: Operation(7),
                title: "A mother completes her profile and accepts the published consent.",
                who: Some(ActorKind::Mother),
                path: "/mother/profile",
                body: r#"{
  "expectedProfileRevision": 1,
  "expectedAddressRevision": 1,
  "fullName": "김하늘",
  "birthDate": "1992-03-14",
  "address": {"postalCode": "06236", "roadAddress": "서울특별시 강남구 테헤란로 1", "detailAddress": "2층"},
  "consentAcceptances": [{"policyKey": "privacy", "versionLabel": "2025-01"}]
}"#,
                kept: &[],
                look: "`profileRevision` and `addressRevision` are 2, `profileCompleteness` is `complete`, \
                       and `start_reservation` is among `allowedNextActions`.",
            },
            Step {
                call: Operation(18),
                title: "She confirms her reviewed draft: a booking and a payment obligation come into being.",
                who: Some(ActorKind::Mother),
                path: "/customer-reservation-drafts/draft-1/confirm",
                body: r#"{
  "expectedDraftRevision": 1,
  "reservationDraftStepAuthorityProjectionId": "review-projection-1",
  "expectedReviewRevision": 1
}"#,
                kept: &[
                    ("booking", "reservationBookingId"),
                    ("payment", "paymentObligationId"),
                ],
                look: "The handoff asks for 300,000 won. The booking and the obligation are kept in \
                       `$booking` and `$payment`: the next steps use them at once.",
            },
            Step {
                call: Operation(2),
                title: "She lets a member of her family pay for this booking, up to 500,000 won.",
                who: Some(ActorKind::Mother),
                path: "/family-payment-delegations",
                body: r#"{
  "familyAccountId": "family-account-1",
  "payerMemberId": "member-family-1",
  "motherMemberId": "member-mother-1",
  "reservationBookingId": "$booking",
  "scopes": ["reservation_deposit"],
  "maximumAuthorizedAmountKrw": 500000,
  "expiresAt": "2099-01-01T09:00:00+09:00"
}"#,
                kept: &[("delegation", "paymentDelegationId")],
                look: "`authorityEvidence` names the facts that the grant rests on, with their revisions.",
            },
            Step {
                call: Operation(1),
                title: "The payer proves the authority to pay 300,000 won.",
                who: Some(ActorKind::FamilyMember),
                path: "/family-reservation-payment-authorizations",
                body: r#"{
  "familyAccountId": "family-account-1",
  "motherMemberId": "member-mother-1",
  "reservationBookingId": "$booking",
  "scope": "reservation_deposit",
  "amountKrw": 300000
}"#,
                kept: &[],
                look: "The delegation. With an `amountKrw` of 500001 it is a 400 \
                       `payment_grant_missing_or_out_of_scope`.",
            },
            Step {
                call: Operation(4),
                title: "She lets the same member read the care history of the booking.",
                who: Some(ActorKind::Mother),
                path: "/family-accounts/family-account-1/reservation-care-history-access-grants",
                body: r#"{
  "granteeMemberId": "member-family-1",
  "reservationBookingId": "$booking",
  "scopes": ["summary"],
  "expiresAt": "2099-01-01T09:00:00+09:00"
}"#,
                kept: &[],
                look: "A grant at `revision` 1.",
            },
            Step {
                call: Read,
                title: "The payer reads the delegation.",
                who: Some(ActorKind::FamilyMember),
                path: "/family-payment-delegations/$delegation",
                body: "",
                kept: &[],
                look: "The body of the grant, unchanged. For anybody who is not concerned it is a 404.",
            },
        ],
    },
    Part {
        title: "Payments",
        steps: &[
            Step {
                call: Operation(17),
                title: "The payer asks whether a cash receipt can be issued.",
                who: Some(ActorKind::FamilyMember),
                path: "/payment-product-plans/plan-customer-share/cash-receipt-eligibility-decisions",
                body: r#"{
  "obligationPurpose": "customer_share_deposit",
  "requestState": "requested",
  "purpose": "income_deduction",
  "registrationIdentityReference": "identity-1"
}"#,
                kept: &[],
                look: "`decisionState` is `accepted`, and the provider may issue it.",
            },
            Step {
                call: Operation(20),
                title: "The payer pre-registers the payment of the booking.",
                who: Some(ActorKind::FamilyMember),
                path: "/reservation-payment-pre-registrations",
                body: r#"{
  "paymentId": "$payment",
  "cashReceiptIssueRequest": {
    "requestState": "requested",
    "purpose": "income_deduction",
    "registrationIdentityReference": "identity-1"
  }
}"#,
                kept: &[],
                look: "Three frozen snapshots: who pays by which delegation, the fee of 7,500 won \
                       (2.5 % of 300,000), and the decision on the receipt.",
            },
            Step {
                call: Operation(15),
                title: "The mother pays the latest change of an earlier booking.",
                who: Some(ActorKind::Mother),
                path: "/reservation-payment-change-adjustments/reservation-booking-1/mother-payments",
                body: r#"{
  "motherUserId": "mother-1",
  "paymentId": "adjustment-payment-2",
  "providerName": "sample-gateway",
  "providerContext": {"approvalNumber": "A-77"}
}"#,
                kept: &[],
                look: "`adjustmentStatus` is `paid`, and the settlement goes on: \
                       `settlementContinuationStatus` is `queued`.",
            },
            Step {
                call: Operation(13),
                title: "A backend finalizes the charge of that booking; no token is looked at.",
                who: None,
                path: "/reservation-financial-lifecycles/reservation-booking-1/regional-benefit-charge-finalizations",
                body: r#"{
  "branchProfileId": "branch-seoul-1",
  "finalizedChargeSnapshotId": "walk-13",
  "capturedOn": "2025-10-10",
  "serviceType": "postpartum_care",
  "serviceAddressLevel1": "서울특별시",
  "serviceAddressLevel2": "중구",
  "quotedOn": "2025-10-01",
  "servicePriceKrw": 1500000,
  "ownPriceKrw": 1000000,
  "couponDiscountAmountKrw": 50000,
  "amountByComponentCode": {"night_care": 30000}
}"#,
                kept: &[],
                look: "The district's benefit is 10 % of the price, but at most 120,000 won, so that \
                       the mother pays 860,000. Of the gross 1,530,000 the caregiver gets 1,071,000, \
                       headquarters 153,000 and the branch the rest, 306,000.",
            },
            Step {
                call: Operation(21),
                title: "Headquarters closes a virtual account at the gateway.",
                who: Some(ActorKind::HeadquartersAdministrator),
                path: "/billing-engine-payment-admin-operations",
                body: r#"{
  "operationAction": "close_virtual_account",
  "reason": "The customer pays by card instead.",
  "idempotencyKey": "walk-21",
  "expectedRevision": 0,
  "paymentId": "payment-3"
}"#,
                kept: &[],
                look: "An audit, whatever the gateway says; here `operationStatus` is `succeeded`.",
            },
        ],
    },
    Part {
        title: "Caregivers",
        steps: &[
            Step {
                call: Operation(10),
                title: "The manager of the branch assigns a caregiver out of the frozen candidates.",
                who: Some(ActorKind::BranchManager),
                path: "/care-team-assignment-decisions/assign-from-candidate-snapshot",
                body: r#"{
  "assignmentDecisionId": "walk-assignment-decision",
  "rosterDecisionId": "walk-roster-decision",
  "reservationBookingId": "reservation-booking-1",
  "targetAssignmentKey": "first-caregiver",
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
  "idempotencyKey": "walk-10"
}"#,
                kept: &[],
                look: "A decision of the kind `assign`. The roster stood at 0 before it and stands at 1 now.",
            },
            Step {
                call: Operation(11),
                title: "Headquarters repairs the receipt state of a payout.",
                who: Some(ActorKind::HeadquartersAdministrator),
                path: "/caregiver-payout-receipt-states/repairs",
                body: r#"{
  "reservationBookingId": "reservation-booking-1",
  "contractAssignmentKey": "contract-assignment-1",
  "caregiverPayoutInstructionId": "payout-instruction-1",
  "caregiverRole": "primary_caregiver",
  "handoffOrder": 1,
  "caregiverId": "caregiver-1",
  "occurredAt": "2025-11-03T10:00:00+09:00",
  "idempotencyKey": "walk-11",
  "expectedRevision": 0,
  "reason": "The bank sent no receipt."
}"#,
                kept: &[],
                look: "`receiptState` is `repaired`, at `revision` 1.",
            },
            Step {
                call: Operation(12),
                title: "The manager acknowledges that this payout was deposited.",
                who: Some(ActorKind::BranchManager),
                path: "/caregiver-payout-acknowledgements/branch-deposits",
                body: r#"{
  "reservationBookingId": "reservation-booking-1",
  "contractAssignmentKey": "contract-assignment-1",
  "caregiverPayoutInstructionId": "payout-instruction-1",
  "caregiverRole": "primary_caregiver",
  "handoffOrder": 1,
  "caregiverId": "caregiver-1",
  "occurredAt": "2025-11-03T15:00:00+09:00",
  "idempotencyKey": "walk-12",
  "memo": "Paid in the afternoon."
}"#,
                kept: &[],
                look: "`status` is `acknowledged`.",
            },
            Step {
                call: Read,
                title: "The manager reads where the payout stands.",
                who: Some(ActorKind::BranchManager),
                path: "/caregiver-payout-receipt-states/reservation-booking-1/contract-assignment-1/payout-instruction-1",
                body: "",
                kept: &[],
                look: "The acknowledgement has advanced the receipt state to `revision` 2.",
            },
        ],
    },
    Part {
        title: "Settlement",
        steps: &[
            Step {
                call: Operation(9),
                title: "Headquarters asks the branch for a deposit.",
                who: Some(ActorKind::HeadquartersAdministrator),
                path: "/settlement-deposit-requests",
                body: r#"{
  "statementCode": "walk-2025-10",
  "statementKind": "head_office_to_branch",
  "branchProfileId": "branch-seoul-1",
  "settlementPeriodStart": "2025-10-01",
  "settlementPeriodEnd": "2025-10-31",
  "remittanceAccountSnapshot": {
    "remittanceAccountSnapshotId": "remittance-1",
    "bankName": "Sample Bank",
    "accountHolder": "Carebook Head Office",
    "accountNumberDisplay": "110-***-000123",
    "capturedAt": "2025-11-01T09:00:00+09:00",
    "sourceReferenceKey": null
  },
  "actorKind": "headquarters_administrator",
  "actorProfileId": "headquarters-profile-1",
  "idempotencyKey": "walk-9",
  "messageToBranch": "By Friday, please.",
  "headOfficePrivateMemo": "Late twice this year."
}"#,
                kept: &[("statement", "statementId")],
                look: "A statement that is `awaiting_branch_deposit`; its identifier is kept in `$statement`.",
            },
            Step {
                call: Operation(16),
                title: "The manager freezes the settlement account of the branch for the statement.",
                who: Some(ActorKind::BranchManager),
                path: "/branch-settlement-account-statement-snapshots",
                body: r#"{
  "snapshotId": "walk-account-snapshot",
  "settlementStatementId": "$statement",
  "branchOfficeProfileId": "branch-seoul-1",
  "settlementAccountId": "settlement-account-1",
  "expectedSettlementAccountRevision": 1,
  "idempotencyKey": "walk-16"
}"#,
                kept: &[],
                look: "A copy of the account that no later change of it alters.",
            },
            Step {
                call: Operation(8),
                title: "The manager acknowledges the deposit, line by line.",
                who: Some(ActorKind::BranchManager),
                path: "/settlement-branch-deposit-acknowledgements",
                body: r#"{
  "statementId": "$statement",
  "actorKind": "branch_manager",
  "actorProfileId": "manager-profile-1",
  "idempotencyKey": "walk-8",
  "expectedRevision": 1,
  "reason": null,
  "lineAcknowledgements": [
    {
      "lineAcknowledgementId": "walk-line-acknowledgement",
      "settlementLineKey": "membership-2025-10",
      "settlementLineKind": "membership_due",
      "acknowledgedByActorProfileId": "manager-profile-1",
      "acknowledgedAt": "2025-11-03T10:00:00+09:00",
      "acknowledgementNote": null
    }
  ]
}"#,
                kept: &[],
                look: "`status` is `awaiting_confirmation`. The memo of headquarters is null: it is not \
                       for branches.",
            },
            Step {
                call: Read,
                title: "Headquarters reads the statement.",
                who: Some(ActorKind::HeadquartersAdministrator),
                path: "/settlement-statements/$statement",
                body: "",
                kept: &[],
                look: "The same statement, with the memo, and both transitions in `transitionAudits`.",
            },
            Step {
                call: Operation(5),
                title: "Headquarters asks for an export of the settlement lines.",
                who: Some(ActorKind::HeadquartersAdministrator),
                path: "/settlement-data-room-export-requests",
                body: r#"{
  "requestCode": "walk-export-2025-10",
  "scope": {
    "collection": "settlement_lines",
    "settlementPeriodStart": "2025-10-01",
    "settlementPeriodEnd": "2025-10-31",
    "branchProfileId": "branch-seoul-1",
    "externalRecipientCode": null,
    "sourceDatasetRevision": 1,
    "sourceEvidenceKeys": ["ledger-2025-10"]
  },
  "actorKind": "headquarters_administrator",
  "actorProfileId": "headquarters-profile-1",
  "idempotencyKey": "walk-5"
}"#,
                kept: &[("request", "requestId")],
                look: "A request that is `open`; its identifier is kept in `$request`.",
            },
            Step {
                call: Operation(6),
                title: "The workflow that made the export says that it is ready.",
                who: Some(ActorKind::SystemWorkflow),
                path: "/settlement-data-room-requests/$request/ready-artifacts",
                body: r#"{
  "artifact": {
    "artifactId": "walk-artifact",
    "artifactKind": "ledger",
    "storageBucket": "exports",
    "storageObjectKey": "2025/10/ledger.csv",
    "exportFormat": "csv",
    "fileName": "ledger.csv",
    "byteSize": 1024,
    "contentSha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "generatedAt": "2025-11-03T11:00:00+09:00",
    "sourceDatasetRevision": 1
  },
  "actorKind": "system_workflow",
  "actorProfileId": "workflow-1",
  "idempotencyKey": "walk-6",
  "expectedRevision": 1
}"#,
                kept: &[],
                look: "`status` is `ready`, and the journal tells of both commands.",
            },
        ],
    },
    Part {
        title: "Branches",
        steps: &[
            Step {
                call: Operation(3),
                title: "Headquarters creates a branch and invites its first manager.",
                who: Some(ActorKind::HeadquartersAdministrator),
                path: "/admin/branches",
                body: r#"{
  "commandId": "walk-create-branch",
  "branchCode": "BUSAN-1",
  "expectedOrganizationRevision": 1,
  "legalName": "부산산후케어 주식회사",
  "displayName": "부산 1지점",
  "businessIdentity": {"jurisdiction": "KR", "registrationNumber": "124-81-00998"},
  "contact": {"email": "busan-1@example.com", "phoneNumber": "+82511234567"},
  "address": {"postalCode": "48058", "roadAddress": "부산광역시 해운대구 센텀중앙로 79", "detailAddress": "3층"},
  "managerInvitation": {"email": "manager-1@example.com", "displayName": "이바다"},
  "initialLifecycleStatus": "preparing",
  "initialMembershipFeePolicy": {
    "policyVersion": "2026-01",
    "monthlyFeeAmount": 150000,
    "currencyCode": "KRW",
    "effectiveFrom": "2026-01-01"
  },
  "reason": "A branch for the south."
}"#,
                kept: &[("branch", "branchId")],
                look: "`outcomeStatus` is `completed`: the embedded directory has done all side effects in \
                       the commit. The branch is kept in `$branch`.",
            },
            Step {
                call: Operation(14),
                title: "The invited manager accepts.",
                who: Some(ActorKind::BranchManager),
                path: "/branch/manager-invitations/accept",
                body: r#"{"expectedOnboardingRevision": 1}"#,
                kept: &[],
                look: "The membership is active; the relationship is `queued` in the outbox.",
            },
            Step {
                call: Read,
                title: "Headquarters reads the branch.",
                who: Some(ActorKind::HeadquartersAdministrator),
                path: "/admin/branches/$branch",
                body: "",
                kept: &[],
                look: "It stands at `revision` 2, its invitation is `accepted`.",
            },
            Step {
                call: Operation(19),
                title: "The manager renames the branch in Seoul.",
                who: Some(ActorKind::BranchManager),
                path: "/branch-office-profile-updates",
                body: r#"{
  "commandId": "walk-19",
  "revisionId": "walk-profile-revision",
  "branchOfficeProfileId": "branch-seoul-1",
  "expectedRevision": 1,
  "displayName": "서울 본점",
  "legalName": "서울산후케어 주식회사",
  "contactEmail": "seoul-1@example.com",
  "primaryPhoneNumber": "+82212345678",
  "addressLine": "서울특별시 중구 세종대로 110",
  "businessRegistrationReference": "business-registration-1",
  "reason": "The first branch of two."
}"#,
                kept: &[],
                look: "`revisionNumber` is 2.",
            },
        ],
    },
];

/// The variable that holds the token of the demonstration's actor of this kind.
#[must_use]
pub fn token_variable(kind: ActorKind) -> String {
    kind.as_str().to_uppercase()
}

/// The text with what was kept in place of `$name`, inside single quotes of a shell.
fn in_single_quotes(text: &str) -> String {
    let mut quoted = String::from("'");
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        let end = after
            .find(|next: char| !next.is_ascii_alphanumeric())
            .unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let _ = write!(quoted, "{before}'\"${name}\"'");
        rest = after;
    }
    quoted + rest + "'"
}

impl Step {
    /// The operation that it calls; none for a read.
    #[must_use]
    pub fn row(&self) -> Option<&'static Row> {
        match self.call {
            Operation(tag) => OPERATIONS.iter().find(|row| row.tag == tag),
            Read => None,
        }
    }

    /// The status of its answer, the first time.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.row().map(|row| row.success) {
            Some(Success::Created | Success::CreatedOnce) => 201,
            Some(Success::Ok) | None => 200,
        }
    }

    /// Its lines for a shell. The last line of what they print is the status.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut curl = String::from("curl -sS -w '\\n%{http_code}\\n'");
        if self.row().is_some_and(|row| row.method == Method::Patch) {
            curl.push_str(" -X PATCH");
        }
        let _ = write!(curl, " \"${ADDRESS}{}\"", self.path);
        if let Some(kind) = self.who {
            let token = token_variable(kind);
            let _ = write!(curl, " \\\n  -H \"Authorization: Bearer ${token}\"");
        }
        if let Some(row) = self.row() {
            if row.key == KeySource::Header {
                let _ = write!(curl, " \\\n  -H 'Idempotency-Key: walk-{}'", row.tag);
            }
            curl.push_str(" \\\n  -H 'Content-Type: application/json'");
            let _ = write!(curl, " \\\n  -d {}", in_single_quotes(self.body));
        }
        if self.kept.is_empty() {
            return curl;
        }
        let mut lines = format!("answer=$({curl})\nprintf '%s\\n' \"$answer\"");
        for (variable, member) in self.kept {
            let _ = write!(
                lines,
                "\n{variable}=$(printf '%s\\n' \"$answer\" | \
                 sed -n 's/.*\"{member}\":\"\\([^\"]*\\)\".*/\\1/p')"
            );
        }
        lines
    }
}

/// The walk as the demonstration prints it.
#[must_use]
pub fn printed() -> String {
    let mut text = String::from(
        "# all operations, step by step: paste the exports above, then a step at a time or all of them",
    );
    let mut number = 0;
    for part in PARTS {
        let _ = write!(text, "\n\n# == {} ==", part.title);
        for step in part.steps {
            number += 1;
            let _ = write!(text, "\n\n# {number}. {}\n{}", step.title, step.lines());
        }
    }
    text + "\n\n" + END
}

/// The walk as a document.
#[must_use]
pub fn document() -> String {
    let mut text = String::from(INTRODUCTION);
    let mut number = 0;
    for part in PARTS {
        let _ = write!(text, "\n## {}\n", part.title);
        for step in part.steps {
            number += 1;
            let called = match step.row() {
                Some(row) => format!("Operation {}", row.tag),
                None => "A read".to_owned(),
            };
            let _ = write!(
                text,
                "\n### {number}. {}\n\n```sh\n{}\n```\n\n{called}: `{}`. {}\n",
                step.title.trim_end_matches('.'),
                step.lines(),
                step.status(),
                step.look
            );
        }
    }
    text + CONCLUSION
}

const INTRODUCTION: &str = "\
# A walk through all operations

This document is generated (`REWRITE_DOCS=1 cargo test walk::`), and a test runs each line of it in
a shell, against a server of its own.

Start a demonstration in one terminal:

```sh
carebook serve --demo
```

It prints its address and a token of each kind of actor as `export` lines, and then the very steps
below. Paste the `export` lines into a second terminal, and then a step at a time. Each step prints
the answer's body, and its status on a line of its own. What a later step needs is kept in a
variable of the shell; nothing but `sh`, `curl` and `sed` is used.

The steps are to be taken in their order, against a fresh demonstration: they name revisions, and
revisions advance. Taken a second time each of them is a replay: the same answer again, with the
header `Idempotent-Replayed: true`, and nothing is done twice.
";

const CONCLUSION: &str = "
## And then

Stop the server, with Ctrl-C or `kill -9`, and start it again on its data directory (`--data DIR`,
printed as the first comment): every answer above is still there, and every replay is answered as
before. `carebook verify --data DIR` reads the log and says what is in it.
";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn steps() -> impl Iterator<Item = &'static Step> {
        PARTS.iter().flat_map(|part| part.steps)
    }

    #[test]
    fn every_operation_is_called_once() {
        let called: Vec<_> = steps().filter_map(Step::row).map(|row| row.tag).collect();
        let known: BTreeSet<_> = OPERATIONS.iter().map(|row| row.tag).collect();
        assert_eq!(called.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(called.len(), known.len());
    }

    #[test]
    fn a_step_has_a_token_where_its_operation_looks_at_one_and_a_body_that_is_json() {
        for step in steps() {
            match step.row() {
                Some(row) => {
                    assert_eq!(step.who.is_some(), row.bearer, "{}", row.name);
                    serde_json::from_str::<Value>(step.body).unwrap();
                }
                None => assert_eq!((step.body, step.who.is_some()), ("", true)),
            }
        }
    }

    #[test]
    fn what_a_step_uses_was_kept_before() {
        let mut kept = BTreeSet::new();
        for step in steps() {
            let text = format!("{}{}", step.path, step.body);
            for used in text.split('$').skip(1) {
                let end = used.find(|next: char| !next.is_ascii_alphanumeric());
                let name = &used[..end.unwrap_or(used.len())];
                assert!(kept.contains(name), "{name} in {}", step.title);
            }
            kept.extend(step.kept.iter().map(|(variable, _)| *variable));
        }
    }

    #[test]
    fn a_shell_reads_past_titles_and_nothing_ends_a_quote() {
        // Some shells read a pasted comment as a command: there must be no quote, no pattern and
        // no parenthesis in it.
        let is_plain = |text: &str| !text.contains(|c| "'\"`$!*?()[]<>|&\\".contains(c));
        for part in PARTS {
            assert!(is_plain(part.title), "{}", part.title);
        }
        for step in steps() {
            assert!(is_plain(step.title), "{}", step.title);
            assert!(!step.body.contains(['\'', '!', '\\']), "{}", step.body);
        }
        assert_eq!(in_single_quotes(r#"{"a": "$b"}"#), r#"'{"a": "'"$b"'"}'"#);
    }
}
