//! How long commits hold the log's sequencer, beside which no other commit is made: with a list of
//! 100,000 entries, and with states of a mebibyte.
//!
//! ```text
//! cargo bench --bench sequencer
//! ENTRIES=20000 COMMITS=500 cargo bench --bench sequencer
//! ```
//!
//! Two lanes of one engine on a simulated disk; `RUNS` (3) such engines, one after the other.
//! Reported are the median, the 99th and 99.9th percentile and the longest of the times of all runs,
//! in microseconds.
//!
//! A virtual processor is taken away now and then, for ten microseconds and more, without notice:
//! even the thread's own processor time goes on. The last rows report what that does to a thread
//! without any work. The *least* of several runs leaves it out: each lane makes the same commits
//! in each run, so each commit counts with the least of its times.

// Figures are approximate by nature; a bench ends where something goes wrong.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unwrap_used
)]

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::json::{Json, Reader};
use carebook::base::time::Timestamp;
use carebook::catalogue::OPERATIONS;
use carebook::cli::open::Replaying;
use carebook::domain::fact_kinds::FACTS;
use carebook::domain::operation::Parts;
use carebook::domain::reference::fact_lines::Incoming;
use carebook::engine::clock::SystemClock;
use carebook::engine::{CommandRequest, CommandResult, Engine, Limits, Mode, Sequenced};
use serde_json::{Value, json};
use wal::storage::sim::SimDisk;
use wal::{Log, Options};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The key that all payments are found by.
const SEARCH_KEY: &str = "everybody";
/// Identifiers of 500 bytes that make a state of a mebibyte.
const IDENTIFIERS: usize = 2_090;

/// Each commit's share of the sequencer in the order of the commits, for each lane.
type Shares = [Vec<Duration>; 2];

/// The shares of all runs, with what they are of.
type Rows = Vec<(String, Vec<Shares>)>;

thread_local! {
    /// The lane that the present thread is, and when it took the sequencer.
    static TAKEN: Cell<(usize, Option<Instant>)> = const { Cell::new((0, None)) };
}

fn note(shares: &Mutex<Shares>, sequenced: Sequenced) {
    let now = Instant::now();
    let (lane, since) = TAKEN.get();
    match sequenced {
        Sequenced::Taken => TAKEN.set((lane, Some(now))),
        Sequenced::GivenBack => shares.lock().unwrap()[lane].push(now - since.unwrap()),
    }
}

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

fn start(shares: &Arc<Mutex<Shares>>) -> Arc<Engine> {
    let mut replaying = Replaying::new("");
    let options = Options {
        reserve_bytes: 0,
        ..Options::default()
    };
    let (log, _) = Log::open(SimDisk::new().storage(), options, &mut replaying).unwrap();
    let engine = Engine::start(
        log,
        replaying.finish(),
        2,
        Limits::default(),
        Arc::new(SystemClock::default()),
        Box::new(|why| panic!("the log failed: {why}")),
    );
    let engine = engine.unwrap();
    let shares = Arc::clone(shares);
    // So that the memory of what is noted is not made anew in between.
    for shares in shares.lock().unwrap().iter_mut() {
        shares.reserve(1 << 20);
    }
    engine.on_sequenced(Box::new(move |sequenced| note(&shares, sequenced)));
    Arc::new(engine)
}

async fn put(engine: &Engine, fact: &Value) {
    let text = fact.to_string();
    let fact = Json::parse(text.as_bytes()).unwrap();
    let fact = Incoming::of_item(0, &fact, FACTS, Timestamp::default());
    let workflow = Actor {
        subject: "workflow-1".into(),
        kind: ActorKind::SystemWorkflow,
        ..Actor::nobody()
    };
    let command = fact.command.unwrap_or_else(|faults| panic!("{faults:?}"));
    let permit = engine.admit_fact().unwrap();
    let reply = engine.put_fact(Arc::new(workflow), command, permit).await;
    assert!(matches!(reply, CommandResult::Done { .. }), "{reply:?}");
}

fn payment(number: usize, revision: usize) -> Value {
    json!({"kind": "gateway-payment", "id": format!("payment-{number}"), "revision": revision,
        "facts": {"method": "card", "amountKrw": 300_000, "virtualAccountState": null,
            "refundState": "none", "chargebackState": "none", "chargedBackKrw": 0,
            "searchKeys": [SEARCH_KEY]}})
}

fn large(revision: usize) -> Value {
    let ids: Vec<_> = (0..IDENTIFIERS)
        .map(|number| format!("{number:0>500}"))
        .collect();
    json!({"kind": "extension-eligibility", "id": "mother-1", "revision": revision,
        "facts": {"eligibleReservationBookingIds": ids}})
}

async fn search(engine: &Engine, revision: usize) {
    let row = OPERATIONS
        .iter()
        .find(|row| row.name == "administer_gateway");
    let row = row.unwrap();
    let body = json!({"operationAction": "search_payments", "reason": "a bench",
        "idempotencyKey": format!("search-{revision}"), "expectedRevision": revision,
        "searchKey": SEARCH_KEY})
    .to_string();
    let body = Json::parse(body.as_bytes()).unwrap();
    let parts = Parts {
        path: &[],
        body: &body,
    };
    let mut at = Reader::new(Timestamp::default());
    let command = row.operation.read(row.name, &parts, &mut at).unwrap();
    let administrator = Actor {
        subject: "hq-1".into(),
        kind: ActorKind::HeadquartersAdministrator,
        permissions: vec!["payment:administer".into()],
        ..Actor::nobody()
    };
    let call = CommandRequest {
        row: Some(row),
        actor: Arc::new(administrator),
        command,
        header_key: None,
    };
    let reply = engine
        .execute(call, engine.admit().unwrap(), Mode::Commit)
        .await;
    assert!(matches!(reply, CommandResult::Done { .. }), "{reply:?}");
}

