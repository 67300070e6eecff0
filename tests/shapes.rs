//! What a body may hold is declared once, where it is read ([`carebook::base::json::Shape`]). Here
//! every bound of every member of every operation and of every kind of facts is tried: what the
//! declaration says is what is read, and a fault is told by its code at its place.

use carebook::base::json::{Field, Json, Presence, Reader, Shape};
use carebook::base::time::Instant;
use carebook::catalogue::{FACTS, OPERATIONS, Row};
use carebook::domain::operation::{AnyCommand, Parts};
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

    /// With this value here, this code is told here.
    #[track_caller]
    fn refused(&self, value: Option<Value>, code: &'static str) {
        let shown = value.as_ref().map_or("nothing".to_owned(), shortly);
        let faults = self.faults(value);
        let told = faults.contains(&(self.path.clone(), code));
        let Self { what, path, .. } = self;
        assert!(told, "{what}: {path} = {shown} is no {code}: {faults:?}");
    }

    /// With this value here, nothing is told here, but for what a rule between members has against
    /// it.
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

/// A value of this shape, as far as the shape tells: a text may have no form.
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
    let names = row.path.split('/');
    let names = names.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let path: Vec<_> = names.zip(parameter).collect();
    let text = body.to_string();
    let json = Json::parse(text.as_bytes()).unwrap();
    let mut at = Reader::new(Instant::parse("2026-11-20T12:00:00Z").unwrap());
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

