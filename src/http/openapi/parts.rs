//! Parts that the document's operations share: parameters, answers, problems.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::headers;
use super::schemas::{Schemas, pascal};
use crate::base::json::{Fault, FromJson as _, Shape, Side};
use crate::catalogue::ProblemShape;
use crate::domain::event_id::EventId;

/// The tags, with their descriptions.
pub(super) const TAGS: [(&str, &str); 8] = [
    ("Operations", "The commands of the platform."),
    ("Reads", "The current state of one resource."),
    ("Lists", "Lists of resources, in pages."),
    (
        "Facts",
        "Data that other systems own, and that the operations depend on.",
    ),
    ("Events", "The commits of the log, as events."),
    ("Webhooks", "Events, sent to a URL."),
    ("Messages", "Messages to other systems."),
    ("Service", "The service itself."),
];

/// Returns a reference to the parameter with this name.
pub(super) fn parameter(name: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{name}")})
}

/// Returns the schema of an event's identifier.
pub(super) fn event_id() -> Value {
    EventId::shape().schema(Side::Request)
}

/// Returns the parameters that several operations have, for the document's components.
pub(super) fn parameters() -> Map<String, Value> {
    let header = |name: &str, required: bool, says: &str, schema: Value| {
        json!({
            "name": name, "in": "header", "required": required, "description": says, "schema": schema
        })
    };
    let mut key = header(
        "Idempotency-Key",
        true,
        "Identifies the request: sent again under the same key, it is carried out only once.",
        json!({
            "type": "string", "minLength": 1, "maxLength": 255,
            "pattern": "^[!-~]([ -~]*[!-~])?$",
        }),
    );
    key["example"] = json!("key-1");
    let mut key_if_any = key.clone();
    key_if_any["required"] = json!(false);
    let all = [
        ("Idempotency-Key", key),
        ("Idempotency-Key-If-Any", key_if_any),
        (
            "X-Request-Id",
            header(
                "X-Request-Id",
                false,
                "An identifier for this request; one that is not 1 to 128 visible ASCII characters is \
                 replaced by a new one.",
                json!({"type": "string"}),
            ),
        ),
        (
            "If-None-Match",
            header(
                "If-None-Match",
                false,
                "Entity tags of the bodies that the client has, or `*`.",
                json!({"type": "string"}),
            ),
        ),
        (
            "Carebook-Min-Position",
            header(
                "Carebook-Min-Position",
                false,
                "The lowest log position that the response may reflect, such as the `Carebook-Position` of an \
                 earlier command: waited for up to 5 seconds.",
                json!({"type": "integer", "format": "int64", "minimum": 0}),
            ),
        ),
        (
            "Last-Event-ID",
            header(
                "Last-Event-ID",
                false,
                "For a stream: the last event that the client has received, as `after`, over which it takes \
                 precedence. Ignored for a page.",
                json!({"type": "string"}),
            ),
        ),
        (
            "dryRun",
            json!({
                "name": "dryRun", "in": "query", "required": false,
                "description": "Everything is checked as for a real command, and nothing is committed. Any other \
                                spelling of the name, such as `dryrun`, is not looked at, and the command is carried \
                                out: only a response with `Carebook-Dry-Run: true` was a dry run.",
                "schema": {"type": "string", "enum": ["true"]},
            }),
        ),
    ];
    let all = all.into_iter().chain(query_parameters());
    all.map(|(name, parameter)| (name.to_owned(), parameter))
        .collect()
}

