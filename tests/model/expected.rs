//! What the model expects of an answer, and whether an answer is that.

use carebook::catalogue::ProblemShape;
use serde_json::{Value, json};

use super::commands::READ_PROFILE;
use crate::support::good;

/// An answer of the service.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub replayed: bool,
    pub tag: Option<String>,
    pub position: Option<u64>,
    pub body: Value,
}

/// What an answer has to be.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub status: u16,
    /// The codes that a refusal may have; none for a success.
    pub codes: Vec<&'static str>,
    /// Place and code of the faults; `None` where the description does not determine them.
    pub faults: Option<Vec<(String, String)>>,
    /// The conflicting places; `None` where they are not determined.
    pub paths: Option<Vec<String>>,
    /// The whole body.
    pub body: Option<Value>,
    pub replayed: bool,
    /// The entity tag.
    pub tag: Option<String>,
    /// Whether the engine was asked, so that there is a position.
    pub before_engine: bool,
    /// Whether something new was committed under the command's key.
    pub committed: bool,
    /// Either this, or the plain 404 of a read: who may read is not determined.
    pub or_missing: bool,
    /// Whether a field that is null may be absent, and the other way round.
    pub nulls_may_lack: bool,
}

impl Expected {
    pub fn refused(status: u16, code: &'static str) -> Self {
        Self {
            status,
            codes: vec![code],
            faults: Some(Vec::new()),
            paths: Some(Vec::new()),
            ..Self::default()
        }
    }

    pub fn forbidden() -> Self {
        Self::refused(403, "permission_denied")
    }

    pub fn missing(code: &'static str) -> Self {
        Self::refused(404, code)
    }

    pub fn conflict(code: &'static str) -> Self {
        Self::refused(409, code)
    }

    /// A stale revision in that field of the request.
    pub fn stale(path: &str) -> Self {
        Self::conflict("revision_stale").at(path)
    }

    /// A refusal that names this field.
    pub fn at(mut self, path: &str) -> Self {
        self.paths.get_or_insert_default().push(path.to_owned());
        self
    }

    /// A refusal that may name fields.
    pub fn anywhere(mut self) -> Self {
        self.paths = None;
        self
    }

    pub fn or_code(mut self, code: &'static str) -> Self {
        self.codes.push(code);
        self
    }

    /// An outcome that was committed.
    pub fn done(status: u16, body: Value) -> Self {
        Self {
            committed: true,
            ..Self::found(status, body)
        }
    }

    /// An answer that commits nothing.
    pub fn found(status: u16, body: Value) -> Self {
        Self {
            status,
            body: Some(body),
            ..Self::default()
        }
    }

    /// Whether the answer is as expected.
    pub fn agrees(&self, op: u16, answer: &Answer) -> Result<(), String> {
        let whole = || {
            format!(
                "status {}, one of the codes {:?}, replayed {}, tag {:?}, faults {:?}, conflicting \
                 places {:?}, body {:#}",
                self.status,
                self.codes,
                self.replayed,
                self.tag,
                self.faults,
                self.paths,
                self.body.clone().unwrap_or_default()
            )
        };
        if self.or_missing && answer.status == 404 {
            return Self::missing("not_found").agrees(op, answer);
        }
        if (answer.status, answer.replayed) != (self.status, self.replayed) {
            return Err(whole());
        }
        if answer.position.is_some() == self.before_engine {
            return Err(format!(
                "a position has to be there: {}",
                !self.before_engine
            ));
        }
        if let Some(tag) = &self.tag
            && !answer.tag.as_ref().is_some_and(|found| is_tag(tag, found))
        {
            return Err(whole());
        }
        if let Some(body) = &self.body {
            let found = if self.nulls_may_lack {
                &super::values::without_nulls(&answer.body)
            } else {
                &answer.body
            };
            let differences = differences("", body, found);
            if differences.is_empty() {
                return Ok(());
            }
            return Err(format!("differences:\n  {}", differences.join("\n  ")));
        }
        let problem = &answer.body;
        let code = problem["code"].as_str().unwrap_or_default();
        if !self.codes.contains(&code) || problem["status"] != json!(self.status) {
            return Err(whole());
        }
        let shape = match good::row(op) {
            Some(row) => row.problem,
            None if op == READ_PROFILE => ProblemShape::Profile,
            None => ProblemShape::Full,
        };
        let members: Vec<&str> = match shape {
            ProblemShape::Profile => vec!["code", "retryable", "status"],
            ProblemShape::Invitation => vec!["code", "message", "retryable", "status"],
            ProblemShape::Full => vec![
                "code",
                "conflictingFieldPaths",
                "fieldErrors",
                "message",
                "retryable",
                "status",
            ],
        };
        let there: Vec<&str> = problem
            .as_object()
            .map(|problem| problem.keys().map(String::as_str).collect())
            .unwrap_or_default();
        if there != members || problem["retryable"] != json!(false) {
            return Err(format!("the problem's members\n{}", whole()));
        }
        if !members.contains(&"fieldErrors") {
            return Ok(());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut faults: Vec<_> = problem["fieldErrors"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|fault| (text(&fault["fieldPath"]), text(&fault["code"])))
            .collect();
        faults.sort();
        let mut wanted = self.faults.clone();
        if let Some(wanted) = &mut wanted {
            wanted.sort();
        }
        if wanted.is_some_and(|wanted| wanted != faults) {
            return Err(format!("faults\n{}", whole()));
        }
        let paths: Vec<_> = problem["conflictingFieldPaths"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect();
        if self.paths.as_ref().is_some_and(|wanted| *wanted != paths) {
            return Err(format!("conflicting places\n{}", whole()));
        }
        Ok(())
    }
}

/// The tag of what is at this revision and depends on more than that: a digest goes with it.
pub fn and_digest(revision: i64) -> String {
    format!("{revision}-{DIGEST}")
}

/// In the place of a digest, which only the service can know.
const DIGEST: &str = "(digest)";

/// Whether the tag `found` is the one `wanted`.
fn is_tag(wanted: &str, found: &str) -> bool {
    let Some(revision) = wanted.strip_suffix(DIGEST) else {
        return wanted == found;
    };
    found.strip_prefix(revision).is_some_and(|digest| {
        digest.len() == 16 && digest.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// Where two values differ.
fn differences(path: &str, wanted: &Value, found: &Value) -> Vec<String> {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => {
            let names = wanted
                .keys()
                .chain(found.keys().filter(|name| !wanted.contains_key(*name)));
            names
                .flat_map(|name| match (wanted.get(name), found.get(name)) {
                    (Some(wanted), Some(found)) => {
                        differences(&format!("{path}/{name}"), wanted, found)
                    }
                    (wanted, found) => {
                        vec![format!("{path}/{name}: wanted {wanted:?}, found {found:?}")]
                    }
                })
                .collect()
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => (0..)
            .zip(wanted.iter().zip(found))
            .flat_map(|(index, (wanted, found)): (usize, _)| {
                differences(&format!("{path}/{index}"), wanted, found)
            })
            .collect(),
        _ if wanted == found => Vec::new(),
        _ => vec![format!("{path}: wanted {wanted}, found {found}")],
    }
}
