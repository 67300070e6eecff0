//! Notices that the client of a stream of events has left, over HTTP/1. hyper reads nothing while it answers, since a
//! client that has closed its sending side may still read. So a client that is gone would be noticed only when
//! something is written, and would hold its place among the connections of its address until then.
//!
//! So the socket is checked while a stream is watched. An error ends the connection at once. A client that has closed
//! its side may still read, or be gone: the stream is notified and writes something soon, to which the system of a
//! client that is gone responds with an error.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// What a connection and its stream of events share about the client.
#[derive(Default)]
pub struct ClientEnd {
    is_watched: AtomicBool,
    noticed: Notify,
}

/// Keeps the client of a stream watched until this is dropped.
pub struct WatchedClient(Arc<ClientEnd>);

/// Access to the socket of a connection, and where a departure of its client is noted.
pub struct ClientSocket<S> {
    end: Arc<ClientEnd>,
    socket: fn(&S) -> &TcpStream,
}

impl ClientEnd {
    /// Starts watching the client.
    pub fn watched(self: &Arc<Self>) -> WatchedClient {
        self.is_watched.store(true, Ordering::Relaxed);
        WatchedClient(Arc::clone(self))
    }

    /// Notifies the stream that the client may have left.
    pub fn notice(&self) {
        self.noticed.notify_one();
    }
}

impl WatchedClient {
    /// Waits until the client has closed its side, or has sent something that nobody reads yet: over TLS, that may be
    /// the alert that it closes.
    pub async fn noticed(&self) {
        self.0.noticed.notified().await;
    }
}

impl Drop for WatchedClient {
    fn drop(&mut self) {
        self.0.is_watched.store(false, Ordering::Relaxed);
    }
}

impl<S> ClientSocket<S> {
    /// Creates it; `socket` finds the socket in a connection's stream.
    pub fn new(end: Arc<ClientEnd>, socket: fn(&S) -> &TcpStream) -> Self {
        Self { end, socket }
    }

    /// Checks the socket, if the client is watched. Wakes the task when something arrives.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn look(&self, stream: &S, context: &mut Context<'_>) -> io::Result<()> {
        if !self.end.is_watched.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut room = [0; 1];
        let mut buffer = ReadBuf::new(&mut room);
        match (self.socket)(stream).poll_peek(context, &mut buffer) {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(_)) => {
                self.end.notice();
                Ok(())
            }
            Poll::Ready(Err(error)) => Err(error),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Both ends of a connection.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap());
        let (near, far) = tokio::join!(listener.accept(), far);
        (near.unwrap().0, far.unwrap())
    }

    /// Looks whenever the task is woken, until the connection is broken.
    async fn look(end: &Arc<ClientEnd>, near: &TcpStream) -> io::Error {
        let socket = ClientSocket::<TcpStream>::new(Arc::clone(end), |stream| stream);
        poll_fn(|context| match socket.look(near, context) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(error),
        })
        .await
    }

    #[tokio::test]
    async fn a_connection_that_is_reset_while_a_stream_is_watched_ends_at_once() {
        let (near, far) = connected().await;
        let end = Arc::<ClientEnd>::default();
        let _watched = end.watched();
        let reset = async {
            tokio::task::yield_now().await;
            far.set_zero_linger().unwrap();
            drop(far);
        };
        let (error, ()) = tokio::join!(look(&end, &near), reset);
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn a_client_that_has_closed_its_side_is_noticed_and_not_ended() {
        let (near, mut far) = connected().await;
        let end = Arc::<ClientEnd>::default();
        let watched = end.watched();
        let close = async {
            tokio::task::yield_now().await;
            far.shutdown().await.unwrap();
            watched.noticed().await;
        };
        tokio::select! {
            error = look(&end, &near) => panic!("{error}"),
            () = close => {}
        }
        drop(watched);
        assert!(!end.is_watched.load(Ordering::Relaxed));
    }
}
