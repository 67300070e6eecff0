//! Background tasks of a handle: they check the stream, and append barriers for requests that wait for one.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::barrier_rate::BarrierRate;
use super::beginning::StreamBeginning;
use super::connection::{Connection, StreamInfo};
use super::error::StreamError;
use super::handle::{JournalHandle, StoredMessage};
use super::message::Content;

/// Interval of checks of the stream's room, and of its last writer.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Creates a handle of the journal that does not write yet; its background tasks run as long as it exists. `token` is
/// random.
#[must_use]
pub fn hold(connection: Arc<Connection>, node: &str, token: [u8; 16]) -> Arc<JournalHandle> {
    let link = JournalHandle::new(connection, node, token);
    let handle = link.connection.handle();
    handle.spawn(barriers(Arc::downgrade(&link)));
    handle.spawn(check_regularly(Arc::downgrade(&link)));
    link
}

impl JournalHandle {
    async fn check_room(&self) -> Result<StreamInfo, StreamError> {
        let before = self.room.free();
        let acknowledged = self.end_of_acknowledged();
        let info = self.connection.info_now().await?;
        self.room.set_reported(before, info.bytes, info.bytes_max);
        self.figures.stream_has(info.bytes, info.bytes_max);
        let last = self
            .builder
            .lock()
            .as_ref()
            .map(|builder| builder.tail.sequence);
        if self.has_in_flight() {
            return Ok(info);
        }
        // No server reports what other data the servers may store, so only a successful append shows that there is
        // room.
        let is_full = self.is_full.load(Ordering::Acquire);
        if !is_full {
            self.trouble.lock().take();
        }
        let is_overtaken = last.is_some_and(|last| info.last > last);
        let is_short = acknowledged.is_some_and(|last| info.last < last);
        if is_overtaken || is_short || (is_full && !self.room.is_for_fences()) {
            // If another process has written, or appended messages are lost, the next append discovers that, and none
            // may come by itself.
            let _ = self.append(Content::Barrier).await;
        }
        Ok(info)
    }

    /// Checks that nobody else has removed messages from the stream's beginning, and logs the result. A writer
    /// continues: its directory may be the only one that has them, and everything that it acknowledges is in that
    /// directory, too.
    async fn check_beginning(&self, beginning: &mut StreamBeginning, info: &StreamInfo) {
        let log_id = self.builder.lock().as_ref().map(|builder| builder.log_id);
        let checked = beginning.check(&self.connection, info, log_id).await;
        if self.figures.set_lost_beginning(checked.is_err()) == checked.is_err() {
            return;
        }
        match checked {
            Err(error) => tracing::error!(%error, "no process can start on this stream any more"),
            Ok(()) => tracing::info!("the stream's first message is as listed again"),
        }
    }

    /// Compares this process's last message at the previous check with the message at its sequence in the stream, once
    /// others came after it: the servers accept those also after another history of the same length. If none came, the
    /// next append is preceded by such a comparison.
    async fn check_stored(&self, known: &mut Option<StoredMessage>) {
        let newest = self.stored.lock().clone();
        let sequence = |stored: Option<&StoredMessage>| stored.map(|(its, _)| *its);
        if sequence(known.as_ref()) == sequence(newest.as_ref()) {
            return;
        }
        if let Some((sequence, bytes)) = known {
            let Ok(found) = self.connection.message_now(*sequence).await else {
                return;
            };
            // Purged messages are in snapshots; a loss is detected by the length of the stream.
            if found.is_some_and(|found| found != *bytes) {
                let position = self.next_position().map_or(0, |next| next - 1);
                self.end(StreamError::Replaced { position });
            }
        }
        *known = newest;
    }

    /// Returns the sequence of this process's last message, while none is in flight.
    fn end_of_acknowledged(&self) -> Option<u64> {
        let builder = self.builder.lock();
        let builder = builder.as_ref();
        let idle = builder.filter(|builder| builder.made == self.acknowledged());
        idle.map(|builder| builder.tail.sequence)
    }

