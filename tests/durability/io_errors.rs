//! The disk fails under the real program: any call, once, at a random place.
//!
//! ```text
//! STRACE_CASES=100 cargo test --release --test main durability::io_errors -- --nocapture
//! ```
//!
//! A case: strace makes one call of one kind fail with EIO or ENOSPC, while the server starts, runs
//! under load of all operations and takes snapshots, or while `carebook compact` runs. Then
//!
//! - the program goes on, or ends with 1;
//! - it has to end when a write or a sync of the log itself failed, and no commit is acknowledged
//!   after that;
//! - a start without failures finds everything that was acknowledged.
//!
//! Where strace is missing, or may not trace, the test says so and passes.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::chronicle::Compared;
use super::crowd::Crowd;
use super::sync_failure::can_trace;
use super::{SNAPSHOT_OFTEN, share};
use crate::support::{Server, seed, serve_arguments};

/// Cases in one directory.
const CASES_OF_A_DIRECTORY: u64 = 20;
/// The calls that fail, and up to which one of a thread's.
const CALLS: [(&str, u32); 9] = [
    ("pwrite64", 100),
    ("fdatasync", 100),
    ("fsync", 4),
    ("openat", 45),
    ("renameat", 4),
    ("ftruncate", 2),
    ("unlinkat", 3),
    ("fstatfs", 4),
    ("pread64", 30),
];

/// What a case came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// The failure never came: there were fewer calls.
    NotReached,
    /// It could not start.
    DidNotStart,
    /// It ended by itself.
    Ended,
    WentOn,
}

#[test]
fn whatever_call_fails_nothing_acknowledged_is_lost() {
    if !can_trace() {
        return;
    }
    let seed = seed();
    let cases = share("STRACE_CASES", 5);
    let mut random = StdRng::seed_from_u64(seed);
    let started = Instant::now();
    let mut compared = Compared::default();
    let mut ends = BTreeMap::<(&str, &str, End), u64>::new();
    let mut left = cases;
    while left > 0 {
        let some = left.min(CASES_OF_A_DIRECTORY);
        left -= some;
        let mut crowd = Crowd::new(random.random());
        let server = Server::start_with(&crowd.world, SNAPSHOT_OFTEN);
        crowd.at_work(&server.address, random.random(), || {
            std::thread::sleep(Duration::from_millis(150));
        });
        assert_eq!(server.stop(), Some(0));
        crowd.chronicle.read(&crowd.world.data());
        for _ in 0..some {
            let (call, most) = CALLS[random.random_range(0..CALLS.len())];
            // The first calls of a program are not its own.
            let least = if call == "openat" { 8 } else { 1 };
            let failing = Failing {
                call,
                error: ["EIO", "ENOSPC"][random.random_range(0..2)],
                at: random.random_range(least..=most),
            };
            let (what, end) = if random.random_ratio(1, 5) {
                ("compact", compact(&crowd, &failing))
            } else {
                ("serve", serve(&crowd, &failing, &mut random))
            };
            *ends.entry((what, call, end)).or_default() += 1;
            crowd.chronicle.read(&crowd.world.data());
            let server = Server::start_with(&crowd.world, SNAPSHOT_OFTEN);
            crowd.hold_to(&server, random.random());
            crowd.look_around(&server, random.random());
            crowd.content();
            assert_eq!(server.stop(), Some(0), "{failing:?}, {end:?}");
            crowd.chronicle.read(&crowd.world.data());
        }
        compared += crowd.hold_to_log();
    }
    println!("{cases} cases in {:?}: {compared}", started.elapsed());
    for ((what, call, end), count) in ends {
        println!("{count:>4} {what:<8} {call:<10} {end:?}");
    }
}

#[derive(Debug)]
struct Failing {
    call: &'static str,
    error: &'static str,
    at: u32,
}

/// A call that was made to fail: when, and on which file.
#[derive(Debug)]
struct Failed {
    at: f64,
    line: String,
}

impl Failing {
    fn strace(&self, crowd: &Crowd) -> Command {
        let Self { call, error, at } = self;
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "--seccomp-bpf", "-qq", "-ttt", "-y"]);
        command.args(["-e", "signal=none", "-e"]);
        command.arg(format!("trace={call}"));
        command.arg("-e");
        command.arg(format!("inject={call}:error={error}:when={at}"));
        command.arg("-o").arg(crowd.world.path("strace.log"));
        command.arg(env!("CARGO_BIN_EXE_carebook"));
        command
    }

    /// The calls that failed; each thread has one at most.
    fn failed(&self, crowd: &Crowd) -> Vec<Failed> {
        let log = std::fs::read(crowd.world.path("strace.log")).unwrap_or_default();
        String::from_utf8_lossy(&log)
            .lines()
            .filter(|line| line.contains("(INJECTED)"))
            .map(|line| Failed {
                at: line.split_whitespace().nth(1).unwrap().parse().unwrap(),
                line: line.to_owned(),
            })
            .collect()
    }
}

