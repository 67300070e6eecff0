//! Messages in lists: each with its topic and its status, without its body.

use schemars::JsonSchema;
use serde::Serialize;

use super::addressed::Reason;
use super::may_manage;
use super::message::{Message, MessageStatus, number_of, numbers_near, unsettled_near};
use crate::base::time::Timestamp;
use crate::domain::operation::to_json;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;
use crate::domain::resource::ReadView;

/// Number of messages, or lists of messages, that a page may examine for each message of its limit.
const LOOKED_AT: usize = 10;

/// A message as it is shown.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OutboxMessage")]
#[serde(rename_all = "camelCase")]
pub struct MessageBody<'a> {
    number: i64,
    topic: &'a str,
    resource: &'a str,
    state: MessageStatus,
    attempts: u32,
    next_attempt_at: Option<Timestamp>,
    last_status: Option<u16>,
    last_error: Option<&'a str>,
}

impl<'a> MessageBody<'a> {
    /// Makes the body of the current message.
    #[must_use]
    pub fn new(message: &'a Message) -> Self {
        let unsettled = message.unsettled.as_ref();
        let failure = unsettled.and_then(|unsettled| unsettled.last_failure.as_ref());
        Self {
            number: message.number,
            topic: &message.topic,
            resource: &message.resource,
            state: message.status,
            attempts: message.attempts,
            next_attempt_at: unsettled.and_then(|unsettled| unsettled.next_attempt_at),
            last_status: failure.and_then(|failure| failure.status),
            last_error: failure.map(|failure| &*failure.error),
        }
    }
}

/// Returns the message as a response body.
#[must_use]
pub fn body_of(message: &Message) -> Vec<u8> {
    to_json(&MessageBody::new(message))
}

/// Selects which messages are listed, and in which order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageQuery {
    /// Only those with this status.
    pub status: Option<MessageStatus>,
    /// Only those of this topic.
    pub topic: Option<String>,
    /// Only those about this resource.
    pub resource: Option<String>,
    /// Whether the page starts from the first message; otherwise from the last.
    pub oldest_first: bool,
    /// Maximum number of messages.
    pub limit: usize,
}

/// A page of messages.
#[derive(Debug)]
pub struct MessagePage {
    /// The messages.
    pub messages: Vec<Message>,
    /// The number after which the next page continues; `None` when no message is left.
    pub next: Option<i64>,
}

/// Reads the message that the path names.
///
/// # Errors
/// `permission_denied` when the actor may not manage messages, `not_found` when there is none.
pub fn read_message(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    if !may_manage(request.actor) {
        return Err(not_permitted());
    }
    let number = number_of(request.param("number"));
    let message = number.and_then(|number| Message::of_number(request.view, number));
    match message {
        Some(message) => Representation::at_revision(&message, &MessageBody::new(&message)),
        None => Err(Rejection::not_found()),
    }
}

/// Returns the 403 for an actor who may not manage messages.
#[must_use]
pub fn not_permitted() -> Rejection {
    Reason::NotPermitted.into()
}

/// Returns the page of the selected messages that follow the number `after`; numbers go up to
/// `last`.
#[must_use]
pub fn page(
    view: &ReadView<'_>,
    asked: &MessageQuery,
    after: Option<i64>,
    last: i64,
) -> MessagePage {
    let unsettled_only = matches!(
        asked.status,
        Some(MessageStatus::Waiting | MessageStatus::Dead)
    );
    let step = if asked.oldest_first { 1 } else { -1 };
    let after = after.unwrap_or(match asked.oldest_first {
        true => 0,
        false => last.saturating_add(1),
    });
    let mut looking = Looking {
        asked,
        left: asked.limit.saturating_mul(LOOKED_AT),
        messages: Vec::new(),
        reached: after,
    };
    let mut next = after.saturating_add(step);
    while (1..=last).contains(&next) && looking.has_room() {
        let near = numbers_near(next);
        let mut numbers: Vec<i64> = if unsettled_only {
            looking.left -= 1;
            let listed = view.all_listed::<Message>(unsettled_near(next));
            listed.iter().map(|message| message.number).collect()
        } else {
            near.clone().collect()
        };
        numbers.retain(|number| match asked.oldest_first {
            true => (next..=last).contains(number),
            false => (1..=next).contains(number),
        });
        numbers.sort_unstable();
        if !asked.oldest_first {
            numbers.reverse();
        }
        if !numbers.into_iter().all(|number| looking.look(view, number)) {
            break;
        }
        next = match asked.oldest_first {
            true => near.end,
            false => near.start - 1,
        };
        looking.reached = next - step;
    }
    let is_over = !(1..=last).contains(&looking.reached.saturating_add(step));
    MessagePage {
        next: (!is_over).then_some(looking.reached),
        messages: looking.messages,
    }
}

