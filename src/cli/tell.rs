//! What is said on standard error.

use std::fmt;
use std::io::{self, Write as _};

/// Says something on standard error. Where that is closed or full nobody can be told, which is no
/// reason to end.
pub fn tell(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
