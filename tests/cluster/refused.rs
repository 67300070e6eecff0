//! A stream that is not what it was, or not this service's, is refused at the start, with words,
//! and nothing is changed.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use async_nats::jetstream::stream::StorageType;
use bytes::Bytes;
use serde_json::json;

use super::{Cluster, PATIENCE, ROOMY, STREAM, ask_for, content, start_refused};
use crate::support::{Server, World};

/// A journal of some commands, whose server has stopped.
fn stopped() -> Option<(Cluster, World)> {
    let (cluster, world, server) = Cluster::with_writer(6)?;
    assert_eq!(server.stop(), Some(0));
    Some((cluster, world))
}

/// It is refused with this exit code and these words, and neither directory nor stream is changed.
#[track_caller]
fn assert_refused(cluster: &Cluster, world: &World, code: i32, words: &[&str]) {
    let (files, messages) = (content(&world.data()), cluster.messages());
    let (ended, said) = start_refused(cluster, world, &world.data());
    assert_eq!(ended, Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{said:?} has no {word:?}");
    }
    // Every start writes its name into the lock.
    let of_data = |files: &[(std::path::PathBuf, Vec<u8>)]| -> Vec<_> {
        let is_lock = |path: &std::path::Path| path.ends_with("lock") || path.ends_with("LOCK");
        let files = files.iter().filter(|(path, _)| !is_lock(path)).cloned();
        files.collect()
    };
    assert!(
        of_data(&content(&world.data())) == of_data(&files),
        "the directory was changed"
    );
    assert!(cluster.messages() == messages, "the stream was changed");
}

#[test]
fn a_stream_restored_from_earlier_has_lost_what_was_acknowledged() {
    let Some((cluster, world)) = stopped() else {
        return;
    };
    let messages = cluster.messages();
    cluster.replace(&messages[..3]);
    assert_refused(
        &cluster,
        &world,
        3,
        &["position 6", "has lost what was acknowledged"],
    );
    cluster.replace(&[]);
    assert_refused(&cluster, &world, 3, &["position 6", "ends at position 0"]);
    // The whole of it is taken again.
    cluster.replace(&messages);
    let server = cluster.serve(&world);
    ask_for(&world, &server, 6..8);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_writer_ends_and_writes_nothing_when_its_stream_is_restored() {
    let Some((cluster, world, server)) = Cluster::with_writer(6) else {
        return;
    };
    let messages = cluster.messages();
    cluster.replace(&messages[..3]);
    assert_eq!(server.ended_within(PATIENCE), Some(3));
    assert!(
        cluster.messages() == messages[..3],
        "the stream was changed"
    );
    assert_refused(&cluster, &world, 3, &["has lost what was acknowledged"]);
}

/// The messages, with one bit of the fourth altered.
fn altered(messages: &[Bytes]) -> Vec<Bytes> {
    let mut altered = messages.to_vec();
    let mut bytes = altered[3].to_vec();
    bytes[100] ^= 1;
    altered[3] = bytes.into();
    altered
}

#[test]
fn an_interrupted_first_start_leaves_a_copy_to_which_nothing_else_writes() {
    let Some((cluster, world)) = stopped() else {
        return;
    };
    let messages = cluster.messages();
    // It ends in the middle.
    cluster.replace(&altered(&messages));
    let begun = world.path("begun");
    let (code, said) = start_refused(&cluster, &world, &begun);
    assert_eq!(code, Some(3), "{said}");
    let facts = world.path("facts");
    std::fs::write(&facts, "").unwrap();
    let [data, facts] = [&begun, &facts].map(|path| path.to_str().unwrap());
    let (code, _, said) = crate::support::run(&["facts", "load", facts, "--data", data]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("is the copy of the journal CAREBOOK_tests"),
        "{said}"
    );
    // Where nothing came after the mark, or not even all of that, it begins as in an empty directory.
    let marked = world.path("marked");
    std::fs::create_dir(&marked).unwrap();
    std::fs::set_permissions(&marked, Permissions::from_mode(0o700)).unwrap();
    std::fs::write(marked.join("journal"), "CAREBOOK_tests\n").unwrap();
    std::fs::write(marked.join("journal.carebook-new"), "CAREB").unwrap();
    cluster.replace(&messages);
    for (data, numbers) in [(&begun, 6..7), (&marked, 7..8)] {
        let server = Server::spawn(cluster.command(&world, data));
        ask_for(&world, &server, numbers);
        assert_eq!(server.stop(), Some(0));
        cluster.verify(data);
    }
}

#[test]
fn a_stream_restored_from_earlier_and_written_on_is_another_history() {
    let Some((cluster, world)) = stopped() else {
        return;
    };
    let messages = cluster.messages();
    cluster.replace(&messages[..3]);
    let server = Server::spawn(cluster.command(&world, &world.path("other")));
    ask_for(&world, &server, 10..20);
    assert_eq!(server.stop(), Some(0));
    assert_refused(&cluster, &world, 3, &["another record at position 6"]);
}

#[test]
fn a_damaged_directory_is_refused_and_an_empty_one_filled_from_the_stream() {
    let Some((cluster, world)) = stopped() else {
        return;
    };
    let manifest = world.data().join("manifest");
    let mut bytes = std::fs::read(&manifest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&manifest, bytes).unwrap();
    let told = "move the directory away and start with an empty one";
    assert_refused(&cluster, &world, 3, &["the log is damaged: ", told]);
    let (_, said) = start_refused(&cluster, &world, &world.data());
    for elsewhere in ["restore a backup", "carebook recover"] {
        assert!(!said.contains(elsewhere), "{said}");
    }
    std::fs::rename(world.data(), world.path("damaged")).unwrap();
    let server = cluster.serve(&world);
    ask_for(&world, &server, 0..8);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(cluster.verify(&world.data())["records"], 8);
}

#[test]
fn a_stream_of_another_service_is_refused() {
    let Some((cluster, world)) = stopped() else {
        return;
    };
    cluster.replace(&[]);
    let empty = world.path("empty");
    let (code, said) = start_refused(&cluster, &world, &empty);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("has no message"), "{said}");
    let (code, _, errors) = cluster.journal("create", &["--max-bytes", &ROOMY.to_string()]);
    assert_eq!(code, Some(0), "{errors}");
    let server = Server::spawn(cluster.command(&world, &world.path("other")));
    ask_for(&world, &server, 0..9);
    assert_eq!(server.stop(), Some(0));
    assert_refused(&cluster, &world, 3, &["another service"]);
}

