//! Prints messages on standard error.

use std::fmt;
use std::io::{self, Write as _};

/// Prints a line on standard error. If that is closed or full, the line is lost, but the program goes on.
pub fn tell(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
