//! `reservation-booking`, by the booking's identifier. The fact's revision is the reservation's.

use crate::base::text::{BookingId, BranchProfileId, Ident, MemberId};
use crate::domain::listing::Filter;
use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::{json_object, wire_enum};

wire_enum! {
    /// A booking's state.
    pub enum BookingState {
        /// The care is to come, or under way.
        Active = "active",
        /// The care was given.
        Completed = "completed",
        /// It will not be given.
        Cancelled = "cancelled",
    }
}

json_object! {
    /// What is known of a booking.
    pub struct ReservationBooking {
        /// The user, a token's subject, of the mother who booked.
        pub mother_user_id: Ident = "motherUserId",
        /// The member that the mother is.
        pub mother_member_id: MemberId = "motherMemberId",
        /// The branch that it belongs to.
        pub branch_profile_id: BranchProfileId = "branchProfileId",
        /// Its state.
        pub state: BookingState = "state",
    }
}

impl HeldAlone for ReservationBooking {
    type Id = BookingId;
}

impl FactKind for ReservationBooking {
    const KIND: Kind = Kind {
        tag: 3,
        name: "reservation-booking",
    };
    const ID: &'static str = "the booking, `reservationBookingId`";

    fn filter_values(&self) -> Vec<(Filter, &str)> {
        vec![
            (Filter::Branch, &self.branch_profile_id),
            (Filter::Mother, &self.mother_user_id),
        ]
    }
}
