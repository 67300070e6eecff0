//! The dashboard and the alerts speak of figures that there are, and each alert fires.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use carebook::http::figures_page::described;
use serde_json::Value;

use crate::metrics::with_every_metric;
use crate::support::{Client, World, or_skip, program};

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(file)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(packaging(file)).unwrap()
}

/// What the page of figures has: each name with the labels that its series have there.
fn figures() -> BTreeMap<String, BTreeSet<String>> {
    let world = World::new();
    let server = with_every_metric(&world);
    let mut client = Client::connect(server.internal.as_ref().unwrap());
    let page = client.request("GET", "/metrics", &[], b"");
    let mut figures: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in page.text().lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').unwrap();
            let parts: &[&str] = match kind {
                "histogram" => &["_bucket", "_sum", "_count"],
                "summary" => &["_sum", "_count"],
                _ => &[""],
            };
            for part in parts {
                figures.entry(format!("{name}{part}")).or_default();
            }
        } else if let Some((name, labels)) = line.split_once('{') {
            let known = figures.get_mut(name).unwrap_or_else(|| panic!("{line}"));
            let (labels, _) = labels.rsplit_once('}').unwrap();
            let names = labels
                .split("\",")
                .filter_map(|label| label.split_once('='));
            known.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
    assert_eq!(server.stop(), Some(0));
    // Those of a journal are compared with a server that has one, in `cluster::written`.
    for metric in described() {
        if metric.name.starts_with("carebook_journal_") {
            figures.entry(metric.name).or_default();
        }
    }
    figures
}

/// An expression's names of figures, each with the labels that it asks them for.
fn names_in(expression: &str) -> Vec<(String, Vec<String>)> {
    const WORDS: [&str; 10] = [
        "by", "without", "and", "or", "unless", "on", "ignoring", "offset", "bool", "le",
    ];
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut rest = expression;
    let mut is_grouping = false;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        match first {
            '{' => {
                let (labels, after) = rest[1..].split_once('}').unwrap();
                let labels = labels.split(',').filter(|label| !label.trim().is_empty());
                let names = labels.map(|label| {
                    let end = label.trim().find(['=', '!']).unwrap();
                    label.trim()[..end].to_owned()
                });
                let last = found.last_mut().unwrap_or_else(|| panic!("{expression}"));
                last.1 = names.collect();
                rest = after;
            }
            '[' => rest = rest.split_once(']').unwrap().1,
            '(' if is_grouping => {
                is_grouping = false;
                rest = rest.split_once(')').unwrap().1;
            }
            _ if word.is_empty() => rest = &rest[first.len_utf8()..],
            _ if first.is_ascii_digit() => rest = after,
            _ if WORDS.contains(&word) => {
                is_grouping = matches!(word, "by" | "without" | "on" | "ignoring");
                rest = after;
            }
            // A function, or an aggregation with its grouping in front.
            _ if after.trim_start().starts_with('(') || after.starts_with(" by ") => rest = after,
            _ => {
                found.push((word.to_owned(), Vec::new()));
                rest = after;
            }
        }
    }
    found
}

/// Labels that Prometheus adds itself.
const ADDED: [&str; 2] = ["job", "instance"];

#[track_caller]
fn expect_figures(figures: &BTreeMap<String, BTreeSet<String>>, expression: &str) {
    let names = names_in(expression);
    assert!(!names.is_empty(), "{expression}");
    for (name, labels) in names {
        if name == "up" {
            continue;
        }
        let known = figures.get(&name);
        let known = known.unwrap_or_else(|| panic!("no figure {name}: {expression}"));
        for label in labels {
            assert!(
                ADDED.contains(&label.as_str()) || known.contains(&label),
                "{name} has no label {label}: {expression}"
            );
        }
    }
}

