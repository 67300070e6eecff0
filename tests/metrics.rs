//! The metrics of the running server: each is described in the documents, and each moves with what
//! it measures.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use carebook::base::actor::ActorKind;
use carebook::cli::token::signing::{Claims, SigningAlgorithm, SigningKey};
use carebook::http::figures_page::{Described, described, descriptions};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;

use crate::support::{Client, Server, World, actor, claims, run, until};

/// A series of the page of the listener for inside.
#[track_caller]
fn inside(server: &Server, series: &str) -> f64 {
    let mut client = Client::connect(server.internal.as_ref().unwrap());
    client.request("GET", "/metrics", &[], b"").metric(series)
}

/// A server over TLS, with a listener for inside; with what else it may tell of.
fn secured(world: &World, arguments: &[&str]) -> Server {
    certify(world, 3_600);
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| world.path(name));
    let mut all = vec!["--tls-cert", cert.to_str().unwrap()];
    all.extend(["--tls-key", key.to_str().unwrap()]);
    all.extend(["--internal-listen", "127.0.0.1:0"]);
    all.extend(arguments);
    Server::start_with(world, &all)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs().try_into().unwrap()
}

/// Puts a certificate where the server looks, which ends in so many seconds; when it ends.
fn certify(world: &World, seconds: i64) -> f64 {
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let ends = SystemTime::now() + Duration::from_secs(seconds.try_into().unwrap());
    parameters.not_after = ends.into();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    std::fs::write(world.path("key.pem"), key.serialize_pem()).unwrap();
    std::fs::write(world.path("cert.pem"), certificate.pem()).unwrap();
    let ends = ends.duration_since(UNIX_EPOCH).unwrap();
    ends.as_secs() as f64
}

/// A server that has figures of everything; they are inside.
pub(crate) fn with_every_metric(world: &World) -> Server {
    let status = world.path("backups.json");
    secured(
        world,
        &[
            "--nats",
            "nats://127.0.0.1:9",
            "--receiver",
            "*=http://127.0.0.1:9",
            "--backup-status",
            status.to_str().unwrap(),
            "--access-log",
            "--otlp-endpoint",
            "http://127.0.0.1:9",
        ],
    )
}

