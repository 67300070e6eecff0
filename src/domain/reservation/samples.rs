//! Bookings, snapshots and commands that the tests of this group share.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::domain::scenario::{Scenario, Then, manager, with_added};

/// The name of the operation.
pub(super) const ASSIGN: &str = "assign_caregiver";

/// A booking of `branch-1` in this state.
pub(super) fn booking(state: &str) -> Value {
    json!({
        "motherUserId": "user-1",
        "motherMemberId": "mother-1",
        "branchProfileId": "branch-1",
        "state": state,
    })
}

/// Returns a snapshot with two candidates for `booking-1`, valid until December.
pub(super) fn snapshot() -> Value {
    json!({
        "matchingRequestKey": "matching-1",
        "reservationBookingId": "booking-1",
        "expiresAt": "2026-12-01T00:00:00Z",
        "candidates": [
            {
                "caregiverProfileId": "caregiver-1",
                "role": "primary_caregiver",
                "scheduleProofId": "proof-1",
                "otherAreaService": false,
            },
            {
                "caregiverProfileId": "caregiver-2",
                "role": "night_caregiver",
                "scheduleProofId": "proof-2",
                "otherAreaService": true,
            },
        ],
    })
}

/// Makes a service that knows `booking-1` at revision 5 and `snapshot-1` at revision 3; a manager
/// of the booking's branch acts.
pub(super) fn assigning() -> Scenario {
    let mut service = Scenario::new();
    service
        .fact("reservation-booking", "booking-1", 5, booking("active"))
        .fact("candidate-snapshot", "snapshot-1", 3, snapshot())
        .acting(manager("user-7", "branch-1"));
    service
}

/// Returns the body of the decision with this number: the first candidate fills this slot.
pub(super) fn assignment(number: u32, slot: &str, expected_roster_revision: i64) -> Value {
    json!({
        "assignmentDecisionId": format!("decision-{number}"),
        "rosterDecisionId": "roster-decision-1",
        "reservationBookingId": "booking-1",
        "targetAssignmentKey": slot,
        "matchingRequestKey": "matching-1",
        "caregiverProfileId": "caregiver-1",
        "role": "primary_caregiver",
        "handoffOrder": 1,
        "selectedCandidateSnapshotId": "snapshot-1",
        "expectedCandidateSnapshotRevision": 3,
        "expectedReservationRevision": 5,
        "expectedRosterRevision": expected_roster_revision,
        "scheduleProofId": "proof-1",
        "reasonCode": "first_choice",
        "idempotencyKey": format!("assign-{number}"),
    })
}

/// Returns the body of [`assignment`], replacing the assignment of another slot, or of the same
/// one.
pub(super) fn replacing(
    number: u32,
    slot: &str,
    expected_roster_revision: i64,
    replaced: &str,
) -> Value {
    with_added(
        &assignment(number, slot, expected_roster_revision),
        &[("replacementOfAssignmentKey", json!(replaced))],
    )
}

/// Requests the assignment.
pub(super) fn assign(service: &mut Scenario, body: &Value) -> Then {
    service.when(ASSIGN, &[], body)
}
