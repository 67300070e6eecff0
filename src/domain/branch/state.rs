//! A branch: its state, and how events change it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::business_registration::BusinessRegistrationNumber;
use super::deliveries::status_of;
use super::onboarding::{SideEffect, SideEffectKind};
use crate::base::address::Address;
use crate::base::digest::Fingerprint;
use crate::base::json::AtLeast;
use crate::base::revision::Revision;
use crate::base::shared;
use crate::base::text::{BranchCode, Email, Ident, NonBlankText, PhoneNumber};
use crate::base::time::{Date, Timestamp};
use crate::domain::follow::event_name;
use crate::domain::index::{Index, IndexKey};
use crate::domain::listing::{Filter, List, by_few, by_many, is};
use crate::domain::resource::{Kind, ReadView, Resource};
use crate::{json_object, public_events, wire_enum};

/// The permission to create branches.
pub const BRANCH_CREATE: &str = "branch:create";

wire_enum! {
    /// The jurisdiction whose register lists a business.
    pub enum Jurisdiction {
        /// Korea.
        Korea = "KR",
    }
}

wire_enum! {
    /// The lifecycle status of a branch when it is created.
    pub enum LifecycleStatus {
        /// Not open yet.
        Preparing = "preparing",
        /// Open.
        Active = "active",
    }
}

wire_enum! {
    /// The currency of a fee.
    pub enum Currency {
        /// Korean won.
        Won = "KRW",
    }
}

json_object! {
    /// Which business a branch is: one branch to a business.
    pub struct BusinessIdentity {
        /// The jurisdiction of the register.
        pub jurisdiction: Jurisdiction = "jurisdiction",
        /// Its number there.
        pub registration_number: BusinessRegistrationNumber = "registrationNumber" personal Register,
    }
}

impl BusinessIdentity {
    /// Returns the unique key that the branch of this business holds.
    #[must_use]
    pub fn name(&self) -> IndexKey {
        let number = self.registration_number.digits();
        IndexKey::new(
            Index::BusinessIdentity,
            &[self.jurisdiction.as_str(), number],
        )
    }

    /// Returns its entry in the form in which the branch's profile refers to it.
    #[must_use]
    pub fn reference(&self) -> Ident {
        let number = self.registration_number.digits();
        Ident::from_trusted(format!("{}/{number}", self.jurisdiction.as_str()))
    }
}

json_object! {
    /// How a branch is reached.
    pub struct Contact {
        /// Its e-mail address.
        pub email: Email = "email" personal Contact,
        /// Its phone number.
        pub phone_number: PhoneNumber = "phoneNumber" personal Contact,
    }
}

json_object! {
    /// Who is invited to be the first manager.
    pub struct Invitee {
        /// Where the invitation goes to.
        pub email: Email = "email" personal Contact,
        /// How the invitation speaks to them.
        pub display_name: NonBlankText = "displayName" personal Name,
    }
}

json_object! {
    /// What a branch pays for its membership.
    pub struct FeePolicy {
        /// The version of the policy.
        pub policy_version: NonBlankText = "policyVersion",
        /// The fee of a month, in units of the currency.
        pub monthly_fee_amount: AtLeast<0> = "monthlyFeeAmount",
        /// The currency.
        pub currency_code: Currency = "currencyCode",
        /// The first day on which it applies.
        pub effective_from: Date = "effectiveFrom",
    }
}

