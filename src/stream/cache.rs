//! The directory as a copy of the stream: it is compared with the stream before anything is changed, and then filled
//! up.
//!
//! The directory is written after each acknowledgement, so every record in it is also in the stream. If one is not, the
//! stream has lost acknowledged records.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wal::storage::Storage;
use wal::{
    Ancestor, BoxError, Error, Identity, Log, Options, Record, Report, SnapshotInfo, Visitor,
};

use super::bootstrap::begin_with_snapshot;
use super::connection::Connection;
use super::error::StreamError;
use super::extent::{Extent, StreamState};
use super::handle::JournalHandle;
use super::message::{Content, Message};
use super::reader::{Reader, Received};
use super::settings::ancestors;
use super::visitor::StreamVisitor;

/// How long to wait for a message that the servers say they have.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of attempts to begin an epoch, repeated because another process appended meanwhile.
const FENCES_MAX: usize = 20;

/// Compares the content of a directory with the stream.
struct Compared<'a, V> {
    visitor: &'a mut V,
    connection: &'a Connection,
    /// The stream's log; `None` where it has no message.
    log_id: Option<[u8; 16]>,
    own_id: [u8; 16],
    /// The ancestors of the stream's log.
    ancestors: Vec<Ancestor>,
    last: u64,
    /// The record at the last position, if it was shown as a record.
    last_record: Option<Vec<u8>>,
    refusal: Option<StreamError>,
}

impl<V: Visitor> Compared<'_, V> {
    /// Checks, after everything was shown, that the directory belongs to the stream.
    fn judge(&self, extent: &Extent) -> Result<(), StreamError> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let journal = extent.end(self.connection)?.next - 1;
        if extent.last == 0 && self.last == 0 {
            let stream = self.connection.names().stream.clone();
            return Err(StreamError::Empty { stream });
        }
        if self.last > journal {
            return Err(StreamError::Ahead {
                directory: self.last,
                journal,
            });
        }
        extent.is_reached_by(self.last)?;
        extent.has_nothing_before(self.last, self.last_record.is_some())?;
        let has_last = self.last >= extent.base.next;
        let Some(record) = self.last_record.as_ref().filter(|_| has_last) else {
            return Ok(());
        };
        has_record(self.connection, extent, self.last, record)
    }
}

/// Whether the stream has this record at a position.
fn has_record(
    connection: &Connection,
    extent: &Extent,
    position: u64,
    record: &[u8],
) -> Result<(), StreamError> {
    let before = extent.before_position(connection, position)?;
    let sequence = before.sequence + 1;
    let bytes = connection.message_within(sequence)?;
    let message = Message::read(&bytes).map_err(|malformed| StreamError::Broken {
        sequence,
        what: malformed.to_string(),
    })?;
    let differs = StreamError::Differs { position };
    let Content::Batch(records) = message.content else {
        return Err(differs);
    };
    let at = position.checked_sub(message.first);
    let at = at.and_then(|at| usize::try_from(at).ok());
    let found = at.and_then(|at| records.iter().nth(at));
    match found == Some(record) {
        true => Ok(()),
        false => Err(differs),
    }
}

impl<V: Visitor> Visitor for Compared<'_, V> {
    fn identity(&mut self, identity: &Identity) {
        self.own_id = identity.log_id;
        if let Some(found) = self.log_id.filter(|found| *found != identity.log_id) {
            self.refusal = Some(StreamError::Foreign {
                expected: identity.log_id,
                found,
            });
        } else if identity.ancestors != self.ancestors {
            self.refusal = Some(StreamError::Refused {
                what: format!(
                    "the directory and the stream {} list different ancestors: the stream's metadata were changed, or \
                     it is no import of this directory. Nothing was changed",
                    self.connection.names().stream
                ),
            });
        }
        self.visitor.identity(identity);
    }

    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone().into());
        }
        self.last = record.position;
        let last = self.last_record.get_or_insert_default();
        last.clear();
        last.extend_from_slice(record.payload);
        self.visitor.record(record)
    }

    fn snapshot(&mut self, info: &SnapshotInfo) -> Result<(), BoxError> {
        self.last = info.covers;
        self.last_record = None;
        self.visitor.snapshot(info)
    }

    fn takes_notes(&self) -> bool {
        self.visitor.takes_notes()
    }

    fn noted(&mut self, position: u64, note: &[u8]) -> Result<(), BoxError> {
        self.visitor.noted(position, note)
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.visitor.kept(record)
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        self.visitor.entry(entry)
    }

    fn snapshot_shown(&mut self) -> Result<(), BoxError> {
        self.visitor.snapshot_shown()
    }

    fn reset(&mut self) {
        (self.last, self.last_record) = (0, None);
        self.visitor.reset();
    }

    /// The inner visitor's `end` is called when the directory is filled up.
    fn end(&mut self) -> Result<(), BoxError> {
        Ok(StreamState::with(self.connection, |found| {
            self.judge(&found.extent)
        })?)
    }

    fn progress_of_snapshot(&mut self, done: u64, total: u64) {
        self.visitor.progress_of_snapshot(done, total);
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.visitor.progress(done, total);
    }
}

