//! A backup of a running server is a whole one; restored, it answers as the server did then.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use carebook::base::time::Timestamp;
use serde_json::Value;

use crate::support::{Answer, Client, Server, World, files, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn ended(arguments: &[&str]) -> Value {
    let (code, out, err) = run(&[arguments, &["--json"]].concat());
    assert_eq!(code, Some(0), "{arguments:?}: {err}");
    serde_json::from_str(&out).unwrap()
}

fn deposit(client: &mut Client, world: &World, number: usize) -> Answer {
    let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
    client.post("/settlement-deposit-requests", &world.headquarters(), &body)
}

/// Each answer again, by its key; and what it made is read.
fn answers_the_same(world: &World, data: &Path, answers: &[Answer]) {
    let mut command = crate::support::carebook();
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .arg("--jwks")
        .arg(world.path("jwks.json"))
        .args(["--issuer", crate::support::ISSUER])
        .args(["--audience", crate::support::AUDIENCE]);
    let server = Server::spawn(command);
    let mut client = server.client();
    for (number, first) in answers.iter().enumerate() {
        let replay = deposit(&mut client, world, number);
        assert_eq!(
            replay.header("idempotent-replayed"),
            Some("true"),
            "{replay:?}"
        );
        assert_eq!(replay.json()["statementId"], first.json()["statementId"]);
        let path = format!(
            "/settlement-statements/{}",
            first.json()["statementId"].as_str().unwrap()
        );
        assert_eq!(client.get(&path, &world.headquarters()).status, 200);
    }
    // The next one is new.
    let next = deposit(&mut client, world, answers.len());
    assert_eq!(next.status, 201, "{next:?}");
    assert_eq!(next.header("idempotent-replayed"), None);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_backup_of_a_busy_server_holds_every_response_given_before_it() {
    let world = World::new();
    let server = Server::start(&world);
    let copy = world.path("copy");
    let stop = AtomicBool::new(false);
    let answered = AtomicU64::new(0);
    let (before, all) = std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut client = server.client();
            let mut answers = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                answers.push(deposit(&mut client, &world, answers.len()));
                answered.fetch_add(1, Ordering::Relaxed);
            }
            answers
        });
        let mut other = server.client();
        while answered.load(Ordering::Relaxed) < 20 {
            assert!(!load.is_finished());
            std::thread::yield_now();
        }
        // Answered before the backup begins.
        let last = other.post(
            "/settlement-deposit-requests",
            &world.headquarters(),
            &world.deposit_request("BEFORE", "key-before"),
        );
        assert_eq!(last.status, 201);
        let backup = ended(&["backup", "--data", text(&world.data()), "--to", text(&copy)]);
        stop.store(true, Ordering::Relaxed);
        assert!(backup["lastPosition"].as_u64() >= last.position());
        (backup, load.join().unwrap())
    });
    assert_eq!(server.stop(), Some(0));
    let last = before["lastPosition"].as_u64().unwrap();
    let held = all.iter().filter(|answer| answer.position() <= Some(last));
    let held: Vec<_> = held.cloned().collect();
    assert!(held.len() > 3 && held.len() <= all.len());
    assert_eq!(run(&["verify", "--data", text(&copy)]).0, Some(0));

    let restored = world.path("restored");
    let report = ended(&["restore", "--from", text(&copy), "--data", text(&restored)]);
    assert_eq!(report["lastPosition"], last);
    assert_ne!(report["logId"], before["logId"], "a log of its own");
    answers_the_same(&world, &restored, &held);
    // The backup itself is as it was, and can be used again.
    assert_eq!(run(&["verify", "--data", text(&copy)]).0, Some(0));
}

#[test]
fn verified_backups_and_restores_say_what_was_read_and_compared() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(deposit(&mut server.client(), &world, 0).status, 201);
    assert_eq!(server.stop(), Some(0));
    let (data, copy, restored) = (world.data(), world.path("copy"), world.path("restored"));
    for (arguments, told) in [
        (
            ["backup", "--data", text(&data), "--to", text(&copy)],
            "is verified: all its records and snapshots were read, and have the checksums and digests of the \
             source\n",
        ),
        (
            ["restore", "--from", text(&copy), "--data", text(&restored)],
            "is restored and verified: all its records and snapshots were read, and their checksums and \
             digests are right\n",
        ),
    ] {
        let (code, out, err) = run(&arguments);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.ends_with(told), "{out}");
    }
}

