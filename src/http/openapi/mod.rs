//! The API document: OpenAPI 3.1 of all routes of the service, made from the catalogue.
//!
//! Request bodies have the shapes that they are parsed by, responses the schemas of the types that
//! are serialized, problems the codes of the operations' own tables, and events their declared
//! fields. Only the routes outside the catalogue are described here by hand, in a `match` over all
//! of them.

mod events;
mod headers;
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
use super::read::conditional::Unchanging;
use super::route::{Handler, Offer, Routes};

/// Returns the document as `GET /openapi.json` serves it, made at the first request; `None` if making it panicked.
pub(super) async fn served() -> Option<&'static Unchanging> {
    static SERVED: OnceCell<Unchanging> = OnceCell::const_new();
    made_beside(&SERVED, || Unchanging::new(text())).await
}

/// Returns the cell's value. If the cell is empty, the value is made once, on a blocking thread: that takes a while,
/// and the lane has other requests to serve.
async fn made_beside<T: Send + 'static>(
    cell: &OnceCell<T>,
    make: impl FnOnce() -> T + Send + 'static,
) -> Option<&T> {
    cell.get_or_try_init(|| spawn_blocking(make)).await.ok()
}

/// Returns the document as it is served. The first call takes some tens of milliseconds.
#[must_use]
pub fn text() -> Bytes {
    static TEXT: LazyLock<Bytes> =
        LazyLock::new(|| serde_json::to_vec(&document()).unwrap_or_default().into());
    TEXT.clone()
}

/// Returns the document.
#[must_use]
pub fn document() -> Value {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    let routes = Routes::new(Offer::All);
    for (path, method, asked) in routes.all() {
        let operation = match asked {
            Handler::Operation(row) => operations::operation(row, &mut schemas),
            Handler::Read(row) => operations::read(row, &mut schemas),
            Handler::History(row) => operations::history(row, &mut schemas),
            Handler::List(row) => specials::list_of(row, &mut schemas),
            Handler::ManagementList(list) => specials::management_list(list, &mut schemas),
            Handler::Events => specials::read_events(&mut schemas),
            Handler::Special(special) => specials::special(special, &mut schemas),
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
            "headers": headers::components(),
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

/// Returns the value that a `$ref` of the document points to; a value that is no reference is returned unchanged.
#[must_use]
pub fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let to = value["$ref"].as_str();
    let found = to.and_then(|to| document.pointer(to.trim_start_matches('#')));
    found.unwrap_or(value)
}

/// The document's description: rules that apply to all operations.
const DESCRIPTION: &str = "\
Request bodies are parsed strictly. Also rejected is what a schema cannot express: a duplicate \
field, `1.0` where an integer is required, more than 1 MiB, 32 levels of nesting or 200,000 values, \
and a violated rule between fields. All faults of a body are reported at once.

Each response has `X-Request-Id`. The other headers that any response may have depend on the settings \
of the service and on whether the request has a token: each response lists them, and they say when they \
are present.

Not listed with the operations: an unknown path is 404 `route_not_found`; a method that the path does \
not have is 405 `method_not_allowed` with `Allow`; `HEAD` is answered as `GET`, without a body; \
`OPTIONS` is 204 with `Allow`. A request head that cannot be parsed is 400 or 431 `request_invalid`, and the \
connection is closed; over HTTP/2 one that does not name exactly one host is 400 `request_invalid`.

An idempotency key belongs to one operation and one subject: the same request again gets the \
stored response, with `Idempotent-Replayed: true`; another request under the same key is rejected.

Without a response, and after 408, 429, 500 and 503, send the identical request under the same key, after \
`Retry-After` seconds where it is given; after 401 do so with a new token. After any other 4xx do not, unless \
the description of its code says so. `retryable` of a problem is true for 429 and 503 alone.

A fresh demonstration (`carebook serve --demo`) carries out the examples of the operations, \
in the order of `x-carebook-number`; `x-carebook-demo-actor` says with whose token (`finalize_charge` needs none).";

/// Returns the key of a method in a path item.
fn verb(method: &Method) -> String {
    method.as_str().to_ascii_lowercase()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
