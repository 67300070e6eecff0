//! Reads a request from its tree: each field reads itself, and reports each fault.

use std::fmt;

use super::fault::{Fault, FaultCode};
use super::faults::Faults;
use super::value::Json;
use crate::base::time::Timestamp;

/// Maximum number of characters that a fault's path shows of a name that the sender has chosen: more
/// than a map's names may have, so that each accepted name is shown in full.
pub(super) const NAME_SHOWN_MAX: usize = 1_024;

/// One step of the path from the body to a field.
#[derive(Clone, Debug)]
enum Step {
    Name(&'static str),
    Item(usize),
    Entry(String),
}

/// The current path in a request, and the faults found so far.
#[derive(Debug)]
pub struct Reader {
    now: Timestamp,
    path: Vec<Step>,
    faults: Faults,
    /// Whether a fault was found that the request has at any time.
    is_faulty: bool,
    /// Whether a fault was found that also content that is stored already may not have.
    is_faulty_if_stored: bool,
}

impl Reader {
    /// Makes a reader at the body; `now` is the time of the request.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            path: Vec::new(),
            faults: Faults::default(),
            is_faulty: false,
            is_faulty_if_stored: false,
        }
    }

    /// The time of the request, for rules like "not in the future".
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether no fault was found so far.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether faults were found, and each of them depends on the time of the request alone: at another
    /// time the same request has none.
    #[must_use]
    pub fn is_untimely(&self) -> bool {
        !self.is_clean() && !self.is_faulty
    }

    /// Whether no fault was found so far but those of [`Reader::fault_of_new_at`].
    #[must_use]
    pub fn is_clean_if_stored(&self) -> bool {
        !self.is_faulty_if_stored
    }

    /// The faults that were found so far, in their order.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        self.faults.all()
    }

    /// The faults, in the order in which they were found.
    #[must_use]
    pub fn into_faults(self) -> Vec<Fault> {
        self.faults.into_all()
    }

    /// Notes a fault at the current path. Returns `None`, so that a function can end with it.
    pub fn fault<T>(&mut self, code: FaultCode) -> Option<T> {
        self.is_faulty = true;
        self.is_faulty_if_stored = true;
        self.note(code);
        None
    }

    fn note(&mut self, code: FaultCode) {
        if !self.faults.is_full() {
            let path = self.place();
            self.faults.note(path, code);
        }
    }

    /// Notes a fault at the field `name` below the current path.
    pub fn fault_at<T>(&mut self, name: &'static str, code: FaultCode) -> Option<T> {
        self.inside(name, |at| at.fault(code))
    }

    /// Notes a fault at the field `name` below the current path that depends on the time of the request
    /// alone.
    pub fn untimely_at(&mut self, name: &'static str, code: FaultCode) {
        self.is_faulty_if_stored = true;
        self.inside(name, |at| at.note(code));
    }

    /// Notes a fault at the field `name` below the current path, by a rule that is younger than some of what is
    /// stored: whoever decides accepts the content if the same is stored already.
    pub fn fault_of_new_at(&mut self, name: &'static str, code: FaultCode) {
        self.is_faulty = true;
        self.inside(name, |at| at.note(code));
    }

    /// Runs `read` at the field `name`.
    pub fn inside<T>(&mut self, name: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.step(Step::Name(name), read)
    }

    /// Runs `read` at the item numbered `index`.
    pub fn item<T>(&mut self, index: usize, read: impl FnOnce(&mut Self) -> T) -> T {
        self.step(Step::Item(index), read)
    }

    /// Runs `read` at the entry `name` of a map with names of the sender's choice.
    pub fn entry<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let shown = name.chars().take(NAME_SHOWN_MAX).collect();
        self.step(Step::Entry(shown), read)
    }

    fn step<T>(&mut self, step: Step, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let value = read(self);
        self.path.pop();
        value
    }

    fn place(&self) -> String {
        use fmt::Write as _;
        let mut text = String::new();
        for step in &self.path {
            let name = match step {
                Step::Name(name) => *name,
                Step::Entry(name) => name,
                Step::Item(index) => {
                    let _ = write!(text, "[{index}]");
                    continue;
                }
            };
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(name);
        }
        text
    }

    /// Returns the string at the current path, which has to have at least one character.
    pub fn text<'v>(&mut self, value: &'v Json<'_>) -> Option<&'v str> {
        match value {
            Json::Text(text) => self.not_empty(text),
            _ => self.fault(FaultCode::WrongType),
        }
    }

    /// Returns the text, unless it is empty.
    pub fn not_empty<'v>(&mut self, text: &'v str) -> Option<&'v str> {
        match text {
            "" => self.fault(FaultCode::TooShort),
            text => Some(text),
        }
    }

    /// Sorts an object's fields into the order of `names`; notes faults for a value that is not an
    /// object, for unknown fields and for duplicate ones.
    pub fn slots<'v, 'a, const N: usize>(
        &mut self,
        value: &'v Json<'a>,
        names: &[&'static str; N],
    ) -> Option<[Option<&'v Json<'a>>; N]> {
        let Json::Object(members) = value else {
            return self.fault(FaultCode::WrongType);
        };
        let mut slots = [None; N];
        // Senders mostly write fields in the order of their declaration: look there first.
        let mut expected = 0;
        for (name, value) in members {
            let index = if names.get(expected).is_some_and(|known| known == name) {
                expected
            } else if let Some(index) = names.iter().position(|known| known == name) {
                index
            } else {
                self.entry(name, |at| at.fault::<()>(FaultCode::UnknownField));
                continue;
            };
            expected = index + 1;
            if slots[index].is_some() {
                self.fault_at::<()>(names[index], FaultCode::DuplicateField);
            } else {
                slots[index] = Some(value);
            }
        }
        Some(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::super::faults::FAULTS_MAX;
    use super::*;

    #[test]
    fn a_request_is_untimely_when_each_of_its_faults_is_one_of_the_time() {
        let mut at = Reader::new(Timestamp::default());
        assert!(!at.is_untimely(), "it has no fault");
        at.untimely_at("later", FaultCode::OutOfRange);
        assert!(at.is_untimely() && !at.is_clean());
        at.fault_at::<()>("wrong", FaultCode::WrongType);
        assert!(!at.is_untimely());
        let faults = at.into_faults().into_iter();
        let paths: Vec<_> = faults.map(|fault| fault.path).collect();
        assert_eq!(paths, ["later", "wrong"]);
    }

    #[test]
    fn a_fault_that_is_not_reported_for_want_of_room_counts_all_the_same() {
        let mut at = Reader::new(Timestamp::default());
        for _ in 0..=FAULTS_MAX {
            at.untimely_at("later", FaultCode::OutOfRange);
        }
        assert!(at.is_untimely());
        at.fault_at::<()>("wrong", FaultCode::WrongType);
        assert!(!at.is_untimely());
        assert_eq!(at.into_faults().len(), FAULTS_MAX);
    }

    #[test]
    fn stored_content_is_accepted_only_if_each_fault_is_by_a_younger_rule() {
        let mut at = Reader::new(Timestamp::default());
        assert!(at.is_clean_if_stored(), "it has no fault");
        at.fault_of_new_at("younger", FaultCode::OutOfRange);
        assert!(at.is_clean_if_stored() && !at.is_clean() && !at.is_untimely());
        at.untimely_at("later", FaultCode::OutOfRange);
        assert!(!at.is_clean_if_stored() && !at.is_untimely());
    }

    #[test]
    fn a_fault_left_out_for_want_of_room_counts_for_stored_content_too() {
        for is_untimely in [true, false] {
            let mut at = Reader::new(Timestamp::default());
            for _ in 0..=FAULTS_MAX {
                at.fault_of_new_at("younger", FaultCode::OutOfRange);
            }
            assert!(at.is_clean_if_stored());
            match is_untimely {
                true => at.untimely_at("later", FaultCode::OutOfRange),
                false => {
                    at.fault_at::<()>("wrong", FaultCode::WrongType);
                }
            }
            assert!(!at.is_clean_if_stored());
            assert_eq!(at.into_faults().len(), FAULTS_MAX);
        }
    }
}
