//! The file of the master key that the secrets of webhooks are derived from.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::cli::whole_file;
use crate::http::small_file;
use crate::http::webhooks::secret::{MasterKey, SECRET_BYTES};

/// Name of the file in the data directory.
const NAME: &str = "webhook.key";
/// Maximum bytes that are read, more than a valid file has.
const FILE_BYTES_MAX: usize = 128;

/// Returns the path of the key: the named one, or that in the data directory.
#[must_use]
pub(super) fn place(named: Option<&Path>, data: &Path) -> PathBuf {
    named.map_or_else(|| data.join(NAME), Path::to_owned)
}

/// Returns the key in the file. A missing one is created, unless there are subscriptions, whose secrets another key
/// would change.
///
/// # Errors
/// A sentence that says what is wrong.
pub(super) fn open(file: &Path, subscriptions: usize) -> Result<MasterKey, String> {
    let shown = file.display();
    match read(file) {
        Ok(bytes) => Ok(MasterKey::new(&bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound && subscriptions > 0 => Err(format!(
            "there are {subscriptions} webhook subscriptions and no key: put the file that their \
             secrets were derived from at {shown}, or name it with --webhook-key"
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make(file).map_err(|error| format!("{shown} cannot be made: {error}"))
        }
        Err(error) => Err(unusable(file, &error)),
    }
}

/// Checks an existing file. A missing one may be created at a start.
///
/// # Errors
/// A sentence that says what is wrong.
pub(super) fn check(file: &Path) -> Result<(), String> {
    match read(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(unusable(file, &error)),
        _ => Ok(()),
    }
}

/// Checks the file in the data directory, as [`check`] does. For an unreadable directory, a start has a better message.
///
/// # Errors
/// A sentence that says what is wrong.
pub(super) fn check_in(data: &Path) -> Result<(), String> {
    let file = place(None, data);
    if file.symlink_metadata().is_ok() {
        check(&file)
    } else {
        Ok(())
    }
}

fn unusable(file: &Path, error: &std::io::Error) -> String {
    let shown = file.display();
    format!("the key of webhooks at {shown} cannot be used: {error}")
}

fn unfit(why: &str) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, why)
}

/// Returns why a file with this mode and owner may be read by others than `user`; root is no exception.
fn not_private(mode: u32, owner: u32, user: u32) -> Option<String> {
    if mode & 0o077 != 0 {
        return Some("others than its owner may read it: chmod 600".to_owned());
    }
    (owner != user).then(|| {
        format!(
            "it belongs to user {owner}, and this process runs as user {user}: run it as its owner, \
             or chown it"
        )
    })
}

fn read(file: &Path) -> std::io::Result<[u8; SECRET_BYTES]> {
    let opened = small_file::open(file, OFlags::NOFOLLOW)?;
    let found = opened.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    if let Some(why) = not_private(found.mode(), found.uid(), user) {
        return Err(unfit(&why));
    }
    let text = small_file::read_opened(opened, FILE_BYTES_MAX)?;
    let bytes = BASE64_STANDARD.decode(text.trim_ascii_end());
    let bytes = bytes.ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| unfit("it is not 32 bytes in base64"))
}

/// Creates a key from the kernel's random numbers. The generator of the cryptographic library gathers entropy at its
/// first use, which takes longer than the rest of a start.
fn random() -> std::io::Result<[u8; SECRET_BYTES]> {
    let mut bytes = [0; SECRET_BYTES];
    // A request for so few bytes succeeds as a whole, or fails.
    let count = rustix::io::retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))?;
    if count < bytes.len() {
        return Err(unfit("the kernel has no random numbers"));
    }
    Ok(bytes)
}

fn make(file: &Path) -> std::io::Result<MasterKey> {
    let bytes = random()?;
    let text = format!("{}\n", BASE64_STANDARD.encode(bytes));
    match whole_file::make(file, &text) {
        Ok(()) => Ok(MasterKey::new(&bytes)),
        // Another start has created one meanwhile.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            read(file).map(|bytes| MasterKey::new(&bytes))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use uuid::Uuid;

    use super::*;

    fn secret(key: &MasterKey) -> String {
        key.secret(Uuid::nil(), 1).text()
    }

    #[test]
    fn a_key_is_made_once_for_its_owner_alone_and_read_from_then_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = place(None, folder.path());
        let made = secret(&open(&file, 0).unwrap());
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(secret(&open(&file, 3).unwrap()), made);
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn starts_that_make_the_key_at_once_all_go_on_with_the_one_in_the_file() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let file = place(None, folder.path());
            let secrets: Vec<_> = std::thread::scope(|scope| {
                let starts: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| secret(&open(&file, 0).unwrap())))
                    .collect();
                let ended = starts.into_iter().map(|start| start.join().unwrap());
                ended.collect()
            });
            let kept = secret(&open(&file, 1).unwrap());
            assert_eq!(secrets, vec![kept; 4]);
        }
    }

    #[test]
    fn making_the_key_leaves_files_beside_it_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("webhook.new");
        std::fs::write(&other, "another's").unwrap();
        open(&place(None, folder.path()), 0).unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "another's");
    }

    #[test]
    fn without_its_file_no_key_is_made_for_subscriptions_that_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = place(None, folder.path());
        let error = open(&file, 2).err().unwrap();
        assert!(
            error.contains("2 webhook subscriptions and no key"),
            "{error}"
        );
        assert!(!file.exists());
    }

    #[test]
    fn a_key_of_another_user_is_refused_also_to_root() {
        assert_eq!(not_private(0o100_600, 1_000, 1_000), None);
        for (owner, user) in [(1_000, 0), (0, 1_000), (1_000, 1_001)] {
            let why = not_private(0o100_600, owner, user).unwrap();
            assert!(why.contains(&format!("belongs to user {owner}")), "{why}");
        }
        // To give a file away takes root.
        let folder = tempfile::tempdir().unwrap();
        let file = place(None, folder.path());
        open(&file, 0).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root && std::os::unix::fs::chown(&file, Some(1_000), None).is_ok() {
            let error = open(&file, 1).err().unwrap();
            assert!(error.contains("belongs to user 1000"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_a_link_open_to_others_or_no_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("elsewhere");
        open(&target, 0).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(open(&link, 0).is_err());
        let dangling = folder.path().join("dangling");
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &dangling).unwrap();
        assert!(open(&dangling, 0).is_err());
        assert!(!folder.path().join("nowhere").exists());
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(open(&target, 0).err().unwrap().contains("chmod 600"));
        let short = folder.path().join("short");
        std::fs::write(&short, "AAAA\n").unwrap();
        std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(open(&short, 0).err().unwrap().contains("not 32 bytes"));
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        assert!(open(&pipe, 0).err().unwrap().contains("not a regular file"));
    }
}
