//! An actor that may create branches creates one, and invites its first manager.
//!
//! Resource: the organization; the branch, its deliveries and its profile are born in the same
//! commit. Rejections, in the order tested: the actor lacks the permission (403); the
//! organization's revision is stale, the business is a branch already, the code is in use, the
//! e-mail address has a pending invitation, the command has created a branch before (409). What
//! other systems have to do goes into the outbox with the commit. As long as the directory has not
//! done its part, the answer says that a repair is pending.

use std::sync::Arc;

use uuid::Uuid;

use super::body::BranchBody;
use super::business_registration::BusinessRegistrationNumber;
use super::deliveries::{BranchDeliveries, BranchDeliveriesEvent, DeliveriesDue};
use super::directory_message;
use super::office_profile::{BranchOfficeProfile, BranchOfficeProfileEvent, FactCameIn};
use super::onboarding::{DirectoryAnswers, SideEffect, SideEffectKind, outcome};
use super::organization::{Organization, OrganizationEvent};
use super::state::{
    BRANCH_CREATE, Branch, BranchEvent, BusinessIdentity, Contact, FeePolicy, Founding, Invitee,
    LifecycleStatus, branch_code, branch_command, pending_invitation,
};
use crate::base::actor::ActorKind;
use crate::base::address::Address;
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::text::{BranchCode, Ident, NonBlankText, Text};
use crate::domain::example::{Current, Example};
use crate::domain::index::IndexKey;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{
    Commit, Context, Decision, Disposition, Operation, mark_replayed, to_json,
};
use crate::domain::reference::kinds::branch_office_profile::BranchOfficeProfileFact;
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::ReadView;
use crate::{json_object, module_doc, rejections};

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The command's identifier: one branch to a command, whoever sends it.
        pub command_id: Ident = "commandId",
        /// The branch's code.
        pub branch_code: BranchCode = "branchCode",
        /// The organization's revision as the actor saw it.
        pub expected_organization_revision: i64 = "expectedOrganizationRevision",
        /// The branch's name in the register.
        pub legal_name: NonBlankText = "legalName" personal Name,
        /// The branch's name for customers.
        pub display_name: NonBlankText = "displayName" personal Name,
        /// Which business it is.
        pub business_identity: BusinessIdentity = "businessIdentity" personal Register,
        /// How it is reached.
        pub contact: Contact = "contact" personal Contact,
        /// Where it is.
        pub address: Address = "address" personal Address,
        /// Who is invited to be the first manager.
        pub manager_invitation: Invitee = "managerInvitation",
        /// The branch's lifecycle status at first.
        pub initial_lifecycle_status: LifecycleStatus = "initialLifecycleStatus",
        /// What it pays at first.
        pub initial_membership_fee_policy: FeePolicy = "initialMembershipFeePolicy",
        /// Why.
        pub reason: NonBlankText = "reason" personal FreeText,
    }
}

rejections! {
    /// Why no branch is created.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only an actor with the permission branch:create may create a branch.",
        /// The organization's revision is stale; the message names the current one.
        OrganizationRevisionStale = Conflict "organization_revision_stale"
            ["expectedOrganizationRevision"]
            "The expected revision is not the organization's current one.",
        /// The business is a branch.
        BusinessIdentityConflict = Conflict "business_identity_conflict"
            ["businessIdentity.registrationNumber"]
            "A branch of the business with this registration number already exists.",
        /// The code is given.
        BranchCodeConflict = Conflict "branch_code_conflict" ["branchCode"]
            "A branch with this code already exists.",
        /// The address has an invitation.
        InvitationConflict = Conflict "invitation_conflict" ["managerInvitation.email"]
            "An invitation to this e-mail address is pending.",
        /// The command has created a branch.
        CommandIdReused = Conflict "command_id_reused" ["commandId"]
            "A command with this identifier has created a branch before.",
    }
}

/// The operation.
pub struct CreateBranch;

impl Operation for CreateBranch {
    type Command = Command;
    type Resource = Organization;
    type Answer = BranchBody<'static>;

