//! Commands and facts of payments.

use serde_json::{Value, json};

use super::super::state::{Model, s};
use super::{ACTORS, Command, HEADQUARTERS, World, mother_of_booking};

impl World {
    fn receipt_request(&mut self) -> (Value, Value, Value) {
        (
            self.pick(&[
                json!("requested"),
                json!("requested"),
                json!("requested"),
                json!("not_requested"),
                json!("unknown"),
            ]),
            self.pick(&[
                json!("income_deduction"),
                json!("income_deduction"),
                json!("business_expense_proof"),
                json!("unknown"),
            ]),
            self.pick(&[json!("identity-1"), json!("identity-1"), Value::Null]),
        )
    }

    pub(super) fn decide_cash_receipt_eligibility(&mut self) -> Command {
        let who = self.below(ACTORS.len());
        let (state, purpose, reference) = self.receipt_request();
        let obligation = self.pick(&[
            "customer_share_deposit",
            "customer_share_balance",
            "service_balance",
            "pre_reservation_deposit",
            "gift_coupon_purchase",
        ]);
        let mut body =
            json!({"obligationPurpose": obligation, "requestState": state, "purpose": purpose});
        if !reference.is_null() || self.chance(50) {
            body["registrationIdentityReference"] = reference;
        }
        let plan = self.pick(&["PLAN-0", "PLAN-1", "PLAN-2", "PLAN-9"]);
        Command::new(17, &[plan], who, body)
    }

    pub(super) fn pre_register_payment(&mut self, model: &Model) -> Command {
        if self.chance(10)
            && let Some(held) = self.late(&model.registrations, 6)
        {
            // The same once more, under another key.
            let receipt = &held.body["cashReceiptEligibilitySnapshot"];
            let body = json!({
                "paymentId": held.id,
                "cashReceiptIssueRequest": {
                    "requestState": receipt["requestState"],
                    "purpose": receipt["requestedPurpose"],
                    "registrationIdentityReference": receipt["registrationIdentityReference"],
                },
            });
            let actor = ACTORS.iter().position(|who| who.subject == held.subject);
            let who = self.who(&[actor.unwrap_or_default()]);
            return Command::new(20, &[], who, body);
        }
        let ids = model.recent("payment-obligation");
        let id = self.standing(&ids, "PAY");
        let facts = model.fact("payment-obligation", &id);
        let mother = facts
            .map_or("user-m1", |fact| s(&fact.facts, "motherUserId"))
            .to_owned();
        let who = match self.below(6) {
            0 | 1 => self.mother_of(&mother),
            2 | 3 => {
                let booking = facts.map_or("", |fact| s(&fact.facts, "reservationBookingId"));
                let payer = model
                    .delegations
                    .iter()
                    .rfind(|held| s(&held.body, "reservationBookingId") == booking)
                    .and_then(|held| {
                        let payer = s(&held.body, "payerMemberId");
                        ACTORS.iter().position(|who| who.member == Some(payer))
                    });
                self.who(&[payer.unwrap_or(3)])
            }
            _ => self.who(&[11, 12, 13, 14]),
        };
        let (state, purpose, reference) = self.receipt_request();
        let body = json!({
            "paymentId": id,
            "cashReceiptIssueRequest": {
                "requestState": state,
                "purpose": purpose,
                "registrationIdentityReference": reference,
            },
        });
        Command::new(20, &[], who, body)
    }

    pub(super) fn administer_gateway(&mut self, model: &Model) -> Command {
        let who = self.who(&[HEADQUARTERS, 11]);
        let payments = model.recent("gateway-payment");
        let mut body = json!({
            "operationAction": self.pick(&[
                "lookup_payment",
                "search_payments",
                "close_virtual_account",
                "inspect_refund_status",
                "inspect_chargeback_status",
                "record_chargeback",
                "record_chargeback",
            ]),
            "reason": "asked for",
            "idempotencyKey": self.key(),
        });
        if self.chance(95) {
            body["paymentId"] = json!(self.standing(&payments, "GP"));
        }
        if self.chance(70) {
            body["searchKey"] = json!(self.near("search", 3, 200));
        }
        if self.chance(80) {
            body["amountKrw"] = json!(self.pick(&[100, 1_000, 60_000, 200_000, 0]));
        }
        if self.chance(30) {
            body["reservationBookingId"] = self.pick(&[json!("B-1"), Value::Null]);
        }
        let revision = model.gateway_revisions.get(&Model::gateway_subject(&body));
        let revision = revision.copied().unwrap_or_default();
        body["expectedRevision"] = match self.below(12) {
            0 => json!(revision + 1),
            1 => json!(revision - 1),
            _ => json!(revision),
        };
        Command::new(21, &[], who, body)
    }

