//! A batch of reference facts: several are in flight at once, facts of one resource keep their
//! order, and each result is counted.
//!
//! Facts are admitted like commands. When there is no room for one more, a batch waits for its own facts in flight
//! first, then a little longer, and then ends.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::limits::admission::{Admission, Permit};
use super::{CommandResult, Engine};
use crate::base::actor::Actor;
use crate::base::digest::Digest;
use crate::domain::fact_kinds::FACTS;
use crate::domain::reference::fact_lines::{Incoming, Label, Line, Summary};
use crate::domain::reference::put::FactResult;
use crate::domain::rejection::Class;

/// Maximum number of facts of one batch in flight.
const IN_FLIGHT_MAX: usize = 512;
/// Maximum memory of a fact, in bytes for each byte of its line: in an array of the shortest distinct strings, each
/// takes four bytes, and 32 when decoded.
const BYTES_PER_LINE_BYTE: usize = 8;
/// How long, and how many times, a batch waits to be admitted.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSES_MAX: u32 = 100;

/// A batch that is being applied.
pub struct FactBatch<'a> {
    engine: &'a Arc<Engine>,
    actor: Arc<Actor>,
    /// Budget that the lines are charged to while they are in flight.
    budget: Option<Arc<Admission>>,
    summary: Summary,
    /// Facts in flight.
    tasks: JoinSet<(Label, CommandResult)>,
    /// Resources in flight, and the resource of each fact in flight.
    busy: HashSet<Digest>,
    numbers: HashMap<u64, Digest>,
    position: u64,
    /// The first result that ends the batch.
    ended_by: Option<CommandResult>,
}

/// Why a batch ended early.
#[derive(Debug)]
pub struct Ended {
    /// The result that ended it.
    pub reply: CommandResult,
    /// Number of facts applied before. They remain, and sending the batch again is safe.
    pub applied: u64,
}

impl<'a> FactBatch<'a> {
    /// Creates a batch that `actor` applies.
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
            ended_by: None,
        }
    }

    /// Charges the batch's lines to the budget while they are in flight.
    #[must_use]
    pub fn charged_to(self, budget: &Arc<Admission>) -> Self {
        Self {
            budget: Some(Arc::clone(budget)),
            ..self
        }
    }

    /// Applies one fact. Waits when many facts are in flight, when one of the same resource is, or when there is no
    /// room for it.
    pub async fn take(&mut self, incoming: Incoming) {
        self.take_charged(incoming, None).await;
    }

    /// Parses a line and applies its fact, as [`FactBatch::take`] does. Its memory is charged before it is parsed, so
    /// a batch that waits for room holds no more memory than it is charged for.
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
        if self.ended_by.is_some() {
            return;
        }
        let kind = label.kind.as_deref().unwrap_or_default();
        let id = label.id.as_ref().map_or("", |id| id.as_str());
        let resource = Digest::of(0, &[kind, id]);
        while self.tasks.len() >= IN_FLIGHT_MAX || self.busy.contains(&resource) {
            self.finish_one().await;
            // The resource of a fact that panicked stays busy, so no further fact of the batch is accepted.
            if self.ended_by.is_some() {
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

    /// Waits until `admit` admits one more fact; `None` when the batch ends.
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
                self.ended_by = Some(CommandResult::Overloaded);
            }
            if self.ended_by.is_some() {
                return None;
            }
        }
    }

    async fn finish_one(&mut self) {
        let Some(finished) = self.tasks.join_next().await else {
            return;
        };
        let Ok((label, reply)) = finished else {
            self.ended_by = Some(CommandResult::Fault);
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
            // The response is the rejection of an actor that may no longer act; nothing more of its batch is applied.
            CommandResult::Refused { ref rejection, .. } if rejection.class == Class::Forbidden => {
                self.ended_by.get_or_insert(reply);
            }
            CommandResult::Refused {
                rejection,
                position,
            } => {
                self.position = self.position.max(position);
                let result = FactResult::of_refusal(&rejection);
                self.summary.count(label, result, rejection.faults);
            }
            other => {
                self.ended_by.get_or_insert(other);
            }
        }
    }

    /// Whether an error has ended the batch.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.ended_by.is_some()
    }

    /// Waits until nothing is in flight.
    pub async fn wait_for_all(&mut self) {
        while !self.tasks.is_empty() {
            self.finish_one().await;
        }
    }

    /// Ends the batch with this result, unless it has ended already.
    pub fn end(&mut self, reply: CommandResult) {
        self.ended_by.get_or_insert(reply);
    }

    /// Waits for the facts in flight; returns the summary, and the position that it depends on.
    ///
    /// # Errors
    /// When the batch ended early.
    pub async fn finish(mut self) -> Result<(Summary, u64), Ended> {
        self.wait_for_all().await;
        match self.ended_by {
            Some(reply) => Err(Ended {
                reply,
                applied: self.summary.applied,
            }),
            None => Ok((self.summary, self.position)),
        }
    }
}
