//! Headquarters, or a manager of the branch, updates how the branch presents itself.
//!
//! Resource: the profile. Rejections, in the order tested: the actor may not, or there is no such
//! profile (403: authority over what cannot be found cannot be proved); the profile's revision is
//! stale, the identifier of the new revision is in use (409). The profile, which is a fact as well,
//! advances by one revision. A later fact of it has to have a higher one.

use super::office_profile::{
    BranchOfficeProfile, BranchOfficeProfileEvent, ProfileRevision, ProfileRevisionBody,
    ProfileRevisionEvent, ProfileUpdated, Update, may_update,
};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::{BodyKey, BranchProfileId, Ident, Text};
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::Ladder;
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::reference::kinds::branch_office_profile::BranchOfficeProfileFact;
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, rejections};

json_object! {
    /// The body of the request.
    pub struct Command {
        /// The idempotency key.
        pub command_id: BodyKey = "commandId",
        /// The new revision's identifier.
        pub revision_id: Ident = "revisionId",
        /// The profile.
        pub branch_office_profile_id: BranchProfileId = "branchOfficeProfileId",
        /// The profile's revision as the actor saw it.
        pub expected_revision: i64 = "expectedRevision",
        /// The name that customers see.
        pub display_name: Text = "displayName" personal Name,
        /// The name in the register.
        pub legal_name: Text = "legalName" personal Name,
        /// Where the branch is written to.
        pub contact_email: Text = "contactEmail" personal Contact,
        /// Where it is called.
        pub primary_phone_number: Text = "primaryPhoneNumber" personal Contact,
        /// Where it is.
        pub address_line: Text = "addressLine" personal Address,
        /// Its entry in the register of businesses.
        pub business_registration_reference: Ident = "businessRegistrationReference" personal Register,
        /// Why.
        pub reason: Text = "reason" personal FreeText,
    }
}

rejections! {
    /// Why a profile is not updated.
    pub enum Reason {
        /// Authority.
        NotPermitted = Forbidden "permission_denied" []
            "Only headquarters or a manager of the branch may update its profile.",
        /// The revision is stale.
        RevisionStale = Conflict "revision_stale" ["expectedRevision"]
            "The expected revision is not the current one: read again, then decide.",
        /// The identifier is given.
        RevisionIdConflict = Conflict "revision_id_conflict" ["revisionId"]
            "A revision with this identifier already exists.",
    }
}

/// The operation.
pub struct UpdateBranchOfficeProfile;

impl Operation for UpdateBranchOfficeProfile {
    type Command = Command;
    type Resource = BranchOfficeProfile;
    type Answer = ProfileRevisionBody<'static>;

