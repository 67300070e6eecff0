//! The source of a server's keys, and the thread that fetches them from an identity provider.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use super::key_set::KeySetAge;
use crate::cli::exit::Failure;
use crate::http::provider::{HttpsUrl, INTERVAL_MAX, Provider};
use crate::http::token::{KeyRequests, TokenVerifier};

/// Minimum of `--jwks-max-age` for keys that come from a provider, so that one reading may fail.
pub(super) const MAX_AGE_MIN: Duration = INTERVAL_MAX.saturating_mul(2);

/// The value of `--jwks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysPlace {
    /// A JWKS file.
    File(PathBuf),
    /// URL of a key set over HTTPS.
    Url(HttpsUrl),
}

/// Returns the parser of `--jwks`.
pub fn keys_place() -> impl TypedValueParser<Value = KeysPlace> {
    OsStringValueParser::new().try_map(of)
}

fn of(value: OsString) -> Result<KeysPlace, String> {
    match value.to_str() {
        Some(url) if url.contains("://") => HttpsUrl::read(url).map(KeysPlace::Url),
        _ => Ok(KeysPlace::File(value.into())),
    }
}

/// Fetches the provider's first keys, and starts a thread that keeps them fresh: as the responses say, for unknown
/// keys, and at SIGHUP.
///
/// # Errors
/// When there are no keys, or the thread cannot be started.
pub(super) fn keep_fresh(
    provider: Provider,
    issuer: &str,
    audience: &str,
    max_age: Duration,
) -> Result<(Arc<TokenVerifier>, KeySetAge), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::from_error)?;
    // Set up before the first attempt, because SIGHUP must not end the process.
    let mut hang_up = {
        let _inside = runtime.enter();
        signal(SignalKind::hangup()).map_err(Failure::from_error)?
    };
    let (issuer, audience) = (issuer.to_owned(), audience.to_owned());
    let (sender, first) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("identity-provider".to_owned());
    let work = async move {
        let first = match provider.first_keys(&issuer, &audience).await {
            Ok(first) => first,
            Err(why) => {
                let _ = sender.send(Err(why));
                return;
            }
        };
        let requests = Arc::new(KeyRequests::default());
        let verifier = Arc::new(first.verifier.asking(Arc::clone(&requests)));
        let _ = sender.send(Ok(Arc::clone(&verifier)));
        let reload = Arc::new(Notify::new());
        let request_reload = Arc::clone(&reload);
        tokio::spawn(async move {
            while hang_up.recv().await.is_some() {
                request_reload.notify_one();
            }
        });
        provider
            .keep(&verifier, &requests, &reload, first.due)
            .await;
    };
    thread
        .spawn(move || runtime.block_on(work))
        .map_err(Failure::from_error)?;
    let verifier = first
        .recv()
        .map_err(|_| Failure::other("asking the identity provider for keys has panicked"))?
        .map_err(Failure::other)?;
    tracing::info!(
        keys = verifier.key_count(),
        "the identity provider gave its keys"
    );
    let age = KeySetAge::of(&verifier, max_age);
    Ok((verifier, age))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_a_file_or_at_a_url_of_https() {
        let of = |text: &str| of(text.into());
        for file in ["jwks.json", "/etc/carebook/jwks.json", "https", "a:b"] {
            assert_eq!(of(file), Ok(KeysPlace::File(file.into())));
        }
        assert!(matches!(
            of("https://id.example/keys"),
            Ok(KeysPlace::Url(_))
        ));
        for bad in [
            "http://id.example/keys",
            "ftp://id.example/keys",
            "https://",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