    const DOC: &'static str = module_doc!("create_branch.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::HeadquartersAdministrator,
        body: r#"{
  "commandId": "command-1",
  "branchCode": "BUSAN-1",
  "expectedOrganizationRevision": 1,
  "legalName": "부산산후케어 주식회사",
  "displayName": "부산 1지점",
  "businessIdentity": {"jurisdiction": "KR", "registrationNumber": "124-81-00998"},
  "contact": {"email": "busan-1@example.com", "phoneNumber": "+82511234567"},
  "address": {"postalCode": "48058", "roadAddress": "부산광역시 해운대구 센텀중앙로 79", "detailAddress": "3층"},
  "managerInvitation": {"email": "manager-1@example.com", "displayName": "이바다"},
  "initialLifecycleStatus": "active",
  "initialMembershipFeePolicy": {
    "policyVersion": "2026-01",
    "monthlyFeeAmount": 150000,
    "currencyCode": "KRW",
    "effectiveFrom": "2026-01-01"
  },
  "reason": "A branch for the south."
}"#,
        changed_value: ("/reason", r#""Another reason.""#),
        unique_ids: &["command-1", "manager-1@example.com"],
        id_in_response: "command-1",
        vary: |body, number| {
            body["branchCode"] = format!("BR{number}").into();
            let registered = BusinessRegistrationNumber::sample(number);
            body["businessIdentity"]["registrationNumber"] = registered.digits().into();
        },
        current: Some(Current {
            path: "/organization",
            field: "organizationRevision",
            pointer: "/expectedOrganizationRevision",
        }),
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        /// Makes another branch exist that has only the value at `shared` in common with the
        /// example.
        fn standing<'c>(case: &'c mut Case, shared: &str) -> &'c mut Case {
            let number = u32::try_from(shared.len()).expect("a pointer is short");
            case.done_before(|before| {
                let kept = before.body.pointer(shared).cloned();
                (CreateBranch::EXAMPLE.vary)(&mut before.body, number);
                let organization = before.service.state::<Organization>(&["organization"]);
                let revision = organization.map_or(1, |state| state.revision.number());
                before
                    .set("/commandId", shared)
                    .set("/managerInvitation/email", format!("{number}@example.com"))
                    .set("/expectedOrganizationRevision", revision)
                    .set(shared, kept);
            });
            let state = case.service.state::<Organization>(&["organization"]);
            let organization = state.expect("the organization exists");
            let revision = organization.revision.number();
            case.set("/expectedOrganizationRevision", revision)
        }
        Ladder::of(&ActorKind::ALL)
            .then(Reason::NotPermitted, |case| {
                case.actor.permissions.clear();
                case
            })
            .then(Reason::OrganizationRevisionStale, |case| {
                case.set("/expectedOrganizationRevision", 9)
            })
            .then(Reason::BusinessIdentityConflict, |case| {
                standing(case, "/businessIdentity/registrationNumber")
            })
            .then(Reason::BranchCodeConflict, |case| {
                standing(case, "/branchCode")
            })
            .then(Reason::InvitationConflict, |case| {
                standing(case, "/managerInvitation/email")
            })
            .then(Reason::CommandIdReused, |case| standing(case, "/commandId"))
    }

    fn target(_: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(Organization::the_key())
    }

    fn unique_keys(command: &Command, _: &Context<'_>) -> Vec<IndexKey> {
        unique(command).map(|(name, _)| name).into()
    }

    fn decide(
        state: Option<&Organization>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<Organization>, Rejection> {
        create(
            state,
            command,
            context,
            DirectoryAnswers::of_receivers(context.has_receiver),
        )
    }

    fn replayed(body: Vec<u8>) -> Vec<u8> {
        mark_replayed(body)
    }

    /// Shows the side effects that other systems have completed since. Later changes of the branch
    /// are not shown: they are not part of its creation.
    fn final_response(first: &[u8], view: &ReadView<'_>) -> Option<(Vec<u8>, Disposition)> {
        let first_body: serde_json::Value = serde_json::from_slice(first).ok()?;
        let id = first_body["branchId"].as_str()?;
        let branch = Branch {
            revision: Revision::FIRST,
            manager: None,
            ..view.get(&[id])?
        };
        let deliveries = view.get::<BranchDeliveries>(&[id])?.joined(view);
        let body = to_json(&BranchBody::new(&branch, &deliveries, None));
        (body != first).then(|| (body, outcome(&deliveries.side_effects).disposition()))
    }
}

