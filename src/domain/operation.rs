//! The contract of an operation: what it reads from a request, on which resource it is decided,
//! and what a decision can be.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use uuid::Uuid;

pub use super::change::{Change, RankChange};
pub use super::erased::{AnyCommand, AnyDecision, AnyOperation, AnyState, Decided, Erased};
pub(crate) use super::erased::{erase, own_state};
use super::example::Example;
use super::rejection::{Declared, Rejection};
use super::resource::{IndexKey, ReadView, Resource};
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

/// A command: what a request asks for, checked as far as a request can be checked by itself.
///
/// Its JSON form (fields in the order of their declaration, times in UTC, absent fields as
/// null, the key left out) is the canonical form of the command's facts.
pub trait Request: Serialize + Send + Sync + Sized + 'static {
    /// Reads the command; `None` after at least one fault was noted.
    fn read(parts: &Parts<'_>, at: &mut Reader) -> Option<Self>;

    /// Reads the command from its path and the bytes of its body, when it has no fault and can be read
    /// without a tree of the body; with the number of values in the body.
    fn read_straight(
        _path: &[(&str, &str)],
        _body: &[u8],
        _now: Timestamp,
    ) -> Option<(Self, usize)> {
        None
    }

    /// What its body may be.
    fn shape() -> Shape;
}

/// A command without parameters in its path is its body.
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
/// [`Request`](crate::domain::operation::Request) by hand, as `webhook/retry_delivery.rs` does.
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

/// Fresh identifiers, handed in so that deciding stays a function of its arguments.
pub trait IdSource {
    /// A new UUIDv7.
    fn id(&self) -> Uuid;
    /// The next number of an outbox message.
    fn outbox_number(&self) -> i64;
}

/// What surrounds a decision.
pub struct Context<'a> {
    /// Who asks.
    pub actor: &'a Actor,
    /// The time of the decision, by the system's clock: rules are judged by it.
    pub now: Timestamp,
    /// The time that a commit is recorded with: `now`, or later where the clock was set back, since
    /// the times of commits never fall.
    pub at: Timestamp,
    /// The idempotency key as sent; empty where the operation has none.
    pub key: &'a str,
    /// The fingerprint of the command's facts.
    pub fingerprint: Fingerprint,
    /// A fresh identifier for the resource that the command brings into being: the same one in
    /// [`Operation::target`] and [`Operation::decide`].
    pub new_id: Uuid,
    /// Whether a receiver is named for messages of a topic.
    pub has_receiver: &'a dyn Fn(&str) -> bool,
    /// Whether webhooks may go over plain HTTP to other machines.
    pub plain_webhooks: bool,
    /// Further identifiers.
    pub ids: &'a dyn IdSource,
    /// Committed state of other resources.
    pub view: ReadView<'a>,
    /// The revision in a view of the fact of the kind so named; `None` when there is no such fact,
    /// or no such kind.
    pub fact_revision: fn(&ReadView<'_>, &str, &str) -> Option<Revision>,
}

