//! First figures of speed: durable commands a second over HTTP, on this machine, the load
//! generator included.
//!
//! ```text
//! cargo bench --bench throughput -- --help
//! cargo bench --bench throughput -- --connections 64 --commands 200000
//! ```
//!
//! Starts the release server as a process of its own on a fresh directory, drives it from this
//! process over kept-alive connections, one request in flight on each (a closed loop), and checks
//! the status of every answer. In the same run, so that the ratio means something: the limit, a
//! bare server that does the least a service with these promises has to do (`limit.rs`).

#![allow(clippy::unwrap_used)]

mod driver;
mod limit;
mod server;
mod workload;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

/// Measures durable commands a second.
#[derive(Parser)]
struct Arguments {
    /// Connections, each with one request in flight.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Commands of each workload.
    #[arg(long, default_value_t = 100_000)]
    commands: usize,
    /// Runs of each workload; the table shows each.
    #[arg(long, default_value_t = 3)]
    runs: usize,
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

fn main() {
    let arguments = Arguments::parse();
    if let Some(directory) = &arguments.serve_limit {
        return limit::serve(directory);
    }
    let mut rows = Vec::new();
    for run in 1..=arguments.runs {
        let limit = server::Server::start_limit();
        let requests = workload::request_deposits(&limit, arguments.commands);
        let figures = driver::run(limit.address(), arguments.connections, requests, 201);
        rows.push(("the limit, as EP9", run, figures));
        drop(limit);
        let server = server::Server::start();
        let requests = workload::request_deposits(&server, arguments.commands);
        let opened = driver::run(server.address(), arguments.connections, requests, 201);
        rows.push(("EP9 request_deposit", run, opened.clone()));
        let requests = workload::acknowledge_deposits(&server, &opened.bodies);
        let acknowledged = driver::run(server.address(), arguments.connections, requests, 200);
        rows.push(("EP8 acknowledge_deposit", run, acknowledged));
    }
    if arguments.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, run, figures)| {
                json!({
                    "workload": name,
                    "run": run,
                    "connections": arguments.connections,
                    "commands": figures.answers(),
                    "perSecond": figures.per_second(),
                    "p50Micros": figures.percentile(0.50),
                    "p99Micros": figures.percentile(0.99),
                })
            })
            .collect();
        println!("{}", json!(rows));
        return;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "workload",
        "run",
        "connections",
        "commands",
        "per second",
        "p50 µs",
        "p99 µs",
    ]);
    for (name, run, figures) in &rows {
        table.add_row([
            (*name).to_owned(),
            run.to_string(),
            arguments.connections.to_string(),
            figures.answers().to_string(),
            format!("{:.0}", figures.per_second()),
            figures.percentile(0.50).to_string(),
            figures.percentile(0.99).to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
}
