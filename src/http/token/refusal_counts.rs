//! Counts of requests without an accepted token, by the reason.

use std::sync::atomic::{AtomicU64, Ordering};

use super::refusal::TokenRefusal;

/// The reason when no token was sent.
const MISSING: &str = "missing";
/// The reason when something other than one bearer token was sent.
const MALFORMED: &str = "malformed";

/// The number of reasons: a missing token, a malformed one, and those of [`TokenRefusal::ALL`].
const REASONS: usize = 2 + TokenRefusal::ALL.len();

/// Returns each reason as one word.
fn reasons() -> impl Iterator<Item = &'static str> {
    let refusals = TokenRefusal::ALL.into_iter().map(TokenRefusal::code);
    [MISSING, MALFORMED].into_iter().chain(refusals)
}

/// The counts by reason.
#[derive(Debug, Default)]
pub struct RefusalCounts([AtomicU64; REASONS]);

impl RefusalCounts {
    /// Counts a request without a token.
    pub fn count_missing(&self) {
        self.count_word(MISSING);
    }

    /// Counts a request with something else than one bearer token.
    pub fn count_malformed(&self) {
        self.count_word(MALFORMED);
    }

    /// Counts a token that was rejected.
    pub fn count(&self, refusal: TokenRefusal) {
        self.count_word(refusal.code());
    }

    fn count_word(&self, word: &str) {
        let place = reasons().position(|reason| reason == word);
        if let Some(count) = place.and_then(|place| self.0.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of requests for each reason.
    #[must_use]
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        reasons().zip(counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_counted_by_itself() {
        let counts = RefusalCounts::default();
        counts.count_missing();
        counts.count_malformed();
        for refusal in TokenRefusal::ALL {
            counts.count(refusal);
        }
        assert!(counts.all().iter().all(|(_, count)| *count == 1));
    }
}
