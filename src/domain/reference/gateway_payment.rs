//! `gateway-payment`, by its paymentId: a payment as the payment gateway holds it.

use super::FactKind;
use crate::base::json::AtLeast;
use crate::base::text::{Ident, Text};
use crate::domain::payment::words::PaymentMethod;
use crate::domain::resource::Kind;
use crate::{members, words};

words! {
    /// Where a virtual account stands.
    pub enum VirtualAccountState {
        /// It takes money.
        Open = "open",
        /// It takes none any more.
        Closed = "closed",
    }
}

members! {
    /// What the gateway knows of a payment.
    pub struct GatewayPayment {
        /// How it is made.
        pub method: PaymentMethod = "method",
        /// How much, in won.
        pub amount_krw: AtLeast<1> = "amountKrw",
        /// Where its virtual account stands, when it has one.
        pub virtual_account_state: Option<VirtualAccountState> = "virtualAccountState",
        /// Where its refund stands, in the gateway's word.
        pub refund_state: Text = "refundState",
        /// Where its chargeback stands, in the gateway's word.
        pub chargeback_state: Text = "chargebackState",
        /// How much of it was charged back, in won.
        pub charged_back_krw: AtLeast<0> = "chargedBackKrw",
        /// What it is found by.
        pub search_keys: Vec<Ident> = "searchKeys",
    }
}

impl FactKind for GatewayPayment {
    const KIND: Kind = Kind {
        tag: 19,
        name: "gateway-payment",
    };
}

/// A payment into a virtual account that is still open.
#[cfg(test)]
pub(crate) fn sample() -> serde_json::Value {
    serde_json::json!({
        "method": "vcnt",
        "amountKrw": 330_000,
        "virtualAccountState": "open",
        "refundState": "none",
        "chargebackState": "none",
        "chargedBackKrw": 0,
        "searchKeys": ["order-1", "010-1234"],
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::reference::schema::{check, faults_with, taken_with};

    #[test]
    fn the_schema_holds() {
        check::<GatewayPayment>(&sample(), &["virtualAccountState"]);
    }

    #[test]
    fn amounts_have_their_bounds() {
        for (member, least) in [("amountKrw", 1), ("chargedBackKrw", 0)] {
            assert!(taken_with::<GatewayPayment>(
                &sample(),
                member,
                json!(least)
            ));
            assert_eq!(
                faults_with::<GatewayPayment>(&sample(), member, json!(least - 1)),
                [(format!("facts.{member}"), "out_of_range")]
            );
        }
    }

    #[test]
    fn methods_and_virtual_accounts_have_their_words_and_other_states_are_the_gateways() {
        for (member, value) in [
            ("method", "virtual_account"),
            ("virtualAccountState", "expired"),
        ] {
            assert_eq!(
                faults_with::<GatewayPayment>(&sample(), member, json!(value)),
                [(format!("facts.{member}"), "not_allowed")]
            );
        }
        for member in ["refundState", "chargebackState"] {
            assert!(taken_with::<GatewayPayment>(
                &sample(),
                member,
                json!("partially done")
            ));
        }
    }

    #[test]
    fn a_payment_may_be_found_by_nothing() {
        assert!(taken_with::<GatewayPayment>(
            &sample(),
            "searchKeys",
            json!([])
        ));
        assert_eq!(
            faults_with::<GatewayPayment>(&sample(), "searchKeys", json!(["a", " "])),
            [("facts.searchKeys[1]".to_owned(), "blank")]
        );
    }
}
