//! The server under measurement, in a process of its own on a fresh directory.

use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use carebook::base::actor::{Actor, ActorKind};
use carebook::cli::token::signing::{Claims, SigningAlgorithm, SigningKey};
use carebook::cli::token::{DEFAULT_AUDIENCE, DEFAULT_ISSUER};
use carebook::domain::example;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::callgrind;
use crate::http;
use crate::proc::Process;
use crate::sizes::OfBoth;

/// How long a token lasts: longer than any run.
const TOKEN_SECONDS: u64 = 12 * 3_600;
/// How long an end that was asked for may take.
const END_MAX: Duration = Duration::from_secs(60);
/// And where nobody asks how it ended.
const DROPPED_MAX: Duration = Duration::from_secs(10);
/// More bytes than any log here has.
const NEVER_BYTES: u64 = 1 << 50;
/// Facts that are sent in one stream.
const FACTS_AT_ONCE: usize = 100_000;

/// Which program it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The service.
    Carebook,
    /// Something that is measured beside it; it has no metrics and takes no facts.
    Other,
}

/// A running server; ended when dropped.
pub(crate) struct Server {
    child: Child,
    kind: Kind,
    address: String,
    key: SigningKey,
    directory: Option<TempDir>,
    /// From its start to the line that says that it listens.
    pub(crate) ready_after: Duration,
}

/// Where servers keep their data by default: on the disk that the program is built on.
pub(crate) fn scratch(directory: Option<&Path>) -> Result<TempDir, String> {
    let within = directory.unwrap_or(Path::new(env!("CARGO_TARGET_TMPDIR")));
    tempfile::tempdir_in(within).map_err(|error| format!("{}: {error}", within.display()))
}

/// How a service is started.
#[derive(Clone, Default)]
pub(crate) struct Start {
    /// The program, where it is not to be the one that is built with the bench.
    pub(crate) program: Option<PathBuf>,
    /// In which directory fresh ones are made.
    pub(crate) within: Option<PathBuf>,
    /// The data directory, where it is not to be a fresh one.
    pub(crate) data: Option<PathBuf>,
    /// Further arguments of `carebook serve`.
    pub(crate) arguments: Vec<String>,
    /// Whether its standard error is not read.
    pub(crate) is_unheard: bool,
    /// Where its instructions are written, if they are counted.
    pub(crate) counted: Option<PathBuf>,
}

impl Start {
    /// With a standard error that is not read.
    pub(crate) fn unheard(self) -> Self {
        Self {
            is_unheard: true,
            ..self
        }
    }

    /// Under valgrind, which writes to `out` what it counts while it is told to.
    pub(crate) fn counted(self, out: &Path) -> Self {
        Self {
            counted: Some(out.to_owned()),
            ..self
        }
    }

    /// With these arguments.
    pub(crate) fn with(&self, arguments: &[&str]) -> Self {
        let mut start = self.clone();
        start
            .arguments
            .extend(arguments.iter().map(|&one| one.to_owned()));
        start
    }

    /// Without snapshots but those that are asked for.
    pub(crate) fn without_snapshots(&self) -> Self {
        let bytes = NEVER_BYTES.to_string();
        self.with(&["--snapshot-log-bytes", &bytes, "--snapshot-interval", "30d"])
    }

    /// Starts the service.
    pub(crate) fn service(&self) -> Result<Server, String> {
        let directory = scratch(self.within.as_deref())?;
        let key =
            SigningKey::generate(SigningAlgorithm::Es256).map_err(|error| error.to_string())?;
        let jwks = directory.path().join("jwks.json");
        std::fs::write(&jwks, key.jwks()).map_err(|error| error.to_string())?;
        let fresh = directory.path().join("data");
        let built = || PathBuf::from(env!("CARGO_BIN_EXE_carebook"));
        let program = self.program.clone().unwrap_or_else(built);
        let mut command = match &self.counted {
            None => Command::new(program),
            Some(out) => callgrind::under(Path::new("valgrind"), out, program.as_os_str()),
        };
        command
            .arg("serve")
            .arg("--data")
            .arg(self.data.as_ref().unwrap_or(&fresh))
            .arg("--jwks")
            .arg(jwks)
            .args(["--listen", "127.0.0.1:0"])
            .args(&self.arguments)
            .env("RUST_LOG", "warn");
        if self.is_unheard {
            command.stderr(Stdio::null());
        }
        Server::spawn(command, Kind::Carebook, key, Some(directory))
    }

    /// The limit, in a process of its own too.
    pub(crate) fn limit(&self, sizes: OfBoth) -> Result<Server, String> {
        let directory = scratch(self.within.as_deref())?;
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(this);
        command
            .arg("--serve-limit")
            .arg(directory.path().join("data"))
            .args(["--limit-sizes", &sizes.argument()]);
        Self::other(command, directory)
    }

