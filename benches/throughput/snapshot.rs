//! Speed and latency, under full load, while a snapshot is taken, beside those while none is.
//!
//! Two closed loops, one after the other on the same server, whose order rotates. During one of
//! them the server is sent SIGUSR1, to take a snapshot; what is compared is the time from the
//! signal until the metrics say that it has ended, with the same stretch of time of the other loop.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::arguments::Common;
use crate::driver::{self, Run, Source};
use crate::kinds::Workload;
use crate::requests;
use crate::run;
use crate::samples::{Figures, Load, median};
use crate::server::{Metrics, Server};
use crate::stage::Stage;
use crate::template::{Template, headquarters};

const WORKLOAD: Workload = Workload::Operation("request_deposit");
/// How many snapshots the server has taken.
const TAKEN: &str = "carebook_snapshots_total";
/// How many it could not take.
const FAILED: &str = "carebook_snapshot_failures_total";
/// When the signal is sent, as a share of the loop: before that all is as usual.
const AT: f64 = 0.2;
/// How often the metrics are asked.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a snapshot may take.
const MOST: Duration = Duration::from_secs(300);
/// Statements that are opened before have numbers from here on.
const NUMBERS: usize = 500_000_000;

/// # Errors
/// A wrong answer, or a server that takes no snapshots.
pub(crate) fn measure(common: &Common, statements: usize) -> Result<Value, String> {
    // One that it takes by itself would disturb the loop without one.
    let start = common.start().without_snapshots();
    let mut stage = Stage::new(requests::start(WORKLOAD, &start)?, common.resources[0]);
    taken(&stage.server().metrics()?)?;
    eprintln!("{statements} statements");
    fill(stage.server(), common, statements)?;
    let capacity = run::closed(&mut stage, WORKLOAD, common, common.seed)?.per_second();
    let mut rounds = Vec::new();
    for round in 0..common.runs {
        eprintln!("round {} of {}: snapshot", round + 1, common.runs);
        let seed = common.seed.wrapping_add(round as u64);
        let count = (capacity * common.seconds) as usize;
        let mut looped = |disturb| looped(&mut stage, common, count, seed, disturb);
        let (without, with) = if round % 2 == 0 {
            let (without, ..) = looped(false)?;
            (without, looped(true)?)
        } else {
            let with = looped(true)?;
            (looped(false)?.0, with)
        };
        let (with, from, to) = with;
        let took = to - from;
        // Between signal and end, and never less than a second, so that there is a 99th percentile.
        let to = to.max(from + 1.0).min(common.seconds);
        let of = |figures: &Figures| {
            let (rate, p99, _) = figures.within(from, to, 0.99);
            json!({"perSecond": rate, "p99Micros": p99})
        };
        rounds.push(json!({
            "seconds": took,
            "secondsCompared": to - from,
            "without": of(&without),
            "with": of(&with),
            "withSeries": with.json()["series"],
            "withoutSeries": without.json()["series"],
        }));
    }
    let middle = |of: &dyn Fn(&Value) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let p99 = |which: &str| middle(&|round| number(&round[which]["p99Micros"]));
    let rate = |which: &str| middle(&|round| number(&round[which]["perSecond"]));
    Ok(json!({
        "statementsBefore": statements,
        "capacityPerSecond": capacity,
        "secondsOfSnapshot": middle(&|round| number(&round["seconds"])),
        "perSecondWithout": rate("without"),
        "perSecondWith": rate("with"),
        "p99MicrosWithout": p99("without"),
        "p99MicrosWith": p99("with"),
        "perSecondWithOfWithout": rate("with") / rate("without").max(1.0),
        "p99WithOfWithout": p99("with") / p99("without").max(1.0),
        "rounds": rounds,
    }))
}

/// A closed loop, perhaps with a snapshot that is taken during it: from when to when, in seconds.
fn looped(
    stage: &mut Stage,
    common: &Common,
    count: usize,
    seed: u64,
    disturb: bool,
) -> Result<(Figures, f64, f64), String> {
    let requests = requests::requests(stage, WORKLOAD, count.clamp(1, WORKLOAD.most()), seed)?;
    let run = Run {
        load: Load::Closed(common.connections),
        sources: crate::workload::sources(requests, common.generators),
        connections: (0, 0),
        backlog: driver::BACKLOG_MAX,
        at_most: None,
        seed,
        keep_bodies: false,
    };
    let server = stage.server();
    let from = AT * common.seconds;
    std::thread::scope(|scope| {
        let snapshot = scope.spawn(move || {
            if !disturb {
                return Ok(Duration::ZERO);
            }
            std::thread::sleep(Duration::from_secs_f64(from));
            take(server)
        });
        let figures = driver::run(server, run).map(|(figures, _)| figures);
        let took = snapshot
            .join()
            .map_err(|_| "the thread that signals panicked")??;
        Ok((figures?, from, from + took.as_secs_f64()))
    })
}

/// Has the server take a snapshot, and waits until it has.
pub(crate) fn take(server: &Server) -> Result<Duration, String> {
    let metrics = server.metrics()?;
    let before = taken(&metrics)?;
    let failed_before = metrics.value(FAILED);
    let started = Instant::now();
    server.signal(Signal::USR1)?;
    while started.elapsed() < MOST {
        std::thread::sleep(PAUSE);
        let metrics = server.metrics()?;
        if taken(&metrics)? > before {
            return Ok(started.elapsed());
        }
        if metrics.value(FAILED) > failed_before {
            return Err("the snapshot has failed".to_owned());
        }
    }
    Err(format!("no snapshot has ended within {} s", MOST.as_secs()))
}

fn taken(metrics: &Metrics) -> Result<f64, String> {
    metrics
        .value(TAKEN)
        .ok_or_else(|| format!("this server takes no snapshots: /metrics has no {TAKEN}"))
}

fn fill(server: &Server, common: &Common, statements: usize) -> Result<(), String> {
    let template = Template::request_deposit(&headquarters(server));
    let numbers = NUMBERS..NUMBERS + statements;
    let source: Source = Box::new(numbers.map(move |number| template.fill(number, 0)));
    let run = Run::closed(common.connections, source);
    driver::run(server, run).map(|_| ())
}
