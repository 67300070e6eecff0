//! Signals to a server: stop, take a snapshot, read the certificate again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::key_set::KeySetAge;
use super::logging::flush;
use crate::base::time::Timestamp;
use crate::cli::manager;
use crate::cli::reread::{Cause, reread};
use crate::engine::Engine;
use crate::engine::clock::{Clock as _, SystemClock};
use crate::http::tls::Tls;

/// Interval at which the certificate's files are checked.
const CERTIFICATE_INTERVAL: Duration = Duration::from_secs(10);
/// How often it is told that the files of the certificate cannot be used, where nothing else is to be told of them.
const FAULT_INTERVAL: Duration = Duration::from_secs(3_600);

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

/// The expiry of the certificate in use that was told last.
#[derive(Default)]
struct ToldExpiry(Option<Timestamp>);

impl ToldExpiry {
    /// Returns the expiry if it is to be told: when it is new, and whenever it `is_asked_for`.
    fn due(&mut self, ended: Option<Timestamp>, is_asked_for: bool) -> Option<Timestamp> {
        let told = std::mem::replace(&mut self.0, ended);
        ended.filter(|_| is_asked_for || told != ended)
    }

    /// Logs a warning if the certificate's expiry is to be told.
    fn warn(&mut self, tls: &Tls, is_asked_for: bool) {
        if let Some(ended) = self.due(expired(tls), is_asked_for) {
            tracing::warn!(%ended, "the certificate has expired: clients refuse it");
        }
    }
}

/// Why the files of the certificate cannot be used, as it was told last, and when.
#[derive(Default)]
struct ToldFault(Option<(String, Instant)>);

impl ToldFault {
    /// Whether this fault is to be told: when it is new, whenever it `is_asked_for`, and once an hour.
    fn is_due(&mut self, fault: String, is_asked_for: bool, now: Instant) -> bool {
        let is_told = self.0.as_ref().is_some_and(|(told, at)| {
            *told == fault && now.saturating_duration_since(*at) < FAULT_INTERVAL
        });
        if is_told && !is_asked_for {
            return false;
        }
        self.0 = Some((fault, now));
        true
    }
}

/// Reads the certificate again at SIGHUP and every 10 seconds, and warns when the one in use has expired (once) and while
/// the files cannot be used (once an hour); at each SIGHUP of both. This has a thread of its own: a disk that hangs must
/// block nothing else.
pub(super) fn keep_certificate_fresh(tls: Arc<Tls>) -> std::io::Result<()> {
    let mut told_expiry = ToldExpiry::default();
    let mut told_fault = ToldFault::default();
    told_expiry.warn(&tls, true);
    reread("certificate", CERTIFICATE_INTERVAL, move |cause| {
        let was_usable = tls.figures().is_usable;
        let is_asked_for = cause == Cause::Signal;
        let reloaded = tls.reload();
        match &reloaded {
            Ok(false) if was_usable => {}
            Ok(false) => tracing::info!("the certificate in use can be read again"),
            Ok(true) => tracing::info!("the certificate was replaced"),
            Err(error) => {
                if told_fault.is_due(error.to_string(), is_asked_for, Instant::now()) {
                    tracing::warn!(
                        %error,
                        "the certificate cannot be read: the last good one stays in use"
                    );
                }
            }
        }
        if reloaded.is_ok() {
            told_fault = ToldFault::default();
        }
        let is_replaced = matches!(reloaded, Ok(true));
        told_expiry.warn(&tls, is_replaced || is_asked_for);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_told_when_it_is_new_and_whenever_it_is_asked_for() {
        let [first, second] = [1_000, 2_000].map(Timestamp::from_millis);
        let mut told = ToldExpiry::default();
        for (ended, is_asked_for, due) in [
            (None, true, None),
            (None, false, None),
            // It expires while it is served.
            (Some(first), false, Some(first)),
            (Some(first), false, None),
            (Some(first), true, Some(first)),
            (Some(first), false, None),
            // Another one takes its place, which has expired, too; and one that has not.
            (Some(second), false, Some(second)),
            (None, true, None),
            (Some(second), false, Some(second)),
        ] {
            assert_eq!(told.due(ended, is_asked_for), due, "{ended:?}");
        }
    }

    #[test]
    fn a_fault_of_the_files_is_told_when_it_is_new_or_asked_for_and_once_an_hour() {
        let start = Instant::now();
        let mut told = ToldFault::default();
        for (fault, is_asked_for, seconds, is_due) in [
            ("missing", false, 0, true),
            ("missing", false, 10, false),
            ("empty", false, 20, true),
            ("empty", true, 30, true),
            ("empty", false, 40, false),
            ("empty", false, 3_629, false),
            ("empty", false, 3_630, true),
            ("empty", false, 3_640, false),
        ] {
            let now = start + Duration::from_secs(seconds);
            let is_told = told.is_due(fault.to_owned(), is_asked_for, now);
            assert_eq!(is_told, is_due, "{fault} after {seconds} s");
        }
    }
}
