//! Given, when, then: how the tests of an operation speak.
//!
//! A scenario holds committed state in memory and carries commands out as the engine does: read,
//! decide, apply. A refusal is checked to have changed nothing.

#![allow(clippy::unwrap_used)]

use crate::base::text::MemberId;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use uuid::Uuid;

use super::operation::{
    AnyDecision, AnyOperation, Context, Disposition, IdSource, OutboxMessage, Parts, RankChange,
};
use super::outbox::message::{Message, born};
use super::outbox::report::{Attempt, RecordAttempt};
use super::read::{ReadRequest, Representation};
use super::reference::put::read_fact;
use super::reference::samples;
use super::rejection::{Class, Rejection};
use super::report::Report;
use super::resource::{IndexKey, Rank, ReadView, Resource, Source};
use super::stored::Versioned;
use crate::base::actor::{Actor, ActorKind};
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
        // Nothing is validated here: the number of its entries will do.
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

/// Identifiers in a row, the same in every run.
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

/// What a command came to.
#[derive(Debug)]
pub enum Then {
    /// It was committed; the answer.
    Committed(Value),
    /// It is the replay of the command with this key.
    ReplayOf(String),
    /// It was answered without a commit.
    Answered(Value),
    /// It was refused.
    Refused(Rejection),
}

impl Then {
    /// The answer of a commit.
    #[track_caller]
    pub fn committed(self) -> Value {
        match self {
            Self::Committed(body) => body,
            other => panic!("not a commit: {other:?}"),
        }
    }

    /// The answer without a commit.
    #[track_caller]
    pub fn answered(self) -> Value {
        match self {
            Self::Answered(body) => body,
            other => panic!("not an answer without a commit: {other:?}"),
        }
    }

    /// The refusal.
    #[track_caller]
    pub fn refusal(self) -> Rejection {
        match self {
            Self::Refused(rejection) => rejection,
            other => panic!("not a refusal: {other:?}"),
        }
    }

    /// The code of the refusal.
    #[track_caller]
    pub fn code(self) -> &'static str {
        self.refusal().code
    }

    /// The faults of an invalid command: place and code.
    #[track_caller]
    pub fn faults(self) -> Vec<(String, &'static str)> {
        let faults = self.refusal().faults;
        faults
            .into_iter()
            .map(|fault| (fault.path, fault.code.as_str()))
            .collect()
    }
}

/// The command was rejected as a conflict with this code at these fields.
#[track_caller]
pub fn assert_conflict(then: Then, code: &str, members: &[&str]) {
    let refusal = then.refusal();
    assert_eq!((refusal.class, refusal.code), (Class::Conflict, code));
    assert_eq!(refusal.conflicting, members);
}

/// The log of a scenario.
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
    /// Whether a receiver is named for a topic.
    pub has_receiver: &'static dyn Fn(&str) -> bool,
    /// How far the last commit went.
    pub disposition: Disposition,
    /// What the last commit cost.
    pub cost: Cost,
}

/// What a commit costs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Of its events and its answer: what its record has.
    pub record: usize,
    /// Of the states after it: what is written over in memory.
    pub states: usize,
}

impl Default for Scenario {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario {
    /// An empty service on 2026-11-20 at noon, UTC; the actor is a workflow.
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

    /// The samples' world.
    pub fn of_samples() -> Self {
        let mut service = Self::new();
        for line in samples::lines() {
            let then = service.put_fact_as_sent(line);
            assert!(matches!(then, Then::Committed(_)), "{line}: {then:?}");
        }
        service
    }

    /// From here on, `actor` acts.
    pub fn acting(&mut self, actor: Actor) -> &mut Self {
        self.actor = actor;
        self
    }

    /// From here on, it is this time.
    pub fn at(&mut self, now: &str) -> &mut Self {
        self.now = Timestamp::parse(now).unwrap();
        self
    }

    /// A reference fact comes in; panics when it is invalid or not applied.
    #[track_caller]
    pub fn fact(&mut self, kind: &str, id: &str, revision: i64, facts: Value) -> &mut Self {
        let then = self.put_fact(kind, id, revision, facts);
        assert!(matches!(then, Then::Committed(_)), "{kind} {id}: {then:?}");
        self
    }

    /// A reference fact comes in.
    pub fn put_fact(&mut self, kind: &str, id: &str, revision: i64, facts: Value) -> Then {
        let text =
            serde_json::json!({"kind": kind, "id": id, "revision": revision, "facts": facts});
        self.put_fact_as_sent(&text.to_string())
    }

    /// A reference fact comes in, spelled so.
    pub fn put_fact_as_sent(&mut self, text: &str) -> Then {
        let json = Json::parse(text.as_bytes()).unwrap();
        let mut at = Reader::new(self.now);
        let envelope = read_fact(&json, catalogue::FACTS, &mut at);
        let Some(command) = envelope.command else {
            return Then::Refused(Rejection::invalid(at.into_faults()));
        };
        self.carry_out(&*command, "")
    }

