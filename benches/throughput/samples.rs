//! What a run measured, and the figures that are made of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::check::Outcome;
use crate::proc::Usage;

/// One answer.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// When it came, in microseconds since the start.
    pub(crate) at: u32,
    /// How long it took, in microseconds: from the moment at which the request was sent, or, where
    /// the rate is given, was to be sent.
    pub(crate) latency: u32,
    /// What it came to.
    pub(crate) outcome: Outcome,
}

/// All that was seen of one run, by one thread or, merged, by all.
#[derive(Default)]
pub(crate) struct Samples {
    pub(crate) answers: Vec<Sample>,
    /// By how much the generator itself was late, for each request, in microseconds. Only where
    /// the rate is given.
    pub(crate) lags: Vec<u32>,
    /// Requests that found no free connection when their time had come.
    pub(crate) waited: usize,
    /// Requests that were given up, since too many waited for a connection.
    pub(crate) unsent: usize,
    /// Connections that were open at the end.
    pub(crate) connections: usize,
    /// Bytes of the bodies of requests and of answers.
    pub(crate) sent: usize,
    pub(crate) received: usize,
    /// The bodies of the answers, in the order in which they came, where they were to be kept.
    pub(crate) bodies: Vec<Vec<u8>>,
}

impl Samples {
    /// These and those.
    pub(crate) fn merge(mut self, mut other: Self) -> Self {
        self.answers.append(&mut other.answers);
        self.lags.append(&mut other.lags);
        self.bodies.append(&mut other.bodies);
        self.waited += other.waited;
        self.unsent += other.unsent;
        self.connections += other.connections;
        self.sent += other.sent;
        self.received += other.received;
        self
    }
}

/// How the load was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Load {
    /// So many connections, each of which waits for its answer before it sends the next.
    Closed(usize),
    /// So many requests a second, whatever the answers do.
    Open(f64),
}

/// What all that happened in a run comes to.
pub(crate) struct Figures {
    pub(crate) load: Load,
    pub(crate) elapsed: Duration,
    /// Latencies of good answers in microseconds, ascending.
    good: Vec<u32>,
    /// Of those that were shed.
    shed: Vec<u32>,
    lags: Vec<u32>,
    waited: usize,
    pub(crate) unsent: usize,
    pub(crate) connections: usize,
    sent: usize,
    received: usize,
    answers: Vec<Sample>,
    /// What another driver has reported of its run, of which nothing else is known.
    told: Option<Told>,
    /// Of equal parts of the run: when each began, in seconds, good answers and shed ones a
    /// second, and the 99th percentile of the good ones.
    series: Vec<Moment>,
    pub(crate) server: Usage,
    pub(crate) driver: Usage,
    /// Writes of the server that waited for the storage, where it counts them.
    pub(crate) syncs: Option<u64>,
    /// Bytes that went to the device meanwhile, of whomever.
    pub(crate) written: Option<u64>,
}

/// What another driver reports of a run.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    /// Answers, all of them good.
    pub(crate) answers: usize,
    /// Latencies in microseconds.
    pub(crate) p50: u32,
    pub(crate) p99: u32,
}

/// A part of a run.
struct Moment {
    at: f64,
    good: f64,
    shed: f64,
    p99: u32,
}

/// The value that the share `quantile` of these, which ascend, does not exceed.
pub(crate) fn percentile(ascending: &[u32], quantile: f64) -> u32 {
    let rank = (ascending.len() as f64 * quantile).ceil() as usize;
    let last = ascending.len().saturating_sub(1);
    ascending
        .get(rank.saturating_sub(1).min(last))
        .copied()
        .unwrap_or(0)
}

/// The value in the middle; of an even number, the mean of the two there.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

impl Figures {
    pub(crate) fn new(load: Load, elapsed: Duration, samples: Samples) -> Self {
        let of = |outcome| {
            let those = samples.answers.iter().filter(|one| one.outcome == outcome);
            let mut latencies: Vec<u32> = those.map(|one| one.latency).collect();
            latencies.sort_unstable();
            latencies
        };
        let mut lags = samples.lags;
        lags.sort_unstable();
        Self {
            load,
            elapsed,
            good: of(Outcome::Good),
            shed: of(Outcome::Shed),
            lags,
            waited: samples.waited,
            unsent: samples.unsent,
            connections: samples.connections,
            sent: samples.sent,
            received: samples.received,
            series: series(&samples.answers, elapsed),
            answers: samples.answers,
            told: None,
            server: Usage::default(),
            driver: Usage::default(),
            syncs: None,
            written: None,
        }
    }

    /// The run that another driver reports.
    pub(crate) fn told(load: Load, elapsed: Duration, told: Told) -> Self {
        let mut figures = Self::new(load, elapsed, Samples::default());
        figures.told = Some(told);
        figures
    }

    /// Good answers.
    fn good(&self) -> usize {
        self.told.map_or(self.good.len(), |told| told.answers)
    }

    /// All answers, good and shed.
    pub(crate) fn answers(&self) -> usize {
        self.good() + self.shed.len()
    }

    /// Good answers a second and the latency at `quantile`, in microseconds, of a part of the run,
    /// in seconds since its start; and whether any request was shed there.
    pub(crate) fn within(&self, from: f64, to: f64, quantile: f64) -> (f64, u32, bool) {
        let inside = |one: &&Sample| (from..to).contains(&(f64::from(one.at) / 1e6));
        let inside = || self.answers.iter().filter(inside);
        let good = inside().filter(|one| one.outcome == Outcome::Good);
        let mut good: Vec<u32> = good.map(|one| one.latency).collect();
        good.sort_unstable();
        let shed = inside().any(|one| one.outcome == Outcome::Shed);
        (
            good.len() as f64 / (to - from),
            percentile(&good, quantile),
            shed,
        )
    }

