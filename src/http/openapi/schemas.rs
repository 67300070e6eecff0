//! The named schemas of the document while it is built.

use std::borrow::Cow;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The path of the named schemas.
const SCHEMAS: &str = "#/components/schemas/";

/// Returns a name such as `create_branch` as words: `Create branch`.
pub(super) fn title(name: &str) -> String {
    let words = name.replace('_', " ");
    let (first, rest) = words.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

/// Returns a name such as `create_branch` as the name of a type: `CreateBranch`.
pub(super) fn pascal(name: &str) -> String {
    let words = name.split('_').filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (first, rest) = word.split_at(1);
            format!("{}{rest}", first.to_uppercase())
        })
        .collect()
}

/// The named schemas of the document while it is built.
pub(super) struct Schemas {
    /// Schemas of Rust types.
    pub(super) of_types: SchemaGenerator,
    /// Other schemas.
    own: Map<String, Value>,
    /// Answers that many operations share.
    answers: Map<String, Value>,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12()
            .for_serialize()
            .with(|settings| {
                settings.definitions_path = Cow::Borrowed("/components/schemas");
                settings.meta_schema = None;
            });
        Self {
            of_types: settings.into_generator(),
            own: Map::new(),
            answers: Map::new(),
        }
    }

    /// Returns a reference to the schema with this name, which is made if the name is new.
    pub(super) fn named(&mut self, name: &str, schema: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.own.contains_key(name) {
            let schema = schema(self);
            self.own.insert(name.to_owned(), schema);
        }
        reference(name)
    }

    /// Adds a schema under this name, and returns a reference to it. Two different schemas must not have one name.
    pub(super) fn same(&mut self, name: &str, schema: Value) -> Value {
        same(&mut self.own, name, schema);
        reference(name)
    }

    /// Adds a response under this name, and returns a reference to it. Two different responses must not have one
    /// name.
    pub(super) fn answer(&mut self, name: &str, answer: Value) -> Value {
        same(&mut self.answers, name, answer);
        json!({"$ref": format!("#/components/responses/{name}")})
    }

    /// Returns all schemas and all responses, by their names. Every object is closed: a response has the fields of
    /// its schema, and no others.
    pub(super) fn finish(mut self) -> (Map<String, Value>, Map<String, Value>) {
        let mut all = self.of_types.take_definitions(true);
        for schema in all.values_mut() {
            close(schema);
        }
        for (name, schema) in self.own {
            let before = all.insert(name, schema);
            debug_assert!(before.is_none(), "two schemas have one name");
        }
        all.values_mut().for_each(leave_out_uint);
        (all, self.answers)
    }
}

fn same(all: &mut Map<String, Value>, name: &str, value: Value) {
    let known = all.entry(name).or_insert_with(|| value.clone());
    debug_assert_eq!(*known, value, "{name} is the name of two");
}

/// Returns a reference to the schema with this name.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{SCHEMAS}{name}")})
}

/// Removes the format `uint` of Rust's `usize`: its size depends on the machine, and no registry has it.
fn leave_out_uint(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(leave_out_uint);
            if members.get("format").is_some_and(|format| format == "uint") {
                members.remove("format");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_uint),
        _ => {}
    }
}

/// Adds `additionalProperties: false` to each object of a schema that does not set it.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.values_mut().for_each(close);
            let is_object = members.get("type").is_some_and(|kind| kind == "object");
            if is_object && !members.contains_key("additionalProperties") {
                members.insert("additionalProperties".to_owned(), json!(false));
            }
            let is_array = members.get("type").is_some_and(|kind| kind == "array");
            if is_array && !members.contains_key("items") {
                // An array without `items` in its schema is always empty.
                members.insert("items".to_owned(), json!({}));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