#[test]
fn a_directory_is_restored_as_it_was_at_a_position_or_a_time() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let mut answers: Vec<_> = (0..5)
        .map(|number| deposit(&mut client, &world, number))
        .collect();
    let position = answers[4].position().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let time = Timestamp::from_millis(chrono::Utc::now().timestamp_millis());
    std::thread::sleep(std::time::Duration::from_millis(20));
    answers.extend((5..8).map(|number| deposit(&mut client, &world, number)));
    assert_eq!(server.stop(), Some(0));
    let (data, time, position) = (world.data(), time.to_string(), position.to_string());
    for (name, at) in [("by-position", &position), ("by-time", &time)] {
        let target = world.path(name);
        let made = ended(&[
            "restore",
            "--from",
            text(&data),
            "--data",
            text(&target),
            "--at",
            at,
        ]);
        assert_eq!(made["lastPosition"].to_string(), position);
        let next = &made["byTime"]["nextPosition"];
        let after = answers[5].position().unwrap();
        assert_eq!(*next == after, name == "by-time", "{made}");
        answers_the_same(&world, &target, &answers[..5]);
    }
    let refused = |at: &str, why: &str| {
        let target = world.path("none");
        let arguments = [
            "restore",
            "--from",
            text(&data),
            "--data",
            text(&target),
            "--at",
            at,
        ];
        let (code, out, err) = run(&arguments);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{at}");
        assert!(err.contains(why), "{at}: {err}");
    };
    refused("1999-01-01T00:00:00Z", "which is after");
    refused("99", "the last position that can be restored is");
    // A directory that holds something is not written to.
    let (code, _, err) = run(&["restore", "--from", text(&data), "--data", text(&data)]);
    assert_eq!(code, Some(1));
    assert!(err.contains("not empty"), "{err}");
    assert_eq!(run(&["verify", "--data", text(&data)]).0, Some(0));
    // Nor into the source, with which it would be moved away or removed.
    let inside = data.join("inside");
    let (code, _, err) = run(&["restore", "--from", text(&data), "--data", text(&inside)]);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("lies in the source") && !inside.exists(),
        "{err}"
    );
}

/// Two snapshots of a running server, after which its log lets go of what they cover.
fn compact(data: &Path, archive: &Path) {
    let arguments = [
        "compact",
        "--keep",
        "0s",
        "--data",
        text(data),
        "--archive",
        text(archive),
    ];
    let (code, _, err) = run(&arguments);
    assert_eq!(code, Some(0), "{err}");
}

/// Three rounds of three commits, each moved to the archive; the copy is a backup of the second.
fn archived_in_rounds(world: &World, archive: &Path, copy: &Path) -> Vec<Answer> {
    let data = world.data();
    let mut answers = Vec::new();
    for round in 0..3 {
        let server = Server::start(world);
        let mut client = server.client();
        answers
            .extend((round * 3..round * 3 + 3).map(|number| deposit(&mut client, world, number)));
        if round == 1 {
            ended(&["backup", "--data", text(&data), "--to", text(copy)]);
        }
        assert_eq!(server.stop(), Some(0));
        // So that a time lies between two rounds.
        let last = answers.last().unwrap().position().unwrap();
        assert_eq!(last, answers.len() as u64);
        compact(&data, archive);
    }
    answers
}