    /// Whether no barrier may be appended, so that requests for one would wait until there is room.
    fn has_no_room_for_barriers(&self) -> bool {
        self.is_full.load(Ordering::Acquire) || self.room.is_for_fences()
    }
}

async fn check_regularly(link: Weak<JournalHandle>) {
    let mut known = None;
    let mut beginning = StreamBeginning::default();
    loop {
        {
            let Some(link) = link.upgrade() else {
                return;
            };
            link.check_stored(&mut known).await;
            if link.ended.get().is_some() {
                return;
            }
            match link.check_room().await {
                Ok(info) => link.check_beginning(&mut beginning, &info).await,
                // It is unknown whether an append would succeed.
                Err(error) => {
                    beginning.interrupt();
                    *link.trouble.lock() = Some(error.to_string().into());
                }
            }
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// Appends a barrier whenever a request waits for an append, nothing is in flight, and no other append has come in
/// time.
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
            // Wakes up now and then, since the handle may be dropped while no barrier is requested.
            link.confirmations.until_asked(CHECK_INTERVAL).await;
            continue;
        }
        if link.has_no_room_for_barriers() {
            link.confirmations.refuse();
            continue;
        }
        let mut changes = link.confirmations.changes();
        if link.has_in_flight() {
            // The append in flight may be the one that requests wait for.
            let _ = timeout(CHECK_INTERVAL, changes.changed()).await;
            continue;
        }
        if link.room.is_short() && last.elapsed() < CHECK_INTERVAL {
            // The remaining room is for fences, and for commands already decided.
            let _ = timeout(CHECK_INTERVAL - last.elapsed(), changes.changed()).await;
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::stream::fake::{Fake, LOG};
    use crate::stream::message::Records;

    #[test]
    fn a_writer_appending_to_another_history_of_equal_length_ends() {
        for is_replaced in [false, true] {
            let fake = Fake::with_room(64 << 20);
            // Nothing looks by itself.
            let link = JournalHandle::new(fake.connection(), "node", [1; 16]);
            let connection = link.connection();
            let begun = connection.block(link.fence(&fake.tail(), LOG));
            assert_eq!(begun, Ok(true));
            let append = || {
                let content = Content::Batch(Records::of(&[1, 0, 0, 0, 9], 1).unwrap());
                connection.block(link.append(content))
            };
            for _ in 0..3 {
                assert_eq!(append(), Ok(()));
            }
            let mut known = None;
            connection.block(link.check_stored(&mut known));
            assert_eq!(known.as_ref().map(|(sequence, _)| *sequence), Some(4));
            if is_replaced {
                let other = fake.written_on(2, 1);
                assert_eq!(other.len(), fake.kept.lock().messages.len());
                fake.has(&other);
            }
            // It is taken, unless it comes so late that what it follows is compared before.
            let _ = append();
            connection.block(link.check_stored(&mut known));
            let is_noticed = matches!(link.ended(), Some(StreamError::Replaced { .. }));
            assert_eq!(is_noticed, is_replaced, "{:?}", link.ended());
        }
    }

    #[test]
    fn a_writer_whose_stream_lost_its_beginning_says_so_and_goes_on() {
        let fake = Fake::with_room(64 << 20);
        // Nothing looks by itself.
        let link = JournalHandle::new(fake.connection(), "node", [1; 16]);
        let connection = link.connection();
        let begun = connection.block(link.fence(&fake.tail(), LOG));
        assert_eq!(begun, Ok(true));
        let append = || connection.block(link.append(Content::Barrier));
        assert_eq!(append(), Ok(()));
        let mut beginning = StreamBeginning::default();
        for (first, is_lost) in [(1, 0), (2, 1), (1, 0)] {
            fake.kept.lock().first = first;
            connection.block(async {
                let info = link.check_room().await.unwrap();
                link.check_beginning(&mut beginning, &info).await;
            });
            let counted = link.figures().counted();
            assert_eq!(counted.has_lost_beginning, is_lost, "{first}");
            assert_eq!(append(), Ok(()));
        }
    }
}
