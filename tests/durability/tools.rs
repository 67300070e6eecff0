//! Any tool is killed at any of its calls, then any tool runs: nothing is lost.
//!
//! ```text
//! TOOL_KILLS=2000 cargo test --release --test main durability::tools -- --nocapture
//! ```
//!
//! A directory has lived: commands of all operations, snapshots, an archive of what compactions
//! took away. Copies of it are worked on by `serve`, `compact`, `backup`, `restore`, `recover`,
//! `verify`, `inspect` and `facts load`, each of which strace kills at one of its calls, or a
//! SIGKILL at any moment; then one of them runs to its end. After each
//!
//! - every record that was known is there byte by byte, as far as the log and its archive hold
//!   it; a start makes the same tables as all records, replayed one by one, do;
//! - what a server reads out is what it was, and what was acknowledged replays with its stored
//!   response;
//! - what an interrupted backup or restore leaves is refused, or is whole;
//! - of a damaged directory `recover` keeps every byte of before, and its export has every
//!   record that is given up and can be read.
//!
//! Lives go on in what was restored or recovered. Where strace is missing, or may not trace, the
//! test says so, and kills at any moment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use carebook::cli::open::Replaying;
use carebook::journal::replay::Replay;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use wal::storage::FileStorage;
use wal::{BoxError, Past, Salvage, Visitor};

use super::crowd::Crowd;
use super::sync_failure::can_trace;
use super::{SNAPSHOT_OFTEN, share};
use crate::model::world::Command as Asked;
use crate::support::{AUDIENCE, Answer, Client, ISSUER, Server, files, run, seed};

/// Kills in one directory's life.
const KILLS_OF_A_LIFE: u64 = 12;
/// The calls before which a tool is killed, by their names on the machines that have them; and
/// which one of a thread's is the program's own at the earliest.
const CALLS: [(&[&str], u32); 9] = [
    (&["openat"], 8),
    (&["pwrite64"], 1),
    (&["write"], 1),
    (&["fdatasync"], 1),
    (&["fsync"], 1),
    (&["rename", "renameat", "renameat2"], 1),
    (&["ftruncate"], 1),
    (&["unlink", "unlinkat"], 1),
    (&["mkdir", "mkdirat"], 1),
];
/// How many of a thread's calls are tried at first; what is reached is learned.
const CALLS_AT_FIRST: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tool {
    Serve,
    Compact,
    Backup,
    Restore,
    /// On a damaged copy.
    Recover,
    Verify,
    Inspect,
    LoadFacts,
}

const TOOLS: [Tool; 8] = [
    Tool::Serve,
    Tool::Compact,
    Tool::Backup,
    Tool::Restore,
    Tool::Recover,
    Tool::Verify,
    Tool::Inspect,
    Tool::LoadFacts,
];

#[test]
fn nothing_is_lost_when_any_tool_is_killed_at_any_call_whatever_follows() {
    let seed = seed();
    let kills = share("TOOL_KILLS", 6);
    let started = Instant::now();
    let mut template = Template::make(seed);
    let mut killing = Killing {
        traces: can_trace(),
        ..Killing::default()
    };
    let mut number = 0;
    while killing.kills() < kills {
        // A life is played again by its own number: SEED is the first one's.
        let mut life = Life::begin(&mut template, &mut killing, seed, number);
        life.live(kills);
        number += 1;
    }
    template.crowd.content();
    println!(
        "{} kills in {number} lives, {:?}; {killing:?}",
        killing.kills(),
        started.elapsed()
    );
    if kills >= 500 {
        for tool in TOOLS {
            assert!(killing.killed.contains_key(&tool), "{tool:?}");
        }
    }
}

/// What has lived, and is copied for each life.
struct Template {
    crowd: Crowd,
    data: PathBuf,
    archive: PathBuf,
    records: Vec<Vec<u8>>,
    /// What was read in the end.
    reads: Vec<(Arc<Asked>, Answer)>,
}

