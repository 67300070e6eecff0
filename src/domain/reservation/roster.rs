//! The care-team roster of a booking: its state, its events, and how it looks from outside.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::base::actor::Actor;
use crate::base::revision::Revision;
use crate::base::text::Ident;
use crate::base::time::Instant;
use crate::domain::reference::reservation_booking::ReservationBooking;
use crate::domain::resource::{Kind, Name, Resource, Space};
use crate::words;

words! {
    /// What a decision does.
    pub enum DecisionKind {
        /// Fills an empty slot.
        Assign = "assign",
        /// Fills a slot in the place of a decision that stood.
        Replace = "replace",
    }
}

words! {
    /// What became of a command.
    pub enum AssignmentStatus {
        /// Its decision is in the roster.
        Recorded = "recorded",
    }
}

/// A caregiver is assigned to a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The decision's identifier, unique everywhere.
    pub assignment_decision_id: Ident,
    /// What it is decided together with, in this roster.
    pub roster_decision_id: Ident,
    /// The slot that it fills.
    pub target_assignment_key: Ident,
    /// The slot that it empties first; none: it replaces nobody.
    pub replacement_of_assignment_key: Option<Ident>,
    /// The caregiver.
    pub caregiver_profile_id: Ident,
    /// As what.
    pub role: Ident,
    /// The caregiver's place in the order of handing over, from 1.
    pub handoff_order: i64,
    /// The request that was matched.
    pub matching_request_key: Ident,
    /// The snapshot that the caregiver was chosen from.
    pub selected_candidate_snapshot_id: Ident,
    /// The snapshot's revision.
    pub candidate_snapshot_revision: Revision,
    /// The proof that the caregiver has the time.
    pub schedule_proof_id: Ident,
    /// Whether the caregiver comes from outside the branch's area.
    pub other_area_service: bool,
    /// The booking's revision.
    pub reservation_revision: Revision,
    /// The roster's revision before the decision.
    pub expected_roster_revision: Revision,
    /// Why.
    pub reason_code: Ident,
    /// Who decided: the token's subject.
    pub actor_id: Box<str>,
    /// The command's key.
    pub idempotency_key: Box<str>,
}

/// A decision of a roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignmentDecision {
    /// What was decided.
    pub assignment: Assignment,
    /// When.
    pub decided_at: Instant,
}

/// The roster of a booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareTeamRoster {
    /// The booking.
    pub reservation_booking_id: Ident,
    /// How many commits it has seen.
    pub revision: Revision,
    /// Its decisions, oldest first.
    pub decisions: Vec<AssignmentDecision>,
}

/// A caregiver is assigned in the roster of a booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaregiverAssigned {
    /// The booking.
    pub reservation_booking_id: Ident,
    /// What is decided.
    pub assignment: Assignment,
}

/// What can happen to a roster. New events go at the end: their order stands in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RosterEvent {
    /// A caregiver is assigned.
    Assigned(Box<CaregiverAssigned>),
}

impl Resource for CareTeamRoster {
    const KIND: Kind = Kind {
        tag: 106,
        name: "care-team-roster",
    };
    type Event = RosterEvent;

    fn apply(state: Option<Self>, event: &RosterEvent, at: Instant) -> Self {
        let RosterEvent::Assigned(assigned) = event;
        let mut roster = state.unwrap_or_else(|| Self {
            reservation_booking_id: assigned.reservation_booking_id.clone(),
            revision: Revision::NONE,
            decisions: Vec::new(),
        });
        assert!(
            roster.reservation_booking_id == assigned.reservation_booking_id,
            "a caregiver is assigned in the roster of the booking"
        );
        roster.decisions.push(AssignmentDecision {
            assignment: assigned.assignment.clone(),
            decided_at: at,
        });
        roster.revision = roster.revision.next();
        roster
    }

