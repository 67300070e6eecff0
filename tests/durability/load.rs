//! Clients that send real commands of several operations, remember the responses, and check the
//! service against them afterwards.

use carebook::base::text::MemberId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use std::sync::Mutex;

use carebook::base::actor::{Actor, ActorKind};
use carebook::cli::open::Replaying;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::support::{Answer, Client, Server, World, actor};

/// Clients at once.
pub const CLIENTS: usize = 16;
/// Mothers: each of the first belongs to one client, the last one to all.
const MOTHERS: usize = CLIENTS + 1;
/// Statement codes that the clients of one subject fight for, in each round.
const HOT_CODES: u32 = 6;

const REQUEST: &str = "/settlement-deposit-requests";
const ACKNOWLEDGE: &str = "/settlement-branch-deposit-acknowledgements";
const GRANT: &str = "/family-payment-delegations";
const PROFILE: &str = "/mother/profile";
const FACTS: &str = "/reference-facts";

/// The operations that take keys, by their numbers in the log, and where they are.
const KEYED: [(u16, &str); 4] = [(2, GRANT), (7, PROFILE), (8, ACKNOWLEDGE), (9, REQUEST)];

/// A request as it is sent, and sent again.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose token it carries.
    pub who: String,
    pub method: &'static str,
    pub path: &'static str,
    /// Its key, where it has one: in the header, or in the body.
    pub key: Option<String>,
    pub body: Value,
    /// What it concerns: the resource that its positions are of, as far as it is known before.
    pub concerns: String,
    /// Where the resource can be read, and its revision once this is done, as far as that is known
    /// before.
    pub leads_to: Option<(String, i64)>,
}

/// What a request came to.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It was acknowledged so.
    Acknowledged(Answer),
    /// It was refused with this code.
    Refused(u16, String),
    /// The connection broke before the answer.
    Unknown,
}

/// A request and what it came to.
#[derive(Clone, Debug)]
pub struct Sent {
    pub request: Request,
    pub outcome: Outcome,
}

/// What a run has seen, for people.
#[derive(Debug, Default)]
pub struct Figures {
    pub commands: AtomicU64,
    pub acknowledged: AtomicU64,
    pub refused: AtomicU64,
    pub replayed: AtomicU64,
    pub unknown_committed: AtomicU64,
    pub unknown_absent: AtomicU64,
    /// Second keys of a statement: committed or not, the answer is the same.
    pub unknown_second: AtomicU64,
    pub reads: AtomicU64,
}

impl Figures {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        write!(
            f,
            "{} commands: {} acknowledged, {} refused, {} without an answer, of which {} were \
             found committed, {} absent, {} second keys of a statement; {} replays and {} reads compared",
            get(&self.commands),
            get(&self.acknowledged),
            get(&self.refused),
            get(&self.unknown_committed) + get(&self.unknown_absent) + get(&self.unknown_second),
            get(&self.unknown_committed),
            get(&self.unknown_absent),
            get(&self.unknown_second),
            get(&self.replayed),
            get(&self.reads),
        )
    }
}

