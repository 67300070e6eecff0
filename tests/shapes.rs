//! What a body may hold is declared once, where it is read ([`carebook::base::json::Shape`]). Here
//! every bound of every field of every operation and of every kind of facts is tried: what the
//! declaration says is what is read, and a fault is reported by its code at its place.

use carebook::base::json::{Field, Json, Presence, Reader, Shape};
use carebook::base::time::Timestamp;
use carebook::catalogue::{OPERATIONS, Row};
use carebook::domain::erased::AnyCommand;
use carebook::domain::fact_kinds::FACTS;
use carebook::domain::operation::Parts;
use carebook::domain::reference::fact_lines::Incoming;
use carebook::domain::reference::samples;
use serde_json::{Value, json};

/// Reads a body, and returns its faults: place and code.
type Read<'a> = dyn Fn(&Value) -> Vec<(String, &'static str)> + 'a;

/// A good body, where a field of it is, and how bodies are read.
struct Place<'a> {
    what: &'a str,
    body: &'a Value,
    /// The JSON pointer.
    pointer: String,
    /// The place as faults name it.
    path: String,
    read: &'a Read<'a>,
}

impl Place<'_> {
    fn inside(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self {
            pointer: format!("{}/{name}", self.pointer),
            path: format!("{}{dot}{name}", self.path),
            ..*self
        }
    }

    fn first_item(&self) -> Self {
        Self {
            pointer: format!("{}/0", self.pointer),
            path: format!("{}[0]", self.path),
            ..*self
        }
    }

    fn value(&self) -> Option<&Value> {
        self.body.pointer(&self.pointer)
    }

    /// The same place of another body.
    fn of<'b>(&'b self, body: &'b Value) -> Place<'b> {
        Place {
            body,
            pointer: self.pointer.clone(),
            path: self.path.clone(),
            ..*self
        }
    }

    /// The body with this value here.
    fn with(&self, value: Value) -> Value {
        self.changed(Some(value))
    }

    /// The faults when the value here is another one, or is left out.
    fn faults(&self, value: Option<Value>) -> Vec<(String, &'static str)> {
        (self.read)(&self.changed(value))
    }

    /// The body with another value here, or without one.
    fn changed(&self, value: Option<Value>) -> Value {
        let mut body = self.body.clone();
        let (parent, name) = self.pointer.rsplit_once('/').unwrap();
        match (body.pointer_mut(parent).unwrap(), value) {
            (Value::Object(members), Some(value)) => {
                members.insert(name.to_owned(), value);
            }
            (Value::Object(members), None) => {
                members.remove(name);
            }
            (Value::Array(items), Some(value)) => items[0] = value,
            (other, _) => panic!("{} is in {other}", self.pointer),
        }
        body
    }

    /// With this value here, this code is reported here.
    #[track_caller]
    fn refused(&self, value: Option<Value>, code: &'static str) {
        let shown = value.as_ref().map_or("nothing".to_owned(), shortly);
        let faults = self.faults(value);
        let told = faults.contains(&(self.path.clone(), code));
        let Self { what, path, .. } = self;
        assert!(told, "{what}: {path} = {shown} is no {code}: {faults:?}");
    }

    /// With this value here, nothing is reported here, but for rules between fields.
    #[track_caller]
    fn taken(&self, value: Option<Value>) {
        let shown = value.as_ref().map_or("nothing".to_owned(), shortly);
        let faults = self.faults(value);
        let Self { what, path, .. } = self;
        let told = |(place, code): &(String, &str)| {
            place == path && !matches!(*code, "not_allowed" | "required")
        };
        assert!(
            !faults.iter().any(told),
            "{what}: {path} = {shown}: {faults:?}"
        );
    }
}

fn shortly(value: &Value) -> String {
    value.to_string().chars().take(40).collect()
}

