//! Data of one version of a resource's form is read by a program with a later version; a program with an earlier
//! version rejects it by its number. Tested with one kind of resource in the forms of two programs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::record::{NewChange, NewRecord, RecordOutcome, SCHEMA};
use super::replay::{Recovered, Replay};
use super::replay_error::ReplayError;
use super::snapshot::{StateEntry, Summary};
use super::tables::StoredState;
use crate::base::codec::{self, Blob, DecodeError};
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::event::{Changed, EventType, PublicEvent, PublicEvents};
use crate::domain::registered::{AnyResource, Kinds, Registered};
use crate::domain::resource::{Kind, Resource};
use crate::domain::stored::{Older, Versioned};
use crate::domain::version::version;

const KIND: Kind = Kind {
    tag: 0x7ffe,
    name: "parcel",
};

crate::wire_enum! {
    /// Enumeration of the first program.
    enum Size {
        /// s
        Small = "small",
    }
}

/// The resource in the first program's form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Parcel {
    id: String,
    size: Size,
    revision: Revision,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum ParcelEvent {
    Sent { id: String, size: Size },
    Moved,
}

impl Resource for Parcel {
    const KIND: Kind = KIND;
    type Event = ParcelEvent;

    fn apply(state: Option<Self>, event: &ParcelEvent, _: Timestamp) -> Self {
        match (state, event) {
            (None, ParcelEvent::Sent { id, size }) => Self {
                id: id.clone(),
                size: *size,
                revision: Revision::FIRST,
            },
            (Some(parcel), ParcelEvent::Moved) => Self {
                revision: Revision::new(parcel.revision.number() + 1),
                ..parcel
            },
            _ => panic!("it cannot follow"),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.id.clone()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}

impl PublicEvents for Parcel {
    const READ_AT: &'static str = "parcels/{}";
    const TYPES: &'static [EventType] = &[];

    fn public_events(_: &Self::Event, _: &Changed<'_>) -> Vec<PublicEvent> {
        Vec::new()
    }
}

crate::wire_enum! {
    /// Enumeration of the second program: one value was added.
    enum SizeNow {
        /// s
        Small = "small",
        /// l
        Large = "large",
    }
}

/// The resource in the second program's form, with one more field, in front.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ParcelNow {
    stops: u64,
    id: String,
    size: SizeNow,
    revision: Revision,
}

/// Events of the second program: two more. The old ones are unchanged: they have the same effect on a state replayed
/// from the log as on one from a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum ParcelEventNow {
    Sent { id: String, size: SizeNow },
    Moved,
    Repacked { size: SizeNow },
    Stopped,
}

/// Converts a state of version 1: the number of stops was not counted then.
fn parcel_of_version_1(bytes: &[u8]) -> Result<ParcelNow, DecodeError> {
    #[derive(Deserialize)]
    struct Parcel {
        id: String,
        size: SizeNow,
        revision: Revision,
    }
    let Parcel { id, size, revision } = codec::decode(bytes)?;
    let stops = 0;
    Ok(ParcelNow {
        stops,
        id,
        size,
        revision,
    })
}

impl Resource for ParcelNow {
    const KIND: Kind = KIND;
    type Event = ParcelEventNow;
    const OLDER: &'static [Older<Self, ParcelEventNow>] = &[Older {
        state: parcel_of_version_1,
        ..Older::ADDED_TO
    }];

    fn apply(state: Option<Self>, event: &ParcelEventNow, _: Timestamp) -> Self {
        match (state, event) {
            (None, ParcelEventNow::Sent { id, size }) => Self {
                stops: 0,
                id: id.clone(),
                size: *size,
                revision: Revision::FIRST,
            },
            (Some(parcel), ParcelEventNow::Moved) => Self {
                revision: Revision::new(parcel.revision.number() + 1),
                ..parcel
            },
            (Some(parcel), ParcelEventNow::Stopped) => Self {
                stops: parcel.stops + 1,
                revision: Revision::new(parcel.revision.number() + 1),
                ..parcel
            },
            (Some(parcel), ParcelEventNow::Repacked { size }) => Self {
                size: *size,
                revision: Revision::new(parcel.revision.number() + 1),
                ..parcel
            },
            _ => panic!("it cannot follow"),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.id.clone()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }
}

