//! `carebook events`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::{all, played, reader};
use crate::support::stage::Stage;
use crate::support::{AUDIENCE, ISSUER, Server, World, actor, carebook, where_nobody_listens};
use carebook::base::actor::ActorKind;

/// The command against this address, with a token in its environment.
fn events(address: &str, token: &str, arguments: &[&str]) -> Command {
    let mut command = carebook();
    command
        .args(["events", "--url", &format!("http://{address}")])
        .args(arguments)
        .env("CAREBOOK_TOKEN", token);
    command
}

fn output(stage: &Stage, token: &str, arguments: &[&str]) -> Output {
    let address = &stage.theatre.server.address;
    events(address, token, arguments).output().unwrap()
}

/// What was printed, an object a line.
#[track_caller]
fn printed(output: &Output) -> Vec<Value> {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn all_pages_are_printed_as_objects_or_in_columns_that_line_up() {
    let stage = played();
    let token = stage.token(&reader());
    let whole = all(&mut stage.client(), &token, "", 1_000);
    assert_eq!(printed(&output(&stage, &token, &["--json"])), whole);
    let branches = all(
        &mut stage.client(),
        &token,
        "&type=carebook.branch.*",
        1_000,
    );
    let subject = branches[0]["subject"].as_str().unwrap();
    let of_one = all(
        &mut stage.client(),
        &token,
        &format!("&subject={subject}"),
        1_000,
    );
    let first = whole[0]["id"].as_str().unwrap();
    for (arguments, expected) in [
        (vec!["--type", "carebook.branch.*"], &branches[..]),
        (vec!["--subject", subject], &of_one[..]),
        (vec!["--after", first], &whole[1..]),
        (
            vec!["--type", "carebook.no", "--type", "carebook.nothing"],
            &[],
        ),
    ] {
        let arguments = [vec!["--json"], arguments].concat();
        assert_eq!(printed(&output(&stage, &token, &arguments)), expected);
    }
    let table = output(&stage, &token, &[]);
    let text = String::from_utf8(table.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), whole.len() + 1);
    let at = lines[0].find("subject").unwrap();
    for (line, event) in lines[1..].iter().zip(&whole) {
        let shown: Vec<_> = line.split_whitespace().collect();
        for (column, name) in ["id", "time", "type", "subject"].iter().enumerate() {
            assert_eq!(shown[column], event[name].as_str().unwrap());
        }
        assert!(line[at..].starts_with(shown[3]), "{line}");
    }
}

#[test]
fn what_the_server_refuses_the_command_refuses_with_its_words() {
    let stage = played();
    let token = stage.token(&reader());
    let mother = stage.token(&actor(ActorKind::Mother, "mother-1"));
    for (token, arguments, words) in [
        (&token, vec!["--after", "x"], ["400", "query.after"]),
        (&token, vec!["--type", "*"], ["400", "query.type"]),
        (&token, vec!["--after", "999999-0"], ["400", "query.after"]),
        (&mother, vec!["--follow"], ["403", "permission_denied"]),
        (
            &"nonsense".to_owned(),
            vec![],
            ["401", "authentication_required"],
        ),
    ] {
        let refused = output(&stage, token, &arguments);
        let err = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {err}");
        assert_eq!(refused.stdout, b"", "{arguments:?}");
        for word in words {
            assert!(err.contains(word), "{arguments:?}: {err}");
        }
    }
    let (address, _kept) = where_nobody_listens();
    let address = address.to_string();
    let unreached = events(&address, &token, &["--follow"]).output().unwrap();
    assert_eq!(unreached.status.code(), Some(1));
    let without = events(&address, "", &[]).output().unwrap();
    assert_eq!(without.status.code(), Some(2));
}

/// A command that follows, and what it prints; killed when dropped.
struct Following {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Following {
    fn start(address: &str, token: &str) -> Self {
        let mut command = events(address, token, &["--follow", "--json"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.parse()
            .unwrap_or_else(|_| panic!("no event: {line:?}"))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Commits something; its event's identifier.
fn commit(world: &World, server: &Server, name: &str) -> String {
    let body = world.deposit_request(&format!("code-{name}"), &format!("key-{name}"));
    let path = "/settlement-deposit-requests";
    let done = server.client().post(path, &world.headquarters(), &body);
    assert_eq!(done.status, 201, "{done:?}");
    format!("{}-0", done.position().unwrap())
}

#[test]
fn it_follows_what_comes_goes_on_after_a_break_and_ends_when_it_is_told_to() {
    let world = World::new();
    let server = Server::start(&world);
    let token = world.token(&reader());
    let first = commit(&world, &server, "a");
    let mut following = Following::start(&server.address, &token);
    assert_eq!(following.next()["id"], *first);
    let second = commit(&world, &server, "b");
    assert_eq!(following.next()["id"], *second);

    let address = server.address.clone();
    server.kill();
    // At the same address, where it was.
    let mut command = carebook();
    command
        .args(["serve", "--listen", &address])
        .args(["--issuer", ISSUER, "--audience", AUDIENCE])
        .arg("--data")
        .arg(world.data())
        .arg("--jwks")
        .arg(world.path("jwks.json"));
    let server = Server::spawn(command);
    let third = commit(&world, &server, "c");
    assert_eq!(following.next()["id"], *third);
    let fourth = commit(&world, &server, "d");
    assert_eq!(following.next()["id"], *fourth);
    following.signal("INT");
    assert_eq!(following.child.wait().unwrap().code(), Some(0));
    let mut err = String::new();
    let mut told = following.child.stderr.take().unwrap();
    told.read_to_string(&mut err).unwrap();
    assert!(err.contains("tried again"), "{err}");
}

#[test]
fn it_ends_well_when_nobody_reads_its_output() {
    let world = World::new();
    let server = Server::start(&world);
    let token = world.token(&reader());
    let first = commit(&world, &server, "a");
    let mut following = Following::start(&server.address, &token);
    assert_eq!(following.next()["id"], *first);
    let Following { child, lines } = &mut following;
    // `drop` cannot move out of it: another reader takes its place, from which nothing is read.
    let (closed, _) = std::io::pipe()
        .map(|(reader, writer)| (reader, drop(writer)))
        .unwrap();
    let closed = std::process::ChildStdout::from(std::os::fd::OwnedFd::from(closed));
    drop(std::mem::replace(lines, BufReader::new(closed)));
    let mut number = 0;
    while child.try_wait().unwrap().is_none() {
        commit(&world, &server, &format!("more-{number}"));
        number += 1;
        assert!(number < 10_000, "it still prints");
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
