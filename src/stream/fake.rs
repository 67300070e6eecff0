//! A server for tests: the stream of a journal, and one key of a bucket, in memory. A test determines how much room
//! there is, and which answers are lost.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::ConnectOptions;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::chain::Tail;
use super::connection::Connection;
use super::handle::JournalHandle;
use super::lease_term::TTL;
use super::maintenance::hold;
use super::message::{Content, Message, Records};
use super::settings::Names;

/// Log id of all tests.
pub(super) const LOG: [u8; 16] = [7; 16];

/// When everything was stored.
const TIME: &str = "2026-01-01T00:00:00Z";

/// The server's content, and its behaviour.
pub(super) struct Kept {
    pub(super) messages: Vec<Vec<u8>>,
    pub(super) bytes_max: usize,
    /// Bytes in use beside those of the messages.
    pub(super) others: usize,
    /// Whether appends are refused, for lack of room elsewhere.
    pub(super) is_full: bool,
    /// Number of appends received.
    pub(super) appends: usize,
    /// Revision and value of the key.
    pub(super) key: Option<(u64, Vec<u8>)>,
    /// Whether the next request is answered by closing the connection.
    pub(super) cuts: bool,
    /// Number of answers to changes of the key that will be lost. A refusal is no such answer.
    pub(super) lost: usize,
    /// The first sequence: what came before is purged.
    pub(super) first: u64,
    /// A sequence whose message is not shown.
    pub(super) hidden: Option<u64>,
    /// How often a server that is behind answers a request that need not go to the leader, and does not have the key.
    pub(super) lags: usize,
    /// Whether there is no bucket, until one is created.
    pub(super) has_no_bucket: bool,
    /// How long the bucket keeps its key.
    pub(super) age: Duration,
    /// Number of messages by subject, as told of each stream.
    pub(super) subjects: Value,
}

pub(super) struct Fake {
    pub(super) kept: Arc<Mutex<Kept>>,
    port: u16,
}

/// Waits until a condition holds.
#[track_caller]
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Fake {
    pub(super) fn with_room(bytes_max: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let kept = Arc::new(Mutex::new(Kept {
            messages: Vec::new(),
            bytes_max,
            others: 0,
            is_full: false,
            appends: 0,
            key: None,
            cuts: false,
            lost: 0,
            first: 1,
            hidden: None,
            lags: 0,
            has_no_bucket: false,
            age: TTL,
            subjects: Value::Null,
        }));
        let of_thread = Arc::clone(&kept);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let kept = Arc::clone(&of_thread);
                std::thread::spawn(move || serve(&client, &kept));
            }
        });
        Self { kept, port }
    }

    pub(super) fn connection(&self) -> Arc<Connection> {
        let address = format!("nats://127.0.0.1:{}", self.port);
        let servers = vec![address.parse().unwrap()];
        let names = Names::of("tests").unwrap();
        Connection::open(servers, ConnectOptions::new(), names).unwrap()
    }

    /// Replaces the messages.
    pub(super) fn has(&self, messages: &[Vec<u8>]) {
        self.kept.lock().messages = messages.to_vec();
    }

    /// Creates a process that has begun to write.
    pub(super) fn writer(&self, number: u8) -> Arc<JournalHandle> {
        let link = hold(self.connection(), "node", [number; 16]);
        let tail = self.tail();
        let begun = link.connection().block(link.fence(&tail, LOG));
        assert_eq!(begun, Ok(true));
        link
    }

    /// Creates a process that has written this many records, each in a message of its own.
    pub(super) fn written(&self, number: u8, records: u8) -> Arc<JournalHandle> {
        let link = self.writer(number);
        for record in 0..records {
            let record = [1, 0, 0, 0, record];
            let content = Content::Batch(Records::of(&record, 1).unwrap());
            let appended = link.connection().block(link.append(content));
            assert_eq!(appended, Ok(()));
        }
        link
    }

    /// Returns the messages that the server would have, had it lost all but the first ones, and another process then
    /// written this many records.
    pub(super) fn written_on(&self, first: usize, records: u8) -> Vec<Vec<u8>> {
        let other = Self::with_room(64 << 20);
        let first = self.kept.lock().messages[..first].to_vec();
        other.kept.lock().messages = first;
        drop(other.written(9, records));
        other.kept.lock().messages.clone()
    }

    /// Returns the end of the messages, all of which are in order.
    pub(super) fn tail(&self) -> Tail {
        let mut tail = Tail::beginning();
        for (sequence, message) in (1..).zip(&self.kept.lock().messages) {
            let message = Message::read(message).unwrap();
            tail.follow(sequence, &message).unwrap();
        }
        tail
    }
}

