//! The result of a look at a log that is to be copied.

use super::parts::ends;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::survey::Survey;

/// The result of a look.
pub(super) enum CopyAttempt {
    /// Everything that was wanted, and what proves it: the manifest of a copy.
    Whole(Manifest),
    /// A log whose end lacks something, or its proof.
    Open(Box<SurveyedLog>),
    Damaged(Error),
}

/// A log that was read to its end.
pub(super) struct SurveyedLog {
    /// The manifest without the open segments at its end.
    pub(super) sealed: Manifest,
    pub(super) survey: Survey,
}

impl SurveyedLog {
    /// Returns the manifest of a copy that ends with the last frame that `mark` proves.
    pub(super) fn copy(&self, mark: u64) -> Manifest {
        let mut copy = self.sealed.clone();
        copy.segments.extend(ends(&self.survey, mark));
        copy
    }
}

impl CopyAttempt {
    /// Whether nothing has changed since the look before.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Open(one), Self::Open(other)) => {
                (one.survey.next, one.survey.mark) == (other.survey.next, other.survey.mark)
                    && one.sealed.generation == other.sealed.generation
            }
            (
                Self::Damaged(Error::Damaged { file, offset, .. }),
                Self::Damaged(Error::Damaged {
                    file: before,
                    offset: at,
                    ..
                }),
            ) => file == before && offset == at,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_with_other_damage_or_none_is_not_like_the_one_before() {
        let damaged = |file: &str, offset| {
            CopyAttempt::Damaged(Error::Damaged {
                file: file.to_owned(),
                offset,
                position: None,
                what: String::new(),
            })
        };
        let before = damaged("one", 1);
        assert!(damaged("one", 1).is_like(&before));
        assert!(!damaged("one", 2).is_like(&before));
        assert!(!damaged("two", 1).is_like(&before));
        let stopped = Error::Stopped { reason: "".into() };
        assert!(!CopyAttempt::Damaged(stopped).is_like(&before));
    }
}
