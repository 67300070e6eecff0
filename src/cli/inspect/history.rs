//! States made anew from the log, for those who look: of one resource, or of all.

use std::collections::HashMap;

use wal::BoxError;

use super::known;
use crate::base::digest::Digest;
use crate::base::time::Instant;
use crate::domain::resource::AnyResource;
use crate::journal::record::RecordChange;

/// A resource as the last commit that was read has left it.
pub(super) struct Standing {
    pub(super) resource: &'static dyn AnyResource,
    /// The position of that commit.
    pub(super) position: u64,
    pub(super) state: Vec<u8>,
}

/// The resources read so far.
#[derive(Default)]
pub(super) struct States {
    pub(super) all: HashMap<Digest, Standing>,
}

impl States {
    /// Applies the change at `position`; gives the state's bytes before it.
    ///
    /// # Errors
    /// When the change cannot follow on what is there.
    pub(super) fn apply(
        &mut self,
        position: u64,
        at: Instant,
        change: &RecordChange,
    ) -> Result<Option<Vec<u8>>, BoxError> {
        let resource = known(change.kind)?;
        let before = self.all.remove(&change.key);
        let before = before.map(|standing| standing.state);
        let replayed = resource
            .replay(before.as_deref(), &change.event.0, at)
            .map_err(|error| format!("{}: {error}", resource.kind().name))?;
        if replayed.key != change.key {
            let kind = resource.kind().name;
            return Err(format!("{kind}: the event is another resource's").into());
        }
        let standing = Standing {
            resource,
            position,
            state: replayed.state,
        };
        self.all.insert(change.key, standing);
        Ok(before)
    }
}
