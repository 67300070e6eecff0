//! What is for inside has a listener of its own when it is given one; the page of metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::process::Command;

use carebook::catalogue::{self, OPERATIONS};
use procfs::process::Process;
use procfs::sys::kernel::Version;
use serde_json::json;

use crate::support::{Answer, Client, Server, World, carebook, run, serve_arguments};

fn ask(client: &mut Client, method: &str, path: &str) -> Answer {
    let json = [("Content-Type", "application/json")];
    client.request(method, path, &json, b"{}")
}

/// The page as a parser of the format sees it: each sample's name and labels with its value. A
/// line that is none, a sample given twice, or one whose name was not announced is a fault.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let mut kinds = BTreeMap::new();
    let mut samples = BTreeMap::new();
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(
                kinds.insert(name.to_owned(), kind.to_owned()),
                None,
                "{line}"
            );
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        let is_name = |name: &str| {
            let letters = name
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
            letters && !name.is_empty() && !name.as_bytes()[0].is_ascii_digit()
        };
        assert!(is_name(name), "{line}");
        let labels = labels.strip_suffix('}').unwrap();
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (label, quoted) = label.split_once('=').unwrap();
            assert!(is_name(label), "{line}");
            assert!(quoted.starts_with('"') && quoted.ends_with('"'), "{line}");
        }
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| {
                name.strip_suffix(suffix)
                    .filter(|name| kinds.contains_key(*name))
            })
            .unwrap_or(name);
        assert!(kinds.contains_key(family), "{line}");
        assert_eq!(samples.insert(sample.to_owned(), value), None, "{line}");
    }
    samples
}

fn metrics(client: &mut Client) -> BTreeMap<String, f64> {
    let answer = client.request("GET", "/metrics", &[], b"");
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    samples(answer.text())
}

#[test]
fn routes_without_a_token_are_on_the_internal_listener_alone() {
    let world = World::new();
    // The console would have there what it asks.
    let apart = ["--internal-listen", "127.0.0.1:0", "--console", "off"];
    let server = Server::start_with(&world, &apart);
    let (mut outside, mut inside) = (
        server.client(),
        Client::connect(server.internal.as_ref().unwrap()),
    );
    for row in OPERATIONS {
        let path = row.path.replace(['{', '}'], "");
        let method = match row.method {
            catalogue::Method::Post => "POST",
            catalogue::Method::Patch => "PATCH",
            catalogue::Method::Delete => "DELETE",
        };
        let (here, there) = if row.bearer {
            (&mut outside, &mut inside)
        } else {
            (&mut inside, &mut outside)
        };
        let answer = ask(here, method, &path);
        let expected = if row.bearer { [401, 401] } else { [400, 422] };
        assert!(expected.contains(&answer.status), "{path}: {answer:?}");
        let answer = ask(there, method, &path);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.json()["code"], "route_not_found");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(ask(&mut outside, "GET", path).status, 200);
        assert_eq!(ask(&mut inside, "GET", path).status, 200);
    }
    let refused = ask(&mut outside, "GET", "/metrics");
    assert_eq!(refused.json()["code"], "route_not_found");
    // It covers both listeners.
    let counted = metrics(&mut inside);
    let health = "carebook_requests_total{operation=\"healthz\",status=\"2xx\"}";
    assert_eq!(counted[health], 2.0);
    let nowhere = "carebook_requests_total{operation=\"other\",status=\"4xx\"}";
    assert_eq!(counted[nowhere], OPERATIONS.len() as f64 + 1.0);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn without_a_listener_for_inside_everything_is_on_the_one() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(server.internal, None);
    let mut client = server.client();
    for row in OPERATIONS.iter().filter(|row| !row.bearer) {
        let answer = ask(&mut client, "POST", row.path);
        assert!([400, 422].contains(&answer.status), "{answer:?}");
    }
    metrics(&mut client);
    assert_eq!(ask(&mut client, "POST", "/metrics").status, 405);
}

