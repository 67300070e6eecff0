//! Lets a mother read her own profile, even while her account is not active. No other actor may,
//! not even the head office.

use super::state::{MotherProfile, ProfileBody};
use crate::base::actor::ActorKind;
use crate::domain::read::{HistorySource, Numbered, ReadRequest, Representation};
use crate::domain::reference::kinds::consent_version::required_at;
use crate::domain::reference::kinds::mother_profile::owner;
use crate::domain::rejection::Rejection;

/// The history of the actor's own profile.
pub const HISTORY: HistorySource =
    HistorySource::of::<MotherProfile>(Numbered::ByRevision, |request| {
        let holder = request.view.holder(owner(&request.actor.subject));
        holder.into_iter().collect()
    });

/// Reads the actor's own profile.
///
/// # Errors
/// `not_found` when the actor is no mother, or has no profile.
pub fn read_profile(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    if request.actor.kind != ActorKind::Mother {
        return Err(Rejection::not_found());
    }
    let Some(profile) = request
        .view
        .named::<MotherProfile>(owner(&request.actor.subject))
    else {
        return Err(Rejection::not_found());
    };
    let required = required_at(request.view, request.now);
    Representation::at_revision_and_digest(&profile, &ProfileBody::new(&profile, &required))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use crate::base::actor::ActorKind;
    use crate::domain::mother::state::samples::{fact, given_profile, mother};
    use crate::domain::rejection::Rejection;
    use crate::domain::scenario::{Scenario, actor, revision_of};

    const READ: &str = "read_mother_profile";

    #[test]
    fn the_owner_alone_finds_the_profile() {
        let mut scenario = Scenario::new();
        assert_eq!(
            scenario.acting(mother()).read(READ, &[]),
            Err(Rejection::not_found())
        );
        given_profile(&mut scenario);
        assert_eq!(
            scenario.read(READ, &[]).unwrap().1["motherProfileId"],
            "profile-1"
        );
        for kind in ActorKind::ALL {
            scenario.acting(actor(kind, "somebody"));
            assert_eq!(
                scenario.read(READ, &[]),
                Err(Rejection::not_found()),
                "{kind}"
            );
            if kind != ActorKind::Mother {
                scenario.acting(actor(kind, "mother-1"));
                assert_eq!(
                    scenario.read(READ, &[]),
                    Err(Rejection::not_found()),
                    "{kind}"
                );
            }
        }
    }

    #[test]
    fn it_may_be_read_while_the_account_is_not_active() {
        for lifecycle in ["withdrawal_pending", "withdrawn"] {
            let mut scenario = Scenario::new();
            let mut facts = fact();
            facts["accountLifecycle"] = lifecycle.into();
            scenario.fact("mother-profile", "profile-1", 1, facts);
            let (tag, body) = scenario.acting(mother()).read(READ, &[]).unwrap();
            assert_eq!(revision_of(&tag), "1");
            assert_eq!(body["accountLifecycle"], lifecycle);
            assert_eq!(body["allowedNextActions"], json!([]));
            assert_eq!(body["idempotentReplay"], false);
        }
    }

    #[test]
    fn a_consent_version_counts_from_the_moment_of_its_publication() {
        let mut scenario = Scenario::new();
        given_profile(&mut scenario);
        let facts =
            json!({"publishedAt": "2026-12-01T00:00:00Z", "required": true, "current": true});
        scenario
            .fact("consent-version", "terms@1", 1, facts)
            .acting(mother());
        let completeness = |scenario: &Scenario| {
            scenario.read(READ, &[]).unwrap().1["profileCompleteness"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            completeness(scenario.at("2026-11-30T23:59:59.999Z")),
            "complete"
        );
        let tag = |scenario: &Scenario| scenario.read(READ, &[]).unwrap().0;
        let before = tag(&scenario);
        assert_eq!(
            completeness(scenario.at("2026-12-01T00:00:00Z")),
            "incomplete"
        );
        let after = tag(&scenario);
        assert_ne!(before, after, "the body has changed");
        assert_eq!(
            (revision_of(&before), revision_of(&after)),
            ("1".to_owned(), "1".to_owned())
        );
        scenario.at("2026-12-01T00:00:01Z");
        assert_eq!(tag(&scenario), after, "the body has not");
    }
}
