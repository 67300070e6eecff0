//! The members of each answer, as the contract lists them.

use crate::check::Expected;

const DELEGATION: &[&str] = &[
    "paymentDelegationId",
    "payerMemberId",
    "motherMemberId",
    "scopes",
    "grantedByMemberId",
    "grantedAt",
    "expiresAt",
    "maximumAuthorizedAmountKrw",
    "reservationBookingId",
    "revokedAt",
    "delegationRevision",
    "authorityEvidence",
    "revokedByMemberId",
    "revocationReasonCode",
];

const BRANCH: &[&str] = &[
    "commandId",
    "actorId",
    "reason",
    "commandFingerprint",
    "branchId",
    "branchCode",
    "revision",
    "organizationRevision",
    "lifecycleStatus",
    "operatorIdentity",
    "managerMembership",
    "managerInvitation",
    "managerInvitationStatus",
    "authorizationRelationship",
    "authorizationRelationshipStatus",
    "authorizationRelationships",
    "membershipFeePolicy",
    "membershipFeePolicyStatus",
    "sideEffects",
    "auditEventId",
    "outcomeStatus",
    "idempotentReplay",
    "repair",
    "allowedNextActions",
];

const CARE_HISTORY_GRANT: &[&str] = &[
    "reservationCareHistoryAccessGrantId",
    "granteeMemberId",
    "motherMemberId",
    "reservationBookingId",
    "scopes",
    "grantedByMemberId",
    "grantedAt",
    "expiresAt",
    "revokedAt",
    "revision",
    "authorityEvidence",
    "revokedByMemberId",
    "revocationReasonCode",
];

const DATA_ROOM: &[&str] = &[
    "requestId",
    "requestCode",
    "scope",
    "status",
    "revision",
    "requestedByActorProfileId",
    "createdAt",
    "updatedAt",
    "artifacts",
    "actionJournal",
];

const MOTHER_PROFILE: &[&str] = &[
    "motherAccountId",
    "motherProfileId",
    "accountLifecycle",
    "profileCompleteness",
    "profileRevision",
    "addressRevision",
    "fullName",
    "birthDate",
    "email",
    "primaryPhoneNumber",
    "address",
    "verifiedContacts",
    "consentReceipts",
    "ownershipRelationship",
    "allowedNextActions",
    "createdAt",
    "updatedAt",
    "idempotentReplay",
];

const STATEMENT: &[&str] = &[
    "statementId",
    "statementCode",
    "statementKind",
    "branchProfileId",
    "settlementPeriodStart",
    "settlementPeriodEnd",
    "status",
    "revision",
    "remittanceAccountSnapshot",
    "requestedByActorProfileId",
    "createdAt",
    "updatedAt",
    "messageToBranch",
    "headOfficePrivateMemo",
    "transitionAudits",
    "lineAcknowledgements",
    "manualRows",
];

const ASSIGNMENT: &[&str] = &[
    "rosterDecisionId",
    "reservationBookingId",
    "expectedRosterRevision",
    "evidenceKey",
    "assignmentDecisions",
    "status",
];

const RECEIPT_STATE: &[&str] = &[
    "reservationBookingId",
    "contractAssignmentKey",
    "caregiverPayoutInstructionId",
    "receiptState",
    "revision",
    "status",
    "reason",
    "actorProfileId",
    "occurredAt",
];

const PAYOUT_ACKNOWLEDGEMENT: &[&str] = &[
    "reservationBookingId",
    "contractAssignmentKey",
    "caregiverPayoutInstructionId",
    "acknowledgementKind",
    "status",
];

const LIFECYCLE: &[&str] = &[
    "reservationBookingId",
    "financialStage",
    "motherVisiblePayableKrw",
    "caregiverPayoutKrw",
    "branchSettlementKrw",
    "hqSettlementKrw",
    "careDeliverySessionCode",
    "deliveredDayCount",
    "ledgerLineCount",
];

const ACTIVATION: &[&str] = &[
    "activationId",
    "invitationId",
    "memberProfileId",
    "branchMembershipId",
    "branchId",
    "acceptedOnboardingRevision",
    "relationshipOutboxMessageId",
    "authorizationRelationshipStatus",
    "acceptedAt",
    "idempotentReplay",
];

const ADJUSTMENT: &[&str] = &[
    "paymentChangeAdjustmentId",
    "reservationBookingId",
    "motherUserId",
    "customerDeltaKrw",
    "couponAdjustmentKrw",
    "pureCustomerAmountKrw",
    "motherPayableAdjustmentKrw",
    "adjustmentStatus",
    "preRegistration",
    "paymentReceipt",
    "settlementContinuationStatus",
    "settlementContinuationWorkflowRequestId",
    "settlementContinuationReason",
    "settlementContinuationRecordedAt",
    "requestedAt",
    "completedAt",
    "updatedAt",
];

const ACCOUNT_SNAPSHOT: &[&str] = &[
    "snapshotId",
    "settlementStatementId",
    "branchOfficeProfileId",
    "branchOfficeProfileRevision",
    "settlementAccountId",
    "settlementAccountRevision",
    "purpose",
    "bankName",
    "accountHolder",
    "maskedAccountReference",
    "verificationState",
    "effectiveFrom",
    "effectiveUntil",
    "snapshotForStatementAt",
    "snapshotForStatementByActorId",
    "idempotencyKey",
];

