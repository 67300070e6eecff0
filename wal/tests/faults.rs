//! The seeded faults that the campaigns are tested with (tests/faults/run) still
//! fit the sources, and the campaigns that must catch them are there.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap().to_owned()
}

/// All sources of tests, and of unit tests.
fn sources(directory: &Path, into: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_seeded_fault_applies_and_names_a_campaign_that_there_is() {
    let root = root();
    let mut patches: Vec<_> = std::fs::read_dir(root.join("tests/faults"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "patch")
        })
        .collect();
    patches.sort();
    assert!(patches.len() >= 20, "{} faults", patches.len());
    let mut tests = String::new();
    for directory in ["wal", "tests", "src"] {
        sources(&root.join(directory), &mut tests);
    }
    for (number, path) in (1..).zip(&patches) {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            name.starts_with(&format!("{number:02}-")),
            "{name}: numbers have no gaps"
        );
        let text = std::fs::read_to_string(path).unwrap();
        let caught = text
            .lines()
            .find_map(|line| line.strip_prefix("Caught by: cargo test -p "));
        let (_, filters) = caught.and_then(|caught| caught.split_once(" -- ")).unwrap();
        for filter in filters.split_whitespace() {
            let (module, test) = filter.rsplit_once("::").unwrap();
            let module = module
                .trim_end_matches("::tests")
                .rsplit("::")
                .next()
                .unwrap();
            let there = tests.contains(&format!("mod {module};"))
                && (test.is_empty() || tests.contains(&format!("fn {test}")));
            assert!(there, "{name}: there is no test {filter}");
        }
        let applies = Command::new("patch")
            .args(["--dry-run", "--strip=1", "--batch", "--forward", "--input"])
            .arg(path)
            .current_dir(&root)
            .output();
        let applies = match applies {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                println!("SKIPPED: whether the faults apply, without the program `patch`");
                return;
            }
            applies => applies.unwrap(),
        };
        assert!(
            applies.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&applies.stdout)
        );
    }
}
