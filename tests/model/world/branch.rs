//! Commands and facts of branches.

use serde_json::{Value, json};

use super::super::state::{Model, n, s};
use super::{ACTORS, Command, HEADQUARTERS, World};

impl World {
    /// A business registration number with the right check digit.
    fn registration(&mut self, number: usize) -> String {
        let nine = format!("{:09}", 100_000_000 + number);
        let digits: Vec<u32> = nine
            .chars()
            .filter_map(|digit| digit.to_digit(10))
            .collect();
        let weights = [1, 3, 7, 1, 3, 7, 1, 3, 5];
        let mut sum: u32 = digits
            .iter()
            .zip(weights)
            .map(|(digit, weight)| digit * weight)
            .sum();
        sum += digits[8] * 5 / 10;
        let check = (10 - sum % 10) % 10;
        if self.chance(50) {
            return format!("{nine}{check}");
        }
        format!("{}-{}-{}{check}", &nine[..3], &nine[3..5], &nine[5..])
    }

    pub(super) fn create_branch(&mut self, model: &Model) -> Command {
        let who = self.who(&[HEADQUARTERS, HEADQUARTERS, 17]);
        let number = self.step / 40 + self.below(5);
        let revision = self.revision(model.organization_revision);
        let email = match self.below(5) {
            4 => self.near("somebody", 4, 100) + "@example.com",
            manager => format!("manager-{}@example.com", manager + 1),
        };
        let email = match self.below(6) {
            0 => email.to_ascii_uppercase(),
            1 => email.replace("man", "Man").replace("some", "SOME"),
            2 => email.replace("example", "Example"),
            _ => email,
        };
        let body = json!({
            "commandId": self.near("create", 12, 30),
            "branchCode": self.near("BR", 8, 30),
            "expectedOrganizationRevision": revision,
            "legalName": "서울산후케어 주식회사",
            "displayName": "서울 지점",
            "businessIdentity": {
                "jurisdiction": "KR",
                "registrationNumber": self.registration(number),
            },
            "contact": {"email": "branch@example.com", "phoneNumber": "+82212345678"},
            "address": {
                "postalCode": "04524",
                "roadAddress": "세종대로 110",
                "detailAddress": "1층",
            },
            "managerInvitation": {"email": email, "displayName": "김지점"},
            "initialLifecycleStatus": self.pick(&["preparing", "active"]),
            "initialMembershipFeePolicy": {
                "policyVersion": "2026-1",
                "monthlyFeeAmount": self.below(3),
                "currencyCode": "KRW",
                "effectiveFrom": "2026-12-01",
            },
            "reason": "growth",
        });
        Command::new(3, &[], who, body)
    }

    pub(super) fn accept_manager_invitation(&mut self, model: &Model) -> Command {
        let who = self.who(&[6, 7, 8, HEADQUARTERS]);
        let email = ACTORS[who].verified_email();
        let branch = model.branches.iter().rev().find(|branch| {
            branch.body["managerInvitationStatus"] == "pending"
                && email.as_ref().is_some_and(|email| branch.is_for(email))
        });
        let revision = branch.map_or(2, |branch| branch.revision);
        let revision = self.revision(revision);
        Command::new(
            14,
            &[],
            who,
            json!({"expectedOnboardingRevision": revision}),
        )
    }

    pub(super) fn update_branch_office_profile(&mut self, model: &Model) -> Command {
        let mut id = self.pick(&["branch-1", "branch-2", "branch-3"]).to_owned();
        if self.chance(20)
            && let Some(branch) = self.late(&model.branches, 5)
        {
            id.clone_from(&branch.id);
        }
        let revision = model
            .offices
            .get(&id)
            .map_or(1, |office| n(office, "revisionNumber"));
        let good: &[usize] = if id == "branch-1" {
            &[6, 7, 9, 10]
        } else {
            &[9, 10]
        };
        let who = self.who(good);
        let body = json!({
            "commandId": if self.chance(97) { self.key() } else { self.near("office", 5, 100) },
            "revisionId": self.near("REV", 60, 15),
            "branchOfficeProfileId": id,
            "expectedRevision": self.revision(revision),
            "displayName": self.pick(&["서울 1지점", "서울 2지점"]),
            "legalName": "서울산후케어 주식회사",
            "contactEmail": "seoul@example.com",
            "primaryPhoneNumber": "+82212345678",
            "addressLine": "세종대로 110",
            "businessRegistrationReference": "registration-1",
            "reason": "moved",
        });
        Command::new(19, &[], who, body)
    }

    pub(super) fn snapshot_settlement_account(&mut self, model: &Model) -> Command {
        let id = self.pick(&["SA-0", "SA-1", "SA-2", "SA-3", "SA-4"]);
        let account = model.fact("settlement-account", id);
        let revision = account.map_or(1, |account| account.revision);
        let office = account.map_or("branch-1", |account| {
            s(&account.facts, "branchOfficeProfileId")
        });
        let office = if self.chance(95) {
            office.to_owned()
        } else {
            "branch-2".to_owned()
        };
        let good: &[usize] = if office == "branch-1" {
            &[6, 7, 9, 11, 12]
        } else {
            &[7, 10, 11]
        };
        let who = self.who(good);
        let body = json!({
            "snapshotId": self.near("SN", 40, 20),
            "settlementStatementId": self.pick(&["statement-1", "statement-2"]),
            "branchOfficeProfileId": office,
            "settlementAccountId": id,
            "expectedSettlementAccountRevision": self.revision(revision),
            "idempotencyKey": self.key(),
        });
        Command::new(16, &[], who, body)
    }

    pub(super) fn office_facts(&mut self) -> (String, Value) {
        let id = self.pick(&["branch-1", "branch-2", "branch-3"]).to_owned();
        let facts = json!({
            "displayName": self.pick(&["서울 1지점", "서울 3지점"]),
            "legalName": "서울산후케어 주식회사",
            "contactEmail": "seoul@example.com",
            "primaryPhoneNumber": "+82212345678",
            "addressLine": "세종대로 110",
            "businessRegistrationReference": "registration-1",
        });
        (id, facts)
    }

    pub(super) fn settlement_account_facts(&mut self) -> (String, Value) {
        let mut facts = json!({
            "branchOfficeProfileId": self.pick(&["branch-1", "branch-1", "branch-2", "branch-9"]),
            "purpose": "branch_settlement",
            "bankName": self.pick(&["한빛은행", "새벽은행"]),
            "accountHolder": "서울산후케어 주식회사",
            "maskedAccountReference": "110-***-1",
            "verificationState": self.pick(&["verified", "verified", "verified", "pending", "rejected"]),
            "effectiveFrom": "2026-01-01",
        });
        if self.chance(50) {
            facts["effectiveUntil"] = json!("2030-12-31");
        }
        (
            self.pick(&["SA-0", "SA-1", "SA-2", "SA-3"]).to_owned(),
            facts,
        )
    }
}
