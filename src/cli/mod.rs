//! The command line: runs each command, and maps its result to an exit code.

mod backup_status;
mod copy_mark;
mod duration;
mod ending;
pub mod exit;
mod foreign_files;
pub mod journal;
mod manager;
pub mod nats;
pub mod offline;
pub mod open;
pub mod output;
mod path_checks;
mod printable;
pub mod remote;
mod reread;
pub mod runtime;
pub mod serve;
pub mod settings;
pub mod shell;
pub mod stderr;
mod table;
pub mod token;
pub mod traces;
pub mod trust;
mod whole_file;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::http::openapi;

/// The HTTP and JSON backend of a care-service platform: reservation payments, settlement,
/// branches and caregivers.
#[derive(Parser)]
#[command(
    name = "carebook",
    version,
    // Longer lines are hard to read.
    max_term_width = 100,
    after_help = "\
Examples:
  carebook serve --demo
  carebook serve --data /srv/carebook --listen 0.0.0.0:8080 \\
      --internal-listen 127.0.0.1:8081 --jwks jwks.json \\
      --issuer https://id.example.com --audience carebook
  carebook facts load facts.ndjson --url http://127.0.0.1:8080 \\
      --token-file token
  carebook events --url http://127.0.0.1:8080 --token-file token --follow
  carebook verify --data /srv/carebook
  carebook inspect records --data /srv/carebook --follow
  carebook backup --data /srv/carebook --to /backup/carebook-2026-11-20
  carebook compact --data /srv/carebook
  carebook outbox list --url http://127.0.0.1:8080 --token-file token

Exit codes:
  0  done
  1  failed, or the data directory is held by another process
  2  the arguments are wrong
  3  the log is damaged: file, offset and position are named
  4  verify, journal create, journal verify: a running server holds the data
     directory
  5  the log was written by another version of carebook, which is named; or,
     with --journal, another process has taken the journal over"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the service.
    Serve(Box<serve::ServeArgs>),
    // Its own arguments bring the help text.
    #[allow(missing_docs)]
    Token(Box<token::TokenArgs>),
    /// Prints the events of a running server, and follows new ones.
    Events(remote::events::EventsArgs),
    /// Loads reference facts, or shows what they look like.
    Facts(remote::facts::FactsArgs),
    /// Reads a whole log, checks every byte of it, replays it, and reports what it found.
    Verify(offline::verify::VerifyArgs),
    /// Shows what is in a data directory, also of a running server: commits, histories, keys,
    /// counts.
    Inspect(offline::inspect::InspectArgs),
    /// Copies the data directory of a running or a stopped server, and checks the copy.
    Backup(offline::backup::BackupArgs),
    /// Reports what of a damaged data directory can be recovered, and at what cost; recovers it
    /// with --give-up-after.
    Recover(offline::recover::RecoverArgs),
    /// Makes a new data directory from a backup, at a position or a time.
    Restore(offline::restore::RestoreArgs),
    /// Shows which messages to other systems wait or are dead; retries or skips them.
    Outbox(remote::outbox::OutboxArgs),
    /// Creates, shows, fences and checks a journal that is a replicated stream.
    Journal(journal::JournalCommandArgs),
    /// Shortens the log of a stopped server: snapshots take over its content.
    Compact(offline::compact::CompactArgs),
    /// Prints the API document (OpenAPI 3.1), which `/openapi.json` serves.
    #[command(after_help = "Examples:\n  carebook openapi > carebook.json")]
    Openapi,
    /// Prints what a shell needs to complete the program's arguments.
    Completions(shell::CompletionsArgs),
    /// Writes the manual pages of the program and its commands.
    Man(shell::ManArgs),
}

/// Returns all commands with their flags and environment variables.
#[must_use]
pub fn command() -> clap::Command {
    settings::with_environment(Arguments::command())
}

