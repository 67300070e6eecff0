//! Branches are created beside an external directory that takes its time, fails, and comes back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use carebook::base::actor::{Actor, ActorKind};
use carebook::engine::channel::Bounds;
use carebook::engine::outbox::{NamedReceiver, Receiver};
use serde_json::{Value, json};

use crate::support::{
    Answer, Client, PATIENCE, Server, World, actor, run, until, until_ok, where_nobody_listens,
};

/// How long the creation of a branch waits for the directory.
const FIRST_ATTEMPT: Duration = Duration::from_secs(2);
const KINDS: [&str; 3] = [
    "operator_identity",
    "authorization_relationship",
    "manager_invitation",
];

/// What the directory does with a message.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Takes,
    /// Answers 503.
    Fails,
    /// Closes the connection without an answer.
    Breaks,
    /// Never answers.
    Hangs,
    /// Takes all but the invitation, which it answers 404.
    KnowsNoInvitation,
}

/// A message as it came in.
#[derive(Clone, Debug)]
struct Delivered {
    path: String,
    key: String,
    content_type: String,
    body: Value,
    taken: bool,
}

impl Delivered {
    fn kind(&self) -> &str {
        let topic = self.body["topic"].as_str().unwrap();
        topic.strip_prefix("branch_onboarding.").unwrap()
    }
}

/// What has come in, and what is done with what comes.
struct State {
    mode: Mode,
    /// Whatever comes behind so many messages gets no answer.
    answered: usize,
    delivered: Vec<Delivered>,
}

struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

/// A directory on a port of its own.
struct Directory {
    url: String,
    shared: Arc<Shared>,
}

impl Directory {
    fn start(mode: Mode) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!(
            "http://{}/messages?from=tests",
            listener.local_addr().unwrap()
        );
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                mode,
                answered: usize::MAX,
                delivered: Vec::new(),
            }),
            news: Condvar::new(),
        });
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let served = Arc::clone(&served);
                std::thread::spawn(move || served.serve(stream.unwrap()));
            }
        });
        Self { url, shared }
    }

    fn set(&self, mode: Mode) {
        self.set_for(mode, usize::MAX);
    }

    /// As [`Directory::set`], until so many messages have come in, of all: the next one hangs.
    fn set_for(&self, mode: Mode, answered: usize) {
        let mut state = self.shared.state.lock().unwrap();
        (state.mode, state.answered) = (mode, answered);
        self.shared.news.notify_all();
    }

    fn delivered(&self) -> Vec<Delivered> {
        self.shared.state.lock().unwrap().delivered.clone()
    }

    /// Waits until so many messages have come in.
    fn wait_for(&self, count: usize) -> Vec<Delivered> {
        let state = self.shared.state.lock().unwrap();
        let (state, late) = self
            .shared
            .news
            .wait_timeout_while(state, PATIENCE, |state| state.delivered.len() < count)
            .unwrap();
        assert!(
            !late.timed_out(),
            "{} of {count} came",
            state.delivered.len()
        );
        state.delivered.clone()
    }

    /// A server that uses this directory.
    fn server(&self, world: &World) -> Server {
        self.hurried(world, "1000")
    }

    /// As [`Directory::server`], with pauses that much shorter.
    fn hurried(&self, world: &World, by: &str) -> Server {
        let arguments = ["--directory-url", &self.url, "--receivers-hurry", by];
        Server::start_with(world, &arguments)
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
                break;
            }
            head.push(line.trim_end().to_owned());
        }
        let header = |name: &str| {
            let found = head.iter().find_map(|line| {
                let (known, value) = line.split_once(": ")?;
                known.eq_ignore_ascii_case(name).then_some(value)
            });
            found.unwrap_or_default().to_owned()
        };
        let mut body = vec![0; header("content-length").parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let is_invitation = body["topic"] == "branch_onboarding.manager_invitation";
        let mut state = self.state.lock().unwrap();
        let hangs = state.mode == Mode::Hangs || state.delivered.len() >= state.answered;
        let status = match state.mode {
            _ if hangs => None,
            Mode::Takes => Some("204 No Content"),
            Mode::KnowsNoInvitation if is_invitation => Some("404 Not Found"),
            Mode::KnowsNoInvitation => Some("200 OK"),
            Mode::Fails => Some("503 Service Unavailable"),
            Mode::Breaks | Mode::Hangs => None,
        };
        state.delivered.push(Delivered {
            path: head[0].clone(),
            key: header("idempotency-key"),
            content_type: header("content-type"),
            taken: status.is_some_and(|status| status.starts_with('2')),
            body,
        });
        self.news.notify_all();
        if let Some(status) = status {
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            // The client may have given up.
            let _ = reader.get_mut().write_all(answer.as_bytes());
        } else if hangs {
            // Until something else is said.
            let said = (state.mode, state.answered);
            let is_so = |state: &mut State| (state.mode, state.answered) == said;
            drop(self.news.wait_while(state, is_so).unwrap());
        }
    }
}

