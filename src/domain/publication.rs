//! The progress of publishing events to NATS: the last event that the stream has acknowledged.
//!
//! There is one such resource. No client can change it: the publisher reports, and a report that is
//! not ahead of the recorded event changes nothing.

use serde::{Deserialize, Serialize};

use super::operation::{Commit, Context, Decision};
use super::rejection::Rejection;
use super::report::Report;
use super::resource::{Kind, Resource};
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::public_events;

/// The identifier of the only resource of this kind.
const ID: &str = "nats";

/// The progress of publishing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// How many commits it has seen.
    pub revision: Revision,
    /// The position of the commit of the last published event.
    pub position: u64,
    /// The number of that event among the events of its commit.
    pub number: u32,
}

/// What can happen to it. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PublicationEvent {
    /// More events are published.
    Advanced {
        /// The position of the commit of the last published event.
        position: u64,
        /// The number of that event among the events of its commit.
        number: u32,
    },
}

impl Publication {
    /// Returns the key of the only resource of this kind.
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

    fn apply(state: Option<Self>, event: &PublicationEvent, _: Timestamp) -> Self {
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

/// The report that all events up to this one are published.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// The position of the commit of the last published event.
    pub position: u64,
    /// The number of that event among the events of its commit.
    pub number: u32,
}

impl Report for Published {
    type Resource = Publication;

    fn resource(&self) -> Digest {
        Publication::the_key()
    }

    fn decide(
        &self,
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::codec;

    /// No run through the operations creates such a resource, so no stored directory of an older
    /// version contains one.
    #[test]
    fn stored_publications_are_readable_for_ever() {
        let event = PublicationEvent::Advanced {
            position: 300,
            number: 2,
        };
        let state = Publication::apply(None, &event, Timestamp::default());
        assert_eq!(codec::encode(&event), [0, 251, 44, 1, 2]);
        assert_eq!(codec::encode(&state), [2, 251, 44, 1, 2]);
        assert_eq!(
            codec::decode::<Publication>(&[2, 251, 44, 1, 2]).unwrap(),
            state
        );
    }
}
