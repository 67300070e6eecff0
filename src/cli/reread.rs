//! Files that are read again while the server runs.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::base::panics::unless_it_panics;

/// Starts a thread that calls `read` at SIGHUP and each `interval`. The thread is used for nothing else, since a disk
/// that hangs must block nothing else. A panic of `read` is logged, and `read` is called again as usual.
///
/// # Errors
/// When the thread cannot be started.
pub(super) fn reread(
    what: &'static str,
    interval: Duration,
    mut read: impl FnMut() + Send + 'static,
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
                tokio::select! {
                    _ = hang_up.recv() => {}
                    () = tokio::time::sleep(interval) => {}
                }
                if unless_it_panics(&mut read).is_none() {
                    tracing::error!("re-reading {what} panicked: the last good value stays in use");
                }
            }
        });
    })?;
    Ok(())
}
