//! Clients that send commands of all operations, facts and reads, made by the model's world from
//! what exists by then; and all their responses.
//!
//! Many at once: what one has changed is what the next one's command is made from, so they meet on
//! the same bookings, statements, branches and profiles all the time. The model only helps to make
//! commands that get somewhere; what is right is for the log to say, see `chronicle`.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use super::chronicle::{Chronicle, Compared, Moment, Told, tell_apart};
use crate::model::expected;
use crate::model::state::{KeyHeld, Model, millis, replay_of};
use crate::model::world::{self, ACTORS, Command, FACTS};
use crate::support::{self, Answer, Client, Server};

/// Clients at once.
pub const CLIENTS: usize = 8;
/// Acknowledged commands of earlier rounds that are tried again in each.
const EARLIER: usize = 15;
/// Reads of what came last, and of anything.
const READS: usize = 40;

/// How long a client waits between two requests to one of several processes.
const PACE: Duration = Duration::from_millis(5);
/// So many reads are sent to one that does not write before it is asked for something else.
const READS_OF_FOLLOWER: u32 = 20;

/// Where a process is, as long as one is there: its address, and which one it is.
pub type Place = Mutex<Option<(String, u32)>>;

/// What makes commands: one for all clients.
struct Maker {
    world: world::World,
    model: Model,
    step: usize,
    /// A command that a client is sending, for another to send, too.
    echo: Option<Arc<Command>>,
}

/// What was sent and what came of it, for people: by operation and status.
pub type Figures = BTreeMap<(u16, u16), u64>;

/// One data directory's clients.
pub struct Crowd {
    pub world: support::World,
    tokens: Vec<String>,
    maker: Mutex<Maker>,
    /// All responses, in the order in which they came.
    told: Mutex<Vec<Told>>,
    pub chronicle: Chronicle,
    started: Instant,
    /// The highest position of a response.
    highest: AtomicU64,
    /// Whether trouble is expected: then a 503 says what it says.
    pub troubled: AtomicBool,
    /// How much of `told` was compared after a restart.
    held: usize,
    pub unknown_committed: u64,
    pub unknown_absent: u64,
    complaints: Mutex<Vec<String>>,
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// A token of each actor, good for an hour.
fn tokens(world: &support::World) -> Vec<String> {
    let all = ACTORS.iter();
    all.map(|who| world.token(&who.actor())).collect()
}

impl Crowd {
    /// Gives everybody a new token: a long campaign outlives the first ones.
    pub fn renew_tokens(&mut self) {
        self.tokens = tokens(&self.world);
    }

    pub fn new(seed: u64) -> Self {
        let world = support::World::new();
        Self {
            tokens: tokens(&world),
            world,
            maker: Mutex::new(Maker {
                world: world::World::new(seed),
                model: Model::new(),
                step: 0,
                echo: None,
            }),
            told: Mutex::default(),
            chronicle: Chronicle::default(),
            started: Instant::now(),
            highest: AtomicU64::new(0),
            troubled: AtomicBool::new(false),
            held: 0,
            unknown_committed: 0,
            unknown_absent: 0,
            complaints: Mutex::default(),
        }
    }

    fn now(&self) -> Moment {
        Moment {
            since: self.started.elapsed(),
            wall: i64::try_from(wall().as_millis()).unwrap(),
        }
    }

    fn complain(&self, complaint: String) {
        eprintln!("COMPLAINT: {complaint}");
        self.complaints.lock().unwrap().push(complaint);
    }

    /// Fails the test when an answer did not fit.
    #[track_caller]
    pub fn content(&self) {
        let complaints = self.complaints.lock().unwrap();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    /// All responses so far.
    pub fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }

    /// How many answers there were by now.
    pub fn answers(&self) -> usize {
        self.told.lock().unwrap().len()
    }

    /// An answer that came after this moment, in milliseconds since 1970, and rests on a higher
    /// position than all before it.
    pub fn news_after(&self, wall: i64) -> Option<Told> {
        let told = self.told.lock().unwrap();
        let position = |told: &Told| told.answer.as_ref().and_then(Answer::position);
        let before = told.iter().filter(|told| told.ended.wall <= wall);
        let highest = before.filter_map(position).max();
        let mut after = told.iter().filter(|told| told.ended.wall > wall);
        after.find(|told| position(told) > highest).cloned()
    }

