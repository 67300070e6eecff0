//! The one table of operations, of reads, of lists and of kinds of resources. Router, log, documents
//! and tests all read it; no other module lists them. The kinds of facts are listed in
//! [`fact_kinds`](crate::domain::fact_kinds).

mod lists;
mod reads;
mod row;

use std::sync::LazyLock;

use crate::domain::branch::account_snapshot::AccountSnapshot;
use crate::domain::branch::deliveries::BranchDeliveries;
use crate::domain::branch::office_profile::{BranchOfficeProfile, ProfileRevision};
use crate::domain::branch::organization::Organization;
use crate::domain::branch::state::Branch;
use crate::domain::erased::Erased;
use crate::domain::family::care_history_authority::{CareHistoryAuthority, CareHistoryGrant};
use crate::domain::family::payment_authority::{PaymentAuthority, PaymentDelegation};
use crate::domain::mother::state::MotherProfile;
use crate::domain::outbox::message::Message;
use crate::domain::payment::admin_audit::AdminAudit;
use crate::domain::payment::gateway_subject::{PaymentSubject, SearchSubject};
use crate::domain::payment::obligation::Obligation;
use crate::domain::payout::state::PayoutReceipt;
use crate::domain::publication::Publication;
use crate::domain::reference::Fact;
use crate::domain::reference::kinds::{
    actor, candidate_snapshot, consent_version, extension_eligibility, family_account,
    final_review_projection, payment_product_plan, payout_instruction, regional_benefit_policy,
    relationship, reservation_booking, reservation_financial_facts, settlement_account,
};
use crate::domain::registered::{AnyResource, Registered};
use crate::domain::reservation::adjustment::PaymentChangeAdjustment;
use crate::domain::reservation::draft::ReservationDraft;
use crate::domain::reservation::lifecycle::FinancialLifecycle;
use crate::domain::reservation::roster::{
    AssignmentDecision, AssignmentSlot, CareTeamRoster, RosterDecision,
};
use crate::domain::settlement::data_room::DataRoomRequest;
use crate::domain::settlement::statement::Statement;
use crate::domain::webhook::deliveries::WebhookDeliveries;
use crate::domain::webhook::subscription::WebhookSubscription;
use crate::domain::{
    branch, family, mother, outbox, payment, payout, reservation, settlement, webhook,
};

pub use self::lists::LISTS;
pub use self::reads::{MANAGEMENT_READS, READS};
pub use self::row::{
    BodySource, Invalid, KeySource, ListRow, Method, ProblemShape, Purpose, ReadRow, Row, SchemaOf,
    Success,
};

