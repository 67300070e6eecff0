//! Speed: durable commands a second over HTTP, on this machine, the load
//! generator included.
//!
//! ```text
//! cargo bench --bench throughput -- --help
//! cargo bench --bench throughput -- --connections 64 --commands 200000
//! cargo bench --bench throughput -- --workload all --commands 30000 --median
//! ```
//!
//! Starts the release server as a process of its own on a fresh directory, drives it from this
//! process over kept-alive connections, one request in flight on each (a closed loop), and checks
//! the status of every answer. In the same run, so that the ratio means something: the limit, a
//! bare server that does the least a service with these promises has to do (`limit.rs`).

#![allow(clippy::unwrap_used)]

mod driver;
mod facts;
mod limit;
mod server;
mod workload;

use std::collections::BTreeMap;

use carebook::catalogue::{OPERATIONS, Row};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

/// Measures durable commands a second.
#[derive(Parser)]
struct Arguments {
    /// The operations to measure, by their names, separated by commas; `all` for each of them.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        hide_possible_values = true,
        value_parser = PossibleValuesParser::new(
            OPERATIONS.iter().map(|row| row.name).chain(["all"])
        ),
        default_value = "request_deposit,acknowledge_deposit"
    )]
    workload: Vec<String>,
    /// Connections, each with one request in flight.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Commands of each workload.
    #[arg(long, default_value_t = 100_000)]
    commands: usize,
    /// Runs of each workload; the table shows each, unless it is asked for the median.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Shows of each workload only the run whose rate is the median.
    #[arg(long)]
    median: bool,
    /// Prints JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Is the limit that is measured beside the service; the bench starts this itself.
    #[arg(long, hide = true, value_name = "DIR")]
    serve_limit: Option<std::path::PathBuf>,
    /// What cargo passes to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Arguments {
    /// Whether this operation is to be measured.
    fn chosen(&self, operation: &str) -> bool {
        self.workload
            .iter()
            .any(|name| name == "all" || name == operation)
    }
}

/// What one run of one workload measured.
struct Measured {
    /// The operation; none is the limit.
    row: Option<&'static Row>,
    run: usize,
    connections: usize,
    figures: driver::Figures,
    /// Its rate as a share of the rate of `request_deposit` in the same run, or of the
    /// median rates where those are shown.
    of_ep9: Option<f64>,
}

impl Measured {
    fn name(&self) -> String {
        match self.row {
            Some(row) => format!("EP{} {}", row.tag, row.name),
            None => "the limit, as EP9".to_owned(),
        }
    }
}

fn main() {
    let arguments = Arguments::parse();
    if let Some(directory) = &arguments.serve_limit {
        return limit::serve(directory);
    }
    let mut measured = Vec::new();
    for run in 1..=arguments.runs {
        measured.append(&mut run_all(&arguments, run));
    }
    if arguments.median {
        measured = medians(measured);
        compare(&mut measured);
    }
    if arguments.json {
        print_json(&measured);
    } else {
        print_table(&measured);
    }
}

/// Runs the limit and each chosen workload once.
fn run_all(arguments: &Arguments, run: usize) -> Vec<Measured> {
    let mut measured = Vec::new();
    let mut keep = |row, connections, figures| {
        measured.push(Measured {
            row,
            run,
            connections,
            figures,
            of_ep9: None,
        });
    };
    let limit = server::Server::start_limit();
    let requests = workload::requests("request_deposit", &limit, arguments.commands, &[]);
    let figures = driver::run(&limit, arguments.connections, requests, 201);
    keep(None, arguments.connections, figures);
    drop(limit);
    for group in workload::groups() {
        let Some(last) = group.iter().rposition(|name| arguments.chosen(name)) else {
            continue;
        };
        let server = server::Server::start();
        let mut before = Vec::new();
        for name in &group[..=last] {
            let count = workload::count(name, arguments.commands);
            let connections = workload::connections(name, arguments.connections);
            let facts = facts::facts(name, count);
            if !facts.is_empty() {
                server.load(&facts);
            }
            let requests = workload::requests(name, &server, count, &before);
            if let Some((greetings, status)) = workload::greetings(name, &requests) {
                driver::run(&server, connections, greetings, status);
            }
            let mut figures = driver::run(&server, connections, requests, workload::status(name));
            before = figures.take_bodies();
            if arguments.chosen(name) {
                keep(Some(workload::row(name)), connections, figures);
            }
        }
    }
    compare(&mut measured);
    measured.sort_by_key(|one| one.row.map(|row| row.tag));
    measured
}

/// Sets each rate beside that of `request_deposit` among these.
fn compare(measured: &mut [Measured]) {
    let deposits = measured
        .iter()
        .find(|one| one.row.is_some_and(|row| row.name == "request_deposit"))
        .map(|one| one.figures.per_second());
    for one in measured {
        one.of_ep9 = deposits.map(|deposits| one.figures.per_second() / deposits);
    }
}

/// Of each workload the run whose rate is in the middle (with an even number of runs, the lower of
/// the two there).
fn medians(measured: Vec<Measured>) -> Vec<Measured> {
    let mut of_each: BTreeMap<_, Vec<Measured>> = BTreeMap::new();
    for one in measured {
        of_each
            .entry(one.row.map(|row| row.tag))
            .or_default()
            .push(one);
    }
    of_each
        .into_values()
        .map(|mut runs| {
            runs.sort_by(|a, b| a.figures.per_second().total_cmp(&b.figures.per_second()));
            runs.swap_remove((runs.len() - 1) / 2)
        })
        .collect()
}

fn print_json(measured: &[Measured]) {
    let rows: Vec<_> = measured
        .iter()
        .map(|one| {
            let figures = &one.figures;
            json!({
                "workload": one.name(),
                "run": one.run,
                "connections": one.connections,
                "commands": figures.answers(),
                "perSecond": figures.per_second(),
                "ofEp9": one.of_ep9,
                "p50Micros": figures.percentile(0.50),
                "p99Micros": figures.percentile(0.99),
                "serverUserMicros": figures.processor_per_command().0,
                "serverKernelMicros": figures.processor_per_command().1,
                "requestBodyBytes": figures.body_bytes().0,
                "answerBodyBytes": figures.body_bytes().1,
            })
        })
        .collect();
    println!("{}", json!(rows));
}

fn print_table(measured: &[Measured]) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "workload",
        "run",
        "connections",
        "commands",
        "per second",
        "of EP9",
        "p50 µs",
        "p99 µs",
        "server user µs",
        "server kernel µs",
        "request bytes",
        "answer bytes",
    ]);
    for one in measured {
        let figures = &one.figures;
        let of_ep9 = one.of_ep9.map(|share| format!("{share:.2}"));
        table.add_row([
            one.name(),
            one.run.to_string(),
            one.connections.to_string(),
            figures.answers().to_string(),
            format!("{:.0}", figures.per_second()),
            of_ep9.unwrap_or_default(),
            figures.percentile(0.50).to_string(),
            figures.percentile(0.99).to_string(),
            format!("{:.1}", figures.processor_per_command().0),
            format!("{:.1}", figures.processor_per_command().1),
            format!("{:.0}", figures.body_bytes().0),
            format!("{:.0}", figures.body_bytes().1),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
