//! Signals to a server: stop, take a snapshot, read the certificate again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::key_set::KeySetAge;
use super::logging::flush;
use crate::base::reminder::Reminder;
use crate::base::time::Timestamp;
use crate::cli::manager;
use crate::cli::reread::{Cause, reread};
use crate::engine::Engine;
use crate::engine::clock::{Clock as _, SystemClock};
use crate::http::tls::Tls;

/// Interval at which the certificate's files are checked.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(10);

/// A guard for the start of the service: until it is dropped, SIGTERM and SIGINT end the process at once. No command
/// was acknowledged yet, and a start may be interrupted anywhere. SIGUSR1 does nothing yet: there is nothing to take a
/// snapshot of.
pub(super) struct Starting(Arc<AtomicBool>);

impl Starting {
    pub(super) fn watched() -> std::io::Result<Self> {
        let is_starting = Arc::new(AtomicBool::new(true));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (mut terminate, mut interrupt) = {
            let _inside = runtime.enter();
            // A handler stays installed even if nothing listens.
            let _ = signal(SignalKind::user_defined1())?;
            (
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
            )
        };
        let watched = Arc::clone(&is_starting);
        let thread = std::thread::Builder::new().name("starting".to_owned());
        thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            });
            // After the start, other listeners handle the signals.
            if watched.load(Ordering::Acquire) {
                tracing::info!("stop requested during the start");
                flush();
                std::process::exit(0);
            }
        })?;
        Ok(Self(is_starting))
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Makes a write beyond the process's limit on file sizes (`ulimit -f`) fail, like one on a full disk. By default the
/// signal ends the process; that stays so if the handler cannot be set up.
pub(in crate::cli) fn ignore_file_size_signal() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    if let Ok(runtime) = runtime {
        let _inside = runtime.enter();
        // A handler stays installed even if nothing listens.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    }
}

/// Sends true on SIGTERM or SIGINT; requests a snapshot on SIGUSR1. SIGHUP is handled elsewhere, but must not end the
/// process when nothing else handles it. Also checks the age of the key set regularly.
pub(super) fn listen_to_signals(
    engine: &Arc<Engine>,
    age: Option<KeySetAge>,
    sender: watch::Sender<bool>,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let engine = Arc::downgrade(engine);
    let (mut terminate, mut interrupt, mut hang_up, mut user) = {
        let _inside = runtime.enter();
        (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::user_defined1())?,
        )
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                loop {
                    let pause = age.as_ref().map_or(Duration::MAX, KeySetAge::next_check);
                    tokio::select! {
                        _ = terminate.recv() => break,
                        _ = interrupt.recv() => break,
                        _ = hang_up.recv() => {}
                        _ = user.recv() => {
                            if let Some(engine) = engine.upgrade() {
                                engine.request_snapshot();
                            }
                            continue;
                        }
                        () = tokio::time::sleep(pause) => {}
                    }
                    if let Some(age) = &age {
                        age.expire_if_too_old();
                    }
                }
            });
            tracing::info!("stop requested");
            manager::stopping();
            // If sending fails, the server has ended already.
            let _ = sender.send(true);
        })?;
    Ok(())
}

/// Returns when the certificate expired, if it has.
pub(super) fn expired(tls: &Tls) -> Option<Timestamp> {
    tls.expired(SystemClock::default().now())
}

/// Reads the certificate again at SIGHUP and every 10 seconds. It warns while the one in use has expired, and while the
/// files cannot be used. This has a thread of its own: a disk that hangs must block nothing else.
pub(super) fn keep_certificate_fresh(tls: Arc<Tls>) -> std::io::Result<()> {
    let (mut of_expiry, mut of_files) = (Reminder::default(), Reminder::default());
    let mut warn_of_expiry = move |tls: &Tls, is_asked_for| {
        let ended = expired(tls);
        if of_expiry.is_due(ended, is_asked_for, Instant::now())
            && let Some(ended) = ended
        {
            tracing::warn!(%ended, "the certificate has expired: clients refuse it");
        }
    };
    warn_of_expiry(&tls, true);
    reread("certificate", CERTIFICATE_INTERVAL, move |cause| {
        let was_usable = tls.figures().is_usable;
        let is_asked_for = cause == Cause::Signal;
        let reloaded = tls.reload();
        match &reloaded {
            Ok(false) if was_usable => {}
            Ok(false) => tracing::info!("the certificate in use can be read again"),
            Ok(true) => tracing::info!("the certificate was replaced"),
            Err(_) => {}
        }
        let fault = reloaded.as_ref().err().map(ToString::to_string);
        if of_files.is_due(fault, is_asked_for, Instant::now())
            && let Err(error) = &reloaded
        {
            tracing::warn!(%error, "the certificate cannot be read: the last good one stays in use");
        }
        let is_replaced = matches!(reloaded, Ok(true));
        warn_of_expiry(&tls, is_replaced || is_asked_for);
    })
}
