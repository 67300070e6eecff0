//! A private PostgreSQL: its programs, its cluster, its settings, its sessions.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use tokio_postgres::{Client, Config, NoTls, Statement};

use crate::process::{self, Directory, Server, User};

/// How long the server may take to start.
const STARTING_MAX: Duration = Duration::from_secs(60);

/// Everything that is set otherwise than by default. The promises (fsync, `synchronous_commit`,
/// `full_page_writes`) are named although they are the default: they are the point of it.
const SETTINGS: [(&str, &str); 28] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
    ("wal_sync_method", "fdatasync"),
    // There is no replication and no archiving.
    ("wal_level", "minimal"),
    ("max_wal_senders", "0"),
    ("wal_buffers", "64MB"),
    // Images of pages are what of the log can be made shorter.
    ("wal_compression", "lz4"),
    // No checkpoint in a run, thus few images of pages.
    ("checkpoint_timeout", "1h"),
    ("max_wal_size", "32GB"),
    ("min_wal_size", "4GB"),
    // A leader writes and flushes for all who wait; that it waits for more of them was not seen to pay.
    ("commit_delay", "0"),
    // Everything fits in memory.
    ("shared_buffers", "2GB"),
    ("huge_pages", "try"),
    ("bgwriter_lru_maxpages", "0"),
    ("wal_writer_delay", "10s"),
    // Only prepared statements of a known shape, each by an index.
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("jit", "off"),
    ("max_parallel_workers", "0"),
    // Housekeeping goes on, slowly enough not to be felt.
    ("autovacuum", "on"),
    ("autovacuum_naptime", "1min"),
    ("autovacuum_max_workers", "1"),
    // What is never read.
    ("track_activities", "off"),
    ("update_process_title", "off"),
    ("log_checkpoints", "off"),
    // Only its own socket, in a directory of its own.
    ("listen_addresses", ""),
    ("unix_socket_permissions", "0700"),
];

/// The settings that a comparison depends on, as `SHOW` returns them.
const PROMISES: [&str; 13] = [
    "server_version",
    "synchronous_commit",
    "fsync",
    "full_page_writes",
    "wal_sync_method",
    "wal_level",
    "wal_compression",
    "commit_delay",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "autovacuum",
    "default_transaction_isolation",
];

/// A running server with a cluster of its own, which goes with it. The order is that in which they
/// are dropped: the server first.
pub(crate) struct Cluster {
    server: Server,
    socket: Directory,
    _data: Directory,
}

/// A connection with the prepared statements of the commands.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) open_statement: Statement,
    pub(crate) advance_resource: Statement,
}

/// Where the server's programs are: here, or where Debian puts them.
pub(crate) fn programs(here: Option<&Path>) -> anyhow::Result<PathBuf> {
    let mut places: Vec<PathBuf> = Vec::new();
    if let Some(here) = here {
        places.push(here.to_owned());
    } else {
        if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
            places.push(String::from_utf8_lossy(&output.stdout).trim().into());
        }
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let mut versions: Vec<PathBuf> = versions.flatten().map(|entry| entry.path()).collect();
        versions.sort_by_key(|path| {
            let version = path.file_name().and_then(|name| name.to_str());
            version.and_then(|version| version.parse::<u32>().ok())
        });
        places.extend(versions.iter().rev().map(|path| path.join("bin")));
    }
    // pg_config may belong to the client library, without a server beside it.
    places
        .into_iter()
        .find(|place| place.join("initdb").exists() && place.join("postgres").exists())
        .context("PostgreSQL is not installed: apt-get install postgresql")
}

impl Session {
    /// Has the session tell what it counted, which it otherwise does once a second at most.
    pub(crate) async fn tell_statistics(&self) -> anyhow::Result<()> {
        let tell = "SELECT pg_stat_force_next_flush()";
        self.client.simple_query(tell).await?;
        Ok(())
    }
}

