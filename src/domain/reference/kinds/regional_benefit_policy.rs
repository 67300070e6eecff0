//! `regional-benefit-policy`, by policy: the benefit that a region adds to the price of a service.

use std::cmp::Reverse;

use crate::base::json::{AtLeast, FaultCode, Reader};
use crate::base::text::{Ident, Text};
use crate::base::time::Date;
use crate::domain::index::{Index, IndexKey};
use crate::domain::reference::basis_points::BasisPoints;
use crate::domain::reference::{Fact, FactKind, HeldAlone};
use crate::domain::resource::{Kind, ReadView};
use crate::json_object;

json_object! {
    /// What is known of a policy. It grants either a fixed amount or a part of the service's
    /// price, never both.
    pub struct RegionalBenefitPolicyFact {
        /// The type of service that it is for.
        pub service_type: Ident = "serviceType",
        /// The region: the widest level of an address.
        pub level1: Text = "level1" personal Address,
        /// The next narrower level; null is all of it.
        pub level2: Option<Text> = "level2" personal Address,
        /// The narrowest level; null is all of it.
        pub level3: Option<Text> = "level3" personal Address,
        /// The first day on which it holds.
        pub effective_from: Date = "effectiveFrom",
        /// The last day on which it holds; null is without end.
        pub effective_until: Option<Date> = "effectiveUntil",
        /// A fixed amount, in won; exactly one of it and `basisPoints` is given.
        pub fixed_krw: Option<AtLeast<0>> = "fixedKrw",
        /// A part of the service's price; exactly one of it and `fixedKrw` is given.
        pub basis_points: Option<BasisPoints> = "basisPoints",
        /// The most that it grants, in won, of either kind.
        pub cap_krw: Option<AtLeast<0>> = "capKrw",
    }
    rules consistent(Fields)
}

fn consistent(at: &mut Reader, fields: &Fields<'_>) {
    if let (Some(from), Some(Some(until))) = (fields.effective_from, fields.effective_until)
        && until < from
    {
        at.fault_of_new_at("effectiveUntil", FaultCode::OutOfRange);
    }
    exactly_one(at, fields);
}

fn exactly_one(at: &mut Reader, fields: &Fields<'_>) {
    // The outer `None` is a faulty field, whose fault was already noted.
    let code = match (fields.fixed_krw, fields.basis_points) {
        (Some(Some(_)), Some(Some(_))) => FaultCode::NotAllowed,
        (Some(None), Some(None)) => FaultCode::Required,
        _ => return,
    };
    at.fault_at::<()>("basisPoints", code);
}

impl HeldAlone for RegionalBenefitPolicyFact {
    type Id = str;
}

impl FactKind for RegionalBenefitPolicyFact {
    const KIND: Kind = Kind {
        tag: 14,
        name: "regional-benefit-policy",
    };
    const ID: &'static str = "the policy, as its keeper names it";

    fn secondary_keys(&self, _: &str) -> Vec<IndexKey> {
        let (level2, level3) = (self.level2.as_ref(), self.level3.as_ref());
        vec![policies_of(
            &self.service_type,
            &self.level1,
            level2,
            level3,
        )]
    }
}

/// Returns the key of the list of the policies for this type of service that name exactly these
/// levels; null is a level of its own, which no text equals.
fn policies_of(
    service_type: &Ident,
    level1: &Text,
    level2: Option<&Text>,
    level3: Option<&Text>,
) -> IndexKey {
    let [level2, level3] =
        [level2, level3].map(|level| level.map_or(["null", ""], |level| ["named", level.as_str()]));
    let parts = [[service_type.as_str(), level1.as_str()], level2, level3];
    IndexKey::new(Index::RegionalBenefitPolicies, parts.as_flattened())
}

/// The service, the place and the day for which a benefit is looked up.
#[derive(Clone, Copy, Debug)]
pub struct BenefitCase<'a> {
    /// The type of service.
    pub service_type: &'a Ident,
    /// The widest level of the address.
    pub level1: &'a Text,
    /// The next narrower level, where known.
    pub level2: Option<&'a Text>,
    /// The narrowest level, where known.
    pub level3: Option<&'a Text>,
    /// The day.
    pub on: Date,
}

