//! Facts of all kinds, as workflows bring them in.

use serde_json::{Value, json};

use super::super::state::Model;
use super::{ACTORS, Command, FACTS, KINDS, WORKFLOW, World};

impl World {
    pub(super) fn facts(&mut self, model: &Model) -> Command {
        let count = self.pick(&[0, 1, 1, 1, 1, 2, 2, 3]);
        let facts: Vec<_> = (0..count).map(|_| self.fact(model)).collect();
        let who = if self.chance(98) {
            WORKFLOW
        } else {
            self.below(ACTORS.len())
        };
        Command::new(FACTS, &[], who, json!({"facts": facts}))
    }

    fn fact(&mut self, model: &Model) -> Value {
        let kind = self.pick(&KINDS);
        let (id, mut facts) = self.facts_of(kind, model);
        let held = model.fact(kind, &id);
        let mut revision = held.map_or(1, |held| held.revision + 1);
        if let Some(held) = held {
            match self.below(10) {
                // The same once more.
                0 if held.known => {
                    revision = held.revision;
                    facts = held.facts.clone();
                }
                1 if held.known => revision = held.revision,
                2 => revision = held.revision - 1,
                3 => revision = held.revision + 3,
                _ => {}
            }
        } else if self.chance(10) {
            revision = 4;
        }
        if self.chance(1) {
            facts["surprise"] = json!(1);
        }
        if self.chance(30) {
            facts = self.with_nulls(facts);
        }
        json!({"kind": kind, "id": id, "revision": revision, "facts": facts})
    }

    /// The same facts in another form.
    fn with_nulls(&mut self, mut facts: Value) -> Value {
        for member in [
            "verifiedPhone",
            "familyAccountId",
            "capKrw",
            "virtualAccountState",
        ] {
            if facts.get(member).is_none_or(Value::is_null)
                && let Some(members) = facts.as_object_mut()
            {
                members.remove(member);
            }
        }
        self.rewrite(&mut facts);
        facts
    }

    /// The facts of one of this kind, and its identifier.
    fn facts_of(&mut self, kind: &str, model: &Model) -> (String, Value) {
        match kind {
            "actor" => self.actor_facts(),
            "family-account" => self.account_facts(),
            "reservation-booking" => self.booking_facts(model),
            "mother-profile" => self.profile_facts(),
            "consent-version" => self.consent_facts(model),
            "reservation-draft" => self.draft_facts(model),
            "final-review-projection" => self.review_facts(model),
            "extension-eligibility" => self.extension_facts(model),
            "payment-product-plan" => self.plan_facts(),
            "payment-obligation" => self.obligation_facts(model),
            "candidate-snapshot" => self.candidate_facts(model),
            "payout-instruction" => self.instruction_facts(model),
            "reservation-financial-facts" => self.financial_facts(model),
            "regional-benefit-policy" => self.policy_facts(),
            "payment-change-adjustment" => self.adjustment_facts(model),
            "branch-office-profile" => self.office_facts(),
            "settlement-account" => self.settlement_account_facts(),
            "relationship" => self.relationship_facts(),
            _ => self.gateway_facts(),
        }
    }

    fn actor_facts(&mut self) -> (String, Value) {
        let id = self.pick(&["user-m2", "user-hq2"]).to_owned();
        let lifecycle = self.pick(&[
            "active",
            "active",
            "active",
            "active",
            "active",
            "active",
            "inactive",
            "withdrawn",
            "sleeping",
        ]);
        (id, json!({"lifecycle": lifecycle}))
    }
}
