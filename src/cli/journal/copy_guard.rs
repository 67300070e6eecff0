//! Refuses commands that would write to the copy of a journal alone: the stream would not have what they write, and
//! the next start would report it as lost.

use std::io::ErrorKind;
use std::path::Path;

use super::super::copy_mark::{NAME, WHEN_A_COPY, stream_of};
use super::super::exit::Failure;
use super::super::open::{next_step, unusable};
use super::super::printable::as_argument;

/// Returns the name of the stream that the directory is a copy of, safe to print; `None` if it is no copy.
///
/// # Errors
/// When the mark cannot be read.
pub(in super::super) fn journal_of(data: &Path) -> Result<Option<String>, Failure> {
    stream_of(data).map_err(|error| {
        if error.kind() == ErrorKind::NotADirectory {
            return unusable(data, &error);
        }
        let (file, next) = (data.join(NAME), next_step(&error));
        Failure::other(format!("{} cannot be read: {error}{next}", file.display()))
    })
}

/// Refuses a directory that is the copy of a journal, to a command that would write to it alone.
///
/// # Errors
/// When it is one, or the mark cannot be read.
pub(in super::super) fn expect_no_journal(data: &Path) -> Result<(), Failure> {
    let shown = data.display();
    match journal_of(data)? {
        None => Ok(()),
        Some(stream) => Err(Failure::other(format!(
            "{shown} is the copy of the journal {stream}: writes to it alone would not be in the journal, and the \
             next start on it would be refused. Nothing was changed. `carebook serve` needs --journal, and other \
             commands ask that server with --url; `carebook restore --from {} --data DIR` makes a directory of it \
             that is no copy",
            as_argument(data)
        ))),
    }
}

/// Refuses the same directory to a command that would give up a part of it: the stream has that part, so no server
/// would start on the rest.
///
/// # Errors
/// When it is one, or the mark cannot be read.
pub(in super::super) fn expect_no_copy_to_cut(data: &Path) -> Result<(), Failure> {
    let shown = data.display();
    match journal_of(data)? {
        None => Ok(()),
        Some(stream) => Err(Failure::other(format!(
            "{shown} is the copy of the journal {stream}, which is not cut: {WHEN_A_COPY}. \
             Nothing was changed"
        ))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cli::copy_mark::put;

    #[test]
    fn a_mark_names_the_newest_stream_and_without_one_nothing_is_refused() {
        let data = tempfile::tempdir().unwrap();
        assert!(expect_no_journal(data.path()).is_ok());
        assert!(expect_no_journal(&data.path().join("missing")).is_ok());
        // What an interrupted start left is in the way of none.
        std::fs::write(data.path().join("journal.carebook-new"), "CAREB").unwrap();
        for stream in ["CAREBOOK_one", "CAREBOOK_two", "CAREBOOK_two"] {
            put(data.path(), stream).unwrap();
            let Err(Failure::Other(why)) = expect_no_journal(data.path()) else {
                panic!("it is refused");
            };
            assert!(why.contains(stream) && why.contains("--journal"), "{why}");
            let names: Vec<_> = data.path().read_dir().unwrap().collect();
            assert_eq!(names.len(), 1, "{names:?}");
        }
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_what_cannot_be_used() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, "").unwrap();
        let Err(Failure::Other(why)) = expect_no_journal(&file) else {
            panic!("it is refused");
        };
        let begins = format!("{} cannot be used: ", file.display());
        assert!(why.starts_with(&begins), "{why}");
    }

    #[test]
    fn control_characters_of_a_mark_cannot_steer_a_terminal() {
        let data = tempfile::tempdir().unwrap();
        std::fs::write(data.path().join(NAME), "CAREBOOK_\u{1b}[2Jmain\n").unwrap();
        for refused in [expect_no_journal, expect_no_copy_to_cut] {
            let Err(Failure::Other(why)) = refused(data.path()) else {
                panic!("it is refused");
            };
            assert!(why.contains("CAREBOOK_\\u{1b}[2Jmain"), "{why:?}");
            assert!(!why.contains(char::is_control), "{why:?}");
        }
    }
}
