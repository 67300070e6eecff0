//! Scenarios in the form given, when, then, for the tests of operations.
//!
//! A scenario holds committed state in memory and carries commands out like the engine: read,
//! decide, apply. It checks that a refusal has changed nothing.

#![allow(clippy::unwrap_used)]

use crate::base::text::MemberId;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use uuid::Uuid;

use super::change::{Change, RankChange};
use super::decoded::Kept;
use super::erased::{AnyCommand, AnyDecision, AnyOperation};
use super::fact_kinds::FACTS;
use super::index::IndexKey;
use super::operation::{Context, Disposition, IdSource, OutboxMessage, Parts};
use super::outbox::message::{Message, birth, born};
use super::outbox::report::{Attempt, RecordAttempt};
use super::rank::Rank;
use super::read::{ReadRequest, Representation};
use super::reference::put::read_fact;
use super::reference::samples;
use super::rejection::{Class, Rejection};
use super::report::Report;
use super::resource::{ReadView, Resource, Source};
use super::stored::Versioned;
use crate::base::actor::{Actor, ActorKind};
use crate::base::codec;
use crate::base::digest::{Digest, Fingerprint};
use crate::base::json::{Json, Reader};
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::catalogue::{self, KeySource, MANAGEMENT, MANAGEMENT_READS, OPERATIONS, READS, Row};

/// Committed state in memory.
#[derive(Clone, Default, PartialEq)]
struct Memory {
    states: BTreeMap<Digest, (Vec<u8>, u64)>,
    names: BTreeMap<IndexKey, Digest>,
    lists: BTreeMap<IndexKey, BTreeSet<Digest>>,
    ranks: BTreeMap<IndexKey, BTreeSet<(Rank, Digest)>>,
    position: u64,
    slot: Slot,
}

/// The place for a resource that is kept decoded. What is in it is no part of the committed state: a copy is empty,
/// and all are equal.
#[derive(Default)]
struct Slot(RefCell<Option<(Digest, Kept)>>);

impl Clone for Slot {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Slot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Source for Memory {
    fn read(&self, key: Digest, read: &mut dyn FnMut(&[u8])) -> Option<u64> {
        let (bytes, position) = self.states.get(&key)?;
        read(bytes);
        Some(*position)
    }

    fn holder(&self, name: IndexKey) -> Option<Digest> {
        self.names.get(&name).copied()
    }

    fn secondary_touched(&self, list: IndexKey) -> u64 {
        // Scenarios validate no read sets, so the number of entries is enough.
        let ranked = self.ranks.get(&list).map_or(0, BTreeSet::len);
        self.lists.get(&list).map_or(ranked, BTreeSet::len) as u64
    }

    fn listed(&self, list: IndexKey) -> Vec<Digest> {
        self.lists
            .get(&list)
            .into_iter()
            .flatten()
            .copied()
            .collect()
    }

    fn last_ranked(&self, list: IndexKey) -> Option<Digest> {
        self.ranks.get(&list)?.last().map(|(_, key)| *key)
    }

    fn ranked(&self, list: IndexKey) -> Vec<Digest> {
        let ranked = self.ranks.get(&list).into_iter().flatten();
        ranked.map(|(_, key)| *key).collect()
    }

    fn take_decoded(&self, key: Digest) -> Option<Kept> {
        let is_it = |held: &mut (Digest, Kept)| held.0 == key;
        let (_, kept) = self.slot.0.borrow_mut().take_if(is_it)?;
        let (_, position) = self.states.get(&key)?;
        (kept.position == *position).then_some(kept)
    }

    fn keep_decoded(&self, key: Digest, kept: Kept) {
        *self.slot.0.borrow_mut() = Some((key, kept));
    }
}

/// A source that counts how many states are read from it.
struct Counting<'a> {
    source: &'a Memory,
    reads: Cell<usize>,
}

impl Source for Counting<'_> {
    fn read(&self, key: Digest, read: &mut dyn FnMut(&[u8])) -> Option<u64> {
        self.reads.set(self.reads.get() + 1);
        self.source.read(key, read)
    }

    fn holder(&self, name: IndexKey) -> Option<Digest> {
        self.source.holder(name)
    }

    fn secondary_touched(&self, list: IndexKey) -> u64 {
        self.source.secondary_touched(list)
    }

    fn listed(&self, list: IndexKey) -> Vec<Digest> {
        self.source.listed(list)
    }

    fn last_ranked(&self, list: IndexKey) -> Option<Digest> {
        self.source.last_ranked(list)
    }

    fn ranked(&self, list: IndexKey) -> Vec<Digest> {
        self.source.ranked(list)
    }
}

