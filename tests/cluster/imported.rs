//! A directory that was kept without a journal is brought into a new stream: all of it, once, or no
//! server starts on it.

use std::path::Path;
use std::time::Duration;

use super::proxy::{Fate, From, Proxy};
use super::{Cluster, ROOMY, STREAM, ask, ask_for, content, start_refused, until};
use crate::support::{Server, World, run};

/// A directory of a service without a journal, with the answers to so many commands.
fn kept_alone(world: &World, count: usize) {
    let server = Server::start(world);
    ask_for(world, &server, 0..count);
    assert_eq!(server.stop(), Some(0));
}

/// The same, whose log keeps only what it has to: its first position.
fn compacted(world: &World, count: usize) -> u64 {
    let retention = ["--log-retention", "0s"];
    let mut from = 0;
    // Each start begins a part of the log, which is what a directory does not keep.
    for upto in [count / 4, count / 2, count / 4 * 3, count] {
        let server = Server::start_with(world, &retention);
        ask_for(world, &server, from..upto);
        server.signal("USR1");
        until("a snapshot is taken", || {
            server.metric("carebook_snapshot_position") == upto as f64
        });
        from = upto;
        assert_eq!(server.stop(), Some(0));
    }
    let data = world.data();
    let (code, out, said) = run(&["verify", "--json", "--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    let first = told["firstPosition"].as_u64().unwrap();
    assert!(first > 1, "{told}");
    first
}

fn import(cluster: &Cluster, world: &World) -> (Option<i32>, serde_json::Value, String) {
    let data = world.data();
    let bytes = ROOMY.to_string();
    let from = [
        "--json",
        "--max-bytes",
        &bytes,
        "--from",
        data.to_str().unwrap(),
    ];
    let (code, out, errors) = cluster.journal("create", &from);
    (code, serde_json::from_str(&out).unwrap_or_default(), errors)
}

/// Copies the files of a stopped server's directory.
fn copy(from: &Path, to: &Path) {
    for (file, _) in content(from) {
        let to = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(file, to).unwrap();
    }
}

#[test]
fn a_new_stream_is_told_with_its_first_message_also_a_second_time() {
    let Some(cluster) = Cluster::started(1) else {
        return;
    };
    let bytes = ROOMY.to_string();
    for _ in 0..2 {
        let (code, out, errors) = cluster.journal("create", &["--json", "--max-bytes", &bytes]);
        assert_eq!(code, Some(0), "{errors}");
        let told: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(told["messages"], 1, "{out}");
    }
}

#[test]
fn a_directory_is_imported_whole_and_served_from_any_node_as_before() {
    let Some(cluster) = Cluster::started(1) else {
        return;
    };
    let world = World::new();
    kept_alone(&world, 12);
    // While a server has it open, it is left alone.
    let server = Server::start(&world);
    let (code, _, said) = import(&cluster, &world);
    assert_eq!(code, Some(4), "{said}");
    assert_eq!(server.stop(), Some(0));
    let before = content(&world.data());
    let (code, told, said) = import(&cluster, &world);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(told["importedRecords"], 12, "{told}");
    assert_eq!(told["recordsBefore"], 0, "{told}");
    // Once more, as by somebody who did not see it end.
    let messages = cluster.messages().len();
    let (code, told, said) = import(&cluster, &world);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(told["importedRecords"], 0, "{told}");
    assert_eq!(told["recordsBefore"], 12, "{told}");
    assert_eq!(cluster.messages().len(), messages, "nothing was appended");
    let older = World::new();
    copy(&world.data(), &older.data());
    assert_eq!(cluster.verify(&world.data())["comparedRecords"], 12);
    let is_data = |(path, _): &&(std::path::PathBuf, Vec<u8>)| {
        !path.ends_with("journal") && !path.to_str().unwrap().to_lowercase().ends_with("lock")
    };
    let after = content(&world.data());
    assert!(
        before
            .iter()
            .filter(is_data)
            .eq(after.iter().filter(is_data))
    );
    // Until a start with the journal nothing else is in the way of one without it.
    let mark = std::fs::read_to_string(world.data().join("journal")).unwrap();
    assert_eq!(mark, format!("{STREAM}\n"));
    assert_eq!(Server::try_start(&world, &[]).err(), Some(Some(1)));
    // From a node with nothing, and from the directory itself: repeated commands are known.
    for data in [world.path("second"), world.data()] {
        let server = Server::spawn(cluster.command(&world, &data));
        ask_for(&world, &server, 0..14);
        assert_eq!(server.stop(), Some(0));
    }
    assert_eq!(cluster.verify(&world.data())["records"], 14);
    // Once more; the directory as it was before, which ends sooner; and another one: the stream is not
    // empty.
    let (code, told, said) = import(&cluster, &world);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(told["recordsBefore"], 14, "{told}");
    let other = World::new();
    kept_alone(&other, 3);
    for world in [&older, &other] {
        let (code, _, said) = import(&cluster, world);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("is not empty"), "{said}");
    }
    // `verify` of the directory compares it, too, and finds one that is not the stream's.
    let verify = |world: &World| {
        let data = world.data();
        let own = cluster.arguments();
        let mut all = vec!["verify", "--json", "--data", data.to_str().unwrap()];
        all.extend(own.iter().map(String::as_str));
        run(&all)
    };
    let (code, out, said) = verify(&world);
    assert_eq!(code, Some(0), "{said}");
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["comparedRecords"], 14, "{told}");
    let (code, _, said) = verify(&other);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("another service"), "{said}");
}

