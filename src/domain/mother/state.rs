//! A mother's profile: its state, how events change it, how its owner sees it.

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::address::Address;
use crate::base::revision::Revision;
use crate::base::shared;
use crate::base::text::{Email, FullName, Ident, PhoneNumber, PolicyKey, TrimmedId, VersionLabel};
use crate::base::time::{Date, Timestamp};
use crate::domain::index::IndexKey;
use crate::domain::reference::kinds::consent_version::version_id;
use crate::domain::reference::kinds::mother_profile::{
    AccountLifecycle, MotherProfileFact, OwnershipState, owner,
};
use crate::domain::reference::{FactHolder, FactKind};
use crate::domain::resource::{Kind, Resource};
use crate::domain::response_body::response_body;
use crate::{public_events, wire_enum};

wire_enum! {
    /// Whether a profile has all that a reservation needs.
    pub enum ProfileCompleteness {
        /// A contact is not verified, or a required consent is missing.
        Incomplete = "incomplete",
        /// Nothing is missing.
        Complete = "complete",
    }
}

wire_enum! {
    /// What a mother may, or must, do next; in the order in which they are listed.
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

wire_enum! {
    /// How a consent came about.
    pub enum CaptureSource {
        /// The mother accepted it herself.
        ExplicitMotherAction = "explicit_mother_action",
    }
}

wire_enum! {
    /// Who verified a contact.
    pub enum VerificationAuthority {
        /// The identity provider.
        IdentityProviderAuth = "identity_provider_auth",
    }
}

/// Maximum number of consent versions that a mother may have accepted: each response with her
/// profile lists all.
pub const CONSENT_RECEIPTS_MAX: usize = 1_000;

/// A mother's acceptance of a consent version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentReceipt {
    /// The receipt's identifier.
    pub consent_receipt_id: Uuid,
    /// The policy.
    pub policy_key: PolicyKey,
    /// The version of the policy.
    pub version_label: VersionLabel,
    /// When it was accepted.
    pub accepted_at: Timestamp,
}

/// A mother's profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MotherProfile {
    /// Its identifier, motherProfileId.
    pub id: Box<str>,
    /// The revision of the fact, as its own system counts; it is independent of the profile's.
    pub fact_revision: Revision,
    /// The last fact that came in.
    #[serde(with = "shared")]
    pub fact: Arc<MotherProfileFact>,
    /// The account that the first fact named.
    pub mother_account_id: TrimmedId,
    /// The time at which the profile was created, as the first fact gave it.
    pub created_at: Timestamp,
    /// The time of the last change; at first, the time at which the first fact was committed.
    pub updated_at: Timestamp,
    /// The number of changes of the profile, its creation included.
    pub profile_revision: Revision,
    /// The number of times that the address was set, by the first fact included.
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

/// The event that a fact comes in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactCameIn {
    /// The profile's identifier.
    pub id: Box<str>,
    /// The fact's revision.
    pub revision: Revision,
    /// The facts.
    #[serde(with = "shared")]
    pub fact: Arc<MotherProfileFact>,
}

/// The first acceptance of a consent version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentAccepted {
    /// The identifier of the receipt.
    pub consent_receipt_id: Uuid,
    /// The policy.
    pub policy_key: PolicyKey,
    /// The version of the policy.
    pub version_label: VersionLabel,
}

/// The event that the mother updates her profile and address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileUpdated {
    /// Her new name.
    pub full_name: FullName,
    /// Her new day of birth.
    pub birth_date: Date,
    /// Her new address.
    pub address: Address,
    /// The consent versions that she accepts for the first time.
    pub accepted: Vec<ConsentAccepted>,
}

/// What can happen to a profile. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MotherProfileEvent {
    /// A fact comes in; the first one creates the profile.
    FactCameIn(Box<FactCameIn>),
    /// The mother updates it.
    ProfileUpdated(Box<ProfileUpdated>),
}

impl Resource for MotherProfile {
    const KIND: Kind = MotherProfileFact::KIND;
    type Event = MotherProfileEvent;

    fn apply(state: Option<Self>, event: &MotherProfileEvent, at: Timestamp) -> Self {
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
        vec![String::from(&*self.id)]
    }

    fn revision(&self) -> Revision {
        self.profile_revision
    }

