//! One page with plots and tables, which needs nothing but itself.

use std::fmt::Write as _;

use serde_json::Value;

use crate::svg::{COLOURS, Line, Plot, Scale, escaped, mebibytes, number, time};
use crate::table::words;

const STYLE: &str = include_str!("page.css");
/// Quantiles of the latency plot, each with its place: equal steps for each further nine.
const QUANTILES: [(&str, f64, &str); 7] = [
    ("p10", 0.046, "10 %"),
    ("p50", 0.301, "50 %"),
    ("p75", 0.602, "75 %"),
    ("p90", 1.0, "90 %"),
    ("p99", 2.0, "99 %"),
    ("p999", 3.0, "99.9 %"),
    ("p9999", 4.0, "99.99 %"),
];

/// The page of a report.
pub(crate) fn page(report: &Value) -> String {
    let mut body = heading(report);
    if let Some(medians) = report["speed"]["medians"].as_array() {
        body += &speed(medians);
    }
    if let Some(mix) = report["mix"].as_array() {
        body += &mixture(mix);
    }
    for (name, title) in [
        ("overload", "Overload"),
        ("snapshot", "A snapshot meanwhile"),
        ("memory", "Memory"),
        ("idle", "Idle connections"),
        ("recovery", "Recovery"),
    ] {
        let figures = &report[name];
        if figures.is_object() {
            let median = if figures["median"].is_object() {
                &figures["median"]
            } else {
                figures
            };
            let _ = write!(body, "<section><h2>{title}</h2>");
            body += &scenario_plots(name, median);
            body += "<dl class=\"figures\">";
            facts(&mut body, "", median);
            body += "</dl></section>\n";
        }
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>carebook: measured</title><style>{STYLE}</style></head>\n<body><main>\n{body}\
         </main></body></html>\n"
    )
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(value) => number(value.as_f64().unwrap_or_default()),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::Null => "unknown".to_owned(),
        other => other.to_string(),
    }
}

fn heading(report: &Value) -> String {
    let machine = &report["machine"];
    let dirty = if machine["dirty"] == true {
        ", changed since"
    } else {
        ""
    };
    let memory = mebibytes(machine["memoryBytes"].as_f64().unwrap_or_default());
    let settings = report["settings"].as_object().into_iter().flatten();
    let settings: Vec<_> = settings
        .map(|(name, value)| format!("{} {}", words(name), text(value)))
        .collect();
    let rows = [
        (
            "Processor",
            format!(
                "{}, {} cores",
                text(&machine["processor"]),
                machine["cores"]
            ),
        ),
        ("Memory", memory),
        ("Kernel", text(&machine["kernel"])),
        ("File system", text(&machine["fileSystem"])),
        ("Load before", text(&machine["loadAverageAtStart"])),
        (
            "Version",
            format!(
                "{}, commit {}{dirty}",
                text(&machine["version"]),
                text(&machine["commit"])
            ),
        ),
        ("Seed", text(&report["seed"])),
        ("Settings", settings.join(", ")),
        ("Asked for", text(&report["command"])),
    ];
    let rows = rows
        .iter()
        .map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>", escaped(value)));
    format!(
        "<header><h1>carebook, measured</h1><p>The load generator ran on the same machine as the \
         server and is part of what is measured. Every answer was checked.</p>\
         <dl class=\"facts\">{}</dl></header>\n",
        rows.collect::<String>()
    )
}

/// The columns of the table of speeds.
const SPEED_HEADS: [&str; 13] = [
    "",
    "per second",
    "least–most",
    "ratio",
    "p50",
    "p99",
    "p99.9",
    "max",
    "shed",
    "server, user + system",
    "CPUs server / driver",
    "MB/s",
    "syncs/s",
];

