// The walk through all operations (docs/walkthrough.md) against a fresh demonstration, by a client that
// openapi-typescript made from the API document. Every request and every value that is looked at has its type
// from there, so that tsc refuses what the document does not say.
//
// The environment has the exports that the demonstration prints. Method and path of each request that succeeded are
// printed, once. What was answered otherwise than it should be is told, and the exit code is 1.

import assert from "node:assert/strict";
import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./carebook.js";

type Schemas = components["schemas"];

function given(name: string): string {
  const value = process.env[name];
  assert(value, `the environment has no ${name}`);
  return value;
}

const succeeded = new Set<string>();

/** Notes the requests that succeed. */
const noting: Middleware = {
  onResponse({ request, schemaPath, response }) {
    if (response.ok) {
      succeeded.add(`${request.method} ${schemaPath}`);
    }
  },
};

function client(headers: Record<string, string>) {
  const made = createClient<paths>({ baseUrl: given("CAREBOOK"), headers });
  made.use(noting);
  return made;
}

const as = (kind: string) => client({ Authorization: `Bearer ${given(kind)}` });

const mother = as("MOTHER");
const family = as("FAMILY_MEMBER");
const manager = as("BRANCH_MANAGER");
const headquarters = as("HEADQUARTERS_ADMINISTRATOR");
const workflow = as("SYSTEM_WORKFLOW");
const nobody = client({});

/** The body of an answer of this status. */
function answered<Body>(status: number, answer: { data?: Body; error?: unknown; response: Response }): Body {
  const what = `${answer.response.url}: ${JSON.stringify(answer.error)}`;
  assert.equal(answer.response.status, status, what);
  assert(answer.response.headers.get("x-request-id"), what);
  assert(answer.data !== undefined, what);
  return answer.data;
}

// A mother and her family

const profile = answered(
  201,
  await mother.PATCH("/mother/profile", {
    params: { header: { "Idempotency-Key": "walk-7" } },
    body: {
      expectedProfileRevision: 1,
      expectedAddressRevision: 1,
      fullName: "김하늘",
      birthDate: "1992-03-14",
      address: { postalCode: "06236", roadAddress: "서울특별시 강남구 테헤란로 1", detailAddress: "2층" },
      consentAcceptances: [{ policyKey: "privacy", versionLabel: "2025-01" }],
    },
  }),
);
assert.equal(profile.profileCompleteness, "complete");
assert.equal(profile.profileRevision, 2);
assert(profile.allowedNextActions.includes("start_reservation"));

const created = answered(
  201,
  await mother.POST("/customer-reservation-drafts/{draftId}/confirm", {
    params: { path: { draftId: "draft-1" }, header: { "Idempotency-Key": "walk-18" } },
    body: {
      expectedDraftRevision: 1,
      reservationDraftStepAuthorityProjectionId: "review-projection-1",
      expectedReviewRevision: 1,
    },
  }),
);
const { reservationBookingId } = created;
assert(reservationBookingId !== null);
const { paymentObligationId, payableAmountKrw } = created.reservationCreationPaymentHandoff;
assert.equal(payableAmountKrw, 300_000);

const delegation = answered(
  201,
  await mother.POST("/family-payment-delegations", {
    params: { header: { "Idempotency-Key": "walk-2" } },
    body: {
      familyAccountId: "family-account-1",
      payerMemberId: "member-family-1",
      motherMemberId: "member-mother-1",
      reservationBookingId,
      scopes: ["reservation_deposit"],
      maximumAuthorizedAmountKrw: 500_000,
      expiresAt: "2099-01-01T09:00:00+09:00",
    },
  }),
);
assert.equal(delegation.maximumAuthorizedAmountKrw, 500_000);

