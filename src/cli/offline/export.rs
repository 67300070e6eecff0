//! Writes the records that a recovery gives up to a file, so that people can repeat the commands.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wal::Salvage;

use super::inspect::ids::Ids;
use super::inspect::mask::Mask;
use super::inspect::records::{changes_of, record_json};
use crate::base::hex::hex;
use crate::cli::exit::Failure;
use crate::cli::open::progress_bar;
use crate::journal::record::Record;

/// Writes each readable record after a position to a new file that only its owner can read; returns their number. The
/// file gets its name once it is complete: an interruption leaves `FILE.part`.
pub(super) fn export(
    salvage: &Salvage,
    position: u64,
    file: &Path,
    mask: Mask,
) -> Result<u64, Failure> {
    let failed =
        |error: io::Error| Failure::other(format!("{} cannot be written: {error}", file.display()));
    if file.symlink_metadata().is_ok() {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    let part = part_of(file);
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part);
    let mut out = BufWriter::new(made.map_err(failed)?);
    let (mut ids, mut exported, mut broken) = (Ids::default(), 0, None);
    let mut write = |found: wal::Record<'_>| {
        let line = exported_json(&mut ids, mask, found.position, found.payload);
        if let Err(error) = writeln!(out, "{line}") {
            let sentence = error.to_string();
            broken = Some(error);
            return Err(sentence.into());
        }
        exported += 1;
        Ok(())
    };
    let bar = progress_bar(0, "exporting");
    let walked = salvage.records_after_shown(position, &mut write, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    if let Some(error) = broken {
        return Err(failed(error));
    }
    walked.map_err(|error| Failure::of_log(&error))?;
    out.flush()
        .and_then(|()| out.get_ref().sync_all())
        .and_then(|()| std::fs::rename(&part, file))
        .and_then(|()| sync_name(file))
        .map_err(failed)?;
    Ok(exported)
}

/// Returns the name of the file until it is complete.
fn part_of(file: &Path) -> PathBuf {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// Makes the name of a file durable, by a sync of its directory.
fn sync_name(file: &Path) -> io::Result<()> {
    let directory = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns a record as `inspect records --json` shows it, or its bytes if it cannot be decoded.
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
