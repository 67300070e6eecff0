//! Machines of a network of their own, whose links can be cut: each is a network namespace with one
//! address, all on one bridge. What goes to a machine that is cut off is sent to a station that
//! does not exist, so it is lost silently, in this direction and without any connection noticing.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::support::{or_skip, program};

/// A namespace, which is there as long as the process that was begun in it.
struct Space {
    holder: Child,
}

impl Space {
    fn new() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--net", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Once it answers, it is there.
        let mut line = String::new();
        let said = holder.stdin.as_mut().unwrap().write_all(b"there\n");
        said.unwrap();
        let out = holder.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "there\n", "no namespace was made");
        Self { holder }
    }

    fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.id()).into()
    }

    /// This thread, and the threads and processes that it begins from now on, are in there.
    fn enter(&self) {
        let file = File::open(self.file()).unwrap();
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind).unwrap();
    }

    /// A program that runs in there.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.file().display()));
        command.arg(program);
        command
    }

    fn run(&self, words: &str) {
        let mut words = words.split(' ');
        let mut command = self.command(Path::new(words.next().unwrap()));
        done(command.args(words));
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Runs a command that has to work.
#[track_caller]
fn done(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
}

/// Machines that hear one another, and the thread that made them hears all of them.
pub struct Wires {
    machines: Vec<Space>,
    _middle: Space,
}

/// The bytes of a station of the network.
fn station(number: usize) -> String {
    format!("02:00:00:00:00:{number:02x}")
}

/// A station that does not exist.
const NOBODY: usize = 0xff;
/// The number of the observer in the middle.
const MIDDLE: usize = 0xfe;

impl Wires {
    /// So many machines. From then on this thread is in the middle, with what it begins. `None`,
    /// and that is said, where this may not be done and this is not the gate.
    pub fn laid(count: usize) -> Option<Self> {
        let may = Command::new("unshare")
            .args(["--net", "--", "ip", "link", "add", "x", "type", "bridge"])
            .output();
        let may = may.ok().filter(|output| output.status.success());
        let found = may.and(program("nsenter"));
        or_skip(found, "right to make network namespaces (root, iproute2)")?;
        let middle = Space::new();
        middle.enter();
        let quick = |space: &Space| {
            // Newer kernels let a connection find out within a second that a link is there again.
            let file = "/proc/sys/net/ipv4/tcp_rto_max_ms";
            let script = format!("[ ! -e {file} ] || echo 1000 >{file}");
            done(space.command(Path::new("sh")).args(["-c", &script]));
        };
        quick(&middle);
        for words in [
            "ip link set lo up".to_owned(),
            format!("ip link add wires address {} type bridge", station(MIDDLE)),
            format!("ip addr add {}/24 dev wires", Self::address(MIDDLE - 1)),
            "ip link set wires up".to_owned(),
        ] {
            middle.run(&words);
        }
        let machines: Vec<_> = (0..count).map(|_| Space::new()).collect();
        for (number, machine) in machines.iter().enumerate() {
            let id = machine.holder.id();
            for words in [
                format!("ip link add w{number} type veth peer name eth0 netns {id}"),
                format!("ip link set w{number} master wires up"),
            ] {
                middle.run(&words);
            }
            let (own, address) = (station(number + 1), Self::address(number));
            for words in [
                "ip link set lo up".to_owned(),
                format!("ip link set eth0 address {own} up"),
                format!("ip addr add {address}/24 dev eth0"),
            ] {
                machine.run(&words);
            }
            quick(machine);
        }
        let wires = Self {
            machines,
            _middle: middle,
        };
        for from in 0..count {
            (0..count).for_each(|to| wires.lead(from, to, to + 1));
        }
        Some(wires)
    }

    /// The address of a machine.
    pub fn address(machine: usize) -> String {
        format!("10.83.0.{}", machine + 1)
    }

    /// A program that runs on a machine.
    pub fn command(&self, machine: usize, program: &Path) -> Command {
        self.machines[machine].command(program)
    }

    /// What a machine sends to another one goes to this station.
    fn lead(&self, from: usize, to: usize, at: usize) {
        if from != to {
            let (to, at) = (Self::address(to), station(at));
            let words = format!("ip neigh replace {to} lladdr {at} dev eth0 nud permanent");
            self.machines[from].run(&words);
        }
    }

    /// What one sends to the other one does not come there any more.
    pub fn cut(&self, from: usize, to: usize) {
        self.lead(from, to, NOBODY);
    }

    /// It comes there again.
    pub fn heal(&self, from: usize, to: usize) {
        self.lead(from, to, to + 1);
    }
}
