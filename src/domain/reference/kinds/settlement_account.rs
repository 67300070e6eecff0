//! `settlement-account`, by account: the bank account that a branch settles with. The fact's
//! revision is the account's.

use crate::base::json::{FaultCode, Reader};
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
    rules in_order(Fields)
}

fn in_order(at: &mut Reader, fields: &Fields<'_>) {
    if let (Some(from), Some(Some(until))) = (fields.effective_from, fields.effective_until)
        && until < from
    {
        at.fault_of_new_at("effectiveUntil", FaultCode::OutOfRange);
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::reference::Fact;
    use crate::domain::scenario::{Scenario, Then};

    fn account(until: &str) -> Value {
        json!({
            "branchOfficeProfileId": "branch-1",
            "purpose": "settlement",
            "bankName": "한빛은행",
            "accountHolder": "Carebook",
            "maskedAccountReference": "110-***-***456",
            "verificationState": "verified",
            "effectiveFrom": "2026-10-31",
            "effectiveUntil": until,
        })
    }

    #[test]
    fn a_stored_account_with_reversed_days_sent_again_is_unchanged() {
        let mut scenario = Scenario::new();
        let kind = "settlement-account";
        scenario.fact(kind, "account-1", 1, account("2026-10-31"));
        let mut stored: Fact<SettlementAccountFact> = scenario.state(&["account-1"]).unwrap();
        stored.facts.effective_until = Some(Date::parse("2026-10-30").unwrap());
        scenario.given(&stored);
        let then = scenario.put_fact(kind, "account-1", 1, account("2026-10-30"));
        assert!(matches!(then, Then::Answered(_)), "{then:?}");
        let then = scenario.put_fact(kind, "account-1", 2, account("2026-10-30"));
        let expected = ("facts.effectiveUntil".to_owned(), "out_of_range");
        assert_eq!(then.faults(), [expected]);
    }

    #[test]
    fn an_account_may_be_used_for_one_day_and_not_end_before_it_begins() {
        let mut scenario = Scenario::new();
        let kind = "settlement-account";
        scenario.fact(kind, "account-1", 1, account("2026-10-31"));
        let then = scenario.put_fact(kind, "account-1", 2, account("2026-10-30"));
        let expected = ("facts.effectiveUntil".to_owned(), "out_of_range");
        assert_eq!(then.faults(), [expected]);
    }
}
