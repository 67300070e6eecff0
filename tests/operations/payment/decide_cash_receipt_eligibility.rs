//! Whether a cash receipt can be issued, by the plan.

use carebook::base::actor::ActorKind;
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{Stage, assert_faults, assert_refused, with, without};

fn good(stage: &Stage) -> Good {
    Good::of(row_named("decide_cash_receipt_eligibility"), stage)
}

#[test]
fn every_active_actor_is_answered_by_the_plan() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    for kind in ActorKind::ALL {
        let answer = good.send(&mut client, &stage.token_of(kind), &good.body);
        assert_eq!(answer.status, 200, "{kind}: {answer:?}");
        assert_eq!(
            answer.json(),
            json!({
                "decisionState": "accepted",
                "merchantOfRecord": "operator",
                "collectionChannel": "provider_collected",
                "receiptIssuer": "provider_on_behalf_of_operator",
                "acceptedPurpose": "income_deduction",
                "denialReasonCode": null,
                "providerIssueAllowed": true,
            })
        );
    }
}

#[test]
fn the_first_reason_that_applies_is_told() {
    let stage = Stage::new();
    let mut good = good(&stage);
    let mut client = stage.client();
    let token = stage.mother();
    let plan = stage.sample("payment-product-plan", "plan-customer-share");
    let mut decided = |plan: &Value, revision: i64, body: &Value| {
        stage.fact("payment-product-plan", "plan-1", revision, plan.clone());
        let name = stage.id("plan-1");
        good.path = format!("/payment-product-plans/{name}/cash-receipt-eligibility-decisions");
        let answer = good.send(&mut client, &token, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        assert_eq!(
            body["providerIssueAllowed"],
            body["decisionState"] == "accepted"
        );
        (
            body["decisionState"].as_str().unwrap().to_owned(),
            body["denialReasonCode"].clone(),
        )
    };
    let rejected = |reason: &str| ("rejected".to_owned(), json!(reason));
    // From the last reason to the first, one more thing is wrong in each.
    let mut body = without(
        Good::of(row_named("decide_cash_receipt_eligibility"), &stage).body,
        "/registrationIdentityReference",
    );
    let mut plan = plan;
    let reason = "registration_identity_missing";
    assert_eq!(decided(&plan, 1, &body), rejected(reason));
    body = with(body, "/registrationIdentityReference", Value::Null);
    plan["cardRateBps"] = json!(1);
    assert_eq!(decided(&plan, 2, &body), rejected(reason));
    plan["acceptedReceiptPurposes"] = json!(["business_expense_proof"]);
    assert_eq!(decided(&plan, 3, &body), rejected("purpose_not_accepted"));
    body["purpose"] = json!("unknown");
    plan["cardRateBps"] = json!(2);
    assert_eq!(decided(&plan, 4, &body), rejected("purpose_unknown"));
    plan["receiptablePurposes"] = json!([]);
    assert_eq!(
        decided(&plan, 5, &body),
        rejected("obligation_not_receiptable")
    );
    plan["merchantOfRecord"] = json!("external_partner");
    assert_eq!(decided(&plan, 6, &body), rejected("merchant_not_operator"));
    body["requestState"] = json!("unknown");
    plan["cardRateBps"] = json!(3);
    assert_eq!(decided(&plan, 7, &body), rejected("request_state_unknown"));
    body["requestState"] = json!("not_requested");
    plan["cardRateBps"] = json!(4);
    let none = ("not_requested".to_owned(), Value::Null);
    assert_eq!(decided(&plan, 8, &body), none);
}

#[test]
fn a_receipt_that_somebody_else_issues_is_not_the_providers_to_issue() {
    let stage = Stage::new();
    let mut good = good(&stage);
    let mut plan = stage.sample("payment-product-plan", "plan-customer-share");
    plan["receiptIssuer"] = json!("external_partner");
    stage.fact("payment-product-plan", "plan-1", 1, plan);
    good.path = good
        .path
        .replace("plan-customer-share", &stage.id("plan-1"));
    let answer = good
        .send(&mut stage.client(), &stage.mother(), &good.body)
        .json();
    assert_eq!(answer["decisionState"], "accepted");
    assert_eq!(answer["receiptIssuer"], "external_partner");
    assert_eq!(answer["providerIssueAllowed"], false);
}

#[test]
fn a_plan_a_purpose_or_a_word_that_is_not_there_is_invalid() {
    let stage = Stage::new();
    let mut good = good(&stage);
    let token = stage.mother();
    let mut client = stage.client();
    let gift = with(
        good.body.clone(),
        "/obligationPurpose",
        json!("gift_coupon_purchase"),
    );
    let answer = good.send(&mut client, &token, &gift);
    assert_refused(&answer, 400, "obligation_purpose_not_in_plan", &[]);
    for (member, code) in [
        ("obligationPurpose", "not_allowed"),
        ("requestState", "not_allowed"),
        ("purpose", "not_allowed"),
    ] {
        let body = with(good.body.clone(), &format!("/{member}"), json!("Other"));
        let answer = good.send(&mut client, &token, &body);
        assert_faults(&answer, 400, &[(member, code)]);
    }
    for (value, code) in [
        (json!(""), "too_short"),
        (json!("\n"), "blank"),
        (json!([]), "wrong_type"),
    ] {
        let body = with(good.body.clone(), "/registrationIdentityReference", value);
        let answer = good.send(&mut client, &token, &body);
        assert_faults(&answer, 400, &[("registrationIdentityReference", code)]);
    }
    good.path = good.path.replace("plan-customer-share", "unknown");
    for body in [&gift, &good.body] {
        let answer = good.send(&mut client, &token, body);
        assert_refused(&answer, 400, "product_plan_not_found", &[]);
    }
}
