//! Responses over HTTP/2, in portions, and how much of them a connection may hold. The library
//! takes a body as one piece and keeps it while the client opens no window for it; with a hundred
//! streams that is a hundred bodies for a client that reads nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A connection may hold so many KiB of responses that its client has not taken; its further
/// requests wait, and so do the further pieces of its streams.
const HELD_KIB_MAX: usize = 512;
/// The most that a piece of a stream is charged, so that there is room for it once others are taken.
const PIECE_KIB_MAX: usize = HELD_KIB_MAX / 2;
/// The most bytes of an answer that are given to the library at once.
const PORTION_BYTES_MAX: usize = 16 * 1024;

/// What the responses of one connection share.
#[derive(Clone)]
pub struct ResponseBudget(Arc<Semaphore>);

impl Default for ResponseBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(HELD_KIB_MAX)))
    }
}

impl ResponseBudget {
    /// Waits until a request may be answered.
    pub async fn room(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.0).acquire_owned().await.ok()
    }

    /// A piece of a stream, which holds its share until the client has taken it. It waits until
    /// there is room.
    pub async fn piece(&self, piece: Vec<u8>) -> Bytes {
        let kib = (piece.len() / 1024).min(PIECE_KIB_MAX);
        let share = match u32::try_from(kib) {
            // Heartbeats wait for nothing.
            Ok(0) | Err(_) => return piece.into(),
            Ok(kib) => Arc::clone(&self.0).acquire_many_owned(kib).await.ok(),
        };
        Bytes::from_owner(Piece {
            bytes: piece,
            _share: share,
        })
    }

    /// A response body, which holds its share until the client has taken it. It is sent even if it
    /// exceeds the rest of the budget, since it exists already. The pieces of a stream have their
    /// own shares.
    pub fn portioned<B: Body>(&self, body: B, room: Option<OwnedSemaphorePermit>) -> Portioned<B> {
        let bytes = body.size_hint().exact().unwrap_or(0);
        let kib = usize::try_from(bytes / 1024).unwrap_or(usize::MAX);
        let kib = u32::try_from(kib.min(self.0.available_permits())).unwrap_or(0);
        Portioned {
            body,
            portion: Bytes::new(),
            _room: room,
            _share: Arc::clone(&self.0).try_acquire_many_owned(kib).ok(),
        }
    }
}

struct Piece {
    bytes: Vec<u8>,
    _share: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body in portions.
pub struct Portioned<B> {
    body: B,
    /// The rest of the last frame.
    portion: Bytes,
    _room: Option<OwnedSemaphorePermit>,
    _share: Option<OwnedSemaphorePermit>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Portioned<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.portion.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.portion = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return other,
            }
        }
        let length = self.portion.len().min(PORTION_BYTES_MAX);
        let portion = self.portion.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(portion))))
    }

    fn is_end_stream(&self) -> bool {
        self.portion.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let portion = self.portion.len() as u64;
        let rest = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(portion));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(portion));
        }
        hint
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    #[tokio::test]
    async fn a_body_comes_in_portions_and_ends_with_the_last() {
        let budget = ResponseBudget::default();
        let whole = Bytes::from(vec![7; 2 * PORTION_BYTES_MAX + 1]);
        let mut body = budget.portioned(Full::new(whole.clone()), None);
        let mut taken = Vec::new();
        while !body.is_end_stream() {
            assert_eq!(
                body.size_hint().exact(),
                Some((whole.len() - taken.len()) as u64)
            );
            let portion = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(portion.len() <= PORTION_BYTES_MAX);
            taken.extend_from_slice(&portion);
        }
        assert_eq!(taken, whole);
        let empty = budget.portioned(Full::<Bytes>::default(), None);
        assert!(empty.is_end_stream());
        assert_eq!(empty.size_hint().exact(), Some(0));
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_gets_no_further_response() {
        let budget = ResponseBudget::default();
        let body = || Full::new(Bytes::from(vec![0; 100 << 10]));
        let mut answers = Vec::new();
        while let Ok(room) = tokio::time::timeout(std::time::Duration::ZERO, budget.room()).await {
            answers.push(budget.portioned(body(), room));
        }
        assert_eq!(
            answers.len(),
            6,
            "those of 512 KiB, and the one that goes over it"
        );
        answers.pop();
        assert!(budget.room().await.is_some());
    }
}
