//! What is measured beside the service in the same rounds: PostgreSQL and Redis doing as much.
//! They are a package of their own (`benches/peers`), which is built when it is asked for.

use std::path::PathBuf;
use std::process::Command;

use crate::arguments::Common;
use crate::run::Loaded;

/// A peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    Postgres,
    Redis,
}

impl Peer {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Postgres => "postgres, as EP9".to_owned(),
            Self::Redis => "redis, as EP9".to_owned(),
        }
    }

    pub(crate) fn measure(self, _common: &Common) -> Result<Vec<Loaded>, String> {
        Err("not there yet".to_owned())
    }
}

/// Builds the peers and says where the program is.
///
/// # Errors
/// When it cannot be built.
pub(crate) fn build() -> Result<PathBuf, String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers/Cargo.toml");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--manifest-path", manifest])
        .status();
    match built {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("the peers could not be built: {status}")),
        Err(error) => return Err(format!("the peers could not be built: {error}")),
    }
    let program = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/benches/peers/target/release/carebook-peers"
    );
    Ok(PathBuf::from(program))
}
