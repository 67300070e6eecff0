//! The subjects of administrators' operations at the gateway: a payment, or a search key. Each has
//! a revision that counts the operations recorded on it, so that no two operations are based on the
//! same state.

use serde::{Deserialize, Serialize};

use super::gateway::GatewayChange;
use crate::base::revision::Revision;
use crate::base::text::Ident;
use crate::base::time::Timestamp;
use crate::base::won::Won;
use crate::domain::index::IndexKey;
use crate::domain::reference::kinds::gateway_payment::GatewayPayment;
use crate::domain::reference::{FactHolder, FactKind};
use crate::domain::resource::{Kind, Resource};
use crate::domain::stored::Older;
use crate::public_events;

/// A gateway payment's current fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayFact {
    /// Its revision.
    pub revision: Revision,
    /// The facts.
    pub payment: GatewayPayment,
}

/// A payment at the gateway. It exists without its fact once an operation was requested for it:
/// operations on an unknown payment are carried out too, and the audit says that the gateway does
/// not know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentSubject {
    /// Its identifier.
    pub payment_id: Box<str>,
    /// The fact.
    pub fact: Option<GatewayFact>,
    /// The number of operations that were recorded on it.
    pub operations: Revision,
}

/// The event that a fact comes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayFactCameIn {
    /// The payment.
    pub payment_id: Box<str>,
    /// The fact.
    pub fact: GatewayFact,
}

/// The event that an operation on the payment is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentOperated {
    /// The payment.
    pub payment_id: Box<str>,
    /// The change that it has made.
    pub change: Option<GatewayChange>,
}

/// What can happen to a payment. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PaymentSubjectEvent {
    /// A fact comes in.
    FactCameIn(Box<GatewayFactCameIn>),
    /// An operation is recorded.
    Operated(Box<PaymentOperated>),
}

impl Resource for PaymentSubject {
    const KIND: Kind = GatewayPayment::KIND;
    /// Version 1 had only three payment methods.
    const OLDER: &'static [Older<Self, PaymentSubjectEvent>] = &[Older::ADDED_TO];
    type Event = PaymentSubjectEvent;

    fn apply(state: Option<Self>, event: &PaymentSubjectEvent, _: Timestamp) -> Self {
        let payment_id = match event {
            PaymentSubjectEvent::FactCameIn(came_in) => &came_in.payment_id,
            PaymentSubjectEvent::Operated(operated) => &operated.payment_id,
        };
        let mut subject = state.unwrap_or_else(|| Self {
            payment_id: payment_id.clone(),
            fact: None,
            operations: Revision::NONE,
        });
        assert_eq!(subject.payment_id, *payment_id, "the event is another's");
        match event {
            PaymentSubjectEvent::FactCameIn(came_in) => subject.fact = Some(came_in.fact.clone()),
            PaymentSubjectEvent::Operated(operated) => {
                subject.operations = subject.operations.next();
                if let Some(change) = operated.change {
                    let fact = subject.fact.as_mut();
                    let fact = fact.expect("the gateway changes only a payment that it knows");
                    change.make(&mut fact.payment);
                    fact.revision = fact.revision.next();
                }
            }
        }
        subject
    }

    fn id(&self) -> Vec<String> {
        vec![String::from(&*self.payment_id)]
    }

    /// Returns the number of recorded operations, which commands expect. The fact has a revision of
    /// its own.
    fn revision(&self) -> Revision {
        self.operations
    }

    /// Returns the fact's revision.
    fn read_revision(&self) -> Revision {
        let fact = self.fact.as_ref();
        fact.map_or(Revision::NONE, |fact| fact.revision)
    }

    fn secondary_keys(&self) -> Vec<IndexKey> {
        self.fact
            .as_ref()
            .map(|fact| fact.payment.secondary_keys(&self.payment_id))
            .unwrap_or_default()
    }

    fn validate(&self) -> Result<(), String> {
        if self.operations < Revision::NONE {
            return Err(format!("{} operations", self.operations));
        }
        match &self.fact {
            None if self.operations == Revision::NONE => {
                Err("neither a fact nor an operation".to_owned())
            }
            Some(fact) if fact.revision < Revision::FIRST => {
                Err(format!("a fact at revision {}", fact.revision))
            }
            _ => Ok(()),
        }
    }
}

public_events! {
    PaymentSubject by PaymentSubjectEvent, read at "reference-facts/gateway-payment/{}",
        revision own;

    FactCameIn(came) => fact(&came.payment_id, came.fact.revision),
    /// An administrator's operation on the payment is recorded. `revision` is that of the payment's fact:
    /// an operation that changes nothing at the gateway repeats it.
    Operated(operated) => "operated" {
        "virtualAccountClosed": bool = operated.change == Some(GatewayChange::VirtualAccountClosed),
        "chargebackAmountKrw": Option<Won> = operated.chargeback_amount_krw(),
    },
}

impl PaymentOperated {
    fn chargeback_amount_krw(&self) -> Option<Won> {
        match self.change {
            Some(GatewayChange::ChargebackRecorded(amount)) => Some(amount),
            _ => None,
        }
    }
}

impl FactHolder for PaymentSubject {
    type Facts = GatewayPayment;

    fn fact(&self) -> Option<(Revision, &GatewayPayment)> {
        self.fact
            .as_ref()
            .map(|fact| (fact.revision, &fact.payment))
    }

