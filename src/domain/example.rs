//! An operation's example: one request that is carried out in the samples' world, written once, in
//! the operation's own file. The tests of the contract, the walk of the demonstration and the
//! benches make their requests of it.

use crate::base::text::MemberId;
use std::collections::BTreeSet;

use serde_json::Value;

use super::sample_actors::sample_actors;
use crate::base::actor::{Actor, ActorKind};

/// The idempotency key of every example that has one in its body.
pub const KEY: &str = "key-1";

/// A request that is carried out in the samples' world ([`NDJSON`]).
///
/// [`NDJSON`]: super::reference::samples::NDJSON
#[derive(Debug)]
pub struct Example {
    /// Who sends it, of the sample actors. Where no token is needed, anybody.
    pub actor: ActorKind,
    /// The operation whose example has to be carried out before, by its name. A text `$field` in
    /// path or body is replaced by that field of its response.
    pub after: Option<&'static str>,
    /// Whether it is carried out after that. False where it also needs what no operation brings about: a
    /// test then leaves it out, and the operation's own tests stand for it.
    pub runs_alone: bool,
    /// The parameters of the path, in their order.
    pub path: &'static [&'static str],
    /// The body: JSON, as a person would write it.
    pub body: &'static str,
    /// A value of the body, by its JSON pointer (RFC 6901), and another one in its place, as JSON:
    /// another request under the same key.
    pub changed_value: (&'static str, &'static str),
    /// The sample facts that it rests on, kind and identifier, beyond those that all share. A bench gives
    /// each further request facts of its own, like these. Where one is missing, further requests find no
    /// such fact, are rejected, and the bench ends; the tests here only find one that is no sample.
    pub needs_facts: &'static [(&'static str, &'static str)],
    /// Identifiers of the samples that belong to this request alone: a further one needs its own. Where one
    /// is missing, further requests of a bench share it, all but the first are rejected or wait for each
    /// other, and the bench ends or is slow; the tests here only find one that is used nowhere.
    pub unique_ids: &'static [&'static str],
    /// The one of these that the answer repeats; empty where it repeats none.
    pub id_in_response: &'static str,
    /// Makes the body that of a further request, as far as other identifiers do not.
    pub vary: fn(body: &mut Value, number: u32),
    /// A revision that all requests share, which has to be read right before.
    pub current: Option<Current>,
}

/// A revision that has to be read before a request can name it.
#[derive(Debug)]
pub struct Current {
    /// Where it is read: a path without parameters.
    pub path: &'static str,
    /// The field of the answer that it is in.
    pub field: &'static str,
    /// Where the request's body names it: a JSON pointer.
    pub pointer: &'static str,
}

impl Example {
    /// The least that there is: to be completed by `..`.
    pub const NEW: Self = Self {
        actor: ActorKind::Mother,
        after: None,
        runs_alone: true,
        path: &[],
        body: "{}",
        changed_value: ("", ""),
        needs_facts: &[],
        unique_ids: &[],
        id_in_response: "",
        vary: |_, _| (),
        current: None,
    };

    /// The body, with each text `$field` as that field of `before`.
    ///
    /// # Panics
    /// When the body is no JSON, or `before` has no such field.
    #[must_use]
    pub fn body(&self, before: &Value) -> Value {
        let body = serde_json::from_str(self.body).expect("the body of an example is JSON");
        renamed(body, &|text| filled(text, before))
    }

    /// The fields of the answer before that path and body take, in the order of their letters.
    #[must_use]
    pub fn taken(&self) -> BTreeSet<&'static str> {
        let quoted = self.body.split('"').skip(1).step_by(2);
        let texts = self.path.iter().copied().chain(quoted);
        texts.filter_map(|text| text.strip_prefix('$')).collect()
    }

    /// An answer before that says `value` wherever path and body take something from it.
    #[must_use]
    pub fn before_of(&self, value: &str) -> Value {
        let taken = self.taken().into_iter();
        taken
            .map(|member| (member.to_owned(), Value::from(value)))
            .collect()
    }

    /// The body with the other value in its place, and that alone.
    ///
    /// # Panics
    /// When the pointer leads nowhere, or the value is no JSON.
    #[must_use]
    pub fn other(&self, mut body: Value) -> Value {
        let (pointer, value) = self.changed_value;
        let value = serde_json::from_str(value).expect("the other value of an example is JSON");
        *body.pointer_mut(pointer).expect("its pointer leads there") = value;
        body
    }

    /// The path of this form (of the operation's row), with the example's parameters as `rename`
    /// says.
    ///
    /// # Panics
    /// When there are more or fewer than the form has.
    #[must_use]
    pub fn path(&self, form: &str, rename: &dyn Fn(&str) -> String) -> String {
        let mut parameters = self.path.iter();
        let mut part = |part: &str| {
            if !part.starts_with('{') {
                return part.to_owned();
            }
            let parameter = parameters.next();
            rename(parameter.expect("each parameter has a value"))
        };
        let path: Vec<String> = form.split('/').map(&mut part).collect();
        assert!(parameters.next().is_none(), "{form} has fewer parameters");
        path.join("/")
    }
}