/// Tries what a value may be; gives how many bounds were tried.
fn try_shape(place: &Place<'_>, shape: &Shape) -> usize {
    let wrong = match shape {
        Shape::Flag => json!(0),
        _ => json!(false),
    };
    place.refused(Some(wrong), "wrong_type");
    1 + match shape {
        Shape::Flag => {
            place.taken(Some(json!(true)));
            1
        }
        Shape::Integer { least, most } => {
            place.refused(Some(json!(0.5)), "wrong_type");
            place.refused(Some(json!("1")), "wrong_type");
            place.taken(Some(json!(least)));
            if let Some(below) = least.checked_sub(1) {
                place.refused(Some(json!(below)), "out_of_range");
            }
            if let Some(above) = most.checked_add(1) {
                place.refused(Some(json!(above)), "out_of_range");
            }
            5
        }
        Shape::Text {
            longest,
            blank,
            form,
            ..
        } => {
            place.refused(Some(json!("")), "too_short");
            place.refused(Some(json!("가".repeat(longest + 1))), "too_long");
            match (blank, *form) {
                (false, _) => place.refused(Some(json!(" \u{3000}")), "blank"),
                (true, "") => place.taken(Some(json!(" "))),
                (true, _) => place.refused(Some(json!(" ")), "pattern"),
            }
            if form.is_empty() {
                place.taken(Some(json!("가".repeat(*longest))));
            }
            4
        }
        Shape::Words(words) => {
            place.refused(Some(json!("no such word")), "not_allowed");
            place.refused(Some(json!(format!("{} ", words[0]))), "not_allowed");
            for word in words {
                let faults = place.faults(Some(json!(word)));
                let told = faults.iter().any(|(path, _)| *path == place.path);
                assert!(!told, "{}: {word}: {faults:?}", place.what);
            }
            1 + words.len()
        }
        Shape::Time => {
            place.refused(Some(json!("2026-11-01")), "pattern");
            place.refused(Some(json!("2026-11-01T00:00:00")), "pattern");
            2
        }
        Shape::Date => {
            place.refused(Some(json!("2026-02-30")), "pattern");
            place.refused(Some(json!("2026-11-01T00:00:00Z")), "pattern");
            2
        }
        Shape::List {
            of,
            shortest,
            longest,
            ..
        } => {
            match shortest {
                0 => place.taken(Some(json!([]))),
                _ => place.refused(Some(json!([])), "too_short"),
            }
            let item = place.value().and_then(|value| value.get(0)).cloned();
            let item = item.unwrap_or_else(|| some_value(of));
            if let Some(longest) = longest {
                place.refused(Some(json!(vec![item.clone(); longest + 1])), "too_long");
            }
            let with_item = place.with(json!([item]));
            1 + try_shape(&place.of(&with_item).first_item(), of)
        }
        Shape::Map { of, .. } => {
            place.taken(Some(json!({})));
            let with_entry = place.with(json!({"name": some_value(of)}));
            try_shape(&place.of(&with_entry).inside("name"), of)
        }
        Shape::Any => {
            place.taken(Some(json!({"any": [1, {"thing": null}]})));
            1
        }
        Shape::Object(fields) => {
            let mut unknown = place.value().cloned().unwrap_or_else(|| json!({}));
            unknown["noSuchMember"] = json!(1);
            place
                .inside("noSuchMember")
                .told_in(place, unknown, "unknown_field");
            let told = missing(place, fields);
            // An optional object that the example does not have is tried within one that has it.
            match place.value() {
                Some(Value::Object(_)) => told + try_fields(place, fields),
                _ => told + try_fields(&place.of(&place.with(some_value(shape))), fields),
            }
        }
    }
}

/// A value of this shape, as far as the shape determines it: a text may have no form.
fn some_value(shape: &Shape) -> Value {
    match shape {
        Shape::Flag => json!(true),
        Shape::Integer { least, most } => json!(1.clamp(*least, *most)),
        Shape::Text { .. } => json!("text-1"),
        Shape::Words(words) => json!(words[0]),
        Shape::Time => json!("2026-11-01T00:00:00Z"),
        Shape::Date => json!("2026-11-01"),
        Shape::List { of, .. } => json!([some_value(of)]),
        Shape::Map { of, .. } => json!({"name": some_value(of)}),
        Shape::Any => json!({"any": 1}),
        Shape::Object(fields) => fields
            .iter()
            .map(|field| (field.name.to_owned(), some_value(&field.shape)))
            .collect(),
    }
}

impl Place<'_> {
    /// With this value at `at`, this code is reported here.
    #[track_caller]
    fn told_in(&self, at: &Place<'_>, value: Value, code: &'static str) {
        let faults = at.faults(Some(value));
        let told = faults.contains(&(self.path.clone(), code));
        assert!(told, "{}: {}: {faults:?}", self.what, self.path);
    }
}

/// With an empty object here, each required field is reported.
fn missing(place: &Place<'_>, fields: &[Field]) -> usize {
    for field in fields {
        if field.presence != Presence::Optional {
            place
                .inside(field.name)
                .told_in(place, json!({}), "required");
        }
    }
    fields.len()
}

fn try_fields(place: &Place<'_>, fields: &[Field]) -> usize {
    let mut tried = 0;
    for field in fields {
        let member = place.inside(field.name);
        match field.presence {
            Presence::Required => {
                member.refused(None, "required");
                member.refused(Some(Value::Null), "wrong_type");
            }
            Presence::Nullable => {
                member.refused(None, "required");
                member.taken(Some(Value::Null));
            }
            Presence::Optional => {
                member.taken(None);
                member.taken(Some(Value::Null));
            }
        }
        tried += 2 + try_shape(&member, &field.shape);
    }
    tried
}