    fn unique_keys(&self) -> Vec<IndexKey> {
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

public_events! {
    MotherProfile by MotherProfileEvent, read at "mother-profiles/{}", revision own;

    /// The profile came into being with its fact, or what its fact owns has changed: the account's
    /// lifecycle, its contacts, its owners.
    FactCameIn(came) => fact(&came.id, came.revision) and "ownership-changed" {
        "motherAccountId": TrimmedId = came.fact.mother_account_id,
        "accountLifecycle": AccountLifecycle = came.fact.account_lifecycle,
        "ownershipState": OwnershipState = came.fact.ownership_state,
    },
    /// The mother has changed her profile.
    ProfileUpdated(update) => "updated" {
        "consentReceiptIds": Vec<Uuid> = update.receipt_ids(),
    },
}

impl ProfileUpdated {
    fn receipt_ids(&self) -> Vec<Uuid> {
        let accepted = self.accepted.iter();
        accepted
            .map(|accepted| accepted.consent_receipt_id)
            .collect()
    }
}

impl MotherProfile {
    fn born(first: &FactCameIn, at: Timestamp) -> Self {
        let fact = Arc::clone(&first.fact);
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

    fn take_in(&mut self, later: &FactCameIn, at: Timestamp) {
        if !later.fact.owns_the_same(&self.fact) {
            self.profile_revision = self.profile_revision.next();
            self.updated_at = at;
        }
        self.fact_revision = later.revision;
        self.fact = Arc::clone(&later.fact);
    }

    fn update(&mut self, update: &ProfileUpdated, at: Timestamp) {
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

    const CONFLICT_AT: &'static str = "facts.ownerSubject";

    fn fact(&self) -> Option<(Revision, &MotherProfileFact)> {
        Some((self.fact_revision, self.fact.as_ref()))
    }

    /// Decides a fact that comes in. A profile never changes its owner: a fact that names another
    /// one is a conflict.
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
            fact: Arc::new(fact.clone()),
        })))
    }
}

/// How complete a profile is, and what its owner may do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileProgress {
    /// How complete it is.
    pub completeness: ProfileCompleteness,
    /// The next actions, in the order of the enumeration.
    pub next_actions: Vec<NextAction>,
}

impl ProfileProgress {
    /// Computes the progress of `profile` while the consent versions `required` (their identifiers)
    /// must be accepted.
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

response_body! {
    /// A profile as its owner sees it.
    #[schemars(rename = "MotherProfile")]
    pub struct ProfileBody<'a> from (profile: &'a MotherProfile, required: &[Box<str>]) {
        // The profile while the consent versions `required` (their identifiers) must be accepted.
        let fact = &profile.fact;
        let standing = ProfileProgress::of(profile, required);
    } as {
        mother_account_id: &'a TrimmedId = &profile.mother_account_id,
        mother_profile_id: &'a str = &profile.id,
        account_lifecycle: AccountLifecycle = fact.account_lifecycle,
        profile_completeness: ProfileCompleteness = standing.completeness,
        profile_revision: Revision = profile.profile_revision,
        address_revision: Revision = profile.address_revision,
        full_name: &'a FullName = &profile.full_name,
        birth_date: Date = profile.birth_date,
        email: &'a Email = &fact.email,
        primary_phone_number: &'a PhoneNumber = &fact.primary_phone_number,
        address: &'a Address = &profile.address,
        verified_contacts: VerifiedContacts<'a> = VerifiedContacts {
            email: fact.verified_email.as_ref().map(|contact| {
                ContactBody::new(
                    &contact.receipt_id,
                    &contact.normalized_value,
                    contact.verified_at,
                )
            }),
            phone: fact.verified_phone.as_ref().map(|contact| {
                ContactBody::new(
                    &contact.receipt_id,
                    &contact.normalized_value,
                    contact.verified_at,
                )
            }),
        },
        consent_receipts: Vec<ReceiptBody<'a>> = profile
            .consent_receipts
            .iter()
            .map(ReceiptBody::new)
            .collect(),
        ownership_relationship: OwnershipBody<'a> = OwnershipBody {
            state: fact.ownership_state,
            relationship_receipt_id: fact.relationship_receipt_id.as_ref(),
            applied_at: fact.applied_at,
        },
        allowed_next_actions: Vec<NextAction> = standing.next_actions,
        created_at: Timestamp = profile.created_at,
        updated_at: Timestamp = profile.updated_at,
        /// Whether this is the answer of an earlier request once more.
        // Last, so that a replay can turn it round.
        idempotent_replay: bool = false,
    }
}

#[derive(Serialize, JsonSchema)]
struct VerifiedContacts<'a> {
    email: Option<ContactBody<'a>>,
    phone: Option<ContactBody<'a>>,
}

