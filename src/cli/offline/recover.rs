//! `carebook recover`: reports what can still be recovered from a damaged data directory, and the cost of each way out;
//! takes the chosen one.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use wal::{Salvage, WayOut};

use super::cost::{Cost, way_json};
use super::export::export;
use super::inspect::mask::Mask;
use crate::base::hex::hex;
use crate::cli::copy_mark::WHEN_A_COPY;
use crate::cli::exit::Failure;
use crate::cli::journal::{expect_no_copy_to_cut, journal_of};
use crate::cli::open::{log_name, progress_bar};
use crate::cli::output::{Output, existing};
use crate::cli::path_checks::expect_apart;
use crate::cli::printable::as_argument;
use crate::cli::stderr::print_to_stderr;

/// Arguments of `carebook recover`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook recover --data /srv/carebook
  carebook recover --data /srv/carebook --json | jq .ways
  carebook recover --data /srv/carebook --export behind.jsonl --reveal
  carebook recover --data /srv/carebook --give-up-after 120394

Without --give-up-after it only reports, and writes nothing: what is damaged, which positions can \
still be recovered, and what each way out loses: positions, resources, idempotency keys. That may \
include acknowledged commits, so people have to decide: a newer backup may lose less (carebook \
restore). With --export, the readable records after the damage are written to a file, one JSON \
object a line, so that they can be done again. Identifiers, subjects and keys that are personal \
are masked in both, as inspect does, unless --reveal is given.

With --give-up-after, the log is cut after that position, and gets a new log id. Every original \
file is kept beside, under its name and `.given-up.N`. If it is interrupted, it can be run again. \
A position that is not one of the ways out gives up more than necessary: it is rejected unless \
--give-up-readable is given.

The copy of a journal (carebook serve --journal) is not cut: move it away and start with an empty \
directory, which is filled from the stream.

Exit codes:
  0  nothing is damaged; or the log was cut after that position, and is verified
  1  failed, for example because no way out reaches that position, or a server
     holds the directory
  2  the arguments are wrong
  3  there is damage, and nothing was done about it
  5  it was written by another version of carebook, which is named")]
pub struct RecoverArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Gives up every record after this position, for good. It has to be one of the ways out.
    #[arg(long, value_name = "POSITION")]
    give_up_after: Option<u64>,
    /// With --give-up-after: also accepts a position that is not a way out, although more readable
    /// records are given up than necessary.
    #[arg(long, requires = "give_up_after")]
    give_up_readable: bool,
    /// Writes the readable records that are lost (with --give-up-after those after that position,
    /// else those of the best way out) to a new file, one JSON object a line. It must not lie in the
    /// data directory.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Shows names, contacts, addresses, accounts and free text, which are masked otherwise: in what
    /// is printed, and with --export in the file.
    #[arg(long)]
    reveal: bool,
    /// Prints JSON instead of tables.
    #[arg(long)]
    json: bool,
}

impl RecoverArgs {
    /// Reports, and recovers with --give-up-after.
    ///
    /// # Errors
    /// When there is damage and it was only reported; when the directory is held, or nothing can be recovered.
    pub fn run(self) -> Result<(), Failure> {
        self.recover().map_err(Failure::of_recover)
    }

