//! `carebook events`: reads the events of a running server, and follows new ones.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use form_urlencoded::Serializer;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderName};
use hyper::{Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use super::client::{Access, BoxError, Client, Connection, ServerUrl, no_body, whole_body};
use crate::cli::exit::Failure;
use crate::cli::output::Output;
use crate::cli::stderr::print_to_stderr;
use crate::cli::table::{Column, Growing, left, time, whole};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Number of events on a page.
const PAGE: usize = 1_000;
/// Timeout for a silent stream. A working stream sends something every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Bounds of the backoff between attempts to reach the server again.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Maximum length of a line of a stream, in bytes.
const LINE_BYTES_MAX: usize = 4 << 20;
const COLUMNS: &[Column] = &[
    whole("id"),
    time("time"),
    left("type"),
    left("subject"),
    left("actor"),
];

/// Arguments of `carebook events`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook events --url http://127.0.0.1:8080 --token-file token
  carebook events --url http://127.0.0.1:8080 --token-file token --follow
  carebook events --url https://care.example.com --token-file token \\
      --after 4711-0 --type 'carebook.branch.*' \\
      --type carebook.organization.branch-added --json
  CAREBOOK_TOKEN=$TOKEN carebook events --url http://127.0.0.1:8080 \\
      --subject admin/branches/0199e1f2-7c33-7d6a-8f8e-0242ac120002

The token needs the permission events:read. With --follow it ends at SIGINT, at SIGTERM and when \
its output is closed; after a lost connection, and after 429 or 5xx, it reconnects, and continues \
after the last event. Where the first request has no answer it ends, with --after or without: a \
unit that runs it is to start it again (Restart=on-failure).

Exit codes:
  0  all events are printed, or a signal ended it
  1  failed: the server cannot be reached at the beginning, or rejects the
     request (its response says why), or its events are of another log than
     before (it was restored: begin without --after)
  2  the arguments are wrong")]
pub struct EventsArgs {
    /// A running server, http://HOST:PORT or https://HOST:PORT.
    #[arg(long, value_name = "URL")]
    url: ServerUrl,
    #[command(flatten)]
    access: Access,
    /// Begins after this event; without it, with the earliest that is kept.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Only events of this type, or, with * as the last character, of those that begin so. May be
    /// given more than once.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events of this subject.
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Goes on with what comes.
    #[arg(long)]
    follow: bool,
    /// Prints each event as a JSON object on a line of its own.
    #[arg(long)]
    json: bool,
}

impl EventsArgs {
    /// Reads the events, and follows new ones if requested.
    ///
    /// # Errors
    /// When the server cannot be reached, or refuses.
    pub fn run(self) -> Result<(), Failure> {
        let client = self.access.client(&self.url)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(Failure::from_error)?;
        let ended = runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::from_error)?;
            let mut terminate = signal(SignalKind::terminate()).map_err(Failure::from_error)?;
            let mut reading = Reading::new(&client, &self);
            tokio::select! {
                ended = reading.run() => ended,
                _ = interrupt.recv() => Ok(()),
                _ = terminate.recv() => Ok(()),
            }
        });
        runtime.shutdown_background();
        ended
    }
}

/// The used fields of a page of events.
#[derive(Deserialize)]
struct Page {
    events: Vec<Box<RawValue>>,
    next: String,
    end: bool,
}

/// The field of an event that names its log.
#[derive(Deserialize)]
struct Origin {
    source: Option<String>,
}

/// The used fields of a problem.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Problem {
    field_errors: Vec<FieldError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FieldError {
    field_path: String,
    code: String,
}

/// Whether a problem says that the event after which was asked comes after the end of the log.
fn is_beyond_the_end(problem: &[u8]) -> bool {
    let is_it =
        |fault: &FieldError| fault.field_path == "query.after" && fault.code == "out_of_range";
    serde_json::from_slice(problem)
        .is_ok_and(|problem: Problem| problem.field_errors.iter().any(is_it))
}