const authority: Schemas["AuthorizePaymentRequest"] = {
  familyAccountId: "family-account-1",
  motherMemberId: "member-mother-1",
  reservationBookingId,
  scope: "reservation_deposit",
  amountKrw: 300_000,
};
const authorized = answered(200, await family.POST("/family-reservation-payment-authorizations", { body: authority }));
assert.equal(authorized.paymentDelegationId, delegation.paymentDelegationId);
const tooMuch = await family.POST("/family-reservation-payment-authorizations", {
  body: { ...authority, amountKrw: 500_001 },
});
assert.equal(tooMuch.response.status, 400);
assert.equal(tooMuch.error?.code, "payment_grant_missing_or_out_of_scope");
assert.equal(tooMuch.error.retryable, false);

const careHistory = answered(
  201,
  await mother.POST("/family-accounts/{familyAccountId}/reservation-care-history-access-grants", {
    params: { path: { familyAccountId: "family-account-1" }, header: { "Idempotency-Key": "walk-4" } },
    body: {
      granteeMemberId: "member-family-1",
      reservationBookingId,
      scopes: ["summary"],
      expiresAt: "2099-01-01T00:00:00Z",
    },
  }),
);
assert.equal(careHistory.revision, 1);

const read = answered(
  200,
  await family.GET("/family-payment-delegations/{id}", { params: { path: { id: delegation.paymentDelegationId } } }),
);
assert.deepEqual(read, delegation);

// Payments

const receipt = answered(
  200,
  await family.POST("/payment-product-plans/{planCode}/cash-receipt-eligibility-decisions", {
    params: { path: { planCode: "plan-customer-share" } },
    body: {
      obligationPurpose: "customer_share_deposit",
      requestState: "requested",
      purpose: "income_deduction",
      registrationIdentityReference: "identity-1",
    },
  }),
);
assert.equal(receipt.decisionState, "accepted");

const registered = answered(
  200,
  await family.POST("/reservation-payment-pre-registrations", {
    params: { header: { "Idempotency-Key": "walk-20" } },
    body: {
      paymentId: paymentObligationId,
      cashReceiptIssueRequest: {
        requestState: "requested",
        purpose: "income_deduction",
        registrationIdentityReference: "identity-1",
      },
    },
  }),
);
assert.equal(registered.paymentActorSnapshot.actorKind, "delegated_family_payer");
assert.equal(registered.paymentActorSnapshot.paymentDelegationId, delegation.paymentDelegationId);
assert.equal(registered.providerFeeSnapshot.methodFeeQuote.feeAmountKrw, 7_500);

const captured = answered(
  200,
  await mother.POST("/reservation-payment-change-adjustments/{reservationBookingId}/mother-payments", {
    params: { path: { reservationBookingId: "reservation-booking-1" } },
    body: {
      motherUserId: "mother-1",
      paymentId: "adjustment-payment-2",
      providerName: "sample-gateway",
      providerContext: { approval: { number: "A-77" } },
    },
  }),
);
assert.equal(captured.adjustmentStatus, "paid");
assert.equal(captured.settlementContinuationStatus, "queued");

const charge = answered(
  200,
  await nobody.POST("/reservation-financial-lifecycles/{reservationBookingId}/regional-benefit-charge-finalizations", {
    params: { path: { reservationBookingId: "reservation-booking-1" } },
    body: {
      branchProfileId: "branch-seoul-1",
      finalizedChargeSnapshotId: "charge-snapshot-1",
      capturedOn: "2026-10-10",
      serviceType: "postpartum_care",
      serviceAddressLevel1: "서울특별시",
      serviceAddressLevel2: "중구",
      quotedOn: "2026-10-01",
      servicePriceKrw: 1_500_000,
      ownPriceKrw: 1_000_000,
      couponDiscountAmountKrw: 50_000,
      amountByComponentCode: { night_care: 30_000 },
    },
  }),
);
assert.equal(charge.motherVisiblePayableKrw, 860_000);
assert.equal(charge.caregiverPayoutKrw, 1_071_000);
assert.equal(charge.hqSettlementKrw, 153_000);
assert.equal(charge.branchSettlementKrw, 306_000);

