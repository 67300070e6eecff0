//! The payment gateway, as administrators use it.
//!
//! A [`Gateway`] answers requests; it changes nothing here. Its answer contains the change of the
//! payment, which is committed together with the audit. The [`EmbeddedGateway`] answers from the facts
//! of a payment, so that the same request on the same state has the same answer.

use serde::{Deserialize, Serialize};

use crate::base::digest::Fingerprint;
use crate::base::json::{AtLeast, AtMost};
use crate::base::text::{Ident, Text};
use crate::base::won::Won;
use crate::domain::operation::to_json;
use crate::domain::payment_words::OperationStatus;
use crate::domain::reference::kinds::gateway_payment::{
    GatewayMethod, GatewayPayment, SEARCH_KEYS_MAX, VirtualAccountState,
};

/// The state of a payment's chargeback once one was recorded.
const CHARGEBACK_RECORDED: &str = "recorded";

/// A request to the gateway about one payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaymentOrder {
    /// To show it.
    LookUp,
    /// To close its virtual account.
    CloseVirtualAccount,
    /// To return the state of its refund.
    InspectRefund,
    /// To return the state of its chargeback.
    InspectChargeback,
    /// To record a chargeback of this amount, at least one won.
    RecordChargeback(Won),
}

/// A payment as the gateway holds it.
#[derive(Clone, Copy, Debug)]
pub struct HeldPayment<'a> {
    /// Its identifier.
    pub payment_id: &'a str,
    /// The gateway's data of the payment.
    pub payment: &'a GatewayPayment,
}

/// A change that the gateway has made of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GatewayChange {
    /// Its virtual account is closed.
    VirtualAccountClosed,
    /// A chargeback of this amount was recorded.
    ChargebackRecorded(Won),
}

impl GatewayChange {
    /// Applies the change.
    ///
    /// # Panics
    /// When the sum of the chargebacks exceeds 64 bits, which the gateway does not allow.
    pub fn make(self, payment: &mut GatewayPayment) {
        match self {
            Self::VirtualAccountClosed => {
                payment.virtual_account_state = Some(VirtualAccountState::Closed);
            }
            Self::ChargebackRecorded(amount_krw) => {
                let after = Won::from(payment.charged_back_krw)
                    .checked_add(amount_krw)
                    .expect("no more is charged back than was paid");
                payment.charged_back_krw = AtLeast(after.number());
                payment.chargeback_state = Text::from_trusted(CHARGEBACK_RECORDED);
            }
        }
    }
}

/// The gateway's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayAnswer {
    /// Its status, at least 100, in the sense of HTTP.
    pub status_code: i64,
    /// Its code for the result.
    pub result_code: &'static str,
    /// A sentence for people.
    pub message: Option<&'static str>,
    /// Its change of the payment.
    pub change: Option<GatewayChange>,
    /// SHA-256 over the canonical form (RFC 8785) of the whole answer.
    pub evidence: Fingerprint,
}

impl GatewayAnswer {
    /// Returns whether the gateway has done what was requested.
    #[must_use]
    pub fn status(&self) -> OperationStatus {
        if self.status_code < 400 {
            OperationStatus::Succeeded
        } else {
            OperationStatus::Failed
        }
    }
}

