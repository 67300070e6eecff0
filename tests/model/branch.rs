//! The organization, its branches, their office profiles and accounts, as the service's
//! description has them.

use carebook::base::actor::ActorKind;
use serde_json::{Value, json};

use super::commands::{Command, Who};
use super::expected::{Answer, Expected, and_digest};
use super::settlement::replay_by_code;
use super::state::{
    Access, Branch, Found, Held, Model, facts_of, fingerprint, moment, n, number, s, seen,
};

impl Branch {
    /// Whether its invitation went to this address.
    pub fn is_for(&self, email: &str) -> bool {
        self.email == email
    }

    fn is_pending(&self) -> bool {
        self.accepted_by.is_none()
    }
}

impl Model {
    pub fn create_branch(&mut self, command: &Command, who: &Who, answer: &Answer) -> Expected {
        let body = &command.body;
        if !who.may("branch:create") {
            return Expected::forbidden();
        }
        if n(body, "expectedOrganizationRevision") != self.organization_revision {
            let mut stale = Expected::conflict("organization_revision_stale")
                .at("expectedOrganizationRevision");
            let message = s(&answer.body, "message");
            if !message.contains(&self.organization_revision.to_string()) {
                stale.codes = vec!["(says the current revision)"];
            }
            return stale;
        }
        let registration = s(&body["businessIdentity"], "registrationNumber").replace('-', "");
        let email = s(&body["managerInvitation"], "email").to_lowercase();
        let any = |test: &dyn Fn(&Branch) -> bool| self.branches.iter().any(test);
        if any(&|branch| branch.registration == registration) {
            return Expected::conflict("business_identity_conflict")
                .at("businessIdentity.registrationNumber");
        }
        if any(&|branch| branch.code == s(body, "branchCode")) {
            return Expected::conflict("branch_code_conflict").at("branchCode");
        }
        if any(&|branch| branch.email == email && branch.is_pending()) {
            return Expected::conflict("invitation_conflict").at("managerInvitation.email");
        }
        if any(&|branch| branch.command_id == s(body, "commandId")) {
            return Expected::conflict("command_id_reused").at("commandId");
        }
        self.organization_revision += 1;
        let id = self.new_id(answer, "/branchId");
        let audit_event = self.made(answer, "/auditEventId");
        let operator = self.made(answer, "/operatorIdentity/operatorIdentityId");
        let policy = self.made(answer, "/membershipFeePolicy/membershipFeePolicyId");
        // Three side effects, in an order that is not determined.
        let mut kinds = Vec::new();
        let side_effects: Vec<_> = (0..3)
            .map(|index| {
                let kind = seen(answer, &format!("/sideEffects/{index}/kind"));
                kinds.push(kind.as_str().unwrap_or_default().to_owned());
                json!({
                    "kind": kind,
                    "status": "completed",
                    "outboxMessageId": number(answer, &format!("/sideEffects/{index}/outboxMessageId")),
                })
            })
            .collect();
        kinds.sort();
        let known = [
            "authorization_relationship",
            "manager_invitation",
            "operator_identity",
        ];
        let side_effects = if kinds == known {
            json!(side_effects)
        } else {
            json!(known)
        };
        let of_group = |group: &str| seen(answer, &format!("/{group}/sideEffects"));
        let mut invitation = json!({
            "managerInvitationStatus": "pending",
            "sideEffects": of_group("managerInvitation"),
        });
        // In some forms it has the next actions too.
        if answer.body["managerInvitation"]
            .get("allowedNextActions")
            .is_some()
        {
            invitation["allowedNextActions"] = json!(["accept_manager_invitation"]);
        }
        let view = json!({
            "commandId": body["commandId"],
            "actorId": who.subject,
            "reason": body["reason"],
            "commandFingerprint": fingerprint(answer, "/commandFingerprint"),
            "branchId": id,
            "branchCode": body["branchCode"],
            "revision": 1,
            "organizationRevision": self.organization_revision,
            "lifecycleStatus": body["initialLifecycleStatus"],
            "managerInvitationStatus": "pending",
            "authorizationRelationshipStatus": "applied",
            "authorizationRelationships": seen(answer, "/authorizationRelationships"),
            "membershipFeePolicyStatus": "recorded",
            "sideEffects": side_effects,
            "auditEventId": audit_event,
            "outcomeStatus": "completed",
            "idempotentReplay": false,
            "repair": null,
            "allowedNextActions": ["accept_manager_invitation"],
            "operatorIdentity": {
                "operatorIdentityId": operator,
                "operatorIdentityDisposition": "created",
                "sideEffects": of_group("operatorIdentity"),
            },
            "managerMembership": {
                "managerMembershipId": null,
                "managerMembershipStatus": null,
                "sideEffects": of_group("managerMembership"),
            },
            "managerInvitation": invitation,
            "authorizationRelationship": {
                "authorizationRelationshipStatus": "applied",
                "sideEffects": of_group("authorizationRelationship"),
            },
            "membershipFeePolicy": {
                "membershipFeePolicyId": policy,
                "membershipFeePolicyRevision": number(answer, "/membershipFeePolicy/membershipFeePolicyRevision"),
                "membershipFeePolicyStatus": "recorded",
                "sideEffects": of_group("membershipFeePolicy"),
            },
        });
        let id = id.as_str().unwrap_or_default().to_owned();
        self.branches.push(Branch {
            id: id.clone(),
            code: s(body, "branchCode").to_owned(),
            registration,
            command_id: s(body, "commandId").to_owned(),
            email,
            revision: 1,
            accepted_by: None,
            accepted_at: 0,
            body: view.clone(),
        });
        let facts = json!({
            "displayName": body["displayName"],
            "legalName": body["legalName"],
            "contactEmail": body["contact"]["email"],
            "primaryPhoneNumber": body["contact"]["phoneNumber"],
        });
        self.set_fact("branch-office-profile", &id, 1, facts);
        let key = ("branch-office-profile".to_owned(), id.clone());
        if let Some(fact) = self.facts.get_mut(&key) {
            fact.known = false;
        }
        self.office_fact(&id, 1);
        Expected::done(201, view)
    }

