//! The connection to the servers, and the requests to them.
//!
//! The connection has a thread with a runtime of its own. Threads that may block use [`Connection::block`].

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::{self, context::Context};
use async_nats::{
    Client, ConnectOptions, HeaderMap, Request, RequestError, RequestErrorKind, ServerAddr,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::error::StreamError;
use super::health::Health;
use super::message::NUMBER_MAX;
use super::settings::{Names, weaker_beside};

/// Timeout of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Total timeout of a request with retries, where nothing is urgent.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pause after a failed attempt.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval of pings to a silent server.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// Longest pause after a failed attempt to connect.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// The servers' data about the stream.
#[derive(Clone, Debug, Default)]
pub struct StreamInfo {
    /// Settings of the stream.
    pub config: Value,
    /// First sequence in the stream; 0 where it never had a message.
    pub first: u64,
    /// Last sequence that the stream assigned.
    pub last: u64,
    /// Number of messages.
    pub messages: u64,
    /// Total size of the messages, in bytes.
    pub bytes: u64,
    /// Maximum total size, in bytes.
    pub bytes_max: u64,
    /// Name of the server that leads the stream; empty where there is only one server.
    pub leader: String,
    /// Names of the other servers, each with whether it has all that is committed.
    pub followers: Vec<(String, bool)>,
}

/// Reason why a request has no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The servers refused the request, with this code.
    Refused {
        status: u64,
        code: u64,
        description: String,
    },
    /// There was no answer.
    Silent(String),
}

impl Unanswered {
    fn of(error: &Value) -> Self {
        Self::Refused {
            status: error["code"].as_u64().unwrap_or(0),
            code: error["err_code"].as_u64().unwrap_or(0),
            description: error["description"].as_str().unwrap_or_default().to_owned(),
        }
    }

    /// Whether a retry may soon succeed.
    fn is_passing(&self) -> bool {
        match self {
            Self::Refused { status, .. } => *status >= 500,
            Self::Silent(_) => true,
        }
    }
}

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused {
                code, description, ..
            } => write!(f, "{description} (error {code})"),
            Self::Silent(why) => f.write_str(why),
        }
    }
}

/// A connection to the servers, for the journal of one name.
pub struct Connection {
    names: Names,
    client: Client,
    context: Context,
    handle: Handle,
    health: Arc<Health>,
    /// Ends the runtime when it is dropped.
    _running: oneshot::Sender<()>,
}

