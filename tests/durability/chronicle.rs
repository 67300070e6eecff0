//! The log as a witness: its records, read while no server has it open, against all responses.
//!
//! The log is replayed record by record. On the way each command is decided again by the library,
//! on the state before its record, and has to come to the record's changes and response, to the
//! byte; and each response has to follow from the state at its position: a commit's is that of its
//! record, a replay's the stored one, a rejection's and a read's what the same decision makes of
//! that state. Also checked is the order of real time: what ended before something else began has
//! no higher position.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use carebook::base::actor::Actor;
use carebook::base::digest::{Digest, KeyDigest};
use carebook::base::json::{Json, Reader};
use carebook::base::time::Timestamp;
use carebook::catalogue::{self, KeySource, OPERATIONS, READS, Row};
use carebook::cli::open::Replaying;
use carebook::domain::change::{Change, RankChange};
use carebook::domain::erased::{AnyCommand, AnyDecision};
use carebook::domain::fact_kinds;
use carebook::domain::index::IndexKey;
use carebook::domain::operation::{Context, Disposition, IdSource, OutboxMessage, Parts};
use carebook::domain::outbox::message::born;
use carebook::domain::read::ReadRequest;
use carebook::domain::reference::fact_lines::Incoming;
use carebook::domain::reference::kinds::actor::{ActorFact, ActorLifecycle};
use carebook::domain::rejection::{Class, Rejection};
use carebook::domain::resource::{ReadView, Source as _};
use carebook::engine::CommandResult;
use carebook::http::response::{self, Problems, tagged};
use carebook::journal::lineage::Lineage;
use carebook::journal::record::{Record, RecordOutcome, key_digest};
use carebook::journal::tables::Tables;
use http_body_util::BodyExt as _;
use serde_json::Value;
use uuid::Uuid;
use wal::{BoxError, Visitor};

use crate::model::world::{ACTORS, Command, FACTS, WORKFLOW, needs_token};
use crate::support::{self, Answer};

/// A point in time, on the test's own clock and on everybody's.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub since: Duration,
    /// Milliseconds since 1970.
    pub wall: i64,
}

/// A command or a read, and its response.
#[derive(Clone, Debug)]
pub struct Told {
    pub command: Arc<Command>,
    pub sent: Moment,
    pub ended: Moment,
    /// `None` when the connection broke before the answer.
    pub answer: Option<Answer>,
    /// The process that answered.
    pub by: u32,
    /// Whether that one follows another one: then it may be behind, but does not go back.
    pub follows: bool,
}

impl Told {
    /// Whether it changes nothing.
    pub fn is_read(&self) -> bool {
        self.command.op > FACTS
    }

    /// The position that it rests on, of an answer that says something of the state.
    pub fn needs_facts(&self) -> Option<u64> {
        let answer = self.answer.as_ref()?;
        answer.position().filter(|_| answer.status != 503)
    }
}

/// When a process is seen to be the writer, as far as clients can see: by its responses to commands
/// that depend on its state.
struct Writing {
    /// When the first of these commands was asked. Processes become writers in this order: one that is
    /// stopped may give its first response after the next one has, but to what was asked before.
    asked: Duration,
    /// The end of the first response.
    since: Duration,
}

fn writing(told: &[Told]) -> BTreeMap<u32, Writing> {
    let mut all: BTreeMap<u32, Writing> = BTreeMap::new();
    let commands = told.iter().filter(|told| !told.is_read());
    for told in commands.filter(|told| told.needs_facts().is_some()) {
        let (asked, since) = (told.sent.since, told.ended.since);
        let writing = all.entry(told.by).or_insert(Writing { asked, since });
        writing.asked = asked.min(writing.asked);
        writing.since = since.min(writing.since);
    }
    all
}

/// Marks the reads of processes that follow, which are all that were asked before it had answered a
/// command; and complains of what was asked of one that wrote after another one had answered in its
/// place, and was answered all the same.
pub fn tell_apart(told: &mut [Told]) -> Vec<String> {
    let writing = writing(told);
    let mut complaints = Vec::new();
    for told in told {
        let Some(own) = writing.get(&told.by) else {
            told.follows = told.is_read();
            continue;
        };
        told.follows = told.is_read() && told.sent.since < own.since;
        let later = writing.values().filter(|other| other.asked > own.asked);
        let replaced = later.map(|other| other.since).min();
        let is_too_late = replaced.is_some_and(|since| told.sent.since > since);
        if is_too_late && !told.follows && told.needs_facts().is_some() {
            complaints.push(format!("it was replaced before that was asked: {told:#?}"));
        }
    }
    complaints
}

/// The records of a log, those that were removed from it since among them.
#[derive(Default)]
pub struct Chronicle {
    pub records: Vec<Vec<u8>>,
    /// The first position that is shown at present, and how often it had moved on.
    first: u64,
    lineage: Lineage,
    compactions: u64,
    /// How often there was a snapshot, and one that was not finished.
    with_snapshot: u64,
    in_a_snapshot: u64,
}