/// The operations, by their numbers.
pub static OPERATIONS: &[Row] = &[
    Row::new(
        1,
        "authorize_payment",
        "/family-reservation-payment-authorizations",
        &Erased::<family::authorize_payment::AuthorizePayment>::NEW,
    ),
    Row::new(
        2,
        "grant_payment_authority",
        "/family-payment-delegations",
        &Erased::<family::grant_payment_authority::GrantPaymentAuthority>::NEW,
    )
    .keyed(KeySource::Header)
    .succeeds_with(Success::Created),
    Row::new(
        3,
        "create_branch",
        "/admin/branches",
        &Erased::<branch::create_branch::CreateBranch>::NEW,
    )
    .keyed(KeySource::Header)
    .succeeds_with(Success::CreatedOnce)
    .unprocessable()
    .awaits_receivers(),
    Row::new(
        4,
        "grant_care_history_access",
        "/family-accounts/{familyAccountId}/reservation-care-history-access-grants",
        &Erased::<family::grant_care_history_access::GrantCareHistoryAccess>::NEW,
    )
    .keyed(KeySource::Header)
    .succeeds_with(Success::Created),
    Row::new(
        5,
        "open_data_room_request",
        "/settlement-data-room-export-requests",
        &Erased::<settlement::open_data_room_request::OpenDataRoomRequest>::NEW,
    )
    .keyed(KeySource::Body)
    .succeeds_with(Success::Created),
    Row::new(
        6,
        "mark_artifact_ready",
        "/settlement-data-room-requests/{settlementDataRoomRequestId}/ready-artifacts",
        &Erased::<settlement::mark_artifact_ready::MarkArtifactReady>::NEW,
    )
    .keyed(KeySource::Body),
    Row::new(
        7,
        "update_mother_profile",
        "/mother/profile",
        &Erased::<mother::update_mother_profile::UpdateMotherProfile>::NEW,
    )
    .patch()
    .keyed(KeySource::Header)
    .succeeds_with(Success::CreatedOnce)
    .unprocessable()
    .problems(ProblemShape::Profile),
    Row::new(
        8,
        "acknowledge_deposit",
        "/settlement-branch-deposit-acknowledgements",
        &Erased::<settlement::acknowledge_deposit::AcknowledgeDeposit>::NEW,
    )
    .keyed(KeySource::Body),
    Row::new(
        9,
        "request_deposit",
        "/settlement-deposit-requests",
        &Erased::<settlement::request_deposit::RequestDeposit>::NEW,
    )
    .keyed(KeySource::Body)
    .succeeds_with(Success::Created),
    Row::new(
        10,
        "assign_caregiver",
        "/care-team-assignment-decisions/assign-from-candidate-snapshot",
        &Erased::<reservation::assign_caregiver::AssignCaregiver>::NEW,
    )
    .keyed(KeySource::Body)
    .succeeds_with(Success::Created),
    Row::new(
        11,
        "repair_payout_receipt",
        "/caregiver-payout-receipt-states/repairs",
        &Erased::<payout::repair_payout_receipt::RepairPayoutReceipt>::NEW,
    )
    .keyed(KeySource::Body),
    Row::new(
        12,
        "acknowledge_payout_deposit",
        "/caregiver-payout-acknowledgements/branch-deposits",
        &Erased::<payout::acknowledge_payout_deposit::AcknowledgePayoutDeposit>::NEW,
    )
    .keyed(KeySource::Body)
    .succeeds_with(Success::Created),
    Row::new(
        13,
        "finalize_charge",
        "/reservation-financial-lifecycles/{reservationBookingId}/regional-benefit-charge-finalizations",
        &Erased::<reservation::finalize_charge::FinalizeCharge>::NEW,
    )
    .without_token()
    .keyed(KeySource::BodyOfAll {
        reused: "charge_snapshot_reused",
    })
    .unprocessable(),
    Row::new(
        14,
        "accept_manager_invitation",
        "/branch/manager-invitations/accept",
        &Erased::<branch::accept_manager_invitation::AcceptManagerInvitation>::NEW,
    )
    .keyed(KeySource::Header)
    .succeeds_with(Success::CreatedOnce)
    .unprocessable()
    .problems(ProblemShape::Invitation),
    Row::new(
        15,
        "capture_adjustment_payment",
        "/reservation-payment-change-adjustments/{reservationBookingId}/mother-payments",
        &Erased::<reservation::capture_adjustment_payment::CaptureAdjustmentPayment>::NEW,
    )
    .keyed(KeySource::Body),
    Row::new(
        16,
        "snapshot_settlement_account",
        "/branch-settlement-account-statement-snapshots",
        &Erased::<branch::snapshot_settlement_account::SnapshotSettlementAccount>::NEW,
    )
    .keyed(KeySource::Body)
    .succeeds_with(Success::Created),
    Row::new(
        17,
        "decide_cash_receipt_eligibility",
        "/payment-product-plans/{planCode}/cash-receipt-eligibility-decisions",
        &Erased::<payment::decide_cash_receipt_eligibility::DecideCashReceiptEligibility>::NEW,
    ),
    Row::new(
        18,
        "confirm_reservation_draft",
        "/customer-reservation-drafts/{draftId}/confirm",
        &Erased::<reservation::confirm_reservation_draft::ConfirmReservationDraft>::NEW,
    )
    .keyed(KeySource::Header)
    .succeeds_with(Success::Created),
    Row::new(
        19,
        "update_branch_office_profile",
        "/branch-office-profile-updates",
        &Erased::<branch::update_branch_office_profile::UpdateBranchOfficeProfile>::NEW,
    )
    .keyed(KeySource::Body),
    Row::new(
        20,
        "pre_register_payment",
        "/reservation-payment-pre-registrations",
        &Erased::<payment::pre_register_payment::PreRegisterPayment>::NEW,
    )
    .keyed(KeySource::Header),
    Row::new(
        21,
        "administer_gateway",
        "/billing-engine-payment-admin-operations",
        &payment::administer_gateway::AdministerGateway,
    )
    .keyed(KeySource::Body),
];

