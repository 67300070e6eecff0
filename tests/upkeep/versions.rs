//! What a newer carebook has stored is refused by its version, with an exit code of its own, by every
//! command that asks what it means; what only copies bytes copies it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use carebook::base::codec::{self, Blob};
use carebook::journal::record::{NewChange, NewRecord, Record, RecordOutcome, SCHEMA};
use carebook::journal::snapshot::{StateEntry, Summary};
use wal::storage::FileStorage;
use wal::{BoxError, Log, Options, SnapshotInfo, Visitor};

use crate::support::{Server, World, carebook, files, run, serve_arguments};

/// Has seen everything.
struct Nobody;

impl Visitor for Nobody {
    fn record(&mut self, _: wal::Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, _: &SnapshotInfo) -> Result<(), BoxError> {
        Ok(())
    }

    fn entry(&mut self, _: &[u8]) -> Result<(), BoxError> {
        Ok(())
    }
}

/// The log of a stopped directory.
fn log_of(data: &Path) -> Log {
    let storage = FileStorage::existing(data).unwrap();
    let opened = Log::open(Arc::new(storage), Options::default(), &mut Nobody);
    opened.unwrap().0
}

/// A newer carebook writes to a stopped directory that has its first record still.
pub(crate) fn a_newer_one_writes(data: &Path) {
    let mut log = log_of(data);
    let bytes = log.read(1).unwrap().unwrap();
    let record = Record::decode(&bytes).unwrap();
    let newer = again(&record, SCHEMA + 1, |kind| kind, 1);
    log.append(&[newer]).unwrap();
    log.seal().unwrap();
}

/// A stopped directory with one statement, and its log.
fn stopped() -> (World, Log) {
    let world = World::new();
    let server = Server::start(&world);
    let body = world.deposit_request("S-1", "key-1");
    let token = world.headquarters();
    let opened = server
        .client()
        .post("/settlement-deposit-requests", &token, &body);
    assert_eq!(opened.status, 201, "{opened:?}");
    assert_eq!(server.stop(), Some(0));
    let log = log_of(&world.data());
    (world, log)
}

/// A record of the same change, as a carebook of this layout, with such kinds, would write it.
fn again(record: &Record<'_>, schema: u8, kind: impl Fn(u16) -> u16, version: u16) -> Vec<u8> {
    let changes = record.changes.iter().map(|change| NewChange {
        kind: kind(change.kind),
        version,
        key: change.key,
        before: 1,
        revision: change.revision,
        advances: true,
        path: &[],
        event: Blob(change.event.0),
        base: None,
    });
    NewRecord {
        schema,
        at: record.at,
        operation: record.operation,
        subject: record.subject,
        actor: record.actor,
        key: None,
        changes: changes.collect(),
        outbox: &[],
        outcome: RecordOutcome::None,
    }
    .encode()
}

/// What a snapshot keeps of a record that uses no key.
fn kept_of(record: &Record<'_>) -> Vec<u8> {
    NewRecord {
        schema: carebook::journal::record::SCHEMA,
        at: record.at,
        operation: record.operation,
        subject: record.subject,
        actor: record.actor,
        key: None,
        changes: Vec::new(),
        outbox: &[],
        outcome: RecordOutcome::None,
    }
    .encode()
}

/// The version in which this carebook stores statements.
fn version_of_statements() -> u16 {
    carebook::catalogue::resource(100).unwrap().version()
}

/// Every file's bytes, but for the lock.
fn contents(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = files(data).into_iter();
    let files = files.filter(|file| !file.ends_with("lock"));
    files
        .map(|file| (file.clone(), std::fs::read(file).unwrap()))
        .collect()
}

/// The command ends with 5, says each of these words, and leaves everything as it is.
fn refuses(world: &World, arguments: &[&str], words: &[&str]) {
    let before = contents(&world.data());
    let (code, _, err) = run(arguments);
    assert_eq!(code, Some(5), "{arguments:?}: {err}");
    for word in words {
        assert!(err.contains(word), "{arguments:?}: {word}: {err}");
    }
    assert!(contents(&world.data()) == before, "{arguments:?} writes");
}