/// A payment gateway that answers administrators' requests.
pub trait Gateway {
    /// Sends a request about one payment; `held` is the payment as it is known here.
    fn operate(&self, held: Option<HeldPayment<'_>>, order: PaymentOrder) -> GatewayAnswer;

    /// Searches for payments by a search key; `held` are the matching payments known here, in the order
    /// of their identifiers.
    fn search(&self, search_key: &str, held: &[HeldPayment<'_>]) -> GatewayAnswer;
}

/// The gateway that knows nothing but the facts.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbeddedGateway;

impl Gateway for EmbeddedGateway {
    fn operate(&self, held: Option<HeldPayment<'_>>, order: PaymentOrder) -> GatewayAnswer {
        let Some(HeldPayment {
            payment_id,
            payment,
        }) = held
        else {
            let message = "The gateway has no payment with this identifier.";
            return failed(404, "payment_not_found", message, None);
        };
        let change = match order {
            PaymentOrder::LookUp
            | PaymentOrder::InspectRefund
            | PaymentOrder::InspectChargeback => None,
            PaymentOrder::CloseVirtualAccount if has_open_account(payment) => {
                Some(GatewayChange::VirtualAccountClosed)
            }
            PaymentOrder::CloseVirtualAccount => {
                let message = "The payment has no virtual account that is open.";
                return failed(409, "virtual_account_not_open", message, held);
            }
            PaymentOrder::RecordChargeback(amount_krw) if amount_krw <= amount_left(payment) => {
                Some(GatewayChange::ChargebackRecorded(amount_krw))
            }
            PaymentOrder::RecordChargeback(_) => {
                let message = "The chargeback exceeds what is left of the payment.";
                return failed(422, "chargeback_exceeds_amount", message, held);
            }
        };
        let mut after = payment.clone();
        if let Some(change) = change {
            change.make(&mut after);
        }
        let after = HeldPayment {
            payment_id,
            payment: &after,
        };
        done(change, None, &[after])
    }

    fn search(&self, search_key: &str, held: &[HeldPayment<'_>]) -> GatewayAnswer {
        done(None, Some(search_key), held)
    }
}

/// Whether the payment goes into a virtual account that is open.
fn has_open_account(payment: &GatewayPayment) -> bool {
    let goes_elsewhere = matches!(payment.method, GatewayMethod::Card | GatewayMethod::Bank);
    !goes_elsewhere && payment.virtual_account_state == Some(VirtualAccountState::Open)
}

/// Returns how much of the payment can still be charged back, in won; negative where the facts say that
/// more was charged back than was paid.
fn amount_left(payment: &GatewayPayment) -> Won {
    // The paid amount is at least 1 and the charged-back one at least 0, so the difference is within 64
    // bits.
    Won::new(payment.amount_krw.0 - payment.charged_back_krw.0)
}

/// The gateway's whole answer, whose hash is its evidence.
///
/// Its fields, and those of nested structs, are in the order of their names, and it has no fractions:
/// so its JSON is in canonical form (RFC 8785).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Evidence<'a> {
    message: Option<&'static str>,
    payments: Vec<PaymentEvidence<'a>>,
    result_code: &'static str,
    search_key: Option<&'a str>,
    status_code: i64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PaymentEvidence<'a> {
    payment: ContentEvidence<'a>,
    payment_id: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContentEvidence<'a> {
    amount_krw: AtLeast<1>,
    chargeback_state: &'a Text,
    charged_back_krw: AtLeast<0>,
    method: &'a GatewayMethod,
    refund_state: &'a Text,
    search_keys: &'a AtMost<Ident, SEARCH_KEYS_MAX>,
    virtual_account_state: Option<VirtualAccountState>,
}

impl<'a> From<&HeldPayment<'a>> for PaymentEvidence<'a> {
    fn from(held: &HeldPayment<'a>) -> Self {
        // The pattern names each field, so that a field that is added to a payment must be added here,
        // too.
        let GatewayPayment {
            method,
            amount_krw,
            virtual_account_state,
            refund_state,
            chargeback_state,
            charged_back_krw,
            search_keys,
        } = held.payment;
        Self {
            payment: ContentEvidence {
                amount_krw: *amount_krw,
                chargeback_state,
                charged_back_krw: *charged_back_krw,
                method,
                refund_state,
                search_keys,
                virtual_account_state: *virtual_account_state,
            },
            payment_id: held.payment_id,
        }
    }
}

fn done(
    change: Option<GatewayChange>,
    search_key: Option<&str>,
    held: &[HeldPayment<'_>],
) -> GatewayAnswer {
    answer(200, "ok", None, change, search_key, held)
}

fn failed(
    status_code: i64,
    result_code: &'static str,
    message: &'static str,
    held: Option<HeldPayment<'_>>,
) -> GatewayAnswer {
    answer(
        status_code,
        result_code,
        Some(message),
        None,
        None,
        held.as_slice(),
    )
}

fn answer(
    status_code: i64,
    result_code: &'static str,
    message: Option<&'static str>,
    change: Option<GatewayChange>,
    search_key: Option<&str>,
    held: &[HeldPayment<'_>],
) -> GatewayAnswer {
    let evidence = Evidence {
        message,
        payments: held.iter().map(PaymentEvidence::from).collect(),
        result_code,
        search_key,
        status_code,
    };
    GatewayAnswer {
        status_code,
        result_code,
        message,
        change,
        evidence: Fingerprint::of(&to_json(&evidence)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::json::{FromJson, Json, Reader, VALUES_MAX};
    use crate::base::time::Timestamp;
    use crate::domain::reference::kinds::gateway_payment::sample;
    use crate::domain::scenario::with;

    fn payment(changes: &[(&str, Value)]) -> GatewayPayment {
        let text = with(&sample(), changes).to_string();
        let json = Json::parse(text.as_bytes()).unwrap();
        GatewayPayment::read(&json, &mut Reader::new(Timestamp::default())).unwrap()
    }

    fn operate(payment: &GatewayPayment, order: PaymentOrder) -> GatewayAnswer {
        let held = HeldPayment {
            payment_id: "payment-1",
            payment,
        };
        EmbeddedGateway.operate(Some(held), order)
    }

    fn outcome(answer: &GatewayAnswer) -> (i64, &'static str, bool) {
        assert_eq!(
            answer.status() == OperationStatus::Succeeded,
            answer.message.is_none()
        );
        (
            answer.status_code,
            answer.result_code,
            answer.change.is_some(),
        )
    }

    #[test]
    fn a_search_may_find_more_than_a_request_may_hold() {
        let payment = payment(&[]);
        let held = HeldPayment {
            payment_id: "payment-1",
            payment: &payment,
        };
        let answer = EmbeddedGateway.search("everybody", &vec![held; VALUES_MAX / 5]);
        assert_eq!(outcome(&answer), (200, "ok", false));
    }

    #[test]
    fn an_unknown_payment_fails_whatever_is_asked() {
        for order in [
            PaymentOrder::LookUp,
            PaymentOrder::CloseVirtualAccount,
            PaymentOrder::InspectRefund,
            PaymentOrder::InspectChargeback,
            PaymentOrder::RecordChargeback(Won::new(1)),
        ] {
            let answer = EmbeddedGateway.operate(None, order);
            assert_eq!(outcome(&answer), (404, "payment_not_found", false));
        }
    }

    #[test]
    fn looking_changes_nothing() {
        for order in [
            PaymentOrder::LookUp,
            PaymentOrder::InspectRefund,
            PaymentOrder::InspectChargeback,
        ] {
            let answer = operate(&payment(&[]), order);
            assert_eq!(outcome(&answer), (200, "ok", false));
        }
    }

    #[test]
    fn only_a_virtual_account_that_is_open_is_closed() {
        for (method, state, closes) in [
            ("vcnt", json!("open"), true),
            ("vcnt", json!("closed"), false),
            ("vcnt", Value::Null, false),
            ("virtual account", json!("open"), true),
            ("virtual account", json!("closed"), false),
            ("card", Value::Null, false),
            ("card", json!("open"), false),
            ("bank", Value::Null, false),
        ] {
            let payment = payment(&[
                ("method", json!(method)),
                ("virtualAccountState", state.clone()),
            ]);
            let answer = operate(&payment, PaymentOrder::CloseVirtualAccount);
            let expected = if closes {
                (200, "ok", true)
            } else {
                (409, "virtual_account_not_open", false)
            };
            assert_eq!(outcome(&answer), expected, "{method} {state}");
        }
    }

    #[test]
    fn chargebacks_go_up_to_what_is_left_and_no_further() {
        for (paid, before, amount, goes) in [
            (1_000, 0, 1, true),
            (1_000, 0, 1_000, true),
            (1_000, 0, 1_001, false),
            (1_000, 999, 1, true),
            (1_000, 1_000, 1, false),
            (1_000, 1_001, 1, false),
            (1, i64::MAX, 1, false),
            (i64::MAX, 0, i64::MAX, true),
            (i64::MAX, i64::MAX - 1, 1, true),
            (i64::MAX, i64::MAX, 1, false),
            (i64::MAX, 1, i64::MAX, false),
        ] {
            let mut payment = payment(&[
                ("amountKrw", json!(paid)),
                ("chargedBackKrw", json!(before)),
            ]);
            let answer = operate(&payment, PaymentOrder::RecordChargeback(Won::new(amount)));
            let expected = if goes {
                (200, "ok", true)
            } else {
                (422, "chargeback_exceeds_amount", false)
            };
            assert_eq!(outcome(&answer), expected, "{amount} of {paid} - {before}");
            if let Some(change) = answer.change {
                change.make(&mut payment);
                assert_eq!(payment.charged_back_krw.0, before + amount);
                assert_eq!(payment.chargeback_state.as_str(), "recorded");
            }
        }
    }

    #[test]
    fn the_evidence_is_the_fingerprint_of_the_canonical_answer() {
        let answer = operate(&payment(&[]), PaymentOrder::CloseVirtualAccount);
        // Fields in the order of their names, no white space; the account as it is afterwards.
        let canonical = concat!(
            r#"{"message":null,"payments":[{"payment":{"amountKrw":330000,"chargebackState":"none","#,
            r#""chargedBackKrw":0,"method":"vcnt","refundState":"none","#,
            r#""searchKeys":["order-1","010-1234"],"virtualAccountState":"closed"},"#,
            r#""paymentId":"payment-1"}],"resultCode":"ok","searchKey":null,"statusCode":200}"#,
        );
        assert_eq!(answer.evidence, Fingerprint::of(canonical.as_bytes()));
    }

    #[test]
    fn the_members_of_the_evidence_stand_in_the_order_of_their_names() {
        let state = "a\"b\\c/\u{1}\u{7f}\u{2028}\u{1f600}é\n";
        let payment = payment(&[
            ("refundState", json!(state)),
            ("amountKrw", json!(i64::MAX)),
            ("virtualAccountState", Value::Null),
            ("searchKeys", json!([])),
        ]);
        let held = HeldPayment {
            payment_id: "payment-2",
            payment: &payment,
        };
        let answers = [
            EmbeddedGateway.search("everybody", &[held, held]),
            EmbeddedGateway.operate(Some(held), PaymentOrder::CloseVirtualAccount),
        ];
        for (answer, search_key, times) in
            [(&answers[0], Some("everybody"), 2), (&answers[1], None, 1)]
        {
            let one = json!({"paymentId": "payment-2", "payment": payment});
            // The map of a tree is in the order of its names, all of which are ASCII.
            let whole = json!({
                "statusCode": answer.status_code,
                "resultCode": answer.result_code,
                "message": answer.message,
                "searchKey": search_key,
                "payments": vec![one; times],
            });
            let canonical = whole.to_string();
            assert!(canonical.starts_with("{\"message\""), "{canonical}");
            assert_eq!(
                answer.evidence,
                Fingerprint::of(canonical.as_bytes()),
                "{canonical}"
            );
        }
    }

    #[test]
    fn other_answers_have_other_evidence_and_the_same_the_same() {
        let one = payment(&[]);
        let other = payment(&[("refundState", json!("done"))]);
        let look = |payment: &GatewayPayment| operate(payment, PaymentOrder::LookUp).evidence;
        assert_eq!(look(&one), look(&one));
        assert_ne!(look(&one), look(&other));
        let held = |payment| HeldPayment {
            payment_id: "payment-1",
            payment,
        };
        let found = EmbeddedGateway.search("order-1", &[held(&one)]);
        assert_eq!(outcome(&found), (200, "ok", false));
        let nothing = EmbeddedGateway.search("order-1", &[]);
        assert_eq!(outcome(&nothing), (200, "ok", false));
        assert_ne!(found.evidence, nothing.evidence);
        assert_ne!(found.evidence, look(&one));
    }
}