#[test]
fn archived_commits_can_be_restored_and_inspected() {
    let world = World::new();
    let (data, archive, copy) = (world.data(), world.path("archive"), world.path("copy"));
    let answers = archived_in_rounds(&world, &archive, &copy);
    let restored = |from: &Path, name: &str, more: &[&str]| {
        let target = world.path(name);
        let arguments = ["restore", "--from", text(from), "--data", text(&target)];
        let (code, out, err) = run(&[&arguments, more].concat());
        (code, out, err, target)
    };
    let (code, _, err, _) = restored(&data, "without", &["--at", "2"]);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("the earliest position that can be restored is 9"),
        "{err}"
    );
    let (code, _, err, _) = restored(&data, "long-ago", &["--at", "1999-01-01T00:00:00Z"]);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("the earliest position that can be restored is 9"),
        "{err}"
    );
    let archived = ["--archive", text(&archive)];
    for (from, name, at) in [(&data, "from-data", 2), (&copy, "from-copy", 8)] {
        let position = at.to_string();
        let more = [&archived[..], &["--at", &position]].concat();
        let (code, _, err, target) = restored(from, name, &more);
        assert_eq!(code, Some(0), "{err}");
        answers_the_same(&world, &target, &answers[..at]);
    }
    let lines = |more: &[&str]| {
        let arguments = ["inspect", "records", "--data", text(&data), "--json"];
        let (code, out, err) = run(&[&arguments, more].concat());
        assert_eq!(code, Some(0), "{err}");
        out.lines().count()
    };
    assert_eq!(lines(&[]), 0);
    assert_eq!(lines(&archived), 9);
    // A time that only the archive still knows.
    let (code, out, err) = run(&[
        &[
            "inspect",
            "records",
            "--data",
            text(&data),
            "--json",
            "--from",
            "4",
            "--limit",
            "1",
        ],
        &archived[..],
    ]
    .concat());
    assert_eq!(code, Some(0), "{err}");
    let record: Value = serde_json::from_str(&out).unwrap();
    let more = [&archived[..], &["--at", record["at"].as_str().unwrap()]].concat();
    let (code, _, err, target) = restored(&data, "by-time", &more);
    assert_eq!(code, Some(0), "{err}");
    assert!(deposits(&target) >= 4);
    // Its own archive is beside the first one.
    let before: Vec<_> = crate::support::files(&archive);
    compact(&target, &archive);
    let after: Vec<_> = crate::support::files(&archive);
    assert!(before.iter().all(|file| after.contains(file)));
}

#[test]
fn archive_faults_are_reported_with_what_can_be_restored() {
    let world = World::new();
    let (archive, copy) = (world.path("archive"), world.path("copy"));
    archived_in_rounds(&world, &archive, &copy);
    let restored = |name: &str, more: &[&str]| {
        let target = world.path(name);
        let arguments = ["restore", "--from", text(&copy), "--data", text(&target)];
        run(&[&arguments, more].concat())
    };
    let archived = ["--archive", text(&archive)];
    // A backup shows what was archived before it and after it.
    let inspected = |more: &[&str]| {
        let arguments = ["inspect", "records", "--data", text(&copy), "--json"];
        run(&[&arguments, more].concat())
    };
    let (code, out, err) = inspected(&archived);
    assert_eq!((code, out.lines().count()), (Some(0), 9), "{err}");
    // An archive of other logs.
    let others = world.path("others");
    std::fs::create_dir(&others).unwrap();
    let (code, _, err) = restored("alone", &["--archive", text(&others)]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("has no segments of this log"), "{err}");
    assert!(err.contains(text(&others)), "{err}");
    // A file that is none of the log's.
    let folder = std::fs::read_dir(&archive).unwrap().next().unwrap();
    let stray = folder.unwrap().path().join("segment-0000000000000099.log");
    std::fs::write(&stray, [0_u8; 8192]).unwrap();
    let (code, _, err) = restored("stray", &archived);
    assert_eq!(code, Some(3));
    assert!(err.contains("the archive is damaged"), "{err}");
    assert!(err.contains("up to 9 everything is there"), "{err}");
    assert!(err.contains("--at 9 restores what is before"), "{err}");
    assert!(!err.contains("Nothing was changed"), "{err}");
    assert!(!err.contains("carebook recover"), "{err}");
    let (code, _, err) = restored("before", &[&archived[..], &["--at", "9"]].concat());
    assert_eq!(code, Some(0), "{err}");
    let (code, out, err) = inspected(&archived);
    assert_eq!((code, out.lines().count()), (Some(3), 9), "{err}");
    assert!(err.contains("without --archive"), "{err}");
    assert!(!err.contains("carebook recover"), "{err}");
}

/// The first position of a segment.
fn first_of(segment: &Path) -> u64 {
    let bytes = std::fs::read(segment).unwrap();
    u64::from_le_bytes(bytes[4_128..4_136].try_into().unwrap())
}

