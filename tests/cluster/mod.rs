//! The journal on a replicated stream, with real servers: one, or three that are a cluster.

mod cut;
mod fenced;
mod flight;
mod full;
mod imported;
mod killed;
mod lease;
mod nodes;
mod proxy;
mod refused;
mod resumed;
mod runbook;
mod snapshots;
mod standby;
mod taken_over;
mod wires;
mod written;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, context::Context};
use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use self::wires::Wires;
use crate::support::{self, Client, PATIENCE, Server, World, nats_server, until};

/// A server of the stream.
struct Node {
    /// Where clients find it.
    address: String,
    /// The machine that it runs on, where it is not this one.
    machine: Option<usize>,
    config: PathBuf,
    child: Option<Child>,
}

impl Node {
    /// Where it listens.
    fn port(&self) -> u16 {
        let (_, port) = self.address.rsplit_once(':').unwrap();
        port.parse().unwrap()
    }
}

/// Servers with `JetStream`, with ports and directories that they keep over restarts; killed when
/// dropped.
pub struct Cluster {
    program: PathBuf,
    _directory: TempDir,
    nodes: Vec<Node>,
    /// The machines that it runs on, where it is not this one.
    wires: Option<Wires>,
    runtime: Runtime,
}

impl Cluster {
    /// So many servers that run; `None`, and that is said, where there is no such program and this
    /// is not the gate.
    pub fn started(count: usize) -> Option<Self> {
        // Ports that were free a moment ago, outside of what is given out by itself.
        let mut held = Vec::new();
        while held.len() < 2 * count {
            let port = rand::random_range(10_000..32_000);
            held.extend(TcpListener::bind(("127.0.0.1", port)).ok());
        }
        let addresses = held.iter().map(|held| held.local_addr().unwrap());
        let addresses: Vec<_> = addresses.map(|address| address.to_string()).collect();
        drop(held);
        let (own, routes) = addresses.split_at(count);
        Self::started_at(own, routes, None)
    }

    /// Three servers, each on a machine of its own, the first of these.
    pub fn on(wires: Wires) -> Option<Self> {
        let at = |port: u16| {
            let machines = 0..3;
            let all = machines.map(move |machine| format!("{}:{port}", Wires::address(machine)));
            all.collect::<Vec<_>>()
        };
        Self::started_at(&at(4222), &at(6222), Some(wires))
    }

    fn started_at(own: &[String], routes: &[String], wires: Option<Wires>) -> Option<Self> {
        let program = nats_server()?;
        let directory = tempfile::tempdir().unwrap();
        let urls: Vec<_> = routes
            .iter()
            .map(|route| format!("nats://{route}"))
            .collect();
        let nodes = own.iter().zip(routes).enumerate();
        let nodes = nodes.map(|(number, (address, route))| {
            let store = directory.path().join(format!("store-{number}"));
            let cluster = match own.len() {
                1 => String::new(),
                _ => format!("cluster {{ name: tests, listen: {route:?}, routes: {urls:?} }}"),
            };
            // Not what is free on this disk and in this memory, of which a server takes three quarters by
            // itself: a journal reserves all its bytes, and on a fuller disk its stream would be refused.
            let limits = "max_file_store: 16GB, max_memory_store: 16GB";
            let text = format!(
                "server_name: node-{number}\nlisten: {address:?}\n\
                 jetstream {{ store_dir: {store:?}, sync_interval: always, {limits} }}\n{cluster}\n"
            );
            let config = directory.path().join(format!("node-{number}.conf"));
            std::fs::write(&config, text).unwrap();
            Node {
                address: address.clone(),
                machine: wires.as_ref().map(|_| number),
                config,
                child: None,
            }
        });
        let mut cluster = Self {
            program,
            nodes: nodes.collect(),
            _directory: directory,
            wires,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        };
        for number in 0..cluster.nodes.len() {
            cluster.start(number);
        }
        cluster.with(async |context| {
            context.query_account().await?;
            Ok(())
        });
        Some(cluster)
    }

    /// As [`Cluster::started`], with the stream of a journal of at most so many bytes.
    pub fn with_journal(count: usize, bytes_max: u64) -> Option<Self> {
        let cluster = Self::started(count)?;
        let bytes = bytes_max.to_string();
        let (code, _, errors) = cluster.journal("create", &["--max-bytes", &bytes]);
        assert_eq!(code, Some(0), "{errors}");
        Some(cluster)
    }

    /// As [`Cluster::with_journal`], of one server and with room enough, and a world for those who use it.
    fn with_world() -> Option<(Self, World)> {
        Some((Self::with_journal(1, ROOMY)?, World::new()))
    }

    /// As [`Cluster::with_world`], with a server that writes the journal, and has done so many commands.
    #[track_caller]
    fn with_writer(commands: usize) -> Option<(Self, World, Server)> {
        let (cluster, world) = Self::with_world()?;
        let writer = cluster.serve(&world);
        ask_for(&world, &writer, 0..commands);
        Some((cluster, world, writer))
    }