    fn put(
        _: Option<&Self>,
        id: &str,
        revision: Revision,
        payment: &GatewayPayment,
    ) -> Option<PaymentSubjectEvent> {
        Some(PaymentSubjectEvent::FactCameIn(Box::new(
            GatewayFactCameIn {
                payment_id: id.into(),
                fact: GatewayFact {
                    revision,
                    payment: payment.clone(),
                },
            },
        )))
    }
}

/// A search key at the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchSubject {
    /// The key.
    pub search_key: Ident,
    /// The number of searches that were recorded on it.
    pub operations: Revision,
}

/// What can happen to a search key. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SearchSubjectEvent {
    /// A search with this key is recorded.
    Searched(Ident),
}

impl Resource for SearchSubject {
    const KIND: Kind = Kind {
        tag: 110,
        name: "gateway-search",
    };
    type Event = SearchSubjectEvent;

    fn apply(state: Option<Self>, event: &SearchSubjectEvent, _: Timestamp) -> Self {
        let SearchSubjectEvent::Searched(search_key) = event;
        let before = state.unwrap_or_else(|| Self {
            search_key: search_key.clone(),
            operations: Revision::NONE,
        });
        assert_eq!(before.search_key, *search_key, "the event is another's");
        Self {
            operations: before.operations.next(),
            ..before
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.search_key.as_str().to_owned()]
    }

    fn revision(&self) -> Revision {
        self.operations
    }

    fn validate(&self) -> Result<(), String> {
        if self.operations < Revision::FIRST {
            return Err(format!("{} searches", self.operations));
        }
        Ok(())
    }
}

public_events! {
    SearchSubject by SearchSubjectEvent, read at "gateway-search/{}", revision none;

    // What was searched for may name a person; the search's audit has the event.
    Searched(_) => nothing,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::event::{Changed, PublicEvents as _};
    use crate::domain::reference::kinds::gateway_payment::sample;
    use crate::domain::scenario::{Scenario, with};

    fn operated(state: Option<PaymentSubject>, change: Option<GatewayChange>) -> PaymentSubject {
        let event = PaymentSubjectEvent::Operated(Box::new(PaymentOperated {
            payment_id: "payment-1".into(),
            change,
        }));
        PaymentSubject::apply(state, &event, Timestamp::default())
    }

    #[test]
    fn facts_come_in_as_to_any_other_kind_and_leave_the_operations_alone() {
        let mut service = Scenario::new();
        // An operation was requested for the payment before its fact came in.
        let asked = operated(operated(None, None).into(), None);
        assert_eq!(asked.validate(), Ok(()));
        assert_eq!(asked.fact(), None);
        service.given(&asked);
        service.fact("gateway-payment", "payment-1", 3, sample());
        let known: PaymentSubject = service.state(&["payment-1"]).unwrap();
        assert_eq!(known.operations.number(), 2);
        assert_eq!(known.fact().unwrap().0.number(), 3);
        let put = |service: &mut Scenario, revision, facts| {
            service.put_fact("gateway-payment", "payment-1", revision, facts)
        };
        let other = with(&sample(), &[("amountKrw", json!(1))]);
        assert_eq!(
            put(&mut service, 3, sample()).answered(),
            Value::from("unchanged")
        );
        assert_eq!(put(&mut service, 3, other.clone()).code(), "conflict");
        assert_eq!(put(&mut service, 2, other.clone()).code(), "stale");
        put(&mut service, 4, other).committed();
        let known: PaymentSubject = service.state(&["payment-1"]).unwrap();
        assert_eq!(known.operations.number(), 2);
    }

    #[test]
    fn a_change_advances_the_facts_revision_and_no_change_does_not() {
        let mut service = Scenario::new();
        service.fact("gateway-payment", "payment-1", 3, sample());
        let before: PaymentSubject = service.state(&["payment-1"]).unwrap();
        let looked_at = operated(Some(before.clone()), None);
        assert_eq!(looked_at.fact, before.fact);
        assert_eq!(looked_at.operations, Revision::FIRST);
        let closed = operated(Some(looked_at), Some(GatewayChange::VirtualAccountClosed));
        assert_eq!(closed.fact().unwrap().0.number(), 4);
        assert_eq!(closed.operations.number(), 2);
        assert_eq!(closed.secondary_keys(), before.secondary_keys());
    }

    #[test]
    fn an_operation_on_a_payment_that_has_no_fact_is_told_without_a_revision() {
        let event = PaymentSubjectEvent::Operated(Box::new(PaymentOperated {
            payment_id: "payment-1".into(),
            change: None,
        }));
        for (revision, told) in [(0, None), (3, Some(Revision::new(3)))] {
            let changed = Changed {
                is_fact: false,
                advances: true,
                path: &["payment-1"],
                revision: Revision::new(revision),
            };
            let events = PaymentSubject::public_events(&event, &changed);
            let revisions: Vec<_> = events.iter().map(|event| event.revision).collect();
            assert_eq!(revisions, [told]);
        }
    }

    #[test]
    fn states_that_cannot_be_are_told() {
        let nothing = PaymentSubject {
            payment_id: "payment-1".into(),
            fact: None,
            operations: Revision::NONE,
        };
        assert!(nothing.validate().is_err());
        let negative = PaymentSubject {
            operations: Revision::new(-1),
            ..nothing
        };
        assert!(negative.validate().is_err());
        let unsearched = SearchSubject {
            search_key: Ident::from_trusted("order-1"),
            operations: Revision::NONE,
        };
        assert!(unsearched.validate().is_err());
    }
}
