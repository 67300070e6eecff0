//! The journal on a stream: opening a directory as its copy, and the operator's commands.

mod args;
mod candidate;
mod copy_guard;
mod create;
mod fence;
mod import;
mod node;
mod opening;
mod reading;
mod snapshot_upload;
mod status;
mod stop;
mod verify;

pub(super) use verify::Compared;

pub(super) use args::PlaceArgs;
pub(super) use copy_guard::{expect_no_copy_to_cut, expect_no_journal, journal_of};
pub use node::Node;
pub(super) use node::Running;
pub use opening::JournalArgs;

use std::path::Path;

use clap::{Args, Subcommand};

use super::exit::Failure;
use super::trust::TrustArgs;

/// Arguments of `carebook journal`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook journal create --journal nats://a:4222,b:4222,c:4222 \\
      --journal-name main
  carebook journal status --journal nats://a:4222,b:4222,c:4222 \\
      --journal-name main
  carebook journal verify --journal nats://a:4222,b:4222,c:4222 \\
      --journal-name main --data /srv/carebook
  carebook journal fence --journal nats://a:4222,b:4222,c:4222 \\
      --journal-name main")]
pub struct JournalCommandArgs {
    #[command(subcommand)]
    command: JournalCommand,
}

#[derive(Subcommand)]
enum JournalCommand {
    /// Creates the stream of a new journal, with the required settings.
    Create(create::CreateArgs),
    /// Shows the stream, its servers, its end, and the writer.
    Status(status::StatusArgs),
    /// Stops the present writer, and all before it.
    Fence(fence::FenceArgs),
    /// Reads the whole stream and checks every message and the chain.
    Verify(verify::VerifyArgs),
}

/// Compares the records of a directory with the journal's.
///
/// # Errors
/// When the servers are not reached, or the stream differs from the directory.
pub(super) fn compare(
    place: &PlaceArgs,
    trust: &TrustArgs,
    data: &Path,
) -> Result<Compared, Failure> {
    let connection = place.connect(&trust.config()?)?;
    opening::checked(&connection, place.journal_replicas)?;
    verify::compare(&connection, data)
}

impl JournalCommandArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(self) -> Result<(), Failure> {
        match self.command {
            JournalCommand::Create(args) => args.run(),
            JournalCommand::Status(args) => args.run(),
            JournalCommand::Fence(args) => args.run(),
            JournalCommand::Verify(args) => args.run(),
        }
    }
}
