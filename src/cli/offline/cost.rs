//! The cost of a way out of damage: lost positions, resources and idempotency keys.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use wal::{Salvage, WayOut};

use super::inspect::mask::Mask;
use super::lost::{LostNames, Name};
use crate::base::codec::DecodeError;
use crate::cli::exit::Failure;
use crate::cli::open::{Replaying, progress_bar, refusal};
use crate::cli::output::{Output, operation_name};
use crate::cli::printable::printable;
use crate::journal::record::Record;

/// Maximum number of lost resources and keys that are named; `--json` names all.
const NAMED_MAX: usize = 20;

/// The losses of giving up the records after a position, as far as these can be read.
#[derive(Default)]
pub(super) struct Cost {
    /// Number of lost positions, as far as it is known.
    pub(super) lost: u64,
    /// Whether more positions may have been lost.
    pub(super) is_more: bool,
    /// Number of lost records that can be read.
    pub(super) readable: u64,
    /// The resources that lose commits, with the number of lost commits.
    resources: BTreeMap<Name, u64>,
    /// The lost keys: operation, subject, key.
    keys: BTreeSet<(String, String, String)>,
}

impl Cost {
    /// Returns the cost of a way out.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub(super) fn of(salvage: &Salvage, way: WayOut) -> Result<Self, Failure> {
        let mut replaying = Replaying::new("reading the kept records");
        salvage
            .show(way, &mut replaying)
            .map_err(|error| Failure::of_log(&error))?;
        let kept = replaying.finish().tables;
        let mut names = LostNames::new(&kept);
        let mut cost = Self {
            lost: salvage.highest().saturating_sub(way.keep_to),
            is_more: !salvage.end_is_known(),
            ..Self::default()
        };
        let mut weigh = |bytes: wal::Record<'_>| {
            cost.readable += 1;
            let record = match Record::decode(bytes.payload) {
                Ok(record) => record,
                Err(error @ DecodeError::OtherVersion(_)) => return Err(refusal(error)),
                // A record that cannot be decoded is lost as well, but names nothing.
                Err(_) => return Ok(()),
            };
            if let Some(key) = &record.key {
                cost.keys.insert((
                    operation_name(record.operation).to_owned(),
                    record.subject.to_string(),
                    key.key.to_string(),
                ));
            }
            for name in names.of(&record) {
                *cost.resources.entry(name).or_default() += 1;
            }
            Ok(())
        };
        let bar = progress_bar(0, "reading the lost records");
        let walked = salvage.records_after_shown(way.keep_to, &mut weigh, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        walked.map_err(|error| Failure::of_log(&error))?;
        Ok(cost)
    }

    /// Number of lost positions of which nothing can be read. Each may have used one idempotency key.
    pub(super) fn unreadable(&self) -> u64 {
        self.lost.saturating_sub(self.readable)
    }

    /// Returns the lower and the upper bound of a number that is known only for readable records.
    pub(super) fn bounds(&self, known: usize) -> (u64, Option<u64>) {
        let least = u64::try_from(known).unwrap_or(u64::MAX);
        let most = (!self.is_more).then(|| least.saturating_add(self.unreadable()));
        (least, most)
    }

    /// Returns the rows of the table that shows the cost.
    pub(super) fn rows(&self, way: WayOut) -> Vec<(String, String)> {
        let between = |(least, most): (u64, Option<u64>)| match most {
            Some(most) if most == least => least.to_string(),
            Some(most) => format!("{least} to {most}"),
            None => format!("{least} or more"),
        };
        let or_more = if self.is_more { " or more" } else { "" };
        let mut rows = vec![(
            "  keeps positions up to".to_owned(),
            way.keep_to.to_string(),
        )];
        if let Some(snapshot) = way.snapshot {
            rows.push((
                "  based on the snapshot of".to_owned(),
                snapshot.covers.to_string(),
            ));
        }
        rows.push((
            "  begins at position".to_owned(),
            way.first_position.to_string(),
        ));
        if way.readable_before > 0 {
            rows.push((
                "  readable records before that".to_owned(),
                way.readable_before.to_string(),
            ));
        }
        rows.push((
            "  positions lost".to_owned(),
            format!("{}{or_more}", self.lost),
        ));
        rows.push(("  of these readable".to_owned(), self.readable.to_string()));
        rows.push((
            "  of these unreadable".to_owned(),
            format!("{}{or_more}", self.unreadable()),
        ));
        // A record that cannot be read may have changed any number of resources.
        let resources = self.resources.len();
        let resources = match self.unreadable() == 0 && !self.is_more {
            true => resources.to_string(),
            false => format!("{resources} or more"),
        };
        rows.push(("  resources that lose commits".to_owned(), resources));
        let keys = between(self.bounds(self.keys.len()));
        rows.push(("  keys lost".to_owned(), keys));
        rows
    }

    /// Prints the names of the lost resources and keys.
    pub(super) fn print_names(&self, mask: Mask, out: &mut Output) -> Result<(), Failure> {
        for (name, commits) in self.resources.iter().take(NAMED_MAX) {
            let (kind, id) = (name.kind, printable(&name.id(mask)));
            out.line(format_args!("  loses {commits} commits: {kind} {id}"))?;
        }
        if self.resources.len() > NAMED_MAX {
            out.line(format_args!(
                "  and {} more resources; --json names all",
                self.resources.len() - NAMED_MAX
            ))?;
        }
        for (operation, subject, key) in self.keys.iter().take(NAMED_MAX) {
            let [subject, key] = [subject, key].map(|text| printable(&mask.opaque(text)));
            out.line(format_args!(
                "  loses the key {key} of {subject} ({operation})"
            ))?;
        }
        if self.keys.len() > NAMED_MAX {
            out.line(format_args!(
                "  and {} more keys; --json names all",
                self.keys.len() - NAMED_MAX
            ))?;
        }
        Ok(())
    }
}

/// Returns a way out with its cost, as JSON.
pub(super) fn way_json(mask: Mask, way: &WayOut, cost: &Cost) -> Value {
    let resources: Vec<_> = cost
        .resources
        .iter()
        .map(|(name, commits)| json!({"kind": name.kind, "id": name.id(mask), "commits": commits}))
        .collect();
    let keys: Vec<_> = cost
        .keys
        .iter()
        .map(|(operation, subject, key)| {
            let [subject, key] = [subject, key].map(|text| mask.opaque(text));
            json!({"operation": operation, "subject": subject, "key": key})
        })
        .collect();
    json!({
        "giveUpAfter": way.keep_to,
        "snapshot": way.snapshot.map(|snapshot| snapshot.covers),
        "firstPosition": way.first_position,
        "readableRecordsBefore": way.readable_before,
        "positionsLost": cost.lost,
        "readableRecordsLost": cost.readable,
        "unreadablePositionsLost": cost.unreadable(),
        "mayBeMore": cost.is_more,
        "keysLostAtLeast": cost.bounds(cost.keys.len()).0,
        "keysLostAtMost": cost.bounds(cost.keys.len()).1,
        "resources": resources,
        "keys": keys,
    })
}
