//! The API document: where it is served, that its examples are carried out, and that a client's
//! answers are judged by it.

use std::collections::{BTreeMap, BTreeSet};

use carebook::base::actor::{Actor, ActorKind};
use carebook::catalogue::OPERATIONS;
use carebook::http::openapi;
use serde_json::{Value, json};

use crate::support::document::{Sent, all_answers, judge};
use crate::support::{Answer, Client, Server, World, actor, run};
use crate::walk::demonstration;

#[test]
fn the_document_needs_no_token_and_is_the_same_on_listeners_and_cli() {
    let world = World::new();
    let server = Server::start_with(&world, &["--internal-listen", "127.0.0.1:0"]);
    let (code, printed, _) = run(&["openapi"]);
    assert_eq!(code, Some(0));
    let document: Value = serde_json::from_str(&printed).unwrap();
    let inside = server.internal.clone().unwrap();
    for mut client in [server.client(), Client::connect(&inside)] {
        let answer = client.request("GET", "/openapi.json", &[], b"");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.json(), document);
    }
    assert_eq!(document["openapi"], "3.1.1");
}

#[test]
fn the_document_and_page_files_are_304_for_a_client_that_has_them() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let paths = [
        "/openapi.json",
        "/docs",
        "/docs/start.js",
        "/docs/swagger-ui-bundle.js",
        "/docs/swagger-ui.css",
    ];
    let mut tags = BTreeSet::new();
    for path in paths {
        let first = client.request("GET", path, &[], b"");
        assert_eq!(first.status, 200);
        assert_eq!(first.header("cache-control"), Some("no-cache"), "{path}");
        let tag = first.header("etag").unwrap().to_owned();
        let again = client.request("GET", path, &[("If-None-Match", &tag)], b"");
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(again.header("etag"), Some(tag.as_str()));
        assert_eq!(again.header("cache-control"), Some("no-cache"));
        let policy = "content-security-policy";
        assert_eq!(again.header(policy), first.header(policy), "{path}");
        let other = client.request("GET", path, &[("If-None-Match", "\"other\"")], b"");
        assert_eq!((other.status, &other.body), (200, &first.body), "{path}");
        tags.insert(tag);
    }
    assert_eq!(tags.len(), paths.len(), "each has its own");
}

/// The operations of the document, each with its method and path.
fn operations(document: &Value) -> BTreeMap<String, (String, String, Value)> {
    let mut all = BTreeMap::new();
    for (path, place) in document["paths"].as_object().unwrap() {
        for (method, operation) in place.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap().to_owned();
            all.insert(
                name,
                (method.to_uppercase(), path.clone(), operation.clone()),
            );
        }
    }
    all
}

/// The parameter, which may be one of the components.
fn resolved<'d>(document: &'d Value, parameter: &'d Value) -> &'d Value {
    match parameter["$ref"].as_str() {
        Some(to) => document.pointer(to.trim_start_matches('#')).unwrap(),
        None => parameter,
    }
}

#[test]
fn all_examples_succeed_unchanged_in_order_on_one_fresh_demonstration() {
    let world = World::new();
    let (server, printed) = demonstration(&world);
    let mut client = server.client();
    let document = client.request("GET", "/openapi.json", &[], b"").json();
    let operations = operations(&document);
    let token = |kind: &str| {
        let export = format!("export {}='", kind.to_uppercase());
        let rest = printed.split_once(&export).unwrap().1;
        rest.split_once('\'').unwrap().0.to_owned()
    };
    for row in OPERATIONS {
        let (method, path, operation) = &operations[row.name];
        assert_eq!(operation["x-carebook-number"], json!(row.tag));
        let mut path = path.clone();
        let bearer = format!(
            "Bearer {}",
            token(operation["x-carebook-demo-actor"].as_str().unwrap())
        );
        let mut headers = vec![("Content-Type", "application/json")];
        if operation["security"] != json!([]) {
            headers.push(("Authorization", bearer.as_str()));
        }
        for parameter in operation["parameters"].as_array().unwrap() {
            let parameter = resolved(&document, parameter);
            let name = parameter["name"].as_str().unwrap();
            let example = parameter["example"].as_str();
            match parameter["in"].as_str().unwrap() {
                "path" => path = path.replace(&format!("{{{name}}}"), example.unwrap()),
                "header" if parameter["required"] == true => headers.push((name, example.unwrap())),
                _ => {}
            }
        }
        let body = &operation["requestBody"]["content"]["application/json"]["example"];
        let answer = client.request(method, &path, &headers, body.to_string().as_bytes());
        assert!(
            (200..300).contains(&answer.status) && answer.status != 202,
            "{}: {answer:?}",
            row.name
        );
        assert_eq!(answer.header("idempotent-replayed"), None, "{}", row.name);
    }
    // A message waits by now, which this reports: it is judged by the document, too.
    let ready = client.request("GET", "/readyz", &[], b"").json();
    assert!(ready["outbox"].is_object(), "{ready}");
}

