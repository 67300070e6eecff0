//! What a resource and a key cost in memory, beside the size in which they are encoded.
//!
//! Keys alone: EP13 finalizes one booking's charge again and again, each time under a new key; one
//! resource stays one. Resources: EP9 opens statements, a key with each; what a key costs is taken
//! off. The encoded size is read from the log that the server has left: it is replayed here, as a
//! start of the service does it, and the sizes of the states are summed up.

use std::path::Path;
use std::time::Duration;

use carebook::cli::open::{Replaying, existing};
use serde_json::{Value, json};

use crate::arguments::Common;
use crate::commands::{FIRST, facts};
use crate::driver::{self, Run, Source};
use crate::server::Server;
use crate::template::{Template, headquarters};

/// Commands before the memory is looked at for the first time: until the cache of recent answers,
/// which holds 32 MiB, is full of the shortest ones, and the log's buffers are; they are bounded,
/// and no cost of each.
const WARM: usize = 150_000;
/// Until memory that was given back is.
const SETTLE: Duration = Duration::from_secs(2);

/// What so many commands have cost.
struct Cost {
    resident_before: u64,
    resident_after: u64,
    resources: f64,
    keys: f64,
    seconds: f64,
}

impl Cost {
    fn resident(&self) -> f64 {
        self.resident_after as f64 - self.resident_before as f64
    }
}

/// # Errors
/// A wrong answer, or a log that cannot be read.
pub(crate) fn measure(common: &Common, count: usize) -> Result<Value, String> {
    eprintln!("{count} keys");
    let server = common.start().without_snapshots().service()?;
    server.load(&facts("finalize_charge", &[FIRST]))?;
    let template = Template::finalize_charge();
    let keys = cost(&server, common, count, move |number| {
        template.fill(number, 0)
    })?;
    drop(server);
    eprintln!("{count} statements");
    let server = common.start().without_snapshots().service()?;
    let template = Template::request_deposit(&headquarters(&server));
    let statements = cost(&server, common, count, move |number| {
        template.fill(number, 0)
    })?;
    let directory = server.end()?.ok_or("the server had no directory")?;
    eprintln!("reading the log");
    let encoded = encoded(&directory.path().join("data"))?;
    let per_key = keys.resident() / keys.keys;
    let per_statement = statements.resident() / statements.resources - per_key;
    let per_state = encoded.states as f64 / encoded.resources as f64;
    Ok(json!({
        "statements": count,
        "residentBytesPerKey": per_key,
        "encodedBytesPerKey": KEY_BYTES,
        "residentOfEncodedKey": per_key / KEY_BYTES as f64,
        "residentBytesPerStatementWithoutItsKey": per_statement,
        "encodedBytesPerStatement": per_state,
        "residentOfEncodedStatement": per_statement / per_state,
        "residentBytesPerStatementAndKey": statements.resident() / statements.resources,
        "logBytesPerRecord": encoded.log as f64 / encoded.records as f64,
        "residentBytesAtTheEnd": statements.resident_after,
        "statementsPerSecondMeanwhile": statements.resources / statements.seconds,
    }))
}

/// A key as it is held: the digest that it is found by, and the position of its outcome.
const KEY_BYTES: usize = size_of::<carebook::base::digest::Digest>() + 6;

fn cost(
    server: &Server,
    common: &Common,
    count: usize,
    request: impl Fn(usize) -> crate::check::Request + Clone + Send + 'static,
) -> Result<Cost, String> {
    let carry_out = |numbers: std::ops::Range<usize>| {
        let request = request.clone();
        let source: Source = Box::new(numbers.map(request));
        let run = Run::closed(common.connections, source);
        driver::run(server, run).map(|(figures, _)| figures.elapsed.as_secs_f64())
    };
    let look = || {
        std::thread::sleep(SETTLE);
        let metrics = server.metrics()?;
        let resources = metrics.need("carebook_resources")?;
        let keys = metrics.need("carebook_idempotency_keys")?;
        Ok::<_, String>((server.process().resident(), resources, keys))
    };
    carry_out(0..WARM)?;
    let before = look()?;
    let seconds = carry_out(WARM..WARM + count)?;
    let after = look()?;
    Ok(Cost {
        resident_before: before.0,
        resident_after: after.0,
        resources: after.1 - before.1,
        keys: after.2 - before.2,
        seconds,
    })
}

struct Encoded {
    resources: u64,
    states: u64,
    records: u64,
    log: u64,
}

/// What is in a log, in bytes.
fn encoded(data: &Path) -> Result<Encoded, String> {
    let storage = existing(data).map_err(|error| error.to_string())?;
    let mut replaying = Replaying::new("reading");
    let report = wal::verify(storage, &mut replaying).map_err(|error| error.to_string())?;
    let (mut resources, mut states) = (0, 0);
    replaying.finish().tables.each(|_, _, _, state| {
        resources += 1;
        states += state.len() as u64;
    });
    Ok(Encoded {
        resources,
        states,
        records: report.records,
        log: report.bytes,
    })
}
