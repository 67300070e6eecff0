//! A disk whose syncs, and whose reads, can be held up.

use std::sync::{Arc, Condvar, Mutex};

use tokio::sync::Notify;
use wal::storage::Storage;

use super::watched::Watched;

/// While it is closed, nothing that goes through it comes to an end.
#[derive(Default)]
pub struct Gate {
    is_closed: Mutex<bool>,
    news: Condvar,
    waiting: Notify,
}

impl Gate {
    /// Closes the gate, or opens it.
    pub fn set(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap() = is_closed;
        self.news.notify_all();
    }

    /// Returns when a caller was held up.
    pub async fn somebody_waits(&self) {
        self.waiting.notified().await;
    }

    fn pass(&self) {
        let is_closed = self.is_closed.lock().unwrap();
        if *is_closed {
            self.waiting.notify_one();
        }
        drop(self.news.wait_while(is_closed, |closed| *closed).unwrap());
    }
}

/// Opens the gate when it is dropped: a failed test must not wait for the disk for ever.
pub struct OpenInTheEnd(pub Arc<Gate>);

impl Drop for OpenInTheEnd {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The disk, whose syncs of files go through the gate.
pub fn syncing_through(gate: &Arc<Gate>, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    through("sync", gate, storage)
}

/// The disk, whose reads go through the gate.
pub fn reading_through(gate: &Arc<Gate>, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    through("read_at", gate, storage)
}

fn through(which: &'static str, gate: &Arc<Gate>, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    let gate = Arc::clone(gate);
    Arc::new(Watched::new(storage, move |call, _| {
        if call == which {
            gate.pass();
        }
    }))
}
