//! Headquarters, or a manager of the booking's branch, assigns a caregiver to a booking, out of the
//! candidates that matching froze in a snapshot.
//!
//! Resource: the booking's care-team roster. Rejections, in the order tested: the actor may not
//! staff the booking, or the booking is unknown (403: the two are not distinguished); the booking
//! is not active, the snapshot is another one or may no longer be used, an expected revision is
//! stale, the slot is filled, there is nothing to replace, the decision's identifier is in use, the
//! roster's decision has as many as it may have (409).

use std::sync::Arc;

use super::roster::{
    Assignment, AssignmentDecision, CareTeamRoster, CaregiverAssigned, DECISIONS_TOGETHER_MAX,
    RosterDecision, SlotsBefore, assigned, is_filled, may_assign, slot,
};
use super::roster_body::AssignmentResultBody;
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::json::AtLeast;
use crate::base::revision::Revision;
use crate::base::text::{AssignmentKey, BodyKey, BookingId, CaregiverId, Ident};
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Context, Decision, Operation, to_json};
use crate::domain::reference::Fact;
use crate::domain::reference::kinds::candidate_snapshot::{Candidate, CandidateSnapshotFact};
use crate::domain::reference::kinds::reservation_booking::{BookingState, ReservationBooking};
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The decision's identifier, unique everywhere.
        pub assignment_decision_id: Ident = "assignmentDecisionId",
        /// What it is decided together with, in this booking's roster.
        pub roster_decision_id: Ident = "rosterDecisionId",
        /// The booking.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        /// The slot to fill.
        pub target_assignment_key: AssignmentKey = "targetAssignmentKey",
        /// The request that was matched.
        pub matching_request_key: Ident = "matchingRequestKey",
        /// The caregiver.
        pub caregiver_profile_id: CaregiverId = "caregiverProfileId",
        /// As what.
        pub role: Ident = "role",
        /// The caregiver's place in the order of handing over.
        pub handoff_order: AtLeast<1> = "handoffOrder",
        /// The snapshot that the caregiver is chosen from.
        pub selected_candidate_snapshot_id: Ident = "selectedCandidateSnapshotId",
        /// The snapshot's revision as the actor saw it.
        pub expected_candidate_snapshot_revision: i64 = "expectedCandidateSnapshotRevision",
        /// The booking's revision as the actor saw it.
        pub expected_reservation_revision: i64 = "expectedReservationRevision",
        /// The roster's revision as the actor saw it; 0 before its first decision.
        pub expected_roster_revision: i64 = "expectedRosterRevision",
        /// The proof that the caregiver has the time.
        pub schedule_proof_id: Ident = "scheduleProofId",
        /// Why.
        pub reason_code: Ident = "reasonCode",
        /// The idempotency key.
        pub idempotency_key: BodyKey = "idempotencyKey",
        /// The slot whose decision is replaced.
        pub replacement_of_assignment_key: Option<AssignmentKey> = "replacementOfAssignmentKey",
    }
}

rejections! {
    /// Why no assignment is made.
    pub enum Reason {
        /// Authority over the booking.
        NotPermitted = Forbidden "permission_denied" []
            "Only headquarters or a manager of the booking's branch may assign a caregiver.",
        /// The booking is over.
        ReservationNotActive = Conflict "reservation_not_active" ["reservationBookingId"]
            "The reservation is not active.",
        /// The snapshot; the fields at odds with it are named where that is found.
        CandidateSnapshotConflict = Conflict "candidate_snapshot_conflict"
            ["selectedCandidateSnapshotId"]
            "The candidate snapshot does not hold this candidate for this booking, or not any more.",
        /// A revision is stale; the fields are named where it is found.
        RevisionStale = Conflict "revision_stale" ["expectedRosterRevision"]
            "The expected revision is not the current one: read again, then decide.",
        /// The slot is filled.
        AssignmentSlotTaken = Conflict "assignment_slot_taken" ["targetAssignmentKey"]
            "The slot is filled by a decision that this one does not replace.",
        /// Nothing to replace.
        ReplacementNotFound = Conflict "replacement_not_found" ["replacementOfAssignmentKey"]
            "No decision stands in the slot that is to be replaced.",
        /// The decision's identifier is in use.
        AssignmentDecisionConflict = Conflict "assignment_decision_conflict"
            ["assignmentDecisionId"]
            "A decision with this identifier already exists.",
        /// The roster decision has as many decisions as it may have.
        RosterDecisionFull = Conflict "roster_decision_full" ["rosterDecisionId"]
            "200 decisions stand under this rosterDecisionId: take another one.",
    }
}

