//! A stage: the sample world under names of its own, on a server that tests running at the same
//! time share. What one test does on its stage, no other test sees.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use carebook::base::actor::{Actor, ActorKind};
use carebook::domain::example;
use carebook::domain::reference::samples;
use serde_json::{Value, json};

use super::{Answer, Client, Server, World};

/// A server and its world.
pub struct Theatre {
    pub world: World,
    pub server: Server,
}

/// The server that the tests share; it ends with the last test that uses it.
pub fn theatre() -> Arc<Theatre> {
    static SHARED: Mutex<Weak<Theatre>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(running) = shared.upgrade() {
        return running;
    }
    let world = World::new();
    let server = Server::start(&world);
    let started = Arc::new(Theatre { world, server });
    *shared = Arc::downgrade(&started);
    started
}

/// The organization is one for all stages: who changes it does so alone.
pub fn organization() -> MutexGuard<'static, ()> {
    static ORGANIZATION: Mutex<()> = Mutex::new(());
    ORGANIZATION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sample world under names of its own: what ends with a number there, such as `mother-1`,
/// ends here with the stage's number too, `mother-1x7`.
pub struct Stage {
    pub theatre: Arc<Theatre>,
    pub number: u32,
}

impl Stage {
    /// A stage on the shared server, with all sample facts in place.
    pub fn new() -> Self {
        Self::at(theatre())
    }

    /// A stage on this server.
    pub fn at(theatre: Arc<Theatre>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let stage = Self {
            theatre,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
        };
        let mut lines = String::new();
        let mut count = 0;
        for line in samples::lines() {
            let fact: Value = serde_json::from_str(line).unwrap();
            lines.push_str(&stage.named(fact).to_string());
            lines.push('\n');
            count += 1;
        }
        let answer = stage.client().put_lines(&stage.workflow(), &lines);
        assert_eq!(answer.status, 200, "{answer:?}");
        let summary = answer.json();
        let placed = summary["applied"].as_u64().unwrap() + summary["unchanged"].as_u64().unwrap();
        assert_eq!(placed, count, "{summary}");
        stage
    }

    /// A connection to the server.
    pub fn client(&self) -> Client {
        self.theatre.server.client()
    }

    /// The name that a sample's identifier has here.
    pub fn id(&self, sample: &str) -> String {
        let local = sample.split_once('@').map_or(sample, |(local, _)| local);
        let mut ending = local.chars().rev();
        let is_numbered =
            ending.next().is_some_and(|last| last.is_ascii_digit()) && ending.next() == Some('-');
        if is_numbered {
            example::numbered(sample, self.number)
        } else {
            sample.to_owned()
        }
    }

    /// The value with all identifiers as they are here.
    pub fn named(&self, value: Value) -> Value {
        example::renamed(value, &|text| self.id(text))
    }

    /// The actor of this kind in the samples' world.
    pub fn actor(&self, kind: ActorKind) -> Actor {
        example::actor(kind, &|text| self.id(text))
    }

    /// A token for the actor.
    pub fn token(&self, actor: &Actor) -> String {
        self.theatre.world.token(actor)
    }

    /// A token of the actor of this kind.
    pub fn token_of(&self, kind: ActorKind) -> String {
        self.token(&self.actor(kind))
    }

    pub fn mother(&self) -> String {
        self.token_of(ActorKind::Mother)
    }

    pub fn family_member(&self) -> String {
        self.token_of(ActorKind::FamilyMember)
    }

    pub fn manager(&self) -> String {
        self.token_of(ActorKind::BranchManager)
    }

    pub fn headquarters(&self) -> String {
        self.token_of(ActorKind::HeadquartersAdministrator)
    }

    pub fn workflow(&self) -> String {
        self.token_of(ActorKind::SystemWorkflow)
    }

    /// Puts one fact in place; its identifiers are renamed.
    pub fn fact(&self, kind: &str, id: &str, revision: i64, facts: Value) {
        let fact = json!({"kind": kind, "id": id, "revision": revision, "facts": facts});
        let answer = self
            .client()
            .put_facts(&self.workflow(), &[self.named(fact)]);
        assert_eq!(answer.json()["applied"], 1, "{}", answer.text());
    }

    /// The facts of a sample, to be changed and put in place again.
    pub fn sample(&self, kind: &str, id: &str) -> Value {
        samples::lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|fact| fact["kind"] == kind && fact["id"] == id)
            .unwrap()["facts"]
            .take()
    }

    /// The actor is inactive, or has withdrawn, from now on.
    pub fn lifecycle(&self, subject: &str, lifecycle: &str) {
        static REVISION: AtomicU32 = AtomicU32::new(100);
        let revision = REVISION.fetch_add(1, Ordering::Relaxed);
        let facts = json!({"lifecycle": lifecycle});
        self.fact("actor", subject, revision.into(), facts);
    }
}

impl Client {
    /// Facts, one a line.
    pub fn put_lines(&mut self, token: &str, lines: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/x-ndjson"),
        ];
        self.request("POST", "/reference-facts", &headers, lines.as_bytes())
    }
}

/// The actor with nothing left but the subject: the kind has no authority anywhere.
pub fn stripped(actor: &Actor) -> Actor {
    Actor {
        subject: actor.subject.clone(),
        kind: ActorKind::FamilyMember,
        ..Actor::nobody()
    }
}

/// The body with the value at a pointer (`/a/0/b`) replaced, or added to its object.
pub fn with(mut body: Value, pointer: &str, value: Value) -> Value {
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    let parent = body.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(items) => items[member.parse::<usize>().unwrap()] = value,
        Value::Object(members) => {
            members.insert(member.to_owned(), value);
        }
        other => panic!("{pointer} leads into {other}"),
    }
    body
}

