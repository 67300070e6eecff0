//! Aborts the process where a commit would otherwise stay half published.

/// Aborts the process when it is dropped, which only a panic causes: one between the moment at which a record gets
/// its position in the log and the publication of all its changes.
pub(super) struct AbortUnlessPublished;

impl Drop for AbortUnlessPublished {
    fn drop(&mut self) {
        tracing::error!("a commit was not published as a whole: the process ends");
        std::process::abort();
    }
}
