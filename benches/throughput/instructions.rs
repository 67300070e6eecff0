//! How many instructions the server takes for a command of each operation: counted by valgrind in user
//! mode, over HTTP, from when what the commands rest on is there.
//!
//! A count does not depend on how fast or how busy the machine is, and tells of two programs what
//! rates here cannot. SHA-256 is counted apart, since valgrind has no instructions for it.

use serde_json::{Map, Value, json};

use crate::arguments::Common;
use crate::callgrind::{self, Counted};
use crate::requests;
use crate::run::closed_between;
use crate::server::scratch;
use crate::stage::Stage;

/// # Errors
/// When there is no valgrind, or the server does not do what it is asked.
pub(crate) fn measure(common: &Common) -> Result<Value, String> {
    let directory = scratch(common.directory.as_deref())?;
    let out = directory.path().join("callgrind.out");
    let (mut each, mut of_hashing) = (Map::new(), Map::new());
    for workload in common.workloads() {
        eprintln!("{}", workload.name());
        let start = common.start().without_snapshots().counted(&out);
        let server = requests::start(workload, &start)?;
        let process = server.process().id();
        let mut stage = Stage::new(server, common.resources[0]);
        let switch = |is_on| callgrind::switch(process, is_on);
        let (_, commands) = closed_between(&mut stage, workload, common, common.seed, switch)?;
        stage.into_server().end()?;
        let Counted { others, hashing } = callgrind::counted(&out)?;
        let commands = commands as u64;
        each.insert(workload.name(), json!(others / commands));
        of_hashing.insert(workload.name(), json!(hashing / commands));
    }
    Ok(json!({"each": each, "ofSha256": of_hashing}))
}
