//! A receiver has taken a message, or has not.
//!
//! Resource: the message. Nobody asks for this from outside: it has no row in the catalogue. Of a
//! message that is settled by now, or dead, nothing is changed.

use super::message::{Failure, Message, MessageEvent, MessageStatus};
use crate::base::actor::Actor;
use crate::base::digest::{Digest, Fingerprint};
use crate::base::time::Instant;
use crate::domain::operation::{
    AnyCommand, AnyDecision, AnyState, Commit, Context, Decision, erase, own_state,
};
use crate::domain::rejection::Rejection;
use crate::domain::resource::{IndexKey, ReadView};

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The receiver has taken the message.
    Taken,
    /// It has not, and is asked again then.
    Failed(Failure, Instant),
    /// It has not, and this was the last attempt.
    Dead(Failure),
}

/// The command.
pub struct Report {
    /// The number of the message.
    pub number: i64,
    /// What became of the attempt.
    pub attempt: Attempt,
}

impl AnyCommand for Report {
    fn key(&self) -> Option<&str> {
        None
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(b"report")
    }

    fn key_reused(&self, _: &Actor, _: &ReadView<'_>) -> Option<Vec<u8>> {
        None
    }

    fn target(&self, _: &Context<'_>) -> Option<Digest> {
        Some(Message::key_of(self.number))
    }

    fn unique_keys(&self, _: &Context<'_>) -> Vec<IndexKey> {
        Vec::new()
    }

    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        let message = own_state::<Message>(target, slot, context);
        let waiting = message.filter(|message| message.status == MessageStatus::Waiting);
        let decision = match waiting {
            None => Decision::Answer(Vec::new()),
            Some(waiting) => {
                let event = match &self.attempt {
                    Attempt::Taken => MessageEvent::Taken(waiting.about()),
                    Attempt::Failed(failure, next_attempt_at) => MessageEvent::Failed {
                        next_attempt_at: *next_attempt_at,
                        failure: failure.clone(),
                    },
                    Attempt::Dead(failure) => MessageEvent::Dead {
                        about: waiting.about(),
                        failure: failure.clone(),
                    },
                };
                Decision::Commit(Box::new(Commit::new(message, event, context.at)))
            }
        };
        Ok(erase(message, decision, target))
    }
}
