//! The facts that each workload rests on, loaded before the clock starts: for each command
//! resources of its own, so that no command waits for another's.

use serde_json::{Value, json};

use crate::cast::{BRANCH, FAMILY_MEMBER, MOTHER, MOTHER_MEMBER, PLAN};

/// The lines of the facts that the operation's commands of these numbers need.
pub(crate) fn facts(operation: &str, numbers: &[usize]) -> Vec<String> {
    let once = match operation {
        "update_mother_profile" => vec![consent()],
        "finalize_charge" => vec![benefit_policy()],
        "snapshot_settlement_account" => vec![office_profile(BRANCH)],
        "decide_cash_receipt_eligibility"
        | "confirm_reservation_draft"
        | "pre_register_payment" => vec![plan()],
        _ => Vec::new(),
    };
    let each = numbers.iter().flat_map(|&number| match operation {
        "grant_payment_authority" | "grant_care_history_access" => {
            vec![booking(number), family_account(number)]
        }
        "update_mother_profile" => vec![mother_profile(number)],
        "assign_caregiver" => vec![booking(number), candidate_snapshot(number)],
        "repair_payout_receipt" | "acknowledge_payout_deposit" => {
            vec![booking(number), payout_instruction(number)]
        }
        "finalize_charge" => vec![booking(number), financial_facts(number)],
        "capture_adjustment_payment" => vec![booking(number), adjustment(number)],
        "snapshot_settlement_account" => vec![settlement_account(number)],
        "confirm_reservation_draft" => vec![draft(number), projection(number)],
        "update_branch_office_profile" => vec![office_profile(&format!("office-{number}"))],
        "pre_register_payment" => vec![booking(number), obligation(number)],
        "administer_gateway" => vec![gateway_payment(number)],
        _ => Vec::new(),
    });
    once.into_iter().chain(each).collect()
}

fn fact(kind: &str, id: &str, facts: &Value) -> String {
    json!({"kind": kind, "id": id, "revision": 1, "facts": facts}).to_string()
}

pub(crate) fn booking(number: usize) -> String {
    let facts = json!({
        "motherUserId": MOTHER,
        "motherMemberId": MOTHER_MEMBER,
        "branchProfileId": BRANCH,
        "state": "active",
    });
    fact("reservation-booking", &format!("booking-{number}"), &facts)
}

fn family_account(number: usize) -> String {
    let facts = json!({
        "motherMemberId": MOTHER_MEMBER,
        "memberIds": [MOTHER_MEMBER, FAMILY_MEMBER],
    });
    fact("family-account", &format!("family-{number}"), &facts)
}

fn mother_profile(number: usize) -> String {
    let email = format!("mother-{number}@example.com");
    let phone = format!("+8210{number:08}");
    let facts = json!({
        "ownerSubject": format!("mother-{number}"),
        "motherAccountId": format!("mother-account-{number}"),
        "accountLifecycle": "active",
        "fullName": "김하늘",
        "birthDate": "1992-03-14",
        "email": email,
        "primaryPhoneNumber": phone,
        "address": {
            "postalCode": "04524",
            "roadAddress": "서울특별시 중구 세종대로 110",
            "detailAddress": "101동 1001호",
        },
        "verifiedEmail": {
            "receiptId": format!("email-receipt-{number}"),
            "normalizedValue": email,
            "verifiedAt": "2025-02-01T00:00:00.000Z",
        },
        "verifiedPhone": {
            "receiptId": format!("phone-receipt-{number}"),
            "normalizedValue": phone,
            "verifiedAt": "2025-02-01T00:05:00.000Z",
        },
        "ownershipState": "applied",
        "relationshipReceiptId": format!("relationship-receipt-{number}"),
        "appliedAt": "2025-02-01T00:10:00.000Z",
        "createdAt": "2025-02-01T00:00:00.000Z",
    });
    fact(
        "mother-profile",
        &format!("mother-profile-{number}"),
        &facts,
    )
}

fn consent() -> String {
    let facts = json!({
        "publishedAt": "2025-01-01T00:00:00.000Z",
        "required": true,
        "current": true,
    });
    fact("consent-version", "privacy@2025-01", &facts)
}

fn candidate_snapshot(number: usize) -> String {
    let facts = json!({
        "matchingRequestKey": format!("matching-{number}"),
        "reservationBookingId": format!("booking-{number}"),
        "expiresAt": "2099-12-31T00:00:00.000Z",
        "candidates": [{
            "caregiverProfileId": "caregiver-profile-1",
            "role": "primary_caregiver",
            "scheduleProofId": "schedule-proof-1",
            "otherAreaService": false,
        }, {
            "caregiverProfileId": "caregiver-profile-2",
            "role": "primary_caregiver",
            "scheduleProofId": "schedule-proof-2",
            "otherAreaService": true,
        }],
    });
    fact("candidate-snapshot", &format!("snapshot-{number}"), &facts)
}

fn payout_instruction(number: usize) -> String {
    let facts = json!({
        "reservationBookingId": format!("booking-{number}"),
        "contractAssignmentKey": "contract-assignment-1",
        "caregiverRole": "primary_caregiver",
        "handoffOrder": 1,
        "caregiverId": "caregiver-1",
        "amountKrw": 1_050_000,
    });
    fact(
        "payout-instruction",
        &format!("instruction-{number}"),
        &facts,
    )
}

