//! `carebook facts load` against a running server: over TLS, where its token comes from, and
//! what it compares.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;

use rcgen::{BasicConstraints, IsCa};
use serde_json::Value;

use crate::support::{Server, World, carebook, run};

/// More than the server and the client hold at once, and a number of whole chunks it is not.
const FACTS: usize = 4_000;

fn write_facts(world: &World) {
    let fact = |number| {
        format!(
            "{{\"kind\":\"actor\",\"id\":\"user-{number}\",\"revision\":1,\
             \"facts\":{{\"lifecycle\":\"active\"}}}}\n"
        )
    };
    let lines: String = (0..FACTS).map(fact).collect();
    std::fs::write(world.path("facts"), lines).unwrap();
}

/// Makes a certificate for this machine's name, as `NAME.pem` with its key in `NAME.key`.
fn certificate(world: &World, name: &str) {
    certificate_of(world, name, IsCa::NoCa);
}

fn certificate_of(world: &World, name: &str, is_ca: IsCa) {
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let subject = &mut parameters.distinguished_name;
    subject.push(rcgen::DnType::CommonName, name);
    parameters.is_ca = is_ca;
    let key = rcgen::KeyPair::generate().unwrap();
    let made = parameters.self_signed(&key).unwrap();
    std::fs::write(world.path(&format!("{name}.pem")), made.pem()).unwrap();
    std::fs::write(world.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Loads the world's facts with its token in a file, with these arguments and this environment.
fn load(world: &World, url: &str, arguments: &[&str], trusted: Option<&str>) -> Output {
    let mut command = carebook();
    command
        .args(["facts", "load", text(&world.path("facts")), "--json"])
        .args(["--url", url, "--token-file", text(&world.path("token"))])
        .args(arguments)
        // The environment of the tests may set some of its own.
        .env_remove("SSL_CERT_DIR")
        .env_remove("SSL_CERT_FILE")
        .env_remove("CAREBOOK_TOKEN");
    if let Some(trusted) = trusted {
        command.env("SSL_CERT_FILE", world.path(trusted));
    }
    command.output().unwrap()
}

#[track_caller]
fn assert_loaded(output: &Output, outcome: &str) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer[outcome], FACTS, "{answer}");
}

#[track_caller]
fn assert_failed(output: &Output, words: &[&str]) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    for word in words {
        assert!(err.contains(word), "{word}: {err}");
    }
}

#[test]
fn a_server_with_an_authority_s_certificate_is_refused_with_advice() {
    let world = World::new();
    write_facts(&world);
    certificate_of(&world, "server", IsCa::Ca(BasicConstraints::Unconstrained));
    std::fs::write(world.path("token"), format!("{}\n", world.workflow())).unwrap();
    let (certificate, key) = (world.path("server.pem"), world.path("server.key"));
    let arguments = [
        ["--tls-cert", text(&certificate)],
        ["--tls-key", text(&key)],
    ];
    let server = Server::start_with(&world, arguments.as_flattened());
    let port = server.address.rsplit_once(':').unwrap().1;
    let url = format!("https://localhost:{port}");
    let refused = load(&world, &url, &["--ca-file", text(&certificate)], None);
    assert_failed(&refused, &[&url, "CA:TRUE", "basicConstraints=CA:FALSE"]);
}

#[test]
fn facts_go_to_a_server_with_tls_that_is_known_and_to_no_other() {
    let world = World::new();
    write_facts(&world);
    certificate(&world, "server");
    certificate(&world, "stranger");
    std::fs::write(world.path("token"), format!("{}\n", world.workflow())).unwrap();
    let (certificate, key) = (world.path("server.pem"), world.path("server.key"));
    let arguments = [
        ["--tls-cert", text(&certificate)],
        ["--tls-key", text(&key)],
        ["--internal-listen", "127.0.0.1:0"],
    ];
    let server = Server::start_with(&world, arguments.as_flattened());
    let port = server.address.rsplit_once(':').unwrap().1;
    let url = format!("https://localhost:{port}");
    let trusted = ["--ca-file", text(&certificate)];
    assert_loaded(&load(&world, &url, &trusted, None), "applied");
    // Again, by the certificates of the system.
    assert_loaded(&load(&world, &url, &[], Some("server.pem")), "unchanged");

    let stranger = world.path("stranger.pem");
    let unknown = load(
        &world,
        &url,
        &["--ca-file", text(&stranger)],
        Some("server.pem"),
    );
    assert_failed(&unknown, &[&url, "UnknownIssuer", "--ca-file"]);
    let unknown = load(&world, &url, &[], Some("stranger.pem"));
    assert_failed(&unknown, &[&url, "UnknownIssuer", "--ca-file"]);
    let another = format!("https://127.0.0.1:{port}");
    assert_failed(
        &load(&world, &another, &trusted, None),
        &["not valid for name"],
    );
    let plain = format!("http://localhost:{port}");
    assert_failed(&load(&world, &plain, &[], None), &[&plain]);
    let empty = world.path("token");
    let unfit = load(&world, &url, &["--ca-file", text(&empty)], None);
    assert_failed(&unfit, &["contains no certificate"]);
    let output = load(&world, &plain, &trusted, None);
    assert_eq!(output.status.code(), Some(2));

    // Refused at its head, while much more is on its way.
    let mother = world.plain(carebook::base::actor::ActorKind::Mother, "mother-1");
    std::fs::write(world.path("token"), mother).unwrap();
    assert_failed(&load(&world, &url, &trusted, None), &[&url, "403"]);
}

