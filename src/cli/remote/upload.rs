//! Sends facts to a running server, as one POST with a streamed body.

use std::cell::Cell;
use std::io::{self, Read};

use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, StatusCode};
use serde_json::Value;

use super::client::{BoxError, Client, Connection, boxed, whole_body};
use crate::cli::exit::Failure;
use crate::domain::reference::fact_lines::{Lines, Summary};
use crate::http::response::pieces::pieces;

/// Number of bytes that are read and sent at once.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Sends the facts, one a line, to a running server; returns its response, which reports each fact.
///
/// # Errors
/// When the server cannot be reached or trusted, responds with anything but 200, or reports more or fewer facts than
/// were sent.
pub fn send(client: &Client, input: impl Read + Send + 'static) -> Result<Value, Failure> {
    let is_connected = Cell::new(false);
    let sent = client.with_connection(|connection| {
        is_connected.set(true);
        post(connection, input)
    });
    let (status, body, sent) = sent.map_err(|failure| match is_connected.get() {
        true => failure.with("Some facts may be applied: loading the whole file again is safe"),
        false => failure,
    })?;
    if status != StatusCode::OK {
        return Err(client.refused(status, &body));
    }
    let answer: Value = serde_json::from_slice(&body).map_err(|error| {
        let text = String::from_utf8_lossy(&body);
        Failure::other(format!("{}: {error}: {text}", client.url()))
    })?;
    let counts = Summary::COUNTS.iter();
    let reported: u64 = counts.filter_map(|name| answer[name].as_u64()).sum();
    if reported != sent {
        return Err(Failure::other(format!(
            "{} reports {reported} of the {sent} facts that were sent: loading the whole file again is safe",
            client.url()
        )));
    }
    Ok(answer)
}

async fn post(
    mut connection: Connection,
    mut input: impl Read + Send + 'static,
) -> Result<(StatusCode, Bytes, u64), BoxError> {
    let (chunks, body) = pieces(4);
    // Reading may block, so it runs on a thread of its own.
    let reading = tokio::task::spawn_blocking(move || {
        let (mut lines, mut count) = (Lines::default(), 0);
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = input.read(&mut chunk)?;
            chunk.truncate(read);
            let mut rest = &chunk[..];
            while lines.next(&mut rest).is_some() {
                count += 1;
            }
            // If sending fails, the server has answered already, and reads no more.
            if read == 0 || chunks.blocking_send(chunk.into()).is_err() {
                return Ok::<u64, io::Error>(count + u64::from(lines.finish().is_some()));
            }
        }
    });
    let request = Request::post("/reference-facts").header(CONTENT_TYPE, "application/x-ndjson");
    let answer = connection.send(request, boxed(body)).await?;
    let status = answer.status();
    let body = whole_body(answer.into_body()).await?;
    // After a refusal the number of lines does not matter, and reading may wait for input without end.
    let sent = match status {
        StatusCode::OK => reading.await??,
        _ => 0,
    };
    Ok((status, body, sent))
}
