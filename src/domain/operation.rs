//! The contract of an operation: what it reads from a request, which resource decides it, and which
//! results a decision can have.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use uuid::Uuid;

use super::change::Change;
use super::example::Example;
use super::index::IndexKey;
use super::rejection::{Declared, Rejection};
use super::resource::{ReadView, Resource};
use crate::base::actor::Actor;
use crate::base::codec::Blob;
use crate::base::digest::{Digest, Fingerprint};
use crate::base::json::{FromJson, Json, Reader, Shape, write_json};
use crate::base::output::in_scratch;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;

/// The parts of a request that a command is read from.
pub struct Parts<'a> {
    /// The parameters of the path, by name, percent-decoded.
    pub path: &'a [(&'a str, &'a str)],
    /// The body, an object.
    pub body: &'a Json<'a>,
}

impl Parts<'_> {
    /// Reads a parameter of the path as a field of that name.
    pub fn param<T: FromJson>(&self, name: &'static str, at: &mut Reader) -> Option<T> {
        let value = self.path.iter().find(|(known, _)| *known == name);
        let value = value.map(|(_, text)| Json::Text((*text).into()));
        crate::base::json::field(value.as_ref(), name, at)
    }
}

/// A command: what a request asks for, checked as far as the request alone allows.
///
/// Its JSON form (fields in the order of their declaration, times in UTC, absent fields as
/// null, the key left out) is the canonical form of the command's facts.
pub trait Request: Serialize + Send + Sync + Sized + 'static {
    /// Reads the command; `None` after at least one fault was noted.
    fn read(parts: &Parts<'_>, at: &mut Reader) -> Option<Self>;

    /// Reads the command from its path and the bytes of its body, when it has no fault and can be read
    /// without a tree of the body; also returns the number of values in the body.
    fn read_straight(
        _path: &[(&str, &str)],
        _body: &[u8],
        _now: Timestamp,
    ) -> Option<(Self, usize)> {
        None
    }

    /// Returns the shape of its body.
    fn shape() -> Shape;
}

/// A command without parameters in its path is read from its body alone.
impl<T: FromJson + Serialize + Send + Sync + 'static> Request for T {
    fn read(parts: &Parts<'_>, at: &mut Reader) -> Option<Self> {
        T::read(parts.body, at)
    }

    fn read_straight(_: &[(&str, &str)], body: &[u8], now: Timestamp) -> Option<(Self, usize)> {
        crate::base::json::read_straight(body, now)
    }

    fn shape() -> Shape {
        T::shape()
    }
}

/// Declares a command that has one parameter in its path besides its body: the struct and how it is
/// read. The faults of both are found together. A command with two parameters in its path implements
/// [`Request`](crate::domain::operation::Request) by hand, as `webhook/retry_webhook_delivery.rs` does.
///
/// ```text
/// path_and_body! {
///     pub struct Command { pub plan_code: Ident = "planCode", body: Body }
/// }
/// ```
#[macro_export]
macro_rules! path_and_body {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(#[$field_meta:meta])*
            $field_vis:vis $field:ident: $param:ty = $json:literal,
            body: $body:ty $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, ::serde::Serialize)]
        $vis struct $name {
            $(#[$field_meta])*
            #[serde(rename = $json)]
            $field_vis $field: $param,
            /// The body.
            $field_vis body: $body,
        }

        impl $crate::domain::operation::Request for $name {
            fn read(
                parts: &$crate::domain::operation::Parts<'_>,
                at: &mut $crate::base::json::Reader,
            ) -> Option<Self> {
                let $field = parts.param($json, at);
                let body = <$body as $crate::base::json::FromJson>::read(parts.body, at);
                Some(Self { $field: $field?, body: body? })
            }

            fn read_straight(
                path: &[(&str, &str)],
                body: &[u8],
                now: $crate::base::time::Timestamp,
            ) -> Option<(Self, usize)> {
                let (body, values) = $crate::base::json::read_straight(body, now)?;
                let parts = $crate::domain::operation::Parts {
                    path,
                    body: &$crate::base::json::Json::Null,
                };
                let $field = parts.param($json, &mut $crate::base::json::Reader::new(now))?;
                Some((Self { $field, body }, values))
            }

            fn shape() -> $crate::base::json::Shape {
                <$body as $crate::base::json::FromJson>::shape()
            }
        }
    };
}

/// A source of fresh identifiers, passed in so that deciding stays a function of its arguments.
pub trait IdSource {
    /// Returns a new UUIDv7.
    fn id(&self) -> Uuid;
    /// Returns the next number of an outbox message.
    fn outbox_number(&self) -> i64;
}

