//! The pieces.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::codec::{self, Blob};
use carebook::base::digest::Fingerprint;
use carebook::base::json::Json;
use carebook::base::time::Timestamp;
use carebook::catalogue::{self, OPERATIONS, Row};
use carebook::cli::open::Replaying;
use carebook::cli::token::signing::{Claims, SigningAlgorithm, SigningKey};
use carebook::cli::token::{DEFAULT_AUDIENCE, DEFAULT_ISSUER};
use carebook::domain::erased::{AnyCommand, AnyDecision, Decided};
use carebook::domain::example;
use carebook::domain::fact_kinds::FACTS;
use carebook::domain::operation::{Context, IdSource};
use carebook::domain::reference::fact_lines::Incoming;
use carebook::domain::reference::samples;
use carebook::domain::resource::ReadView;
use carebook::domain::settlement::statement::Statement;
use carebook::domain::stored::Versioned;
use carebook::engine::clock::SystemClock;
use carebook::engine::fact_loading::FactBatch;
use carebook::engine::limits::admission::Permit;
use carebook::engine::{CommandRequest, CommandResult, Engine, Limits, Mode};
use carebook::http::request::DryRun;
use carebook::http::request::arriving::bodies_budget;
use carebook::http::request::command::read_command;
use carebook::http::token::TokenVerifier;
use carebook::journal::record::{NewChange, NewRecord, Record, RecordKey, RecordOutcome, SCHEMA};
use carebook::journal::replay::Replay;
use carebook::journal::tables::Tables;
use hyper::header::HeaderMap;
use serde_json::Value;
use uuid::Uuid;
use wal::storage::sim::SimDisk;
use wal::{Log, Options};

/// A piece.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// How often it can be done after it was prepared once.
    pub(crate) most: usize,
    /// Makes what it needs, and gives what does it once.
    pub(crate) prepare: fn() -> Box<dyn FnMut()>,
}

/// As often as anybody likes.
const ALWAYS: usize = usize::MAX / 2;
/// Tokens that the verifier has not seen: each is signed before.
const TOKENS: usize = 4_000;
/// Commands that wait for one resource at once.
const WAITING: usize = 32;

/// All pieces, in the order of a command's way.
pub(crate) fn cases() -> Vec<Case> {
    let case = |name, most, prepare| Case {
        name,
        most,
        prepare,
    };
    vec![
        case("token: known", ALWAYS, token_known),
        case("token: new, ES256", TOKENS, token_new),
        case("JSON: parse EP9's body", ALWAYS, json_parse),
        case("JSON: read EP9's command", ALWAYS, json_read),
        case("fingerprint: EP9's facts", ALWAYS, fingerprint),
        case("decide and apply: EP9", ALWAYS, decide_request),
        case(
            "decide and apply: EP8, state read",
            ALWAYS,
            decide_acknowledge,
        ),
        case("apply: EP9's event, as replay does", ALWAYS, apply_event),
        case("encode: a statement", ALWAYS, encode_state),
        case("decode: a statement", ALWAYS, decode_state),
        case("encode: EP9's record", ALWAYS, encode_record),
        case("decode: EP9's record", ALWAYS, decode_record),
        case("append: 64 records of 1,400 bytes", 2_000, append),
        case("actor: 1 command, refused", ALWAYS, actor_alone),
        case("actor: 32 that wait, refused", ALWAYS, actor_waiting),
    ]
}

fn now() -> Timestamp {
    Timestamp::parse("2026-11-20T12:00:00Z").unwrap()
}

fn row(name: &str) -> &'static Row {
    OPERATIONS.iter().find(|row| row.name == name).unwrap()
}

fn actor_of(name: &str) -> Actor {
    let kind = row(name).operation.example().actor;
    example::actor(kind, &str::to_owned)
}

/// The example of the operation of this name, going on with the answer before.
fn body(name: &str, before: &Value) -> String {
    row(name).operation.example().body(before).to_string()
}

fn deposit_body() -> String {
    body("request_deposit", &Value::Null)
}

fn read(name: &str, body: &str) -> Box<dyn AnyCommand> {
    let mut share = Permit::none(&bodies_budget());
    let headers = HeaderMap::new();
    let read = read_command(
        row(name),
        &[],
        &headers,
        DryRun::No,
        body.as_bytes(),
        &mut share,
        now(),
    );
    read.unwrap_or_else(|_| panic!("{name} was read with faults"))
        .command
}

/// Identifiers in a row: the same in each run.
#[derive(Default)]
struct Counting(Cell<u128>);

impl IdSource for Counting {
    fn id(&self) -> Uuid {
        self.0.set(self.0.get() + 1);
        Uuid::from_u128(self.0.get())
    }

    fn outbox_number(&self) -> i64 {
        1
    }
}

