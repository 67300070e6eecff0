//! Reads the care-team roster of a booking: headquarters and the managers of the booking's branch
//! see the answer to its latest decision, at the roster's revision: the decisions of its
//! rosterDecisionId, and no earlier ones.

use super::roster::{CareTeamRoster, RosterDecision, may_assign};
use super::roster_body::AssignmentResultBody;
use crate::base::text::BookingId;
use crate::domain::listing::Scope;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::rejection::Rejection;

/// Reads the roster of the booking that the path names.
///
/// # Errors
/// `not_found` when nothing was decided on the booking, or the actor may not see it.
pub fn read_roster(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let id = request.param("reservationBookingId");
    let may_read = request.allows(|| {
        let booking = request
            .view
            .fact::<ReservationBooking>(&BookingId::from_trusted(id));
        booking.is_some_and(|booking| may_assign(request.actor, &booking.facts))
    });
    if !may_read {
        return Err(Rejection::not_found());
    }
    let Some(roster) = request.view.get::<CareTeamRoster>(&[id]) else {
        return Err(Rejection::not_found());
    };
    let together = request
        .view
        .get::<RosterDecision>(&[id, roster.latest.as_str()]);
    let decisions = together.map(|together| together.decisions(request.view));
    let decisions = decisions.unwrap_or_default();
    Representation::at_revision(&roster, &AssignmentResultBody::new(&decisions))
}

/// Returns the part of the rosters that the actor may be shown.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    match request.actor.is_headquarters() {
        true => Scope::All,
        false => Scope::managed_by(request.actor),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{assign, assigning, assignment, booking};
    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, actor, headquarters, manager, member, with};

    fn read(service: &mut Scenario, reader: Actor, id: &str) -> Result<(String, Value), Rejection> {
        service
            .acting(reader)
            .read("read_care_team_roster", &[("reservationBookingId", id)])
    }

    #[test]
    fn those_who_may_assign_read_what_the_latest_assignment_answered() {
        let mut service = assigning();
        let first = assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        let found = read(&mut service, headquarters(), "booking-1").unwrap();
        assert_eq!(found, ("1".to_owned(), first));
        let of_another = with(
            &assignment(2, "slot-2", 1),
            &[("rosterDecisionId", json!("roster-decision-2"))],
        );
        assign(&mut service, &of_another).committed();
        let latest = assign(&mut service, &assignment(3, "slot-3", 2)).committed();
        let mut of_several = manager("manager", "branch-7");
        of_several.branch_profile_ids.push("branch-1".into());
        for reader in [headquarters(), manager("manager", "branch-1"), of_several] {
            let kind = reader.kind;
            let found = read(&mut service, reader, "booking-1").unwrap();
            assert_eq!(found, ("3".to_owned(), latest.clone()), "{kind}");
        }
    }

    #[test]
    fn a_roster_is_read_on_when_the_booking_is_over() {
        let mut service = assigning();
        let answer = assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        service
            .acting(actor(ActorKind::SystemWorkflow, "workflow"))
            .fact("reservation-booking", "booking-1", 6, booking("completed"));
        let found = read(&mut service, headquarters(), "booking-1").unwrap();
        assert_eq!(found, ("1".to_owned(), answer));
    }

    #[test]
    fn a_roster_at_revision_0_is_not_found() {
        let mut service = assigning();
        for id in ["booking-1", "no-such-booking", ""] {
            let refusal = read(&mut service, headquarters(), id).unwrap_err();
            assert_eq!(
                (refusal.class, refusal.code),
                (Class::Missing, "not_found"),
                "{id}"
            );
        }
    }

    #[test]
    fn for_others_it_is_as_if_there_were_none() {
        let mut service = assigning();
        let nothing = read(&mut service, headquarters(), "booking-1").unwrap_err();
        service.acting(manager("manager", "branch-1"));
        assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        let mut readers = vec![
            manager("manager", "branch-2"),
            member(ActorKind::Mother, "user-1", "mother-1"),
        ];
        for kind in [
            ActorKind::Mother,
            ActorKind::FamilyMember,
            ActorKind::BranchFinanceOperator,
            ActorKind::HeadquartersFinanceOperator,
            ActorKind::SystemWorkflow,
        ] {
            let mut reader = actor(kind, "somebody");
            reader.branch_profile_ids = vec!["branch-1".into()];
            readers.push(reader);
        }
        for reader in readers {
            let kind = reader.kind;
            let refusal = read(&mut service, reader, "booking-1").unwrap_err();
            assert_eq!(refusal, nothing, "{kind}");
        }
    }
}