#[test]
fn names_are_found_in_expressions() {
    let name = |name: &str, labels: &[&str]| {
        let labels = labels.iter().map(|label| (*label).to_owned());
        (name.to_owned(), labels.collect::<Vec<_>>())
    };
    assert_eq!(
        names_in(
            "sum by (job, le) (rate(a_total{status=\"5xx\", le!=\"1\"}[5m])) > 0.01 * b and c"
        ),
        [
            name("a_total", &["status", "le"]),
            name("b", &[]),
            name("c", &[])
        ]
    );
    assert_eq!(
        names_in("time() - topk(10, x{y=~\"$z\"}) > 4 * 3600"),
        [name("x", &["y"])]
    );
}

#[test]
fn alerts_and_dashboard_ask_for_figures_that_a_server_has() {
    let figures = figures();
    let rules = text("prometheus/carebook.rules.yml");
    let expressions = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "));
    let expressions: Vec<_> = expressions
        .map(|quoted| quoted.trim_matches('\'').replace("''", "'"))
        .collect();
    assert_eq!(expressions.len(), rules.matches("- alert: ").count());
    assert!(expressions.len() > 15);
    for expression in &expressions {
        expect_figures(&figures, expression);
    }
    let dashboard: Value = serde_json::from_str(&text("grafana/carebook.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut places = BTreeSet::new();
    let mut asked = 0;
    for (number, panel) in (1..).zip(panels) {
        assert_eq!(panel["id"], number, "{panel}");
        assert!(!panel["title"].as_str().unwrap().is_empty());
        let place = &panel["gridPos"];
        assert!(
            places.insert((place["x"].as_u64(), place["y"].as_u64())),
            "{panel}"
        );
        for target in panel["targets"].as_array().into_iter().flatten() {
            expect_figures(&figures, target["expr"].as_str().unwrap());
            asked += 1;
        }
    }
    assert!(asked > 30, "{asked}");
}

#[test]
fn each_alert_fires_when_it_should_and_not_otherwise() {
    let rules = text("prometheus/carebook.rules.yml");
    let tests = text("prometheus/carebook.test.yml");
    for alert in rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
    {
        let tried: Vec<_> = tests
            .split(&format!("alertname: {alert}\n"))
            .skip(1)
            .collect();
        let fires = |tried: &&&str| tried.trim_start().starts_with("exp_alerts:\n");
        assert!(tried.len() >= 2, "{alert}");
        assert_eq!(tried.iter().filter(fires).count(), 1, "{alert}");
    }
    let Some(promtool) = or_skip(program("promtool"), "promtool") else {
        return;
    };
    for (what, file) in [
        ("check", "carebook.rules.yml"),
        ("test", "carebook.test.yml"),
    ] {
        let judged = Command::new(&promtool)
            .args([what, "rules", file])
            .current_dir(packaging("prometheus"))
            .output()
            .unwrap();
        assert!(judged.status.success(), "{judged:?}");
    }
    // An alert that never fires is found: by its own tests, which all is well with otherwise.
    let (begin, each) = tests.split_once("  - interval: ").unwrap();
    let own: Vec<_> = each
        .split("  - interval: ")
        .filter(|test| test.contains("alertname: CarebookHasNoRoom\n"))
        .collect();
    assert_eq!(own.len(), 2);
    let own = format!("{begin}  - interval: {}", own.join("  - interval: "));
    let never = rules.replace("carebook_log_has_room == 0", "carebook_log_has_room == 7");
    assert_ne!(never, rules);
    let world = World::new();
    std::fs::write(world.path("carebook.test.yml"), own).unwrap();
    for (rules, passes) in [(&rules, true), (&never, false)] {
        std::fs::write(world.path("carebook.rules.yml"), rules).unwrap();
        let judged = Command::new(&promtool)
            .args(["test", "rules", "carebook.test.yml"])
            .current_dir(world.path("."))
            .output()
            .unwrap();
        assert_eq!(judged.status.success(), passes, "{judged:?}");
    }
}
