//! Converts shapes into JSON Schema (2020-12), for the API document: of requests, which are refused
//! when they do not fit, and of responses, where no field is left out.

use serde_json::{Value, json};

use super::shape::{Field, Presence, Shape};

/// A character that is not white space, as Unicode and this service understand it: a class that
/// means the same in all dialects of regular expressions.
const NOT_BLANK: &str = r"[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";
/// A time in a request: RFC 3339 without a leap second, and with `T`.
const TIME: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$";
/// A time in a response.
const TIME_WRITTEN: &str = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$";

/// The direction in which a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Into the service: optional fields may be absent, and unknown ones are refused.
    Request,
    /// Out of the service: every field is there, and an optional one may be null.
    Response,
}

impl Shape {
    /// Returns the schema of values of this shape.
    #[must_use]
    pub fn schema(&self, side: Side) -> Value {
        match self {
            Self::Flag => json!({"type": "boolean"}),
            Self::Integer { least, most } => {
                json!({"type": "integer", "format": "int64", "minimum": least, "maximum": most})
            }
            Self::Text {
                shortest,
                longest,
                blank,
                form,
                pattern,
                known,
            } => {
                if !known.is_empty() {
                    return json!({"type": "string", "enum": known});
                }
                let mut schema = text(*blank, form, pattern);
                if *shortest > 0 {
                    schema["minLength"] = json!(shortest);
                }
                schema["maxLength"] = json!(longest);
                schema
            }
            Self::Words(words) => json!({"type": "string", "enum": words}),
            Self::Time => {
                let pattern = match side {
                    Side::Request => TIME,
                    Side::Response => TIME_WRITTEN,
                };
                json!({"type": "string", "format": "date-time", "pattern": pattern})
            }
            Self::Date => json!({"type": "string", "format": "date"}),
            Self::List {
                of,
                shortest,
                longest,
                unique,
            } => {
                let mut schema = json!({"type": "array", "items": of.schema(side)});
                if *shortest > 0 {
                    schema["minItems"] = json!(shortest);
                }
                if let Some(longest) = longest {
                    schema["maxItems"] = json!(longest);
                }
                if *unique {
                    schema["uniqueItems"] = json!(true);
                }
                schema
            }
            Self::Map { names, of } => {
                let mut schema = json!({"type": "object", "additionalProperties": of.schema(side)});
                if **names != Self::Any {
                    schema["propertyNames"] = names.schema(side);
                }
                schema
            }
            Self::Any => json!({"type": "object", "additionalProperties": true}),
            Self::Object(fields) => object(fields, side),
        }
    }
}

fn text(blank: bool, form: &str, pattern: &str) -> Value {
    let mut schema = json!({"type": "string"});
    match (blank, pattern) {
        (true, "") => {}
        (false, "") => schema["pattern"] = json!(NOT_BLANK),
        // White space alone matches no pattern, which a test checks for each.
        (_, pattern) => schema["pattern"] = json!(pattern),
    }
    if !form.is_empty() {
        schema["description"] = json!(sentence(form));
    }
    schema
}

/// Returns the words with a capital letter and a full stop; empty where there are none.
fn sentence(words: &str) -> String {
    let words = words.trim().trim_end_matches('.');
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}

/// Whether the words that describe a field already describe its form.
fn says_already(says: &str, form: &str) -> bool {
    let bare = |words: &str| {
        let words = words.to_lowercase();
        let words = words.trim_end_matches('.');
        let article = words.strip_prefix("an ").or(words.strip_prefix("a "));
        article.unwrap_or(words).to_owned()
    };
    bare(says).contains(&bare(form))
}

fn object(fields: &[Field], side: Side) -> Value {
    let mut properties = serde_json::Map::new();
    let mut required = Vec::new();
    for field in fields {
        let mut schema = field.shape.schema(side);
        if field.presence != Presence::Required {
            schema = nullable(schema);
        }
        let says = sentence(field.says);
        if !says.is_empty() {
            let form = schema["description"].as_str().map(ToOwned::to_owned);
            schema["description"] = match form {
                Some(form) if !says_already(&says, &form) => json!(format!("{says} {form}")),
                _ => json!(says),
            };
        }
        properties.insert(field.name.to_owned(), schema);
        if side == Side::Response || field.presence != Presence::Optional {
            required.push(field.name);
        }
    }
    let mut schema = json!({
        "type": "object", "properties": properties, "additionalProperties": false
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// Returns the schema extended by null. An object's schema stays whole beside the null: client
/// generators give that a type, but not a schema that is object and null at once.
#[must_use]
pub fn nullable(mut schema: Value) -> Value {
    let kind = schema["type"].as_str().filter(|kind| *kind != "object");
    let Some(kind) = kind.map(ToOwned::to_owned) else {
        return json!({"anyOf": [schema, {"type": "null"}]});
    };
    schema["type"] = json!([kind, "null"]);
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.push(Value::Null);
    }
    schema
}