/// The circumstances of a decision.
pub struct Context<'a> {
    /// The actor who sends the request.
    pub actor: &'a Actor,
    /// The time of the decision, by the system's clock: rules are judged by it.
    pub now: Timestamp,
    /// The time that a commit is recorded with: `now`, or later where the clock was set back, since
    /// the recorded times of commits never decrease.
    pub at: Timestamp,
    /// The idempotency key as sent; empty where the operation has none.
    pub key: &'a str,
    /// The fingerprint of the command's facts.
    pub fingerprint: Fingerprint,
    /// A fresh identifier for the resource that the command creates: the same one in
    /// [`Operation::target`] and [`Operation::decide`].
    pub new_id: Uuid,
    /// Whether a receiver is configured for messages of a topic.
    pub has_receiver: &'a dyn Fn(&str) -> bool,
    /// Whether webhooks may go over plain HTTP to other machines.
    pub plain_webhooks: bool,
    /// The source of further identifiers.
    pub ids: &'a dyn IdSource,
    /// Committed state of other resources.
    pub view: ReadView<'a>,
    /// Returns the revision in a view of a fact of the kind so named; `None` when there is no such
    /// fact, or no such kind.
    pub fact_revision: fn(&ReadView<'_>, &str, &str) -> Option<Revision>,
}

/// One of the service's operations.
pub trait Operation: Send + Sync + 'static {
    /// The command that it reads from a request.
    type Command: Request;
    /// The resource whose actor decides.
    type Resource: Resource;
    /// The type of the body of its answer.
    type Answer: JsonSchema;

    /// The description of what it does, on what and under which conditions: the documentation of its
    /// file ([`module_doc!`](crate::module_doc)), which is published.
    const DOC: &'static str;

    /// Its own rejections, in the order in which they are tested.
    const REJECTIONS: &'static [Declared];

    /// One request that succeeds in the samples' world.
    const EXAMPLE: Example;

    /// The field of the body that is the idempotency key, where it identifies something else as well: the
    /// sentence that rejects its use with other content names it.
    const KEY_FIELD: Option<&'static str> = None;

    /// Returns, for each of its rejections, in their order, a case in which it applies to the example.
    #[cfg(test)]
    fn ladder() -> super::ladder::Ladder;

    /// Returns the key of the resource whose actor decides; `None` when there cannot be one (an index
    /// does not know it). [`Operation::decide`] is then called without a state, and refuses.
    fn target(command: &Self::Command, context: &Context<'_>) -> Option<Digest>;

    /// Returns the idempotency key, where it is a field of the body.
    fn key(_command: &Self::Command) -> Option<&str> {
        None
    }

    /// Returns the command without the fields that say what their absence says; `None` when it has no such
    /// field. Commands that differ in these alone have the same content.
    fn without_defaults(_command: &Self::Command) -> Option<Self::Command> {
        None
    }

    /// Returns the unique keys that a commit of this command takes. The engine locks them for the
    /// command before it is decided; [`ReadView::holder`] shows whether another resource holds one.
    fn unique_keys(_command: &Self::Command, _context: &Context<'_>) -> Vec<IndexKey> {
        Vec::new()
    }

    /// Decides: a commit, the answer of an earlier commit, an answer without a commit, or a refusal.
    /// Authority is checked first, then what is missing, then conflicts in their order.
    ///
    /// # Errors
    /// The first rejection that applies.
    fn decide(
        state: Option<&Self::Resource>,
        command: &Self::Command,
        context: &Context<'_>,
    ) -> Result<Decision<Self::Resource>, Rejection>;

    /// Returns the schema of the body of its conflicts, where it has one of its own, with the name of
    /// the field that contains their code.
    fn conflict(_schemas: &mut SchemaGenerator) -> Option<(&'static str, Schema)> {
        None
    }

    /// Returns the body that a replay shows for the stored one.
    fn replayed(body: Vec<u8>) -> Vec<u8> {
        body
    }

    /// Returns the response that replaces the stored one once messages of the commit were taken;
    /// `None` where the stored one stays. Called for operations whose row lets their answer wait for
    /// receivers, after a commit that was accepted ([`Disposition::Accepted`]).
    fn final_response(_first: &[u8], _view: &ReadView<'_>) -> Option<(Vec<u8>, Disposition)> {
        None
    }

    /// Returns the body that rejects a command whose key was used before with other facts, where the
    /// operation has a shape of its own for its conflicts. Called before [`Operation::decide`]: the
    /// actor's authority was not checked yet.
    fn key_reused(
        _command: &Self::Command,
        _actor: &Actor,
        _view: &ReadView<'_>,
    ) -> Option<Vec<u8>> {
        None
    }
}

/// The result of a command.
pub enum Decision<R: Resource> {
    /// A commit.
    Commit(Box<Commit<R>>),
    /// The command was carried out before for the same subject, under this other key: its answer is
    /// returned again, and the present key is recorded for it too.
    ReplayOf(Box<str>),
    /// An answer, as its body, that changes nothing and uses no key.
    Answer(Vec<u8>),
}

/// Whether all effects of a commit are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Everything that was requested is done.
    Done,
    /// The command is accepted; a side effect is still pending.
    Accepted,
}

