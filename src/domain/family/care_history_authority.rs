//! The book of the care-history access grants that one member was given for one booking.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::grant::{Grant, GrantTerms, validate_book};
use crate::base::revision::Revision;
use crate::base::text::Ident;
use crate::base::time::Instant;
use crate::domain::resource::{Kind, Name, Resource, Space};

/// The scope of reading a summary, the only one there is: no grant allows a review or a rating to
/// be changed.
pub const SUMMARY: &str = "summary";

/// The book.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareHistoryAuthority {
    /// The booking.
    pub reservation_booking_id: Ident,
    /// The member who may read.
    pub grantee_member_id: Ident,
    /// How many commits the book has seen.
    pub revision: Revision,
    /// Its grants, oldest first.
    pub grants: Vec<Grant>,
}

/// Access is granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CareHistoryAccessGranted {
    /// The booking.
    pub reservation_booking_id: Ident,
    /// The member who may read.
    pub grantee_member_id: Ident,
    /// The terms.
    pub terms: GrantTerms,
}

/// What can happen to a book. New events go at the end: their order stands in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum CareHistoryAuthorityEvent {
    /// Access is granted.
    Granted(Box<CareHistoryAccessGranted>),
}

impl Resource for CareHistoryAuthority {
    const KIND: Kind = Kind {
        tag: 102,
        name: "care-history-authority",
    };
    type Event = CareHistoryAuthorityEvent;

    fn apply(state: Option<Self>, event: &CareHistoryAuthorityEvent, at: Instant) -> Self {
        let CareHistoryAuthorityEvent::Granted(granted) = event;
        let mut book = state.unwrap_or_else(|| Self {
            reservation_booking_id: granted.reservation_booking_id.clone(),
            grantee_member_id: granted.grantee_member_id.clone(),
            revision: Revision::NONE,
            grants: Vec::new(),
        });
        assert!(
            book.reservation_booking_id == granted.reservation_booking_id
                && book.grantee_member_id == granted.grantee_member_id,
            "access is granted in the book of its own booking and member"
        );
        book.grants.push(Grant::new(&granted.terms, at));
        book.revision = book.revision.next();
        book
    }

    fn id(&self) -> Vec<String> {
        vec![
            self.reservation_booking_id.to_string(),
            self.grantee_member_id.to_string(),
        ]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn names(&self) -> Vec<Name> {
        let ids = self.grants.iter().map(|grant| grant.terms.grant_id);
        ids.map(|id| Self::name(&id.to_string())).collect()
    }

    fn validate(&self) -> Result<(), String> {
        let grants: Vec<_> = self.grants.iter().collect();
        validate_book(self.revision, &grants)
    }
}

impl CareHistoryAuthority {
    /// The name through which the book is found that holds this grant.
    #[must_use]
    pub fn name(grant_id: &str) -> Name {
        Name::new(Space::CareHistoryGrant, &[grant_id])
    }

    /// The grant with this identifier.
    #[must_use]
    pub fn grant(&self, grant_id: &str) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.is_named(grant_id))
    }
}

/// A grant as its readers see it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CareHistoryGrantView<'a> {
    reservation_care_history_access_grant_id: Uuid,
    grantee_member_id: &'a Ident,
    mother_member_id: &'a Ident,
    reservation_booking_id: &'a Ident,
    scopes: &'a [Ident],
    granted_by_member_id: &'a Ident,
    granted_at: Instant,
    expires_at: Instant,
    revoked_at: Option<Instant>,
    revision: Revision,
    authority_evidence: &'a [Box<str>],
    revoked_by_member_id: Option<&'a Ident>,
    revocation_reason_code: Option<&'a Ident>,
}

impl<'a> CareHistoryGrantView<'a> {
    /// The view of a grant of this book.
    #[must_use]
    pub fn new(book: &'a CareHistoryAuthority, grant: &'a Grant) -> Self {
        let terms = &grant.terms;
        let revocation = grant.revocation.as_ref();
        Self {
            reservation_care_history_access_grant_id: terms.grant_id,
            grantee_member_id: &book.grantee_member_id,
            mother_member_id: &terms.mother_member_id,
            reservation_booking_id: &book.reservation_booking_id,
            scopes: &terms.scopes,
            granted_by_member_id: &terms.mother_member_id,
            granted_at: grant.granted_at,
            expires_at: terms.expires_at,
            revoked_at: revocation.map(|revocation| revocation.revoked_at),
            revision: grant.revision,
            authority_evidence: &terms.authority_evidence,
            revoked_by_member_id: revocation.map(|revocation| &revocation.revoked_by_member_id),
            revocation_reason_code: revocation
                .and_then(|revocation| revocation.revocation_reason_code.as_ref()),
        }
    }
}
