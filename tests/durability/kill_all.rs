//! The plug is pulled under load of all operations, while snapshots are taken and the log is
//! compacted.
//!
//! ```text
//! KILL_ROUNDS=1000 cargo test --release --test main durability::kill_all -- --nocapture
//! ```
//!
//! A round: eight clients send commands of all operations, facts and reads to the running server,
//! which is told to take a snapshot at a random moment, and `kill -9` comes 30 to 250 ms later.
//! Now and then it is told to stop instead. Between two runs the directory is sometimes compacted, and
//! that sometimes killed, too, as is a start. After the restart
//!
//! - each acknowledged command of the round, and some of earlier ones, gets its stored response;
//! - each command without an answer is there whole or not at all;
//! - sometimes the server, at rest, is told to take a snapshot and killed at once: then everything
//!   that was read before reads the same.
//!
//! After some rounds the whole log, with what was removed from it meanwhile, is checked against all
//! responses (see `chronicle`), a start from snapshot and log makes the same tables, `verify` finds
//! nothing, and a new directory is begun.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::chronicle::Compared;
use super::crowd::{Crowd, Figures, every_operation_was_tried};
use super::{SNAPSHOT_OFTEN, share};
use crate::support::{Server, carebook, seed, serve_arguments};

/// Rounds in one directory.
const ROUNDS_OF_A_DIRECTORY: u64 = 25;

#[test]
fn nothing_of_any_operation_is_lost_or_done_twice_whatever_is_killed() {
    let seed = seed();
    let rounds = share("KILL_ROUNDS", 6);
    let mut random = StdRng::seed_from_u64(seed);
    let mut figures = Figures::new();
    let mut compared = Compared::default();
    let (mut committed, mut absent, mut counts) = (0, 0, Counts::default());
    let started = Instant::now();
    let mut left = rounds;
    while left > 0 {
        let some = left.min(ROUNDS_OF_A_DIRECTORY);
        left -= some;
        let mut crowd = Crowd::new(random.random());
        live(&mut crowd, some, &mut random, &mut counts);
        compared += crowd.hold_to_log();
        for (what, count) in crowd.figures() {
            *figures.entry(what).or_default() += count;
        }
        committed += crowd.unknown_committed;
        absent += crowd.unknown_absent;
        println!(
            "{} rounds after {:?}: {compared}",
            rounds - left,
            started.elapsed()
        );
    }
    println!(
        "{rounds} rounds in {:?}: {} requests, of those without an answer {committed} were found \
         committed and {absent} absent; {counts:?}; {compared}; 0 losses, 0 doubles",
        started.elapsed(),
        figures.values().sum::<u64>(),
    );
    if rounds >= ROUNDS_OF_A_DIRECTORY {
        every_operation_was_tried(&figures);
        assert!(compared.with_snapshot > 0 && compared.compactions > 0);
    }
}

#[derive(Debug, Default)]
struct Counts {
    snapshots_asked_for: u64,
    killed_at_rest: u64,
    compactions: u64,
    compactions_killed: u64,
    starts_killed: u64,
    stopped: u64,
}

fn live(crowd: &mut Crowd, rounds: u64, random: &mut StdRng, counts: &mut Counts) {
    let mut server = Server::start_with(&crowd.world, SNAPSHOT_OFTEN);
    for _ in 0..rounds {
        let until = Duration::from_millis(random.random_range(30..250));
        let snapshot_at = random
            .random_bool(0.6)
            .then(|| until.mul_f64(random.random()));
        let address = server.address.clone();
        let clients = random.random();
        crowd.at_work(&address, clients, || {
            match snapshot_at {
                Some(at) => {
                    std::thread::sleep(at);
                    counts.snapshots_asked_for += 1;
                    server.signal("USR1");
                    std::thread::sleep(until.saturating_sub(at));
                }
                None => std::thread::sleep(until),
            }
            if random.random_ratio(1, 10) {
                counts.stopped += 1;
                assert_eq!(server.stop(), Some(0));
            } else {
                server.kill();
            }
        });
        crowd.chronicle.read(&crowd.world.data());
        if random.random_ratio(1, 5) {
            compact(crowd, random, counts);
        }
        if random.random_ratio(1, 8) {
            // A start that is cut off.
            let mut command = carebook();
            serve_arguments(&mut command, &crowd.world).args(SNAPSHOT_OFTEN);
            let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = quiet.spawn().unwrap();
            std::thread::sleep(Duration::from_micros(random.random_range(0..100_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            counts.starts_killed += 1;
        }
        server = Server::start_with(&crowd.world, SNAPSHOT_OFTEN);
        crowd.hold_to(&server, random.random());
        let before = crowd.look_around(&server, random.random());
        if random.random_ratio(1, 3) {
            server.signal("USR1");
            std::thread::sleep(Duration::from_micros(random.random_range(0..40_000)));
            server.kill();
            counts.killed_at_rest += 1;
            crowd.chronicle.read(&crowd.world.data());
            server = Server::start_with(&crowd.world, SNAPSHOT_OFTEN);
            crowd.reads_the_same(&server, &before);
        }
        crowd.content();
    }
    assert_eq!(server.stop(), Some(0));
}

/// `carebook compact`, to its end or until it is killed.
fn compact(crowd: &Crowd, random: &mut StdRng, counts: &mut Counts) {
    let mut command = carebook();
    command
        .args(["compact", "--keep", "0s"])
        .arg("--data")
        .arg(crowd.world.data());
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    if random.random_bool(0.5) {
        std::thread::sleep(Duration::from_micros(random.random_range(0..120_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        counts.compactions_killed += 1;
        return;
    }
    assert_eq!(child.wait().unwrap().code(), Some(0), "carebook compact");
    counts.compactions += 1;
}
