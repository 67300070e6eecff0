//! The writer's lease: the data about its holder.

use bytes::Bytes;
use serde_json::{Value, json};

use super::handle::JournalHandle;

/// The process that holds the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Name of the holder's node.
    pub node: String,
    /// Name of its process.
    pub process: String,
    /// Address at which it serves, if the lease has one.
    pub address: Option<String>,
    /// Fingerprint of its key of webhooks; older releases do not write it.
    pub webhook_key: Option<String>,
    /// Whether its answers rest on the lease.
    pub relies: bool,
}

impl Holder {
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(value).ok()?;
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let said = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        Some(Self {
            node: text("node"),
            process: text("process"),
            address: said("address"),
            webhook_key: said("webhookKey"),
            relies: value["relies"].as_bool().unwrap_or(true),
        })
    }
}

/// The lease's data about its holder.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Address at which the holder serves.
    pub address: String,
    /// The fingerprint of its key of webhooks.
    pub webhook_key: String,
    /// Whether its answers rest on the lease.
    pub relies: bool,
    /// Minimum number of copies of the bucket.
    pub replicas: usize,
}

impl Terms {
    /// Builds the lease's value. It is unique to each attempt, so a process that reads its own value back knows that
    /// nobody else took the lease.
    pub(super) fn value(&self, link: &JournalHandle) -> Bytes {
        let value = json!({
            "node": link.node(),
            "process": link.process(),
            "attempt": uuid::Uuid::new_v4().to_string(),
            "address": self.address,
            "webhookKey": self.webhook_key,
            "relies": self.relies,
        });
        value.to_string().into()
    }

    /// Whether that holder has another key of webhooks than this process; `None` when its lease has no fingerprint.
    #[must_use]
    pub fn have_other_key_than(&self, holder: &Holder) -> Option<bool> {
        let key = holder.webhook_key.as_ref()?;
        Some(*key != self.webhook_key)
    }

    /// Warns that this process writes in place of one that had another key of webhooks.
    pub fn warn_of_other_key() {
        tracing::warn!(
            "this process replaces a writer with another key of webhooks: the secret of every subscription has \
            changed. If that is not intended, give every node the previous key"
        );
    }
}