impl PublicEvents for ParcelNow {
    const READ_AT: &'static str = "parcels/{}";
    const TYPES: &'static [EventType] = &[];

    fn public_events(_: &Self::Event, _: &Changed<'_>) -> Vec<PublicEvent> {
        Vec::new()
    }
}

fn first_program(tag: u16) -> Option<&'static dyn AnyResource> {
    (tag == KIND.tag).then_some(&Registered::<Parcel>::NEW as &dyn AnyResource)
}

fn second_program(tag: u16) -> Option<&'static dyn AnyResource> {
    (tag == KIND.tag).then_some(&Registered::<ParcelNow>::NEW as &dyn AnyResource)
}

/// Encodes a record with one change of this parcel.
fn record<R: Resource>(id: &str, before: u64, event: &R::Event) -> Vec<u8> {
    let event = codec::encode(event);
    let change = NewChange {
        kind: KIND.tag,
        version: version::<R>(),
        key: KIND.key(&[id]),
        before,
        revision: Revision::FIRST,
        advances: true,
        path: &[],
        event: Blob(event.as_slice()),
        base: None,
    };
    NewRecord {
        schema: SCHEMA,
        at: Timestamp::default(),
        operation: 0,
        subject: "somebody",
        actor: None,
        key: None,
        changes: vec![change],
        outbox: &[],
        outcome: RecordOutcome::None,
    }
    .encode()
}

/// Returns the records of the first program.
fn of_the_first() -> Vec<Vec<u8>> {
    let sent = |id: &str| ParcelEvent::Sent {
        id: id.to_owned(),
        size: Size::Small,
    };
    vec![
        record::<Parcel>("a", 0, &sent("a")),
        record::<Parcel>("b", 0, &sent("b")),
        record::<Parcel>("a", 1, &ParcelEvent::Moved),
    ]
}

/// Returns the records that the second program appends.
fn of_the_second() -> Vec<Vec<u8>> {
    let repacked = ParcelEventNow::Repacked {
        size: SizeNow::Large,
    };
    vec![
        record::<ParcelNow>("a", 3, &ParcelEventNow::Stopped),
        record::<ParcelNow>("b", 2, &repacked),
    ]
}

/// Returns the entries of a snapshot of everything that a program has recovered.
fn snapshot(recovered: &Recovered, kinds: Kinds) -> Vec<Vec<u8>> {
    let summary = Summary {
        forgotten: 0,
        counters: recovered.counters.clone(),
    };
    let mut entries = vec![summary.encode()];
    recovered.tables.each(|kind, key, position, bytes| {
        let standing = StoredState {
            kind,
            key,
            position,
            bytes,
        };
        let version = kinds(kind).unwrap().version();
        entries.push(codec::encode(&StateEntry::new(standing, version, None)));
    });
    entries
}

/// Recovers from a snapshot with its covered position, if there is one, and from the log.
fn opened(
    kinds: Kinds,
    snapshot: Option<(&[Vec<u8>], u64)>,
    log: &[Vec<u8>],
) -> Result<Recovered, ReplayError> {
    let mut replay = Replay::of(kinds);
    let mut covered = 0;
    if let Some((entries, covers)) = snapshot {
        covered = covers;
        replay.snapshot(covers, covers);
        for entry in entries {
            replay.entry(entry)?;
        }
    }
    for (position, record) in (1..).zip(log).filter(|(position, _)| *position > covered) {
        replay.record(position, record)?;
    }
    replay.finish()
}

/// Returns each resource by its identifier: the position of its last change, and its state.
fn states(recovered: &Recovered, kinds: Kinds) -> Value {
    let mut all = serde_json::Map::new();
    recovered.tables.each(|kind, _, position, bytes| {
        let resource = kinds(kind).unwrap();
        let id = resource.id(bytes).unwrap().join("/");
        let state = resource.state_json(bytes).unwrap();
        all.insert(id, json!({"position": position, "state": state}));
    });
    Value::Object(all)
}

