//! Runs side by side: each subject once in every round, in an order that rotates, so that what
//! the machine does meanwhile, or a disk that fills up, hits none of them more than the others.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::arguments::{Common, Rates};
use crate::driver::{self, Run};
use crate::kinds::{Form, Like, Workload};
use crate::peers;
use crate::requests;
use crate::samples::{Figures, Load, median};
use crate::stage::Stage;
use crate::workload::{carry_out, sources};

/// What is compared.
#[derive(Clone, PartialEq)]
pub(crate) enum Subject {
    Ours(Workload),
    /// Redis, which drives itself.
    Redis(Form),
}

impl Subject {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Ours(workload) => workload.name(),
            Self::Redis(form) => format!("redis, {}", form.name()),
        }
    }

    /// What its rate is compared with: that of the first subject; that of a peer, and of the limit,
    /// with ours of the same form.
    fn reference(&self, subjects: &[Self]) -> usize {
        let is_like = |other: Form| match self {
            Self::Ours(Workload::Postgres(form)) | Self::Redis(form) => *form == other,
            Self::Ours(Workload::Limit(Like::Deposit)) => other == Form::Fresh,
            Self::Ours(Workload::Limit(Like::Charge)) => matches!(other, Form::Spread(_)),
            Self::Ours(_) => false,
        };
        let same = |other: &Self| match other {
            Self::Ours(workload) => Form::of(*workload).is_some_and(is_like),
            Self::Redis(_) => false,
        };
        subjects.iter().position(same).unwrap_or(0)
    }
}

/// One load on one subject in one round.
pub(crate) struct Measured {
    /// Which subject, as counted in the order asked for.
    pub(crate) subject: usize,
    /// The subject that its rate is compared with.
    reference: usize,
    pub(crate) name: String,
    /// How the load was given: `closed`, or the rate.
    pub(crate) load: String,
    /// The same as a number to sort by: the share of the capacity, or the rate.
    order: f64,
    pub(crate) round: usize,
    pub(crate) figures: Figures,
    /// Memory of the server at the end.
    pub(crate) resident: u64,
}

/// What all rounds of one load on one subject come to.
pub(crate) struct Summary<'a> {
    /// The round in the middle: by rate in a closed loop, by the 99th percentile in an open one.
    pub(crate) median: &'a Measured,
    pub(crate) rounds: usize,
    /// The lowest and highest rate.
    pub(crate) range: (f64, f64),
    /// The rate as a share of the reference's in the same round, in the median.
    pub(crate) ratio: Option<f64>,
}

/// Measures all subjects as often as there are rounds.
///
/// # Errors
/// The first answer that was wrong, or what did not start.
pub(crate) fn all(subjects: &[Subject], common: &Common) -> Result<Vec<Measured>, String> {
    let mut kept: BTreeMap<usize, Stage> = BTreeMap::new();
    let mut measured = Vec::new();
    for round in 0..common.runs {
        for turn in 0..subjects.len() {
            let index = (round + turn) % subjects.len();
            let subject = &subjects[index];
            eprintln!("round {} of {}: {}", round + 1, common.runs, subject.name());
            let mut keep = |(load, order, figures, resident)| {
                measured.push(Measured {
                    subject: index,
                    reference: subject.reference(subjects),
                    name: subject.name(),
                    load,
                    order,
                    round,
                    figures,
                    resident,
                });
            };
            match subject {
                Subject::Ours(workload) => {
                    let mut stage = match kept.remove(&index) {
                        Some(stage) => stage,
                        None => Stage::new(
                            requests::start(*workload, &common.start())?,
                            common.resources[0],
                        ),
                    };
                    let seed = common.seed.wrapping_add(round as u64);
                    let loads = measure(&mut stage, *workload, common, seed);
                    loads
                        .map_err(|wrong| format!("{}: {wrong}", subject.name()))?
                        .into_iter()
                        .for_each(&mut keep);
                    if workload.keeps_server() {
                        kept.insert(index, stage);
                    }
                }
                Subject::Redis(form) => {
                    let figures = peers::drive_redis(*form, common)
                        .map_err(|wrong| format!("{}: {wrong}", subject.name()))?;
                    keep(("closed".to_owned(), 0.0, figures, 0));
                }
            }
        }
    }
    Ok(measured)
}

/// One load: its name, its order, its figures, and the server's memory afterwards.
pub(crate) type Loaded = (String, f64, Figures, u64);

/// The closed loop, then the open ones.
pub(crate) fn measure(
    stage: &mut Stage,
    workload: Workload,
    common: &Common,
    seed: u64,
) -> Result<Vec<Loaded>, String> {
    let mut loaded = Vec::new();
    let mut rates = Vec::new();
    match common.rates() {
        Rates::PerSecond(rate) => rates.push((format!("open, {rate:.0}/s"), rate, rate)),
        Rates::OfCapacity(shares) => {
            let figures = closed(stage, workload, common, seed)?;
            let capacity = figures.per_second();
            let resident = stage.server().process().resident();
            loaded.push(("closed".to_owned(), 0.0, figures, resident));
            for share in shares {
                let name = format!("open, {share:.2} of capacity");
                rates.push((name, share, share * capacity));
            }
        }
    }
    if workload.connections(2) == 1 && !rates.is_empty() {
        eprintln!(
            "  {}: never more than one in flight, so no open loop",
            workload.name()
        );
        return Ok(loaded);
    }
    for (name, order, rate) in rates {
        let figures = open(stage, workload, common, rate, seed)?;
        let resident = stage.server().process().resident();
        loaded.push((name, order, figures, resident));
    }
    Ok(loaded)
}

