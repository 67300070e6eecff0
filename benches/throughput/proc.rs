//! What the kernel knows of a process, and what machine this is.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// What a process, and those that it has started, have used so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Processor time in user mode, in microseconds.
    pub(crate) user: u64,
    /// Processor time in kernel mode, in microseconds.
    pub(crate) kernel: u64,
}

impl Usage {
    /// What was used since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            kernel: self.kernel.saturating_sub(before.kernel),
        }
    }
}

/// A running process, with all that it has started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// This process.
    pub(crate) fn this() -> Self {
        Self(std::process::id())
    }

    /// Its number.
    pub(crate) fn id(self) -> u32 {
        self.0
    }

    /// What it has used so far.
    pub(crate) fn usage(self) -> Usage {
        let mut sum = Usage::default();
        for id in self.family() {
            let (user, kernel) = processor_micros(id).unwrap_or_default();
            sum.user += user;
            sum.kernel += kernel;
        }
        sum
    }

    /// Its threads: the name of each, and the nanoseconds it has had a processor.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(crate) fn threads(self) -> Result<Vec<(String, u64)>, String> {
        let tasks = format!("/proc/{}/task", self.0);
        let failed = |error: std::io::Error| format!("{tasks}: {error}");
        let mut threads = Vec::new();
        for task in std::fs::read_dir(&tasks).map_err(failed)? {
            let task = task.map_err(failed)?.path();
            let name = std::fs::read_to_string(task.join("comm")).map_err(failed)?;
            let times = std::fs::read_to_string(task.join("schedstat")).map_err(failed)?;
            let nanos = times.split(' ').next().and_then(|first| first.parse().ok());
            let nanos = nanos.ok_or_else(|| format!("{}: {times}", task.display()))?;
            threads.push((name.trim().to_owned(), nanos));
        }
        Ok(threads)
    }

    /// Its resident memory in bytes, shared pages counted for each that shares them.
    pub(crate) fn resident(self) -> u64 {
        self.kilobytes("VmRSS:")
    }

    /// The most resident memory that it ever had, in bytes.
    pub(crate) fn peak(self) -> u64 {
        self.kilobytes("VmHWM:")
    }

    fn kilobytes(self, name: &str) -> u64 {
        let family = self.family().into_iter();
        family
            .filter_map(|id| field(&read(id, "status"), name))
            .sum::<u64>()
            * 1_024
    }

    /// It, and all that it has started, directly or not.
    fn family(self) -> Vec<u32> {
        let mut family = vec![self.0];
        let mut next = 0;
        while let Some(&id) = family.get(next) {
            next += 1;
            // A list for each thread; a process that starts no other has empty ones.
            let Ok(threads) = std::fs::read_dir(format!("/proc/{id}/task")) else {
                continue;
            };
            for thread in threads.flatten() {
                let children = std::fs::read_to_string(thread.path().join("children"));
                let children = children.unwrap_or_default();
                family.extend(
                    children
                        .split_whitespace()
                        .filter_map(|id| id.parse::<u32>().ok()),
                );
            }
            // The bench itself starts the servers, which are measured by themselves.
            if self.0 == std::process::id() {
                family.truncate(1);
                return family;
            }
        }
        family
    }
}

fn read(id: u32, what: &str) -> String {
    std::fs::read_to_string(format!("/proc/{id}/{what}")).unwrap_or_default()
}

/// The number that stands after `name` at the begin of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn processor_micros(id: u32) -> Option<(u64, u64)> {
    let stat = read(id, "stat");
    // The name of the process, in parentheses, may hold spaces.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    // USER_HZ is 100 on every Linux: a tick is ten milliseconds.
    Some((ticks()? * 10_000, ticks()? * 10_000))
}

