//! Operations and commands with their types erased, as the engine handles them.

use std::any::Any;
use std::marker::PhantomData;

use schemars::{Schema, SchemaGenerator};

use super::change::Change;
use super::example::Example;
use super::index::IndexKey;
use super::operation::{
    Context, Decision, Disposition, Operation, OutboxMessage, Parts, Request, fingerprint,
};
use super::rejection::{Declared, Rejection};
use super::resource::{ReadView, Resource};
use crate::base::actor::Actor;
use crate::base::digest::{Digest, Fingerprint};
use crate::base::json::{Reader, Shape};
use crate::base::time::Timestamp;

/// The state that an actor keeps in memory between two commands.
pub type AnyState = Option<Box<dyn Any + Send>>;

/// A decided commit with its types erased, ready for the log.
pub struct Decided {
    /// The changes, the deciding resource's first.
    pub changes: Vec<Change>,
    /// Messages to other systems.
    pub outbox: Vec<OutboxMessage>,
    /// The answer's body.
    pub answer: Vec<u8>,
    /// Whether a side effect is pending.
    pub disposition: Disposition,
    /// The deciding resource's state after the commit, for its actor to keep.
    pub next: Box<dyn Any + Send>,
}

/// The result of a command, with its types erased.
pub enum AnyDecision {
    /// A commit.
    Commit(Box<Decided>),
    /// See [`Decision::ReplayOf`].
    ReplayOf(Box<str>),
    /// See [`Decision::Answer`].
    Answer(Vec<u8>),
}

