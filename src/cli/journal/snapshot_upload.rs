//! Uploads the writer's newest snapshot to the servers' object store.

use std::mem;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use wal::storage::Storage;

use super::super::exit::Failure;
use super::super::open::unusable;
use crate::engine::Engine;
use crate::stream::error::StreamError;
use crate::stream::handle::JournalHandle;
use crate::stream::{purge, snapshot_store};

/// Interval of checks for a newer snapshot.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(30);

/// The thread that uploads snapshots.
pub(super) struct SnapshotUpload {
    engine: Weak<Engine>,
    link: Arc<JournalHandle>,
    storage: Arc<dyn Storage>,
    replicas: usize,
    /// Last position that the newest snapshot in the object store covers.
    covers: u64,
    /// The log's first position at the last purge of the stream.
    purged: u64,
    /// Parts of uploads that were not completed.
    parts: snapshot_store::Parts,
}

impl SnapshotUpload {
    /// Starts the thread, which ends with the service.
    ///
    /// # Errors
    /// When the directory cannot be read, or a thread not be started.
    pub(super) fn start(
        engine: &Arc<Engine>,
        link: &Arc<JournalHandle>,
        replicas: usize,
        data: &Path,
    ) -> Result<(), Failure> {
        let shelving = Self {
            engine: Arc::downgrade(engine),
            link: Arc::clone(link),
            storage: wal::open_dir(data).map_err(|error| unusable(data, &error))?,
            replicas,
            covers: 0,
            purged: 0,
            parts: snapshot_store::Parts::new(),
        };
        let named = thread::Builder::new().name("shelving".to_owned());
        let spawned = named.spawn(move || shelving.run());
        spawned.map(drop).map_err(Failure::from_error)
    }

    fn run(mut self) {
        let mut not_before = Instant::now();
        while !self.ends() {
            if self.link.writes()
                && Instant::now() >= not_before
                && let Err(error) = self.turn()
            {
                if self.ends() {
                    return;
                }
                tracing::warn!(%error, "snapshots in the journal's object store are not up to date");
                self.link.figures().failed_snapshot();
                not_before = Instant::now() + PAUSE;
            }
            thread::sleep(CHECK_INTERVAL);
        }
    }

    fn ends(&self) -> bool {
        let is_there = |engine: Arc<Engine>| !engine.feed().has_ended();
        !self.engine.upgrade().is_some_and(is_there) || self.link.ended().is_some()
    }

    /// Uploads a newer snapshot, if there is one, and purges messages that are no longer needed.
    fn turn(&mut self) -> Result<(), StreamError> {
        let Some(engine) = self.engine.upgrade() else {
            return Ok(());
        };
        let newest = engine.snapshots().first().map(|newest| newest.covers);
        let first = engine.first_position();
        drop(engine);
        let is_newer = newest.is_some_and(|newest| newest > self.covers);
        if !is_newer && first <= self.purged {
            return Ok(());
        }
        let mut parts = mem::take(&mut self.parts);
        let (storage, ends) = (self.storage.as_ref(), || self.ends());
        let list = snapshot_store::put(&self.link, storage, self.replicas, &mut parts, &ends);
        self.parts = parts;
        let list = list?;
        let covers = list.covers();
        if covers > self.covers {
            tracing::info!(covers, "a snapshot is in the journal's object store");
        }
        let left = purge::purge(&self.link, list, first)?;
        self.link.figures().set_snapshot(covers, left);
        (self.covers, self.purged) = (covers, first);
        Ok(())
    }
}
