//! Events: how fast the log is read back in pages, how long after its commit an event reaches each
//! of many readers of streams, and what a reader costs that reads nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use carebook::base::actor::{Actor, ActorKind};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::arguments::Common;
use crate::check::find;
use crate::http::Connection;
use crate::server::Server;
use crate::template::{Template, headquarters};
use crate::workload::carry_out;

/// Events of one page.
const PAGE: usize = 1_000;
/// Commits a second while readers follow.
const RATE: u64 = 100;
/// Until all who have just connected are at the end.
const SETTLE: Duration = Duration::from_secs(2);

/// How many there are of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Commits that are read back.
    pub(crate) commits: usize,
    /// Readers of streams.
    pub(crate) readers: usize,
    /// Readers that read nothing.
    pub(crate) stalled: usize,
}

/// # Errors
/// A wrong answer, or an event that does not come.
pub(crate) fn measure(common: &Common, sizes: Sizes) -> Result<Value, String> {
    let most = (sizes.readers + sizes.stalled + 1_000).to_string();
    let start = common.start().without_snapshots().with(&[
        "--connections-max",
        &most,
        "--connections-per-address-max",
        &most,
    ]);
    let server = start.service()?;
    let token = server.token(&Actor {
        subject: "reader-1".into(),
        kind: ActorKind::SystemWorkflow,
        permissions: vec!["events:read".into()],
        ..Actor::nobody()
    });
    let template = Template::request_deposit(&headquarters(&server));
    eprintln!("{} commits", sizes.commits);
    let commands = (0..sizes.commits).map(|number| template.fill(number, 0));
    carry_out(&server, 64, commands.collect())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let pages = runtime.block_on(read_back(&server, &token, sizes.commits))?;
    let streams = runtime.block_on(follow(&server, &token, &template, common, sizes))?;
    let stalled = runtime.block_on(stall(&server, &token, sizes.stalled))?;
    Ok(json!({"pages": pages, "streams": streams, "stalled": stalled}))
}

