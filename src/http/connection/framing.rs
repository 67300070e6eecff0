//! Tracks where the messages of an HTTP/1 connection begin and end, before hyper sees the bytes. hyper accepts
//! messages in which two parsers could see different requests: a length beside chunks, lines that end in a bare LF, a
//! fragment in a target; and it does not check `Host`. Such a head is rejected here, before hyper has all of it:
//! earlier requests are answered, then this one with 400, and the connection is closed.

use std::io;

use memchr::memchr;
use tokio::io::ReadBuf;

use crate::http::request::authority::Authority;

/// The bytes that hyper reads instead of a rejected head. With any prefix that hyper already has, they form no valid
/// head, so hyper answers 400 after the earlier responses, and closes the connection.
pub const REFUSED: &[u8] = b"\0\r\n\r\n";

/// Why bytes are not passed on to hyper, and the offset from which they are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The head that begins at this offset, or in earlier bytes, is rejected.
    Head(usize),
    /// The body is cut off at this offset: its chunks are malformed.
    Body(usize),
}

/// What hyper reads after a [`Fault`], instead of further bytes.
pub enum Ended {
    /// The rest of [`REFUSED`], and then the end of the stream.
    Head(&'static [u8]),
    /// An error: a body that ended here would look like one that broke off.
    Body,
}

impl Ended {
    /// Gives hyper what it reads next.
    ///
    /// # Errors
    /// After malformed chunks, of the kind with which hyper rejects chunks itself.
    pub fn read(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
        let Self::Head(end) = self else {
            let why = "the chunks of the body are malformed";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        };
        let (now, later) = end.split_at(end.len().min(buffer.remaining()));
        buffer.put_slice(now);
        *end = later;
        Ok(())
    }
}

/// Tracks the messages of one connection.
#[derive(Default)]
pub struct Framing {
    part: Part,
    /// The beginning of a line that continues in the next read.
    line: Vec<u8>,
    head: Head,
    /// Number of complete heads that were not rejected.
    heads: u64,
    upgrades: bool,
}

#[derive(Clone, Copy, Default)]
enum Part {
    #[default]
    Head,
    /// Bytes of a body with a known length that are still to come.
    Sized(u64),
    Chunked(Chunk),
}

/// The position within a chunked body (RFC 9112 7.1).
#[derive(Clone, Copy)]
enum Chunk {
    Size {
        digits: u8,
        size: u64,
    },
    /// Blanks before an extension; holds the size of the chunk.
    Blank(u64),
    Extension(u64),
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    /// A line after the last chunk, and whether it is empty so far.
    Trailer(bool),
    TrailerLf(bool),
}

/// Maximum number of digits in the size of a chunk.
const SIZE_DIGITS_MAX: u8 = 15;

/// The parsed parts of the head that is being read.
#[derive(Default)]
struct Head {
    has_begun: bool,
    /// The version in the request line, once that line is read.
    version: Option<Version>,
    /// The target, if it is in absolute form: `Host` has to agree with it.
    absolute: Option<Vec<u8>>,
    has_host: bool,
    length: Option<u64>,
    is_chunked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
}

/// A rejected head.
struct Refused;

impl Framing {
    /// Number of complete heads that were not rejected.
    #[must_use]
    pub fn heads(&self) -> u64 {
        self.heads
    }

    /// Whether a head has begun but is not complete.
    #[must_use]
    pub fn is_within_head(&self) -> bool {
        matches!(self.part, Part::Head) && self.head.has_begun
    }

    /// Whether all messages so far are complete.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        matches!(self.part, Part::Head) && !self.head.has_begun
    }

    /// Whether a request asks to switch to another protocol.
    #[must_use]
    pub fn asks_for_upgrade(&self) -> bool {
        self.upgrades
    }

