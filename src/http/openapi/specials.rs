//! The routes that are neither an operation nor a read of the catalogue, in the document; and the lists.

use serde_json::{Value, json};

use super::events;
use super::operations::security;
use super::parts::{self, Answers};
use super::schemas::{Schemas, pascal, title};
use crate::base::json::{FromJson as _, Side};
use crate::base::text::{EventTypePattern, Ident};
use crate::catalogue::{ListRow, ProblemShape};
use crate::domain::fact_kinds::{FactSchemas, fact_schemas};
use crate::domain::outbox::list::MessageBody;
use crate::domain::outbox::message::MessageStatus;
use crate::domain::reference::fact_lines::Summary;
use crate::domain::webhook::body::{DeliveryBody, SubscriptionBody};
use crate::http::readiness::Readiness;
use crate::http::route::{Handler, ManagementList, Special, WebhookList};

/// Returns the description of a route.
pub(super) fn special(special: Special, schemas: &mut Schemas) -> Value {
    let mut answers = Answers::new(special.name(), ProblemShape::Full, schemas);
    let mut parameters = vec![parts::parameter("X-Request-Id")];
    let mut body = None;
    let bearer = match special {
        Special::PutFacts => {
            put_facts(&mut answers, schemas);
            body = Some(facts(schemas));
            true
        }
        Special::Health => {
            let schema = closed(
                &json!({"status": {"type": "string", "const": "ok"}}),
                &["status"],
            );
            answers.success(200, "The process runs.", Some(schema), &[]);
            false
        }
        Special::Ready => {
            let says = "Commands are accepted (by a standby, only reads).";
            let readiness = schemas.of_types.subschema_for::<Readiness>().to_value();
            answers.success(200, says, Some(readiness), &[]);
            answers.problem(503, &["service_unavailable"]);
            false
        }
        Special::Metrics => {
            let text = Some(("text/plain", json!({"type": "string"})));
            answers.other(200, "Metrics in Prometheus' text format.", text, &[]);
            answers.problem(500, &["internal_error"]);
            false
        }
        Special::ApiDocument => {
            parameters.push(parts::parameter("If-None-Match"));
            let document = Some(json!({"type": "object", "additionalProperties": true}));
            answers.success(200, "This document.", document, &["ETag"]);
            answers.success(304, "The client's copy is current.", None, &["ETag"]);
            false
        }
        Special::Docs(file) => {
            parameters.push(parts::parameter("If-None-Match"));
            let media = file.media_type().split(';').next().unwrap_or_default();
            read_page(media, &mut answers);
            false
        }
    };
    let tag = match special {
        Special::PutFacts => "Facts",
        _ => "Service",
    };
    let mut operation = described((special.name(), tag), &parameters, answers, bearer, schemas);
    if let Some(body) = body {
        operation["requestBody"] = body;
    }
    operation
}

/// Returns the description of a route with this name and this tag.
fn described(
    (name, tag): (&str, &str),
    parameters: &[Value],
    answers: Answers,
    bearer: bool,
    schemas: &mut Schemas,
) -> Value {
    json!({
        "operationId": name,
        "summary": title(name),
        "tags": [tag],
        "parameters": parameters,
        "responses": answers.finish(schemas),
        "security": security(bearer),
    })
}

/// Describes a file of the page that shows the document.
fn read_page(media: &str, answers: &mut Answers) {
    let headers = [
        "Content-Security-Policy",
        "ETag",
        "Referrer-Policy",
        "X-Content-Type-Options",
    ];
    let says = "A file of the page that shows this document.";
    let text = Some((media, json!({"type": "string"})));
    answers.other(200, says, text, &headers);
    answers.success(304, "The client's copy is current.", None, &headers);
}

