//! The console: in a browser, how soon its first page is useful and what a page of a long list
//! costs; and what open consoles cost the service at half of its capacity.
//!
//! The browser would take the processors' time from the service if ten of its pages were open on
//! the same machine. So what is open beside the service is, unless `--in-a-browser` is given,
//! clients that send what a page sends (`console/lib/events.js` says when): they follow
//! `/events`, leave it when more is committed than people read, and ask again for what they show.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::arguments::Common;
use crate::check::find;
use crate::http::Connection;
use crate::kinds::Workload;
use crate::requests;
use crate::run;
use crate::samples::{Figures, median};
use crate::server::Server;
use crate::stage::Stage;
use crate::template::{Template, headquarters};
use crate::workload::carry_out;

const WORKLOAD: Workload = Workload::Operation("request_deposit");
/// At which share of the capacity the consoles are open.
const SHARE: f64 = 0.5;
/// Statements that are opened at once.
const AT_ONCE: usize = 50_000;
/// Of the console: events of a second beyond which a page leaves the stream; for how long, twice as
/// long each time, and at the most; how much of that more or less, for each page; how often it asks for
/// figures.
const MUCH_A_SECOND: usize = 200;
const PAUSE: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const SPREAD: f64 = 0.25;
const FIGURES_EVERY: Duration = Duration::from_secs(2);
/// For how long a page uses a connection again that it has not used.
const IDLE: Duration = Duration::from_secs(60);

/// What is measured.
pub(crate) struct Sizes {
    /// Of the long list; none where there is no browser to scroll in.
    pub(crate) statements: usize,
    pub(crate) consoles: usize,
    /// What `npm ci` has filled from `tests/console/tools`.
    pub(crate) tools: Option<PathBuf>,
    pub(crate) chromium: PathBuf,
    pub(crate) in_a_browser: bool,
    /// Seconds of the same load before each measurement, with the consoles open where they are.
    pub(crate) opened_for: f64,
}

/// # Errors
/// A wrong answer, or a browser that finds something wrong.
pub(crate) fn measure(common: &Common, sizes: &Sizes) -> Result<Value, String> {
    let mut figures = json!({});
    if sizes.statements > 0 {
        let tools = sizes.tools.as_deref();
        let tools = tools.ok_or("a browser needs --tools, or --statements 0 leaves it out")?;
        figures["browser"] = browsed(common, sizes, tools)?;
    }
    if sizes.consoles > 0 {
        figures["beside"] = beside(common, sizes)?;
    }
    Ok(figures)
}

/// The script of the browser, in this mode.
fn script(server: &Server, sizes: &Sizes, tools: &Path, mode: &[String]) -> Result<Child, String> {
    Command::new("node")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/console/campaign.mjs"
        ))
        .arg(tools)
        .arg(&sizes.chromium)
        .arg(format!("http://{}", server.address()))
        .args(mode)
        .env("TOKEN", headquarters(server))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("node: {error}"))
}

/// The last line that the script prints, once it has ended well.
fn outcome(mut script: Child) -> Result<Value, String> {
    drop(script.stdin.take());
    let out = script.stdout.take().ok_or("the script prints nothing")?;
    let mut last = String::new();
    for line in BufReader::new(out).lines() {
        last = line.map_err(|error| error.to_string())?;
    }
    let status = script.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => serde_json::from_str(&last).map_err(|error| format!("{last}: {error}")),
        false => Err(format!("the browser found a fault: {last}")),
    }
}

/// First pages, and a list of so many statements.
fn browsed(common: &Common, sizes: &Sizes, tools: &Path) -> Result<Value, String> {
    let start = common.start().without_snapshots().unheard();
    let server = start.with(&["--console", "on"]).service()?;
    let first = outcome(script(&server, sizes, tools, &["first".to_owned()])?)?;
    let template = Template::request_deposit(&headquarters(&server));
    let mut made = 0;
    while made < sizes.statements {
        let next = sizes.statements.min(made + AT_ONCE);
        let commands = (made..next).map(|number| template.fill(number, 0));
        carry_out(&server, 64, commands.collect())?;
        made = next;
    }
    eprintln!("{made} statements");
    let mode = ["list".to_owned(), made.to_string()];
    let list = outcome(script(&server, sizes, tools, &mode)?)?;
    Ok(json!({"firstPage": first, "list": list}))
}