/// The fields of an event that are shown.
#[derive(Deserialize)]
struct Shown {
    id: String,
    time: String,
    #[serde(rename = "type")]
    event_type: String,
    subject: String,
    data: ShownData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShownData {
    actor_kind: Option<String>,
    actor_profile_id: Option<String>,
}

impl Shown {
    fn row(self) -> Vec<String> {
        let ShownData {
            actor_kind,
            actor_profile_id,
        } = self.data;
        let actor = match (actor_kind, actor_profile_id) {
            (Some(kind), Some(profile)) => format!("{kind} {profile}"),
            (Some(kind), None) => kind,
            (None, _) => "-".to_owned(),
        };
        vec![self.id, self.time, self.event_type, self.subject, actor]
    }
}

/// Why reading stopped.
enum Broken {
    /// A retry is useless.
    Final(Failure),
    /// The connection, or the server, is gone; a retry may succeed.
    Lost(BoxError),
}

impl From<BoxError> for Broken {
    fn from(error: BoxError) -> Self {
        Self::Lost(error)
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Final(failure)
    }
}

struct Reading<'c> {
    client: &'c Client,
    /// Whether new events are followed.
    follows: bool,
    /// Whether the server has answered with a page; then, while following, it is tried again.
    has_begun: bool,
    /// The log of the events so far: positions of another log have no meaning in this one.
    source: Option<String>,
    filter: Vec<(&'static str, String)>,
    /// The last event that was printed.
    after: Option<String>,
    out: Output,
    /// The table; `None` for JSON.
    table: Option<Growing>,
}

impl<'c> Reading<'c> {
    fn new(client: &'c Client, arguments: &EventsArgs) -> Self {
        let types = arguments.types.iter().map(|one| ("type", one.clone()));
        let subject = arguments.subject.iter().map(|one| ("subject", one.clone()));
        Self {
            client,
            follows: arguments.follow,
            has_begun: false,
            source: None,
            filter: types.chain(subject).collect(),
            after: arguments.after.clone(),
            out: Output::new(),
            table: (!arguments.json).then(|| Growing::new(COLUMNS)),
        }
    }

    async fn run(&mut self) -> Result<(), Failure> {
        match self.read(&mut false).await {
            Ok(()) => return Ok(()),
            Err(Broken::Final(failure)) => return Err(failure),
            Err(Broken::Lost(error)) if !self.follows || !self.has_begun => {
                return Err(self.client.failure(error.as_ref()));
            }
            Err(Broken::Lost(error)) => self.lost(&error),
        }
        let mut pause = PAUSE_MIN;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            let mut was_there = false;
            match self.read(&mut was_there).await {
                Ok(()) => return Ok(()),
                Err(Broken::Final(failure)) => return Err(failure),
                Err(Broken::Lost(error)) if was_there => {
                    pause = PAUSE_MIN;
                    self.lost(&error);
                }
                Err(Broken::Lost(_)) => {}
            }
        }
    }

    fn lost(&self, error: &BoxError) {
        let url = self.client.url();
        print_to_stderr(format_args!(
            "carebook: {url}: {error}; the server is tried again"
        ));
    }

    /// Reads pages to the end, then the stream where it is followed; sets `was_there` once the server has answered.
    async fn read(&mut self, was_there: &mut bool) -> Result<(), Broken> {
        let mut connection = self.client.connect().await?;
        loop {
            let request = Request::get(self.path(Some(PAGE)));
            let answer = self.answered(&mut connection, request).await?;
            *was_there = true;
            self.has_begun = true;
            let body = read_body(answer).await.map_err(Broken::Lost)?;
            let page: Page = serde_json::from_slice(&body).map_err(|error| {
                Failure::other(format!("{}: no page of events: {error}", self.client.url()))
            })?;
            for event in &page.events {
                self.print(event.get())?;
            }
            self.flush()?;
            self.after = Some(page.next);
            if page.end {
                break;
            }
        }
        if !self.follows {
            return Ok(());
        }
        let mut request = Request::get(self.path(None)).header(ACCEPT, "text/event-stream");
        if let Some(after) = &self.after {
            request = request.header(LAST_EVENT_ID, after);
        }
        let answer = self.answered(&mut connection, request).await?;
        self.follow(answer.into_body()).await
    }

    fn path(&self, limit: Option<usize>) -> String {
        let path = "/events?".to_owned();
        let begin = path.len();
        let mut query = Serializer::for_suffix(path, begin);
        query.extend_pairs(&self.filter);
        if let Some(limit) = limit {
            query.append_pair("limit", &limit.to_string());
            if let Some(after) = &self.after {
                query.append_pair("after", after);
            }
        }
        query.finish()
    }

