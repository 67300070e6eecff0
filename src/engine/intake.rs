//! A batch of reference facts on its way in: some are in flight at once, facts of one resource keep
//! their order, and each is counted by what came of it.
//!
//! Facts are admitted as commands are. Where there is no room for one more, a batch waits for its
//! own facts first, then a little, and ends.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::admission::{Admission, Permit};
use super::{CommandResult, Engine};
use crate::base::actor::Actor;
use crate::base::digest::Digest;
use crate::catalogue::FACTS;
use crate::domain::reference::intake::{Incoming, Label, Line, Summary};
use crate::domain::reference::put::FactResult;
use crate::domain::rejection::Class;

/// Facts of one batch that may be in flight at once.
const IN_FLIGHT_MAX: usize = 512;
/// What a fact takes of memory, at most, for each byte of its line: an array of the shortest
/// strings that are told apart has four bytes for each of them, which take 32 as they are kept.
const BYTES_PER_LINE_BYTE: usize = 8;
/// How often, and how many times, a batch that is not admitted tries again.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSES_MAX: u32 = 100;

/// A batch on its way.
pub struct FactBatch<'a> {
    engine: &'a Arc<Engine>,
    actor: Arc<Actor>,
    /// What its lines are charged to while they are in flight.
    budget: Option<Arc<Admission>>,
    summary: Summary,
    /// Facts in flight.
    tasks: JoinSet<(Label, CommandResult)>,
    /// The resources in flight, and by the number of the fact which one it is.
    busy: HashSet<Digest>,
    numbers: HashMap<u64, Digest>,
    position: u64,
    /// The first answer that ends the batch.
    trouble: Option<CommandResult>,
}

/// Why a batch ended early.
#[derive(Debug)]
pub struct Ended {
    /// The first reply that ended it.
    pub reply: CommandResult,
    /// How many facts were applied before. They stay so, and sending the batch again is safe.
    pub applied: u64,
}

impl<'a> FactBatch<'a> {
    /// A batch that `actor` puts in place.
    #[must_use]
    pub fn new(engine: &'a Arc<Engine>, actor: Arc<Actor>) -> Self {
        Self {
            engine,
            actor,
            budget: None,
            summary: Summary::default(),
            tasks: JoinSet::new(),
            busy: HashSet::new(),
            numbers: HashMap::new(),
            position: engine.durable(),
            trouble: None,
        }
    }

    /// The same, whose lines are charged to the budget while they are in flight.
    #[must_use]
    pub fn charged_to(self, budget: &Arc<Admission>) -> Self {
        Self {
            budget: Some(Arc::clone(budget)),
            ..self
        }
    }

    /// Takes one fact in; waits when many are in flight, or one of the same resource, or when there
    /// is no room for it.
    pub async fn take(&mut self, incoming: Incoming) {
        self.take_charged(incoming, None).await;
    }

    /// Reads a line and takes its fact in, as [`FactBatch::take`] does. What the fact takes of memory is
    /// charged before it is read: who waits for room holds no more than it is charged.
    pub async fn take_line(&mut self, line: &Line<'_>) {
        let share = match self.budget.clone() {
            None => None,
            Some(budget) => {
                let bytes = line.bytes() * BYTES_PER_LINE_BYTE;
                match self.room(|| Admission::admit(&budget, bytes)).await {
                    None => return,
                    share => share,
                }
            }
        };
        let incoming = Incoming::of_line(line, FACTS, self.engine.now());
        self.take_charged(incoming, share).await;
    }

    async fn take_charged(&mut self, incoming: Incoming, share: Option<Permit>) {
        let Incoming { label, command } = incoming;
        let command = match command {
            Ok(command) => command,
            Err(faults) => return self.summary.count(label, FactResult::Invalid, faults),
        };
        if self.trouble.is_some() {
            return;
        }
        let kind = label.kind.as_deref().unwrap_or_default();
        let id = label.id.as_ref().map_or("", |id| id.as_str());
        let resource = Digest::of(0, &[kind, id]);
        while self.tasks.len() >= IN_FLIGHT_MAX || self.busy.contains(&resource) {
            self.finish_one().await;
            // The resource of a fact that panicked stays busy: nothing more is taken.
            if self.trouble.is_some() {
                return;
            }
        }
        let engine = self.engine;
        let Some(permit) = self.room(|| engine.admit_fact()).await else {
            return;
        };
        self.busy.insert(resource);
        self.numbers.insert(label.index, resource);
        let (engine, actor) = (Arc::clone(self.engine), Arc::clone(&self.actor));
        self.tasks.spawn(async move {
            let reply = engine.put_fact(actor, command, permit).await;
            drop(share);
            (label, reply)
        });
    }

    /// Waits for room for one more fact, as `admit` finds it; `None` when the batch ends.
    async fn room<T>(&mut self, admit: impl Fn() -> Option<T>) -> Option<T> {
        let mut pauses = 0;
        loop {
            if let Some(room) = admit() {
                return Some(room);
            }
            if !self.tasks.is_empty() {
                self.finish_one().await;
            } else if pauses < PAUSES_MAX {
                pauses += 1;
                tokio::time::sleep(PAUSE).await;
            } else {
                self.trouble = Some(CommandResult::Overloaded);
            }
            if self.trouble.is_some() {
                return None;
            }
        }
    }

    async fn finish_one(&mut self) {
        let Some(finished) = self.tasks.join_next().await else {
            return;
        };
        let Ok((label, reply)) = finished else {
            self.trouble = Some(CommandResult::Fault);
            return;
        };
        if let Some(resource) = self.numbers.remove(&label.index) {
            self.busy.remove(&resource);
        }
        match reply {
            CommandResult::Done { body, position, .. } => {
                self.position = self.position.max(position);
                let result = serde_json::from_slice(&body).unwrap_or(FactResult::Unchanged);
                self.summary.count(label, result, Vec::new());
            }
            // Whoever may not act any more is told that, and nothing more of its batch is taken.
            CommandResult::Refused { ref rejection, .. } if rejection.class == Class::Forbidden => {
                self.trouble.get_or_insert(reply);
            }
            CommandResult::Refused {
                rejection,
                position,
            } => {
                self.position = self.position.max(position);
                self.summary
                    .count(label, FactResult::of_refusal(&rejection), Vec::new());
            }
            other => {
                self.trouble.get_or_insert(other);
            }
        }
    }

    /// Whether something went wrong that ends the batch.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.trouble.is_some()
    }

    /// Waits until nothing is in flight.
    pub async fn settle(&mut self) {
        while !self.tasks.is_empty() {
            self.finish_one().await;
        }
    }

    /// Ends the batch with this reply, unless it has ended already.
    pub fn end(&mut self, reply: CommandResult) {
        self.trouble.get_or_insert(reply);
    }

    /// Waits for what is in flight; what came of the batch, and the position it rests on.
    ///
    /// # Errors
    /// When the batch ended early.
    pub async fn finish(mut self) -> Result<(Summary, u64), Ended> {
        self.settle().await;
        match self.trouble {
            Some(reply) => Err(Ended {
                reply,
                applied: self.summary.applied,
            }),
            None => Ok((self.summary, self.position)),
        }
    }
}