/// Bytes that were written so far to the device that the directory is on; `None` where that is
/// none, as in memory. What the kernel counts for a process is of no use here: it takes pages that a
/// write has touched for written whole, and they may be large.
pub(crate) fn device_written(directory: &Path) -> Option<u64> {
    const SECTOR: u64 = 512;
    let device = std::fs::metadata(directory).ok()?.dev();
    // As the kernel packs them.
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff;
    let table = std::fs::read_to_string("/proc/diskstats").ok()?;
    let row = table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.first()?.parse() == Ok(major) && words.get(1)?.parse() == Ok(minor);
        is_it.then(|| words.get(9)?.parse::<u64>().ok()).flatten()
    });
    row.map(|sectors| sectors * SECTOR)
}

/// How long one small write and its fdatasync take on the disk of the directory while it does
/// nothing else, in microseconds: median and 99th percentile of 2,000.
///
/// # Errors
/// When the disk cannot be written to.
pub(crate) fn fdatasync_micros(directory: &Path) -> std::io::Result<(u32, u32)> {
    use std::os::unix::fs::FileExt as _;
    const BLOCK: usize = 4_096;
    const TIMES: usize = 2_000;
    let file = tempfile::tempfile_in(directory)?;
    // As a log's: all blocks are there already.
    file.write_all_at(&vec![0; BLOCK * TIMES], 0)?;
    file.sync_all()?;
    let block = [1; BLOCK];
    let mut times = Vec::with_capacity(TIMES);
    for number in 0..TIMES {
        let began = std::time::Instant::now();
        file.write_all_at(&block, (number * BLOCK) as u64)?;
        file.sync_data()?;
        times.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
    }
    times.sort_unstable();
    Ok((times[TIMES / 2], times[TIMES * 99 / 100]))
}

/// The machine, and the version of the program: what a figure means nothing without.
pub(crate) fn circumstances(directory: &Path) -> Value {
    let text = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.trim().to_owned()
    };
    let cpuinfo = text("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
    let memory = field(&text("/proc/meminfo"), "MemTotal:").unwrap_or(0) * 1_024;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = git.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let load: Vec<f64> = text("/proc/loadavg")
        .split(' ')
        .take(3)
        .filter_map(|load| load.parse().ok())
        .collect();
    json!({
        "processor": model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        "cores": cores,
        "memoryBytes": memory,
        "kernel": text("/proc/sys/kernel/osrelease"),
        "fileSystem": file_system(directory),
        "loadAverageAtStart": load,
        "commit": git(&["rev-parse", "--short=12", "HEAD"]),
        // What is built differs from the commit when a tracked file was changed since.
        "dirty": git(&["status", "--porcelain", "--untracked-files=no"])
            .map(|changes| !changes.is_empty()),
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The type of the file system that the directory is on.
fn file_system(directory: &Path) -> Option<String> {
    let directory = directory.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mut deepest = BTreeMap::new();
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(place), Some(kind)) = (words.next(), words.next()) else {
            continue;
        };
        if directory.starts_with(place) {
            deepest.insert(place.len(), kind.to_owned());
        }
    }
    deepest.pop_last().map(|(_, kind)| kind)
}

/// Lets this process, and those that it starts, open as many files as the kernel allows it.
///
/// # Errors
/// When that is fewer than `wanted`.
pub(crate) fn raise_open_files(wanted: u64) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    let raised = |most: Option<u64>| Rlimit {
        current: most.map(|most| most.max(limits.current.unwrap_or(most))),
        maximum: most.map(|most| most.max(limits.maximum.unwrap_or(most))),
    };
    // Whoever may raise the hard limit does; others go as far as it.
    if setrlimit(Resource::Nofile, raised(Some(wanted))).is_err() {
        let hard = Rlimit {
            current: limits.maximum,
            maximum: limits.maximum,
        };
        let _ = setrlimit(Resource::Nofile, hard);
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if now < wanted {
        return Err(format!(
            "{wanted} open files are needed and {now} allowed: raise the hard limit (ulimit -Hn)"
        ));
    }
    Ok(())
}
