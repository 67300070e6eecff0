//! A mother updates her own profile and address, and accepts published consent versions.
//!
//! Resource: the profile that the subject owns. Rejections, in the order tested: the actor is no
//! mother (403); she has no profile (404); her account is not active (403); an expected revision
//! is stale, as many consent versions as may be were accepted (409); and last, as invalid: a contact is not verified, a consent version is not
//! published. Profile and address advance by one; each version not accepted before gets a
//! receipt.

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
use crate::domain::operation::{Commit, Context, Decision, Operation, mark_replayed, to_json};
use crate::domain::reference::consent_version::{ConsentVersionFact, required_at, version_id};
use crate::domain::reference::mother_profile::{AccountLifecycle, owner};
use crate::domain::rejection::{Class, Rejection};
use crate::{json_object, rejections};

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
        /// A revision is stale; the members are named where it is found.
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
pub struct UpdateProfile;

impl Operation for UpdateProfile {
    type Command = Command;
    type Resource = MotherProfile;

    const REJECTIONS: &'static [(Class, &'static str)] = Reason::TABLE;

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
        other: ("/fullName", r#""김바다""#),
        rests_on: &[("mother-profile", "mother-profile-1")],
        own: &["mother-1", "mother-profile-1"],
        ..Example::NEW
    };

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
            return Err(Rejection::revision_stale(&stale));
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
    use crate::base::time::Instant;
    use crate::catalogue::OPERATIONS;
    use crate::domain::mother::state::samples::{fact, given_profile, mother};
    use crate::domain::scenario::{Scenario, actor, assert_conflict, revision_of};

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

    /// The body with the member at `pointer` replaced.
    fn with(pointer: &str, value: Value) -> Value {
        let mut body = body();
        *body.pointer_mut(pointer).unwrap() = value;
        body
    }

    /// The body without the member.
    fn without(member: &str) -> Value {
        let mut body = body();
        body.as_object_mut().unwrap().remove(member).unwrap();
        body
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
    fn a_replay_shows_the_first_answer_with_its_last_member_turned_round() {
        let row = OPERATIONS.iter().find(|row| row.name == UPDATE).unwrap();
        let profile = ready().state::<MotherProfile>(&["profile-1"]).unwrap();
        let shown = to_json(&ProfileBody::new(&profile, &[]));
        let replayed: Value =
            serde_json::from_slice(&row.operation.replayed(shown.clone())).unwrap();
        let mut first: Value = serde_json::from_slice(&shown).unwrap();
        assert_eq!(first["idempotentReplay"], false);
        first["idempotentReplay"] = true.into();
        assert_eq!(replayed, first);
    }

    #[test]
    fn the_fact_s_revision_is_left_alone() {
        let mut scenario = ready();
        scenario.when(UPDATE, &[], &body()).committed();
        let profile = scenario.state::<MotherProfile>(&["profile-1"]).unwrap();
        assert_eq!(profile.fact_revision.number(), 1);
        assert_eq!(serde_json::to_value(&profile.fact).unwrap(), fact());
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
    fn without_the_required_consent_the_profile_is_updated_and_stays_incomplete() {
        for body in [
            without("consentAcceptances"),
            with("/consentAcceptances", Value::Null),
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
    fn only_a_mother_may_whatever_else_is_wrong() {
        let mut scenario = ready();
        for kind in ActorKind::ALL
            .into_iter()
            .filter(|kind| *kind != ActorKind::Mother)
        {
            // The same subject with another kind, so that the profile would be found.
            scenario.acting(actor(kind, "mother-1"));
            let stale = with("/expectedProfileRevision", 9.into());
            let refusal = refused(&mut scenario, &stale);
            assert_eq!(
                class_and_code(&refusal),
                (Class::Forbidden, "permission_denied"),
                "{kind}"
            );
            scenario.acting(actor(kind, "somebody"));
            let refusal = refused(&mut scenario, &body());
            assert_eq!(
                class_and_code(&refusal),
                (Class::Forbidden, "permission_denied"),
                "{kind}"
            );
        }
    }

    #[test]
    fn a_mother_without_a_profile_of_her_own_finds_none() {
        let mut scenario = ready();
        // Neither the profile's identifier nor the account is the owner's subject.
        for subject in ["mother-2", "profile-1", "account-1"] {
            scenario.acting(actor(ActorKind::Mother, subject));
            let refusal = refused(&mut scenario, &with("/expectedProfileRevision", 9.into()));
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
    fn an_account_that_is_not_active_cannot_be_updated_even_at_a_stale_revision() {
        for lifecycle in ["withdrawal_pending", "withdrawn"] {
            let mut scenario = ready();
            change(&mut scenario, "/accountLifecycle", lifecycle.into());
            for expected in [1, 2] {
                let refusal = refused(
                    &mut scenario,
                    &with("/expectedProfileRevision", expected.into()),
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
        // The fact has moved the profile to 2, the address stands at 1.
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
            .when(UPDATE, &[], &with("/expectedProfileRevision", 2.into()))
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
            "/consentAcceptances",
            json!([{"policyKey": "terms", "versionLabel": "1"}]),
        );
        scenario.when(UPDATE, &[], &body).committed();
    }

    #[test]
    fn a_version_that_is_not_current_may_be_accepted_as_long_as_it_is_published() {
        let mut scenario = ready();
        let facts =
            json!({"publishedAt": "2025-01-01T00:00:00Z", "required": false, "current": false});
        scenario.fact("consent-version", "privacy@2025-01", 1, facts);
        let body = with("/consentAcceptances/0/versionLabel", "2025-01".into());
        let answer = scenario.when(UPDATE, &[], &body).committed();
        assert_eq!(answer["profileCompleteness"], "incomplete");
        assert_eq!(answer["consentReceipts"][0]["versionLabel"], "2025-01");
    }

    #[test]
    fn the_rejections_stand_in_their_order() {
        assert_eq!(
            UpdateProfile::REJECTIONS,
            [
                (Class::Forbidden, "permission_denied"),
                (Class::Missing, "mother_profile_not_found"),
                (Class::Forbidden, "permission_denied"),
                (Class::Conflict, "revision_stale"),
                (Class::Conflict, "consent_receipts_full"),
                (Class::Invalid, "contact_unverified"),
                (Class::Invalid, "consent_version_not_published"),
            ]
        );
    }

    #[track_caller]
    fn faulty(body: &Value, path: &str, code: &str) {
        let faults = ready().when(UPDATE, &[], body).faults();
        assert_eq!(faults, [(path.to_owned(), code)], "{body}");
    }

    #[test]
    fn each_member_is_bounded_and_all_but_the_consents_are_required() {
        for member in [
            "expectedProfileRevision",
            "expectedAddressRevision",
            "fullName",
            "birthDate",
            "address",
        ] {
            faulty(&without(member), member, "required");
            faulty(
                &with(&format!("/{member}"), Value::Null),
                member,
                "wrong_type",
            );
        }
        for (pointer, value, path, code) in [
            (
                "/expectedProfileRevision",
                json!(0),
                "expectedProfileRevision",
                "out_of_range",
            ),
            (
                "/expectedAddressRevision",
                json!(-1),
                "expectedAddressRevision",
                "out_of_range",
            ),
            (
                "/expectedProfileRevision",
                json!("1"),
                "expectedProfileRevision",
                "wrong_type",
            ),
            ("/fullName", json!(""), "fullName", "too_short"),
            ("/fullName", json!(" \u{3000}"), "fullName", "blank"),
            ("/fullName", json!("가".repeat(101)), "fullName", "too_long"),
            ("/birthDate", json!("1991-02-29"), "birthDate", "pattern"),
            ("/birthDate", json!(""), "birthDate", "too_short"),
            (
                "/address/postalCode",
                json!("0623"),
                "address.postalCode",
                "pattern",
            ),
            (
                "/address/postalCode",
                json!("062366"),
                "address.postalCode",
                "pattern",
            ),
            (
                "/address/roadAddress",
                json!("\t"),
                "address.roadAddress",
                "blank",
            ),
            (
                "/address/roadAddress",
                json!("가".repeat(301)),
                "address.roadAddress",
                "too_long",
            ),
            (
                "/address/detailAddress",
                json!(""),
                "address.detailAddress",
                "too_short",
            ),
            (
                "/address/detailAddress",
                Value::Null,
                "address.detailAddress",
                "wrong_type",
            ),
            (
                "/consentAcceptances",
                json!([]),
                "consentAcceptances",
                "too_short",
            ),
            (
                "/consentAcceptances",
                json!({}),
                "consentAcceptances",
                "wrong_type",
            ),
            (
                "/consentAcceptances/0",
                json!("privacy@1"),
                "consentAcceptances[0]",
                "wrong_type",
            ),
            (
                "/consentAcceptances/0/policyKey",
                json!("1privacy"),
                "consentAcceptances[0].policyKey",
                "pattern",
            ),
            (
                "/consentAcceptances/0/policyKey",
                json!("a".repeat(121)),
                "consentAcceptances[0].policyKey",
                "too_long",
            ),
            (
                "/consentAcceptances/0/versionLabel",
                json!("V1"),
                "consentAcceptances[0].versionLabel",
                "pattern",
            ),
            (
                "/consentAcceptances/0/versionLabel",
                json!("1".repeat(121)),
                "consentAcceptances[0].versionLabel",
                "too_long",
            ),
        ] {
            faulty(&with(pointer, value), path, code);
        }
        for (pointer, value) in [
            ("/fullName", json!("가".repeat(100))),
            ("/address/roadAddress", json!("가".repeat(300))),
            ("/address/detailAddress", json!("가".repeat(300))),
        ] {
            ready().when(UPDATE, &[], &with(pointer, value)).committed();
        }
    }

    #[test]
    fn a_repeated_consent_is_a_fault_of_the_later_item() {
        let item = |version: &str| json!({"policyKey": "privacy", "versionLabel": version});
        let body = with(
            "/consentAcceptances",
            json!([item("1"), item("2"), item("1"), item("2")]),
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
    fn all_faults_of_a_body_are_told_at_once() {
        let body = json!({
            "expectedProfileRevision": 0,
            "birthDate": "1899-12-31",
            "address": {"postalCode": "1", "roadAddress": "r", "detailAddress": "d", "country": "KR"},
            "consentAcceptances": [],
            "email": "mina@example.org",
        });
        let mut faults = ready().when(UPDATE, &[], &body).faults();
        faults.sort();
        assert_eq!(
            faults,
            [
                ("address.country", "unknown_field"),
                ("address.postalCode", "pattern"),
                ("birthDate", "out_of_range"),
                ("consentAcceptances", "too_short"),
                ("email", "unknown_field"),
                ("expectedAddressRevision", "required"),
                ("expectedProfileRevision", "out_of_range"),
                ("fullName", "required"),
            ]
            .map(|(path, code)| (path.to_owned(), code))
        );
    }

    #[test]
    fn a_day_of_birth_is_from_1900_on_and_not_after_today_in_seoul() {
        let outcome = |now: &str, day: &str| {
            let mut scenario = ready();
            scenario.at(now);
            scenario.when(UPDATE, &[], &with("/birthDate", day.into()))
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
    fn the_fingerprint_of_a_command_never_changes() {
        let scenario = ready();
        let fingerprint = |body: &Value| scenario.fingerprint(UPDATE, &[], body).to_hex();
        assert_eq!(
            fingerprint(&body()),
            "060cbf3b3a121e260dc2be84aeabadcbf6e193ba97e6d290875c170bbe72c758"
        );
        assert_eq!(
            fingerprint(&without("consentAcceptances")),
            fingerprint(&with("/consentAcceptances", Value::Null))
        );
        for (pointer, value) in [
            ("/expectedProfileRevision", json!(2)),
            ("/expectedAddressRevision", json!(2)),
            ("/fullName", json!("김 미나 ")),
            ("/birthDate", json!("1991-02-27")),
            ("/address/detailAddress", json!("3층")),
            ("/consentAcceptances", Value::Null),
        ] {
            assert_ne!(
                fingerprint(&with(pointer, value)),
                fingerprint(&body()),
                "{pointer}"
            );
        }
    }

    #[test]
    fn what_the_decision_rests_on_is_remembered() {
        // The engine checks it again before the commit: a consent version that is put in force
        // meanwhile must not go unseen.
        let scenario = ready();
        let now = Instant::parse("2026-11-20T13:00:00Z").unwrap();
        let lists = scenario.view(|view| {
            assert_eq!(required_at(view, now).len(), 1);
            view.secondary_seen()
        });
        assert_eq!(lists.len(), 1);
        assert!(lists[0].1 > 0, "it was touched by what stands in it");
    }
}
