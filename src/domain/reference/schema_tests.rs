//! The schemas, each against its sample: what must be there, what may be absent, and each rule.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::FactKind;
use super::branch_office_profile::BranchOfficeProfileFact;
use super::candidate_snapshot::CandidateSnapshotFact;
use super::extension_eligibility::ExtensionEligibilityFact;
use super::final_review_projection::FinalReviewProjectionFact;
use super::payment_change_adjustment::PaymentChangeAdjustmentFact;
use super::payout_instruction::PayoutInstructionFact;
use super::put::read_fact;
use super::regional_benefit_policy::RegionalBenefitPolicyFact;
use super::reservation_draft::ReservationDraftFact;
use super::reservation_financial_facts::ReservationFinancialFact;
use super::settlement_account::SettlementAccountFact;
use crate::base::codec;
use crate::base::json::{Json, Reader};
use crate::base::time::Instant;
use crate::catalogue;

/// A kind, its members that must be there, and those that may be null or absent.
type Schema = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const SCHEMAS: &[Schema] = &[
    ("actor", &["lifecycle"], &[]),
    (
        "reservation-draft",
        &[
            "ownerSubject",
            "motherMemberId",
            "branchProfileId",
            "intent",
            "expiresAt",
            "disabledReasonCodes",
        ],
        &["currentReviewProjectionId"],
    ),
    (
        "final-review-projection",
        &["draftId", "reviewedFacts", "dependencies", "payment"],
        &["extensionSourceReservationId", "extensionCatalogRevision"],
    ),
    (
        "extension-eligibility",
        &["eligibleReservationBookingIds"],
        &[],
    ),
    (
        "candidate-snapshot",
        &[
            "matchingRequestKey",
            "reservationBookingId",
            "expiresAt",
            "candidates",
        ],
        &[],
    ),
    (
        "payout-instruction",
        &[
            "reservationBookingId",
            "contractAssignmentKey",
            "caregiverRole",
            "handoffOrder",
            "amountKrw",
        ],
        &["caregiverId"],
    ),
    (
        "reservation-financial-facts",
        &["caregiverShareBasisPoints", "headquartersShareBasisPoints"],
        &["careDeliverySessionCode", "deliveredDayCount"],
    ),
    (
        "regional-benefit-policy",
        &["serviceType", "level1", "effectiveFrom"],
        &["level2", "level3", "effectiveUntil", "capKrw"],
    ),
    (
        "payment-change-adjustment",
        &[
            "reservationBookingId",
            "motherUserId",
            "customerDeltaKrw",
            "couponAdjustmentKrw",
            "pureCustomerAmountKrw",
            "motherPayableAdjustmentKrw",
            "adjustmentStatus",
            "requestedAt",
        ],
        &["preRegistration"],
    ),
    (
        "branch-office-profile",
        &[
            "displayName",
            "legalName",
            "contactEmail",
            "primaryPhoneNumber",
            "addressLine",
            "businessRegistrationReference",
        ],
        &[],
    ),
    (
        "settlement-account",
        &[
            "branchOfficeProfileId",
            "purpose",
            "bankName",
            "accountHolder",
            "maskedAccountReference",
            "verificationState",
            "effectiveFrom",
        ],
        &["effectiveUntil"],
    ),
];

/// The first sample of a kind.
fn sample(kind: &str) -> Value {
    super::samples::lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|fact| fact["kind"] == kind)
        .unwrap()
}

/// The faults of a fact: place and code.
fn faults(fact: &Value) -> Vec<(String, &'static str)> {
    let text = fact.to_string();
    let json = Json::parse(text.as_bytes()).unwrap();
    let mut at = Reader::new(Instant::default());
    let envelope = read_fact(&json, catalogue::FACTS, &mut at);
    assert_eq!(envelope.command.is_some(), at.is_clean(), "{text}");
    at.into_faults()
        .into_iter()
        .map(|fault| (fault.path, fault.code.as_str()))
        .collect()
}

/// The faults of the kind's sample after `change` was made to it.
fn changed(kind: &str, change: impl FnOnce(&mut Value)) -> Vec<(String, &'static str)> {
    let mut fact = sample(kind);
    change(&mut fact["facts"]);
    faults(&fact)
}

/// The fault at the member `path` of the facts.
fn at(path: &str, code: &'static str) -> Vec<(String, &'static str)> {
    vec![(format!("facts.{path}"), code)]
}

fn without(facts: &mut Value, member: &str) {
    facts.as_object_mut().unwrap().remove(member);
}

