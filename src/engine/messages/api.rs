//! The engine's interface for messages and their receivers.

use std::sync::Arc;

use crate::domain::outbox::list::{MessagePage, MessageQuery, page};
use crate::domain::resource::ReadView;
use crate::engine::Engine;
use crate::engine::channel::Bounds;
use crate::engine::core::CommandResult;
use crate::engine::outbox::{NamedReceiver, OutboxFigures};

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
