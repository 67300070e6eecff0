//! Operations and reads in the document.

use serde_json::{Value, json};

use super::events::recorded;
use super::parts::{self, Answers};
use super::schemas::{Schemas, pascal, title};
use crate::base::json::{FromJson as _, Presence, Shape, Side};
use crate::base::text::Ident;
use crate::catalogue::{BodySource, KeySource, Purpose, ReadRow, Row, Success};
use crate::engine::read::past::HistoryEntry;
use crate::http::examples;
use crate::http::response::{Codes, statuses};

/// The header of a replay, for operations with an idempotency key.
const REPLAYED: &str = "Idempotent-Replayed";

/// Returns the parameters of a path.
fn path_parameters(path: &str, examples: &[String]) -> Vec<Value> {
    let parameters = path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?;
        name.strip_suffix('}')
    });
    let mut examples = examples.iter();
    parameters
        .map(|name| {
            let mut parameter = json!({
                "name": name, "in": "path", "required": true,
                "schema": {"type": "string", "minLength": 1},
            });
            if let Some(example) = examples.next() {
                parameter["example"] = json!(example);
            }
            parameter
        })
        .collect()
}

/// Returns the description of an operation.
pub(super) fn operation(row: &'static Row, schemas: &mut Schemas) -> Value {
    let example = examples::example(row);
    let mut parameters = path_parameters(row.path, &example.path);
    for parameter in &mut parameters {
        // A path parameter is parsed like an identifier in a body.
        parameter["schema"] = Ident::shape().schema(Side::Request);
        if row.path.contains("{eventId}") && parameter["name"] == "eventId" {
            parameter["schema"] = parts::event_id();
        }
    }
    parameters.extend(key_parameter(row.key));
    if row.purpose == Purpose::Service {
        parameters.push(parts::parameter("dryRun"));
    }
    parameters.push(parts::parameter("X-Request-Id"));
    if row.body == BodySource::Query {
        parameters.extend(query_parameters(&row.operation.shape(), &example.body));
    }
    let has_key = row.key != KeySource::None;
    let mut answers = Answers::new(row.name, row.problem, schemas);
    for (status, codes) in all_statuses(row) {
        if status < 300 {
            let body = match status {
                204 => None,
                _ => Some(row.operation.answer(&mut schemas.of_types).to_value()),
            };
            let mut headers = vec!["Carebook-Position"];
            if has_key {
                headers.push(REPLAYED);
            }
            answers.success(status, success_says(row, status), body, &headers);
        } else {
            answers.problem(status, &codes);
        }
    }
    if let Some((member, schema)) = row.operation.conflict(&mut schemas.of_types) {
        let codes = all_statuses(row)
            .into_iter()
            .find(|(status, _)| *status == 409);
        let codes = codes.map(|(_, codes)| codes).unwrap_or_default();
        let schema = json!({"allOf": [
            schema.to_value(), {"properties": {member: {"enum": codes}}},
        ]});
        answers.own(409, schema);
    }
    if row.purpose == Purpose::Service {
        answers.document_dry_run();
    }
    let mut operation = json!({
        "operationId": row.name,
        "summary": title(row.name),
        "description": row.operation.doc(),
        "tags": [tag(row)],
        "parameters": parameters,
        "responses": answers.finish(schemas),
        "security": security(row.bearer),
        "x-carebook-number": row.tag,
        "x-carebook-demo-actor": row.operation.example().actor,
    });
    match row.body {
        BodySource::Json => {
            let name = format!("{}Request", pascal(row.name));
            let schema = schemas.named(&name, |_| row.operation.shape().schema(Side::Request));
            operation["requestBody"] = json!({
                "required": true,
                "content": {"application/json": {"schema": schema, "example": example.body}},
            });
        }
        BodySource::Nothing => {
            operation["requestBody"] = json!({
                "required": false,
                "content": {"application/json": {"schema": row.operation.shape().schema(Side::Request)}},
            });
        }
        BodySource::Query => {}
    }
    operation
}

/// Returns the parameter that carries an idempotency key, if it is in a header.
fn key_parameter(key: KeySource) -> Option<Value> {
    match key {
        KeySource::Header => Some(parts::parameter("Idempotency-Key")),
        KeySource::HeaderIfSent => Some(parts::parameter("Idempotency-Key-If-Any")),
        KeySource::Body | KeySource::BodyOfAll { .. } | KeySource::None => None,
    }
}

/// Returns the statuses of an operation's responses, with the codes of its problems.
fn all_statuses(row: &Row) -> Vec<(u16, Codes)> {
    let mut statuses = statuses(row);
    if !matches!(row.body, BodySource::Json | BodySource::Nothing) {
        for of_bodies in [408, 413, 415] {
            statuses.remove(&of_bodies);
        }
    }
    if row.awaits_receivers {
        statuses.insert(202, Vec::new());
    }
    if row.path.contains("{eventId}") {
        statuses.insert(410, vec!["event_gone"]);
    }
    if row.path.contains('{') {
        // The path parameter may be empty or not UTF-8.
        let missing = statuses.entry(404).or_default();
        missing.push("route_not_found");
    }
    statuses.into_iter().collect()
}

