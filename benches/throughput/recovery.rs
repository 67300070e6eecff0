//! How long a start takes on a directory with so much in it, and how much memory.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::arguments::Common;
use crate::driver::{self, Run, Source};
use crate::samples::{Load, median};
use crate::template::{Template, headquarters};

/// # Errors
/// When the directory cannot be prepared or opened.
pub(crate) fn measure(
    common: &Common,
    records: usize,
    data: Option<&Path>,
    keep: Option<&Path>,
) -> Result<Value, String> {
    let (data, prepared) = match data {
        Some(data) => (data.to_owned(), None),
        None => {
            eprintln!("preparing {records} records");
            let (data, temporary) = prepare(common, records, keep)?;
            (data, temporary)
        }
    };
    let bytes = size(&data);
    let (mut seconds, mut peaks, mut residents, mut positions) = (vec![], vec![], vec![], 0.0);
    let (mut resources, mut keys) = (0.0, 0.0);
    for round in 0..common.runs {
        eprintln!("round {} of {}: recovery", round + 1, common.runs);
        let mut start = common.start();
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

/// A data directory with so many statements in it, and what removes it again.
fn prepare(
    common: &Common,
    records: usize,
    keep: Option<&Path>,
) -> Result<(PathBuf, Option<tempfile::TempDir>), String> {
    let mut start = common.start();
    start.data = keep.map(Path::to_owned);
    let server = start.service()?;
    let template = Template::request_deposit(&headquarters(&server));
    let source: Source = Box::new((0..records).map(move |number| template.fill(number, 0)));
    let run = Run {
        load: Load::Closed(common.connections),
        sources: vec![source],
        connections: (0, 0),
        backlog: driver::BACKLOG_MAX,
        at_most: None,
        seed: 0,
        keep_bodies: false,
    };
    driver::run(&server, run)?;
    let directory = server.end()?.ok_or("the server had no directory")?;
    match keep {
        Some(keep) => Ok((keep.to_owned(), None)),
        None => Ok((directory.path().join("data"), Some(directory))),
    }
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
