//! Data directories of each form in which a carebook ever stored anything: opened, verified, read and
//! written on by the present one, for ever. `tests/golden/N/` has two of one form, `log` and
//! `snapshot` (a log behind a snapshot), with what was asked and answered while they were made.
//!
//! `WRITE_GOLDEN=N cargo test --test main golden::` makes a new one: the sample facts, the walk
//! through all operations, a key that was taken for an answer given under another, subscriptions to
//! webhooks with what they wait for, events published to a NATS server (which has to be there). What its states
//! are by now is in `log.jsonl` and `snapshot.jsonl`; `GOLDEN_STATES=1` writes these anew, for a
//! review of what a new version makes of what is old.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use carebook::base::actor::ActorKind;
use carebook::catalogue::{KeySource, RESOURCES, resource};
use carebook::cli::open::Replaying;
use carebook::cli::serve::walk::{PARTS, Step};
use carebook::domain::reference::samples;
use carebook::domain::sample_actors::sample_actors;
use carebook::journal::record::Record;
use carebook::journal::snapshot::{Layout, StateEntry};
use serde_json::{Value, json};
use wal::{BoxError, SnapshotInfo, Visitor};

use crate::support::{Answer, Client, Server, World, files, good, run, text_of};

/// The key of webhooks in each form that has subscriptions.
const WEBHOOK_KEY: &str = "Z29sZGVuIGdvbGRlbiBnb2xkZW4gZ29sZGVuIGdvbGQ=";
/// The directories of one form.
const DIRECTORIES: [&str; 2] = ["log", "snapshot"];

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The forms that there are, by their numbers.
fn forms() -> BTreeMap<u32, PathBuf> {
    let numbered = std::fs::read_dir(golden()).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let number = path.file_name().unwrap().to_str().unwrap().parse();
        (number.expect("a form has a number"), path)
    });
    numbered.collect()
}

/// Keeps a directory in a form, without the zeros that its files end with; how long they were is
/// written beside it.
fn keep(data: &Path, form: &Path, name: &str) {
    let kept = form.join(name);
    std::fs::create_dir_all(&kept).unwrap();
    let mut lengths = String::new();
    for file in files(data) {
        let file_name = file.file_name().unwrap().to_str().unwrap();
        // A key is no part of a form, and is to be readable by its owner alone.
        if ["lock", "webhook.key"].contains(&file_name) {
            continue;
        }
        let bytes = std::fs::read(&file).unwrap();
        let end = bytes.iter().rposition(|byte| *byte != 0);
        let end = end.map_or(0, |last| last + 1);
        std::fs::write(kept.join(file_name), &bytes[..end]).unwrap();
        lengths.push_str(&format!("{file_name} {}\n", bytes.len()));
    }
    std::fs::write(form.join(format!("{name}.lengths")), lengths).unwrap();
}

/// Makes the directory anew that was kept.
fn unpack(form: &Path, name: &str, data: &Path) {
    std::fs::create_dir_all(data).unwrap();
    let lengths = std::fs::read_to_string(form.join(format!("{name}.lengths"))).unwrap();
    for line in lengths.lines() {
        let (file, length) = line.split_once(' ').unwrap();
        std::fs::copy(form.join(name).join(file), data.join(file)).unwrap();
        let made = std::fs::OpenOptions::new()
            .write(true)
            .open(data.join(file));
        made.unwrap().set_len(length.parse().unwrap()).unwrap();
    }
    put_key(data);
}

/// Puts the key of webhooks where a server looks for it.
fn put_key(data: &Path) {
    std::fs::create_dir_all(data).unwrap();
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600);
    let mut file = file.open(data.join("webhook.key")).unwrap();
    file.write_all(WEBHOOK_KEY.as_bytes()).unwrap();
}

/// What was asked, and what was answered.
struct Asked {
    who: Option<ActorKind>,
    method: String,
    path: String,
    key: Option<String>,
    body: String,
    status: u16,
    answer: Value,
}

impl Asked {
    /// A step of the walk, with what earlier ones have kept in its place.
    fn of(step: &Step, kept: &BTreeMap<&'static str, String>) -> Self {
        let with_kept = |text: &str| {
            let names = kept.iter().rev();
            names.fold(text.to_owned(), |text, (name, value)| {
                text.replace(&format!("${name}"), value)
            })
        };
        let row = step.row();
        let key = row.filter(|row| row.key == KeySource::Header);
        Self {
            who: step.who(),
            method: row.map_or("GET", good::method).to_owned(),
            path: with_kept(&step.path()),
            key: key.map(|row| format!("walk-{}", row.tag)),
            body: with_kept(&step.body().unwrap_or_default()),
            status: 0,
            answer: Value::Null,
        }
    }

