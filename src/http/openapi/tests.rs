//! What the document has, and what it can be used for without a server.

use std::collections::BTreeSet;

use super::schemas::pascal;
use super::*;
use crate::catalogue::{MANAGEMENT, OPERATIONS};

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, place) in document["paths"].as_object().unwrap() {
        for (method, operation) in place.as_object().unwrap() {
            all.push((path.clone(), method.to_uppercase(), operation.clone()));
        }
    }
    all
}

#[test]
fn every_route_stands_in_the_document_and_nothing_else() {
    let document = document();
    let told: BTreeSet<_> = operations(&document)
        .into_iter()
        .map(|(path, method, _)| (path, method))
        .collect();
    let routes = Routes::new(Offer::All);
    let known: BTreeSet<_> = routes
        .all()
        .map(|(path, method, _)| (path.to_owned(), method.to_string()))
        .collect();
    assert_eq!(told, known);
}

#[test]
fn an_operation_is_called_by_its_name_and_no_two_have_one() {
    let document = document();
    let all = operations(&document);
    let names: BTreeSet<_> = all
        .iter()
        .map(|(.., of)| of["operationId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), all.len());
    for row in OPERATIONS.iter().chain(MANAGEMENT) {
        assert!(names.contains(row.name), "{}", row.name);
    }
}

/// Each reference in the document, and where it is.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(to)) = members.get("$ref") {
                found.push(to.clone());
            }
            members.values().for_each(|of| references(of, found));
        }
        Value::Array(items) => items.iter().for_each(|of| references(of, found)),
        _ => {}
    }
}

#[test]
fn what_is_referred_to_is_there_and_what_is_there_is_referred_to() {
    let document = document();
    let mut found = Vec::new();
    references(&document, &mut found);
    for to in &found {
        let pointer = to.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{to}");
    }
    for (kind, all) in document["components"].as_object().unwrap() {
        for name in all.as_object().unwrap().keys() {
            let to = format!("#/components/{kind}/{name}");
            assert!(kind == "securitySchemes" || found.contains(&to), "{to}");
        }
    }
}

#[tokio::test]
async fn what_is_made_at_the_first_request_is_made_once_and_holds_up_no_lane() {
    static CELL: OnceCell<usize> = OnceCell::const_new();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let times = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let wait = std::sync::Arc::new(wait);
    let asking = [(); 3].map(|()| {
        let (times, wait) = (times.clone(), wait.clone());
        tokio::spawn(made_beside(&CELL, move || {
            let patience = std::time::Duration::from_secs(20);
            wait.lock().unwrap().recv_timeout(patience).unwrap();
            times.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1
        }))
    });
    // All three wait for it by now, and this, on the same thread, goes on.
    tokio::task::yield_now().await;
    go.send(()).unwrap();
    for asked in asking {
        assert_eq!(asked.await.unwrap(), Some(&1));
    }
}

#[test]
fn no_two_types_share_a_name() {
    // The library tells such types apart by a number.
    let document = document();
    for name in document["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
    {
        assert!(
            !name.ends_with(|last: char| last.is_ascii_digit()),
            "{name}"
        );
    }
}

#[test]
fn the_example_of_each_operation_fits_its_schema() {
    let document = document();
    let mut tried = 0;
    for (path, method, operation) in operations(&document) {
        let content = &operation["requestBody"]["content"]["application/json"];
        let Some(example) = content.get("example") else {
            continue;
        };
        let schema = json!({
            "$ref": content["schema"]["$ref"], "components": document["components"],
        });
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema)
            .unwrap();
        let faults: Vec<_> = validator
            .iter_errors(example)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{method} {path}: {faults:?}");
        tried += 1;
    }
    assert!(tried >= OPERATIONS.len(), "{tried}");
}

/// Each schema in the document that is anywhere in it.
fn each(value: &Value, look: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(members) => {
            look(value);
            members.values().for_each(|of| each(of, look));
        }
        Value::Array(items) => items.iter().for_each(|of| each(of, look)),
        _ => {}
    }
}

