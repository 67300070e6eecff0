//! How a server ends whose log has failed.

use std::time::Duration;

use super::manager;
use super::tell::tell;
use crate::engine::OnFatal;

/// How long responses may still leave after the log has failed.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// When the log fails, waiting commands are answered `outcome_unknown`, and then the process ends:
/// its memory may be ahead of the disk. Nothing that is said of it can hold that up: nobody may be
/// reading standard error.
pub(super) fn end_the_process() -> OnFatal {
    Box::new(|error| {
        let spawned = std::thread::Builder::new().spawn(|| {
            std::thread::sleep(LAST_WORDS);
            std::process::exit(1);
        });
        if spawned.is_err() {
            std::process::exit(1);
        }
        tracing::error!(%error, "the log has failed: the process ends");
        manager::status(&format!("the log has failed: {error}"));
        tell(format_args!("carebook: the log has failed: {error}"));
    })
}