#[test]
fn a_required_member_must_be_there_and_may_not_be_null() {
    for (kind, required, _) in SCHEMAS {
        assert_eq!(faults(&sample(kind)), [], "{kind}");
        for member in *required {
            let place = format!("{kind}.{member}");
            let missing = changed(kind, |facts| without(facts, member));
            assert_eq!(missing, at(member, "required"), "{place}");
            let null = changed(kind, |facts| facts[member] = Value::Null);
            assert_eq!(null, at(member, "wrong_type"), "{place}");
        }
    }
}

#[test]
fn an_optional_member_may_be_null_or_absent() {
    for (kind, _, optional) in SCHEMAS {
        for member in *optional {
            let place = format!("{kind}.{member}");
            assert_eq!(changed(kind, |facts| without(facts, member)), [], "{place}");
            assert_eq!(
                changed(kind, |facts| facts[member] = Value::Null),
                [],
                "{place}"
            );
        }
    }
}

#[test]
fn each_member_has_one_json_type() {
    for (kind, required, optional) in SCHEMAS {
        for member in required.iter().chain(*optional) {
            for wrong in [json!(true), json!(1.5), json!(1e3)] {
                let found = changed(kind, |facts| facts[member] = wrong.clone());
                assert_eq!(found, at(member, "wrong_type"), "{kind}.{member} = {wrong}");
            }
            let is_number = ["Krw", "Points", "Count", "Order", "Revision"]
                .iter()
                .any(|ending| member.ends_with(ending));
            let wrong = if is_number { json!("1") } else { json!(1) };
            let found = changed(kind, |facts| facts[member] = wrong);
            assert_eq!(found, at(member, "wrong_type"), "{kind}.{member}");
        }
    }
}

#[test]
fn unknown_members_are_refused_and_all_missing_ones_told_at_once() {
    for (kind, required, _) in SCHEMAS {
        let found = changed(kind, |facts| facts["surprise"] = json!(1));
        assert_eq!(found, at("surprise", "unknown_field"), "{kind}");
        let missing: BTreeSet<_> = changed(kind, |facts| *facts = json!({}))
            .into_iter()
            .collect();
        for member in *required {
            assert!(
                missing.contains(&(format!("facts.{member}"), "required")),
                "{kind}.{member}"
            );
        }
        for wrong in [json!([]), json!("facts"), Value::Null] {
            let found = changed(kind, |facts| *facts = wrong);
            assert_eq!(found, [("facts".to_owned(), "wrong_type")], "{kind}");
        }
    }
}

#[test]
fn strings_have_the_bounds_of_their_kind() {
    let long = |length: usize| json!("가".repeat(length));
    for (kind, member, longest, blank) in [
        ("reservation-draft", "motherMemberId", 512, false),
        ("reservation-draft", "ownerSubject", 4_000, true),
        ("final-review-projection", "draftId", 512, false),
        ("candidate-snapshot", "matchingRequestKey", 512, false),
        ("payout-instruction", "caregiverRole", 512, false),
        ("payout-instruction", "caregiverId", 512, false),
        (
            "reservation-financial-facts",
            "careDeliverySessionCode",
            512,
            false,
        ),
        ("regional-benefit-policy", "serviceType", 512, false),
        ("regional-benefit-policy", "level3", 4_000, true),
        ("payment-change-adjustment", "motherUserId", 512, false),
        (
            "branch-office-profile",
            "businessRegistrationReference",
            512,
            false,
        ),
        ("branch-office-profile", "displayName", 4_000, true),
        ("settlement-account", "maskedAccountReference", 512, false),
        ("settlement-account", "bankName", 4_000, true),
    ] {
        let put = |value: Value| changed(kind, |facts| facts[member] = value);
        assert_eq!(put(long(longest)), [], "{kind}.{member}");
        assert_eq!(
            put(long(longest + 1)),
            at(member, "too_long"),
            "{kind}.{member}"
        );
        assert_eq!(put(json!("")), at(member, "too_short"), "{kind}.{member}");
        let expected = if blank {
            Vec::new()
        } else {
            at(member, "blank")
        };
        assert_eq!(put(json!(" ")), expected, "{kind}.{member}");
    }
}