#[test]
fn an_import_that_cannot_mark_its_directory_fails_and_the_next_marks_it() {
    let Some(cluster) = Cluster::started(1) else {
        return;
    };
    let world = World::new();
    kept_alone(&world, 4);
    // Something else has the name.
    let mark = world.data().join("journal");
    std::fs::create_dir(&mark).unwrap();
    let (code, told, said) = import(&cluster, &world);
    assert_eq!((code, &told), (Some(1), &serde_json::Value::Null), "{said}");
    let all = format!("the stream {STREAM} has all records of the directory; but ");
    assert!(
        said.contains(&all) && said.contains("cannot be marked"),
        "{said}"
    );
    std::fs::remove_dir(&mark).unwrap();
    let (code, told, said) = import(&cluster, &world);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(told["recordsBefore"], 4, "{told}");
    assert!(mark.is_file());
}

#[test]
fn an_interrupted_import_is_refused_to_all_and_resumes_when_run_again() {
    let Some(cluster) = Cluster::started(1) else {
        return;
    };
    let world = World::new();
    kept_alone(&world, 40);
    is_imported_although_interrupted(&cluster, &world, 1);
}

#[test]
fn a_directory_that_begins_with_a_snapshot_is_imported_with_it() {
    let Some(cluster) = Cluster::started(1) else {
        return;
    };
    let world = World::new();
    let first = compacted(&world, 40);
    is_imported_although_interrupted(&cluster, &world, first);
    let told = cluster.verify(&world.path("empty"));
    assert_eq!(told["firstPosition"], first, "{told}");
    assert_eq!(told["snapshots"], 1, "{told}");
    let server = Server::spawn(cluster.command(&world, &world.data()));
    ask_for(&world, &server, 41..44);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(cluster.verify(&world.data())["firstPosition"], first);
    // The stream is gone, but not its snapshots: who has as much as they begins another one.
    let config = cluster.config();
    cluster.make(&config);
    let (code, told, said) = import(&cluster, &world);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(told["importedRecords"], 45 - first, "{told}");
    let server = Server::spawn(cluster.command(&world, &world.path("other")));
    ask_for(&world, &server, 44..60);
    server.signal("USR1");
    until("the snapshot is there", || {
        server.metric("carebook_journal_snapshot_position") == 60.0
    });
    assert_eq!(server.stop(), Some(0));
    cluster.make(&config);
    let (code, _, said) = import(&cluster, &world);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("has position 60"), "{said}");
}

