//! The body of a response: whole, or a stream that is produced while it is read.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};

use super::pieces::Pieces;

/// A response.
pub type Answer = Response<AnswerBody>;

/// The body of an answer.
#[derive(Debug)]
pub enum AnswerBody {
    /// The complete body.
    Whole(Bytes),
    /// The complete body of a problem, and its code.
    Problem(Bytes, &'static str),
    /// A body that is produced while it is read.
    Stream(Pieces),
}

impl Default for AnswerBody {
    fn default() -> Self {
        Self::Whole(Bytes::new())
    }
}

impl AnswerBody {
    /// Creates the body of a problem with this code.
    pub fn problem(body: impl Into<Bytes>, code: &'static str) -> Self {
        Self::Problem(body.into(), code)
    }

    /// Returns the problem's code, if the body is one of a problem.
    #[must_use]
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::Problem(_, code) => Some(code),
            Self::Whole(_) | Self::Stream(_) => None,
        }
    }

    /// Returns the body; if it is complete, it keeps `kept` alive until the last of its bytes is dropped.
    #[must_use]
    pub fn with(self, kept: impl Send + 'static) -> Self {
        let keeping = |bytes| Bytes::from_owner(Keeping { bytes, _kept: kept });
        match self {
            Self::Whole(bytes) => Self::Whole(keeping(bytes)),
            Self::Problem(bytes, code) => Self::Problem(keeping(bytes), code),
            Self::Stream(_) => self,
        }
    }
}

/// Bytes, with a value that lives as long as they do.
struct Keeping<T> {
    bytes: Bytes,
    _kept: T,
}

impl<T> AsRef<[u8]> for Keeping<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: Into<Bytes>> From<T> for AnswerBody {
    fn from(bytes: T) -> Self {
        Self::Whole(bytes.into())
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) | Self::Problem(body, _) => {
                let body = std::mem::take(body);
                Poll::Ready((!body.is_empty()).then(|| Ok(Frame::data(body))))
            }
            Self::Stream(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) | Self::Problem(body, _) => body.is_empty(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) | Self::Problem(body, _) => SizeHint::with_exact(body.len() as u64),
            Self::Stream(body) => body.size_hint(),
        }
    }
}