impl BenefitCase<'_> {
    /// Returns the keys of the lists that contain every policy for the case's service and place: one list
    /// for the place itself, and one for each wider one.
    fn lists(&self) -> Vec<IndexKey> {
        let mut lists = Vec::with_capacity(4);
        for level2 in [None].into_iter().chain(self.level2.map(Some)) {
            for level3 in [None].into_iter().chain(self.level3.map(Some)) {
                lists.push(policies_of(self.service_type, self.level1, level2, level3));
            }
        }
        lists
    }
}

impl RegionalBenefitPolicyFact {
    /// Whether the policy holds for this case: that day, that service, and each level that the
    /// policy names.
    #[must_use]
    pub fn holds_for(&self, case: &BenefitCase<'_>) -> bool {
        let covers = |own: &Option<Text>, level: Option<&Text>| {
            own.as_ref().is_none_or(|own| Some(own) == level)
        };
        self.service_type == *case.service_type
            && self.level1 == *case.level1
            && covers(&self.level2, case.level2)
            && covers(&self.level3, case.level3)
            && self.effective_from <= case.on
            && self.effective_until.is_none_or(|until| case.on <= until)
    }

    /// Returns how many levels it names.
    fn levels_named(&self) -> usize {
        1 + usize::from(self.level2.is_some()) + usize::from(self.level3.is_some())
    }
}