impl Visitor for Chronicle {
    fn record(&mut self, record: wal::Record<'_>) -> Result<(), BoxError> {
        if self.first == 0 {
            self.first = record.position;
        }
        let place = usize::try_from(record.position)? - 1;
        match self.records.get(place) {
            None if place == self.records.len() => self.records.push(record.payload.to_vec()),
            None => return Err(format!("position {} after a gap", record.position).into()),
            Some(known) if known == record.payload => {}
            Some(_) => return Err(format!("position {} has changed", record.position).into()),
        }
        Ok(())
    }
}

/// What was compared, for people.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    pub records: u64,
    pub decided_again: u64,
    pub commits: u64,
    pub replays: u64,
    pub refusals: u64,
    pub reads: u64,
    /// Of these, of processes that follow.
    pub followed: u64,
    pub facts: u64,
    pub compactions: u64,
    pub with_snapshot: u64,
    pub in_a_snapshot: u64,
}

impl std::ops::AddAssign for Compared {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.decided_again += other.decided_again;
        self.commits += other.commits;
        self.replays += other.replays;
        self.refusals += other.refusals;
        self.reads += other.reads;
        self.followed += other.followed;
        self.facts += other.facts;
        self.compactions += other.compactions;
        self.with_snapshot += other.with_snapshot;
        self.in_a_snapshot += other.in_a_snapshot;
    }
}

impl std::fmt::Display for Compared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} records, {} of them decided again; answers compared with the state at their \
             position: {} commits, {} replays, {} refusals, {} reads ({} of them of processes that \
             follow), {} batches of facts; found between runs: {} times a snapshot, {} times half of one, {} times a log that had \
             become shorter",
            self.records,
            self.decided_again,
            self.commits,
            self.replays,
            self.refusals,
            self.reads,
            self.followed,
            self.facts,
            self.with_snapshot,
            self.in_a_snapshot,
            self.compactions
        )
    }
}

impl Chronicle {
    /// Takes in what the log in this directory has by now. Nobody may have it open, and what was
    /// taken in before has to be unchanged.
    #[track_caller]
    pub fn read(&mut self, data: &Path) {
        let storage = wal::storage::FileStorage::existing(data).unwrap();
        let first = std::mem::take(&mut self.first);
        wal::records(&storage, self).unwrap();
        self.lineage = support::lineage_of(Arc::new(storage));
        self.compactions += u64::from(self.first > first.max(1));
        let there = |end: &str| {
            let files = support::files(data);
            let names = files.iter().filter_map(|file| file.file_name()?.to_str());
            let mut snapshots = names.filter(|name| name.starts_with("snapshot"));
            u64::from(snapshots.any(|name| name.ends_with(end)))
        };
        self.with_snapshot += there(".snap");
        self.in_a_snapshot += there(".new");
    }

    /// Holds all answers to the log.
    ///
    /// # Panics
    /// With what does not fit.
    #[track_caller]
    pub fn hold(&self, told: &[Told]) -> (Compared, [u8; 32]) {
        let compared = Compared {
            compactions: self.compactions,
            with_snapshot: self.with_snapshot,
            in_a_snapshot: self.in_a_snapshot,
            ..Compared::default()
        };
        let mut checking = Checking {
            records: &self.records,
            lineage: &self.lineage,
            tables: Tables::default(),
            told_at: BTreeMap::new(),
            asked: HashMap::new(),
            facts: HashMap::new(),
            inactive_since: HashMap::new(),
            floors: real_time_floors(told),
            compared,
            complaints: Vec::new(),
        };
        checking.all(told);
        let complaints = &checking.complaints;
        assert!(
            complaints.is_empty(),
            "{} answers or records do not fit, the first of them: {}",
            complaints.len(),
            complaints[..complaints.len().min(5)].join("\n\n")
        );
        (checking.compared, checking.tables.digest())
    }

    /// The same tables come of a start in this directory, whatever it starts from.
    #[track_caller]
    pub fn same_tables(&self, data: &Path, digest: [u8; 32]) {
        let storage = wal::storage::FileStorage::existing(data).unwrap();
        let mut replaying = Replaying::verifying();
        let report = wal::verify(Arc::new(storage), &mut replaying).unwrap();
        assert_eq!(report.last_position, self.records.len() as u64);
        assert_eq!(
            replaying.finish().tables.digest(),
            digest,
            "the tables of a start, and those of the whole log"
        );
    }
}

