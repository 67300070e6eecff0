//! The page that shows the API document, as a browser sees it: headless Chromium opens it, signs in
//! with a token of the demonstration and sends a command.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{World, assert_digests, or_skip, program};
use crate::walk::demonstration;

/// How long the browser may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser, spoken to by its debugging protocol over its standard input and output.
struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    number: u64,
    session: Option<String>,
    /// Messages that it sent on its own.
    told: Vec<Value>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Chromium with a profile in this directory; `None` where there is none.
    fn start(profile: &Path) -> Option<Self> {
        let mut child = Command::new("sh")
            // It reads commands from 3 and writes to 4.
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1",
                "sh",
            ])
            .arg(or_skip(program("chromium"), "chromium")?)
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--no-first-run",
                "--no-proxy-server",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(from).split(0) {
                let Ok(message) = message else { break };
                let message = serde_json::from_slice(&message).unwrap();
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Some(Self {
            child,
            to,
            from: receiver,
            number: 0,
            session: None,
            told: Vec::new(),
        })
    }

    /// Has something done; what it gives.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut message = json!({"id": number, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(message.to_string().as_bytes()).unwrap();
        self.to.write_all(&[0]).unwrap();
        self.to.flush().unwrap();
        loop {
            let message = self.from.recv_timeout(PATIENCE);
            let message =
                message.unwrap_or_else(|_| panic!("{method}: no answer; {:?}", self.told));
            if message["id"] == number {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.told.push(message);
        }
    }

    /// A page of its own, with all notifications enabled.
    fn open(&mut self, url: &str) {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call("Target.attachToTarget", target);
        self.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        self.call("Page.navigate", json!({"url": url}));
    }

    fn evaluate(&mut self, script: &str) -> Value {
        let parameters = json!({
            "expression": script, "awaitPromise": true, "returnByValue": true,
        });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{script}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until the expression is something; what it is.
    fn seen(&mut self, expression: &str) -> Value {
        self.evaluate(&format!(
            "new Promise(done => {{
                const observer = new MutationObserver(look);
                function look() {{
                    const found = {expression};
                    if (found) {{ observer.disconnect(); done(String(found)); }}
                }}
                observer.observe(document, {{
                    subtree: true, childList: true, characterData: true, attributes: true,
                }});
                look();
            }})"
        ))
    }

    /// Clicks on an element, once it exists.
    fn click(&mut self, selector: &str) {
        let found = format!("document.querySelector({})", json!(selector));
        self.seen(&found);
        self.evaluate(&format!("{found}.click()"));
    }

    /// What the page complained of.
    fn complaints(&self) -> Vec<&Value> {
        let is_one = |of: &&Value| match of["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => of["params"]["type"] == "error",
            Some("Log.entryAdded") => of["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.told.iter().filter(is_one).collect()
    }

    /// The URLs that the page asked for.
    fn asked(&self) -> Vec<&str> {
        let told = self.told.iter();
        let requests = told.filter(|of| of["method"] == "Network.requestWillBeSent");
        requests
            .map(|of| of["params"]["request"]["url"].as_str().unwrap())
            .collect()
    }
}

#[test]
fn a_browser_signs_in_and_sends_a_command_and_asks_no_other_host() {
    let world = World::new();
    let profile = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(profile.path()) else {
        return;
    };
    let (server, printed) = demonstration(&world);
    let address = format!("http://{}", server.address);
    let rest = printed
        .split_once("export HEADQUARTERS_ADMINISTRATOR='")
        .unwrap()
        .1;
    let token = rest.split_once('\'').unwrap().0;

    browser.open(&format!("{address}/docs"));
    browser.click(".btn.authorize");
    browser.seen("document.querySelector('.auth-container input')");
    browser.evaluate("document.querySelector('.auth-container input').focus()");
    browser.call("Input.insertText", json!({"text": token}));
    browser.click(".auth-btn-wrapper .authorize");
    browser.click(".auth-btn-wrapper .btn-done");
    let block = "#operations-Operations-request_deposit";
    browser.click(&format!("{block} .opblock-summary-control"));
    browser.click(&format!("{block} .execute"));
    let status = format!("{block} .live-responses-table .response .response-col_status");
    let status = browser.seen(&format!("document.querySelector('{status}')?.textContent"));
    assert!(status.as_str().unwrap().starts_with("201"), "{status}");

    assert_eq!(browser.complaints(), Vec::<&Value>::new());
    let asked = browser.asked();
    assert!(asked.len() >= 6, "{asked:?}");
    for url in asked {
        let is_ours = url.starts_with(&address) || url.starts_with("data:");
        assert!(is_ours, "{url}");
    }
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_no_script_stands_in_it() {
    let world = World::new();
    let server = crate::support::Server::start(&world);
    let mut client = server.client();
    for (path, media) in [
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/start.js", "text/javascript; charset=utf-8"),
        (
            "/docs/swagger-ui-bundle.js",
            "text/javascript; charset=utf-8",
        ),
        ("/docs/swagger-ui.css", "text/css; charset=utf-8"),
    ] {
        let answer = client.request("GET", path, &[], b"");
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(media))
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        for lax in ["unsafe", "*", "http"] {
            assert!(!policy.contains(lax), "{policy}");
        }
    }
    let page = client.request("GET", "/docs", &[], b"");
    for script in page.text().split("<script").skip(1) {
        assert!(script.starts_with(" src=\"/docs/") && script.contains("\"></script>"));
    }
    assert!(!page.text().contains("//"), "{}", page.text());
}

#[test]
fn vendored_files_are_as_published() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/swagger-ui");
    let sums = std::fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "SHA256SUMS" && name != "README.md")
        .collect();
    files.sort();
    let listed: Vec<_> = sums
        .lines()
        .map(|line| line.split_once("  ").unwrap())
        .collect();
    let names: Vec<_> = listed.iter().map(|(_, name)| (*name).to_owned()).collect();
    assert_eq!(names, files);
    assert_digests(&folder, &listed);
}
