//! How many instructions the server takes for a command: counted by valgrind on the program as it is
//! released, under a closed loop over HTTP.
//!
//! A count hardly depends on how fast or how busy the machine is: by a hundredth, since that decides how many
//! batches the records fall into. So the least of three counts. SHA-256 is left out: valgrind has no
//! instructions for it, so what takes 4 % of the time would be a quarter of the count.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::callgrind::{self, Counted};
use crate::support::{Client, Server, World, or_skip, program, serve_arguments};

/// The programs that are counted, by the variables that name them, and their bounds: instructions in user
/// mode for one `request_deposit`. A debug build says nothing.
const COUNTED: [(&str, u64); 2] = [
    // What `cargo build --release` makes. A twentieth more than was counted when it was set.
    ("COUNTED_CAREBOOK", 80_500),
    // What `packaging/build-profiled` makes, and the gate counts (`docs/performance.md`).
    ("PROFILED_CAREBOOK", 60_000),
];
/// Requests in flight.
const CONNECTIONS: usize = 64;
/// Commands before the count begins: tables and pools have their usual sizes by then.
const BEFORE: usize = 600;
/// Commands that are counted.
const COMMANDS: usize = 3_000;
/// Counts, of which the least is judged.
const COUNTS: usize = 3;

/// Sends requests for a deposit, each a new statement, until `last` were sent.
fn send(world: &World, clients: &mut [Client], sent: &AtomicUsize, last: usize) {
    let token = world.headquarters();
    std::thread::scope(|threads| {
        for client in clients {
            threads.spawn(|| {
                loop {
                    let number = sent.fetch_add(1, Ordering::Relaxed);
                    if number >= last {
                        break;
                    }
                    let (code, key) = (format!("code-{number:08}"), format!("key-{number:08}"));
                    let body = world.deposit_request(&code, &key);
                    let answer = client.post("/settlement-deposit-requests", &token, &body);
                    assert_eq!(answer.status, 201, "{answer:?}");
                }
            });
        }
    });
    sent.store(last, Ordering::Relaxed);
}

/// The instructions of this program for a command, and those of SHA-256.
fn count(valgrind: &Path, carebook: &OsStr) -> (u64, u64) {
    let world = World::new();
    let out = world.path("callgrind.out");
    let mut command = callgrind::under(valgrind, &out, carebook);
    serve_arguments(&mut command, &world).args(["--snapshot-interval", "30d"]);
    let server = Server::spawn(command);
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| server.client()).collect();
    let sent = AtomicUsize::new(0);
    send(&world, &mut clients, &sent, BEFORE);
    callgrind::switch(server.id(), true).unwrap();
    send(&world, &mut clients, &sent, BEFORE + COMMANDS);
    callgrind::switch(server.id(), false).unwrap();
    drop(clients);
    assert_eq!(server.stop(), Some(0));
    let Counted { others, hashing } = callgrind::counted(&out).unwrap();
    assert!(hashing > 0, "tokens and fingerprints are hashed");
    (others / COMMANDS as u64, hashing / COMMANDS as u64)
}

#[test]
fn a_request_for_a_deposit_takes_no_more_instructions_than_it_did() {
    let named = |(variable, most)| Some((std::env::var_os(variable)?, most));
    let counted: Vec<_> = COUNTED.into_iter().filter_map(named).collect();
    if counted.is_empty() {
        let [(plain, _), (profiled, _)] = COUNTED;
        println!("SKIPPED: neither {plain} nor {profiled} names a carebook built for release");
        return;
    }
    let Some(valgrind) = or_skip(program("valgrind"), "valgrind") else {
        return;
    };
    for (carebook, most) in counted {
        let counts = (0..COUNTS).map(|_| count(&valgrind, &carebook));
        let (each, hashing) = counts.min().unwrap();
        println!("{each} instructions for a command, and {hashing} of SHA-256");
        assert!(
            each <= most,
            "{each} instructions for a command of {}, and not {most} at most",
            carebook.display()
        );
    }
}
