//! What a journal on three machines costs: the same commands at a server whose log is files, and at
//! servers whose log is a stream of three NATS servers, in turn; beside them what one append to
//! such a stream takes by itself, and the log of files again, while those servers take as many
//! messages a second of the same size from another client: all of them have the same processors and
//! caches.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, context::Context, stream};
use async_nats::{HeaderMap, header};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::arguments::Common;
use crate::run::closed;
use crate::samples::{Figures, median, percentile};
use crate::server::scratch;
use crate::stage::Stage;

/// How long servers may take to find each other.
const PATIENCE: Duration = Duration::from_secs(60);
const SERVERS: usize = 3;
/// Appends of which the time is taken in each round.
const APPENDS: u64 = 500;
/// The name of the server whose log is files.
const FILE_LOG: &str = "fileLog";
/// That of the one beside which others append.
const FILE_LOG_BESIDE: &str = "fileLogBesideAppends";
/// What is appended beside it before anything is known: bytes, and messages a second.
const BESIDE: (f64, f64) = (48_000.0, 200.0);
/// The most bytes of a stream, which the servers set aside for each.
const STREAM_BYTES: i64 = 2 << 30;

/// Servers of a stream on this machine; ended when dropped.
struct Cluster {
    children: Vec<Child>,
    url: String,
    _directory: TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Cluster {
    fn start(common: &Common) -> Result<Self, String> {
        let program = std::env::var_os("NATS_SERVER").map(PathBuf::from);
        let program = program.unwrap_or_else(|| "nats-server".into());
        let directory = scratch(common.directory.as_deref())?;
        let mut held = Vec::new();
        for _ in 0..2 * SERVERS {
            held.push(TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?);
        }
        let ports = held.iter().map(TcpListener::local_addr);
        let ports: Vec<u16> = ports.filter_map(Result::ok).map(|at| at.port()).collect();
        drop(held);
        let address = |port: &u16| format!("127.0.0.1:{port}");
        let routes = ports[SERVERS..].iter();
        let routes: Vec<_> = routes
            .map(|port| format!("nats://{}", address(port)))
            .collect();
        let mut cluster = Self {
            children: Vec::new(),
            url: format!(
                "nats://{}",
                ports[..SERVERS]
                    .iter()
                    .map(address)
                    .collect::<Vec<_>>()
                    .join(",")
            ),
            _directory: directory,
        };
        for number in 0..SERVERS {
            let at = cluster._directory.path();
            let text = format!(
                "server_name: node-{number}\nlisten: \"{}\"\njetstream {{ store_dir: {:?}, \
                 sync_interval: always, max_file_store: 16GB }}\ncluster {{ name: bench, listen: \"{}\", routes: \
                 {routes:?} }}\n",
                address(&ports[number]),
                at.join(format!("store-{number}")),
                address(&ports[SERVERS + number]),
            );
            let config = at.join(format!("node-{number}.conf"));
            std::fs::write(&config, text).map_err(|error| error.to_string())?;
            let child = Command::new(&program)
                .arg("-c")
                .arg(&config)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| format!("{} (NATS_SERVER): {error}", program.display()))?;
            cluster.children.push(child);
        }
        Ok(cluster)
    }

