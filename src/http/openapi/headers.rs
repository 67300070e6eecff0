//! The headers of responses in the document.

use serde_json::{Map, Value, json};

/// A header: name, description, schema.
type Header = (&'static str, &'static str, Value);

/// Headers that the service adds to every finished answer, whatever its route and status.
fn of_each() -> [Header; 6] {
    let text = json!({"type": "string"});
    [
        (
            "X-Request-Id",
            "The request's identifier: the caller's own, or a new one.",
            json!({"type": "string", "pattern": "^[!-~]{1,128}$"}),
        ),
        (
            "Cache-Control",
            "How the response may be cached. Present when the request has `Authorization`, and with this \
             document and its page.",
            json!({"type": "string", "enum": ["private, no-cache", "no-store", "no-cache"]}),
        ),
        (
            "Access-Control-Allow-Origin",
            "The origin of the page that asks. Present when the service was started with `--cors-origin`, \
             and that is one of the origins.",
            text.clone(),
        ),
        (
            "Access-Control-Expose-Headers",
            "The headers that the page may read. Present with `Access-Control-Allow-Origin`.",
            text,
        ),
        (
            "Vary",
            "Present when the service was started with `--cors-origin`.",
            json!({"type": "string", "const": "Origin"}),
        ),
        (
            "Strict-Transport-Security",
            "For how long browsers are to use TLS alone. Present over TLS.",
            json!({"type": "string", "pattern": "^max-age=[0-9]+$"}),
        ),
    ]
}

/// Headers of some answers only.
fn of_some() -> [Header; 10] {
    let yes = json!({"type": "string", "const": "true"});
    [
        (
            "Carebook-Position",
            "The log position that the response depends on.",
            json!({"type": "string", "pattern": "^(0|[1-9][0-9]*)$"}),
        ),
        (
            "ETag",
            "The entity tag: it changes whenever the body does.",
            json!({"type": "string", "pattern": "^\"[^\"]+\"$"}),
        ),
        (
            "Idempotent-Replayed",
            "Present when the request was carried out before: this is its stored response.",
            yes.clone(),
        ),
        (
            "Carebook-Dry-Run",
            "Present when the request was a dry run: nothing was committed.",
            yes,
        ),
        (
            "Retry-After",
            "Seconds after which to try again.",
            json!({"type": "string", "pattern": "^[0-9]+$"}),
        ),
        (
            "Carebook-Writer",
            "The address of the writer, when this service is a standby and knows it.",
            json!({"type": "string"}),
        ),
        (
            "WWW-Authenticate",
            "The challenge, as in RFC 6750.",
            json!({"type": "string", "pattern": "^Bearer"}),
        ),
        (
            "Content-Security-Policy",
            "What the page may load.",
            json!({"type": "string"}),
        ),
        (
            "X-Content-Type-Options",
            "The browser is to take the media type as it is.",
            json!({"type": "string", "const": "nosniff"}),
        ),
        (
            "Referrer-Policy",
            "What other sites are told of the page.",
            json!({"type": "string", "const": "no-referrer"}),
        ),
    ]
}

/// Returns all headers, for the document's components.
pub(super) fn components() -> Map<String, Value> {
    let all = of_each().into_iter().chain(of_some());
    all.map(|(name, says, schema)| {
        (
            name.to_owned(),
            json!({"description": says, "required": name == "X-Request-Id", "schema": schema}),
        )
    })
    .collect()
}

/// Returns a reference to the header with this name.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/headers/{name}")})
}

/// Returns the headers of an answer: those of every answer, and its own.
pub(super) fn with_those_of_each(own: &[&str]) -> Map<String, Value> {
    let all = of_each().map(|(name, ..)| name).into_iter();
    all.chain(own.iter().copied())
        .map(|name| (name.to_owned(), reference(name)))
        .collect()
}
