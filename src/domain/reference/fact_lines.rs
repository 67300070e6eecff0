//! Batches of facts that come in: cuts lines out of a stream, reads facts, and counts the results.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::put::{AnyFactKind, FactResult, read_fact};
use crate::base::json::{Fault, FaultCode, FromJson, Json, Reader, Shape, field};
use crate::base::text::Ident;
use crate::base::time::Timestamp;
use crate::domain::erased::AnyCommand;
use crate::domain::rejection::Rejection;

/// Maximum length of a line, in bytes and without its end: the same as that of the body of any
/// other request.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Maximum number of bytes of a line that are buffered: one more than [`LINE_BYTES_MAX`], for a CR
/// before its end.
const HELD_BYTES_MAX: usize = LINE_BYTES_MAX + 1;

/// Maximum number of problems that a summary lists.
const PROBLEMS_MAX: usize = 100;

/// Maximum length of an unknown kind that a problem repeats, in bytes, so that a batch of hostile
/// facts is not held in memory.
const KIND_SHOWN_BYTES_MAX: usize = 512;

/// Cuts a stream of bytes into lines, wherever its chunks begin and end.
///
/// ```text
/// let mut rest = &chunk[..];
/// while let Some(line) = lines.next(&mut rest) { … }     // for each chunk
/// if let Some(line) = lines.finish() { … }               // at the end of the stream
/// ```
///
/// A line ends with LF or CR LF; the last one may end with the stream. A blank line is skipped, but
/// numbered. Of a line that is too long, no more than the limit is ever buffered.
#[derive(Debug, Default)]
pub struct Lines {
    /// The beginning of a line whose end has not been received yet.
    begun: Vec<u8>,
    /// Whether `begun` was returned as a whole line.
    handed_out: bool,
    /// Whether the line in progress is already too long; `begun` is empty then.
    too_long: bool,
    /// The number of the next line.
    index: u64,
}

/// One line of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, counted from 0.
    pub index: u64,
    /// Its content.
    pub text: LineText<'a>,
}

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineText<'a> {
    /// Its bytes, without its end.
    Whole(&'a [u8]),
    /// More than [`LINE_BYTES_MAX`] bytes, which were skipped.
    TooLong,
}

impl<'a> Line<'a> {
    /// Returns the number of bytes of it that are to be read.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self.text {
            LineText::Whole(bytes) => bytes.len(),
            LineText::TooLong => 0,
        }
    }

    fn new(index: u64, bytes: &'a [u8]) -> Self {
        let bytes = without_cr(bytes);
        let text = if bytes.len() > LINE_BYTES_MAX {
            LineText::TooLong
        } else {
            LineText::Whole(bytes)
        };
        Self { index, text }
    }
}

