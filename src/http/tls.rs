//! The TLS certificate and its key: two files, which are read again while the service runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error as TlsError, ServerConfig};
use x509_parser::x509::X509Version;

use super::small_file::{self, SMALL_FILE_BYTES_MAX};
use crate::base::time::Timestamp;

/// The configuration for handshakes.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: ArcSwap<ServerConfig>,
    /// What the files contained when they were last used.
    in_use: Mutex<Files>,
    /// When the certificate in use ends, in seconds since 1970.
    ends: AtomicI64,
    /// Whether the files could be used when they were last read.
    is_usable: AtomicBool,
    /// How often the files could not be read or used.
    failures: AtomicU64,
}

/// The state of the certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CertificateFigures {
    /// The earliest expiry in the certificate chain in use, in seconds since 1970.
    pub ends: i64,
    /// Whether the files could be used when they were last read; if not, those of before are in use.
    pub is_usable: bool,
    /// How often the files were read again and could not be used, since the start.
    pub failures: u64,
}

/// What the files give.
struct Usable {
    server: Arc<ServerConfig>,
    ends: i64,
}

#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// A file that cannot be used for TLS.
#[derive(Debug)]
pub struct Unfit {
    file: PathBuf,
    why: String,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, why } = self;
        write!(f, "{} cannot be used for TLS: {why}", file.display())
    }
}

impl std::error::Error for Unfit {}

impl Tls {
    /// Reads a chain of certificates and a private key, both PEM.
    ///
    /// # Errors
    /// When a file cannot be read or used, or the key is not the certificate's.
    pub fn read(certificate: PathBuf, key: PathBuf) -> Result<Self, Unfit> {
        let files = Files::read(&certificate, &key)?;
        let config = files.config(&certificate, &key)?;
        Ok(Self {
            certificate,
            key,
            config: ArcSwap::new(config.server),
            in_use: Mutex::new(files),
            ends: AtomicI64::new(config.ends),
            is_usable: AtomicBool::new(true),
            failures: AtomicU64::new(0),
        })
    }

    /// Reads both files again; whether they differ from those in use, which they replace. If they
    /// cannot be used, the previous ones stay in use, which is an error at each call until they can.
    ///
    /// # Errors
    /// As [`Tls::read`].
    pub fn reload(&self) -> Result<bool, Unfit> {
        let reloaded = self.try_reload();
        self.is_usable.store(reloaded.is_ok(), Ordering::Relaxed);
        if reloaded.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        reloaded
    }

    fn try_reload(&self) -> Result<bool, Unfit> {
        let files = Files::read(&self.certificate, &self.key)?;
        let mut in_use = self.in_use.lock();
        if *in_use == files {
            return Ok(false);
        }
        let config = files.config(&self.certificate, &self.key)?;
        self.config.store(config.server);
        self.ends.store(config.ends, Ordering::Relaxed);
        *in_use = files;
        Ok(true)
    }

    /// The state of the certificate.
    #[must_use]
    pub fn figures(&self) -> CertificateFigures {
        CertificateFigures {
            ends: self.ends.load(Ordering::Relaxed),
            is_usable: self.is_usable.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// Returns when the certificate in use expired; `None` if it has not.
    #[must_use]
    pub fn expired(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self.ends.load(Ordering::Relaxed);
        let at = Timestamp::from_millis(ends.saturating_mul(1_000));
        (ends != 0 && at < now).then_some(at)
    }

    /// For the next handshake.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }
}

impl Files {
    fn read(certificate: &Path, key: &Path) -> Result<Self, Unfit> {
        let read = |file: &Path| {
            small_file::read(file, SMALL_FILE_BYTES_MAX).map_err(|error| unfit(file, &error))
        };
        Ok(Self {
            certificate: read(certificate)?,
            key: read(key)?,
        })
    }

    fn config(&self, certificate: &Path, key: &Path) -> Result<Usable, Unfit> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|error| unfit(certificate, &error))?;
        let own = chain.first();
        let own = own.ok_or_else(|| unfit(certificate, &"it holds no certificate"))?;
        if let Some(why) = of_another_version(own) {
            return Err(unfit(certificate, &why));
        }
        let ends = first_end(&chain);
        let private =
            PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| unfit(key, &error))?;
        let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(certificate, &error))?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(|error| match error {
                TlsError::InvalidCertificate(_) => unfit(certificate, &error),
                _ => unfit(key, &error),
            })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Usable {
            server: Arc::new(config),
            ends,
        })
    }
}

/// Returns why a server's certificate cannot be used because of its X.509 version; one without extensions may have
/// version 1.
fn of_another_version(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let X509Version(version) = certificate.version();
    let number = version.saturating_add(1);
    (number != 3).then(|| format!("its certificate is X.509 version {number}; TLS needs version 3"))
}

