//! The demonstration: what it prints works as printed.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::Duration;

use carebook::cli::serve::demo::load_samples;
use carebook::engine::checkpointer::CheckpointPolicy;
use serde_json::Value;

use crate::durability::sync_failure::can_trace;
use crate::support::inside::{Inside, Wanted};
use crate::support::{Client, Server, World, carebook, files};

/// A demonstration that runs; killed when dropped.
struct Running {
    child: Child,
    address: String,
    lines: Vec<String>,
}

impl Running {
    fn start(data: &std::path::Path) -> Self {
        let mut child = carebook()
            .args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            lines.push(line.unwrap());
            // The body is the last line of the command to try.
            if lines.last().unwrap().starts_with("  -d ") {
                break;
            }
        }
        let address = lines[0].strip_prefix("listening on http://").unwrap();
        Self {
            address: address.to_owned(),
            child,
            lines,
        }
    }

    /// The text between `before` and `after` in the first line that has both.
    fn between(&self, before: &str, after: &str) -> &str {
        let found = self.lines.iter().find_map(|line| {
            let (_, rest) = line.split_once(before)?;
            rest.split_once(after).map(|(value, _)| value)
        });
        found.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_command_that_the_demonstration_prints_is_answered_on_every_lane() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Running::start(&directory.path().join("demo"));
    let token = demo.between("-H 'Authorization: Bearer ", "'");
    let body: Value = serde_json::from_str(demo.between("-d '", "'")).unwrap();
    // Connections go to the lanes in turn; the sample facts were put in place by another runtime.
    for number in 0..20 {
        let mut client = Client::connect(&demo.address);
        let mut body = body.clone();
        body["statementCode"] = format!("DEMO-{number}").into();
        body["idempotencyKey"] = format!("demo-key-{number}").into();
        let answer = client.post("/settlement-deposit-requests", token, &body);
        assert_eq!(answer.status, 201, "{}: {}", number, answer.text());
    }
}

#[test]
fn the_sample_facts_can_be_read_with_the_tokens_that_are_printed() {
    let directory = tempfile::tempdir().unwrap();
    let demo = Running::start(&directory.path().join("demo"));
    let workflow = demo.between("export SYSTEM_WORKFLOW='", "'");
    let answer = Client::connect(&demo.address).get("/reference-facts/actor/no-such", workflow);
    assert_eq!(answer.status, 404, "{}", answer.text());
    let mother = demo.between("export MOTHER='", "'");
    let answer = Client::connect(&demo.address).get("/mother/profile", mother);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Runs a server that has to end before it listens; its exit code and what it says.
#[track_caller]
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = carebook()
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut out).unwrap();
    if !out.is_empty() {
        child.kill().unwrap();
    }
    let code = child.wait().unwrap().code();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut err).unwrap();
    assert_eq!(out, "", "{arguments:?}: it listens");
    (code, err)
}

#[test]
fn a_demonstration_is_for_this_machine_unless_it_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("demo");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        for listener in ["--listen", "--internal-listen"] {
            let mut arguments = vec!["serve", "--demo", listener, address];
            if listener == "--internal-listen" {
                arguments.extend(["--listen", "127.0.0.1:0"]);
            }
            arguments.extend(["--data", data.to_str().unwrap()]);
            let (code, err) = refused(&arguments);
            assert_eq!(code, Some(2), "{arguments:?}: {err}");
            assert!(err.contains("--demo-public"), "{err}");
            assert!(!data.exists());
        }
    }
    let mut command = carebook();
    command
        .args(["serve", "--demo", "--demo-public", "--listen", "0.0.0.0:0"])
        .args(["--internal-listen", "127.0.0.1:0", "--data"])
        .arg(&data);
    assert_eq!(Server::spawn(command).stop(), Some(0));
    // What is allowed to a demonstration is nothing that a server takes.
    for flag in ["--demo-public", "--demo-over-existing"] {
        let (code, err) = refused(&["serve", flag, "--data", "d", "--jwks", "j"]);
        assert_eq!(code, Some(2), "{err}");
    }
}

