//! What the clock says of a body is no property of the body: a command that was carried out while the
//! clock was ahead is replayed once it is right again.

use std::time::Duration;

use bytes::Bytes;
use carebook::base::actor::{Actor, ActorKind};
use carebook::base::time::Timestamp;
use carebook::cli::runtime::on_lane;
use carebook::cli::serve::demo::load_samples;
use carebook::domain::example;
use carebook::engine::clock::Clock as _;
use http_body_util::Full;
use serde_json::{Value, json};

use super::{Asked, all, workflow};
use crate::support::inside::{Inside, Wanted};
use crate::support::{Answer, World, claims};

/// How far the clock is ahead: a day of birth lies in the future by the right clock, too.
const AHEAD: Duration = Duration::from_secs(2 * 86_400);

/// The operations whose bodies are judged by the clock, by their numbers, and the place that is.
const JUDGED: [(u16, &str); 4] = [
    (7, "/birthDate"),
    (8, "/lineAcknowledgements/0/acknowledgedAt"),
    (11, "/occurredAt"),
    (12, "/occurredAt"),
];

/// A token that is good by a clock that is ahead, too.
fn long(world: &World, actor: &Actor) -> String {
    world.key.sign(&claims(actor, 10 * 86_400)).unwrap()
}

/// A request of an operation whose body is judged by the clock.
struct Judged {
    asked: Asked,
    place: &'static str,
    token: String,
}

impl Judged {
    /// The requests, each with the time that it is by a clock that is ahead.
    fn all(world: &World, inside: &Inside) -> Vec<Self> {
        let judged = JUDGED.into_iter().map(|(tag, place)| {
            let mut all = all().into_iter();
            let asked = all.find(|asked| asked.row.is_some_and(|row| row.tag == tag));
            let asked = asked.unwrap();
            let sender =
                example::actor(asked.row.unwrap().operation.example().actor, &str::to_owned);
            let token = long(world, &sender);
            let mut judged = Self {
                asked,
                place,
                token,
            };
            judged.says_time(inside, AHEAD);
            judged
        });
        judged.collect()
    }

    /// Says a time that is so long after now.
    fn says_time(&mut self, inside: &Inside, after: Duration) {
        inside.clock.set_ahead(after);
        let mut time = inside.clock.now().to_string();
        inside.clock.set_ahead(Duration::ZERO);
        if self.place == "/birthDate" {
            time.truncate("2026-11-20".len());
        }
        *self.value() = json!(time);
    }

    fn value(&mut self) -> &mut Value {
        let body = self.asked.body.as_mut().unwrap();
        body.pointer_mut(self.place).unwrap()
    }

    /// Has another key from here on.
    fn under(&mut self, key: &'static str) {
        match &mut self.asked.key {
            Some(before) => *before = key,
            None => self.asked.body.as_mut().unwrap()["idempotencyKey"] = json!(key),
        }
    }

    async fn send(&self, inside: &Inside) -> Answer {
        self.asked.send(inside, &self.token).await
    }

    async fn dry_run(&self, inside: &Inside) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let path = format!("{}?dryRun=true", self.asked.path);
        let headers = self.asked.headers(&bearer);
        let body = Full::new(Bytes::from(self.asked.text()));
        let answer = inside.send(&self.asked.method, &path, &headers, body);
        answer.await
    }

    /// Is refused as it always was: with the faults at these places.
    #[track_caller]
    fn is_invalid(&self, answer: &Answer, places: &[&str]) {
        let status = if self.asked.has(400, "request_invalid") {
            400
        } else {
            422
        };
        self.asked.is_answered(answer, status, "request_invalid");
        let body = answer.json();
        // Problems of profiles name no fault.
        if let Some(faults) = body["fieldErrors"].as_array() {
            let told = faults.iter();
            let told: Vec<_> = told
                .filter_map(|fault| fault["fieldPath"].as_str())
                .collect();
            assert_eq!(told, places, "{}", self.asked.name);
        } else {
            assert_eq!(self.place, "/birthDate", "{body}");
        }
    }

    /// The place as a fault names it.
    fn path(&self) -> String {
        self.place[1..].replace("/0/", "[0].")
    }
}

#[track_caller]
fn is_done(answer: &Answer, replayed: bool) {
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    let told = answer.headers.iter();
    let told = told.filter(|(name, _)| name == "idempotent-replayed");
    assert_eq!(told.count(), usize::from(replayed), "{answer:?}");
}

