//! Ends a server whose log has failed.

use std::sync::Arc;
use std::time::Duration;

use super::exit::{DAMAGED, FAILED, OF_ANOTHER};
use super::manager;
use super::stderr::print_to_stderr;
use crate::engine::OnFatal;
use crate::stream::error::StreamError;
use crate::stream::handle::JournalHandle;

/// How long responses may still be sent after the log has failed.
const RESPONSES_TIMEOUT: Duration = Duration::from_millis(300);

/// Returns the handler of a failed log. Waiting commands are answered `outcome_unknown`, and then the process ends,
/// because its memory may be ahead of the disk. Logging must not delay that: standard error may not be read.
pub(super) fn end_the_process() -> OnFatal {
    Box::new(|error| end(&error.to_string(), code_of(error)))
}

/// Returns the same handler for a journal that another process may take over; that end has its own exit code.
pub(super) fn end_the_process_of(link: Arc<JournalHandle>) -> OnFatal {
    Box::new(move |error| match link.ended() {
        Some(fenced) if fenced.is_fenced() => end(&fenced.to_string(), OF_ANOTHER),
        Some(damaged) if damaged.is_damage() => end(&damaged.to_string(), DAMAGED),
        Some(StreamError::Stopped) | None => end(&error.to_string(), code_of(error)),
        Some(why) => end(&why.to_string(), FAILED),
    })
}

/// Returns the exit code of a server whose log failed with this error.
fn code_of(error: &wal::Error) -> u8 {
    match error {
        wal::Error::Moved { .. } => DAMAGED,
        _ => FAILED,
    }
}

/// Waits until [`end`], which the log's thread has called, ends the process with its exit code. Returns if it does not.
pub(super) fn wait_for_the_end() {
    std::thread::sleep(RESPONSES_TIMEOUT * 3);
}

/// Ends the process for this reason with this exit code, once the last responses are sent.
pub(super) fn end(error: &str, code: u8) {
    let spawned = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(RESPONSES_TIMEOUT);
        std::process::exit(code.into());
    });
    if spawned.is_err() {
        std::process::exit(code.into());
    }
    tracing::error!(%error, "the log has failed: the process ends");
    manager::status(&format!("the log has failed: {error}"));
    print_to_stderr(format_args!("carebook: the log has failed: {error}"));
}
