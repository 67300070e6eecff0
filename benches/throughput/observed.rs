//! What it costs to be observed: requests for a deposit at a server that traces one in 100 of them to
//! a collector, and at one that writes an access log, beside one that does neither.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::arguments::Common;
use crate::receivers::{Manner, Receivers};
use crate::samples::median;
use crate::server::Server;
use crate::template::{Template, headquarters};
use crate::workload::carry_out;

/// How long the last spans are waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and what was measured there.
struct House {
    server: Server,
    template: Template,
    /// Commands a second, of each round.
    rates: Vec<f64>,
}

impl House {
    fn open(common: &Common, arguments: &[&str]) -> Result<Self, String> {
        let start = common.start().without_snapshots().unheard();
        let server = start.with(arguments).service()?;
        Ok(Self {
            template: Template::request_deposit(&headquarters(&server)),
            server,
            rates: Vec::new(),
        })
    }

    /// Commands from this number on, closed loop; how many a second.
    fn rate(&self, common: &Common, from: usize) -> Result<f64, String> {
        let commands = (from..from + common.commands).map(|number| self.template.fill(number, 0));
        let commands: Vec<_> = commands.collect();
        let begun = Instant::now();
        carry_out(&self.server, common.connections, commands)?;
        Ok(common.commands as f64 / begun.elapsed().as_secs_f64())
    }

    /// Its rate as a share of the other's, of each round, and the middle one.
    fn beside(&self, other: &Self) -> Value {
        let rounds = self.rates.iter().zip(&other.rates);
        let ratios: Vec<_> = rounds.map(|(own, other)| own / other).collect();
        json!({
            "commandsPerSecond": median(&self.rates),
            "ratio": median(&ratios),
            "ratios": ratios,
        })
    }
}

/// The spans that a collector has taken of the server's, once it has all of them; and those that
/// were lost.
fn spans(server: &Server) -> Result<(f64, f64), String> {
    let begun = Instant::now();
    let mut before = -1.0;
    loop {
        let page = server.metrics()?;
        let taken = page.need("carebook_trace_spans_exported_total")?;
        if taken == before || begun.elapsed() > PATIENCE {
            let lost = |reason| {
                page.need(&format!(
                    "carebook_trace_spans_dropped_total{{reason=\"{reason}\"}}"
                ))
            };
            let lost = lost("queue_full")? + lost("not_taken")? + lost("rejected")?;
            return Ok((taken, lost));
        }
        before = taken;
        // A batch waits a second for more.
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// # Errors
/// A wrong answer, or a server that does not start.
pub(crate) fn measure(common: &Common, sample: u64) -> Result<Value, String> {
    let collector = Receivers::start(&[Manner::Takes])?;
    let endpoint = format!("http://127.0.0.1:{}", collector.ports[0]);
    let sample = sample.to_string();
    let mut houses = [
        House::open(common, &[])?,
        House::open(
            common,
            &["--otlp-endpoint", &endpoint, "--trace-sample", &sample],
        )?,
        House::open(common, &["--access-log"])?,
    ];
    // The first round is not counted: tables and caches are empty.
    for round in 0..=common.runs {
        for turn in 0..houses.len() {
            // Each is first, second and last in turn.
            let at = (round + turn) % houses.len();
            let rate = houses[at].rate(common, round * common.commands)?;
            if round > 0 {
                houses[at].rates.push(rate);
            }
        }
        let rates = houses.iter().filter_map(|house| house.rates.last());
        let rates: Vec<_> = rates.map(|rate| format!("{rate:.0}")).collect();
        eprintln!("round {round}: {}", rates.join(" "));
    }
    let (taken, lost) = spans(&houses[1].server)?;
    let [plain, traced, logged] = &houses;
    let mut of_traces = traced.beside(plain);
    of_traces["oneIn"] = json!(sample);
    of_traces["spansTaken"] = json!(taken);
    of_traces["spansLost"] = json!(lost);
    Ok(json!({
        "commands": common.commands,
        "rounds": common.runs,
        "plain": {"commandsPerSecond": median(&plain.rates)},
        "traced": of_traces,
        "accessLog": logged.beside(plain),
    }))
}