#[test]
fn a_directory_of_snapshots_alone_is_imported_and_served_from_any_node() {
    let Some(cluster) = Cluster::started(1) else {
        return;
    };
    let world = World::new();
    kept_alone(&world, 12);
    let data = world.data();
    let (code, _, said) = run(&["compact", "--keep", "0s", "--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    let (code, told, said) = import(&cluster, &world);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(told["importedRecords"], 0, "it has no records: {told}");
    assert_eq!(cluster.verify(&data)["firstPosition"], 13);
    // From a node with nothing, and from the directory itself: repeated commands are known.
    for data in [world.path("second"), data] {
        let server = Server::spawn(cluster.command(&world, &data));
        ask_for(&world, &server, 0..14);
        assert_eq!(server.stop(), Some(0));
    }
    assert_eq!(cluster.verify(&world.data())["records"], 2);
}

#[test]
fn a_copy_written_on_alone_up_to_an_imports_beginning_is_refused() {
    let Some(cluster) = Cluster::started(1) else {
        return;
    };
    let world = World::new();
    kept_alone(&world, 8);
    let (data, other) = (world.data(), world.path("other"));
    copy(&data, &other);
    kept_alone(&world, 12);
    // The copy comes to the same position by other commands.
    let aside = world.path("aside");
    std::fs::rename(&data, &aside).unwrap();
    std::fs::rename(&other, &data).unwrap();
    let alone = Server::start(&world);
    ask_for(&world, &alone, 12..16);
    assert_eq!(alone.stop(), Some(0));
    std::fs::rename(&data, &other).unwrap();
    std::fs::rename(&aside, &data).unwrap();
    let compact = |data: &Path| {
        let (code, _, said) = run(&["compact", "--keep", "0s", "--data", data.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{said}");
    };
    compact(&data);
    let (code, _, said) = import(&cluster, &world);
    assert_eq!(code, Some(0), "{said}");
    let refused = || {
        let (code, said) = start_refused(&cluster, &world, &other);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("ends at position 12"), "{said}");
    };
    refused();
    // So it is where only a snapshot is left of it, since it has no mark of the journal.
    compact(&other);
    refused();
}

/// The directory of a world with forty commands, whose log begins with a position, is imported by a command
/// that is interrupted again and again.
fn is_imported_although_interrupted(cluster: &Cluster, world: &World, first: u64) {
    let own = cluster.nodes[0].port();
    // Cut off after the fence, and once more after the records, whose acknowledgement is lost.
    for passing in [1, 2] {
        let mut seen = 0;
        let proxy = Proxy::to(own, move |from| {
            seen += usize::from(from == From::Writer);
            match (from, seen > passing || (from == From::Server && seen == 2)) {
                (_, true) => Fate::IsLost,
                (_, false) => Fate::Passes,
            }
        });
        let mut command = crate::support::carebook();
        command.args(["journal", "create", "--max-bytes", &ROOMY.to_string()]);
        command.arg("--from").arg(world.data());
        for argument in cluster.arguments() {
            command.arg(argument.replace(&format!(":{own}"), &format!(":{}", proxy.port)));
        }
        let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1_500));
        assert!(
            child.try_wait().unwrap().is_none(),
            "it waits for an answer"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        // Neither a node that has everything nor one that has nothing starts on it.
        for data in [world.data(), world.path("empty")] {
            let (code, said) = start_refused(cluster, world, &data);
            assert_eq!(code, Some(1), "{said}");
            assert!(said.contains("has not ended"), "{said}");
        }
        // Who looks at the stream sees why.
        let (code, out, said) = cluster.journal("status", &["--json"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("has not ended"), "{said}");
        let told: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(told["importing"], true, "{told}");
        let (code, out, _) = cluster.journal("status", &[]);
        assert_eq!(code, Some(1), "{out}");
        assert!(
            out.contains("import") && out.contains("has not ended"),
            "{out}"
        );
        // Nor is another directory imported behind it.
        let other = World::new();
        kept_alone(&other, 2);
        let (code, _, said) = import(cluster, &other);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("another service"), "{said}");
    }
    let (code, told, said) = import(cluster, world);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(told["importedRecords"], 41 - first, "{told}");
    assert_eq!(cluster.status()["importing"], false);
    let server = Server::spawn(cluster.command(world, &world.path("empty")));
    for number in 0..41 {
        assert_eq!(ask(world, &mut server.client(), number), Some(201));
    }
    assert_eq!(server.stop(), Some(0));
    assert_eq!(cluster.verify(&world.path("empty"))["records"], 42 - first);
}

#[test]
fn a_restored_directory_is_imported_with_the_logs_that_it_continues() {
    let Some(cluster) = Cluster::started(1) else {
        return;
    };
    let world = World::new();
    kept_alone(&world, 9);
    let restored = World::new();
    let (from, to) = (world.data(), restored.data());
    let arguments = ["restore", "--from", from.to_str().unwrap(), "--data"];
    let (code, _, said) = run(&[&arguments[..], &[to.to_str().unwrap()]].concat());
    assert_eq!(code, Some(0), "{said}");
    let (code, told, said) = import(&cluster, &restored);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(told["importedRecords"], 9, "{told}");
    let lineage = |data: &std::path::Path| {
        let (code, out, said) = run(&["verify", "--json", "--data", data.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{said}");
        let told: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(told["restoredFrom"].as_array().unwrap().len(), 1, "{told}");
        (told["logId"].clone(), told["restoredFrom"].clone())
    };
    // A node with nothing has the same ones, and so the same identifiers.
    let empty = world.path("empty");
    let server = Server::spawn(cluster.command(&world, &empty));
    ask_for(&world, &server, 9..11);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(lineage(&empty), lineage(&to));
    // Where the stream forgets them neither is served.
    cluster.change(&serde_json::json!({"metadata": {}}));
    for data in [&empty, &to] {
        let (code, said) = start_refused(&cluster, &world, data);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("list different ancestors"), "{said}");
    }
}

#[test]
fn a_stream_that_has_too_little_room_for_a_directory_is_told_of() {
    let Some((cluster, world)) = Cluster::with_world() else {
        return;
    };
    kept_alone(&world, 40);
    let mut config = cluster.config();
    config["max_bytes"] = serde_json::json!(20_000);
    config["max_consumers"] = serde_json::json!(77);
    cluster.make(&config);
    let (code, _, said) = import(&cluster, &world);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the journal is full"), "{said}");
    let (code, said) = start_refused(&cluster, &world, &world.path("empty"));
    assert_eq!(code, Some(1), "{said}");
    // With more room it goes on, and the stream's other settings stay.
    cluster.change(&serde_json::json!({"max_bytes": ROOMY}));
    let (code, told, said) = import(&cluster, &world);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(told["importedRecords"], 40, "{told}");
    assert_eq!(cluster.config()["max_consumers"], 77);
}

#[test]
fn a_directory_of_another_service_is_not_verified() {
    let Some(cluster) = Cluster::started(1) else {
        return;
    };
    let world = World::new();
    compacted(&world, 40);
    let (code, _, said) = import(&cluster, &world);
    assert_eq!(code, Some(0), "{said}");
    // It ends before the stream begins: there is nothing to compare.
    let other = World::new();
    kept_alone(&other, 2);
    let data = other.data();
    let (code, _, said) = cluster.journal("verify", &["--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("another service"), "{said}");
}
