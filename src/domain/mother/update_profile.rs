//! A mother updates her own profile and address, and accepts published consent versions.
//!
//! Resource: the profile that the subject owns. Rejections, in the order tested: the actor is no
//! mother (403); she has no profile (404); her account is not active (403); an expected revision
//! is stale (409); and last, as invalid: a contact is not verified, a consent version is not
//! published. Profile and address advance by one; each version not accepted before gets a
//! receipt.

use super::state::{
    ConsentAccepted, MotherProfile, MotherProfileEvent, ProfileUpdated, ProfileView,
};
use crate::base::actor::ActorKind;
use crate::base::address::Address;
use crate::base::digest::Digest;
use crate::base::json::{AtLeast, FaultCode, NonEmpty, Reader, refuse_repeats};
use crate::base::text::{FullName, PolicyKey, VersionLabel};
use crate::base::time::Date;
use crate::domain::operation::{Commit, Context, Decision, Operation, mark_replayed, to_json};
use crate::domain::reference::consent_version::{ConsentVersionFact, required_at, version_id};
use crate::domain::reference::mother_profile::{AccountLifecycle, owner};
use crate::domain::rejection::{Class, Rejection};
use crate::{members, rejections};

members! {
    /// A consent version that is accepted.
    pub struct ConsentAcceptance {
        /// The policy.
        pub policy_key: PolicyKey = "policyKey",
        /// The version of the policy.
        pub version_label: VersionLabel = "versionLabel",
    }
}

members! {
    /// The body of the request.
    pub struct Command {
        /// The profile's revision as the mother saw it.
        pub expected_profile_revision: AtLeast<1> = "expectedProfileRevision",
        /// The address's revision as the mother saw it.
        pub expected_address_revision: AtLeast<1> = "expectedAddressRevision",
        /// Her name.
        pub full_name: FullName = "fullName",
        /// Her day of birth: from 1900 on, and not in the future.
        pub birth_date: Date = "birthDate",
        /// Her address.
        pub address: Address = "address",
        /// The consent versions that she accepts, each once.
        pub consent_acceptances: Option<NonEmpty<ConsentAcceptance>> = "consentAcceptances",
    }
    rules plausible(birth_date, consent_acceptances)
}

fn plausible(
    at: &mut Reader,
    birth_date: Option<&Date>,
    acceptances: Option<&Option<NonEmpty<ConsentAcceptance>>>,
) {
    let earliest = Date::new(1900, 1, 1).expect("a day that exists");
    let latest = at.now().seoul_date();
    if birth_date.is_some_and(|day| !(earliest..=latest).contains(day)) {
        at.fault_at::<()>("birthDate", FaultCode::OutOfRange);
    }
    if let Some(Some(NonEmpty(items))) = acceptances {
        let versions: Vec<_> = items
            .iter()
            .map(|item| (&item.policy_key, &item.version_label))
            .collect();
        refuse_repeats(&versions, "consentAcceptances", at);
    }
}

rejections! {
    /// Why a profile is not updated.
    pub enum Refusal {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a mother may update a mother's profile.",
        /// She has no profile.
        ProfileNotFound = Missing "mother_profile_not_found" []
            "There is no profile of your own.",
        /// Authority by resource.
        AccountNotActive = Forbidden "permission_denied" []
            "The profile of an account that is not active cannot be updated.",
        /// A revision is stale; the members are named where it is found.
        RevisionStale = Conflict "revision_stale" ["expectedProfileRevision", "expectedAddressRevision"]
            "The expected revision is not the current one: read again, then decide.",
        /// A contact is not verified.
        ContactUnverified = Invalid "contact_unverified" []
            "The e-mail address and the phone number must be verified first.",
        /// A consent version is unknown, or published later.
        ConsentVersionNotPublished = Invalid "consent_version_not_published" ["consentAcceptances"]
            "A consent version that is accepted is not published.",
    }
}

/// The operation.
pub struct UpdateProfile;

impl Operation for UpdateProfile {
    type Command = Command;
    type Resource = MotherProfile;

    const REJECTIONS: &'static [(Class, &'static str)] = Refusal::TABLE;

    fn target(_: &Command, context: &Context<'_>) -> Option<Digest> {
        context.view.holder(owner(&context.actor.subject))
    }

    fn decide(
        state: Option<&MotherProfile>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<MotherProfile>, Rejection> {
        if context.actor.kind != ActorKind::Mother {
            return Err(Refusal::NotPermitted.into());
        }
        let Some(profile) = state else {
            return Err(Refusal::ProfileNotFound.into());
        };
        if profile.fact.account_lifecycle != AccountLifecycle::Active {
            return Err(Refusal::AccountNotActive.into());
        }
        let stale = stale_members(profile, command);
        if !stale.is_empty() {
            return Err(Rejection::revision_stale(&stale));
        }
        if !profile.fact.has_verified_contacts() {
            return Err(Refusal::ContactUnverified.into());
        }
        let accepted = command.consent_acceptances.as_ref();
        let accepted = accepted.map_or(&[][..], |NonEmpty(items)| items);
        if !accepted.iter().all(|item| is_published(item, context)) {
            return Err(Refusal::ConsentVersionNotPublished.into());
        }
        let first_accepted = accepted
            .iter()
            .filter(|item| !profile.has_accepted(&item.policy_key, &item.version_label));
        let event = MotherProfileEvent::ProfileUpdated(Box::new(ProfileUpdated {
            full_name: command.full_name.clone(),
            birth_date: command.birth_date,
            address: command.address.clone(),
            accepted: first_accepted
                .map(|item| ConsentAccepted {
                    consent_receipt_id: context.mint.id(),
                    policy_key: item.policy_key.clone(),
                    version_label: item.version_label.clone(),
                })
                .collect(),
        }));
        let commit = Commit::new(state, event, context.now);
        let required = required_at(&context.view, context.now);
        let body = to_json(&ProfileView::new(&commit.next, &required));
        commit.answer(body)
    }

    fn replayed(body: Vec<u8>) -> Vec<u8> {
        mark_replayed(body)
    }
}

fn stale_members(profile: &MotherProfile, command: &Command) -> Vec<&'static str> {
    let mut stale = Vec::new();
    if command.expected_profile_revision.0 != profile.profile_revision.number() {
        stale.push("expectedProfileRevision");
    }
    if command.expected_address_revision.0 != profile.address_revision.number() {
        stale.push("expectedAddressRevision");
    }
    stale
}

fn is_published(item: &ConsentAcceptance, context: &Context<'_>) -> bool {
    let id = version_id(&item.policy_key, &item.version_label);
    let version = context.view.fact::<ConsentVersionFact>(&id);
    version.is_some_and(|version| version.facts.is_published(context.now))
}
