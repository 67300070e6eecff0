//! Publishes every event to a `JetStream` stream of NATS, which the operator has created.

use std::fmt;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::Context;
use async_nats::jetstream::message::PublishMessage;
use async_nats::{Client, ConnectOptions, Event as Heard, ServerAddr, jetstream};
use clap::Args;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

use super::exit::Failure;
use super::traces::Traces;
use crate::base::panics::unless_its_future_panics;
use crate::base::trace_context::TraceContext;
use crate::engine::Engine;
use crate::engine::publisher::{EventSink, Publisher, Publishing, pause};
use crate::http::small_file;
use crate::http::traces::{SpanEnd, Tracer, text};
use crate::journal::events::{Event, TYPE_PREFIX};

/// Prefix of the subjects; the event's type without its own prefix follows.
const SUBJECT_PREFIX: &str = "carebook.events.";
/// Media type of an event (`CloudEvents`' binding for NATS, structured mode).
const CONTENT_TYPE: (&str, &str) = ("content-type", "application/cloudevents+json");
/// Header with the trace context of the attempt (W3C Trace Context).
const TRACEPARENT: &str = "traceparent";
/// Timeout for an acknowledgement.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for the first connection before an event is sent.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Interval at which a silent server is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// How long the publisher may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of a file of credentials, in bytes.
const CREDENTIALS_BYTES_MAX: usize = 64 << 10;

/// The arguments of publishing.
#[derive(Args)]
pub struct NatsArgs {
    /// Publishes every event to NATS, nats://HOST[:PORT] or tls://HOST[:PORT]: to the subjects
    /// carebook.events.…, for which a JetStream stream has to exist there.
    #[arg(long, value_name = "URL")]
    nats: Option<NatsUrl>,
    /// The credentials for NATS, a file with a user's JWT and seed.
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_credentials: Option<PathBuf>,
}

/// The address of a NATS server, and the login if the URL contains one.
#[derive(Clone)]
pub struct NatsUrl {
    pub(super) address: ServerAddr,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

impl FromStr for NatsUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.starts_with("nats://") && !text.starts_with("tls://") {
            return Err("it has to begin with nats:// or tls://".to_owned());
        }
        let address: ServerAddr = text
            .parse()
            .map_err(|error: std::io::Error| error.to_string())?;
        let mut url = address.into_inner();
        if url.host_str().is_none_or(str::is_empty) {
            return Err("it names no host".to_owned());
        }
        let has_more = url.query().is_some() || url.fragment().is_some();
        if has_more || !matches!(url.path(), "" | "/") {
            return Err("it is a server's address, with nothing after the host".to_owned());
        }
        let decoded = |text: &str| {
            let text = percent_decode_str(text).decode_utf8();
            text.map(String::from)
                .map_err(|_| "its user is no text".to_owned())
        };
        let user = Some(url.username()).filter(|user| !user.is_empty());
        let user = user.map(decoded).transpose()?;
        let password = url.password().map(decoded).transpose()?;
        if user.is_none() && password.is_some() {
            return Err("it has a password, and no user".to_owned());
        }
        // The login is removed from the URL, so that the address can be shown.
        let cleared = url
            .set_username("")
            .and_then(|()| url.set_password(None))
            .map_err(|()| "it names no host".to_owned());
        cleared?;
        let address = ServerAddr::from_url(url).map_err(|error| error.to_string())?;
        Ok(Self {
            address,
            user,
            password,
        })
    }
}

impl fmt::Display for NatsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address.as_url_str())
    }
}

impl NatsArgs {
    /// Returns the server and its login, where `trusted` judges its certificate over TLS; `None` if nothing is to be
    /// published.
    ///
    /// # Errors
    /// When the credentials cannot be used.
    pub fn target(&self, trusted: &ClientConfig) -> Result<Option<Target>, Failure> {
        let Some(url) = &self.nats else {
            return Ok(None);
        };
        Ok(Some(Target {
            url: url.clone(),
            options: login(url, self.nats_credentials.as_deref(), "nats", trusted)?,
        }))
    }
}

