//! A resource as the tables store it.

use crate::base::digest::Digest;

/// A resource as the tables store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredState<'a> {
    /// Its kind.
    pub kind: u16,
    /// Its key.
    pub key: Digest,
    /// The position of its last commit.
    pub position: u64,
    /// Its state.
    pub bytes: &'a [u8],
}
