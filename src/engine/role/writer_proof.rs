//! The right to answer as the writer, where several may believe that they have it.
//!
//! A writer on a shared journal may have been replaced without knowing. A commit shows it, since
//! the journal rejects the append; a read does not. So before a response leaves that depends on its
//! state, it has to confirm that no other process had begun to write when the request came. The same
//! holds for what it sends by itself: another writer may have given that up meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The pause before it is tried again to confirm that this process writes.
pub(crate) const CONFIRM_AGAIN: Duration = Duration::from_secs(1);

/// Whether an answer may leave.
pub type Confirming<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Confirms that this process is still the writer.
pub trait WriterProof: Send + Sync {
    /// Whether no other process had begun to write at `came`, when a request came. Waits until that
    /// is known; it is known at once where a commit that began after `came` has succeeded.
    fn confirm(&self, came: Instant) -> Confirming<'_>;
}

/// What proves that one engine may answer; where the journal is not shared, it may until that is lost.
#[derive(Default)]
pub(crate) struct OwnWriterProof {
    shared: OnceLock<Arc<dyn WriterProof>>,
    is_lost: AtomicBool,
}

impl OwnWriterProof {
    pub(crate) fn share(&self, proof: Arc<dyn WriterProof>) {
        if self.shared.set(proof).is_err() {
            tracing::error!("a proof of the writer is already set; the new one is ignored");
        }
    }

    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
    }

    /// Whether an answer to a request that came at `came` may leave.
    pub(crate) async fn confirm(&self, came: Instant) -> bool {
        let Some(proof) = self.shared.get() else {
            return !self.is_lost.load(Ordering::SeqCst);
        };
        // It may be lost while that is waited for.
        proof.confirm(came).await && !self.is_lost.load(Ordering::SeqCst)
    }

    /// Whether something may be sent that nobody waits for: no other process had begun to write by
    /// now, which may have given it up. Known at once where the journal is not shared; otherwise it
    /// takes as long as an append. `false` is no fault of its receiver: it is to wait as it did.
    pub(crate) async fn confirm_now(&self) -> bool {
        self.confirm(Instant::now()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proof that is there for what comes since then.
    struct Since(Instant);

    impl WriterProof for Since {
        fn confirm(&self, came: Instant) -> Confirming<'_> {
            Box::pin(async move { came >= self.0 })
        }
    }

    #[tokio::test]
    async fn what_is_sent_takes_the_right_of_now_and_without_a_shared_journal_nothing_is_asked() {
        let alone = OwnWriterProof::default();
        assert!(alone.confirm_now().await);
        alone.lose();
        assert!(!alone.confirm_now().await);
        let now = Instant::now();
        let later = now + Duration::from_secs(3_600);
        for (since, may_send) in [(now, true), (later, false)] {
            let shared = OwnWriterProof::default();
            shared.share(Arc::new(Since(since)));
            assert_eq!(shared.confirm_now().await, may_send);
        }
    }
}