/// The fields of an object.
fn fields(shape: &Shape) -> &[Field] {
    match shape {
        Shape::Object(fields) => fields,
        other => panic!("a body is an object, not {other:?}"),
    }
}

/// An operation's command, read from the example's path and this body; or its faults.
fn read(row: &Row, body: &Value) -> Result<Box<dyn AnyCommand>, Vec<(String, &'static str)>> {
    let example = row.operation.example();
    read_at(row, example.path.first().copied(), body)
}

/// As [`read`], with this parameter in the path, where it has one.
fn read_at(
    row: &Row,
    parameter: Option<&str>,
    body: &Value,
) -> Result<Box<dyn AnyCommand>, Vec<(String, &'static str)>> {
    let path: Vec<_> = row.parameters().zip(parameter).collect();
    let text = body.to_string();
    let json = Json::parse(text.as_bytes()).unwrap();
    let mut at = Reader::new(Timestamp::parse("2026-11-20T12:00:00Z").unwrap());
    let parts = Parts {
        path: &path,
        body: &json,
    };
    let command = row.operation.read(row.name, &parts, &mut at);
    let faults = at.into_faults();
    assert!(command.is_some() || !faults.is_empty(), "{}", row.name);
    let faults = faults.into_iter();
    let faults: Vec<_> = faults
        .map(|fault| (fault.path, fault.code.as_str()))
        .collect();
    command.filter(|_| faults.is_empty()).ok_or(faults)
}

/// The body of an operation's example.
fn example(row: &Row) -> Value {
    let before = json!({"statementId": "statement-1", "requestId": "request-1"});
    row.operation.example().body(&before)
}

#[test]
fn every_bound_of_every_operation_is_told_by_its_code_at_its_place() {
    let mut tried = 0;
    for row in OPERATIONS {
        let body = example(row);
        let read = |body: &Value| read(row, body).err().unwrap_or_default();
        assert_eq!(read(&body), [], "{}", row.name);
        let place = Place {
            what: row.name,
            body: &body,
            pointer: String::new(),
            path: String::new(),
            read: &read,
        };
        tried += try_fields(&place, fields(&row.operation.shape()));
    }
    println!("{tried} bounds");
    assert!(tried > 1_500, "{tried}");
}

/// The body with what it leaves out, as far as that can be read.
fn completed(row: &Row, mut body: Value) -> Value {
    let (shape, mut found) = (row.operation.shape(), Vec::new());
    places("", fields(&shape), &mut found);
    for (place, field) in found {
        let (parent, name) = place.rsplit_once('/').unwrap();
        let mut more = body.clone();
        let Some(Value::Object(members)) = more.pointer_mut(parent) else {
            continue;
        };
        if members.get(name).is_none_or(Value::is_null) {
            members.insert(name.to_owned(), some_value(&field.shape));
            if read(row, &more).is_ok() {
                body = more;
            }
        }
    }
    body
}

/// The fingerprints of each operation's example, and of that with what it leaves out, as far as
/// that can be read, are in tests/fingerprints.txt. The log stores them beside the idempotency key:
/// a key that was used before an update is one that was used with the same content after it. So
/// what the file has is never written anew; `REWRITE_DOCS=1` adds the operations that it does not
/// have.
#[test]
fn the_fingerprint_of_a_command_never_changes() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fingerprints.txt");
    let mut kept = std::fs::read_to_string(file).unwrap();
    let of = |row: &Row, body: &Value| read(row, body).ok().unwrap().fingerprint().to_hex();
    let told = OPERATIONS.iter().map(|row| {
        let example = example(row);
        let completed = completed(row, example.clone());
        let (one, other) = (of(row, &example), of(row, &completed));
        format!("{} {one} {other}", row.name)
    });
    let told: Vec<_> = told.collect();
    let known = kept.lines().count();
    if std::env::var("REWRITE_DOCS").is_ok() && known < told.len() {
        kept.extend(told[known..].iter().map(|line| format!("{line}\n")));
        std::fs::write(file, &kept).unwrap();
    }
    let kept: Vec<_> = kept.lines().collect();
    assert_eq!(told, kept, "REWRITE_DOCS=1 adds a new operation at the end");
}

/// The places of an object's fields and of those within them, as JSON pointers, each with its field.
fn places<'s>(parent: &str, fields: &'s [Field], found: &mut Vec<(String, &'s Field)>) {
    for field in fields {
        let place = format!("{parent}/{}", field.name);
        if let Shape::Object(inner) = &field.shape {
            places(&place, inner, found);
        }
        found.push((place, field));
    }
}

