//! The care-team roster of a booking, its decisions, the decisions that belong together, and the
//! slots that they fill; their states and their events.
//!
//! Each is a resource of its own, so that no commit contains the history: a roster stores the
//! number of its decisions and the identifier of the latest one, a slot whether it is filled. All
//! change together, in the commit of a decision, which the roster's actor decides.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::actor::Actor;
use crate::base::revision::Revision;
use crate::base::shared;
use crate::base::text::{AssignmentKey, BookingId, CaregiverId, Ident};
use crate::base::time::Timestamp;
use crate::domain::listing::{Filter, List, by_few, by_many, is};
use crate::domain::operation::Commit;
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::resource::{Kind, ReadView, Resource};
use crate::{public_events, wire_enum};

/// Maximum number of decisions that may be taken together, under one rosterDecisionId: a response
/// lists them all.
pub const DECISIONS_TOGETHER_MAX: usize = 200;

wire_enum! {
    /// What became of a command.
    pub enum AssignmentStatus {
        /// Its decision is in the roster.
        Recorded = "recorded",
    }
}

/// The assignment of a caregiver to a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The decision's identifier, unique in the whole service.
    pub assignment_decision_id: Ident,
    /// The identifier, in this roster, that decisions taken together share.
    pub roster_decision_id: Ident,
    /// The slot that it fills.
    pub target_assignment_key: AssignmentKey,
    /// The slot that it empties first; `None` when it replaces no assignment.
    pub replacement_of_assignment_key: Option<AssignmentKey>,
    /// The caregiver.
    pub caregiver_profile_id: CaregiverId,
    /// The caregiver's role.
    pub role: Ident,
    /// The caregiver's place in the order of handoffs, from 1.
    pub handoff_order: i64,
    /// The key of the matching request.
    pub matching_request_key: Ident,
    /// The snapshot from which the caregiver was chosen.
    pub selected_candidate_snapshot_id: Ident,
    /// The snapshot's revision.
    pub candidate_snapshot_revision: Revision,
    /// The proof that the caregiver is available.
    pub schedule_proof_id: Ident,
    /// Whether the caregiver comes from outside the branch's area.
    pub other_area_service: bool,
    /// The booking's revision.
    pub reservation_revision: Revision,
    /// The roster's revision before the decision.
    pub expected_roster_revision: Revision,
    /// The reason.
    pub reason_code: Ident,
    /// The actor who decided: the token's subject.
    pub actor_id: Box<str>,
    /// The command's key.
    pub idempotency_key: Box<str>,
}

/// A decision of a roster: it is taken once, and never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignmentDecision {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The assignment that was decided.
    #[serde(with = "shared")]
    pub assignment: Arc<Assignment>,
    /// The time of the decision.
    pub decided_at: Timestamp,
}

/// The event that a caregiver is assigned in the roster of a booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaregiverAssigned {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The assignment that is decided.
    #[serde(with = "shared")]
    pub assignment: Arc<Assignment>,
}

/// What can happen to a decision. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AssignmentEvent {
    /// A caregiver is assigned.
    Assigned(Box<CaregiverAssigned>),
}

impl Resource for AssignmentDecision {
    const KIND: Kind = Kind {
        tag: 117,
        name: "care-team-assignment",
    };
    type Event = AssignmentEvent;

    fn apply(state: Option<Self>, event: &AssignmentEvent, at: Timestamp) -> Self {
        let AssignmentEvent::Assigned(assigned) = event;
        assert!(state.is_none(), "a decision is taken once");
        Self {
            reservation_booking_id: assigned.reservation_booking_id.clone(),
            assignment: Arc::clone(&assigned.assignment),
            decided_at: at,
        }
    }

    /// Returns the decision's identifier, which is unique in the whole service.
    fn id(&self) -> Vec<String> {
        vec![self.assignment.assignment_decision_id.as_str().to_owned()]
    }

    fn revision(&self) -> Revision {
        Revision::FIRST
    }
}