/// The keys that only one branch can have, each with the refusal when another branch has it; in the
/// order in which they are tested.
fn unique(command: &Command) -> [(IndexKey, Reason); 4] {
    [
        (
            command.business_identity.name(),
            Reason::BusinessIdentityConflict,
        ),
        (
            branch_code(&command.branch_code),
            Reason::BranchCodeConflict,
        ),
        (
            pending_invitation(&command.manager_invitation.email),
            Reason::InvitationConflict,
        ),
        (branch_command(&command.command_id), Reason::CommandIdReused),
    ]
}

/// Decides like [`Operation::decide`], with these answers of the directory for the side effects.
///
/// # Errors
/// The first rejection that applies.
pub fn create(
    state: Option<&Organization>,
    command: &Command,
    context: &Context<'_>,
    answers: DirectoryAnswers,
) -> Result<Decision<Organization>, Rejection> {
    if !context.actor.has_permission(BRANCH_CREATE) {
        return Err(Reason::NotPermitted.into());
    }
    let current = state.unwrap_or(&Organization::BEFORE_FIRST_BRANCH).revision;
    if command.expected_organization_revision != current.number() {
        let stale = Rejection::from(Reason::OrganizationRevisionStale);
        return Err(Rejection {
            message: format!("{} It is {current}.", stale.message).into(),
            ..stale
        });
    }
    for (name, refusal) in unique(command) {
        if context.view.holder(name).is_some() {
            return Err(refusal.into());
        }
    }
    let founding = founding(command, context, current.next());
    let side_effects = SideEffectKind::ALL.map(|kind| SideEffect {
        kind,
        status: answers.of(kind),
        outbox_message_id: context.ids.outbox_number(),
    });
    let disposition = outcome(&side_effects).disposition();
    let branch_id = context.new_id;
    let due = BranchDeliveriesEvent::Due(Box::new(DeliveriesDue {
        branch_id,
        side_effects: side_effects.to_vec(),
        repair_id: (disposition == Disposition::Accepted).then(|| context.ids.id()),
    }));
    let mut commit = Commit::new(
        state,
        OrganizationEvent::BranchAdded { branch_id },
        context.at,
    );
    let branch = commit.create::<Branch>(&BranchEvent::Created(Arc::new(founding)));
    let deliveries = commit.create::<BranchDeliveries>(&due);
    commit.create::<BranchOfficeProfile>(&first_profile(command, branch_id));
    for side_effect in &side_effects {
        let message = directory_message::recorded(&branch.founding, side_effect);
        commit.send(
            side_effect.outbox_message_id,
            side_effect.kind.topic(),
            &message,
        );
    }
    if disposition == Disposition::Accepted {
        commit.accepted();
    }
    commit.answer(to_json(&BranchBody::new(&branch, &deliveries, None)))
}

fn founding(command: &Command, context: &Context<'_>, organization: Revision) -> Founding {
    Founding {
        branch_id: context.new_id,
        organization_revision: organization,
        command_id: command.command_id.clone(),
        subject: context.actor.subject.clone(),
        reason: command.reason.clone(),
        fingerprint: context.fingerprint,
        audit_event_id: context.ids.id(),
        branch_code: command.branch_code.clone(),
        legal_name: command.legal_name.clone(),
        display_name: command.display_name.clone(),
        business_identity: command.business_identity.clone(),
        contact: command.contact.clone(),
        address: command.address.clone(),
        lifecycle_status: command.initial_lifecycle_status,
        invitee: command.manager_invitation.clone(),
        invitation_id: context.ids.id(),
        operator_identity_id: context.ids.id(),
        fee_policy: command.initial_membership_fee_policy.clone(),
        fee_policy_id: context.ids.id(),
    }
}

