//! Settings of `serve`: from flags, the environment, a file, and what is wrong with a file.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use carebook::cli::settings::{Known, known};
use serde_json::{Value, json};

use crate::support::{Server, World, carebook};

/// A world with all the files that settings may name.
fn world() -> World {
    let world = World::new();
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    // The form of NATS' credentials: a token that is not examined here, and the seed of a user's
    // key, made of zeros (prefix, 32 bytes, CRC 16; base32).
    let credentials = "-----BEGIN NATS USER JWT-----\nabc\n------END NATS USER JWT------\n\n\
        -----BEGIN USER NKEY SEED-----\nSUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEQ\n------END USER NKEY SEED------\n";
    let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n";
    for (name, text) in [
        ("cert.pem", signed.cert.pem()),
        ("key.pem", signed.signing_key.serialize_pem()),
        ("secret", secret.to_owned()),
        ("user.creds", credentials.to_owned()),
    ] {
        std::fs::write(world.path(name), text).unwrap();
    }
    for (from, to) in [
        ("jwks.json", "jwks2.json"),
        ("jwks.json", "jwks3.json"),
        ("cert.pem", "cert2.pem"),
        ("cert.pem", "cert3.pem"),
        ("key.pem", "key2.pem"),
        ("key.pem", "key3.pem"),
        ("secret", "secret2"),
        ("secret", "secret3"),
        ("user.creds", "user2.creds"),
        ("user.creds", "user3.creds"),
    ] {
        std::fs::copy(world.path(from), world.path(to)).unwrap();
    }
    world
}

/// Three good values of a setting, none of them its default: for the file, the environment, the
/// flag. What is a file is named below the world.
fn values(setting: &Known, world: &World) -> [String; 3] {
    let own = |names: [&str; 3]| names.map(|name| world.path(name).to_str().unwrap().to_owned());
    let topics = |names: [&str; 3]| own(names).map(|file| format!("*={file}"));
    let chosen = match setting.name.as_str() {
        "data" => return own(["data-1", "data-2", "data-3"]),
        "archive" => return own(["archive-1", "archive-2", "archive-3"]),
        "jwks" => return own(["jwks.json", "jwks2.json", "jwks3.json"]),
        "tls-cert" | "ca-file" => return own(["cert.pem", "cert2.pem", "cert3.pem"]),
        "tls-key" => return own(["key.pem", "key2.pem", "key3.pem"]),
        "nats-credentials" | "journal-credentials" => {
            return own(["user.creds", "user2.creds", "user3.creds"]);
        }
        "backup-status" => return own(["status-1", "status-2", "status-3"]),
        "webhook-key" => return own(["hook-1", "hook-2", "hook-3"]),
        "receiver-secret" => return topics(["secret", "secret2", "secret3"]),
        "receiver" => [
            "*=https://a.example/",
            "*=https://b.example/",
            "*=https://c.example/",
        ],
        "directory-url" | "journal-address" => [
            "https://a.example/",
            "https://b.example/",
            "https://c.example/",
        ],
        "cors-origin" => [
            "https://a.example",
            "https://b.example",
            "https://c.example",
        ],
        "journal" => ["nats://a.example", "nats://b,c", "tls://c.example,d:4333"],
        "journal-reads" => ["lease", "append", "lease"],
        "journal-name" | "journal-node" => ["a", "b", "c"],
        "journal-replicas" => ["1", "2", "4"],
        "journal-in-flight" => ["1", "2", "3"],
        "nats" => ["nats://a.example", "nats://b.example", "nats://c.example"],
        "webhooks-allow" => ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"],
        "otlp-endpoint" => ["http://a.example", "http://b.example", "http://c.example"],
        "log-format" => ["json", "text", "json"],
        "issuer" | "audience" | "console-client-id" | "console-scope" => ["a", "b", "c"],
        "console" => ["on", "off", "on"],
        "console-resource" => ["urn:a", "urn:b", "urn:c"],
        _ if setting.is_switch => ["true", "true", ""],
        _ => match setting.value.as_deref() {
            Some("ADDR") => ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"],
            Some("DURATION") => ["30m", "31m", "32m"],
            Some("N" | "BYTES" | "COUNT") => ["11", "12", "13"],
            value => panic!("--{} {value:?}: add values for it here", setting.name),
        },
    };
    chosen.map(str::to_owned)
}