/// Runs `work` on a lane and a thread of its own.
fn on_lane<F: Future<Output = ()>>(engine: &Arc<Engine>, lane: usize, work: F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    TAKEN.set((lane, None));
    runtime.block_on(async {
        let gate = tokio::spawn(engine.lanes().run(lane));
        // From here on this thread is that lane, and makes all of its commits.
        tokio::task::yield_now().await;
        work.await;
        gate.abort();
    });
}

/// A run; its shares are put to those of the runs before.
fn run(rows: &mut Rows, entries: usize, commits: usize) {
    let shares = Arc::new(Mutex::new(Shares::default()));
    let engine = start(&shares);
    let mut row = 0;
    let mut tell = |what: String| {
        let mut shares = shares.lock().unwrap();
        let taken = shares.each_ref().map(Vec::clone);
        shares.iter_mut().for_each(Vec::clear);
        if rows.len() == row {
            rows.push((what, Vec::new()));
        }
        rows[row].1.push(taken);
        row += 1;
    };
    on_lane(&engine, 0, async {
        for payments in (0..entries).collect::<Vec<_>>().chunks(256) {
            let facts: Vec<_> = payments.iter().map(|number| payment(*number, 1)).collect();
            let puts = facts.iter().map(|fact| put(&engine, fact));
            let mut puts: Vec<_> = puts.map(Box::pin).collect();
            for put in &mut puts {
                put.await;
            }
        }
    });
    tell("payments join an ever longer list".into());
    on_lane(&engine, 0, async {
        for number in 0..commits {
            put(&engine, &payment(entries + number, 1)).await;
        }
    });
    tell(format!("payments join a list of {entries}"));
    on_lane(&engine, 0, async {
        for revision in 0..commits / 10 {
            search(&engine, revision).await;
        }
    });
    tell(format!("searches of a list of {entries}"));
    on_lane(&engine, 0, async {
        for number in 0..commits / 2 {
            put(&engine, &large(number + 1)).await;
        }
    });
    tell("states of 1 MiB".into());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            on_lane(&engine, 0, async {
                for number in 0..commits {
                    put(&engine, &payment(number, 2)).await;
                }
            });
        });
        scope.spawn(|| {
            on_lane(&engine, 1, async {
                for number in 0..commits / 4 {
                    put(&engine, &large(commits + number)).await;
                }
            });
        });
    });
    tell("changes in the list beside states of 1 MiB".into());
    engine.shut_down().unwrap();
}

/// How long each of so many turns of a thread takes that looks at the clock until `length` is over.
fn idle(length: Duration, turns: usize) -> Vec<Duration> {
    let turn = || {
        let began = Instant::now();
        loop {
            let took = began.elapsed();
            if took >= length {
                return took;
            }
        }
    };
    (0..turns).map(|_| turn()).collect()
}

fn print(times: &mut [Duration]) {
    times.sort_unstable();
    for part in [0.5, 0.99, 0.999, 1.0] {
        let place = ((times.len() as f64 * part).ceil() as usize).clamp(1, times.len());
        print!(" {:>8.1}", times[place - 1].as_secs_f64() * 1e6);
    }
}

fn main() {
    let runs = number("RUNS", 3);
    let (entries, commits) = (number("ENTRIES", 100_000), number("COMMITS", 2_000));
    let mut rows = Rows::new();
    for _ in 0..runs {
        run(&mut rows, entries, commits);
    }
    let least = format!("the least of {runs} runs, µs");
    println!("{:<52} {:^35} {least:^35}", "", "all, µs");
    print!("{:<44} {:>7}", "shares of the sequencer", "of a run");
    for _ in 0..2 {
        print!(" {:>8} {:>8} {:>8} {:>8}", "p50", "p99", "p99.9", "longest");
    }
    println!();
    for (what, runs) in rows {
        let mut all: Vec<_> = runs.iter().flatten().flatten().copied().collect();
        // Of each lane, the same commits in the same order.
        let least = |lane: usize| {
            let runs: Vec<_> = runs.iter().map(|run| run[lane].iter()).collect();
            let commits = runs.iter().map(ExactSizeIterator::len).min().unwrap();
            (0..commits).map(move |commit| {
                let shares = runs.iter().map(|run| run.clone().nth(commit));
                shares.min().flatten().unwrap()
            })
        };
        let mut least: Vec<_> = (0..2).flat_map(least).copied().collect();
        print!("{what:<44} {:>7}", least.len());
        print(&mut all);
        print(&mut least);
        println!();
    }
    for micros in [1, 2, 10] {
        let mut turns = idle(Duration::from_micros(micros), 100_000);
        let what = format!("nothing, for {micros} µs");
        print!("{what:<44} {:>7}", turns.len());
        print(&mut turns);
        println!();
    }
}
