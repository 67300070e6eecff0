//! A long life of the service beside a plain model of what it promises: random commands over all
//! operations, facts and reads, answered by both; then a restart, and everything read again.
//!
//! The model is written from the service's description, with plain structures and linear
//! searches; it shares no code with the service. What only the service can know (new identifiers,
//! fingerprints, numbers of messages) it learns from the answers; everything else has to be equal.
//!
//! `MODEL_COMMANDS` says how many commands, `SEED` which ones, `DRY_RUNS` how many dry runs come
//! behind them.

mod branch;
mod commands;
mod decide;
mod dry_runs;
pub mod expected;
mod family;
mod lists;
mod mother;
mod payment;
mod payout;
mod reservation;
mod settlement;
mod standby;
pub mod state;
mod values;
pub mod world;

use std::cell::Cell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use carebook::base::time::Timestamp;
use carebook::cli::open::Replaying;
use carebook::cli::token::signing::{SigningAlgorithm, SigningKey};
use carebook::domain::listing::ValueHash;
use carebook::engine::clock::Clock;
use carebook::engine::role::Role;
use carebook::engine::{Engine, Limits};
use carebook::http::service::Service;
use carebook::http::token::TokenVerifier;
use carebook::journal::tables::Candidate;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use wal::OpenLog;
use wal::memory::MemoryLog;

use crate::support::{AUDIENCE, ISSUER, claims};
use dry_runs::Rehearses as _;
use expected::Answer;
use state::Model;
use world::{ACTORS, Command, World};

/// The default number of commands of a run.
const COMMANDS: usize = 12_000;
/// The commands of the run on a medium in memory.
const COMMANDS_IN_MEMORY: usize = 3_000;
/// The default seed of a run.
const SEED: u64 = 20_261_101;
/// The clock's first reading: 2026-11-01T00:00:00Z.
const BEGINNING: i64 = 1_793_491_200_000;

/// A clock that stops until the test moves it.
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Duration {
        let since = self.now().millis() - BEGINNING;
        Duration::from_millis(u64::try_from(since).unwrap())
    }
}

/// What the service's journal is kept on.
enum Medium {
    /// The files of this directory.
    Directory(PathBuf),
    Memory(MemoryLog),
}

/// What all lists hold: by kinds, each item in order with its values.
type Held = Vec<(u16, Candidate, Vec<ValueHash>)>;

/// The service in this process, on a medium.
struct Running {
    service: Service,
    tokens: Arc<[String]>,
    /// All of what was committed when a dry run was last looked at that closely, and at which position:
    /// until the next commit it has to stay so.
    stood: Cell<Option<(u64, [u8; 32])>>,
}

impl Running {
    fn open(
        medium: &Medium,
        clock: &Arc<TestClock>,
        verifier: &Arc<TokenVerifier>,
        tokens: &Arc<[String]>,
    ) -> Self {
        match medium {
            Medium::Directory(data) => Self::open_directory(data, clock, verifier, tokens),
            Medium::Memory(log) => {
                let mut recovering = Replaying::new("recovering");
                log.open(&mut recovering).unwrap();
                Self::start(log.clone(), recovering, clock, verifier, tokens)
            }
        }
    }

    fn open_directory(
        data: &Path,
        clock: &Arc<TestClock>,
        verifier: &Arc<TokenVerifier>,
        tokens: &Arc<[String]>,
    ) -> Self {
        let mut recovering = Replaying::new("recovering");
        let options = wal::Options {
            reserve_bytes: 0,
            seal_after: Duration::from_secs(3_600),
            ..wal::Options::default()
        };
        let storage = wal::open_dir(data).unwrap();
        let (log, _) = wal::Log::open(storage, options, &mut recovering).unwrap();
        Self::start(log, recovering, clock, verifier, tokens)
    }

