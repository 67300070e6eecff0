//! A tool is interrupted by a power cut at any call, and then any tool runs: nothing is lost.
//!
//! `TOOL_KILLS=2000` tries that many cuts; `SEED=…` plays them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;
use wal::storage::Storage;
use wal::storage::sim::{SimDisk, Survivors};
use wal::{Error, Past, Salvage};

use crate::support::{open, random, record, seed, segments, snapshot, snapshots, verify};

/// What an operator may do with a directory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tool {
    /// Starts the service, appends a record, ends.
    Serve,
    /// Takes two snapshots and compacts, with an archive or without.
    Compact {
        archive: bool,
    },
    Backup,
    Restore,
    Recover,
    Verify,
}

const TOOLS: [Tool; 7] = [
    Tool::Serve,
    Tool::Compact { archive: false },
    Tool::Compact { archive: true },
    Tool::Backup,
    Tool::Restore,
    Tool::Recover,
    Tool::Verify,
];

/// The disks of one operator.
#[derive(Clone)]
struct Place {
    data: SimDisk,
    archive: SimDisk,
    /// Where backups and restored logs go: each time a new one.
    target: SimDisk,
}

impl Place {
    fn run(&self, tool: Tool) -> Result<(), Error> {
        let target: Arc<dyn Storage> = self.target.storage();
        match tool {
            Tool::Serve => {
                let mut log = open(&self.data)?.log;
                log.append(&[SERVED.to_vec()])?;
                log.seal()
            }
            Tool::Compact { archive } => {
                let mut log = open(&self.data)?.log;
                let last = log.last_position();
                snapshot(&mut log, last)?;
                snapshot(&mut log, last)?;
                let archive = archive.then(|| self.archive.storage());
                log.compact(&wal::Keep::NOTHING, archive.as_deref())
                    .map(drop)
            }
            Tool::Backup => {
                let source = self.data.storage();
                wal::backup(source.as_ref(), &target, &mut |_, _| {}).map(drop)
            }
            Tool::Restore => {
                let past = Past::open(self.data.storage(), Some(self.archive.storage()))?;
                past.restore(&target, None, &mut |_, _| {}).map(drop)
            }
            Tool::Recover => {
                let salvage = Salvage::survey(self.data.storage())?;
                let Some(way) = salvage.ways().first().copied() else {
                    return Ok(());
                };
                salvage.give_up_after(way.keep_to).map(drop)
            }
            Tool::Verify => verify(&self.data).map(drop),
        }
    }

    fn calls(&self) -> u64 {
        self.data.calls() + self.archive.calls() + self.target.calls()
    }

    /// Cuts the power before the call with this number, on the disk where the tool writes.
    fn cut_before(&self, cut: u64, tool: Tool) {
        match tool {
            Tool::Backup | Tool::Restore => self.target.cut_before(cut),
            _ => {
                // Both disks count their own calls, so one of the two is cut.
                self.data.cut_before(cut);
                self.archive.cut_before(cut);
            }
        }
    }

    fn after(&self, survivors: Option<Survivors>) -> Self {
        let after = |disk: &SimDisk| match survivors {
            Some(survivors) => disk.after_power_cut(survivors),
            None => disk.after_kill(),
        };
        Self {
            data: after(&self.data),
            archive: after(&self.archive),
            target: SimDisk::new(),
        }
    }

    /// Returns the names of all files of the log, by their content.
    fn bytes(&self) -> BTreeMap<Vec<u8>, String> {
        let names = self.data.names();
        let files = names.iter().filter_map(|name| self.data.bytes(name));
        files.zip(names.iter().cloned()).collect()
    }
}

/// Makes a log with two snapshots and an archive of what they cover; may damage it in one of
/// several ways.
fn lived(random: &mut StdRng) -> (Place, Vec<Vec<u8>>, bool) {
    let data = SimDisk::new();
    let archive = SimDisk::new();
    let mut appended = Vec::new();
    for round in 0..3 {
        let mut log = open(&data).unwrap().log;
        for _ in 0..12 {
            let record = record(random, 900);
            log.append(std::slice::from_ref(&record)).unwrap();
            appended.push(record);
        }
        if round == 1 {
            for covers in [15, 20] {
                snapshot(&mut log, covers).unwrap();
            }
            if random.random_ratio(1, 2) {
                let to = archive.storage();
                log.compact(&wal::Keep::NOTHING, Some(to.as_ref())).unwrap();
            }
        }
        log.seal().unwrap();
    }
    let is_damaged = random.random_ratio(2, 3);
    if is_damaged {
        match random.random_range(0..4) {
            0 => data.take_away("manifest"),
            1 => flip(&data, &snapshots(&data)[1], 100),
            2 => flip(&data, segments(&data).last().unwrap(), 4_300),
            _ => flip(&data, segments(&data).last().unwrap(), 50),
        }
    }
    let place = Place {
        data,
        archive,
        target: SimDisk::new(),
    };
    (
        place.after(Some(Survivors::Everything)),
        appended,
        is_damaged,
    )
}

/// Flips a bit durably: a power cut would not undo it.
fn flip(disk: &SimDisk, name: &str, at: usize) {
    let mut bytes = disk.bytes(name).unwrap();
    bytes[at] ^= 1;
    disk.put(name, &bytes);
}

fn cases() -> u64 {
    let given = std::env::var("TOOL_KILLS");
    given.map_or(300, |text| text.replace('_', "").parse().unwrap())
}