    fn send(&self, world: &World, client: &mut Client) -> Answer {
        let mut headers = Vec::new();
        let bearer = self.who.map(|kind| {
            let actor = sample_actors().into_iter().find(|actor| actor.kind == kind);
            format!("Bearer {}", world.token(&actor.unwrap()))
        });
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        headers.extend(self.key.as_deref().map(|key| ("Idempotency-Key", key)));
        if self.method != "GET" {
            headers.push(("Content-Type", "application/json"));
        }
        client.request(&self.method, &self.path, &headers, self.body.as_bytes())
    }

    /// Sends it, and notes what was answered.
    #[track_caller]
    fn answered(&mut self, world: &World, client: &mut Client, status: u16) {
        let answer = self.send(world, client);
        assert_eq!(answer.status, status, "{}: {answer:?}", self.path);
        (self.status, self.answer) = (answer.status, answer.json());
    }

    fn json(&self) -> Value {
        json!({
            "who": self.who.map(ActorKind::as_str),
            "method": self.method,
            "path": self.path,
            "key": self.key,
            "body": self.body,
            "status": self.status,
            "answer": self.answer,
        })
    }

    fn read(line: &str) -> Self {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        Self {
            who: text("who").map(|kind| kind.parse().unwrap()),
            method: text("method").unwrap(),
            path: text("path").unwrap(),
            key: text("key"),
            body: text("body").unwrap(),
            status: line["status"].as_u64().unwrap().try_into().unwrap(),
            answer: line["answer"].clone(),
        }
    }
}

/// An answer without what says whether it is given for the first time.
fn but_for_replay(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(members) = answer.as_object_mut() {
        members.remove("idempotentReplay");
        members.remove("replayedFromAuditId");
        // Forms 1 and 2 showed no message of an acceptance there.
        if let Some(membership) = members.get_mut("managerMembership") {
            membership["sideEffects"] = Value::Null;
        }
    }
    answer
}

/// Every resource of a stopped directory: its kind and identifier, where it was changed last, and
/// its state. A line for each, in order.
fn states(data: &Path) -> String {
    let storage = wal::storage::FileStorage::existing(data).unwrap();
    let mut replaying = Replaying::new("reading");
    wal::verify(Arc::new(storage), &mut replaying).unwrap();
    let mut lines = Vec::new();
    replaying.finish().tables.each(|kind, _, position, bytes| {
        let resource = resource(kind).unwrap();
        let state = json!({
            "kind": resource.kind().name,
            "id": resource.id(bytes).unwrap(),
            "position": position,
            "state": resource.state_json(bytes).unwrap(),
        });
        lines.push(state.to_string() + "\n");
    });
    lines.sort();
    lines.concat()
}

/// Kinds and versions in a directory's records, and in its snapshots.
#[derive(Default)]
struct Versions {
    records: BTreeSet<(u16, u16)>,
    states: BTreeSet<(u16, u16)>,
    layout: Option<Layout>,
    covers: u64,
}

impl Versions {
    fn of(data: &Path) -> Self {
        let storage = wal::storage::FileStorage::existing(data).unwrap();
        let mut versions = Self::default();
        wal::verify(Arc::new(storage), &mut versions).unwrap();
        versions
    }
}

impl Visitor for Versions {
    fn record(&mut self, record: wal::Record<'_>) -> Result<(), BoxError> {
        let record = Record::decode(record.payload)?;
        let changes = record.changes.iter();
        self.records
            .extend(changes.map(|change| (change.kind, change.version)));
        Ok(())
    }

    fn snapshot(&mut self, info: &SnapshotInfo) -> Result<(), BoxError> {
        self.layout = None;
        self.covers = info.covers;
        Ok(())
    }

    fn kept(&mut self, _: wal::Record<'_>) -> Result<(), BoxError> {
        Ok(())
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), BoxError> {
        let Some(layout) = self.layout else {
            self.layout = Some(Layout::of(entry)?);
            return Ok(());
        };
        let entry = StateEntry::decode(entry, layout)?;
        self.states.insert((entry.kind, entry.version));
        Ok(())
    }
}