/// Serves one client.
fn serve(client: &TcpStream, kept: &Mutex<Kept>) -> Option<()> {
    let (mut reader, mut writer) = (BufReader::new(client), client);
    let hello = json!({
        "server_id": "fake", "version": "2.14.0", "headers": true, "jetstream": true, "proto": 1,
        "max_payload": 1 << 20,
    });
    write!(writer, "INFO {hello}\r\n").ok()?;
    let mut inbox = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let words: Vec<_> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["PING"] => write!(writer, "PONG\r\n").ok()?,
            ["SUB", _, number] => inbox = Some(number.to_owned()),
            ["HPUB" | "PUB", subject, reply, .., bytes] => {
                let head = match words[0] {
                    "HPUB" => words[3].parse().ok()?,
                    _ => 0,
                };
                let mut all = vec![0; bytes.parse::<usize>().ok()? + 2];
                reader.read_exact(&mut all).ok()?;
                if std::mem::take(&mut kept.lock().cuts) {
                    return None;
                }
                if subject.starts_with("$JS.API.DIRECT.GET.") {
                    let (head, body) = kept.lock().shown_directly();
                    let (inbox, length) = (inbox.as_ref()?, head.len());
                    let all = length + body.len();
                    write!(
                        writer,
                        "HMSG {reply} {inbox} {length} {all}\r\n{head}{body}\r\n"
                    )
                    .ok()?;
                    continue;
                }
                let payload = &all[head..all.len() - 2];
                let headers = String::from_utf8_lossy(&all[..head]);
                let Some(answer) = kept.lock().answer(subject, &headers, payload) else {
                    continue;
                };
                let (answer, inbox) = (answer.to_string(), inbox.as_ref()?);
                let length = answer.len();
                write!(writer, "MSG {reply} {inbox} {length}\r\n{answer}\r\n").ok()?;
            }
            _ => {}
        }
    }
}

fn refused(status: u16, code: u64, description: &str) -> Value {
    json!({"error": {"code": status, "err_code": code, "description": description}})
}

/// Returns what the server says of the account.
fn account() -> Value {
    json!({
        "memory": 0, "storage": 0, "reserved_memory": 0, "reserved_storage": 0, "streams": 1, "consumers": 0,
        "limits": {
            "max_memory": -1, "max_storage": -1, "max_streams": -1, "max_consumers": -1,
            "max_bytes_required": false, "max_ack_pending": -1, "memory_max_stream_bytes": -1,
            "storage_max_stream_bytes": -1,
        },
        "api": {"total": 0, "errors": 0},
    })
}

/// Returns the expected number in a header of this name.
fn expected(headers: &str, name: &str) -> Option<u64> {
    let lines = headers.lines().filter_map(|line| line.split_once(": "));
    let mut found = lines.filter(|(its, _)| *its == name);
    found.next()?.1.trim().parse().ok()
}

impl Kept {
    fn bytes(&self) -> usize {
        self.others + self.messages.iter().map(Vec::len).sum::<usize>()
    }

