//! A message to another system: its state, and how events change it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::topics;
use crate::base::codec::Blob;
use crate::base::digest::Digest;
use crate::base::hex::hex;
use crate::base::json::texts_of;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::change::Change;
use crate::domain::event::subject;
use crate::domain::follow::event_name;
use crate::domain::index::{Index, IndexKey};
use crate::domain::operation::OutboxMessage;
use crate::domain::resource::{Kind, ReadView, Resource};
use crate::{public_events, wire_enum};

/// Number of consecutive message numbers that share one list of unsettled messages.
const NUMBERS_OF_A_LIST: i64 = 1_024;

wire_enum! {
    /// A message's status.
    pub enum MessageStatus {
        /// Its receiver has not taken it yet.
        Waiting = "waiting",
        /// Its receiver has not taken it at any attempt: it is sent again on demand only.
        Dead = "dead",
        /// Its receiver has taken it.
        Taken = "taken",
        /// It was decided that it is not needed any more.
        Skipped = "skipped",
    }
}

/// The data that a message has until it is settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsettled {
    /// The log in which it was created.
    pub log_id: [u8; 16],
    /// The time at which it was created.
    pub at: Timestamp,
    /// Its content, JSON.
    pub body: Blob,
    /// The number of attempts since it was created, or since a retry was last requested.
    pub tried: u32,
    /// The time of the next attempt; `None` where it may be tried now, or it is dead.
    pub next_attempt_at: Option<Timestamp>,
    /// The failure of the last attempt.
    pub last_failure: Option<Failure>,
}

/// Why a receiver has not taken a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The status of the receiver's response, if there was one.
    pub status: Option<u16>,
    /// A sentence, without the content of the message.
    pub error: Box<str>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its number, unique in the service.
    pub number: i64,
    /// The number of commits that it has seen.
    pub revision: Revision,
    /// Its topic, a dotted word.
    pub topic: Box<str>,
    /// The read path of the resource that it is about, without the first slash.
    pub resource: Box<str>,
    /// The identifier by which its sender knows it, where that is not its number.
    pub reference: Option<Uuid>,
    /// Its status.
    pub status: MessageStatus,
    /// The number of attempts.
    pub attempts: u32,
    /// The data that it has until it is settled.
    pub unsettled: Option<Unsettled>,
}

/// The event that a message is created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Born {
    /// Its number.
    pub number: i64,
    /// Its topic, a dotted word.
    pub topic: Box<str>,
    /// The read path of the resource that it is about.
    pub resource: Box<str>,
    /// The identifier by which its sender knows it, where that is not its number.
    pub reference: Option<Uuid>,
    /// The log in which it is created.
    pub log_id: [u8; 16],
    /// Its content, JSON; `None` where it was taken in the commit that created it.
    pub body: Option<Blob>,
}

/// The topic and the resource of a message, for its public events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its topic, a dotted word.
    pub topic: Box<str>,
    /// The read path of the resource that it is about.
    pub resource: Box<str>,
}

/// What can happen to a message. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MessageEvent {
    /// It is created.
    Born(Box<Born>),
    /// Its receiver has taken it.
    Taken(About),
    /// Its receiver has not taken it, and gets it again later.
    Failed {
        /// The time of the next attempt.
        next_attempt_at: Timestamp,
        /// Why it was not taken.
        failure: Failure,
    },
    /// Its receiver has not taken it at the last attempt, so it is dead.
    Dead {
        /// Its topic and its resource.
        about: About,
        /// Why it was not taken.
        failure: Failure,
    },
    /// It is to be tried again now, as if there had been no attempt.
    Retried {},
    /// It is not needed any more.
    Skipped {
        /// Its topic and its resource.
        about: About,
        /// The reason.
        reason: Box<str>,
    },
}

impl Resource for Message {
    const KIND: Kind = Kind {
        tag: 121,
        name: "outbox-message",
    };
    type Event = MessageEvent;

    fn apply(state: Option<Self>, event: &MessageEvent, at: Timestamp) -> Self {
        let Some(mut message) = state else {
            return match event {
                MessageEvent::Born(born) => Self::of_birth((**born).clone(), at),
                event => panic!("a message that is not born has no {}", event_name(event)),
            };
        };
        let Some(mut unsettled) = message.unsettled.take() else {
            panic!("a settled message has no {}", event_name(event));
        };
        message.revision = message.revision.next();
        match event {
            MessageEvent::Born(_) => panic!("a message is born once"),
            MessageEvent::Taken(_) => {
                message.attempts = message.attempts.saturating_add(1);
                message.status = MessageStatus::Taken;
                return message;
            }
            MessageEvent::Skipped { .. } => {
                message.status = MessageStatus::Skipped;
                return message;
            }
            MessageEvent::Failed {
                next_attempt_at,
                failure,
            } => {
                message.attempts = message.attempts.saturating_add(1);
                unsettled.tried = unsettled.tried.saturating_add(1);
                unsettled.next_attempt_at = Some(*next_attempt_at);
                unsettled.last_failure = Some(failure.clone());
            }
            MessageEvent::Dead { failure, .. } => {
                message.attempts = message.attempts.saturating_add(1);
                message.status = MessageStatus::Dead;
                unsettled.tried = unsettled.tried.saturating_add(1);
                unsettled.next_attempt_at = None;
                unsettled.last_failure = Some(failure.clone());
            }
            MessageEvent::Retried {} => {
                message.status = MessageStatus::Waiting;
                unsettled.tried = 0;
                unsettled.next_attempt_at = None;
            }
        }
        message.unsettled = Some(unsettled);
        message
    }

