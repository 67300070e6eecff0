//! The lists.

use std::sync::LazyLock;

use super::reads::READS;
use super::row::{ListRow, ReadRow};
use crate::domain::branch::account_snapshot::AccountSnapshot;
use crate::domain::branch::office_profile::BranchOfficeProfile;
use crate::domain::branch::state::Branch;
use crate::domain::family::care_history_authority::CareHistoryGrant;
use crate::domain::family::payment_authority::PaymentDelegation;
use crate::domain::payment::admin_audit::AdminAudit;
use crate::domain::payment::obligation::Obligation;
use crate::domain::payout::state::PayoutReceipt;
use crate::domain::registered::Registered;
use crate::domain::reservation::adjustment::PaymentChangeAdjustment;
use crate::domain::reservation::lifecycle::FinancialLifecycle;
use crate::domain::reservation::roster::CareTeamRoster;
use crate::domain::settlement::data_room::DataRoomRequest;
use crate::domain::settlement::statement::Statement;
use crate::domain::{branch, family, payment, payout, reservation, settlement};

/// The lists. Each shows items of the form that one read gives. A new list is a row here, a new
/// filter a line beside the state.
pub static LISTS: LazyLock<Vec<ListRow>> = LazyLock::new(|| {
    let list = |name, path, read, resource, scope| ListRow {
        name,
        path,
        resource,
        read: read_named(read),
        scope,
    };
    vec![
        list(
            "list_payment_delegations",
            "/family-payment-delegations",
            "read_payment_delegation",
            &Registered::<PaymentDelegation>::NEW,
            family::read_payment_delegation::scope,
        ),
        list(
            "list_care_history_grants",
            "/reservation-care-history-access-grants",
            "read_care_history_grant",
            &Registered::<CareHistoryGrant>::NEW,
            family::read_care_history_grant::scope,
        ),
        list(
            "list_statements",
            "/settlement-statements",
            "read_statement",
            &Registered::<Statement>::NEW,
            settlement::read_statement::scope,
        ),
        list(
            "list_data_room_requests",
            "/settlement-data-room-requests",
            "read_data_room_request",
            &Registered::<DataRoomRequest>::NEW,
            settlement::read_data_room::scope,
        ),
        list(
            "list_care_team_rosters",
            "/care-team-rosters",
            "read_care_team_roster",
            &Registered::<CareTeamRoster>::NEW,
            reservation::read_roster::scope,
        ),
        list(
            "list_branches",
            "/admin/branches",
            "read_branch",
            &Registered::<Branch>::NEW,
            branch::read_branch::scope,
        ),
        list(
            "list_branch_office_profiles",
            "/branch-office-profiles",
            "read_branch_office_profile",
            &Registered::<BranchOfficeProfile>::NEW,
            branch::read_office_profile::scope,
        ),
        list(
            "list_account_snapshots",
            "/branch-settlement-account-statement-snapshots",
            "read_account_snapshot",
            &Registered::<AccountSnapshot>::NEW,
            branch::read_account_snapshot::scope,
        ),
        list(
            "list_pre_registrations",
            "/reservation-payment-pre-registrations",
            "read_pre_registration",
            &Registered::<Obligation>::NEW,
            payment::read_pre_registration::scope,
        ),
        list(
            "list_admin_audits",
            "/billing-engine-payment-admin-operations",
            "read_admin_audit",
            &Registered::<AdminAudit>::NEW,
            payment::read_admin_audit::scope,
        ),
        list(
            "list_payout_receipt_states",
            "/caregiver-payout-receipt-states",
            "read_payout_receipt_state",
            &Registered::<PayoutReceipt>::NEW,
            payout::read_receipt_state::scope,
        ),
        list(
            "list_financial_lifecycles",
            "/reservation-financial-lifecycles",
            "read_financial_lifecycle",
            &Registered::<FinancialLifecycle>::NEW,
            reservation::read_lifecycle::scope,
        ),
        list(
            "list_payment_change_adjustments",
            "/reservation-payment-change-adjustments",
            "read_payment_change_adjustment",
            &Registered::<PaymentChangeAdjustment>::NEW,
            reservation::read_adjustment::scope,
        ),
    ]
});

/// Returns the read of this name.
fn read_named(name: &str) -> &'static ReadRow {
    let found = READS.iter().find(|row| row.name == name);
    found.expect("a list is of what a read gives")
}
