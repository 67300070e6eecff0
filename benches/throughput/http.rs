//! As much HTTP as a load generator needs: one request, one answer, on a kept connection.

use std::io::{Read as _, Write as _};
use std::ops::Range;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::check::find;

/// A kept connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer; its body is in the connection's buffer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    body: Range<usize>,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|error| format!("no connection: {error}"))?;
        stream
            .set_nodelay(true)
            .map_err(|error| format!("no connection: {error}"))?;
        Ok(Self {
            stream,
            buffer: vec![0; 4 * 1_024],
        })
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<Answer, String> {
        let broken = |error: std::io::Error| format!("the connection broke: {error}");
        self.stream.write_all(request).await.map_err(broken)?;
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(2 * filled, 0);
            }
            let read = self.stream.read(&mut self.buffer[filled..]).await;
            let read = read.map_err(broken)?;
            if read == 0 {
                return Err("the server closed the connection".to_owned());
            }
            filled += read;
            if let Some(body) = whole(&self.buffer[..filled]) {
                let status = status(&self.buffer[..filled]);
                let status = status.ok_or("what came is no answer")?;
                return Ok(Answer { status, body });
            }
        }
    }

    /// The position of the log that the last response names.
    pub(crate) fn position(&self, answer: &Answer) -> Option<u64> {
        let head = std::str::from_utf8(&self.buffer[..answer.body.start]).ok()?;
        let lines = head.lines();
        let mut told = lines.filter_map(|line| line.strip_prefix("carebook-position: "));
        told.next()?.parse().ok()
    }

    /// The body of the answer that came last.
    pub(crate) fn body(&self, answer: &Answer) -> &[u8] {
        &self.buffer[answer.body.clone()]
    }
}

/// The status of an answer.
fn status(answer: &[u8]) -> Option<u16> {
    let digits = answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Where the body is, when the answer is there as a whole.
fn whole(answer: &[u8]) -> Option<Range<usize>> {
    const NAME: &[u8] = b"content-length: ";
    let head = find(answer, b"\r\n\r\n")? + 4;
    let at = find(&answer[..head], NAME)? + NAME.len();
    let digits = answer[at..head]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    (answer.len() >= head + length).then_some(head..head + length)
}

/// Asks for `path` on a connection of its own, for which it waits.
pub(crate) fn get(address: &str, path: &str) -> Result<String, String> {
    let broken = |error: std::io::Error| format!("{path}: {error}");
    let mut stream = std::net::TcpStream::connect(address).map_err(broken)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n"
    )
    .map_err(broken)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(broken)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
        _ => Err(format!("{path}: {answer}")),
    }
}
