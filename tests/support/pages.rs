//! Pages whose blocks of commands are run as a reader would run them. After a block comes, up to
//! the first colon, what it prints: first a status or an exit code, then words.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// A block of commands.
pub struct Block<'a> {
    /// What the page says between the block before, or its beginning, and this one.
    pub before: &'a str,
    /// Its lines.
    pub commands: &'a str,
    /// What the page says that it prints.
    pub told: Vec<&'a str>,
}

/// The blocks of a page, or of a part of one.
pub fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((before, block)) = rest.split_once("```sh\n") {
        let (commands, after) = block.split_once("```\n").unwrap();
        let told = after.trim_start();
        assert!(told.starts_with('`'), "nothing is told of {commands}");
        let (told, _) = told.split_once("`: ").unwrap_or_else(|| panic!("{told}"));
        found.push(Block {
            before,
            commands,
            told: told.split('`').skip(1).step_by(2).collect(),
        });
        rest = after;
    }
    found
}

/// Has the shell, a POSIX one, read the script as its input. Whether it ended well, and all that it printed.
pub fn read_by(shell: &mut Command, script: &str) -> (bool, String) {
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let shell = shell.as_mut().unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let script = script.to_owned();
    let pasting = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let mut printed = String::new();
    let mut out = shell.stdout.take().unwrap();
    std::io::Read::read_to_string(&mut out, &mut printed).unwrap();
    let ended = shell.wait().unwrap();
    // It need not have read all of it.
    let _ = pasting.join().unwrap();
    (ended.success(), printed)
}