#[test]
fn every_metric_is_described_as_the_running_server_has_it() {
    let world = World::new();
    let server = with_every_metric(&world);
    let mut client = Client::connect(server.internal.as_ref().unwrap());
    let page = client.request("GET", "/metrics", &[], b"");
    let has: Vec<Described> = descriptions(page.text());
    let names: BTreeSet<_> = has.iter().map(|metric| &metric.name).collect();
    assert_eq!(names.len(), has.len(), "each is described once");
    // Those of a journal are compared with a server that has one, in `cluster::written`.
    let mut all = described();
    all.retain(|metric| !metric.name.starts_with("carebook_journal_"));
    let mut seen = all.iter();
    for metric in &has {
        // One without a subscription has no labels.
        let as_described = |known: &&Described| {
            (&known.name, &known.kind, &known.says) == (&metric.name, &metric.kind, &metric.says)
                && (metric.labels.is_empty() || known.labels == metric.labels)
        };
        assert!(seen.any(|known| as_described(&known)), "{metric:?}");
        assert!(["counter", "gauge", "histogram", "summary"].contains(&metric.kind.as_str()));
        let is_total = metric.name.ends_with("_total");
        assert_eq!(is_total, metric.kind == "counter", "{}", metric.name);
    }
    assert_eq!(has.len(), all.len());
    // Every sample belongs to what was described last.
    let mut last = String::new();
    for line in page.text().lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            head.split(' ').next().unwrap().clone_into(&mut last);
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&last), "{line} below {last}");
            let (_, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[test]
fn refused_tokens_are_counted_by_the_reason() {
    let world = World::new();
    let server = Server::start(&world);
    let hq = || actor(ActorKind::HeadquartersAdministrator, "hq-1");
    let refused = |reason: &str| {
        let series = format!("carebook_tokens_refused_total{{reason=\"{reason}\"}}");
        server.metric(&series)
    };
    let good = world.headquarters();
    let stranger = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
    let unknown = stranger.sign(&claims(&hq(), 3_600)).unwrap();
    let signed = |change: fn(&mut Claims)| {
        let mut claims = claims(&hq(), 3_600);
        change(&mut claims);
        format!("Bearer {}", world.key.sign(&claims).unwrap())
    };
    let (head, _) = good.split_once('.').unwrap();
    let (_, rest) = unknown.split_once('.').unwrap();
    let long = format!("Bearer {}", "a".repeat(9_000));
    for (reason, authorization) in [
        ("missing", None),
        ("malformed", Some("Bearer two words".to_owned())),
        ("too_long", Some(long)),
        ("not_compact", Some("Bearer nothing".to_owned())),
        ("header_malformed", Some("Bearer e30x.e30.e30".to_owned())),
        ("key_id_missing", Some("Bearer e30.e30.e30".to_owned())),
        ("key_unknown", Some(format!("Bearer {unknown}"))),
        ("signature_invalid", Some(format!("Bearer {head}.{rest}"))),
        (
            "issuer_mismatch",
            Some(signed(|claims| claims.iss = "another".into())),
        ),
        (
            "audience_mismatch",
            Some(signed(|claims| claims.aud = "another".into())),
        ),
        (
            "expired",
            Some(signed(|claims| {
                claims.iat -= 7_200;
                claims.exp -= 7_200;
            })),
        ),
        (
            "issued_in_future",
            Some(signed(|claims| {
                claims.iat += 7_200;
                claims.exp += 7_200;
            })),
        ),
    ] {
        let before = refused(reason);
        let headers = authorization
            .as_deref()
            .map(|value| ("Authorization", value));
        let headers: Vec<_> = headers.into_iter().collect();
        let answer = server
            .client()
            .request("GET", "/organization", &headers, b"");
        assert_eq!(answer.status, 401, "{reason}");
        assert_eq!(refused(reason), before + 1.0, "{reason}");
    }
    let page = server.client().request("GET", "/metrics", &[], b"");
    let samples = page.text().lines();
    let all = samples.filter_map(|line| line.strip_prefix("carebook_tokens_refused_total{"));
    let all = all.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap());
    assert_eq!(all.sum::<f64>(), 12.0, "each for one reason");
    let unauthorized =
        "carebook_requests_by_status_total{operation=\"read_organization\",status=\"401\"}";
    assert_eq!(page.metric(unauthorized), 12.0);
}

#[test]
fn connections_are_counted_and_so_is_why_one_is_refused() {
    let world = World::new();
    let server = Server::start_with(
        &world,
        &[
            "--connections-max",
            "5",
            "--connections-per-address-max",
            "3",
        ],
    );
    let mut client = server.client();
    let mut series = |name: &str| client.request("GET", "/metrics", &[], b"").metric(name);
    let of_address = "carebook_connections_refused_total{reason=\"too_many_of_address\"}";
    let of_all = "carebook_connections_refused_total{reason=\"too_many\"}";
    assert_eq!(series("carebook_connections"), 1.0);
    // From another address each two: of all five the last one is beyond.
    let connect = |host: u8| {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        let from = std::net::SocketAddr::from(([127, 0, 0, host], 0));
        rustix::net::bind(&socket, &from).unwrap();
        let to: std::net::SocketAddr = server.address.parse().unwrap();
        rustix::net::connect(&socket, &to).unwrap();
        TcpStream::from(socket)
    };
    let mut same: Vec<_> = (0..2).map(|_| connect(1)).collect();
    let mut beyond = connect(1);
    assert_eq!(beyond.read(&mut [0]).unwrap(), 0, "closed at once");
    assert_eq!(series(of_address), 1.0);
    assert_eq!(series(of_all), 0.0);
    assert_eq!(series("carebook_connections"), 3.0);
    let _others: Vec<_> = (0..2).map(|_| connect(2)).collect();
    let mut beyond = connect(3);
    assert_eq!(beyond.read(&mut [0]).unwrap(), 0, "closed at once");
    assert_eq!(series(of_all), 1.0);
    assert_eq!(series("carebook_connections"), 5.0);
    same.clear();
    until("they are closed", || series("carebook_connections") <= 3.0);
    // A server without a free descriptor accepts nothing, and says so.
    let process = Pid::from_raw(server.id().try_into().unwrap());
    let none = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    let before = prlimit(process, Resource::Nofile, none).unwrap();
    let not_accepted = "carebook_connections_refused_total{reason=\"not_accepted\"}";
    let waiting = connect(2);
    until("one is not accepted", || series(not_accepted) > 0.0);
    prlimit(process, Resource::Nofile, before).unwrap();
    drop(waiting);
}