/// A directory that was filled up from the stream, and the reader that continues.
pub struct Opened {
    /// The log in the directory.
    pub log: Log,
    /// The report of the recovery.
    pub report: Report,
    /// The log's id.
    pub log_id: [u8; 16],
    /// Reads the next messages.
    pub reader: Reader,
}

fn refused(position: u64) -> impl Fn(BoxError) -> Error {
    move |source| Error::Visitor { position, source }
}

/// The mark of a directory that is the copy of the stream.
pub trait Mark {
    /// Whether the directory has the mark of this stream.
    fn is_there(&self) -> bool;

    /// Marks the directory.
    fn put(&self);
}

/// Returns a check that the disk has room for a whole segment beside the reserve.
fn room_for_a_segment(storage: &Arc<dyn Storage>, options: &Options) -> impl Fn() -> bool + use<> {
    let needed = options
        .reserve_bytes
        .saturating_add(options.segment_bytes_max);
    let disk = Arc::clone(storage);
    move || disk.free_bytes().unwrap_or(u64::MAX) >= needed
}

/// Opens the directory as the copy of the stream: compares them, and adds the missing records, as far as the disk has
/// room; a follower waits for more. The visitor is shown everything, but its `end` is not called. The directory is
/// marked after the comparison, before it gets any record of the stream.
///
/// # Errors
/// Those of [`Log::open`]; [`Error::Visitor`] with a [`StreamError`] when directory and stream do not belong together,
/// or the stream is not complete: then nothing was changed in the directory except for records that were added from the
/// stream.
pub fn open<V: StreamVisitor>(
    storage: Arc<dyn Storage>,
    options: Options,
    connection: &Arc<Connection>,
    visitor: &mut V,
    mark: &dyn Mark,
) -> Result<Opened, Error> {
    let of_stream = |error: StreamError| refused(0)(error.into());
    let found = StreamState::read(connection).map_err(of_stream)?;
    let log_id = found.extent.end(connection).map_err(of_stream)?.log_id;
    let ancestors = ancestors(&found.info.config).ok_or_else(|| {
        let what = "the list of ancestors in the stream's metadata cannot be read";
        of_stream(StreamError::Refused {
            what: what.to_owned(),
        })
    })?;
    if let Some(log_id) = log_id.filter(|_| options.create) {
        let identity = Identity {
            log_id,
            ancestors: ancestors.clone(),
        };
        begin_with_snapshot(&storage, connection, &found, &identity, visitor, &|| {
            mark.put()
        })?;
    }
    let mut compared = Compared {
        visitor,
        connection,
        log_id,
        own_id: [0; 16],
        ancestors: ancestors.clone(),
        last: 0,
        last_record: None,
        refusal: None,
    };
    let options = Options {
        log_id,
        ancestors,
        // A new directory gets the id of the log in the stream.
        create: options.create && log_id.is_some(),
        ..options
    };
    let has_room = room_for_a_segment(&storage, &options);
    let opened = Log::open(storage, options, &mut compared);
    let (mut log, report) = opened.map_err(|error| match error {
        Error::NoLog { .. } if log_id.is_none() => {
            let stream = connection.names().stream.clone();
            of_stream(StreamError::Empty { stream })
        }
        error => error,
    })?;
    let (own_id, is_covered) = (compared.own_id, compared.last_record.is_none());
    let last = log.last_position();
    // Records that a snapshot covers were not shown.
    let covered = match is_covered && last > 0 {
        true => record_at(&log, last)?,
        false => None,
    };
    let begun = StreamState::with(connection, |found| {
        is_known_to_belong(&found.extent, last, covered.is_some(), mark)?;
        if let Some(record) = covered.as_ref().filter(|_| last >= found.extent.base.next) {
            has_record(connection, &found.extent, last, record)?;
        }
        let before = found.extent.before_position(connection, last + 1)?;
        Ok((before, found.extent.last))
    });
    let (before, upto) = begun.map_err(of_stream)?;
    mark.put();
    let mut reader = Reader::after(connection, before);
    fill_up(&mut log, &mut reader, upto, visitor, &has_room)?;
    Ok(Opened {
        log,
        report,
        log_id: own_id,
        reader,
    })
}

