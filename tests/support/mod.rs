//! What the tests share: a world (keys, tokens, a data directory), the real server in a process of
//! its own, and a small HTTP client that blocks.

// Each test takes what it needs.
#![allow(dead_code)]

pub mod callgrind;
pub mod command;
pub mod document;
pub mod gated;
pub mod good;
pub mod inside;
pub mod pages;
pub mod stage;
pub mod watched;

use std::fmt::Display;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use carebook::base::actor::{Actor, ActorKind};
use carebook::cli::open::{Opening, open};
use carebook::cli::token::signing::{Claims, SigningAlgorithm, SigningKey};
use carebook::engine::{Engine, Limits};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpSocket;

/// The issuer and audience of the tests' tokens.
pub const ISSUER: &str = "https://id.test";
pub const AUDIENCE: &str = "carebook-test";

/// An address of the loopback at which nobody listens, and nobody else can as long as the socket is
/// kept: a port that was let go is another test's a moment later.
pub fn where_nobody_listens() -> (SocketAddr, TcpSocket) {
    let kept = TcpSocket::new_v4().unwrap();
    kept.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    (kept.local_addr().unwrap(), kept)
}

/// A data directory and a signing key; gone when dropped.
pub struct World {
    directory: TempDir,
    pub key: SigningKey,
}

impl World {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
        std::fs::write(directory.path().join("jwks.json"), key.jwks()).unwrap();
        Self { directory, key }
    }

    /// A file or directory of the world's.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The server's data directory.
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The engine of a stopped server's directory, within the test.
    pub fn engine(&self) -> Engine {
        let opening = Opening {
            lanes: 1,
            limits: Limits::default(),
            reserve_bytes: 0,
            create: false,
        };
        let on_fatal = Box::new(|error: &wal::Error| panic!("the log failed: {error}"));
        let Ok((engine, _)) = open(&self.data(), opening, on_fatal) else {
            panic!("it stopped well");
        };
        engine
    }

    /// A token for the actor, good for an hour.
    pub fn token(&self, actor: &Actor) -> String {
        self.key.sign(&claims(actor, 3_600)).unwrap()
    }

    /// A token of an actor with no more than a kind and a subject.
    pub fn plain(&self, kind: ActorKind, subject: &str) -> String {
        self.token(&actor(kind, subject))
    }

    /// A token of a headquarters administrator.
    pub fn headquarters(&self) -> String {
        self.plain(ActorKind::HeadquartersAdministrator, "hq-1")
    }

    /// A token of a workflow that may write and read facts.
    pub fn workflow(&self) -> String {
        self.token(&Actor {
            permissions: vec!["facts:write".into(), "facts:read".into()],
            ..actor(ActorKind::SystemWorkflow, "workflow-1")
        })
    }

    /// A token of the manager of `branch`.
    pub fn manager(&self, branch: &str) -> String {
        self.token(&Actor {
            branch_profile_ids: vec![branch.into()],
            ..actor(ActorKind::BranchManager, "manager-1")
        })
    }

    /// A good request for a deposit by [`World::headquarters`] from `branch-1`.
    pub fn deposit_request(&self, code: &str, key: &str) -> Value {
        json!({
            "statementCode": code,
            "statementKind": "head_office_to_branch",
            "branchProfileId": "branch-1",
            "settlementPeriodStart": "2026-10-01",
            "settlementPeriodEnd": "2026-10-31",
            "remittanceAccountSnapshot": {
                "remittanceAccountSnapshotId": "remittance-1",
                "bankName": "Bank",
                "accountHolder": "Holder",
                "accountNumberDisplay": "110-***-1",
                "capturedAt": "2026-11-01T00:00:00Z",
                "sourceReferenceKey": null,
            },
            "actorKind": "headquarters_administrator",
            "actorProfileId": "hq-1",
            "idempotencyKey": key,
            "messageToBranch": null,
            "headOfficePrivateMemo": "for us",
        })
    }
}

