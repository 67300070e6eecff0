//! `reservation-financial-facts`, by booking: how its charge is shared.

use crate::base::json::{FaultCode, Reader};
use crate::base::text::{BookingId, Ident};
use crate::domain::reference::basis_points::BasisPoints;
use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::json_object;

json_object! {
    /// How a booking's charge is shared; what neither caregiver nor headquarters gets is the
    /// branch's.
    pub struct ReservationFinancialFact {
        /// The caregiver's share.
        pub caregiver_share_basis_points: BasisPoints = "caregiverShareBasisPoints",
        /// The headquarters' share; together with the caregiver's at most 10,000.
        pub headquarters_share_basis_points: BasisPoints = "headquartersShareBasisPoints",
        /// The session in which the care was delivered.
        pub care_delivery_session_code: Option<Ident> = "careDeliverySessionCode",
        /// On how many days it was delivered.
        pub delivered_day_count: Option<i64> = "deliveredDayCount",
    }
    rules at_most_the_whole(Fields)
}

fn at_most_the_whole(at: &mut Reader, fields: &Fields<'_>) {
    let caregiver = fields.caregiver_share_basis_points;
    let headquarters = fields.headquarters_share_basis_points;
    if let (Some(caregiver), Some(headquarters)) = (caregiver, headquarters)
        && caregiver.number() + headquarters.number() > BasisPoints::WHOLE
    {
        at.fault_at::<()>("headquartersShareBasisPoints", FaultCode::OutOfRange);
    }
}

impl HeldAlone for ReservationFinancialFact {
    type Id = BookingId;
}

impl FactKind for ReservationFinancialFact {
    const KIND: Kind = Kind {
        tag: 13,
        name: "reservation-financial-facts",
    };
    const ID: &'static str = "the booking, `reservationBookingId`";
}