/// EP9 at half of capacity, with consoles open and without, in turn on one server.
fn beside(common: &Common, sizes: &Sizes) -> Result<Value, String> {
    let start = common.start().without_snapshots().unheard();
    // All of them come from one address.
    let start = start.with(&["--console", "on", "--connections-per-address-max", "20000"]);
    let mut stage = Stage::new(requests::start(WORKLOAD, &start)?, common.resources[0]);
    let capacity = run::closed(&mut stage, WORKLOAD, common, common.seed)?.per_second();
    let mut rounds = Vec::new();
    for round in 0..common.runs {
        let seed = common.seed.wrapping_add(round as u64);
        let mut once = |stage: &mut Stage| {
            let rate = SHARE * capacity;
            if sizes.opened_for > 0.0 {
                let before = Common {
                    seconds: sizes.opened_for,
                    ..common.clone()
                };
                run::open(stage, WORKLOAD, &before, rate, !seed)?;
            }
            run::open(stage, WORKLOAD, common, rate, seed)
        };
        let (without, (with, asked)) = if round % 2 == 0 {
            let without = once(&mut stage)?;
            (without, opened(&mut stage, sizes, &mut once)?)
        } else {
            let with = opened(&mut stage, sizes, &mut once)?;
            (once(&mut stage)?, with)
        };
        let of = |figures: &Figures| {
            json!({
                "p50Micros": figures.percentile(0.5),
                "p99Micros": figures.percentile(0.99),
                "usualP99Micros": figures.usual_p99(),
                "serverMicros": figures.server_micros().0 + figures.server_micros().1,
            })
        };
        let ratio = f64::from(with.percentile(0.99)) / f64::from(without.percentile(0.99)).max(1.0);
        let usual = with.usual_p99() / without.usual_p99().max(1.0);
        eprintln!(
            "round {}: {ratio:.2}, of a tenth of a second {usual:.2}",
            round + 1
        );
        let asked = json!({"without": of(&without), "with": of(&with), "asked": asked,
            "p99WithOfWithout": ratio, "usualP99WithOfWithout": usual});
        rounds.push(asked);
    }
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let middle = |of: &dyn Fn(&Value) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
    Ok(json!({
        "consoles": sizes.consoles,
        "inABrowser": sizes.in_a_browser,
        "openedForSeconds": sizes.opened_for,
        "capacityPerSecond": capacity,
        "perSecond": SHARE * capacity,
        "p99MicrosWithout": middle(&|round| number(&round["without"]["p99Micros"])),
        "p99MicrosWith": middle(&|round| number(&round["with"]["p99Micros"])),
        "p99WithOfWithout": middle(&|round| number(&round["p99WithOfWithout"])),
        "serverMicrosWithout": middle(&|round| number(&round["without"]["serverMicros"])),
        "serverMicrosWith": middle(&|round| number(&round["with"]["serverMicros"])),
        "usualP99MicrosWithout": middle(&|round| number(&round["without"]["usualP99Micros"])),
        "usualP99MicrosWith": middle(&|round| number(&round["with"]["usualP99Micros"])),
        "usualP99WithOfWithout": middle(&|round| number(&round["usualP99WithOfWithout"])),
        "rounds": rounds,
    }))
}

/// What is driven while consoles are open, and what they have asked for.
fn opened(
    stage: &mut Stage,
    sizes: &Sizes,
    drive: &mut dyn FnMut(&mut Stage) -> Result<Figures, String>,
) -> Result<(Figures, Value), String> {
    if sizes.in_a_browser {
        let tools = sizes.tools.as_deref();
        let tools = tools.ok_or("a browser needs --tools")?;
        let mode = ["open".to_owned(), sizes.consoles.to_string()];
        let mut script = script(stage.server(), sizes, tools, &mode)?;
        let mut line = String::new();
        let out = script.stdout.as_mut().ok_or("the script prints nothing")?;
        // One byte at a time: what comes after the line is for `outcome`.
        while !line.ends_with('\n') {
            let mut byte = [0];
            std::io::Read::read_exact(out, &mut byte).map_err(|error| error.to_string())?;
            line.push(char::from(byte[0]));
        }
        let figures = drive(stage);
        if let Some(input) = script.stdin.as_mut() {
            let _ = input.write_all(b"end\n");
        }
        return Ok((figures?, outcome(script)?));
    }
    let consoles = Consoles::open(stage.server(), sizes.consoles)?;
    let figures = drive(stage);
    Ok((figures?, consoles.close()?))
}

/// What all consoles share.
struct Asked {
    is_over: AtomicBool,
    events: AtomicUsize,
    streams: AtomicUsize,
    figures: AtomicUsize,
    /// Rows of the overview, and pages of the list.
    refreshes: AtomicUsize,
}

/// Clients that send what pages send, in a thread of their own.
struct Consoles {
    asked: Arc<Asked>,
    thread: std::thread::JoinHandle<Result<(), String>>,
}

impl Consoles {
    fn open(server: &Server, count: usize) -> Result<Self, String> {
        let asked = Arc::new(Asked {
            is_over: AtomicBool::new(false),
            events: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            figures: AtomicUsize::new(0),
            refreshes: AtomicUsize::new(0),
        });
        let (address, token) = (server.address().to_owned(), headquarters(server));
        let shared = Arc::clone(&asked);
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let mut pages = tokio::task::JoinSet::new();
                for number in 0..count {
                    let page = Page {
                        address: address.clone(),
                        token: token.clone(),
                        // Half of them show the overview, half the statements.
                        is_overview: number % 2 == 0,
                        pace: 1.0 + SPREAD * (2.0 * number as f64 / count.max(2) as f64 - 1.0),
                        asked: Arc::clone(&shared),
                    };
                    pages.spawn(page.follow());
                }
                while let Some(page) = pages.join_next().await {
                    page.map_err(|error| error.to_string())??;
                }
                Ok(())
            })
        });
        Ok(Self { asked, thread })
    }

    fn close(self) -> Result<Value, String> {
        self.asked.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| "the thread of the consoles panicked")??;
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Ok(json!({
            "events": of(&self.asked.events),
            "streams": of(&self.asked.streams),
            "figures": of(&self.asked.figures),
            "refreshes": of(&self.asked.refreshes),
        }))
    }
}

