//! Lists of subscriptions and of deliveries, page by page.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::body::{DeliveryBody, SubscriptionBody};
use super::deliveries::WebhookDeliveries;
use super::read_subscription::{check_authority, found};
use super::subscription::{WebhookSubscription, subscriptions};
use crate::domain::event_id::EventId;
use crate::domain::operation::to_json;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource;

/// A page of a list: what follows `after` in the order asked for. The parameters `limit`, `order`
/// and `after` are the caller's, who has checked them; `after` is what an earlier page gave as
/// `next`.
#[derive(Serialize, Deserialize)]
struct PageBody {
    items: Vec<Box<RawValue>>,
    next: Option<String>,
}

fn page<T>(
    all: impl Iterator<Item = T>,
    limit: usize,
    id: impl Fn(&T) -> String,
    item: impl Fn(&T) -> Vec<u8>,
) -> PageBody {
    let mut all = all.peekable();
    let (mut items, mut last) = (Vec::new(), None);
    for one in all.by_ref().take(limit) {
        let text = String::from_utf8(item(&one)).unwrap_or_default();
        items.extend(RawValue::from_string(text));
        last = Some(id(&one));
    }
    PageBody {
        items,
        next: last.filter(|_| all.peek().is_some()),
    }
}

fn limit(request: &ReadRequest<'_>) -> usize {
    request.param("limit").parse().unwrap_or(50)
}

fn is_oldest_first(request: &ReadRequest<'_>) -> bool {
    request.param("order") == "oldest"
}

/// Reads a page of the subscriptions, in the order of their creation.
///
/// # Errors
/// `permission_denied` without the permission.
pub fn list_subscriptions(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    check_authority(request)?;
    let all = request
        .view
        .all_listed::<WebhookSubscription>(subscriptions());
    // Those of one millisecond are ordered by their identifiers.
    let rank = |of: &WebhookSubscription| format!("{:020}/{}", of.created_at.millis(), of.id()[0]);
    let mut all: Vec<_> = all.into_iter().map(|one| (rank(&one), one)).collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    let is_oldest_first = is_oldest_first(request);
    if !is_oldest_first {
        all.reverse();
    }
    let after = request.param("after");
    let all = all.into_iter().skip_while(|(rank, _)| {
        !after.is_empty()
            && if is_oldest_first {
                **rank <= *after
            } else {
                **rank >= *after
            }
    });
    let item = |(_, subscription): &(String, WebhookSubscription)| {
        let key = WebhookDeliveries::KIND.key(&subscription.id());
        let deliveries = request.view.at::<WebhookDeliveries>(key);
        let position = request.view.position(key);
        deliveries.map_or_else(Vec::new, |deliveries| {
            to_json(&SubscriptionBody::new(
                subscription,
                &deliveries,
                Some(position),
            ))
        })
    };
    let body = page(all, limit(request), |(rank, _)| rank.clone(), item);
    listed(&body)
}

/// Reads a page of the deliveries that wait, or are dead (the parameter `state`), in the order of
/// their events.
///
/// # Errors
/// `permission_denied` without the permission; `not_found`.
pub fn list_deliveries(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let (_, deliveries, _) = found(request)?;
    let mut list = match request.param("state") {
        "dead" => deliveries.dead,
        _ => deliveries.waiting,
    };
    let is_oldest_first = is_oldest_first(request);
    if !is_oldest_first {
        list.reverse();
    }
    let after: Option<EventId> = request.param("after").parse().ok();
    let all = list.into_iter().skip_while(|one| {
        after.is_some_and(|after| {
            if is_oldest_first {
                one.id <= after
            } else {
                one.id >= after
            }
        })
    });
    let body = page(
        all,
        limit(request),
        |one| one.id.to_string(),
        |one| to_json(&DeliveryBody::new(one)),
    );
    listed(&body)
}

/// The page, with the place to go on from as `cursor` writes it.
///
/// # Panics
/// When the body is no page.
#[must_use]
pub fn with_cursor(body: Vec<u8>, cursor: impl FnOnce(&str) -> String) -> Vec<u8> {
    let mut page: PageBody = serde_json::from_slice(&body).expect("a page was written here");
    page.next = page.next.map(|after| cursor(&after));
    to_json(&page)
}

/// A list has no tag.
fn listed(body: &PageBody) -> Result<Representation, Rejection> {
    Ok(Representation {
        tag: String::new(),
        body: to_json(body),
    })
}
