//! What came of an assignment, as it is shown.

use schemars::JsonSchema;
use serde::Serialize;

use super::roster::{Assignment, AssignmentDecision, AssignmentStatus};
use crate::base::revision::Revision;
use crate::base::text::{AssignmentKey, BookingId, Ident};
use crate::wire_enum;

wire_enum! {
    /// What a decision does.
    pub enum DecisionKind {
        /// Fills an empty slot.
        Assign = "assign",
        /// Fills a slot in the place of an existing decision.
        Replace = "replace",
    }
}

/// What came of an assignment, as its readers see it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CareTeamAssignmentResult")]
pub struct AssignmentResultBody<'a> {
    roster_decision_id: &'a Ident,
    reservation_booking_id: &'a BookingId,
    expected_roster_revision: Revision,
    evidence_key: String,
    assignment_decisions: Vec<DecisionBody<'a>>,
    status: AssignmentStatus,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AssignmentDecision")]
struct DecisionBody<'a> {
    assignment_decision_id: &'a Ident,
    reservation_booking_id: &'a BookingId,
    decision_kind: DecisionKind,
    role: &'a Ident,
    handoff_order: i64,
    target_assignment_key: &'a AssignmentKey,
    expected_reservation_revision: Revision,
    expected_roster_revision: Revision,
    actor_id: &'a str,
    reason_code: &'a Ident,
    idempotency_key: &'a str,
    evidence_key: String,
    previous_assignment_key: Option<&'a AssignmentKey>,
    selected_candidate_snapshot_id: &'a Ident,
    schedule_proof_id: &'a Ident,
    replacement_of_assignment_key: Option<&'a AssignmentKey>,
    other_area_service: bool,
}

impl<'a> AssignmentResultBody<'a> {
    /// What came of the last of `decisions`, which were taken together: all of them, oldest first.
    /// `None` where there is none.
    #[must_use]
    pub fn new(decisions: &'a [AssignmentDecision]) -> Option<Self> {
        let AssignmentDecision {
            reservation_booking_id,
            assignment: latest,
            ..
        } = decisions.last()?;
        Some(Self {
            roster_decision_id: &latest.roster_decision_id,
            reservation_booking_id,
            expected_roster_revision: latest.expected_roster_revision,
            evidence_key: evidence_key(latest),
            assignment_decisions: decisions.iter().map(DecisionBody::new).collect(),
            status: AssignmentStatus::Recorded,
        })
    }
}

impl<'a> DecisionBody<'a> {
    fn new(decision: &'a AssignmentDecision) -> Self {
        let assignment = &decision.assignment;
        let replaced = assignment.replacement_of_assignment_key.as_ref();
        Self {
            assignment_decision_id: &assignment.assignment_decision_id,
            reservation_booking_id: &decision.reservation_booking_id,
            decision_kind: if replaced.is_some() {
                DecisionKind::Replace
            } else {
                DecisionKind::Assign
            },
            role: &assignment.role,
            handoff_order: assignment.handoff_order,
            target_assignment_key: &assignment.target_assignment_key,
            expected_reservation_revision: assignment.reservation_revision,
            expected_roster_revision: assignment.expected_roster_revision,
            actor_id: &assignment.actor_id,
            reason_code: &assignment.reason_code,
            idempotency_key: &assignment.idempotency_key,
            evidence_key: evidence_key(assignment),
            previous_assignment_key: replaced,
            selected_candidate_snapshot_id: &assignment.selected_candidate_snapshot_id,
            schedule_proof_id: &assignment.schedule_proof_id,
            replacement_of_assignment_key: replaced,
            other_area_service: assignment.other_area_service,
        }
    }
}

fn evidence_key(assignment: &Assignment) -> String {
    format!("care-team-assignment/{}", assignment.assignment_decision_id)
}
