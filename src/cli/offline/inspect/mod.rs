//! `carebook inspect`: shows the content of a data directory, also of a running server, without side effects: it
//! takes no lock, writes nothing, and never makes the server wait.
//!
//! Only commits that are proved durable are shown. For an acknowledged command that is so at the latest 50 ms after
//! the log's last write.

mod backwards;
mod common_args;
mod counts;
mod history;
pub(super) mod ids;
mod keys;
pub(super) mod mask;
pub(super) mod records;
mod resource;

use clap::{Args, Subcommand};

use crate::cli::exit::Failure;

/// Arguments of `carebook inspect`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook inspect records --data /srv/carebook --limit 20
  carebook inspect records --data /srv/carebook --follow
  carebook inspect resource settlement-statement 0199f0c2-… --data /srv/carebook
  carebook inspect resource settlement-statement 0199f0c2-… \\
      --data /srv/carebook --backwards
  carebook inspect keys --data /srv/carebook --actor hq-1
  carebook inspect counts --data /srv/carebook
  carebook inspect records --data /srv/carebook --archive /archive --to 100

It works on the directory of a running or a stopped server and on copies, takes no lock and \
writes nothing. With --archive, segments that compactions have moved there are shown as well. \
Personal data is masked unless --reveal is given.

Exit codes:
  0  done
  1  failed, for example because there is no log
  2  the arguments are wrong
  3  the log is damaged: file, offset and position are named
  5  it was written by another version of carebook, which is named")]
pub struct InspectArgs {
    #[command(subcommand)]
    command: InspectCommand,
}

#[derive(Subcommand)]
enum InspectCommand {
    /// Lists commits: what changed, when, by whom, with which idempotency key.
    Records(Box<records::RecordsArgs>),
    /// Lists a resource's whole history: each revision, and how it differs from the one before.
    Resource(resource::ResourceArgs),
    /// Lists idempotency keys, and their stored responses.
    Keys(keys::KeysArgs),
    /// Counts what is in the log: resources, commits, bytes, files.
    Counts(counts::CountsArgs),
}

impl InspectArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// When the log is damaged, does not exist, or lacks the requested data.
    pub fn run(self) -> Result<(), Failure> {
        match self.command {
            InspectCommand::Records(arguments) => arguments.run(),
            InspectCommand::Resource(arguments) => arguments.run(),
            InspectCommand::Keys(arguments) => arguments.run(),
            InspectCommand::Counts(arguments) => arguments.run(),
        }
    }
}
