//! Servers that are killed under load, in turn: nothing is lost, and the order is held.
//!
//! `ROUNDS=300 cargo test --release --test main nats::survives -- --nocapture` is the full size.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::{Nats, ask_for_deposit, assert_published, told};
use crate::support::{Client, Server, World, seed};

/// Rounds of the suite's share.
const ROUNDS: usize = 4;

fn rounds() -> usize {
    let rounds = std::env::var("ROUNDS").ok();
    rounds.map_or(ROUNDS, |rounds| rounds.parse().unwrap())
}

#[test]
fn each_event_is_in_the_stream_in_order_whoever_is_killed() {
    let Some(mut nats) = Nats::started() else {
        return;
    };
    let mut random = StdRng::seed_from_u64(seed());
    let world = World::new();
    let url = nats.url();
    let arguments = ["--nats", url.as_str()];
    let mut server = Some(Server::start_with(&world, &arguments));
    let address = Mutex::new(server.as_ref().unwrap().address.clone());
    let is_over = AtomicBool::new(false);
    let mut kills = [0; 2];
    let mut published = 0.0;
    let asked = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut number = 0;
            let mut client: Option<Client> = None;
            while !is_over.load(Ordering::Relaxed) {
                let open = client
                    .take()
                    .or_else(|| Client::try_connect(&address.lock().unwrap()).ok());
                if let Some(mut open) = open
                    && ask_for_deposit(&world, &mut open, number)
                {
                    client = Some(open);
                } else {
                    std::thread::sleep(Duration::from_millis(5));
                }
                // One whose answer was lost may be committed: it is not asked for again.
                number += 1;
            }
            number
        });
        for round in 0..rounds() {
            std::thread::sleep(Duration::from_millis(random.random_range(50..400)));
            if round % 2 == 0 {
                nats.kill();
                std::thread::sleep(Duration::from_millis(random.random_range(0..200)));
                nats.start();
                kills[0] += 1;
            } else {
                let killed = server.take().unwrap();
                published += killed.metric("carebook_nats_publish_duration_seconds_count");
                killed.kill();
                let started = Server::start_with(&world, &arguments);
                started.address.clone_into(&mut address.lock().unwrap());
                server = Some(started);
                kills[1] += 1;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        load.join().unwrap()
    });
    let server = server.unwrap();
    let events = told(&world, &server);
    let doubles = assert_published(&nats, &events);
    published += server.metric("carebook_nats_publish_duration_seconds_count");
    println!(
        "{} kills of NATS, {} of carebook; {asked} commands, {} events, {published} times acknowledged, \
         {doubles} in the stream again",
        kills[0],
        kills[1],
        events.len()
    );
    assert_eq!(server.stop(), Some(0));
}