    const DOC: &'static str = module_doc!("update_branch_office_profile.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::HeadquartersAdministrator,
        body: r#"{
  "commandId": "command-1",
  "revisionId": "revision-1",
  "branchOfficeProfileId": "branch-seoul-1",
  "expectedRevision": 1,
  "displayName": "서울 본점",
  "legalName": "서울산후케어 주식회사",
  "contactEmail": "seoul-1@example.com",
  "primaryPhoneNumber": "+82212345678",
  "addressLine": "서울특별시 중구 세종대로 110",
  "businessRegistrationReference": "business-registration-1",
  "reason": "A new name."
}"#,
        changed_value: ("/reason", r#""Another.""#),
        needs_facts: &[("branch-office-profile", "branch-seoul-1")],
        unique_ids: &["branch-seoul-1", "command-1", "revision-1"],
        id_in_response: "revision-1",
        ..Example::NEW
    };
    const KEY_FIELD: Option<&'static str> = Some("commandId");

    #[cfg(test)]
    fn ladder() -> Ladder {
        Ladder::of(&[
            ActorKind::BranchManager,
            ActorKind::HeadquartersAdministrator,
        ])
        .then(Reason::NotPermitted, |case| case.by(ActorKind::Mother))
        .then(Reason::RevisionStale, |case| {
            case.set("/expectedRevision", 9)
        })
        .then(Reason::RevisionIdConflict, |case| {
            case.done_before(|_| ()).set("/expectedRevision", 2)
        })
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        Some(BranchOfficeProfile::KIND.key(&[&command.branch_office_profile_id]))
    }

    fn key(command: &Command) -> Option<&str> {
        Some(command.command_id.as_str())
    }

    fn decide(
        state: Option<&BranchOfficeProfile>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<BranchOfficeProfile>, Rejection> {
        if !may_update(context.actor, &command.branch_office_profile_id) {
            return Err(Reason::NotPermitted.into());
        }
        let Some(profile) = state else {
            return Err(Reason::NotPermitted.into());
        };
        if command.expected_revision != profile.revision.number() {
            return Err(Reason::RevisionStale.into());
        }
        let standing = context.view.get::<ProfileRevision>(&[&command.revision_id]);
        if standing.is_some() {
            return Err(Reason::RevisionIdConflict.into());
        }
        let event = BranchOfficeProfileEvent::Updated(Box::new(ProfileUpdated {
            update: Update {
                revision_id: command.revision_id.clone(),
                subject: context.actor.subject.clone(),
                reason: command.reason.clone(),
            },
            facts: BranchOfficeProfileFact {
                display_name: command.display_name.clone(),
                legal_name: command.legal_name.clone(),
                contact_email: command.contact_email.clone(),
                primary_phone_number: command.primary_phone_number.clone(),
                address_line: command.address_line.clone(),
                business_registration_reference: command.business_registration_reference.clone(),
            },
        }));
        let mut commit = Commit::new(state, event, context.at);
        let made = ProfileRevision {
            revision_id: command.revision_id.clone(),
            branch_office_profile_id: commit.next.id.clone(),
            revision_number: commit.next.revision,
        };
        commit.create::<ProfileRevision>(&ProfileRevisionEvent::Made(Box::new(made)));
        let body = to_json(&ProfileRevisionBody::new(&commit.next));
        commit.answer(body)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{created, summary};
    use crate::base::actor::ActorKind;
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, actor, headquarters, manager, with};

    const NAME: &str = "update_branch_office_profile";
    const KIND: &str = "branch-office-profile";

    fn facts() -> Value {
        json!({
            "displayName": "서울 1지점",
            "legalName": "서울산후케어 주식회사",
            "contactEmail": "seoul@example.org",
            "primaryPhoneNumber": "+82212345678",
            "addressLine": "서울 중구 세종대로 110",
            "businessRegistrationReference": "KR/1248100998",
        })
    }

    fn update() -> Value {
        json!({
            "commandId": "update-1",
            "revisionId": "revision-1",
            "branchOfficeProfileId": "branch-1",
            "expectedRevision": 3,
            "displayName": "서울 본점",
            "legalName": "서울산후케어",
            "contactEmail": "hello@example.org",
            "primaryPhoneNumber": "02-123-4567",
            "addressLine": "서울 중구 세종대로 111",
            "businessRegistrationReference": "register-2",
            "reason": "It has moved.",
        })
    }

    /// Makes a service with two profiles, the first at revision 3, the second at 1; the first one's
    /// manager acts.
    fn ready() -> Scenario {
        let mut scenario = Scenario::new();
        scenario
            .fact(KIND, "branch-1", 3, facts())
            .fact(KIND, "branch-2", 1, facts())
            .at("2026-11-21T00:00:00Z")
            .acting(manager("manager-1", "branch-1"));
        scenario
    }

    fn read(scenario: &Scenario, id: &str) -> (String, Value) {
        scenario
            .read("read_branch_office_profile", &[("id", id)])
            .unwrap()
    }

    #[test]
    fn the_profile_is_updated_and_the_fact_with_it() {
        let mut scenario = ready();
        let answer = scenario.when(NAME, &[], &update()).committed();
        assert_eq!(
            answer,
            json!({
                "revisionId": "revision-1",
                "branchOfficeProfileId": "branch-1",
                "revisionNumber": 4,
                "factGroup": "profile",
                "actorId": "manager-1",
                "reason": "It has moved.",
                "effectiveAt": "2026-11-21T00:00:00.000Z",
            })
        );
        assert_eq!(read(&scenario, "branch-1"), ("4".to_owned(), answer));
        assert!(scenario.outbox.is_empty());
        let mut workflow = actor(ActorKind::SystemWorkflow, "workflow");
        workflow.permissions.push("facts:read".into());
        let path = [("kind", KIND), ("id", "branch-1")];
        let (tag, fact) = scenario.acting(workflow).read("read_fact", &path).unwrap();
        assert_eq!(tag, "4");
        let mut expected = update();
        for member in [
            "commandId",
            "revisionId",
            "branchOfficeProfileId",
            "expectedRevision",
            "reason",
        ] {
            expected.as_object_mut().unwrap().remove(member).unwrap();
        }
        assert_eq!(fact["facts"], expected);
    }

    #[test]
    fn nobody_can_tell_an_unknown_profile_from_a_forbidden_one() {
        let unknown = [("branchOfficeProfileId", json!("branch-9"))];
        for reader in [headquarters(), manager("manager-1", "branch-9")] {
            let mut scenario = ready();
            scenario.acting(reader);
            let refusal = scenario
                .when(NAME, &[], &with(&update(), &unknown))
                .refusal();
            assert_eq!(
                summary(&refusal),
                (Class::Forbidden, "permission_denied", vec![])
            );
        }
    }

    #[test]
    fn the_thousandth_update_costs_no_more_and_no_identifier_is_forgotten() {
        let mut scenario = ready();
        let mut costs = Vec::new();
        for number in 0..1_000 {
            let body = with(
                &update(),
                &[
                    ("commandId", json!(format!("update-{number:04}"))),
                    ("revisionId", json!(format!("revision-{number:04}"))),
                    ("expectedRevision", json!(3 + number)),
                ],
            );
            scenario.when(NAME, &[], &body).committed();
            costs.push(scenario.cost);
        }
        let (least, most) = (costs[0], costs[999]);
        println!("the first update: {least:?}, the thousandth: {most:?}");
        // A revision takes a few more bytes when it is larger.
        assert!(most.record <= least.record + 16, "{least:?}, {most:?}");
        assert!(most.states <= least.states + 16, "{least:?}, {most:?}");
        let again = with(
            &update(),
            &[
                ("commandId", json!("update-again")),
                ("revisionId", json!("revision-0000")),
                ("expectedRevision", json!(1_003)),
            ],
        );
        let refusal = scenario.when(NAME, &[], &again).refusal();
        let expected = (Class::Conflict, "revision_id_conflict", vec!["revisionId"]);
        assert_eq!(summary(&refusal), expected);
    }

    #[test]
    fn an_identifier_is_given_once_to_whatever_profile() {
        let mut scenario = ready();
        scenario.when(NAME, &[], &update()).committed();
        let next = with(
            &update(),
            &[
                ("commandId", json!("update-2")),
                ("revisionId", json!("revision-2")),
                ("expectedRevision", json!(4)),
            ],
        );
        scenario.when(NAME, &[], &next).committed();
        // Neither a later revision nor a later fact makes the first one's identifier available
        // again.
        scenario
            .fact(KIND, "branch-1", 6, facts())
            .acting(headquarters());
        for (id, expected) in [("branch-1", 6), ("branch-2", 1)] {
            for revision in ["revision-1", "revision-2"] {
                let body = with(
                    &update(),
                    &[
                        ("commandId", json!("update-3")),
                        ("branchOfficeProfileId", json!(id)),
                        ("revisionId", json!(revision)),
                        ("expectedRevision", json!(expected)),
                    ],
                );
                let refusal = scenario.when(NAME, &[], &body).refusal();
                assert_eq!(
                    summary(&refusal),
                    (Class::Conflict, "revision_id_conflict", vec!["revisionId"])
                );
            }
        }
    }

    #[test]
    fn a_later_fact_reads_as_before_the_first_update() {
        let mut scenario = ready();
        scenario.when(NAME, &[], &update()).committed();
        let mut later = facts();
        later["displayName"] = json!("서울 3지점");
        // The revision that the update made conflicts with a fact of the same number.
        let same = scenario.put_fact(KIND, "branch-1", 4, later.clone());
        assert_eq!(same.code(), "conflict");
        let before = scenario.put_fact(KIND, "branch-1", 3, facts());
        assert_eq!(before.code(), "stale");
        scenario
            .at("2026-11-22T00:00:00Z")
            .fact(KIND, "branch-1", 7, later);
        let (tag, body) = read(&scenario, "branch-1");
        assert_eq!(tag, "7");
        assert_eq!(
            body,
            json!({
                "revisionId": null,
                "branchOfficeProfileId": "branch-1",
                "revisionNumber": 7,
                "factGroup": "profile",
                "actorId": null,
                "reason": null,
                "effectiveAt": "2026-11-22T00:00:00.000Z",
            })
        );
        let next = with(
            &update(),
            &[
                ("revisionId", json!("revision-2")),
                ("expectedRevision", json!(7)),
            ],
        );
        let answer = scenario.when(NAME, &[], &next).committed();
        assert_eq!(answer["revisionNumber"], 8);
    }

    #[test]
    fn a_profile_born_with_its_branch_is_updated_as_any_other() {
        let (mut scenario, branch) = created();
        let changes = [
            ("branchOfficeProfileId", branch["branchId"].clone()),
            ("expectedRevision", json!(1)),
        ];
        let answer = scenario
            .when(NAME, &[], &with(&update(), &changes))
            .committed();
        assert_eq!(answer["revisionNumber"], 2);
        assert_eq!(answer["branchOfficeProfileId"], branch["branchId"]);
    }
}
