//! The side effects of a branch's creation in other systems.
//!
//! They are stored in a resource beside the branch, with the number of the message for each side
//! effect. A side effect is completed when its message is taken. This does not change the branch,
//! whose revision stays the same. Readers of a branch see these resources joined.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::onboarding::{Repair, SideEffect, SideEffectStatus};
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::follow::event_name;
use crate::domain::outbox::message::Message;
use crate::domain::resource::{Kind, ReadView, Resource};
use crate::public_events;

/// The deliveries of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchDeliveries {
    /// The branch.
    pub branch_id: Uuid,
    /// The number of commits that they have seen.
    pub revision: Revision,
    /// The side effects of the creation, with the status of each.
    pub side_effects: Vec<SideEffect>,
    /// The repair; `None` when no side effect is pending.
    pub repair: Option<Repair>,
}

/// The event that a branch is created, and other systems are to be notified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveriesDue {
    /// The branch.
    pub branch_id: Uuid,
    /// The side effects of its creation, with the status of each.
    pub side_effects: Vec<SideEffect>,
    /// The identifier of the repair, if a side effect is pending.
    pub repair_id: Option<Uuid>,
}

/// What can happen to deliveries. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BranchDeliveriesEvent {
    /// The branch is created.
    Due(Box<DeliveriesDue>),
    /// Pending side effects are completed. This event is no longer made: messages are resources of
    /// their own now, and the messages that it names are taken ([`Self::taken`]).
    Completed {
        /// The numbers of their messages.
        outbox_message_ids: Vec<i64>,
    },
}

impl Resource for BranchDeliveries {
    const KIND: Kind = Kind {
        tag: 114,
        name: "branch-deliveries",
    };
    type Event = BranchDeliveriesEvent;

