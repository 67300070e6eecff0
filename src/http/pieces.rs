//! A body whose pieces another task or thread sends while it is read.
//!
//! It ends after its last piece, whenever the sender is dropped. That of `http_body_util::channel`
//! may end before it (0.1.5): it looks for a piece, then whether the sender is still there, and a
//! piece that comes between the two is lost without a word.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// A body, and its other end, which at most `most` pieces wait at.
#[must_use]
pub fn pieces(most: usize) -> (mpsc::Sender<Bytes>, Pieces) {
    let (sender, receiver) = mpsc::channel(most);
    (sender, Pieces(receiver))
}

/// A body that ends when its other end is dropped and all pieces are taken.
#[derive(Debug)]
pub struct Pieces(mpsc::Receiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(context);
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::hint::spin_loop;
    use std::sync::atomic::{AtomicU64, Ordering};

    use http_body_util::BodyExt as _;

    use super::*;

    /// Of 200,000 pieces that of `http_body_util::channel` loses some three.
    #[tokio::test]
    async fn the_last_piece_comes_whenever_the_sender_is_dropped() {
        const ROUNDS: u64 = 200_000;
        static BEGUN: AtomicU64 = AtomicU64::new(0);
        let (senders, received) = std::sync::mpsc::channel::<mpsc::Sender<Bytes>>();
        let sending = std::thread::spawn(move || {
            for (round, sender) in (1..).zip(received) {
                // At a moment of its own while the body is looked at.
                while BEGUN.load(Ordering::Acquire) < round {
                    spin_loop();
                }
                for _ in 0..round % 60 {
                    spin_loop();
                }
                sender.try_send(Bytes::from_static(b"last")).unwrap();
            }
        });
        for round in 1..=ROUNDS {
            let (sender, body) = pieces(1);
            senders.send(sender).unwrap();
            for _ in 0..200 {
                spin_loop();
            }
            BEGUN.store(round, Ordering::Release);
            let whole = body.collect().await.unwrap().to_bytes();
            assert_eq!(whole, "last", "in round {round}");
        }
        drop(senders);
        sending.join().unwrap();
    }
}
