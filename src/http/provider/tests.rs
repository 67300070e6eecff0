//! Tests with a provider in memory that speaks TLS and answers correctly or not. Tokio's paused clock makes time pass
//! as fast as possible.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::keeping::First;
use super::*;
use crate::base::actor::{Actor, ActorKind};
use crate::cli::token::signing::{Claims, SigningAlgorithm, SigningKey};
use crate::http::client::dial::{Stream, trusting};
use crate::http::token::{
    ASKED_INTERVAL, KEYS_WAITING_MAX, KeyRequests, Newer, TokenRefusal, TokenVerifier,
};

const ISSUER: &str = "https://id.test";
const AUDIENCE: &str = "carebook";
const NOW: u64 = 1_800_000_000;
const NOW_MS: i64 = 1_800_000_000_000;
const DISCOVERY: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/keys";
const SECOND: Duration = Duration::from_secs(1);

/// How the provider responds to a request.
#[derive(Clone)]
enum Reply {
    /// Answers 200 with this JSON.
    Json(Vec<u8>),
    /// Answers like `Json`, with these header lines besides.
    Headed(&'static str, Vec<u8>),
    /// Sends these bytes, and closes.
    Raw(Vec<u8>),
    /// Sends these bytes one at a time, with a pause after each.
    Trickle(Vec<u8>, Duration),
    /// Never answers.
    Hang,
    /// Answers with an endless body.
    Endless,
}

type Decide = dyn Fn(&str) -> Reply + Send + Sync;

/// A provider in memory.
#[derive(Clone)]
struct Idp(Arc<IdpShared>);

struct IdpShared {
    decide: Mutex<Arc<Decide>>,
    asked: Mutex<Vec<(Instant, String)>>,
    is_down: AtomicBool,
    certificate: CertificateDer<'static>,
    acceptor: TlsAcceptor,
}

impl Idp {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["id.test".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        Self(Arc::new(IdpShared {
            decide: Mutex::new(Arc::new(|_| Reply::Hang)),
            asked: Mutex::default(),
            is_down: AtomicBool::new(false),
            certificate,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        }))
    }

    /// Responds as `decide` says from now on.
    fn now_answers(&self, decide: impl Fn(&str) -> Reply + Send + Sync + 'static) {
        *self.0.decide.lock() = Arc::new(decide);
    }

    /// Answers correctly from now on, and publishes these keys.
    fn publishes(&self, jwks: Vec<u8>) {
        self.now_answers(move |path| match path {
            DISCOVERY => Reply::Json(document(ISSUER, "https://id.test/keys")),
            _ => Reply::Json(jwks.clone()),
        });
    }

    fn set_down(&self, is_down: bool) {
        self.0.is_down.store(is_down, Ordering::Relaxed);
    }

    /// Number of requests for this path.
    fn asked_for(&self, path: &str) -> usize {
        self.times(path).len()
    }

    /// The times of the requests for this path.
    fn times(&self, path: &str) -> Vec<Instant> {
        let asked = self.0.asked.lock();
        let of_path = asked.iter().filter(|(_, asked)| asked == path);
        of_path.map(|(at, _)| *at).collect()
    }

    fn dialer(&self) -> Dialer {
        let tls = trusting(vec![self.0.certificate.clone()]).unwrap();
        let own = self.clone();
        let resolve = |_, port| {
            let found = vec![SocketAddr::from(([127, 0, 0, 1], port))];
            Box::pin(std::future::ready(Ok(found))) as _
        };
        Dialer::new(tls, Arc::new(resolve)).reaching(Arc::new(move |_| {
            let idp = own.clone();
            Box::pin(async move {
                if idp.0.is_down.load(Ordering::Relaxed) {
                    return Err(std::io::ErrorKind::ConnectionRefused.into());
                }
                let (here, there) = tokio::io::duplex(64 << 10);
                tokio::spawn(async move {
                    // The client may be gone.
                    let _ = idp.serve(there).await;
                });
                Ok(Box::new(here) as Box<dyn Stream>)
            })
        }))
    }

