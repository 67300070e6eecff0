//! Connections that say nothing, and connections that have said something once: what each costs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::arguments::Common;
use crate::http;

/// Until what was just opened is seen by the server, and its memory settled.
const SETTLE: Duration = Duration::from_secs(1);
/// Connections that are opened before the server gets to accept them: a system's queue of those
/// that wait is short, and who finds it full asks again a second later.
const AT_ONCE: usize = 100;

/// # Errors
/// When a connection is refused, closed, or answered wrongly.
pub(crate) fn measure(common: &Common, connections: usize) -> Result<Value, String> {
    let most = (connections + 1_000).to_string();
    let start = common.start().with(&[
        "--connections-max",
        &most,
        "--connections-per-address-max",
        &most,
    ]);
    let server = start.service()?;
    let resident = || {
        std::thread::sleep(SETTLE);
        server.process().resident()
    };
    // What the first connections alone bring with them is not theirs.
    for _ in 0..10 {
        http::get(server.address(), "/metrics")?;
    }
    let before = resident();
    let failed = |error: std::io::Error| format!("a connection failed: {error}");
    let mut open = Vec::with_capacity(connections);
    while open.len() < connections {
        for _ in 0..AT_ONCE.min(connections - open.len()) {
            open.push(TcpStream::connect(server.address()).map_err(failed)?);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let silent = resident();
    let mut answer = [0; 4_096];
    for stream in &mut open {
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n")
            .map_err(failed)?;
        let read = stream.read(&mut answer).map_err(failed)?;
        if !answer[..read].starts_with(b"HTTP/1.1 200") {
            let answer = String::from_utf8_lossy(&answer[..read]);
            return Err(format!("an idle connection was answered: {answer}"));
        }
    }
    let kept = resident();
    // All of them are there still: one that was closed reads as ended.
    let alive = open.iter().filter(|stream| is_open(stream)).count();
    if alive != connections {
        return Err(format!("{alive} of {connections} connections are left"));
    }
    drop(open);
    let after = resident();
    let each = |now: u64| (now as f64 - before as f64) / connections as f64;
    Ok(json!({
        "connections": connections,
        "residentBytesBefore": before,
        "bytesPerSilentConnection": each(silent),
        "bytesPerConnectionAfterOneRequest": each(kept),
        "bytesPerConnectionAfterAllAreClosed": each(after),
    }))
}

/// Whether the server has not closed it.
fn is_open(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let peeked = stream.peek(&mut [0]);
    peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}
