//! The `Authorization` header.

use std::fmt;

/// Returns `WWW-Authenticate` of a 401 (RFC 6750 section 3): an error is named only if a token was sent.
pub const fn challenge(token_was_sent: bool) -> &'static str {
    if token_was_sent {
        r#"Bearer error="invalid_token""#
    } else {
        "Bearer"
    }
}

/// The token in the `Authorization` headers of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bearer<'a> {
    /// No header, another scheme, or the bare word `Bearer`: no token was sent.
    Missing,
    /// The headers contain something other than exactly one bearer token.
    Malformed,
    /// One token, of the characters that a token may have; not verified yet.
    Token(&'a str),
}

impl fmt::Debug for Bearer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "Missing",
            Self::Malformed => "Malformed",
            Self::Token(_) => "Token([redacted])",
        })
    }
}

/// Whether the byte is a character of a token68 without its padding (RFC 9110 11.2).
#[inline(always)]
fn is_of_token68(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        | matches!(byte, b'-' | b'.' | b'/')
        | (byte == b'_')
        | (byte == b'~')
        | (byte == b'+')
}

/// Parses the values of all `Authorization` headers of a request (RFC 6750 section 2.1). The scheme is matched
/// without regard to case; two headers are malformed, because neither has precedence.
pub fn bearer<'a>(header_values: impl IntoIterator<Item = &'a [u8]>) -> Bearer<'a> {
    let mut values = header_values.into_iter();
    let Some(value) = values.next() else {
        return Bearer::Missing;
    };
    if values.next().is_some() {
        return Bearer::Malformed;
    }
    let Ok(value) = simdutf8::basic::from_utf8(value) else {
        return Bearer::Malformed;
    };
    let value = value.trim_matches([' ', '\t']);
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Bearer::Missing;
    }
    let token = token.trim_start_matches(' ');
    if token.is_empty() {
        return Bearer::Missing;
    }
    let unpadded = token.trim_end_matches('=');
    // No early exit: all bytes are checked, so that the compiler can check many at once.
    let is_token68 = unpadded
        .bytes()
        .fold(true, |all, byte| all & is_of_token68(byte));
    if is_token68 && !unpadded.is_empty() {
        Bearer::Token(token)
    } else {
        Bearer::Malformed
    }
}
