//! The demonstration: sample facts, a signing key of its own, a token for each kind of actor, a `curl` line to paste,
//! and a walk through all operations.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use wal::storage::{FileStorage, Storage as _};

use super::walk;
use crate::base::actor::{Actor, ActorKind};
use crate::base::json::{Json, Reader};
use crate::base::time::Timestamp;
use crate::catalogue::{KeySource, RESOURCES};
use crate::cli::remote::facts::load_lines;
use crate::cli::runtime::on_lane;
use crate::cli::token::signing::{Claims, SigningAlgorithm, SigningKey};
use crate::cli::token::{DEFAULT_AUDIENCE, DEFAULT_ISSUER};
use crate::cli::whole_file;
use crate::domain::example::actor;
use crate::domain::operation::{Operation as _, Parts};
use crate::domain::reference::read_fact::FACTS_WRITE;
use crate::domain::reference::samples;
use crate::domain::sample_actors::sample_actors;
use crate::domain::settlement::request_deposit::RequestDeposit;
use crate::engine::{CommandRequest, CommandResult, Engine};
use crate::http::examples::{DemoSeed, demo_seeds};
use crate::http::small_file;

/// How long a token of the demonstration is valid.
const TTL_SECONDS: u64 = 7 * 24 * 3_600;
/// Name of the file with the signing key, beside the log in the data directory.
const KEY_FILE: &str = "demo-key.pem";
/// When the sample facts end, in milliseconds: at the beginning of 2099-12-31.
const SAMPLES_END: i64 = 4_102_358_400_000;
/// Maximum number of bytes that are read of the key file.
const KEY_FILE_BYTES_MAX: usize = 64 << 10;

/// A demonstration.
pub struct Demo {
    data: PathBuf,
    is_temporary: bool,
    key: SigningKey,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Demo {
    /// Prepares a demonstration in `data`, or in a new directory under the system's temporary one.
    ///
    /// Sample facts, and a key whose tokens are printed, must not get into a log that was made for
    /// something else: such a directory is accepted only with `over_existing`.
    ///
    /// # Errors
    /// When the directory was made without a demonstration, is accessible to other users, or cannot be made or read.
    pub fn prepare(data: Option<&Path>, over_existing: bool) -> Result<Self, BoxError> {
        let is_temporary = data.is_none();
        let data = match data {
            Some(data) => data.to_owned(),
            None => temporary()?,
        };
        let storage = FileStorage::create(&data)
            .map_err(|error| format!("{} cannot be used: {error}", data.display()))?;
        let names = storage.list("")?;
        let has_key = names.iter().any(|name| name == KEY_FILE);
        // The key is made before the log, so a log without a key was not made by a demonstration. A start that was
        // interrupted while it made the key has left only the key's unfinished file.
        let unfinished = whole_file::unfinished(Path::new(KEY_FILE));
        let is_empty = names.iter().all(|name| Path::new(name) == unfinished);
        let is_anothers = !has_key && !is_empty;
        if is_anothers && !over_existing {
            return Err(format!(
                "{} was not made by --demo, which would put sample facts into it and print tokens \
                 for it: name a directory of its own, or give --demo-over-existing",
                data.display()
            )
            .into());
        }
        let key = key_in(&data)?;
        Ok(Self {
            data,
            is_temporary,
            key,
        })
    }

    /// Returns the data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Returns the key set with which the demonstration's tokens are verified.
    #[must_use]
    pub fn jwks(&self) -> String {
        self.key.jwks()
    }

    /// Returns examples to try, with tokens, at this address, and at that of the internal listener.
    ///
    /// # Errors
    /// When a token cannot be signed.
    pub fn introduction(&self, url: &str, internal: Option<&str>) -> Result<String, BoxError> {
        let mut lines = vec![String::new()];
        if self.is_temporary {
            lines.push(format!(
                "# data directory (pass --data to choose one): {}",
                self.data.display()
            ));
        } else {
            lines.push(format!("# data directory: {}", self.data.display()));
        }
        lines.push(
            "# the address, and a token of each kind of actor, valid for seven days:".to_owned(),
        );
        lines.push(format!("export {}='{url}'", walk::ADDRESS));
        for actor in sample_actors() {
            let name = walk::token_variable(actor.kind);
            lines.push(format!("export {name}='{}'", self.token(&actor)?));
        }
        let headquarters = sample_actors()
            .into_iter()
            .find(|actor| actor.kind == ActorKind::HeadquartersAdministrator)
            .ok_or("the sample actors have a headquarters administrator")?;
        let token = self.token(&headquarters)?;
        let number = uuid::Uuid::new_v4().simple().to_string();
        lines.push(String::new());
        lines.push("# try it: ask the branch in Seoul for a settlement deposit".to_owned());
        lines.push(format!(
            "curl -sS '{url}/settlement-deposit-requests' \\\n  \
             -H 'Authorization: Bearer {token}' \\\n  \
             -H 'Content-Type: application/json' \\\n  \
             -d '{}'",
            deposit_request(&number[..12])
        ));
        lines.push(String::new());
        lines.push(walk::printed(internal));
        Ok(lines.join("\n"))
    }

    /// Returns each actor with a token, for the sign-in to the console.
    ///
    /// # Errors
    /// When a token cannot be signed.
    pub fn actors(&self) -> Result<serde_json::Value, BoxError> {
        let actors = sample_actors().into_iter();
        let actors = actors.map(|actor| {
            let token = self.token(&actor)?;
            let subject = &*actor.subject;
            Ok(serde_json::json!({"kind": actor.kind, "subject": subject, "token": token}))
        });
        actors.collect()
    }

    fn token(&self, actor: &Actor) -> Result<String, BoxError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let mut claims = Claims::of(actor, DEFAULT_ISSUER, DEFAULT_AUDIENCE, now, TTL_SECONDS);
        // The token of the demonstration's system workflow may write facts, too.
        let writes = |permission: &String| permission == FACTS_WRITE;
        if actor.kind == ActorKind::SystemWorkflow && !claims.permissions.iter().any(writes) {
            claims.permissions.push(FACTS_WRITE.to_owned());
        }
        Ok(self.key.sign(&claims)?)
    }
}

