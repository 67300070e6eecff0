//! Decides who may pre-register the payment of an obligation, and on what evidence.
//!
//! Authority needs both: the claims of the identity provider in the token, and the authorization
//! relationships that are stored here (the obligation's mother, a delegation, a finance operator's
//! relation).

use uuid::Uuid;

use super::obligation::Obligation;
use crate::base::actor::{Actor, ActorKind};
use crate::base::revision::Revision;
use crate::base::text::FamilyAccountId;
use crate::base::time::Timestamp;
use crate::base::won::Won;
use crate::domain::family::grant::{evidence, evidence_of};
use crate::domain::family::payment_authority::{
    PaymentAuthority, PaymentDelegation, RESERVATION_DEPOSIT,
};
use crate::domain::listing::{Filter, SCOPE_MAX, Scope};
use crate::domain::payment_words::PaymentActorKind;
use crate::domain::read::ReadRequest;
use crate::domain::reference::kinds::payment_obligation::PaymentObligation;
use crate::domain::reference::kinds::relationship::Relationship;
use crate::domain::reference::{Fact, FactKind};
use crate::domain::resource::ReadView;

/// The permission that a finance operator needs in the token.
pub const PAYMENT_AUTHORIZE: &str = "payment:authorize";
/// The relation of a finance operator to a branch or to the head office.
const FINANCE_OPERATOR: &str = "finance_operator";
/// The head office, as relationships name it.
const HEADQUARTERS: &str = "headquarters";

/// The delegation that a payer's authority is based on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegatedAuthority {
    /// Its identifier.
    pub payment_delegation_id: Uuid,
    /// The family account in which it was given.
    pub family_account_id: FamilyAccountId,
    /// Its revision.
    pub revision: Revision,
    /// Maximum amount that it allows to be paid, in won.
    pub maximum_authorized_amount_krw: Won,
}

/// An actor's authority over one obligation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// The capacity in which the actor has authority.
    pub kind: PaymentActorKind,
    /// The actor's member identifier; the subject where the token names none.
    pub member_id: Box<str>,
    /// The delegation, for a delegated payer.
    pub delegation: Option<DelegatedAuthority>,
    /// The facts that it is based on, each once, as `kind/id@revision`.
    pub evidence: Vec<Box<str>>,
}

/// Whether actors of this kind can have authority over any obligation.
#[must_use]
pub fn may_ever_pay(kind: ActorKind) -> bool {
    matches!(
        kind,
        ActorKind::Mother
            | ActorKind::FamilyMember
            | ActorKind::BranchFinanceOperator
            | ActorKind::HeadquartersFinanceOperator
    )
}

impl Authority {
    /// Returns the actor's authority to pay this obligation at `now`; `None` when there is none.
    #[must_use]
    pub fn over(
        obligation: &Obligation,
        actor: &Actor,
        view: &ReadView<'_>,
        now: Timestamp,
    ) -> Option<Self> {
        if obligation.mother_alone && actor.kind != ActorKind::Mother {
            return None;
        }
        let own = evidence_of(
            PaymentObligation::KIND.name,
            &obligation.payment_id,
            obligation.fact_revision,
        );
        let member = actor.member_id.as_deref().unwrap_or(&actor.subject);
        let authority = |kind, further: Option<Box<str>>| Self {
            kind,
            member_id: member.into(),
            delegation: None,
            evidence: [Some(own), further].into_iter().flatten().collect(),
        };
        match actor.kind {
            ActorKind::Mother => {
                owes(obligation, actor).then(|| authority(PaymentActorKind::Mother, None))
            }
            ActorKind::FamilyMember => {
                let amount = obligation.fact.amount_krw.into();
                let held = delegation(obligation, actor, view, amount, now)?;
                let terms = &held.grant.terms;
                let evidence = evidence_of(
                    "payment-delegation",
                    &terms.grant_id.to_string(),
                    held.grant.revision,
                );
                Some(Self {
                    delegation: Some(DelegatedAuthority {
                        payment_delegation_id: terms.grant_id,
                        family_account_id: terms.family_account_id.clone(),
                        revision: held.grant.revision,
                        maximum_authorized_amount_krw: held.maximum_authorized_amount_krw,
                    }),
                    ..authority(PaymentActorKind::DelegatedFamilyPayer, Some(evidence))
                })
            }
            ActorKind::BranchFinanceOperator => {
                let branch = ["branch/", obligation.fact.branch_profile_id.as_str()].concat();
                let evidence = operates(&branch, actor, view)?;
                Some(authority(
                    PaymentActorKind::BranchFinanceOperator,
                    Some(evidence),
                ))
            }
            ActorKind::HeadquartersFinanceOperator => {
                let evidence = operates(HEADQUARTERS, actor, view)?;
                Some(authority(
                    PaymentActorKind::HeadquartersFinanceOperator,
                    Some(evidence),
                ))
            }
            ActorKind::BranchManager
            | ActorKind::HeadquartersAdministrator
            | ActorKind::SystemWorkflow => None,
        }
    }
}

