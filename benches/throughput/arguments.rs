//! The arguments.

use std::path::PathBuf;

use carebook::catalogue::OPERATIONS;
use clap::{Args, Parser, Subcommand};

use crate::kinds::{Like, Workload};
use crate::server::Start;
use crate::sizes::OfBoth;

/// The workloads that are no single operation.
const WORKLOADS: [&str; 10] = [
    "all", "mixed", "hot", "spread", "replays", "refusals", "dry-runs", "reads", "limit", "none",
];

/// Measures the service over HTTP, on this machine, the load generator included.
#[derive(Parser)]
#[command(after_help = "\
Examples (after `cargo bench --bench throughput --`):
  --workload request_deposit,limit --connections 64 --commands 100000
  --workload all --commands 20000
  --workload hot,spread --resources 10000,1000000
  --workload mixed --rate-of-capacity 0.5 --seconds 30
  --workload request_deposit --sweep --html sweep.html --json sweep.json
  --peers postgres,redis,limit
  overload --seconds 10
  idle --idle-connections 10000
  instructions --workload all --commands 3000
  journal --runs 5 --commands 30000
  lists --statements 1000000
  console --statements 1000000 --consoles 10
  observed --runs 9 --commands 50000
  memory --statements 1000000
  snapshot --seconds 30
  recovery --records 1000000

Exit code 1: an answer was wrong, or something did not start; the first is shown.")]
pub(crate) struct Arguments {
    /// What is measured instead of the workloads' speed.
    #[command(subcommand)]
    pub(crate) scenario: Option<Scenario>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// Is the limit that is measured beside the service; the bench starts this itself.
    #[arg(long, hide = true, value_name = "DIR", requires = "limit_sizes")]
    pub(crate) serve_limit: Option<PathBuf>,
    /// The bytes of its records and answers.
    #[arg(long, hide = true, value_name = "BYTES")]
    pub(crate) limit_sizes: Option<OfBoth>,
    /// Is receivers of webhooks of these manners; the bench starts this itself.
    #[arg(long, hide = true, value_name = "MANNERS")]
    pub(crate) serve_receivers: Option<String>,
}

/// What more there is than speed.
#[derive(Subcommand, Clone)]
pub(crate) enum Scenario {
    /// Offers many times the capacity, open-loop: what still gets through, what is told to the
    /// rest, what memory does, how long until all is as before.
    Overload {
        /// How many times the measured capacity.
        #[arg(long, default_value_t = 10.0)]
        times: f64,
    },
    /// Opens connections that say nothing: what each costs in memory.
    Idle {
        /// How many.
        #[arg(long, default_value_t = 10_000)]
        idle_connections: usize,
    },
    /// Reads the log back as events, and follows them with many readers.
    Events {
        /// Commits that are read back.
        #[arg(long, default_value_t = 200_000)]
        commits: usize,
        /// Readers of streams while commits are made.
        #[arg(long, default_value_t = 1_000)]
        readers: usize,
        /// Readers that take nothing.
        #[arg(long, default_value_t = 100)]
        stalled: usize,
    },
    /// Pages of lists: among few statements and among many, and how many a second.
    Lists {
        /// Statements of the server with many.
        #[arg(long, default_value_t = 1_000_000)]
        statements: usize,
    },
    /// The console: in a browser, its first page and a long list; and what open consoles cost EP9 at
    /// half of capacity.
    Console {
        /// Statements of the list that is scrolled through; 0 leaves the browser out.
        #[arg(long, default_value_t = 1_000_000)]
        statements: usize,
        /// Consoles that are open beside EP9; 0 leaves that out.
        #[arg(long, default_value_t = 10)]
        consoles: usize,
        /// What `npm ci` has filled from tests/console/tools.
        #[arg(long, env = "CONSOLE_TOOLS", value_name = "DIR")]
        tools: Option<PathBuf>,
        /// The browser.
        #[arg(long, default_value = "/usr/bin/chromium", value_name = "FILE")]
        chromium: PathBuf,
        /// The consoles are pages of that browser, which takes the processors' time from the
        /// service; without it they are clients that send what pages send.
        #[arg(long)]
        in_a_browser: bool,
        /// Seconds of the same load before each measurement, with the consoles open where they are:
        /// how long they look for events again depends on how long there were too many.
        #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
        opened_for: f64,
    },
    /// Brings events to receivers: how fast to one, how soon to many and what that costs commands,
    /// and what hostile receivers cost a good one.
    Webhooks {
        /// Events for one receiver.
        #[arg(long, default_value_t = 50_000)]
        events: usize,
        /// Subscriptions to one event.
        #[arg(long, default_value_t = 1_000)]
        subscriptions: usize,
        /// Commands of each window in which rates are compared.
        #[arg(long, default_value_t = 100_000)]
        window: usize,
    },
    /// What a journal on three NATS servers costs (`nats-server` in the path, or `NATS_SERVER`): the
    /// first workload at a server whose log is files, and at servers whose log is a stream, with one,
    /// two and four appends in flight, in turn.
    Journal,
    /// What traces and an access log cost: requests for a deposit at a server with a collector, at
    /// one with an access log, and at one with neither, in turn.
    Observed {
        /// One request in so many is traced.
        #[arg(long, default_value_t = 100)]
        one_in: u64,
    },
    /// How the rate grows with processors: the time of the lanes and of the log's thread for a
    /// request for a deposit, and the rate at most that follows for 2 to 32 processors.
    Processors {
        /// What a commit holds the sequencer for, in microseconds, as `--bench sequencer` reports.
        #[arg(long, default_value_t = 0.4)]
        sequencer_micros: f64,
    },
    /// Instructions in user mode for a command of each workload, counted by valgrind.
    Instructions,
    /// Resident memory for a resource and for a key, beside the size in which they are encoded.
    Memory {
        /// Statements to open, and keys to take.
        #[arg(long, default_value_t = 1_000_000)]
        statements: usize,
    },
    /// Speed and latency while a snapshot is taken, and while none is.
    Snapshot {
        /// Statements that are there before.
        #[arg(long, default_value_t = 200_000)]
        statements: usize,
    },
    /// How long a start takes on a directory with so much in it.
    Recovery {
        /// Records to prepare after the snapshot, where no directory is given.
        #[arg(long, default_value_t = 1_000_000)]
        records: usize,
        /// Resources in the snapshot before them; none is taken when there are none.
        #[arg(long, default_value_t = 1_000_000)]
        snapshot: usize,
        /// A data directory that is prepared already; it is opened as it is, and a new segment
        /// begins in it at each start.
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Where the prepared directory is put and kept.
        #[arg(long, value_name = "DIR", conflicts_with = "data")]
        keep: Option<PathBuf>,
    },
}

