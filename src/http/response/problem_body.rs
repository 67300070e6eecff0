//! The bodies of problems. Most are small, but a problem that names many faults is large, and a client that sends bad
//! requests and reads nothing would make the service hold one such body per stream. So a large body is sent whole
//! only if the budget of unsent bodies has capacity left, and otherwise with fewer faults.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Body as _;
use serde::Serialize;

use super::answer_body::{Answer, AnswerBody};
use crate::base::json::Fault;
use crate::catalogue::ProblemShape;
use crate::domain::operation::to_json;
use crate::http::limits::response_room::{ResponseRoom, SMALL_BYTES_MAX};

/// Maximum length of the path of a short body's only fault, in bytes: no more than 12 KiB when every byte is escaped.
const ONLY_PATH_BYTES_MAX: usize = 2 << 10;

/// A problem, before it is serialized in one of the shapes.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) message: &'a str,
    pub(super) faults: &'a [Fault],
    pub(super) conflicting: &'a [Cow<'static, str>],
}

/// The short body that replaces a large one if the budget is used up.
#[derive(Clone)]
struct Short(Bytes);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FullProblem<'a> {
    status: u16,
    code: &'static str,
    message: &'a str,
    field_errors: &'a [Fault],
    conflicting_field_paths: &'a [Cow<'static, str>],
    retryable: bool,
}

#[derive(Serialize)]
struct ProfileProblem {
    status: u16,
    code: &'static str,
    retryable: bool,
}

#[derive(Serialize)]
struct InvitationProblem<'a> {
    status: u16,
    code: &'static str,
    message: &'a str,
    retryable: bool,
}

impl Problem<'_> {
    /// Whether the same request may soon get another response.
    pub(super) fn is_retryable(self) -> bool {
        matches!(
            self.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        )
    }

    /// Returns the problem's body in this shape.
    pub(super) fn body(self, shape: ProblemShape) -> Vec<u8> {
        let (status, code, message) = (self.status.as_u16(), self.code, self.message);
        let retryable = self.is_retryable();
        match shape {
            ProblemShape::Full => to_json(&FullProblem {
                status,
                code,
                message,
                field_errors: self.faults,
                conflicting_field_paths: self.conflicting,
                retryable,
            }),
            ProblemShape::Profile => to_json(&ProfileProblem {
                status,
                code,
                retryable,
            }),
            ProblemShape::Invitation => to_json(&InvitationProblem {
                status,
                code,
                message,
                retryable,
            }),
        }
    }

    /// Returns the body with only the first faults and paths that fit into a small one; with at least one fault, if
    /// there is any.
    fn short(self) -> Vec<u8> {
        let none = Self {
            faults: &[],
            conflicting: &[],
            ..self
        };
        let mut left = SMALL_BYTES_MAX.saturating_sub(none.body(ProblemShape::Full).len());
        let only;
        let faults = match (fitting(self.faults, &mut left), self.faults) {
            (0, [first, ..]) => {
                let path = &first.path[..first.path.floor_char_boundary(ONLY_PATH_BYTES_MAX)];
                only = [Fault {
                    path: path.to_owned(),
                    code: first.code,
                }];
                left = 0;
                &only[..]
            }
            (first_ones, all) => &all[..first_ones],
        };
        let conflicting = &self.conflicting[..fitting(self.conflicting, &mut left)];
        let told = Problem {
            faults,
            conflicting,
            ..none
        };
        told.body(ProblemShape::Full)
    }

    /// Returns the problem's response in this shape, with nothing but status and body.
    pub(super) fn answer(self, shape: ProblemShape) -> Answer {
        let body = self.body(shape);
        let is_large = body.len() > SMALL_BYTES_MAX;
        let mut answer = Answer::new(AnswerBody::problem(body, self.code));
        *answer.status_mut() = self.status;
        // Problems of the other shapes name no faults.
        if is_large && shape == ProblemShape::Full {
            let short = Short(self.short().into());
            answer.extensions_mut().insert(short);
        }
        answer
    }
}

/// Charges a problem's large body to the budget of unsent bodies until the last of it is sent. If the budget is used
/// up, the short body takes its place.
pub(in crate::http) fn charge(answer: &mut Answer, code: &'static str, outgoing: &ResponseRoom) {
    let Some(Short(short)) = answer.extensions_mut().remove::<Short>() else {
        return;
    };
    let bytes = answer.body().size_hint().exact();
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let share = bytes.and_then(|bytes| outgoing.of_problem(bytes));
    let body = std::mem::take(answer.body_mut());
    *answer.body_mut() = match share {
        Some(share) => body.with(share),
        None => AnswerBody::problem(short, code),
    };
}

