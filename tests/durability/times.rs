//! The system's clock is set forward and back, by seconds and by years, while the service runs and
//! between runs: tokens are judged by its current time, the times of commits never decrease, and no
//! key is forgotten before its time has run.
//!
//! `CLOCK_JUMPS` says how many jumps, `SEED` which ones.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carebook::base::actor::ActorKind;
use carebook::base::time::Timestamp;
use carebook::cli::open::Replaying;
use carebook::cli::runtime::on_lane;
use carebook::engine::checkpointer::CheckpointPolicy;
use carebook::engine::clock::Clock as _;
use carebook::engine::{Engine, Limits};
use carebook::http::service::Service;
use carebook::http::token::TokenVerifier;
use http_body_util::{BodyExt as _, Full};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use wal::Log;
use wal::storage::sim::SimDisk;

use super::inside::small;
use super::share;
use super::snapshots::{DAY, SetClock};
use crate::support::{AUDIENCE, ISSUER, World, actor, claims, seed};

/// Days that keys are kept.
const RETENTION_DAYS: i64 = 30;
const HOUR: i64 = 3_600_000;
const YEAR: i64 = 365 * DAY;

/// A service in this process whose clock is ours.
struct Life {
    disk: SimDisk,
    clock: Arc<SetClock>,
    world: World,
    verifier: Arc<TokenVerifier>,
    service: Service,
}

impl Life {
    fn new() -> Self {
        let (disk, clock, world) = (SimDisk::new(), Arc::new(SetClock::default()), World::new());
        let verifier = TokenVerifier::new(world.key.jwks().as_bytes(), ISSUER, AUDIENCE).unwrap();
        let verifier = Arc::new(verifier);
        let service = Self::serve(&disk, &clock, &verifier);
        Self {
            disk,
            clock,
            world,
            verifier,
            service,
        }
    }

    fn serve(disk: &SimDisk, clock: &Arc<SetClock>, verifier: &Arc<TokenVerifier>) -> Service {
        let mut replaying = Replaying::new("recovering");
        let (log, _) = Log::open(disk.storage(), small(), &mut replaying).unwrap();
        let on_fatal = Box::new(|error: &wal::Error| panic!("the log failed: {error}"));
        let (found, clock) = (replaying.finish(), Arc::clone(clock));
        let engine = Engine::start(log, found, 1, Limits::default(), clock, on_fatal).unwrap();
        engine.checkpoint_by(CheckpointPolicy {
            retention: Some(Duration::from_secs(30 * 86_400)),
            ..CheckpointPolicy::default()
        });
        Service::new(Arc::new(engine), Arc::clone(verifier))
    }

    fn engine(&self) -> &Arc<Engine> {
        self.service.engine()
    }

    fn restart(&mut self) {
        self.engine().shut_down().unwrap();
        self.service = Self::serve(&self.disk, &self.clock, &self.verifier);
    }

    fn snapshot(&self) {
        self.engine().snapshot_now(&mut |_| {}).unwrap();
    }

    /// A token that was issued so long ago by the system's clock and is good for so long, in
    /// seconds.
    fn token(&self, ago: u64, good: u64) -> String {
        let now = u64::try_from(self.clock.now().millis() / 1_000).unwrap();
        let who = actor(ActorKind::HeadquartersAdministrator, "hq-1");
        let mut claims = claims(&who, 0);
        claims.iat = now - ago;
        claims.exp = now - ago + good;
        self.world.key.sign(&claims).unwrap()
    }

    /// What a deposit with this token and key comes to: its status, whether it is a replay, and the
    /// body.
    fn deposit(&self, token: &str, code: &str, key: &str) -> (u16, bool, Value) {
        let body = self.world.deposit_request(code, key).to_string();
        let request = hyper::Request::post("/settlement-deposit-requests")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        on_lane(self.engine(), async {
            let caller = self.service.caller([127, 0, 0, 1].into(), false);
            let answer = self.service.handle(&caller, request).await;
            let (head, body) = answer.into_parts();
            let replayed = head.headers.contains_key("idempotent-replayed");
            let body = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            (head.status.as_u16(), replayed, body)
        })
        .unwrap()
    }
}

/// Between a second and ten years, either way.
fn jump(random: &mut StdRng) -> i64 {
    let most = [1_000, 60_000, HOUR, DAY, 40 * DAY, YEAR, 10 * YEAR][random.random_range(0..7)];
    let millis = random.random_range(1_000..=most);
    if random.random_bool(0.5) {
        millis
    } else {
        -millis
    }
}

