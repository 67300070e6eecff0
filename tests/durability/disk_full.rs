//! The disk fills up under load, and is emptied again.
//!
//! ```text
//! DISK_FULL_ROUNDS=50 cargo test --release --test main durability::disk_full -- --nocapture
//! ```
//!
//! A round: the server runs under load of all operations on a small disk of its own (a tmpfs),
//! which something else then fills, down to a random rest below the reserve, now and then to the
//! last byte. Within a second commands are refused with 503 `service_unavailable`, snapshots fail
//! and harm nothing, reads go on. Room is made, and within a second commands are carried out again,
//! without any intervention. Sometimes the server is killed while the disk is full. Nothing that
//! was acknowledged is lost, and what was refused for want of room is not there.
//!
//! Where nothing may be mounted, the test says so and passes. A second one needs no rights: there,
//! strace makes the disk look full for a while (where it is missing, that one says so and passes).

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::chronicle::Compared;
use super::crowd::Crowd;
use super::share;
use super::sync_failure::can_trace;
use crate::model::world::{self, FACTS, WORKFLOW};
use crate::support::{Client, PATIENCE, Server, run, seed, serve_arguments, until};

/// The disk's bytes, and how many of them are the reserve.
const DISK: u64 = 96 << 20;
const RESERVE: u64 = 8 << 20;
/// Rounds on one disk.
const ROUNDS_OF_A_DISK: u64 = 10;

const ARGUMENTS: &[&str] = &[
    "--snapshot-log-bytes",
    "65536",
    "--reserve-bytes",
    "8388608",
];

/// A small disk; gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one, with the crowd's data directory on it; otherwise, why that is not possible.
    fn mount(crowd: &Crowd) -> Result<Self, String> {
        let place = crowd.world.path("disk");
        std::fs::create_dir(&place).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={DISK},mode=0700")])
            .arg("carebook-test")
            .arg(&place)
            .output()
            .map_err(|error| error.to_string())?;
        if !mounted.status.success() {
            return Err(String::from_utf8_lossy(&mounted.stderr).into_owned());
        }
        let disk = Self(place);
        std::fs::create_dir(disk.0.join("data")).unwrap();
        std::os::unix::fs::symlink(disk.0.join("data"), crowd.world.data()).unwrap();
        Ok(disk)
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Leaves so many bytes free; all that can be taken, when it is nothing.
    fn fill(&self, leave: u64) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.ballast())
            .unwrap();
        let page = vec![1; 64 << 10];
        while free(&self.0) > leave + page.len() as u64 {
            if file.write_all(&page).is_err() {
                return;
            }
        }
        while leave == 0 && file.write_all(&page[..4_096]).is_ok() {}
    }

    fn empty(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Also one that is in use still goes when its users are gone.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Free bytes of the disk on which a file is.
fn free(path: &Path) -> u64 {
    let stat = rustix::fs::statvfs(path).unwrap();
    stat.f_bavail * stat.f_frsize
}

/// Sends facts that were never there before, so that they need room, and are refused without.
struct Probe<'a> {
    crowd: &'a Crowd,
    client: Client,
    number: u64,
}

impl Probe<'_> {
    /// Whether the next one was taken.
    fn is_taken(&mut self) -> bool {
        self.number += 1;
        let answer = self.crowd.send(&mut self.client, &probe(self.number));
        let answer = answer.unwrap();
        let refused = answer.status == 503 && answer.json()["code"] == "service_unavailable";
        assert!(answer.status == 200 || refused, "{answer:?}");
        answer.status == 200
    }

    /// Waits until they are taken, or refused; how long it took.
    #[track_caller]
    fn until(&mut self, taken: bool) -> Duration {
        let started = Instant::now();
        while self.is_taken() != taken {
            assert!(started.elapsed() < PATIENCE, "taken: {taken} does not come");
            std::thread::sleep(Duration::from_millis(5));
        }
        started.elapsed()
    }
}