/// Returns the description of the list of messages, subscriptions or deliveries.
pub(super) fn management_list(of: ManagementList, schemas: &mut Schemas) -> Value {
    let mut answers = Answers::new(of.name(), ProblemShape::Full, schemas);
    let types = &mut schemas.of_types;
    let (name, item) = match of {
        ManagementList::Outbox => (
            "OutboxMessagePage",
            types.subschema_for::<MessageBody<'static>>(),
        ),
        ManagementList::Webhooks(WebhookList::Deliveries) => (
            "WebhookDeliveryPage",
            types.subschema_for::<DeliveryBody<'static>>(),
        ),
        ManagementList::Webhooks(WebhookList::Subscriptions) => (
            "WebhookSubscriptionPage",
            types.subschema_for::<SubscriptionBody<'static>>(),
        ),
    };
    let page = page(name, item.to_value(), schemas);
    let mut parameters = vec![parts::parameter("X-Request-Id")];
    parameters.extend(list_parameters());
    let text = json!({"type": "string", "minLength": 1});
    let tag = match of {
        ManagementList::Outbox => {
            let states = MessageStatus::ALL.map(MessageStatus::as_str);
            parameters.extend([
                query(
                    "state",
                    "Only messages in this state.",
                    json!({"type": "string", "enum": states}),
                ),
                query("topic", "Only those of exactly this topic.", text.clone()),
                query("resource", "Only those about exactly this resource.", text),
            ]);
            list(&mut answers, page, &["permission_denied"], None);
            "Messages"
        }
        ManagementList::Webhooks(WebhookList::Deliveries) => {
            parameters.push(json!({
                "name": "subscriptionId", "in": "path", "required": true,
                "schema": {"type": "string", "minLength": 1},
            }));
            let states =
                json!({"type": "string", "enum": ["waiting", "dead"], "default": "waiting"});
            parameters.push(query("state", "Which deliveries.", states));
            let missing = ["not_found", "route_not_found"];
            list(&mut answers, page, &["permission_denied"], Some(&missing));
            "Webhooks"
        }
        ManagementList::Webhooks(WebhookList::Subscriptions) => {
            list(&mut answers, page, &["permission_denied"], None);
            "Webhooks"
        }
    };
    described((of.name(), tag), &parameters, answers, true, schemas)
}

/// What is said of each problem with which a batch of facts may end.
const BEFORE_THE_END: &str = "Facts before that may have been applied: `message` says how many, where \
                              that is known. Sending the whole batch again is safe.";

fn put_facts(answers: &mut Answers, schemas: &mut Schemas) {
    let summary = schemas.of_types.subschema_for::<Summary>().to_value();
    let says = "How many facts had which result.";
    answers.success(200, says, Some(summary), &["Carebook-Position"]);
    for (status, codes) in [
        (400, &["request_invalid"][..]),
        (
            403,
            &["actor_inactive", "actor_withdrawn", "permission_denied"],
        ),
        (408, &["request_invalid"]),
        (413, &["body_too_large"]),
        (415, &["unsupported_media_type"]),
    ] {
        answers.problem(status, codes);
    }
    answers.usual();
    answers.problem(
        503,
        &["service_unavailable", "not_the_writer", "outcome_unknown"],
    );
    // A batch can end before all of its facts were looked at.
    for (status, why) in [
        (
            400,
            "The request is not valid, or the chunks of a stream are malformed.",
        ),
        (401, "The token is missing or invalid, or has expired."),
        (403, "The actor may not do this, or may no longer."),
        (408, "The body did not arrive whole and in time."),
        (429, "The service is busy."),
        (500, "An internal error."),
        (503, "The service is not available at present."),
    ] {
        answers.says(status, &format!("{why} {BEFORE_THE_END}"));
    }
}

/// Returns the description of `GET /events`.
pub(super) fn read_events(schemas: &mut Schemas) -> Value {
    let name = Handler::Events.name();
    let mut answers = Answers::new(name, ProblemShape::Full, schemas);
    let event = events::any(schemas);
    let page = schemas.named("EventPage", |_| {
        let end = json!({
            "type": "boolean", "description": "Whether the page has reached the end of the durable log.",
        });
        closed(
            &json!({
                "events": {"type": "array", "items": event}, "next": parts::event_id(), "end": end,
            }),
            &["events", "next", "end"],
        )
    });
    let says = "A page of events, or a stream for `Accept: text/event-stream`.";
    answers.success(200, says, Some(page), &["Carebook-Position"]);
    answers.also(200, "text/event-stream", json!({"type": "string"}));
    answers.problem(400, &["request_invalid"]);
    let forbidden = ["actor_inactive", "actor_withdrawn", "permission_denied"];
    answers.problem(403, &forbidden);
    answers.problem(410, &["events_gone"]);
    answers.usual();
    let mut parameters = vec![parts::parameter("X-Request-Id")];
    parameters.extend(event_parameters());
    described((name, "Events"), &parameters, answers, true, schemas)
}