/// Whether the actor is the mother who owes the obligation, both as a user and as a member.
fn owes(obligation: &Obligation, actor: &Actor) -> bool {
    let fact = &obligation.fact;
    actor.kind == ActorKind::Mother
        && fact.mother_user_id == *actor.subject
        && actor.member_id.as_ref() == Some(&fact.mother_member_id)
}

/// Returns the active delegation of the owing mother that lets the actor pay `amount_krw` won for
/// the obligation's booking.
fn delegation(
    obligation: &Obligation,
    actor: &Actor,
    view: &ReadView<'_>,
    amount_krw: Won,
    now: Timestamp,
) -> Option<PaymentDelegation> {
    let fact = &obligation.fact;
    let member = actor.member_id.as_ref()?;
    PaymentAuthority::latest_of(view, &fact.reservation_booking_id, member).filter(|held| {
        held.covers(RESERVATION_DEPOSIT, amount_krw, now)
            && held.grant.terms.mother_member_id == fact.mother_member_id
    })
}

/// Returns the evidence that the actor is a finance operator of `object`, both by the token and by a
/// fact.
fn operates(object: &str, actor: &Actor, view: &ReadView<'_>) -> Option<Box<str>> {
    if !actor.has_permission(PAYMENT_AUTHORIZE) {
        return None;
    }
    let list = Relationship::applied(object, FINANCE_OPERATOR, &actor.subject);
    let applied = view.all_listed::<Fact<Relationship>>(list);
    // Several facts may apply one relationship; the choice among them as evidence must be
    // deterministic.
    let first = applied.into_iter().min_by(|a, b| a.id.cmp(&b.id))?;
    Some(evidence(&first))
}

/// Whether the actor may read data of the obligation's payment: allowed are whoever may pay it, the
/// head office, a manager of its branch, and a payer whose delegation is active, whatever its
/// maximum.
#[must_use]
pub fn may_read(
    obligation: &Obligation,
    actor: &Actor,
    view: &ReadView<'_>,
    now: Timestamp,
) -> bool {
    actor.is_headquarters()
        || actor.manages_branch(&obligation.fact.branch_profile_id)
        || Authority::over(obligation, actor, view, now).is_some()
        || actor.kind == ActorKind::FamilyMember
            && delegation(obligation, actor, view, Won::ZERO, now).is_some()
}

/// Returns the part of the obligations that a finance operator may be shown: those of the branches
/// that relationships name, or all if one names the head office.
#[must_use]
pub fn finance_scope(request: &ReadRequest<'_>) -> Scope {
    let actor = request.actor;
    if !actor.has_permission(PAYMENT_AUTHORIZE) {
        return Scope::NOTHING;
    }
    if actor.kind == ActorKind::HeadquartersFinanceOperator {
        return match operates(HEADQUARTERS, actor, request.view) {
            Some(_) => Scope::All,
            None => Scope::NOTHING,
        };
    }
    let list = Relationship::of_subject(FINANCE_OPERATOR, &actor.subject);
    let Some(applied) = request
        .view
        .at_most_listed::<Fact<Relationship>>(list, SCOPE_MAX)
    else {
        return Scope::All;
    };
    let branches = applied.iter().filter_map(|held| {
        let branch = held.facts.object.strip_prefix("branch/")?;
        Some(branch.to_owned())
    });
    let branches: Vec<_> = branches.collect();
    let moved = Scope::any(Filter::MovedToBranch, &branches);
    Scope::any(Filter::Branch, &branches).or(moved)
}