/// Sequential identifiers, the same in every run.
#[derive(Clone, Default)]
struct Counter(Cell<u64>);

impl IdSource for Counter {
    fn id(&self) -> Uuid {
        self.0.set(self.0.get() + 1);
        Uuid::from_u64_pair(0x0199_0000_0000_7000, 0x8000_0000_0000_0000 | self.0.get())
    }

    fn outbox_number(&self) -> i64 {
        self.0.set(self.0.get() + 1);
        i64::try_from(self.0.get()).unwrap()
    }
}

/// The result of a command.
#[derive(Debug)]
pub enum Then {
    /// The command was committed, with this answer.
    Committed(Value),
    /// The command is the replay of the one with this key.
    ReplayOf(String),
    /// The command was answered without a commit.
    Answered(Value),
    /// The command was refused.
    Refused(Rejection),
}

impl Then {
    /// Returns the answer of a commit; panics when there was none.
    #[track_caller]
    pub fn committed(self) -> Value {
        match self {
            Self::Committed(body) => body,
            other => panic!("not a commit: {other:?}"),
        }
    }

    /// Returns the answer without a commit; panics when there was none.
    #[track_caller]
    pub fn answered(self) -> Value {
        match self {
            Self::Answered(body) => body,
            other => panic!("not an answer without a commit: {other:?}"),
        }
    }

    /// Returns the refusal; panics when there was none.
    #[track_caller]
    pub fn refusal(self) -> Rejection {
        match self {
            Self::Refused(rejection) => rejection,
            other => panic!("not a refusal: {other:?}"),
        }
    }

    /// Returns the code of the refusal.
    #[track_caller]
    pub fn code(self) -> &'static str {
        self.refusal().code
    }

    /// Returns the faults of an invalid command: path and code.
    #[track_caller]
    pub fn faults(self) -> Vec<(String, &'static str)> {
        let faults = self.refusal().faults;
        faults
            .into_iter()
            .map(|fault| (fault.path, fault.code.as_str()))
            .collect()
    }
}

/// Asserts that the command was rejected as a conflict with this code at these fields.
#[track_caller]
pub fn assert_conflict(then: Then, code: &str, members: &[&str]) {
    let refusal = then.refusal();
    assert_eq!((refusal.class, refusal.code), (Class::Conflict, code));
    assert_eq!(refusal.conflicting, members);
}

/// The identifier of a scenario's log.
const LOG_ID: [u8; 16] = [0x5c; 16];

/// A service in memory.
#[derive(Clone)]
pub struct Scenario {
    memory: Memory,
    ids: Counter,
    actor: Actor,
    now: Timestamp,
    key: u64,
    /// The messages sent so far.
    pub outbox: Vec<OutboxMessage>,
    /// Whether a receiver is configured for a topic.
    pub has_receiver: &'static dyn Fn(&str) -> bool,
    /// Whether all effects of the last commit are done.
    pub disposition: Disposition,
    /// The size of the last commit.
    pub cost: Cost,
}

/// The size of a commit, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Size of its events and its answer, which its record contains.
    pub record: usize,
    /// Size of the states after it, which are written in memory.
    pub states: usize,
}

impl Default for Scenario {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario {
    /// Makes an empty service on 2026-11-20 at noon, UTC; the actor is a workflow.
    pub fn new() -> Self {
        Self {
            memory: Memory::default(),
            ids: Counter::default(),
            actor: actor(ActorKind::SystemWorkflow, "workflow"),
            now: Timestamp::parse("2026-11-20T12:00:00Z").unwrap(),
            key: 0,
            outbox: Vec::new(),
            has_receiver: &|_| false,
            disposition: Disposition::Done,
            cost: Cost::default(),
        }
    }

    /// Makes a service that contains the samples' world.
    pub fn of_samples() -> Self {
        let mut service = Self::new();
        for line in samples::lines() {
            let then = service.put_fact_as_sent(line);
            assert!(matches!(then, Then::Committed(_)), "{line}: {then:?}");
        }
        service
    }

    /// Lets `actor` send the following commands.
    pub fn acting(&mut self, actor: Actor) -> &mut Self {
        self.actor = actor;
        self
    }