/// Returns the schema of an object with these members and no others.
fn closed(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

/// Returns the schema of a batch of facts. An item that fits no kind is reported in the response while the others are
/// applied, so it does not make the request invalid.
fn facts(schemas: &mut Schemas) -> Value {
    let fact = schemas.named("ReferenceFactToPut", |schemas| {
        let FactSchemas { kinds, by_kind } = fact_schemas(Side::Request, &mut schemas.of_types);
        json!({"oneOf": kinds, "discriminator": by_kind})
    });
    // All types are listed, because client generators would make a type of its own for each array's items from a
    // schema without a type.
    let unfit = schemas.named("UnfitReferenceFact", |_| {
        json!({
            "anyOf": [
                {"type": "object"},
                {"type": ["array", "string", "number", "boolean", "null"], "items": {}},
            ],
            "description": "An item that fits no kind is not applied, and reported as `invalid`.",
        })
    });
    let batch = schemas.named("ReferenceFacts", |_| {
        closed(
            &json!({"facts": {"type": "array", "items": {"anyOf": [fact, unfit]}}}),
            &["facts"],
        )
    });
    json!({
        "required": true,
        "content": {
            "application/json": {"schema": batch},
            "application/x-ndjson": {"schema": {
                "type": "string", "description": "A fact on each line.",
            }},
        },
    })
}

fn query(name: &str, says: &str, schema: Value) -> Value {
    json!({"name": name, "in": "query", "required": false, "description": says, "schema": schema})
}

fn event_parameters() -> Vec<Value> {
    let pattern = EventTypePattern::shape().schema(Side::Request);
    let types = json!({"type": "array", "items": pattern, "maxItems": 50});
    vec![
        query(
            "after",
            "The event after which to continue; without it, from the earliest that the log has.",
            parts::event_id(),
        ),
        query(
            "limit",
            "The most events in a page.",
            json!({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}),
        ),
        query(
            "type",
            "A type, or a prefix of types that ends with `*`; may be repeated.",
            types,
        ),
        query(
            "subject",
            "Only events of exactly this subject.",
            json!({"type": "string", "minLength": 1}),
        ),
        parts::parameter("Carebook-Min-Position"),
        parts::parameter("Last-Event-ID"),
    ]
}

/// Returns the description of the list of a read's resources.
pub(super) fn list_of(row: &'static ListRow, schemas: &mut Schemas) -> Value {
    let item = (row.read.body)(&mut schemas.of_types).to_value();
    let name = pascal(row.name.trim_start_matches("list_"));
    let page = page(&format!("{name}Page"), item, schemas);
    let mut answers = Answers::new(row.name, ProblemShape::Full, schemas);
    list(&mut answers, page, &[], None);
    answers.headers(200, &["ETag"]);
    answers.unchanged();
    let mut parameters = vec![
        parts::parameter("X-Request-Id"),
        parts::parameter("If-None-Match"),
    ];
    parameters.extend(list_parameters());
    let filters = row.filters();
    parameters.extend(filters.map(|(_, name)| {
        query(
            name,
            "Only resources with exactly this value.",
            Ident::shape().schema(Side::Request),
        )
    }));
    described((row.name, "Lists"), &parameters, answers, true, schemas)
}

/// Returns the parameters of every list.
fn list_parameters() -> Vec<Value> {
    let order = json!({"type": "string", "enum": ["newest", "oldest"], "default": "newest"});
    vec![
        parts::parameter("limit"),
        parts::parameter("cursor"),
        parts::parameter("Carebook-Min-Position"),
        query("order", "The order, by creation.", order),
    ]
}

/// Returns the schema of a page of a list of these items.
pub(super) fn page(name: &str, item: Value, schemas: &mut Schemas) -> Value {
    schemas.named(name, |_| {
        closed(
            &json!({
                "items": {"type": "array", "items": item},
                "next": {
                    "type": ["string", "null"],
                    "description": "The cursor of the next page; null when there is none.",
                },
            }),
            &["items", "next"],
        )
    })
}

/// Adds the answers of a list.
pub(super) fn list(
    answers: &mut Answers,
    page: Value,
    forbidden: &[&str],
    missing: Option<&[&str]>,
) {
    answers.success(200, "A page.", Some(page), &["Carebook-Position"]);
    answers.problem(400, &["request_invalid"]);
    let mut codes = vec!["actor_inactive", "actor_withdrawn"];
    codes.extend(forbidden);
    answers.problem(403, &codes);
    if let Some(missing) = missing {
        answers.problem(404, missing);
    }
    answers.usual();
}
