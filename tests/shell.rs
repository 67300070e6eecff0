//! What shells and readers of manuals know of the program.

use std::process::{Command, Stdio};

use crate::support::{World, or_skip, program, run};

/// A script of this shell that completes the program's arguments.
fn script(shell: &str) -> String {
    let (code, script, err) = run(&["completions", shell]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{shell}");
    script
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let Some(bash) = or_skip(program("bash"), "bash") else {
        return;
    };
    let world = World::new();
    let file = world.path("carebook.bash");
    std::fs::write(&file, script("bash")).unwrap();
    let read = Command::new(&bash).arg("-n").arg(&file).output().unwrap();
    assert!(read.status.success() && read.stderr.is_empty(), "{read:?}");
    for (line, completed) in [
        ("carebook ver", "verify"),
        ("carebook inspect re", "records resource"),
        ("carebook serve --snapshot-i", "--snapshot-interval"),
        ("carebook facts load --url-", ""),
        ("carebook serve --che", "--check"),
        ("carebook token --actor-kind mot", "mother"),
        ("carebook completions z", "zsh"),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let asked = format!(
            "source {}\nCOMP_WORDS=({line}) COMP_CWORD={}\n_carebook carebook '{}' '{}'\n\
             echo \"${{COMPREPLY[*]}}\"",
            file.display(),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let answered = Command::new(&bash).args(["--norc", "-c", &asked]).output();
        let answered = answered.unwrap();
        let out = String::from_utf8(answered.stdout).unwrap();
        assert_eq!(out.trim(), completed, "{line}");
    }
}

#[test]
fn there_is_a_script_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = script(shell);
        assert!(script.contains("snapshot-interval"), "{shell}");
    }
    assert_eq!(run(&["completions", "sushi"]).0, Some(2));
}

#[test]
fn each_command_has_a_manual_page_that_is_set_without_a_warning() {
    let world = World::new();
    let to = world.path("man");
    let (code, out, err) = run(&["man", to.to_str().unwrap()]);
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "", ""));
    let mut pages: Vec<_> = crate::support::files(&to);
    pages.sort();
    let names: Vec<_> = pages
        .iter()
        .map(|page| page.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut expected = vec!["carebook.1".to_owned()];
    for command in crate::cli::COMMANDS
        .iter()
        .filter(|command| !command.is_empty())
    {
        expected.push(format!("carebook-{}.1", command.join("-")));
    }
    expected.sort();
    assert_eq!(names, expected);
    let serve = std::fs::read_to_string(to.join("carebook-serve.1")).unwrap();
    for part in ["SNAPSHOT_INTERVAL", ".SH EXAMPLES", ".SH \"EXIT CODES\""] {
        assert!(serve.contains(part), "{part}");
    }
    let Some(man) = or_skip(program("man"), "man") else {
        return;
    };
    for page in pages {
        let set = Command::new(&man)
            .args(["--warnings", "-E", "UTF-8", "-l"])
            .arg(&page)
            .env("MANWIDTH", "80")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let err = String::from_utf8(set.stderr).unwrap();
        assert!(set.status.success() && err.is_empty(), "{page:?}: {err}");
        let out = String::from_utf8(set.stdout).unwrap();
        assert!(out.contains("EXAMPLES"), "{page:?}: {out}");
    }
}