/// Returns the query parameters among them.
fn query_parameters() -> [(&'static str, Value); 4] {
    let query = |name: &str, says: &str, schema: Value| {
        json!({
            "name": name, "in": "query", "required": false, "description": says, "schema": schema
        })
    };
    [
        (
            "limit",
            query(
                "limit",
                "The most items in a page.",
                json!({"type": "integer", "minimum": 1, "maximum": 500, "default": 50}),
            ),
        ),
        (
            "cursor",
            query(
                "cursor",
                "The `next` of the previous page.",
                json!({"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}),
            ),
        ),
        (
            "revision",
            query(
                "revision",
                "The body as it was at this revision; not together with `at`.",
                json!({"type": "integer", "format": "int64", "minimum": 0}),
            ),
        ),
        (
            "at",
            query(
                "at",
                "The body as it was at this time; not together with `revision`.",
                Shape::Time.schema(Side::Request),
            ),
        ),
    ]
}

/// Returns the schema of a problem of this shape.
fn problem_schema(shape: ProblemShape, fault: &Value) -> Value {
    let status = json!({"type": "integer"});
    let code = json!({"type": "string"});
    let retryable = json!({"type": "boolean"});
    let message = json!({"type": "string"});
    let faults = json!({"type": "array", "items": fault});
    let paths = json!({"type": "array", "items": {"type": "string"}});
    let members = match shape {
        ProblemShape::Full => vec![
            ("status", status),
            ("code", code),
            ("message", message),
            ("fieldErrors", faults),
            ("conflictingFieldPaths", paths),
            ("retryable", retryable),
        ],
        ProblemShape::Profile => {
            vec![("status", status), ("code", code), ("retryable", retryable)]
        }
        ProblemShape::Invitation => vec![
            ("status", status),
            ("code", code),
            ("message", message),
            ("retryable", retryable),
        ],
    };
    let required: Vec<_> = members.iter().map(|(name, _)| *name).collect();
    let properties: Map<_, _> = members
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    })
}

/// Returns the name of a problem with one of these codes, and whether operations share it. A shared name is made from
/// the codes alone, so it does not depend on which operations share it.
fn problem_name(
    operation: &str,
    shape: ProblemShape,
    status: u16,
    codes: &[&str],
) -> (String, bool) {
    let shape = match shape {
        ProblemShape::Full => "",
        ProblemShape::Profile => "Profile",
        ProblemShape::Invitation => "Invitation",
    };
    let words = match (status, codes) {
        (408, ["request_invalid"]) => "RequestTimeout".to_owned(),
        (422, ["request_invalid"]) => "RequestUnprocessable".to_owned(),
        (_, [one]) => pascal(one),
        (_, ["actor_inactive", "actor_withdrawn"]) => "ActorNotActive".to_owned(),
        (_, ["actor_inactive", "actor_withdrawn", "permission_denied"]) => "Forbidden".to_owned(),
        (_, ["not_found", "route_not_found"]) => "ResourceNotFound".to_owned(),
        (_, ["service_unavailable", "not_the_writer"]) => "CommandUnavailable".to_owned(),
        (_, ["service_unavailable", "not_the_writer", "outcome_unknown"]) => {
            "UnavailableOrUnknown".to_owned()
        }
        (_, ["service_unavailable", "position_not_reached"]) => "ReadUnavailable".to_owned(),
        _ => {
            let words = match status {
                400 => "BadRequest",
                403 => "Forbidden",
                404 => "NotFound",
                409 => "Conflict",
                410 => "Gone",
                422 => "Unprocessable",
                _ => "Refusal",
            };
            return (format!("{}{words}", pascal(operation)), false);
        }
    };
    (format!("{shape}{words}"), true)
}

/// Returns the description of a problem of this status with one of these codes.
fn problem_says(status: u16, codes: &[&str]) -> &'static str {
    match status {
        400 | 422 => "The request is not valid, or cannot be carried out.",
        401 => "The token is missing or invalid.",
        403 => "The actor may not do this.",
        404 => "It does not exist, or the actor may not see it.",
        408 => "The body did not arrive whole and in time; nothing was done.",
        409 => "The request conflicts with the current state.",
        410 => "It is no longer in the log.",
        413 => "The body is too large.",
        415 => "The media type of the body is not supported.",
        429 => "The service is busy; nothing was done.",
        500 => "An internal error; nothing was done.",
        _ if codes.contains(&"outcome_unknown") => {
            "The service is not available at present. With `outcome_unknown` the command may have \
             been carried out: send the same request under the same key."
        }
        _ => "The service is not available at present.",
    }
}

/// The description of an answer while it is built.
struct InTheMaking {
    answer: Value,
    /// The name and the schema of the problem that is the answer's body, if it is one.
    problem: Option<(String, Value)>,
    /// The name under which operations share the answer.
    shared: Option<String>,
}

/// The descriptions of an operation's answers while they are built.
pub(super) struct Answers {
    operation: String,
    problem: ProblemShape,
    /// The schema of a fault of a request.
    fault: Value,
    /// The prefix of the names of answers that are shared with operations of the same kind.
    kind: &'static str,
    answers: BTreeMap<u16, InTheMaking>,
}

impl Answers {
    /// Creates an empty set for the operation with this name, whose problems have this shape.
    pub(super) fn new(operation: &str, problem: ProblemShape, schemas: &mut Schemas) -> Self {
        Self {
            operation: operation.to_owned(),
            problem,
            fault: schemas.of_types.subschema_for::<Fault>().to_value(),
            kind: "",
            answers: BTreeMap::new(),
        }
    }

