//! The command line: helps, exit codes, and the commands against real servers and directories.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    AUDIENCE, Client, ISSUER, Server, World, carebook, files, run, serve_arguments,
};

pub const COMMANDS: [&[&str]; 31] = [
    &[],
    &["serve"],
    &["token"],
    &["token", "keygen"],
    &["events"],
    &["facts"],
    &["facts", "load"],
    &["facts", "template"],
    &["verify"],
    &["backup"],
    &["recover"],
    &["restore"],
    &["compact"],
    &["openapi"],
    &["completions"],
    &["man"],
    &["inspect"],
    &["inspect", "records"],
    &["inspect", "resource"],
    &["inspect", "keys"],
    &["inspect", "counts"],
    &["outbox"],
    &["outbox", "list"],
    &["outbox", "show"],
    &["outbox", "retry"],
    &["outbox", "skip"],
    &["journal"],
    &["journal", "create"],
    &["journal", "status"],
    &["journal", "fence"],
    &["journal", "verify"],
];

#[test]
fn every_command_has_a_help_with_examples() {
    for command in COMMANDS {
        let (code, out, err) = run(&[command, &["--help"]].concat());
        assert_eq!((code, err.as_str()), (Some(0), ""), "{command:?}");
        let (_, examples) = out
            .split_once("Examples:")
            .unwrap_or_else(|| panic!("{command:?}: {out}"));
        assert!(
            examples.contains(
                &["carebook"]
                    .iter()
                    .chain(command)
                    .copied()
                    .collect::<Vec<_>>()
                    .join(" ")
            )
        );
    }
    let (code, out, _) = run(&["--version"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        out.trim(),
        format!("carebook {}", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn commands_reading_a_directory_document_the_exit_code_for_other_versions() {
    for command in [
        &["serve"][..],
        &["verify"],
        &["inspect", "records"],
        &["inspect", "counts"],
        &["inspect", "resource"],
        &["backup"],
        &["restore"],
        &["compact"],
        &["journal", "create"],
        &["journal", "verify"],
    ] {
        let (code, out, err) = run(&[command, &["--help"]].concat());
        assert_eq!(code, Some(0), "{command:?}: {err}");
        let codes = out.split("Exit codes:").nth(1).unwrap_or_default();
        let of_version = codes.split("\n  5  ").nth(1).unwrap_or_default();
        let of_version = of_version.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            of_version.contains("written by another version of carebook"),
            "{command:?}: {out}"
        );
    }
}

#[test]
fn the_commands_in_the_help_are_those_that_are_tested() {
    let (_, out, _) = run(&["--help"]);
    let (_, commands) = out.split_once("Commands:").unwrap();
    let (commands, _) = commands.split_once("Options:").unwrap();
    for line in commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
    {
        let name = line.split_whitespace().next().unwrap();
        let known = COMMANDS
            .iter()
            .any(|command| command.first() == Some(&name));
        assert!(known || name == "help", "{name} is not tested here: add it");
    }
}

#[test]
fn wrong_usage_ends_with_2_and_says_what_is_wrong() {
    for arguments in [
        &[][..],
        &["fly"],
        &["serve"],
        &["serve", "--data", "x"],
        &["serve", "--demo", "--listen", "nowhere"],
        &["serve", "--demo", "--jwks", "x"],
        &["serve", "--demo", "--tls-cert", "x"],
        &["serve", "--demo", "--unknown"],
        &["serve", "--data", "x", "--jwks", "x", "--issuer", " "],
        &["serve", "--data", "x", "--jwks", "x", "--audience", ""],
        &["serve", "--demo", "--idempotency-retention", "soon"],
        &["serve", "--demo", "--idempotency-retention", "10ms"],
        &["serve", "--demo", "--snapshot-interval", "-1"],
        &["compact"],
        &["token", "--sub", "s", "--actor-kind", "mother"],
        &["token", "--key", "k", "--sub", "s", "--actor-kind", "queen"],
        &["token", "--key", "k", "--actor-kind", "mother"],
        &[
            "token",
            "--key",
            "k",
            "--sub",
            "s",
            "--actor-kind",
            "mother",
            "--ttl",
            "soon",
        ],
        &["token", "keygen"],
        &["facts"],
        &["facts", "load"],
        &["facts", "load", "x"],
        &[
            "facts",
            "load",
            "x",
            "--url",
            "http://localhost:1",
            "--data",
            "d",
            "--token",
            "t",
        ],
        &[
            "facts",
            "load",
            "x",
            "--url",
            "http://127.0.0.1:99999",
            "--token",
            "t",
        ],
        &[
            "serve",
            "--demo",
            "--check",
            "--receiver",
            "authorization.*=http://127.0.0.1:99999/in",
        ],
        &[
            "serve",
            "--demo",
            "--check",
            "--directory-url",
            "http://127.0.0.1:/",
        ],
        &[
            "serve",
            "--demo",
            "--check",
            "--otlp-endpoint",
            "http://127.0.0.1:99999",
        ],
        &[
            "serve",
            "--data",
            "x",
            "--check",
            "--jwks",
            "https://127.0.0.1:70000/",
        ],
        &["verify"],
        &["verify", "--data"],
        &["inspect"],
        &["inspect", "records"],
        &["inspect", "records", "--data", "d", "--operation", "fly"],
        &["inspect", "records", "--data", "d", "--since", "yesterday"],
        &["inspect", "records", "--data", "d", "--resource", "branch"],
        &["inspect", "resource", "dragon", "1", "--data", "d"],
        &["inspect", "resource", "branch", "--data", "d"],
    ] {
        let output = carebook()
            .args(arguments)
            .env_remove("CAREBOOK_TOKEN")
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(
            err.contains("Usage:") || err.contains("For more information"),
            "{err}"
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_failure_ends_with_1_and_a_sentence() {
    let world = World::new();
    let data = world.data();
    let missing = world.path("missing");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    for (arguments, word) in [
        (
            vec!["verify".into(), "--data".into(), text(&missing)],
            "missing",
        ),
        (
            vec![
                "facts".into(),
                "load".into(),
                text(&missing),
                "--data".into(),
                text(&data),
            ],
            "missing",
        ),
        (
            vec![
                "token".into(),
                "--key".into(),
                text(&missing),
                "--sub".into(),
                "s".into(),
                "--actor-kind".into(),
                "mother".into(),
            ],
            "missing",
        ),
        (
            vec![
                "serve".into(),
                "--data".into(),
                text(&data),
                "--jwks".into(),
                text(&missing),
            ],
            "missing",
        ),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, out, err) = run(&arguments);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{arguments:?}: {err}");
        assert!(err.contains("carebook: ") && err.contains(word), "{err}");
    }
    // Another's address.
    let server = Server::start(&world);
    let other = World::new();
    let mut command = carebook();
    let output = serve_arguments(&mut command, &other)
        .args(["--listen", &server.address])
        .output()
        .unwrap();
    // The argument is given twice: wrong usage, before anything is touched.
    assert_eq!(output.status.code(), Some(2));
    let output = carebook()
        .args([
            "serve",
            "--data",
            &text(&other.data()),
            "--listen",
            &server.address,
        ])
        .args(["--jwks", &text(&other.path("jwks.json"))])
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains(&server.address), "{err}");
}

#[test]
fn a_directory_has_one_server_and_the_second_is_told_which() {
    let world = World::new();
    let server = Server::start(&world);
    let mut second = carebook();
    let output = serve_arguments(&mut second, &world).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(output.stdout, b"");
    let sentence = err
        .lines()
        .find(|line| line.starts_with("carebook: "))
        .unwrap();
    assert!(sentence.contains(&server.id().to_string()), "{sentence}");
    let data = world.data();
    let data = data.to_str().unwrap();
    let (code, _, err) = run(&["verify", "--data", data]);
    assert_eq!(code, Some(4), "{err}");
    assert!(err.contains(&server.id().to_string()), "{err}");
    std::fs::write(world.path("facts"), "").unwrap();
    let facts = world.path("facts");
    let (code, _, err) = run(&["facts", "load", facts.to_str().unwrap(), "--data", data]);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains(&server.id().to_string()), "{err}");
    // The first one is not disturbed, and a killed one leaves no lock behind.
    assert_eq!(
        server.client().request("GET", "/readyz", &[], b"").status,
        200
    );
    server.kill();
    assert_eq!(Server::start(&world).stop(), Some(0));
}

#[test]
fn no_log_is_begun_among_files_of_others() {
    let world = World::new();
    let (data, facts) = (world.data(), world.path("facts"));
    let others = data.join("letters.txt");
    std::fs::create_dir_all(data.join("lost+found")).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(&others, "of somebody else").unwrap();
    std::fs::write(&facts, run(&["facts", "template"]).1).unwrap();
    let (data, facts) = (data.to_str().unwrap(), facts.to_str().unwrap());
    let load = ["facts", "load", facts, "--data", data];
    let (code, _, err) = run(&load);
    assert_eq!(code, Some(1), "{err}");
    let told = "the directory is not empty, it holds letters.txt";
    assert!(err.contains(told), "{err}");
    assert_eq!(Server::try_start(&world, &[]).err(), Some(Some(1)));
    assert!(!world.data().join("manifest").exists());
    // What a file system keeps there is no hindrance, nor is anything beside a log.
    std::fs::remove_file(&others).unwrap();
    assert_eq!(Server::start(&world).stop(), Some(0));
    std::fs::write(&others, "of somebody else").unwrap();
    let (code, _, err) = run(&load);
    assert_eq!(code, Some(0), "{err}");
}

/// A stopped directory with some commits in it.
fn stopped(world: &World) {
    let server = Server::start(world);
    let mut client = server.client();
    for number in 0..20 {
        let (code, key) = (format!("S-{number}"), format!("key-{number}"));
        let body = world.deposit_request(&code, &key);
        let opened = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
        assert_eq!(opened.status, 201);
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_directory_that_is_not_the_user_s_alone_is_imported_into_no_journal() {
    let world = World::new();
    stopped(&world);
    let data = world.data();
    let from = data.to_str().unwrap();
    let refused = |told: &str| {
        // It is said before a server is asked for.
        let nobody = "nats://127.0.0.1:1";
        let (code, out, err) = run(&["journal", "create", "--journal", nobody, "--from", from]);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains(told), "{err}");
        assert!(!data.join("journal").exists());
    };
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o770)).unwrap();
    refused("may write to the directory (mode 0770)");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&data, Some(12_345), None).unwrap();
        refused("the directory belongs to user 12345");
    }
}

