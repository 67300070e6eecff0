//! The result of an assignment, as readers see it.

use schemars::JsonSchema;
use serde::Serialize;

use super::roster::{Assignment, AssignmentDecision, AssignmentStatus};
use crate::base::revision::Revision;
use crate::base::text::{AssignmentKey, BookingId, Ident};
use crate::domain::response_body::response_body;
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

response_body! {
    #[schemars(rename = "AssignmentDecision")]
    struct DecisionBody<'a> from (decision: &'a AssignmentDecision) {
        let assignment = &decision.assignment;
        let replaced = assignment.replacement_of_assignment_key.as_ref();
    } as {
        assignment_decision_id: &'a Ident = &assignment.assignment_decision_id,
        reservation_booking_id: &'a BookingId = &decision.reservation_booking_id,
        decision_kind: DecisionKind = if replaced.is_some() {
            DecisionKind::Replace
        } else {
            DecisionKind::Assign
        },
        role: &'a Ident = &assignment.role,
        handoff_order: i64 = assignment.handoff_order,
        target_assignment_key: &'a AssignmentKey = &assignment.target_assignment_key,
        expected_reservation_revision: Revision = assignment.reservation_revision,
        expected_roster_revision: Revision = assignment.expected_roster_revision,
        actor_id: &'a str = &assignment.actor_id,
        reason_code: &'a Ident = &assignment.reason_code,
        idempotency_key: &'a str = &assignment.idempotency_key,
        evidence_key: String = evidence_key(assignment),
        previous_assignment_key: Option<&'a AssignmentKey> = replaced,
        selected_candidate_snapshot_id: &'a Ident = &assignment.selected_candidate_snapshot_id,
        schedule_proof_id: &'a Ident = &assignment.schedule_proof_id,
        replacement_of_assignment_key: Option<&'a AssignmentKey> = replaced,
        other_area_service: bool = assignment.other_area_service,
    }
}

impl<'a> AssignmentResultBody<'a> {
    /// Makes the result of the last of `decisions`, which were taken together: it contains all of
    /// them, oldest first. `None` where there is none.
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

fn evidence_key(assignment: &Assignment) -> String {
    let id = assignment.assignment_decision_id.as_str();
    ["care-team-assignment/", id].concat()
}