impl Template {
    fn make(seed: u64) -> Self {
        let crowd = Crowd::new(seed);
        let (data, archive) = (crowd.world.data(), crowd.world.path("archive"));
        for round in 0..3 {
            let server = Server::start_with(&crowd.world, SNAPSHOT_OFTEN);
            let until = crowd.answers() + 60;
            crowd.at_work(&server.address, seed ^ round, || {
                while crowd.answers() < until {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            assert_eq!(server.stop(), Some(0));
            if round < 2 {
                let arguments = [
                    "compact",
                    "--keep",
                    "0s",
                    "--data",
                    text(&data),
                    "--archive",
                    text(&archive),
                ];
                let (code, _, err) = run(&arguments);
                assert_eq!(code, Some(0), "{err}");
            }
        }
        let server = Server::start_with(&crowd.world, &[]);
        let reads = crowd.look_around(&server, seed);
        assert_eq!(server.stop(), Some(0));
        crowd.content();
        let mut records = Records::default();
        let past = Past::open(storage(&data), Some(storage(&archive))).unwrap();
        past.records(&mut records).unwrap();
        assert_eq!(records.first, 1);
        let lines: String = (0..40)
            .map(|number| {
                format!(
                    "{{\"kind\":\"actor\",\"id\":\"tools-{number}\",\"revision\":1,\
                     \"facts\":{{\"lifecycle\":\"active\"}}}}\n"
                )
            })
            .collect();
        std::fs::write(crowd.world.path("facts"), lines).unwrap();
        Self {
            data,
            archive,
            records: records.payloads,
            reads,
            crowd,
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn storage(directory: &Path) -> Arc<FileStorage> {
    Arc::new(FileStorage::existing(directory).unwrap())
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, target).unwrap();
    }
}

/// Records in the order of their positions.
#[derive(Default)]
struct Records {
    first: u64,
    payloads: Vec<Vec<u8>>,
}

impl Visitor for Records {
    fn record(&mut self, record: wal::Record<'_>) -> Result<(), BoxError> {
        if self.first == 0 {
            self.first = record.position;
        }
        let expected = self.first + self.payloads.len() as u64;
        if record.position != expected {
            return Err(format!("position {} after a gap", record.position).into());
        }
        self.payloads.push(record.payload.to_vec());
        Ok(())
    }
}

/// Kills tools, and learns which of their calls there are.
#[derive(Debug, Default)]
struct Killing {
    traces: bool,
    /// How often each tool was killed.
    killed: BTreeMap<Tool, u64>,
    /// How often it came to its end before.
    ended: BTreeMap<Tool, u64>,
    /// How many calls of a kind a tool's threads make, as far as it is known; 0 where it makes none.
    calls: BTreeMap<(Tool, usize), u32>,
    /// How long a tool takes, at most.
    took: BTreeMap<Tool, Duration>,
}

/// When a tool is killed.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// Before the call of a kind with this number.
    Before(usize, u32),
    /// After so long.
    After(Duration),
}

impl Killing {
    fn kills(&self) -> u64 {
        self.killed.values().sum()
    }

    fn cut(&self, tool: Tool, random: &mut StdRng) -> Cut {
        let most = |kind: &usize| {
            let known = self.calls.get(&(tool, *kind));
            known.copied().unwrap_or(CALLS_AT_FIRST)
        };
        let kinds: Vec<_> = (0..CALLS.len()).filter(|kind| most(kind) > 0).collect();
        let traced = self.traces && random.random_ratio(5, 6);
        if traced && let Some(&kind) = kinds.choose(random) {
            let least = CALLS[kind].1;
            return Cut::Before(kind, random.random_range(least..=least + most(&kind) - 1));
        }
        let usual = self.took.get(&tool).copied();
        let usual = usual.unwrap_or(Duration::from_millis(60));
        Cut::After(usual.mul_f64(random.random_range(0.0..1.0)))
    }

    /// The program, to be killed by strace before a call.
    fn program(&self, log: &Path, cut: Option<Cut>) -> Command {
        let Some(Cut::Before(kind, number)) = cut else {
            return crate::support::carebook();
        };
        // A name that this machine does not have is no error.
        let calls: Vec<_> = CALLS[kind]
            .0
            .iter()
            .map(|call| format!("?{call}"))
            .collect();
        let calls = calls.join(",");
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "--seccomp-bpf", "-qq", "-e", "signal=none"]);
        command.args(["-e", &format!("trace={calls}")]);
        command.args(["-e", &format!("inject={calls}:signal=KILL:when={number}")]);
        command
            .arg("-o")
            .arg(log)
            .arg(env!("CARGO_BIN_EXE_carebook"));
        command
    }

    /// Notes whether a tool was killed.
    fn note(&mut self, tool: Tool, cut: Cut, killed: bool) {
        let counts = if killed {
            &mut self.killed
        } else {
            &mut self.ended
        };
        *counts.entry(tool).or_default() += 1;
        if let Cut::Before(kind, number) = cut {
            let number = number + 1 - CALLS[kind].1;
            let known = self.calls.entry((tool, kind)).or_insert(CALLS_AT_FIRST);
            if !killed {
                // Where only the first is left, and not made, there is none.
                *known = (*known)
                    .min(number.max(*known * 2 / 3))
                    .min(if number == 1 { 0 } else { *known });
            } else if number * 4 > *known * 3 {
                *known = (*known * 2).max(2);
            }
        }
    }
}

/// How a tool ended: its exit code, none when it was killed, and what it said.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// What was acknowledged under a key.
struct Acknowledged {
    key: String,
    position: u64,
    body: Value,
}

/// The life of one directory.
struct Life<'a> {
    template: &'a mut Template,
    killing: &'a mut Killing,
    random: StdRng,
    /// Where all that it makes is.
    home: PathBuf,
    data: PathBuf,
    archive: PathBuf,
    /// Whether compactions keep what they take away.
    archives: bool,
    /// The first position that log and archive have to show; none where some was let go.
    complete_from: Option<u64>,
    /// Every record that is known to have been durable.
    records: Vec<Vec<u8>>,
    /// Whether everything that the template had is still there.
    has_template: bool,
    answers: Vec<Acknowledged>,
    /// Keys of commands whose answer did not come.
    unanswered: BTreeSet<String>,
    made: u64,
    trail: Vec<String>,
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("its life:\n{}", self.trail.join("\n"));
            if let Some(keep) = std::env::var_os("KEEP") {
                copy(&self.home, Path::new(&keep));
            }
        } else {
            let _ = std::fs::remove_dir_all(&self.home);
        }
    }
}