const audit = answered(
  200,
  await headquarters.POST("/billing-engine-payment-admin-operations", {
    body: {
      operationAction: "lookup_payment",
      reason: "A customer asked.",
      idempotencyKey: "walk-21",
      expectedRevision: 0,
      paymentId: "payment-1",
    },
  }),
);
assert.equal(audit.operationStatus, "succeeded");

// Caregivers

const assigned = answered(
  201,
  await manager.POST("/care-team-assignment-decisions/assign-from-candidate-snapshot", {
    body: {
      assignmentDecisionId: "assignment-decision-1",
      rosterDecisionId: "roster-decision-1",
      reservationBookingId: "reservation-booking-1",
      targetAssignmentKey: "assignment-1",
      matchingRequestKey: "matching-request-1",
      caregiverProfileId: "caregiver-profile-1",
      role: "primary_caregiver",
      handoffOrder: 1,
      selectedCandidateSnapshotId: "candidate-snapshot-1",
      expectedCandidateSnapshotRevision: 1,
      expectedReservationRevision: 1,
      expectedRosterRevision: 0,
      scheduleProofId: "schedule-proof-1",
      reasonCode: "first_choice",
      idempotencyKey: "walk-10",
    },
  }),
);
assert.equal(assigned.assignmentDecisions[0]?.decisionKind, "assign");
assert.equal(assigned.expectedRosterRevision, 0);

const payout = {
  reservationBookingId: "reservation-booking-1",
  contractAssignmentKey: "contract-assignment-1",
  caregiverPayoutInstructionId: "payout-instruction-1",
  caregiverRole: "primary_caregiver",
  handoffOrder: 1,
  caregiverId: "caregiver-1",
  occurredAt: "2026-11-01T00:00:00Z",
};
const repaired = answered(
  200,
  await headquarters.POST("/caregiver-payout-receipt-states/repairs", {
    body: { ...payout, idempotencyKey: "walk-11", expectedRevision: 0, reason: "The receipt was lost." },
  }),
);
assert.equal(repaired.receiptState, "repaired");
assert.equal(repaired.revision, 1);

const deposited = answered(
  201,
  await manager.POST("/caregiver-payout-acknowledgements/branch-deposits", {
    body: { ...payout, idempotencyKey: "walk-12", memo: "Paid today." },
  }),
);
assert.equal(deposited.status, "acknowledged");

const receiptState = answered(
  200,
  await manager.GET(
    "/caregiver-payout-receipt-states/{reservationBookingId}/{contractAssignmentKey}/{instructionId}",
    {
      params: {
        path: {
          reservationBookingId: payout.reservationBookingId,
          contractAssignmentKey: payout.contractAssignmentKey,
          instructionId: payout.caregiverPayoutInstructionId,
        },
      },
    },
  ),
);
assert.equal(receiptState.revision, 2);

// Settlement

const statement = answered(
  201,
  await headquarters.POST("/settlement-deposit-requests", {
    body: {
      statementCode: "statement-code-1",
      statementKind: "head_office_to_branch",
      branchProfileId: "branch-seoul-1",
      settlementPeriodStart: "2026-10-01",
      settlementPeriodEnd: "2026-10-31",
      remittanceAccountSnapshot: {
        remittanceAccountSnapshotId: "remittance-1",
        bankName: "한빛은행",
        accountHolder: "Carebook",
        accountNumberDisplay: "110-***-000123",
        capturedAt: "2026-11-01T09:00:00+09:00",
        sourceReferenceKey: null,
      },
      actorKind: "headquarters_administrator",
      actorProfileId: "headquarters-profile-1",
      idempotencyKey: "walk-9",
      messageToBranch: "By Friday, please.",
      headOfficePrivateMemo: "Late twice this year.",
    },
  }),
);
assert.equal(statement.status, "awaiting_branch_deposit");

const frozen = answered(
  201,
  await manager.POST("/branch-settlement-account-statement-snapshots", {
    body: {
      snapshotId: "snapshot-1",
      settlementStatementId: statement.statementId,
      branchOfficeProfileId: "branch-seoul-1",
      settlementAccountId: "settlement-account-1",
      expectedSettlementAccountRevision: 1,
      idempotencyKey: "walk-16",
    },
  }),
);
assert.equal(frozen.settlementStatementId, statement.statementId);