/// A command with its types erased.
pub trait AnyCommand: Send + Sync {
    /// See [`Operation::key`].
    fn key(&self) -> Option<&str>;
    /// Returns the fingerprint of the command's facts.
    fn fingerprint(&self) -> Fingerprint;
    /// Returns the fingerprint of the command with the fields that [`Operation::without_defaults`] leaves out,
    /// if there are any: earlier programs recorded that one.
    fn fingerprint_as_sent(&self) -> Option<Fingerprint>;
    /// See [`Operation::key_reused`].
    fn key_reused(&self, actor: &Actor, view: &ReadView<'_>) -> Option<Vec<u8>>;
    /// See [`Operation::target`].
    fn target(&self, context: &Context<'_>) -> Option<Digest>;
    /// See [`Operation::unique_keys`].
    fn unique_keys(&self, context: &Context<'_>) -> Vec<IndexKey>;
    /// Decides on the state in `slot`, which is read from the context's view when it is empty.
    ///
    /// # Errors
    /// The first rejection that applies.
    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection>;
}

/// An operation with its types erased.
pub trait AnyOperation: Send + Sync {
    /// Reads a command; `None` after at least one fault was noted.
    fn read(
        &self,
        name: &'static str,
        parts: &Parts<'_>,
        at: &mut Reader,
    ) -> Option<Box<dyn AnyCommand>>;
    /// See [`Request::read_straight`].
    fn read_straight(
        &self,
        name: &'static str,
        path: &[(&str, &str)],
        body: &[u8],
        now: Timestamp,
    ) -> Option<(Box<dyn AnyCommand>, usize)>;
    /// See [`Operation::replayed`].
    fn replayed(&self, body: Vec<u8>) -> Vec<u8>;
    /// See [`Operation::final_response`].
    fn final_response(&self, first: &[u8], view: &ReadView<'_>) -> Option<(Vec<u8>, Disposition)>;
    /// See [`Operation::DOC`].
    fn doc(&self) -> &'static str;
    /// See [`Operation::REJECTIONS`].
    fn rejections(&self) -> &'static [Declared];
    /// Returns the shape of the body of a request.
    fn shape(&self) -> Shape;
    /// Returns the schema of the body of its answer ([`Operation::Answer`]).
    fn answer(&self, schemas: &mut SchemaGenerator) -> Schema;
    /// See [`Operation::conflict`].
    fn conflict(&self, schemas: &mut SchemaGenerator) -> Option<(&'static str, Schema)>;
    /// See [`Operation::EXAMPLE`].
    fn example(&self) -> &'static Example;
    /// See [`Operation::KEY_FIELD`].
    fn key_field(&self) -> Option<&'static str> {
        None
    }
    /// See [`Operation::ladder`].
    #[cfg(test)]
    fn ladder(&self) -> super::ladder::Ladder;
}

/// Erases the types of the operation `O`.
pub struct Erased<O>(PhantomData<O>);

impl<O> Erased<O> {
    /// The one value of the type.
    pub const NEW: Self = Self(PhantomData);
}

impl<O: Operation> Erased<O> {
    /// Erases the types of a command that was already read: for an operation on resources of
    /// several kinds, which passes its command on to the operation of the kind that is meant.
    #[must_use]
    pub fn command(name: &'static str, command: O::Command) -> Box<dyn AnyCommand> {
        Box::new(ErasedCommand::<O> {
            operation: name,
            command,
        })
    }
}

/// A command that was refused for the time of its request alone ([`Reader::is_untimely`]). A clock that
/// was ahead may have let it pass before, so its key is looked up as that of any command; whenever it is
/// decided, it is refused.
pub struct Untimely {
    /// The command.
    pub command: Box<dyn AnyCommand>,
    /// Why it was refused.
    pub refusal: Rejection,
}

impl AnyCommand for Untimely {
    fn key(&self) -> Option<&str> {
        self.command.key()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.command.fingerprint()
    }

    fn fingerprint_as_sent(&self) -> Option<Fingerprint> {
        self.command.fingerprint_as_sent()
    }

    fn key_reused(&self, actor: &Actor, view: &ReadView<'_>) -> Option<Vec<u8>> {
        self.command.key_reused(actor, view)
    }

    fn target(&self, _: &Context<'_>) -> Option<Digest> {
        None
    }

    fn unique_keys(&self, _: &Context<'_>) -> Vec<IndexKey> {
        Vec::new()
    }

    fn decide(
        &self,
        _: Option<Digest>,
        _: &mut AnyState,
        _: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        Err(self.refusal.clone())
    }
}

struct ErasedCommand<O: Operation> {
    operation: &'static str,
    command: O::Command,
}

impl<O: Operation> AnyOperation for Erased<O> {
    fn read(
        &self,
        name: &'static str,
        parts: &Parts<'_>,
        at: &mut Reader,
    ) -> Option<Box<dyn AnyCommand>> {
        let command = <O::Command as Request>::read(parts, at)?;
        Some(Self::command(name, command))
    }

    fn read_straight(
        &self,
        name: &'static str,
        path: &[(&str, &str)],
        body: &[u8],
        now: Timestamp,
    ) -> Option<(Box<dyn AnyCommand>, usize)> {
        let (command, values) = <O::Command as Request>::read_straight(path, body, now)?;
        Some((Self::command(name, command), values))
    }

    fn replayed(&self, body: Vec<u8>) -> Vec<u8> {
        O::replayed(body)
    }

    fn final_response(&self, first: &[u8], view: &ReadView<'_>) -> Option<(Vec<u8>, Disposition)> {
        O::final_response(first, view)
    }

    fn doc(&self) -> &'static str {
        O::DOC
    }

    fn rejections(&self) -> &'static [Declared] {
        O::REJECTIONS
    }

    fn shape(&self) -> Shape {
        <O::Command as Request>::shape()
    }

    fn answer(&self, schemas: &mut SchemaGenerator) -> Schema {
        schemas.subschema_for::<O::Answer>()
    }

    fn conflict(&self, schemas: &mut SchemaGenerator) -> Option<(&'static str, Schema)> {
        O::conflict(schemas)
    }

    fn example(&self) -> &'static Example {
        &O::EXAMPLE
    }

    fn key_field(&self) -> Option<&'static str> {
        O::KEY_FIELD
    }

    #[cfg(test)]
    fn ladder(&self) -> super::ladder::Ladder {
        O::ladder()
    }
}

impl<O: Operation> AnyCommand for ErasedCommand<O> {
    fn key(&self) -> Option<&str> {
        O::key(&self.command)
    }