    /// How often each operation was answered with each status.
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::new();
        for told in self.told.lock().unwrap().iter() {
            let status = told.answer.as_ref().map_or(0, |answer| answer.status);
            *figures.entry((told.command.op, status)).or_default() += 1;
        }
        figures
    }

    fn headers(&self, command: &Command) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if let Some(who) = command.who {
            headers.push(("Authorization", format!("Bearer {}", self.tokens[who])));
        }
        if let Some(key) = &command.key {
            headers.push(("Idempotency-Key", key.clone()));
        }
        if command.method != "GET" {
            headers.push(("Content-Type", "application/json".to_owned()));
        }
        headers
    }

    fn body(command: &Command) -> String {
        match command.method {
            "GET" => String::new(),
            _ => command.body.to_string(),
        }
    }

    /// Sends a command and keeps what it was answered with.
    pub fn send(&self, client: &mut Client, command: &Arc<Command>) -> std::io::Result<Answer> {
        self.send_with(client, command, None)
    }

    /// As [`Crowd::send`], not before this position is there.
    fn send_with(
        &self,
        client: &mut Client,
        command: &Arc<Command>,
        min_position: Option<u64>,
    ) -> std::io::Result<Answer> {
        let mut headers = self.headers(command);
        let header = min_position.map(|least| ("Carebook-Min-Position", least.to_string()));
        headers.extend(header);
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let body = Self::body(command);
        let sent = self.now();
        let answer = client.try_request(command.method, &command.path, &headers, body.as_bytes());
        let ended = self.now();
        let mut kept = answer.as_ref().ok().cloned();
        let position = kept.as_ref().and_then(Answer::position);
        self.highest
            .fetch_max(position.unwrap_or(0), Ordering::SeqCst);
        let is_told = kept.as_ref().is_some_and(|answer| answer.status < 429);
        if is_told && position < min_position {
            self.complain(format!("{position:?} is before {min_position:?}: {kept:?}"));
        }
        if let Some(answer) = &kept {
            match answer.status {
                // It says that the outcome is unknown, and is as good as no response.
                503 if self.troubled.load(Ordering::SeqCst) => {
                    if answer.json()["code"] == "outcome_unknown" {
                        kept = None;
                    }
                }
                200..=299 | 400..=409 | 422 => {}
                429 if self.troubled.load(Ordering::SeqCst) && min_position.is_some() => {}
                _ => self.complain(format!("{answer:?} to {command:?}")),
            }
        }
        self.told.lock().unwrap().push(Told {
            command: Arc::clone(command),
            sent,
            ended,
            answer: kept,
            by: client.process,
            follows: false,
        });
        answer
    }

    fn maker(&self) -> std::sync::MutexGuard<'_, Maker> {
        self.maker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Arc<Command> {
        let mut maker = self.maker();
        if let Some(echo) = maker.echo.take() {
            return echo;
        }
        let Maker {
            world, model, step, ..
        } = &mut *maker;
        model.now = i64::try_from(wall().as_millis()).unwrap();
        *step += 1;
        let mut command = world.command(*step, model);
        while command.who.is_none() && world::needs_token(command.op) {
            // Without a token nothing is looked at.
            command = world.command(*step, model);
        }
        let command = Arc::new(command);
        if world.is_twin() && command.op < FACTS {
            maker.echo = Some(Arc::clone(&command));
        }
        command
    }

    /// Lets the model know of what was carried out.
    fn note(&self, command: &Command, answer: &Answer) {
        let answer = expected::Answer {
            status: answer.status,
            replayed: false,
            tag: None,
            position: answer.position(),
            body: serde_json::from_slice(&answer.body).unwrap_or(Value::Null),
        };
        let mut maker = self.maker();
        let Maker { world, model, .. } = &mut *maker;
        if answer.status < 300 && command.op <= FACTS {
            model.note(command, &answer);
            // Of two branches at once the model may have missed one.
            if let Some(revision) = answer.body["organizationRevision"].as_i64() {
                model.organization_revision = model.organization_revision.max(revision);
            }
        }
        world.remember(command.clone(), &answer);
    }

    /// One client's work, until the connection breaks or `stop` is set.
    pub fn work(&self, address: &str, seed: u64, stop: &AtomicBool) {
        let mut random = StdRng::seed_from_u64(seed);
        let Ok(mut client) = Client::try_connect(address) else {
            return;
        };
        while !stop.load(Ordering::Relaxed) {
            let command = self.next();
            if command.method != "GET" && random.random_ratio(1, 25) {
                // It is sent on a connection that is closed at once; then on another one.
                if let Ok(mut other) = Client::try_connect(address) {
                    let mut text = format!(
                        "{} {} HTTP/1.1\r\nHost: test\r\n",
                        command.method, command.path
                    );
                    for (name, value) in self.headers(&command) {
                        text.push_str(&format!("{name}: {value}\r\n"));
                    }
                    let body = Self::body(&command);
                    text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
                    let sent = self.now();
                    let _ = other.try_send_raw(text.as_bytes());
                    self.told.lock().unwrap().push(Told {
                        command: Arc::clone(&command),
                        sent,
                        ended: sent,
                        answer: None,
                        by: 0,
                        follows: false,
                    });
                }
            }
            match self.send(&mut client, &command) {
                Ok(answer) if answer.header("idempotent-replayed").is_none() => {
                    self.note(&command, &answer);
                }
                Ok(_) => {}
                Err(_) => return,
            }
            if self.troubled.load(Ordering::Relaxed) {
                // A client that is rejected for want of room tries again soon, not at once.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// One client's work with the processes at one of several places, whichever those are and
    /// whatever becomes of them, until `stop` is set. One that does not write is asked for reads
    /// for a while.
    fn work_at(&self, place: &Place, seed: u64, stop: &AtomicBool) {
        let mut random = StdRng::seed_from_u64(seed);
        while !stop.load(Ordering::Relaxed) {
            // A client that is rejected, or cannot connect, tries again soon, not at once.
            std::thread::sleep(PACE);
            let there = place.lock().unwrap().clone();
            let Some((address, process)) = there else {
                continue;
            };
            let Ok(mut client) = Client::try_connect(&address) else {
                continue;
            };
            client.process = process;
            let mut reads = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                let read = (reads > 0).then(|| self.a_read(&mut random)).flatten();
                reads = reads.saturating_sub(1);
                let least = read.as_ref().filter(|_| random.random_ratio(1, 4));
                let least = least.map(|_| self.highest.load(Ordering::SeqCst));
                let command = read.unwrap_or_else(|| self.next());
                let Ok(answer) = self.send_with(&mut client, &command, least) else {
                    break;
                };
                if answer.status == 503 && answer.json()["code"] == "not_the_writer" {
                    reads = READS_OF_FOLLOWER;
                }
                let is_new = answer.header("idempotent-replayed").is_none();
                if answer.status != 503 && is_new {
                    self.note(&command, &answer);
                }
                std::thread::sleep(PACE);
            }
        }
    }

    /// A read of something that exists according to the responses.
    fn a_read(&self, random: &mut StdRng) -> Option<Arc<Command>> {
        let mut reads = self.maker().model.reads();
        let place = (!reads.is_empty()).then(|| random.random_range(0..reads.len()));
        place.map(|place| Arc::new(reads.swap_remove(place)))
    }

    /// All clients at once, on a server, while `meanwhile` goes on; they stop when it is over.
    pub fn at_work<T>(&self, address: &str, seed: u64, meanwhile: impl FnOnce() -> T) -> T {
        let work = |_: u64, seed: u64, stop: &AtomicBool| self.work(address, seed, stop);
        Self::all_at_work(seed, work, meanwhile)
    }

    /// As [`Crowd::at_work`], half of the clients at each of these places.
    pub fn at_work_at<T>(
        &self,
        places: &[Place; 2],
        seed: u64,
        meanwhile: impl FnOnce() -> T,
    ) -> T {
        let work = |number: u64, seed: u64, stop: &AtomicBool| {
            self.work_at(&places[usize::from(number % 2 == 1)], seed, stop);
        };
        Self::all_at_work(seed, work, meanwhile)
    }

    fn all_at_work<T>(
        seed: u64,
        work: impl Fn(u64, u64, &AtomicBool) + Sync,
        meanwhile: impl FnOnce() -> T,
    ) -> T {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for number in 0..CLIENTS as u64 {
                let (stop, work) = (&stop, &work);
                let seed = seed.wrapping_mul(1_000).wrapping_add(number);
                scope.spawn(move || work(number, seed, stop));
            }
            // Also when it panics, so that the scope ends.
            let over = std::panic::catch_unwind(AssertUnwindSafe(meanwhile));
            stop.store(true, Ordering::Relaxed);
            match over {
                Ok(over) => over,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Checks a restarted server against all responses since the last time: what was acknowledged
    /// replays, what had no response is resolved. Nothing else is going on.
    pub fn hold_to(&mut self, server: &Server, seed: u64) {
        let held = self.try_hold_to(server, seed);
        held.unwrap();
    }

    /// As [`Crowd::hold_to`]; an error when the server ends, or takes nothing, before that is done.
    pub fn try_hold_to(&mut self, server: &Server, seed: u64) -> std::io::Result<()> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut client = server.try_client()?;
        let told: Vec<Told> = self.told.lock().unwrap().clone();
        let (earlier, new) = told.split_at(self.held);
        let mut unknown = HashMap::new();
        for told in new.iter().filter(|told| told.answer.is_none()) {
            if told.command.op <= FACTS {
                let text = format!("{:?}", told.command);
                unknown.insert(text, &told.command);
            }
        }
        let mut unknown: Vec<_> = unknown.into_iter().collect();
        unknown.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (_, command) in unknown {
            let answer = self.send_for_good(&mut client, command)?;
            let found = answer.header("idempotent-replayed").is_some();
            *(match found {
                true => &mut self.unknown_committed,
                false => &mut self.unknown_absent,
            }) += 1;
            self.note(command, &answer);
        }
        for told in new.iter().filter(|told| is_kept(told)) {
            self.replay(&mut client, told)?;
        }
        let kept: Vec<_> = earlier.iter().filter(|told| is_kept(told)).collect();
        for _ in 0..EARLIER.min(kept.len()) {
            self.replay(&mut client, kept[random.random_range(0..kept.len())])?;
        }
        self.held = self.told.lock().unwrap().len();
        Ok(())
    }

    /// As [`Crowd::send`]; an error when it is not taken just now.
    fn send_for_good(
        &self,
        client: &mut Client,
        command: &Arc<Command>,
    ) -> std::io::Result<Answer> {
        let answer = self.send(client, command)?;
        match answer.status {
            503 => Err(std::io::Error::other(format!("{answer:?}"))),
            _ => Ok(answer),
        }
    }

    /// Sent again, an acknowledged command gets its stored response.
    fn replay(&self, client: &mut Client, told: &Told) -> std::io::Result<()> {
        let first = told.answer.as_ref().unwrap();
        let again = self.send_for_good(client, &told.command)?;
        let expected = replay_of(
            told.command.op,
            &KeyHeld {
                facts: String::new(),
                status: first.status,
                body: serde_json::from_slice(&first.body).unwrap_or(Value::Null),
            },
        );
        let same = again.header("idempotent-replayed").is_some()
            && again.status == expected.status
            && Some(again.json()) == expected.body;
        // An actor that may no longer act is rejected for it.
        let subject = told.command.who.map_or("", |who| ACTORS[who].subject);
        let may_not = matches!(subject, "user-m2" | "user-hq2")
            && again.status == 403
            && matches!(
                again.json()["code"].as_str(),
                Some("actor_inactive" | "actor_withdrawn")
            );
        if !same && !may_not {
            self.complain(format!("{told:#?}, and now {again:?}"));
        }
        Ok(())
    }

    /// Reads what came last, and some of everything.
    pub fn look_around(&self, server: &Server, seed: u64) -> Vec<(Arc<Command>, Answer)> {
        self.try_look_around(server, seed).unwrap()
    }

    /// As [`Crowd::look_around`]; an error when the server ends, or takes nothing, before that is
    /// done.
    pub fn try_look_around(
        &self,
        server: &Server,
        seed: u64,
    ) -> std::io::Result<Vec<(Arc<Command>, Answer)>> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut reads = self.maker().model.reads();
        let mut client = server.try_client()?;
        let mut found = Vec::new();
        for _ in 0..READS.min(reads.len()) {
            let place = random.random_range(0..reads.len());
            let read = Arc::new(reads.swap_remove(place));
            let answer = self.send_for_good(&mut client, &read)?;
            found.push((read, answer));
        }
        Ok(found)
    }

    /// What was read before reads the same.
    pub fn reads_the_same(&self, server: &Server, before: &[(Arc<Command>, Answer)]) {
        let mut client = server.client();
        for (read, before) in before {
            let after = self.send(&mut client, read).unwrap();
            let plain = |answer: &Answer| {
                let tag = answer.header("etag").map(str::to_owned);
                (answer.status, tag, answer.body.clone())
            };
            if plain(before) != plain(&after) && !self.just_expired(before) {
                self.complain(format!("{read:?} read {before:?}, and now {after:?}"));
            }
        }
    }

    /// Whether it is of something that expired in the last seconds, and reads differently since.
    fn just_expired(&self, answer: &Answer) -> bool {
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        let now = self.now().wall;
        let expires = body["expiresAt"].as_str();
        expires.is_some_and(|at| (now - 10_000..=now).contains(&millis(at)))
    }

    /// Checks all responses, and a start, against the whole log, which no process has open.
    #[track_caller]
    pub fn hold_to_log(&mut self) -> Compared {
        let data = self.world.data();
        self.hold_to_log_in(&data)
    }

    /// As [`Crowd::hold_to_log`], where several processes have answered, the log being in this
    /// directory: those that follow another one may be behind, and of two that write the one before
    /// says nothing more.
    #[track_caller]
    pub fn hold_to_log_of_several(&mut self, data: &Path) -> Compared {
        let complaints = tell_apart(&mut self.told.lock().unwrap());
        assert!(
            complaints.is_empty(),
            "{} answers, the first of them: {}",
            complaints.len(),
            complaints[..complaints.len().min(3)].join("\n\n")
        );
        self.hold_to_log_in(data)
    }

    #[track_caller]
    fn hold_to_log_in(&mut self, data: &Path) -> Compared {
        self.content();
        self.chronicle.read(data);
        let told = self.told.lock().unwrap();
        let (compared, digest) = self.chronicle.hold(&told);
        self.chronicle.same_tables(data, digest);
        let data = data.to_str().unwrap();
        let (code, out, error) = support::run(&["verify", "--data", data, "--json"]);
        assert_eq!(code, Some(0), "{out} {error}");
        compared
    }
}

/// Whether it was acknowledged, under a key.
fn is_kept(told: &Told) -> bool {
    let keyed = told.command.op < FACTS && !world::has_no_key(told.command.op);
    keyed
        && told.answer.as_ref().is_some_and(|answer| {
            answer.status < 300
                && answer.json()["preRegistrationStatus"] != json!("already_pre_registered")
        })
}

/// Fails the test unless each operation got somewhere and was refused.
#[track_caller]
pub fn every_operation_was_tried(figures: &Figures) {
    for op in world::operations().chain([FACTS]) {
        let count = |least: u16, most: u16| -> u64 {
            figures
                .iter()
                .filter(|((of, status), _)| *of == op && (least..=most).contains(status))
                .map(|(_, count)| count)
                .sum()
        };
        assert!(
            count(200, 299) > 0,
            "operation {op} never succeeded: {figures:?}"
        );
        assert!(count(400, 499) > 0, "operation {op} was never refused");
    }
}