    /// Adds a success with these headers, and with a JSON body if there is one.
    pub(super) fn success(&mut self, status: u16, says: &str, body: Option<Value>, of: &[&str]) {
        let body = body.map(|schema| ("application/json", schema));
        self.other(status, says, body, of);
    }

    /// Adds a 304: the body has not changed. Reads and lists share one such response.
    pub(super) fn unchanged(&mut self) {
        let headers = ["Carebook-Position", "ETag"];
        self.success(304, "The client's copy is current.", None, &headers);
        if let Some(made) = self.answers.get_mut(&304) {
            made.shared = Some("NotModified".to_owned());
        }
    }

    /// Adds an answer with a body of any media type.
    pub(super) fn other(
        &mut self,
        status: u16,
        says: &str,
        body: Option<(&str, Value)>,
        of: &[&str],
    ) {
        let mut answer = json!({"description": says, "headers": headers::with_those_of_each(of)});
        if let Some((media, schema)) = body {
            answer["content"] = json!({media: {"schema": schema}});
        }
        let made = InTheMaking {
            answer,
            problem: None,
            shared: None,
        };
        self.answers.insert(status, made);
    }

    /// Adds a further media type to an answer.
    pub(super) fn also(&mut self, status: u16, media: &str, schema: Value) {
        if let Some(made) = self.answers.get_mut(&status) {
            made.answer["content"][media] = json!({"schema": schema});
        }
    }

    /// Adds a problem with one of these codes.
    pub(super) fn problem(&mut self, status: u16, codes: &[&str]) {
        let mut schema = problem_schema(self.problem, &self.fault);
        let members = &mut schema["properties"];
        members["status"]["const"] = json!(status);
        members["code"]["enum"] = json!(codes);
        members["retryable"]["const"] = json!(matches!(status, 429 | 503));
        let mut of = vec!["Carebook-Position"];
        match status {
            401 => of.push("WWW-Authenticate"),
            429 => of.push("Retry-After"),
            503 => {
                of.push("Retry-After");
                of.extend(
                    codes
                        .contains(&"not_the_writer")
                        .then_some("Carebook-Writer"),
                );
            }
            _ => {}
        }
        self.success(status, problem_says(status, codes), None, &of);
        let (name, is_shared) = problem_name(&self.operation, self.problem, status, codes);
        if let Some(made) = self.answers.get_mut(&status) {
            made.shared = is_shared.then(|| name.clone());
            made.problem = Some((format!("{name}Problem"), schema));
        }
    }

    /// Adds these headers to an answer.
    pub(super) fn headers(&mut self, status: u16, of: &[&str]) {
        if let Some(made) = self.answers.get_mut(&status) {
            for name in of {
                made.answer["headers"][*name] = headers::reference(name);
            }
        }
    }

    /// Describes the answer of this status in words of this operation, which shares it with no other then.
    pub(super) fn says(&mut self, status: u16, says: &str) {
        if let Some(made) = self.answers.get_mut(&status) {
            made.answer["description"] = json!(says);
            made.shared = None;
        }
    }

    /// Replaces the problem of this status by a body of this operation only.
    pub(super) fn own(&mut self, status: u16, schema: Value) {
        if let Some(made) = self.answers.get_mut(&status) {
            made.answer["content"] = json!({"application/json": {"schema": schema}});
            made.problem = None;
            made.shared = None;
        }
    }

    /// Adds the problems of every read with a token.
    pub(super) fn usual(&mut self) {
        self.problem(401, &["authentication_required"]);
        self.problem(429, &["overloaded"]);
        self.problem(500, &["internal_error"]);
        self.problem(503, &["service_unavailable", "position_not_reached"]);
    }

    /// Adds to each response of a command the header that says whether it was a dry run.
    pub(super) fn document_dry_run(&mut self) {
        self.kind = "Command";
        for made in self.answers.values_mut() {
            made.answer["headers"]["Carebook-Dry-Run"] = headers::reference("Carebook-Dry-Run");
        }
    }

    /// Returns the responses by status; a shared one as a reference to its name.
    pub(super) fn finish(self, schemas: &mut Schemas) -> Map<String, Value> {
        let mut all = Map::new();
        for (status, mut made) in self.answers {
            if let Some((name, schema)) = made.problem {
                let schema = schemas.same(&name, schema);
                made.answer["content"] = json!({"application/json": {"schema": schema}});
            }
            let answer = match made.shared {
                Some(name) => schemas.answer(&format!("{}{name}", self.kind), made.answer),
                None => made.answer,
            };
            all.insert(status.to_string(), answer);
        }
        all
    }
}
