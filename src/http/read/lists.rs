//! Lists of the resources that can be read by identifier.

use std::fmt::Display;

use hyper::Uri;
use hyper::header::HeaderMap;

use super::conditional::{found_body, tag_of};
use super::cursor::CursorOwner;
use super::list_query::ListQuery;
use crate::base::actor::Actor;
use crate::catalogue::{ListRow, Success};
use crate::domain::rejection::Rejection;
use crate::engine::Engine;
use crate::engine::read::lists::{ListPage, ListRequest};
use crate::http::limits::response_room::{ResponseRoomOf, charged};
use crate::http::response::{Answer, Problems, at_position};
use crate::journal::tables::ListedAt;

/// Parses the query of a list.
///
/// # Errors
/// `request_invalid` with every fault.
pub fn query(
    engine: &Engine,
    row: &'static ListRow,
    actor: &Actor,
    uri: &Uri,
) -> Result<ListQuery, Rejection> {
    let names: Vec<_> = row.filters().map(|(_, name)| name).collect();
    let is_place = |after: &str| after.parse::<ListedAt>().is_ok();
    let owner = CursorOwner::of(engine, actor);
    ListQuery::read(uri.query(), row.path, owner, &[], &names, is_place)
}

/// Returns the position in the place after which the page begins, from the cursor.
pub(in crate::http) fn place(query: &ListQuery) -> Option<u64> {
    let after = query.after.parse::<ListedAt>().ok();
    after.map(|after| after.position)
}

/// Answers with the requested page of a list.
pub async fn page(
    engine: &Engine,
    row: &'static ListRow,
    actor: &Actor,
    outgoing: ResponseRoomOf<'_>,
    query: &ListQuery,
    headers: &HeaderMap,
) -> Answer {
    let problems = Problems::PLAIN;
    let given = query.filters.iter().filter_map(|(name, value)| {
        let (filter, _) = row.filters().find(|(_, known)| known == name)?;
        Some((filter, value.clone()))
    });
    let request = ListRequest {
        row,
        actor,
        filters: given.collect(),
        newest_first: query.order == "newest",
        after: query.after.parse().ok(),
        limit: query.limit,
    };
    let mut share = outgoing.share();
    let page = match engine.list(&request, &mut |bytes| share.grow(bytes)).await {
        Ok(page) => page,
        Err(reply) => return problems.reply(reply, Success::Ok),
    };
    let body = body_of(&page, query);
    let tag = tag_of(&body);
    let body = charged(body, share);
    at_position(found_body(&tag, body, headers), page.position)
}

/// Returns the body of a page in the answer to this query.
pub(in crate::http) fn body_of<P: Display>(page: &ListPage<P>, query: &ListQuery) -> Vec<u8> {
    let next = page.next.as_ref().map_or_else(
        || "null".to_owned(),
        |next| format!("\"{}\"", query.cursor(&next.to_string())),
    );
    let body = [
        b"{\"items\":[".as_slice(),
        &page.items,
        b"],\"next\":",
        next.as_bytes(),
        b"}",
    ];
    body.concat()
}
