//! Restores the order of lists after a snapshot that lacks the positions at which its resources were first listed,
//! such as one by a version before lists: the log has these positions, as far as it goes back.

use std::collections::HashMap;
use std::ops::ControlFlow;

use wal::Appender;

use crate::base::digest::Digest;
use crate::catalogue;
use crate::domain::registered::{AnyResource, Listed};
use crate::journal::record::Record;
use crate::journal::tables::{ListedAt, Tables};

/// Orders the lists by the log, where recovery has guessed. Resources created before the log's first record come
/// first, in the order of their last commits. After an error, which is logged, the guess stays.
pub(super) fn place(tables: &Tables, journal: &Appender) {
    if !tables.has_guessed_births() {
        return;
    }
    let first = journal.first();
    let mut births: HashMap<Digest, ListedAt> = HashMap::new();
    let walked = journal.records(first, journal.durable(), &mut |found| {
        let record = Record::decode(found.payload)?;
        for (number, change) in (0..).zip(&record.changes) {
            let is_first = |kind: &dyn AnyResource| {
                // A resource listed later than created, or together with others, stays at its last commit.
                change.before == 0 && kind.listed() == Listed::FromBirth && !kind.is_together()
            };
            if catalogue::resource(change.kind).is_some_and(is_first) {
                let listed_at = ListedAt {
                    position: found.position,
                    number,
                };
                births.insert(change.key, listed_at);
            }
        }
        Ok(ControlFlow::Continue(()))
    });
    if let Err(error) = walked {
        tracing::warn!(
            %error,
            "the order of lists cannot be read from the log; \
             older resources are listed in the order of their last commits"
        );
        return;
    }
    tracing::info!(
        births = births.len(),
        "the order of lists was read from the log"
    );
    tables.place_births(&births, first);
}
