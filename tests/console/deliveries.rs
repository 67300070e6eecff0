//! Deliveries of a webhook that the console mends: one that is dead is sent again, and the webhook is
//! paused, resumed and deleted; against a receiver that is a real server, in a real browser.

use std::process::Command;

use carebook::base::actor::{Actor, ActorKind};
use serde_json::json;

use super::embedded::tools;
use crate::support::{Server, World, actor, or_skip, program, until};
use crate::webhooks::receiver::{Receiver, Reply, TAKEN};

/// Pauses between attempts are a millionth of what they are, so that the last one is soon.
const HURRIED: [&str; 5] = [
    "--console",
    "--webhooks-allow",
    "127.0.0.1",
    "--webhooks-hurry",
    "1000000",
];

#[test]
fn the_console_resends_dead_deliveries_pauses_resumes_deletes_webhooks() {
    let Some(chromium) = or_skip(program("chromium"), "chromium") else {
        return;
    };
    let Some(tools) = tools() else {
        return;
    };
    let world = World::new();
    let server = Server::start_with(&world, &HURRIED);
    let token = world.token(&Actor {
        permissions: [
            "facts:write",
            "webhooks:manage",
            "events:read",
            "figures:read",
        ]
        .map(Into::into)
        .to_vec(),
        ..actor(ActorKind::SystemWorkflow, "workflow-1")
    });
    let receiver = Receiver::deciding(|_, _| Reply::Status(400, ""));
    let body =
        json!({"url": receiver.url(), "types": ["carebook.reference-fact.*"], "description": null});
    let key = [("Idempotency-Key", "subscribe")];
    let made = server
        .client()
        .send_json("POST", "/webhook-subscriptions", &token, &key, &body);
    let id = made.json()["subscriptionId"].as_str().unwrap().to_owned();
    let path = format!("/webhook-subscriptions/{id}");
    let fact =
        json!({"kind": "actor", "id": "one", "revision": 1, "facts": {"lifecycle": "active"}});
    let answer = server.client().put_facts(&token, &[fact]);
    assert_eq!(answer.json()["applied"], 1, "{answer:?}");
    until("a delivery is dead", || {
        server.client().get(&path, &token).json()["dead"] == 1
    });
    receiver.now_answers(|_, _| TAKEN);
    let done = Command::new("node")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/console/deliveries.mjs"
        ))
        .arg(tools)
        .arg(chromium)
        .arg(format!("http://{}", server.address))
        .arg(&id)
        .env("TOKEN", &token)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
    // Ten attempts, the one that was asked for, and what happened during the pause.
    let came = receiver.wait_for(12);
    assert!(came[11].taken && came[10].taken && !came[9].taken);
}