    fn fingerprint(&self) -> Fingerprint {
        let plain = O::without_defaults(&self.command);
        fingerprint(self.operation, plain.as_ref().unwrap_or(&self.command))
    }

    fn fingerprint_as_sent(&self) -> Option<Fingerprint> {
        let plain = O::without_defaults(&self.command);
        plain.map(|_| fingerprint(self.operation, &self.command))
    }

    fn key_reused(&self, actor: &Actor, view: &ReadView<'_>) -> Option<Vec<u8>> {
        O::key_reused(&self.command, actor, view)
    }

    fn target(&self, context: &Context<'_>) -> Option<Digest> {
        O::target(&self.command, context)
    }

    fn unique_keys(&self, context: &Context<'_>) -> Vec<IndexKey> {
        O::unique_keys(&self.command, context)
    }

    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        let state = own_state::<O::Resource>(target, slot, context);
        let decision = O::decide(state, &self.command, context)?;
        Ok(erase(state, decision, target))
    }
}

/// Returns the deciding resource's state: the one in `slot`, or else the committed one.
pub(crate) fn own_state<'s, R: Resource>(
    target: Option<Digest>,
    slot: &'s mut AnyState,
    context: &Context<'_>,
) -> Option<&'s R> {
    if slot.is_none()
        && let Some(state) = target.and_then(|key| context.view.at::<R>(key))
    {
        *slot = Some(Box::new(state));
    }
    slot.as_ref().and_then(|state| state.downcast_ref())
}

/// Erases the types of a decision.
pub(crate) fn erase<R: Resource>(
    state: Option<&R>,
    decision: Decision<R>,
    target: Option<Digest>,
) -> AnyDecision {
    match decision {
        Decision::ReplayOf(key) => AnyDecision::ReplayOf(key),
        Decision::Answer(body) => AnyDecision::Answer(body),
        Decision::Commit(commit) => {
            let own = Change::of(state, &commit.event, &commit.next);
            assert_eq!(
                Some(own.key),
                target,
                "a commit is on the resource that decides"
            );
            let mut changes = Vec::with_capacity(1 + commit.other_changes.len());
            changes.push(own);
            changes.extend(commit.other_changes);
            AnyDecision::Commit(Box::new(Decided {
                changes,
                outbox: commit.outbox,
                answer: commit.answer,
                disposition: commit.disposition,
                next: Box::new(commit.next),
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::json::FaultCode;

    /// A command with fields that say what their absence says.
    struct WithDefaults;

    impl AnyCommand for WithDefaults {
        fn key(&self) -> Option<&str> {
            Some("key-1")
        }

        fn fingerprint(&self) -> Fingerprint {
            Fingerprint([1; 32])
        }

        fn fingerprint_as_sent(&self) -> Option<Fingerprint> {
            Some(Fingerprint([2; 32]))
        }

        fn key_reused(&self, _: &Actor, _: &ReadView<'_>) -> Option<Vec<u8>> {
            None
        }

        fn target(&self, _: &Context<'_>) -> Option<Digest> {
            None
        }

        fn unique_keys(&self, _: &Context<'_>) -> Vec<IndexKey> {
            Vec::new()
        }

        fn decide(
            &self,
            _: Option<Digest>,
            _: &mut AnyState,
            _: &Context<'_>,
        ) -> Result<AnyDecision, Rejection> {
            Ok(AnyDecision::Answer(Vec::new()))
        }
    }

    #[test]
    fn an_untimely_command_has_the_key_and_both_fingerprints_of_the_command() {
        let untimely = Untimely {
            command: Box::new(WithDefaults),
            refusal: Rejection::invalid_at("later", FaultCode::OutOfRange),
        };
        assert_eq!(untimely.key(), WithDefaults.key());
        assert_eq!(untimely.fingerprint(), WithDefaults.fingerprint());
        assert_eq!(
            untimely.fingerprint_as_sent(),
            WithDefaults.fingerprint_as_sent()
        );
    }
}
