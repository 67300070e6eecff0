//! How long commits hold the log's sequencer, beside which no other commit is made: with a list of
//! 100,000 entries, and with states of a mebibyte.
//!
//! ```text
//! cargo bench --bench sequencer
//! ENTRIES=20000 COMMITS=500 cargo bench --bench sequencer
//! ```
//!
//! Two lanes of one engine, on a disk in memory. Told are the median, the 99th and 99.9th
//! percentile and the longest of all shares, in microseconds: of the time that went by, and of the
//! processor's time that the thread had meanwhile, which is the work that is done under the
//! sequencer. Where there are fewer processors than threads, a thread is put aside now and then
//! while it has the sequencer; that counts to the first and not to the second, and so the two tell
//! the machine's doing from ours. *Aside* says how many shares had 20 µs more of the first.

// Figures are approximate by nature; a bench ends where something goes wrong.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unwrap_used
)]

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as Tick};

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::json::{Json, Reader};
use carebook::base::time::Instant;
use carebook::catalogue::{FACTS, OPERATIONS};
use carebook::cli::open::Replaying;
use carebook::domain::operation::Parts;
use carebook::domain::reference::intake::Incoming;
use carebook::engine::clock::SystemClock;
use carebook::engine::{CommandRequest, CommandResult, Engine, Limits, Sequenced};
use rustix::time::{ClockId, clock_gettime};
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

/// By how much more time than work a share is one of a thread that was put aside.
const ASIDE: Duration = Duration::from_micros(20);

/// What a commit had of the sequencer.
struct Share {
    /// The time that went by.
    time: Duration,
    /// The processor's time that its thread had.
    work: Duration,
}

type Shares = Arc<Mutex<Vec<Share>>>;

thread_local! {
    /// When the present thread took the sequencer, and its processor's time then.
    static TAKEN: Cell<Option<(Tick, Duration)>> = const { Cell::new(None) };
}

/// The processor's time that the present thread had so far.
fn worked() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

fn note(shares: &Shares, sequenced: Sequenced) {
    match sequenced {
        Sequenced::Taken => {
            let worked = worked();
            TAKEN.set(Some((Tick::now(), worked)));
        }
        Sequenced::GivenBack => {
            let (since, before) = TAKEN.take().unwrap();
            let time = since.elapsed();
            let work = worked() - before;
            shares.lock().unwrap().push(Share { time, work });
        }
    }
}

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

fn start(shares: &Shares) -> Arc<Engine> {
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
    shares.lock().unwrap().reserve(1 << 20);
    engine.on_sequenced(Box::new(move |sequenced| note(&shares, sequenced)));
    Arc::new(engine)
}

async fn put(engine: &Engine, fact: &Value) {
    let text = fact.to_string();
    let fact = Json::parse(text.as_bytes()).unwrap();
    let fact = Incoming::of_item(0, &fact, FACTS, Instant::default());
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
    let mut at = Reader::new(Instant::default());
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
    let reply = engine.execute(call, engine.admit().unwrap()).await;
    assert!(matches!(reply, CommandResult::Done { .. }), "{reply:?}");
}

/// Runs `work` on a lane and a thread of its own.
fn on_lane<F: Future<Output = ()>>(engine: &Arc<Engine>, lane: usize, work: F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let gate = tokio::spawn(engine.lanes().run(lane));
        work.await;
        gate.abort();
    });
}

fn tell(what: &str, shares: &Shares) {
    let mut shares = shares.lock().unwrap();
    let all = || shares.iter();
    let aside = all().filter(|share| share.time > share.work + ASIDE);
    let aside = aside.count();
    let times: Vec<_> = all().map(|share| share.time).collect();
    let works: Vec<_> = all().map(|share| share.work).collect();
    print!("{what:<44} {:>7}", times.len());
    for mut of in [times, works] {
        of.sort_unstable();
        for part in [0.5, 0.99, 0.999, 1.0] {
            let place = ((of.len() as f64 * part).ceil() as usize).clamp(1, of.len());
            print!(" {:>8.1}", of[place - 1].as_secs_f64() * 1e6);
        }
    }
    println!(" {aside:>6}");
    shares.clear();
}

fn main() {
    let entries = number("ENTRIES", 100_000);
    let commits = number("COMMITS", 2_000);
    let shares = Shares::default();
    let engine = start(&shares);
    println!("{:<52} {:^35} {:^35}", "", "time, µs", "work, µs");
    print!("{:<44} {:>7}", "shares of the sequencer", "commits");
    for _ in 0..2 {
        print!(" {:>8} {:>8} {:>8} {:>8}", "p50", "p99", "p99.9", "longest");
    }
    println!(" {:>6}", "aside");
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
    tell("payments join an ever longer list", &shares);
    on_lane(&engine, 0, async {
        for number in 0..commits {
            put(&engine, &payment(entries + number, 1)).await;
        }
    });
    tell(&format!("payments join a list of {entries}"), &shares);
    let mut revision = 0;
    on_lane(&engine, 0, async {
        for _ in 0..commits / 10 {
            search(&engine, revision).await;
            revision += 1;
        }
    });
    tell(&format!("searches of a list of {entries}"), &shares);
    on_lane(&engine, 0, async {
        for number in 0..commits / 2 {
            put(&engine, &large(number + 1)).await;
        }
    });
    tell("states of 1 MiB", &shares);
    let began = Tick::now();
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
    tell("changes in the list beside states of 1 MiB", &shares);
    println!(
        "the last of these in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    engine.shut_down().unwrap();
}