impl Lines {
    /// Returns the next line that ends in `rest`, and advances `rest` behind it; `None` when no
    /// line ends there: then `rest` is empty, and the next chunk is needed.
    pub fn next<'l, 'c: 'l>(&'l mut self, rest: &mut &'c [u8]) -> Option<Line<'l>> {
        loop {
            self.forget_handed_out();
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.hold(rest);
                *rest = &[];
                return None;
            };
            let (text, after) = (&rest[..end], &rest[end + 1..]);
            *rest = after;
            let index = self.index;
            self.index += 1;
            if self.begun.is_empty() && !self.too_long {
                // Most lines are in one chunk, and are not copied.
                if text.len() <= HELD_BYTES_MAX && is_blank(text) {
                    continue;
                }
                return Some(Line::new(index, text));
            }
            self.hold(text);
            if self.too_long {
                self.too_long = false;
                return Some(Line {
                    index,
                    text: LineText::TooLong,
                });
            }
            self.handed_out = true;
            if is_blank(&self.begun) {
                continue;
            }
            return Some(Line::new(index, &self.begun));
        }
    }

    /// Returns the last line, when the stream ended within one.
    pub fn finish(&mut self) -> Option<Line<'_>> {
        self.forget_handed_out();
        let index = self.index;
        if self.too_long {
            self.too_long = false;
            self.index += 1;
            return Some(Line {
                index,
                text: LineText::TooLong,
            });
        }
        if is_blank(&self.begun) {
            return None;
        }
        self.handed_out = true;
        self.index += 1;
        Some(Line::new(index, &self.begun))
    }

    /// Returns the memory that the beginning of an unfinished line takes, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.begun.capacity()
    }

    fn forget_handed_out(&mut self) {
        if self.handed_out {
            self.begun.clear();
            self.handed_out = false;
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.too_long {
            return;
        }
        if self.begun.len() + bytes.len() > HELD_BYTES_MAX {
            self.too_long = true;
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(bytes);
        }
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

/// Returns the facts of a batch in one JSON body, `{"facts": […]}`. Faults of a single fact are
/// found when it is read.
///
/// # Errors
/// `request_invalid` when the body has another shape, or the reader has a fault already.
pub fn parse_batch<'v, 'a>(
    body: &'v Json<'a>,
    mut at: Reader,
) -> Result<&'v [Json<'a>], Rejection> {
    let slots = at.slots(body, &["facts"]);
    let facts = match slots {
        Some([Some(Json::Array(facts))]) => facts.as_slice(),
        Some([facts]) => {
            field::<NoArray>(facts, "facts", &mut at);
            &[]
        }
        None => &[],
    };
    if !at.is_clean() {
        return Err(Rejection::invalid(at.into_faults()));
    }
    Ok(facts)
}

/// Stands for the value of a field that should be an array, and is none.
struct NoArray;

impl FromJson for NoArray {
    fn read(_: &Json<'_>, at: &mut Reader) -> Option<Self> {
        at.fault(FaultCode::WrongType)
    }

    fn shape() -> Shape {
        Shape::List {
            of: Box::new(Shape::Any),
            shortest: 0,
            longest: None,
            unique: false,
        }
    }
}

/// Identifies a fact of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its number in the batch, counted from 0: the index of its item, or of its line.
    pub index: u64,
    /// The name of its kind, when it can be read.
    pub kind: Option<String>,
    /// Its identifier, when it can be read.
    pub id: Option<Ident>,
}

/// A fact of a batch, read.
pub struct Incoming {
    /// Which fact of the batch it is.
    pub label: Label,
    /// The command that puts it in place, or its faults.
    pub command: Result<Box<dyn AnyCommand>, Vec<Fault>>,
}

impl Incoming {
    /// Reads the item numbered `index`, a fact of one of `kinds`, at the time `now`.
    #[must_use]
    pub fn of_item(
        index: u64,
        item: &Json<'_>,
        kinds: &[&'static dyn AnyFactKind],
        now: Timestamp,
    ) -> Self {
        let mut at = Reader::new(now);
        let envelope = read_fact(item, kinds, &mut at);
        let shown = |kind: &String| kind.len() <= KIND_SHOWN_BYTES_MAX;
        Self {
            label: Label {
                index,
                kind: envelope.kind_name.filter(shown),
                id: envelope.id,
            },
            command: envelope.command.ok_or_else(|| at.into_faults()),
        }
    }

    /// Reads a line like [`Incoming::of_item`] reads an item.
    #[must_use]
    pub fn of_line(line: &Line<'_>, kinds: &[&'static dyn AnyFactKind], now: Timestamp) -> Self {
        let fault = match line.text {
            LineText::Whole(bytes) => match Json::parse(bytes) {
                Ok(json) => return Self::of_item(line.index, &json, kinds, now),
                Err(_) => FaultCode::MalformedJson,
            },
            LineText::TooLong => FaultCode::TooLong,
        };
        Self {
            label: Label {
                index: line.index,
                kind: None,
                id: None,
            },
            command: Err(vec![Fault {
                path: String::new(),
                code: fault,
            }]),
        }
    }
}

/// A fact that was not stored as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FactProblem")]
struct Problem {
    index: u64,
    kind: Option<String>,
    id: Option<Ident>,
    result: FactResult,
    /// What is wrong with one that is `invalid`, and why one is in `conflict`.
    field_errors: Vec<Fault>,
}

/// What came of a batch. Written into JSON, it is the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "FactSummary")]
pub struct Summary {
    /// How many facts were applied: there was no such fact, or one of a lower revision.
    pub applied: u64,
    /// How many were stored already, at the same revision with the same content.
    pub unchanged: u64,
    /// Of how many a higher revision is stored.
    pub stale: u64,
    /// How many conflict with what is stored: the same revision has other content, or the fact may not take the
    /// place of another.
    pub conflict: u64,
    /// How many break their kind's schema.
    pub invalid: u64,
    /// The first 100 that were neither applied nor unchanged, by index.
    #[serde(serialize_with = "in_order")]
    #[schemars(with = "Vec<Problem>")]
    problems: BTreeMap<u64, Problem>,
}

