//! `carebook journal create --from DIR`: imports the log of a directory into a new stream.
//!
//! The stream is marked until it is complete and was compared. Until then no server starts on it, so an interrupted
//! import is never mistaken for a service's whole history. The same command continues it.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use wal::{BoxError, Record, Report};

use super::super::exit::Failure;
use super::super::open::count_bar;
use super::super::output::existing;
use super::opening::BATCH_BYTES_MAX;
use super::verify::compare;
use crate::stream::chain::Tail;
use crate::stream::connection::{Connection, StreamInfo};
use crate::stream::error::StreamError;
use crate::stream::extent::StreamState;
use crate::stream::handle::JournalHandle;
use crate::stream::maintenance::hold;
use crate::stream::message::{Content, RECORD_FORM_BYTES, Records};
use crate::stream::settings::{ancestors, going_on_from, imported, importing, is_importing};
use crate::stream::{purge, snapshot_store};

/// The node name of the epoch that an import begins.
const NODE: &str = "carebook journal create --from";

fn of_journal(error: StreamError) -> Failure {
    Failure::of_journal(&error)
}

fn of_log(error: &wal::Error) -> Failure {
    match error {
        wal::Error::Held { .. } => Failure::Busy(error.to_string()),
        wal::Error::Visitor { source, .. } => match source.downcast_ref::<StreamError>() {
            Some(error) => Failure::of_journal(error),
            None => Failure::of_log(error),
        },
        other => Failure::of_log(other),
    }
}

/// The result of an import: the stream has all records of the directory.
pub(super) struct Imported {
    /// Number of records that were imported.
    pub(super) records: u64,
    /// Number of records that the stream had already.
    pub(super) before: u64,
}

/// Imports all records of a directory into the stream, which has these settings.
///
/// # Errors
/// When the directory is held, damaged, or has a record that does not fit into a message; when the stream has other
/// records; when the servers are not reached.
pub(super) fn import(
    connection: &Arc<Connection>,
    config: &Value,
    data: &Path,
) -> Result<Imported, Failure> {
    let report = expect_importable(data)?;
    let config = &going_on_from(config, &report.ancestors);
    let marked = importing(config);
    let made = connection.block(connection.create(&marked));
    let info = connection.block(connection.info());
    let mut info = info.map_err(|error| of_journal(made.err().unwrap_or(error)))?;
    if !is_importing(&info.config) {
        // It was there before.
        if info.last > 0 {
            let before = compare_imported(connection, data, &report)?;
            return Ok(Imported { records: 0, before });
        }
        let marked = importing(&going_on_from(&info.config, &report.ancestors));
        let marked = connection.block(connection.update(&marked));
        marked.map_err(of_journal)?;
        info = connection.block(connection.info()).map_err(of_journal)?;
    }
    let replicas = info.config["num_replicas"].as_u64().unwrap_or(1);
    let replicas = usize::try_from(replicas).unwrap_or(usize::MAX);
    let base = base_of(&report);
    if info.last == 0 {
        let (log_id, upto) = (report.log_id, report.last_position);
        let begun = purge::begin_at(connection, &base, log_id, upto, replicas);
        begun.map_err(of_journal)?;
    }
    let link = fenced(connection, &info, base, &report)?;
    append(connection, &link, data, &report)?;
    // Earlier commits are only in the snapshot.
    let storage = existing(data)?;
    let put = snapshot_store::put(
        &link,
        storage.as_ref(),
        replicas,
        &mut snapshot_store::Parts::new(),
        &|| false,
    );
    let put = put.map_err(of_journal)?;
    // If an earlier import has put it there, it is read back.
    let read = put
        .snapshots
        .first()
        .map(|one| snapshot_store::read_back(connection, one));
    read.transpose().map_err(of_journal)?;
    let count = compare(connection, data)?.records;
    let found = StreamState::read(connection).map_err(of_journal)?;
    let end = found.extent.end(connection).map_err(of_journal)?;
    let is_all = count == report.last_position + 1 - report.first_position
        && end.next == report.last_position + 1
        && found.extent.base.next == report.first_position
        && put.covers() + 1 >= report.first_position;
    if !is_all || end.epoch != link.figures().counted().epoch {
        return Err(Failure::other(format!(
            "the directory or the stream was changed meanwhile: {count} records were compared, the \
             directory had positions {} to {}, and the stream ends at position {}; see that nothing \
             else uses them, and import again",
            report.first_position,
            report.last_position,
            end.next - 1
        )));
    }
    let config = imported(&found.info.config);
    let unmarked = connection.block(connection.update(&config));
    unmarked.map_err(of_journal)?;
    Ok(Imported {
        records: count,
        before: 0,
    })
}

/// Compares the directory with a stream into which no import is in progress, as at the end of an import: an operator
/// who did not see that end runs the command again. Returns the number of records.
///
/// # Errors
/// When the stream lacks records, has more, or has another record at a position.
fn compare_imported(
    connection: &Arc<Connection>,
    data: &Path,
    report: &Report,
) -> Result<u64, Failure> {
    let read = StreamState::with(connection, |found| {
        Ok((found.clone(), found.extent.end(connection)?))
    });
    let (found, end) = match read {
        // It may never have been a journal.
        Err(error) if error.is_damage() => return Err(not_empty(connection)),
        read => read.map_err(of_journal)?,
    };
    let snapshots = found.list.snapshots.iter();
    let covers = snapshots
        .filter(|one| one.log_id == report.log_id)
        .map(|one| one.carried.covers);
    let is_same = end.log_id == Some(report.log_id)
        && end.next == report.last_position + 1
        && covers.max().unwrap_or(0) + 1 >= found.extent.base.next
        && ancestors(&found.info.config).as_ref() == Some(&report.ancestors);
    let expected = report.last_position + 1 - report.first_position;
    // Purged records cannot be compared.
    if !is_same || compare(connection, data)?.records != expected {
        return Err(not_empty(connection));
    }
    Ok(expected)
}