/// A fact of an office's profile, at this revision.
pub fn office(id: &str, revision: u64) -> Value {
    json!({
        "kind": "branch-office-profile",
        "id": id,
        "revision": revision,
        "facts": {
            "displayName": format!("Office {revision}"),
            "legalName": "Office",
            "contactEmail": "office@example.com",
            "primaryPhoneNumber": "+82212345678",
            "addressLine": "Seoul",
            "businessRegistrationReference": "reference-1",
        },
    })
}

/// An actor with nothing but a kind and a subject.
pub fn actor(kind: ActorKind, subject: &str) -> Actor {
    Actor {
        subject: subject.into(),
        kind,
        ..Actor::nobody()
    }
}

/// The claims of a token for the actor that is good for `ttl` seconds.
pub fn claims(actor: &Actor, ttl: u64) -> Claims {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    Claims::of(actor, ISSUER, AUDIENCE, now, ttl)
}

/// The program.
pub fn carebook() -> Command {
    Command::new(env!("CARGO_BIN_EXE_carebook"))
}

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    pub address: String,
    /// Where it offers what is for inside, when that is apart.
    pub internal: Option<String>,
}

impl Server {
    /// Starts a server on the world's data directory and waits until it listens.
    pub fn start(world: &World) -> Self {
        Self::start_with(world, &[])
    }

    /// As [`Server::start`], with further arguments.
    pub fn start_with(world: &World, arguments: &[&str]) -> Self {
        let mut command = carebook();
        serve_arguments(&mut command, world).args(arguments);
        Self::spawn(command)
    }

    /// As [`Server::start_with`]; its exit code when it ends before it listens.
    pub fn try_start(world: &World, arguments: &[&str]) -> Result<Self, Option<i32>> {
        let mut command = carebook();
        serve_arguments(&mut command, world).args(arguments);
        Self::try_spawn(command)
    }

    /// Runs the command, which has to print `listening on http://ADDRESS`.
    pub fn spawn(command: Command) -> Self {
        Self::listening(Self::try_spawn(command))
    }

    fn listening<T>(spawned: Result<T, Option<i32>>) -> T {
        spawned.unwrap_or_else(|code| panic!("the server does not listen, it ended with {code:?}"))
    }

    /// As [`Server::spawn`]; its exit code when it ends before it listens.
    pub fn try_spawn(command: Command) -> Result<Self, Option<i32>> {
        let (server, mut out) = Self::try_spawn_heard(command)?;
        // What it prints later must find a reader.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Ok(server)
    }

    /// As [`Server::spawn`], with what it prints after that line.
    pub fn spawn_heard(command: Command) -> (Self, BufReader<ChildStdout>) {
        Self::listening(Self::try_spawn_heard(command))
    }

    fn try_spawn_heard(
        mut command: Command,
    ) -> Result<(Self, BufReader<ChildStdout>), Option<i32>> {
        if std::env::var_os("SERVER_LOG").is_none() {
            command.stderr(Stdio::null());
        }
        Self::try_spawn_telling(command)
    }

    /// As [`Server::spawn`], with standard error where the command has it.
    pub fn spawn_telling(command: Command) -> Self {
        let (server, mut out) = Self::listening(Self::try_spawn_telling(command));
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        server
    }

    /// As [`Server::try_spawn`], with standard error where the command has it.
    pub fn try_spawn_logging(command: Command) -> Result<Self, Option<i32>> {
        let (server, mut out) = Self::try_spawn_telling(command)?;
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Ok(server)
    }

