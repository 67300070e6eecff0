//! What a service manager is notified of, and the unit that is for systemd.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::durability::sync_failure::can_trace;
use crate::support::{Server, World, or_skip, program, serve_arguments};

/// A manager that waits for a sign of life for this long. A machine that is busy elsewhere lets no thread of
/// the service wait for as long as the time between two signs, a quarter of it.
const WATCHDOG: Duration = Duration::from_secs(2);

/// What a manager of services hears.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(world: &World) -> Self {
        let path = world.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Self { socket, path }
    }

    /// Passes the command the address where it listens.
    fn starts(&self, command: &mut Command) {
        command.env("NOTIFY_SOCKET", &self.path);
        command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    }

    /// The lines of the next message.
    fn hears(&self) -> Vec<String> {
        let mut buffer = [0; 4_096];
        let length = self.socket.recv(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// All messages up to one with a line that begins so.
    fn hears_until(&self, start: &str) -> Vec<Vec<String>> {
        let mut heard = Vec::new();
        loop {
            heard.push(self.hears());
            if heard
                .last()
                .unwrap()
                .iter()
                .any(|line| line.starts_with(start))
            {
                return heard;
            }
        }
    }
}

fn command(world: &World, manager: &Manager) -> Command {
    let mut command = crate::support::carebook();
    serve_arguments(&mut command, world);
    manager.starts(&mut command);
    command
}

#[test]
fn a_manager_is_told_of_the_start_of_life_and_of_the_end() {
    let world = World::new();
    let manager = Manager::new(&world);
    let server = Server::spawn(command(&world, &manager));
    let start = manager.hears_until("READY=1");
    assert!(start[0][0].starts_with("STATUS="), "{start:?}");
    let listening = format!("STATUS=listening on http://{}", server.address);
    let [before @ .., last] = &start[..] else {
        panic!("{start:?}");
    };
    assert_eq!(last[..], ["READY=1".to_owned(), listening]);
    assert!(!before.concat().iter().any(|line| line == "WATCHDOG=1"));
    for _ in 0..5 {
        assert_eq!(manager.hears(), ["WATCHDOG=1"]);
    }
    server.signal("TERM");
    let end = manager.hears_until("STOPPING=1");
    assert_eq!(end.last().unwrap()[..], ["STOPPING=1", "STATUS=stopping"]);
    assert_eq!(server.ended_within(Duration::from_secs(30)), Some(0));
}

#[test]
fn nobody_is_told_that_a_server_is_ready_that_cannot_listen() {
    let world = World::new();
    let manager = Manager::new(&world);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = crate::support::carebook();
    command.args(["serve", "--issuer", "https://id.test", "--data"]);
    command
        .arg(world.data())
        .arg("--jwks")
        .arg(world.path("jwks.json"));
    command
        .arg("--listen")
        .arg(taken.local_addr().unwrap().to_string());
    manager.starts(&mut command);
    let ended = command.output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    manager.socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4_096];
    while let Ok(length) = manager.socket.recv(&mut buffer) {
        let text = std::str::from_utf8(&buffer[..length]).unwrap();
        assert!(!text.contains("READY=1"), "{text}");
    }
}

#[test]
fn without_a_manager_or_with_one_that_is_gone_the_service_is_the_same() {
    let world = World::new();
    let manager = Manager::new(&world);
    let command = command(&world, &manager);
    drop(manager);
    std::fs::remove_file(world.path("notify")).unwrap();
    assert_eq!(Server::spawn(command).stop(), Some(0));
    assert_eq!(Server::start(&world).stop(), Some(0));
}

/// The disk hangs under the real program: no sign of life comes, though the process is there.
#[test]
fn a_log_that_hangs_gives_no_sign_of_life() {
    if !can_trace() {
        return;
    }
    let world = World::new();
    let manager = Manager::new(&world);
    let server = Server::spawn(command(&world, &manager));
    manager.hears_until("WATCHDOG=1");
    // From here on each sync takes a minute.
    let mut tracer = Command::new("strace")
        .args(["-f", "-e", "signal=none", "-e", "trace=fdatasync"])
        .args(["-e", "inject=fdatasync:delay_enter=60000000"])
        .args(["-o", "/dev/null", "-p", &server.id().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut attached = String::new();
    let mut said = BufReader::new(tracer.stderr.take().unwrap());
    said.read_line(&mut attached).unwrap();
    assert!(attached.contains("attached"), "{attached}");
    let token = world.headquarters();
    let body = world.deposit_request("S", "key").to_string();
    let address = server.address.clone();
    // Its answer never comes.
    std::thread::spawn(move || {
        let mut client = crate::support::Client::connect(&address);
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
        ];
        let path = "/settlement-deposit-requests";
        let _ = client.try_request("POST", path, &headers, body.as_bytes());
    });
    let heard = manager.hears_until("STATUS=hangs: the log does not become durable");
    assert_eq!(heard.last().unwrap().len(), 1, "{heard:?}");
    manager.socket.set_read_timeout(Some(WATCHDOG * 3)).unwrap();
    let mut buffer = [0; 64];
    let more = manager.socket.recv(&mut buffer);
    assert!(more.is_err(), "a sign of life came");
    tracer.kill().unwrap();
    tracer.wait().unwrap();
    // It goes on, and says so.
    manager
        .socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let heard = manager.hears_until("STATUS=listening on");
    assert!(
        heard.concat().contains(&"WATCHDOG=1".to_owned()),
        "{heard:?}"
    );
    server.kill();
}

fn unit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/systemd/carebook.service")
}