/// For each of `told` the highest position of a response that had ended before it began: of all
/// writers, or of the same standby.
fn real_time_floors(told: &[Told]) -> Vec<u64> {
    let group = |told: &Told| told.follows.then_some(told.by);
    let mut ended: BTreeMap<_, Vec<(Duration, u64)>> = BTreeMap::new();
    for told in told {
        let position = told.answer.as_ref().and_then(Answer::position);
        if let Some(position) = position {
            let all = ended.entry(group(told)).or_default();
            all.push((told.ended.since, position));
        }
    }
    for all in ended.values_mut() {
        all.sort_unstable();
        let mut highest = 0;
        for (_, position) in all {
            highest = highest.max(*position);
            *position = highest;
        }
    }
    told.iter()
        .map(|told| {
            let all = ended.get(&group(told)).map_or(&[][..], Vec::as_slice);
            let before = all.partition_point(|(since, _)| *since < told.sent.since);
            before.checked_sub(1).map_or(0, |last| all[last].1)
        })
        .collect()
}

/// A command of an operation as the service reads it.
struct Asked<'a> {
    told: &'a Told,
    row: &'static Row,
    actor: Actor,
    command: Box<dyn AnyCommand>,
    key: Option<Key>,
}

struct Key {
    text: Box<str>,
    digest: KeyDigest,
    /// The code of its use with other facts.
    reused: &'static str,
}

impl<'a> Asked<'a> {
    /// `None` when it is at fault in itself.
    fn of(told: &'a Told) -> Option<Self> {
        let command = &told.command;
        let row = OPERATIONS.iter().find(|row| row.tag == command.op)?;
        let actor = match command.who {
            _ if !row.bearer => Actor::nobody(),
            Some(who) => ACTORS[who].actor(),
            None => return None,
        };
        let text = command.body.to_string();
        let body = Json::parse(text.as_bytes()).ok()?;
        let params = parameters(row.path, &command.params);
        let path: Vec<_> = params.iter().map(|(name, value)| (*name, *value)).collect();
        // Of who hung up it is not known when the server read what was sent: at any time since, and
        // what lay too far ahead at first may have been in order by then.
        let read_until = match told.answer {
            Some(_) => told.ended.wall,
            None => told.ended.wall + 60_000,
        };
        let mut at = Reader::new(Timestamp::from_millis(read_until));
        let parts = Parts {
            path: &path,
            body: &body,
        };
        let read = row.operation.read(row.name, &parts, &mut at)?;
        if !at.is_clean() {
            return None;
        }
        let subject = || actor.subject.clone();
        let key: Option<(Box<str>, Box<str>, _)> = match row.key {
            KeySource::None => None,
            KeySource::Header | KeySource::HeaderIfSent => Some((
                command.key.as_deref()?.into(),
                subject(),
                "idempotency_key_reused",
            )),
            KeySource::Body => Some((read.key()?.into(), subject(), "idempotency_key_reused")),
            KeySource::BodyOfAll { reused } => Some((read.key()?.into(), Box::default(), reused)),
        };
        let key = key.map(|(text, scope, reused)| Key {
            digest: key_digest(row.tag, &scope, &text),
            text,

            reused,
        });
        Some(Self {
            told,
            row,
            actor,
            command: read,
            key,
        })
    }
}

/// The parameters of a path like `/a/{name}`, by their names.
fn parameters<'a>(path: &'a str, values: &'a [String]) -> Vec<(&'a str, &'a str)> {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.zip(values.iter().map(String::as_str)).collect()
}

/// Hands out identifiers that are given, and new ones after that.
struct Given<'a> {
    ids: &'a [Option<Uuid>],
    numbers: &'a [i64],
    handed: RefCell<Vec<Uuid>>,
    numbered: RefCell<usize>,
}

impl<'a> Given<'a> {
    fn new(ids: &'a [Option<Uuid>], numbers: &'a [i64]) -> Self {
        Self {
            ids,
            numbers,
            handed: RefCell::default(),
            numbered: RefCell::default(),
        }
    }
}

impl IdSource for Given<'_> {
    fn id(&self) -> Uuid {
        let mut handed = self.handed.borrow_mut();
        let given = self.ids.get(handed.len()).copied().flatten();
        let id = given.unwrap_or_else(Uuid::new_v4);
        handed.push(id);
        id
    }

    fn outbox_number(&self) -> i64 {
        let mut numbered = self.numbered.borrow_mut();
        *numbered += 1;
        self.numbers.get(*numbered - 1).copied().unwrap_or(0)
    }
}

/// Finds out what `theirs` has where `ours` has the identifiers handed out.
fn learn(handed: &[Uuid], ours: &Value, theirs: &Value, learned: &mut [Option<Uuid>]) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (name, ours) in ours {
                if let Some(theirs) = theirs.get(name) {
                    learn(handed, ours, theirs, learned);
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            for (ours, theirs) in ours.iter().zip(theirs) {
                learn(handed, ours, theirs, learned);
            }
        }
        (Value::String(ours), Value::String(theirs)) if ours != theirs => {
            for (id, learned) in handed.iter().zip(learned) {
                let id = id.to_string();
                let Some((before, after)) = ours.split_once(&id) else {
                    continue;
                };
                let theirs = theirs
                    .strip_prefix(before)
                    .and_then(|rest| rest.strip_suffix(after));
                *learned = theirs.and_then(|id| Uuid::try_parse(id).ok()).or(*learned);
            }
        }
        _ => {}
    }
}