#[test]
fn an_object_is_never_null_as_well_so_that_each_has_a_type_in_a_client() {
    let document = document();
    let mut nullable = 0;
    each(&document, &mut |schema| {
        let kinds = schema["type"].as_array().cloned().unwrap_or_default();
        assert!(!kinds.contains(&json!("object")), "{schema}");
        let either = schema["anyOf"].as_array().cloned().unwrap_or_default();
        nullable += usize::from(
            either.len() == 2
                && either[0]["type"] == "object"
                && either[1] == json!({"type": "null"}),
        );
    });
    assert!(nullable > 3, "{nullable}");
}

#[test]
fn a_fact_of_each_kind_has_a_name_as_it_comes_in_and_as_it_is_read() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    for end in ["", "ToPut"] {
        let all = schemas[format!("ReferenceFact{end}")]["oneOf"].as_array();
        let mut kinds = BTreeSet::new();
        for to in all.unwrap() {
            let name = to["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
            let fact = &schemas[name];
            let facts = fact["properties"]["facts"]["$ref"].as_str().unwrap();
            let kind = fact["properties"]["kind"]["const"].as_str().unwrap();
            let said = pascal(&kind.replace('-', "_"));
            assert_eq!(name, format!("{said}Fact{end}"));
            assert!(facts.ends_with(&format!("/{said}Facts{end}")), "{facts}");
            kinds.insert(kind);
        }
        let known: BTreeSet<_> = crate::catalogue::FACTS
            .iter()
            .map(|of| of.kind().name)
            .collect();
        assert_eq!(kinds, known);
    }
}

#[test]
fn nothing_is_described_by_the_same_sentence_twice() {
    each(&document(), &mut |schema| {
        let says = schema["description"].as_str().unwrap_or_default();
        let sentences: Vec<_> = says.split_inclusive(". ").map(str::trim).collect();
        for pair in sentences.windows(2) {
            assert_ne!(pair[0], pair[1], "{says}");
        }
    });
}

#[test]
fn who_needs_a_token_is_told_of_the_401_and_nobody_else() {
    for (path, method, operation) in operations(&document()) {
        let needs_one = operation["security"] != json!([]);
        assert!(operation["security"].is_array(), "{method} {path}");
        let answers = &operation["responses"];
        assert_eq!(answers.get("401").is_some(), needs_one, "{method} {path}");
    }
    let without: BTreeSet<_> = operations(&document())
        .into_iter()
        .filter(|(.., operation)| operation["security"] == json!([]))
        .map(|(.., operation)| operation["operationId"].as_str().unwrap().to_owned())
        .collect();
    let special = [
        "api_document",
        "docs",
        "docs_script",
        "docs_start",
        "docs_style",
        "healthz",
        "metrics",
        "readyz",
    ];
    let known: BTreeSet<_> = OPERATIONS
        .iter()
        .filter(|row| !row.bearer)
        .map(|row| row.name)
        .chain(special)
        .map(str::to_owned)
        .collect();
    assert_eq!(without, known);
}

#[test]
fn a_dry_run_can_be_asked_of_the_operations_of_the_service_alone() {
    for (path, method, operation) in operations(&document()) {
        let is_of_the_service = OPERATIONS
            .iter()
            .any(|row| operation["operationId"] == row.name);
        let asks = json!({"$ref": "#/components/parameters/dryRun"});
        let parameters = operation["parameters"].as_array().unwrap();
        assert_eq!(
            parameters.contains(&asks),
            is_of_the_service,
            "{method} {path}"
        );
        for (status, answer) in operation["responses"].as_object().unwrap() {
            let told = answer["headers"].get("Carebook-Dry-Run").is_some();
            assert_eq!(told, is_of_the_service, "{method} {path} {status}");
            assert!(
                answer["headers"].get("X-Request-Id").is_some(),
                "{path} {status}"
            );
        }
    }
}

#[test]
fn every_answer_has_its_request_s_identifier_and_no_other_header_is_in_all() {
    let document = document();
    for (name, header) in document["components"]["headers"].as_object().unwrap() {
        assert_eq!(header["required"], json!(name == "X-Request-Id"), "{name}");
    }
}
