//! Fetches one document over HTTPS, within limits on its time and size.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    ACCEPT, AGE, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap,
    USER_AGENT,
};
use hyper::{Request, Response, StatusCode, Uri};
use tokio::time::timeout;

use crate::http::client::dial::{Dialer, Target, request_target};

/// Timeout from resolving the host name to the last byte of the response.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a URL, in bytes.
const URL_BYTES_MAX: usize = 2_048;

/// A URL whose scheme is `https`, with a host and without a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpsUrl {
    text: Box<str>,
    uri: Uri,
    target: Target,
}

impl HttpsUrl {
    /// Parses the URL.
    ///
    /// # Errors
    /// When the text is another kind of URL, or no URL; the text says why.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.len() > URL_BYTES_MAX {
            return Err(format!("a URL has at most {URL_BYTES_MAX} bytes"));
        }
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("it is no URL: {error}"))?;
        if uri.scheme_str() != Some("https") {
            return Err("it has to begin with https://".to_owned());
        }
        let authority = uri.authority().map(|authority| authority.as_str());
        if authority.is_none_or(|authority| authority.contains('@')) {
            return Err("it has to name a host, and no user".to_owned());
        }
        let target = Target::of(&uri)?;
        Ok(Self {
            text: text.into(),
            uri,
            target,
        })
    }
}

impl fmt::Display for HttpsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A fetched document.
pub(super) struct Document {
    pub(super) body: Bytes,
    /// How long the document is fresh, if its response says so.
    pub(super) max_age: Option<Duration>,
}

/// Fetches documents, each on a connection of its own.
pub(super) struct Fetcher {
    dialer: Dialer,
}

impl Fetcher {
    pub(super) fn new(dialer: Dialer) -> Self {
        Self { dialer }
    }

    /// Fetches the JSON document at `url`, of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// When the document did not arrive in time and complete, or is not JSON: a sentence that begins with the URL.
    pub(super) async fn get(&self, url: &HttpsUrl, bytes_max: usize) -> Result<Document, String> {
        match timeout(ANSWER_TIMEOUT, self.ask(url, bytes_max)).await {
            Ok(answered) => answered.map_err(|why| format!("{url} {why}")),
            Err(_) => {
                let limit = ANSWER_TIMEOUT.as_secs();
                Err(format!("{url} did not answer in full within {limit} s"))
            }
        }
    }

    async fn ask(&self, url: &HttpsUrl, bytes_max: usize) -> Result<Document, String> {
        let host = url.uri.authority().map_or("", |host| host.as_str());
        let request = Request::get(&*request_target(&url.uri))
            .header(HOST, host)
            .header(USER_AGENT, "carebook")
            .header(ACCEPT, "application/json, application/jwk-set+json")
            .header(CONNECTION, "close")
            .body(Full::new(Bytes::new()))
            .map_err(|error| format!("cannot be asked: {error}"))?;
        let connected = self.dialer.connect(&url.target, |_| true).await;
        let mut connection = connected.map_err(|error| format!("was not reached: {error}"))?;
        let answer = connection.sender.send_request(request).await;
        let answer = answer.map_err(|error| format!("broke off: {error}"))?;
        check(&answer)?;
        let max_age = max_age(answer.headers());
        let body = whole(answer.into_body(), bytes_max).await?;
        Ok(Document { body, max_age })
    }
}

/// Checks that the response is a JSON document.
fn check(answer: &Response<Incoming>) -> Result<(), String> {
    let status = answer.status();
    if status.is_redirection() {
        return Err(format!(
            "answered {status}; redirects are not followed, so give the final URL"
        ));
    }
    if status != StatusCode::OK {
        return Err(format!("answered {status}"));
    }
    let headers = answer.headers();
    if headers.contains_key(CONTENT_ENCODING) {
        return Err("answered in an encoding that was not asked for".to_owned());
    }
    if !is_json(headers) {
        return Err("answered with a Content-Type that is not of JSON".to_owned());
    }
    Ok(())
}

/// Whether the response declares JSON (RFC 8259, RFC 6839 3.1), or declares no media type.
fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return true,
        (Some(value), None) => value.to_str().unwrap_or_default(),
        (Some(_), Some(_)) => return false,
    };
    let essence = value.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    let subtype = essence.strip_prefix("application/");
    subtype.is_some_and(|subtype| subtype == "json" || subtype.ends_with("+json"))
}