/// A text of an example: `$field` is that field of the answer before.
///
/// # Panics
/// When that has no such text or number.
#[must_use]
pub fn filled(text: &str, before: &Value) -> String {
    match text.strip_prefix('$') {
        Some(member) => match &before[member] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => panic!("the answer before has no text {member}"),
        },
        None => text.to_owned(),
    }
}

/// The value with every text in it as `rename` says; names of fields stay.
#[must_use]
pub fn renamed(value: Value, rename: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(rename(&text)),
        Value::Array(items) => items
            .into_iter()
            .map(|item| renamed(item, rename))
            .collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| (name, renamed(value, rename)))
            .collect(),
        other => other,
    }
}

/// The identifier of a further thing like a sample's: `mother-1` and `mother-1@example.com` are
/// `mother-1x7` and `mother-1x7@example.com`.
#[must_use]
pub fn numbered(sample: &str, number: u32) -> String {
    match sample.split_once('@') {
        Some((local, domain)) => format!("{local}x{number}@{domain}"),
        None => format!("{sample}x{number}"),
    }
}

/// The actor of this kind in the samples' world, with every identifier as `rename` says.
///
/// # Panics
/// Never: there is one of each kind.
#[must_use]
pub fn actor(kind: ActorKind, rename: &dyn Fn(&str) -> String) -> Actor {
    let actor = sample_actors().into_iter().find(|actor| actor.kind == kind);
    let actor = actor.expect("there is one of each kind");
    Actor {
        subject: rename(&actor.subject).into(),
        member_id: actor
            .member_id
            .map(|member| MemberId::from_trusted(rename(&member))),
        actor_profile_id: actor
            .actor_profile_id
            .map(|profile| rename(&profile).into()),
        branch_profile_ids: actor
            .branch_profile_ids
            .iter()
            .map(|branch| rename(branch).into())
            .collect(),
        email: actor.email.map(|email| rename(&email).into()),
        ..actor
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::reference::samples;
    use super::*;
    use crate::catalogue::OPERATIONS;
    use crate::domain::ladder::Case;
    use crate::domain::scenario::Then;

    #[test]
    fn every_example_succeeds_on_the_sample_facts_with_its_stated_response() {
        for row in OPERATIONS {
            let (Then::Committed(answer) | Then::Answered(answer)) = Case::of_example(row).ask()
            else {
                panic!("{} is refused", row.name);
            };
            let (answer, id_in_response) =
                (answer.to_string(), row.operation.example().id_in_response);
            assert!(
                answer.contains(id_in_response),
                "{}: {id_in_response} in {answer}",
                row.name
            );
        }
    }

    #[test]
    fn an_examples_identifiers_are_the_samples_and_its_own() {
        for row in OPERATIONS {
            let example = row.operation.example();
            let text = format!("{:?}{}", example.path, example.body);
            let needs_facts: Vec<_> = samples::lines()
                .filter(|line| {
                    let fact: Value = serde_json::from_str(line).unwrap();
                    let is =
                        |(kind, id): &&(&str, &str)| fact["kind"] == *kind && fact["id"] == *id;
                    example.needs_facts.iter().any(|one| is(&one))
                })
                .collect();
            assert_eq!(needs_facts.len(), example.needs_facts.len(), "{}", row.name);
            let same = actor(example.actor, &str::to_owned);
            for own in example.unique_ids {
                let known = text.contains(own)
                    || needs_facts.iter().any(|fact| fact.contains(own))
                    || actor(example.actor, &|id| id.replace(own, "another")) != same;
                assert!(known, "{}: {own}", row.name);
            }
            let id_in_response = example.id_in_response;
            assert!(
                id_in_response.is_empty() || example.unique_ids.contains(&id_in_response),
                "{}",
                row.name
            );
            let body = example.body(&example.before_of("something"));
            assert_ne!(example.other(body.clone()), body, "{}", row.name);
        }
    }

    #[test]
    fn further_identifiers_are_those_of_other_things() {
        assert_eq!(numbered("mother-1", 7), "mother-1x7");
        assert_eq!(
            numbered("mother-1@example.com", 7),
            "mother-1x7@example.com"
        );
    }
}