#[test]
fn a_gap_an_altered_message_and_a_broken_chain_are_refused_by_their_place() {
    let Some((cluster, world)) = stopped() else {
        return;
    };
    let whole = cluster.messages();
    let altered = altered(&whole);
    let mut left_out = whole.clone();
    left_out.remove(3);
    let mut doubled = whole.clone();
    doubled.insert(4, whole[3].clone());
    let foreign = |bytes: &'static [u8]| [&whole[..], &[Bytes::from_static(bytes)]].concat();
    // A directory that has nothing reads all of it.
    let empty = world.path("empty");
    for (what, messages, words) in [
        ("altered", altered, "message 4"),
        ("left out", left_out, "message 4"),
        ("doubled", doubled, "message 5"),
        (
            "foreign",
            foreign(b"something else"),
            "no message of a journal",
        ),
        ("empty", foreign(b""), "no message of a journal"),
    ] {
        cluster.replace(&messages);
        let (code, said) = start_refused(&cluster, &world, &empty);
        assert_eq!(code, Some(3), "{what}: {said}");
        assert!(said.contains(words), "{what}: {said}");
        assert_eq!(cluster.messages().len(), messages.len(), "{what}");
        let (code, _, said) = cluster.journal("verify", &[]);
        assert_eq!(code, Some(3), "{what}: {said}");
        let _ = std::fs::remove_dir_all(&empty);
    }
    // A message that is gone from within, and one from the beginning.
    cluster.replace(&whole);
    cluster.with(async |context| {
        let mut stream = context.get_stream(STREAM).await?;
        let mut config = stream.info().await?.config.clone();
        context.delete_stream(STREAM).await?;
        config.deny_delete = false;
        context.create_stream(config).await?;
        Ok(())
    });
    whole
        .iter()
        .for_each(|message| cluster.publish(message.clone()));
    cluster.with(async |context| {
        context.get_stream(STREAM).await?.delete_message(4).await?;
        Ok(())
    });
    cluster.change(&json!({"deny_delete": true}));
    let (code, said) = start_refused(&cluster, &world, &empty);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("message 4 is missing"), "{said}");
    cluster.with(async |context| {
        let stream = context.get_stream(STREAM).await?;
        stream.purge().sequence(3).await?;
        Ok(())
    });
    let (code, said) = start_refused(&cluster, &world, &world.data());
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("message 1 is missing"), "{said}");
}