    /// Tracks the next bytes.
    ///
    /// # Errors
    /// The first fault. The bytes after it must not be used.
    pub fn follow(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut at = 0;
        // Offset in these bytes at which the current head begins.
        let mut head = 0;
        while at < bytes.len() {
            match self.part {
                Part::Head => {
                    self.head.has_begun = true;
                    let Some(length) = memchr(b'\n', &bytes[at..]) else {
                        self.line.extend_from_slice(&bytes[at..]);
                        return Ok(());
                    };
                    let end = at + length + 1;
                    self.head_line(&bytes[at..end])
                        .map_err(|Refused| Fault::Head(head))?;
                    at = end;
                }
                Part::Sized(left) => {
                    let here = u64::try_from(bytes.len() - at).unwrap_or(u64::MAX);
                    if here < left {
                        self.part = Part::Sized(left - here);
                        return Ok(());
                    }
                    // `left` is at most the number of bytes here, so it fits.
                    at += usize::try_from(left).unwrap_or(0);
                    self.part = Part::Head;
                }
                Part::Chunked(Chunk::Data(left)) => {
                    let here = u64::try_from(bytes.len() - at).unwrap_or(u64::MAX);
                    let taken = left.min(here);
                    at += usize::try_from(taken).unwrap_or(0);
                    self.part = Part::Chunked(match left - taken {
                        0 => Chunk::DataCr,
                        left => Chunk::Data(left),
                    });
                }
                Part::Chunked(chunk) => {
                    self.part = chunk.next(bytes[at]).ok_or(Fault::Body(at + 1))?;
                    at += 1;
                }
            }
            if self.is_between_messages() {
                head = at;
            }
        }
        Ok(())
    }

    /// Handles a line of a head, or the end of one that began in an earlier read, with its LF.
    fn head_line(&mut self, end: &[u8]) -> Result<(), Refused> {
        let is_last = if self.line.is_empty() {
            self.head.line(end, &mut self.upgrades)?
        } else {
            self.line.extend_from_slice(end);
            let line = std::mem::take(&mut self.line);
            self.head.line(&line, &mut self.upgrades)?
        };
        if is_last {
            self.part = std::mem::take(&mut self.head).body()?;
            self.heads += 1;
        }
        Ok(())
    }
}

impl Chunk {
    const FIRST: Self = Self::Size { digits: 0, size: 0 };

    /// Returns the position in the body after `byte`; `None` if that byte is not allowed here.
    fn next(self, byte: u8) -> Option<Part> {
        let next = match (self, byte) {
            (Self::Size { digits, size }, byte) if byte.is_ascii_hexdigit() => {
                if digits == SIZE_DIGITS_MAX {
                    return None;
                }
                let digit = char::from(byte).to_digit(16)?;
                Self::Size {
                    digits: digits + 1,
                    size: size * 16 + u64::from(digit),
                }
            }
            (Self::Size { digits: 0, .. }, _) => return None,
            (Self::Size { size, .. } | Self::Extension(size), b'\r') => Self::SizeLf(size),
            (Self::Size { size, .. } | Self::Blank(size), b' ' | b'\t') => Self::Blank(size),
            (Self::Size { size, .. } | Self::Blank(size), b';') => Self::Extension(size),
            (Self::Extension(size), b'\t' | b' '..=b'~' | 0x80..) => Self::Extension(size),
            (Self::SizeLf(0), b'\n') => Self::Trailer(true),
            (Self::SizeLf(size), b'\n') => Self::Data(size),
            (Self::DataCr, b'\r') => Self::DataLf,
            (Self::DataLf, b'\n') => Self::FIRST,
            (Self::Trailer(is_empty), b'\r') => Self::TrailerLf(is_empty),
            (Self::Trailer(_), b'\t' | b' '..=b'~' | 0x80..) => Self::Trailer(false),
            (Self::TrailerLf(true), b'\n') => return Some(Part::Head),
            (Self::TrailerLf(false), b'\n') => Self::Trailer(true),
            _ => return None,
        };
        Some(Part::Chunked(next))
    }
}

