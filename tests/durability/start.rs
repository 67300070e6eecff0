//! A start that is cut off, many times over, changes nothing.
//!
//! ```text
//! START_KILLS=500 cargo test --release --test main durability::start -- --nocapture
//! ```

use std::process::Stdio;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::load::{Town, memories};
use super::share;
use crate::support::{Server, carebook, seed, serve_arguments};

#[test]
fn a_start_killed_any_number_of_times_finds_everything_in_the_end() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let town = Town::new();
    let mut memories = memories(seed);
    let server = Server::start(&town.world);
    town.settle(&server);
    let address = server.address.clone();
    std::thread::scope(|scope| {
        for memory in &mut memories {
            let (town, address) = (&town, &address);
            scope.spawn(move || town.work(address, memory, 0));
        }
        std::thread::sleep(Duration::from_millis(300));
        server.kill();
    });
    // How long a start takes here, so that the kills fall into it.
    let started = Instant::now();
    Server::start(&town.world).kill();
    let usual = started.elapsed().max(Duration::from_millis(30));
    let kills = share("START_KILLS", 15);
    for _ in 0..kills {
        let mut command = carebook();
        serve_arguments(&mut command, &town.world);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(usual.mul_f64(random.random_range(0.0..1.1)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), None, "it was killed, and had not refused");
    }
    let server = Server::start(&town.world);
    town.hold_to(&server, &mut memories, true);
    town.content();
    assert_eq!(server.stop(), Some(0));
    town.compare_with_log();
    println!("{kills} starts killed within {usual:?}: {}", town.figures);
}