#[test]
fn tls_handshakes_that_come_to_nothing_are_counted() {
    let world = World::new();
    let server = secured(&world, &[]);
    let refused = |reason: &str| {
        let series = format!("carebook_connections_refused_total{{reason=\"{reason}\"}}");
        inside(&server, &series)
    };
    // One says nothing, the other one nonsense.
    let silent = TcpStream::connect(&server.address).unwrap();
    let mut rude = TcpStream::connect(&server.address).unwrap();
    rude.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    until("the nonsense is counted", || refused("tls_failed") == 1.0);
    assert_eq!(refused("tls_too_slow"), 0.0);
    until("the silence is counted", || refused("tls_too_slow") == 1.0);
    drop(silent);
    assert_eq!(refused("tls_failed"), 1.0);
}

#[test]
fn the_end_of_the_certificate_in_use_is_told_and_what_cannot_be_used() {
    let world = World::new();
    let server = secured(&world, &[]);
    let ends = || inside(&server, "carebook_certificate_end_timestamp_seconds");
    let failures = || inside(&server, "carebook_certificate_failures_total");
    let is_usable = || inside(&server, "carebook_certificate_is_usable");
    let first = ends();
    assert!((first - (now() + 3_600) as f64).abs() < 60.0, "{first}");
    assert_eq!((is_usable(), failures()), (1.0, 0.0));
    let second = certify(&world, 86_400);
    server.signal("HUP");
    until("the new one is in use", || ends() == second);
    std::fs::write(world.path("cert.pem"), "nothing").unwrap();
    server.signal("HUP");
    until("it is told that it cannot be used", || failures() > 0.0);
    assert_eq!(ends(), second, "the last good one is in use");
    let counted = failures();
    server.signal("HUP");
    until("it is told again", || failures() > counted);
    assert_eq!(is_usable(), 0.0);
    let third = certify(&world, 172_800);
    server.signal("HUP");
    until("the next one is in use", || ends() == third);
    until("it is told that it can be used", || is_usable() == 1.0);
    std::fs::remove_file(world.path("cert.pem")).unwrap();
    server.signal("HUP");
    until("it is told that it is missing", || is_usable() == 0.0);
    assert_eq!(ends(), third, "the last good one is in use");
}

#[test]
fn statuses_that_somebody_is_woken_for_are_counted_apart() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let hq = world.headquarters();
    let path = "/settlement-deposit-requests";
    let of = |server: &Server, status: u16| {
        server.metric(&format!(
            "carebook_requests_by_status_total{{operation=\"request_deposit\",status=\"{status}\"}}"
        ))
    };
    let done = client.post(path, &hq, &world.deposit_request("S-1", "key-1"));
    assert_eq!(done.status, 201);
    let other = client.post(path, &hq, &world.deposit_request("S-2", "key-1"));
    assert_eq!(other.status, 409, "the key is used");
    let nobody = client.request("POST", path, &[], b"{}");
    assert_eq!(nobody.status, 401);
    for (status, count) in [(401, 1.0), (409, 1.0), (429, 0.0), (500, 0.0), (503, 0.0)] {
        assert_eq!(of(&server, status), count, "{status}");
    }
    drop(server);
    let server = Server::start_with(&world, &["--commands-shed"]);
    let shed = server
        .client()
        .post(path, &hq, &world.deposit_request("S-3", "key-3"));
    assert_eq!(shed.status, 429);
    assert_eq!((of(&server, 429), of(&server, 503)), (1.0, 0.0));
}

