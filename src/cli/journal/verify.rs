//! `carebook journal verify`: checks every message and the chain, and compares a directory with the stream.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use wal::{BoxError, Record};

use super::super::exit::Failure;
use super::super::open::count_bar;
use super::super::output::{Output, existing};
use super::args::Common;
use super::opening::checked;
use crate::base::hex::hex;
use crate::stream::chain::Tail;
use crate::stream::connection::Connection;
use crate::stream::error::StreamError;
use crate::stream::extent::{Extent, StreamState};
use crate::stream::listing::{ListedSnapshot, SnapshotList};
use crate::stream::reader::{Reader, Received};
use crate::stream::snapshot_store::read_back;

/// Arguments of `carebook journal verify`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook journal verify --journal nats://a:4222,b:4222,c:4222 \\
      --journal-name main
  carebook journal verify --journal nats://a:4222 --journal-name main \\
      --data /srv/carebook

Reads beside a writer, up to the stream's end when it began, and the snapshots in the servers' \
object store. With --data, the records of that directory, of a stopped server, are compared with \
the stream's, byte by byte.

Exit codes:
  0  every message is as it was written, and follows the previous one
  1  the servers are not reached, an import has not ended, or settings are
     weaker than required: they are named; or the stream is purged again and
     again while it is read
  2  the arguments are wrong
  3  a message or a snapshot is missing, altered, or of something else; or the
     directory has other records
  4  a running server holds the directory
  5  the directory was written by another version of carebook, which is named")]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    common: Common,
    /// A data directory to compare.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Maximum number of readings, repeated because the stream was purged meanwhile.
const ATTEMPTS_MAX: u32 = 10;

/// Numbers of what was read.
#[derive(Default)]
struct Counts {
    messages: u64,
    records: u64,
    fences: u64,
    barriers: u64,
    void: u64,
}

impl VerifyArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Common { place, trust, json } = self.common;
        let connection = place.connect(&trust.config()?)?;
        checked(&connection, place.journal_replicas)?;
        let Whole {
            list,
            first,
            tail,
            counts,
        } = retry_after_purge(|| whole(&connection))
            .map_err(|error| Failure::of_journal(&error))?;
        let snapshots = read(&connection, list, tail.log_id)?;
        let compared = self.data.as_deref();
        let compared = compared
            .map(|data| compare(&connection, data))
            .transpose()?;
        let mut out = Output::new();
        let log = tail.log_id.map(|log| hex(&log)).unwrap_or_default();
        if json {
            let told = json!({
                "stream": connection.names().stream,
                "logId": log,
                "epoch": tail.epoch,
                "messages": counts.messages,
                "records": counts.records,
                "fences": counts.fences,
                "barriers": counts.barriers,
                "void": counts.void,
                "firstPosition": first,
                "lastPosition": tail.next - 1,
                "chain": hex(&tail.digest),
                "snapshots": snapshots,
                "comparedRecords": compared.map(|compared| compared.records),
                "purgedRecords": compared.map(|compared| compared.purged),
            });
            out.line(format_args!("{told:#}"))?;
        } else {
            let mut rows = vec![
                ("log".to_owned(), log),
                ("epoch".to_owned(), tail.epoch.to_string()),
                ("messages".to_owned(), counts.messages.to_string()),
                ("records".to_owned(), counts.records.to_string()),
                ("fences".to_owned(), counts.fences.to_string()),
                ("barriers".to_owned(), counts.barriers.to_string()),
                ("void".to_owned(), counts.void.to_string()),
                ("first position".to_owned(), first.to_string()),
                ("last position".to_owned(), (tail.next - 1).to_string()),
                ("chain".to_owned(), hex(&tail.digest)),
                ("snapshots read".to_owned(), snapshots.to_string()),
            ];
            rows.extend(compared.map(|compared| {
                let name = "records compared with the directory".to_owned();
                (name, compared.records.to_string())
            }));
            rows.extend(
                compared
                    .filter(|compared| compared.purged > 0)
                    .map(|compared| {
                        let name = "not compared, since they were purged".to_owned();
                        (name, compared.purged.to_string())
                    }),
            );
            out.pairs(rows)?;
            out.line("every message is as it was written, and so is every snapshot")?;
        }
        out.flush()
    }
}

/// Calls `work`, which reads the stream; repeats it when messages that it needs were purged meanwhile.
fn retry_after_purge<T>(
    mut work: impl FnMut() -> Result<T, StreamError>,
) -> Result<T, StreamError> {
    for _ in 0..ATTEMPTS_MAX {
        match work() {
            Err(StreamError::Purged { .. }) => {}
            done => return done,
        }
    }
    Err(StreamError::Refused {
        what: "the stream is purged faster than it is read: run the command again".to_owned(),
    })
}

