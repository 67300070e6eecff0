//! Who acts: the person or workflow that a verified token speaks for.

use super::text::MemberId;
use std::fmt;
use std::str::FromStr;

crate::wire_enum! {
    /// The seven kinds of actor, with their names in the `actor_kind` claim and in `actorKind` of
    /// bodies.
    pub enum ActorKind {
        /// A customer: the mother whom the care is for.
        Mother = "mother",
        /// A member of a mother's family account, who may pay on her behalf.
        FamilyMember = "family_member",
        /// The manager of one or more branches.
        BranchManager = "branch_manager",
        /// Works on the payments of a branch.
        BranchFinanceOperator = "branch_finance_operator",
        /// Administers the platform from the head office.
        HeadquartersAdministrator = "headquarters_administrator",
        /// Works on payments from the head office.
        HeadquartersFinanceOperator = "headquarters_finance_operator",
        /// Not a person: a trusted system of the platform.
        SystemWorkflow = "system_workflow",
    }
}

impl fmt::Display for ActorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error of a text that names no kind of actor. It does not carry the text, which came from
/// outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownActorKind;

impl fmt::Display for UnknownActorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the kind of actor is not one of")?;
        for (index, kind) in ActorKind::ALL.iter().enumerate() {
            let comma = if index == 0 { " " } else { ", " };
            write!(f, "{comma}{kind}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownActorKind {}

impl FromStr for ActorKind {
    type Err = UnknownActorKind;

    fn from_str(word: &str) -> Result<Self, UnknownActorKind> {
        Self::parse(word).ok_or(UnknownActorKind)
    }
}

/// Who acts, as a verified token says. Identifiers have 1 to 512 characters and are not blank.
#[derive(Clone, PartialEq, Eq)]
pub struct Actor {
    /// The user id: the token's `sub`.
    pub subject: Box<str>,
    /// What the actor is.
    pub kind: ActorKind,
    /// The member of a family account that the actor is.
    pub member_id: Option<MemberId>,
    /// The profile that the actor acts under; see [`Actor::profile_id`].
    pub actor_profile_id: Option<Box<str>>,
    /// The branches that the actor acts for, when it is one of a branch's people.
    pub branch_profile_ids: Vec<Box<str>>,
    /// Permissions such as `branch:create`.
    pub permissions: Vec<Box<str>>,
    /// The e-mail address, as the identity provider knows it.
    pub email: Option<Box<str>>,
    /// Whether the identity provider has verified that the address is the actor's own.
    pub email_verified: bool,
}

impl Actor {
    /// The anonymous actor of operations without a token; it has no authority anywhere.
    pub fn nobody() -> Self {
        Self {
            subject: Box::default(),
            kind: ActorKind::FamilyMember,
            member_id: None,
            actor_profile_id: None,
            branch_profile_ids: Vec::new(),
            permissions: Vec::new(),
            email: None,
            email_verified: false,
        }
    }

    /// The profile that the actor acts under: the subject when the token names none.
    pub fn profile_id(&self) -> &str {
        self.actor_profile_id.as_deref().unwrap_or(&self.subject)
    }

    /// Whether the token grants this permission, spelt exactly so.
    pub fn has_permission(&self, permission: &str) -> bool {
        self.permissions.iter().any(|held| **held == *permission)
    }

    /// Whether the token grants a permission that only trusted systems and the head office's people
    /// may hold.
    pub fn may_be_granted(&self, permission: &str) -> bool {
        let may_hold = match self.kind {
            ActorKind::SystemWorkflow
            | ActorKind::HeadquartersAdministrator
            | ActorKind::HeadquartersFinanceOperator => true,
            ActorKind::Mother
            | ActorKind::FamilyMember
            | ActorKind::BranchManager
            | ActorKind::BranchFinanceOperator => false,
        };
        may_hold && self.has_permission(permission)
    }

    /// Whether the token names this branch, whatever the actor's kind.
    pub fn names_branch(&self, branch_profile_id: &str) -> bool {
        self.branch_profile_ids
            .iter()
            .any(|held| **held == *branch_profile_id)
    }

    /// Whether the actor is a branch manager of this branch.
    pub fn manages_branch(&self, branch_profile_id: &str) -> bool {
        self.kind == ActorKind::BranchManager && self.names_branch(branch_profile_id)
    }

    /// Whether the actor is an administrator of the head office.
    pub fn is_headquarters(&self) -> bool {
        self.kind == ActorKind::HeadquartersAdministrator
    }

    /// Whether the actor is a trusted system, not a person.
    pub fn is_system_workflow(&self) -> bool {
        self.kind == ActorKind::SystemWorkflow
    }

    /// The e-mail address, when the identity provider has verified it.
    pub fn verified_email(&self) -> Option<&str> {
        self.email.as_deref().filter(|_| self.email_verified)
    }
}

/// Shows what the actor may do, and nothing that says who it is: some providers put an e-mail
/// address into `sub`, so no identifier is shown.
impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actor")
            .field("kind", &self.kind)
            .field("branches", &self.branch_profile_ids.len())
            .field("permissions", &self.permissions.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn manager() -> Actor {
        Actor {
            subject: "user-1".into(),
            kind: ActorKind::BranchManager,
            member_id: Some(MemberId::from_trusted("member-1")),
            actor_profile_id: None,
            branch_profile_ids: vec!["branch-1".into(), "branch-2".into()],
            permissions: vec!["branch:create".into()],
            email: Some("mina@example.org".into()),
            email_verified: false,
        }
    }

    #[test]
    fn every_kind_is_read_back_from_its_word() {
        let words = [
            "mother",
            "family_member",
            "branch_manager",
            "branch_finance_operator",
            "headquarters_administrator",
            "headquarters_finance_operator",
            "system_workflow",
        ];
        for (kind, word) in ActorKind::ALL.into_iter().zip(words) {
            assert_eq!(kind.as_str(), word);
            assert_eq!(word.parse::<ActorKind>().unwrap(), kind);
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<ActorKind>(&json).unwrap(), kind);
            // An escape in the JSON makes serde pass the word as an owned string.
            let escaped = json.replacen('_', "\\u005f", 1);
            assert_eq!(serde_json::from_str::<ActorKind>(&escaped).unwrap(), kind);
        }
    }

    #[test]
    fn other_words_name_no_kind() {
        for word in ["", "Mother", "mother ", "family-member", "admin"] {
            assert_eq!(word.parse::<ActorKind>(), Err(UnknownActorKind), "{word:?}");
        }
        assert!(serde_json::from_str::<ActorKind>("0").is_err());
    }

    #[test]
    fn the_profile_is_the_subject_when_the_token_names_none() {
        let mut actor = manager();
        assert_eq!(actor.profile_id(), "user-1");
        actor.actor_profile_id = Some("profile-1".into());
        assert_eq!(actor.profile_id(), "profile-1");
    }

    #[test]
    fn only_a_branch_manager_manages_a_branch_and_only_one_that_is_named() {
        let mut actor = manager();
        assert!(actor.manages_branch("branch-2"));
        assert!(!actor.manages_branch("branch-3"));
        assert!(!actor.manages_branch("branch"));
        actor.kind = ActorKind::BranchFinanceOperator;
        assert!(!actor.manages_branch("branch-2"));
        assert!(actor.names_branch("branch-2"));
    }

    #[test]
    fn the_head_office_is_its_administrator_alone() {
        let mut actor = manager();
        for kind in ActorKind::ALL {
            actor.kind = kind;
            assert_eq!(
                actor.is_headquarters(),
                kind == ActorKind::HeadquartersAdministrator
            );
            assert_eq!(
                actor.is_system_workflow(),
                kind == ActorKind::SystemWorkflow
            );
        }
    }

    #[test]
    fn a_permission_is_held_when_it_is_spelt_exactly_so() {
        let actor = manager();
        assert!(actor.has_permission("branch:create"));
        assert!(!actor.has_permission("branch:creat"));
        assert!(!actor.has_permission("BRANCH:CREATE"));
    }

    #[test]
    fn an_address_counts_once_it_is_verified() {
        let mut actor = manager();
        assert_eq!(actor.verified_email(), None);
        actor.email_verified = true;
        assert_eq!(actor.verified_email(), Some("mina@example.org"));
    }

    #[test]
    fn debug_output_tells_nobody_who_the_actor_is() {
        let mut actor = manager();
        actor.actor_profile_id = Some("profile-1".into());
        let shown = format!("{actor:?} {actor:#?}");
        for secret in [
            "mina",
            "example",
            "user-1",
            "member-1",
            "profile-1",
            "branch-1",
        ] {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
        assert!(shown.contains("BranchManager"));
    }
}
