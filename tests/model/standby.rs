//! The life of a service that another one follows, which takes its place, is followed in turn, and
//! so on: each command gets the model's response from the current writer, and the standby holds to
//! the byte what its writer holds.

use carebook::domain::event_id::EventId;
use carebook::engine::feed::EventReader;

use super::*;

/// The default number of commands of a run.
const COMMANDS: usize = 2_000;
/// So many commands later a standby is started again, and later still takes its writer's place.
const RESTART_EVERY: usize = 300;
const TAKEOVER_EVERY: usize = 700;
/// Records are handed over so many at a time at the most.
const AT_ONCE: usize = 7;

/// What all lives of these services share.
struct Stage {
    clock: Arc<TestClock>,
    verifier: Arc<TokenVerifier>,
    tokens: Arc<[String]>,
}

impl Stage {
    /// The service on this journal, in this role.
    fn open(&self, role: Role, log: &MemoryLog) -> Running {
        let mut recovering = Replaying::new("recovering");
        log.open(&mut recovering).unwrap();
        let (clock, verifier, tokens) = (&self.clock, &self.verifier, &self.tokens);
        Running::start_as(role, log.clone(), recovering, clock, verifier, tokens)
    }
}

/// Hands over what the writer has committed and the standby does not have, from a little before its
/// end; how many records that were.
async fn feed(stream: &MemoryLog, standby: &Running) -> usize {
    let engine = standby.service.engine();
    let mut fed = 0;
    loop {
        let from = engine.appended().saturating_sub(2);
        let records = stream.records_after(from, AT_ONCE);
        let before = engine.appended();
        let handed = records.iter().map(Vec::as_slice);
        engine.apply(from + 1, handed).unwrap();
        engine.heard(from + u64::try_from(records.len()).unwrap());
        let new = usize::try_from(engine.appended() - before).unwrap();
        if new == 0 {
            break;
        }
        fed += new;
        tokio::task::yield_now().await;
    }
    while engine.durable() < engine.appended() {
        tokio::task::yield_now().await;
    }
    fed
}

/// What lists hold, whatever its place: what has left a list and comes back has its old place where
/// the service ran all the time, and a new one where it was started again in between.
fn values_of(held: Held) -> std::collections::BTreeMap<(u16, String), Vec<ValueHash>> {
    let items = held.into_iter();
    items
        .map(|(kind, item, values)| ((kind, format!("{:?}", item.entry)), values))
        .collect()
}

/// The standby holds what its writer holds: states, keys, indexes, lists, and their order.
fn assert_alike(writer: &Running, standby: &Running, seed: u64) {
    let (writer, standby) = (writer.service.engine(), standby.service.engine());
    assert_eq!(standby.durable(), writer.durable(), "SEED={seed}");
    assert_eq!(standby.digest(), writer.digest(), "SEED={seed}");
    assert_eq!(
        values_of(standby.listed_now()),
        values_of(writer.listed_now()),
        "SEED={seed}"
    );
    let lag = standby.lag().unwrap();
    assert_eq!(lag.positions, 0);
    assert!(lag.was_complete && !lag.is_behind(), "{lag:?}");
}

/// What is read of the standby is what is read of its writer, at the same position or one that has
/// passed.
async fn assert_read_alike(writer: &Running, standby: &Running, model: &Model, seed: u64) {
    for read in &model.reads() {
        let (theirs, own) = (writer.send(read).await, standby.send(read).await);
        let of = |answer: &Answer| (answer.status, answer.tag.clone(), answer.body.clone());
        assert_eq!(of(&own), of(&theirs), "SEED={seed} {}", read.path);
        assert!(own.position.is_some(), "SEED={seed} {}", read.path);
    }
    let (theirs, own) = (all_events(writer).await, all_events(standby).await);
    // Snapshots have let go of the first ones, of the one's more than of the other's.
    let (fewer, more) = match own.len() < theirs.len() {
        true => (&own, &theirs),
        false => (&theirs, &own),
    };
    assert!(more.ends_with(fewer), "SEED={seed} {} events", own.len());
    assert!(!fewer.is_empty(), "SEED={seed}");
}