    fn apply(state: Option<Self>, event: &BranchDeliveriesEvent, at: Timestamp) -> Self {
        match (state, event) {
            (None, BranchDeliveriesEvent::Due(due)) => Self {
                branch_id: due.branch_id,
                revision: Revision::FIRST,
                side_effects: due.side_effects.clone(),
                repair: due.repair_id.map(|repair_id| Repair {
                    repair_id,
                    scheduled_at: at,
                }),
            },
            (Some(mut deliveries), BranchDeliveriesEvent::Completed { outbox_message_ids }) => {
                deliveries.take(outbox_message_ids);
                deliveries
            }
            (Some(_), BranchDeliveriesEvent::Due(_)) => panic!("deliveries are due once"),
            (None, event) => panic!("a branch that does not exist has no {}", event_name(event)),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.branch_id.to_string()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn validate(&self) -> Result<(), String> {
        let pending = self.side_effects.iter().any(SideEffect::is_pending);
        if pending != self.repair.is_some() {
            return Err("a repair stands when and only when a side effect is pending".to_owned());
        }
        if self.revision < Revision::FIRST {
            return Err(format!("revision {}", self.revision));
        }
        Ok(())
    }
}

public_events! {
    BranchDeliveries by BranchDeliveriesEvent, read at "branch-deliveries/{}", revision none;

    // A part of the branch, which has the events.
    Due(_) => nothing,
    Completed { .. } => nothing,
}

impl BranchDeliveries {
    /// Returns the current deliveries: a side effect whose message is taken is completed.
    #[must_use]
    pub fn joined(mut self, view: &ReadView<'_>) -> Self {
        for effect in &mut self.side_effects {
            if effect.is_pending() {
                effect.status = status_of(view, effect.outbox_message_id);
            }
        }
        if !self.side_effects.iter().any(SideEffect::is_pending) {
            self.repair = None;
        }
        self
    }

    /// Returns the numbers of the messages whose side effects were completed when this was stored.
    #[must_use]
    pub fn completed(&self) -> Vec<i64> {
        let completed = self
            .side_effects
            .iter()
            .filter(|effect| !effect.is_pending());
        completed.map(|effect| effect.outbox_message_id).collect()
    }

    fn take(&mut self, outbox_message_ids: &[i64]) {
        for number in outbox_message_ids {
            let effect = self
                .side_effects
                .iter_mut()
                .find(|effect| effect.outbox_message_id == *number && effect.is_pending())
                .expect("only a side effect that is pending is completed");
            effect.status = SideEffectStatus::Completed;
        }
        if !self.side_effects.iter().any(SideEffect::is_pending) {
            self.repair = None;
        }
        self.revision = self.revision.next();
    }
}

impl BranchDeliveriesEvent {
    /// Returns the numbers of the messages that the directory had taken, as this event recorded it.
    #[must_use]
    pub fn taken(&self) -> &[i64] {
        match self {
            Self::Due(_) => &[],
            Self::Completed { outbox_message_ids } => outbox_message_ids,
        }
    }
}

/// Returns the status of the side effect that the message of this number asks for.
#[must_use]
pub fn status_of(view: &ReadView<'_>, outbox_message_id: i64) -> SideEffectStatus {
    match Message::of_number(view, outbox_message_id) {
        Some(message) if message.is_taken() => SideEffectStatus::Completed,
        _ => SideEffectStatus::Pending,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::samples::{
        SILENT, administrator, branch_of, created, created_with, deliveries_of, invitee,
    };
    use super::super::state::Branch;
    use super::*;
    use crate::base::codec;
    use crate::domain::outbox::report::Attempt;
    use crate::domain::scenario::{Scenario, revision_of};

    /// Makes a service with one branch, for which other systems have done nothing yet.
    fn nothing_done() -> (Scenario, Branch, BranchDeliveries) {
        let (scenario, answer) = created_with(SILENT);
        let branch = branch_of(&scenario, &answer);
        let deliveries = deliveries_of(&scenario, &answer);
        (scenario, branch, deliveries)
    }

    fn numbers(deliveries: &BranchDeliveries) -> Vec<i64> {
        let effects = deliveries.side_effects.iter();
        effects.map(|effect| effect.outbox_message_id).collect()
    }

    #[test]
    fn side_effects_complete_one_by_one_and_the_branch_keeps_its_revision() {
        let (mut scenario, branch, deliveries) = nothing_done();
        let id = branch.founding.branch_id.to_string();
        let path = [("branchId", id.as_str())];
        let repair_id = deliveries.repair.unwrap().repair_id;
        scenario.acting(administrator());
        let mut tags = vec![scenario.read("read_branch", &path).unwrap().0];
        // The invitation is completed first, the identity last.
        for (done, number) in numbers(&deliveries).into_iter().rev().enumerate() {
            for _ in 0..2 {
                scenario.attempted(number, Attempt::Taken);
            }
            let (tag, read) = scenario.read("read_branch", &path).unwrap();
            assert_eq!(revision_of(&tag), "1");
            assert!(!tags.contains(&tag), "{tag} was the tag of another body");
            tags.push(tag);
            assert_eq!(read["revision"], 1);
            let is_last = done == 2;
            let identity = &read["operatorIdentity"];
            assert_eq!(identity["operatorIdentityId"].is_null(), !is_last);
            assert_eq!(identity["operatorIdentityDisposition"].is_null(), !is_last);
            let status = if done == 0 { "pending" } else { "applied" };
            assert_eq!(read["authorizationRelationshipStatus"], status);
            let group = &read["authorizationRelationship"];
            assert_eq!(group["authorizationRelationshipStatus"], status);
            if is_last {
                assert_eq!(read["outcomeStatus"], "completed");
                assert_eq!(read["repair"], json!(null));
            } else {
                assert_eq!(read["outcomeStatus"], "repair_pending");
                assert_eq!(read["repair"]["repairId"], repair_id.to_string());
                assert_eq!(read["repair"]["scheduledAt"], "2026-11-20T12:00:00.000Z");
                let pending = read["repair"]["pendingSideEffects"].as_array().unwrap();
                assert_eq!(pending.len(), 2 - done);
            }
        }
    }

    #[test]
    fn completions_stored_by_older_versions_remain_completed() {
        let (_, _, deliveries) = nothing_done();
        let [first, second, third] = numbers(&deliveries).try_into().unwrap();
        let event = BranchDeliveriesEvent::Completed {
            outbox_message_ids: vec![first, third],
        };
        assert_eq!(event.taken(), [first, third]);
        let some = BranchDeliveries::apply(Some(deliveries), &event, Timestamp::default());
        assert_eq!(some.completed(), [first, third]);
        assert_eq!((some.revision.number(), some.validate()), (2, Ok(())));
        let event = BranchDeliveriesEvent::Completed {
            outbox_message_ids: vec![second],
        };
        let all = BranchDeliveries::apply(Some(some), &event, Timestamp::default());
        assert_eq!((all.repair, all.validate()), (None, Ok(())));
    }

    #[test]
    fn an_invitation_is_accepted_at_revision_1_whatever_was_delivered_before() {
        for delivered in 0..=3 {
            let (mut scenario, branch, deliveries) = nothing_done();
            for number in &numbers(&deliveries)[..delivered] {
                scenario.attempted(*number, Attempt::Taken);
            }
            scenario.acting(invitee());
            let body = json!({"expectedOnboardingRevision": 1});
            scenario
                .when("accept_manager_invitation", &[], &body)
                .committed();
            let id = branch.founding.branch_id.to_string();
            let accepted: Branch = scenario.state(&[&id]).unwrap();
            assert_eq!(accepted.revision.number(), 2);
            let left = scenario.view(|view| deliveries.clone().joined(view));
            assert_eq!(left.repair.is_none(), delivered == 3);
        }
    }

    #[test]
    fn impossible_states_do_not_validate() {
        let (_, _, deliveries) = nothing_done();
        let mut unrepaired = deliveries.clone();
        unrepaired.repair = None;
        assert!(unrepaired.validate().unwrap_err().contains("repair"));
        let (scenario, answer) = created();
        let mut repaired = deliveries_of(&scenario, &answer);
        assert_eq!(repaired.validate(), Ok(()));
        repaired.repair = deliveries.repair;
        assert!(repaired.validate().unwrap_err().contains("repair"));
        let mut unborn = deliveries;
        unborn.revision = Revision::NONE;
        assert!(unborn.validate().unwrap_err().contains("revision 0"));
    }

    #[test]
    fn deliveries_come_out_of_records_as_they_went_in() {
        let (_, _, deliveries) = nothing_done();
        let bytes = codec::encode(&deliveries);
        assert_eq!(
            codec::decode::<BranchDeliveries>(&bytes).unwrap(),
            deliveries
        );
    }
}
