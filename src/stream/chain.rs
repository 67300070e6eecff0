//! The chain of messages: checks that each message follows its predecessor.
//!
//! A writer has up to four messages in flight, each of which the servers accept only at one sequence. When another
//! process fences the writer meanwhile, the fence takes the sequence of the first of them, which is then rejected.
//! But the next one finds as many messages before it as it expects, and may be accepted. It is *void*: its epoch is
//! older than that of the fence before it. It was never acknowledged, since acknowledgements go in order. Readers
//! skip it, and the next message names its predecessor as if it did not exist.
//!
//! A message states how many of its writer's messages were in flight before it. It can be void only if a fence may
//! have taken the place of the first of these; any other message of an older epoch is damage. For the same reason a
//! writer has at most one message in flight until it is past the places that its predecessor's messages may still
//! take.

use super::error::StreamError;
use super::message::{Content, IN_FLIGHT_MAX, Message, MessageDigest, MessageHead};

/// The end of the messages read or appended so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The log's id; `None` before the first message.
    pub log_id: Option<[u8; 16]>,
    /// The sequence of the last message; 0 before the first.
    pub sequence: u64,
    /// Epoch of the last message's writer.
    pub epoch: u64,
    /// Position of the next record.
    pub next: u64,
    /// Digest of the last message that is not void.
    pub digest: MessageDigest,
    /// Latest sequence at which the epoch may have begun.
    pub fence: u64,
}

/// Maximum number of another writer's messages after a fence.
const VOID_MAX: u64 = IN_FLIGHT_MAX as u64 - 1;

/// Role of a message at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// The message is the next one of the chain.
    Next,
    /// The message is void: its writer was fenced before it came.
    Void,
}

impl Tail {
    /// Returns the end of an empty stream.
    #[must_use]
    pub fn beginning() -> Self {
        Self {
            log_id: None,
            sequence: 0,
            epoch: 0,
            next: 1,
            digest: [0; 32],
            fence: 0,
        }
    }

    /// Returns the end after this message, which is not void, whatever came before it.
    #[must_use]
    pub fn after(sequence: u64, message: &Message<'_>) -> Self {
        Self {
            log_id: Some(message.log_id),
            sequence,
            epoch: message.epoch,
            next: message.next(),
            digest: message.digest,
            fence: sequence,
        }
    }

    /// Whether a message at the next place may be void, if its epoch is older; `ahead` messages were in flight before
    /// it.
    #[must_use]
    pub fn may_be_void(&self, ahead: u8) -> bool {
        self.sequence < self.fence + u64::from(ahead)
    }

    /// Whether no further message can come of a writer that this epoch has fenced.
    #[must_use]
    pub fn is_past_void(&self) -> bool {
        self.sequence >= self.fence + VOID_MAX
    }

    /// Advances to the next message.
    ///
    /// # Errors
    /// When the message does not follow, and why.
    pub fn follow(&mut self, sequence: u64, message: &Message<'_>) -> Result<Follows, StreamError> {
        let wrong = |what: String| StreamError::Broken { sequence, what };
        if sequence != self.sequence + 1 {
            let missing = self.sequence + 1;
            return Err(StreamError::Gap { missing, sequence });
        }
        if let Some(log_id) = self.log_id
            && log_id != message.log_id
        {
            return Err(StreamError::Foreign {
                expected: log_id,
                found: message.log_id,
            });
        }
        let is_fence = matches!(message.content, Content::Fence(_));
        if message.epoch < self.epoch && self.may_be_void(message.ahead) {
            self.sequence = sequence;
            return Ok(Follows::Void);
        }
        if message.epoch < self.epoch {
            return Err(wrong(format!(
                "it is of epoch {}, after one of epoch {}",
                message.epoch, self.epoch
            )));
        }
        if is_fence != (message.epoch > self.epoch) {
            return Err(wrong(match is_fence {
                true => format!("it is a fence of epoch {} within that epoch", message.epoch),
                false => format!("epoch {} begins with it, without a fence", message.epoch),
            }));
        }
        if message.first != self.next {
            return Err(wrong(format!(
                "it begins at position {}, and position {} is next",
                message.first, self.next
            )));
        }
        if message.before != self.digest {
            return Err(wrong(
                "the chain is broken: it was written after another message than the one before it"
                    .to_owned(),
            ));
        }
        let fence = match is_fence {
            true => sequence,
            false => self.fence,
        };
        *self = Self {
            fence,
            ..Self::after(sequence, message)
        };
        Ok(Follows::Next)
    }

