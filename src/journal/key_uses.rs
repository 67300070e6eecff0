//! The uses of idempotency keys by replayed records.
//!
//! While records are read, their keys are only noted, in a row; at the end each shard of the table is indexed in one
//! pass, within a processor's cache. Almost always no key was used twice, and the work is done. Where one was, or
//! where a response replaces another, the uses of the shard are checked in order.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::key_use::KeyUse;
use super::parallel::try_for_each;
use super::replay_error::ReplayError;
use super::rules;
use super::tables::{SHARDS, Tables};
use crate::base::digest::KeyDigest;

/// Data about the uses beyond the tables' notes. Few records have any.
#[derive(Default)]
pub(super) struct KeyUses {
    /// Responses that replace others, by their positions: the key, and the position of the replaced response.
    instead: Mutex<BTreeMap<u64, (KeyDigest, u64)>>,
    /// Records that forget keys, in order: the position of each, and the position up to which used keys are
    /// forgotten.
    forgotten: Mutex<Vec<(u64, u64)>>,
}

impl KeyUses {
    /// Notes the key that the record at `position` uses, if any.
    ///
    /// # Errors
    /// When the record's response would be that of a later record.
    pub(super) fn note(&self, tables: &Tables, position: u64, used: KeyUse) -> Result<(), String> {
        if let Some(first) = used.shares {
            rules::leads_back(position, first)?;
            tables.note_first(first, position);
        }
        if let Some(key) = used.key.map(KeyDigest) {
            tables.note_key(key, position);
            if let Some(of) = used.instead_of {
                self.instead.lock().insert(position, (key, of));
            }
        }
        Ok(())
    }

    /// Notes that the record at `at` forgets the keys used up to `through`.
    pub(super) fn forget(&self, at: u64, through: u64) {
        let mut forgotten = self.forgotten.lock();
        let before = forgotten.last().map_or(0, |(_, through)| *through);
        forgotten.push((at, through.max(before)));
    }

    /// Enters the noted keys into the tables, beside those entered before. A snapshot keeps the records up to the
    /// position `kept`.
    ///
    /// # Errors
    /// The first use that is not allowed.
    pub(super) fn enter(&self, tables: &Tables, kept: u64) -> Result<(), ReplayError> {
        let (instead, forgotten) = (self.instead.lock(), self.forgotten.lock());
        let mut is_plain = [true; SHARDS];
        for (KeyDigest(key), _) in instead.values() {
            is_plain[key.shard(SHARDS)] = false;
        }
        let (instead, forgotten) = (&*instead, forgotten.as_slice());
        try_for_each(SHARDS, |shard| {
            let Err(mut noted) = tables.index_keys(shard, is_plain[shard]) else {
                return Ok(());
            };
            noted.sort_unstable_by_key(|(_, position)| *position);
            for (key, position) in noted {
                let instead_of = instead.get(&position).map(|(_, of)| *of);
                let forgotten = forgotten_before(forgotten, position);
                tables.take_key_if(key, position, |taken| {
                    let taken = taken.filter(|taken| *taken > forgotten);
                    may_take(position, instead_of, taken, position <= kept)
                })?;
            }
            Ok(())
        })
    }
}

/// Whether the record at `position` may use its key after all earlier uses.
fn may_take(
    position: u64,
    instead_of: Option<u64>,
    taken: Option<u64>,
    is_kept: bool,
) -> Result<(), ReplayError> {
    if !is_kept {
        let may = rules::may_take_key(instead_of, taken);
        return may.map_err(|why| ReplayError::at(position, why));
    }
    // The response that this one replaces may have been forgotten.
    let instead_of = instead_of.filter(|of| taken == Some(*of));
    let may = rules::may_take_key(instead_of, taken);
    may.map_err(|why| ReplayError::of_kept(position, why))
}

/// Returns the position up to which keys were forgotten by records before `position`.
fn forgotten_before(forgotten: &[(u64, u64)], position: u64) -> u64 {
    let count = forgotten.partition_point(|(at, _)| *at < position);
    let last = count.checked_sub(1).map(|last| forgotten[last].1);
    last.unwrap_or(0)
}
