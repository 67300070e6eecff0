//! The memory of large tables: pieces of a few sizes, cut from huge pages.
//!
//! Tables are accessed at random. With pages of 4 KiB, almost every access to a large table is to a page whose
//! address translation the processor does not have cached, and the translation takes longer than the access itself,
//! most of all in a virtual machine. So states, hash indexes, unique keys and idempotency keys lie in huge pages,
//! where the system has them (`arena`), cut into pieces (`piece`). States above 8 KiB, and the content of lists and
//! secondary keys, come from the allocator.

mod arena;
mod piece;

pub(super) use self::piece::Piece;

pub use self::arena::keep_ready;