    /// Good answers a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.good() as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency in microseconds that the share `quantile` of the good answers does not exceed;
    /// none where another driver has not reported it.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<u32> {
        match self.told {
            None => Some(percentile(&self.good, quantile)),
            Some(told) if quantile == 0.50 => Some(told.p50),
            Some(told) if quantile == 0.99 => Some(told.p99),
            Some(_) => None,
        }
    }

    /// The same; 0 where it was not reported.
    pub(crate) fn percentile(&self, quantile: f64) -> u32 {
        self.quantile(quantile).unwrap_or(0)
    }

    /// The 99th percentile of a tenth of a second, in microseconds: half of the tenths have less. What stops
    /// the machine for a moment is in a few of them, and not in this.
    pub(crate) fn usual_p99(&self) -> f64 {
        let each = self.series.iter().map(|moment| f64::from(moment.p99));
        median(&each.collect::<Vec<_>>())
    }

    /// By how much the generator was late at the 99th percentile, in microseconds.
    pub(crate) fn lag(&self) -> u32 {
        percentile(&self.lags, 0.99)
    }

    /// The share of answers that said that the server was busy.
    pub(crate) fn shed_share(&self) -> f64 {
        self.shed.len() as f64 / self.answers().max(1) as f64
    }

    /// Of those the latency at `quantile`, in microseconds.
    pub(crate) fn shed_percentile(&self, quantile: f64) -> u32 {
        percentile(&self.shed, quantile)
    }

    /// Processor time of the server for one answer, in user and in kernel mode, in microseconds.
    /// Unlike the rate, it hardly depends on what else the machine is doing.
    pub(crate) fn server_micros(&self) -> (f64, f64) {
        let each = |micros: u64| micros as f64 / self.answers().max(1) as f64;
        (each(self.server.user), each(self.server.kernel))
    }

    /// How many processors the driver kept busy.
    pub(crate) fn driver_share(&self) -> f64 {
        (self.driver.user + self.driver.kernel) as f64 / self.elapsed.as_micros() as f64
    }

    /// The figures, for machines.
    pub(crate) fn json(&self) -> Value {
        let seconds = self.elapsed.as_secs_f64();
        let per_answer = |sum: usize| sum as f64 / self.answers().max(1) as f64;
        let (mode, asked) = match self.load {
            Load::Closed(_) => ("closed", None),
            Load::Open(rate) => ("open", Some(rate)),
        };
        let of = |ascending: &[u32]| {
            let some = !ascending.is_empty();
            some.then(|| latencies(|quantile| Some(percentile(ascending, quantile))))
        };
        let processors = |usage: &Usage| {
            json!({
                "userSeconds": usage.user as f64 / 1e6,
                "systemSeconds": usage.kernel as f64 / 1e6,
                "processors": (usage.user + usage.kernel) as f64 / 1e6 / seconds,
            })
        };
        json!({
            "mode": mode,
            "askedPerSecond": asked,
            "connections": self.connections,
            "seconds": seconds,
            "good": self.good(),
            "shed": self.shed.len(),
            "perSecond": self.per_second(),
            "micros": latencies(|quantile| self.quantile(quantile)),
            "shedMicros": of(&self.shed),
            "generatorLagMicros": of(&self.lags),
            "waitedForConnection": self.waited,
            "givenUp": self.unsent,
            "server": processors(&self.server),
            "driver": processors(&self.driver),
            "serverUserMicros": self.server_micros().0,
            "serverSystemMicros": self.server_micros().1,
            "writtenBytesPerSecond": self.written.map(|bytes| bytes as f64 / seconds),
            "syncsPerSecond": self.syncs.map(|syncs| syncs as f64 / seconds),
            "requestBodyBytes": per_answer(self.sent),
            "answerBodyBytes": per_answer(self.received),
            "series": self.series.iter().map(|moment| json!({
                "at": moment.at,
                "perSecond": moment.good,
                "shedPerSecond": moment.shed,
                "p99Micros": moment.p99,
            })).collect::<Vec<_>>(),
        })
    }
}

/// The quantiles that are reported of latencies.
const QUANTILES: [(&str, f64); 8] = [
    ("p10", 0.10),
    ("p50", 0.50),
    ("p75", 0.75),
    ("p90", 0.90),
    ("p99", 0.99),
    ("p999", 0.999),
    ("p9999", 0.9999),
    ("max", 1.0),
];

fn latencies(of: impl Fn(f64) -> Option<u32>) -> Value {
    let told = QUANTILES.iter();
    told.map(|(name, quantile)| ((*name).to_owned(), Value::from(of(*quantile))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Parts of at least a tenth of a second, and not more than a hundred of them.
fn series(answers: &[Sample], elapsed: Duration) -> Vec<Moment> {
    let width = (elapsed.as_secs_f64() / 100.0).max(0.1);
    let count = (elapsed.as_secs_f64() / width) as usize;
    let mut good = vec![Vec::new(); count];
    let mut shed = vec![0_u32; count];
    for one in answers {
        let part = (f64::from(one.at) / 1e6 / width) as usize;
        // What is left over at the end is no whole part, and would look like a drop.
        if part >= count {
            continue;
        }
        match one.outcome {
            Outcome::Good => good[part].push(one.latency),
            Outcome::Shed => shed[part] += 1,
        }
    }
    good.into_iter()
        .zip(shed)
        .enumerate()
        .map(|(part, (mut good, shed))| {
            good.sort_unstable();
            Moment {
                at: part as f64 * width,
                good: good.len() as f64 / width,
                shed: f64::from(shed) / width,
                p99: percentile(&good, 0.99),
            }
        })
        .collect()
}
