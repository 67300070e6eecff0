//! A server's logs on standard error, which may be a pipe that is not read. So lines are queued for a thread; when
//! that cannot write them, they are dropped and counted, and nothing else waits.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::cli::stderr::print_json_lines;
use crate::http::access_log::{AccessLog, LINES_MAX, LogForm};

/// The flags of logs.
#[derive(Args)]
pub struct LogArgs {
    /// The form of the lines on standard error.
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    log_format: LogFormat,
    /// Writes a line for each request, on standard error too.
    #[arg(long)]
    access_log: bool,
}

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object on each line.
    Json,
}

/// Default filter of the log, without `RUST_LOG`. h2 closes the connection of a peer that resets its streams quickly,
/// with a warning each time, so any peer could fill the log with them.
const DEFAULT_FILTER: &str = "info,h2=error";

/// Maximum time that [`flush`] waits.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(250);

/// Number of lines that were queued; `WRITTEN` counts those that were written.
static QUEUED: AtomicUsize = AtomicUsize::new(0);
static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// The logs. When this is dropped, queued lines are written, for a second at most.
pub struct Logs {
    /// The access log, if there is one.
    pub access: Option<Arc<AccessLog>>,
    /// Counts the lost lines of the service's other log.
    pub lost: ErrorCounter,
    guards: Vec<WorkerGuard>,
}

/// A writer that counts the lines written through it.
#[derive(Clone)]
struct Counting<W>(W, &'static AtomicUsize);

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.write(bytes);
        self.1.fetch_add(1, Ordering::Release);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Whether standard error gets colours: only a terminal does, unless `NO_COLOR` is set: <https://no-color.org>.
fn are_colours_wanted() -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !is_refused
}

/// Waits until all lines so far are written, but not longer than `FLUSH_TIMEOUT`.
pub fn flush() {
    let handed = QUEUED.load(Ordering::Acquire);
    let until = Instant::now() + FLUSH_TIMEOUT;
    while WRITTEN.load(Ordering::Acquire) < handed && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the filter that `RUST_LOG` sets, or the default one; and why it cannot be used, if it cannot.
fn filter(value: Option<OsString>) -> (EnvFilter, Option<String>) {
    let usual = || EnvFilter::new(DEFAULT_FILTER);
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return (usual(), None);
    };
    let Ok(value) = value.into_string() else {
        return (usual(), Some("it is not UTF-8".to_owned()));
    };
    match EnvFilter::try_new(value) {
        Ok(filter) => (filter, None),
        Err(error) => (usual(), Some(error.to_string())),
    }
}

impl LogArgs {
    /// Starts logging to standard error.
    #[must_use]
    pub fn start(&self) -> Logs {
        let (filter, unusable) = filter(std::env::var_os(EnvFilter::DEFAULT_ENV));
        // ractor's spans at INFO would halve the throughput.
        let filter = filter
            .add_directive("ractor=warn".parse().expect("a constant directive parses"))
            // The publisher itself reports these events, less often.
            .add_directive(
                "async_nats=off"
                    .parse()
                    .expect("a constant directive parses"),
            );
        let (lines, guard) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(LINES_MAX)
            .thread_name("log")
            .finish(Counting(io::stderr(), &WRITTEN));
        let lost = lines.error_counter();
        let lines = Counting(lines, &QUEUED);
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(move || lines.clone())
            // If standard error is closed, errors of logging are not logged either.
            .log_internal_errors(false);
        let _ = match self.log_format {
            LogFormat::Text => log.with_ansi(are_colours_wanted()).try_init(),
            LogFormat::Json => log
                .json()
                .flatten_event(true)
                .with_span_list(false)
                .try_init(),
        };
        if self.log_format == LogFormat::Json {
            print_json_lines();
        }
        if let Some(error) = unusable {
            tracing::warn!(
                error,
                "RUST_LOG is invalid and ignored: the default filter applies"
            );
        }
        let mut logs = Logs {
            access: None,
            lost,
            guards: vec![guard],
        };
        if self.access_log {
            let form = match self.log_format {
                LogFormat::Text => LogForm::Text,
                LogFormat::Json => LogForm::Json,
            };
            let (access, guard) = AccessLog::new(form, io::stderr());
            logs.access = Some(Arc::new(access));
            logs.guards.push(guard);
        }
        logs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unusable_filter_is_reported_and_it_or_an_empty_one_means_default() {
        for (told, wanted, is_told) in [
            (None, DEFAULT_FILTER, false),
            (Some(""), DEFAULT_FILTER, false),
            (Some("debug"), "debug", false),
            (Some("a=b=c"), DEFAULT_FILTER, true),
        ] {
            let (filter, unusable) = filter(told.map(OsString::from));
            let usual = EnvFilter::new(wanted).to_string();
            assert_eq!(filter.to_string(), usual, "{told:?}");
            assert_eq!(unusable.is_some(), is_told, "{told:?}: {unusable:?}");
        }
    }

    #[test]
    fn warnings_of_h2_that_peers_can_cause_are_not_logged_by_default() {
        let log = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(DEFAULT_FILTER))
            .with_writer(io::sink)
            .finish();
        tracing::subscriber::with_default(log, || {
            use tracing::{Level, enabled};
            assert!(!enabled!(target: "h2::proto::streams::recv", Level::WARN));
            assert!(enabled!(target: "h2::proto::streams::recv", Level::ERROR));
            assert!(enabled!(target: "hyper::proto", Level::WARN));
            assert!(enabled!(Level::INFO));
            assert!(!enabled!(Level::DEBUG));
        });
    }
}