    fn try_spawn_telling(
        mut command: Command,
    ) -> Result<(Self, BufReader<ChildStdout>), Option<i32>> {
        command.stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut line, mut second) = (String::new(), String::new());
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        if command.get_args().any(|arg| arg == "--internal-listen") {
            out.read_line(&mut second).unwrap();
        }
        let line = line.trim();
        let heard = line.strip_prefix("listening on http://");
        let Some(address) = heard.or(line.strip_prefix("listening on https://")) else {
            let status = child.wait().unwrap();
            eprintln!("the server does not listen: {line:?}, {status}");
            return Err(status.code());
        };
        let server = Self {
            address: address.to_owned(),
            internal: second
                .trim()
                .strip_prefix("internal on http://")
                .map(str::to_owned),
            child,
        };
        Ok((server, out))
    }

    pub fn client(&self) -> Client {
        self.try_client().unwrap()
    }

    /// As [`Server::client`]; an error when the server does not listen.
    pub fn try_client(&self) -> std::io::Result<Client> {
        let mut client = Client::try_connect(&self.address)?;
        client.process = self.id();
        Ok(client)
    }

    /// The value of a series of `/metrics`, by its name with its labels.
    #[track_caller]
    pub fn metric(&self, series: &str) -> f64 {
        let page = self.client().request("GET", "/metrics", &[], b"");
        page.metric(series)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process as a power cut would, as far as a process can see.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; the exit code.
    pub fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().unwrap().code()
    }

    /// Sends a signal, by its name.
    pub fn signal(&self, name: &str) {
        assert!(self.try_signal(name), "no process takes {name}");
    }

    /// As [`Server::signal`]; whether it was sent.
    pub fn try_signal(&self, name: &str) -> bool {
        let sent = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.id().to_string())
            .stderr(Stdio::null())
            .status();
        sent.unwrap().success()
    }

    /// The exit code, when the process has ended by itself.
    pub fn has_ended(&mut self) -> Option<Option<i32>> {
        let status = self.child.try_wait().unwrap();
        status.map(|status| status.code())
    }

    /// Waits until the process has ended by itself; its exit code.
    pub fn ended_within(mut self, limit: Duration) -> Option<i32> {
        let started = std::time::Instant::now();
        while started.elapsed() < limit {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the server still runs after {limit:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The arguments of a server on the world's data directory.
pub fn serve_arguments<'a>(command: &'a mut Command, world: &World) -> &'a mut Command {
    command
        .arg("serve")
        .arg("--data")
        .arg(world.data())
        .arg("--jwks")
        .arg(world.path("jwks.json"))
        .args([
            "--listen",
            "127.0.0.1:0",
            "--issuer",
            ISSUER,
            "--audience",
            AUDIENCE,
        ])
}

/// One connection that is kept alive.
pub struct Client {
    stream: BufReader<TcpStream>,
    /// The process at the other end, where that matters.
    pub process: u32,
}

/// An answer.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        write!(f, "{} {:?} {body}", self.status, self.headers)
    }
}

impl Answer {
    /// As it is judged.
    pub fn received(&self) -> document::Received<'_> {
        document::Received {
            status: self.status,
            headers: &self.headers,
            body: &self.body,
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The position that the answer rests on.
    pub fn position(&self) -> Option<u64> {
        self.header("carebook-position")
            .map(|value| value.parse().unwrap())
    }

    /// The value of a series on the page of metrics, by its name with its labels.
    #[track_caller]
    pub fn metric(&self, series: &str) -> f64 {
        let mut lines = self.text().lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let value = value.unwrap_or_else(|| panic!("no {series} in {}", self.text()));
        value.parse().unwrap()
    }

    /// Place and code of each fault of the request.
    pub fn faults(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let faults = self.json()["fieldErrors"].as_array().unwrap().clone();
        faults
            .iter()
            .map(|fault| (text(&fault["fieldPath"]), text(&fault["code"])))
            .collect()
    }
}

/// The text of the first field of this name, wherever it is in the response.
pub fn text_of(answer: &Value, name: &str) -> Option<String> {
    match answer {
        Value::Object(members) => {
            let own = members.get(name).and_then(Value::as_str);
            let own = own.map(str::to_owned);
            own.or_else(|| members.values().find_map(|member| text_of(member, name)))
        }
        Value::Array(items) => items.iter().find_map(|item| text_of(item, name)),
        _ => None,
    }
}

impl Client {
    pub fn connect(address: &str) -> Self {
        Self::try_connect(address).unwrap()
    }

