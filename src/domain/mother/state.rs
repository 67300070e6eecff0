//! A mother's profile: its state, how events change it, how its owner sees it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::address::Address;
use crate::base::revision::Revision;
use crate::base::text::{Email, FullName, Ident, PhoneNumber, PolicyKey, ReceiptId, VersionLabel};
use crate::base::time::{Date, Instant};
use crate::domain::reference::consent_version::version_id;
use crate::domain::reference::mother_profile::{
    AccountLifecycle, MotherProfileFact, OwnershipState, owner,
};
use crate::domain::reference::{FactHolder, FactKind};
use crate::domain::resource::{Kind, Name, Resource};
use crate::words;

words! {
    /// Whether a profile has all that a reservation needs.
    pub enum ProfileCompleteness {
        /// A contact is not verified, or a required consent is missing.
        Incomplete = "incomplete",
        /// Nothing is missing.
        Complete = "complete",
    }
}

words! {
    /// What a mother may, or must, do next; in the order in which they are told.
    pub enum NextAction {
        /// Verify a contact.
        VerifyContact = "verify_contact",
        /// Accept a consent version that is required and current.
        AcceptCurrentConsent = "accept_current_consent",
        /// Complete the profile.
        CompleteProfile = "complete_profile",
        /// Update the profile.
        UpdateProfile = "update_profile",
        /// Start a reservation.
        StartReservation = "start_reservation",
        /// Ask for the account's withdrawal.
        RequestWithdrawal = "request_withdrawal",
    }
}

words! {
    /// How a consent came about.
    pub enum CaptureSource {
        /// The mother accepted it herself.
        ExplicitMotherAction = "explicit_mother_action",
    }
}

words! {
    /// Who verified a contact.
    pub enum VerificationAuthority {
        /// The identity provider.
        IdentityProviderAuth = "identity_provider_auth",
    }
}

/// That a mother accepted a consent version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentReceipt {
    /// The receipt's identifier.
    pub consent_receipt_id: Uuid,
    /// The policy.
    pub policy_key: PolicyKey,
    /// The version of the policy.
    pub version_label: VersionLabel,
    /// When it was accepted.
    pub accepted_at: Instant,
}

/// A mother's profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MotherProfile {
    /// Its identifier, motherProfileId.
    pub id: Box<str>,
    /// The revision of the fact, as its system counts; it has nothing to do with the profile's.
    pub fact_revision: Revision,
    /// The fact as it came in last.
    pub fact: MotherProfileFact,
    /// The account, as the first fact gave it.
    pub mother_account_id: ReceiptId,
    /// When the profile came into being, as the first fact gave it.
    pub created_at: Instant,
    /// When it was changed last; at first, when its first fact was committed.
    pub updated_at: Instant,
    /// How often the profile was changed, its birth included.
    pub profile_revision: Revision,
    /// How often the mother has put her address in place, the first fact's included.
    pub address_revision: Revision,
    /// The mother's name.
    pub full_name: FullName,
    /// The mother's day of birth.
    pub birth_date: Date,
    /// The mother's address.
    pub address: Address,
    /// The consents, in the order of their acceptance.
    pub consent_receipts: Vec<ConsentReceipt>,
}

/// A fact comes in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactCameIn {
    /// Its identifier.
    pub id: Box<str>,
    /// Its revision.
    pub revision: Revision,
    /// What it says.
    pub fact: MotherProfileFact,
}

/// A consent version is accepted for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentAccepted {
    /// The identifier of the receipt.
    pub consent_receipt_id: Uuid,
    /// The policy.
    pub policy_key: PolicyKey,
    /// The version of the policy.
    pub version_label: VersionLabel,
}

/// The mother updates her profile and address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileUpdated {
    /// Her name from now on.
    pub full_name: FullName,
    /// Her day of birth from now on.
    pub birth_date: Date,
    /// Her address from now on.
    pub address: Address,
    /// The versions that she had not accepted before.
    pub accepted: Vec<ConsentAccepted>,
}

/// What can happen to a profile. New events go at the end: their order stands in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MotherProfileEvent {
    /// A fact comes in; the first one gives birth to the profile.
    FactCameIn(Box<FactCameIn>),
    /// The mother updates it.
    ProfileUpdated(Box<ProfileUpdated>),
}

impl Resource for MotherProfile {
    const KIND: Kind = MotherProfileFact::KIND;
    type Event = MotherProfileEvent;

