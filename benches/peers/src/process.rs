//! Servers as child processes: starting, ending, their processor time, and their directories.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// How long a server may take to end before it is killed.
const ENDING_MAX: Duration = Duration::from_secs(20);

/// Who a server runs as.
#[derive(Clone, Copy)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// This user of the system, when there is one.
    pub(crate) fn named(name: &str) -> anyhow::Result<Self> {
        let users = fs::read_to_string("/etc/passwd").context("/etc/passwd")?;
        users
            .lines()
            .find_map(|line| Self::of_line(name, line))
            .with_context(|| format!("there is no user {name}"))
    }

    fn of_line(name: &str, line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        Some(Self {
            uid: fields.nth(1)?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    }
}

/// Whether this process may become any user.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A private directory; removed with all that is in it when dropped.
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Makes this directory, which must be missing or empty, for this user only.
    pub(crate) fn make(path: &Path, owner: Option<User>) -> anyhow::Result<Self> {
        let context = || path.display().to_string();
        if path.exists() {
            let mut entries = fs::read_dir(path).with_context(context)?;
            ensure!(entries.next().is_none(), "{} is not empty", path.display());
            fs::remove_dir(path).with_context(context)?;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(context)?;
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(path)
            .with_context(context)?;
        let path = path.canonicalize().with_context(context)?;
        if let Some(User { uid, gid }) = owner {
            chown(&path, Some(uid), Some(gid)).with_context(context)?;
        }
        Ok(Self { path })
    }

    /// Makes a directory with a short path, as that of a Unix socket has to be.
    pub(crate) fn temporary(purpose: &str, owner: Option<User>) -> anyhow::Result<Self> {
        Self::make(&temporary_path(purpose), owner)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("{} is still there: {error}", self.path.display());
        }
    }
}

/// A path for a directory of this process.
pub(crate) fn temporary_path(purpose: &str) -> PathBuf {
    let name = format!("carebook-peers-{}-{purpose}", std::process::id());
    std::env::temp_dir().join(name)
}

/// A command that runs `program` as this user, in the process that is started.
///
/// `setpriv` becomes the program. It asks the kernel for the signal `at_death` to the program when
/// this process ends, however it ends: no server is ever left behind.
pub(crate) fn command(program: &Path, user: Option<User>, at_death: &str) -> Command {
    let mut command = Command::new("setpriv");
    if let Some(User { uid, gid }) = user {
        command
            .arg(format!("--reuid={uid}"))
            .arg(format!("--regid={gid}"))
            .arg("--clear-groups");
    }
    command
        .arg(format!("--pdeathsig={at_death}"))
        .arg("--")
        .arg(program)
        .stdin(Stdio::null());
    command
}

/// A running server, ended when dropped.
pub(crate) struct Server {
    child: Child,
    name: String,
    log: PathBuf,
    ending: Signal,
}

impl Server {
    /// Starts the server, which writes what it has to say to the file `log`; the signal `ending`
    /// ends it.
    pub(crate) fn start(
        mut command: Command,
        name: &str,
        log: PathBuf,
        ending: Signal,
    ) -> anyhow::Result<Self> {
        let file = fs::File::create(&log)?;
        let child = command
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{name} does not start"))?;
        Ok(Self {
            child,
            name: name.to_owned(),
            log,
            ending,
        })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// An error with the log of the server, when it has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        let mut log = String::new();
        if let Ok(mut file) = fs::File::open(&self.log) {
            file.read_to_string(&mut log)?;
        }
        bail!("{} has ended, {status}:\n{log}", self.name);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Only a child that has not been waited for has its number for sure.
        if let Ok(Some(_)) = self.child.try_wait() {
            return;
        }
        if let Err(error) = kill_process(Pid::from_child(&self.child), self.ending) {
            eprintln!("{} cannot be ended: {error}", self.name);
        }
        let started = Instant::now();
        while started.elapsed() < ENDING_MAX {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                _ => return,
            }
        }
        eprintln!("{} does not end: it is killed", self.name);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for SIGTERM or SIGINT.
pub(crate) async fn signalled() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Waits for what ends a service: SIGTERM, SIGINT or the end of standard input.
pub(crate) async fn asked_to_end() -> anyhow::Result<()> {
    let (ended, end) = tokio::sync::oneshot::channel();
    // Not a thread of the runtime, which would wait for it.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = ended.send(());
    });
    tokio::select! {
        signalled = signalled() => signalled,
        _ = end => Ok(()),
    }
}

/// Processor time in microseconds that these processes and all that descend from them have used so
/// far, as far as they are still there.
pub(crate) fn processor_micros(root: u32) -> anyhow::Result<u64> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut used = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // It may have ended in between.
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else {
            continue;
        };
        let (parent, micros) = parent_and_micros(&stat).context("/proc/PID/stat")?;
        children.entry(parent).or_default().push(id);
        used.insert(id, micros);
    }
    let mut sum = 0;
    let mut left = vec![root];
    while let Some(id) = left.pop() {
        sum += used.get(&id).copied().unwrap_or_default();
        left.extend(children.remove(&id).unwrap_or_default());
    }
    Ok(sum)
}

/// The parent and the processor time of a process, by what `/proc/PID/stat` says.
fn parent_and_micros(stat: &str) -> Option<(u32, u64)> {
    // The name of the process, in parentheses, may hold spaces.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(1);
    let parent = fields.next()?.parse().ok()?;
    let user: u64 = fields.nth(9)?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    // USER_HZ is 100 on every Linux: a tick is ten milliseconds.
    Some((parent, (user + kernel) * 10_000))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_a_name_with_spaces() {
        let stat = "42 (a b) c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0 5";
        assert_eq!(parent_and_micros(stat), Some((7, 2_000_000)));
    }

    #[test]
    fn processor_time_includes_that_of_children() {
        let own = std::process::id();
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let started = Instant::now();
        let mut used = 0;
        while used == 0 && started.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
            used = processor_micros(child.id()).unwrap();
        }
        let all = processor_micros(own).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_ne!(used, 0);
        assert!(all >= used, "{all} {used}");
    }

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let line = "postgres:x:101:104:PostgreSQL:/var/lib/postgresql:/bin/bash";
        let user = User::of_line("postgres", line).unwrap();
        assert_eq!((user.uid, user.gid), (101, 104));
        assert!(User::of_line("post", line).is_none());
    }

    #[test]
    fn a_directory_with_something_in_it_is_not_taken() {
        let path = temporary_path("taken");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("file"), "kept").unwrap();
        assert!(Directory::make(&path, None).is_err());
        assert_eq!(fs::read_to_string(path.join("file")).unwrap(), "kept");
        fs::remove_file(path.join("file")).unwrap();
        drop(Directory::make(&path, None).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn a_server_ends_when_dropped() {
        let directory = Directory::temporary("ends", None).unwrap();
        let mut command = command(Path::new("sleep"), None, "KILL");
        command.arg("1000");
        let log = directory.path().join("log");
        let mut server = Server::start(command, "sleep", log, Signal::TERM).unwrap();
        server.check().unwrap();
        let id = server.id();
        drop(server);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }
}
