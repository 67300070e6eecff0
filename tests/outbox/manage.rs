//! What an operator sees of messages and does about them, over HTTP and at the command line.

use std::process::Command;
use std::time::Duration;

use carebook::base::actor::{Actor, ActorKind};
use carebook::base::hex::hex;
use carebook::cli::runtime::on_lane;
use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{administrator, create, listed, operator};
use crate::durability::sync_failure::can_trace;
use crate::support::inside::Inside;
use crate::support::{Server, World, actor, carebook, files, run};

/// A server with a receiver for branches, whose pauses together last a tenth of a second.
fn server(world: &World, receiver: &Receiver) -> Server {
    Server::start_with(
        world,
        &[
            "--directory-url",
            &receiver.url,
            "--receivers-hurry",
            "1000000",
        ],
    )
}

#[test]
fn a_message_that_is_never_taken_is_dead_and_those_behind_it_go_on() {
    let world = World::new();
    let receiver =
        Receiver::start(
            |body| match body["topic"] == "branch_onboarding.operator_identity" {
                true => 500,
                false => 204,
            },
        );
    let server = server(&world, &receiver);
    let mut client = server.client();
    let created = create(&mut client, &world, 1);
    assert_eq!(created.status, 202, "{created:?}");
    let effects = created.json()["sideEffects"].clone();
    let number = |index: usize| effects[index]["outboxMessageId"].as_i64().unwrap();
    let got = receiver.wait_for(|got| got.len() == 12);
    let numbers: Vec<_> = got.iter().map(super::receiver::Got::number).collect();
    let first = number(0);
    assert_eq!(numbers[..10], [first; 10]);
    assert_eq!(numbers[10..], [number(1), number(2)]);
    while listed(&mut client, &world, "?state=taken").len() < 2 {}
    let dead = listed(&mut client, &world, "?state=dead");
    let resource = format!(
        "admin/branches/{}",
        created.json()["branchId"].as_str().unwrap()
    );
    assert_eq!(
        dead,
        [json!({
            "number": first,
            "topic": "branch_onboarding.operator_identity",
            "resource": resource,
            "state": "dead",
            "attempts": 10,
            "nextAttemptAt": null,
            "lastStatus": 500,
            "lastError": "it answered 500",
        })]
    );
    // It is sent again on demand, and then the branch is complete.
    receiver.answer(|_| 204);
    let path = format!("/outbox/{first}/retries");
    let retried = client.post_keyed(&path, &operator(&world), "retry-1", &json!({}));
    assert_eq!(retried.status, 202, "{retried:?}");
    assert_eq!(retried.json()["state"], "waiting");
    while !listed(&mut client, &world, "?state=waiting").is_empty() {}
    let read = client
        .get(&format!("/{resource}"), &administrator(&world))
        .json();
    assert_eq!(read["outcomeStatus"], "completed");
    let again = client.post_keyed(&path, &operator(&world), "retry-1", &json!({}));
    assert_eq!(
        (again.status, again.header("idempotent-replayed")),
        (202, Some("true"))
    );
    let settled = client.post_keyed(&path, &operator(&world), "retry-2", &json!({}));
    assert_eq!(settled.status, 409);
    assert_eq!(settled.json()["code"], "message_settled");
}

