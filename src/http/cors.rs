//! Requests from pages of other origins (CORS, WHATWG Fetch 3.2): pages of the origins that the operator names may
//! call the service with the token that they hold. By default no origin is allowed, and allowing all is impossible.

use std::net::IpAddr;
use std::str::FromStr;

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ALLOW,
    HeaderMap, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, Uri};

use super::client::dial::port_of;

/// The headers that a page may send besides those that are always allowed.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Carebook-Min-Position, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, X-Request-Id",
);
/// The headers that a page may read besides those that are always allowed.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Carebook-Dry-Run, Carebook-Position, Carebook-Writer, ETag, Idempotent-Replayed, Retry-After, \
     X-Request-Id",
);
/// How long a browser may cache a preflight, in seconds.
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
        let port = port_of(authority)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if !host.starts_with('[') && !host.bytes().all(is_name) {
            return Err("its host is no name and no address".to_owned());
        }
        let origin = match port.filter(|port| *port != usual) {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        };
        let value = HeaderValue::try_from(origin);
        value.map(Self).map_err(|error| error.to_string())
    }
}

/// The origins whose pages may call the service.
#[derive(Clone)]
pub struct Cors {
    origins: Vec<HeaderValue>,
    /// Whether browsers are told that these origins are allowed.
    is_told: bool,
}

impl Cors {
    /// Returns the rules for these origins; `None` if there are none.
    #[must_use]
    pub fn of(origins: Vec<Origin>) -> Option<Self> {
        let origins: Vec<_> = origins.into_iter().map(|Origin(value)| value).collect();
        (!origins.is_empty()).then_some(Self {
            origins,
            is_told: true,
        })
    }

    /// Returns the same for a listener that is not for pages of other origins: browsers are not told. A page on this
    /// machine may still have one of these origins (`is_of_a_name`).
    #[must_use]
    pub fn untold(self) -> Self {
        Self {
            is_told: false,
            ..self
        }
    }

    /// Returns the origin of the requesting page, if it is one of these.
    fn of_request(&self, request: &HeaderMap) -> Option<&HeaderValue> {
        let mut asking = request.get_all(ORIGIN).iter();
        match (asking.next(), asking.next()) {
            (Some(asking), None) => self.origins.iter().find(|origin| *origin == asking),
            _ => None,
        }
    }

    /// Adds the headers that tell the browser whether its page may read the answer to this request.
    pub fn tell(&self, method: &Method, request: &HeaderMap, answer: &mut HeaderMap) {
        if !self.is_told {
            return;
        }
        answer.append(VARY, HeaderValue::from_static("Origin"));
        let Some(origin) = self.of_request(request) else {
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

/// Whether the request comes from a page whose host name may have been made to resolve to this machine (DNS
/// rebinding): its origin is neither allowed nor an address nor `localhost`. Such a page could send what its
/// browser's user could, and read the responses.
pub(super) fn is_of_a_name(allowed: Option<&Cors>, request: &HeaderMap) -> bool {
    let Some(origin) = request.get(ORIGIN) else {
        return false;
    };
    if allowed.is_some_and(|allowed| allowed.of_request(request).is_some()) {
        return false;
    }
    let is_only_one = request.get_all(ORIGIN).iter().count() == 1;
    let uri = origin.to_str().ok().and_then(|text| text.parse().ok());
    let host = uri.as_ref().and_then(Uri::host);
    !(is_only_one && host.is_some_and(is_of_this_machine))
}

/// Whether the host is an address, or a name that always resolves to this machine (RFC 6761 6.3).
fn is_of_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let lower = host.to_ascii_lowercase();
    bare.parse::<IpAddr>().is_ok() || lower == "localhost" || lower.ends_with(".localhost")
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

    #[test]
    fn a_page_of_a_name_is_distinguished_from_local_and_allowed_pages() {
        let cors = Cors::of(vec!["https://a.example".parse().unwrap()]);
        let is_of_a_name = |origins: &[&'static str], cors: &Option<Cors>| {
            let mut request = HeaderMap::new();
            for origin in origins {
                request.append(ORIGIN, HeaderValue::from_static(origin));
            }
            is_of_a_name(cors.as_ref(), &request)
        };
        for origin in [
            "http://127.0.0.1:8080",
            "http://192.0.2.7",
            "https://[::1]:8443",
            "http://localhost",
            "http://LOCALHOST:8080",
            "http://app.localhost:8080",
        ] {
            assert!(!is_of_a_name(&[origin], &None), "{origin}");
            assert!(is_of_a_name(&[origin, origin], &None), "{origin} twice");
        }
        for origin in [
            "http://evil.example:8080",
            "https://a.example",
            "http://localhost.example",
            "http://notlocalhost",
            "http://127.0.0.1.example",
            "http://1",
            "null",
            "",
        ] {
            assert!(is_of_a_name(&[origin], &None), "{origin}");
        }
        assert!(!is_of_a_name(&[], &None), "no page at all");
        assert!(!is_of_a_name(&["https://a.example"], &cors));
        assert!(is_of_a_name(
            &["https://a.example", "https://a.example"],
            &cors
        ));
        assert!(is_of_a_name(&["https://b.example"], &cors));
    }
}
