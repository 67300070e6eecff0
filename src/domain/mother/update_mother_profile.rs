//! A mother updates her own profile and address, and accepts published consent versions.
//!
//! Resource: the profile that the subject owns. Rejections, in the order tested: the actor is no
//! mother (403); she has no profile (404); her account is not active (403); an expected revision is
//! stale, no more consent versions may be accepted (409); and last, as invalid: a contact is not
//! verified, a consent version is not published. Each version not accepted before gets a receipt.
//!
//! A profile has two revisions, `profileRevision` and `addressRevision`: both are 1 when its first
//! fact has come in, whatever that fact's revision is. An update advances both by one, whatever it
//! changes. A later fact that changes what the mother's account says (its lifecycle, contacts,
//! verification, ownership) advances `profileRevision` alone. So read both before an update.

use super::state::{
    CONSENT_RECEIPTS_MAX, ConsentAccepted, MotherProfile, MotherProfileEvent, ProfileBody,
    ProfileUpdated,
};
use crate::base::actor::ActorKind;
use crate::base::address::Address;
use crate::base::digest::Digest;
use crate::base::json::{AtLeast, FaultCode, NonEmpty, Reader, refuse_repeats};
use crate::base::text::{FullName, PolicyKey, VersionLabel};
use crate::base::time::Date;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Commit, Context, Decision, Operation, mark_replayed, to_json};
use crate::domain::reference::kinds::consent_version::{
    ConsentVersionFact, required_at, version_id,
};
use crate::domain::reference::kinds::mother_profile::{AccountLifecycle, owner};
use crate::domain::rejection::{Declared, Rejection};
use crate::{json_object, module_doc, rejections};

json_object! {
    /// A consent version that is accepted.
    pub struct ConsentAcceptance {
        /// The policy.
        pub policy_key: PolicyKey = "policyKey",
        /// The version of the policy.
        pub version_label: VersionLabel = "versionLabel",
    }
}

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The profile's `profileRevision` as the mother saw it.
        pub expected_profile_revision: AtLeast<1> = "expectedProfileRevision",
        /// Its `addressRevision` as the mother saw it.
        pub expected_address_revision: AtLeast<1> = "expectedAddressRevision",
        /// Her name.
        pub full_name: FullName = "fullName" personal Name,
        /// Her day of birth: from 1900 on, and not in the future.
        pub birth_date: Date = "birthDate" personal Birth,
        /// Her address.
        pub address: Address = "address" personal Address,
        /// The consent versions that she accepts, each once.
        pub consent_acceptances: Option<NonEmpty<ConsentAcceptance>> = "consentAcceptances"
            items unique,
    }
    rules plausible(Fields)
}

fn plausible(at: &mut Reader, fields: &Fields<'_>) {
    let earliest = Date::new(1900, 1, 1).expect("a day that exists");
    if let Some(day) = fields.birth_date {
        if *day < earliest {
            at.fault_at::<()>("birthDate", FaultCode::OutOfRange);
        } else if *day > at.now().seoul_date() {
            at.untimely_at("birthDate", FaultCode::OutOfRange);
        }
    }
    if let Some(Some(NonEmpty(items))) = fields.consent_acceptances {
        let versions: Vec<_> = items
            .iter()
            .map(|item| (&item.policy_key, &item.version_label))
            .collect();
        refuse_repeats(&versions, "consentAcceptances", at);
    }
}

rejections! {
    /// Why a profile is not updated.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a mother may update a mother's profile.",
        /// She has no profile.
        ProfileNotFound = Missing "mother_profile_not_found" []
            "There is no profile of your own.",
        /// Authority by resource.
        AccountNotActive = Forbidden "permission_denied" []
            "The profile of an account that is not active cannot be updated.",
        /// A revision is stale; the fields are named where it is found.
        RevisionStale = Conflict "revision_stale" ["expectedProfileRevision", "expectedAddressRevision"]
            "The expected revision is not the current one: read again, then decide.",
        /// As many consent versions as may be were accepted.
        ConsentReceiptsFull = Conflict "consent_receipts_full" ["consentAcceptances"]
            "A profile has at most 1000 consent receipts.",
        /// A contact is not verified.
        ContactUnverified = Invalid "contact_unverified" []
            "The e-mail address and the phone number must be verified first.",
        /// A consent version is unknown, or published later.
        ConsentVersionNotPublished = Invalid "consent_version_not_published" ["consentAcceptances"]
            "A consent version that is accepted is not published.",
    }
}