#[test]
fn a_skipped_message_is_not_sent_and_its_side_effect_stays_pending() {
    let world = World::new();
    let receiver = Receiver::start(|_| 503);
    let server = server(&world, &receiver);
    let mut client = server.client();
    let created = create(&mut client, &world, 1).json();
    let first = created["sideEffects"][0]["outboxMessageId"].clone();
    while listed(&mut client, &world, "?state=dead").len() < 3 {}
    let path = format!("/outbox/{first}/skips");
    let without = client.post_keyed(&path, &operator(&world), "skip-1", &json!({}));
    assert_eq!(without.status, 400, "{without:?}");
    let reason = json!({"reason": "It was entered there by hand."});
    let skipped = client.post_keyed(&path, &operator(&world), "skip-1", &reason);
    assert_eq!(skipped.status, 200, "{skipped:?}");
    assert_eq!(skipped.json()["state"], "skipped");
    let path = format!("/admin/branches/{}", created["branchId"].as_str().unwrap());
    let read = client.get(&path, &administrator(&world)).json();
    assert_eq!(read["sideEffects"][0]["status"], "pending");
    assert_eq!(listed(&mut client, &world, "?state=skipped").len(), 1);
    // It is a commit, with an event of its own.
    let position: u64 = skipped
        .header("carebook-position")
        .unwrap()
        .parse()
        .unwrap();
    let events = client.get(
        "/events?type=carebook.outbox-message.skipped",
        &super::reader(&world),
    );
    let events = events.json()["events"].as_array().unwrap().clone();
    let [event] = &events[..] else {
        panic!("one event: {events:?}");
    };
    assert_eq!(event["id"], format!("{position}-0"));
    assert_eq!(event["subject"], format!("outbox/{first}"));
    assert_eq!(
        event["data"],
        json!({
            "operation": "skip_outbox_message",
            "revision": null,
            "actorKind": "system_workflow",
            "actorProfileId": "operator-1",
            "topic": "branch_onboarding.operator_identity",
            "resource": &path[1..],
        })
    );
}

#[test]
fn metrics_and_readiness_report_each_receiver_and_the_service_stays_ready() {
    let world = World::new();
    let receiver = Receiver::start(|body| match body["topic"].as_str() {
        Some("branch_onboarding.manager_invitation") => 204,
        _ => 503,
    });
    let server = server(&world, &receiver);
    let mut client = server.client();
    let created = create(&mut client, &world, 1);
    assert_eq!(created.status, 202, "{created:?}");
    let figure = |client: &mut crate::support::Client, series: &str| -> f64 {
        let answer = client.get("/metrics", "");
        let of = format!("{series} ");
        let mut lines = answer.text().lines();
        let value = lines.find_map(|line| line.strip_prefix(&of));
        value
            .unwrap_or_else(|| panic!("no {series}"))
            .parse()
            .unwrap()
    };
    let of = |name: &str| format!("carebook_receiver_{name}{{receiver=\"branch_onboarding.*\"}}");
    // What an attempt came to is counted before it is committed, but the queue hears of it after.
    while listed(&mut client, &world, "?state=taken").is_empty()
        || figure(&mut client, &of("waiting")) > 0.0
    {}
    for (name, value) in [
        ("waiting", 0.0),
        ("dead", 2.0),
        ("attempts_total", 21.0),
        ("taken_total", 1.0),
        ("attempt_duration_seconds_count", 21.0),
    ] {
        assert_eq!(figure(&mut client, &of(name)), value, "{name}");
    }
    let all = "attempt_duration_seconds_bucket{receiver=\"branch_onboarding.*\",le=\"+Inf\"}";
    assert_eq!(
        figure(&mut client, &format!("carebook_receiver_{all}")),
        21.0
    );
    for name in ["oldest_seconds", "attempt_duration_seconds_sum"] {
        assert!(figure(&mut client, &of(name)) > 0.0, "{name}");
    }
    assert_eq!(figure(&mut client, "carebook_outbox_unclaimed"), 0.0);
    let outbox = |client: &mut crate::support::Client| {
        let ready = client.get("/readyz", "");
        assert_eq!(ready.status, 200);
        ready.json()["outbox"].clone()
    };
    let told = |failing, waiting| {
        json!({
            "receivers": 1, "failing": failing, "waiting": waiting, "dead": 2, "withoutReceiver": 0,
        })
    };
    // The newest attempt was a success.
    assert_eq!(outbox(&mut client), told(0, 0));
    receiver.answer(|_| 400);
    assert_eq!(server.stop(), Some(0));
    let slow = Server::start_with(&world, &["--directory-url", &receiver.url]);
    let mut client = slow.client();
    assert_eq!(create(&mut client, &world, 2).status, 202);
    while outbox(&mut client) != told(1, 3) {}
}