/// Returns how many of the first items fit in `left` bytes, and subtracts their size from `left`.
fn fitting<T: Serialize>(items: &[T], left: &mut usize) -> usize {
    let fits = |item: &&T| {
        let rest = left.checked_sub(to_json(item).len() + ",".len());
        *left = rest.unwrap_or(*left);
        rest.is_some()
    };
    items.iter().take_while(fits).count()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::json::FaultCode;
    use crate::domain::rejection::{Class, Rejection};
    use crate::http::limits::response_room::taken;
    use crate::http::response::Problems;

    /// Returns the response to this rejection as it is sent.
    fn sent(rejection: &Rejection, outgoing: &ResponseRoom) -> (StatusCode, Vec<u8>, Value) {
        let mut answer = Problems::PLAIN.rejected(rejection);
        charge(&mut answer, rejection.code, outgoing);
        assert_eq!(answer.body().code(), Some(rejection.code));
        let status = answer.status();
        let AnswerBody::Problem(body, _) = answer.into_body() else {
            panic!("it is a problem");
        };
        let told = serde_json::from_slice(&body).unwrap();
        (status, body.to_vec(), told)
    }

    fn faults(count: usize, path: &str) -> Rejection {
        let one = |number| Fault {
            path: format!("{path}{number}"),
            code: FaultCode::UnknownField,
        };
        Rejection::invalid((0..count).map(one).collect())
    }

    #[test]
    fn without_room_a_problem_names_the_faults_that_fit_into_a_small_body() {
        let (full, all) = taken();
        let empty = ResponseRoom::default();
        for (path, fitting) in [("a", 201), ("\u{1}", 189)] {
            let rejection = faults(1_000, path);
            let (status, body, whole) = sent(&rejection, &empty);
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert!(body.len() > SMALL_BYTES_MAX);
            let (status, body, short) = sent(&rejection, &full);
            assert_eq!(status, StatusCode::BAD_REQUEST);
            // Not one more fault would fit.
            assert!(body.len() <= SMALL_BYTES_MAX && body.len() > SMALL_BYTES_MAX - 100);
            let mut expected = whole.clone();
            expected["fieldErrors"]
                .as_array_mut()
                .unwrap()
                .truncate(fitting);
            assert_eq!(short, expected);
            assert_eq!(whole["fieldErrors"].as_array().unwrap().len(), 1_000);
        }
        drop(all);
        assert_eq!(
            sent(&faults(1_000, "a"), &full).2,
            sent(&faults(1_000, "a"), &empty).2
        );
    }

    #[test]
    fn the_first_fault_is_named_even_if_its_path_alone_is_too_long() {
        let (full, _all) = taken();
        for (letter, shown) in [
            ("\u{1}", ONLY_PATH_BYTES_MAX),
            ("\u{ac00}", ONLY_PATH_BYTES_MAX / 3),
        ] {
            let rejection = faults(2, &letter.repeat(SMALL_BYTES_MAX));
            let (_, body, told) = sent(&rejection, &full);
            assert!(body.len() <= SMALL_BYTES_MAX, "{}", body.len());
            let errors = told["fieldErrors"].as_array().unwrap();
            assert_eq!(errors.len(), 1);
            assert_eq!(errors[0]["fieldPath"], letter.repeat(shown));
            assert_eq!(errors[0]["code"], "unknown_field");
        }
    }

    #[test]
    fn conflicting_paths_are_cut_after_faults_and_small_problems_unchanged() {
        let (full, _all) = taken();
        let mut rejection = Rejection::new(Class::Conflict, "conflict", "It conflicts.");
        rejection.conflicting = (0..2_000)
            .map(|number| format!("lines[{number}]").into())
            .collect();
        let (status, body, told) = sent(&rejection, &full);
        assert_eq!(status, StatusCode::CONFLICT);
        assert!(body.len() <= SMALL_BYTES_MAX && body.len() > SMALL_BYTES_MAX - 20);
        let conflicting = told["conflictingFieldPaths"].as_array().unwrap();
        assert_eq!(conflicting[0], json!("lines[0]"));
        let small = faults(100, "a");
        assert_eq!(
            sent(&small, &full).2["fieldErrors"]
                .as_array()
                .unwrap()
                .len(),
            100
        );
    }
}