/// Whether the bodies are equal; a time of the answer's making may be any while it was made.
fn alike(ours: &Value, theirs: &Value, told: &Told) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(others)) => {
            ours.len() == others.len()
                && ours.iter().all(|(name, ours)| {
                    let theirs = others.get(name);
                    theirs.is_some_and(|theirs| alike(ours, theirs, told))
                })
        }
        (Value::Array(ours), Value::Array(others)) => {
            ours.len() == others.len()
                && ours
                    .iter()
                    .zip(others)
                    .all(|(ours, theirs)| alike(ours, theirs, told))
        }
        (Value::String(ours), Value::String(others)) => {
            ours == others || [ours, others].into_iter().all(|text| is_then(text, told))
        }
        _ => ours == theirs,
    }
}

fn is_then(text: &str, told: &Told) -> bool {
    Timestamp::parse(text)
        .is_some_and(|at| (told.sent.wall - 1..=told.ended.wall + 1).contains(&at.millis()))
}

/// Status, tag and body of an answer that the library makes.
fn whole(answer: response::Answer) -> (u16, Option<String>, Vec<u8>) {
    let (head, body) = answer.into_parts();
    let tag = head.headers.get("etag");
    let tag = tag.map(|tag| tag.to_str().unwrap().to_owned());
    let mut context = std::task::Context::from_waker(Waker::noop());
    match pin!(body.collect()).poll(&mut context) {
        Poll::Ready(Ok(body)) => (head.status.as_u16(), tag, body.to_bytes().to_vec()),
        other => panic!("a body that is there is there: {other:?}"),
    }
}

use std::future::Future as _;

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}

/// Whether it rejects since the actor may not act any more.
fn says_that_the_actor_is_gone(answer: &Answer) -> bool {
    let code = (answer.status == 403).then(|| json(&answer.body)["code"].clone());
    code.is_some_and(|code| matches!(code.as_str(), Some("actor_inactive" | "actor_withdrawn")))
}

struct Checking<'a> {
    records: &'a [Vec<u8>],
    lineage: &'a Lineage,
    tables: Tables,
    /// By position the answers that rest on it.
    told_at: BTreeMap<u64, Vec<&'a Told>>,
    /// By their keys' digests the commands.
    asked: HashMap<KeyDigest, Vec<Asked<'a>>>,
    /// By the keys of their resources the facts that were sent.
    facts: HashMap<Digest, Vec<&'a Value>>,
    /// Actors who may not act, and since which position.
    inactive_since: HashMap<&'static str, u64>,
    floors: Vec<u64>,
    compared: Compared,
    complaints: Vec<String>,
}

impl<'a> Checking<'a> {
    fn complain(&mut self, told: &Told, why: &str) {
        let who = told.command.who.map(|who| ACTORS[who].subject);
        self.complaints
            .push(format!("{why}\nby {who:?}: {told:#?}"));
    }

    fn all(&mut self, told: &'a [Told]) {
        let floors = std::mem::take(&mut self.floors);
        for (told, floor) in told.iter().zip(floors) {
            self.sort_in(told, floor);
        }
        let last = self.records.len() as u64;
        let beyond: Vec<_> = self.told_at.range(last + 1..).map(|(at, _)| *at).collect();
        for at in beyond {
            for told in self.told_at.remove(&at).unwrap_or_default() {
                self.complain(
                    told,
                    &format!("the log ends at {last}, position {at} is lost"),
                );
            }
        }
        let records = self.records;
        for position in 0..=last {
            let at = self.told_at.remove(&position).unwrap_or_default();
            if let Some(place) = position.checked_sub(1) {
                let payload = &records[usize::try_from(place).unwrap()];
                self.record(position, payload, &at);
            }
            for told in at {
                self.rest(position, told);
            }
        }
    }

    fn sort_in(&mut self, told: &'a Told, floor: u64) {
        if let Some(answer) = &told.answer {
            // One that says when to retry says nothing of the state.
            match answer.position().filter(|_| answer.status != 503) {
                Some(position) => {
                    if position < floor {
                        let why = format!("position {position}, after {floor} had been told");
                        self.complain(told, &why);
                    }
                    self.told_at.entry(position).or_default().push(told);
                }
                None if matches!(answer.status, 400 | 401 | 413 | 415 | 422 | 503) => {}
                None => self.complain(told, "an answer without a position"),
            }
        }
        if told.command.op == FACTS {
            for fact in told.command.body["facts"].as_array().into_iter().flatten() {
                let kind = fact["kind"].as_str().unwrap_or_default();
                let id = fact["id"].as_str().unwrap_or_default();
                if let Some(known) = fact_kind(kind) {
                    let sent = self.facts.entry(known.kind().key(&[id])).or_default();
                    if !sent.contains(&fact) {
                        sent.push(fact);
                    }
                }
            }
        } else if let Some(asked) = Asked::of(told)
            && let Some(key) = &asked.key
        {
            self.asked.entry(key.digest).or_default().push(asked);
        }
    }

