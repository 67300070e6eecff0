//! A receiver of messages on a port of its own, which answers as a message says.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::Value;

use crate::support::PATIENCE;

/// A message as it came in.
#[derive(Clone, Debug)]
pub(super) struct Got {
    pub(super) headers: HashMap<String, String>,
    pub(super) raw: Vec<u8>,
    pub(super) body: Value,
    pub(super) status: u16,
}

impl Got {
    pub(super) fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    pub(super) fn number(&self) -> i64 {
        self.body["number"].as_i64().unwrap()
    }

    pub(super) fn is_taken(&self) -> bool {
        self.status == 204
    }
}

type Answers = Box<dyn Fn(&Value) -> u16 + Send>;

struct State {
    answers: Answers,
    got: Vec<Got>,
}

/// A receiver.
pub(super) struct Receiver {
    pub(super) url: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Receiver {
    /// One that answers as `answers` says of a message.
    pub(super) fn start(answers: impl Fn(&Value) -> u16 + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/in", listener.local_addr().unwrap());
        let state = State {
            answers: Box::new(answers),
            got: Vec::new(),
        };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let served = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let served = Arc::clone(&served);
                std::thread::spawn(move || serve(&served, stream.unwrap()));
            }
        });
        Self { url, state }
    }

    /// One that takes everything.
    pub(super) fn willing() -> Self {
        Self::start(|_| 204)
    }

    /// From here on it answers so.
    pub(super) fn answer(&self, answers: impl Fn(&Value) -> u16 + Send + 'static) {
        self.state.0.lock().unwrap().answers = Box::new(answers);
    }

    pub(super) fn got(&self) -> Vec<Got> {
        self.state.0.lock().unwrap().got.clone()
    }

    /// Waits until so many messages have come in.
    pub(super) fn wait_for(&self, what: impl Fn(&[Got]) -> bool) -> Vec<Got> {
        let (state, news) = &*self.state;
        let waited =
            news.wait_timeout_while(state.lock().unwrap(), PATIENCE, |state| !what(&state.got));
        let (state, late) = waited.unwrap();
        assert!(!late.timed_out(), "{:?}", state.got);
        state.got.clone()
    }
}

fn serve((state, news): &(Mutex<State>, Condvar), stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut headers = HashMap::new();
    let mut line = String::new();
    loop {
        line.clear();
        match reader.read_line(&mut line) {
            Ok(count) if count > 0 && line != "\r\n" => {}
            Ok(_) => break,
            Err(_) => return,
        }
        if let Some((name, value)) = line.trim_end().split_once(": ") {
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse().ok());
    let mut raw = vec![0; length.unwrap_or(0)];
    if length.is_none() || reader.read_exact(&mut raw).is_err() {
        return;
    }
    let body: Value = serde_json::from_slice(&raw).unwrap();
    let mut held = state.lock().unwrap();
    let status = (held.answers)(&body);
    held.got.push(Got {
        headers,
        raw,
        body,
        status,
    });
    news.notify_all();
    drop(held);
    let answer = format!("HTTP/1.1 {status} Status\r\nContent-Length: 0\r\n\r\n");
    let _ = reader.get_mut().write_all(answer.as_bytes());
}
