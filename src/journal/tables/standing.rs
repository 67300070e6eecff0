//! A resource as the tables give it out and take it in.

use crate::base::digest::Digest;

/// A resource as it stands in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing<'a> {
    /// Its kind.
    pub kind: u16,
    /// Its key.
    pub key: Digest,
    /// The position of its last commit.
    pub position: u64,
    /// Its state.
    pub bytes: &'a [u8],
}
