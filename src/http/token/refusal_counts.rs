//! How many requests had no token that was accepted, by the reason.

use std::sync::atomic::{AtomicU64, Ordering};

use super::refusal::TokenRefusal;

/// No token was sent.
const MISSING: &str = "missing";
/// What was sent is not one bearer token.
const MALFORMED: &str = "malformed";

/// Each reason by one word: that there is no token, and those of [`TokenRefusal::code`].
const REASONS: [&str; 20] = [
    MISSING,
    MALFORMED,
    "too_long",
    "not_compact",
    "header_malformed",
    "critical_header",
    "key_id_missing",
    "key_id_unfit",
    "key_unknown",
    "algorithm_mismatch",
    "signature_invalid",
    "claims_malformed",
    "claim_missing",
    "claim_invalid",
    "issuer_mismatch",
    "audience_mismatch",
    "expired",
    "not_yet_valid",
    "issued_in_future",
    "actor_kind_unknown",
];

/// The counts.
#[derive(Debug, Default)]
pub struct RefusalCounts([AtomicU64; REASONS.len()]);

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
        let place = REASONS.iter().position(|reason| *reason == word);
        if let Some(count) = place.and_then(|place| self.0.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many there were for each reason.
    #[must_use]
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        REASONS.into_iter().zip(counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_counted_by_itself() {
        let all = [
            TokenRefusal::TooLong,
            TokenRefusal::NotCompact,
            TokenRefusal::HeaderMalformed,
            TokenRefusal::CriticalHeader,
            TokenRefusal::KeyIdMissing,
            TokenRefusal::KeyIdUnfit,
            TokenRefusal::KeyUnknown,
            TokenRefusal::AlgorithmMismatch,
            TokenRefusal::SignatureInvalid,
            TokenRefusal::ClaimsMalformed,
            TokenRefusal::ClaimMissing("sub"),
            TokenRefusal::ClaimInvalid("sub"),
            TokenRefusal::IssuerMismatch,
            TokenRefusal::AudienceMismatch,
            TokenRefusal::Expired,
            TokenRefusal::NotYetValid,
            TokenRefusal::IssuedInFuture,
            TokenRefusal::ActorKindUnknown,
        ];
        assert_eq!(all.len() + 2, REASONS.len());
        let counts = RefusalCounts::default();
        counts.count_missing();
        counts.count_malformed();
        for refusal in all {
            counts.count(refusal);
        }
        assert!(counts.all().iter().all(|(_, count)| *count == 1));
    }
}