/// A message to another system, recorded in the commit that causes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct OutboxMessage {
    /// Its number, unique in the service.
    pub number: i64,
    /// Its topic, a dotted word.
    pub topic: Box<str>,
    /// Its content, JSON.
    pub body: Blob,
    /// What its body says, where the commit that is being built knows it. Records do not store it.
    #[serde(skip)]
    pub about: Option<MessageAbout>,
}

/// What the body of a message without a status says of the resource that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageAbout {
    /// The identifier of the resource.
    pub id: Box<str>,
    /// The identifier by which the sender knows the message, if there is one.
    pub reference: Option<Uuid>,
}

/// A commit that is being built: the resource's own event, the changes of others, messages, the
/// answer.
pub struct Commit<R: Resource> {
    pub(super) event: R::Event,
    /// The resource's state after the commit.
    pub next: R,
    at: Timestamp,
    pub(super) other_changes: Vec<Change>,
    pub(super) outbox: Vec<OutboxMessage>,
    pub(super) answer: Vec<u8>,
    pub(super) disposition: Disposition,
}

/// Returns the state after `event`. Validates it, so that no state is committed that a start would
/// reject.
fn applied<R: Resource>(state: Option<R>, event: &R::Event, at: Timestamp) -> R {
    let next = R::apply(state, event, at);
    if let Err(fault) = next.validate() {
        panic!("{} {:?}: {fault}", R::KIND.name, next.id());
    }
    next
}

impl<R: Resource> Commit<R> {
    /// Starts the commit of `event` on `state`.
    #[must_use]
    pub fn new(state: Option<&R>, event: R::Event, at: Timestamp) -> Self {
        let next = applied(state.cloned(), &event, at);
        Self {
            event,
            next,
            at,
            other_changes: Vec::new(),
            outbox: Vec::new(),
            answer: Vec::new(),
            disposition: Disposition::Done,
        }
    }

    /// Adds a resource that this commit creates. Its identifier must be fresh, so that no other
    /// command can refer to it.
    pub fn create<B: Resource>(&mut self, event: &B::Event) -> B {
        self.change(None, event)
    }

    /// Adds a change of another resource, whose state is `before`. This state must have been read from
    /// the context's view: the commit is then made only while it is still current. A commit changes a
    /// resource only once.
    pub fn change<B: Resource>(&mut self, before: Option<&B>, event: &B::Event) -> B {
        let state = applied(before.cloned(), event, self.at);
        self.other_changes.push(Change::of(before, event, &state));
        state
    }

    /// Adds a message to the outbox; the commit creates its resource ([`born`]).
    ///
    /// [`born`]: super::outbox::message::born
    pub fn send(&mut self, number: i64, topic: &str, body: &impl Serialize) {
        self.outbox.push(OutboxMessage {
            number,
            topic: topic.into(),
            body: Blob(to_json(body)),
            about: None,
        });
    }

    /// Adds a message like [`Commit::send`], with a body in JSON that has no status and says of its
    /// resource what `about` says, so that it need not be parsed.
    pub fn send_about(&mut self, number: i64, topic: &str, about: MessageAbout, body: Vec<u8>) {
        self.outbox.push(OutboxMessage {
            number,
            topic: topic.into(),
            body: Blob(body),
            about: Some(about),
        });
    }

    /// Marks the commit as accepted with a side effect still pending.
    pub fn accepted(&mut self) {
        self.disposition = Disposition::Accepted;
    }

    /// Ends with the decision to make this commit, answering with `body` (made by [`to_json`]).
    ///
    /// # Errors
    /// Never; it returns a `Result` so that a ladder of guards can end with it.
    pub fn answer(mut self, body: Vec<u8>) -> Result<Decision<R>, Rejection> {
        self.answer = body;
        Ok(Decision::Commit(Box::new(self)))
    }
}

/// Returns the JSON text of a response body.
///
/// # Panics
/// When the type has no JSON form, which a test of its operation would have shown.
#[must_use]
pub fn to_json(body: &impl Serialize) -> Vec<u8> {
    in_scratch(|text| {
        write_json(body, text).expect("an answer has a JSON form");
        // An answer is kept for replays, so its capacity is exactly its size.
        text.as_slice().to_vec()
    })
}

/// Turns `"idempotentReplay":false`, the last field of `body`, into true.
///
/// # Panics
/// When the body does not end with that field.
#[must_use]
pub fn mark_replayed(mut body: Vec<u8>) -> Vec<u8> {
    const FIRST: &[u8] = b"\"idempotentReplay\":false}";
    assert!(body.ends_with(FIRST), "idempotentReplay is the last field");
    body.truncate(body.len() - b"false}".len());
    body.extend_from_slice(b"true}");
    body
}

/// Returns SHA-256 over the canonical form of a command's facts: the operation's name, a line feed,
/// and the command in JSON.
#[must_use]
pub fn fingerprint(operation: &str, command: &impl Serialize) -> Fingerprint {
    in_scratch(|text| {
        text.put(operation.as_bytes());
        text.byte(b'\n');
        write_json(command, text).expect("a command has a JSON form");
        Fingerprint::of(text.as_slice())
    })
}
