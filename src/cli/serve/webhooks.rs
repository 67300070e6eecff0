//! Webhooks of a server: their flags, and the thread that delivers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tokio::sync::watch;
use tokio_rustls::rustls::ClientConfig;

use super::webhook_key;
use crate::cli::exit::Failure;
use crate::engine::Engine;
use crate::engine::channel::Bounds;
use crate::engine::webhooks::handle::Webhooks;
use crate::http::client::address::{Allowed, network};
use crate::http::client::room::OutgoingRoom;
use crate::http::post::{Client, Judge};
use crate::http::traces::Tracer;
use crate::http::webhooks::managing::WebhookFront;
use crate::http::webhooks::sender::WebhookSender;

/// The flags of webhooks.
#[derive(Args)]
pub struct WebhookArgs {
    /// The key that the secrets of webhooks are derived from, 32 bytes in base64; by default
    /// webhook.key in the data directory. It is created with mode 0600 when it is missing and
    /// there are no subscriptions yet; keep a copy of it beside every backup.
    #[arg(long, value_name = "FILE")]
    webhook_key: Option<PathBuf>,
    /// A network that webhooks may go to though it is private, link-local or the loopback, such
    /// as 10.1.0.0/16; may be repeated.
    #[arg(long, value_name = "CIDR", value_parser = network)]
    webhooks_allow: Vec<ipnet::IpNet>,
    /// Lets webhooks go to other machines over plain http, which anyone on the path can read.
    #[arg(long)]
    webhooks_allow_http: bool,
    /// Deliveries that may wait in memory over all subscriptions, at about 3 KB each; more are read
    /// from the log when there is room.
    #[arg(long, value_name = "COUNT", default_value_t = 50_000)]
    webhooks_waiting_max: usize,
    /// Divides the pauses between attempts by this; for tests.
    #[arg(long, value_name = "N", default_value_t = 1, hide = true,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    webhooks_hurry: u32,
}

impl WebhookArgs {
    /// Rejects an existing key that cannot be used: the named one, or that in the data directory.
    ///
    /// # Errors
    /// When that is so.
    pub(super) fn check(&self, data: Option<&Path>) -> Result<(), Failure> {
        let checked = match (&self.webhook_key, data) {
            (Some(named), _) => webhook_key::check(named),
            (None, Some(data)) => webhook_key::check_in(data),
            (None, None) => Ok(()),
        };
        checked.map_err(Failure::other)
    }

    /// Starts the thread that delivers, once the engine is the writer, to receivers that `tls` trusts, within `room`;
    /// `tracer` traces the deliveries. The returned sender stops it; then the returned receiver turns true once
    /// nothing is sent any more and the progress is recorded.
    ///
    /// # Errors
    /// When the key cannot be used, or the thread not be started.
    pub fn start(
        &self,
        engine: &Arc<Engine>,
        data: &Path,
        (tls, room): (ClientConfig, OutgoingRoom),
        tracer: Option<Arc<Tracer>>,
    ) -> Result<(WebhookFront, watch::Sender<bool>, watch::Receiver<bool>), Failure> {
        if self.webhooks_allow_http {
            engine.allow_plain_webhooks();
        }
        let file = webhook_key::place(self.webhook_key.as_deref(), data);
        if engine.is_standby() && !file.exists() {
            // A key of its own would sign differently from the writer's, from the takeover on.
            return Err(Failure::other(format!(
                "there is no key of webhooks at {}: put a copy of the writer's there, or name it with \
                 --webhook-key",
                file.display()
            )));
        }
        let key = webhook_key::open(&file, engine.webhook_subscriptions());
        let key = Arc::new(key.map_err(Failure::other)?);
        let judge = Judge::Webhooks {
            allowed: Arc::new(Allowed(self.webhooks_allow.clone())),
            plain: self.webhooks_allow_http,
        };
        let bounds = Bounds {
            hurry: self.webhooks_hurry,
            ..Bounds::default()
        };
        let client = Client::within(room, tls).traced_by(tracer);
        let sender = WebhookSender::new(client, judge, Arc::clone(&key));
        let (dispatcher, work) =
            engine.deliver_webhooks(Arc::new(sender), bounds, self.webhooks_waiting_max);
        let (sender, stop) = watch::channel(false);
        let engine = Arc::clone(engine);
        let stopped = on_a_thread(engine, work, dispatcher.clone(), stop);
        let stopped = stopped.map_err(Failure::from_error)?;
        Ok((WebhookFront { key, dispatcher }, sender, stopped))
    }
}

fn on_a_thread(
    engine: Arc<Engine>,
    work: impl Future<Output = ()> + Send + 'static,
    dispatcher: Webhooks,
    mut stop: watch::Receiver<bool>,
) -> std::io::Result<watch::Receiver<bool>> {
    let (sender, stopped) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = std::thread::Builder::new().name("webhooks".to_owned());
    thread.spawn(move || {
        runtime.block_on(async {
            let writes = tokio::select! {
                () = engine.until_writer() => true,
                _ = stop.wait_for(|is_stopped| *is_stopped) => false,
            };
            if writes {
                let work = tokio::spawn(work);
                // If the sender is dropped, it runs as long as the process.
                let _ = stop.wait_for(|is_stopped| *is_stopped).await;
                dispatcher.stop().await;
                work.abort();
            }
            let _ = sender.send(true);
            // Actors of resources may live here: they serve until the process ends.
            std::future::pending::<()>().await;
        });
    })?;
    Ok(stopped)
}
