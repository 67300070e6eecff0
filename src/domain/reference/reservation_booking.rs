//! `reservation-booking`, by the booking's identifier. The fact's revision is the reservation's.

use super::FactKind;
use crate::base::text::Ident;
use crate::domain::resource::Kind;
use crate::{json_object, wire_enum};

wire_enum! {
    /// Where a booking stands.
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
        pub mother_member_id: Ident = "motherMemberId",
        /// The branch that it belongs to.
        pub branch_profile_id: Ident = "branchProfileId",
        /// Where it stands.
        pub state: BookingState = "state",
    }
}

impl FactKind for ReservationBooking {
    const KIND: Kind = Kind {
        tag: 3,
        name: "reservation-booking",
    };
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use crate::domain::reference::Fact;
    use crate::domain::scenario::Scenario;

    use super::*;

    #[test]
    fn a_booking_comes_in_and_a_later_revision_takes_its_place() {
        let mut service = Scenario::new();
        for (revision, state) in [(4, "active"), (6, "completed"), (7, "cancelled")] {
            let facts = json!({"motherUserId": "user-1", "motherMemberId": "mother-1",
                "branchProfileId": "branch-1", "state": state});
            service.fact("reservation-booking", "booking-1", revision, facts);
            let booking = service
                .state::<Fact<ReservationBooking>>(&["booking-1"])
                .unwrap();
            assert_eq!(booking.revision.number(), revision);
            assert_eq!(
                booking.facts,
                ReservationBooking {
                    mother_user_id: Ident::from_trusted("user-1"),
                    mother_member_id: Ident::from_trusted("mother-1"),
                    branch_profile_id: Ident::from_trusted("branch-1"),
                    state: BookingState::parse(state).unwrap(),
                }
            );
        }
    }

    #[test]
    fn a_booking_has_all_its_members_and_one_of_three_states() {
        let facts = json!({"motherUserId": null, "motherMemberId": "", "state": "open"});
        let then = Scenario::new().put_fact("reservation-booking", "booking-1", 1, facts);
        assert_eq!(
            then.faults(),
            [
                ("facts.motherUserId", "wrong_type"),
                ("facts.motherMemberId", "too_short"),
                ("facts.branchProfileId", "required"),
                ("facts.state", "not_allowed"),
            ]
            .map(|(path, code)| (path.to_owned(), code))
        );
    }
}