    /// Sets the time.
    pub fn at(&mut self, now: &str) -> &mut Self {
        self.now = Timestamp::parse(now).unwrap();
        self
    }

    /// Puts a reference fact; panics when it is invalid or not applied.
    #[track_caller]
    pub fn fact(&mut self, kind: &str, id: &str, revision: i64, facts: Value) -> &mut Self {
        let then = self.put_fact(kind, id, revision, facts);
        assert!(matches!(then, Then::Committed(_)), "{kind} {id}: {then:?}");
        self
    }

    /// Puts a reference fact.
    pub fn put_fact(&mut self, kind: &str, id: &str, revision: i64, facts: Value) -> Then {
        let text =
            serde_json::json!({"kind": kind, "id": id, "revision": revision, "facts": facts});
        self.put_fact_as_sent(&text.to_string())
    }

    /// Puts a reference fact from this JSON text.
    pub fn put_fact_as_sent(&mut self, text: &str) -> Then {
        let json = Json::parse(text.as_bytes()).unwrap();
        let mut at = Reader::new(self.now);
        let envelope = read_fact(&json, FACTS, &mut at);
        let Some(command) = envelope.command else {
            return Then::Refused(Rejection::invalid(at.into_faults()));
        };
        self.carry_out(&*command, "")
    }

    /// Puts a resource into a state that no command of this service leads to.
    pub fn given<R: Resource>(&mut self, state: &R) -> &mut Self {
        let (key, memory) = (state.key(), &mut self.memory);
        memory.position += 1;
        memory.names.retain(|_, holder| *holder != key);
        for listed in memory.lists.values_mut() {
            listed.remove(&key);
        }
        let before = memory.states.get(&key);
        let before = before.and_then(|(bytes, _)| codec::decode::<R>(bytes).ok());
        for (list, rank) in before.iter().flat_map(R::ranked) {
            memory.ranks.entry(list).or_default().remove(&(rank, key));
        }
        let bytes = codec::encode(state);
        memory.states.insert(key, (bytes, memory.position));
        let names = state.unique_keys().into_iter();
        memory.names.extend(names.map(|name| (name, key)));
        for list in state.secondary_keys() {
            memory.lists.entry(list).or_default().insert(key);
        }
        for (list, rank) in state.ranked() {
            memory.ranks.entry(list).or_default().insert((rank, key));
        }
        self
    }

    /// Sends a command of the operation named, with a fresh key where it has a header for one.
    pub fn when(&mut self, operation: &str, path: &[(&str, &str)], body: &Value) -> Then {
        self.key += 1;
        let key = format!("header-key-{}", self.key);
        self.when_keyed(operation, &key, path, body)
    }

    /// Sends a command of the operation named, with this key in the header.
    pub fn when_keyed(
        &mut self,
        operation: &str,
        key: &str,
        path: &[(&str, &str)],
        body: &Value,
    ) -> Then {
        let row = OPERATIONS
            .iter()
            .chain(MANAGEMENT)
            .find(|row| row.name == operation)
            .expect("the catalogue has the operation");
        self.when_decided_by(row.operation, row, key, path, body)
    }

    /// Sends a command of the operation of `row`, with this key in the header; `operation` reads
    /// and decides it instead, as if another system answered differently.
    pub fn when_decided_by(
        &mut self,
        operation: &dyn AnyOperation,
        row: &'static Row,
        key: &str,
        path: &[(&str, &str)],
        body: &Value,
    ) -> Then {
        let text = body.to_string();
        let json = Json::parse(text.as_bytes()).unwrap();
        let mut at = Reader::new(self.now);
        let parts = Parts { path, body: &json };
        let command = operation.read(row.name, &parts, &mut at);
        let Some(command) = command.filter(|_| at.is_clean()) else {
            let faults = at.into_faults();
            assert!(!faults.is_empty(), "a refusal names its fault");
            return Then::Refused(Rejection::invalid(faults));
        };
        let key = match row.key {
            KeySource::Header | KeySource::HeaderIfSent => key.to_owned(),
            _ => command.key().unwrap_or_default().to_owned(),
        };
        self.carry_out(&*command, &key)
    }

    /// Records this attempt to send the message of this number to its receiver.
    pub fn attempted(&mut self, number: i64, attempt: Attempt) -> &mut Self {
        let message = Message::of_number(&ReadView::new(&self.memory), number);
        self.recorded(&RecordAttempt {
            number,
            revision: message.map_or(Revision::FIRST, |message| message.revision),
            attempt,
        })
    }