/// The table of the medians, and the plots.
fn speed(medians: &[Value]) -> String {
    let highest = medians
        .iter()
        .filter_map(|row| row["perSecond"].as_f64())
        .fold(1.0, f64::max);
    let mut rows = String::new();
    for row in medians {
        let of = |name: &str| row[name].as_f64();
        let micros = |name: &str| row["micros"][name].as_f64().map(time).unwrap_or_default();
        let rate = of("perSecond").unwrap_or_default();
        let ratio = of("ratio")
            .map(|share| format!("{share:.2}"))
            .unwrap_or_default();
        let shed = of("shed").unwrap_or_default();
        let all = shed + of("good").unwrap_or_default();
        let cells = [
            number(rate.round()),
            format!(
                "{}–{}",
                number(of("perSecondLeast").unwrap_or_default().round()),
                number(of("perSecondMost").unwrap_or_default().round())
            ),
            ratio,
            micros("p50"),
            micros("p99"),
            micros("p999"),
            micros("max"),
            format!("{:.1} %", 100.0 * shed / all.max(1.0)),
            format!(
                "{:.1} + {:.1} µs",
                of("serverUserMicros").unwrap_or_default(),
                of("serverSystemMicros").unwrap_or_default()
            ),
            format!(
                "{:.2} / {:.2}",
                row["server"]["processors"].as_f64().unwrap_or_default(),
                row["driver"]["processors"].as_f64().unwrap_or_default()
            ),
            format!(
                "{:.1}",
                of("writtenBytesPerSecond").unwrap_or_default() / 1e6
            ),
            of("syncsPerSecond")
                .map(|syncs| number(syncs.round()))
                .unwrap_or_default(),
        ];
        let cells = cells.map(|cell| format!("<td>{cell}</td>")).concat();
        let _ = write!(
            rows,
            "<tr><th scope=\"row\">{}<small>{}</small><i class=\"bar\" style=\"width:{:.1}%\"></i>\
             </th>{cells}</tr>",
            escaped(&text(&row["subject"])),
            escaped(&text(&row["load"])),
            100.0 * rate / highest
        );
    }
    let heads = SPEED_HEADS
        .map(|head| format!("<th scope=\"col\">{head}</th>"))
        .concat();
    format!(
        "<section><h2>Speed</h2><div class=\"scroll\"><table><thead><tr>{heads}</tr></thead>\
         <tbody>{rows}</tbody></table></div>\n<div class=\"plots\">{}{}{}</div></section>\n",
        over_time(medians),
        latencies(medians),
        sweep(medians)
    )
}

fn name_of(row: &Value, medians: &[Value]) -> String {
    let loads = medians
        .iter()
        .any(|other| other["load"] != medians[0]["load"]);
    let subject = text(&row["subject"]);
    if loads {
        format!("{subject}, {}", text(&row["load"]))
    } else {
        subject
    }
}

fn points(rows: &Value, x: &str, y: &str) -> Vec<(f64, f64)> {
    let rows = rows.as_array().into_iter().flatten();
    rows.filter_map(|row| Some((row[x].as_f64()?, row[y].as_f64()?)))
        .collect()
}

/// The rows with the closed loops first: where there are more than can be shown, these are.
fn closed_first(medians: &[Value]) -> impl Iterator<Item = &Value> {
    let of = |mode: &'static str| medians.iter().filter(move |row| row["mode"] == mode);
    of("closed").chain(of("open"))
}

/// A line for each of the first rows: more than there are colours cannot be distinguished.
fn lines<'a>(
    rows: impl Iterator<Item = &'a Value>,
    medians: &[Value],
    of: impl Fn(&Value) -> Vec<(f64, f64)>,
    marked: bool,
) -> Vec<Line> {
    rows.take(COLOURS)
        .enumerate()
        .map(|(colour, row)| Line {
            name: name_of(row, medians),
            points: of(row),
            colour,
            dashed: row["mode"] == "open",
            marked,
        })
        .collect()
}

fn over_time(medians: &[Value]) -> String {
    let of = |row: &Value| points(&row["series"], "at", "perSecond");
    let rows =
        closed_first(medians).filter(|row| row["series"].as_array().is_some_and(|s| s.len() > 2));
    Plot {
        title: "Throughput over time".to_owned(),
        note: "Good answers a second, in each part of the run in the middle.".to_owned(),
        x: "seconds".to_owned(),
        y: "answers a second".to_owned(),
        scale: Scale::Linear,
        marks: Vec::new(),
        shown: number,
        lines: lines(rows, medians, of, false),
    }
    .figure()
}

fn latencies(medians: &[Value]) -> String {
    let of = |row: &Value| {
        let places = QUANTILES.iter();
        let points = places.filter_map(|(name, x, _)| Some((*x, row["micros"][*name].as_f64()?)));
        points.collect()
    };
    Plot {
        title: "Latency".to_owned(),
        note: "In an open loop (dashed) it counts from when the request was due.".to_owned(),
        x: "share of the answers that were no slower".to_owned(),
        y: "latency".to_owned(),
        scale: Scale::Logarithmic,
        marks: QUANTILES
            .iter()
            .map(|(_, x, shown)| (*x, (*shown).to_owned()))
            .collect(),
        shown: time,
        lines: lines(closed_first(medians), medians, of, true),
    }
    .figure()
}

