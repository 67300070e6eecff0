//! Bounded strings, one type for each rule of the service for strings.

use serde::{Deserialize, Deserializer, Serialize};

use super::json::{FaultCode, FromJson, Json, Reader, Scanner, Shape};

/// Deserializes a text by copying it once from the input. serde's `Box<str>` goes through a `String`
/// whose memory is zeroed before.
fn copied<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<str>, D::Error> {
    struct Copied;
    impl serde::de::Visitor<'_> for Copied {
        type Value = Box<str>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a string")
        }
        fn visit_str<E>(self, text: &str) -> Result<Box<str>, E> {
            Ok(text.into())
        }
    }
    deserializer.deserialize_str(Copied)
}

/// Checks length (in characters) and blankness, in the order in which faults are reported: too
/// short, too long, blank.
fn bounded<'v>(text: &'v str, at: &mut Reader, max: usize, blank_allowed: bool) -> Option<&'v str> {
    let text = at.not_empty(text)?;
    // A string of few bytes has few characters; only longer ones need counting.
    if text.len() > max && text.chars().count() > max {
        return at.fault(FaultCode::TooLong);
    }
    if !blank_allowed && is_blank(text) {
        return at.fault(FaultCode::Blank);
    }
    Some(text)
}

/// Whether the text has nothing but white space.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

/// Whether the text begins or ends with white space.
fn is_padded(text: &str) -> bool {
    text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace)
}

/// Declares a string type: its longest length in characters, whether it may be blank, and the
/// format it has.
macro_rules! texts {
    ($( $(#[$meta:meta])* $name:ident {
        max: $max:expr, blank: $blank:expr, form: $form:expr, says: $says:literal, pattern: $pattern:literal $(,)?
    } )+) => { $(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(#[serde(deserialize_with = "copied")] Box<str>);

        impl $name {
            /// Makes a value from a text that this program has built itself, or has checked.
            #[must_use]
            pub fn from_trusted(text: impl Into<Box<str>>) -> Self {
                Self(text.into())
            }

            /// The string.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the text, unless it has a fault, which is noted.
            pub fn check<'t>(text: &'t str, at: &mut Reader) -> Option<&'t str> {
                let text = bounded(text, at, $max, $blank)?;
                let has_form: fn(&str) -> bool = $form;
                if !has_form(text) {
                    return at.fault(FaultCode::Pattern);
                }
                Some(text)
            }

            fn of(text: &str, at: &mut Reader) -> Option<Self> {
                Self::check(text, at).map(Self::from_trusted)
            }
        }

        impl std::ops::Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                *self.0 == *other
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl FromJson for $name {
            fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
                let text = at.text(value)?;
                Self::of(text, at)
            }

            fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
                from.by_text(Self::of)
            }

            fn shape() -> Shape {
                Shape::Text {
                    shortest: 1,
            longest: $max,
                    blank: $blank,
                    form: $says,
                    pattern: $pattern,
                    known: &[],
                }
            }
        }

        $crate::schema_of_shape!($name);
    )+ };
}