fn in_order<S: Serializer>(
    problems: &BTreeMap<u64, Problem>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(problems.values())
}

impl Summary {
    /// The fields with counts: each fact is counted in one of them.
    pub const COUNTS: [&str; 5] = ["applied", "unchanged", "stale", "conflict", "invalid"];

    /// Counts the result of one fact. Facts may be counted in any order.
    pub fn count(&mut self, label: Label, result: FactResult, faults: Vec<Fault>) {
        match result {
            FactResult::Applied => {
                self.applied += 1;
                return;
            }
            FactResult::Unchanged => {
                self.unchanged += 1;
                return;
            }
            FactResult::Stale => self.stale += 1,
            FactResult::Conflict => self.conflict += 1,
            FactResult::Invalid => self.invalid += 1,
        }
        let problem = Problem {
            index: label.index,
            kind: label.kind,
            id: label.id,
            result,
            field_errors: faults,
        };
        self.problems.insert(label.index, problem);
        if self.problems.len() > PROBLEMS_MAX {
            self.problems.pop_last();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    use serde_json::json;

    use super::*;
    use crate::domain::fact_kinds::FACTS;

    #[test]
    fn the_schema_says_how_many_problems_are_told() {
        let schema = schemars::schema_for!(Summary).to_value();
        let says = schema["properties"]["problems"]["description"].as_str();
        assert!(says.unwrap().contains(&format!("first {PROBLEMS_MAX} ")));
    }

    /// Returns the lines of a stream that comes in these chunks: index and text, `None` for a line
    /// that is too long.
    fn cut<'c>(chunks: impl IntoIterator<Item = &'c [u8]>) -> Vec<(u64, Option<String>)> {
        fn owned(line: Line<'_>) -> (u64, Option<String>) {
            let text = match line.text {
                LineText::Whole(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
                LineText::TooLong => None,
            };
            (line.index, text)
        }
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for chunk in chunks {
            let mut rest = chunk;
            while let Some(line) = lines.next(&mut rest) {
                found.push(owned(line));
            }
            assert!(rest.is_empty());
            assert!(lines.begun.len() <= HELD_BYTES_MAX);
        }
        found.extend(lines.finish().map(owned));
        assert_eq!(lines.finish(), None, "the last line is handed out once");
        found
    }

    fn whole(index: u64, text: &str) -> (u64, Option<String>) {
        (index, Some(text.to_owned()))
    }

    #[test]
    fn lines_are_the_same_wherever_the_chunks_are_cut() {
        let text = "{\"a\":1}\n\r\n{\"b\":2}\r\n \t\n\n가나\nlast";
        let expected = [
            whole(0, "{\"a\":1}"),
            whole(2, "{\"b\":2}"),
            whole(5, "가나"),
            whole(6, "last"),
        ];
        for size in 1..=text.len() {
            assert_eq!(
                cut(text.as_bytes().chunks(size)),
                expected,
                "chunks of {size}"
            );
        }
        assert_eq!(cut([text.as_bytes(), b"\r\n"]), expected);
    }

    #[test]
    fn random_streams_are_cut_as_splitting_the_whole_text_does() {
        let mut random = StdRng::seed_from_u64(crate::base::testing::seed());
        for _ in 0..2_000 {
            let length = random.random_range(0..40);
            let text: String = (0..length)
                .map(|_| ['a', 'b', ' ', '\t', '\r', '\n', '\n'][random.random_range(0..7)])
                .collect();
            let expected: Vec<_> = text
                .split('\n')
                .enumerate()
                .filter(|(_, line)| !line.trim_matches([' ', '\t', '\r']).is_empty())
                .map(|(index, line)| {
                    whole(
                        index.try_into().unwrap(),
                        line.strip_suffix('\r').unwrap_or(line),
                    )
                })
                .collect();
            let mut chunks = Vec::new();
            let mut rest = text.as_bytes();
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at(random.random_range(0..=rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            assert_eq!(cut(chunks), expected, "{text:?}");
        }
    }

    #[test]
    fn a_stream_without_facts_has_no_lines() {
        for text in ["", "\n", "\r\n \n", "  "] {
            assert_eq!(cut([text.as_bytes()]), [], "{text:?}");
        }
    }

    #[test]
    fn the_longest_line_is_whole_and_one_byte_more_is_passed_over() {
        let longest = "x".repeat(LINE_BYTES_MAX);
        let longer = "x".repeat(LINE_BYTES_MAX + 1);
        let far_longer = "x".repeat(3 * LINE_BYTES_MAX);
        let text = format!(
            "{longest}\n{longest}\r\n{longer}\r\nshort\n{longer}\n{far_longer}\n{longest}\r"
        );
        let expected = [
            whole(0, &longest),
            whole(1, &longest),
            (2, None),
            whole(3, "short"),
            (4, None),
            (5, None),
            whole(6, &longest),
        ];
        let long_end = format!("short\n{far_longer}");
        let blank = " ".repeat(2 * LINE_BYTES_MAX);
        let blanks = format!("{}\n{blank}\nshort", &blank[..LINE_BYTES_MAX]);
        for size in [16_384, 1_000_003, text.len()] {
            // With assert_eq, a failure would print megabytes.
            assert!(
                cut(text.as_bytes().chunks(size)) == expected,
                "chunks of {size}"
            );
            assert!(cut(long_end.as_bytes().chunks(size)) == [whole(0, "short"), (1, None)]);
            assert!(cut(blanks.as_bytes().chunks(size)) == [(1, None), whole(2, "short")]);
        }
    }

    #[test]
    fn a_batch_is_an_object_with_nothing_but_an_array_of_facts() {
        let at = || Reader::new(Timestamp::default());
        for (text, length) in [(r#"{"facts":[]}"#, 0), (r#"{"facts":[{},1,null]}"#, 3)] {
            let json = Json::parse(text.as_bytes()).unwrap();
            assert_eq!(parse_batch(&json, at()).unwrap().len(), length, "{text}");
        }
        for (text, faults) in [
            ("[]", vec![("", "wrong_type")]),
            ("null", vec![("", "wrong_type")]),
            ("{}", vec![("facts", "required")]),
            (r#"{"facts":null}"#, vec![("facts", "wrong_type")]),
            (r#"{"facts":{}}"#, vec![("facts", "wrong_type")]),
            (
                r#"{"facts":[],"facts":[]}"#,
                vec![("facts", "duplicate_field")],
            ),
            (r#"{"facts":[],"more":1}"#, vec![("more", "unknown_field")]),
            (
                r#"{"more":1}"#,
                vec![("more", "unknown_field"), ("facts", "required")],
            ),
        ] {
            let json = Json::parse(text.as_bytes()).unwrap();
            let rejection = parse_batch(&json, at()).unwrap_err();
            assert_eq!(rejection.code, "request_invalid");
            let found: Vec<_> = rejection
                .faults
                .iter()
                .map(|fault| (fault.path.as_str(), fault.code.as_str()))
                .collect();
            assert_eq!(found, faults, "{text}");
        }
    }

    fn read(text: &[u8]) -> Incoming {
        let line = Line::new(7, text);
        Incoming::of_line(&line, FACTS, Timestamp::default())
    }

    #[test]
    fn a_fact_that_cannot_be_read_says_where_and_which_it_was() {
        type Case<'a> = (
            &'a str,
            Option<&'a str>,
            Option<&'a str>,
            &'a [(&'a str, &'a str)],
        );
        let deep = format!("{}{}", "[".repeat(33), "]".repeat(33));
        let good = r#"{"kind":"actor","id":"a","revision":4611686018427387904,"facts":{"lifecycle":"active"}}"#;
        let cases: &[Case<'_>] = &[
            (good, Some("actor"), Some("a"), &[]),
            ("{", None, None, &[("", "malformed_json")]),
            ("{} {}", None, None, &[("", "malformed_json")]),
            (&deep, None, None, &[("", "malformed_json")]),
            ("[]", None, None, &[("", "wrong_type")]),
            ("7", None, None, &[("", "wrong_type")]),
            (
                "{}",
                None,
                None,
                &[
                    ("kind", "required"),
                    ("id", "required"),
                    ("revision", "required"),
                    ("facts", "required"),
                ],
            ),
            (
                r#"{"kind":"unheard-of","id":"a","revision":1,"facts":{}}"#,
                Some("unheard-of"),
                Some("a"),
                &[("kind", "not_allowed")],
            ),
            (
                r#"{"kind":7,"id":" ","revision":0,"facts":[]}"#,
                None,
                None,
                &[
                    ("kind", "wrong_type"),
                    ("id", "blank"),
                    ("revision", "out_of_range"),
                    ("facts", "wrong_type"),
                ],
            ),
            (
                r#"{"kind":"actor","id":"a","revision":4611686018427387905,"facts":{"lifecycle":"active"}}"#,
                Some("actor"),
                Some("a"),
                &[("revision", "out_of_range")],
            ),
            (
                r#"{"kind":"actor","id":"a","revision":0,"facts":{"lifecycle":"asleep"},"x":1}"#,
                Some("actor"),
                Some("a"),
                &[
                    ("x", "unknown_field"),
                    ("revision", "out_of_range"),
                    ("facts.lifecycle", "not_allowed"),
                ],
            ),
        ];
        for (text, kind, id, expected) in cases {
            let incoming = read(text.as_bytes());
            assert_eq!(incoming.label.index, 7);
            assert_eq!(incoming.label.kind.as_deref(), *kind, "{text}");
            assert_eq!(incoming.label.id.as_deref(), *id, "{text}");
            let faults = incoming.command.err().unwrap_or_default();
            let found: Vec<_> = faults
                .iter()
                .map(|fault| (fault.path.as_str(), fault.code.as_str()))
                .collect();
            assert_eq!(found, *expected, "{text}");
        }
        assert_eq!(
            read(b"\"\xff\"").command.err().unwrap()[0].code,
            FaultCode::MalformedJson
        );
        let long = vec![b' '; LINE_BYTES_MAX + 1];
        let faults = read(&long).command.err().unwrap();
        assert_eq!(
            faults,
            [Fault {
                path: String::new(),
                code: FaultCode::TooLong
            }]
        );
    }

    #[test]
    fn a_kind_too_long_to_be_one_is_not_repeated() {
        let fact = |length| {
            let kind = "k".repeat(length);
            json!({"kind": kind, "id": "a", "revision": 1, "facts": {}}).to_string()
        };
        assert!(
            read(fact(KIND_SHOWN_BYTES_MAX).as_bytes())
                .label
                .kind
                .is_some()
        );
        assert_eq!(
            read(fact(KIND_SHOWN_BYTES_MAX + 1).as_bytes()).label.kind,
            None
        );
    }

    #[test]
    fn a_summary_counts_each_result_and_tells_of_problems_in_order() {
        let label = |index, kind: Option<&str>, id: Option<&str>| Label {
            index,
            kind: kind.map(str::to_owned),
            id: id.map(Ident::from_trusted),
        };
        let actor = |index| label(index, Some("actor"), Some("a"));
        let mut summary = Summary::default();
        assert_eq!(
            serde_json::to_string(&summary).unwrap(),
            r#"{"applied":0,"unchanged":0,"stale":0,"conflict":0,"invalid":0,"problems":[]}"#
        );
        let fault = Fault {
            path: "facts.lifecycle".into(),
            code: FaultCode::Required,
        };
        summary.count(actor(5), FactResult::Conflict, Vec::new());
        summary.count(actor(0), FactResult::Applied, Vec::new());
        summary.count(actor(1), FactResult::Applied, Vec::new());
        summary.count(actor(2), FactResult::Unchanged, Vec::new());
        summary.count(label(4, None, None), FactResult::Invalid, vec![fault]);
        summary.count(actor(3), FactResult::Stale, Vec::new());
        let problem = |index: u64, result: &str| json!({"index": index, "kind": "actor", "id": "a", "result": result, "fieldErrors": []});
        assert_eq!(
            serde_json::to_value(&summary).unwrap(),
            json!({
                "applied": 2, "unchanged": 1, "stale": 1, "conflict": 1, "invalid": 1,
                "problems": [
                    problem(3, "stale"),
                    {"index": 4, "kind": null, "id": null, "result": "invalid", "fieldErrors": [{
                        "fieldPath": "facts.lifecycle", "code": "required",
                        "message": FaultCode::Required.message(),
                    }]},
                    problem(5, "conflict"),
                ],
            })
        );
    }

    #[test]
    fn a_summary_has_the_first_hundred_problems_in_whatever_order_they_come() {
        let mut summary = Summary::default();
        for index in (0..250).rev() {
            let label = Label {
                index,
                kind: None,
                id: None,
            };
            summary.count(label, FactResult::Stale, Vec::new());
        }
        let value = serde_json::to_value(&summary).unwrap();
        assert_eq!(value["stale"], 250);
        let problems = value["problems"].as_array().unwrap();
        assert!(
            problems
                .iter()
                .map(|problem| problem["index"].as_u64().unwrap())
                .eq(0..100)
        );
    }
}
