//! Tracks responses that second keys lead to, and frees forgotten keys.

#[cfg(test)]
use super::secondary::SecondaryIndex;
use super::{CHUNK, Tables};
use crate::base::digest::Digest;

impl Tables {
    /// Notes that the key used at `second` leads to the response of the commit at `first`.
    pub fn note_first(&self, first: u64, second: u64) {
        let mut firsts = self.firsts.lock();
        let last = firsts.entry(first).or_default();
        *last = second.max(*last);
    }

    /// Whether a key used after the position `forgotten` leads to the response of the commit at `position`, which has
    /// another key.
    #[must_use]
    pub fn is_first(&self, position: u64, forgotten: u64) -> bool {
        let second = self.firsts.lock().get(&position).copied();
        second.is_some_and(|second| second > forgotten)
    }

    /// Frees forgotten keys, a few at a time, with `pause` in between; returns their number. A shard is locked only
    /// while some of its keys are examined, and again while the forgotten ones are removed.
    ///
    /// # Errors
    /// The error of `pause`, which ends the sweep.
    pub fn sweep<E>(&self, mut pause: impl FnMut() -> Result<(), E>) -> Result<usize, E> {
        let through = self.forgotten();
        let mut swept = 0;
        for shard in &self.keys.0 {
            let mut end = shard.read().len();
            while end > 0 {
                // Backwards: the entry that moves into a removed one's place is the last one, which was examined, or
                // removed, before.
                let begin = end.saturating_sub(CHUNK);
                let gone: Vec<Digest> = {
                    let shard = shard.read();
                    let chunk = shard.range(begin..end);
                    let gone = chunk.filter(|(_, position)| *position <= through);
                    gone.map(|(key, _)| key).collect()
                };
                if !gone.is_empty() {
                    let mut shard = shard.write();
                    for key in gone {
                        // The key may have been used again meanwhile.
                        if shard.get(key).is_some_and(|position| position <= through) {
                            shard.remove(key);
                            swept += 1;
                        }
                    }
                }
                end = begin;
                pause()?;
            }
        }
        self.sweep_firsts(through, pause)?;
        Ok(swept)
    }

    /// Removes the empty lists of secondary keys that were last touched at `upto` or before, a few at a time, with
    /// `pause` in between, and returns how many it removed. All commits up to `upto` must be published.
    ///
    /// # Errors
    /// The error of `pause`, which ends the sweep.
    pub fn sweep_lists<E>(
        &self,
        upto: u64,
        mut pause: impl FnMut() -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut swept = 0;
        for shard in &self.secondary.0 {
            let mut end = shard.read().len();
            while end > 0 {
                // Backwards, as above.
                let begin = end.saturating_sub(CHUNK);
                swept += shard.write().remove_empty(begin..end, upto);
                end = begin;
                pause()?;
            }
        }
        Ok(swept)
    }

    /// Number of lists of secondary keys, empty ones included.
    #[cfg(test)]
    pub(crate) fn lists(&self) -> usize {
        self.secondary.len(SecondaryIndex::len)
    }

    /// Drops the commits whose response no second key leads to any more.
    fn sweep_firsts<E>(
        &self,
        through: u64,
        mut pause: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut next = 0;
        loop {
            {
                let mut firsts = self.firsts.lock();
                let mut gone = Vec::new();
                let mut last = None;
                for (first, second) in firsts.range(next..).take(CHUNK) {
                    last = Some(*first);
                    if *second <= through {
                        gone.push(*first);
                    }
                }
                for first in gone {
                    firsts.remove(&first);
                }
                let Some(last) = last else {
                    return Ok(());
                };
                next = last + 1;
            }
            pause()?;
        }
    }
}