/// Latency against rate, for subjects that were measured at two rates or more.
fn sweep(medians: &[Value]) -> String {
    let mut subjects: Vec<&Value> = Vec::new();
    for row in medians {
        if !subjects.contains(&&row["subject"]) {
            subjects.push(&row["subject"]);
        }
    }
    let mut lines = Vec::new();
    for (colour, subject) in subjects.into_iter().enumerate().take(COLOURS) {
        let open = || {
            let rows = medians.iter();
            rows.filter(|row| row["subject"] == *subject && row["mode"] == "open")
        };
        if open().count() < 2 {
            continue;
        }
        for (quantile, dashed) in [("p99", false), ("p50", true)] {
            let point = |row: &Value| {
                Some((
                    row["askedPerSecond"].as_f64()?,
                    row["micros"][quantile].as_f64()?,
                ))
            };
            lines.push(Line {
                name: format!("{}, {quantile}", text(subject)),
                points: open().filter_map(point).collect(),
                colour,
                dashed,
                marked: true,
            });
        }
    }
    Plot {
        title: "Latency against rate".to_owned(),
        note: "Open loops at shares of what the closed loop reached.".to_owned(),
        x: "requests a second asked for".to_owned(),
        y: "latency".to_owned(),
        scale: Scale::Logarithmic,
        marks: Vec::new(),
        shown: time,
        lines,
    }
    .figure()
}

fn line(name: &str, points: Vec<(f64, f64)>, colour: usize, dashed: bool) -> Line {
    Line {
        name: name.to_owned(),
        points,
        colour,
        dashed,
        marked: false,
    }
}

fn scenario_plots(name: &str, figures: &Value) -> String {
    let seconds = || "seconds".to_owned();
    let plot = |title: &str, note: &str, y: &str, shown, lines| Plot {
        title: title.to_owned(),
        note: note.to_owned(),
        x: seconds(),
        y: y.to_owned(),
        scale: Scale::Linear,
        marks: Vec::new(),
        shown,
        lines,
    };
    let plots = match name {
        "overload" => {
            let series = &figures["during"]["series"];
            let memory = figures["memory"].as_array().into_iter().flatten();
            let memory = memory.filter_map(|one| Some((one[0].as_f64()?, one[1].as_f64()?)));
            vec![
                plot(
                    "What gets through, and what is told to come again",
                    "While many times the capacity is offered.",
                    "answers a second",
                    number,
                    vec![
                        line("good", points(series, "at", "perSecond"), 0, false),
                        line("429", points(series, "at", "shedPerSecond"), 1, true),
                    ],
                ),
                plot(
                    "Memory of the server meanwhile",
                    "It holds what was accepted, too.",
                    "resident",
                    mebibytes,
                    vec![line("resident", memory.collect(), 0, false)],
                ),
            ]
        }
        "snapshot" => {
            let round = &figures["rounds"][0];
            vec![plot(
                "99th percentile of the latency",
                "With a snapshot on its way, and without one, at the same rate.",
                "latency",
                time,
                vec![
                    line(
                        "without",
                        points(&round["withoutSeries"], "at", "p99Micros"),
                        0,
                        true,
                    ),
                    line(
                        "with",
                        points(&round["withSeries"], "at", "p99Micros"),
                        1,
                        false,
                    ),
                ],
            )]
        }
        _ => Vec::new(),
    };
    let plots: String = plots.iter().map(Plot::figure).collect();
    format!("<div class=\"plots\">{plots}</div>")
}

/// The figures of a scenario; what runs are made of is left to the JSON.
fn facts(page: &mut String, prefix: &str, figures: &Value) {
    for (name, value) in figures.as_object().into_iter().flatten() {
        let words = format!("{prefix}{}", words(name));
        match value {
            Value::Number(figure) => {
                let figure = figure.as_f64().unwrap_or_default();
                let shown = if name.contains("Micros") {
                    time(figure)
                } else if name.starts_with("resident") && !name.contains("Per") && figure > 1e6 {
                    mebibytes(figure)
                } else {
                    number(figure)
                };
                let _ = write!(page, "<div><dt>{words}</dt><dd>{shown}</dd></div>");
            }
            Value::String(text) => {
                let text = escaped(text);
                let _ = write!(page, "<div><dt>{words}</dt><dd>{text}</dd></div>");
            }
            _ => {}
        }
    }
}

fn mixture(mix: &[Value]) -> String {
    let rows = mix.iter().map(|row| {
        format!(
            "<tr><th scope=\"row\">{}</th><td>{:.1} %</td><td class=\"words\">{}</td></tr>",
            escaped(&text(&row["what"])),
            row["perMille"].as_f64().unwrap_or_default() / 10.0,
            escaped(&text(&row["why"]))
        )
    });
    format!(
        "<section><h2>The mixed day</h2><div class=\"scroll\"><table class=\"narrow\"><tbody>{}\
         </tbody></table></div></section>\n",
        rows.collect::<String>()
    )
}
