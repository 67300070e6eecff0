//! Where a command runs: at a running server, or in the directory of a stopped one.

use std::path::PathBuf;

use clap::Args;

use super::client::{Access, Client, ServerUrl};
use crate::cli::exit::Failure;

/// The flags for the place.
#[derive(Args)]
pub(super) struct PlaceArgs {
    /// A running server: http://HOST[:PORT] or https://HOST[:PORT].
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "data",
        required_unless_present = "data"
    )]
    url: Option<ServerUrl>,
    #[command(flatten)]
    access: Access,
    /// The data directory of a stopped server.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Where a command runs.
pub(super) enum Place {
    /// A running server, with a client for it; nothing is sent yet.
    Server(Client),
    /// The data directory of a stopped server.
    Stopped(PathBuf),
}

impl PlaceArgs {
    /// Returns where the command runs.
    ///
    /// # Errors
    /// Those of [`Access::client`]; and when neither flag is given.
    pub(super) fn place(&self) -> Result<Place, Failure> {
        match (&self.url, &self.data) {
            (Some(url), _) => Ok(Place::Server(self.access.client(url)?)),
            (None, Some(data)) => Ok(Place::Stopped(data.clone())),
            (None, None) => Err(Failure::Arguments("--url or --data is required".to_owned())),
        }
    }
}
