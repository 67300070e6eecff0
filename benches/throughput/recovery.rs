//! How long a start takes on a directory with so much in it, and how much memory.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::arguments::Common;
use crate::driver::{self, Run, Source};
use crate::samples::median;
use crate::server::Server;
use crate::snapshot;
use crate::template::{Template, headquarters};

/// # Errors
/// When the directory cannot be prepared or opened.
pub(crate) fn measure(
    common: &Common,
    (covered, records): (usize, usize),
    data: Option<&Path>,
    keep: Option<&Path>,
) -> Result<Value, String> {
    let (data, prepared) = match data {
        Some(data) => (data.to_owned(), None),
        None => {
            eprintln!("preparing a snapshot of {covered} resources and {records} records after it");
            let (data, temporary) = prepare(common, covered, records, keep)?;
            (data, temporary)
        }
    };
    let bytes = size(&data);
    let (mut seconds, mut peaks, mut residents, mut positions) = (vec![], vec![], vec![], 0.0);
    let (mut resources, mut keys) = (0.0, 0.0);
    for round in 0..common.runs {
        eprintln!("round {} of {}: recovery", round + 1, common.runs);
        // What is measured again must be there again.
        let mut start = common.start().without_snapshots();
        start.data = Some(data.clone());
        let server = start.service()?;
        seconds.push(server.ready_after.as_secs_f64());
        peaks.push(server.process().peak() as f64);
        residents.push(server.process().resident() as f64);
        let metrics = server.metrics()?;
        positions = metrics.need("carebook_durable_position")?;
        resources = metrics.need("carebook_resources")?;
        keys = metrics.need("carebook_idempotency_keys")?;
        server.end()?;
    }
    drop(prepared);
    let took = median(&seconds);
    Ok(json!({
        "positions": positions,
        "resources": resources,
        "keys": keys,
        "bytesOnDisk": bytes,
        "secondsUntilReady": took,
        "secondsUntilReadyOfEach": seconds,
        "positionsPerSecond": positions / took,
        "bytesPerSecond": bytes as f64 / took,
        "peakResidentBytes": median(&peaks),
        "residentBytesWhenReady": median(&residents),
        "cache": "the files are most likely in the system's cache, as after a restart of the process",
    }))
}

/// A data directory with so many statements in a snapshot and so many after it, and what removes
/// it again.
fn prepare(
    common: &Common,
    covered: usize,
    records: usize,
    keep: Option<&Path>,
) -> Result<(PathBuf, Option<tempfile::TempDir>), String> {
    let mut start = common.start().without_snapshots();
    start.data = keep.map(Path::to_owned);
    let server = start.service()?;
    load(common, &server, 0..covered)?;
    if covered > 0 {
        snapshot::take(&server)?;
    }
    load(common, &server, covered..covered + records)?;
    let directory = server.end()?.ok_or("the server had no directory")?;
    match keep {
        Some(keep) => Ok((keep.to_owned(), None)),
        None => Ok((directory.path().join("data"), Some(directory))),
    }
}

/// Opens statements with these numbers.
fn load(common: &Common, server: &Server, numbers: Range<usize>) -> Result<(), String> {
    let template = Template::request_deposit(&headquarters(server));
    let source: Source = Box::new(numbers.map(move |number| template.fill(number, 0)));
    let run = Run::closed(common.connections, source);
    driver::run(server, run)?;
    Ok(())
}

/// The bytes of all files in a directory.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => size(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}
