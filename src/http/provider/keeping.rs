//! Keeps the provider's keys up to date: fetches the first ones, and reads them again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::{Answered, Provider};
use crate::base::panics::unless_its_future_panics;
use crate::http::token::{KeyRequests, Reload, TokenVerifier, VerifierError};

/// How long the start of the service waits for the first keys.
pub const FIRST_KEYS_PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two attempts during the start.
const FIRST_KEYS_PAUSE: Duration = Duration::from_secs(1);
/// Maximum time from one reading to the next.
pub const INTERVAL_MAX: Duration = Duration::from_secs(600);
/// Minimum time between two scheduled readings, whatever `Cache-Control` says; also after a failed attempt.
pub const INTERVAL_MIN: Duration = Duration::from_secs(60);

/// The first keys.
pub struct First {
    /// A verifier with these keys.
    pub verifier: TokenVerifier,
    /// When the keys are due to be read again.
    pub due: Instant,
}

impl Answered {
    /// Returns the time from the beginning of this reading to the next one.
    fn interval(&self) -> Duration {
        let said = self.max_age.unwrap_or(INTERVAL_MAX);
        said.clamp(INTERVAL_MIN, INTERVAL_MAX)
    }
}

impl Provider {
    /// Reads the first keys, with retries for [`FIRST_KEYS_PATIENCE`]; returns a verifier for tokens of `issuer` that
    /// name `audience`.
    ///
    /// # Errors
    /// When no usable keys came: the reason of the last attempt's failure, as a sentence.
    pub async fn first_keys(&self, issuer: &str, audience: &str) -> Result<First, String> {
        let until = Instant::now() + FIRST_KEYS_PATIENCE;
        let mut failed = None;
        let tried = async {
            loop {
                let began = Instant::now();
                let why = match self.read().await {
                    Err(why) => why,
                    Ok(answered) => match TokenVerifier::new(&answered.jwks, issuer, audience) {
                        Ok(verifier) => {
                            verifier.set_read_at(began.into_std());
                            let due = began + answered.interval();
                            return Ok(First { verifier, due });
                        }
                        Err(error @ (VerifierError::KeySet(_) | VerifierError::Key { .. })) => {
                            error.to_string()
                        }
                        // The error is in the service's settings, so the provider cannot fix it and a retry is
                        // useless.
                        Err(error) => return Err(error.to_string()),
                    },
                };
                tracing::warn!(error = %why, "the identity provider's first keys cannot be read");
                failed = Some(why);
                sleep(FIRST_KEYS_PAUSE).await;
            }
        };
        if let Ok(found) = timeout_at(until, tried).await {
            return found;
        }
        Err(format!(
            "the identity provider gave no keys within {} s: {}",
            FIRST_KEYS_PATIENCE.as_secs(),
            failed.unwrap_or_else(|| format!("{} did not answer", self.url()))
        ))
    }

    /// Reads the keys again, without end: when they are `due`, when `requests` ask for it, and when `told` is
    /// notified.
    pub async fn keep(
        &self,
        verifier: &TokenVerifier,
        requests: &KeyRequests,
        told: &Arc<Notify>,
        mut due: Instant,
    ) {
        loop {
            tokio::select! {
                () = sleep_until(due) => {}
                () = requests.asked() => {}
                () = told.notified() => {}
            }
            // Both are taken before reading, because the content may be as old as that.
            let began = Instant::now();
            let number = requests.begin();
            let read = unless_its_future_panics(pin!(self.read_again(verifier, began))).await;
            due = began + read.unwrap_or(INTERVAL_MIN);
            requests.end(number);
        }
    }

    /// Reads the keys once and puts them in use. Returns the time from the beginning of this reading to the next one.
    async fn read_again(&self, verifier: &TokenVerifier, began: Instant) -> Duration {
        let provider = self.url();
        let now = began.into_std();
        let read = match self.read().await {
            Ok(answered) => {
                let reload = verifier.reload(&answered.jwks, now);
                let interval = answered.interval();
                reload
                    .map(|reload| (reload, interval))
                    .map_err(|error| error.to_string())
            }
            Err(why) => Err(why),
        };
        match read {
            Ok((reload, interval)) => {
                match reload {
                    Reload::Unchanged => {}
                    Reload::Replaced => tracing::info!(
                        %provider, keys = verifier.key_count(),
                        "the key set was replaced"
                    ),
                    Reload::Nobody => tracing::error!(
                        %provider,
                        "the key set is empty now: every token is rejected"
                    ),
                }
                interval
            }
            Err(error) => {
                verifier.count_failed_reading();
                tracing::warn!(
                    %provider, %error,
                    age = verifier.key_set_age(Instant::now().into_std()).as_secs(),
                    "the identity provider's keys cannot be read: the last good ones stay in use for now"
                );
                INTERVAL_MIN
            }
        }
    }
}