/// Returns the parsed command; or an exit code, if the message is already printed.
fn parse_arguments() -> Result<Command, ExitCode> {
    let mut command = command();
    let given = settings::Given::read(&command, std::env::args_os().collect())
        .map_err(exit::Failure::report)?;
    let parsed = command
        .try_get_matches_from_mut(&given.arguments)
        .and_then(|matches| {
            let mut chosen = Arguments::from_arg_matches(&matches)
                .map_err(|error| error.format(&mut command))?
                .command;
            if let Command::Serve(serve) = &mut chosen {
                let unknown = settings::unknown_variables(&command);
                let settings = given.settings(&command, &matches);
                serve.settings.set_sources(settings, unknown);
            }
            Ok(chosen)
        });
    parsed.map_err(|error| {
        let error = settings::shown::masked(error);
        let printed = error.print().and_then(|()| std::io::stdout().flush());
        match printed {
            // A requested help text is output like any other.
            Err(why) if !error.use_stderr() => return exit::Failure::of_output(why).report(),
            // If an error cannot be printed, the exit code still reports it.
            _ => {}
        }
        for line in given.explain(&command, &error) {
            stderr::print_to_stderr(line);
        }
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
    })
}

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    disable_unrequested_huge_pages();
    serve::signals::ignore_file_size_signal();
    let parsed = match parse_arguments() {
        Ok(command) => command,
        Err(code) => return code,
    };
    let ended = match parsed {
        Command::Serve(arguments) => arguments.run(),
        Command::Token(arguments) => arguments
            .run(SystemTime::now(), &mut std::io::stdout())
            .map_err(of_token),
        Command::Events(arguments) => arguments.run(),
        Command::Facts(arguments) => arguments.run(),
        Command::Verify(arguments) => arguments.run(),
        Command::Inspect(arguments) => arguments.run(),
        Command::Backup(arguments) => arguments.run(),
        Command::Recover(arguments) => arguments.run(),
        Command::Restore(arguments) => arguments.run(),
        Command::Outbox(arguments) => arguments.run(),
        Command::Journal(arguments) => arguments.run(),
        Command::Compact(arguments) => arguments.run(),
        Command::Openapi => print_document(),
        Command::Completions(arguments) => arguments.run(command()),
        Command::Man(arguments) => arguments.run(command()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Converts a failure of `carebook token`.
fn of_token(error: token::TokenError) -> exit::Failure {
    match error {
        token::TokenError::Output(source) => exit::Failure::of_output(source),
        token::TokenError::OutputAfter { done, source } => {
            exit::Failure::of_output(source).after(done)
        }
        error => exit::Failure::from_error(error),
    }
}

/// Prints the API document.
fn print_document() -> Result<(), exit::Failure> {
    let mut out = output::Output::new();
    out.line(format_args!("{:#}", openapi::document()))?;
    out.flush()
}

/// The file with the kernel's setting for huge pages: always, only on request, or never.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Restricts huge pages to the tables, which request them. A huge page has to be cleared while a thread waits for a
/// byte of it, and in a virtual machine the host has to find and clear it, too: that was measured to delay a lane,
/// and all its requests, by 5 ms for each 2 MiB of new memory.
///
/// If the system gives huge pages without a request, this process uses none at all: it cannot choose where.
fn disable_unrequested_huge_pages() {
    let given = std::fs::read_to_string(HUGE_PAGES);
    if given.is_ok_and(|given| !given.contains("[always]")) {
        return;
    }
    // A kernel without this call has no huge pages.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    /// What each command's help says at its end, as it is written and as 80 columns show the help.
    fn helps() -> Vec<(String, String, String)> {
        let (mut helps, mut commands) = (Vec::new(), vec![Arguments::command()]);
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands().cloned());
            let name = command.get_name().to_owned();
            let told = command.get_after_help().map(ToString::to_string);
            let shown = command.term_width(80).render_long_help().to_string();
            helps.push((name, told.unwrap_or_default(), shown));
        }
        assert!(helps.len() > 25, "{}", helps.len());
        helps
    }

    #[test]
    fn examples_and_lists_of_a_help_are_on_80_columns_as_they_are_written() {
        for (name, told, shown) in helps() {
            for line in told.lines().filter(|line| line.starts_with("  ")) {
                assert!(shown.lines().any(|shown| shown == line), "{name}: {line}");
            }
            for line in shown.lines() {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
        }
    }

    #[test]
    fn an_example_of_more_than_a_line_can_be_pasted() {
        let mut continued = 0;
        for (name, told, _) in helps() {
            let examples = told.split("Exit codes:").next().unwrap_or_default();
            let mut before = "";
            for line in examples.lines() {
                // Examples are indented by two, and by four below a title of their own.
                let goes_on = line.starts_with("      ");
                assert_eq!(goes_on, before.ends_with(" \\"), "{name}: {line}");
                continued += usize::from(goes_on);
                before = line;
            }
            assert!(!before.ends_with('\\'), "{name}: {before}");
        }
        assert!(continued > 20, "{continued}");
    }

    #[test]
    fn a_paragraph_of_a_help_is_one_line_which_is_wrapped_once() {
        for (name, told, _) in helps() {
            let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
            for (line, next) in told.lines().zip(told.lines().skip(1)) {
                assert!(!is_text(line) || !is_text(next), "{name}: {line}");
            }
        }
    }
}