fn success_says(row: &Row, status: u16) -> &'static str {
    match (row.success, status) {
        (_, 202) => "Accepted: a side effect is still pending.",
        (_, 204) => "Done.",
        (Success::CreatedOnce, 200) => "A replay: the stored response.",
        (_, 201) => "Done: a resource was created.",
        _ => "Done.",
    }
}

fn tag(row: &Row) -> &'static str {
    match row.purpose {
        Purpose::Service => "Operations",
        Purpose::Webhooks => "Webhooks",
        Purpose::Messages => "Messages",
    }
}

pub(super) fn security(bearer: bool) -> Value {
    match bearer {
        true => json!([{"bearer": []}]),
        false => json!([]),
    }
}

/// Returns the query parameters of an operation that has its fields in the query, and no body.
fn query_parameters(shape: &Shape, example: &Value) -> Vec<Value> {
    let Shape::Object(fields) = shape else {
        return Vec::new();
    };
    let query = fields.iter().find(|field| field.name == "query");
    let Some(Shape::Object(fields)) = query.map(|field| &field.shape) else {
        return Vec::new();
    };
    fields
        .iter()
        .map(|field| {
            json!({
                "name": field.name, "in": "query",
                "description": field.says.trim(),
                "required": field.presence == Presence::Required,
                "schema": field.shape.schema(Side::Request),
                "example": example["query"][field.name],
            })
        })
        .collect()
}

/// Returns the description of a read.
pub(super) fn read(row: &'static ReadRow, schemas: &mut Schemas) -> Value {
    let mut parameters = path_parameters(row.path, &[]);
    parameters
        .extend(["If-None-Match", "Carebook-Min-Position", "X-Request-Id"].map(parts::parameter));
    if row.history.is_some() {
        parameters.extend(["revision", "at"].map(parts::parameter));
    }
    let mut answers = Answers::new(row.name, row.problem, schemas);
    let body = (row.body)(&mut schemas.of_types).to_value();
    let headers = ["Carebook-Position", "ETag"];
    answers.success(200, "The resource's body.", Some(body), &headers);
    answers.unchanged();
    let mut forbidden = vec!["actor_inactive", "actor_withdrawn"];
    if row.needs_permission {
        forbidden.push("permission_denied");
    }
    let mut missing = vec!["not_found"];
    if row.path.contains('{') {
        missing.push("route_not_found");
    }
    if row.is_always {
        missing.clear();
    }
    answers.problem(400, &["request_invalid"]);
    answers.problem(403, &forbidden);
    if row.history.is_some() {
        answers.problem(410, &["revision_gone"]);
    }
    if !missing.is_empty() {
        answers.problem(404, &missing);
    }
    answers.usual();
    json!({
        "operationId": row.name,
        "summary": title(row.name),
        "tags": ["Reads"],
        "parameters": parameters,
        "responses": answers.finish(schemas),
        "security": security(true),
    })
}

/// Returns the description of the history of the resource that `row` reads.
pub(super) fn history(row: &'static ReadRow, schemas: &mut Schemas) -> Value {
    let name = format!("{}_history", row.name);
    let mut parameters = path_parameters(row.path, &[]);
    parameters
        .extend(["Carebook-Min-Position", "X-Request-Id", "limit", "cursor"].map(parts::parameter));
    let mut answers = Answers::new(&name, row.problem, schemas);
    let page = schemas.named("History", |schemas| {
        let revision = schemas.of_types.subschema_for::<HistoryEntry<'static>>();
        let operation = recorded(schemas);
        // The schema of the operation's name is replaced by the catalogue's list.
        let told = schemas.of_types.definitions_mut();
        if let Some(told) = told.get_mut("HistoryRevision") {
            told["properties"]["operation"] = operation;
        }
        let revision = revision.to_value();
        json!({
            "type": "object",
            "properties": {
                "revisions": {"type": "array", "items": revision},
                "next": {"type": ["string", "null"]},
                "complete": {
                    "type": "boolean",
                    "description": "Whether the log still has the whole history.",
                },
            },
            "required": ["revisions", "next", "complete"],
            "additionalProperties": false,
        })
    });
    answers.success(
        200,
        "Its revisions, the newest first.",
        Some(page),
        &["Carebook-Position"],
    );
    answers.problem(400, &["request_invalid"]);
    answers.problem(403, &["actor_inactive", "actor_withdrawn"]);
    let mut missing = vec!["not_found"];
    if row.path.contains('{') {
        missing.push("route_not_found");
    }
    answers.problem(404, &missing);
    answers.usual();
    json!({
        "operationId": name,
        "summary": title(&name),
        "tags": ["Reads"],
        "parameters": parameters,
        "responses": answers.finish(schemas),
        "security": security(true),
    })
}