/// Whether a directory that ends before the stream's first position is known to belong to the stream: it has no record
/// of its own there, and the mark shows that it was not written on alone.
fn is_known_to_belong(
    extent: &Extent,
    last: u64,
    has_record: bool,
    mark: &dyn Mark,
) -> Result<(), StreamError> {
    extent.has_nothing_before(last, has_record)?;
    let first = extent.base.next;
    match last > 0 && last < first && !mark.is_there() {
        true => Err(StreamError::Purged { end: last, first }),
        false => Ok(()),
    }
}

/// Returns the record at this position; `None` if it comes before the snapshot with which the log began: that snapshot
/// was compared.
fn record_at(log: &Log, position: u64) -> Result<Option<Vec<u8>>, Error> {
    let mut found = None;
    let shown = log.records(position, position, &mut |record| {
        found = Some(record.payload.to_vec());
        Ok(ControlFlow::Continue(()))
    });
    match shown {
        Ok(_) | Err(Error::Gone { .. }) => Ok(found),
        Err(error) => Err(error),
    }
}

/// Adds messages to the directory, up to a sequence, as long as there is room.
///
/// # Errors
/// When a message is not the expected one, is refused by the visitor, or cannot be written.
pub fn fill_up<V: StreamVisitor>(
    log: &mut Log,
    reader: &mut Reader,
    upto: u64,
    visitor: &mut V,
    has_room: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let from = reader.tail().sequence;
    while reader.tail().sequence < upto {
        if !has_room() {
            let sequence = reader.tail().sequence;
            tracing::warn!(
                sequence,
                upto,
                "the disk has no room for all records of the stream"
            );
            break;
        }
        let position = log.last_position() + 1;
        let until = Instant::now() + MESSAGE_TIMEOUT;
        let received = loop {
            let next = reader.next(Duration::from_secs(1));
            match next.map_err(|error| refused(position)(error.into()))? {
                Some(received) => break received,
                None if Instant::now() < until => {}
                None => {
                    let what = format!("message {} does not come", reader.tail().sequence + 1);
                    return Err(refused(position)(StreamError::Unreachable { what }.into()));
                }
            }
        };
        take(log, &received, visitor)?;
        visitor.filling_up(received.sequence - from, upto - from);
    }
    Ok(())
}

/// Adds the records of a message that the directory does not have yet.
fn take<V: StreamVisitor>(
    log: &mut Log,
    received: &Received,
    visitor: &mut V,
) -> Result<(), Error> {
    let Some(records) = received.records() else {
        return Ok(());
    };
    let mut lacking = Vec::new();
    for (position, record) in (received.first..).zip(records.iter()) {
        if position <= log.last_position() {
            continue;
        }
        let shown = visitor.record(Record {
            position,
            payload: record,
        });
        shown.map_err(refused(position))?;
        lacking.push(record.to_vec());
    }
    if !lacking.is_empty() {
        log.append(&lacking)?;
    }
    Ok(())
}

