//! Responses. Only this module knows the status codes, and the shape of each route's problems.

pub(super) mod answer_body;
pub mod deadlines;
pub mod pieces;
pub(super) mod problem_body;

use std::collections::BTreeMap;

use bytes::Bytes;
use hyper::body::Body as _;
use hyper::header::{
    ALLOW, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};

use super::token::challenge;
use crate::base::json::{Fault, FaultCode};
use crate::catalogue::{Invalid, KeySource, ProblemShape, ReadRow, Row, Success};
use crate::domain::operation::Disposition;
use crate::domain::rejection::{Class, Rejection};
use crate::engine::CommandResult;
pub use answer_body::Answer;
use answer_body::AnswerBody;
use problem_body::Problem;

pub(super) const POSITION: HeaderName = HeaderName::from_static("carebook-position");
const WRITER: HeaderName = HeaderName::from_static("carebook-writer");
const DRY_RUN: HeaderName = HeaderName::from_static("carebook-dry-run");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Value of `Retry-After` for a temporary problem, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// How a route reports problems: their shape, and the status of an invalid request.
#[derive(Clone, Copy)]
pub struct Problems {
    /// The shape of the route's problems.
    pub problem: ProblemShape,
    /// The status of an invalid request.
    pub invalid: StatusCode,
}

impl Problems {
    /// For routes that are not operations: full shape, and 400 for an invalid request.
    pub const PLAIN: Self = Self {
        problem: ProblemShape::Full,
        invalid: StatusCode::BAD_REQUEST,
    };

    /// Returns how an operation reports problems.
    #[must_use]
    pub fn of(row: &Row) -> Self {
        Self {
            problem: row.problem,
            invalid: match row.invalid {
                Invalid::BadRequest => StatusCode::BAD_REQUEST,
                Invalid::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
            },
        }
    }

    /// Returns how a path without a route reports problems: below a mother's profile they have the profile's shape.
    #[must_use]
    pub fn beside_routes(path: &str) -> Self {
        match path.starts_with("/mother/profile/") {
            true => Self {
                problem: ProblemShape::Profile,
                ..Self::PLAIN
            },
            false => Self::PLAIN,
        }
    }

    /// Returns how a read reports problems.
    #[must_use]
    pub fn of_read(row: &ReadRow) -> Self {
        Self {
            problem: row.problem,
            ..Self::PLAIN
        }
    }

    fn status(self, class: Class) -> StatusCode {
        match class {
            Class::Invalid => self.invalid,
            Class::Forbidden => StatusCode::FORBIDDEN,
            Class::Missing => StatusCode::NOT_FOUND,
            Class::Conflict => StatusCode::CONFLICT,
        }
    }

    /// Returns the response to a rejection.
    #[must_use]
    pub fn rejected(self, rejection: &Rejection) -> Answer {
        let status = self.status(rejection.class);
        if self.problem == ProblemShape::Profile {
            tell_of_faults(&rejection.faults);
        }
        if let Some(body) = &rejection.body {
            return json_response(status, AnswerBody::problem(body.clone(), rejection.code));
        }
        self.written(Problem {
            status,
            code: rejection.code,
            message: &rejection.message,
            faults: &rejection.faults,
            conflicting: &rejection.conflicting,
        })
    }

    /// Returns a problem that is not a rejection of the domain.
    #[must_use]
    pub fn problem(self, status: StatusCode, code: &'static str, message: &str) -> Answer {
        self.written(Problem {
            status,
            code,
            message,
            faults: &[],
            conflicting: &[],
        })
    }