#[test]
fn a_time_is_restored_if_a_later_commit_precedes_the_gap_in_the_archive() {
    let world = World::new();
    let (data, archive) = (world.data(), world.path("archive"));
    let now = || Timestamp::from_millis(chrono::Utc::now().timestamp_millis());
    // The number of commits after each round, and a time within it: after its first commit, before its last.
    let (mut ends, mut within) = (Vec::new(), Vec::new());
    let mut number = 0;
    for _ in 0..3 {
        let server = Server::start(&world);
        let mut client = server.client();
        let mut commit = || {
            assert_eq!(deposit(&mut client, &world, number).status, 201);
            number += 1;
        };
        commit();
        let time = now();
        while now() <= time {
            commit();
        }
        commit();
        within.push(time);
        assert_eq!(server.stop(), Some(0));
        ends.push(u64::try_from(number).unwrap());
        compact(&data, &archive);
    }
    let inspect = ["inspect", "records", "--json", "--data", text(&data)];
    let (code, out, err) = run(&[&inspect[..], &["--archive", text(&archive)]].concat());
    assert_eq!(code, Some(0), "{err}");
    let times = out.lines().map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        Timestamp::parse(record["at"].as_str().unwrap()).unwrap()
    });
    let before = times.filter(|at| *at <= within[0]).count();
    assert!(before > 0 && u64::try_from(before).unwrap() < ends[0]);

    let gone = ends[0] + 1..=ends[1];
    for segment in crate::support::files(&archive) {
        if gone.contains(&first_of(&segment)) {
            std::fs::remove_file(&segment).unwrap();
        }
    }
    let restored = |name: &str, at: &str| {
        let target = world.path(name);
        let arguments = ["restore", "--from", text(&data), "--data", text(&target)];
        let more = ["--archive", text(&archive), "--at", at];
        let (code, _, err) = run(&[&arguments[..], &more].concat());
        (code, err, target)
    };
    let (code, err, target) = restored("before", &within[0].to_string());
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(deposits(&target), u64::try_from(before).unwrap());
    // What was committed by then may be missing.
    let (code, err, _) = restored("among", &within[1].to_string());
    assert_eq!(code, Some(3), "{err}");
    assert!(
        err.contains("are missing behind this segment")
            && err.contains("may be among those that are missing")
            && err.contains(&format!("--at {} restores what is before", ends[0])),
        "{err}"
    );
    let (code, err, _) = restored("long-ago", "1999-01-01T00:00:00Z");
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("the first commit is of "), "{err}");
}

#[test]
fn a_time_between_snapshot_and_first_record_restores_the_snapshot() {
    let world = World::new();
    let data = world.data();
    let write = |numbers: std::ops::Range<usize>| -> Vec<Answer> {
        let server = Server::start(&world);
        let mut client = server.client();
        let answers = numbers.map(|number| deposit(&mut client, &world, number));
        let answers = answers.collect();
        assert_eq!(server.stop(), Some(0));
        answers
    };
    let restored = |name: &str, at: &str| {
        let target = world.path(name);
        let arguments = ["restore", "--from", text(&data), "--data", text(&target)];
        let (code, _, err) = run(&[&arguments[..], &["--at", at]].concat());
        (code, err, target)
    };
    let answers = write(0..3);
    compact(&data, &world.path("archive"));
    std::thread::sleep(std::time::Duration::from_millis(20));
    let time = Timestamp::from_millis(chrono::Utc::now().timestamp_millis());
    std::thread::sleep(std::time::Duration::from_millis(20));
    // Where nothing came after it, and where something did.
    for name in ["nothing", "something"] {
        if name == "something" {
            write(3..5);
            let records = ["inspect", "records", "--json", "--data", text(&data)];
            let (_, out, _) = run(&records);
            assert_eq!(out.lines().count(), 2, "the log begins after the snapshot");
        }
        let (code, err, target) = restored(name, &time.to_string());
        assert_eq!(code, Some(0), "{name}: {err}");
        assert_eq!(deposits(&target), 3, "{name}");
        answers_the_same(&world, &target, &answers);
        let (code, err, _) = restored(&format!("{name}-else"), "1999-01-01T00:00:00Z");
        assert_eq!(code, Some(1), "{name}");
        assert!(
            err.contains("the earliest position that can be restored is 3 of ")
                && err.contains("which is after 1999"),
            "{name}: {err}"
        );
    }
}