const acknowledged = answered(
  200,
  await manager.POST("/settlement-branch-deposit-acknowledgements", {
    body: {
      statementId: statement.statementId,
      actorKind: "branch_manager",
      actorProfileId: "manager-profile-1",
      idempotencyKey: "walk-8",
      expectedRevision: 1,
      reason: null,
      lineAcknowledgements: [
        {
          lineAcknowledgementId: "line-acknowledgement-1",
          settlementLineKey: "line-1",
          settlementLineKind: "membership_due",
          acknowledgedByActorProfileId: "manager-profile-1",
          acknowledgedAt: "2026-11-02T10:00:00Z",
          acknowledgementNote: null,
        },
      ],
    },
  }),
);
assert.equal(acknowledged.status, "awaiting_confirmation");
assert.equal(acknowledged.headOfficePrivateMemo, null);

const statementId = statement.statementId;
const standing = answered(
  200,
  await headquarters.GET("/settlement-statements/{statementId}", { params: { path: { statementId } } }),
);
assert.equal(standing.headOfficePrivateMemo, "Late twice this year.");
assert.equal(standing.transitionAudits.length, 2);

const room = answered(
  201,
  await headquarters.POST("/settlement-data-room-export-requests", {
    body: {
      requestCode: "request-code-1",
      scope: {
        collection: "settlement_lines",
        settlementPeriodStart: "2026-10-01",
        settlementPeriodEnd: "2026-10-31",
        branchProfileId: "branch-seoul-1",
        externalRecipientCode: null,
        sourceDatasetRevision: 1,
        sourceEvidenceKeys: ["evidence-1"],
      },
      actorKind: "headquarters_administrator",
      actorProfileId: "headquarters-profile-1",
      idempotencyKey: "walk-5",
    },
  }),
);
assert.equal(room.status, "open");

const ready = answered(
  200,
  await workflow.POST("/settlement-data-room-requests/{settlementDataRoomRequestId}/ready-artifacts", {
    params: { path: { settlementDataRoomRequestId: room.requestId } },
    body: {
      artifact: {
        artifactId: "artifact-1",
        artifactKind: "ledger",
        storageBucket: "exports",
        storageObjectKey: "2026/10/ledger.csv",
        exportFormat: "csv",
        fileName: "ledger.csv",
        byteSize: 1024,
        contentSha256: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        generatedAt: "2026-11-01T00:00:00Z",
        sourceDatasetRevision: 1,
      },
      actorKind: "system_workflow",
      actorProfileId: "workflow-1",
      idempotencyKey: "walk-6",
      expectedRevision: 1,
    },
  }),
);
assert.equal(ready.status, "ready");
assert.equal(ready.artifacts[0]?.fileName, "ledger.csv");

// Branches

const branch = answered(
  201,
  await headquarters.POST("/admin/branches", {
    params: { header: { "Idempotency-Key": "walk-3" } },
    body: {
      commandId: "command-1",
      branchCode: "BUSAN-1",
      expectedOrganizationRevision: 1,
      legalName: "부산산후케어 주식회사",
      displayName: "부산 1지점",
      businessIdentity: { jurisdiction: "KR", registrationNumber: "124-81-00998" },
      contact: { email: "busan-1@example.com", phoneNumber: "+82511234567" },
      address: { postalCode: "48058", roadAddress: "부산광역시 해운대구 센텀중앙로 79", detailAddress: "3층" },
      managerInvitation: { email: "manager-1@example.com", displayName: "이바다" },
      initialLifecycleStatus: "active",
      initialMembershipFeePolicy: {
        policyVersion: "2026-01",
        monthlyFeeAmount: 150_000,
        currencyCode: "KRW",
        effectiveFrom: "2026-01-01",
      },
      reason: "A branch for the south.",
    },
  }),
);
assert.equal(branch.outcomeStatus, "completed");