/// A closed loop: the capacity.
pub(crate) fn closed(
    stage: &mut Stage,
    workload: Workload,
    common: &Common,
    seed: u64,
) -> Result<Figures, String> {
    closed_between(stage, workload, common, seed, |_| Ok(())).map(|(figures, _)| figures)
}

/// As [`closed`], with how many commands it had; `switch` is called before and after all of them, with
/// whether they come.
pub(crate) fn closed_between(
    stage: &mut Stage,
    workload: Workload,
    common: &Common,
    seed: u64,
    mut switch: impl FnMut(bool) -> Result<(), String>,
) -> Result<(Figures, usize), String> {
    let connections = workload.connections(common.connections);
    let count = common.commands.min(workload.most() / 10 * 9);
    // The first commands find cold caches on both sides.
    let warm = requests::requests(stage, workload, (count / 10).clamp(1, 2_000), seed ^ 0x5eed)?;
    carry_out(stage.server(), connections, warm)?;
    let requests = requests::requests(stage, workload, count, seed)?;
    let run = Run {
        load: Load::Closed(connections),
        sources: sources(requests, common.generators.min(connections)),
        connections: (0, 0),
        backlog: driver::BACKLOG_MAX,
        at_most: None,
        seed,
        keep_bodies: false,
    };
    switch(true)?;
    let (figures, _) = driver::run(stage.server(), run)?;
    switch(false)?;
    Ok((figures, count))
}

/// An open loop: the latency at a rate.
pub(crate) fn open(
    stage: &mut Stage,
    workload: Workload,
    common: &Common,
    rate: f64,
    seed: u64,
) -> Result<Figures, String> {
    let count = ((rate * common.seconds) as usize).clamp(1, workload.most());
    let requests = requests::requests(stage, workload, count, seed)?;
    let run = Run {
        load: Load::Open(rate),
        sources: sources(requests, common.generators),
        connections: common.open_connections(),
        backlog: driver::BACKLOG_MAX,
        at_most: None,
        seed,
        keep_bodies: false,
    };
    driver::run(stage.server(), run).map(|(figures, _)| figures)
}

/// The medians, by subject and load.
pub(crate) fn summaries(measured: &[Measured]) -> Vec<Summary<'_>> {
    let mut of_each: BTreeMap<(usize, u64), Vec<&Measured>> = BTreeMap::new();
    for one in measured {
        // Shares and rates are positive, and the bits of such numbers rise with them.
        let rounds = of_each.entry((one.subject, one.order.to_bits()));
        rounds.or_default().push(one);
    }
    let each = of_each.into_values();
    each.map(|rounds| summary(rounds, measured)).collect()
}

fn summary<'a>(mut rounds: Vec<&'a Measured>, measured: &[Measured]) -> Summary<'a> {
    let rates = || rounds.iter().map(|one| one.figures.per_second());
    let range = (
        rates().fold(f64::INFINITY, f64::min),
        rates().fold(0.0, f64::max),
    );
    let ratios: Vec<f64> = rounds
        .iter()
        .filter_map(|one| {
            let first = measured.iter().find(|other| {
                other.subject == one.reference && other.round == one.round && other.load == one.load
            });
            Some(one.figures.per_second() / first?.figures.per_second())
        })
        .collect();
    // Of an even number the worse of the two in the middle.
    let middle = match rounds[0].figures.load {
        Load::Closed(_) => {
            let rate = |one: &Measured| one.figures.per_second();
            rounds.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
            (rounds.len() - 1) / 2
        }
        Load::Open(_) => {
            rounds.sort_by_key(|one| one.figures.percentile(0.99));
            rounds.len() / 2
        }
    };
    Summary {
        median: rounds[middle],
        rounds: rounds.len(),
        range,
        ratio: (!ratios.is_empty()).then(|| median(&ratios)),
    }
}

/// Rounds and medians, for machines.
pub(crate) fn json(measured: &[Measured]) -> Value {
    let row = |one: &Measured| {
        let mut row = one.figures.json();
        row["subject"] = json!(one.name);
        row["load"] = json!(one.load);
        row["round"] = json!(one.round + 1);
        row["residentBytes"] = json!(one.resident);
        row
    };
    let rounds: Vec<_> = measured.iter().map(row).collect();
    let medians = summaries(measured).into_iter().map(|summary| {
        let mut median = row(summary.median);
        median["rounds"] = json!(summary.rounds);
        median["perSecondLeast"] = json!(summary.range.0);
        median["perSecondMost"] = json!(summary.range.1);
        median["ratio"] = json!(summary.ratio);
        median
    });
    json!({"medians": medians.collect::<Vec<_>>(), "rounds": rounds})
}