#[test]
fn metrics_go_up_with_what_is_asked() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let before = metrics(&mut client);
    let post = |client: &mut Client, body| {
        client.post("/settlement-deposit-requests", &world.headquarters(), &body)
    };
    for number in 0..3 {
        let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
        assert_eq!(post(&mut client, body).status, 201);
    }
    assert_eq!(post(&mut client, json!({})).status, 400);
    let after = metrics(&mut client);
    let gained = |sample: &str| after[sample] - before[sample];
    let name = OPERATIONS
        .iter()
        .find(|row| row.path == "/settlement-deposit-requests")
        .unwrap()
        .name;
    let requests = format!("carebook_requests_total{{operation=\"{name}\"");
    assert_eq!(gained(&format!("{requests},status=\"2xx\"}}")), 3.0);
    assert_eq!(gained(&format!("{requests},status=\"4xx\"}}")), 1.0);
    assert_eq!(gained(&format!("{requests},status=\"5xx\"}}")), 0.0);
    let took = "carebook_request_duration_seconds";
    let of = format!("operation=\"{name}\"");
    assert_eq!(gained(&format!("{took}_count{{{of}}}")), 4.0);
    assert_eq!(gained(&format!("{took}_bucket{{{of},le=\"+Inf\"}}")), 4.0);
    assert!(gained(&format!("{took}_sum{{{of}}}")) > 0.0);
    let mut last = 0.0;
    for bound in ["0.0001", "0.001", "0.01", "0.1", "1", "+Inf"] {
        let count = after[&format!("{took}_bucket{{{of},le=\"{bound}\"}}")];
        assert!(count >= last, "buckets add up");
        last = count;
    }
    assert_eq!(gained("carebook_durable_position"), 3.0);
    assert_eq!(gained("carebook_resources"), 3.0);
    assert_eq!(gained("carebook_idempotency_keys"), 3.0);
    assert_eq!(gained("carebook_log_batch_duration_seconds_count"), 3.0);
    assert!(gained("carebook_log_batch_duration_seconds_sum") > 0.0);
    for idle in [
        "carebook_commands_in_flight",
        "carebook_requests_shed_total",
        "carebook_log_queued_bytes",
        "carebook_outbox_unclaimed",
    ] {
        assert_eq!(after[idle], 0.0, "{idle}");
    }
}

#[test]
fn shed_requests_are_counted() {
    let world = World::new();
    let server = Server::start_with(&world, &["--commands-shed"]);
    let mut client = server.client();
    let body = world.deposit_request("S-1", "key-1");
    let answer = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
    assert_eq!(answer.status, 429);
    assert_eq!(metrics(&mut client)["carebook_requests_shed_total"], 1.0);
}

/// What the kernel reports of a process or of one of its threads.
fn told(of: &std::path::Path, what: &str) -> Option<String> {
    let status = std::fs::read_to_string(of.join("status")).unwrap();
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    Some(value?.trim().to_owned())
}

#[test]
fn a_server_has_huge_pages_only_on_request_and_none_while_it_is_small() {
    let world = World::new();
    let server = Server::start(&world);
    let own = std::path::PathBuf::from(format!("/proc/{}", server.id()));
    let given = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let asks = given.is_ok_and(|given| !given.contains("[always]"));
    // A kernel without huge pages reports nothing of them.
    let test = std::path::Path::new("/proc/self");
    let expected =
        told(test, "THP_enabled").map(|of_test| if asks { of_test } else { "0".to_owned() });
    assert_eq!(told(&own, "THP_enabled"), expected);
    let memory = std::fs::read_to_string(own.join("smaps_rollup")).unwrap();
    let mut lines = memory.lines();
    let huge = lines.find_map(|line| line.strip_prefix("AnonHugePages:"));
    assert_eq!(huge.map(str::trim), Some("0 kB"));
}

