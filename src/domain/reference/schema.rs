//! What every schema of a fact promises, for the tests of each kind.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::FactKind;
use crate::catalogue::FACTS;
use crate::domain::scenario::{Scenario, Then};

fn put<K: FactKind>(facts: &Value) -> (Scenario, Then) {
    let mut scenario = Scenario::new();
    let then = scenario.put_fact(K::KIND.name, "id-1", 7, facts.clone());
    (scenario, then)
}

fn replaced(sample: &Value, member: &str, value: Value) -> Value {
    let mut facts = sample.clone();
    facts[member] = value;
    facts
}

/// The faults of `sample` with `value` in the place of `member`; panics when there are none.
#[track_caller]
pub(crate) fn faults_with<K: FactKind>(
    sample: &Value,
    member: &str,
    value: Value,
) -> Vec<(String, &'static str)> {
    put::<K>(&replaced(sample, member, value)).1.faults()
}

/// Whether `sample` is taken in with `value` in the place of `member`, and comes back as it went
/// in.
pub(crate) fn taken_with<K: FactKind>(sample: &Value, member: &str, value: Value) -> bool {
    comes_back::<K>(&replaced(sample, member, value))
}

/// The fact as it stands, whatever resource holds it: its revision, and its facts.
fn stored<K: FactKind>(scenario: &Scenario) -> Option<(i64, Value)> {
    let kind = FACTS.iter().find(|kind| kind.kind() == K::KIND).unwrap();
    let (revision, facts) = scenario.view(|view| kind.find("id-1", view))?;
    Some((revision.number(), serde_json::from_slice(&facts).unwrap()))
}

fn comes_back<K: FactKind>(facts: &Value) -> bool {
    let (scenario, _) = put::<K>(facts);
    stored::<K>(&scenario) == Some((7, facts.clone()))
}

/// Checks that `sample`, which has a value for every member, is taken in whole, and that each
/// member is refused when it is absent, null, ill-typed or an empty string; `optional` ones may
/// be absent and null.
#[track_caller]
pub(crate) fn check<K: FactKind>(sample: &Value, optional: &[&str]) {
    assert!(comes_back::<K>(sample), "{sample}");
    for (member, value) in sample.as_object().unwrap() {
        let place = format!("facts.{member}");
        let mut absent = sample.clone();
        absent.as_object_mut().unwrap().remove(member);
        if optional.contains(&member.as_str()) {
            assert!(
                taken_with::<K>(sample, member, Value::Null),
                "{member}: null"
            );
            let (scenario, _) = put::<K>(&absent);
            let (_, stored) = stored::<K>(&scenario).unwrap();
            assert_eq!(stored[member], Value::Null, "{member}: absent");
        } else {
            assert_eq!(put::<K>(&absent).1.faults(), [(place.clone(), "required")]);
            let null = faults_with::<K>(sample, member, Value::Null);
            assert_eq!(null, [(place.clone(), "wrong_type")]);
        }
        let ill_typed = faults_with::<K>(sample, member, json!({}));
        assert_eq!(ill_typed, [(place.clone(), "wrong_type")]);
        if value.is_string() {
            let empty = faults_with::<K>(sample, member, json!(""));
            assert_eq!(empty, [(place.clone(), "too_short")]);
        }
        if value.is_array() {
            let empty = faults_with::<K>(sample, member, json!([""]));
            assert_eq!(empty, [(format!("{place}[0]"), "too_short")]);
        }
    }
    let unknown = faults_with::<K>(sample, "noSuchMember", json!(1));
    assert_eq!(
        unknown,
        [("facts.noSuchMember".to_owned(), "unknown_field")]
    );
}
