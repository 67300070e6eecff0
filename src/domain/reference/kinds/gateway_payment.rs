//! `gateway-payment`, by its paymentId: a payment as the payment gateway holds it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize, Serializer};

use crate::base::json::{AtLeast, AtMost, FromJson, Json, Reader, Scanner, Shape};
use crate::base::text::{Ident, Text};
use crate::domain::index::{Index, IndexKey};
use crate::domain::payment_words::PaymentMethod;
use crate::domain::reference::FactKind;
use crate::domain::resource::Kind;
use crate::{json_object, schema_of_shape, wire_enum};

wire_enum! {
    /// A virtual account's state.
    pub enum VirtualAccountState {
        /// It takes money.
        Open = "open",
        /// It takes none any more.
        Closed = "closed",
    }
}

/// The method of a payment, in the gateway's word: one of this service's methods, or another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub enum GatewayMethod {
    /// `card`.
    Card,
    /// `bank`.
    Bank,
    /// `vcnt`.
    VirtualAccount,
    /// Another word.
    Other(Text),
}

impl GatewayMethod {
    fn of(word: Text) -> Self {
        match PaymentMethod::parse(&word) {
            Some(PaymentMethod::Card) => Self::Card,
            Some(PaymentMethod::Bank) => Self::Bank,
            Some(PaymentMethod::VirtualAccount) => Self::VirtualAccount,
            None => Self::Other(word),
        }
    }

    /// The word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Card => PaymentMethod::Card.as_str(),
            Self::Bank => PaymentMethod::Bank.as_str(),
            Self::VirtualAccount => PaymentMethod::VirtualAccount.as_str(),
            Self::Other(word) => word,
        }
    }
}

impl Serialize for GatewayMethod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.serialize_str(self.as_str());
        }
        let name = "GatewayMethod";
        match self {
            Self::Card => serializer.serialize_unit_variant(name, 0, "Card"),
            Self::Bank => serializer.serialize_unit_variant(name, 1, "Bank"),
            Self::VirtualAccount => serializer.serialize_unit_variant(name, 2, "VirtualAccount"),
            Self::Other(word) => serializer.serialize_newtype_variant(name, 3, "Other", word),
        }
    }
}

impl FromJson for GatewayMethod {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        Text::read(value, at).map(Self::of)
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        Text::read_straight(from).map(Self::of)
    }

    fn shape() -> Shape {
        Text::shape()
    }
}

schema_of_shape!(GatewayMethod);

/// Maximum number of search keys of a payment. Each is a list that changes with the payment.
pub const SEARCH_KEYS_MAX: usize = 100;

json_object! {
    /// What the gateway knows of a payment.
    pub struct GatewayPayment {
        /// How it is made.
        pub method: GatewayMethod = "method",
        /// How much, in won.
        pub amount_krw: AtLeast<1> = "amountKrw",
        /// The state of its virtual account, when it has one.
        pub virtual_account_state: Option<VirtualAccountState> = "virtualAccountState",
        /// The state of its refund, in the gateway's word.
        pub refund_state: Text = "refundState",
        /// The state of its chargeback, in the gateway's word.
        pub chargeback_state: Text = "chargebackState",
        /// How much of it was charged back, in won.
        pub charged_back_krw: AtLeast<0> = "chargedBackKrw",
        /// What it is found by.
        pub search_keys: AtMost<Ident, SEARCH_KEYS_MAX> = "searchKeys" personal Search,
    }
}

impl GatewayPayment {
    /// Returns the key of the list of the payments that this search key finds.
    #[must_use]
    pub fn found_by(search_key: &str) -> IndexKey {
        IndexKey::new(Index::GatewaySearchKey, &[search_key])
    }
}

impl FactKind for GatewayPayment {
    const KIND: Kind = Kind {
        tag: 19,
        name: "gateway-payment",
    };
    const ID: &'static str = "the payment, `paymentId`";

    fn secondary_keys(&self, _: &str) -> Vec<IndexKey> {
        // A key that is given twice stands for one list.
        let keys: BTreeSet<_> = self.search_keys.0.iter().collect();
        keys.into_iter().map(|key| Self::found_by(key)).collect()
    }
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
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::codec;
    use crate::base::time::Timestamp;
    use crate::domain::scenario::Scenario;

    #[test]
    fn a_method_is_any_word_and_takes_a_byte_where_it_is_one_of_the_usual() {
        for (word, bytes) in [
            ("card", vec![0]),
            ("bank", vec![1]),
            ("vcnt", vec![2]),
            ("easy pay", [&[3, 8][..], b"easy pay"].concat()),
        ] {
            let mut at = Reader::new(Timestamp::default());
            let method = GatewayMethod::read(&Json::Text(word.into()), &mut at).unwrap();
            assert_eq!(serde_json::to_value(&method).unwrap(), word);
            let encoded = codec::encode(&method);
            assert_eq!(encoded, bytes, "{word}");
            assert_eq!(codec::decode::<GatewayMethod>(&encoded).unwrap(), method);
        }
    }

    #[test]
    fn a_payment_stands_once_in_the_list_of_each_of_its_search_keys() {
        let mut scenario = Scenario::new();
        let found = |scenario: &Scenario| {
            ["order-1", "010-1234", "order-2"].map(|key| {
                scenario
                    .view(|view| view.listed(GatewayPayment::found_by(key)))
                    .len()
            })
        };
        scenario.fact("gateway-payment", "payment-1", 1, sample());
        scenario.fact("gateway-payment", "payment-2", 1, sample());
        assert_eq!(found(&scenario), [2, 2, 0]);
        let mut later = sample();
        later["searchKeys"] = json!(["order-2", "order-1", "order-2"]);
        scenario.fact("gateway-payment", "payment-1", 2, later);
        assert_eq!(found(&scenario), [2, 1, 1]);
    }
}