/// What a setting needs beside it.
fn companions(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "tls-cert" => &[("tls-key", "key.pem")],
        "tls-key" => &[("tls-cert", "cert.pem")],
        "receiver-secret" => &[("receiver", "*=https://a.example/")],
        "nats-credentials" => &[("nats", "nats://a.example")],
        "console-client-id" => &[("issuer", "https://a.example")],
        "console-resource" => &[("console-client-id", "a"), ("issuer", "https://a.example")],
        "journal-name"
        | "journal-reads"
        | "journal-credentials"
        | "journal-replicas"
        | "journal-in-flight"
        | "journal-node"
        | "journal-address"
        | "standby" => &[("journal", "nats://a.example")],
        "demo" => &[],
        "demo-public" | "demo-over-existing" => &[("demo", "true")],
        _ => &[],
    }
}

/// The line of a file that sets it.
fn line(setting: &Known, value: &str) -> String {
    let written = match setting.is_bare {
        true => value.to_owned(),
        false => format!("{value:?}"),
    };
    match setting.is_list {
        true => format!("{} = [{written}]\n", setting.name),
        false => format!("{} = {written}\n", setting.name),
    }
}

/// `serve --check --json` with no other environment variables of carebook.
fn check(world: &World, file: &str) -> Command {
    let path = world.path("carebook.toml");
    std::fs::write(&path, file).unwrap();
    let mut command = carebook();
    command.args(["serve", "--check", "--json", "--config"]);
    command.arg(path);
    command
}

/// The settings by name, as they are printed.
fn checked(command: &mut Command) -> BTreeMap<String, Value> {
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{command:?}: {err}");
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = all["settings"].as_array().unwrap().clone();
    let named = all
        .into_iter()
        .map(|setting| (setting["name"].as_str().unwrap().to_owned(), setting));
    named.collect()
}

/// Standard error of a check that is refused, with the file's path taken out.
fn refused(world: &World, file: &str) -> String {
    let output = check(world, file).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{file}: {err}");
    assert_eq!(output.stdout, b"", "{file}");
    err.replace(world.path("carebook.toml").to_str().unwrap(), "FILE")
}

/// A value as it is printed.
fn printed(setting: &Known, value: &str) -> Value {
    let value = match (setting.is_switch, setting.is_bare) {
        (true, _) => json!(true),
        (_, true) => serde_json::from_str(value).unwrap(),
        (_, false) => json!(value),
    };
    match setting.is_list {
        true => json!([value]),
        false => value,
    }
}

#[test]
fn every_flag_can_be_set_by_file_or_environment_and_the_nearest_wins() {
    let world = world();
    let command = carebook::cli::command();
    let all = known(&command);
    let flags = command.find_subcommand("serve").unwrap().get_arguments();
    let flags: Vec<_> = flags.filter_map(|flag| flag.get_long()).collect();
    // Nor may a setting have the service take nothing.
    let others = ["config", "check", "json", "commands-shed"];
    assert_eq!(flags.len(), all.len() + others.len(), "{flags:?}");
    assert!(all.len() > 35, "{}", all.len());
    for setting in &all {
        let name = setting.name.as_str();
        let mut beside = String::new();
        for (other, value) in companions(name) {
            let other = all.iter().find(|known| known.name == *other).unwrap();
            let own = world.path(value);
            let value = if own.exists() {
                own.to_str().unwrap()
            } else {
                value
            };
            beside.push_str(&line(other, value));
        }
        let is_demo = name.starts_with("demo");
        for base in ["data", "jwks"] {
            if base != name && !is_demo {
                let base = all.iter().find(|known| known.name == base).unwrap();
                beside.push_str(&line(base, &values(base, &world)[0]));
            }
        }
        let [in_file, in_environment, in_flag] = values(setting, &world);
        let file = format!("{beside}{}", line(setting, &in_file));
        let at = file.lines().count();
        let shown = &checked(&mut check(&world, &file))[name];
        let mut wanted = json!({
            "name": name, "value": printed(setting, &in_file), "from": "file", "line": at,
        });
        assert_eq!(shown, &wanted, "{name}");
        let shown = checked(check(&world, &file).env(&setting.variable, &in_environment));
        wanted = json!({
            "name": name, "value": printed(setting, &in_environment),
            "from": "environment", "variable": setting.variable,
        });
        assert_eq!(shown[name], wanted, "{name}");
        let mut flag = check(&world, &file);
        flag.env(&setting.variable, &in_environment);
        flag.arg(format!("--{name}"));
        if !setting.is_switch {
            flag.arg(&in_flag);
        }
        wanted = json!({"name": name, "value": printed(setting, &in_flag), "from": "flag"});
        assert_eq!(checked(&mut flag)[name], wanted, "{name}");
        // Over the file alone, too.
        flag.env_remove(&setting.variable);
        assert_eq!(checked(&mut flag)[name], wanted, "{name}");
    }
}