    /// Sends a request; returns the response if it is a success.
    async fn answered(
        &self,
        connection: &mut Connection,
        request: hyper::http::request::Builder,
    ) -> Result<Response<Incoming>, Broken> {
        let answer = timeout(SILENCE_MAX, connection.send(request, no_body()));
        let answer = answer
            .await
            .map_err(|_| Broken::Lost("no answer".into()))??;
        let status = answer.status();
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let body = read_body(answer).await.unwrap_or_default();
        if let Some(after) = self.after.as_ref().filter(|_| self.has_begun)
            && status == StatusCode::BAD_REQUEST
            && is_beyond_the_end(&body)
        {
            let other = self.of_another_log(&format!("it ends before the event {after}"));
            return Err(Broken::Final(other));
        }
        let refused = self.client.refused(status, &body);
        match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            true if self.follows && self.has_begun => Err(Broken::Lost(status.to_string().into())),
            _ => Err(Broken::Final(refused)),
        }
    }

    /// Prints the events of the stream, until it ends.
    async fn follow(&mut self, mut stream: Incoming) -> Result<(), Broken> {
        let mut lines = Lines::default();
        let mut message = EventMessage::default();
        loop {
            let frame = timeout(SILENCE_MAX, stream.frame()).await;
            let frame = frame.map_err(|_| Broken::Lost("the stream is silent".into()))?;
            let frame = frame.ok_or_else(|| Broken::Lost("the stream has ended".into()))?;
            let frame = frame.map_err(|error| Broken::Lost(error.into()))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if !lines.push(&data) {
                return Err(Failure::other("the stream has a line without an end").into());
            }
            while let Some(line) = lines.next() {
                let Some((id, data)) = message.take(&line) else {
                    continue;
                };
                if let Some(data) = data {
                    self.print(&data)?;
                }
                self.after = id.or(self.after.take());
            }
            self.flush()?;
        }
    }

    /// Fails if the server's log is another one than before.
    fn check_source(&mut self, event: &str) -> Result<(), Failure> {
        let origin: Origin = serde_json::from_str(event)
            .map_err(|error| Failure::other(format!("no event: {error}: {event}")))?;
        let Some(source) = origin.source else {
            return Ok(());
        };
        match &self.source {
            Some(before) if *before != source => {
                Err(self.of_another_log(&format!("{source}, not {before}")))
            }
            Some(_) => Ok(()),
            None => {
                self.source = Some(source);
                Ok(())
            }
        }
    }

    /// Returns the failure for a server whose log is not that of the events so far.
    fn of_another_log(&self, how: &str) -> Failure {
        Failure::other(format!(
            "{}: the server has another log than before ({how}), as after a restore; events of it may be missing: \
             begin without --after, and read anew what you keep",
            self.client.url()
        ))
    }

    fn print(&mut self, event: &str) -> Result<(), Failure> {
        self.check_source(event)?;
        let Some(table) = &mut self.table else {
            return self.out.line(event);
        };
        let shown: Shown = serde_json::from_str(event)
            .map_err(|error| Failure::other(format!("no event: {error}: {event}")))?;
        table.row(&mut self.out, shown.row())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if let Some(table) = &mut self.table {
            table.print(&mut self.out)?;
        }
        self.out.flush()
    }
}

/// Splits a stream into lines.
#[derive(Default)]
struct Lines {
    whole: VecDeque<String>,
    rest: Vec<u8>,
}

impl Lines {
    /// Takes bytes in; returns `false` if a line is too long.
    fn push(&mut self, bytes: &Bytes) -> bool {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = memchr::memchr(b'\n', &self.rest) {
            let rest = self.rest.split_off(end + 1);
            let line = std::mem::replace(&mut self.rest, rest);
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            self.whole.push_back(line.to_owned());
        }
        self.rest.len() <= LINE_BYTES_MAX
    }

    fn next(&mut self) -> Option<String> {
        self.whole.pop_front()
    }
}

/// The used fields of a message in an event stream (WHATWG HTML, 9.2.6).
#[derive(Default)]
struct EventMessage {
    id: Option<String>,
    data: Option<String>,
}

impl EventMessage {
    /// Takes a line; at the end of a message, returns its identifier and its data.
    fn take(&mut self, line: &str) -> Option<(Option<String>, Option<String>)> {
        if line.is_empty() {
            let message = std::mem::take(self);
            return Some((message.id, message.data));
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match name {
            "id" => self.id = Some(value),
            "data" => {
                self.data = Some(match self.data.take() {
                    Some(before) => format!("{before}\n{value}"),
                    None => value,
                });
            }
            _ => {}
        }
        None
    }
}

/// Returns the body of a response, with the same timeout as for the response.
async fn read_body(answer: Response<Incoming>) -> Result<Bytes, BoxError> {
    let body = timeout(SILENCE_MAX, whole_body(answer.into_body())).await;
    body.map_err(|_| "the answer breaks off")?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_told_in_lines_wherever_it_is_cut() {
        let text = ": events\n\nid: 1-0\nevent: a\ndata: {\"a\":1}\n\n: \nid: 2-0\n\nid: 3-0\r\n\
                    data: x\r\ndata:y\r\n\r\n";
        for size in 1..text.len() {
            let (mut lines, mut told) = (Lines::default(), EventMessage::default());
            let mut found = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                assert!(lines.push(&Bytes::copy_from_slice(piece)));
                while let Some(line) = lines.next() {
                    found.extend(told.take(&line));
                }
            }
            let some = |text: &str| Some(text.to_owned());
            let expected = [
                (None, None),
                (some("1-0"), some("{\"a\":1}")),
                (some("2-0"), None),
                (some("3-0"), some("x\ny")),
            ];
            assert_eq!(found, expected, "{size}");
        }
        let mut lines = Lines::default();
        assert!(!lines.push(&Bytes::from(vec![b' '; LINE_BYTES_MAX + 1])));
    }
}
