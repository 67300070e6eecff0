//! A write-ahead log of bytes.
//!
//! Records go in at dense positions (1, 2, 3 …), are written in batches by one
//! thread with one write and one `fdatasync` per batch, and come out again in
//! order after any crash. What the bytes mean is the caller's business.
//!
//! ```no_run
//! use std::path::Path;
//! use wal::{BoxError, Events, Log, Options, Record, Visitor};
//!
//! struct Replay;
//! impl Visitor for Replay {
//!     fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
//!         println!("{}: {} bytes", record.position, record.payload.len());
//!         Ok(())
//!     }
//! }
//! struct Print;
//! impl Events for Print {
//!     fn durable(&mut self, position: u64) {
//!         println!("everything up to {position} is on disk");
//!     }
//!     fn failed(&mut self, error: &wal::Error) {
//!         eprintln!("{error}");
//!     }
//! }
//!
//! # fn main() -> Result<(), BoxError> {
//! let storage = wal::open_dir(Path::new("data"))?;
//! let (log, report) = Log::open(storage, Options::default(), &mut Replay)?;
//! println!("{} records recovered", report.records);
//! let appender = log.start(Box::new(Print))?;
//! let position = appender.sequence().push(b"hello".to_vec())?;
//! appender.shutdown()?;
//! assert!(appender.durable() >= position);
//! # Ok(())
//! # }
//! ```
//!
//! The modules, from the lowest layer up: [`storage`] has all access to files; `format`, `frame`, `manifest` and
//! `snapshot` define the bytes, each with its tables. `window` reads a file piece by piece, `scan` a segment frame by
//! frame; `survey` reads a whole log and returns its findings, `verdict` judges them, and `recovery` acts on the
//! verdict. `segment` makes segments, `writer` fills them, `reader` finds records by the `index`, and [`live`] reads a
//! log beside the process that writes it; `log` puts these together for one thread. `appender` does so for many: it
//! queues records and gathers batches for a [`Medium`], of which `files` is the one that is a directory. `retention`
//! decides what a compaction keeps; `archive` keeps the segments that compactions have moved out of logs, in a folder
//! for each log; `ancestry` stores which logs a log continues; `backup` copies a log; `restore` and `salvage` make a
//! new one, with `rebuild`, from an earlier state or from the readable part of a damaged log. `visitor` has the
//! interface of readers, and `report` their results.

mod ancestry;
mod appender;
mod archive;
mod backup;
mod batched;
mod create;
mod error;
mod files;
mod format;
mod frame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod holder;
mod index;
pub mod live;
mod lock;
mod log;
mod lz4;
mod manifest;
mod medium;
#[cfg(any(test, feature = "sim"))]
pub mod memory;
mod opening;
mod options;
mod packed;
mod reader;
mod rebuild;
mod recovery;
mod report;
mod restore;
mod retention;
mod salvage;
mod scan;
mod seed;
mod segment;
mod shelf;
mod snapshot;
mod space;
pub mod storage;
mod survey;
mod throttle;
mod verdict;
mod verify;
mod visitor;
mod window;
mod writer;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use appender::{Appender, BATCH_BOUNDS, Batches, Events, OpenLog, Refused, Sequence};
pub use backup::{Backup, backup};
pub use batched::Batch;
pub use error::{BoxError, Error, OtherForm};
pub use format::{FORMAT_VERSION, RECORD_BYTES_MAX};

pub use log::{Log, Parts};
pub use manifest::{Ancestor, Identity};
pub use medium::{BatchWriter, Medium, WakeUp};
pub use opening::NO_OTHER_SNAPSHOT;
pub use options::Options;
pub use report::{BadSnapshot, Report, TornTail};
pub use restore::{FromArchive, Past, records};
pub use retention::{Keep, Retained};
pub use salvage::{Damage, GivenUp, OnSurvey, Salvage, WayOut};
pub use seed::{ForeignSnapshot, Newest, Seeding, is_free, newest};
pub use segment::Compacted;
pub use snapshot::{SizeEstimate, SnapshotTarget, SnapshotWriter};
pub use space::{Lack, Space};
pub use verify::verify;
pub use visitor::{Discard, EachRecord, OnRange, Record, SnapshotInfo, Visitor, each_record};

use storage::Storage;

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The storage of a directory to write to; makes the directory (mode 0700) when it is
/// missing.
///
/// # Errors
/// `PermissionDenied` when others may write to it, or it is another user's; else the errors of the system when the
/// directory can be neither found nor made.
pub fn open_dir(path: &Path) -> io::Result<Arc<dyn Storage>> {
    Ok(Arc::new(storage::FileStorage::create(path)?))
}
