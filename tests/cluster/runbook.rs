//! The runbook of docs/cluster.md: a shell runs its blocks of commands, one after the other, each on
//! the machines that are named before it, with three servers and two nodes to which it has happened.
//!
//! A machine is a directory and an address of the loopback. `<!-- on: a b -->` names machines, or
//! `the-writer`, `the-standby`, `the-lost`, `the-other`, `the-furthest`; `<!-- meanwhile: … -->`
//! what happens before ([`Stage::happens`]). After each block come its exit code, and words that it
//! prints.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use carebook::base::actor::ActorKind;

use crate::support::pages::{Block, blocks, read_by};
use crate::support::{AUDIENCE, Client, ISSUER, World, nats_server, run, until};

/// How many seconds a block may take.
const PATIENCE: &str = "120";
const SERVERS: [&str; 3] = ["a", "b", "c"];
const NODES: [&str; 2] = ["one", "two"];
/// What the page has: so none is left out unseen.
const SECTIONS: [&str; 7] = [
    "Set up",
    "One server is lost",
    "A server is replaced",
    "Two servers are lost",
    "A node is lost",
    "All servers are lost",
    "Upgrade",
];

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Five machines; what runs on them ends when it is dropped.
struct Stage {
    world: World,
    addresses: BTreeMap<&'static str, String>,
    /// The nodes: who was lost, and who was not.
    lost: Option<(&'static str, &'static str)>,
    /// How many deposits were asked for, and granted.
    asked: usize,
    server: PathBuf,
}

impl Stage {
    /// `None`, and that is said, where there is no program for the servers.
    fn new() -> Option<Self> {
        let server = nats_server()?;
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let machines = SERVERS.into_iter().chain(NODES);
        let addresses = machines
            .zip(128_u8..)
            .map(|(name, second)| (name, format!("127.{second}.{high}.{low}")));
        let stage = Self {
            world: World::new(),
            addresses: addresses.collect(),
            lost: None,
            asked: 0,
            server,
        };
        for name in SERVERS.into_iter().chain(NODES) {
            std::fs::create_dir(stage.path(name)).unwrap();
        }
        for name in NODES {
            let keys = stage.world.path("jwks.json");
            std::fs::copy(keys, stage.path(name).join("jwks.json")).unwrap();
        }
        std::fs::create_dir(stage.path("backups")).unwrap();
        let bin = stage.path("bin");
        std::fs::create_dir(&bin).unwrap();
        for (from, name) in [
            (PathBuf::from(env!("CARGO_BIN_EXE_carebook")), "carebook"),
            (stage.server.clone(), "nats-server"),
            (place("tests/cluster/runbook/systemctl"), "systemctl"),
        ] {
            std::os::unix::fs::symlink(from, bin.join(name)).unwrap();
        }
        Some(stage)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.path(name)
    }

    fn client(&self, node: &str) -> Option<Client> {
        Client::try_connect(&format!("{}:8080", self.addresses[node])).ok()
    }

    /// Whether the node serves as one that writes, or as one that follows.
    fn is(&self, node: &str, role: &str) -> bool {
        let inside = format!("{}:8081", self.addresses[node]);
        let Ok(mut client) = Client::try_connect(&inside) else {
            return false;
        };
        let page = client.try_request("GET", "/metrics", &[], b"");
        let series = format!("carebook_role{{role=\"{role}\"}}");
        page.is_ok_and(|page| page.metric(&series) == 1.0)
    }

    /// The one that writes, once one does, and the other one.
    fn writer(&self) -> (&'static str, &'static str) {
        let mut found = None;
        until("one of the nodes writes", || {
            found = NODES.into_iter().find(|node| self.is(node, "writer"));
            found.is_some()
        });
        let writer = found.unwrap();
        let other = NODES.into_iter().find(|node| *node != writer);
        (writer, other.unwrap())
    }