impl Failed {
    /// Whether it was a write or a sync of a segment in use: a new one has another name until it
    /// is whole.
    fn is_of_the_log(&self) -> bool {
        let written = self.line.contains("pwrite64(") || self.line.contains("fdatasync(");
        written && self.line.contains(".log>")
    }
}

/// Whether the loader could not read what the program is linked to, before there was a program.
fn is_the_loaders(crowd: &Crowd, code: Option<i32>, failed: &[Failed]) -> bool {
    let data = crowd.world.data();
    let data = data.to_str().unwrap();
    code == Some(127) && !failed.iter().any(|failed| failed.line.contains(data))
}

fn serve(crowd: &Crowd, failing: &Failing, random: &mut StdRng) -> End {
    let mut command = failing.strace(crowd);
    serve_arguments(&mut command, &crowd.world).args(SNAPSHOT_OFTEN);
    let mut server = match Server::try_spawn(command) {
        Ok(server) => server,
        Err(code) => {
            let failed = failing.failed(crowd);
            assert!(!failed.is_empty(), "it does not start for another reason");
            let fits = code == Some(1) || is_the_loaders(crowd, code, &failed);
            assert!(fits, "{code:?}, {failed:?}");
            return End::DidNotStart;
        }
    };
    crowd.troubled.store(true, Ordering::SeqCst);
    let until = Duration::from_millis(random.random_range(200..600));
    let mut signals = [random.random_range(0.0..1.0), random.random_range(0.0..1.0)];
    signals.sort_unstable_by(f64::total_cmp);
    let mut signals = signals.into_iter().peekable();
    let address = server.address.clone();
    let ended = crowd.at_work(&address, random.random(), || {
        let started = Instant::now();
        while started.elapsed() < until {
            if let Some(code) = server.has_ended() {
                return Some(code);
            }
            let now = started.elapsed().as_secs_f64() / until.as_secs_f64();
            if signals.next_if(|at| *at <= now).is_some() {
                server.try_signal("USR1");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    });
    crowd.troubled.store(false, Ordering::SeqCst);
    // Within a second it ends, when it has to, where the machine has time for it.
    let must_end = || failing.failed(crowd).iter().any(Failed::is_of_the_log);
    let waiting = Instant::now();
    let ended = ended.or_else(|| {
        while must_end() && waiting.elapsed() < Duration::from_secs(20) {
            if let Some(code) = server.has_ended() {
                return Some(code);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        server.has_ended()
    });
    let still_runs = ended.is_none();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    if still_runs {
        server.kill();
    }
    // strace writes its last lines when the program is gone.
    std::thread::sleep(Duration::from_millis(30));
    let failed = failing.failed(crowd);
    if let Some(code) = ended {
        assert_eq!(code, Some(1), "{failing:?}: {failed:?}");
        assert!(!failed.is_empty(), "it ended for another reason");
    }
    let of_the_log = failed.iter().find(|failed| failed.is_of_the_log());
    if let Some(failed) = of_the_log {
        let since = now.as_secs_f64() - failed.at;
        assert!(!still_runs || since < 1.0, "it goes on after {failed:?}");
        // What had left before may have been on its way for a while.
        #[allow(clippy::cast_possible_truncation)]
        let late = (failed.at * 1_000.0) as i64 + 250;
        let news = crowd.news_after(late);
        assert!(news.is_none(), "after {failed:?}: {news:#?}");
    }
    match (failed.is_empty(), still_runs) {
        (true, _) => End::NotReached,
        (false, true) => End::WentOn,
        (false, false) => End::Ended,
    }
}

fn compact(crowd: &Crowd, failing: &Failing) -> End {
    let mut command = failing.strace(crowd);
    command
        .args(["compact", "--keep", "0s"])
        .arg("--data")
        .arg(crowd.world.data());
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let code = command.status().unwrap().code();
    std::thread::sleep(Duration::from_millis(30));
    let failed = failing.failed(crowd);
    match (failed.is_empty(), code) {
        (true, Some(0)) => End::NotReached,
        (false, Some(0)) => End::WentOn,
        (false, Some(1)) => End::Ended,
        (false, code) if is_the_loaders(crowd, code, &failed) => End::DidNotStart,
        _ => panic!("carebook compact ended with {code:?}: {failed:?}"),
    }
}
