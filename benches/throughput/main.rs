//! Speed: what the service does over HTTP, on this machine, the load generator included.
//!
//! ```text
//! cargo bench --bench throughput -- --help
//! ```
//!
//! Starts the release server as a process of its own on a fresh directory, loads facts, drives it
//! from this process over kept-alive connections, and checks every answer; a wrong one ends the
//! run. `benches/README.md` tells what there is to measure and how to read it.
//!
//! The tour: `driver` is the load generator, `check` looks at the answers, `samples` makes figures
//! of them; `server` starts the server; `commands`, `workload`, `template`, `stage`,
//! `mix` and `requests` make what is sent, for each of `kinds`; `run` puts runs side by side; a file for each scenario; `table` and
//! `html` show what came of it.

// Figures are approximate by nature: a count becomes a float, a float a rank.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod arguments;
#[path = "../../tests/support/callgrind.rs"]
mod callgrind;
mod check;
mod commands;
mod console;
mod driver;
mod events;
mod html;
mod http;
mod idle;
mod instructions;
mod journal;
mod kinds;
#[allow(clippy::unwrap_used)]
mod limit;
mod lists;
mod memory;
mod mix;
mod moved;
mod observed;
mod overload;
mod peers;
mod proc;
mod processors;
mod receivers;
mod recovery;
mod requests;
mod run;
mod samples;
mod server;
mod shapes;
mod sizes;
mod snapshot;
mod stage;
mod svg;
mod table;
mod template;
mod timer;
mod watch;
mod webhooks;
mod workload;

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use serde_json::{Value, json};

use crate::arguments::{Arguments, Common, Scenario};
use crate::kinds::{Form, Workload};
use crate::run::Subject;