    /// As [`Client::connect`]; an error when nothing listens there.
    pub fn try_connect(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self {
            stream: BufReader::new(stream),
            process: 0,
        })
    }

    /// POST of a JSON body with a token.
    pub fn post(&mut self, path: &str, token: &str, body: &Value) -> Answer {
        self.send_json("POST", path, token, &[], body)
    }

    /// POST with an idempotency key in the header.
    pub fn post_keyed(&mut self, path: &str, token: &str, key: &str, body: &Value) -> Answer {
        self.send_json("POST", path, token, &[("Idempotency-Key", key)], body)
    }

    pub fn send_json(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut all = vec![
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
        ];
        all.extend_from_slice(headers);
        self.request(method, path, &all, body.to_string().as_bytes())
    }

    /// GET with a token.
    pub fn get(&mut self, path: &str, token: &str) -> Answer {
        self.request(
            "GET",
            path,
            &[("Authorization", &format!("Bearer {token}"))],
            b"",
        )
    }

    /// Facts, one batch as JSON.
    pub fn put_facts(&mut self, token: &str, facts: &[Value]) -> Answer {
        self.post("/reference-facts", token, &json!({"facts": facts}))
    }

    /// Sends a request and reads its answer.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.try_request(method, path, headers, body).unwrap()
    }

    /// As [`Client::request`]; an error when the connection breaks.
    pub fn try_request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<Answer> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || matches!(method, "POST" | "PATCH" | "PUT") {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        self.stream.get_mut().write_all(&bytes)?;
        let answer = self.read_answer(method)?;
        let sent = document::Sent {
            method,
            path,
            headers,
            body,
        };
        document::judge(sent, answer.received());
        Ok(answer)
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// As [`Client::send_raw`]; an error when the connection breaks.
    pub fn try_send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads the answer to a request of `method`.
    pub fn read_answer(&mut self, method: &str) -> std::io::Result<Answer> {
        let broken = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let status_line = self.line()?;
        let status: u16 = status_line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .ok_or_else(broken)?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(broken)?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
        let has_body = method != "HEAD" && status != 204 && status != 304;
        let mut body = vec![0; if has_body { length } else { 0 }];
        self.stream.read_exact(&mut body)?;
        Ok(Answer {
            status,
            headers,
            body,
        })
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// The seed of a randomized test: `SEED`, or one from the clock; printed, so that a failure can
/// be played again.
pub fn seed() -> u64 {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_secs() ^ u64::from(now.subsec_nanos())
    });
    println!("SEED={seed}");
    seed
}

/// The files of a folder have the digests that are listed, each before its name (SHA-256, as
/// `sha256sum` writes it).
pub fn assert_digests(folder: &Path, listed: &[(&str, &str)]) {
    for (sum, name) in listed {
        let content = std::fs::read(folder.join(name)).unwrap();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &content);
        let digest = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        assert_eq!(digest.collect::<String>(), *sum, "{name}");
    }
}

/// How long anything may take that is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done`; fails when that takes too long.
#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(
            began.elapsed() < PATIENCE,
            "{what}: not within {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What `attempt` comes to, which is made again until it succeeds; fails when that takes too long.
#[track_caller]
pub fn until_ok<T, E: Display>(what: &str, mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(
                began.elapsed() < PATIENCE,
                "{what}: not within {PATIENCE:?}: {error}"
            ),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A program beside carebook that a test needs: in the path, or where Debian has servers.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()))
}

