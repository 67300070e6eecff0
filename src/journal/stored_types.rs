//! The list of all stored types, `docs/stored-types.txt`: every stored form, in every version that has existed.
//!
//! The codec writes no names. So moving a field, or adding a value in the middle of an enumeration, makes old data
//! unreadable without any other sign. A test therefore compares the list with the present types, and no version in
//! the list may ever change.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize as _;

use super::key_use::{self, KeyUse};
use super::record::{self, Record};
use super::snapshot::{self, StateEntry, Summary};
use crate::base::forms::Forms;
use crate::catalogue::RESOURCES;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/stored-types.txt");

const HEAD: &str = "\
What is stored, by the codec of src/base/codec.rs: each kind of resource with its state, its event,
and the types that stand in them, members, variants and words in their order; then the layouts of
notes, of records and of snapshots. Every version that there ever was stays here, since all of them can be read.

`REWRITE_DOCS=1 cargo test stored_types` adds new kinds and new versions. It changes no version that
is here already: docs/changing-stored-types.md says what to do.
";

/// The types stored under one number, in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    /// Place in the list: kinds by their tags, then the layouts.
    place: u16,
    name: String,
    version: u16,
    /// Number of earlier versions that no release has written.
    unreleased: u16,
    lines: Vec<String>,
}

impl Stored {
    fn title(&self, version: u16) -> String {
        format!("## {}, version {version}", self.name)
    }
}

/// Returns the present stored types.
fn present() -> Vec<Stored> {
    let mut all = Vec::new();
    for resource in RESOURCES {
        let kind = resource.kind();
        all.push(Stored {
            place: kind.tag,
            name: format!("{} (kind {})", kind.name, kind.tag),
            version: resource.version(),
            unreleased: 0,
            lines: resource.forms(),
        });
    }
    let forms = Forms::default();
    let record = forms.trace_by(|tracer| Record::deserialize(tracer).map(drop));
    let record = format!("record: {record}");
    all.push(Stored {
        place: u16::MAX - 1,
        name: "layout of a record".to_owned(),
        version: u16::from(record::SCHEMA),
        unreleased: 1,
        lines: [vec![record], forms.lines()].concat(),
    });
    let forms = Forms::default();
    let note = format!("note: the version (u8), {}", forms.trace::<KeyUse>());
    all.push(Stored {
        place: u16::MAX - 2,
        name: "layout of a note".to_owned(),
        version: u16::from(key_use::SCHEMA),
        unreleased: 0,
        lines: [vec![note], forms.lines()].concat(),
    });
    let forms = Forms::default();
    let summary = format!(
        "first entry: the version (u8), {}",
        forms.trace::<Summary>()
    );
    let entry = forms.trace_by(|tracer| StateEntry::deserialize(tracer).map(drop));
    let entry = format!("other entries: {entry}");
    all.push(Stored {
        place: u16::MAX,
        name: "layout of a snapshot".to_owned(),
        version: u16::from(snapshot::SCHEMA),
        unreleased: 1,
        lines: [vec![summary, entry], forms.lines()].concat(),
    });
    all
}

/// Returns the list's blocks: the lines below each title.
fn blocks(list: &str) -> BTreeMap<String, Vec<String>> {
    let mut blocks = BTreeMap::<String, Vec<String>>::new();
    let mut title = None;
    for line in list.lines() {
        if line.starts_with("## ") {
            title = Some(line.to_owned());
        } else if let Some(title) = &title
            && !line.is_empty()
        {
            blocks
                .entry(title.clone())
                .or_default()
                .push(line.to_owned());
        }
    }
    blocks
}

/// Groups the lines of a block by the names of their types.
fn types(lines: &[String]) -> BTreeMap<String, Vec<&str>> {
    let mut types = BTreeMap::<String, Vec<&str>>::new();
    let mut name = String::new();
    for line in lines {
        if !line.starts_with(' ') {
            let end = line.find([',', ' ', ':']).unwrap_or(line.len());
            line[..end].clone_into(&mut name);
        }
        types.entry(name.clone()).or_default().push(line.trim_end());
    }
    types
}

/// Describes which types differ, and how.
fn differences(before: &[String], after: &[String]) -> String {
    let (before, after) = (types(before), types(after));
    let mut names: Vec<_> = before.keys().chain(after.keys()).collect();
    names.sort();
    names.dedup();
    let mut told = String::new();
    for name in names {
        let none = Vec::new();
        let (old, new) = (
            before.get(name).unwrap_or(&none),
            after.get(name).unwrap_or(&none),
        );
        if old == new {
            continue;
        }
        let _ = writeln!(told, "  {name}:");
        let same = old
            .iter()
            .zip(new)
            .take_while(|(old, new)| old == new)
            .count();
        let (old, new) = (&old[same..], &new[same..]);
        let back = old.iter().rev().zip(new.iter().rev());
        let back = back.take_while(|(old, new)| old == new).count();
        for line in &old[..old.len() - back] {
            let _ = writeln!(told, "    - {line}");
        }
        for line in &new[..new.len() - back] {
            let _ = writeln!(told, "    + {line}");
        }
    }
    told
}