fn administrator(world: &World) -> String {
    world.token(&Actor {
        permissions: vec!["branch:create".into()],
        ..actor(ActorKind::HeadquartersAdministrator, "admin-1")
    })
}

/// A receiver of what the creation of a branch asks for, which is soon tried again.
pub fn receiving(receiver: Arc<dyn Receiver>) -> (Vec<NamedReceiver>, Bounds) {
    let topics = "branch_onboarding.*".parse().unwrap();
    let bounds = Bounds {
        hurry: 1_000,
        ..Bounds::default()
    };
    (vec![NamedReceiver { topics, receiver }], bounds)
}

pub fn creation() -> Value {
    json!({
        "commandId": "command-1",
        "branchCode": "SEOUL-1",
        "expectedOrganizationRevision": 1,
        "legalName": "Seoul Care",
        "displayName": "Seoul 1",
        "businessIdentity": {"jurisdiction": "KR", "registrationNumber": "124-81-00998"},
        "contact": {"email": "seoul@example.org", "phoneNumber": "+82212345678"},
        "address": {"postalCode": "04524", "roadAddress": "Sejong-daero 110", "detailAddress": "1"},
        "managerInvitation": {"email": "mina@example.org", "displayName": "Mina Kim"},
        "initialLifecycleStatus": "preparing",
        "initialMembershipFeePolicy": {
            "policyVersion": "2026-1",
            "monthlyFeeAmount": 300_000,
            "currencyCode": "KRW",
            "effectiveFrom": "2026-12-01",
        },
        "reason": "The first one.",
    })
}

fn create(client: &mut Client, world: &World) -> Answer {
    client.post_keyed(
        "/admin/branches",
        &administrator(world),
        "key-1",
        &creation(),
    )
}

fn read(client: &mut Client, world: &World, id: &Value) -> Value {
    let path = format!("/admin/branches/{}", id.as_str().unwrap());
    let answer = client.get(&path, &administrator(world));
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    let tag = answer.header("etag").unwrap();
    assert!(
        tag.starts_with(&format!("\"{}-", body["revision"])),
        "{tag}"
    );
    body
}

/// Waits until the branch reads as completed.
fn wait_until_completed(client: &mut Client, world: &World, id: &Value) -> Value {
    let mut branch = Value::Null;
    until("it is completed", || {
        branch = read(client, world, id);
        branch["outcomeStatus"] == "completed"
    });
    assert_eq!(branch["repair"], Value::Null);
    assert_eq!(branch["authorizationRelationshipStatus"], "applied");
    assert_eq!(statuses(&branch), ["completed"; 3]);
    branch
}

fn statuses(branch: &Value) -> Vec<&str> {
    let effects = branch["sideEffects"].as_array().unwrap();
    let kinds: Vec<_> = effects.iter().map(|effect| &effect["kind"]).collect();
    assert_eq!(kinds, KINDS);
    effects
        .iter()
        .map(|effect| effect["status"].as_str().unwrap())
        .collect()
}

