//! The authority of a request: the host and the port that it is addressed to (RFC 3986 3.2).

use std::net::Ipv6Addr;

use hyper::Uri;
use hyper::header::{HOST, HeaderMap};

/// A host and a port, as they were sent.
#[derive(Clone, Copy, Debug)]
pub struct Authority<'t> {
    host: &'t [u8],
    /// The port's digits; empty if no port was sent.
    port: &'t [u8],
}

/// The scheme of a target in absolute form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

impl<'t> Authority<'t> {
    /// Parses a `Host` field: a host, and perhaps a port. `None` when it is malformed, empty, or
    /// contains user information.
    #[must_use]
    pub fn parse(text: &'t [u8]) -> Option<Self> {
        let end = match text {
            [b'[', ..] => {
                let end = text.iter().position(|byte| *byte == b']')?;
                let address = std::str::from_utf8(&text[1..end]).ok()?;
                address.parse::<Ipv6Addr>().ok()?;
                end + 1
            }
            _ => {
                let end = text.iter().position(|byte| *byte == b':');
                let end = end.unwrap_or(text.len());
                is_name(&text[..end]).then_some(end)?
            }
        };
        let (host, rest) = text.split_at(end);
        let port = match rest {
            [] => rest,
            [b':', port @ ..] => port,
            _ => return None,
        };
        let is_port = |port: &[u8]| {
            let digits = port.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(port).map(str::parse::<u16>);
            digits && number.is_ok_and(|number| number.is_ok())
        };
        (port.is_empty() || is_port(port)).then_some(Self { host, port })
    }

    /// Parses the scheme and the authority of an absolute target: `http://AUTHORITY…` or `https://AUTHORITY…`.
    #[must_use]
    pub fn of_absolute(target: &'t [u8]) -> Option<(Scheme, Self)> {
        let after = |scheme: &[u8]| {
            let (start, rest) = target.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        };
        let (scheme, rest) = match (after(b"http://"), after(b"https://")) {
            (Some(rest), _) => (Scheme::Http, rest),
            (_, rest) => (Scheme::Https, rest?),
        };
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
        let authority = Self::parse(&rest[..end.unwrap_or(rest.len())])?;
        Some((scheme, authority))
    }

    /// Whether both have the same host, without regard to case, and the same port, by default the scheme's.
    #[must_use]
    pub fn agrees(&self, other: &Self, scheme: Scheme) -> bool {
        let own: &[u8] = match scheme {
            Scheme::Http => b"80",
            Scheme::Https => b"443",
        };
        let said = |port: &'_ [u8]| !port.is_empty() && port != own;
        let ports = match (said(self.port), said(other.port)) {
            (true, true) => self.port == other.port,
            (some, other) => some == other,
        };
        ports && self.host.eq_ignore_ascii_case(other.host)
    }
}

/// Whether an HTTP/2 request names one host: by its authority, by `Host`, or by both if they agree (RFC 9113 8.3.1).
#[must_use]
pub fn names_one_host(uri: &Uri, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return false,
        (host, None) => host.map(|host| Authority::parse(host.as_bytes())),
    };
    let named = uri
        .authority()
        .map(|named| Authority::parse(named.as_str().as_bytes()));
    let scheme = match uri.scheme_str() {
        Some("http") => Scheme::Http,
        _ => Scheme::Https,
    };
    match (named, host) {
        (Some(Some(named)), Some(Some(host))) => named.agrees(&host, scheme),
        (Some(Some(_)), None) | (None, Some(Some(_))) => true,
        _ => false,
    }
}

/// Whether the text is a registered name or an IPv4 address, and not empty.
fn is_name(text: &[u8]) -> bool {
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return !text.is_empty(),
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest
            }
            [byte, rest @ ..]
                if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) =>
            {
                rest
            }
            _ => return false,
        };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for good in [
            "a",
            "A.example",
            "a_b",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:1",
            "a:",
            "%41",
            "a:65535",
        ] {
            assert!(Authority::parse(good.as_bytes()).is_some(), "{good}");
        }
        for bad in [
            "",
            ":80",
            "a b",
            "a/",
            "a@b",
            "user:pass@a",
            "a:b",
            "a:65536",
            "a:1:2",
            "[::1",
            "[::1]x",
            "[x]",
            "::1",
            "%4",
            "a,b c",
            "http://a",
            "a\\b",
            "a:+1",
            "\u{e9}",
        ] {
            assert!(Authority::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_absolute_target_matches_its_host_in_any_case_with_the_default_port() {
        let agrees = |target: &str, host: &str| {
            let (scheme, target) = Authority::of_absolute(target.as_bytes()).unwrap();
            target.agrees(&Authority::parse(host.as_bytes()).unwrap(), scheme)
        };
        assert!(agrees("http://A/b", "a"));
        assert!(agrees("HTTP://a:80?b", "a"));
        assert!(agrees("https://a", "a:443"));
        assert!(agrees("http://a:81/", "A:81"));
        assert!(!agrees("http://a:81/", "a"));
        assert!(!agrees("http://a:443/", "a"));
        assert!(!agrees("http://a/", "b"));
        for bad in [
            "a",
            "a:1",
            "http:/a",
            "ftp://a/",
            "http://",
            "http:///a",
            "http://u@a/",
        ] {
            assert!(Authority::of_absolute(bad.as_bytes()).is_none(), "{bad}");
        }
    }
    #[test]
    fn over_http_2_a_host_agrees_with_the_authority_by_the_scheme_s_port() {
        let names_one = |uri: &str, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().unwrap());
            }
            names_one_host(&uri.parse().unwrap(), &headers)
        };
        assert!(names_one("https://a/", &[]));
        assert!(names_one("https://a/", &["A:443"]));
        assert!(!names_one("https://a/", &["a:80"]));
        assert!(names_one("http://a/", &["a:80"]));
        assert!(!names_one("http://a:443/", &["a"]));
        assert!(!names_one("https://a/", &["b"]));
        assert!(!names_one("https://a/", &["a", "a"]));
        assert!(!names_one("https://a/", &[""]));
        assert!(names_one("/", &["a"]));
        assert!(!names_one("/", &[]));
    }
}
