//! A timer that is exact to some ten microseconds; that of the runtime knows milliseconds only,
//! and would add up to one to every latency.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Below this there is no wait: to be woken takes as long.
const TOO_SHORT: Duration = Duration::from_micros(20);

pub(crate) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Deprecated for kinds of files that may close while they are registered. This one cannot:
        // it is owned from here on, there is no other owner, and the new name for the same is
        // `unsafe`.
        #[allow(deprecated)]
        let registered = AsyncFd::new(timer)?;
        Ok(Self(registered))
    }

    /// Waits until `due`; returns at once when that is over.
    pub(crate) async fn until(&mut self, due: Instant) -> io::Result<()> {
        let left = due.saturating_duration_since(Instant::now());
        if left < TOO_SHORT {
            return Ok(());
        }
        let after = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(left).map_err(io::Error::other)?,
        };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &after)?;
        loop {
            let mut guard = self.0.readable().await?;
            let read = guard.try_io(|timer| {
                let mut expirations = [0; 8];
                Ok(rustix::io::read(timer.get_ref(), &mut expirations)?)
            });
            match read {
                Ok(read) => return read.map(|_| ()),
                Err(_would_block) => {}
            }
        }
    }
}
