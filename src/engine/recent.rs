//! Responses of the last commits, for replays: a client that repeats a command soon is answered without reading the
//! log.
//!
//! There is a fixed number of places, and a commit's response replaces the one that many positions before. The places
//! are few on purpose: each commit writes one of them and frees its old content, and all are used in turn. If they
//! exceeded the processor's caches, each commit would wait for memory, for the sake of rare replays.

use bytes::Bytes;
use parking_lot::Mutex;

use crate::base::digest::Fingerprint;
use crate::domain::operation::Disposition;

/// The stored response of a commit, for replays.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(super) fingerprint: Fingerprint,
    pub(super) body: Bytes,
    pub(super) disposition: Disposition,
}

/// Longest response kept, in bytes; longer ones are read from the log. So the number of places bounds the memory.
const BODY_BYTES_MAX: usize = 4 << 10;

/// A response with the position of its commit.
type Place = Mutex<Option<(u64, Stored)>>;

/// The stored responses of the last commits, by their positions.
pub(super) struct RecentAnswers {
    places: Box<[Place]>,
}

impl RecentAnswers {
    /// Creates an empty set of `most` places.
    pub(super) fn new(most: usize) -> Self {
        Self {
            places: (0..most).map(|_| Mutex::default()).collect(),
        }
    }

    fn place(&self, position: u64) -> Option<&Place> {
        let most = u64::try_from(self.places.len()).ok()?;
        let place = position.checked_rem(most)?;
        self.places.get(usize::try_from(place).ok()?)
    }

    /// Keeps the response of the commit at `position`.
    pub(super) fn keep(&self, position: u64, stored: &Stored) {
        if stored.body.len() > BODY_BYTES_MAX {
            return;
        }
        if let Some(place) = self.place(position) {
            let before = place.lock().replace((position, stored.clone()));
            // Freed after the lock is released.
            drop(before);
        }
    }

    /// Returns the response of the commit at `position`, if it is kept.
    pub(super) fn get(&self, position: u64) -> Option<Stored> {
        let kept = self.place(position)?.lock();
        let (_, stored) = kept.as_ref().filter(|(of, _)| *of == position)?;
        Some(stored.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> Stored {
        Stored {
            fingerprint: Fingerprint([0; 32]),
            body: Bytes::from(vec![b' '; bytes]),
            disposition: Disposition::Done,
        }
    }

    fn kept(recent: &RecentAnswers, positions: std::ops::Range<u64>) -> Vec<(u64, usize)> {
        let kept = |position| Some((position, recent.get(position)?.body.len()));
        positions.filter_map(kept).collect()
    }

    #[test]
    fn the_last_answers_are_kept_and_none_in_the_place_of_another() {
        let recent = RecentAnswers::new(3);
        assert_eq!(kept(&recent, 0..10), []);
        for (position, bytes) in [(1, 10), (2, 20), (4, 40), (6, 60)] {
            recent.keep(position, &answer(bytes));
        }
        assert_eq!(kept(&recent, 0..10), [(2, 20), (4, 40), (6, 60)]);
    }

    #[test]
    fn an_answer_that_takes_much_memory_is_not_kept() {
        let recent = RecentAnswers::new(3);
        recent.keep(1, &answer(BODY_BYTES_MAX));
        recent.keep(2, &answer(BODY_BYTES_MAX + 1));
        assert_eq!(kept(&recent, 0..10), [(1, BODY_BYTES_MAX)]);
    }

    #[test]
    fn without_places_nothing_is_kept() {
        let recent = RecentAnswers::new(0);
        recent.keep(1, &answer(1));
        assert!(recent.get(1).is_none());
    }
}
