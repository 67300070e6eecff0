//! Checks, while a process runs, that the stream begins where the list beside it says.
//!
//! If somebody else removes messages from the stream's beginning, processes that have read them do not notice, but no
//! process can start on such a stream.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::connection::{Connection, StreamInfo};
use super::error::StreamError;
use super::extent::{STALE_ANSWER_MAX, has_copies};
use super::listing::read_list;

/// Timeout for the list.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// State of that check.
#[derive(Debug, Default)]
pub struct StreamBeginning {
    /// Sequence of the first message that the list, when last read, did not name as purged.
    listed: u64,
    /// Since when the stream begins after that message.
    missing: Option<Instant>,
}

impl StreamBeginning {
    /// Restarts the check after a time in which the servers were not reached.
    pub fn interrupt(&mut self) {
        self.missing = None;
    }

    /// Checks, against stream information just received, that the stream has all messages of this log that are not
    /// listed as purged. Reads the list only if more messages are missing than it named. A purge is listed before it is
    /// done.
    ///
    /// # Errors
    /// [`StreamError::Gap`] when messages are missing, and the answer cannot be stale.
    pub async fn check(
        &mut self,
        connection: &Connection,
        info: &StreamInfo,
        log_id: Option<[u8; 16]>,
    ) -> Result<(), StreamError> {
        if info.first <= self.listed.max(1) {
            self.missing = None;
            return Ok(());
        }
        let Ok(Ok(list)) = timeout(LIST_TIMEOUT, read_list(connection)).await else {
            self.missing = None;
            return Ok(());
        };
        // Entries of another log's id belong to an earlier stream.
        let is_ours = |its: Option<[u8; 16]>| log_id.is_none() || its == log_id;
        let purged = list.purged.filter(|end| is_ours(end.log_id));
        self.listed = purged.map_or(0, |end| end.sequence) + 1;
        if info.first <= self.listed {
            self.missing = None;
            return Ok(());
        }
        let since = *self.missing.get_or_insert_with(Instant::now);
        match has_copies(info) && since.elapsed() < STALE_ANSWER_MAX {
            true => Ok(()),
            false => Err(StreamError::Gap {
                missing: self.listed,
                sequence: info.first,
            }),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stream::extent::tail_at;
    use crate::stream::fake::{Fake, LOG};
    use crate::stream::listing::{SnapshotList, write_list};

    #[test]
    fn missing_first_messages_are_a_gap_unless_they_are_listed_as_purged() {
        let fake = Fake::with_room(64 << 20);
        drop(fake.written(1, 4));
        let connection = fake.connection();
        let end = tail_at(&connection, &fake.tail(), 3).unwrap();
        let mut beginning = StreamBeginning::default();
        let mut check = |first: u64, replicas: u64, log_id: [u8; 16]| {
            fake.kept.lock().first = first;
            let mut info = connection.block(connection.info_now()).unwrap();
            info.config["num_replicas"] = json!(replicas);
            connection.block(beginning.check(&connection, &info, Some(log_id)))
        };
        let gap = |missing: u64, sequence: u64| -> Result<(), StreamError> {
            Err(StreamError::Gap { missing, sequence })
        };
        assert_eq!(check(1, 1, LOG), Ok(()));
        assert_eq!(check(4, 1, LOG), gap(1, 4));
        // Where there are several copies, who says so may be behind.
        assert_eq!(check(1, 3, LOG), Ok(()));
        assert_eq!(check(4, 3, LOG), Ok(()));
        let mut list = SnapshotList {
            purged: Some(end),
            ..SnapshotList::default()
        };
        assert_eq!(connection.block(write_list(&connection, &mut list)), Ok(()));
        assert_eq!(check(4, 1, [8; 16]), gap(1, 4));
        assert_eq!(check(4, 1, LOG), Ok(()));
        assert_eq!(check(5, 1, LOG), gap(4, 5));
    }
}