/// One page.
struct Page {
    address: String,
    token: String,
    is_overview: bool,
    /// How long its pauses are, of what they should be.
    pace: f64,
    asked: Arc<Asked>,
}

impl Page {
    fn request(&self, path: &str, accept: &str) -> Vec<u8> {
        format!(
            "GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {}\r\nAccept: {accept}\r\n\
             Accept-Encoding: gzip, deflate, br, zstd\r\n\r\n",
            self.token
        )
        .into_bytes()
    }

    fn is_over(&self) -> bool {
        self.asked.is_over.load(Ordering::Relaxed)
    }

    /// One request of the page's, which has to be answered.
    async fn ask(&self, connection: &mut Connection, path: &str) -> Result<u64, String> {
        let request = self.request(path, "application/json");
        let answer = connection.exchange(&request).await?;
        match answer.status {
            200 => Ok(connection.position(&answer).unwrap_or(0)),
            status => Err(format!("{path}: {status}")),
        }
    }

    /// What the page shows, asked for again; where the log was then.
    async fn refresh(&self, connection: &mut Connection) -> Result<(), String> {
        const OLDEST: &str = "/settlement-statements?status=awaiting_branch_deposit&order=oldest";
        self.asked.refreshes.fetch_add(1, Ordering::Relaxed);
        if !self.is_overview {
            self.ask(connection, &format!("{OLDEST}&limit=100")).await?;
            return Ok(());
        }
        self.ask(connection, &format!("{OLDEST}&limit=1")).await?;
        self.ask(connection, "/readyz").await?;
        let position = self.ask(connection, "/events?limit=1").await?;
        let after = position.saturating_sub(12);
        self.ask(connection, &format!("/events?after={after}-0&limit=48"))
            .await?;
        Ok(())
    }

    async fn follow(self) -> Result<(), String> {
        let mut connection = Connection::open(&self.address).await?;
        let mut figures_at = Instant::now();
        let mut pause = None;
        self.refresh(&mut connection).await?;
        let mut position = self.ask(&mut connection, "/events?limit=1").await?;
        while !self.is_over() {
            let began = Instant::now();
            self.stream(position).await?;
            // As a browser: a connection that has been idle for long is closed by the server.
            if began.elapsed() >= IDLE {
                connection = Connection::open(&self.address).await?;
            }
            if pause.is_none() || began.elapsed() > Duration::from_secs(1) {
                // What came before it was left is sent once.
                self.refresh(&mut connection).await?;
                pause = None;
            }
            let next = pause.map_or(PAUSE, |pause| PAUSE_MAX.min(2 * pause));
            pause = Some(next);
            let until = Instant::now() + next.mul_f64(self.pace);
            while Instant::now() < until && !self.is_over() {
                if self.is_overview && figures_at.elapsed() >= FIGURES_EVERY {
                    figures_at = Instant::now();
                    self.ask(&mut connection, "/console/figures").await?;
                    self.asked.figures.fetch_add(1, Ordering::Relaxed);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            position = self.ask(&mut connection, "/events?limit=1").await?;
            self.refresh(&mut connection).await?;
        }
        Ok(())
    }

    /// Follows the events until more come in a second than are shown one by one.
    async fn stream(&self, after: u64) -> Result<(), String> {
        let broken = |error: std::io::Error| format!("a stream broke: {error}");
        let mut stream = TcpStream::connect(&self.address).await.map_err(broken)?;
        let request = self.request(&format!("/events?after={after}-0"), "text/event-stream");
        stream.write_all(&request).await.map_err(broken)?;
        self.asked.streams.fetch_add(1, Ordering::Relaxed);
        let mut buffer = vec![0; 64 << 10];
        let (mut second, mut count, mut is_first) = (Instant::now(), 0, true);
        while !self.is_over() && count < MUCH_A_SECOND {
            let read = tokio::time::timeout(FIGURES_EVERY, stream.read(&mut buffer)).await;
            let Ok(read) = read else { continue };
            let read = read.map_err(broken)?;
            if read == 0 || (is_first && !buffer.starts_with(b"HTTP/1.1 200")) {
                return Err(format!(
                    "no stream: {}",
                    String::from_utf8_lossy(&buffer[..read])
                ));
            }
            is_first = false;
            if second.elapsed() > Duration::from_secs(1) {
                (second, count) = (Instant::now(), 0);
            }
            let mut rest = &buffer[..read];
            while let Some(at) = find(rest, b"\ndata:") {
                count += 1;
                self.asked.events.fetch_add(1, Ordering::Relaxed);
                rest = &rest[at + 1..];
            }
        }
        Ok(())
    }
}