/// One of the service's operations.
pub trait Operation: Send + Sync + 'static {
    /// What it reads from a request.
    type Command: Request;
    /// The resource whose actor decides.
    type Resource: Resource;
    /// What the body of its answer is.
    type Answer: JsonSchema;

    /// What it does, on what and under which conditions: the documentation of its file
    /// ([`module_doc!`](crate::module_doc)), which is published.
    const DOC: &'static str;

    /// Its own rejections, in the order in which they are tested.
    const REJECTIONS: &'static [Declared];

    /// One request that is carried out in the samples' world.
    const EXAMPLE: Example;

    /// For each of its rejections, in their order, what makes it apply to the example.
    #[cfg(test)]
    fn ladder() -> super::ladder::Ladder;

    /// The key of the resource whose actor decides; `None` when there cannot be one (an index
    /// does not know it), then [`Operation::decide`] is asked without a state, to refuse.
    fn target(command: &Self::Command, context: &Context<'_>) -> Option<Digest>;

    /// The idempotency key, where it is a field of the body.
    fn key(_command: &Self::Command) -> Option<&str> {
        None
    }

    /// The unique keys that a commit of this command takes. The engine locks them for the command
    /// before it is decided; [`ReadView::holder`] shows one that another resource holds.
    fn unique_keys(_command: &Self::Command, _context: &Context<'_>) -> Vec<IndexKey> {
        Vec::new()
    }

    /// Decides: a commit, the answer of an earlier one, an answer without a commit, or a
    /// refusal. Authority comes first, then what is missing, then conflicts in their order.
    ///
    /// # Errors
    /// The first rejection that applies.
    fn decide(
        state: Option<&Self::Resource>,
        command: &Self::Command,
        context: &Context<'_>,
    ) -> Result<Decision<Self::Resource>, Rejection>;

    /// The schema of the body of its conflicts, where that is one of its own; their code is then in
    /// the field that is named beside it.
    fn conflict(_schemas: &mut SchemaGenerator) -> Option<(&'static str, Schema)> {
        None
    }

    /// The stored response's body as a replay shows it.
    fn replayed(body: Vec<u8>) -> Vec<u8> {
        body
    }

    /// The response that replaces the stored one, once messages that the commit sent were taken;
    /// `None` where that is the same. Called for operations whose row says that they wait for that,
    /// after a commit that was accepted ([`Disposition::Accepted`]).
    fn final_response(_first: &[u8], _view: &ReadView<'_>) -> Option<(Vec<u8>, Disposition)> {
        None
    }

    /// The body that rejects a command whose key was used before with other facts, where the
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

/// What a command comes to.
pub enum Decision<R: Resource> {
    /// Something changes.
    Commit(Box<Commit<R>>),
    /// The same subject has had this carried out before, under the key given here: that answer
    /// again, and the present key is taken for it too.
    ReplayOf(Box<str>),
    /// An answer that changes nothing and takes no key: its body.
    Answer(Vec<u8>),
}

/// How far a commit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// All that was asked for is done.
    Done,
    /// It is accepted; a side effect is still on its way.
    Accepted,
}

/// A message to another system, recorded in the commit that causes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct OutboxMessage {
    /// Its number, unique in the service.
    pub number: i64,
    /// What it is about, a dotted word.
    pub topic: Box<str>,
    /// Its content, JSON.
    pub body: Blob,
}

/// A commit in the making: the resource's own event, what else it changes, messages, answer.
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

/// The state after `event`, which validates itself: what a start would reject is never committed.
fn applied<R: Resource>(state: Option<R>, event: &R::Event, at: Timestamp) -> R {
    let next = R::apply(state, event, at);
    if let Err(fault) = next.validate() {
        panic!("{} {:?}: {fault}", R::KIND.name, next.id());
    }
    next
}

impl<R: Resource> Commit<R> {
    /// The commit of `event` on `state`.
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

    /// Adds a change of another resource, whose state is `before`. That must have been read from
    /// the context's view: the commit is then made only while it is still current. A resource is
    /// changed once in a commit.
    pub fn change<B: Resource>(&mut self, before: Option<&B>, event: &B::Event) -> B {
        let state = applied(before.cloned(), event, self.at);
        self.other_changes.push(Change::of(before, event, &state));
        state
    }

    /// Adds a message to the outbox, which is born with the commit ([`born`]).
    ///
    /// [`born`]: super::outbox::message::born
    pub fn send(&mut self, number: i64, topic: &str, body: &impl Serialize) {
        self.outbox.push(OutboxMessage {
            number,
            topic: topic.into(),
            body: Blob(to_json(body)),
        });
    }

    /// Marks the commit as accepted with a side effect still on its way.
    pub fn accepted(&mut self) {
        self.disposition = Disposition::Accepted;
    }

    /// The decision to commit this, answering with `body` ([`to_json`] makes it).
    ///
    /// # Errors
    /// Never; a `Result` so that a ladder of guards can end with it.
    pub fn answer(mut self, body: Vec<u8>) -> Result<Decision<R>, Rejection> {
        self.answer = body;
        Ok(Decision::Commit(Box::new(self)))
    }
}

/// The JSON text of a body of ours.
///
/// # Panics
/// When the type has no JSON form, which a test of its operation would have shown.
#[must_use]
pub fn to_json(body: &impl Serialize) -> Vec<u8> {
    in_scratch(|text| {
        write_json(body, text).expect("an answer has a JSON form");
        // An answer is kept for replays: in as many bytes as it has, and no more.
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

/// SHA-256 over the canonical form of a command's facts: the operation's name, a line feed, and
/// the command in JSON.
#[must_use]
pub fn fingerprint(operation: &str, command: &impl Serialize) -> Fingerprint {
    in_scratch(|text| {
        text.put(operation.as_bytes());
        text.byte(b'\n');
        write_json(command, text).expect("a command has a JSON form");
        Fingerprint::of(text.as_slice())
    })
}
