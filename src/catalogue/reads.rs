//! The reads.

use super::row::{ProblemShape, ReadRow};
use crate::domain::fact_kinds::{AnyFact, FACTS};
use crate::domain::reference;
use crate::domain::{
    branch, family, mother, outbox, payment, payout, reservation, settlement, webhook,
};

/// The reads of what the service is managed by.
pub static MANAGEMENT_READS: &[ReadRow] = &[
    ReadRow::new::<webhook::body::SubscriptionBody<'static>>(
        "read_webhook_subscription",
        "/webhook-subscriptions/{subscriptionId}",
        webhook::read_subscription::read_subscription,
    )
    .permitted(),
    ReadRow::new::<outbox::list::MessageBody<'static>>(
        "read_outbox_message",
        "/outbox/{number}",
        outbox::list::read_message,
    )
    .permitted(),
];

/// The reads.
pub static READS: &[ReadRow] = &[
    ReadRow::new::<family::payment_authority::PaymentDelegationBody<'static>>(
        "read_payment_delegation",
        "/family-payment-delegations/{id}",
        family::read_payment_delegation::read_payment_delegation,
    ),
    ReadRow::new::<family::care_history_authority::CareHistoryGrantBody<'static>>(
        "read_care_history_grant",
        "/reservation-care-history-access-grants/{id}",
        family::read_care_history_grant::read_care_history_grant,
    ),
    ReadRow::new::<mother::state::ProfileBody<'static>>(
        "read_mother_profile",
        "/mother/profile",
        mother::read_profile::read_profile,
    )
    .problems(ProblemShape::Profile),
    ReadRow::new::<settlement::body::StatementBody<'static>>(
        "read_statement",
        "/settlement-statements/{statementId}",
        settlement::read_statement::read_statement,
    ),
    ReadRow::new::<settlement::data_room::DataRoomBody<'static>>(
        "read_data_room_request",
        "/settlement-data-room-requests/{requestId}",
        settlement::read_data_room::read_data_room,
    ),
    ReadRow::new::<reservation::roster_body::AssignmentResultBody<'static>>(
        "read_care_team_roster",
        "/care-team-rosters/{reservationBookingId}",
        reservation::read_roster::read_roster,
    ),
    ReadRow::new::<AnyFact>("read_fact", "/reference-facts/{kind}/{id}", |request| {
        reference::read_fact::read_fact(request, FACTS)
    })
    .permitted(),
    ReadRow::new::<branch::read_organization::OrganizationBody>(
        "read_organization",
        "/organization",
        branch::read_organization::read_organization,
    )
    .permitted()
    .always(),
    ReadRow::new::<branch::body::BranchBody<'static>>(
        "read_branch",
        "/admin/branches/{branchId}",
        branch::read_branch::read_branch,
    ),
    ReadRow::new::<branch::office_profile::ProfileRevisionBody<'static>>(
        "read_branch_office_profile",
        "/branch-office-profiles/{id}",
        branch::read_office_profile::read_office_profile,
    ),
    ReadRow::new::<branch::account_snapshot::SnapshotBody<'static>>(
        "read_account_snapshot",
        "/branch-settlement-account-statement-snapshots/{snapshotId}",
        branch::read_account_snapshot::read_account_snapshot,
    ),
    ReadRow::new::<payment::obligation::PreRegistrationBody<'static>>(
        "read_pre_registration",
        "/reservation-payment-pre-registrations/{paymentId}",
        payment::read_pre_registration::read_pre_registration,
    ),
    ReadRow::new::<payment::admin_audit::AdminAuditBody<'static>>(
        "read_admin_audit",
        "/billing-engine-payment-admin-operations/{auditId}",
        payment::read_admin_audit::read_admin_audit,
    ),
    ReadRow::new::<payout::state::PayoutReceiptBody<'static>>(
        "read_payout_receipt_state",
        "/caregiver-payout-receipt-states/{reservationBookingId}/{contractAssignmentKey}/{instructionId}",
        payout::read_receipt_state::read_receipt_state,
    ),
    ReadRow::new::<reservation::lifecycle::FinancialLifecycleBody<'static>>(
        "read_financial_lifecycle",
        "/reservation-financial-lifecycles/{reservationBookingId}",
        reservation::read_lifecycle::read_lifecycle,
    ),
    ReadRow::new::<reservation::adjustment::PaymentChangeAdjustmentBody<'static>>(
        "read_payment_change_adjustment",
        "/reservation-payment-change-adjustments/{reservationBookingId}",
        reservation::read_adjustment::read_adjustment,
    ),
];
