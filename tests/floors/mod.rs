//! The floors of the program: what depends on what, read from its source.

mod circles;
mod source;

use std::path::{Path, PathBuf};

use carebook::catalogue::{MANAGEMENT, OPERATIONS};

use crate::support::files;
use source::Source;

/// From the lowest to the highest; each may name those below it.
const FLOORS: [&str; 8] = [
    "base",
    "domain",
    "catalogue",
    "journal",
    "engine",
    "stream",
    "http",
    "cli",
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every file of the program: its path below `src`, and its code without comments and tests.
fn code() -> Vec<(String, String)> {
    let source = source();
    let is_rust = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "rs");
    files(&source)
        .into_iter()
        .filter(is_rust)
        .map(|path| {
            let name = path.strip_prefix(&source).unwrap().to_str().unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            (name.to_owned(), without_tests(&text))
        })
        .filter(|(name, _)| !is_test_module(name))
        .collect()
}

/// Files that are compiled for tests alone.
fn is_test_module(name: &str) -> bool {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let module = file.strip_suffix(".rs").unwrap();
    let parent = match folder {
        "" => source().join("lib.rs"),
        folder => source().join(folder).join("mod.rs"),
    };
    let parent = std::fs::read_to_string(parent).unwrap_or_default();
    let lines: Vec<_> = parent.lines().map(str::trim).collect();
    let declared = lines
        .iter()
        .position(|line| line.ends_with(&format!("mod {module};")));
    declared.is_some_and(|line| {
        let attributes = lines[..line].iter().rev();
        let mut attributes = attributes.take_while(|line| line.starts_with("#["));
        attributes.any(|attribute| attribute.contains("cfg(test)"))
    })
}

/// The code up to its tests, which are at the end, without comments.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            let item = lines.by_ref().find(|line| !line.starts_with("#["));
            if item.is_some_and(|item| item.starts_with("mod tests")) {
                break;
            }
            continue;
        }
        let line = line.split("//").next().unwrap_or_default();
        code.push_str(line);
        code.push('\n');
    }
    code
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| *floor == name)
}

/// The floors that the code names as `crate::…`, also in a list `crate::{…}`.
fn named(code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for after in code.split("crate::").skip(1) {
        let word = |text: &str| -> String {
            let is_word = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '_';
            text.trim_start().chars().take_while(is_word).collect()
        };
        match after.strip_prefix('{') {
            None => found.extend(floor(&word(after))),
            Some(list) => {
                let mut depth = 0;
                let mut item = String::new();
                for letter in list.chars() {
                    match letter {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => found.extend(floor(&word(&std::mem::take(&mut item)))),
                        _ => {}
                    }
                    if letter != ',' || depth > 0 {
                        item.push(letter);
                    }
                }
                found.extend(floor(&word(&item)));
            }
        }
    }
    found
}

#[test]
fn no_floor_stands_on_one_above_it() {
    let mut arrows = 0;
    let mut seen = [false; FLOORS.len()];
    for (name, code) in code() {
        let first = name.split(['/', '.']).next().unwrap();
        let Some(own) = floor(first) else {
            assert!(
                matches!(name.as_str(), "lib.rs" | "main.rs"),
                "{name} is on no floor"
            );
            continue;
        };
        seen[own] = true;
        for other in named(&code) {
            arrows += 1;
            assert!(
                other <= own,
                "{name} names {}, which is above it",
                FLOORS[other]
            );
        }
    }
    assert_eq!(seen, [true; FLOORS.len()]);
    assert!(arrows > 100, "{arrows} arrows: the source is read wrongly");
}

#[test]
fn the_arrows_of_a_list_are_all_read() {
    let base_and_http = vec![0, 6];
    assert_eq!(
        named("use crate::{base::{json, text}, json_object, http};"),
        base_and_http
    );
    assert_eq!(named("crate::base::x crate::http::y"), base_and_http);
    assert!(named("use crate::{json_object, rejections};").is_empty());
}

