//! Reads a request: its body, its headers, its command; reports every fault.
//!
//! # Bodies
//!
//! A body is charged to a budget, the bytes of bodies that may be in flight, as its bytes arrive: a body that is
//! announced but not sent costs nothing. The body is kept in one buffer that grows with the bytes that arrived, so
//! that a body in a million chunks takes no more memory than it is charged for.
//!
//! Slow senders must not take the memory of others. A body that has arrived completely may use all free capacity. A
//! body that is still arriving leaves [`AT_ONCE_BYTES`](arriving::AT_ONCE_BYTES) free for complete ones, and may hold
//! at most as much as it leaves free beyond that: the more bodies are arriving, the less each may hold, and some
//! capacity is always left for one more. A small body may go on when less is free. A body that would hold more is
//! rejected. While memory is short, a body that is slower than [`Pace`](super::limits::pace::Pace) is rejected, too.

pub mod arriving;
pub mod authority;
pub(super) mod body;
pub mod command;
mod dry_run;
pub mod request_id;

pub use self::dry_run::DryRun;
pub(super) use self::dry_run::no_dry_run;
