//! `carebook serve`: recovers the data directory, then serves until a signal stops it.

mod announcing;
mod bounds;
mod checking;
mod console;
pub mod demo;
pub mod descriptors;
mod help;
mod key_set;
pub mod keys;
mod listening;
pub mod logging;
pub mod provider;
mod receivers;
pub(super) mod signals;
mod stopping;
pub mod walk;
mod webhook_key;
pub mod webhooks;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio_rustls::rustls::ClientConfig;

use super::backup_status;
use super::duration::parse_duration_min_1s;
use super::ending::end_the_process;
use super::exit::Failure;
use super::journal::{JournalArgs, Node, expect_no_journal};
use super::manager;
use super::nats::NatsArgs;
use super::open::{Opening, log_recovery, open};
use super::output::new_directory;
use super::settings::SettingsArgs;
use super::traces::TraceArgs;
use super::trust::TrustArgs;
use crate::engine::Engine;
use crate::engine::checkpointer::CheckpointPolicy;
use crate::engine::lanes::processors::Processors;
use crate::engine::log_space::retention::LogRetention;
use crate::http::connection::server::{Internal, Server};
use crate::http::cors::{Cors, Origin};
use crate::http::metric_sources::MetricSources;
use crate::http::service::Service;
use crate::http::tls::Tls;
use crate::http::token::TokenVerifier;
use crate::http::traces::Tracer;
use crate::http::webhooks::managing::WebhookFront;
use announcing::announce;
use bounds::{BoundArgs, one_or_more};
use console::{ConsoleArgs, Consoles};
use demo::{Demo, load_samples};
use descriptors::{cannot_start, room_for_connections};
use keys::{KeyArgs, KeysFrom};
use listening::{cannot_listen, listen};
use logging::{LogArgs, Logs};
use receivers::ReceiverArgs;
use signals::{Starting, keep_certificate_fresh, listen_to_signals};
use stopping::stopped;
use webhooks::WebhookArgs;

