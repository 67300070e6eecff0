//! `consent-version`, by `{policyKey}@{versionLabel}`: one version of a text that mothers consent
//! to.

use crate::base::json::{FaultCode, Shape};
use crate::base::text::{PolicyKey, VersionLabel};
use crate::base::time::Timestamp;
use crate::domain::index::{Index, IndexKey};
use crate::domain::reference::{Fact, FactKind, HeldAlone, has_form};
use crate::domain::resource::{Kind, ReadView};
use crate::json_object;

json_object! {
    /// What is known of a consent version.
    pub struct ConsentVersionFact {
        /// From when on it is published.
        pub published_at: Timestamp = "publishedAt",
        /// Whether every mother must accept it.
        pub required: bool = "required",
        /// Whether it is the version in force of its policy.
        pub current: bool = "current",
    }
}

impl ConsentVersionFact {
    /// Whether it is published at `now`.
    #[must_use]
    pub fn is_published(&self, now: Timestamp) -> bool {
        self.published_at <= now
    }

    /// Whether it is the version in force of its policy, and every mother must accept it.
    fn is_required(&self) -> bool {
        self.required && self.current
    }
}

impl HeldAlone for ConsentVersionFact {
    type Id = str;
}

impl FactKind for ConsentVersionFact {
    const KIND: Kind = Kind {
        tag: 5,
        name: "consent-version",
    };
    const ID: &'static str = "`{policyKey}@{versionLabel}`";

    fn id_shape() -> Shape {
        Shape::Text {
            shortest: 3,
            longest: 241,
            blank: false,
            form: "",
            pattern: r"^[a-z][a-z0-9_.:-]{0,119}@[a-z0-9][a-z0-9_.:-]{0,119}$",
            known: &[],
        }
    }

    fn id_fault(id: &str) -> Option<FaultCode> {
        let has_form = id.split_once('@').is_some_and(|(policy, version)| {
            has_form::<PolicyKey>(policy) && has_form::<VersionLabel>(version)
        });
        (!has_form).then_some(FaultCode::Pattern)
    }

    fn secondary_keys(&self, _: &str) -> Vec<IndexKey> {
        let mut lists = vec![consent_versions()];
        lists.extend(self.is_required().then(required_consents));
        lists
    }
}

/// The list of the current versions that every mother must accept, published or to be.
fn required_consents() -> IndexKey {
    IndexKey::new(Index::RequiredConsents, &[])
}

/// The list of all versions.
fn consent_versions() -> IndexKey {
    IndexKey::new(Index::ConsentVersions, &[])
}

/// The identifier of a consent version. Neither part can have an `@` in it.
#[must_use]
pub fn version_id(policy_key: &PolicyKey, version_label: &VersionLabel) -> String {
    format!("{policy_key}@{version_label}")
}

/// The identifiers of the consent versions that a mother must have accepted at `now`: those
/// required, current and published.
#[must_use]
pub fn required_at(view: &ReadView<'_>, now: Timestamp) -> Vec<Box<str>> {
    // What was required once may be so no more.
    view.all_listed_within::<Fact<ConsentVersionFact>>(required_consents(), consent_versions())
        .into_iter()
        .filter(|version| version.facts.is_required() && version.facts.is_published(now))
        .map(|version| version.id)
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::scenario::Scenario;

    fn facts(published_at: &str, required: bool, current: bool) -> Value {
        json!({"publishedAt": published_at, "required": required, "current": current})
    }

    fn required(scenario: &Scenario, now: &str) -> Vec<String> {
        let now = Timestamp::parse(now).unwrap();
        let mut ids = scenario.view(|view| required_at(view, now));
        ids.sort();
        ids.into_iter().map(String::from).collect()
    }

    #[test]
    fn required_are_the_versions_that_are_required_current_and_published() {
        let mut scenario = Scenario::new();
        scenario
            .fact(
                "consent-version",
                "privacy@1",
                1,
                facts("2026-01-01T00:00:00Z", true, false),
            )
            .fact(
                "consent-version",
                "privacy@2",
                1,
                facts("2026-02-01T00:00:00Z", true, true),
            )
            .fact(
                "consent-version",
                "marketing@1",
                1,
                facts("2026-01-01T00:00:00Z", false, true),
            )
            .fact(
                "consent-version",
                "terms@1",
                1,
                facts("2026-12-01T00:00:00Z", true, true),
            );
        assert_eq!(required(&scenario, "2026-11-20T00:00:00Z"), ["privacy@2"]);
        assert_eq!(
            required(&scenario, "2026-11-30T23:59:59.999Z"),
            ["privacy@2"]
        );
        assert_eq!(
            required(&scenario, "2026-12-01T00:00:00Z"),
            ["privacy@2", "terms@1"]
        );
    }

    #[test]
    fn a_later_fact_takes_a_version_out_of_the_list_and_puts_it_back() {
        let mut scenario = Scenario::new();
        let now = "2026-11-20T00:00:00Z";
        scenario.fact("consent-version", "privacy@1", 1, facts(now, true, true));
        assert_eq!(required(&scenario, now), ["privacy@1"]);
        scenario.fact("consent-version", "privacy@1", 2, facts(now, true, false));
        assert_eq!(required(&scenario, now), [""; 0]);
        scenario.fact("consent-version", "privacy@1", 3, facts(now, true, true));
        scenario.fact(
            "consent-version",
            "privacy@1",
            4,
            facts("2026-11-19T00:00:00Z", true, true),
        );
        assert_eq!(required(&scenario, now), ["privacy@1"]);
    }

    #[test]
    fn an_identifier_is_a_policy_and_a_version_that_can_be_accepted() {
        let mut scenario = Scenario::new();
        for id in [
            "privacy",
            "privacy@",
            "@1",
            "Privacy@1",
            "privacy@V1",
            "a@1@2",
            "privacy @1",
        ] {
            let then = scenario.put_fact(
                "consent-version",
                id,
                1,
                facts("2026-01-01T00:00:00Z", true, true),
            );
            assert_eq!(then.faults(), [("id".to_owned(), "pattern")], "{id}");
        }
        scenario.fact(
            "consent-version",
            "p.a_b:c-1@2026.01",
            1,
            facts("2026-01-01T00:00:00Z", true, true),
        );
    }
}
