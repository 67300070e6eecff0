//! Clients that generators make of the API document, in TypeScript and in Python: they compile, and take the
//! walk through all operations against a demonstration, every request and every answer by their types.
//!
//! `TYPESCRIPT_CLIENT` names the directory that `npm ci` has filled from `typescript/package-lock.json`, and
//! `PYTHON_CLIENT` a Python with the packages of `python/requirements.txt`: see .ci/run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use carebook::catalogue::{OPERATIONS, Row};
use carebook::http::openapi;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::good::method;
use crate::support::{World, or_skip};
use crate::walk::{demonstration, exports, matches};

/// A file of this folder.
fn own(file: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients")).join(file)
}

/// What a program said, on both of its outputs.
fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Takes the walk with a client, which needs nothing of the environment but what a demonstration prints.
fn walk(mut client: Command) -> Output {
    let world = World::new();
    let (server, printed) = demonstration(&world);
    let output = client.env_clear().envs(exports(&printed)).output().unwrap();
    assert_eq!(server.stop(), Some(0));
    output
}

/// A walk came to its end, and told of each operation that it succeeded, and of nothing else but requests.
#[track_caller]
fn took_every_operation(file: &str, walk: &Output) {
    let said = said(walk);
    assert!(walk.status.success(), "{said}");
    let requests = said.lines().map(|line| line.split_once(' ').expect(line));
    let succeeded: BTreeSet<_> = requests
        .filter_map(|(sent, path)| {
            assert!(path.starts_with('/'), "{said}");
            let is_of = |row: &&Row| sent == method(row) && matches(row.path, path);
            OPERATIONS.iter().find(is_of).map(|row| row.name)
        })
        .collect();
    let expected: BTreeSet<_> = OPERATIONS.iter().map(|row| row.name).collect();
    assert_eq!(succeeded, expected, "tests/clients/{file}");
}

/// Gives a field of a named schema another name.
fn rename(document: &mut Value, schema: &str, from: &str, to: &str) {
    let schema = &mut document["components"]["schemas"][schema];
    let members = schema["properties"].as_object_mut().unwrap();
    let member = members.remove(from).unwrap();
    members.insert(to.to_owned(), member);
    for name in schema["required"].as_array_mut().unwrap() {
        if name == from {
            *name = to.into();
        }
    }
}

/// The TypeScript client of a document, in a folder of its own.
struct TypeScript {
    folder: TempDir,
    modules: PathBuf,
}

impl TypeScript {
    /// `None`, and that is said, where the packages are missing and this is not the gate.
    fn of(document: &Value) -> Option<Self> {
        let modules = std::env::var_os("TYPESCRIPT_CLIENT").map(PathBuf::from);
        let modules = or_skip(
            modules,
            "openapi-typescript (TYPESCRIPT_CLIENT, see .ci/run)",
        )?;
        let client = Self {
            folder: tempfile::tempdir().unwrap(),
            modules: modules.join("node_modules"),
        };
        let place = |file: &str| client.folder.path().join(file);
        for file in ["walk.ts", "tsconfig.json", "package.json"] {
            std::fs::copy(own("typescript").join(file), place(file)).unwrap();
        }
        std::os::unix::fs::symlink(&client.modules, place("node_modules")).unwrap();
        std::fs::write(place("carebook.json"), document.to_string()).unwrap();
        let generator = "openapi-typescript/bin/cli.js";
        let made = client.node(
            &client.modules.join(generator),
            &["carebook.json", "-o", "carebook.d.ts"],
        );
        let made = { made }.output().unwrap();
        assert!(made.status.success(), "{}", said(&made));
        Some(client)
    }

    fn node(&self, script: &Path, arguments: &[&str]) -> Command {
        let mut node = Command::new("node");
        node.arg(script).args(arguments).current_dir(&self.folder);
        node
    }

    /// What the compiler says; nothing when it is content.
    fn compile(&self) -> String {
        let compiler = self.modules.join("typescript/bin/tsc");
        let output = self.node(&compiler, &["--project", "."]).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.success(), said.is_empty(), "{said}");
        said
    }
}