#[test]
fn a_demonstration_refuses_a_foreign_directory_unless_its_option_is_set() {
    let world = World::new();
    assert_eq!(Server::start(&world).stop(), Some(0));
    let contents = || {
        let read = |path: std::path::PathBuf| (std::fs::read(&path).unwrap(), path);
        files(&world.data())
            .into_iter()
            .map(read)
            .collect::<Vec<_>>()
    };
    let before = contents();
    let data = world.data();
    let data = data.to_str().unwrap();
    let demo = ["serve", "--demo", "--listen", "127.0.0.1:0", "--data", data];
    let (code, err) = refused(&demo);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("--demo-over-existing"), "{err}");
    assert!(contents() == before, "nothing was changed");
    let started = |arguments: &[&str]| {
        let mut command = carebook();
        command.args(arguments);
        Server::spawn(command).stop()
    };
    assert_eq!(
        started(&[&demo[..], &["--demo-over-existing"]].concat()),
        Some(0)
    );
    // From then on it is one.
    assert_eq!(started(&demo), Some(0));
}

#[test]
fn a_demonstration_interrupted_while_it_made_its_key_starts_again() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("demo");
    std::fs::create_dir(&data).unwrap();
    let unfinished = data.join("demo-key.pem.carebook-new");
    std::fs::write(&unfinished, "-----BEGIN").unwrap();
    let demo = Running::start(&data);
    assert!(!unfinished.exists());
    let key = std::fs::metadata(data.join("demo-key.pem")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let workflow = demo.between("export SYSTEM_WORKFLOW='", "'");
    let answer = Client::connect(&demo.address).get("/reference-facts/actor/no-such", workflow);
    assert_eq!(answer.status, 404, "{}", answer.text());
    // Where the key itself is to be there is none until it is whole.
    let (traced, log) = (
        directory.path().join("traced"),
        directory.path().join("log"),
    );
    if !can_trace() {
        return;
    }
    let mut command = std::process::Command::new("strace");
    command.args(["-D", "-f", "-qq", "-e", "signal=none", "-e", "trace=write"]);
    command.args(["-e", "inject=write:signal=KILL:when=1", "-P"]);
    command.arg(traced.join("demo-key.pem")).arg("-P");
    command
        .arg(traced.join("demo-key.pem.carebook-new"))
        .arg("-o")
        .arg(log);
    command.arg(env!("CARGO_BIN_EXE_carebook"));
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data"]);
    let killed = command.arg(&traced).output().unwrap();
    assert_eq!(killed.status.code(), None, "{killed:?}");
    assert!(!traced.join("demo-key.pem").exists());
    Running::start(&traced);
}

#[test]
fn a_demonstration_writes_to_its_own_directory_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("demo");
    let victim = directory.path().join("victim");
    std::fs::create_dir(&data).unwrap();
    let demo = ["serve", "--demo", "--listen", "127.0.0.1:0", "--data"];
    let demo = [&demo[..], &[data.to_str().unwrap()]].concat();
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o777)).unwrap();
    let (code, err) = refused(&demo);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("chmod go-w") && err.contains("0777"), "{err}");
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o755)).unwrap();
    // Its key is never written where a link leads.
    std::os::unix::fs::symlink(&victim, data.join("demo-key.pem")).unwrap();
    let (code, err) = refused(&demo);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("demo-key.pem"), "{err}");
    assert!(!victim.exists());
}

#[test]
fn behind_the_end_of_the_sample_facts_it_is_told_that_they_are_over() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    inside.clock.run(Duration::from_secs(80 * 366 * 86_400));
    let why = load_samples(inside.engine()).unwrap_err().to_string();
    let over = "the sample facts end with the year 2099, and the clock says 21";
    assert!(why.starts_with(over), "{why}");
}

#[test]
fn a_demonstration_whose_keys_are_forgotten_starts_again() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    let engine = inside.engine();
    load_samples(engine).unwrap();
    engine.checkpoint_by(CheckpointPolicy {
        retention: Some(Duration::from_secs(3_600)),
        ..CheckpointPolicy::default()
    });
    // Their age is noted, and so they are old a day later.
    engine.snapshot_now(&mut |_| {}).unwrap();
    inside.clock.run(Duration::from_secs(86_400));
    engine.snapshot_now(&mut |_| {}).unwrap();
    let forgotten = engine.figures().checkpoints.forgotten_keys;
    assert!(forgotten >= 3, "{forgotten} keys are forgotten");
    let before = engine.durable();
    load_samples(engine).unwrap();
    assert_eq!(engine.durable(), before, "all of it is there already");
}