/// A damaged file's content, and a log's records, exist nowhere else: no tool may remove them.
#[test]
fn nothing_is_lost_whichever_tool_is_cut_off_and_whichever_comes_next() {
    let seed = seed(51);
    let (mut tried, mut served, mut refused) = (0, 0, 0);
    let mut number = 0;
    while tried < cases() {
        let mut random = random(seed + number);
        number += 1;
        let (place, appended, is_damaged) = lived(&mut random);
        let tool = TOOLS[random.random_range(0..TOOLS.len())];
        let original = place.bytes();
        let whole = place.after(None);
        let ended = whole.run(tool);
        let calls = whole.calls();
        if calls == 0 {
            continue;
        }
        let cut = random.random_range(0..calls);
        place.cut_before(cut, tool);
        let _ = place.run(tool);
        let survivors = [
            None,
            Some(Survivors::Nothing),
            Some(Survivors::Everything),
            Some(Survivors::Random(random.random())),
        ];
        let survivors = survivors[random.random_range(0..survivors.len())];
        let after = place.after(survivors);
        let next = TOOLS[random.random_range(0..TOOLS.len())];
        let case = format!(
            "SEED={}, {tool:?} cut before call {cut} of {calls}, {survivors:?}, then {next:?}, \
             damaged {is_damaged}",
            seed + number - 1
        );
        let before = match tool {
            // A recovery only reads the files that are there, so the original ones count.
            Tool::Recover => original,
            _ => after.bytes(),
        };
        let done = after.run(next);
        if ended.is_ok() && !is_damaged {
            // A sound log is sound after any cut, for every tool.
            done.unwrap_or_else(|error| panic!("{case}: {error}"));
        }
        tried += 1;
        let then = after.after(None);
        let kept = then.bytes();
        match verify(&then.data) {
            Ok((report, found)) => {
                served += 1;
                // A start after a recovery appends where the recovery has ended.
                let own = found.iter().take_while(|record| *record != SERVED).count();
                let shared = own.min(appended.len());
                assert!(
                    found[..shared] == appended[..shared],
                    "{case}: other records"
                );
                if !is_damaged {
                    assert!(own >= appended.len(), "{case}: records are lost");
                }
                if report.log_id != FIRST_LOG {
                    // The log was recovered: all files of the log before are there, under some
                    // name.
                    for (bytes, name) in before
                        .iter()
                        .filter(|(bytes, name)| is_of_first(bytes, name))
                    {
                        assert!(kept.contains_key(bytes), "{case}: {name} is gone");
                    }
                }
            }
            Err(_) => {
                refused += 1;
                assert!(is_damaged, "{case}: a sound log is refused");
            }
        }
    }
    println!("{tried} cuts: {served} times the log was sound afterwards, {refused} times refused");
    assert!(served > 0 && refused > 0);
}

/// The record that a start appends.
const SERVED: &[u8] = b"served";

/// The id of a disk's first log.
const FIRST_LOG: [u8; 16] = [1; 16];

/// Whether a file is a finished segment or snapshot of the first log.
fn is_of_first(bytes: &[u8], name: &str) -> bool {
    let is_listed = bytes.starts_with(b"walsegmt") || bytes.starts_with(b"walsnaps");
    is_listed && bytes.get(16..32) == Some(&FIRST_LOG) && !name.ends_with(".new")
}

#[test]
fn a_start_after_an_interrupted_recovery_keeps_what_was_to_be_kept() {
    let mut random = random(seed(52));
    let (place, _, _) = loop {
        let lived = lived(&mut random);
        if lived.2 && verify(&lived.0.data).is_err() && lived.0.data.bytes("manifest").is_some() {
            break lived;
        }
    };
    let before: Vec<_> = [segments(&place.data), snapshots(&place.data)].concat();
    let bytes: Vec<_> = before
        .iter()
        .map(|name| place.data.bytes(name).unwrap())
        .collect();
    let manifest = place.data.bytes("manifest").unwrap();
    let whole = place.after(None);
    whole.run(Tool::Recover).unwrap();
    let mut opened = 0;
    for cut in 0..whole.calls() {
        let place = place.after(None);
        place.data.cut_before(cut);
        assert!(place.run(Tool::Recover).is_err());
        let after = place.after(None);
        for name in after.data.names() {
            // What is kept is whole.
            let kept = after.data.bytes(&name).unwrap();
            let is_kept = name.contains("given-up");
            assert!(
                !is_kept || bytes.contains(&kept) || kept == manifest,
                "cut before call {cut}: {name} is not what was there"
            );
        }
        let log = open(&after.data).map(|opened| opened.report.log_id);
        if log.is_ok_and(|log| log != FIRST_LOG) {
            opened += 1;
            let kept = after.bytes();
            for (name, bytes) in before.iter().zip(&bytes) {
                assert!(
                    kept.contains_key(bytes),
                    "cut before call {cut}: {name} is gone"
                );
            }
            let left: Vec<_> = [segments(&after.data), snapshots(&after.data)].concat();
            assert!(before.iter().all(|name| !left.contains(name)), "{left:?}");
        }
    }
    assert!(opened > before.len(), "{opened} starts");
}

#[test]
fn an_interrupted_restore_or_backup_is_not_taken_for_an_empty_directory() {
    let mut random = random(seed(53));
    let place = loop {
        let (place, _, is_damaged) = lived(&mut random);
        if !is_damaged {
            break place;
        }
    };
    for tool in [Tool::Backup, Tool::Restore] {
        let whole = place.after(None);
        whole.run(tool).unwrap();
        let mut refused = 0;
        for cut in 1..whole.target.calls() {
            let place = place.after(None);
            place.target.cut_before(cut);
            assert!(place.run(tool).is_err());
            let target = place.target.after_kill();
            match open(&target) {
                Err(Error::Unfinished { .. }) => refused += 1,
                Err(error) => panic!("{tool:?}, cut before call {cut}: {error}"),
                // The manifest was there.
                Ok(opened) => assert!(!opened.report.created, "{tool:?}, call {cut}"),
            }
        }
        assert!(refused > 5);
    }
}