/// What the workflow asks for of webhooks: one whose receiver is not there, one that is paused and
/// has a second secret.
fn subscribe(world: &World, client: &mut Client) -> Vec<Asked> {
    let ask = |method: &str, path: String, body: Value, number: usize| Asked {
        who: Some(ActorKind::SystemWorkflow),
        method: method.to_owned(),
        path,
        key: Some(format!("webhooks-{number}")),
        body: body.to_string(),
        status: 0,
        answer: Value::Null,
    };
    let mut asked: Vec<Asked> = Vec::new();
    for (number, types) in ["carebook.settlement-statement.*", "carebook.branch.*"]
        .iter()
        .enumerate()
    {
        let body = json!({"url": "https://receiver.invalid/hooks", "types": [types], "description": "Kept."});
        asked.push(ask(
            "POST",
            "/webhook-subscriptions".to_owned(),
            body,
            number,
        ));
        asked[number].answered(world, client, 201);
    }
    let paused = format!(
        "/webhook-subscriptions/{}",
        asked[1].answer["subscriptionId"].as_str().unwrap()
    );
    let body = json!({"status": "paused", "expectedRevision": 1});
    asked.push(ask("PATCH", paused.clone(), body, 2));
    asked.push(ask(
        "POST",
        format!("{paused}/secret-rotations"),
        json!({"expectedRevision": 2}),
        3,
    ));
    for asked in &mut asked[2..] {
        asked.answered(world, client, 200);
    }
    asked
}

/// Sample facts, subscriptions, the walk, a search, and a second key for an answer.
fn make(world: &World) -> Vec<Asked> {
    put_key(&world.data());
    let nats = crate::nats::Nats::started().expect("a NATS server to publish to");
    let server = Server::start_with(world, &["--nats", &nats.url()]);
    let mut client = server.client();
    let facts: Vec<Value> = samples::lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let placed = client.put_facts(&world.workflow(), &facts);
    assert_eq!(placed.status, 200, "{placed:?}");
    let mut asked = subscribe(world, &mut client);
    let mut kept = BTreeMap::new();
    for step in PARTS.iter().flat_map(|part| part.steps) {
        let mut next = Asked::of(step, &kept);
        next.answered(world, &mut client, step.status());
        for name in step.kept() {
            kept.insert(name, text_of(&next.answer, name).expect(name));
        }
        asked.push(next);
    }
    let mut administered = asked
        .iter()
        .filter(|asked| asked.path.starts_with("/billing-engine"));
    let audit = administered.find(|asked| asked.method == "POST").unwrap();
    let mut search: Value = serde_json::from_str(&audit.body).unwrap();
    search.as_object_mut().unwrap().remove("paymentId");
    for (member, value) in [
        ("operationAction", "search_payments"),
        ("searchKey", "booking-1"),
        ("idempotencyKey", "walk-21-search"),
    ] {
        search[member] = Value::from(value);
    }
    let mut search = Asked {
        path: audit.path.clone(),
        method: audit.method.clone(),
        key: None,
        body: search.to_string(),
        answer: Value::Null,
        ..*audit
    };
    search.answered(world, &mut client, 200);
    asked.push(search);
    let deposit = asked
        .iter()
        .find(|asked| asked.path == "/settlement-deposit-requests");
    let deposit = deposit.unwrap();
    let mut second = Asked {
        path: deposit.path.clone(),
        method: deposit.method.clone(),
        key: None,
        body: deposit.body.replace("walk-9", "walk-9-again"),
        answer: Value::Null,
        ..*deposit
    };
    let answer = second.send(world, &mut client);
    (second.status, second.answer) = (answer.status, answer.json());
    assert_eq!(
        second.answer["statementId"], deposit.answer["statementId"],
        "{answer:?}"
    );
    asked.push(second);
    while server.metric("carebook_nats_waiting_positions") > 0.0 {}
    assert_eq!(server.stop(), Some(0));
    // A message changes, too.
    let data = world.data();
    let skip = ["outbox", "skip", "1", "--reason", "By hand.", "--data"];
    let skipped = run(&[&skip[..], &[data.to_str().unwrap()]].concat());
    assert_eq!(skipped.0, Some(0), "{skipped:?}");
    asked
}

/// One deposit more, of what is not there yet.
fn write_on(world: &World, client: &mut Client, code: &str) -> String {
    let body = world.deposit_request(code, code);
    let opened = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
    assert_eq!(opened.status, 201, "{opened:?}");
    opened.json()["statementId"].as_str().unwrap().to_owned()
}

