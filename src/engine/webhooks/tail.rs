//! The reader of the log's end, for all subscriptions near it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::domain::event_id::EventId;
use crate::engine::core::Shared;
use crate::engine::feed::{EventFilter, EventReader, NoPage, Page};

/// Number of events of a page.
const TAIL_PAGE: usize = 1_000;
/// How long to wait when the log cannot be read.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// The reader of the log's end.
pub(super) struct Tail {
    pub(super) pages: mpsc::Receiver<Result<Page, NoPage>>,
    /// Point up to which events were passed on, as the reader counts.
    pub(super) upto: EventId,
    /// Last event passed on.
    pub(super) last_event: EventId,
    pub(super) reader: tokio::task::AbortHandle,
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Tail {
    /// Begins after the durable end of the log.
    pub(super) fn begin(shared: &Arc<Shared>) -> Self {
        let (sender, pages) = mpsc::channel(2);
        let upto = EventId::behind(shared.journal.durable());
        let shared = Arc::clone(shared);
        let reader = tokio::spawn(async move {
            let all = Arc::new(EventFilter::default());
            let mut after = upto;
            while shared.feed.beyond(after.position).await {
                let reader = EventReader::Delivery;
                let page = shared.events(reader, after, &all, TAIL_PAGE).await;
                if matches!(page, Err(NoPage::Unavailable | NoPage::Future)) {
                    sleep(READ_PAUSE).await;
                    continue;
                }
                if let Ok(page) = &page {
                    after = page.next;
                }
                let is_lost = page.is_err();
                if sender.send(page).await.is_err() || is_lost {
                    return;
                }
            }
        });
        Self {
            pages,
            upto,
            last_event: EventId::NONE,
            reader: reader.abort_handle(),
        }
    }
}

/// Waits for the next page of the tail; without a tail, for ever.
pub(super) async fn next_page(tail: &mut Option<Tail>) -> Option<Result<Page, NoPage>> {
    match tail {
        Some(tail) => tail.pages.recv().await,
        None => std::future::pending().await,
    }
}
