//! The files on which a survey is based. They are compared again before anything is changed: a server may have been
//! started since the survey.

use std::io;

use crate::error::Error;
use crate::format;
use crate::manifest::Manifest;
use crate::storage::Storage;

/// The manifest of a directory, and its other files.
#[derive(PartialEq, Eq)]
pub(super) struct DirectoryFiles {
    /// The manifest; `None` when there is none that can be read.
    pub(super) manifest: Option<Manifest>,
    /// Name and length of each file of a log; no length when it cannot be opened.
    files: Vec<(String, Option<u64>)>,
}

impl DirectoryFiles {
    /// Reads the directory as it is now; the caller has it locked.
    pub(super) fn at(storage: &dyn Storage) -> Result<Self, Error> {
        let manifest = match Manifest::load(storage) {
            Ok(manifest) => manifest,
            Err(Error::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        let names = storage
            .list("")
            .map_err(Error::io("list", storage.describe("")))?;
        let mut files: Vec<_> = names
            .into_iter()
            .filter(|name| is_of_log(name))
            .map(|name| {
                let length = storage.open_read(&name).and_then(|file| file.length());
                (name, length.ok())
            })
            .collect();
        files.sort_unstable();
        Ok(Self { manifest, files })
    }

    /// Refuses a directory that is no longer as it was.
    pub(super) fn expect_unchanged(&self, storage: &dyn Storage) -> Result<(), Error> {
        if Self::at(storage)? == *self {
            return Ok(());
        }
        Err(Error::Io {
            what: "recover",
            file: storage.describe(""),
            source: io::Error::other(
                "the directory has changed since it was surveyed; nothing was changed now; run recover again",
            ),
        })
    }

    /// Numbers and names of the segments, rising.
    pub(super) fn segments(&self) -> Vec<(u64, String)> {
        self.numbered(format::parse_segment_name)
    }

    /// Numbers and names of the snapshots, rising.
    pub(super) fn snapshots(&self) -> Vec<(u64, String)> {
        self.numbered(format::parse_snapshot_name)
    }

    fn numbered(&self, parse: fn(&str) -> Option<u64>) -> Vec<(u64, String)> {
        let names = self.files.iter().map(|(name, _)| name);
        let mut found: Vec<_> = names
            .filter_map(|name| Some((parse(name)?, name.clone())))
            .collect();
        found.sort_unstable();
        found
    }
}

/// Whether a survey may be based on a file of this name.
fn is_of_log(name: &str) -> bool {
    let is_of_ancestors = format::is_ancestors_name(name) && !format::is_temp_name(name);
    name == format::MANIFEST
        || is_of_ancestors
        || format::parse_segment_name(name).is_some()
        || format::parse_snapshot_name(name).is_some()
}