impl Connection {
    /// Connects to the servers.
    ///
    /// # Errors
    /// When no server is reached in time, or none admits this client.
    pub fn open(
        servers: Vec<ServerAddr>,
        options: ConnectOptions,
        names: Names,
    ) -> Result<Arc<Self>, StreamError> {
        let cannot = |error: std::io::Error| StreamError::Unreachable {
            what: error.to_string(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(cannot)?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("journal-link".to_owned());
        let spawned = thread.spawn(move || {
            let _ = runtime.block_on(ended);
            runtime.shutdown_background();
        });
        spawned.map_err(cannot)?;
        let health = Arc::new(Health::new());
        let heard = Arc::clone(&health);
        let options = options
            .name("carebook journal")
            .retry_on_initial_connect()
            .ping_interval(PING_INTERVAL)
            .connection_timeout(ANSWER_TIMEOUT)
            .reconnect_delay_callback(|attempts| {
                let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
                (Duration::from_millis(20) * attempts.min(100)).min(RECONNECT_PAUSE_MAX)
            })
            .event_callback(move |event| {
                heard.hear(&event);
                std::future::ready(())
            });
        let connected = handle.block_on(options.connect(servers));
        let client = connected.map_err(|error| StreamError::Unreachable {
            what: error.to_string(),
        })?;
        let context = {
            // Creating the context starts a task, which needs the runtime.
            let _runtime = handle.enter();
            jetstream::new(client.clone())
        };
        let connection = Arc::new(Self {
            names,
            client,
            context,
            handle,
            health,
            _running: running,
        });
        connection.block(connection.wait_until_up(PATIENCE))?;
        Ok(connection)
    }

    /// Returns the names of the journal's stream and buckets.
    #[must_use]
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the library's context, for all other requests.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the connection's runtime.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns the maximum bytes of a message with its headers, as the connected server says.
    #[must_use]
    pub fn payload_max(&self) -> usize {
        self.client.max_payload()
    }

    /// Blocks the present thread until work on the connection's runtime is done.
    pub fn block<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    /// Whether a server is connected.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.health.is_up() && self.client.connection_state() == State::Connected
    }

    /// Returns the last error.
    pub(super) fn fault(&self) -> String {
        self.health.fault()
    }

    /// Returns how often the connection was lost.
    pub(super) fn losses(&self) -> u64 {
        self.health.losses()
    }

    /// Waits until a server is connected.
    pub(super) async fn wait_until_up(&self, within: Duration) -> Result<(), StreamError> {
        let mut is_up = self.health.changes();
        let came = timeout(within, is_up.wait_for(|is_up| *is_up)).await;
        match came {
            Ok(Ok(_)) => Ok(()),
            _ => Err(StreamError::Unreachable { what: self.fault() }),
        }
    }

    /// Sends a request once, and waits for the answer. Without a connection, nothing is sent, since the library would
    /// keep the request and send it later.
    pub(super) async fn ask_once(
        &self,
        subject: &str,
        headers: Option<HeaderMap>,
        payload: Bytes,
    ) -> Result<Bytes, Unanswered> {
        if !self.is_up() {
            return Err(Unanswered::Silent(self.fault()));
        }
        let mut request = Request::new()
            .payload(payload)
            .timeout(Some(ANSWER_TIMEOUT));
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        let mut is_up = self.health.changes();
        let asked = self.client.send_request(subject.to_owned(), request);
        let said = |error: &RequestError| match error.kind() {
            RequestErrorKind::NoResponders => {
                "no server answers: there may be no leader at the moment".to_owned()
            }
            RequestErrorKind::TimedOut => format!("no answer within {ANSWER_TIMEOUT:?}"),
            _ => error.to_string(),
        };
        tokio::select! {
            biased;
            answered = asked => answered
                .map(|message| message.payload)
                .map_err(|error| Unanswered::Silent(said(&error))),
            _ = is_up.wait_for(|is_up| !is_up) => Err(Unanswered::Silent(self.fault())),
        }
    }

    /// Sends a request to the servers' interface, once.
    async fn api_once(&self, subject: &str, body: &Value) -> Result<Value, Unanswered> {
        let subject = format!("$JS.API.{subject}");
        let answer = self
            .ask_once(&subject, None, body.to_string().into())
            .await?;
        let answer: Value = serde_json::from_slice(&answer)
            .map_err(|error| Unanswered::Silent(format!("an answer is no JSON: {error}")))?;
        match &answer["error"] {
            Value::Null if has_no_leader(&answer["cluster"]) => Err(Unanswered::Silent(
                "the stream has no leader: a majority of its servers is unavailable".to_owned(),
            )),
            Value::Null => Ok(answer),
            error => Err(Unanswered::of(error)),
        }
    }

    /// Sends a request to the servers' interface, with retries while they may help.
    pub(super) async fn api(&self, subject: &str, body: &Value) -> Result<Value, Unanswered> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.api_once(subject, body).await {
                Err(error) if error.is_passing() && Instant::now() < until => sleep(PAUSE).await,
                answered => return answered,
            }
        }
    }

    fn failed(&self, what: &str, error: Unanswered) -> StreamError {
        match error {
            Unanswered::Refused { code: 10059, .. } => StreamError::Missing {
                stream: self.names.stream.clone(),
            },
            Unanswered::Refused { .. } => StreamError::Refused {
                what: format!("the servers refuse to {what}: {error}"),
            },
            Unanswered::Silent(why) => StreamError::Unreachable { what: why },
        }
    }

    /// Returns the servers' data about the stream.
    ///
    /// # Errors
    /// When there is no stream, or no answer.
    pub async fn info(&self) -> Result<StreamInfo, StreamError> {
        let info = self.api(&self.info_subject(), &json!({})).await;
        self.parse_info(info)
    }

    /// Returns the servers' data about the stream, requested once.
    ///
    /// # Errors
    /// When there is no stream, or no answer.
    pub async fn info_now(&self) -> Result<StreamInfo, StreamError> {
        let info = self.api_once(&self.info_subject(), &json!({})).await;
        self.parse_info(info)
    }

    /// Checks that this stream, which stores data beside the journal, is stored in files and in at least `replicas`
    /// copies, and that the limits of the lease's bucket are as required.
    ///
    /// # Errors
    /// [`StreamError::Weak`] when it is not; another error when the servers do not answer.
    pub(super) async fn keeps(&self, stream: &str, replicas: u64) -> Result<(), StreamError> {
        let info = self.api(&format!("STREAM.INFO.{stream}"), &json!({})).await;
        let info =
            info.map_err(|error| self.failed("describe a stream beside the journal", error))?;
        let faults = weaker_beside(&info["config"], &self.names, replicas);
        match faults.is_empty() {
            true => Ok(()),
            false => Err(StreamError::Weak {
                stream: stream.to_owned(),
                faults,
            }),
        }
    }

    /// Returns each setting of the existing buckets beside the journal that could lose their content, or
    /// prevent a takeover. Blocks.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub fn weaker_beside(&self, replicas: u64) -> Result<Vec<String>, StreamError> {
        let Names {
            bucket, snapshots, ..
        } = self.names();
        let mut all = Vec::new();
        for stream in [
            format!("KV_{bucket}"),
            format!("KV_{snapshots}"),
            format!("OBJ_{snapshots}"),
        ] {
            match self.block(self.keeps(&stream, replicas)) {
                Err(StreamError::Weak { stream, faults }) => {
                    let faults = faults.into_iter();
                    all.extend(faults.map(|fault| format!("{fault} in {stream}")));
                }
                Err(StreamError::Missing { .. }) => {}
                kept => kept?,
            }
        }
        Ok(all)
    }

    fn info_subject(&self) -> String {
        format!("STREAM.INFO.{}", self.names.stream)
    }

    fn parse_info(&self, info: Result<Value, Unanswered>) -> Result<StreamInfo, StreamError> {
        let info = info.map_err(|error| self.failed("describe the stream", error))?;
        let (config, state, cluster) = (&info["config"], &info["state"], &info["cluster"]);
        let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
        let followers = cluster["replicas"].as_array().into_iter().flatten();
        let (first, last) = (number(state, "first_seq"), number(state, "last_seq"));
        if first.max(last) > NUMBER_MAX {
            let what = format!(
                "the servers report impossible sequences for the stream: {first} to {last}"
            );
            return Err(StreamError::Refused { what });
        }
        Ok(StreamInfo {
            config: config.clone(),
            first,
            last,
            messages: number(state, "messages"),
            bytes: number(state, "bytes"),
            bytes_max: number(config, "max_bytes"),
            leader: cluster["leader"].as_str().unwrap_or_default().to_owned(),
            followers: followers
                .map(|server| {
                    let is_current = server["current"].as_bool().unwrap_or(false);
                    let name = server["name"].as_str().unwrap_or_default();
                    (name.to_owned(), is_current)
                })
                .collect(),
        })
    }

    /// Creates the stream with these settings, or finds it with the same ones.
    ///
    /// # Errors
    /// When the stream is not created.
    pub async fn create(&self, config: &Value) -> Result<(), StreamError> {
        let subject = format!("STREAM.CREATE.{}", self.names.stream);
        let made = self.api(&subject, config).await;
        made.map(drop)
            .map_err(|error| self.failed("make the stream", error))
    }

    /// Changes the settings of the stream.
    ///
    /// # Errors
    /// When the servers refuse the settings.
    pub async fn update(&self, config: &Value) -> Result<(), StreamError> {
        let subject = format!("STREAM.UPDATE.{}", self.names.stream);
        let changed = self.api(&subject, config).await;
        changed
            .map(drop)
            .map_err(|error| self.failed("change the stream's settings", error))
    }

    /// Returns the bytes of the message at a sequence; `None` when there is none.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn message(&self, sequence: u64) -> Result<Option<Bytes>, StreamError> {
        let subject = format!("STREAM.MSG.GET.{}", self.names.stream);
        let found = self.stored(&subject, &json!({"seq": sequence})).await?;
        Ok(found.map(|(_, bytes)| bytes))
    }

    /// Returns the message as [`Connection::message`] does, requested once.
    ///
    /// # Errors
    /// When there is no answer.
    pub(super) async fn message_now(&self, sequence: u64) -> Result<Option<Bytes>, StreamError> {
        let subject = format!("STREAM.MSG.GET.{}", self.names.stream);
        let found = self.api_once(&subject, &json!({"seq": sequence})).await;
        Ok(self.shown(found)?.map(|(_, bytes)| bytes))
    }

    /// Returns the bytes of the message at a sequence that must have one, since another follows it. Blocks.
    ///
    /// # Errors
    /// [`StreamError::Gap`] when there is none; the errors of [`Connection::message`].
    pub fn message_within(&self, sequence: u64) -> Result<Bytes, StreamError> {
        self.block(self.message(sequence))?.ok_or(StreamError::Gap {
            missing: sequence,
            sequence: sequence + 1,
        })
    }

    /// Returns the message of a stream that `body` requests, from the stream's leader: its sequence and its bytes;
    /// `None` when there is none.
    pub(super) async fn stored(
        &self,
        subject: &str,
        body: &Value,
    ) -> Result<Option<(u64, Bytes)>, StreamError> {
        let found = self.api(subject, body).await;
        self.shown(found)
    }

    /// Extracts the message from an answer.
    fn shown(
        &self,
        answer: Result<Value, Unanswered>,
    ) -> Result<Option<(u64, Bytes)>, StreamError> {
        let found = match answer {
            Ok(found) => found,
            Err(Unanswered::Refused {
                status: 404, code, ..
            }) if code != 10059 => return Ok(None),
            Err(error) => return Err(self.failed("show a message", error)),
        };
        let sequence = found["message"]["seq"].as_u64().unwrap_or(0);
        let data = found["message"]["data"].as_str().unwrap_or_default();
        let bytes = BASE64_STANDARD.decode(data);
        bytes
            .map(|bytes| Some((sequence, bytes.into())))
            .map_err(|error| StreamError::Broken {
                sequence,
                what: error.to_string(),
            })
    }
}

/// Whether the answer about a replicated stream is from a server without a leader, which cannot know the present
/// content of the stream.
fn has_no_leader(cluster: &Value) -> bool {
    let has_copies = cluster["replicas"]
        .as_array()
        .is_some_and(|copies| !copies.is_empty());
    has_copies && cluster["leader"].as_str().unwrap_or_default().is_empty()
}
