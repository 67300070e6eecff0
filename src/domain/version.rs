//! Versions of stored forms.

use super::resource::Resource;

/// Returns the version of the form in which `R` is stored: that of state and event, and of all that
/// they contain.
#[must_use]
pub const fn version<R: Resource>() -> u16 {
    assert!(R::OLDER.len() < u16::MAX as usize, "that are too many");
    let mut version = 1;
    let mut older = R::OLDER;
    while let Some((_, rest)) = older.split_first() {
        version += 1;
        older = rest;
    }
    version
}
