//! Histories: concurrent clients on few resources, killed again and again; then every answer is
//! held against the log, in the order of positions.
//!
//! ```text
//! HISTORIES=100 cargo test --release --test main durability::history -- --nocapture
//! ```
//!
//! A history has 10,000 requests (`HISTORY_REQUESTS`). Its answers say on which positions they
//! rest. For each position the library decides on the state before it what was asked for, and has
//! to come to what the log says; every answer, a refusal's and a read's too, has to be what the
//! state at its position makes of the request; and what ended before something else began has no
//! higher position. So what clients saw is what one client at a time would have seen, in the order
//! of the log, and never against the order of real time (strict serializability).

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::chronicle::Compared;
use super::crowd::Crowd;
use super::{SNAPSHOT_OFTEN, share};
use crate::support::{Server, seed};

#[test]
fn every_answer_is_what_the_log_says_at_its_position_in_the_order_of_real_time() {
    let seed = seed();
    let histories = share("HISTORIES", 1);
    let requests = share(
        "HISTORY_REQUESTS",
        if histories > 1 { 10_000 } else { 2_500 },
    );
    let mut random = StdRng::seed_from_u64(seed);
    let started = Instant::now();
    let (mut compared, mut kills) = (Compared::default(), 0_u64);
    for history in 1..=histories {
        let seed: u64 = random.random();
        let mut random = StdRng::seed_from_u64(seed);
        let mut crowd = Crowd::new(seed);
        let mut server = Server::start_with(&crowd.world, SNAPSHOT_OFTEN);
        while (crowd.answers() as u64) < requests {
            let address = server.address.clone();
            let until = Duration::from_millis(random.random_range(100..800));
            let snapshot = random.random_bool(0.5);
            crowd.at_work(&address, random.random(), || {
                std::thread::sleep(until / 2);
                if snapshot {
                    server.signal("USR1");
                }
                std::thread::sleep(until / 2);
                server.kill();
            });
            kills += 1;
            crowd.chronicle.read(&crowd.world.data());
            server = Server::start_with(&crowd.world, SNAPSHOT_OFTEN);
        }
        crowd.look_around(&server, random.random());
        assert_eq!(server.stop(), Some(0));
        compared += crowd.hold_to_log();
        println!(
            "{history} histories after {:?}: {compared}",
            started.elapsed()
        );
    }
    println!(
        "{histories} histories of {requests} requests in {:?}, {kills} kills: {compared}",
        started.elapsed()
    );
}
