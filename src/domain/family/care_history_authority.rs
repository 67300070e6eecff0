//! The care-history access grants that mothers have given, each a resource of its own; and the
//! *book* of the grants that one member was given for one booking, in which a new one is decided.

use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::grant::{Grant, GrantTerms, scopes_schema};
use crate::base::revision::Revision;
use crate::base::text::{BookingId, FamilyAccountId, Ident, MemberId};
use crate::base::time::Timestamp;
use crate::domain::listing::{Filter, List, by_few, is};
use crate::domain::resource::{Kind, ReadView, Resource};
use crate::domain::response_body::response_body;
use crate::public_events;

/// The scope of reading a summary, the only one there is: no grant allows changing a review or a
/// rating.
pub const SUMMARY: &str = "summary";

/// A care-history access grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareHistoryGrant {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The member who may read.
    pub grantee_member_id: MemberId,
    /// The part that all kinds of grants have in common.
    pub grant: Grant,
}

/// The event that access is granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareHistoryAccessGranted {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The member who may read.
    pub grantee_member_id: MemberId,
    /// The terms.
    pub terms: GrantTerms,
}

/// What can happen to a grant. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum CareHistoryGrantEvent {
    /// It is granted.
    Granted(Box<CareHistoryAccessGranted>),
}

impl Resource for CareHistoryGrant {
    const KIND: Kind = Kind {
        tag: 113,
        name: "care-history-access-grant",
    };
    type Event = CareHistoryGrantEvent;
    const LIST: Option<List<Self>> = Some(
        List::<Self>::by(&[
            by_few(Filter::Booking, |it| is(&it.reservation_booking_id)),
            by_few(Filter::GrantedBy, |it| is(&it.grant.terms.mother_member_id)),
            by_few(Filter::GrantedTo, |it| is(&it.grantee_member_id)),
        ])
        .bound(
            |it| Some(&it.reservation_booking_id),
            &[Filter::Branch, Filter::Mother],
        ),
    );

    fn apply(state: Option<Self>, event: &CareHistoryGrantEvent, at: Timestamp) -> Self {
        let CareHistoryGrantEvent::Granted(granted) = event;
        assert!(state.is_none(), "access is granted once");
        Self {
            reservation_booking_id: granted.reservation_booking_id.clone(),
            grantee_member_id: granted.grantee_member_id.clone(),
            grant: Grant::new(&granted.terms, at),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.grant.terms.grant_id.to_string()]
    }

    fn revision(&self) -> Revision {
        self.grant.revision
    }

    fn validate(&self) -> Result<(), String> {
        self.grant.validate()
    }
}

public_events! {
    CareHistoryGrant by CareHistoryGrantEvent,
        read at "reservation-care-history-access-grants/{}", revision own;

    /// A member of the family may read the history of a reservation's care.
    Granted(granted) => "granted" {
        "reservationBookingId": BookingId = granted.reservation_booking_id,
        "familyAccountId": FamilyAccountId = granted.terms.family_account_id,
        "granteeMemberId": MemberId = granted.grantee_member_id,
        "motherMemberId": MemberId = granted.terms.mother_member_id,
        "scopes": Vec<Ident> = granted.terms.scopes,
        "expiresAt": Timestamp = granted.terms.expires_at,
    },
}

/// The book. It names only the latest grant, however many there were: there is one scope, so a
/// later grant is given only when those before it have ended, and they stay ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareHistoryAuthority {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The member who may read.
    pub grantee_member_id: MemberId,
    /// The number of grants that it has seen.
    pub revision: Revision,
    /// The latest grant.
    pub latest: Uuid,
}

/// The event that a grant is entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareHistoryGrantEntered {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The member who may read.
    pub grantee_member_id: MemberId,
    /// The grant.
    pub grant_id: Uuid,
}

/// What can happen to a book. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum CareHistoryAuthorityEvent {
    /// A grant is entered.
    Entered(Box<CareHistoryGrantEntered>),
}

impl Resource for CareHistoryAuthority {
    const KIND: Kind = Kind {
        tag: 102,
        name: "care-history-authority",
    };
    const ID_PARTS: usize = 2;
    type Event = CareHistoryAuthorityEvent;

    fn apply(state: Option<Self>, event: &CareHistoryAuthorityEvent, _: Timestamp) -> Self {
        let CareHistoryAuthorityEvent::Entered(entered) = event;
        let before = state.as_ref().map_or(Revision::NONE, |book| book.revision);
        let next = Self {
            reservation_booking_id: entered.reservation_booking_id.clone(),
            grantee_member_id: entered.grantee_member_id.clone(),
            revision: before.next(),
            latest: entered.grant_id,
        };
        assert!(
            state.is_none_or(|book| book.id() == next.id()),
            "a grant is entered in the book of its own booking and member"
        );
        next
    }

    fn id(&self) -> Vec<String> {
        vec![
            self.reservation_booking_id.as_str().to_owned(),
            self.grantee_member_id.as_str().to_owned(),
        ]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn validate(&self) -> Result<(), String> {
        if self.revision < Revision::FIRST {
            return Err(format!("a book at revision {}", self.revision));
        }
        Ok(())
    }
}

public_events! {
    CareHistoryAuthority by CareHistoryAuthorityEvent, read at "care-history-authority/{}/{}",
        revision own;

    /// Another grant counts for this grantee of this reservation.
    Entered(entered) => "grant-entered" {
        "reservationBookingId": BookingId = entered.reservation_booking_id,
        "granteeMemberId": MemberId = entered.grantee_member_id,
        "grantId": Uuid = entered.grant_id,
    },
}

impl CareHistoryAuthority {
    /// Returns the latest grant.
    #[must_use]
    pub fn latest(&self, view: &ReadView<'_>) -> Option<CareHistoryGrant> {
        view.get(&[&self.latest.to_string()])
    }
}

fn scopes(_: &mut SchemaGenerator) -> Schema {
    scopes_schema(&[SUMMARY])
}

response_body! {
    /// A grant as its readers see it.
    #[schemars(rename = "CareHistoryAccessGrant")]
    pub struct CareHistoryGrantBody<'a> from (held: &'a CareHistoryGrant) {
        let grant = &held.grant;
        let terms = &grant.terms;
        let revocation = grant.revocation.as_ref();
    } as {
        reservation_care_history_access_grant_id: Uuid = terms.grant_id,
        grantee_member_id: &'a MemberId = &held.grantee_member_id,
        mother_member_id: &'a MemberId = &terms.mother_member_id,
        reservation_booking_id: &'a BookingId = &held.reservation_booking_id,
        #[schemars(schema_with = "scopes")]
        scopes: &'a [Ident] = &terms.scopes,
        granted_by_member_id: &'a MemberId = &terms.mother_member_id,
        granted_at: Timestamp = grant.granted_at,
        expires_at: Timestamp = terms.expires_at,
        revoked_at: Option<Timestamp> = revocation.map(|revocation| revocation.revoked_at),
        revision: Revision = grant.revision,
        authority_evidence: &'a [Box<str>] = &terms.authority_evidence,
        revoked_by_member_id: Option<&'a MemberId> =
            revocation.map(|revocation| &revocation.revoked_by_member_id),
        revocation_reason_code: Option<&'a Ident> = revocation
            .and_then(|revocation| revocation.revocation_reason_code.as_ref()),
    }
}