/// Values of a query that this schema allows, and some that it does not.
fn values_of(schema: &Value) -> (Vec<String>, Vec<String>) {
    let texts = |words: &[&str]| {
        words
            .iter()
            .map(|&word| word.to_owned())
            .collect::<Vec<_>>()
    };
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().map(|word| word.as_str().unwrap().to_owned());
        return (words.collect(), texts(&["other", ""]));
    }
    match (schema["type"].as_str().unwrap(), schema["format"].as_str()) {
        ("integer", _) => {
            let least = schema["minimum"].as_i64().unwrap();
            let most = schema["maximum"].as_i64();
            let good = [Some(least), most].into_iter().flatten();
            let bad = [
                least.checked_sub(1),
                most.and_then(|most| most.checked_add(1)),
            ];
            let bad = bad.into_iter().flatten().map(|number| number.to_string());
            let bad = bad.chain(texts(&["x", "1.5", ""]));
            (
                good.map(|number| number.to_string()).collect(),
                bad.collect(),
            )
        }
        ("array", _) => values_of(&schema["items"]),
        ("string", Some("date-time")) => {
            (texts(&["2026-01-01T00:00:00Z"]), texts(&["2026-01-01", ""]))
        }
        ("string", _) => {
            let pattern = schema["pattern"].as_str().unwrap_or_default();
            let mut bad = Vec::new();
            if schema["minLength"] == 1 {
                bad.push(String::new());
            }
            if let Some(longest) = schema["maxLength"].as_u64() {
                bad.push("a".repeat(usize::try_from(longest).unwrap() + 1));
            }
            if pattern.starts_with("^[A-Za-z0-9_-]+") {
                // A cursor: none of these was given.
                return (Vec::new(), texts(&["*", "abc", ""]));
            }
            if schema["description"]
                .as_str()
                .is_some_and(|says| says.contains("{position}"))
            {
                return (texts(&["0-0"]), texts(&["x", "1", ""]));
            }
            (texts(&["a"]), bad)
        }
        (other, _) => panic!("{other}: {schema}"),
    }
}

