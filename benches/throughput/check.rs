//! Every answer is checked: its status, the shape of its body, a word in it where there is one
//! that must be, and that it speaks of what its request was about.
//!
//! The shape is compared in two steps, so that the check costs the generator about a microsecond
//! for each kilobyte. The structure of the body (its brackets and the names of its fields, without
//! their values) is hashed in one pass; a structure that was not seen before is parsed as a whole,
//! and has to have the fields that the contract lists.

use std::collections::BTreeSet;
use std::collections::HashSet;
use std::ops::Range;

/// What an answer has to be.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Its status.
    pub(crate) status: u16,
    /// The fields of its body, all of them and no others; none are not looked at.
    pub(crate) members: &'static [&'static str],
    /// What its body has to have in it, if anything.
    pub(crate) word: &'static str,
}

impl Expected {
    pub(crate) const fn new(status: u16, members: &'static [&'static str]) -> Self {
        Self {
            status,
            members,
            word: "",
        }
    }

    pub(crate) const fn with(self, word: &'static str) -> Self {
        Self { word, ..self }
    }
}

/// One request, ready to be sent, and what its answer has to be.
#[derive(Clone)]
pub(crate) struct Request {
    /// Head and body.
    pub(crate) bytes: Vec<u8>,
    /// Where its body begins.
    body: usize,
    /// Where in it is what the response has to repeat; empty where nothing is.
    pub(crate) echo: Range<usize>,
    /// The rest.
    pub(crate) expected: &'static Expected,
}

impl Request {
    /// This request; its answer has to repeat `echo`, which has to be in the request.
    pub(crate) fn new(bytes: Vec<u8>, echo: &str, expected: &'static Expected) -> Self {
        let echo = match echo {
            "" => 0..0,
            echo => {
                let at = find(&bytes, echo.as_bytes());
                let at = at.unwrap_or_else(|| panic!("{echo} is not in the request"));
                at..at + echo.len()
            }
        };
        let body = find(&bytes, b"\r\n\r\n").expect("a request has a head") + 4;
        Self {
            bytes,
            body,
            echo,
            expected,
        }
    }

    /// A request without a body.
    pub(crate) fn get(path: &str, token: &str, echo: &str, expected: &'static Expected) -> Self {
        let bytes =
            format!("GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n");
        Self::new(bytes.into_bytes(), echo, expected)
    }

    /// The length of the body: what comes after the blank line.
    pub(crate) fn body_bytes(&self) -> usize {
        self.bytes.len() - self.body
    }
}

/// What an answer came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was what it had to be.
    Good,
    /// The server was busy and said so.
    Shed,
}

/// What is answered when the server takes no more: 429.
static SHED: Expected = Expected::new(429, &[]).with("\"code\":\"overloaded\"");
/// The problem at the door of the operations with an own shape has no message, yet the same code.
const TOO_MANY: u16 = 429;

/// Checks answers; one for each thread that drives.
#[derive(Default)]
pub(crate) struct Checker {
    /// The structures that were parsed and found right, each with what it was right for.
    known: HashSet<(usize, u64)>,
}

impl Checker {
    /// Checks one answer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(
        &mut self,
        request: &Request,
        status: u16,
        body: &[u8],
    ) -> Result<Outcome, String> {
        let (expected, outcome) = match status {
            TOO_MANY if request.expected.status != TOO_MANY => (&SHED, Outcome::Shed),
            _ => (request.expected, Outcome::Good),
        };
        let wrong = |why: &str| {
            let head = request.bytes.split(|byte| *byte == b'\r').next();
            let head = String::from_utf8_lossy(head.unwrap_or_default());
            let body = String::from_utf8_lossy(body);
            Err(format!("{why}\nasked: {head}\nanswered: {status} {body}"))
        };
        if status != expected.status {
            return wrong(&format!("the status is not {}", expected.status));
        }
        let echo = &request.bytes[request.echo.clone()];
        if outcome == Outcome::Good && !echo.is_empty() && find(body, echo).is_none() {
            return wrong(&format!(
                "the answer says nothing of {}",
                String::from_utf8_lossy(echo)
            ));
        }
        if !expected.word.is_empty() && find(body, expected.word.as_bytes()).is_none() {
            return wrong(&format!("the answer lacks {}", expected.word));
        }
        let key = (std::ptr::from_ref(expected).addr(), structure(body));
        if expected.members.is_empty() || self.known.contains(&key) {
            return Ok(outcome);
        }
        let parsed: Result<serde_json::Map<_, _>, _> = serde_json::from_slice(body);
        let Ok(parsed) = parsed else {
            return wrong("the body is no JSON object");
        };
        let members: BTreeSet<&str> = parsed.keys().map(String::as_str).collect();
        let listed: BTreeSet<&str> = expected.members.iter().copied().collect();
        if members != listed {
            let differing: Vec<_> = members.symmetric_difference(&listed).collect();
            return wrong(&format!("members too many or missing: {differing:?}"));
        }
        self.known.insert(key);
        Ok(outcome)
    }
}

/// A number for the structure of a JSON text: its brackets, and the names of its fields. What the
/// values are does not change it.
fn structure(text: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => {
                let from = at;
                at += 1;
                while at < text.len() && text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
                if text.get(at + 1) == Some(&b':') {
                    text[from..at].iter().copied().for_each(&mut take);
                }
            }
            bracket @ (b'{' | b'}' | b'[' | b']') => take(bracket),
            _ => {}
        }
        at += 1;
    }
    hash
}

/// Where `part` is in `whole`.
pub(crate) fn find(whole: &[u8], part: &[u8]) -> Option<usize> {
    let first = *part.first()?;
    let mut from = 0;
    while let Some(at) = whole[from..].iter().position(|byte| *byte == first) {
        if whole[from + at..].starts_with(part) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// Proves on some texts that the check can fail: done at each start, since a check that has gone
/// blind looks like a service without faults.
pub(crate) fn prove() {
    static RIGHT: Expected = Expected::new(201, &["id", "lines"]).with("\"open\"");
    let request = Request::new(b"POST /x\r\n\r\nown-1".to_vec(), "own-1", &RIGHT);
    let mut checker = Checker::default();
    let mut check = |status, body: &str| checker.check(&request, status, body.as_bytes()).is_ok();
    let good = r#"{"id":"own-1 \"}","lines":["open"]}"#;
    assert!(check(201, good) && check(201, good));
    assert!(!check(200, good), "another status");
    assert!(!check(201, &good.replace("own-1", "own-2")), "another's");
    assert!(!check(201, &good.replace("open", "shut")), "another word");
    assert!(
        !check(201, &good.replace("\"id\"", "\"it\"")),
        "another member"
    );
    assert!(
        !check(201, &good.replace('[', "7,\"more\":[")),
        "a member too many"
    );
    assert!(!check(201, &good[..good.len() - 1]), "no JSON");
    assert!(!check(429, "{}"), "429 without its code");
    assert!(check(429, r#"{"code":"overloaded"}"#));
    assert_ne!(structure(b"{\"a\":[1]}"), structure(b"{\"a\":1}"));
    assert_eq!(structure(b"{\"a\":1}"), structure(b"{\"a\":\"\\\"}{\"}"));
}
