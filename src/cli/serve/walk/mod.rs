//! A walk through all operations with the sample data, as shell commands. The demonstration's printed walk and
//! docs/walkthrough.md are made from it.
//!
//! Each step is a `curl` line that works as it is pasted, in the order given, against a fresh demonstration; values
//! of a response that a later step needs are kept in variables. No step needs more than `sh`, `curl` and `sed`.
//! Idempotency keys are literal, so that a second walk consists of replays.
//!
//! An operation that no scripted part calls has a step at the end, made from its example.

mod scripted;
mod step;

use std::fmt::Write as _;
use std::sync::LazyLock;

use crate::catalogue::{OPERATIONS, Row};

use self::scripted::SCRIPTED;
pub use self::step::{ADDRESS, Call, Part, Step, token_variable};

/// The last line of the printed walk.
pub const END: &str = "# That was all of it. Pasted again, it is answered by replays.";

/// The parts of the walk.
pub static PARTS: LazyLock<Vec<Part>> = LazyLock::new(|| {
    let called = |row: &Row| {
        let mut steps = SCRIPTED.iter().flat_map(|part| part.steps);
        steps.any(|step| matches!(step.call, Call::Operation(name) if name == row.name))
    };
    let others = OPERATIONS.iter().filter(|row| !called(row));
    let others: Vec<_> = others.map(Step::of_example).collect();
    let mut parts = SCRIPTED.to_vec();
    if !others.is_empty() {
        parts.push(Part {
            title: "Further operations",
            steps: others.leak(),
        });
    }
    parts
});

/// Returns the walk as the demonstration prints it; `internal` is the address of its internal listener, if it has
/// one.
#[must_use]
pub fn printed(internal: Option<&str>) -> String {
    let mut text = String::from(
        "# all operations, step by step: paste the exports above, then a step at a time or all of them",
    );
    let mut number = 0;
    for part in PARTS.iter() {
        let _ = write!(text, "\n\n# == {} ==", part.title);
        for step in part.steps {
            number += 1;
            let _ = write!(
                text,
                "\n\n# {number}. {}\n{}",
                step.title,
                step.lines(internal)
            );
        }
    }
    text + "\n\n" + END
}

/// Returns the walk as a document.
#[must_use]
pub fn document() -> String {
    let mut text = String::from(INTRODUCTION);
    let mut number = 0;
    for part in PARTS.iter() {
        let _ = write!(text, "\n## {}\n", part.title);
        for step in part.steps {
            number += 1;
            let called = match step.row() {
                Some(row) => format!("Operation {}", row.tag),
                None => "A read".to_owned(),
            };
            let _ = write!(
                text,
                "\n### {number}. {}\n\n```sh\n{}\n```\n\n{called}: `{}`. {}\n",
                step.title.trim_end_matches('.'),
                step.lines(None),
                step.status(),
                step.look
            );
        }
    }
    text + CONCLUSION
}

const INTRODUCTION: &str = "\
# A walk through all operations

This document is generated (`REWRITE_DOCS=1 cargo test walk::`), and a test runs each line of it in
a shell, against a server of its own.

Start a demonstration in one terminal:

```sh
carebook serve --demo
```

(From the sources: `cargo run --release -- serve --demo`.) It prints its address and a token of each
kind of actor as `export` lines, and then the steps below. Paste the `export` lines into a second
terminal, and then a step at a time. Each step prints the response body, and the status on a line of
its own. What a later step needs is kept in a shell variable; only `sh`, `curl` and `sed` are used.

Take the steps in their order, against a fresh demonstration: they name revisions, and
revisions advance. Taken a second time, a step that changes something is a replay, with the header
`Idempotent-Replayed: true`: the stored response, with 200 instead of 201 in the steps 1, 22 and 23.
Nothing is done twice. The numbers of operations are those of [operations.md](operations.md).
";

const CONCLUSION: &str = "
## And then

