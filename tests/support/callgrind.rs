//! What callgrind writes: the instructions of each function, and which of them are hashing.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// What runs `program` under valgrind, which counts nothing before it is told to ([`switch`]), and leaves
/// what it has counted in `out` ([`counted`]).
pub(crate) fn under(valgrind: &Path, out: &Path, program: &OsStr) -> Command {
    let mut command = Command::new(valgrind);
    command
        .args(["--quiet", "--tool=callgrind", "--instr-atstart=no"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program);
    command
}

/// Has the process count from here on, or no more.
pub(crate) fn switch(process: u32, is_on: bool) -> Result<(), String> {
    let state = if is_on { "on" } else { "off" };
    let output = Command::new("callgrind_control")
        .args(["-i", state, &process.to_string()])
        .output()
        .map_err(|error| format!("callgrind_control: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("callgrind_control: {output:?}")),
    }
}

/// Instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    /// All but those of SHA-256.
    pub(crate) others: u64,
    /// Those of SHA-256: valgrind has no instructions for it, so it counts for far more than it takes.
    pub(crate) hashing: u64,
}

/// What a process has counted, by the file that it has left.
pub(crate) fn counted(out: &Path) -> Result<Counted, String> {
    let text = std::fs::read(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let counts = by_function(&String::from_utf8_lossy(&text));
    let all: u64 = counts.values().sum();
    let is_hashing = |name: &str| name.contains("sha256_block");
    let hashing = counts.iter().filter(|(name, _)| is_hashing(name));
    let hashing: u64 = hashing.map(|(_, count)| count).sum();
    Ok(Counted {
        others: all - hashing,
        hashing,
    })
}

/// The instructions of each function by itself.
fn by_function(text: &str) -> HashMap<String, u64> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut counts: HashMap<String, u64> = HashMap::new();
    let (mut function, mut is_of_call) = ("", false);
    for line in text.lines() {
        // A name is given once, with its number: `fn=(12) name`, and `fn=(12)` from then on.
        if let Some(named) = line.strip_prefix("fn=").or(line.strip_prefix("cfn=")) {
            let Some((number, name)) = named.split_once(')') else {
                continue;
            };
            if !name.is_empty() {
                names.insert(number, name.trim());
            }
            if line.starts_with("fn=") {
                function = names.get(number).copied().unwrap_or_default();
            }
        } else if line.starts_with("calls=") {
            is_of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            // The line after `calls=` has what was called, which has its own lines, too.
            if !std::mem::take(&mut is_of_call) {
                let count = line.split(' ').nth(1).and_then(|count| count.parse().ok());
                *counts.entry(function.to_owned()).or_default() += count.unwrap_or(0_u64);
            }
        }
    }
    counts
}
