//! How the rate grows with processors: the time of each kind of thread for a command, and the rate
//! that follows from it where there are more processors than here.
//!
//! Lanes share nothing but the sequencer and the log's thread, so what more processors cannot make
//! faster is what all commands do one after the other: each commit's share of the sequencer, and the
//! log's thread. With `n` processors for the server, `c` microseconds of all threads for a command,
//! `j` of them the log's thread's and `s` under the sequencer, the rate is the least of `n / c`,
//! `1 / j` and `1 / s` commands a microsecond. That leaves out what processors cost each other
//! (memory, cache lines that wander), so it is a bound, and no forecast.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::arguments::Common;
use crate::samples::median;
use crate::template::{Template, headquarters};
use crate::workload::carry_out;

/// Processors that the law is told for.
const PROCESSORS: [u32; 5] = [2, 4, 8, 16, 32];
const LANES: &str = "lanes";
const LOG: &str = "logThread";
const OTHERS: &str = "otherThreads";
const KINDS: [&str; 3] = [LANES, LOG, OTHERS];

/// What a thread of this name is for.
fn kind(name: &str) -> &'static str {
    if name.starts_with("lane-") {
        LANES
    } else if name == "wal-journal" {
        LOG
    } else {
        OTHERS
    }
}

/// # Errors
/// A wrong answer, a server that does not start, or a kernel that tells no times of threads.
pub(crate) fn measure(common: &Common, sequencer_micros: f64) -> Result<Value, String> {
    let server = common.start().without_snapshots().service()?;
    let template = Template::request_deposit(&headquarters(&server));
    let mut rates = Vec::new();
    let mut micros: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    // The first round is not counted: tables and caches are empty.
    for round in 0..=common.runs {
        let numbers = round * common.commands..(round + 1) * common.commands;
        let commands: Vec<_> = numbers.map(|number| template.fill(number, 0)).collect();
        let before = server.process().threads()?;
        let begun = std::time::Instant::now();
        carry_out(&server, common.connections, commands)?;
        let rate = common.commands as f64 / begun.elapsed().as_secs_f64();
        let after = server.process().threads()?;
        eprintln!("round {round} of {}: {rate:.0} a second", common.runs);
        if round == 0 {
            continue;
        }
        rates.push(rate);
        for of in KINDS {
            let sum = |threads: &[(String, u64)]| -> u64 {
                let own = threads.iter().filter(|(name, _)| kind(name) == of);
                own.map(|(_, nanos)| *nanos).sum()
            };
            let nanos = sum(&after).saturating_sub(sum(&before)) as f64;
            let each = nanos / 1_000.0 / common.commands as f64;
            micros.entry(of).or_default().push(each);
        }
    }
    let [lanes, log, others] = KINDS.map(|of| micros.get(of).map_or(0.0, |all| median(all)));
    let all = lanes + log + others;
    let mut law = Map::new();
    for processors in PROCESSORS {
        let bounds = [
            ("processors", f64::from(processors) / all),
            ("log thread", 1.0 / log),
            ("sequencer", 1.0 / sequencer_micros),
        ];
        let least = bounds.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let (bound, rate) = least.copied().unwrap_or_default();
        law.insert(
            format!("{processors}Processors"),
            json!({"commandsPerSecondAtMost": rate * 1e6, "boundBy": bound}),
        );
    }
    Ok(json!({
        "commands": common.commands,
        "connections": common.connections,
        "rounds": common.runs,
        "commandsPerSecond": median(&rates),
        "microsPerCommand": {LANES: lanes, LOG: log, OTHERS: others, "all": all},
        "sequencerMicros": sequencer_micros,
        "serialShare": (log + sequencer_micros) / all,
        "law": law,
    }))
}