/// The stream, after every message was read.
struct Whole {
    list: SnapshotList,
    /// The first position in the stream.
    first: u64,
    tail: Tail,
    counts: Counts,
}

/// Reads every message, up to the stream's end as it is now.
fn whole(connection: &Arc<Connection>) -> Result<Whole, StreamError> {
    let StreamState { list, extent, .. } = StreamState::read(connection)?;
    let mut counts = Counts::default();
    let bar = count_bar("verifying the journal");
    bar.set_length(extent.last);
    bar.set_position(extent.base.sequence);
    let first = extent.base.next;
    let mut stream = Messages::after(connection, extent.base, extent.last);
    while let Some(received) = stream.next()? {
        counts.messages += 1;
        match (received.records(), &received.fence) {
            _ if received.is_void => counts.void += 1,
            (Some(records), _) => counts.records += u64::from(records.count()),
            (None, Some(_)) => counts.fences += 1,
            (None, None) => counts.barriers += 1,
        }
        bar.set_position(received.sequence);
    }
    bar.finish_and_clear();
    Ok(Whole {
        list,
        first,
        tail: stream.reader.tail().clone(),
        counts,
    })
}

/// Reads each snapshot of the log; returns their number. If others were listed meanwhile, reads those, since older ones
/// are removed.
fn read(
    connection: &Connection,
    mut list: SnapshotList,
    log_id: Option<[u8; 16]>,
) -> Result<usize, Failure> {
    for _ in 1..ATTEMPTS_MAX {
        let read = read_each(connection, &list.snapshots, log_id);
        if read.is_ok() {
            return read;
        }
        let found = StreamState::read(connection).map_err(|error| Failure::of_journal(&error))?;
        if found.list == list {
            return read;
        }
        list = found.list;
    }
    read_each(connection, &list.snapshots, log_id)
}

fn read_each(
    connection: &Connection,
    snapshots: &[ListedSnapshot],
    log_id: Option<[u8; 16]>,
) -> Result<usize, Failure> {
    let of_log = |one: &&ListedSnapshot| Some(one.log_id) == log_id;
    let snapshots: Vec<_> = snapshots.iter().filter(of_log).collect();
    for snapshot in &snapshots {
        let covers = snapshot.carried.covers;
        read_back(connection, snapshot).map_err(|error| match error {
            StreamError::Refused { what } => {
                Failure::JournalDamaged(format!("the snapshot up to position {covers}: {what}"))
            }
            error => Failure::of_journal(&error),
        })?;
    }
    Ok(snapshots.len())
}

/// The messages up to a sequence.
struct Messages {
    reader: Reader,
    upto: u64,
}

impl Messages {
    fn after(connection: &Arc<Connection>, tail: Tail, upto: u64) -> Self {
        Self {
            reader: Reader::after(connection, tail),
            upto,
        }
    }

    fn next(&mut self) -> Result<Option<Received>, StreamError> {
        const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
        let until = Instant::now() + MESSAGE_TIMEOUT;
        let wanted = self.reader.tail().sequence + 1;
        if wanted > self.upto {
            return Ok(None);
        }
        while Instant::now() < until {
            let next = self.reader.next(Duration::from_secs(1))?;
            if next.is_some() {
                return Ok(next);
            }
        }
        let what = format!("message {wanted} does not come");
        Err(StreamError::Unreachable { what })
    }
}

/// The result of a comparison.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Compared {
    /// Number of equal records.
    pub(in crate::cli) records: u64,
    /// Number of records of the directory that were purged from the stream.
    pub(in crate::cli) purged: u64,
}