impl<'a> Life<'a> {
    fn begin(template: &'a mut Template, killing: &'a mut Killing, seed: u64, number: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed ^ number.rotate_left(32));
        template.crowd.renew_tokens();
        let home = template.crowd.world.path(&format!("life-{number}"));
        let (data, archive) = (home.join("data"), home.join("archive"));
        copy(&template.data, &data);
        copy(&template.archive, &archive);
        Self {
            records: template.records.clone(),
            archives: random.random_ratio(2, 3),
            complete_from: Some(1),
            has_template: true,
            answers: Vec::new(),
            unanswered: BTreeSet::new(),
            made: 0,
            trail: vec![format!("SEED={seed}, life {number}")],
            template,
            killing,
            random,
            home,
            data,
            archive,
        }
    }

    fn live(&mut self, kills: u64) {
        let until = kills.min(self.killing.kills() + KILLS_OF_A_LIFE);
        // Where tools are done before they are killed, a life is still not endless.
        for _ in 0..2 * KILLS_OF_A_LIFE {
            if self.killing.kills() >= until {
                break;
            }
            let tool = TOOLS[self.random.random_range(0..TOOLS.len())];
            let cut = self.killing.cut(tool, &mut self.random);
            self.trail.push(format!("{tool:?} {cut:?}"));
            self.use_tool(tool, Some(cut));
            self.look();
            let next = TOOLS[self.random.random_range(0..TOOLS.len())];
            self.trail.push(format!("{next:?}"));
            self.use_tool(next, None);
            self.look();
        }
        self.trail.push("the end".to_owned());
        self.use_tool(Tool::Serve, None);
        self.use_tool(Tool::Verify, None);
        self.look();
    }

    fn use_tool(&mut self, tool: Tool, cut: Option<Cut>) {
        match tool {
            Tool::Serve => self.serve(cut),
            Tool::Compact => self.compact(cut),
            Tool::Backup => self.backup(cut),
            Tool::Restore => self.restore(cut),
            Tool::Recover => self.recover(cut),
            Tool::Verify => self.verify(cut),
            Tool::Inspect => self.inspect(cut),
            Tool::LoadFacts => self.load_facts(cut),
        }
    }

    fn new_path(&mut self, name: &str) -> PathBuf {
        self.made += 1;
        self.home.join(format!("{name}-{}", self.made))
    }

    /// Runs a tool, to its end or until it is killed.
    fn run(&mut self, tool: Tool, cut: Option<Cut>, arguments: &[&str]) -> Ended {
        let (out, err) = (self.home.join("out"), self.home.join("err"));
        let file = |path: &Path| Stdio::from(std::fs::File::create(path).unwrap());
        let mut command = self.killing.program(&self.home.join("strace.log"), cut);
        command
            .args(arguments)
            .stdout(file(&out))
            .stderr(file(&err));
        let started = Instant::now();
        let mut child = command.spawn().unwrap();
        if let Some(Cut::After(after)) = cut {
            std::thread::sleep(after);
            child.kill().unwrap();
        }
        let code = child.wait().unwrap().code();
        let took = started.elapsed();
        match cut {
            Some(cut) => self.killing.note(tool, cut, code.is_none()),
            None => {
                let known = self.killing.took.entry(tool).or_default();
                *known = took.max(*known);
            }
        }
        let read = |path: &Path| String::from_utf8(std::fs::read(path).unwrap()).unwrap();
        let ended = Ended {
            code,
            out: read(&out),
            err: read(&err),
        };
        self.trail
            .push(format!("  {:?}: {}", ended.code, ended.err.trim()));
        assert!(cut.is_some() || code.is_some(), "nobody killed it");
        assert!(!ended.err.contains("panicked"), "{}", ended.err);
        ended
    }

    /// It was killed, or did what it should.
    #[track_caller]
    fn done(ended: &Ended) -> bool {
        assert!(matches!(ended.code, None | Some(0)), "{ended:?}");
        ended.code == Some(0)
    }

    /// Holds the directory to what is known, and takes in what is new.
    #[track_caller]
    fn look(&mut self) {
        let data = self.data.clone();
        let (first, records) = self.hold(&data, self.complete_from);
        let known = first + records.len() as u64 - 1;
        let known = usize::try_from(known).unwrap();
        if let Some(new) = known.checked_sub(self.records.len()) {
            self.records
                .extend_from_slice(&records[records.len() - new..]);
        }
        self.same_tables(&data);
    }

    /// Holds a directory that is sound to the records that are known; what it has.
    #[track_caller]
    fn hold(&self, data: &Path, complete_from: Option<u64>) -> (u64, Vec<Vec<u8>>) {
        let mut found = Records::default();
        let archive = self.archive.is_dir().then(|| storage(&self.archive));
        let past = Past::open(storage(data), archive.map(|archive| archive as _));
        let past = past.unwrap_or_else(|error| panic!("{}: {error}", data.display()));
        let last = past.records(&mut found);
        let last = last.unwrap_or_else(|error| panic!("{}: {error}", data.display()));
        if found.first == 0 {
            found.first = last + 1;
        }
        assert!(
            last >= self.records.len() as u64,
            "{} ends at {last}, and {} were durable",
            data.display(),
            self.records.len()
        );
        if let Some(from) = complete_from {
            assert!(
                found.first <= from,
                "it begins at {}, not {from}",
                found.first
            );
        }
        let before = usize::try_from(found.first - 1).unwrap();
        for (known, payload) in self.records.iter().skip(before).zip(&found.payloads) {
            assert!(known == payload, "a record is another one");
        }
        (found.first, found.payloads)
    }

    /// The same tables come of a start and of all records.
    #[track_caller]
    fn same_tables(&self, data: &Path) {
        let mut replaying = Replaying::verifying();
        let report = wal::verify(storage(data), &mut replaying);
        let report = report.unwrap_or_else(|error| panic!("{}: {error}", data.display()));
        assert_eq!(report.last_position, self.records.len() as u64);
        let mut replay = Replay::new();
        replay.lineage(crate::support::lineage_of(storage(data)));
        for (position, payload) in (1..).zip(&self.records) {
            replay.record(position, payload).unwrap();
        }
        assert!(
            replaying.finish().tables.digest() == replay.finish().unwrap().tables.digest(),
            "the tables of a start are not those of all records"
        );
    }

    fn serve(&mut self, cut: Option<Cut>) {
        let mut command = self.killing.program(&self.home.join("strace.log"), cut);
        command.args(["serve", "--listen", "127.0.0.1:0", "--issuer", ISSUER]);
        command.args(["--audience", AUDIENCE, "--reserve-bytes", "0", "--data"]);
        command.arg(&self.data).arg("--jwks");
        command.arg(self.template.crowd.world.path("jwks.json"));
        if self.archives {
            command.arg("--archive").arg(&self.archive);
        } else {
            self.complete_from = None;
        }
        let after = match cut {
            Some(Cut::After(after)) => Some(after),
            _ => None,
        };
        let started = Instant::now();
        let code = match Server::try_spawn(command) {
            Err(code) => code,
            Ok(mut server) => {
                let work = self.random.random_range(1..6);
                if cut.is_none() {
                    self.answers_as_before(&server);
                }
                for _ in 0..work {
                    if self.random.random_ratio(1, 3) {
                        server.try_signal("USR1");
                    }
                    let is_over = after.is_some_and(|after| started.elapsed() >= after);
                    if is_over || !self.send_new(&server) {
                        break;
                    }
                }
                match server.has_ended() {
                    Some(code) => code,
                    None if after.is_some() => {
                        server.kill();
                        None
                    }
                    None => server.stop(),
                }
            }
        };
        match cut {
            Some(cut) => self.killing.note(Tool::Serve, cut, code.is_none()),
            None => {
                let known = self.killing.took.entry(Tool::Serve).or_default();
                *known = started.elapsed().max(*known);
            }
        }
        self.trail.push(format!("  {code:?}"));
        assert!(
            code == Some(0) || (cut.is_some() && code.is_none()),
            "{code:?}"
        );
    }

    fn request(&self, server: &Server, key: &str) -> Option<Answer> {
        let world = &self.template.crowd.world;
        let body = world
            .deposit_request(&format!("TOOLS-{key}"), key)
            .to_string();
        let bearer = format!("Bearer {}", world.headquarters());
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
        ];
        let path = "/settlement-deposit-requests";
        let mut client = Client::try_connect(&server.address).ok()?;
        client
            .try_request("POST", path, &headers, body.as_bytes())
            .ok()
    }

    /// Sends a command; whether it was answered.
    fn send_new(&mut self, server: &Server) -> bool {
        self.made += 1;
        let key = format!("tools-{}", self.made);
        let answer = self.request(server, &key);
        self.take(key, answer)
    }

    fn take(&mut self, key: String, answer: Option<Answer>) -> bool {
        let Some(answer) = answer else {
            self.unanswered.insert(key);
            return false;
        };
        assert_eq!(answer.status, 201, "{answer:?}");
        self.answers.push(Acknowledged {
            key,
            position: answer.position().unwrap(),
            body: answer.json(),
        });
        true
    }

    /// What was acknowledged replays; what had no answer is sent again; reads are what they were.
    fn answers_as_before(&mut self, server: &Server) {
        for first in &self.answers {
            let again = self.request(server, &first.key).unwrap();
            assert_eq!(
                again.header("idempotent-replayed"),
                Some("true"),
                "{again:?}"
            );
            assert_eq!(again.json(), first.body);
        }
        for key in std::mem::take(&mut self.unanswered) {
            let answer = self.request(server, &key);
            assert!(self.take(key, answer), "the server is gone");
        }
        if self.has_template {
            let Template { crowd, reads, .. } = &*self.template;
            crowd.reads_the_same(server, reads);
            crowd.content();
        }
    }

    fn compact(&mut self, cut: Option<Cut>) {
        let (data, archive) = (self.data.clone(), self.archive.clone());
        let mut arguments = vec!["compact", "--keep", "0s", "--data", text(&data)];
        if self.archives {
            arguments.extend(["--archive", text(&archive)]);
        } else {
            self.complete_from = None;
        }
        Self::done(&self.run(Tool::Compact, cut, &arguments));
    }

    fn verify(&mut self, cut: Option<Cut>) {
        let data = self.data.clone();
        let ended = self.run(
            Tool::Verify,
            cut,
            &["verify", "--json", "--data", text(&data)],
        );
        if Self::done(&ended) {
            let found: Value = serde_json::from_str(&ended.out).unwrap();
            let last = found["lastPosition"].as_u64().unwrap();
            assert!(last >= self.records.len() as u64, "{found}");
        }
    }

    fn inspect(&mut self, cut: Option<Cut>) {
        let data = self.data.clone();
        let what = *["records", "keys", "counts"]
            .choose(&mut self.random)
            .unwrap();
        let arguments = ["inspect", what, "--json", "--data", text(&data)];
        Self::done(&self.run(Tool::Inspect, cut, &arguments));
    }

    fn load_facts(&mut self, cut: Option<Cut>) {
        let (data, facts) = (self.data.clone(), self.template.crowd.world.path("facts"));
        if !self.archives {
            self.complete_from = None;
        }
        let arguments = [
            "facts",
            "load",
            text(&facts),
            "--json",
            "--data",
            text(&data),
        ];
        let ended = self.run(Tool::LoadFacts, cut, &arguments);
        if Self::done(&ended) {
            let loaded: Value = serde_json::from_str(&ended.out).unwrap();
            let count = |name: &str| loaded[name].as_u64().unwrap();
            assert_eq!(count("applied") + count("unchanged"), 40, "{loaded}");
        }
    }

    /// What a tool that was killed leaves where it was to make a directory is refused, or is whole.
    fn refused_or_whole(&mut self, target: &Path) {
        if !target.is_dir() {
            return;
        }
        let (code, _, err) = run(&["verify", "--data", text(target)]);
        let is_unfinished = target.join("copy.new").exists();
        let is_log = target.join("manifest").is_file() && !is_unfinished;
        assert_eq!(code == Some(0), is_log, "{code:?}: {err}");
        if is_log {
            self.hold(target, None);
        }
        std::fs::remove_dir_all(target).unwrap();
    }

    fn backup(&mut self, cut: Option<Cut>) {
        let (data, target) = (self.data.clone(), self.new_path("copy"));
        let arguments = ["backup", "--data", text(&data), "--to", text(&target)];
        if !Self::done(&self.run(Tool::Backup, cut, &arguments)) {
            self.refused_or_whole(&target);
            return;
        }
        self.hold(&target, None);
        self.same_tables_or_more(&target);
        if self.random.random_ratio(1, 3) {
            // Served from, as after a compaction on another disk; it may begin later.
            self.trail.push("  goes on in the copy".to_owned());
            std::fs::remove_dir_all(&data).unwrap();
            self.data = target;
        } else {
            std::fs::remove_dir_all(&target).unwrap();
        }
    }

    /// A tool that ran to its end may have had an unacknowledged tail.
    fn same_tables_or_more(&mut self, target: &Path) {
        self.look();
        self.same_tables(target);
    }

    fn restore(&mut self, cut: Option<Cut>) {
        self.look();
        let (data, target) = (self.data.clone(), self.new_path("restored"));
        let archive = self.archive.clone();
        let mut arguments = vec!["restore", "--from", text(&data), "--data", text(&target)];
        let last = self.records.len() as u64;
        let mut upto = last;
        if self.archives && self.complete_from == Some(1) {
            arguments.extend(["--archive", text(&archive)]);
            if self.random.random_ratio(1, 2) {
                upto = self.random.random_range(1..=last);
            }
        }
        let at = upto.to_string();
        if upto != last {
            arguments.extend(["--at", &at]);
        }
        if !Self::done(&self.run(Tool::Restore, cut, &arguments)) {
            if upto == last {
                self.refused_or_whole(&target);
            } else if target.is_dir() {
                std::fs::remove_dir_all(&target).unwrap();
            }
            return;
        }
        let report = wal::verify(storage(&target), &mut Replaying::verifying()).unwrap();
        assert_eq!(report.last_position, upto);
        if self.random.random_ratio(1, 2) {
            self.trail
                .push(format!("  goes on in what was restored up to {upto}"));
            std::fs::remove_dir_all(&data).unwrap();
            self.data = target;
            self.forget_after(upto);
            self.complete_from = self.complete_from.map(|_| report.first_position);
        } else {
            std::fs::remove_dir_all(&target).unwrap();
        }
    }

    fn forget_after(&mut self, upto: u64) {
        self.has_template &= upto >= self.template.records.len() as u64;
        self.records.truncate(usize::try_from(upto).unwrap());
        self.answers.retain(|answer| answer.position <= upto);
    }

    /// Alters a file of the log in one bit, or takes the manifest away.
    fn damage(&mut self, data: &Path) {
        let all = files(data).into_iter();
        let ours = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name == "manifest" || name.ends_with(".log") || name.ends_with(".snap")
        };
        let ours: Vec<_> = all.filter(ours).collect();
        let file = ours.choose(&mut self.random).unwrap();
        if file.ends_with("manifest") && self.random.random_ratio(1, 2) {
            self.trail.push("  without a manifest".to_owned());
            return std::fs::remove_file(file).unwrap();
        }
        let mut bytes = std::fs::read(file).unwrap();
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        let at = self.random.random_range(0..=last);
        bytes[at] ^= 1 << self.random.random_range(0..8);
        std::fs::write(file, bytes).unwrap();
        self.trail
            .push(format!("  {} altered at {at}", file.display()));
    }

    /// A damaged copy is brought to a position, with cuts; then the rest of it is as it was.
    fn recover(&mut self, cut: Option<Cut>) {
        self.look();
        let data = self.new_path("damaged");
        copy(&self.data, &data);
        self.damage(&data);
        let mut before = bytes_of(&data);
        let Ok(salvage) = Salvage::survey(storage(&data)) else {
            // Not even the log's id can be found: that is said, and nothing is changed.
            let ended = self.run(Tool::Recover, cut, &["recover", "--data", text(&data)]);
            assert!(matches!(ended.code, None | Some(3)), "{ended:?}");
            assert!(before == bytes_of(&data), "looking changes nothing");
            return std::fs::remove_dir_all(&data).unwrap();
        };
        let ways = salvage.ways();
        let Some(way) = ways
            .choose(&mut self.random)
            .filter(|way| way.keep_to > 0 && !salvage.damage().is_empty())
        else {
            let ended = self.run(Tool::Recover, cut, &["recover", "--data", text(&data)]);
            assert!(matches!(ended.code, None | Some(0 | 3)), "{ended:?}");
            assert!(before == bytes_of(&data), "looking changes nothing");
            return std::fs::remove_dir_all(&data).unwrap();
        };
        let least = way.snapshot.map_or(1, |snapshot| snapshot.upto.max(1));
        let mut position = way.keep_to;
        if self.random.random_ratio(1, 4) {
            position = self.random.random_range(least..=position);
        }
        let mut lost = BTreeMap::new();
        let walked = salvage.records_after(position, &mut |record| {
            lost.insert(record.position, record.payload.to_vec());
            Ok(())
        });
        walked.unwrap();
        for (position, payload) in &lost {
            assert!(self.records[usize::try_from(position - 1).unwrap()] == *payload);
        }
        drop(salvage);
        let at = position.to_string();
        let give_up = |export: &Path| {
            let export = export.to_str().unwrap().to_owned();
            let words = ["recover", "--data", text(&data), "--give-up-after", &at];
            let more = ["--give-up-readable", "--reveal", "--export"];
            let words = words.iter().chain(&more).map(|word| (*word).to_owned());
            words.chain([export]).collect::<Vec<_>>()
        };
        let mut exports = vec![self.new_path("export")];
        let words = give_up(&exports[0]);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let ended = self.run(Tool::Recover, cut, &words);
        let is_done = Self::done(&ended);
        if !is_done {
            all_kept(&before, &data);
            if self.any_tool_on_damage(&data) {
                // A server has passed over what was damaged, and gone on from there.
                before = bytes_of(&data);
            }
        }
        let now = |data: &Path| {
            let mut nothing = Replaying::verifying();
            wal::verify(storage(data), &mut nothing).map(|report| report.log_id)
        };
        match now(&data) {
            // A start has passed over what was damaged, a snapshot: it is the log that it was.
            Ok(log) if log == self.log_id() => {
                self.hold(&data, None);
                return std::fs::remove_dir_all(&data).unwrap();
            }
            Ok(_) => {}
            Err(_) => {
                assert!(!is_done, "what was recovered is verified");
                exports.push(self.new_path("export"));
                let words = give_up(&exports[1]);
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                assert!(Self::done(&self.run(Tool::Recover, None, &words)));
            }
        }
        all_kept(&before, &data);
        // It comes first: who was interrupted later has it already, and finds nothing more to lose.
        let whole: Vec<_> = exports.iter().filter(|file| file.is_file()).collect();
        exported(whole[0], &lost);
        self.trail.push(format!("  recovered up to {position}"));
        if self.random.random_ratio(1, 2) {
            self.trail.push("  goes on in that".to_owned());
            std::fs::remove_dir_all(&self.data).unwrap();
            self.data = data;
            self.forget_after(position);
            self.complete_from = None;
        } else {
            let records = self.records[..usize::try_from(position).unwrap()].to_vec();
            let all = std::mem::replace(&mut self.records, records);
            self.hold(&data, None);
            self.same_tables(&data);
            self.records = all;
            std::fs::remove_dir_all(&data).unwrap();
        }
    }

    fn log_id(&self) -> [u8; 16] {
        let report = wal::verify(storage(&self.data), &mut Replaying::verifying());
        report.unwrap().log_id
    }

    /// Whatever is done with what an interrupted recovery leaves: it says so, or it works. Whether a
    /// server did, and so went on from what it found there.
    fn any_tool_on_damage(&mut self, data: &Path) -> bool {
        let target = self.new_path("target");
        let (data, target) = (text(data), text(&target));
        let choices: [&[&str]; 6] = [
            &["verify", "--data", data],
            &["recover", "--data", data],
            &["inspect", "records", "--data", data],
            &["backup", "--data", data, "--to", target],
            &["restore", "--from", data, "--data", target],
            &["serve", "--data", data],
        ];
        let words = *choices.choose(&mut self.random).unwrap();
        self.trail.push(format!("  {words:?}"));
        if words[0] == "serve" {
            let mut command = crate::support::carebook();
            command.args(["serve", "--listen", "127.0.0.1:0", "--data", data]);
            command
                .arg("--jwks")
                .arg(self.template.crowd.world.path("jwks.json"));
            return match Server::try_spawn(command) {
                Ok(server) => {
                    assert_eq!(server.stop(), Some(0));
                    true
                }
                Err(code) => {
                    assert_eq!(code, Some(3));
                    false
                }
            };
        }
        let ended = self.run(Tool::Verify, None, words);
        assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
        let _ = std::fs::remove_dir_all(target);
        false
    }
}