    fn start(
        log: impl OpenLog,
        recovering: Replaying,
        clock: &Arc<TestClock>,
        verifier: &Arc<TokenVerifier>,
        tokens: &Arc<[String]>,
    ) -> Self {
        Self::start_as(Role::Writer, log, recovering, clock, verifier, tokens)
    }

    fn start_as(
        role: Role,
        log: impl OpenLog,
        recovering: Replaying,
        clock: &Arc<TestClock>,
        verifier: &Arc<TokenVerifier>,
        tokens: &Arc<[String]>,
    ) -> Self {
        let clock = Arc::clone(clock) as Arc<dyn Clock>;
        let on_fatal = Box::new(|error: &wal::Error| panic!("the log failed: {error}"));
        let engine = Engine::start_as(
            role,
            log,
            recovering.finish(),
            1,
            Limits::default(),
            clock,
            on_fatal,
        );
        let engine = Arc::new(engine.unwrap());
        tokio::spawn(engine.lanes().run(0));
        Self {
            service: Service::new(engine, Arc::clone(verifier)),
            tokens: Arc::clone(tokens),
            stood: Cell::new(None),
        }
    }

    async fn send(&self, command: &Command) -> Answer {
        self.send_to(&command.path, command).await.0
    }

    /// Sends the command as a dry run, and has seen that nothing was committed.
    async fn send_dry(&self, command: &Command) -> Answer {
        let engine = self.service.engine();
        let before = engine.figures();
        // All of what is committed, now and then: that takes as long as there is much of it.
        let is_closely = before.durable.is_multiple_of(16);
        let stood = self.stood.get();
        let stood = stood.filter(|(position, _)| is_closely && *position == before.durable);
        let digest = || is_closely.then(|| engine.digest());
        let digest_before = stood.map(|(_, digest)| digest).or_else(digest);
        let answer = self.rehearse(command).await;
        let after = engine.figures();
        assert_eq!(after.durable, before.durable, "{}", command.path);
        assert_eq!(
            (after.resources, after.keys),
            (before.resources, before.keys),
            "{}",
            command.path
        );
        let digest_after = digest();
        assert_eq!(digest_after, digest_before, "{}", command.path);
        self.stood
            .set(digest_after.map(|digest| (before.durable, digest)));
        answer
    }

    /// The answer, and whether it says that it is one of a dry run.
    async fn send_to(&self, path: &str, command: &Command) -> (Answer, bool) {
        let mut request = hyper::Request::builder().method(command.method).uri(path);
        if let Some(who) = command.who {
            request = request.header("authorization", format!("Bearer {}", self.tokens[who]));
        }
        if let Some(key) = &command.key {
            request = request.header("idempotency-key", key);
        }
        let mut body = Bytes::new();
        if command.method != "GET" {
            request = request.header("content-type", "application/json");
            body = command.body.to_string().into();
        }
        let request = request.body(Full::new(body)).unwrap();
        let caller = self.service.caller([127, 0, 0, 1].into(), false);
        let answer = self.service.handle(&caller, request).await;
        let (head, body) = answer.into_parts();
        let text = |name: &str| {
            let value = head.headers.get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        let bytes = body.collect().await.unwrap().to_bytes();
        let is_dry_run = text("carebook-dry-run").as_deref() == Some("true");
        let answer = Answer {
            status: head.status.as_u16(),
            replayed: text("idempotent-replayed").is_some(),
            tag: text("etag").map(|tag| tag.trim_matches('"').to_owned()),
            position: text("carebook-position").map(|position| position.parse().unwrap()),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        };
        (answer, is_dry_run)
    }

    /// Ends it; what its lists held, as commits have kept them.
    fn close(self) -> Held {
        let engine = self.service.engine();
        engine.shut_down().unwrap();
        engine.listed_now()
    }

    /// Checks that recovery has made the lists that commits had kept.
    fn check_held(&self, held: &Held, seed: u64) {
        let found = self.service.engine().listed_now();
        for (found, held) in found.iter().zip(held) {
            assert_eq!(found, held, "SEED={seed}");
        }
        assert_eq!(found.len(), held.len(), "SEED={seed}");
        assert!(!held.is_empty());
    }
}

impl dry_runs::Rehearses for Running {
    fn engine(&self) -> &Engine {
        self.service.engine()
    }