    fn start(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        assert!(node.child.is_none());
        let log = node.config.with_extension("log");
        let mut command = match (&self.wires, node.machine) {
            (Some(wires), Some(machine)) => wires.command(machine, &self.program),
            _ => Command::new(&self.program),
        };
        let child = command
            .arg("-c")
            .arg(&node.config)
            .arg("-l")
            .arg(log)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        node.child = Some(child.unwrap());
    }

    /// SIGKILL.
    fn kill(&mut self, number: usize) {
        let mut child = self.nodes[number].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ends a server, and starts it again with this setting.
    fn restart_with(&mut self, number: usize, name: &str, value: u64) {
        self.kill(number);
        let config = &self.nodes[number].config;
        let text = std::fs::read_to_string(config).unwrap();
        let others = text.lines().filter(|line| !line.starts_with(name));
        let mut lines: Vec<_> = others.map(str::to_owned).collect();
        lines.push(format!("{name}: {value}\n"));
        std::fs::write(config, lines.join("\n")).unwrap();
        self.start(number);
        // It answers again.
        self.config();
    }

    fn url(&self) -> String {
        let servers = self.nodes.iter().map(|node| node.address.as_str());
        format!("nats://{}", servers.collect::<Vec<_>>().join(","))
    }

    fn addresses(&self) -> Vec<async_nats::ServerAddr> {
        let address = |node: &Node| format!("nats://{}", node.address).parse();
        self.nodes
            .iter()
            .map(|node| address(node).unwrap())
            .collect()
    }

    /// The arguments that name the journal.
    pub fn arguments(&self) -> Vec<String> {
        let replicas = self.nodes.len().to_string();
        [
            "--journal",
            &self.url(),
            "--journal-name",
            "tests",
            "--journal-replicas",
            &replicas,
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// A server that writes the journal, on the world's directory.
    pub fn serve(&self, world: &World) -> Server {
        Server::spawn(self.command(world, &world.data()))
    }

    /// The command of a server on this directory.
    pub fn command(&self, world: &World, data: &Path) -> Command {
        self.command_of(support::carebook(), world, data, "127.0.0.1:0")
    }

    /// As [`Cluster::command`], on a machine of the wires, at this port.
    fn command_on(&self, machine: usize, port: u16, world: &World, data: &Path) -> Command {
        let wires = self.wires.as_ref().unwrap();
        let command = wires.command(machine, Path::new(support::carebook().get_program()));
        let listen = format!("{}:{port}", Wires::address(machine));
        let mut command = self.command_of(command, world, data, &listen);
        // The metrics are looked at from the middle.
        command.arg("--internal-public");
        command
    }

    fn command_of(
        &self,
        mut command: Command,
        world: &World,
        data: &Path,
        listen: &str,
    ) -> Command {
        command.arg("serve").arg("--data").arg(data);
        command.arg("--jwks").arg(world.path("jwks.json"));
        command.args(["--listen", listen]);
        command.args(["--issuer", support::ISSUER, "--audience", support::AUDIENCE]);
        command.args(self.arguments());
        command
    }

    /// Runs `carebook journal` with these arguments.
    pub fn journal(&self, command: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let own = self.arguments();
        let mut all = vec!["journal", command];
        all.extend(own.iter().map(String::as_str));
        all.extend(arguments);
        support::run(&all)
    }

    /// What `carebook journal` with these arguments and `--json` says, which succeeds.
    #[track_caller]
    fn told(&self, command: &str, arguments: &[&str]) -> Value {
        let (code, out, errors) = self.journal(command, &[&["--json"][..], arguments].concat());
        assert_eq!(code, Some(0), "{errors}");
        serde_json::from_str(&out).unwrap()
    }

    /// What `carebook journal status --json` says.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.told("status", &[])
    }

    /// The whole stream is in order, and the directory has the same records.
    #[track_caller]
    pub fn verify(&self, data: &Path) -> Value {
        let data = data.to_str().unwrap();
        let told = self.told("verify", &["--data", data]);
        let compared = told["comparedRecords"].as_u64().unwrap();
        assert!(compared <= told["records"].as_u64().unwrap(), "{told}");
        told
    }

    /// Does `work` with a client of its own, again until it works.
    fn with<T>(&self, work: impl AsyncFn(Context) -> Result<T, async_nats::Error>) -> T {
        let began = Instant::now();
        loop {
            let done = self.runtime.block_on(async {
                let client = async_nats::connect(self.addresses()).await?;
                work(jetstream::new(client)).await
            });
            match done {
                Ok(done) => return done,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The messages of the stream.
    fn messages(&self) -> Vec<Bytes> {
        self.with(async |context| {
            let stream = context.get_stream(STREAM).await?;
            let mut messages = Vec::new();
            for sequence in 1..=stream.cached_info().state.last_sequence {
                messages.push(stream.get_raw_message(sequence).await?.payload);
            }
            Ok(messages)
        })
    }

    /// The journal is made anew, and no process has its lease.
    fn renew(&self) {
        self.with(async |context| {
            let names = [STREAM, BUCKET];
            for name in names {
                match context.delete_stream(name).await {
                    Err(error) if !error.to_string().contains("10059") => return Err(error.into()),
                    _ => {}
                }
            }
            Ok(())
        });
        let (code, _, errors) = self.journal("create", &["--max-bytes", &ROOMY.to_string()]);
        assert_eq!(code, Some(0), "{errors}");
    }

    /// The stream is made anew, with these messages.
    fn replace(&self, messages: &[Bytes]) {
        self.with(async |context| {
            let stream = context.get_stream(STREAM).await?;
            let config = stream.cached_info().config.clone();
            context.delete_stream(STREAM).await?;
            context.create_stream(config).await?;
            Ok(())
        });
        for message in messages {
            self.publish(message.clone());
        }
    }

    /// Puts a message at the end of the stream, as anybody may who has the right.
    fn publish(&self, message: Bytes) {
        self.with(async |context| {
            let sent = context.publish(SUBJECT, message.clone()).await?;
            sent.await?;
            Ok(())
        });
    }

    /// The stream's settings.
    fn config(&self) -> Value {
        self.with(async |context| {
            let info = asked(&context, &format!("STREAM.INFO.{STREAM}"), &json!({})).await?;
            Ok(info["config"].clone())
        })
    }

    /// The stream is made anew, empty, with these settings.
    fn make(&self, config: &Value) {
        self.with(async |context| {
            context.delete_stream(STREAM).await?;
            asked(&context, &format!("STREAM.CREATE.{STREAM}"), config).await?;
            Ok(())
        });
    }

    /// Changes the stream's settings.
    fn change(&self, settings: &Value) {
        let mut config = self.config();
        for (name, value) in settings.as_object().unwrap() {
            config[name] = value.clone();
        }
        self.with(async |context| {
            asked(&context, &format!("STREAM.UPDATE.{STREAM}"), &config).await?;
            Ok(())
        });
    }
}

/// What the servers' interface answers.
async fn asked(context: &Context, what: &str, body: &Value) -> Result<Value, async_nats::Error> {
    let subject = format!("$JS.API.{what}");
    let answer = context
        .client()
        .request(subject, body.to_string().into())
        .await?;
    let answer: Value = serde_json::from_slice(&answer.payload)?;
    match &answer["error"] {
        Value::Null => Ok(answer),
        error => Err(error.to_string().into()),
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 0..self.nodes.len() {
            if self.nodes[number].child.is_some() {
                self.kill(number);
            }
        }
    }
}

/// The journal's stream and its subject.
const STREAM: &str = "CAREBOOK_tests";
/// The stream of its lease.
const BUCKET: &str = "KV_CAREBOOK_LEASE_tests";
const SUBJECT: &str = "carebook.journal.tests";
/// Room enough.
const ROOMY: u64 = 1 << 30;

/// Asks for a deposit under a number; the status.
fn ask(world: &World, client: &mut Client, number: usize) -> Option<u16> {
    ask_saying(world, client, number, "")
}

/// As [`ask`], with this memo.
fn ask_saying(world: &World, client: &mut Client, number: usize, memo: &str) -> Option<u16> {
    let mut body = world.deposit_request(&format!("code-{number}"), &format!("key-{number}"));
    if !memo.is_empty() {
        body["headOfficePrivateMemo"] = json!(memo);
    }
    let bearer = format!("Bearer {}", world.headquarters());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let path = "/settlement-deposit-requests";
    let answer = client.try_request("POST", path, &headers, body.to_string().as_bytes());
    answer.ok().map(|answer| answer.status)
}

/// Asks for so many deposits, all of which are granted.
#[track_caller]
fn ask_for(world: &World, server: &Server, numbers: std::ops::Range<usize>) {
    let mut client = server.client();
    for number in numbers {
        assert_eq!(ask(world, &mut client, number), Some(201), "{number}");
    }
}

/// The server does not start on this directory: the exit code, and what it says of it.
fn start_refused(cluster: &Cluster, world: &World, data: &Path) -> (Option<i32>, String) {
    let output = cluster.command(world, data).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let last = errors.lines().find(|line| line.starts_with("carebook: "));
    (output.status.code(), last.unwrap_or(&errors).to_owned())
}

/// Each file below a directory, and its bytes.
fn content(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = support::files(data);
    files.sort();
    let bytes = |file: PathBuf| {
        let bytes = std::fs::read(&file).unwrap();
        (file, bytes)
    };
    files.into_iter().map(bytes).collect()
}