const joined = answered(
  201,
  await manager.POST("/branch/manager-invitations/accept", {
    params: { header: { "Idempotency-Key": "walk-14" } },
    body: { expectedOnboardingRevision: 1 },
  }),
);
assert.equal(joined.branchId, branch.branchId);
assert.equal(joined.authorizationRelationshipStatus, "queued");

const { branchId } = branch;
const known = answered(200, await headquarters.GET("/admin/branches/{branchId}", { params: { path: { branchId } } }));
assert.equal(known.revision, 2);

const renamed = answered(
  200,
  await headquarters.POST("/branch-office-profile-updates", {
    body: {
      commandId: "command-1",
      revisionId: "revision-1",
      branchOfficeProfileId: "branch-seoul-1",
      expectedRevision: 1,
      displayName: "서울 본점",
      legalName: "서울산후케어 주식회사",
      contactEmail: "seoul-1@example.com",
      primaryPhoneNumber: "+82212345678",
      addressLine: "서울특별시 중구 세종대로 110",
      businessRegistrationReference: "business-registration-1",
      reason: "A new name.",
    },
  }),
);
assert.equal(renamed.revisionNumber, 2);

// Beside the walk: what is sent again, a fact, a list, and what was told of all this

const again = await mother.PATCH("/mother/profile", {
  params: { header: { "Idempotency-Key": "walk-7" } },
  body: {
    expectedProfileRevision: 1,
    expectedAddressRevision: 1,
    fullName: "김하늘",
    birthDate: "1992-03-14",
    address: { postalCode: "06236", roadAddress: "서울특별시 강남구 테헤란로 1", detailAddress: "2층" },
    consentAcceptances: [{ policyKey: "privacy", versionLabel: "2025-01" }],
  },
});
assert.deepEqual(answered(200, again), { ...profile, idempotentReplay: true });
assert.equal(again.response.headers.get("idempotent-replayed"), "true");

const consent: Schemas["ConsentVersionFactToPut"] = {
  kind: "consent-version",
  id: "marketing@client-1",
  revision: 1,
  facts: { publishedAt: "2026-01-01T00:00:00Z", required: false, current: false },
};
const taken = answered(200, await workflow.POST("/reference-facts", { body: { facts: [consent] } }));
assert.equal(taken.applied, 1);
const unfit = answered(
  200,
  await workflow.POST("/reference-facts", {
    body: {
      facts: [
        { ...consent, revision: 2 },
        { kind: "actor", id: "somebody", revision: 1, facts: { lifecycle: "active" } },
        // @ts-expect-error: an actor's lifecycle has no such word
        { kind: "actor", id: "somebody", revision: 2, facts: { lifecycle: "asleep" } },
        // @ts-expect-error: these are the facts of another kind
        { kind: "consent-version", id: "marketing@walk-2", revision: 1, facts: { lifecycle: "active" } },
        // @ts-expect-error: there is no such kind
        { kind: "weather", id: "today", revision: 1, facts: {} },
      ],
    },
  }),
);
assert.deepEqual([unfit.applied, unfit.invalid], [2, 3]);
const fact = answered(
  200,
  await workflow.GET("/reference-facts/{kind}/{id}", { params: { path: { kind: consent.kind, id: consent.id } } }),
);
assert(fact.kind === "consent-version");
assert.equal(fact.facts.publishedAt, "2026-01-01T00:00:00.000Z");

const statements = answered(
  200,
  await headquarters.GET("/settlement-statements", { params: { query: { limit: 1, order: "newest" } } }),
);
assert.equal(statements.items[0]?.statementId, statementId);

const events = answered(
  200,
  await headquarters.GET("/events", {
    params: { query: { type: ["carebook.settlement-statement.*"], subject: `settlement-statements/${statementId}` } },
  }),
);
assert(typeof events !== "string" && events.end);
const [first] = events.events;
assert(first?.type === "carebook.settlement-statement.deposit-requested");
assert.equal(first.data.statementCode, statement.statementCode);

console.log([...succeeded].sort().join("\n"));
