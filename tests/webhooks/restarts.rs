//! Deliveries across stops and kills of the service and of receivers.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use carebook::engine::channel::Bounds;
use carebook::engine::checkpointer::CheckpointPolicy;
use carebook::engine::log_space::retention::LogRetention;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::support::inside::Nowhere;
use crate::support::run;

impl House {
    /// The same service, started again after SIGTERM.
    pub(super) fn restarted(self, arguments: &[&str]) -> Self {
        self.again(
            arguments,
            |server| assert_eq!(server.stop(), Some(0)),
            |_| (),
        )
    }

    /// The same service, started again after `end`; `heard` is called when there is none, and with
    /// the new one.
    fn again(
        self,
        arguments: &[&str],
        end: impl FnOnce(Server),
        mut heard: impl FnMut(Option<&Server>),
    ) -> Self {
        let Self {
            world,
            server,
            token,
            keys,
        } = self;
        end(server);
        heard(None);
        let server = Server::start_with(&world, arguments);
        heard(Some(&server));
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
    // It knows that they were taken, however often the other one has failed.
    house.wait_for_figures(&subscription, |of| {
        of("attempts_total") - of("failures_total") == 20.0
    });
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
fn after_a_start_what_waits_is_as_old_as_its_event() {
    let mut house = House::new();
    let receiver = Receiver::deciding(|_, _| Reply::Status(500, "Retry-After: 1000\r\n"));
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("a", 1);
    let committed = Instant::now();
    house.wait_for_figures(&subscription, |of| of("failures_total") == 1.0);
    house = house.restarted(&NEAR);
    let age = || committed.elapsed().as_secs_f64();
    let last = std::cell::Cell::new(age());
    house.wait_for_figures(&subscription, |of| {
        // The figures are of a time after the last look at them. Both clocks may differ a little.
        let least = last.replace(age()) - 0.01;
        of("waiting") == 1.0 && of("oldest_seconds") >= least
    });
}

#[test]
fn after_a_start_events_of_a_pause_match_the_types_of_their_time() {
    let narrow = [&NEAR[..], &["--webhooks-waiting-max", "300"]].concat();
    let mut house = House::with(&narrow);
    let receiver = Receiver::start();
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.switch(&subscription, 1, "paused");
    house.hears_of_it();
    // No more may wait in memory: what comes after them is read once it may be sent.
    let first: Vec<_> = (0..150).map(|id| fact(&format!("first-{id}"), 1)).collect();
    let answer = house.client().put_facts(&house.token, &first);
    assert_eq!(answer.json()["applied"], 150, "{answer:?}");
    house.wait(&subscription, |read| read["waiting"] == 150);
    for revision in [1, 3, 5] {
        house.fact("a", revision);
        set_wanted(&house, &subscription, revision + 1, false);
        house.fact("a", revision + 1);
        set_wanted(&house, &subscription, revision + 2, true);
    }
    house.fact("a", 7);
    set_wanted(&house, &subscription, 8, false);
    house.fact("a", 8);
    house = house.restarted(&narrow);
    house.switch(&subscription, 9, "enabled");
    set_wanted(&house, &subscription, 10, true);
    house.fact("a", 9);
    let expected = [1, 3, 5, 7, 9].map(|revision| (subject("a"), revision));
    receiver.wait(|came| {
        let mut taken = taken(came);
        taken.retain(|(of, _)| *of == subject("a"));
        taken == expected
    });
}

/// A paused subscription, the events that wait for its end, and the receiver.
fn waiting_in_a_pause() -> (House, Receiver, Value, [&'static str; 3]) {
    let house = House::new();
    let receiver = Receiver::start();
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("before", 1);
    receiver.wait_for(1);
    house.switch(&subscription, 1, "paused");
    house.hears_of_it();
    let waiting = ["a", "b", "c"];
    waiting.iter().for_each(|id| house.fact(id, 1));
    (house, receiver, subscription, waiting)
}

#[test]
fn events_of_a_pause_outlive_a_compaction() {
    let (mut house, receiver, subscription, waiting) = waiting_in_a_pause();
    let data = house.world.data();
    let compact = |server: Server| {
        assert_eq!(server.stop(), Some(0));
        let compacted = run(&["compact", "--keep", "0s", "--data", data.to_str().unwrap()]);
        assert_eq!(compacted.0, Some(0), "{compacted:?}");
    };
    house = house.again(&NEAR, compact, |_| ());
    house.switch(&subscription, 2, "enabled");
    let came = receiver.wait(|came| taken(came).len() == 4);
    let of_pause: BTreeSet<_> = taken(&came)[1..].iter().cloned().collect();
    assert_eq!(of_pause, waiting.map(|id| (subject(id), 1)).into());
}

#[test]
fn until_it_is_read_what_webhooks_need_the_log_is_kept_whole() {
    let (house, receiver, _, _) = waiting_in_a_pause();
    // Others, which need nothing of the first segment.
    let house = house.restarted(&NEAR);
    for _ in 0..12 {
        house.subscribe(&receiver.url(), &["carebook.outbox-message.dead"]);
    }
    let House { world, server, .. } = house;
    assert_eq!(server.stop(), Some(0));
    let engine = world.engine();
    engine.checkpoint_by(CheckpointPolicy {
        log: LogRetention {
            age: Duration::ZERO,
            ..LogRetention::default()
        },
        look: Duration::from_secs(1_000),
        ..CheckpointPolicy::default()
    });
    let engine = Arc::new(engine);
    engine.start_checkpointer().unwrap();
    let sender = Arc::new(Nowhere::default());
    let (_webhooks, deliveries) = engine.deliver_webhooks(sender, Bounds::default(), 1_000);
    for _ in 0..2 {
        engine.snapshot_now(&mut |_| {}).unwrap();
    }
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // Timers are looked at after each task: one is due before all subscriptions are read.
    let runtime = runtime.enable_all().event_interval(1).build().unwrap();
    let (mut deliveries, mut looks) = (pin!(deliveries), 0);
    runtime.block_on(poll_fn(|context| {
        assert!(deliveries.as_mut().poll(context).is_pending());
        let compacted = engine.compact_log(&mut |_| {}).unwrap();
        assert_eq!((compacted.segments, compacted.first_position), (0, 1));
        context.waker().wake_by_ref();
        looks += 1;
        match looks {
            100 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }));
    engine.shut_down().unwrap();
}

#[test]
fn after_a_kill_nothing_comes_again_that_the_log_says_is_delivered() {
    let mut house = House::new();
    let receiver = Receiver::start();
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    for number in 0..20 {
        house.fact(&format!("a{number}"), 1);
    }
    let came = receiver.wait_for(20);
    let last = came.iter().map(|one| position_of(&json!(one.id()))).max();
    house.wait(&subscription, |read| {
        Some(position_of(&read["deliveredThrough"])) >= last
    });
    house = house.again(&NEAR, Server::kill, |_| ());
    house.fact("b", 1);
    let came = receiver.wait(|came| came.iter().any(|one| one.subject() == subject("b")));
    let unique: BTreeSet<_> = came.iter().map(Delivery::id).collect();
    assert_eq!((came.len(), unique.len()), (21, 21), "nothing comes twice");
}

#[test]
fn deliveries_go_on_in_a_service_killed_repeatedly_within_a_second() {
    const EVENTS: i64 = 200;
    const OF_A_LIFE: usize = 40;
    let mut house = House::new();
    let receiver = Receiver::deciding(|_, _| Reply::Status(500, ""));
    house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    // Of one subject, so that they come one by one.
    let facts: Vec<_> = (1..=EVENTS).map(|revision| fact("a", revision)).collect();
    house.client().put_facts(&house.token, &facts);
    receiver.wait_for(1);
    receiver.now_answers(|_, _| TAKEN);
    let is_over = |came: &[Delivery]| taken(came).iter().any(|(_, at)| *at == EVENTS);
    for life in 1.. {
        let before = receiver.came().len();
        let came = receiver.wait(|came| came.len() >= before + OF_A_LIFE || is_over(came));
        if is_over(&came) {
            break;
        }
        assert!(life < 60, "what it begins with comes again and again");
        house = house.again(&NEAR, Server::kill, |_| ());
    }
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

/// Writes facts while servers come and go, until it is ended; the last revision of each.
struct Writer {
    /// Where the server is; `None` while there is none.
    address: Arc<Mutex<Option<String>>>,
    is_over: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: JoinHandle<BTreeMap<String, i64>>,
}

impl Writer {
    fn start(token: String, seed: u64) -> Self {
        let address = Arc::new(Mutex::new(None::<String>));
        let (is_over, written) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let own = (
            Arc::clone(&address),
            Arc::clone(&is_over),
            Arc::clone(&written),
        );
        let thread = std::thread::spawn(move || {
            let (address, is_over, written) = own;
            let mut random = SmallRng::seed_from_u64(seed);
            let mut revisions = BTreeMap::new();
            while !is_over.load(Ordering::Acquire) {
                let id = format!("a{}", random.random_range(0..8));
                let revision = revisions.get(&id).copied().unwrap_or(0) + 1;
                let body = json!({"facts": [fact(&id, revision)]}).to_string();
                // Sent again until it is acknowledged, whichever process was killed meanwhile.
                while !acknowledged(&address, &token, &body) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                revisions.insert(id, revision);
                written.fetch_add(1, Ordering::Release);
            }
            revisions
        });
        Self {
            address,
            is_over,
            written,
            thread,
        }
    }

    /// Waits until so many more facts are acknowledged.
    fn goes_on(&self, count: u64) {
        let (begun, before) = (Instant::now(), self.written.load(Ordering::Acquire));
        while self.written.load(Ordering::Acquire) < before + count {
            assert!(
                begun.elapsed() < PATIENCE,
                "nothing is acknowledged any more"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_at(&self, server: Option<&Server>) {
        *self.address.lock().unwrap() = server.map(|server| server.address.clone());
    }

    fn end(self) -> BTreeMap<String, i64> {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

fn acknowledged(address: &Mutex<Option<String>>, token: &str, body: &str) -> bool {
    let Some(address) = address.lock().unwrap().clone() else {
        return false;
    };
    let Ok(mut client) = Client::try_connect(&address) else {
        return false;
    };
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let answer = client.try_request("POST", "/reference-facts", &headers, body.as_bytes());
    answer.is_ok_and(|answer| answer.status == 200)
}

/// What came to one receiver, over its ends and beginnings.
#[derive(Default)]
struct Came {
    all: Vec<Delivery>,
    /// How much of it had come at each end of the service or of the receiver.
    ends: Vec<usize>,
}

impl Came {
    /// The deliveries that were taken, in order; with each how many ends lie before it.
    fn taken(&self) -> Vec<(String, i64, usize)> {
        let taken = self.all.iter().enumerate().filter(|(_, one)| one.taken);
        let taken = taken.map(|(number, one)| {
            let revision = one.event()["data"]["revision"].as_i64().unwrap();
            let ends = self.ends.partition_point(|end| *end <= number);
            (one.subject(), revision, ends)
        });
        taken.collect()
    }

    /// Each revision of each subject has come, in order; what came twice had an end between.
    fn judge(&self, last: &BTreeMap<String, i64>) -> usize {
        let mut doubles = 0;
        let mut of = BTreeMap::<String, Vec<(i64, usize)>>::new();
        for (subject, revision, end) in self.taken() {
            of.entry(subject).or_default().push((revision, end));
        }
        for (id, last) in last {
            let of = &of[&subject(id)];
            let mut first = BTreeMap::new();
            let mut highest = 0;
            for (revision, end) in of {
                assert!(*revision <= highest + 1, "{id}: {of:?}");
                highest = highest.max(*revision);
                if let Some(before) = first.insert(revision, *end) {
                    assert!(before < *end, "{revision} of {id} twice: {of:?}");
                    doubles += 1;
                }
            }
            assert_eq!(highest, *last, "{id}: {of:?}");
        }
        doubles
    }
}

/// Receivers that come and go, each at its port.
struct Receivers {
    ports: Vec<u16>,
    there: Vec<Option<Receiver>>,
    came: Vec<Came>,
}

impl Receivers {
    fn start(count: usize) -> Self {
        let there: Vec<_> = (0..count).map(|_| Receiver::start()).collect();
        Self {
            ports: there.iter().map(|one| one.port).collect(),
            there: there.into_iter().map(Some).collect(),
            came: (0..count).map(|_| Came::default()).collect(),
        }
    }

    /// Ends one; what was on its way to it may be delivered again.
    fn end(&mut self, which: usize) {
        if let Some(receiver) = self.there[which].take() {
            self.came[which].all.extend(receiver.end());
            let count = self.came[which].all.len();
            self.came[which].ends.push(count);
        }
    }

    /// Begins again with one, when its port is free.
    fn begin(&mut self, which: usize) {
        if self.there[which].is_none()
            && let Ok(listener) = TcpListener::bind(("127.0.0.1", self.ports[which]))
        {
            self.there[which] = Some(Receiver::on(listener, |_, _| TAKEN));
        }
    }

    /// The service has ended: what it sent has come, what comes from here on is of the next one.
    fn service_ended(&mut self) {
        for (receiver, came) in self.there.iter().zip(&mut self.came) {
            let now = receiver.as_ref().map_or(0, |receiver| {
                receiver.wait_for_silence();
                receiver.came().len()
            });
            came.ends.push(came.all.len() + now);
        }
    }
}

/// Kills of the service and of receivers under load: every event of every commit reaches every
/// subscription, those of one subject in their order, and twice only what was on its way.
#[test]
fn whatever_is_killed_every_event_comes_and_those_of_a_subject_in_order() {
    let seed = crate::support::seed();
    let rounds: u32 = std::env::var("ROUNDS").map_or(6, |rounds| rounds.parse().unwrap());
    let mut random = SmallRng::seed_from_u64(seed);
    let mut house = House::new();
    let mut receivers = Receivers::start(3);
    let subscriptions: Vec<_> = receivers
        .there
        .iter()
        .flatten()
        .map(|receiver| house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]))
        .collect();
    let writer = Writer::start(house.token.clone(), random.random());
    writer.is_at(Some(&house.server));
    let mut kills = [0; 3];
    for _ in 0..rounds {
        writer.goes_on(random.random_range(5..40));
        let what = random.random_range(0..3);
        kills[what] += 1;
        if what == 0 {
            receivers.end(random.random_range(0..3));
        } else {
            let end = |server: Server| match what {
                1 => server.kill(),
                _ => assert_eq!(server.stop(), Some(0)),
            };
            house = house.again(&NEAR, end, |server| {
                writer.is_at(server);
                if server.is_none() {
                    receivers.service_ended();
                }
            });
        }
        for which in 0..3 {
            if random.random_bool(0.7) {
                receivers.begin(which);
            }
        }
    }
    let last = writer.end();
    let known = usize::try_from(last.values().sum::<i64>()).unwrap();
    let mut doubles = 0;
    for (which, subscription) in subscriptions.iter().enumerate() {
        let begun = Instant::now();
        while receivers.there[which].is_none() {
            // The one before may not have let go yet.
            assert!(begun.elapsed() < PATIENCE);
            receivers.begin(which);
        }
        let mut waits = house.read(subscription);
        let begun = Instant::now();
        loop {
            let unique = |came: &Came| {
                let now = receivers.there[which].as_ref().map(Receiver::came);
                let all = came.all.iter().chain(now.iter().flatten());
                let taken = all.filter(|one| one.taken).map(Delivery::id);
                taken.collect::<BTreeSet<_>>().len()
            };
            if waits["waiting"] == 0 && unique(&receivers.came[which]) == known {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{waits}");
            std::thread::sleep(Duration::from_millis(20));
            waits = house.read(subscription);
        }
        receivers.end(which);
        doubles += receivers.came[which].judge(&last);
    }
    let [ends, killed, stopped] = kills;
    println!(
        "{known} events to 3 receivers over {killed} kills and {stopped} stops of the service and \
         {ends} ends of receivers: each came, {doubles} twice"
    );
}

/// A log that keeps as little as it can, and deliveries hardly anything of it.
const SHORT: [&str; 10] = [
    "--webhooks-allow",
    "127.0.0.0/8",
    "--webhooks-hurry",
    "1000000",
    "--snapshot-log-bytes",
    "65536",
    "--log-retention",
    "0s",
    "--log-kept-for-delivery-bytes",
    "1",
];

/// The service with [`SHORT`], when its log has given up everything up to `position`: each start
/// begins a segment, and snapshots let whole ones go.
fn given_up(mut house: House, position: u64) -> House {
    let figure = |house: &House, name: &str| -> u64 {
        let page = house.client().request("GET", "/metrics", &[], b"");
        let mut lines = page.text().lines();
        let value = lines.find_map(|line| line.strip_prefix(&format!("{name} ")));
        let value = value.unwrap_or_else(|| panic!("no {name}"));
        value.parse().unwrap()
    };
    let started = Instant::now();
    let mut number = 0;
    while figure(&house, "carebook_log_first_position") <= position {
        assert!(started.elapsed() < PATIENCE, "the log keeps everything");
        let facts: Vec<_> = (0..500)
            .map(|_| {
                number += 1;
                fact(&format!("more-{number}"), 1)
            })
            .collect();
        let token = house.token.clone();
        house.client().put_facts(&token, &facts);
        let before = figure(&house, "carebook_snapshots_total");
        house.server.signal("USR1");
        while figure(&house, "carebook_snapshots_total") <= before {
            assert!(started.elapsed() < PATIENCE, "no snapshot is taken");
            std::thread::sleep(Duration::from_millis(20));
        }
        house = house.restarted(&SHORT);
    }
    house
}

/// The position of an event, by its identifier.
fn position_of(id: &Value) -> u64 {
    let position = id.as_str().unwrap().split('-').next();
    position.unwrap().parse().unwrap()
}

#[test]
fn events_that_left_the_log_before_being_sent_are_reported_as_a_gap() {
    let mut house = House::with(&SHORT);
    let receiver = Receiver::start();
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    let begun = position_of(&house.read(&subscription)["deliveredThrough"]);
    house.switch(&subscription, 1, "paused");
    house = given_up(house, begun + 2);
    house.switch(&subscription, 2, "enabled");
    let came = receiver.wait(|came| came.iter().any(|one| one.kind() == "carebook.gap"));
    let gap = came
        .iter()
        .find(|one| one.kind() == "carebook.gap")
        .unwrap();
    let (from, to) = (&gap.event()["data"]["from"], &gap.event()["data"]["to"]);
    let (from, to) = (from.as_u64().unwrap(), to.as_u64().unwrap());
    // Its beginning and its pause may have been passed before; the gap begins with the last commit that was.
    assert!((begun..=begun + 3).contains(&from), "{from}");
    assert!(to >= from);
    assert_eq!(gap.subject(), path_of(&subscription)[1..]);
    house.fact("last", 1);
    let came = receiver.wait(|came| came.iter().any(|one| one.subject() == subject("last")));
    let (gaps, events): (Vec<_>, Vec<_>) =
        came.iter().partition(|one| one.kind() == "carebook.gap");
    let gaps = gaps.into_iter().map(|gap| {
        let data = &gap.event()["data"];
        data["from"].as_u64().unwrap()..=data["to"].as_u64().unwrap()
    });
    let gaps: Vec<_> = gaps.collect();
    for one in events {
        let position = position_of(&one.event()["id"]);
        assert!(position > to, "{position} lies in the gap, up to {to}");
        assert!(
            !gaps.iter().any(|gap| gap.contains(&position)),
            "{position} was taken: {gaps:?}"
        );
    }
    house.wait(&subscription, |read| read["waiting"] == 0);
}

#[test]
fn a_dead_event_that_the_log_gave_up_cannot_be_retried() {
    let house = House::with(&SHORT);
    let receiver = Receiver::deciding(|one, _| match one.subject().ends_with("bad") {
        true => Reply::Status(400, ""),
        false => TAKEN,
    });
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("bad", 1);
    house.wait(&subscription, |read| read["dead"] == 1);
    let listed = house.deliveries(&subscription, "?state=dead");
    let event = &listed["items"][0]["eventId"];
    let retries = retries_of(&subscription, event);
    let bearer = format!("Bearer {}", house.token);
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Idempotency-Key", "before"),
    ];
    let tried = receiver.came().len();
    let first = house.client().request("POST", &retries, &headers, b"");
    assert_eq!(first.status, 202, "{first:?}");
    receiver.wait(|came| came.len() > tried);
    house.wait(&subscription, |read| read["dead"] == 1);
    let house = given_up(house, position_of(event));
    receiver.now_answers(|_, _| TAKEN);
    let before = house.read(&subscription);
    // What was asked for before is answered as it was.
    let replay = house.client().request("POST", &retries, &headers, b"");
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert_eq!((replay.status, replay.body), (202, first.body));
    let gone = house.send("POST", &retries, &json!({}));
    assert_eq!(
        (gone.status, &gone.json()["code"]),
        (410, &json!("event_gone"))
    );
    let after = house.read(&subscription);
    assert_eq!(
        (&after["dead"], &after["revision"]),
        (&json!(1), &before["revision"])
    );
    let came = receiver.came();
    let of_bad = came.iter().filter(|one| one.subject() == subject("bad"));
    assert_eq!(of_bad.filter(|one| one.taken).count(), 0);
}
