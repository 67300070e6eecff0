//! Commands and facts of reservations.

use rand::Rng as _;
use serde_json::{Value, json};

use super::super::state::{Model, moment, s, texts};
use super::{ACTORS, Command, World, mother_of_booking};

impl World {
    pub(super) fn confirm_reservation_draft(&mut self, model: &Model) -> Command {
        let drafts = model.recent("reservation-draft");
        let id = self.standing(&drafts, "D");
        let draft = model.fact("reservation-draft", &id);
        let owner = draft
            .map_or("user-m1", |draft| s(&draft.facts, "ownerSubject"))
            .to_owned();
        let who = self.mother_of(&owner);
        let current = draft.and_then(|draft| draft.facts["currentReviewProjectionId"].as_str());
        let review_id = match current {
            Some(current) if self.chance(93) => current.to_owned(),
            _ => format!("{}{id}", self.pick(&["RP", "RX"])),
        };
        let review = model.fact("final-review-projection", &review_id);
        let body = json!({
            "expectedDraftRevision": self.revision(draft.map_or(1, |draft| draft.revision)),
            "reservationDraftStepAuthorityProjectionId": review_id,
            "expectedReviewRevision": self.revision(review.map_or(1, |review| review.revision)),
        });
        Command::new(18, &[&id], who, body)
    }

    pub(super) fn assign_caregiver(&mut self, model: &Model) -> Command {
        let snapshots = model.recent("candidate-snapshot");
        let snapshot_id = self.standing(&snapshots, "CS");
        let snapshot = model.fact("candidate-snapshot", &snapshot_id);
        let facts = snapshot
            .map(|snapshot| snapshot.facts.clone())
            .unwrap_or_default();
        let mut booking_id = s(&facts, "reservationBookingId").to_owned();
        if booking_id.is_empty() || self.chance(3) {
            booking_id = self.booking(model);
        }
        let booking = model.booking(&booking_id);
        let branch = booking.map_or("", |booking| s(&booking.facts, "branchProfileId"));
        let good: &[usize] = if branch == "branch-1" {
            &[6, 7, 9, 10]
        } else {
            &[7, 9, 10]
        };
        let who = self.who(good);
        let candidates = facts["candidates"].as_array().cloned().unwrap_or_default();
        let candidate = if candidates.is_empty() {
            json!({"caregiverProfileId": "c", "role": "r", "scheduleProofId": "p"})
        } else {
            self.pick(&candidates)
        };
        let roster = model.roster(&booking_id);
        let roster_revision = roster.map_or(0, |roster| roster.revision);
        let expected_roster = if self.chance(92) {
            roster_revision
        } else {
            roster_revision + 1
        };
        let mut body = json!({
            "assignmentDecisionId": self.near("AD", 12, 30),
            "rosterDecisionId": self.pick(&["RD-1", "RD-2", "RD-3"]),
            "reservationBookingId": booking_id,
            "targetAssignmentKey": self.pick(&["slot-1", "slot-2", "slot-3", "slot-4"]),
            "matchingRequestKey": if self.chance(96) { s(&facts, "matchingRequestKey") } else { "MR-9" },
            "caregiverProfileId": candidate["caregiverProfileId"],
            "role": candidate["role"],
            "handoffOrder": self.pick(&[1, 2, 3, 1, 2, 3, 0]),
            "selectedCandidateSnapshotId": snapshot_id,
            "expectedCandidateSnapshotRevision": self.revision(snapshot.map_or(1, |snapshot| snapshot.revision)),
            "expectedReservationRevision": self.revision(booking.map_or(1, |booking| booking.revision)),
            "expectedRosterRevision": expected_roster,
            "scheduleProofId": if self.chance(96) { s(&candidate, "scheduleProofId") } else { "proof-9" },
            "reasonCode": "matched",
            "idempotencyKey": self.key(),
        });
        if s(&body, "matchingRequestKey").is_empty() {
            body["matchingRequestKey"] = json!("MR-9");
        }
        if self.chance(50) {
            body["replacementOfAssignmentKey"] = self.pick(&[
                json!("slot-1"),
                json!("slot-2"),
                json!("slot-3"),
                Value::Null,
            ]);
        }
        Command::new(10, &[], who, body)
    }

