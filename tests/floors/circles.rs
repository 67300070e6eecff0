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
