//! A batch of reference facts on its way in: some are in flight at once, facts of one resource keep
//! their order, and each is counted by what came of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Engine, Reply};
use crate::base::actor::Actor;
use crate::base::digest::Digest;
use crate::domain::reference::intake::{Incoming, Label, Summary};
use crate::domain::reference::put::FactResult;
use crate::domain::rejection::Class;

/// Facts of one batch that may be in flight at once.
const IN_FLIGHT_MAX: usize = 512;

/// A batch on its way.
pub struct Batch<'a> {
    engine: &'a Arc<Engine>,
    actor: Arc<Actor>,
    summary: Summary,
    /// Facts in flight.
    tasks: JoinSet<(Label, Reply)>,
    /// The resources in flight, and by the number of the fact which one it is.
    busy: HashSet<Digest>,
    numbers: HashMap<u64, Digest>,
    position: u64,
    /// The first answer that was neither done nor refused.
    trouble: Option<Reply>,
}

impl<'a> Batch<'a> {
    /// A batch that `actor` puts in place.
    #[must_use]
    pub fn new(engine: &'a Arc<Engine>, actor: Arc<Actor>) -> Self {
        Self {
            engine,
            actor,
            summary: Summary::default(),
            tasks: JoinSet::new(),
            busy: HashSet::new(),
            numbers: HashMap::new(),
            position: engine.durable(),
            trouble: None,
        }
    }

    /// Takes one fact in; waits when many are in flight, or one of the same resource.
    pub async fn take(&mut self, incoming: Incoming) {
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
        self.busy.insert(resource);
        self.numbers.insert(label.index, resource);
        let (engine, actor) = (Arc::clone(self.engine), Arc::clone(&self.actor));
        self.tasks
            .spawn(async move { (label, engine.put_fact(actor, command).await) });
    }

    async fn finish_one(&mut self) {
        let Some(finished) = self.tasks.join_next().await else {
            return;
        };
        let Ok((label, reply)) = finished else {
            self.trouble = Some(Reply::Fault);
            return;
        };
        if let Some(resource) = self.numbers.remove(&label.index) {
            self.busy.remove(&resource);
        }
        match reply {
            Reply::Done { body, position, .. } => {
                self.position = self.position.max(position);
                let result = serde_json::from_slice(&body).unwrap_or(FactResult::Unchanged);
                self.summary.count(label, result, Vec::new());
            }
            // Whoever may not act any more is told that, and nothing more of its batch is taken.
            Reply::Refused { ref rejection, .. } if rejection.class == Class::Forbidden => {
                self.trouble.get_or_insert(reply);
            }
            Reply::Refused {
                rejection,
                position,
            } => {
                self.position = self.position.max(position);
                self.summary
                    .count(label, FactResult::of_refusal(&rejection), Vec::new());
            }
            other => self.trouble = Some(other),
        }
    }

    /// Whether something went wrong that ends the batch.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.trouble.is_some()
    }

    /// Waits for what is in flight; what came of the batch, and the position it rests on.
    ///
    /// # Errors
    /// The first reply that was neither done nor refused. What was applied before stays so, and
    /// sending the batch again is safe.
    pub async fn finish(mut self) -> Result<(Summary, u64), Reply> {
        while !self.tasks.is_empty() {
            self.finish_one().await;
        }
        match self.trouble {
            Some(reply) => Err(reply),
            None => Ok((self.summary, self.position)),
        }
    }
}