fn numbers(branch: &Value) -> Vec<String> {
    let effects = branch["sideEffects"].as_array().unwrap();
    effects
        .iter()
        .map(|effect| effect["outboxMessageId"].to_string())
        .collect()
}

/// The command sent again is answered as it was at first.
fn assert_replayed(client: &mut Client, world: &World, first: &Value) {
    let again = create(client, world);
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let mut expected = first.clone();
    expected["idempotentReplay"] = json!(true);
    assert_eq!(again.json(), expected);
}

/// The same message always has the same key and body; each is taken once at least, in their
/// order, and none is sent before the one before it was taken.
fn assert_in_order(delivered: &[Delivered], branch: &Value) {
    let numbers = numbers(branch);
    let mut next = 0;
    let mut firsts: Vec<Option<Value>> = vec![None; KINDS.len()];
    for message in delivered {
        let which = KINDS
            .iter()
            .position(|kind| *kind == message.kind())
            .unwrap();
        assert!(which <= next, "{} came too early", message.kind());
        let (log, number) = message.key.split_once('-').unwrap();
        assert!(
            log.len() == 32 && log == logs(&delivered[..1])[0],
            "{message:?}"
        );
        assert_eq!(number, numbers[which]);
        assert_eq!(message.body["number"].to_string(), number);
        assert_eq!(message.body["body"]["branchId"], branch["branchId"]);
        let path = format!("admin/branches/{}", branch["branchId"].as_str().unwrap());
        assert_eq!(message.body["resource"], path);
        let first = firsts[which].get_or_insert_with(|| message.body.clone());
        assert_eq!(*first, message.body);
        if message.taken && which == next {
            next += 1;
        }
    }
    assert_eq!(next, KINDS.len(), "all were taken");
}

/// The logs that the keys of messages name.
fn logs(delivered: &[Delivered]) -> Vec<&str> {
    let keys = delivered.iter().map(|message| message.key.as_str());
    keys.map(|key| key.split_once('-').unwrap().0).collect()
}

#[test]
fn a_restored_log_gives_new_messages_new_keys_and_old_ones_keep_theirs() {
    let world = World::new();
    let directory = Directory::start(Mode::Fails);
    let server = directory.server(&world);
    let mut client = server.client();
    let first = create(&mut client, &world);
    let position = first.position().unwrap().to_string();
    directory.set(Mode::Takes);
    wait_until_completed(&mut client, &world, &first.json()["branchId"]);
    // This one's numbers are given again after the restoration.
    let mut second = creation();
    second["commandId"] = json!("command-2");
    second["branchCode"] = json!("SEOUL-2");
    second["expectedOrganizationRevision"] = json!(2);
    second["businessIdentity"]["registrationNumber"] = json!("120-81-47521");
    second["managerInvitation"]["email"] = json!("second@example.org");
    let create_second = |client: &mut Client| {
        client.post_keyed("/admin/branches", &administrator(&world), "key-2", &second)
    };
    let lost = create_second(&mut client);
    assert_eq!(lost.status, 201, "{lost:?}");
    assert_eq!(server.stop(), Some(0));
    let before = directory.delivered();
    let old = logs(&before)[0].to_owned();
    assert!(logs(&before).iter().all(|log| *log == old));

    let data = world.data();
    let data = data.to_str().unwrap();
    let copy = world.path("copy");
    std::fs::rename(data, &copy).unwrap();
    let copy = copy.to_str().unwrap();
    let arguments = ["restore", "--from", copy, "--data", data, "--at", &position];
    let (code, out, err) = run(&arguments);
    assert_eq!(code, Some(0), "{out}{err}");
    directory.set(Mode::Fails);
    let server = directory.server(&world);
    let mut client = server.client();
    // What was pending then goes out again, under the keys that it had.
    directory.wait_for(before.len() + 1);
    directory.set(Mode::Takes);
    wait_until_completed(&mut client, &world, &first.json()["branchId"]);
    let again = create_second(&mut client);
    assert_eq!(again.status, 201, "{again:?}");
    let all = directory.delivered();
    let after = &all[before.len()..];
    let (of_first, of_second): (Vec<_>, Vec<_>) = after
        .iter()
        .cloned()
        .partition(|message| message.body["body"]["branchId"] == first.json()["branchId"]);
    assert_in_order(&of_first, &first.json());
    assert!(logs(&of_first).iter().all(|log| *log == old));
    assert_eq!(of_second.len(), 3);
    for (new, lost) in of_second.iter().zip(&before[before.len() - 3..]) {
        assert_eq!(new.body["number"], lost.body["number"]);
        assert!(all[..before.len()].iter().all(|told| told.key != new.key));
    }
    let verified = run(&["verify", "--data", data, "--json"]).1;
    assert!(verified.is_empty(), "a server holds it");
    assert_eq!(server.stop(), Some(0));
    let verified = run(&["verify", "--data", data, "--json"]).1;
    let verified: Value = serde_json::from_str(&verified).unwrap();
    assert_eq!(verified["logId"], logs(&of_second)[0]);
    let ancestor = json!([{"logId": old, "lastPosition": position.parse::<u64>().unwrap()}]);
    assert_eq!(verified["restoredFrom"], ancestor);
}