#[test]
fn a_creation_waiting_for_its_receivers_is_answered_at_a_shutdown() {
    let world = World::new();
    // It accepts connections, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/in", silent.local_addr().unwrap());
    let server = Server::start_with(&world, &["--directory-url", &url]);
    let (mut waiting, mut client) = (server.client(), server.client());
    let created = std::thread::scope(|threads| {
        let created = threads.spawn(|| create(&mut waiting, &world, 1));
        while listed(&mut client, &world, "").is_empty() {}
        assert_eq!(server.stop(), Some(0));
        created.join().unwrap()
    });
    assert_eq!(created.status, 202, "{created:?}");
}

#[test]
fn only_who_may_manages_messages_and_a_list_goes_on_from_page_to_page() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    for number in 1..=3 {
        assert_eq!(create(&mut client, &world, number).status, 201);
    }
    let plain = world.workflow();
    for path in ["/outbox", "/outbox/1"] {
        assert_eq!(client.get(path, &plain).status, 403, "{path}");
        assert_eq!(client.get(path, "").status, 401, "{path}");
    }
    for path in ["/outbox/1/retries", "/outbox/1/skips"] {
        let body = json!({"reason": "None."});
        assert_eq!(
            client.post_keyed(path, &plain, "key-1", &body).status,
            403,
            "{path}"
        );
    }
    let missing = client.post_keyed("/outbox/99/retries", &operator(&world), "k", &json!({}));
    assert_eq!(missing.status, 404);
    assert_eq!(client.get("/outbox/99", &operator(&world)).status, 404);
    let one = client.get("/outbox/1", &operator(&world));
    assert_eq!(
        (one.status, one.json()["state"].clone()),
        (200, json!("taken"))
    );
    // Without a body, and without what says what it is.
    let bearer = format!("Bearer {}", operator(&world));
    let headers = [("Authorization", &*bearer), ("Idempotency-Key", "empty-1")];
    let empty = client.request("POST", "/outbox/1/retries", &headers, b"");
    assert_eq!(empty.status, 409, "{empty:?}");
    // Without a key, and with nothing of the type that a body would have.
    let headers = [
        ("Authorization", &*bearer),
        ("Content-Type", "application/json"),
    ];
    for path in ["/outbox/1/retries", "/outbox/1/skips"] {
        let body = match path.ends_with("skips") {
            true => &b"{\"reason\":\"None.\"}"[..],
            false => b"",
        };
        let keyless = client.request("POST", path, &headers, body);
        let told = (keyless.status, keyless.json()["code"].clone());
        assert_eq!(told, (409, json!("message_settled")), "{path} {keyless:?}");
    }
    for order in ["newest", "oldest"] {
        let mut numbers = Vec::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/outbox?order={order}&limit=2{cursor}");
            let page = client.get(&path, &operator(&world)).json();
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2);
            numbers.extend(items.iter().map(|item| item["number"].as_i64().unwrap()));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let mut expected: Vec<i64> = (1..=9).collect();
        if order == "newest" {
            expected.reverse();
        }
        assert_eq!(numbers, expected, "{order}");
        let other = client.get(
            &format!("/outbox?order={order}&state=dead{cursor}"),
            &operator(&world),
        );
        assert_eq!(other.status, 400, "a cursor is of its filters alone");
        assert_eq!(other.json()["fieldErrors"][0]["code"], "pattern");
        let another = world.token(&Actor {
            permissions: vec!["outbox:manage".into()],
            ..actor(ActorKind::SystemWorkflow, "operator-2")
        });
        let path = format!("/outbox?order={order}&limit=2{cursor}");
        assert_eq!(client.get(&path, &operator(&world)).status, 200);
        let other = client.get(&path, &another);
        assert_eq!(other.status, 400, "and of who was given it");
        assert_eq!(other.json()["fieldErrors"][0]["code"], "pattern");
    }
    for bad in [
        "?limit=0",
        "?limit=501",
        "?state=lost",
        "?order=any",
        "?what=1",
        "?cursor=x",
    ] {
        let answer = client.get(&format!("/outbox{bad}"), &operator(&world));
        assert_eq!(answer.status, 400, "{bad}");
    }
}