/// Files beside the connections.
const OTHER_FILES: usize = 1_000;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let (Some(directory), Some(sizes)) = (&arguments.serve_limit, arguments.limit_sizes) {
        limit::serve(directory, sizes);
        return ExitCode::SUCCESS;
    }
    if let Some(manners) = &arguments.serve_receivers {
        return match receivers::serve_receivers(manners) {
            Ok(()) => ExitCode::SUCCESS,
            Err(wrong) => {
                eprintln!("error: {wrong}");
                ExitCode::FAILURE
            }
        };
    }
    if let Some(fault) = arguments.common.fault() {
        let kind = clap::error::ErrorKind::ValueValidation;
        Arguments::command().error(kind, fault).exit();
    }
    check::prove();
    match measure(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn measure(arguments: &Arguments) -> Result<(), String> {
    let common = &arguments.common;
    let idle = match &arguments.scenario {
        Some(Scenario::Idle { idle_connections }) => *idle_connections,
        Some(Scenario::Events {
            readers, stalled, ..
        }) => readers + stalled,
        _ => 0,
    };
    let connections = common.connections_most.max(common.connections).max(idle);
    proc::raise_open_files((connections + OTHER_FILES) as u64)?;
    let scratch = server::scratch(common.directory.as_deref())?;
    let mut report = json!({
        "machine": proc::circumstances(scratch.path()),
        "command": std::env::args().skip(1).filter(|one| one != "--bench").collect::<Vec<_>>(),
        "seed": common.seed,
        "settings": {
            "connections": common.connections,
            "commands": common.commands,
            "rounds": common.runs,
            "seconds": common.seconds,
            "resources": common.resources,
            "drivingThreads": common.generators,
        },
    });
    // What the latency of an open loop is held against.
    if arguments.scenario.is_none() && common.has_open_loops() {
        let disk = proc::fdatasync_micros(scratch.path()).map_err(|error| error.to_string())?;
        eprintln!(
            "one fdatasync of 4 KiB: p50 {} \u{b5}s, p99 {} \u{b5}s",
            disk.0, disk.1
        );
        report["machine"]["fdatasyncMicros"] = json!({"p50": disk.0, "p99": disk.1});
    }
    drop(scratch);
    match &arguments.scenario {
        Some(scenario) => {
            let (name, figures) = carry_out(scenario, common)?;
            if !to_standard_output(common) {
                table::print_scenario(name, &figures);
            }
            report[name] = figures;
        }
        None => side_by_side(common, &mut report)?,
    }
    write(common, &report)
}

/// A scenario's name and what came of it.
fn carry_out(scenario: &Scenario, common: &Common) -> Result<(&'static str, Value), String> {
    Ok(match scenario {
        Scenario::Overload { times } => ("overload", overload::measure(common, *times)?),
        Scenario::Idle { idle_connections } => ("idle", idle::measure(common, *idle_connections)?),
        Scenario::Events {
            commits,
            readers,
            stalled,
        } => {
            let sizes = events::Sizes {
                commits: *commits,
                readers: *readers,
                stalled: *stalled,
            };
            ("events", events::measure(common, sizes)?)
        }
        Scenario::Console {
            statements,
            consoles,
            tools,
            chromium,
            in_a_browser,
            opened_for,
        } => {
            let sizes = console::Sizes {
                statements: *statements,
                consoles: *consoles,
                tools: tools.clone(),
                chromium: chromium.clone(),
                in_a_browser: *in_a_browser,
                opened_for: *opened_for,
            };
            ("console", console::measure(common, &sizes)?)
        }
        Scenario::Lists { statements } => ("lists", lists::measure(common, *statements)?),
        Scenario::Webhooks {
            events,
            subscriptions,
            window,
        } => {
            let sizes = webhooks::Sizes {
                events: *events,
                subscriptions: *subscriptions,
                commands: *window,
            };
            ("webhooks", webhooks::measure(common, sizes)?)
        }
        Scenario::Journal => ("journal", journal::measure(common)?),
        Scenario::Observed { one_in } => ("observed", observed::measure(common, *one_in)?),
        Scenario::Processors { sequencer_micros } => (
            "processors",
            processors::measure(common, *sequencer_micros)?,
        ),
        Scenario::Instructions => ("instructions", instructions::measure(common)?),
        Scenario::Memory { statements } => ("memory", memory::measure(common, *statements)?),
        Scenario::Snapshot { statements } => ("snapshot", snapshot::measure(common, *statements)?),
        Scenario::Recovery {
            records,
            snapshot,
            data,
            keep,
        } => {
            let sizes = (*snapshot, *records);
            let figures = recovery::measure(common, sizes, data.as_deref(), keep.as_deref())?;
            ("recovery", figures)
        }
    })
}

/// The workloads and peers that were asked for.
fn side_by_side(common: &Common, report: &mut Value) -> Result<(), String> {
    let workloads = common.workloads();
    let forms: Vec<Form> = workloads.iter().filter_map(|one| Form::of(*one)).collect();
    let mut subjects: Vec<_> = workloads.into_iter().map(Subject::Ours).collect();
    let asked = |name: &str| common.peers.iter().any(|asked| asked == name);
    if asked("postgres") || asked("redis") {
        peers::build()?;
    }
    for form in forms {
        if asked("postgres") {
            subjects.push(Subject::Ours(Workload::Postgres(form)));
        }
        if asked("redis") {
            subjects.push(Subject::Redis(form));
        }
    }
    let measured = run::all(&subjects, common)?;
    report["speed"] = run::json(&measured);
    if common.workload.iter().any(|name| name == "mixed") {
        report["mix"] = mix::described();
    }
    if !to_standard_output(common) {
        table::print(&measured, common.each, common.generators);
    }
    Ok(())
}

/// Whether JSON takes the place of the table.
fn to_standard_output(common: &Common) -> bool {
    common.json.as_deref() == Some(Path::new("-"))
}

/// Writes the report where it was asked for.
fn write(common: &Common, report: &Value) -> Result<(), String> {
    if to_standard_output(common) {
        println!("{report:#}");
    } else if let Some(file) = &common.json {
        let text = format!("{report:#}\n");
        std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if let Some(file) = &common.html {
        let page = html::page(report);
        std::fs::write(file, page).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}