#[test]
fn a_directory_that_answers_in_time_makes_the_branch_complete_at_once() {
    let world = World::new();
    let directory = Directory::start(Mode::Takes);
    let server = directory.server(&world);
    let mut client = server.client();
    let answer = create(&mut client, &world);
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("idempotent-replayed"), None);
    let first = answer.json();
    assert_eq!(first["outcomeStatus"], "completed");
    assert_eq!(first["repair"], Value::Null);
    assert_eq!(first["authorizationRelationshipStatus"], "applied");
    assert_eq!(statuses(&first), ["completed"; 3]);
    // It was completed by a commit of its own, which is none of the branch's.
    assert_eq!(first["revision"], 1);
    assert_eq!(first["idempotentReplay"], false);
    assert_eq!(read(&mut client, &world, &first["branchId"]), first);
    assert_replayed(&mut client, &world, &first);
    let delivered = directory.delivered();
    assert_eq!(delivered.len(), 3);
    assert_in_order(&delivered, &first);
    for message in &delivered {
        assert_eq!(message.path, "POST /messages?from=tests HTTP/1.1");
        assert_eq!(message.content_type, "application/json");
    }
    assert_eq!(delivered[0].body["body"]["branchCode"], "SEOUL-1");
    assert_eq!(
        delivered[1].body["body"]["authorizationRelationships"],
        first["authorizationRelationships"]
    );
    assert_eq!(delivered[2].body["body"]["email"], "mina@example.org");
    server.kill();
    let server = directory.server(&world);
    let mut client = server.client();
    assert_replayed(&mut client, &world, &first);
    assert_eq!(read(&mut client, &world, &first["branchId"]), first);
    assert_eq!(
        directory.delivered().len(),
        3,
        "what was taken is not sent again"
    );
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_message_that_a_directory_refuses_is_sent_again_until_taken() {
    for mode in [Mode::Fails, Mode::Breaks] {
        // Whether it is waited for shows in the quickest answer: a busy machine delays others.
        let (world, directory, server, answer) = until_ok("a refusal is not waited for", || {
            let world = World::new();
            let directory = Directory::start(mode);
            let server = directory.server(&world);
            let asked = Instant::now();
            let answer = create(&mut server.client(), &world);
            let took = asked.elapsed();
            match took < FIRST_ATTEMPT {
                true => Ok((world, directory, server, answer)),
                false => Err(format!("{took:?}")),
            }
        });
        let mut client = server.client();
        assert_eq!(answer.status, 202, "{answer:?}");
        let first = answer.json();
        assert_eq!(first["outcomeStatus"], "repair_pending");
        assert_eq!(first["authorizationRelationshipStatus"], "pending");
        assert_eq!(first["operatorIdentity"]["operatorIdentityId"], Value::Null);
        assert_eq!(statuses(&first), ["pending"; 3]);
        assert_eq!(first["repair"]["pendingSideEffects"], first["sideEffects"]);
        assert_eq!(first["revision"], 1);
        assert_eq!(read(&mut client, &world, &first["branchId"]), first);
        assert_replayed(&mut client, &world, &first);
        directory.wait_for(4);
        directory.set(Mode::Takes);
        let branch = wait_until_completed(&mut client, &world, &first["branchId"]);
        assert_eq!(
            branch["revision"], 1,
            "what is delivered is no change of it"
        );
        assert_in_order(&directory.delivered(), &first);
        assert_replayed(&mut client, &world, &first);
        server.kill();
        let server = directory.server(&world);
        let mut client = server.client();
        assert_eq!(read(&mut client, &world, &first["branchId"]), branch);
        assert_replayed(&mut client, &world, &first);
    }
}