    fn apply(state: Option<Self>, event: &MotherProfileEvent, at: Instant) -> Self {
        match (state, event) {
            (None, MotherProfileEvent::FactCameIn(first)) => Self::born(first, at),
            (Some(mut profile), MotherProfileEvent::FactCameIn(later)) => {
                profile.take_in(later, at);
                profile
            }
            (Some(mut profile), MotherProfileEvent::ProfileUpdated(update)) => {
                profile.update(update, at);
                profile
            }
            (None, MotherProfileEvent::ProfileUpdated(_)) => {
                panic!("a profile that does not exist cannot be updated")
            }
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.id.to_string()]
    }

    fn revision(&self) -> Revision {
        self.profile_revision
    }

    fn names(&self) -> Vec<Name> {
        vec![owner(&self.fact.owner_subject)]
    }

    fn validate(&self) -> Result<(), String> {
        let first = Revision::FIRST;
        if self.address_revision < first || self.profile_revision < self.address_revision {
            return Err(format!(
                "address revision {} at profile revision {}",
                self.address_revision, self.profile_revision
            ));
        }
        let versions: BTreeSet<_> = self
            .consent_receipts
            .iter()
            .map(|receipt| (&receipt.policy_key, &receipt.version_label))
            .collect();
        if versions.len() != self.consent_receipts.len() {
            return Err("a consent version has two receipts".to_owned());
        }
        Ok(())
    }
}

impl MotherProfile {
    fn born(first: &FactCameIn, at: Instant) -> Self {
        let fact = first.fact.clone();
        Self {
            id: first.id.clone(),
            fact_revision: first.revision,
            mother_account_id: fact.mother_account_id.clone(),
            created_at: fact.created_at,
            updated_at: at,
            profile_revision: Revision::FIRST,
            address_revision: Revision::FIRST,
            full_name: fact.full_name.clone(),
            birth_date: fact.birth_date,
            address: fact.address.clone(),
            consent_receipts: Vec::new(),
            fact,
        }
    }

    fn take_in(&mut self, later: &FactCameIn, at: Instant) {
        if !later.fact.owns_the_same(&self.fact) {
            self.profile_revision = self.profile_revision.next();
            self.updated_at = at;
        }
        self.fact_revision = later.revision;
        self.fact = later.fact.clone();
    }

    fn update(&mut self, update: &ProfileUpdated, at: Instant) {
        self.full_name = update.full_name.clone();
        self.birth_date = update.birth_date;
        self.address = update.address.clone();
        self.consent_receipts
            .extend(
                update
                    .accepted
                    .iter()
                    .cloned()
                    .map(|accepted| ConsentReceipt {
                        consent_receipt_id: accepted.consent_receipt_id,
                        policy_key: accepted.policy_key,
                        version_label: accepted.version_label,
                        accepted_at: at,
                    }),
            );
        self.profile_revision = self.profile_revision.next();
        self.address_revision = self.address_revision.next();
        self.updated_at = at;
    }

    /// Whether this consent version was accepted.
    #[must_use]
    pub fn has_accepted(&self, policy_key: &PolicyKey, version_label: &VersionLabel) -> bool {
        self.consent_receipts.iter().any(|receipt| {
            receipt.policy_key == *policy_key && receipt.version_label == *version_label
        })
    }

    /// Whether each of these consent versions was accepted.
    fn has_accepted_all(&self, required: &[Box<str>]) -> bool {
        required.iter().all(|id| {
            self.consent_receipts
                .iter()
                .any(|receipt| version_id(&receipt.policy_key, &receipt.version_label) == **id)
        })
    }
}

impl FactHolder for MotherProfile {
    type Facts = MotherProfileFact;

    fn fact(&self) -> Option<(Revision, &MotherProfileFact)> {
        Some((self.fact_revision, &self.fact))
    }

    /// A profile is its owner's for good: a fact that names another one is a conflict.
    fn put(
        state: Option<&Self>,
        id: &str,
        revision: Revision,
        fact: &MotherProfileFact,
    ) -> Option<MotherProfileEvent> {
        if state.is_some_and(|profile| profile.fact.owner_subject != fact.owner_subject) {
            return None;
        }
        Some(MotherProfileEvent::FactCameIn(Box::new(FactCameIn {
            id: id.into(),
            revision,
            fact: fact.clone(),
        })))
    }
}

/// How complete a profile is, and what its owner may do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How complete it is.
    pub completeness: ProfileCompleteness,
    /// What comes next, in the order of the enumeration.
    pub next_actions: Vec<NextAction>,
}