impl Cluster {
    /// Initializes a cluster in this directory and starts its server, for so many sessions and with
    /// these settings on top.
    pub(crate) async fn start(
        data: &Path,
        programs: &Path,
        sessions: usize,
        settings: &[(String, String)],
    ) -> anyhow::Result<Self> {
        let user = if process::is_root() {
            Some(User::named("postgres")?)
        } else {
            None
        };
        let data = Directory::make(data, user)?;
        let socket = Directory::temporary("postgres", user)?;
        let cluster = data.path().join("cluster");
        let mut initdb = process::command(&programs.join("initdb"), user, "KILL");
        let output = initdb
            .arg("--pgdata")
            .arg(&cluster)
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8"])
            // Text is compared byte for byte; fewer and larger files of the log.
            .args(["--no-locale", "--wal-segsize=64"])
            .current_dir("/")
            .output()
            .context("setpriv (util-linux)")?;
        if !output.status.success() {
            bail!(
                "initdb: {}{}The directories above {} have to be open to the user postgres.",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
                data.path().display(),
            );
        }
        let mut postgres = process::command(&programs.join("postgres"), user, "QUIT");
        postgres.arg("-D").arg(&cluster).current_dir("/");
        let mut set = |name: &str, value: OsString| {
            let mut setting = OsString::from(format!("{name}="));
            setting.push(value);
            postgres.arg("-c").arg(setting);
        };
        for (name, value) in SETTINGS {
            set(name, value.into());
        }
        set("unix_socket_directories", socket.path().into());
        set("max_connections", (sessions + 8).to_string().into());
        for (name, value) in settings {
            set(name, value.into());
        }
        // Nothing of it is needed afterwards: it ends at once, without a checkpoint.
        let log = data.path().join("log");
        let server = Server::start(postgres, "postgres", log, Signal::QUIT)?;
        let mut cluster = Self {
            server,
            socket,
            _data: data,
        };
        let started = Instant::now();
        while let Err(error) = cluster.connect().await {
            cluster.check()?;
            ensure!(started.elapsed() < STARTING_MAX, "postgres: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(cluster)
    }

    /// An error when the server has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        self.server.check()
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Client> {
        let (client, connection) = Config::new()
            .host_path(self.socket.path())
            .user("postgres")
            .dbname("postgres")
            .connect(NoTls)
            .await?;
        // When it ends, each command on it fails, and says so.
        tokio::task::spawn_local(connection);
        Ok(client)
    }

    pub(crate) async fn session(&self) -> anyhow::Result<Session> {
        let client = self.connect().await?;
        let open_statement = client
            .prepare("SELECT open_statement($1, $2, $3, $4, $5, $6, $7, $8)")
            .await?;
        let advance_resource = client
            .prepare("SELECT advance_resource($1, $2, $3, $4, $5, $6, $7, $8, $9)")
            .await?;
        Ok(Session {
            client,
            open_statement,
            advance_resource,
        })
    }

    /// Makes the tables and so many resources; writes so many megabytes to the log, whose files are
    /// then written over, as they are by a server that has been up for a while.
    pub(crate) async fn prepare(&self, resources: u32, log_megabytes: u32) -> anyhow::Result<()> {
        let client = self.connect().await?;
        client.batch_execute(include_str!("schema.sql")).await?;
        let load = format!(
            "INSERT INTO resource SELECT 'resource-' || n, 1, repeat('x', 450)
             FROM generate_series(0, {resources} - 1) AS n"
        );
        client.batch_execute(&load).await?;
        client.batch_execute("VACUUM ANALYZE resource").await?;
        let fill = format!(
            "SELECT count(pg_logical_emit_message(false, 'peers', repeat('x', 1000000)))
             FROM generate_series(1, {log_megabytes}) AS n"
        );
        client.batch_execute(&fill).await?;
        client.batch_execute("CHECKPOINT").await?;
        Ok(())
    }
}

/// What the server says about its settings; an error when a promise is not kept.
pub(crate) async fn settings(client: &Client) -> anyhow::Result<Value> {
    let mut settings = Map::new();
    for name in PROMISES {
        let row = client.query_one(&format!("SHOW {name}"), &[]).await?;
        settings.insert(name.to_owned(), row.try_get::<_, String>(0)?.into());
    }
    for name in ["synchronous_commit", "fsync", "full_page_writes"] {
        ensure!(settings[name] == "on", "{name} is not on");
    }
    Ok(settings.into())
}

/// What is there, and what has been written to the log so far.
pub(crate) async fn totals(client: &Client) -> anyhow::Result<Value> {
    let counts = client
        .query_one(
            "SELECT (SELECT count(*) FROM idempotency), (SELECT count(*) FROM audit),
                (SELECT count(*) FROM outbox), (SELECT count(*) FROM statement),
                (SELECT coalesce(sum(revision), 0)::bigint FROM resource)",
            &[],
        )
        .await?;
    let log = client
        .query_one(
            "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, wal_sync FROM pg_stat_wal",
            &[],
        )
        .await?;
    Ok(json!({
        "idempotency": counts.try_get::<_, i64>(0)?,
        "audit": counts.try_get::<_, i64>(1)?,
        "outbox": counts.try_get::<_, i64>(2)?,
        "statement": counts.try_get::<_, i64>(3)?,
        "revisions": counts.try_get::<_, i64>(4)?,
        "logBytes": log.try_get::<_, i64>(0)?,
        "logFlushes": log.try_get::<_, i64>(1)?,
    }))
}
