//! The invited manager accepts the invitation to a branch.
//!
//! Resource: the branch with a pending invitation to the token's verified e-mail address; where
//! there is none, the branch whose invitation to that address this subject accepted last.
//! Rejections, in the order tested: there is none (403); the branch's revision is stale, the
//! invitation was accepted already (409). The commit queues a message for the system that keeps
//! authorization relationships.

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::onboarding::AuthorizationRelationshipStatus;
use super::state::{
    Activation, Branch, BranchEvent, Manager, accepted_invitations, pending_invitation,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{
    Commit, Context, Decision, MessageAbout, Operation, mark_replayed, to_json,
};
use crate::domain::outbox::topics;
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

/// The topic of the message to the authorization system.
const TOPIC: &str = topics::BRANCH_MEMBERSHIP_ACTIVATED;

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The branch's revision as the manager saw it.
        pub expected_onboarding_revision: i64 = "expectedOnboardingRevision",
    }
}

rejections! {
    /// Why no invitation is accepted.
    pub enum Reason {
        /// Authority.
        NotPermitted = Forbidden "permission_denied" []
            "There is no invitation that you may accept.",
        /// The branch's revision is stale.
        RevisionStale = Conflict "revision_stale" ["expectedOnboardingRevision"]
            "The expected revision is not the current one: read again, then decide.",
        /// It was accepted.
        ActivationConflict = Conflict "activation_conflict" []
            "The invitation was accepted already, by another command of yours.",
    }
}

/// The operation.
pub struct AcceptManagerInvitation;

/// Finds the branch whose invitation the actor may accept, or has accepted.
fn invited(context: &Context<'_>) -> Option<Digest> {
    let email = context.actor.verified_email()?;
    let pending = context.view.holder(pending_invitation(email));
    pending.or_else(|| {
        let list = accepted_invitations(email, &context.actor.subject);
        let accepted = context.view.all_listed_with_positions::<Branch>(list);
        let last = accepted.iter().max_by_key(|(branch, position)| {
            // Recorded times never decrease, but stay equal where the clock was set back.
            let accepted_at = branch.manager.as_ref().map(|manager| manager.accepted_at);
            (accepted_at, *position)
        });
        last.map(|(branch, _)| branch.key())
    })
}

impl Operation for AcceptManagerInvitation {
    type Command = Command;
    type Resource = Branch;
    type Answer = ActivationBody;

    const DOC: &'static str = module_doc!("accept_manager_invitation.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::BranchManager,
        after: Some("create_branch"),
        body: r#"{"expectedOnboardingRevision": 1}"#,
        changed_value: ("/expectedOnboardingRevision", "2"),
        unique_ids: &["manager-1@example.com", "manager-1"],
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::of(&ActorKind::ALL)
            .then(Reason::NotPermitted, Case::by_a_stranger)
            .then(Reason::RevisionStale, |case| {
                case.set("/expectedOnboardingRevision", 9)
            })
            .then(Reason::ActivationConflict, |case| {
                case.done_before(|_| ())
                    .set("/expectedOnboardingRevision", 2)
            })
    }

    fn target(_: &Command, context: &Context<'_>) -> Option<Digest> {
        invited(context)
    }

    fn decide(
        state: Option<&Branch>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<Branch>, Rejection> {
        // The engine has already found the target. Finding it again adds it to this decision's read
        // set.
        let found = invited(context);
        let actor = context.actor;
        let email = actor.verified_email().unwrap_or_default();
        let branch = state.filter(|branch| {
            branch.invites(email) || branch.was_accepted_by(email, &actor.subject)
        });
        let (Some(branch), Some(_)) = (branch, found) else {
            return Err(Reason::NotPermitted.into());
        };
        if command.expected_onboarding_revision != branch.revision.number() {
            return Err(Reason::RevisionStale.into());
        }
        if branch.manager.is_some() {
            return Err(Reason::ActivationConflict.into());
        }
        let activation = Activation {
            activation_id: context.ids.id(),
            member_profile_id: context.ids.id(),
            branch_membership_id: context.ids.id(),
            subject: actor.subject.clone(),
            relationship_outbox_message_id: context.ids.outbox_number(),
        };
        let number = activation.relationship_outbox_message_id;
        let event = BranchEvent::ManagerAccepted(activation);
        let mut commit = Commit::new(state, event, context.at);
        let next = &commit.next;
        let manager = next
            .manager
            .as_ref()
            .expect("the event put a manager there");
        let about = MessageAbout {
            id: next.founding.branch_id.to_string().into(),
            reference: None,
        };
        let message = to_json(&ActivatedMessage::new(next, manager));
        let answer = to_json(&ActivationBody::new(next, manager));
        commit.send_about(number, TOPIC, about, message);
        commit.answer(answer)
    }

    fn replayed(body: Vec<u8>) -> Vec<u8> {
        mark_replayed(body)
    }
}

