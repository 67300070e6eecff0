//! How long the first page of a history takes, and the oldest revision, in a long log.
//!
//! ```text
//! cargo bench --bench history
//! COMMITS=10000000 REVISIONS=1000 cargo bench --bench history
//! ```
//!
//! A log of `COMMITS` (1,000,000) commits is written to a directory that is gone afterwards
//! (`DIRECTORY` names one to keep and to use again): facts of 10,000 actors in turn, and among them,
//! evenly, `REVISIONS` (1,000) revisions of one profile. Then an engine is started on it, which has
//! read nothing for anybody yet, and asked: `RUNS` (3) such engines, one after the other. With
//! `READERS` so many ask at once, for pages and for the first revision in turn.

// Figures are approximate by nature; a bench ends where something goes wrong.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::codec::{self, Blob};
use carebook::base::json::{FromJson as _, Json, Reader};
use carebook::base::revision::Revision;
use carebook::base::time::Timestamp;
use carebook::catalogue::READS;
use carebook::cli::open::Replaying;
use carebook::domain::branch::office_profile::{
    BranchOfficeProfile, BranchOfficeProfileEvent, FactCameIn,
};
use carebook::domain::reference::kinds::actor::{ActorFact, ActorLifecycle};
use carebook::domain::reference::kinds::branch_office_profile::BranchOfficeProfileFact;
use carebook::domain::reference::{Fact, FactEvent};
use carebook::domain::resource::Resource;
use carebook::engine::clock::SystemClock;
use carebook::engine::read::past::{PastFound, PastQuery};
use carebook::engine::{Engine, Limits};
use carebook::journal::bases::{Recording, is_due};
use carebook::journal::record::{NewChange, NewRecord, RecordOutcome, SCHEMA};
use serde_json::json;
use wal::storage::FileStorage;
use wal::{Log, Options};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ACTORS: u64 = 10_000;
/// Records in one write, as under load.
const BATCH: u64 = 128;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

fn profile() -> BranchOfficeProfileFact {
    let text = json!({
        "displayName": "Office", "legalName": "Office", "contactEmail": "office@example.com",
        "primaryPhoneNumber": "+82212345678", "addressLine": "Seoul",
        "businessRegistrationReference": "reference-1",
    });
    let text = text.to_string();
    let json = Json::parse(text.as_bytes()).unwrap();
    BranchOfficeProfileFact::read(&json, &mut Reader::new(Timestamp::default())).unwrap()
}

/// A record of this event, and the state after it.
fn record<R: Resource>(
    state: Option<R>,
    event: &R::Event,
    before: u64,
    position: u64,
) -> (Vec<u8>, R) {
    let at = Timestamp::from_millis(1_700_000_000_000 + i64::try_from(position).unwrap());
    let base = state.as_ref().map(codec::encode);
    let next = R::apply(state, event, at);
    let (event, path) = (codec::encode(event), next.path());
    let recording = Recording {
        key: next.key(),
        before,
        event: event.len(),
        state: base.as_ref().map_or(0, Vec::len),
    };
    let base = base.filter(|_| is_due(recording, 0));
    let change = NewChange {
        kind: R::KIND.tag,
        version: carebook::domain::version::version::<R>(),
        key: next.key(),
        before,
        revision: next.revision(),
        advances: true,
        path: &path,
        event: Blob(&event),
        base: base.as_deref().map(Blob),
    };
    let record = NewRecord {
        schema: SCHEMA,
        at,
        operation: 0,
        subject: "workflow-1",
        actor: None,
        key: None,
        changes: vec![change],
        outbox: &[],
        outcome: RecordOutcome::None,
    };
    (record.encode(), next)
}

