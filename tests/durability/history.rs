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

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::chronicle::{Chronicle, Compared, Told, tell_apart};
use super::crowd::Crowd;
use super::{SNAPSHOT_OFTEN, share};
use crate::support::{Answer, Server, seed};

#[test]
fn every_response_is_what_the_log_has_at_its_position_in_real_time_order() {
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

/// Whether the whole is refused when this was done to it.
fn is_refused(crowd: &Crowd, what: &str, tamper: impl FnOnce(&mut Chronicle, &mut Vec<Told>)) {
    let mut chronicle = Chronicle::default();
    chronicle.records.clone_from(&crowd.chronicle.records);
    let mut told = crowd.told();
    tamper(&mut chronicle, &mut told);
    let held = std::panic::catch_unwind(AssertUnwindSafe(|| chronicle.hold(&told)));
    assert!(held.is_err(), "nobody noticed {what}");
}

/// The places of the answers to new commits of this operation.
fn commits(told: &[Told], op: u16) -> Vec<usize> {
    let is_commit = |told: &Told| {
        let answer = told.answer.as_ref();
        told.command.op == op
            && answer.is_some_and(|answer| {
                answer.status < 300 && answer.header("idempotent-replayed").is_none()
            })
    };
    let mut places: Vec<_> = (0..told.len()).collect();
    places.retain(|place| is_commit(&told[*place]));
    places
}

#[test]
fn a_history_that_is_not_true_is_told_from_one_that_is() {
    let seed = seed();
    let mut crowd = Crowd::new(seed);
    let server = Server::start_with(&crowd.world, SNAPSHOT_OFTEN);
    let address = server.address.clone();
    crowd.at_work(&address, seed, || {
        while commits(&crowd.told(), 9).len() < 3 {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    crowd.look_around(&server, seed);
    assert_eq!(server.stop(), Some(0));
    crowd.hold_to_log();
    fn answer(told: &mut [Told], place: usize) -> &mut Answer {
        told[place].answer.as_mut().unwrap()
    }
    is_refused(&crowd, "a lost record", |chronicle, _| {
        chronicle.records.pop();
    });
    is_refused(&crowd, "a record too much", |chronicle, _| {
        let last = chronicle.records.last().cloned();
        chronicle.records.extend(last);
    });
    is_refused(&crowd, "a position that is another's", |_, told| {
        let place = commits(told, 9)[0];
        let answer = answer(told, place);
        let position = answer.position().unwrap() + 1;
        answer
            .headers
            .retain(|(name, _)| name != "carebook-position");
        let header = ("carebook-position".to_owned(), position.to_string());
        answer.headers.push(header);
    });
    is_refused(&crowd, "an answer that is another's", |_, told| {
        let places = commits(told, 9);
        let other = answer(told, places[1]).body.clone();
        answer(told, places[0]).body = other;
    });
    is_refused(&crowd, "a commit that was refused", |_, told| {
        let key = told[commits(told, 9)[0]].command.body["idempotencyKey"].clone();
        let is_its =
            |told: &Told| told.command.op == 9 && told.command.body["idempotencyKey"] == key;
        told.retain(|told| told.answer.is_some() || !is_its(told));
        for told in told.iter_mut().filter(|told| is_its(told)) {
            told.answer.as_mut().unwrap().status = 409;
        }
    });
    is_refused(&crowd, "a read of what came later", |_, told| {
        // As if the last answer had been there before everything else.
        let last = told.last_mut().unwrap();
        (last.sent.since, last.ended.since) = (Duration::ZERO, Duration::ZERO);
    });
    // One process answers until its first command has ended, and another one what comes then.
    let mut told = crowd.told();
    let is_command = |told: &Told| !told.is_read() && told.needs_facts().is_some();
    let commands = || (0..told.len()).filter(|place| is_command(&told[*place]));
    let first = commands().min_by_key(|place| told[*place].ended.since);
    let last = commands().max_by_key(|place| told[*place].sent.since);
    let replaced = told[first.unwrap()].ended.since;
    for told in &mut told {
        told.by = if told.sent.since <= replaced { 1 } else { 2 };
    }
    assert_eq!(tell_apart(&mut told), Vec::<String>::new());
    // It was stopped, and gives the answer after the other one's first, and before that one's last.
    let in_time: Vec<_> = told.iter().map(|told| told.ended).collect();
    let late = told[last.unwrap()].sent.since - Duration::from_nanos(1);
    let is_next = |told: &&Told| told.by == 2 && is_command(told);
    let next = told.iter().filter(is_next).map(|told| told.ended.since);
    assert!(next.min().unwrap() < late);
    for told in told.iter_mut().filter(|told| told.by == 1) {
        told.ended.since = late;
    }
    assert_eq!(tell_apart(&mut told), Vec::<String>::new());
    for (told, ended) in told.iter_mut().zip(in_time) {
        told.ended = ended;
    }
    told[last.unwrap()].by = 1;
    assert_eq!(
        tell_apart(&mut told).len(),
        1,
        "nobody noticed who answers too late"
    );
    // One that follows may be behind, but does not go back.
    let followed = |goes_back: bool| {
        move |_: &mut Chronicle, told: &mut Vec<Told>| {
            let is_read = |told: &Told| told.is_read() && told.needs_facts().is_some();
            let position = |told: &Told| told.answer.as_ref().unwrap().position();
            let first = told.iter().position(is_read).unwrap();
            let last = told.iter().rposition(is_read).unwrap();
            assert!(position(&told[first]) < position(&told[last]));
            let late = told[last].ended.since;
            for (place, since) in [(first, late * 3), (last, late * 2)] {
                let told = &mut told[place];
                (told.by, told.follows) = (3, true);
                if goes_back || place == first {
                    (told.sent.since, told.ended.since) = (since, since);
                }
            }
            if !goes_back {
                told[last].by = 4;
            }
        }
    };
    is_refused(&crowd, "one that goes back", followed(true));
    let mut told = crowd.told();
    followed(false)(&mut Chronicle::default(), &mut told);
    crowd.chronicle.hold(&told);
}
