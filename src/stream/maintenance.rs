//! What a link does by itself: it looks at the stream, and appends barriers for those who wait for one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::barrier_rate::BarrierRate;
use super::connection::Connection;
use super::error::StreamError;
use super::handle::JournalHandle;
use super::message::Content;

/// How often the stream's room is asked for, and who wrote last.
const LOOK: Duration = Duration::from_secs(1);

/// A hold on the journal that does not write yet, and which is tended as long as it is there. `token` is
/// random.
#[must_use]
pub fn hold(connection: Arc<Connection>, node: &str, token: [u8; 16]) -> Arc<JournalHandle> {
    let link = JournalHandle::new(connection, node, token);
    let handle = link.connection.handle();
    handle.spawn(barriers(Arc::downgrade(&link)));
    handle.spawn(looks(Arc::downgrade(&link)));
    link
}

impl JournalHandle {
    async fn look(&self) -> Result<(), StreamError> {
        let before = self.room.free();
        let acknowledged = self.end_of_acknowledged();
        let info = self.connection.info_now().await?;
        self.room.told(before, info.bytes, info.bytes_max);
        self.figures.stream_has(info.bytes, info.bytes_max);
        let last = self
            .builder
            .lock()
            .as_ref()
            .map(|builder| builder.tail.sequence);
        if self.has_in_flight() {
            return Ok(());
        }
        // What else the servers may keep is told by none of them: only an append shows that there is room.
        let is_full = self.is_full.load(Ordering::Acquire);
        if !is_full {
            self.trouble.lock().take();
        }
        let is_overtaken = last.is_some_and(|last| info.last > last);
        let is_short = acknowledged.is_some_and(|last| info.last < last);
        if is_overtaken || is_short || (is_full && !self.room.is_for_fences()) {
            // Where another process has written, or what was written is lost, the next append finds that out,
            // and none may come by itself.
            let _ = self.append(Content::Barrier).await;
        }
        Ok(())
    }

    /// The last message that this process has appended, while none is in flight.
    fn end_of_acknowledged(&self) -> Option<u64> {
        let builder = self.builder.lock();
        let builder = builder.as_ref();
        let idle = builder.filter(|builder| builder.made == self.acknowledged());
        idle.map(|builder| builder.tail.sequence)
    }

    /// Whether no barrier may be appended, so that those who wait for one would do so for as long as
    /// there is no more room.
    fn has_no_room_for_barriers(&self) -> bool {
        self.is_full.load(Ordering::Acquire) || self.room.is_for_fences()
    }
}

async fn looks(link: Weak<JournalHandle>) {
    loop {
        {
            let Some(link) = link.upgrade() else {
                return;
            };
            if link.ended.get().is_some() {
                return;
            }
            if let Err(error) = link.look().await {
                // It is unknown whether an append would succeed.
                *link.trouble.lock() = Some(error.to_string().into());
            }
        }
        sleep(LOOK).await;
    }
}

/// Appends a barrier whenever a request waits for an append, nothing is in flight, and none has
/// come in time.
async fn barriers(link: Weak<JournalHandle>) {
    let mut rate = BarrierRate::new(Instant::now());
    let mut last = Instant::now();
    loop {
        let Some(link) = link.upgrade() else {
            return;
        };
        if link.ended.get().is_some() {
            return;
        }
        if !link.confirmations.is_wanted() {
            // The link may be dropped while none is asked for.
            link.confirmations.until_asked(LOOK).await;
            continue;
        }
        if link.has_no_room_for_barriers() {
            link.confirmations.refuse();
            continue;
        }
        let mut changes = link.confirmations.changes();
        if link.has_in_flight() {
            // It may be what is waited for.
            let _ = timeout(LOOK, changes.changed()).await;
            continue;
        }
        if link.room.is_short() && last.elapsed() < LOOK {
            // What is left is for fences, and for what is decided.
            let _ = timeout(LOOK - last.elapsed(), changes.changed()).await;
            continue;
        }
        last = Instant::now();
        if let Some(wait) = rate.take(Instant::now()) {
            // A batch may come sooner.
            let _ = timeout(wait, changes.changed()).await;
            continue;
        }
        if link.append(Content::Barrier).await.is_err() {
            // This process does not write yet.
            sleep(Duration::from_millis(10)).await;
        }
    }
}
