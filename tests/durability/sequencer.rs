//! What is decided again because its facts have changed, and what the log does not take.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use carebook::base::actor::ActorKind;
use carebook::base::json::FaultCode;
use carebook::cli::open::Replaying;
use carebook::cli::runtime::on_lane;
use carebook::domain::index::{Index, IndexKey};
use carebook::domain::rejection::Class;
use carebook::engine::clock::SystemClock;
use carebook::engine::{CommandResult, Engine, Limits, Mode};
use wal::Log;
use wal::storage::sim::SimDisk;

use super::inside::{call_of, carry_out, put_consent, small};
use crate::support::command::{HeldUp, Wrapped};
use crate::support::{World, actor};

pub(super) fn engine(lanes: usize, limits: Limits) -> Arc<Engine> {
    let mut replaying = Replaying::new("recovering");
    let (log, _) = Log::open(SimDisk::new().storage(), small(), &mut replaying).unwrap();
    let on_fatal = Box::new(|error: &wal::Error| panic!("{error}"));
    let clock = Arc::new(SystemClock::default());
    let engine = Engine::start(log, replaying.finish(), lanes, limits, clock, on_fatal);
    Arc::new(engine.unwrap())
}

/// Whether the consent is required, and so on the list, at a revision counted from 0.
type Required = fn(usize) -> bool;

/// A deposit whose decision rests on a list that is touched `times` while it is decided, by the
/// revisions of one consent: what it comes to, how often it was decided, and how often another task
/// of its lane had a turn.
fn beside_changes(times: usize, required: Required) -> (CommandResult, usize, usize) {
    let world = World::new();
    let engine = engine(2, Limits::default());
    let meanwhile = Arc::new((Barrier::new(2), Barrier::new(2)));
    let changing = std::thread::spawn({
        let (engine, meanwhile) = (Arc::clone(&engine), Arc::clone(&meanwhile));
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let gate = tokio::spawn(engine.lanes().run(1));
                // From here on this thread is that lane.
                tokio::task::yield_now().await;
                for revision in 0..=times {
                    if revision > 0 {
                        meanwhile.0.wait();
                    }
                    let number = i64::try_from(revision).unwrap() + 1;
                    let done = put_consent(&engine, number, required(revision)).await;
                    assert!(matches!(done, CommandResult::Done { .. }), "{done:?}");
                    // The first one is there before the command is.
                    meanwhile.1.wait();
                }
                gate.abort();
            });
        }
    });
    meanwhile.1.wait();
    let body = world.deposit_request("S-1", "key-1");
    let headquarters = actor(ActorKind::HeadquartersAdministrator, "hq-1");
    let mut call = call_of(&engine, "request_deposit", headquarters, None, &body);
    let decided = Arc::new(AtomicUsize::new(0));
    call.command = Box::new(Wrapped(HeldUp {
        inner: call.command,
        needs_facts: Some(IndexKey::new(Index::RequiredConsents, &[])),
        meanwhile,
        times,
        decided: Arc::clone(&decided),
    }));
    let turns = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let reply = on_lane(&engine, async {
        let other = tokio::spawn({
            let (turns, done) = (Arc::clone(&turns), Arc::clone(&done));
            async move {
                while !done.load(Ordering::SeqCst) {
                    turns.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
            }
        });
        let reply = engine
            .execute(call, engine.admit().unwrap(), Mode::Commit)
            .await;
        done.store(true, Ordering::SeqCst);
        other.await.unwrap();
        reply
    });
    changing.join().unwrap();
    engine.shut_down().unwrap();
    let decided = decided.load(Ordering::SeqCst);
    (reply.unwrap(), decided, turns.load(Ordering::SeqCst))
}

#[test]
fn a_decision_on_a_list_is_repeated_when_members_join_leave_or_change() {
    let leaves: Required = |revision| revision == 0;
    let joins: Required = |revision| revision > 0;
    for (what, required) in [("leaves", leaves), ("joins", joins), ("changes", |_| true)] {
        let (reply, decided, _) = beside_changes(1, required);
        assert!(
            matches!(reply, CommandResult::Done { .. }),
            "{what}: {reply:?}"
        );
        // Where its facts stay as they were there is nothing to decide again.
        assert_eq!(decided, 2, "{what}");
    }
}

#[test]
fn between_two_attempts_of_a_command_others_of_its_lane_have_their_turn() {
    let times = 20;
    let (reply, decided, turns) = beside_changes(times, |revision| revision % 2 == 0);
    assert!(matches!(reply, CommandResult::Done { .. }), "{reply:?}");
    assert_eq!(decided, times + 1);
    assert!(turns >= times, "{turns}");
}

#[test]
fn a_command_whose_facts_change_each_time_is_given_up_in_the_end() {
    let (reply, decided, _) = beside_changes(100, |revision| revision % 2 == 0);
    assert!(matches!(reply, CommandResult::Unavailable), "{reply:?}");
    assert_eq!(decided, 100);
}

#[test]
fn a_command_with_too_large_a_record_is_refused_and_others_go_on() {
    let world = World::new();
    let limits = Limits {
        record_bytes_max: 4_000,
        ..Limits::default()
    };
    let engine = engine(1, limits);
    on_lane(&engine, async {
        let mut large = world.deposit_request("S-1", "key-1");
        large["headOfficePrivateMemo"] = "x".repeat(3_000).into();
        for _ in 0..2 {
            let reply = carry_out(&engine, &large).await;
            let CommandResult::Refused { rejection, .. } = reply else {
                panic!("{reply:?}");
            };
            assert_eq!(rejection.class, Class::Invalid);
            assert_eq!(rejection.code, "request_invalid");
            assert_eq!(rejection.faults[0].code, FaultCode::TooLong);
        }
        // Its key and its code are free.
        let small = world.deposit_request("S-1", "key-1");
        let reply = carry_out(&engine, &small).await;
        assert!(
            matches!(reply, CommandResult::Done { replay: false, .. }),
            "{reply:?}"
        );
    })
    .unwrap();
    engine.shut_down().unwrap();
}
