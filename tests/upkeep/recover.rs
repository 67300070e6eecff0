//! A damaged directory: what can be had of it, at what cost, and only on demand.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Answer, Server, World, carebook, files, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A directory of several starts, each of which made a segment; and what was answered.
fn lived(world: &World, starts: usize) -> Vec<Answer> {
    let mut answers = Vec::new();
    for _ in 0..starts {
        let server = Server::start(world);
        let mut client = server.client();
        for _ in 0..3 {
            let number = answers.len();
            let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
            answers.push(client.post("/settlement-deposit-requests", &world.headquarters(), &body));
        }
        assert_eq!(server.stop(), Some(0));
    }
    answers
}

fn segments(world: &World) -> Vec<PathBuf> {
    let all = files(&world.data()).into_iter();
    all.filter(|file| text(file).ends_with(".log")).collect()
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 4;
    std::fs::write(file, bytes).unwrap();
}

fn looked(world: &World, code: i32) -> Value {
    let (ended, out, err) = run(&["recover", "--data", text(&world.data()), "--json"]);
    assert_eq!(ended, Some(code), "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn in_a_sound_directory_there_is_nothing_to_recover() {
    let world = World::new();
    lived(&world, 2);
    let found = looked(&world, 0);
    assert_eq!(found["damage"], serde_json::json!([]));
    assert_eq!(found["ways"][0]["giveUpAfter"], 6);
    let (code, out, _) = run(&["recover", "--data", text(&world.data())]);
    assert_eq!(code, Some(0));
    assert!(out.contains("nothing is damaged"), "{out}");
    let give_up = [
        "recover",
        "--data",
        text(&world.data()),
        "--give-up-after",
        "6",
    ]
    .map(str::to_owned);
    let (code, out, err) =
        run(&[&give_up.each_ref().map(String::as_str)[..], &["--json"]].concat());
    assert_eq!(code, Some(0), "{err}");
    let done: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&done["givenUp"], &done["lastPosition"]),
        (&0.into(), &6.into())
    );
}

#[test]
fn recover_reports_damage_and_way_out_costs_and_acts_only_when_told() {
    let world = World::new();
    let answers = lived(&world, 3);
    let broken = segments(&world)[1].clone();
    flip(&broken, 4_300);
    let before: Vec<_> = files(&world.data())
        .into_iter()
        .map(|file| (std::fs::read(&file).unwrap(), file))
        .collect();

    let found = looked(&world, 3);
    assert_eq!(found["damage"][0]["file"], text(&broken));
    assert_eq!(found["damage"][0]["position"], 4);
    assert_eq!(found["highestPosition"], 9);
    let way = &found["ways"][0];
    assert_eq!(way["giveUpAfter"], 3);
    // What lies behind the damage can be read, and is named.
    let lost = way["readableRecordsLost"].as_u64().unwrap();
    assert!((3..6).contains(&lost), "{way}");
    let last = answers[8].json()["statementId"]
        .as_str()
        .unwrap()
        .to_owned();
    let named = way["resources"].as_array().unwrap();
    assert!(
        named.iter().any(|named| named["id"] == last.as_str()),
        "{way}"
    );
    let keys = way["keys"].as_array().unwrap();
    assert!(keys.iter().any(|key| key["key"] == "key-8"), "{way}");
    let (code, out, err) = run(&["recover", "--data", text(&world.data())]);
    assert_eq!(code, Some(3));
    assert!(out.contains("--give-up-after 3"), "{out}");
    assert!(err.contains("nothing was changed"), "{err}");
    let after: Vec<_> = files(&world.data())
        .into_iter()
        .map(|file| (std::fs::read(&file).unwrap(), file))
        .collect();
    assert!(before == after, "looking changes nothing");

    // A position that cannot be had is refused, and nothing is changed.
    let data = world.data();
    let give_up = |position: &str| {
        run(&[
            "recover",
            "--data",
            text(&data),
            "--give-up-after",
            position,
        ])
    };
    let (code, _, err) = give_up("5");
    assert_eq!(code, Some(1));
    assert!(err.contains("no way out"), "{err}");
    assert_eq!(run(&["verify", "--data", text(&data)]).0, Some(3));

    let (code, out, err) = give_up("3");
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("given-up"), "{out}");
    assert_eq!(run(&["verify", "--data", text(&data)]).0, Some(0));
    // All that was there is kept.
    let kept: Vec<_> = files(&data)
        .into_iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    for (bytes, file) in &before {
        let is_lock = file.ends_with("lock");
        assert!(is_lock || kept.contains(bytes), "{}", file.display());
    }

    let server = Server::start(&world);
    let mut client = server.client();
    for (number, first) in answers.iter().enumerate() {
        let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
        let again = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
        let is_replay = again.header("idempotent-replayed") == Some("true");
        assert_eq!(is_replay, number < 3, "{number}");
        if is_replay {
            assert_eq!(again.json()["statementId"], first.json()["statementId"]);
        } else {
            assert_eq!(again.status, 201, "what was given up can be done again");
        }
    }
}

