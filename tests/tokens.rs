//! Tokens and keys as the service meets them: withdrawn keys, forged signatures, changed tokens.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::engine::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as URL_SAFE;
use bytes::Bytes;
use carebook::base::actor::ActorKind;
use carebook::catalogue::{OPERATIONS, READS};
use carebook::cli::open::Replaying;
use carebook::cli::token::signing::{SigningAlgorithm, SigningKey};
use carebook::engine::clock::SystemClock;
use carebook::engine::{Engine, Limits};
use carebook::http::service::Service;
use carebook::http::token::TokenVerifier;
use http_body_util::Full;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::support::good::method;
use crate::support::{AUDIENCE, Client, ISSUER, Server, World, actor, claims, seed};

/// After so many forged signatures a connection is closed.
const FORGED_OF_CONNECTION_MAX: usize = 16;

fn status(client: &mut Client, token: &str) -> u16 {
    client.get("/settlement-statements/nothing", token).status
}

/// Sends SIGHUP and waits until a token is answered with this status.
fn reread(server: &Server, token: &str, wanted: u16) {
    server.signal("HUP");
    while status(&mut server.client(), token) != wanted {
        std::thread::yield_now();
    }
}

#[test]
fn a_key_set_that_has_become_empty_means_nobody_until_it_holds_keys_again() {
    let world = World::new();
    let server = Server::start(&world);
    let token = world.headquarters();
    assert_eq!(status(&mut server.client(), &token), 404);
    std::fs::write(world.path("jwks.json"), "{\"keys\":[]}").unwrap();
    reread(&server, &token, 401);
    assert_eq!(server.metric("carebook_key_set_keys"), 0.0);
    std::fs::write(world.path("jwks.json"), world.key.jwks()).unwrap();
    reread(&server, &token, 404);
    assert_eq!(server.metric("carebook_key_set_keys"), 1.0);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_connection_s_last_token_admits_no_other_and_ends_with_its_keys() {
    let world = World::new();
    let server = Server::start(&world);
    let (token, mut client) = (world.headquarters(), server.client());
    let text = |at: usize, byte: char| {
        let mut changed = token.clone();
        changed.replace_range(at..=at, byte.encode_utf8(&mut [0; 4]));
        changed
    };
    // The first is verified, the second looked up, the others compared with the one before.
    for _ in 0..4 {
        assert_eq!(status(&mut client, &token), 404);
    }
    for at in [0, token.len() / 2, token.len() - 40] {
        let other = if &token[at..=at] == "A" { 'B' } else { 'A' };
        assert_eq!(status(&mut client, &text(at, other)), 401, "byte {at}");
        assert_eq!(status(&mut client, &token), 404);
    }
    assert_eq!(status(&mut client, &token[..token.len() - 1]), 401);
    assert_eq!(client.get("/settlement-statements/nothing", "").status, 401);
    assert_eq!(status(&mut client, &token), 404);
    std::fs::write(world.path("jwks.json"), "{\"keys\":[]}").unwrap();
    reread(&server, &token, 401);
    assert_eq!(status(&mut client, &token), 401, "on the connection, too");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn an_unreadable_key_set_keeps_the_last_for_its_age_and_blocks_no_signal() {
    let world = World::new();
    let server = Server::start_with(&world, &["--jwks-max-age", "2s"]);
    let token = world.headquarters();
    let file = world.path("jwks.json");
    // A pipe without a writer would keep its reader waiting for ever.
    std::fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status();
    assert!(made.unwrap().success());
    let since = Instant::now();
    server.signal("HUP");
    let meanwhile = status(&mut server.client(), &token);
    // On a machine that is busy with other tests its age may be over by then.
    if since.elapsed() < Duration::from_secs(1) {
        assert_eq!(meanwhile, 404, "the last good one");
    }
    while status(&mut server.client(), &token) != 401 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // It was last read well before this began, at most a third of its age.
    assert!(since.elapsed() >= Duration::from_secs(1));
    assert!(server.metric("carebook_key_set_age_seconds") >= 2.0);
    assert_eq!(server.metric("carebook_key_set_keys"), 0.0);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, world.key.jwks()).unwrap();
    reread(&server, &token, 404);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_start_with_a_pipe_or_a_device_for_a_key_set_is_refused_at_once() {
    let world = World::new();
    let file = world.path("jwks.json");
    std::fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status();
    assert!(made.unwrap().success());
    assert_eq!(Server::try_start(&world, &[]).err(), Some(Some(1)));
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    assert_eq!(Server::try_start(&world, &[]).err(), Some(Some(1)));
    assert!(!world.data().exists());
}

#[test]
fn forged_signatures_close_their_connection_and_no_other() {
    let world = World::new();
    let server = Server::start(&world);
    let good = world.headquarters();
    let mut known = server.client();
    assert_eq!(status(&mut known, &good), 404);
    let forger = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
    let kid_of = |token: &str| token.split('.').next().unwrap().to_owned();
    // The header of a good token, claims and signature of another key.
    let forged = |number: usize| {
        let actor = actor(
            ActorKind::HeadquartersAdministrator,
            &format!("forged-{number}"),
        );
        let token = forger.sign(&claims(&actor, 3_600)).unwrap();
        let (_, rest) = token.split_once('.').unwrap();
        format!("{}.{rest}", kid_of(&good))
    };
    let mut sent = 0;
    for _ in 0..20 {
        let mut client = server.client();
        for bad in 1..=FORGED_OF_CONNECTION_MAX {
            sent += 1;
            let answer = client.get("/organization", &forged(sent));
            assert_eq!(answer.status, 401);
            let last = bad == FORGED_OF_CONNECTION_MAX;
            assert_eq!(
                answer.header("connection").is_some(),
                last,
                "{bad}: {answer:?}"
            );
        }
        let refused = client.try_request("GET", "/healthz", &[], b"");
        assert!(refused.is_err(), "the connection is closed");
    }
    assert_eq!(server.metric("carebook_bad_signatures_total"), sent as f64);
    // Who is known is answered as ever, and who is new is answered.
    let before = server.metric("carebook_tokens_waited_total");
    assert_eq!(status(&mut known, &good), 404);
    assert_eq!(server.metric("carebook_tokens_waited_total"), before);
    let new = world.plain(ActorKind::HeadquartersAdministrator, "hq-new");
    assert_eq!(status(&mut server.client(), &new), 404);
}

#[test]
fn authenticated_responses_are_not_cached_and_reads_are_revalidated() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let hq = world.headquarters();
    let body = world.deposit_request("S-1", "key-1");
    let done = client.post("/settlement-deposit-requests", &hq, &body);
    assert_eq!(done.header("cache-control"), Some("no-store"), "{done:?}");
    let id = done.json()["statementId"].as_str().unwrap().to_owned();
    let path = format!("/settlement-statements/{id}");
    let read = client.get(&path, &hq);
    assert_eq!(
        read.header("cache-control"),
        Some("private, no-cache"),
        "{read:?}"
    );
    let bearer = format!("Bearer {hq}");
    let tag = read.header("etag").unwrap();
    let headers = [("Authorization", bearer.as_str()), ("If-None-Match", tag)];
    let unchanged = client.request("GET", &path, &headers, b"");
    assert_eq!(unchanged.status, 304);
    assert_eq!(unchanged.header("cache-control"), Some("private, no-cache"));
    for (answer, status) in [
        (client.get("/settlement-statements/nothing", &hq), 404),
        (client.get(&path, "not.a.token"), 401),
        (
            client.post("/settlement-deposit-requests", &hq, &serde_json::json!({})),
            400,
        ),
        (client.put_facts(&world.workflow(), &[]), 200),
        (client.get("/nothing", &hq), 404),
    ] {
        assert_eq!(answer.status, status);
        assert_eq!(
            answer.header("cache-control"),
            Some("no-store"),
            "{answer:?}"
        );
    }
    let open = client.request("GET", "/healthz", &[], b"");
    assert_eq!(open.header("cache-control"), None);
    assert_eq!(
        open.header("strict-transport-security"),
        None,
        "without TLS"
    );
}

/// A token in its three parts, changed in one place: never the token itself, nor one that says the
/// same.
fn changed(token: &str, random: &mut StdRng) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letter = |random: &mut StdRng| char::from(LETTERS[random.random_range(0..LETTERS.len())]);
    let mut letters: Vec<char> = token.chars().collect();
    let at = random.random_range(0..letters.len());
    let parts: Vec<&str> = token.split('.').collect();
    let text = match random.random_range(0..12) {
        0..4 => {
            letters[at] = letter(random);
            letters.iter().collect()
        }
        4 => {
            letters.remove(at);
            letters.iter().collect()
        }
        5 => {
            letters.insert(at, letter(random));
            letters.iter().collect()
        }
        6 => {
            letters.swap(at, random.random_range(0..token.len()));
            letters.iter().collect()
        }
        7 => token[..at].to_owned(),
        8 => format!("{}.{}.", parts[0], parts[1]),
        9 => {
            let header = URL_SAFE.encode(r#"{"alg":"none","kid":"k"}"#);
            format!("{header}.{}.{}", parts[1], parts[2])
        }
        10 => format!("{token}.{}", parts[2]),
        _ => {
            // Other claims under the same signature.
            let text = URL_SAFE.decode(parts[1]).unwrap();
            let text = String::from_utf8(text).unwrap();
            let text = text.replace("\"sub\":\"", "\"sub\":\"x");
            format!("{}.{}.{}", parts[0], URL_SAFE.encode(text), parts[2])
        }
    };
    if text == token {
        format!("{text}A")
    } else {
        text
    }
}

/// The service in this process: no sockets, and an address for each request.
struct Inside {
    engine: Arc<Engine>,
    verifier: Arc<TokenVerifier>,
    service: Service,
    requests: u32,
}

impl Inside {
    fn open(world: &World) -> Self {
        let mut replaying = Replaying::new("recovering");
        let options = wal::Options {
            reserve_bytes: 0,
            create: true,
            ..wal::Options::default()
        };
        let disk = wal::storage::sim::SimDisk::new();
        let (log, _) = wal::Log::open(disk.storage(), options, &mut replaying).unwrap();
        let engine = Engine::start(
            log,
            replaying.finish(),
            1,
            Limits::default(),
            Arc::new(SystemClock::default()),
            Box::new(|error| panic!("the log failed: {error}")),
        );
        let engine = Arc::new(engine.unwrap());
        tokio::spawn(engine.lanes().run(0));
        let keys = world.key.jwks();
        let verifier = TokenVerifier::new(keys.as_bytes(), ISSUER, AUDIENCE);
        let verifier = Arc::new(verifier.unwrap());
        Self {
            service: Service::new(Arc::clone(&engine), Arc::clone(&verifier)),
            engine,
            verifier,
            requests: 0,
        }
    }

    async fn status(&mut self, method: &str, path: &str, token: &str) -> u16 {
        self.requests += 1;
        if self.requests.is_multiple_of(1_000) {
            // One that does not know of the bad ones: what slows them down is tried elsewhere.
            self.service = Service::new(Arc::clone(&self.engine), Arc::clone(&self.verifier));
        }
        let address = Ipv4Addr::from_bits(self.requests);
        let caller = self.service.caller(address.into(), false);
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from_static(b"{}")));
        let answer = self.service.handle(&caller, request.unwrap()).await;
        answer.status().as_u16()
    }
}

