//! `settlement-account`, by account: the bank account that a branch settles with. The fact's
//! revision is the account's.

use crate::base::text::{BranchProfileId, Ident, Text};
use crate::base::time::Date;
use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::{json_object, wire_enum};

wire_enum! {
    /// Whether the account is known to be the branch's.
    pub enum VerificationState {
        /// Not yet.
        Pending = "pending",
        /// It is.
        Verified = "verified",
        /// It is not.
        Rejected = "rejected",
    }
}

json_object! {
    /// What is known of an account.
    pub struct SettlementAccountFact {
        /// The branch.
        pub branch_office_profile_id: BranchProfileId = "branchOfficeProfileId",
        /// What the account is for.
        pub purpose: Text = "purpose",
        /// The bank.
        pub bank_name: Text = "bankName" personal Bank,
        /// The holder.
        pub account_holder: Text = "accountHolder" personal Bank,
        /// The number as it may be shown.
        pub masked_account_reference: Ident = "maskedAccountReference" personal Bank,
        /// Whether it is known to be the branch's.
        pub verification_state: VerificationState = "verificationState",
        /// The first day on which it is used.
        pub effective_from: Date = "effectiveFrom",
        /// The last day on which it is used; null is without end.
        pub effective_until: Option<Date> = "effectiveUntil",
    }
}

impl HeldAlone for SettlementAccountFact {
    type Id = str;
}

impl FactKind for SettlementAccountFact {
    const KIND: Kind = Kind {
        tag: 17,
        name: "settlement-account",
    };
    const ID: &'static str = "the account, `settlementAccountId`";
}