    async fn serve(&self, stream: tokio::io::DuplexStream) -> std::io::Result<()> {
        let mut stream = self.0.acceptor.accept(stream).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        let head = String::from_utf8(head).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        self.0.asked.lock().push((Instant::now(), path.clone()));
        let decide = Arc::clone(&self.0.decide.lock());
        match decide(&path) {
            Reply::Json(body) => stream.write_all(&answer("", &body)).await?,
            Reply::Headed(lines, body) => stream.write_all(&answer(lines, &body)).await?,
            Reply::Raw(bytes) => stream.write_all(&bytes).await?,
            Reply::Trickle(bytes, pause) => {
                for byte in bytes {
                    stream.write_u8(byte).await?;
                    stream.flush().await?;
                    sleep(pause).await;
                }
            }
            Reply::Hang => std::future::pending().await,
            Reply::Endless => {
                let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
                stream.write_all(head).await?;
                loop {
                    stream.write_all(&[b' '; 4_096]).await?;
                }
            }
        }
        stream.shutdown().await
    }

    fn provider(&self) -> Provider {
        Provider::of_issuer(ISSUER, self.dialer()).unwrap()
    }

    async fn first_keys(&self) -> Result<First, String> {
        self.provider().first_keys(ISSUER, AUDIENCE).await
    }