    /// The node whose directory has the last position.
    fn furthest(&self) -> &'static str {
        let last = |node: &&str| {
            let data = self.path(node).join("data");
            let (code, told, said) = run(&["verify", "--json", "--data", data.to_str().unwrap()]);
            assert_eq!(code, Some(0), "{said}");
            let told: serde_json::Value = serde_json::from_str(&told).unwrap();
            told["lastPosition"].as_u64().unwrap()
        };
        NODES.into_iter().max_by_key(last).unwrap()
    }

    /// The machines that a block is for.
    fn machines(&self, named: &str) -> Vec<&'static str> {
        let all = || SERVERS.into_iter().chain(NODES);
        let one = |name: &str| match name {
            "the-writer" => self.writer().0,
            "the-standby" => self.writer().1,
            "the-lost" => self.lost.unwrap().0,
            "the-other" => self.lost.unwrap().1,
            "the-furthest" => self.furthest(),
            name => all().find(|known| *known == name).expect(name),
        };
        named.split(' ').map(one).collect()
    }

    /// SIGKILL; what the service manager keeps of it is gone when it is over.
    fn kill(&self, machine: &str, unit: &str) {
        let file = self.path(machine).join(format!("{unit}.pid"));
        let running = self.path(machine).join(format!("{unit}.running"));
        // The unit is not started again.
        std::fs::write(self.path(machine).join(format!("{unit}.off")), "").unwrap();
        if let Ok(pid) = std::fs::read_to_string(&file) {
            let killed = Command::new("kill").args(["-KILL", pid.trim()]).status();
            assert!(killed.unwrap().success(), "{machine}: {unit}");
        }
        until("it has ended", || !running.exists());
    }

    /// What happens between two blocks.
    fn happens(&mut self, what: &str) {
        match what {
            "the-key-is-taken-to-two" => {
                let key = |node| self.path(node).join("webhook.key");
                std::fs::copy(key("one"), key("two")).unwrap();
            }
            "c-ends" => self.kill("c", "nats-server"),
            "c-is-lost-with-its-disk" => self.lose("c"),
            "b-and-c-end" => {
                self.kill("b", "nats-server");
                self.kill("c", "nats-server");
            }
            "the-writer-ends-with-its-disk" => {
                let (writer, other) = self.writer();
                self.kill(writer, "carebook");
                std::fs::remove_dir_all(self.path(writer).join("data")).unwrap();
                self.lost = Some((writer, other));
            }
            "all-servers-are-lost-with-their-disks" => {
                SERVERS.into_iter().for_each(|server| self.lose(server));
            }
            _ => panic!("nothing is known of {what}"),
        }
    }

    fn lose(&self, server: &str) {
        self.kill(server, "nats-server");
        std::fs::remove_dir_all(self.path(server).join("store")).unwrap();
    }

    /// Runs a block on a machine: exit code and what was printed.
    fn run(&self, machine: &str, block: &Block<'_>) -> (String, String) {
        let own = self.path(machine);
        let servers: Vec<_> = SERVERS.iter().map(|name| &self.addresses[name]).collect();
        let each = |port: u16, sep: &str, quote: &str| {
            let all = servers.iter();
            let all = all.map(|address| format!("{quote}{address}:{port}{quote}"));
            all.collect::<Vec<_>>().join(sep)
        };
        let routes: Vec<_> = servers
            .iter()
            .map(|address| format!("\"nats://{address}:6222\""))
            .collect();
        let address = &self.addresses[machine];
        let script = format!("exec 2>&1\nset -e\n{}", block.commands);
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("timeout");
        shell
            .args([PATIENCE, "sh"])
            .current_dir(&own)
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("LC_ALL", "C")
            .env("MACHINE", &own)
            .env("NAME", machine)
            .env("ADDRESS", address)
            .env("CONF", own.join("nats-server.conf"))
            .env("STORE", own.join("store"))
            .env("ROUTES", routes.join(", "))
            .env("JOURNAL", format!("nats://{}", each(4222, ",", "")))
            .env("ETC", &own)
            .env("SETTINGS", own.join("carebook.toml"))
            .env("UNITS", own.join("units"))
            .env("DATA", own.join("data"))
            .env("BACKUPS", self.path("backups"))
            .env("NEW", env!("CARGO_BIN_EXE_carebook"))
            .env("URL", format!("http://{address}:8080"))
            .env("INSIDE", format!("http://{address}:8081"))
            .env("ISSUER", ISSUER)
            .env("AUDIENCE", AUDIENCE)
            .env("TOKEN", self.world.workflow())
            .env("AS", "");
        // The exit code is printed at the end.
        let script = format!("({script}\n)\nprintf '\\n%s' $?\n");
        let (_, printed) = read_by(&mut shell, &script);
        let (told, code) = printed.rsplit_once('\n').unwrap_or(("", &printed));
        (code.to_owned(), told.to_owned())
    }

    /// The last that each service of each machine has said.
    fn said_by_all(&self) -> String {
        let services = ["nats-server", "carebook"];
        let all = self.addresses.keys();
        let all = all.flat_map(|machine| services.map(|unit| (*machine, unit)));
        let said = all.filter_map(|(machine, unit)| {
            let file = self.path(machine).join(format!("{unit}.said"));
            let said = std::fs::read_to_string(file).ok()?;
            let mut last: Vec<_> = said.lines().rev().take(20).collect();
            last.reverse();
            Some(format!("\n{unit} on {machine}:\n{}", last.join("\n")))
        });
        said.collect()
    }

    /// Clients write, and get it acknowledged.
    fn people_write(&mut self) {
        let mut granted = 0;
        until("somebody is granted what was asked for", || {
            let (writer, _) = self.writer();
            let Some(mut client) = self.client(writer) else {
                return false;
            };
            let status = super::ask(&self.world, &mut client, self.asked + granted);
            granted += usize::from(status == Some(201));
            granted == 3
        });
        self.asked += granted;
    }

    /// Each node has all that was granted to people.
    fn nothing_is_lost(&self) {
        let bearer = self
            .world
            .plain(ActorKind::HeadquartersAdministrator, "hq-1");
        let bearer = format!("Bearer {bearer}");
        let headers = [("Authorization", bearer.as_str())];
        let path = "/settlement-statements?limit=500";
        for node in NODES {
            let mut found = 0;
            until(&format!("{node} has what was granted"), || {
                let answer = self.client(node);
                let answer =
                    answer.map(|mut client| client.try_request("GET", path, &headers, b""));
                if let Some(Ok(answer)) = answer
                    && answer.status == 200
                {
                    found = answer.json()["items"].as_array().unwrap().len();
                }
                found == self.asked
            });
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for name in SERVERS.into_iter().chain(NODES) {
            for unit in ["nats-server", "carebook"] {
                let _ = std::fs::write(self.path(name).join(format!("{unit}.off")), "");
                let file = self.path(name).join(format!("{unit}.pid"));
                if let Ok(pid) = std::fs::read_to_string(file) {
                    let _ = Command::new("kill").args(["-KILL", pid.trim()]).status();
                }
            }
        }
    }
}