#[test]
fn verify_reads_every_byte_and_changes_none() {
    let world = World::new();
    stopped(&world);
    let data = world.data();
    let snapshot = || -> Vec<_> {
        let files = files(&data).into_iter();
        files
            .map(|file| (file.clone(), std::fs::read(file).unwrap()))
            .collect()
    };
    let before = snapshot();
    let (code, out, err) = run(&["verify", "--data", data.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("every byte is as it was written"), "{out}");
    let (code, out, _) = run(&["verify", "--data", data.to_str().unwrap(), "--json"]);
    assert_eq!(code, Some(0));
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["operations"]["request_deposit"], 20);
    assert_eq!(found["tornTails"], json!([]));
    assert_eq!(snapshot(), before);
}

#[test]
fn a_directory_left_by_a_killed_server_verifies_without_damage() {
    let world = World::new();
    let server = Server::start(&world);
    let body = world.deposit_request("S", "key");
    let path = "/settlement-deposit-requests";
    assert_eq!(
        server
            .client()
            .post(path, &world.headquarters(), &body)
            .status,
        201
    );
    server.kill();
    let (code, out, err) = run(&["verify", "--data", world.data().to_str().unwrap()]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn a_flipped_bit_is_found_named_and_never_served() {
    let world = World::new();
    stopped(&world);
    let data = world.data();
    let log = files(&data)
        .into_iter()
        .max_by_key(|file| std::fs::metadata(file).unwrap().len())
        .unwrap();
    let whole = std::fs::read(&log).unwrap();
    let written = whole.iter().rposition(|byte| *byte != 0).unwrap();
    for offset in [written / 4, written / 2, written / 2 + 13] {
        let mut damaged = whole.clone();
        damaged[offset] ^= 0x10;
        std::fs::write(&log, &damaged).unwrap();
        let (code, out, err) = run(&["verify", "--data", data.to_str().unwrap()]);
        assert_eq!((code, out.as_str()), (Some(3), ""), "{err}");
        let sentence = err.trim().to_owned();
        assert_eq!(sentence.lines().count(), 1, "{sentence}");
        let name = log.file_name().unwrap().to_str().unwrap();
        assert!(sentence.contains(name), "{sentence}");
        let (_, at) = sentence.split_once("offset ").unwrap();
        let at: String = at.chars().take_while(char::is_ascii_digit).collect();
        let at: usize = at.parse().unwrap();
        // The record's own place: not behind the flipped bit, and not far before it.
        assert!(at <= offset && offset - at < 4_096, "{offset}: {sentence}");
        assert!(sentence.contains("position "), "{sentence}");

        let mut command = carebook();
        let output = serve_arguments(&mut command, &world).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stdout, b"", "it listens");
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(
            err.lines().any(|line| line == sentence),
            "{sentence} is not in {err}"
        );
        std::fs::write(world.path("facts"), "").unwrap();
        let facts = world.path("facts");
        let load = [
            "facts",
            "load",
            facts.to_str().unwrap(),
            "--data",
            data.to_str().unwrap(),
        ];
        assert_eq!(run(&load).0, Some(3));
        // Nothing was touched meanwhile.
        assert!(std::fs::read(&log).unwrap() == damaged);
    }
    std::fs::write(&log, &whole).unwrap();
    assert_eq!(
        run(&["verify", "--data", data.to_str().unwrap()]).0,
        Some(0)
    );
    assert_eq!(Server::start(&world).stop(), Some(0));
}

#[test]
fn a_key_made_here_signs_tokens_that_a_server_takes() {
    for algorithm in ["es256", "eddsa", "rs256"] {
        let world = World::new();
        let keys = world.path("keys");
        let keys = keys.to_str().unwrap();
        let (code, _, err) = run(&["token", "keygen", "--out", keys, "--algorithm", algorithm]);
        assert_eq!(code, Some(0), "{err}");
        let again = run(&["token", "keygen", "--out", keys, "--algorithm", algorithm]);
        assert_eq!(again.0, Some(1), "a key is never overwritten");
        std::fs::copy(world.path("keys/jwks.json"), world.path("jwks.json")).unwrap();
        let server = Server::start(&world);
        let key = world.path("keys/key.pem");
        let key = key.to_str().unwrap();
        let sign = |more: &[&str]| {
            let fixed = [
                "token",
                "--key",
                key,
                "--issuer",
                ISSUER,
                "--audience",
                AUDIENCE,
            ];
            let (code, out, err) = run(&[&fixed, more].concat());
            assert_eq!((code, err.as_str()), (Some(0), ""));
            assert_eq!(out.lines().count(), 1, "the token and nothing else");
            assert_eq!(out.trim().split('.').count(), 3);
            out.trim().to_owned()
        };
        let mut client = server.client();
        let hq = [
            "--sub",
            "hq-1",
            "--actor-kind",
            "headquarters_administrator",
        ];
        let token = sign(&hq);
        let opened = client.post(
            "/settlement-deposit-requests",
            &token,
            &world.deposit_request("S", "key"),
        );
        assert_eq!(opened.status, 201, "{opened:?}");
        let path = format!(
            "/settlement-statements/{}",
            opened.json()["statementId"].as_str().unwrap()
        );
        let manager = ["--sub", "m", "--actor-kind", "branch_manager"];
        let of = |branches: &[&str]| {
            let branches: Vec<_> = branches
                .iter()
                .flat_map(|id| ["--branch-profile-id", id])
                .collect();
            sign(&[&manager, branches.as_slice()].concat())
        };
        assert_eq!(
            client.get(&path, &of(&["branch-0", "branch-1"])).status,
            200
        );
        assert_eq!(client.get(&path, &of(&["branch-0"])).status, 404);
        let workflow = [
            "--sub",
            "w",
            "--actor-kind",
            "system_workflow",
            "--permission",
            "facts:read",
            "--permission",
            "facts:write",
            "--ttl",
            "30s",
        ];
        assert_eq!(client.put_facts(&sign(&workflow), &[]).status, 200);
        let email = [
            "--sub",
            "e",
            "--actor-kind",
            "mother",
            "--member-id",
            "m",
            "--email",
            "a@b.kr",
        ];
        assert_eq!(client.get("/mother/profile", &sign(&email)).status, 404);
        let foreign = carebook()
            .args([
                "token",
                "--key",
                key,
                "--issuer",
                "https://other.test",
                "--audience",
                AUDIENCE,
            ])
            .args(hq)
            .output()
            .unwrap();
        let foreign = String::from_utf8(foreign.stdout).unwrap();
        assert_eq!(client.get(&path, foreign.trim()).status, 401);
    }
}

/// Runs a command with this on its standard input.
fn run_with_input(command: &mut Command, input: &str) -> (Option<i32>, String, String) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn facts_that_are_refused_are_told_so_while_their_input_says_nothing() {
    let world = World::new();
    let server = Server::start(&world);
    let url = format!("http://{}", server.address);
    let mut child = carebook()
        .args(["facts", "load", "-", "--url", &url, "--token", "none"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It stays open.
    let input = child.stdin.take().unwrap();
    crate::support::until("it ends", || child.try_wait().unwrap().is_some());
    drop(input);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("401"), "{err}");
}

#[test]
fn the_template_has_each_kind_once_and_every_way_in_takes_it() {
    let (code, template, err) = run(&["facts", "template"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let facts: Vec<Value> = template
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: std::collections::BTreeSet<_> = facts
        .iter()
        .map(|fact| fact["kind"].as_str().unwrap())
        .collect();
    assert_eq!((facts.len(), kinds.len()), (19, 19));

    let world = World::new();
    std::fs::write(world.path("facts.ndjson"), &template).unwrap();
    let file = world.path("facts.ndjson");
    let file = file.to_str().unwrap();
    let data = world.data();
    let data = data.to_str().unwrap();
    let counted = |out: &str| -> (i64, i64, i64) {
        let answer: Value = serde_json::from_str(out).unwrap_or_else(|_| panic!("{out}"));
        let count = |name: &str| answer[name].as_i64().unwrap();
        (count("applied"), count("unchanged"), count("invalid"))
    };
    // Into a directory that has no server, twice; the second time from standard input.
    let (code, out, err) = run(&["facts", "load", file, "--data", data, "--json"]);
    assert_eq!((code, counted(&out)), (Some(0), (19, 0, 0)), "{err}");
    let mut command = carebook();
    command.args(["facts", "load", "-", "--data", data, "--json"]);
    let (code, out, err) = run_with_input(&mut command, &template);
    assert_eq!((code, counted(&out)), (Some(0), (0, 19, 0)), "{err}");
    // To a server on it, with the token as an argument and in the environment.
    let server = Server::start(&world);
    let url = format!("http://{}", server.address);
    let token = world.workflow();
    let (code, out, err) = run(&[
        "facts", "load", file, "--url", &url, "--token", &token, "--json",
    ]);
    assert_eq!((code, counted(&out)), (Some(0), (0, 19, 0)), "{err}");
    let changed = template.replace("\"revision\":1", "\"revision\":2");
    let mut command = carebook();
    command
        .args(["facts", "load", "-", "--url", &url, "--json"])
        .env("CAREBOOK_TOKEN", &token);
    let (code, out, err) = run_with_input(&mut command, &changed);
    assert_eq!((code, counted(&out)), (Some(0), (19, 0, 0)), "{err}");
    // What is not in place afterwards is reported, and makes it a failure.
    let mut command = carebook();
    command.args(["facts", "load", "-", "--url", &url, "--token", &token]);
    let (code, out, err) = run_with_input(&mut command, "{}\nno json\n");
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("invalid"), "{out}");
    for words in [
        "line 1: invalid: kind: This field is required (required)",
        "line 2: invalid: The body is not a JSON text in UTF-8 of at most 32 levels and 200,000 values \
         (malformed_json)",
        "2 facts are not applied",
    ] {
        assert!(err.contains(words), "{err}");
    }
    // A token that may not.
    let (code, _, err) = run(&[
        "facts",
        "load",
        file,
        "--url",
        &url,
        "--token",
        &world.headquarters(),
    ]);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("403 Forbidden: ") && err.contains(" (permission_denied)"),
        "{err}"
    );
    assert!(!err.contains('{'), "{err}");
    // The server does not listen any more.
    assert_eq!(server.stop(), Some(0));
    let (code, _, err) = run(&["facts", "load", file, "--url", &url, "--token", &token]);
    assert_eq!(code, Some(1));
    assert!(err.contains(&url), "{err}");
}

/// A demonstration, and what it has printed up to the line to try.
struct Demo {
    child: Child,
    lines: Vec<String>,
}

impl Demo {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended: {lines:?}");
            let line = line.trim_end_matches('\n').to_owned();
            let is_last = line.trim_start().starts_with("-d ");
            lines.push(line);
            if is_last {
                break;
            }
        }
        std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
        Self { child, lines }
    }

    fn stop(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap().code()
    }

    fn address(&self) -> &str {
        self.lines[0].strip_prefix("listening on http://").unwrap()
    }

    fn token(&self, kind: &str) -> String {
        let start = format!("export {}='", kind.to_uppercase());
        let found = self.lines.iter().find_map(|line| line.strip_prefix(&start));
        found.unwrap().trim_end_matches('\'').to_owned()
    }

    /// Runs the line to try in a shell; what it printed.
    fn try_it(&self) -> Value {
        let from = self
            .lines
            .iter()
            .position(|line| line.starts_with("curl "))
            .unwrap();
        let line = self.lines[from..].join("\n");
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_demonstration_needs_nothing_and_its_line_works() {
    let world = World::new();
    let temporary = world.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = carebook();
    command
        .args(["serve", "--demo", "--listen", "127.0.0.1:0"])
        .env("TMPDIR", &temporary);
    let demo = Demo::start(&mut command);
    let statement = demo.try_it();
    assert_eq!(
        statement["status"], "awaiting_branch_deposit",
        "{statement}"
    );
    let mut client = Client::connect(demo.address());
    let path = format!(
        "/settlement-statements/{}",
        statement["statementId"].as_str().unwrap()
    );
    assert_eq!(client.get(&path, &demo.token("branch_manager")).status, 200);
    for kind in carebook::base::actor::ActorKind::ALL {
        let token = demo.token(kind.as_str());
        let answer = client.get("/settlement-statements/none", &token);
        assert_eq!(answer.status, 404, "{kind}: {answer:?}");
    }
    assert_eq!(
        client.get("/mother/profile", &demo.token("mother")).status,
        200
    );
    let fact = "/reference-facts/payment-obligation/payment-1";
    assert_eq!(client.get(fact, &demo.token("system_workflow")).status, 200);
    // All that it made is under the temporary directory.
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 1);
    assert_eq!(demo.stop(), Some(0));
}

#[test]
fn a_demonstration_in_a_directory_goes_on_where_it_ended() {
    let world = World::new();
    let start = || {
        let mut command = carebook();
        command
            .args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data"])
            .arg(world.data());
        Demo::start(&mut command)
    };
    let first = start();
    let statement = first.try_it();
    let path = format!(
        "/settlement-statements/{}",
        statement["statementId"].as_str().unwrap()
    );
    let token = first.token("headquarters_administrator");
    assert_eq!(first.stop(), Some(0));
    let second = start();
    let read = Client::connect(second.address()).get(&path, &token);
    assert_eq!((read.status, read.json()), (200, statement));
    second.try_it();
    assert_eq!(second.stop(), Some(0));
    assert_eq!(
        run(&["verify", "--data", world.data().to_str().unwrap()]).0,
        Some(0)
    );
}

/// What the server at this address answers to a stream of one fact, sent again each time that `next`
/// says so; as much as comes until its connection ends.
fn streaming(address: &str, token: &str, line: &str, next: impl Fn() -> bool + Sync) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /reference-facts HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("{:x}\r\n{line}\r\n", line.len());
    stream.write_all(chunk.as_bytes()).unwrap();
    let mut reading = stream.try_clone().unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| while next() && stream.write_all(chunk.as_bytes()).is_ok() {});
        let (mut text, mut piece) = (Vec::new(), [0; 1_024]);
        // Who goes on sending may find the connection reset in the end.
        while let Ok(read @ 1..) = reading.read(&mut piece) {
            text.extend_from_slice(&piece[..read]);
        }
        String::from_utf8(text).unwrap()
    })
}

