//! Checks the settings of `carebook serve`: before each start, and with `--check` instead of a start.

use std::io::ErrorKind;

use super::ServeArgs;
use super::signals::expired;
use crate::cli::exit::Failure;
use crate::cli::open::existing;
use crate::cli::path_checks::is_within;
use crate::cli::stderr::print_to_stderr;
use crate::http::client::room::OutgoingRoom;

impl ServeArgs {
    /// Checks everything that can be checked without a start, and prints the settings.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.check_flags()?;
        let trusted = self.trust.config()?;
        self.receivers
            .named(&trusted, OutgoingRoom::default(), None)?;
        if !self.demo {
            self.keys.check(self.keys.place(&trusted)?)?;
        }
        if let Some(ended) = self.tls()?.and_then(|tls| expired(&tls)) {
            print_to_stderr(format_args!(
                "carebook: the certificate of --tls-cert has expired ({ended}): clients refuse it"
            ));
        }
        self.webhooks.check(self.data.as_deref())?;
        self.expect_usable_archive()?;
        self.nats.target(&trusted)?;
        self.journal.place.check(&trusted)?;
        self.settings.print()
    }

    /// Checks the flags alone.
    pub(super) fn check_flags(&self) -> Result<(), Failure> {
        self.console.client(self.keys.issuer())?;
        self.expect_archive_elsewhere()?;
        self.expect_protected()
    }

    /// Rejects serving the routes that need no token to others, unless a flag allows it.
    fn expect_protected(&self) -> Result<(), Failure> {
        self.expect_demo_inside()?;
        let is_near = self.listen.ip().to_canonical().is_loopback();
        let is_meant = self.internal_public || self.demo_public;
        if is_near || self.internal_listen.is_some() || is_meant {
            return Ok(());
        }
        Err(Failure::Arguments(format!(
            "--listen {} would serve the finalization of charges and /metrics, which need no token, \
             beyond this machine: give --internal-listen ADDR, or --internal-public",
            self.listen
        )))
    }

    /// Rejects an archive inside the data directory: removing the directory would remove the archive.
    fn expect_archive_elsewhere(&self) -> Result<(), Failure> {
        match (&self.archive, &self.data) {
            (Some(archive), Some(data)) if is_within(archive, data) => {
                Err(Failure::Arguments(format!(
                    "--archive {} lies in the data directory {}: name a directory elsewhere",
                    archive.display(),
                    data.display()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Rejects an existing archive that is no directory, or cannot be opened. A missing one is created at the start.
    fn expect_usable_archive(&self) -> Result<(), Failure> {
        let Some(archive) = &self.archive else {
            return Ok(());
        };
        match existing(archive) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::other(format!(
                "--archive {} cannot be used: {error}",
                archive.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Rejects a demonstration, whose tokens are printed, on an address that other machines reach,
    /// unless a flag allows it.
    fn expect_demo_inside(&self) -> Result<(), Failure> {
        let listeners = [Some(self.listen), self.internal_listen];
        let beyond = listeners
            .into_iter()
            .flatten()
            .find(|address| !address.ip().to_canonical().is_loopback());
        match beyond {
            Some(address) if self.demo && !self.demo_public => Err(Failure::Arguments(format!(
                "--demo prints tokens for everything, and {address} is not only for this machine: \
                 listen on 127.0.0.1, or give --demo-public"
            ))),
            _ => Ok(()),
        }
    }
}
