//! The walk through all operations that a demonstration prints, taken in a shell as printed.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Write as _};
use std::process::{Command, Stdio};

use carebook::catalogue::{OPERATIONS, Success};
use serde_json::Value;

use crate::support::pages::{Block, blocks, read_by};
use crate::support::{Server, World, carebook};

/// The text before the number and title of a step in what the shell prints.
const MARK: &str = "== step ";
const END: &str = "# That was all of it.";

/// What a demonstration in the world prints after the line with its address.
pub(crate) fn demonstration(world: &World) -> (Server, String) {
    let mut command = carebook();
    command.args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data"]);
    command.arg(world.data());
    let (server, out) = Server::spawn_heard(command);
    let mut printed = String::new();
    for line in out.lines() {
        let line = line.unwrap();
        printed.push_str(&line);
        printed.push('\n');
        if line.starts_with(END) {
            return (server, printed);
        }
    }
    panic!("the walk has no end: {printed}");
}

/// What a demonstration says to put into the environment: its address and its tokens.
pub(crate) fn exports(printed: &str) -> Vec<(String, String)> {
    let lines = printed
        .lines()
        .filter_map(|line| line.strip_prefix("export "));
    lines
        .map(|line| {
            let (name, value) = line.split_once('=').unwrap();
            (name.to_owned(), value.trim_matches('\'').to_owned())
        })
        .collect()
}

/// A step as it was taken.
pub(crate) struct Taken {
    pub(crate) title: String,
    /// Its lines as printed.
    lines: String,
    pub(crate) status: u16,
    body: Value,
}

/// Takes the walk in one shell: the exports, then step by step.
pub(crate) fn take(printed: &str) -> Vec<Taken> {
    let mut script = String::new();
    let mut titles = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for line in printed.lines() {
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let step = line
            .strip_prefix("# ")
            .and_then(|line| line.split_once(". "));
        if let Some((number, title)) = step.filter(|(number, _)| is_number(number)) {
            assert_eq!(number.parse(), Ok(titles.len() + 1), "{line}");
            titles.push(title.to_owned());
            lines.push(String::new());
            script.push_str(&format!("printf '{MARK}%s\\n' {number}\n"));
        } else if let Some(lines) = lines.last_mut() {
            lines.push_str(line);
            lines.push('\n');
        }
        script.push_str(line);
        script.push('\n');
    }
    let mut shell = Command::new("sh")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let pasting = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let output = shell.wait_with_output().unwrap();
    pasting.join().unwrap().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let complaints = String::from_utf8(output.stderr).unwrap();
    assert_eq!(complaints, "", "{told}");

    let (tried, steps) = told.split_once(&format!("{MARK}1\n")).unwrap();
    assert!(tried.contains("\"awaiting_branch_deposit\""), "{tried}");
    let mut taken = Vec::new();
    for (index, told) in steps.split(MARK).enumerate() {
        let told = match index {
            0 => told,
            _ => told.split_once('\n').unwrap().1,
        };
        let what = format!("step {}, {}: {told}", index + 1, titles[index]);
        let (body, status) = told.trim_end().rsplit_once('\n').expect(&what);
        taken.push(Taken {
            title: titles[index].clone(),
            lines: lines[index].clone(),
            status: status.parse().expect(&what),
            body: serde_json::from_str(body).expect(&what),
        });
    }
    assert_eq!(taken.len(), titles.len());
    taken
}

impl Taken {
    /// Method and path that its `curl` line calls.
    fn called(&self) -> (&'static str, String) {
        let curl = self.lines.split("curl ").nth(1).unwrap();
        let path = curl.split_once("\"$CAREBOOK").unwrap().1;
        let path = path.split_once('"').unwrap().0.to_owned();
        let method = match (curl.contains("-X PATCH"), curl.contains(" -d '")) {
            (true, _) => "PATCH",
            (false, true) => "POST",
            (false, false) => "GET",
        };
        (method, path)
    }
}

/// Whether a path is of this form, with values in the place of its parameters.
pub(crate) fn matches(form: &str, path: &str) -> bool {
    let (form, path): (Vec<_>, Vec<_>) = (form.split('/').collect(), path.split('/').collect());
    let same = |(form, path): (&&str, &&str)| form.starts_with('{') || form == path;
    form.len() == path.len() && form.iter().zip(&path).all(same)
}

