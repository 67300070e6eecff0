//! A body whose pieces another task or thread sends while the body is read.
//!
//! The body ends after its last piece, whenever the sender is dropped. The one of `http_body_util::channel` (0.1.5)
//! may end before its last piece: it looks for a piece, then whether the sender still exists, and a piece that comes
//! between the two is lost silently.

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// Returns a body and its sender; at most `most` pieces are queued.
#[must_use]
pub fn pieces(most: usize) -> (mpsc::Sender<Bytes>, Pieces) {
    let (sender, receiver) = mpsc::channel(most);
    let body = Pieces {
        pieces: receiver,
        _kept: None,
    };
    (sender, body)
}

/// A body that ends when its sender is dropped and all pieces are taken.
#[derive(Debug)]
pub struct Pieces {
    pieces: mpsc::Receiver<Bytes>,
    /// What exists for as long as the body.
    _kept: Option<Box<dyn Any + Send + Sync>>,
}

impl Pieces {
    /// Keeps `kept` for as long as the body exists, also after its sender has gone.
    #[must_use]
    pub fn keeping(mut self, kept: impl Send + Sync + 'static) -> Self {
        self._kept = Some(Box::new(kept));
        self
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.poll_recv(context);
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::task::Waker;

    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn a_body_keeps_what_it_is_given_until_it_is_dropped_itself() {
        let kept = std::sync::Arc::new(());
        let (sender, body) = pieces(1);
        let body = body.keeping(std::sync::Arc::clone(&kept));
        drop(sender);
        assert_eq!(std::sync::Arc::strong_count(&kept), 2);
        drop(body);
        assert_eq!(std::sync::Arc::strong_count(&kept), 1);
    }

    #[tokio::test]
    async fn a_body_ends_after_its_last_piece_whenever_the_sender_is_dropped() {
        let piece = |sender: mpsc::Sender<Bytes>| {
            sender.try_send(Bytes::from_static(b"last")).unwrap();
        };
        let (sender, body) = pieces(1);
        piece(sender);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "last");

        // The sender is dropped after a poll that found no piece.
        let (sender, mut body) = pieces(1);
        let looked = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
        assert!(looked.is_pending());
        piece(sender);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "last");
    }
}
