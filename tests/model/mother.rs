//! The mother's own profile, as the service's description has it.

use carebook::base::actor::ActorKind;
use serde_json::{Value, json};

use super::commands::{Command, Who};
use super::expected::{Answer, Expected, and_digest};
use super::state::{Faults, Model, Profile, millis, moment, n, s};

const OWNED: [&str; 8] = [
    "accountLifecycle",
    "email",
    "primaryPhoneNumber",
    "verifiedEmail",
    "verifiedPhone",
    "ownershipState",
    "relationshipReceiptId",
    "appliedAt",
];

impl Model {
    /// A fact about a profile was applied.
    pub fn profile_fact(&mut self, id: &str, facts: &Value) {
        let owned: Value = OWNED
            .iter()
            .map(|member| ((*member).to_owned(), facts[*member].clone()))
            .collect();
        let now = self.now;
        match self.profiles.iter_mut().find(|profile| profile.id == id) {
            Some(profile) if profile.owned == owned => {}
            Some(profile) => {
                profile.owned = owned;
                profile.revision += 1;
                profile.updated_at = now;
            }
            None => self.profiles.push(Profile {
                id: id.to_owned(),
                owner: s(facts, "ownerSubject").to_owned(),
                revision: 1,
                address_revision: 1,
                own: json!({
                    "motherAccountId": facts["motherAccountId"],
                    "fullName": facts["fullName"],
                    "birthDate": facts["birthDate"],
                    "address": facts["address"],
                    "createdAt": facts["createdAt"],
                }),
                owned,
                receipts: Vec::new(),
                updated_at: now,
            }),
        }
    }

    pub fn profile_of(&self, subject: &str) -> Option<&Profile> {
        self.profiles
            .iter()
            .find(|profile| profile.owner == subject)
    }

    fn contacts_verified(profile: &Profile) -> (bool, bool) {
        let owned = &profile.owned;
        let verified = |contact: &str, own: &str| {
            let value = owned[contact]["normalizedValue"].as_str();
            value.zip(owned[own].as_str())
        };
        // Letters of an e-mail address count the same in either case, those of ASCII that is.
        let email = verified("verifiedEmail", "email")
            .is_some_and(|(value, own)| value.eq_ignore_ascii_case(own));
        let phone = verified("verifiedPhone", "primaryPhoneNumber")
            .is_some_and(|(value, own)| value == own);
        (email, phone)
    }

    /// The profile as it reads now.
    fn profile_view(&self, profile: &Profile) -> Value {
        let owned = &profile.owned;
        let contact = |member: &str| {
            let contact = &owned[member];
            if contact.is_null() {
                return Value::Null;
            }
            json!({
                "receiptId": contact["receiptId"],
                "normalizedValue": contact["normalizedValue"],
                "verifiedAt": contact["verifiedAt"],
                "verificationAuthority": "identity_provider_auth",
            })
        };
        let (email, phone) = Self::contacts_verified(profile);
        let verified = email && phone;
        let consented = self
            .facts_of_kind("consent-version")
            .filter(|(_, fact)| {
                fact.facts["required"] == true
                    && fact.facts["current"] == true
                    && millis(s(&fact.facts, "publishedAt")) <= self.now
            })
            .all(|(id, _)| {
                profile.receipts.iter().any(|receipt| {
                    *id == format!("{}@{}", s(receipt, "policyKey"), s(receipt, "versionLabel"))
                })
            });
        let complete = verified && consented;
        let active = owned["accountLifecycle"] == "active";
        let actions: Vec<_> = [
            ("verify_contact", !verified),
            ("accept_current_consent", !consented),
            ("complete_profile", !complete),
            ("update_profile", active),
            ("start_reservation", active && complete),
            ("request_withdrawal", active),
        ]
        .into_iter()
        .filter(|(_, applies)| *applies)
        .map(|(action, _)| action)
        .collect();
        json!({
            "motherAccountId": profile.own["motherAccountId"],
            "motherProfileId": profile.id,
            "accountLifecycle": owned["accountLifecycle"],
            "profileCompleteness": if complete { "complete" } else { "incomplete" },
            "profileRevision": profile.revision,
            "addressRevision": profile.address_revision,
            "fullName": profile.own["fullName"],
            "birthDate": profile.own["birthDate"],
            "email": owned["email"],
            "primaryPhoneNumber": owned["primaryPhoneNumber"],
            "address": profile.own["address"],
            "verifiedContacts": {
                "email": contact("verifiedEmail"),
                "phone": contact("verifiedPhone"),
            },
            "consentReceipts": profile.receipts,
            "ownershipRelationship": {
                "state": owned["ownershipState"],
                "relationshipReceiptId": owned["relationshipReceiptId"],
                "appliedAt": owned["appliedAt"],
            },
            "allowedNextActions": actions,
            "createdAt": profile.own["createdAt"],
            "updatedAt": moment(profile.updated_at),
            "idempotentReplay": false,
        })
    }

