//! The profile with which a branch presents itself: a fact of another system, which the branch may
//! update.

use serde::{Deserialize, Serialize};

use crate::base::actor::Actor;
use crate::base::revision::Revision;
use crate::base::text::{Ident, Text};
use crate::base::time::Timestamp;
use crate::domain::listing::{Filter, List, by_few, is};
use crate::domain::reference::kinds::branch_office_profile::BranchOfficeProfileFact;
use crate::domain::reference::{FactHolder, FactKind};
use crate::domain::resource::{Kind, Resource};
use crate::domain::response_body::response_body;
use crate::{public_events, wire_enum};

wire_enum! {
    /// Which facts of a branch office a revision is of.
    pub enum FactGroup {
        /// How it presents itself.
        Profile = "profile",
        /// Its lifecycle.
        Lifecycle = "lifecycle",
        /// What it settles with.
        SettlementAccount = "settlement_account",
        /// What it pays.
        MembershipFeePolicy = "membership_fee_policy",
        /// What it signs in with.
        CredentialRotation = "credential_rotation",
    }
}

/// The update by which this service made a revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// The revision's identifier.
    pub revision_id: Ident,
    /// Who made it: the token's subject.
    pub subject: Box<str>,
    /// The reason.
    pub reason: Text,
}

/// A branch office's profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchOfficeProfile {
    /// Its identifier, branchOfficeProfileId.
    pub id: Box<str>,
    /// Its revision; a fact that comes in sets it to its own.
    pub revision: Revision,
    /// How the branch presents itself.
    pub facts: BranchOfficeProfileFact,
    /// The time since which its current facts apply.
    pub effective_at: Timestamp,
    /// The update that set the current facts; `None` when a fact from outside did.
    pub update: Option<Update>,
}

/// The event that a fact comes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactCameIn {
    /// The profile.
    pub id: Box<str>,
    /// The fact's revision.
    pub revision: Revision,
    /// The facts.
    pub facts: BranchOfficeProfileFact,
}

/// The event that the profile is updated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileUpdated {
    /// The update.
    pub update: Update,
    /// How the branch presents itself after the update.
    pub facts: BranchOfficeProfileFact,
}

/// What can happen to a profile. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BranchOfficeProfileEvent {
    /// A fact comes in; the first one creates the profile.
    FactCameIn(Box<FactCameIn>),
    /// The profile is updated.
    Updated(Box<ProfileUpdated>),
}

impl Resource for BranchOfficeProfile {
    const KIND: Kind = BranchOfficeProfileFact::KIND;
    type Event = BranchOfficeProfileEvent;
    const LIST: Option<List<Self>> =
        Some(List::<Self>::by(&[by_few(Filter::Branch, |it| is(&it.id))]));

    fn apply(state: Option<Self>, event: &BranchOfficeProfileEvent, at: Timestamp) -> Self {
        match (state, event) {
            (_, BranchOfficeProfileEvent::FactCameIn(fact)) => Self {
                id: fact.id.clone(),
                revision: fact.revision,
                facts: fact.facts.clone(),
                effective_at: at,
                update: None,
            },
            (Some(mut profile), BranchOfficeProfileEvent::Updated(updated)) => {
                profile.revision = profile.revision.next();
                profile.facts = updated.facts.clone();
                profile.effective_at = at;
                profile.update = Some(updated.update.clone());
                profile
            }
            (None, BranchOfficeProfileEvent::Updated(_)) => {
                panic!("a profile that does not exist cannot be updated")
            }
        }
    }

    fn id(&self) -> Vec<String> {
        vec![String::from(&*self.id)]
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}

public_events! {
    BranchOfficeProfile by BranchOfficeProfileEvent, read at "branch-office-profiles/{}",
        revision own;

    /// The profile is what its fact says.
    FactCameIn(came) => fact(&came.id, came.revision) and "changed" {},
    /// The branch has changed its profile.
    Updated(updated) => "updated" {
        "revisionId": Ident = updated.update.revision_id,
    },
}

/// A revision of a profile that was made here. Its identifier stays in use, whatever happens to the
/// profile later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileRevision {
    /// Its identifier, unique in the whole service.
    pub revision_id: Ident,
    /// The profile.
    pub branch_office_profile_id: Box<str>,
    /// The number of the profile's revision that it made.
    pub revision_number: Revision,
}

/// What can happen to a revision. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ProfileRevisionEvent {
    /// It is made.
    Made(Box<ProfileRevision>),
}

impl Resource for ProfileRevision {
    const KIND: Kind = Kind {
        tag: 115,
        name: "branch-office-profile-revision",
    };
    type Event = ProfileRevisionEvent;

    fn apply(state: Option<Self>, event: &ProfileRevisionEvent, _: Timestamp) -> Self {
        let ProfileRevisionEvent::Made(revision) = event;
        assert!(state.is_none(), "a revision is made once");
        (**revision).clone()
    }

    fn id(&self) -> Vec<String> {
        vec![self.revision_id.as_str().to_owned()]
    }

    fn revision(&self) -> Revision {
        Revision::FIRST
    }
}

public_events! {
    ProfileRevision by ProfileRevisionEvent, read at "branch-office-profile-revision/{}/{}",
        revision none;

    // A part of the profile, which has the events.
    Made(_) => nothing,
}

impl FactHolder for BranchOfficeProfile {
    type Facts = BranchOfficeProfileFact;

    fn fact(&self) -> Option<(Revision, &BranchOfficeProfileFact)> {
        Some((self.revision, &self.facts))
    }

    fn put(
        _: Option<&Self>,
        id: &str,
        revision: Revision,
        facts: &BranchOfficeProfileFact,
    ) -> Option<BranchOfficeProfileEvent> {
        Some(BranchOfficeProfileEvent::FactCameIn(Box::new(FactCameIn {
            id: id.into(),
            revision,
            facts: facts.clone(),
        })))
    }
}

/// Whether the actor may update, and read, the profile with this identifier.
#[must_use]
pub fn may_update(actor: &Actor, branch_office_profile_id: &str) -> bool {
    actor.is_headquarters() || actor.manages_branch(branch_office_profile_id)
}

response_body! {
    /// The current revision of a profile.
    #[schemars(rename = "BranchOfficeProfileRevision")]
    pub struct ProfileRevisionBody<'a> from (profile: &'a BranchOfficeProfile) {
        // The current revision of this profile. Who made it, why, and its identifier are known only
        // when it was made here.
        let update = profile.update.as_ref();
    } as {
        revision_id: Option<&'a Ident> = update.map(|update| &update.revision_id),
        branch_office_profile_id: &'a str = &profile.id,
        revision_number: Revision = profile.revision,
        fact_group: FactGroup = FactGroup::Profile,
        actor_id: Option<&'a str> = update.map(|update| &*update.subject),
        reason: Option<&'a Text> = update.map(|update| &update.reason),
        effective_at: Timestamp = profile.effective_at,
    }
}