/// The operations that manage the service itself, by their numbers, which follow those of all
/// others.
pub static MANAGEMENT: &[Row] = &[
    Row::new(
        101,
        "create_webhook_subscription",
        "/webhook-subscriptions",
        &Erased::<webhook::create_webhook_subscription::CreateWebhookSubscription>::NEW,
    )
    .of_webhooks()
    .keyed(KeySource::Header)
    .succeeds_with(Success::Created),
    Row::new(
        102,
        "update_webhook_subscription",
        "/webhook-subscriptions/{subscriptionId}",
        &Erased::<webhook::update_webhook_subscription::UpdateWebhookSubscription>::NEW,
    )
    .of_webhooks()
    .patch()
    .keyed(KeySource::Header),
    Row::new(
        103,
        "rotate_webhook_secret",
        "/webhook-subscriptions/{subscriptionId}/secret-rotations",
        &Erased::<webhook::rotate_webhook_secret::RotateWebhookSecret>::NEW,
    )
    .of_webhooks()
    .keyed(KeySource::Header),
    Row::new(
        104,
        "delete_webhook_subscription",
        "/webhook-subscriptions/{subscriptionId}",
        &Erased::<webhook::delete_webhook_subscription::DeleteWebhookSubscription>::NEW,
    )
    .of_webhooks()
    .delete()
    .keyed(KeySource::Header)
    .succeeds_with(Success::NoContent),
    Row::new(
        105,
        "retry_webhook_delivery",
        "/webhook-subscriptions/{subscriptionId}/deliveries/{eventId}/retries",
        &Erased::<webhook::retry_webhook_delivery::RetryWebhookDelivery>::NEW,
    )
    .of_webhooks()
    .without_body()
    .keyed(KeySource::Header)
    .succeeds_with(Success::Accepted),
    Row::new(
        121,
        "retry_outbox_message",
        "/outbox/{number}/retries",
        &Erased::<outbox::retry_outbox_message::RetryOutboxMessage>::NEW,
    )
    .of_messages()
    .without_body()
    .keyed(KeySource::HeaderIfSent)
    .succeeds_with(Success::Accepted),
    Row::new(
        122,
        "skip_outbox_message",
        "/outbox/{number}/skips",
        &Erased::<outbox::skip_outbox_message::SkipOutboxMessage>::NEW,
    )
    .of_messages()
    .keyed(KeySource::HeaderIfSent),
];

/// The tags and names of the operations by which the service reports to itself; no request leads to
/// them.
pub static REPORTS: &[(u16, &str)] = &[
    (RECORD_WEBHOOK_PROGRESS, "record_webhook_progress"),
    (RECORD_PUBLICATION, "record_publication"),
    (RECORD_MESSAGE_ATTEMPT, "deliver_outbox_message"),
];

/// The tag of the report that records the progress of a webhook subscription's deliveries.
pub const RECORD_WEBHOOK_PROGRESS: u16 = 201;

/// The tag of the report that records the progress of publishing events.
pub const RECORD_PUBLICATION: u16 = 202;

/// The tag of the report whether a receiver has taken a message.
pub const RECORD_MESSAGE_ATTEMPT: u16 = 203;

/// The kinds of resources, by their tags; those with a tag below 100 receive facts from other
/// systems.
pub static RESOURCES: &[&dyn AnyResource] = &[
    &Registered::<Fact<actor::ActorFact>>::NEW,
    &Registered::<Fact<family_account::FamilyAccount>>::NEW,
    &Registered::<Fact<reservation_booking::ReservationBooking>>::NEW,
    &Registered::<MotherProfile>::NEW,
    &Registered::<Fact<consent_version::ConsentVersionFact>>::NEW,
    &Registered::<ReservationDraft>::NEW,
    &Registered::<Fact<final_review_projection::FinalReviewProjectionFact>>::NEW,
    &Registered::<Fact<extension_eligibility::ExtensionEligibilityFact>>::NEW,
    &Registered::<Fact<payment_product_plan::PaymentProductPlan>>::NEW,
    &Registered::<Fact<candidate_snapshot::CandidateSnapshotFact>>::NEW,
    &Registered::<Fact<payout_instruction::PayoutInstructionFact>>::NEW,
    &Registered::<Fact<reservation_financial_facts::ReservationFinancialFact>>::NEW,
    &Registered::<Fact<regional_benefit_policy::RegionalBenefitPolicyFact>>::NEW,
    &Registered::<BranchOfficeProfile>::NEW,
    &Registered::<Fact<settlement_account::SettlementAccountFact>>::NEW,
    &Registered::<Fact<relationship::Relationship>>::NEW,
    &Registered::<Statement>::NEW,
    &Registered::<PaymentAuthority>::NEW,
    &Registered::<CareHistoryAuthority>::NEW,
    &Registered::<DataRoomRequest>::NEW,
    &Registered::<CareTeamRoster>::NEW,
    &Registered::<Organization>::NEW,
    &Registered::<Branch>::NEW,
    &Registered::<AccountSnapshot>::NEW,
    &Registered::<Obligation>::NEW,
    &Registered::<PaymentSubject>::NEW,
    &Registered::<SearchSubject>::NEW,
    &Registered::<AdminAudit>::NEW,
    &Registered::<PaymentChangeAdjustment>::NEW,
    &Registered::<PayoutReceipt>::NEW,
    &Registered::<FinancialLifecycle>::NEW,
    &Registered::<PaymentDelegation>::NEW,
    &Registered::<CareHistoryGrant>::NEW,
    &Registered::<BranchDeliveries>::NEW,
    &Registered::<ProfileRevision>::NEW,
    &Registered::<RosterDecision>::NEW,
    &Registered::<AssignmentDecision>::NEW,
    &Registered::<AssignmentSlot>::NEW,
    &Registered::<Message>::NEW,
    &Registered::<WebhookSubscription>::NEW,
    &Registered::<WebhookDeliveries>::NEW,
    &Registered::<Publication>::NEW,
];

