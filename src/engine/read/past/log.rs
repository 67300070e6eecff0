//! The log's records, for looks at the past.

use std::time::Duration;

use crate::journal::past::{Lost, Records};

/// How long the log's thread may take until what was committed is durable.
const DURABLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The log's records.
pub(super) struct LogRecords<'a>(pub(super) &'a wal::Appender);

impl Records for LogRecords<'_> {
    fn first(&self) -> u64 {
        self.0.first()
    }

    fn read(&self, position: u64) -> Result<Vec<u8>, Lost> {
        let asked = std::time::Instant::now();
        // What the tables contain may not be durable yet.
        while self.0.durable() < position {
            if asked.elapsed() > DURABLE_TIMEOUT {
                return Err(Lost::Unavailable);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let read = self.0.read(position);
        // What a snapshot keeps of a record does not say what it changed.
        if position < self.0.first() {
            return Err(Lost::Gone);
        }
        match read {
            Ok(Some(payload)) => Ok(payload),
            Ok(None) => Err(Lost::Unavailable),
            Err(error) => {
                tracing::error!(%error, position, "a record cannot be read for a history");
                Err(Lost::Unavailable)
            }
        }
    }
}
