//! What a page does where more is committed than people can read, and where it is not visible: it
//! asks the service for less. In a real browser.

use std::process::Command;

use carebook::base::actor::{Actor, ActorKind};
use serde_json::json;

use super::embedded::tools;
use crate::support::{Server, World, actor, or_skip, program};

#[test]
fn a_page_waits_longer_at_each_overload_and_a_hidden_one_follows_nothing() {
    let Some(chromium) = or_skip(program("chromium"), "chromium") else {
        return;
    };
    let Some(tools) = tools() else {
        return;
    };
    let world = World::new();
    let server = Server::start_with(&world, &["--console"]);
    let token = world.token(&Actor {
        permissions: ["facts:write", "events:read", "figures:read"]
            .map(Into::into)
            .to_vec(),
        ..actor(ActorKind::SystemWorkflow, "workflow-1")
    });
    let fact =
        json!({"kind": "actor", "id": "one", "revision": 1, "facts": {"lifecycle": "active"}});
    let answer = server.client().put_facts(&token, &[fact]);
    assert_eq!(answer.json()["applied"], 1, "{answer:?}");
    let done = Command::new("node")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/console/busy.mjs"
        ))
        .arg(tools)
        .arg(chromium)
        .arg(format!("http://{}", server.address))
        .env("TOKEN", &token)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
}
