//! Deliveries across stops and kills of the service and of receivers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;

impl House {
    /// The same service, started again after SIGTERM.
    fn restarted(self, arguments: &[&str]) -> Self {
        let Self {
            world,
            server,
            token,
            keys,
        } = self;
        assert_eq!(server.stop(), Some(0));
        let server = Server::start_with(&world, arguments);
        Self {
            world,
            server,
            token,
            keys,
        }
    }

    /// The same service, started again after SIGKILL.
    fn killed(self, arguments: &[&str]) -> Self {
        let Self {
            world,
            server,
            token,
            keys,
        } = self;
        server.kill();
        let server = Server::start_with(&world, arguments);
        Self {
            world,
            server,
            token,
            keys,
        }
    }
}

#[test]
fn after_a_stop_nothing_that_was_taken_comes_again_and_what_waits_goes_on() {
    let mut house = House::new();
    let receiver = Receiver::deciding(|one, _| match one.subject().ends_with("bad") {
        true => Reply::Status(500, "Retry-After: 100\r\n"),
        false => TAKEN,
    });
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("bad", 1);
    for number in 0..20 {
        house.fact(&format!("a{number}"), 1);
    }
    receiver.wait(|came| taken(came).len() == 20);
    house = house.restarted(&NEAR);
    assert_eq!(house.read(&subscription)["waiting"], 1);
    receiver.now_answers(|_, _| TAKEN);
    house.fact("b", 1);
    let came = receiver.wait(|came| taken(came).len() == 22);
    let unique: BTreeSet<_> = taken(&came).into_iter().collect();
    assert_eq!(unique.len(), 22, "nothing comes twice");
    house.wait(&subscription, |read| read["waiting"] == 0);
}

#[test]
fn subscriptions_without_their_key_are_an_error_that_says_so() {
    let house = House::new();
    house.subscribe("https://example.com/", &["carebook.*"]);
    let (world, server) = (house.world, house.server);
    assert_eq!(server.stop(), Some(0));
    let key = world.data().join("webhook.key");
    let kept = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    let mut command = crate::support::carebook();
    let output = crate::support::serve_arguments(&mut command, &world)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("webhook subscriptions and no key"), "{told}");
    assert!(!key.exists(), "no other key is made");
    let elsewhere = world.path("elsewhere.key");
    std::fs::write(&elsewhere, kept).unwrap();
    let name = elsewhere.to_str().unwrap();
    let status = std::process::Command::new("chmod")
        .args(["600", name])
        .status();
    assert!(status.unwrap().success());
    let server = Server::start_with(&world, &["--webhook-key", name]);
    assert_eq!(server.stop(), Some(0));
}

