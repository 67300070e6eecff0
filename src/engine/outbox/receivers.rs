//! Receivers of messages, and for which topics each is named.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use crate::base::codec::Blob;
use crate::base::time::Timestamp;
use crate::engine::channel::schedule::Failure;

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// What the receiver knows it by: `{log id}-{number}`, the same whenever it is sent.
    pub id: String,
    /// Its number.
    pub number: i64,
    /// What it is about, a dotted word.
    pub topic: Box<str>,
    /// The read path of the resource that it is about, without the first slash.
    pub resource: Box<str>,
    /// When it was born.
    pub at: Timestamp,
    /// Its content, JSON.
    pub body: Blob,
    /// When it is sent.
    pub sent_at: Timestamp,
}

/// The outcome of an attempt.
pub type Delivery<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// A receiver of messages.
pub trait Receiver: Send + Sync {
    /// Brings it the message, which it may have got before, within a bounded time.
    ///
    /// # Errors
    /// When it has not taken it, or that is unknown; why.
    fn deliver<'a>(&'a self, message: &'a OutgoingMessage) -> Delivery<'a>;
}

/// A receiver and the topics that it is named for.
#[derive(Clone)]
pub struct NamedReceiver {
    /// The topics.
    pub topics: Pattern,
    /// The receiver.
    pub receiver: Arc<dyn Receiver>,
}

/// A topic, or the beginning of topics with `*` at its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    start: Box<str>,
    is_start_only: bool,
}

impl Pattern {
    /// Whether this is one of the topics.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        match self.is_start_only {
            true => topic.starts_with(&*self.start),
            false => *topic == *self.start,
        }
    }

    /// Of several that match a topic the longest one counts; a whole topic is longer than its
    /// beginning.
    #[must_use]
    pub fn length(&self) -> (usize, bool) {
        (self.start.len(), !self.is_start_only)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.is_start_only { "*" } else { "" };
        write!(f, "{}{star}", self.start)
    }
}

/// A text that names no topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPattern;

impl fmt::Display for NoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a topic is a dotted word in lower case; the last part may be *")
    }
}

impl std::error::Error for NoPattern {}

impl FromStr for Pattern {
    type Err = NoPattern;

    fn from_str(text: &str) -> Result<Self, NoPattern> {
        let is_start_only = text.ends_with('*');
        let start = text.strip_suffix('*').unwrap_or(text);
        let is_plain = |letter: char| letter.is_ascii_lowercase() || "_.".contains(letter);
        let is_whole = !start.is_empty() && !start.starts_with('.') && !start.ends_with('.');
        let is_start = start.is_empty() || start.ends_with('.');
        let is_named = if is_start_only { is_start } else { is_whole };
        if !is_named || !start.chars().all(is_plain) || start.contains("..") || start == "." {
            return Err(NoPattern);
        }
        Ok(Self {
            start: start.into(),
            is_start_only,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_the_topics_that_match_counts() {
        let patterns = [
            "*",
            "authorization.*",
            "authorization.branch_membership.*",
            "authorization.branch_membership.activated",
            "settlement.*",
        ]
        .map(|text| text.parse::<Pattern>().unwrap());
        let of = |topic: &str| {
            let matching = patterns.iter().filter(|pattern| pattern.matches(topic));
            let longest = matching.max_by_key(|pattern| pattern.length());
            longest.unwrap().to_string()
        };
        assert_eq!(
            of("authorization.branch_membership.activated"),
            "authorization.branch_membership.activated"
        );
        assert_eq!(
            of("authorization.branch_membership.ended"),
            "authorization.branch_membership.*"
        );
        assert_eq!(
            of("authorization.payment_delegation.granted"),
            "authorization.*"
        );
        assert_eq!(of("branch_onboarding.manager_invitation"), "*");
    }

    #[test]
    fn a_topic_is_a_dotted_word_that_may_end_with_a_star() {
        for bad in [
            "", "a*", "*.a", "a..b", ".a", "a.", "A.b", "a b", "a.**", "**",
        ] {
            assert_eq!(bad.parse::<Pattern>(), Err(NoPattern), "{bad}");
        }
    }
}