    pub fn profile_faults(&self, body: &Value, faults: &mut Faults) {
        // Seoul is nine hours ahead.
        let today = moment(self.now + 9 * 3_600_000);
        let born = s(body, "birthDate");
        if born > &today[..10] || born < "1900-01-01" {
            faults.add("birthDate", "out_of_range");
        }
        if let Some(acceptances) = body["consentAcceptances"].as_array() {
            if acceptances.is_empty() {
                faults.add("consentAcceptances", "too_short");
            }
            if acceptances.len() == 2 && acceptances[0] == acceptances[1] {
                faults.add("consentAcceptances[1]", "not_unique");
            }
        }
    }

    pub fn update_mother_profile(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        if who.kind != ActorKind::Mother {
            return Expected::forbidden();
        }
        let place = self
            .profiles
            .iter()
            .position(|profile| profile.owner == who.subject);
        let Some(place) = place else {
            return Expected::missing("mother_profile_not_found");
        };
        let mut profile = self.profiles[place].clone();
        if profile.owned["accountLifecycle"] != "active" {
            return Expected::forbidden();
        }
        if n(body, "expectedProfileRevision") != profile.revision
            || n(body, "expectedAddressRevision") != profile.address_revision
        {
            return Expected::conflict("revision_stale").anywhere();
        }
        let acceptances = body["consentAcceptances"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let new = acceptances.iter().filter(|acceptance| {
            !profile.receipts.iter().any(|receipt| {
                receipt["policyKey"] == acceptance["policyKey"]
                    && receipt["versionLabel"] == acceptance["versionLabel"]
            })
        });
        if profile.receipts.len() + new.count() > 1_000 {
            return Expected::conflict("consent_receipts_full").anywhere();
        }
        if Self::contacts_verified(&profile) != (true, true) {
            return Expected::refused(422, "contact_unverified");
        }
        for acceptance in &acceptances {
            let id = format!(
                "{}@{}",
                s(acceptance, "policyKey"),
                s(acceptance, "versionLabel")
            );
            let version = self.fact("consent-version", &id);
            if version.is_none_or(|version| millis(s(&version.facts, "publishedAt")) > self.now) {
                return Expected::refused(422, "consent_version_not_published");
            }
        }
        for acceptance in &acceptances {
            let accepted = profile.receipts.iter().any(|receipt| {
                receipt["policyKey"] == acceptance["policyKey"]
                    && receipt["versionLabel"] == acceptance["versionLabel"]
            });
            if !accepted {
                let pointer = format!(
                    "/consentReceipts/{}/consentReceiptId",
                    profile.receipts.len()
                );
                let id = self.made(answer, &pointer);
                profile.receipts.push(json!({
                    "consentReceiptId": id,
                    "policyKey": acceptance["policyKey"],
                    "versionLabel": acceptance["versionLabel"],
                    "acceptedAt": moment(self.now),
                    "captureSource": "explicit_mother_action",
                }));
            }
        }
        for member in ["fullName", "birthDate", "address"] {
            profile.own[member] = body[member].clone();
        }
        profile.revision += 1;
        profile.address_revision += 1;
        profile.updated_at = self.now;
        let view = self.profile_view(&profile);
        self.profiles[place] = profile;
        Expected::done(201, view)
    }

    pub fn read_profile(&self, who: &Who) -> Expected {
        let own = self
            .profile_of(who.subject)
            .filter(|_| who.kind == ActorKind::Mother);
        let Some(profile) = own else {
            return Expected::missing("mother_profile_not_found").or_code("not_found");
        };
        Expected {
            tag: Some(and_digest(profile.revision)),
            ..Expected::found(200, self.profile_view(profile))
        }
    }
}