#[test]
fn an_active_or_silent_fact_stream_is_answered_when_the_server_stops() {
    let line = carebook::domain::reference::samples::NDJSON.lines().next();
    let line = format!("{}\n", line.unwrap());
    let fact: Value = serde_json::from_str(&line).unwrap();
    let text = |name: &str| fact[name].as_str().unwrap();
    let path = format!("/reference-facts/{}/{}", text("kind"), text("id"));
    let again = || {
        std::thread::sleep(Duration::from_millis(20));
        true
    };
    for goes_on in [false, true] {
        let world = World::new();
        let server = Server::start(&world);
        let (address, token) = (server.address.clone(), world.workflow());
        let answer = std::thread::scope(|threads| {
            let answer =
                threads.spawn(|| streaming(&address, &token, &line, || goes_on && again()));
            let mut reader = server.client();
            while reader.get(&path, &token).status == 404 {}
            assert_eq!(server.stop(), Some(0));
            answer.join().unwrap()
        });
        assert!(answer.starts_with("HTTP/1.1 503 "), "{goes_on}: {answer}");
        assert!(
            answer.contains("1 line was applied before that"),
            "{answer}"
        );
    }
}

/// A client that has sent the first `sent` bytes of a request for a deposit, with which the server has
/// begun: it has asked for the body.
fn begin(world: &World, server: &Server, body: &str, sent: usize) -> Client {
    let mut client = server.client();
    client.send_raw(
        format!(
            "POST /settlement-deposit-requests HTTP/1.1\r\nHost: test\r\n\
             Authorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            world.headquarters(),
            body.len()
        )
        .as_bytes(),
    );
    assert_eq!(client.read_answer("POST").unwrap().status, 100);
    client.send_raw(&body.as_bytes()[..sent]);
    client
}