/// What goes for all.
#[derive(Args, Clone)]
pub(crate) struct Common {
    /// What to measure: operations by their names, `all` of them, `mixed`, `hot`, `spread`,
    /// `replays`, `refusals`, `dry-runs`, `reads`, `limit` (a bare server beside it), `none`.
    #[arg(long, value_name = "NAME", value_delimiter = ',', global = true)]
    pub(crate) workload: Vec<String>,
    /// Others to drive in the same runs: postgres, redis, limit.
    #[arg(long, value_name = "NAME", value_delimiter = ',', global = true)]
    pub(crate) peers: Vec<String>,
    /// Connections of a closed loop.
    #[arg(long, default_value_t = 64, global = true)]
    pub(crate) connections: usize,
    /// Connections of an open loop at its start.
    #[arg(long, default_value_t = 512, global = true)]
    pub(crate) connections_open: usize,
    /// Connections of an open loop at the most.
    #[arg(long, default_value_t = 8_000, global = true)]
    pub(crate) connections_most: usize,
    /// Requests of each closed loop.
    #[arg(long, default_value_t = 100_000, global = true)]
    pub(crate) commands: usize,
    /// Runs of each; the median is shown.
    #[arg(long, default_value_t = 3, global = true)]
    pub(crate) runs: usize,
    /// Requests a second, in an open loop.
    #[arg(long, global = true, conflicts_with_all = ["rate_of_capacity", "sweep"])]
    pub(crate) rate: Option<f64>,
    /// The same as a share of what the closed loop before it reached; several are measured one
    /// after the other.
    #[arg(long, value_name = "SHARE", value_delimiter = ',', global = true)]
    pub(crate) rate_of_capacity: Vec<f64>,
    /// Several shares of the capacity, for the plot of latency against rate.
    #[arg(long, global = true, conflicts_with = "rate_of_capacity")]
    pub(crate) sweep: bool,
    /// Seconds of each open loop.
    #[arg(long, default_value_t = 10.0, global = true)]
    pub(crate) seconds: f64,
    /// Resources that `hot` and `spread` (each of them), `reads` and the mix draw from.
    #[arg(long, value_delimiter = ',', default_value = "10000", global = true)]
    pub(crate) resources: Vec<usize>,
    /// Threads that drive.
    #[arg(long, default_value_t = 1, global = true)]
    pub(crate) generators: usize,
    /// Of everything that is drawn.
    #[arg(long, default_value_t = 1, global = true)]
    pub(crate) seed: u64,
    /// Shows each run, not the medians alone.
    #[arg(long, global = true)]
    pub(crate) each: bool,
    /// Writes everything as JSON there; `-` is standard output, in the place of the table.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) json: Option<PathBuf>,
    /// Writes a page with plots there.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) html: Option<PathBuf>,
    /// In which directory the servers keep their data while they are measured.
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,
    /// The service's program; without it the one that is built with the bench.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) program: Option<PathBuf>,
    /// Arguments of `carebook serve`, such as `--server-argument=--runtimes=2`.
    #[arg(long, value_name = "ARGUMENT", global = true)]
    pub(crate) server_argument: Vec<String>,
    /// What cargo passes to every bench.
    #[arg(long, hide = true, global = true)]
    pub(crate) bench: bool,
}

