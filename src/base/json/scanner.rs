//! Reads a text straight into its types, without a tree of the whole.
//!
//! A scanner does not report faults: it gives up (`None`), and the tree of the same text says what is
//! wrong. So it may give up anywhere, but a value that it reads is the one that the tree would give;
//! strings with escapes and numbers that are not plain integers are read by the tree's parser.

use std::borrow::Cow;
use std::cell::Cell;

use serde::de::DeserializeSeed as _;

use super::plain::plain_until;
use super::reader::Reader;
use super::value::{Json, Level, NESTING_MAX, VALUES_MAX};
use crate::base::time::Timestamp;

/// Maximum number of digits with which every number fits into 64 bits.
const DIGITS_MAX: usize = 18;

/// A place in a text that is being read.
pub struct Scanner<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    values: Cell<usize>,
    reader: Reader,
}

/// Returns the texts of the fields `names` of an object, each `None` where it is no text; `None`
/// where `text` is no object, or a name in it has an escape. All other fields are skipped.
pub fn texts_of<'t, const N: usize>(
    text: &'t [u8],
    names: [&str; N],
) -> Option<[Option<Cow<'t, str>>; N]> {
    let mut texts = [const { None }; N];
    let mut from = Scanner::new(text, Timestamp::default())?;
    let mut more = from.open_object()?;
    while more {
        let name = from.name()?;
        from.take(b':')?;
        let value = from.tree()?;
        if let Some(place) = names.iter().position(|known| *known == name) {
            texts[place] = match value {
                Json::Text(text) => Some(text),
                _ => None,
            };
        }
        more = from.more_fields()?;
    }
    from.end()?;
    Some(texts)
}

impl<'t> Scanner<'t> {
    /// Starts at the beginning of `text`, if it is UTF-8; rules are judged at the time `now`.
    pub(super) fn new(text: &'t [u8], now: Timestamp) -> Option<Self> {
        Some(Self {
            // Validated once for all of its strings, which costs less than one by one.
            text: simdutf8::basic::from_utf8(text).ok()?,
            at: 0,
            depth: 0,
            values: Cell::new(0),
            reader: Reader::new(now),
        })
    }

    /// Returns how many values there were, if nothing but white space is left.
    pub(super) fn end(mut self) -> Option<usize> {
        self.peek().is_none().then_some(self.values.get())
    }

    /// Returns the next byte that is not white space, without consuming it.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                byte => return byte.copied(),
            }
        }
    }

    /// Consumes `byte`, which has to be the next one.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn count(&mut self) -> Option<()> {
        let values = self.values.get() + 1;
        self.values.set(values);
        (values <= VALUES_MAX).then_some(())
    }

    /// Enters an object or an array; returns whether anything is in it.
    pub(super) fn open(&mut self, first: u8, last: u8) -> Option<bool> {
        self.take(first)?;
        self.count()?;
        if self.depth == NESTING_MAX {
            return None;
        }
        self.depth += 1;
        if self.peek()? == last {
            return self.close();
        }
        Some(true)
    }

    fn close(&mut self) -> Option<bool> {
        self.at += 1;
        self.depth -= 1;
        Some(false)
    }

    /// Continues after a value in an object or an array; returns whether there is another.
    pub(super) fn more(&mut self, last: u8) -> Option<bool> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                self.peek()?;
                Some(true)
            }
            byte if byte == last => self.close(),
            _ => None,
        }
    }

    /// Enters an object; returns whether it has a field, which is then the next.
    pub fn open_object(&mut self) -> Option<bool> {
        self.open(b'{', b'}')
    }

    /// Continues after a field; returns whether there is another, or else the object has ended.
    pub fn more_fields(&mut self) -> Option<bool> {
        self.more(b'}')
    }

    /// Whether the next field has this name, which is given in its quotation marks; if so, consumes
    /// it.
    #[inline]
    pub fn is_named(&mut self, quoted: &str) -> bool {
        let rest = self.text.as_bytes().get(self.at..);
        let is_named = rest.is_some_and(|rest| rest.starts_with(quoted.as_bytes()));
        if is_named {
            self.at += quoted.len();
        }
        is_named
    }

    /// Returns the name of the next field, if it has no escape.
    pub fn name(&mut self) -> Option<&'t str> {
        match self.string()? {
            Cow::Borrowed(name) => Some(name),
            Cow::Owned(_) => None,
        }
    }

    /// Returns what `read` returns, unless it finds a fault.
    pub fn without_fault<T>(&mut self, read: impl FnOnce(&mut Reader) -> Option<T>) -> Option<T> {
        read(&mut self.reader).filter(|_| self.reader.is_clean())
    }

    /// Consumes `null`, if that is the next value; returns whether it was.
    pub(super) fn null(&mut self) -> Option<bool> {
        if self.peek()? != b'n' {
            return Some(false);
        }
        self.word("null", Json::Null).map(|_| true)
    }

    /// Reads the next value as a tree.
    pub(super) fn tree(&mut self) -> Option<Json<'t>> {
        match self.peek()? {
            b'"' => self.text().map(Json::Text),
            b'{' => {
                let mut fields = Vec::new();
                let mut more = self.open_object()?;
                while more {
                    let name = self.string()?;
                    self.take(b':')?;
                    fields.push((name, self.tree()?));
                    more = self.more_fields()?;
                }
                Some(Json::Object(fields))
            }
            b'[' => {
                let mut items = Vec::new();
                let mut more = self.open(b'[', b']')?;
                while more {
                    items.push(self.tree()?);
                    more = self.more(b']')?;
                }
                Some(Json::Array(items))
            }
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str, value: Json<'t>) -> Option<Json<'t>> {
        self.count()?;
        self.is_named(word).then_some(value)
    }

    fn number(&mut self) -> Option<Json<'t>> {
        let rest = &self.text[self.at..];
        let is_of_number =
            |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        let length = rest.bytes().take_while(|byte| is_of_number(byte)).count();
        let token = &rest[..length];
        self.at += length;
        let is_plain = (1..=DIGITS_MAX).contains(&length)
            && token.bytes().all(|byte| byte.is_ascii_digit())
            && (length == 1 || !token.starts_with('0'));
        if is_plain {
            self.count()?;
            return token.parse().ok().map(Json::Int);
        }
        let mut parser = serde_json::Deserializer::from_str(token);
        let level = Level::new(self.depth, &self.values);
        let number = level.deserialize(&mut parser).ok()?;
        parser.end().ok()?;
        Some(number)
    }

    /// Reads the next value, which has to be a string.
    pub(super) fn text(&mut self) -> Option<Cow<'t, str>> {
        self.peek()?;
        self.count()?;
        self.string()
    }

    /// Reads a string, whose first quotation mark is the next byte.
    fn string(&mut self) -> Option<Cow<'t, str>> {
        let bytes = self.text.as_bytes();
        if *bytes.get(self.at)? != b'"' {
            return None;
        }
        let begin = self.at;
        let mut end = plain_until(bytes, begin + 1);
        let is_plain = *bytes.get(end)? == b'"';
        while *bytes.get(end)? != b'"' {
            // A control character is a fault; after a backslash follows at least one byte.
            if bytes[end] != b'\\' {
                return None;
            }
            end = plain_until(bytes, end + 2);
        }
        self.at = end + 1;
        if is_plain {
            return self.text.get(begin + 1..end).map(Cow::Borrowed);
        }
        let escaped = self.text.get(begin..=end)?;
        serde_json::from_str(escaped).ok().map(Cow::Owned)
    }
}
