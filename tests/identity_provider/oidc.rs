//! npm's `oidc-provider` as a real server over TLS: `OIDC_PROVIDER` names the directory that
//! `npm ci` has filled from `oidc/package-lock.json`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};

use super::{of_issuer, status};
use crate::support::{Server, World, or_skip};

const ALGORITHMS: [&str; 3] = ["ES256", "EdDSA", "RS256"];

/// A provider that has said nothing for so long hangs.
const HANGS: Duration = Duration::from_secs(120);

/// The provider; gone when dropped.
pub(crate) struct Oidc {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    pub(crate) issuer: String,
}

impl Drop for Oidc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Oidc {
    /// `None`, and that is said, where it is not installed and this is not the gate.
    pub(crate) fn start(world: &World) -> Option<Self> {
        let modules = std::env::var_os("OIDC_PROVIDER").map(PathBuf::from);
        let modules = or_skip(modules, "oidc-provider (OIDC_PROVIDER, see .ci/run)")?;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(world.path("ca.pem"), made.cert.pem()).unwrap();
        std::fs::write(world.path("ca.key"), made.signing_key.serialize_pem()).unwrap();
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/identity_provider/oidc/provider.mjs"
        );
        let mut child = Command::new("node")
            .arg(script)
            .arg(modules)
            .arg(world.path("ca.pem"))
            .arg(world.path("ca.key"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (told, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    break;
                }
            }
        });
        let mut oidc = Self {
            input: child.stdin.take().unwrap(),
            lines,
            child,
            issuer: String::new(),
        };
        let line = oidc.line();
        let port = line.strip_prefix("listening on ").unwrap();
        oidc.issuer = format!("https://localhost:{port}");
        Some(oidc)
    }

    fn line(&self) -> String {
        let line = self.lines.recv_timeout(HANGS);
        line.expect("the provider has ended, or says nothing")
    }

    pub(crate) fn say(&mut self, said: &Value) -> Value {
        writeln!(self.input, "{said}").unwrap();
        let answer: Value = serde_json::from_str(&self.line()).unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
        answer
    }

    fn publishes(&mut self, what: &str) {
        self.say(&json!({ "do": what }));
    }

    fn token(&mut self, how: &str, alg: &str) -> String {
        let answer = self.say(&json!({"do": how, "alg": alg}));
        answer["token"].as_str().unwrap().to_owned()
    }

    fn asked(&mut self) -> u64 {
        self.say(&json!({"do": "keys-asked"}))["count"]
            .as_u64()
            .unwrap()
    }
}

#[test]
fn a_real_provider_s_tokens_of_every_algorithm_and_sign_in_are_accepted() {
    let world = World::new();
    let Some(mut oidc) = Oidc::start(&world) else {
        return;
    };
    let server = Server::spawn(of_issuer(&world, &oidc.issuer, &[]));
    let mut client = server.client();
    for alg in ALGORITHMS {
        for how in ["token", "sign-in"] {
            let token = oidc.token(how, alg);
            assert_eq!(status(&mut client, &token), 404, "{how} {alg}");
            // What the claims permit is permitted.
            let events = client.get("/events", &token);
            assert_eq!(events.status, 200, "{how} {alg} {events:?}");
        }
    }
    assert_eq!(oidc.asked(), 1);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_real_provider_s_key_rotation_under_load_refuses_no_good_token() {
    let world = World::new();
    let Some(mut oidc) = Oidc::start(&world) else {
        return;
    };
    let server = Server::spawn(of_issuer(&world, &oidc.issuer, &[]));
    let old: Vec<_> = ALGORITHMS.map(|alg| oidc.token("token", alg)).into();
    let is_over = Arc::new(AtomicBool::new(false));
    // Old tokens all the while, until their keys are withdrawn.
    let load: Vec<_> = old
        .iter()
        .map(|token| {
            let (token, is_over) = (token.clone(), Arc::clone(&is_over));
            let mut client = server.client();
            std::thread::spawn(move || {
                let mut good = 0;
                while !is_over.load(Ordering::Acquire) {
                    assert_eq!(status(&mut client, &token), 404);
                    good += 1;
                }
                good
            })
        })
        .collect();
    let mut client = server.client();
    oidc.publishes("publish");
    for alg in ALGORITHMS {
        assert_eq!(status(&mut client, &oidc.token("token", alg)), 404);
    }
    oidc.publishes("sign-with-newest");
    let new: Vec<_> = ALGORITHMS.map(|alg| oidc.token("sign-in", alg)).into();
    for token in &new {
        assert_eq!(status(&mut client, token), 404);
    }
    assert_eq!(oidc.asked(), 2, "the start, and the first new key");
    is_over.store(true, Ordering::Release);
    for thread in load {
        assert!(thread.join().unwrap() > 0);
    }
    oidc.publishes("withdraw");
    server.signal("HUP");
    while status(&mut client, &old[0]) != 401 {
        std::thread::yield_now();
    }
    for (old, new) in old.iter().zip(&new) {
        assert_eq!(status(&mut client, old), 401);
        assert_eq!(status(&mut client, new), 404);
    }
}