    fn written(self, problem: Problem<'_>) -> Answer {
        let mut answer = problem.answer(self.problem);
        answer.headers_mut().insert(CONTENT_TYPE, JSON);
        if problem.is_retryable() {
            answer.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS);
        }
        answer
    }

    /// Returns 401, with the challenge that fits the request.
    #[must_use]
    pub fn unauthenticated(self, challenge: &'static str) -> Answer {
        self.challenging(challenge, "A valid bearer token is required.")
    }

    /// Returns 401 for a token that was valid when the request began.
    #[must_use]
    pub fn no_longer_authenticated(self, message: &str) -> Answer {
        self.challenging(challenge(true), message)
    }

    fn challenging(self, challenge: &'static str, message: &str) -> Answer {
        let mut answer = self.problem(StatusCode::UNAUTHORIZED, "authentication_required", message);
        answer
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        answer
    }

    /// Returns 429.
    #[must_use]
    pub fn overloaded(self) -> Answer {
        self.problem(
            StatusCode::TOO_MANY_REQUESTS,
            "overloaded",
            "The service is busy; nothing was done. Try again soon.",
        )
    }

    /// Returns 429 in place of a large answer that the client can request again, while too many are being sent.
    #[must_use]
    pub fn not_sent(self) -> Answer {
        self.problem(
            StatusCode::TOO_MANY_REQUESTS,
            "overloaded",
            "Too many answers are being sent; nothing was done. Send the request again soon.",
        )
    }

    /// The answer to a read at this position; 429 without one, when too much is on its way out.
    #[must_use]
    pub fn sent(self, answer: Option<Answer>, position: u64) -> Answer {
        answer.map_or_else(|| self.overloaded(), |answer| at_position(answer, position))
    }

    /// Does what [`Self::sent`] does, for a 200 with this body.
    #[must_use]
    pub fn sent_body(self, body: Option<Bytes>, position: u64) -> Answer {
        self.sent(body.map(|body| json(StatusCode::OK, body)), position)
    }

    /// Returns 503: the command was not carried out.
    #[must_use]
    pub fn unavailable(self) -> Answer {
        self.problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "service_unavailable",
            "The service cannot do this at present; nothing was done. Try again.",
        )
    }

    /// Returns 503 to a command that was sent to a standby. The response names the writer's address if that is known.
    #[must_use]
    pub fn not_writer(self, writer: Option<&str>) -> Answer {
        let mut answer = self.problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "not_the_writer",
            "This service answers reads only; nothing was done. Send it to the writer.",
        );
        if let Some(Ok(writer)) = writer.map(HeaderValue::from_str) {
            answer.headers_mut().insert(WRITER, writer);
        }
        answer
    }

    /// Returns 503 to a read that timed out waiting for a position; `position` is the one that the service has
    /// reached.
    #[must_use]
    pub fn not_reached(self, position: u64) -> Answer {
        let answer = self.problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "position_not_reached",
            "This service has not come to that position yet. Try again, or ask the writer.",
        );
        at_position(answer, position)
    }

    /// Returns the response to an operation's result.
    #[must_use]
    pub fn reply(self, reply: CommandResult, success: Success) -> Answer {
        match reply {
            CommandResult::Done { body, disposition, replay, position } => {
                let status = success_status(success, disposition, replay);
                let mut answer = match status {
                    StatusCode::NO_CONTENT => empty(status),
                    status => json(status, body),
                };
                if replay {
                    let yes = HeaderValue::from_static("true");
                    answer.headers_mut().insert(REPLAYED, yes);
                }
                at_position(answer, position)
            }
            CommandResult::Refused { rejection, position } => {
                at_position(self.rejected(&rejection), position)
            }
            CommandResult::Overloaded => self.overloaded(),
            CommandResult::Unavailable => self.unavailable(),
            CommandResult::NotWriter => self.not_writer(None),
            CommandResult::OutcomeUnknown => self.problem(
                StatusCode::SERVICE_UNAVAILABLE,
                "outcome_unknown",
                "The command may or may not have been carried out: send it again under the same idempotency key.",
            ),
            CommandResult::Fault => self.problem(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal_error",
                "An internal error; nothing was done.",
            ),
        }
    }
}

fn success_status(success: Success, disposition: Disposition, replay: bool) -> StatusCode {
    match (success, disposition, replay) {
        (Success::Accepted, ..) => StatusCode::ACCEPTED,
        (Success::NoContent, ..) => StatusCode::NO_CONTENT,
        (Success::Ok, ..) | (Success::CreatedOnce, _, true) => StatusCode::OK,
        (_, Disposition::Accepted, _) => StatusCode::ACCEPTED,
        (Success::Created | Success::CreatedOnce, Disposition::Done, _) => StatusCode::CREATED,
    }
}

/// The codes of the problems with one status; empty for a success.
pub type Codes = Vec<&'static str>;