impl Standing {
    /// The standing of `profile` while the consent versions `required` (their identifiers) must
    /// be accepted.
    #[must_use]
    pub fn of(profile: &MotherProfile, required: &[Box<str>]) -> Self {
        let verified = profile.fact.has_verified_contacts();
        let consented = profile.has_accepted_all(required);
        let complete = verified && consented;
        let active = profile.fact.account_lifecycle == AccountLifecycle::Active;
        let next_actions = NextAction::ALL
            .iter()
            .copied()
            .filter(|action| match action {
                NextAction::VerifyContact => !verified,
                NextAction::AcceptCurrentConsent => !consented,
                NextAction::CompleteProfile => !complete,
                NextAction::UpdateProfile | NextAction::RequestWithdrawal => active,
                NextAction::StartReservation => active && complete,
            })
            .collect();
        Self {
            completeness: if complete {
                ProfileCompleteness::Complete
            } else {
                ProfileCompleteness::Incomplete
            },
            next_actions,
        }
    }
}

/// A profile as its owner sees it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileView<'a> {
    mother_account_id: &'a ReceiptId,
    mother_profile_id: &'a str,
    account_lifecycle: AccountLifecycle,
    profile_completeness: ProfileCompleteness,
    profile_revision: Revision,
    address_revision: Revision,
    full_name: &'a FullName,
    birth_date: Date,
    email: &'a Email,
    primary_phone_number: &'a PhoneNumber,
    address: &'a Address,
    verified_contacts: VerifiedContacts<'a>,
    consent_receipts: Vec<ReceiptView<'a>>,
    ownership_relationship: OwnershipView<'a>,
    allowed_next_actions: Vec<NextAction>,
    created_at: Instant,
    updated_at: Instant,
    /// Last, so that a replay can turn it round.
    idempotent_replay: bool,
}

#[derive(Serialize)]
struct VerifiedContacts<'a> {
    email: Option<ContactView<'a>>,
    phone: Option<ContactView<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContactView<'a> {
    receipt_id: &'a ReceiptId,
    normalized_value: &'a str,
    verified_at: Instant,
    verification_authority: VerificationAuthority,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReceiptView<'a> {
    consent_receipt_id: Uuid,
    policy_key: &'a PolicyKey,
    version_label: &'a VersionLabel,
    accepted_at: Instant,
    capture_source: CaptureSource,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnershipView<'a> {
    state: OwnershipState,
    relationship_receipt_id: Option<&'a Ident>,
    applied_at: Option<Instant>,
}

impl<'a> ProfileView<'a> {
    /// The profile while the consent versions `required` (their identifiers) must be accepted.
    #[must_use]
    pub fn new(profile: &'a MotherProfile, required: &[Box<str>]) -> Self {
        let fact = &profile.fact;
        let standing = Standing::of(profile, required);
        Self {
            mother_account_id: &profile.mother_account_id,
            mother_profile_id: &profile.id,
            account_lifecycle: fact.account_lifecycle,
            profile_completeness: standing.completeness,
            profile_revision: profile.profile_revision,
            address_revision: profile.address_revision,
            full_name: &profile.full_name,
            birth_date: profile.birth_date,
            email: &fact.email,
            primary_phone_number: &fact.primary_phone_number,
            address: &profile.address,
            verified_contacts: VerifiedContacts {
                email: fact.verified_email.as_ref().map(|contact| {
                    ContactView::new(
                        &contact.receipt_id,
                        &contact.normalized_value,
                        contact.verified_at,
                    )
                }),
                phone: fact.verified_phone.as_ref().map(|contact| {
                    ContactView::new(
                        &contact.receipt_id,
                        &contact.normalized_value,
                        contact.verified_at,
                    )
                }),
            },
            consent_receipts: profile
                .consent_receipts
                .iter()
                .map(ReceiptView::new)
                .collect(),
            ownership_relationship: OwnershipView {
                state: fact.ownership_state,
                relationship_receipt_id: fact.relationship_receipt_id.as_ref(),
                applied_at: fact.applied_at,
            },
            allowed_next_actions: standing.next_actions,
            created_at: profile.created_at,
            updated_at: profile.updated_at,
            idempotent_replay: false,
        }
    }
}

impl<'a> ContactView<'a> {
    fn new(receipt_id: &'a ReceiptId, normalized_value: &'a str, verified_at: Instant) -> Self {
        Self {
            receipt_id,
            normalized_value,
            verified_at,
            verification_authority: VerificationAuthority::IdentityProviderAuth,
        }
    }
}

impl<'a> ReceiptView<'a> {
    fn new(receipt: &'a ConsentReceipt) -> Self {
        Self {
            consent_receipt_id: receipt.consent_receipt_id,
            policy_key: &receipt.policy_key,
            version_label: &receipt.version_label,
            accepted_at: receipt.accepted_at,
            capture_source: CaptureSource::ExplicitMotherAction,
        }
    }
}
