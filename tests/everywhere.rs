//! Each operation of the catalogue is in every place that neither the compiler nor a generated document leads to:
//! the model with its campaigns, the walks of the generated clients, and the console.

use std::collections::BTreeSet;
use std::path::Path;

use carebook::catalogue::OPERATIONS;

use crate::model::world::operations;
use crate::support::good::method;

/// Operations whose response is no resource that the console reads and compares.
const NOT_COMPARED: [&str; 5] = [
    "authorize_payment",
    "update_mother_profile",
    "accept_manager_invitation",
    "decide_cash_receipt_eligibility",
    "confirm_reservation_draft",
];

fn text(file: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The text without white space: a call is found however its lines are broken.
fn packed(file: &str) -> String {
    text(file).split_whitespace().collect()
}

/// The numbers with which the arms of the `match` begin that follows this line of the file.
fn arms(file: &str, line: &str) -> BTreeSet<u16> {
    let text = text(file);
    let (_, arms) = text.split_once(line).expect(file);
    let arms = arms
        .lines()
        .take_while(|line| line.trim() != "}" && line.trim() != "};");
    let numbers = arms.filter_map(|arm| arm.split_once(" => "));
    let numbers = numbers.flat_map(|(numbers, _)| numbers.split('|'));
    numbers
        .filter_map(|number| number.trim().parse().ok())
        .collect()
}

/// Fails with what each file lacks.
#[track_caller]
fn none_missing(missing: &[String]) {
    assert!(missing.is_empty(), "add these:\n{}", missing.join("\n"));
}

#[test]
fn every_operation_is_in_the_model_and_so_in_its_campaigns() {
    let decided = arms("tests/model/decide.rs", "let expected = match op {");
    let made = arms(
        "tests/model/world.rs",
        "fn operation(&mut self, op: u16, model: &Model) -> Command {\n        match op {",
    );
    let tags: Vec<_> = OPERATIONS.iter().map(|row| row.tag).collect();
    assert_eq!(tags, operations().collect::<Vec<_>>());
    let mut missing = Vec::new();
    for row in OPERATIONS {
        let (tag, name) = (row.tag, row.name);
        if !decided.contains(&tag) {
            missing.push(format!(
                "tests/model/decide.rs, `decide`: an arm `{tag} => self.{name}(command, who, answer)` with the \
                 response to expect"
            ));
        }
        if !made.contains(&tag) {
            missing.push(format!(
                "tests/model/world.rs, `operation`: an arm `{tag} => self.{name}(model)` that makes a command"
            ));
        }
    }
    none_missing(&missing);
}

#[test]
fn every_operation_is_called_in_the_walks_of_the_generated_clients() {
    let python = packed("tests/clients/python/walk.py");
    let typescript = packed("tests/clients/typescript/walk.ts");
    let mut missing = Vec::new();
    for row in OPERATIONS {
        let (method, path) = (method(row), row.path);
        if !python.contains(&format!("{}.sync_detailed(", row.name)) {
            missing.push(format!("tests/clients/python/walk.py: {}", row.name));
        }
        if !typescript.contains(&format!(".{method}(\"{path}\"")) {
            missing.push(format!("tests/clients/typescript/walk.ts: {method} {path}"));
        }
    }
    none_missing(&missing);
}

#[test]
fn every_operation_has_console_words_and_a_comparison_for_its_response() {
    let words = ["console/words/en.js", "console/words/ko.js"].map(|file| (file, text(file)));
    let kinds = text("console/lib/kinds.js");
    let (_, answered) = kinds.split_once("export const ANSWERED = {").unwrap();
    let (answered, _) = answered.split_once('}').unwrap();
    let mut missing = Vec::new();
    for row in OPERATIONS {
        for (file, words) in &words {
            let key = format!("'value.{}': '", row.name);
            if !words.contains(&key) {
                missing.push(format!("{file}: 'value.{}'", row.name));
            }
        }
        let is_compared = answered.contains(&format!("\n  {}: '", row.name));
        if is_compared == NOT_COMPARED.contains(&row.name) {
            missing.push(format!(
                "console/lib/kinds.js, ANSWERED, or NOT_COMPARED here: {}",
                row.name
            ));
        }
    }
    none_missing(&missing);
}
