//! The server under measurement, in a process of its own on a fresh directory.

use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use carebook::base::actor::ActorKind;
use carebook::cli::signing::{Claims, SigningAlgorithm, SigningKey};
use carebook::cli::token::{DEFAULT_AUDIENCE, DEFAULT_ISSUER};
use tempfile::TempDir;

/// How long a token lasts: longer than any run.
const TOKEN_SECONDS: u64 = 4 * 3_600;

/// A running server; ended when dropped.
pub(crate) struct Server {
    child: Child,
    address: String,
    key: SigningKey,
    _directory: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let key = SigningKey::generate(SigningAlgorithm::Es256).unwrap();
        let jwks = directory.path().join("jwks.json");
        std::fs::write(&jwks, key.jwks()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_carebook"));
        command
            .arg("serve")
            .arg("--data")
            .arg(directory.path().join("data"))
            .arg("--jwks")
            .arg(jwks)
            .args(["--listen", "127.0.0.1:0"])
            .env("RUST_LOG", "warn");
        Self::spawn(command, key, directory)
    }

    /// The limit, in a process of its own too.
    pub(crate) fn start_limit() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let key = SigningKey::generate(SigningAlgorithm::Es256).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .arg("--serve-limit")
            .arg(directory.path().join("data"));
        Self::spawn(command, key, directory)
    }

    fn spawn(mut command: Command, key: SigningKey, directory: TempDir) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .unwrap()
            .to_owned();
        Self {
            child,
            address,
            key,
            _directory: directory,
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Processor time that the server has used so far, in user and in kernel mode, in
    /// microseconds.
    pub(crate) fn processor_micros(&self) -> (u64, u64) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name of the process, in parentheses, may hold spaces.
        let fields = stat.rsplit_once(") ").unwrap().1.split(' ');
        let ticks: Vec<u64> = fields
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse().unwrap())
            .collect();
        // USER_HZ is 100 on every Linux: a tick is ten milliseconds.
        (ticks[0] * 10_000, ticks[1] * 10_000)
    }

    /// A token of an actor; `adapt` adds what else it claims.
    pub(crate) fn token(
        &self,
        kind: ActorKind,
        subject: &str,
        adapt: impl FnOnce(&mut Claims),
    ) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let mut claims = Claims::new(
            DEFAULT_ISSUER,
            DEFAULT_AUDIENCE,
            subject,
            kind,
            now,
            TOKEN_SECONDS,
        );
        adapt(&mut claims);
        self.key.sign(&claims).unwrap()
    }

    /// Loads these facts, one a line; each of them has to be new.
    pub(crate) fn load(&self, facts: &[String]) {
        let token = self.token(ActorKind::SystemWorkflow, "workflow-1", |claims| {
            claims.permissions = vec!["facts:write".to_owned()];
        });
        let bytes: usize = facts.iter().map(|line| line.len() + 1).sum();
        let mut stream = BufWriter::new(TcpStream::connect(&self.address).unwrap());
        write!(
            stream,
            "POST /reference-facts HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/x-ndjson\r\nContent-Length: {bytes}\r\n\
             Connection: close\r\n\r\n"
        )
        .unwrap();
        for line in facts {
            stream.write_all(line.as_bytes()).unwrap();
            stream.write_all(b"\n").unwrap();
        }
        let mut answer = String::new();
        let mut stream = stream.into_inner().unwrap();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let outcome: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(outcome["applied"], facts.len(), "{answer}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