    fn won(&mut self) -> i64 {
        match self.below(30) {
            0 => 0,
            1 => -1,
            2 => i64::MAX / 2,
            3 => i64::MAX,
            4..10 => self.rng.random_range(0..100),
            _ => self.rng.random_range(0..2_000_000),
        }
    }

    pub(super) fn finalize_charge(&mut self, model: &Model) -> Command {
        let booking = self.booking(model);
        let service = self.won();
        let own = if self.chance(95) && service > 0 {
            self.rng.random_range(0..=service)
        } else {
            self.won()
        };
        let mut body = json!({
            "branchProfileId": "branch-1",
            "finalizedChargeSnapshotId": if self.chance(95) { self.key() } else { self.near("charge", 6, 80) },
            "capturedOn": "2026-11-05",
            "serviceType": self.pick(&["svc-1", "svc-1", "svc-2"]),
            "serviceAddressLevel1": self.pick(&["서울", "부산"]),
            "quotedOn": self.pick(&["2026-11-01", "2026-11-05", "2026-06-30", "2026-06-30", "2026-11-06"]),
            "servicePriceKrw": service,
            "ownPriceKrw": own,
        });
        if self.chance(70) {
            body["serviceAddressLevel2"] = self.pick(&[json!("강남"), json!("서초"), Value::Null]);
            body["serviceAddressLevel3"] = self.pick(&[json!("역삼"), Value::Null]);
        }
        for member in [
            "additionalServiceChargeKrw",
            "rentalEquipmentChargeKrw",
            "governmentDiscountAmountKrw",
            "couponDiscountAmountKrw",
            "preReservationPaymentAmountKrw",
            "voucherServiceBalanceAddOnKrw",
            "voucherInhomeUserFeeChangeAmountKrw",
        ] {
            if self.chance(20) {
                body[member] = json!(self.won());
            }
        }
        if self.chance(10) {
            body["voucherInhomeUserFeeChangeAmountKrw"] = json!(-5_000);
        }
        if self.chance(30) {
            body["amountByComponentCode"] = json!({"meal": self.won(), "taxi": 700});
        }
        if self.chance(30) {
            body["enabledFlags"] = self.pick(&[
                json!({"regionalBenefit": false}),
                json!({"regionalBenefit": true}),
                json!({"other": false}),
            ]);
        }
        let who = self.who(&[0]);
        Command::new(13, &[&booking], who, body)
    }

    pub(super) fn capture_adjustment_payment(&mut self, model: &Model) -> Command {
        let ids = model.recent("payment-change-adjustment");
        let id = self.standing(&ids, "ADJ");
        let facts = model.fact("payment-change-adjustment", &id);
        let booking = facts
            .map_or("B-1", |fact| s(&fact.facts, "reservationBookingId"))
            .to_owned();
        let view = model
            .adjustment(&booking)
            .map(|(_, view)| view)
            .unwrap_or_default();
        let mother = s(&view, "motherUserId").to_owned();
        let who = self.mother_of(&mother);
        let registered = &view["preRegistration"];
        let (payment, provider) = if registered.is_null() {
            (self.key(), "gateway".to_owned())
        } else {
            (
                s(registered, "paymentId").to_owned(),
                s(registered, "providerName").to_owned(),
            )
        };
        let own = ACTORS[who].subject.to_owned();
        let body = json!({
            "motherUserId": if self.chance(95) { own } else { "user-m1".to_owned() },
            "paymentId": if self.chance(95) { payment } else { self.near("captured", 5, 100) },
            "providerName": if self.chance(96) { provider.as_str() } else { "other" },
            "providerContext": self.pick(&[json!({}), json!({"a": null}), json!({"a": {"b": [1, "x"]}})]),
        });
        Command::new(15, &[&booking], who, body)
    }

