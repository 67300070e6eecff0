//! What stands in a fresh demonstration beside the sample facts, so that the example of each
//! operation is carried out as it stands, one after the other: the examples of a few operations need
//! what others bring into being, under identifiers that nobody knows before.

use serde_json::{Value, json};
use uuid::{Uuid, uuid};

use super::example::{Example, filled, renamed};

/// A command that the demonstration carries out before anybody asks.
#[derive(Debug)]
pub struct Standing {
    /// The operation, whose example it is but for what follows.
    pub operation: &'static str,
    /// The identifiers that are others, so that the example itself can be carried out, too.
    pub own: &'static [(&'static str, &'static str)],
    /// Those of them that examples name which rest on it.
    pub shared: &'static [(&'static str, &'static str)],
    /// Its key, wherever the operation has it.
    pub key: &'static str,
    /// The identifier of what it brings into being.
    pub born: Uuid,
}

/// The commands, in their order.
pub const STANDING: [Standing; 3] = [
    Standing {
        operation: "grant_payment_authority",
        own: &[],
        shared: &[("reservation-booking-1", "reservation-booking-2")],
        key: "demo-1",
        born: uuid!("01900000-0000-7000-8000-000000000001"),
    },
    Standing {
        operation: "open_data_room_request",
        own: &[("request-code-1", "demo-request-code"), ("key-1", "demo-1")],
        shared: &[],
        key: "demo-1",
        born: uuid!("01900000-0000-7000-8000-000000000002"),
    },
    Standing {
        operation: "request_deposit",
        own: &[
            ("statement-code-1", "demo-statement-code"),
            ("key-1", "demo-1"),
        ],
        shared: &[],
        key: "demo-1",
        born: uuid!("01900000-0000-7000-8000-000000000003"),
    },
];

/// Stands for the identifiers that an example takes from the answer of one that is not carried out
/// before.
const ANY: Uuid = uuid!("01900000-0000-7000-8000-000000000000");

/// An example as it can be sent.
#[derive(Debug)]
pub struct Shown {
    /// The values of the path's parameters, in their order.
    pub path: Vec<String>,
    /// The body.
    pub body: Value,
}

impl Standing {
    /// The body and the path of the command; `example` is that of its operation.
    #[must_use]
    pub fn shown(&self, example: &Example) -> Shown {
        let pairs: Vec<_> = self.own.iter().chain(self.shared).copied().collect();
        shown(example, &pairs, &Value::Null)
    }
}

/// An operation's example as it can be sent to a fresh demonstration.
#[must_use]
pub fn example(example: &Example) -> Shown {
    let standing = example.after.and_then(|after| {
        let mut all = STANDING.iter();
        all.find(|standing| standing.operation == after)
    });
    let born = standing.map_or(ANY, |standing| standing.born);
    let before = json!({
        "statementId": born, "requestId": born, "subscriptionId": born, "relationshipOutboxMessageId": "1",
    });
    shown(
        example,
        standing.map_or(&[], |standing| standing.shared),
        &before,
    )
}

fn shown(example: &Example, pairs: &[(&str, &str)], before: &Value) -> Shown {
    let rename = |text: &str| {
        let pair = pairs.iter().find(|(from, _)| *from == text);
        pair.map_or(text, |(_, to)| *to).to_owned()
    };
    let path = example
        .path
        .iter()
        .map(|part| rename(&filled(part, before)));
    Shown {
        path: path.collect(),
        body: renamed(example.body(before), &rename),
    }
}
