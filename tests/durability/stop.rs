//! Told to stop under load, the server answers what it has begun and goes.

use std::time::{Duration, Instant};

use super::load::{Outcome, Town, memories};
use crate::support::{Server, seed};

#[test]
fn told_to_stop_under_load_it_answers_what_it_has_read_and_keeps_what_it_answered() {
    let seed = seed();
    let town = Town::new();
    let mut memories = memories(seed);
    let mut server = Server::start(&town.world);
    town.settle(&server);
    for round in 0..3 {
        let address = server.address.clone();
        std::thread::scope(|scope| {
            for memory in &mut memories {
                let (town, address) = (&town, &address);
                // Those who hang up on purpose would leave commands that nobody was told of.
                scope.spawn(move || town.work_patiently(address, memory, round));
            }
            std::thread::sleep(Duration::from_millis(150));
            let told = Instant::now();
            assert_eq!(server.stop(), Some(0));
            // The drain's limit is 10 s, and nothing here takes long.
            assert!(
                told.elapsed() < Duration::from_secs(8),
                "{:?}",
                told.elapsed()
            );
        });
        // No 5xx was among the answers.
        town.content();
        let unanswered = memories.iter().flat_map(|memory| &memory.sent);
        let unanswered = unanswered.filter(|sent| matches!(sent.outcome, Outcome::Unknown));
        println!("{} requests met a closed connection", unanswered.count());
        // Whoever had no answer was not read: there is no record that nobody knows of.
        town.compare_with_log();
        server = Server::start(&town.world);
        town.hold_to(&server, &mut memories, round == 2);
        town.content();
    }
    assert_eq!(server.stop(), Some(0));
    town.compare_with_log();
    println!("{}", town.figures);
}
