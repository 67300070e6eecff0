//! The right to answer as the writer, where several may believe that they have it.
//!
//! A writer whose journal others share may have been replaced without knowing. What it commits tells
//! it so, since the journal refuses; what it only reads does not. So before an answer leaves it that
//! depends on what it holds, it has to know that nobody had begun to write when the request came.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant as Tick;

/// Whether an answer may leave.
pub type Confirming<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// What tells whether this process is the writer still.
pub trait Right: Send + Sync {
    /// Whether nobody else had begun to write at `came`, when a request came. Waits until that is
    /// known; it is known at once where something was committed that was begun later.
    fn confirm(&self, came: Tick) -> Confirming<'_>;
}

/// The right of one engine; without anybody to share the journal with it is always there.
#[derive(Default)]
pub(crate) struct OwnRight {
    shared: OnceLock<Arc<dyn Right>>,
    is_lost: AtomicBool,
}

impl OwnRight {
    pub(crate) fn share(&self, right: Arc<dyn Right>) {
        if self.shared.set(right).is_err() {
            tracing::error!("the right to answer was shared before: that stays");
        }
    }

    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
    }

    /// Whether an answer to a request that came at `came` may leave.
    pub(crate) async fn confirm(&self, came: Tick) -> bool {
        let Some(right) = self.shared.get() else {
            return !self.is_lost.load(Ordering::SeqCst);
        };
        // It may be lost while that is waited for.
        right.confirm(came).await && !self.is_lost.load(Ordering::SeqCst)
    }
}
