//! Writers and the stream's servers are killed under load, in turn: nothing that was acknowledged
//! is lost, and nothing is done twice.
//!
//! `CLUSTER_ROUNDS=300 cargo test --release --test main cluster::killed -- --nocapture` is the full
//! size.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::{Cluster, PATIENCE, ROOMY, until};
use crate::durability::load::{Town, memories};
use crate::support::{Server, seed};

/// Rounds of the suite's share.
const ROUNDS: u64 = 3;

#[test]
fn nothing_acknowledged_is_lost_or_done_twice_whoever_is_killed() {
    let rounds = std::env::var("CLUSTER_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let Some(mut cluster) = Cluster::with_journal(3, ROOMY) else {
        return;
    };
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let town = Town::new();
    // While the journal is not reached 503 is an answer, too.
    town.failing.store(true, Ordering::SeqCst);
    let directories = [town.world.data(), town.world.path("second")];
    let mut memories = memories(seed);
    let mut running = Some(cluster.serve(&town.world));
    town.settle(running.as_ref().unwrap());
    let started = Instant::now();
    let mut kills = [0; 4];
    for round in 0..rounds {
        let mut before = running.take();
        let address = before.as_ref().unwrap().address.clone();
        // In the last round the first directory is the one that is compared.
        let is_last = round + 1 == rounds;
        let next = if is_last {
            0
        } else {
            random.random_range(0..2)
        };
        let what = if is_last { 0 } else { round % 4 };
        std::thread::scope(|scope| {
            for memory in &mut memories {
                let (town, address) = (&town, &address);
                scope.spawn(move || town.work(address, memory, round));
            }
            std::thread::sleep(Duration::from_millis(random.random_range(100..600)));
            match what {
                // The writer.
                0 => before.take().unwrap().kill(),
                // One of the stream's servers, which comes back; the writer goes on.
                1 => {
                    let node = random.random_range(0..3);
                    cluster.kill(node);
                    std::thread::sleep(Duration::from_millis(random.random_range(0..1_500)));
                    cluster.start(node);
                    std::thread::sleep(Duration::from_millis(300));
                    before.take().unwrap().kill();
                }
                // All of them.
                2 => {
                    (0..3).for_each(|node| cluster.kill(node));
                    std::thread::sleep(Duration::from_millis(random.random_range(0..1_000)));
                    (0..3).for_each(|node| cluster.start(node));
                    before.take().unwrap().kill();
                }
                // The writer stands still while another one takes over.
                _ => before.as_ref().unwrap().signal("STOP"),
            }
            kills[usize::try_from(what).unwrap()] += 1;
            let stood_still = before.as_ref().map(Server::id);
            // Where the one before has the directory, it is the other one's turn.
            let held = stood_still.map(|_| 1 - next);
            let data = &directories[held.unwrap_or(next)];
            running = Some(start(&cluster, &town, data, &directories));
            if let Some(before) = before.take() {
                before.signal("CONT");
                assert_eq!(before.ended_within(PATIENCE), Some(5));
            }
        });
        town.hold_to(running.as_ref().unwrap(), &mut memories, is_last);
        town.content();
    }
    running.unwrap().kill();
    let server = cluster.serve(&town.world);
    assert_eq!(server.stop(), Some(0));
    town.compare_with_log();
    cluster.verify(&town.world.data());
    println!(
        "{rounds} rounds in {:?}: {} writers killed, {} with one of the stream's servers, {} with \
         all of them, {} stopped and continued: {}; 0 losses, 0 doubles",
        started.elapsed(),
        kills[0],
        kills[1],
        kills[2],
        kills[3],
        town.figures
    );
    assert!(town.figures.acknowledged.load(Ordering::Relaxed) > 0);
}

/// A writer on this directory, or on the other one while somebody has it; it answers.
fn start(
    cluster: &Cluster,
    town: &Town,
    data: &std::path::Path,
    all: &[std::path::PathBuf; 2],
) -> Server {
    let mut started = None;
    until("a writer starts", || {
        for data in std::iter::once(data).chain(all.iter().map(std::path::PathBuf::as_path)) {
            if let Ok(server) = Server::try_spawn(cluster.command(&town.world, data)) {
                started = Some(server);
                return true;
            }
        }
        false
    });
    let server = started.unwrap();
    until("it answers", || {
        server.client().request("GET", "/readyz", &[], b"").status == 200
    });
    server
}
