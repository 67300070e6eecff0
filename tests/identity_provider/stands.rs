//! Starts, replaced keys, floods: with a provider of our own.

use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use carebook::cli::token::signing::{SigningAlgorithm, SigningKey};

use super::provider::{Certified, Provider};
use super::{command, of_issuer, status, token};
use crate::support::{Server, World, carebook, run};

const ALGORITHMS: [SigningAlgorithm; 3] = [
    SigningAlgorithm::Es256,
    SigningAlgorithm::EdDsa,
    SigningAlgorithm::Rs256,
];

fn key() -> SigningKey {
    SigningKey::generate(SigningAlgorithm::EdDsa).unwrap()
}

/// What a command says on standard error, and its exit code.
fn ends(mut command: std::process::Command) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), told)
}

#[test]
fn an_issuer_alone_is_enough_for_tokens_of_each_algorithm() {
    let world = World::new();
    let certified = Certified::in_directory(&world.path(""));
    let keys = ALGORITHMS.map(|algorithm| SigningKey::generate(algorithm).unwrap());
    let provider = Provider::start(&certified, &keys.each_ref());
    let server = Server::spawn(of_issuer(&world, provider.issuer(), &[]));
    let mut client = server.client();
    for key in &keys {
        assert_eq!(status(&mut client, &token(key, provider.issuer())), 404);
        let other = token(key, "https://localhost");
        assert_eq!(status(&mut client, &other), 401);
    }
    assert_eq!((provider.discovered(), provider.asked()), (1, 1));
    assert_eq!(server.metric("carebook_key_set_keys"), 3.0);
    assert_eq!(server.metric("carebook_key_set_failures_total"), 0.0);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn whom_the_system_trusts_is_trusted_without_a_flag() {
    let (world, key) = (World::new(), key());
    let certified = Certified::in_directory(&world.path(""));
    let provider = Provider::start(&certified, &[&key]);
    let mut command = command(&world, &["--issuer", provider.issuer()]);
    // Where the system's certificates are, for this process.
    command.env("SSL_CERT_FILE", world.path("ca.pem"));
    let server = Server::spawn(command);
    assert_eq!(
        status(&mut server.client(), &token(&key, provider.issuer())),
        404
    );
}

#[test]
fn a_url_of_keys_needs_no_discovery() {
    let (world, key) = (World::new(), key());
    let certified = Certified::in_directory(&world.path(""));
    let provider = Provider::start(&certified, &[&key]);
    let keys = format!("{}/keys", provider.issuer());
    let server = Server::spawn(of_issuer(&world, "https://id.test", &["--jwks", &keys]));
    assert_eq!(
        status(&mut server.client(), &token(&key, "https://id.test")),
        404
    );
    assert_eq!((provider.discovered(), provider.asked()), (0, 1));
}

#[test]
fn flags_that_name_no_provider_that_could_be_asked_are_exit_code_2() {
    let world = World::new();
    let path = |name: &str| world.path(name).to_str().unwrap().to_owned();
    std::fs::write(world.path("empty.pem"), "").unwrap();
    let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(world.path("junk.pem"), junk).unwrap();
    let issuer = ["--issuer", "https://id.test"];
    let (nothing, empty, junk) = (path("nothing.pem"), path("empty.pem"), path("junk.pem"));
    let cases: [&[&str]; 14] = [
        &[],
        &["--issuer", "http://id.test"],
        &["--issuer", "id.test"],
        &["--issuer", "https://id.test/?a=b"],
        &["--jwks", "http://id.test/keys"],
        &["--jwks", "ftp://id.test/keys"],
        &["--jwks", "https://"],
        &["--jwks", "https://a@id.test/keys"],
        &[issuer[0], issuer[1], "--jwks-max-age", "19m"],
        &["--jwks", "https://id.test/keys", "--jwks-max-age", "1199s"],
        &[issuer[0], issuer[1], "--jwks-max-age", "0s"],
        &[issuer[0], issuer[1], "--ca-file", &nothing],
        &[issuer[0], issuer[1], "--ca-file", &empty],
        &[issuer[0], issuer[1], "--ca-file", &junk],
    ];
    for arguments in cases {
        let (code, told) = ends(command(&world, arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {told}");
    }
    assert!(!world.data().exists(), "nothing was opened");
    // A file keeps its own bound, and the file's unfitness its exit code.
    let jwks = path("jwks.json");
    let (code, _) = ends(command(
        &world,
        &["--jwks", &jwks, "--jwks-max-age", "999ms"],
    ));
    assert_eq!(code, Some(2));
    let (code, _) = ends(command(&world, &["--jwks", &nothing]));
    assert_eq!(code, Some(1));
}

#[test]
fn a_blank_audience_ends_the_start_with_2_before_the_provider_is_asked() {
    let (world, key) = (World::new(), key());
    let certified = Certified::in_directory(&world.path(""));
    let provider = Provider::start(&certified, &[&key]);
    let mut command = carebook();
    command.args(["serve", "--listen", "127.0.0.1:0", "--audience", " "]);
    command.args(["--issuer", provider.issuer(), "--ca-file"]);
    command
        .arg(world.path("ca.pem"))
        .arg("--data")
        .arg(world.data());
    let (code, told) = ends(command);
    assert_eq!(code, Some(2));
    assert!(
        told.contains("--audience") && told.contains("is blank"),
        "{told}"
    );
    assert_eq!(provider.asked(), 0);
}

#[test]
fn a_start_that_waits_for_a_provider_listens_as_soon_as_it_is_there() {
    let (world, key) = (World::new(), key());
    let certified = Certified::in_directory(&world.path(""));
    // No server answers there yet, but connections wait.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let command = of_issuer(&world, &issuer, &[]);
    let starting = std::thread::spawn(move || Server::spawn(command));
    let (waiting, _) = listener.accept().unwrap();
    // The first attempt fails.
    drop(waiting);
    assert!(!starting.is_finished());
    let provider = Provider::on(listener, &certified, &[&key]);
    let server = starting.join().unwrap();
    assert_eq!(
        status(&mut server.client(), &token(&key, provider.issuer())),
        404
    );
}

#[test]
fn a_start_that_waits_for_a_provider_is_ended_at_once_by_a_signal() {
    for signal in ["TERM", "INT"] {
        let world = World::new();
        let _certified = Certified::in_directory(&world.path(""));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!(
            "https://localhost:{}",
            listener.local_addr().unwrap().port()
        );
        let mut command = of_issuer(&world, &issuer, &[]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let _waiting = listener.accept().unwrap();
        let id = child.id().to_string();
        // To read the keys again is no reason to end.
        for signal in ["HUP", signal] {
            let told = std::process::Command::new("kill")
                .arg(format!("-{signal}"))
                .arg(&id)
                .status();
            assert!(told.unwrap().success());
        }
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
        assert!(!world.data().exists(), "nothing was opened");
    }
}

/// Waits until the provider was asked for its keys so often, and for what it answered to be in use.
fn hang_up(server: &Server, provider: &Provider, withdrawn: &str) {
    let asked = provider.asked();
    server.signal("HUP");
    while provider.asked() == asked || status(&mut server.client(), withdrawn) != 401 {
        std::thread::yield_now();
    }
}

#[test]
fn key_rotation_under_load_refuses_no_good_and_accepts_no_withdrawn_key() {
    let (world, old, new) = (World::new(), key(), key());
    let certified = Certified::in_directory(&world.path(""));
    let provider = Provider::start(&certified, &[&old]);
    let server = Server::spawn(of_issuer(&world, provider.issuer(), &[]));
    let tokens = [&old, &new].map(|key| token(key, provider.issuer()));
    let signs = Arc::new(AtomicUsize::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let good: Arc<[[AtomicUsize; 2]; 8]> = Arc::default();
    let load = (0..8).map(|number: usize| {
        let mut client = server.client();
        let (tokens, signs, is_over) = (tokens.clone(), Arc::clone(&signs), Arc::clone(&is_over));
        let good = Arc::clone(&good);
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Acquire) {
                // Of the key that signs when the request is sent.
                let at = signs.load(Ordering::Acquire);
                let status = status(&mut client, &tokens[at]);
                if status != 404 {
                    return Err((at, status));
                }
                good[number][at].fetch_add(1, Ordering::AcqRel);
            }
            Ok(())
        })
    });
    let load: Vec<_> = load.collect();
    // Each of them, so that none is on its way with the other key any more.
    let some_more = |at: usize| {
        for of_one in good.iter() {
            let enough = of_one[at].load(Ordering::Acquire) + 20;
            while of_one[at].load(Ordering::Acquire) < enough {
                if load.iter().any(std::thread::JoinHandle::is_finished) {
                    return;
                }
                std::thread::yield_now();
            }
        }
    };
    some_more(0);
    // Published, and signed with at once: the first token has the keys read.
    provider.publish(&[&old, &new]);
    signs.store(1, Ordering::Release);
    some_more(1);
    provider.publish(&[&new]);
    hang_up(&server, &provider, &tokens[0]);
    some_more(1);
    assert_eq!(status(&mut server.client(), &tokens[0]), 401);
    is_over.store(true, Ordering::Release);
    for thread in load {
        assert_eq!(thread.join().unwrap(), Ok(()), "a good token was refused");
    }
    println!("{good:?} tokens before and after, none refused");
    // The start, the unknown key, and the signal; what the withdrawn one asks for is not due.
    assert_eq!(provider.asked(), 3);
}

#[test]
fn a_flood_of_unknown_keys_is_one_question_and_delays_nobody() {
    let (world, key) = (World::new(), key());
    let certified = Certified::in_directory(&world.path(""));
    let provider = Provider::start(&certified, &[&key]);
    let server = Server::spawn(of_issuer(&world, provider.issuer(), &[]));
    let good = token(&key, provider.issuer());
    let began = Instant::now();
    let flood = (0..8).map(|_| {
        let foreign = token(&self::key(), provider.issuer());
        let mut client = server.client();
        std::thread::spawn(move || {
            for _ in 0..500 {
                assert_eq!(status(&mut client, &foreign), 401);
            }
        })
    });
    let flood: Vec<_> = flood.collect();
    let mut client = server.client();
    while flood.iter().any(|thread| !thread.is_finished()) {
        assert_eq!(status(&mut client, &good), 404);
    }
    for thread in flood {
        thread.join().unwrap();
    }
    // One of the start, and one in each half minute that this has taken.
    let windows = usize::try_from(began.elapsed().as_secs() / 30).unwrap();
    assert!(
        (2..=2 + windows).contains(&provider.asked()),
        "{}",
        provider.asked()
    );
    assert_eq!(server.metric("carebook_bad_signatures_total"), 0.0);
}

#[test]
fn an_unusable_key_set_is_counted_and_leaves_the_keys_an_empty_one_none() {
    let (world, key) = (World::new(), key());
    let certified = Certified::in_directory(&world.path(""));
    let provider = Provider::start(&certified, &[&key]);
    let server = Server::spawn(of_issuer(&world, provider.issuer(), &[]));
    let good = token(&key, provider.issuer());
    // Keys of which none can be used: unfit, and the last ones stay.
    let mut unfit = serde_json::to_value(key.jwk()).unwrap();
    unfit["use"] = "enc".into();
    provider.publish_raw(
        serde_json::json!({ "keys": [unfit] })
            .to_string()
            .into_bytes(),
    );
    server.signal("HUP");
    while server.metric("carebook_key_set_failures_total") < 1.0 {
        std::thread::yield_now();
    }
    assert_eq!(status(&mut server.client(), &good), 404);
    // No key at all: no token is valid.
    provider.publish(&[]);
    hang_up(&server, &provider, &good);
    assert_eq!(server.metric("carebook_key_set_keys"), 0.0);
    assert_eq!(server.metric("carebook_key_set_failures_total"), 1.0);
}

#[test]
fn the_help_of_the_server_shows_how_an_identity_provider_is_named() {
    let (code, told, _) = run(&["serve", "--help"]);
    assert_eq!(code, Some(0));
    for words in [
        "--jwks <FILE|URL>",
        "/.well-known/openid-configuration",
        "--ca-file <FILE>",
    ] {
        assert!(told.contains(words), "{words} in {told}");
    }
}
