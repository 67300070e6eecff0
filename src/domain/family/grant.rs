//! The common part of the two kinds of grants.

use schemars::Schema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::actor::{Actor, ActorKind};
use crate::base::json::{FromJson as _, Side};
use crate::base::revision::Revision;
use crate::base::text::{BookingId, FamilyAccountId, Ident, MemberId};
use crate::base::time::Timestamp;
use crate::domain::listing::{Filter, Scope};
use crate::domain::read::ReadRequest;
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::reference::{Fact, FactKind};

/// The terms of a grant; they never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantTerms {
    /// The grant's identifier.
    pub grant_id: Uuid,
    /// The family account that mother and member belong to.
    pub family_account_id: FamilyAccountId,
    /// The mother whose authority it is. Only she may grant, so she is also the grantor.
    pub mother_member_id: MemberId,
    /// The scopes that it allows.
    pub scopes: Vec<Ident>,
    /// The time from which on it allows nothing.
    pub expires_at: Timestamp,
    /// The facts that it is based on, as [`evidence`] writes them.
    pub authority_evidence: Vec<Box<str>>,
}

/// The end of a grant before its expiry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// The time of the revocation.
    pub revoked_at: Timestamp,
    /// The member who revoked it.
    pub revoked_by_member_id: MemberId,
    /// The reason.
    pub revocation_reason_code: Option<Ident>,
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its terms.
    pub terms: GrantTerms,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// The number of commits that it has seen.
    pub revision: Revision,
    /// Its revocation, if it was revoked.
    pub revocation: Option<Revocation>,
}

impl Grant {
    /// A grant on these terms, made at `at`.
    #[must_use]
    pub fn new(terms: &GrantTerms, at: Timestamp) -> Self {
        Self {
            terms: terms.clone(),
            granted_at: at,
            revision: Revision::FIRST,
            revocation: None,
        }
    }

    /// Whether it is in force at `now`: not revoked, and not expired.
    #[must_use]
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.revocation.is_none() && now < self.terms.expires_at
    }

    /// Whether it allows `scope`.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.terms.scopes.iter().any(|own| own == scope)
    }

    /// Whether it allows one of `scopes`.
    #[must_use]
    pub fn shares_scope(&self, scopes: &[Ident]) -> bool {
        scopes.iter().any(|scope| self.has_scope(scope))
    }

    /// Checks that it is possible. It may expire before `granted_at`: the clock decided that it had
    /// not expired, and `granted_at` is the recorded time, which may be later.
    ///
    /// # Errors
    /// A sentence that says what is impossible.
    pub fn validate(&self) -> Result<(), String> {
        let id = self.terms.grant_id;
        if self.terms.scopes.is_empty() {
            return Err(format!("{id} has no scope"));
        }
        if self.revision < Revision::FIRST {
            return Err(format!("{id} at revision {}", self.revision));
        }
        Ok(())
    }
}

/// Whether the actor is this member.
#[must_use]
pub fn is_member(actor: &Actor, member_id: &MemberId) -> bool {
    actor.member_id.as_ref() == Some(member_id)
}

/// Whether the actor is a mother and this member.
#[must_use]
pub fn is_mother(actor: &Actor, member_id: &MemberId) -> bool {
    actor.kind == ActorKind::Mother && is_member(actor, member_id)
}

/// Returns the part of a kind of grants that the actor may be shown: a member sees what it was
/// granted, a mother what she has granted, headquarters all.
#[must_use]
pub fn scope(actor: &Actor) -> Scope {
    if actor.is_headquarters() {
        return Scope::All;
    }
    let member = actor.member_id.iter();
    let granted = Scope::any(Filter::GrantedTo, member.clone());
    let granting = match actor.kind {
        ActorKind::Mother => Scope::any(Filter::GrantedBy, member),
        _ => Scope::NOTHING,
    };
    granted.or(granting)
}

