//! Reports to the service manager, for example systemd (`sd_notify(3)`): that the service is ready,
//! alive, or ending. Without `NOTIFY_SOCKET` in the environment nothing is sent.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::sync::watch;

use crate::engine::Engine;
use crate::engine::pulse::Stuck;

/// Number of keep-alives that are sent within a manager's watchdog timeout.
const KEEP_ALIVES_PER_TIMEOUT: u32 = 4;

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager cannot be notified");
    }
}

/// Reports a status text for operators.
pub(super) fn status(what: &str) {
    notify(&[NotifyState::Status(what)]);
}

/// Reports that requests are accepted from here on.
pub(super) fn ready(what: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(what)]);
}

/// Reports that the service ends.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}

/// Returns the time between two keep-alives for this watchdog timeout.
fn interval(within: Duration) -> Duration {
    (within / KEEP_ALIVES_PER_TIMEOUT).max(Duration::from_millis(1))
}

/// Stores the check's finding in `previous`, and returns whether it differs from the previous one: something hangs,
/// something else hangs, or all is well again.
fn is_news(previous: &mut Option<Stuck>, found: Option<Stuck>) -> bool {
    std::mem::replace(previous, found) != found
}

/// Starts the thread that sends keep-alives if the manager has a watchdog, as long as the engine makes progress and
/// until `stop` turns true. A thread that only slept between them would send them even for a service that hangs.
///
/// # Errors
/// When the thread cannot be started.
pub(super) fn start_keep_alives(
    engine: &Engine,
    stop: watch::Receiver<bool>,
    when_well: String,
) -> std::io::Result<()> {
    let Some(within) = sd_notify::watchdog_enabled().filter(|within| !within.is_zero()) else {
        return Ok(());
    };
    let interval = interval(within);
    let mut pulse = engine.pulse();
    let thread = std::thread::Builder::new().name("signs-of-life".to_owned());
    thread.spawn(move || {
        let mut reported = None;
        while !*stop.borrow() && stop.has_changed().is_ok() {
            let found = pulse.look();
            if found.is_none() {
                notify(&[NotifyState::Watchdog]);
            }
            match found {
                _ if !is_news(&mut reported, found) => {}
                None => status(&when_well),
                Some(stuck) => {
                    tracing::error!(
                        manager_waits = %humantime::format_duration(within),
                        "the service hangs: {stuck}; its manager gets no keep-alive"
                    );
                    status(&format!("hangs: {stuck}"));
                }
            }
            std::thread::sleep(interval);
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_is_reported_once_and_each_change_of_it_again() {
        let (log, lane) = (Some(Stuck::Log(3)), Some(Stuck::Lane(1)));
        let looks = [None, log, log, lane, lane, None, None, log];
        let mut reported = None;
        let news = looks.map(|found| is_news(&mut reported, found));
        assert_eq!(news, [false, true, false, true, false, true, false, true]);
    }

    #[test]
    fn a_sign_of_life_may_come_late_by_half_of_the_time_and_is_in_time() {
        for millis in [2, 200, 30_000, 86_400_000] {
            let within = Duration::from_millis(millis);
            assert!(interval(within) <= within / 2, "{within:?}");
        }
        assert!(
            interval(Duration::from_micros(3)) > Duration::ZERO,
            "it does not spin"
        );
    }
}