impl Head {
    /// Parses a line with its line end. Returns whether it is the empty line after the last field.
    fn line(&mut self, line: &[u8], upgrades: &mut bool) -> Result<bool, Refused> {
        let line = line.strip_suffix(b"\r\n").ok_or(Refused)?;
        let Some(version) = self.version else {
            // Empty lines before a request are ignored (RFC 9112 2.2).
            if !line.is_empty() {
                self.request_line(line)?;
            }
            return Ok(false);
        };
        if line.is_empty() {
            return Ok(true);
        }
        if let Some(value) = value_of(b"host", line) {
            let host = Authority::parse(value).ok_or(Refused)?;
            let absolute = self.absolute.as_deref().and_then(Authority::of_absolute);
            let agrees = absolute.is_none_or(|(scheme, target)| target.agrees(&host, scheme));
            if !agrees || std::mem::replace(&mut self.has_host, true) {
                return Err(Refused);
            }
        } else if let Some(value) = value_of(b"content-length", line) {
            let length = number(value).ok_or(Refused)?;
            if self.length.replace(length).is_some() || self.is_chunked {
                return Err(Refused);
            }
        } else if let Some(value) = value_of(b"transfer-encoding", line) {
            let is_chunked = value.eq_ignore_ascii_case(b"chunked");
            let stands_alone = !self.is_chunked && self.length.is_none();
            if !is_chunked || !stands_alone || version == Version::Http10 {
                return Err(Refused);
            }
            self.is_chunked = true;
        } else if value_of(b"upgrade", line).is_some() {
            *upgrades = true;
        }
        Ok(false)
    }

    /// Parses method, target and version, with one blank between them (RFC 9112 3).
    fn request_line(&mut self, line: &[u8]) -> Result<(), Refused> {
        let (rest, version) = if let Some(rest) = line.strip_suffix(b" HTTP/1.1") {
            (rest, Version::Http11)
        } else if let Some(rest) = line.strip_suffix(b" HTTP/1.0") {
            (rest, Version::Http10)
        } else {
            return Err(Refused);
        };
        self.version = Some(version);
        let blank = memchr(b' ', rest).ok_or(Refused)?;
        let (method, target) = (&rest[..blank], &rest[blank + 1..]);
        // No early exit: all bytes are checked, so that the compiler can check many at once.
        let is_text = |byte: &u8| byte.is_ascii_graphic() & (*byte != b'#');
        if !target.iter().fold(true, |text, byte| text & is_text(byte)) {
            return Err(Refused);
        }
        match target {
            // This service opens no tunnels, and what follows a CONNECT is not HTTP.
            _ if method == b"CONNECT" => Err(Refused),
            [b'/', ..] => Ok(()),
            b"*" if method == b"OPTIONS" => Ok(()),
            _ => {
                Authority::of_absolute(target).ok_or(Refused)?;
                self.absolute = Some(target.to_vec());
                Ok(())
            }
        }
    }

    /// Returns which part follows the head.
    fn body(self) -> Result<Part, Refused> {
        if !self.has_host && self.version == Some(Version::Http11) {
            return Err(Refused);
        }
        Ok(match self.length {
            _ if self.is_chunked => Part::Chunked(Chunk::FIRST),
            None | Some(0) => Part::Head,
            Some(length) => Part::Sized(length),
        })
    }
}

/// Returns the value of the field, without the blanks around it, if the line is the field `name`.
fn value_of<'l>(name: &[u8], line: &'l [u8]) -> Option<&'l [u8]> {
    if line.get(name.len()) != Some(&b':') {
        return None;
    }
    let (own, value) = line.split_at(name.len());
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    own.eq_ignore_ascii_case(name).then(|| {
        let value = &value[1..];
        let start = value.iter().position(|byte| !is_blank(byte));
        let end = value.iter().rposition(|byte| !is_blank(byte));
        match (start, end) {
            (Some(start), Some(end)) => &value[start..=end],
            _ => &[],
        }
    })
}

