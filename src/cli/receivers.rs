//! The flags of `carebook serve` that name receivers of messages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::exit::Failure;
use crate::engine::outbox::{NamedReceiver, Pattern, Schedule};
use crate::http::receiver::{HttpReceiver, ReceiverUrl, Secret};

/// The topics that `--directory-url` is for.
const OF_DIRECTORY: &str = "branch_onboarding.*";

/// Which receivers get the messages to other systems.
#[derive(Args)]
pub(super) struct ReceiverArgs {
    /// A receiver of the messages of a topic, such as 'authorization.*=https://authz.example/in';
    /// may be repeated. The longest matching topic wins, `*` is for all. Messages without a
    /// receiver wait; but with none for its topics, the embedded directory carries out at once
    /// what the creation of a branch asks for.
    #[arg(long, value_name = "TOPIC=URL", value_parser = receiver)]
    receiver: Vec<(Pattern, ReceiverUrl)>,
    /// Signs what the receiver of this TOPIC gets, as Standard Webhooks say: FILE holds one line,
    /// whsec_ and the secret in base64.
    #[arg(long, value_name = "TOPIC=FILE", value_parser = secret)]
    receiver_secret: Vec<(Pattern, PathBuf)>,
    /// The same as --receiver 'branch_onboarding.*=URL'.
    #[arg(long, value_name = "URL", value_parser = ReceiverUrl::new)]
    directory_url: Option<ReceiverUrl>,
    /// The pauses before a message is sent again.
    #[arg(long, value_name = "MILLIS,…", value_delimiter = ',', hide = true)]
    receiver_pauses_millis: Vec<u64>,
}

fn receiver(text: &str) -> Result<(Pattern, ReceiverUrl), String> {
    let (topics, url) = text.split_once('=').ok_or("it has to be TOPIC=URL")?;
    let topics = topics
        .parse()
        .map_err(|error| format!("{topics}: {error}"))?;
    Ok((topics, ReceiverUrl::new(url)?))
}

fn secret(text: &str) -> Result<(Pattern, PathBuf), String> {
    let (topics, file) = text.split_once('=').ok_or("it has to be TOPIC=FILE")?;
    let topics = topics
        .parse()
        .map_err(|error| format!("{topics}: {error}"))?;
    Ok((topics, file.into()))
}

impl ReceiverArgs {
    /// The receivers.
    ///
    /// # Errors
    /// When a topic is named twice, a secret belongs to none or cannot be read.
    pub(super) fn named(&self) -> Result<Vec<NamedReceiver>, Failure> {
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
            let text = std::fs::read_to_string(file).map_err(|error| unfit(error.to_string()))?;
            let secret = Secret::read(&text).map_err(unfit)?;
            if secrets.insert(topics.clone(), secret).is_some() {
                return Err(unfit("this topic has two secrets".to_owned()));
            }
        }
        let receivers = urls.into_iter().map(|(topics, url)| {
            let receiver = HttpReceiver::new(url, secrets.remove(&topics));
            let receiver = receiver.map_err(Failure::other)?;
            Ok(NamedReceiver {
                topics,
                receiver: Arc::new(receiver),
            })
        });
        receivers.collect()
    }

    /// The pauses before a message is sent again.
    #[must_use]
    pub(super) fn schedule(&self) -> Schedule {
        if self.receiver_pauses_millis.is_empty() {
            return Schedule::default();
        }
        let pauses = self.receiver_pauses_millis.iter();
        Schedule(
            pauses
                .map(|millis| Duration::from_millis(*millis))
                .collect(),
        )
    }
}