/// Values other than this one.
fn other_values(shape: &Shape, value: &Value) -> Vec<Value> {
    let mut values = match shape {
        Shape::Integer { .. } => vec![json!(value.as_i64().unwrap_or(0) + 1), json!(1), json!(0)],
        Shape::Text { .. } => {
            let text = value.as_str().unwrap_or("text");
            vec![
                json!(format!("{text}x")),
                json!(format!("1{}", text.get(1..).unwrap_or_default())),
            ]
        }
        Shape::Words(words) => words.iter().map(|word| json!(word)).collect(),
        Shape::Time => vec![json!("2098-02-03T04:05:06Z"), json!("2026-10-11T12:13:14Z")],
        Shape::Date => vec![json!("2026-10-07")],
        Shape::List { of, .. } => {
            let item = value.get(0).cloned().unwrap_or_else(|| some_value(of));
            let mut items = value.as_array().cloned().unwrap_or_default();
            items.extend(other_values(of, &item).into_iter().take(1));
            vec![json!(items)]
        }
        Shape::Flag | Shape::Map { .. } | Shape::Any | Shape::Object(_) => vec![some_value(shape)],
    };
    values.retain(|other| other != value);
    values
}

#[test]
fn a_fingerprint_covers_each_field_but_the_key_and_absent_equals_null() {
    let (mut changed, mut absent) = (0, 0);
    for row in OPERATIONS {
        let body = example(row);
        let of = |body: &Value| Some(read(row, body).ok()?.fingerprint());
        let first = of(&body);
        let key = read(row, &body).ok().unwrap().key().map(ToOwned::to_owned);
        if !row.operation.example().path.is_empty() {
            let elsewhere = read_at(row, Some("elsewhere"), &body).ok().unwrap();
            assert_ne!(Some(elsewhere.fingerprint()), first, "{}", row.name);
        }
        let (shape, mut found) = (row.operation.shape(), Vec::new());
        places("", fields(&shape), &mut found);
        for (place, field) in found {
            let (parent, name) = place.rsplit_once('/').unwrap();
            // What an optional object holds is reported at the object.
            let Some(Value::Object(members)) = body.pointer(parent) else {
                continue;
            };
            let with = |value: Option<Value>| {
                let (mut body, mut members) = (body.clone(), members.clone());
                match value {
                    Some(value) => members.insert(name.to_owned(), value),
                    None => members.remove(name),
                };
                *body.pointer_mut(parent).unwrap() = Value::Object(members);
                body
            };
            let value = members.get(name).unwrap_or(&Value::Null);
            let others = other_values(&field.shape, value).into_iter();
            let mut others = others.filter_map(|other| of(&with(Some(other))));
            if let Some(other) = others.next() {
                let is_key = key.is_some() && value.as_str() == key.as_deref();
                assert_eq!(Some(other) == first, is_key, "{}: {place}", row.name);
                changed += 1;
            }
            if field.presence == Presence::Optional
                && let Some(without) = of(&with(None))
            {
                assert_eq!(
                    of(&with(Some(Value::Null))),
                    Some(without),
                    "{}: {place}",
                    row.name
                );
                absent += 1;
            }
        }
    }
    println!("{changed} fields changed, {absent} absent or null");
    assert!(changed > 150 && absent > 25, "{changed} {absent}");
}

#[test]
fn every_bound_of_every_kind_of_facts_is_told_by_its_code_at_its_place() {
    let mut tried = 0;
    for kind in FACTS {
        let name = kind.kind().name;
        let sample = samples::lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|fact| fact["kind"] == name);
        let sample = sample.unwrap_or_else(|| panic!("there is no sample of {name}"));
        let read = |body: &Value| {
            let mut fact = sample.clone();
            fact["facts"] = body.clone();
            let text = fact.to_string();
            let json = Json::parse(text.as_bytes()).unwrap();
            match Incoming::of_item(0, &json, FACTS, Timestamp::default()).command {
                Ok(_) => Vec::new(),
                Err(faults) => faults
                    .into_iter()
                    .map(|fault| {
                        let path = fault
                            .path
                            .split_once("facts.")
                            .map(|(_, path)| path.to_owned());
                        (path.unwrap_or(fault.path), fault.code.as_str())
                    })
                    .collect(),
            }
        };
        let body = &sample["facts"];
        assert_eq!(read(body), [], "{name}");
        let place = Place {
            what: name,
            body,
            pointer: String::new(),
            path: String::new(),
            read: &read,
        };
        tried += try_fields(&place, fields(&kind.shape()));
    }
    println!("{tried} bounds");
    assert!(tried > 500, "{tried}");
}
