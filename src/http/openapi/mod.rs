//! The API document: OpenAPI 3.1 of all that the service answers, made from the catalogue.
//!
//! What is asked has the shapes that requests are read by, what is answered the schemas of the types
//! that are written, problems the codes of the operations' own tables, and events the fields that
//! they are declared with. Nothing is listed here a second time but what stands outside of the
//! catalogue: the routes of `Special`, which a `match` over all of them describes.

mod events;
mod operations;
mod parts;
mod schemas;
mod specials;

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::Method;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use self::schemas::Schemas;
use super::conditional::Unchanging;
use super::route::{Asked, Offer, Routes};

/// The document for the answers to requests, made when the first one asks for it; `None` when that
/// panicked.
pub(super) async fn served() -> Option<&'static Unchanging> {
    static SERVED: OnceCell<Unchanging> = OnceCell::const_new();
    made_beside(&SERVED, || Unchanging::new(text())).await
}

/// What is in the cell; where there is nothing yet, it is made on a thread of its own, for all who
/// wait: that may take a while, and the lane has others to answer.
async fn made_beside<T: Send + 'static>(
    cell: &OnceCell<T>,
    make: impl FnOnce() -> T + Send + 'static,
) -> Option<&T> {
    cell.get_or_try_init(|| spawn_blocking(make)).await.ok()
}

/// The document as it is served. The first time it takes some tens of milliseconds.
#[must_use]
pub fn text() -> Bytes {
    static TEXT: LazyLock<Bytes> =
        LazyLock::new(|| serde_json::to_vec(&document()).unwrap_or_default().into());
    TEXT.clone()
}

/// The document.
#[must_use]
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    let routes = Routes::new(Offer::All);
    for (path, method, asked) in routes.all() {
        let operation = match asked {
            Asked::Operation(row) => operations::operation(row, &mut schemas),
            Asked::Read(row) => operations::read(row, &mut schemas),
            Asked::History(row) => operations::history(row, &mut schemas),
            Asked::List(row) => specials::list_of(row, &mut schemas),
            Asked::Special(special) => specials::special(special, &mut schemas),
        };
        let place = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
        place[verb(&method)] = operation;
    }
    let webhooks = events::webhooks(&mut schemas);
    let (schemas, responses) = schemas.finish();
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "carebook",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Reservation payments, settlement and branch administration for a care-service platform.",
            "description": DESCRIPTION,
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "jsonSchemaDialect": "https://spec.openapis.org/oas/3.1/dialect/base",
        "servers": [{"url": "/", "description": "The service that this document came from."}],
        "tags": parts::TAGS.map(|(name, says)| json!({"name": name, "description": says})),
        "paths": paths,
        "webhooks": webhooks,
        "components": {
            "schemas": schemas,
            "responses": responses,
            "parameters": parts::parameters(),
            "headers": parts::headers(),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "A token of the identity provider, with the claims `sub` and `actor_kind`.",
                },
            },
        },
    })
}

/// What stands at the place in the document that this refers to; itself, where it is no reference.
#[must_use]
pub fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let to = value["$ref"].as_str();
    let found = to.and_then(|to| document.pointer(to.trim_start_matches('#')));
    found.unwrap_or(value)
}

/// What holds for all of it.
const DESCRIPTION: &str = "\
Bodies of requests are read strictly: a member given twice, `1.0` where an integer is due, and more \
than 1 MiB, 32 levels or 200,000 values are refused too, which a schema cannot say; nor does it \
say what holds between members. All faults of a body are told at once.

Each answer has `X-Request-Id`. Beside what stands with the operations, every path answers 404 \
`route_not_found` for what it does not match, 405 `method_not_allowed` with `Allow` for a method that \
it does not have, `HEAD` as `GET` without a body, and `OPTIONS` with 204 and `Allow`. A head that \
cannot be read is answered 400 or 431, and the connection is closed; over HTTP/2 one that does not name \
one host is answered 400 `request_invalid`.

An idempotency key holds for one operation and one subject: the same request again is answered as \
the first time, with `Idempotent-Replayed: true`; another one under the same key is refused.

The examples of the operations are carried out by a fresh demonstration (`carebook serve --demo`), \
one after the other by `x-carebook-number`; `x-carebook-demo-actor` says with whose token.";

/// The key of a method in a path item.
fn verb(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
