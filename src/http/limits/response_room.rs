//! A memory budget for the large responses that are being sent. A client may read a body slowly, and while a journal
//! does not confirm commits an answer waits for it: without a bound such bodies would take as much memory as clients
//! request. The answer to a command that was carried out is charged, too, but sent even beyond the budget, because the
//! outcome has to be reported; so while the budget is scarce, a subject with many unsent bytes has no further command
//! carried out. Large problems may use a quarter of the budget, and have a shorter form for when that is used up.
//!
//! Half of the budget is reserved for subjects with few unsent bytes, so that one who requests much and reads nothing
//! does not keep others from reading.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::engine::limits::admission::{Admission, Permit};

/// Capacity of the budget for all clients, in bytes.
const OUTGOING_BYTES_MAX: usize = 128 << 20;
/// Bytes of unsent bodies that a subject may always hold, besides its first body. Beyond this, a body is admitted
/// only while half of the budget stays free.
const OWN_BYTES: usize = 8 << 20;
/// Maximum size of a body that is not charged, in bytes: the number of connections bounds such bodies.
pub(in crate::http) const SMALL_BYTES_MAX: usize = 16 << 10;

/// The budget that large responses share.
#[derive(Clone)]
pub struct ResponseRoom(Arc<Budget>);

struct Budget {
    all: Arc<Admission>,
    /// What each subject has charged, as long as it has a share.
    own: Mutex<HashMap<Box<str>, Own>>,
}

/// The charges of one subject.
#[derive(Default)]
struct Own {
    shares: usize,
    bytes: Arc<AtomicUsize>,
}

/// The budget for the responses to one subject.
#[derive(Clone, Copy)]
pub struct ResponseRoomOf<'a> {
    outgoing: &'a ResponseRoom,
    subject: &'a str,
}

/// A charge that can grow, for a body whose length is not known in advance.
pub struct Share {
    budget: Arc<Budget>,
    all: Permit,
    subject: Box<str>,
    own: Arc<AtomicUsize>,
    /// Charged bytes, which are part of `own`. After an overdraft they are more than `all` has granted.
    bytes: usize,
}

impl Default for ResponseRoom {
    fn default() -> Self {
        Self::of(OUTGOING_BYTES_MAX)
    }
}

impl ResponseRoom {
    fn of(bytes: usize) -> Self {
        Self(Arc::new(Budget {
            all: Arc::new(Admission::new(bytes)),
            own: Mutex::default(),
        }))
    }

    /// Returns the budget for the responses to this subject.
    pub fn to<'a>(&'a self, subject: &'a str) -> ResponseRoomOf<'a> {
        ResponseRoomOf {
            outgoing: self,
            subject,
        }
    }

    /// Charges a problem's body of `bytes` bytes. As a problem has a short form, too, the charge is granted only
    /// while three quarters of the budget stay free.
    pub(in crate::http) fn of_problem(&self, bytes: usize) -> Option<Permit> {
        let all = &self.0.all;
        let mut share = Permit::none(all);
        share
            .grow(bytes, all.max() - all.max() / 4)
            .then_some(share)
    }
}

impl ResponseRoomOf<'_> {
    /// Returns an empty share.
    pub fn share(self) -> Share {
        let budget = &self.outgoing.0;
        let mut all = budget.own.lock();
        let own = all.entry(self.subject.into()).or_default();
        own.shares += 1;
        Share {
            budget: Arc::clone(budget),
            all: Permit::none(&budget.all),
            subject: self.subject.into(),
            own: Arc::clone(&own.bytes),
            bytes: 0,
        }
    }

    /// Whether a command of this subject may be carried out: its answer is then sent whatever its size. While half of
    /// the budget is used, a subject with more than 8 MiB has to wait; while all of it is, one with any.
    pub fn may_be_answered(self) -> bool {
        let budget = &self.outgoing.0;
        if budget.all.free() >= budget.all.max() / 2 {
            return true;
        }
        let own_max = if budget.all.free() == 0 { 0 } else { OWN_BYTES };
        let own = budget.own.lock();
        own.get(self.subject)
            .is_none_or(|own| own.bytes.load(Ordering::Acquire) <= own_max)
    }

    /// Charges the body of an operation's answer, and returns it. An answer that is owed, because the command was
    /// carried out, is returned in any case; any other only where the budget has room.
    pub fn answer(self, body: Bytes, is_owed: bool) -> Option<Bytes> {
        let bytes = body.len();
        if bytes <= SMALL_BYTES_MAX {
            return Some(body);
        }
        let mut share = self.share();
        if !share.grow(bytes) {
            if !is_owed {
                return None;
            }
            share.overdraw(bytes);
        }
        Some(charged(body, share))
    }

    /// Charges about `bytes` bytes for the body that `write` makes, and returns it; `None`, without making it, while
    /// the budget has no room.
    pub fn body(self, bytes: usize, write: impl FnOnce() -> Vec<u8>) -> Option<Bytes> {
        if bytes <= SMALL_BYTES_MAX {
            return Some(write().into());
        }
        let mut share = self.share();
        share.grow(bytes).then(|| charged(write(), share))
    }
}

impl Share {
    /// Grows the share by `bytes`, unless the budget is used up. Returns whether it has grown.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let before = self.own.fetch_add(bytes, Ordering::AcqRel);
        let left = match before == 0 || before + bytes <= OWN_BYTES {
            true => 0,
            false => self.all.admission().max() / 2,
        };
        if !self.all.grow(bytes, left) {
            self.own.fetch_sub(bytes, Ordering::AcqRel);
            return false;
        }
        self.bytes += bytes;
        true
    }

    /// Grows the share by `bytes` even if the budget is used up; takes from the budget what is left of it.
    fn overdraw(&mut self, bytes: usize) {
        self.own.fetch_add(bytes, Ordering::AcqRel);
        self.bytes += bytes;
        self.all.grow_up_to(bytes);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.own.fetch_sub(self.bytes, Ordering::AcqRel);
        let mut all = self.budget.own.lock();
        if let Some(own) = all.get_mut(&self.subject) {
            own.shares -= 1;
            if own.shares == 0 {
                all.remove(&self.subject);
            }
        }
    }
}