texts! {
    /// An opaque identifier, key, code or reference: 1 to 512 characters, not blank.
    Ident { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The identifier of a reservation's booking, with the bounds of an [`Ident`].
    BookingId { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The identifier of a reservation's draft, with the bounds of an [`Ident`].
    DraftId { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The identifier of a member of a family, with the bounds of an [`Ident`].
    MemberId { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The identifier of a family's account, with the bounds of an [`Ident`].
    FamilyAccountId { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The identifier of a caregiver, with the bounds of an [`Ident`].
    CaregiverId { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The identifier of a branch office's profile, with the bounds of an [`Ident`].
    BranchProfileId { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The identifier of a payment at its gateway, with the bounds of an [`Ident`].
    PaymentId { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The identifier of a settlement statement, with the bounds of an [`Ident`].
    StatementId { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The identifier of an instruction to pay a caregiver, with the bounds of an [`Ident`].
    PayoutInstructionId { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The key of an assignment of a caregiver, with the bounds of an [`Ident`].
    AssignmentKey { max: 512, blank: false, form: |_| true, says: "", pattern: "" }
    /// The name of an object in a store: 1 to 1,024 characters, not blank.
    ObjectKey { max: 1_024, blank: false, form: |_| true, says: "", pattern: "" }
    /// A string without a bound of its own: 1 to 4,000 characters.
    Text { max: 4_000, blank: true, form: |_| true, says: "", pattern: "" }
    /// A [`Text`] that is not blank.
    NonBlankText { max: 4_000, blank: false, form: |_| true, says: "", pattern: "" }
    /// A person's name: 1 to 100 characters, not blank.
    FullName { max: 100, blank: false, form: |_| true, says: "", pattern: "" }
    /// One line of an address: 1 to 300 characters, not blank.
    AddressLine { max: 300, blank: false, form: |_| true, says: "", pattern: "" }
    /// Exactly five digits.
    PostalCode { max: 4_000, blank: true, form: |text| {
        text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit())
    }, says: "five digits", pattern: r"^[0-9]{5}$" }
    /// A plus sign and 8 to 15 digits, the first of them not zero.
    PhoneNumber { max: 4_000, blank: true, form: is_phone_number, says: "`+` and 8 to 15 digits, the first not 0", pattern: r"^\+[1-9][0-9]{7,14}$" }
    /// An e-mail address of at most 254 characters.
    Email { max: 254, blank: true, form: is_email, says: "an e-mail address", pattern: r#"^(?=[^@]{1,64}@)[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+$"# }
    /// The identifier of an account, a profile or a receipt: 1 to 255 characters, no white space
    /// at its ends.
    TrimmedId { max: 255, blank: false, form: |text| !is_padded(text), says: "no white space at its ends", pattern: r"^[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]([\s\S]*[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000])?$" }
    /// A consent policy's key: 1 to 120 characters; a lower-case letter, then lower-case letters,
    /// digits and `_.:-`.
    PolicyKey { max: 120, blank: true, form: |text| is_label(text, u8::is_ascii_lowercase), says: "a lower-case letter, then those, digits and `_.:-`", pattern: r"^[a-z][a-z0-9_.:-]*$" }
    /// A consent version's label: 1 to 120 characters; a lower-case letter or digit, then lower-case
    /// letters, digits and `_.:-`.
    VersionLabel { max: 120, blank: true, form: |text| {
        is_label(text, |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    }, says: "a lower-case letter or digit, then those and `_.:-`", pattern: r"^[a-z0-9][a-z0-9_.:-]*$" }
    /// The name of a collection of records: 1 to 64 characters; a lower-case letter, then lower-case
    /// letters, digits and `_`.
    CollectionName { max: 4_000, blank: true, form: is_collection_name, says: "at most 64 characters: a lower-case letter, then those, digits and `_`", pattern: r"^[a-z][a-z0-9_]{0,63}$" }
    /// 64 lower-case hexadecimal digits.
    Sha256Hex { max: 4_000, blank: true, form: |text| {
        text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }, says: "64 lower-case hexadecimal digits", pattern: r"^[0-9a-f]{64}$" }
    /// A branch's code: a capital letter or digit, then 1 to 31 capital letters, digits, `_` and `-`.
    BranchCode { max: 4_000, blank: true, form: is_branch_code, says: "a capital letter or digit, then 1 to 31 of those, `_` and `-`", pattern: r"^[A-Z0-9][A-Z0-9_-]{1,31}$" }
    /// The URL of a receiver of events, checked by its form alone: `https` or `http`, a host, no user
    /// name and no fragment.
    ReceiverUrl { max: 2_000, blank: true, form: |text| url_host(text).is_some(), says: "a URL with `https://`, or `http://`, without a user name and a fragment", pattern: r"^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?][!$-;=?-\[\]_a-z~]*)?$" }
    /// The types of events that are meant: one type, or, with a `*` at the end, all types with that
    /// prefix.
    EventTypePattern { max: TYPE_PATTERN_CHARS_MAX, blank: false, form: is_type_pattern, says: "a type, or its beginning with `*` at the end", pattern: r"^([^*]*[^*\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000][^*]*\*?|[^*]+\*)$" }
}

impl ReceiverUrl {
    /// Whether the URL is `http`, whose requests anybody on the network path can read.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.starts_with("http://")
    }

    /// Whether the host names this machine without a look-up: a loopback address, or `localhost`.
    #[must_use]
    pub fn is_to_loopback(&self) -> bool {
        let host = url_host(self).unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<std::net::IpAddr>();
        host.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address| address.to_canonical().is_loopback())
    }
}

/// Maximum number of characters of an [`EventTypePattern`].
const TYPE_PATTERN_CHARS_MAX: usize = 200;

impl EventTypePattern {
    /// Parses a pattern from a query, with the bounds of one in a body.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn in_query(text: &str) -> Result<Self, FaultCode> {
        if text.chars().count() > TYPE_PATTERN_CHARS_MAX {
            return Err(FaultCode::TooLong);
        }
        if text.is_empty() {
            return Err(FaultCode::TooShort);
        }
        if is_blank(text) {
            return Err(FaultCode::Blank);
        }
        Self::parse(text).ok_or(FaultCode::Pattern)
    }

    /// Parses a pattern of any length; `None` for a `*` elsewhere than at the end, or alone.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        is_type_pattern(text).then(|| Self(text.into()))
    }

    /// Whether events of this type are meant.
    #[must_use]
    pub fn matches(&self, event_type: &str) -> bool {
        match self.strip_suffix('*') {
            Some(beginning) => event_type.starts_with(beginning),
            None => *event_type == **self,
        }
    }
}

/// Returns the host of a URL that a receiver may have; `None` for any other text.
fn url_host(text: &str) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte);
    if !text.bytes().all(is_plain) {
        return None;
    }
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let authority = &rest[..end];
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let end = bracketed.find(']')?;
            bracketed[..end].parse::<std::net::Ipv6Addr>().ok()?;
            authority.split_at(end + 2)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if host.is_empty() || !(host.starts_with('[') || host.bytes().all(is_name)) {
        return None;
    }
    let has_port = |port: &str| {
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        is_number && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    match port.strip_prefix(':') {
        None if port.is_empty() => Some(host),
        Some(port) if has_port(port) => Some(host),
        _ => None,
    }
}

fn is_type_pattern(text: &str) -> bool {
    let beginning = text.strip_suffix('*').unwrap_or(text);
    !beginning.is_empty() && !beginning.contains('*')
}

/// An idempotency key in a body, with the bounds of an [`Ident`]. It is not part of the request
/// content, so the canonical form contains null in its place.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct BodyKey(Ident);

impl BodyKey {
    /// The key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Serialize for BodyKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_none()
    }
}

impl FromJson for BodyKey {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        Ident::read(value, at).map(Self)
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        Ident::read_straight(from).map(Self)
    }

    fn shape() -> Shape {
        Ident::shape()
    }
}

fn is_phone_number(text: &str) -> bool {
    let Some(digits) = text.strip_prefix('+') else {
        return false;
    };
    (8..=15).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.starts_with('0')
}

fn is_collection_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

fn is_branch_code(text: &str) -> bool {
    let leads = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    (2..=32).contains(&text.len())
        && text.as_bytes().first().is_some_and(leads)
        && text
            .bytes()
            .all(|byte| leads(&byte) || matches!(byte, b'_' | b'-'))
}

fn is_label(text: &str, leads: fn(&u8) -> bool) -> bool {
    text.as_bytes().first().is_some_and(leads)
        && text
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b':' | b'-'))
}

/// Whether the text is an e-mail address: the `addr-spec` of RFC 5322 without comments, quotes and
/// literals, whose domain is a host name with a dot, and with at most 64 characters before the `@` (RFC
/// 5321 4.5.3.1.1).
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let is_atom = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+/=?^_`{|}~-".contains(&byte);
    let is_host_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    (1..=64).contains(&local.len())
        && local
            .split('.')
            .all(|atom| !atom.is_empty() && atom.bytes().all(is_atom))
        && domain.contains('.')
        && domain.split('.').all(is_host_label)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::base::time::Timestamp;

    fn code<T: FromJson>(text: &str) -> &'static str {
        let mut at = Reader::new(Timestamp::default());
        let read = T::read(&Json::Text(text.into()), &mut at);
        let faults = at.into_faults();
        assert_eq!(read.is_some(), faults.is_empty());
        faults.first().map_or("ok", |fault| fault.code.as_str())
    }

    #[test]
    fn lengths_count_characters_and_bounds_are_inclusive() {
        assert_eq!(code::<Ident>(&"가".repeat(512)), "ok");
        assert_eq!(code::<Ident>(&"가".repeat(513)), "too_long");
        assert_eq!(code::<Ident>(""), "too_short");
        assert_eq!(code::<Ident>(" \u{3000}"), "blank");
        assert_eq!(code::<Text>(" "), "ok");
        assert_eq!(code::<Text>(&"a".repeat(4_001)), "too_long");
        assert_eq!(code::<FullName>(&"가".repeat(101)), "too_long");
    }

    #[test]
    fn forms_are_checked_after_lengths() {
        for (code, expected) in [
            (code::<PostalCode>("04524"), "ok"),
            (code::<PostalCode>("0452"), "pattern"),
            (code::<PostalCode>("０４５２４"), "pattern"),
            (code::<PostalCode>(""), "too_short"),
            (code::<PhoneNumber>("+82101234"), "ok"),
            (code::<PhoneNumber>("+8210123"), "pattern"),
            (code::<PhoneNumber>("+0210123456"), "pattern"),
            (code::<PhoneNumber>("+8210123456789012"), "pattern"),
            (code::<PhoneNumber>("8210123456"), "pattern"),
            (code::<Email>("a.b+c@example.com"), "ok"),
            (code::<Email>("a@b"), "pattern"),
            (code::<Email>("a..b@example.com"), "pattern"),
            (code::<Email>("a b@example.com"), "pattern"),
            (code::<Email>("a@-example.com"), "pattern"),
            (
                code::<Email>(&format!("a@{}.com", "b".repeat(250))),
                "too_long",
            ),
            (code::<TrimmedId>(" a"), "pattern"),
            (code::<PolicyKey>("privacy.v1"), "ok"),
            (code::<PolicyKey>("1privacy"), "pattern"),
            (code::<VersionLabel>("2026-01"), "ok"),
            (code::<VersionLabel>("V1"), "pattern"),
            (code::<VersionLabel>(&"a".repeat(121)), "too_long"),
            (code::<CollectionName>("a"), "ok"),
            (code::<CollectionName>(&"a".repeat(64)), "ok"),
            (code::<CollectionName>(&"a".repeat(65)), "pattern"),
            (code::<CollectionName>("a_1"), "ok"),
            (code::<CollectionName>("_a"), "pattern"),
            (code::<CollectionName>("1a"), "pattern"),
            (code::<CollectionName>("aB"), "pattern"),
            (code::<CollectionName>("a-b"), "pattern"),
            (code::<CollectionName>(" "), "pattern"),
            (code::<CollectionName>(""), "too_short"),
            (code::<Sha256Hex>(&"a".repeat(64)), "ok"),
            (code::<Sha256Hex>(&"A".repeat(64)), "pattern"),
            (code::<BranchCode>("S1"), "ok"),
            (code::<BranchCode>("1_-"), "ok"),
            (code::<BranchCode>(&"A".repeat(32)), "ok"),
            (code::<BranchCode>(&"A".repeat(33)), "pattern"),
            (code::<BranchCode>("A"), "pattern"),
            (code::<BranchCode>("-A"), "pattern"),
            (code::<BranchCode>("_A"), "pattern"),
            (code::<BranchCode>("Aa"), "pattern"),
            (code::<BranchCode>("A A"), "pattern"),
            (code::<BranchCode>("  "), "pattern"),
            (code::<BranchCode>(""), "too_short"),
        ] {
            assert_eq!(code, expected);
        }
    }

    #[test]
    fn a_receiver_url_is_http_or_https_with_a_host_that_nothing_hides() {
        for (url, host) in [
            ("https://example.com", Some("example.com")),
            ("https://example.com/a?b=c%20d", Some("example.com")),
            ("https://example.com:8443/", Some("example.com")),
            ("http://[::1]:80/x", Some("[::1]")),
            ("http://127.0.0.1?x", Some("127.0.0.1")),
            ("https://", None),
            ("https:///a", None),
            ("ftp://example.com", None),
            ("HTTPS://example.com", None),
            ("https://user@example.com/", None),
            ("https://example.com:0/", None),
            ("https://example.com:/", None),
            ("https://example.com:65536/", None),
            ("https://example.com:+80/", None),
            ("https://[::1/", None),
            ("https://[::1]x/", None),
            ("https://example.com/#a", None),
            ("https://example.com/ a", None),
            ("https://exa\\mple.com/", None),
            ("https://예.com/", None),
            ("//example.com", None),
        ] {
            assert_eq!(url_host(url), host, "{url}");
        }
        let is_near = |url: &str| ReceiverUrl::from_trusted(url).is_to_loopback();
        for url in [
            "http://localhost:1/",
            "http://127.1.2.3/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
        ] {
            assert!(is_near(url), "{url}");
        }
        for url in [
            "http://localhost.example.com/",
            "http://10.0.0.1/",
            "http://[::2]/",
        ] {
            assert!(!is_near(url), "{url}");
        }
    }

    #[test]
    fn a_pattern_is_a_type_or_its_beginning() {
        for text in ["*", "a*b", "**", "a**"] {
            assert_eq!(code::<EventTypePattern>(text), "pattern", "{text}");
            assert_eq!(EventTypePattern::parse(text), None, "{text}");
        }
        let matches =
            |pattern: &str, event: &str| EventTypePattern::parse(pattern).unwrap().matches(event);
        assert!(matches(
            "carebook.branch.created",
            "carebook.branch.created"
        ));
        assert!(!matches("carebook.branch", "carebook.branch.created"));
        assert!(matches("carebook.b*", "carebook.branch.created"));
        assert!(!matches("carebook.b*", "carebook.mother.put"));
    }

    #[test]
    fn a_key_in_a_body_is_no_part_of_the_facts() {
        let mut at = Reader::new(Timestamp::default());
        let key = BodyKey::read(&Json::Text("k-1".into()), &mut at).unwrap();
        assert_eq!(key.as_str(), "k-1");
        assert_eq!(serde_json::to_string(&key).unwrap(), "null");
    }
}