/// The operation.
pub struct AssignCaregiver;

impl Operation for AssignCaregiver {
    type Command = Command;
    type Resource = CareTeamRoster;
    type Answer = AssignmentResultBody<'static>;

    const DOC: &'static str = module_doc!("assign_caregiver.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::BranchManager,
        body: r#"{
  "assignmentDecisionId": "assignment-decision-1",
  "rosterDecisionId": "roster-decision-1",
  "reservationBookingId": "reservation-booking-1",
  "targetAssignmentKey": "assignment-1",
  "matchingRequestKey": "matching-request-1",
  "caregiverProfileId": "caregiver-profile-1",
  "role": "primary_caregiver",
  "handoffOrder": 1,
  "selectedCandidateSnapshotId": "candidate-snapshot-1",
  "expectedCandidateSnapshotRevision": 1,
  "expectedReservationRevision": 1,
  "expectedRosterRevision": 0,
  "scheduleProofId": "schedule-proof-1",
  "reasonCode": "first_choice",
  "idempotencyKey": "key-1"
}"#,
        changed_value: ("/reasonCode", r#""second""#),
        needs_facts: &[
            ("reservation-booking", "reservation-booking-1"),
            ("candidate-snapshot", "candidate-snapshot-1"),
        ],
        unique_ids: &[
            "reservation-booking-1",
            "candidate-snapshot-1",
            "matching-request-1",
            "assignment-decision-1",
            "roster-decision-1",
        ],
        id_in_response: "roster-decision-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        use super::roster::AssignmentSlot;
        const BOOKING: &str = "reservation-booking-1";
        Ladder::of(&[
            ActorKind::BranchManager,
            ActorKind::HeadquartersAdministrator,
        ])
        .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
        .then(Reason::ReservationNotActive, |case| {
            case.alter(BOOKING, |booking: &mut Fact<ReservationBooking>| {
                booking.facts.state = BookingState::Completed;
            })
        })
        .then(Reason::CandidateSnapshotConflict, |case| {
            case.set("/selectedCandidateSnapshotId", "unknown")
        })
        .then(
            Rejection::from(Reason::RevisionStale).at(&["expectedReservationRevision"]),
            |case| case.set("/expectedReservationRevision", 9),
        )
        .then(Reason::AssignmentSlotTaken, |case| {
            case.service.given(&AssignmentSlot {
                reservation_booking_id: BookingId::from_trusted(BOOKING),
                assignment_key: AssignmentKey::from_trusted("assignment-1"),
                revision: Revision::FIRST,
                filled_by: Some(Ident::from_trusted("other")),
            });
            case
        })
        .then(Reason::ReplacementNotFound, |case| {
            case.set("/replacementOfAssignmentKey", "empty")
        })
        .then(Reason::AssignmentDecisionConflict, |case| {
            let decision: AssignmentDecision = case.done("assignment-decision-1");
            case.service.given(&decision);
            case
        })
        .then(Reason::RosterDecisionFull, |case| {
            case.done_before(|before| {
                before.set("/targetAssignmentKey", "other");
                before.set("/assignmentDecisionId", "other");
            })
            .set("/expectedRosterRevision", 1);
            let id = [BOOKING, "roster-decision-1"];
            let together: Option<RosterDecision> = case.service.state(&id);
            let mut together = together.expect("a decision was taken");
            let other = together.assignment_decision_ids[0].clone();
            together.assignment_decision_ids = vec![other; DECISIONS_TOGETHER_MAX];
            case.service.given(&together);
            case
        })
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(CareTeamRoster::KIND.key(&[&command.reservation_booking_id]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.idempotency_key.as_str())
    }

    fn decide(
        state: Option<&CareTeamRoster>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<CareTeamRoster>, Rejection> {
        let booking: Option<Fact<ReservationBooking>> =
            context.view.fact(&command.reservation_booking_id);
        let Some(booking) = booking.filter(|booking| may_assign(context.actor, &booking.facts))
        else {
            return Err(Reason::NotPermitted.into());
        };
        if booking.facts.state != BookingState::Active {
            return Err(Reason::ReservationNotActive.into());
        }
        let candidate = chosen_candidate(command, context)?;
        let roster_revision = state.map_or(Revision::NONE, |roster| roster.revision);
        let stale = stale_members(command, booking.revision, roster_revision);
        if !stale.is_empty() {
            return Err(Rejection::from(Reason::RevisionStale).at(&stale));
        }
        let booking_id = &command.reservation_booking_id;
        let target = &command.target_assignment_key;
        let replaced = command.replacement_of_assignment_key.as_ref();
        let target_slot = slot(&context.view, booking_id, target);
        if is_filled(target_slot.as_ref()) && replaced != Some(target) {
            return Err(Reason::AssignmentSlotTaken.into());
        }
        let replaced_slot = replaced.and_then(|key| slot(&context.view, booking_id, key));
        if replaced.is_some() && !is_filled(replaced_slot.as_ref()) {
            return Err(Reason::ReplacementNotFound.into());
        }
        let decision_id = &command.assignment_decision_id;
        let standing = context.view.get::<AssignmentDecision>(&[decision_id]);
        if standing.is_some() {
            return Err(Reason::AssignmentDecisionConflict.into());
        }
        let together = context
            .view
            .get::<RosterDecision>(&[booking_id, &command.roster_decision_id]);
        let mut decisions = together
            .as_ref()
            .map(|together| together.decisions(&context.view))
            .unwrap_or_default();
        if decisions.len() >= DECISIONS_TOGETHER_MAX {
            return Err(Reason::RosterDecisionFull.into());
        }
        let decision = CaregiverAssigned {
            reservation_booking_id: booking_id.clone(),
            assignment: Arc::new(Assignment {
                assignment_decision_id: decision_id.clone(),
                roster_decision_id: command.roster_decision_id.clone(),
                target_assignment_key: target.clone(),
                replacement_of_assignment_key: replaced.cloned(),
                caregiver_profile_id: candidate.caregiver_profile_id,
                role: candidate.role,
                handoff_order: command.handoff_order.0,
                matching_request_key: command.matching_request_key.clone(),
                selected_candidate_snapshot_id: command.selected_candidate_snapshot_id.clone(),
                candidate_snapshot_revision: Revision::new(
                    command.expected_candidate_snapshot_revision,
                ),
                schedule_proof_id: candidate.schedule_proof_id,
                other_area_service: candidate.other_area_service,
                reservation_revision: booking.revision,
                expected_roster_revision: roster_revision,
                reason_code: command.reason_code.clone(),
                actor_id: context.actor.subject.clone(),
                idempotency_key: context.key.into(),
            }),
        };
        let before = SlotsBefore {
            together,
            target: target_slot,
            replaced: replaced_slot.filter(|slot| slot.assignment_key != *target),
        };
        let (commit, decided) = assigned(state, &before, &decision, context.at);
        decisions.push(decided);
        commit.answer(to_json(&AssignmentResultBody::new(&decisions)))
    }
}

/// The candidate that the command names, in the snapshot that it names as it saw it.
fn chosen_candidate(command: &Command, context: &Context<'_>) -> Result<Candidate, Rejection> {
    let conflict = |members: &[&'static str]| {
        Err(Rejection::from(Reason::CandidateSnapshotConflict).at(members))
    };
    // A snapshot of another booking is as if there were none: that booking may be another
    // branch's.
    let snapshot = context
        .view
        .fact::<CandidateSnapshotFact>(&command.selected_candidate_snapshot_id);
    let snapshot = snapshot
        .filter(|found| found.facts.reservation_booking_id == command.reservation_booking_id);
    let Some(Fact {
        revision, facts, ..
    }) = snapshot
    else {
        return conflict(&["selectedCandidateSnapshotId"]);
    };
    if revision.number() != command.expected_candidate_snapshot_revision {
        return conflict(&["expectedCandidateSnapshotRevision"]);
    }
    if facts.expires_at <= context.now {
        return conflict(&["selectedCandidateSnapshotId"]);
    }
    if facts.matching_request_key != command.matching_request_key {
        return conflict(&["matchingRequestKey"]);
    }
    let chosen = facts.candidates.into_iter().find(|candidate| {
        candidate.caregiver_profile_id == command.caregiver_profile_id
            && candidate.role == command.role
            && candidate.schedule_proof_id == command.schedule_proof_id
    });
    match chosen {
        Some(candidate) => Ok(candidate),
        None => conflict(&["caregiverProfileId", "role", "scheduleProofId"]),
    }
}

fn stale_members(command: &Command, booking: Revision, roster: Revision) -> Vec<&'static str> {
    let mut stale = Vec::new();
    if command.expected_reservation_revision != booking.number() {
        stale.push("expectedReservationRevision");
    }
    if command.expected_roster_revision != roster.number() {
        stale.push("expectedRosterRevision");
    }
    stale
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};
    use serde_json::json;

    use super::super::samples::{assign, assigning, assignment, booking, replacing, snapshot};
    use super::*;
    use crate::base::actor::ActorKind;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, actor, assert_conflict, manager, with};

    fn revision(service: &Scenario) -> i64 {
        let roster: Option<CareTeamRoster> = service.state(&["booking-1"]);
        roster.map_or(0, |roster| roster.revision.number())
    }

    #[test]
    fn a_caregiver_is_assigned_and_the_result_answered_whole() {
        let mut service = assigning();
        assert_eq!(
            assign(&mut service, &assignment(1, "slot-1", 0)).committed(),
            json!({
                "rosterDecisionId": "roster-decision-1",
                "reservationBookingId": "booking-1",
                "expectedRosterRevision": 0,
                "evidenceKey": "care-team-assignment/decision-1",
                "assignmentDecisions": [{
                    "assignmentDecisionId": "decision-1",
                    "reservationBookingId": "booking-1",
                    "decisionKind": "assign",
                    "role": "primary_caregiver",
                    "handoffOrder": 1,
                    "targetAssignmentKey": "slot-1",
                    "expectedReservationRevision": 5,
                    "expectedRosterRevision": 0,
                    "actorId": "user-7",
                    "reasonCode": "first_choice",
                    "idempotencyKey": "assign-1",
                    "evidenceKey": "care-team-assignment/decision-1",
                    "previousAssignmentKey": null,
                    "selectedCandidateSnapshotId": "snapshot-1",
                    "scheduleProofId": "proof-1",
                    "replacementOfAssignmentKey": null,
                    "otherAreaService": false,
                }],
                "status": "recorded",
            })
        );
        assert!(service.outbox.is_empty());
        let roster: CareTeamRoster = service.state(&["booking-1"]).unwrap();
        assert_eq!(roster.revision, Revision::FIRST);
        let recorded: AssignmentDecision = service.state(&["decision-1"]).unwrap();
        assert_eq!(recorded.decided_at.to_string(), "2026-11-20T12:00:00.000Z");
        assert_eq!(&*recorded.assignment.caregiver_profile_id, "caregiver-1");
        assert_eq!(recorded.assignment.candidate_snapshot_revision.number(), 3);
        assert_eq!(&*recorded.assignment.matching_request_key, "matching-1");
        let fact: Fact<ReservationBooking> = service.state(&["booking-1"]).unwrap();
        assert_eq!(fact.revision.number(), 5, "the booking stays as it was");
    }

    #[test]
    fn the_thousandth_decision_costs_no_more_and_the_first_is_still_known() {
        let mut service = assigning();
        let mut costs = Vec::new();
        for number in 0..1_000 {
            let slot = format!("slot-{number:04}");
            let mut body = with(
                &assignment(number, &slot, number.into()),
                &[
                    ("rosterDecisionId", json!(format!("together-{number:04}"))),
                    ("assignmentDecisionId", json!(format!("one-{number:04}"))),
                    ("idempotencyKey", json!(format!("key-{number:04}"))),
                ],
            );
            // Each but the first takes the place of the one before: so much is always replaced.
            if number > 0 {
                let before = format!("slot-{:04}", number - 1);
                body["replacementOfAssignmentKey"] = json!(before);
            }
            assign(&mut service, &body).committed();
            costs.push(service.cost);
        }
        let (least, most) = (costs[1], costs[999]);
        println!("the second decision: {least:?}, the thousandth: {most:?}");
        // A revision takes a few more bytes when it is larger.
        assert!(most.record <= least.record + 32, "{least:?}, {most:?}");
        assert!(most.states <= least.states + 32, "{least:?}, {most:?}");
        let again = with(
            &assignment(0, "slot-0000", 1_000),
            &[
                ("assignmentDecisionId", json!("one-0000")),
                ("idempotencyKey", json!("again")),
            ],
        );
        let then = assign(&mut service, &again);
        assert_conflict(
            then,
            "assignment_decision_conflict",
            &["assignmentDecisionId"],
        );
        let taken = assign(&mut service, &assignment(2_000, "slot-0999", 1_000));
        assert_conflict(taken, "assignment_slot_taken", &["targetAssignmentKey"]);
        // What was decided under an earlier identifier is shown whole when it is continued.
        let under_the_first = with(
            &assignment(2_000, "slot-0000", 1_000),
            &[("rosterDecisionId", json!("together-0000"))],
        );
        let answer = assign(&mut service, &under_the_first).committed();
        let decisions = answer["assignmentDecisions"].as_array().unwrap();
        let ids: Vec<_> = decisions
            .iter()
            .map(|decision| &decision["assignmentDecisionId"])
            .collect();
        assert_eq!(ids, ["one-0000", "decision-2000"]);
    }

    #[test]
    fn two_hundred_decisions_may_be_taken_together_and_the_next_one_elsewhere() {
        let mut service = assigning();
        for number in 0..200 {
            let slot = format!("slot-{number}");
            let body = assignment(number, &slot, number.into());
            let answer = assign(&mut service, &body).committed();
            let together = answer["assignmentDecisions"].as_array().unwrap().len();
            assert_eq!(together, usize::try_from(number).unwrap() + 1);
        }
        let one_more = assignment(200, "slot-200", 200);
        let then = assign(&mut service, &one_more);
        assert_conflict(then, "roster_decision_full", &["rosterDecisionId"]);
        let elsewhere = with(
            &one_more,
            &[("rosterDecisionId", json!("roster-decision-2"))],
        );
        let answer = assign(&mut service, &elsewhere).committed();
        assert_eq!(answer["assignmentDecisions"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_replacement_is_answered_with_the_decisions_recorded_together() {
        let mut service = assigning();
        let first = assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        let other = with(
            &assignment(2, "slot-2", 1),
            &[("rosterDecisionId", json!("roster-decision-2"))],
        );
        let other = assign(&mut service, &other).committed();
        assert_eq!(other["rosterDecisionId"], "roster-decision-2");
        assert_eq!(other["assignmentDecisions"].as_array().unwrap().len(), 1);
        let replacement = with(
            &replacing(3, "slot-3", 2, "slot-1"),
            &[
                ("caregiverProfileId", json!("caregiver-2")),
                ("role", json!("night_caregiver")),
                ("scheduleProofId", json!("proof-2")),
                ("handoffOrder", json!(2)),
                ("reasonCode", json!("illness")),
            ],
        );
        let answer = assign(&mut service, &replacement).committed();
        assert_eq!(
            answer,
            json!({
                "rosterDecisionId": "roster-decision-1",
                "reservationBookingId": "booking-1",
                "expectedRosterRevision": 2,
                "evidenceKey": "care-team-assignment/decision-3",
                "assignmentDecisions": [first["assignmentDecisions"][0], {
                    "assignmentDecisionId": "decision-3",
                    "reservationBookingId": "booking-1",
                    "decisionKind": "replace",
                    "role": "night_caregiver",
                    "handoffOrder": 2,
                    "targetAssignmentKey": "slot-3",
                    "expectedReservationRevision": 5,
                    "expectedRosterRevision": 2,
                    "actorId": "user-7",
                    "reasonCode": "illness",
                    "idempotencyKey": "assign-3",
                    "evidenceKey": "care-team-assignment/decision-3",
                    "previousAssignmentKey": "slot-1",
                    "selectedCandidateSnapshotId": "snapshot-1",
                    "scheduleProofId": "proof-2",
                    "replacementOfAssignmentKey": "slot-1",
                    "otherAreaService": true,
                }],
                "status": "recorded",
            })
        );
        assert_eq!(revision(&service), 3);
    }

    #[test]
    fn a_replaced_slot_is_free_and_a_filled_one_may_be_replaced_by_itself() {
        let mut service = assigning();
        assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        assign(&mut service, &replacing(2, "slot-1", 1, "slot-1")).committed();
        assign(&mut service, &replacing(3, "slot-2", 2, "slot-1")).committed();
        assign(&mut service, &assignment(4, "slot-1", 3)).committed();
        assert_conflict(
            assign(&mut service, &assignment(5, "slot-2", 4)),
            "assignment_slot_taken",
            &["targetAssignmentKey"],
        );
        assert_eq!(revision(&service), 4);
    }

    #[test]
    fn one_roster_decision_on_two_bookings_is_two() {
        let mut service = assigning();
        service.fact("reservation-booking", "booking-2", 1, booking("active"));
        service.fact("candidate-snapshot", "snapshot-2", 1, {
            let mut facts = snapshot();
            facts["reservationBookingId"] = json!("booking-2");
            facts
        });
        assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        let on_another = with(
            &assignment(2, "slot-1", 0),
            &[
                ("reservationBookingId", json!("booking-2")),
                ("selectedCandidateSnapshotId", json!("snapshot-2")),
                ("expectedCandidateSnapshotRevision", json!(1)),
                ("expectedReservationRevision", json!(1)),
            ],
        );
        let answer = assign(&mut service, &on_another).committed();
        assert_eq!(answer["rosterDecisionId"], "roster-decision-1");
        let decisions = answer["assignmentDecisions"].as_array().unwrap();
        assert_eq!(decisions.len(), 1);
        assert_eq!(decisions[0]["reservationBookingId"], "booking-2");
        // The decision's own identifier is unique everywhere.
        let taken = with(
            &on_another,
            &[
                ("assignmentDecisionId", json!("decision-1")),
                ("targetAssignmentKey", json!("slot-2")),
                ("expectedRosterRevision", json!(1)),
            ],
        );
        assert_conflict(
            assign(&mut service, &taken),
            "assignment_decision_conflict",
            &["assignmentDecisionId"],
        );
    }

    #[test]
    fn a_foreign_or_unknown_booking_is_forbidden_whatever_else_is_wrong() {
        let wrong = [
            ("selectedCandidateSnapshotId", json!("no-such-snapshot")),
            ("expectedReservationRevision", json!(0)),
        ];
        let elsewhere = assign(
            assigning().acting(manager("user-8", "branch-2")),
            &with(&assignment(1, "slot-1", 0), &wrong),
        );
        let unknown = [("reservationBookingId", json!("no-such-booking"))];
        let unknown = with(&assignment(1, "slot-1", 0), &unknown);
        let of_managers = assign(&mut assigning(), &unknown);
        let headquarters = actor(ActorKind::HeadquartersAdministrator, "hq");
        let of_headquarters = assign(assigning().acting(headquarters), &unknown);
        let refusals = [elsewhere, of_managers, of_headquarters].map(Then::refusal);
        assert_eq!(
            (refusals[0].class, refusals[0].code),
            (Class::Forbidden, "permission_denied")
        );
        assert_eq!(refusals[0], refusals[1], "existence is not given away");
        assert_eq!(refusals[0], refusals[2]);
    }

    #[test]
    fn the_branch_is_the_one_that_the_booking_has_now() {
        let mut service = assigning();
        let mut moved = booking("active");
        moved["branchProfileId"] = json!("branch-2");
        service.fact("reservation-booking", "booking-1", 6, moved);
        let body = with(
            &assignment(1, "slot-1", 0),
            &[("expectedReservationRevision", json!(6))],
        );
        assert_eq!(assign(&mut service, &body).code(), "permission_denied");
        assign(service.acting(manager("user-8", "branch-2")), &body).committed();
    }

    #[test]
    fn a_different_candidate_snapshot_is_a_conflict_before_stale_revisions() {
        let mut service = assigning();
        let mut of_another = snapshot();
        of_another["reservationBookingId"] = json!("booking-2");
        service.fact("candidate-snapshot", "snapshot-2", 3, of_another);
        let candidate = &["caregiverProfileId", "role", "scheduleProofId"][..];
        for (member, value, places) in [
            (
                "selectedCandidateSnapshotId",
                json!("no-such-snapshot"),
                &["selectedCandidateSnapshotId"][..],
            ),
            (
                "selectedCandidateSnapshotId",
                json!("snapshot-2"),
                &["selectedCandidateSnapshotId"],
            ),
            (
                "expectedCandidateSnapshotRevision",
                json!(2),
                &["expectedCandidateSnapshotRevision"],
            ),
            (
                "expectedCandidateSnapshotRevision",
                json!(4),
                &["expectedCandidateSnapshotRevision"],
            ),
            (
                "matchingRequestKey",
                json!("matching-2"),
                &["matchingRequestKey"],
            ),
            ("caregiverProfileId", json!("caregiver-3"), candidate),
            // Each of these is another candidate's.
            ("caregiverProfileId", json!("caregiver-2"), candidate),
            ("role", json!("night_caregiver"), candidate),
            ("scheduleProofId", json!("proof-2"), candidate),
        ] {
            let wrong = [
                (member, value),
                ("expectedReservationRevision", json!(4)),
                ("expectedRosterRevision", json!(1)),
            ];
            let body = with(&assignment(1, "slot-1", 0), &wrong);
            let then = assign(&mut service, &body);
            assert_conflict(then, "candidate_snapshot_conflict", places);
        }
        assert_eq!(revision(&service), 0);
    }

    #[test]
    fn a_snapshot_is_used_until_it_expires() {
        let body = assignment(1, "slot-1", 0);
        let mut service = assigning();
        for now in ["2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"] {
            assert_conflict(
                assign(service.at(now), &body),
                "candidate_snapshot_conflict",
                &["selectedCandidateSnapshotId"],
            );
        }
        assign(service.at("2026-11-30T23:59:59.999Z"), &body).committed();
    }

    #[test]
    fn a_snapshot_without_candidates_offers_nobody() {
        let mut service = assigning();
        let mut empty = snapshot();
        empty["candidates"] = json!([]);
        service.fact("candidate-snapshot", "snapshot-1", 4, empty);
        let body = with(
            &assignment(1, "slot-1", 0),
            &[("expectedCandidateSnapshotRevision", json!(4))],
        );
        assert_eq!(
            assign(&mut service, &body).code(),
            "candidate_snapshot_conflict"
        );
    }

    #[test]
    fn stale_revisions_are_all_named_before_the_slots_are_looked_at() {
        let mut service = assigning();
        assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        // The slot is filled, there is nothing to replace, the decision's identifier is in use.
        let body = replacing(1, "slot-1", 1, "slot-9");
        for (reservation, roster, places) in [
            (4, 1, &["expectedReservationRevision"][..]),
            (6, 1, &["expectedReservationRevision"]),
            (5, 0, &["expectedRosterRevision"]),
            (5, 2, &["expectedRosterRevision"]),
            (5, -1, &["expectedRosterRevision"]),
            (
                0,
                0,
                &["expectedReservationRevision", "expectedRosterRevision"],
            ),
        ] {
            let stale = [
                ("expectedReservationRevision", json!(reservation)),
                ("expectedRosterRevision", json!(roster)),
            ];
            let then = assign(&mut service, &with(&body, &stale));
            assert_conflict(then, "revision_stale", places);
        }
        assert_conflict(
            assign(&mut service, &body),
            "assignment_slot_taken",
            &["targetAssignmentKey"],
        );
        let mut fresh = assigning();
        let then = assign(&mut fresh, &assignment(1, "slot-1", 1));
        assert_conflict(then, "revision_stale", &["expectedRosterRevision"]);
    }

    #[test]
    fn conflicts_are_told_in_the_order_slot_replacement_decision() {
        let mut service = assigning();
        assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        assign(&mut service, &assignment(2, "slot-2", 1)).committed();
        // Another existing one is replaced, not the one in the slot.
        for replaced in ["slot-2", "slot-9"] {
            assert_conflict(
                assign(&mut service, &replacing(1, "slot-1", 2, replaced)),
                "assignment_slot_taken",
                &["targetAssignmentKey"],
            );
        }
        for (target, replaced) in [("slot-3", "slot-9"), ("slot-3", "slot-3")] {
            assert_conflict(
                assign(&mut service, &replacing(1, target, 2, replaced)),
                "replacement_not_found",
                &["replacementOfAssignmentKey"],
            );
        }
        for body in [
            assignment(1, "slot-3", 2),
            replacing(2, "slot-1", 2, "slot-1"),
        ] {
            assert_conflict(
                assign(&mut service, &body),
                "assignment_decision_conflict",
                &["assignmentDecisionId"],
            );
        }
        assert_eq!(revision(&service), 2);
        // What was replaced is not there to be replaced again.
        assign(&mut service, &replacing(3, "slot-3", 2, "slot-1")).committed();
        assert_conflict(
            assign(&mut service, &replacing(4, "slot-4", 3, "slot-1")),
            "replacement_not_found",
            &["replacementOfAssignmentKey"],
        );
    }

    /// Slots are filled and emptied as in a plain set of keys, whatever is asked for. A run is
    /// repeated with the environment variable `SEED`.
    #[test]
    fn no_order_of_decisions_fills_a_slot_twice_or_empties_an_empty_one() {
        let seed = crate::base::testing::seed();
        let mut random = StdRng::seed_from_u64(seed);
        let slots = ["slot-1", "slot-2", "slot-3", "slot-4"];
        let mut service = assigning();
        let mut filled: BTreeSet<&str> = BTreeSet::new();
        let mut revision = 0;
        for number in 0..200 {
            let target = *slots.choose(&mut random).unwrap();
            let replaced = *slots.choose(&mut random).unwrap();
            let replaced = random.random_bool(0.6).then_some(replaced);
            let body = match replaced {
                Some(replaced) => replacing(number, target, revision, replaced),
                None => assignment(number, target, revision),
            };
            let then = assign(&mut service, &body);
            if filled.contains(target) && replaced != Some(target) {
                assert_eq!(then.code(), "assignment_slot_taken", "SEED={seed}");
            } else if replaced.is_some_and(|replaced| !filled.contains(replaced)) {
                assert_eq!(then.code(), "replacement_not_found", "SEED={seed}");
            } else {
                then.committed();
                revision += 1;
                if let Some(replaced) = replaced {
                    filled.remove(replaced);
                }
                filled.insert(target);
            }
            for key in slots {
                let standing = service.view(|view| {
                    slot(
                        view,
                        &BookingId::from_trusted("booking-1"),
                        &AssignmentKey::from_trusted(key),
                    )
                });
                assert_eq!(
                    is_filled(standing.as_ref()),
                    filled.contains(key),
                    "SEED={seed}"
                );
            }
        }
    }
}
