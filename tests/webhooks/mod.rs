//! Webhooks, against receivers that are real servers.

mod examples;
mod heard_later;
pub mod hostile;
mod load;
mod managing;
pub mod receiver;
mod restarts;
mod secured;
mod shown;

use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use carebook::base::actor::{Actor, ActorKind};
use carebook::domain::event_id::EventId;
use serde_json::{Value, json};

use crate::support::{Answer, Client, PATIENCE, Server, World, actor};
use receiver::{Delivery, Receiver, Reply, TAKEN};

const SUBSCRIPTIONS: &str = "/webhook-subscriptions";
/// What deliveries to this machine need, with pauses a hundredth of what they are.
const NEAR: [&str; 4] = ["--webhooks-allow", "127.0.0.0/8", "--webhooks-hurry", "100"];

/// A token of a workflow that manages webhooks, and puts facts in place.
fn manager(world: &World) -> String {
    world.token(&Actor {
        permissions: vec!["facts:write".into(), "webhooks:manage".into()],
        ..actor(ActorKind::SystemWorkflow, "workflow-1")
    })
}

/// A server and an actor who manages its webhooks.
pub struct House {
    world: World,
    server: Server,
    token: String,
    keys: std::cell::Cell<u32>,
}

impl House {
    fn new() -> Self {
        Self::with(&NEAR)
    }

    pub fn with(arguments: &[&str]) -> Self {
        Self::on(World::new(), arguments)
    }

    fn on(world: World, arguments: &[&str]) -> Self {
        let server = Server::start_with(&world, arguments);
        let token = manager(&world);
        Self {
            world,
            server,
            token,
            keys: std::cell::Cell::new(0),
        }
    }

    fn key(&self) -> String {
        self.keys.set(self.keys.get() + 1);
        format!("key-{}", self.keys.get())
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let key = self.key();
        let headers = [("Idempotency-Key", key.as_str())];
        self.client()
            .send_json(method, path, &self.token, &headers, body)
    }

    /// Subscribes; the subscription with its secret.
    #[track_caller]
    pub fn subscribe(&self, url: &str, types: &[&str]) -> Value {
        let body = json!({"url": url, "types": types, "description": "a test"});
        let answer = self.send("POST", SUBSCRIPTIONS, &body);
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()
    }