#[test]
fn why_commands_are_not_accepted_is_told_with_what_the_disk_has_free() {
    let world = World::new();
    let server = Server::start(&world);
    let unready = |server: &Server, reason: &str| {
        server.metric(&format!("carebook_unready{{reason=\"{reason}\"}}"))
    };
    let reasons = [
        "stopping",
        "log_failed",
        "disk_full",
        "no_segment",
        "no_journal",
    ];
    assert_eq!(server.metric("carebook_ready"), 1.0);
    for reason in reasons {
        assert_eq!(unready(&server, reason), 0.0, "{reason}");
    }
    assert_eq!(server.metric("carebook_disk_reserve_bytes"), 268_435_456.0);
    let stat = rustix::fs::statvfs(world.data()).unwrap();
    let free = (stat.f_bavail * stat.f_frsize) as f64;
    let told = server.metric("carebook_disk_free_bytes");
    assert!((told - free).abs() < 4e9, "{told}, and not {free}");
    drop(server);
    let server = Server::start_with(&world, &["--reserve-bytes", "9223372036854775807"]);
    assert_eq!(server.metric("carebook_ready"), 0.0);
    for reason in reasons {
        let expected = f64::from(u8::from(reason == "disk_full"));
        assert_eq!(unready(&server, reason), expected, "{reason}");
    }
    assert_eq!(
        server.client().request("GET", "/readyz", &[], b"").status,
        503
    );
    let answer = server.client().post(
        "/settlement-deposit-requests",
        &world.headquarters(),
        &world.deposit_request("S-1", "key-1"),
    );
    assert_eq!(answer.status, 503);
    let unavailable =
        "carebook_requests_by_status_total{operation=\"request_deposit\",status=\"503\"}";
    assert_eq!(server.metric(unavailable), 1.0);
}

#[test]
fn batches_are_counted_by_how_long_they_took_and_a_snapshot_has_an_age() {
    let world = World::new();
    let server = Server::start(&world);
    let name = "carebook_log_batch_duration_seconds";
    let bucket = |bound: &str| server.metric(&format!("{name}_bucket{{le=\"{bound}\"}}"));
    let before = bucket("+Inf");
    assert_eq!(
        server.metric("carebook_snapshot_age_seconds"),
        f64::INFINITY
    );
    let hq = world.headquarters();
    for number in 0..5 {
        let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
        let done = server
            .client()
            .post("/settlement-deposit-requests", &hq, &body);
        assert_eq!(done.status, 201);
    }
    assert_eq!(bucket("+Inf"), before + 5.0);
    assert_eq!(bucket("+Inf"), server.metric(&format!("{name}_count")));
    assert!(server.metric(&format!("{name}_sum")) > 0.0);
    let mut last = 0.0;
    for bound in wal::BATCH_BOUNDS {
        let count = bucket(&bound.as_secs_f64().to_string());
        assert!(count >= last, "buckets add up");
        last = count;
    }
    server.signal("USR1");
    until("a snapshot is taken", || {
        server.metric("carebook_snapshots_total") > 0.0
    });
    let age = server.metric("carebook_snapshot_age_seconds");
    assert!((0.0..60.0).contains(&age), "{age}");
    until("it grows older", || {
        server.metric("carebook_snapshot_age_seconds") > age
    });
}