/// Returns the errors in the list, given the present types, and the list with permitted additions.
fn compare(list: &str, present: &[Stored]) -> (Vec<String>, String) {
    let mut complaints = Vec::new();
    let mut known = blocks(list);
    let mut sorted: Vec<_> = present.iter().collect();
    sorted.sort_by_key(|stored| stored.place);
    let mut written = HEAD.to_owned();
    for stored in sorted {
        let name = &stored.name;
        for version in stored.unreleased + 1..=stored.version {
            let title = stored.title(version);
            let is_present = version == stored.version;
            let block = match known.remove(&title) {
                Some(block) if is_present && block != stored.lines => {
                    complaints.push(format!(
                        "{name}: what is stored has changed, and the version has not: it is still \
                         {version}.\n{}Data of version {version} could not be read any more. Give it \
                         a new version: docs/changing-stored-types.md says how. If nobody can have \
                         such data, since no release has that version, take its block out of \
                         docs/stored-types.txt and run REWRITE_DOCS=1 cargo test stored_types",
                        differences(&block, &stored.lines),
                    ));
                    block
                }
                Some(block) => block,
                None if is_present => {
                    complaints.push(format!(
                        "{name}: version {version} is not in the list yet: REWRITE_DOCS=1 cargo test \
                         stored_types"
                    ));
                    stored.lines.clone()
                }
                None => {
                    complaints.push(format!(
                        "{name}: version {version} is gone from the list, and there may be data of it"
                    ));
                    continue;
                }
            };
            let _ = write!(written, "\n{title}\n\n{}\n", block.join("\n"));
        }
    }
    for (title, _) in known {
        complaints.push(format!(
            "{title}: no code reads this any more, and there may be data of it"
        ));
    }
    (complaints, written)
}

#[test]
fn nothing_that_is_stored_changes_without_a_new_version() {
    let present = present();
    let mut list = std::fs::read_to_string(FILE).unwrap_or_default();
    if std::env::var_os("REWRITE_DOCS").is_some() {
        let (_, written) = compare(&list, &present);
        std::fs::write(FILE, &written).expect("the list can be written");
        list = written;
    }
    let (complaints, written) = compare(&list, &present);
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
    assert!(
        written == list,
        "the list is not as it is written: REWRITE_DOCS=1 cargo test stored_types"
    );
}

mod tests {
    use super::*;

    fn stored(version: u16, lines: &[&str]) -> Stored {
        Stored {
            place: 7,
            name: "thing (kind 7)".to_owned(),
            version,
            unreleased: 0,
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    const FIRST: [&str; 6] = [
        "state: Thing",
        "Colour, one of",
        "  0 red",
        "Thing",
        "  id: string",
        "  colour: Colour",
    ];

    #[test]
    fn a_type_changed_without_a_new_version_is_reported_until_it_has_one() {
        let (complaints, list) = compare("", &[stored(1, &FIRST)]);
        assert!(
            complaints[0].contains("version 1 is not in the list yet"),
            "{complaints:?}"
        );
        assert_eq!(compare(&list, &[stored(1, &FIRST)]), (vec![], list.clone()));

        let mut moved = FIRST;
        moved.swap(4, 5);
        let word = [
            "state: Thing",
            "Colour, one of",
            "  0 blue",
            "  1 red",
            "Thing",
            "  id: string",
            "  colour: Colour",
        ];
        for (changed, told) in [
            (
                &moved[..],
                "  Thing:\n    -   id: string\n    -   colour: Colour\n    +   colour: Colour\n    +   id: string\n",
            ),
            (
                &word[..],
                "  Colour:\n    -   0 red\n    +   0 blue\n    +   1 red\n",
            ),
        ] {
            let (complaints, written) = compare(&list, &[stored(1, changed)]);
            assert_eq!(complaints.len(), 1);
            assert!(complaints[0].contains("thing (kind 7)"), "{complaints:?}");
            assert!(complaints[0].contains("still 1"), "{complaints:?}");
            assert_eq!(written, list, "a version that is there is not rewritten");
            assert!(complaints[0].contains(told), "{}", complaints[0]);
            let (complaints, second) = compare(&list, &[stored(2, changed)]);
            assert!(
                complaints[0].contains("version 2 is not in the list yet"),
                "{complaints:?}"
            );
            assert_eq!(
                compare(&second, &[stored(2, changed)]),
                (vec![], second.clone())
            );
            assert!(second.starts_with(&list), "the version before stays");
        }
    }

    #[test]
    fn no_version_and_no_kind_leaves_the_list() {
        let (_, list) = compare("", &[stored(1, &FIRST)]);
        let (complaints, _) = compare("", &[stored(2, &FIRST)]);
        assert!(
            complaints[0].contains("version 1 is gone"),
            "{complaints:?}"
        );
        let (complaints, _) = compare(&list, &[]);
        assert!(
            complaints[0].contains("no code reads this any more"),
            "{complaints:?}"
        );
    }
}
