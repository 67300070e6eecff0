//! Standard error.

use std::fmt;
use std::io::{self, Write as _};

/// Prints a line on standard error. If that is closed or full the line is lost, which is no reason
/// to end.
pub fn tell(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
