//! How far the publishing of events to NATS is: the last event that the stream has acknowledged.
//!
//! There is one such resource. Nobody asks for its change from outside: what publishes reports, and
//! a report that is behind what stands already changes nothing.

use serde::{Deserialize, Serialize};

use super::example::Example;
use super::operation::{
    AnyCommand, AnyDecision, AnyOperation, AnyState, Commit, Context, Decision, Parts, erase,
    own_state,
};
use super::rejection::{Class, Rejection};
use super::resource::{IndexKey, Kind, ReadView, Resource};
use crate::base::actor::Actor;
use crate::base::digest::{Digest, Fingerprint};
use crate::base::json::{Reader, Shape};
use crate::base::revision::Revision;
use crate::base::time::Instant;
use crate::public_events;

/// The identifier of the one there is.
const ID: &str = "nats";

/// How far the publishing is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// How many commits it has seen.
    pub revision: Revision,
    /// The position of the last event that is published,
    pub position: u64,
    /// and its number among the events of that commit.
    pub number: u32,
}

/// What can happen to it. New events go at the end: their order stands in the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PublicationEvent {
    /// More events are published.
    Advanced {
        /// The position of the last one,
        position: u64,
        /// and its number among the events of that commit.
        number: u32,
    },
}

impl Publication {
    /// Its key.
    #[must_use]
    pub fn the_key() -> Digest {
        Self::KIND.key(&[ID])
    }
}

impl Resource for Publication {
    const KIND: Kind = Kind {
        tag: 140,
        name: "nats-publication",
    };
    type Event = PublicationEvent;

    fn apply(state: Option<Self>, event: &PublicationEvent, _: Instant) -> Self {
        let PublicationEvent::Advanced { position, number } = *event;
        Self {
            revision: state.map_or(Revision::FIRST, |before| before.revision.next()),
            position,
            number,
        }
    }

    fn id(&self) -> Vec<String> {
        vec![ID.to_owned()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}

public_events! {
    Publication by PublicationEvent, read at "nats-publication/{}", revision none;

    // Telling of it would be one more event to publish.
    Advanced { .. } => nothing,
}

/// The operation: no request leads to it.
pub struct RecordPublication;

impl AnyOperation for RecordPublication {
    fn read(&self, _: &'static str, _: &Parts<'_>, _: &mut Reader) -> Option<Box<dyn AnyCommand>> {
        None
    }

    fn replayed(&self, body: Vec<u8>) -> Vec<u8> {
        body
    }

    fn rejections(&self) -> &'static [(Class, &'static str)] {
        &[]
    }

    fn shape(&self) -> Shape {
        Shape::Object(Vec::new())
    }

    fn example(&self) -> &'static Example {
        &Example::NEW
    }

    #[cfg(test)]
    fn ladder(&self) -> super::ladder::Ladder {
        super::ladder::Ladder::new()
    }
}

/// The report: events up to this one are published.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// The position of the last one,
    pub position: u64,
    /// and its number among the events of that commit.
    pub number: u32,
}

impl Published {
    fn ladder(
        self,
        state: Option<&Publication>,
        context: &Context<'_>,
    ) -> Result<Decision<Publication>, Rejection> {
        let before = state.map(|state| (state.position, state.number));
        if before >= Some((self.position, self.number)) {
            return Ok(Decision::Answer(Vec::new()));
        }
        let event = PublicationEvent::Advanced {
            position: self.position,
            number: self.number,
        };
        Commit::new(state, event, context.at).answer(Vec::new())
    }
}

impl AnyCommand for Published {
    fn key(&self) -> Option<&str> {
        None
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(b"record_publication")
    }

    fn key_reused(&self, _: &Actor, _: &ReadView<'_>) -> Option<Vec<u8>> {
        None
    }

    fn target(&self, _: &Context<'_>) -> Option<Digest> {
        Some(Publication::the_key())
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
        let state = own_state::<Publication>(target, slot, context);
        let decision = self.ladder(state, context)?;
        Ok(erase(state, decision, target))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::codec;

    /// No walk through the operations makes one, so no stored directory of a version has one.
    #[test]
    fn what_is_stored_of_it_is_read_for_ever() {
        let event = PublicationEvent::Advanced {
            position: 300,
            number: 2,
        };
        let state = Publication::apply(None, &event, Instant::default());
        assert_eq!(codec::encode(&event), [0, 251, 44, 1, 2]);
        assert_eq!(codec::encode(&state), [2, 251, 44, 1, 2]);
        assert_eq!(
            codec::decode::<Publication>(&[2, 251, 44, 1, 2]).unwrap(),
            state
        );
    }
}
