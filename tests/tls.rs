//! TLS: HTTP/1.1 and, by ALPN, HTTP/2 from one listener.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::support::{World, carebook, serve_arguments};

#[test]
fn one_listener_speaks_http_1_and_http_2_over_tls() {
    let world = World::new();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(world.path("cert.pem"), certified.cert.pem()).unwrap();
    std::fs::write(world.path("key.pem"), certified.signing_key.serialize_pem()).unwrap();
    let mut command = carebook();
    serve_arguments(&mut command, &world)
        .arg("--tls-cert")
        .arg(world.path("cert.pem"))
        .arg("--tls-key")
        .arg(world.path("key.pem"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .trim()
        .strip_prefix("listening on https://")
        .unwrap()
        .to_owned();
    let certificate = certified.cert.der().clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for (protocol, version) in [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)] {
            let (answered, status, body) = get(&address, certificate.clone(), protocol).await;
            assert_eq!((answered, status), (version, StatusCode::OK));
            assert_eq!(body, Bytes::from_static(b"{\"status\":\"ready\"}"));
        }
    });
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_key_that_is_not_the_certificate_s_is_named_before_anything_is_opened() {
    let world = World::new();
    let one = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(world.path("cert.pem"), one.cert.pem()).unwrap();
    std::fs::write(world.path("key.pem"), other.signing_key.serialize_pem()).unwrap();
    let mut command = carebook();
    serve_arguments(&mut command, &world)
        .arg("--tls-cert")
        .arg(world.path("cert.pem"))
        .arg("--tls-key")
        .arg(world.path("key.pem"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not fit for TLS"));
    assert!(!world.data().exists());
}

/// So many forged signatures end a connection: over HTTP/2 it is told so, and what was sent before
/// that is answered.
#[test]
fn over_tls_every_answer_says_so_and_a_forger_is_told_to_go() {
    let world = World::new();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(world.path("cert.pem"), certified.cert.pem()).unwrap();
    std::fs::write(world.path("key.pem"), certified.signing_key.serialize_pem()).unwrap();
    let mut command = carebook();
    serve_arguments(&mut command, &world)
        .arg("--tls-cert")
        .arg(world.path("cert.pem"))
        .arg("--tls-key")
        .arg(world.path("key.pem"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on https://").unwrap();
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
        let stream = connect(address, certified.cert.der().clone(), "h2").await;
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
        // It ends by itself and in good order, though there is still somebody who would send.
        let ended = tokio::time::timeout(Duration::from_secs(30), connection);
        assert!(ended.await.unwrap().unwrap().is_ok());
        assert!(sender.is_closed());
    });
    server.kill().unwrap();
    server.wait().unwrap();
}

async fn get(
    address: &str,
    certificate: CertificateDer<'static>,
    protocol: &str,
) -> (Version, StatusCode, Bytes) {
    let stream = connect(address, certificate, protocol).await;
    let request = Request::get("https://localhost/readyz")
        .header("host", "localhost")
        .body(Full::<Bytes>::default())
        .unwrap();
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
    let (version, status) = (answer.version(), answer.status());
    (
        version,
        status,
        answer.into_body().collect().await.unwrap().to_bytes(),
    )
}

/// A connection that speaks the protocol.
async fn connect(
    address: &str,
    certificate: CertificateDer<'static>,
    protocol: &str,
) -> TokioIo<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    assert_eq!(
        stream.get_ref().1.alpn_protocol(),
        Some(protocol.as_bytes())
    );
    TokioIo::new(stream)
}
