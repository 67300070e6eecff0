//! Writes records that a recovery gives up to a file, for people who do them anew.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use wal::Salvage;

use super::exit::Failure;
use super::inspect::ids::Ids;
use super::inspect::mask::Mask;
use super::inspect::records::{changes_of, record_json};
use crate::base::digest::hex;
use crate::journal::record::Record;

/// Writes each readable record after a position to a new file that only its owner can read; how
/// many there were.
pub(super) fn export(
    salvage: &Salvage,
    position: u64,
    file: &Path,
    mask: Mask,
) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| {
        Failure::other(format!("{} cannot be written: {error}", file.display()))
    };
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    let mut out = BufWriter::new(made.map_err(failed)?);
    let (mut ids, mut exported, mut broken) = (Ids::default(), 0, None);
    let walked = salvage.records_after(position, &mut |found| {
        let line = exported_json(&mut ids, mask, found.position, found.payload);
        if let Err(error) = writeln!(out, "{line}") {
            let sentence = error.to_string();
            broken = Some(error);
            return Err(sentence.into());
        }
        exported += 1;
        Ok(())
    });
    if let Some(error) = broken {
        return Err(failed(error));
    }
    walked.map_err(|error| Failure::of_log(&error))?;
    out.flush()
        .and_then(|()| out.get_ref().sync_all())
        .map_err(failed)?;
    Ok(exported)
}

/// A record as `inspect records --json` shows it; one that is not understood as its bytes.
fn exported_json(ids: &mut Ids, mask: Mask, position: u64, payload: &[u8]) -> Value {
    let shown = Record::decode(payload)
        .map_err(wal::BoxError::from)
        .and_then(|record| {
            let changes = changes_of(ids, &record)?;
            Ok(record_json(mask, position, &record, changes))
        });
    shown.unwrap_or_else(|error| {
        json!({
            "position": position,
            "error": error.to_string(),
            "record": mask.reveal.then(|| hex(payload)),
        })
    })
}