#[test]
fn a_token_is_required_from_an_argument_a_file_or_the_environment() {
    let world = World::new();
    write_facts(&world);
    let server = Server::start(&world);
    let url = format!("http://{}", server.address);
    let facts = world.path("facts");
    let load = |arguments: &[&str], environment: Option<&str>| {
        let mut command = carebook();
        command
            .args(["facts", "load", text(&facts), "--json", "--url", &url])
            .args(arguments)
            .env_remove("CAREBOOK_TOKEN");
        if let Some(token) = environment {
            command.env("CAREBOOK_TOKEN", token);
        }
        command.output().unwrap()
    };
    let token = world.workflow();
    assert_loaded(&load(&[], Some(&token)), "applied");
    assert_loaded(&load(&["--token", &token], None), "unchanged");
    let file = world.path("token");
    std::fs::write(&file, format!("  {token}\r\n")).unwrap();
    // What an argument says counts for more than what lies around.
    assert_loaded(
        &load(&["--token-file", text(&file)], Some("not-a-token")),
        "unchanged",
    );
    for (arguments, environment) in [
        (vec![], None),
        (vec![], Some("")),
        (vec!["--token", "a", "--token-file", "b"], None),
    ] {
        let output = load(&arguments, environment);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    for content in [
        String::new(),
        "\n".to_owned(),
        "t".repeat(10_000),
        "a\nb".to_owned(),
    ] {
        std::fs::write(&file, content).unwrap();
        let output = load(&["--token-file", text(&file)], Some(&token));
        assert_failed(&output, &["token"]);
        assert_eq!(output.stdout, b"");
    }
    let missing = world.path("missing");
    assert_failed(&load(&["--token-file", text(&missing)], None), &["missing"]);
    // The list of processes need not show it: help says what is better.
    let (_, help, _) = run(&["facts", "load", "--help"]);
    assert!(help.contains("CAREBOOK_TOKEN"), "{help}");
}

/// Facts and a token to load them with, and what listens in the place of a server, with its URL.
fn in_the_place_of_a_server() -> (World, TcpListener, String) {
    let world = World::new();
    write_facts(&world);
    std::fs::write(world.path("token"), world.workflow()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (world, listener, url)
}

/// Something on the way has lost a line, and the rest went well.
#[test]
fn facts_of_which_the_server_does_not_tell_are_an_error() {
    let (world, listener, url) = in_the_place_of_a_server();
    let serving = std::thread::spawn(move || {
        for less in [0, 1] {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
            while !heard.ends_with(b"\r\n0\r\n\r\n") {
                let read = stream.read(&mut piece).unwrap();
                assert_ne!(read, 0, "the body has no end");
                heard.extend_from_slice(&piece[..read]);
            }
            let applied = FACTS - less;
            let body = format!(
                "{{\"applied\":{applied},\"unchanged\":0,\"stale\":0,\"conflict\":0,\"invalid\":0}}"
            );
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    assert_loaded(&load(&world, &url, &[], None), "applied");
    let lost = load(&world, &url, &[], None);
    assert_failed(
        &lost,
        &[
            &url,
            "3999 of the 4000 facts",
            "loading the whole file again",
        ],
    );
    serving.join().unwrap();
}

#[test]
fn a_server_that_ends_during_a_load_leaves_it_open_what_is_applied() {
    let (world, listener, url) = in_the_place_of_a_server();
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut piece = [0; 4096];
        assert_ne!(stream.read(&mut piece).unwrap(), 0);
    });
    let told = "Some facts may be applied: loading the whole file again is safe";
    assert_failed(&load(&world, &url, &[], None), &[&url, told]);
    serving.join().unwrap();
    // Nothing was sent where nobody listens.
    let refused = load(&world, &url, &[], None);
    assert_failed(&refused, &[&url]);
    assert!(!String::from_utf8_lossy(&refused.stderr).contains(told));
}

#[test]
fn a_directory_in_the_place_of_the_file_is_named_and_no_server_is() {
    let world = World::new();
    let folder = world.path("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(world.path("token"), world.workflow()).unwrap();
    let (token, data) = (world.path("token"), world.data());
    let server = ["--url", "http://127.0.0.1:1", "--token-file", text(&token)];
    for place in [&server[..], &["--data", text(&data)]] {
        let (code, _, err) = run(&[&["facts", "load", text(&folder)], place].concat());
        assert_eq!(code, Some(1), "{err}");
        let told = format!("carebook: {}: is a directory\n", text(&folder));
        assert_eq!(err, told);
        assert!(!data.exists());
    }
}