/// As [`refuses`], of every command that reads the whole log.
fn all_refuse(world: &World, words: &[&str]) {
    let data = world.data();
    let data = data.to_str().unwrap();
    let facts = world.path("facts");
    std::fs::write(&facts, "").unwrap();
    for arguments in [
        &["verify", "--data", data][..],
        &["compact", "--keep", "0s", "--data", data],
        &["facts", "load", facts.to_str().unwrap(), "--data", data],
    ] {
        refuses(world, arguments, words);
    }
    let output = serve_arguments(&mut carebook(), world).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{err}");
    assert!(words.iter().all(|word| err.contains(word)), "{err}");
    let copy = world.path("copy");
    let copied = run(&["backup", "--data", data, "--to", copy.to_str().unwrap()]);
    assert_eq!(copied.0, Some(0), "bytes are bytes: {copied:?}");
}

#[test]
fn a_record_that_a_newer_carebook_wrote_is_refused_by_its_number() {
    let same = |kind: u16| kind;
    let newer_kind = |_: u16| 9_999;
    let known = version_of_statements();
    for (schema, kind, version, words) in [
        (
            SCHEMA,
            &same as &dyn Fn(u16) -> u16,
            known + 1,
            &format!(
                "position 2: a settlement-statement of version {}, and this carebook knows version {known}",
                known + 1
            ),
        ),
        (
            SCHEMA,
            &newer_kind,
            1,
            &"position 2: resource kind 9999 is not known here".to_owned(),
        ),
        (
            SCHEMA + 1,
            &same,
            1,
            &format!(
                "position 2: a record of version {}, and this carebook knows version {SCHEMA}",
                SCHEMA + 1
            ),
        ),
    ] {
        let (world, mut log) = stopped();
        let bytes = log.read(1).unwrap().unwrap();
        let record = Record::decode(&bytes).unwrap();
        log.append(&[again(&record, schema, kind, version)])
            .unwrap();
        log.seal().unwrap();
        drop(log);
        let advice = "newer carebook, run that one";
        all_refuse(&world, &[words, advice]);
        let data = world.data();
        let data = data.to_str().unwrap();
        for look in ["records", "counts"] {
            refuses(
                &world,
                &["inspect", look, "--data", data],
                &["position 2", advice],
            );
        }
    }
}

#[test]
fn a_snapshot_that_a_newer_carebook_wrote_is_refused_and_not_passed_over() {
    let state = |version| StateEntry {
        kind: 100,
        version,
        key: carebook::base::digest::Digest([7; 16]),
        position: 1,
        listed_at: None,
        state: Blob(b"whatever"),
    };
    let summary = Summary::default().encode();
    let mut newer = summary.clone();
    newer[0] += 1;
    let newer_state = version_of_statements() + 1;
    for (note, first, version, words) in [
        (
            [2, 0, 0, 0],
            &summary,
            1,
            "position 1: kept by a snapshot: a note of version 2, and this carebook knows version 1"
                .to_owned(),
        ),
        (
            [1, 0, 0, 0],
            &summary,
            newer_state,
            format!("the state of a snapshot: a settlement-statement of version {newer_state}"),
        ),
        (
            [1, 0, 0, 0],
            &newer,
            1,
            "a snapshot of version 4, and this carebook knows version 3".to_owned(),
        ),
    ] {
        let (world, mut log) = stopped();
        let mut snapshot = log.begin_snapshot(1).unwrap();
        let kept = log.read(1).unwrap().unwrap();
        let kept = kept_of(&Record::decode(&kept).unwrap());
        snapshot.keep_noted(1, &note, &kept).unwrap();
        snapshot.entry(first).unwrap();
        snapshot.entry(&codec::encode(&state(version))).unwrap();
        log.install(snapshot, 1).unwrap();
        log.seal().unwrap();
        drop(log);
        // The log alone would do: it has everything.
        all_refuse(&world, &[&words, "newer carebook, run that one"]);
    }
}
