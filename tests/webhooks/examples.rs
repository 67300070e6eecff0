//! Signatures as others verify them: the receivers of docs/webhooks.md, and the library of Standard
//! Webhooks.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;
use crate::support::{or_skip, program};

/// A program that prints its port and then what it takes; killed when dropped.
struct Program {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// The code of the document in this language.
fn code(language: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/webhooks.md");
    let page = std::fs::read_to_string(page).unwrap();
    let begin = page.find(&format!("```{language}\n")).unwrap();
    let code = &page[begin..];
    let code = &code[code.find('\n').unwrap() + 1..];
    let code = &code[..code.find("```").unwrap()];
    // Tests run side by side, each with a port of its own.
    assert_eq!(code.matches("9000").count(), 1, "{code}");
    code.replace("9000", "0")
}

/// Has the receiver take an event that its secret signs, and refuse one that another one signs.
fn takes_what_is_signed(interpreter: &str, file: &str, code: &str) {
    let Some(interpreter) = or_skip(program(interpreter), interpreter) else {
        return;
    };
    let house = House::new();
    let mut programs = Vec::new();
    for is_right in [true, false] {
        let subscription = house.subscribe("https://example.com/", &["carebook.reference-fact.*"]);
        let secret = subscription["secret"].as_str().unwrap().to_owned();
        let other = format!("whsec_{}", "A".repeat(43) + "=");
        let path = house.world.path(&format!("{is_right}-{file}"));
        std::fs::write(&path, code).unwrap();
        let mut child = Command::new(&interpreter)
            .arg(&path)
            .env("SECRET", if is_right { &secret } else { &other })
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, out };
        let port = program.line();
        let body = json!({
            "expectedRevision": 1,
            "url": format!("http://127.0.0.1:{port}/"),
        });
        let answer = house.send("PATCH", &path_of(&subscription), &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        programs.push((subscription, program));
    }
    house.fact("a", 1);
    let (refused, _) = &programs[1];
    let refused = house.wait(refused, |read| read["lastFailure"]["status"] == 401);
    let (taken, program) = &mut programs[0];
    assert_eq!(
        program.line(),
        refused["lastFailure"]["eventId"].as_str().unwrap()
    );
    house.wait(taken, |read| read["waiting"] == 0);
}

#[test]
fn the_receiver_in_python_takes_what_is_signed_and_nothing_else() {
    takes_what_is_signed("python3", "receiver.py", &code("python"));
}

#[test]
fn the_receiver_in_typescript_takes_what_is_signed_and_nothing_else() {
    // Older versions of Node do not read types: they are taken out.
    let mut code = code("typescript");
    for types in [": Buffer[]", " as Buffer", " as AddressInfo"] {
        assert!(code.contains(types), "{types}");
        code = code.replace(types, "");
    }
    let lines = code.lines().filter(|line| !line.starts_with("import type"));
    let code = lines.collect::<Vec<_>>().join("\n");
    takes_what_is_signed("node", "receiver.mjs", &code);
}

#[test]
fn the_library_of_standard_webhooks_verifies_what_is_sent() {
    const SCRIPT: &str = "
import json, sys
from standardwebhooks.webhooks import Webhook
for line in sys.stdin:
    sent = json.loads(line)
    Webhook(sent['secret']).verify(sent['body'], sent['headers'])
    try:
        Webhook(sent['secret']).verify(sent['body'] + ' ', sent['headers'])
        raise SystemExit('a changed body was verified')
    except SystemExit: raise
    except Exception: pass
    print('verified', flush=True)
";
    let python = std::env::var("STANDARDWEBHOOKS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_it = Command::new(&python)
        .args(["-c", "import standardwebhooks"])
        .stderr(Stdio::null())
        .status();
    let python = has_it
        .is_ok_and(|status| status.success())
        .then_some(python);
    let Some(python) = or_skip(
        python,
        "Python with standardwebhooks (STANDARDWEBHOOKS_PYTHON)",
    ) else {
        return;
    };
    let (house, receiver) = (House::new(), Receiver::start());
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("a", 1);
    receiver.wait_for(1);
    let rotations = format!("{}/secret-rotations", path_of(&subscription));
    let rotated = house.send("POST", &rotations, &json!({"expectedRevision": 1}));
    house.fact("a", 2);
    let came = receiver.wait_for(2);
    let secrets = [&subscription["secret"], &rotated.json()["secret"]].map(Value::clone);
    let mut child = Command::new(&python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = 0;
    for (delivery, secrets) in came.iter().zip([&secrets[..1], &secrets[..]]) {
        for secret in secrets {
            let headers: serde_json::Map<_, _> = delivery
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), json!(value)))
                .collect();
            let body = String::from_utf8(delivery.body.clone()).unwrap();
            let line = json!({"secret": secret, "headers": headers, "body": body});
            writeln!(input, "{line}").unwrap();
            lines += 1;
        }
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(told.lines().count(), lines, "{told}");
    assert!(output.status.success());
}
