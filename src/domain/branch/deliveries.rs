//! How far the side effects of a branch's creation are in other systems.
//!
//! They are a resource beside the branch: that a message was taken is no change of the branch, whose
//! revision stands still meanwhile. What is shown of a branch is joined from both.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::directory_message::DirectoryMessage;
use super::onboarding::{Repair, SideEffect, SideEffectStatus};
use super::state::Branch;
use crate::base::revision::Revision;
use crate::base::time::Instant;
use crate::domain::operation::Commit;
use crate::domain::resource::{Index, IndexKey, Kind, ReadView, Resource, event_name};
use crate::public_events;

/// The deliveries of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchDeliveries {
    /// The branch.
    pub branch_id: Uuid,
    /// How many commits they have seen.
    pub revision: Revision,
    /// What the creation brings about in other systems, as far as it is.
    pub side_effects: Vec<SideEffect>,
    /// There while a side effect is pending.
    pub repair: Option<Repair>,
}

/// A branch is created, and other systems are to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveriesDue {
    /// The branch.
    pub branch_id: Uuid,
    /// What its creation brings about, as far as it is.
    pub side_effects: Vec<SideEffect>,
    /// The identifier of the repair, where a side effect is pending.
    pub repair_id: Option<Uuid>,
}

/// What can happen to deliveries. New events go at the end: their order stands in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BranchDeliveriesEvent {
    /// The branch is created.
    Due(Box<DeliveriesDue>),
    /// Side effects that were pending are done.
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

    fn apply(state: Option<Self>, event: &BranchDeliveriesEvent, at: Instant) -> Self {
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

    fn secondary_keys(&self) -> Vec<IndexKey> {
        self.repair
            .map(|_| branches_in_repair())
            .into_iter()
            .collect()
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

    // A part of the branch, which is told of.
    Due(_) => nothing,
    Completed { .. } => nothing,
}

impl BranchDeliveries {
    /// The branch whose they are.
    #[must_use]
    pub fn branch(&self, view: &ReadView<'_>) -> Option<Branch> {
        view.get(&[&self.branch_id.to_string()])
    }

    /// The messages to the directory whose side effects are pending, in the order in which they
    /// are delivered.
    #[must_use]
    pub fn pending_messages(&self, branch: &Branch) -> Vec<DirectoryMessage> {
        self.pending()
            .map(|effect| DirectoryMessage::new(&branch.founding, effect))
            .collect()
    }

    /// The commit that completes the side effects of these messages, as far as they are pending;
    /// `None` when none is.
    #[must_use]
    pub fn complete(&self, outbox_message_ids: &[i64], now: Instant) -> Option<Commit<Self>> {
        let outbox_message_ids: Vec<_> = self
            .pending()
            .map(|effect| effect.outbox_message_id)
            .filter(|number| outbox_message_ids.contains(number))
            .collect();
        let is_any = !outbox_message_ids.is_empty();
        let event = BranchDeliveriesEvent::Completed { outbox_message_ids };
        is_any.then(|| Commit::new(Some(self), event, now))
    }

    fn pending(&self) -> impl Iterator<Item = &SideEffect> {
        self.side_effects
            .iter()
            .filter(|effect| effect.is_pending())
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
        if self.pending().next().is_none() {
            self.repair = None;
        }
        self.revision = self.revision.next();
    }
}

/// The list of the deliveries of which a side effect is pending: what is to be delivered.
#[must_use]
pub fn branches_in_repair() -> IndexKey {
    IndexKey::new(Index::BranchInRepair, &[])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::samples::{
        SILENT, administrator, branch_of, created, created_with, deliveries_of, invitee,
    };
    use super::*;
    use crate::base::codec;
    use crate::domain::scenario::{Scenario, revision_of};

    /// A service with one branch, of which nothing in other systems is done yet.
    fn nothing_done() -> (Scenario, Branch, BranchDeliveries) {
        let (scenario, answer) = created_with(SILENT);
        let branch = branch_of(&scenario, &answer);
        let deliveries = deliveries_of(&scenario, &answer);
        (scenario, branch, deliveries)
    }

    #[test]
    fn side_effects_are_completed_one_by_one_while_the_branch_stands_at_its_revision() {
        let (mut scenario, branch, mut deliveries) = nothing_done();
        let id = branch.founding.branch_id.to_string();
        let path = [("branchId", id.as_str())];
        let numbers: Vec<_> = deliveries
            .side_effects
            .iter()
            .map(|effect| effect.outbox_message_id)
            .collect();
        let repair_id = deliveries.repair.unwrap().repair_id;
        let later = Instant::parse("2026-11-21T00:00:00Z").unwrap();
        scenario.acting(administrator());
        let mut tags = vec![scenario.read("read_branch", &path).unwrap().0];
        // The invitation first, the identity last.
        for (done, number) in numbers.iter().rev().enumerate() {
            deliveries = deliveries.complete(&[*number], later).unwrap().next;
            assert_eq!(deliveries.validate(), Ok(()));
            assert!(deliveries.complete(&[*number], later).is_none());
            scenario.given(&deliveries);
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
        assert!(deliveries.complete(&[numbers[0] + 99], later).is_none());
    }

    #[test]
    fn several_side_effects_are_completed_in_one_commit_and_leave_the_list_together() {
        let (_, branch, deliveries) = nothing_done();
        assert_eq!(deliveries.secondary_keys(), [branches_in_repair()]);
        let numbers: Vec<_> = deliveries
            .pending_messages(&branch)
            .iter()
            .map(|message| message.number)
            .collect();
        assert_eq!(numbers, [6, 7, 8]);
        let later = Instant::default();
        let some = deliveries.complete(&[8, 6, 99], later).unwrap().next;
        assert_eq!(some.revision.number(), 2);
        assert_eq!(some.pending_messages(&branch).len(), 1);
        assert_eq!(some.secondary_keys(), [branches_in_repair()]);
        let all = some.complete(&numbers, later).unwrap().next;
        assert_eq!(all.revision.number(), 3);
        assert_eq!(all.secondary_keys(), []);
        assert!(all.complete(&numbers, later).is_none());
    }

    #[test]
    fn an_invitation_is_accepted_at_revision_1_whatever_was_delivered_before() {
        for delivered in 0..=3 {
            let (mut scenario, branch, deliveries) = nothing_done();
            let due = deliveries.pending_messages(&branch);
            let taken: Vec<_> = due.iter().map(|message| message.number).collect();
            if let Some(commit) = deliveries.complete(&taken[..delivered], Instant::default()) {
                scenario.given(&commit.next);
            }
            scenario.acting(invitee());
            let body = json!({"expectedOnboardingRevision": 1});
            scenario
                .when("accept_manager_invitation", &[], &body)
                .committed();
            let id = branch.founding.branch_id.to_string();
            let accepted: Branch = scenario.state(&[&id]).unwrap();
            assert_eq!(accepted.revision.number(), 2);
            let left: BranchDeliveries = scenario.state(&[&id]).unwrap();
            assert_eq!(left.repair.is_none(), delivered == 3);
        }
    }

    #[test]
    fn what_cannot_be_does_not_validate() {
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
