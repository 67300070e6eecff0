//! The actors of the samples' world.

use crate::base::actor::{Actor, ActorKind};
use crate::base::text::MemberId;

/// Returns the actors of the samples' world: one of each kind, in the order of [`ActorKind::ALL`],
/// with everything that each needs for the operations of its kind.
#[must_use]
pub fn sample_actors() -> Vec<Actor> {
    ActorKind::ALL.into_iter().map(sample_actor).collect()
}

fn sample_actor(kind: ActorKind) -> Actor {
    let of = |subject: &str| Actor {
        subject: subject.into(),
        kind,
        ..Actor::nobody()
    };
    let branch = || vec!["branch-seoul-1".into()];
    let permitted = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
    match kind {
        ActorKind::Mother => Actor {
            member_id: Some(MemberId::from_trusted("member-mother-1")),
            email: Some("mother-1@example.com".into()),
            email_verified: true,
            ..of("mother-1")
        },
        ActorKind::FamilyMember => Actor {
            member_id: Some(MemberId::from_trusted("member-family-1")),
            ..of("family-1")
        },
        ActorKind::BranchManager => Actor {
            actor_profile_id: Some("manager-profile-1".into()),
            branch_profile_ids: branch(),
            email: Some("manager-1@example.com".into()),
            email_verified: true,
            ..of("manager-1")
        },
        ActorKind::BranchFinanceOperator => Actor {
            branch_profile_ids: branch(),
            permissions: permitted(&["payment:authorize"]),
            ..of("branch-finance-1")
        },
        ActorKind::HeadquartersAdministrator => Actor {
            actor_profile_id: Some("headquarters-profile-1".into()),
            permissions: permitted(&[
                "branch:create",
                "payment:administer",
                "events:read",
                "webhooks:manage",
                "outbox:manage",
                "figures:read",
            ]),
            ..of("headquarters-1")
        },
        ActorKind::HeadquartersFinanceOperator => Actor {
            permissions: permitted(&["payment:authorize", "payment:administer"]),
            ..of("headquarters-finance-1")
        },
        ActorKind::SystemWorkflow => Actor {
            permissions: permitted(&[
                "facts:read",
                "facts:write",
                "events:read",
                "webhooks:manage",
                "outbox:manage",
                "figures:read",
            ]),
            ..of("workflow-1")
        },
    }
}