/// The shares of the capacity that a sweep goes through.
const SWEEP: [f64; 8] = [0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1];

/// The rates of the open loops.
pub(crate) enum Rates {
    /// So many requests a second; the capacity is not measured.
    PerSecond(f64),
    /// These shares of the capacity; there may be none.
    OfCapacity(Vec<f64>),
}

impl Common {
    pub(crate) fn start(&self) -> Start {
        Start {
            program: self.program.clone(),
            within: self.directory.clone(),
            data: None,
            arguments: self.server_argument.clone(),
            is_unheard: false,
            counted: None,
        }
    }

    /// Connections of an open loop, at its start and at the most.
    pub(crate) fn open_connections(&self) -> (usize, usize) {
        let most = self.connections_most.max(1);
        (self.connections_open.min(most), most)
    }

    pub(crate) fn rates(&self) -> Rates {
        match self.rate {
            Some(rate) => Rates::PerSecond(rate),
            None if self.sweep => Rates::OfCapacity(SWEEP.to_vec()),
            None => Rates::OfCapacity(self.rate_of_capacity.clone()),
        }
    }

    /// Whether anything is driven at a rate.
    pub(crate) fn has_open_loops(&self) -> bool {
        match self.rates() {
            Rates::PerSecond(_) => true,
            Rates::OfCapacity(shares) => !shares.is_empty(),
        }
    }

    /// What is wrong with the arguments, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        let known = |name: &String| {
            WORKLOADS.contains(&name.as_str()) || OPERATIONS.iter().any(|row| row.name == name)
        };
        if let Some(unknown) = self.workload.iter().find(|name| !known(name)) {
            let names: Vec<_> = OPERATIONS.iter().map(|row| row.name).collect();
            return Some(format!(
                "there is no workload {unknown}; there are {}, {}",
                WORKLOADS.join(", "),
                names.join(", ")
            ));
        }
        let peers = ["postgres", "redis", "limit"];
        if let Some(unknown) = self
            .peers
            .iter()
            .find(|name| !peers.contains(&name.as_str()))
        {
            return Some(format!(
                "there is no peer {unknown}; there are {}",
                peers.join(", ")
            ));
        }
        let counts = [self.connections, self.commands, self.runs, self.generators];
        let rates = self.rate_of_capacity.iter().chain(&self.rate);
        if counts.contains(&0) || self.resources.contains(&0) {
            return Some("counts are at least 1".to_owned());
        }
        if self.resources.is_empty()
            || self.seconds <= 0.0
            || rates.clone().any(|rate| *rate <= 0.0)
        {
            return Some("rates and seconds are more than 0".to_owned());
        }
        (self.connections < self.generators)
            .then(|| "each driving thread needs a connection".to_owned())
    }

    /// The workloads that were asked for, in the order of the table; the first is what the others
    /// are compared with.
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        let mut names: Vec<&str> = self.workload.iter().map(String::as_str).collect();
        if names.is_empty() {
            names.push("request_deposit");
        }
        let mut workloads = Vec::new();
        let mut limit = false;
        for name in names {
            match name {
                "none" => {}
                "all" => {
                    workloads.extend(OPERATIONS.iter().map(|row| Workload::Operation(row.name)))
                }
                "mixed" => workloads.push(Workload::Mixed),
                "hot" => workloads.push(Workload::Hot(self.resources[0])),
                "spread" => workloads.extend(self.resources.iter().map(|&n| Workload::Spread(n))),
                "replays" => workloads.push(Workload::Replays),
                "refusals" => workloads.push(Workload::Refusals),
                "dry-runs" => workloads.push(Workload::DryRuns),
                "reads" => workloads.push(Workload::Reads),
                "limit" => limit = true,
                name => workloads.extend(
                    OPERATIONS
                        .iter()
                        .filter(|row| row.name == name)
                        .map(|row| Workload::Operation(row.name)),
                ),
            }
        }
        limit |= self.peers.iter().any(|peer| peer == "limit");
        if limit {
            // Like each of those that it is compared with; like EP9 where it stands alone.
            let charges = |one: &Workload| matches!(one, Workload::Hot(_) | Workload::Spread(_));
            let has_charges = workloads.iter().any(charges);
            if workloads.is_empty() || !workloads.iter().all(charges) {
                workloads.push(Workload::Limit(Like::Deposit));
            }
            if has_charges {
                workloads.push(Workload::Limit(Like::Charge));
            }
        }
        workloads
    }
}