/// What was learned of committed state, by everybody; never goes back.
#[derive(Default)]
struct Known {
    /// The highest position on which an answer about a resource rested.
    positions: HashMap<String, u64>,
    /// The highest revision that was read or acknowledged, by reader and path.
    revisions: BTreeMap<(String, String), i64>,
    /// Every key that was taken, with its operation's path and subject.
    keys: BTreeSet<(&'static str, String, String)>,
    /// The statement that has a code.
    codes: BTreeMap<String, String>,
    /// Grants, by the booking they are for: one each.
    grants: BTreeMap<String, String>,
}

/// A world with clients, and all their responses.
pub struct Town {
    pub world: World,
    pub figures: Figures,
    tokens: HashMap<String, String>,
    known: Mutex<Known>,
    /// Answers that did not fit, which end the test once all clients are back.
    pub complaints: Mutex<Vec<String>>,
    /// Whether the log is expected to fail: then 503 is an answer, too.
    pub failing: AtomicBool,
    /// The highest position of a commit that was acknowledged.
    last_commit: AtomicU64,
}

/// One client's memory.
pub struct Memory {
    number: usize,
    random: StdRng,
    counter: u64,
    /// Its acknowledged statements: code, identifier, revision as it knows it.
    statements: Vec<(Value, String, i64)>,
    /// The revision of its mother's profile, as it knows it.
    profile: i64,
    /// Keys of refused commands, free to be used again.
    free_keys: Vec<String>,
    /// What it sent since it was last compared.
    pub sent: Vec<Sent>,
    /// What was acknowledged before that.
    history: Vec<(Request, Answer)>,
}

impl Memory {
    pub fn new(number: usize, seed: u64) -> Self {
        Self {
            number,
            random: StdRng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(number as u64)),
            counter: 0,
            statements: Vec::new(),
            profile: 1,
            free_keys: Vec::new(),
            sent: Vec::new(),
            history: Vec::new(),
        }
    }

    fn fresh(&mut self, what: &str) -> String {
        self.counter += 1;
        format!("{what}-{}-{}", self.number, self.counter)
    }

    fn headquarters(&self) -> String {
        format!("hq-{}", self.number % 2)
    }
}

/// Clients' memories for all of them.
pub fn memories(seed: u64) -> Vec<Memory> {
    (0..CLIENTS)
        .map(|number| Memory::new(number, seed))
        .collect()
}

impl Town {
    pub fn new() -> Self {
        let world = World::new();
        let mut tokens = HashMap::new();
        for number in 0..2 {
            let who = format!("hq-{number}");
            let token = world.plain(ActorKind::HeadquartersAdministrator, &who);
            tokens.insert(who, token);
        }
        tokens.insert("manager".to_owned(), world.manager("branch-1"));
        tokens.insert("workflow".to_owned(), world.workflow());
        for number in 0..MOTHERS {
            let who = format!("mother-{number}");
            let mother = Actor {
                member_id: Some(MemberId::from_trusted(format!("member-{number}"))),
                ..actor(ActorKind::Mother, &who)
            };
            let token = world.token(&mother);
            tokens.insert(who, token);
        }
        Self {
            world,
            figures: Figures::default(),
            tokens,
            known: Mutex::default(),
            complaints: Mutex::default(),
            failing: AtomicBool::new(false),
            last_commit: AtomicU64::new(0),
        }
    }

    /// Puts the mothers and their family accounts in place.
    pub fn settle(&self, server: &Server) {
        let mut facts = Vec::new();
        for number in 0..MOTHERS {
            let mail = format!("mother-{number}@example.com");
            let phone = format!("+8210123400{number:02}");
            facts.push(json!({"kind": "mother-profile", "id": format!("profile-{number}"), "revision": 1, "facts": {
                "ownerSubject": format!("mother-{number}"), "motherAccountId": format!("mother-account-{number}"),
                "accountLifecycle": "active", "fullName": "김하늘", "birthDate": "1992-03-14",
                "email": mail, "primaryPhoneNumber": phone,
                "address": {"postalCode": "04524", "roadAddress": "세종대로 110", "detailAddress": "101"},
                "verifiedEmail": {"receiptId": format!("e-{number}"), "normalizedValue": mail, "verifiedAt": "2025-02-01T00:00:00.000Z"},
                "verifiedPhone": {"receiptId": format!("p-{number}"), "normalizedValue": phone, "verifiedAt": "2025-02-01T00:05:00.000Z"},
                "ownershipState": "applied", "relationshipReceiptId": format!("r-{number}"),
                "appliedAt": "2025-02-01T00:10:00.000Z", "createdAt": "2025-02-01T00:00:00.000Z"}}));
            facts.push(json!({"kind": "family-account", "id": format!("account-{number}"), "revision": 1, "facts": {
                "motherMemberId": format!("member-{number}"), "memberIds": [format!("payer-{number}")]}}));
        }
        let answer = server.client().put_facts(&self.tokens["workflow"], &facts);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(
            answer.json()["applied"],
            json!(2 * MOTHERS),
            "{}",
            answer.text()
        );
    }