    fn recover(&self) -> Result<(), Failure> {
        let storage = existing(&self.data)?;
        if let Some(file) = &self.export {
            expect_apart("--export", file, "the data directory", &self.data)?;
        }
        if self.give_up_after.is_some() {
            expect_no_copy_to_cut(&self.data)?;
        }
        let bar = progress_bar(0, "looking for damage");
        let surveyed = Salvage::survey_shown(storage, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let salvage = surveyed.map_err(|error| Failure::of_log(&error))?;
        match self.give_up_after {
            Some(position) => {
                // Checked before the export, which must contain only records that are given up.
                let reached = salvage.expect_way_to(position);
                reached.map_err(|error| Failure::of_log(&error))?;
                if !self.is_wanted(&salvage, position)? {
                    let sentence = format!(
                        "nothing is damaged: every record up to position {position} can be read; \
                         nothing was changed"
                    );
                    let log = hex(&salvage.log_id());
                    let first = salvage.ways().first().map_or(1, |way| way.first_position);
                    let kept = Kept {
                        positions: (first, position),
                        ..Kept::default()
                    };
                    return self.print_done(&log, &kept, &sentence);
                }
                self.export(&salvage, position)?;
                self.give_up(salvage, position)
            }
            None => {
                let best = salvage.ways().first().map_or(0, |way| way.keep_to);
                self.export(&salvage, best)?;
                self.look(&salvage)
            }
        }
    }

    /// Whether the directory should be cut at that position; one that gives up more than necessary
    /// needs the flag.
    fn is_wanted(&self, salvage: &Salvage, position: u64) -> Result<bool, Failure> {
        if salvage.damage().is_empty() && position == salvage.highest() {
            return Ok(false);
        }
        let ways = salvage.ways();
        let is_way = ways.iter().any(|way| way.keep_to == position);
        let Some(nearest) = ways.iter().rev().find(|way| way.keep_to >= position) else {
            // No way out reaches it: that was rejected before.
            return Ok(true);
        };
        if (is_way && !salvage.damage().is_empty()) || self.give_up_readable {
            return Ok(true);
        }
        let why = match salvage.damage().is_empty() {
            true => "nothing is damaged",
            false => "it is none of the ways out",
        };
        Err(Failure::other(format!(
            "giving up after position {position} is refused: {why}, and {} positions would be given \
             up that can be read, up to {}; --give-up-readable says that this is meant. Nothing was \
             changed",
            nearest.keep_to - position,
            nearest.keep_to
        )))
    }

    fn mask(&self) -> Mask {
        Mask {
            reveal: self.reveal,
        }
    }

    /// Writes the readable records after a position to the file, if one was given.
    fn export(&self, salvage: &Salvage, position: u64) -> Result<(), Failure> {
        let Some(file) = &self.export else {
            return Ok(());
        };
        let exported = export(salvage, position, file, self.mask())?;
        print_to_stderr(format_args!(
            "{exported} readable records after position {position} are in {}",
            file.display()
        ));
        Ok(())
    }

    fn look(&self, salvage: &Salvage) -> Result<(), Failure> {
        let ways: Vec<_> = salvage.ways();
        let mut costs = Vec::new();
        for way in &ways {
            costs.push(Cost::of(salvage, *way)?);
        }
        // An unreadable mark in a damaged directory must not prevent the report.
        let journal = journal_of(&self.data).ok().flatten();
        let printed = self.print(salvage, &ways, &costs, journal.as_deref());
        let next = match (&journal, &ways[..]) {
            (Some(stream), _) => format!("it is the copy of the journal {stream}: {WHEN_A_COPY}"),
            (None, []) => "restore a backup".to_owned(),
            (None, _) => "--give-up-after takes one of the ways out".to_owned(),
        };
        match salvage.damage().first() {
            None => printed,
            // Reported even if the output was closed.
            Some(first) => Err(Failure::DamagedWithAdvice(format!(
                "{}, offset {}: {}; nothing was changed; {next}",
                first.file, first.offset, first.what
            ))),
        }
    }

    fn print(
        &self,
        salvage: &Salvage,
        ways: &[WayOut],
        costs: &[Cost],
        journal: Option<&str>,
    ) -> Result<(), Failure> {
        let mut out = Output::new();
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
            let ways = ways.iter().zip(costs);
            let ways: Vec<_> = ways
                .map(|(way, cost)| way_json(self.mask(), way, cost))
                .collect();
            let found = json!({
                "damage": damage,
                "highestPosition": salvage.highest(),
                "endIsKnown": salvage.end_is_known(),
                "ways": ways,
                "journal": journal,
            });
            out.line(format_args!("{found:#}"))?;
        } else {
            self.print_table(&mut out, salvage, (ways, costs), journal)?;
        }
        out.flush()
    }