/// Such a fact.
fn probe(number: u64) -> Arc<world::Command> {
    let mut command = world::Command::read(world::READ_ORGANIZATION, &[], WORKFLOW);
    command.op = FACTS;
    command.method = "POST";
    command.path = "/reference-facts".to_owned();
    command.body = json!({"facts": [{"kind": "actor", "id": format!("probe-{number}"),
        "revision": 1, "facts": {"lifecycle": "active"}}]});
    Arc::new(command)
}

#[test]
fn on_a_full_disk_commands_wait_reads_go_on_and_nothing_is_lost() {
    let seed = seed();
    let rounds = share("DISK_FULL_ROUNDS", 2);
    let mut random = StdRng::seed_from_u64(seed);
    let started = Instant::now();
    let mut compared = Compared::default();
    let (mut refused, mut killed, mut longest) = (0, 0, [Duration::ZERO; 2]);
    let mut left = rounds;
    while left > 0 {
        let mut crowd = Crowd::new(random.random());
        let disk = match SmallDisk::mount(&crowd) {
            Ok(disk) => disk,
            Err(why) => {
                println!("SKIPPED: no disk of its own may be mounted here: {why}");
                return;
            }
        };
        let some = left.min(ROUNDS_OF_A_DISK);
        left -= some;
        let mut server = Server::start_with(&crowd.world, ARGUMENTS);
        for round in 0..some {
            let leave = match random.random_range(0..4) {
                0 => 0,
                _ => random.random_range(0..RESERVE - (1 << 20)),
            };
            let kill = random.random_ratio(1, 4);
            let address = server.address.clone();
            crowd.troubled.store(true, Ordering::SeqCst);
            let stands = crowd.at_work(&address, random.random(), || {
                if random.random_bool(0.5) {
                    server.signal("USR1");
                }
                std::thread::sleep(Duration::from_millis(random.random_range(20..150)));
                disk.fill(leave);
                let full = Instant::now();
                let mut probe = Probe {
                    crowd: &crowd,
                    client: server.client(),
                    number: round * 1_000,
                };
                longest[0] = longest[0].max(probe.until(false));
                server.signal("USR1");
                let until = Duration::from_millis(random.random_range(100..400));
                while full.elapsed() < until {
                    assert!(!probe.is_taken(), "{leave} bytes are left");
                    refused += 1;
                }
                let ready = probe.client.request("GET", "/readyz", &[], b"");
                assert_eq!(ready.status, 503, "{ready:?}");
                for (read, answer) in crowd.look_around(&server, random.random()) {
                    assert_ne!(answer.status, 503, "{read:?}: {answer:?}");
                }
                if kill {
                    return false;
                }
                disk.empty();
                longest[1] = longest[1].max(probe.until(true));
                std::thread::sleep(Duration::from_millis(50));
                true
            });
            server = if stands {
                assert_eq!(server.stop(), Some(0));
                crowd.chronicle.read(&crowd.world.data());
                Server::start_with(&crowd.world, ARGUMENTS)
            } else {
                killed += 1;
                server.kill();
                crowd.chronicle.read(&crowd.world.data());
                // On the full disk it starts and reads.
                let started = Server::start_with(&crowd.world, ARGUMENTS);
                for (read, answer) in crowd.look_around(&started, random.random()) {
                    assert_ne!(answer.status, 503, "{read:?}: {answer:?}");
                }
                let mut probe = Probe {
                    crowd: &crowd,
                    client: started.client(),
                    number: round * 1_000 + 500,
                };
                // The start may have found room in what the killed one never used.
                probe.is_taken();
                disk.empty();
                longest[1] = longest[1].max(probe.until(true));
                started
            };
            crowd.troubled.store(false, Ordering::SeqCst);
            crowd.hold_to(&server, random.random());
            crowd.content();
        }
        assert_eq!(server.stop(), Some(0));
        compared += crowd.hold_to_log();
    }
    println!(
        "{rounds} rounds in {:?}: {refused} commands refused for want of room; refused at the \
         latest {:?} after the disk was full, taken again {:?} after there was room; {killed} \
         times killed on a full disk; {compared}",
        started.elapsed(),
        longest[0],
        longest[1],
    );
}

