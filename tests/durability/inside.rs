//! The engine in this process, on the simulated disk: what a process cannot be made to do from
//! outside, or not exactly when.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::digest::Digest;
use carebook::base::json::{FaultCode, Json, Reader};
use carebook::base::time::Timestamp;
use carebook::catalogue::{OPERATIONS, READS};
use carebook::cli::open::Replaying;
use carebook::cli::runtime::on_lane;
use carebook::domain::erased::{AnyCommand, AnyDecision, AnyState, Untimely};
use carebook::domain::fact_kinds::FACTS;
use carebook::domain::index::{Index, IndexKey};
use carebook::domain::operation::{Context, Parts};
use carebook::domain::read::{ReadRequest, Representation};
use carebook::domain::reference::fact_lines::Incoming;
use carebook::domain::rejection::Rejection;
use carebook::engine::clock::SystemClock;
use carebook::engine::pulse::Stuck;
use carebook::engine::{CommandRequest, CommandResult, Engine, Limits, Mode};
use serde_json::{Value, json};
use wal::storage::sim::{SimDisk, Survivors};
use wal::{Error, Log, Options};

use crate::support::command::{Around, Wrapped};
use crate::support::gated::{Gate, OpenInTheEnd, syncing_through};
use crate::support::{World, actor, frames, until};

/// Small segments, so that little data has several.
pub fn small() -> Options {
    Options {
        segment_bytes_min: 8 << 10,
        segment_bytes_max: 16 << 10,
        batch_bytes_max: 8 << 10,
        reserve_bytes: 0,
        seal_after: Duration::from_millis(5),
        create: true,
        ..Options::default()
    }
}

/// Whether no file is half made.
pub fn is_settled(disk: &SimDisk) -> bool {
    !disk.names().iter().any(|name| name.ends_with(".new"))
}

/// Whether the log has made the segment that comes after the one which it writes: no frame is in it.
pub fn has_segment_ahead(disk: &SimDisk) -> bool {
    let names = disk.names().into_iter();
    let last = names.filter(|name| name.starts_with("segment-")).max();
    let bytes = last.and_then(|name| disk.bytes(&name));
    is_settled(disk) && bytes.is_some_and(|bytes| frames(&bytes).is_empty())
}

/// Starts an engine of one lane; the flag turns true when its log fails.
pub fn engine(disk: &SimDisk) -> Result<(Engine, Arc<AtomicBool>), Error> {
    engine_with(disk, small())
}

fn engine_with(disk: &SimDisk, options: Options) -> Result<(Engine, Arc<AtomicBool>), Error> {
    let mut replaying = Replaying::new("recovering");
    let (log, _) = Log::open(disk.storage(), options, &mut replaying)?;
    let failed = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&failed);
    let engine = Engine::start(
        log,
        replaying.finish(),
        1,
        Limits::default(),
        Arc::new(SystemClock::default()),
        Box::new(move |_| told.store(true, Ordering::SeqCst)),
    )?;
    Ok((engine, failed))
}

/// A call of headquarters for a deposit.
fn call(engine: &Engine, body: &Value) -> CommandRequest {
    let headquarters = actor(ActorKind::HeadquartersAdministrator, "hq-1");
    call_of(engine, "request_deposit", headquarters, None, body)
}

pub(super) fn call_of(
    engine: &Engine,
    operation: &str,
    actor: Actor,
    header_key: Option<&str>,
    body: &Value,
) -> CommandRequest {
    let row = OPERATIONS.iter().find(|row| row.name == operation);
    let row = row.unwrap();
    let text = body.to_string();
    let json = Json::parse(text.as_bytes()).unwrap();
    let parts = Parts {
        path: &[],
        body: &json,
    };
    let read = row.operation;
    let command = read.read(row.name, &parts, &mut Reader::new(engine.now()));
    CommandRequest {
        row: Some(row),
        actor: Arc::new(actor),
        command: command.unwrap(),
        header_key: header_key.map(Into::into),
    }
}

