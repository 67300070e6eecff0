//! How far the publishing of events to NATS is: the last event that the stream has acknowledged.
//!
//! There is one such resource. No client can change it: the publisher reports, and a report that is
//! behind the recorded position changes nothing.

use serde::{Deserialize, Serialize};

use super::operation::{Commit, Context, Decision};
use super::rejection::Rejection;
use super::report::Report;
use super::resource::{Kind, Resource};
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
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

/// What can happen to it. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
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

/// The report: events up to this one are published.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    /// The position of the last one,
    pub position: u64,
    /// and its number among the events of that commit.
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

    /// No walk through the operations makes one, so no stored directory of a version has one.
    #[test]
    fn what_is_stored_of_it_is_read_for_ever() {
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
