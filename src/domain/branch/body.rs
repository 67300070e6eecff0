//! A branch as readers see it: its current state, joined with the progress of its deliveries.

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::deliveries::BranchDeliveries;
use super::onboarding::{
    AuthorizationRelationshipStatus, OutcomeStatus, SideEffect, SideEffectKind, outcome,
};
use super::state::{Branch, LifecycleStatus, RelationshipTuple};
use crate::base::revision::Revision;
use crate::base::text::{BranchCode, Ident, NonBlankText};
use crate::base::time::Timestamp;
use crate::domain::response_body::response_body;
use crate::wire_enum;

wire_enum! {
    /// The status of the first manager's invitation.
    pub enum InvitationStatus {
        /// It was not accepted yet.
        Pending = "pending",
        /// It was accepted.
        Accepted = "accepted",
    }
}

wire_enum! {
    /// The status of the first manager's membership.
    pub enum MembershipStatus {
        /// The manager is a member.
        Active = "active",
    }
}

wire_enum! {
    /// The status of a membership fee's policy.
    pub enum FeePolicyStatus {
        /// It is written down.
        Recorded = "recorded",
    }
}

wire_enum! {
    /// What became of the operator's identity.
    pub enum IdentityDisposition {
        /// It came into being with the branch.
        Created = "created",
    }
}

wire_enum! {
    /// What comes next for a branch.
    pub enum BranchNextAction {
        /// The invited manager accepts.
        AcceptManagerInvitation = "accept_manager_invitation",
        /// The manager updates how the branch presents itself.
        UpdateBranchProfile = "update_branch_profile",
    }
}

response_body! {
    /// A branch as its readers see it, and as its creation is answered: its current state, and how far
    /// its deliveries are.
    #[schemars(rename = "Branch")]
    pub struct BranchBody<'a> from (branch: &'a Branch, deliveries: &'a BranchDeliveries, membership: Option<SideEffect>) {
        // The current branch with its joined deliveries, and how far the message is by which its
        // manager's relationship is asked for.
        let founding = &branch.founding;
        let outcome = outcome(&deliveries.side_effects);
        let of_kind = |kind: SideEffectKind| -> Vec<SideEffect> {
            let effects = deliveries.side_effects.iter();
            effects
                .filter(|effect| effect.kind == kind)
                .copied()
                .collect()
        };
        let manager = branch.manager.as_ref();
        let membership_id = manager.map(|manager| manager.activation.branch_membership_id);
        let (invitation_status, invitation_actions, next_actions) = match manager {
            None => (
                InvitationStatus::Pending,
                vec![BranchNextAction::AcceptManagerInvitation],
                vec![BranchNextAction::AcceptManagerInvitation],
            ),
            Some(_) => (
                InvitationStatus::Accepted,
                Vec::new(),
                vec![BranchNextAction::UpdateBranchProfile],
            ),
        };
        let identity = outcome.has_operator_identity;
    } as {
        command_id: &'a Ident = &founding.command_id,
        actor_id: &'a str = &founding.subject,
        reason: &'a NonBlankText = &founding.reason,
        command_fingerprint: String = founding.fingerprint.to_hex(),
        branch_id: Uuid = founding.branch_id,
        branch_code: &'a BranchCode = &founding.branch_code,
        revision: Revision = branch.revision,
        organization_revision: Revision = founding.organization_revision,
        lifecycle_status: LifecycleStatus = founding.lifecycle_status,
        manager_invitation_status: InvitationStatus = invitation_status,
        authorization_relationship_status: AuthorizationRelationshipStatus =
            outcome.authorization_relationship,
        authorization_relationships: [RelationshipTuple; 2] = founding.relationships(),
        membership_fee_policy_status: FeePolicyStatus = FeePolicyStatus::Recorded,
        side_effects: &'a [SideEffect] = &deliveries.side_effects,
        audit_event_id: Uuid = founding.audit_event_id,
        outcome_status: OutcomeStatus = outcome.status,
        repair: Option<RepairBody> = deliveries.repair.map(|repair| RepairBody {
            repair_id: repair.repair_id,
            scheduled_at: repair.scheduled_at,
            pending_side_effects: outcome.pending,
        }),
        allowed_next_actions: Vec<BranchNextAction> = next_actions,
        operator_identity: OperatorIdentityBody = OperatorIdentityBody {
            operator_identity_id: identity.then_some(founding.operator_identity_id),
            operator_identity_disposition: identity.then_some(IdentityDisposition::Created),
            side_effects: of_kind(SideEffectKind::OperatorIdentity),
        },
        manager_membership: ManagerMembershipBody = ManagerMembershipBody {
            manager_membership_id: membership_id,
            manager_membership_status: membership_id.map(|_| MembershipStatus::Active),
            side_effects: membership.into_iter().collect(),
        },
        manager_invitation: ManagerInvitationBody = ManagerInvitationBody {
            manager_invitation_status: invitation_status,
            side_effects: of_kind(SideEffectKind::ManagerInvitation),
            allowed_next_actions: invitation_actions,
        },
        authorization_relationship: AuthorizationRelationshipBody = AuthorizationRelationshipBody {
            authorization_relationship_status: outcome.authorization_relationship,
            side_effects: of_kind(SideEffectKind::AuthorizationRelationship),
        },
        membership_fee_policy: MembershipFeePolicyBody = MembershipFeePolicyBody {
            membership_fee_policy_id: founding.fee_policy_id,
            membership_fee_policy_revision: Revision::FIRST,
            membership_fee_policy_status: FeePolicyStatus::Recorded,
            side_effects: Vec::new(),
        },
        /// Whether this is the answer of an earlier request once more.
        // Last, so that a replay can turn it round.
        idempotent_replay: bool = false,
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BranchRepair")]
struct RepairBody {
    repair_id: Uuid,
    scheduled_at: Timestamp,
    pending_side_effects: Vec<SideEffect>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OperatorIdentity")]
struct OperatorIdentityBody {
    operator_identity_id: Option<Uuid>,
    operator_identity_disposition: Option<IdentityDisposition>,
    side_effects: Vec<SideEffect>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ManagerMembership")]
struct ManagerMembershipBody {
    manager_membership_id: Option<Uuid>,
    manager_membership_status: Option<MembershipStatus>,
    side_effects: Vec<SideEffect>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ManagerInvitation")]
struct ManagerInvitationBody {
    manager_invitation_status: InvitationStatus,
    side_effects: Vec<SideEffect>,
    allowed_next_actions: Vec<BranchNextAction>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuthorizationRelationship")]
struct AuthorizationRelationshipBody {
    authorization_relationship_status: AuthorizationRelationshipStatus,
    side_effects: Vec<SideEffect>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "MembershipFeePolicy")]
struct MembershipFeePolicyBody {
    membership_fee_policy_id: Uuid,
    membership_fee_policy_revision: Revision,
    membership_fee_policy_status: FeePolicyStatus,
    side_effects: Vec<SideEffect>,
}
