//! The topics of messages: each names what another system is asked to do.

/// A payment delegation is to hold in the authorization system.
pub const PAYMENT_DELEGATION_GRANTED: &str = "authorization.payment_delegation.granted";
/// A branch's operator is to get an identity.
pub const OPERATOR_IDENTITY: &str = "branch_onboarding.operator_identity";
/// A branch's relationships are to be put in place.
pub const AUTHORIZATION_RELATIONSHIP: &str = "branch_onboarding.authorization_relationship";
/// A branch's first manager is to be invited.
pub const MANAGER_INVITATION: &str = "branch_onboarding.manager_invitation";
/// A manager's membership is to hold in the authorization system.
pub const BRANCH_MEMBERSHIP_ACTIVATED: &str = "authorization.branch_membership.activated";
/// A settlement is to go on.
pub const SETTLEMENT_CONTINUATION: &str = "settlement.continuation.requested";

/// Every topic.
pub const ALL: [&str; 6] = [
    PAYMENT_DELEGATION_GRANTED,
    OPERATOR_IDENTITY,
    AUTHORIZATION_RELATIONSHIP,
    MANAGER_INVITATION,
    BRANCH_MEMBERSHIP_ACTIVATED,
    SETTLEMENT_CONTINUATION,
];