/// The beginning of what `fstatfs` gives, up to the blocks that are free: none.
fn no_room() -> String {
    let words: [u64; 5] = [0x0102_1994, 4_096, 1 << 20, 0, 0];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_disk_that_has_room_again_is_noticed_by_itself() {
    if !can_trace() {
        return;
    }
    let seed = seed();
    let mut crowd = Crowd::new(seed);
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "--seccomp-bpf", "-qq", "-e", "signal=none"]);
    command.args(["-e", "trace=fstatfs", "-o", "/dev/null", "-e"]);
    // The thread that looks does so twice a second, and ten times while there is no room: that
    // lasts for twelve seconds, however slow the machine is meanwhile.
    let no_room = no_room();
    command.arg(format!(
        "inject=fstatfs:poke_exit=@arg2={no_room}:when=3..123"
    ));
    command.arg(env!("CARGO_BIN_EXE_carebook"));
    serve_arguments(&mut command, &crowd.world).args(["--snapshot-log-bytes", "65536"]);
    let server = Server::spawn(command);
    let address = server.address.clone();
    crowd.troubled.store(true, Ordering::SeqCst);
    crowd.at_work(&address, seed, || {
        let mut probe = Probe {
            crowd: &crowd,
            client: server.client(),
            number: 0,
        };
        until("there is no room", || {
            server.metric("carebook_log_has_room") == 0.0
        });
        probe.until(false);
        for (read, answer) in crowd.look_around(&server, seed) {
            assert_ne!(answer.status, 503, "{read:?}: {answer:?}");
        }
        probe.until(true);
        std::thread::sleep(Duration::from_millis(50));
    });
    crowd.troubled.store(false, Ordering::SeqCst);
    crowd.hold_to(&server, seed);
    crowd.content();
    assert_eq!(server.stop(), Some(0));
    println!("{}", crowd.hold_to_log());
}

#[test]
fn a_directory_on_a_full_disk_is_copied_to_another_and_compacted_there() {
    let mut crowd = Crowd::new(seed());
    let disk = match SmallDisk::mount(&crowd) {
        Ok(disk) => disk,
        Err(why) => {
            println!("SKIPPED: no disk of its own may be mounted here: {why}");
            return;
        }
    };
    let server = Server::start_with(&crowd.world, ARGUMENTS);
    let address = server.address.clone();
    crowd.at_work(&address, seed(), || {
        let mut probe = Probe {
            crowd: &crowd,
            client: server.client(),
            number: 0,
        };
        for _ in 0..20 {
            probe.until(true);
        }
    });
    assert_eq!(server.stop(), Some(0));
    disk.fill(0);
    let (data, copy) = (crowd.world.data(), crowd.world.path("copy"));
    let (data_text, copy_text) = (data.to_str().unwrap(), copy.to_str().unwrap());
    let (code, _, err) = run(&["compact", "--keep", "0s", "--data", data_text]);
    assert_eq!(code, Some(1));
    assert!(err.contains("carebook backup"), "{err}");
    let (code, _, err) = run(&["backup", "--data", data_text, "--to", copy_text]);
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = run(&["compact", "--keep", "0s", "--data", copy_text]);
    assert_eq!(code, Some(0), "{err}");
    // The one on the full disk was not touched: it is let go of only now.
    assert_eq!(run(&["verify", "--data", data_text]).0, Some(0));
    disk.empty();
    std::fs::remove_file(&data).unwrap();
    std::fs::rename(&copy, &data).unwrap();
    let server = Server::start_with(&crowd.world, ARGUMENTS);
    crowd.hold_to(&server, seed());
    crowd.content();
    assert_eq!(server.stop(), Some(0));
}