#[test]
fn damage_that_a_snapshot_covers_costs_nothing() {
    let world = World::new();
    let answers = lived(&world, 2);
    let (code, _, err) = run(&["compact", "--keep", "0s", "--data", text(&world.data())]);
    assert_eq!(code, Some(0), "{err}");
    lived_again(&world);
    // The newest snapshot and the log after it suffice by themselves.
    let mut snapshots: Vec<_> = files(&world.data())
        .into_iter()
        .filter(|file| text(file).ends_with(".snap"))
        .collect();
    snapshots.sort();
    flip(&snapshots[0], 100);
    let found = looked(&world, 3);
    assert_eq!(found["damage"][0]["file"], text(&snapshots[0]));
    let way = &found["ways"][0];
    assert_eq!(way["giveUpAfter"], found["highestPosition"]);
    assert_eq!(way["readableRecordsLost"], 0);
    let position = way["giveUpAfter"].to_string();
    let (code, _, err) = run(&[
        "recover",
        "--data",
        text(&world.data()),
        "--give-up-after",
        &position,
    ]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(looked(&world, 0)["damage"], serde_json::json!([]));
    let server = Server::start(&world);
    let mut client = server.client();
    for first in &answers {
        let path = format!(
            "/settlement-statements/{}",
            first.json()["statementId"].as_str().unwrap()
        );
        assert_eq!(client.get(&path, &world.headquarters()).status, 200);
    }
}

fn lived_again(world: &World) {
    let server = Server::start(world);
    let body = world.deposit_request("AFTER", "key-after");
    let mut client = server.client();
    let answer = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
    assert_eq!(answer.status, 201);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_directory_that_a_server_holds_is_not_recovered() {
    let world = World::new();
    let server = Server::start(&world);
    for more in [&[][..], &["--give-up-after", "1"]] {
        let (code, _, err) = run(&[&["recover", "--data", text(&world.data())], more].concat());
        assert_eq!(code, Some(1));
        assert!(err.contains("in use by"), "{err}");
    }
    drop(server);
}

#[test]
fn a_position_that_gives_up_more_than_the_damage_demands_has_to_be_meant() {
    let world = World::new();
    lived(&world, 2);
    let data = world.data();
    let give_up = |position: &str, more: &[&str]| {
        let arguments = [
            "recover",
            "--data",
            text(&data),
            "--give-up-after",
            position,
        ];
        run(&[&arguments[..], more].concat())
    };
    let all = || -> Vec<_> {
        let files = files(&data).into_iter();
        files
            .filter(|file| !file.ends_with("lock"))
            .map(|file| (std::fs::read(&file).unwrap(), file))
            .collect()
    };
    let before = all();
    let (code, out, _) = give_up("6", &[]);
    assert_eq!(code, Some(0));
    assert!(out.contains("nothing was changed"), "{out}");
    let (code, _, err) = give_up("4", &[]);
    assert_eq!(code, Some(1));
    assert!(err.contains("2 positions would be given up"), "{err}");
    assert!(err.contains("nothing is damaged"), "{err}");
    assert!(before == all(), "a refusal changes nothing");
    // With damage, a position before a way out gives up more, too.
    flip(&segments(&world)[1], 4_300);
    let damaged = all();
    let (code, _, err) = give_up("2", &[]);
    assert_eq!(code, Some(1));
    assert!(err.contains("none of the ways out"), "{err}");
    assert!(damaged == all(), "a refusal changes nothing");
    let (code, out, err) = give_up("2", &["--give-up-readable"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("recovered and verified"), "{out}");
    assert_eq!(looked(&world, 0)["highestPosition"], 2);
}

#[test]
fn records_behind_damage_are_named_bounded_and_exported_unreplayed() {
    let world = World::new();
    let answers = lived(&world, 1);
    let statement = answers[0].json()["statementId"].clone();
    let server = Server::start(&world);
    let acknowledgement = serde_json::json!({
        "statementId": statement,
        "actorKind": "branch_manager",
        "actorProfileId": "manager-1",
        "idempotencyKey": "key-ack",
        "expectedRevision": 1,
        "reason": null,
        "lineAcknowledgements": [{
            "lineAcknowledgementId": "line-acknowledgement-1",
            "settlementLineKey": "line-1",
            "settlementLineKind": "membership_due",
            "acknowledgedByActorProfileId": "manager-1",
            "acknowledgedAt": "2026-11-02T10:00:00Z",
            "acknowledgementNote": null,
        }],
    });
    let answer = server.client().post(
        "/settlement-branch-deposit-acknowledgements",
        &world.manager("branch-1"),
        &acknowledgement,
    );
    assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    assert_eq!(server.stop(), Some(0));
    // All three statements are lost, and what was done with one of them can be read.
    flip(&segments(&world)[0], 4_300);
    let export = world.path("behind.jsonl");
    let data = world.data();
    let arguments = ["recover", "--data", text(&data), "--export", text(&export)];
    let (code, out, err) = run(&[&arguments[..], &["--reveal", "--json"]].concat());
    assert_eq!(code, Some(3), "{err}");
    assert!(
        !err.contains("panicked") && !err.contains("cannot follow"),
        "{err}"
    );
    let found: Value = serde_json::from_str(&out).unwrap();
    let way = &found["ways"][0];
    assert_eq!(
        (&way["giveUpAfter"], &found["highestPosition"]),
        (&0.into(), &4.into())
    );
    let lost = way["resources"].as_array().unwrap();
    assert!(lost.iter().any(|lost| lost["id"] == statement), "{way}");
    let (readable, unreadable) = (
        way["readableRecordsLost"].as_u64().unwrap(),
        way["unreadablePositionsLost"].as_u64().unwrap(),
    );
    assert_eq!(
        (readable + unreadable, way["positionsLost"].as_u64()),
        (4, Some(4))
    );
    assert!(unreadable > 0, "{way}");
    let keys = way["keys"].as_array().unwrap().len() as u64;
    assert_eq!(
        (keys, way["keysLostAtLeast"].as_u64()),
        (readable, Some(readable))
    );
    assert_eq!(way["mayBeMore"], false);
    assert_eq!(way["keysLostAtMost"], 4);
    // The file holds just the readable ones, whole, and is its owner's.
    let lines = std::fs::read_to_string(&export).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len() as u64, readable);
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["position"], &last["key"]),
        (&4.into(), &"key-ack".into())
    );
    assert_eq!(last["changes"][0]["id"][0], statement);
    assert!(last["outcome"]["body"].is_object(), "{last}");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&export).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    // Existing files are not overwritten.
    let (code, _, err) = run(&arguments);
    assert_eq!(code, Some(1));
    assert!(err.contains("cannot be written"), "{err}");
    let (_, out, _) = run(&["recover", "--data", text(&world.data())]);
    let row = |name: &str| {
        let line = out.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap().trim_end().to_owned()
    };
    assert!(
        row("keys lost").ends_with(&format!("{readable} to 4")),
        "{out}"
    );
    assert!(row("resources that lose").ends_with("or more"), "{out}");
}