async fn whole(mut body: Incoming, bytes_max: usize) -> Result<Bytes, String> {
    let too_large = || format!("has more than {bytes_max} bytes, the most that are read");
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    if body.size_hint().lower() > most {
        return Err(too_large());
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("broke off: {error}"))?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        if whole.len() + data.len() > bytes_max {
            return Err(too_large());
        }
        whole.extend_from_slice(data);
    }
    Ok(whole.freeze())
}

/// Returns how long a response is fresh (RFC 9111 4.2.1) by its `Cache-Control`: with `no-store` and `no-cache` not
/// at all. Directives that cannot be parsed are ignored.
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(CACHE_CONTROL).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let mut seconds: Option<u64> = None;
    for directive in texts.flat_map(|text| text.split(',')) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        let name = name.trim();
        let said = if name.eq_ignore_ascii_case("max-age") {
            value.trim().trim_matches('"').parse().ok()
        } else if ["no-store", "no-cache"]
            .iter()
            .any(|never| name.eq_ignore_ascii_case(never))
        {
            Some(0)
        } else {
            None
        };
        // Of several values the shortest applies.
        seconds = match (seconds, said) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
    // Subtracts the time that caches on the way have used already.
    let age = headers.get(AGE).and_then(|age| age.to_str().ok());
    let age: u64 = age.and_then(|age| age.trim().parse().ok()).unwrap_or(0);
    seconds.map(|seconds| Duration::from_secs(seconds.saturating_sub(age)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_document_is_fresh_for_as_long_as_its_cache_control_says() {
        for (text, seconds) in [
            ("max-age=300", Some(300)),
            ("public, MAX-AGE=\"7\" , must-revalidate", Some(7)),
            ("max-age=9, max-age=8", Some(8)),
            ("max-age=8, max-age=9", Some(8)),
            ("no-store", Some(0)),
            ("max-age=300, no-cache", Some(0)),
            ("s-maxage=5", None),
            ("max-age=-1", None),
            ("max-age", None),
            ("max-age=1h", None),
            ("max-age=99999999999999999999", None),
            ("", None),
        ] {
            let found = max_age(&headers(&[(CACHE_CONTROL, text)]));
            assert_eq!(found, seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(max_age(&HeaderMap::new()), None);
        let passed_on = headers(&[(CACHE_CONTROL, "max-age=300"), (AGE, "200")]);
        assert_eq!(max_age(&passed_on), Some(Duration::from_secs(100)));
        let old = headers(&[(CACHE_CONTROL, "max-age=300"), (AGE, "301")]);
        assert_eq!(max_age(&old), Some(Duration::ZERO));
    }

    #[test]
    fn a_document_is_of_json_or_says_nothing() {
        for json in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/jwk-set+json",
        ] {
            assert!(is_json(&headers(&[(CONTENT_TYPE, json)])), "{json}");
        }
        for other in ["text/html", "text/plain", "application/jsonp", "json", ""] {
            assert!(!is_json(&headers(&[(CONTENT_TYPE, other)])), "{other}");
        }
        assert!(is_json(&HeaderMap::new()));
        let mut twice = headers(&[(CONTENT_TYPE, "application/json")]);
        twice.append(CONTENT_TYPE, HeaderValue::from_static("text/html"));
        assert!(!is_json(&twice));
    }

    #[test]
    fn a_provider_is_at_a_url_of_https_with_a_host_and_without_a_user() {
        for good in [
            "https://id.example.com",
            "https://id.example.com:8443/a/b?c=d",
            "HTTPS://id.example.com/",
            "https://[::1]:9/keys",
        ] {
            assert!(HttpsUrl::read(good).is_ok(), "{good}");
        }
        for bad in [
            "http://id.example.com/",
            "id.example.com",
            "https://",
            "https:///keys",
            "https://user@id.example.com/",
            "https://id.example.com:70000/",
            "https://id.example.com:/keys",
            "/keys",
            "",
            "file:///keys",
        ] {
            assert!(HttpsUrl::read(bad).is_err(), "{bad}");
        }
        let long = format!("https://a/{}", "b".repeat(URL_BYTES_MAX));
        assert!(HttpsUrl::read(&long).is_err());
    }
}
