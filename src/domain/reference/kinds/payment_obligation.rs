//! `payment-obligation`, by its paymentId: what a mother owes for a reservation, and how it is to
//! be paid.

use crate::base::json::AtLeast;
use crate::base::text::{BookingId, BranchProfileId, FamilyAccountId, Ident, MemberId};
use crate::domain::payment_words::{PaymentMethod, PaymentPurpose};
use crate::domain::reference::FactKind;
use crate::domain::resource::Kind;
use crate::{json_object, wire_enum};

wire_enum! {
    /// An obligation's state.
    pub enum ObligationState {
        /// It is to be paid.
        Open = "open",
        /// It is paid.
        Paid = "paid",
        /// It was given up.
        Cancelled = "cancelled",
    }
}

json_object! {
    /// What is known of an obligation.
    pub struct PaymentObligation {
        /// The booking that it is for; for a consultation, the request for one.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        /// How it is to be paid.
        pub payment_method: PaymentMethod = "paymentMethod",
        /// What it is for.
        pub payment_purpose: PaymentPurpose = "paymentPurpose",
        /// How much, in won.
        pub amount_krw: AtLeast<1> = "amountKrw",
        /// The product plan that it is under.
        pub payment_product_plan_code: Ident = "paymentProductPlanCode",
        /// The mother who owes, as a user.
        pub mother_user_id: Ident = "motherUserId",
        /// The mother who owes, as a member.
        pub mother_member_id: MemberId = "motherMemberId",
        /// The branch of the reservation.
        pub branch_profile_id: BranchProfileId = "branchProfileId",
        /// The mother's family account.
        pub family_account_id: Option<FamilyAccountId> = "familyAccountId",
        /// Its state.
        pub state: ObligationState = "state",
    }
}

impl FactKind for PaymentObligation {
    const KIND: Kind = Kind {
        tag: 10,
        name: "payment-obligation",
    };
    const ID: &'static str = "the payment, `paymentId`";
}

/// A deposit by card that is still open.
#[cfg(test)]
pub(crate) fn sample() -> serde_json::Value {
    serde_json::json!({
        "reservationBookingId": "booking-1",
        "paymentMethod": "card",
        "paymentPurpose": "customer_share_deposit",
        "amountKrw": 330_000,
        "paymentProductPlanCode": "plan-1",
        "motherUserId": "mother-1",
        "motherMemberId": "member-1",
        "branchProfileId": "branch-1",
        "familyAccountId": "family-1",
        "state": "open",
    })
}
