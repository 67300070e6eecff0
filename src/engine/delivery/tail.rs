//! The reader of the log's end, for all subscriptions that are near it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::engine::core::Shared;
use crate::engine::feed::{EventFilter, EventReader, NoPage, Page};
use crate::journal::events::EventId;

/// Events of a page.
const TAIL_PAGE: usize = 1_000;
/// How long to wait when the log cannot be read.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// The reader of the log's end.
pub(super) struct Tail {
    pub(super) pages: mpsc::Receiver<Result<Page, NoPage>>,
    /// Up to here its events were handed on, as it counts.
    pub(super) upto: EventId,
    /// The last event that was.
    pub(super) last_event: EventId,
    pub(super) reader: tokio::task::AbortHandle,
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Tail {
    /// Begins behind what is durable.
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

/// The next page of the tail; for ever, where there is none.
pub(super) async fn next_page(tail: &mut Option<Tail>) -> Option<Result<Page, NoPage>> {
    match tail {
        Some(tail) => tail.pages.recv().await,
        None => std::future::pending().await,
    }
}
