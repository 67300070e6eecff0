//! The journal on a replicated stream, with real servers: one, or three that are a cluster.

mod fenced;
mod full;
mod killed;
mod refused;
mod standby;
mod taken_over;
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

use crate::support::{self, Client, PATIENCE, Server, World, or_skip, program, until};

/// A server of the stream.
struct Node {
    port: u16,
    config: PathBuf,
    child: Option<Child>,
}

/// Servers with `JetStream`, with ports and directories that they keep over restarts; killed when
/// dropped.
pub struct Cluster {
    program: PathBuf,
    _directory: TempDir,
    nodes: Vec<Node>,
    runtime: Runtime,
}

impl Cluster {
    /// So many servers that run; `None`, and that is said, where there is no such program and this
    /// is not the gate.
    pub fn started(count: usize) -> Option<Self> {
        let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
        let found = named.or_else(|| program("nats-server"));
        let program = or_skip(found, "nats-server (NATS_SERVER, or in the path)")?;
        let directory = tempfile::tempdir().unwrap();
        // Ports that were free a moment ago, outside of what is given out by itself.
        let mut held = Vec::new();
        while held.len() < 2 * count {
            let port = rand::random_range(10_000..32_000);
            held.extend(TcpListener::bind(("127.0.0.1", port)).ok());
        }
        let ports: Vec<u16> = held
            .iter()
            .map(|held| held.local_addr().unwrap().port())
            .collect();
        drop(held);
        let routes: Vec<_> = ports[count..]
            .iter()
            .map(|port| format!("nats://127.0.0.1:{port}"))
            .collect();
        let nodes = (0..count).map(|number| {
            let store = directory.path().join(format!("store-{number}"));
            let cluster = match count {
                1 => String::new(),
                _ => format!(
                    "cluster {{ name: tests, listen: \"127.0.0.1:{}\", routes: {routes:?} }}",
                    ports[count + number]
                ),
            };
            let text = format!(
                "server_name: node-{number}\nlisten: \"127.0.0.1:{}\"\n\
                 jetstream {{ store_dir: {store:?}, sync_interval: always }}\n{cluster}\n",
                ports[number]
            );
            let config = directory.path().join(format!("node-{number}.conf"));
            std::fs::write(&config, text).unwrap();
            Node {
                port: ports[number],
                config,
                child: None,
            }
        });
        let mut cluster = Self {
            program,
            nodes: nodes.collect(),
            _directory: directory,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        };
        for number in 0..count {
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

    fn start(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        assert!(node.child.is_none());
        let log = node.config.with_extension("log");
        let child = Command::new(&self.program)
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

    fn url(&self) -> String {
        let servers: Vec<_> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port))
            .collect();
        format!("nats://{}", servers.join(","))
    }

    fn addresses(&self) -> Vec<async_nats::ServerAddr> {
        let address = |node: &Node| format!("nats://127.0.0.1:{}", node.port).parse();
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
        let mut command = support::carebook();
        command.arg("serve").arg("--data").arg(data);
        command.arg("--jwks").arg(world.path("jwks.json"));
        command.args(["--listen", "127.0.0.1:0"]);
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

    /// What `carebook journal status --json` says.
    pub fn status(&self) -> Value {
        let (code, out, errors) = self.journal("status", &["--json"]);
        assert_eq!(code, Some(0), "{errors}");
        serde_json::from_str(&out).unwrap()
    }

    /// The whole stream is in order, and the directory has the same records.
    #[track_caller]
    pub fn verify(&self, data: &Path) -> Value {
        let data = data.to_str().unwrap();
        let (code, out, errors) = self.journal("verify", &["--json", "--data", data]);
        assert_eq!(code, Some(0), "{errors}");
        let told: Value = serde_json::from_str(&out).unwrap();
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

    /// Changes the stream's settings.
    fn change(&self, settings: &Value) {
        self.with(async |context| {
            let client = context.client();
            let subject = format!("$JS.API.STREAM.INFO.{STREAM}");
            let info = client.request(subject, "".into()).await?;
            let info: Value = serde_json::from_slice(&info.payload)?;
            let mut config = info["config"].clone();
            for (name, value) in settings.as_object().unwrap() {
                config[name] = value.clone();
            }
            let subject = format!("$JS.API.STREAM.UPDATE.{STREAM}");
            let answer = client.request(subject, config.to_string().into()).await?;
            let answer: Value = serde_json::from_slice(&answer.payload)?;
            match &answer["error"] {
                Value::Null => Ok(()),
                error => Err(error.to_string().into()),
            }
        });
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
