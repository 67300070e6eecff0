//! An engine for tests, on a disk in memory, and a command for it.

use std::sync::Arc;

use super::clock::{Clock, SystemClock};
use super::{CommandResult, Engine, Limits};
use crate::base::actor::Actor;
use crate::base::json::Json;
use crate::base::time::Timestamp;
use crate::cli::open::Replaying;
use crate::domain::fact_kinds::FACTS;
use crate::domain::reference::fact_lines::Incoming;

/// Creates an engine with one lane and an empty log.
pub(crate) fn engine() -> Engine {
    engine_at(Arc::new(SystemClock::default()))
}

/// Creates an engine with one lane, an empty log and this clock.
pub(crate) fn engine_at(clock: Arc<dyn Clock>) -> Engine {
    let storage = wal::storage::sim::SimDisk::new().storage();
    let options = wal::Options::default();
    let mut replaying = Replaying::new("");
    let (log, _) = wal::Log::open(storage, options, &mut replaying).unwrap();
    let engine = Engine::start(
        log,
        replaying.finish(),
        1,
        Limits::default(),
        clock,
        Box::new(|error| panic!("{error}")),
    );
    engine.unwrap()
}

/// Applies a fact about the same actor, in this revision.
pub(crate) async fn put_fact(engine: &Engine, revision: u32) {
    let text = format!(
        "{{\"kind\":\"actor\",\"id\":\"somebody\",\"revision\":{revision},\
         \"facts\":{{\"lifecycle\":\"active\"}}}}"
    );
    put(engine, &text).await;
}

/// Applies this fact.
pub(crate) async fn put(engine: &Engine, text: &str) {
    let fact = Json::parse(text.as_bytes()).unwrap();
    let fact = Incoming::of_item(0, &fact, FACTS, Timestamp::default());
    let command = fact.command.unwrap_or_else(|_| panic!("a good fact"));
    let permit = engine.admit_fact().unwrap();
    let done = engine.put_fact(Arc::new(Actor::nobody()), command, permit);
    let done = done.await;
    assert!(matches!(done, CommandResult::Done { .. }), "{done:?}");
}
