//! The flags of `carebook serve` that name receivers of messages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tokio_rustls::rustls::ClientConfig;

use crate::cli::exit::Failure;
use crate::domain::outbox::topics;
use crate::engine::channel::Bounds;
use crate::engine::outbox::{NamedReceiver, Pattern};
use crate::http::client::room::OutgoingRoom;
use crate::http::outbox::receiver::{HttpReceiver, ReceiverUrl, secret_of};
use crate::http::post::Client;
use crate::http::small_file::{self, SMALL_FILE_BYTES_MAX};
use crate::http::traces::Tracer;

/// The topics that `--directory-url` receives.
const OF_DIRECTORY: &str = "branch_onboarding.*";

/// Which receivers get the messages to other systems.
#[derive(Args)]
pub(super) struct ReceiverArgs {
    /// A receiver of the messages of a topic, such as 'authorization.*=https://authz.example/in';
    /// may be repeated. The longest matching topic wins, `*` is for all, and one that no message has
    /// is refused. Messages without a receiver wait; only those of the creation of a branch are then
    /// completed at once by the embedded directory.
    #[arg(long, value_name = "TOPIC=URL", value_parser = receiver)]
    receiver: Vec<(Pattern, ReceiverUrl)>,
    /// Signs the messages to the receiver of this TOPIC, as Standard Webhooks define it: FILE holds
    /// one line, whsec_ and the secret in base64.
    #[arg(long, value_name = "TOPIC=FILE", value_parser = secret)]
    receiver_secret: Vec<(Pattern, PathBuf)>,
    /// The same as --receiver 'branch_onboarding.*=URL'.
    #[arg(long, value_name = "URL", value_parser = ReceiverUrl::new)]
    directory_url: Option<ReceiverUrl>,
    /// Divides the pauses between attempts by this; for tests.
    #[arg(long, value_name = "N", default_value_t = 1, hide = true,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    receivers_hurry: u32,
}

fn receiver(text: &str) -> Result<(Pattern, ReceiverUrl), String> {
    let (topics, url) = text.split_once('=').ok_or("it has to be TOPIC=URL")?;
    // The text is not quoted in errors: of a URL without a topic it may be a part of the password.
    let pattern = topics
        .parse::<Pattern>()
        .map_err(|error| error.to_string())?;
    if !topics::ALL.iter().any(|topic| pattern.matches(topic)) {
        return Err(format!(
            "no message has such a topic; there are {}",
            topics::ALL.join(", ")
        ));
    }
    Ok((pattern, ReceiverUrl::new(url)?))
}

fn secret(text: &str) -> Result<(Pattern, PathBuf), String> {
    let (topics, file) = text.split_once('=').ok_or("it has to be TOPIC=FILE")?;
    let topics = topics
        .parse()
        .map_err(|error| format!("{topics}: {error}"))?;
    Ok((topics, file.into()))
}

impl ReceiverArgs {
    /// Returns the number of receivers.
    pub(super) fn count(&self) -> usize {
        self.receiver.len() + usize::from(self.directory_url.is_some())
    }

    /// Returns the receivers. `trusted` judges their certificates, connections to them stay within `room`, and `tracer`
    /// traces their deliveries.
    ///
    /// # Errors
    /// When a topic is named twice, or when a secret has no receiver or cannot be read.
    pub(super) fn named(
        &self,
        trusted: &ClientConfig,
        room: OutgoingRoom,
        tracer: Option<&Arc<Tracer>>,
    ) -> Result<Vec<NamedReceiver>, Failure> {
        let mut urls = BTreeMap::new();
        let directory = self.directory_url.iter().map(|url| {
            let topics = OF_DIRECTORY.parse().expect("a constant topic parses");
            (topics, url.clone())
        });
        for (topics, url) in self.receiver.iter().cloned().chain(directory) {
            let before = urls.insert(topics.clone(), url);
            if before.is_some() {
                return Err(Failure::Arguments(format!(
                    "two receivers are named for the topic {topics}"
                )));
            }
        }
        let mut secrets = BTreeMap::new();
        for (topics, file) in &self.receiver_secret {
            let unfit = |why: String| {
                let file = file.display();
                Failure::Arguments(format!("--receiver-secret {topics}={file}: {why}"))
            };
            if !urls.contains_key(topics) {
                return Err(unfit("no receiver is named for this topic".to_owned()));
            }
            let text = small_file::read_text(file, SMALL_FILE_BYTES_MAX);
            let text = text.map_err(|error| unfit(error.to_string()))?;
            let secret = secret_of(&text).map_err(unfit)?;
            if secrets.insert(topics.clone(), secret).is_some() {
                return Err(unfit("this topic has two secrets".to_owned()));
            }
        }
        if urls.is_empty() {
            return Ok(Vec::new());
        }
        let client = Client::within(room, trusted.clone()).traced_by(tracer.cloned());
        let receivers = urls.into_iter().map(|(topics, url)| {
            let receiver = HttpReceiver::new(url, secrets.remove(&topics), client.clone());
            NamedReceiver {
                topics,
                receiver: Arc::new(receiver),
            }
        });
        Ok(receivers.collect())
    }

    /// Returns the limits on the messages in flight to a receiver, which stay within `room` over all receivers, with
    /// one of each in any case.
    #[must_use]
    pub(super) fn bounds(&self, room: OutgoingRoom) -> Bounds {
        let usual = Bounds::default();
        let of_one = room.requests.checked_div(self.count());
        let on_way_max = of_one.map_or(usual.on_way_max, |most| most.clamp(1, usual.on_way_max));
        Bounds {
            on_way_max,
            on_way_doubtful_max: usual.on_way_doubtful_max.min(on_way_max),
            hurry: self.receivers_hurry,
            ..usual
        }
    }
}
