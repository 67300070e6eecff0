//! Makes a log in a directory that is empty, or leaves none there.

use std::io;

use crate::error::Error;
use crate::format;
use crate::lock;
use crate::storage::Storage;

/// Makes a log in an empty directory, which is this process's alone until it is whole.
///
/// From the beginning on, a file in the directory tells an interrupted attempt from an empty
/// directory; it is removed when the log is whole, or when nothing else is left. A lock file that
/// nobody holds is no content.
///
/// # Errors
/// [`Error::Io`] of the kind `AlreadyExists` for a directory that holds anything, also another
/// attempt; else what comes of `make`.
pub(crate) fn in_empty<T>(
    target: &dyn Storage,
    make: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let io = |what| Error::io(what, target.describe(format::COPY_TEMP));
    let content = || -> Result<Option<String>, Error> {
        let names = target
            .list("")
            .map_err(Error::io("list", target.describe("")))?;
        let mut names = names.into_iter();
        Ok(names.find(|name| name != format::LOCK && name != format::COPY_TEMP))
    };
    let _lock = lock::share(target)?;
    if let Some(name) = content()? {
        return Err(not_empty(target, &name));
    }
    match target.create_new(format::COPY_TEMP) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(not_empty(target, format::COPY_TEMP));
        }
        Err(error) => return Err(io("create")(error)),
    }
    // A power cut must not leave the names of other files without it, nor an empty directory in which a log is begun.
    if let Err(error) = target.sync_dir("") {
        let _ = target.remove(format::COPY_TEMP);
        return Err(Error::io("sync", target.describe(""))(error));
    }
    // Another attempt may have ended between the look and the claim.
    if let Some(name) = content()? {
        let _ = target.remove(format::COPY_TEMP);
        return Err(not_empty(target, &name));
    }
    let made = make().and_then(|made| {
        target.remove(format::COPY_TEMP).map_err(io("remove"))?;
        // A power cut must not bring this file back: it says that there is no log.
        let synced = target.sync_dir("");
        synced.map_err(Error::io("sync", target.describe("")))?;
        Ok(made)
    });
    if made.is_err() {
        // The remains must not be taken for a log, nor for a damaged one: the file that says so may have been removed
        // already.
        let _ = target.create_new(format::COPY_TEMP);
        let _ = target.remove(format::MANIFEST);
        let _ = target.sync_dir("");
        if content().is_ok_and(|content| content.is_none()) {
            let _ = target.remove(format::COPY_TEMP);
        }
    }
    made
}

fn not_empty(target: &dyn Storage, name: &str) -> Error {
    let which = match name {
        format::COPY_TEMP => " of a backup or a restore that goes on, or was interrupted",
        _ => "",
    };
    Error::Io {
        what: "use",
        file: target.describe(""),
        source: io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!(
                "the directory is not empty, it holds {}{which}; name one that is empty or not \
                 there yet",
                // The file may have any name, and it is printed.
                name.escape_debug()
            ),
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::storage::sim::{Fault, SimDisk, Survivors};

    /// Makes something whose files are durable, like a log.
    fn made_on(disk: &SimDisk) -> Result<(), Error> {
        let target = disk.storage();
        in_empty(target.as_ref(), || {
            for name in ["a segment", format::MANIFEST] {
                let file = target.create(name).and_then(|file| file.sync());
                file.map_err(Error::io("make", name.to_owned()))?;
            }
            let synced = target.sync_dir("");
            synced.map_err(Error::io("sync", target.describe("")))
        })
    }

    fn has(disk: &SimDisk, name: &str) -> bool {
        disk.names().iter().any(|found| found == name)
    }

    #[test]
    fn whatever_a_power_cut_leaves_of_what_is_made_tells_that_it_is_unfinished() {
        let whole = SimDisk::new();
        made_on(&whole).unwrap();
        for call in 0..whole.calls() {
            let disk = SimDisk::new();
            disk.cut_before(call);
            let _ = made_on(&disk);
            for survivors in (0..20)
                .map(Survivors::Random)
                .chain([Survivors::Nothing, Survivors::Everything])
            {
                let after = disk.after_power_cut(survivors);
                let is_begun = has(&after, "a segment") || has(&after, format::MANIFEST);
                let is_whole = has(&after, "a segment") && has(&after, format::MANIFEST);
                let is_told = has(&after, format::COPY_TEMP);
                assert!(!is_begun || is_told || is_whole, "{call}, {survivors:?}");
            }
        }
        // Once anything else is made, an empty directory is no longer left.
        let disk = SimDisk::new();
        let target = disk.storage();
        in_empty(target.as_ref(), || {
            let after = disk.after_power_cut(Survivors::Nothing);
            assert!(has(&after, format::COPY_TEMP));
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn whatever_fails_what_is_left_tells_that_it_is_unfinished() {
        let whole = SimDisk::new();
        made_on(&whole).unwrap();
        let mut failures = 0;
        for call in 0..whole.all_calls() {
            let disk = SimDisk::new();
            disk.fail_call(call, Fault::Io);
            if made_on(&disk).is_ok() {
                continue;
            }
            failures += 1;
            let is_begun = has(&disk, "a segment");
            assert!(!has(&disk, format::MANIFEST), "call {call}");
            assert!(!is_begun || has(&disk, format::COPY_TEMP), "call {call}");
        }
        assert!(failures > 5, "{failures}");
    }
}
