//! A writer stands still, ends or is killed under load, and its standby takes over, each time the
//! other way round: nothing that was acknowledged is lost, nothing is done twice, and who has stood
//! still says nothing more.
//!
//! `TAKEOVER_ROUNDS=100 cargo test --release --test main cluster::taken_over -- --nocapture` is a
//! full size.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::standby::{durable, is_ready, is_writer, standby};
use super::{Cluster, PATIENCE, ROOMY, until};
use crate::durability::load::{Town, memories};
use crate::support::{Server, seed};

/// Rounds of the suite's share.
const ROUNDS: u64 = 2;

/// What is read of both after each round.
const LISTS: [&str; 3] = [
    "/settlement-statements?limit=500",
    "/family-payment-delegations?limit=500",
    "/reference-facts/actor/hq-1",
];

/// What the writer shows, its standby shows at the same position.
fn assert_alike(town: &Town, writer: &Server, following: &Server, name: &str) {
    until("it has what was committed", || {
        durable(following) >= durable(writer)
    });
    let position = durable(writer).to_string();
    let bearer = format!("Bearer {}", town.world.workflow());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Carebook-Min-Position", position.as_str()),
    ];
    for path in LISTS {
        let read = |server: &Server| server.client().request("GET", path, &headers, b"");
        let (theirs, own) = (read(writer), read(following));
        assert_eq!(own.status, theirs.status, "{name}: {path}");
        assert_eq!(own.text(), theirs.text(), "{name}: {path}");
    }
}

/// The directory's node once more, as one that follows.
fn follows_again(cluster: &Cluster, town: &Town, data: &Path) -> Server {
    let server = standby(cluster, &town.world, data);
    until("it follows", || is_ready(&server));
    server
}

#[test]
fn nothing_acknowledged_is_lost_or_done_twice_whoever_takes_over() {
    let rounds = std::env::var("TAKEOVER_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let Some(cluster) = Cluster::with_journal(3, ROOMY) else {
        return;
    };
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let town = Town::new();
    // Between two writers 503 is an answer, too.
    town.failing.store(true, Ordering::SeqCst);
    let directories = [town.world.data(), town.world.path("second")];
    let mut memories = memories(seed);
    let mut writer = cluster.serve(&town.world);
    town.settle(&writer);
    let mut following = follows_again(&cluster, &town, &directories[1]);
    let (mut own, mut took) = (0, Vec::new());
    for round in 0..rounds {
        let address = writer.address.clone();
        std::thread::scope(|scope| {
            for memory in &mut memories {
                let (town, address) = (&town, &address);
                scope.spawn(move || town.work(address, memory, round));
            }
            std::thread::sleep(Duration::from_millis(random.random_range(100..600)));
            let began = Instant::now();
            let name = ["STOP", "TERM", "KILL"][usize::try_from(round % 3).unwrap()];
            writer.signal(name);
            until("the standby writes", || is_writer(&following));
            took.push((name, began.elapsed()));
            if name == "STOP" {
                writer.signal("CONT");
            }
        });
        let expected = [Some(5), Some(0), None][usize::try_from(round % 3).unwrap()];
        assert_eq!(writer.ended_within(PATIENCE), expected, "round {round}");
        let again = follows_again(&cluster, &town, &directories[own]);
        own = 1 - own;
        (writer, following) = (following, again);
        town.hold_to(&writer, &mut memories, round + 1 == rounds);
        town.content();
        assert_alike(&town, &writer, &following, &format!("round {round}"));
    }
    assert_eq!(following.stop(), Some(0));
    assert_eq!(writer.stop(), Some(0));
    town.compare_with_log();
    for data in &directories {
        cluster.verify(data);
    }
    println!(
        "{rounds} takeovers, {took:?}: {}; 0 losses, 0 doubles",
        town.figures
    );
    assert!(town.figures.acknowledged.load(Ordering::Relaxed) > 0);
}
