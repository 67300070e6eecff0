//! What the console consists of, as files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use carebook::base::json::FaultCode;
use carebook::engine::readiness::Unready;
use carebook::journal::personal::HIDDEN;

use crate::support::{assert_digests, files, or_skip};

/// The folder of the console.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("console")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(folder().join(path)).unwrap()
}

/// What `npm ci` has filled from `tools/package-lock.json`.
pub fn tools() -> Option<PathBuf> {
    let modules = std::env::var_os("CONSOLE_TOOLS").map(PathBuf::from);
    or_skip(modules, "tools of the console (CONSOLE_TOOLS, see .ci/run)")
}

/// Files that browsers are sent, by their paths below the folder.
fn sent() -> Vec<String> {
    let all = files(&folder()).into_iter();
    let names = all.map(|file| {
        let below = file.strip_prefix(folder()).unwrap();
        below.to_str().unwrap().to_owned()
    });
    let is_sent = |name: &String| {
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        ["html", "js", "css", "svg"].contains(&ending)
    };
    let mut names: Vec<_> = names.filter(is_sent).collect();
    names.sort();
    names
}

#[test]
fn each_file_of_the_console_is_in_the_program() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/console/files.rs");
    let written = std::fs::read_to_string(&list).unwrap();
    let (before, _) = written.split_once("files![").unwrap();
    let lines: String = sent()
        .iter()
        .map(|name| format!("    \"{name}\",\n"))
        .collect();
    let expected = format!("{before}files![\n{lines}];\n");
    if std::env::var_os("REWRITE_DOCS").is_some() {
        std::fs::write(&list, &expected).unwrap();
    }
    assert!(
        written == expected,
        "src/http/console/files.rs: REWRITE_DOCS=1 writes it anew"
    );
}

/// The words of a language, by their keys.
fn words(language: &str) -> BTreeMap<String, String> {
    let text = read(&format!("words/{language}.js"));
    let pairs = text.lines().filter_map(|line| {
        let (key, words) = line.trim().strip_prefix('\'')?.split_once("': '")?;
        Some((key.to_owned(), words.trim_end_matches("',").to_owned()))
    });
    pairs.collect()
}

#[test]
fn each_fault_of_a_field_has_words_in_both_languages() {
    let codes: BTreeSet<_> = FaultCode::ALL
        .map(|code| format!("fault.{}", code.as_str()))
        .into();
    for language in ["ko", "en"] {
        let all = words(language);
        let keys = all.keys().filter(|key| key.starts_with("fault."));
        let told: BTreeSet<_> = keys.cloned().collect();
        assert_eq!(told, codes, "{language}");
    }
}

#[test]
fn english_texts_with_a_count_have_no_plural_that_is_wrong_for_one() {
    for (key, text) in words("en") {
        let counted = text.split("{n} ").skip(1);
        let plural = counted
            .filter_map(|rest| rest.split(|one: char| !one.is_alphabetic()).next())
            .find(|word| word.len() > 1 && word.ends_with('s'));
        assert_eq!(plural, None, "{key}: {text}");
    }
}

#[test]
fn both_languages_have_the_same_words() {
    let (korean, english) = (words("ko"), words("en"));
    assert!(korean.len() > 300);
    assert!(korean.keys().eq(english.keys()));
    for (key, korean) in &korean {
        let named = |text: &str| {
            let mut names: Vec<_> = text
                .split('{')
                .skip(1)
                .map(|rest| rest.split('}').next().unwrap().to_owned())
                .collect();
            names.sort();
            names
        };
        assert_eq!(named(korean), named(&english[key]), "{key}");
        assert!(!korean.is_empty() && !english[key].is_empty(), "{key}");
    }
}

#[test]
fn each_reason_why_no_commands_are_taken_has_its_words() {
    let words = read("words/en.js");
    for (reason, _) in Unready::default().reasons() {
        assert!(words.contains(&format!("'unready.{reason}': ")), "{reason}");
    }
}

#[test]
fn personal_fields_are_masked_in_the_console_too() {
    let listed = read("lib/personal.js");
    let missing: Vec<_> = HIDDEN
        .keys()
        .filter(|name| !listed.contains(&format!("'{name}'")))
        .collect();
    assert_eq!(
        missing,
        Vec::<&&str>::new(),
        "add to PERSONAL in console/lib/personal.js"
    );
}

#[test]
fn nothing_of_the_console_is_code_in_a_page_or_markup_out_of_text() {
    for name in sent() {
        let text = read(&name);
        let is_ours = !name.starts_with("vendor/");
        // Preact knows one by which markup can be set; it is not used here.
        for bad in [
            "nnerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "style=\"",
        ] {
            assert!(!is_ours || !text.contains(bad), "{name}: {bad}");
        }
    }
    let page = read("index.html");
    for script in page.split("<script").skip(1) {
        assert!(script.contains(" src=\"/console/files/") && script.contains("\"></script>"));
    }
    assert!(!page.contains("<style") && !page.contains("//"), "{page}");
}

#[test]
fn vendored_files_have_the_listed_digests() {
    let vendor = folder().join("vendor");
    let sums = read("vendor/SHA256SUMS");
    let listed: Vec<_> = sums
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .collect();
    let mut kept: Vec<_> = sent();
    kept.retain(|name| name.starts_with("vendor/"));
    let names: Vec<_> = listed
        .iter()
        .map(|(_, name)| format!("vendor/{name}"))
        .collect();
    assert_eq!(names, kept);
    assert_digests(&vendor, &listed);
}

#[test]
fn vendored_files_are_as_published() {
    let Some(tools) = tools() else {
        return;
    };
    let checked = Command::new("node")
        .arg(folder().join("vendor/take.mjs"))
        .arg(tools)
        .arg("--check")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{told}");
}

#[test]
fn the_types_of_the_console_hold() {
    let Some(tools) = tools() else {
        return;
    };
    let checked = Command::new("node")
        .arg(tools.join("node_modules/typescript/bin/tsc"))
        .args(["--project", "console/jsconfig.json", "--noEmit"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{told}");
}
