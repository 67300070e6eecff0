//! The plug is pulled at random moments, and everything that was acknowledged has to be there.
//!
//! ```text
//! KILL_ROUNDS=100 cargo test --release --test main durability::kill:: -- --nocapture
//! ```
//!
//! A round: 16 clients send commands of several operations (fresh ones, ones that race for a code
//! or a profile, second keys, refused ones, facts, ones whose sender hangs up), and `kill -9`
//! comes 50 to 500 ms later. After the restart
//!
//! - each acknowledged command, sent again, gets its stored response;
//! - each read is at least at the revision that was last seen;
//! - each command without an answer is there whole or not at all;
//! - each refused one is refused again, and its key was not taken;
//! - no position is below one that an earlier answer about the same resource had.
//!
//! At the end the log's records are counted against the keys that clients know of: one for one.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::load::{Town, memories};
use super::share;
use crate::support::{Server, seed, until};

#[test]
fn nothing_acknowledged_is_lost_or_done_twice_when_the_process_is_killed() {
    let seed = seed();
    let rounds = share("KILL_ROUNDS", 5);
    let mut random = StdRng::seed_from_u64(seed);
    let town = Town::new();
    let mut memories = memories(seed);
    let mut server = Server::start(&town.world);
    town.settle(&server);
    let started = Instant::now();
    for round in 0..rounds {
        let address = server.address.clone();
        std::thread::scope(|scope| {
            for memory in &mut memories {
                let (town, address) = (&town, &address);
                scope.spawn(move || town.work(address, memory, round));
            }
            std::thread::sleep(Duration::from_millis(random.random_range(50..500)));
            until("something is acknowledged in the first round", || {
                round > 0 || town.figures.acknowledged.load(Ordering::Relaxed) > 0
            });
            server.kill();
        });
        server = Server::start(&town.world);
        town.hold_to(&server, &mut memories, round + 1 == rounds);
        town.content();
    }
    assert_eq!(server.stop(), Some(0));
    town.compare_with_log();
    println!(
        "{rounds} rounds in {:?}: {}; 0 losses, 0 doubles",
        started.elapsed(),
        town.figures
    );
    let acknowledged = &town.figures.acknowledged;
    assert!(acknowledged.load(Ordering::Relaxed) > 0);
}