    /// Records a report of the service itself: the end of an attempt, the progress of deliveries.
    pub fn recorded(&mut self, report: &impl Report) -> &mut Self {
        self.carry_out(report, "");
        self
    }

    fn carry_out(&mut self, command: &dyn AnyCommand, key: &str) -> Then {
        let ids = Counter::default();
        let context = Context {
            actor: &self.actor,
            now: self.now,
            at: self.now,
            key,
            fingerprint: command.fingerprint(),
            new_id: self.ids.id(),
            has_receiver: self.has_receiver,
            plain_webhooks: false,
            ids: &self.ids,
            view: ReadView::new(&self.memory),
            fact_revision: crate::domain::fact_kinds::revision_of,
        };
        let target = command.target(&context);
        let names = command.unique_keys(&context);
        let is_kept = self.memory.slot.0.borrow().is_some();
        ids.0.set(self.ids.0.get());
        let outcome = command.decide(target, &mut None, &context);
        if is_kept {
            *self.memory.slot.0.borrow_mut() = None;
            let context = Context {
                fingerprint: command.fingerprint(),
                ids: &ids,
                view: ReadView::new(&self.memory),
                ..context
            };
            assert_same(&outcome, &command.decide(target, &mut None, &context));
        }
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(rejection) => return Then::Refused(rejection),
        };
        drop(context);
        let decided = match outcome {
            AnyDecision::ReplayOf(key) => return Then::ReplayOf(key.into()),
            AnyDecision::Answer(body) => return Then::Answered(json_or_null(&body)),
            AnyDecision::Commit(decided) => decided,
        };
        self.memory.position += 1;
        let changes = decided.changes.iter();
        let events: usize = changes.clone().map(|change| change.event.len()).sum();
        self.cost = Cost {
            record: events + decided.answer.len(),
            states: changes.map(|change| change.state.len()).sum(),
        };
        let born = decided.outbox.iter().map(|message| {
            // As a replay reads it: records do not store what the sender knows of the body.
            let recorded = OutboxMessage {
                about: None,
                ..message.clone()
            };
            Change {
                event: codec::encode(&birth(&recorded, LOG_ID)),
                ..born(message, LOG_ID, self.now).1
            }
        });
        let changes = decided.changes.into_iter().chain(born.collect::<Vec<_>>());
        for change in changes {
            let resource = catalogue::resource(change.kind)
                .expect("add the kind to RESOURCES in src/catalogue.rs");
            let before = self
                .memory
                .states
                .get(&change.key)
                .map(|(state, _)| state.as_slice());
            let mut replayed = Vec::new();
            let event = Versioned {
                version: change.version,
                bytes: &change.event,
            };
            let told = resource.replay(before, event, self.now, &mut replayed);
            let told = told.unwrap();
            assert_eq!(
                (told.key, &replayed),
                (change.key, &change.state),
                "replay makes the same change"
            );
            let held = before.map(|state| resource.entries(state).unwrap());
            let holds = resource.entries(&change.state).unwrap();
            let expected = held.is_none().then_some(&holds);
            assert_eq!(told.born.as_ref(), expected, "a birth tells all entries");
            let moved = |held: &[IndexKey], left: &[IndexKey], taken: &[IndexKey]| {
                let kept = held.iter().filter(|name| !left.contains(name));
                kept.chain(taken).copied().collect::<BTreeSet<_>>()
            };
            let held = held.as_ref();
            assert_eq!(
                moved(
                    held.map_or(&[], |held| &held.unique),
                    &change.unique_left,
                    &change.unique_taken
                ),
                moved(&holds.unique, &[], &[]),
                "a commit leaves and takes what the states' names differ in"
            );
            assert_eq!(
                moved(
                    held.map_or(&[], |held| &held.secondary),
                    &change.secondary_left,
                    &change.secondary_joined
                ),
                moved(&holds.secondary, &[], &[]),
                "a commit leaves and joins what the states' lists differ in"
            );
            let has = |name: &IndexKey| resource.decode_with_name(&change.state, *name).unwrap().0;
            assert!(
                holds.unique.iter().all(has) && !change.unique_left.iter().any(has),
                "a state has the names that it lists, and no others"
            );
            if change.list.is_none() {
                assert_eq!(
                    held.and_then(|held| held.place.as_ref()),
                    holds.place.as_ref(),
                    "a commit without a move leaves the place in the list as it is"
                );
            }
            let had = held.map_or_else(Vec::new, |held| held.ranks.clone());
            assert_eq!(
                RankChange::all(had, holds.ranks),
                change.ranks,
                "a commit changes the ranks that the states differ in"
            );
            for RankChange {
                list,
                before,
                after,
            } in change.ranks
            {
                let ranks = self.memory.ranks.entry(list).or_default();
                if let Some(rank) = before {
                    assert!(ranks.remove(&(rank, change.key)), "a rank before was had");
                }
                if let Some(rank) = after {
                    assert!(ranks.insert((rank, change.key)), "a rank is had once");
                }
            }
            for name in &change.unique_taken {
                assert!(
                    names.contains(name) || before.is_none(),
                    "a name that a commit takes was asked for before"
                );
                assert_eq!(self.memory.names.insert(*name, change.key), None);
            }
            for name in &change.unique_left {
                assert_eq!(self.memory.names.remove(name), Some(change.key));
            }
            for list in &change.secondary_left {
                let left = self
                    .memory
                    .lists
                    .get_mut(list)
                    .is_some_and(|keys| keys.remove(&change.key));
                assert!(left, "a list that is left was stood in");
            }
            for list in &change.secondary_joined {
                let joined = self
                    .memory
                    .lists
                    .entry(*list)
                    .or_default()
                    .insert(change.key);
                assert!(joined, "a list that is joined was not stood in");
            }
            self.memory
                .states
                .insert(change.key, (change.state, self.memory.position));
        }
        self.outbox.extend(decided.outbox);
        self.disposition = decided.disposition;
        Then::Committed(json_or_null(&decided.answer))
    }