    /// A resource in a state that no command of this service leads to.
    pub fn given<R: Resource>(&mut self, state: &R) -> &mut Self {
        let (key, memory) = (state.key(), &mut self.memory);
        memory.position += 1;
        memory.names.retain(|_, holder| *holder != key);
        for listed in memory.lists.values_mut() {
            listed.remove(&key);
        }
        let before = memory.states.get(&key);
        let before = before.and_then(|(bytes, _)| crate::base::codec::decode::<R>(bytes).ok());
        for (list, rank) in before.iter().flat_map(R::ranked) {
            memory.ranks.entry(list).or_default().remove(&(rank, key));
        }
        let bytes = crate::base::codec::encode(state);
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

    /// The operation named is asked for, with a fresh key where it has a header for one.
    pub fn when(&mut self, operation: &str, path: &[(&str, &str)], body: &Value) -> Then {
        self.key += 1;
        let key = format!("header-key-{}", self.key);
        self.when_keyed(operation, &key, path, body)
    }

    /// The operation named is asked for, with this key in the header.
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

    /// The operation of `row` is asked for, with this key in the header, and `operation` reads
    /// and decides in its place: as when a system around it answers otherwise.
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

    /// The receiver of the message of this number has done this with it.
    pub fn attempted(&mut self, number: i64, attempt: Attempt) -> &mut Self {
        let message = Message::of_number(&ReadView::new(&self.memory), number);
        self.recorded(&RecordAttempt {
            number,
            revision: message.map_or(Revision::FIRST, |message| message.revision),
            attempt,
        })
    }

    /// The service reports this of itself: that an attempt is over, how far deliveries are.
    pub fn recorded(&mut self, report: &impl Report) -> &mut Self {
        self.carry_out(report, "");
        self
    }

    fn carry_out(&mut self, command: &dyn super::operation::AnyCommand, key: &str) -> Then {
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
        let outcome = match command.decide(target, &mut None, &context) {
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
        let born = decided
            .outbox
            .iter()
            .map(|message| born(message, LOG_ID, self.now).1);
        let changes = decided.changes.into_iter().chain(born.collect::<Vec<_>>());
        for change in changes {
            let resource = catalogue::resource(change.kind).expect("the kind is registered");
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

    /// The current state of the resource with this identifier.
    pub fn state<R: Resource>(&self, id: &[&str]) -> Option<R> {
        ReadView::new(&self.memory).get(id)
    }

    /// What `look` finds in a view of the committed state.
    pub fn view<T>(&self, look: impl FnOnce(&ReadView<'_>) -> T) -> T {
        look(&ReadView::new(&self.memory))
    }

    /// As [`Scenario::view`], with how many states were read for it.
    pub fn counted_view<T>(&self, look: impl FnOnce(&ReadView<'_>) -> T) -> (T, usize) {
        let counting = Counting {
            source: &self.memory,
            reads: Cell::new(0),
        };
        let found = look(&ReadView::new(&counting));
        (found, counting.reads.get())
    }

    /// A view of the committed state, for a decision by hand.
    pub fn own_view(&self) -> ReadView<'_> {
        ReadView::new(&self.memory)
    }

    /// What the acting actor reads at `path`, a row of the reads, filled with `parameters`.
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

    /// The operation's own body for a command of the acting actor whose key was used before with
    /// other facts.
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

    /// The fingerprint that a command has.
    pub fn fingerprint(&self, operation: &str, path: &[(&str, &str)], body: &Value) -> Fingerprint {
        self.command(operation, path, body).fingerprint()
    }

    /// A good command.
    fn command(
        &self,
        operation: &str,
        path: &[(&str, &str)],
        body: &Value,
    ) -> Box<dyn super::operation::AnyCommand> {
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

/// The revision in an entity tag that has a digest beside it.
#[track_caller]
pub fn revision_of(tag: &str) -> String {
    let (revision, digest) = tag.split_once('-').expect("a revision and a digest");
    assert_eq!(digest.len(), 16, "{tag}");
    revision.to_owned()
}

fn json_or_null(body: &[u8]) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(body).unwrap()
}

/// An actor with nothing but a kind and a subject.
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

/// An actor who is a member.
pub fn member(kind: ActorKind, subject: &str, member_id: &str) -> Actor {
    Actor {
        member_id: Some(MemberId::from_trusted(member_id)),
        ..actor(kind, subject)
    }
}

/// A branch manager of one branch.
pub fn manager(subject: &str, branch: &str) -> Actor {
    Actor {
        branch_profile_ids: vec![branch.into()],
        ..actor(ActorKind::BranchManager, subject)
    }
}