fn not_empty(connection: &Connection) -> Failure {
    Failure::other(format!(
        "the stream {} is not empty, and no import into it was interrupted: name another journal",
        connection.names().stream
    ))
}

/// Checks that every record of the directory fits into a message of the stream.
fn expect_importable(data: &Path) -> Result<Report, Failure> {
    let mut longest = Longest::default();
    let mut measure = wal::each_record(|record| {
        longest.measure(record);
        Ok(())
    });
    let report = wal::verify(existing(data)?, &mut measure).map_err(|error| of_log(&error))?;
    // The records that the newest snapshot covers were not shown.
    wal::records(existing(data)?.as_ref(), &mut measure).map_err(|error| of_log(&error))?;
    let most = BATCH_BYTES_MAX - RECORD_FORM_BYTES;
    if longest.bytes > most {
        return Err(Failure::other(format!(
            "the record at position {} has {} bytes, and a message of the stream at most {most}: the \
             directory cannot be imported",
            longest.position, longest.bytes
        )));
    }
    Ok(report)
}

/// Returns the end before the first message of a stream that gets this directory's records.
fn base_of(report: &Report) -> Tail {
    match report.first_position {
        1 => Tail::beginning(),
        next => Tail {
            log_id: Some(report.log_id),
            next,
            ..Tail::beginning()
        },
    }
}

/// Begins an epoch at the end of the stream, which is empty or has records of the directory.
fn fenced(
    connection: &Arc<Connection>,
    info: &StreamInfo,
    base: Tail,
    report: &Report,
) -> Result<Arc<JournalHandle>, Failure> {
    let tail = match info.last {
        0 => base,
        _ => {
            let found = StreamState::read(connection).map_err(of_journal)?;
            found.extent.end(connection).map_err(of_journal)?
        }
    };
    if let Some(found) = tail.log_id.filter(|id| *id != report.log_id) {
        let expected = report.log_id;
        return Err(of_journal(StreamError::Foreign { expected, found }));
    }
    let link = hold(
        Arc::clone(connection),
        NODE,
        uuid::Uuid::new_v4().into_bytes(),
    );
    let begun = connection.block(link.fence(&tail, report.log_id));
    match begun.map_err(of_journal)? {
        true => {
            // A full stream is reported, not waited for.
            link.drain();
            Ok(link)
        }
        false => Err(Failure::other(
            "another import into this stream is in progress".to_owned(),
        )),
    }
}

/// Appends the records that the stream does not have yet.
fn append(
    connection: &Connection,
    link: &JournalHandle,
    data: &Path,
    report: &Report,
) -> Result<(), Failure> {
    let bar = count_bar("importing");
    bar.set_length(report.last_position);
    let mut appending = Appending {
        connection,
        link,
        bytes_max: BATCH_BYTES_MAX,
        next: link.next_position().map_err(of_journal)?,
        bytes: Vec::new(),
        count: 0,
        bar: &bar,
    };
    let mut add = wal::each_record(|record| appending.add(record));
    wal::records(existing(data)?.as_ref(), &mut add).map_err(|error| of_log(&error))?;
    appending.flush().map_err(of_journal)?;
    bar.finish_and_clear();
    connection
        .block(link.until_acknowledged())
        .map_err(of_journal)
}

/// Gathers records into messages.
struct Appending<'a> {
    connection: &'a Connection,
    link: &'a JournalHandle,
    bytes_max: usize,
    /// The position that the stream needs next.
    next: u64,
    bytes: Vec<u8>,
    count: u32,
    bar: &'a indicatif::ProgressBar,
}

impl Appending<'_> {
    fn flush(&mut self) -> Result<(), StreamError> {
        let Some(records) = Records::of(&self.bytes, self.count) else {
            return Ok(());
        };
        let begun = self.link.begin_in_turn(Content::Batch(records));
        self.connection.block(begun)?;
        self.bytes.clear();
        self.count = 0;
        self.bar.set_position(self.next - 1);
        Ok(())
    }

    fn add(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        if record.position < self.next {
            return Ok(());
        }
        if record.position > self.next {
            let what = format!(
                "the stream needs position {} next, and the directory no longer has it: it was compacted since the \
                import began. Import into a journal of another name",
                self.next
            );
            return Err(StreamError::Refused { what }.into());
        }
        let needed = RECORD_FORM_BYTES + record.payload.len();
        if self.bytes.len() + needed > self.bytes_max {
            self.flush()?;
        }
        let length = u32::try_from(record.payload.len())?;
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend_from_slice(record.payload);
        self.count += 1;
        self.next = record.position + 1;
        Ok(())
    }
}

/// The longest record.
#[derive(Default)]
struct Longest {
    position: u64,
    bytes: usize,
}

impl Longest {
    fn measure(&mut self, record: Record<'_>) {
        if record.payload.len() > self.bytes {
            (self.position, self.bytes) = (record.position, record.payload.len());
        }
    }
}
