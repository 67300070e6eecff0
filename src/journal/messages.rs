//! Messages to other systems as records carry them: what a record's outbox makes of tables.
//!
//! Records always carried the messages that they send; messages became resources only later. What
//! older versions stored is read as if they had been: a message in a record that a snapshot keeps
//! has no state there, and the branch's deliveries recorded that the directory of branches had
//! taken one.

use std::collections::{BTreeMap, HashMap};

use super::record::{Record, RecordChange};
use super::snapshot::StateEntry;
use crate::base::codec::{self, Blob, DecodeError};
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::time::Timestamp;
use crate::domain::branch::deliveries::{BranchDeliveries, BranchDeliveriesEvent};
use crate::domain::branch::onboarding::SideEffectKind;
use crate::domain::operation::OutboxMessage;
use crate::domain::outbox::message::{About, Message, MessageEvent, birth};
use crate::domain::registered::version;
use crate::domain::resource::Resource as _;

/// The kind of messages, and the version in which the present program stores them.
pub(crate) const KIND_AND_VERSION: (u16, u16) = (Message::KIND.tag, version::<Message>());

/// A change of a message that a record makes without having it among its changes.
pub struct Sent {
    key: Digest,
    /// The position of the message's commit before; 0 for its birth.
    before: u64,
    /// The event's bytes.
    event: Vec<u8>,
}

impl Sent {
    /// The change, as a record would have it.
    #[must_use]
    pub fn change(&self) -> RecordChange<'_> {
        let (kind, version) = KIND_AND_VERSION;
        RecordChange {
            kind,
            version,
            key: self.key,
            before: self.before,
            revision: Revision::NONE,
            advances: true,
            path: Vec::new(),
            event: Blob(&self.event),
            base: None,
        }
    }
}

/// The event of the birth of the message with this key, if the record has it.
pub(super) fn born_as(record: &Record<'_>, key: Digest, log_id: [u8; 16]) -> Option<Vec<u8>> {
    let mut outbox = record.outbox.iter();
    let message = outbox.find(|message| Message::key_of(message.number) == key)?;
    Some(codec::encode(&birth(message, log_id)))
}

/// What is known of messages that programs stored in which they were no resources.
#[derive(Default)]
pub struct MessagesOfOld {
    /// Those of kept records, each with its position.
    kept: BTreeMap<i64, (u64, Message)>,
    /// Where the messages were born that ask for a side effect and wait.
    waiting: HashMap<i64, u64>,
}

/// Whether the change may tell that the directory of branches has taken messages: only programs in
/// which messages were no resources made such changes.
pub(super) fn completes_old(change: &RecordChange<'_>) -> bool {
    change.kind == BranchDeliveries::KIND.tag && change.before > 0
}

impl MessagesOfOld {
    /// A kept record has a message.
    pub fn kept(
        &mut self,
        position: u64,
        at: Timestamp,
        message: &OutboxMessage,
        log_id: [u8; 16],
    ) {
        let born = Message::apply(None, &birth(message, log_id), at);
        self.kept.insert(message.number, (position, born));
    }

    /// A snapshot has a state, after its kept records.
    ///
    /// # Errors
    /// When it does not decode.
    pub fn entry(&mut self, entry: &StateEntry<'_>) -> Result<(), DecodeError> {
        if self.kept.is_empty() || entry.kind != BranchDeliveries::KIND.tag {
            return Ok(());
        }
        let deliveries: BranchDeliveries = codec::decode(entry.state.0)?;
        for number in deliveries.completed() {
            if let Some((position, message)) = self.kept.get_mut(&number)
                && message.unsettled.is_some()
            {
                let taken = MessageEvent::Taken(message.about());
                *message = Message::apply(Some(message.clone()), &taken, Timestamp::default());
                *position = entry.position.max(*position);
            }
        }
        Ok(())
    }

    /// The messages of kept records, each with its position, key and state.
    pub fn take_kept(&mut self) -> Vec<(u64, (Digest, Vec<u8>))> {
        let kept = std::mem::take(&mut self.kept).into_values();
        kept.map(|(position, message)| {
            if message.unsettled.is_some() {
                self.waiting.insert(message.number, position);
            }
            (position, (message.key(), codec::encode(&message)))
        })
        .collect()
    }

    /// What the record at `position` makes of messages.
    ///
    /// # Errors
    /// When an event of it does not decode.
    pub fn record(
        &mut self,
        position: u64,
        record: &Record<'_>,
        log_id: [u8; 16],
    ) -> Result<Vec<Sent>, DecodeError> {
        let mut sent = Vec::new();
        for message in &record.outbox {
            let event = birth(message, log_id);
            if let MessageEvent::Born(born) = &event
                && born.body.is_some()
                && SideEffectKind::ALL
                    .iter()
                    .any(|kind| kind.topic() == &*born.topic)
            {
                self.waiting.insert(message.number, position);
            }
            sent.push(Sent {
                key: Message::key_of(message.number),
                before: 0,
                event: codec::encode(&event),
            });
        }
        for change in record.changes.iter().filter(|change| completes_old(change)) {
            let event: BranchDeliveriesEvent = codec::decode(change.event.0)?;
            for number in event.taken() {
                let Some(before) = self.waiting.remove(number) else {
                    continue;
                };
                // What it is about is given only with a record's own changes.
                let taken = MessageEvent::Taken(About::default());
                sent.push(Sent {
                    key: Message::key_of(*number),
                    before,
                    event: codec::encode(&taken),
                });
            }
        }
        Ok(sent)
    }
}
