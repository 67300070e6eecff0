//! docs/runbook.md: a shell runs the commands of each section, on a stage of the section's own, where what
//! the section is about has happened to a real service; and the page leads from every symptom to a section.
//!
//! After each block come its exit code, and words that it prints. A block that ends with 0 must
//! have no command that fails. What happens between two blocks is in the page's source as a
//! comment, `<!-- meanwhile: … -->`: a function of `stage.sh`, which sets the stage. For systemd
//! there is a stand-in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use carebook::engine::readiness::Unready;

use crate::docs::anchor_of;
use crate::support::pages::{blocks, read_by};

/// The text before the exit code of a block in what the shell prints.
const MARK: &str = "== ended with ";
/// How many seconds a section may take.
const PATIENCE: &str = "120";

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(place(name)).unwrap()
}

/// The page's sections: title and content.
fn sections(page: &str) -> Vec<(&str, &str)> {
    let sections = page.split("\n## ").skip(1);
    sections
        .map(|section| section.split_once('\n').unwrap())
        .collect()
}

/// Where a section is played; its service ends when it is dropped.
struct Stage {
    folder: tempfile::TempDir,
    /// An address of the loopback that no other process has.
    host: String,
}

impl Stage {
    fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(64);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let host = format!("127.{}.{high}.{low}", NEXT.fetch_add(1, Ordering::Relaxed));
        let stage = Self {
            folder: tempfile::tempdir().unwrap(),
            host,
        };
        std::fs::create_dir(stage.path("bin")).unwrap();
        let link = |from: &Path, name: &str| {
            std::os::unix::fs::symlink(from, stage.path("bin").join(name)).unwrap();
        };
        link(Path::new(env!("CARGO_BIN_EXE_carebook")), "carebook");
        for name in ["systemctl", "journalctl"] {
            link(&place("tests/runbook").join(name), name);
        }
        std::fs::create_dir(stage.path("certificates")).unwrap();
        for number in [1, 2] {
            let made = rcgen::generate_simple_self_signed([stage.host.clone()]).unwrap();
            let file = |kind| stage.path(&format!("certificates/{number}.{kind}"));
            std::fs::write(file("pem"), made.cert.pem()).unwrap();
            std::fs::write(file("key"), made.signing_key.serialize_pem()).unwrap();
        }
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Once a server waits for it, a newer carebook writes to the data directory.
    fn expect_a_newer_one(&self) {
        let pipes = ["newer.wanted", "newer.done"].map(|name| self.path(name));
        for pipe in &pipes {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, pipe, kind, mode, 0).unwrap();
        }
        let data = self.path("data");
        std::thread::spawn(move || {
            let [wanted, done] = pipes;
            std::fs::read(wanted).unwrap();
            crate::upkeep::versions::a_newer_one_writes(&data);
            std::fs::write(done, "").unwrap();
        });
    }

    /// All that a shell prints which reads this script on the stage.
    fn play(&self, script: &str) -> String {
        let tests = place("tests/runbook/stage.sh");
        let script = format!("exec 2>&1\n. '{}'\n{script}", tests.display());
        // What is waited for may never come.
        let mut shell = Command::new("timeout");
        shell
            .args([PATIENCE, "sh"])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("LC_ALL", "C")
            .env("STAGE", self.folder.path())
            .env("HOST", &self.host);
        read_by(&mut shell, &script).1
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let ended = self.path("code");
        let pid = std::fs::read_to_string(self.path("pid"));
        if let (Ok(pid), false) = (pid, ended.exists()) {
            let _ = Command::new("kill").args(["-KILL", pid.trim()]).status();
            let started = Instant::now();
            while !ended.exists() && started.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// The commands of the daily backup.
fn daily_backup(page: &str) -> &str {
    let mut sections = sections(page).into_iter();
    let backups = sections.find(|(known, _)| *known == "Backups");
    let daily = blocks(backups.unwrap().1)[0].commands;
    assert!(daily.contains("tail -z -n +14"), "{daily}");
    daily
}

/// Makes directories of the first days of a year that is long over.
const OLD_BACKUPS: &str = "for day in 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16; do\n\
                           mkdir \"$BACKUPS/2020-01-$day\"; done\n";

#[test]
fn the_newest_14_daily_backups_are_kept_whatever_their_age() {
    let page = text("docs/runbook.md");
    let daily = daily_backup(&page);
    let stage = Stage::new();
    let printed = stage.play(&format!(
        "set +e\n{OLD_BACKUPS}{daily}\
         printf '{MARK}%s %s %s\\n' $? \"$(ls \"$BACKUPS\" | grep -c '^20')\" \"$(ls \"$BACKUPS\" | head -n 1)\"\n"
    ));
    let (told, ended) = printed.split_once(MARK).unwrap();
    assert_eq!(ended, "0 14 2020-01-04\n", "{told}");
}

/// Prints the exit code of what is before it, whether `nightly` leads to a day, and how many days have a backup.
fn tells() -> String {
    format!(
        "printf '{MARK}%s %s %s\\n' $? \"$(readlink \"$BACKUPS/nightly\" | grep -c '^20')\" \
         \"$(ls \"$BACKUPS\" | grep -c '^20')\"\n"
    )
}

/// Else nights that fail would be counted among the newest, and push the good copies out.
#[test]
fn a_failed_backup_gets_no_day_and_the_next_one_begins_anew() {
    let page = text("docs/runbook.md");
    let daily = daily_backup(&page);
    let stage = Stage::new();
    let tells = tells();
    let printed = stage.play(&format!(
        "set +e\n{OLD_BACKUPS}a_byte_of_the_log_changes\n{daily}{tells}\
         flip \"$file\" $((${{batch% *}} + 200))\n{daily}{tells}"
    ));
    let told: Vec<_> = printed.split(MARK).collect();
    let [_, failed, mended] = told[..] else {
        panic!("{printed}");
    };
    assert!(failed.starts_with("3 0 16\n"), "{printed}");
    assert_eq!(mended, "0 1 14\n", "{printed}");
}

/// What has a day's name was verified: another copy does not take its place.
#[test]
fn a_second_backup_of_a_day_removes_nothing_and_nightly_stays() {
    let page = text("docs/runbook.md");
    let daily = daily_backup(&page);
    let stage = Stage::new();
    let printed = stage.play(&format!(
        "set +e\n{OLD_BACKUPS}\
         today=$BACKUPS/$(date +%F)\nmkdir \"$today\"\ntouch \"$today/kept\"\n{daily}\
         printf '{MARK}%s %s %s\\n' $? \"$(readlink \"$BACKUPS/nightly\")\" \"$(ls \"$BACKUPS\" | head -n 1)\"\n"
    ));
    let (told, ended) = printed.split_once(MARK).unwrap();
    assert!(told.contains("Directory not empty"), "{told}");
    assert_eq!(ended, "1 first 2020-01-01\n", "{told}");
}

#[test]
fn a_snapshot_request_does_not_wait_when_the_disk_has_no_room() {
    let page = text("docs/runbook.md");
    let mut sections = sections(&page).into_iter();
    let section = sections.find(|(known, _)| *known == "Snapshots fail");
    let asks = blocks(section.unwrap().1)[0].commands;
    let stage = Stage::new();
    let printed = stage.play(&format!(
        "the_disk_is_full\n{asks}printf '{MARK}%s\\n' $?\n"
    ));
    let Some((told, ended)) = printed.split_once(MARK) else {
        panic!("it waits without end: {printed}");
    };
    assert_eq!(ended, "0\n", "{told}");
    assert!(told.contains("carebook_snapshots_total 0\n"), "{told}");
    for counter in ["snapshot_failures", "snapshots_without_room"] {
        let (is_told, is_none) = (
            told.contains(&format!("carebook_{counter}_total ")),
            told.contains(&format!("carebook_{counter}_total 0\n")),
        );
        assert!(is_told && !is_none, "{counter}: {told}");
    }
}

#[test]
fn a_snapshot_request_does_not_wait_when_no_service_answers() {
    let page = text("docs/runbook.md");
    let mut sections = sections(&page).into_iter();
    let section = sections.find(|(known, _)| *known == "Snapshots fail");
    let asks = blocks(section.unwrap().1)[0].commands;
    let stage = Stage::new();
    let printed = stage.play(&format!(
        "set +e\nsystemctl stop carebook\n{asks}printf '{MARK}%s\\n' $?\n"
    ));
    let Some((_, ended)) = printed.split_once(MARK) else {
        panic!("it waits without end: {printed}");
    };
    assert_eq!(ended, "1\n", "{printed}");
}

/// Plays the section of this title.
#[track_caller]
fn does_what_it_says(title: &str) {
    let page = text("docs/runbook.md");
    let sections = sections(&page);
    let section = sections.iter().find(|(known, _)| *known == title);
    let (_, content) = section.unwrap_or_else(|| panic!("no section {title}"));
    let expected = blocks(content);
    let stage = Stage::new();
    let mut script = format!("set +e\nprintf '{MARK}0\\n'\n");
    for block in &expected {
        for happens in block.before.split("<!-- meanwhile: ").skip(1) {
            let (name, _) = happens.split_once(" -->").unwrap();
            if name == "a-newer-one-has-written" {
                stage.expect_a_newer_one();
            }
            let function = name.replace('-', "_");
            script.push_str(&format!("set -e\n{function}\n"));
        }
        // Where all should go well, nothing may fail on the way.
        let all_or_nothing = if block.told[0] == "0" { "-e" } else { "+e" };
        script.push_str(&format!("set {all_or_nothing}\n{}", block.commands));
        script.push_str(&format!("printf '{MARK}%s\\n' $?\nset +e\n"));
    }
    let printed = stage.play(&script);
    let mut parts = printed.split(MARK);
    let set = parts.next().unwrap();
    assert!(
        parts.next().is_some_and(|part| part.starts_with('0')),
        "the stage: {set}"
    );
    let mut rest = &printed[set.len() + MARK.len() + 2..];
    for block in expected {
        let commands = block.commands;
        let Some((told, after)) = rest.split_once(MARK) else {
            panic!("{title}: it ended in\n{commands}{rest}");
        };
        let (code, after) = after.split_once('\n').unwrap();
        rest = after;
        assert_eq!(code, block.told[0], "{title}:\n{commands}{told}");
        for word in &block.told[1..] {
            assert!(
                told.contains(word),
                "{title}: no {word} in\n{commands}{told}"
            );
        }
    }
}

/// A test for each section that has commands.
macro_rules! sections_with_commands {
    ($($name:ident: $title:literal;)*) => {
        $(
            #[test]
            fn $name() {
                does_what_it_says($title);
            }
        )*

        #[test]
        fn every_section_with_commands_is_played() {
            let page = text("docs/runbook.md");
            let sections = sections(&page).into_iter();
            let with_commands = sections.filter(|(_, content)| content.contains("```sh\n"));
            let titles: Vec<_> = with_commands.map(|(title, _)| title).collect();
            assert_eq!(titles, [$($title),*]);
            // There is none before them.
            assert!(!page.split("\n## ").next().unwrap().contains("```sh\n"));
        }
    };
}

sections_with_commands! {
    a_service_that_does_not_run_is_looked_at: "It does not run";
    a_full_disk_is_left: "The disk is full";
    a_damaged_log_is_given_up_in_part: "The log is damaged";
    a_backup_is_made_and_verified: "Backups";
    a_backup_is_restored_and_put_in_place: "Restore a backup";
    a_lost_machine_is_replaced: "The machine is lost";
    rejected_tokens_are_looked_at: "Tokens are rejected";
    keys_of_tokens_are_changed: "New keys for tokens";
    the_certificate_is_changed: "A new TLS certificate";
    secrets_of_webhooks_are_changed: "New secrets of webhooks";
    secrets_of_receivers_are_changed: "New secrets of receivers";
    the_program_is_changed_and_changed_back: "Upgrade and downgrade";
    what_is_slow_is_found: "It is slow, or fails requests";
    a_snapshot_is_asked_for: "Snapshots fail";
    what_waits_is_mended: "Deliveries wait or are dead";
    lost_lines_are_counted: "Logs and traces are lost";
    what_is_there_is_measured: "Capacity";
}

/// The rows of the tables at the page's beginning: the words of the first cell, the anchor in the last.
fn symptoms() -> Vec<(Vec<String>, String)> {
    let page = text("docs/runbook.md");
    let tables = page.split("\n## ").next().unwrap();
    let rows = tables
        .lines()
        .filter(|line| line.starts_with('|') && line.contains("](#"));
    rows.map(|row| {
        let (_, anchor) = row.split_once("](#").unwrap();
        let (anchor, _) = anchor.split_once(')').unwrap();
        let first = row
            .trim_start_matches('|')
            .split('|')
            .next()
            .unwrap()
            .trim();
        let mut words: Vec<_> = first
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        if let Some((code, _)) = first.split_once(':') {
            words.push(code.to_owned());
        }
        (words, anchor.to_owned())
    })
    .collect()
}

#[test]
fn every_alert_names_the_section_that_the_table_leads_to() {
    let page = text("docs/runbook.md");
    let anchors: Vec<_> = page.lines().filter_map(anchor_of).collect();
    let rules = text("packaging/prometheus/carebook.rules.yml");
    let mut alerts = BTreeSet::new();
    for alert in rules.split("- alert: ").skip(1) {
        let (name, rest) = alert.split_once('\n').unwrap();
        let (_, section) = rest.split_once("runbook: 'docs/runbook.md#").expect(name);
        let (section, _) = section.split_once('\'').unwrap();
        assert!(
            anchors.iter().any(|known| known == section),
            "{name}: {section}"
        );
        let rows = symptoms().into_iter();
        let rows: Vec<_> = rows
            .filter(|(words, _)| words.iter().any(|word| word == name))
            .collect();
        assert_eq!(rows.len(), 1, "{name}");
        assert_eq!(rows[0].1, section, "{name}");
        alerts.insert(name.to_owned());
    }
    assert!(alerts.len() > 30, "{alerts:?}");
    let named = symptoms().into_iter().flat_map(|(words, _)| words);
    let named: BTreeSet<_> = named.filter(|word| word.starts_with("Carebook")).collect();
    assert_eq!(named, alerts);
}

#[test]
fn every_reason_not_to_be_ready_and_every_exit_code_leads_to_a_section() {
    let words: BTreeSet<_> = symptoms()
        .into_iter()
        .flat_map(|(words, _)| words)
        .collect();
    for (reason, _) in Unready::default().reasons() {
        assert!(words.contains(reason), "{reason}");
    }
    let page = text("docs/operating.md");
    let codes = page.split("| exit code | meaning |").nth(1).unwrap();
    let codes = codes
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let codes: Vec<_> = codes
        .map(|line| line.split('|').nth(1).unwrap().trim())
        .collect();
    assert!(codes.len() > 5, "{codes:?}");
    for code in codes.into_iter().filter(|code| *code != "0") {
        assert!(words.contains(code), "{code}");
    }
}
