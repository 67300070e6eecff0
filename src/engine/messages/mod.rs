//! Messages on their way: what commits send is queued in the outbox, and what its receivers have
//! done with it is committed.

mod api;
mod attempt;

use std::any::Any;
use std::sync::Arc;

use super::core::Shared;
use crate::base::time::Timestamp;
use crate::domain::change::Change;
use crate::domain::operation::OutboxMessage;
use crate::domain::outbox::message::{Message, born, numbers_near, unsettled_near};
use crate::domain::resource::ReadView;

impl Shared {
    /// The messages that a commit sends; what their births change is added to `changes`.
    pub(crate) fn born(
        &self,
        sent: &[OutboxMessage],
        at: Timestamp,
        changes: &mut Vec<Change>,
    ) -> Vec<Message> {
        let births = sent.iter().map(|message| born(message, self.log_id, at));
        let (messages, births): (Vec<_>, Vec<_>) = births.unzip();
        changes.extend(births);
        messages
    }

    /// The commit at `position` has sent these messages, and left its own resource so, which may be
    /// a message.
    pub(crate) fn touch(&self, position: u64, sent: &[Message], own: &(dyn Any + Send)) {
        for message in sent.iter().chain(own.downcast_ref::<Message>()) {
            self.outbox.touched(position, message, self.both_clocks());
        }
    }

    /// Queues what waits since before the start, and begins to deliver. To be called once, on a
    /// lane.
    fn start_deliveries(self: &Arc<Self>) {
        let last = self.role.messages_before();
        for line in self.outbox.lines() {
            let (shared, line) = (Arc::clone(self), Arc::clone(line));
            tokio::spawn(async move { shared.deliver(&line).await });
        }
        let shared = Arc::clone(self);
        tokio::task::spawn_blocking(move || shared.queue_unsettled(last));
    }

    /// Queues the messages up to the number `last` that were not settled when the log was opened.
    fn queue_unsettled(&self, last: i64) {
        let mut first = 0;
        while first <= last {
            let view = ReadView::new(&self.tables);
            let mut messages = view.all_listed_with_positions::<Message>(unsettled_near(first));
            messages.sort_unstable_by_key(|(message, _)| message.number);
            for (message, position) in messages {
                if message.number > last {
                    continue;
                }
                match self.outbox.line(&message.topic) {
                    Some(line) => {
                        line.queue
                            .lock()
                            .put(position, &message, self.both_clocks());
                        line.news.notify_one();
                    }
                    None => self.outbox.unclaimed.found(message.number),
                }
            }
            first = numbers_near(first).end;
        }
        let unclaimed = self.outbox.unclaimed.count();
        if unclaimed > 0 {
            tracing::warn!(
                messages = unclaimed,
                "messages wait for receivers, or are dead: none is named for their topics"
            );
        }
    }
}