    pub fn token(&self, who: &str) -> &str {
        &self.tokens[who]
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

    /// Sends a request as it is.
    pub fn send(&self, client: &mut Client, request: &Request) -> std::io::Result<Answer> {
        let (headers, body) = self.parts(request);
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let floor = self.position(&request.concerns);
        let answer = client.try_request(request.method, request.path, &headers, body.as_bytes())?;
        self.note_position(&request.concerns, floor, &answer, request);
        Ok(answer)
    }

    fn parts(&self, request: &Request) -> (Vec<(&'static str, String)>, String) {
        let mut headers = vec![
            (
                "Authorization",
                format!("Bearer {}", self.token(&request.who)),
            ),
            ("Content-Type", "application/json".to_owned()),
        ];
        if let Some(key) = &request.key
            && matches!(request.path, GRANT | PROFILE)
        {
            headers.push(("Idempotency-Key", key.clone()));
        }
        (headers, request.body.to_string())
    }

    /// The bytes of a request, to be written without waiting.
    pub fn bytes(&self, request: &Request) -> Vec<u8> {
        let (headers, body) = self.parts(request);
        let mut text = format!(
            "{} {} HTTP/1.1\r\nHost: test\r\n",
            request.method, request.path
        );
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        text.into_bytes()
    }

    fn position(&self, resource: &str) -> u64 {
        let known = self.known.lock().unwrap();
        known.positions.get(resource).copied().unwrap_or(0)
    }

    /// An answer that was there before this request was sent rests on no higher position.
    fn note_position(
        &self,
        resource: &str,
        floor: u64,
        answer: &Answer,
        what: &dyn std::fmt::Debug,
    ) {
        let Some(position) = answer.position() else {
            if answer.status < 429 {
                self.complain(format!("no position: {answer:?} to {what:?}"));
            }
            return;
        };
        if position < floor {
            self.complain(format!(
                "position {position} after {floor}: {answer:?} to {what:?}"
            ));
        }
        let mut known = self.known.lock().unwrap();
        let highest = known.positions.entry(resource.to_owned()).or_default();
        *highest = position.max(*highest);
    }

    /// Reads, and holds the answer to what is known; the revision.
    pub fn read(&self, client: &mut Client, who: &str, path: &str) -> std::io::Result<i64> {
        let place = (who.to_owned(), path.to_owned());
        let concerns = concern(who, path);
        let (floor, revision_floor) = {
            let known = self.known.lock().unwrap();
            let floor = known.positions.get(&concerns).copied().unwrap_or(0);
            (floor, known.revisions.get(&place).copied().unwrap_or(0))
        };
        let bearer = format!("Bearer {}", self.token(who));
        let answer = client.try_request("GET", path, &[("Authorization", &bearer)], b"")?;
        self.note_position(&concerns, floor, &answer, &place);
        if answer.status == 503 && self.failing.load(Ordering::SeqCst) {
            return Err(std::io::ErrorKind::Other.into());
        }
        let tag = answer.header("etag").unwrap_or("\"0\"").trim_matches('"');
        // Where the body depends on more, a digest follows.
        let revision = tag.split_once('-').map_or(tag, |(revision, _)| revision);
        let revision: i64 = revision.parse().unwrap();
        if !matches!(answer.status, 200 | 404) || revision < revision_floor {
            self.complain(format!(
                "{place:?} reads {} at revision {revision}, after {revision_floor}",
                answer.status
            ));
        }
        Figures::add(&self.figures.reads);
        if revision > 0 {
            self.note_revision(place, revision);
        }
        Ok(revision)
    }

    /// The highest position of a commit that was acknowledged.
    pub fn last_commit_acknowledged(&self) -> u64 {
        self.last_commit.load(Ordering::SeqCst)
    }

    fn note_revision(&self, place: (String, String), revision: i64) {
        let mut known = self.known.lock().unwrap();
        let highest = known.revisions.entry(place).or_default();
        *highest = revision.max(*highest);
    }

    /// Takes note of what an answer says; complains of what cannot be.
    fn outcome(&self, request: &Request, answer: Answer) -> Outcome {
        if answer.status == 503 && self.failing.load(Ordering::SeqCst) {
            // `service_unavailable` says that nothing was done, which is what `resolve` finds.
            return Outcome::Unknown;
        }
        if !matches!(answer.status, 200 | 201) {
            let code = answer.json()["code"].as_str().unwrap_or("").to_owned();
            if !matches!(answer.status, 403 | 404 | 409) {
                self.complain(format!("{answer:?} to {request:?}"));
            }
            return Outcome::Refused(answer.status, code);
        }
        if answer.header("idempotent-replayed").is_none() {
            let position = answer.position().unwrap();
            self.last_commit.fetch_max(position, Ordering::SeqCst);
        }
        let body = answer.json();
        let place = place_of(request, &body);
        let revision = ["revision", "profileRevision", "delegationRevision"]
            .iter()
            .find_map(|member| body[*member].as_i64());
        let revision = revision.or(request.leads_to.as_ref().map(|(_, revision)| *revision));
        if let (Some(place), Some(revision)) = (place, revision) {
            self.note_revision((request.who.clone(), place), revision);
        }
        let mut known = self.known.lock().unwrap();
        if let Some(key) = &request.key {
            known
                .keys
                .insert((request.path, request.who.clone(), key.clone()));
        }
        let single = match request.path {
            REQUEST => {
                let code = body["statementCode"].as_str().unwrap().to_owned();
                let id = body["statementId"].as_str().unwrap().to_owned();
                Some((known.codes.insert(code, id.clone()), id))
            }
            GRANT => {
                let booking = body["reservationBookingId"].as_str().unwrap().to_owned();
                let id = grant_id(&body);
                Some((known.grants.insert(booking, id.clone()), id))
            }
            _ => None,
        };
        drop(known);
        if let Some((Some(before), now)) = single
            && before != now
        {
            self.complain(format!("twice: {before} and {now}, {request:?}"));
        }
        Outcome::Acknowledged(answer)
    }

    /// One client's work until the connection breaks; what it sent is in its memory.
    pub fn work(&self, server: &str, memory: &mut Memory, round: u64) {
        self.work_as(server, memory, round, true, &|| false);
    }

    /// As [`Town::work`], but no client hangs up.
    pub fn work_patiently(&self, server: &str, memory: &mut Memory, round: u64) {
        self.work_as(server, memory, round, false, &|| false);
    }

    /// As [`Town::work_patiently`], until `stop` is set.
    pub fn work_until(&self, server: &str, memory: &mut Memory, round: u64, stop: &AtomicBool) {
        let is_over = || stop.load(Ordering::SeqCst);
        self.work_as(server, memory, round, false, &is_over);
    }

    fn work_as(
        &self,
        server: &str,
        memory: &mut Memory,
        round: u64,
        hang_up: bool,
        is_over: &dyn Fn() -> bool,
    ) {
        let Ok(mut client) = Client::try_connect(server) else {
            return;
        };
        while !is_over() {
            if memory.random.random_ratio(1, 8) && self.look_around(&mut client, memory).is_err() {
                return;
            }
            let request = self.next_request(memory, round);
            Figures::add(&self.figures.commands);
            let impatient = hang_up && memory.random.random_ratio(1, 25);
            let answered = if impatient {
                self.send_impatiently(server, &mut client, &request)
            } else {
                self.send(&mut client, &request)
            };
            let outcome = match answered {
                Ok(answer) => self.outcome(&request, answer),
                Err(_) => Outcome::Unknown,
            };
            let broken = matches!(outcome, Outcome::Unknown);
            match &outcome {
                Outcome::Acknowledged(answer) => {
                    Figures::add(&self.figures.acknowledged);
                    memory.learn(&request, answer);
                }
                Outcome::Refused(_, code) => {
                    Figures::add(&self.figures.refused);
                    memory.learn_refusal(&request, code);
                }
                Outcome::Unknown => {}
            }
            memory.sent.push(Sent { request, outcome });
            if broken {
                return;
            }
        }
    }

    /// Sends and hangs up at once, then sends the same on another connection.
    fn send_impatiently(
        &self,
        server: &str,
        client: &mut Client,
        request: &Request,
    ) -> std::io::Result<Answer> {
        let mut first = Client::try_connect(server)?;
        first.try_send_raw(&self.bytes(request))?;
        drop(first);
        self.send(client, request)
    }

    fn look_around(&self, client: &mut Client, memory: &mut Memory) -> std::io::Result<()> {
        let hot = format!("mother-{}", MOTHERS - 1);
        self.read(client, &hot, PROFILE)?;
        let own = memory.statements.len();
        if own > 0 {
            let (_, id, _) = &memory.statements[memory.random.random_range(0..own)];
            let path = format!("/settlement-statements/{id}");
            self.read(client, &memory.headquarters(), &path)?;
        }
        Ok(())
    }

    fn next_request(&self, memory: &mut Memory, round: u64) -> Request {
        let own = memory.statements.len();
        let choice = memory.random.random_range(0..100);
        let pick = if own == 0 {
            None
        } else {
            Some(memory.random.random_range(0..own))
        };
        let who = memory.headquarters();
        let key = memory.fresh("key");
        let key = match memory.free_keys.pop() {
            // A refused command left nothing: its key is as good as new.
            Some(free) => free,
            None => key,
        };
        match (choice, pick) {
            (30..38, Some(pick)) => {
                // The same again under another key.
                let (body, id, _) = &memory.statements[pick];
                let concerns = concern(&who, &format!("/settlement-statements/{id}"));
                Request {
                    concerns,
                    ..request(&who, &key, body)
                }
            }
            (38..46, _) => {
                let code = format!("HOT-{round}-{}", memory.random.random_range(0..HOT_CODES));
                request(&who, &key, &self.world.deposit_request(&code, ""))
            }
            (46..50, Some(pick)) => {
                // A code that is in use, with other facts.
                let mut body = memory.statements[pick].0.clone();
                body["headOfficePrivateMemo"] = json!("another");
                request(&who, &key, &body)
            }
            (50..54, Some(pick)) => {
                // A key that is taken, with other facts. The key in hand stays free.
                let taken = memory.statements[pick].0.clone();
                memory.free_keys.push(key);
                let mut body = taken.clone();
                body["statementCode"] = json!(memory.fresh("OTHER"));
                request(&who, taken["idempotencyKey"].as_str().unwrap(), &body)
            }
            (54..72, Some(pick)) => {
                let (_, id, revision) = memory.statements[pick].clone();
                acknowledgement(&id, &key, revision, memory.fresh("line").as_str())
            }
            (72..88, _) => {
                let hot = memory.random.random_ratio(1, 4);
                let number = if hot { MOTHERS - 1 } else { memory.number };
                let revision = if hot {
                    self.hot_revision()
                } else {
                    memory.profile
                };
                update(number, &key, revision, &memory.fresh("detail"))
            }
            (88..95, _) => {
                // A booking and a grant for it: the fact goes first, whatever comes of it.
                match memory.sent.last().filter(|last| {
                    last.request.path == FACTS && matches!(last.outcome, Outcome::Acknowledged(_))
                }) {
                    Some(last) => {
                        let booking = last.request.body["facts"][0]["id"].as_str().unwrap();
                        grant(memory.number, &key, booking)
                    }
                    None => {
                        memory.free_keys.push(key);
                        booking(memory.number, &memory.fresh("booking"))
                    }
                }
            }
            (95..100, _) => {
                memory.free_keys.push(key);
                booking(memory.number, &memory.fresh("booking"))
            }
            _ => {
                let code = memory.fresh("S");
                request(&who, &key, &self.world.deposit_request(&code, ""))
            }
        }
    }

    fn hot_revision(&self) -> i64 {
        let place = (format!("mother-{}", MOTHERS - 1), PROFILE.to_owned());
        let known = self.known.lock().unwrap();
        known.revisions.get(&place).copied().unwrap_or(1)
    }

    /// Checks an acknowledged command: sent again, it gets the stored response.
    pub fn replay(&self, client: &mut Client, request: &Request, first: &Answer) {
        let again = self.send(client, request).unwrap();
        Figures::add(&self.figures.replayed);
        let keyed = request.key.is_some();
        let same = if keyed {
            // A profile is brought into being once, and its answer says so.
            let status = if request.path == PROFILE {
                200
            } else {
                first.status
            };
            again.status == status
                && again.header("idempotent-replayed") == Some("true")
                && without_mark(again.json()) == without_mark(first.json())
        } else {
            again.status == 200 && again.json()["unchanged"] == json!(1)
        };
        if !same {
            self.complain(format!("{first:?}, and now {again:?}, to {request:?}"));
        }
    }

    /// What was rejected because of the state is rejected again: nothing here is ever undone.
    fn refused_again(&self, client: &mut Client, request: &Request, status: u16, code: &str) {
        let again = self.send(client, request).unwrap();
        // Its key may have been used for another command since.
        let same = again.json()["code"] == json!(code)
            || again.json()["code"] == json!("idempotency_key_reused");
        if again.status != status || !same {
            self.complain(format!(
                "refused with {code} before, now {again:?} to {request:?}"
            ));
        }
    }

    /// Finds out what became of a command that had no answer: all of it, or nothing.
    pub fn resolve(&self, client: &mut Client, request: &Request) -> Outcome {
        let place = request.leads_to.clone();
        let before = place
            .as_ref()
            .map(|(path, _)| self.read(client, &request.who, path).unwrap());
        let answer = self.send(client, request).unwrap();
        let replayed = match request.path {
            FACTS => answer.json()["unchanged"] == json!(1),
            _ => answer.header("idempotent-replayed") == Some("true"),
        };
        let outcome = self.outcome(request, answer.clone());
        let acknowledged = matches!(outcome, Outcome::Acknowledged(_));
        // A code that is in use makes a replay of a key that was not used before, too.
        let opened_by = answer.json()["transitionAudits"][0]["idempotencyKey"].clone();
        let second = request.path == REQUEST && opened_by != json!(request.key);
        Figures::add(match (acknowledged && replayed, second) {
            (true, true) => &self.figures.unknown_second,
            (true, false) => &self.figures.unknown_committed,
            (false, _) => &self.figures.unknown_absent,
        });
        let Some(((path, leads_to), before)) = place.zip(before) else {
            return outcome;
        };
        let after = self.read(client, &request.who, &path).unwrap();
        let fits = match (acknowledged, replayed) {
            (true, true) => before >= leads_to && after == before,
            (true, false) => before == leads_to - 1 && after == leads_to,
            (false, _) => after == before,
        };
        if !fits {
            self.complain(format!(
                "{before} before, {after} after: {answer:?} to {request:?}"
            ));
        }
        outcome
    }

    /// Checks the service against these clients' responses: what was acknowledged replays, what was
    /// rejected is again, what had no response is resolved. Nothing else is going on.
    pub fn hold_to(&self, server: &Server, memories: &mut [Memory], everything: bool) {
        /// Commands of earlier rounds that each client tries again.
        const EARLIER: usize = 10;
        let mut client = server.client();
        for memory in memories.iter_mut() {
            let mut sent = std::mem::take(&mut memory.sent);
            for sent in sent.iter_mut() {
                if !matches!(sent.outcome, Outcome::Unknown) {
                    continue;
                }
                sent.outcome = self.resolve(&mut client, &sent.request);
                match &sent.outcome {
                    Outcome::Acknowledged(answer) => memory.learn(&sent.request, answer),
                    Outcome::Refused(_, code) => memory.learn_refusal(&sent.request, code),
                    Outcome::Unknown => {}
                }
            }
            memory.sent = sent;
        }
        std::thread::scope(|scope| {
            for memory in memories.iter_mut() {
                scope.spawn(move || {
                    let mut client = server.client();
                    for sent in memory.sent.drain(..) {
                        match sent.outcome {
                            Outcome::Acknowledged(first) => {
                                self.replay(&mut client, &sent.request, &first);
                                memory.history.push((sent.request, first));
                            }
                            Outcome::Refused(status, code) => {
                                self.refused_again(&mut client, &sent.request, status, &code);
                            }
                            Outcome::Unknown => unreachable!("resolved above"),
                        }
                    }
                    let earlier = memory.history.len();
                    let share = if everything {
                        earlier
                    } else {
                        EARLIER.min(earlier)
                    };
                    for index in 0..share {
                        let any = memory.random.random_range(0..earlier);
                        let (request, first) =
                            &memory.history[if everything { index } else { any }];
                        self.replay(&mut client, request, first);
                    }
                });
            }
        });
        let places: Vec<_> = {
            let known = self.known.lock().unwrap();
            known.revisions.keys().cloned().collect()
        };
        let step = if everything {
            1
        } else {
            places.len() / 200 + 1
        };
        // The first connection may have been idle for longer than a server keeps one.
        let mut client = server.client();
        for (who, path) in places.iter().rev().step_by(step) {
            self.read(&mut client, who, path).unwrap();
        }
    }

    /// The records of a log that no process has open are exactly those that the clients know of.
    pub fn compare_with_log(&self) {
        let storage = wal::storage::FileStorage::existing(&self.world.data()).unwrap();
        let mut replaying = Replaying::verifying();
        wal::verify(std::sync::Arc::new(storage), &mut replaying).unwrap();
        let recovered = replaying.finish();
        let known = self.known.lock().unwrap();
        let count = |tag: u16, path: &str| {
            let keys = known.keys.iter().filter(|(of, ..)| *of == path).count() as u64;
            let records = recovered
                .counters
                .operations
                .get(&tag)
                .copied()
                .unwrap_or(0);
            (records, keys)
        };
        for (tag, path) in KEYED {
            let (records, keys) = count(tag, path);
            assert_eq!(
                records, keys,
                "{path}: records, and keys that clients know of"
            );
        }
        let mut statements = 0;
        recovered.tables.each(|kind, _, _, _| {
            let kind = carebook::catalogue::resource(kind).unwrap().kind().name;
            statements += usize::from(kind == "settlement-statement");
        });
        assert_eq!(statements, known.codes.len(), "statements, and their codes");
    }
}

impl Memory {
    fn learn(&mut self, request: &Request, answer: &Answer) {
        let body = answer.json();
        match request.path {
            REQUEST => {
                let id = body["statementId"].as_str().unwrap();
                let known = self.statements.iter().any(|(_, known, _)| known == id);
                if !known {
                    self.statements
                        .push((request.body.clone(), id.to_owned(), 1));
                }
            }
            ACKNOWLEDGE => {
                let id = body["statementId"].as_str().unwrap();
                let revision = body["revision"].as_i64().unwrap();
                for statement in self.statements.iter_mut() {
                    if statement.1 == id {
                        statement.2 = statement.2.max(revision);
                    }
                }
            }
            PROFILE if request.who == format!("mother-{}", self.number) => {
                self.profile = body["profileRevision"].as_i64().unwrap();
            }
            _ => {}
        }
    }

    fn learn_refusal(&mut self, request: &Request, code: &str) {
        // Another operation's, or another subject's, key would prove nothing.
        if request.path == REQUEST
            && code == "statement_code_conflict"
            && let Some(key) = &request.key
        {
            self.free_keys.push(key.clone());
        }
    }
}

fn concern(who: &str, path: &str) -> String {
    if path == PROFILE {
        format!("{path} of {who}")
    } else {
        path.to_owned()
    }
}

fn grant_id(body: &Value) -> String {
    body["paymentDelegationId"].as_str().unwrap().to_owned()
}

/// Where the resource of a successful command is read.
fn place_of(request: &Request, body: &Value) -> Option<String> {
    match request.path {
        REQUEST | ACKNOWLEDGE => Some(format!(
            "/settlement-statements/{}",
            body["statementId"].as_str()?
        )),
        GRANT => Some(format!("{GRANT}/{}", grant_id(body))),
        _ => request.leads_to.as_ref().map(|(path, _)| path.clone()),
    }
}

fn without_mark(mut body: Value) -> Value {
    if let Some(members) = body.as_object_mut() {
        members.remove("idempotentReplay");
    }
    body
}

/// A request for a deposit with this key, by `who`.
pub fn request(who: &str, key: &str, body: &Value) -> Request {
    let mut body = body.clone();
    body["idempotencyKey"] = json!(key);
    body["actorProfileId"] = json!(who);
    let code = body["statementCode"].as_str().unwrap();
    Request {
        who: who.to_owned(),
        method: "POST",
        path: REQUEST,
        key: Some(key.to_owned()),
        concerns: format!("code {code}"),
        leads_to: None,
        body,
    }
}

fn acknowledgement(statement: &str, key: &str, revision: i64, line: &str) -> Request {
    let path = format!("/settlement-statements/{statement}");
    Request {
        who: "manager".to_owned(),
        method: "POST",
        path: ACKNOWLEDGE,
        key: Some(key.to_owned()),
        concerns: path.clone(),
        leads_to: Some((path, revision + 1)),
        body: json!({
            "statementId": statement,
            "actorKind": "branch_manager",
            "actorProfileId": "manager-1",
            "idempotencyKey": key,
            "expectedRevision": revision,
            "reason": "Paid today.",
            "lineAcknowledgements": [{
                "lineAcknowledgementId": format!("{line}-acknowledgement"),
                "settlementLineKey": line,
                "settlementLineKind": "membership_due",
                "acknowledgedByActorProfileId": "manager-1",
                "acknowledgedAt": "2025-11-20T11:00:00Z",
                "sourceEvidenceKey": "evidence",
                "acknowledgementNote": "paid",
            }],
        }),
    }
}

fn update(mother: usize, key: &str, revision: i64, detail: &str) -> Request {
    let who = format!("mother-{mother}");
    Request {
        method: "PATCH",
        path: PROFILE,
        key: Some(key.to_owned()),
        concerns: concern(&who, PROFILE),
        leads_to: Some((PROFILE.to_owned(), revision + 1)),
        body: json!({
            "expectedProfileRevision": revision,
            "expectedAddressRevision": revision,
            "fullName": "김 미나",
            "birthDate": "1991-02-28",
            "address": {"postalCode": "06236", "roadAddress": "테헤란로 1", "detailAddress": detail},
        }),
        who,
    }
}

fn booking(mother: usize, id: &str) -> Request {
    let path = format!("{FACTS}/reservation-booking/{id}");
    Request {
        who: "workflow".to_owned(),
        method: "POST",
        path: FACTS,
        key: None,
        concerns: path.clone(),
        leads_to: Some((path, 1)),
        body: json!({"facts": [{"kind": "reservation-booking", "id": id, "revision": 1, "facts": {
            "motherUserId": format!("mother-{mother}"), "motherMemberId": format!("member-{mother}"),
            "branchProfileId": "branch-1", "state": "active"}}]}),
    }
}

fn grant(mother: usize, key: &str, booking: &str) -> Request {
    Request {
        who: format!("mother-{mother}"),
        method: "POST",
        path: GRANT,
        key: Some(key.to_owned()),
        concerns: format!("grant for {booking}"),
        leads_to: None,
        body: json!({
            "familyAccountId": format!("account-{mother}"),
            "payerMemberId": format!("payer-{mother}"),
            "motherMemberId": format!("member-{mother}"),
            "reservationBookingId": booking,
            "scopes": ["reservation_deposit"],
            "maximumAuthorizedAmountKrw": 500_000,
            "expiresAt": "2099-12-01T09:00:00+09:00",
        }),
    }
}
