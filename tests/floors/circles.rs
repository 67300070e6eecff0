//! Circles: files, or folders, that use each other in a loop.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

/// An arrow between two neighbours of one folder, and what says so.
type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The circles of a crate, each as the arrows that close it.
///
/// An arrow between two files is one between what holds them in the folder that they share: two
/// files, a file and a folder, or two folders. In each folder these must have an order.
pub fn circles(source: &Source) -> Vec<String> {
    let mut folders: BTreeMap<String, Arrows> = BTreeMap::new();
    for ((from, to), paths) in &source.uses {
        let (folder, one, other) = neighbours(from, to);
        let arrows = folders.entry(folder).or_default().entry(one).or_default();
        let why = paths.iter().map(|path| format!("{from}: {path}"));
        arrows.entry(other).or_default().extend(why);
    }
    let in_folder = |(folder, arrows): (String, Arrows)| {
        let groups = groups(&arrows).into_iter();
        groups
            .map(|group| told(&folder, &group, &arrows))
            .collect::<Vec<_>>()
    };
    folders.into_iter().flat_map(in_folder).collect()
}

/// The folder that two files share, and what holds each of them there.
fn neighbours(from: &str, to: &str) -> (String, String, String) {
    let mut shared = String::new();
    let (mut from, mut to) = (from, to);
    while let (Some((one, from_rest)), Some((other, to_rest))) =
        (from.split_once('/'), to.split_once('/'))
        && one == other
    {
        shared.push_str(one);
        shared.push('/');
        (from, to) = (from_rest, to_rest);
    }
    let first = |path: &str| path.split('/').next().unwrap().to_owned();
    (shared, first(from), first(to))
}

/// The groups of more than one whose every part reaches every other.
fn groups(arrows: &Arrows) -> Vec<BTreeSet<String>> {
    let mut groups = BTreeSet::new();
    for from in arrows.keys() {
        let reached = reached(from, arrows);
        let reaches_back = |other: &&String| self::reached(other, arrows).contains(from);
        let group: BTreeSet<_> = reached.iter().filter(reaches_back).cloned().collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

fn reached(from: &str, arrows: &Arrows) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(one) = next.pop() {
        for other in arrows.get(&one).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(other.clone()) {
                next.push(other.clone());
            }
        }
    }
    reached
}

fn told(folder: &str, group: &BTreeSet<String>, arrows: &Arrows) -> String {
    let names: Vec<_> = group.iter().map(String::as_str).collect();
    let mut text = format!("in {folder}: {} use each other\n", names.join(", "));
    for from in group {
        for (to, why) in &arrows[from] {
            if group.contains(to) {
                let why: Vec<_> = why.iter().map(String::as_str).collect();
                text.push_str(&format!("  {from} -> {to}: {}\n", why.join(", ")));
            }
        }
    }
    text
}

/// A crate of these files, read.
fn crate_of(files: &[(&str, &str)]) -> Source {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    super::source::read(&folder.path().join("lib.rs"))
}

#[test]
fn a_circle_of_two_files_is_found_however_they_name_each_other() {
    for back in [
        "use crate::one::go;",
        "use crate::{one::go, two};",
        "pub fn back() { crate::one::go() }",
        "pub fn back() { super::one::go() }",
        "pub fn back() { use super::one; one::go() }",
        "pub fn back() { assert_eq!((), crate::one::go()) }",
        "use crate::one; pub fn back() { one::go() }",
        "use super::*; pub fn back() { go() }",
        "pub fn back() { super::handed_on() }",
        "mod within { pub fn back() { super::super::one::go() } }",
        "macro_rules! back { () => { $crate::one::go() } }",
        "pub struct Back(crate::one::Kind);",
        "impl super::one::Trait for () {}",
    ] {
        let source = crate_of(&[
            (
                "lib.rs",
                "mod one; mod two; use one::go; pub use one::go as handed_on;",
            ),
            (
                "one.rs",
                "pub fn go() {} pub struct Kind; pub trait Trait {} fn there() { crate::two::x() }",
            ),
            ("two.rs", &format!("pub fn x() {{}} {back}")),
        ]);
        let found = circles(&source);
        assert_eq!(found.len(), 1, "{back}: {found:?}");
        assert!(
            found[0].contains("one.rs, two.rs use each other"),
            "{found:?}"
        );
    }
}

#[test]
fn a_circle_of_folders_is_found_where_no_files_make_one() {
    let source = crate_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "pub mod high; pub mod low;"),
        ("a/high.rs", "use crate::b::middle;"),
        ("a/low.rs", "pub fn go() {}"),
        ("b/mod.rs", "pub mod middle;"),
        ("b/middle.rs", "pub fn go() { crate::a::low::go() }"),
    ]);
    assert_eq!(circles(&source), Vec::<String>::new(), "a module is no use");
    let source = crate_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "pub mod high; pub mod low;"),
        ("a/high.rs", "use crate::b::middle::go;"),
        ("a/low.rs", "pub fn go() {}"),
        ("b/mod.rs", "pub mod middle;"),
        ("b/middle.rs", "pub fn go() { crate::a::low::go() }"),
    ]);
    let found = circles(&source);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("in : a, b use each other"),
        "{found:?}"
    );
}

#[test]
fn handing_a_name_on_and_what_tests_alone_use_make_no_circle() {
    let source = crate_of(&[
        ("lib.rs", "mod a;"),
        (
            "a/mod.rs",
            "mod one; mod two; pub use one::One; pub use two::two;",
        ),
        ("a/one.rs", "pub struct One; fn there() { super::two() }"),
        (
            "a/two.rs",
            "pub fn two() {} #[cfg(test)] mod tests { use super::super::one::One; }",
        ),
    ]);
    assert_eq!(circles(&source), Vec::<String>::new());
}
