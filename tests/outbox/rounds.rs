//! carebook and its receivers are killed in turn, under load: every message is taken, about each
//! resource in order, and what came twice was on its way when a process was killed.
//!
//! `ROUNDS` says how often a process is killed, `SEED` repeats a run.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{acceptance, creation, listed};
use crate::support::{Client, PATIENCE, Server, World, seed};
use crate::webhooks::receiver::{Delivery, Receiver, TAKEN};

/// The topics of the receivers; each has messages about every branch.
const TOPICS: [&str; 2] = ["branch_onboarding.*", "authorization.*"];

/// What came to one receiver, over its ends and beginnings.
#[derive(Default)]
struct Came {
    all: Vec<Delivery>,
    /// How much of it had come at each end of the service or of the receiver.
    ends: Vec<usize>,
}

impl Came {
    /// The messages that were taken: resource, number, identifier, and how many ends lie before.
    fn taken(&self) -> Vec<(String, i64, String, usize)> {
        let taken = self.all.iter().enumerate().filter(|(_, one)| one.taken);
        taken
            .map(|(place, one)| {
                let body = one.event();
                (
                    body["resource"].as_str().unwrap().to_owned(),
                    body["number"].as_i64().unwrap(),
                    one.header("webhook-id").to_owned(),
                    self.ends.partition_point(|end| *end <= place),
                )
            })
            .collect()
    }
}

/// A receiver that is killed and comes back on its port.
struct Mortal {
    port: u16,
    alive: Option<Receiver>,
    came: Came,
}

impl Mortal {
    fn start() -> Self {
        let receiver = Receiver::start();
        Self {
            port: receiver.port,
            alive: Some(receiver),
            came: Came::default(),
        }
    }

    fn kill(&mut self) {
        let port = self.port;
        if let Some(alive) = self.alive.take() {
            self.came.all.extend(alive.end());
            self.came.ends.push(self.came.all.len());
            // Its port is free once its listener's thread has heard of it.
            let begun = Instant::now();
            while TcpListener::bind(("127.0.0.1", port)).is_err() {
                assert!(begun.elapsed() < PATIENCE, "the port stays taken");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn come_back(&mut self) {
        if self.alive.is_none() {
            let listener = TcpListener::bind(("127.0.0.1", self.port)).unwrap();
            self.alive = Some(Receiver::on(listener, |_, _| TAKEN));
        }
    }

    /// The service has ended, and sends nothing any more.
    fn service_ended(&mut self) {
        if let Some(alive) = &self.alive {
            alive.wait_for_silence();
            let so_far = alive.came().len();
            self.came.ends.push(self.came.all.len() + so_far);
        }
    }
}

/// Sends it again until it is done, whichever process was killed meanwhile.
fn done(address: &Mutex<Option<String>>, path: &str, token: &str, key: &str, body: &str) {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", key),
    ];
    loop {
        let known = address.lock().unwrap().clone();
        let client = known.and_then(|address| Client::try_connect(&address).ok());
        let answer = client.and_then(|mut client| {
            let answer = client.try_request("POST", path, &headers, body.as_bytes());
            answer.ok()
        });
        match answer.map(|answer| (answer.status, answer)) {
            Some((200..=202, _)) => return,
            Some((503 | 500, _)) | None => std::thread::sleep(Duration::from_millis(1)),
            Some((_, answer)) => panic!("{answer:?}"),
        }
    }
}

#[test]
fn nothing_is_lost_whoever_is_killed_and_order_holds() {
    let rounds: u32 = std::env::var("ROUNDS").map_or(5, |rounds| rounds.parse().unwrap());
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let world = Arc::new(World::new());
    let mut receivers = TOPICS.map(|_| Mortal::start());
    let named: Vec<_> = TOPICS
        .iter()
        .zip(&receivers)
        .map(|(topics, receiver)| format!("{topics}=http://127.0.0.1:{}/in", receiver.port))
        .collect();
    let server = || {
        let hurry = ["--receivers-hurry", "1000"];
        let named = named.iter().flat_map(|named| ["--receiver", named]);
        Server::start_with(&world, &named.chain(hurry).collect::<Vec<_>>())
    };
    let mut running = server();
    let address = Arc::new(Mutex::new(Some(running.address.clone())));
    let (is_over, written) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU32::new(0)),
    );
    let writer = {
        let (world, address) = (Arc::clone(&world), Arc::clone(&address));
        let (is_over, written) = (Arc::clone(&is_over), Arc::clone(&written));
        std::thread::spawn(move || {
            let mut number = 0;
            while !is_over.load(Ordering::Acquire) {
                number += 1;
                let (token, body) = creation(&world, number);
                let key = format!("create-{number}");
                done(&address, "/admin/branches", &token, &key, &body.to_string());
                let (token, body) = acceptance(&world, number);
                let (key, path) = (
                    format!("accept-{number}"),
                    "/branch/manager-invitations/accept",
                );
                done(&address, path, &token, &key, &body.to_string());
                written.store(number, Ordering::Release);
            }
            number
        })
    };
    let mut kills = 0;
    for _ in 0..rounds {
        let (begun, before) = (Instant::now(), written.load(Ordering::Acquire));
        let more = random.random_range(1..4);
        while written.load(Ordering::Acquire) < before + more {
            assert!(begun.elapsed() < PATIENCE, "nothing goes on, SEED={seed}");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(random.random_range(0..20_000)));
        match random.random_range(0..4) {
            killed @ 0..2 => {
                let killed: usize = killed;
                receivers[killed].kill();
                std::thread::sleep(Duration::from_millis(random.random_range(0..60)));
                receivers[killed].come_back();
            }
            end => {
                match end {
                    2 => running.kill(),
                    _ => assert_eq!(running.stop(), Some(0)),
                }
                *address.lock().unwrap() = None;
                receivers.iter_mut().for_each(Mortal::service_ended);
                kills += 1;
                running = server();
                *address.lock().unwrap() = Some(running.address.clone());
            }
        }
    }
    is_over.store(true, Ordering::Release);
    let branches = writer.join().unwrap();
    let (mut client, begun) = (running.client(), Instant::now());
    while !listed(&mut client, &world, "?state=waiting").is_empty() {
        assert!(begun.elapsed() < PATIENCE, "something waits, SEED={seed}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (mut ids, mut doubles) = (BTreeSet::new(), 0);
    for (receiver, messages_each) in receivers.iter_mut().zip([3, 1]) {
        receiver.kill();
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        let mut known: BTreeMap<i64, (String, usize)> = BTreeMap::new();
        for (resource, number, id, ends) in receiver.came.taken() {
            let before = last.insert(resource, number).unwrap_or(0);
            assert!(number >= before, "{number} after {before}, SEED={seed}");
            if let Some((known_id, known_ends)) = known.insert(number, (id.clone(), ends)) {
                doubles += 1;
                assert_eq!(known_id, id, "SEED={seed}");
                assert!(ends > known_ends, "{number} came twice, SEED={seed}");
            }
            ids.insert(id);
        }
        let all = usize::try_from(branches).unwrap() * messages_each;
        assert_eq!(known.len(), all, "SEED={seed}");
    }
    assert_eq!(ids.len(), usize::try_from(branches).unwrap() * 4);
    println!(
        "{rounds} rounds, {kills} ends of the service, {} messages, {doubles} twice, SEED={seed}",
        ids.len()
    );
}
