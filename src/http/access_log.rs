//! The access log: a line for each request, written by a thread of its own.
//!
//! A lane formats the line and hands it over; it never waits. At most [`LINES_MAX`] lines
//! are queued; when the output is not read, further lines are dropped, and counted.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use hyper::Method;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

use crate::base::time::Timestamp;
use crate::base::trace_context::TraceContext;

/// Maximum number of lines queued for the writer thread. A line has less than a kilobyte.
pub const LINES_MAX: usize = 8_192;

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogForm {
    /// For people.
    #[default]
    Text,
    /// A JSON object on each line.
    Json,
}

/// The access log.
pub struct AccessLog {
    form: LogForm,
    lines: NonBlocking,
    lost: ErrorCounter,
}

/// The fields of one access-log line. It holds nothing of the request's query, body or token.
pub struct AccessLine<'a> {
    /// When the request began.
    pub at: Timestamp,
    /// The request's method.
    pub method: &'a Method,
    /// The path template of the matched route; `None` if no route matched.
    pub route: Option<&'a str>,
    /// The name of the operation.
    pub operation: &'a str,
    /// The status of the response.
    pub status: u16,
    /// The error code of the problem, if the response is one.
    pub code: Option<&'a str>,
    /// Time from the request's begin to the head of its response.
    pub took: Duration,
    /// Bytes of the response's body; `None` if it is a stream.
    pub bytes: Option<u64>,
    /// The request's identifier: characters `!` to `~`.
    pub request_id: &'a str,
    /// The trace that the request belongs to.
    pub trace: Option<&'a TraceContext>,
    /// The log position that the response depends on.
    pub position: Option<&'a str>,
}

impl AccessLog {
    /// Creates a log that writes to `out` until the guard is dropped. The queued lines are written then, for a second
    /// at most.
    pub fn new(form: LogForm, out: impl io::Write + Send + 'static) -> (Self, WorkerGuard) {
        let (lines, guard) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(LINES_MAX)
            .thread_name("access-log")
            .finish(out);
        let lost = lines.error_counter();
        (Self { form, lines, lost }, guard)
    }

    /// Number of lines that were dropped.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.lost.dropped_lines()
    }

    /// Queues a line for the writer, or drops it if the queue is full.
    pub fn write(&self, line: &AccessLine<'_>) {
        let text = match self.form {
            LogForm::Text => line.text(),
            LogForm::Json => line.json(),
        };
        // The result is ignored: a dropped line is counted.
        let _ = self.lines.clone().write_all(text.as_bytes());
    }
}

/// Returns the name of a known method, and a fixed word for any other, whose name the client may have chosen freely.
#[must_use]
pub fn method_word(method: &Method) -> &str {
    const KNOWN: [Method; 8] = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
    ];
    match KNOWN.contains(method) {
        true => method.as_str(),
        false => "_OTHER",
    }
}

impl AccessLine<'_> {
    fn millis(&self) -> f64 {
        let micros = u32::try_from(self.took.as_micros()).unwrap_or(u32::MAX);
        f64::from(micros) / 1_000.0
    }

    fn text(&self) -> String {
        let mut text = String::with_capacity(384);
        let number = |number: Option<u64>| number.map_or_else(dash, |number| number.to_string());
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{}  INFO carebook::access: request method={} route={} operation={} status={} code={} \
             duration_ms={:.3} bytes={} request_id={} trace_id={} position={}",
            self.at,
            method_word(self.method),
            self.route.unwrap_or("-"),
            self.operation,
            self.status,
            self.code.unwrap_or("-"),
            self.millis(),
            number(self.bytes),
            self.request_id,
            self.trace.map_or_else(dash, TraceContext::trace),
            self.position.unwrap_or("-"),
        );
        text
    }

    fn json(&self) -> String {
        let mut text = String::with_capacity(512);
        let quoted = |said: Option<&str>| match said {
            Some(said) => serde_json::Value::from(said).to_string(),
            None => "null".to_owned(),
        };
        let null = || "null".to_owned();
        let trace = self.trace.map(TraceContext::trace);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{{\"timestamp\":\"{}\",\"level\":\"INFO\",\"target\":\"carebook::access\",\
             \"message\":\"request\",\"method\":\"{}\",\"route\":{},\"operation\":\"{}\",\
             \"status\":{},\"code\":{},\"duration_ms\":{:.3},\"bytes\":{},\"request_id\":{},\
             \"trace_id\":{},\"position\":{}}}",
            self.at,
            method_word(self.method),
            quoted(self.route),
            self.operation,
            self.status,
            quoted(self.code),
            self.millis(),
            self.bytes.map_or_else(null, |bytes| bytes.to_string()),
            quoted(Some(self.request_id)),
            quoted(trace.as_deref()),
            self.position.unwrap_or("null"),
        );
        text
    }
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn line<'a>(request_id: &'a str, method: &'a Method) -> AccessLine<'a> {
        AccessLine {
            at: Timestamp::from_millis(0),
            method,
            route: Some("/a/{b}"),
            operation: "read_a",
            status: 404,
            code: Some("not_found"),
            took: Duration::from_micros(1_234),
            bytes: Some(12),
            request_id,
            trace: None,
            position: Some("7"),
        }
    }

    #[test]
    fn client_supplied_values_stay_within_their_quotes() {
        let odd = Method::from_bytes(b"ODD").unwrap();
        let id = "a\"b\\c,{}";
        let json: serde_json::Value = serde_json::from_str(&line(id, &odd).json()).unwrap();
        assert_eq!(
            (&json["request_id"], &json["method"]),
            (&id.into(), &"_OTHER".into())
        );
        assert_eq!(json["position"], 7);
        assert_eq!(json["duration_ms"], 1.234);
        let text = line(id, &Method::GET).text();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(" method=GET route=/a/{b} operation=read_a status=404 "));
    }

    /// A writer that accepts nothing until the test is over.
    struct Stuck(mpsc::Receiver<()>);

    impl io::Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Blocks until the test is over.
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_blocked_log_output_blocks_nobody_and_lost_lines_are_counted() {
        let (end, stuck) = mpsc::channel();
        let (log, guard) = AccessLog::new(LogForm::Text, Stuck(stuck));
        for _ in 0..LINES_MAX + 100 {
            log.write(&line("r", &Method::GET));
        }
        // The writer thread may hold one line.
        assert!((99..=100).contains(&log.lost()), "{}", log.lost());
        drop(end);
        drop(guard);
    }
}
