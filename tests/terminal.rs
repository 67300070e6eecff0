//! Manners of the program at a terminal and beside one: progress, colours, JSON, and errors that say
//! what to do.

use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Server, World, carebook, or_skip, program, run};

/// Runs the program at a terminal of unknown width; all that the terminal got.
fn at_a_terminal(arguments: &[&str], variables: &[(&str, &str)]) -> Option<String> {
    at_a_terminal_after("true", arguments, variables)
}

/// The same once a command has set the terminal.
fn at_a_terminal_after(
    set: &str,
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Option<String> {
    let script = or_skip(program("script"), "script (of util-linux)")?;
    let quoted = |word: &&str| format!("'{word}'");
    let words: Vec<_> = arguments.iter().map(quoted).collect();
    let program = env!("CARGO_BIN_EXE_carebook");
    let line = format!("{set} && {program} {}", words.join(" "));
    let mut command = Command::new(script);
    command
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::null());
    command.env_remove("NO_COLOR").env("TERM", "xterm");
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A world with a stopped server's data.
fn with_data() -> World {
    let world = World::new();
    request_deposits(&world, 0..5);
    world
}

/// Starts a server, which carries out a command for each number, and stops.
fn request_deposits(world: &World, numbers: Range<u32>) {
    let server = Server::start(world);
    let mut client = server.client();
    for number in numbers {
        let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
        let done = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
        assert_eq!(done.status, 201, "{done:?}");
    }
    assert_eq!(server.stop(), Some(0));
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn long_commands_show_progress_at_a_terminal_and_nowhere_else() {
    let world = with_data();
    let (code, template, _) = run(&["facts", "template"]);
    assert_eq!(code, Some(0));
    let (facts, data) = (world.path("facts.ndjson"), world.data());
    std::fs::write(&facts, template).unwrap();
    let (copy, new) = (world.path("copy"), world.path("new"));
    let (copy2, new2) = (world.path("copy2"), world.path("new2"));
    let data = name(&data);
    for (message, first, second) in [
        ("verifying", vec!["verify", "--data", data], vec![]),
        (
            "looking for damage",
            vec!["recover", "--data", data],
            vec![],
        ),
        (
            "copying",
            vec!["backup", "--data", data, "--to", name(&copy)],
            vec!["backup", "--data", data, "--to", name(&copy2)],
        ),
        (
            "restoring",
            vec!["restore", "--from", name(&copy), "--data", name(&new)],
            vec!["restore", "--from", name(&copy), "--data", name(&new2)],
        ),
        (
            "loading facts",
            vec!["facts", "load", name(&facts), "--data", data],
            vec![],
        ),
        ("recovering", vec!["outbox", "list", "--data", data], vec![]),
        (
            "writing a snapshot",
            vec!["compact", "--data", name(&new)],
            vec!["compact", "--data", name(&new2)],
        ),
    ] {
        let Some(shown) = at_a_terminal(&first, &[]) else {
            return;
        };
        assert!(shown.contains(message), "{first:?}: {shown:?}");
        let rate = shown.split(message).nth(1).unwrap();
        assert!(
            rate.contains("/s, ") && rate.contains("left"),
            "{first:?}: {shown:?}"
        );
        let again = if second.is_empty() { first } else { second };
        let (code, out, err) = run(&again);
        assert_eq!(code, Some(0), "{again:?}: {err}");
        assert!(
            !out.contains(message) && err.is_empty(),
            "{again:?}: {out}{err}"
        );
    }
}

/// Changes a byte in the middle of what the directory's log has.
fn damage(data: &str) {
    let log = crate::support::files(Path::new(data));
    let log = log
        .iter()
        .find(|file| name(file).ends_with(".log"))
        .unwrap();
    let mut bytes = std::fs::read(log).unwrap();
    let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 2;
    bytes[middle] ^= 1;
    std::fs::write(log, bytes).unwrap();
}

/// Each of these is shown with its rate and the time that is left.
#[track_caller]
fn is_shown(messages: &[&str], shown: &str) {
    for message in messages {
        let rate = shown.split(message).nth(1);
        let rate = rate.unwrap_or_else(|| panic!("no {message}: {shown:?}"));
        let bar = rate.split("left").next().unwrap();
        assert!(bar.contains("/s, "), "{message}: {shown:?}");
        // Of something that is more than nothing.
        let mut bars = shown.split(message).skip(1);
        let has_total = bars.any(|bar| !bar.contains("/0 B ") && !bar.contains("/0 "));
        assert!(has_total, "{message}: {shown:?}");
    }
}

#[test]
fn a_recovery_shows_how_far_each_of_its_steps_is() {
    let world = with_data();
    let (data, file) = (world.data(), world.path("behind.jsonl"));
    let data = name(&data);
    damage(data);
    let exporting = ["recover", "--data", data, "--export", name(&file)];
    let Some(shown) = at_a_terminal(&exporting, &[]) else {
        return;
    };
    is_shown(
        &[
            "looking for damage",
            "exporting",
            "reading the kept records",
            "reading the lost records",
        ],
        &shown,
    );
    let (_, report, _) = run(&["recover", "--data", data, "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let best = report["ways"][0]["giveUpAfter"].to_string();
    let giving_up = ["recover", "--data", data, "--give-up-after", &best];
    let shown = at_a_terminal(&giving_up, &[]).unwrap();
    is_shown(&["writing what is kept"], &shown);
    assert_eq!(run(&["verify", "--data", data]).0, Some(0));
}

#[test]
fn inspections_that_read_the_whole_log_before_printing_show_progress() {
    let world = with_data();
    let data = world.data();
    let data = name(&data);
    let (_, first, _) = run(&[
        "inspect", "records", "--data", data, "--json", "--limit", "1",
    ]);
    let first: Value = serde_json::from_str(&first).unwrap();
    let id = first["changes"][0]["id"][0].as_str();
    let id = id.unwrap_or_else(|| panic!("{first}")).to_owned();
    for round in ["of the log", "of a snapshot and the log after it"] {
        for (message, command) in [
            ("counting", vec!["counts"]),
            ("reading the log for keys", vec!["keys"]),
            (
                "reading the log",
                vec!["resource", "settlement-statement", &id],
            ),
        ] {
            let inspect = [&["inspect"], &command[..], &["--data", data]].concat();
            let Some(shown) = at_a_terminal(&inspect, &[]) else {
                return;
            };
            is_shown(&[message], &shown);
            let (code, out, err) = run(&inspect);
            assert_eq!(code, Some(0), "{round}: {err}");
            assert!(!out.contains(message) && !err.contains(message), "{err}");
        }
        assert_eq!(run(&["compact", "--keep", "0s", "--data", data]).0, Some(0));
        request_deposits(&world, 5..6);
    }
}

#[test]
fn a_compaction_that_archives_segments_shows_its_progress() {
    let world = with_data();
    let (data, copy) = (world.data(), world.path("copy"));
    let (archive, other) = (world.path("archive"), world.path("other"));
    let (data, copy) = (name(&data), name(&copy));
    assert_eq!(run(&["backup", "--data", data, "--to", copy]).0, Some(0));
    let compact = |data, archive| {
        let of_age = ["compact", "--keep", "0s", "--data", data];
        [&of_age[..], &["--archive", archive]].concat()
    };
    let Some(shown) = at_a_terminal(&compact(data, name(&archive)), &[]) else {
        return;
    };
    is_shown(
        &["writing a snapshot", "moving segments to the archive"],
        &shown,
    );
    assert!(
        shown.contains("removing what the snapshots cover"),
        "{shown:?}"
    );
    assert!(!crate::support::files(&archive).is_empty());
    let (code, out, err) = run(&compact(copy, name(&other)));
    assert_eq!(code, Some(0), "{err}");
    assert!(!out.contains("moving") && err.is_empty(), "{out}{err}");
}

/// What is shown, cut where the cursor goes elsewhere.
fn lines_of(shown: &str) -> Vec<&str> {
    let parts = shown.split(['\n', '\r', '\u{1b}']).map(|part| {
        // The cursor goes up or down, or the line is cleared.
        let mut moves = ["[1A", "[1B", "[2K"].into_iter();
        moves.find_map(|one| part.strip_prefix(one)).unwrap_or(part)
    });
    parts.collect()
}

#[test]
fn records_are_whole_lines_beside_how_far_the_log_is_read() {
    let world = with_data();
    let (data, facts) = (world.data(), world.path("facts.ndjson"));
    let data = name(&data);
    // So much that it is not printed in one piece.
    std::fs::write(&facts, run(&["facts", "template"]).1).unwrap();
    let load = ["facts", "load", name(&facts), "--data", data];
    assert_eq!(run(&load).0, Some(0));
    for how in [&[][..], &["--json"], &["--operation", "create_branch"]] {
        let inspect = [&["inspect", "records", "--data", data], how].concat();
        let Some(shown) = at_a_terminal(&inspect, &[]) else {
            return;
        };
        is_shown(&["reading the log"], &shown);
        let (code, out, err) = run(&inspect);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{how:?}");
        assert!(!out.contains("reading the log"), "{out}");
        // Each line is there as it is beside a terminal, on a line that is otherwise empty.
        let shown = lines_of(&shown);
        for line in out.lines() {
            assert!(shown.contains(&line), "{line:?} is not in {shown:#?}");
        }
    }
}

#[test]
fn tables_and_progress_fit_an_80_column_terminal_and_are_whole_elsewhere() {
    let world = with_data();
    let data = world.data();
    let inspect = ["inspect", "records", "--data", name(&data)];
    let narrow = "stty cols 80 rows 24";
    let Some(shown) = at_a_terminal_after(narrow, &inspect, &[]) else {
        return;
    };
    is_shown(&["reading the log"], &shown);
    let shown = lines_of(&shown);
    for line in &shown {
        assert!(line.chars().count() <= 80, "{line:?} in {shown:#?}");
    }
    let cut = shown.iter().filter(|line| line.contains('…')).count();
    let (_, out, _) = run(&inspect);
    let rows = out.lines().skip(1);
    let whole = rows.filter(|row| row.chars().count() > 80).count();
    assert!(whole > 4 && cut >= whole, "{shown:#?}");
    // JSON is as it is beside a terminal.
    let as_json = [&inspect[..], &["--json"]].concat();
    let shown = at_a_terminal_after(narrow, &as_json, &[]).unwrap();
    let shown = lines_of(&shown);
    for line in run(&as_json).1.lines() {
        assert!(shown.contains(&line), "{line:?} is not in {shown:#?}");
    }
}

#[test]
fn a_list_without_a_message_says_so_and_has_no_line_of_json() {
    let world = with_data();
    let data = world.data();
    let list = ["outbox", "list", "--state", "dead", "--data", name(&data)];
    assert_eq!(run(&list), (Some(0), "none\n".to_owned(), String::new()));
    let as_json = [&list[..], &["--json"]].concat();
    assert_eq!(run(&as_json), (Some(0), String::new(), String::new()));
}

#[test]
fn colours_are_for_a_terminal_that_wants_them() {
    let world = World::new();
    let file = world.path("carebook.toml");
    std::fs::write(
        &file,
        "issuer = \"https://id.example\"\njwks = \"missing\"\n",
    )
    .unwrap();
    let data = world.data();
    // The log of a start that fails, and an error about the arguments.
    let started = ["serve", "--data", name(&data), "--config", name(&file)];
    for arguments in [&started[..], &["serve", "--listen", "nowhere"]] {
        let is_coloured = |text: &str| text.contains("\u{1b}[");
        let Some(shown) = at_a_terminal(arguments, &[]) else {
            return;
        };
        assert!(is_coloured(&shown), "{shown:?}");
        let shown = at_a_terminal(arguments, &[("NO_COLOR", "1")]).unwrap();
        assert!(!shown.is_empty() && !is_coloured(&shown), "{shown:?}");
        // An empty one says nothing.
        let shown = at_a_terminal(arguments, &[("NO_COLOR", "")]).unwrap();
        assert!(is_coloured(&shown), "{shown:?}");
        let piped = carebook().args(arguments).output().unwrap();
        let piped = String::from_utf8(piped.stderr).unwrap();
        assert!(!piped.is_empty() && !is_coloured(&piped), "{piped:?}");
    }
}

/// Commands whose output is JSON anyway, or no data.
const WITHOUT_FLAG: [&[&str]; 4] = [
    &["facts", "template"],
    &["openapi"],
    &["completions"],
    &["man"],
];

#[test]
fn every_command_that_prints_data_prints_it_as_json() {
    fn walk(command: &clap::Command, path: &mut Vec<String>, seen: &mut usize) {
        let words: Vec<_> = path.iter().map(String::as_str).collect();
        let is_leaf = !command.has_subcommands();
        if is_leaf && !WITHOUT_FLAG.contains(&&words[..]) {
            let mut flags = command.get_arguments();
            let json = flags.any(|flag| flag.get_long() == Some("json"));
            assert!(json, "{path:?} has no --json");
        }
        *seen += usize::from(is_leaf);
        for part in command
            .get_subcommands()
            .filter(|part| part.get_name() != "help")
        {
            path.push(part.get_name().to_owned());
            walk(part, path, seen);
            path.pop();
        }
    }
    let mut seen = 0;
    walk(&carebook::cli::command(), &mut Vec::new(), &mut seen);
    assert!(seen > 15, "{seen}");
    for words in WITHOUT_FLAG {
        let (code, _, _) = run(&[words, &["--json"]].concat());
        assert_eq!(code, Some(2), "{words:?}");
    }
    let (_, template, _) = run(&["facts", "template"]);
    for line in template.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    serde_json::from_str::<Value>(&run(&["openapi"]).1).unwrap();
}

#[test]
fn keys_and_tokens_are_printed_as_json() {
    let world = World::new();
    let keys = world.path("keys");
    let (code, out, _) = run(&["token", "keygen", "--out", name(&keys), "--json"]);
    assert_eq!(code, Some(0));
    let made: Value = serde_json::from_str(&out).unwrap();
    let key = made["key"].as_str().unwrap();
    assert!(Path::new(key).is_file() && Path::new(made["keySet"].as_str().unwrap()).is_file());
    let kinds = [
        "--sub",
        "s",
        "--actor-kind",
        "mother",
        "--ttl",
        "30s",
        "--json",
    ];
    let (code, out, err) = run(&[&["token", "--key", key], &kinds[..]].concat());
    assert_eq!(code, Some(0), "{err}");
    let signed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(signed["token"].as_str().unwrap().split('.').count(), 3);
    assert!(
        signed["expiresAt"].as_str().unwrap().ends_with('Z'),
        "{signed}"
    );
}

#[test]
fn a_success_is_not_told_as_one_that_was_not_accepted() {
    let world = with_data();
    let data = world.data();
    let (code, out, _) = run(&["inspect", "records", "--data", name(&data), "--json"]);
    assert_eq!(code, Some(0));
    assert!(!out.contains("\"accepted\""), "{out}");
    let record: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(record["outcome"]["pending"], false, "{record}");
}

#[test]
fn errors_say_what_to_do_next() {
    let world = with_data();
    let data = world.data();
    let data = name(&data);
    let missing = world.path("missing");
    let missing = name(&missing);
    let other = world.path("other");
    let other = name(&other);
    for arguments in [
        &["verify", "--data", missing][..],
        &["backup", "--data", missing, "--to", other],
        &["restore", "--from", missing, "--data", other],
        &["recover", "--data", missing],
        &["compact", "--data", missing],
        &["inspect", "counts", "--data", missing],
        &["outbox", "list", "--data", missing],
    ] {
        let (code, _, err) = run(arguments);
        assert_eq!(code, Some(1), "{arguments:?}");
        assert!(
            err.contains("; name the directory that"),
            "{arguments:?}: {err}"
        );
    }
    let server = Server::start(&world);
    let (code, _, err) = run(&["verify", "--data", data]);
    assert_eq!(code, Some(4));
    assert!(
        err.contains("; or verify a copy, which `carebook backup`"),
        "{err}"
    );
    let (code, _, err) = run(&["compact", "--data", data]);
    assert_eq!(code, Some(1));
    assert!(
        err.contains("; a running server can be asked by inspect"),
        "{err}"
    );
    let jwks = world.path("jwks.json");
    let taken = ["--listen", &server.address, "--jwks", name(&jwks)];
    let (code, _, err) = run(&[&["serve", "--data", other], &taken[..]].concat());
    assert_eq!(code, Some(1));
    assert!(err.contains("; give another address"), "{err}");
    let url = format!("http://{}", server.address);
    assert_eq!(server.stop(), Some(0));
    let of_server = ["--url", &url, "--token", "t"];
    let (_, template, _) = run(&["facts", "template"]);
    let facts = world.path("facts.ndjson");
    std::fs::write(&facts, template).unwrap();
    for command in [
        &["facts", "load", name(&facts)][..],
        &["outbox", "list"],
        &["events"],
    ] {
        let (code, _, err) = run(&[command, &of_server[..]].concat());
        assert_eq!(code, Some(1), "{command:?}");
        assert!(err.contains("is the server running"), "{command:?}: {err}");
    }
    damage(data);
    let advice = "`carebook recover --data DIR` says what";
    let (code, _, err) = run(&["verify", "--data", data]);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains(&format!("; {advice}")), "{err}");
    // Which has said it itself.
    let (code, _, err) = run(&["recover", "--data", data]);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("; --give-up-after takes one"), "{err}");
    assert!(!err.contains(advice), "{err}");
}