/// Parses a number of digits only, of 63 bits at most.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number <= u64::MAX / 2).then_some(number)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HOST: &str = "Host: a\r\n";

    /// Returns how many heads were complete in these bytes, or the first fault. Asserts that the result is the same
    /// whether the bytes come at once, one by one, or in any two pieces.
    fn followed(bytes: &[u8]) -> Result<u64, (u64, Fault)> {
        let in_pieces = |pieces: &[&[u8]]| {
            let mut framing = Framing::default();
            let mut before = 0;
            let mut began = 0;
            for piece in pieces {
                let heads = framing.heads();
                if framing.is_between_messages() {
                    began = before;
                }
                if let Err(fault) = framing.follow(piece) {
                    let fault = match fault {
                        Fault::Head(0) if framing.heads() == heads => Fault::Head(began),
                        Fault::Head(at) => Fault::Head(before + at),
                        Fault::Body(at) => Fault::Body(before + at),
                    };
                    return Err((framing.heads(), fault));
                }
                before += piece.len();
            }
            Ok(framing.heads())
        };
        let whole = in_pieces(&[bytes]);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(in_pieces(&single), whole, "{}", bytes.escape_ascii());
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            let fault = in_pieces(&[first, second]);
            assert_eq!(fault.is_ok(), whole.is_ok(), "{}", bytes.escape_ascii());
        }
        whole
    }

    #[test]
    fn messages_are_told_apart_however_they_are_cut() {
        let messages = format!(
            "\r\n\r\nGET / HTTP/1.1\r\n{HOST}\r\n\
             POST / HTTP/1.1\r\ncontent-length:\t5 \r\n{HOST}\r\nGET /\
             POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: CHUNKED\r\n\r\n\
             5;a=b\r\nGET /\r\n000\t;c=\"d\"\r\nX: y\r\n\r\n\
             GET / HTTP/1.0\r\n\r\n\
             OPTIONS * HTTP/1.1\r\n{HOST}\r\n\
             GET http://A:80 HTTP/1.1\r\n{HOST}\r\n"
        );
        assert_eq!(followed(messages.as_bytes()), Ok(6));
    }

    #[test]
    fn a_message_is_whole_with_its_last_byte_and_not_before() {
        for body in [
            "\r\n",
            "Content-Length: 3\r\n\r\nabc",
            "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n",
        ] {
            let message = format!("POST / HTTP/1.1\r\n{HOST}{body}");
            let head = message.find("\r\n\r\n").unwrap() + 4;
            let mut framing = Framing::default();
            assert!(framing.is_between_messages() && !framing.is_within_head());
            for (at, byte) in (1..).zip(message.as_bytes()) {
                framing.follow(&[*byte]).unwrap();
                assert_eq!(framing.is_within_head(), at < head, "{body} {at}");
                let is_whole = at == message.len();
                assert_eq!(framing.is_between_messages(), is_whole, "{body} {at}");
            }
        }
    }

    #[test]
    fn a_head_is_refused_where_it_begins_and_what_came_before_it_is_whole() {
        let good = format!("GET / HTTP/1.1\r\n{HOST}\r\n");
        for bad in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost:\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999999999\r\n\r\n",
            "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
            "GET /\r\n",
        ] {
            let fault = Fault::Head(good.len());
            assert_eq!(
                followed(format!("{good}{bad}").as_bytes()),
                Err((1, fault)),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_body_ends_at_the_byte_that_is_not_of_a_chunk() {
        let head = format!("POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n");
        for (good, bad) in [
            ("", "\r"),
            ("", "x"),
            ("5", "\n"),
            ("5", "x"),
            ("5 ", "\r"),
            ("5;a", "\n"),
            ("5;a\r", "a"),
            ("1\r\na", "a"),
            ("1\r\na\r", "\r"),
            ("1\r\na\r\n", "\r"),
            ("000000000000000", "0"),
            ("0\r\n", "\n"),
            ("0\r\nX: y\r\n\r", "x"),
            ("0\r\nX: y", "\0"),
        ] {
            let text = format!("{head}{good}{bad}after");
            let fault = Fault::Body(head.len() + good.len() + 1);
            assert_eq!(followed(text.as_bytes()), Err((1, fault)), "{good}{bad}");
        }
    }
}
