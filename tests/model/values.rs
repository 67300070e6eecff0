//! JSON values as the model compares them.

use chrono::{DateTime, SecondsFormat};
use serde_json::Value;

/// A value with its moments in one form and without its nulls; what is free in form stays as it
/// is.
pub fn plain(value: &Value) -> Value {
    let mut value = without_nulls(value);
    in_one_form(&mut value);
    value
}

/// A value without nulls but in what is free in form.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| match name.as_str() {
                "providerContext" | "reviewedFacts" => (name.clone(), value.clone()),
                _ => (name.clone(), without_nulls(value)),
            })
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn in_one_form(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("providerContext" | "reviewedFacts", _) => {}
                    ("registrationNumber", Value::String(text)) => *text = text.replace('-', ""),
                    (name, Value::String(text)) if name.ends_with("At") => {
                        *text = moment(millis(text));
                    }
                    (_, value) => in_one_form(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(in_one_form),
        _ => {}
    }
}

/// The moment as it is written.
pub fn moment(millis: i64) -> String {
    DateTime::from_timestamp_millis(millis)
        .unwrap()
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The moment as it is counted.
pub fn millis(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text)
        .unwrap()
        .timestamp_millis()
}

/// A text field.
pub fn s<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

/// An integer field.
pub fn n(value: &Value, member: &str) -> i64 {
    value[member].as_i64().unwrap_or_default()
}

/// The texts of an array field.
pub fn texts<'a>(value: &'a Value, member: &str) -> Vec<&'a str> {
    let items = value[member].as_array();
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
