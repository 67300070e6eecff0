//! Drives the service in front of PostgreSQL, a process of its own, over HTTP.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::load;
use crate::process::{processor_micros, temporary_path};
use crate::service::{Tuning, member};
use crate::workload::{self, Drive};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    drive: Drive,
    /// Opens statements, as carebook's EP9 does, instead of advancing resources.
    #[arg(long, conflicts_with_all = ["hot", "fresh", "resources"])]
    deposits: bool,
    /// A directory, missing or empty, for the cluster; by default a temporary one.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    tuning: Tuning,
}

/// The service; it ends when dropped.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    fn start(arguments: &Arguments) -> anyhow::Result<Self> {
        let data = arguments.data.clone();
        let preloaded = if arguments.deposits {
            0
        } else {
            arguments.drive.form().preloaded()
        };
        let mut child = Command::new(std::env::current_exe()?)
            .arg("postgres")
            .arg("--data")
            .arg(data.unwrap_or_else(|| temporary_path("data")))
            .arg(format!("--resources={preloaded}"))
            .args(arguments.tuning.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("its output is piped")?;
        let mut service = Self {
            child,
            address: String::new(),
        };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on http://");
        address
            .context("the service did not start")?
            .clone_into(&mut service.address);
        Ok(service)
    }

    /// The answer to a question about the database.
    async fn ask(&self, path: &str) -> anyhow::Result<Value> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: peer\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let body = load::http(&answer)?.context("an incomplete answer")?;
        Ok(serde_json::from_slice(&answer[body])?)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The end of its standard input asks it to end, and to clean up.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn request(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: peer\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Drives it and prints what that measured.
pub(crate) async fn drive(arguments: &Arguments) -> anyhow::Result<()> {
    let drive = &arguments.drive;
    let drawn = drive.draw();
    let mut requests = Vec::with_capacity(drawn.len());
    for (number, resource) in drawn.iter().enumerate() {
        requests.push(if arguments.deposits {
            request(
                "/settlement-deposit-requests",
                &workload::deposit_body(number),
            )
        } else {
            let path = format!("/commands/{}", workload::resource(*resource));
            request(&path, &workload::command_body(number))
        });
    }
    let service = Service::start(arguments)?;
    let settings = service.ask("/settings").await?;
    let mut streams = Vec::new();
    for _ in 0..drive.connections.max(1) {
        let stream = TcpStream::connect(&service.address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let measured = requests.split_off(drive.warm_up);
    let (warm, streams) = load::run(streams, 0, requests, load::http).await?;
    let totals = service.ask("/totals").await?;
    let (server, both) = processor(&service)?;
    let (mut figures, _) = load::run(streams, drive.warm_up, measured, load::http).await?;
    let (server_after, both_after) = processor(&service)?;
    let totals_after = service.ask("/totals").await?;

    let mut answers = warm.answers;
    answers.append(&mut figures.answers);
    let count = drawn.len();
    let preloaded = drive.form().preloaded();
    if arguments.deposits {
        workload::check_deposits(count, &answers)?;
        ensure!(member(&totals_after, "statement")? == u64::try_from(count)?);
    } else {
        workload::check_commands(&drawn, preloaded, &answers)?;
        let revisions = u64::try_from(count)? + u64::from(preloaded);
        ensure!(member(&totals_after, "revisions")? == revisions);
    }
    for table in ["idempotency", "audit", "outbox"] {
        ensure!(
            member(&totals_after, table)? == u64::try_from(count)?,
            "{table}"
        );
    }
    let since =
        |name| anyhow::Ok(member(&totals_after, name)?.saturating_sub(member(&totals, name)?));
    let form = if arguments.deposits {
        "deposits, a statement for each command".to_owned()
    } else {
        drive.form().to_string()
    };
    let server = server_after.saturating_sub(server);
    let driver = both_after.saturating_sub(both).saturating_sub(server);
    let more = json!({
        "peer": "postgres",
        "form": form,
        "connections": drive.connections,
        "pool": arguments.tuning.pool,
        "depth": arguments.tuning.depth,
        "routing": arguments.tuning.routing.to_string(),
        "log_bytes": since("logBytes")?,
        "log_flushes": since("logFlushes")?,
        "settings": settings,
    });
    figures.print(drive.json, server, driver, &more);
    Ok(())
}

/// Processor time of the service with its database, and of both together with this process.
fn processor(service: &Service) -> anyhow::Result<(u64, u64)> {
    let server = processor_micros(service.child.id())?;
    Ok((server, processor_micros(std::process::id())?))
}