/// What a test needs beside carebook, where it was found. Where it is missing the test is skipped,
/// and that is said, but not in the gate: `.ci/run` puts everything there.
pub fn or_skip<T>(found: Option<T>, what: &str) -> Option<T> {
    if found.is_none() {
        let is_gate = std::env::var_os("CI").is_some();
        assert!(!is_gate, "there is no {what} to test with");
        println!("SKIPPED: there is no {what}");
    }
    found
}

/// A NATS server as the journal and published events need it: the program that `NATS_SERVER` names,
/// or else the one in the path. Distributions have older ones, whose streams lack what is asked for.
pub fn nats_server() -> Option<PathBuf> {
    const SINCE: (u32, u32) = (2, 14);
    let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
    let found = named.or_else(|| program("nats-server")).filter(|program| {
        let said = Command::new(program).arg("--version").output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let version = said.trim().rsplit_once('v').map(|(_, version)| version);
        let mut numbers = version
            .into_iter()
            .flat_map(|version| version.split('.'))
            .map_while(|number| number.parse().ok());
        numbers.next().zip(numbers.next()) >= Some(SINCE)
    });
    let (major, minor) = SINCE;
    let what = format!("nats-server of {major}.{minor} or later (NATS_SERVER, or in the path)");
    or_skip(found, &what)
}

/// Runs the program with these arguments; exit code, standard output, standard error.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = carebook().args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The resident memory of a process, in bytes.
pub fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB").parse::<u64>();
    kilobytes.unwrap() << 10
}

/// The files below a directory.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// What the records and the snapshot of a data directory say, which its files may have packed.
pub fn said_in(data: &Path) -> Vec<Vec<u8>> {
    let mut said = Said::default();
    let storage = wal::storage::FileStorage::existing(data).unwrap();
    wal::verify(std::sync::Arc::new(storage), &mut said).unwrap();
    said.0
}

#[derive(Default)]
struct Said(Vec<Vec<u8>>);

impl wal::Visitor for Said {
    fn record(&mut self, record: wal::Record<'_>) -> Result<(), wal::BoxError> {
        self.0.push(record.payload.to_vec());
        Ok(())
    }

    fn snapshot(&mut self, _: &wal::SnapshotInfo) -> Result<(), wal::BoxError> {
        Ok(())
    }

    fn kept(&mut self, record: wal::Record<'_>) -> Result<(), wal::BoxError> {
        self.record(record)
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), wal::BoxError> {
        self.0.push(entry.to_vec());
        Ok(())
    }
}

/// Learns which log it is that is shown.
#[derive(Default)]
pub struct WhichLog(pub carebook::journal::lineage::Lineage);

impl wal::Visitor for WhichLog {
    fn identity(&mut self, identity: &wal::Identity) {
        self.0 = carebook::cli::open::lineage(identity);
    }

    fn record(&mut self, _: wal::Record<'_>) -> Result<(), wal::BoxError> {
        Ok(())
    }

    fn snapshot(&mut self, _: &wal::SnapshotInfo) -> Result<(), wal::BoxError> {
        Ok(())
    }

    fn kept(&mut self, _: wal::Record<'_>) -> Result<(), wal::BoxError> {
        Ok(())
    }

    fn entry(&mut self, _: &[u8]) -> Result<(), wal::BoxError> {
        Ok(())
    }
}

/// Which log a storage has.
pub fn lineage_of(
    storage: std::sync::Arc<dyn wal::storage::Storage>,
) -> carebook::journal::lineage::Lineage {
    let mut which = WhichLog::default();
    wal::verify(storage, &mut which).unwrap();
    which.0
}

/// Where the frames of a segment begin and end.
pub fn frames(segment: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 4_096;
    while segment.len() >= at + 72 && segment[at..at + 4] == *b"Wfr1" {
        let payload = u32::from_le_bytes(segment[at + 52..at + 56].try_into().unwrap());
        let end = at + (72 + payload as usize).next_multiple_of(8);
        found.push((at, end));
        at = end;
    }
    found
}
