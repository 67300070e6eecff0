//! What the dispatcher hears of when more has happened since: here it begins when the test says so.

use carebook::cli::runtime::on_lane;

use super::*;
use crate::support::inside::{Inside, Wanted};

#[test]
fn events_before_the_first_change_of_types_are_matched_with_those_of_the_creation() {
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
        let deliveries = tokio::spawn(inside.deliveries.lock().take().unwrap());
        let sent = || {
            let sent = inside.receivers.sent().into_iter();
            let events = sent.map(|one| serde_json::from_slice::<Value>(&one.body).unwrap());
            let revisions = events.map(|event| event["data"]["revision"].as_i64().unwrap());
            revisions.collect::<Vec<_>>()
        };
        let started = Instant::now();
        while sent().last() != Some(&3) {
            assert!(started.elapsed() < SOON, "{:?}", sent());
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        deliveries.abort();
        assert_eq!(sent(), [1, 3]);
    })
    .unwrap();
}
