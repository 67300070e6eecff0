//! `mother-profile`, by motherProfileId: whose profile it is, the state of the account, what the
//! identity provider has verified. The first fact creates the profile; the resource that holds both
//! is [`MotherProfile`].
//!
//! [`MotherProfile`]: crate::domain::mother::state::MotherProfile

use crate::base::address::Address;
use crate::base::json::{FaultCode, FromJson as _, Shape};
use crate::base::text::{Email, FullName, Ident, PhoneNumber, Text, TrimmedId};
use crate::base::time::{Date, Timestamp};
use crate::domain::index::{Index, IndexKey};
use crate::domain::reference::{FactKind, fault_of};
use crate::domain::resource::Kind;
use crate::{json_object, wire_enum};

wire_enum! {
    /// The state of a mother's account.
    pub enum AccountLifecycle {
        /// In use.
        Active = "active",
        /// Its withdrawal was asked for.
        WithdrawalPending = "withdrawal_pending",
        /// It was withdrawn.
        Withdrawn = "withdrawn",
    }
}

wire_enum! {
    /// The state of the relationship that makes the profile its owner's.
    pub enum OwnershipState {
        /// On its way.
        Pending = "pending",
        /// In place.
        Applied = "applied",
        /// It failed, and is to be repaired.
        RepairRequired = "repair_required",
    }
}

json_object! {
    /// An e-mail address that the identity provider has verified.
    pub struct VerifiedEmail {
        /// The receipt of the verification.
        pub receipt_id: TrimmedId = "receiptId",
        /// The address.
        pub normalized_value: Email = "normalizedValue" personal Contact,
        /// When it was verified.
        pub verified_at: Timestamp = "verifiedAt",
    }
}

json_object! {
    /// A phone number that the identity provider has verified.
    pub struct VerifiedPhone {
        /// The receipt of the verification.
        pub receipt_id: TrimmedId = "receiptId",
        /// The number.
        pub normalized_value: PhoneNumber = "normalizedValue" personal Contact,
        /// When it was verified.
        pub verified_at: Timestamp = "verifiedAt",
    }
}

json_object! {
    /// What other systems know of a mother's profile.
    pub struct MotherProfileFact {
        /// The subject whose profile it is: one profile to a subject, for good.
        pub owner_subject: Text = "ownerSubject",
        /// The account; counts in the first fact only.
        pub mother_account_id: TrimmedId = "motherAccountId",
        /// The account's state.
        pub account_lifecycle: AccountLifecycle = "accountLifecycle",
        /// The mother's name; counts in the first fact only.
        pub full_name: FullName = "fullName" personal Name,
        /// The mother's day of birth; counts in the first fact only.
        pub birth_date: Date = "birthDate" personal Birth,
        /// The mother's e-mail address.
        pub email: Email = "email" personal Contact,
        /// The mother's phone number.
        pub primary_phone_number: PhoneNumber = "primaryPhoneNumber" personal Contact,
        /// The mother's address; counts in the first fact only.
        pub address: Address = "address" personal Address,
        /// The e-mail address that was verified last.
        pub verified_email: Option<VerifiedEmail> = "verifiedEmail",
        /// The phone number that was verified last.
        pub verified_phone: Option<VerifiedPhone> = "verifiedPhone",
        /// The state of the relationship of ownership.
        pub ownership_state: OwnershipState = "ownershipState",
        /// The receipt of the relationship.
        pub relationship_receipt_id: Option<Ident> = "relationshipReceiptId",
        /// When the relationship was put in place.
        pub applied_at: Option<Timestamp> = "appliedAt",
        /// When the profile came into being; counts in the first fact only.
        pub created_at: Timestamp = "createdAt",
    }
}

impl MotherProfileFact {
    /// Whether both contacts are verified: the verified value equals the profile's own. An e-mail
    /// address is verified in its normal form, so upper and lower case are treated as equal.
    #[must_use]
    pub fn has_verified_contacts(&self) -> bool {
        let email = self.verified_email.as_ref();
        let phone = self.verified_phone.as_ref();
        email.is_some_and(|email| email.normalized_value.eq_ignore_ascii_case(&self.email))
            && phone.is_some_and(|phone| phone.normalized_value == self.primary_phone_number)
    }

    /// Whether all fields that later facts still own are the same in `other`.
    #[must_use]
    pub fn owns_the_same(&self, other: &Self) -> bool {
        self.account_lifecycle == other.account_lifecycle
            && self.email == other.email
            && self.primary_phone_number == other.primary_phone_number
            && self.verified_email == other.verified_email
            && self.verified_phone == other.verified_phone
            && self.ownership_state == other.ownership_state
            && self.relationship_receipt_id == other.relationship_receipt_id
            && self.applied_at == other.applied_at
    }
}

impl FactKind for MotherProfileFact {
    const KIND: Kind = Kind {
        tag: 4,
        name: "mother-profile",
    };
    const ID: &'static str = "the profile, `motherProfileId`";

    fn id_shape() -> Shape {
        TrimmedId::shape()
    }

    fn id_fault(id: &str) -> Option<FaultCode> {
        fault_of::<TrimmedId>(id)
    }

    fn unique_keys(&self, _: &str) -> Vec<IndexKey> {
        vec![owner(&self.owner_subject)]
    }
}

/// Returns the unique key that the profile of this subject holds.
#[must_use]
pub fn owner(subject: &str) -> IndexKey {
    IndexKey::new(Index::ProfileOwner, &[subject])
}