    pub(super) fn draft_facts(&mut self, model: &Model) -> (String, Value) {
        let id = self.near("D", 5, 100);
        let (user, member) = self.mother();
        let review = self.pick(&["RP", "RP", "RP", "RP", "RP", "RP", "RP", "RX", ""]);
        let mut facts = json!({
            "ownerSubject": user,
            "motherMemberId": member,
            "branchProfileId": self.pick(&["branch-1", "branch-2"]),
            "intent": self.pick(&["consultation", "extension", "extension", "pre_reservation", "full_reservation"]),
        });
        if let Some(held) = model.fact("reservation-draft", &id) {
            facts = held.facts.clone();
        }
        facts["expiresAt"] = self.later(model, 36_000_000);
        facts["currentReviewProjectionId"] = if review.is_empty() {
            Value::Null
        } else {
            json!(format!("{review}{id}"))
        };
        facts["disabledReasonCodes"] = self.pick(&[
            json!([]),
            json!([]),
            json!([]),
            json!([]),
            json!([]),
            json!([]),
            json!(["contract_missing"]),
        ]);
        (id, facts)
    }

    pub(super) fn review_facts(&mut self, model: &Model) -> (String, Value) {
        let drafts = model.recent("reservation-draft");
        let draft_id = self.standing(&drafts, "D");
        let draft = model.fact("reservation-draft", &draft_id);
        let mut dependencies = Vec::new();
        for (kind, prefix, path) in [
            (
                "payment-product-plan",
                "PLAN",
                "payment.paymentProductPlanCode",
            ),
            ("family-account", "FA", "family"),
        ] {
            if self.chance(30) {
                let id = format!("{prefix}-{}", self.below(2));
                let revision = model.fact(kind, &id).map_or(1, |fact| fact.revision);
                let dependency = json!({"kind": kind, "id": id, "revision": self.revision(revision), "fieldPath": path});
                dependencies.push(dependency);
            }
        }
        let methods = self.pick(&[
            json!(["card", "bank"]),
            json!(["vcnt"]),
            json!(["bank", "card", "vcnt"]),
        ]);
        let mut facts = json!({
            "draftId": draft_id,
            "reviewedFacts": {"days": self.below(20), "note": "산후 \"care\"", "nested": {"z": null, "a": [true, -3]}},
            "dependencies": dependencies,
            "payment": {
                "payableAmountKrw": self.pick(&[1, 54_321, 100_000, 500_000]),
                "eligiblePaymentMethodCodes": methods,
                "paymentPurpose": self.pick(&["customer_share_deposit", "service_balance"]),
                "paymentProductPlanCode": self.pick(&["PLAN-0", "PLAN-1"]),
            },
        });
        if draft.is_some_and(|draft| draft.facts["intent"] == "extension") && self.chance(95) {
            let owner = draft.map_or("", |draft| s(&draft.facts, "ownerSubject"));
            let catalog = model.fact("extension-eligibility", owner);
            let eligible: Vec<_> = catalog
                .map(|catalog| texts(&catalog.facts, "eligibleReservationBookingIds"))
                .unwrap_or_default()
                .into_iter()
                .map(str::to_owned)
                .collect();
            facts["extensionSourceReservationId"] = json!(self.standing(&eligible, "B"));
            facts["extensionCatalogRevision"] =
                json!(self.revision(catalog.map_or(1, |catalog| catalog.revision)));
        }
        let prefix = self.pick(&["RP", "RP", "RP", "RX"]);
        (format!("{prefix}{draft_id}"), facts)
    }

    pub(super) fn policy_facts(&mut self) -> (String, Value) {
        let mut facts = json!({
            "serviceType": self.pick(&["svc-1", "svc-2"]),
            "level1": self.pick(&["서울", "부산"]),
            "effectiveFrom": self.pick(&["2026-01-01", "2026-07-01", "2026-11-01"]),
        });
        if self.chance(60) {
            facts["level2"] = json!(self.pick(&["강남", "서초"]));
            if self.chance(60) {
                facts["level3"] = json!("역삼");
            }
        }
        if self.chance(40) {
            facts["effectiveUntil"] = json!(self.pick(&["2026-11-01", "2026-06-30", "2026-12-31"]));
        }
        if s(&facts, "effectiveUntil") < s(&facts, "effectiveFrom")
            && let Some(members) = facts.as_object_mut()
        {
            members.remove("effectiveUntil");
        }
        if self.chance(50) {
            facts["fixedKrw"] = json!(self.below(200_000));
            if self.chance(2) {
                facts["fixedKrw"] = json!(-1);
            }
        } else {
            facts["basisPoints"] = json!(self.below(10_001));
        }
        if self.chance(50) {
            facts["capKrw"] = json!(self.below(150_000));
            if self.chance(2) {
                facts["capKrw"] = json!(-1);
            }
        }
        (format!("POL-{}", self.below(8)), facts)
    }

