//! Looks at a server's memory while something else goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::proc::Process;

/// How often it looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks until it is ended.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    looking: JoinHandle<Vec<(f64, u64)>>,
}

impl Watch {
    pub(crate) fn on(process: Process) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let started = Instant::now();
        let looking = std::thread::spawn(move || {
            let mut seen = Vec::new();
            while !told.load(Ordering::Relaxed) {
                seen.push((started.elapsed().as_secs_f64(), process.resident()));
                std::thread::sleep(PAUSE);
            }
            seen
        });
        Self { stop, looking }
    }

    /// Resident bytes, each with the seconds since it began to look.
    pub(crate) fn end(self) -> Vec<(f64, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        self.looking.join().unwrap_or_default()
    }
}
