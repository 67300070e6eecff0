//! What a log that was tampered with is taken for, when it is verified or opened.

use std::ops::ControlFlow;

use wal::storage::sim::SimDisk;
use wal::{BoxError, Error, Log, Options, Record, SnapshotInfo, Visitor};

/// Compares what is shown with the records that were appended, without keeping
/// anything.
pub(crate) struct Compare<'a> {
    expected: &'a [Vec<u8>],
    seen: usize,
    same: bool,
}

impl<'a> Compare<'a> {
    pub(crate) fn with(expected: &'a [Vec<u8>]) -> Self {
        Self {
            expected,
            seen: 0,
            same: true,
        }
    }
}

impl Visitor for Compare<'_> {
    fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.same &= record.position == self.seen as u64 + 1
            && self
                .expected
                .get(self.seen)
                .is_some_and(|expected| *expected == record.payload);
        self.seen += 1;
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        self.reset();
        Ok(())
    }

    fn kept(&mut self, record: Record<'_>) -> Result<(), BoxError> {
        self.record(record)
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        self.same &= entry.starts_with(b"entry ");
        Ok(())
    }

    fn reset(&mut self) {
        *self = Self::with(self.expected);
    }
}

/// What a damaged log was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Same,
    Shorter(usize),
    Refused,
}

fn outcome(
    done: Result<(), Error>,
    compare: &Compare<'_>,
    disk: &SimDisk,
    case: &dyn Fn() -> String,
) -> Outcome {
    match done {
        Ok(()) => {
            assert!(compare.same, "{}: other records", case());
            if compare.seen == compare.expected.len() {
                Outcome::Same
            } else {
                Outcome::Shorter(compare.seen)
            }
        }
        Err(error) => {
            let (Error::Damaged { file, .. } | Error::Unsupported { file, .. }) = &error else {
                panic!("{}: {error}", case());
            };
            assert!(file.starts_with("sim:"), "{}: {file}", case());
            assert_eq!(disk.calls(), 0, "{}: a refusal changes nothing", case());
            Outcome::Refused
        }
    }
}

/// Verifies a log; the disk must have had no call before.
pub(crate) fn verified(disk: &SimDisk, records: &[Vec<u8>], case: &dyn Fn() -> String) -> Outcome {
    let mut compare = Compare::with(records);
    let done = wal::verify(disk.storage(), &mut compare).map(drop);
    assert_eq!(disk.calls(), 0, "{}: verify changes nothing", case());
    outcome(done, &compare, disk, case)
}

/// Opens a copy of the log, and reads the records that it has, also those that the snapshot covers,
/// which a start does not read.
pub(crate) fn opened(
    disk: &SimDisk,
    options: &Options,
    records: &[Vec<u8>],
    case: &dyn Fn() -> String,
) -> Outcome {
    let copy = disk.after_kill();
    let mut compare = Compare::with(records);
    let options = Options {
        create: false,
        ..options.clone()
    };
    let log = match Log::open(copy.storage(), options, &mut compare) {
        Ok((log, report)) => log.records(report.first_position, u64::MAX, &mut |record| {
            let at = usize::try_from(record.position - 1).unwrap();
            assert!(records[at] == record.payload, "{}: another record", case());
            Ok(ControlFlow::Continue(()))
        }),
        Err(error) => return outcome(Err(error), &compare, &copy, case),
    };
    match log {
        Err(Error::Damaged { .. }) => Outcome::Refused,
        read => outcome(read.map(drop), &compare, &copy, case),
    }
}