fn write(form: &Path) {
    let world = World::new();
    let asked = make(&world);
    let data = world.data();
    keep(&data, form, "log");
    let compact = run(&["compact", "--keep", "0s", "--data", data.to_str().unwrap()]);
    assert_eq!(compact.0, Some(0), "{compact:?}");
    let server = Server::start(&world);
    write_on(&world, &mut server.client(), "after-the-snapshot");
    assert_eq!(server.stop(), Some(0));
    keep(&data, form, "snapshot");
    let lines: String = asked
        .iter()
        .map(|asked| format!("{}\n", asked.json()))
        .collect();
    std::fs::write(form.join("walk.jsonl"), lines).unwrap();
}

/// A world whose data directory is a copy of this one.
fn world_of(form: &Path, name: &str) -> World {
    let world = World::new();
    unpack(form, name, &world.data());
    world
}

#[test]
fn every_form_ever_stored_is_opened_verified_read_and_written_on() {
    if let Ok(number) = std::env::var("WRITE_GOLDEN") {
        let form = golden().join(number);
        assert!(!form.exists(), "a form that is there never changes");
        write(&form);
    }
    let cases = forms()
        .into_values()
        .flat_map(|form| DIRECTORIES.map(|name| (form.clone(), name)));
    for (form, name) in cases {
        let what = format!("{} {name}", form.display());
        let world = world_of(&form, name);
        let data = world.data();
        let verified = run(&["verify", "--data", data.to_str().unwrap()]);
        assert_eq!(verified.0, Some(0), "{what}: {verified:?}");
        let known = form.join(format!("{name}.jsonl"));
        let found = states(&data);
        if std::env::var_os("GOLDEN_STATES").is_some() || !known.exists() {
            std::fs::write(&known, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&known).unwrap();
        for (found, expected) in found.lines().zip(expected.lines()) {
            assert_eq!(found, expected, "{what}");
        }
        assert_eq!(found.len(), expected.len(), "{what}");

        // Each answer once more, under the key that it was given under then.
        let server = Server::start(&world);
        let mut client = server.client();
        let walk = std::fs::read_to_string(form.join("walk.jsonl")).unwrap();
        for line in walk.lines() {
            let asked = Asked::read(line);
            let again = asked.send(&world, &mut client);
            let once = again.status == 200 && asked.status == 201;
            assert!(again.status == asked.status || once, "{what}: {again:?}");
            let (found, expected) = (but_for_replay(&again.json()), but_for_replay(&asked.answer));
            assert_eq!(found, expected, "{what}: {} {}", asked.method, asked.path);
        }
        let id = write_on(&world, &mut client, "written-on");
        server.kill();
        let server = Server::start(&world);
        let path = format!("/settlement-statements/{id}");
        let read = server.client().get(&path, &world.headquarters());
        assert_eq!(read.status, 200, "{what}: {read:?}");
        assert_eq!(server.stop(), Some(0));
        let verified = run(&["verify", "--data", data.to_str().unwrap()]);
        assert_eq!(verified.0, Some(0), "{what}: {verified:?}");
    }
}

#[test]
fn every_kind_stands_in_some_golden_directory_in_each_version() {
    let mut missing = BTreeSet::new();
    for resource in RESOURCES {
        let kind = resource.kind();
        missing.extend((1..=resource.version()).map(|version| (kind.tag, version)));
    }
    let mut missing = [missing.clone(), missing];
    for form in forms().into_values() {
        for name in DIRECTORIES {
            let world = world_of(&form, name);
            let versions = Versions::of(&world.data());
            missing[0].retain(|version| !versions.records.contains(version));
            missing[1].retain(|version| !versions.states.contains(version));
        }
    }
    let none = [BTreeSet::new(), BTreeSet::new()];
    assert_eq!(
        missing, none,
        "kinds with their versions of which no record, and no snapshot, is in tests/golden: \
         WRITE_GOLDEN=N cargo test --test main golden::, where N is the next number"
    );
}

#[test]
fn a_golden_directory_is_small_and_has_all_that_can_be_in_one() {
    for form in forms().into_values() {
        let bytes: u64 = files(&form)
            .iter()
            .map(|file| file.metadata().unwrap().len())
            .sum();
        assert!(bytes < 512 << 10, "{}: {bytes} bytes", form.display());
        let world = world_of(&form, "snapshot");
        assert!(Versions::of(&world.data()).covers > 0);
        let data = world.data();
        let found = run(&["verify", "--json", "--data", data.to_str().unwrap()]);
        let found: Value = serde_json::from_str(&found.1).unwrap();
        for what in ["keys", "outboxMessages"] {
            assert!(
                found[what].as_u64() > Some(0),
                "{}: {found}",
                form.display()
            );
        }
    }
}
