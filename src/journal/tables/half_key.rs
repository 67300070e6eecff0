//! Half of a digest, used where the whole digest is elsewhere in the tables.
//!
//! A list notes its resources, and the table of states has their keys, so eight bytes of a key suffice to find it
//! there. An attacker can create two keys with the same eight bytes, by some 2^32 attempts. The second one to come is
//! *later*: it is noted here, and everywhere else in full. So half a digest always means the key that is not later.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use crate::base::digest::Digest;

/// Indexes of the bytes of a digest that determine its shard and its place in a hash index.
const BYTES: [usize; HalfKey::BYTES] = [0, 1, 4, 5, 6, 7, 8, 14];

/// Half a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HalfKey(pub(super) [u8; HalfKey::BYTES]);

impl HalfKey {
    pub(super) const BYTES: usize = 8;

    pub(super) fn of(digest: Digest) -> Self {
        Self(BYTES.map(|at| digest.0[at]))
    }

    /// Returns a digest with this half, which has the same shard and the same place in a hash index.
    pub(super) fn alike(self) -> Digest {
        let mut digest = Digest([0; 16]);
        for (at, byte) in BYTES.into_iter().zip(self.0) {
            digest.0[at] = byte;
        }
        digest
    }
}

/// A digest as stored in a list: half of it, or all of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    First(HalfKey),
    Later(Digest),
}

impl Noted {
    /// Returns the half of the digest, which both variants have.
    pub(super) fn half(self) -> HalfKey {
        match self {
            Self::First(half) => half,
            Self::Later(whole) => HalfKey::of(whole),
        }
    }
}

/// Digests that came when there was another one with the same half. This lock is taken last of all.
#[derive(Default)]
pub(super) struct HalfKeyCollisions {
    is_any: AtomicBool,
    digests: RwLock<HashSet<Digest>>,
}

impl HalfKeyCollisions {
    /// Notes that this digest is later. To be called before anybody can find it.
    pub(super) fn note(&self, digest: Digest) {
        self.digests.write().insert(digest);
        self.is_any.store(true, Ordering::Release);
    }

    pub(super) fn has(&self, digest: Digest) -> bool {
        self.is_any.load(Ordering::Acquire) && self.digests.read().contains(&digest)
    }

    /// Returns the form in which this digest, which can be found by now, is stored.
    pub(super) fn noted(&self, digest: Digest) -> Noted {
        match self.has(digest) {
            true => Noted::Later(digest),
            false => Noted::First(HalfKey::of(digest)),
        }
    }
}

/// Determines whether a new digest is later, from the digests compared with it while its place is searched.
pub(super) struct Alike {
    digest: Digest,
    is_later: Cell<bool>,
}

impl Alike {
    pub(super) fn to(digest: Digest) -> Self {
        Self {
            digest,
            is_later: Cell::new(false),
        }
    }

    /// Compares an existing digest, and returns it.
    pub(super) fn seen(&self, there: Digest) -> Digest {
        if HalfKey::of(there) == HalfKey::of(self.digest) {
            self.is_later.set(true);
        }
        there
    }

    /// Notes the digest if it is later. To be called when it is about to be entered, and was not there.
    pub(super) fn note_if_later(&self, later: &HalfKeyCollisions) {
        if self.is_later.get() {
            later.note(self.digest);
        }
    }
}