    /// Returns a verifier whose keys are kept up to date.
    async fn kept(&self) -> Kept {
        let provider = self.provider();
        let First { verifier, due } = provider.first_keys(ISSUER, AUDIENCE).await.unwrap();
        let requests = Arc::new(KeyRequests::default());
        let verifier = Arc::new(verifier.asking(Arc::clone(&requests)));
        let (told, read) = (Arc::new(Notify::new()), Arc::clone(&verifier));
        let tell = Arc::clone(&told);
        let work = tokio::spawn(async move {
            provider.keep(&read, &requests, &tell, due).await;
        });
        Kept {
            verifier,
            told,
            work,
        }
    }
}

struct Kept {
    verifier: Arc<TokenVerifier>,
    told: Arc<Notify>,
    work: JoinHandle<()>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Kept {
    /// Returns the result of a request with this token.
    async fn judge(&self, token: &str) -> Result<Arc<Actor>, TokenRefusal> {
        match self.verifier.verify(token, NOW_MS) {
            Err(TokenRefusal::KeyUnknown) => {
                assert_eq!(self.verifier.newer_keys().await, Newer::Looked);
                self.verifier.verify(token, NOW_MS)
            }
            judged => judged,
        }
    }
}

fn answer(lines: &str, body: &[u8]) -> Vec<u8> {
    let kind = match lines.contains("Content-Type") {
        true => "",
        false => "Content-Type: application/json\r\n",
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\n{kind}{lines}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn document(issuer: &str, jwks_uri: &str) -> Vec<u8> {
    let document = json!({"issuer": issuer, "jwks_uri": jwks_uri, "claims_supported": ["sub"]});
    document.to_string().into_bytes()
}

fn key() -> SigningKey {
    SigningKey::generate(SigningAlgorithm::EdDsa).unwrap()
}

fn jwks(keys: &[&SigningKey]) -> Vec<u8> {
    let keys: Vec<Value> = keys
        .iter()
        .map(|key| serde_json::from_str::<Value>(&key.jwks()).unwrap()["keys"][0].clone())
        .collect();
    json!({ "keys": keys }).to_string().into_bytes()
}

fn token(key: &SigningKey, subject: &str) -> String {
    let actor = Actor {
        subject: subject.into(),
        kind: ActorKind::HeadquartersAdministrator,
        ..Actor::nobody()
    };
    key.sign(&Claims::of(&actor, ISSUER, AUDIENCE, NOW, 3_600))
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_issuer_alone_leads_to_its_keys_with_and_without_a_slash_at_its_end() {
    for (issuer, path) in [
        ("https://id.test", "/.well-known/openid-configuration"),
        ("https://id.test/", "/.well-known/openid-configuration"),
        (
            "https://id.test/a/b",
            "/a/b/.well-known/openid-configuration",
        ),
        ("https://id.test/a/", "/a/.well-known/openid-configuration"),
        (
            "https://id.test:8443//",
            "//.well-known/openid-configuration",
        ),
    ] {
        let (idp, key) = (Idp::new(), key());
        let set = jwks(&[&key]);
        idp.now_answers(move |path| match path {
            "/elsewhere?a=b" => Reply::Json(set.clone()),
            _ => Reply::Json(document(issuer, "https://id.test/elsewhere?a=b")),
        });
        let provider = Provider::of_issuer(issuer, idp.dialer()).unwrap();
        let first = provider.first_keys(issuer, AUDIENCE).await.unwrap();
        assert_eq!(first.verifier.key_count(), 1);
        assert_eq!(idp.asked_for(path), 1, "{issuer}");
        assert_eq!(idp.asked_for("/elsewhere?a=b"), 1);
    }
    for bad in [
        "http://id.test",
        "id.test",
        "https://id.test/?a",
        "https://id.test/#a",
    ] {
        assert!(
            Provider::of_issuer(bad, Idp::new().dialer()).is_err(),
            "{bad}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_url_of_keys_is_asked_without_any_discovery() {
    let (idp, key) = (Idp::new(), key());
    idp.publishes(jwks(&[&key]));
    let url = HttpsUrl::read("https://id.test/keys").unwrap();
    let provider = Provider::with_keys_at(url, idp.dialer());
    let first = provider.first_keys("anything", AUDIENCE).await.unwrap();
    assert_eq!(first.verifier.key_count(), 1);
    assert_eq!((idp.asked_for(DISCOVERY), idp.asked_for(KEYS)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_url_of_keys_with_a_query_and_no_path_is_asked_at_the_root() {
    let (idp, key) = (Idp::new(), key());
    idp.publishes(jwks(&[&key]));
    let url = HttpsUrl::read("https://id.test?tenant=a").unwrap();
    let provider = Provider::with_keys_at(url, idp.dialer());
    let first = provider.first_keys("anything", AUDIENCE).await.unwrap();
    assert_eq!(first.verifier.key_count(), 1);
    assert_eq!(idp.asked_for("/?tenant=a"), 1);
}

/// Returns faulty replies to a request for the discovery document, with words of the sentence that reports each.
fn false_documents() -> Vec<(Reply, &'static str)> {
    let good = document(ISSUER, "https://id.test/keys");
    let text = |text: &str| Reply::Json(text.as_bytes().to_vec());
    let large = |bytes: usize| {
        let pad = " ".repeat(bytes - good.len());
        [&good, pad.as_bytes()].concat()
    };
    vec![
        (
            Reply::Json(document("https://other.test", "https://id.test/keys")),
            "of the issuer",
        ),
        (
            Reply::Json(document("https://id.test/", "https://id.test/keys")),
            "of the issuer",
        ),
        (
            Reply::Json(document("HTTPS://id.test", "https://id.test/keys")),
            "of the issuer",
        ),
        (
            Reply::Json(document(ISSUER, "http://id.test/keys")),
            "unfit jwks_uri",
        ),
        (Reply::Json(document(ISSUER, "/keys")), "unfit jwks_uri"),
        (
            Reply::Json(document(ISSUER, "file:///keys")),
            "unfit jwks_uri",
        ),
        (
            Reply::Json(document(ISSUER, "https://a:b@id.test/keys")),
            "unfit jwks_uri",
        ),
        (text(r#"{"issuer":"https://id.test"}"#), "has no jwks_uri"),
        (
            text(r#"{"jwks_uri":"https://id.test/keys"}"#),
            "has no issuer",
        ),
        (
            text(r#"{"issuer":["https://id.test"],"jwks_uri":"https://id.test/keys"}"#),
            "no string as issuer",
        ),
        (
            text(
                r#"{"issuer":"https://other.test","issuer":"https://id.test","jwks_uri":"https://id.test/keys"}"#,
            ),
            "more than once",
        ),
        (
            text(r#"["https://id.test","https://id.test/keys"]"#),
            "not a JSON object",
        ),
        (text("<html></html>"), "not a JSON object"),
        (text(""), "not a JSON object"),
        (
            Reply::Headed("Content-Type: text/html\r\n", good.clone()),
            "Content-Type",
        ),
        (
            Reply::Headed("Content-Encoding: gzip\r\n", good.clone()),
            "encoding",
        ),
        (
            Reply::Json(large(DISCOVERY_BYTES_MAX + 1)),
            "more than 262144 bytes",
        ),
    ]
}

/// Returns faulty replies to a request for either document, with words of the sentence that reports each.
fn false_answers() -> Vec<(Reply, &'static str)> {
    let raw = |text: &str| Reply::Raw(text.as_bytes().to_vec());
    let long_head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(10 << 20));
    vec![
        (Reply::Endless, "bytes, the most that are read"),
        (
            raw("HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n{}"),
            "bytes, the most that are read",
        ),
        (
            raw(
                "HTTP/1.1 302 Found\r\nLocation: https://id.test/loop\r\nContent-Length: 0\r\n\r\n",
            ),
            "redirects are not followed",
        ),
        (
            raw("HTTP/1.1 308 Permanent\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n"),
            "redirects are not followed",
        ),
        (
            raw("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
            "answered 404",
        ),
        (
            raw("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"),
            "answered 500",
        ),
        (raw("HTTP/1.1 204 No Content\r\n\r\n"), "answered 204"),
        (
            raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"keys\""),
            "broke off",
        ),
        (raw("SSH-2.0-OpenSSH\r\n"), "broke off"),
        (raw(""), "broke off"),
        (raw(&long_head), "broke off"),
        (Reply::Hang, "within 10 s"),
        (
            Reply::Trickle(answer("", &[b' '; 1_000]), Duration::from_millis(100)),
            "within 10 s",
        ),
    ]
}

/// Returns faulty replies to a request for the key set, with words of the sentence that reports each.
fn false_keys() -> Vec<(Reply, &'static str)> {
    let one = key();
    let good = String::from_utf8(jwks(&[&one])).unwrap();
    let jwk = &good["{\"keys\":[".len()..good.len() - 2];
    let set = |keys: &str| Reply::Json(format!("{{\"keys\":[{keys}]}}").into_bytes());
    let twice_kid = jwk.replacen('{', "{\"kid\":\"other\",", 1);
    let many: Vec<_> = (0..33)
        .map(|n| jwk.replace("\"kid\":\"", &format!("\"kid\":\"{n}")))
        .collect();
    let pad = " ".repeat(KEY_SET_BYTES_MAX);
    vec![
        (set(""), "holds no key"),
        (set(r#"{"kty":"AKP","kid":"a"}"#), "holds no key"),
        (
            set(r#"{"kty":"EC","crv":"P-384","kid":"a"}"#),
            "holds no key",
        ),
        (set(&twice_kid), "keys[0]"),
        (set(&format!("{jwk},{jwk}")), "that of an earlier key"),
        (set(r#"{"kty":"oct","kid":"a","k":"AAAA"}"#), "symmetric"),
        (set(&many.join(",")), "33 keys"),
        (
            Reply::Json(good.replacen('{', "{\"keys\":[],", 1).into_bytes()),
            "not a JSON object",
        ),
        (
            Reply::Json(format!("[[{jwk}]]").into_bytes()),
            "not a JSON object",
        ),
        (Reply::Json(b"{}".to_vec()), "not a JSON object"),
        (Reply::Json(b"garbage".to_vec()), "not a JSON object"),
        (
            Reply::Json((good.clone() + &pad).into_bytes()),
            "more than 65536 bytes",
        ),
        (
            Reply::Headed("Content-Type: text/html\r\n", good.clone().into_bytes()),
            "Content-Type",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_faulty_provider_is_asked_for_30_seconds_and_then_its_fault_reported() {
    let documents = false_documents().into_iter().chain(false_answers());
    let keys = false_keys().into_iter().chain(false_answers());
    let of_documents = documents.map(|(reply, words)| (DISCOVERY, reply, words));
    let of_keys = keys.map(|(reply, words)| (KEYS, reply, words));
    for (place, reply, words) in of_documents.chain(of_keys) {
        let (idp, key) = (Idp::new(), key());
        let set = jwks(&[&key]);
        idp.now_answers(move |path| match path {
            path if path == place => reply.clone(),
            DISCOVERY => Reply::Json(document(ISSUER, "https://id.test/keys")),
            _ => Reply::Json(set.clone()),
        });
        let began = Instant::now();
        let Err(why) = idp.first_keys().await else {
            panic!("{place} was taken, which should be: {words}");
        };
        assert!(why.contains(words), "{words} in {why}");
        assert!(
            why.starts_with("the identity provider gave no keys within 30 s: "),
            "{why}"
        );
        assert_eq!(began.elapsed().as_secs(), 30, "{words}");
        assert!(idp.asked_for(place) >= 3, "it is asked again: {words}");
        assert_eq!(idp.asked_for("/loop"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_takes_the_first_keys_that_are_good_whatever_came_before() {
    let (idp, key) = (Idp::new(), key());
    let first = tokio::spawn({
        let idp = idp.clone();
        async move { idp.first_keys().await }
    });
    idp.set_down(true);
    let began = Instant::now();
    sleep(5 * SECOND).await;
    idp.set_down(false);
    idp.now_answers(|_| Reply::Json(document("https://other.test", "https://id.test/keys")));
    sleep(5 * SECOND).await;
    idp.publishes(jwks(&[]));
    sleep(5 * SECOND).await;
    idp.publishes(jwks(&[&key]));
    let first = first.await.unwrap().unwrap();
    assert!(first.verifier.verify(&token(&key, "a"), NOW_MS).is_ok());
    assert!((15..=17).contains(&began.elapsed().as_secs()));
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_no_provider_can_mend_is_not_waited_for() {
    let (idp, key) = (Idp::new(), key());
    idp.publishes(jwks(&[&key]));
    let began = Instant::now();
    let first = idp.provider().first_keys(ISSUER, " ").await;
    assert!(first.err().unwrap().contains("audience is blank"));
    assert!(began.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_take_ten_seconds_to_its_last_byte_and_no_more() {
    let key = key();
    let whole = answer("", &jwks(&[&key]));
    for (seconds, is_taken) in [(9, true), (11, false)] {
        let pause = seconds * SECOND / u32::try_from(whole.len()).unwrap();
        let (idp, whole) = (Idp::new(), whole.clone());
        idp.now_answers(move |_| Reply::Trickle(whole.clone(), pause));
        let url = HttpsUrl::read("https://id.test/keys").unwrap();
        let provider = Provider::with_keys_at(url, idp.dialer());
        assert_eq!(provider.read().await.is_ok(), is_taken, "{seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_read_again_as_the_answer_says_between_one_and_ten_minutes() {
    for (lines, interval) in [
        ("", 600),
        ("Cache-Control: max-age=120\r\n", 120),
        ("Cache-Control: max-age=5\r\n", 60),
        ("Cache-Control: no-store\r\n", 60),
        ("Cache-Control: public, max-age=86400\r\n", 600),
    ] {
        let (idp, key) = (Idp::new(), key());
        let set = jwks(&[&key]);
        idp.now_answers(move |path| match path {
            DISCOVERY => Reply::Json(document(ISSUER, "https://id.test/keys")),
            _ => Reply::Headed(lines, set.clone()),
        });
        let _kept = idp.kept().await;
        sleep(3_601 * SECOND).await;
        let times = idp.times(KEYS);
        assert_eq!(times.len(), 1 + 3_600 / interval, "{lines}");
        for pair in times.windows(2) {
            let passed = (pair[1] - pair[0]).as_secs_f64().round();
            assert_eq!(passed, interval as f64, "{lines}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_provider_is_asked_each_minute_and_keys_last_for_their_age() {
    for lies in [false, true] {
        let (idp, key) = (Idp::new(), key());
        idp.publishes(jwks(&[&key]));
        let kept = idp.kept().await;
        let token = token(&key, "a");
        let since = Instant::now();
        match lies {
            false => idp.set_down(true),
            true => idp.now_answers(|_| Reply::Json(b"{}".to_vec())),
        }
        let max = 3_600 * SECOND;
        let is_expired = || kept.verifier.expire(Instant::now().into_std(), max);
        sleep(max - SECOND).await;
        assert!(!is_expired());
        assert!(kept.judge(&token).await.is_ok());
        let age = kept.verifier.key_set_age(Instant::now().into_std());
        assert_eq!(age.as_secs(), since.elapsed().as_secs());
        // After the first ten minutes, one reading a minute.
        assert_eq!(kept.verifier.failed_readings(), 50);
        sleep(2 * SECOND).await;
        assert!(is_expired());
        assert_eq!(
            kept.judge(&token).await.err(),
            Some(TokenRefusal::KeyUnknown)
        );
        // The provider is back: the next request that may cause a reading gets the new keys.
        idp.set_down(false);
        idp.publishes(jwks(&[&key]));
        sleep(ASKED_INTERVAL).await;
        assert!(kept.judge(&token).await.is_ok());
        let age = kept.verifier.key_set_age(Instant::now().into_std());
        assert!(age < 60 * SECOND, "{age:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_set_withdraws_all_keys_and_one_of_unusable_keys_none() {
    let (idp, key) = (Idp::new(), key());
    idp.publishes(jwks(&[&key]));
    let kept = idp.kept().await;
    let token = token(&key, "a");
    for unusable in [
        json!({"keys": [{"kty": "AKP", "kid": "new", "alg": "ML-DSA-44"}]}),
        json!({"keys": [{"kty": "RSA", "kid": "e", "use": "enc", "n": "AQAB", "e": "AQAB"}]}),
    ] {
        let failed = kept.verifier.failed_readings();
        idp.publishes(unusable.to_string().into_bytes());
        kept.told.notify_one();
        sleep(SECOND).await;
        assert_eq!(kept.verifier.failed_readings(), failed + 1);
        assert!(kept.judge(&token).await.is_ok(), "{unusable}");
    }
    idp.publishes(jwks(&[]));
    kept.told.notify_one();
    sleep(SECOND).await;
    assert_eq!(kept.verifier.key_count(), 0);
    assert_eq!(
        kept.judge(&token).await.err(),
        Some(TokenRefusal::KeyUnknown)
    );
}

#[tokio::test(start_paused = true)]
async fn keys_of_an_unknown_kind_are_passed_over() {
    let (idp, key) = (Idp::new(), key());
    let mut set: Value = serde_json::from_slice(&jwks(&[&key])).unwrap();
    // The members of other kinds are unknown, so any value is allowed.
    let others = [
        json!({"kty": "AKP", "kid": "x"}),
        json!({"kty": "?", "crv": 1, "kid": ["x"], "use": null, "alg": {}}),
    ];
    set["keys"].as_array_mut().unwrap().extend(others);
    idp.publishes(set.to_string().into_bytes());
    assert_eq!(idp.first_keys().await.unwrap().verifier.key_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_has_the_keys_read_at_once_and_right_after_the_start_too() {
    let (idp, old, new) = (Idp::new(), key(), key());
    idp.publishes(jwks(&[&old]));
    let kept = idp.kept().await;
    idp.publishes(jwks(&[&old, &new]));
    let began = Instant::now();
    assert!(kept.judge(&token(&new, "a")).await.is_ok());
    assert!(began.elapsed() < SECOND);
    assert_eq!(idp.asked_for(KEYS), 2);
}

/// Whatever tokens are sent, by however many clients: each half minute has one requested reading.
#[tokio::test(start_paused = true)]
async fn a_flood_of_unknown_keys_reads_keys_once_in_30_seconds_without_waits() {
    let (idp, key) = (Idp::new(), key());
    idp.publishes(jwks(&[&key]));
    let kept = Arc::new(idp.kept().await);
    // A token signed by a foreign key counts as unknown, like one that nobody has signed.
    let foreign = token(&self::key(), "a");
    let flood = (0..20).map(|number: u32| {
        let (kept, foreign) = (Arc::clone(&kept), foreign.clone());
        tokio::spawn(async move {
            let mut waited = Duration::ZERO;
            for _ in 0..3_000 {
                let began = Instant::now();
                assert!(kept.judge(&foreign).await.is_err());
                waited += began.elapsed();
                sleep(Duration::from_millis(u64::from(90 + number))).await;
            }
            waited
        })
    });
    for task in flood.collect::<Vec<_>>() {
        assert!(task.await.unwrap() < SECOND);
    }
    // Five minutes: the start, and the requested readings; no scheduled one was due.
    let times = idp.times(KEYS);
    assert!((11..=13).contains(&times.len()), "{}", times.len());
    for pair in times[1..].windows(2) {
        assert!(pair[1] - pair[0] >= 30 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_provider_is_awaited_five_seconds_and_known_keys_do_not_wait() {
    let (idp, key) = (Idp::new(), key());
    idp.publishes(jwks(&[&key]));
    let kept = Arc::new(idp.kept().await);
    idp.now_answers(|_| Reply::Hang);
    let foreign = token(&self::key(), "a");
    let began = Instant::now();
    let waiting = (0..100).map(|_| {
        let (kept, foreign) = (Arc::clone(&kept), foreign.clone());
        tokio::spawn(async move { kept.judge(&foreign).await.err() })
    });
    let waiting: Vec<_> = waiting.collect();
    sleep(SECOND).await;
    let good = Instant::now();
    assert!(kept.judge(&token(&key, "b")).await.is_ok());
    assert_eq!(good.elapsed(), Duration::ZERO);
    for task in waiting {
        assert_eq!(task.await.unwrap(), Some(TokenRefusal::KeyUnknown));
    }
    assert_eq!(began.elapsed().as_secs(), 5);
    assert_eq!(idp.asked_for(DISCOVERY), 2, "one for all of them");
}

#[tokio::test(start_paused = true)]
async fn so_many_may_wait_and_the_next_is_told_at_once() {
    let requests = Arc::new(KeyRequests::default());
    let waiting = (0..KEYS_WAITING_MAX).map(|_| {
        let requests = Arc::clone(&requests);
        tokio::spawn(async move { requests.newer().await })
    });
    let waiting: Vec<_> = waiting.collect();
    sleep(Duration::from_millis(1)).await;
    let began = Instant::now();
    assert_eq!(requests.newer().await, Newer::TooMany);
    assert_eq!(began.elapsed(), Duration::ZERO);
    requests.asked().await;
    requests.end(requests.begin());
    for task in waiting {
        assert_eq!(task.await.unwrap(), Newer::Looked);
    }
    assert_eq!(
        began.elapsed(),
        Duration::ZERO,
        "they waited for the keys alone"
    );
    assert_eq!(requests.newer().await, Newer::Looked, "none is due");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// A reading in progress may have been answered before the new key was published.
#[tokio::test(start_paused = true)]
async fn a_reading_that_had_begun_before_does_not_count_for_an_unknown_key() {
    let (idp, old, new) = (Idp::new(), key(), key());
    idp.publishes(jwks(&[&old]));
    let kept = idp.kept().await;
    let before = answer("", &jwks(&[&old]));
    let pause = 3 * SECOND / u32::try_from(before.len()).unwrap();
    idp.now_answers(move |path| match path {
        DISCOVERY => Reply::Json(document(ISSUER, "https://id.test/keys")),
        _ => Reply::Trickle(before.clone(), pause),
    });
    kept.told.notify_one();
    sleep(SECOND).await;
    idp.publishes(jwks(&[&old, &new]));
    assert!(kept.judge(&token(&new, "a")).await.is_ok());
    assert_eq!(idp.asked_for(KEYS), 3);
}

#[tokio::test(start_paused = true)]
async fn a_requested_reading_starts_at_once_and_again_if_requested_meanwhile() {
    let (idp, key) = (Idp::new(), key());
    idp.publishes(jwks(&[&key]));
    let kept = idp.kept().await;
    let slow = answer("", &jwks(&[&key]));
    idp.now_answers(move |path| match path {
        DISCOVERY => Reply::Json(document(ISSUER, "https://id.test/keys")),
        _ => Reply::Trickle(slow.clone(), Duration::from_millis(1)),
    });
    kept.told.notify_one();
    sleep(Duration::from_millis(20)).await;
    assert_eq!(idp.asked_for(KEYS), 2);
    for _ in 0..3 {
        kept.told.notify_one();
    }
    sleep(Duration::from_millis(20)).await;
    assert_eq!(idp.asked_for(KEYS), 2, "the first one goes on");
    sleep(5 * SECOND).await;
    assert_eq!(idp.asked_for(KEYS), 3, "one for all that came meanwhile");
}

/// A provider publishes a key before it signs with it, and withdraws a key when it no longer signs with it. No good
/// token is refused, and no withdrawn key is accepted once the keys were read again.
#[tokio::test(start_paused = true)]
async fn key_rotation_under_load_refuses_no_good_and_accepts_no_withdrawn_key() {
    let seed = crate::base::testing::seed();
    let mut random = StdRng::seed_from_u64(seed);
    let idp = Idp::new();
    let mut keys = vec![key()];
    idp.publishes(jwks(&[&keys[0]]));
    let kept = idp.kept().await;
    let (mut good, mut withdrawn_refused) = (0, 0);
    let mut withdrawn: Vec<(Instant, String)> = Vec::new();
    for number in 0..60 {
        // The new key signs at once, before any reading has seen it. The last requested reading was at least 30 s
        // ago.
        keys.push(key());
        idp.publishes(jwks(&keys.iter().collect::<Vec<_>>()));
        let tokens: Vec<_> = keys
            .iter()
            .map(|key| token(key, &format!("s{number}")))
            .collect();
        for token in tokens.iter().rev() {
            assert!(kept.judge(token).await.is_ok(), "SEED={seed}");
            good += 1;
        }
        let pause = Duration::from_secs(random.random_range(30..900));
        sleep(pause).await;
        // The oldest key is withdrawn; the others stay in use.
        let old = keys.remove(0);
        idp.publishes(jwks(&keys.iter().collect::<Vec<_>>()));
        withdrawn.push((Instant::now(), token(&old, "old")));
        sleep(Duration::from_secs(random.random_range(30..900))).await;
        let last_read = *idp.times(KEYS).last().unwrap();
        for (since, token) in &withdrawn {
            let judged = kept.verifier.verify(token, NOW_MS);
            let is_stated = since.elapsed() >= INTERVAL_MAX || last_read > *since;
            if is_stated {
                assert_eq!(judged.err(), Some(TokenRefusal::KeyUnknown), "SEED={seed}");
                withdrawn_refused += 1;
            }
        }
    }
    println!("{good} good tokens accepted, {withdrawn_refused} withdrawn ones refused");
    assert_eq!(kept.verifier.failed_readings(), 0);
}
