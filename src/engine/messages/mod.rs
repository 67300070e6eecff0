//! Messages on their way: what commits send is queued in the outbox, and what its receivers have
//! done with it is committed.

mod attempt;

use std::any::Any;
use std::sync::Arc;

use super::Engine;
use super::channel::Bounds;
use super::core::{CommandResult, Shared};
use super::outbox::{NamedReceiver, OutboxFigures};
use crate::base::time::Timestamp;
use crate::domain::change::Change;
use crate::domain::operation::OutboxMessage;
use crate::domain::outbox::list::{MessagePage, MessageQuery, page};
use crate::domain::outbox::message::{Message, born, numbers_near, unsettled_near};
use crate::domain::resource::ReadView;

impl Engine {
    /// Sets the receivers of messages; each gets the messages of the topics that it is named for. To be called once,
    /// before the first command.
    pub fn deliver_to(&self, receivers: Vec<NamedReceiver>, bounds: Bounds) {
        self.shared.outbox.deliver_to(receivers, bounds);
    }

    /// Begins to deliver messages, including those not settled when the log was last closed. A standby begins when it
    /// has become the writer. To be called once, on a lane.
    pub fn start_deliveries(&self) {
        if !self.is_standby() {
            return self.shared.start_deliveries();
        }
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            shared.role.until_writer().await;
            shared.start_deliveries();
        });
    }

    /// Returns the page of the selected messages after the number `after`, and the position that it depends on.
    ///
    /// # Errors
    /// When the log has failed.
    pub async fn messages(
        &self,
        asked: &MessageQuery,
        after: Option<i64>,
    ) -> Result<(MessagePage, u64), CommandResult> {
        let shared = &*self.shared;
        let mut page = {
            let view = ReadView::new(&shared.tables);
            page(&view, asked, after, shared.ids.last_outbox_number())
        };
        let now = shared.both_clocks();
        for message in &mut page.messages {
            shared.outbox.show_due(message, now);
        }
        // The page is not read at one instant, so its content may depend on any commit up to the end of the reading.
        let position = shared.journal.appended();
        match shared.lanes.wait(position).await {
            Ok(()) => Ok((page, position)),
            Err(_) => Err(CommandResult::Unavailable),
        }
    }

    /// Returns the figures of messages and their receivers.
    #[must_use]
    pub fn figures_of_outbox(&self) -> OutboxFigures {
        self.shared.outbox.figures(self.shared.both_clocks())
    }
}

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
        for queue in self.outbox.queues() {
            let (shared, queue) = (Arc::clone(self), Arc::clone(queue));
            tokio::spawn(async move { shared.deliver(&queue).await });
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
                if message.number <= last {
                    self.outbox.found(position, &message, self.both_clocks());
                }
            }
            first = numbers_near(first).end;
        }
        let unclaimed = self.outbox.unclaimed();
        if unclaimed > 0 {
            tracing::warn!(
                messages = unclaimed,
                "messages wait for receivers, or are dead: none is named for their topics"
            );
        }
    }
}
