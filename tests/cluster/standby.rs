//! Nodes that follow: what they answer while another one writes, and who takes over from whom.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Cluster, PATIENCE, STREAM, ask, ask_for, start_refused, until};
use crate::support::{Answer, Client, Server, World};

/// A node that follows, on a directory of its own; the key of webhooks is the writer's.
pub(super) fn standby(cluster: &Cluster, world: &World, data: &Path) -> Server {
    let mut command = cluster.command(world, data);
    command.arg("--standby");
    command
        .arg("--webhook-key")
        .arg(world.data().join("webhook.key"));
    let server = Server::spawn(command);
    until("it has what was committed", || is_ready(&server));
    server
}

/// As [`Cluster::with_writer`], and a node that follows, on the directory `second`.
#[track_caller]
pub(super) fn followed(commands: usize) -> Option<(Cluster, World, Server, Server)> {
    let (cluster, world, writer) = Cluster::with_writer(commands)?;
    let following = standby(&cluster, &world, &world.path("second"));
    Some((cluster, world, writer, following))
}

pub(super) fn is_ready(server: &Server) -> bool {
    server.client().request("GET", "/readyz", &[], b"").status == 200
}

pub(super) fn is_writer(server: &Server) -> bool {
    server.metric("carebook_role{role=\"writer\"}") == 1.0
}

/// The statements that there are at a position or later.
fn statements(world: &World, client: &mut Client, position: u64) -> Answer {
    let bearer = format!("Bearer {}", world.headquarters());
    let position = position.to_string();
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Carebook-Min-Position", position.as_str()),
    ];
    client.request("GET", "/settlement-statements?limit=500", &headers, b"")
}

pub(super) fn durable(server: &Server) -> u64 {
    // A position is a whole number, and far below 2^53.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let durable = server.metric("carebook_durable_position") as u64;
    durable
}

/// The standby shows what its writer shows, and as many as were asked for.
#[track_caller]
fn assert_follows(world: &World, writer: &Server, standby: &Server, count: usize) {
    let position = durable(writer);
    let theirs = statements(world, &mut writer.client(), position);
    let mut own = None;
    until("it comes to that position", || {
        let answer = statements(world, &mut standby.client(), position);
        // On a busy machine five seconds may be too few.
        let came = answer.status != 503;
        own = Some(answer);
        came
    });
    let own = own.unwrap();
    assert_eq!((theirs.status, own.status), (200, 200), "{own:?}");
    assert_eq!(own.json(), theirs.json());
    assert!(own.position() >= Some(position), "{own:?}");
    assert_eq!(own.json()["items"].as_array().unwrap().len(), count);
}

#[test]
fn a_standby_shows_what_its_writer_has_answered_and_takes_no_command() {
    let Some((cluster, world, writer, following)) = followed(5) else {
        return;
    };
    assert_follows(&world, &writer, &following, 5);
    ask_for(&world, &writer, 5..20);
    assert_follows(&world, &writer, &following, 20);
    assert_eq!(following.metric("carebook_role{role=\"standby\"}"), 1.0);
    until("nothing is missing", || {
        following.metric("carebook_standby_lag_positions") == 0.0
    });
    assert_eq!(ask(&world, &mut following.client(), 20), Some(503));
    // It is killed, misses something, and comes back.
    following.kill();
    ask_for(&world, &writer, 20..40);
    let following = standby(&cluster, &world, &world.path("second"));
    assert_follows(&world, &writer, &following, 40);
    assert_eq!(following.stop(), Some(0));
    assert_eq!(writer.stop(), Some(0));
    cluster.verify(&world.path("second"));
    cluster.verify(&world.data());
}

#[test]
fn a_standby_whose_disk_has_no_room_leaves_the_lease_to_another() {
    let Some((cluster, world, writer)) = Cluster::with_writer(5) else {
        return;
    };
    let full = world.path("full");
    assert_eq!(standby(&cluster, &world, &full).stop(), Some(0));
    // It has all there is, and more than any disk is kept in reserve.
    let mut command = cluster.command(&world, &full);
    command.args(["--standby", "--reserve-bytes", "1152921504606846976"]);
    command
        .arg("--webhook-key")
        .arg(world.data().join("webhook.key"));
    let full = Server::spawn(command);
    until("it follows", || {
        full.metric("carebook_standby_lag_positions") == 0.0
            && full.metric("carebook_role{role=\"standby\"}") == 1.0
    });
    assert_eq!(writer.stop(), Some(0));
    let other = standby(&cluster, &world, &world.path("other"));
    until_taken(&world, &other, 5);
    assert_eq!(full.metric("carebook_role{role=\"standby\"}"), 1.0);
    assert_eq!(full.stop(), Some(0));
    assert_eq!(other.stop(), Some(0));
}

