//! Commands and facts of mothers' profiles.

use serde_json::{Value, json};

use super::super::state::Model;
use super::{ACTORS, Command, World};

impl World {
    pub(super) fn update_mother_profile(&mut self, model: &Model) -> Command {
        let who = self.who(&[0, 1, 17]);
        let profile = model.profile_of(ACTORS[who].subject);
        let (revision, address) = profile.map_or((1, 1), |profile| {
            (profile.revision, profile.address_revision)
        });
        let mut body = json!({
            "expectedProfileRevision": self.revision(revision),
            "expectedAddressRevision": self.revision(address),
            "fullName": self.pick(&["김하늘", "Kim"]),
            "birthDate": self.pick(&["1992-03-14", "1900-01-01", "1990-02-28", "1990-02-28", "1899-12-31", "2199-01-01"]),
            "address": {
                "postalCode": "04524",
                "roadAddress": self.pick(&["세종대로 110", "세종대로 112"]),
                "detailAddress": "101호",
            },
        });
        if self.chance(60) {
            let mut acceptance = || {
                json!({
                    "policyKey": self.pick(&["privacy", "terms", "marketing"]),
                    "versionLabel": self.pick(&["v1", "v2", "v3"]),
                })
            };
            let acceptances = [acceptance(), acceptance()];
            let count = self.pick(&[1, 1, 1, 2, 2, 0]);
            body["consentAcceptances"] = json!(acceptances[..count]);
        }
        Command::new(7, &[], who, body)
    }

    pub(super) fn profile_facts(&mut self) -> (String, Value) {
        let (id, owner, email) = self.pick(&[
            ("MP-1", "user-m1", "mother-1@example.com"),
            ("MP-2", "user-m2", "mother-2@example.com"),
            ("MP-4", "user-m4", "mother-4@example.com"),
            ("MP-9", "user-m1", "mother-1@example.com"),
        ]);
        // The same address, spelled by another system, or by the mother herself.
        let spelled = |email: &str, how: usize| match how {
            0 => email.to_ascii_uppercase(),
            1 => email.replace('m', "M"),
            2 => email.replace("example", "EXAMPLE"),
            _ => email.to_owned(),
        };
        let (own, normal) = (
            spelled(email, self.below(6)),
            spelled(email, self.below(12)),
        );
        let phone = self.pick(&["+821012345678", "+821012345679"]);
        let mut facts = json!({
            "ownerSubject": owner,
            "motherAccountId": format!("account-{owner}"),
            "accountLifecycle": self.pick(&["active", "active", "active", "active", "active", "active", "withdrawal_pending", "withdrawn"]),
            "fullName": "김하늘",
            "birthDate": "1992-03-14",
            "email": own,
            "primaryPhoneNumber": phone,
            "address": {"postalCode": "04524", "roadAddress": "세종대로 110", "detailAddress": "1호"},
            "ownershipState": self.pick(&["pending", "applied"]),
            "createdAt": "2026-01-01T00:00:00.000Z",
        });
        if self.chance(92) {
            facts["verifiedEmail"] = json!({
                "receiptId": "email-receipt",
                "normalizedValue": if self.chance(92) { &normal } else { "other@example.com" },
                "verifiedAt": "2026-01-02T09:00:00+09:00",
            });
        }
        if self.chance(92) {
            facts["verifiedPhone"] = json!({
                "receiptId": "phone-receipt",
                "normalizedValue": if self.chance(92) { phone } else { "+821000000000" },
                "verifiedAt": "2026-01-02T00:00:00.000Z",
            });
        }
        if facts["ownershipState"] == "applied" {
            facts["relationshipReceiptId"] = json!("relationship-receipt");
            facts["appliedAt"] = json!("2026-01-03T00:00:00.000Z");
        }
        (id.to_owned(), facts)
    }

    pub(super) fn consent_facts(&mut self, model: &Model) -> (String, Value) {
        let id = format!(
            "{}@{}",
            self.pick(&["privacy", "terms", "marketing"]),
            self.pick(&["v1", "v2"])
        );
        let at = model.now + self.pick(&[-1_000, 0, 1_000_000, -1_000, -1_000]);
        let facts = json!({
            "publishedAt": self.written(at),
            "required": self.chance(40),
            "current": self.chance(50),
        });
        (id, facts)
    }
}
