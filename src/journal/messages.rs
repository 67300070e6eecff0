//! Messages to other systems in records: derives changes of tables from a record's outbox.
//!
//! Records have always carried the messages that they send, but messages became resources only later. Data of older
//! versions is read as if messages had been resources: a message in a record that a snapshot keeps has no state
//! there, and it was the branch's deliveries that recorded that the directory of branches had taken one.

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
use crate::domain::resource::Resource as _;
use crate::domain::version::version;

/// Kind of messages, and the version in which the present program stores them.
pub(crate) const KIND_AND_VERSION: (u16, u16) = (Message::KIND.tag, version::<Message>());

/// A change of a message that a record implies, without listing it among its changes.
pub struct Sent {
    key: Digest,
    /// Position of the message's previous commit; 0 for its birth.
    before: u64,
    /// The event's bytes.
    event: Vec<u8>,
}

impl Sent {
    /// Returns the change as a record would list it.
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

/// Returns the birth event of the message with this key, if the record contains the message.
pub(super) fn born_as(record: &Record<'_>, key: Digest, log_id: [u8; 16]) -> Option<Vec<u8>> {
    let mut outbox = record.outbox.iter();
    let message = outbox.find(|message| Message::key_of(message.number) == key)?;
    Some(codec::encode(&birth(message, log_id)))
}

/// Messages stored by programs in which messages were no resources.
#[derive(Default)]
pub struct MessagesOfOld {
    /// Messages in kept records by number, each with its position.
    kept: BTreeMap<i64, (u64, Message)>,
    /// Birth positions of waiting messages that request a side effect.
    waiting: HashMap<i64, u64>,
}

/// Whether the change may record that the directory of branches has taken messages: only programs in which messages
/// were no resources made such changes.
pub(super) fn completes_old(change: &RecordChange<'_>) -> bool {
    change.kind == BranchDeliveries::KIND.tag && change.before > 0
}

impl MessagesOfOld {
    /// Notes a message in a kept record.
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

    /// Notes a state in a snapshot; called after its kept records.
    ///
    /// # Errors
    /// When the state cannot be decoded.
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

    /// Takes the messages of kept records, each with its position, key and state.
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

    /// Returns the changes of messages that the record at `position` implies.
    ///
    /// # Errors
    /// When an event of the record cannot be decoded.
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
                // Only a record's own changes have the data about the resource.
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
