//! `carebook recover`: says what of a damaged data directory can still be had, what each way out
//! would cost, and takes the one that it is told to take.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use wal::{Salvage, WayOut};

use super::exit::Failure;
use super::open::{Replaying, log_name};
use super::output::{existing, operation_name, print_pairs};
use crate::base::digest::Digest;
use crate::catalogue;
use crate::domain::resource::Source as _;
use crate::journal::record::Record;
use crate::journal::tables::Tables;

/// How many of the resources and keys that a way out costs are named; `--json` names all.
const NAMED_MAX: usize = 20;

/// Arguments of `carebook recover`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook recover --data /srv/carebook
  carebook recover --data /srv/carebook --json | jq .ways
  carebook recover --data /srv/carebook --give-up-after 120394

Without --give-up-after it only looks, and writes nothing: what is damaged, which positions can
still be had, and what is lost with each: positions, resources, keys of idempotency. What was
acknowledged to people is among that, so it is a decision of people: a backup that reaches farther
may cost less (carebook restore).

With it, the directory is brought to what it was at that position: a log of its own, with a new
identity. Every file of before is kept beside, under its name and `.given-up.N`. Interrupted, it
can be done again.

Exit codes:
  0  nothing is damaged; or the directory was brought to that position, and is verified
  1  failed, for example because no way out reaches that position, or a server holds the directory
  2  the arguments are wrong
  3  there is damage, and nothing was done about it")]
pub struct RecoverArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Gives up every record after this position, for good.
    #[arg(long, value_name = "POSITION")]
    give_up_after: Option<u64>,
    /// Prints JSON instead of tables.
    #[arg(long)]
    json: bool,
}

impl RecoverArgs {
    /// Looks, and recovers when it is told to.
    ///
    /// # Errors
    /// When there is damage and nothing was done about it; when the directory is held, or nothing
    /// can be had of it.
    pub fn run(self) -> Result<(), Failure> {
        let storage = existing(&self.data)?;
        let salvage = Salvage::survey(storage).map_err(|error| Failure::of_log(&error))?;
        match self.give_up_after {
            Some(position) => self.give_up(salvage, position),
            None => self.look(&salvage),
        }
    }

    fn look(&self, salvage: &Salvage) -> Result<(), Failure> {
        let ways: Vec<_> = salvage.ways();
        let mut costs = Vec::new();
        for way in &ways {
            costs.push(Cost::of(salvage, *way)?);
        }
        if self.json {
            let damage: Vec<_> = salvage
                .damage()
                .iter()
                .map(|found| {
                    json!({
                        "file": found.file,
                        "offset": found.offset,
                        "position": found.position,
                        "what": found.what,
                    })
                })
                .collect();
            let ways: Vec<_> = ways.iter().zip(&costs).map(way_json).collect();
            let found = json!({
                "damage": damage,
                "highestPosition": salvage.highest(),
                "ways": ways,
            });
            println!("{found:#}");
        } else {
            self.print(salvage, &ways, &costs);
        }
        match salvage.damage().first() {
            None => Ok(()),
            Some(first) => Err(Failure::Damaged(format!(
                "{}, offset {}: {}; nothing was changed",
                first.file, first.offset, first.what
            ))),
        }
    }

    fn print(&self, salvage: &Salvage, ways: &[WayOut], costs: &[Cost]) {
        if salvage.damage().is_empty() {
            println!(
                "nothing is damaged: every record up to position {} can be read",
                salvage.highest()
            );
            return;
        }
        println!("damaged:");
        for found in salvage.damage() {
            let position = match found.position {
                Some(position) => format!(", position {position}"),
                None => String::new(),
            };
            println!(
                "  {}, offset {}{position}: {}",
                found.file, found.offset, found.what
            );
        }
        if ways.is_empty() {
            println!("nothing can be had of it: restore a backup");
            return;
        }
        for (way, cost) in ways.iter().zip(costs) {
            println!();
            println!(
                "way out: carebook recover --data {} --give-up-after {}",
                self.data.display(),
                way.keep_to
            );
            print_pairs(cost.rows(*way, salvage.highest()));
            cost.print_names();
        }
    }

    fn give_up(&self, salvage: Salvage, position: u64) -> Result<(), Failure> {
        let highest = salvage.highest();
        let done = salvage
            .give_up_after(position)
            .map_err(|error| Failure::of_log(&error))?;
        if self.json {
            let done = json!({
                "logId": log_name(&done.report),
                "lastPosition": done.report.last_position,
                "givenUp": highest.saturating_sub(position),
                "kept": done.kept,
            });
            println!("{done:#}");
            return Ok(());
        }
        print_pairs([
            ("log".to_owned(), log_name(&done.report)),
            (
                "last position".to_owned(),
                done.report.last_position.to_string(),
            ),
            (
                "positions given up".to_owned(),
                highest.saturating_sub(position).to_string(),
            ),
        ]);
        for kept in &done.kept {
            println!("kept: {kept}");
        }
        println!("{} is recovered and verified", self.data.display());
        Ok(())
    }
}

