//! Reads a branch, joined with the progress of its deliveries: for the head office and actors who
//! may create branches, for its managers, and for the holder of its invitation, pending or
//! accepted.

use super::body::BranchBody;
use super::deliveries::BranchDeliveries;
use super::state::{BRANCH_CREATE, Branch, accepted_invitations, pending_invitation};
use crate::base::actor::Actor;
use crate::domain::listing::{Filter, Scope};
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource as _;

/// Reads the branch that the path names.
///
/// `not_found` when it does not exist, or the actor may not see it.
pub fn read_branch(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let id = request.param("branchId");
    let branch = request.view.get::<Branch>(&[id]);
    let may = |branch: &Branch| request.allows(|| may_read(request.actor, id, branch));
    let Some(branch) = branch.filter(may) else {
        return Err(Rejection::not_found());
    };
    let Some(deliveries) = request.view.get::<BranchDeliveries>(&[id]) else {
        return Err(Rejection::not_found());
    };
    let deliveries = deliveries.joined(request.view);
    let membership = branch.membership_effect(request.view);
    let body = BranchBody::new(&branch, &deliveries, membership);
    Representation::at_revision_and_digest(&branch, &body)
}

fn may_read(actor: &Actor, branch_id: &str, branch: &Branch) -> bool {
    let invited = |email| branch.invites(email) || branch.was_accepted_by(email, &actor.subject);
    actor.is_headquarters()
        || actor.has_permission(BRANCH_CREATE)
        || actor.manages_branch(branch_id)
        || actor.verified_email().is_some_and(invited)
}

/// Returns the part of the branches that the actor may be shown.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    let actor = request.actor;
    if actor.is_headquarters() || actor.has_permission(BRANCH_CREATE) {
        return Scope::All;
    }
    let view = request.view;
    let invited = actor.verified_email().map(|email| {
        let inviting = view.named::<Branch>(pending_invitation(email));
        let accepted = view.all_listed::<Branch>(accepted_invitations(email, &actor.subject));
        let both = inviting.into_iter().chain(accepted);
        Scope::any(Filter::Branch, both.flat_map(|branch| branch.id()))
    });
    Scope::managed_by(actor).or(invited.unwrap_or(Scope::NOTHING))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{administrator, created, invitee, with_email};
    use super::*;
    use crate::base::actor::ActorKind;
    use crate::domain::outbox::report::Attempt;
    use crate::domain::scenario::{Scenario, actor, headquarters, manager, revision_of, with};

    fn read(
        scenario: &mut Scenario,
        reader: Actor,
        id: &str,
    ) -> Result<(String, Value), Rejection> {
        let path = [("branchId", id)];
        let (tag, body) = scenario.acting(reader).read("read_branch", &path)?;
        Ok((revision_of(&tag), body))
    }

    fn accept(scenario: &mut Scenario) -> Value {
        let body = json!({"expectedOnboardingRevision": 1});
        let then = scenario
            .acting(invitee())
            .when("accept_manager_invitation", &[], &body);
        then.committed()
    }

    #[test]
    fn a_branch_reads_as_its_creation_was_answered() {
        let (mut scenario, answer) = created();
        let id = answer["branchId"].as_str().unwrap();
        let permitted = Actor {
            kind: ActorKind::SystemWorkflow,
            ..administrator()
        };
        for reader in [
            administrator(),
            headquarters(),
            permitted,
            manager("manager-9", id),
            invitee(),
        ] {
            let found = read(&mut scenario, reader, id).unwrap();
            assert_eq!(found, ("1".to_owned(), answer.clone()));
        }
    }

    #[test]
    fn after_the_acceptance_it_shows_the_manager() {
        let (mut scenario, answer) = created();
        let id = answer["branchId"].as_str().unwrap();
        let activation = accept(&mut scenario);
        let expected = with(
            &answer,
            &[
                ("revision", json!(2)),
                ("managerInvitationStatus", json!("accepted")),
                ("allowedNextActions", json!(["update_branch_profile"])),
                (
                    "managerMembership.managerMembershipId",
                    activation["branchMembershipId"].clone(),
                ),
                ("managerMembership.managerMembershipStatus", json!("active")),
                (
                    "managerMembership.sideEffects",
                    json!([{
                        "kind": "authorization_relationship",
                        "status": "pending",
                        "outboxMessageId": activation["relationshipOutboxMessageId"],
                    }]),
                ),
                (
                    "managerInvitation.managerInvitationStatus",
                    json!("accepted"),
                ),
                ("managerInvitation.allowedNextActions", json!([])),
            ],
        );
        let found = ("2".to_owned(), expected);
        for reader in [headquarters(), manager("manager-1", id), invitee()] {
            assert_eq!(read(&mut scenario, reader, id).unwrap(), found);
        }
        // Once the message is taken, the body shows it, while the revision stays.
        let before = scenario
            .acting(headquarters())
            .read("read_branch", &[("branchId", id)]);
        let number = activation["relationshipOutboxMessageId"].as_i64().unwrap();
        scenario.attempted(number, Attempt::Taken);
        let after = scenario.read("read_branch", &[("branchId", id)]).unwrap();
        assert_eq!(
            after.1["managerMembership"]["sideEffects"][0]["status"],
            "completed"
        );
        assert_eq!(after.1["revision"], 2);
        assert_ne!(after.0, before.unwrap().0, "its tag changes with it");
    }

    #[test]
    fn others_do_not_learn_that_it_exists() {
        let (mut scenario, answer) = created();
        let id = answer["branchId"].as_str().unwrap().to_owned();
        let mut others: Vec<_> = ActorKind::ALL
            .into_iter()
            .filter(|kind| *kind != ActorKind::HeadquartersAdministrator)
            .map(|kind| actor(kind, "somebody"))
            .collect();
        others.push(manager("manager-1", "another"));
        others.push(Actor {
            kind: ActorKind::BranchFinanceOperator,
            ..manager("operator-1", &id)
        });
        others.push(with_email(invitee(), "mina.kim@example.org", false));
        others.push(with_email(invitee(), "juno@example.org", true));
        for other in others {
            let found = read(&mut scenario, other, &id);
            assert_eq!(found, Err(Rejection::not_found()));
        }
        // Once the invitation is accepted, the address alone no longer gives access.
        accept(&mut scenario);
        let namesake = Actor {
            subject: "manager-2".into(),
            ..invitee()
        };
        let found = read(&mut scenario, namesake, &id);
        assert_eq!(found, Err(Rejection::not_found()));
        for unknown in ["", "branch-1", &id.to_uppercase()[..35]] {
            let found = read(&mut scenario, administrator(), unknown);
            assert_eq!(found, Err(Rejection::not_found()));
        }
    }
}
