//! `family-account`, by the account's identifier: a mother and the members of her family.

use crate::base::text::{FamilyAccountId, MemberId};
use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::json_object;

json_object! {
    /// What is known of a family account.
    pub struct FamilyAccount {
        /// The mother whose account it is.
        pub mother_member_id: MemberId = "motherMemberId",
        /// Its members.
        pub member_ids: Vec<MemberId> = "memberIds",
    }
}

impl HeldAlone for FamilyAccount {
    type Id = FamilyAccountId;
}

impl FactKind for FamilyAccount {
    const KIND: Kind = Kind {
        tag: 2,
        name: "family-account",
    };
    const ID: &'static str = "the account, `familyAccountId`";
}

impl FamilyAccount {
    /// Whether this member belongs to the account.
    #[must_use]
    pub fn has_member(&self, member_id: &str) -> bool {
        self.member_ids.iter().any(|member| member == member_id)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use crate::domain::reference::Fact;
    use crate::domain::scenario::{Scenario, Then};

    use super::*;

    #[test]
    fn an_account_comes_in_with_its_mother_and_members() {
        let mut service = Scenario::new();
        let facts = json!({"motherMemberId": "mother-1", "memberIds": ["aunt", "father"]});
        service.fact("family-account", "account-1", 7, facts);
        let account = service
            .state::<Fact<FamilyAccount>>(&["account-1"])
            .unwrap();
        assert_eq!(account.revision.number(), 7);
        assert_eq!(&*account.facts.mother_member_id, "mother-1");
        assert!(account.facts.has_member("aunt") && account.facts.has_member("father"));
        assert!(!account.facts.has_member("mother-1"));
    }

    #[test]
    fn the_same_revision_with_members_in_another_order_is_a_conflict() {
        let mut service = Scenario::new();
        let members = |ids: [&str; 2]| json!({"motherMemberId": "mother-1", "memberIds": ids});
        service.fact("family-account", "account-1", 1, members(["a", "b"]));
        let again = service.put_fact("family-account", "account-1", 1, members(["a", "b"]));
        assert!(matches!(again, Then::Answered(_)), "{again:?}");
        let other = service.put_fact("family-account", "account-1", 1, members(["b", "a"]));
        assert_eq!(other.code(), "conflict");
    }
}