/// The files whose code has one of the words.
fn naming(words: &[&str]) -> Vec<String> {
    let has = |code: &str| words.iter().any(|word| code.contains(word));
    let code = code().into_iter();
    code.filter(|(_, code)| has(code))
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn one_file_knows_how_values_become_bytes_in_the_log() {
    assert_eq!(naming(&["bincode"]), ["base/codec.rs"]);
}

#[test]
fn the_clock_is_read_by_the_engine_and_the_command_line() {
    let readers = naming(&["SystemTime::now", "Utc::now", "Local::now", "UNIX_EPOCH"]);
    assert!(
        readers.contains(&"engine/clock.rs".to_owned()),
        "{readers:?}"
    );
    for name in readers {
        assert!(
            name == "engine/clock.rs" || name.starts_with("cli/"),
            "{name}"
        );
    }
    // Stopwatches measure patience, and decide nothing: they stay out of the lower floors.
    for name in naming(&["Instant::now("]) {
        let own = floor(name.split('/').next().unwrap()).unwrap();
        assert!(own >= floor("engine").unwrap(), "{name}");
    }
}

#[test]
fn only_the_front_speaks_http_and_only_the_command_line_prints() {
    for name in naming(&["hyper::", "StatusCode", "http_body"]) {
        assert!(
            name.starts_with("http/") || name.starts_with("cli/"),
            "{name}"
        );
    }
    for name in naming(&["println!", "print!(", "std::process::exit"]) {
        assert!(name.starts_with("cli/"), "{name}");
    }
    for name in naming(&[
        "std::fs",
        "tokio::fs",
        "TcpStream",
        "TcpListener",
        "std::env",
    ]) {
        assert!(
            name.starts_with("http/") || name.starts_with("cli/"),
            "{name}"
        );
    }
}

#[test]
fn only_the_engine_what_stands_on_it_and_the_command_line_use_the_log() {
    let users = naming(&["wal::"]);
    assert!(!users.is_empty());
    for name in users {
        assert!(
            ["engine/", "stream/", "cli/"]
                .iter()
                .any(|floor| name.starts_with(floor)),
            "{name}"
        );
    }
}

/// The crates of the repository, by the files at their roots.
fn sources() -> Vec<(String, Source)> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let roots = [
        "src/lib.rs",
        "benches/throughput/main.rs",
        "benches/micro/main.rs",
        "benches/sequencer.rs",
        "benches/peers/src/main.rs",
        "tests/main.rs",
        "wal/src/lib.rs",
        "wal/tests/main.rs",
    ]
    .map(|name| home.join(name));
    let name = |root: &PathBuf| root.strip_prefix(home).unwrap().display().to_string();
    let read = |root: PathBuf| (name(&root), source::read(&root));
    roots.into_iter().map(read).collect()
}

#[test]
fn no_files_and_no_folders_use_each_other_in_a_circle() {
    let mut found = Vec::new();
    for (root, source) in sources() {
        for circle in circles::circles(&source) {
            found.push(format!("{root}: {circle}"));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The most lines that a file has without its tests, and a function.
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 80;

#[test]
fn files_and_functions_outside_tests_are_short() {
    let mut long = Vec::new();
    for (root, source) in sources() {
        if root.contains("tests/") {
            continue;
        }
        for file in &source.files {
            if file.lines > FILE_LINES_MAX {
                long.push((format!("{root}: {}", file.name), file.lines));
            }
            let functions = file.functions.iter();
            for (name, lines) in functions.filter(|(_, lines)| *lines > FUNCTION_LINES_MAX) {
                long.push((format!("{root}: {} {name}", file.name), *lines));
            }
        }
    }
    assert!(long.is_empty(), "{long:?}");
}

/// Whether a file has this line.
fn has_line(file: &Path, line: &str) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().any(|own| own.trim() == line)
}

/// The name of the type for an operation's name: `CreateBranch` for `create_branch`.
fn type_of(operation: &str) -> String {
    let capitalized = |word: &str| word[..1].to_uppercase() + &word[1..];
    operation.split('_').map(capitalized).collect()
}

/// Whether the row of this name in the text of the catalogue is of this type.
fn has_row(catalogue: &str, name: &str, of: &str) -> bool {
    let row = catalogue.split_once(&format!("\"{name}\","));
    let operation = row.and_then(|(_, row)| row.lines().find(|line| line.trim().starts_with('&')));
    operation.is_some_and(|line| {
        line.trim_matches([' ', '&', ','])
            .replace("Erased::<", "")
            .replace(">::NEW", "")
            == of
    })
}

#[test]
fn an_operation_has_a_row_and_a_file_of_tests_of_its_name() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let catalogue = std::fs::read_to_string(home.join("src/catalogue.rs")).unwrap();
    let (mut found, mut managing, mut wanting) = (0, 0, Vec::new());
    for (name, code) in code() {
        let module = name.trim_end_matches(".rs").replace('/', "::");
        // What is in no group's folder is what operations have in common.
        let module = module.strip_prefix("domain::").unwrap_or_default();
        let Some((group, file)) = module.split_once("::") else {
            continue;
        };
        if code.contains("Operation for ") {
            // The row, the file and the type have one name.
            let of = format!("{module}::{}", type_of(file));
            if !has_row(&catalogue, file, &of) {
                wanting.push(format!("src/catalogue.rs: a row {file} of {of}"));
            }
            // What manages the service is tested with what it manages.
            if ["webhook", "outbox"].contains(&group) {
                managing += 1;
                continue;
            }
            found += 1;
            let tests = home.join("tests/operations").join(group);
            if !tests.join(format!("{file}.rs")).exists()
                || !has_line(&tests.join("mod.rs"), &format!("mod {file};"))
            {
                wanting.push(format!(
                    "tests/operations/{group}: {file}.rs, and its line in mod.rs"
                ));
            }
        }
    }
    assert!(wanting.is_empty(), "{wanting:#?}");
    assert_eq!(found, OPERATIONS.len());
    assert_eq!(managing, MANAGEMENT.len());
}
