//! A private Redis, driven by this process: one script for each command.

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use uuid::Uuid;

use crate::answer::{fingerprint, now};
use crate::load;
use crate::process::{self, Directory, Server, User, processor_micros, temporary_path};
use crate::service::setting;
use crate::workload::{self, Drive};

const SCRIPT: &str = include_str!("command.lua");

/// How long the server may take to start.
const STARTING_MAX: Duration = Duration::from_secs(30);

/// Everything that is set otherwise than by default.
const SETTINGS: [(&str, &str); 9] = [
    // The promise: an answer is sent when the command is on the disk.
    ("appendonly", "yes"),
    ("appendfsync", "always"),
    ("save", ""),
    // The file is not written anew in a run.
    ("auto-aof-rewrite-percentage", "0"),
    ("daemonize", "no"),
    ("latency-tracking", "no"),
    ("slowlog-log-slower-than", "-1"),
    ("unixsocketperm", "700"),
    ("bind", "127.0.0.1"),
];

/// The settings that a comparison depends on.
const PROMISES: [&str; 5] = [
    "appendonly",
    "appendfsync",
    "save",
    "auto-aof-rewrite-percentage",
    "io-threads",
];

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    Unix,
    Tcp,
}

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    drive: Drive,
    /// A directory, missing or empty, for the append-only file, removed at the end; by default a
    /// temporary one.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How the commands come to the server.
    #[arg(long, default_value = "unix")]
    transport: Transport,
    /// Threads of the server that read and write for its one thread of commands.
    #[arg(long, value_name = "N", default_value_t = 1)]
    io_threads: u32,
    /// Another setting of Redis; may be given more than once.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

/// A running server with a directory of its own, which goes with it. The order is that in which
/// they are dropped: the server first.
struct Redis {
    server: Server,
    socket: PathBuf,
    port: Option<u16>,
    _short: Directory,
    _data: Directory,
}

