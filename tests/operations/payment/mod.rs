//! Payments, seen from outside.

use serde_json::json;

use crate::support::{Answer, Client, World};

mod administer_gateway;
mod decide_cash_receipt_eligibility;
mod pre_register_payment;

/// The facts of an open obligation with its plan, and of its payment at the gateway.
fn put_facts(client: &mut Client, world: &World) {
    let facts = [
        json!({"kind": "payment-product-plan", "id": "plan-1", "revision": 1, "facts": {
            "obligationPurposes": ["service_balance"],
            "receiptablePurposes": [],
            "acceptedReceiptPurposes": [],
            "merchantOfRecord": "operator",
            "collectionChannel": "provider_collected",
            "receiptIssuer": "none",
            "providerRoutingKey": "route-1",
            "settlementParticipation": "service_balance",
            "ledgerRecognitionTiming": "immediate",
            "feeRecognitionBasis": "service_balance_amount",
            "settlementLineTargets": ["service_balance"],
            "freezesCustomerVisibleAmountAfterPayment": true,
            "laterCatalogChangesCanAlterExposedResult": false,
            "cardRateBps": 320,
            "bankRateBps": 180,
            "virtualAccountRateBps": 30,
        }}),
        json!({"kind": "payment-obligation", "id": "payment-1", "revision": 1, "facts": {
            "reservationBookingId": "booking-1",
            "paymentMethod": "vcnt",
            "paymentPurpose": "service_balance",
            "amountKrw": 500_500,
            "paymentProductPlanCode": "plan-1",
            "motherUserId": "mother-1",
            "motherMemberId": "member-1",
            "branchProfileId": "branch-1",
            "state": "open",
        }}),
        json!({"kind": "gateway-payment", "id": "payment-1", "revision": 1, "facts": {
            "method": "vcnt",
            "amountKrw": 500_500,
            "virtualAccountState": "open",
            "refundState": "none",
            "chargebackState": "none",
            "chargedBackKrw": 0,
            "searchKeys": ["booking-1"],
        }}),
    ];
    let answer = client.put_facts(&world.workflow(), &facts);
    assert_eq!(answer.json()["applied"], 3, "{answer:?}");
}

fn tag(answer: &Answer) -> String {
    answer.header("etag").unwrap().to_owned()
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

/// The read is what the operation answered, under the position of its commit.
#[track_caller]
fn assert_read(client: &mut Client, path: &str, token: &str, position: u64, first: &Answer) {
    let read = client.get(path, token);
    assert_eq!((read.status, read.text()), (200, first.text()), "{read:?}");
    assert_eq!(tag(&read), format!("\"{position}\""));
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", &*bearer), ("If-None-Match", &*tag(&read))];
    let again = client.request("GET", path, &headers, b"");
    assert_eq!(again.status, 304);
}
