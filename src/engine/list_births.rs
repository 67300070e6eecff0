//! Lists after a snapshot that does not say when its resources came to be listed, as programs before
//! lists took them: the log says it, as far as it goes back.

use std::collections::HashMap;
use std::ops::ControlFlow;

use wal::Appender;

use crate::base::digest::Digest;
use crate::catalogue;
use crate::domain::registered::{AnyResource, Listed};
use crate::journal::record::Record;
use crate::journal::tables::{Born, Tables};

/// Orders the lists by the log, where recovery has guessed. What was born before the records that
/// the log still has stands before all others, in the order of last commits. An error is logged: the
/// guess stays.
pub(super) fn place(tables: &Tables, journal: &Appender) {
    if !tables.has_guessed_births() {
        return;
    }
    let first = journal.first();
    let mut births: HashMap<Digest, Born> = HashMap::new();
    let walked = journal.records(first, journal.durable(), &mut |found| {
        let record = Record::decode(found.payload)?;
        for (number, change) in (0..).zip(&record.changes) {
            let is_first = |kind: &dyn AnyResource| {
                // What comes to be listed later, or with others, stays where its last commit is.
                change.before == 0 && kind.listed() == Listed::FromBirth && !kind.is_together()
            };
            if catalogue::resource(change.kind).is_some_and(is_first) {
                let born = Born {
                    position: found.position,
                    number,
                };
                births.insert(change.key, born);
            }
        }
        Ok(ControlFlow::Continue(()))
    });
    if let Err(error) = walked {
        tracing::warn!(%error, "the order of lists cannot be read from the log");
        return;
    }
    tracing::info!(
        births = births.len(),
        "the order of lists was read from the log"
    );
    tables.place_births(&births, first);
}