    async fn rehearse(&self, command: &Command) -> Answer {
        let path = format!("{}?dryRun=true", command.path);
        let (answer, is_dry_run) = self.send_to(&path, command).await;
        assert!(is_dry_run, "{path}");
        answer
    }
}

impl lists::Asks for Running {
    async fn get(&self, path: &str, who: usize) -> Answer {
        let read = Command::read(world::READ_STATEMENT, &["any"], who);
        self.send_to(path, &read).await.0
    }
}

/// What each actor's token says, signed once and good for the whole run.
fn tokens(key: &SigningKey) -> Arc<[String]> {
    let seconds = u64::try_from(BEGINNING / 1_000).unwrap();
    ACTORS
        .iter()
        .map(|who| {
            let mut claims = claims(&who.actor(), 0);
            claims.iat = seconds;
            claims.exp = seconds + 100 * 365 * 86_400;
            key.sign(&claims).unwrap()
        })
        .collect()
}

/// The bodies that were read, by their places and entity tags: one tag is never that of two.
#[derive(Default)]
struct Tags(HashMap<(String, String), Value>);

impl Tags {
    fn check(&mut self, command: &Command, answer: &Answer) -> Result<(), String> {
        let Some(tag) = answer.tag.clone().filter(|_| answer.status == 200) else {
            return Ok(());
        };
        let read = self.0.entry((command.path.clone(), tag));
        let first = read.or_insert_with(|| answer.body.clone());
        if *first == answer.body {
            return Ok(());
        }
        Err(format!("another body had this tag: {first:#}"))
    }
}

/// The body with each identifier of version 7 as the place at which it was first seen: those that
/// are fresh are others each time.
fn without_fresh(body: Value, seen: &mut Vec<String>) -> Value {
    match body {
        Value::String(text) => {
            // Some come after the name of their kind.
            let pieces = text.split('/').map(|piece| {
                let id = uuid::Uuid::try_parse(piece);
                if !id.is_ok_and(|id| id.get_version_num() == 7) {
                    return piece.to_owned();
                }
                let place = seen.iter().position(|known| known == piece);
                let place = place.unwrap_or_else(|| {
                    seen.push(piece.to_owned());
                    seen.len() - 1
                });
                format!("identifier {place}")
            });
            Value::String(pieces.collect::<Vec<_>>().join("/"))
        }
        Value::Array(items) => {
            let items = items.into_iter();
            items.map(|item| without_fresh(item, seen)).collect()
        }
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields
                .map(|(name, value)| (name, without_fresh(value, seen)))
                .collect()
        }
        other => other,
    }
}

/// How a command and its answers look in a report.
fn report(step: usize, seed: u64, command: &Command, answer: &Answer, why: &str) -> String {
    let who = command.who.map(|who| ACTORS[who].subject);
    format!(
        "step {step} (SEED={seed})\n{} {} by {who:?}, key {:?}\n{:#}\n\nthe service answered {answer:#?}\n\nthe model: {why}",
        command.method, command.path, command.key, command.body
    )
}

/// The directory of a run: in memory where there is such a place, so that the disk's pace does
/// not set the test's.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir()
        && let Ok(directory) = tempfile::tempdir_in(memory)
    {
        return directory;
    }
    tempfile::tempdir().unwrap()
}