/// The message to the authorization system.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ActivatedMessage<'a> {
    branch_id: Uuid,
    branch_membership_id: Uuid,
    member_profile_id: Uuid,
    object: String,
    relation: &'static str,
    subject: &'a str,
}

impl<'a> ActivatedMessage<'a> {
    fn new(branch: &'a Branch, manager: &'a Manager) -> Self {
        let branch_id = branch.founding.branch_id;
        Self {
            branch_id,
            branch_membership_id: manager.activation.branch_membership_id,
            member_profile_id: manager.activation.member_profile_id,
            object: ["branch/", branch_id.to_string().as_str()].concat(),
            relation: "branch_manager",
            subject: &manager.activation.subject,
        }
    }
}

/// The activation as it is answered; it never changes.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ManagerActivation")]
pub struct ActivationBody {
    activation_id: Uuid,
    invitation_id: Uuid,
    member_profile_id: Uuid,
    branch_membership_id: Uuid,
    branch_id: Uuid,
    accepted_onboarding_revision: Revision,
    relationship_outbox_message_id: i64,
    authorization_relationship_status: AuthorizationRelationshipStatus,
    accepted_at: Timestamp,
    /// Whether this is the answer of an earlier request once more.
    // Last, so that a replay can turn it round.
    idempotent_replay: bool,
}