#[test]
fn a_response_names_the_messages_taken_in_time_and_those_still_pending() {
    let world = World::new();
    let directory = Directory::start(Mode::KnowsNoInvitation);
    let server = directory.server(&world);
    let mut client = server.client();
    let answer = create(&mut client, &world);
    assert_eq!(answer.status, 202, "{answer:?}");
    let first = answer.json();
    assert_eq!(first["outcomeStatus"], "repair_pending");
    assert_eq!(statuses(&first), ["completed", "completed", "pending"]);
    assert_eq!(first["authorizationRelationshipStatus"], "applied");
    assert_eq!(
        first["repair"]["pendingSideEffects"],
        json!([first["sideEffects"][2]])
    );
    assert_eq!(first["revision"], 1);
    server.kill();
    let server = directory.server(&world);
    let mut client = server.client();
    assert_replayed(&mut client, &world, &first);
    directory.set(Mode::Takes);
    let branch = wait_until_completed(&mut client, &world, &first["branchId"]);
    assert_eq!(branch["revision"], 1);
    assert_replayed(&mut client, &world, &first);
    let delivered = directory.delivered();
    assert_in_order(&delivered, &first);
    let others = delivered
        .iter()
        .filter(|message| message.kind() != KINDS[2]);
    assert_eq!(others.count(), 2, "what was taken is not sent again");
    assert_eq!(server.stop(), Some(0));
    let data = world.data();
    let (code, out, err) = run(&["verify", "--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{out} {err}");
}

#[test]
fn a_directory_that_does_not_answer_is_waited_for_2_seconds() {
    let world = World::new();
    let directory = Directory::start(Mode::Hangs);
    let server = directory.server(&world);
    let mut client = server.client();
    let asked = Instant::now();
    let answer = create(&mut client, &world);
    let took = asked.elapsed();
    assert!(
        took >= FIRST_ATTEMPT && took < FIRST_ATTEMPT * 3,
        "{took:?}"
    );
    assert_eq!(answer.status, 202, "{answer:?}");
    let first = answer.json();
    assert_eq!(statuses(&first), ["pending"; 3]);
    directory.set(Mode::Takes);
    wait_until_completed(&mut client, &world, &first["branchId"]);
    assert_in_order(&directory.delivered(), &first);
    assert_replayed(&mut client, &world, &first);
}

#[test]
fn identical_commands_wait_for_one_response_and_others_do_not_wait() {
    let world = World::new();
    let directory = Directory::start(Mode::Hangs);
    let server = directory.server(&world);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| create(&mut server.client(), &world)))
            .collect();
        directory.wait_for(1);
        // Another command of the organization is decided meanwhile: the directory hangs until after it.
        let mut client = server.client();
        let stale = client.post_keyed(
            "/admin/branches",
            &administrator(&world),
            "key-2",
            &creation(),
        );
        assert_eq!(stale.json()["code"], "organization_revision_stale");
        directory.set(Mode::Takes);
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let firsts = answers
        .iter()
        .filter(|answer| answer.header("idempotent-replayed").is_none());
    assert_eq!(firsts.count(), 1);
    let first = answers
        .iter()
        .find(|answer| answer.header("idempotent-replayed").is_none())
        .unwrap()
        .json();
    for answer in &answers {
        let mut body = answer.json();
        body["idempotentReplay"] = json!(false);
        assert_eq!(body, first);
    }
}