/// What a comment of this kind says, of those before a block.
fn said<'a>(block: &Block<'a>, kind: &str) -> Vec<&'a str> {
    let comments = block.before.split(kind).skip(1);
    comments
        .map(|comment| comment.split_once(" -->").unwrap().0)
        .collect()
}

#[test]
fn the_runbook_of_a_journal_does_what_it_says() {
    let page = std::fs::read_to_string(place("docs/cluster.md")).unwrap();
    let (before, runbook) = page.split_once("\n## Runbook\n").unwrap();
    let (runbook, after) = runbook.split_once("\n## ").unwrap();
    // All commands of the page are the runbook's.
    for other in [before, after] {
        assert!(!other.contains("```sh\n"), "commands that are not run");
    }
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut played = Vec::new();
    for section in runbook.split("\n### ").skip(1) {
        let (title, content) = section.split_once('\n').unwrap();
        let began = std::time::Instant::now();
        for block in blocks(content) {
            for what in said(&block, "<!-- meanwhile: ") {
                stage.happens(what);
            }
            let on = said(&block, "<!-- on: ");
            assert_eq!(on.len(), 1, "{title}: where is it run?\n{}", block.commands);
            for machine in stage.machines(on[0]) {
                let (code, told) = stage.run(machine, &block);
                let mut what = format!("{title}, on {machine}:\n{}{told}", block.commands);
                if code != block.told[0] {
                    what.push_str(&stage.said_by_all());
                }
                assert_eq!(code, block.told[0], "{what}");
                // Tables have room between their words.
                let words: Vec<_> = told.split_whitespace().collect();
                let plain = words.join(" ");
                for word in &block.told[1..] {
                    assert!(plain.contains(word), "no {word:?} in {what}");
                }
            }
        }
        stage.people_write();
        stage.nothing_is_lost();
        println!("{title}: {:?}", began.elapsed());
        played.push(title);
    }
    assert_eq!(played, SECTIONS);
}