/// Applies the sample facts, and carries out the demonstration's own commands; existing resources stay unchanged.
///
/// # Errors
/// When the engine does not accept the facts or the commands.
pub fn load_samples(engine: &Arc<Engine>) -> Result<(), BoxError> {
    let loading = load_lines(engine, samples::NDJSON.as_bytes());
    on_lane(engine, loading)??;
    for seed in demo_seeds() {
        if is_there(engine, &seed) {
            continue;
        }
        let carried_out = on_lane(engine, carry_out(engine, &seed))?;
        carried_out.map_err(|error| unless_over(error, engine.now()))?;
    }
    Ok(())
}

/// Returns why a command was not carried out: if the clock has passed the end of the sample facts, that is the
/// reason.
fn unless_over(error: BoxError, now: Timestamp) -> BoxError {
    match now.millis() < SAMPLES_END {
        true => error,
        false => {
            let reason = "the sample facts end with the year 2099, and the clock says";
            format!("{reason} {now}").into()
        }
    }
}

/// Whether an earlier start has carried out the command, whose key may be forgotten by now.
fn is_there(engine: &Engine, seed: &DemoSeed) -> bool {
    let born = seed.born().to_string();
    let mut kinds = RESOURCES.iter().map(|resource| resource.kind());
    kinds.any(|kind| engine.has_resource(kind.key(&[&born])))
}

/// Carries out a command of a fresh demonstration.
async fn carry_out(engine: &Engine, seed: &DemoSeed) -> Result<(), BoxError> {
    let row = seed.row;
    let shown = seed.shown();
    let text = shown.body.to_string();
    let body = Json::parse(text.as_bytes()).map_err(|_| "an example is JSON")?;
    let path: Vec<_> = row
        .parameters()
        .zip(shown.path.iter().map(String::as_str))
        .collect();
    let parts = Parts {
        path: &path,
        body: &body,
    };
    let mut at = Reader::new(engine.now());
    let command = row.operation.read(row.name, &parts, &mut at);
    let call = CommandRequest {
        row: Some(row),
        actor: Arc::new(actor(row.operation.example().actor, &str::to_owned)),
        command: command.ok_or("an example can be read")?,
        header_key: (row.key == KeySource::Header).then(|| DemoSeed::KEY.into()),
    };
    let permit = engine.admit().ok_or("too many commands are in flight")?;
    match engine.execute_with_id(seed.born(), call, permit).await {
        CommandResult::Done { .. } => Ok(()),
        CommandResult::Refused { rejection, .. } => Err(format!(
            "{} was not carried out: {} ({})",
            row.name, rejection.message, rejection.code
        )
        .into()),
        other => Err(format!("{} was not carried out: {other:?}", row.name).into()),
    }
}

/// Returns the body of the example of a request for a deposit, with this number in its code and idempotency key.
fn deposit_request(number: &str) -> String {
    let mut body = RequestDeposit::EXAMPLE.body(&serde_json::Value::Null);
    body["statementCode"] = format!("STATEMENT-{number}").into();
    body["idempotencyKey"] = format!("demo-{number}").into();
    body.to_string()
}

/// Creates a directory under the system's temporary one, with an unpredictable name.
fn temporary() -> io::Result<PathBuf> {
    let data = std::env::temp_dir().join(format!("carebook-demo-{}", uuid::Uuid::new_v4()));
    DirBuilder::new().mode(0o700).create(&data)?;
    Ok(data)
}

/// Returns the directory's signing key, made if there is none. A symbolic link in its place is not followed.
fn key_in(data: &Path) -> Result<SigningKey, BoxError> {
    let file = data.join(KEY_FILE);
    if let Some(key) = key_of(&file)? {
        return Ok(key);
    }
    let key = SigningKey::generate(SigningAlgorithm::Es256)?;
    match whole_file::make(&file, &key.to_pem()?) {
        Ok(()) => Ok(key),
        // Another start has made a key meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            key_of(&file)?.ok_or_else(|| error.into())
        }
        Err(error) => {
            Err(format!("the key file {} cannot be made: {error}", file.display()).into())
        }
    }
}

/// Returns the key in this file, if the file exists.
fn key_of(file: &Path) -> Result<Option<SigningKey>, BoxError> {
    let shown = file.display();
    match small_file::open(file, rustix::fs::OFlags::NOFOLLOW) {
        Ok(found) => {
            let pem = String::from_utf8(small_file::read_opened(found, KEY_FILE_BYTES_MAX)?)?;
            let key = SigningKey::from_pem(&pem);
            Ok(Some(key.map_err(|error| {
                format!("the key file {shown} {error}")
            })?))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("the key file {shown} cannot be read: {error}").into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_called_too_late_only_after_the_end_of_the_sample_facts() {
        let end = "2099-12-31T00:00:00.000Z";
        assert!(samples::NDJSON.contains(&format!("\"expiresAt\":\"{end}\"")));
        let end = Timestamp::parse(end).unwrap();
        let told = |now| unless_over("it was refused".into(), now).to_string();
        let before = Timestamp::from_millis(end.millis() - 1);
        assert_eq!(told(before), "it was refused");
        assert_eq!(
            told(end),
            "the sample facts end with the year 2099, and the clock says 2099-12-31T00:00:00.000Z"
        );
    }
}