#[test]
fn a_crash_before_the_answer_leaves_one_answer_and_the_relay_goes_on() {
    let world = World::new();
    let directory = Directory::start(Mode::Hangs);
    let server = directory.server(&world);
    let mut client = server.client();
    let body = creation().to_string();
    client.send_raw(
        format!(
            "POST /admin/branches HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nIdempotency-Key: key-1\r\n\
             Content-Length: {}\r\n\r\n{body}",
            administrator(&world),
            body.len()
        )
        .as_bytes(),
    );
    directory.wait_for(1);
    // No response was sent yet, but the commit of what was sent is durable.
    server.kill();
    let server = directory.server(&world);
    let mut client = server.client();
    let again = create(&mut client, &world);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let first = again.json();
    assert_eq!(first["outcomeStatus"], "repair_pending");
    assert_eq!(statuses(&first), ["pending"; 3]);
    let told = &directory.delivered()[0].body["body"];
    assert_eq!(first["branchId"], told["branchId"]);
    assert_replayed(&mut client, &world, &first);
    directory.set(Mode::Takes);
    let branch = wait_until_completed(&mut client, &world, &first["branchId"]);
    assert_replayed(&mut client, &world, &first);
    assert_in_order(&directory.delivered(), &first);
    server.kill();
    let server = directory.server(&world);
    let mut client = server.client();
    assert_replayed(&mut client, &world, &first);
    assert_eq!(read(&mut client, &world, &first["branchId"]), branch);
}

#[test]
fn a_sender_that_hangs_up_finds_its_branch_completed_under_its_key() {
    let world = World::new();
    let directory = Directory::start(Mode::Hangs);
    let server = directory.server(&world);
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            let mut client = server.client();
            let body = creation().to_string();
            client.send_raw(
                format!(
                    "POST /admin/branches HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {}\r\n\
                     Content-Type: application/json\r\nIdempotency-Key: key-1\r\n\
                     Content-Length: {}\r\n\r\n{body}",
                    administrator(&world),
                    body.len()
                )
                .as_bytes(),
            );
            directory.wait_for(1);
        });
        sent.join().unwrap();
    });
    directory.set(Mode::Takes);
    let mut client = server.client();
    let answer = create(&mut client, &world);
    assert_eq!(answer.header("idempotent-replayed"), Some("true"));
    let id = answer.json()["branchId"].clone();
    let branch = wait_until_completed(&mut client, &world, &id);
    assert_in_order(&directory.delivered(), &branch);
}

#[test]
fn any_number_of_restarts_deliver_in_order_and_under_the_same_keys() {
    // However quick the service is, it gets no further than it is let, and so gives nothing up.
    const HURRY: &str = "100000";
    let world = World::new();
    let directory = Directory::start(Mode::Breaks);
    directory.set_for(Mode::Breaks, 1);
    let server = directory.hurried(&world, HURRY);
    let answer = create(&mut server.client(), &world);
    assert_eq!(answer.status, 202);
    let first = answer.json();
    directory.wait_for(2);
    server.kill();
    for round in 0..3 {
        let before = directory.delivered().len();
        directory.set_for(Mode::Breaks, before + 2);
        let server = directory.hurried(&world, HURRY);
        directory.wait_for(before + 3);
        if round == 2 {
            directory.set_for(Mode::KnowsNoInvitation, before + 7);
            directory.wait_for(before + 8);
        }
        server.kill();
    }
    let server = directory.hurried(&world, HURRY);
    let mut client = server.client();
    directory.set(Mode::Takes);
    wait_until_completed(&mut client, &world, &first["branchId"]);
    assert_replayed(&mut client, &world, &first);
    assert_in_order(&directory.delivered(), &first);
}