/// Returns the schema in answers of the scopes of grants, of which only `known` exist.
pub fn scopes_schema(known: &'static [&'static str]) -> Schema {
    let shape = Vec::<Ident>::shape().known(known);
    Schema::try_from(shape.schema(Side::Response)).unwrap_or_default()
}

/// Whether the actor manages the branch of this booking.
#[must_use]
pub fn manages_booking(request: &ReadRequest<'_>, booking_id: &BookingId) -> bool {
    request.actor.kind == ActorKind::BranchManager
        && request
            .view
            .fact::<ReservationBooking>(booking_id)
            .is_some_and(|booking| {
                request
                    .actor
                    .manages_branch(&booking.facts.branch_profile_id)
            })
}

/// Whether `scopes` is a valid request where `allowed` is the only scope: not empty, no repeat, no
/// other scope.
#[must_use]
pub fn is_only(scopes: &[Ident], allowed: &str) -> bool {
    matches!(scopes, [scope] if scope == allowed)
}

/// Returns the evidence for authority that a fact gives: `kind/id@revision`.
#[must_use]
pub fn evidence<K: FactKind>(fact: &Fact<K>) -> Box<str> {
    evidence_of(K::KIND.name, &fact.id, fact.revision)
}

/// Returns the evidence for authority that this revision of a resource gives, as [`evidence`] writes
/// it.
#[must_use]
pub fn evidence_of(kind: &str, id: &str, revision: Revision) -> Box<str> {
    let revision = revision.to_string();
    [kind, "/", id, "@", revision.as_str()].concat().into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const START: i64 = 1_000_000;

    fn grant(number: u128, granted_at: i64, expires_at: i64) -> Grant {
        let terms = GrantTerms {
            grant_id: Uuid::from_u128(number),
            family_account_id: FamilyAccountId::from_trusted("account-1"),
            mother_member_id: MemberId::from_trusted("mother-1"),
            scopes: vec![Ident::from_trusted("summary")],
            expires_at: Timestamp::from_millis(expires_at),
            authority_evidence: Vec::new(),
        };
        Grant::new(&terms, Timestamp::from_millis(granted_at))
    }

    #[test]
    fn a_grant_is_active_until_the_millisecond_before_its_end() {
        let grant = grant(1, START, START + 10);
        assert!(grant.is_active(Timestamp::from_millis(START + 9)));
        assert!(!grant.is_active(Timestamp::from_millis(START + 10)));
    }

    #[test]
    fn a_revoked_grant_is_not_active() {
        let mut grant = grant(1, START, START + 10);
        grant.revocation = Some(Revocation {
            revoked_at: Timestamp::from_millis(START + 1),
            revoked_by_member_id: MemberId::from_trusted("mother-1"),
            revocation_reason_code: None,
        });
        assert!(!grant.is_active(Timestamp::from_millis(START + 5)));
    }

    #[test]
    fn only_the_one_scope_given_once_may_be_asked_for() {
        let scopes = |words: &[&str]| -> Vec<Ident> {
            words
                .iter()
                .map(|word| Ident::from_trusted(*word))
                .collect()
        };
        assert!(is_only(&scopes(&["summary"]), "summary"));
        for words in [
            &[][..],
            &["Summary"],
            &["summary", "summary"],
            &["summary", "rating"],
        ] {
            assert!(!is_only(&scopes(words), "summary"), "{words:?}");
        }
    }

    #[test]
    fn a_grant_has_a_scope_and_was_committed() {
        let good = grant(1, START, START + 10);
        assert_eq!(good.validate(), Ok(()));
        // The recorded time may be later than the clock's, and so after the expiry that the clock
        // judged.
        assert_eq!(grant(2, START + 1, START).validate(), Ok(()));
        let mut idle = good.clone();
        idle.terms.scopes.clear();
        assert!(idle.validate().unwrap_err().contains("no scope"));
        let mut unborn = good;
        unborn.revision = Revision::NONE;
        assert!(unborn.validate().unwrap_err().contains("revision 0"));
    }
}