    fn print_table(
        &self,
        out: &mut Output,
        salvage: &Salvage,
        (ways, costs): (&[WayOut], &[Cost]),
        journal: Option<&str>,
    ) -> Result<(), Failure> {
        if salvage.damage().is_empty() {
            out.line(format_args!(
                "nothing is damaged: every record up to position {} can be read",
                salvage.highest()
            ))?;
            return Ok(());
        }
        out.line("damaged:")?;
        for found in salvage.damage() {
            let position = match found.position {
                Some(position) => format!(", position {position}"),
                None => String::new(),
            };
            out.line(format_args!(
                "  {}, offset {}{position}: {}",
                found.file, found.offset, found.what
            ))?;
        }
        if let Some(stream) = journal {
            out.line(format_args!(
                "way out: it is the copy of the journal {stream}: {WHEN_A_COPY}"
            ))?;
        } else if ways.is_empty() {
            return out.line("nothing can be recovered: restore a backup");
        }
        if !salvage.end_is_known() {
            out.line(format_args!(
                "there may have been records after position {}: the end of the log is not known",
                salvage.highest()
            ))?;
        }
        for (way, cost) in ways.iter().zip(costs) {
            out.line("")?;
            out.line(match journal {
                // Its missing records are in the stream.
                Some(_) => format!("of this directory alone, up to position {}:", way.keep_to),
                None => format!(
                    "way out: carebook recover --data {} --give-up-after {}",
                    as_argument(&self.data),
                    way.keep_to
                ),
            })?;
            out.pairs(cost.rows(*way))?;
            cost.print_names(self.mask(), out)?;
        }
        Ok(())
    }

    fn give_up(&self, salvage: Salvage, position: u64) -> Result<(), Failure> {
        let highest = salvage.highest();
        let bar = progress_bar(0, "writing what is kept");
        let done = salvage.give_up_after_shown(position, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let done = done.map_err(|error| {
            Failure::of_log(&error).with(format_args!(
                "It can be run again: carebook recover --data {} reports the state of the directory",
                as_argument(&self.data)
            ))
        })?;
        let sentence = format!("{} is recovered and verified", self.data.display());
        let kept = Kept {
            positions: (done.report.first_position, done.report.last_position),
            given_up: highest.saturating_sub(position),
            readable_before: done.readable_before,
            files: &done.kept,
        };
        self.print_done(&log_name(&done.report), &kept, &sentence)
            .map_err(|failure| failure.after(sentence))
    }

    fn print_done(&self, log: &str, kept: &Kept<'_>, sentence: &str) -> Result<(), Failure> {
        let (first, last) = kept.positions;
        let mut out = Output::new();
        if self.json {
            let done = json!({
                "logId": log,
                "firstPosition": first,
                "lastPosition": last,
                "givenUp": kept.given_up,
                "readableRecordsBefore": kept.readable_before,
                "kept": kept.files,
            });
            out.line(format_args!("{done:#}"))?;
            return out.flush();
        }
        out.pairs([
            ("log".to_owned(), log.to_owned()),
            ("first position".to_owned(), first.to_string()),
            ("last position".to_owned(), last.to_string()),
            ("positions given up".to_owned(), kept.given_up.to_string()),
        ])?;
        if kept.readable_before > 0 {
            out.line(format_args!(
                "{} readable records before position {first} are only in the files that are kept",
                kept.readable_before
            ))?;
        }
        for kept in kept.files {
            out.line(format_args!("kept: {kept}"))?;
        }
        out.line(sentence)?;
        out.flush()
    }
}

/// The content of a log after a recovery.
#[derive(Default)]
struct Kept<'a> {
    /// Its first position, and its last.
    positions: (u64, u64),
    /// How many positions were given up.
    given_up: u64,
    /// Readable records before its first position, which are no longer in the log.
    readable_before: u64,
    /// The files of the log before the recovery.
    files: &'a [String],
}