response_body! {
    #[schemars(rename = "VerifiedContact")]
    struct ContactBody<'a> from (receipt_id: &'a TrimmedId, normalized_value: &'a str, verified_at: Timestamp) {} as {
        receipt_id: &'a TrimmedId = receipt_id,
        normalized_value: &'a str = normalized_value,
        verified_at: Timestamp = verified_at,
        verification_authority: VerificationAuthority = VerificationAuthority::IdentityProviderAuth,
    }
}

response_body! {
    #[schemars(rename = "ConsentReceipt")]
    struct ReceiptBody<'a> from (receipt: &'a ConsentReceipt) {} as {
        consent_receipt_id: Uuid = receipt.consent_receipt_id,
        policy_key: &'a PolicyKey = &receipt.policy_key,
        version_label: &'a VersionLabel = &receipt.version_label,
        accepted_at: Timestamp = receipt.accepted_at,
        capture_source: CaptureSource = CaptureSource::ExplicitMotherAction,
    }
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OwnershipRelationship")]
struct OwnershipBody<'a> {
    state: OwnershipState,
    relationship_receipt_id: Option<&'a Ident>,
    applied_at: Option<Timestamp>,
}

/// A mother and her profile, for the tests of this group.
#[cfg(test)]
pub(crate) mod samples {
    use serde_json::{Value, json};

    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::scenario::{Scenario, actor};

    /// The owner of the profile.
    pub(crate) fn mother() -> Actor {
        actor(ActorKind::Mother, "mother-1")
    }

    /// The facts of the profile `profile-1`, everything verified.
    pub(crate) fn fact() -> Value {
        json!({
            "ownerSubject": "mother-1",
            "motherAccountId": "account-1",
            "accountLifecycle": "active",
            "fullName": "이 미나",
            "birthDate": "1990-05-01",
            "email": "mina@example.org",
            "primaryPhoneNumber": "+821012345678",
            "address": {
                "postalCode": "04524",
                "roadAddress": "서울 중구 세종대로 110",
                "detailAddress": "1층",
            },
            "verifiedEmail": {
                "receiptId": "email-receipt-1",
                "normalizedValue": "mina@example.org",
                "verifiedAt": "2026-01-02T00:00:00.000Z",
            },
            "verifiedPhone": {
                "receiptId": "phone-receipt-1",
                "normalizedValue": "+821012345678",
                "verifiedAt": "2026-01-03T00:00:00.000Z",
            },
            "ownershipState": "applied",
            "relationshipReceiptId": "relationship-receipt-1",
            "appliedAt": "2026-01-01T00:00:00.000Z",
            "createdAt": "2026-01-01T00:00:00.000Z",
        })
    }