/// Kills of the service and of receivers under load: every event of every commit reaches every
/// subscription, those of one subject in their order.
#[test]
fn whatever_is_killed_every_event_comes_and_those_of_a_subject_in_order() {
    let seed = crate::support::seed();
    let rounds: u32 = std::env::var("ROUNDS").map_or(4, |rounds| rounds.parse().unwrap());
    let mut random = SmallRng::seed_from_u64(seed);
    let mut house = House::new();
    let ports: Vec<_> = (0..3)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let mut receivers: Vec<_> = ports
        .into_iter()
        .map(|listener| Some(Receiver::on(listener, |_, _| TAKEN)))
        .collect();
    let subscriptions: Vec<_> = receivers
        .iter()
        .flatten()
        .map(|receiver| house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]))
        .collect();
    let urls: Vec<_> = receivers.iter().flatten().map(|one| one.port).collect();
    let mut came: Vec<Vec<Delivery>> = vec![Vec::new(); receivers.len()];
    let mut revisions = BTreeMap::<String, i64>::new();
    for _ in 0..rounds {
        for _ in 0..random.random_range(5..40) {
            let id = format!("a{}", random.random_range(0..8));
            let revision = revisions.get(&id).copied().unwrap_or(0) + 1;
            let token = house.token.clone();
            let answer = house.client().put_facts(&token, &[fact(&id, revision)]);
            assert_eq!(answer.json()["applied"], 1);
            revisions.insert(id, revision);
        }
        match random.random_range(0..3) {
            0 => {
                // One that is down for a while.
                let which = random.random_range(0..receivers.len());
                if let Some(receiver) = receivers[which].take() {
                    came[which].extend(receiver.end());
                }
            }
            1 => house = house.killed(&NEAR),
            _ => house = house.restarted(&NEAR),
        }
        for (which, receiver) in receivers.iter_mut().enumerate() {
            if receiver.is_none()
                && random.random_bool(0.7)
                && let Ok(listener) = TcpListener::bind(("127.0.0.1", urls[which]))
            {
                *receiver = Some(Receiver::on(listener, |_, _| TAKEN));
            }
        }
    }
    for (which, receiver) in receivers.iter_mut().enumerate() {
        let receiver = receiver.get_or_insert_with(|| {
            let begun = Instant::now();
            loop {
                // The one before may not have let go yet.
                match TcpListener::bind(("127.0.0.1", urls[which])) {
                    Ok(listener) => return Receiver::on(listener, |_, _| TAKEN),
                    Err(error) => assert!(begun.elapsed() < SOON, "{error}"),
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        });
        house.wait(&subscriptions[which], |read| {
            read["waiting"] == 0 && {
                let through = read["deliveredThrough"].as_str().unwrap();
                let through: u64 = through.split('-').next().unwrap().parse().unwrap();
                let known = usize::try_from(revisions.values().sum::<i64>()).unwrap();
                let all: BTreeSet<_> = taken(&came[which])
                    .into_iter()
                    .chain(taken(&receiver.came()))
                    .collect();
                through > 0 && all.len() == known
            }
        });
        came[which].extend(receiver.came());
        for (id, last) in &revisions {
            let of: Vec<_> = taken(&came[which])
                .into_iter()
                .filter(|(of, _)| *of == subject(id))
                .map(|(_, revision)| revision)
                .collect();
            let mut highest = 0;
            for revision in &of {
                assert!(*revision <= highest + 1, "{id}: {of:?}");
                highest = highest.max(*revision);
            }
            assert_eq!(highest, *last, "{id}: {of:?}");
        }
    }
}

#[test]
fn what_the_log_gave_up_before_it_was_sent_is_told_as_a_gap() {
    const SHORT: [&str; 10] = [
        "--webhooks-allow",
        "127.0.0.0/8",
        "--webhooks-hurry",
        "100",
        "--snapshot-log-bytes",
        "65536",
        "--log-retention",
        "0s",
        "--log-kept-for-delivery-bytes",
        "1",
    ];
    let mut house = House::with(&SHORT);
    let receiver = Receiver::start();
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    let through = |read: &Value| -> u64 {
        let through = read["deliveredThrough"].as_str().unwrap();
        through.split('-').next().unwrap().parse().unwrap()
    };
    let begun = through(&house.read(&subscription));
    let switch = |house: &House, revision, status| {
        let body = json!({"expectedRevision": revision, "status": status});
        let answer = house.send("PATCH", &path_of(&subscription), &body);
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    switch(&house, 1, "paused");
    let figure = |house: &House, name: &str| -> f64 {
        let page = house.client().request("GET", "/metrics", &[], b"");
        let mut lines = page.text().lines();
        let value = lines.find_map(|line| line.strip_prefix(&format!("{name} ")));
        value
            .unwrap_or_else(|| panic!("no {name}"))
            .parse()
            .unwrap()
    };
    let first = |house: &House| figure(house, "carebook_log_first_position");
    let started = Instant::now();
    let mut number = 0;
    // Each start begins a segment, and snapshots let whole ones go.
    while first(&house) <= begun as f64 + 2.0 {
        assert!(started.elapsed() < SOON, "the log keeps everything");
        let facts: Vec<_> = (0..500)
            .map(|_| {
                number += 1;
                fact(&format!("a{number}"), 1)
            })
            .collect();
        let token = house.token.clone();
        house.client().put_facts(&token, &facts);
        let before = figure(&house, "carebook_snapshots_total");
        house.server.signal("USR1");
        while figure(&house, "carebook_snapshots_total") <= before {
            assert!(started.elapsed() < SOON, "no snapshot is taken");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        house = house.restarted(&SHORT);
    }
    switch(&house, 2, "enabled");
    let came = receiver.wait(|came| came.iter().any(|one| one.kind() == "carebook.gap"));
    let gap = came
        .iter()
        .find(|one| one.kind() == "carebook.gap")
        .unwrap();
    let (from, to) = (&gap.event()["data"]["from"], &gap.event()["data"]["to"]);
    let (from, to) = (from.as_u64().unwrap(), to.as_u64().unwrap());
    // Its beginning and its pause may have been passed before.
    assert!((begun + 1..=begun + 3).contains(&from), "{from}");
    assert!(to >= from);
    assert_eq!(gap.subject(), path_of(&subscription)[1..]);
    house.fact("last", 1);
    let came = receiver.wait(|came| came.iter().any(|one| one.subject() == subject("last")));
    for one in came.iter().filter(|one| one.kind() != "carebook.gap") {
        let id = one.id();
        let position: u64 = id.split('-').next().unwrap().parse().unwrap();
        assert!(position > to, "{id} lies in the gap, up to {to}");
    }
    house.wait(&subscription, |read| read["waiting"] == 0);
}