    /// A record follows on those before it, is what its command comes to on the state before it,
    /// and at most one of its answers says that it is the first.
    fn record(&mut self, position: u64, payload: &[u8], told: &[&'a Told]) {
        self.compared.records += 1;
        let record = Record::decode(payload).unwrap();
        if let Some(digest) = record.key_digest() {
            let fingerprint = record.key.as_ref().map(|key| key.fingerprint);
            let commands = self.asked.remove(&digest).unwrap_or_default();
            // A rejection says that nothing was done. Nor is anything where a key is taken for an answer
            // that was given before: its actor may be gone by the time that is looked up.
            let is_given_before = matches!(record.outcome, RecordOutcome::SameAs(_));
            let same = |asked: &&Asked<'_>| {
                let answer = asked.told.answer.as_ref();
                let may_be = |answer: &Answer| {
                    answer.status < 300 || is_given_before && says_that_the_actor_is_gone(answer)
                };
                Some(asked.command.fingerprint()) == fingerprint && answer.is_none_or(may_be)
            };
            match commands.iter().find(same) {
                None => self
                    .complaints
                    .push(format!("position {position}: nobody asked for {record:?}")),
                Some(asked) => {
                    if let Err(why) = self.decided_again(asked, &record) {
                        let why = format!("position {position}: {why}\n{record:?}");
                        self.complain(asked.told, &why);
                    }
                }
            }
            self.asked.insert(digest, commands);
        } else {
            self.compared.decided_again += 1;
            if !self.is_a_fact(&record) {
                let why = format!("position {position}: no fact that was sent: {record:?}");
                self.complaints.push(why);
            }
        }
        let is_first = |told: &&&Told| {
            let answer = told.answer.as_ref();
            let first = answer.is_some_and(|answer| {
                answer.status < 300 && answer.header("idempotent-replayed").is_none()
            });
            let digest = Asked::of(told).and_then(|asked| Some(asked.key?.digest));
            first && digest.is_some() && digest == record.key_digest()
        };
        let firsts: Vec<_> = told.iter().filter(is_first).collect();
        if firsts.len() > 1 {
            self.complaints
                .push(format!("position {position} was told twice: {firsts:#?}"));
        }
        self.apply(position, &record);
    }

    /// Whether the record is what one of the facts sent comes to on the tables as they are.
    fn is_a_fact(&self, record: &Record<'_>) -> bool {
        let [change] = &record.changes[..] else {
            return false;
        };
        let workflow = ACTORS[WORKFLOW].actor();
        let mut sent = self.facts.get(&change.key).into_iter().flatten();
        record.operation == 0
            && sent.any(|fact| {
                let text = fact.to_string();
                let item = Json::parse(text.as_bytes()).unwrap();
                let incoming = Incoming::of_item(0, &item, fact_kinds::FACTS, record.at);
                let Ok(command) = incoming.command else {
                    return false;
                };
                let given = Given::new(&[], &[]);
                let context = Context {
                    actor: &workflow,
                    now: record.at,
                    at: record.at,
                    key: "",
                    fingerprint: command.fingerprint(),
                    new_id: Uuid::nil(),
                    has_receiver: &|_| false,
                    plain_webhooks: false,
                    ids: &given,
                    view: ReadView::new(&self.tables),
                    fact_revision: carebook::domain::fact_kinds::revision_of,
                };
                let target = command.target(&context);
                let Ok(AnyDecision::Commit(decided)) = command.decide(target, &mut None, &context)
                else {
                    return false;
                };
                let [ours] = &decided.changes[..] else {
                    return false;
                };
                (ours.kind, ours.key, &ours.event[..]) == (change.kind, change.key, change.event.0)
            })
    }

    /// Decides a command on the tables as they are.
    fn decide(
        &self,
        asked: &Asked<'_>,
        now: Timestamp,
        born: Option<Uuid>,
        given: &Given<'_>,
    ) -> (Result<AnyDecision, Rejection>, Uuid) {
        let born = born.unwrap_or_else(Uuid::new_v4);
        let context = Context {
            actor: &asked.actor,
            now,
            at: now,
            key: asked.key.as_ref().map_or("", |key| &key.text),
            fingerprint: asked.command.fingerprint(),
            new_id: born,
            has_receiver: &|_| false,
            plain_webhooks: false,
            ids: given,
            view: ReadView::new(&self.tables),
            fact_revision: carebook::domain::fact_kinds::revision_of,
        };
        let target = asked.command.target(&context);
        let outcome = asked.command.decide(target, &mut None, &context);
        (outcome, born)
    }