    fn read(&self, subscription: &Value) -> Value {
        let answer = self.client().get(&path_of(subscription), &self.token);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Waits until the subscription reads as `is_it` says.
    #[track_caller]
    pub fn wait(&self, subscription: &Value, is_it: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let read = self.read(subscription);
            if is_it(&read) {
                return read;
            }
            assert!(started.elapsed() < PATIENCE, "{read}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Waits until nothing waits up to the event of this id: the log may have been examined beyond it,
    /// up to its end.
    #[track_caller]
    fn wait_through(&self, subscription: &Value, id: &str) -> Value {
        let event = |id: &str| id.parse::<EventId>().unwrap();
        let through = |read: &Value| read["deliveredThrough"].as_str().map(event);
        let read = self.wait(subscription, |read| through(read) >= Some(event(id)));
        let answer = self.client().get(&path_of(subscription), &self.token);
        let end: u64 = answer.header("carebook-position").unwrap().parse().unwrap();
        assert!(through(&read).unwrap().position <= end, "{read}");
        read
    }

    /// Waits until the metrics of the subscription are so, as of the last tick: not a number while
    /// there are none.
    #[track_caller]
    fn wait_for_figures(&self, subscription: &Value, is_so: impl Fn(&dyn Fn(&str) -> f64) -> bool) {
        let id = subscription["subscriptionId"].as_str().unwrap();
        let started = Instant::now();
        loop {
            let page = self.client().request("GET", "/metrics", &[], b"");
            let of = |name: &str| {
                let series = format!("carebook_webhook_{name}{{subscription=\"{id}\"}}");
                match page.text().contains(&series) {
                    true => page.metric(&series),
                    false => f64::NAN,
                }
            };
            if is_so(&of) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{}", page.text());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Pauses or enables the subscription, at this revision.
    #[track_caller]
    fn switch(&self, subscription: &Value, revision: i64, status: &str) {
        let body = json!({"expectedRevision": revision, "status": status});
        let answer = self.send("PATCH", &path_of(subscription), &body);
        assert_eq!(answer.json()["status"], status, "{answer:?}");
    }

    /// Waits until the dispatcher has heard of what was before: it hears of what comes now, which
    /// is of no reference fact, later.
    fn hears_of_it(&self) {
        let (first, second) = (Receiver::start(), Receiver::start());
        self.subscribe(&first.url(), &["carebook.webhook-subscription.*"]);
        self.subscribe(&second.url(), &["carebook.branch.*"]);
        first.wait_for(1);
        // Their ports stay theirs.
        std::mem::forget((first, second));
    }

    fn deliveries(&self, subscription: &Value, query: &str) -> Value {
        let path = format!("{}/deliveries{query}", path_of(subscription));
        let answer = self.client().get(&path, &self.token);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Puts a fact in place, at this revision: one event, of the type
    /// `carebook.reference-fact.applied`.
    #[track_caller]
    pub fn fact(&self, id: &str, revision: i64) {
        let answer = self.client().put_facts(&self.token, &[fact(id, revision)]);
        assert_eq!(answer.json()["applied"], 1, "{answer:?}");
    }
}

/// A fact, which differs from one revision to the next.
fn fact(id: &str, revision: i64) -> Value {
    json!({"kind": "actor", "id": id, "revision": revision, "facts": {"lifecycle": "active"}})
}

/// The subject of the events that tell of the fact.
fn subject(id: &str) -> String {
    format!("reference-facts/actor/{id}")
}

fn path_of(subscription: &Value) -> String {
    let id = subscription["subscriptionId"].as_str().unwrap();
    format!("{SUBSCRIPTIONS}/{id}")
}

/// Where the delivery of an event is asked for again, by the event's identifier.
fn retries_of(subscription: &Value, event: &Value) -> String {
    let event = event.as_str().unwrap();
    format!("{}/deliveries/{event}/retries", path_of(subscription))
}

/// What was taken, as subject and revision.
fn taken(came: &[Delivery]) -> Vec<(String, i64)> {
    let taken = came.iter().filter(|one| one.taken);
    taken
        .map(|one| {
            (
                one.subject(),
                one.event()["data"]["revision"].as_i64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn an_event_is_delivered_signed_with_its_id_to_subscribers_of_its_type() {
    let (house, receiver, other) = (House::new(), Receiver::start(), Receiver::start());
    house.fact("before", 1);
    let wanting = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.subscribe(&other.url(), &["carebook.branch.created"]);
    house.fact("after", 1);
    house.fact("after", 2);
    let came = receiver.wait_for(2);
    assert_eq!(came.len(), 2, "the events before it are not told");
    let secret = wanting["secret"].as_str().unwrap();
    for (one, revision) in came.iter().zip([1, 2]) {
        let event = one.event();
        assert_eq!(one.path, "/events?a=b");
        assert_eq!(one.header("content-type"), "application/cloudevents+json");
        assert_eq!(event["type"], "carebook.reference-fact.applied");
        assert_eq!(event["subject"], subject("after"));
        assert_eq!(event["data"]["revision"], revision);
        let log = event["source"].as_str().unwrap();
        let log = log.strip_prefix("urn:carebook:").unwrap();
        let id = format!("{log}-{}", event["id"].as_str().unwrap());
        assert_eq!(one.header("webhook-id"), id);
        assert_eq!(one.signed_by(secret), 1);
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let sent: u64 = one.header("webhook-timestamp").parse().unwrap();
        assert!(now.abs_diff(sent) < 300);
    }
    let last = came[1].id();
    let read = house.wait_through(&wanting, &last);
    assert_eq!((&read["waiting"], &read["dead"]), (&json!(0), &json!(0)));
    assert_eq!(read["status"], "enabled");
    assert_eq!(read["lastFailure"], Value::Null);
    assert_eq!(other.came().len(), 0);
}

#[test]
fn events_of_one_subject_keep_their_order_and_other_subjects_do_not_wait() {
    let house = House::new();
    let receiver = Receiver::deciding(|one, _| match one.subject().ends_with("slow") {
        true => Reply::Status(500, ""),
        false => TAKEN,
    });
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.applied"]);
    for revision in 1..=3 {
        house.fact("slow", revision);
        house.fact("quick", revision);
    }
    receiver.wait(|came| taken(came).len() == 3);
    // It may have been recorded before the last answers were there.
    house.wait(&subscription, |read| {
        let listed = house.deliveries(&subscription, "?order=oldest");
        let items = listed["items"].as_array().unwrap();
        let is_slow = |item: &Value| item["subject"] == subject("slow");
        let are_slow = items.len() == 3 && items.iter().all(is_slow);
        are_slow && items[0]["lastStatus"] == 500 && read["lastFailure"]["status"] == 500
    });
    let listed = house.deliveries(&subscription, "?order=oldest");
    let items = listed["items"].as_array().unwrap();
    assert!(items[0]["attempts"].as_u64().unwrap() >= 1);
    assert_eq!(
        items[1]["attempts"], 0,
        "the second is not tried before the first"
    );
    receiver.now_answers(|_, _| TAKEN);
    let came = receiver.wait(|came| taken(came).len() == 6);
    let of = |id: &str| -> Vec<i64> {
        let all = taken(&came).into_iter();
        all.filter(|(of, _)| *of == subject(id))
            .map(|(_, at)| at)
            .collect()
    };
    assert_eq!((of("slow"), of("quick")), (vec![1, 2, 3], vec![1, 2, 3]));
    let read = house.wait(&subscription, |read| read["waiting"] == 0);
    assert_eq!(read["status"], "enabled");
    assert_eq!(
        read["lastFailure"]["status"], 500,
        "it is kept after a success"
    );
}

#[test]
fn a_delivery_is_dead_after_ten_attempts_and_can_be_retried() {
    let house = House::with(&[
        "--webhooks-allow",
        "127.0.0.1",
        "--webhooks-hurry",
        "1000000",
    ]);
    let receiver = Receiver::deciding(|one, _| match one.subject().ends_with("bad") {
        true => Reply::Status(400, ""),
        false => TAKEN,
    });
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("bad", 1);
    house.wait(&subscription, |read| read["dead"] == 1);
    assert_eq!(receiver.came().len(), 10);
    house.wait_for_figures(&subscription, |of| of("dead") == 1.0);
    let listed = house.deliveries(&subscription, "?state=dead");
    let dead = &listed["items"][0];
    assert_eq!(
        (
            &dead["attempts"],
            &dead["nextAttemptAt"],
            &dead["lastError"]
        ),
        (&json!(10), &Value::Null, &json!("it answered 400"))
    );
    assert_eq!(listed["next"], Value::Null);
    receiver.now_answers(|_, _| TAKEN);
    let retries = retries_of(&subscription, &dead["eventId"]);
    let bearer = format!("Bearer {}", house.token);
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Idempotency-Key", "again"),
    ];
    let answer = house.client().request("POST", &retries, &headers, b"");
    assert_eq!(answer.status, 202, "{answer:?}");
    let came = receiver.wait(|came| taken(came).len() == 1);
    assert_eq!(came.len(), 11);
    house.wait(&subscription, |read| {
        read["dead"] == 0 && read["waiting"] == 0
    });
    house.wait_for_figures(&subscription, |of| of("dead") == 0.0);
    let replay = house.client().request("POST", &retries, &headers, b"");
    assert_eq!(replay.status, 202);
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    let unknown = house.send("POST", &retries, &json!({}));
    assert_eq!(unknown.json()["code"], "webhook_delivery_not_found");
}

#[test]
fn a_delivery_retried_again_and_again_is_dead_once_also_after_a_restart() {
    let hurried = [
        "--webhooks-allow",
        "127.0.0.1",
        "--webhooks-hurry",
        "1000000",
    ];
    let house = House::with(&hurried);
    let receiver = Receiver::deciding(|_, _| Reply::Status(400, ""));
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("bad", 1);
    house.wait(&subscription, |read| read["dead"] == 1);
    let dead = house.deliveries(&subscription, "?state=dead");
    let event = dead["items"][0]["eventId"].clone();
    let retries = retries_of(&subscription, &event);
    // Each dies within milliseconds, and the log knows that up to a second later.
    for _ in 0..40 {
        let before = receiver.came().len();
        let retried = house.send("POST", &retries, &json!({}));
        assert_eq!(retried.status, 202, "{retried:?}");
        receiver.wait_for(before + 1);
        let mut came = 0;
        while came < receiver.came().len() {
            came = receiver.came().len();
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    house.wait(&subscription, |read| {
        read["dead"] == 1 && read["waiting"] == 0
    });
    house.wait_for_figures(&subscription, |of| of("dead") == 1.0);
    let house = house.restarted(&hurried);
    let dead = house.deliveries(&subscription, "?state=dead");
    let dead = dead["items"].as_array().unwrap();
    assert_eq!(dead.len(), 1, "{dead:?}");
    assert_eq!(dead[0]["eventId"], event);
    receiver.now_answers(|_, _| TAKEN);
    assert_eq!(house.send("POST", &retries, &json!({})).status, 202);
    // Between the commit of a retry and its delivery, the subscription may show neither.
    receiver.wait(|came| !taken(came).is_empty());
    house.wait(&subscription, |read| {
        read["dead"] == 0 && read["waiting"] == 0
    });
    assert_eq!(taken(&receiver.came()).len(), 1);
}

#[test]
fn a_gone_receiver_gets_nothing_until_enabled_and_then_only_new_events() {
    let house = House::new();
    let receiver = Receiver::deciding(|_, _| Reply::Status(410, ""));
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("a", 1);
    let read = house.wait(&subscription, |read| read["status"] == "gone");
    assert_eq!(read["lastFailure"]["status"], 410);
    house.fact("a", 2);
    receiver.now_answers(|_, _| TAKEN);
    let body = json!({"expectedRevision": 1, "status": "enabled"});
    let answer = house.send("PATCH", &path_of(&subscription), &body);
    assert_eq!(
        (answer.status, &answer.json()["status"]),
        (200, &json!("enabled"))
    );
    house.fact("a", 3);
    let came = receiver.wait_for(2);
    assert_eq!(taken(&came), [(subject("a"), 3)]);
}

#[test]
fn a_late_410_of_a_former_receiver_takes_nothing_from_the_next_one() {
    let house = House::new();
    let (came, has_come) = mpsc::channel();
    let (end, may_end) = mpsc::channel();
    let may_end = Mutex::new(may_end);
    let old = Receiver::deciding(move |_, _| {
        came.send(()).unwrap();
        let _ = may_end.lock().unwrap().recv_timeout(PATIENCE);
        Reply::Status(410, "")
    });
    let new = Receiver::start();
    let subscription = house.subscribe(&old.url(), &["carebook.reference-fact.*"]);
    house.fact("one", 1);
    has_come.recv_timeout(PATIENCE).unwrap();
    let moved = json!({"expectedRevision": 1, "url": new.url()});
    let answer = house.send("PATCH", &path_of(&subscription), &moved);
    assert_eq!(answer.status, 200, "{answer:?}");
    end.send(()).unwrap();
    old.wait_for(1);
    house.fact("two", 1);
    // Subjects do not wait for each other.
    let mut came = taken(&new.wait_for(2));
    came.sort();
    assert_eq!(came, [(subject("one"), 1), (subject("two"), 1)]);
    assert_eq!(house.read(&subscription)["status"], "enabled");
}

#[test]
fn a_failure_at_the_url_before_a_change_does_not_count_for_the_next_one() {
    let house = House::new();
    let (came, has_come) = mpsc::channel();
    let (end, may_end) = mpsc::channel();
    let may_end = Mutex::new(may_end);
    let old = Receiver::deciding(move |_, _| {
        came.send(()).unwrap();
        let _ = may_end.lock().unwrap().recv_timeout(PATIENCE);
        Reply::Status(500, "Retry-After: 3600\r\n")
    });
    let new = Receiver::start();
    let subscription = house.subscribe(&old.url(), &["carebook.reference-fact.*"]);
    house.fact("one", 1);
    has_come.recv_timeout(PATIENCE).unwrap();
    let moved = json!({"expectedRevision": 1, "url": new.url()});
    let answer = house.send("PATCH", &path_of(&subscription), &moved);
    assert_eq!(answer.status, 200, "{answer:?}");
    end.send(()).unwrap();
    assert_eq!(taken(&new.wait_for(1)), [(subject("one"), 1)]);
    let read = house.wait(&subscription, |read| read["waiting"] == 0);
    assert_eq!(read["lastFailure"], Value::Null);
    assert_eq!(read["status"], "enabled");
}

#[test]
fn events_of_a_pause_wait_and_are_sent_afterwards() {
    let (house, receiver) = (House::new(), Receiver::start());
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("a", 1);
    receiver.wait_for(1);
    house.switch(&subscription, 1, "paused");
    // Of whom the dispatcher hears later.
    let other = Receiver::start();
    house.subscribe(&other.url(), &["carebook.reference-fact.*"]);
    house.fact("a", 2);
    house.fact("b", 1);
    other.wait_for(2);
    let read = house.wait(&subscription, |read| read["waiting"] == 2);
    assert_eq!(read["status"], "paused");
    let listed = house.deliveries(&subscription, "?state=waiting");
    let listed = listed["items"].as_array().unwrap();
    let listed: Vec<_> = listed.iter().map(|item| &item["subject"]).collect();
    assert_eq!(listed, [&subject("b"), &subject("a")]);
    // That is no fault of the receiver.
    house.wait_for_figures(&subscription, |of| {
        of("waiting") == 2.0 && of("oldest_seconds") == 0.0
    });
    assert_eq!(receiver.came().len(), 1);
    house.switch(&subscription, 2, "enabled");
    let came = receiver.wait_for(3);
    let mut all = taken(&came);
    all.sort();
    assert_eq!(
        all,
        [(subject("a"), 1), (subject("a"), 2), (subject("b"), 1)]
    );
}

/// Has the subscription, at this revision, want facts, or what there is none of.
#[track_caller]
fn set_wanted(house: &House, subscription: &Value, revision: i64, wanted: bool) {
    let types = match wanted {
        true => ["carebook.reference-fact.*"],
        false => ["carebook.branch.*"],
    };
    let body = json!({"expectedRevision": revision, "types": types});
    let answer = house.send("PATCH", &path_of(subscription), &body);
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn an_event_is_matched_with_the_types_subscribed_when_it_happened() {
    let (house, receiver) = (House::new(), Receiver::start());
    let subscription = house.subscribe(&receiver.url(), &["carebook.branch.*"]);
    let mut expected = Vec::new();
    for turn in 0..10 {
        // Right behind each other: the dispatcher hears of all of it later.
        house.fact("a", 2 * turn + 1);
        set_wanted(&house, &subscription, 2 * turn + 1, true);
        house.fact("a", 2 * turn + 2);
        expected.push((subject("a"), 2 * turn + 2));
        receiver.wait(|came| taken(came) == expected);
        set_wanted(&house, &subscription, 2 * turn + 2, false);
    }
    assert_eq!(taken(&receiver.came()), expected);
}

/// Several changes have happened by the time at which the dispatcher hears of the first.
#[test]
fn each_of_many_changes_counts_from_its_own_place_on() {
    let (house, receiver) = (House::new(), Receiver::start());
    let subscription = house.subscribe(&receiver.url(), &["carebook.branch.*"]);
    let mut expected = Vec::new();
    for turn in 0..100 {
        let wanted = turn % 2 == 1;
        set_wanted(&house, &subscription, turn + 1, wanted);
        house.fact("a", turn + 1);
        if wanted {
            expected.push((subject("a"), turn + 1));
        }
    }
    receiver.wait(|came| taken(came) == expected);
}

#[test]
fn a_subscription_is_told_of_others_and_not_of_its_own_changes() {
    let (house, one, other) = (House::new(), Receiver::start(), Receiver::start());
    let first = house.subscribe(&one.url(), &["carebook.webhook-subscription.*"]);
    let second = house.subscribe(&other.url(), &["carebook.webhook-subscription.*"]);
    let body = json!({"expectedRevision": 1, "description": "secret words"});
    house.send("PATCH", &path_of(&first), &body);
    let came = one.wait_for(1);
    assert_eq!(came[0].kind(), "carebook.webhook-subscription.created");
    assert_eq!(came[0].subject(), path_of(&second)[1..]);
    let came = other.wait_for(1);
    assert_eq!(came[0].kind(), "carebook.webhook-subscription.updated");
    let text = String::from_utf8(came[0].body.clone()).unwrap();
    assert!(
        !text.contains("secret words") && !text.contains("127.0.0.1"),
        "{text}"
    );
}