#[test]
fn a_standby_without_its_writer_s_key_of_webhooks_does_not_start() {
    let Some((cluster, world, writer)) = Cluster::with_writer(1) else {
        return;
    };
    let mut command = cluster.command(&world, &world.path("second"));
    let output = command.arg("--standby").output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("put a copy of the writer's there"),
        "{errors}"
    );
    assert_eq!(writer.stop(), Some(0));
}

#[test]
fn a_standby_tells_when_its_key_of_webhooks_is_not_its_writer_s() {
    let Some((cluster, world, writer)) = Cluster::with_writer(1) else {
        return;
    };
    let other = world.path("other.key");
    std::fs::write(&other, "BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n").unwrap();
    std::fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
    let mut command = cluster.command(&world, &world.path("second"));
    command.arg("--standby").arg("--webhook-key").arg(&other);
    let following = Server::spawn(command);
    let differs = |server: &Server| server.metric("carebook_journal_webhook_key_differs");
    until("it has seen the writer's", || differs(&following) == 1.0);
    assert_eq!(differs(&writer), 0.0);
    assert_eq!(following.stop(), Some(0));
    let following = standby(&cluster, &world, &world.path("second"));
    until("it knows where its writer is", || {
        refused(&world, &following)
            .header("carebook-writer")
            .is_some()
    });
    assert_eq!(differs(&following), 0.0);
    assert_eq!(following.stop(), Some(0));
    assert_eq!(writer.stop(), Some(0));
}

/// Asks until the server does it; how long that took.
fn until_taken(world: &World, server: &Server, number: usize) -> Duration {
    let began = Instant::now();
    until("the next one writes", || {
        ask(world, &mut server.client(), number) == Some(201)
    });
    began.elapsed()
}

#[test]
fn a_standby_takes_over_from_a_killed_writer_and_from_one_that_ends() {
    let Some((cluster, world, first)) = Cluster::with_writer(5) else {
        return;
    };
    let second = standby(&cluster, &world, &world.path("second"));
    let third = standby(&cluster, &world, &world.path("third"));
    until("it knows where its writer is", || {
        let answer = refused(&world, &second);
        answer.header("carebook-writer") == Some(&*format!("http://{}", first.address))
    });
    ask_for(&world, &first, 5..10);
    let killed = Instant::now();
    first.kill();
    // Whichever writes: the other one follows.
    until("one of them writes", || {
        is_writer(&second) || is_writer(&third)
    });
    let (writer, following) = match is_writer(&second) {
        true => (second, third),
        false => (third, second),
    };
    until_taken(&world, &writer, 10);
    println!("from the kill to the first answer: {:?}", killed.elapsed());
    ask_for(&world, &writer, 11..20);
    assert_follows(&world, &writer, &following, 20);
    assert!(!is_writer(&following));
    let told = Instant::now();
    writer.signal("TERM");
    until_taken(&world, &following, 20);
    println!(
        "from SIGTERM to the first answer of the next: {:?}",
        told.elapsed()
    );
    assert_eq!(writer.stop(), Some(0));
    // The first one comes back, and follows.
    let first = standby(&cluster, &world, &world.path("data"));
    assert_follows(&world, &following, &first, 21);
    assert_eq!(first.stop(), Some(0));
    assert_eq!(following.stop(), Some(0));
    for name in ["data", "second", "third"] {
        cluster.verify(&world.path(name));
    }
}

