//! `carebook journal verify`: every message, and the chain; and against a directory.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use wal::{BoxError, Record, SnapshotInfo, Visitor};

use super::super::exit::Failure;
use super::super::open::count_bar;
use super::super::output::{Output, existing};
use super::args::Common;
use super::opening::checked;
use crate::base::digest::hex;
use crate::stream::chain::Tail;
use crate::stream::connection::Connection;
use crate::stream::error::StreamError;
use crate::stream::reader::{Reader, before_position};

/// Arguments of `carebook journal verify`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook journal verify --journal nats://a:4222,b:4222,c:4222 --journal-name main
  carebook journal verify --journal nats://a:4222 --journal-name main --data /srv/carebook

Reads beside a writer, up to what was there when it began. With --data, the records of that
directory, of a server that does not run, are compared with the stream's, byte by byte.

Exit codes:
  0  every message is as it was written, and follows the one before
  1  the servers are not reached, or settings are weaker: they are named
  2  the arguments are wrong
  3  a message is missing, altered, or of something else; or the directory has other records
  4  a running server holds the directory")]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    common: Common,
    /// A data directory to compare.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// What was read.
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
        let info = checked(&connection, place.journal_replicas)?;
        if info.first > 1 {
            return Err(Failure::of_journal(&StreamError::Gap {
                missing: 1,
                sequence: info.first,
            }));
        }
        let mut counts = Counts::default();
        let bar = count_bar("verifying the journal");
        bar.set_length(info.last);
        let mut stream = Messages::after(&connection, Tail::beginning(), info.last);
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
        let tail = stream.reader.tail().clone();
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
                "lastPosition": tail.next - 1,
                "chain": hex(&tail.digest),
                "comparedRecords": compared,
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
                ("last position".to_owned(), (tail.next - 1).to_string()),
                ("chain".to_owned(), hex(&tail.digest)),
            ];
            rows.extend(compared.map(|count| {
                let name = "records compared with the directory".to_owned();
                (name, count.to_string())
            }));
            out.pairs(rows)?;
            out.line("every message is as it was written")?;
        }
        out.flush()
    }
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

    fn next(&mut self) -> Result<Option<crate::stream::reader::Received>, Failure> {
        const WITHIN: Duration = Duration::from_secs(30);
        let until = Instant::now() + WITHIN;
        let wanted = self.reader.tail().sequence + 1;
        if wanted > self.upto {
            return Ok(None);
        }
        while Instant::now() < until {
            let next = self.reader.next(Duration::from_secs(1));
            let next = next.map_err(|error| Failure::of_journal(&error))?;
            if next.is_some() {
                return Ok(next);
            }
        }
        let what = format!("message {wanted} does not come");
        Err(Failure::of_journal(&StreamError::Unreachable { what }))
    }
}

/// Compares the records of a directory with those of the stream; returns how many there are.
///
/// # Errors
/// When the directory is damaged or held, is another log's, has more than the stream, or another
/// record.
pub(super) fn compare(connection: &Arc<Connection>, data: &Path) -> Result<u64, Failure> {
    let of_log = |error| match error {
        wal::Error::Held { .. } => Failure::Busy(error.to_string()),
        other => Failure::of_log(&other),
    };
    let found = wal::verify(existing(data)?, &mut wal::Discard).map_err(of_log)?;
    let info = connection.block(connection.info());
    let info = info.map_err(|error| Failure::of_journal(&error))?;
    let mut comparing = Comparing {
        connection,
        first: info.first,
        last: info.last,
        stream: None,
        ahead: VecDeque::new(),
        own_id: found.log_id,
        count: 0,
    };
    // Those, too, that a snapshot covers.
    wal::records(existing(data)?.as_ref(), &mut comparing).map_err(of_log)?;
    Ok(comparing.count)
}

/// Compares each record with the stream's.
struct Comparing<'a> {
    connection: &'a Arc<Connection>,
    first: u64,
    last: u64,
    stream: Option<Messages>,
    /// Records of the stream that the directory has next.
    ahead: VecDeque<(u64, Vec<u8>)>,
    own_id: [u8; 16],
    count: u64,
}

impl Comparing<'_> {
    fn of_stream(&mut self, position: u64) -> Result<Vec<u8>, StreamError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let before = before_position(self.connection, position, self.first, self.last)?;
                none.insert(Messages::after(self.connection, before, self.last))
            }
        };
        loop {
            while let Some((at, record)) = self.ahead.pop_front() {
                if at == position {
                    return Ok(record);
                }
            }
            let next = stream.next().map_err(|_| StreamError::Unreachable {
                what: "the stream was not read to its end".to_owned(),
            })?;
            let Some(received) = next else {
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
}

impl Visitor for Comparing<'_> {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        let position = record.position;
        if self.of_stream(position)? != record.payload {
            return Err(StreamError::Differs { position }.into());
        }
        self.count += 1;
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        Ok(())
    }

    fn kept(&mut self, _: Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
        Ok(())
    }
}
