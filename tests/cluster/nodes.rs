//! Two nodes of one service under load: their current processes, the responses of their clients,
//! and that all of these fit one history.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Cluster;
use crate::durability::chronicle::Compared;
use crate::durability::crowd::{Crowd, Place};
use crate::support::{Answer, Client, Server};

/// How long a service may take until it is well again.
const PATIENCE: Duration = Duration::from_secs(180);
/// So many lines of a node's log are shown where a round has failed.
const LAST_LINES: usize = 30;
/// Where nodes on machines of their own listen: each process at another port.
const FIRST_PORT: u16 = 20_000;

/// The nodes of a service, each on a directory of its own. The servers of the journal are the first
/// three machines where there are any; the nodes are the next two.
pub struct Nodes<'a> {
    pub servers: [Option<Server>; 2],
    /// Where clients look for them.
    pub places: &'a [Place; 2],
    port: u16,
    logs: [Option<PathBuf>; 2],
    /// How often a process that wrote was replaced, or did not know what became of a commit.
    pub fenced: u64,
    pub unknown: u64,
}

/// The response to a request; `None` when there is none.
fn asked(server: &Server, path: &str) -> Option<Answer> {
    let mut client = Client::try_connect(&server.address).ok()?;
    client.try_request("GET", path, &[], b"").ok()
}

pub fn is_ready(server: &Server) -> bool {
    asked(server, "/readyz").is_some_and(|answer| answer.status == 200)
}

pub fn is_writer(server: &Server) -> bool {
    let page = asked(server, "/metrics");
    page.is_some_and(|page| page.metric("carebook_role{role=\"writer\"}") == 1.0)
}

impl<'a> Nodes<'a> {
    pub fn new(places: &'a [Place; 2]) -> Self {
        Self {
            servers: [None, None],
            places,
            port: FIRST_PORT,
            logs: [None, None],
            fenced: 0,
            unknown: 0,
        }
    }

    /// The directory of a node: the first one's is the world's.
    pub fn directory(crowd: &Crowd, node: usize) -> PathBuf {
        match node {
            0 => crowd.world.data(),
            _ => crowd.world.path("second"),
        }
    }

    /// Starts a node, as one that follows or as one that writes; its exit code when it does not
    /// start.
    pub fn start(
        &mut self,
        cluster: &Cluster,
        crowd: &Crowd,
        node: usize,
        follows: bool,
    ) -> Result<(), Option<i32>> {
        let data = Self::directory(crowd, node);
        let mut command = match cluster.wires {
            None => cluster.command(&crowd.world, &data),
            Some(_) => {
                self.port += 1;
                cluster.command_on(3 + node, self.port, &crowd.world, &data)
            }
        };
        if follows {
            command.arg("--standby").arg("--webhook-key");
            command.arg(crowd.world.data().join("webhook.key"));
        }
        let log = crowd.world.path(&format!("node-{node}.log"));
        let file = File::options().create(true).append(true).open(&log);
        command.stderr(file.unwrap());
        self.logs[node] = Some(log);
        let server = Server::try_spawn_logging(command)?;
        *self.places[node].lock().unwrap() = Some((server.address.clone(), server.id()));
        self.servers[node] = Some(server);
        Ok(())
    }

    /// The node is taken from where clients look for it.
    pub fn taken(&mut self, node: usize) -> Server {
        self.places[node].lock().unwrap().take();
        self.servers[node].take().unwrap()
    }

    /// The one that writes, once there is one.
    pub fn writer(&self) -> usize {
        let mut found = None;
        super::until("one of the nodes writes", || {
            let servers = self.servers.iter();
            found = servers
                .map(|server| server.as_ref().is_some_and(is_writer))
                .position(|writes| writes);
            found.is_some()
        });
        found.unwrap()
    }

    /// What has ended is started again, as one that follows.
    fn mend(&mut self, cluster: &Cluster, crowd: &Crowd) {
        for node in 0..2 {
            let ended = match &mut self.servers[node] {
                Some(server) => server.has_ended(),
                None => Some(None),
            };
            match ended {
                None => continue,
                Some(Some(5)) => self.fenced += 1,
                Some(Some(1)) => self.unknown += 1,
                Some(None) => {}
                Some(code) => panic!("node {node} ended with {code:?}"),
            }
            if self.servers[node].is_some() {
                self.taken(node);
            }
            // Where it is not answered yet it ends, and is started once more.
            match self.start(cluster, crowd, node, true) {
                Ok(()) | Err(Some(1)) => {}
                Err(code) => panic!("node {node} does not start: {code:?}"),
            }
        }
    }

    /// Waits until one node writes and the other one follows it, and both are ready.
    #[track_caller]
    pub fn until_well(&mut self, cluster: &Cluster, crowd: &Crowd) {
        let began = Instant::now();
        loop {
            self.mend(cluster, crowd);
            let [one, two] = self.servers.each_ref().map(|server| {
                let server = server.as_ref().filter(|server| is_ready(server));
                server.map(is_writer)
            });
            if matches!(
                (one, two),
                (Some(true), Some(false)) | (Some(false), Some(true))
            ) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "not well: {one:?}, {two:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Checks all responses against the node that writes, once more where it is replaced meanwhile:
    /// after trouble with the lease the other node may take it first. `again` waits until a node
    /// writes, and says which one.
    #[track_caller]
    pub fn hold(
        &mut self,
        crowd: &mut Crowd,
        seed: u64,
        mut again: impl FnMut(&mut Self, &Crowd) -> usize,
    ) -> usize {
        let began = Instant::now();
        loop {
            let writer = again(self, crowd);
            let server = self.servers[writer].as_ref().unwrap();
            let held = crowd.try_hold_to(server, seed);
            let held = held.and_then(|()| crowd.try_look_around(server, seed));
            crowd.content();
            match held {
                Ok(_) => return writer,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends the service, first the node that follows; all responses are checked against the log of
    /// the one that wrote, and both directories against the journal.
    #[track_caller]
    pub fn end(&mut self, cluster: &Cluster, crowd: &mut Crowd) -> Compared {
        let mut writer = self.writer();
        for node in [1 - writer, writer] {
            if self.servers[node].is_none() {
                continue;
            }
            match self.taken(node).stop() {
                Some(0) => {}
                // After trouble with the lease the other node may have taken the journal over by now.
                Some(5) if crowd.troubled.load(Ordering::SeqCst) => {
                    self.fenced += 1;
                    writer = 1 - node;
                }
                code => panic!("node {node} ended with {code:?}"),
            }
        }
        let compared = crowd.hold_to_log_of_several(&Self::directory(crowd, writer));
        for node in 0..2 {
            let data = Self::directory(crowd, node);
            if data.exists() {
                cluster.verify(&data);
            }
        }
        compared
    }
}

impl Drop for Nodes<'_> {
    /// What the nodes have logged last shows why a round has failed.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for log in self.logs.iter().flatten() {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            let from = said.lines().count().saturating_sub(LAST_LINES);
            println!("{}:", log.display());
            said.lines()
                .skip(from)
                .for_each(|line| println!("  {line}"));
        }
    }
}