    fn decided_again(&mut self, asked: &Asked<'_>, record: &Record<'_>) -> Result<(), String> {
        self.compared.decided_again += 1;
        let numbers: Vec<_> = record.outbox.iter().map(|message| message.number).collect();
        let given = Given::new(&[], &numbers);
        let (outcome, born) = self.decide(asked, record.at, None, &given);
        let outcome = outcome.map_err(|rejection| format!("it is refused: {rejection:?}"))?;
        let body = match (&record.outcome, outcome) {
            (RecordOutcome::SameAs(first), AnyDecision::ReplayOf(key)) => {
                let digest = key_digest(asked.row.tag, record.subject, &key);
                let known = self.tables.key(digest);
                return match known == Some(*first) {
                    true => Ok(()),
                    false => Err(format!("the first answer is at {known:?}")),
                };
            }
            (RecordOutcome::Answer { body, .. }, AnyDecision::Commit(decided)) => {
                let mut handed = given.handed.into_inner();
                handed.insert(0, born);
                let mut learned = vec![None; handed.len()];
                learn(&handed, &json(&decided.answer), &json(body.0), &mut learned);
                (learned, body.0)
            }
            (outcome, _) => return Err(format!("it comes to something else than {outcome:?}")),
        };
        let (learned, body) = body;
        // Once more, with the identifiers that it was given then.
        let given = Given::new(&learned[1..], &numbers);
        let Ok(AnyDecision::Commit(decided)) = self.decide(asked, record.at, learned[0], &given).0
        else {
            return Err("decided twice, it comes to two things".to_owned());
        };
        if decided.answer != body {
            return Err(format!(
                "its answer is {}",
                String::from_utf8_lossy(&decided.answer)
            ));
        }
        let kinds =
            |changes: &[Change]| changes.iter().map(|change| change.kind).collect::<Vec<_>>();
        let recorded: Vec<_> = record.changes.iter().map(|change| change.kind).collect();
        if kinds(&decided.changes) != recorded || decided.outbox.len() != record.outbox.len() {
            return Err(format!("it changes {:?}", decided.changes));
        }
        // What an answer does not show cannot be given again.
        let all_known = learned.iter().skip(1).all(Option::is_some);
        for (ours, theirs) in decided.changes.iter().zip(&record.changes) {
            let born_unseen = learned[0].is_none() && ours.key != theirs.key;
            if all_known
                && !born_unseen
                && (ours.key != theirs.key || ours.event[..] != theirs.event.0[..])
            {
                return Err(format!("it changes {ours:?}"));
            }
        }
        for (ours, theirs) in decided.outbox.iter().zip(&record.outbox) {
            // What the message is about is not stored: who reads the record finds it in the body.
            let stored = OutboxMessage {
                about: None,
                ..ours.clone()
            };
            if ours.topic != theirs.topic || (all_known && stored != *theirs) {
                return Err(format!("it sends {ours:?}"));
            }
        }
        Ok(())
    }

    /// Replays records one after the other: the plain form of what a start does on all processors
    /// at once.
    fn apply(&mut self, position: u64, record: &Record<'_>) {
        let mut actors = false;
        for change in &record.changes {
            let resource = catalogue::resource(change.kind).unwrap();
            let mut before = None;
            self.tables
                .read(change.key, &mut |bytes| before = Some(bytes.to_vec()));
            let follows = change.follows_on(self.tables.position(change.key));
            assert_eq!(follows, Ok(()), "position {position}");
            let mut state = Vec::new();
            let told = resource
                .replay(before.as_deref(), change.stored(), record.at, &mut state)
                .unwrap_or_else(|why| panic!("position {position}: {why}"));
            assert_eq!(told.key, change.key, "position {position}");
            let none = || (Vec::new(), Vec::new(), Vec::new());
            let held = before.map_or_else(none, |before| {
                let entries = resource.entries(&before).unwrap();
                (entries.unique, entries.secondary, entries.ranks)
            });
            let holds = resource.entries(&state).unwrap();
            for name in without(&holds.unique, &held.0) {
                let holder = self.tables.holder(name);
                assert_eq!(holder, None, "position {position} takes a name twice");
            }
            actors |= resource.kind().name == "actor";
            self.tables.publish(
                position,
                Change {
                    kind: change.kind,
                    version: change.version,
                    key: told.key,
                    revision: change.revision,
                    advances: change.advances,
                    path: Vec::new(),
                    event: Vec::new(),
                    state,
                    unique_left: without(&held.0, &holds.unique),
                    unique_taken: without(&holds.unique, &held.0),
                    secondary_left: without(&held.1, &holds.secondary),
                    secondary_joined: without(&holds.secondary, &held.1),
                    secondary_kept: Vec::new(),
                    list: None,
                    lead: None,
                    ranks: RankChange::all(held.2, holds.ranks),
                },
            );
        }
        for message in &record.outbox {
            let log_id = self.lineage.log_at(position);
            let (_, birth) = born(message, log_id, record.at);
            self.tables.publish(position, birth);
        }
        if let Some(key) = record.key_digest() {
            let taken = self.tables.key(key);
            assert_eq!(taken, None, "position {position} takes a key twice");
            self.tables.take_key(key, position);
        }
        if actors {
            let view = ReadView::new(&self.tables);
            for who in ACTORS {
                let lifecycle = view.fact::<ActorFact>(who.subject);
                match lifecycle.map(|fact| fact.facts.lifecycle) {
                    None | Some(ActorLifecycle::Active) => {
                        self.inactive_since.remove(who.subject);
                    }
                    Some(_) => {
                        self.inactive_since.entry(who.subject).or_insert(position);
                    }
                }
            }
        }
    }

