//! The moment at which a commit must not stay half done.

/// Ends the process when it is dropped: by a panic between the moment at which a record has its
/// place in the log and the publishing of all that it changes.
pub(super) struct AbortUnlessPublished;

impl Drop for AbortUnlessPublished {
    fn drop(&mut self) {
        tracing::error!("a commit was not published as a whole: the process ends");
        std::process::abort();
    }
}
