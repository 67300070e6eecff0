//! A node that follows: it reads the journal and has its engine apply what another node has written.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio_rustls::rustls::ClientConfig;
use wal::{Report, Visitor as _};

use super::super::ending::end;
use super::super::exit::Failure;
use super::super::open::Opening;
use super::JournalArgs;
use crate::engine::Engine;
use crate::engine::role::Role;
use crate::engine::standby::NotApplied;
use crate::stream::error::StreamError;
use crate::stream::link::Link;
use crate::stream::reader::{Reader, tail_at};

/// How long the next message is waited for before something else is looked at.
const TURN: Duration = Duration::from_millis(100);
/// How often the journal is asked for its end.
const LOOK: Duration = Duration::from_millis(500);

/// What brings an engine that follows what was written.
pub struct Follower {
    reader: Reader,
    link: Arc<Link>,
    looked: Option<Instant>,
}

/// Why a node does not follow any further.
enum Stop {
    /// The service ends.
    Ended,
    Journal(StreamError),
    Engine(NotApplied),
}

impl Stop {
    /// Ends the process, with the exit code of this reason.
    fn end(&self) {
        match self {
            Self::Ended => {}
            Self::Journal(error) if error.is_fenced() => end(&error.to_string(), 5),
            Self::Journal(error) if error.is_damage() => end(&error.to_string(), 3),
            Self::Journal(error) => end(&error.to_string(), 1),
            Self::Engine(NotApplied::Unfit(error)) if error.is_of_other_version() => {
                end(&error.to_string(), 5);
            }
            Self::Engine(error) => end(&format!("the journal cannot be followed: {error}"), 3),
        }
    }
}

impl From<StreamError> for Stop {
    fn from(error: StreamError) -> Self {
        Self::Journal(error)
    }
}

impl From<NotApplied> for Stop {
    fn from(error: NotApplied) -> Self {
        match error {
            NotApplied::Ended => Self::Ended,
            error => Self::Engine(error),
        }
    }
}

/// What a node does beside its engine.
pub enum Node {
    /// It writes.
    Writer(Arc<Link>),
    /// It follows.
    Standby(Box<Follower>),
}

impl Node {
    /// The node's hold on the journal.
    #[must_use]
    pub fn link(&self) -> &Arc<Link> {
        match self {
            Self::Writer(link) => link,
            Self::Standby(follower) => &follower.link,
        }
    }

    /// Begins to do it.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(in super::super) fn start(self, engine: &Arc<Engine>) -> Result<(), Failure> {
        match self {
            Self::Writer(_) => Ok(()),
            Self::Standby(follower) => follower.start(engine),
        }
    }
}

impl JournalArgs {
    /// Opens the directory as the copy of the journal, for an engine that writes it or follows.
    ///
    /// # Errors
    /// When the journal cannot be used, does not belong to the directory, or is another's.
    pub(in super::super) fn open(
        &self,
        data: &Path,
        opening: Opening,
        trusted: &ClientConfig,
    ) -> Result<(Engine, Report, Node), Failure> {
        match self.standby {
            true => {
                let (engine, report, follower) = self.follow(data, opening, trusted)?;
                Ok((engine, report, Node::Standby(Box::new(follower))))
            }
            false => {
                let (engine, report, link) = self.write(data, opening, trusted)?;
                Ok((engine, report, Node::Writer(link)))
            }
        }
    }

    fn follow(
        &self,
        data: &Path,
        opening: Opening,
        trusted: &ClientConfig,
    ) -> Result<(Engine, Report, Follower), Failure> {
        let mut begun = self.begin(data, opening, trusted)?;
        let position = begun.opened.log.last_position();
        let all = begun.filling.end();
        all.map_err(|source| Failure::of_log(&wal::Error::Visitor { position, source }))?;
        let link = Arc::clone(&begun.link);
        tracing::info!(
            position,
            node = link.node(),
            "this process follows the journal"
        );
        let (engine, report, reader) = begun.start(Role::Standby)?;
        let follower = Follower {
            reader,
            link,
            looked: None,
        };
        Ok((engine, report, follower))
    }
}

impl Follower {
    /// Follows, on a thread of its own, until the service ends.
    ///
    /// # Errors
    /// When the thread cannot be started.
    fn start(self: Box<Self>, engine: &Arc<Engine>) -> Result<(), Failure> {
        let engine = Arc::clone(engine);
        let thread = thread::Builder::new().name("following".to_owned());
        let spawned = thread.spawn(move || match self.run(&engine) {
            Ok(()) | Err(Stop::Ended) => {}
            Err(stop) => stop.end(),
        });
        spawned.map(drop).map_err(Failure::from_error)
    }

    fn run(mut self, engine: &Engine) -> Result<(), Stop> {
        while !engine.feed().has_ended() {
            self.look(engine)?;
            self.take_next(engine, TURN)?;
        }
        Ok(())
    }

    /// Applies what the next message has, if one comes in this time; whether one came.
    fn take_next(&mut self, engine: &Engine, within: Duration) -> Result<bool, Stop> {
        let Some(received) = self.reader.next(within)? else {
            return Ok(false);
        };
        if let Some(records) = received.records() {
            engine.apply(received.first, records.iter())?;
        }
        if received.pending == 0 {
            engine.heard(self.reader.tail().next - 1);
        }
        Ok(true)
    }

    /// Asks for the journal's end now and then, so that it is known how much is missing here. While
    /// nobody answers, that grows old.
    fn look(&mut self, engine: &Engine) -> Result<(), Stop> {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return Ok(());
        }
        let connection = Arc::clone(self.link.connection());
        self.looked = Some(Instant::now());
        let Ok(info) = connection.block(connection.info()) else {
            return Ok(());
        };
        let tail = self.reader.tail();
        let last = match info.last > tail.sequence {
            false => tail.next - 1,
            true => match tail_at(&connection, info.last) {
                Ok(end) => end.next - 1,
                Err(_) => return Ok(()),
            },
        };
        engine.heard(last);
        Ok(())
    }
}
