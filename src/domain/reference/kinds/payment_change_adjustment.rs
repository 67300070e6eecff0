//! `payment-change-adjustment`, by adjustment: what a change of a booking adds to, or takes from,
//! what its mother pays.

use crate::base::text::{BookingId, Ident, PaymentId};
use crate::base::time::Timestamp;
use crate::base::won::Won;
use crate::domain::index::{Index, IndexKey};
use crate::domain::reference::FactKind;
use crate::domain::resource::Kind;
use crate::{json_object, wire_enum};

wire_enum! {
    /// An adjustment's status in its own system.
    pub enum RequestedAdjustmentStatus {
        /// Asked for.
        Requested = "requested",
        /// The mother may pay it.
        Payable = "payable",
        /// It is not to be paid.
        Cancelled = "cancelled",
    }
}

json_object! {
    /// The payment that was prepared for an adjustment.
    pub struct AdjustmentPreRegistration {
        /// The payment.
        pub payment_id: PaymentId = "paymentId",
        /// Who collects it.
        pub provider_name: Ident = "providerName",
        /// When it was prepared.
        pub pre_registered_at: Timestamp = "preRegisteredAt",
    }
}

json_object! {
    /// What is known of an adjustment. Amounts are in won; each may be negative.
    pub struct PaymentChangeAdjustmentFact {
        /// The booking that changed.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        /// The mother's subject.
        pub mother_user_id: Ident = "motherUserId",
        /// The change of the customer's share.
        pub customer_delta_krw: Won = "customerDeltaKrw",
        /// What coupons change.
        pub coupon_adjustment_krw: Won = "couponAdjustmentKrw",
        /// What the customer pays without coupons.
        pub pure_customer_amount_krw: Won = "pureCustomerAmountKrw",
        /// What the mother has to pay.
        pub mother_payable_adjustment_krw: Won = "motherPayableAdjustmentKrw",
        /// Its status.
        pub adjustment_status: RequestedAdjustmentStatus = "adjustmentStatus",
        /// The payment prepared, where there is one.
        pub pre_registration: Option<AdjustmentPreRegistration> = "preRegistration",
        /// When the change was asked for.
        pub requested_at: Timestamp = "requestedAt",
    }
}

impl FactKind for PaymentChangeAdjustmentFact {
    const KIND: Kind = Kind {
        tag: 15,
        name: "payment-change-adjustment",
    };
    const ID: &'static str = "the adjustment, `paymentChangeAdjustmentId`";
}

/// Returns the key of the ranked list of a booking's adjustments: by the time of their request, and
/// at equal times by their identifiers.
#[must_use]
pub fn adjustments_of(reservation_booking_id: &BookingId) -> IndexKey {
    IndexKey::new(Index::BookingAdjustments, &[reservation_booking_id])
}
