//! A step of the walk: its request, and its lines for a shell.

use std::fmt::Write as _;

use crate::base::actor::ActorKind;
use crate::catalogue::{KeySource, Method, OPERATIONS, Row, Success};
use crate::domain::example;

use Call::{Operation, Read};

/// The variable that holds the address of the service.
pub const ADDRESS: &str = "CAREBOOK";

/// The call that a step makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The operation with this name, with its example.
    Operation(&'static str),
    /// A read: the requesting actor, and the path.
    Read(ActorKind, &'static str),
}

/// One request.
#[derive(Debug)]
pub struct Step {
    /// The operation or read.
    pub call: Call,
    /// Describes the step in one sentence that is safe in a shell comment: without quotes and the like.
    pub title: &'static str,
    /// The actor that sends the request, if not the example's.
    pub by: Option<ActorKind>,
    /// Replacements in the example's path and body; `$name` stands for a variable of an earlier
    /// step.
    pub with: &'static [(&'static str, &'static str)],
    /// The fields of the response that are kept, each in a variable of its name, besides those that the examples of
    /// other operations take.
    pub(super) kept: &'static [&'static str],
    /// What to note in the response; for the document.
    pub look: &'static str,
}

/// Steps that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The subject of the steps.
    pub title: &'static str,
    /// The steps.
    pub steps: &'static [Step],
}

/// A step with default values: the example of its operation, or a read, of which nothing is kept.
pub(super) const STEP: Step = Step {
    call: Operation(""),
    title: "",
    by: None,
    with: &[],
    kept: &[],
    look: "",
};

/// Returns the variable that holds the token of the demonstration's actor of this kind.
#[must_use]
pub fn token_variable(kind: ActorKind) -> String {
    kind.as_str().to_uppercase()
}

/// Returns the text inside single quotes of a shell, with each `$name` outside of them as a variable.
pub(super) fn in_single_quotes(text: &str) -> String {
    let mut quoted = String::from("'");
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        let end = after
            .find(|next: char| !next.is_ascii_alphanumeric())
            .unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let _ = write!(quoted, "{before}'\"${name}\"'");
        rest = after;
    }
    quoted + rest + "'"
}

impl Step {
    /// Returns the step of an operation, made only from its example and the first sentence of its documentation.
    pub(super) fn of_example(row: &'static Row) -> Self {
        let doc = row.operation.doc().trim();
        let end = doc.find(".\n").or_else(|| doc.find(". "));
        let look = doc[..end.map_or(doc.len(), |end| end + 1)].replace('\n', " ");
        let (first, rest) = row.name.split_at(1);
        let title = format!("{}{}.", first.to_uppercase(), rest.replace('_', " "));
        Self {
            call: Operation(row.name),
            title: title.leak(),
            look: look.leak(),
            ..STEP
        }
    }

    /// Returns the fields of the response that are kept, each in a variable of its name.
    #[must_use]
    pub fn kept(&self) -> Vec<&'static str> {
        let mut kept = self.kept.to_vec();
        let is_called = |name: &str| matches!(self.call, Operation(own) if own == name);
        let examples = OPERATIONS.iter().map(|row| row.operation.example());
        for example in examples.filter(|example| example.after.is_some_and(is_called)) {
            let taken = example.taken();
            kept.extend(taken.into_iter().filter(|name| !self.kept.contains(name)));
        }
        kept.dedup();
        kept
    }

    /// Returns the operation that the step calls; `None` for a read.
    ///
    /// # Panics
    /// When no operation has that name.
    #[must_use]
    pub fn row(&self) -> Option<&'static Row> {
        match self.call {
            Operation(name) => {
                let row = OPERATIONS.iter().find(|row| row.name == name);
                Some(row.expect("a step's operation is in the catalogue"))
            }
            Read(..) => None,
        }
    }

    /// Returns the actor whose token the step sends; `None` for operations without a token.
    #[must_use]
    pub fn who(&self) -> Option<ActorKind> {
        match (self.call, self.row()) {
            (Read(who, _), _) => Some(who),
            (_, Some(row)) if row.bearer => self.by.or(Some(row.operation.example().actor)),
            _ => None,
        }
    }

    /// Returns a text of the example, with the step's replacements.
    fn with(&self, text: &str) -> String {
        let with = self.with.iter();
        with.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// Returns the path; `$name` stands for a variable of an earlier step.
    #[must_use]
    pub fn path(&self) -> String {
        match (self.call, self.row()) {
            (_, Some(row)) => {
                let example = row.operation.example();
                example.path(row.path, &|parameter| self.with(parameter))
            }
            (Read(_, path), None) => path.to_owned(),
            (Operation(_), None) => String::new(),
        }
    }

    /// Returns the body, with variables as in the path; `None` for a read.
    #[must_use]
    pub fn body(&self) -> Option<String> {
        let row = self.row()?;
        let key = format!(r#""idempotencyKey": "{}""#, example::KEY);
        let own_key = format!(r#""idempotencyKey": "walk-{}""#, row.tag);
        let body = row.operation.example().body;
        Some(self.with(&body.replace(&key, &own_key)))
    }

    /// Returns the status of the first response to the step.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.row().map(|row| row.success) {
            Some(Success::Created | Success::CreatedOnce) => 201,
            Some(Success::Accepted) => 202,
            Some(Success::Ok) | None => 200,
            Some(Success::NoContent) => 204,
        }
    }

    /// Returns the step's lines for a shell, whose last printed line is the status. A request without a token is sent
    /// to the internal listener at that address, if there is one.
    #[must_use]
    pub fn lines(&self, internal: Option<&str>) -> String {
        let is_inside = self.row().is_some_and(|row| !row.bearer);
        let base = match internal.filter(|_| is_inside) {
            Some(address) => address.to_owned(),
            None => format!("${ADDRESS}"),
        };
        let mut curl = String::from("curl -sS -w '\\n%{http_code}\\n'");
        if self.row().is_some_and(|row| row.method == Method::Patch) {
            curl.push_str(" -X PATCH");
        }
        let _ = write!(curl, " \"{base}{}\"", self.path());
        if let Some(kind) = self.who() {
            let token = token_variable(kind);
            let _ = write!(curl, " \\\n  -H \"Authorization: Bearer ${token}\"");
        }
        if let (Some(row), Some(body)) = (self.row(), self.body()) {
            if row.key == KeySource::Header {
                let _ = write!(curl, " \\\n  -H 'Idempotency-Key: walk-{}'", row.tag);
            }
            curl.push_str(" \\\n  -H 'Content-Type: application/json'");
            let _ = write!(curl, " \\\n  -d {}", in_single_quotes(&body));
        }
        let kept = self.kept();
        if kept.is_empty() {
            return curl;
        }
        let mut lines = format!("answer=$({curl})\nprintf '%s\\n' \"$answer\"");
        for member in kept {
            let _ = write!(
                lines,
                "\n{member}=$(printf '%s\\n' \"$answer\" | \
                 sed -n 's/.*\"{member}\":\"\\([^\"]*\\)\".*/\\1/p')"
            );
        }
        lines
    }
}