const CASH_RECEIPT: &[&str] = &[
    "decisionState",
    "merchantOfRecord",
    "collectionChannel",
    "receiptIssuer",
    "acceptedPurpose",
    "denialReasonCode",
    "providerIssueAllowed",
];

const CREATION: &[&str] = &[
    "customerReservationCreationCommandId",
    "draftId",
    "acceptedDraftRevision",
    "acceptedReviewProjectionId",
    "acceptedReviewRevision",
    "reservationBookingRequestId",
    "reservationBookingId",
    "creationOutcome",
    "reviewedFactFingerprint",
    "contractAcceptanceId",
    "reservationCreationPaymentHandoff",
    "idempotentReplay",
];

const PROFILE_REVISION: &[&str] = &[
    "revisionId",
    "branchOfficeProfileId",
    "revisionNumber",
    "factGroup",
    "actorId",
    "reason",
    "effectiveAt",
];

const PRE_REGISTRATION: &[&str] = &[
    "reservationBookingId",
    "paymentId",
    "paymentMethod",
    "paymentPurpose",
    "amountKrw",
    "paymentProductPlanCode",
    "providerFeeSnapshot",
    "paymentActorSnapshot",
    "cashReceiptEligibilitySnapshot",
    "preRegistrationStatus",
    "gatewayCode",
    "gatewayMessage",
];

const ADMIN_AUDIT: &[&str] = &[
    "billingAdminOperationAuditId",
    "operationAction",
    "operationStatus",
    "actorUserId",
    "reason",
    "idempotencyKey",
    "expectedRevision",
    "commandFingerprint",
    "providerEvidenceFingerprint",
    "recordedAt",
    "reservationBookingId",
    "paymentId",
    "searchKey",
    "amountKrw",
    "providerStatusCode",
    "providerResultCode",
    "providerMessage",
    "replayedFromAuditId",
];

const PROBLEM: &[&str] = &[
    "status",
    "code",
    "message",
    "fieldErrors",
    "conflictingFieldPaths",
    "retryable",
];

/// The answers to first executions, by operation.
static ANSWERS: [(&str, Expected); 21] = [
    ("authorize_payment", Expected::new(200, DELEGATION)),
    ("grant_payment_authority", Expected::new(201, DELEGATION)),
    ("create_branch", Expected::new(201, BRANCH)),
    (
        "grant_care_history_access",
        Expected::new(201, CARE_HISTORY_GRANT),
    ),
    ("open_data_room_request", Expected::new(201, DATA_ROOM)),
    ("mark_artifact_ready", Expected::new(200, DATA_ROOM)),
    ("update_mother_profile", Expected::new(201, MOTHER_PROFILE)),
    ("acknowledge_deposit", Expected::new(200, STATEMENT)),
    ("request_deposit", Expected::new(201, STATEMENT)),
    ("assign_caregiver", Expected::new(201, ASSIGNMENT)),
    ("repair_payout_receipt", Expected::new(200, RECEIPT_STATE)),
    (
        "acknowledge_payout_deposit",
        Expected::new(201, PAYOUT_ACKNOWLEDGEMENT),
    ),
    ("finalize_charge", Expected::new(200, LIFECYCLE)),
    ("accept_manager_invitation", Expected::new(201, ACTIVATION)),
    ("capture_adjustment_payment", Expected::new(200, ADJUSTMENT)),
    (
        "snapshot_settlement_account",
        Expected::new(201, ACCOUNT_SNAPSHOT),
    ),
    (
        "decide_cash_receipt_eligibility",
        Expected::new(200, CASH_RECEIPT),
    ),
    ("confirm_reservation_draft", Expected::new(201, CREATION)),
    (
        "update_branch_office_profile",
        Expected::new(200, PROFILE_REVISION),
    ),
    (
        "pre_register_payment",
        Expected::new(200, PRE_REGISTRATION).with("\"pre_registered\""),
    ),
    (
        "administer_gateway",
        Expected::new(200, ADMIN_AUDIT).with("\"succeeded\""),
    ),
];

/// The answer to the first execution of an operation.
pub(crate) fn answer(operation: &str) -> &'static Expected {
    let found = ANSWERS.iter().find(|(name, _)| *name == operation);
    &found.expect("every operation has a row").1
}

/// A statement as it is read.
pub(crate) static READ_STATEMENT: Expected = Expected::new(200, STATEMENT);
/// A mother's profile as she reads it; a read is no replay, so it says nothing of one.
pub(crate) static READ_ANYTHING: Expected = Expected::new(200, &[]);
/// The refusal of one who may not read.
pub(crate) static FORBIDDEN: Expected = Expected::new(403, PROBLEM);
/// The refusal of a stale revision.
pub(crate) static STALE: Expected = Expected::new(409, PROBLEM).with("\"code\":\"revision_stale\"");
/// The outcome of a batch of one fact that was new.
pub(crate) static FACT_APPLIED: Expected = Expected::new(200, &[]).with("\"applied\":1");
/// What a bare server answers: it only has to be as long.
pub(crate) static BARE_DEPOSIT: Expected = Expected::new(201, &[]);
pub(crate) static BARE_CHARGE: Expected = Expected::new(200, &[]);
/// What the peers answer to a command on a resource of theirs.
pub(crate) static ADVANCED: Expected = Expected::new(
    200,
    &[
        "resource",
        "revision",
        "status",
        "updatedAt",
        "command",
        "transitionAudits",
    ],
);
/// A statement that a peer has opened.
pub(crate) static OPENED_BY_PEER: Expected = Expected::new(201, STATEMENT);