/// The values that a branch was created with; they never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Founding {
    /// The branch, in lower case: also its branchProfileId and its branchOfficeProfileId.
    pub branch_id: Uuid,
    /// The organization's revision that the creation made.
    pub organization_revision: Revision,
    /// The command's identifier.
    pub command_id: Ident,
    /// Who created it: the token's subject.
    pub subject: Box<str>,
    /// The reason.
    pub reason: NonBlankText,
    /// The fingerprint of the command's facts.
    pub fingerprint: Fingerprint,
    /// The identifier of the audit event.
    pub audit_event_id: Uuid,
    /// Its code.
    pub branch_code: BranchCode,
    /// Its name in the register.
    pub legal_name: NonBlankText,
    /// Its name for customers.
    pub display_name: NonBlankText,
    /// The business that it is.
    pub business_identity: BusinessIdentity,
    /// The ways to reach it.
    pub contact: Contact,
    /// Its postal address.
    pub address: Address,
    /// Its lifecycle status.
    pub lifecycle_status: LifecycleStatus,
    /// The person who is invited.
    pub invitee: Invitee,
    /// The identifier of the invitation.
    pub invitation_id: Uuid,
    /// The identifier of its operator, which exists once that side effect is completed.
    pub operator_identity_id: Uuid,
    /// The fees that it pays.
    pub fee_policy: FeePolicy,
    /// The identifier of that policy.
    pub fee_policy_id: Uuid,
}

impl Founding {
    /// Returns the relationships of the branch in the authorization system.
    #[must_use]
    pub fn relationships(&self) -> [RelationshipTuple; 2] {
        let tuple = |relation, subject| RelationshipTuple {
            object: format!("branch/{}", self.branch_id),
            relation,
            subject,
        };
        [
            tuple("parent", "headquarters".to_owned()),
            tuple(
                "operator",
                format!("operator-identity/{}", self.operator_identity_id),
            ),
        ]
    }
}

/// A relationship as the authorization system knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RelationshipTuple {
    object: String,
    relation: &'static str,
    subject: String,
}

/// The first manager's acceptance; it never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activation {
    /// Its identifier.
    pub activation_id: Uuid,
    /// The manager's profile.
    pub member_profile_id: Uuid,
    /// The manager's membership of the branch.
    pub branch_membership_id: Uuid,
    /// Who accepted: the token's subject.
    pub subject: Box<str>,
    /// The number of the message to the authorization system.
    pub relationship_outbox_message_id: i64,
}

/// A branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The values that it was created with.
    #[serde(with = "shared")]
    pub founding: Arc<Founding>,
    /// When it was created.
    pub created_at: Timestamp,
    /// The number of commits that it has seen.
    pub revision: Revision,
    /// The first manager; `None` until the invitation is accepted.
    pub manager: Option<Manager>,
}

/// The first manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manager {
    /// The acceptance.
    pub activation: Activation,
    /// The branch's revision at which it was accepted.
    pub accepted_revision: Revision,
    /// The time of the acceptance.
    pub accepted_at: Timestamp,
}

/// What can happen to a branch. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BranchEvent {
    /// It is created.
    Created(#[serde(with = "shared")] Arc<Founding>),
    /// The first manager accepts the invitation.
    ManagerAccepted(Activation),
}

impl Resource for Branch {
    const KIND: Kind = Kind {
        tag: 105,
        name: "branch",
    };
    type Event = BranchEvent;
    const LIST: Option<List<Self>> = Some(
        List::<Self>::by(&[
            by_few(Filter::Branch, |it| {
                Some(it.founding.branch_id.to_string().into())
            }),
            by_many(Filter::Status, |it| {
                is(it.founding.lifecycle_status.as_str())
            }),
        ])
        .fixed(),
    );