/// Compares the records of a directory with those of the stream, and counts them.
///
/// # Errors
/// When the directory is damaged or held, has another log, has more records than the stream, or another record at a
/// position.
pub(super) fn compare(connection: &Arc<Connection>, data: &Path) -> Result<Compared, Failure> {
    let of_log = |error| match error {
        wal::Error::Held { .. } => Failure::Busy(error.to_string()),
        other => Failure::of_log(&other),
    };
    let own = wal::verify(existing(data)?, &mut wal::Discard).map_err(of_log)?;
    let extent = StreamState::with(connection, |found| {
        let end = found.extent.end(connection)?;
        let (expected, last) = (own.log_id, own.last_position);
        match end.log_id {
            Some(found) if found != expected => Err(StreamError::Foreign { expected, found }),
            _ if last >= end.next => Err(StreamError::Ahead {
                directory: last,
                journal: end.next - 1,
            }),
            _ => {
                found.extent.is_reached_by(last)?;
                Ok(found.extent.clone())
            }
        }
    });
    let extent = extent.map_err(|error| Failure::of_journal(&error))?;
    let joined = extent.clone();
    let mut comparing = Comparing {
        connection,
        extent,
        stream: None,
        ahead: VecDeque::new(),
        own_id: own.log_id,
        compared: Compared {
            records: 0,
            purged: 0,
        },
    };
    let mut compare = wal::each_record(|record| comparing.compare(record));
    // Includes the records that a snapshot covers.
    wal::records(existing(data)?.as_ref(), &mut compare).map_err(of_log)?;
    let compared = comparing.compared;
    joined
        .has_nothing_before(own.last_position, compared.purged > 0)
        .map_err(|error| Failure::of_journal(&error))?;
    Ok(compared)
}

/// Compares records with those of the stream.
struct Comparing<'a> {
    connection: &'a Arc<Connection>,
    extent: Extent,
    stream: Option<Messages>,
    /// Records of the stream that were read ahead, to be compared next.
    ahead: VecDeque<(u64, Vec<u8>)>,
    own_id: [u8; 16],
    compared: Compared,
}

impl Comparing<'_> {
    /// Returns the stream's record at a position; `None` when it is no longer in the stream.
    fn of_stream(&mut self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        if self.stream.is_none() {
            self.begin_at(position)?;
        }
        match self.next_of_stream(position) {
            // The repetition begins with the remaining messages.
            Err(error @ StreamError::Purged { .. }) => {
                self.stream = None;
                Err(error)
            }
            found => found,
        }
    }

    /// Begins to read at a position, unless the stream no longer has it.
    fn begin_at(&mut self, position: u64) -> Result<(), StreamError> {
        let connection = self.connection;
        let (extent, before) = StreamState::with(connection, |found| {
            let extent = found.extent.clone();
            let before = match position < extent.base.next {
                true => None,
                false => Some(extent.before_position(connection, position)?),
            };
            Ok((extent, before))
        })?;
        self.ahead.clear();
        self.stream = before.map(|before| Messages::after(connection, before, extent.last));
        self.extent = extent;
        Ok(())
    }

    fn next_of_stream(&mut self, position: u64) -> Result<Option<Vec<u8>>, StreamError> {
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        loop {
            while let Some((at, record)) = self.ahead.pop_front() {
                if at == position {
                    return Ok(Some(record));
                }
            }
            let Some(received) = stream.next()? else {
                let journal = stream.reader.tail().next - 1;
                return Err(StreamError::Ahead {
                    directory: position,
                    journal,
                });
            };
            if let Some(log) = stream.reader.tail().log_id
                && log != self.own_id
            {
                return Err(StreamError::Foreign {
                    expected: self.own_id,
                    found: log,
                });
            }
            if let Some(records) = received.records() {
                let records = (received.first..).zip(records.iter());
                self.ahead
                    .extend(records.map(|(at, record)| (at, record.to_vec())));
            }
        }
    }

    fn compare(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        let position = record.position;
        if position < self.extent.base.next {
            self.compared.purged += 1;
            return Ok(());
        }
        match retry_after_purge(|| self.of_stream(position))? {
            None => self.compared.purged += 1,
            Some(found) if found != record.payload => {
                return Err(StreamError::Differs { position }.into());
            }
            Some(_) => self.compared.records += 1,
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn purged() -> StreamError {
        StreamError::Purged {
            end: 5_008,
            first: 7_916,
        }
    }

    #[test]
    fn a_read_overtaken_by_a_purge_restarts_at_the_new_beginning() {
        let mut turns = 0;
        let read = retry_after_purge(|| {
            turns += 1;
            match turns {
                1 | 2 => Err(purged()),
                turn => Ok(turn),
            }
        });
        assert_eq!(read, Ok(3));
    }

    #[test]
    fn repeated_purges_of_a_stream_are_reported_without_naming_a_directory() {
        let read: Result<(), _> = retry_after_purge(|| Err(purged()));
        let error = read.unwrap_err();
        assert!(!error.is_damage());
        let said = error.to_string();
        assert!(said.contains("run the command again"), "{said}");
        assert!(!said.contains("directory"), "{said}");
    }

    #[test]
    fn other_stream_errors_are_returned_at_once() {
        let mut turns = 0;
        let read: Result<(), _> = retry_after_purge(|| {
            turns += 1;
            Err(StreamError::Stopped)
        });
        assert_eq!((read, turns), (Err(StreamError::Stopped), 1));
    }
}