    /// Brings the first fact in.
    pub(crate) fn given_profile(scenario: &mut Scenario) {
        scenario.fact("mother-profile", "profile-1", 1, fact());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::samples::{fact, given_profile, mother};
    use super::*;
    use crate::domain::event::{Changed, PublicEvents as _};
    use crate::domain::scenario::{Scenario, Then, revision_of, with};

    fn profile(scenario: &Scenario) -> MotherProfile {
        scenario.state(&["profile-1"]).unwrap()
    }

    #[test]
    fn the_first_fact_gives_birth_to_the_profile_whatever_its_revision() {
        let mut scenario = Scenario::new();
        scenario.fact("mother-profile", "profile-1", 7, fact());
        let profile = profile(&scenario);
        assert_eq!(profile.fact_revision.number(), 7);
        assert_eq!(profile.profile_revision, Revision::FIRST);
        assert_eq!(profile.address_revision, Revision::FIRST);
        assert_eq!(profile.full_name.as_str(), "이 미나");
        assert_eq!(profile.birth_date.to_string(), "1990-05-01");
        assert_eq!(profile.address.postal_code.as_str(), "04524");
        assert_eq!(profile.created_at.to_string(), "2026-01-01T00:00:00.000Z");
        assert_eq!(profile.updated_at.to_string(), "2026-11-20T12:00:00.000Z");
        assert_eq!(profile.consent_receipts, []);
    }

    #[test]
    fn a_later_fact_advances_the_profile_once_when_it_changes_what_it_owns() {
        for (pointer, value) in [
            ("accountLifecycle", json!("withdrawn")),
            ("email", json!("other@example.org")),
            ("primaryPhoneNumber", json!("+821099999999")),
            ("verifiedEmail", Value::Null),
            ("verifiedEmail.receiptId", json!("email-receipt-2")),
            ("verifiedPhone", Value::Null),
            (
                "verifiedPhone.verifiedAt",
                json!("2026-01-04T00:00:00.000Z"),
            ),
            ("ownershipState", json!("repair_required")),
            ("relationshipReceiptId", Value::Null),
            ("appliedAt", Value::Null),
        ] {
            let mut scenario = Scenario::new();
            given_profile(&mut scenario);
            scenario.at("2026-11-21T00:00:00Z");
            scenario.fact(
                "mother-profile",
                "profile-1",
                5,
                with(&fact(), &[(pointer, value)]),
            );
            let profile = profile(&scenario);
            assert_eq!(profile.profile_revision.number(), 2, "{pointer}");
            assert_eq!(profile.address_revision.number(), 1, "{pointer}");
            assert_eq!(profile.fact_revision.number(), 5, "{pointer}");
            assert_eq!(
                profile.updated_at.to_string(),
                "2026-11-21T00:00:00.000Z",
                "{pointer}"
            );
        }
    }

    #[test]
    fn a_later_fact_cannot_change_what_is_the_mother_s() {
        let mut scenario = Scenario::new();
        given_profile(&mut scenario);
        let (_, before) = scenario
            .acting(mother())
            .read("read_mother_profile", &[])
            .unwrap();
        let mut facts = fact();
        facts["fullName"] = "박 미나".into();
        facts["birthDate"] = "1980-01-01".into();
        facts["address"]["detailAddress"] = "9층".into();
        facts["motherAccountId"] = "account-2".into();
        facts["createdAt"] = "2020-01-01T00:00:00Z".into();
        scenario
            .at("2026-11-21T00:00:00Z")
            .fact("mother-profile", "profile-1", 2, facts.clone());
        let (tag, after) = scenario.read("read_mother_profile", &[]).unwrap();
        assert_eq!((revision_of(&tag), after), ("1".to_owned(), before));
        // The fact itself is stored as it came in: the same one again is unchanged, an earlier one
        // is stale.
        assert_eq!(
            scenario
                .put_fact("mother-profile", "profile-1", 2, facts)
                .answered(),
            Value::from("unchanged")
        );
        assert_eq!(
            scenario
                .put_fact("mother-profile", "profile-1", 2, fact())
                .code(),
            "conflict"
        );
        assert_eq!(
            scenario
                .put_fact("mother-profile", "profile-1", 1, fact())
                .code(),
            "stale"
        );
    }

    #[test]
    fn a_later_fact_counts_in_the_answers_at_once() {
        let mut scenario = Scenario::new();
        given_profile(&mut scenario);
        scenario.fact(
            "mother-profile",
            "profile-1",
            2,
            with(&fact(), &[("verifiedPhone", Value::Null)]),
        );
        let (tag, read) = scenario
            .acting(mother())
            .read("read_mother_profile", &[])
            .unwrap();
        assert_eq!(revision_of(&tag), "2");
        assert_eq!(read["profileRevision"], 2);
        assert_eq!(read["addressRevision"], 1);
        assert_eq!(read["verifiedContacts"]["phone"], Value::Null);
        assert_eq!(read["profileCompleteness"], "incomplete");
        assert_eq!(
            read["allowedNextActions"],
            json!([
                "verify_contact",
                "complete_profile",
                "update_profile",
                "request_withdrawal"
            ])
        );
    }

    #[test]
    fn the_event_of_a_profile_fact_has_the_account_and_ownership_states() {
        let mut scenario = Scenario::new();
        given_profile(&mut scenario);
        let fact = MotherProfileFact {
            account_lifecycle: AccountLifecycle::Withdrawn,
            ownership_state: OwnershipState::RepairRequired,
            ..(*profile(&scenario).fact).clone()
        };
        let event = MotherProfileEvent::FactCameIn(Box::new(FactCameIn {
            id: "profile-1".into(),
            revision: Revision::new(2),
            fact: Arc::new(fact),
        }));
        let changed = Changed {
            is_fact: true,
            advances: true,
            path: &["profile-1"],
            revision: Revision::new(2),
        };
        let told = MotherProfile::public_events(&event, &changed);
        let told = &told.last().unwrap().fields;
        for field in [
            r#""accountLifecycle":"withdrawn""#,
            r#""ownershipState":"repair_required""#,
        ] {
            assert!(told.contains(field), "{told}");
        }
    }

    #[test]
    fn a_subject_has_one_profile_and_a_profile_one_owner_for_good() {
        let mut scenario = Scenario::new();
        given_profile(&mut scenario);
        let at_the_owner = |then: Then, code: &'static str| {
            let refusal = then.refusal();
            let faults = refusal.faults.iter();
            let faults: Vec<_> = faults
                .map(|fault| (fault.path.as_str(), fault.code.as_str()))
                .collect();
            assert_eq!(refusal.code, "conflict");
            assert_eq!(faults, [("facts.ownerSubject", code)]);
        };
        let second = scenario.put_fact("mother-profile", "profile-2", 1, fact());
        at_the_owner(second, "not_unique");
        let other = with(&fact(), &[("ownerSubject", "mother-2".into())]);
        let then = scenario.put_fact("mother-profile", "profile-1", 2, other.clone());
        at_the_owner(then, "not_allowed");
        assert_eq!(profile(&scenario).fact_revision.number(), 1);
        // The refused facts have not taken the owner's unique key.
        scenario.fact("mother-profile", "profile-2", 1, other);
        assert_eq!(
            scenario
                .put_fact("mother-profile", "profile-2", 2, fact())
                .code(),
            "conflict"
        );
    }