pub(super) async fn carry_out(engine: &Engine, body: &Value) -> CommandResult {
    let permit = engine.admit().unwrap();
    engine
        .execute(call(engine, body), permit, Mode::Commit)
        .await
}

fn is_done(reply: &CommandResult, as_replay: bool) -> bool {
    matches!(reply, CommandResult::Done { replay, .. } if *replay == as_replay)
}

/// Its key may be forgotten after it was looked up.
#[test]
fn an_untimely_command_is_replayed_if_its_key_is_known_and_else_refused() {
    let world = World::new();
    let disk = SimDisk::new();
    let (engine, _) = engine(&disk).unwrap();
    let body = world.deposit_request("S-1", "key-1");
    let untimely = || {
        let mut request = call(&engine, &body);
        request.command = Box::new(Untimely {
            command: call(&engine, &body).command,
            refusal: Rejection::invalid_at("time", FaultCode::OutOfRange),
        });
        request
    };
    on_lane(&engine, async {
        let refused = engine
            .execute(untimely(), engine.admit().unwrap(), Mode::Commit)
            .await;
        match refused {
            CommandResult::Refused { rejection, .. } => {
                assert_eq!(rejection.faults[0].path, "time");
            }
            other => panic!("{other:?}"),
        }
        let first = carry_out(&engine, &body).await;
        assert!(is_done(&first, false), "{first:?}");
        let again = engine
            .execute(untimely(), engine.admit().unwrap(), Mode::Commit)
            .await;
        assert!(is_done(&again, true), "{again:?}");
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// A sender who hangs up does not end its command, so its key stays held: the same command again
/// waits, and is its replay. Otherwise two commits would take one key, and no start could replay
/// the log.
#[test]
fn a_command_whose_sender_hung_up_holds_its_key_until_it_is_decided() {
    let world = World::new();
    let disk = SimDisk::new();
    let (engine, _) = engine(&disk).unwrap();
    on_lane(&engine, async {
        // Leaves an actor in the pool, so that the next command is handed over at once.
        let warm = carry_out(&engine, &world.deposit_request("S-0", "key-0")).await;
        assert!(is_done(&warm, false), "{warm:?}");
        for number in 1..50 {
            let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
            {
                let mut leaving = pin!(carry_out(&engine, &body));
                let pending =
                    std::future::poll_fn(|context| Poll::Ready(leaving.as_mut().poll(context)));
                assert!(pending.await.is_pending());
            }
            let again = carry_out(&engine, &body).await;
            assert!(is_done(&again, true), "{again:?}");
        }
    })
    .unwrap();
    engine.shut_down().unwrap();
    let mut replaying = Replaying::new("recovering");
    wal::verify(disk.storage(), &mut replaying).unwrap();
    assert_eq!(
        replaying.finish().counters.operations[&9],
        50,
        "one commit for each"
    );
}

/// As many commands as may be in flight are, also when their senders hang up: what waits for an
/// actor is bounded.
#[test]
fn a_command_whose_sender_hung_up_counts_until_it_is_decided() {
    let world = World::new();
    let disk = SimDisk::new();
    let mut replaying = Replaying::new("recovering");
    let (log, _) = Log::open(disk.storage(), small(), &mut replaying).unwrap();
    let limits = Limits {
        commands_max: 1,
        ..Limits::default()
    };
    let clock = Arc::new(SystemClock::default());
    let engine =
        Engine::start(log, replaying.finish(), 1, limits, clock, Box::new(|_| {})).unwrap();
    on_lane(&engine, async {
        let warm = carry_out(&engine, &world.deposit_request("S-0", "key-0")).await;
        assert!(is_done(&warm, false), "{warm:?}");
        let body = world.deposit_request("S-1", "key-1");
        {
            let mut leaving = pin!(carry_out(&engine, &body));
            let pending =
                std::future::poll_fn(|context| Poll::Ready(leaving.as_mut().poll(context)));
            assert!(pending.await.is_pending());
        }
        assert!(engine.admit().is_none(), "it waits for its actor still");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let again = carry_out(&engine, &body).await;
        assert!(is_done(&again, true), "{again:?}");
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// A command for what a name belongs to, which belongs to another resource when its turn comes.
struct Wandering {
    inner: Box<dyn AnyCommand>,
    asked: AtomicUsize,
    decided: Arc<AtomicUsize>,
}

impl Around for Wandering {
    fn inner(&self) -> &dyn AnyCommand {
        self.inner.as_ref()
    }

    fn target(&self, context: &Context<'_>) -> Option<Digest> {
        match self.asked.fetch_add(1, Ordering::SeqCst) {
            // Representation by a name, so that it is looked up again.
            0 => Some(
                context
                    .view
                    .holder(IndexKey::new(Index::StatementCode, &["nobody's"]))
                    .unwrap_or(Digest([1; 16])),
            ),
            _ => self.inner.target(context),
        }
    }

    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        self.decided.fetch_add(1, Ordering::SeqCst);
        assert_eq!(target, self.inner.target(context), "by the right actor");
        self.inner.decide(target, slot, context)
    }
}

#[test]
fn a_command_whose_target_changed_while_it_waited_goes_to_the_new_one() {
    let world = World::new();
    let disk = SimDisk::new();
    let (engine, _) = engine(&disk).unwrap();
    let body = world.deposit_request("S-1", "key-1");
    let decided = Arc::new(AtomicUsize::new(0));
    on_lane(&engine, async {
        let mut wandering = call(&engine, &body);
        wandering.command = Box::new(Wrapped(Wandering {
            inner: wandering.command,
            asked: AtomicUsize::new(0),
            decided: Arc::clone(&decided),
        }));
        let first = engine
            .execute(wandering, engine.admit().unwrap(), Mode::Commit)
            .await;
        assert!(is_done(&first, false), "{first:?}");
        let again = carry_out(&engine, &body).await;
        assert!(is_done(&again, true), "{again:?}");
    })
    .unwrap();
    assert_eq!(decided.load(Ordering::SeqCst), 1);
    engine.shut_down().unwrap();
}

/// The fact of an actor's lifecycle.
pub(super) fn lifecycle(who: &str, revision: i64, lifecycle: &str) -> Incoming {
    incoming(&json!({"kind": "actor", "id": who, "revision": revision,
        "facts": {"lifecycle": lifecycle}}))
}

fn incoming(fact: &Value) -> Incoming {
    let text = fact.to_string();
    let item = Json::parse(text.as_bytes()).unwrap();
    Incoming::of_item(0, &item, FACTS, Timestamp::default())
}

/// Puts the lifecycle fact of the actor `somebody`.
pub(super) async fn put_lifecycle(engine: &Engine, revision: i64, state: &str) -> CommandResult {
    put(engine, lifecycle("somebody", revision, state)).await
}

async fn put(engine: &Engine, fact: Incoming) -> CommandResult {
    let workflow = Arc::new(actor(ActorKind::SystemWorkflow, "workflow-1"));
    let command = fact.command.unwrap_or_else(|faults| panic!("{faults:?}"));
    let permit = engine.admit_fact().unwrap();
    engine.put_fact(workflow, command, permit).await
}

/// The supervisor that restarts a service that hangs hears only of one that does.
#[test]
fn a_log_whose_disk_hangs_is_stuck_and_goes_on_with_it() {
    let world = World::new();
    let gate = Arc::new(Gate::default());
    let disk = syncing_through(&gate, SimDisk::new().storage());
    let (log, _) = Log::open(disk, small(), &mut Replaying::new("recovering")).unwrap();
    let engine = Engine::start(
        log,
        Replaying::new("recovering").finish(),
        1,
        Limits::default(),
        Arc::new(SystemClock::default()),
        Box::new(|error| panic!("{error}")),
    );
    let engine = engine.unwrap();
    let _open = OpenInTheEnd(Arc::clone(&gate));
    let mut pulse = engine.pulse();
    on_lane(&engine, async {
        assert_eq!(pulse.look(), None);
        // The gate of the lane has its turn.
        tokio::task::yield_now().await;
        assert_eq!(pulse.look(), None, "nothing to do is no standstill");
        let done = carry_out(&engine, &world.deposit_request("S-0", "key-0")).await;
        assert!(is_done(&done, false), "{done:?}");
        tokio::task::yield_now().await;
        assert_eq!(pulse.look(), None);
        gate.set(true);
        let body = world.deposit_request("S-1", "key-1");
        let mut held_up = pin!(carry_out(&engine, &body));
        tokio::select! {
            biased;
            done = &mut held_up => panic!("not durable, and yet {done:?}"),
            () = gate.somebody_waits() => {}
        }
        tokio::task::yield_now().await;
        assert_eq!(
            pulse.look(),
            None,
            "that was appended since the look before"
        );
        for _ in 0..3 {
            tokio::task::yield_now().await;
            let stuck = pulse.look();
            assert!(matches!(stuck, Some(Stuck::Log(2..))), "{stuck:?}");
        }
        gate.set(false);
        let done = held_up.await;
        assert!(is_done(&done, false), "{done:?}");
        // It may have been durable at once; then the lane has had no turn since the last look.
        tokio::task::yield_now().await;
        assert_eq!(pulse.look(), None);
        // Nothing else has had its turn on this lane since.
        assert_eq!(pulse.look(), Some(Stuck::Lane(0)));
        tokio::task::yield_now().await;
        assert_eq!(pulse.look(), None);
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// A dry run writes no record, so no other bound holds what waits with it.
#[test]
fn dry_runs_that_wait_for_a_silent_log_hold_no_more_than_their_bytes() {
    let world = World::new();
    let gate = Arc::new(Gate::default());
    let disk = syncing_through(&gate, SimDisk::new().storage());
    let (log, _) = Log::open(disk, small(), &mut Replaying::new("recovering")).unwrap();
    let engine = Engine::start(
        log,
        Replaying::new("recovering").finish(),
        1,
        Limits {
            waiting_bytes_max: 100,
            ..Limits::default()
        },
        Arc::new(SystemClock::default()),
        Box::new(|error| panic!("{error}")),
    );
    let engine = engine.unwrap();
    let _open = OpenInTheEnd(Arc::clone(&gate));
    let dry_run = async |number: usize| {
        let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
        let permit = engine.admit().unwrap();
        engine
            .execute(call(&engine, &body), permit, Mode::DryRun)
            .await
    };
    on_lane(&engine, async {
        let done = dry_run(0).await;
        assert!(is_done(&done, false), "nothing to wait for: {done:?}");
        gate.set(true);
        let body = world.deposit_request("S-1", "key-1");
        let mut held_up = pin!(carry_out(&engine, &body));
        tokio::select! {
            biased;
            done = &mut held_up => panic!("not durable, and yet {done:?}"),
            () = gate.somebody_waits() => {}
        }
        let refused = dry_run(2).await;
        assert!(matches!(refused, CommandResult::Overloaded), "{refused:?}");
        gate.set(false);
        let done = held_up.await;
        assert!(is_done(&done, false), "{done:?}");
        let done = dry_run(2).await;
        assert!(is_done(&done, false), "{done:?}");
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// That an actor may act again is a commit like any other: no response that depends on it leaves
/// before it is durable, or names a position before it.
#[test]
fn a_reactivated_actor_is_answered_once_the_reactivation_is_durable() {
    let gate = Arc::new(Gate::default());
    let disk = syncing_through(&gate, SimDisk::new().storage());
    let (log, _) = Log::open(disk, small(), &mut Replaying::new("recovering")).unwrap();
    let engine = Engine::start(
        log,
        Replaying::new("recovering").finish(),
        1,
        Limits::default(),
        Arc::new(SystemClock::default()),
        Box::new(|error| panic!("{error}")),
    );
    let engine = engine.unwrap();
    let _open = OpenInTheEnd(Arc::clone(&gate));
    let read = READS.iter().find(|row| row.name == "read_organization");
    let read = read.unwrap().read;
    let somebody = actor(ActorKind::HeadquartersAdministrator, "somebody");
    on_lane(&engine, async {
        let gone = put_lifecycle(&engine, 1, "inactive").await;
        assert!(is_done(&gone, false), "{gone:?}");
        gate.set(true);
        let mut again = pin!(put_lifecycle(&engine, 2, "active"));
        let mut reading = pin!(engine.read(read, &somebody, &[]));
        let waited = tokio::time::timeout(Duration::from_millis(200), async {
            tokio::select! {
                biased;
                done = &mut again => panic!("not durable, and yet {done:?}"),
                // A moment later, so that the fact is committed.
                found = async { tokio::task::yield_now().await; reading.as_mut().await } => found,
            }
        });
        if let Ok(found) = waited.await {
            panic!(
                "it rests on what is not durable: {:?}",
                found.map(|(_, at)| at)
            );
        }
        gate.set(false);
        assert!(is_done(&again.await, false));
        let position = match reading.await {
            Ok((_, position)) | Err(CommandResult::Refused { position, .. }) => position,
            Err(other) => panic!("{other:?}"),
        };
        assert!(position >= 2, "position {position}");
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// The entries in the list of the consents that are required.
fn required_consents(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let list = IndexKey::new(Index::RequiredConsents, &[]);
    let standing = request.view.listed(list).len();
    Ok(Representation {
        tag: standing.to_string(),
        body: Vec::new(),
    })
}

/// Puts a consent that is required, or is so no more, in place.
pub(super) async fn put_consent(engine: &Engine, revision: i64, required: bool) -> CommandResult {
    let fact = json!({"kind": "consent-version", "id": "privacy@1", "revision": revision,
        "facts": {"required": required, "current": true, "publishedAt": "2026-11-01T00:00:00Z"}});
    put(engine, incoming(&fact)).await
}

/// That something left a list is learned like anything else: once the commit by which it left is durable.
#[test]
fn reads_show_that_a_resource_left_a_list_once_that_is_durable() {
    let gate = Arc::new(Gate::default());
    let disk = syncing_through(&gate, SimDisk::new().storage());
    let (log, _) = Log::open(disk, small(), &mut Replaying::new("recovering")).unwrap();
    let engine = Engine::start(
        log,
        Replaying::new("recovering").finish(),
        1,
        Limits::default(),
        Arc::new(SystemClock::default()),
        Box::new(|error| panic!("{error}")),
    );
    let engine = engine.unwrap();
    let _open = OpenInTheEnd(Arc::clone(&gate));
    let who = actor(ActorKind::HeadquartersAdministrator, "hq-1");
    on_lane(&engine, async {
        let standing = put_consent(&engine, 1, true).await;
        assert!(is_done(&standing, false), "{standing:?}");
        let (found, _) = engine.read(required_consents, &who, &[]).await.unwrap();
        assert_eq!(found.tag, "1");
        gate.set(true);
        let mut leaving = pin!(put_consent(&engine, 2, false));
        let pending = std::future::poll_fn(|context| Poll::Ready(leaving.as_mut().poll(context)));
        assert!(pending.await.is_pending());
        // Others have their turn, so that it is committed.
        while engine.figures().queued_bytes == 0 {
            tokio::task::yield_now().await;
        }
        let mut reading = pin!(engine.read(required_consents, &who, &[]));
        for _ in 0..100 {
            let polled =
                std::future::poll_fn(|context| Poll::Ready(reading.as_mut().poll(context)));
            if let Poll::Ready(found) = polled.await {
                panic!("it rests on what is not durable: {found:?}");
            }
            tokio::task::yield_now().await;
        }
        gate.set(false);
        assert!(is_done(&leaving.await, false));
        let (found, position) = reading.await.unwrap();
        assert_eq!((&*found.tag, position), ("0", 2));
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// While the log can make no other segment it says that, and nothing else, is why commands are not
/// accepted; and that it is over.
#[test]
fn a_log_that_cannot_make_a_segment_is_unready_for_that_reason_alone() {
    let world = World::new();
    let disk = SimDisk::new();
    let (engine, _) = engine(&disk).unwrap();
    // ENOSPC
    disk.refuse_files(Some(28));
    on_lane(&engine, async {
        let pause = || tokio::time::sleep(Duration::from_millis(1));
        let commands = async {
            for number in 0.. {
                let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
                match carry_out(&engine, &body).await {
                    CommandResult::Done { .. } => {}
                    CommandResult::Unavailable => pause().await,
                    other => panic!("{other:?}"),
                }
            }
        };
        let unready = async {
            while engine.is_ready() {
                pause().await;
            }
        };
        // A command that has begun may wait for the segment.
        tokio::select! {
            () = commands => {}
            () = unready => {}
        }
        let unready = engine.figures().unready;
        let reasons = unready.reasons();
        let told: Vec<_> = reasons.iter().filter(|(_, is_so)| *is_so).collect();
        assert_eq!(told, [&("no_segment", true)]);
        assert!(!engine.is_ready());
        disk.refuse_files(None);
        while !engine.is_ready() {
            pause().await;
        }
        assert!(engine.figures().unready.is_ready());
    })
    .unwrap();
    engine.shut_down().unwrap();
}

/// After a sync has failed nothing is acknowledged; what was acknowledged before survives a power
/// cut right then, whatever else does.
#[test]
fn nothing_is_acknowledged_after_a_failed_sync_and_all_before_it_survives() {
    let world = World::new();
    let mut failures = 0;
    for fail_at in [0, 1, 2, 3, 5, 8, 13, 21, 34] {
        let disk = SimDisk::new();
        // No sync is that of a seal, behind which all may be durable.
        let options = Options {
            seal_after: Duration::from_secs(3_600),
            ..small()
        };
        let (engine, failed) = engine_with(&disk, options).unwrap();
        disk.fail_sync(fail_at);
        let mut acknowledged = Vec::new();
        on_lane(&engine, async {
            for number in 0..200 {
                let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
                let after = failed.load(Ordering::SeqCst);
                match carry_out(&engine, &body).await {
                    CommandResult::Done { .. } if after => panic!("acknowledged after the failure"),
                    CommandResult::Done { .. } => acknowledged.push(body),
                    CommandResult::OutcomeUnknown | CommandResult::Unavailable => {}
                    other => panic!("{other:?}"),
                }
            }
        })
        .unwrap();
        let unready = engine.figures().unready;
        // It can be seen a moment before it is told.
        until("a failure is told", || {
            !unready.log_failed || failed.load(Ordering::SeqCst)
        });
        let has_failed = failed.load(Ordering::SeqCst);
        assert_eq!(
            unready.log_failed, has_failed,
            "sync {fail_at}: {unready:?}"
        );
        assert!(!unready.stopping);
        let ended = engine.shut_down();
        assert!(engine.figures().unready.stopping);
        // The sync of a segment that is made ahead of need is tried again.
        assert!(!has_failed || ended.is_err(), "sync {fail_at}: {ended:?}");
        failures += usize::from(has_failed);
        drop(engine);
        for survivors in [
            Survivors::Nothing,
            Survivors::Everything,
            Survivors::Random(fail_at),
        ] {
            let after = disk.after_power_cut(survivors);
            let (engine, _) = self::engine(&after).unwrap();
            on_lane(&engine, async {
                for body in &acknowledged {
                    let again = carry_out(&engine, body).await;
                    assert!(is_done(&again, true), "{survivors:?}: {again:?}");
                }
            })
            .unwrap();
            engine.shut_down().unwrap();
        }
    }
    assert!(failures > 0);
}
