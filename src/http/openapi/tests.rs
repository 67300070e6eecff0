//! Checks of the document's contents, and of their use without a server.

use std::collections::BTreeSet;

use super::schemas::pascal;
use super::*;
use crate::catalogue::{MANAGEMENT, OPERATIONS};
use crate::domain::fact_kinds::FACTS;

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

/// Calls `show` for each object of the document.
fn each_object<'d>(value: &'d Value, show: &mut dyn FnMut(&'d Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            show(members);
            members.values().for_each(|of| each_object(of, show));
        }
        Value::Array(items) => items.iter().for_each(|of| each_object(of, show)),
        _ => {}
    }
}

#[test]
fn a_list_that_is_refused_with_not_unique_has_unique_items() {
    let document = document();
    for name in [
        "consentAcceptances",
        "disabledReasonCodes",
        "eligiblePaymentMethodCodes",
        "sourceEvidenceKeys",
    ] {
        let mut found = Vec::new();
        each_object(&document, &mut |object| {
            let properties = object.get("properties");
            found.extend(properties.and_then(|all| all.get(name)));
        });
        // A response may use the same name for another list.
        let asked = found.iter().any(|schema| schema["uniqueItems"] == true);
        assert!(asked, "{name}: {found:?}");
    }
}

#[test]
fn every_reference_resolves_and_every_component_is_referenced() {
    let document = document();
    let mut found = Vec::new();
    each_object(&document, &mut |object| {
        found.extend(object.get("$ref").and_then(Value::as_str));
    });
    for to in &found {
        let pointer = to.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{to}");
    }
    for (kind, all) in document["components"].as_object().unwrap() {
        for name in all.as_object().unwrap().keys() {
            let to = format!("#/components/{kind}/{name}");
            assert!(kind == "securitySchemes" || found.contains(&&*to), "{to}");
        }
    }
}

#[tokio::test]
async fn a_lazily_made_value_is_made_once_and_blocks_no_lane() {
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
    // All three requests wait for the value by now, and this task, on the same thread, goes on.
    tokio::task::yield_now().await;
    go.send(()).unwrap();
    for asked in asking {
        assert_eq!(asked.await.unwrap(), Some(&1));
    }
}

