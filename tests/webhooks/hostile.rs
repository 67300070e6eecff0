//! Hostile receivers, and addresses to which nothing may be sent.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::support::until;

/// Sends forty events to a good receiver and to a bad one, which does not delay it.
pub fn beside(reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> (House, Value, Receiver) {
    let (house, good) = (House::new(), Receiver::start());
    let bad = Receiver::deciding(move |_, number| reply(number));
    let hostile = house.subscribe(&bad.url(), &["carebook.reference-fact.*"]);
    house.subscribe(&good.url(), &["carebook.reference-fact.*"]);
    for number in 0..40 {
        house.fact(&format!("a{number}"), 1);
    }
    let begun = Instant::now();
    good.wait_for(40);
    // The bad one is given 15 seconds for each answer.
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    (house, hostile, bad)
}

#[test]
fn a_silent_receiver_delays_no_other_and_takes_few_connections() {
    let (house, hostile, bad) = beside(|_| Reply::Hangs);
    house.wait(&hostile, |read| read["waiting"] == 40);
    assert!(bad.connections() <= 5, "{}", bad.connections());
}

type Held = Arc<Mutex<Vec<TcpStream>>>;

/// So many subscriptions of receivers that never answer, each of which holds at least one request.
fn silent_ones(house: &House, count: usize) -> Held {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let held = Held::default();
    let holding = Arc::clone(&held);
    std::thread::spawn(move || {
        for stream in silent.incoming() {
            holding.lock().unwrap().push(stream.unwrap());
        }
    });
    for _ in 0..count {
        house.subscribe(&url, &["carebook.reference-fact.*"]);
    }
    let facts: Vec<_> = (0..40)
        .map(|number| fact(&format!("a{number}"), 1))
        .collect();
    house.client().put_facts(&house.token, &facts);
    until("each of them is sent something", || {
        held.lock().unwrap().len() >= count
    });
    held
}

/// None of them was given up yet, as each is after 15 seconds.
fn all_are_held(held: &Held) {
    for stream in held.lock().unwrap().iter() {
        stream.set_nonblocking(true).unwrap();
        let mut rest = [0; 4_096];
        let mut stream = stream;
        while let Ok(read) = stream.read(&mut rest) {
            assert_ne!(read, 0, "it was closed");
        }
    }
}

#[test]
fn two_hundred_receivers_that_never_answer_delay_no_other() {
    let (house, good) = (House::new(), Receiver::start());
    house.subscribe(&good.url(), &["carebook.reference-fact.*"]);
    house.fact("first", 1);
    good.wait_for(1);
    let held = silent_ones(&house, 200);
    house.fact("last", 1);
    good.wait_for(42);
    all_are_held(&held);
}

#[test]
fn hundreds_of_silent_receivers_delay_no_new_or_once_failed_receiver() {
    let (house, good, new) = (House::new(), Receiver::start(), Receiver::start());
    house.subscribe(&good.url(), &["carebook.reference-fact.*"]);
    house.fact("first", 1);
    good.wait_for(1);
    let held = silent_ones(&house, 300);
    good.wait_for(41);
    house.subscribe(&new.url(), &["carebook.reference-fact.*"]);
    good.now_answers(|_, number| match number {
        41 => Reply::Status(500, ""),
        _ => TAKEN,
    });
    house.fact("new", 1);
    new.wait_for(1);
    // The second time it is taken.
    good.wait_for(43);
    house.fact("last", 1);
    good.wait_for(44);
    all_are_held(&held);
}

#[test]
fn redirects_are_not_followed() {
    let other = Receiver::start();
    let port = other.port;
    let location: &'static str =
        Box::leak(format!("Location: http://127.0.0.1:{port}/\r\n").into_boxed_str());
    let (house, hostile, _bad) = beside(move |_| Reply::Status(307, location));
    house.wait(&hostile, |read| read["lastFailure"]["status"] == 307);
    assert_eq!(other.came().len(), 0);
}

#[test]
fn heads_and_bodies_of_ten_megabytes_are_not_kept() {
    let (house, hostile, _bad) = beside(|number| match number % 2 {
        0 => Reply::Head(10 << 20),
        _ => Reply::Body(10 << 20),
    });
    // A body is none of our business: 200 was said before it.
    let read = house.wait(&hostile, |read| !read["lastFailure"].is_null());
    assert_eq!(read["lastFailure"]["status"], Value::Null, "{read}");
    let resident = crate::support::resident(house.server.id());
    assert!(resident < 400 << 20, "{resident}");
}

#[test]
fn a_receiver_that_closes_at_any_byte_of_its_head_has_not_taken_it() {
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".len();
    let (house, hostile, bad) = beside(move |number| Reply::Breaks(number % whole));
    house.wait(&hostile, |read| read["waiting"] == 40);
    bad.now_answers(|_, _| TAKEN);
    house.wait(&hostile, |read| read["waiting"] == 0);
}

#[test]
fn failing_receivers_stay_within_the_memory_limit_and_lose_no_delivery() {
    let house = House::with(&[&NEAR[..], &["--webhooks-waiting-max", "300"]].concat());
    let bad = Receiver::deciding(|_, _| Reply::Status(500, ""));
    let many: Vec<_> = (0..5)
        .map(|_| house.subscribe(&bad.url(), &["carebook.reference-fact.*"]))
        .collect();
    let facts: Vec<_> = (0..400)
        .map(|number| fact(&format!("a{number}"), 1))
        .collect();
    house.client().put_facts(&house.token, &facts);
    for one in &many {
        house.wait(one, |read| read["waiting"].as_u64().unwrap() >= 100);
    }
    let waiting = || {
        many.iter()
            .map(|one| house.read(one)["waiting"].as_u64().unwrap())
    };
    // Each has a hundred, and none more than it would have alone.
    assert!(
        waiting().sum::<u64>() < 300 + 5 * 100,
        "{:?}",
        waiting().collect::<Vec<_>>()
    );
    // Another one that takes what comes gets all of it beside them.
    let good = Receiver::start();
    house.subscribe(&good.url(), &["carebook.reference-fact.*"]);
    house.client().put_facts(&house.token, &[fact("b", 1)]);
    good.wait_for(1);
    bad.now_answers(|_, _| TAKEN);
    let came = bad.wait(|came| taken(came).len() >= 5 * 401);
    let unique: std::collections::BTreeSet<_> = came
        .iter()
        .filter(|one| one.taken)
        .map(Delivery::id)
        .collect();
    assert_eq!(unique.len(), 401);
}

#[test]
fn a_receiver_that_asks_to_be_left_alone_is() {
    let house = House::with(&["--webhooks-allow", "127.0.0.1"]);
    let receiver = Receiver::deciding(|_, _| Reply::Status(503, "Retry-After: 1800\r\n"));
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("a", 1);
    house.wait(&subscription, |read| {
        read["waiting"] == 1 && read["status"] == "failing"
    });
    let listed = house.deliveries(&subscription, "?state=waiting");
    let next = listed["items"][0]["nextAttemptAt"].as_str().unwrap();
    let next = carebook::base::time::Timestamp::parse(next)
        .unwrap()
        .millis();
    let now = std::time::SystemTime::now();
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let left = next - i64::try_from(now).unwrap();
    assert!((1_700_000..=1_800_000).contains(&left), "{left}");
}

#[test]
fn a_failing_receiver_is_tried_less_often_and_gets_all_once_it_recovers() {
    // Ten times as often as it should be: every 10 ms.
    let house = House::with(&["--webhooks-allow", "127.0.0.1", "--webhooks-hurry", "10"]);
    let came = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&came);
    let receiver = Receiver::deciding(move |_, number| {
        times.lock().unwrap().push(Instant::now());
        match number {
            0..150 => Reply::Status(500, ""),
            _ => TAKEN,
        }
    });
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    let facts: Vec<_> = (0..200)
        .map(|number| fact(&format!("a{number}"), 1))
        .collect();
    let put = house.client().put_facts(&house.token, &facts);
    assert_eq!(put.json()["applied"], 200, "{put:?}");
    // 150 that are not taken, and then all.
    receiver.wait_for(350);
    house.wait(&subscription, |read| {
        read["waiting"] == 0 && read["status"] == "enabled"
    });
    let came = came.lock().unwrap();
    // After 64 failures, with four on their way all the while: 80 attempts take 800 ms at least, and
    // at most half of that is lost where this test itself was held up.
    let spaced = came[149] - came[69];
    assert!(spaced > Duration::from_millis(400), "{spaced:?}");
}