#[test]
fn a_directory_that_holds_others_is_neither_backed_up_nor_restored_to() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(deposit(&mut server.client(), &world, 0).status, 201);
    assert_eq!(server.stop(), Some(0));
    let data = world.data();
    for (command, from, to) in [
        ("backup", "--data", "--to"),
        ("restore", "--from", "--data"),
    ] {
        let target = world.path(command);
        let inner = target.join("quarantine");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("kept"), "kept").unwrap();
        let arguments = [command, from, text(&data), to, text(&target)];
        let (code, _, err) = run(&arguments);
        assert_eq!(code, Some(1), "{command}");
        assert!(
            err.contains("is not empty, it holds quarantine"),
            "{command}: {err}"
        );
        let names: Vec<_> = target.read_dir().unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        // Whatever the name is, it does not steer a terminal.
        for is_file in [false, true] {
            let target = world.path("odd");
            std::fs::create_dir(&target).unwrap();
            let odd = target.join("a\u{1b}[2Jb");
            let made = match is_file {
                true => std::fs::write(&odd, ""),
                false => std::fs::create_dir(&odd),
            };
            made.unwrap();
            let (code, _, err) = run(&[command, from, text(&data), to, text(&target)]);
            assert_eq!(code, Some(1), "{command}");
            assert!(err.contains("it holds a\\u{1b}[2Jb"), "{command}: {err:?}");
            assert!(!err.contains('\u{1b}'), "{command}: {err:?}");
            std::fs::remove_dir_all(&target).unwrap();
        }
        // What a new file system has is no content.
        std::fs::rename(&inner, target.join("lost+found")).unwrap();
        let (code, _, err) = run(&arguments);
        assert_eq!(code, Some(0), "{command}: {err}");
        let (code, _, err) = run(&["verify", "--data", text(&target)]);
        assert_eq!(code, Some(0), "{command}: {err}");
    }
}

#[test]
fn a_backup_s_status_replaces_nothing_else() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(deposit(&mut server.client(), &world, 0).status, 201);
    assert_eq!(server.stop(), Some(0));
    let (data, copy) = (world.data(), world.path("copy"));
    let manifest = std::fs::read(data.join("manifest")).unwrap();
    let precious = world.path("precious");
    std::fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(data.join("manifest"), world.path("link")).unwrap();
    std::os::unix::fs::symlink(world.path("nowhere"), world.path("dangling")).unwrap();
    let backup = ["backup", "--data", text(&data), "--to", text(&copy)];
    for (status, why) in [
        (data.join("manifest"), "lies in"),
        (data.join("status.json"), "lies in"),
        (world.path("link"), "lies in"),
        (copy.join("status.json"), "lies in"),
        (precious.clone(), "something else"),
        (world.path("dangling"), "leads to no file"),
    ] {
        let (code, _, err) = run(&[&backup[..], &["--status", text(&status)]].concat());
        assert_eq!(code, Some(1), "{status:?}: {err}");
        assert!(
            err.contains(why) && err.contains("Nothing was copied"),
            "{status:?}: {err}"
        );
        assert!(!copy.exists(), "{status:?}");
    }
    assert!(std::fs::read(data.join("manifest")).unwrap() == manifest);
    assert!(!data.join("status.json").exists());
    assert!(world.path("dangling").is_symlink());
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    let status = world.path("status.json");
    std::fs::write(&status, "").unwrap();
    let (code, _, err) = run(&[&backup[..], &["--status", text(&status)]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert!(
        std::fs::read_to_string(&status)
            .unwrap()
            .contains("lastSuccess")
    );
}

#[test]
fn backups_archives_and_exports_are_refused_in_the_data_directory() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(deposit(&mut server.client(), &world, 0).status, 201);
    assert_eq!(server.stop(), Some(0));
    let (data, link) = (world.data(), world.path("link"));
    std::os::unix::fs::symlink(&data, &link).unwrap();
    let before = files(&data);
    for (command, flag) in [
        ("backup", "--to"),
        ("compact", "--archive"),
        ("recover", "--export"),
    ] {
        for inside in [data.join("new"), data.join("new/below"), link.join("new")] {
            let (code, _, err) = run(&[command, "--data", text(&data), flag, text(&inside)]);
            assert_eq!(code, Some(1), "{command}: {err}");
            let told = format!("{flag} {} lies in the data directory", text(&inside));
            assert!(err.contains(&told), "{command}: {err}");
            assert!(err.contains("Nothing was changed"), "{command}: {err}");
            assert!(files(&data) == before && !data.join("new").exists());
        }
    }
}

