//! `carebook events`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::{all, played, reader};
use crate::support::stage::Stage;
use crate::support::{
    AUDIENCE, ISSUER, Server, World, actor, carebook, until, where_nobody_listens,
};
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
fn the_command_fails_with_the_words_of_the_server_s_refusal() {
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
    for arguments in [&[][..], &["--after", "1-0"]] {
        let mut unreached = Following::with(&address, &token, arguments);
        assert_eq!(unreached.end(), Some(1), "{arguments:?}");
    }
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
        Self::with(address, token, &[])
    }

    fn with(address: &str, token: &str, arguments: &[&str]) -> Self {
        let mut command = events(address, token, &["--follow", "--json"]);
        command.args(arguments);
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

    /// Waits for its end; its exit code.
    fn end(&mut self) -> Option<i32> {
        until("it ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }

    /// What it said on standard error, once it has ended.
    fn told(&mut self) -> String {
        let mut err = String::new();
        let mut told = self.child.stderr.take().unwrap();
        told.read_to_string(&mut err).unwrap();
        err
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

/// A server at this address, with the keys of one world and the data of another.
fn served_at(address: &str, keys: &World, data: &World) -> Server {
    let mut command = carebook();
    command
        .args(["serve", "--listen", address])
        .args(["--issuer", ISSUER, "--audience", AUDIENCE])
        .arg("--data")
        .arg(data.data())
        .arg("--jwks")
        .arg(keys.path("jwks.json"));
    Server::spawn(command)
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
fn following_prints_new_events_survives_a_break_and_ends_on_a_signal() {
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
    let server = served_at(&address, &world, &world);
    let third = commit(&world, &server, "c");
    assert_eq!(following.next()["id"], *third);
    let fourth = commit(&world, &server, "d");
    assert_eq!(following.next()["id"], *fourth);
    following.signal("INT");
    assert_eq!(following.child.wait().unwrap().code(), Some(0));
    let err = following.told();
    assert!(err.contains("tried again"), "{err}");
}

#[test]
fn it_ends_when_the_server_comes_back_with_another_log() {
    let (world, other) = (World::new(), World::new());
    // The other log is longer by one event than what is read of the first one.
    let server = Server::start(&other);
    commit(&other, &server, "x");
    commit(&other, &server, "y");
    server.kill();
    let server = Server::start(&world);
    let token = world.token(&reader());
    let first = commit(&world, &server, "a");
    let mut following = Following::start(&server.address, &token);
    assert_eq!(following.next()["id"], *first);
    let address = server.address.clone();
    server.kill();
    let _server = served_at(&address, &world, &other);
    assert_eq!(following.end(), Some(1));
    let mut rest = String::new();
    following.lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "no event of it is printed");
    let err = following.told();
    for words in ["another log", "begin without --after"] {
        assert!(err.contains(words), "{err}");
    }
}

#[test]
fn following_ends_when_the_server_s_log_ends_before_the_last_event_read() {
    let (world, other) = (World::new(), World::new());
    let server = Server::start(&other);
    commit(&other, &server, "x");
    server.kill();
    let server = Server::start(&world);
    let token = world.token(&reader());
    let read = ["a", "b", "c"].map(|name| commit(&world, &server, name));
    let mut following = Following::start(&server.address, &token);
    for id in &read {
        assert_eq!(following.next()["id"], **id);
    }
    let address = server.address.clone();
    server.kill();
    let server = served_at(&address, &world, &other);
    assert_eq!(following.end(), Some(1));
    let err = following.told();
    for words in ["another log", "begin without --after", &read[2]] {
        assert!(err.contains(words), "{words}: {err}");
    }
    // Where nothing was read of another one, the response says what is wrong.
    let after = ["--follow", "--after", &read[2]];
    let refused = events(&server.address, &token, &after).output().unwrap();
    let err = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{err}");
    assert!(err.contains("query.after"), "{err}");
}

/// A server that gives these answers, one for each request, whichever connection it comes on; its address.
fn answering(answers: Vec<(&'static str, &'static str)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut answers = answers.into_iter();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines
                .by_ref()
                .map_while(Result::ok)
                .any(|line| line.is_empty())
            {
                let Some((status, body)) = answers.next() else {
                    return;
                };
                let length = body.len();
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
                if stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    address
}

#[test]
fn a_busy_server_at_a_later_page_is_retried_only_while_following() {
    const FIRST: &str = r#"{"events": [{"id": "1-0"}], "next": "1-0", "end": false}"#;
    const NEXT: &str = r#"{"events": [{"id": "2-0"}], "next": "2-0", "end": true}"#;
    for busy in ["429 Too Many Requests", "503 Service Unavailable"] {
        let problem = r#"{"code": "so_it_says"}"#;
        let answers = || vec![("200 OK", FIRST), (busy, problem), ("200 OK", NEXT)];
        let ended = events(&answering(answers()), "token", &["--json"]).output();
        let ended = ended.unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{err}");
        assert!(err.contains("so_it_says"), "{err}");
        assert_eq!(ended.stdout, b"{\"id\": \"1-0\"}\n");
        let mut following = Following::start(&answering(answers()), "token");
        assert_eq!(following.next()["id"], "1-0");
        assert_eq!(following.next()["id"], "2-0", "{busy}");
        // At the beginning it is an answer like any other, also behind an event.
        let address = answering(vec![(busy, problem)]);
        let mut refused = Following::with(&address, "token", &["--after", "1-0"]);
        assert_eq!(refused.end(), Some(1), "{busy}");
        assert!(refused.told().contains("so_it_says"));
    }
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