    fn id(&self) -> Vec<String> {
        vec![self.reservation_booking_id.to_string()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn names(&self) -> Vec<Name> {
        let decisions = self.decisions.iter();
        decisions
            .map(|decision| Self::decision(&decision.assignment.assignment_decision_id))
            .collect()
    }

    fn validate(&self) -> Result<(), String> {
        let decisions = self.decisions.len();
        if i64::try_from(decisions) != Ok(self.revision.number()) {
            return Err(format!(
                "{decisions} decisions at revision {}",
                self.revision
            ));
        }
        let mut ids = BTreeSet::new();
        let mut filled = BTreeSet::new();
        let mut revision = Revision::NONE;
        for AssignmentDecision { assignment, .. } in &self.decisions {
            if !ids.insert(&assignment.assignment_decision_id) {
                return Err("two decisions have one identifier".to_owned());
            }
            if assignment.expected_roster_revision != revision {
                return Err(format!(
                    "a decision at {revision} expected another revision"
                ));
            }
            if let Some(replaced) = &assignment.replacement_of_assignment_key
                && !filled.remove(replaced)
            {
                return Err("a decision replaces what did not stand".to_owned());
            }
            if !filled.insert(&assignment.target_assignment_key) {
                return Err("a decision fills a slot that was not empty".to_owned());
            }
            revision = revision.next();
        }
        Ok(())
    }
}

impl CareTeamRoster {
    /// The name that belongs to the roster in which this decision stands.
    #[must_use]
    pub fn decision(assignment_decision_id: &str) -> Name {
        Name::new(Space::AssignmentDecision, &[assignment_decision_id])
    }

    /// Whether the slot with this key is filled: by a decision that was not replaced since.
    #[must_use]
    pub fn is_filled(&self, assignment_key: &str) -> bool {
        // The last decision that knows the slot tells; one that replaces a slot by itself fills it.
        let decisions = self.decisions.iter().rev();
        decisions
            .map(|decision| &decision.assignment)
            .find_map(|assignment| {
                let replaced = assignment.replacement_of_assignment_key.as_deref();
                if *assignment.target_assignment_key == *assignment_key {
                    Some(true)
                } else if replaced == Some(assignment_key) {
                    Some(false)
                } else {
                    None
                }
            })
            .unwrap_or(false)
    }

    /// The latest decision; there is one in every roster that exists.
    #[must_use]
    pub fn latest(&self) -> Option<&Assignment> {
        self.decisions.last().map(|decision| &decision.assignment)
    }
}

/// Headquarters and the managers of the booking's branch staff a booking, and see who serves.
#[must_use]
pub fn may_assign(actor: &Actor, booking: &ReservationBooking) -> bool {
    actor.is_headquarters() || actor.manages_branch(&booking.branch_profile_id)
}

/// What came of an assignment, as its readers see it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssignmentResultView<'a> {
    roster_decision_id: &'a Ident,
    reservation_booking_id: &'a Ident,
    expected_roster_revision: Revision,
    evidence_key: String,
    assignment_decisions: Vec<DecisionView<'a>>,
    status: AssignmentStatus,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DecisionView<'a> {
    assignment_decision_id: &'a Ident,
    reservation_booking_id: &'a Ident,
    decision_kind: DecisionKind,
    role: &'a Ident,
    handoff_order: i64,
    target_assignment_key: &'a Ident,
    expected_reservation_revision: Revision,
    expected_roster_revision: Revision,
    actor_id: &'a str,
    reason_code: &'a Ident,
    idempotency_key: &'a str,
    evidence_key: String,
    previous_assignment_key: Option<&'a Ident>,
    selected_candidate_snapshot_id: &'a Ident,
    schedule_proof_id: &'a Ident,
    replacement_of_assignment_key: Option<&'a Ident>,
    other_area_service: bool,
}

impl<'a> AssignmentResultView<'a> {
    /// What came of the roster's latest decision: that decision, after the earlier ones that were
    /// recorded together with it. `None` of a roster without decisions.
    #[must_use]
    pub fn latest(roster: &'a CareTeamRoster) -> Option<Self> {
        let latest = roster.latest()?;
        let decisions = roster.decisions.iter().map(|decision| &decision.assignment);
        let together = decisions
            .filter(|assignment| assignment.roster_decision_id == latest.roster_decision_id);
        Some(Self {
            roster_decision_id: &latest.roster_decision_id,
            reservation_booking_id: &roster.reservation_booking_id,
            expected_roster_revision: latest.expected_roster_revision,
            evidence_key: evidence_key(latest),
            assignment_decisions: together
                .map(|assignment| DecisionView::new(roster, assignment))
                .collect(),
            status: AssignmentStatus::Recorded,
        })
    }
}

impl<'a> DecisionView<'a> {
    fn new(roster: &'a CareTeamRoster, assignment: &'a Assignment) -> Self {
        let replaced = assignment.replacement_of_assignment_key.as_ref();
        Self {
            assignment_decision_id: &assignment.assignment_decision_id,
            reservation_booking_id: &roster.reservation_booking_id,
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::samples::{assign, assigning, assignment, replacing};
    use super::*;

    /// A roster with two slots: `slot-1`, twice filled, and `slot-2`.
    fn roster() -> CareTeamRoster {
        let mut service = assigning();
        assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        assign(&mut service, &assignment(2, "slot-2", 1)).committed();
        assign(&mut service, &replacing(3, "slot-1", 2, "slot-1")).committed();
        service.state(&["booking-1"]).unwrap()
    }

    #[test]
    fn a_state_that_cannot_be_does_not_validate() {
        let roster = roster();
        assert_eq!(roster.validate(), Ok(()));
        let damages: [fn(&mut CareTeamRoster); 6] = [
            |roster| roster.revision = Revision::new(2),
            |roster| {
                roster.decisions[2].assignment.assignment_decision_id =
                    Ident::from_trusted("decision-1");
            },
            |roster| {
                roster.decisions[1].assignment.expected_roster_revision = Revision::new(2);
            },
            |roster| {
                roster.decisions[2].assignment.replacement_of_assignment_key = None;
            },
            |roster| {
                roster.decisions[2].assignment.replacement_of_assignment_key =
                    Some(Ident::from_trusted("slot-3"));
            },
            |roster| {
                roster.decisions[1].assignment.target_assignment_key =
                    Ident::from_trusted("slot-1");
            },
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut damaged = roster.clone();
            damage(&mut damaged);
            assert!(damaged.validate().is_err(), "damage {number}");
        }
    }

    #[test]
    fn a_slot_is_filled_until_its_decision_is_replaced_elsewhere() {
        let mut roster = roster();
        let filled = |roster: &CareTeamRoster| {
            ["slot-1", "slot-2", "slot-3", "slot"].map(|key| roster.is_filled(key))
        };
        assert_eq!(filled(&roster), [true, true, false, false]);
        roster.decisions[2].assignment.target_assignment_key = Ident::from_trusted("slot-3");
        assert_eq!(roster.validate(), Ok(()));
        assert_eq!(filled(&roster), [false, true, true, false]);
        roster.decisions.clear();
        assert_eq!(filled(&roster), [false; 4]);
        assert!(AssignmentResultView::latest(&roster).is_none());
    }
}
