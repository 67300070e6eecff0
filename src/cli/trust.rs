//! The certificates that a server trusts where it is the client: of webhooks, of messages, of NATS, and of the
//! identity provider.

use std::path::PathBuf;

use clap::Args;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::exit::Failure;
use crate::http::client::dial::trusting;
use crate::http::small_file::{self, SMALL_FILE_BYTES_MAX};

/// The flags of trust.
#[derive(Args)]
pub struct TrustArgs {
    /// Certificates, PEM, that are trusted beside the system's where this service is the client:
    /// of webhooks, of messages, of NATS, and of the identity provider; may be repeated.
    #[arg(long, value_name = "FILE")]
    ca_file: Vec<PathBuf>,
}

impl TrustArgs {
    /// Returns the trusted certificates: the system's, and those of the files.
    ///
    /// # Errors
    /// Exit code 2, when a file cannot be read or does not hold only certificates.
    pub fn config(&self) -> Result<ClientConfig, Failure> {
        let mut all = Vec::new();
        for file in &self.ca_file {
            let unfit = |error: &dyn std::fmt::Display| {
                Failure::Arguments(format!(
                    "--ca-file {} cannot be used: {error}",
                    file.display()
                ))
            };
            let text = small_file::read(file, SMALL_FILE_BYTES_MAX);
            let text = text.map_err(|error| unfit(&error))?;
            let before = all.len();
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|error| unfit(&error))?;
                all.push(certificate.into_owned());
            }
            if all.len() == before {
                return Err(unfit(&"there is no certificate in it"));
            }
        }
        trusting(all).map_err(|error| {
            Failure::Arguments(format!(
                "a certificate of --ca-file cannot be used: {error}"
            ))
        })
    }
}
