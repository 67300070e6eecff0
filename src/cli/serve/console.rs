//! The console of a server: on which listeners it is served, and how users sign in.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::demo::Demo;
use crate::cli::exit::Failure;
use crate::cli::settings::shown::shown;
use crate::http::console::sign_in_link::SignInLink;
use crate::http::console::{BrowserClient, Console, ConsoleSettings, PATH};
use crate::http::provider::Provider;
use crate::http::route::Offer;

/// Whether the console is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Served {
    /// On every listener.
    On,
    /// Nowhere.
    Off,
}

/// The flags of the console.
#[derive(Args)]
pub(super) struct ConsoleArgs {
    /// Serves the console at /console on every listener (on) or nowhere (off). By default it is
    /// on --internal-listen, and with --demo on all. A listener with the console also serves the
    /// routes that it calls.
    #[arg(long, value_name = "on|off", value_enum, num_args = 0..=1, default_missing_value = "on",
        hide_possible_values = true)]
    console: Option<Served>,
    /// The client at the identity provider (--issuer) that people sign in to the console with: a
    /// public one, authorization code with PKCE, with /console as a redirect URI. Without it
    /// they sign in with a token that they have.
    #[arg(long, value_name = "ID")]
    console_client_id: Option<String>,
    /// The scopes that the console requests from the identity provider.
    #[arg(long, value_name = "SCOPES", default_value = "openid")]
    console_scope: String,
    /// The resource that the console requests a token for (RFC 8707), if the identity provider
    /// requires it.
    #[arg(long, value_name = "URI", requires = "console_client_id")]
    console_resource: Option<String>,
}

/// The consoles, by the listeners that serve them.
pub(super) struct Consoles {
    pub(super) public: Option<Arc<Console>>,
    pub(super) internal: Option<Arc<Console>>,
    /// The code of the link that signs in once.
    pub(super) code: Option<String>,
}

impl Consoles {
    /// Returns what the internal listener offers.
    pub(super) fn offer_inside(&self) -> Offer {
        match self.internal {
            Some(_) => Offer::All,
            None => Offer::Internal,
        }
    }

    /// Returns the lines that the start prints for the console: `base` is the public address, `inside` the internal
    /// one.
    pub(super) fn start_lines(&self, base: &str, inside: Option<&str>) -> Vec<String> {
        let mut lines = Vec::new();
        let places = [(&self.public, Some(base)), (&self.internal, inside)];
        for (console, place) in places {
            let (Some(_), Some(place)) = (console, place) else {
                continue;
            };
            lines.push(match &self.code {
                Some(code) => format!(
                    "# the console; this link signs in once, from this machine, within ten minutes:\n\
                     # {place}{PATH}#link={code}"
                ),
                None => format!("console on {place}{PATH}"),
            });
        }
        lines
    }
}

impl ConsoleArgs {
    /// Returns the client at the provider, if --console-client-id is given.
    ///
    /// # Errors
    /// Exit code 2, when the issuer is not the URL of a provider.
    pub(super) fn client(&self, issuer: &str) -> Result<Option<BrowserClient>, Failure> {
        let Some(client_id) = &self.console_client_id else {
            return Ok(None);
        };
        Provider::is_one(issuer).map_err(|why| {
            let issuer = shown(issuer, "--issuer");
            Failure::Arguments(format!(
                "--console-client-id needs --issuer to be the URL of an identity provider, and {issuer} \
                 is not: {why}"
            ))
        })?;
        Ok(Some(BrowserClient {
            issuer: issuer.to_owned(),
            client_id: client_id.clone(),
            scope: self.console_scope.clone(),
            resource: self.console_resource.clone(),
        }))
    }

    /// Returns the consoles for the listeners that serve one. `issuer` is the issuer of the service's tokens, and
    /// `kept` holds its retention settings.
    ///
    /// # Errors
    /// When the flags contradict one another, or a token cannot be signed.
    pub(super) fn consoles(
        &self,
        issuer: &str,
        demo: Option<&Demo>,
        has_inside: bool,
        kept: Value,
    ) -> Result<Consoles, Failure> {
        let (public, internal) = match self.console {
            Some(Served::On) => (true, has_inside),
            Some(Served::Off) => (false, false),
            None => (demo.is_some(), has_inside),
        };
        let provider = self.client(issuer)?;
        if !public && !internal {
            return Ok(Consoles {
                public: None,
                internal: None,
                code: None,
            });
        }
        let (link, code) = match demo {
            Some(demo) => {
                let actors = demo.actors().map_err(Failure::other)?;
                let made = SignInLink::new(json!({"actors": actors}));
                let (link, code) = made.map_err(Failure::from_error)?;
                (Some(link), Some(code))
            }
            None => (None, None),
        };
        let console = Arc::new(Console::new(ConsoleSettings {
            provider,
            kept,
            link,
        }));
        Ok(Consoles {
            public: public.then(|| Arc::clone(&console)),
            internal: internal.then_some(console),
            code,
        })
    }
}