    /// Makes the journal of this name, again until the servers have found each other.
    fn journal(&self, name: &str) -> Result<Vec<String>, String> {
        let arguments = ["--journal", &self.url, "--journal-name", name];
        let begun = Instant::now();
        loop {
            let made = Command::new(env!("CARGO_BIN_EXE_carebook"))
                .args(["journal", "create", "--max-bytes"])
                .arg(STREAM_BYTES.to_string())
                .args(arguments)
                .output()
                .map_err(|error| error.to_string())?;
            if made.status.success() {
                return Ok(arguments.map(str::to_owned).to_vec());
            }
            if begun.elapsed() > PATIENCE {
                return Err(String::from_utf8_lossy(&made.stderr).into_owned());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Appends by themselves, one after the other, to a stream with a journal's settings.
struct Bare {
    runtime: Runtime,
    context: Context,
    subject: String,
    last: u64,
}

impl Bare {
    fn open(cluster: &Cluster, name: &str) -> Result<Self, String> {
        let subject = format!("bench.{name}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let servers = cluster.url.trim_start_matches("nats://").split(',');
        let servers: Vec<_> = servers.map(|one| format!("nats://{one}")).collect();
        let context = runtime.block_on(async {
            let client = async_nats::connect(servers).await;
            let context = jetstream::new(client.map_err(|error| error.to_string())?);
            let config = stream::Config {
                name: format!("BENCH_{name}"),
                subjects: vec![subject.clone()],
                num_replicas: SERVERS,
                discard: stream::DiscardPolicy::New,
                max_bytes: STREAM_BYTES,
                ..stream::Config::default()
            };
            let made = context.create_stream(config).await;
            made.map_err(|error| error.to_string())?;
            Ok::<_, String>(context)
        })?;
        Ok(Self {
            runtime,
            context,
            subject,
            last: 0,
        })
    }

    /// Appends messages of so many bytes, so many a second as far as that can be, until it is over.
    fn append_until(
        &mut self,
        is_over: &AtomicBool,
        (bytes, per_second): (f64, f64),
    ) -> Result<(), String> {
        let begun = Instant::now();
        let mut count = 0.0;
        while !is_over.load(Ordering::Relaxed) {
            let due = begun + Duration::from_secs_f64(count / per_second);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.append(bytes as usize, 1)?;
            count += 1.0;
        }
        Ok(())
    }

    /// How long each of so many appends of so many bytes takes, in microseconds, ascending.
    fn append(&mut self, bytes: usize, count: u64) -> Result<Vec<u32>, String> {
        let Self {
            runtime,
            context,
            subject,
            last,
        } = self;
        runtime.block_on(async {
            let payload = bytes::Bytes::from(vec![b'x'; bytes]);
            let mut took = Vec::new();
            for _ in 0..count {
                let mut headers = HeaderMap::new();
                headers.insert(header::NATS_EXPECTED_LAST_SEQUENCE, last.to_string());
                let begun = Instant::now();
                let sent = context
                    .publish_with_headers(subject.clone(), headers, payload.clone())
                    .await;
                let acknowledged = sent.map_err(|error| error.to_string())?.await;
                acknowledged.map_err(|error| error.to_string())?;
                took.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
                *last += 1;
            }
            took.sort_unstable();
            Ok(took)
        })
    }
}

/// A server, and what was measured there.
struct House {
    name: &'static str,
    stage: Stage,
    rounds: Vec<Figures>,
    /// Bytes of a message in the last round; 0 where there are none.
    message_bytes: f64,
    /// Messages of the last round.
    messages: f64,
    /// Commands of each round.
    commands: f64,
}

impl House {
    fn open(common: &Common, name: &'static str, arguments: &[String]) -> Result<Self, String> {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let start = common.start().without_snapshots().unheard();
        let server = start.with(&arguments).service()?;
        Ok(Self {
            name,
            stage: Stage::new(server, common.resources[0]),
            rounds: Vec::new(),
            message_bytes: 0.0,
            messages: 0.0,
            commands: common.commands as f64,
        })
    }

    fn is_of_files(&self) -> bool {
        self.name == FILE_LOG || self.name == FILE_LOG_BESIDE
    }

    /// Bytes of a message and messages a second, in the last round.
    fn messages(&self) -> (f64, f64) {
        match self.rounds.last() {
            Some(figures) if self.messages > 0.0 => {
                let seconds = self.commands / figures.per_second();
                (self.message_bytes, self.messages / seconds)
            }
            _ => BESIDE,
        }
    }

    /// Appends so far, and bytes of the stream; zeros where there is none.
    fn appended(&self) -> Result<(f64, f64), String> {
        if self.is_of_files() {
            return Ok((0.0, 0.0));
        }
        // The servers are asked every second how large it is.
        std::thread::sleep(Duration::from_millis(1_500));
        let page = self.stage.server().metrics()?;
        Ok((
            page.need("carebook_journal_appends_total")?,
            page.need("carebook_journal_stream_bytes")?,
        ))
    }

    fn measure(&mut self, common: &Common, round: usize) -> Result<(), String> {
        let before = self.appended()?;
        let workload = common.workloads()[0];
        let seed = common.seed.wrapping_add(round as u64);
        let figures = closed(&mut self.stage, workload, common, seed)?;
        let after = self.appended()?;
        self.messages = after.0 - before.0;
        if self.messages > 0.0 {
            self.message_bytes = (after.1 - before.1) / self.messages;
        }
        // The first round is not counted: tables and caches are empty.
        if round > 0 {
            self.rounds.push(figures);
        }
        Ok(())
    }

    fn middle(&self, of: impl Fn(&Figures) -> f64) -> f64 {
        median(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }

    fn json(&self, file_log: &Self, beside: &Self) -> Value {
        let micros = |figures: &Figures| {
            let (user, kernel) = figures.server_micros();
            user + kernel
        };
        let times = |other: &Self| {
            let pairs = self.rounds.iter().zip(&other.rounds);
            median(
                &pairs
                    .map(|(own, other)| micros(own) / micros(other))
                    .collect::<Vec<_>>(),
            )
        };
        json!({
            "commandsPerSecond": self.middle(Figures::per_second),
            "p50Micros": self.middle(|figures| f64::from(figures.percentile(0.50))),
            "p99Micros": self.middle(|figures| f64::from(figures.percentile(0.99))),
            "processorMicrosOfCommand": self.middle(micros),
            "processorTimesFileLog": times(file_log),
            "processorTimesFileLogBesideAppends": times(beside),
            "messages": self.messages,
            "messageBytes": self.message_bytes,
        })
    }
}

/// # Errors
/// A wrong answer, or a server that does not start.
pub(crate) fn measure(common: &Common) -> Result<Value, String> {
    let cluster = Cluster::start(common)?;
    let of = |name: &str, in_flight: &str| {
        let mut arguments = cluster.journal(name)?;
        arguments.extend(["--journal-in-flight".to_owned(), in_flight.to_owned()]);
        Ok::<_, String>(arguments)
    };
    let mut houses = [
        House::open(common, FILE_LOG, &[])?,
        House::open(common, "streamOneInFlight", &of("one", "1")?)?,
        House::open(common, "streamTwoInFlight", &of("two", "2")?)?,
        House::open(common, "streamFourInFlight", &of("four", "4")?)?,
        House::open(common, FILE_LOG_BESIDE, &[])?,
    ];
    let mut bare = Bare::open(&cluster, "bare")?;
    let mut others = Bare::open(&cluster, "others")?;
    let mut of_bare = Vec::new();
    for round in 0..=common.runs {
        for turn in 0..houses.len() {
            let at = (round + turn) % houses.len();
            if houses[at].name != FILE_LOG_BESIDE {
                houses[at].measure(common, round)?;
                continue;
            }
            let (is_over, messages) = (AtomicBool::new(false), houses[3].messages());
            std::thread::scope(|scope| {
                let appending = scope.spawn(|| others.append_until(&is_over, messages));
                let measured = houses[at].measure(common, round);
                is_over.store(true, Ordering::Relaxed);
                let appended = appending.join();
                measured.and(appended.map_err(|_| "the thread that appends panicked")?)
            })?;
        }
        let bytes = houses[1].message_bytes.max(1.0) as usize;
        let took = bare.append(bytes, APPENDS)?;
        of_bare.push(f64::from(percentile(&took, 0.50)));
        let rates = houses.iter().filter_map(|house| house.rounds.last());
        let rates: Vec<_> = rates
            .map(|figures| format!("{:.0}", figures.per_second()))
            .collect();
        eprintln!("round {round}: {}", rates.join(" "));
    }
    let mut figures = json!({
        "connections": common.connections,
        "commands": common.commands,
        "rounds": common.runs,
        "bareAppendP50Micros": median(&of_bare[1..]),
    });
    for house in &houses {
        figures[house.name] = house.json(&houses[0], &houses[4]);
    }
    Ok(figures)
}
