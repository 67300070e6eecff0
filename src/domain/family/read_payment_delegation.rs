//! Reads a payment delegation: the mother who granted it, its payer, headquarters, and a manager of
//! the booking's branch see all of it.

use super::grant::{self, is_member, is_mother};
use super::payment_authority::{PaymentDelegation, PaymentDelegationBody};
use crate::domain::listing::Scope;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;

/// Reads the delegation that the path names, at the delegation's own revision.
///
/// # Errors
/// `not_found` when it does not exist, or the actor may not see it.
pub fn read_payment_delegation(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let delegation = request
        .view
        .get::<PaymentDelegation>(&[request.param("id")]);
    match delegation {
        Some(delegation) if request.allows(|| may_read(request, &delegation)) => {
            Representation::at_revision(&delegation, &PaymentDelegationBody::new(&delegation))
        }
        _ => Err(Rejection::not_found()),
    }
}

fn may_read(request: &ReadRequest<'_>, delegation: &PaymentDelegation) -> bool {
    let actor = request.actor;
    actor.is_headquarters()
        || is_mother(actor, &delegation.grant.terms.mother_member_id)
        || is_member(actor, &delegation.payer_member_id)
        || grant::manages_booking(request, &delegation.reservation_booking_id)
}

/// Returns the part of the delegations that the actor may be shown.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    grant::scope(request.actor).or(Scope::managed_by(request.actor))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::family::samples::{family, minted, mother, payer, payment};
    use crate::domain::scenario::{actor, manager, member};

    const READ: &str = "read_payment_delegation";

    #[test]
    fn those_concerned_read_what_the_grant_answered_and_others_learn_nothing() {
        let mut service = family();
        service.acting(mother());
        let granted = service
            .when("grant_payment_authority", &[], &payment())
            .committed();
        let id = granted["paymentDelegationId"].as_str().unwrap();
        let headquarters = actor(ActorKind::HeadquartersAdministrator, "hq");
        for reader in [
            mother(),
            payer(),
            headquarters.clone(),
            manager("m", "branch-1"),
        ] {
            let kind = reader.kind;
            let read = service.acting(reader).read(READ, &[("id", id)]).unwrap();
            assert_eq!(read, ("1".to_owned(), granted.clone()), "{kind}");
        }
        let of_branch = Actor {
            branch_profile_ids: vec!["branch-1".into()],
            ..actor(ActorKind::BranchFinanceOperator, "finance")
        };
        for stranger in [
            member(ActorKind::Mother, "user-2", "mother-2"),
            actor(ActorKind::Mother, "user-1"),
            member(ActorKind::FamilyMember, "user-4", "aunt"),
            actor(ActorKind::FamilyMember, "user-3"),
            manager("m", "branch-2"),
            of_branch,
            actor(ActorKind::HeadquartersFinanceOperator, "finance"),
            actor(ActorKind::SystemWorkflow, "workflow"),
        ] {
            let kind = stranger.kind;
            let refusal = service
                .acting(stranger)
                .read(READ, &[("id", id)])
                .unwrap_err();
            assert_eq!(refusal.code, "not_found", "{kind}");
        }
        service.acting(headquarters);
        for unknown in ["", "no-such", &format!("{id} "), &minted(1)] {
            let refusal = service.read(READ, &[("id", unknown)]).unwrap_err();
            assert_eq!(refusal.code, "not_found", "{unknown}");
        }
    }

    #[test]
    fn each_delegation_of_a_book_is_read_by_itself_at_its_own_revision() {
        let mut service = family();
        service.acting(mother());
        let first = service
            .when("grant_payment_authority", &[], &payment())
            .committed();
        service.at("2026-12-01T00:00:00Z");
        let mut body = payment();
        body["expiresAt"] = json!("2027-01-01T00:00:00Z");
        let second = service
            .when("grant_payment_authority", &[], &body)
            .committed();
        for granted in [first, second] {
            let id = granted["paymentDelegationId"].as_str().unwrap();
            assert_eq!(
                service.read(READ, &[("id", id)]).unwrap(),
                ("1".to_owned(), granted.clone())
            );
        }
    }
}
