//! `candidate-snapshot`, by snapshot: the caregivers that matching found for a booking, frozen.
//! The fact's revision is the snapshot's.

use crate::base::text::{BookingId, CaregiverId, Ident};
use crate::base::time::Timestamp;
use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::json_object;

json_object! {
    /// A caregiver who could serve.
    pub struct Candidate {
        /// The caregiver.
        pub caregiver_profile_id: CaregiverId = "caregiverProfileId",
        /// As what.
        pub role: Ident = "role",
        /// The proof that the caregiver has the time.
        pub schedule_proof_id: Ident = "scheduleProofId",
        /// Whether the caregiver comes from outside the branch's area.
        pub other_area_service: bool = "otherAreaService",
    }
}

json_object! {
    /// What is known of a snapshot.
    pub struct CandidateSnapshotFact {
        /// The request that was matched.
        pub matching_request_key: Ident = "matchingRequestKey",
        /// The booking that it was made for.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        /// From when on it may not be used for assignments.
        pub expires_at: Timestamp = "expiresAt",
        /// Who could serve.
        pub candidates: Vec<Candidate> = "candidates",
    }
}

impl HeldAlone for CandidateSnapshotFact {
    type Id = str;
}

impl FactKind for CandidateSnapshotFact {
    const KIND: Kind = Kind {
        tag: 11,
        name: "candidate-snapshot",
    };
    const ID: &'static str = "the snapshot, `selectedCandidateSnapshotId`";
}
