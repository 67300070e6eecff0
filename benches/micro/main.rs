//! The pieces of a command, each by itself: how long it takes, and how many instructions.
//!
//! ```text
//! cargo bench --bench micro                  # times, and instructions where valgrind is there
//! cargo bench --bench micro -- --gate        # fails when a piece has come to take more
//! cargo bench --bench micro -- --save        # makes the present counts the ones to compare with
//! ```
//!
//! Times depend on the machine and on what else it does; instruction counts hardly do, so that
//! they can be compared with what is committed (`baseline.json`).

// Figures are approximate by nature.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

#[allow(clippy::unwrap_used)]
mod cases;
mod count;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};

use cases::{Case, cases};

/// As in the program: a count of instructions holds those of the allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures the pieces of a command.
#[derive(Parser)]
#[command(after_help = "\
Exit codes:
  0  measured, and nothing takes more than it may
  1  with --gate: something takes more, or is new, or is gone
  2  with --gate or --save: there is no valgrind, or it failed")]
struct Arguments {
    /// Only pieces whose name has this in it.
    filter: Option<String>,
    /// Compares the instruction counts with the committed ones; no times.
    #[arg(long, conflicts_with = "save")]
    gate: bool,
    /// Commits to the present instruction counts; no times.
    #[arg(long)]
    save: bool,
    /// By how much a count may be above the committed one, in percent.
    #[arg(long, default_value_t = 5.0)]
    tolerance: f64,
    /// Does one piece so many times; the bench starts this itself, under valgrind.
    #[arg(long, hide = true, value_name = "TIMES")]
    only: Option<usize>,
    /// What cargo passes to every bench.
    #[arg(long, hide = true)]
    bench: bool,
}

/// How long one piece is timed.
const TIMED: Duration = Duration::from_millis(600);
/// One stretch of it; the median of all is reported.
const STRETCH: Duration = Duration::from_millis(10);
/// Times before anything is measured.
const WARM: usize = 30;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let wanted = |case: &Case| match (&arguments.filter, arguments.only) {
        // The bench names the piece as a whole; a person may name a part.
        (Some(filter), Some(_)) => case.name == filter,
        (Some(filter), None) => case.name.contains(filter.as_str()),
        (None, _) => true,
    };
    let cases: Vec<Case> = cases().into_iter().filter(wanted).collect();
    if let Some(times) = arguments.only {
        for case in &cases {
            let mut work = (case.prepare)();
            (0..WARM).for_each(|_| work());
            count::counted(times, &mut *work);
        }
        return ExitCode::SUCCESS;
    }
    if arguments.gate || arguments.save {
        return compared(&arguments, &cases);
    }
    let counts = count::all(&cases).unwrap_or_else(|why| {
        eprintln!("no instruction counts: {why}");
        BTreeMap::new()
    });
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["piece", "ns", "least ns", "instructions"]);
    for case in &cases {
        let (median, least) = timed(case);
        let count = counts.get(case.name).map(ToString::to_string);
        table.add_row([
            case.name.to_owned(),
            format!("{median:.0}"),
            format!("{least:.0}"),
            count.unwrap_or_default(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    ExitCode::SUCCESS
}

/// Nanoseconds for one time: in the median of stretches, and in the fastest.
fn timed(case: &Case) -> (f64, f64) {
    let mut work = (case.prepare)();
    let mut done = WARM;
    let warm = Instant::now();
    (0..WARM).for_each(|_| work());
    let each = warm.elapsed().as_secs_f64() / WARM as f64;
    let times = (STRETCH.as_secs_f64() / each.max(1e-9)) as usize;
    // Where each time needs something fresh, there are only so many.
    let times = times.clamp(1, case.most / 20);
    let mut stretches = Vec::new();
    let started = Instant::now();
    while stretches.len() < 5 || started.elapsed() < TIMED {
        if done + times > case.most {
            break;
        }
        done += times;
        let stretch = Instant::now();
        (0..times).for_each(|_| work());
        stretches.push(stretch.elapsed().as_nanos() as f64 / times as f64);
    }
    stretches.sort_by(f64::total_cmp);
    (stretches[stretches.len() / 2], stretches[0])
}

fn baseline() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/benches/micro/baseline.json"
    ))
}

/// Compares the counts with the committed ones, or puts them in their place.
fn compared(arguments: &Arguments, cases: &[Case]) -> ExitCode {
    let counts = match count::all(cases) {
        Ok(counts) => counts,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    let read = std::fs::read(baseline()).ok();
    let mut committed: BTreeMap<String, u64> = read
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    if arguments.save {
        // With a filter the others stay as they are.
        if arguments.filter.is_none() {
            committed.clear();
        }
        committed.extend(counts);
        let text = serde_json::to_string_pretty(&committed).expect("numbers have a JSON form");
        if let Err(error) = std::fs::write(baseline(), text + "\n") {
            eprintln!("error: {}: {error}", baseline().display());
            return ExitCode::from(2);
        }
        println!(
            "{} counts written to {}",
            committed.len(),
            baseline().display()
        );
        return ExitCode::SUCCESS;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["piece", "committed", "now", "change", ""]);
    let mut failed = false;
    for (name, now) in &counts {
        let before = committed.get(name);
        let change = before.map(|before| 100.0 * (*now as f64 / *before as f64 - 1.0));
        let verdict = match change {
            None => "new: --save it",
            Some(change) if change > arguments.tolerance => "takes more than it may",
            Some(change) if change < -arguments.tolerance => "takes less: --save it",
            Some(_) => "",
        };
        failed |= change.is_none_or(|change| change > arguments.tolerance);
        table.add_row([
            name.clone(),
            before.map(ToString::to_string).unwrap_or_default(),
            now.to_string(),
            change
                .map(|change| format!("{change:+.1} %"))
                .unwrap_or_default(),
            verdict.to_owned(),
        ]);
    }
    if arguments.filter.is_none() {
        for (name, before) in &committed {
            if !counts.contains_key(name) {
                failed = true;
                let verdict = "gone: --save";
                table.add_row([name.as_str(), &before.to_string(), "", "", verdict]);
            }
        }
    }
    for column in table.column_iter_mut().skip(1).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