    pub(super) fn plan_facts(&mut self) -> (String, Value) {
        let (merchant, channel, issuer) = self.pick(&[
            (
                "operator",
                "provider_collected",
                "provider_on_behalf_of_operator",
            ),
            (
                "operator",
                "provider_collected",
                "provider_on_behalf_of_operator",
            ),
            ("operator", "provider_collected", "external_partner"),
            ("caregiver", "direct_to_caregiver", "none"),
        ]);
        let facts = json!({
            "obligationPurposes": ["customer_share_deposit", "customer_share_balance", "service_balance"],
            "receiptablePurposes": self.pick(&[json!(["customer_share_deposit", "service_balance"]), json!([])]),
            "acceptedReceiptPurposes": self.pick(&[json!(["income_deduction"]), json!(["income_deduction", "business_expense_proof"])]),
            "merchantOfRecord": merchant,
            "collectionChannel": channel,
            "receiptIssuer": issuer,
            "providerRoutingKey": "gateway.main",
            "settlementParticipation": "customer_charge",
            "ledgerRecognitionTiming": "immediate",
            "feeRecognitionBasis": "gateway_gross_amount",
            "settlementLineTargets": ["customer_charge"],
            "freezesCustomerVisibleAmountAfterPayment": true,
            "laterCatalogChangesCanAlterExposedResult": false,
            "cardRateBps": if self.chance(50) { 5_000 } else { self.below(10_001) },
            "bankRateBps": 150,
            "virtualAccountRateBps": 0,
        });
        (self.pick(&["PLAN-0", "PLAN-1", "PLAN-2"]).to_owned(), facts)
    }

    pub(super) fn obligation_facts(&mut self, model: &Model) -> (String, Value) {
        let known = model.recent("payment-obligation");
        let id = if self.chance(15) {
            self.standing(&known, "PAY")
        } else {
            self.near("PAY", 6, 120)
        };
        let booking_id = self.booking(model);
        let (user, member) = mother_of_booking(&booking_id);
        let booking = model
            .booking(&booking_id)
            .map(|booking| booking.facts.clone());
        let booking = booking.unwrap_or(json!({
            "motherUserId": user,
            "motherMemberId": member,
            "branchProfileId": "branch-1",
        }));
        let mut facts = json!({
            "reservationBookingId": booking_id,
            "paymentMethod": self.pick(&["card", "bank", "vcnt"]),
            "paymentPurpose": self.pick(&["customer_share_deposit", "customer_share_balance", "service_balance"]),
            "amountKrw": self.pick(&[1, 99_999, 100_000, 333_333, 500_000, 900_001]),
            "paymentProductPlanCode": self.pick(&["PLAN-0", "PLAN-0", "PLAN-1", "PLAN-9"]),
            "motherUserId": booking["motherUserId"],
            "motherMemberId": booking["motherMemberId"],
            "branchProfileId": booking["branchProfileId"],
            "state": self.pick(&["open", "open", "open", "open", "open", "paid", "cancelled"]),
        });
        // What is owed stays the same mother's.
        if let Some(held) = model.fact("payment-obligation", &id) {
            for member in [
                "reservationBookingId",
                "motherUserId",
                "motherMemberId",
                "branchProfileId",
            ] {
                facts[member] = held.facts[member].clone();
            }
        }
        (id, facts)
    }

    pub(super) fn relationship_facts(&mut self) -> (String, Value) {
        let (id, object, subject) = self.pick(&[
            ("REL-0", "branch/branch-1", "user-bf1"),
            ("REL-1", "branch/branch-2", "user-bf1"),
            ("REL-2", "headquarters", "user-hf1"),
            ("REL-3", "headquarters", "user-hf2"),
            ("REL-4", "branch/branch-1", "user-bf2"),
        ]);
        let facts = json!({
            "object": object,
            "relation": self.pick(&["finance_operator", "finance_operator", "finance_operator", "viewer"]),
            "subject": subject,
            "state": self.pick(&["applied", "applied", "applied", "revoked"]),
        });
        (id.to_owned(), facts)
    }

    pub(super) fn gateway_facts(&mut self) -> (String, Value) {
        let method = self.pick(&["card", "vcnt", "vcnt"]);
        let mut facts = json!({
            "method": method,
            "amountKrw": self.pick(&[1_000, 100_000]),
            "refundState": "none",
            "chargebackState": "none",
            "chargedBackKrw": 0,
            "searchKeys": ["search-1"],
        });
        if method == "vcnt" {
            facts["virtualAccountState"] = json!(self.pick(&["open", "open", "closed"]));
        }
        (self.near("GP", 5, 150), facts)
    }
}
