//! A server starts, answers, keeps what it acknowledged, and stops.

use serde_json::json;

use crate::support::{Server, World};

#[test]
fn an_acknowledged_command_survives_a_kill() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let body = world.deposit_request("S-1", "key-1");
    let first = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
    assert_eq!(first.status, 201, "{first:?}");
    server.kill();
    let server = Server::start(&world);
    let mut client = server.client();
    let again = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
    assert_eq!(again.status, 201);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.text(), first.text());
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn health_needs_no_token_and_everything_else_does() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    assert_eq!(client.request("GET", "/healthz", &[], b"").status, 200);
    assert_eq!(client.request("GET", "/readyz", &[], b"").status, 200);
    let refused = client.request("GET", "/settlement-statements/x", &[], b"");
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    assert_eq!(refused.json()["code"], json!("authentication_required"));
}
