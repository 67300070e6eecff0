//! Public events as the service sends them: `CloudEvents` 1.0 objects, built from the log's records.
//!
//! A commit yields one event for each changed resource, or several where a change is read at several paths, in the
//! order of its record. Records of the first layout lack data that events need, and yield none.

use std::fmt;
use std::fmt::Write as _;

use bytes::Bytes;

use super::record::{Record, SCHEMA_OF_EVENTS};
use crate::base::codec::DecodeError;
use crate::base::time::Timestamp;
use crate::catalogue;
use crate::domain::event::{Changed, EventType, FACT_APPLIED, Name, PublicEvent};
use crate::domain::event_id::EventId;
use crate::domain::registered::Kinds;

/// The prefix of all event types.
pub const TYPE_PREFIX: &str = "carebook.";

/// The type of the event that reports a gap: events that were removed before they were delivered.
pub const GAP_TYPE: &str = "carebook.gap";

/// An event, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Identifier of the event.
    pub id: EventId,
    /// Time of the event's commit.
    pub at: Timestamp,
    /// Name that determines the event's type.
    pub name: Name,
    /// The path at which the changed resource is read.
    pub subject: Box<str>,
    /// The `CloudEvents` object: JSON on one line.
    pub json: Bytes,
}

impl Event {
    /// Returns the event's type as it is sent.
    #[must_use]
    pub fn event_type(&self) -> String {
        self.name.event_type()
    }
}

/// Returns the types of all events, in the order of the kinds of resources.
#[must_use]
pub fn event_types() -> Vec<EventType> {
    let resources = catalogue::RESOURCES.iter();
    let own = resources.flat_map(|resource| resource.event_types());
    std::iter::once(&FACT_APPLIED).chain(own).copied().collect()
}

/// Returns the `source` of every event of the log with this identity.
fn source_of(log: impl fmt::Display) -> String {
    format!("urn:carebook:{log}")
}

/// Writes the start of an event, up to its type.
fn write_start(json: &mut String, id: EventId, source: &str) {
    let _ = write!(
        json,
        "{{\"specversion\":\"1.0\",\"id\":\"{id}\",\"source\":\"{source}\",\"type\":\"",
    );
}

/// Writes what comes between an event's subject and time, and its data.
fn write_sequence(json: &mut String, position: u64) {
    let _ = write!(
        json,
        "\"sequence\":\"{position:020}\",\"datacontenttype\":\"application/json\",\"data\":{{",
    );
}

/// Builds the event `id`, which reports to the reader of `subject` that events were lost from position `from` up to the
/// event's own. It has no time: no commit has made it.
#[must_use]
pub fn gap_event(log: impl fmt::Display, id: EventId, subject: &str, from: u64) -> Bytes {
    let mut json = String::with_capacity(512);
    write_start(&mut json, id, &source_of(log));
    let _ = write!(json, "{GAP_TYPE}\",\"subject\":\"{subject}\",");
    write_sequence(&mut json, id.position);
    let _ = write!(json, "\"from\":{from},\"to\":{}}}}}", id.position);
    json.into()
}

/// Builds events from the records of one log.
#[derive(Clone, Debug)]
pub struct EventBuilder {
    /// The `source` of every event: `urn:carebook:{log id}`.
    source: String,
    kinds: Kinds,
}

impl EventBuilder {
    /// Creates a builder of events for the log with this identity.
    #[must_use]
    pub fn new(log: impl fmt::Display, kinds: Kinds) -> Self {
        Self {
            source: source_of(log),
            kinds,
        }
    }

    /// Passes the events of the commit at `position` to `take`, in their order, as far as `wants` accepts their
    /// identifier, name and subject. Returns how many events the commit has.
    ///
    /// # Errors
    /// When the bytes are no record, or one of an unknown version.
    pub fn tell(
        &self,
        position: u64,
        record: &[u8],
        wants: &dyn Fn(EventId, Name, &str) -> bool,
        take: &mut dyn FnMut(Event),
    ) -> Result<u32, DecodeError> {
        let record = Record::decode(record)?;
        let mut number = 0;
        if record.schema < SCHEMA_OF_EVENTS {
            return Ok(number);
        }
        for change in &record.changes {
            let Some(kind) = (self.kinds)(change.kind) else {
                let kind = change.kind;
                return Err(DecodeError::OtherVersion(format!(
                    "resource kind {kind} is not known here"
                )));
            };
            let changed = Changed {
                is_fact: record.operation == 0,
                advances: change.advances,
                path: &change.path,
                revision: change.revision,
            };
            for told in kind.public_events(change.stored(), &changed)? {
                let id = EventId { position, number };
                number += 1;
                if wants(id, told.name, &told.subject) {
                    let json = self.json(id, &record, &told);
                    take(Event {
                        id,
                        at: record.at,
                        name: told.name,
                        subject: told.subject.into_boxed_str(),
                        json: json.into(),
                    });
                }
            }
        }
        Ok(number)
    }

    fn json(&self, id: EventId, record: &Record<'_>, told: &PublicEvent) -> String {
        let mut json = String::with_capacity(512 + told.fields.len());
        // Source, type and time need no escapes, and a subject contains none; strings from outside are written as
        // JSON.
        write_start(&mut json, id, &self.source);
        json.push_str(TYPE_PREFIX);
        json.extend(told.name.kind.chars().map(|letter| match letter {
            '_' => '-',
            letter => letter,
        }));
        let _ = write!(
            json,
            ".{}\",\"subject\":\"{}\",\"time\":\"{}\",",
            told.name.what, told.subject, record.at,
        );
        write_sequence(&mut json, id.position);
        let _ = write!(
            json,
            "\"operation\":\"{}\",\"revision\":",
            catalogue::operation_name(record.operation),
        );
        let _ = match told.revision {
            Some(revision) => write!(json, "{revision}"),
            None => write!(json, "null"),
        };
        match &record.actor {
            Some(actor) => {
                let profile = serde_json::Value::from(actor.profile_id);
                let _ = write!(
                    json,
                    ",\"actorKind\":\"{}\",\"actorProfileId\":{profile}",
                    actor.kind
                );
            }
            None => json.push_str(",\"actorKind\":null,\"actorProfileId\":null"),
        }
        json.push_str(&told.fields);
        json.push_str("}}");
        json
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_an_event_without_a_time() {
        let id = EventId {
            position: 12,
            number: 3,
        };
        let json = gap_event("0a", id, "webhook-subscriptions/1", 7);
        let wanted = concat!(
            r#"{"specversion":"1.0","id":"12-3","source":"urn:carebook:0a","type":"carebook.gap","#,
            r#""subject":"webhook-subscriptions/1","sequence":"00000000000000000012","#,
            r#""datacontenttype":"application/json","data":{"from":7,"to":12}}"#,
        );
        assert_eq!(std::str::from_utf8(&json).unwrap(), wanted);
    }

    #[test]
    fn no_two_types_of_events_have_one_name() {
        let mut names: Vec<_> = event_types()
            .iter()
            .map(|of| of.name.event_type())
            .collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        for name in names {
            let is_plain = |letter: char| letter.is_ascii_lowercase() || "-.".contains(letter);
            assert!(name.chars().all(is_plain), "{name}");
        }
    }
}
