//! Files that are read again while the server runs.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::base::panics::unless_it_panics;

/// Why files are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// SIGHUP.
    Signal,
    /// The interval has passed.
    Interval,
}

/// Starts a thread that calls `read` at SIGHUP and each `interval`. The thread is used for nothing else, since a disk
/// that hangs must block nothing else. A panic of `read` is logged, and `read` is called again as usual.
///
/// # Errors
/// When the thread cannot be started.
pub(super) fn reread(
    what: &'static str,
    interval: Duration,
    mut read: impl FnMut(Cause) + Send + 'static,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut hang_up = {
        let _inside = runtime.enter();
        signal(SignalKind::hangup())?
    };
    let thread = std::thread::Builder::new().name(what.to_owned());
    thread.spawn(move || {
        runtime.block_on(async {
            loop {
                let cause = tokio::select! {
                    _ = hang_up.recv() => Cause::Signal,
                    () = tokio::time::sleep(interval) => Cause::Interval,
                };
                if unless_it_panics(|| read(cause)).is_none() {
                    tracing::error!("re-reading {what} panicked: the last good value stays in use");
                }
            }
        });
    })?;
    Ok(())
}
