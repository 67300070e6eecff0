//! Makes a log in an empty directory; after a failure, the directory holds no log.

use std::io;

use crate::error::Error;
use crate::format;
use crate::lock;
use crate::storage::Storage;

/// Makes a log in an empty directory, which no other process may use until the log is complete.
///
/// A file that is made first, durably, marks the directory as incomplete. It is removed when the log is complete, or
/// when no other file is left. A lock file that nobody holds does not count as content.
///
/// # Errors
/// [`Error::Io`] of the kind `AlreadyExists` for a directory that has content, also that of another attempt; else the
/// errors of `make`.
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
    let synced = || {
        let synced = target.sync_dir("");
        synced.map_err(Error::io("sync", target.describe("")))
    };
    // Another attempt may have ended between the check and the claim.
    let claimed = content().and_then(|content| match content {
        Some(name) => Err(not_empty(target, &name)),
        // A power cut must not leave a part of the copy without this file, or an empty directory, in
        // which a server would begin another log.
        None => synced(),
    });
    if let Err(error) = claimed {
        let _ = target.remove(format::COPY_TEMP);
        let _ = target.sync_dir("");
        return Err(error);
    }
    let made = make().and_then(|made| {
        target.remove(format::COPY_TEMP).map_err(io("remove"))?;
        // A power cut must not bring this file back: it says that there is no log.
        synced()?;
        Ok(made)
    });
    if made.is_err() {
        // The remains must not be mistaken for a log, or for a log without its manifest: the file marks them as
        // incomplete, and is made again if it was already removed.
        let _ = target.create_new(format::COPY_TEMP);
        let _ = target.sync_dir("");
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