Stop the server, with Ctrl-C or `kill -9`, and start it again with `carebook serve --demo --data DIR`,
where DIR is its data directory, which it printed as a comment after the console's link: everything
above is still there, and every replay gets the same response. `carebook verify --data DIR` checks the
log and reports what is in it.
";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::step::in_single_quotes;
    use super::*;
    use crate::catalogue::Success;

    fn steps() -> impl Iterator<Item = &'static Step> {
        PARTS.iter().flat_map(|part| part.steps)
    }

    #[test]
    fn every_operation_is_called_once() {
        let called: Vec<_> = steps().filter_map(Step::row).map(|row| row.tag).collect();
        let known: BTreeSet<_> = OPERATIONS.iter().map(|row| row.tag).collect();
        assert_eq!(called.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(called.len(), known.len());
    }

    #[test]
    fn the_steps_whose_replay_has_another_status_are_named() {
        let numbered = (1_u32..).zip(steps());
        let others = numbered.filter(|(_, step)| {
            let row = step.row();
            row.is_some_and(|row| row.success == Success::CreatedOnce)
        });
        let others: Vec<_> = others.map(|(number, _)| number).collect();
        assert_eq!(others, [1, 22, 23]);
        assert!(INTRODUCTION.contains("200 instead of 201 in the steps 1, 22 and 23."));
    }

    #[test]
    fn a_step_has_a_token_where_its_operation_takes_one_and_a_json_body() {
        for step in steps() {
            match step.row() {
                Some(row) => {
                    assert_eq!(step.who().is_some(), row.bearer, "{}", row.name);
                    serde_json::from_str::<Value>(&step.body().unwrap()).unwrap();
                }
                None => assert!(step.body().is_none() && step.who().is_some()),
            }
        }
    }

    #[test]
    fn a_steps_variables_were_kept_earlier_and_its_replacements_are_used() {
        let mut kept: BTreeSet<&str> = BTreeSet::new();
        for step in steps() {
            let text = format!("{}{}", step.path(), step.body().unwrap_or_default());
            for used in text.split('$').skip(1) {
                let end = used.find(|next: char| !next.is_ascii_alphanumeric());
                let name = &used[..end.unwrap_or(used.len())];
                assert!(kept.contains(name), "{name} in {}", step.title);
            }
            for (_, to) in step.with {
                assert!(text.contains(to), "{to} in {}", step.title);
            }
            kept.extend(step.kept());
        }
    }

    #[test]
    fn internal_operations_alone_are_called_on_the_internal_listener() {
        let internal = "http://127.0.0.1:9";
        let mut inside = 0;
        for step in steps() {
            let lines = step.lines(Some(internal));
            let is_inside = step.row().is_some_and(|row| !row.bearer);
            inside += usize::from(is_inside);
            let there = format!(" \"{internal}{}\"", step.path());
            assert_eq!(lines.contains(&there), is_inside, "{lines}");
            assert_eq!(lines.contains("$CAREBOOK/"), !is_inside, "{lines}");
            assert!(step.lines(None).contains(" \"$CAREBOOK/"), "{}", step.title);
        }
        assert!(inside > 0);
        assert!(printed(Some(internal)).contains(internal));
    }

    #[test]
    fn a_shell_reads_past_titles_and_nothing_ends_a_quote() {
        // Some shells parse a pasted comment as a command, so it must contain no quote, pattern or parenthesis.
        let is_plain = |text: &str| !text.contains(|c| "'\"`$!*?()[]<>|&\\".contains(c));
        for part in PARTS.iter() {
            assert!(is_plain(part.title), "{}", part.title);
        }
        for step in steps() {
            assert!(is_plain(step.title), "{}", step.title);
            let body = step.body().unwrap_or_default();
            assert!(!body.contains(['\'', '!', '\\']), "{body}");
        }
        assert_eq!(in_single_quotes(r#"{"a": "$b"}"#), r#"'{"a": "'"$b"'"}'"#);
    }
}