    fn apply(state: Option<Self>, event: &BranchEvent, at: Timestamp) -> Self {
        match (state, event) {
            (None, BranchEvent::Created(founding)) => Self {
                founding: Arc::clone(founding),
                created_at: at,
                revision: Revision::FIRST,
                manager: None,
            },
            (Some(mut branch), BranchEvent::ManagerAccepted(activation)) => {
                let manager = Manager {
                    activation: activation.clone(),
                    accepted_revision: branch.revision,
                    accepted_at: at,
                };
                let before = branch.manager.replace(manager);
                assert!(before.is_none(), "an invitation is accepted once");
                branch.revision = branch.revision.next();
                branch
            }
            (Some(_), BranchEvent::Created(_)) => panic!("a branch is created once"),
            (None, event) => panic!("a branch that does not exist has no {}", event_name(event)),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.founding.branch_id.to_string()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn unique_keys(&self) -> Vec<IndexKey> {
        let founding = &self.founding;
        let mut names = Vec::with_capacity(4);
        names.push(founding.business_identity.name());
        names.push(branch_code(&founding.branch_code));
        names.push(branch_command(&founding.command_id));
        if self.manager.is_none() {
            names.push(pending_invitation(&founding.invitee.email));
        }
        names
    }

    fn has_unique_key(&self, name: IndexKey) -> bool {
        let founding = &self.founding;
        // Most look-ups are those of the invitation.
        (self.manager.is_none() && pending_invitation(&founding.invitee.email) == name)
            || branch_code(&founding.branch_code) == name
            || branch_command(&founding.command_id) == name
            || founding.business_identity.name() == name
    }

    /// Only the invitation's key is ever left: the others are of values that never change.
    fn unique_keys_moved(before: &Self, next: &Self) -> Option<(Vec<IndexKey>, Vec<IndexKey>)> {
        let is_accepted = before.manager.is_none() && next.manager.is_some();
        let left = is_accepted.then(|| pending_invitation(&before.founding.invitee.email));
        Some((left.into_iter().collect(), Vec::new()))
    }

    fn secondary_keys(&self) -> Vec<IndexKey> {
        let accepted_by = self.manager.as_ref().map(|manager| {
            let subject = &manager.activation.subject;
            accepted_invitations(&self.founding.invitee.email, subject)
        });
        accepted_by.into_iter().collect()
    }

    fn validate(&self) -> Result<(), String> {
        let accepted_at = self
            .manager
            .as_ref()
            .map(|manager| manager.accepted_revision);
        if self.revision < Revision::FIRST || accepted_at.is_some_and(|at| at >= self.revision) {
            return Err(format!("revision {}", self.revision));
        }
        Ok(())
    }
}

public_events! {
    Branch by BranchEvent, read at "admin/branches/{}", revision own;

    /// A branch is founded.
    Created(founding) => "created" {
        "branchCode": BranchCode = founding.branch_code,
        "lifecycleStatus": LifecycleStatus = founding.lifecycle_status,
        "organizationRevision": Revision = founding.organization_revision,
        "invitationId": Uuid = founding.invitation_id,
    },
    /// The manager who was invited has accepted.
    ManagerAccepted(activation) => "manager-accepted" {
        "activationId": Uuid = activation.activation_id,
        "memberProfileId": Uuid = activation.member_profile_id,
        "branchMembershipId": Uuid = activation.branch_membership_id,
    },
}

impl Branch {
    /// Whether the invitation is pending, and was sent to this address.
    #[must_use]
    pub fn invites(&self, email: &str) -> bool {
        self.manager.is_none() && self.is_of_invitee(email)
    }

    /// Whether this subject has accepted the invitation to this address.
    #[must_use]
    pub fn was_accepted_by(&self, email: &str, subject: &str) -> bool {
        let accepted = |manager: &Manager| *manager.activation.subject == *subject;
        self.manager.as_ref().is_some_and(accepted) && self.is_of_invitee(email)
    }

    /// Returns the side effect that sets up the manager's relationship, once there is a manager.
    #[must_use]
    pub fn membership_effect(&self, view: &ReadView<'_>) -> Option<SideEffect> {
        let activation = &self.manager.as_ref()?.activation;
        let outbox_message_id = activation.relationship_outbox_message_id;
        Some(SideEffect {
            kind: SideEffectKind::AuthorizationRelationship,
            status: status_of(view, outbox_message_id),
            outbox_message_id,
        })
    }

    fn is_of_invitee(&self, email: &str) -> bool {
        self.founding.invitee.email.eq_ignore_ascii_case(email)
    }
}

/// Returns the unique key that the branch with this code holds.
#[must_use]
pub fn branch_code(code: &BranchCode) -> IndexKey {
    IndexKey::new(Index::BranchCode, &[code])
}

/// Returns the unique key that the branch created by this command holds.
#[must_use]
pub fn branch_command(command_id: &Ident) -> IndexKey {
    IndexKey::new(Index::BranchCommand, &[command_id])
}

/// Returns the unique key that the branch with a pending invitation to this address holds.
///
/// Addresses have ASCII letters only, so only those are put in lower case: another letter that
/// Unicode lower-cases to an ASCII one must stay a different letter.
#[must_use]
pub fn pending_invitation(email: &str) -> IndexKey {
    IndexKey::new(Index::PendingInvitation, &[&email.to_ascii_lowercase()])
}

/// Returns the key of the list of branches whose invitation to this address this subject has
/// accepted.
#[must_use]
pub fn accepted_invitations(email: &str, subject: &str) -> IndexKey {
    IndexKey::new(
        Index::AcceptedInvitation,
        &[&email.to_ascii_lowercase(), subject],
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::samples::{branch_of, created, with_email};
    use super::*;
    use crate::base::actor::ActorKind;
    use crate::base::codec;
    use crate::domain::scenario::actor;

    #[test]
    fn a_branch_holds_its_invitation_s_address_until_it_is_accepted() {
        let (scenario, answer) = created();
        let branch = branch_of(&scenario, &answer);
        let pending = pending_invitation("Mina.Kim@Example.org");
        assert!(branch.unique_keys().contains(&pending));
        assert_eq!(branch.secondary_keys(), []);
        assert!(branch.invites("MINA.KIM@example.ORG"));
        assert!(!branch.was_accepted_by("mina.kim@example.org", "manager-1"));
        let event = BranchEvent::ManagerAccepted(Activation {
            activation_id: Uuid::nil(),
            member_profile_id: Uuid::nil(),
            branch_membership_id: Uuid::nil(),
            subject: "manager-1".into(),
            relationship_outbox_message_id: 9,
        });
        let accepted = Branch::apply(Some(branch.clone()), &event, Timestamp::default());
        assert_eq!(accepted.unique_keys().len(), branch.unique_keys().len() - 1);
        assert!(!accepted.unique_keys().contains(&pending));
        assert!(branch.has_unique_key(pending) && !accepted.has_unique_key(pending));
        let moved = Branch::unique_keys_moved(&branch, &accepted);
        assert_eq!(moved, Some((vec![pending], vec![])));
        assert_eq!(
            Branch::unique_keys_moved(&accepted, &accepted),
            Some((vec![], vec![]))
        );
        assert_eq!(
            accepted.secondary_keys(),
            [accepted_invitations("MINA.KIM@EXAMPLE.ORG", "manager-1")]
        );
        assert!(!accepted.invites("mina.kim@example.org"));
        assert!(accepted.was_accepted_by("Mina.Kim@example.org", "manager-1"));
        assert!(!accepted.was_accepted_by("mina.kim@example.org", "manager-2"));
        assert!(!accepted.was_accepted_by("other@example.org", "manager-1"));
    }

    #[test]
    fn a_letter_that_only_unicode_takes_for_an_ascii_one_is_another_letter() {
        // In Unicode, the lower case of the Kelvin sign is k.
        assert_ne!(
            pending_invitation("\u{212a}im@example.org"),
            pending_invitation("kim@example.org")
        );
        let (mut scenario, _) = created();
        let impostor = actor(ActorKind::BranchManager, "manager-2");
        scenario.acting(with_email(impostor, "mina.\u{212a}im@example.org", true));
        let body = json!({"expectedOnboardingRevision": 1});
        let then = scenario.when("accept_manager_invitation", &[], &body);
        assert_eq!(then.code(), "permission_denied");
    }

    #[test]
    fn impossible_states_do_not_validate() {
        let (scenario, answer) = created();
        let branch = branch_of(&scenario, &answer);
        let mut unborn = branch;
        unborn.revision = Revision::NONE;
        assert!(unborn.validate().unwrap_err().contains("revision 0"));
    }

    #[test]
    fn a_branch_comes_out_of_records_as_it_went_in() {
        let (scenario, answer) = created();
        let branch = branch_of(&scenario, &answer);
        let bytes = codec::encode(&branch);
        assert_eq!(codec::decode::<Branch>(&bytes).unwrap(), branch);
    }
}