#[test]
fn a_way_out_s_losses_show_no_personal_data_and_no_control_characters() {
    let world = World::new();
    lived(&world, 1);
    let server = Server::start(&world);
    let (phone, steering, address) = ("010-1234-9999", "key\u{1b}[2J", "park.jiwoo@example.com");
    for (code, key) in [("P-1", phone), ("P-2", steering)] {
        let body = world.deposit_request(code, key);
        let headquarters = world.headquarters();
        let mut client = server.client();
        let opened = client.post("/settlement-deposit-requests", &headquarters, &body);
        assert_eq!(opened.status, 201, "{opened:?}");
    }
    assert_eq!(server.stop(), Some(0));
    let fact = serde_json::json!({
        "kind": "actor",
        "id": address,
        "revision": 1,
        "facts": {"lifecycle": "active"},
    });
    let (data, facts) = (world.data(), world.path("facts"));
    std::fs::write(&facts, format!("{fact}\n")).unwrap();
    let loaded = run(&["facts", "load", text(&facts), "--data", text(&data)]);
    assert_eq!(loaded.0, Some(0), "{loaded:?}");
    flip(&segments(&world)[0], 4_300);
    let told = |more: &[&str]| {
        let (code, out, err) = run(&[&["recover", "--data", text(&data)], more].concat());
        assert_eq!(code, Some(3), "{err}");
        out
    };
    let (table, json) = (told(&[]), told(&["--json"]));
    for masked in [&table, &json] {
        assert!(masked.contains("•••"), "{masked}");
        for personal in [phone, address] {
            assert!(!masked.contains(personal), "{masked}");
        }
        assert!(!masked.contains('\u{1b}'), "{masked:?}");
    }
    assert!(table.contains("loses 1 commits: actor •••"), "{table}");
    assert!(table.contains("key\\u{1b}[2J of hq-1"), "{table}");
    // It is shown on demand, in what is printed and without a file.
    let table = told(&["--reveal"]);
    assert!(
        table.contains(&format!("loses 1 commits: actor {address}")),
        "{table}"
    );
    assert!(table.contains(&format!("loses the key {phone}")), "{table}");
    assert!(!table.contains('\u{1b}'), "{table:?}");
    let found: Value = serde_json::from_str(&told(&["--reveal", "--json"])).unwrap();
    let keys = found["ways"][0]["keys"].as_array().unwrap();
    assert!(keys.iter().any(|key| key["key"] == steering), "{keys:?}");
}

