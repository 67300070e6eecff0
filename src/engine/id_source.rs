//! Fresh identifiers: UUIDv7 and numbers of outbox messages.

use std::sync::atomic::{AtomicI64, Ordering};

use uuid::Uuid;

use crate::base::time::Timestamp;
use crate::domain::operation::IdSource;

/// The engine's source of identifiers.
pub(crate) struct EngineIdSource {
    outbox_number: AtomicI64,
}

/// The source of identifiers at the time of one decision.
pub(crate) struct IdSourceAt<'a> {
    ids: &'a EngineIdSource,
    now: Timestamp,
    /// Number of example numbers given to messages; `None` when numbers are assigned for good.
    examples: Option<AtomicI64>,
}

impl EngineIdSource {
    /// Creates a source that numbers outbox messages from after `last`.
    pub(crate) fn new(last: i64) -> Self {
        Self {
            outbox_number: AtomicI64::new(last),
        }
    }

    /// Creates a UUIDv7 with this time in 48 bits, and 74 random bits.
    #[allow(clippy::unused_self)]
    pub(crate) fn id(&self, now: Timestamp) -> Uuid {
        let random = Uuid::new_v4();
        let random = random.as_bytes();
        let mut chance = [0; 10];
        // Bytes 6 and 8 of a version 4 UUID are not entirely random.
        chance[..6].copy_from_slice(&random[..6]);
        chance[6..].copy_from_slice(&random[9..13]);
        let millis = u64::try_from(now.millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &chance).into_uuid()
    }

    /// Returns the highest number that a message may have by now.
    pub(crate) fn last_outbox_number(&self) -> i64 {
        self.outbox_number.load(Ordering::Relaxed)
    }

    /// Notes a message number that another process assigned.
    pub(crate) fn note(&self, number: i64) {
        self.outbox_number.fetch_max(number, Ordering::Relaxed);
    }

    pub(crate) fn at(&self, now: Timestamp) -> IdSourceAt<'_> {
        IdSourceAt {
            ids: self,
            now,
            examples: None,
        }
    }

    /// Creates a source for a dry run: its identifiers are examples, which others may get again.
    pub(crate) fn examples_at(&self, now: Timestamp) -> IdSourceAt<'_> {
        IdSourceAt {
            examples: Some(AtomicI64::new(0)),
            ..self.at(now)
        }
    }
}

impl IdSource for IdSourceAt<'_> {
    fn id(&self) -> Uuid {
        self.ids.id(self.now)
    }

    fn outbox_number(&self) -> i64 {
        let numbers = &self.ids.outbox_number;
        match &self.examples {
            None => numbers.fetch_add(1, Ordering::Relaxed) + 1,
            Some(given) => {
                numbers.load(Ordering::Relaxed) + given.fetch_add(1, Ordering::Relaxed) + 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn identifiers_are_uuids_of_version_7_and_differ() {
        let ids = EngineIdSource::new(0);
        let now = Timestamp::from_millis(1_763_640_000_000);
        let ids: BTreeSet<_> = (0..10_000).map(|_| ids.id(now)).collect();
        assert_eq!(ids.len(), 10_000);
        for id in ids {
            assert_eq!(id.get_version_num(), 7);
            assert!(id.to_string().starts_with("019aa122-be00-7"), "{id}");
        }
    }

    #[test]
    fn message_numbers_go_on_after_the_last() {
        let ids = EngineIdSource::new(41);
        let at = ids.at(Timestamp::default());
        assert_eq!((at.outbox_number(), at.outbox_number()), (42, 43));
    }
}
