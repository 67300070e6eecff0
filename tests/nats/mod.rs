//! Events published to NATS, with a real server of it, which is killed and brought back.

mod secured;
mod stands;
mod survives;
mod traced;

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use async_nats::ConnectOptions;
use async_nats::jetstream::{self, context::Context, stream::Config};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::events::{all, reader};
use crate::support::{Client, Server, World, nats_server, until, until_ok};

/// The name of the stream that the tests make.
const STREAM: &str = "CAREBOOK";
/// A NATS server with `JetStream`, on a port and with a directory that it keeps over restarts;
/// killed when dropped.
pub struct Nats {
    program: PathBuf,
    arguments: Vec<String>,
    /// How the tests' own clients log in; as `ann` where nothing is said.
    login: ConnectOptions,
    /// By which name it is reached.
    host: &'static str,
    port: u16,
    store: TempDir,
    child: Option<Child>,
    runtime: Runtime,
}

impl Nats {
    /// One that is not started; `None`, and that is said, where there is no such program and this
    /// is not the gate.
    fn absent() -> Option<Self> {
        let program = nats_server()?;
        // A port that was free a moment ago, outside of what is given out by itself.
        let port = (0..1_000).find_map(|_| {
            let port = rand::random_range(10_000..32_000);
            let free = TcpListener::bind(("127.0.0.1", port)).is_ok();
            free.then_some(port)
        });
        Some(Self {
            program,
            arguments: Vec::new(),
            login: ConnectOptions::new().user_and_password("ann".to_owned(), "p@ss".to_owned()),
            host: "127.0.0.1",
            port: port.unwrap(),
            store: tempfile::tempdir().unwrap(),
            child: None,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        })
    }

    /// One that runs and has the stream.
    pub fn started() -> Option<Self> {
        let mut nats = Self::absent()?;
        nats.start();
        nats.make_stream();
        Some(nats)
    }

    pub fn url(&self) -> String {
        format!("nats://{}:{}", self.host, self.port)
    }

    fn start(&mut self) {
        assert!(self.child.is_none());
        let child = Command::new(&self.program)
            .args([
                "-a",
                "127.0.0.1",
                "-p",
                &self.port.to_string(),
                "-js",
                "-sd",
            ])
            .arg(self.store.path())
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.unwrap());
        until("NATS listens", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    /// SIGKILL.
    fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Does `work` with a client of its own, again until it works: a server that has just started
    /// is not ready for all of it at once.
    fn with<T>(&self, work: impl AsyncFn(Context) -> Result<T, async_nats::Error>) -> T {
        until_ok("the server is ready for it", || {
            self.runtime.block_on(async {
                let client = self.login.clone().connect(self.url()).await?;
                work(jetstream::new(client)).await
            })
        })
    }

    fn make_stream(&self) {
        self.with(async |context| {
            let config = Config {
                name: STREAM.to_owned(),
                subjects: vec!["carebook.events.>".to_owned()],
                ..Config::default()
            };
            context.create_stream(config).await?;
            Ok(())
        });
    }

    /// The identifier of the event that the stream has last; null when it has none.
    fn last(&self) -> Value {
        self.with(async |context| {
            let stream = context.get_stream(STREAM).await?;
            let last = stream.cached_info().state.last_sequence;
            if last == 0 {
                return Ok(Value::Null);
            }
            let message = stream.get_raw_message(last).await?;
            let event: Value = serde_json::from_slice(&message.payload)?;
            Ok(event["id"].clone())
        })
    }

    /// The messages of the stream: `Nats-Msg-Id` and `traceparent`.
    fn places(&self) -> Vec<(String, Option<String>)> {
        self.with(async |context| {
            let stream = context.get_stream(STREAM).await?;
            let mut places = Vec::new();
            for sequence in 1..=stream.cached_info().state.last_sequence {
                let message = stream.get_raw_message(sequence).await?;
                let header = |name: &str| message.headers.get(name).map(ToString::to_string);
                places.push((header("Nats-Msg-Id").unwrap(), header("traceparent")));
            }
            Ok(places)
        })
    }

    /// The messages of the stream: subject, `Nats-Msg-Id`, content.
    fn messages(&self) -> Vec<(String, String, Value)> {
        self.with(async |context| {
            let stream = context.get_stream(STREAM).await?;
            let mut messages = Vec::new();
            let (first, last) = {
                let state = &stream.cached_info().state;
                (state.first_sequence, state.last_sequence)
            };
            // An empty stream says 0 and 0.
            for sequence in first.max(1)..=last {
                let message = stream.get_raw_message(sequence).await?;
                let id = message.headers.get("Nats-Msg-Id").unwrap().to_string();
                let content = serde_json::from_slice(&message.payload)?;
                messages.push((message.subject.to_string(), id, content));
            }
            Ok(messages)
        })
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// Asks for a deposit under a number; whether that was answered with a success.
fn ask_for_deposit(world: &World, client: &mut Client, number: usize) -> bool {
    let body = world.deposit_request(&format!("code-{number}"), &format!("key-{number}"));
    let bearer = format!("Bearer {}", world.headquarters());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let path = "/settlement-deposit-requests";
    let answer = client.try_request("POST", path, &headers, body.to_string().as_bytes());
    answer.is_ok_and(|answer| answer.status == 201)
}

/// All events of the server.
fn told(world: &World, server: &Server) -> Vec<Value> {
    all(&mut server.client(), &world.token(&reader()), "", 1_000)
}

/// The value of a metric.
/// The stream has each event, in the log's order; how many it has again.
#[track_caller]
fn assert_published(nats: &Nats, events: &[Value]) -> usize {
    let last = &events.last().expect("there are events")["id"];
    until("the last event is in the stream", || nats.last() == *last);
    let mut messages = nats.messages();
    let mut known = std::collections::BTreeSet::new();
    let came = messages.len();
    // What is delivered again has the same content, in the same order.
    let by_id: std::collections::BTreeMap<_, _> = messages
        .iter()
        .map(|(_, id, event)| (id.clone(), event.clone()))
        .collect();
    for (_, id, event) in &messages {
        assert_eq!(by_id[id], *event, "{id}");
    }
    messages.retain(|(_, id, _)| known.insert(id.clone()));
    let id = |event: &Value| event["id"].as_str().unwrap().to_owned();
    let ids = messages.iter().map(|(_, _, event)| id(event));
    let wrong = ids.zip(events.iter().map(id)).find(|(is, was)| is != was);
    assert_eq!(wrong, None, "the first that is not in its place");
    assert_eq!(messages.len(), events.len());
    for ((subject, id, content), event) in messages.iter().zip(events) {
        assert_eq!(content, event);
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        let kind = text("type");
        let rest = kind.strip_prefix("carebook.").unwrap();
        assert_eq!(*subject, format!("carebook.events.{rest}"));
        let source = text("source");
        let log = source.strip_prefix("urn:carebook:").unwrap();
        assert_eq!(*id, format!("{log}-{}", text("id")));
    }
    came - messages.len()
}