/// Of each route: changed tokens, none of which may be accepted. `TOKEN_MUTATIONS` says how many.
#[test]
fn no_changed_token_is_accepted_on_any_route() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(try_changed_tokens());
}

async fn try_changed_tokens() {
    let each: usize = std::env::var("TOKEN_MUTATIONS").map_or(16, |number| number.parse().unwrap());
    let mut random = StdRng::seed_from_u64(seed());
    let world = World::new();
    let mut service = Inside::open(&world);
    let token = world.headquarters();
    let workflow = world.workflow();
    let routes = OPERATIONS
        .iter()
        .filter(|row| row.bearer)
        .map(|row| (method(row), row.path))
        .chain(READS.iter().map(|row| ("GET", row.path)))
        .chain([("POST", "/reference-facts")]);
    let mut tried = 0;
    for (method, path) in routes {
        let path = path.replace(['{', '}'], "");
        for good in [&token, &workflow] {
            let status = service.status(method, &path, good).await;
            assert_ne!(status, 401, "{method} {path}");
        }
        for _ in 0..each {
            let source = if random.random() { &token } else { &workflow };
            let other = changed(source, &mut random);
            let status = service.status(method, &path, &other).await;
            assert_eq!(status, 401, "{method} {path} {other}");
            tried += 1;
        }
    }
    println!("{tried} changed tokens, none accepted");
}
