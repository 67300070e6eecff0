//! The kernel's figures of this process, under the names that Prometheus' client libraries use.

use std::sync::OnceLock;

use procfs::WithCurrentSystemInfo as _;
use procfs::process::{LimitValue, Process};

use super::page::Page;

/// The kernel's figures of this process. A figure that cannot be read is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    /// Seconds of processor time, in user and system mode.
    pub cpu_seconds: f64,
    /// Open file descriptors.
    pub open_fds: usize,
    /// The limit of open file descriptors; `None` if there is no limit.
    pub max_fds: Option<u64>,
    /// Virtual memory, in bytes.
    pub virtual_bytes: u64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// When the process started, in seconds since 1970.
    pub started_seconds: f64,
}

impl ProcessFigures {
    /// Reads the current figures from files of the kernel; with very many file descriptors that may take
    /// milliseconds.
    #[must_use]
    pub fn read() -> Self {
        Self::try_read().unwrap_or_default()
    }

    #[allow(clippy::cast_precision_loss)]
    fn try_read() -> procfs::ProcResult<Self> {
        static STARTED: OnceLock<f64> = OnceLock::new();
        let process = Process::myself()?;
        let stat = process.stat()?;
        let ticks = procfs::ticks_per_second().max(1) as f64;
        let started = match STARTED.get() {
            Some(started) => *started,
            None => {
                let booted = procfs::boot_time_secs()? as f64;
                *STARTED.get_or_init(|| booted + stat.starttime as f64 / ticks)
            }
        };
        Ok(Self {
            cpu_seconds: stat.utime.saturating_add(stat.stime) as f64 / ticks,
            open_fds: process.fd_count()?,
            max_fds: match process.limits()?.max_open_files.soft_limit {
                LimitValue::Value(limit) => Some(limit),
                LimitValue::Unlimited => None,
            },
            virtual_bytes: stat.vsize,
            resident_bytes: stat.rss_bytes().get(),
            started_seconds: started,
        })
    }

    /// Adds the figures to the page.
    pub(in crate::http) fn put(&self, page: &mut Page) {
        let gauge = "gauge";
        page.one(
            "process_cpu_seconds_total",
            "counter",
            "Processor time, in user and system mode.",
            self.cpu_seconds,
        );
        page.one(
            "process_open_fds",
            gauge,
            "Open file descriptors.",
            self.open_fds,
        );
        let most = self
            .max_fds
            .map_or_else(|| "+Inf".to_owned(), |most| most.to_string());
        page.one(
            "process_max_fds",
            gauge,
            "The limit of open file descriptors.",
            most,
        );
        page.one(
            "process_virtual_memory_bytes",
            gauge,
            "Virtual memory.",
            self.virtual_bytes,
        );
        page.one(
            "process_resident_memory_bytes",
            gauge,
            "Memory in use.",
            self.resident_bytes,
        );
        page.one(
            "process_start_time_seconds",
            gauge,
            "When the process started, since 1970.",
            self.started_seconds,
        );
    }
}
