//! The body of a response: whole, or a stream that lasts as long as it is read.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

use super::pieces::Pieces;

/// The body of an answer.
#[derive(Debug)]
pub enum AnswerBody {
    /// The complete body.
    Whole(Full<Bytes>),
    /// The complete body of a problem, and its code.
    Problem(Full<Bytes>, &'static str),
    /// A body that is produced while it is read.
    Stream(Pieces),
}

impl Default for AnswerBody {
    fn default() -> Self {
        Self::Whole(Full::default())
    }
}

impl AnswerBody {
    /// A problem of this code.
    pub fn problem(body: impl Into<Bytes>, code: &'static str) -> Self {
        Self::Problem(Full::new(body.into()), code)
    }

    /// The code, where it is a problem.
    #[must_use]
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::Problem(_, code) => Some(code),
            Self::Whole(_) | Self::Stream(_) => None,
        }
    }
}

impl<T: Into<Bytes>> From<T> for AnswerBody {
    fn from(bytes: T) -> Self {
        Self::Whole(Full::new(bytes.into()))
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
            Self::Whole(body) | Self::Problem(body, _) => Pin::new(body).poll_frame(context),
            Self::Stream(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) | Self::Problem(body, _) => body.is_end_stream(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) | Self::Problem(body, _) => body.size_hint(),
            Self::Stream(body) => body.size_hint(),
        }
    }
}
