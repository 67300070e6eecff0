//! Reads a care-history access grant: the mother who granted it, the grantee, headquarters, and a
//! manager of the booking's branch, which has the history, see all of it.

use super::care_history_authority::{CareHistoryGrant, CareHistoryGrantBody};
use super::grant::{self, is_member, is_mother};
use crate::domain::listing::Scope;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;

/// Reads the grant that the path names, at the grant's own revision.
///
/// # Errors
/// `not_found` when it does not exist, or the actor may not see it.
pub fn read_care_history_grant(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let actor = request.actor;
    let held = request.view.get::<CareHistoryGrant>(&[request.param("id")]);
    match held {
        Some(held)
            if request.allows(|| {
                actor.is_headquarters()
                    || is_mother(actor, &held.grant.terms.mother_member_id)
                    || is_member(actor, &held.grantee_member_id)
                    || grant::manages_booking(request, &held.reservation_booking_id)
            }) =>
        {
            Representation::at_revision(&held, &CareHistoryGrantBody::new(&held))
        }
        _ => Err(Rejection::not_found()),
    }
}

/// Returns the part of the grants that the actor may be shown.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    grant::scope(request.actor).or(Scope::managed_by(request.actor))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::actor::ActorKind;
    use crate::domain::family::samples::{ACCOUNT_PATH, access, family, mother, payer};
    use crate::domain::scenario::{actor, manager, member};

    const READ: &str = "read_care_history_grant";

    #[test]
    fn those_concerned_read_what_the_grant_answered_and_others_learn_nothing() {
        let mut service = family();
        service.acting(mother());
        let granted = service
            .when("grant_care_history_access", ACCOUNT_PATH, &access())
            .committed();
        let id = granted["reservationCareHistoryAccessGrantId"]
            .as_str()
            .unwrap();
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
        for stranger in [
            member(ActorKind::Mother, "user-2", "mother-2"),
            actor(ActorKind::Mother, "user-1"),
            member(ActorKind::FamilyMember, "user-4", "aunt"),
            manager("m", "branch-2"),
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
        let refusal = service.read(READ, &[("id", "no-such")]).unwrap_err();
        assert_eq!(refusal.code, "not_found");
    }
}