public_events! {
    AssignmentDecision by AssignmentEvent, read at "care-team-assignment/{}", revision none;

    /// A caregiver is assigned.
    Assigned(assigned) => "assigned" {
        "reservationBookingId": BookingId = assigned.reservation_booking_id,
        "rosterDecisionId": Ident = assigned.assignment.roster_decision_id,
        "targetAssignmentKey": AssignmentKey = assigned.assignment.target_assignment_key,
        "replacementOfAssignmentKey": Option<AssignmentKey> =
            assigned.assignment.replacement_of_assignment_key,
        "caregiverProfileId": CaregiverId = assigned.assignment.caregiver_profile_id,
        "role": Ident = assigned.assignment.role,
        "handoffOrder": i64 = assigned.assignment.handoff_order,
    },
}

/// The decisions of a roster that were taken together, under one rosterDecisionId.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterDecision {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The identifier, unique in the roster.
    pub roster_decision_id: Ident,
    /// The identifiers of its decisions, oldest first.
    pub assignment_decision_ids: Vec<Ident>,
}

/// The event that a decision is taken together with those before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedTogether {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The identifier that the decisions share.
    pub roster_decision_id: Ident,
    /// The decision.
    pub assignment_decision_id: Ident,
}

/// What can happen to decisions taken together. New events go at the end: records store their index,
/// and each has a line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RosterDecisionEvent {
    /// A decision is taken.
    Decided(Box<DecidedTogether>),
}

impl Resource for RosterDecision {
    const KIND: Kind = Kind {
        tag: 116,
        name: "care-team-roster-decision",
    };
    const ID_PARTS: usize = 2;
    type Event = RosterDecisionEvent;

    fn apply(state: Option<Self>, event: &RosterDecisionEvent, _: Timestamp) -> Self {
        let RosterDecisionEvent::Decided(decided) = event;
        let mut together = state.unwrap_or_else(|| Self {
            reservation_booking_id: decided.reservation_booking_id.clone(),
            roster_decision_id: decided.roster_decision_id.clone(),
            assignment_decision_ids: Vec::new(),
        });
        assert!(
            together.reservation_booking_id == decided.reservation_booking_id
                && together.roster_decision_id == decided.roster_decision_id,
            "a decision stands with those of its own roster and identifier"
        );
        together
            .assignment_decision_ids
            .push(decided.assignment_decision_id.clone());
        together
    }

    fn id(&self) -> Vec<String> {
        vec![
            self.reservation_booking_id.as_str().to_owned(),
            self.roster_decision_id.as_str().to_owned(),
        ]
    }

    fn revision(&self) -> Revision {
        let decisions = self.assignment_decision_ids.len();
        Revision::new(i64::try_from(decisions).unwrap_or(i64::MAX))
    }

    fn validate(&self) -> Result<(), String> {
        match self.assignment_decision_ids.len() {
            1..=DECISIONS_TOGETHER_MAX => Ok(()),
            decisions => Err(format!("{decisions} decisions together")),
        }
    }
}

public_events! {
    RosterDecision by RosterDecisionEvent, read at "care-team-roster-decision/{}/{}",
        revision none;

    // A part of the roster, which has the events.
    Decided(_) => nothing,
}

/// A slot of a roster that some decision has filled or emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssignmentSlot {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The slot's key, unique in the roster.
    pub assignment_key: AssignmentKey,
    /// The number of commits that it has seen.
    pub revision: Revision,
    /// The decision that fills it; `None` when that was replaced by one that fills another slot.
    pub filled_by: Option<Ident>,
}

/// The event that a slot is filled or emptied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotSet {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The slot's key.
    pub assignment_key: AssignmentKey,
    /// The decision that fills it after the event; `None` when it is emptied.
    pub filled_by: Option<Ident>,
}

/// What can happen to a slot. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SlotEvent {
    /// It is filled, for the first time or again, or emptied.
    Set(Box<SlotSet>),
}

impl Resource for AssignmentSlot {
    const KIND: Kind = Kind {
        tag: 118,
        name: "care-team-slot",
    };
    const ID_PARTS: usize = 2;
    type Event = SlotEvent;

    fn apply(state: Option<Self>, event: &SlotEvent, _: Timestamp) -> Self {
        let SlotEvent::Set(set) = event;
        let before = state.as_ref().map_or(Revision::NONE, |slot| slot.revision);
        let next = Self {
            reservation_booking_id: set.reservation_booking_id.clone(),
            assignment_key: set.assignment_key.clone(),
            revision: before.next(),
            filled_by: set.filled_by.clone(),
        };
        assert!(
            state.is_none_or(|slot| slot.id() == next.id()),
            "a slot is set by its own key"
        );
        next
    }

