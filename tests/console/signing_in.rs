//! Signing in to the console with a real identity provider, in a real browser.

use std::process::Command;

use serde_json::json;

use super::embedded::tools;
use crate::identity_provider::of_issuer;
use crate::identity_provider::oidc::Oidc;
use crate::support::{Server, World, or_skip, program};

#[test]
fn a_token_from_a_sign_in_with_the_provider_is_in_the_page_alone() {
    let Some(chromium) = or_skip(program("chromium"), "chromium") else {
        return;
    };
    let Some(tools) = tools() else {
        return;
    };
    let world = World::new();
    let Some(mut oidc) = Oidc::start(&world) else {
        return;
    };
    let console = [
        "--console",
        "--console-client-id",
        "console",
        "--console-scope",
        "openid act",
        "--console-resource",
        "urn:carebook",
    ];
    let server = Server::spawn(of_issuer(&world, &oidc.issuer, &console));
    let base = format!("http://{}", server.address);
    oidc.say(&json!({"do": "console-client", "redirect": format!("{base}/console")}));
    let done = Command::new("node")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/console/signing_in.mjs"
        ))
        .arg(tools)
        .arg(chromium)
        .arg(base)
        .arg(&oidc.issuer)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
}
