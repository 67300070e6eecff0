//! Receivers that mean no good, beside one that does as it should.

use std::time::{Duration, Instant};

use super::{accept, create, listed};
use crate::support::{PATIENCE, Server, World, resident};
use crate::webhooks::receiver::{Receiver, Reply, TAKEN};

/// More than the requests that may be on their way to one receiver.
const BRANCHES: usize = 40;

/// Creates branches whose messages a good receiver gets, and has their managers accept, whose
/// messages a bad one gets. Creation sees all taken, so the good one is not delayed.
pub struct Beside {
    world: World,
    server: Server,
    bad: Receiver,
}

pub fn beside(reply: impl Fn(usize) -> Reply + Send + Sync + 'static) -> Beside {
    let bad = Receiver::deciding(move |_, number| reply(number));
    let beside = Beside::with(bad, &["--receivers-hurry", "10"]);
    let mut client = beside.server.client();
    for number in 1..=BRANCHES {
        let number = u32::try_from(number).unwrap();
        let begun = Instant::now();
        let created = create(&mut client, &beside.world, number);
        assert_eq!(created.status, 201, "{:?} {created:?}", begun.elapsed());
        let accepted = accept(&mut client, &beside.world, number);
        assert_eq!(accepted.status, 201, "{accepted:?}");
    }
    beside
}

impl Beside {
    fn with(bad: Receiver, more: &[&str]) -> Self {
        let (world, good) = (World::new(), Receiver::start());
        let [good_at, bad_at] = [("branch_onboarding.*", &good), ("authorization.*", &bad)]
            .map(|(topics, receiver)| format!("{topics}={}", receiver.url()));
        let receivers = ["--receiver", &good_at, "--receiver", &bad_at];
        let server = Server::start_with(&world, &[&receivers, more].concat());
        // It serves for as long as the test runs.
        std::mem::forget(good);
        Self { world, server, bad }
    }

    /// Waits until the messages for the bad one in this state are as `is_it` says.
    #[track_caller]
    pub fn wait(&self, state: &str, is_it: impl Fn(&[serde_json::Value]) -> bool) {
        let (mut client, begun) = (self.server.client(), Instant::now());
        let query =
            format!("?state={state}&topic=authorization.branch_membership.activated&limit=500");
        loop {
            let found = listed(&mut client, &self.world, &query);
            if is_it(&found) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{found:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_silent_receiver_delays_no_other_and_takes_few_connections() {
    let beside = beside(|_| Reply::Hangs);
    beside.wait("waiting", |waiting| waiting.len() == BRANCHES);
    let connections = beside.bad.connections();
    assert!(connections <= 33, "{connections}");
}

#[test]
fn redirects_are_not_followed() {
    let other = Receiver::start();
    let location = format!("Location: http://127.0.0.1:{}/\r\n", other.port);
    let location: &'static str = Box::leak(location.into_boxed_str());
    let beside = beside(move |_| Reply::Status(307, location));
    beside.wait("waiting", |waiting| {
        waiting.iter().any(|message| message["lastStatus"] == 307)
    });
    assert_eq!(other.came().len(), 0);
}

#[test]
fn heads_and_bodies_of_ten_megabytes_are_not_kept() {
    let beside = beside(|number| match number {
        0..3 => Reply::Head(10 << 20),
        _ => Reply::Body(10 << 20),
    });
    // A body is none of our business: 200 was said before it. A head of such a length is no answer.
    beside.wait("taken", |taken| {
        let first = |message: &serde_json::Value| message["attempts"] == 1;
        taken.len() == BRANCHES && taken.iter().any(first) && !taken.iter().all(first)
    });
    let resident = resident(beside.server.id());
    println!("resident {resident}");
    assert!(resident < 400 << 20, "{resident}");
}

#[test]
fn a_receiver_that_closes_at_any_byte_of_its_head_has_not_taken_it() {
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".len();
    let beside = beside(move |number| Reply::Breaks(number % whole));
    beside.wait("taken", <[_]>::is_empty);
    beside.bad.now_answers(|_, _| TAKEN);
    beside.wait("taken", |taken| taken.len() == BRANCHES);
}

#[test]
fn a_receiver_that_asks_to_be_left_alone_is() {
    let bad = Receiver::deciding(|_, _| Reply::Status(503, "Retry-After: 1800\r\n"));
    let beside = Beside::with(bad, &[]);
    let mut client = beside.server.client();
    create(&mut client, &beside.world, 1);
    accept(&mut client, &beside.world, 1);
    beside.wait("waiting", |waiting| {
        waiting.iter().any(|message| message["lastStatus"] == 503)
    });
    let next = listed(&mut client, &beside.world, "?state=waiting")[0]["nextAttemptAt"].clone();
    let next = carebook::base::time::Timestamp::parse(next.as_str().unwrap()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let left = next.millis() - i64::try_from(now.unwrap().as_millis()).unwrap();
    assert!((1_700_000..=1_800_000).contains(&left), "{left}");
}

#[test]
fn a_receiver_over_tls_needs_a_certificate_that_is_trusted() {
    let world = World::new();
    let (receiver, certificate) = Receiver::secured();
    let file = world.path("receiver.pem");
    std::fs::write(&file, certificate).unwrap();
    let url = format!("https://localhost:{}/in", receiver.port);
    let at = ["--directory-url", &url];
    let server = Server::start_with(&world, &at);
    let mut client = server.client();
    assert_eq!(create(&mut client, &world, 1).status, 202);
    let waiting = listed(&mut client, &world, "?state=waiting&order=oldest");
    assert_eq!(
        waiting[0]["lastError"], "its certificate is not trusted",
        "{waiting:?}"
    );
    assert_eq!(server.stop(), Some(0));
    let trusted = ["--ca-file", file.to_str().unwrap()];
    let server = Server::start_with(&world, &[&at[..], &trusted].concat());
    let mut client = server.client();
    assert_eq!(create(&mut client, &world, 2).status, 201);
}