#[test]
fn query_parameters_are_accepted_exactly_within_their_documented_bounds() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let permissions = [
        "branch:create",
        "events:read",
        "webhooks:manage",
        "outbox:manage",
        "facts:read",
        "facts:write",
        "payment:administer",
    ];
    let token = world.token(&Actor {
        permissions: permissions.map(Into::into).into(),
        ..actor(ActorKind::HeadquartersAdministrator, "headquarters-1")
    });
    let body = |code: &str| world.deposit_request(code, code);
    for code in ["S-1", "S-2"] {
        let made = client.post(
            "/settlement-deposit-requests",
            &world.headquarters(),
            &body(code),
        );
        assert_eq!(made.status, 201);
    }
    let document = client.request("GET", "/openapi.json", &[], b"").json();
    let mut tried = 0;
    for (name, (method, path, operation)) in operations(&document) {
        let path = path.split('/').map(|part| match part.starts_with('{') {
            true => "1-0",
            false => part,
        });
        let path = path.collect::<Vec<_>>().join("/");
        let own = operation["requestBody"]["content"]["application/json"]["example"].to_string();
        for parameter in operation["parameters"].as_array().unwrap() {
            let parameter = resolved(&document, parameter);
            let (query, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
            if parameter["in"] != "query" || query == "dryRun" {
                continue;
            }
            let mut answer = |value: &str| {
                let value: String = form_urlencoded::byte_serialize(value.as_bytes()).collect();
                let bearer = format!("Bearer {token}");
                let headers = [
                    ("Authorization", bearer.as_str()),
                    ("Content-Type", "application/json"),
                    ("Idempotency-Key", "key-1"),
                ];
                let path = format!("{path}?{query}={value}");
                client.request(&method, &path, &headers, own.as_bytes())
            };
            let (good, bad) = values_of(schema);
            for value in good {
                let answer = answer(&value);
                assert_ne!(answer.status, 400, "{name} {query}={value}: {answer:?}");
            }
            for value in bad {
                let answer = answer(&value);
                assert_eq!(answer.status, 400, "{name} {query}={value}: {answer:?}");
            }
            if let Some(usual) = schema.get("default") {
                let usual = usual
                    .as_str()
                    .map_or_else(|| usual.to_string(), str::to_owned);
                let (said, unsaid) = (answer(&usual), client.get(&path, &token));
                let bodies = (&said.body, &unsaid.body);
                assert_eq!(said.status, unsaid.status, "{name} {query}={usual}");
                assert_eq!(bodies.0, bodies.1, "{name} {query}={usual}");
            }
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}

/// Whether the judge is content with an answer.
fn is_content(path: &str, answer: &Answer, body: &Value) -> bool {
    let body = body.to_string();
    let sent = Sent {
        method: "POST",
        path,
        headers: &[("Content-Type", "application/json")],
        body: body.as_bytes(),
    };
    std::panic::catch_unwind(|| judge(sent, answer.received())).is_ok()
}

#[test]
fn an_undocumented_response_fails_the_test_that_receives_it() {
    let world = World::new();
    let server = Server::start(&world);
    let path = "/settlement-deposit-requests";
    let body = world.deposit_request("S-1", "key-1");
    let good = server.client().post(path, &world.headquarters(), &body);
    assert_eq!(good.status, 201);
    assert!(is_content(path, &good, &body));
    let with = |change: &dyn Fn(&mut Value)| {
        let mut json = good.json();
        change(&mut json);
        Answer {
            body: json.to_string().into_bytes(),
            ..good.clone()
        }
    };
    let other_member = with(&|body| body["more"] = json!(1));
    let no_member = with(&|body| {
        body.as_object_mut().unwrap().remove("messageToBranch");
    });
    let other_type = with(&|body| body["revision"] = json!("1"));
    let other_word = with(&|body| body["status"] = json!("open"));
    let no_time = with(&|body| body["createdAt"] = json!("2026-02-30T00:00:00.000Z"));
    for bad in [other_member, no_member, other_type, other_word, no_time] {
        assert!(!is_content(path, &bad, &body), "{bad:?}");
    }
    for bad in [200, 202, 418] {
        let bad = Answer {
            status: bad,
            ..good.clone()
        };
        assert!(!is_content(path, &bad, &body), "{bad:?}");
    }
    let mut undated = good.clone();
    undated.headers.retain(|(name, _)| name != "x-request-id");
    assert!(!is_content(path, &undated, &body));
    let mut tagged = good.clone();
    tagged.headers.push(("etag".to_owned(), "\"1\"".to_owned()));
    assert!(!is_content(path, &tagged, &body));
    // One that no answer has, and one of another operation's.
    for (name, value) in [("x-more", "1"), ("referrer-policy", "no-referrer")] {
        let mut more = good.clone();
        more.headers.push((name.to_owned(), value.to_owned()));
        assert!(!is_content(path, &more, &body), "{name}");
    }
    // What the service adds by its settings is in the document, with what it may say.
    for (name, value, fits) in [
        ("vary", "Origin", true),
        ("vary", "Accept", false),
        ("strict-transport-security", "max-age=31536000", true),
        ("strict-transport-security", "always", false),
    ] {
        let mut more = good.clone();
        more.headers.push((name.to_owned(), value.to_owned()));
        assert_eq!(is_content(path, &more, &body), fits, "{name}: {value}");
    }
    assert!(!is_content("/nowhere", &good, &body));
    let missing = server.client().request("GET", "/nowhere", &[], b"");
    assert!(is_content("/nowhere", &missing, &json!(null)));
    let mut tagged = missing;
    tagged.headers.push(("etag".to_owned(), "\"1\"".to_owned()));
    assert!(!is_content("/nowhere", &tagged, &json!(null)));
    // A request that does not fit must not have been carried out.
    let mut unfit = body.clone();
    unfit["statementCode"] = json!(" ");
    assert!(!is_content(path, &good, &unfit));
    // A code that is another operation's.
    let refused = server
        .client()
        .post(path, &world.headquarters(), &json!({}));
    assert!(is_content(path, &refused, &json!({})));
    let mut json = refused.json();
    json["code"] = json!("permission_denied");
    let refused = Answer {
        body: json.to_string().into_bytes(),
        ..refused
    };
    assert!(!is_content(path, &refused, &json!({})));
}

/// With `SEEN_ANSWERS=FILE` a run of all tests writes down its responses; with
/// `SEEN_ANSWERS_IN=FILE` this reports what of the document no test has seen, and what was seen
/// that is not in it.
#[test]
fn the_recorded_responses_of_all_tests_are_those_of_the_document() {
    let all = all_answers();
    assert!(all.len() > 300, "{}", all.len());
    let Ok(file) = std::env::var("SEEN_ANSWERS_IN") else {
        return;
    };
    let seen = std::fs::read_to_string(&file).unwrap();
    let seen: BTreeSet<_> = seen.lines().map(ToOwned::to_owned).collect();
    let told = |lines: Vec<&String>, what: &str| {
        let lines: String = lines
            .iter()
            .map(|line| format!("{what}: {line}\n"))
            .collect();
        eprint!("{lines}");
        lines.is_empty()
    };
    let unseen = told(all.difference(&seen).collect(), "no test has seen");
    let unsaid = told(
        seen.difference(&all).collect(),
        "the document does not have",
    );
    assert!(unseen && unsaid, "see above, and {file}");
}

#[test]
fn the_document_is_small_enough_to_be_read_by_a_browser() {
    assert!(openapi::text().len() < 1 << 20);
}
