//! `carebook inspect`, beside real servers and on directories that no process has open.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use carebook::catalogue::{OPERATIONS, RESOURCES};
use carebook::journal::personal::{self, Masking};
use serde_json::{Value, json};

use crate::support::{Answer, Client, Server, World, carebook, files, run};
use crate::walk::{demonstration, take};

/// Runs `carebook inspect` on the world's data directory.
fn inspect(world: &World, arguments: &[&str]) -> (Option<i32>, String, String) {
    let data = world.data();
    let data = ["--data", data.to_str().unwrap()];
    run(&[&["inspect"], arguments, &data].concat())
}

/// What it prints, each line an object.
fn inspected(world: &World, arguments: &[&str]) -> Vec<Value> {
    let (code, out, err) = inspect(world, &[arguments, &["--json"]].concat());
    assert_eq!(code, Some(0), "{arguments:?}: {err}");
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn positions(records: &[Value]) -> Vec<u64> {
    let position = |record: &Value| record["position"].as_u64().unwrap();
    records.iter().map(position).collect()
}

fn contents(directory: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let files = files(directory).into_iter();
    files
        .map(|file| (file.clone(), std::fs::read(file).unwrap()))
        .collect()
}

/// Waits until what was answered last is proved in the log.
fn settled(world: &World, position: u64) {
    let until = Instant::now() + Duration::from_secs(10);
    let from = position.to_string();
    while inspected(world, &["records", "--from", &from]).is_empty() {
        assert!(Instant::now() < until, "position {position} does not show");
    }
}

#[test]
fn inspect_shows_each_acknowledged_command_of_a_server_that_goes_on() {
    let world = World::new();
    let server = Server::start(&world);
    let mut follow = carebook();
    let mut follow = follow
        .args(["inspect", "records", "--follow", "--json", "--data"])
        .arg(world.data())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let heard = BufReader::new(follow.stdout.take().unwrap());
    let following = std::thread::spawn(move || {
        let records = heard.lines().take(60);
        records
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect::<Vec<Value>>()
    });
    let mut client = server.client();
    let mut acknowledged = BTreeMap::new();
    for number in 0..60 {
        let (code, key) = (format!("S-{number}"), format!("key-{number}"));
        let body = world.deposit_request(&code, &key);
        let opened = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
        assert_eq!(opened.status, 201);
        acknowledged.insert(opened.position().unwrap(), (key, opened.json()));
        if number % 20 == 7 {
            // The lock is the server's the whole time.
            inspected(&world, &["counts"]);
        }
    }
    let shown = following.join().unwrap();
    follow.kill().unwrap();
    follow.wait().unwrap();
    let last = *acknowledged.keys().last().unwrap();
    settled(&world, last);
    let listed = inspected(&world, &["records"]);
    assert_eq!(positions(&listed), (1..=last).collect::<Vec<_>>());
    assert_eq!(shown, listed, "followed and listed");
    for record in &listed {
        let (key, answer) = &acknowledged[&record["position"].as_u64().unwrap()];
        assert_eq!(record["operation"], "request_deposit");
        assert_eq!(
            (&record["subject"], &record["key"]),
            (&json!("hq-1"), &json!(key))
        );
        assert_eq!(record["changes"][0]["id"], json!([answer["statementId"]]));
        assert_eq!(
            record["outcome"]["body"]["statementCode"],
            answer["statementCode"]
        );
    }
    let another = world.deposit_request("S-last", "key-last");
    let opened = client.post(
        "/settlement-deposit-requests",
        &world.headquarters(),
        &another,
    );
    assert_eq!(opened.status, 201, "the server goes on");
    assert_eq!(server.stop(), Some(0));
}

/// A stopped directory with statements of two subjects, one acknowledged.
fn stopped(world: &World) -> Value {
    let server = Server::start(world);
    let mut client = server.client();
    let mut first = Value::Null;
    for number in 0..6 {
        let mut body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
        let token = if number % 2 == 0 {
            world.headquarters()
        } else {
            body["actorProfileId"] = json!("hq-2");
            world.plain(
                carebook::base::actor::ActorKind::HeadquartersAdministrator,
                "hq-2",
            )
        };
        let opened = client.post("/settlement-deposit-requests", &token, &body);
        assert_eq!(opened.status, 201, "{opened:?}");
        if number == 0 {
            first = opened.json();
        }
    }
    acknowledge(world, &mut client, &first["statementId"], "ack-1");
    assert_eq!(server.stop(), Some(0));
    first
}

#[test]
fn records_are_chosen_by_position_time_operation_subject_and_resource() {
    let world = World::new();
    let first = stopped(&world);
    let statement = format!(
        "settlement-statement/{}",
        first["statementId"].as_str().unwrap()
    );
    let all = inspected(&world, &["records"]);
    assert_eq!(positions(&all), [1, 2, 3, 4, 5, 6, 7]);
    let times: Vec<_> = all
        .iter()
        .map(|record| record["at"].as_str().unwrap())
        .collect();
    let of_time = |from: usize, to: usize| -> Vec<u64> {
        let within = |time: &&str| (times[from]..=times[to]).contains(time);
        (1..)
            .zip(&times)
            .filter(|(_, time)| within(time))
            .map(|(position, _)| position)
            .collect()
    };
    for (arguments, expected) in [
        (&["--from", "6"][..], vec![6, 7]),
        (&["--to", "2"], vec![1, 2]),
        (&["--from", "3", "--to", "4"], vec![3, 4]),
        (&["--from", "9"], vec![]),
        (&["--limit", "3"], vec![1, 2, 3]),
        (&["--limit", "0"], vec![]),
        (&["--operation", "acknowledge_deposit"], vec![7]),
        (&["--operation", "reference_facts"], vec![]),
        (&["--actor", "hq-2"], vec![2, 4, 6]),
        (
            &["--actor", "hq-2", "--limit", "2", "--from", "3"],
            vec![4, 6],
        ),
        (&["--resource", &statement], vec![1, 7]),
        (&["--since", times[3]], of_time(3, 6)),
        (&["--until", times[3]], of_time(0, 3)),
        (&["--since", times[2], "--until", times[4]], of_time(2, 4)),
    ] {
        let found = inspected(&world, &[&["records"], arguments].concat());
        assert_eq!(positions(&found), expected, "{arguments:?}");
    }
    // A table: a title, and a line for each, in columns.
    let (code, out, err) = inspect(&world, &["records"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 8, "{out}");
    // A backup is a data directory like any other.
    let (data, copy) = (world.data(), world.path("copy"));
    let copy = copy.to_str().unwrap();
    let backup = ["backup", "--data", data.to_str().unwrap(), "--to", copy];
    assert_eq!(run(&backup).0, Some(0));
    let copied = run(&["inspect", "records", "--data", copy]);
    assert_eq!(copied, (code, out.clone(), err));
    let column = lines[0].find("operation").unwrap();
    for (line, record) in lines[1..].iter().zip(&all) {
        assert!(
            line[column..].starts_with(record["operation"].as_str().unwrap()),
            "{line}"
        );
        assert!(line.contains("settlement-statement/"), "{line}");
    }
}

#[test]
fn a_resource_s_history_tells_each_revision_and_what_changed() {
    let world = World::new();
    let first = stopped(&world);
    let id = first["statementId"].as_str().unwrap();
    let resource = ["resource", "settlement-statement", id];
    let told = inspected(&world, &resource);
    assert_eq!(positions(&told), [1, 7]);
    assert_eq!(
        (&told[0]["revision"], &told[1]["revision"]),
        (&json!(1), &json!(2))
    );
    let changed = |told: &Value, path: &str| -> Option<(Value, Value, Value)> {
        let differences = told["differences"].as_array().unwrap();
        let found = differences.iter().find(|found| found["path"] == path)?;
        let member = |name: &str| found[name].clone();
        Some((member("change"), member("before"), member("after")))
    };
    let status = changed(&told[1], "status").unwrap();
    assert_eq!(
        status,
        (
            json!("changed"),
            json!("awaiting_branch_deposit"),
            json!("awaiting_confirmation")
        )
    );
    let kind = changed(&told[1], "line_acknowledgements[0].settlementLineKind").unwrap();
    assert_eq!(kind, (json!("added"), Value::Null, json!("membership_due")));
    assert_eq!(changed(&told[1], "created_at"), None);
    let memo = changed(&told[0], "opening.head_office_private_memo").unwrap();
    assert_eq!(memo.2, "•••", "that there is one is told");
    let open = inspected(&world, &[&resource[..], &["--reveal"]].concat());
    let memo = changed(&open[0], "opening.head_office_private_memo").unwrap();
    assert_eq!(memo.2, "for us");

    let (code, out, err) = inspect(&world, &resource);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(
        out.contains("awaiting_confirmation") && !out.contains("for us"),
        "{out}"
    );
    let (code, out, err) = inspect(&world, &["resource", "settlement-statement", "none"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("there is no settlement-statement"), "{err}");
}

#[test]
fn a_resource_s_commits_are_told_backwards_as_far_as_the_log_goes() {
    let world = World::new();
    let first = stopped(&world);
    let id = first["statementId"].as_str().unwrap();
    let backwards = ["resource", "settlement-statement", id, "--backwards"];
    let told = inspected(&world, &backwards);
    assert_eq!(positions(&told), [7, 1]);
    let before = |told: &Value| told["before"].as_u64();
    assert_eq!((before(&told[0]), before(&told[1])), (Some(1), Some(0)));
    let forwards = inspected(&world, &backwards[..3]);
    for (told, again) in told.iter().zip(forwards.iter().rev()) {
        assert_eq!(told["operation"], again["operation"]);
    }
    let last = inspected(&world, &[&backwards[..], &["--limit", "1"]].concat());
    assert_eq!(positions(&last), [7]);
    let (code, _, err) = inspect(
        &world,
        &["resource", "settlement-statement", "no", "--backwards"],
    );
    assert_eq!(code, Some(1), "{err}");
    let (code, _, err) = inspect(&world, &[&backwards[..3], &["--limit", "1"]].concat());
    assert_eq!(code, Some(2), "{err}");

    // What a compaction has removed is named, and not taken for the beginning.
    let data = world.data();
    assert_eq!(
        run(&["compact", "--keep", "0s", "--data", data.to_str().unwrap()]).0,
        Some(0)
    );
    let (code, out, err) = inspect(&world, &[&backwards[..], &["--json"]].concat());
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert!(
        err.contains("at position 7, was removed by a compaction"),
        "{err}"
    );
    // Where that cannot be said, what was found is told all the same.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = carebook();
    command.arg("inspect").args(backwards).arg("--data");
    let status = command.arg(&data).stderr(full.unwrap()).status().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_key_leads_to_its_answer() {
    let world = World::new();
    stopped(&world);
    let all = inspected(&world, &["keys"]);
    assert_eq!(all.len(), 7);
    let found = inspected(&world, &["keys", "--key", "key-3"]);
    assert_eq!(positions(&found), [4]);
    let bytes = found[0]["answer"]["bytes"].as_u64().unwrap();
    assert!(bytes > 500, "{found:?}");
    assert_eq!(inspected(&world, &["keys", "--actor", "hq-2"]).len(), 3);
    let found = inspected(&world, &["keys", "--operation", "acknowledge_deposit"]);
    assert_eq!(found[0]["key"], "ack-1");
    let (code, out, err) = inspect(&world, &["keys"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out.lines().count(), 8, "{out}");
}

#[test]
fn counts_are_those_of_verify() {
    let world = World::new();
    stopped(&world);
    let counts = inspected(&world, &["counts"]).remove(0);
    let data = world.data();
    let (_, out, _) = run(&["verify", "--data", data.to_str().unwrap(), "--json"]);
    let verified: Value = serde_json::from_str(&out).unwrap();
    for member in [
        "logId",
        "records",
        "firstPosition",
        "lastPosition",
        "lastCommitAt",
    ] {
        assert_eq!(counts[member], verified[member], "{member}");
    }
    for (name, count) in verified["operations"].as_object().unwrap() {
        assert_eq!(
            &counts["operations"][name]["records"]["count"], count,
            "{name}"
        );
    }
    for (name, count) in verified["resources"].as_object().unwrap() {
        assert_eq!(
            &counts["resources"][name]["states"]["count"], count,
            "{name}"
        );
    }
    assert_eq!(counts["operations"]["request_deposit"]["keys"], 6);
    for (name, bytes) in counts["files"].as_object().unwrap() {
        let length = std::fs::metadata(data.join(name)).unwrap().len();
        assert_eq!(bytes.as_u64(), Some(length), "{name}");
    }
    let (code, out, err) = inspect(&world, &["counts"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(
        out.contains("settlement-statement") && out.contains("manifest"),
        "{out}"
    );
}

#[test]
fn looking_leaves_no_trace_and_needs_no_right_to_write() {
    let world = World::new();
    let first = stopped(&world);
    let data = world.data();
    let before = contents(&data);
    std::fs::remove_file(data.join("lock")).unwrap();
    let id = first["statementId"].as_str().unwrap();
    let each = [
        &["records"][..],
        &["resource", "settlement-statement", id],
        &["keys"],
        &["counts"],
    ];
    for arguments in each {
        let (code, _, err) = inspect(&world, arguments);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(!data.join("lock").exists(), "{arguments:?}");
    }
    let but_lock = |files: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
        let files = files.into_iter();
        files.filter(|(file, _)| !file.ends_with("lock")).collect()
    };
    assert!(but_lock(contents(&data)) == but_lock(before));
}

#[test]
fn damage_is_told_with_its_place_and_what_came_before_is_shown() {
    let world = World::new();
    stopped(&world);
    let data = world.data();
    let log = files(&data)
        .into_iter()
        .find(|file| file.to_str().unwrap().ends_with("1.log"))
        .unwrap();
    let whole = std::fs::read(&log).unwrap();
    let written = whole.iter().rposition(|byte| *byte != 0).unwrap();
    let mut damaged = whole.clone();
    let at = (4096 + written) / 2;
    damaged[at] ^= 0x10;
    std::fs::write(&log, &damaged).unwrap();
    for arguments in [&["records"][..], &["keys"], &["counts"]] {
        let (code, out, err) = inspect(&world, arguments);
        assert_eq!(code, Some(3), "{arguments:?}: {err}");
        let name = log.file_name().unwrap().to_str().unwrap();
        assert!(
            err.contains(name) && err.contains("offset ") && err.contains("position "),
            "{err}"
        );
        if arguments[0] == "records" {
            assert!(out.lines().count() > 2, "{out}");
        }
    }
    let missing = world.path("missing");
    let (code, _, err) = run(&["inspect", "records", "--data", missing.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(err.contains("missing"), "{err}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let world = World::new();
    stopped(&world);
    // The pipe is closed from the beginning; the first thing printed finds that out.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = carebook();
    let child = child
        .args(["inspect", "records", "--follow", "--data"])
        .arg(world.data())
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""));
}

#[test]
fn following_ends_with_the_reason_when_another_directory_takes_its_place() {
    let world = World::new();
    stopped(&world);
    let mut child = carebook();
    let mut child = child
        .args(["inspect", "records", "--follow", "--json", "--data"])
        .arg(world.data())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has opened what it prints.
    let mut first = String::new();
    let mut heard = BufReader::new(child.stdout.take().unwrap());
    heard.read_line(&mut first).unwrap();
    std::fs::rename(world.data(), world.path("before")).unwrap();
    std::fs::create_dir(world.data()).unwrap();
    let reading = std::thread::spawn(move || heard.lines().count());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("another directory is there now"), "{err}");
    reading.join().unwrap();
}

#[test]
fn arguments_that_can_name_nothing_are_refused_with_the_reason() {
    let world = World::new();
    stopped(&world);
    for (arguments, why) in [
        (
            &["records", "--from", "10", "--to", "5"][..],
            "--to 5 is before --from 10",
        ),
        (
            &["records", "--from", "0", "--to", "0"],
            "--to 0 is before --from 1",
        ),
        (
            &["resource", "payout-receipt-state", "a"],
            "payout-receipt-state has 3 parts, each an argument, and not 1",
        ),
        (
            &["resource", "settlement-statement", "a", "b", "--backwards"],
            "settlement-statement has 1 part, and not 2",
        ),
    ] {
        let (code, out, err) = inspect(&world, arguments);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}: {err}");
        assert!(err.contains(why), "{arguments:?}: {err}");
    }
}

/// Acknowledges a statement at its first revision.
fn acknowledge(world: &World, client: &mut Client, statement: &Value, key: &str) -> Answer {
    let body = json!({
        "statementId": statement,
        "actorKind": "branch_manager",
        "actorProfileId": "manager-1",
        "idempotencyKey": key,
        "expectedRevision": 1,
        "reason": "paid by Mina",
        "lineAcknowledgements": [{
            "lineAcknowledgementId": "line-1",
            "settlementLineKey": "membership",
            "settlementLineKind": "membership_due",
            "acknowledgedByActorProfileId": "manager-1",
            "acknowledgedAt": "2026-11-02T00:00:00Z",
            "acknowledgementNote": "her note",
        }],
    });
    let path = "/settlement-branch-deposit-acknowledgements";
    let acknowledged = client.post(path, &world.manager("branch-1"), &body);
    assert_eq!(acknowledged.status, 200, "{acknowledged:?}");
    acknowledged
}

#[test]
fn records_removed_by_a_compaction_are_shown_from_the_snapshot() {
    let world = World::new();
    let first = stopped(&world);
    let data = world.data();
    let data = data.to_str().unwrap();
    let before = inspected(&world, &["keys"]);
    let second = inspected(&world, &["records", "--from", "3", "--limit", "1"]).remove(0);
    let second = second["changes"][0]["id"][0].clone();
    assert_eq!(run(&["compact", "--keep", "0s", "--data", data]).0, Some(0));
    let server = Server::start(&world);
    acknowledge(&world, &mut server.client(), &second, "ack-2");
    assert_eq!(server.stop(), Some(0));

    let (code, out, err) = inspect(&world, &["records", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        err.contains("positions 1 to 7 were removed by a compaction"),
        "{err}"
    );
    assert_eq!(out.lines().count(), 1, "{out}");

    let keys = inspected(&world, &["keys"]);
    assert_eq!(keys[..7], before);
    assert_eq!((keys.len(), &keys[7]["key"]), (8, &json!("ack-2")));

    // Of the one, only what the snapshot has; the other goes on from there.
    let id = first["statementId"].as_str().unwrap();
    let told = inspected(&world, &["resource", "settlement-statement", id]);
    assert_eq!(positions(&told), [7]);
    assert_eq!(
        (&told[0]["operation"], &told[0]["revision"]),
        (&json!("snapshot"), &json!(2))
    );
    let resource = ["resource", "settlement-statement", second.as_str().unwrap()];
    let told = inspected(&world, &resource);
    assert_eq!(positions(&told), [3, 8]);
    assert_eq!(told[0]["operation"], "snapshot");
    assert_eq!(told[1]["operation"], "acknowledge_deposit");
    let differences = told[1]["differences"].as_array().unwrap();
    let status = differences
        .iter()
        .find(|found| found["path"] == "status")
        .unwrap();
    assert_eq!(status["before"], "awaiting_branch_deposit");
    let (code, _, err) = inspect(&world, &resource);
    assert_eq!(code, Some(0));
    assert!(
        err.contains("before position 4, was removed by a compaction"),
        "{err}"
    );

    let counts = inspected(&world, &["counts"]).remove(0);
    let (_, out, _) = run(&["verify", "--data", data, "--json"]);
    let verified: Value = serde_json::from_str(&out).unwrap();
    for (name, count) in verified["operations"].as_object().unwrap() {
        assert_eq!(&counts["operations"][name]["ever"], count, "{name}");
    }
    for (name, count) in verified["resources"].as_object().unwrap() {
        assert_eq!(
            &counts["resources"][name]["states"]["count"], count,
            "{name}"
        );
    }
    assert_eq!(counts["operations"]["request_deposit"]["ever"], 6);
    assert_eq!(
        counts["operations"]["request_deposit"]["records"]["count"],
        0
    );
    assert_eq!(
        (&counts["records"], &counts["keptRecords"]),
        (&json!(1), &json!(7))
    );
    assert_eq!(counts["snapshots"].as_array().unwrap().len(), 2);
}

#[test]
fn keys_that_are_forgotten_are_not_listed() {
    let world = World::new();
    let server = Server::start_with(&world, &["--idempotency-retention", "1s"]);
    let mut client = server.client();
    let path = "/settlement-deposit-requests";
    let opened = client.post(
        path,
        &world.headquarters(),
        &world.deposit_request("S-1", "key-1"),
    );
    settled(&world, opened.position().unwrap());
    assert_eq!(inspected(&world, &["keys"]).len(), 1);
    let id = server.id().to_string();
    let until = Instant::now() + Duration::from_secs(60);
    while !inspected(&world, &["keys"]).is_empty() {
        assert!(Instant::now() < until, "no key is forgotten");
        std::thread::sleep(Duration::from_millis(300));
        let sent = Command::new("kill").args(["-USR1", &id]).status();
        assert!(sent.unwrap().success());
    }
    let forgotten = inspected(&world, &["records", "--operation", "forget_keys"]);
    // A second one, a second later, goes on through the position of the first.
    let through = &forgotten[0]["outcome"]["keysForgottenThrough"];
    assert_eq!(through.as_u64(), opened.position());
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn looking_is_right_while_the_server_compacts() {
    let world = World::new();
    let mut numbers = 0..;
    let mut request = |client: &mut Client| -> Value {
        let number = numbers.next().unwrap();
        let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
        let path = "/settlement-deposit-requests";
        let opened = client.post(path, &world.headquarters(), &body);
        assert_eq!(opened.status, 201, "{opened:?}");
        opened.json()["statementId"].clone()
    };
    // Each start begins a segment, which is what a compaction removes.
    let mut statements = Vec::new();
    for _ in 0..3 {
        let server = Server::start(&world);
        let mut client = server.client();
        statements.extend((0..5).map(|_| request(&mut client)));
        server.kill();
    }
    let server = Server::start_with(&world, &["--log-retention", "0s"]);
    let mut client = server.client();
    let id = server.id().to_string();
    let first_position = || inspected(&world, &["counts"]).remove(0)["firstPosition"].clone();
    let until = Instant::now() + Duration::from_secs(20);
    let mut looks = 0;
    while looks < 4 || first_position() == 1 {
        assert!(Instant::now() < until, "it does not compact");
        statements.push(request(&mut client));
        let sent = Command::new("kill").args(["-USR1", &id]).status();
        assert!(sent.unwrap().success());
        let last = u64::try_from(statements.len()).unwrap();
        settled(&world, last);
        // A listing that a compaction has overtaken says so, with 1: it is asked for once more.
        let keys: Vec<Value> = loop {
            let (code, out, err) = inspect(&world, &["keys", "--json"]);
            if err.contains("a compaction has overtaken the reading") {
                assert!(Instant::now() < until, "each look is overtaken");
                continue;
            }
            assert_eq!(code, Some(0), "{err}");
            let lines = out.lines();
            break lines
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
        };
        assert_eq!(positions(&keys), (1..=last).collect::<Vec<_>>());
        let counts = inspected(&world, &["counts"]).remove(0);
        let states = &counts["resources"]["settlement-statement"]["states"];
        assert_eq!(states["count"].as_u64(), Some(last));
        assert_eq!(
            counts["operations"]["request_deposit"]["ever"].as_u64(),
            Some(last)
        );
        let id = statements[0].as_str().unwrap();
        let told = inspected(&world, &["resource", "settlement-statement", id]);
        assert_eq!(told.last().unwrap()["state"]["revision"], 1);
        looks += 1;
    }
    assert_eq!(server.stop(), Some(0));
}

/// The texts of fields that are hidden, wherever they are in a value, and those of others.
fn texts(value: &Value, hidden: bool, found: &mut [BTreeSet<String>; 2]) {
    match value {
        Value::String(text) => {
            found[usize::from(hidden)].insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, hidden, found)),
        Value::Object(members) => {
            for (name, value) in members {
                let hidden = match personal::shown(name) {
                    Masking::Hidden => true,
                    Masking::Plain => false,
                    Masking::IfCode => hidden,
                };
                texts(value, hidden, found);
            }
        }
        _ => {}
    }
}

/// Whether the text has the word by itself: five digits may well occur within an identifier, which
/// is made of the time.
fn has_word(text: &str, word: &str) -> bool {
    let is_within = |beside: Option<char>| beside.is_some_and(char::is_alphanumeric);
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !is_within(before.chars().next_back()) && !is_within(after.chars().next())
    })
}

/// All operations on all kinds of resources; then nothing personal may show anywhere.
#[test]
fn nothing_personal_shows_of_any_kind_of_resource_unless_it_is_revealed() {
    let world = World::new();
    let (server, printed) = demonstration(&world);
    for step in take(&printed) {
        assert!(step.status < 300, "{}", step.title);
    }
    // The kinds that no step of the walk makes.
    let search = json!({
        "operationAction": "search_payments", "reason": "Mina Kim asked", "idempotencyKey": "search",
        "expectedRevision": 0, "searchKey": "Mina Kim",
    });
    let token = printed
        .lines()
        .find_map(|line| line.strip_prefix("export HEADQUARTERS_ADMINISTRATOR='"));
    let token = token.unwrap().trim_end_matches('\'');
    let workflow = printed
        .lines()
        .find_map(|line| line.strip_prefix("export SYSTEM_WORKFLOW='"));
    let workflow = workflow.unwrap().trim_end_matches('\'');
    let subscription = json!({"url": "https://receiver.example.com/", "types": ["carebook.*"]});
    let subscribed = server.client().post_keyed(
        "/webhook-subscriptions",
        workflow,
        "subscribe",
        &subscription,
    );
    assert_eq!(subscribed.status, 201, "{subscribed:?}");
    let path = "/billing-engine-payment-admin-operations";
    let searched = server.client().post(path, token, &search);
    assert_eq!(searched.status, 200, "{searched:?}");
    settled(&world, searched.position().unwrap());

    let mut printed = [String::new(), String::new()];
    let mut found = [BTreeSet::new(), BTreeSet::new()];
    let mut kinds = BTreeSet::new();
    let revealed = inspected(&world, &["records", "--reveal"]);
    for record in &revealed {
        texts(record, false, &mut found);
        for change in record["changes"].as_array().unwrap() {
            let kind = change["kind"].as_str().unwrap();
            let id = change["id"].as_array();
            let id: Vec<_> = id
                .unwrap_or_else(|| panic!("{kind}: no identifier: {record}"))
                .iter()
                .map(|part| part.as_str().unwrap())
                .collect();
            if kinds.insert((kind.to_owned(), id.join("/"))) {
                for (text, reveal) in printed.iter_mut().zip([&[][..], &["--reveal"]]) {
                    for json in [&[][..], &["--json"]] {
                        let resource = [&["resource", kind], &id[..], reveal, json].concat();
                        let (code, out, err) = inspect(&world, &resource);
                        assert_eq!(code, Some(0), "{kind}: {err}");
                        text.push_str(&out);
                    }
                }
            }
        }
    }
    let kinds: BTreeSet<_> = kinds.iter().map(|(kind, _)| kind.as_str()).collect();
    let known: BTreeSet<_> = RESOURCES
        .iter()
        .map(|resource| resource.kind().name)
        // There is one only where events are published to a server.
        .filter(|kind| *kind != "nats-publication")
        // Born with the outbox of a record, which was looked at above; none has changed since.
        .filter(|kind| *kind != "outbox-message")
        .collect();
    assert_eq!(kinds, known, "every kind is looked at");
    let operations: BTreeSet<_> = revealed
        .iter()
        .map(|record| &record["operation"])
        .map(Value::to_string)
        .collect();
    assert!(operations.len() >= OPERATIONS.len() - 2, "{operations:?}");
    for (text, reveal) in printed.iter_mut().zip([&[][..], &["--reveal"]]) {
        for command in [
            &["records"][..],
            &["records", "--json"],
            &["keys"],
            &["keys", "--json"],
        ] {
            let (code, out, err) = inspect(&world, &[command, reveal].concat());
            assert_eq!(code, Some(0), "{err}");
            text.push_str(&out);
        }
    }
    let [masked, open] = printed;
    for text in [
        "김하늘",
        "1992-03-14",
        "mother-1@example.com",
        "manager-1@example.com",
        "seoul-1@example.com",
        "+8210",
        "+8221",
        "테헤란로",
        "세종대로",
        "서울",
        "한빛은행",
        "***456",
        "Mina Kim",
    ] {
        assert!(open.contains(text), "{text} is nowhere");
        assert!(!masked.contains(text), "{text} is shown");
    }
    let postal_code = "06236";
    assert!(has_word(&open, postal_code), "{postal_code} is nowhere");
    assert!(!has_word(&masked, postal_code), "{postal_code} is shown");
    // And all other content of a hidden field, but for what is an identifier elsewhere.
    let [plain, hidden] = found;
    let only_hidden: Vec<_> = hidden.difference(&plain).collect();
    assert!(only_hidden.len() > 20, "{only_hidden:?}");
    for text in only_hidden {
        let quoted = serde_json::to_string(text).unwrap();
        assert!(!masked.contains(&quoted), "{text} is shown");
    }
    assert_eq!(server.stop(), Some(0));
}