/// Returns the possible responses of an operation: each status in ascending order, with the codes of its problems.
/// Those of the operation itself are in the order in which it checks them.
///
/// 202 is not among them: it reports a commit with a pending side effect, and the row does not say whether an
/// operation makes such commits.
#[must_use]
pub fn statuses(row: &Row) -> BTreeMap<u16, Codes> {
    let problems = Problems::of(row);
    let mut statuses: BTreeMap<u16, Codes> = BTreeMap::new();
    let mut add = |status: StatusCode, codes: &[&'static str]| {
        let known = statuses.entry(status.as_u16()).or_default();
        for code in codes {
            if !known.contains(code) {
                known.push(code);
            }
        }
    };
    for replay in [false, true] {
        add(success_status(row.success, Disposition::Done, replay), &[]);
    }
    add(problems.invalid, &["request_invalid"]);
    if row.bearer {
        add(StatusCode::UNAUTHORIZED, &["authentication_required"]);
        add(
            StatusCode::FORBIDDEN,
            &["actor_inactive", "actor_withdrawn"],
        );
    }
    add(StatusCode::REQUEST_TIMEOUT, &["request_invalid"]);
    add(StatusCode::PAYLOAD_TOO_LARGE, &["body_too_large"]);
    add(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        &["unsupported_media_type"],
    );
    match row.key {
        KeySource::None => {}
        KeySource::Header | KeySource::HeaderIfSent | KeySource::Body => {
            add(StatusCode::CONFLICT, &["idempotency_key_reused"]);
        }
        KeySource::BodyOfAll { reused } => add(StatusCode::CONFLICT, &[reused]),
    }
    for declared in row.operation.rejections() {
        add(problems.status(declared.class), &[declared.code]);
    }
    add(StatusCode::TOO_MANY_REQUESTS, &["overloaded"]);
    add(StatusCode::INTERNAL_SERVER_ERROR, &["internal_error"]);
    add(
        StatusCode::SERVICE_UNAVAILABLE,
        &["service_unavailable", "not_the_writer"],
    );
    // Only the outcome of a commit can be unknown, and every commit has an idempotency key.
    if row.key != KeySource::None {
        add(StatusCode::SERVICE_UNAVAILABLE, &["outcome_unknown"]);
    }
    statuses
}

/// Logs the faults that the response does not contain, in the span of the request. Names that the client has chosen,
/// such as unknown fields of a profile, are not logged.
fn tell_of_faults(faults: &[Fault]) {
    for fault in faults {
        let is_own_name = matches!(
            fault.code,
            FaultCode::UnknownField | FaultCode::DuplicateField | FaultCode::NotUnique
        );
        tracing::debug!(
            field_path = if is_own_name { "-" } else { &fault.path },
            code = fault.code.as_str(),
            "a field of the request is at fault"
        );
    }
}

/// Returns a response with a JSON body.
#[must_use]
pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    json_response(status, AnswerBody::from(body))
}

fn json_response(status: StatusCode, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

/// Returns the response with the page of metrics.
#[must_use]
pub fn metrics(page: Bytes) -> Answer {
    const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let mut answer = Response::new(AnswerBody::from(page));
    answer.headers_mut().insert(CONTENT_TYPE, TEXT);
    answer
}

/// Turns the answer to `GET` into that to `HEAD`: without the body, but with its length (RFC 9110, 9.3.2).
#[must_use]
pub fn without_body(answer: Answer) -> Answer {
    let (mut head, body) = answer.into_parts();
    if let Some(length @ 1..) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, AnswerBody::default())
}

/// Returns a response without a body.
#[must_use]
pub fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(AnswerBody::default());
    *answer.status_mut() = status;
    answer
}

/// Adds the position that the response depends on.
#[must_use]
pub fn at_position(mut answer: Answer, position: u64) -> Answer {
    answer
        .headers_mut()
        .insert(POSITION, HeaderValue::from(position));
    answer
}

/// Adds the header that says that nothing was committed.
#[must_use]
pub fn of_dry_run(mut answer: Answer) -> Answer {
    let yes = HeaderValue::from_static("true");
    answer.headers_mut().insert(DRY_RUN, yes);
    answer
}

/// Adds an entity tag.
#[must_use]
pub fn tagged(mut answer: Answer, tag: &str) -> Answer {
    if let Ok(value) = HeaderValue::try_from(format!("\"{tag}\"")) {
        answer.headers_mut().insert(ETAG, value);
    }
    answer
}

/// Adds the methods of the response's path.
#[must_use]
pub fn allowing(mut answer: Answer, methods: &str) -> Answer {
    if let Ok(value) = HeaderValue::try_from(methods) {
        answer.headers_mut().insert(ALLOW, value);
    }
    answer
}

#[cfg(test)]
mod tests {
    use crate::base::json::Shape;
    use crate::catalogue::{OPERATIONS, ProblemShape};

    /// Whether a value of this shape may have fields whose names the client chooses.
    fn has_own_names(shape: &Shape) -> bool {
        match shape {
            Shape::Map { .. } | Shape::Any => true,
            Shape::List { of, .. } => has_own_names(of),
            Shape::Object(fields) => fields.iter().any(|field| has_own_names(&field.shape)),
            _ => false,
        }
    }

    /// Faults below such a name would contain the name in their paths.
    #[test]
    fn where_faults_are_logged_no_known_field_has_names_chosen_by_callers() {
        let told = OPERATIONS
            .iter()
            .filter(|row| row.problem == ProblemShape::Profile);
        let shapes: Vec<_> = told.map(|row| row.operation.shape()).collect();
        assert!(!shapes.is_empty());
        assert!(!shapes.iter().any(has_own_names));
    }
}
