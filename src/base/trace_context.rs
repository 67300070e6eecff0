//! The trace that a request belongs to, as it is passed on (W3C Trace Context, version 00).

use super::hex::{hex, unhex};

/// Maximum number of characters and, below, of members of a `tracestate` that is passed on.
pub const STATE_CHARS_MAX: usize = 512;
const STATE_MEMBERS_MAX: usize = 32;
/// Characters of a `traceparent` of version 00.
const PARENT_CHARS: usize = 55;
/// The flag that the caller may have recorded its part of the trace.
const SAMPLED: u8 = 1;

/// A place in a trace: the trace, and the span that is the parent of the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; not all zeros.
    pub trace_id: [u8; 16],
    /// The span; not all zeros.
    pub span_id: [u8; 8],
    /// Whether the trace is recorded.
    pub is_sampled: bool,
    /// The `tracestate`: data that systems on the way add for themselves; empty where there is
    /// none.
    pub state: Box<str>,
}

impl TraceContext {
    /// Reads the headers `traceparent` and `tracestate`. `None` where there is no `traceparent`,
    /// more than one, or a malformed one: then a new trace begins. A `tracestate` that is
    /// malformed, or larger than [`STATE_CHARS_MAX`], is dropped alone.
    #[must_use]
    pub fn read<'h>(
        parents: impl IntoIterator<Item = &'h [u8]>,
        states: impl IntoIterator<Item = &'h [u8]>,
    ) -> Option<Self> {
        let mut parents = parents.into_iter();
        let (Some(parent), None) = (parents.next(), parents.next()) else {
            return None;
        };
        let mut context = Self::parse(parent)?;
        context.state = state(states).unwrap_or_default();
        Some(context)
    }

    /// Parses a `traceparent`. Versions after 00 may have more characters behind the known ones.
    fn parse(parent: &[u8]) -> Option<Self> {
        let (known, more) = parent.split_at_checked(PARENT_CHARS)?;
        let version = unhex::<1>(known.get(..2)?)?[0];
        let is_fit = match version {
            0xff => false,
            0 => more.is_empty(),
            _ => more.is_empty() || more[0] == b'-',
        };
        let has_dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        if !is_fit || !has_dashes {
            return None;
        }
        let trace_id = unhex::<16>(&known[3..35])?;
        let span_id = unhex::<8>(&known[36..52])?;
        let flags = unhex::<1>(&known[53..])?[0];
        if trace_id == [0; 16] || span_id == [0; 8] {
            return None;
        }
        Some(Self {
            trace_id,
            span_id,
            is_sampled: flags & SAMPLED != 0,
            state: Box::default(),
        })
    }

    /// Returns the header `traceparent` for requests that this place in the trace causes.
    #[must_use]
    pub fn parent(&self) -> String {
        let flags = if self.is_sampled { SAMPLED } else { 0 };
        format!(
            "00-{}-{}-{flags:02x}",
            hex(&self.trace_id),
            hex(&self.span_id)
        )
    }

    /// Returns the trace's identifier in hexadecimal digits.
    #[must_use]
    pub fn trace(&self) -> String {
        hex(&self.trace_id)
    }
}

/// Joins the values of `tracestate`; `None` where they are malformed or too large.
fn state<'h>(values: impl IntoIterator<Item = &'h [u8]>) -> Option<Box<str>> {
    let mut state = String::new();
    let mut members = 0;
    for value in values {
        let value = std::str::from_utf8(value).ok()?;
        for member in value.split(',').map(str::trim) {
            if member.is_empty() {
                continue;
            }
            let (key, said) = member.split_once('=')?;
            let is_fit = |byte: u8| matches!(byte, b' '..=b'~') && byte != b',' && byte != b'=';
            let has_room = state.len() + 1 + member.len() <= STATE_CHARS_MAX + 1;
            members += 1;
            if key.is_empty()
                || !key.bytes().all(|byte| is_fit(byte) && byte != b' ')
                || !said.bytes().all(is_fit)
                || !has_room
                || members > STATE_MEMBERS_MAX
            {
                return None;
            }
            if !state.is_empty() {
                state.push(',');
            }
            state.push_str(member);
        }
    }
    (state.len() <= STATE_CHARS_MAX).then(|| state.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn read(parents: &[&str], states: &[&str]) -> Option<TraceContext> {
        TraceContext::read(
            parents.iter().map(|text| text.as_bytes()),
            states.iter().map(|text| text.as_bytes()),
        )
    }

    #[test]
    fn a_parent_is_handed_on_as_it_came() {
        let context = read(&[GOOD], &[]).unwrap();
        assert_eq!(context.parent(), GOOD);
        assert_eq!(context.trace(), "0af7651916cd43dd8448eb211c80319c");
        assert!(context.is_sampled);
        let quiet = GOOD.replace("-01", "-00");
        assert!(!read(&[&quiet], &[]).unwrap().is_sampled);
        assert_eq!(read(&[&quiet], &[]).unwrap().parent(), quiet);
        // Unknown flags are not passed on.
        let flags = GOOD.replace("-01", "-ff");
        assert_eq!(read(&[&flags], &[]).unwrap().parent(), GOOD);
        // A later version may have more characters.
        for later in ["cc-", "01-"] {
            let later = GOOD.replacen("00-", later, 1);
            assert_eq!(read(&[&later], &[]).unwrap().parent(), GOOD);
            assert!(read(&[&format!("{later}-more")], &[]).is_some());
            assert!(read(&[&format!("{later}.more")], &[]).is_none());
        }
    }

    #[test]
    fn a_parent_that_is_malformed_begins_a_new_trace() {
        let zero_trace = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        let zero_span = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16));
        for bad in [
            "",
            "00",
            &GOOD.replacen("00", "ff", 1),
            &GOOD.replacen("00", "0g", 1),
            &GOOD.to_uppercase(),
            &format!("{GOOD}-more"),
            &format!("{GOOD} "),
            &format!(" {GOOD}"),
            &GOOD.replace('-', "_"),
            &GOOD[..54],
            &zero_trace,
            &zero_span,
        ] {
            assert_eq!(read(&[bad], &["a=b"]), None, "{bad:?}");
        }
        assert_eq!(
            read(&[GOOD, GOOD], &[]),
            None,
            "nothing says which one counts"
        );
        assert_eq!(read(&[], &["a=b"]), None);
        assert_eq!(TraceContext::read([&b"00-\xff"[..]], []), None);
    }

    #[test]
    fn a_state_is_handed_on_within_its_bounds_or_dropped_by_itself() {
        let state = |states: &[&str]| read(&[GOOD], states).unwrap().state.to_string();
        assert_eq!(state(&[]), "");
        assert_eq!(state(&["a=1,b@c=2 3"]), "a=1,b@c=2 3");
        assert_eq!(state(&["a=1 , ,b=2", "c=3"]), "a=1,b=2,c=3");
        let longest = format!("a={}", "x".repeat(STATE_CHARS_MAX - 2));
        assert_eq!(state(&[&longest]), longest);
        let many: Vec<_> = (0..33).map(|number| format!("k{number}=v")).collect();
        assert_eq!(state(&[&many[..32].join(",")]), many[..32].join(","));
        for bad in [
            &format!("{longest}x"),
            &many.join(","),
            "a",
            "=1",
            "a b=1",
            "a=1=2",
            "a=\u{e9}",
            "a=\r\nb",
        ] {
            assert_eq!(state(&[bad]), "", "{bad:?}");
        }
        assert_eq!(state(&[&longest, "b=2"]), "", "too long together");
    }
}