/// What giving up after a position costs, as far as it can be read.
#[derive(Default)]
struct Cost {
    /// Records that are lost and can be read.
    readable: u64,
    /// Each resource that loses commits, by kind and identifier, and how many.
    resources: BTreeMap<(String, String), u64>,
    /// Each key that is lost: operation, subject, key.
    keys: BTreeSet<(String, String, String)>,
}

impl Cost {
    fn of(salvage: &Salvage, way: WayOut) -> Result<Self, Failure> {
        let mut replaying = Replaying::new("weighing");
        salvage
            .show(way, &mut replaying)
            .map_err(|error| Failure::of_log(&error))?;
        let kept = replaying.finish().tables;
        let mut states = LostStates {
            kept: &kept,
            later: BTreeMap::new(),
        };
        let mut cost = Self::default();
        salvage
            .records_after(way.keep_to, &mut |bytes| {
                cost.readable += 1;
                // What cannot be understood is lost all the same.
                let Ok(record) = Record::decode(bytes.payload) else {
                    return Ok(());
                };
                if let Some(key) = &record.key {
                    cost.keys.insert((
                        operation_name(record.operation).to_owned(),
                        record.subject.to_string(),
                        key.key.to_string(),
                    ));
                }
                for change in &record.changes {
                    let name = states.name(change.kind, change.key, change.event.0, record.at);
                    *cost.resources.entry(name).or_default() += 1;
                }
                Ok(())
            })
            .map_err(|error| Failure::of_log(&error))?;
        Ok(cost)
    }

    fn rows(&self, way: WayOut, highest: u64) -> Vec<(String, String)> {
        let lost = highest.saturating_sub(way.keep_to);
        let mut rows = vec![(
            "  keeps positions up to".to_owned(),
            way.keep_to.to_string(),
        )];
        if let Some(snapshot) = way.snapshot {
            rows.push((
                "  rests on the snapshot of".to_owned(),
                snapshot.covers.to_string(),
            ));
        }
        rows.push(("  positions lost".to_owned(), lost.to_string()));
        rows.push(("  of these readable".to_owned(), self.readable.to_string()));
        rows.push((
            "  resources that lose commits".to_owned(),
            self.resources.len().to_string(),
        ));
        rows.push(("  keys lost".to_owned(), self.keys.len().to_string()));
        rows
    }

    fn print_names(&self) {
        for ((kind, id), commits) in self.resources.iter().take(NAMED_MAX) {
            println!("  loses {commits} commits: {kind} {id}");
        }
        if self.resources.len() > NAMED_MAX {
            println!(
                "  and {} more resources; --json names all",
                self.resources.len() - NAMED_MAX
            );
        }
        for (operation, subject, key) in self.keys.iter().take(NAMED_MAX) {
            println!("  loses the key {key} of {subject} ({operation})");
        }
        if self.keys.len() > NAMED_MAX {
            println!(
                "  and {} more keys; --json names all",
                self.keys.len() - NAMED_MAX
            );
        }
    }
}

fn way_json((way, cost): (&WayOut, &Cost)) -> Value {
    let resources: Vec<_> = cost
        .resources
        .iter()
        .map(|((kind, id), commits)| json!({"kind": kind, "id": id, "commits": commits}))
        .collect();
    let keys: Vec<_> = cost
        .keys
        .iter()
        .map(|(operation, subject, key)| {
            json!({"operation": operation, "subject": subject, "key": key})
        })
        .collect();
    json!({
        "giveUpAfter": way.keep_to,
        "snapshot": way.snapshot.map(|snapshot| snapshot.covers),
        "readableRecordsLost": cost.readable,
        "resources": resources,
        "keys": keys,
    })
}

/// Finds out what the resources of lost records are called.
struct LostStates<'a> {
    kept: &'a Tables,
    later: BTreeMap<Digest, Vec<u8>>,
}

impl LostStates<'_> {
    /// Kind and identifier; the digest of its key where a lost record before cannot be read.
    fn name(
        &mut self,
        kind: u16,
        key: Digest,
        event: &[u8],
        at: crate::base::time::Instant,
    ) -> (String, String) {
        let unknown = || crate::base::digest::hex(&key.0);
        let Some(resource) = catalogue::resource(kind) else {
            return (format!("kind {kind}"), unknown());
        };
        let mut before = self.later.get(&key).cloned();
        if before.is_none() {
            self.kept
                .read(key, &mut |bytes| before = Some(bytes.to_vec()));
        }
        let mut after = Vec::new();
        let replayed = resource.replay(before.as_deref(), event, at, &mut after);
        let state = match replayed {
            Ok(_) => Some(&after),
            Err(_) => before.as_ref(),
        };
        let id = state.and_then(|state| resource.id(state).ok());
        if replayed.is_ok() {
            self.later.insert(key, after.clone());
        }
        let id = id.map_or_else(unknown, |parts| parts.join("/"));
        (resource.kind().name.to_owned(), id)
    }
}