/// Every file that there was is there byte by byte, under its name or another.
#[track_caller]
fn all_kept(before: &BTreeMap<String, Vec<u8>>, data: &Path) {
    let kept = bytes_of(data);
    let kept: BTreeSet<_> = kept.values().collect();
    for (name, bytes) in before {
        assert!(kept.contains(bytes), "{name} of before is gone");
    }
}

/// Everything in a directory but its lock.
fn bytes_of(data: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = files(data).into_iter();
    let named = all.map(|file| (text(file.strip_prefix(data).unwrap()).to_owned(), file));
    let ours = named.filter(|(name, _)| name != "lock" && !name.ends_with(".new"));
    ours.map(|(name, file)| (name, std::fs::read(file).unwrap()))
        .collect()
}

/// A file has these records and no other, in their order.
#[track_caller]
fn exported(file: &Path, lost: &BTreeMap<u64, Vec<u8>>) {
    let lines = std::fs::read_to_string(file).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), lost.len());
    for (line, (position, payload)) in lines.iter().zip(lost) {
        let record = carebook::journal::record::Record::decode(payload).unwrap();
        assert_eq!(line["position"], *position);
        assert_eq!(line["error"], Value::Null, "{line}");
        let key = record.key.as_ref().map(|key| key.key.to_string());
        assert_eq!(line["key"], json!(key));
        assert_eq!(line["at"], record.at.to_string());
    }
}