    /// An answer is what the state at its position says.
    fn rest(&mut self, position: u64, told: &Told) {
        let Some(answer) = &told.answer else { return };
        let checked = match told.command.op {
            FACTS => self.rest_of_facts(told, answer),
            ..FACTS => self.rest_of_operation(position, told, answer),
            _ => self.rest_of_read(told, answer),
        };
        if let Err(why) = checked {
            self.complain(told, &format!("the state at position {position}: {why}"));
        }
    }

    /// Actors who may not act in the state at the response's position, and only those, are
    /// rejected.
    fn lifecycle(&self, told: &Told, answer: &Answer) -> Result<bool, String> {
        let Some(who) = told.command.who.filter(|_| needs_token(told.command.op)) else {
            return Ok(false);
        };
        let inactive = says_that_the_actor_is_gone(answer);
        match (inactive, self.inactive_since.get(ACTORS[who].subject)) {
            (true, None) => Err("the actor may act".to_owned()),
            (false, Some(since)) => Err(format!("the actor may not act since position {since}")),
            (inactive, _) => Ok(inactive),
        }
    }

    fn rest_of_operation(
        &mut self,
        position: u64,
        told: &Told,
        answer: &Answer,
    ) -> Result<(), String> {
        if self.lifecycle(told, answer)? {
            self.compared.refusals += 1;
            return Ok(());
        }
        let Some(asked) = Asked::of(told) else {
            return Err("a command at fault has no position".to_owned());
        };
        let problems = Problems::of(asked.row);
        let found = (answer.status, &answer.body);
        let first = asked
            .key
            .as_ref()
            .and_then(|key| Some((key, self.tables.key(key.digest)?)));
        let replayed = answer.header("idempotent-replayed").is_some();
        if let Some((key, first)) = first {
            let (fingerprint, body, accepted) = self.stored(first)?;
            if fingerprint != Some(asked.command.fingerprint()) {
                self.compared.refusals += 1;
                let view = ReadView::new(&self.tables);
                let message = asked.row.key_reused();
                let mut rejection = Rejection::new(Class::Conflict, key.reused, message);
                rejection.body = asked.command.key_reused(&asked.actor, &view);
                let (status, _, body) = whole(problems.rejected(&rejection));
                return match (status, &body) == found {
                    true => Ok(()),
                    false => Err("the key was used before with other request content".to_owned()),
                };
            }
            if !replayed && first != position {
                return Err(format!("its key is that of position {first}"));
            }
            let body = match replayed {
                true => asked.row.operation.replayed(body),
                false => body,
            };
            let reply = CommandResult::Done {
                body: body.into(),
                disposition: Disposition::from_accepted(accepted),
                replay: replayed,
                position,
            };
            let (status, _, body) = whole(problems.reply(reply, asked.row.success));
            *(match replayed {
                true => &mut self.compared.replays,
                false => &mut self.compared.commits,
            }) += 1;
            return match (status, &body) == found {
                true => Ok(()),
                false => Err(format!(
                    "the stored answer is {}",
                    String::from_utf8_lossy(&body)
                )),
            };
        }
        if replayed {
            return Err("its key was never taken".to_owned());
        }
        self.compared.refusals += 1;
        let mut comes_to = Vec::new();
        // Whatever depends on the time turned at most once while the answer was made.
        for wall in [told.ended.wall, told.sent.wall] {
            let given = Given::new(&[], &[]);
            let (outcome, _) = self.decide(&asked, Timestamp::from_millis(wall), None, &given);
            let (status, body) = match outcome {
                Err(rejection) => {
                    let (status, _, body) = whole(problems.rejected(&rejection));
                    (status, body)
                }
                Ok(AnyDecision::Answer(body)) => {
                    (if asked.row.tag == 20 { 201 } else { 200 }, body)
                }
                Ok(AnyDecision::Commit(_)) => (0, b"a commit".to_vec()),
                Ok(AnyDecision::ReplayOf(key)) => (0, format!("a replay of {key}").into_bytes()),
            };
            let statuses = answer.status == status || (asked.row.tag == 20 && answer.status < 300);
            if statuses && (body == answer.body || alike(&json(&body), &json(&answer.body), told)) {
                return Ok(());
            }
            comes_to.push(format!("{status} {}", String::from_utf8_lossy(&body)));
        }
        Err(format!("it comes to {}", comes_to.join(" or ")))
    }

