//! Instructions, counted by valgrind: this program is started under it once for each piece, and
//! only what the piece does in its own thread is counted.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cases::Case;

/// Times that are counted: their mean evens out what depends on chance, such as tables that grow.
const TIMES: usize = 200;

/// Does the work so many times; valgrind counts from its begin to its end, by its name.
#[inline(never)]
pub(crate) fn counted(times: usize, work: &mut dyn FnMut()) {
    for _ in 0..black_box(times) {
        work();
    }
}

/// The instructions of each piece, for one time.
///
/// # Errors
/// When there is no valgrind, or it does not work here.
pub(crate) fn all(cases: &[Case]) -> Result<BTreeMap<String, u64>, String> {
    let version = Command::new("valgrind").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err("there is no valgrind (Debian: apt-get install valgrind)".to_owned());
    }
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut counts = BTreeMap::new();
    for case in cases {
        let out = directory.path().join("callgrind.out");
        counts.insert(case.name.to_owned(), count(case, &out)?);
    }
    Ok(counts)
}

fn count(case: &Case, out: &Path) -> Result<u64, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        // The mangled name contains the function's name.
        .arg("--toggle-collect=*count*counted*")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(this)
        .arg(case.name)
        .args(["--only", &TIMES.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} failed under valgrind:\n{said}", case.name));
    }
    let text = std::fs::read_to_string(out).map_err(|error| error.to_string())?;
    let total = text.lines().rev().find_map(|line| {
        line.strip_prefix("totals: ")
            .or(line.strip_prefix("summary: "))
    });
    let total: u64 = total
        .and_then(|total| total.trim().parse().ok())
        .ok_or("valgrind has told no count")?;
    if total == 0 {
        return Err(format!("nothing was counted of {}", case.name));
    }
    Ok(total / TIMES as u64)
}
