//! Converts refusals of a server into sentences.

use serde::Deserialize;
use serde_json::Value;

use crate::cli::printable::printable;

/// Maximum number of faults that are printed for one refusal.
const FAULTS_MAX: usize = 10;

/// The used fields of a problem.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Problem {
    code: String,
    message: Option<String>,
    #[serde(default)]
    field_errors: Vec<FieldError>,
    #[serde(default)]
    conflicting_field_paths: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FieldError {
    field_path: String,
    code: String,
    message: String,
}

/// The used fields of the report about a fact that was not applied.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FactProblem {
    index: u64,
    kind: Option<String>,
    id: Option<String>,
    result: String,
    #[serde(default)]
    field_errors: Vec<FieldError>,
}

/// Returns the sentence for the body of a refusal; a body that is no problem is returned as it is.
pub(super) fn of_a_body(body: &[u8]) -> String {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => problem.in_words(),
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    }
}

/// Returns the sentence for a fact that was not applied.
pub(super) fn of_a_fact(problem: &Value) -> String {
    match FactProblem::deserialize(problem) {
        Ok(problem) => problem.in_words(),
        Err(_) => problem.to_string(),
    }
}

impl Problem {
    fn in_words(&self) -> String {
        let said = match &self.message {
            Some(message) => with_code(message, &self.code),
            None => printable(&self.code),
        };
        let faults = self.field_errors.iter().map(FieldError::in_words);
        let paths = self.conflicting_field_paths.iter();
        let faults = faults.chain(paths.map(|path| printable(path)));
        let faults: Vec<_> = faults.collect();
        match faults.is_empty() {
            true => said,
            false => format!("{said}: {}", first_of(&faults)),
        }
    }
}

impl FieldError {
    fn in_words(&self) -> String {
        let said = with_code(&self.message, &self.code);
        match self.field_path.is_empty() {
            true => said,
            false => format!("{}: {said}", printable(&self.field_path)),
        }
    }

    /// Returns why a fact conflicts with what is stored.
    fn of_a_conflict(&self) -> String {
        let path = printable(&self.field_path);
        match (self.field_path.as_str(), self.code.as_str()) {
            ("facts", _) => "the same revision is stored with other facts".to_owned(),
            ("revision", _) => "what is stored takes no later revision".to_owned(),
            (_, "not_unique") => format!("{path}: another fact has this value"),
            (_, "not_allowed") => format!("{path}: another value is stored, which never changes"),
            _ => self.in_words(),
        }
    }
}

impl FactProblem {
    fn in_words(&self) -> String {
        // Lines are counted from 1 where people count them.
        let mut words = format!("line {}: ", self.index.saturating_add(1));
        let named: Vec<_> = [&self.kind, &self.id].into_iter().flatten().collect();
        if !named.is_empty() {
            let named: Vec<_> = named.into_iter().map(|name| printable(name)).collect();
            words = format!("{words}{}: ", named.join(" "));
        }
        let describe: fn(&FieldError) -> String = match self.result.as_str() {
            "conflict" => FieldError::of_a_conflict,
            _ => FieldError::in_words,
        };
        let faults: Vec<_> = self.field_errors.iter().map(describe).collect();
        let why = match self.result.as_str() {
            _ if !faults.is_empty() => first_of(&faults),
            "stale" => "a later revision is stored".to_owned(),
            "conflict" => {
                "the same revision is stored with other facts, or the fact conflicts with another"
                    .to_owned()
            }
            _ => return format!("{words}{}", printable(&self.result)),
        };
        format!("{words}{}: {why}", printable(&self.result))
    }
}

/// Returns a sentence with the code that stands for it.
fn with_code(sentence: &str, code: &str) -> String {
    let sentence = sentence.trim_end_matches('.');
    format!("{} ({})", printable(sentence), printable(code))
}

/// Returns the first faults, and how many more there are.
fn first_of(faults: &[String]) -> String {
    let shown = &faults[..faults.len().min(FAULTS_MAX)];
    match faults.len() - shown.len() {
        0 => shown.join("; "),
        more => format!("{}; and {more} more", shown.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fault(path: &str) -> Value {
        json!({"fieldPath": path, "code": "required", "message": "This field is required."})
    }

    #[test]
    fn a_refusal_is_a_sentence_with_its_code_and_each_fault() {
        for (body, words) in [
            (json!({"code": "so_it_says"}), "so_it_says"),
            (
                json!({"status": 403, "code": "permission_denied", "message": "The token may not."}),
                "The token may not (permission_denied)",
            ),
            (
                json!({"code": "invalid", "message": "Not valid.", "fieldErrors": [fault("a.b"), fault("")]}),
                "Not valid (invalid): a.b: This field is required (required); \
                 This field is required (required)",
            ),
            (
                json!({"code": "taken", "message": "Taken.", "conflictingFieldPaths": ["code", "name"]}),
                "Taken (taken): code; name",
            ),
            (
                json!({"code": "c", "message": "a\u{1b}[2Jb"}),
                "a\\u{1b}[2Jb (c)",
            ),
        ] {
            assert_eq!(of_a_body(body.to_string().as_bytes()), words);
        }
        for body in ["", "<html>", "[1]", "{\"error\": 1}"] {
            assert_eq!(of_a_body(body.as_bytes()), body);
        }
    }

    #[test]
    fn a_refusal_names_the_first_ten_faults_and_counts_the_rest() {
        let faults: Vec<_> = (0..13).map(|number| fault(&format!("f{number}"))).collect();
        let body = json!({"code": "invalid", "message": "Not valid.", "fieldErrors": faults});
        let words = of_a_body(body.to_string().as_bytes());
        assert!(words.contains("f9: ") && !words.contains("f10"), "{words}");
        assert!(words.ends_with("; and 3 more"), "{words}");
    }

    #[test]
    fn a_fact_that_was_not_applied_is_told_with_its_line_and_why() {
        let conflict =
            |path: &str, code: &str| json!({"fieldPath": path, "code": code, "message": "No."});
        let named = |result: &str, faults: &[Value]| json!({"index": 6, "kind": "actor", "id": "a-1", "result": result, "fieldErrors": faults});
        for (problem, words) in [
            (
                named("stale", &[]),
                "line 7: actor a-1: stale: a later revision is stored",
            ),
            (
                named("conflict", &[]),
                "line 7: actor a-1: conflict: the same revision is stored with other facts, or the fact \
                 conflicts with another",
            ),
            (
                named("conflict", &[conflict("facts", "not_allowed")]),
                "line 7: actor a-1: conflict: the same revision is stored with other facts",
            ),
            (
                named("conflict", &[conflict("revision", "not_allowed")]),
                "line 7: actor a-1: conflict: what is stored takes no later revision",
            ),
            (
                named("conflict", &[conflict("facts.ownerSubject", "not_unique")]),
                "line 7: actor a-1: conflict: facts.ownerSubject: another fact has this value",
            ),
            (
                named("conflict", &[conflict("facts.ownerSubject", "not_allowed")]),
                "line 7: actor a-1: conflict: facts.ownerSubject: another value is stored, which never changes",
            ),
            (
                named("invalid", &[fault("facts.lifecycle")]),
                "line 7: actor a-1: invalid: facts.lifecycle: This field is required (required)",
            ),
            (
                json!({"index": 0, "kind": null, "id": null, "result": "invalid", "fieldErrors": []}),
                "line 1: invalid",
            ),
            (json!({"other": 1}), "{\"other\":1}"),
        ] {
            assert_eq!(of_a_fact(&problem), words);
        }
    }
}