    /// Fingerprint, body and disposition of the answer under the key taken at this position.
    #[allow(clippy::type_complexity)]
    fn stored(
        &self,
        first: u64,
    ) -> Result<(Option<carebook::base::digest::Fingerprint>, Vec<u8>, bool), String> {
        let record = |position: u64| {
            let place = usize::try_from(position).unwrap() - 1;
            Record::decode(&self.records[place]).map_err(|error| error.to_string())
        };
        let own = record(first)?;
        let fingerprint = own.key.as_ref().map(|key| key.fingerprint);
        let answering = match own.outcome {
            RecordOutcome::SameAs(earlier) => record(earlier)?,
            _ => own,
        };
        match answering.outcome {
            RecordOutcome::Answer { accepted, body } => {
                Ok((fingerprint, body.0.to_vec(), accepted))
            }
            other => Err(format!("no answer is stored: {other:?}")),
        }
    }

    fn rest_of_read(&mut self, told: &Told, answer: &Answer) -> Result<(), String> {
        if self.lifecycle(told, answer)? {
            self.compared.refusals += 1;
            return Ok(());
        }
        self.compared.reads += 1;
        self.compared.followed += u64::from(told.follows);
        let command = &told.command;
        let asked: Vec<_> = command.path.split('/').collect();
        let row = READS.iter().find(|row| {
            let own: Vec<_> = row.path.split('/').collect();
            let mut parts = own.iter().zip(&asked);
            own.len() == asked.len()
                && parts.all(|(own, asked)| own.starts_with('{') || own == asked)
        });
        let row = row.ok_or("no such read")?;
        let actor = ACTORS[command.who.ok_or("a read without a token")?].actor();
        let problems = Problems {
            problem: row.problem,
            ..Problems::PLAIN
        };
        let path = parameters(row.path, &command.params);
        let mut comes_to = Vec::new();
        for wall in [told.ended.wall, told.sent.wall] {
            let view = ReadView::new(&self.tables);
            let found = (row.read)(&ReadRequest {
                actor: &actor,
                now: Timestamp::from_millis(wall),
                path: &path,
                view: &view,
                access_checked: false,
            });
            let expected = whole(match found {
                Ok(found) => {
                    let ok = response::json(hyper::StatusCode::OK, found.body);
                    tagged(ok, &found.tag)
                }
                Err(rejection) => problems.rejected(&rejection),
            });
            let tag = answer.header("etag").map(str::to_owned);
            if expected == (answer.status, tag, answer.body.clone()) {
                return Ok(());
            }
            let (status, tag, body) = expected;
            comes_to.push(format!(
                "{status} {tag:?} {}",
                String::from_utf8_lossy(&body)
            ));
        }
        Err(format!("it reads {}", comes_to.join(" or ")))
    }

    /// Each fact of the batch is stored at its revision, or at a later one.
    fn rest_of_facts(&mut self, told: &Told, answer: &Answer) -> Result<(), String> {
        if answer.status != 200 {
            self.compared.refusals += 1;
            return Ok(());
        }
        self.compared.facts += 1;
        let summary = json(&answer.body);
        let problems: HashMap<u64, &str> = summary["problems"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|problem| Some((problem["index"].as_u64()?, problem["result"].as_str()?)))
            .collect();
        let facts = told.command.body["facts"].as_array();
        for (index, fact) in (0..).zip(facts.into_iter().flatten()) {
            let kind = fact["kind"].as_str().and_then(fact_kind).ok_or("a kind")?;
            let id = fact["id"].as_str().unwrap_or_default();
            let sent = fact["revision"].as_i64().unwrap_or_default();
            let view = ReadView::new(&self.tables);
            let stands = kind.revision(id, &view);
            let stands = stands.map_or(0, |revision| json_number(&revision.to_string()));
            let fits = match problems.get(&index) {
                None => stands >= sent,
                Some(&"stale") => stands > sent,
                Some(_) => true,
            };
            if !fits {
                return Err(format!("fact {index} stands at {stands}"));
            }
        }
        Ok(())
    }
}

fn json_number(text: &str) -> i64 {
    text.parse().unwrap()
}

fn fact_kind(name: &str) -> Option<&'static dyn carebook::domain::reference::put::AnyFactKind> {
    let mut kinds = fact_kinds::FACTS.iter().copied();
    kinds.find(|kind| kind.kind().name == name)
}

/// What is in `these` and not in `those`.
fn without(these: &[IndexKey], those: &[IndexKey]) -> Vec<IndexKey> {
    let others = these.iter().filter(|name| !those.contains(name));
    others.copied().collect()
}
