//! The side effects of a branch's creation in other systems, and how they determine its outcome.
//!
//! Each side effect is a message in the outbox of the commit that creates the branch. A side effect
//! that the embedded directory carries out in that commit is completed from the start; one that
//! needs a receiver is completed when its message is taken.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::time::Timestamp;
use crate::domain::operation::Disposition;
use crate::domain::outbox::topics;
use crate::wire_enum;

wire_enum! {
    /// What is to happen in another system; in the order in which they are listed.
    pub enum SideEffectKind {
        /// The branch's operator gets an identity.
        OperatorIdentity = "operator_identity",
        /// The branch's relationships are put in place.
        AuthorizationRelationship = "authorization_relationship",
        /// The invitation goes out to the first manager.
        ManagerInvitation = "manager_invitation",
    }
}

impl SideEffectKind {
    /// Returns the topic of its message in the outbox.
    #[must_use]
    pub const fn topic(self) -> &'static str {
        match self {
            Self::OperatorIdentity => topics::OPERATOR_IDENTITY,
            Self::AuthorizationRelationship => topics::AUTHORIZATION_RELATIONSHIP,
            Self::ManagerInvitation => topics::MANAGER_INVITATION,
        }
    }
}

wire_enum! {
    /// How far a side effect is.
    pub enum SideEffectStatus {
        /// On its way.
        Pending = "pending",
        /// Done.
        Completed = "completed",
    }
}

wire_enum! {
    /// How far the creation of a branch is.
    pub enum OutcomeStatus {
        /// Nothing is missing.
        Completed = "completed",
        /// A side effect is still on its way.
        RepairPending = "repair_pending",
    }
}

wire_enum! {
    /// How far relationships are on their way to the authorization system.
    pub enum AuthorizationRelationshipStatus {
        /// Not in place yet.
        Pending = "pending",
        /// In place.
        Applied = "applied",
        /// In the outbox.
        Queued = "queued",
    }
}

/// One side effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SideEffect {
    /// What happens.
    pub kind: SideEffectKind,
    /// How far it is.
    pub status: SideEffectStatus,
    /// The number of its message.
    pub outbox_message_id: i64,
}

impl SideEffect {
    /// Whether the side effect is not completed yet.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.status == SideEffectStatus::Pending
    }
}

/// The record that side effects are pending, and will be tried until they are completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// The repair's identifier.
    pub repair_id: Uuid,
    /// When it was scheduled.
    pub scheduled_at: Timestamp,
}

/// The status that a directory has reached for each side effect by the time of the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryAnswers {
    /// Status of the operator's identity.
    pub operator_identity: SideEffectStatus,
    /// Status of the relationships.
    pub authorization_relationship: SideEffectStatus,
    /// Status of the invitation.
    pub manager_invitation: SideEffectStatus,
}

impl DirectoryAnswers {
    /// The answers of the embedded directory: everything is completed in the commit itself.
    pub const EMBEDDED: Self = Self {
        operator_identity: SideEffectStatus::Completed,
        authorization_relationship: SideEffectStatus::Completed,
        manager_invitation: SideEffectStatus::Completed,
    };

    /// Returns the answers where the embedded directory handles each topic without a receiver. A
    /// receiver gets its message once the commit is durable, so its side effect is pending.
    #[must_use]
    pub fn of_receivers(has_receiver: &dyn Fn(&str) -> bool) -> Self {
        let of = |kind: SideEffectKind| match has_receiver(kind.topic()) {
            true => SideEffectStatus::Pending,
            false => SideEffectStatus::Completed,
        };
        Self {
            operator_identity: of(SideEffectKind::OperatorIdentity),
            authorization_relationship: of(SideEffectKind::AuthorizationRelationship),
            manager_invitation: of(SideEffectKind::ManagerInvitation),
        }
    }

    /// Returns the status of the side effect of this kind.
    #[must_use]
    pub const fn of(self, kind: SideEffectKind) -> SideEffectStatus {
        match kind {
            SideEffectKind::OperatorIdentity => self.operator_identity,
            SideEffectKind::AuthorizationRelationship => self.authorization_relationship,
            SideEffectKind::ManagerInvitation => self.manager_invitation,
        }
    }
}

