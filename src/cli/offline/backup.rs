//! `carebook backup`: copies the data directory of a running server, or of a stopped one, and
//! checks the copy.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::cli::backup_status;
use crate::cli::exit::Failure;
use crate::cli::open::progress_bar;
use crate::cli::output::{Output, empty_directory, existing, unfinished};
use crate::cli::path_checks::{expect_apart, is_within};
use crate::cli::stderr::print_to_stderr;
use crate::engine::clock::{Clock as _, SystemClock};

/// What the verification of a copy has shown.
const COMPARED: &str =
    "all its records and snapshots were read, and have the checksums and digests of the source";

/// Arguments of `carebook backup`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook backup --data /srv/carebook --to /backup/carebook-2026-11-20
  carebook backup --data /srv/carebook --to /backup/today --json \\
      | jq .lastPosition
  carebook backup --data /srv/carebook --to /backup/today \\
      --status /var/lib/backups/carebook.json

The server need not be stopped, and is not disturbed: the copy has everything that was durable \
when the command began, and nothing that is not. It continues when the server is restarted \
meanwhile. The copy is verified: all its records and snapshots are read, and their checksums and \
digests compared with those of the source. The meaning of the records is not checked: `carebook verify` replays them. \
An interrupted copy is not accepted as a data directory: remove it and begin again. `carebook restore` makes a data \
directory from a copy.

With --status it records the result in a file, which `carebook serve --backup-status` reads for \
its metrics. It lies neither in the data directory nor in the copy; a file with other content is \
refused before anything is copied.

Exit codes:
  0  the copy is complete and verified
  1  failed, for example because --to is not empty
  2  the arguments are wrong
  3  the data directory is damaged: file, offset and position are named
  5  it was written by another version of carebook, which is named")]
pub struct BackupArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Where the copy goes: a directory that is empty (but for lost+found), or does not exist yet,
    /// and not in the data directory.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// A file that records the newest successful backup, and how many have failed. Created when it
    /// does not exist.
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl BackupArgs {
    /// Copies the directory, and verifies the copy.
    ///
    /// # Errors
    /// When the directory is damaged, or the copy cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        self.expect_status_beside()?;
        self.warn_of_status();
        let copied = self.copy();
        let noted = self.note(copied.as_ref().ok());
        let backup = match (copied, noted) {
            (Ok(backup), Ok(())) => backup,
            (Ok(_), Err(why)) => return Err(Failure::other(why).after(self.done())),
            (Err(failure), Ok(())) => return Err(failure),
            (Err(failure), Err(why)) => return Err(failure.with(why)),
        };
        self.print(&backup)
            .map_err(|failure| failure.after(self.done()))
    }

    fn copy(&self) -> Result<wal::Backup, Failure> {
        expect_apart("--to", &self.to, "the data directory", &self.data)?;
        let source = existing(&self.data)?;
        let target = empty_directory(&self.to)?;
        let bar = progress_bar(0, "copying");
        let copied = wal::backup(source.as_ref(), &target, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        copied.map_err(|error| unfinished(&error, target.as_ref(), &self.to))
    }

    /// Rejects a --status file that holds something else, or that lies in a log's directory.
    fn expect_status_beside(&self) -> Result<(), Failure> {
        let Some(file) = &self.status else {
            return Ok(());
        };
        let shown = file.display();
        for directory in [&self.data, &self.to] {
            if is_within(file, directory) {
                return Err(Failure::other(format!(
                    "--status {shown} lies in {}: name a file elsewhere. Nothing was copied",
                    directory.display()
                )));
            }
        }
        backup_status::expect_status(file).map_err(|error| {
            Failure::other(format!(
                "--status {shown} cannot be used: {error}; name another file, or remove it. Nothing was \
                 copied"
            ))
        })
    }

    /// Warns before the copy if the --status file cannot be written. The copy is made nevertheless, since it is worth
    /// more than the file.
    fn warn_of_status(&self) {
        let Some(file) = &self.status else {
            return;
        };
        if let Err(error) = backup_status::expect_writable(file) {
            print_to_stderr(format_args!(
                "carebook: --status {} cannot be written as yet: {error}; the copy is made all the same",
                file.display()
            ));
        }
    }

    /// Records the result in the --status file, if there is one.
    fn note(&self, backup: Option<&wal::Backup>) -> Result<(), String> {
        let Some(file) = &self.status else {
            return Ok(());
        };
        let now = SystemClock::default().now();
        backup_status::note(file, backup, now)
            .map_err(|error| format!("--status {} cannot be written: {error}", file.display()))
    }

    fn done(&self) -> String {
        format!("the copy in {} is verified", self.to.display())
    }

    fn print(&self, backup: &wal::Backup) -> Result<(), Failure> {
        let mut out = Output::new();
        let log = crate::base::hex::hex(&backup.log_id);
        if self.json {
            let made = json!({
                "logId": log,
                "firstPosition": backup.first_position,
                "lastPosition": backup.last_position,
                "files": backup.files,
                "bytes": backup.bytes,
                "directory": self.to.display().to_string(),
            });
            out.line(format_args!("{made:#}"))?;
            return out.flush();
        }
        out.pairs([
            ("log".to_owned(), log),
            ("last position".to_owned(), backup.last_position.to_string()),
            ("files".to_owned(), backup.files.to_string()),
            ("bytes".to_owned(), backup.bytes.to_string()),
        ])?;
        out.line(format_args!("{}: {COMPARED}", self.done()))?;
        out.flush()
    }
}
