//! A small world of sample facts, with at least one of every kind, in which each operation can be
//! carried out: a mother with her family, two bookings and three drafts; a branch with its
//! accounts; payments, a plan and policies. For templates and demonstrations.

use serde::Deserialize;

/// The samples, one fact a line. The first fact of each kind has the most fields.
pub const NDJSON: &str = include_str!("samples.ndjson");

/// Returns the samples' lines.
pub fn lines() -> impl Iterator<Item = &'static str> {
    NDJSON.lines()
}

/// Returns one sample of each kind, in the order of [`NDJSON`].
#[must_use]
pub fn template() -> Vec<&'static str> {
    #[derive(Deserialize)]
    struct Head<'a> {
        kind: &'a str,
    }
    let mut kinds = Vec::new();
    let mut template = Vec::new();
    for line in lines() {
        let head: Head<'_> =
            serde_json::from_str(line).expect("each sample is an object with a plain kind");
        if !kinds.contains(&head.kind) {
            kinds.push(head.kind);
            template.push(line);
        }
    }
    template
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;
    use crate::base::actor::ActorKind;
    use crate::domain::fact_kinds::FACTS;
    use crate::domain::sample_actors::sample_actors;

    /// Every kind of fact that other systems send.
    const KINDS: [&str; 19] = [
        "actor",
        "family-account",
        "reservation-booking",
        "mother-profile",
        "consent-version",
        "reservation-draft",
        "final-review-projection",
        "extension-eligibility",
        "payment-product-plan",
        "payment-obligation",
        "candidate-snapshot",
        "payout-instruction",
        "reservation-financial-facts",
        "regional-benefit-policy",
        "payment-change-adjustment",
        "branch-office-profile",
        "settlement-account",
        "relationship",
        "gateway-payment",
    ];

    fn world() -> Vec<Value> {
        lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn every_kind_has_a_sample_and_the_template_shows_each_once() {
        let found: BTreeSet<_> = world()
            .iter()
            .map(|fact| fact["kind"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(found, KINDS.map(str::to_owned).into());
        assert_eq!(template().len(), KINDS.len());
        for known in FACTS {
            assert!(KINDS.contains(&known.kind().name), "{}", known.kind().name);
        }
    }

    #[test]
    fn every_resource_that_a_sample_refers_to_exists() {
        let world = world();
        let mut revisions = BTreeMap::new();
        for fact in &world {
            let key = (fact["kind"].as_str().unwrap(), fact["id"].as_str().unwrap());
            let before = revisions.insert(key, fact["revision"].as_i64().unwrap());
            assert_eq!(before, None, "{key:?} twice");
        }
        let stands = |kind: &str, id: &Value| {
            let id = id.as_str().unwrap();
            assert!(revisions.contains_key(&(kind, id)), "no {kind} {id}");
        };
        let family = world
            .iter()
            .find(|fact| fact["kind"] == "family-account")
            .unwrap();
        let members = family["facts"]["memberIds"].as_array().unwrap();
        for fact in &world {
            for (member, value) in fact["facts"].as_object().unwrap() {
                match member.as_str() {
                    _ if value.is_null() => {}
                    "reservationBookingId" | "extensionSourceReservationId" => {
                        stands("reservation-booking", value);
                    }
                    "branchProfileId" | "branchOfficeProfileId" => {
                        stands("branch-office-profile", value);
                    }
                    "paymentProductPlanCode" => stands("payment-product-plan", value),
                    "familyAccountId" => stands("family-account", value),
                    "draftId" => stands("reservation-draft", value),
                    "currentReviewProjectionId" => stands("final-review-projection", value),
                    "motherUserId" | "ownerSubject" => stands("actor", value),
                    "motherMemberId" => assert!(members.contains(value)),
                    "payment" => stands("payment-product-plan", &value["paymentProductPlanCode"]),
                    "eligibleReservationBookingIds" => {
                        for id in value.as_array().unwrap() {
                            stands("reservation-booking", id);
                        }
                    }
                    "dependencies" => {
                        for item in value.as_array().unwrap() {
                            let key =
                                (item["kind"].as_str().unwrap(), item["id"].as_str().unwrap());
                            assert_eq!(revisions.get(&key).copied(), item["revision"].as_i64());
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn drafts_and_their_current_reviews_name_each_other() {
        let world = world();
        let of = |kind: &str, id: &Value| {
            world
                .iter()
                .find(|fact| fact["kind"] == kind && fact["id"] == *id)
                .unwrap()
                .clone()
        };
        for draft in world
            .iter()
            .filter(|fact| fact["kind"] == "reservation-draft")
        {
            let facts = &draft["facts"];
            let review = of(
                "final-review-projection",
                &facts["currentReviewProjectionId"],
            );
            assert_eq!(review["facts"]["draftId"], draft["id"]);
            assert_eq!(facts["disabledReasonCodes"], serde_json::json!([]));
            let source = &review["facts"]["extensionSourceReservationId"];
            assert_eq!(facts["intent"] == "extension", source.is_string());
            if source.is_string() {
                let eligibility = of("extension-eligibility", &facts["ownerSubject"]);
                let eligible = &eligibility["facts"]["eligibleReservationBookingIds"];
                assert!(eligible.as_array().unwrap().contains(source));
                assert_eq!(
                    review["facts"]["extensionCatalogRevision"],
                    eligibility["revision"]
                );
            }
        }
    }

    #[test]
    fn the_sample_actors_are_active_one_of_each_kind_with_its_relationship() {
        let world = world();
        let actors = sample_actors();
        assert!(actors.iter().map(|actor| actor.kind).eq(ActorKind::ALL));
        let stands = |kind: &str, member: &str, value: &str, subject: &str| {
            world.iter().any(|fact| {
                fact["kind"] == kind
                    && fact["facts"][member] == value
                    && (fact["id"] == subject || fact["facts"]["subject"] == subject)
            })
        };
        for actor in &actors {
            assert!(stands("actor", "lifecycle", "active", &actor.subject));
            let object = match actor.kind {
                ActorKind::BranchFinanceOperator => "branch/branch-seoul-1",
                ActorKind::HeadquartersFinanceOperator => "headquarters",
                _ => continue,
            };
            assert!(stands("relationship", "object", object, &actor.subject));
        }
    }
}