    /// Returns the place of the next message of an epoch in this log, created while `ahead` messages before it were
    /// not acknowledged.
    #[must_use]
    pub fn place(&self, log_id: [u8; 16], epoch: u64, ahead: u8) -> MessageHead {
        MessageHead {
            log_id: self.log_id.unwrap_or(log_id),
            epoch,
            first: self.next,
            before: self.digest,
            ahead,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::message::{Node, Records};
    use super::*;

    const LOG: [u8; 16] = [7; 16];

    fn fence(name: &str) -> Content<'_> {
        let token = [1; 16];
        Content::Fence(Node { token, name })
    }

    fn follow(tail: &mut Tail, sequence: u64, bytes: &[u8]) -> Result<Follows, String> {
        let message = Message::read(bytes).unwrap();
        tail.follow(sequence, &message)
            .map_err(|error| error.to_string())
    }

    /// Returns a fence, a batch of two, a barrier, and the tail after each.
    fn some() -> Vec<(Vec<u8>, Tail)> {
        let records = [1, 0, 0, 0, b'a', 0, 0, 0, 0];
        let contents = [
            (1, fence("a")),
            (1, Content::Batch(Records::of(&records, 2).unwrap())),
            (1, Content::Barrier),
        ];
        let mut tail = Tail::beginning();
        let contents = contents.into_iter().zip(1..);
        let messages = contents.map(|((epoch, content), sequence)| {
            let (bytes, _) = tail.place(LOG, epoch, 0).message(content);
            follow(&mut tail, sequence, &bytes).unwrap();
            (bytes.to_vec(), tail.clone())
        });
        messages.collect()
    }

    #[test]
    fn messages_form_a_chain_without_omission_duplicate_or_replacement() {
        let messages = some();
        assert_eq!(messages[2].1.next, 3);
        for (left_out, at) in [(0, 1), (1, 2)] {
            let mut tail = match left_out {
                0 => Tail::beginning(),
                _ => messages[0].1.clone(),
            };
            let sequence = tail.sequence + 1;
            let as_if_none_were_missing = follow(&mut tail.clone(), sequence, &messages[at].0);
            assert!(as_if_none_were_missing.is_err(), "{left_out}");
            let gap = follow(&mut tail, sequence + 1, &messages[at].0).unwrap_err();
            assert!(gap.contains("missing"), "{gap}");
        }
        let mut again = messages[1].1.clone();
        let doubled = follow(&mut again, 3, &messages[1].0).unwrap_err();
        assert!(doubled.contains("position 1"), "{doubled}");
        // Another batch in the place of the one that the barrier followed.
        let records = [1, 0, 0, 0, b'b', 0, 0, 0, 0];
        let mut other = messages[0].1.clone();
        let batch = Content::Batch(Records::of(&records, 2).unwrap());
        let (bytes, _) = other.place(LOG, 1, 0).message(batch);
        follow(&mut other, 2, &bytes).unwrap();
        let replaced = follow(&mut other, 3, &messages[2].0).unwrap_err();
        assert!(replaced.contains("the chain is broken"), "{replaced}");
    }

    #[test]
    fn an_epoch_begins_with_a_fence_and_ends_with_the_next_ones() {
        let after = some().pop().unwrap().1;
        let try_one = |epoch, content| {
            let (bytes, _) = after.place(LOG, epoch, 0).message(content);
            follow(&mut after.clone(), 4, &bytes)
        };
        assert_eq!(try_one(1, Content::Barrier), Ok(Follows::Next));
        assert_eq!(try_one(2, fence("b")), Ok(Follows::Next));
        assert_eq!(try_one(9, fence("b")), Ok(Follows::Next));
        for (epoch, content, why) in [
            (2, Content::Barrier, "without a fence"),
            (1, fence("b"), "within that epoch"),
            (0, Content::Barrier, "after one of epoch 1"),
        ] {
            let refused = try_one(epoch, content).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        let other = Tail {
            log_id: Some([8; 16]),
            ..after.clone()
        };
        let (bytes, _) = other.place(LOG, 1, 0).message(Content::Barrier);
        let foreign = follow(&mut after.clone(), 4, &bytes).unwrap_err();
        assert!(foreign.contains("another service"), "{foreign}");
    }

    #[test]
    fn only_a_fenced_writers_messages_in_flight_are_passed_over() {
        let before = some().pop().unwrap().1;
        let message = |tail: &Tail, epoch, ahead, content: Content<'_>| {
            tail.place(LOG, epoch, ahead).message(content).0
        };
        // Of four messages in flight at 4 to 7, the fence of another writer takes the place of the first.
        let mut flying = Vec::new();
        let mut end = before.clone();
        for ahead in 0..4 {
            let bytes = message(&end, 1, ahead, Content::Barrier);
            follow(&mut end, 4 + u64::from(ahead), &bytes).unwrap();
            flying.push(bytes);
        }
        let mut fenced = before.clone();
        let begins = message(&before, 2, 0, fence("b"));
        follow(&mut fenced, 4, &begins).unwrap();
        let own = message(&fenced, 2, 0, Content::Barrier);
        // Each subset of the other messages, in their own places.
        for taken in 0..8_u8 {
            let mut tail = fenced.clone();
            for place in 5..8 {
                assert!(!tail.is_past_void());
                match taken >> (place - 5) & 1 {
                    1 => {
                        let void = follow(
                            &mut tail,
                            place,
                            &flying[usize::try_from(place - 4).unwrap()],
                        );
                        assert_eq!(void, Ok(Follows::Void), "{taken}: {place}");
                    }
                    _ => {
                        let bytes = message(&tail, 2, 0, Content::Barrier);
                        assert_eq!(follow(&mut tail, place, &bytes), Ok(Follows::Next));
                    }
                }
                assert_eq!((tail.epoch, tail.next), (2, before.next));
            }
            assert!(tail.is_past_void());
        }
        // A message that claims that none was in flight before it, or fewer than have come since the fence.
        for (place, ahead) in [(5, 0), (6, 1), (7, 2), (8, 3)] {
            let mut tail = fenced.clone();
            tail.sequence = place - 1;
            let bytes = message(&before, 1, ahead, Content::Barrier);
            let refused = follow(&mut tail, place, &bytes).unwrap_err();
            assert!(refused.contains("after one of epoch 2"), "{refused}");
        }
        // The message after a void one names the message before that.
        let mut tail = fenced.clone();
        follow(&mut tail, 5, &flying[1]).unwrap();
        assert_eq!(follow(&mut tail, 6, &own), Ok(Follows::Next));
        let onto_void = message(&end, 2, 0, Content::Barrier);
        let mut tail = fenced;
        follow(&mut tail, 5, &flying[1]).unwrap();
        assert!(follow(&mut tail, 6, &onto_void).is_err());
    }
}