/// Makes the first profile of a branch, from the values that it was created with.
fn first_profile(command: &Command, branch_id: Uuid) -> BranchOfficeProfileEvent {
    let address = &command.address;
    let address_line = format!(
        "{} {} {}",
        address.postal_code, address.road_address, address.detail_address
    );
    let facts = BranchOfficeProfileFact {
        display_name: Text::from_trusted(command.display_name.as_str()),
        legal_name: Text::from_trusted(command.legal_name.as_str()),
        contact_email: Text::from_trusted(command.contact.email.as_str()),
        primary_phone_number: Text::from_trusted(command.contact.phone_number.as_str()),
        address_line: Text::from_trusted(address_line),
        business_registration_reference: command.business_identity.reference(),
    };
    BranchOfficeProfileEvent::FactCameIn(Box::new(FactCameIn {
        id: branch_id.to_string().into(),
        revision: Revision::FIRST,
        facts,
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{
        INVITATION_LATE, SILENT, administrator, branch_of, created, created_with, creation,
        invitee, minted, second_creation,
    };
    use super::*;

    use crate::domain::outbox::report::Attempt;
    use crate::domain::scenario::{Scenario, Then, manager, with};

    const NAME: &str = "create_branch";

    fn create(scenario: &mut Scenario, body: &Value) -> Then {
        scenario.acting(administrator()).when(NAME, &[], body)
    }

    fn effect(kind: &str, status: &str, number: i64) -> Value {
        json!({"kind": kind, "status": status, "outboxMessageId": number})
    }

    /// Returns the answer to [`creation`] in an empty service with the embedded directory.
    fn first_answer() -> Value {
        let identity = effect("operator_identity", "completed", 6);
        let relationship = effect("authorization_relationship", "completed", 7);
        let invitation = effect("manager_invitation", "completed", 8);
        json!({
            "commandId": "command-1",
            "actorId": "admin-1",
            "reason": "The first one in Seoul.",
            "commandFingerprint": FINGERPRINT,
            "branchId": minted(1),
            "branchCode": "SEOUL-1",
            "revision": 1,
            "organizationRevision": 2,
            "lifecycleStatus": "preparing",
            "managerInvitationStatus": "pending",
            "authorizationRelationshipStatus": "applied",
            "authorizationRelationships": [
                {
                    "object": format!("branch/{}", minted(1)),
                    "relation": "parent",
                    "subject": "headquarters",
                },
                {
                    "object": format!("branch/{}", minted(1)),
                    "relation": "operator",
                    "subject": format!("operator-identity/{}", minted(4)),
                },
            ],
            "membershipFeePolicyStatus": "recorded",
            "sideEffects": [identity, relationship, invitation],
            "auditEventId": minted(2),
            "outcomeStatus": "completed",
            "repair": null,
            "allowedNextActions": ["accept_manager_invitation"],
            "operatorIdentity": {
                "operatorIdentityId": minted(4),
                "operatorIdentityDisposition": "created",
                "sideEffects": [identity],
            },
            "managerMembership": {
                "managerMembershipId": null,
                "managerMembershipStatus": null,
                "sideEffects": [],
            },
            "managerInvitation": {
                "managerInvitationStatus": "pending",
                "sideEffects": [invitation],
                "allowedNextActions": ["accept_manager_invitation"],
            },
            "authorizationRelationship": {
                "authorizationRelationshipStatus": "applied",
                "sideEffects": [relationship],
            },
            "membershipFeePolicy": {
                "membershipFeePolicyId": minted(5),
                "membershipFeePolicyRevision": 1,
                "membershipFeePolicyStatus": "recorded",
                "sideEffects": [],
            },
            "idempotentReplay": false,
        })
    }

    const FINGERPRINT: &str = "52548ce584fe4bb536bdfa84e65f74a79118e4439c3d8f5250d912606efe52f9";

    #[test]
    fn a_branch_is_created_and_answered_whole() {
        let (scenario, answer) = created();
        assert_eq!(answer, first_answer());
        assert_eq!(scenario.disposition, Disposition::Done);
        let organization = scenario.state::<Organization>(&["organization"]).unwrap();
        assert_eq!(organization.revision.number(), 2);
        assert_eq!(organization.branch_count, 1);
        let branch = branch_of(&scenario, &answer);
        assert_eq!(branch.revision, Revision::FIRST);
        assert_eq!(branch.created_at.to_string(), "2026-11-20T12:00:00.000Z");
    }

    #[test]
    fn each_side_effect_is_a_message_of_the_commit() {
        let (scenario, _) = created();
        let told: Vec<_> = scenario
            .outbox
            .iter()
            .map(|message| {
                let body: Value = serde_json::from_slice(&message.body.0).unwrap();
                (message.number, &*message.topic, body)
            })
            .collect();
        assert_eq!(
            told,
            [
                (
                    6,
                    "branch_onboarding.operator_identity",
                    json!({
                        "branchId": minted(1),
                        "status": "completed",
                        "operatorIdentityId": minted(4),
                        "branchCode": "SEOUL-1",
                        "legalName": "서울산후케어 주식회사",
                        "displayName": "서울 1지점",
                        "businessIdentity":
                            {"jurisdiction": "KR", "registrationNumber": "1248100998"},
                    })
                ),
                (
                    7,
                    "branch_onboarding.authorization_relationship",
                    json!({
                        "branchId": minted(1),
                        "status": "completed",
                        "authorizationRelationships":
                            first_answer()["authorizationRelationships"],
                    })
                ),
                (
                    8,
                    "branch_onboarding.manager_invitation",
                    json!({
                        "branchId": minted(1),
                        "status": "completed",
                        "invitationId": minted(3),
                        "email": "Mina.Kim@Example.org",
                        "displayName": "김 미나",
                    })
                ),
            ]
        );
    }

    #[test]
    fn the_branch_s_profile_stands_at_once_as_it_was_created() {
        let (mut scenario, answer) = created();
        let id = answer["branchId"].as_str().unwrap();
        let profile: BranchOfficeProfile = scenario.state(&[id]).unwrap();
        assert_eq!(
            serde_json::to_value(&profile.facts).unwrap(),
            json!({
                "displayName": "서울 1지점",
                "legalName": "서울산후케어 주식회사",
                "contactEmail": "seoul@example.org",
                "primaryPhoneNumber": "+82212345678",
                "addressLine": "04524 서울 중구 세종대로 110 1층",
                "businessRegistrationReference": "KR/1248100998",
            })
        );
        scenario.acting(manager("manager-1", id));
        let (tag, read) = scenario
            .read("read_branch_office_profile", &[("id", id)])
            .unwrap();
        assert_eq!(tag, "1");
        assert_eq!(read["revisionNumber"], 1);
        assert_eq!(read["revisionId"], Value::Null);
    }

    #[test]
    fn pending_side_effects_of_a_late_directory_are_accepted_with_a_repair() {
        let (scenario, answer) = created_with(SILENT);
        let pending = [
            effect("operator_identity", "pending", 6),
            effect("authorization_relationship", "pending", 7),
            effect("manager_invitation", "pending", 8),
        ];
        let mut expected = with(
            &first_answer(),
            &[
                ("authorizationRelationshipStatus", json!("pending")),
                ("sideEffects", json!(pending)),
                ("outcomeStatus", json!("repair_pending")),
                ("operatorIdentity.operatorIdentityId", Value::Null),
                ("operatorIdentity.operatorIdentityDisposition", Value::Null),
                ("operatorIdentity.sideEffects", json!([pending[0]])),
                ("managerInvitation.sideEffects", json!([pending[2]])),
                (
                    "authorizationRelationship.authorizationRelationshipStatus",
                    json!("pending"),
                ),
                ("authorizationRelationship.sideEffects", json!([pending[1]])),
            ],
        );
        expected["repair"] = json!({
            "repairId": minted(9),
            "scheduledAt": "2026-11-20T12:00:00.000Z",
            "pendingSideEffects": pending,
        });
        assert_eq!(answer, expected);
        assert_eq!(scenario.disposition, Disposition::Accepted);
        assert_eq!(scenario.outbox.len(), 3);

        let (scenario, answer) = created_with(INVITATION_LATE);
        assert_eq!(scenario.disposition, Disposition::Accepted);
        assert_eq!(answer["outcomeStatus"], "repair_pending");
        assert_eq!(answer["authorizationRelationshipStatus"], "applied");
        assert_eq!(
            answer["operatorIdentity"],
            first_answer()["operatorIdentity"]
        );
        assert_eq!(
            answer["repair"]["pendingSideEffects"],
            json!([effect("manager_invitation", "pending", 8)])
        );
        let told: Vec<Value> = scenario
            .outbox
            .iter()
            .map(|message| serde_json::from_slice(&message.body.0).unwrap())
            .collect();
        let statuses: Vec<_> = told.iter().map(|message| &message["status"]).collect();
        assert_eq!(statuses, ["completed", "completed", "pending"]);
    }

    #[test]
    fn a_creations_response_is_renewed_for_completed_side_effects_alone() {
        let (mut scenario, answer) = created_with(INVITATION_LATE);
        let told = |scenario: &Scenario, first: &[u8]| {
            CreateBranch::final_response(first, &scenario.own_view())
        };
        let named = json!({"branchId": answer["branchId"]}).to_string();
        let (first, disposition) = told(&scenario, named.as_bytes()).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&first).unwrap(), answer);
        assert_eq!(disposition, Disposition::Accepted);
        assert_eq!(told(&scenario, &first), None, "nothing was done");
        scenario.acting(invitee());
        let accept = json!({"expectedOnboardingRevision": 1});
        scenario
            .when("accept_manager_invitation", &[], &accept)
            .committed();
        assert_eq!(told(&scenario, &first), None, "no part of the creation");
        scenario.attempted(8, Attempt::Taken);
        let (settled, disposition) = told(&scenario, &first).unwrap();
        assert_eq!(disposition, Disposition::Done);
        let settled: Value = serde_json::from_slice(&settled).unwrap();
        assert_eq!(settled["outcomeStatus"], "completed");
        assert_eq!(settled["repair"], Value::Null);
        assert_eq!(settled["revision"], 1);
        assert_eq!(settled["managerInvitationStatus"], "pending");
    }

    #[test]
    fn a_second_branch_advances_the_organization() {
        let (mut scenario, first) = created();
        let second = create(&mut scenario, &second_creation()).committed();
        assert_eq!(second["organizationRevision"], 3);
        assert_eq!(second["revision"], 1);
        assert_ne!(second["branchId"], first["branchId"]);
        let organization = scenario.state::<Organization>(&["organization"]).unwrap();
        assert_eq!(organization.branch_count, 2);
        // The first branch's answer stays as it was.
        assert_eq!(
            branch_of(&scenario, &first)
                .founding
                .organization_revision
                .number(),
            2
        );
    }

    #[test]
    fn a_stale_revision_tells_the_current_one() {
        let mut scenario = Scenario::new();
        for standing in [1, 2] {
            let stale = [("expectedOrganizationRevision", json!(9))];
            let refusal = create(&mut scenario, &with(&creation(), &stale)).refusal();
            let told = format!(
                "The expected revision is not the organization's current one. It is {standing}."
            );
            assert_eq!(refusal.message, told);
            if standing == 1 {
                create(&mut scenario, &creation()).committed();
            }
        }
    }

    #[test]
    fn unique_values_of_a_branch_conflict_in_any_spelling() {
        let (mut scenario, _) = created();
        for (path, value, code) in [
            (
                "businessIdentity.registrationNumber",
                "1248100998",
                "business_identity_conflict",
            ),
            (
                "managerInvitation.email",
                "MINA.kim@example.ORG",
                "invitation_conflict",
            ),
        ] {
            let body = with(&second_creation(), &[(path, json!(value))]);
            assert_eq!(create(&mut scenario, &body).code(), code);
        }
    }

    #[test]
    fn an_address_is_free_again_once_its_invitation_is_accepted() {
        let (mut scenario, _) = created();
        scenario.acting(invitee());
        let accept = json!({"expectedOnboardingRevision": 1});
        scenario
            .when("accept_manager_invitation", &[], &accept)
            .committed();
        let body = with(
            &second_creation(),
            &[("managerInvitation.email", json!("mina.kim@example.org"))],
        );
        let answer = create(&mut scenario, &body).committed();
        assert_eq!(answer["managerInvitationStatus"], "pending");
    }

    #[test]
    fn another_branch_may_have_the_same_names_contact_and_address() {
        let (mut scenario, first) = created();
        let answer = create(&mut scenario, &second_creation()).committed();
        let (first, second) = (
            branch_of(&scenario, &first).founding,
            branch_of(&scenario, &answer).founding,
        );
        assert_eq!(first.legal_name, second.legal_name);
        assert_eq!(first.contact, second.contact);
        assert_eq!(first.address, second.address);
    }

    #[test]
    fn the_fingerprint_takes_both_spellings_of_a_number_for_one() {
        let scenario = Scenario::new();
        let plain = [("businessIdentity.registrationNumber", json!("1248100998"))];
        let fingerprint = scenario.fingerprint(NAME, &[], &with(&creation(), &plain));
        assert_eq!(fingerprint.to_hex(), FINGERPRINT);
    }
}