/// Decides on what `tables` hold.
fn decide(
    command: &dyn AnyCommand,
    fingerprint: Fingerprint,
    who: &Actor,
    tables: &Tables,
) -> Box<Decided> {
    let ids = Counting::default();
    let context = Context {
        actor: who,
        now: now(),
        at: now(),
        key: "key-1",
        fingerprint,
        new_id: Uuid::from_u128(1),
        has_receiver: &|_| false,
        plain_webhooks: false,
        ids: &ids,
        view: ReadView::new(tables),
        fact_revision: carebook::domain::fact_kinds::revision_of,
    };
    let target = command.target(&context);
    match command.decide(target, &mut None, &context) {
        Ok(AnyDecision::Commit(decided)) => decided,
        Ok(_) => panic!("it was answered without a commit"),
        Err(rejection) => panic!("it was refused: {}", rejection.code),
    }
}

fn opened() -> Box<Decided> {
    let command = read("request_deposit", &deposit_body());
    let who = actor_of("request_deposit");
    decide(&*command, command.fingerprint(), &who, &Tables::default())
}

fn record(decided: &Decided, fingerprint: Fingerprint) -> Vec<u8> {
    let changes = decided.changes.iter().map(|change| NewChange {
        kind: change.kind,
        version: change.version,
        key: change.key,
        before: 0,
        revision: change.revision,
        advances: change.advances,
        path: &change.path,
        event: Blob(&change.event),
        base: None,
    });
    let record = NewRecord {
        schema: SCHEMA,
        at: now(),
        operation: 9,
        subject: "hq-1",
        actor: None,
        key: Some(RecordKey {
            key: "key-1",
            fingerprint,
        }),
        changes: changes.collect(),
        outbox: &decided.outbox,
        outcome: RecordOutcome::Answer {
            accepted: false,
            body: Blob(&decided.answer),
        },
    };
    record.encode()
}

fn opened_record() -> Vec<u8> {
    record(
        &opened(),
        read("request_deposit", &deposit_body()).fingerprint(),
    )
}

fn claims(subject: &str) -> Claims {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let kind = ActorKind::HeadquartersAdministrator;
    let issued = since.unwrap().as_secs();
    Claims::new(
        DEFAULT_ISSUER,
        DEFAULT_AUDIENCE,
        subject,
        kind,
        issued,
        3_600,
    )
}

fn tokens(count: usize) -> (TokenVerifier, Vec<String>, i64) {
    let key = SigningKey::generate(SigningAlgorithm::Es256).unwrap();
    let verifier = TokenVerifier::new(key.jwks().as_bytes(), DEFAULT_ISSUER, DEFAULT_AUDIENCE);
    let tokens = (0..count).map(|number| key.sign(&claims(&format!("hq-{number}"))).unwrap());
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(since.unwrap().as_millis()).unwrap();
    (verifier.unwrap(), tokens.collect(), now)
}

fn token_known() -> Box<dyn FnMut()> {
    let (verifier, tokens, now) = tokens(1);
    Box::new(move || {
        assert!(black_box(verifier.verify(&tokens[0], now)).is_ok());
    })
}

fn token_new() -> Box<dyn FnMut()> {
    // Under valgrind fewer are used, and signing takes its time there.
    let count = if std::env::args().any(|one| one == "--only") {
        300
    } else {
        TOKENS
    };
    let (verifier, tokens, now) = tokens(count);
    let mut next = 0;
    Box::new(move || {
        assert!(black_box(verifier.verify(&tokens[next], now)).is_ok());
        next += 1;
    })
}

fn json_parse() -> Box<dyn FnMut()> {
    let body = deposit_body();
    Box::new(move || {
        assert!(black_box(Json::parse(black_box(body.as_bytes()))).is_ok());
    })
}

fn json_read() -> Box<dyn FnMut()> {
    let body = deposit_body();
    Box::new(move || {
        black_box(read("request_deposit", black_box(&body)));
    })
}

fn fingerprint() -> Box<dyn FnMut()> {
    let command = read("request_deposit", &deposit_body());
    Box::new(move || {
        black_box(black_box(&command).fingerprint());
    })
}

fn decide_request() -> Box<dyn FnMut()> {
    let command = read("request_deposit", &deposit_body());
    let who = actor_of("request_deposit");
    let (tables, fingerprint) = (Tables::default(), command.fingerprint());
    Box::new(move || {
        black_box(decide(&*command, fingerprint, &who, &tables));
    })
}

fn decide_acknowledge() -> Box<dyn FnMut()> {
    let mut replay = Replay::new();
    let opened = opened();
    replay.record(1, &opened_record()).unwrap();
    let tables = replay.finish().unwrap().tables;
    let statement: Value = serde_json::from_slice(&opened.answer).unwrap();
    let name = "acknowledge_deposit";
    let command = read(name, &body(name, &statement));
    let who = actor_of(name);
    let fingerprint = command.fingerprint();
    Box::new(move || {
        black_box(decide(&*command, fingerprint, &who, &tables));
    })
}

fn apply_event() -> Box<dyn FnMut()> {
    let opened = opened();
    let kind = catalogue::resource(opened.changes[0].kind).unwrap();
    let mut next = Vec::new();
    Box::new(move || {
        let event = black_box(Versioned {
            version: opened.changes[0].version,
            bytes: &opened.changes[0].event,
        });
        assert!(kind.replay(None, event, now(), &mut next).is_ok());
        black_box(&next);
    })
}