#[test]
fn recover_gives_up_nothing_of_a_journal_copy_and_says_what_to_do() {
    let world = World::new();
    lived(&world, 3);
    flip(&segments(&world)[1], 4_300);
    let data = world.data();
    // As a start with --journal leaves it.
    std::fs::write(data.join("journal"), "CAREBOOK_main\n").unwrap();
    let content = || -> Vec<_> {
        let all = files(&data).into_iter();
        all.map(|file| (std::fs::read(&file).unwrap(), file))
            .collect()
    };
    let before = content();
    let told = "move the directory away and start with an empty one: the stream fills it";
    let recover = ["recover", "--data", text(&data)];
    let (code, out, err) = run(&recover);
    assert_eq!(code, Some(3), "{err}");
    for said in [&out, &err] {
        assert!(
            said.contains("CAREBOOK_main") && said.contains(told),
            "{said}"
        );
        assert!(!said.contains("--give-up-after"), "{said}");
    }
    let found = looked(&world, 3);
    assert_eq!(found["journal"], "CAREBOOK_main");
    let keep = found["ways"][0]["giveUpAfter"].to_string();
    let export = world.path("behind.jsonl");
    let give_up = ["--give-up-after", &keep, "--export", text(&export)];
    let (code, out, err) = run(&[&recover[..], &give_up].concat());
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("CAREBOOK_main") && err.contains(told), "{err}");
    assert!(!export.exists());
    // What can be read is written, but not there.
    let inside = data.join("behind.jsonl");
    let (code, _, err) = run(&[&recover[..], &["--export", text(&inside)]].concat());
    assert_eq!(code, Some(1), "{err}");
    let (code, _, err) = run(&[&recover[..], &["--export", text(&export)]].concat());
    assert_eq!(code, Some(3), "{err}");
    assert!(export.exists());
    assert!(before == content(), "nothing was changed");
}