    pub(super) fn adjustment_facts(&mut self, model: &Model) -> (String, Value) {
        let id = self.near("ADJ", 6, 120);
        let booking_id = self.booking(model);
        let (user, _) = mother_of_booking(&booking_id);
        let owner = model
            .booking(&booking_id)
            .map(|booking| s(&booking.facts, "motherUserId").to_owned());
        // No two adjustments of a booking were requested at one moment.
        self.serial += 1;
        let amount = self.pick(&[40_000, 40_000, 40_000, 1, 0, -100]);
        let mut facts = json!({
            "reservationBookingId": booking_id,
            "motherUserId": owner.as_deref().unwrap_or(user),
            "customerDeltaKrw": 50_000,
            "couponAdjustmentKrw": -10_000,
            "pureCustomerAmountKrw": 50_000,
            "motherPayableAdjustmentKrw": amount,
            "adjustmentStatus": self.pick(&["payable", "payable", "payable", "requested", "cancelled"]),
            "requestedAt": moment(1_780_000_000_000 + self.serial * 1_000),
        });
        if self.chance(40) {
            facts["preRegistration"] = json!({
                "paymentId": format!("for-{id}"),
                "providerName": "gateway",
                "preRegisteredAt": "2026-10-02T01:00:00.000Z",
            });
        }
        (id, facts)
    }

    pub(super) fn booking_facts(&mut self, model: &Model) -> (String, Value) {
        let known = model.recent("reservation-booking");
        let id = if self.chance(30) {
            self.standing(&known, "B")
        } else {
            self.near("B", 6, 300)
        };
        let (user, member) = mother_of_booking(&id);
        let mut facts = json!({
            "motherUserId": user,
            "motherMemberId": member,
            "branchProfileId": self.pick(&["branch-1", "branch-2"]),
        });
        if let Some(held) = model.booking(&id) {
            facts = held.facts.clone();
        }
        facts["state"] = json!(self.pick(&[
            "active",
            "active",
            "active",
            "active",
            "active",
            "completed",
            "cancelled"
        ]));
        (id, facts)
    }

    pub(super) fn extension_facts(&mut self, model: &Model) -> (String, Value) {
        let (user, _) = self.mother();
        let bookings = model.recent("reservation-booking");
        (
            user.to_owned(),
            json!({"eligibleReservationBookingIds": bookings}),
        )
    }

    pub(super) fn candidate_facts(&mut self, model: &Model) -> (String, Value) {
        let facts = json!({
            "matchingRequestKey": self.pick(&["MR-1", "MR-2"]),
            "reservationBookingId": self.booking(model),
            "expiresAt": self.later(model, 7_200_000),
            "candidates": [
                {"caregiverProfileId": "c-1", "role": "primary", "scheduleProofId": "proof-1", "otherAreaService": false},
                {"caregiverProfileId": "c-2", "role": "primary", "scheduleProofId": "proof-2", "otherAreaService": true},
            ],
        });
        (self.near("CS", 6, 100), facts)
    }

    pub(super) fn financial_facts(&mut self, model: &Model) -> (String, Value) {
        let (caregiver, headquarters) =
            self.pick(&[(7_000, 1_000), (3_333, 3_333), (10_000, 0), (0, 0)]);
        let mut facts = json!({
            "caregiverShareBasisPoints": caregiver,
            "headquartersShareBasisPoints": headquarters,
        });
        if self.chance(50) {
            facts["careDeliverySessionCode"] = json!("session-1");
            facts["deliveredDayCount"] = json!(10);
        }
        (self.booking(model), facts)
    }
}