impl ActivationBody {
    fn new(branch: &Branch, manager: &Manager) -> Self {
        let activation = &manager.activation;
        Self {
            activation_id: activation.activation_id,
            invitation_id: branch.founding.invitation_id,
            member_profile_id: activation.member_profile_id,
            branch_membership_id: activation.branch_membership_id,
            branch_id: branch.founding.branch_id,
            accepted_onboarding_revision: manager.accepted_revision,
            relationship_outbox_message_id: activation.relationship_outbox_message_id,
            authorization_relationship_status: AuthorizationRelationshipStatus::Queued,
            accepted_at: manager.accepted_at,
            idempotent_replay: false,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::samples::{
        administrator, branch_of, created, invitee, minted, second_creation, summary, with_email,
    };
    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, actor, with};

    const NAME: &str = "accept_manager_invitation";

    fn body(expected: i64) -> Value {
        json!({"expectedOnboardingRevision": expected})
    }

    fn accept(scenario: &mut Scenario, actor: Actor, expected: i64) -> Then {
        scenario.acting(actor).when(NAME, &[], &body(expected))
    }

    /// Creates the second branch, with an invitation to the address of the first.
    fn invited_again(scenario: &mut Scenario) -> Value {
        let email = json!("mina.kim@example.org");
        let body = with(&second_creation(), &[("managerInvitation.email", email)]);
        let then = scenario
            .acting(administrator())
            .when("create_branch", &[], &body);
        then.committed()
    }

    #[test]
    fn the_invitation_is_accepted_and_the_authorization_system_is_told() {
        let (mut scenario, created) = created();
        scenario.at("2026-11-21T00:00:00Z");
        let answer = accept(&mut scenario, invitee(), 1).committed();
        // The creation used the identifiers 1 to 8, and 9 is the command's own.
        assert_eq!(
            answer,
            json!({
                "activationId": minted(10),
                "invitationId": minted(3),
                "memberProfileId": minted(11),
                "branchMembershipId": minted(12),
                "branchId": created["branchId"],
                "acceptedOnboardingRevision": 1,
                "relationshipOutboxMessageId": 13,
                "authorizationRelationshipStatus": "queued",
                "acceptedAt": "2026-11-21T00:00:00.000Z",
                "idempotentReplay": false,
            })
        );
        let message = scenario.outbox.last().unwrap();
        assert_eq!(message.number, 13);
        assert_eq!(&*message.topic, "authorization.branch_membership.activated");
        assert_eq!(
            serde_json::from_slice::<Value>(&message.body.0).unwrap(),
            json!({
                "branchId": minted(1),
                "branchMembershipId": minted(12),
                "memberProfileId": minted(11),
                "object": format!("branch/{}", minted(1)),
                "relation": "branch_manager",
                "subject": "manager-1",
            })
        );
        let branch = branch_of(&scenario, &created);
        assert_eq!(branch.revision.number(), 2);
        assert_eq!(scenario.outbox.len(), 4);
    }

    #[test]
    fn the_case_of_an_address_does_not_count() {
        let (mut scenario, _) = created();
        let shouting = with_email(invitee(), "MINA.KIM@EXAMPLE.ORG", true);
        accept(&mut scenario, shouting, 1).committed();
    }

    #[test]
    fn without_an_invitation_to_a_verified_address_nothing_is_told() {
        let (mut scenario, _) = created();
        for other in [
            with_email(invitee(), "mina.kim@example.org", false),
            with_email(invitee(), "mina@example.org", true),
            with_email(invitee(), "", true),
            actor(ActorKind::BranchManager, "manager-1"),
            administrator(),
        ] {
            for expected in [1, 9] {
                let refusal = accept(&mut scenario, other.clone(), expected).refusal();
                assert_eq!(
                    summary(&refusal),
                    (Class::Forbidden, "permission_denied", vec![])
                );
            }
        }
        accept(&mut scenario, invitee(), 1).committed();
    }

    #[test]
    fn an_invitation_accepted_by_one_subject_is_closed_to_all_others() {
        let (mut scenario, _) = created();
        accept(&mut scenario, invitee(), 1).committed();
        let namesake = Actor {
            subject: "manager-2".into(),
            ..invitee()
        };
        for expected in [1, 2] {
            let then = accept(&mut scenario, namesake.clone(), expected);
            assert_eq!(then.code(), "permission_denied");
        }
    }

    #[test]
    fn a_subject_without_the_address_of_its_acceptance_has_none() {
        let (mut scenario, _) = created();
        accept(&mut scenario, invitee(), 1).committed();
        let moved = with_email(invitee(), "other@example.org", true);
        assert_eq!(accept(&mut scenario, moved, 2).code(), "permission_denied");
    }

    #[test]
    fn a_later_invitation_counts_before_one_that_was_accepted() {
        let (mut scenario, first) = created();
        accept(&mut scenario, invitee(), 1).committed();
        let second = invited_again(&mut scenario);
        // The first branch is at revision 2, the second at 1.
        assert_eq!(accept(&mut scenario, invitee(), 2).code(), "revision_stale");
        scenario.at("2026-11-21T00:00:00Z");
        let answer = accept(&mut scenario, invitee(), 1).committed();
        assert_eq!(answer["branchId"], second["branchId"]);
        assert_eq!(branch_of(&scenario, &first).revision.number(), 2);
        // Of two accepted invitations, the later one counts.
        let accepted = accept(&mut scenario, invitee(), 2);
        assert_eq!(accepted.code(), "activation_conflict");
        assert_eq!(accept(&mut scenario, invitee(), 1).code(), "revision_stale");
    }

    #[test]
    fn of_two_acceptances_at_one_time_the_last_committed_counts() {
        // Recorded times stay equal while the system's clock is behind the last of them, and branch
        // identifiers are made from that clock.
        let (mut scenario, first) = created();
        accept(&mut scenario, invitee(), 1).committed();
        let mut second = branch_of(&scenario, &first);
        Arc::make_mut(&mut second.founding).branch_id = Uuid::nil();
        second.revision = Revision::new(7);
        scenario.given(&second);
        let then = accept(&mut scenario, invitee(), 7);
        assert_eq!(then.code(), "activation_conflict");
        assert_eq!(accept(&mut scenario, invitee(), 2).code(), "revision_stale");
    }

    #[test]
    fn a_later_invitation_is_anybodys_with_the_address() {
        let (mut scenario, _) = created();
        accept(&mut scenario, invitee(), 1).committed();
        let second = invited_again(&mut scenario);
        let namesake = Actor {
            subject: "manager-2".into(),
            ..invitee()
        };
        let answer = accept(&mut scenario, namesake, 1).committed();
        assert_eq!(answer["branchId"], second["branchId"]);
        // The first subject still has the branch that it accepted itself.
        let then = accept(&mut scenario, invitee(), 2);
        assert_eq!(then.code(), "activation_conflict");
    }
}
