//! The server under measurement, in a process of its own on a fresh directory.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use carebook::base::actor::{Actor, ActorKind};
use carebook::cli::signing::{Claims, SigningAlgorithm, SigningKey};
use carebook::cli::token::{DEFAULT_AUDIENCE, DEFAULT_ISSUER};
use tempfile::TempDir;

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

    /// A token of an actor who acts for `branch`.
    pub(crate) fn token(&self, kind: ActorKind, subject: &str, branch: &str) -> String {
        let actor = Actor {
            subject: subject.into(),
            kind,
            branch_profile_ids: vec![branch.into()],
            ..Actor::nobody()
        };
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let claims = Claims {
            branch_profile_ids: vec![branch.to_owned()],
            ..Claims::new(
                DEFAULT_ISSUER,
                DEFAULT_AUDIENCE,
                &actor.subject,
                kind,
                now,
                3_600,
            )
        };
        self.key.sign(&claims).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