#[test]
fn the_service_answers_as_its_model_before_and_after_a_restart() {
    let seed = if std::env::var_os("SEED").is_some() {
        crate::support::seed()
    } else {
        println!("SEED={SEED}");
        SEED
    };
    let commands = std::env::var("MODEL_COMMANDS").ok();
    let commands = commands.map_or(COMMANDS, |text| text.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let directory = directory();
    let medium = Medium::Directory(directory.path().join("data"));
    runtime.block_on(life(seed, commands, &medium));
}

/// The same on a medium that is no file: the engine knows of its journal only what every medium
/// promises.
#[test]
fn the_service_answers_as_its_model_on_a_medium_in_memory() {
    let seed = match std::env::var_os("SEED") {
        Some(_) => crate::support::seed(),
        None => SEED,
    };
    println!("SEED={seed}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let medium = Medium::Memory(MemoryLog::new());
    runtime.block_on(life(seed, COMMANDS_IN_MEMORY, &medium));
}

async fn life(seed: u64, commands: usize, medium: &Medium) {
    let key = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
    let verifier = TokenVerifier::new(key.jwks().as_bytes(), ISSUER, AUDIENCE).unwrap();
    let verifier = Arc::new(verifier);
    let tokens = tokens(&key);
    let clock = Arc::new(TestClock(AtomicI64::new(BEGINNING)));
    let mut running = Running::open(medium, &clock, &verifier, &tokens);

    let mut model = Model::new();
    let mut world = World::new(seed);
    let mut tags = Tags::default();
    let mut figures = std::collections::BTreeMap::<(u16, u16, String), u64>::new();
    // In the middle, so that the second half builds on what was recovered.
    let restart_at = commands / 2;
    for step in 0..commands {
        if step == restart_at {
            if let Medium::Memory(_) = medium {
                // What is recovered then is a snapshot, and few of the records that made it.
                let engine = running.service.engine();
                let take = || engine.snapshot_now(&mut |_| {}).unwrap().unwrap();
                take();
                assert!(take().compacted.bytes > 0);
            }
            let before = lists_of(&running, &model, seed, medium).await;
            let held = running.close();
            running = Running::open(medium, &clock, &verifier, &tokens);
            running.check_held(&held, seed);
            let after = lists_of(&running, &model, seed, medium).await;
            lists::assert_same(&before, &after);
        }
        let now = clock.0.fetch_add(world.pause(), Ordering::SeqCst);
        let now = clock.0.load(Ordering::SeqCst).max(now);
        model.now = now;
        let command = world.command(step, &model);
        let is_operation = command.op < world::FACTS;
        let rehearsed = match is_operation {
            true => Some(running.send_dry(&command).await),
            false => None,
        };
        let (answer, twin) = if command.op < world::FACTS && world.is_twin() {
            // Twice at the same time: one is carried out, the other is its replay.
            let (one, other) = tokio::join!(running.send(&command), running.send(&command));
            if one.replayed {
                (other, Some(one))
            } else {
                (one, Some(other))
            }
        } else {
            (running.send(&command).await, None)
        };
        if let Some(rehearsed) = &rehearsed {
            let told = |answer: &Answer| {
                let mut seen = Vec::new();
                let body = without_fresh(answer.body.clone(), &mut seen);
                (answer.status, answer.replayed, body)
            };
            let (dry, real) = (told(rehearsed), told(&answer));
            if dry != real {
                let why = format!("a dry run before was answered {rehearsed:#?}");
                panic!("{}", report(step, seed, &command, &answer, &why));
            }
        }
        for answer in [Some(&answer), twin.as_ref()].into_iter().flatten() {
            let expected = model.step(&command, answer);
            let as_expected = expected.agrees(command.op, answer);
            if let Err(why) = as_expected.and_then(|()| tags.check(&command, answer)) {
                panic!("{}", report(step, seed, &command, answer, &why));
            }
        }
        let text = |member: &str| answer.body[member].as_str();
        let mut code = text("code")
            .or(text("conflictCode"))
            .or(text("providerResultCode"))
            .or(text("preRegistrationStatus"))
            .unwrap_or_default()
            .to_owned();
        if answer.replayed {
            code.push_str(" (replay)");
        }
        for reason in state::texts(&answer.body, "disabledReasonCodes") {
            code = format!("{code} {reason}");
        }
        *figures
            .entry((command.op, answer.status, code))
            .or_default() += 1;
        world.remember(command, &answer);
    }
    if std::env::var_os("MODEL_FIGURES").is_some() {
        for ((op, status, code), count) in &figures {
            println!("{op:>4} {status} {count:>6} {code}");
        }
    }
    every_operation_was_tried(&figures, commands);

    let reads = model.reads();
    assert!(!reads.is_empty());
    let mut before = Vec::with_capacity(reads.len());
    for read in &reads {
        let answer = running.send(read).await;
        assert_eq!(answer.status, 200, "{} {answer:#?}", read.path);
        let as_expected = model.step(read, &answer).agrees(read.op, &answer);
        if let Err(why) = as_expected.and_then(|()| tags.check(read, &answer)) {
            panic!("{}", report(commands, seed, read, &answer, &why));
        }
        before.push(answer);
    }
    dry_runs::check(&running, &mut world, &model, seed).await;
    let listed = lists_of(&running, &model, seed, medium).await;
    let held = running.close();

    let mut verifying = Replaying::verifying();
    let last = match medium {
        Medium::Directory(data) => {
            let storage: Arc<dyn wal::storage::Storage> =
                Arc::new(wal::storage::FileStorage::existing(data).unwrap());
            let found = wal::verify(storage, &mut verifying).unwrap();
            assert!(found.torn.is_empty(), "{:?}", found.torn);
            found.last_position
        }
        Medium::Memory(log) => log.open(&mut verifying).unwrap(),
    };
    println!(
        "{commands} commands, {} records, {} reads, {} keys",
        last,
        reads.len(),
        model.keys.len()
    );

    let running = Running::open(medium, &clock, &verifier, &tokens);
    running.check_held(&held, seed);
    assert_eq!(
        running.service.engine().figures().keys,
        verifying.finish().tables.keys()
    );
    for (read, before) in reads.iter().zip(&before) {
        let after = running.send(read).await;
        let same =
            (after.status, &after.tag, &after.body) == (before.status, &before.tag, &before.body);
        assert!(same, "{} before {before:#?} after {after:#?}", read.path);
    }
    let listed_again = lists_of(&running, &model, seed, medium).await;
    lists::assert_same(&listed, &listed_again);
    for (command, first) in world.sample() {
        let answer = running.send(command).await;
        let expected = model.step(command, &answer);
        assert!(
            expected.replayed,
            "{}",
            report(0, seed, command, &answer, "a replay")
        );
        if let Err(why) = expected.agrees(command.op, &answer) {
            panic!(
                "after the restart, {}\nfirst {first:#?}",
                report(0, seed, command, &answer, &why)
            );
        }
    }
    running.close();
}

/// What lists show, where that is checked: it takes a read of everything by each actor.
async fn lists_of(running: &Running, model: &Model, seed: u64, medium: &Medium) -> lists::Orders {
    let is_short = matches!(medium, Medium::Memory(_));
    match is_short || std::env::var_os("MODEL_LISTS").is_some() {
        true => lists::check(running, model, seed).await,
        false => lists::Orders::new(),
    }
}

/// A run of the usual length succeeds and is refused in each operation, or it shows nothing.
fn every_operation_was_tried(
    figures: &std::collections::BTreeMap<(u16, u16, String), u64>,
    commands: usize,
) {
    if commands < COMMANDS {
        return;
    }
    for op in world::operations().chain([world::FACTS]) {
        let count = |range: std::ops::Range<u16>| -> u64 {
            let of_op = figures.iter().filter(|((known, ..), _)| *known == op);
            of_op
                .filter(|((_, status, _), _)| range.contains(status))
                .map(|(_, count)| count)
                .sum()
        };
        assert!(count(200..300) >= 20, "operation {op} seldom succeeded");
        assert!(count(400..500) >= 20, "operation {op} was seldom refused");
    }
}