    #[test]
    fn a_profile_s_identifier_has_the_form_of_one() {
        let put = |id: &str| Scenario::new().put_fact("mother-profile", id, 1, fact());
        put("a").committed();
        for (id, fault) in [(" profile", "pattern"), (&"a".repeat(256), "too_long")] {
            assert_eq!(put(id).faults(), [("id".to_owned(), fault)]);
        }
    }

    #[test]
    fn the_standing_follows_from_contacts_consents_and_lifecycle() {
        use NextAction::{
            AcceptCurrentConsent, CompleteProfile, RequestWithdrawal, StartReservation,
            UpdateProfile, VerifyContact,
        };
        let mut scenario = Scenario::new();
        given_profile(&mut scenario);
        let whole = profile(&scenario);
        let standing = |verified: bool, consented: bool, lifecycle: AccountLifecycle| {
            let mut profile = whole.clone();
            let fact = Arc::make_mut(&mut profile.fact);
            fact.account_lifecycle = lifecycle;
            if !verified {
                fact.verified_email = None;
            }
            if consented {
                profile.consent_receipts.push(ConsentReceipt {
                    consent_receipt_id: Uuid::nil(),
                    policy_key: PolicyKey::from_trusted("privacy"),
                    version_label: VersionLabel::from_trusted("1"),
                    accepted_at: Timestamp::default(),
                });
            }
            let ProfileProgress {
                completeness,
                next_actions,
            } = ProfileProgress::of(&profile, &["privacy@1".into()]);
            (completeness == ProfileCompleteness::Complete, next_actions)
        };
        let active = AccountLifecycle::Active;
        for (verified, consented, complete, missing) in [
            (true, true, true, vec![]),
            (false, true, false, vec![VerifyContact, CompleteProfile]),
            (
                true,
                false,
                false,
                vec![AcceptCurrentConsent, CompleteProfile],
            ),
            (
                false,
                false,
                false,
                vec![VerifyContact, AcceptCurrentConsent, CompleteProfile],
            ),
        ] {
            let mut expected = missing.clone();
            expected.push(UpdateProfile);
            if complete {
                expected.push(StartReservation);
            }
            expected.push(RequestWithdrawal);
            assert_eq!(standing(verified, consented, active), (complete, expected));
            for lifecycle in [
                AccountLifecycle::WithdrawalPending,
                AccountLifecycle::Withdrawn,
            ] {
                assert_eq!(
                    standing(verified, consented, lifecycle),
                    (complete, missing.clone())
                );
            }
        }
        assert_eq!(
            ProfileProgress::of(&whole, &[]).completeness,
            ProfileCompleteness::Complete
        );
    }

    #[test]
    fn states_that_cannot_be_are_told() {
        let mut scenario = Scenario::new();
        given_profile(&mut scenario);
        let good = profile(&scenario);
        assert_eq!(good.validate(), Ok(()));
        let mut bad = good.clone();
        bad.address_revision = Revision::new(2);
        assert!(bad.validate().is_err());
        let mut bad = good;
        for _ in 0..2 {
            bad.consent_receipts.push(ConsentReceipt {
                consent_receipt_id: Uuid::nil(),
                policy_key: PolicyKey::from_trusted("privacy"),
                version_label: VersionLabel::from_trusted("1"),
                accepted_at: Timestamp::default(),
            });
        }
        assert!(bad.validate().is_err());
    }
}