/// Arguments of `carebook serve`.
#[derive(Args)]
#[command(after_help = help::AFTER_HELP)]
pub struct ServeArgs {
    #[command(flatten)]
    pub(super) settings: SettingsArgs,
    /// The data directory; created when it does not exist.
    #[arg(long, value_name = "DIR", required_unless_present = "demo")]
    data: Option<PathBuf>,
    /// Where to listen; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// A second address, for the routes that need no token (the finalization of charges, and
    /// /metrics), to keep them internal; without it they are on --listen. Without TLS.
    #[arg(long, value_name = "ADDR")]
    internal_listen: Option<SocketAddr>,
    /// Serves the routes that need no token to everyone who can reach --listen, even beyond the
    /// loopback: they can finalize charges. --demo-public implies it.
    #[arg(long, conflicts_with = "internal_listen")]
    internal_public: bool,
    #[command(flatten)]
    receivers: ReceiverArgs,
    #[command(flatten)]
    nats: NatsArgs,
    #[command(flatten)]
    journal: JournalArgs,
    #[command(flatten)]
    keys: KeyArgs,
    /// A demonstration with everything embedded: a directory of its own, its own signing key,
    /// sample facts of every kind, a token of each kind of actor.
    #[arg(long, conflicts_with = "jwks")]
    demo: bool,
    /// Lets --demo listen beyond this machine: anyone who sees its output can act as any actor.
    #[arg(long, requires = "demo", conflicts_with = "jwks")]
    demo_public: bool,
    /// Lets --demo use a directory that was created without it, and put sample facts into it.
    #[arg(long, requires = "demo", conflicts_with = "jwks")]
    demo_over_existing: bool,
    /// The certificate chain for TLS, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key for TLS, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// An origin, scheme://HOST[:PORT], whose pages may call the service from a browser; may be
    /// repeated. On --internal-listen it counts only for the finalization of charges over the
    /// loopback.
    #[arg(long, value_name = "ORIGIN")]
    cors_origin: Vec<Origin>,
    /// Lanes: runtimes with a thread each; by default one for each processor.
    #[arg(long, value_name = "N", value_parser = one_or_more())]
    runtimes: Option<usize>,
    /// Does not pin lanes to processors. By default each lane is pinned to one when there are as
    /// many lanes as processors. For a machine that is shared with other busy programs.
    #[arg(long)]
    unbound: bool,
    #[command(flatten)]
    bounds: BoundArgs,
    /// Free bytes on the disk below which commands are answered 503; reads go on.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    reserve_bytes: u64,
    /// Bytes of records, before they are packed, after which a snapshot is taken; those of the last
    /// snapshot if it has more.
    #[arg(long, value_name = "BYTES", default_value_t = CheckpointPolicy::default().log_bytes)]
    snapshot_log_bytes: u64,
    /// How long after the last snapshot the next one is taken, when anything was committed since.
    #[arg(long, value_name = "DURATION", default_value = "1h",
        value_parser = humantime::parse_duration)]
    snapshot_interval: Duration,
    /// How long idempotency keys are kept, such as 30d; for ever by default. They are forgotten
    /// when a snapshot is taken, so up to a snapshot's interval later. Then the identifier of a
    /// charge that another one has followed finalizes again.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration_min_1s)]
    idempotency_retention: Option<Duration>,
    /// How old records are (by the time that servers ran) when the log removes them, once snapshots
    /// cover them.
    #[arg(long, value_name = "DURATION", default_value = "7d",
        value_parser = humantime::parse_duration)]
    log_retention: Duration,
    /// Bytes of the log beyond which its oldest records are removed, however young.
    #[arg(long, value_name = "BYTES", default_value_t = LogRetention::default().bytes)]
    log_retention_bytes: u64,
    /// How old records are when the log removes them although a delivery still needs them.
    #[arg(long, value_name = "DURATION", default_value = "30d",
        value_parser = humantime::parse_duration)]
    log_kept_for_delivery: Duration,
    /// Bytes that the log keeps beyond its retention for deliveries that still need them.
    #[arg(long, value_name = "BYTES", default_value_t = LogRetention::default().delivery_bytes)]
    log_kept_for_delivery_bytes: u64,
    /// Where segments that the log no longer keeps are moved; by default they are deleted.
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// The file in which `carebook backup --status` records backups; the metrics report it.
    #[arg(long, value_name = "FILE")]
    backup_status: Option<PathBuf>,
    #[command(flatten)]
    webhooks: WebhookArgs,
    #[command(flatten)]
    console: ConsoleArgs,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    logs: LogArgs,
    #[command(flatten)]
    traces: TraceArgs,
}