#[test]
fn an_enumeration_takes_its_words_and_no_other() {
    for (kind, member, words) in [
        (
            "actor",
            "lifecycle",
            &["active", "inactive", "withdrawn"][..],
        ),
        (
            "reservation-draft",
            "intent",
            &[
                "consultation",
                "extension",
                "pre_reservation",
                "full_reservation",
            ],
        ),
        (
            "payment-change-adjustment",
            "adjustmentStatus",
            &["requested", "payable", "cancelled"],
        ),
        (
            "settlement-account",
            "verificationState",
            &["pending", "verified", "rejected"],
        ),
    ] {
        for word in words {
            assert_eq!(
                changed(kind, |facts| facts[member] = json!(word)),
                [],
                "{word}"
            );
        }
        for (word, code) in [
            ("paid", "not_allowed"),
            ("Active", "not_allowed"),
            ("", "too_short"),
        ] {
            let found = changed(kind, |facts| facts[member] = json!(word));
            assert_eq!(found, at(member, code), "{kind}.{member} = {word}");
        }
    }
}

#[test]
fn days_and_points_in_time_must_exist() {
    for (kind, member, right, wrong) in [
        (
            "reservation-draft",
            "expiresAt",
            "2026-01-01T09:00:00+09:00",
            "2026-02-30T00:00:00Z",
        ),
        (
            "candidate-snapshot",
            "expiresAt",
            "2026-01-01t00:00:00.5z",
            "2026-01-01 00:00:00Z",
        ),
        (
            "payment-change-adjustment",
            "requestedAt",
            "2026-01-01T00:00:00Z",
            "2026-01-01",
        ),
        (
            "regional-benefit-policy",
            "effectiveFrom",
            "2024-02-29",
            "2025-02-29",
        ),
        (
            "regional-benefit-policy",
            "effectiveUntil",
            "2099-01-01",
            "2099-1-1",
        ),
        (
            "settlement-account",
            "effectiveFrom",
            "2026-01-01",
            "2026-01-01T00:00:00Z",
        ),
    ] {
        assert_eq!(
            changed(kind, |facts| facts[member] = json!(right)),
            [],
            "{right}"
        );
        let found = changed(kind, |facts| facts[member] = json!(wrong));
        assert_eq!(found, at(member, "pattern"), "{kind}.{member} = {wrong}");
    }
}

#[test]
fn a_reason_stands_once_in_a_draft() {
    let put = |codes: Value| {
        changed("reservation-draft", |facts| {
            facts["disabledReasonCodes"] = codes
        })
    };
    assert_eq!(put(json!(["a", "b"])), []);
    assert_eq!(
        put(json!(["a", "b", "a"])),
        at("disabledReasonCodes[2]", "not_unique")
    );
    assert_eq!(
        put(json!(["a", " "])),
        at("disabledReasonCodes[1]", "blank")
    );
}

#[test]
fn a_reviewed_payment_has_an_amount_a_purpose_and_methods() {
    let put = |member: &str, value: Value| {
        changed("final-review-projection", |facts| {
            facts["payment"][member] = value
        })
    };
    let methods = "eligiblePaymentMethodCodes";
    assert_eq!(put("payableAmountKrw", json!(1)), []);
    assert_eq!(
        put("payableAmountKrw", json!(0)),
        at("payment.payableAmountKrw", "out_of_range")
    );
    assert_eq!(put(methods, json!(["vcnt", "card", "bank"])), []);
    assert_eq!(
        put(methods, json!([])),
        at("payment.eligiblePaymentMethodCodes", "too_short")
    );
    assert_eq!(
        put(methods, json!(["card", "card"])),
        at("payment.eligiblePaymentMethodCodes[1]", "not_unique")
    );
    assert_eq!(
        put(methods, json!(["cash"])),
        at("payment.eligiblePaymentMethodCodes[0]", "not_allowed")
    );
    for purpose in [
        "customer_share_deposit",
        "customer_share_balance",
        "service_balance",
        "pre_reservation_deposit",
    ] {
        assert_eq!(put("paymentPurpose", json!(purpose)), []);
    }
    assert_eq!(
        put("paymentPurpose", json!("gift_coupon_purchase")),
        at("payment.paymentPurpose", "not_allowed")
    );
    assert_eq!(
        changed("final-review-projection", |facts| facts["payment"] =
            json!({})),
        [
            "payableAmountKrw",
            methods,
            "paymentPurpose",
            "paymentProductPlanCode"
        ]
        .map(|member| (format!("facts.payment.{member}"), "required"))
    );
}

