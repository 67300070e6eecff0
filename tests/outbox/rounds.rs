//! carebook and the receiver are killed in turn: every message is taken, about each resource in
//! order, and what came twice was on its way when somebody was killed.
//!
//! `ROUNDS` says how often, `SEED` repeats a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::receiver::{Receiver, SOON};
use super::{accept, create, listed};
use crate::support::{Server, World, seed};

#[test]
fn nothing_is_lost_whoever_is_killed_and_order_holds() {
    let rounds: u32 = std::env::var("ROUNDS").map_or(6, |rounds| rounds.parse().unwrap());
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let world = World::new();
    let receiver = Receiver::willing();
    let server = || {
        Server::start_with(
            &world,
            &[
                "--receiver",
                &format!("*={}", receiver.url),
                "--receivers-hurry",
                "1000",
            ],
        )
    };
    let mut kills = 0;
    let mut running = Some(server());
    for round in 1..=rounds {
        let current = running.take().unwrap();
        // The receiver is down for some of the rounds, so that messages pile up.
        receiver.set_down(random.random_ratio(1, 3));
        let mut client = current.client();
        let created = create(&mut client, &world, round);
        assert!(
            matches!(created.status, 201 | 202),
            "{created:?} SEED={seed}"
        );
        let accepted = accept(&mut client, &world, round);
        assert_eq!(accepted.status, 201, "{accepted:?} SEED={seed}");
        if random.random_ratio(2, 3) {
            std::thread::sleep(Duration::from_millis(random.random_range(0..20)));
            current.kill();
            kills += 1;
            running = Some(server());
        } else {
            running = Some(current);
        }
        receiver.set_down(false);
    }
    let current = running.unwrap();
    let mut client = current.client();
    let started = Instant::now();
    while !listed(&mut client, &world, "?state=waiting").is_empty() {
        assert!(started.elapsed() < SOON, "SEED={seed}");
    }
    let got = receiver.got();
    let mut by_number: BTreeMap<i64, usize> = BTreeMap::new();
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for message in &got {
        let count = by_number.entry(message.number()).or_default();
        *count += 1;
        ids.insert(message.id().to_owned());
        let resource = message.body["resource"].as_str().unwrap().to_owned();
        let before = last.entry(resource).or_default();
        assert!(
            message.number() >= *before,
            "{} came after {before}, SEED={seed}",
            message.number()
        );
        *before = message.number();
    }
    assert_eq!(
        by_number.len(),
        4 * usize::try_from(rounds).unwrap(),
        "SEED={seed}"
    );
    assert_eq!(ids.len(), by_number.len(), "one message has one identifier");
    let doubles: usize = by_number.values().map(|count| count - 1).sum();
    // At a kill of one resource's messages one at most is on its way, and rounds overlap little.
    assert!(
        doubles <= kills * 32,
        "{doubles} doubles of {kills} kills, SEED={seed}"
    );
    assert!(
        by_number.values().all(|count| *count <= 1 + kills),
        "SEED={seed}"
    );
    println!(
        "{rounds} rounds, {kills} kills, {} messages, {doubles} twice",
        by_number.len()
    );
}