    fn id(&self) -> Vec<String> {
        vec![
            self.reservation_booking_id.as_str().to_owned(),
            self.assignment_key.as_str().to_owned(),
        ]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn validate(&self) -> Result<(), String> {
        if self.revision == Revision::FIRST && self.filled_by.is_none() {
            return Err("a slot that nobody has filled is emptied".to_owned());
        }
        Ok(())
    }
}

public_events! {
    AssignmentSlot by SlotEvent, read at "care-team-slot/{}/{}", revision none;

    // A part of the roster, which has the events.
    Set(_) => nothing,
}

/// The roster of a booking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareTeamRoster {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The number of decisions that it has seen.
    pub revision: Revision,
    /// The rosterDecisionId of the latest decision.
    pub latest: Ident,
}

/// The event that a decision is taken in a roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterDecided {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The rosterDecisionId of the decision.
    pub roster_decision_id: Ident,
}

/// What can happen to a roster. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum RosterEvent {
    /// A decision is taken.
    Decided(Box<RosterDecided>),
}

impl Resource for CareTeamRoster {
    const KIND: Kind = Kind {
        tag: 106,
        name: "care-team-roster",
    };
    type Event = RosterEvent;
    const LIST: Option<List<Self>> = Some(
        List::<Self>::by(&[
            by_few(Filter::Booking, |it| is(&it.reservation_booking_id)),
            by_many(Filter::Status, |_| is(AssignmentStatus::Recorded.as_str())),
        ])
        .bound(
            |it| Some(&it.reservation_booking_id),
            &[Filter::Branch, Filter::Mother],
        ),
    );

