//! Reads the pre-registration of a payment: whoever may pay the obligation, its branch's managers
//! and the head office see all of it.

use super::authority::{finance_scope, may_read};
use super::obligation::{Obligation, PreRegistrationBody};
use crate::base::actor::ActorKind;
use crate::domain::family::payment_authority::PaymentAuthority;
use crate::domain::listing::{Filter, Scope};
use crate::domain::payment_words::PreRegistrationStatus;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource;

/// Reads the pre-registration of the payment that the path names. It has no revision of its own.
///
/// # Errors
/// `not_found` when it does not exist, or the actor may not see it.
pub fn read_pre_registration(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let obligation = request
        .view
        .get::<Obligation>(&[request.param("paymentId")]);
    let Some(obligation) = obligation else {
        return Err(Rejection::not_found());
    };
    match &obligation.pre_registration {
        Some(registration)
            if request
                .allows(|| may_read(&obligation, request.actor, request.view, request.now)) =>
        {
            let status = PreRegistrationStatus::PreRegistered;
            let body = PreRegistrationBody::new(registration, status);
            Representation::at_position(request.view, obligation.key(), &body)
        }
        _ => Err(Rejection::not_found()),
    }
}

/// Returns the part of the pre-registrations that the actor may be shown. Access depends on the
/// current fact of the obligation, which may differ from the registered one.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    let actor = request.actor;
    match actor.kind {
        ActorKind::HeadquartersAdministrator => Scope::All,
        ActorKind::BranchManager => {
            let moved = Scope::any(Filter::MovedToBranch, &actor.branch_profile_ids);
            Scope::managed_by(actor).or(moved)
        }
        ActorKind::Mother => {
            let moved = Scope::any(Filter::MovedToMother, [&actor.subject]);
            Scope::any(Filter::Mother, [&actor.subject]).or(moved)
        }
        ActorKind::FamilyMember => {
            let both = [Filter::Booking, Filter::MovedToBooking];
            PaymentAuthority::bookings_of(request, &both)
        }
        ActorKind::BranchFinanceOperator | ActorKind::HeadquartersFinanceOperator => {
            finance_scope(request)
        }
        ActorKind::SystemWorkflow => Scope::NOTHING,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{
        PAYMENT, branch_operator, delegate, father, headquarters_operator, mother, obligation,
        pre_register, service,
    };
    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::scenario::{Scenario, actor, manager, member, with};

    fn read(service: &mut Scenario, reader: Actor) -> Result<(String, Value), Rejection> {
        service
            .acting(reader)
            .read("read_pre_registration", &[("paymentId", PAYMENT)])
    }

    /// Makes a service with a pre-registration in which the father may pay (too little), and both
    /// operators have their relationships.
    fn registered() -> (Scenario, Value) {
        let mut service = service();
        delegate(&mut service, 1, "2026-12-01T00:00:00Z");
        for (id, object, subject) in [
            ("relation-1", "branch/branch-1", "branch-operator"),
            ("relation-2", "headquarters", "hq-operator"),
        ] {
            let relationship = json!({
                "object": object,
                "relation": "finance_operator",
                "subject": subject,
                "state": "applied",
            });
            service.fact("relationship", id, 1, relationship);
        }
        service.acting(mother());
        let answer = pre_register(&mut service).committed();
        (service, answer)
    }

    #[test]
    fn those_concerned_read_what_the_pre_registration_answered() {
        let (mut service, answer) = registered();
        let position = service.view(|view| {
            let obligation = view.get::<Obligation>(&[PAYMENT]).unwrap();
            view.position(obligation.key())
        });
        for reader in [
            mother(),
            father(),
            branch_operator(),
            headquarters_operator(),
            manager("manager-1", "branch-1"),
            actor(ActorKind::HeadquartersAdministrator, "admin-1"),
        ] {
            let kind = reader.kind;
            let found = read(&mut service, reader).unwrap();
            assert_eq!(found, (position.to_string(), answer.clone()), "{kind}");
        }
    }

    #[test]
    fn a_pre_registration_is_not_found_by_those_who_may_not_pay() {
        let (mut service, _) = registered();
        let without_permission = |operator: Actor| Actor {
            permissions: Vec::new(),
            ..operator
        };
        for stranger in [
            member(ActorKind::Mother, "mother-2", "member-2"),
            actor(ActorKind::Mother, "mother-1"),
            member(ActorKind::FamilyMember, "aunt-user", "aunt"),
            actor(ActorKind::FamilyMember, "father-user"),
            without_permission(branch_operator()),
            without_permission(headquarters_operator()),
            manager("manager-1", "branch-2"),
            actor(ActorKind::SystemWorkflow, "workflow"),
        ] {
            let kind = stranger.kind;
            let found = read(&mut service, stranger);
            assert_eq!(found, Err(Rejection::not_found()), "{kind}");
        }
        // A payer whose delegation has expired is no payer any more.
        service.at("2026-12-01T00:00:00Z");
        assert_eq!(read(&mut service, father()), Err(Rejection::not_found()));
    }

    #[test]
    fn a_payment_not_owed_or_not_pre_registered_is_not_found() {
        let mut service = service();
        assert_eq!(read(&mut service, mother()), Err(Rejection::not_found()));
        for unknown in ["", "no-such"] {
            let found = service.read("read_pre_registration", &[("paymentId", unknown)]);
            assert_eq!(found, Err(Rejection::not_found()));
        }
    }

    #[test]
    fn it_is_frozen_whatever_obligation_and_plan_say_later() {
        let (mut service, answer) = registered();
        let later = with(
            &obligation(),
            &[("state", json!("paid")), ("amountKrw", json!(1))],
        );
        service.fact("payment-obligation", PAYMENT, 2, later);
        let (_, found) = read(&mut service, mother()).unwrap();
        assert_eq!(found, answer);
    }
}
