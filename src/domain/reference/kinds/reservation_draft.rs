//! `reservation-draft`, by draft: what a customer wants to reserve, before it is confirmed. The
//! fact's revision is the draft's.

use crate::base::json::{Reader, refuse_repeats};
use crate::base::text::{BranchProfileId, Ident, MemberId, Text};
use crate::base::time::Timestamp;
use crate::domain::reference::FactKind;
use crate::domain::resource::Kind;
use crate::{json_object, wire_enum};

wire_enum! {
    /// What comes into being when a draft is confirmed.
    pub enum ReservationIntent {
        /// A talk, and no booking.
        Consultation = "consultation",
        /// More days for an existing booking.
        Extension = "extension",
        /// A booking whose dates are open.
        PreReservation = "pre_reservation",
        /// A booking.
        FullReservation = "full_reservation",
    }
}

json_object! {
    /// What is known of a draft.
    pub struct ReservationDraftFact {
        /// The subject whose draft it is.
        pub owner_subject: Text = "ownerSubject",
        /// The mother, as a member.
        pub mother_member_id: MemberId = "motherMemberId",
        /// The branch that would serve her.
        pub branch_profile_id: BranchProfileId = "branchProfileId",
        /// What comes into being.
        pub intent: ReservationIntent = "intent",
        /// From when on it can be confirmed no more.
        pub expires_at: Timestamp = "expiresAt",
        /// The final review that counts, where there is one.
        pub current_review_projection_id: Option<Ident> = "currentReviewProjectionId",
        /// Why it cannot be confirmed; empty when it can.
        pub disabled_reason_codes: Vec<Ident> = "disabledReasonCodes" items unique,
    }
    rules each_reason_once(Fields)
}

fn each_reason_once(at: &mut Reader, fields: &Fields<'_>) {
    if let Some(codes) = fields.disabled_reason_codes {
        refuse_repeats(codes, "disabledReasonCodes", at);
    }
}

impl FactKind for ReservationDraftFact {
    const KIND: Kind = Kind {
        tag: 6,
        name: "reservation-draft",
    };
    const ID: &'static str = "the draft, `draftId`";
}
