//! The address of the journal, and the login there.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use async_nats::ServerAddr;
use clap::Args;
use tokio_rustls::rustls::ClientConfig;

use super::super::exit::Failure;
use super::super::nats::{NatsUrl, login};
use super::super::trust::TrustArgs;
use crate::stream::connection::Connection;
use crate::stream::settings::Names;

/// The servers of a journal, one or several: `nats://` or `tls://`.
#[derive(Clone)]
pub(in super::super) struct JournalUrl(Vec<NatsUrl>);

impl FromStr for JournalUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scheme_end = text.find("://").map_or(0, |at| at + 3);
        let (scheme, servers) = text.split_at(scheme_end);
        let urls: Result<Vec<NatsUrl>, String> = servers
            .split(',')
            .map(|server| match server.contains("://") {
                true => server.parse(),
                false => format!("{scheme}{server}").parse(),
            })
            .collect();
        let urls = urls?;
        let users = urls.iter().filter(|url| url.user.is_some());
        if users.count() > 1 {
            return Err("it names a user more than once".to_owned());
        }
        Ok(Self(urls))
    }
}

impl JournalUrl {
    fn addresses(&self) -> Vec<ServerAddr> {
        self.0.iter().map(|url| url.address.clone()).collect()
    }

    /// Returns the URL that has the login.
    fn speaker(&self) -> Option<&NatsUrl> {
        let speaker = self.0.iter().find(|url| url.user.is_some());
        speaker.or(self.0.first())
    }
}

/// The place of a journal.
#[derive(Args, Clone)]
pub(in super::super) struct PlaceArgs {
    /// The servers of the journal: nats://HOST[:PORT][,HOST…] or tls://…
    #[arg(long, value_name = "URL", id = "journal")]
    pub(super) journal: Option<JournalUrl>,
    /// The journal's name: its stream is CAREBOOK_NAME.
    #[arg(
        long,
        value_name = "NAME",
        requires = "journal",
        default_value = "main"
    )]
    pub(super) journal_name: String,
    /// The credentials for the journal's servers, a file with a user's JWT and seed.
    #[arg(long, value_name = "FILE", requires = "journal")]
    pub(super) journal_credentials: Option<PathBuf>,
    /// The fewest replicas that the stream may have. Fewer than 3 are for trials: then the loss of
    /// one server loses acknowledged commits, or stops the service.
    #[arg(long, value_name = "N", requires = "journal", default_value_t = 3,
        value_parser = clap::value_parser!(u64).range(1..=5))]
    pub(super) journal_replicas: u64,
}

impl PlaceArgs {
    /// Whether a journal is named.
    pub(in super::super) fn is_given(&self) -> bool {
        self.journal.is_some()
    }

    /// Connects to the servers, which over TLS show a certificate that is `trusted`.
    ///
    /// # Errors
    /// When the arguments are wrong, or no server is reached.
    pub(super) fn connect(&self, trusted: &ClientConfig) -> Result<Arc<Connection>, Failure> {
        let (servers, names, options) = self.target(trusted)?;
        Connection::open(servers, options, names).map_err(|error| Failure::of_journal(&error))
    }

    /// Checks everything that needs no connection.
    ///
    /// # Errors
    /// When the arguments are wrong.
    pub(in super::super) fn check(&self, trusted: &ClientConfig) -> Result<(), Failure> {
        match self.is_given() {
            true => self.target(trusted).map(drop),
            false => Ok(()),
        }
    }

    fn target(
        &self,
        trusted: &ClientConfig,
    ) -> Result<(Vec<ServerAddr>, Names, async_nats::ConnectOptions), Failure> {
        let (Some(url), Some(speaker)) = (
            &self.journal,
            self.journal.as_ref().and_then(JournalUrl::speaker),
        ) else {
            return Err(Failure::Arguments(
                "--journal nats://HOST[:PORT][,HOST…] says where the journal is".to_owned(),
            ));
        };
        let names = Names::of(&self.journal_name)
            .map_err(|why| Failure::Arguments(format!("--journal-name: {why}")))?;
        let file = self.journal_credentials.as_deref();
        let options = login(speaker, file, "journal", trusted)?;
        Ok((url.addresses(), names, options))
    }
}

/// The arguments of each of these commands.
#[derive(Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) place: PlaceArgs,
    #[command(flatten)]
    pub(super) trust: TrustArgs,
    /// Prints JSON instead of a table.
    #[arg(long)]
    pub(super) json: bool,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn several_servers_are_named_by_one_url_and_one_user() {
        let url: JournalUrl = "nats://ann:p@a:4222,b,[::1]:4333".parse().unwrap();
        let shown: Vec<_> = url.0.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["nats://a:4222", "nats://b", "nats://[::1]:4333"]);
        assert_eq!(url.speaker().unwrap().user.as_deref(), Some("ann"));
        for bad in ["", "a,b", "nats://a,,b", "nats://u@a,v@b", "http://a"] {
            assert!(bad.parse::<JournalUrl>().is_err(), "{bad}");
        }
    }
}
