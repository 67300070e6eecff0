//! Rosters, drafts, charges and payment-change adjustments, as the service's description has them.

use carebook::base::actor::ActorKind;
use serde_json::{Value, json};

use super::commands::{ACTORS, Command, Who};
use super::expected::{Answer, Expected};
use super::state::{
    Access, Faults, Found, Held, Model, Roster, facts_of, millis, moment, n, s, texts,
};

/// The sums of a charge, exactly.
struct Sums {
    gross: i128,
    due: i128,
    /// The ledger's debits, in the order of the description.
    debits: [i128; 7],
}

impl Sums {
    fn of(body: &Value, benefit: i128) -> Self {
        let of = |member: &str| i128::from(n(body, member));
        let components: i128 = body["amountByComponentCode"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(_, amount)| i128::from(amount.as_i64().unwrap_or_default()))
            .sum();
        let extras = of("additionalServiceChargeKrw") + of("rentalEquipmentChargeKrw") + components;
        let change = of("voucherInhomeUserFeeChangeAmountKrw");
        let due = of("ownPriceKrw") + extras + of("voucherServiceBalanceAddOnKrw") + change
            - of("governmentDiscountAmountKrw")
            - of("couponDiscountAmountKrw")
            - benefit
            - of("preReservationPaymentAmountKrw");
        Self {
            gross: of("servicePriceKrw") + extras,
            due,
            debits: [
                due.max(0),
                of("servicePriceKrw") - of("ownPriceKrw"),
                of("governmentDiscountAmountKrw"),
                of("couponDiscountAmountKrw"),
                benefit,
                of("preReservationPaymentAmountKrw"),
                (-change).max(0),
            ],
        }
    }

    fn total(&self) -> i128 {
        self.debits.iter().sum()
    }

    fn fit(&self) -> bool {
        [self.gross, self.due, self.total()]
            .into_iter()
            .all(|sum| i64::try_from(sum).is_ok())
    }
}

