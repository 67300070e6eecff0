//! `final-review-projection`, by projection: the facts of a draft as its customer reviewed them
//! last. The fact's revision is the review's.

use crate::base::json::{AnyObject, AtLeast, AtMost, NonEmpty, Reader, refuse_repeats};
use crate::base::text::{BookingId, DraftId, Ident, Text};
use crate::domain::payment_words::{PaymentMethod, PaymentPurpose};
use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::json_object;

json_object! {
    /// A fact that the review rests on, at the revision that was reviewed.
    pub struct ReviewDependency {
        /// The fact's kind.
        pub kind: Text = "kind",
        /// Its identifier.
        pub id: Ident = "id",
        /// Its revision at the time of review.
        pub revision: i64 = "revision",
        /// The place that a change of it concerns.
        pub field_path: Text = "fieldPath",
    }
}

json_object! {
    /// The payment that was reviewed.
    pub struct ReviewedPayment {
        /// What the customer pays, in won.
        pub payable_amount_krw: AtLeast<1> = "payableAmountKrw",
        /// How it can be paid; the first is the one preferred.
        pub eligible_payment_method_codes: NonEmpty<PaymentMethod> = "eligiblePaymentMethodCodes"
            items unique,
        /// What it is for.
        pub payment_purpose: PaymentPurpose = "paymentPurpose",
        /// The product plan that it falls under.
        pub payment_product_plan_code: Ident = "paymentProductPlanCode",
    }
    rules each_method_once(Fields)
}

fn each_method_once(at: &mut Reader, fields: &Fields<'_>) {
    if let Some(NonEmpty(methods)) = fields.eligible_payment_method_codes {
        refuse_repeats(methods, "eligiblePaymentMethodCodes", at);
    }
}

/// Maximum number of facts that a review may depend on. Confirming the review reads each of them
/// again.
pub const DEPENDENCIES_MAX: usize = 100;

json_object! {
    /// What is known of a final review.
    pub struct FinalReviewProjectionFact {
        /// The draft reviewed.
        pub draft_id: DraftId = "draftId",
        /// What the customer saw, as the reviewing system keeps it.
        pub reviewed_facts: AnyObject = "reviewedFacts" personal Open,
        /// The booking that an extension extends.
        pub extension_source_reservation_id: Option<BookingId> = "extensionSourceReservationId",
        /// The revision of the owner's eligibility catalog that was reviewed.
        pub extension_catalog_revision: Option<i64> = "extensionCatalogRevision",
        /// What the review rests on.
        pub dependencies: AtMost<ReviewDependency, DEPENDENCIES_MAX> = "dependencies",
        /// The payment reviewed.
        pub payment: ReviewedPayment = "payment",
    }
}

impl HeldAlone for FinalReviewProjectionFact {
    type Id = str;
}

impl FactKind for FinalReviewProjectionFact {
    const KIND: Kind = Kind {
        tag: 7,
        name: "final-review-projection",
    };
    const ID: &'static str = "the projection, `reservationDraftStepAuthorityProjectionId`";
}