/// Returns the name of the operation with this tag, as events and reads show it; `reference_fact`
/// for the tag of facts that come in.
#[must_use]
pub fn operation_name(tag: u16) -> &'static str {
    let known = recorded_operations().find(|(known, _)| *known == tag);
    known.map_or("reference_fact", |(_, name)| name)
}

/// Returns the tags that records have, except that of facts, each with its operation's name.
pub fn recorded_operations() -> impl Iterator<Item = (u16, &'static str)> {
    let rows = OPERATIONS.iter().chain(MANAGEMENT);
    let named = rows.map(|row| (row.tag, row.name));
    named.chain(REPORTS.iter().copied())
}

/// Returns the kind of resource with this tag.
#[must_use]
pub fn resource(tag: u16) -> Option<&'static dyn AnyResource> {
    /// The kinds by tag, since recovery looks one up for each change in the log.
    static BY_TAG: LazyLock<Vec<Option<&'static dyn AnyResource>>> = LazyLock::new(|| {
        let mut by_tag = Vec::new();
        for resource in RESOURCES {
            let tag = usize::from(resource.kind().tag);
            by_tag.resize(by_tag.len().max(tag + 1), None);
            by_tag[tag] = Some(*resource);
        }
        by_tag
    });
    BY_TAG.get(usize::from(tag)).copied().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::fact_kinds::FACTS;
    use crate::domain::listing::BookingHash;
    use crate::domain::reference::FactKind as _;
    use crate::domain::registered::Listed;

    #[test]
    fn tags_and_names_are_each_given_once() {
        let unique = |items: Vec<String>| {
            let set: BTreeSet<_> = items.iter().collect();
            assert_eq!(set.len(), items.len(), "{items:?}");
        };
        let recorded = || recorded_operations();
        unique(recorded().map(|(tag, _)| tag.to_string()).collect());
        unique(recorded().map(|(_, name)| name.to_owned()).collect());
        unique(
            OPERATIONS
                .iter()
                .chain(MANAGEMENT)
                .map(|row| format!("{:?} {}", row.method, row.path))
                .collect(),
        );
        let reads = READS.iter().chain(MANAGEMENT_READS);
        unique(reads.map(|row| row.path.to_owned()).collect());
        unique(LISTS.iter().map(|row| row.path.to_owned()).collect());
        unique(
            RESOURCES
                .iter()
                .map(|kind| kind.kind().tag.to_string())
                .collect(),
        );
        unique(
            RESOURCES
                .iter()
                .map(|kind| kind.kind().name.to_owned())
                .collect(),
        );
    }

    #[test]
    fn a_list_is_at_the_path_above_its_read_and_of_the_kind_that_is_listed() {
        for row in LISTS.iter() {
            assert!(row.read.path.starts_with(&format!("{}/{{", row.path)));
            assert_ne!(row.resource.listed(), Listed::Never, "{}", row.name);
            assert!(row.filters().count() > 0, "{}", row.name);
        }
        let listed = RESOURCES
            .iter()
            .filter(|kind| kind.listed() != Listed::Never);
        let kinds: BTreeSet<_> = listed.map(|kind| kind.kind().tag).collect();
        let rows: BTreeSet<_> = LISTS.iter().map(|row| row.resource.kind().tag).collect();
        assert_eq!(kinds, rows, "what is kept for lists is listed");
        let booking = reservation_booking::ReservationBooking::KIND.tag;
        assert_eq!(BookingHash::KIND, booking);
    }

    #[test]
    fn every_kind_of_fact_is_a_registered_resource() {
        for fact in FACTS {
            assert_eq!(
                resource(fact.kind().tag).map(AnyResource::kind),
                Some(fact.kind())
            );
        }
    }
}
