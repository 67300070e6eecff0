//! What fuzzers call with bytes of any kind in the place of a record, of a
//! snapshot's entries, or of a request's body. Each function panics when a
//! promise is broken. The tests of the service try a fixed share of it.

use carebook::base::codec::Blob;
use carebook::base::time::Timestamp;
use carebook::catalogue::OPERATIONS;
use carebook::engine::limits::admission::Permit;
use carebook::http::request::DryRun;
use carebook::http::request::arriving::bodies_budget;
use carebook::http::request::command::{read_by_tree, read_command};
use carebook::journal::record::{NewChange, NewRecord, Record, RecordChange, RecordKey, SCHEMA};
use carebook::journal::replay::Replay;

/// The next piece: two bytes of length, or what is left.
fn piece<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (head, rest) = input.split_at_checked(2)?;
    let length = usize::from(u16::from_le_bytes([head[0], head[1]])).min(rest.len());
    let (piece, rest) = rest.split_at(length);
    *input = rest;
    Some(piece)
}

/// Pieces as records one after the other; with an odd first byte, behind a
/// snapshot of which the first pieces are: by its other bits a note and a kept
/// record, the summary, and states.
pub fn record(input: &[u8]) {
    let Some((&flags, mut input)) = input.split_first() else {
        return;
    };
    let replayed = || {
        let mut input = input;
        let mut replay = Replay::new();
        let mut position = 1;
        if flags & 1 != 0 {
            replay.snapshot(1, 3);
            if flags & 0x20 != 0 {
                replay.compare_notes();
            }
            if flags & 0x10 != 0 {
                replay.noted(1, piece(&mut input)?).ok()?;
            }
            if flags & 2 != 0 && (flags & 0x10 == 0 || !replay.takes_notes()) {
                replay.kept(1, piece(&mut input)?).ok()?;
            }
            for _ in 0..1 + (flags >> 2 & 3) {
                replay.entry(piece(&mut input)?).ok()?;
            }
            position = 2;
        }
        while let Some(payload) = piece(&mut input) {
            replay.record(position, payload).ok()?;
            position += 1;
        }
        let recovered = replay.finish().ok()?;
        Some((recovered.tables.digest(), recovered.counters))
    };
    let once = replayed();
    assert!(
        once == replayed(),
        "the same bytes replay to the same state"
    );
    while let Some(payload) = piece(&mut input) {
        let Ok(record) = Record::decode(payload) else {
            continue;
        };
        let _ = record.key_digest();
        let owned = |change: &RecordChange<'_>| {
            let values = change.path.iter().map(ToString::to_string);
            values.collect::<Vec<_>>()
        };
        let paths: Vec<_> = record.changes.iter().map(owned).collect();
        let changes = record.changes.iter().zip(&paths);
        let changes = changes.map(|(change, path)| NewChange {
            kind: change.kind,
            version: change.version,
            key: change.key,
            before: change.before,
            revision: change.revision,
            advances: change.advances,
            path,
            event: Blob(change.event.0),
            base: change.base.clone(),
        });
        let again = NewRecord {
            schema: SCHEMA,
            at: record.at,
            operation: record.operation,
            subject: record.subject,
            actor: record.actor,
            key: record.key.as_ref().map(|key| RecordKey {
                key: key.key,
                fingerprint: key.fingerprint,
            }),
            changes: changes.collect(),
            outbox: &record.outbox,
            outcome: record.outcome.clone(),
        }
        .encode();
        match Record::decode(&again) {
            // One of the layout before is written as one of the present.
            Ok(same) if record.schema != SCHEMA => {
                assert_eq!(same.changes, record.changes);
            }
            Ok(same) => assert!(same == record, "it is encoded as another record"),
            Err(error) => panic!("what was read cannot be read again: {error}"),
        }
    }
}

/// A request's body: the first byte chooses the operation, the second says how
/// many of the next bytes are the parameter of the path.
pub fn body(input: &[u8]) {
    let [operation, length, input @ ..] = input else {
        return;
    };
    let row = &OPERATIONS[usize::from(*operation) % OPERATIONS.len()];
    let (parameter, body) = input.split_at(usize::from(*length).min(input.len()));
    let parameter = String::from_utf8_lossy(parameter);
    let names = row.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?;
        name.strip_suffix('}')
    });
    let path: Vec<_> = names.map(|name| (name, parameter.as_ref())).collect();
    let now = Timestamp::from_millis(1_795_000_000_000);
    let headers = Default::default();
    let mut share = Permit::none(&bodies_budget());
    let read = read_command(row, &path, &headers, DryRun::No, body, &mut share, now);
    let again = read_by_tree(row, &path, &headers, DryRun::No, body, &mut share, now);
    match (read, again) {
        (Ok(read), Ok(again)) => {
            assert!(read.command.fingerprint() == again.command.fingerprint());
            assert_eq!(read.command.key(), again.command.key());
        }
        (Err(rejection), Err(again)) => {
            assert_eq!(format!("{rejection:?}"), format!("{again:?}"));
        }
        _ => panic!("a body is read straight, and refused by its tree"),
    }
}