/// The outcome of a branch's creation, as its side effects determine it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it is completed.
    pub status: OutcomeStatus,
    /// The status of the relationships.
    pub authorization_relationship: AuthorizationRelationshipStatus,
    /// Whether the operator's identity exists.
    pub has_operator_identity: bool,
    /// The pending side effects, in their order.
    pub pending: Vec<SideEffect>,
}

impl Outcome {
    /// Returns the disposition of a commit that leaves these side effects.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self.status {
            OutcomeStatus::Completed => Disposition::Done,
            OutcomeStatus::RepairPending => Disposition::Accepted,
        }
    }
}

/// Returns the outcome of a branch's creation with `side_effects`. A kind that is missing among
/// them is not pending: there was nothing to do.
#[must_use]
pub fn outcome(side_effects: &[SideEffect]) -> Outcome {
    let pending: Vec<_> = side_effects
        .iter()
        .filter(|effect| effect.is_pending())
        .copied()
        .collect();
    let is_done = |kind| pending.iter().all(|effect| effect.kind != kind);
    Outcome {
        status: if pending.is_empty() {
            OutcomeStatus::Completed
        } else {
            OutcomeStatus::RepairPending
        },
        authorization_relationship: if is_done(SideEffectKind::AuthorizationRelationship) {
            AuthorizationRelationshipStatus::Applied
        } else {
            AuthorizationRelationshipStatus::Pending
        },
        has_operator_identity: is_done(SideEffectKind::OperatorIdentity),
        pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(statuses: [SideEffectStatus; 3]) -> Vec<SideEffect> {
        let kinds = SideEffectKind::ALL.into_iter().zip(statuses);
        kinds
            .zip(1..)
            .map(|((kind, status), outbox_message_id)| SideEffect {
                kind,
                status,
                outbox_message_id,
            })
            .collect()
    }

    #[test]
    fn the_outcome_is_completed_when_and_only_when_nothing_is_pending() {
        use SideEffectStatus::{Completed, Pending};
        for identity in SideEffectStatus::ALL {
            for relationship in SideEffectStatus::ALL {
                for invitation in SideEffectStatus::ALL {
                    let statuses = [identity, relationship, invitation];
                    let effects = effects(statuses);
                    let outcome = outcome(&effects);
                    let all_done = statuses == [Completed; 3];
                    assert_eq!(outcome.status == OutcomeStatus::Completed, all_done);
                    assert_eq!(outcome.disposition() == Disposition::Done, all_done);
                    assert_eq!(outcome.has_operator_identity, identity == Completed);
                    assert_eq!(
                        outcome.authorization_relationship,
                        match relationship {
                            Pending => AuthorizationRelationshipStatus::Pending,
                            Completed => AuthorizationRelationshipStatus::Applied,
                        }
                    );
                    let mut expected = effects;
                    expected.retain(|effect| effect.status == Pending);
                    assert_eq!(outcome.pending, expected);
                }
            }
        }
    }

    #[test]
    fn without_side_effects_the_outcome_is_completed() {
        assert_eq!(outcome(&[]).status, OutcomeStatus::Completed);
    }

    #[test]
    fn a_side_effect_is_pending_exactly_if_an_external_directory_takes_it() {
        for kind in SideEffectKind::ALL {
            let status = DirectoryAnswers::EMBEDDED.of(kind);
            assert_eq!(status, SideEffectStatus::Completed, "{kind:?}");
            let status = DirectoryAnswers::of_receivers(&|_| true).of(kind);
            assert_eq!(status, SideEffectStatus::Pending, "{kind:?}");
            let answers = DirectoryAnswers::of_receivers(&|topic| topic == kind.topic());
            for other in SideEffectKind::ALL {
                assert_eq!(
                    answers.of(other) == SideEffectStatus::Pending,
                    other == kind
                );
            }
        }
    }
}
