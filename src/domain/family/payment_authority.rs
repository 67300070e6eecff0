//! The payment delegations that mothers have given, each a resource of its own; and the *book* of
//! the delegations that one payer was given for one booking, in which a new one is decided.

use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::grant::{Grant, GrantTerms, scopes_schema};
use crate::base::json::{FromJson as _, Side, nullable};
use crate::base::revision::Revision;
use crate::base::text::{BookingId, FamilyAccountId, Ident, MemberId};
use crate::base::time::Timestamp;
use crate::base::won::Won;
use crate::domain::index::{Index, IndexKey};
use crate::domain::listing::{Filter, List, SCOPE_MAX, Scope, by_few, is};
use crate::domain::read::ReadRequest;
use crate::domain::resource::{Kind, ReadView, Resource};
use crate::domain::response_body::response_body;
use crate::public_events;

/// The scope of paying for a reservation, the only one there is.
pub const RESERVATION_DEPOSIT: &str = "reservation_deposit";

/// A mother's authority to pay, given to a member of her family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentDelegation {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The payer.
    pub payer_member_id: MemberId,
    /// The part that all kinds of grants have in common.
    pub grant: Grant,
    /// Maximum amount that may be paid, in won.
    pub maximum_authorized_amount_krw: Won,
}

/// The event that a delegation is granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentGranted {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The payer.
    pub payer_member_id: MemberId,
    /// The terms.
    pub terms: GrantTerms,
    /// Maximum amount that may be paid, in won.
    pub maximum_authorized_amount_krw: Won,
}

/// What can happen to a delegation. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PaymentDelegationEvent {
    /// It is granted.
    Granted(Box<PaymentGranted>),
}

impl Resource for PaymentDelegation {
    const KIND: Kind = Kind {
        tag: 112,
        name: "payment-delegation",
    };
    type Event = PaymentDelegationEvent;
    const LIST: Option<List<Self>> = Some(
        List::<Self>::by(&[
            by_few(Filter::Booking, |it| is(&it.reservation_booking_id)),
            by_few(Filter::GrantedBy, |it| is(&it.grant.terms.mother_member_id)),
            by_few(Filter::GrantedTo, |it| is(&it.payer_member_id)),
        ])
        .bound(
            |it| Some(&it.reservation_booking_id),
            &[Filter::Branch, Filter::Mother],
        ),
    );

    fn apply(state: Option<Self>, event: &PaymentDelegationEvent, at: Timestamp) -> Self {
        let PaymentDelegationEvent::Granted(granted) = event;
        assert!(state.is_none(), "a delegation is granted once");
        Self {
            reservation_booking_id: granted.reservation_booking_id.clone(),
            payer_member_id: granted.payer_member_id.clone(),
            grant: Grant::new(&granted.terms, at),
            maximum_authorized_amount_krw: granted.maximum_authorized_amount_krw,
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.grant.terms.grant_id.to_string()]
    }

    fn revision(&self) -> Revision {
        self.grant.revision
    }

    fn validate(&self) -> Result<(), String> {
        if self.maximum_authorized_amount_krw <= Won::ZERO {
            return Err("a delegation allows no payment".to_owned());
        }
        self.grant.validate()
    }
}

public_events! {
    PaymentDelegation by PaymentDelegationEvent, read at "family-payment-delegations/{}",
        revision own;

    /// A member of the family may pay for a reservation, up to an amount.
    Granted(granted) => "granted" {
        "reservationBookingId": BookingId = granted.reservation_booking_id,
        "familyAccountId": FamilyAccountId = granted.terms.family_account_id,
        "payerMemberId": MemberId = granted.payer_member_id,
        "motherMemberId": MemberId = granted.terms.mother_member_id,
        "scopes": Vec<Ident> = granted.terms.scopes,
        "maximumAuthorizedAmountKrw": Won = granted.maximum_authorized_amount_krw,
        "expiresAt": Timestamp = granted.terms.expires_at,
    },
}

impl PaymentDelegation {
    /// Whether it allows a payment of `amount_krw` won for `scope` at `now`.
    #[must_use]
    pub fn covers(&self, scope: &str, amount_krw: Won, now: Timestamp) -> bool {
        self.grant.is_active(now)
            && self.grant.has_scope(scope)
            && amount_krw <= self.maximum_authorized_amount_krw
    }
}