#[test]
fn the_command_line_shows_and_mends_what_a_server_or_a_stopped_one_has() {
    let world = World::new();
    let receiver = Receiver::start(|_| 503);
    let started = server(&world, &receiver);
    let mut client = started.client();
    create(&mut client, &world, 1);
    while listed(&mut client, &world, "?state=dead").len() < 3 {}
    let url = format!("http://{}", started.address);
    let token = operator(&world);
    let outbox = |arguments: &[&str]| {
        let place = ["--url", &url, "--token", &token];
        run(&[&["outbox"], arguments, &place].concat())
    };
    let (code, table, err) = outbox(&["list"]);
    assert_eq!(code, Some(0), "{err}");
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(lines[0].contains("number"), "{table}");
    let last = lines[0].find("lastError").unwrap();
    for line in &lines[1..] {
        assert_eq!(&line[last..], "it answered 503", "{table}");
    }
    let json_lines = |text: &str| -> Vec<Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let (_, out, _) = outbox(&["list", "--state", "dead", "--json"]);
    let dead = json_lines(&out);
    assert_eq!(dead.len(), 3);
    let [third, second, first] = [0, 1, 2].map(|index: usize| dead[index]["number"].to_string());
    let (code, out, err) = outbox(&["skip", &first, "--reason", "by hand", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(json_lines(&out)[0]["state"], "skipped");
    let (code, _, err) = outbox(&["retry", &first]);
    assert_eq!(code, Some(1));
    assert!(err.contains("409"), "{err}");
    assert_eq!(started.stop(), Some(0));

    let data = world.data();
    let outbox = |arguments: &[&str]| {
        let place = ["--data", data.to_str().unwrap()];
        run(&[&["outbox"], arguments, &place].concat())
    };
    let (code, out, err) = outbox(&["list", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(json_lines(&out).len(), 2);
    let (code, _, err) = outbox(&["retry", &second]);
    assert_eq!(code, Some(0), "{err}");
    let (_, out, _) = outbox(&["show", &second, "--json"]);
    assert_eq!(json_lines(&out)[0]["state"], "waiting");
    let (code, _, err) = outbox(&["skip", &third, "--reason", "by hand"]);
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = outbox(&["show", "99"]);
    assert_eq!(code, Some(1), "{err}");
    let (code, out, err) = run(&["verify", "--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{out}{err}");
    // What was retried is sent at the next start.
    receiver.answer(|_| 204);
    let restarted = server(&world, &receiver);
    receiver.wait_for(|got| got.iter().any(super::receiver::Got::is_taken));
    drop(restarted);
}

/// A world whose server is stopped, and a message that waits there.
fn stopped_with_one_that_waits() -> (World, String) {
    let world = World::new();
    let started = server(&world, &Receiver::start(|_| 503));
    let created = create(&mut started.client(), &world, 1);
    assert_eq!(created.status, 202, "{created:?}");
    assert_eq!(started.stop(), Some(0));
    let first = created.json()["sideEffects"][0]["outboxMessageId"].to_string();
    (world, first)
}

/// strace makes the sync of the directory's new segment fail: the record is written, and a start has it.
#[test]
fn a_skip_whose_sync_fails_is_not_said_to_be_undone() {
    if !can_trace() {
        return;
    }
    let (world, first) = stopped_with_one_that_waits();
    let data = world.data();
    let segments = files(&data).into_iter().filter_map(|file| {
        let name = file.file_name()?.to_str()?;
        let number = name.strip_prefix("segment-")?.strip_suffix(".log")?;
        number.parse::<u64>().ok()
    });
    // A start goes on in a segment of its own.
    let next = segments.max().unwrap() + 1;
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-qq", "-e", "signal=none", "-e"]);
    command.args(["trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1"]);
    command
        .arg("-P")
        .arg(data.join(format!("segment-{next:016}.log")));
    command.arg("-o").arg(world.path("strace.log"));
    command.arg(env!("CARGO_BIN_EXE_carebook"));
    command.args(["outbox", "skip", &first, "--reason", "by hand", "--data"]);
    let skipped = command.arg(&data).output().unwrap();
    let err = String::from_utf8_lossy(&skipped.stderr);
    assert_eq!(skipped.status.code(), Some(1), "{err}");
    assert!(err.contains("it is unknown whether it was done"), "{err}");
    assert!(err.contains("Input/output error"), "{err}");
    assert!(err.contains(&format!("outbox show {first}")), "{err}");
    let show = ["outbox", "show", &first, "--json", "--data"];
    let (code, out, err) = run(&[&show[..], &[data.to_str().unwrap()]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("skipped"), "{out}");
}

#[test]
fn outbox_commands_report_their_outcome_when_the_output_is_full() {
    let (world, first) = stopped_with_one_that_waits();
    for (action, done, state) in [
        (&["retry", &first][..], "to be sent again", "waiting"),
        (
            &["skip", &first, "--reason", "by hand"],
            "skipped",
            "skipped",
        ),
    ] {
        let mut full = std::fs::OpenOptions::new();
        let full = full.write(true).open("/dev/full").unwrap();
        let mut command = carebook();
        command.arg("outbox").args(action).arg("--data");
        let output = command.arg(world.data()).stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{err}");
        let told = format!("message {first} is {done}; but the output cannot be written");
        assert!(err.contains(&told), "{err}");
        let data = world.data();
        let show = ["outbox", "show", &first, "--json", "--data"];
        let (code, out, err) = run(&[&show[..], &[data.to_str().unwrap()]].concat());
        assert_eq!(code, Some(0), "{err}");
        assert!(out.contains(&format!("\"state\":\"{state}\"")), "{out}");
    }
}

#[test]
fn a_taken_message_is_inspected_with_its_creating_commit() {
    let world = World::new();
    let receiver = Receiver::start(|_| 204);
    let server = server(&world, &receiver);
    let mut client = server.client();
    let created = create(&mut client, &world, 1);
    assert_eq!(created.status, 201, "{created:?}");
    let effects = created.json()["sideEffects"].clone();
    let invitation = effects[2]["outboxMessageId"].to_string();
    while listed(&mut client, &world, "?state=taken").len() < 3 {}
    assert_eq!(server.stop(), Some(0));
    let (data, copy) = (world.data(), world.path("restored"));
    let [data, copy] = [&data, &copy].map(|path| path.to_str().unwrap());
    let (code, _, err) = run(&["restore", "--from", data, "--data", copy]);
    assert_eq!(code, Some(0), "{err}");
    // A message's body is shown as bytes.
    let invited = hex(b"manager-1@example.org");
    let mut told = Vec::new();
    for (round, data) in ["of the log", "of a restored log", "of a snapshot"]
        .into_iter()
        .zip([data, copy, copy])
    {
        let (code, out, err) = run(&["inspect", "counts", "--data", data, "--json"]);
        assert_eq!(code, Some(0), "{round}: {err}");
        let counted: Value = serde_json::from_str(&out).unwrap();
        let states = &counted["resources"]["outbox-message"]["states"];
        assert_eq!(states["count"], 3, "{round}");
        let one = ["inspect", "resource", "outbox-message", &invitation];
        let of = ["--data", data, "--json"];
        let (code, masked, err) = run(&[&one[..], &of].concat());
        assert_eq!(code, Some(0), "{round}: {err}");
        assert!(
            !masked.contains("manager-1@example.org"),
            "{round}: {masked}"
        );
        let (code, open, err) = run(&[&one[..], &of, &["--reveal"]].concat());
        assert_eq!(code, Some(0), "{round}: {err}");
        told.push((open, states["bytes"].clone()));
        if round == "of a restored log" {
            let (code, _, err) = run(&["compact", "--keep", "0s", "--data", data]);
            assert_eq!(code, Some(0), "{err}");
        }
    }
    // The log in which it was born is the same in every delivery.
    assert_eq!(told[0].0.lines().count(), 2, "{}", told[0].0);
    assert!(told[0].0.contains(&invited), "{}", told[0].0);
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].1, told[2].1);
}

#[test]
fn a_message_s_commits_are_the_same_backwards_with_its_creating_commit() {
    let world = World::new();
    let receiver = Receiver::start(|_| 503);
    let server = server(&world, &receiver);
    let mut client = server.client();
    let created = create(&mut client, &world, 1);
    assert_eq!(created.status, 202, "{created:?}");
    while listed(&mut client, &world, "?state=dead").len() < 3 {}
    let first = created.json()["sideEffects"][0]["outboxMessageId"].to_string();
    let path = format!("/outbox/{first}/skips");
    let reason = json!({"reason": "by hand"});
    let skipped = client.post_keyed(&path, &operator(&world), "skip-1", &reason);
    assert_eq!(skipped.status, 200, "{skipped:?}");
    assert_eq!(server.stop(), Some(0));
    let data = world.data();
    let data = data.to_str().unwrap();
    // A message that nothing was done with since its birth.
    let alone = Server::start(&world);
    let created = create(&mut alone.client(), &world, 2);
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(alone.stop(), Some(0));
    let untouched = created.json()["sideEffects"][0]["outboxMessageId"].to_string();
    for (number, least) in [(first.as_str(), 3), (untouched.as_str(), 1)] {
        let positions = |more: &[&str]| -> Vec<u64> {
            let one = ["inspect", "resource", "outbox-message", number];
            let (code, out, err) = run(&[&one[..], more, &["--json", "--data", data]].concat());
            assert_eq!(code, Some(0), "{number} {more:?}: {err}");
            let lines = out.lines().map(|line| {
                let commit: Value = serde_json::from_str(line).unwrap();
                commit["position"].as_u64().unwrap()
            });
            lines.collect()
        };
        let forwards = positions(&[]);
        assert!(forwards.len() >= least, "{number}: {forwards:?}");
        let mut backwards = positions(&["--backwards"]);
        backwards.reverse();
        assert_eq!(backwards, forwards, "{number}");
        let named = format!("outbox-message/{number}");
        let of = ["inspect", "records", "--resource", &named, "--json"];
        let (code, out, err) = run(&[&of[..], &["--data", data]].concat());
        assert_eq!(code, Some(0), "{named}: {err}");
        let lines = out.lines().map(|line| {
            let record: Value = serde_json::from_str(line).unwrap();
            record["position"].as_u64().unwrap()
        });
        assert_eq!(lines.collect::<Vec<_>>(), forwards, "{named}");
    }
}

/// A page is not read at one instant: a message may be settled after its list was looked at and before
/// the messages in it are. So what it leaves out may rest on whatever was committed by its end.
#[test]
fn a_list_response_waits_until_all_commits_up_to_its_end_are_durable() {
    let world = World::new();
    let (inside, gate, _open) = Inside::gated(&world);
    let operator = operator(&world);
    let list = async || {
        let answer = inside.send_json("GET", "/outbox?state=waiting", &operator, "-", None);
        let answer = answer.await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    };
    on_lane(inside.engine(), async {
        assert_eq!(list().await.json()["items"], json!([]));
        gate.set(true);
        let fact =
            json!({"kind": "actor", "id": "a", "revision": 1, "facts": {"lifecycle": "active"}});
        let (token, facts) = (world.workflow(), json!({"facts": [fact]}));
        let put = inside.send_json("POST", "/reference-facts", &token, "-", Some(facts));
        let look = async {
            while inside.engine().figures().queued_bytes == 0 {
                tokio::task::yield_now().await;
            }
            let early = tokio::time::timeout(Duration::from_millis(100), list()).await;
            assert!(early.is_err(), "{early:?}");
            gate.set(false);
            list().await
        };
        let (put, listed) = tokio::join!(put, look);
        assert_eq!(put.json()["applied"], 1, "{put:?}");
        assert!(listed.position() >= put.position(), "{listed:?} {put:?}");
    })
    .unwrap();
}

/// A body of chunks, or over HTTP/2, may turn out to be none.
#[test]
fn a_retry_needs_no_body_and_one_that_it_has_needs_a_type() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let token = operator(&world);
    for (rest, status) in [
        ("\r\n", 404),
        ("Content-Length: 0\r\n\r\n", 404),
        ("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 404),
        ("Content-Length: 2\r\n\r\n{}", 415),
        (
            "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            415,
        ),
    ] {
        client.send_raw(
            format!(
                "POST /outbox/1/retries HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\
                 Idempotency-Key: key\r\n{rest}"
            )
            .as_bytes(),
        );
        assert_eq!(
            client.read_answer("POST").unwrap().status,
            status,
            "{rest:?}"
        );
    }
}