/// All of it, page by page.
async fn read_back(server: &Server, token: &str, commits: usize) -> Result<Value, String> {
    let mut connection = Connection::open(server.address()).await?;
    let (mut after, mut events, mut pages) = ("0-0".to_owned(), 0, 0);
    let begun = Instant::now();
    loop {
        let request = format!(
            "GET /events?limit={PAGE}&after={after} HTTP/1.1\r\nHost: bench\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        );
        let answer = connection.exchange(request.as_bytes()).await?;
        let body = connection.body(&answer);
        if answer.status != 200 {
            return Err(String::from_utf8_lossy(body).into_owned());
        }
        events += count(body, b"\"specversion\":");
        pages += 1;
        let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        let (_, next) = text
            .rsplit_once("\"next\":\"")
            .ok_or("a page has no next")?;
        let (next, end) = next.split_once("\",\"end\":").ok_or("a page has no end")?;
        next.clone_into(&mut after);
        if end == "true}" {
            break;
        }
    }
    let took = begun.elapsed().as_secs_f64();
    if events < commits {
        return Err(format!("{events} events of {commits} commits"));
    }
    Ok(json!({"events": events, "pages": pages, "seconds": took,
        "eventsPerSecond": events as f64 / took}))
}

fn count(text: &[u8], needle: &[u8]) -> usize {
    let mut rest = text;
    let mut count = 0;
    while let Some(at) = find(rest, needle) {
        count += 1;
        rest = &rest[at + needle.len()..];
    }
    count
}

async fn open(server: &Server, token: &str, after: u64) -> Result<TcpStream, String> {
    let failed = |error: std::io::Error| format!("a reader's connection failed: {error}");
    let mut stream = TcpStream::connect(server.address()).await.map_err(failed)?;
    let request = format!(
        "GET /events?after={after}-0 HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    Ok(stream)
}

/// The last position that is durable.
fn durable(server: &Server) -> Result<u64, String> {
    Ok(server.metrics()?.need("carebook_durable_position")? as u64)
}

/// What readers have seen.
#[derive(Default)]
struct Seen {
    /// When the client got the response of the commit at this position; by position.
    told: Mutex<std::collections::HashMap<u64, Instant>>,
    events: AtomicU64,
    is_over: AtomicBool,
}

/// Readers follow while commits are made at a steady rate; each notes when it saw which one.
async fn follow(
    server: &Server,
    token: &str,
    template: &Template,
    common: &Common,
    sizes: Sizes,
) -> Result<Value, String> {
    let before = server.process().resident();
    let from = durable(server)?;
    let seen = Arc::new(Seen::default());
    let mut readers = Vec::new();
    for _ in 0..sizes.readers {
        let stream = open(server, token, from).await?;
        readers.push(tokio::spawn(read_on(stream, Arc::clone(&seen))));
    }
    tokio::time::sleep(SETTLE).await;
    let resident = server.process().resident();
    let mut connection = Connection::open(server.address()).await?;
    let commands = (common.seconds * RATE as f64) as u64;
    let mut due = tokio::time::interval(Duration::from_micros(1_000_000 / RATE));
    for number in 0..commands {
        due.tick().await;
        let number = sizes.commits + usize::try_from(number).unwrap_or(0);
        let answer = connection.exchange(&template.fill(number, 0).bytes).await?;
        if answer.status != 201 {
            return Err(String::from_utf8_lossy(connection.body(&answer)).into_owned());
        }
        // The answer's head names its position; no other client commits.
        let position = from + 1 + (number - sizes.commits) as u64;
        seen.told.lock().insert(position, Instant::now());
    }
    let expected = commands * sizes.readers as u64;
    let patience = Instant::now();
    while seen.events.load(Ordering::Relaxed) < expected {
        if patience.elapsed() > Duration::from_secs(30) {
            let events = seen.events.load(Ordering::Relaxed);
            return Err(format!("{events} of {expected} events came"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    seen.is_over.store(true, Ordering::Relaxed);
    let mut micros = Vec::new();
    for reader in readers {
        reader.abort();
        let _ = reader.await;
    }
    let told = seen.told.lock().clone();
    for (position, at) in SAW.lock().drain(..) {
        if let Some(told) = told.get(&position) {
            let late = at.saturating_duration_since(*told).as_micros();
            micros.push(late);
        }
    }
    micros.sort_unstable();
    let millis = |quantile: f64| {
        let rank = (micros.len() as f64 * quantile).ceil() as usize;
        let at = rank.clamp(1, micros.len().max(1)) - 1;
        micros.get(at).map(|micros| *micros as f64 / 1_000.0)
    };
    Ok(json!({
        "readers": sizes.readers,
        "commitsPerSecond": RATE,
        "events": expected,
        "millisAfterTheAnswer": {"p50": millis(0.5), "p99": millis(0.99), "max": millis(1.0)},
        "residentBytesPerReader":
            (resident as f64 - before as f64) / sizes.readers.max(1) as f64,
    }))
}

/// When an event of which position was seen, by all readers.
static SAW: Mutex<Vec<(u64, Instant)>> = Mutex::new(Vec::new());

/// Notes when each event comes.
async fn read_on(mut stream: TcpStream, seen: Arc<Seen>) {
    const ID: &[u8] = b"\nid: ";
    let mut buffer = Vec::with_capacity(16 << 10);
    while !seen.is_over.load(Ordering::Relaxed) {
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let now = Instant::now();
        // An identifier with an event's type on the next line is an event's, not a heartbeat's.
        while let Some(at) = find(&buffer, b"\nevent: ") {
            let line = &buffer[..at];
            let begin = find(line, ID).map_or(0, |found| found + ID.len());
            let line = String::from_utf8_lossy(&line[begin..]);
            let line = line.trim_start_matches("id: ");
            let position = line
                .split('-')
                .next()
                .and_then(|text| text.trim().parse().ok());
            if let Some(position) = position {
                SAW.lock().push((position, now));
                seen.events.fetch_add(1, Ordering::Relaxed);
            }
            buffer.drain(..=at);
        }
    }
}

/// Readers that take nothing of the whole log.
async fn stall(server: &Server, token: &str, readers: usize) -> Result<Value, String> {
    let before = server.process().resident();
    let mut open_streams = Vec::new();
    for _ in 0..readers {
        open_streams.push(open(server, token, 0).await?);
    }
    tokio::time::sleep(SETTLE).await;
    let resident = server.process().resident();
    Ok(json!({
        "readers": readers,
        "residentBytesPerReader": (resident as f64 - before as f64) / readers.max(1) as f64,
    }))
}
