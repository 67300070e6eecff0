//! Reads the file with the identity provider's keys, with a size limit, and reads it again regularly.
//!
//! Reading may block forever (a file system that hangs), so it runs on a thread of its own. The age of the set in use
//! is checked on another thread, with a [`KeySetAge`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cli::reread::reread;
use crate::http::small_file;
use crate::http::token::{KEY_SET_BYTES_MAX, Reload, TokenVerifier};

/// Maximum interval at which the file is read again.
const INTERVAL_MAX: Duration = Duration::from_secs(30);

/// Reads the file, of at most [`KEY_SET_BYTES_MAX`] bytes.
///
/// # Errors
/// When the file cannot be read, is larger, or is not a regular file.
pub(super) fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    small_file::read(file, KEY_SET_BYTES_MAX)
}

/// The maximum age of a key set that cannot be read again.
pub(super) struct KeySetAge {
    verifier: Arc<TokenVerifier>,
    max: Duration,
}

impl KeySetAge {
    /// Creates the check that this verifier's keys are at most `max` old.
    pub(super) fn of(verifier: &Arc<TokenVerifier>, max: Duration) -> Self {
        let verifier = Arc::clone(verifier);
        Self { verifier, max }
    }

    /// Returns the time until the next call of [`KeySetAge::expire_if_too_old`]: at regular intervals, and when the set
    /// becomes too old.
    pub(super) fn next_check(&self) -> Duration {
        let age = self.verifier.key_set_age(Instant::now());
        let left = self.max.checked_sub(age);
        let interval = interval(self.max);
        left.map_or(interval, |left| {
            interval.min(left + Duration::from_millis(1))
        })
    }

    /// Rejects every token once the set in use is too old.
    pub(super) fn expire_if_too_old(&self) {
        if self.verifier.expire(Instant::now(), self.max) {
            tracing::error!(
                max_age = %humantime::format_duration(self.max),
                "the key set could not be read for too long: every token is rejected"
            );
        }
    }
}

/// Starts the thread that reads the file again, at SIGHUP and every half a minute, or more often if the maximum age
/// of the set is short.
///
/// # Errors
/// When the thread cannot be started.
pub(super) fn keep_fresh(
    verifier: Arc<TokenVerifier>,
    file: PathBuf,
    max_age: Duration,
) -> std::io::Result<KeySetAge> {
    let age = KeySetAge::of(&verifier, max_age);
    reread("key-set", interval(max_age), move |_| {
        reload(&verifier, &file)
    })?;
    Ok(age)
}

fn interval(max_age: Duration) -> Duration {
    (max_age / 3).min(INTERVAL_MAX)
}

fn reload(verifier: &TokenVerifier, file: &Path) {
    // The time is taken before reading, because the content may be as old as that.
    let now = Instant::now();
    let jwks = read(file).map_err(|error| error.to_string());
    let reloaded = jwks.and_then(|jwks| {
        verifier
            .reload(&jwks, now)
            .map_err(|error| error.to_string())
    });
    match reloaded {
        Ok(Reload::Unchanged) => {}
        Ok(Reload::Replaced) => tracing::info!(file = %file.display(), "the key set was replaced"),
        Ok(Reload::Nobody) => tracing::error!(
            file = %file.display(),
            "the key set is empty now: every token is rejected"
        ),
        Err(error) => {
            verifier.count_failed_reading();
            tracing::warn!(
                file = %file.display(), %error,
                age = verifier.key_set_age(now).as_secs(),
                "the key set cannot be read: the last good one stays in use for now"
            );
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_more_than_a_key_set_may_have_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("jwks.json");
        for length in [0, KEY_SET_BYTES_MAX] {
            std::fs::write(&file, vec![b' '; length]).unwrap();
            assert_eq!(read(&file).unwrap().len(), length);
        }
        for length in [KEY_SET_BYTES_MAX + 1, KEY_SET_BYTES_MAX * 4] {
            std::fs::write(&file, vec![b' '; length]).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(error.contains("it has more than 65536 bytes"), "{error}");
        }
    }

    #[test]
    fn a_key_set_file_is_reread_every_30_seconds_or_third_of_its_maximum_age() {
        let seconds = |max_age| interval(Duration::from_secs(max_age)).as_secs();
        assert_eq!([86_400, 91, 90, 60, 3].map(seconds), [30, 30, 30, 20, 1]);
    }

    #[test]
    fn a_key_set_is_checked_the_moment_it_expires_whatever_the_interval() {
        use crate::cli::token::signing::{SigningAlgorithm, SigningKey};
        let jwks = SigningKey::generate(SigningAlgorithm::EdDsa)
            .unwrap()
            .jwks();
        let verifier = TokenVerifier::new(jwks.as_bytes(), "iss", "aud").unwrap();
        let max = Duration::from_secs(3_600);
        let age = KeySetAge::of(&Arc::new(verifier), max);
        assert_eq!(age.next_check(), INTERVAL_MAX);
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        age.verifier.set_read_at(ago(3_590).unwrap());
        assert!(age.next_check() <= Duration::from_millis(10_001));
        age.verifier.set_read_at(ago(3_601).unwrap());
        assert_eq!(age.next_check(), INTERVAL_MAX);
        age.expire_if_too_old();
        assert_eq!(age.verifier.key_count(), 0);
    }
}
