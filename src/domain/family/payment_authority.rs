//! The book of the payment delegations that one payer was given for one booking.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::grant::{Grant, GrantTerms, validate_book};
use crate::base::revision::Revision;
use crate::base::text::Ident;
use crate::base::time::Instant;
use crate::domain::resource::{Kind, Name, Resource, Space};

/// The scope of paying for a reservation, the only one there is.
pub const RESERVATION_DEPOSIT: &str = "reservation_deposit";

/// A mother's authority to pay, given to a member of her family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentDelegation {
    /// What it has in common with other grants.
    pub grant: Grant,
    /// The most that may be paid, in won.
    pub maximum_authorized_amount_krw: i64,
}

/// The book.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentAuthority {
    /// The booking.
    pub reservation_booking_id: Ident,
    /// The payer.
    pub payer_member_id: Ident,
    /// How many commits the book has seen.
    pub revision: Revision,
    /// Its delegations, oldest first.
    pub delegations: Vec<PaymentDelegation>,
}

/// A delegation is granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentGranted {
    /// The booking.
    pub reservation_booking_id: Ident,
    /// The payer.
    pub payer_member_id: Ident,
    /// The terms.
    pub terms: GrantTerms,
    /// The most that may be paid, in won.
    pub maximum_authorized_amount_krw: i64,
}

/// What can happen to a book. New events go at the end: their order stands in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PaymentAuthorityEvent {
    /// A delegation is granted.
    Granted(Box<PaymentGranted>),
}

impl Resource for PaymentAuthority {
    const KIND: Kind = Kind {
        tag: 101,
        name: "payment-authority",
    };
    type Event = PaymentAuthorityEvent;

    fn apply(state: Option<Self>, event: &PaymentAuthorityEvent, at: Instant) -> Self {
        let PaymentAuthorityEvent::Granted(granted) = event;
        let mut book = state.unwrap_or_else(|| Self {
            reservation_booking_id: granted.reservation_booking_id.clone(),
            payer_member_id: granted.payer_member_id.clone(),
            revision: Revision::NONE,
            delegations: Vec::new(),
        });
        assert!(
            book.reservation_booking_id == granted.reservation_booking_id
                && book.payer_member_id == granted.payer_member_id,
            "a delegation is granted in the book of its own booking and payer"
        );
        book.delegations.push(PaymentDelegation {
            grant: Grant::new(&granted.terms, at),
            maximum_authorized_amount_krw: granted.maximum_authorized_amount_krw,
        });
        book.revision = book.revision.next();
        book
    }

    fn id(&self) -> Vec<String> {
        vec![
            self.reservation_booking_id.to_string(),
            self.payer_member_id.to_string(),
        ]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn names(&self) -> Vec<Name> {
        let ids = self
            .delegations
            .iter()
            .map(|delegation| delegation.grant.terms.grant_id);
        ids.map(|id| Self::name(&id.to_string())).collect()
    }

    fn validate(&self) -> Result<(), String> {
        if self
            .delegations
            .iter()
            .any(|held| held.maximum_authorized_amount_krw < 1)
        {
            return Err("a delegation allows no payment".to_owned());
        }
        let grants: Vec<_> = self.delegations.iter().map(|held| &held.grant).collect();
        validate_book(self.revision, &grants)
    }
}

impl PaymentAuthority {
    /// The name through which the book is found that holds this delegation.
    #[must_use]
    pub fn name(payment_delegation_id: &str) -> Name {
        Name::new(Space::PaymentDelegation, &[payment_delegation_id])
    }

    /// The delegation with this identifier.
    #[must_use]
    pub fn delegation(&self, payment_delegation_id: &str) -> Option<&PaymentDelegation> {
        self.delegations
            .iter()
            .find(|held| held.grant.is_named(payment_delegation_id))
    }

    /// The delegations that allow `amount_krw` won to be paid for `scope` at `now`.
    pub fn covering<'a>(
        &'a self,
        scope: &'a str,
        amount_krw: i64,
        now: Instant,
    ) -> impl Iterator<Item = &'a PaymentDelegation> + 'a {
        self.delegations.iter().filter(move |held| {
            held.grant.is_active(now)
                && held.grant.has_scope(scope)
                && amount_krw <= held.maximum_authorized_amount_krw
        })
    }
}

/// A delegation as its readers see it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentDelegationView<'a> {
    payment_delegation_id: Uuid,
    payer_member_id: &'a Ident,
    mother_member_id: &'a Ident,
    scopes: &'a [Ident],
    granted_by_member_id: &'a Ident,
    granted_at: Instant,
    expires_at: Instant,
    maximum_authorized_amount_krw: i64,
    reservation_booking_id: &'a Ident,
    revoked_at: Option<Instant>,
    delegation_revision: Revision,
    authority_evidence: &'a [Box<str>],
    revoked_by_member_id: Option<&'a Ident>,
    revocation_reason_code: Option<&'a Ident>,
}

impl<'a> PaymentDelegationView<'a> {
    /// The view of a delegation of this book.
    #[must_use]
    pub fn new(book: &'a PaymentAuthority, delegation: &'a PaymentDelegation) -> Self {
        let grant = &delegation.grant;
        let terms = &grant.terms;
        let revocation = grant.revocation.as_ref();
        Self {
            payment_delegation_id: terms.grant_id,
            payer_member_id: &book.payer_member_id,
            mother_member_id: &terms.mother_member_id,
            scopes: &terms.scopes,
            granted_by_member_id: &terms.mother_member_id,
            granted_at: grant.granted_at,
            expires_at: terms.expires_at,
            maximum_authorized_amount_krw: delegation.maximum_authorized_amount_krw,
            reservation_booking_id: &book.reservation_booking_id,
            revoked_at: revocation.map(|revocation| revocation.revoked_at),
            delegation_revision: grant.revision,
            authority_evidence: &terms.authority_evidence,
            revoked_by_member_id: revocation.map(|revocation| &revocation.revoked_by_member_id),
            revocation_reason_code: revocation
                .and_then(|revocation| revocation.revocation_reason_code.as_ref()),
        }
    }
}
