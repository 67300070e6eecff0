//! TLS: HTTP/1.1 and, by ALPN, HTTP/2 from one listener.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::support::{Server, World, carebook, serve_arguments, until};

/// Has the command serve this world's data, over TLS.
fn tls_arguments<'a>(command: &'a mut Command, world: &World) -> &'a mut Command {
    serve_arguments(command, world)
        .arg("--tls-cert")
        .arg(world.path("cert.pem"))
        .arg("--tls-key")
        .arg(world.path("key.pem"))
}

/// A server that speaks TLS with a certificate of its own; killed when dropped.
pub struct Secure {
    child: Child,
    pub address: String,
    pub certificate: CertificateDer<'static>,
}

impl Secure {
    fn start(world: &World) -> Self {
        Self::start_with(world, &[])
    }

    pub fn start_with(world: &World, arguments: &[&str]) -> Self {
        let certificate = certify(world);
        let mut command = carebook();
        tls_arguments(&mut command, world)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().strip_prefix("listening on https://");
        Self {
            address: address.unwrap().to_owned(),
            child,
            certificate,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn hang_up(&self) {
        let id = self.child.id().to_string();
        let told = Command::new("kill").args(["-HUP", &id]).status();
        assert!(told.unwrap().success());
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts a new certificate and its key where the server looks.
fn certify(world: &World) -> CertificateDer<'static> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(world.path("cert.pem"), certified.cert.pem()).unwrap();
    std::fs::write(world.path("key.pem"), certified.signing_key.serialize_pem()).unwrap();
    certified.cert.der().clone()
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(work)
}

/// The certificate that a new connection is shown.
fn shown(address: &str, known: &[CertificateDer<'static>]) -> Option<usize> {
    block_on(async {
        for (number, certificate) in known.iter().enumerate() {
            let stream = TcpStream::connect(address).await.unwrap();
            if secured(stream, certificate.clone(), "h2").await.is_ok() {
                return Some(number);
            }
        }
        None
    })
}

#[test]
fn one_listener_speaks_http_1_and_http_2_over_tls() {
    let world = World::new();
    let server = Secure::start(&world);
    block_on(async {
        for (protocol, version) in [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)] {
            let certificate = server.certificate.clone();
            let (answered, status, body) = get(&server.address, certificate, protocol).await;
            assert_eq!((answered, status), (version, StatusCode::OK));
            assert_eq!(body, Bytes::from_static(b"{\"status\":\"ready\"}"));
        }
    });
}

#[test]
fn head_is_answered_as_get_is_without_the_body_over_either_protocol() {
    let world = World::new();
    let server = Secure::start(&world);
    block_on(async {
        for protocol in ["http/1.1", "h2"] {
            for (path, status) in [("/readyz", 200), ("/nope", 404), ("/docs", 200)] {
                let request = |method: &str| {
                    let url = format!("https://localhost{path}");
                    let request = Request::builder().method(method).uri(url);
                    let request = request.header("host", "localhost");
                    request.body(Full::<Bytes>::default()).unwrap()
                };
                let ask = async |method| {
                    let certificate = server.certificate.clone();
                    ask(&server.address, certificate, protocol, request(method)).await
                };
                let (got, head) = (ask("GET").await, ask("HEAD").await);
                assert_eq!(head.status(), status, "{protocol} {path}");
                let length = |answer: &Response<Bytes>| answer.headers()["content-length"].clone();
                assert_eq!(length(&head), length(&got), "{protocol} {path}");
                assert_eq!(
                    length(&got),
                    got.body().len().to_string(),
                    "{protocol} {path}"
                );
                assert_eq!(head.body().len(), 0, "{protocol} {path}");
            }
        }
    });
}

#[test]
fn a_signal_reloads_the_certificate_and_keeps_the_last_if_it_is_unfit() {
    let world = World::new();
    let server = Secure::start(&world);
    let first = server.certificate.clone();
    let next = certify(&world);
    let known = [first, next];
    assert_eq!(shown(&server.address, &known), Some(0));
    // The signal is taken when it is; the new one is in use soon after.
    while shown(&server.address, &known) != Some(1) {
        server.hang_up();
        std::thread::sleep(Duration::from_millis(5));
    }
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(world.path("cert.pem"), other.cert.pem()).unwrap();
    for _ in 0..20 {
        server.hang_up();
        assert_eq!(shown(&server.address, &known), Some(1));
    }
}

/// Puts a pipe there, which has no writer.
fn make_pipe(file: &Path) {
    let _ = std::fs::remove_file(file);
    let made = Command::new("mkfifo").arg(file).status();
    assert!(made.unwrap().success());
}

#[test]
fn a_pipe_as_certificate_blocks_no_reload_and_fails_a_start_at_once() {
    let world = World::new();
    let server = Secure::start(&world);
    let first = server.certificate.clone();
    make_pipe(&world.path("cert.pem"));
    for _ in 0..20 {
        server.hang_up();
        assert_eq!(
            shown(&server.address, std::slice::from_ref(&first)),
            Some(0)
        );
    }
    std::fs::remove_file(world.path("cert.pem")).unwrap();
    let known = [first, certify(&world)];
    let begun = std::time::Instant::now();
    while shown(&server.address, &known) != Some(1) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "it reads no more"
        );
        server.hang_up();
        std::thread::sleep(Duration::from_millis(5));
    }
    // Nor is a start or a check kept waiting by one, or by what has no end.
    let secret = format!("*={}", world.path("pipe").display());
    make_pipe(&world.path("pipe"));
    let pipe = world.path("pipe");
    let pipe = pipe.to_str().unwrap();
    let key = world.path("key.pem");
    let key = key.to_str().unwrap();
    for (code, arguments) in [
        (1, &["--tls-cert", pipe, "--tls-key", key][..]),
        (1, &["--tls-cert", key, "--tls-key", pipe]),
        (2, &["--ca-file", pipe]),
        (2, &["--ca-file", "/dev/zero"]),
        (
            2,
            &[
                "--receiver",
                "*=https://a.example/",
                "--receiver-secret",
                secret.as_str(),
            ],
        ),
        (
            2,
            &["--nats", "nats://a.example", "--nats-credentials", pipe],
        ),
    ] {
        for more in [&["--check"][..], &[]] {
            let mut command = carebook();
            serve_arguments(&mut command, &world).args(arguments);
            let output = command.args(more).output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{arguments:?}: {err}");
            assert!(err.contains("not a regular file"), "{arguments:?}: {err}");
        }
    }
}

#[test]
fn over_http_2_a_request_names_one_host() {
    let world = World::new();
    let server = Secure::start(&world);
    block_on(async {
        let certificate = server.certificate.clone();
        let stream = TcpStream::connect(&server.address).await.unwrap();
        let stream = secured(stream, certificate, "h2").await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        for (hosts, status) in [
            (&[][..], StatusCode::OK),
            (&["LOCALHOST:443"], StatusCode::OK),
            (&["other"], StatusCode::BAD_REQUEST),
            (&["localhost", "localhost"], StatusCode::BAD_REQUEST),
            (&[""], StatusCode::BAD_REQUEST),
        ] {
            let mut request =
                Request::get("https://localhost/readyz").header("x-request-id", "r-1");
            for host in hosts {
                request = request.header("host", *host);
            }
            let request = request.body(Full::<Bytes>::default()).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            assert_eq!(answer.status(), status, "{hosts:?}");
            // The refusal has what every answer has.
            let headers = answer.headers();
            assert_eq!(headers["x-request-id"], "r-1", "{hosts:?}");
            assert!(headers.contains_key("strict-transport-security"));
        }
    });
}

#[test]
fn a_key_that_is_not_the_certificate_s_is_named_before_anything_is_opened() {
    let world = World::new();
    let one = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(world.path("cert.pem"), one.cert.pem()).unwrap();
    std::fs::write(world.path("key.pem"), other.signing_key.serialize_pem()).unwrap();
    let mut command = carebook();
    let output = tls_arguments(&mut command, &world).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used for TLS"));
    assert!(!world.data().exists());
}

/// Puts a certificate that has expired, and its key, where the server looks.
fn certify_until_2020(world: &World) {
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2020, 2, 29);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    std::fs::write(world.path("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(world.path("key.pem"), key.serialize_pem()).unwrap();
}

#[test]
fn each_signal_warns_of_a_certificate_that_has_expired_and_of_files_that_cannot_be_used() {
    let world = World::new();
    certify_until_2020(&world);
    let log = world.path("log");
    let mut command = carebook();
    tls_arguments(&mut command, &world).stderr(std::fs::File::create(&log).unwrap());
    let server = Server::spawn_telling(command);
    let told = |what: &str| std::fs::read_to_string(&log).unwrap().matches(what).count();
    let expired = "the certificate has expired";
    until("it is told at the start", || told(expired) == 1);
    for times in 2..4 {
        server.signal("HUP");
        until("it is told again", || told(expired) == times);
    }
    std::fs::write(world.path("cert.pem"), "nothing").unwrap();
    for _ in 0..2 {
        let (ends, before) = (told(expired), told("it holds no certificate"));
        server.signal("HUP");
        until("the files are told of", || {
            told("it holds no certificate") > before
        });
        until("the one in use is told of", || told(expired) > ends);
    }
}

#[test]
fn an_expired_certificate_is_reported_by_a_check_and_at_a_start() {
    let world = World::new();
    certify_until_2020(&world);
    let serve = |more: &[&str]| {
        let mut command = carebook();
        tls_arguments(&mut command, &world)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let checked = serve(&["--check"]).wait_with_output().unwrap();
    let mut child = serve(&[]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    let id = child.id().to_string();
    let told = Command::new("kill").args(["-TERM", &id]).status();
    assert!(told.unwrap().success());
    let served = child.wait_with_output().unwrap();
    for output in [checked, served] {
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{err}");
        assert!(
            err.contains("has expired") && err.contains("2020-02-29"),
            "{err}"
        );
    }
}

/// So many forged signatures end a connection: over HTTP/2 it is notified, and what was sent before
/// that is answered.
#[test]
fn over_tls_every_answer_says_so_and_a_forger_is_told_to_go() {
    let world = World::new();
    let server = Secure::start(&world);
    let good = world.headquarters();
    let forged: Vec<_> = (b'A'..=b'P')
        .map(|letter| {
            let mut token = good.clone().into_bytes();
            let at = token.len() - 10;
            token[at] = if token[at] == letter { b'x' } else { letter };
            String::from_utf8(token).unwrap()
        })
        .collect();
    let ask = |token: &str| {
        Request::get("https://localhost/settlement-statements/nothing")
            .header("authorization", format!("Bearer {token}"))
            .body(Full::<Bytes>::default())
            .unwrap()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stream = TcpStream::connect(&server.address).await.unwrap();
        let certificate = server.certificate.clone();
        let stream = TokioIo::new(secured(stream, certificate, "h2").await.unwrap());
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
                .await
                .unwrap();
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(ask(&good)).await.unwrap();
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        let headers = answer.headers();
        assert_eq!(headers["strict-transport-security"], "max-age=31536000");
        assert_eq!(headers["cache-control"], "no-store");
        let mut answers = Vec::new();
        for token in &forged {
            answers.push(sender.send_request(ask(token)));
        }
        // Sent with them, and answered though they end the connection.
        answers.push(sender.send_request(ask(&good)));
        let mut statuses = Vec::new();
        for answer in answers {
            statuses.push(answer.await.unwrap().status().as_u16());
        }
        assert_eq!(statuses.pop(), Some(404));
        assert_eq!(statuses, [401; 16]);
        // It ends by itself and in good order, though its client would still send.
        let ended = tokio::time::timeout(Duration::from_secs(30), connection);
        assert!(ended.await.unwrap().unwrap().is_ok());
        assert!(sender.is_closed());
    });
}

/// A connection with TLS to a server with this certificate.
pub async fn secured(
    stream: TcpStream,
    certificate: CertificateDer<'static>,
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    assert_eq!(
        stream.get_ref().1.alpn_protocol(),
        Some(protocol.as_bytes())
    );
    Ok(stream)
}

async fn get(
    address: &str,
    certificate: CertificateDer<'static>,
    protocol: &str,
) -> (Version, StatusCode, Bytes) {
    let request = Request::get("https://localhost/readyz")
        .header("host", "localhost")
        .body(Full::<Bytes>::default())
        .unwrap();
    let answer = ask(address, certificate, protocol, request).await;
    (answer.version(), answer.status(), answer.into_body())
}

/// The answer to a request on a connection of its own.
pub async fn ask<B>(
    address: &str,
    certificate: CertificateDer<'static>,
    protocol: &str,
    request: Request<B>,
) -> Response<Bytes>
where
    B: Body<Data = Bytes, Error = Infallible> + Unpin + Send + 'static,
{
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = secured(stream, certificate, protocol).await.unwrap();
    let stream = TokioIo::new(stream);
    let answer = if protocol == "h2" {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
                .await
                .unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    };
    let (head, body) = answer.into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}