#[test]
fn commands_on_a_damaged_journal_copy_say_to_refill_it_from_the_stream() {
    let world = World::new();
    lived(&world, 3);
    flip(&segments(&world)[1], 4_300);
    let data = world.data();
    std::fs::write(data.join("journal"), "CAREBOOK_main\n").unwrap();
    let (backup, restored) = (world.path("backup"), world.path("restored"));
    for command in [
        &["verify", "--data", text(&data)][..],
        &["inspect", "counts", "--data", text(&data)],
        &["outbox", "list", "--data", text(&data)],
        &["compact", "--data", text(&data)],
        &["backup", "--data", text(&data), "--to", text(&backup)],
        &["restore", "--from", text(&data), "--data", text(&restored)],
    ] {
        let (code, _, err) = run(command);
        assert_eq!(code, Some(3), "{command:?}: {err}");
        let told = "it is the copy of the journal CAREBOOK_main: move the directory away";
        assert!(err.contains(told), "{command:?}: {err}");
        for elsewhere in ["restore a backup", "giving up", "carebook recover"] {
            assert!(!err.contains(elsewhere), "{command:?}: {err}");
        }
    }
}

#[test]
fn records_before_damage_can_be_restored_and_a_refusal_names_their_end() {
    let world = World::new();
    lived(&world, 3);
    flip(&segments(&world)[1], 4_300);
    let (data, restored) = (world.path("it's my dir"), world.path("restored"));
    std::fs::rename(world.data(), &data).unwrap();
    let restore = |more: &[&str]| {
        let arguments = ["restore", "--from", text(&data), "--data", text(&restored)];
        run(&[&arguments[..], more].concat())
    };
    let all: &[&str] = &[];
    for more in [all, &["--at", "4"]] {
        let (code, _, err) = restore(more);
        assert_eq!(code, Some(3), "{err}");
        for told in [
            "position 4",
            "--at 3 restores what is before",
            r"it'\''s my dir'` says what can be saved",
        ] {
            assert!(err.contains(told), "{told}: {err}");
        }
        // It may be that backup.
        assert!(!err.contains("restore a backup"), "{err}");
        drop(std::fs::remove_dir_all(&restored));
    }
    let (code, _, err) = restore(&["--at", "3"]);
    assert_eq!(code, Some(0), "{err}");
    let (code, out, err) = run(&["verify", "--data", text(&restored)]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("every byte is as it was written"), "{out}");
}

#[test]
fn a_way_out_s_command_can_be_pasted_whatever_the_directory_s_name() {
    let world = World::new();
    lived(&world, 3);
    flip(&segments(&world)[1], 4_300);
    let data = world.path("it's my dir");
    std::fs::rename(world.data(), &data).unwrap();
    let (code, out, err) = run(&["recover", "--data", text(&data)]);
    assert_eq!(code, Some(3), "{err}");
    let mut ways = out
        .lines()
        .filter_map(|line| line.strip_prefix("way out: carebook "));
    let pasted = format!("\"$0\" {}", ways.next().unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", &pasted]).arg(carebook().get_program());
    let done = shell.output().unwrap();
    assert!(done.status.success(), "{pasted}: {done:?}");
    let (code, _, err) = run(&["verify", "--data", text(&data)]);
    assert_eq!(code, Some(0), "{err}");
}
