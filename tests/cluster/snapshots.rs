//! Snapshots in the servers' object store: a node with an empty directory begins with one, where it is as
//! it was written, and with the records that the writer's directory had.

use std::path::Path;

use carebook::base::hex::hex;
use serde_json::{Value, json};

use super::proxy::{Fate, Proxy};
use super::standby::{is_ready, standby};
use super::{Cluster, STREAM, ask, ask_for, asked, start_refused, until};
use crate::support::{Server, World, run};

/// The list.
const LIST: &str = "KV_CAREBOOK_SNAPSHOTS_tests";
/// The object store.
const OBJECTS: &str = "OBJ_CAREBOOK_SNAPSHOTS_tests";
const LISTED: &str = "$KV.CAREBOOK_SNAPSHOTS_tests.list";

/// The list, as anybody may read it.
fn list(cluster: &Cluster) -> Value {
    cluster.with(async |context| {
        let Ok(stream) = context.get_stream(LIST).await else {
            return Ok(Value::Null);
        };
        let found = stream.get_last_raw_message_by_subject(LISTED).await;
        Ok(found.map_or(Value::Null, |found| {
            serde_json::from_slice(&found.payload).unwrap()
        }))
    })
}

/// The snapshots in it: the newest first.
fn listed(cluster: &Cluster) -> Vec<Value> {
    let list = list(cluster);
    list["snapshots"].as_array().cloned().unwrap_or_default()
}

/// A writer that keeps of its log only what it has to.
fn writer(cluster: &Cluster, world: &World, data: &Path) -> Server {
    let mut command = cluster.command(world, data);
    command.args(["--log-retention", "0s"]);
    Server::spawn(command)
}

/// A journal of one server, with such a writer.
fn begun() -> Option<(Cluster, World, Server)> {
    let (cluster, world) = Cluster::with_world()?;
    let server = writer(&cluster, &world, &world.data());
    Some((cluster, world, server))
}

/// A snapshot is taken of everything, and put there; up to where it covers.
fn snapshot(cluster: &Cluster, server: &Server) -> u64 {
    let before = listed(cluster);
    let before = before.first().and_then(|one| one["covers"].as_u64());
    server.signal("USR1");
    let mut covers = 0;
    until("the snapshot is listed", || {
        let newest = listed(cluster);
        covers = newest
            .first()
            .map_or(0, |one| one["covers"].as_u64().unwrap());
        before != Some(covers) && covers > 0
    });
    // What else is to be done is done, too.
    until("the writer is ready with it", || {
        server.metric("carebook_journal_snapshot_position") == covers as f64
    });
    covers
}

