//! The operations' examples as requests to a fresh demonstration, and the resources that the demonstration creates
//! besides the sample facts. With them each example can be carried out unchanged, one after the other: an example may
//! need the identifier of a resource that another operation creates, which is otherwise not known in advance.

use serde_json::Value;
use uuid::Uuid;

use crate::catalogue::{OPERATIONS, Row};
use crate::domain::example::{self, Example, filled, renamed};
use crate::domain::reference::samples;

/// The base of the identifiers that the demonstration creates. Each identifier is this base plus its operation's
/// number.
const BORN: u128 = 0x0190_0000_0000_7000_8000_0000_0000_0000;

/// A command that the demonstration carries out at its start: the example of an operation, with one identifier
/// replaced if the response repeats it, so that the example itself can still be carried out.
pub struct DemoSeed {
    /// The operation.
    pub row: &'static Row,
    /// The identifier in the example, and its replacement.
    renamed: (&'static str, String),
    /// Whether the examples that depend on this one name the identifier as well, because it is that of a sample fact.
    is_shared: bool,
}

/// An example as it can be sent.
#[derive(Debug)]
pub struct Shown {
    /// The values of the path's parameters, in their order.
    pub path: Vec<String>,
    /// The body.
    pub body: Value,
}

/// Returns the commands, in the order of their operations.
pub fn demo_seeds() -> impl Iterator<Item = DemoSeed> {
    // An operation later in the order that takes nothing from this one's response can rely on this one's example, and
    // needs no command.
    let is_needed = |row: &&Row| {
        OPERATIONS.iter().any(|other| {
            let example = other.operation.example();
            example.after == Some(row.name) && (other.tag < row.tag || !example.taken().is_empty())
        })
    };
    OPERATIONS.iter().filter(is_needed).map(DemoSeed::of)
}

impl DemoSeed {
    /// The idempotency key of each command, wherever the operation has one.
    pub const KEY: &'static str = "demo-1";

    fn of(row: &'static Row) -> Self {
        let id_in_response = row.operation.example().id_in_response;
        let second = id_in_response.replace("-1", "-2");
        let is_shared = samples::NDJSON.contains(&format!("\"{second}\""));
        let other = match is_shared {
            true => second,
            false => format!("demo-{id_in_response}"),
        };
        Self {
            row,
            renamed: (id_in_response, other),
            is_shared,
        }
    }

    /// Returns the identifier of the resource that the command creates.
    #[must_use]
    pub fn born(&self) -> Uuid {
        born(self.row)
    }

    /// Returns the path and the body of the command.
    #[must_use]
    pub fn shown(&self) -> Shown {
        let (from, to) = &self.renamed;
        let renamed = [(*from, to.as_str()), (example::KEY, Self::KEY)];
        shown(self.row.operation.example(), &renamed, &Value::Null)
    }
}

fn born(row: &Row) -> Uuid {
    Uuid::from_u128(BORN + u128::from(row.tag))
}

/// Returns an operation's example as it can be sent to a fresh demonstration.
#[must_use]
pub fn example(row: &Row) -> Shown {
    let example = row.operation.example();
    let first = demo_seeds().find(|one| example.after == Some(one.row.name));
    let before = match &first {
        Some(seed) => example.before_of(&seed.born().to_string()),
        // The example depends on no created resource, so any valid identifier will do; a number where the path has
        // one.
        None if row.path.contains("{number}") => example.before_of("1"),
        None => example.before_of(&Uuid::from_u128(BORN).to_string()),
    };
    let shared = first.filter(|one| one.is_shared).map(|one| one.renamed);
    match &shared {
        Some((from, to)) => shown(example, &[(*from, to.as_str())], &before),
        None => shown(example, &[], &before),
    }
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
