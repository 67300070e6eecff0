//! Sending facts to a running server: one POST with a streamed body.

use std::io::{self, Read};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::channel::Channel;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, StatusCode};
use serde_json::Value;

use super::client::{BoxError, Client, Connection, boxed};
use super::exit::Failure;

/// How much is read, and sent, at once.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Sends the facts, one a line, to a running server; its response.
///
/// # Errors
/// When the server cannot be reached or trusted, or responds with anything but 200.
pub fn send(client: &Client, input: impl Read + Send + 'static) -> Result<Value, Failure> {
    let (status, body) = client.with_connection(|connection| post(connection, input))?;
    if status != StatusCode::OK {
        return Err(client.refused(status, &body));
    }
    serde_json::from_slice(&body).map_err(|error| {
        let text = String::from_utf8_lossy(&body);
        Failure::other(format!("{}: {error}: {text}", client.url()))
    })
}

async fn post(
    mut connection: Connection,
    mut input: impl Read + Send + 'static,
) -> Result<(StatusCode, Bytes), BoxError> {
    let (mut chunks, body) = Channel::<Bytes, io::Error>::new(4);
    // Reading may block, so it has a thread of its own.
    let reading = tokio::task::spawn_blocking(move || {
        let handle = tokio::runtime::Handle::current();
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            match input.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    chunk.truncate(read);
                    // The server has answered already, and reads no more.
                    if handle.block_on(chunks.send_data(chunk.into())).is_err() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    });
    let request = Request::post("/reference-facts").header(CONTENT_TYPE, "application/x-ndjson");
    let answer = connection.send(request, boxed(body)).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    reading.await??;
    Ok((status, body))
}