    fn answer(&mut self, subject: &str, headers: &str, payload: &[u8]) -> Option<Value> {
        let asked: Value = serde_json::from_slice(payload).unwrap_or_default();
        if subject == "$JS.API.INFO" {
            return Some(account());
        }
        if let Some(api) = subject.strip_prefix("$JS.API.STREAM.") {
            self.has_no_bucket &= !api.starts_with("CREATE.KV_");
            return Some(self.told(api, &asked));
        }
        if subject.starts_with("$KV.") && self.has_no_bucket {
            return Some(refused(503, 10_059, "stream not found"));
        }
        if subject.starts_with("$KV.") {
            let revision = self.key.as_ref().map_or(0, |(revision, _)| *revision);
            let is_next =
                expected(headers, "Nats-Expected-Last-Subject-Sequence") == Some(revision);
            if is_next {
                self.key = Some((revision + 1, payload.to_vec()));
            }
            if is_next && self.lost > 0 {
                self.lost -= 1;
                return None;
            }
            return Some(match is_next {
                true => json!({"stream": "KV_CAREBOOK_LEASE_tests", "seq": revision + 1}),
                false => refused(400, 10_071, "wrong last sequence"),
            });
        }
        self.appends += 1;
        let last = self.messages.len() as u64;
        if expected(headers, "Nats-Expected-Last-Sequence") != Some(last) {
            return Some(refused(400, 10_071, "wrong last sequence"));
        }
        if self.is_full {
            return Some(refused(
                500,
                10_047,
                "insufficient storage resources available",
            ));
        }
        if self.bytes() + payload.len() > self.bytes_max {
            return Some(refused(503, 10_077, "maximum bytes exceeded"));
        }
        self.messages.push(payload.to_vec());
        Some(json!({"stream": "CAREBOOK_tests", "seq": last + 1}))
    }

    /// Returns headers and value of the key, as a server answers that may be behind.
    fn shown_directly(&mut self) -> (String, String) {
        let is_behind = self.lags > 0;
        self.lags = self.lags.saturating_sub(1);
        match self.key.as_ref().filter(|_| !is_behind) {
            Some((revision, value)) => {
                let head = format!(
                    "NATS/1.0\r\nNats-Stream: x\r\nNats-Subject: x\r\nNats-Sequence: {revision}\r\n\
                     Nats-Time-Stamp: {TIME}\r\n\r\n"
                );
                (head, String::from_utf8(value.clone()).unwrap())
            }
            None => (
                "NATS/1.0 404 Message Not Found\r\n\r\n".to_owned(),
                String::new(),
            ),
        }
    }

    fn told(&self, api: &str, asked: &Value) -> Value {
        let time = TIME;
        let shown = |sequence: u64, subject: &Value, bytes: &[u8]| {
            let data = BASE64_STANDARD.encode(bytes);
            json!({"message": {"subject": subject, "seq": sequence, "data": data, "time": time}})
        };
        let none = || refused(404, 10_037, "no message found");
        let (what, name) = api.split_once('.').unwrap_or_default();
        if self.has_no_bucket && name.contains("KV_") {
            return refused(404, 10_059, "stream not found");
        }
        match (matches!(what, "INFO" | "CREATE"), asked["seq"].as_u64()) {
            (true, _) => json!({
                "config": {
                    "name": name, "subjects": [], "storage": "file", "retention": "limits",
                    "discard": "new", "num_replicas": 1, "max_bytes": self.bytes_max,
                    "max_msgs_per_subject": 1, "max_age": self.age.as_nanos() as u64, "allow_direct": self.lags > 0,
                },
                "created": time,
                "state": {
                    "messages": self.messages.len(), "bytes": self.bytes(), "consumer_count": 0,
                    "first_seq": self.first, "first_ts": time, "last_seq": self.messages.len(), "last_ts": time,
                    "subjects": self.subjects,
                },
            }),
            (false, Some(sequence)) => match self.messages.get(sequence as usize - 1) {
                Some(message) if sequence >= self.first && self.hidden != Some(sequence) => {
                    shown(sequence, &Value::Null, message)
                }
                _ => none(),
            },
            (false, None) => match &self.key {
                Some((revision, value)) => shown(*revision, &asked["last_by_subj"], value),
                None => none(),
            },
        }
    }
}
