//! The one organization: its number of branches, and the revision that each creation of a branch
//! advances.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::resource::{Kind, Resource};
use crate::public_events;

/// The identifier of the only organization.
const ID: &str = "organization";

/// The organization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// The number of commits that it has seen.
    pub revision: Revision,
    /// The number of its branches.
    pub branch_count: i64,
}

/// What can happen to the organization. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OrganizationEvent {
    /// It gets one more branch.
    BranchAdded {
        /// The branch.
        branch_id: Uuid,
    },
}

impl Organization {
    /// Its state before its first branch: it exists from the beginning, at revision 1.
    pub const BEFORE_FIRST_BRANCH: Self = Self {
        revision: Revision::FIRST,
        branch_count: 0,
    };

    /// Returns the key of the only organization.
    #[must_use]
    pub fn the_key() -> Digest {
        Self::KIND.key(&[ID])
    }
}

impl Resource for Organization {
    const KIND: Kind = Kind {
        tag: 104,
        name: "organization",
    };
    type Event = OrganizationEvent;

    fn apply(state: Option<Self>, event: &OrganizationEvent, _: Timestamp) -> Self {
        let OrganizationEvent::BranchAdded { .. } = event;
        let before = state.unwrap_or(Self::BEFORE_FIRST_BRANCH);
        Self {
            revision: before.revision.next(),
            branch_count: before.branch_count + 1,
        }
    }

    fn id(&self) -> Vec<String> {
        vec![ID.to_owned()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn validate(&self) -> Result<(), String> {
        let first = Self::BEFORE_FIRST_BRANCH.revision.number();
        if self.branch_count < 1 || self.revision.number() - first != self.branch_count {
            return Err(format!(
                "{} branches at revision {}",
                self.branch_count, self.revision
            ));
        }
        Ok(())
    }
}

public_events! {
    Organization by OrganizationEvent, read at "organization", revision own;

    /// The organization has one branch more.
    BranchAdded { branch_id } => "branch-added" {
        "branchId": Uuid = *branch_id,
    },
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_branch_advances_it_by_one() {
        let event = OrganizationEvent::BranchAdded {
            branch_id: Uuid::nil(),
        };
        let mut state = None;
        for count in 1..=3 {
            let next = Organization::apply(state, &event, Timestamp::default());
            assert_eq!(
                (next.revision.number(), next.branch_count),
                (count + 1, count)
            );
            assert_eq!(next.validate(), Ok(()));
            assert_eq!(next.key(), Organization::the_key());
            state = Some(next);
        }
        let mut wrong = state.unwrap();
        wrong.branch_count += 1;
        assert!(wrong.validate().unwrap_err().contains("revision 4"));
    }
}