#[test]
fn data_of_an_older_version_is_upgraded_and_continued() {
    assert_eq!((version::<Parcel>(), version::<ParcelNow>()), (1, 2));
    let log = of_the_first();
    let old = opened(first_program, None, &log).unwrap();
    let snapshots = snapshot(&old, first_program);

    let from_log = opened(second_program, None, &log).unwrap();
    let expected = json!({
        "a": {"position": 3, "state": {"stops": 0, "id": "a", "size": "small", "revision": 2}},
        "b": {"position": 2, "state": {"stops": 0, "id": "b", "size": "small", "revision": 1}},
    });
    assert_eq!(states(&from_log, second_program), expected);
    let from_snapshot = opened(second_program, Some((&snapshots, 3)), &log).unwrap();
    assert_eq!(from_snapshot.tables.digest(), from_log.tables.digest());

    // The second program continues, takes a snapshot of its own, and starts from that.
    let log = [log, of_the_second()].concat();
    let gone_on = opened(second_program, Some((&snapshots, 3)), &log).unwrap();
    let seen = states(&gone_on, second_program);
    assert_eq!(seen["a"]["state"]["stops"], 1);
    assert_eq!(seen["b"]["state"]["size"], "large");
    let snapshots = snapshot(&gone_on, second_program);
    let again = opened(second_program, Some((&snapshots, 5)), &log).unwrap();
    assert_eq!(again.tables.digest(), gone_on.tables.digest());
}

#[test]
fn data_of_a_newer_version_is_refused_by_its_number() {
    let log = [of_the_first(), of_the_second()].concat();
    let refused = |opened: Result<Recovered, ReplayError>| {
        let error = opened.err().unwrap();
        assert!(error.is_of_other_version(), "{error}");
        error.to_string()
    };
    let advice = "a parcel of version 2, and this carebook knows version 1: it was written by a newer \
                  carebook, run that one";
    assert_eq!(
        refused(opened(first_program, None, &log)),
        format!("position 4: {advice}")
    );
    let new = opened(second_program, None, &log).unwrap();
    let snapshots = snapshot(&new, second_program);
    let error = refused(opened(first_program, Some((&snapshots, 5)), &log));
    assert!(error.contains("the state of a snapshot: "), "{error}");
    assert!(error.ends_with(advice), "{error}");
    // A kind that the older program does not have, and bytes that no program has written.
    let unknown = |_: u16| None;
    let error = refused(opened(unknown, None, &log));
    assert!(
        error.starts_with("position 1: resource kind 32766 is not known here"),
        "{error}"
    );
    let never = Versioned {
        version: 0,
        bytes: &[],
    };
    let error = Registered::<Parcel>::NEW.present(never).unwrap_err();
    assert!(!matches!(error, DecodeError::OtherVersion(_)), "{error}");
}

#[test]
fn a_change_that_follows_on_another_commit_than_it_says_is_damage() {
    let log = |before: u64| {
        let mut log = of_the_first();
        log[2] = record::<Parcel>("a", before, &ParcelEvent::Moved);
        log
    };
    assert!(opened(first_program, None, &log(1)).is_ok());
    for (before, told) in [
        (
            0,
            "position 3: parcel: the change says that the commit before it is none, and that is the one at position 1",
        ),
        (
            2,
            "position 3: parcel: the change says that the commit before it is the one at position 2, and that is the one at position 1",
        ),
    ] {
        let error = opened(first_program, None, &log(before)).err().unwrap();
        assert_eq!(error.to_string(), told);
        assert!(!error.is_of_other_version());
        // After a snapshot that has the state before the change, and not the change.
        let earlier = opened(first_program, None, &log(1)[..2]).unwrap();
        let entries = snapshot(&earlier, first_program);
        let error = opened(first_program, Some((&entries, 2)), &log(before))
            .err()
            .unwrap();
        assert_eq!(error.to_string(), told);
    }
    let first = record::<Parcel>(
        "c",
        2,
        &ParcelEvent::Sent {
            id: "c".to_owned(),
            size: Size::Small,
        },
    );
    let error = opened(first_program, None, &[of_the_first(), vec![first]].concat());
    let error = error.err().unwrap().to_string();
    assert!(
        error.ends_with("the one at position 2, and that is none"),
        "{error}"
    );
}
