//! The lists of webhook subscriptions and of their deliveries, page by page.
//!
//! A page ends where pages of all lists do, and yields to other tasks. A page of subscriptions costs the same however
//! many there are: it goes on from rank to rank, and reads each subscription and its deliveries at one instant, by
//! the same function that reads it by its id.

use std::pin::pin;

use tokio::task::yield_now;

use crate::base::actor::Actor;
use crate::base::panics::unless_its_future_panics;
use crate::domain::event_id::EventId;
use crate::domain::rank::Rank;
use crate::domain::webhook::lists;
use crate::domain::webhook::read_subscription::{check_authority, read_subscription};
use crate::domain::webhook::subscription::subscriptions;
use crate::engine::Engine;
use crate::engine::core::{CommandResult, Shared};
use crate::engine::read::lists::ListPage;

/// Number of deliveries after which the task yields to others.
const TURN: usize = 16;

/// Request for a page of a list whose places have the type `P`.
pub struct WebhookListRequest<'a, P> {
    /// Sender of the request.
    pub actor: &'a Actor,
    /// Parameters of the path, and those of the request.
    pub parameters: &'a [(&'a str, &'a str)],
    /// Whether the newest come first.
    pub newest_first: bool,
    /// Place after which the page begins; `None` for the first page.
    pub after: Option<P>,
    /// Maximum number of items.
    pub limit: usize,
}

impl Engine {
    /// Returns a page of the existing webhook subscriptions, in the order of their creation. `grow` is called as in
    /// [`Engine::list`].
    ///
    /// # Errors
    /// Returns the response when there is no page.
    pub async fn list_webhook_subscriptions(
        &self,
        request: &WebhookListRequest<'_, Rank>,
        grow: &mut (dyn FnMut(usize) -> bool + Send),
    ) -> Result<ListPage<Rank>, CommandResult> {
        let page = self.shared.page_of_subscriptions(request, grow);
        let page = unless_its_future_panics(pin!(page)).await;
        page.unwrap_or(Err(CommandResult::Fault))
    }

    /// Returns a page of the deliveries of a webhook subscription, in the order of their events. `grow` is called as
    /// in [`Engine::list`].
    ///
    /// # Errors
    /// Returns the response when there is no page.
    pub async fn list_webhook_deliveries(
        &self,
        request: &WebhookListRequest<'_, EventId>,
        grow: &mut (dyn FnMut(usize) -> bool + Send),
    ) -> Result<ListPage<EventId>, CommandResult> {
        let page = self.shared.page_of_deliveries(request, grow);
        let page = unless_its_future_panics(pin!(page)).await;
        page.unwrap_or(Err(CommandResult::Fault))
    }
}

impl Shared {
    async fn page_of_subscriptions(
        &self,
        request: &WebhookListRequest<'_, Rank>,
        grow: &mut (dyn FnMut(usize) -> bool + Send),
    ) -> Result<ListPage<Rank>, CommandResult> {
        let actor = request.actor;
        let may_act = self.may_act(&actor.subject).await?;
        let (may_manage, position) = self.read_now(check_authority, actor, &[], may_act).await?;
        if let Err(rejection) = may_manage {
            let refused = self.refuse_if_still_active(rejection, position, Some(may_act));
            return Err(refused.await);
        }
        let list = subscriptions();
        let (mut page, mut after) = (ListPage::default(), request.after.clone());
        while let Some(rank) = self
            .tables
            .next_rank(list, after.as_ref(), request.newest_first)
        {
            if page.count == request.limit {
                page.next = after;
                break;
            }
            // A subscription may have megabytes of deliveries, which are read with it.
            yield_now().await;
            let path = [("subscriptionId", rank.id())];
            let (found, _) = self
                .read_now(read_subscription, actor, &path, may_act)
                .await?;
            // A subscription that was deleted meanwhile is skipped.
            if let Ok(found) = found
                && !page.add(&found.body, request.limit, grow)?
            {
                page.next = after;
                break;
            }
            after = Some(rank);
        }
        page.position = self.journal.appended();
        self.once_durable(page, may_act).await
    }

    async fn page_of_deliveries(
        &self,
        request: &WebhookListRequest<'_, EventId>,
        grow: &mut (dyn FnMut(usize) -> bool + Send),
    ) -> Result<ListPage<EventId>, CommandResult> {
        let (actor, parameters) = (request.actor, request.parameters);
        let may_act = self.may_act(&actor.subject).await?;
        let (found, position) = self
            .read_now(lists::deliveries, actor, parameters, may_act)
            .await?;
        let mut all = match found {
            Ok(all) => all,
            Err(rejection) => {
                let refused = self.refuse_if_still_active(rejection, position, Some(may_act));
                return Err(refused.await);
            }
        };
        if request.newest_first {
            all.reverse();
        }
        let is_beyond = |id: EventId| match request.after {
            None => true,
            Some(after) if request.newest_first => id < after,
            Some(after) => id > after,
        };
        let (mut page, mut last) = (ListPage::default(), None);
        for one in all.iter().skip_while(|one| !is_beyond(one.id)) {
            if page.count > 0 && page.count.is_multiple_of(TURN) {
                yield_now().await;
            }
            if !page.add(&lists::delivery_item(one), request.limit, grow)? {
                page.next = last;
                break;
            }
            last = Some(one.id);
        }
        page.position = position;
        self.once_durable(page, may_act).await
    }
}