#[test]
fn a_standby_leaves_the_lease_while_the_stream_has_a_refused_limit() {
    let Some((cluster, world, writer, following)) = followed(5) else {
        return;
    };
    cluster.change(&json!({"max_msgs": 1_000_000}));
    until("it has seen that", || {
        following.metric("carebook_journal_settings_weak") == 1.0
    });
    // The writer goes on, and gives up its lease when it ends.
    ask_for(&world, &writer, 5..6);
    assert_eq!(writer.stop(), Some(0));
    // A free lease is otherwise taken within a second.
    let ended = Instant::now();
    until("it had its time", || {
        assert_eq!(following.metric("carebook_role{role=\"standby\"}"), 1.0);
        ended.elapsed() > Duration::from_secs(3)
    });
    cluster.change(&json!({"max_msgs": -1}));
    until_taken(&world, &following, 6);
    assert_eq!(following.stop(), Some(0));
    cluster.verify(&world.path("second"));
}

#[test]
fn a_standby_reports_a_server_s_lower_max_payload_as_weak_settings() {
    let Some((mut cluster, _world, writer, following)) = followed(5) else {
        return;
    };
    let is_weak = |server: &Server| server.metric("carebook_journal_settings_weak") == 1.0;
    assert!(!is_weak(&following));
    cluster.restart_with(0, "max_payload", 1 << 19);
    until("it has seen that", || is_weak(&following));
    cluster.restart_with(0, "max_payload", 1 << 20);
    until("it has seen that, too", || !is_weak(&following));
    assert_eq!(following.metric("carebook_role{role=\"standby\"}"), 1.0);
    writer.kill();
    assert_eq!(following.stop(), Some(0));
}

#[test]
fn a_standby_that_finds_nobody_writing_writes() {
    let Some((cluster, world)) = Cluster::with_world() else {
        return;
    };
    std::fs::create_dir(world.data()).unwrap();
    std::fs::set_permissions(world.data(), Permissions::from_mode(0o700)).unwrap();
    let key = world.data().join("webhook.key");
    std::fs::write(&key, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n").unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let first = standby(&cluster, &world, &world.data());
    until("it writes", || is_writer(&first));
    ask_for(&world, &first, 0..3);
    assert_eq!(first.stop(), Some(0));
    cluster.verify(&world.data());
}

/// A command that the node does not take.
fn refused(world: &World, server: &Server) -> Answer {
    let body = world
        .deposit_request("code-refused", "key-refused")
        .to_string();
    let bearer = format!("Bearer {}", world.headquarters());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let path = "/settlement-deposit-requests";
    let answer = server
        .client()
        .request("POST", path, &headers, body.as_bytes());
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.json()["code"], "not_the_writer");
    answer
}

/// A standby that has everything, while whose writer is gone this is done to the journal: how it ends, and
/// what a start on its directory says then.
fn ended_by(done: impl FnOnce(&Cluster)) -> Option<(Option<i32>, String)> {
    let (cluster, world, writer, following) = followed(6)?;
    assert_follows(&world, &writer, &following, 6);
    writer.kill();
    done(&cluster);
    let ended = following.ended_within(PATIENCE);
    let (code, said) = start_refused(&cluster, &world, &world.path("second"));
    assert_eq!(code, Some(3), "{said}");
    Some((ended, said))
}

#[test]
fn a_standby_ends_where_the_journal_has_lost_what_it_has_read() {
    let lost = |cluster: &Cluster| {
        let messages = cluster.messages();
        cluster.replace(&messages[..3]);
    };
    let Some((ended, said)) = ended_by(lost) else {
        return;
    };
    assert_eq!(ended, Some(3));
    assert!(said.contains("has lost what was acknowledged"), "{said}");
}

#[test]
fn a_standby_ends_where_others_have_removed_the_journal_s_beginning() {
    let purged = |cluster: &Cluster| {
        cluster.with(async |context| {
            let stream = context.get_stream(STREAM).await?;
            stream.purge().sequence(3).await?;
            Ok(())
        });
    };
    let Some((ended, said)) = ended_by(purged) else {
        return;
    };
    assert_eq!(ended, Some(3));
    assert!(said.contains("message 1 is missing"), "{said}");
    assert!(said.contains("create --from"), "{said}");
}

#[test]
fn a_standby_ends_where_the_journal_has_become_another_service_s() {
    let Some((ended, said)) = ended_by(Cluster::renew) else {
        return;
    };
    assert_eq!(ended, Some(3));
    assert!(said.contains("another service"), "{said}");
}
