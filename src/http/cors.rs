//! Pages of other origins (CORS, WHATWG Fetch 3.2): those that the operator names may call the
//! service with the token that they hold. There is none by default, and never all of them.

use std::str::FromStr;

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ALLOW,
    HeaderMap, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, Uri};

/// What a page may send beside what every page may.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Carebook-Min-Position, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, X-Request-Id",
);
/// What a page may read beside what every page may.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Carebook-Dry-Run, Carebook-Position, Carebook-Writer, ETag, Idempotent-Replayed, Retry-After, \
     X-Request-Id",
);
/// For how many seconds a browser may cache a preflight.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// An origin, as browsers write it: `https://HOST`, with a port if it is not the default one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(HeaderValue);

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let uri: Uri = lower
            .parse()
            .map_err(|error| format!("it is no origin: {error}"))?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let usual = match scheme {
            "https" => 443,
            "http" => 80,
            _ => return Err("it has to begin with https:// or http://".to_owned()),
        };
        let authority = uri.authority().ok_or("it names no host")?;
        // Nothing may follow the authority, not even a slash.
        let whole = format!("{scheme}://{authority}");
        if whole != lower || authority.as_str().contains('@') || authority.host().is_empty() {
            return Err("it is a scheme, a host and perhaps a port, and nothing else".to_owned());
        }
        let host = authority.host();
        let has_port = authority.as_str().len() > host.len();
        if has_port && authority.port_u16().is_none() {
            return Err("its port is no number of 16 bits".to_owned());
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if !host.starts_with('[') && !host.bytes().all(is_name) {
            return Err("its host is no name and no address".to_owned());
        }
        let origin = match authority.port_u16().filter(|port| *port != usual) {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        };
        let value = HeaderValue::try_from(origin);
        value.map(Self).map_err(|error| error.to_string())
    }
}

/// The origins whose pages may call the service.
pub struct Cors(Vec<HeaderValue>);

impl Cors {
    /// Those of these origins; `None` where there are none.
    #[must_use]
    pub fn of(origins: Vec<Origin>) -> Option<Self> {
        let origins: Vec<_> = origins.into_iter().map(|Origin(value)| value).collect();
        (!origins.is_empty()).then_some(Self(origins))
    }

    /// Tells the browser in the answer to this request whether its page may have it.
    pub fn tell(&self, method: &Method, request: &HeaderMap, answer: &mut HeaderMap) {
        answer.append(VARY, HeaderValue::from_static("Origin"));
        let mut asking = request.get_all(ORIGIN).iter();
        let (Some(asking), None) = (asking.next(), asking.next()) else {
            return;
        };
        let Some(origin) = self.0.iter().find(|origin| *origin == asking) else {
            return;
        };
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        let asks_before =
            *method == Method::OPTIONS && request.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !asks_before {
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
            return;
        }
        if let Some(methods) = answer.get(ALLOW).cloned() {
            answer.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
            answer.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_written_as_browsers_write_it_and_nothing_else_is_one() {
        for (text, written) in [
            ("https://app.example.com", "https://app.example.com"),
            ("HTTPS://App.Example.com", "https://app.example.com"),
            ("https://app.example.com:443", "https://app.example.com"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:80", "http://[::1]"),
            ("https://a:80", "https://a:80"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().0, written, "{text}");
        }
        for no_origin in [
            "*",
            "null",
            "",
            "app.example.com",
            "https://",
            "https://*",
            "https://*.example.com",
            "https://app.example.com/",
            "https://app.example.com/a",
            "https://app.example.com?a",
            "https://app.example.com#a",
            "https://a@app.example.com",
            "https://app.example.com:99999",
            "https://app.example.com:",
            "ftp://app.example.com",
            "file:///a",
            "https://a https://b",
            "https://a,https://b",
        ] {
            assert!(no_origin.parse::<Origin>().is_err(), "{no_origin}");
        }
    }

    #[test]
    fn a_request_that_names_several_origins_is_told_nothing() {
        let cors = Cors::of(vec!["https://a.example".parse().unwrap()]).unwrap();
        let told = |origins: &[&'static str]| {
            let (mut request, mut answer) = (HeaderMap::new(), HeaderMap::new());
            for origin in origins {
                request.append(ORIGIN, HeaderValue::from_static(origin));
            }
            cors.tell(&Method::GET, &request, &mut answer);
            assert_eq!(answer[VARY], "Origin");
            answer.get(ACCESS_CONTROL_ALLOW_ORIGIN).cloned()
        };
        let (ours, other) = ("https://a.example", "https://b.example");
        assert_eq!(told(&[ours]).unwrap(), ours);
        for origins in [[ours, other], [other, ours], [ours, ours]] {
            assert_eq!(told(&origins), None, "{origins:?}");
        }
    }
}
