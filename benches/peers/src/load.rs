//! The load generator: a closed loop over connections that are opened before the clock starts,
//! with as little work as possible beside the server's on the same machine.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Where the body of an answer is, once all of it is there; an error when it says that the command
/// failed.
pub(crate) type Whole = fn(&[u8]) -> anyhow::Result<Option<Range<usize>>>;

/// What a run measured.
#[derive(Default)]
pub(crate) struct Measured {
    elapsed: Duration,
    /// In microseconds, ascending.
    latencies: Vec<u32>,
    /// The bodies of the answers, with the numbers of the requests.
    pub(crate) answers: Vec<(usize, Vec<u8>)>,
}

struct Shared {
    requests: std::iter::Enumerate<std::vec::IntoIter<Vec<u8>>>,
    /// The number of the first request.
    first: usize,
    latencies: Vec<u32>,
    answers: Vec<(usize, Vec<u8>)>,
}

/// Sends the requests, numbered from `first`, over these connections, each of which waits for its
/// answer before it sends the next. The connections are given back.
pub(crate) async fn run<S>(
    streams: Vec<S>,
    first: usize,
    requests: Vec<Vec<u8>>,
    whole: Whole,
) -> anyhow::Result<(Measured, Vec<S>)>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let count = requests.len();
    let shared = Rc::new(RefCell::new(Shared {
        requests: requests.into_iter().enumerate(),
        first,
        latencies: Vec::with_capacity(count),
        answers: Vec::with_capacity(count),
    }));
    let started = Instant::now();
    let tasks: Vec<_> = streams
        .into_iter()
        .map(|stream| tokio::task::spawn_local(connection(stream, Rc::clone(&shared), whole)))
        .collect();
    let mut streams = Vec::new();
    for task in tasks {
        streams.push(task.await??);
    }
    let elapsed = started.elapsed();
    let mut shared = shared.borrow_mut();
    let mut latencies = std::mem::take(&mut shared.latencies);
    latencies.sort_unstable();
    let measured = Measured {
        elapsed,
        latencies,
        answers: std::mem::take(&mut shared.answers),
    };
    Ok((measured, streams))
}

async fn connection<S>(
    mut stream: S,
    shared: Rc<RefCell<Shared>>,
    whole: Whole,
) -> anyhow::Result<S>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let next = {
            let mut shared = shared.borrow_mut();
            let first = shared.first;
            shared
                .requests
                .next()
                .map(|(number, request)| (first + number, request))
        };
        let Some((number, request)) = next else {
            return Ok(stream);
        };
        let started = Instant::now();
        stream.write_all(&request).await?;
        let mut filled = 0;
        let body = loop {
            ensure!(filled < buffer.len(), "an answer is too long");
            let read = stream.read(&mut buffer[filled..]).await?;
            ensure!(read > 0, "the server closed the connection");
            filled += read;
            if let Some(body) = whole(&buffer[..filled])? {
                break body;
            }
        };
        let latency = u32::try_from(started.elapsed().as_micros())?;
        let mut shared = shared.borrow_mut();
        shared.latencies.push(latency);
        shared.answers.push((number, buffer[body].to_vec()));
    }
}

/// The body of an answer over HTTP, which must have succeeded.
pub(crate) fn http(answer: &[u8]) -> anyhow::Result<Option<Range<usize>>> {
    const NAME: &[u8] = b"content-length: ";
    let find =
        |what: &[u8], within: &[u8]| within.windows(what.len()).position(|part| part == what);
    let Some(head) = find(b"\r\n\r\n", answer) else {
        return Ok(None);
    };
    let body = head + 4;
    let at = find(NAME, &answer[..body]).context("an answer without its length")? + NAME.len();
    let length = number(&answer[at..]);
    if answer.len() < body + length {
        return Ok(None);
    }
    if !answer.starts_with(b"HTTP/1.1 20") {
        bail!("{}", String::from_utf8_lossy(answer));
    }
    Ok(Some(body..body + length))
}

/// The content of a bulk string of Redis; any other answer is an error.
pub(crate) fn resp(answer: &[u8]) -> anyhow::Result<Option<Range<usize>>> {
    let Some(line) = answer.windows(2).position(|part| part == b"\r\n") else {
        return Ok(None);
    };
    if !answer.starts_with(b"$") || answer.starts_with(b"$-") {
        bail!("{}", String::from_utf8_lossy(&answer[..line]));
    }
    let body = line + 2..line + 2 + number(&answer[1..]);
    Ok((answer.len() >= body.end + 2).then_some(body))
}

/// The number that these bytes start with.
fn number(bytes: &[u8]) -> usize {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
}

impl Measured {
    /// The latency in microseconds that this share of all answers did not exceed.
    fn percentile(&self, percent: usize) -> u32 {
        let rank = (self.latencies.len() * percent).div_ceil(100);
        let latency = self.latencies.get(rank.saturating_sub(1));
        latency.copied().unwrap_or_default()
    }

    /// Prints the figures, and `more` about how they came about, as one line of JSON or as lines.
    pub(crate) fn print(&self, json: bool, server_micros: u64, driver_micros: u64, more: &Value) {
        let seconds = self.elapsed.as_secs_f64();
        let micros = |micros: u64| rounded(Duration::from_micros(micros).as_secs_f64(), 2);
        #[allow(clippy::cast_precision_loss)]
        let per_second = self.latencies.len() as f64 / seconds;
        let figures = json!({
            "commands": self.latencies.len(),
            "seconds": rounded(seconds, 3),
            "per_second": rounded(per_second, 0),
            "p50_us": self.percentile(50),
            "p99_us": self.percentile(99),
            "server_cpu_seconds": micros(server_micros),
            "driver_cpu_seconds": micros(driver_micros),
        });
        let mut all = Map::new();
        for part in [&figures, more] {
            let members = part.as_object().into_iter().flatten();
            all.extend(members.map(|(name, value)| (name.clone(), value.clone())));
        }
        if json {
            println!("{}", Value::Object(all));
            return;
        }
        for (name, value) in all {
            println!("{name}: {value}");
        }
    }
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_http_answer_is_whole_with_its_last_byte() {
        let answer = b"HTTP/1.1 201 Created\r\ncontent-length: 3\r\n\r\nabc";
        for end in 0..answer.len() {
            assert_eq!(http(&answer[..end]).unwrap(), None);
        }
        let body = http(answer).unwrap().unwrap();
        assert_eq!(&answer[body], b"abc");
        assert!(http(b"HTTP/1.1 409 Conflict\r\ncontent-length: 0\r\n\r\n").is_err());
        assert!(http(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    #[test]
    fn a_bulk_string_is_whole_with_its_last_byte() {
        let answer = b"$3\r\nabc\r\n";
        for end in 0..answer.len() {
            assert_eq!(resp(&answer[..end]).unwrap(), None);
        }
        let body = resp(answer).unwrap().unwrap();
        assert_eq!(&answer[body], b"abc");
        for failed in ["-KEY\r\n", "$-1\r\n", ":1\r\n", "+OK\r\n"] {
            assert!(resp(failed.as_bytes()).is_err(), "{failed}");
        }
    }

    #[test]
    fn a_percentile_is_a_latency_that_occurred() {
        let measured = Measured {
            latencies: (1..=200).collect(),
            ..Measured::default()
        };
        assert_eq!(measured.percentile(50), 100);
        assert_eq!(measured.percentile(99), 198);
        assert_eq!(Measured::default().percentile(99), 0);
    }
}
