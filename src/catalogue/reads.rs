//! The reads.

use super::row::{ProblemShape, ReadRow};
use crate::domain::branch::account_snapshot::AccountSnapshot;
use crate::domain::branch::office_profile::BranchOfficeProfile;
use crate::domain::branch::state::Branch;
use crate::domain::fact_kinds::{AnyFact, FACTS};
use crate::domain::family::care_history_authority::CareHistoryGrant;
use crate::domain::family::payment_authority::PaymentDelegation;
use crate::domain::payment::admin_audit::AdminAudit;
use crate::domain::payment::obligation::Obligation;
use crate::domain::payout::state::PayoutReceipt;
use crate::domain::reference;
use crate::domain::reservation::lifecycle::FinancialLifecycle;
use crate::domain::reservation::roster::CareTeamRoster;
use crate::domain::settlement::data_room::DataRoomRequest;
use crate::domain::settlement::statement::Statement;
use crate::domain::{
    branch, family, mother, outbox, payment, payout, reservation, settlement, webhook,
};

/// The reads of the resources by which the service is managed.
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
    ReadRow::of::<PaymentDelegation, family::payment_authority::PaymentDelegationBody<'static>>(
        "read_payment_delegation",
        "/family-payment-delegations/{id}",
        family::read_payment_delegation::read_payment_delegation,
    ),
    ReadRow::of::<CareHistoryGrant, family::care_history_authority::CareHistoryGrantBody<'static>>(
        "read_care_history_grant",
        "/reservation-care-history-access-grants/{id}",
        family::read_care_history_grant::read_care_history_grant,
    ),
    ReadRow {
        problem: ProblemShape::Profile,
        ..ReadRow::new::<mother::state::ProfileBody<'static>>(
            "read_mother_profile",
            "/mother/profile",
            mother::read_profile::read_profile,
        )
        .with(mother::read_profile::HISTORY)
    },
    ReadRow::of::<Statement, settlement::body::StatementBody<'static>>(
        "read_statement",
        "/settlement-statements/{statementId}",
        settlement::read_statement::read_statement,
    ),
    ReadRow::of::<DataRoomRequest, settlement::data_room::DataRoomBody<'static>>(
        "read_data_room_request",
        "/settlement-data-room-requests/{requestId}",
        settlement::read_data_room::read_data_room,
    ),
    ReadRow::of::<CareTeamRoster, reservation::roster_body::AssignmentResultBody<'static>>(
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
    ReadRow::of::<Branch, branch::body::BranchBody<'static>>(
        "read_branch",
        "/admin/branches/{branchId}",
        branch::read_branch::read_branch,
    ),
    ReadRow::of::<BranchOfficeProfile, branch::office_profile::ProfileRevisionBody<'static>>(
        "read_branch_office_profile",
        "/branch-office-profiles/{id}",
        branch::read_office_profile::read_office_profile,
    ),
    ReadRow::of_commits::<AccountSnapshot, branch::account_snapshot::SnapshotBody<'static>>(
        "read_account_snapshot",
        "/branch-settlement-account-statement-snapshots/{snapshotId}",
        branch::read_account_snapshot::read_account_snapshot,
    ),
    ReadRow::of_commits::<Obligation, payment::obligation::PreRegistrationBody<'static>>(
        "read_pre_registration",
        "/reservation-payment-pre-registrations/{paymentId}",
        payment::read_pre_registration::read_pre_registration,
    ),
    ReadRow::of_commits::<AdminAudit, payment::admin_audit::AdminAuditBody<'static>>(
        "read_admin_audit",
        "/billing-engine-payment-admin-operations/{auditId}",
        payment::read_admin_audit::read_admin_audit,
    ),
    ReadRow::of::<PayoutReceipt, payout::state::PayoutReceiptBody<'static>>(
        "read_payout_receipt_state",
        "/caregiver-payout-receipt-states/{reservationBookingId}/{contractAssignmentKey}/{instructionId}",
        payout::read_receipt_state::read_receipt_state,
    ),
    ReadRow::of_commits::<
        FinancialLifecycle,
        reservation::lifecycle::FinancialLifecycleBody<'static>,
    >(
        "read_financial_lifecycle",
        "/reservation-financial-lifecycles/{reservationBookingId}",
        reservation::read_lifecycle::read_lifecycle,
    ),
    ReadRow::new::<reservation::adjustment::PaymentChangeAdjustmentBody<'static>>(
        "read_payment_change_adjustment",
        "/reservation-payment-change-adjustments/{reservationBookingId}",
        reservation::read_adjustment::read_adjustment,
    )
    .with(reservation::read_adjustment::HISTORY),
    ReadRow::new::<reservation::read_ledger::ChargeLedgerBody<'static>>(
        "read_charge_ledger",
        "/reservation-financial-lifecycles/{reservationBookingId}/ledger",
        reservation::read_ledger::read_ledger,
    ),
];