/// The book. It names only the latest delegation, however many there were: there is one scope, so a
/// later delegation is granted only when those before it have ended, and they stay ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentAuthority {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The payer.
    pub payer_member_id: MemberId,
    /// The number of delegations that it has seen.
    pub revision: Revision,
    /// The latest delegation.
    pub latest: Uuid,
}

/// The event that a delegation is entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegationEntered {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The payer.
    pub payer_member_id: MemberId,
    /// The delegation.
    pub payment_delegation_id: Uuid,
}

/// What can happen to a book. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PaymentAuthorityEvent {
    /// A delegation is entered.
    Entered(Box<DelegationEntered>),
}

impl Resource for PaymentAuthority {
    const KIND: Kind = Kind {
        tag: 101,
        name: "payment-authority",
    };
    const ID_PARTS: usize = 2;
    type Event = PaymentAuthorityEvent;

    fn apply(state: Option<Self>, event: &PaymentAuthorityEvent, _: Timestamp) -> Self {
        let PaymentAuthorityEvent::Entered(entered) = event;
        let before = state.as_ref().map_or(Revision::NONE, |book| book.revision);
        let next = Self {
            reservation_booking_id: entered.reservation_booking_id.clone(),
            payer_member_id: entered.payer_member_id.clone(),
            revision: before.next(),
            latest: entered.payment_delegation_id,
        };
        assert!(
            state.is_none_or(|book| book.id() == next.id()),
            "a delegation is entered in the book of its own booking and payer"
        );
        next
    }

    fn id(&self) -> Vec<String> {
        vec![
            self.reservation_booking_id.as_str().to_owned(),
            self.payer_member_id.as_str().to_owned(),
        ]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn secondary_keys(&self) -> Vec<IndexKey> {
        vec![books_of(&self.payer_member_id)]
    }

    fn validate(&self) -> Result<(), String> {
        if self.revision < Revision::FIRST {
            return Err(format!("a book at revision {}", self.revision));
        }
        Ok(())
    }
}

public_events! {
    PaymentAuthority by PaymentAuthorityEvent, read at "payment-authority/{}/{}", revision own;

    /// Another delegation counts for this payer of this reservation.
    Entered(entered) => "delegation-entered" {
        "reservationBookingId": BookingId = entered.reservation_booking_id,
        "payerMemberId": MemberId = entered.payer_member_id,
        "paymentDelegationId": Uuid = entered.payment_delegation_id,
    },
}

/// Returns the key of the list of the books of this payer.
fn books_of(payer_member_id: &MemberId) -> IndexKey {
    IndexKey::new(Index::PayerBooks, &[payer_member_id])
}

impl PaymentAuthority {
    /// Returns the scope of resources that have, as a value of one of these filters, a booking for
    /// which the actor was ever given authority to pay.
    #[must_use]
    pub fn bookings_of(request: &ReadRequest<'_>, filters: &[Filter]) -> Scope {
        let Some(member_id) = &request.actor.member_id else {
            return Scope::NOTHING;
        };
        let books = books_of(member_id);
        let Some(books) = request.view.at_most_listed::<Self>(books, SCOPE_MAX) else {
            return Scope::All;
        };
        let bookings = || books.iter().map(|book| &book.reservation_booking_id);
        let scopes = filters.iter().map(|filter| Scope::any(*filter, bookings()));
        scopes.fold(Scope::NOTHING, Scope::or)
    }

    /// Returns the latest delegation.
    #[must_use]
    pub fn latest(&self, view: &ReadView<'_>) -> Option<PaymentDelegation> {
        view.get(&[&self.latest.to_string()])
    }

