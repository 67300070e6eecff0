//! What a body may hold is declared once, where it is read ([`carebook::base::json::Shape`]). Here
//! every bound of every member of every operation and of every kind of facts is tried: what the
//! declaration says is what is read, and a fault is told by its code at its place.

use carebook::base::json::{Field, Json, Presence, Reader, Shape};
use carebook::base::time::Instant;
use carebook::catalogue::{FACTS, OPERATIONS};
use carebook::domain::operation::Parts;
use carebook::domain::reference::intake::Incoming;
use carebook::domain::reference::samples;
use serde_json::{Value, json};

/// Reads a body, and tells its faults: place and code.
type Read<'a> = dyn Fn(&Value) -> Vec<(String, &'static str)> + 'a;

/// A good body, where a member of it is, and how bodies are read.
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

    /// The faults when the value here is another one, or is left out.
    fn faults(&self, value: Option<Value>) -> Vec<(String, &'static str)> {
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
        (self.read)(&body)
    }

    /// With this value here, this code is told here.
    #[track_caller]
    fn refused(&self, value: Option<Value>, code: &'static str) {
        let shown = value.as_ref().map_or("nothing".to_owned(), shortly);
        let faults = self.faults(value);
        let told = faults.contains(&(self.path.clone(), code));
        let Self { what, path, .. } = self;
        assert!(told, "{what}: {path} = {shown} is no {code}: {faults:?}");
    }

    /// With this value here, nothing is told here; a rule between members may tell of another.
    #[track_caller]
    fn taken(&self, value: Option<Value>) {
        let shown = value.as_ref().map_or("nothing".to_owned(), shortly);
        let faults = self.faults(value);
        // A rule between members may want one of them: that is no fault of its type or bounds.
        let refused = |(path, code): &(String, &str)| *path == self.path && *code == "wrong_type";
        let Self { what, path, .. } = self;
        assert!(
            !faults.iter().any(refused),
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
        } => {
            place.refused(Some(json!("")), "too_short");
            place.refused(Some(json!("가".repeat(longest + 1))), "too_long");
            match (blank, *form) {
                (false, _) => place.refused(Some(json!(" \u{3000}")), "blank"),
                (true, "") => place.taken(Some(json!(" "))),
                (true, _) => place.refused(Some(json!(" ")), "pattern"),
            }
            if form.is_empty() {
                let longest = json!("가".repeat(*longest));
                assert!(
                    !place
                        .faults(Some(longest))
                        .contains(&(place.path.clone(), "too_long")),
                    "{}: {}",
                    place.what,
                    place.path
                );
            }
            4
        }
        Shape::Words(words) => {
            place.refused(Some(json!("no such word")), "not_allowed");
            place.refused(Some(json!(format!("{} ", words[0]))), "not_allowed");
            for word in words {
                let faults = place.faults(Some(json!(word)));
                assert!(
                    !faults.contains(&(place.path.clone(), "wrong_type")),
                    "{faults:?}"
                );
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
        } => {
            match shortest {
                0 => place.taken(Some(json!([]))),
                _ => place.refused(Some(json!([])), "too_short"),
            }
            let item = place.value().and_then(|value| value.get(0));
            if let (Some(longest), Some(item)) = (longest, item) {
                place.refused(Some(json!(vec![item; longest + 1])), "too_long");
            }
            let has_item = place.value().is_some_and(|value| value.get(0).is_some());
            1 + if has_item {
                try_shape(&place.first_item(), of)
            } else {
                0
            }
        }
        Shape::Map { of } => {
            place.taken(Some(json!({})));
            let inner = place.value().and_then(Value::as_object);
            match inner.and_then(|inner| inner.keys().next()) {
                Some(name) => try_shape(&place.inside(name), of),
                None => 0,
            }
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
            match place.value() {
                Some(Value::Object(_)) => try_fields(place, fields),
                // An optional object that the example does not have: what it needs is told.
                _ => missing(place, fields),
            }
        }
    }
}

impl Place<'_> {
    /// With this value at `at`, this code is told here.
    #[track_caller]
    fn told_in(&self, at: &Place<'_>, value: Value, code: &'static str) {
        let faults = at.faults(Some(value));
        let told = faults.contains(&(self.path.clone(), code));
        assert!(told, "{}: {}: {faults:?}", self.what, self.path);
    }
}

/// With an empty object here, each member that has to be there is told.
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

/// The members of an object.
fn fields(shape: &Shape) -> &[Field] {
    match shape {
        Shape::Object(fields) => fields,
        other => panic!("a body is an object, not {other:?}"),
    }
}

#[test]
fn every_bound_of_every_operation_is_told_by_its_code_at_its_place() {
    let mut tried = 0;
    for row in OPERATIONS {
        let example = row.operation.example();
        let before = json!({"statementId": "statement-1", "requestId": "request-1"});
        let names = row.path.split('/');
        let names = names.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let path: Vec<_> = names.zip(example.path.iter().copied()).collect();
        let now = Instant::parse("2026-11-20T12:00:00Z").unwrap();
        let read = |body: &Value| {
            let text = body.to_string();
            let json = Json::parse(text.as_bytes()).unwrap();
            let mut at = Reader::new(now);
            let parts = Parts {
                path: &path,
                body: &json,
            };
            let command = row.operation.read(row.name, &parts, &mut at);
            let faults = at.into_faults();
            assert!(command.is_some() || !faults.is_empty(), "{}", row.name);
            faults
                .into_iter()
                .map(|fault| (fault.path, fault.code.as_str()))
                .collect()
        };
        let body = example.body(&before);
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
    assert!(tried > 1_000, "{tried}");
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
            match Incoming::of_item(0, &json, FACTS, Instant::default()).command {
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