#[test]
fn each_walk_step_runs_as_printed_and_a_second_walk_is_all_replays() {
    let world = World::new();
    let (server, printed) = demonstration(&world);
    let walk = take(&printed);
    let mut called = BTreeSet::new();
    for step in &walk {
        let (method, path) = step.called();
        let row = OPERATIONS
            .iter()
            .find(|row| method == crate::support::good::method(row) && matches(row.path, &path));
        let expected = match row.map(|row| row.success) {
            Some(Success::Created | Success::CreatedOnce) => 201,
            Some(Success::Accepted) => 202,
            Some(Success::Ok) | None => 200,
            Some(Success::NoContent) => 204,
        };
        assert_eq!(step.status, expected, "{}: {}", step.title, step.body);
        match row {
            Some(row) => assert!(called.insert(row.tag), "{} is called twice", row.name),
            None => assert_eq!(method, "GET", "{path} is no operation"),
        }
    }
    let known: BTreeSet<_> = OPERATIONS.iter().map(|row| row.tag).collect();
    assert_eq!(called, known);
    // What the document promises.
    let of = |tag: u16| {
        let row = OPERATIONS.iter().find(|row| row.tag == tag).unwrap();
        let step = walk.iter().find(|step| matches(row.path, &step.called().1));
        &step.unwrap().body
    };
    assert_eq!(of(7)["profileCompleteness"], "complete");
    let handoff = &of(18)["reservationCreationPaymentHandoff"];
    assert_eq!(handoff["payableAmountKrw"], 300_000);
    assert_eq!(of(17)["decisionState"], "accepted");
    let payer = &of(20)["paymentActorSnapshot"];
    assert_eq!(payer["actorKind"], "delegated_family_payer");
    assert_eq!(payer["paymentDelegationId"], of(2)["paymentDelegationId"]);
    let fee = &of(20)["providerFeeSnapshot"]["methodFeeQuote"]["feeAmountKrw"];
    assert_eq!(*fee, 7_500);
    assert_eq!(of(15)["adjustmentStatus"], "paid");
    assert_eq!(of(13)["motherVisiblePayableKrw"], 860_000);
    assert_eq!(of(13)["caregiverPayoutKrw"], 1_071_000);
    assert_eq!(of(13)["hqSettlementKrw"], 153_000);
    assert_eq!(of(13)["branchSettlementKrw"], 306_000);
    assert_eq!(of(21)["operationStatus"], "succeeded");
    assert_eq!(of(8)["headOfficePrivateMemo"], Value::Null);
    assert_eq!(of(6)["status"], "ready");
    assert_eq!(of(3)["outcomeStatus"], "completed");
    assert_eq!(of(19)["revisionNumber"], 2);

    // The plug is pulled; the same directory, and the walk as it is printed now.
    server.kill();
    let (server, printed) = demonstration(&world);
    let again = take(&printed);
    for (first, again) in walk.iter().zip(&again) {
        assert_eq!(
            again.status,
            match first.called().1.as_str() {
                "/admin/branches" | "/mother/profile" | "/branch/manager-invitations/accept" => 200,
                _ => first.status,
            }
        );
        let but_for_replay = |body: &Value| {
            let mut body = body.clone();
            let members = body.as_object_mut().unwrap();
            members.remove("idempotentReplay");
            members.remove("replayedFromAuditId");
            body
        };
        assert_eq!(but_for_replay(&again.body), but_for_replay(&first.body));
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_document_is_the_walk_as_it_is() {
    crate::docs::is_as_printed(
        "docs/walkthrough.md",
        &carebook::cli::serve::walk::document(),
    );
}

/// Runs each block of the guide as a reader would. After it comes the last status that it printed,
/// and with that, before the colon, what else it printed.
#[test]
fn the_guide_s_commands_do_what_it_says() {
    let world = World::new();
    let (server, printed) = demonstration(&world);
    let exports = printed.lines().filter(|line| line.starts_with("export "));
    let mut script: String = exports.map(|line| format!("{line}\n")).collect();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let expected = blocks(&guide);
    for block in &expected {
        script.push_str(block.commands);
        script.push_str(&format!("printf '{MARK}\\n'\n"));
    }
    assert!(expected.len() > 8, "{}", expected.len());
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    let shell = shell.arg("-e").current_dir(folder.path());
    let (is_well, printed) = read_by(shell, &script);
    assert!(is_well, "{printed}");
    let printed: Vec<_> = printed.split(MARK).collect();
    assert_eq!(printed.len() - 1, expected.len(), "{printed:?}");
    for (block, Block { told, .. }) in printed.iter().zip(&expected) {
        let mut lines = block.lines().rev();
        let is_status = |line: &&str| line.len() == 3 && line.parse::<u16>().is_ok();
        assert_eq!(lines.find(is_status), Some(told[0]), "{block}");
        for word in &told[1..] {
            assert!(block.contains(word), "{word}: {block}");
        }
    }
    assert_eq!(server.stop(), Some(0));
}
