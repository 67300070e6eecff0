//! The chain of messages: what each has to be after the one before.

use super::error::StreamError;
use super::message::{Content, Message, MessageDigest, Place};

/// The end of what was read or appended so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The log's id; `None` before the first message.
    pub log_id: Option<[u8; 16]>,
    /// The sequence of the last message; 0 before the first.
    pub sequence: u64,
    /// The epoch of its writer.
    pub epoch: u64,
    /// The position of the next record.
    pub next: u64,
    /// The digest of the last message.
    pub digest: MessageDigest,
}

impl Tail {
    /// Before the first message.
    #[must_use]
    pub fn beginning() -> Self {
        Self {
            log_id: None,
            sequence: 0,
            epoch: 0,
            next: 1,
            digest: [0; 32],
        }
    }

    /// After this message, whatever came before it.
    #[must_use]
    pub fn after(sequence: u64, message: &Message<'_>) -> Self {
        Self {
            log_id: Some(message.log_id),
            sequence,
            epoch: message.epoch,
            next: message.next(),
            digest: message.digest,
        }
    }

    /// Goes on to the next message.
    ///
    /// # Errors
    /// When it is not the next one, and what it is instead.
    pub fn follow(&mut self, sequence: u64, message: &Message<'_>) -> Result<(), StreamError> {
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
        *self = Self::after(sequence, message);
        Ok(())
    }

    /// Where the next message of an epoch stands in this log.
    #[must_use]
    pub fn place(&self, log_id: [u8; 16], epoch: u64) -> Place {
        Place {
            log_id: self.log_id.unwrap_or(log_id),
            epoch,
            first: self.next,
            before: self.digest,
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

    fn follow(tail: &mut Tail, sequence: u64, bytes: &[u8]) -> Result<(), String> {
        let message = Message::read(bytes).unwrap();
        tail.follow(sequence, &message)
            .map_err(|error| error.to_string())
    }

    /// A fence, a batch of two, a barrier, and the tail after each.
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
            let (bytes, _) = tail.place(LOG, epoch).message(content);
            follow(&mut tail, sequence, &bytes).unwrap();
            (bytes.to_vec(), tail.clone())
        });
        messages.collect()
    }

    #[test]
    fn messages_follow_each_other_and_none_can_be_left_out_doubled_or_replaced() {
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
        // Another batch in the place of the one that the barrier came after.
        let records = [1, 0, 0, 0, b'b', 0, 0, 0, 0];
        let mut other = messages[0].1.clone();
        let batch = Content::Batch(Records::of(&records, 2).unwrap());
        let (bytes, _) = other.place(LOG, 1).message(batch);
        follow(&mut other, 2, &bytes).unwrap();
        let replaced = follow(&mut other, 3, &messages[2].0).unwrap_err();
        assert!(replaced.contains("the chain is broken"), "{replaced}");
    }

    #[test]
    fn an_epoch_begins_with_a_fence_and_ends_with_the_next_ones() {
        let after = some().pop().unwrap().1;
        let try_one = |epoch, content| {
            let (bytes, _) = after.place(LOG, epoch).message(content);
            follow(&mut after.clone(), 4, &bytes)
        };
        assert_eq!(try_one(1, Content::Barrier), Ok(()));
        assert_eq!(try_one(2, fence("b")), Ok(()));
        assert_eq!(try_one(9, fence("b")), Ok(()));
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
        let (bytes, _) = other.place(LOG, 1).message(Content::Barrier);
        let foreign = follow(&mut after.clone(), 4, &bytes).unwrap_err();
        assert!(foreign.contains("another service"), "{foreign}");
    }
}
