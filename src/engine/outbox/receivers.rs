//! Receivers of messages, and the topics that each is named for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use crate::base::codec::Blob;
use crate::base::time::Timestamp;
use crate::engine::channel::schedule::Failure;

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// Identifier of the message for the receiver: `{log id}-{number}`, the same at each attempt.
    pub id: String,
    /// Number of the message.
    pub number: i64,
    /// Topic of the message, a dotted word.
    pub topic: Box<str>,
    /// Read path of the resource that the message is about, without the first slash.
    pub resource: Box<str>,
    /// When the message was created.
    pub at: Timestamp,
    /// Content of the message, as JSON.
    pub body: Blob,
    /// Time of the attempt.
    pub sent_at: Timestamp,
}

/// The outcome of an attempt.
pub type Delivery<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;

/// A receiver of messages.
pub trait Receiver: Send + Sync {
    /// Delivers the message to the receiver, which may have got it before, within a bounded time.
    ///
    /// # Errors
    /// Returns the reason when the receiver has not taken the message, or that is unknown.
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

/// A topic, or a prefix of topics with `*` at its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    start: Box<str>,
    is_start_only: bool,
}

impl Pattern {
    /// Whether the pattern matches this topic.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        match self.is_start_only {
            true => topic.starts_with(&*self.start),
            false => *topic == *self.start,
        }
    }

    /// Returns the rank of the pattern: of several that match a topic, the longest one counts, and a whole topic
    /// counts as longer than the same text as a prefix.
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

/// A text that is not a pattern of topics.
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
