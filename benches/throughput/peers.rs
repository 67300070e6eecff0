//! What is measured beside the service in the same rounds: PostgreSQL and Redis doing as much.
//!
//! They are a package of their own (`benches/peers`), which is built when it is asked for, and
//! whose README says what each of them does. PostgreSQL is behind a small HTTP service, which is
//! driven as ours is. Redis is driven by its own program over its own protocol, which is more than
//! it would get behind HTTP.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::arguments::Common;
use crate::check::Request;
use crate::commands;
use crate::kinds::Form;
use crate::samples::{Figures, Load, Told};
use crate::server::{Server, Start, scratch};
use crate::shapes;
use crate::template::Template;

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/peers/target/release/carebook-peers"
);

/// Builds the peers.
///
/// # Errors
/// When they cannot be built.
pub(crate) fn build() -> Result<(), String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/Cargo.toml");
    let mut cargo = Command::new(option_env!("CARGO").unwrap_or("cargo"));
    let built = cargo
        .args(["build", "--release", "--manifest-path", manifest])
        // Where the program is must not depend on what this process was started with.
        .env_remove("CARGO_TARGET_DIR")
        .status();
    match built {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the peers could not be built: {status}")),
        Err(error) => Err(format!("the peers could not be built: {error}")),
    }
}

/// Starts PostgreSQL on a directory of its own, and the service before it.
///
/// # Errors
/// When it does not start.
pub(crate) fn start_postgres(start: &Start, form: Form) -> Result<Server, String> {
    let directory = open_to_all(start.within.as_deref())?;
    let mut command = Command::new(PROGRAM);
    command
        .arg("postgres")
        .arg("--data")
        .arg(directory.path().join("data"))
        .args(["--resources", &form.resources().to_string()]);
    Start::other(command, directory)
}

/// A fresh directory that others may enter: databases do not run as root, and become another user.
fn open_to_all(within: Option<&Path>) -> Result<TempDir, String> {
    let directory = scratch(within)?;
    let enter = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(directory.path(), enter).map_err(|error| error.to_string())?;
    Ok(directory)
}

/// A command of this form.
pub(crate) fn request(form: Form, number: usize, draw: impl FnOnce() -> usize) -> Request {
    let resource = match form {
        Form::Fresh => None,
        Form::Hot(resources) => Some(resources / 2),
        Form::Spread(_) => Some(draw()),
    };
    let body = Template::deposit_body(number).to_string();
    let (path, echo, expected) = match resource {
        None => (
            "/settlement-deposit-requests".to_owned(),
            commands::echo("request_deposit", number),
            &*shapes::OPENED_BY_PEER,
        ),
        Some(resource) => (
            format!("/commands/resource-{resource}"),
            format!("resource-{resource}"),
            &shapes::ADVANCED,
        ),
    };
    let length = body.len();
    let bytes = format!(
        "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    Request::new(bytes.into_bytes(), &echo, expected)
}

/// Redis driven by its own program.
///
/// # Errors
/// When it does not run, or found a wrong answer.
pub(crate) fn drive_redis(form: Form, common: &Common) -> Result<Figures, String> {
    let directory = open_to_all(common.directory.as_deref())?;
    let mut command = Command::new(PROGRAM);
    command
        .arg("redis")
        .arg("--data")
        .arg(directory.path().join("data"))
        .args(["--connections", &common.connections.to_string()])
        .args(["--commands", &common.commands.to_string()])
        .args(["--seed", &common.seed.to_string()])
        .arg("--json");
    match form {
        Form::Fresh => command.arg("--fresh"),
        Form::Hot(_) => command.arg("--hot"),
        Form::Spread(resources) => command.args(["--resources", &resources.to_string()]),
    };
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    let told: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
    let number = |name: &str| told[name].as_f64().ok_or(format!("{line} has no {name}"));
    let told_of = Told {
        answers: number("commands")? as usize,
        p50: number("p50_us")? as u32,
        p99: number("p99_us")? as u32,
    };
    let elapsed = Duration::from_secs_f64(number("seconds")?);
    let mut figures = Figures::told(Load::Closed(common.connections), elapsed, told_of);
    figures.connections = common.connections;
    let micros = |name: &str| (number(name).unwrap_or(0.0) * 1e6) as u64;
    figures.server.user = micros("server_cpu_seconds");
    figures.driver.user = micros("driver_cpu_seconds");
    Ok(figures)
}