impl Redis {
    async fn start(arguments: &Arguments) -> anyhow::Result<Self> {
        let user = if process::is_root() {
            User::named("redis").ok()
        } else {
            None
        };
        let data = arguments.data.clone();
        let data = data.unwrap_or_else(|| temporary_path("data"));
        let data = Directory::make(&data, user)?;
        let short = Directory::temporary("redis", user)?;
        let socket = short.path().join("socket");
        let port = match arguments.transport {
            Transport::Unix => None,
            // Free a moment ago; if it is not any more, the server says so.
            Transport::Tcp => Some(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port()),
        };
        let mut redis = process::command("redis-server".as_ref(), user, "KILL");
        redis.current_dir("/");
        let mut set = |name: &str, value: &str| {
            redis.arg(format!("--{name}")).arg(value);
        };
        for (name, value) in SETTINGS {
            set(name, value);
        }
        set("dir", &data.path().display().to_string());
        set("unixsocket", &socket.display().to_string());
        set("port", &port.unwrap_or_default().to_string());
        set(
            "maxclients",
            &(arguments.drive.connections + 32).to_string(),
        );
        set("io-threads", &arguments.io_threads.to_string());
        if arguments.io_threads > 1 {
            set("io-threads-do-reads", "yes");
        }
        for (name, value) in &arguments.settings {
            set(name, value);
        }
        // Nothing of it is needed afterwards.
        let log = data.path().join("log");
        let server = Server::start(redis, "redis-server", log, Signal::KILL)?;
        let mut redis = Self {
            server,
            socket,
            port,
            _short: short,
            _data: data,
        };
        let started = Instant::now();
        while let Err(error) = redis.admin(&["PING"]).await {
            redis
                .server
                .check()
                .context("Debian: apt-get install redis-server")?;
            ensure!(started.elapsed() < STARTING_MAX, "redis-server: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(redis)
    }

    /// Carries out one command of Redis over a connection of its own.
    async fn admin(&self, command: &[&str]) -> anyhow::Result<Reply> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        let command: Vec<_> = command.iter().map(|part| part.as_bytes()).collect();
        stream.write_all(&encode(&command)).await?;
        let mut answer = Vec::new();
        loop {
            ensure!(
                stream.read_buf(&mut answer).await? > 0,
                "the server hung up"
            );
            if let Some((reply, _)) = Reply::of(&answer)? {
                return reply.checked();
            }
        }
    }

    /// What the server says about its settings; an error when a promise is not kept.
    async fn settings(&self) -> anyhow::Result<Value> {
        let mut settings = Map::new();
        for name in PROMISES {
            let Reply::List(pair) = self.admin(&["CONFIG", "GET", name]).await? else {
                bail!("CONFIG GET {name} is not answered by a list");
            };
            let value = pair.into_iter().nth(1).map(Reply::text);
            settings.insert(name.to_owned(), value.into());
        }
        for (name, value) in [("appendonly", "yes"), ("appendfsync", "always")] {
            ensure!(settings[name] == value, "{name} is not {value}");
        }
        let version = self.info("server", "redis_version").await?;
        settings.insert("redis_version".to_owned(), version.into());
        Ok(settings.into())
    }

    async fn info(&self, section: &str, name: &str) -> anyhow::Result<String> {
        let info = self.admin(&["INFO", section]).await?.text();
        let value = info
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(value
            .with_context(|| format!("INFO without {name}"))?
            .to_owned())
    }

    async fn file_bytes(&self) -> anyhow::Result<u64> {
        Ok(self
            .info("persistence", "aof_current_size")
            .await?
            .parse()?)
    }

    /// Processor time of the server, and of it together with this process.
    fn processor(&self) -> anyhow::Result<(u64, u64)> {
        let server = processor_micros(self.server.id())?;
        Ok((server, processor_micros(std::process::id())?))
    }
}

/// An answer of Redis.
#[derive(Debug, PartialEq)]
enum Reply {
    Text(String),
    Error(String),
    Number(i64),
    Nothing,
    List(Vec<Reply>),
}

impl Reply {
    /// The reply at the start of these bytes, once it is whole, and what comes after it.
    fn of(bytes: &[u8]) -> anyhow::Result<Option<(Self, &[u8])>> {
        let Some(end) = bytes.windows(2).position(|part| part == b"\r\n") else {
            return Ok(None);
        };
        let line = std::str::from_utf8(&bytes[..end])?;
        let mut rest = &bytes[end + 2..];
        let (kind, line) = line.split_at_checked(1).context("an empty reply")?;
        let reply = match kind {
            "+" => Self::Text(line.to_owned()),
            "-" => Self::Error(line.to_owned()),
            ":" => Self::Number(line.parse()?),
            "$" | "*" if line == "-1" => Self::Nothing,
            "$" => {
                let length: usize = line.parse()?;
                let Some(content) = rest.get(..length) else {
                    return Ok(None);
                };
                let Some(after) = rest.get(length + 2..) else {
                    return Ok(None);
                };
                rest = after;
                Self::Text(String::from_utf8_lossy(content).into_owned())
            }
            "*" => {
                let mut list = Vec::new();
                for _ in 0..line.parse::<usize>()? {
                    let Some((reply, after)) = Self::of(rest)? else {
                        return Ok(None);
                    };
                    list.push(reply);
                    rest = after;
                }
                Self::List(list)
            }
            _ => bail!("a reply of an unknown kind: {kind}{line}"),
        };
        Ok(Some((reply, rest)))
    }

    fn checked(self) -> anyhow::Result<Self> {
        if let Self::Error(error) = self {
            bail!("{error}");
        }
        Ok(self)
    }

    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => format!("{other:?}"),
        }
    }
}

/// A command as Redis reads it.
fn encode(parts: &[&[u8]]) -> Vec<u8> {
    let mut encoded = format!("*{}\r\n", parts.len()).into_bytes();
    for part in parts {
        encoded.extend(format!("${}\r\n", part.len()).bytes());
        encoded.extend_from_slice(part);
        encoded.extend_from_slice(b"\r\n");
    }
    encoded
}