    fn id(&self) -> Vec<String> {
        vec![self.number.to_string()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn unique_keys(&self) -> Vec<IndexKey> {
        self.reference.map(by_reference).into_iter().collect()
    }

    fn secondary_keys(&self) -> Vec<IndexKey> {
        let list = self.unsettled.as_ref().map(|_| unsettled_near(self.number));
        list.into_iter().collect()
    }

    fn validate(&self) -> Result<(), String> {
        let is_settled = matches!(self.status, MessageStatus::Taken | MessageStatus::Skipped);
        if is_settled == self.unsettled.is_some() {
            return Err("a message has a body until it is settled, and no longer".to_owned());
        }
        if self.revision < Revision::FIRST {
            return Err(format!("revision {}", self.revision));
        }
        Ok(())
    }
}

public_events! {
    Message by MessageEvent, read at "outbox/{}", revision none;

    // The change that causes it has the event of its birth.
    Born(_) => nothing,
    /// The receiver of a message has taken it.
    Taken(about) => "taken" {
        "topic": Box<str> = about.topic,
        "resource": Box<str> = about.resource,
    },
    Failed { .. } => nothing,
    /// The receiver of a message has not taken it at any attempt.
    Dead { about, .. } => "dead" {
        "topic": Box<str> = about.topic,
        "resource": Box<str> = about.resource,
    },
    Retried {} => nothing,
    /// It was decided that a message is not needed any more.
    Skipped { about, .. } => "skipped" {
        "topic": Box<str> = about.topic,
        "resource": Box<str> = about.resource,
    },
}

impl Message {
    /// Returns the key of the message of this number.
    #[must_use]
    pub fn key_of(number: i64) -> Digest {
        Self::KIND.key(&[number.to_string()])
    }

    /// Returns the message of this number.
    #[must_use]
    pub fn of_number(view: &ReadView<'_>, number: i64) -> Option<Self> {
        view.at(Self::key_of(number))
    }

    /// Whether its receiver has taken it.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.status == MessageStatus::Taken
    }

    /// Returns its topic and its resource, for its public events.
    #[must_use]
    pub fn about(&self) -> About {
        About {
            topic: self.topic.clone(),
            resource: self.resource.clone(),
        }
    }

    fn of_birth(born: Born, at: Timestamp) -> Self {
        Self {
            number: born.number,
            revision: Revision::FIRST,
            topic: born.topic,
            resource: born.resource,
            reference: born.reference,
            status: match born.body {
                Some(_) => MessageStatus::Waiting,
                None => MessageStatus::Taken,
            },
            attempts: 0,
            unsettled: born.body.map(|body| Unsettled {
                log_id: born.log_id,
                at,
                body,
                tried: 0,
                next_attempt_at: None,
                last_failure: None,
            }),
        }
    }
}

impl Unsettled {
    /// Returns the identifier by which the receiver knows the message of this number, whenever and
    /// from wherever it is sent: `{log id}-{number}`, with the log in which it was created.
    #[must_use]
    pub fn id(&self, number: i64) -> String {
        format!("{}-{number}", hex(&self.log_id))
    }
}

/// Parses a number from a path: without signs and leading zeros.
#[must_use]
pub fn number_of(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Returns the key of the list of the unsettled messages with numbers near this one.
#[must_use]
pub fn unsettled_near(number: i64) -> IndexKey {
    let list = number.div_euclid(NUMBERS_OF_A_LIST);
    IndexKey::new(Index::UnsettledMessages, &[&list.to_string()])
}

/// Returns the numbers of messages that share a list with this one.
#[must_use]
pub fn numbers_near(number: i64) -> std::ops::Range<i64> {
    let first = number.div_euclid(NUMBERS_OF_A_LIST) * NUMBERS_OF_A_LIST;
    first..first + NUMBERS_OF_A_LIST
}

/// Returns the unique key of the message with this reference.
#[must_use]
pub fn by_reference(reference: Uuid) -> IndexKey {
    IndexKey::new(Index::MessageReference, &[&reference.to_string()])
}

/// Returns the body without its status.
fn without_status(body: &Blob) -> Blob {
    let mut content: Value = serde_json::from_slice(&body.0).unwrap_or_default();
    if let Some(fields) = content.as_object_mut() {
        fields.remove("status");
    }
    Blob(content.to_string().into_bytes())
}

/// What a body says: the identifier of its resource, its reference and its status.
type Said<'b> = (Cow<'b, str>, Option<Uuid>, Option<Cow<'b, str>>);

/// Returns what a body says, in which this field identifies the resource.
fn said<'b>(body: &'b Blob, id: &str) -> Said<'b> {
    let texts = texts_of(&body.0, [id, "workflowRequestId", "status"]);
    let [id, reference, status] = texts.unwrap_or_default();
    let reference = reference.and_then(|text| text.parse().ok());
    (id.unwrap_or_default(), reference, status)
}

