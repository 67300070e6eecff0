//! Checks whether a file that an operator names lies inside a directory.

use std::path::{Path, PathBuf};

use super::exit::Failure;

/// Refuses a flag's path inside a directory, which `what` describes: moving or removing the directory would take the
/// file along.
///
/// # Errors
/// When the path is, or would be, in that directory or below it.
pub(super) fn expect_apart(
    flag: &str,
    path: &Path,
    what: &str,
    directory: &Path,
) -> Result<(), Failure> {
    match is_within(path, directory) {
        true => Err(Failure::other(format!(
            "{flag} {} lies in {what} {}: name another place. Nothing was changed",
            path.display(),
            directory.display()
        ))),
        false => Ok(()),
    }
}

/// Whether the file is, or would be, in the directory or below it. Neither has to exist.
pub(super) fn is_within(file: &Path, directory: &Path) -> bool {
    without_links(file).starts_with(without_links(directory))
}

/// Returns the absolute path, with symbolic links resolved as far as the path exists.
fn without_links(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for known in whole.ancestors() {
        if let (Ok(known), Ok(rest)) = (known.canonicalize(), whole.strip_prefix(known)) {
            return known.join(rest);
        }
    }
    whole
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_as_inside_a_directory_through_links_existing_or_not() {
        let world = tempfile::tempdir().unwrap();
        let at = |name: &str| world.path().join(name);
        std::fs::create_dir_all(at("data/inner")).unwrap();
        std::fs::write(at("data/manifest"), "").unwrap();
        std::os::unix::fs::symlink(at("data"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("data/manifest"), at("status")).unwrap();
        for file in [
            "data/manifest",
            "data/new",
            "data/inner/new",
            "data/no/new",
            "link/new",
            "data/inner/../new",
            "status",
        ] {
            assert!(is_within(&at(file), &at("data")), "{file}");
            assert!(is_within(&at(file), &at("link")), "{file}");
            assert!(!is_within(&at(file), &at("missing")), "{file}");
        }
        assert!(is_within(&at("missing/new"), &at("missing")));
        for file in ["new", "data.json", "data/../new", "missing/new"] {
            assert!(!is_within(&at(file), &at("data")), "{file}");
        }
    }
}
