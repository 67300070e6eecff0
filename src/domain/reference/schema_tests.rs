//! Tests the rules between fields of a fact. The shape of each single field is tested over all kinds
//! where the shapes are declared.

use serde_json::{Value, json};

use super::put::read_fact;
use crate::base::json::{Json, Reader};
use crate::base::time::Timestamp;
use crate::domain::fact_kinds::FACTS;

/// Returns the first sample of a kind.
fn sample(kind: &str) -> Value {
    super::samples::lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|fact| fact["kind"] == kind)
        .unwrap()
}

/// Returns the faults of a fact: path and code.
fn faults(fact: &Value) -> Vec<(String, &'static str)> {
    let text = fact.to_string();
    let json = Json::parse(text.as_bytes()).unwrap();
    let mut at = Reader::new(Timestamp::default());
    let envelope = read_fact(&json, FACTS, &mut at);
    assert_eq!(
        envelope.command.is_some(),
        at.is_clean_if_stored(),
        "{text}"
    );
    at.into_faults()
        .into_iter()
        .map(|fault| (fault.path, fault.code.as_str()))
        .collect()
}

/// Returns the faults of the kind's sample after `change` was made to it.
fn changed(kind: &str, change: impl FnOnce(&mut Value)) -> Vec<(String, &'static str)> {
    let mut fact = sample(kind);
    change(&mut fact["facts"]);
    faults(&fact)
}

/// Returns the fault with this code at the field `path` of the facts.
fn at(path: &str, code: &'static str) -> Vec<(String, &'static str)> {
    vec![(format!("facts.{path}"), code)]
}

fn without(facts: &mut Value, member: &str) {
    facts.as_object_mut().unwrap().remove(member);
}

#[test]
fn a_reason_stands_once_in_a_draft_and_a_method_once_in_a_review() {
    let reasons = changed("reservation-draft", |facts| {
        facts["disabledReasonCodes"] = json!(["a", "b", "a"]);
    });
    assert_eq!(reasons, at("disabledReasonCodes[2]", "not_unique"));
    let methods = changed("final-review-projection", |facts| {
        facts["payment"]["eligiblePaymentMethodCodes"] = json!(["card", "card"]);
    });
    let place = "payment.eligiblePaymentMethodCodes[1]";
    assert_eq!(methods, at(place, "not_unique"));
}

#[test]
fn shares_are_basis_points_and_together_at_most_the_whole() {
    let put = |caregiver: i64, headquarters: i64| {
        changed("reservation-financial-facts", |facts| {
            facts["caregiverShareBasisPoints"] = json!(caregiver);
            facts["headquartersShareBasisPoints"] = json!(headquarters);
        })
    };
    assert_eq!(put(0, 0), []);
    assert_eq!(put(9_999, 1), []);
    assert_eq!(put(10_000, 0), []);
    assert_eq!(
        put(10_000, 1),
        at("headquartersShareBasisPoints", "out_of_range")
    );
    assert_eq!(
        put(5_000, 5_001),
        at("headquartersShareBasisPoints", "out_of_range")
    );
}

#[test]
fn a_benefit_is_either_fixed_or_a_part_of_the_price() {
    let put = |fixed: Value, part: Value| {
        changed("regional-benefit-policy", |facts| {
            facts["fixedKrw"] = fixed;
            facts["basisPoints"] = part;
        })
    };
    assert_eq!(put(json!(0), Value::Null), []);
    assert_eq!(put(Value::Null, json!(10_000)), []);
    assert_eq!(put(json!(1), json!(1)), at("basisPoints", "not_allowed"));
    assert_eq!(put(Value::Null, Value::Null), at("basisPoints", "required"));
    let neither = changed("regional-benefit-policy", |facts| {
        without(facts, "fixedKrw");
        without(facts, "basisPoints");
    });
    assert_eq!(neither, at("basisPoints", "required"));
}