#[test]
fn after_clock_jumps_tokens_obey_the_clock_times_never_fall_keys_stay() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut life = Life::new();
    // Ten years back must not be before 1970, nor ten times that.
    life.clock.jump(50 * YEAR);
    // When each key was taken, by the time that has run.
    let mut taken: Vec<(String, i64)> = Vec::new();
    let mut last = Timestamp::default();
    for number in 0..share("CLOCK_JUMPS", 120) {
        let ahead = life.clock.now().millis() - 1_000_000 * HOUR;
        let set = jump(&mut random);
        if ahead + set > 0 && ahead + set < 200 * YEAR {
            life.clock.jump(set);
        }
        match random.random_range(0..6) {
            0 => life.restart(),
            1 => life.snapshot(),
            _ => {}
        }
        life.clock.run(random.random_range(0..2 * DAY));

        let (code, key) = (format!("S-{number}"), format!("key-{number}"));
        let (status, _, body) = life.deposit(&life.token(7_200, 3_600), &code, &key);
        assert_eq!(status, 401, "a token that is over: {body}, SEED={seed}");
        let (status, replayed, body) = life.deposit(&life.token(1, 3_600), &code, &key);
        assert_eq!((status, replayed), (201, false), "{body}, SEED={seed}");
        taken.push((key, life.clock.ran()));
        let at = Timestamp::parse(body["createdAt"].as_str().unwrap()).unwrap();
        assert!(at >= last, "{at} after {last}, SEED={seed}");
        assert!(at >= life.clock.now(), "{at}, SEED={seed}");
        last = at;

        let number = random.random_range(0..taken.len());
        let (key, since) = &taken[number];
        let age = life.clock.ran() - since;
        let token = life.token(1, 3_600);
        let (status, replayed, body) = life.deposit(&token, &format!("S-{number}"), key);
        assert!(
            status == 201 && replayed || age >= RETENTION_DAYS * DAY,
            "{key}, {age} ms old, is forgotten: {status} {body}, SEED={seed}"
        );
    }
    // They are forgotten in the end, whatever the clock says meanwhile.
    life.snapshot();
    life.clock.run(RETENTION_DAYS * DAY + 1_000);
    life.clock.jump(-YEAR);
    life.snapshot();
    assert_eq!(life.engine().figures().keys, 0, "SEED={seed}");
    life.engine().shut_down().unwrap();
}

#[test]
fn a_commit_in_a_time_to_come_locks_nobody_out_and_is_told() {
    let mut life = Life::new();
    assert_eq!(life.deposit(&life.token(1, 3_600), "S-1", "key-1").0, 201);
    life.clock.jump(10 * YEAR);
    assert_eq!(life.deposit(&life.token(1, 3_600), "S-2", "key-2").0, 201);
    life.clock.jump(-10 * YEAR);
    for _ in 0..2 {
        assert_eq!(life.deposit(&life.token(1, 3_600), "S-1", "key-1").0, 201);
        let (status, _, body) = life.deposit(&life.token(7_200, 3_600), "S-1", "key-1");
        assert_eq!(status, 401, "{body}");
        let ahead = life.engine().figures().commits_ahead;
        assert_eq!(ahead, Duration::from_millis(10 * 365 * 86_400_000));
        life.snapshot();
        assert_eq!(life.engine().figures().keys, 2, "none is forgotten");
        life.restart();
    }
    // What is recorded meanwhile has the last commit's time.
    let (status, _, body) = life.deposit(&life.token(1, 3_600), "S-3", "key-3");
    assert_eq!(status, 201, "{body}");
    assert!(body.to_string().contains("2036-11-17T"), "{body}");
}

#[test]
fn ages_go_on_over_starts_whose_clock_was_set_back() {
    let mut life = Life::new();
    assert_eq!(life.deposit(&life.token(1, 3_600), "S-1", "key-1").0, 201);
    life.snapshot();
    for day in 0..RETENTION_DAYS {
        assert_eq!(life.engine().figures().keys, 1, "after {day} days");
        life.clock.run(DAY - 1);
        life.snapshot();
        // The clock is behind the time that servers have run, further at each start.
        life.clock.jump(-2 * DAY);
        life.restart();
    }
    assert_eq!(life.engine().figures().keys, 1, "not a moment too early");
    life.clock.run(RETENTION_DAYS);
    life.snapshot();
    assert_eq!(life.engine().figures().keys, 0);
    life.engine().shut_down().unwrap();
}
