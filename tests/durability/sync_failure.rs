//! A sync that fails is the end of the process, and of nothing that was acknowledged.
//!
//! strace makes the disk fail under the real program. Where it is missing, or may not trace, the
//! test says so and passes; `inside` has the same on the simulated disk.

use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::load::{Town, memories};
use crate::support::{Server, World, files, frames, seed, serve_arguments, until};

/// Whether strace is there and may trace.
pub fn can_trace() -> bool {
    let traced = Command::new("strace")
        .args(["-D", "-f", "-qq", "-e", "trace=fdatasync", "true"])
        .output();
    match traced {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            println!("SKIPPED: strace may not trace here: {why}");
            false
        }
        Err(error) => {
            println!("SKIPPED: strace cannot be run: {error}");
            false
        }
    }
}

/// The number of the thread that appends to the log and syncs it.
fn journal_thread(server: &Server) -> String {
    let mut journal = None;
    // A thread takes its name itself, some time after it was started.
    until("the log's thread has its name", || {
        let threads = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
        let mut threads = threads.map(|thread| thread.unwrap());
        journal = threads.find(|thread| {
            let name = std::fs::read_to_string(thread.path().join("comm"));
            name.is_ok_and(|name| name.trim() == "wal-journal")
        });
        journal.is_some()
    });
    journal.unwrap().file_name().into_string().unwrap()
}

/// The highest position that was known to be durable when the log's last frame was written.
fn durable_at_the_end(town: &Town) -> u64 {
    let all = files(&town.world.data()).into_iter();
    let ends = all.filter_map(|file| {
        let name = file.file_name().unwrap().to_str().unwrap();
        let segment = std::fs::read(&file).unwrap();
        let last = *frames(&segment)
            .last()
            .filter(|_| name.starts_with("segment-"))?;
        Some(u64::from_le_bytes(
            segment[last.0 + 40..last.0 + 48].try_into().unwrap(),
        ))
    });
    ends.max().unwrap()
}

#[test]
fn a_failed_sync_ends_the_process_and_nothing_is_acknowledged_after_it() {
    if !can_trace() {
        return;
    }
    let seed = seed();
    let town = Town::new();
    let mut memories = memories(seed);
    let server = Server::start(&town.world);
    town.settle(&server);
    assert_eq!(server.stop(), Some(0));
    for (round, fail_at) in (0..).zip([15, 40, 110]) {
        let log = town.world.path("strace.log");
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "--seccomp-bpf", "-qq", "-ttt"]);
        command.args(["-e", "signal=none", "-e", "trace=fdatasync", "-e"]);
        command.arg(format!("inject=fdatasync:error=EIO:when={fail_at}"));
        command.arg("-o").arg(&log);
        command.arg(env!("CARGO_BIN_EXE_carebook"));
        serve_arguments(&mut command, &town.world);
        let server = Server::spawn(command);
        let address = server.address.clone();
        let journal = journal_thread(&server);
        town.failing.store(true, Ordering::SeqCst);
        let ended_at = std::thread::scope(|scope| {
            for memory in &mut memories {
                let (town, address) = (&town, &address);
                scope.spawn(move || town.work(address, memory, round));
            }
            let code = server.ended_within(Duration::from_secs(60));
            assert_eq!(code, Some(1), "it ends by itself, and says that it failed");
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
        });
        town.failing.store(false, Ordering::SeqCst);
        let log = std::fs::read_to_string(&log).unwrap();
        // strace counts the calls of each thread by itself; others may try theirs again.
        let lines = log.lines().filter(|line| {
            let thread = line.split_whitespace().next();
            thread == Some(&*journal)
        });
        let mut lines = lines.skip_while(|line| !line.contains("(INJECTED)"));
        let failure = lines.next();
        let failure = failure.unwrap_or_else(|| panic!("nothing was injected:\n{log}"));
        let failed_at: f64 = failure.split_whitespace().nth(1).unwrap().parse().unwrap();
        let again = lines.filter(|line| line.contains("fdatasync("));
        assert_eq!(again.count(), 0, "a failed sync is not tried again:\n{log}");
        let took = ended_at.as_secs_f64() - failed_at;
        println!("sync {fail_at} failed; the process ended {took:.3} s later");
        // A second is promised; the rest is for a machine that has other things to do.
        assert!(took < 15.0, "{took} s");
        // What was appended last, whose sync has failed, says what was durable before.
        let (acknowledged, durable) = (town.last_commit_acknowledged(), durable_at_the_end(&town));
        assert!(
            acknowledged <= durable,
            "{acknowledged} was acknowledged, and {durable} durable"
        );

        let server = Server::start(&town.world);
        town.hold_to(&server, &mut memories, round == 2);
        town.content();
        assert_eq!(server.stop(), Some(0));
    }
    town.compare_with_log();
    println!("{}", town.figures);
}

/// The reader of standard error has stopped, and the pipe is full: the exit does not wait for its
/// last lines.
#[test]
fn a_failed_sync_ends_the_process_also_when_nobody_reads_what_it_says() {
    if !can_trace() {
        return;
    }
    let world = World::new();
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "--seccomp-bpf", "-qq", "-e", "signal=none"]);
    command.args(["-e", "trace=fdatasync", "-e"]);
    command.arg("inject=fdatasync:error=EIO:when=15");
    command.arg("-o").arg(world.path("strace.log"));
    command.arg(env!("CARGO_BIN_EXE_carebook"));
    serve_arguments(&mut command, &world)
        .arg("--access-log")
        .stderr(Stdio::piped());
    let server = Server::spawn_telling(command);
    let mut client = server.client();
    // A pipe has 64 KiB, and a line some 200 bytes.
    for _ in 0..2_000 {
        assert_eq!(client.request("GET", "/healthz", &[], b"").status, 200);
    }
    let bearer = format!("Bearer {}", world.headquarters());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    for number in 0..100 {
        let body = world.deposit_request(&format!("code-{number}"), &format!("key-{number}"));
        let path = "/settlement-deposit-requests";
        let asked = client.try_request("POST", path, &headers, body.to_string().as_bytes());
        if asked.is_err() {
            break;
        }
    }
    let code = server.ended_within(Duration::from_secs(20));
    assert_eq!(code, Some(1), "it ends by itself, and says that it failed");
}