    fn apply(state: Option<Self>, event: &RosterEvent, _: Timestamp) -> Self {
        let RosterEvent::Decided(decided) = event;
        let before = state.as_ref();
        assert!(
            before.is_none_or(|roster| {
                roster.reservation_booking_id == decided.reservation_booking_id
            }),
            "a caregiver is assigned in the roster of the booking"
        );
        Self {
            reservation_booking_id: decided.reservation_booking_id.clone(),
            revision: before
                .map_or(Revision::NONE, |roster| roster.revision)
                .next(),
            latest: decided.roster_decision_id.clone(),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.reservation_booking_id.as_str().to_owned()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn validate(&self) -> Result<(), String> {
        if self.revision < Revision::FIRST {
            return Err(format!("a roster at revision {}", self.revision));
        }
        Ok(())
    }
}

public_events! {
    CareTeamRoster by RosterEvent, read at "care-team-rosters/{}", revision own;

    /// Caregivers were assigned in the roster.
    Decided(decided) => "decided" {
        "rosterDecisionId": Ident = decided.roster_decision_id,
    },
}

/// Returns a slot for a decision; `None` when no decision has filled it yet.
#[must_use]
pub fn slot(
    view: &ReadView<'_>,
    booking: &BookingId,
    assignment_key: &AssignmentKey,
) -> Option<AssignmentSlot> {
    view.get(&[booking, assignment_key])
}

/// Whether a slot is filled.
#[must_use]
pub fn is_filled(slot: Option<&AssignmentSlot>) -> bool {
    slot.is_some_and(|slot| slot.filled_by.is_some())
}

/// The resources before an assignment, as its decision has read them.
pub struct SlotsBefore {
    /// The decisions that were taken together with it so far.
    pub together: Option<RosterDecision>,
    /// The slot that it fills.
    pub target: Option<AssignmentSlot>,
    /// The slot that it empties, if that is another one.
    pub replaced: Option<AssignmentSlot>,
}

/// Returns the commit of an assignment in the roster of a booking, and the decision that it makes.
#[must_use]
pub fn assigned(
    roster: Option<&CareTeamRoster>,
    standing: &SlotsBefore,
    decision: &CaregiverAssigned,
    now: Timestamp,
) -> (Commit<CareTeamRoster>, AssignmentDecision) {
    let booking = &decision.reservation_booking_id;
    let assignment = &decision.assignment;
    let event = RosterEvent::Decided(Box::new(RosterDecided {
        reservation_booking_id: booking.clone(),
        roster_decision_id: assignment.roster_decision_id.clone(),
    }));
    let mut commit = Commit::new(roster, event, now);
    let event = AssignmentEvent::Assigned(Box::new(decision.clone()));
    let decided = commit.create::<AssignmentDecision>(&event);
    let event = RosterDecisionEvent::Decided(Box::new(DecidedTogether {
        reservation_booking_id: booking.clone(),
        roster_decision_id: assignment.roster_decision_id.clone(),
        assignment_decision_id: assignment.assignment_decision_id.clone(),
    }));
    commit.change(standing.together.as_ref(), &event);
    let set = |key: &AssignmentKey, filled_by| {
        SlotEvent::Set(Box::new(SlotSet {
            reservation_booking_id: booking.clone(),
            assignment_key: key.clone(),
            filled_by,
        }))
    };
    if let Some(emptied) = &standing.replaced {
        commit.change(Some(emptied), &set(&emptied.assignment_key, None));
    }
    let by = Some(assignment.assignment_decision_id.clone());
    commit.change(
        standing.target.as_ref(),
        &set(&assignment.target_assignment_key, by),
    );
    (commit, decided)
}

impl RosterDecision {
    /// Returns its decisions, oldest first, as far as `view` has them.
    #[must_use]
    pub fn decisions(&self, view: &ReadView<'_>) -> Vec<AssignmentDecision> {
        let ids = self.assignment_decision_ids.iter();
        ids.filter_map(|id| view.get(&[id.as_str()])).collect()
    }
}

/// Whether the actor may assign caregivers to a booking and see who serves: headquarters and the
/// managers of the booking's branch.
#[must_use]
pub fn may_assign(actor: &Actor, booking: &ReservationBooking) -> bool {
    actor.is_headquarters() || actor.manages_branch(&booking.branch_profile_id)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::samples::{assign, assigning, assignment, replacing};
    use super::*;

    #[test]
    fn a_state_that_cannot_be_does_not_validate() {
        let mut service = assigning();
        assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        let mut roster: CareTeamRoster = service.state(&["booking-1"]).unwrap();
        assert_eq!(roster.validate(), Ok(()));
        roster.revision = Revision::NONE;
        assert!(roster.validate().is_err());
        let id = ["booking-1", "roster-decision-1"];
        let mut together: RosterDecision = service.state(&id).unwrap();
        assert_eq!(together.validate(), Ok(()));
        let one = together.assignment_decision_ids[0].clone();
        together.assignment_decision_ids = vec![one.clone(); DECISIONS_TOGETHER_MAX];
        assert_eq!(together.validate(), Ok(()));
        together.assignment_decision_ids.push(one);
        assert!(together.validate().is_err());
        together.assignment_decision_ids.clear();
        assert!(together.validate().is_err());
        let mut slot: AssignmentSlot = service.state(&["booking-1", "slot-1"]).unwrap();
        assert_eq!(slot.validate(), Ok(()));
        slot.filled_by = None;
        assert!(slot.validate().is_err());
    }

    #[test]
    fn a_slot_is_filled_until_its_decision_is_replaced_elsewhere() {
        let mut service = assigning();
        let filled = |service: &crate::domain::scenario::Scenario| {
            ["slot-1", "slot-2", "slot-3", "slot"].map(|key| {
                let standing = service.view(|view| {
                    slot(
                        view,
                        &BookingId::from_trusted("booking-1"),
                        &AssignmentKey::from_trusted(key),
                    )
                });
                is_filled(standing.as_ref())
            })
        };
        assign(&mut service, &assignment(1, "slot-1", 0)).committed();
        assign(&mut service, &assignment(2, "slot-2", 1)).committed();
        assert_eq!(filled(&service), [true, true, false, false]);
        assign(&mut service, &replacing(3, "slot-1", 2, "slot-1")).committed();
        assert_eq!(filled(&service), [true, true, false, false]);
        assign(&mut service, &replacing(4, "slot-3", 3, "slot-1")).committed();
        assert_eq!(filled(&service), [false, true, true, false]);
        assign(&mut service, &assignment(5, "slot-1", 4)).committed();
        assert_eq!(filled(&service), [true, true, true, false]);
    }
}
