//! Settings of the tokens that a server accepts, and of the source of their keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio_rustls::rustls::ClientConfig;

use super::demo::Demo;
use super::key_set::{self, KeySetAge};
use super::provider::{self, KeysPlace, keys_place};
use crate::cli::duration::parse_duration_min_1s;
use crate::cli::exit::Failure;
use crate::cli::settings::shown::shown;
use crate::cli::token::{DEFAULT_AUDIENCE, DEFAULT_ISSUER};
use crate::http::client::dial::{Dialer, FEW_LOOKUPS, system_resolve};
use crate::http::provider::Provider;
use crate::http::token::TokenVerifier;

/// The flags of tokens and their keys.
#[derive(Args)]
pub struct KeyArgs {
    /// The issuer that tokens must have: their `iss`. Without --jwks it is the https URL of an
    /// identity provider, whose keys are where /.well-known/openid-configuration below it says.
    #[arg(long, value_name = "ISS", default_value = DEFAULT_ISSUER, value_parser = not_blank)]
    issuer: String,
    /// The audience that tokens must have: their `aud`.
    #[arg(long, value_name = "AUD", default_value = DEFAULT_AUDIENCE, value_parser = not_blank)]
    audience: String,
    /// The identity provider's keys: a JWKS file, or its https URL. Required unless --issuer names
    /// the provider.
    #[arg(long, value_name = "FILE|URL", value_parser = keys_place(),
        required_unless_present_any = ["demo", "issuer"])]
    jwks: Option<KeysPlace>,
    /// How long the last good key set stays in use when no other can be read; after that every
    /// token is rejected. At least 20m where it comes from a URL.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_duration_min_1s)]
    jwks_max_age: Duration,
}

/// Checks a value that tokens must name: a blank one would check nothing.
fn not_blank(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("it is blank; name it as the tokens do"),
        _ => Ok(text.to_owned()),
    }
}

/// The source of the keys.
pub(super) enum KeysFrom {
    /// The demonstration has keys of its own.
    Demo,
    /// The keys are in a file.
    File(PathBuf),
    /// The keys come from an identity provider.
    Provider(Box<Provider>),
}

impl KeyArgs {
    /// Returns the source of the keys; `trusted` judges the certificate of a provider.
    ///
    /// # Errors
    /// Exit code 2, when the flags name no usable source.
    pub(super) fn place(&self, trusted: &ClientConfig) -> Result<KeysFrom, Failure> {
        let dialer = || Dialer::new(trusted.clone(), system_resolve(FEW_LOOKUPS));
        let provider = match &self.jwks {
            Some(KeysPlace::File(file)) => return Ok(KeysFrom::File(file.clone())),
            Some(KeysPlace::Url(url)) => Provider::with_keys_at(url.clone(), dialer()),
            None => Provider::of_issuer(&self.issuer, dialer()).map_err(|why| {
                Failure::Arguments(format!(
                    "--issuer {} is not the URL of an identity provider: {why}. Give that, or its \
                     keys with --jwks",
                    shown(&self.issuer, "--issuer")
                ))
            })?,
        };
        if self.jwks_max_age < provider::MAX_AGE_MIN {
            return Err(Failure::Arguments(format!(
                "--jwks-max-age has to be at least {} where the keys come from a URL, as they are \
                 read again every 10 minutes",
                humantime::format_duration(provider::MAX_AGE_MIN)
            )));
        }
        Ok(KeysFrom::Provider(Box::new(provider)))
    }

    /// Returns the issuer that tokens must have.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Creates a verifier with the keys in a file.
    fn of_file(&self, file: &Path) -> Result<TokenVerifier, Failure> {
        let jwks = key_set::read(file).map_err(|error| {
            let file = shown(&file.to_string_lossy(), "--jwks <FILE|URL>");
            Failure::other(format!("{file} cannot be read: {error}"))
        })?;
        TokenVerifier::new(&jwks, &self.issuer, &self.audience).map_err(Failure::from_error)
    }

    /// Reads the keys if they are in a file; no provider is contacted.
    ///
    /// # Errors
    /// When the keys cannot be used.
    pub(super) fn check(&self, keys_from: KeysFrom) -> Result<(), Failure> {
        match keys_from {
            KeysFrom::File(file) => self.of_file(&file).map(drop),
            KeysFrom::Demo | KeysFrom::Provider(_) => Ok(()),
        }
    }

    /// Creates the verifier of tokens, and the check of its keys' age. The keys are kept fresh from here on.
    ///
    /// # Errors
    /// When there are no keys.
    pub(super) fn verifier(
        &self,
        keys_from: KeysFrom,
        demo: Option<&Demo>,
    ) -> Result<(Arc<TokenVerifier>, Option<KeySetAge>), Failure> {
        let (issuer, audience) = (self.issuer.as_str(), self.audience.as_str());
        let max_age = self.jwks_max_age;
        let (verifier, age) = match keys_from {
            KeysFrom::Demo => {
                let jwks = demo.map(Demo::jwks).unwrap_or_default();
                let verifier =
                    TokenVerifier::new(jwks.as_bytes(), DEFAULT_ISSUER, DEFAULT_AUDIENCE);
                return Ok((Arc::new(verifier.map_err(Failure::from_error)?), None));
            }
            KeysFrom::File(file) => {
                let verifier = Arc::new(self.of_file(&file)?);
                let age = key_set::keep_fresh(Arc::clone(&verifier), file, max_age);
                (verifier, age.map_err(Failure::from_error)?)
            }
            KeysFrom::Provider(provider) => {
                provider::keep_fresh(*provider, issuer, audience, max_age)?
            }
        };
        for skipped in verifier.skipped_keys() {
            tracing::warn!("a key of the key set is not used: {skipped}");
        }
        Ok((verifier, Some(age)))
    }
}