impl ServeArgs {
    /// Serves.
    ///
    /// # Errors
    /// When it cannot start, or its log fails.
    pub fn run(self) -> Result<(), Failure> {
        if self.settings.only_checks() {
            return self.check();
        }
        let logs = self.logs.start();
        self.settings.log();
        self.check_flags()?;
        let trusted = self.trust.config()?;
        let traces = self.traces.start(&trusted)?;
        let receivers = self.receivers.count();
        let room = room_for_connections(self.lanes(), self.internal_listen.is_some(), receivers);
        let tracer = traces.tracer.as_ref();
        let receivers = self.receivers.named(&trusted, room.messages, tracer)?;
        let keys_from = match self.demo {
            true => KeysFrom::Demo,
            false => self.keys.place(&trusted)?,
        };
        let starting = Starting::watched().map_err(Failure::from_error)?;
        let demo = match self.demo {
            true => Some(
                Demo::prepare(self.data.as_deref(), self.demo_over_existing)
                    .map_err(Failure::other)?,
            ),
            false => None,
        };
        let data = self.directory(demo.as_ref())?;
        let tls = self.tls()?;
        let nats = self.nats.target(&trusted)?;
        // A provider may take long to answer, so everything that can fail at once was checked before.
        manager::status("waiting for the keys of tokens");
        let (verifier, age) = self.keys.verifier(keys_from, demo.as_ref())?;
        manager::status("reading the log");
        let (engine, node) = self.engine(&data, nats.is_some(), &trusted)?;
        engine.deliver_to(receivers, self.receivers.bounds(room.messages));
        if demo.is_some() {
            load_samples(&engine).map_err(Failure::other)?;
        }
        let listener = self.bind()?;
        let address = listener.local_addr().map_err(Failure::from_error)?;
        let (webhooks, told_to_stop, stop) =
            self.webhooks
                .start(&engine, &data, (trusted, room.webhooks), tracer.cloned())?;
        let upkeep = MetricSources {
            journal: node.as_ref().map(|node| Arc::clone(node.link())),
            ..self.upkeep(tls.as_ref(), &logs, tracer)?
        };
        let consoles = self.consoles(demo.as_ref())?;
        let (service, internal, inside) =
            self.services(&engine, &verifier, (&webhooks, &upkeep, &consoles))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let server = Server {
            service,
            internal,
            processors: (!self.unbound)
                .then(|| Processors::one_each(engine.lanes().count()))
                .flatten(),
            lanes: engine.lanes(),
            tls,
            limits: self.bounds.front(room.clients),
        };
        let told = told_to_stop.subscribe();
        listen_to_signals(&engine, age, told_to_stop).map_err(Failure::from_error)?;
        let published = nats.map(|to| to.publish(&engine, &traces)).transpose()?;
        drop(starting);
        let base = format!("{scheme}://{address}");
        let terms = self.journal.terms(&base, webhooks.key.fingerprint());
        let running = node
            .map(|node| node.start(&engine, terms, &data))
            .transpose()?;
        let started = server.start(stop);
        let server = started.map_err(|error| cannot_start(engine.lanes().count(), &error))?;
        announce(&engine, told, &base, (inside, &consoles), demo.as_ref())?;
        server.run(listener).map_err(Failure::from_error)?;
        stopped(&engine, published, running)
    }

    /// Opens the engine on the data directory, and on the journal if there is one, and starts the maintenance of its
    /// log.
    #[allow(clippy::type_complexity)]
    fn engine(
        &self,
        data: &Path,
        publishes: bool,
        trusted: &ClientConfig,
    ) -> Result<(Arc<Engine>, Option<Node>), Failure> {
        let (engine, report, node) = match self.journal.place.is_given() {
            true => {
                let (engine, report, node) = self.journal.open(data, self.opening(), trusted)?;
                (engine, report, Some(node))
            }
            false => {
                expect_no_journal(data)?;
                let (engine, report) = open(data, self.opening(), end_the_process())?;
                (engine, report, None)
            }
        };
        log_recovery(data, &report);
        let engine = Arc::new(engine);
        engine.checkpoint_by(self.checkpoint_policy()?);
        if publishes {
            engine.begin_to_publish();
        }
        engine.start_checkpointer().map_err(Failure::from_error)?;
        Ok((engine, node))
    }

    fn checkpoint_policy(&self) -> Result<CheckpointPolicy, Failure> {
        let archive = self.archive.as_deref().map(new_directory).transpose()?;
        Ok(CheckpointPolicy {
            log_bytes: self.snapshot_log_bytes,
            interval: self.snapshot_interval,
            retention: self.idempotency_retention,
            log: LogRetention {
                age: self.log_retention,
                bytes: self.log_retention_bytes,
                delivery_age: self.log_kept_for_delivery,
                delivery_bytes: self.log_kept_for_delivery_bytes,
            },
            archive,
            ..CheckpointPolicy::default()
        })
    }

    fn lanes(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.runtimes.unwrap_or(processors).max(1)
    }

    /// Returns the data directory.
    fn directory(&self, demo: Option<&Demo>) -> Result<PathBuf, Failure> {
        let named = demo.map(Demo::data).or(self.data.as_deref());
        named
            .map(Path::to_owned)
            .ok_or_else(|| Failure::other("--data is required"))
    }