#[test]
fn a_command_done_while_the_clock_was_ahead_is_replayed_once_it_is_right() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    load_samples(inside.engine()).unwrap();
    on_lane(inside.engine(), async {
        for mut judged in Judged::all(&world, &inside) {
            inside.clock.set_ahead(AHEAD);
            is_done(&judged.send(&inside).await, false);
            inside.clock.set_ahead(Duration::ZERO);
            is_done(&judged.send(&inside).await, true);
            is_done(&judged.dry_run(&inside).await, true);
            // Its key has no other facts, of whatever time they speak.
            judged.says_time(&inside, 2 * AHEAD);
            let reused = judged.send(&inside).await;
            assert_eq!(reused.status, 409, "{reused:?}");
        }
    })
    .unwrap();
}

#[test]
fn a_time_ahead_of_the_clock_is_invalid_under_an_unused_key() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    load_samples(inside.engine()).unwrap();
    on_lane(inside.engine(), async {
        for mut judged in Judged::all(&world, &inside) {
            let path = judged.path();
            judged.is_invalid(&judged.send(&inside).await, &[&path]);
            judged.is_invalid(&judged.dry_run(&inside).await, &[&path]);
            inside.clock.set_ahead(AHEAD);
            is_done(&judged.send(&inside).await, false);
            inside.clock.set_ahead(Duration::ZERO);
            // Nor does a key help that somebody else has used.
            let stranger = world.plain(ActorKind::Mother, "stranger");
            let own = std::mem::replace(&mut judged.token, stranger);
            judged.is_invalid(&judged.send(&inside).await, &[&path]);
            judged.token = own;
            // With another fault, both are told whether or not the key was used.
            let body = judged.asked.body.clone();
            judged.asked.body.as_mut().unwrap()["other"] = json!(1);
            let refused = judged.send(&inside).await;
            judged.is_invalid(&refused, &["other", &path]);
            judged.asked.body = body;
            judged.under("unused");
            judged.is_invalid(&judged.send(&inside).await, &[&path]);
        }
    })
    .unwrap();
}

#[test]
fn an_earlier_body_is_judged_by_no_time_that_is_still_to_come() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    load_samples(inside.engine()).unwrap();
    on_lane(inside.engine(), async {
        inside.clock.set_ahead(AHEAD / 2);
        let tomorrow = inside.clock.now().to_string();
        // This commit is ahead of the time, and so are those after it.
        inside.clock.set_ahead(AHEAD);
        let facts = json!({"publishedAt": tomorrow, "required": true, "current": true});
        let fact =
            json!({"kind": "consent-version", "id": "terms@1", "revision": 1, "facts": facts});
        let token = long(&world, &workflow("workflow-1"));
        let put = inside.send_json(
            "POST",
            "/reference-facts",
            &token,
            "facts",
            Some(json!({"facts": [fact]})),
        );
        let put = put.await;
        assert_eq!(put.json()["applied"], 1, "{put:?}");
        inside.clock.set_ahead(Duration::ZERO);
        let all = all();
        let update = all
            .iter()
            .find(|asked| asked.row.is_some_and(|row| row.tag == 7));
        let update = update.unwrap();
        let actor = example::actor(ActorKind::Mother, &str::to_owned);
        let token = long(&world, &actor);
        is_done(&update.send(&inside, &token).await, false);
        let read = async |query: &str| {
            let path = format!("/mother/profile{query}");
            let answer = inside.send_json("GET", &path, &token, "read", None).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            answer
        };
        let present = read("").await;
        assert_eq!(present.json()["profileCompleteness"], "complete");
        let history = read("/history").await.json();
        let last = &history["revisions"][0];
        let at = Timestamp::parse(last["at"].as_str().unwrap());
        assert!(at.unwrap() > inside.clock.now(), "{last}");
        let then = read(&format!("?revision={}", last["revision"])).await;
        assert_eq!(then.json(), present.json());
        assert_eq!(then.header("etag"), present.header("etag"));
        let mut changes = last["changes"].as_array().unwrap().iter();
        let done = changes.find(|change| change["path"] == "profileCompleteness");
        assert_eq!(done, None, "it was complete before: {last}");
    })
    .unwrap();
}