/// What `carebook verify` says of a directory.
fn verified(data: &Path) -> Value {
    let (code, told, said) = run(&["verify", "--json", "--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    serde_json::from_str(&told).unwrap()
}

/// All commands were carried out, and are repeated as they were answered.
fn has(world: &World, server: &Server, numbers: std::ops::Range<usize>) {
    let mut client = server.client();
    for number in numbers {
        assert_eq!(ask(world, &mut client, number), Some(201), "{number}");
    }
}

/// The bytes of one part of an object are others, of the same length.
fn damage(cluster: &Cluster, object: &Value) {
    cluster.with(async |context| {
        let store = context.get_object_store("CAREBOOK_SNAPSHOTS_tests").await?;
        let name = object["object"].as_str().unwrap();
        let mut bytes = Vec::new();
        {
            use tokio::io::AsyncReadExt as _;
            store.get(name).await?.read_to_end(&mut bytes).await?;
        }
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        store.put(name, &mut bytes.as_slice()).await?;
        Ok(())
    });
}

#[test]
fn an_empty_directory_begins_with_the_newest_snapshot_and_what_came_after() {
    let Some((cluster, world, first)) = begun() else {
        return;
    };
    ask_for(&world, &first, 0..20);
    assert_eq!(snapshot(&cluster, &first), 20);
    ask_for(&world, &first, 20..40);
    assert_eq!(snapshot(&cluster, &first), 40);
    ask_for(&world, &first, 40..45);
    // A standby begins with it beside its writer.
    let second = standby(&cluster, &world, &world.path("second"));
    assert!(is_ready(&second));
    assert_eq!(second.stop(), Some(0));
    let told = verified(&world.path("second"));
    assert_eq!(told["lastPosition"], 45, "{told}");
    assert_eq!(told["snapshots"][0]["covers"], 40, "{told}");
    let own = listed(&cluster);
    assert_eq!(told["firstPosition"], own[0]["first"], "{told}");
    // So does a writer, which has the same commands.
    assert_eq!(first.stop(), Some(0));
    let third = writer(&cluster, &world, &world.path("third"));
    has(&world, &third, 0..45);
    ask_for(&world, &third, 45..50);
    assert_eq!(snapshot(&cluster, &third), 50);
    assert_eq!(third.stop(), Some(0));
    let told = cluster.verify(&world.path("third"));
    assert_eq!(told["lastPosition"], 50, "{told}");
    // Two are kept, and nothing else.
    let kept = listed(&cluster);
    let covers: Vec<_> = kept
        .iter()
        .map(|one| one["covers"].as_u64().unwrap())
        .collect();
    assert_eq!(covers, [50, 40]);
    assert_eq!(objects(&cluster).len(), 2);
}

/// The names of the parts that are there.
fn parts(cluster: &Cluster) -> Vec<String> {
    cluster.with(async |context| {
        let all = json!({"subjects_filter": "$O.CAREBOOK_SNAPSHOTS_tests.C.>"});
        let info = asked(&context, &format!("STREAM.INFO.{OBJECTS}"), &all).await?;
        let subjects = info["state"]["subjects"].as_object().cloned();
        Ok(subjects.unwrap_or_default().keys().cloned().collect())
    })
}

/// The names of the objects.
fn objects(cluster: &Cluster) -> Vec<String> {
    cluster.with(async |context| {
        use futures_util::StreamExt as _;
        let store = context.get_object_store("CAREBOOK_SNAPSHOTS_tests").await?;
        let mut list = store.list().await?;
        let mut names = Vec::new();
        while let Some(object) = list.next().await {
            names.push(object?.name);
        }
        Ok(names)
    })
}

#[test]
fn a_damaged_or_missing_snapshot_gives_way_to_an_older_one_or_the_stream() {
    let Some((cluster, world, server)) = begun() else {
        return;
    };
    ask_for(&world, &server, 0..10);
    snapshot(&cluster, &server);
    ask_for(&world, &server, 10..30);
    snapshot(&cluster, &server);
    ask_for(&world, &server, 30..33);
    assert_eq!(server.stop(), Some(0));
    let own = listed(&cluster);
    let begin = |name: &str| {
        let server = writer(&cluster, &world, &world.path(name));
        has(&world, &server, 0..33);
        assert_eq!(server.stop(), Some(0));
        let told = verified(&world.path(name));
        assert_eq!(told["lastPosition"], 33, "{told}");
        told["snapshots"][0]["covers"].as_u64()
    };
    assert_eq!(begin("good"), Some(30));
    damage(&cluster, &own[0]);
    assert_eq!(begin("newest-damaged"), Some(10));
    cluster.with(async |context| {
        let store = context.get_object_store("CAREBOOK_SNAPSHOTS_tests").await?;
        store.delete(own[1]["object"].as_str().unwrap()).await?;
        Ok(())
    });
    assert_eq!(begin("none-is-good"), None);
    // A list that is none is no reason not to start.
    cluster.with(async |context| {
        context.publish(LISTED, "{".into()).await?.await?;
        Ok(())
    });
    assert_eq!(begin("no-list"), None);
}

#[test]
fn leftovers_of_an_interruption_count_for_nothing_and_are_removed() {
    let Some((cluster, world, server)) = begun() else {
        return;
    };
    ask_for(&world, &server, 0..10);
    snapshot(&cluster, &server);
    // Parts of an object without its name, and an object that is not listed.
    cluster.with(async |context| {
        let part = "$O.CAREBOOK_SNAPSHOTS_tests.C.neverfinished";
        context.publish(part, "some bytes".into()).await?.await?;
        let store = context.get_object_store("CAREBOOK_SNAPSHOTS_tests").await?;
        store.put("not-listed", &mut &b"some bytes"[..]).await?;
        Ok(())
    });
    assert_eq!((parts(&cluster).len(), objects(&cluster).len()), (3, 2));
    ask_for(&world, &server, 10..20);
    snapshot(&cluster, &server);
    assert_eq!(objects(&cluster).len(), 2);
    // What has no name may be on its way: it is removed when it is there still with the next one.
    assert_eq!(parts(&cluster).len(), 3);
    ask_for(&world, &server, 20..25);
    snapshot(&cluster, &server);
    assert_eq!((parts(&cluster).len(), objects(&cluster).len()), (2, 2));
    assert_eq!(server.stop(), Some(0));
    // A directory in which a beginning was interrupted: with the file that came, and with parts of a log.
    let data = world.path("interrupted");
    let complete = writer(&cluster, &world, &data);
    assert_eq!(complete.stop(), Some(0));
    std::fs::remove_file(data.join("manifest")).unwrap();
    std::fs::write(data.join("carried"), "half of it").unwrap();
    let again = writer(&cluster, &world, &data);
    has(&world, &again, 0..25);
    assert_eq!(again.stop(), Some(0));
    assert!(!data.join("carried").exists());
    assert_eq!(verified(&data)["snapshots"][0]["covers"], 25);
}

#[test]
fn a_stream_that_has_less_than_a_snapshot_has_lost_what_was_acknowledged() {
    let Some((cluster, world, server)) = begun() else {
        return;
    };
    ask_for(&world, &server, 0..4);
    let behind = standby(&cluster, &world, &world.path("behind"));
    assert!(is_ready(&behind));
    assert_eq!(behind.stop(), Some(0));
    ask_for(&world, &server, 4..10);
    snapshot(&cluster, &server);
    assert_eq!(server.stop(), Some(0));
    let whole = cluster.messages();
    let list = list(&cluster);
    // Neither who has nothing nor who has less begins a second history.
    cluster.replace(&whole[..whole.len() - 2]);
    let refused = |names: &[&str], words: &str| {
        for name in names {
            let mut command = cluster.command(&world, &world.path(name));
            command.arg("--standby").arg("--webhook-key");
            command.arg(world.data().join("webhook.key"));
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{name}: {said}");
            assert!(said.contains(words), "{name}: {said}");
        }
        assert!(!world.path("empty").join("manifest").exists());
    };
    refused(&["empty", "behind"], "has lost what was acknowledged");
    // With an empty list a server starts all the same.
    relist(
        &cluster,
        &json!({"form": 1, "snapshots": [], "purged": null}),
    );
    let server = writer(&cluster, &world, &world.path("behind"));
    ask_for(&world, &server, 20..30);
    assert_eq!(server.stop(), Some(0));
    // A directory that was ahead, and all of whose records a snapshot covers, is rejected for that.
    let (code, said) = start_refused(&cluster, &world, &world.data());
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("another record at position 10"), "{said}");
    relist(&cluster, &list);
    refused(
        &["empty", "behind"],
        "is of another history than the journal",
    );
    cluster.replace(&whole);
    let server = writer(&cluster, &world, &world.data());
    has(&world, &server, 0..10);
    assert_eq!(server.stop(), Some(0));
}

/// The first and the last sequence of the stream.
fn sequences(cluster: &Cluster) -> (u64, u64) {
    cluster.with(async |context| {
        let mut stream = context.get_stream(STREAM).await?;
        let state = stream.info().await?.state.clone();
        Ok((state.first_sequence, state.last_sequence))
    })
}

/// A journal with two snapshots, up to 20 and up to 40 of 45 commands; its writer has ended.
fn purged() -> Option<(Cluster, World)> {
    let (cluster, world, server) = begun()?;
    ask_for(&world, &server, 0..20);
    assert_eq!(snapshot(&cluster, &server), 20);
    assert_eq!(sequences(&cluster).0, 1, "with one snapshot nothing goes");
    // A node that goes no further than this.
    let early = standby(&cluster, &world, &world.path("early"));
    assert!(is_ready(&early));
    assert_eq!(early.stop(), Some(0));
    // Each start begins a part of the log, which is what a directory does not keep.
    assert_eq!(server.stop(), Some(0));
    let server = writer(&cluster, &world, &world.data());
    ask_for(&world, &server, 20..40);
    assert_eq!(snapshot(&cluster, &server), 40);
    until("the stream is purged", || sequences(&cluster).0 > 1);
    ask_for(&world, &server, 40..45);
    assert_eq!(server.stop(), Some(0));
    Some((cluster, world))
}

#[test]
fn messages_covered_by_two_snapshots_are_purged_and_new_nodes_have_all() {
    let Some((cluster, world)) = purged() else {
        return;
    };
    // What comes after the older one stays.
    let list = list(&cluster);
    let (first, _) = sequences(&cluster);
    assert_eq!(list["purged"]["sequence"], first - 1);
    assert_eq!(list["purged"]["nextPosition"], 20, "{list}");
    let told = cluster.status();
    assert_eq!(told["firstPosition"], 20, "{told}");
    assert_eq!(told["snapshots"][1]["covers"], 20, "{told}");
    // A node that has everything, and one that has nothing.
    for (data, commands) in [(world.data(), 45..47), (world.path("empty"), 47..49)] {
        let server = writer(&cluster, &world, &data);
        has(&world, &server, 0..45);
        ask_for(&world, &server, commands);
        assert_eq!(server.stop(), Some(0));
        let told = cluster.verify(&data);
        assert_eq!(told["firstPosition"], 20, "{told}");
        assert_eq!(told["snapshots"], 2, "{told}");
    }
    // One that has only the older snapshot to begin with.
    damage(&cluster, &listed(&cluster)[0]);
    let (code, _, said) = cluster.journal("verify", &[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("the snapshot up to position 40"), "{said}");
    let data = world.path("older");
    let server = writer(&cluster, &world, &data);
    has(&world, &server, 0..49);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(verified(&data)["snapshots"][0]["covers"], 20);
    // And none: nothing is begun that would lack what was purged.
    damage(&cluster, &listed(&cluster)[1]);
    let data = world.path("none");
    let (code, said) = start_refused(&cluster, &world, &data);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("begins at position 20"), "{said}");
    assert!(!data.join("manifest").exists());
    // The next writer that has everything puts two good ones there again.
    let server = writer(&cluster, &world, &world.data());
    ask_for(&world, &server, 49..50);
    assert_eq!(snapshot(&cluster, &server), 50);
    let standby = standby(&cluster, &world, &data);
    assert!(is_ready(&standby));
    assert_eq!(standby.stop(), Some(0));
    assert_eq!(server.stop(), Some(0));
    assert_eq!(listed(&cluster).len(), 1, "the damaged ones are not listed");
    assert_eq!(sequences(&cluster).0, first, "with one nothing goes");
}

#[test]
fn a_directory_that_was_away_for_too_long_is_refused_and_begins_anew() {
    let Some((cluster, world)) = purged() else {
        return;
    };
    let mut command = cluster.command(&world, &world.path("early"));
    command.args(["--log-retention", "0s"]);
    // It ends with the last position that was purged, so nothing shows that it is of this history.
    let writing = writer(&cluster, &world, &world.data());
    assert_eq!(snapshot_after(&cluster, &world, &writing, 45..60), 60);
    until("more is purged", || {
        list(&cluster)["purged"]["nextPosition"] == 21
    });
    assert_eq!(writing.stop(), Some(0));
    let files = super::content(&world.path("early"));
    let (code, said) = start_refused(&cluster, &world, &world.path("early"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("ends at position 20"), "{said}");
    assert!(said.contains("begins at position 21"), "{said}");
    let without_lock = |files: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
        let is_lock = |path: &Path| path.to_str().unwrap().to_lowercase().ends_with("lock");
        files
            .into_iter()
            .filter(|(path, _)| !is_lock(path))
            .collect()
    };
    assert!(without_lock(files) == without_lock(super::content(&world.path("early"))));
    std::fs::rename(world.path("early"), world.path("away")).unwrap();
    let server = Server::spawn(command);
    has(&world, &server, 0..60);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_standby_cut_off_until_what_it_lacks_is_purged_ends_with_the_reason() {
    let Some((cluster, world, mut server)) = begun() else {
        return;
    };
    assert_eq!(snapshot_after(&cluster, &world, &server, 0..10), 10);
    let own = cluster.nodes[0].port();
    let proxy = Proxy::to(own, |_| Fate::Passes);
    let mut command = crate::support::carebook();
    let through = proxy.port.to_string();
    let all = cluster.command(&world, &world.path("second"));
    command.args(all.get_args().map(|argument| {
        let argument = argument.to_str().unwrap();
        argument.replace(&format!(":{own}"), &format!(":{through}"))
    }));
    command.arg("--standby");
    let key = world.data().join("webhook.key");
    command.arg("--webhook-key").arg(key);
    let mut second = Server::spawn(command);
    until("it has what was committed", || is_ready(&second));
    proxy.refuse(true);
    for round in 1..4 {
        assert_eq!(server.stop(), Some(0));
        server = writer(&cluster, &world, &world.data());
        let commands = 10 * round..10 * (round + 1);
        snapshot_after(&cluster, &world, &server, commands);
    }
    until("it is purged", || {
        list(&cluster)["purged"]["nextPosition"].as_u64() > Some(11)
    });
    assert_eq!(second.has_ended(), None);
    proxy.refuse(false);
    assert_eq!(second.ended_within(crate::support::PATIENCE), Some(1));
    assert_eq!(server.stop(), Some(0));
}

/// Commands, and a snapshot of them.
fn snapshot_after(
    cluster: &Cluster,
    world: &World,
    server: &Server,
    numbers: std::ops::Range<usize>,
) -> u64 {
    ask_for(world, server, numbers);
    snapshot(cluster, server)
}

#[test]
fn a_purged_stream_that_has_lost_more_is_refused() {
    let Some((cluster, world)) = purged() else {
        return;
    };
    let refused = |what: &str, words: &str| {
        for data in [world.data(), world.path("empty")] {
            let (code, said) = start_refused(&cluster, &world, &data);
            assert_eq!(code, Some(3), "{what}: {said}");
            assert!(said.contains(words), "{what}: {said}");
        }
        let (code, _, said) = cluster.journal("verify", &[]);
        assert_eq!(code, Some(3), "{what}: {said}");
        assert!(said.contains(words), "{what}: {said}");
    };
    let (first, last) = sequences(&cluster);
    // The first message that is left is checked against the last one that went.
    let good = list(&cluster);
    let mut other = good.clone();
    other["purged"]["digest"] = json!("00".repeat(32));
    relist(&cluster, &other);
    refused("another list", &format!("at message {first}"));
    // The list is of a stream that went further.
    other = good.clone();
    other["purged"]["sequence"] = json!(last + 1);
    relist(&cluster, &other);
    refused("behind its list", "has lost what was acknowledged");
    // It is lost, or an older one.
    other["purged"] = Value::Null;
    relist(&cluster, &other);
    refused("an older list", "message 1 is missing");
    relist(&cluster, &good);
    // More is purged from outside.
    cluster.with(async |context| {
        let stream = context.get_stream(STREAM).await?;
        stream.purge().sequence(first + 2).await?;
        Ok(())
    });
    refused("more is gone", &format!("message {first} is missing"));
}

/// Replaces the current list.
fn relist(cluster: &Cluster, list: &Value) {
    cluster.with(async |context| {
        context
            .publish(LISTED, list.to_string().into())
            .await?
            .await?;
        Ok(())
    });
}

#[test]
fn an_interrupted_purge_hinders_no_start_and_is_done_at_the_next_snapshot() {
    let Some((cluster, world, server)) = begun() else {
        return;
    };
    assert_eq!(snapshot_after(&cluster, &world, &server, 0..20), 20);
    assert_eq!(server.stop(), Some(0));
    // The list says where it would begin, and the messages are there still.
    let messages = cluster.messages();
    let ends = &messages[4];
    let number = |at: usize| u64::from_le_bytes(ends[at..at + 8].try_into().unwrap());
    let count = u64::from(u32::from_le_bytes(ends[40..44].try_into().unwrap()));
    let mut list = list(&cluster);
    list["purged"] = json!({
        "logId": hex(&ends[8..24]),
        "sequence": 5,
        "epoch": number(24),
        "nextPosition": number(32) + count,
        "digest": hex(&ends[ends.len() - 32..]),
        "fence": 2,
    });
    relist(&cluster, &list);
    assert_eq!(sequences(&cluster).0, 1);
    for data in [world.data(), world.path("empty")] {
        let server = writer(&cluster, &world, &data);
        has(&world, &server, 0..20);
        until("what is listed is purged", || sequences(&cluster).0 == 6);
        assert_eq!(server.stop(), Some(0));
        cluster.verify(&data);
    }
}

#[test]
fn nothing_is_purged_that_the_retention_keeps() {
    let Some((cluster, world)) = Cluster::with_world() else {
        return;
    };
    let server = Server::spawn(cluster.command(&world, &world.data()));
    for number in 0..3 {
        let commands = 10 * number..10 * (number + 1);
        snapshot_after(&cluster, &world, &server, commands);
    }
    assert_eq!(server.stop(), Some(0));
    assert_eq!(listed(&cluster).len(), 2);
    assert_eq!(sequences(&cluster).0, 1);
    assert_eq!(list(&cluster)["purged"], Value::Null);
}