    fn opening(&self) -> Opening {
        Opening {
            lanes: self.lanes(),
            limits: self.bounds.engine(),
            reserve_bytes: self.reserve_bytes,
            create: true,
        }
    }

    /// Creates the service, and the internal service with its address.
    #[allow(clippy::type_complexity)]
    fn services(
        &self,
        engine: &Arc<Engine>,
        verifier: &Arc<TokenVerifier>,
        (webhooks, upkeep, consoles): (&WebhookFront, &MetricSources, &Consoles),
    ) -> Result<(Arc<Service>, Option<Internal>, Option<SocketAddr>), Failure> {
        let cors = Cors::of(self.cors_origin.clone());
        let of_both = |service: Service| {
            service
                .with_webhooks(webhooks.clone())
                .with_upkeep(upkeep.clone())
        };
        let Some(inside) = self.internal_listen else {
            let all = Service::new(Arc::clone(engine), Arc::clone(verifier));
            let all = of_both(all).with_cors(cors);
            let all = all.with_console(consoles.public.clone());
            return Ok((Arc::new(all), None, None));
        };
        let listener = listen(inside).map_err(|error| cannot_listen(inside, &error))?;
        let address = listener.local_addr().map_err(Failure::from_error)?;
        let inside = consoles.offer_inside();
        let (public, internal) = Service::in_two(engine, verifier, inside);
        let internal = Internal {
            listener,
            service: Arc::new(
                of_both(internal)
                    .with_cors(cors.clone().map(Cors::untold))
                    .with_console(consoles.internal.clone()),
            ),
        };
        let public = of_both(public).with_cors(cors);
        let public = Arc::new(public.with_console(consoles.public.clone()));
        Ok((public, Some(internal), Some(address)))
    }

    /// Returns the sources of metrics beside the engine and its front; starts the threads that update them.
    fn upkeep(
        &self,
        tls: Option<&Arc<Tls>>,
        logs: &Logs,
        tracer: Option<&Arc<Tracer>>,
    ) -> Result<MetricSources, Failure> {
        if let Some(tls) = tls {
            keep_certificate_fresh(Arc::clone(tls)).map_err(Failure::from_error)?;
        }
        let backups = self.backup_status.as_deref().map(backup_status::watched);
        Ok(MetricSources {
            tls: tls.cloned(),
            backups: backups.transpose().map_err(Failure::from_error)?,
            access_log: logs.access.clone(),
            log_lost: Some(logs.lost.clone()),
            tracer: tracer.cloned(),
            journal: None,
        })
    }

    /// Returns the console, with the retention settings that it shows.
    fn consoles(&self, demo: Option<&Demo>) -> Result<Consoles, Failure> {
        let kept = serde_json::json!({
            "logSeconds": self.log_retention.as_secs(),
            "logBytes": self.log_retention_bytes,
            "logForDeliverySeconds": self.log_kept_for_delivery.as_secs(),
            "logForDeliveryBytes": self.log_kept_for_delivery_bytes,
            "idempotencyKeysSeconds": self.idempotency_retention.map(|kept| kept.as_secs()),
            "snapshotIntervalSeconds": self.snapshot_interval.as_secs(),
            "snapshotLogBytes": self.snapshot_log_bytes,
            "isArchived": self.archive.is_some(),
        });
        let inside = self.internal_listen.is_some();
        self.console
            .consoles(self.keys.issuer(), demo, inside, kept)
    }

    fn bind(&self) -> Result<TcpListener, Failure> {
        let bound = listen(self.listen);
        // A demonstration uses another port if its own is taken.
        let bound = match bound {
            Err(error) if self.demo && error.kind() == std::io::ErrorKind::AddrInUse => {
                listen((self.listen.ip(), 0).into())
            }
            bound => bound,
        };
        bound.map_err(|error| cannot_listen(self.listen, &error))
    }

    fn tls(&self) -> Result<Option<Arc<Tls>>, Failure> {
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        let tls = Tls::read(cert.clone(), key.clone()).map_err(Failure::from_error)?;
        Ok(Some(Arc::new(tls)))
    }
}