/// Returns the policy for this case: among those that hold, the one that names most levels; among
/// several of these, the one that began last, then the one with the smallest identifier. It costs time in
/// proportion to the policies of the place and of the wider ones, whatever other places have.
#[must_use]
pub fn policy_for(
    view: &ReadView<'_>,
    case: &BenefitCase<'_>,
) -> Option<Fact<RegionalBenefitPolicyFact>> {
    case.lists()
        .into_iter()
        .flat_map(|list| view.all_listed::<Fact<RegionalBenefitPolicyFact>>(list))
        .filter(|policy| policy.facts.holds_for(case))
        .max_by(|one, other| {
            let rank = |policy: &Fact<RegionalBenefitPolicyFact>| {
                (policy.facts.levels_named(), policy.facts.effective_from)
            };
            rank(one)
                .cmp(&rank(other))
                .then_with(|| Reverse(&one.id).cmp(&Reverse(&other.id)))
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng as _, SeedableRng as _};
    use serde_json::{Value, json};

    use super::*;
    use crate::base::json::Fault;
    use crate::domain::reference::put::FactResult;
    use crate::domain::resource::Resource as _;
    use crate::domain::scenario::{Scenario, Then};

    /// Puts a policy for care in Seoul, with these lower levels and days.
    fn put(
        scenario: &mut Scenario,
        id: &str,
        revision: i64,
        levels: [Option<&str>; 2],
        days: (&str, Option<&str>),
    ) {
        let facts = json!({
            "serviceType": "care",
            "level1": "Seoul",
            "level2": levels[0],
            "level3": levels[1],
            "effectiveFrom": days.0,
            "effectiveUntil": days.1,
            "fixedKrw": 1,
        });
        scenario.fact("regional-benefit-policy", id, revision, facts);
    }

    fn found(scenario: &Scenario, levels: [Option<&str>; 2], on: &str) -> Option<String> {
        let [level2, level3] = levels.map(|level| level.map(Text::from_trusted));
        let case = BenefitCase {
            service_type: &Ident::from_trusted("care"),
            level1: &Text::from_trusted("Seoul"),
            level2: level2.as_ref(),
            level3: level3.as_ref(),
            on: Date::parse(on).unwrap(),
        };
        let policy = scenario.view(|view| policy_for(view, &case));
        policy.map(|policy| policy.id.to_string())
    }

    /// Returns the policy that a search through all of them finds.
    fn found_among(
        policies: &[Fact<RegionalBenefitPolicyFact>],
        case: &BenefitCase<'_>,
    ) -> Option<String> {
        let holding = policies
            .iter()
            .filter(|policy| policy.facts.holds_for(case));
        let first = holding.min_by_key(|policy| {
            let facts = &policy.facts;
            let named = usize::from(facts.level2.is_some()) + usize::from(facts.level3.is_some());
            (Reverse(named), Reverse(facts.effective_from), &policy.id)
        });
        first.map(|policy| policy.id.to_string())
    }

    const DAY: &str = "2026-11-20";
    const ALWAYS: (&str, Option<&str>) = ("2026-01-01", None);

    #[test]
    fn the_policy_that_names_most_levels_wins_whatever_its_day() {
        let mut scenario = Scenario::new();
        put(&mut scenario, "all", 1, [None, None], ("2026-06-01", None));
        assert_eq!(found(&scenario, [None, None], DAY).unwrap(), "all");
        put(&mut scenario, "jung", 1, [Some("Jung"), None], ALWAYS);
        put(&mut scenario, "dong", 1, [Some("Jung"), Some("1")], ALWAYS);
        for (levels, id) in [
            ([None, None], "all"),
            ([Some("Mapo"), Some("1")], "all"),
            ([None, Some("1")], "all"),
            ([Some("Jung"), None], "jung"),
            ([Some("Jung"), Some("2")], "jung"),
            ([Some("Jung"), Some("1")], "dong"),
        ] {
            assert_eq!(found(&scenario, levels, DAY).unwrap(), id, "{levels:?}");
        }
    }

    #[test]
    fn a_policy_may_name_the_narrowest_level_without_the_one_between() {
        let mut scenario = Scenario::new();
        put(&mut scenario, "any-1", 1, [None, Some("1")], ALWAYS);
        assert_eq!(
            found(&scenario, [Some("Jung"), Some("1")], DAY).unwrap(),
            "any-1"
        );
        assert_eq!(found(&scenario, [Some("Jung"), None], DAY), None);
    }

    #[test]
    fn the_policy_is_the_one_that_a_search_through_all_of_them_finds() {
        let seed = crate::base::testing::seed();
        let mut random = SmallRng::seed_from_u64(seed);
        let mut scenario = Scenario::new();
        // Among them are texts that could be taken for null, and one that is at home on both levels.
        let (level2s, level3s) = (["Jung", "Mapo", "null"], ["1", "2", "Jung", "named"]);
        let mut revisions = [0; 60];
        for _ in 0..150 {
            let number = random.random_range(0..revisions.len());
            revisions[number] += 1;
            let [level2, level3] = [level2s.as_slice(), level3s.as_slice()].map(|levels| {
                let level = random.random_range(0..levels.len());
                random.random_bool(0.6).then_some(levels[level])
            });
            let from = random.random_range(1..=28);
            let until = random.random_range(from..=28);
            let [from, until] = [from, until].map(|day| format!("2026-11-{day:02}"));
            let until = random.random_bool(0.5).then_some(until.as_str());
            let (id, levels) = (format!("policy-{number}"), [level2, level3]);
            put(
                &mut scenario,
                &id,
                revisions[number],
                levels,
                (from.as_str(), until),
            );
        }
        let ids = (0..revisions.len()).map(|number| format!("policy-{number}"));
        let all: Vec<Fact<RegionalBenefitPolicyFact>> = ids
            .filter_map(|id| scenario.state(&[id.as_str()]))
            .collect();
        let each = |levels: &[&'static str]| {
            let named = levels.iter().map(|level| Some(*level));
            [None].into_iter().chain(named).collect::<Vec<_>>()
        };
        for level2 in each(&level2s) {
            for level3 in each(&level3s) {
                for day in 1..=28 {
                    let (day, levels) = (format!("2026-11-{day:02}"), [level2, level3]);
                    let found = found(&scenario, levels, &day);
                    let [level2, level3] = levels.map(|level| level.map(Text::from_trusted));
                    let case = BenefitCase {
                        service_type: &Ident::from_trusted("care"),
                        level1: &Text::from_trusted("Seoul"),
                        level2: level2.as_ref(),
                        level3: level3.as_ref(),
                        on: Date::parse(&day).unwrap(),
                    };
                    let expected = found_among(&all, &case);
                    assert_eq!(found, expected, "{levels:?} {day} SEED={seed}");
                }
            }
        }
    }

    #[test]
    fn only_policies_of_the_place_are_read_and_every_relevant_list_is_seen() {
        let mut scenario = Scenario::new();
        for number in 0..20 {
            let (id, level3) = (format!("other-{number}"), number.to_string());
            let levels = [Some("Mapo"), Some(level3.as_str())];
            put(&mut scenario, &id, 1, levels, ALWAYS);
        }
        let [level2, level3] = ["Jung", "1"].map(Text::from_trusted);
        let case = BenefitCase {
            service_type: &Ident::from_trusted("care"),
            level1: &Text::from_trusted("Seoul"),
            level2: Some(&level2),
            level3: Some(&level3),
            on: Date::parse(DAY).unwrap(),
        };
        let seen = |scenario: &Scenario| {
            scenario.counted_view(|view| {
                let _ = policy_for(view, &case);
                view.secondary_seen()
            })
        };
        let (mut before, reads) = seen(&scenario);
        assert_eq!((before.len(), reads), (4, 0));
        let places = [
            [None, None],
            [None, Some("1")],
            [Some("Jung"), None],
            [Some("Jung"), Some("1")],
        ];
        for (number, levels) in places.into_iter().enumerate() {
            put(&mut scenario, &format!("p-{number}"), 1, levels, ALWAYS);
            let (now, reads) = seen(&scenario);
            assert_eq!(reads, number + 1, "{levels:?}");
            assert_ne!(now, before, "{levels:?}");
            before = now;
        }
    }

    #[test]
    fn of_equally_specific_policies_the_latest_then_the_smallest_id_wins() {
        let mut scenario = Scenario::new();
        put(&mut scenario, "b", 1, [None, None], ALWAYS);
        put(&mut scenario, "a", 1, [None, None], ALWAYS);
        put(&mut scenario, "c", 1, [None, None], ALWAYS);
        assert_eq!(found(&scenario, [None, None], DAY).unwrap(), "a");
        put(&mut scenario, "c", 2, [None, None], ("2026-01-02", None));
        assert_eq!(found(&scenario, [None, None], DAY).unwrap(), "c");
        // A policy that has not begun yet has the latest beginning and is ignored.
        put(&mut scenario, "d", 1, [None, None], ("2026-11-21", None));
        assert_eq!(found(&scenario, [None, None], DAY).unwrap(), "c");
    }

    #[test]
    fn the_first_and_the_last_day_are_days_of_the_policy() {
        let mut scenario = Scenario::new();
        let days = ("2026-11-10", Some("2026-11-20"));
        put(&mut scenario, "p", 1, [None, None], days);
        for (day, holds) in [
            ("2026-11-09", false),
            ("2026-11-10", true),
            ("2026-11-20", true),
            ("2026-11-21", false),
        ] {
            assert_eq!(
                found(&scenario, [None, None], day).is_some(),
                holds,
                "{day}"
            );
        }
    }

    #[test]
    fn a_policy_may_hold_for_one_day_and_not_end_before_it_begins() {
        let mut scenario = Scenario::new();
        let policy = |until: &str| {
            json!({"serviceType": "care", "level1": "Seoul", "effectiveFrom": "2026-10-31",
                "effectiveUntil": until, "fixedKrw": 1})
        };
        let kind = "regional-benefit-policy";
        scenario.fact(kind, "p", 1, policy("2026-10-31"));
        let faults = |then: Then| {
            let faults = then.faults().into_iter();
            let faults = faults.map(|(path, code)| format!("{path} {code}"));
            faults.collect::<Vec<_>>()
        };
        let then = scenario.put_fact(kind, "p", 2, policy("2026-10-30"));
        assert_eq!(faults(then), ["facts.effectiveUntil out_of_range"]);
        // Beside the other fault between fields.
        let mut both = policy("2026-10-01");
        both["basisPoints"] = json!(1);
        let then = scenario.put_fact(kind, "p", 2, both);
        let expected = [
            "facts.effectiveUntil out_of_range",
            "facts.basisPoints not_allowed",
        ];
        assert_eq!(faults(then), expected);
        assert_eq!(
            found(&scenario, [None, None], "2026-10-31").unwrap(),
            "p",
            "what was stored stays"
        );
    }

    #[test]
    fn a_stored_policy_with_reversed_days_can_be_read_and_corrected() {
        let mut scenario = Scenario::new();
        put(&mut scenario, "p", 1, [None, None], ALWAYS);
        let mut stored: Fact<RegionalBenefitPolicyFact> = scenario.state(&["p"]).unwrap();
        stored.facts.effective_until = Some(Date::parse("2025-12-31").unwrap());
        assert_eq!(stored.validate(), Ok(()));
        scenario.given(&stored);
        assert_eq!(scenario.state(&["p"]), Some(stored));
        put(&mut scenario, "p", 2, [None, None], ALWAYS);
        assert_eq!(found(&scenario, [None, None], DAY).unwrap(), "p");
    }

    #[test]
    fn a_stored_policy_with_reversed_days_sent_again_is_unchanged() {
        let mut scenario = Scenario::new();
        put(&mut scenario, "p", 2, [None, None], ALWAYS);
        let mut stored: Fact<RegionalBenefitPolicyFact> = scenario.state(&["p"]).unwrap();
        stored.facts.effective_until = Some(Date::parse("2025-12-31").unwrap());
        scenario.given(&stored);
        let sent = |scenario: &mut Scenario, id: &str, revision: i64, until: &str| {
            let facts = json!({"serviceType": "care", "level1": "Seoul", "effectiveFrom": "2026-01-01",
                "effectiveUntil": until, "fixedKrw": 1});
            scenario.put_fact("regional-benefit-policy", id, revision, facts)
        };
        let again = sent(&mut scenario, "p", 2, "2025-12-31");
        assert_eq!(again.answered(), json!("unchanged"));
        let older = sent(&mut scenario, "p", 1, "2025-12-30");
        assert_eq!(older.code(), "stale");
        for (id, revision, until) in [
            ("p", 2, "2025-12-30"),
            ("p", 3, "2025-12-31"),
            ("q", 1, "2025-12-31"),
        ] {
            let new = sent(&mut scenario, id, revision, until).refusal();
            assert_eq!(FactResult::of_refusal(&new), FactResult::Invalid);
            let expected = Fault {
                path: "facts.effectiveUntil".to_owned(),
                code: FaultCode::OutOfRange,
            };
            assert_eq!(new.faults, [expected], "{id} {revision}");
        }
    }

    #[test]
    fn other_services_and_regions_have_their_own_policies_and_one_may_move() {
        let mut scenario = Scenario::new();
        let facts = |service: &str, level1: &str| -> Value {
            json!({"serviceType": service, "level1": level1, "effectiveFrom": "2026-01-01",
                "basisPoints": 1})
        };
        for (id, service, level1) in [("p", "cleaning", "Seoul"), ("q", "care", "Busan")] {
            let facts = facts(service, level1);
            scenario.fact("regional-benefit-policy", id, 1, facts);
        }
        assert_eq!(found(&scenario, [None, None], DAY), None);
        scenario.fact("regional-benefit-policy", "q", 2, facts("care", "Seoul"));
        assert_eq!(found(&scenario, [None, None], DAY).unwrap(), "q");
        scenario.fact("regional-benefit-policy", "q", 3, facts("care", "Jeju"));
        assert_eq!(found(&scenario, [None, None], DAY), None);
    }
}