#[test]
fn a_server_runs_by_its_file_alone() {
    let world = World::new();
    let file = world.path("carebook.toml");
    let text = format!(
        "data = {:?}\njwks = {:?}\nlisten = \"127.0.0.1:0\"\ninternal-listen = \"127.0.0.1:0\"\n\
         issuer = \"https://id.test\"\naudience = \"carebook-test\"\n",
        world.data(),
        world.path("jwks.json")
    );
    std::fs::write(&file, text).unwrap();
    let mut command = carebook();
    command.arg("serve").env("CAREBOOK_CONFIG", &file);
    let server = Server::spawn(command);
    let read = server
        .client()
        .get("/mother/profile", &world.headquarters());
    assert_eq!(read.status, 404, "{read:?}");
    assert_eq!(read.json()["code"], "not_found");
    // The figures are on the other listener, so what the file says was done.
    let metrics = server.client().request("GET", "/metrics", &[], b"");
    assert_eq!(metrics.status, 404);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn unknown_keys_are_refused_with_file_line_and_key_all_at_once() {
    let world = World::new();
    let file = "# The first line.\nlisten = \"127.0.0.1:0\"\nlissten = \"127.0.0.1:0\"\n\n\
                snapshot_interval = \"1h\"\nzzz = 1\n[tls]\ncert = \"x\"\n";
    assert_eq!(
        refused(&world, file),
        "carebook: FILE, line 3: unknown key 'lissten'; there is 'listen'\n\
         FILE, line 5: unknown key 'snapshot_interval'; there is 'snapshot-interval'\n\
         FILE, line 6: unknown key 'zzz'; `carebook serve --help` lists what there is\n\
         FILE, line 7: unknown key 'tls'; there is 'tls-key'\n"
    );
    for name in ["config", "check", "json", "help", "version"] {
        let err = refused(&world, &format!("{name} = true\n"));
        assert!(
            err.contains(&format!("line 1: unknown key '{name}'")),
            "{err}"
        );
    }
}

#[test]
fn a_bad_value_is_refused_with_its_line_and_the_flags_own_sentence() {
    let world = World::new();
    for (name, value, written) in [
        ("listen", "nowhere", "\"nowhere\""),
        ("snapshot-interval", "soon", "\"soon\""),
        ("idempotency-retention", "10ms", "\"10ms\""),
        ("runtimes", "-1", "-1"),
        ("reserve-bytes", "1.5", "1.5"),
        ("receiver", "x", "[\"x\"]"),
        ("webhooks-allow", "10", "[\n  # A comment.\n  \"10\"\n]"),
    ] {
        let flag = carebook()
            .args(["serve", "--demo", &format!("--{name}={value}")])
            .output()
            .unwrap();
        let flag = String::from_utf8(flag.stderr).unwrap();
        let sentence = flag.split("\n\n").next().unwrap();
        let sentence = sentence.strip_prefix("error: ").unwrap();
        let at = 2 + written.lines().count().saturating_sub(2);
        assert_eq!(
            refused(&world, &format!("demo = true\n{name} = {written}\n")),
            format!("carebook: FILE, line {at}: {sentence}\n")
        );
    }
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_its_line() {
    let world = World::new();
    for (wrong, sentence) in [
        (
            "listen = 8080",
            "invalid value '8080' for '--listen <ADDR>': it has to be a string, in quotes",
        ),
        (
            "snapshot-interval = 60",
            "invalid value '60' for '--snapshot-interval <DURATION>': it has to be a string, in quotes",
        ),
        (
            "runtimes = \"2\"",
            "invalid value '\"2\"' for '--runtimes <N>': it has to be a number, without quotes",
        ),
        (
            "unbound = \"yes\"",
            "invalid value '\"yes\"' for '--unbound': it has to be true or false, without quotes",
        ),
        (
            "unbound = 1",
            "invalid value '1' for '--unbound': it has to be true or false, without quotes",
        ),
        (
            "cors-origin = \"https://a.example\"",
            "invalid value '\"https://a.example\"' for '--cors-origin <ORIGIN>': it has to be an array of strings, in brackets",
        ),
        (
            "cors-origin = [1]",
            "invalid value '1' for '--cors-origin <ORIGIN>': it has to be a string, in quotes",
        ),
        (
            "audience = [\"a\"]",
            "invalid value '[\"a\"]' for '--audience <AUD>': it has to be a string, in quotes",
        ),
        (
            "audience = 2026-11-20",
            "invalid value '2026-11-20' for '--audience <AUD>': it has to be a string, in quotes",
        ),
    ] {
        assert_eq!(
            refused(&world, &format!("\n{wrong}\n")),
            format!("carebook: FILE, line 2: {sentence}\n")
        );
    }
}

#[test]
fn switches_and_numbers_in_the_settings_file_are_set_as_written() {
    let world = World::new();
    let file = format!(
        "data = \"x\"\njwks = {:?}\nunbound = false\nruntimes = 2\nreserve-bytes = 0x1_0000\n",
        world.path("jwks.json")
    );
    let all = checked(&mut check(&world, &file));
    for (name, value, line) in [
        ("unbound", json!(false), 3),
        ("runtimes", json!(2), 4),
        ("reserve-bytes", json!(65_536), 5),
    ] {
        let wanted = json!({"name": name, "value": value, "from": "file", "line": line});
        assert_eq!(all[name], wanted);
    }
    // A flag without help is not shown either, as long as it is not set.
    let command = carebook::cli::command();
    for hidden in known(&command).iter().filter(|known| known.is_hidden) {
        assert!(!all.contains_key(&hidden.name), "{}", hidden.name);
    }
}

#[test]
fn a_bad_variable_is_no_fault_of_the_file() {
    let world = World::new();
    let mut command = check(&world, "data = \"x\"\naudience = \"a\"\n");
    let output = command.env("CAREBOOK_RUNTIMES", "x").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(
        err.contains("invalid value 'x' for '--runtimes <N>'"),
        "{err}"
    );
    assert!(!err.contains(", line "), "{err}");
    let told = "CAREBOOK_RUNTIMES: --runtimes is set here";
    assert!(err.ends_with(&format!("{told}\n")), "{err}");
    // The flag comes before it.
    let output = command.args(["--runtimes", "y"]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("invalid value 'y'"), "{err}");
    assert!(!err.contains(told), "{err}");
}

#[test]
fn a_variable_that_sets_nothing_is_told_of_with_the_one_that_may_be_meant() {
    let world = World::new();
    let file = format!(
        "data = {:?}\njwks = {:?}\n",
        world.path("carebook.toml"),
        world.path("jwks.json")
    );
    let told = "the environment variable CAREBOOK_LISTN sets nothing; there is CAREBOOK_LISTEN\n";
    let mut checking = check(&world, &file);
    let mut starting = carebook();
    starting
        .args(["serve", "--config"])
        .arg(world.path("carebook.toml"));
    for (command, code) in [(&mut checking, 0), (&mut starting, 1)] {
        command.env("CAREBOOK_LISTN", "127.0.0.1:1");
        // An empty one is none, and these are others'.
        command.env("CAREBOOK_LITSEN", "");
        command.env("CAREBOOK_TOKEN", "x");
        command.env("CAREBOOK_SERVICE_HOST", "10.0.0.1");
        let output = command.output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{err}");
        assert!(err.contains(told), "{err}");
        assert_eq!(err.matches("sets nothing").count(), 1, "{err}");
    }
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    let world = World::new();
    for (file, line) in [
        ("listen = \n", 1),
        ("\n\nlisten = \"a\" \"b\"\n", 3),
        ("demo = true\ndemo = false\n", 2),
        ("demo = true\ndata = \"x", 2),
    ] {
        let err = refused(&world, file);
        assert!(
            err.starts_with(&format!("carebook: FILE, line {line}: ")),
            "{err}"
        );
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    let missing = world.path("nothing.toml");
    let output = carebook()
        .args(["serve", "--config"])
        .arg(&missing)
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("nothing.toml cannot be read"), "{err}");
    let long = format!("# {}\n", "x".repeat(1 << 20));
    let err = refused(&world, &long);
    assert!(
        err.contains("FILE cannot be read: it has more than 1 MiB"),
        "{err}"
    );
    std::fs::write(world.path("carebook.toml"), b"audience = \"\xff\"\n").unwrap();
    let output = carebook()
        .args(["serve", "--config"])
        .arg(world.path("carebook.toml"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn incompatible_settings_are_refused_with_their_lines_in_the_file() {
    let world = World::new();
    let err = refused(
        &world,
        "data = \"x\"\ninternal-public = true\ninternal-listen = \"127.0.0.1:0\"\nissuer = \"https://a.example\"\n",
    );
    assert!(
        err.contains("FILE, line 2: --internal-public is set here"),
        "{err}"
    );
    assert!(
        err.contains("FILE, line 3: --internal-listen is set here"),
        "{err}"
    );
    assert!(!err.contains("line 1:"), "{err}");
    assert!(err.find("line 2:") < err.find("line 3:"), "{err}");
    let err = refused(
        &world,
        "data = \"x\"\nissuer = \"https://a.example\"\ntls-cert = \"x\"\n",
    );
    assert!(err.contains("--tls-key <FILE>"), "{err}");
    // What is missing is on no line, what requires it is.
    assert!(
        err.contains("FILE, line 3: --tls-cert is set here, and requires --tls-key <FILE>"),
        "{err}"
    );
    assert!(
        !err.contains("line 1:") && !err.contains("line 2:"),
        "{err}"
    );
    let err = refused(
        &world,
        "journal-replicas = 3\ndata = \"x\"\nissuer = \"https://a.example\"\n",
    );
    assert!(
        err.contains("FILE, line 1: --journal-replicas is set here, and requires --journal <URL>"),
        "{err}"
    );
    assert!(!err.contains("--jwks is not needed"), "{err}");
}

#[test]
fn without_a_key_set_the_error_says_that_an_issuer_can_provide_it() {
    let world = World::new();
    let err = refused(&world, "data = \"x\"\n");
    assert!(err.contains("--jwks <FILE|URL>"), "{err}");
    assert!(
        err.contains(
            "--jwks is not needed where --issuer is the https URL of an identity provider"
        ),
        "{err}"
    );
    assert!(!err.contains("line 1:"), "{err}");
}

#[test]
fn a_variable_can_turn_a_switch_off_and_an_empty_one_sets_nothing() {
    let world = World::new();
    let file = format!(
        "data = \"x\"\njwks = {:?}\nunbound = true\n",
        world.path("jwks.json")
    );
    for (value, wanted) in [
        ("yes", (json!(true), "environment")),
        ("1", (json!(true), "environment")),
        ("", (json!(true), "file")),
    ] {
        let all = checked(check(&world, &file).env("CAREBOOK_UNBOUND", value));
        let unbound = &all["unbound"];
        assert_eq!(
            (&unbound["value"], unbound["from"].as_str()),
            (&wanted.0, Some(wanted.1))
        );
    }
    // The same of what is not a switch.
    let more =
        format!("{file}audience = \"a\"\nruntimes = 2\ncors-origin = [\"https://a.example\"]\n");
    let mut empty = check(&world, &more);
    for name in ["AUDIENCE", "RUNTIMES", "CORS_ORIGIN", "LISTEN"] {
        empty.env(format!("CAREBOOK_{name}"), "");
    }
    let all = checked(&mut empty);
    for (name, value, from) in [
        ("audience", json!("a"), "file"),
        ("runtimes", json!(2), "file"),
        ("cors-origin", json!(["https://a.example"]), "file"),
        ("listen", json!("127.0.0.1:8080"), "default"),
    ] {
        assert_eq!(all[name]["value"], value, "{name}");
        assert_eq!(all[name]["from"], from, "{name}");
    }
    // Off is off: the environment comes before the file.
    for value in ["false", "No", "0"] {
        let all = checked(check(&world, &file).env("CAREBOOK_UNBOUND", value));
        assert_eq!(all["unbound"]["value"], json!(false), "{value}");
        assert_eq!(all["unbound"]["from"], json!("environment"), "{value}");
    }
    let wrong = check(&world, &file)
        .env("CAREBOOK_UNBOUND", "perhaps")
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    // What another switch forbids is no matter while that one is off.
    for value in ["false", "FALSE", "Off"] {
        let all = checked(check(&world, &file).env("CAREBOOK_DEMO", value));
        assert_eq!(all["demo"]["value"], json!(false), "{value}");
        assert_eq!(all["demo"]["from"], json!("environment"), "{value}");
    }
}

#[test]
fn a_check_shows_no_password_and_starts_nothing() {
    let world = World::new();
    let data = world.data();
    let file = format!(
        "data = {data:?}\njwks = {:?}\nnats = \"nats://user:secret@nats.example:4222\"\n",
        world.path("jwks.json")
    );
    let output = check(&world, &file).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("nats://…@nats.example:4222"), "{out}");
    assert!(!out.contains("secret"), "{out}");
    assert!(!data.exists());
    // And for people.
    let path: PathBuf = world.path("carebook.toml");
    let output = carebook()
        .args(["serve", "--check", "--config"])
        .arg(path)
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(out.ends_with("these settings can be used\n"), "{out}");
    assert!(!out.contains("secret"), "{out}");
    // What cannot be used is reported as at a start.
    std::fs::write(world.path("jwks.json"), "no keys").unwrap();
    let output = check(&world, &file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_check_reads_the_webhook_key_and_the_archive_as_a_start_does() {
    let world = World::new();
    let base = format!(
        "data = {:?}\njwks = {:?}\n",
        world.data(),
        world.path("jwks.json")
    );
    let (key, archive) = (world.path("hook.key"), world.path("archive"));
    let judged = |name: &str, file: &Path| {
        let file = format!("{base}{name} = {file:?}\n");
        let output = check(&world, &file).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), err)
    };
    // Either may be made at a start.
    assert_eq!(judged("webhook-key", &key).0, Some(0));
    assert_eq!(judged("archive", &archive).0, Some(0));
    assert!(!key.exists() && !archive.exists());
    let good = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n";
    for (text, mode, told) in [
        (good, 0o600, None),
        (good, 0o640, Some("chmod 600")),
        ("nonsense\n", 0o600, Some("not 32 bytes in base64")),
    ] {
        std::fs::write(&key, text).unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(mode)).unwrap();
        let (code, err) = judged("webhook-key", &key);
        assert_eq!(code, Some(i32::from(told.is_some())), "{text}: {err}");
        assert!(err.contains(told.unwrap_or_default()), "{text}: {err}");
    }
    let (code, err) = judged("archive", &key);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("not a directory"), "{err}");
    std::fs::create_dir(&archive).unwrap();
    assert_eq!(judged("archive", &archive).0, Some(0));
    // Whoever removes the data directory would remove this one.
    let (code, err) = judged("archive", &world.data().join("archive"));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("lies in the data directory"), "{err}");
}

#[test]
fn a_check_reads_the_data_directory_s_webhook_key_unless_one_is_named() {
    let world = World::new();
    let base = format!(
        "data = {:?}\njwks = {:?}\n",
        world.data(),
        world.path("jwks.json")
    );
    let judged = |file: &str| {
        let output = check(&world, file).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), err)
    };
    // It may be made at a start, and is not made by a check.
    assert_eq!(judged(&base).0, Some(0));
    std::fs::create_dir_all(world.data()).unwrap();
    assert_eq!(judged(&base).0, Some(0));
    let (own, named) = (world.data().join("webhook.key"), world.path("hook.key"));
    assert!(!own.exists());
    let with_name = format!("{base}webhook-key = {named:?}\n");
    let good = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n";
    for (text, mode, told) in [
        (good, 0o600, None),
        (good, 0o640, Some("chmod 600")),
        ("nonsense\n", 0o600, Some("not 32 bytes in base64")),
    ] {
        std::fs::write(&own, text).unwrap();
        std::fs::set_permissions(&own, Permissions::from_mode(mode)).unwrap();
        let (code, err) = judged(&base);
        assert_eq!(code, Some(i32::from(told.is_some())), "{text}: {err}");
        assert!(err.contains(told.unwrap_or_default()), "{text}: {err}");
        let (code, err) = judged(&with_name);
        assert_eq!(code, Some(0), "{text}: {err}");
    }
}