#[test]
fn the_systemd_unit_s_exposure_is_at_most_2() {
    let Some(analyze) = or_skip(program("systemd-analyze"), "systemd-analyze") else {
        return;
    };
    let judged = Command::new(analyze)
        .args(["security", "--offline=true", "--threshold=20", "--no-pager"])
        .arg(unit())
        .output()
        .unwrap();
    let out = String::from_utf8(judged.stdout).unwrap();
    assert!(judged.status.success(), "{out}");
    let exposure = out
        .lines()
        .find_map(|line| line.split_once("carebook.service: "));
    let exposure = exposure.unwrap_or_else(|| panic!("{out}")).1;
    let exposure: f64 = exposure.split(' ').next().unwrap().parse().unwrap();
    assert!(exposure <= 2.0, "{out}");
}

#[test]
fn the_unit_waits_for_a_synchronized_clock_only_where_a_service_does() {
    let text = std::fs::read_to_string(unit()).unwrap();
    let targets = |setting: &str| -> Vec<&str> {
        let lines = text.lines();
        let values = lines.filter_map(|line| line.strip_prefix(setting)?.strip_prefix('='));
        values.flat_map(str::split_whitespace).collect()
    };
    let pulled_in = [targets("Wants"), targets("Requires")].concat();
    assert_eq!(pulled_in, ["network-online.target"]);
    let after = targets("After");
    assert_eq!(after, ["network-online.target", "time-sync.target"]);
}

#[test]
fn the_unit_is_understood_line_by_line() {
    let Some(analyze) = or_skip(program("systemd-analyze"), "systemd-analyze") else {
        return;
    };
    // The program is where the package puts it; here it is elsewhere, as are its pages.
    let world = World::new();
    let file = world.path("carebook.service");
    let text = std::fs::read_to_string(unit()).unwrap();
    let here = text.replace("/usr/bin/carebook", env!("CARGO_BIN_EXE_carebook"));
    assert_ne!(here, text);
    std::fs::write(&file, here).unwrap();
    let judged = Command::new(analyze)
        .args(["verify", "--man=no"])
        .arg(&file)
        .output()
        .unwrap();
    let err = String::from_utf8(judged.stderr).unwrap();
    assert!(judged.status.success() && err.is_empty(), "{err}");
}

/// The system calls in the sets of this filter, `@set` or by name.
fn calls_of(analyze: &Path, filter: &str) -> BTreeSet<String> {
    if !filter.starts_with('@') {
        return [filter.to_owned()].into();
    }
    let output = Command::new(analyze)
        .args(["syscall-filter", filter])
        .output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let lines = text.lines().skip(1).map(str::trim);
    let names = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    names.flat_map(|name| calls_of(analyze, name)).collect()
}

#[test]
fn the_unit_lets_the_service_make_every_system_call_that_it_makes() {
    let Some(analyze) = or_skip(program("systemd-analyze"), "systemd-analyze") else {
        return;
    };
    if !can_trace() {
        return;
    }
    let text = std::fs::read_to_string(unit()).unwrap();
    let mut allowed = BTreeSet::new();
    for line in text.lines() {
        if let Some(filter) = line.strip_prefix("SystemCallFilter=") {
            match filter.strip_prefix('~') {
                None => allowed.extend(calls_of(&analyze, filter)),
                Some(denied) => {
                    let denied = calls_of(&analyze, denied);
                    allowed.retain(|call| !denied.contains(call));
                }
            }
        }
    }
    assert!(allowed.len() > 200, "{allowed:?}");
    let world = World::new();
    let log = world.path("strace.log");
    let mut command = Command::new("strace");
    command
        .args(["-D", "-f", "-qq", "-e", "signal=none", "-o"])
        .arg(&log);
    command.arg(env!("CARGO_BIN_EXE_carebook"));
    serve_arguments(&mut command, &world).args(["--snapshot-log-bytes", "1"]);
    let server = Server::spawn(command);
    let mut client = server.client();
    for number in 0..20 {
        let body = world.deposit_request(&format!("S-{number}"), &format!("key-{number}"));
        let done = client.post("/settlement-deposit-requests", &world.headquarters(), &body);
        assert!(matches!(done.status, 201 | 422), "{done:?}");
        server.signal("USR1");
        server.signal("HUP");
    }
    assert_eq!(server.stop(), Some(0));
    let log = std::fs::read_to_string(&log).unwrap();
    let made: BTreeSet<_> = log
        .lines()
        .filter_map(|line| {
            let (_, call) = line.split_once(' ')?;
            let (name, _) = call.trim_start().split_once('(')?;
            name.chars()
                .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
                .then(|| name.to_owned())
        })
        .collect();
    assert!(made.contains("fdatasync") && made.len() > 30, "{made:?}");
    // The kernel's own, which no program makes.
    let denied: Vec<_> = made
        .difference(&allowed)
        .filter(|name| *name != "restart_syscall")
        .collect();
    assert!(denied.is_empty(), "{denied:?}");
}