#[test]
fn a_body_incomplete_when_the_server_stops_is_refused_without_effect() {
    let world = World::new();
    let server = Server::start(&world);
    let body = world.deposit_request("S", "key").to_string();
    let mut client = begin(&world, &server, &body, body.len() / 2);
    assert_eq!(server.stop(), Some(0));
    let answer = client.read_answer("POST").unwrap();
    assert_eq!(answer.json()["code"], "service_unavailable", "{answer:?}");
    assert_eq!(answer.status, 503);
}

#[test]
fn a_server_that_is_told_to_stop_answers_what_is_in_flight() {
    let world = World::new();
    let server = Server::start(&world);
    let address = server.address.clone();
    let mut idle = server.client();
    assert_eq!(idle.request("GET", "/healthz", &[], b"").status, 200);
    let body = world.deposit_request("S", "key").to_string();
    let (begun, rest) = body.split_at(body.len() / 2);
    let mut client = begin(&world, &server, &body, begun.len());
    let id = server.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    // A connection that waits is let go, and no new one is served.
    assert!(idle.read_answer("GET").is_err());
    if let Ok(mut late) = Client::try_connect(&address) {
        let asked = late.try_request("GET", "/healthz", &[], b"");
        assert!(asked.is_err(), "{asked:?}");
    }
    client.send_raw(rest.as_bytes());
    let answer = client.read_answer("POST").unwrap();
    assert_eq!(answer.status, 201);
    assert_eq!(server.ended_within(Duration::from_secs(10)), Some(0));
    // And what was answered is there.
    let server = Server::start(&world);
    let path = format!(
        "/settlement-statements/{}",
        answer.json()["statementId"].as_str().unwrap()
    );
    assert_eq!(
        server.client().get(&path, &world.headquarters()).text(),
        answer.text()
    );
}
