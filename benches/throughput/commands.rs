//! Each operation's example as the command of any number: with a key and resources of its own.

use carebook::base::actor::Actor;
use carebook::catalogue::{OPERATIONS, Row};
use carebook::domain::example::{self, Example, filled, numbered};
use carebook::domain::reference::samples;
use serde_json::Value;

/// The number of the first command: all numbers have nine digits, so that all requests of one
/// operation are of one length.
pub(crate) const FIRST: usize = 100_000_000;

/// The operation of this name.
pub(crate) fn row(operation: &str) -> &'static Row {
    let mut rows = OPERATIONS.iter();
    rows.find(|row| row.name == operation)
        .unwrap_or_else(|| panic!("{operation} is no operation"))
}

/// The example of the operation of this name.
pub(crate) fn example(operation: &str) -> &'static Example {
    row(operation).operation.example()
}

/// A number as the samples' identifiers take it.
fn short(number: usize) -> u32 {
    u32::try_from(number).expect("numbers have nine digits")
}

/// What the samples' identifier is called in the command of this number.
fn name(example: &Example, text: &str, number: usize) -> String {
    if text == example::KEY || example.unique_ids.contains(&text) {
        numbered(text, short(number))
    } else {
        text.to_owned()
    }
}

/// The path and the body of a command. `before` is the answer that it goes on with.
pub(crate) fn command(operation: &str, number: usize, before: &Value) -> (String, Value) {
    let row = row(operation);
    let example = row.operation.example();
    let rename = |text: &str| name(example, text, number);
    let path = example.path(row.path, &|text| rename(&filled(text, before)));
    let mut body = example::renamed(example.body(before), &rename);
    (example.vary)(&mut body, short(number));
    if let Some(current) = &example.current {
        // Nothing else advances it, and each command does by one.
        let revision = body.pointer_mut(current.pointer);
        *revision.expect("the example names a revision") = Value::from(number - FIRST + 1);
    }
    (path, body)
}

/// Who asks for the command of this number.
pub(crate) fn actor(operation: &str, number: usize) -> Actor {
    let example = example(operation);
    example::actor(example.actor, &|text| name(example, text, number))
}

/// Whether each command of the operation has an actor of its own.
pub(crate) fn has_own_actors(operation: &str) -> bool {
    actor(operation, FIRST) != actor(operation, FIRST + 1)
}

/// What the answer to a command has to repeat: a word of the command's own, so that an answer that
/// was given to the wrong one is found. Where the answer repeats nothing, it is empty.
pub(crate) fn echo(operation: &str, number: usize) -> String {
    match example(operation).id_in_response {
        "" => String::new(),
        id_in_response => name(example(operation), id_in_response, number),
    }
}

/// The lines of the facts that the operation's commands of these numbers rest on: all samples, and
/// for each command those that it needs as its own.
pub(crate) fn facts(operation: &str, numbers: &[usize]) -> Vec<String> {
    let example = example(operation);
    let all: Vec<Value> = samples::lines()
        .map(|line| serde_json::from_str(line).expect("each sample is JSON"))
        .collect();
    let own = all
        .iter()
        .filter(|fact| needs_facts(example, fact))
        .flat_map(|fact| {
            let of = |&number: &usize| {
                example::renamed(fact.clone(), &|text| name(example, text, number)).to_string()
            };
            numbers.iter().map(of)
        });
    samples::lines().map(str::to_owned).chain(own).collect()
}

fn needs_facts(example: &Example, fact: &Value) -> bool {
    let named = |(kind, id): &(&str, &str)| fact["kind"] == *kind && fact["id"] == *id;
    example.needs_facts.iter().any(named)
}
