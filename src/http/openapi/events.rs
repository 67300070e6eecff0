//! Events in the document, as `GET /events` returns them and as webhooks send them.

use serde_json::{Map, Value, json};

use super::schemas::{Schemas, pascal, reference};
use crate::base::actor::ActorKind;
use crate::base::json::{Side, nullable};
use crate::catalogue;
use crate::domain::event::{EventField, EventType};
use crate::domain::event_id::EventId;
use crate::journal::events::{GAP_TYPE, event_types};

/// Returns the schema of an event of any type.
pub(super) fn any(schemas: &mut Schemas) -> Value {
    schemas.named("Event", |schemas| {
        let mut mapping = Map::new();
        let types: Vec<_> = event_types()
            .iter()
            .map(|of| {
                let named = schema_of(of, schemas);
                mapping.insert(of.name.event_type(), named["$ref"].clone());
                named
            })
            .collect();
        json!({"oneOf": types, "discriminator": {"propertyName": "type", "mapping": mapping}})
    })
}

/// Returns the schema of the operations that make commits, by their names in events and histories.
pub(super) fn recorded(schemas: &mut Schemas) -> Value {
    schemas.named("RecordedOperation", |_| {
        let recorded = catalogue::recorded_operations().map(|(_, name)| name);
        let names: Vec<_> = recorded.chain(["reference_fact"]).collect();
        json!({"type": "string", "description": "The operation that made the commit.", "enum": names})
    })
}

/// Returns the name of an event's schema: the name of its type, without dots and dashes.
fn name_of(event_type: &str) -> String {
    let words = event_type.trim_start_matches("carebook.");
    format!("{}Event", pascal(&words.replace(['.', '-'], "_")))
}

fn schema_of(of: &EventType, schemas: &mut Schemas) -> Value {
    let event_type = of.name.event_type();
    let operation = recorded(schemas);
    let actor_kind = schemas.of_types.subschema_for::<ActorKind>().to_value();
    schemas.named(&name_of(&event_type), |_| {
        let mut properties = Map::new();
        let mut required = vec!["operation", "revision", "actorKind", "actorProfileId"];
        for (name, schema) in [
            ("operation", operation),
            (
                "revision",
                json!({"type": ["integer", "null"], "format": "int64", "minimum": 1}),
            ),
            ("actorKind", nullable(actor_kind)),
            ("actorProfileId", json!({"type": ["string", "null"]})),
        ] {
            properties.insert(name.to_owned(), schema);
        }
        for field in (of.fields)() {
            let EventField {
                name,
                is_nullable,
                shape,
            } = field;
            let schema = shape.schema(Side::Response);
            let schema = match is_nullable {
                true => nullable(schema),
                false => schema,
            };
            properties.insert(name.to_owned(), schema);
            required.push(name);
        }
        let data = json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": false,
        });
        object(&event_type, of.description.trim(), true, &data)
    })
}

/// Returns the schema of a `CloudEvents` object of this type, with this data.
fn object(event_type: &str, says: &str, has_time: bool, data: &Value) -> Value {
    let id = <EventId as crate::base::json::FromJson>::shape().schema(Side::Response);
    let mut schema = json!({
        "type": "object",
        "description": says,
        "properties": {
            "specversion": {"type": "string", "const": "1.0"},
            "id": id,
            "source": {"type": "string", "pattern": "^urn:carebook:"},
            "type": {"type": "string", "const": event_type},
            "subject": {
                "type": "string",
                "description": "The read path of the changed resource, without its first slash.",
            },
            "sequence": {"type": "string", "pattern": "^[0-9]{20}$"},
            "datacontenttype": {"type": "string", "const": "application/json"},
            "data": data,
        },
        "required": [
            "specversion", "id", "source", "type", "subject", "sequence", "datacontenttype", "data",
        ],
        "additionalProperties": false,
    });
    if has_time {
        let time = crate::base::json::Shape::Time.schema(Side::Response);
        schema["properties"]["time"] = time;
        if let Some(required) = schema["required"].as_array_mut() {
            required.push(json!("time"));
        }
    }
    schema
}

/// Returns the webhooks, by event type: the requests to the URL of a subscription.
pub(super) fn webhooks(schemas: &mut Schemas) -> Map<String, Value> {
    any(schemas);
    let position = json!({"type": "integer", "format": "int64", "minimum": 0});
    let data = json!({
        "type": "object", "properties": {"from": position, "to": position},
        "required": ["from", "to"], "additionalProperties": false,
    });
    let says =
        "Events between these positions were removed from the log before they were delivered.";
    schemas.named(&name_of(GAP_TYPE), |_| object(GAP_TYPE, says, false, &data));
    let types = event_types().into_iter();
    let types = types.map(|of| (of.name.event_type(), of.description.trim()));
    types
        .chain([(GAP_TYPE.to_owned(), says)])
        .map(|(event_type, says)| {
            let sent = sent(&event_type, says);
            (event_type, sent)
        })
        .collect()
}

fn sent(event_type: &str, says: &str) -> Value {
    let header = |name: &str, says: &str, pattern: &str| {
        json!({
            "name": name, "in": "header", "required": true, "description": says,
            "schema": {"type": "string", "pattern": pattern},
        })
    };
    json!({"post": {
        "operationId": format!("on{}", name_of(event_type)),
        "summary": says,
        "tags": ["Webhooks"],
        "parameters": [
            header("webhook-id", "The event's identifier with the log's: the same in every attempt.", "^.+-[0-9]+-[0-9]+$"),
            header("webhook-timestamp", "When it is sent, in seconds since 1970.", "^[0-9]+$"),
            header(
                "webhook-signature",
                "HMAC-SHA256 over identifier, time and body (Standard Webhooks); two of them for a day after a rotation.",
                "^v1,[A-Za-z0-9+/]+=*( v1,[A-Za-z0-9+/]+=*)*$",
            ),
        ],
        "requestBody": {
            "required": true,
            "content": {"application/cloudevents+json": {"schema": reference(&name_of(event_type))}},
        },
        "responses": {
            "2XX": {"description": "The event is accepted."},
            "410": {"description": "The receiver is gone: nothing more is sent to it."},
            "default": {"description": "The event is sent again."},
        },
        "security": [],
    }})
}