/// The body without the field at a pointer.
pub fn without(mut body: Value, pointer: &str) -> Value {
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    let parent = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    parent.remove(member).unwrap();
    body
}

/// A refusal of the full shape: its status and code, no fault of a field, these places.
#[track_caller]
pub fn assert_refused(answer: &Answer, status: u16, code: &str, conflicting: &[&str]) {
    let body = answer.json();
    assert_eq!(answer.status, status, "{body}");
    let message = body["message"].as_str().unwrap();
    assert!(message.len() > 10 && message.ends_with('.'), "{message}");
    assert_eq!(
        body,
        json!({
            "status": status,
            "code": code,
            "message": message,
            "fieldErrors": [],
            "conflictingFieldPaths": conflicting,
            "retryable": status == 429 || status == 503,
        })
    );
}

/// An invalid request of the full shape, with exactly these faults in any order.
#[track_caller]
pub fn assert_faults(answer: &Answer, status: u16, faults: &[(&str, &str)]) {
    let body = answer.json();
    assert_eq!(answer.status, status, "{body}");
    assert_eq!(body["code"], "request_invalid", "{body}");
    assert_eq!(body["status"], status);
    assert_eq!(body["conflictingFieldPaths"], json!([]));
    let mut found = answer.faults();
    found.sort();
    let mut expected: Vec<_> = faults
        .iter()
        .map(|(path, code)| ((*path).to_owned(), (*code).to_owned()))
        .collect();
    expected.sort();
    assert_eq!(found, expected, "{body}");
}

/// Whether it is a time as this service writes it: UTC, milliseconds, `Z`.
pub fn is_time(value: &Value) -> bool {
    const FORM: &[u8] = b"dddd-dd-ddTdd:dd:dd.dddZ";
    let text = value.as_str().unwrap_or_default().as_bytes();
    text.len() == FORM.len()
        && text.iter().zip(FORM).all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            form => byte == form,
        })
}

/// Whether it is a UUIDv7 in lower case.
pub fn is_new_id(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    uuid::Uuid::parse_str(text)
        .is_ok_and(|id| id.get_version_num() == 7 && id.hyphenated().to_string() == text)
}

/// Takes a generated identifier out of an answer's copy, so that the rest can be compared.
#[track_caller]
pub fn take_id(body: &mut Value, pointer: &str) -> String {
    let value = body.pointer_mut(pointer).unwrap().take();
    assert!(is_new_id(&value), "{pointer}: {value}");
    value.as_str().unwrap().to_owned()
}

/// Takes a time out of an answer's copy.
#[track_caller]
pub fn take_time(body: &mut Value, pointer: &str) -> String {
    let value = body.pointer_mut(pointer).unwrap().take();
    assert!(is_time(&value), "{pointer}: {value}");
    value.as_str().unwrap().to_owned()
}

/// What is read with a digest beside its revision: it depends on more than that.
const WITH_DIGEST: [&str; 3] = [
    "/mother/profile",
    "/settlement-statements/",
    "/admin/branches/",
];

/// Whether `etag` is the one of the resource at `path` at the revision or position `tag`.
#[must_use]
pub fn is_tag_of(path: &str, tag: &str, etag: &str) -> bool {
    if !WITH_DIGEST.iter().any(|start| path.starts_with(start)) {
        return etag == format!("\"{tag}\"");
    }
    let digest = etag.strip_prefix(&format!("\"{tag}-"));
    digest
        .and_then(|rest| rest.strip_suffix('"'))
        .is_some_and(|digest| {
            digest.len() == 16 && digest.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
}

/// Reads a resource in each way that there is: the body at its tag; nothing for who has the tag;
/// the head alone.
#[track_caller]
pub fn assert_reads(client: &mut Client, token: &str, path: &str, tag: &str, body: &Value) {
    let bearer = format!("Bearer {token}");
    let read = client.get(path, token);
    assert_eq!(read.status, 200, "{read:?}");
    assert_eq!(read.json(), *body);
    let etag = read.header("etag").unwrap_or_default().to_owned();
    assert!(is_tag_of(path, tag, &etag), "{etag}, at {tag}");
    let tag = etag.trim_matches('"');
    assert!(read.position().is_some());
    let mut matching = |method: &str, known: &str| {
        let headers = [("Authorization", bearer.as_str()), ("If-None-Match", known)];
        client.request(method, path, &headers, b"")
    };
    for known in [
        etag.as_str(),
        "*",
        &format!("W/{etag}"),
        &format!("\"0\", {etag}"),
    ] {
        let unchanged = matching("GET", known);
        assert_eq!(
            (unchanged.status, unchanged.body.len()),
            (304, 0),
            "{known}"
        );
        assert_eq!(unchanged.header("etag"), Some(etag.as_str()));
        assert!(unchanged.position() >= read.position());
        assert_eq!(matching("HEAD", known).status, 304, "{known}");
    }
    for other in ["\"0\"", tag, "\"\"", &format!("\"{tag}")] {
        assert_eq!(matching("GET", other).text(), read.text(), "{other}");
    }
    let head = matching("HEAD", "\"0\"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for name in ["etag", "content-type", "content-length"] {
        assert_eq!(head.header(name), read.header(name), "{name}");
    }
}

/// A reader for whom there is nothing at the path.
#[track_caller]
pub fn assert_unreadable(client: &mut Client, token: &str, path: &str) {
    assert_refused(&client.get(path, token), 404, "not_found", &[]);
}

/// The time in so many milliseconds.
pub fn time_in(millis: i64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(now.unwrap().as_millis()).unwrap();
    carebook::base::time::Timestamp::from_millis(now + millis).to_string()
}