#[test]
fn a_value_that_cannot_be_used_is_reported_without_its_password() {
    let world = World::new();
    for (name, value, is_list) in [
        ("nats", "nats://user:s3cr3t@h:99999", false),
        ("nats", "nats://user:s3/cr3t@h", false),
        ("nats", "tls:/user:s3cr3t@h", false),
        ("nats", "user:s3cr3t@h", false),
        ("journal", "nats://user:s3cr3t@h:99999,b", false),
        ("receiver", "*=https://user:s3cr3t@h/", true),
        ("receiver", "https://user:s3cr3t=@h/", true),
        ("directory-url", "https://user:s3cr3t@h/", false),
        ("otlp-endpoint", "https://user:s3cr3t@h", false),
        ("jwks", "https://user:s3cr3t@h/keys", false),
        ("cors-origin", "https://user:s3cr3t@h", true),
    ] {
        let written = match is_list {
            true => format!("[{value:?}]"),
            false => format!("{value:?}"),
        };
        // As a list where it is none, and the other way about.
        let otherwise = match is_list {
            true => format!("{value:?}"),
            false => format!("[{value:?}]"),
        };
        for written in [written, otherwise] {
            let err = refused(&world, &format!("data = \"x\"\n{name} = {written}\n"));
            assert!(err.contains("…@h"), "{err}");
            assert!(!err.contains("cr3t"), "{err}");
        }
        let variable = format!("CAREBOOK_{}", name.to_uppercase().replace('-', "_"));
        let mut by_variable = carebook();
        by_variable.args(["serve", "--demo"]).env(variable, value);
        let mut by_flag = carebook();
        by_flag.args(["serve", "--demo", &format!("--{name}={value}")]);
        for mut command in [by_variable, by_flag] {
            let output = command.output().unwrap();
            let err = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{name}: {err}");
            assert!(err.contains("…@h"), "{err}");
            assert!(!err.contains("cr3t"), "{err}");
        }
    }
}

#[test]
fn a_service_that_would_take_nothing_is_no_setting() {
    let world = World::new();
    for name in [
        "commands-max",
        "connections-max",
        "connections-per-address-max",
        "runtimes",
    ] {
        let err = refused(&world, &format!("demo = true\n{name} = 0\n"));
        let said = format!("line 2: invalid value '0' for '--{name} <N>': 0 is not in 1..");
        assert!(err.contains(&said), "{err}");
        let file = format!("demo = true\n{name} = 1\n");
        let shown = &checked(&mut check(&world, &file))[name];
        assert_eq!(shown["value"], json!(1), "{name}");
    }
}