    /// Returns the latest delegation of this payer for this booking.
    #[must_use]
    pub fn latest_of(
        view: &ReadView<'_>,
        reservation_booking_id: &BookingId,
        payer_member_id: &MemberId,
    ) -> Option<PaymentDelegation> {
        view.get::<Self>(&[reservation_booking_id, payer_member_id])?
            .latest(view)
    }
}

/// Returns the schema in answers of the scope of a delegation, or null.
pub fn scope_or_none(_: &mut SchemaGenerator) -> Schema {
    let scope = Ident::shape().known(&[RESERVATION_DEPOSIT]);
    Schema::try_from(nullable(scope.schema(Side::Response))).unwrap_or_default()
}

fn scopes(_: &mut SchemaGenerator) -> Schema {
    scopes_schema(&[RESERVATION_DEPOSIT])
}

response_body! {
    /// A delegation as its readers see it.
    #[schemars(rename = "PaymentDelegation")]
    pub struct PaymentDelegationBody<'a> from (delegation: &'a PaymentDelegation) {
        let grant = &delegation.grant;
        let terms = &grant.terms;
        let revocation = grant.revocation.as_ref();
    } as {
        payment_delegation_id: Uuid = terms.grant_id,
        payer_member_id: &'a MemberId = &delegation.payer_member_id,
        mother_member_id: &'a MemberId = &terms.mother_member_id,
        #[schemars(schema_with = "scopes")]
        scopes: &'a [Ident] = &terms.scopes,
        granted_by_member_id: &'a MemberId = &terms.mother_member_id,
        granted_at: Timestamp = grant.granted_at,
        expires_at: Timestamp = terms.expires_at,
        maximum_authorized_amount_krw: Won = delegation.maximum_authorized_amount_krw,
        reservation_booking_id: &'a BookingId = &delegation.reservation_booking_id,
        revoked_at: Option<Timestamp> = revocation.map(|revocation| revocation.revoked_at),
        delegation_revision: Revision = grant.revision,
        authority_evidence: &'a [Box<str>] = &terms.authority_evidence,
        revoked_by_member_id: Option<&'a MemberId> =
            revocation.map(|revocation| &revocation.revoked_by_member_id),
        revocation_reason_code: Option<&'a Ident> = revocation
            .and_then(|revocation| revocation.revocation_reason_code.as_ref()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn delegation(maximum_authorized_amount_krw: i64) -> PaymentDelegation {
        let terms = GrantTerms {
            grant_id: Uuid::from_u128(1),
            family_account_id: FamilyAccountId::from_trusted("account-1"),
            mother_member_id: MemberId::from_trusted("mother-1"),
            scopes: vec![Ident::from_trusted(RESERVATION_DEPOSIT)],
            expires_at: Timestamp::from_millis(2_000),
            authority_evidence: Vec::new(),
        };
        let granted = PaymentGranted {
            reservation_booking_id: BookingId::from_trusted("booking-1"),
            payer_member_id: MemberId::from_trusted("father"),
            terms,
            maximum_authorized_amount_krw: Won::new(maximum_authorized_amount_krw),
        };
        let event = PaymentDelegationEvent::Granted(Box::new(granted));
        PaymentDelegation::apply(None, &event, Timestamp::from_millis(1_000))
    }

    #[test]
    fn a_delegation_that_cannot_be_is_refused() {
        assert_eq!(delegation(1).validate(), Ok(()));
        assert_eq!(delegation(i64::MAX).validate(), Ok(()));
        for nothing in [0, -1, i64::MIN] {
            let refused = delegation(nothing).validate();
            assert_eq!(refused, Err("a delegation allows no payment".to_owned()));
        }
        // The checks of all grants also apply to this one.
        let mut idle = delegation(1);
        idle.grant.terms.scopes.clear();
        assert!(idle.validate().is_err());
        let mut unborn = delegation(1);
        unborn.grant.revision = Revision::NONE;
        assert!(unborn.validate().is_err());
    }

    #[test]
    fn a_book_that_cannot_be_is_refused() {
        let entered = DelegationEntered {
            reservation_booking_id: BookingId::from_trusted("booking-1"),
            payer_member_id: MemberId::from_trusted("father"),
            payment_delegation_id: Uuid::from_u128(1),
        };
        let event = PaymentAuthorityEvent::Entered(Box::new(entered));
        let mut book = PaymentAuthority::apply(None, &event, Timestamp::from_millis(1_000));
        assert_eq!(book.validate(), Ok(()));
        book.revision = Revision::NONE;
        assert!(book.validate().is_err());
    }
}