/// SHA-256 in lower-case hexadecimal digits.
fn sha256(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl Model {
    pub fn roster(&self, booking: &str) -> Option<&Roster> {
        self.rosters.iter().find(|roster| roster.booking == booking)
    }

    pub fn assign_caregiver(&mut self, command: &Command, who: &Who) -> Expected {
        let body = &command.body;
        let booking_id = s(body, "reservationBookingId");
        let booking = self.booking(booking_id).filter(|booking| match who.kind {
            ActorKind::HeadquartersAdministrator => true,
            ActorKind::BranchManager => {
                who.branches.contains(&s(&booking.facts, "branchProfileId"))
            }
            _ => false,
        });
        let Some(booking) = booking else {
            return Expected::forbidden();
        };
        if s(&booking.facts, "state") != "active" {
            return Expected::conflict("reservation_not_active").anywhere();
        }
        let snapshot = self.fact("candidate-snapshot", s(body, "selectedCandidateSnapshotId"));
        let snapshot = snapshot.filter(|snapshot| {
            let facts = &snapshot.facts;
            snapshot.revision == n(body, "expectedCandidateSnapshotRevision")
                && self.now < millis(s(facts, "expiresAt"))
                && facts["reservationBookingId"] == body["reservationBookingId"]
                && facts["matchingRequestKey"] == body["matchingRequestKey"]
        });
        let candidate = snapshot.and_then(|snapshot| {
            let candidates = snapshot.facts["candidates"].as_array()?;
            candidates
                .iter()
                .find(|candidate| {
                    ["caregiverProfileId", "role", "scheduleProofId"]
                        .into_iter()
                        .all(|member| candidate[member] == body[member])
                })
                .cloned()
        });
        let Some(candidate) = candidate else {
            return Expected::conflict("candidate_snapshot_conflict").anywhere();
        };
        let mut roster = self.roster(booking_id).cloned().unwrap_or_else(|| Roster {
            booking: booking_id.to_owned(),
            revision: 0,
            standing: Vec::new(),
            decisions: Vec::new(),
            last: Value::Null,
        });
        let mut stale = Vec::new();
        if n(body, "expectedReservationRevision") != booking.revision {
            stale.push("expectedReservationRevision".to_owned());
        }
        if n(body, "expectedRosterRevision") != roster.revision {
            stale.push("expectedRosterRevision".to_owned());
        }
        if !stale.is_empty() {
            return Expected {
                paths: Some(stale),
                ..Expected::conflict("revision_stale")
            };
        }
        let target = s(body, "targetAssignmentKey");
        let replaced = body["replacementOfAssignmentKey"].as_str();
        if roster.standing.iter().any(|key| key == target) && replaced != Some(target) {
            return Expected::conflict("assignment_slot_taken").anywhere();
        }
        if replaced.is_some_and(|replaced| !roster.standing.iter().any(|key| key == replaced)) {
            return Expected::conflict("replacement_not_found").anywhere();
        }
        let decision_id = s(body, "assignmentDecisionId");
        if self.assignment_ids.contains(decision_id) {
            return Expected::conflict("assignment_decision_conflict").anywhere();
        }
        let together = roster
            .decisions
            .iter()
            .filter(|(group, _)| group == s(body, "rosterDecisionId"));
        if together.count() >= 200 {
            return Expected::conflict("roster_decision_full").anywhere();
        }
        self.assignment_ids.insert(decision_id.to_owned());
        let evidence = format!("care-team-assignment/{decision_id}");
        let decision = json!({
            "assignmentDecisionId": decision_id,
            "reservationBookingId": booking_id,
            "decisionKind": if replaced.is_some() { "replace" } else { "assign" },
            "role": body["role"],
            "handoffOrder": body["handoffOrder"],
            "targetAssignmentKey": target,
            "expectedReservationRevision": body["expectedReservationRevision"],
            "expectedRosterRevision": body["expectedRosterRevision"],
            "actorId": who.subject,
            "reasonCode": body["reasonCode"],
            "idempotencyKey": body["idempotencyKey"],
            "evidenceKey": evidence,
            "previousAssignmentKey": replaced,
            "selectedCandidateSnapshotId": body["selectedCandidateSnapshotId"],
            "scheduleProofId": body["scheduleProofId"],
            "replacementOfAssignmentKey": replaced,
            "otherAreaService": candidate["otherAreaService"],
        });
        let group = s(body, "rosterDecisionId").to_owned();
        roster.standing.retain(|key| Some(key.as_str()) != replaced);
        roster.standing.push(target.to_owned());
        roster.revision += 1;
        roster.decisions.push((group.clone(), decision));
        let of_group: Vec<_> = roster
            .decisions
            .iter()
            .filter(|(known, _)| *known == group)
            .map(|(_, decision)| decision.clone())
            .collect();
        let view = json!({
            "rosterDecisionId": group,
            "reservationBookingId": booking_id,
            "expectedRosterRevision": body["expectedRosterRevision"],
            "evidenceKey": evidence,
            "assignmentDecisions": of_group,
            "status": "recorded",
        });
        roster.last = view.clone();
        self.rosters.retain(|known| known.booking != booking_id);
        self.rosters.push(roster);
        Expected::done(201, view)
    }

    pub fn read_roster(&self, command: &Command, who: &Who) -> Found {
        let Some(roster) = self.roster(&command.params[0]) else {
            return (None, Access::No);
        };
        let booking = self.booking(&roster.booking);
        let branch = booking.map(|booking| s(&booking.facts, "branchProfileId"));
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator => Access::Yes,
            ActorKind::BranchManager => {
                Access::when(branch.is_some_and(|branch| who.branches.contains(&branch)))
            }
            _ => Access::No,
        };
        (
            Some((roster.last.clone(), Some(roster.revision.to_string()))),
            access,
        )
    }

    pub fn charge_faults(&self, body: &Value, faults: &mut Faults) {
        for member in [
            "servicePriceKrw",
            "ownPriceKrw",
            "additionalServiceChargeKrw",
            "rentalEquipmentChargeKrw",
            "governmentDiscountAmountKrw",
            "couponDiscountAmountKrw",
            "preReservationPaymentAmountKrw",
            "voucherServiceBalanceAddOnKrw",
        ] {
            faults.least(body, member, 0);
        }
        for (component, amount) in body["amountByComponentCode"]
            .as_object()
            .into_iter()
            .flatten()
        {
            if amount.as_i64().is_some_and(|amount| amount < 0) {
                faults.add(format!("amountByComponentCode.{component}"), "out_of_range");
            }
        }
        let amounts_are_good = faults.0.is_empty();
        // A field that is at fault itself is not compared.
        let (own, price) = (n(body, "ownPriceKrw"), n(body, "servicePriceKrw"));
        if own > price && price >= 0 {
            faults.add("ownPriceKrw", "out_of_range");
        }
        if s(body, "quotedOn") > s(body, "capturedOn") {
            faults.add("quotedOn", "out_of_range");
        }
        if amounts_are_good && !Sums::of(body, 0).fit() {
            faults.add("", "out_of_range");
        }
    }

    fn benefit(&self, body: &Value) -> i128 {
        if body["enabledFlags"]["regionalBenefit"] == false {
            return 0;
        }
        let levels = |policy: &Value| {
            let given: Vec<_> = ["1", "2", "3"]
                .into_iter()
                .filter(|level| !policy[format!("level{level}")].is_null())
                .collect();
            let fits = given.iter().all(|level| {
                policy[format!("level{level}")] == body[format!("serviceAddressLevel{level}")]
            });
            fits.then_some(given.len())
        };
        let quoted = s(body, "quotedOn");
        let mut best: Option<(usize, &str, &str, &Value)> = None;
        for (id, fact) in self.facts_of_kind("regional-benefit-policy") {
            let policy = &fact.facts;
            if policy["serviceType"] != body["serviceType"]
                || s(policy, "effectiveFrom") > quoted
                || policy["effectiveUntil"]
                    .as_str()
                    .is_some_and(|until| until < quoted)
            {
                continue;
            }
            let Some(given) = levels(policy) else {
                continue;
            };
            let from = s(policy, "effectiveFrom");
            let better = best.is_none_or(|(most, latest, least, _)| {
                (given, from) > (most, latest) || ((given, from) == (most, latest) && id < least)
            });
            if better {
                best = Some((given, from, id, policy));
            }
        }
        let Some((.., policy)) = best else {
            return 0;
        };
        let benefit = match policy["fixedKrw"].as_i64() {
            Some(fixed) => i128::from(fixed),
            None => {
                i128::from(n(body, "servicePriceKrw")) * i128::from(n(policy, "basisPoints"))
                    / 10_000
            }
        };
        match policy["capKrw"].as_i64() {
            Some(cap) => benefit.min(i128::from(cap)),
            None => benefit,
        }
    }

    pub fn finalize_charge(&mut self, command: &Command, answer: &Answer) -> Expected {
        let body = &command.body;
        let booking_id = &command.params[0];
        let Some(shares) = self.fact("reservation-financial-facts", booking_id) else {
            return Expected::missing("reservation_facts_not_found");
        };
        let sums = Sums::of(body, self.benefit(body));
        let share = |member: &str| sums.gross * i128::from(n(&shares.facts, member)) / 10_000;
        let caregiver = share("caregiverShareBasisPoints");
        let headquarters = share("headquartersShareBasisPoints");
        let branch = sums.gross - caregiver - headquarters;
        let change = i128::from(n(body, "voucherInhomeUserFeeChangeAmountKrw"));
        let credits = [
            caregiver,
            branch,
            headquarters,
            i128::from(n(body, "voucherServiceBalanceAddOnKrw")),
            change.max(0),
            (-sums.due).max(0),
        ];
        let balances = sums.total() == credits.iter().sum();
        assert!(balances, "the ledger balances to the won");
        if !sums.fit() {
            return Expected {
                faults: Some(vec![(String::new(), "out_of_range".to_owned())]),
                ..Expected::refused(422, "request_invalid")
            };
        }
        let lines = sums
            .debits
            .iter()
            .chain(&credits)
            .filter(|line| **line != 0)
            .count();
        let won = |sum: i128| i64::try_from(sum).unwrap();
        let view = json!({
            "reservationBookingId": booking_id,
            "financialStage": "charge_finalized",
            "motherVisiblePayableKrw": won(sums.due.max(0)),
            "caregiverPayoutKrw": won(caregiver),
            "branchSettlementKrw": won(branch),
            "hqSettlementKrw": won(headquarters),
            "careDeliverySessionCode": shares.facts["careDeliverySessionCode"],
            "deliveredDayCount": shares.facts["deliveredDayCount"],
            "ledgerLineCount": lines,
        });
        self.lifecycles.retain(|held| held.id != *booking_id);
        self.lifecycles.push(Held {
            id: booking_id.clone(),
            body: view.clone(),
            subject: String::new(),
            facts: facts_of(command),
            position: answer.position,
        });
        Expected::done(200, view)
    }

    pub fn read_lifecycle(&self, command: &Command, who: &Who) -> Found {
        let found = self
            .lifecycles
            .iter()
            .find(|held| held.id == command.params[0]);
        let Some(found) = found else {
            return (None, Access::No);
        };
        let booking = self.booking(&found.id);
        let is = |member: &str, value: &str| {
            booking.is_some_and(|booking| s(&booking.facts, member) == value)
        };
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator => Access::Yes,
            // A charge needs no more than the reservation's financial facts.
            _ if booking.is_none() => Access::Undetermined,
            ActorKind::BranchManager => Access::when(
                who.branches
                    .iter()
                    .any(|branch| is("branchProfileId", branch)),
            ),
            ActorKind::Mother => Access::when(is("motherUserId", who.subject)),
            ActorKind::SystemWorkflow => Access::No,
            _ => Access::Undetermined,
        };
        let tag = found.position.map(|position| position.to_string());
        (Some((found.body.clone(), tag)), access)
    }

    /// The booking's latest adjustment.
    pub fn adjustment(&self, booking: &str) -> Option<(String, Value)> {
        self.facts_of_kind("payment-change-adjustment")
            .filter(|(_, fact)| s(&fact.facts, "reservationBookingId") == booking)
            .max_by_key(|(_, fact)| millis(s(&fact.facts, "requestedAt")))
            .map(|(id, fact)| {
                let view = self.captures.get(id).cloned();
                (
                    id.to_owned(),
                    view.unwrap_or_else(|| self.unpaid(id, &fact.facts, fact.at)),
                )
            })
    }

    fn unpaid(&self, id: &str, facts: &Value, at: i64) -> Value {
        json!({
            "paymentChangeAdjustmentId": id,
            "reservationBookingId": facts["reservationBookingId"],
            "motherUserId": facts["motherUserId"],
            "customerDeltaKrw": facts["customerDeltaKrw"],
            "couponAdjustmentKrw": facts["couponAdjustmentKrw"],
            "pureCustomerAmountKrw": facts["pureCustomerAmountKrw"],
            "motherPayableAdjustmentKrw": facts["motherPayableAdjustmentKrw"],
            "adjustmentStatus": facts["adjustmentStatus"],
            "preRegistration": facts["preRegistration"],
            "paymentReceipt": null,
            "settlementContinuationStatus": null,
            "settlementContinuationWorkflowRequestId": null,
            "settlementContinuationReason": null,
            "settlementContinuationRecordedAt": null,
            "requestedAt": facts["requestedAt"],
            "completedAt": null,
            "updatedAt": moment(at),
        })
    }

    pub fn capture_adjustment_payment(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        if who.kind != ActorKind::Mother || s(body, "motherUserId") != who.subject {
            return Expected::forbidden();
        }
        let Some((id, mut view)) = self.adjustment(&command.params[0]) else {
            return Expected::missing("adjustment_not_found");
        };
        if s(&view, "motherUserId") != who.subject {
            return Expected::forbidden();
        }
        if s(&view, "adjustmentStatus") != "payable" || n(&view, "motherPayableAdjustmentKrw") <= 0
        {
            return Expected::conflict("adjustment_not_payable").anywhere();
        }
        let registered = &view["preRegistration"];
        if !registered.is_null()
            && (registered["paymentId"] != body["paymentId"]
                || registered["providerName"] != body["providerName"])
        {
            return Expected::conflict("payment_mismatch").anywhere();
        }
        let now = moment(self.now);
        view["adjustmentStatus"] = json!("paid");
        view["paymentReceipt"] = json!({
            "paymentId": body["paymentId"],
            "providerName": body["providerName"],
            "providerContext": body["providerContext"],
            "depositedAt": now,
        });
        view["settlementContinuationStatus"] = json!("queued");
        view["settlementContinuationWorkflowRequestId"] =
            self.made(answer, "/settlementContinuationWorkflowRequestId");
        view["settlementContinuationRecordedAt"] = json!(now);
        view["completedAt"] = json!(now);
        view["updatedAt"] = json!(now);
        self.captures.insert(id, view.clone());
        Expected::done(200, view)
    }

    pub fn read_adjustment(&self, command: &Command, who: &Who) -> Found {
        let Some((_, view)) = self.adjustment(&command.params[0]) else {
            return (None, Access::No);
        };
        let booking = self.booking(&command.params[0]);
        let branch = booking.map(|booking| s(&booking.facts, "branchProfileId"));
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator => Access::Yes,
            ActorKind::Mother => Access::when(s(&view, "motherUserId") == who.subject),
            ActorKind::BranchManager => {
                Access::when(branch.is_some_and(|branch| who.branches.contains(&branch)))
            }
            ActorKind::SystemWorkflow => Access::No,
            // The mother's payer reads what belongs to her booking's payments.
            ActorKind::FamilyMember
                if who.member.is_some_and(|member| {
                    self.delegation(&command.params[0], member).is_some()
                }) =>
            {
                Access::Yes
            }
            _ => Access::Undetermined,
        };
        (Some((view, None)), access)
    }

    /// EP18's own shape of a conflict.
    pub fn confirm_conflict(&self, command: &Command, code: &str, answer: &Answer) -> Expected {
        let body = &command.body;
        let draft = self.fact("reservation-draft", &command.params[0]);
        let current = draft.map(|draft| s(&draft.facts, "currentReviewProjectionId"));
        let sent = s(body, "reservationDraftStepAuthorityProjectionId");
        let revision_of = |id: &str| {
            let review = self
                .fact("final-review-projection", id)
                .filter(|review| s(&review.facts, "draftId") == command.params[0]);
            review.map_or(Value::Null, |review| json!(review.revision))
        };
        // Whose revision is the current one, when another projection was sent, is not said.
        let mut review_revision = revision_of(sent);
        let of_current = current.map_or(Value::Null, revision_of);
        if answer.body["currentReviewRevision"] == of_current {
            review_revision = of_current;
        }
        let mut reasons = Vec::new();
        let mut paths = json!([]);
        if code == "confirmation_not_ready"
            && let Some(draft) = draft
        {
            reasons = texts(&draft.facts, "disabledReasonCodes");
            let id = &command.params[0];
            if self.drafts_confirmed.iter().any(|(known, _)| known == id) {
                // Whether a confirmed draft's own reasons are named too is not said.
                let found = texts(&answer.body, "disabledReasonCodes");
                if found == ["draft_already_confirmed"] {
                    reasons.clear();
                }
                if found.first() == Some(&"draft_already_confirmed") {
                    reasons.insert(0, "draft_already_confirmed");
                } else {
                    reasons.push("draft_already_confirmed");
                }
            }
        } else if matches!(
            code,
            "draft_revision_mismatch"
                | "final_review_revision_mismatch"
                | "final_review_projection_superseded"
                | "final_review_projection_missing"
                | "draft_expired"
                | "idempotency_key_reused"
        ) {
            // The places are not determined.
            paths = answer.body["conflictingFieldPaths"].clone();
        }
        let mut draft_revision = draft.map_or(Value::Null, |draft| json!(draft.revision));
        let actor = command.who.map_or("", |who| ACTORS[who].subject);
        if code == "idempotency_key_reused"
            && draft.is_some_and(|draft| s(&draft.facts, "ownerSubject") != actor)
            && answer.body["currentDraftRevision"].is_null()
        {
            // It is returned before authority is checked: the state of another's draft need not be
            // given away.
            draft_revision = Value::Null;
            review_revision = Value::Null;
        }
        let refresh = !matches!(code, "idempotency_key_reused" | "confirmation_not_ready");
        Expected {
            body: Some(json!({
                "conflictCode": code,
                "draftId": command.params[0],
                "expectedDraftRevision": body["expectedDraftRevision"],
                "currentDraftRevision": draft_revision,
                "reservationDraftStepAuthorityProjectionId": sent,
                "expectedReviewRevision": body["expectedReviewRevision"],
                "currentReviewRevision": review_revision,
                "refreshRequired": refresh,
                "conflictingFieldPaths": paths,
                "disabledReasonCodes": reasons,
            })),
            ..Expected::refused(409, "")
        }
    }

    pub fn confirm_reservation_draft(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        let draft_id = &command.params[0];
        let Some(draft) = self.fact("reservation-draft", draft_id).cloned() else {
            return Expected::missing("draft_not_found");
        };
        let review_id = s(body, "reservationDraftStepAuthorityProjectionId");
        let review = self.fact("final-review-projection", review_id).cloned();
        let review = review.filter(|review| s(&review.facts, "draftId") == draft_id);
        let Some(review) = review else {
            return Expected::missing("final_review_projection_not_found");
        };
        if s(&draft.facts, "ownerSubject") != who.subject {
            return Expected::forbidden();
        }
        let conflict = |code: &str| self.confirm_conflict(command, code, answer);
        if n(body, "expectedDraftRevision") != draft.revision {
            return conflict("draft_revision_mismatch");
        }
        if millis(s(&draft.facts, "expiresAt")) <= self.now {
            return conflict("draft_expired");
        }
        match draft.facts["currentReviewProjectionId"].as_str() {
            None => return conflict("final_review_projection_missing"),
            Some(current) if current != review_id => {
                return conflict("final_review_projection_superseded");
            }
            Some(_) => {}
        }
        if n(body, "expectedReviewRevision") != review.revision {
            return conflict("final_review_revision_mismatch");
        }
        let confirmed = self
            .drafts_confirmed
            .iter()
            .any(|(known, _)| known == draft_id);
        if confirmed || !texts(&draft.facts, "disabledReasonCodes").is_empty() {
            return conflict("confirmation_not_ready");
        }
        let mut paths = Vec::new();
        for dependency in review.facts["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let fact = self.fact(s(dependency, "kind"), s(dependency, "id"));
            if fact.is_none_or(|fact| fact.revision != n(dependency, "revision")) {
                let path = s(dependency, "fieldPath");
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        let mut reasons = Vec::new();
        let intent = s(&draft.facts, "intent");
        let source = review.facts["extensionSourceReservationId"].as_str();
        if intent == "extension" {
            let catalog = self
                .fact("extension-eligibility", who.subject)
                .filter(|catalog| {
                    review.facts["extensionCatalogRevision"] == json!(catalog.revision)
                });
            let eligible = source.is_some_and(|source| {
                catalog.is_some_and(|catalog| {
                    texts(&catalog.facts, "eligibleReservationBookingIds").contains(&source)
                })
            });
            if !eligible {
                reasons.push("extension_source_not_eligible");
            }
            if let Some(source) = source {
                let booking = self.booking(source);
                if booking.is_none_or(|booking| s(&booking.facts, "state") != "active") {
                    reasons.push("extension_source_inactive");
                }
                let extended = self
                    .drafts_confirmed
                    .iter()
                    .any(|(_, extended)| extended.as_deref() == Some(source));
                if extended {
                    reasons.push("extension_duplicate");
                }
            }
        }
        if !paths.is_empty() || !reasons.is_empty() {
            let mut expected = conflict("authoritative_dependency_changed");
            if let Some(body) = &mut expected.body {
                // Extension conflicts may name places of their own.
                let found = texts(&answer.body, "conflictingFieldPaths");
                let known = paths.iter().all(|path| found.contains(path));
                let fits = known && (found.len() == paths.len() || !reasons.is_empty());
                body["conflictingFieldPaths"] = if fits { json!(found) } else { json!(paths) };
                body["disabledReasonCodes"] = json!(reasons);
            }
            return expected;
        }
        let payment = &review.facts["payment"];
        let command_id = self.made(answer, "/customerReservationCreationCommandId");
        let request_id = self.made(answer, "/reservationBookingRequestId");
        let booking_id = if intent == "consultation" {
            Value::Null
        } else {
            self.new_id(answer, "/reservationBookingId")
        };
        let handoff = "/reservationCreationPaymentHandoff";
        let obligation_id = self.made(answer, &format!("{handoff}/paymentObligationId"));
        let fingerprinted = json!({
            "extensionSourceReservationId": source,
            "intent": intent,
            "reviewedFacts": review.facts["reviewedFacts"],
        });
        let view = json!({
            "customerReservationCreationCommandId": command_id,
            "draftId": draft_id,
            "acceptedDraftRevision": draft.revision,
            "acceptedReviewProjectionId": review_id,
            "acceptedReviewRevision": review.revision,
            "reservationBookingRequestId": request_id,
            "reservationBookingId": booking_id,
            "creationOutcome": intent,
            // Fields are in the order of their names, and the world's texts and numbers are written
            // the same way in both forms.
            "reviewedFactFingerprint": sha256(&fingerprinted.to_string()),
            "contractAcceptanceId": self.made(answer, "/contractAcceptanceId"),
            "reservationCreationPaymentHandoff": {
                "paymentHandoffId": self.made(answer, &format!("{handoff}/paymentHandoffId")),
                "chargeSnapshotId": self.made(answer, &format!("{handoff}/chargeSnapshotId")),
                "paymentObligationId": obligation_id,
                "currencyCode": "KRW",
                "payableAmountKrw": payment["payableAmountKrw"],
                "eligiblePaymentMethodCodes": payment["eligiblePaymentMethodCodes"],
                "handoffState": "preparation_required",
            },
            "idempotentReplay": false,
        });
        let of_draft = |member: &str| draft.facts[member].clone();
        if let Some(id) = booking_id.as_str() {
            let facts = json!({
                "motherUserId": who.subject,
                "motherMemberId": of_draft("motherMemberId"),
                "branchProfileId": of_draft("branchProfileId"),
                "state": "active",
            });
            self.set_fact("reservation-booking", id, 1, facts);
        }
        if booking_id.is_null() {
            let id = obligation_id.as_str().unwrap_or_default();
            self.consultations.insert(id.to_owned());
        }
        let place = if booking_id.is_null() {
            request_id
        } else {
            booking_id
        };
        let facts = json!({
            "reservationBookingId": place,
            "paymentMethod": payment["eligiblePaymentMethodCodes"][0],
            "paymentPurpose": payment["paymentPurpose"],
            "amountKrw": payment["payableAmountKrw"],
            "paymentProductPlanCode": payment["paymentProductPlanCode"],
            "motherUserId": who.subject,
            "motherMemberId": of_draft("motherMemberId"),
            "branchProfileId": of_draft("branchProfileId"),
            "state": "open",
        });
        self.set_fact(
            "payment-obligation",
            obligation_id.as_str().unwrap_or_default(),
            1,
            facts,
        );
        self.set_fact(
            "reservation-draft",
            draft_id,
            draft.revision + 1,
            draft.facts.clone(),
        );
        let extended = source.filter(|_| intent == "extension").map(str::to_owned);
        self.drafts_confirmed.push((draft_id.clone(), extended));
        Expected::done(201, view)
    }
}
