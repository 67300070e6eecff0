//! Every answer that a test's client receives is judged by the API document: its path and method
//! are in it, its status, its headers and its body; and so does the body of every request that was
//! carried out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write as _;
use std::sync::{Arc, LazyLock, Mutex};

use carebook::http::openapi;
use jsonschema::Validator;
use serde_json::{Value, json};

/// Codes of problems that every path has.
const EVERYWHERE: [&str; 2] = ["route_not_found", "method_not_allowed"];

/// Headers of HTTP itself, which the document does not list; the media type it lists with the body.
const OF_HTTP: [&str; 5] = [
    "connection",
    "content-length",
    "content-type",
    "date",
    "transfer-encoding",
];

/// Headers that only answers beside the document have: to `OPTIONS`, and to a method that a path does not
/// have.
const BESIDE: [&str; 4] = [
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-max-age",
    "allow",
];

static JUDGE: LazyLock<Judge> = LazyLock::new(Judge::new);

/// An operation of the document.
struct Operation {
    name: String,
    method: String,
    path: Vec<String>,
    says: Value,
}

impl Operation {
    /// Whether the document has this code among those of the status.
    fn has_code(&self, document: &Value, status: u16, code: Option<&str>) -> bool {
        let codes = codes_of(document, &self.says["responses"][status.to_string()]);
        codes.iter().any(|known| Some(known.as_str()) == code)
    }
}

/// The codes of the problems that an answer of the document may have.
fn codes_of(document: &Value, answer: &Value) -> Vec<String> {
    let answer = openapi::resolved(document, answer);
    let schema = &answer["content"]["application/json"]["schema"];
    let problem = openapi::resolved(document, schema);
    let own = &problem["allOf"][1]["properties"]["conflictCode"]["enum"];
    let codes = [&problem["properties"]["code"]["enum"], own];
    let codes = codes.iter().filter_map(|codes| codes.as_array()).flatten();
    codes
        .map(|code| code.as_str().unwrap().to_owned())
        .collect()
}

/// The headers that each answer of the document lists.
fn headers_of_each(document: &Value, operations: &[Operation]) -> Value {
    let mut all = operations.iter().flat_map(|of| {
        let answers = of.says["responses"].as_object().unwrap().values();
        answers.map(|answer| &openapi::resolved(document, answer)["headers"])
    });
    let mut headers = all.next().unwrap().as_object().unwrap().clone();
    for other in all {
        headers.retain(|name, _| other.get(name).is_some());
    }
    headers.into()
}

/// Compiled once, and kept.
type Compiled = Arc<Validator>;

struct Judge {
    document: Value,
    operations: Vec<Operation>,
    /// What answers beside the document may have: the headers that each answer of the document lists.
    beside: Value,
    /// By where in the document the schema is.
    compiled: Mutex<HashMap<String, Compiled>>,
    seen: Mutex<BTreeSet<String>>,
}

/// A request as its client sent it.
#[derive(Clone, Copy)]
pub struct Sent<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

/// An answer as it was received.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    pub status: u16,
    pub headers: &'a [(String, String)],
    pub body: &'a [u8],
}

