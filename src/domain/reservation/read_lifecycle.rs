//! Reads a booking's financial lifecycle: for headquarters, a manager of its branch, and the booking's
//! mother. Its branch is that of the booking's fact, or, while no such fact is known, the one that the
//! charge names. Finalizing a charge needs no token; reading it does.

use super::lifecycle::{FinancialLifecycle, FinancialLifecycleBody};
use crate::base::actor::{Actor, ActorKind};
use crate::domain::listing::{Filter, Scope};
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource;

/// Reads the lifecycle of the booking that the path names.
///
/// # Errors
/// `not_found` when no charge of the booking was finalized, or the actor may not see it.
pub fn read_lifecycle(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let lifecycle = readable(request)?;
    let body = FinancialLifecycleBody::new(&lifecycle);
    Representation::at_position(request.view, lifecycle.key(), &body)
}

/// Returns the lifecycle of the booking that the path names, for an actor who may read its charge.
///
/// # Errors
/// As [`read_lifecycle`].
pub(super) fn readable(request: &ReadRequest<'_>) -> Result<FinancialLifecycle, Rejection> {
    let id = request.param("reservationBookingId");
    let lifecycle = request.view.get::<FinancialLifecycle>(&[id]);
    lifecycle
        .filter(|lifecycle| request.allows(|| may_read(request, lifecycle)))
        .ok_or_else(Rejection::not_found)
}

/// Whether the actor may read this charge.
fn may_read(request: &ReadRequest<'_>, lifecycle: &FinancialLifecycle) -> bool {
    let (actor, charge) = (request.actor, &lifecycle.charge);
    let booking = request
        .view
        .fact::<ReservationBooking>(&charge.reservation_booking_id);
    actor.is_headquarters()
        || match booking {
            Some(booking) => is_concerned(actor, &booking.facts),
            None => actor.manages_branch(&charge.branch_profile_id),
        }
}

/// Whether the actor manages the booking's branch, or is its mother.
fn is_concerned(actor: &Actor, booking: &ReservationBooking) -> bool {
    actor.manages_branch(&booking.branch_profile_id)
        || actor.kind == ActorKind::Mother && *actor.subject == *booking.mother_user_id
}

/// Returns the part of the lifecycles that the actor may be shown.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    let actor = request.actor;
    match actor.kind {
        ActorKind::HeadquartersAdministrator => Scope::All,
        ActorKind::Mother => Scope::any(Filter::Mother, [&actor.subject]),
        ActorKind::BranchManager => {
            let charged = Scope::any(Filter::ChargedBranch, &actor.branch_profile_ids);
            Scope::managed_by(actor).or(charged)
        }
        _ => Scope::NOTHING,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::finalize_charge::samples::{PATH, charge, finalize, service};
    use super::*;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, headquarters, manager, member, with};

    fn booking() -> Value {
        json!({
            "motherUserId": "mother-1",
            "motherMemberId": "member-1",
            "branchProfileId": "branch-1",
            "state": "active",
        })
    }

    fn read(scenario: &Scenario) -> Result<(String, Value), Rejection> {
        scenario.read("read_financial_lifecycle", &PATH)
    }

    #[test]
    fn those_concerned_read_what_the_finalization_answered_at_its_position() {
        let mut service = service();
        service.fact("reservation-booking", "booking-1", 1, booking());
        let answer = finalize(&mut service, &charge()).committed();
        let mut tags = Vec::new();
        for reader in [
            headquarters(),
            manager("manager-1", "branch-1"),
            member(ActorKind::Mother, "mother-1", "member-1"),
        ] {
            let kind = reader.kind;
            let (tag, body) = read(service.acting(reader)).unwrap();
            assert_eq!(body, answer, "{kind}");
            tags.push(tag);
        }
        assert!(tags.iter().all(|tag| *tag == tags[0]), "{tags:?}");
        // Another resource's commit does not change the tag; its own next commit does, even with equal
        // amounts.
        service.fact("reservation-booking", "booking-1", 2, booking());
        assert_eq!(read(&service).unwrap().0, tags[0]);
        let anew = with(
            &charge(),
            &[("finalizedChargeSnapshotId", json!("snapshot-2"))],
        );
        finalize(&mut service, &anew).committed();
        let (tag, body) = read(service.acting(headquarters())).unwrap();
        assert_eq!(body, answer);
        assert!(tag.parse::<u64>().unwrap() > tags[0].parse().unwrap());
    }

    #[test]
    fn facts_that_come_later_do_not_change_what_was_finalized() {
        let mut service = service();
        let answer = finalize(&mut service, &charge()).committed();
        let facts = json!({"caregiverShareBasisPoints": 1, "headquartersShareBasisPoints": 1});
        service.fact("reservation-financial-facts", "booking-1", 4, facts);
        assert_eq!(read(service.acting(headquarters())).unwrap().1, answer);
    }

    #[test]
    fn without_a_charge_and_for_others_it_is_as_if_there_were_none() {
        let mut service = service();
        service
            .fact("reservation-booking", "booking-1", 1, booking())
            .acting(headquarters());
        let nothing = read(&service).unwrap_err();
        assert_eq!((nothing.class, nothing.code), (Class::Missing, "not_found"));
        finalize(&mut service, &charge()).committed();
        let mut readers = vec![
            // A manager of the branch that the request names without proof.
            manager("manager-9", "branch-of-the-request"),
            member(ActorKind::Mother, "mother-2", "member-1"),
            Actor::nobody(),
        ];
        for kind in ActorKind::ALL {
            if !matches!(
                kind,
                ActorKind::HeadquartersAdministrator | ActorKind::BranchManager | ActorKind::Mother
            ) {
                let mut reader = member(kind, "mother-1", "member-1");
                reader.branch_profile_ids = vec!["branch-1".into()];
                readers.push(reader);
            }
        }
        for reader in readers {
            let kind = reader.kind;
            assert_eq!(read(service.acting(reader)).unwrap_err(), nothing, "{kind}");
        }
        let other = [("reservationBookingId", "booking-2")];
        let refusal = service
            .acting(headquarters())
            .read("read_financial_lifecycle", &other)
            .unwrap_err();
        assert_eq!(refusal, nothing);
    }

    #[test]
    fn with_an_unknown_booking_the_branch_is_the_one_the_charge_names() {
        let mut service = service();
        finalize(&mut service, &charge()).committed();
        assert!(read(service.acting(headquarters())).is_ok());
        let named = || manager("manager-9", "branch-of-the-request");
        assert!(read(service.acting(named())).is_ok());
        for reader in [
            manager("manager-1", "branch-1"),
            member(ActorKind::Mother, "mother-1", "member-1"),
        ] {
            assert_eq!(read(service.acting(reader)).unwrap_err().code, "not_found");
        }
        service.fact("reservation-booking", "booking-1", 1, booking());
        assert_eq!(read(service.acting(named())).unwrap_err().code, "not_found");
        assert!(read(service.acting(manager("manager-1", "branch-1"))).is_ok());
    }
}
