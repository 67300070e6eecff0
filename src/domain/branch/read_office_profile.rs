//! Reads the current revision of a branch office's profile: for headquarters and managers of the
//! branch.

use super::office_profile::{BranchOfficeProfile, ProfileRevisionBody, may_update};
use crate::domain::listing::Scope;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;

/// Reads the profile that the path names.
///
/// `not_found` when it does not exist, or the actor may not see it.
pub fn read_office_profile(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let id = request.param("id");
    let profile = request.view.get::<BranchOfficeProfile>(&[id]);
    let Some(profile) = profile.filter(|_| request.allows(|| may_update(request.actor, id))) else {
        return Err(Rejection::not_found());
    };
    Representation::at_revision(&profile, &ProfileRevisionBody::new(&profile))
}

/// Returns the part of the profiles that the actor may be shown.
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
    use serde_json::json;

    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::scenario::{Scenario, headquarters, manager};

    const READ: &str = "read_branch_office_profile";

    fn ready() -> Scenario {
        let mut scenario = Scenario::new();
        let facts = json!({
            "displayName": "서울 1지점",
            "legalName": "서울산후케어 주식회사",
            "contactEmail": "seoul@example.org",
            "primaryPhoneNumber": "+82212345678",
            "addressLine": "서울 중구 세종대로 110",
            "businessRegistrationReference": "KR/1248100998",
        });
        scenario.fact("branch-office-profile", "branch-1", 5, facts);
        scenario
    }

    #[test]
    fn before_its_first_update_it_reads_with_what_its_fact_tells() {
        let mut scenario = ready();
        for reader in [headquarters(), manager("manager-1", "branch-1")] {
            let (tag, body) = scenario
                .acting(reader)
                .read(READ, &[("id", "branch-1")])
                .unwrap();
            assert_eq!(tag, "5");
            assert_eq!(
                body,
                json!({
                    "revisionId": null,
                    "branchOfficeProfileId": "branch-1",
                    "revisionNumber": 5,
                    "factGroup": "profile",
                    "actorId": null,
                    "reason": null,
                    "effectiveAt": "2026-11-20T12:00:00.000Z",
                })
            );
        }
    }

    #[test]
    fn others_do_not_learn_that_it_exists() {
        let mut scenario = ready();
        let mut others: Vec<_> = ActorKind::ALL
            .into_iter()
            .filter(|kind| {
                !matches!(
                    kind,
                    ActorKind::HeadquartersAdministrator | ActorKind::BranchManager
                )
            })
            .map(|kind| Actor {
                kind,
                ..manager("somebody", "branch-1")
            })
            .collect();
        others.push(manager("manager-2", "branch-2"));
        for other in others {
            let found = scenario.acting(other).read(READ, &[("id", "branch-1")]);
            assert_eq!(found, Err(Rejection::not_found()));
        }
        for reader in [headquarters(), manager("manager-2", "branch-2")] {
            let found = scenario.acting(reader).read(READ, &[("id", "branch-2")]);
            assert_eq!(found, Err(Rejection::not_found()));
        }
    }
}