/// The operation.
pub struct UpdateMotherProfile;

impl Operation for UpdateMotherProfile {
    type Command = Command;
    type Resource = MotherProfile;
    type Answer = ProfileBody<'static>;

    const DOC: &'static str = module_doc!("update_mother_profile.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::Mother,
        body: r#"{
  "expectedProfileRevision": 1,
  "expectedAddressRevision": 1,
  "fullName": "김하늘",
  "birthDate": "1992-03-14",
  "address": {"postalCode": "06236", "roadAddress": "서울특별시 강남구 테헤란로 1", "detailAddress": "2층"},
  "consentAcceptances": [{"policyKey": "privacy", "versionLabel": "2025-01"}]
}"#,
        changed_value: ("/fullName", r#""김바다""#),
        needs_facts: &[("mother-profile", "mother-profile-1")],
        unique_ids: &["mother-1", "mother-profile-1"],
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        use std::sync::Arc;

        use super::state::ConsentReceipt;
        const PROFILE: &str = "mother-profile-1";
        Ladder::of(&[ActorKind::Mother])
            .then(Reason::NotPermitted, |case| {
                case.by(ActorKind::FamilyMember)
            })
            .then(Reason::ProfileNotFound, Case::by_a_stranger)
            .then(Reason::AccountNotActive, |case| {
                case.alter(PROFILE, |profile: &mut MotherProfile| {
                    let fact = Arc::make_mut(&mut profile.fact);
                    fact.account_lifecycle = AccountLifecycle::Withdrawn;
                })
            })
            .then(
                Rejection::from(Reason::RevisionStale).at(&["expectedProfileRevision"]),
                |case| case.set("/expectedProfileRevision", 9),
            )
            .then(Reason::ConsentReceiptsFull, |case| {
                case.alter(PROFILE, |profile: &mut MotherProfile| {
                    let receipt = |_| ConsentReceipt {
                        consent_receipt_id: uuid::Uuid::nil(),
                        policy_key: PolicyKey::from_trusted("other"),
                        version_label: VersionLabel::from_trusted("1"),
                        accepted_at: profile.created_at,
                    };
                    profile.consent_receipts = (0..CONSENT_RECEIPTS_MAX).map(receipt).collect();
                })
            })
            .then(Reason::ContactUnverified, |case| {
                case.alter(PROFILE, |profile: &mut MotherProfile| {
                    Arc::make_mut(&mut profile.fact).verified_phone = None;
                })
            })
            .then(Reason::ConsentVersionNotPublished, |case| {
                case.set("/consentAcceptances/0/versionLabel", "2099-01")
            })
    }

    fn target(_: &Command, context: &Context<'_>) -> Option<Digest> {
        context.view.holder(owner(&context.actor.subject))
    }

    fn decide(
        state: Option<&MotherProfile>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<MotherProfile>, Rejection> {
        if context.actor.kind != ActorKind::Mother {
            return Err(Reason::NotPermitted.into());
        }
        let Some(profile) = state else {
            return Err(Reason::ProfileNotFound.into());
        };
        if profile.fact.account_lifecycle != AccountLifecycle::Active {
            return Err(Reason::AccountNotActive.into());
        }
        let stale = stale_members(profile, command);
        if !stale.is_empty() {
            return Err(Rejection::from(Reason::RevisionStale).at(&stale));
        }
        let accepted = command.consent_acceptances.as_ref();
        let accepted = accepted.map_or(&[][..], |NonEmpty(items)| items);
        let first_accepted: Vec<_> = accepted
            .iter()
            .filter(|item| !profile.has_accepted(&item.policy_key, &item.version_label))
            .collect();
        if profile.consent_receipts.len() + first_accepted.len() > CONSENT_RECEIPTS_MAX {
            return Err(Reason::ConsentReceiptsFull.into());
        }
        if !profile.fact.has_verified_contacts() {
            return Err(Reason::ContactUnverified.into());
        }
        if !accepted.iter().all(|item| is_published(item, context)) {
            return Err(Reason::ConsentVersionNotPublished.into());
        }
        let event = MotherProfileEvent::ProfileUpdated(Box::new(ProfileUpdated {
            full_name: command.full_name.clone(),
            birth_date: command.birth_date,
            address: command.address.clone(),
            accepted: first_accepted
                .into_iter()
                .map(|item| ConsentAccepted {
                    consent_receipt_id: context.ids.id(),
                    policy_key: item.policy_key.clone(),
                    version_label: item.version_label.clone(),
                })
                .collect(),
        }));
        let commit = Commit::new(state, event, context.at);
        let required = required_at(&context.view, context.now);
        let body = to_json(&ProfileBody::new(&commit.next, &required));
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::base::time::Timestamp;
    use crate::domain::mother::state::samples::{fact, given_profile, mother};
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, actor, assert_conflict, revision_of, with, without};

    const UPDATE: &str = "update_mother_profile";

    fn body() -> Value {
        json!({
            "expectedProfileRevision": 1,
            "expectedAddressRevision": 1,
            "fullName": "김 미나",
            "birthDate": "1991-02-28",
            "address": {
                "postalCode": "06236",
                "roadAddress": "서울 강남구 테헤란로 1",
                "detailAddress": "2층",
            },
            "consentAcceptances": [{"policyKey": "privacy", "versionLabel": "2026-01"}],
        })
    }

    fn consent(scenario: &mut Scenario, id: &str, published_at: &str, required: bool) {
        let facts = json!({"publishedAt": published_at, "required": required, "current": true});
        scenario.fact("consent-version", id, 1, facts);
    }

    /// A mother with a profile, and one required consent version.
    fn ready() -> Scenario {
        let mut scenario = Scenario::new();
        given_profile(&mut scenario);
        consent(
            &mut scenario,
            "privacy@2026-01",
            "2026-01-01T00:00:00Z",
            true,
        );
        scenario.at("2026-11-20T13:00:00Z").acting(mother());
        scenario
    }

    /// Brings the next fact of the profile in, with `pointer` replaced.
    fn change(scenario: &mut Scenario, pointer: &str, value: Value) {
        let mut facts = fact();
        *facts.pointer_mut(pointer).unwrap() = value;
        scenario.fact("mother-profile", "profile-1", 2, facts);
    }

    /// Asserts a refusal that leaves the profile as it is.
    #[track_caller]
    fn refused(scenario: &mut Scenario, body: &Value) -> Rejection {
        let before = scenario.state::<MotherProfile>(&["profile-1"]);
        let refusal = scenario.when(UPDATE, &[], body).refusal();
        assert_eq!(scenario.state::<MotherProfile>(&["profile-1"]), before);
        refusal
    }

    fn class_and_code(refusal: &Rejection) -> (Class, &'static str) {
        (refusal.class, refusal.code)
    }

    #[test]
    fn a_profile_has_a_thousand_consent_receipts_at_most() {
        let mut scenario = ready();
        let version = |number: i64| format!("2027-{number:04}");
        let accepted = |from: i64, to: i64| -> Value {
            let versions = (from..to)
                .map(|number| json!({"policyKey": "policy", "versionLabel": version(number)}));
            versions.collect::<Vec<_>>().into()
        };
        for number in 0..1_001 {
            let id = format!("policy@{}", version(number));
            consent(&mut scenario, &id, "2026-01-01T00:00:00Z", false);
        }
        scenario.acting(mother());
        let ask = |scenario: &mut Scenario, revision: i64, versions: Value| {
            let mut body = body();
            body["expectedProfileRevision"] = json!(revision);
            body["expectedAddressRevision"] = json!(revision);
            body["consentAcceptances"] = versions;
            scenario.when(UPDATE, &[], &body)
        };
        let all = ask(&mut scenario, 1, accepted(0, 1_001));
        assert_conflict(all, "consent_receipts_full", &["consentAcceptances"]);
        let most = ask(&mut scenario, 1, accepted(0, 1_000)).committed();
        assert_eq!(most["consentReceipts"].as_array().unwrap().len(), 1_000);
        println!("with a thousand consent receipts: {:?}", scenario.cost);
        let one_more = ask(&mut scenario, 2, accepted(1_000, 1_001));
        assert_conflict(one_more, "consent_receipts_full", &["consentAcceptances"]);
        // What was accepted before takes no further place.
        ask(&mut scenario, 2, accepted(990, 1_000)).committed();
    }

    #[test]
    fn profile_and_address_are_replaced_and_the_consent_gets_a_receipt() {
        let mut scenario = ready();
        let answer = scenario.when(UPDATE, &[], &body()).committed();
        let receipt_id = answer["consentReceipts"][0]["consentReceiptId"]
            .as_str()
            .unwrap();
        assert_eq!(
            uuid::Uuid::parse_str(receipt_id).unwrap().get_version_num(),
            7
        );
        assert_eq!(
            answer,
            json!({
                "motherAccountId": "account-1",
                "motherProfileId": "profile-1",
                "accountLifecycle": "active",
                "profileCompleteness": "complete",
                "profileRevision": 2,
                "addressRevision": 2,
                "fullName": "김 미나",
                "birthDate": "1991-02-28",
                "email": "mina@example.org",
                "primaryPhoneNumber": "+821012345678",
                "address": {
                    "postalCode": "06236",
                    "roadAddress": "서울 강남구 테헤란로 1",
                    "detailAddress": "2층",
                },
                "verifiedContacts": {
                    "email": {
                        "receiptId": "email-receipt-1",
                        "normalizedValue": "mina@example.org",
                        "verifiedAt": "2026-01-02T00:00:00.000Z",
                        "verificationAuthority": "identity_provider_auth",
                    },
                    "phone": {
                        "receiptId": "phone-receipt-1",
                        "normalizedValue": "+821012345678",
                        "verifiedAt": "2026-01-03T00:00:00.000Z",
                        "verificationAuthority": "identity_provider_auth",
                    },
                },
                "consentReceipts": [{
                    "consentReceiptId": receipt_id,
                    "policyKey": "privacy",
                    "versionLabel": "2026-01",
                    "acceptedAt": "2026-11-20T13:00:00.000Z",
                    "captureSource": "explicit_mother_action",
                }],
                "ownershipRelationship": {
                    "state": "applied",
                    "relationshipReceiptId": "relationship-receipt-1",
                    "appliedAt": "2026-01-01T00:00:00.000Z",
                },
                "allowedNextActions": ["update_profile", "start_reservation", "request_withdrawal"],
                "createdAt": "2026-01-01T00:00:00.000Z",
                "updatedAt": "2026-11-20T13:00:00.000Z",
                "idempotentReplay": false,
            })
        );
        assert!(scenario.outbox.is_empty());
        let (tag, read) = scenario.read("read_mother_profile", &[]).unwrap();
        assert_eq!((revision_of(&tag), read), ("2".to_owned(), answer));
    }

    #[test]
    fn the_fact_s_revision_is_left_alone() {
        let mut scenario = ready();
        scenario.when(UPDATE, &[], &body()).committed();
        let profile = scenario.state::<MotherProfile>(&["profile-1"]).unwrap();
        assert_eq!(profile.fact_revision.number(), 1);
        assert_eq!(serde_json::to_value(&*profile.fact).unwrap(), fact());
    }

    #[test]
    fn an_accepted_version_gets_no_second_receipt_and_others_follow_it() {
        let mut scenario = ready();
        consent(&mut scenario, "marketing@1", "2026-11-20T13:00:00Z", false);
        scenario
            .acting(mother())
            .when(UPDATE, &[], &body())
            .committed();
        let mut second = body();
        second["expectedProfileRevision"] = 2.into();
        second["expectedAddressRevision"] = 2.into();
        second["consentAcceptances"] = json!([
            {"policyKey": "marketing", "versionLabel": "1"},
            {"policyKey": "privacy", "versionLabel": "2026-01"},
        ]);
        scenario.at("2026-11-21T00:00:00Z");
        let answer = scenario.when(UPDATE, &[], &second).committed();
        let receipts: Vec<_> = answer["consentReceipts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|receipt| {
                (
                    receipt["policyKey"].as_str().unwrap(),
                    receipt["acceptedAt"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            receipts,
            [
                ("privacy", "2026-11-20T13:00:00.000Z"),
                ("marketing", "2026-11-21T00:00:00.000Z")
            ]
        );
        assert_ne!(
            answer["consentReceipts"][0]["consentReceiptId"],
            answer["consentReceipts"][1]["consentReceiptId"]
        );
        assert_eq!(
            (&answer["profileRevision"], &answer["addressRevision"]),
            (&json!(3), &json!(3))
        );
    }

    #[test]
    fn without_required_consent_a_profile_is_updated_but_stays_incomplete() {
        for body in [
            without(&body(), "consentAcceptances"),
            with(&body(), &[("consentAcceptances", Value::Null)]),
        ] {
            let answer = ready().when(UPDATE, &[], &body).committed();
            assert_eq!(answer["profileCompleteness"], "incomplete");
            assert_eq!(answer["consentReceipts"], json!([]));
            assert_eq!(
                answer["allowedNextActions"],
                json!([
                    "accept_current_consent",
                    "complete_profile",
                    "update_profile",
                    "request_withdrawal"
                ])
            );
        }
    }

    #[test]
    fn a_mother_without_a_profile_of_her_own_finds_none() {
        let mut scenario = ready();
        // Neither the profile's identifier nor the account is the owner's subject.
        for subject in ["mother-2", "profile-1", "account-1"] {
            scenario.acting(actor(ActorKind::Mother, subject));
            let refusal = refused(
                &mut scenario,
                &with(&body(), &[("expectedProfileRevision", 9.into())]),
            );
            assert_eq!(
                class_and_code(&refusal),
                (Class::Missing, "mother_profile_not_found")
            );
        }
        // The token's profile does not matter, the subject does.
        scenario.acting(Actor {
            actor_profile_id: Some("another".into()),
            ..mother()
        });
        scenario.when(UPDATE, &[], &body()).committed();
    }

    #[test]
    fn updating_an_inactive_account_is_forbidden_even_at_a_stale_revision() {
        for lifecycle in ["withdrawal_pending", "withdrawn"] {
            let mut scenario = ready();
            change(&mut scenario, "/accountLifecycle", lifecycle.into());
            for expected in [1, 2] {
                let refusal = refused(
                    &mut scenario,
                    &with(&body(), &[("expectedProfileRevision", expected.into())]),
                );
                assert_eq!(
                    class_and_code(&refusal),
                    (Class::Forbidden, "permission_denied")
                );
            }
        }
    }

    #[test]
    fn either_stale_revision_is_a_conflict_that_names_it() {
        let mut scenario = ready();
        change(&mut scenario, "/verifiedEmail", Value::Null);
        // The fact has moved the profile to 2, the address is at 1.
        for (profile, address, members) in [
            (1, 1, &["expectedProfileRevision"][..]),
            (3, 1, &["expectedProfileRevision"]),
            (2, 2, &["expectedAddressRevision"]),
            (
                1,
                2,
                &["expectedProfileRevision", "expectedAddressRevision"],
            ),
        ] {
            let mut body = body();
            body["expectedProfileRevision"] = profile.into();
            body["expectedAddressRevision"] = address.into();
            let refusal = refused(&mut scenario, &body);
            assert_eq!(
                class_and_code(&refusal),
                (Class::Conflict, "revision_stale")
            );
            assert_eq!(refusal.conflicting, members);
        }
    }

    #[test]
    fn contacts_must_be_verified_and_be_the_profile_s_own() {
        for (pointer, value) in [
            ("/verifiedEmail", Value::Null),
            ("/verifiedPhone", Value::Null),
            ("/verifiedEmail/normalizedValue", "other@example.org".into()),
            ("/verifiedPhone/normalizedValue", "+821012345679".into()),
            ("/email", "other@example.org".into()),
            ("/primaryPhoneNumber", "+821012345679".into()),
        ] {
            let mut scenario = ready();
            change(&mut scenario, pointer, value);
            let mut body = body();
            body["expectedProfileRevision"] = 2.into();
            // An unpublished version comes after it.
            body["consentAcceptances"][0]["versionLabel"] = "unknown".into();
            let refusal = refused(&mut scenario, &body);
            assert_eq!(
                class_and_code(&refusal),
                (Class::Invalid, "contact_unverified"),
                "{pointer}"
            );
        }
    }

    #[test]
    fn an_address_verified_in_its_normal_form_is_verified() {
        let mut scenario = ready();
        change(&mut scenario, "/email", "Mina@Example.org".into());
        scenario
            .when(
                UPDATE,
                &[],
                &with(&body(), &[("expectedProfileRevision", 2.into())]),
            )
            .committed();
    }

    #[test]
    fn each_accepted_version_must_be_published_by_now() {
        let mut scenario = ready();
        consent(&mut scenario, "terms@1", "2026-11-20T13:00:00.001Z", true);
        for version in [
            json!({"policyKey": "terms", "versionLabel": "1"}),
            json!({"policyKey": "terms", "versionLabel": "2"}),
            json!({"policyKey": "unknown", "versionLabel": "2026-01"}),
        ] {
            let mut body = body();
            body["consentAcceptances"]
                .as_array_mut()
                .unwrap()
                .push(version);
            let refusal = refused(&mut scenario, &body);
            assert_eq!(
                class_and_code(&refusal),
                (Class::Invalid, "consent_version_not_published")
            );
        }
        scenario.at("2026-11-20T13:00:00.001Z");
        let body = with(
            &body(),
            &[(
                "consentAcceptances",
                json!([{"policyKey": "terms", "versionLabel": "1"}]),
            )],
        );
        scenario.when(UPDATE, &[], &body).committed();
    }

    #[test]
    fn a_published_consent_version_may_be_accepted_though_not_current() {
        let mut scenario = ready();
        let facts =
            json!({"publishedAt": "2025-01-01T00:00:00Z", "required": false, "current": false});
        scenario.fact("consent-version", "privacy@2025-01", 1, facts);
        let body = with(
            &body(),
            &[("consentAcceptances.0.versionLabel", "2025-01".into())],
        );
        let answer = scenario.when(UPDATE, &[], &body).committed();
        assert_eq!(answer["profileCompleteness"], "incomplete");
        assert_eq!(answer["consentReceipts"][0]["versionLabel"], "2025-01");
    }

    #[test]
    fn a_repeated_consent_is_a_fault_of_the_later_item() {
        let item = |version: &str| json!({"policyKey": "privacy", "versionLabel": version});
        let body = with(
            &body(),
            &[(
                "consentAcceptances",
                json!([item("1"), item("2"), item("1"), item("2")]),
            )],
        );
        assert_eq!(
            ready().when(UPDATE, &[], &body).faults(),
            [
                ("consentAcceptances[2]".to_owned(), "not_unique"),
                ("consentAcceptances[3]".to_owned(), "not_unique"),
            ]
        );
    }

    #[test]
    fn a_day_of_birth_is_from_1900_on_and_not_after_today_in_seoul() {
        let outcome = |now: &str, day: &str| {
            let mut scenario = ready();
            scenario.at(now);
            scenario.when(UPDATE, &[], &with(&body(), &[("birthDate", day.into())]))
        };
        for (now, day) in [
            ("2026-11-20T13:00:00Z", "1900-01-01"),
            ("2026-11-20T14:59:59.999Z", "2026-11-20"),
            ("2026-11-20T15:00:00Z", "2026-11-21"),
        ] {
            assert_eq!(outcome(now, day).committed()["birthDate"], day);
        }
        for (now, day) in [
            ("2026-11-20T13:00:00Z", "1899-12-31"),
            ("2026-11-20T14:59:59.999Z", "2026-11-21"),
            ("2026-11-20T15:00:00Z", "2026-11-22"),
        ] {
            assert_eq!(
                outcome(now, day).faults(),
                [("birthDate".to_owned(), "out_of_range")]
            );
        }
    }

    #[test]
    fn the_required_consents_are_in_the_decisions_read_set() {
        // The engine checks it again before the commit: a consent version that is put in force
        // meanwhile must not go unseen.
        let scenario = ready();
        let now = Timestamp::parse("2026-11-20T13:00:00Z").unwrap();
        let lists = scenario.view(|view| {
            assert_eq!(required_at(view, now).len(), 1);
            view.secondary_seen()
        });
        assert_eq!(lists.len(), 1);
        assert!(lists[0].1 > 0, "it was touched by what stands in it");
    }
}
