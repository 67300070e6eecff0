//! A NATS server that lets in only who shows credentials, and one that speaks TLS.

use async_nats::ConnectOptions;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::{Nats, ask_for_deposit, assert_published, told, until};
use crate::support::{Server, World};

/// A claim of NATS' own kind of JWT (<https://docs.nats.io> "Decentralized JWT Authentication"):
/// what `issuer` says of `of`.
fn claim(issuer: &KeyPair, of: &KeyPair, name: &str, says: Value) -> String {
    let claims = json!({
        "jti": name,
        "iat": 1_700_000_000,
        "iss": issuer.public_key(),
        "sub": of.public_key(),
        "name": name,
        "nats": says,
    });
    let header = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let [header, claims] =
        [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()));
    let signed = format!("{header}.{claims}");
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// What an account may do.
fn account(streams: i64) -> Value {
    json!({
        "type": "account",
        "version": 2,
        "limits": {
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
            "conn": -1, "leaf": -1, "mem_storage": streams, "disk_storage": streams,
            "streams": streams, "consumer": streams,
        },
    })
}

/// A user's credentials, as `nsc` writes them.
fn credentials(user: &KeyPair, jwt: &str) -> String {
    let seed = user.seed().unwrap();
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

/// A service that is not let in reports it to operators, takes commands all the same, and publishes
/// nothing.
fn refused(world: &World, nats: &Nats, arguments: &[&str]) {
    let server = Server::start_with(world, arguments);
    assert!(ask_for_deposit(world, &mut server.client(), 0));
    until("it is told that nothing is published", || {
        let ready = server.client().request("GET", "/readyz", &[], b"");
        ready.status == 200 && ready.json()["nats"]["state"] == "failing"
    });
    assert_eq!(server.stop(), Some(0));
    assert_eq!(nats.messages().len(), 0);
}

/// One that is let in publishes all, also what was committed before.
fn taken(world: &World, nats: &Nats, arguments: &[&str]) {
    let server = Server::start_with(world, arguments);
    assert!(ask_for_deposit(world, &mut server.client(), 1));
    assert_eq!(assert_published(nats, &told(world, &server)), 0);
}

#[test]
fn credentials_of_a_file_log_in_and_others_do_not() {
    let Some(mut nats) = Nats::absent() else {
        return;
    };
    let (operator, system) = (KeyPair::new_operator(), KeyPair::new_account());
    let (tenant, user) = (KeyPair::new_account(), KeyPair::new_user());
    let is_user = json!({"type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1});
    let jwt = claim(&tenant, &user, "carebook", is_user.clone());
    let stranger = KeyPair::new_account();
    let forged = claim(&stranger, &user, "carebook", is_user);
    let world = World::new();
    let settings = world.path("nats.conf");
    let text = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\n\
         resolver_preload: {{\n  {}: {}\n  {}: {}\n}}\n",
        claim(
            &operator,
            &operator,
            "operator",
            json!({"type": "operator", "version": 2})
        ),
        system.public_key(),
        system.public_key(),
        claim(&operator, &system, "system", account(0)),
        tenant.public_key(),
        claim(&operator, &tenant, "tenant", account(-1)),
    );
    std::fs::write(&settings, text).unwrap();
    nats.arguments = vec!["-c".to_owned(), settings.to_str().unwrap().to_owned()];
    let good = credentials(&user, &jwt);
    nats.login = ConnectOptions::new().credentials(&good).unwrap();
    nats.start();
    nats.make_stream();
    let file = world.path("carebook.creds");
    let url = nats.url();
    let arguments = ["--nats", &url, "--nats-credentials", file.to_str().unwrap()];
    std::fs::write(&file, credentials(&user, &forged)).unwrap();
    refused(&world, &nats, &arguments);
    std::fs::write(&file, good).unwrap();
    taken(&world, &nats, &arguments);
}

#[test]
fn a_tls_server_is_published_to_only_when_its_certificate_is_trusted() {
    let Some(mut nats) = Nats::absent() else {
        return;
    };
    let world = World::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (world.path("nats.pem"), world.path("nats-key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    nats.arguments = vec![
        "--tls".to_owned(),
        "--tlscert".to_owned(),
        path(&certificate),
        "--tlskey".to_owned(),
        path(&key),
    ];
    let der = CertificateDer::from_pem_file(&certificate).unwrap();
    let trusting = carebook::http::client::dial::trusting(vec![der]).unwrap();
    nats.login = ConnectOptions::new().tls_client_config(trusting);
    nats.host = "localhost";
    nats.start();
    nats.make_stream();
    let url = format!("tls://localhost:{}", nats.port);
    refused(&world, &nats, &["--nats", &url]);
    let trusted = path(&certificate);
    taken(&world, &nats, &["--nats", &url, "--ca-file", &trusted]);
}