#[test]
fn the_copy_of_a_journal_is_written_by_no_command_alone_and_its_backup_is() {
    let world = World::new();
    let server = Server::start(&world);
    let answers = vec![deposit(&mut server.client(), &world, 0)];
    assert_eq!(answers[0].status, 201);
    assert_eq!(server.stop(), Some(0));
    let data = world.data();
    // As a start with --journal leaves it.
    std::fs::write(data.join("journal"), "CAREBOOK_main\n").unwrap();
    std::fs::write(world.path("facts"), "").unwrap();
    let facts = world.path("facts");
    let content = || -> Vec<_> {
        let all = crate::support::files(&data).into_iter();
        let kept = all.filter(|file| !file.ends_with("lock"));
        kept.map(|file| (std::fs::read(&file).unwrap(), file))
            .collect()
    };
    let before = content();
    for command in [
        &["facts", "load", text(&facts)][..],
        &["outbox", "skip", "1", "--reason", "by hand"],
        &["outbox", "retry", "1"],
    ] {
        let (code, _, err) = run(&[command, &["--data", text(&data)]].concat());
        assert_eq!(code, Some(1), "{command:?}");
        assert!(
            err.contains("is the copy of the journal CAREBOOK_main") && err.contains("--journal"),
            "{command:?}: {err}"
        );
    }
    assert_eq!(Server::try_start(&world, &[]).err(), Some(Some(1)));
    assert!(before == content(), "nothing was changed");
    let (code, _, err) = run(&["outbox", "list", "--data", text(&data)]);
    assert_eq!(code, Some(0), "{err}");
    for (command, from, to) in [
        ("backup", "--data", "--to"),
        ("restore", "--from", "--data"),
    ] {
        let copy = world.path(command);
        let (code, _, err) = run(&[command, from, text(&data), to, text(&copy)]);
        assert_eq!(code, Some(0), "{command}: {err}");
        answers_the_same(&world, &copy, &answers);
    }
}

/// The last position of a directory.
fn deposits(data: &Path) -> u64 {
    ended(&["verify", "--data", text(data)])["lastPosition"]
        .as_u64()
        .unwrap()
}

#[test]
fn a_damaged_snapshot_is_told_as_one_and_a_restore_leaves_it_out() {
    let world = World::new();
    let server = Server::start(&world);
    deposit(&mut server.client(), &world, 0);
    assert_eq!(server.stop(), Some(0));
    let data = world.data();
    assert_eq!(run(&["compact", "--data", text(&data)]).0, Some(0));
    let snapshots: Vec<_> = crate::support::files(&data)
        .into_iter()
        .filter(|file| text(file).ends_with(".snap"))
        .collect();
    let mut bytes = std::fs::read(&snapshots[1]).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&snapshots[1], bytes).unwrap();
    let copy = world.path("copy");
    for command in [
        &["verify", "--data", text(&data)][..],
        &["backup", "--data", text(&data), "--to", text(&copy)],
    ] {
        let (code, _, err) = run(command);
        assert_eq!(code, Some(3), "{command:?}: {err}");
        for told in ["a snapshot is damaged: ", ".snap, offset", "a start reads"] {
            assert!(err.contains(told), "{command:?}: {err}");
        }
        assert!(!err.contains("giving up"), "{command:?}: {err}");
    }
    let target = world.path("restored");
    let (code, out, err) = run(&[
        "restore",
        "--from",
        text(&data),
        "--data",
        text(&target),
        "--json",
    ]);
    assert_eq!(code, Some(0), "{err}");
    assert!(
        err.contains("was left out") && err.contains(text(&snapshots[1])),
        "{err}"
    );
    let restored: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(restored["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(restored["leftOut"][0]["file"], text(&snapshots[1]));
}

#[test]
fn a_damaged_directory_is_neither_backed_up_nor_restored() {
    let world = World::new();
    let server = Server::start(&world);
    deposit(&mut server.client(), &world, 0);
    assert_eq!(server.stop(), Some(0));
    let segment = crate::support::files(&world.data())
        .into_iter()
        .find(|file| text(file).ends_with(".log"))
        .unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[4300] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let data = world.data();
    for command in [
        ["backup", "--data", "--to"],
        ["restore", "--from", "--data"],
    ] {
        let [name, from, to] = command;
        let target = world.path(name);
        let (code, _, err) = run(&[name, from, text(&data), to, text(&target)]);
        assert_eq!(code, Some(3), "{name}");
        assert!(err.contains(text(&segment)), "{err}");
        assert_ne!(run(&["verify", "--data", text(&target)]).0, Some(0));
    }
}
