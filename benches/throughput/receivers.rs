//! Receivers of webhooks: one that takes what comes, and those that mean no good.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::check::find;

/// What a receiver does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Takes,
    Hangs,
    Trickles,
    Redirects,
    Fails,
    Floods,
    Breaks,
}

impl Manner {
    pub(crate) const HOSTILE: [Self; 6] = [
        Self::Hangs,
        Self::Trickles,
        Self::Redirects,
        Self::Fails,
        Self::Floods,
        Self::Breaks,
    ];

    fn named(name: &str) -> Option<Self> {
        let mut all = Self::HOSTILE.into_iter().chain([Self::Takes]);
        all.find(|manner| format!("{manner:?}") == name)
    }

    /// Answers; whether the connection is kept.
    async fn answer(self, stream: &mut TcpStream, number: usize) -> std::io::Result<bool> {
        const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        match self {
            Self::Takes => stream.write_all(WHOLE).await.map(|()| true),
            Self::Hangs => {
                let _ = stream.read(&mut [0; 1]).await;
                Ok(false)
            }
            Self::Trickles => {
                for byte in WHOLE {
                    stream.write_all(&[*byte]).await?;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Ok(true)
            }
            Self::Redirects => {
                let head = b"HTTP/1.1 307 -\r\nLocation: /\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(head).await.map(|()| true)
            }
            Self::Fails => {
                let head = b"HTTP/1.1 500 -\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(head).await.map(|()| true)
            }
            Self::Floods => {
                let head = b"HTTP/1.1 500 -\r\nContent-Length: 10485760\r\n\r\n";
                stream.write_all(head).await?;
                let piece = vec![b'x'; 64 << 10];
                for _ in 0..160 {
                    stream.write_all(&piece).await?;
                }
                Ok(false)
            }
            Self::Breaks => {
                let some = &WHOLE[..number % WHOLE.len()];
                stream.write_all(some).await.map(|()| false)
            }
        }
    }
}

/// What came to a receiver.
#[derive(Default)]
pub(crate) struct Came {
    pub(crate) count: AtomicUsize,
    /// When the event of which commit came first, where that is kept.
    pub(crate) first: Mutex<HashMap<u64, Instant>>,
}

/// A receiver on a thread of its own for as long as the process runs; its port.
pub(crate) fn receiver(manner: Manner, came: Arc<Came>) -> Result<u16, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = listener.map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            while let Ok((stream, _)) = listener.accept().await {
                let came = Arc::clone(&came);
                tokio::spawn(async move {
                    // A connection that breaks is the other side's affair.
                    let _ = serve(stream, manner, &came).await;
                });
            }
        });
    });
    Ok(port.port())
}

/// Receivers in a process of their own, which gets a processor only where no other wants it.
pub(crate) struct Receivers {
    pub(crate) child: Child,
    pub(crate) ports: Vec<u16>,
}

impl Receivers {
    pub(crate) fn start(manners: &[Manner]) -> Result<Self, String> {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let names: Vec<_> = manners.iter().map(|it| format!("{it:?}")).collect();
        let child = Command::new("nice")
            .args(["-n", "19"])
            .arg(this)
            .args(["--serve-receivers", &names.join(",")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("nice: {error}"))?;
        let mut own = Self {
            child,
            ports: Vec::new(),
        };
        let output = own.child.stdout.take().expect("its output is a pipe");
        for line in BufReader::new(output).lines().take(manners.len()) {
            let line = line.map_err(|error| error.to_string())?;
            own.ports.push(line.parse().map_err(|_| "no port")?);
        }
        match own.ports.len() == manners.len() {
            true => Ok(own),
            false => Err("the receivers do not start".to_owned()),
        }
    }
}

impl Drop for Receivers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Receivers of these manners, until standard input ends; their ports on standard output.
///
/// # Errors
/// A manner that there is not, or a port that cannot be listened at.
pub(crate) fn serve_receivers(manners: &str) -> Result<(), String> {
    for name in manners.split(',') {
        let manner = Manner::named(name).ok_or_else(|| format!("{name} is no manner"))?;
        println!("{}", receiver(manner, Arc::default())?);
    }
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        .map(drop)
        .map_err(|error| error.to_string())
}

async fn serve(mut stream: TcpStream, manner: Manner, came: &Came) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(4 << 10);
    loop {
        let (head, length) = loop {
            if let Some(head) = find(&buffer, b"\r\n\r\n") {
                break (head + 4, length_of(&buffer[..head]));
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        while buffer.len() < head + length {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        if let Some(position) = position_of(&buffer[head..head + length]) {
            let mut first = came.first.lock();
            first.entry(position).or_insert_with(Instant::now);
        }
        let number = came.count.fetch_add(1, Ordering::Relaxed);
        buffer.drain(..head + length);
        if !manner.answer(&mut stream, number).await? {
            return Ok(());
        }
    }
}

/// The number behind `name`, at its first place.
fn number_behind(text: &[u8], name: &[u8]) -> Option<u64> {
    let at = find(text, name)? + name.len();
    let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn length_of(head: &[u8]) -> usize {
    let head = head.to_ascii_lowercase();
    number_behind(&head, b"content-length: ").unwrap_or(0) as usize
}

/// The position of an event's commit.
fn position_of(event: &[u8]) -> Option<u64> {
    number_behind(event, b"\"id\":\"")
}
