//! Many times the capacity, offered in an open loop: what still gets through, which response the
//! rest gets and how soon, what memory does, and how long it takes until all is as before.

use std::time::Duration;

use serde_json::{Value, json};

use crate::arguments::Common;
use crate::driver::{self, Run, Source};
use crate::kinds::Workload;
use crate::requests;
use crate::run;
use crate::samples::{Figures, Load, median};
use crate::stage::Stage;
use crate::template::{Template, headquarters};
use crate::watch::Watch;

/// What is asked for, and at which share of the capacity before and afterwards.
const WORKLOAD: Workload = Workload::Operation("request_deposit");
const USUAL: f64 = 0.5;
/// What is usual again: nothing shed, and a 99th percentile not above this many times the one
/// before, in a part of the run as long as this.
const AS_BEFORE: f64 = 2.0;
const PART_SECONDS: f64 = 0.2;
/// Numbers of commands for a run before they meet those of the next.
const NUMBERS: usize = 100_000_000;

/// Measures it as often as there are rounds.
///
/// # Errors
/// A wrong answer; 429 is none here.
pub(crate) fn measure(common: &Common, times: f64) -> Result<Value, String> {
    let mut rounds = Vec::new();
    for round in 0..common.runs {
        eprintln!("round {} of {}: overload", round + 1, common.runs);
        rounds.push(once(common, times, common.seed.wrapping_add(round as u64))?);
    }
    rounds.sort_by(|a, b| {
        let goodput = |round: &Value| round["goodputOfCapacity"].as_f64().unwrap_or(0.0);
        goodput(a).total_cmp(&goodput(b))
    });
    let middle = rounds.remove((rounds.len() - 1) / 2);
    Ok(json!({"median": middle, "otherRounds": rounds}))
}

fn once(common: &Common, times: f64, seed: u64) -> Result<Value, String> {
    let mut stage = Stage::new(
        requests::start(WORKLOAD, &common.start())?,
        common.resources[0],
    );
    let capacity = run::closed(&mut stage, WORKLOAD, common, seed)?.per_second();
    let usual = |stage: &mut Stage| run::open(stage, WORKLOAD, common, USUAL * capacity, seed);
    let before = usual(&mut stage)?;
    let server = stage.server();
    let resident_before = server.process().resident();
    let watch = Watch::on(server.process());
    let asked = times * capacity;
    let overload = Run {
        load: Load::Open(asked),
        sources: statements(&headquarters(server), common.generators),
        connections: (common.connections_most, common.connections_most),
        // Clients that come on their own do not wait for each other's connections: a request that
        // finds none is not sent, and what was sent is reported beside what was to be.
        backlog: 0,
        at_most: Some(Duration::from_secs_f64(common.seconds)),
        seed,
        keep_bodies: false,
    };
    let (during, _) = driver::run(server, overload)?;
    let memory = watch.end();
    let after = usual(&mut stage)?;
    let server = stage.server();
    let sent = during.answers() as f64;
    let resident_after = server.process().resident();
    let resident_most = memory.iter().map(|(_, bytes)| *bytes).max();
    // The answers to what was accepted last come after the end.
    let drain = (during.elapsed.as_secs_f64() - common.seconds).max(0.0);
    let (goodput, p99, _) = during.within(0.0, common.seconds, 0.99);
    Ok(json!({
        "capacityPerSecond": capacity,
        "offeredTimesCapacity": times,
        "offeredPerSecond": asked,
        "sentPerSecond": sent / common.seconds,
        "sentTimesCapacity": sent / common.seconds / capacity,
        "generatorLagMicros": during.lag(),
        "goodputPerSecond": goodput,
        "goodputOfCapacity": goodput / capacity,
        "goodP50Micros": during.percentile(0.50),
        "goodP99Micros": p99,
        "shedShare": during.shed_share(),
        "shedP50Micros": during.shed_percentile(0.50),
        "shedP99Micros": during.shed_percentile(0.99),
        "residentBytesBefore": resident_before,
        "residentBytesDuringMost": resident_most,
        "residentBytesAfter": resident_after,
        // What was accepted meanwhile stays; the load itself must not hold more than that.
        "residentDuringOfAfter":
            resident_most.map(|most| most as f64 / resident_after.max(1) as f64),
        "acceptedMeanwhile": during.answers() as f64 * (1.0 - during.shed_share()),
        "secondsUntilLastAnswer": drain,
        "secondsUntilAsBefore": as_before(&before, &after, common.seconds).map(|at| drain + at),
        "p99MicrosBefore": before.percentile(0.99),
        "p99MicrosAfter": after.percentile(0.99),
        "memory": memory.iter().map(|(at, bytes)| json!([at, bytes])).collect::<Vec<_>>(),
        "before": before.json(),
        "during": during.json(),
        "after": after.json(),
    }))
}

/// Statements opened, as many as are wanted, made while they are sent.
fn statements(token: &str, threads: usize) -> Vec<Source> {
    let template = Template::request_deposit(token);
    let of_thread = |thread: usize| -> Source {
        let template = template.clone();
        // Beyond the numbers that were used before.
        let numbers = (0..NUMBERS).skip(thread).step_by(threads);
        Box::new(numbers.map(move |number| template.fill(NUMBERS + number, 0)))
    };
    (0..threads).map(of_thread).collect()
}

/// The first second of `after` from which on a part of the run is as it was before. What was usual
/// before is the median of its parts, so that one that was slow by chance does not count.
fn as_before(before: &Figures, after: &Figures, seconds: f64) -> Option<f64> {
    let parts = || {
        (0..)
            .map(|part| f64::from(part) * PART_SECONDS)
            .take_while(|from| from + PART_SECONDS <= seconds)
    };
    let p99 = |figures: &Figures, from: f64| figures.within(from, from + PART_SECONDS, 0.99);
    let usual: Vec<f64> = parts().map(|from| f64::from(p99(before, from).1)).collect();
    let bound = AS_BEFORE * median(&usual);
    parts().find(|from| {
        let (rate, p99, shed) = p99(after, *from);
        rate > 0.0 && !shed && f64::from(p99) <= bound
    })
}