#[test]
fn a_client_in_typescript_that_is_generated_compiles_and_takes_the_walk() {
    let Some(client) = TypeScript::of(&openapi::document()) else {
        return;
    };
    assert_eq!(client.compile(), "");
    let node = client.node(Path::new("made/walk.js"), &[]);
    let taken = walk(node);
    took_every_operation("typescript/walk.ts", &taken);
}

#[test]
fn a_typescript_client_of_a_different_document_does_not_compile() {
    let mut document = openapi::document();
    let paths = document["paths"].as_object_mut().unwrap();
    let place = paths.remove("/settlement-deposit-requests").unwrap();
    paths.insert("/deposit-requests".to_owned(), place);
    rename(
        &mut document,
        "FinalizeChargeRequest",
        "servicePriceKrw",
        "priceKrw",
    );
    rename(
        &mut document,
        "FinancialLifecycle",
        "hqSettlementKrw",
        "settlementKrw",
    );
    rename(
        &mut document,
        "ConsentVersionFactsToPut",
        "publishedAt",
        "at",
    );
    rename(&mut document, "ConsentVersionFacts", "publishedAt", "since");
    let action = "/components/schemas/AdministerGatewayRequest/properties/operationAction/enum";
    let actions = document
        .pointer_mut(action)
        .unwrap()
        .as_array_mut()
        .unwrap();
    actions.retain(|action| action != "lookup_payment");
    let Some(client) = TypeScript::of(&document) else {
        return;
    };
    let faults = client.compile();
    for told in [
        "'\"/settlement-deposit-requests\"' is not assignable",
        "'servicePriceKrw' does not exist",
        "'hqSettlementKrw' does not exist",
        "'publishedAt' does not exist in type '{ at:",
        "'publishedAt' does not exist on type",
        "'\"lookup_payment\"' is not assignable",
    ] {
        assert!(faults.contains(told), "{told}: {faults}");
    }
}

/// Makes the package in Python of a document, without a warning, and takes the walk with it. `None`, and that
/// is said, where the packages are missing and this is not the gate.
fn python(document: &Value) -> Option<Output> {
    let python = std::env::var_os("PYTHON_CLIENT").map(PathBuf::from);
    let python = or_skip(python, "openapi-python-client (PYTHON_CLIENT, see .ci/run)")?;
    let folder = tempfile::tempdir().unwrap();
    let place = |file: &str| folder.path().join(file);
    std::fs::write(place("carebook.json"), document.to_string()).unwrap();
    let mut generator = Command::new(&python);
    generator
        .args([
            "-m",
            "openapi_python_client",
            "generate",
            "--fail-on-warning",
            "--meta",
            "none",
        ])
        .args([
            "--path",
            "carebook.json",
            "--output-path",
            "carebook_client",
            "--config",
        ])
        .arg(own("python/generator.yml"))
        // Where the generator finds what it formats with.
        .env("PATH", python.parent().unwrap())
        .current_dir(&folder);
    let made = generator.output().unwrap();
    assert!(made.status.success(), "{}", said(&made));
    std::fs::copy(own("python/walk.py"), place("walk.py")).unwrap();
    let mut client = Command::new(&python);
    client.arg("walk.py").current_dir(&folder);
    Some(walk(client))
}

#[test]
fn a_client_in_python_that_is_generated_is_whole_and_takes_the_walk() {
    let Some(taken) = python(&openapi::document()) else {
        return;
    };
    took_every_operation("python/walk.py", &taken);
}

#[test]
fn a_python_client_of_a_different_document_fails_the_walk() {
    for (schema, from, to, told) in [
        (
            "FinalizeChargeRequest",
            "servicePriceKrw",
            "priceKrw",
            "unexpected keyword argument 'service_price_krw'",
        ),
        (
            "FinancialLifecycle",
            "hqSettlementKrw",
            "settlementKrw",
            "KeyError: 'settlementKrw'",
        ),
    ] {
        let mut document = openapi::document();
        rename(&mut document, schema, from, to);
        let Some(taken) = python(&document) else {
            return;
        };
        assert!(!taken.status.success(), "{schema}");
        assert!(said(&taken).contains(told), "{}", said(&taken));
    }
}