#[test]
fn an_invitation_is_accepted_at_revision_1_despite_deliveries_meanwhile() {
    let world = World::new();
    let directory = Directory::start(Mode::Fails);
    let server = directory.server(&world);
    let mut client = server.client();
    let id = create(&mut client, &world).json()["branchId"].clone();
    let path = format!("/admin/branches/{}", id.as_str().unwrap());
    let tag = |client: &mut Client| {
        let answer = client.get(&path, &administrator(&world));
        answer.header("etag").unwrap().to_owned()
    };
    let pending = tag(&mut client);
    directory.set(Mode::Takes);
    wait_until_completed(&mut client, &world, &id);
    let completed = tag(&mut client);
    assert_ne!(
        pending, completed,
        "the body has changed, and so has its tag"
    );
    let bearer = format!("Bearer {}", administrator(&world));
    let headers = [("Authorization", &*bearer), ("If-None-Match", &completed)];
    let known = client.request("GET", &path, &headers, b"");
    assert_eq!(known.status, 304);
    let manager = world.token(&Actor {
        email: Some("Mina@example.org".into()),
        email_verified: true,
        ..actor(ActorKind::BranchManager, "manager-1")
    });
    let accepted = client.post_keyed(
        "/branch/manager-invitations/accept",
        &manager,
        "accept-1",
        &json!({"expectedOnboardingRevision": 1}),
    );
    assert_eq!(accepted.status, 201, "{accepted:?}");
    assert_eq!(accepted.json()["authorizationRelationshipStatus"], "queued");
    assert_eq!(read(&mut client, &world, &id)["revision"], 2);
    assert_ne!(tag(&mut client), completed);
}

#[test]
fn a_pending_message_stays_pending_until_a_directory_takes_it() {
    let world = World::new();
    let (closed, _kept) = where_nobody_listens();
    let server = Server::start_with(&world, &["--directory-url", &format!("http://{closed}/")]);
    let mut client = server.client();
    let answer = create(&mut client, &world);
    assert_eq!(answer.status, 202, "{answer:?}");
    let first = answer.json();
    // What is pending does not hold the end up.
    assert_eq!(server.stop(), Some(0));
    // A server without a configured directory has none that could take it.
    for _ in 0..2 {
        let server = Server::start(&world);
        let mut client = server.client();
        // The embedded one completes what is created now, and that alone.
        let mut other = creation();
        other["expectedOrganizationRevision"] = json!(1);
        let stale = client.post_keyed("/admin/branches", &administrator(&world), "key-2", &other);
        assert_eq!(stale.json()["code"], "organization_revision_stale");
        assert_eq!(read(&mut client, &world, &first["branchId"]), first);
        assert_replayed(&mut client, &world, &first);
        until("they wait for a receiver", || {
            let page = client.get("/metrics", "");
            page.text().contains("carebook_outbox_unclaimed 3")
        });
        assert_eq!(server.stop(), Some(0));
        let data = world.data();
        let (code, out, err) = run(&["verify", "--data", data.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{out} {err}");
    }
    // One that answers takes it, however long it has waited.
    let directory = Directory::start(Mode::Takes);
    let server = directory.server(&world);
    let mut client = server.client();
    wait_until_completed(&mut client, &world, &first["branchId"]);
    assert_replayed(&mut client, &world, &first);
    assert_in_order(&directory.delivered(), &first);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_embedded_directory_completes_in_the_commit_itself() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let answer = create(&mut client, &world);
    assert_eq!(answer.status, 201, "{answer:?}");
    let first = answer.json();
    assert_eq!(first["revision"], 1);
    assert_eq!(statuses(&first), ["completed"; 3]);
    assert_replayed(&mut client, &world, &first);
}

#[test]
fn an_address_that_is_none_is_refused_at_the_start() {
    for url in ["ftp://directory/", "directory:80", "http://"] {
        let (code, _, error) = run(&["serve", "--demo", "--directory-url", url]);
        assert_eq!(code, Some(2), "{url}: {error}");
        assert!(error.contains("--directory-url"), "{error}");
    }
}
