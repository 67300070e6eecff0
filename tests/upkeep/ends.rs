//! The reader of what a tool prints may be gone, and the disk that it writes to may be full: it
//! ends with the code that says so, with a sentence that says what to do, and leaves nothing that
//! the next run trips over.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Server, World, carebook, files, run, serve_arguments};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A file that takes nothing.
fn full() -> Stdio {
    OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// A pipe whose reader is gone.
fn gone() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Facts in a file, and a directory that holds them.
fn lived(world: &World) -> PathBuf {
    let lines: String = (0..200)
        .map(|number| {
            format!(
                "{{\"kind\":\"actor\",\"id\":\"user-{number}\",\"revision\":1,\
                 \"facts\":{{\"lifecycle\":\"active\"}}}}\n"
            )
        })
        .collect();
    let facts = world.path("facts");
    std::fs::write(&facts, lines).unwrap();
    load(&facts, &world.data());
    facts
}

fn load(facts: &Path, data: &Path) {
    let (code, _, err) = run(&["facts", "load", text(facts), "--data", text(data)]);
    assert_eq!(code, Some(0), "{err}");
}

/// Runs the program with its standard output somewhere else; the code, and standard error.
fn printing_to(out: Stdio, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = carebook();
    let output = command.args(arguments).stdout(out).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!err.contains("panicked"), "{arguments:?}: {err}");
    (output.status.code(), err)
}

#[test]
fn commands_without_a_writable_output_do_not_panic_and_do_their_work() {
    let world = World::new();
    let facts = lived(&world);
    let (data, facts) = (world.data(), text(&facts));
    let (copy, restored) = (world.path("copy"), world.path("restored"));
    let (data, copy, restored) = (text(&data), text(&copy), text(&restored));
    let commands: [&[&str]; 13] = [
        &["facts", "template"],
        &["facts", "load", facts, "--data", data],
        &["verify", "--data", data],
        &["verify", "--data", data, "--json"],
        &["inspect", "records", "--data", data],
        &["inspect", "counts", "--data", data],
        &["backup", "--data", data, "--to", copy],
        &["restore", "--from", data, "--data", restored],
        &["recover", "--data", data],
        &["recover", "--data", data, "--json"],
        &["recover", "--data", data, "--give-up-after", "200"],
        &["compact", "--keep", "0s", "--data", data],
        &["compact", "--keep", "0s", "--data", data, "--json"],
    ];
    for command in commands {
        let made = [copy, restored];
        let begin_again = || made.map(|made| drop(std::fs::remove_dir_all(made)));
        begin_again();
        let (code, err) = printing_to(full(), command);
        assert_eq!(code, Some(1), "{command:?}: {err}");
        assert!(
            err.contains("the output cannot be written"),
            "{command:?}: {err}"
        );
        if ["backup", "restore"].contains(&command[0]) {
            assert!(err.contains("verified; but"), "{command:?}: {err}");
            let made = command[command.len() - 1];
            assert_eq!(run(&["verify", "--data", made]).0, Some(0), "{command:?}");
        }
        begin_again();
        let (code, err) = printing_to(gone(), command);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{command:?}");
    }
    // Standard error, too.
    for err in [full(), gone()] {
        let mut command = carebook();
        command.args(["verify", "--data", text(&world.path("nowhere"))]);
        assert_eq!(command.stderr(err).status().unwrap().code(), Some(1));
    }
}

#[test]
fn a_help_that_cannot_be_written_is_exit_code_1() {
    let commands: [&[&str]; 4] = [
        &["--help"],
        &["--version"],
        &["serve", "--help"],
        &["help", "journal"],
    ];
    for command in commands {
        let (code, err) = printing_to(full(), command);
        assert_eq!(code, Some(1), "{command:?}: {err}");
        assert!(
            err.contains("the output cannot be written"),
            "{command:?}: {err}"
        );
        let (code, err) = printing_to(gone(), command);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{command:?}");
    }
}