/// The fingerprints of each operation's example, and of that with what it leaves out, as far as that
/// can be read. They stand in the log beside the idempotency key: a
/// key that was used before an update is one that was used with the same content after it.
const FINGERPRINTS: &[(&str, &str, &str)] = &[
    (
        "authorize_payment",
        "1b8c9d277d7b854721a8c7a674b40a71e07c06bb49eda13439f594b48f086257",
        "1b8c9d277d7b854721a8c7a674b40a71e07c06bb49eda13439f594b48f086257",
    ),
    (
        "grant_payment_authority",
        "2afbf8af4dd6ff2fc525b4418544727ce8676b0cb8d62e3aa6becacd3ea6d7c2",
        "2afbf8af4dd6ff2fc525b4418544727ce8676b0cb8d62e3aa6becacd3ea6d7c2",
    ),
    (
        "create_branch",
        "1f306be77b273997d7716c73dbdc9af849c19a8bb7a3ed1de032172f456219dc",
        "1f306be77b273997d7716c73dbdc9af849c19a8bb7a3ed1de032172f456219dc",
    ),
    (
        "grant_care_history_access",
        "5139cf7484027cfed47a80d91307bd5740891d6318a2f9d3fcdeb9d3f459efe8",
        "5139cf7484027cfed47a80d91307bd5740891d6318a2f9d3fcdeb9d3f459efe8",
    ),
    (
        "open_data_room_request",
        "eff56fc59ff8e993beb8b7d037131305f95d1816ee967944f63ba5ab09212e4f",
        "131416c1fdf9c9c6cb99d971d1286fa210e1bf2f6560ef33d11a358dd234f09f",
    ),
    (
        "mark_artifact_ready",
        "78e4f8309fa2e0b2b238e71ca84ba791908acc377cc288b97cd89be7ec4cbd39",
        "78e4f8309fa2e0b2b238e71ca84ba791908acc377cc288b97cd89be7ec4cbd39",
    ),
    (
        "update_mother_profile",
        "190d98a42744dd9f29b5b2c6db137385b41ebc346912f3ff2118c2fb35e01353",
        "190d98a42744dd9f29b5b2c6db137385b41ebc346912f3ff2118c2fb35e01353",
    ),
    (
        "acknowledge_deposit",
        "5616b6ee6edf80f7e1a2c1283b1b93ac09060046f0c027b27492b6715c872da3",
        "544b12cbfb3b20d1f66c5da3c35c6b80d8b4d1c61ada8b1da8eec0d229d0b6c3",
    ),
    (
        "request_deposit",
        "a86ce8829baa4f371c92fa84e73671e4b012b23ffd030b7142187010c30881e8",
        "8346be46f30d6165c8d1939a3acae82d635a80be1a40f9a8dbdc4d322fa62443",
    ),
    (
        "assign_caregiver",
        "59e3d1ee8582cabbdf3ffe5be33f9a5fce784b95cb7f67f5b8d2797372e03367",
        "2240023bfd889a3625697f07c8412829cdf4dc3daa978dfd94818a99d86e4c89",
    ),
    (
        "repair_payout_receipt",
        "0a6d0654d14ce5987af3f786e1b1191ee0f1b04b5a432e165d8028fd8f5fc1c5",
        "0a6d0654d14ce5987af3f786e1b1191ee0f1b04b5a432e165d8028fd8f5fc1c5",
    ),
    (
        "acknowledge_payout_deposit",
        "4a50ebb6e9848c603121a0b70c299e60fe2d86578f7d977192c861ba8b1a0392",
        "a29e6a96201b847d765832c010243a06f56d23d0445e2764b7f668bdeb965055",
    ),
    (
        "finalize_charge",
        "b3f02fc8359f26831ee4b17fceeb482898328d497c10c048cb77fbdb5b7c1612",
        "fa0db570e84f472582492f79bd51e7c58eb940551d6ace98d57722a60865f8d9",
    ),
    (
        "accept_manager_invitation",
        "e809cf4bec1bdca1850c3568cb41b75a303df34d41712182cfe18dbb55978452",
        "e809cf4bec1bdca1850c3568cb41b75a303df34d41712182cfe18dbb55978452",
    ),
    (
        "capture_adjustment_payment",
        "00db93710d05afa97af8be4e2cbf2b8d56418acde6094089f8f56c0ebb25e61d",
        "00db93710d05afa97af8be4e2cbf2b8d56418acde6094089f8f56c0ebb25e61d",
    ),
    (
        "snapshot_settlement_account",
        "e3b4fb8841cf4d60bd97c3047c5926de655fcee05c2815f811dd6499a4344499",
        "e3b4fb8841cf4d60bd97c3047c5926de655fcee05c2815f811dd6499a4344499",
    ),
    (
        "decide_cash_receipt_eligibility",
        "1a6d0220cdd361443bcb460e3af6f54af1291a874cae04cf992a7e9e1cad9aad",
        "1a6d0220cdd361443bcb460e3af6f54af1291a874cae04cf992a7e9e1cad9aad",
    ),
    (
        "confirm_reservation_draft",
        "b219f643d5c919dd2c8e62f42637fcc09bd8a92045f8aab8131b6f57e9244137",
        "b219f643d5c919dd2c8e62f42637fcc09bd8a92045f8aab8131b6f57e9244137",
    ),
    (
        "update_branch_office_profile",
        "5f30f2390ca65d44fddf8a5032c4901c75675b9bd167c3096967e79e76acdffe",
        "5f30f2390ca65d44fddf8a5032c4901c75675b9bd167c3096967e79e76acdffe",
    ),
    (
        "pre_register_payment",
        "2bbcec24aa124d33da65c8548a4538385a3d97316477bb07dec7fac8246a6056",
        "2bbcec24aa124d33da65c8548a4538385a3d97316477bb07dec7fac8246a6056",
    ),
    (
        "administer_gateway",
        "2cf5c033427285655527f020bb0c600b81409c98c80bc0008c298a0d9051462e",
        "0c06035328e14f90dc5911dc760c382042bf76f5293a75275010e37c652077dc",
    ),
];

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

#[test]
fn the_fingerprint_of_a_command_never_changes() {
    let of = |row: &Row, body: &Value| read(row, body).ok().unwrap().fingerprint().to_hex();
    let told = OPERATIONS.iter().map(|row| {
        let example = example(row);
        let completed = completed(row, example.clone());
        (row.name, of(row, &example), of(row, &completed))
    });
    let told: Vec<_> = told.collect();
    let told: Vec<_> = told
        .iter()
        .map(|(name, one, other)| (*name, one.as_str(), other.as_str()))
        .collect();
    assert_eq!(told, FINGERPRINTS, "{told:#?}");
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
fn a_fingerprint_knows_every_field_but_the_key_and_not_whether_one_is_absent_or_null() {
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
            // What an optional object holds is told by the object.
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