#[test]
fn backups_are_told_of_by_the_file_in_which_they_say_how_they_went() {
    let world = World::new();
    let status = world.path("backups.json");
    let status = status.to_str().unwrap();
    let server = Server::start_with(&world, &["--backup-status", status]);
    let told = |name: &str| server.metric(&format!("carebook_backup_{name}"));
    assert_eq!(told("status_readable"), 0.0);
    assert_eq!(told("age_seconds"), f64::INFINITY);
    let done = server.client().post(
        "/settlement-deposit-requests",
        &world.headquarters(),
        &world.deposit_request("S-1", "key-1"),
    );
    assert_eq!(done.status, 201);
    let [data, copy] = [world.data(), world.path("copy")];
    let [data, copy] = [data.to_str().unwrap(), copy.to_str().unwrap()];
    let backup = ["backup", "--data", data, "--to", copy, "--status", status];
    assert_eq!(run(&backup).0, Some(0));
    server.signal("HUP");
    until("the backup is told of", || told("status_readable") == 1.0);
    assert!((0.0..60.0).contains(&told("age_seconds")));
    assert_eq!(told("position"), done.position().unwrap() as f64);
    assert!(told("bytes") > 1_000.0);
    assert_eq!(told("failures_total"), 0.0);
    // There is a copy already.
    assert_eq!(run(&backup).0, Some(1));
    server.signal("HUP");
    until("the failure is told of", || told("failures_total") == 1.0);
    assert_eq!(told("position"), done.position().unwrap() as f64);
    // Half a file, a file that leads nowhere, and none: what is known stays, and is said to be old.
    for broken in [Some("{\"lastSuccess\":{\"at\""), None] {
        match broken {
            Some(text) => std::fs::write(status, text).unwrap(),
            None => std::fs::remove_file(status).unwrap(),
        }
        server.signal("HUP");
        until("it cannot be read", || told("status_readable") == 0.0);
        assert_eq!(told("failures_total"), 1.0);
    }
    // A clock that was ahead makes no negative age.
    let ahead = json!({"lastSuccess": {"at": "2999-01-01T00:00:00Z", "lastPosition": 1, "bytes": 1},
        "failures": 0});
    std::fs::write(status, ahead.to_string()).unwrap();
    server.signal("HUP");
    until("it can be read", || told("status_readable") == 1.0);
    assert_eq!(told("age_seconds"), 0.0);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_backup_whose_status_cannot_be_written_is_there_and_fails() {
    let world = World::new();
    let server = Server::start(&world);
    assert_eq!(server.stop(), Some(0));
    let [data, copy] = [world.data(), world.path("copy")];
    let [data, copy] = [data.to_str().unwrap(), copy.to_str().unwrap()];
    let nowhere = world.path("nowhere").join("status.json");
    let nowhere = nowhere.to_str().unwrap();
    let (code, _, err) = run(&["backup", "--data", data, "--to", copy, "--status", nowhere]);
    assert_eq!(code, Some(1));
    // It is said before the copy is made, too.
    let (before, after) = err.split_once('\n').unwrap();
    assert!(before.contains("cannot be written as yet"), "{err}");
    assert!(after.contains("is verified; but --status"), "{err}");
    assert_eq!(run(&["verify", "--data", copy]).0, Some(0));
}

#[test]
fn the_process_is_told_of_as_the_kernel_sees_it() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let mut of = |name: &str| client.request("GET", "/metrics", &[], b"").metric(name);
    let (began, cpu) = (
        of("process_start_time_seconds"),
        of("process_cpu_seconds_total"),
    );
    assert!((began - now() as f64).abs() < 120.0, "{began}");
    let fds = of("process_open_fds");
    let more: Vec<_> = (0..5).map(|_| server.client()).collect();
    until("five are open", || of("process_open_fds") >= fds + 5.0);
    drop(more);
    until("it works", || of("process_cpu_seconds_total") > cpu);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let limit = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let limit: f64 = limit.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert_eq!(of("process_max_fds"), limit);
    let (resident, size) = (
        of("process_resident_memory_bytes"),
        of("process_virtual_memory_bytes"),
    );
    assert!(resident > 1e6 && size > resident, "{resident} of {size}");
    assert_eq!(of("process_start_time_seconds"), began);
    let version = env!("CARGO_PKG_VERSION");
    let build = client.request("GET", "/metrics", &[], b"");
    let build = build
        .text()
        .lines()
        .find(|line| line.starts_with("carebook_build_info{"));
    let build = build.unwrap();
    assert!(
        build.contains(&format!("version=\"{version}\"")) && build.ends_with(" 1"),
        "{build}"
    );
}