#[test]
fn memory_is_made_ready_where_nobody_else_wants_a_processor() {
    let world = World::new();
    let server = Server::start(&world);
    let own = Process::new(server.id().try_into().unwrap()).unwrap();
    let policies = || {
        let stats = own.tasks().unwrap().map(|task| task.unwrap().stat());
        let of_memory = stats
            .filter_map(Result::ok)
            .filter(|stat| stat.comm == "memory");
        of_memory.filter_map(|stat| stat.policy).collect::<Vec<_>>()
    };
    let version = Version::current().unwrap();
    // The thread says so itself, once it runs: SCHED_IDLE. With an older kernel it has a lower priority only.
    let expected = if (version.major, version.minor) >= (6, 10) {
        5
    } else {
        0
    };
    let began = std::time::Instant::now();
    while policies() != [expected] {
        assert!(began.elapsed().as_secs() < 20, "{:?}", policies());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The processors that each lane of a server may use, and those of the server.
fn processors(server: &Server) -> (Vec<String>, String) {
    let own = std::path::PathBuf::from(format!("/proc/{}", server.id()));
    let allowed = |of: &std::path::Path| told(of, "Cpus_allowed_list").unwrap();
    let threads = std::fs::read_dir(own.join("task")).unwrap();
    let threads = threads.map(|thread| thread.unwrap().path());
    let lanes = threads.filter(|thread| {
        let name = std::fs::read_to_string(thread.join("comm"));
        name.unwrap().starts_with("lane-")
    });
    (lanes.map(|lane| allowed(&lane)).collect(), allowed(&own))
}

#[test]
fn lanes_have_a_processor_each_when_there_are_as_many_and_nobody_minds() {
    let count = std::thread::available_parallelism().unwrap().get();
    let more = (count + 1).to_string();
    for (arguments, are_bound) in [
        (&[][..], true),
        (&["--unbound"], false),
        (&["--runtimes", &more], false),
    ] {
        let world = World::new();
        let server = Server::start_with(&world, arguments);
        assert_eq!(server.client().get("/healthz", "").status, 200);
        let (mut lanes, all) = processors(&server);
        if are_bound {
            // A lane that has just begun has the processor of the one that started it,
            // and one that has not begun yet may use all. A thread that a lane has just started
            // has the lane's name until it takes its own.
            let own = |lane: &&String| lane.parse::<usize>().is_ok();
            let distinct =
                |lanes: &[String]| lanes.iter().filter(own).collect::<BTreeSet<_>>().len();
            for _ in 0..10_000 {
                if lanes.len() == count && distinct(&lanes) == count {
                    break;
                }
                assert_eq!(server.client().get("/healthz", "").status, 200);
                (lanes, _) = processors(&server);
            }
            assert_eq!(lanes.len(), count);
            assert_eq!(distinct(&lanes), count, "each has its own");
        } else {
            assert!(lanes.iter().all(|lane| *lane == all), "{arguments:?}");
        }
    }
}

#[test]
fn more_lanes_than_the_process_may_have_are_told_with_the_option() {
    let world = World::new();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 150 && exec \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_carebook"));
    let output = serve_arguments(&mut command, &world)
        .args(["--runtimes", "300"])
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("300 lanes cannot be started"), "{err}");
    assert!(err.contains("--runtimes"), "{err}");
}

/// Connections that stay open, and the number of those that the server has closed.
fn crowd(addresses: &[&str], count: usize) -> (Vec<Client>, usize) {
    let mut open = Vec::new();
    let mut closed = 0;
    for number in 0..count {
        let mut client = Client::connect(addresses[number % addresses.len()]);
        match client.try_request("GET", "/healthz", &[], b"") {
            Ok(_) => open.push(client),
            Err(_) => closed += 1,
        }
    }
    (open, closed)
}

#[test]
fn public_clients_leave_internal_ones_their_places_and_free_their_own() {
    for bound in ["--connections-max", "--connections-per-address-max"] {
        let world = World::new();
        let inside = ["--internal-listen", "127.0.0.1:0", bound, "8"];
        let server = Server::start_with(&world, &inside);
        let public = [&server.address[..]];
        let (mut open, closed) = crowd(&public, 10);
        assert_eq!((open.len(), closed), (8, 2), "{bound}");
        let internal = [&server.internal.as_ref().unwrap()[..]];
        let (inside, closed) = crowd(&internal, 8);
        assert_eq!((inside.len(), closed), (8, 0), "{bound}");
        open.pop();
        // The server hears of it when it does.
        while crowd(&public, 1).1 == 1 {}
    }
}

#[test]
fn one_address_has_1024_connections_unless_it_is_given_more() {
    let (_, help, _) = run(&["serve", "--help"]);
    let flag = help.split("--connections-per-address-max").nth(1).unwrap();
    let default = flag.split("[default: ").nth(1).unwrap();
    assert!(default.starts_with("1024]"), "{default}");
}

#[test]
fn connections_leave_the_descriptors_that_files_need() {
    let world = World::new();
    let mut arguments = carebook();
    serve_arguments(&mut arguments, &world);
    let words = std::iter::once(arguments.get_program()).chain(arguments.get_args());
    // The hard limit is as low, so that it cannot be raised.
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 200; exec \"$0\" \"$@\""])
        .args(words);
    let server = Server::spawn(command);
    let mut client = server.client();
    assert_eq!(client.get("/healthz", "").status, 200);
    let (open, closed) = crowd(&[&server.address], 250);
    assert!(closed > 150 && !open.is_empty(), "{closed} closed");
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap();
    let descriptors = descriptors.count();
    assert!(descriptors < 120, "{descriptors} in use of 200");
    let body = world.deposit_request("S", "key");
    let answer = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
    assert_eq!(answer.status, 201);
}

#[test]
fn the_limit_of_descriptors_is_raised_as_far_as_it_may() {
    let world = World::new();
    let mut arguments = carebook();
    serve_arguments(&mut arguments, &world);
    let words = std::iter::once(arguments.get_program()).chain(arguments.get_args());
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -S -n 100; exec \"$0\" \"$@\""])
        .args(words);
    let server = Server::spawn(command);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let words: Vec<_> = line.unwrap().split_whitespace().collect();
    assert_eq!(words[3], words[4], "soft and hard");
}

#[test]
fn routes_without_a_token_are_on_a_public_address_only_by_option() {
    let world = World::new();
    let start = |more: &[&str]| -> Command {
        let mut command = carebook();
        let mut near = carebook();
        serve_arguments(&mut near, &world);
        let far = |word: &OsStr| match word.to_str() {
            Some("127.0.0.1:0") => "0.0.0.0:0".into(),
            _ => word.to_owned(),
        };
        command.args(near.get_args().map(far)).args(more);
        command
    };
    let output = start(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("--internal-listen") && said.contains("--internal-public"),
        "{said}"
    );
    assert!(!world.data().exists());
    for more in [
        &["--internal-public"][..],
        &["--internal-listen", "127.0.0.1:0"],
    ] {
        let server = Server::spawn(start(more));
        assert_eq!(server.stop(), Some(0));
    }
    let both = start(&["--internal-public", "--internal-listen", "127.0.0.1:0"]).output();
    assert_eq!(both.unwrap().status.code(), Some(2));
}