#[test]
fn no_two_types_share_a_name() {
    // The library appends a number to the name of such a type.
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
fn the_document_has_no_format_that_only_rust_knows() {
    let text = document().to_string();
    assert!(text.contains(r#""format":"uint64""#));
    assert!(!text.contains(r#""format":"uint""#));
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

/// Calls `look` for each object in the document that could be a schema.
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
            // Commits advance a stored one beyond the bound of those that come in.
            let revision = &fact["properties"]["revision"];
            let most = (end == "ToPut").then_some(1_i64 << 62);
            assert_eq!(
                (revision["minimum"].as_i64(), revision["maximum"].as_i64()),
                (Some(1), most)
            );
            kinds.insert(kind);
        }
        let known: BTreeSet<_> = FACTS.iter().map(|of| of.kind().name).collect();
        assert_eq!(kinds, known);
    }
}

#[test]
fn nothing_is_described_by_words_that_stand_in_the_sentence_before() {
    each(&document(), &mut |schema| {
        let says = schema["description"].as_str().unwrap_or_default();
        let sentences: Vec<_> = says.split_inclusive(". ").map(str::trim).collect();
        for pair in sentences.windows(2) {
            let words = |sentence: &str| {
                let words = sentence.to_lowercase();
                let words = words.trim_end_matches('.').trim_start_matches("an ");
                words.trim_start_matches("a ").to_owned()
            };
            assert!(!words(pair[0]).contains(&words(pair[1])), "{says}");
        }
    });
}

#[test]
fn problems_have_named_schemas_and_shared_ones_named_responses() {
    let document = document();
    let (mut names, mut shared) = (BTreeSet::new(), 0);
    let mut inline = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let answers = operation["responses"].as_object().unwrap();
        for (status, told) in answers
            .iter()
            .filter(|(status, _)| status.as_str() >= "400")
        {
            let is_new = told.get("$ref").is_some() || inline.insert(told.to_string());
            assert!(
                is_new,
                "{method} {path} {status} is another's too, and has no name"
            );
            shared += usize::from(told.get("$ref").is_some());
            let answer = resolved(&document, told);
            let schema = &answer["content"]["application/json"]["schema"];
            let problem = resolved(&document, schema);
            if problem.get("allOf").is_some() {
                // This answer has a body of one operation only.
                continue;
            }
            let to = schema["$ref"].as_str().unwrap();
            assert!(to.ends_with("Problem"), "{method} {path} {status}: {to}");
            let members = &problem["properties"];
            assert_eq!(members["status"]["const"].to_string(), *status, "{to}");
            let is_passing = ["429", "503"].contains(&status.as_str());
            assert_eq!(members["retryable"]["const"], json!(is_passing), "{to}");
            names.insert(to.to_owned());
        }
    }
    assert!(names.len() > 50 && shared > 400, "{} {shared}", names.len());
}

#[test]
fn a_fact_in_a_batch_has_the_schema_of_its_kind_and_an_unfit_one_its_own() {
    let document = document();
    let batch = &document["components"]["schemas"]["ReferenceFacts"];
    let items = &batch["properties"]["facts"]["items"]["anyOf"];
    let names = ["ReferenceFactToPut", "UnfitReferenceFact"].map(schemas::reference);
    assert_eq!(*items, json!(names));
    let schema = json!({
        "$ref": "#/components/schemas/ReferenceFacts", "components": document["components"],
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    // The service treats any value in the list as an item.
    for item in [
        json!({}),
        json!({"kind": 1}),
        json!([]),
        json!("a"),
        json!(1.5),
        json!(true),
        json!(null),
    ] {
        assert!(validator.is_valid(&json!({"facts": [item]})), "{item}");
    }
    assert!(!validator.is_valid(&json!({"facts": {}})));
}

#[test]
fn a_one_of_says_by_which_member_it_is_known_which_one() {
    let document = document();
    let mut seen = 0;
    each(&document["components"]["schemas"], &mut |schema| {
        let Some(kinds) = schema.get("oneOf").and_then(Value::as_array) else {
            return;
        };
        let by = &schema["discriminator"];
        let member = by["propertyName"].as_str().unwrap();
        let mapping = by["mapping"].as_object().unwrap();
        assert_eq!(mapping.len(), kinds.len());
        for kind in kinds {
            let named = resolved(&document, kind);
            let word = named["properties"][member]["const"].as_str().unwrap();
            assert_eq!(mapping[word], kind["$ref"], "{word}");
            assert!(
                named["required"]
                    .as_array()
                    .unwrap()
                    .contains(&json!(member))
            );
        }
        seen += 1;
    });
    assert_eq!(
        seen, 3,
        "facts as they come in and as they are read, events"
    );
}

#[test]
fn patterns_reject_blank_strings_so_that_no_schema_needs_two() {
    let document = document();
    let mut tried = 0;
    each(&document, &mut |schema| {
        assert!(
            schema.get("allOf").is_none() || schema.get("type").is_none(),
            "{schema}"
        );
        if schema.get("pattern").is_none() || schema["type"] != "string" {
            return;
        }
        let validator = jsonschema::validator_for(schema).unwrap();
        for blank in ["", " ", "\t", "\u{3000}\u{a0}", "     ", "\n"] {
            assert!(!validator.is_valid(&json!(blank)), "{schema} {blank:?}");
        }
        tried += 1;
    });
    assert!(tried > 200, "{tried}");
}

#[test]
fn enumerations_are_in_request_and_response_schemas() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    for (schema, member, words) in [
        (
            "GrantPaymentAuthorityRequest",
            "scopes",
            json!(["reservation_deposit"]),
        ),
        (
            "PaymentDelegation",
            "scopes",
            json!(["reservation_deposit"]),
        ),
        (
            "GrantCareHistoryAccessRequest",
            "scopes",
            json!(["summary"]),
        ),
        ("CareHistoryAccessGrant", "scopes", json!(["summary"])),
        (
            "AuthorizePaymentRequest",
            "scope",
            json!(["reservation_deposit"]),
        ),
    ] {
        let told = &schemas[schema]["properties"][member];
        let told = told.get("items").unwrap_or(told);
        assert_eq!(told["enum"], words, "{schema}");
        assert_eq!(told["type"], "string", "{schema}");
    }
    let in_snapshot = &schemas["PaymentActorSnapshot"]["properties"]["paymentDelegationScope"];
    assert_eq!(in_snapshot["enum"], json!(["reservation_deposit", null]));
    let operation = &schemas["HistoryRevision"]["properties"]["operation"];
    let names = resolved(&document, operation)["enum"].as_array().unwrap();
    assert!(names.contains(&json!("reference_fact")) && names.contains(&json!("request_deposit")));
}

#[test]
fn exactly_the_operations_that_need_a_token_document_a_401() {
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
fn the_document_says_what_to_send_again_and_what_is_known_of_it() {
    let document = document();
    let says = document["info"]["description"].as_str().unwrap();
    for rule in [
        "Without a response, and after 408, 429, 500 and 503, send the identical request under the same key",
        "after 401 do so with a new token",
        "After any other 4xx do not, unless the description of its code says so.",
        "`retryable` of a problem is true for 429 and 503 alone.",
    ] {
        assert!(says.contains(rule), "{rule}");
    }
    let (mut unknown, mut batches) = (0, 0);
    for (path, method, operation) in operations(&document) {
        for (status, answer) in operation["responses"].as_object().unwrap() {
            let answer = resolved(&document, answer);
            let says = answer["description"].as_str().unwrap();
            let problem = resolved(&document, &answer["content"]["application/json"]["schema"]);
            let codes = problem["properties"]["code"]["enum"].as_array();
            let is_batch = operation["operationId"] == "put_reference_facts";
            let early = ["400", "401", "403", "408", "429", "500", "503"];
            if is_batch && early.contains(&status.as_str()) {
                assert!(!says.contains("nothing was done"), "{status}: {says}");
                assert!(says.contains("may have been applied"), "{status}: {says}");
                batches += 1;
            } else if codes.is_some_and(|codes| codes.contains(&json!("outcome_unknown"))) {
                let rule = "may have been carried out: send the same request under the same key.";
                assert!(says.contains(rule), "{method} {path} {status}: {says}");
                unknown += 1;
            }
        }
    }
    assert_eq!(batches, 7);
    assert!(unknown > 20, "{unknown}");
}

#[test]
fn a_dry_run_can_be_asked_of_the_operations_of_the_service_alone() {
    let document = document();
    let parameter = &document["components"]["parameters"]["dryRun"];
    let says = parameter["description"].as_str().unwrap();
    assert!(says.contains("`dryrun`, is not looked at"), "{says}");
    for (path, method, operation) in operations(&document) {
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
            let answer = resolved(&document, answer);
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
fn every_response_lists_x_request_id_and_the_headers_common_to_all() {
    let document = document();
    for (path, method, operation) in operations(&document) {
        for (status, answer) in operation["responses"].as_object().unwrap() {
            let listed = &resolved(&document, answer)["headers"];
            for name in [
                "X-Request-Id",
                "Cache-Control",
                "Access-Control-Allow-Origin",
                "Access-Control-Expose-Headers",
                "Vary",
                "Strict-Transport-Security",
            ] {
                let to = json!({"$ref": format!("#/components/headers/{name}")});
                assert_eq!(listed[name], to, "{method} {path} {status}");
            }
            let is_page = path.starts_with("/docs");
            for name in ["X-Content-Type-Options", "Referrer-Policy"] {
                let is_listed = listed.get(name).is_some();
                assert_eq!(is_listed, is_page, "{path} {status} {name}");
            }
        }
    }
    // Headers that depend on settings, the request or the answer are not in every answer.
    for (name, header) in document["components"]["headers"].as_object().unwrap() {
        assert_eq!(header["required"], json!(name == "X-Request-Id"), "{name}");
    }
}