fn write(directory: &Path, commits: u64, revisions: u64) {
    let storage = Arc::new(FileStorage::create(directory).unwrap());
    let options = Options::default();
    let (mut log, _) = Log::open(storage, options, &mut Replaying::new("")).unwrap();
    let apart = commits / revisions;
    let (mut profile_at, mut standing) = (0, None);
    let mut actors = vec![(0_u64, None); usize::try_from(ACTORS).unwrap()];
    for from in (1..=commits).step_by(usize::try_from(BATCH).unwrap()) {
        let positions = from..(from + BATCH).min(commits + 1);
        let records: Vec<_> = positions
            .map(|position| {
                if position % apart == 0 {
                    let came = BranchOfficeProfileEvent::FactCameIn(Box::new(FactCameIn {
                        id: "office-1".into(),
                        revision: Revision::new(i64::try_from(position / apart).unwrap()),
                        facts: profile(),
                    }));
                    let made =
                        record::<BranchOfficeProfile>(standing.take(), &came, profile_at, position);
                    (profile_at, standing) = (position, Some(made.1));
                    return made.0;
                }
                let number = position % ACTORS;
                let fact = Fact {
                    id: format!("actor-{number}").into(),
                    revision: Revision::new(i64::try_from(position).unwrap()),
                    facts: ActorFact {
                        lifecycle: ActorLifecycle::Active,
                    },
                };
                let put = FactEvent::Put(Box::new(fact));
                let (before, state) = &mut actors[usize::try_from(number).unwrap()];
                let made = record::<Fact<ActorFact>>(state.take(), &put, *before, position);
                (*before, *state) = (position, Some(made.1));
                made.0
            })
            .collect();
        log.append(&records).unwrap();
    }
    log.seal().unwrap();
}

fn open(directory: &Path) -> Arc<Engine> {
    let mut replaying = Replaying::new("");
    let storage = Arc::new(FileStorage::create(directory).unwrap());
    let (log, _) = Log::open(storage, Options::default(), &mut replaying).unwrap();
    let engine = Engine::start(
        log,
        replaying.finish(),
        1,
        Limits::default(),
        Arc::new(SystemClock::default()),
        Box::new(|why| panic!("the log failed: {why}")),
    );
    Arc::new(engine.unwrap())
}

async fn ask(engine: &Engine, query: PastQuery) -> f64 {
    let row = READS
        .iter()
        .find(|row| row.name == "read_branch_office_profile");
    let row = row.unwrap();
    let actor = Arc::new(Actor {
        subject: "hq-1".into(),
        kind: ActorKind::HeadquartersAdministrator,
        ..Actor::nobody()
    });
    let path = [("id", "office-1")];
    let began = Instant::now();
    let found = engine.past(row, row.history.unwrap(), &actor, &path, query);
    let (found, _) = found.await.unwrap();
    let took = began.elapsed().as_secs_f64() * 1_000.0;
    if let (PastFound::Page(page), PastQuery::History { limit, .. }) = (found, query) {
        assert_eq!(page.revisions.len(), limit);
    }
    took
}

fn main() {
    let (commits, revisions) = (number("COMMITS", 1_000_000), number("REVISIONS", 1_000));
    let page = PastQuery::History {
        from: None,
        limit: 50,
    };
    let temporary = tempfile::tempdir().unwrap();
    let directory = std::env::var_os("DIRECTORY");
    let directory = directory.map_or_else(|| temporary.path().join("data"), Into::into);
    if !directory.exists() {
        write(&directory, commits, revisions);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    println!("{commits} commits, {revisions} revisions of the resource; milliseconds");
    println!("first page, first | again | revision 1");
    for _ in 0..number("RUNS", 3) {
        let engine = open(&directory);
        runtime.block_on(async {
            let first = ask(&engine, page).await;
            let again = ask(&engine, page).await;
            let oldest = ask(&engine, PastQuery::Revision(1)).await;
            println!("{first:.2} | {again:.2} | {oldest:.2}");
            let readers = number("READERS", 0);
            let asking: Vec<_> = (0..readers)
                .map(|reader| {
                    let engine = Arc::clone(&engine);
                    let query = match reader % 2 {
                        0 => page,
                        _ => PastQuery::Revision(1),
                    };
                    tokio::spawn(async move { (reader % 2, ask(&engine, query).await) })
                })
                .collect();
            let mut longest = [0.0_f64; 2];
            for asked in asking {
                let (kind, took) = asked.await.unwrap();
                longest[usize::try_from(kind).unwrap()] =
                    took.max(longest[usize::try_from(kind).unwrap()]);
            }
            if readers > 0 {
                let [pages, oldest] = longest;
                println!("{readers} readers: the longest page {pages:.2}, revision 1 {oldest:.2}");
                let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
                let peak = status.lines().find(|line| line.starts_with("VmHWM"));
                println!("{}", peak.unwrap_or_default());
            }
        });
        engine.shut_down().unwrap();
    }
}