#[test]
fn a_review_rests_on_facts_and_shows_any_object() {
    let put = |member: &str, value: Value| {
        changed("final-review-projection", |facts| facts[member] = value)
    };
    assert_eq!(
        put("reviewedFacts", json!({"any": [1.5, {"thing": null}]})),
        []
    );
    assert_eq!(put("dependencies", json!([])), []);
    let rest_on = |count: usize| {
        let dependency = json!({"kind": "actor", "id": "a", "revision": 1, "fieldPath": "a"});
        put("dependencies", json!(vec![dependency; count]))
    };
    assert_eq!(rest_on(100), []);
    assert_eq!(
        rest_on(101),
        [("facts.dependencies".to_owned(), "too_long")]
    );
    assert_eq!(
        put(
            "dependencies",
            json!([{"kind": "actor", "id": "a", "revision": "1"}])
        ),
        [("revision", "wrong_type"), ("fieldPath", "required")]
            .map(|(member, code)| (format!("facts.dependencies[0].{member}"), code))
    );
}

#[test]
fn a_candidate_has_all_of_its_members() {
    let put = |item: Value| {
        changed("candidate-snapshot", |facts| {
            facts["candidates"] = json!([item])
        })
    };
    assert_eq!(
        changed("candidate-snapshot", |facts| facts["candidates"] =
            json!([])),
        []
    );
    assert_eq!(
        put(json!({})),
        [
            "caregiverProfileId",
            "role",
            "scheduleProofId",
            "otherAreaService"
        ]
        .map(|member| (format!("facts.candidates[0].{member}"), "required"))
    );
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
    assert_eq!(
        put(10_001, 0),
        at("caregiverShareBasisPoints", "out_of_range")
    );
    assert_eq!(put(-1, 0), at("caregiverShareBasisPoints", "out_of_range"));
    assert_eq!(
        put(65_536, 0),
        at("caregiverShareBasisPoints", "out_of_range")
    );
    assert_eq!(
        put(0, i64::MAX),
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
    assert_eq!(
        put(Value::Null, json!(10_001)),
        at("basisPoints", "out_of_range")
    );
    assert_eq!(put(json!("1"), Value::Null), at("fixedKrw", "wrong_type"));
    assert_eq!(put(json!(-1), Value::Null), at("fixedKrw", "out_of_range"));
    let cap = |cap: i64| {
        changed("regional-benefit-policy", |facts| {
            facts["capKrw"] = json!(cap);
        })
    };
    assert_eq!(cap(0), []);
    assert_eq!(cap(-1), at("capKrw", "out_of_range"));
    let neither = changed("regional-benefit-policy", |facts| {
        without(facts, "fixedKrw");
        without(facts, "basisPoints");
    });
    assert_eq!(neither, at("basisPoints", "required"));
}

#[test]
fn an_adjustment_may_be_negative_and_its_payment_is_whole() {
    let kind = "payment-change-adjustment";
    for member in [
        "customerDeltaKrw",
        "couponAdjustmentKrw",
        "motherPayableAdjustmentKrw",
    ] {
        assert_eq!(
            changed(kind, |facts| facts[member] = json!(i64::MIN)),
            [],
            "{member}"
        );
        let found = changed(kind, |facts| facts[member] = json!(u64::MAX));
        assert_eq!(found, at(member, "out_of_range"));
    }
    assert_eq!(
        changed(kind, |facts| facts["preRegistration"] = json!({})),
        ["paymentId", "providerName", "preRegisteredAt"]
            .map(|member| (format!("facts.preRegistration.{member}"), "required"))
    );
}

/// What is read is kept whole, in records and in answers.
fn kept_whole<K: FactKind>() {
    let fact = sample(K::KIND.name);
    let text = fact["facts"].to_string();
    let json = Json::parse(text.as_bytes()).unwrap();
    let facts = K::read(&json, &mut Reader::new(Instant::default())).unwrap();
    assert_eq!(codec::decode::<K>(&codec::encode(&facts)).unwrap(), facts);
    let mut answered = serde_json::to_value(&facts).unwrap();
    // An absent member is answered as null, which means the same.
    let sent = fact["facts"].as_object().unwrap();
    answered
        .as_object_mut()
        .unwrap()
        .retain(|name, value| !value.is_null() || sent.contains_key(name));
    assert_eq!(answered, fact["facts"], "{}", K::KIND.name);
}

#[test]
fn facts_come_out_of_records_and_answers_as_they_went_in() {
    kept_whole::<ReservationDraftFact>();
    kept_whole::<FinalReviewProjectionFact>();
    kept_whole::<ExtensionEligibilityFact>();
    kept_whole::<CandidateSnapshotFact>();
    kept_whole::<PayoutInstructionFact>();
    kept_whole::<ReservationFinancialFact>();
    kept_whole::<RegionalBenefitPolicyFact>();
    kept_whole::<PaymentChangeAdjustmentFact>();
    kept_whole::<BranchOfficeProfileFact>();
    kept_whole::<SettlementAccountFact>();
}
