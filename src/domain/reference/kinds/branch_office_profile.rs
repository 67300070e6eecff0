//! `branch-office-profile`, by profile: how a branch presents itself. The fact's revision is the
//! profile's revision number.

use crate::base::text::{Ident, Text};
use crate::domain::reference::FactKind;
use crate::domain::resource::Kind;
use crate::json_object;

json_object! {
    /// What is known of a branch's profile.
    pub struct BranchOfficeProfileFact {
        /// The name that customers see.
        pub display_name: Text = "displayName" personal Name,
        /// The name in the register.
        pub legal_name: Text = "legalName" personal Name,
        /// Where it is written to.
        pub contact_email: Text = "contactEmail" personal Contact,
        /// Where it is called.
        pub primary_phone_number: Text = "primaryPhoneNumber" personal Contact,
        /// Where it is.
        pub address_line: Text = "addressLine" personal Address,
        /// Its entry in the register of businesses.
        pub business_registration_reference: Ident = "businessRegistrationReference" personal Register,
    }
}

impl FactKind for BranchOfficeProfileFact {
    const KIND: Kind = Kind {
        tag: 16,
        name: "branch-office-profile",
    };
    const ID: &'static str = "the profile, `branchOfficeProfileId`";
}