/// Returns a body that keeps its share until the last part of it is sent.
pub fn charged<B: AsRef<[u8]> + Send + 'static>(body: B, share: Share) -> Bytes {
    Bytes::from_owner(Charged {
        body,
        _share: share,
    })
}

struct Charged<B> {
    body: B,
    _share: Share,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Charged<B> {
    fn as_ref(&self) -> &[u8] {
        self.body.as_ref()
    }
}

/// Returns a budget that another subject has used up, as long as the returned share lives.
#[cfg(test)]
pub(in crate::http) fn taken() -> (ResponseRoom, Share) {
    let outgoing = ResponseRoom::default();
    let mut all = outgoing.to("another").share();
    assert!(all.grow(OUTGOING_BYTES_MAX));
    (outgoing, all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn body(outgoing: &ResponseRoom, subject: &str, bytes: usize) -> Option<Bytes> {
        outgoing.to(subject).body(bytes, || vec![7; bytes])
    }

    #[test]
    fn unsent_bodies_are_bounded_together_and_one_beyond_is_not_even_made() {
        let outgoing = ResponseRoom::of(100 << 10);
        let mut first = body(&outgoing, "me", 60 << 10).unwrap();
        let refused = outgoing.to("you").body(60 << 10, || panic!("it is made"));
        assert!(refused.is_none());
        // Small bodies are not charged.
        let small: Vec<_> = (0..10)
            .map(|_| body(&outgoing, "you", SMALL_BYTES_MAX).unwrap())
            .collect();
        assert_eq!(outgoing.0.all.in_flight(), 60 << 10);
        drop(small);
        // A part that is not sent yet keeps the whole charge.
        let rest = first.split_off((60 << 10) - 1);
        drop(first);
        assert!(body(&outgoing, "you", 60 << 10).is_none());
        drop(rest);
        assert!(body(&outgoing, "you", 60 << 10).is_some());
        // No record stays of subjects without unsent bodies, nor of refused bodies.
        assert_eq!(outgoing.0.all.in_flight(), 0);
        assert!(outgoing.0.own.lock().is_empty());
    }

    #[test]
    fn problems_leave_three_quarters_to_bodies_that_have_no_shorter_form() {
        let outgoing = ResponseRoom::of(100 << 10);
        let first = outgoing.of_problem(20 << 10).unwrap();
        assert!(outgoing.of_problem(6 << 10).is_none());
        let second = outgoing.of_problem(5 << 10).unwrap();
        assert!(body(&outgoing, "me", 75 << 10).is_some());
        drop((first, second));
        let _read = body(&outgoing, "me", 30 << 10).unwrap();
        assert!(outgoing.of_problem(1).is_none());
    }

    #[test]
    fn nothing_stays_of_a_subject_whose_shares_end_at_once_on_several_threads() {
        let outgoing = ResponseRoom::default();
        for _ in 0..2_000 {
            let shares = [(); 2].map(|()| outgoing.to("me").share());
            std::thread::scope(|scope| {
                for share in shares {
                    scope.spawn(move || drop(share));
                }
            });
        }
        assert!(outgoing.0.own.lock().is_empty());
    }

    #[test]
    fn an_owed_response_is_sent_without_room_and_charged_and_no_other_is() {
        let (outgoing, all) = taken();
        let answer = |bytes: usize, is_owed| {
            let body = Bytes::from(vec![7; bytes]);
            outgoing.to("me").answer(body, is_owed)
        };
        assert!(answer(SMALL_BYTES_MAX, false).is_some());
        assert!(answer(SMALL_BYTES_MAX + 1, false).is_none());
        assert!(outgoing.to("me").may_be_answered());
        let mut told = vec![answer(OWN_BYTES, true).unwrap()];
        assert_eq!(told[0].len(), OWN_BYTES);
        assert!(!outgoing.to("me").may_be_answered(), "nothing is left");
        told.push(answer(SMALL_BYTES_MAX + 1, true).unwrap());
        assert!(!outgoing.to("me").may_be_answered(), "it has its share");
        assert!(outgoing.to("you").may_be_answered());
        // Half of all is free again.
        drop(all);
        assert!(outgoing.to("me").may_be_answered());
        assert!(answer(SMALL_BYTES_MAX + 1, false).is_some());
        drop(told);
        assert_eq!(outgoing.0.all.in_flight(), 0);
        assert!(outgoing.0.own.lock().is_empty());
    }

    #[test]
    fn a_subject_that_reads_nothing_leaves_half_of_all_room_to_others() {
        let outgoing = ResponseRoom::default();
        let mut taken = Vec::new();
        while let Some(body) = body(&outgoing, "hostile", 1 << 20) {
            taken.push(body);
        }
        assert_eq!(taken.len(), 64);
        // Another subject gets one body of any size, or several of up to 8 MiB together.
        let mut honest = vec![body(&outgoing, "honest", 16 << 20).unwrap()];
        assert!(body(&outgoing, "honest", 1 << 20).is_none());
        honest.clear();
        while let Some(body) = body(&outgoing, "honest", 1 << 20) {
            honest.push(body);
        }
        assert_eq!(honest.len(), 8);
        // Once the budget is free again, the subject may use as much as any other.
        taken.clear();
        assert!(body(&outgoing, "honest", 20 << 20).is_some());
    }
}