#[test]
fn a_key_that_was_made_is_told_of_where_the_output_is_full() {
    let world = World::new();
    for (number, more) in [&[][..], &["--json"]].into_iter().enumerate() {
        let keys = world.path(&format!("full-{number}"));
        let keygen = [&["token", "keygen", "--out", text(&keys)], more].concat();
        let (code, err) = printing_to(full(), &keygen);
        assert_eq!(code, Some(1), "{err}");
        let done = format!("wrote {}", text(&keys.join("key.pem")));
        let but = "; but the output cannot be written";
        assert!(err.contains(&done) && err.contains(but), "{err}");
        assert!(keys.join("jwks.json").exists());
        let keys = world.path(&format!("gone-{number}"));
        let keygen = [&["token", "keygen", "--out", text(&keys)], more].concat();
        let (code, err) = printing_to(gone(), &keygen);
        assert_eq!((code, err.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_path_that_is_no_text_is_told_in_json_with_what_can_be_read_of_it() {
    let world = World::new();
    lived(&world);
    let at = |name: &[u8]| world.path(".").join(OsStr::from_bytes(name));
    let (data, facts) = (at(b"data\xff"), world.path("facts"));
    std::fs::rename(world.data(), &data).unwrap();
    let (copy, restored) = (at(b"copy\xff"), at(b"restored\xff"));
    let (archive, keys) = (at(b"archive\xff"), at(b"keys\xff"));
    let commands: [(&str, &[&Path]); 11] = [
        ("facts load _ --data _", &[&facts, &data]),
        ("verify --data _ --json", &[&data]),
        ("inspect records --data _ --json", &[&data]),
        ("inspect counts --data _ --json", &[&data]),
        ("outbox list --data _ --json", &[&data]),
        ("backup --data _ --to _ --json", &[&data, &copy]),
        ("restore --from _ --data _ --json", &[&copy, &restored]),
        ("recover --data _ --json", &[&data]),
        (
            "compact --keep 0s --data _ --archive _ --json",
            &[&data, &archive],
        ),
        ("token keygen --out _ --json", &[&keys]),
        (
            "inspect counts --data _ --archive _ --json",
            &[&data, &archive],
        ),
    ];
    for (command, paths) in commands {
        let mut paths = paths.iter();
        let words = command.split(' ').map(|word| match word {
            "_" => paths.next().unwrap().as_os_str(),
            word => OsStr::new(word),
        });
        let output = carebook().args(words).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{command}: {err}");
        let out = String::from_utf8(output.stdout).unwrap();
        for (word, name, told) in [
            ("backup", "directory", "copy\u{fffd}"),
            ("restore", "directory", "restored\u{fffd}"),
            ("compact", "archive", "archive\u{fffd}"),
            ("token", "key", "keys\u{fffd}/key.pem"),
            ("token", "keySet", "keys\u{fffd}/jwks.json"),
        ] {
            if command.starts_with(word) {
                let made: Value = serde_json::from_str(&out).unwrap();
                let path = made[name].as_str().unwrap();
                assert!(path.ends_with(told), "{command}: {path}");
            }
        }
    }
}

#[test]
fn damage_is_exit_code_3_also_when_nobody_reads_what_can_be_had() {
    let world = World::new();
    lived(&world);
    std::fs::remove_file(world.data().join("manifest")).unwrap();
    for more in [&[][..], &["--json"]] {
        let data = world.data();
        let command = [&["recover", "--data", text(&data)], more].concat();
        for out in [full(), gone()] {
            let (code, err) = printing_to(out, &command);
            assert_eq!(code, Some(3), "{err}");
            assert!(err.contains("the manifest is missing"), "{err}");
        }
    }
}

#[test]
fn a_server_serves_where_nobody_reads_its_log() {
    let world = World::new();
    for err in [full(), gone()] {
        let mut command = carebook();
        serve_arguments(&mut command, &world).stderr(err);
        let server = Server::spawn_telling(command);
        assert_eq!(server.client().get("/healthz", "").status, 200);
        server.signal("HUP");
        server.signal("USR1");
        assert_eq!(server.stop(), Some(0));
    }
}

/// A small disk, which is gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None, and a word about it, where nothing may be mounted.
    fn mount(world: &World, bytes: u64) -> Option<Self> {
        let place = world.path("disk");
        std::fs::create_dir(&place).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=0700")]);
        let mounted = command.arg("carebook-test").arg(&place).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(place)),
            other => {
                println!("SKIPPED: nothing may be mounted here: {other:?}");
                None
            }
        }
    }

    /// Takes all that is left but so many bytes.
    fn fill_but(&self, leave: usize) {
        let mut ballast = std::fs::File::create(self.ballast()).unwrap();
        while ballast.write_all(&[1; 4_096]).is_ok() {}
        let length = ballast.metadata().unwrap().len();
        ballast.set_len(length - leave as u64).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_file_size_limit_fails_the_write_and_does_not_end_the_process() {
    let world = World::new();
    lived(&world);
    let program = carebook().get_program().to_owned();
    for (command, from, to) in [
        ("backup", "--data", "--to"),
        ("restore", "--from", "--data"),
    ] {
        let target = world.path(command);
        let output = Command::new("sh")
            .args(["-c", "ulimit -f 2; exec \"$@\"", "sh"])
            .arg(&program)
            .args([command, from, text(&world.data()), to, text(&target)])
            .output()
            .unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}: {err}");
        assert!(err.contains("File too large"), "{command}: {err}");
        assert!(
            err.contains("remove it, and begin again"),
            "{command}: {err}"
        );
        assert!(!err.contains("carebook recover"), "{command}: {err}");
    }
}

#[test]
fn a_tool_leaves_nothing_in_a_directory_that_is_none_of_a_log() {
    let world = World::new();
    let (empty, facts) = (world.path("empty"), lived(&world));
    std::fs::create_dir(&empty).unwrap();
    let nothing = || std::fs::read_dir(&empty).unwrap().count() == 0;
    for command in [
        &["compact", "--data"][..],
        &["outbox", "list", "--data"],
        &["verify", "--data"],
        &["inspect", "counts", "--data"],
        &["recover", "--data"],
        &["backup", "--to", "elsewhere", "--data"],
        &["restore", "--data", "elsewhere", "--from"],
    ] {
        let elsewhere = world.path("elsewhere");
        let mut arguments: Vec<_> = command.to_vec();
        for argument in &mut arguments {
            if *argument == "elsewhere" {
                *argument = text(&elsewhere);
            }
        }
        arguments.push(text(&empty));
        let (code, _, err) = run(&arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {err}");
        assert!(nothing(), "{arguments:?}");
        assert!(!err.contains("incomplete"), "{arguments:?}: {err}");
    }
    // What makes a log where there was none says so.
    let load = ["facts", "load", text(&facts), "--data", text(&empty)];
    let told = format!("there was no log in {}: a new one was made", text(&empty));
    assert!(run(&load).2.contains(&told));
    assert!(!run(&load).2.contains("a new one"));
}

#[test]
fn on_a_full_disk_every_tool_says_what_to_do_and_can_be_run_again() {
    let world = World::new();
    let facts = lived(&world);
    let (data, facts) = (world.data(), text(&facts));
    let Some(disk) = SmallDisk::mount(&world, 14 << 20) else {
        return;
    };
    let failed = |arguments: &[&str], words: &[&str]| {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{arguments:?}: {err}");
        for word in words {
            assert!(err.contains(word), "{arguments:?}: {err}");
        }
    };
    let done = |arguments: &[&str]| {
        let (code, _, err) = run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
    };
    let at = |name: &str| text(&disk.0.join(name)).to_owned();
    let (copy, restored) = (at("copy"), at("restored"));

    // What was made in part is to be removed, and is nothing that anybody takes for a directory.
    disk.fill_but(4_096);
    for command in [
        ["backup", "--data", text(&data), "--to", &copy],
        ["restore", "--from", text(&data), "--data", &restored],
    ] {
        failed(&command, &["No space left", "remove it, and begin again"]);
        failed(
            &command,
            &["not empty", "name one that is empty or not there yet"],
        );
        let target = command[4];
        assert_ne!(run(&["verify", "--data", target]).0, Some(0));
        std::fs::remove_dir_all(target).unwrap();
        std::fs::remove_file(disk.ballast()).unwrap();
        done(&command);
        std::fs::remove_dir_all(target).unwrap();
        disk.fill_but(4_096);
    }

    // An export has its name when it is whole.
    let export = at("export");
    let give_up = ["recover", "--data", text(&data), "--give-up-after", "10"];
    let give_up = [&give_up[..], &["--give-up-readable", "--export", &export]].concat();
    failed(&give_up, &["No space left"]);
    assert!(!Path::new(&export).exists());
    done(&["verify", "--data", text(&data)]);

    // Facts say why not, and how many there are.
    disk.fill_but(200 << 10);
    failed(
        &["facts", "load", facts, "--data", &at("new")],
        &[
            "less free than",
            "0 facts were applied before",
            "again is safe",
        ],
    );
    std::fs::remove_dir_all(at("new")).unwrap();

    // A directory on the full disk.
    std::fs::remove_file(disk.ballast()).unwrap();
    let own = at("own");
    // Room for snapshots, and not for the next segment: what is to be kept stays.
    done(&["backup", "--data", text(&data), "--to", &own]);
    disk.fill_but(3 << 20);
    let (code, out, err) = run(&["compact", "--data", &own, "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let compacted: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(compacted["firstPosition"], 1);
    assert_eq!(compacted["segmentsRemoved"], 0);
    std::fs::remove_dir_all(&own).unwrap();
    std::fs::remove_file(disk.ballast()).unwrap();
    done(&["backup", "--data", text(&data), "--to", &own]);
    disk.fill_but(0);
    failed(
        &["compact", "--keep", "0s", "--data", &own],
        &["Nothing was removed", "another disk"],
    );
    let give_up = [
        "recover",
        "--data",
        &own,
        "--give-up-after",
        "10",
        "--give-up-readable",
    ];
    failed(&give_up, &["No space left", "can be run again"]);
    let kept = || {
        let names = files(Path::new(&own)).into_iter();
        names
            .filter(|name| text(name).contains("given-up"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kept(),
        <[PathBuf; 0]>::default(),
        "nothing is kept that is not whole"
    );
    done(&["verify", "--data", &own]);

    // An archive on the full disk.
    let archive = at("archive");
    failed(
        &[
            "compact",
            "--keep",
            "0s",
            "--data",
            text(&data),
            "--archive",
            &archive,
        ],
        &["Nothing was removed", "make room for the segments in"],
    );
    std::fs::remove_file(disk.ballast()).unwrap();
    done(&[
        "compact",
        "--keep",
        "0s",
        "--data",
        text(&data),
        "--archive",
        &archive,
    ]);
    done(&give_up);
    assert_eq!(kept().len(), 2, "a manifest and a segment: {:?}", kept());
    done(&["verify", "--data", &own]);
    done(&["verify", "--data", text(&data)]);
}
