//! A link that signs in once: printed at the start of a demonstration, for the user of the machine.
//!
//! The code is 256 random bits in the fragment (`#`) of the link, which browsers do not send. It is
//! valid for ten minutes, for one sign-in, and only from the loopback. If a thief has used it, its
//! owner gets an error that says so.

use std::fmt;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::Value;

/// How long a link is valid.
pub const GOOD_FOR: Duration = Duration::from_secs(10 * 60);
/// Length of a link's code, in bytes.
const CODE_BYTES: usize = 32;

/// A link that signs in once.
pub struct SignInLink {
    /// The hash of the code, so that the code itself cannot be read from the memory of the process.
    digest: blake3::Hash,
    made: Instant,
    /// The tokens that the link yields; `None` once it was used.
    gives: Mutex<Option<Value>>,
}

/// Why a link does not sign a user in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSignIn {
    /// The code is not that of this service's link.
    Unknown,
    /// The link was used already.
    Used,
    /// The link has expired.
    Ended,
}

impl NoSignIn {
    /// Returns the error code, and what it means.
    #[must_use]
    pub fn told(self) -> (&'static str, &'static str) {
        match self {
            Self::Unknown => (
                "link_unknown",
                "This link is not from this run of the service.",
            ),
            Self::Used => ("link_used", "This link was used already."),
            Self::Ended => ("link_ended", "This link has expired."),
        }
    }
}

impl SignInLink {
    /// Creates a link that yields `gives`; returns it with its code.
    ///
    /// # Errors
    /// When the system provides no random numbers.
    pub fn new(gives: Value) -> std::io::Result<(Self, String)> {
        let mut code = [0; CODE_BYTES];
        aws_lc_rs::rand::fill(&mut code).map_err(std::io::Error::other)?;
        let code = URL_SAFE_NO_PAD.encode(code);
        let link = Self {
            digest: blake3::hash(code.as_bytes()),
            made: Instant::now(),
            gives: Mutex::new(Some(gives)),
        };
        Ok((link, code))
    }

    /// Returns what the link with this code yields, only once.
    ///
    /// # Errors
    /// When the code is unknown, or the link was used or has expired.
    pub fn redeem(&self, code: &str, now: Instant) -> Result<Value, NoSignIn> {
        // Hashes are compared in constant time.
        if blake3::hash(code.as_bytes()) != self.digest {
            return Err(NoSignIn::Unknown);
        }
        if now.saturating_duration_since(self.made) > GOOD_FOR {
            self.gives.lock().take();
            return Err(NoSignIn::Ended);
        }
        self.gives.lock().take().ok_or(NoSignIn::Used)
    }
}

impl fmt::Debug for SignInLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_gives_once_what_it_has_and_only_for_its_code() {
        let (link, code) = SignInLink::new(json!("a")).unwrap();
        let now = Instant::now();
        assert_eq!(link.redeem("", now), Err(NoSignIn::Unknown));
        assert_eq!(link.redeem(&code[1..], now), Err(NoSignIn::Unknown));
        assert_eq!(link.redeem(&code, now), Ok(json!("a")));
        assert_eq!(link.redeem(&code, now), Err(NoSignIn::Used));
        let (_, other) = SignInLink::new(json!("b")).unwrap();
        assert_ne!(code, other);
        assert!(!format!("{link:?}").contains(&code));
    }

    #[test]
    fn a_link_that_is_too_old_signs_nobody_in() {
        let (link, code) = SignInLink::new(json!("a")).unwrap();
        let late = Instant::now() + GOOD_FOR + Duration::from_secs(1);
        assert_eq!(link.redeem(&code, late), Err(NoSignIn::Ended));
        assert_eq!(link.redeem(&code, Instant::now()), Err(NoSignIn::Used));
    }
}
