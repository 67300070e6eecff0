//! The tables on the terminal.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

use crate::run::{Measured, Summary, summaries};
use crate::samples::Figures;

const COLUMNS: [&str; 18] = [
    "workload",
    "load",
    "rounds",
    "per second",
    "least–most",
    "ratio",
    "p50 µs",
    "p99 µs",
    "p99.9 µs",
    "max µs",
    "shed",
    "server user µs",
    "server system µs",
    "server CPUs",
    "driver CPUs",
    "MB/s written",
    "syncs/s",
    "lag p99 µs",
];

/// The medians, or each round.
pub(crate) fn print(measured: &[Measured], each: bool, driving_threads: usize) {
    let mut table = plain();
    table.set_header(COLUMNS);
    if each {
        for one in measured {
            let least_most = String::new();
            table.add_row(cells(one, (one.round + 1).to_string(), least_most, None));
        }
    } else {
        for Summary {
            median,
            rounds,
            range,
            ratio,
        } in summaries(measured)
        {
            let range = format!("{:.0}–{:.0}", range.0, range.1);
            table.add_row(cells(median, rounds.to_string(), range, ratio));
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    for one in measured {
        for doubt in doubts(&one.figures, driving_threads) {
            eprintln!(
                "{} ({}, round {}): {doubt}",
                one.name,
                one.load,
                one.round + 1
            );
        }
    }
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn cells(one: &Measured, rounds: String, range: String, ratio: Option<f64>) -> Vec<String> {
    let figures = &one.figures;
    let seconds = figures.elapsed.as_secs_f64();
    let (user, system) = figures.server_micros();
    let server = (figures.server.user + figures.server.kernel) as f64 / 1e6 / seconds;
    let micros = |quantile| {
        let micros = figures.quantile(quantile);
        micros.map(|micros| micros.to_string()).unwrap_or_default()
    };
    vec![
        one.name.clone(),
        one.load.clone(),
        rounds,
        format!("{:.0}", figures.per_second()),
        range,
        ratio.map(|share| format!("{share:.2}")).unwrap_or_default(),
        micros(0.50),
        micros(0.99),
        micros(0.999),
        micros(1.0),
        format!("{:.1} %", 100.0 * figures.shed_share()),
        format!("{user:.1}"),
        format!("{system:.1}"),
        format!("{server:.2}"),
        format!("{:.2}", figures.driver_share()),
        figures
            .written
            .map(|bytes| format!("{:.1}", bytes as f64 / 1e6 / seconds))
            .unwrap_or_default(),
        figures
            .syncs
            .map(|syncs| format!("{:.0}", syncs as f64 / seconds))
            .unwrap_or_default(),
        figures.lag().to_string(),
    ]
}

/// Why a figure may say more of the generator than of the server.
fn doubts(figures: &Figures, driving_threads: usize) -> Vec<String> {
    const LAG_MAX: u32 = 1_000;
    const BUSY: f64 = 0.9;
    let mut doubts = Vec::new();
    if figures.lag() > LAG_MAX {
        doubts.push(format!(
            "the generator was late itself, by {} µs at p99: latencies hold that too",
            figures.lag()
        ));
    }
    if figures.driver_share() > BUSY * driving_threads as f64 {
        doubts.push("the generator had no time left: give it more --generators".to_owned());
    }
    if figures.unsent > 0 {
        doubts.push(format!(
            "{} requests found no connection and were given up",
            figures.unsent
        ));
    }
    doubts
}

/// A scenario's figures, a line each, with the words that their names are made of. Series and whole
/// runs are left to the files.
pub(crate) fn print_scenario(name: &str, figures: &Value) {
    let median = match &figures["median"] {
        Value::Null => figures,
        median => median,
    };
    let mut table = plain();
    add_rows(&mut table, "", median);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{name}\n{table}");
}

/// A row for each figure; those of a group have its name in front.
fn add_rows(table: &mut Table, group: &str, figures: &Value) {
    for (name, value) in figures.as_object().into_iter().flatten() {
        let name = format!("{group}{}", words(name));
        match value {
            Value::Number(number) => {
                table.add_row([name, shown(number.as_f64().unwrap_or_default())]);
            }
            Value::String(text) => {
                table.add_row([name, text.clone()]);
            }
            group => add_rows(table, &format!("{name}, "), group),
        }
    }
}

/// As many digits as mean something.
fn shown(number: f64) -> String {
    match number.abs() {
        whole if whole >= 1_000.0 || number.fract() == 0.0 => format!("{number:.0}"),
        few if few >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.3}"),
    }
}

/// `timeToNormal` as `time to normal`; what is words already stays as it is.
pub(crate) fn words(name: &str) -> String {
    if name.contains(' ') {
        return name.to_owned();
    }
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}
