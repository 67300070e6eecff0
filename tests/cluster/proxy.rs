//! A proxy between a writer and a server of the stream, which knows where messages begin and end: it
//! lets some through, and keeps, loses or delays others.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::SUBJECT;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Passes,
    IsLost,
    /// It stays here until it is let go.
    IsKept,
    /// It comes after the next one, or after this long when none comes.
    IsOvertaken(Duration),
}

/// Who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// An append of the writer.
    Writer,
    /// An answer to one.
    Server,
}

type Judge = Box<dyn FnMut(From) -> Fate + Send>;

/// What is kept, and the connection that it belongs to.
type Kept = (Arc<Mutex<TcpStream>>, Vec<u8>);

/// What all threads share.
struct Shared {
    judge: Mutex<Judge>,
    kept: Mutex<Vec<Kept>>,
    connections: Mutex<Vec<TcpStream>>,
    ended: AtomicBool,
    refuses: AtomicBool,
}

/// The proxy, until it is dropped.
pub(super) struct Proxy {
    pub(super) port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    /// To a server on this port of the loopback.
    pub(super) fn to(server: u16, judge: impl FnMut(From) -> Fate + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            judge: Mutex::new(Box::new(judge)),
            kept: Mutex::default(),
            connections: Mutex::default(),
            ended: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if of_thread.ended.load(Ordering::SeqCst) {
                    return;
                }
                if of_thread.refuses.load(Ordering::SeqCst) {
                    continue;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", server)))
                else {
                    continue;
                };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                    let stream = stream.try_clone().unwrap();
                    of_thread.connections.lock().push(stream);
                }
                for (from, source, target) in [
                    (From::Writer, &client, &server),
                    (From::Server, &server, &client),
                ] {
                    let source = source.try_clone().unwrap();
                    let target = Arc::new(Mutex::new(target.try_clone().unwrap()));
                    let shared = Arc::clone(&of_thread);
                    std::thread::spawn(move || shared.forward(from, source, &target));
                }
            }
        });
        Self { port, shared }
    }

    /// Other rules from here on.
    pub(super) fn judge_by(&self, judge: impl FnMut(From) -> Fate + Send + 'static) {
        *self.shared.judge.lock() = Box::new(judge);
    }

    /// How many messages are kept.
    pub(super) fn kept(&self) -> usize {
        self.shared.kept.lock().len()
    }

    /// Lets those go that are at these places.
    pub(super) fn let_go(&self, which: &[usize]) {
        let kept = self.shared.kept.lock();
        for at in which {
            let (target, bytes) = &kept[*at];
            target.lock().write_all(bytes).unwrap();
        }
    }

    /// From here on no connection gets through, or all do again.
    pub(super) fn refuse(&self, refuses: bool) {
        self.shared.refuses.store(refuses, Ordering::SeqCst);
        self.cut();
    }

    /// Ends all connections.
    pub(super) fn cut(&self) {
        for stream in self.shared.connections.lock().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.cut();
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    /// Forwards one way, message by message, until one side ends.
    fn forward(&self, from: From, source: TcpStream, target: &Arc<Mutex<TcpStream>>) {
        let _ = self.try_forward(from, BufReader::new(source), target);
        let _ = target.lock().shutdown(std::net::Shutdown::Both);
    }

    fn try_forward(
        &self,
        from: From,
        mut source: BufReader<TcpStream>,
        target: &Arc<Mutex<TcpStream>>,
    ) -> std::io::Result<()> {
        // What the next message overtakes.
        let late: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
        loop {
            let mut bytes = Vec::new();
            if source.read_until(b'\n', &mut bytes)? == 0 {
                return Ok(());
            }
            let line = String::from_utf8_lossy(&bytes).into_owned();
            let mut words = line.split_ascii_whitespace();
            let verb = words.next().unwrap_or_default();
            let mut is_judged = false;
            if matches!(verb, "PUB" | "HPUB" | "MSG" | "HMSG") {
                let length: usize = line
                    .split_ascii_whitespace()
                    .last()
                    .unwrap()
                    .parse()
                    .unwrap();
                let mut content = vec![0; length + 2];
                source.read_exact(&mut content)?;
                let is_answer = content.starts_with(b"{\"stream\":\"CAREBOOK_tests\"")
                    || content.starts_with(b"{\"error\":");
                is_judged = match from {
                    From::Writer => words.next() == Some(SUBJECT),
                    From::Server => is_answer,
                };
                bytes.extend(content);
            }
            let fate = match is_judged {
                true => (self.judge.lock())(from),
                false => Fate::Passes,
            };
            match fate {
                Fate::Passes => target.lock().write_all(&bytes)?,
                Fate::IsLost => {}
                Fate::IsKept => self.kept.lock().push((Arc::clone(target), bytes)),
                Fate::IsOvertaken(until) => {
                    *late.lock() = Some(bytes);
                    let (late, target) = (Arc::clone(&late), Arc::clone(target));
                    std::thread::spawn(move || {
                        std::thread::sleep(until);
                        let bytes = late.lock().take();
                        bytes.map(|bytes| target.lock().write_all(&bytes))
                    });
                    continue;
                }
            }
            if is_judged && let Some(bytes) = late.lock().take() {
                target.lock().write_all(&bytes)?;
            }
        }
    }
}