fn encode_state() -> Box<dyn FnMut()> {
    let state: Statement = codec::decode(&opened().changes[0].state).unwrap();
    Box::new(move || {
        black_box(codec::encode(black_box(&state)));
    })
}

fn decode_state() -> Box<dyn FnMut()> {
    let opened = opened();
    Box::new(move || {
        let state = black_box(&opened.changes[0].state);
        assert!(black_box(codec::decode::<Statement>(state)).is_ok());
    })
}

fn encode_record() -> Box<dyn FnMut()> {
    let opened = opened();
    let fingerprint = read("request_deposit", &deposit_body()).fingerprint();
    Box::new(move || {
        black_box(record(&opened, black_box(fingerprint)));
    })
}

fn decode_record() -> Box<dyn FnMut()> {
    let record = opened_record();
    Box::new(move || {
        assert!(black_box(Record::decode(black_box(&record))).is_ok());
    })
}

/// Framing, checksums, the chain and the write, on a disk in memory.
fn append() -> Box<dyn FnMut()> {
    let disk = SimDisk::new();
    let mut nothing = Replaying::new("");
    let (mut log, _) = Log::open(disk.storage(), Options::default(), &mut nothing).unwrap();
    let records = vec![vec![0x5a; 1_400]; 64];
    Box::new(move || {
        black_box(log.append(black_box(&records)).unwrap());
    })
}

/// An engine on a disk in memory, with one profile on it, and the runtime that is its one lane.
struct Awake {
    runtime: tokio::runtime::Runtime,
    engine: Arc<Engine>,
    who: Arc<Actor>,
}

fn awake() -> Rc<Awake> {
    let mut replaying = Replaying::new("");
    let options = Options {
        reserve_bytes: 0,
        // No seal is written while something is counted.
        seal_after: Duration::from_secs(3_600),
        ..Options::default()
    };
    let (log, _) = Log::open(SimDisk::new().storage(), options, &mut replaying).unwrap();
    let engine = Engine::start(
        log,
        replaying.finish(),
        1,
        Limits::default(),
        Arc::new(SystemClock::default()),
        Box::new(|why| panic!("the log failed: {why}")),
    );
    let engine = Arc::new(engine.unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.spawn(engine.lanes().run(0));
    let profile = |line: &&str| line.contains("\"kind\":\"branch-office-profile\"");
    let fact = samples::lines().find(profile);
    let fact = fact.expect("there is a sample of each kind");
    let workflow = example::actor(ActorKind::SystemWorkflow, &str::to_owned);
    let loader = Arc::new(workflow);
    let (summary, _) = runtime.block_on(async {
        let mut batch = FactBatch::new(&engine, loader);
        let fact = Json::parse(fact.as_bytes()).unwrap();
        let incoming = Incoming::of_item(0, &fact, FACTS, engine.now());
        batch.take(incoming).await;
        batch
            .finish()
            .await
            .unwrap_or_else(|_| panic!("the fact was not taken"))
    });
    assert_eq!(summary.applied, 1);
    let who = Arc::new(actor_of("update_branch_office_profile"));
    Rc::new(Awake {
        runtime,
        engine,
        who,
    })
}

/// The body of a command that its resource's actor refuses: it is decided as any other, yet nothing
/// waits for the log, whose thread is none of the actor's. Each number has a key of its own.
fn stale(number: usize) -> String {
    let example = row("update_branch_office_profile").operation.example();
    let mut body = example.body(&Value::Null);
    body["commandId"] = format!("command-{number}").into();
    body["expectedRevision"] = 7.into();
    body.to_string()
}

async fn refused(awake: &Awake, body: &str) {
    let name = "update_branch_office_profile";
    let call = CommandRequest {
        row: Some(row(name)),
        actor: Arc::clone(&awake.who),
        command: read(name, body),
        header_key: None,
    };
    let permit = awake.engine.admit().unwrap();
    match awake.engine.execute(call, permit, Mode::Commit).await {
        CommandResult::Refused { rejection, .. } => assert_eq!(rejection.code, "revision_stale"),
        other => panic!("it was not refused: {other:?}"),
    }
}

/// One command at a time: it is read, its actor is woken for it, reads the state, and is put to
/// rest.
fn actor_alone() -> Box<dyn FnMut()> {
    together(1)
}

/// Many at once: the actor is woken once, and keeps the state at hand.
fn actor_waiting() -> Box<dyn FnMut()> {
    together(WAITING)
}

fn together(count: usize) -> Box<dyn FnMut()> {
    let awake = awake();
    let local = tokio::task::LocalSet::new();
    let bodies: Rc<Vec<String>> = Rc::new((0..count).map(stale).collect());
    Box::new(move || {
        local.block_on(&awake.runtime, async {
            let waiting: Vec<_> = (0..count)
                .map(|number| {
                    let (awake, bodies) = (Rc::clone(&awake), Rc::clone(&bodies));
                    tokio::task::spawn_local(async move { refused(&awake, &bodies[number]).await })
                })
                .collect();
            for one in waiting {
                one.await.unwrap();
            }
        });
    })
}