/// Returns the options to log in at a server, as the URL of this flag says, or with this file of credentials. Over
/// TLS, `trusted` judges the server's certificate.
pub(super) fn login(
    url: &NatsUrl,
    file: Option<&Path>,
    flag: &str,
    trusted: &ClientConfig,
) -> Result<ConnectOptions, Failure> {
    let mut options = ConnectOptions::new();
    match (file, &url.user, &url.password) {
        (Some(_), Some(_), _) => {
            return Err(Failure::Arguments(format!(
                "--{flag} names a user, and --{flag}-credentials another one"
            )));
        }
        (Some(file), None, _) => {
            options = credentials(file, options).map_err(|why| {
                Failure::Arguments(format!(
                    "{} cannot be used as credentials for NATS: {why}",
                    file.display()
                ))
            })?;
        }
        (None, Some(user), Some(password)) => {
            options = options.user_and_password(user.clone(), password.clone());
        }
        (None, Some(token), None) => options = options.token(token.clone()),
        (None, None, _) => {}
    }
    Ok(options.tls_client_config(trusted.clone()))
}

fn credentials(file: &Path, options: ConnectOptions) -> std::io::Result<ConnectOptions> {
    options.credentials(&small_file::read_text(file, CREDENTIALS_BYTES_MAX)?)
}

/// A server, and the options to log in there.
pub struct Target {
    url: NatsUrl,
    options: ConnectOptions,
}

impl Target {
    /// Starts publishing, with this tracer, on a thread with a runtime of its own, without waiting for a connection.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn publish(self, engine: &Arc<Engine>, traces: &Traces) -> Result<Running, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(Failure::from_error)?;
        let (sender, ended) = channel();
        let engine = Arc::clone(engine);
        let tracer = traces.tracer.clone();
        let thread = std::thread::Builder::new().name("nats".to_owned());
        let spawned = thread.spawn(move || {
            runtime.block_on(async {
                self.run(&engine, tracer).await;
                drop::<Sender<()>>(sender);
                // Actors of resources may run on this runtime, which serves them until the process ends.
                pending::<()>().await;
            });
        });
        spawned.map_err(Failure::from_error)?;
        Ok(Running { ended })
    }

    async fn run(self, engine: &Arc<Engine>, tracer: Option<Arc<Tracer>>) {
        let Self { url, options } = self;
        // A standby publishes nothing.
        tokio::select! {
            () = engine.until_writer() => {}
            () = engine.feed().ended() => return,
        }
        let link = Arc::new(NatsStatus::default());
        let sink = match connect(&url, options, &link).await {
            Ok(sink) => Arc::new(Stream { tracer, ..sink }),
            Err(error) => {
                tracing::error!(%url, %error, "nothing is published");
                return;
            }
        };
        tracing::info!(%url, "events will be published");
        // Without this wait the first attempt would always fail.
        let is_there = link.turns(true);
        let _ = timeout(FIRST_WAIT, async {
            tokio::select! {
                () = is_there => {}
                () = engine.feed().ended() => {}
            }
        })
        .await;
        loop {
            let publisher = Publisher::new(engine, Arc::clone(&sink) as Arc<dyn EventSink>);
            let ended = unless_its_future_panics(pin!(publisher.run())).await;
            if ended.is_some() {
                return;
            }
            tracing::error!("the publisher has panicked, and begins again");
            tokio::time::sleep(pause(u32::MAX)).await;
        }
    }
}

/// A handle to the running publisher.
pub struct Running {
    ended: Receiver<()>,
}

impl Running {
    /// Waits a short time until the publisher has ended, which it does after the engine's feed.
    pub fn wait(self) {
        if self.ended.recv_timeout(END_TIMEOUT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("the publisher did not end in time");
        }
    }
}

/// The state of the connection.
struct NatsStatus {
    is_up: watch::Sender<bool>,
    /// The last error of the connection.
    fault: Mutex<String>,
}

impl Default for NatsStatus {
    fn default() -> Self {
        Self {
            is_up: watch::Sender::new(false),
            fault: Mutex::new("the server was not reached yet".to_owned()),
        }
    }
}

impl NatsStatus {
    fn hear(&self, heard: &Heard) {
        match heard {
            Heard::Connected => {
                tracing::info!("connected to NATS: events are published");
                self.is_up.send_replace(true);
            }
            Heard::Disconnected | Heard::Closed => {
                "the connection was lost".clone_into(&mut self.fault.lock());
                self.is_up.send_replace(false);
            }
            Heard::ClientError(error) => *self.fault.lock() = error.to_string(),
            Heard::ServerError(error) => *self.fault.lock() = error.to_string(),
            _ => {}
        }
    }

    /// Waits until the connection is up, or down.
    async fn turns(&self, is_up: bool) {
        let mut state = self.is_up.subscribe();
        if state.wait_for(|now| *now == is_up).await.is_err() {
            pending::<()>().await;
        }
    }
}

/// The connection to a NATS stream.
struct Stream {
    client: Client,
    context: Context,
    link: Arc<NatsStatus>,
    tracer: Option<Arc<Tracer>>,
}

