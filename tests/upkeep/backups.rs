//! Backups of a busy server that is restarted, takes snapshots and compacts while they run, and
//! whose files are damaged: none is short, none is wrong, and a healthy directory is never refused.
//!
//! `BACKUPS=2000` takes that many; `SEED=…` plays the choices again.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::support::{Client, Server, World, carebook, files, run, seed};

/// What happens while a backup runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    Nothing,
    /// The server is stopped, and starts again.
    Restart,
    /// It is killed, and starts again.
    Kill,
    /// Two snapshots, after which the log lets go of what they cover.
    Snapshots,
    /// A bit is flipped before it begins.
    Flip,
}

fn rounds() -> u64 {
    let given = std::env::var("BACKUPS");
    given.map_or(10, |text| text.replace('_', "").parse().unwrap())
}

/// Sends commands to the current server, and notes the highest position in a response.
fn load(world: &World, address: &Mutex<String>, acknowledged: &AtomicU64, stop: &AtomicBool) {
    let bearer = format!("Bearer {}", world.headquarters());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let mut number = 0_u64;
    let mut client: Option<Client> = None;
    while !stop.load(Ordering::SeqCst) {
        let Some(open) = &mut client else {
            let now = address.lock().unwrap().clone();
            client = Client::try_connect(&now).ok();
            continue;
        };
        number += 1;
        let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
        let path = "/settlement-deposit-requests";
        match open.try_request("POST", path, &headers, body.to_string().as_bytes()) {
            Ok(answer) if answer.status == 201 => {
                let position = answer.position().unwrap();
                acknowledged.fetch_max(position, Ordering::SeqCst);
            }
            _ => client = None,
        }
    }
}

fn begin(data: &Path, copy: &Path) -> Child {
    let mut command: Command = carebook();
    command
        .args(["backup", "--json", "--data"])
        .arg(data)
        .arg("--to")
        .arg(copy)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// A flipped bit, which is put right again: where only what was written long ago is.
struct Flipped {
    path: PathBuf,
    file: File,
    at: u64,
    mask: u8,
}

impl Flipped {
    /// In a byte of a file of the log that is not written any more.
    fn one(data: &Path, random: &mut StdRng) -> Self {
        loop {
            let names = files(data).into_iter().filter(|path| {
                let name = path.file_name().unwrap().to_string_lossy();
                name == "manifest" || name.ends_with(".log") || name.ends_with(".snap")
            });
            let names: Vec<_> = names.collect();
            let path = names[random.random_range(0..names.len())].clone();
            // It may be gone by now.
            let mut options = File::options();
            let Ok(file) = options.read(true).write(true).open(&path) else {
                continue;
            };
            let bytes = std::fs::read(&path).unwrap_or_default();
            let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else {
                continue;
            };
            // Half of them in the beginning, where one byte means most.
            let most = if random.random_ratio(1, 2) {
                last.min(64)
            } else {
                last
            };
            let at = random.random_range(0..=most) as u64;
            let flipped = Self {
                path,
                file,
                at,
                mask: 1 << random.random_range(0..8),
            };
            flipped.turn();
            return flipped;
        }
    }

    fn turn(&self) {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, self.at).unwrap();
        byte[0] ^= self.mask;
        self.file.write_all_at(&byte, self.at).unwrap();
    }
}

#[test]
fn a_busy_restarted_damaged_server_is_backed_up_whole_or_refused() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let (mut whole, mut told) = (0, 0);
    let mut left = rounds();
    while left > 0 {
        let rounds = left.min(LIFE);
        let ended = life(seed, &mut random, rounds);
        (whole, told) = (whole + ended.0, told + ended.1);
        left -= rounds;
    }
    println!("{whole} backups were whole, {told} times damage was told");
    assert!(whole > 0);
}

/// How many backups are made of one directory, which grows all the while.
const LIFE: u64 = 25;

/// The life of one directory: how many backups were whole, and how many times damage was reported.
fn life(seed: u64, random: &mut StdRng, rounds: u64) -> (u64, u64) {
    let world = World::new();
    let data = world.data();
    let server = Server::start(&world);
    let address = Mutex::new(server.address.clone());
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut whole, mut told) = (0, 0);
    let server = std::thread::scope(|scope| {
        let mut server = server;
        scope.spawn(|| load(&world, &address, &acknowledged, &stop));
        let stopping = StopAtEnd(&stop);
        for round in 0..rounds {
            let meanwhile = match random.random_range(0..6) {
                0 => Meanwhile::Nothing,
                1 => Meanwhile::Restart,
                2 => Meanwhile::Kill,
                3 => Meanwhile::Snapshots,
                _ => Meanwhile::Flip,
            };
            let case = format!("SEED={seed}, round {round}: {meanwhile:?}");
            let copy = world.path("copy");
            let flipped = (meanwhile == Meanwhile::Flip).then(|| Flipped::one(&data, random));
            let before = acknowledged.load(Ordering::SeqCst);
            let child = begin(&data, &copy);
            let wait = Duration::from_micros(random.random_range(0..60_000));
            match meanwhile {
                Meanwhile::Nothing | Meanwhile::Flip => {}
                Meanwhile::Snapshots => {
                    std::thread::sleep(wait);
                    for _ in 0..2 {
                        server.signal("USR1");
                        std::thread::sleep(Duration::from_millis(40));
                    }
                }
                Meanwhile::Restart | Meanwhile::Kill => {
                    std::thread::sleep(wait);
                    if meanwhile == Meanwhile::Kill {
                        server.kill();
                    } else {
                        assert_eq!(server.stop(), Some(0), "{case}");
                    }
                    server = Server::start(&world);
                    address.lock().unwrap().clone_from(&server.address);
                }
            }
            let output = child.wait_with_output().unwrap();
            let sentence = String::from_utf8(output.stderr).unwrap();
            if let Some(flipped) = &flipped {
                flipped.turn();
            }
            match (output.status.code(), &flipped) {
                (Some(0), _) => {
                    whole += 1;
                    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
                    let last = done["lastPosition"].as_u64().unwrap();
                    assert!(last >= before, "{case}: {last} of {before}");
                    let (code, out, err) =
                        run(&["verify", "--data", copy.to_str().unwrap(), "--json"]);
                    assert_eq!(code, Some(0), "{case}: {err}");
                    let found: Value = serde_json::from_str(&out).unwrap();
                    assert_eq!(found["lastPosition"], last, "{case}");
                }
                (Some(3), Some(flipped)) => {
                    told += 1;
                    let name = flipped.path.to_str().unwrap();
                    assert!(
                        sentence.contains(name) && sentence.contains("offset"),
                        "{case}, byte {}: {sentence}",
                        flipped.at
                    );
                }
                (code, _) => panic!("{case}: exit code {code:?}: {sentence}"),
            }
            std::fs::remove_dir_all(&copy).unwrap();
        }
        drop(stopping);
        server
    });
    assert_eq!(server.stop(), Some(0));
    let (code, _, err) = run(&["verify", "--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(0), "every flip was put right: {err}");
    (whole, told)
}

/// Ends the load also when the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
