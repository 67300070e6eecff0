//! The memory of large tables: pieces of a few sizes, cut from huge pages.
//!
//! Tables are read here and there. In pages of 4 KiB nearly each look into a large one is at a page whose
//! place the processor does not know, and to find that out takes longer than the look itself, most of
//! all in a virtual machine. So states, hash indexes, unique keys and idempotency keys lie in huge pages,
//! where the system has them (`arena`), cut into pieces (`piece`). States above 8 KiB, and what lists and
//! secondary keys hold, are the allocator's.

mod arena;
mod piece;

pub(super) use self::piece::Piece;

pub use self::arena::keep_ready;