async fn connect(
    url: &NatsUrl,
    options: ConnectOptions,
    link: &Arc<NatsStatus>,
) -> Result<Stream, async_nats::ConnectError> {
    let heard = Arc::clone(link);
    let client = options
        .name("carebook")
        .retry_on_initial_connect()
        .ping_interval(PING_INTERVAL)
        .reconnect_delay_callback(|attempts| match u32::try_from(attempts) {
            Ok(0 | 1) => Duration::ZERO,
            attempts => pause(attempts.unwrap_or(u32::MAX) - 1),
        })
        .event_callback(move |event| {
            heard.hear(&event);
            std::future::ready(())
        })
        .connect(url.address.clone())
        .await?;
    let mut context = jetstream::new(client.clone());
    context.set_timeout(ACKNOWLEDGEMENT_TIMEOUT);
    Ok(Stream {
        client,
        context,
        link: Arc::clone(link),
        tracer: None,
    })
}

/// Returns the subject under which events of this type are published.
fn subject(event_type: &str) -> String {
    let rest = event_type.strip_prefix(TYPE_PREFIX).unwrap_or(event_type);
    format!("{SUBJECT_PREFIX}{rest}")
}

impl Stream {
    /// Publishes an event with a trace of its own, whose `traceparent` the message carries.
    async fn traced(&self, id: String, event: &Event) -> Result<(), String> {
        let Some(tracer) = &self.tracer else {
            return self.hand_over(&id, event, None).await;
        };
        let doing = tracer.begin(None);
        let published = self.hand_over(&id, event, Some(&doing.context)).await;
        tracer.end(doing, || SpanEnd {
            name: "event publication".to_owned(),
            kind: SpanKind::Producer,
            is_error: published.is_err(),
            attributes: vec![
                text("messaging.system", "nats"),
                text("messaging.message.id", &id),
            ],
        });
        published
    }

    async fn hand_over(
        &self,
        id: &str,
        event: &Event,
        place: Option<&TraceContext>,
    ) -> Result<(), String> {
        // Checked first, because without a connection the library would queue each attempt, and send all of them
        // later.
        if self.client.connection_state() != State::Connected {
            return Err(format!("not connected: {}", self.link.fault.lock()));
        }
        let mut message = PublishMessage::build()
            .payload(event.json.clone())
            .header(NATS_MESSAGE_ID, id)
            .header(CONTENT_TYPE.0, CONTENT_TYPE.1);
        if let Some(place) = place {
            message = message.header(TRACEPARENT, place.parent().as_str());
        }
        let subject = subject(&event.event_type());
        let sent = async {
            let acknowledged = self.context.send_publish(subject, message).await?;
            acknowledged.await
        };
        tokio::select! {
            biased;
            sent = sent => sent.map(drop).map_err(|error| error.to_string()),
            () = self.link.turns(false) => Err("the connection was lost".to_owned()),
        }
    }
}

impl EventSink for Stream {
    fn publish<'a>(&'a self, id: String, event: &'a Event) -> Publishing<'a> {
        Box::pin(self.traced(id, event))
    }

    fn is_back(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            if *self.link.is_up.borrow() {
                // The fault is not in the connection, so its return does not help.
                return pending().await;
            }
            self.link.turns(true).await;
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_server_s_address_and_shows_no_password() {
        let url: NatsUrl = "nats://ann:p%40ss@nats.example:4333".parse().unwrap();
        assert_eq!(url.user.as_deref(), Some("ann"));
        assert_eq!(url.password.as_deref(), Some("p@ss"));
        assert_eq!(url.to_string(), "nats://nats.example:4333");
        let url: NatsUrl = "tls://token@[::1]".parse().unwrap();
        assert_eq!(
            (url.user.as_deref(), url.password.as_deref()),
            (Some("token"), None)
        );
        assert!(url.address.tls_required());
        for plain in ["nats://localhost", "nats://127.0.0.1:4222/"] {
            assert!(plain.parse::<NatsUrl>().is_ok(), "{plain}");
        }
        for bad in [
            "",
            "localhost:4222",
            "http://localhost",
            "ws://localhost",
            "nats://",
            "nats://localhost/stream",
            "nats://localhost?a",
            "nats://localhost:0x",
            "nats://:pass@localhost",
        ] {
            assert!(bad.parse::<NatsUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_subject_is_the_type_below_the_prefix() {
        assert_eq!(
            subject("carebook.branch.created"),
            "carebook.events.branch.created"
        );
    }
}
