//! `relationship`: a statement of the authorization service about a subject, such as that it is a
//! finance operator of a branch.
//!
//! The fact's own identifier has no meaning. A relationship is found by its content: the facts that
//! apply it are in the list of its object, relation and subject, and the relationship holds as long
//! as the list contains a fact. A fact that is revoked leaves the list.

use crate::base::text::Text;
use crate::domain::index::{Index, IndexKey};
use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::{json_object, wire_enum};

wire_enum! {
    /// A relationship's state.
    pub enum RelationshipState {
        /// It holds.
        Applied = "applied",
        /// It holds no more.
        Revoked = "revoked",
    }
}

json_object! {
    /// What is known of a relationship.
    pub struct Relationship {
        /// What the subject has a relation to: `branch/{branchProfileId}`, `headquarters`.
        pub object: Text = "object",
        /// The relation: `finance_operator`.
        pub relation: Text = "relation",
        /// The subject.
        pub subject: Text = "subject",
        /// Its state.
        pub state: RelationshipState = "state",
    }
}

impl Relationship {
    /// Returns the key of the list of the facts that apply this relationship.
    #[must_use]
    pub fn applied(object: &str, relation: &str, subject: &str) -> IndexKey {
        IndexKey::new(Index::Relationship, &[object, relation, subject])
    }

    /// Returns the key of the list of the facts that give this subject this relation to any object.
    #[must_use]
    pub fn of_subject(relation: &str, subject: &str) -> IndexKey {
        IndexKey::new(Index::RelationshipsOfSubject, &[relation, subject])
    }
}

impl HeldAlone for Relationship {
    type Id = str;
}

impl FactKind for Relationship {
    const KIND: Kind = Kind {
        tag: 18,
        name: "relationship",
    };
    const ID: &'static str = "the relationship, as its keeper names it";

    fn secondary_keys(&self, _: &str) -> Vec<IndexKey> {
        match self.state {
            RelationshipState::Applied => {
                vec![
                    Self::applied(&self.object, &self.relation, &self.subject),
                    Self::of_subject(&self.relation, &self.subject),
                ]
            }
            RelationshipState::Revoked => Vec::new(),
        }
    }
}

/// A finance operator of a branch.
#[cfg(test)]
pub(crate) fn sample() -> serde_json::Value {
    serde_json::json!({
        "object": "branch/branch-1",
        "relation": "finance_operator",
        "subject": "operator-1",
        "state": "applied",
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::scenario::Scenario;

    const KIND: &str = "relationship";

    fn revoked() -> serde_json::Value {
        let mut facts = sample();
        facts["state"] = json!("revoked");
        facts
    }

    fn applied(scenario: &Scenario) -> usize {
        let list = Relationship::applied("branch/branch-1", "finance_operator", "operator-1");
        scenario.view(|view| view.listed(list)).len()
    }

    #[test]
    fn a_relationship_is_found_by_what_it_says_while_a_fact_applies_it() {
        let mut scenario = Scenario::new();
        assert_eq!(applied(&scenario), 0);
        scenario.fact(KIND, "any-1", 1, sample());
        scenario.fact(KIND, "any-2", 1, sample());
        assert_eq!(applied(&scenario), 2);
        scenario.fact(KIND, "any-1", 2, revoked());
        assert_eq!(applied(&scenario), 1);
        scenario.fact(KIND, "any-2", 2, revoked());
        assert_eq!(applied(&scenario), 0);
    }
}