#[test]
fn settings_that_a_stream_was_made_with_are_refused_by_their_names() {
    let Some((cluster, world)) = stopped() else {
        return;
    };
    let files = content(&world.data());
    let right = cluster.config();
    for (name, weak) in [
        ("storage", json!("memory")),
        ("retention", json!("interest")),
        ("deny_delete", json!(false)),
        ("allow_rollup_hdrs", json!(true)),
        ("allow_msg_ttl", json!(true)),
        ("no_ack", json!(true)),
        ("max_msgs_per_subject", json!(1_000)),
        ("deny_purge", json!(true)),
        ("sources", json!([{"name": "another"}])),
        ("republish", json!({"src": "carebook.>", "dest": "told.>"})),
    ] {
        let mut config = right.clone();
        config[name] = weak;
        cluster.make(&config);
        let (ended, said) = start_refused(&cluster, &world, &world.data());
        assert_eq!(ended, Some(1), "{name}: {said}");
        assert!(said.contains(name), "{name}: {said}");
        assert!(said.contains("could lose acknowledged commits"), "{said}");
        let (code, out, said) = cluster.journal("status", &["--json"]);
        assert_eq!(code, Some(1), "{name}: {said}");
        assert!(
            out.contains(name) || said.contains(name),
            "{name}: {out}{said}"
        );
    }
    // Every start writes its name into the lock.
    let without_lock = |files: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
        let is_lock = |path: &std::path::Path| path.ends_with("lock") || path.ends_with("LOCK");
        files
            .into_iter()
            .filter(|(path, _)| !is_lock(path))
            .collect()
    };
    assert!(without_lock(content(&world.data())) == without_lock(files));
}

#[test]
fn weaker_settings_are_refused_by_their_names() {
    let Some((cluster, world)) = stopped() else {
        return;
    };
    for (name, weak, right) in [
        ("discard", json!("old"), json!("new")),
        ("max_age", json!(3_600_000_000_000_u64), json!(0)),
        ("max_bytes", json!(-1), json!(ROOMY)),
        ("max_msgs", json!(1_000_000), json!(-1)),
        ("max_msg_size", json!(600), json!(-1)),
        ("allow_direct", json!(true), json!(false)),
        (
            "duplicate_window",
            json!(1_000_000_000),
            json!(120_000_000_000_u64),
        ),
        (
            "subjects",
            json!(["carebook.journal.tests", "x"]),
            json!(["carebook.journal.tests"]),
        ),
    ] {
        cluster.change(&json!({name: weak}));
        assert_refused(
            &cluster,
            &world,
            1,
            &[name, "could lose acknowledged commits"],
        );
        let (code, out, said) = cluster.journal("status", &["--json"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(out.contains(name), "{out}");
        cluster.change(&json!({name: right}));
    }
    // Fewer copies than are asked for.
    let mut command = cluster.command(&world, &world.data());
    command.args(["--journal-replicas", "3"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "a flag that is given twice");
    let url = cluster.url();
    let (code, _, said) = crate::support::run(&[
        "journal",
        "status",
        "--journal",
        &url,
        "--journal-name",
        "tests",
    ]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("num_replicas is 1, and has to be 3 or more"),
        "{said}"
    );
    let (code, _, said) = crate::support::run(&[
        "journal",
        "status",
        "--journal",
        &url,
        "--journal-name",
        "nothing",
    ]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no stream CAREBOOK_nothing"), "{said}");
    let server = cluster.serve(&world);
    ask_for(&world, &server, 6..8);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_max_payload_below_the_stream_s_message_size_is_refused_by_name() {
    let Some((mut cluster, world)) = stopped() else {
        return;
    };
    cluster.restart_with(0, "max_payload", 1 << 19);
    let words = [
        "max_payload is 524288",
        "has to be 1048576 or more",
        "or refuse new ones",
        "max_payload of each server",
    ];
    assert_refused(&cluster, &world, 1, &words);
    let (code, out, said) = cluster.journal("status", &["--json"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(out.contains("max_payload is 524288"), "{out}");
    let (code, _, said) = cluster.journal("create", &["--max-bytes", &ROOMY.to_string()]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("max_payload is 524288"), "{said}");
    cluster.restart_with(0, "max_payload", 1 << 20);
    let server = cluster.serve(&world);
    ask_for(&world, &server, 6..8);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_bucket_of_the_lease_that_is_kept_in_memory_is_refused() {
    let Some((cluster, world)) = stopped() else {
        return;
    };
    let bucket = "KV_CAREBOOK_LEASE_tests";
    let keep_in = |storage| {
        cluster.with(async |context| {
            let mut config = context
                .get_stream(bucket)
                .await?
                .info()
                .await?
                .config
                .clone();
            context.delete_stream(bucket).await?;
            config.storage = storage;
            context.create_stream(config).await?;
            Ok(())
        });
    };
    keep_in(StorageType::Memory);
    let words = [bucket, "storage is memory, and has to be file"];
    assert_refused(&cluster, &world, 1, &words);
    keep_in(StorageType::File);
    let server = cluster.serve(&world);
    ask_for(&world, &server, 6..8);
    assert_eq!(server.stop(), Some(0));
}
