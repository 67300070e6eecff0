//! A resource as the tables store it.

use crate::base::digest::Digest;

/// A resource as the tables store it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredState<'a> {
    /// Kind of the resource.
    pub kind: u16,
    /// Key of the resource.
    pub key: Digest,
    /// Position of the resource's last commit.
    pub position: u64,
    /// State of the resource, encoded.
    pub bytes: &'a [u8],
}