/// All events of a service, with their identifiers, page by page.
async fn all_events(running: &Running) -> Vec<(EventId, Bytes)> {
    let engine = running.service.engine();
    let mut events = Vec::new();
    let mut after = engine.before_first_event();
    loop {
        let reader = EventReader::Delivery;
        let page = engine.events(reader, after, &Arc::default(), 100).await;
        let page = page.unwrap();
        let told = page.events.iter();
        events.extend(told.map(|event| (event.id, event.json.clone())));
        if page.end {
            return events;
        }
        after = page.next;
    }
}

#[test]
fn a_standby_holds_what_its_writer_holds_and_takes_its_place() {
    let seed = match std::env::var_os("SEED") {
        Some(_) => crate::support::seed(),
        None => SEED,
    };
    println!("SEED={seed}");
    let commands = std::env::var("STANDBY_COMMANDS").ok();
    let commands = commands.map_or(COMMANDS, |text| text.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(lives(seed, commands));
}

async fn lives(seed: u64, commands: usize) {
    let key = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
    let verifier = TokenVerifier::new(key.jwks().as_bytes(), ISSUER, AUDIENCE).unwrap();
    let stage = Stage {
        clock: Arc::new(TestClock(AtomicI64::new(BEGINNING))),
        verifier: Arc::new(verifier),
        tokens: tokens(&key),
    };
    let (mut stream, mut cache) = (MemoryLog::new(), MemoryLog::new());
    let mut writer = stage.open(Role::Writer, &stream);
    let mut standby = stage.open(Role::Standby, &cache);
    let (mut model, mut world) = (Model::new(), World::new(seed));
    let (mut followed, mut refused) = (0, 0);
    for step in 0..commands {
        stage.clock.0.fetch_add(world.pause(), Ordering::SeqCst);
        model.now = stage.clock.0.load(Ordering::SeqCst);
        let command = world.command(step, &model);
        if command.method != "GET" && step % 11 == 0 {
            // It is not carried out, so the writer below knows nothing of it.
            let answer = standby.send(&command).await;
            let is_known = matches!(answer.status, 400 | 401 | 403 | 404 | 405);
            assert!(is_known || answer.status == 503, "{answer:#?}");
            refused += usize::from(answer.body["code"] == "not_the_writer");
        }
        let answer = writer.send(&command).await;
        let expected = model.step(&command, &answer);
        if let Err(why) = expected.agrees(command.op, &answer) {
            panic!("{}", report(step, seed, &command, &answer, &why));
        }
        world.remember(command, &answer);
        if step % 13 == 0 {
            followed += feed(&stream, &standby).await;
            assert_alike(&writer, &standby, seed);
        }
        if step % RESTART_EVERY == RESTART_EVERY - 1 {
            // What it goes on from is a snapshot of its own, and the log after that.
            let engine = standby.service.engine();
            engine.snapshot_now(&mut |_| {}).unwrap();
            followed += feed(&stream, &standby).await;
            standby.close();
            standby = stage.open(Role::Standby, &cache);
        }
        if step % TAKEOVER_EVERY == TAKEOVER_EVERY - 1 {
            followed += feed(&stream, &standby).await;
            assert_alike(&writer, &standby, seed);
            assert_read_alike(&writer, &standby, &model, seed).await;
            writer.close();
            standby.service.engine().promote().unwrap();
            let late = standby.service.engine().apply(1, [b"late".as_slice()]);
            assert!(late.is_err(), "a writer follows nobody");
            // The one before comes back, and follows.
            writer = standby;
            std::mem::swap(&mut stream, &mut cache);
            standby = stage.open(Role::Standby, &cache);
        }
    }
    followed += feed(&stream, &standby).await;
    assert_alike(&writer, &standby, seed);
    assert_read_alike(&writer, &standby, &model, seed).await;
    println!("{commands} commands, {followed} records followed, {refused} refused");
    assert!(followed > commands / 4 && refused > 0);
    // Keys that the writers before have used are known.
    for (command, _) in world.sample() {
        let answer = writer.send(command).await;
        let expected = model.step(command, &answer);
        if let Err(why) = expected.agrees(command.op, &answer) {
            panic!("{}", report(commands, seed, command, &answer, &why));
        }
    }
    writer.close();
    let held = standby.close();
    let standby = stage.open(Role::Standby, &cache);
    standby.check_held(&held, seed);
    standby.close();
}