/// A page that is being built.
struct Looking<'a> {
    asked: &'a MessageQuery,
    left: usize,
    messages: Vec<Message>,
    reached: i64,
}

impl Looking<'_> {
    fn has_room(&self) -> bool {
        self.left > 0 && self.messages.len() < self.asked.limit
    }

    /// Examines the message of this number, if the page's bounds allow it.
    fn look(&mut self, view: &ReadView<'_>, number: i64) -> bool {
        if !self.has_room() {
            return false;
        }
        self.left -= 1;
        self.reached = number;
        let asked = self.asked;
        let message = Message::of_number(view, number).filter(|message| {
            asked.status.is_none_or(|status| status == message.status)
                && asked
                    .topic
                    .as_deref()
                    .is_none_or(|topic| topic == &*message.topic)
                && asked
                    .resource
                    .as_deref()
                    .is_none_or(|resource| resource == &*message.resource)
        });
        self.messages.extend(message);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::outbox::message::{Born, MessageEvent};
    use crate::domain::resource::Resource as _;
    use crate::domain::scenario::Scenario;

    /// Makes a service with messages 1 to 40, all waiting; one in twenty has the topic `rare`.
    fn service() -> Scenario {
        let mut service = Scenario::new();
        for number in 1..=40 {
            let topic = if number % 20 == 0 { "rare" } else { "usual" };
            let born = MessageEvent::Born(Box::new(Born {
                number,
                topic: topic.into(),
                resource: "admin/branches/1".into(),
                reference: None,
                log_id: [1; 16],
                body: Some(crate::base::codec::Blob(b"{}".to_vec())),
            }));
            service.given(&Message::apply(None, &born, Timestamp::default()));
        }
        service
    }

    fn pages(asked: &MessageQuery, last: i64) -> Vec<(Vec<i64>, Option<i64>)> {
        let service = service();
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = service.view(|view| page(view, asked, after, last));
            let numbers = page.messages.iter().map(|message| message.number);
            pages.push((numbers.collect(), page.next));
            after = page.next;
            if after.is_none() {
                return pages;
            }
        }
    }

    #[test]
    fn a_page_examines_ten_messages_per_item_and_continues_behind_them() {
        let asked = MessageQuery {
            status: None,
            topic: Some("rare".to_owned()),
            resource: None,
            oldest_first: true,
            limit: 1,
        };
        assert_eq!(
            pages(&asked, 40),
            [
                (vec![], Some(10)),
                (vec![20], Some(20)),
                (vec![], Some(30)),
                (vec![40], None),
            ]
        );
        let newest_first = MessageQuery {
            oldest_first: false,
            ..asked
        };
        assert_eq!(
            pages(&newest_first, 40),
            [
                (vec![40], Some(40)),
                (vec![], Some(30)),
                (vec![20], Some(20)),
                (vec![], Some(10)),
                (vec![], None),
            ]
        );
    }

    #[test]
    fn a_page_that_is_full_with_the_last_message_is_the_last_one() {
        let asked = MessageQuery {
            status: Some(MessageStatus::Waiting),
            topic: None,
            resource: None,
            oldest_first: true,
            limit: 40,
        };
        let all: Vec<_> = (1..=40).collect();
        assert_eq!(pages(&asked, 40), [(all, None)]);
        let of_39 = pages(&asked, 39);
        assert_eq!(
            of_39,
            [((1..=39).collect(), None)],
            "later ones are not shown"
        );
    }

    #[test]
    fn a_number_is_written_in_one_way() {
        let service = service();
        let read = |number: &str| {
            let mut service = service.clone();
            let mut actor = crate::domain::scenario::actor(
                crate::base::actor::ActorKind::SystemWorkflow,
                "workflow",
            );
            actor.permissions = vec!["outbox:manage".into()];
            service.acting(actor);
            service
                .read("read_outbox_message", &[("number", number)])
                .is_ok()
        };
        assert!(read("7"));
        for number in ["07", "+7", "7 ", "-7", "41", "x", ""] {
            assert!(!read(number), "{number:?}");
        }
    }
}