    /// Returns the current state of the resource with this identifier.
    pub fn state<R: Resource>(&self, id: &[&str]) -> Option<R> {
        ReadView::new(&self.memory).get(id)
    }

    /// Returns what `look` finds in a view of the committed state.
    pub fn view<T>(&self, look: impl FnOnce(&ReadView<'_>) -> T) -> T {
        look(&ReadView::new(&self.memory))
    }

    /// Returns the same as [`Scenario::view`], with the number of states that were read for it.
    pub fn counted_view<T>(&self, look: impl FnOnce(&ReadView<'_>) -> T) -> (T, usize) {
        let counting = Counting {
            source: &self.memory,
            reads: Cell::new(0),
        };
        let found = look(&ReadView::new(&counting));
        (found, counting.reads.get())
    }

    /// Returns a view of the committed state, for a test that calls a decision directly.
    pub fn own_view(&self) -> ReadView<'_> {
        ReadView::new(&self.memory)
    }

    /// Reads, as the acting actor, at the path of the read named, filled with `parameters`.
    pub fn read(
        &self,
        name: &str,
        parameters: &[(&str, &str)],
    ) -> Result<(String, Value), Rejection> {
        let row = READS
            .iter()
            .chain(MANAGEMENT_READS)
            .find(|row| row.name == name)
            .expect("the catalogue has the read");
        let view = ReadView::new(&self.memory);
        let request = ReadRequest {
            actor: &self.actor,
            now: self.now,
            path: parameters,
            view: &view,
            access_checked: false,
        };
        (row.read)(&request).map(|Representation { tag, body }| (tag, json_or_null(&body)))
    }

    /// Returns the operation's own body for a command of the acting actor whose key was used before
    /// with other facts.
    pub fn key_reused(
        &self,
        operation: &str,
        path: &[(&str, &str)],
        body: &Value,
    ) -> Option<Value> {
        let command = self.command(operation, path, body);
        let body = command.key_reused(&self.actor, &ReadView::new(&self.memory));
        body.map(|body| json_or_null(&body))
    }

    /// Returns the fingerprint of a command.
    pub fn fingerprint(&self, operation: &str, path: &[(&str, &str)], body: &Value) -> Fingerprint {
        self.command(operation, path, body).fingerprint()
    }

    /// Returns the fingerprint that earlier programs gave a command with fields that say what their absence says.
    pub fn fingerprint_as_sent(
        &self,
        operation: &str,
        path: &[(&str, &str)],
        body: &Value,
    ) -> Option<Fingerprint> {
        self.command(operation, path, body).fingerprint_as_sent()
    }

    /// Reads a command that has no fault.
    fn command(&self, operation: &str, path: &[(&str, &str)], body: &Value) -> Box<dyn AnyCommand> {
        let row = OPERATIONS.iter().find(|row| row.name == operation).unwrap();
        let text = body.to_string();
        let json = Json::parse(text.as_bytes()).unwrap();
        let mut at = Reader::new(self.now);
        let command = row
            .operation
            .read(row.name, &Parts { path, body: &json }, &mut at);
        command.expect("a good command")
    }
}

/// Returns the revision in an entity tag that also has a digest.
#[track_caller]
pub fn revision_of(tag: &str) -> String {
    let (revision, digest) = tag.split_once('-').expect("a revision and a digest");
    assert_eq!(digest.len(), 16, "{tag}");
    revision.to_owned()
}

/// Returns the body with other values in these fields, all of which it has; the path of a field that is in
/// another one has dots between their names.
#[track_caller]
pub fn with(body: &Value, changes: &[(&str, Value)]) -> Value {
    let mut body = body.clone();
    for (path, value) in changes {
        let Some(field) = body.pointer_mut(&pointer(path)) else {
            panic!("there is no field {path} to change");
        };
        *field = value.clone();
    }
    body
}

/// Returns the body with these fields added, none of which it has.
#[track_caller]
pub fn with_added(body: &Value, fields: &[(&str, Value)]) -> Value {
    let mut body = body.clone();
    let members = body.as_object_mut().unwrap();
    for (name, value) in fields {
        let before = members.insert((*name).to_owned(), value.clone());
        assert_eq!(before, None, "there is a field {name} already");
    }
    body
}

/// Returns the body without this field, which it has.
#[track_caller]
pub fn without(body: &Value, path: &str) -> Value {
    let mut body = body.clone();
    let pointer = pointer(path);
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    let parent = body.pointer_mut(parent).and_then(Value::as_object_mut);
    let removed = parent.and_then(|parent| parent.remove(member));
    assert!(removed.is_some(), "there is no field {path} to leave out");
    body
}

/// The JSON pointer (RFC 6901) of a path with dots.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

/// Makes paths and codes comparable with those that [`Then::faults`] returns.
pub fn faults<const N: usize>(faults: [(&str, &'static str); N]) -> Vec<(String, &'static str)> {
    faults.map(|(path, code)| (path.to_owned(), code)).into()
}

/// Asserts that a command is decided in the same way with a resource that is kept decoded and without it.
fn assert_same(with: &Result<AnyDecision, Rejection>, without: &Result<AnyDecision, Rejection>) {
    match (with, without) {
        (Ok(AnyDecision::Commit(with)), Ok(AnyDecision::Commit(without))) => {
            assert_eq!(with.changes, without.changes);
            assert_eq!(with.outbox, without.outbox);
            assert_eq!(with.answer, without.answer);
            assert_eq!(with.disposition, without.disposition);
        }
        (Ok(AnyDecision::ReplayOf(with)), Ok(AnyDecision::ReplayOf(without))) => {
            assert_eq!(with, without);
        }
        (Ok(AnyDecision::Answer(with)), Ok(AnyDecision::Answer(without))) => {
            assert_eq!(with, without);
        }
        (Err(with), Err(without)) => assert_eq!(with, without),
        _ => panic!("a resource that is kept decoded changes the kind of the decision"),
    }
}

fn json_or_null(body: &[u8]) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(body).unwrap()
}

/// Makes an actor with nothing but a kind and a subject.
pub fn actor(kind: ActorKind, subject: &str) -> Actor {
    Actor {
        subject: subject.into(),
        kind,
        member_id: None,
        actor_profile_id: None,
        branch_profile_ids: Vec::new(),
        permissions: Vec::new(),
        email: None,
        email_verified: false,
    }
}

/// Makes an administrator of the head office without any permission, whose profile is `hq-1`.
pub fn headquarters() -> Actor {
    Actor {
        actor_profile_id: Some("hq-1".into()),
        ..actor(ActorKind::HeadquartersAdministrator, "user-hq")
    }
}

/// Makes an actor who is a member.
pub fn member(kind: ActorKind, subject: &str, member_id: &str) -> Actor {
    Actor {
        member_id: Some(MemberId::from_trusted(member_id)),
        ..actor(kind, subject)
    }
}

/// Makes a branch manager of one branch.
pub fn manager(subject: &str, branch: &str) -> Actor {
    Actor {
        branch_profile_ids: vec![branch.into()],
        ..actor(ActorKind::BranchManager, subject)
    }
}
