//! The floors of the crate: each uses those before it and none after it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The floors, lowest first.
const FLOORS: [&str; 7] = [
    "base",
    "domain",
    "catalogue",
    "journal",
    "engine",
    "http",
    "cli",
];

/// The floors that may use the log crate.
const ON_THE_LOG: [&str; 2] = ["engine", "cli"];

/// Files of Rust under `folder`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules that exist for tests only: declared under `#[cfg(test)]` in a file of their folder.
fn for_tests_only(files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line != "#[cfg(test)]" {
                continue;
            }
            let declared = lines.by_ref().find(|line| !line.starts_with("#["));
            let name = declared
                .and_then(|line| line.strip_suffix(';'))
                .and_then(|line| line.split_once("mod "))
                .map(|(_, name)| name);
            if let Some(name) = name {
                found.insert(file.with_file_name(format!("{name}.rs")));
            }
        }
    }
    found
}

/// The code of a file without its comments and its tests, which stand at its end.
fn code(text: &str) -> String {
    let tests = text.find("#[cfg(test)]\n#[allow(clippy::unwrap_used");
    let tests = tests.or_else(|| text.find("#[cfg(test)]\nmod tests"));
    text[..tests.unwrap_or(text.len())]
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn no_floor_uses_one_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let skipped = for_tests_only(&files);
    assert!(!skipped.is_empty(), "the scenarios are for tests only");
    let mut uses = 0;
    for file in files.iter().filter(|file| !skipped.contains(*file)) {
        let inside = file.strip_prefix(&src).unwrap();
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let name = first.trim_end_matches(".rs");
        let Some(own) = FLOORS.iter().position(|floor| *floor == name) else {
            assert!(matches!(name, "lib" | "main"), "{name} is on no floor");
            continue;
        };
        let code = code(&std::fs::read_to_string(file).unwrap());
        for (height, floor) in FLOORS.iter().enumerate() {
            let is_used = code.contains(&format!("crate::{floor}::"))
                || code.contains(&format!("crate::{floor};"))
                || code.contains(&format!("crate::{floor} "));
            uses += usize::from(is_used);
            assert!(
                height <= own || !is_used,
                "{} is on the floor {name} and uses {floor}",
                inside.display()
            );
        }
        let on_the_log = code.contains("wal::");
        assert!(
            !on_the_log || ON_THE_LOG.contains(&name),
            "{} uses the log",
            inside.display()
        );
        let codec = Path::new("base/codec.rs");
        assert!(
            !code.contains("bincode::") || inside == codec,
            "{} names the codec's package",
            inside.display()
        );
    }
    assert!(uses > 50, "{uses} uses found");
}