/// Makes this process the writer: reads to the end and begins the next epoch there; repeats both if others append
/// meanwhile. The visitor's `end` is called once no other process can append.
///
/// # Errors
/// As [`fill_up`], and those of the fence; [`StreamError::Fenced`] when others keep appending.
pub fn begin_to_write<V: StreamVisitor>(
    opened: &mut Opened,
    link: &JournalHandle,
    visitor: &mut V,
) -> Result<(), Error> {
    for _ in 0..FENCES_MAX {
        let of_stream = |error: StreamError| refused(0)(error.into());
        let connection = link.connection();
        let info = connection.block(connection.info()).map_err(of_stream)?;
        // A writer needs all records, and may use the reserve for them.
        let (log, reader) = (&mut opened.log, &mut opened.reader);
        fill_up(log, reader, info.last, visitor, &|| true)?;
        let fenced = link.fence(opened.reader.tail(), opened.log_id);
        if connection.block(fenced).map_err(of_stream)? {
            let position = opened.log.last_position();
            return visitor.end().map_err(refused(position));
        }
    }
    Err(refused(0)(StreamError::Fenced { by: None }.into()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::stream::chain::Tail;
    use crate::stream::extent::tail_at;
    use crate::stream::fake::{Fake, LOG};
    use crate::stream::maintenance::hold;

    /// What comes of a directory of the log that ends with this record.
    fn judged(
        connection: &Connection,
        extent: &Extent,
        last: u64,
        last_record: Option<&[u8]>,
    ) -> Result<(), StreamError> {
        let compared = Compared {
            visitor: &mut wal::Discard,
            connection,
            log_id: Some(LOG),
            own_id: LOG,
            ancestors: Vec::new(),
            last,
            last_record: last_record.map(<[u8]>::to_vec),
            refusal: None,
        };
        compared.judge(extent)
    }

    struct Unseen;

    impl Visitor for Unseen {
        fn record(&mut self, _: Record<'_>) -> Result<(), BoxError> {
            panic!("nothing is taken")
        }
    }

    impl StreamVisitor for Unseen {
        fn filling_up(&mut self, _: u64, _: u64) {}
    }

    #[test]
    fn records_beyond_a_full_disk_stay_in_the_stream_and_start_succeeds() {
        let fake = Fake::with_room(64 << 20);
        drop(fake.written(1, 3));
        let directory = tempfile::tempdir().unwrap();
        let storage = wal::open_dir(directory.path()).unwrap();
        let (mut log, _) = Log::open(storage, Options::default(), &mut wal::Discard).unwrap();
        let mut reader = Reader::after(&fake.connection(), Tail::beginning());
        let filled = fill_up(&mut log, &mut reader, 4, &mut Unseen, &|| false);
        assert!(filled.is_ok(), "{filled:?}");
        assert_eq!(log.last_position(), 0);
        assert_eq!(*reader.tail(), Tail::beginning(), "it is read later");
    }

    #[test]
    fn there_is_room_where_the_largest_segment_fits_beside_the_reserve() {
        let directory = tempfile::tempdir().unwrap();
        let storage = wal::open_dir(directory.path()).unwrap();
        let free = storage.free_bytes().unwrap();
        let has_room = |reserve_bytes: u64, segment_bytes_max: u64| {
            let options = Options {
                reserve_bytes,
                segment_bytes_max,
                ..Options::default()
            };
            room_for_a_segment(&storage, &options)()
        };
        assert!(has_room(0, 1));
        // What others write meanwhile is less than that.
        assert!(!has_room(free, free / 2) && !has_room(free / 2, free));
        assert!(!has_room(u64::MAX, 1));
    }

    #[test]
    fn a_directory_that_ends_right_before_an_imported_stream_lacks_nothing() {
        let fake = Fake::with_room(64 << 20);
        let link = hold(fake.connection(), "node", [1; 16]);
        let base = Tail {
            log_id: Some(LOG),
            next: 137,
            ..Tail::beginning()
        };
        assert_eq!(link.connection().block(link.fence(&base, LOG)), Ok(true));
        let extent = Extent { base, last: 1 };
        let connection = fake.connection();
        // Its last position is covered by a snapshot.
        assert_eq!(judged(&connection, &extent, 136, None), Ok(()));
        // A record that the stream never had may be that of another history.
        for (end, record) in [(135, None), (136, Some(&[9][..]))] {
            let first = 137;
            assert_eq!(
                judged(&connection, &extent, end, record),
                Err(StreamError::Purged { end, first })
            );
        }
    }

    #[test]
    fn a_directory_ending_right_before_the_first_kept_record_is_unmatched() {
        let fake = Fake::with_room(64 << 20);
        drop(fake.written(1, 3));
        let connection = fake.connection();
        // The fence, and the records at positions 1 and 2, are purged.
        let base = tail_at(&connection, &Tail::beginning(), 3).unwrap();
        let extent = Extent { base, last: 4 };
        assert_eq!(
            judged(&connection, &extent, 2, Some(&[1])),
            Err(StreamError::Purged { end: 2, first: 3 })
        );
        assert_eq!(judged(&connection, &extent, 3, Some(&[2])), Ok(()));
        assert_eq!(
            judged(&connection, &extent, 3, Some(&[9])),
            Err(StreamError::Differs { position: 3 })
        );
    }
}
