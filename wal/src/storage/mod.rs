//! All access to files. A log sees a flat directory of named files and one
//! directory below it (`quarantine/…`); names use `/`.

mod directory;
#[cfg(test)]
pub(crate) mod extended;
mod file;
#[cfg(any(test, feature = "sim"))]
pub mod meanwhile;
mod read_only;
#[cfg(any(test, feature = "sim"))]
pub mod sim;

pub(crate) use directory::{COPY, copy_range, write_all_at};
pub use directory::{File, Lock, Locked, Storage};
pub use file::FileStorage;
pub(crate) use read_only::{ReadOnly, ReadOnlyFile};