pub(crate) fn financial_facts(number: usize) -> String {
    let facts = json!({
        "caregiverShareBasisPoints": 7_000,
        "headquartersShareBasisPoints": 1_000,
        "careDeliverySessionCode": "session-1",
        "deliveredDayCount": 10,
    });
    fact(
        "reservation-financial-facts",
        &format!("booking-{number}"),
        &facts,
    )
}

pub(crate) fn benefit_policy() -> String {
    let facts = json!({
        "serviceType": "postpartum_care",
        "level1": "서울특별시",
        "effectiveFrom": "2025-01-01",
        "basisPoints": 1_000,
        "capKrw": 120_000,
    });
    fact("regional-benefit-policy", "benefit-1", &facts)
}

fn adjustment(number: usize) -> String {
    let facts = json!({
        "reservationBookingId": format!("booking-{number}"),
        "motherUserId": MOTHER,
        "customerDeltaKrw": 50_000,
        "couponAdjustmentKrw": -10_000,
        "pureCustomerAmountKrw": 50_000,
        "motherPayableAdjustmentKrw": 40_000,
        "adjustmentStatus": "payable",
        "preRegistration": {
            "paymentId": format!("adjustment-payment-{number}"),
            "providerName": "sample-gateway",
            "preRegisteredAt": "2025-06-02T01:00:00.000Z",
        },
        "requestedAt": "2025-06-02T00:00:00.000Z",
    });
    fact(
        "payment-change-adjustment",
        &format!("adjustment-{number}"),
        &facts,
    )
}

fn office_profile(id: &str) -> String {
    let facts = json!({
        "displayName": "서울 1지점",
        "legalName": "서울산후케어 주식회사",
        "contactEmail": "seoul-1@example.com",
        "primaryPhoneNumber": "+82212345678",
        "addressLine": "서울특별시 중구 세종대로 110",
        "businessRegistrationReference": "business-registration-1",
    });
    fact("branch-office-profile", id, &facts)
}

fn settlement_account(number: usize) -> String {
    let facts = json!({
        "branchOfficeProfileId": BRANCH,
        "purpose": "branch_settlement",
        "bankName": "한빛은행",
        "accountHolder": "서울산후케어 주식회사",
        "maskedAccountReference": "110-***-***456",
        "verificationState": "verified",
        "effectiveFrom": "2025-01-01",
        "effectiveUntil": null,
    });
    fact("settlement-account", &format!("account-{number}"), &facts)
}

fn plan() -> String {
    let facts = json!({
        "obligationPurposes": ["customer_share_deposit", "service_balance"],
        "receiptablePurposes": ["customer_share_deposit", "service_balance"],
        "acceptedReceiptPurposes": ["income_deduction", "business_expense_proof"],
        "merchantOfRecord": "operator",
        "collectionChannel": "provider_collected",
        "receiptIssuer": "provider_on_behalf_of_operator",
        "providerRoutingKey": "sample-gateway.main",
        "settlementParticipation": "customer_charge",
        "ledgerRecognitionTiming": "immediate",
        "feeRecognitionBasis": "gateway_gross_amount",
        "settlementLineTargets": ["customer_charge"],
        "freezesCustomerVisibleAmountAfterPayment": true,
        "laterCatalogChangesCanAlterExposedResult": false,
        "cardRateBps": 250,
        "bankRateBps": 150,
        "virtualAccountRateBps": 30,
    });
    fact("payment-product-plan", PLAN, &facts)
}

fn draft(number: usize) -> String {
    let facts = json!({
        "ownerSubject": MOTHER,
        "motherMemberId": MOTHER_MEMBER,
        "branchProfileId": BRANCH,
        "intent": "full_reservation",
        "expiresAt": "2099-12-31T00:00:00.000Z",
        "currentReviewProjectionId": format!("projection-{number}"),
        "disabledReasonCodes": [],
    });
    fact("reservation-draft", &format!("draft-{number}"), &facts)
}

fn projection(number: usize) -> String {
    let facts = json!({
        "draftId": format!("draft-{number}"),
        "reviewedFacts": {
            "careDays": 10,
            "firstDay": "2099-03-02",
            "serviceType": "postpartum_care",
            "priceKrw": 1_500_000,
        },
        "extensionSourceReservationId": null,
        "extensionCatalogRevision": null,
        "dependencies": [{
            "kind": "payment-product-plan",
            "id": PLAN,
            "revision": 1,
            "fieldPath": "payment.paymentProductPlanCode",
        }],
        "payment": {
            "payableAmountKrw": 300_000,
            "eligiblePaymentMethodCodes": ["card", "bank", "vcnt"],
            "paymentPurpose": "customer_share_deposit",
            "paymentProductPlanCode": PLAN,
        },
    });
    fact(
        "final-review-projection",
        &format!("projection-{number}"),
        &facts,
    )
}

fn obligation(number: usize) -> String {
    let facts = json!({
        "reservationBookingId": format!("booking-{number}"),
        "paymentMethod": "card",
        "paymentPurpose": "customer_share_deposit",
        "amountKrw": 300_000,
        "paymentProductPlanCode": PLAN,
        "motherUserId": MOTHER,
        "motherMemberId": MOTHER_MEMBER,
        "branchProfileId": BRANCH,
        "state": "open",
    });
    fact("payment-obligation", &format!("payment-{number}"), &facts)
}

fn gateway_payment(number: usize) -> String {
    let facts = json!({
        "method": "card",
        "amountKrw": 300_000,
        "virtualAccountState": null,
        "refundState": "none",
        "chargebackState": "none",
        "chargedBackKrw": 0,
        "searchKeys": [format!("booking-{number}")],
    });
    fact("gateway-payment", &format!("payment-{number}"), &facts)
}
