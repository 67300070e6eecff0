//! A writer that is suspended for longer than its lease, and is resumed: what it sends by itself.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use carebook::base::actor::{Actor, ActorKind};
use serde_json::json;

use super::standby::{is_writer, standby};
use super::{Cluster, PATIENCE, until};
use crate::support::{Server, actor};

/// A receiver that takes nothing: its URL, and how many attempts have come to it.
fn unwilling() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(stream);
        }
    });
    (url, came)
}

#[test]
fn a_writer_that_is_resumed_does_not_send_what_its_successor_has_skipped() {
    let Some((cluster, world)) = Cluster::with_world() else {
        return;
    };
    let (url, came) = unwilling();
    let mut command = cluster.command(&world, &world.data());
    command.arg("--receiver").arg(format!("*={url}"));
    let first = Server::spawn(command);
    let second = standby(&cluster, &world, &world.path("second"));
    let operator = world.token(&Actor {
        permissions: vec!["outbox:manage".into()],
        ..actor(ActorKind::SystemWorkflow, "operator-1")
    });
    // Tried once; the next attempt is due before another process can write.
    let created = crate::outbox::create(&mut first.client(), &world, 1);
    assert_eq!(created.status, 202, "{created:?}");
    first.signal("STOP");
    until("the standby writes", || is_writer(&second));
    let before = came.load(Ordering::SeqCst);
    let mut client = second.client();
    let reason = json!({"reason": "Told by phone."});
    let created = created.json();
    for effect in created["sideEffects"].as_array().unwrap() {
        let number = &effect["outboxMessageId"];
        let (path, key) = (format!("/outbox/{number}/skips"), format!("skip-{number}"));
        let skipped = client.post_keyed(&path, &operator, &key, &reason);
        assert_eq!(skipped.status, 200, "{skipped:?}");
    }
    first.signal("CONT");
    assert_eq!(first.ended_within(PATIENCE), Some(5));
    assert_eq!(second.stop(), Some(0));
    assert_eq!(came.load(Ordering::SeqCst), before);
}