impl Received<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Judges an answer; a word on what is wrong is the panic of the test.
pub fn judge(sent: Sent<'_>, answer: Received<'_>) {
    // The console is a site of its own, and no part of the API.
    if sent.path == "/console" || sent.path.starts_with("/console/") {
        return;
    }
    let faults = JUDGE.faults(sent, answer);
    assert!(
        faults.is_empty(),
        "the API document does not have this: {} {} is answered {} {}\n{}",
        sent.method,
        sent.path,
        answer.status,
        String::from_utf8_lossy(answer.body),
        faults.join("\n")
    );
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

impl Judge {
    fn new() -> Self {
        let document = openapi::document();
        let mut operations = Vec::new();
        for (path, place) in document["paths"].as_object().unwrap() {
            for (method, says) in place.as_object().unwrap() {
                operations.push(Operation {
                    name: text(says, "operationId").unwrap().to_owned(),
                    method: method.to_uppercase(),
                    path: path.split('/').map(ToOwned::to_owned).collect(),
                    says: says.clone(),
                });
            }
        }
        let beside = json!({"headers": headers_of_each(&document, &operations)});
        Self {
            document,
            operations,
            beside,
            compiled: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// The operation that is meant; a fixed path goes before one with parameters.
    fn operation(&self, method: &str, path: &str) -> Option<&Operation> {
        let method = if method == "HEAD" { "GET" } else { method };
        let parts: Vec<_> = path.split('/').collect();
        let fits = |of: &&Operation| {
            let mut pairs = of.path.iter().zip(&parts);
            of.method == method
                && of.path.len() == parts.len()
                && pairs
                    .all(|(form, part)| form == part || form.starts_with('{') && !part.is_empty())
        };
        let parameters =
            |of: &&Operation| of.path.iter().filter(|part| part.starts_with('{')).count();
        self.operations.iter().filter(fits).min_by_key(parameters)
    }

    /// The validator of the schema, which is at this place.
    fn compiled(&self, place: &str, schema: &Value) -> Compiled {
        let mut compiled = self.compiled.lock().unwrap();
        let validator = compiled.entry(place.to_owned()).or_insert_with(|| {
            let mut schemas = BTreeMap::new();
            self.collect(schema, &mut schemas);
            let whole = json!({"allOf": [schema], "components": {"schemas": schemas}});
            let options = jsonschema::options().should_validate_formats(true);
            let built = options
                .with_draft(jsonschema::Draft::Draft202012)
                .build(&whole);
            Arc::new(built.unwrap_or_else(|error| panic!("{place}: {error}")))
        });
        Arc::clone(validator)
    }

    /// The named schemas that a schema needs.
    fn collect(&self, schema: &Value, found: &mut BTreeMap<String, Value>) {
        match schema {
            Value::Object(members) => {
                if let Some(to) = members.get("$ref").and_then(Value::as_str) {
                    let name = to.rsplit('/').next().unwrap();
                    if !found.contains_key(name) {
                        let named = &self.document["components"]["schemas"][name];
                        found.insert(name.to_owned(), named.clone());
                        self.collect(named, found);
                    }
                }
                for of in members.values() {
                    self.collect(of, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|of| self.collect(of, found)),
            _ => {}
        }
    }

    fn misfits(&self, place: &str, schema: &Value, value: &Value) -> Vec<String> {
        let validator = self.compiled(place, schema);
        if validator.is_valid(value) {
            return Vec::new();
        }
        let faults = validator.iter_errors(value);
        let told = faults.map(|fault| format!("{place}: {}: {fault}", fault.instance_path()));
        told.collect()
    }

    fn faults(&self, sent: Sent<'_>, answer: Received<'_>) -> Vec<String> {
        let path = sent.path.split('?').next().unwrap_or_default();
        if answer.header("x-request-id").is_none() {
            return vec!["it has no X-Request-Id".to_owned()];
        }
        let body = serde_json::from_slice::<Value>(answer.body).ok();
        let code = body.as_ref().and_then(|body| text(body, "code"));
        // A head that cannot be parsed has no route, and ends its connection. So does a stop, whatever the answer.
        let ends = answer.header("connection") == Some("close");
        let names_nothing = body
            .as_ref()
            .is_some_and(|body| body["fieldErrors"] == json!([]));
        if matches!(answer.status, 400 | 431)
            && ends
            && code == Some("request_invalid")
            && names_nothing
        {
            let mut faults = self.beside_at_fault(answer);
            if body.is_some_and(|body| body["status"] != answer.status) {
                faults.push("the problem of a head has another status".to_owned());
            }
            return faults;
        }
        let everywhere = code.is_some_and(|code| EVERYWHERE.contains(&code));
        if sent.method == "OPTIONS" && !everywhere {
            let fits = answer.status == 204 && answer.header("allow").is_some();
            return if fits {
                self.beside_at_fault(answer)
            } else {
                vec!["OPTIONS".to_owned()]
            };
        }
        // A path whose parameter is no text is one that the operation's own answers tell of.
        let is_told =
            |of: &&Operation| !everywhere || of.has_code(&self.document, answer.status, code);
        let Some(operation) = self.operation(sent.method, path).filter(is_told) else {
            let is_missing =
                matches!(answer.status, 404 | 405) && (everywhere || sent.method == "HEAD");
            return if is_missing {
                self.beside_at_fault(answer)
            } else {
                vec!["no such path and method".to_owned()]
            };
        };
        let status = answer.status.to_string();
        let says = openapi::resolved(&self.document, &operation.says["responses"][&status]);
        let place = format!("{} {status}", operation.name);
        if says.is_null() {
            return vec![format!("{place}: no such status")];
        }
        let mut faults = self.headers_at_fault(&place, says, answer);
        let has_body = sent.method != "HEAD" && !matches!(answer.status, 204 | 304);
        if has_body {
            faults.extend(self.body_at_fault(&place, says, answer, body.as_ref()));
        }
        if (200..300).contains(&answer.status) {
            faults.extend(self.request_at_fault(operation, sent));
        }
        // Without a body it is unknown which code it is.
        if faults.is_empty() && sent.method != "HEAD" {
            self.note(&place, body.as_ref());
        }
        faults
    }

    /// What is wrong with the headers of an answer beside the document.
    fn beside_at_fault(&self, answer: Received<'_>) -> Vec<String> {
        let listed = |(name, _): &&(String, String)| !BESIDE.contains(&name.as_str());
        let headers: Vec<_> = answer.headers.iter().filter(listed).cloned().collect();
        let answer = Received {
            headers: &headers,
            ..answer
        };
        self.headers_at_fault("beside the document", &self.beside, answer)
    }

    fn headers_at_fault(&self, place: &str, says: &Value, answer: Received<'_>) -> Vec<String> {
        let mut faults = Vec::new();
        let told: BTreeMap<_, _> = says["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, to)| (name.to_ascii_lowercase(), to["$ref"].as_str().unwrap()))
            .collect();
        for (name, value) in answer.headers {
            match told.get(name) {
                Some(to) => {
                    let header = self.document.pointer(to.trim_start_matches('#')).unwrap();
                    faults.extend(self.misfits(to, &header["schema"], &json!(value)));
                }
                None if OF_HTTP.contains(&name.as_str()) => {}
                None => faults.push(format!("{place}: a header {name}")),
            }
        }
        if matches!(answer.status, 429 | 503) && answer.header("retry-after").is_none() {
            faults.push(format!("{place}: no Retry-After"));
        }
        faults
    }

    fn body_at_fault(
        &self,
        place: &str,
        says: &Value,
        answer: Received<'_>,
        body: Option<&Value>,
    ) -> Vec<String> {
        let media = answer.header("content-type").unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default();
        let Some(schema) = says["content"].get(media).map(|content| &content["schema"]) else {
            return vec![format!("{place}: no such media type: {media:?}")];
        };
        match (media, body) {
            ("application/json", Some(body)) => self.misfits(place, schema, body),
            ("application/json", None) => vec![format!("{place}: it is no JSON")],
            _ => Vec::new(),
        }
    }

    /// What was carried out fits what is asked for.
    fn request_at_fault(&self, operation: &Operation, sent: Sent<'_>) -> Vec<String> {
        let media = sent
            .headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            .and_then(|(_, value)| value.split(';').next())
            .unwrap_or_default();
        let content = &operation.says["requestBody"]["content"];
        let place = format!("{} asked", operation.name);
        let (Some(says), false) = (content.get(media.trim()), sent.body.is_empty()) else {
            return Vec::new();
        };
        match serde_json::from_slice(sent.body) {
            Ok(body) if media == "application/json" => self.misfits(&place, &says["schema"], &body),
            _ => Vec::new(),
        }
    }

    /// With `SEEN_ANSWERS=FILE`, each status and code is written there when it is first seen.
    fn note(&self, place: &str, body: Option<&Value>) {
        let Ok(file) = std::env::var("SEEN_ANSWERS") else {
            return;
        };
        let code = body.and_then(|body| text(body, "code").or(text(body, "conflictCode")));
        let line = format!("{place} {}", code.unwrap_or_default());
        if self.seen.lock().unwrap().insert(line.clone()) {
            let file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(file);
            // In one piece: other tests write to the same file.
            let line = format!("{}\n", line.trim_end());
            file.unwrap().write_all(line.as_bytes()).unwrap();
        }
    }
}

/// Whether an answer of the document may be a problem with this code.
pub fn may_be(answer: &Value, code: &str) -> bool {
    let codes = codes_of(&JUDGE.document, answer);
    codes.iter().any(|known| known == code)
}

/// Each status of each operation in the document, with each of its codes, as `SEEN_ANSWERS` writes
/// them.
pub fn all_answers() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for operation in &JUDGE.operations {
        for (status, says) in operation.says["responses"].as_object().unwrap() {
            let codes = match status.as_str() < "400" {
                true => Vec::new(),
                false => codes_of(&JUDGE.document, says),
            };
            let place = format!("{} {status}", operation.name);
            if codes.is_empty() {
                all.insert(place.clone());
            }
            for code in codes {
                all.insert(format!("{place} {code}"));
            }
        }
    }
    all
}