    /// Another program that prints where it listens.
    pub(crate) fn other(command: Command, directory: TempDir) -> Result<Server, String> {
        let key =
            SigningKey::generate(SigningAlgorithm::Es256).map_err(|error| error.to_string())?;
        Server::spawn(command, Kind::Other, key, Some(directory))
    }
}

impl Server {
    fn spawn(
        mut command: Command,
        kind: Kind,
        key: SigningKey,
        directory: Option<TempDir>,
    ) -> Result<Self, String> {
        let started = Instant::now();
        // Its input stays open as long as it is wanted: a peer ends when that ends.
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{command:?}: {error}"))?;
        let mut server = Self {
            child,
            kind,
            address: String::new(),
            key,
            directory,
            ready_after: Duration::ZERO,
        };
        let output = server.child.stdout.take().expect("its output is a pipe");
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        server.ready_after = started.elapsed();
        server.address = line
            .trim()
            .strip_prefix("listening on http://")
            .ok_or_else(|| format!("{command:?} did not start: {line}"))?
            .to_owned();
        Ok(server)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Its metrics, as they are on the page.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) fn metrics(&self) -> Result<Metrics, String> {
        http::get(&self.address, "/metrics").map(Metrics)
    }

    /// Bytes written so far to the device of its directory, by it and by everybody else.
    pub(crate) fn device_written(&self) -> Option<u64> {
        let directory = self.directory.as_ref()?;
        crate::proc::device_written(directory.path())
    }

    /// How many batches it has written and synced so far, where it counts them.
    pub(crate) fn syncs(&self) -> Option<u64> {
        if self.kind != Kind::Carebook {
            return None;
        }
        let count = self
            .metrics()
            .ok()?
            .value("carebook_log_batch_duration_seconds_count")?;
        Some(count as u64)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("it has no process")?;
        kill_process(pid, signal).map_err(|error| format!("it takes no signal: {error}"))
    }

    /// Ends it as an operator does, and waits until it has; its directory stays.
    ///
    /// # Errors
    /// When it does not end, or not well.
    pub(crate) fn end(mut self) -> Result<Option<TempDir>, String> {
        self.signal(Signal::TERM)?;
        let asked = Instant::now();
        loop {
            match self.child.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(self.directory.take()),
                Some(status) => return Err(format!("the server ended with {status}")),
                None if asked.elapsed() > END_MAX => {
                    return Err("the server does not end".to_owned());
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// A token of this actor.
    pub(crate) fn token(&self, actor: &Actor) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("the clock is after 1970")
            .as_secs();
        let claims = Claims::of(actor, DEFAULT_ISSUER, DEFAULT_AUDIENCE, now, TOKEN_SECONDS);
        self.key.sign(&claims).expect("a fresh key signs")
    }

    /// Who may put facts in place.
    pub(crate) fn fact_writer(&self) -> String {
        self.token(&example::actor(ActorKind::SystemWorkflow, &str::to_owned))
    }

    /// Loads these facts, one a line; each has to be stored afterwards.
    ///
    /// # Errors
    /// When one does not, or the server does not take them.
    pub(crate) fn load(&self, facts: &[String]) -> Result<(), String> {
        let token = self.fact_writer();
        for part in facts.chunks(FACTS_AT_ONCE) {
            let answer = self
                .stream(&token, part)
                .map_err(|error| format!("facts could not be sent: {error}"))?;
            let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            let outcome: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
            let of = |result: &str| outcome[result].as_u64().unwrap_or(0);
            if of("applied") + of("unchanged") != part.len() as u64 {
                return Err(format!("facts were not taken: {answer}"));
            }
        }
        Ok(())
    }

    fn stream(&self, token: &str, facts: &[String]) -> std::io::Result<String> {
        let bytes: usize = facts.iter().map(|line| line.len() + 1).sum();
        let mut stream = BufWriter::with_capacity(64 << 10, TcpStream::connect(&self.address)?);
        write!(
            stream,
            "POST /reference-facts HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/x-ndjson\r\nContent-Length: {bytes}\r\n\
             Connection: close\r\n\r\n"
        )?;
        for line in facts {
            stream.write_all(line.as_bytes())?;
            stream.write_all(b"\n")?;
        }
        let mut answer = String::new();
        let mut stream = stream.into_inner()?;
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A peer has children of its own, and ends them when its input ends. A program that counts what
        // of it runs writes its counts when it ends by itself.
        drop(self.child.stdin.take());
        let _ = self.signal(Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < DROPPED_MAX {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A page of metrics.
pub(crate) struct Metrics(String);

impl Metrics {
    /// The value of a series without labels.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        let mut lines = self.0.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?
            .parse()
            .ok()
    }

    /// The value of a series that has to be there.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn need(&self, name: &str) -> Result<f64, String> {
        self.value(name)
            .ok_or_else(|| format!("/metrics has no {name}"))
    }
}