    pub fn accept_manager_invitation(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let expected = n(&command.body, "expectedOnboardingRevision");
        let Some(email) = who.verified_email() else {
            return Expected::forbidden();
        };
        let pending = self
            .branches
            .iter()
            .position(|branch| branch.email == email && branch.is_pending());
        let Some(place) = pending else {
            let accepted: Vec<_> = self
                .branches
                .iter()
                .filter(|branch| branch.accepted_by.as_deref() == Some(who.subject))
                .collect();
            let Some(first) = accepted.first() else {
                return Expected::forbidden();
            };
            // Of several accepted ones it is unspecified which counts; all are at one revision.
            return if first.revision == expected {
                Expected::conflict("activation_conflict").anywhere()
            } else {
                Expected::stale("expectedOnboardingRevision")
            };
        };
        if self.branches[place].revision != expected {
            return Expected::stale("expectedOnboardingRevision");
        }
        let membership = self.new_id(answer, "/branchMembershipId");
        let view = json!({
            "activationId": self.new_id(answer, "/activationId"),
            "invitationId": self.made(answer, "/invitationId"),
            "memberProfileId": self.new_id(answer, "/memberProfileId"),
            "branchMembershipId": membership,
            "branchId": self.branches[place].id,
            "acceptedOnboardingRevision": expected,
            "relationshipOutboxMessageId": number(answer, "/relationshipOutboxMessageId"),
            "authorizationRelationshipStatus": "queued",
            "acceptedAt": moment(self.now),
            "idempotentReplay": false,
        });
        let now = self.now;
        let branch = &mut self.branches[place];
        branch.revision += 1;
        branch.accepted_by = Some(who.subject.to_owned());
        branch.accepted_at = now;
        branch.body["revision"] = json!(branch.revision);
        branch.body["managerInvitationStatus"] = json!("accepted");
        branch.body["managerInvitation"]["managerInvitationStatus"] = json!("accepted");
        branch.body["managerMembership"]["managerMembershipId"] = membership;
        branch.body["managerMembership"]["managerMembershipStatus"] = json!("active");
        branch.body["managerMembership"]["sideEffects"] = json!([{
            "kind": "authorization_relationship",
            "status": "pending",
            "outboxMessageId": view["relationshipOutboxMessageId"],
        }]);
        branch.body["allowedNextActions"] = json!(["update_branch_profile"]);
        if let Some(actions) = branch.body["managerInvitation"].get_mut("allowedNextActions") {
            *actions = json!([]);
        }
        Expected::done(201, view)
    }

    /// A fact about an office's profile was applied: it reads with null forms.
    pub fn office_fact(&mut self, id: &str, revision: i64) {
        let view = json!({
            "revisionId": null,
            "branchOfficeProfileId": id,
            "revisionNumber": revision,
            "factGroup": "profile",
            "actorId": null,
            "reason": null,
            "effectiveAt": moment(self.now),
        });
        self.offices.insert(id.to_owned(), view);
    }

    pub fn update_branch_office_profile(&mut self, command: &Command, who: &Who) -> Expected {
        let body = &command.body;
        let id = s(body, "branchOfficeProfileId");
        let authorized = who.kind == ActorKind::HeadquartersAdministrator
            || (who.kind == ActorKind::BranchManager && who.branches.contains(&id));
        let Some(office) = self.offices.get(id).filter(|_| authorized) else {
            return Expected::forbidden();
        };
        let revision = n(office, "revisionNumber");
        if n(body, "expectedRevision") != revision {
            return Expected::stale("expectedRevision");
        }
        if !self
            .office_revisions
            .insert(s(body, "revisionId").to_owned())
        {
            return Expected::conflict("revision_id_conflict").anywhere();
        }
        let view = json!({
            "revisionId": body["revisionId"],
            "branchOfficeProfileId": id,
            "revisionNumber": revision + 1,
            "factGroup": "profile",
            "actorId": who.subject,
            "reason": body["reason"],
            "effectiveAt": moment(self.now),
        });
        let facts: Value = [
            "displayName",
            "legalName",
            "contactEmail",
            "primaryPhoneNumber",
            "addressLine",
            "businessRegistrationReference",
        ]
        .into_iter()
        .map(|member| (member.to_owned(), body[member].clone()))
        .collect();
        self.set_fact("branch-office-profile", id, revision + 1, facts);
        self.offices.insert(id.to_owned(), view.clone());
        Expected::done(200, view)
    }

