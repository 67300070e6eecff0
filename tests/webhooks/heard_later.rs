//! What the dispatcher hears of when more has happened since: here it begins when the test says so.

use std::sync::Arc;

use carebook::cli::runtime::on_lane;
use wal::storage::sim::SimDisk;

use super::*;
use crate::support::frames;
use crate::support::gated::{Gate, OpenInTheEnd};
use crate::support::inside::{Inside, Wanted};

#[test]
fn events_before_the_first_change_of_types_match_those_of_the_creation() {
    heard_of_later(false);
}

#[test]
fn while_the_log_is_unreadable_events_wait_for_the_types_of_their_time() {
    heard_of_later(true);
}

/// Makes every record of the log unreadable, and readable again.
fn flip(disk: &SimDisk) {
    let names = disk.names().into_iter();
    // One that is being made has another name soon, and no record.
    for name in names.filter(|name| name.starts_with("segment-") && name.ends_with(".log")) {
        for (begin, end) in frames(&disk.bytes(&name).unwrap()) {
            // Behind the header, before the last zeros.
            if begin + 80 < end {
                disk.flip(&name, begin + 80, 1);
            }
        }
    }
}

fn heard_of_later(is_unreadable_at_first: bool) {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    let token = manager(&world);
    let send = async |method, path: &str, key: &str, body| {
        let answer = inside
            .send_json(method, path, &token, key, Some(body))
            .await;
        assert!(answer.status < 300, "{answer:?}");
        answer.json()
    };
    on_lane(inside.engine(), async {
        let put = async |revision| {
            let facts = json!({"facts": [fact("a", revision)]});
            let put = send("POST", "/reference-facts", "-", facts).await;
            assert_eq!(put["applied"], 1, "{put}");
        };
        let types = ["carebook.reference-fact.*"];
        let body = json!({"url": "https://receiver.invalid/", "types": types, "description": null});
        let subscription = send("POST", SUBSCRIPTIONS, "create", body).await;
        put(1).await;
        for (revision, is_wanted) in [(1, false), (2, true), (3, false)] {
            let types = [if is_wanted {
                types[0]
            } else {
                "carebook.branch.*"
            }];
            let body = json!({"expectedRevision": revision, "types": types});
            let key = format!("change-{revision}");
            send("PATCH", &path_of(&subscription), &key, body).await;
            put(revision + 1).await;
        }
        let calls = inside.disk.all_calls();
        if is_unreadable_at_first {
            flip(&inside.disk);
        }
        let deliveries = tokio::spawn(inside.deliveries.lock().take().unwrap());
        let sent = || {
            let sent = inside.receivers.sent().into_iter();
            let events = sent.map(|one| serde_json::from_slice::<Value>(&one.body).unwrap());
            let revisions = events.map(|event| event["data"]["revision"].as_i64().unwrap());
            revisions.collect::<Vec<_>>()
        };
        let started = Instant::now();
        if is_unreadable_at_first {
            while inside.disk.all_calls() == calls {
                assert!(started.elapsed() < PATIENCE, "nothing is read");
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            // Nothing is sent by what is known without the log, however long that takes.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            assert!(sent().is_empty(), "{:?}", sent());
            flip(&inside.disk);
        }
        while sent().last() != Some(&3) {
            assert!(started.elapsed() < PATIENCE, "{:?}", sent());
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        deliveries.abort();
        assert_eq!(sent(), [1, 3]);
    })
    .unwrap();
}

/// The record of where a subscription begins is on its way when the service is told to stop, and the
/// disk takes longer than a stop waits.
#[test]
fn a_stop_records_what_was_brought_while_a_record_is_on_its_way() {
    let world = World::new();
    let gate: Arc<Gate> = Arc::default();
    let wanted = Wanted {
        gate: Arc::clone(&gate),
        ..Wanted::default()
    };
    let disk = wanted.disk.clone();
    let inside = Inside::start(&world, wanted);
    let _open = OpenInTheEnd(Arc::clone(&gate));
    let token = manager(&world);
    let types = ["carebook.reference-fact.*"];
    let body = json!({"url": "https://receiver.invalid/", "types": types, "description": null});
    let subscription = on_lane(inside.engine(), async {
        let send = async |path: &str, key: &str, body| {
            let sent = inside.send_json("POST", path, &token, key, Some(body));
            let answer = sent.await;
            assert!(answer.status < 300, "{answer:?}");
            answer.json()
        };
        let subscription = send(SUBSCRIPTIONS, "create", body).await;
        send("/reference-facts", "-", json!({"facts": [fact("a", 1)]})).await;
        gate.set(true);
        let deliveries = tokio::spawn(inside.deliveries.lock().take().unwrap());
        let started = Instant::now();
        // It is refused until it is dead.
        while !inside
            .dispatcher
            .figures()
            .iter()
            .any(|one| one.failures == 10)
        {
            assert!(
                started.elapsed() < PATIENCE,
                "{:?}",
                inside.dispatcher.figures()
            );
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        inside.dispatcher.stop().await;
        deliveries.abort();
        subscription
    })
    .unwrap();
    gate.set(false);
    inside.engine().shut_down().unwrap();
    drop(inside);
    let again = Inside::start(
        &world,
        Wanted {
            disk: disk.after_kill(),
            ..Wanted::default()
        },
    );
    let path = path_of(&subscription);
    let read = on_lane(
        again.engine(),
        again.send_json("GET", &path, &token, "-", None),
    );
    let read = read.unwrap().json();
    assert_eq!(
        (&read["waiting"], &read["dead"]),
        (&json!(0), &json!(1)),
        "{read}"
    );
}

/// Over HTTP/2 a client that resets its stream drops the future that answers it.
#[test]
fn a_subscription_whose_client_left_before_its_commit_gets_its_events() {
    let world = World::new();
    let (inside, gate, _open) = Inside::gated(&world);
    let token = manager(&world);
    let types = ["carebook.reference-fact.*"];
    let body = json!({"url": "https://receiver.invalid/", "types": types, "description": null});
    on_lane(inside.engine(), async {
        let deliveries = tokio::spawn(inside.deliveries.lock().take().unwrap());
        gate.set(true);
        let created = inside.send_json("POST", SUBSCRIPTIONS, &token, "create", Some(body));
        tokio::select! {
            answer = created => panic!("{answer:?}"),
            () = gate.somebody_waits() => {}
        }
        gate.set(false);
        let facts = json!({"facts": [fact("a", 1)]});
        let put = inside.send_json("POST", "/reference-facts", &token, "-", Some(facts));
        assert_eq!(put.await.status, 200);
        let started = Instant::now();
        while inside.receivers.sent().is_empty() {
            assert!(started.elapsed() < PATIENCE, "nothing is sent");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        deliveries.abort();
    })
    .unwrap();
}