/// Drives it and prints what that measured.
pub(crate) async fn drive(arguments: &Arguments) -> anyhow::Result<()> {
    let connections = arguments.drive.connections.max(1);
    let redis = Redis::start(arguments).await?;
    match redis.port {
        None => {
            let mut streams = Vec::new();
            for _ in 0..connections {
                streams.push(UnixStream::connect(&redis.socket).await?);
            }
            drive_over(arguments, &redis, streams).await
        }
        Some(port) => {
            let mut streams = Vec::new();
            for _ in 0..connections {
                let stream = TcpStream::connect(("127.0.0.1", port)).await?;
                stream.set_nodelay(true)?;
                streams.push(stream);
            }
            drive_over(arguments, &redis, streams).await
        }
    }
}

async fn drive_over<S>(arguments: &Arguments, redis: &Redis, streams: Vec<S>) -> anyhow::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let drive = &arguments.drive;
    let settings = redis.settings().await?;
    let script = redis.admin(&["SCRIPT", "LOAD", SCRIPT]).await?.text();
    let preloaded = drive.form().preloaded();
    let load = "for n = 0, ARGV[1] - 1 do \
                redis.call('HSET', 'resource-' .. n, 'revision', 1, 'state', ARGV[2]) end";
    let state = "x".repeat(450);
    redis
        .admin(&["EVAL", load, "0", &preloaded.to_string(), &state])
        .await?;

    let drawn = drive.draw();
    let mut requests = Vec::with_capacity(drawn.len());
    for (number, resource) in drawn.iter().enumerate() {
        requests.push(command(&script, number, *resource));
    }
    let measured = requests.split_off(drive.warm_up);
    let (warm, streams) = load::run(streams, 0, requests, load::resp).await?;
    let bytes = redis.file_bytes().await?;
    let (server, both) = redis.processor()?;
    let (mut figures, _) = load::run(streams, drive.warm_up, measured, load::resp).await?;
    let (server_after, both_after) = redis.processor()?;
    let bytes_after = redis.file_bytes().await?;

    let mut answers = warm.answers;
    answers.append(&mut figures.answers);
    workload::check_commands(&drawn, preloaded, &answers)?;
    let count = Reply::Number(i64::try_from(drawn.len())?);
    for list in ["audit", "outbox"] {
        ensure!(redis.admin(&["LLEN", list]).await? == count, "{list}");
    }
    let server = server_after.saturating_sub(server);
    let driver = both_after.saturating_sub(both).saturating_sub(server);
    let more = json!({
        "peer": "redis",
        "form": drive.form().to_string(),
        "connections": drive.connections,
        "transport": format!("{:?}", arguments.transport).to_lowercase(),
        "log_bytes": bytes_after.saturating_sub(bytes),
        "settings": settings,
    });
    figures.print(drive.json, server, driver, &more);
    Ok(())
}

/// The call of the script that carries out one command.
fn command(script: &str, number: usize, resource: u32) -> Vec<u8> {
    let (key, resource) = (workload::key(number), workload::resource(resource));
    let body = workload::command_body(number);
    encode(&[
        b"EVALSHA",
        script.as_bytes(),
        b"4",
        key.as_bytes(),
        resource.as_bytes(),
        b"audit",
        b"outbox",
        &fingerprint(&resource, &body),
        resource.as_bytes(),
        key.as_bytes(),
        b"",
        body.as_bytes(),
        Uuid::now_v7().to_string().as_bytes(),
        now().as_bytes(),
    ])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_whole_with_its_last_byte() {
        let bytes = b"*4\r\n+OK\r\n:7\r\n$2\r\nab\r\n$-1\r\nrest";
        let whole = bytes.len() - 4;
        for end in 0..whole {
            assert_eq!(Reply::of(&bytes[..end]).unwrap(), None);
        }
        let expected = Reply::List(vec![
            Reply::Text("OK".to_owned()),
            Reply::Number(7),
            Reply::Text("ab".to_owned()),
            Reply::Nothing,
        ]);
        assert_eq!(Reply::of(bytes).unwrap(), Some((expected, &b"rest"[..])));
        let (error, _) = Reply::of(b"-KEY\r\n").unwrap().unwrap();
        assert!(error.checked().is_err());
    }

    #[test]
    fn a_command_is_encoded_with_the_lengths_of_its_parts() {
        let encoded = encode(&[b"GET", b"", b"k\r\n"]);
        assert_eq!(encoded, b"*3\r\n$3\r\nGET\r\n$0\r\n\r\n$3\r\nk\r\n\r\n");
    }
}