    pub fn snapshot_settlement_account(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        let office_id = s(body, "branchOfficeProfileId");
        let authorized = match who.kind {
            ActorKind::HeadquartersAdministrator | ActorKind::HeadquartersFinanceOperator => true,
            ActorKind::BranchManager => who.branches.contains(&office_id),
            _ => false,
        };
        if !authorized {
            return Expected::forbidden();
        }
        let facts = facts_of(command);
        let id = s(body, "snapshotId");
        let taken = self.snapshots.iter().find(|held| held.id == id);
        if let Some(held) = taken
            && held.facts == facts
            && held.subject == who.subject
        {
            return replay_by_code(held.body.clone());
        }
        let account = self.fact("settlement-account", s(body, "settlementAccountId"));
        let account =
            account.filter(|account| s(&account.facts, "branchOfficeProfileId") == office_id);
        let (Some(account), Some(office)) = (account, self.offices.get(office_id)) else {
            return Expected::conflict("settlement_account_conflict").anywhere();
        };
        if n(body, "expectedSettlementAccountRevision") != account.revision {
            return Expected::stale("expectedSettlementAccountRevision");
        }
        if s(&account.facts, "verificationState") != "verified" {
            return Expected::conflict("settlement_account_unverified").anywhere();
        }
        if taken.is_some() {
            return Expected::conflict("snapshot_id_conflict").anywhere();
        }
        let of = |member: &str| account.facts[member].clone();
        let view = json!({
            "snapshotId": id,
            "settlementStatementId": body["settlementStatementId"],
            "branchOfficeProfileId": office_id,
            "branchOfficeProfileRevision": office["revisionNumber"],
            "settlementAccountId": body["settlementAccountId"],
            "settlementAccountRevision": account.revision,
            "purpose": of("purpose"),
            "bankName": of("bankName"),
            "accountHolder": of("accountHolder"),
            "maskedAccountReference": of("maskedAccountReference"),
            "verificationState": "verified",
            "effectiveFrom": of("effectiveFrom"),
            "effectiveUntil": of("effectiveUntil"),
            "snapshotForStatementAt": moment(self.now),
            "snapshotForStatementByActorId": who.subject,
            "idempotencyKey": body["idempotencyKey"],
        });
        self.snapshots.push(Held {
            id: id.to_owned(),
            body: view.clone(),
            subject: who.subject.to_owned(),
            facts,
            position: answer.position,
        });
        Expected::done(201, view)
    }

    pub fn read_organization(&self, who: &Who) -> Expected {
        if !who.may("branch:create") {
            return Expected::forbidden();
        }
        Expected {
            tag: Some(self.organization_revision.to_string()),
            ..Expected::found(
                200,
                json!({
                    "organizationRevision": self.organization_revision,
                    "branchCount": self.branches.len(),
                }),
            )
        }
    }

    pub fn read_branch(&self, command: &Command, who: &Who) -> Found {
        let found = self
            .branches
            .iter()
            .find(|held| held.id == command.params[0]);
        let Some(found) = found else {
            return (None, Access::No);
        };
        let access = if who.kind == ActorKind::HeadquartersAdministrator || who.may("branch:create")
        {
            Access::Yes
        } else {
            Access::Undetermined
        };
        (
            Some((found.body.clone(), Some(and_digest(found.revision)))),
            access,
        )
    }

    pub fn read_office(&self, command: &Command, who: &Who) -> Found {
        let id = &command.params[0];
        let Some(view) = self.offices.get(id) else {
            return (None, Access::No);
        };
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator => Access::Yes,
            ActorKind::BranchManager => Access::when(who.branches.contains(&id.as_str())),
            _ => Access::No,
        };
        (
            Some((view.clone(), Some(view["revisionNumber"].to_string()))),
            access,
        )
    }

    pub fn read_snapshot(&self, command: &Command, who: &Who) -> Found {
        let found = self
            .snapshots
            .iter()
            .find(|held| held.id == command.params[0]);
        let Some(found) = found else {
            return (None, Access::No);
        };
        let branch = s(&found.body, "branchOfficeProfileId");
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator | ActorKind::HeadquartersFinanceOperator => {
                Access::Yes
            }
            ActorKind::BranchManager => Access::when(who.branches.contains(&branch)),
            _ => Access::No,
        };
        let tag = found.position.map(|position| position.to_string());
        (Some((found.body.clone(), tag)), access)
    }
}
