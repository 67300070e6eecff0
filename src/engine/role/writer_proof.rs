//! Proof that this process is still the writer, where several may believe that they are.
//!
//! A writer on a shared journal may have been replaced without knowing. A commit reveals that, since the journal
//! rejects the append; a read does not. So before a response that depends on the writer's state is sent, the writer
//! has to confirm that no other process had become the writer when the request came. The same holds for deliveries:
//! another writer may have given them up meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause before another attempt to confirm that this process is the writer.
pub(crate) const CONFIRM_AGAIN: Duration = Duration::from_secs(1);

/// Resolves to whether a response may be sent.
pub type Confirming<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Confirms that this process is still the writer.
pub trait WriterProof: Send + Sync {
    /// Whether no other process had become the writer at `came`, when a request came. Waits until that is known; it
    /// is known at once where a commit that began after `came` has succeeded.
    fn confirm(&self, came: Instant) -> Confirming<'_>;
}

/// The proof that one engine may answer. Where the journal is not shared, the engine may answer until the proof is
/// lost.
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

    /// Whether the response to a request that came at `came` may be sent.
    pub(crate) async fn confirm(&self, came: Instant) -> bool {
        let Some(proof) = self.shared.get() else {
            return !self.is_lost.load(Ordering::SeqCst);
        };
        // The proof may be lost during the wait.
        proof.confirm(came).await && !self.is_lost.load(Ordering::SeqCst)
    }

    /// Whether a delivery may be sent that no client waits for: no other process has become the writer by now, which
    /// may have given the delivery up. Known at once where the journal is not shared; otherwise it takes as long as
    /// an append. `false` is no fault of the receiver: the delivery goes on waiting as before.
    pub(crate) async fn confirm_now(&self) -> bool {
        self.confirm(Instant::now()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proof for requests that come at this time or later.
    struct Since(Instant);

    impl WriterProof for Since {
        fn confirm(&self, came: Instant) -> Confirming<'_> {
            Box::pin(async move { came >= self.0 })
        }
    }

    #[tokio::test]
    async fn sending_needs_a_current_writer_proof_and_none_if_no_journal_is_shared() {
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
