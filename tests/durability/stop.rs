//! Stopped under load, the server responds to what it has begun and exits.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::load::{Outcome, Town, memories};
use super::{SNAPSHOT_OFTEN, share};
use crate::support::{Client, Server, World, carebook, seed, serve_arguments};

#[test]
fn a_server_stopped_under_load_answers_what_it_has_read_and_keeps_it() {
    let seed = seed();
    let town = Town::new();
    let mut memories = memories(seed);
    let mut server = Server::start(&town.world);
    town.settle(&server);
    for round in 0..3 {
        let address = server.address.clone();
        std::thread::scope(|scope| {
            for memory in &mut memories {
                let (town, address) = (&town, &address);
                // Clients that hang up on purpose would leave commands without a response.
                scope.spawn(move || town.work_patiently(address, memory, round));
            }
            std::thread::sleep(Duration::from_millis(150));
            server.signal("TERM");
            // The drain's limit is 1.25 s; a machine that is busy with other tests says little of it.
            assert_eq!(server.ended_within(Duration::from_secs(30)), Some(0));
        });
        // No 5xx was among the answers.
        town.content();
        let unanswered = memories.iter().flat_map(|memory| &memory.sent);
        let unanswered = unanswered.filter(|sent| matches!(sent.outcome, Outcome::Unknown));
        println!("{} requests met a closed connection", unanswered.count());
        // A request without a response was not read: there is no record that no client knows of.
        town.compare_with_log();
        server = Server::start(&town.world);
        town.hold_to(&server, &mut memories, round == 2);
        town.content();
    }
    assert_eq!(server.stop(), Some(0));
    town.compare_with_log();
    println!("{}", town.figures);
}

/// Connections that keep a server from ending if it lets them: each says so much and no more.
fn hold(address: &str, requests_in_flight: bool) -> Vec<TcpStream> {
    let announced = "POST /reservation-financial-lifecycles/b/regional-benefit-charge-finalizations \
        HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{";
    let metrics = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1_000);
    let mut says = vec!["", "G", "GET /healthz HTTP/1.1\r\nHost: a\r\n"];
    if requests_in_flight {
        says.extend([announced, metrics.as_str()]);
    }
    let mut held = Vec::new();
    for said in says.repeat(4) {
        let Ok(mut stream) = TcpStream::connect(address) else {
            continue;
        };
        stream
            .set_write_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let _ = stream.write_all(said.as_bytes());
        held.push(stream);
    }
    held
}

#[test]
fn told_to_stop_at_any_time_it_ends_with_0_whoever_holds_on_to_it() {
    let stops = share("STOPS", 12);
    let mut random = StdRng::seed_from_u64(seed());
    let world = World::new();
    let token = world.headquarters();
    let number = AtomicU64::new(0);
    let mut longest = Duration::ZERO;
    for round in 0..stops {
        let server = Server::start_with(&world, SNAPSHOT_OFTEN);
        let address = server.address.clone();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // Each with a connection of its own, so that some come while it ends.
                    while !is_over.load(Ordering::SeqCst) {
                        let Ok(mut client) = Client::try_connect(&address) else {
                            // No server listens any more, or not yet again.
                            std::thread::sleep(Duration::from_millis(1));
                            continue;
                        };
                        let number = number.fetch_add(1, Ordering::SeqCst).to_string();
                        let body = world.deposit_request(&number, &number).to_string();
                        let bearer = format!("Bearer {token}");
                        let headers = [
                            ("Authorization", bearer.as_str()),
                            ("Content-Type", "application/json"),
                        ];
                        let path = "/settlement-deposit-requests";
                        for _ in 0..2 {
                            let sent = client.try_request("POST", path, &headers, body.as_bytes());
                            if sent.is_ok_and(|answer| answer.status >= 500) {
                                panic!("a request was refused, not left unread");
                            }
                        }
                    }
                });
            }
            // Requests that are in flight may take all the time that there is.
            let _held = hold(&address, round % 6 == 5);
            std::thread::sleep(Duration::from_millis(random.random_range(0..40)));
            let told = Instant::now();
            server.signal("TERM");
            let code = server.ended_within(Duration::from_secs(30));
            longest = longest.max(told.elapsed());
            is_over.store(true, Ordering::SeqCst);
            assert_eq!(code, Some(0), "round {round}");
        });
    }
    println!("{stops} stops, the longest {longest:?}");
    // A machine that is busy with other tests says nothing of time.
    if std::env::var_os("STOPS").is_some() {
        assert!(longest <= Duration::from_secs(2), "{longest:?}");
    }
}

/// Sends these signals, one after the other, to a server that starts: its exit code.
fn signalled_while_it_starts(signals: &[&str]) -> Option<i32> {
    let world = World::new();
    // It waits for a journal that does not answer before it opens anything of its own.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = carebook();
    serve_arguments(&mut command, &world)
        .arg("--journal")
        .arg(format!("nats://{}", silent.local_addr().unwrap()));
    let mut server = command.spawn().unwrap();
    let threads = format!("/proc/{}/task", server.id());
    let is_starting = || {
        let mut threads = std::fs::read_dir(&threads).unwrap().flatten();
        threads.any(|thread| {
            let name = std::fs::read_to_string(thread.path().join("comm"));
            name.is_ok_and(|name| name.trim() == "starting")
        })
    };
    while !is_starting() {
        assert!(server.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    for signal in signals {
        let mut kill = Command::new("kill");
        let told = kill.arg(format!("-{signal}")).arg(server.id().to_string());
        assert!(told.status().unwrap().success());
    }
    server.wait().unwrap().code()
}

#[test]
fn told_to_stop_before_it_listens_it_ends_with_0() {
    assert_eq!(signalled_while_it_starts(&["TERM"]), Some(0));
}

#[test]
fn asked_for_a_snapshot_before_it_listens_it_goes_on_starting() {
    assert_eq!(signalled_while_it_starts(&["USR1", "TERM"]), Some(0));
}