/// The earliest expiry of these certificates, in seconds since 1970; 0 when none can be parsed.
fn first_end(chain: &[CertificateDer<'_>]) -> i64 {
    let ends = chain.iter().filter_map(|certificate| {
        let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
        Some(certificate.validity().not_after.timestamp())
    });
    ends.min().unwrap_or(0)
}

fn unfit(file: &Path, why: &dyn fmt::Display) -> Unfit {
    Unfit {
        file: file.to_owned(),
        why: why.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    #[test]
    fn a_non_regular_tls_file_is_an_error_each_time_and_the_last_good_stays() {
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        let write = || {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            std::fs::write(&certificate, made.cert.pem()).unwrap();
            std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        };
        write();
        let tls = Tls::read(certificate.clone(), key.clone()).unwrap();
        let ends = tls.figures().ends;
        for (file, failures) in [(&certificate, 1), (&key, 3)] {
            std::fs::remove_file(file).unwrap();
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, file, kind, mode, 0).unwrap();
            let why = format!(
                "{} cannot be used for TLS: it is not a regular file",
                file.display()
            );
            let error = Tls::read(certificate.clone(), key.clone()).err().unwrap();
            assert_eq!(error.to_string(), why);
            assert_eq!(tls.reload().unwrap_err().to_string(), why);
            let expected = CertificateFigures {
                ends,
                is_usable: false,
                failures,
            };
            assert_eq!(tls.figures(), expected);
            std::fs::remove_file(file).unwrap();
            std::fs::write(file, vec![b' '; SMALL_FILE_BYTES_MAX + 1]).unwrap();
            let error = tls.reload().unwrap_err().to_string();
            assert!(error.contains("it has more than 1048576 bytes"), "{error}");
            std::fs::remove_file(file).unwrap();
            write();
        }
        assert_eq!(tls.reload().map_err(|error| error.to_string()), Ok(true));
        assert_eq!(tls.figures().failures, 4);
    }

    #[test]
    fn files_that_cannot_be_used_are_an_error_each_time_until_they_can() {
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        let [made, other] =
            [(); 2].map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let tls = Tls::read(certificate.clone(), key.clone()).unwrap();
        let reload = || tls.reload().map_err(|error| error.to_string());
        let told = || (tls.figures().is_usable, tls.figures().failures);
        assert_eq!((reload(), told()), (Ok(false), (true, 0)));
        let mut failures = 0;
        // No certificate, one of another key, and no file.
        for content in [Some("nothing".to_owned()), Some(other.cert.pem()), None] {
            match &content {
                Some(content) => std::fs::write(&certificate, content).unwrap(),
                None => std::fs::remove_file(&certificate).unwrap(),
            }
            for _ in 0..2 {
                assert!(reload().is_err(), "{content:?}");
                failures += 1;
                assert_eq!(told(), (false, failures), "{content:?}");
            }
            // The one in use is there again.
            std::fs::write(&certificate, made.cert.pem()).unwrap();
            assert_eq!((reload(), told()), (Ok(false), (true, failures)));
        }
        std::fs::write(&certificate, other.cert.pem()).unwrap();
        assert!(reload().is_err());
        // The key of the new certificate follows later.
        std::fs::write(&key, other.signing_key.serialize_pem()).unwrap();
        assert_eq!((reload(), told()), (Ok(true), (true, failures + 1)));
    }

    #[test]
    fn a_file_without_a_usable_certificate_is_named_and_not_the_key() {
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let mut der = made.cert.der().to_vec();
        // The number of its version, which begins with 0 for version 1.
        let version = [0xa0_u8, 3, 2, 1, 2];
        let at = der.windows(5).position(|bytes| bytes == version).unwrap();
        der[at + 4] = 0;
        let of_version_1 = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            BASE64_STANDARD.encode(der)
        );
        for (content, why) in [
            (String::new(), "it holds no certificate"),
            (made.signing_key.serialize_pem(), "it holds no certificate"),
            (
                of_version_1,
                "its certificate is X.509 version 1; TLS needs version 3",
            ),
        ] {
            std::fs::write(&certificate, content).unwrap();
            let error = Tls::read(certificate.clone(), key.clone()).err().unwrap();
            let file = certificate.display();
            assert_eq!(
                error.to_string(),
                format!("{file} cannot be used for TLS: {why}")
            );
        }
    }

    #[test]
    fn a_certificate_has_expired_once_its_end_is_past() {
        let directory = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2020, 2, 29);
        let signing = rcgen::KeyPair::generate().unwrap();
        let made = parameters.self_signed(&signing).unwrap();
        std::fs::write(&certificate, made.pem()).unwrap();
        std::fs::write(&key, signing.serialize_pem()).unwrap();
        let tls = Tls::read(certificate, key).unwrap();
        let end = Timestamp::parse("2020-02-29T00:00:00Z").unwrap();
        let later = Timestamp::from_millis(end.millis() + 1);
        assert_eq!((tls.expired(end), tls.expired(later)), (None, Some(end)));
    }
}
