//! `extension-eligibility`, by the owner's subject: the bookings that the owner may extend. The
//! fact's revision is the catalog's.

use crate::base::text::BookingId;
use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::json_object;

json_object! {
    /// What an owner may extend.
    pub struct ExtensionEligibilityFact {
        /// The bookings that may be extended.
        pub eligible_reservation_booking_ids: Vec<BookingId> = "eligibleReservationBookingIds",
    }
}

impl HeldAlone for ExtensionEligibilityFact {
    type Id = str;
}

impl FactKind for ExtensionEligibilityFact {
    const KIND: Kind = Kind {
        tag: 8,
        name: "extension-eligibility",
    };
    const ID: &'static str = "the owner's subject, `sub`";
}