/// Returns the event that creates the message of a record of this log.
///
/// Its body is one that a commit of this service has sent: an object whose identifiers, reference and
/// status are texts, if it has them.
#[must_use]
pub fn birth(message: &OutboxMessage, log_id: [u8; 16]) -> MessageEvent {
    MessageEvent::Born(Box::new(born_of(message, log_id)))
}

fn born_of(message: &OutboxMessage, log_id: [u8; 16]) -> Born {
    let (path, id) = match &*message.topic {
        topics::PAYMENT_DELEGATION_GRANTED => {
            ("family-payment-delegations/{}", "paymentDelegationId")
        }
        topics::SETTLEMENT_CONTINUATION => (
            "reservation-payment-change-adjustments/{}",
            "reservationBookingId",
        ),
        _ => ("admin/branches/{}", "branchId"),
    };
    let (id, reference, status) = match &message.about {
        Some(about) => {
            let known: Said<'_> = (Cow::Borrowed(&*about.id), about.reference, None);
            // A replay parses the body, and must derive the same message.
            debug_assert_eq!(known, said(&message.body, id));
            known
        }
        None => said(&message.body, id),
    };
    // A side effect that the embedded directory has completed needs no receiver.
    let body = match status.as_deref() {
        None => Some(message.body.clone()),
        Some("completed") => None,
        Some(_) => Some(without_status(&message.body)),
    };
    Born {
        number: message.number,
        topic: message.topic.clone(),
        resource: subject(path, &[&id]).into(),
        reference,
        log_id,
        body,
    }
}

/// Returns the message, and the change that creates it, which is committed at `at` in this log. The
/// change has no event: records list the message itself ([`birth`]).
#[must_use]
pub fn born(message: &OutboxMessage, log_id: [u8; 16], at: Timestamp) -> (Message, Change) {
    let message = Message::of_birth(born_of(message, log_id), at);
    let change = Change::of_state(None, &message);
    (message, change)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_about_what_its_body_says_in_any_json_spelling() {
        let reference = Uuid::from_u128(7);
        let odd = "a\"b\\c/\u{1}\u{1f600}\u{e9} d";
        let about = [
            (
                "authorization.payment_delegation.granted",
                "paymentDelegationId",
            ),
            ("settlement.continuation.requested", "reservationBookingId"),
            ("branch.manager_invitation.requested", "branchId"),
        ];
        for (topic, field) in about {
            for id in ["id-1", odd, ""] {
                for status in [None, Some("completed"), Some("pending")] {
                    let mut body = json!({
                        "first": {field: "within", "status": "within", "list": [1, -2.5, null]},
                        field: id,
                        "workflowRequestId": reference,
                        "zuletzt": true,
                    });
                    if let Some(status) = status {
                        body["status"] = json!(status);
                    }
                    let text = body.to_string();
                    // The second text has every character escaped that can be.
                    let escaped = text.replace("id-1", "\\u0069d-1").replace('/', "\\/");
                    for text in [text, escaped] {
                        let message = OutboxMessage {
                            number: 3,
                            topic: topic.into(),
                            body: Blob(text.clone().into_bytes()),
                            about: None,
                        };
                        let MessageEvent::Born(born) = birth(&message, [9; 16]) else {
                            panic!("it is born");
                        };
                        let encoded = subject("{}", &[id]);
                        assert_eq!(born.resource.rsplit('/').next(), Some(&*encoded), "{text}");
                        assert_eq!(born.reference, Some(reference));
                        let kept = born.body.map(|body| body.0);
                        match status {
                            None => assert_eq!(kept, Some(text.into_bytes())),
                            Some("completed") => assert_eq!(kept, None),
                            Some(_) => {
                                let kept: Value = serde_json::from_slice(&kept.unwrap()).unwrap();
                                let mut expected = body.clone();
                                expected.as_object_mut().unwrap().remove("status");
                                assert_eq!(kept, expected);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_body_that_says_nothing_of_what_it_is_about_is_sent_as_it_is() {
        for text in [
            "{}",
            "[]",
            "",
            "{\"branchId\":7,\"workflowRequestId\":\"no uuid\"}",
        ] {
            let message = OutboxMessage {
                number: 3,
                topic: "branch.operator_identity.requested".into(),
                body: Blob(text.into()),
                about: None,
            };
            let MessageEvent::Born(born) = birth(&message, [9; 16]) else {
                panic!("it is born");
            };
            assert_eq!((&*born.resource, born.reference), ("admin/branches/", None));
            assert_eq!(born.body.unwrap().0, text.as_bytes());
        }
    }
}
