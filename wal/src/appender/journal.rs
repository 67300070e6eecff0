//! The journal thread.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::events::Events;
use super::gathering::{FEW, gathered_beside};
use super::queue::Shared;
use crate::batched::Batched;
use crate::error::Error;

use crate::medium::{BatchWriter, Medium};

enum Task {
    Write,
    /// A batch that was begun has become durable.
    Settle,
    Seal,
    Stop,
}

/// A batch that was begun and is not durable yet.
pub(super) struct Begun {
    at: Instant,
    records: usize,
    bytes: usize,
}

/// The state of the journal thread.
pub(super) struct Journal {
    pub(super) shared: Arc<Shared>,
    pub(super) medium: Arc<dyn Medium>,
    pub(super) writer: Box<dyn BatchWriter>,
    pub(super) batch_bytes_max: usize,
    /// How long nothing must be appended before the last batch gets a seal.
    pub(super) seal_after: Duration,
    /// When the last records were taken from the queue; `batch_records` is how many they were.
    pub(super) batch_began: Instant,
    pub(super) batch_records: usize,
    /// The batches that are not durable yet, the oldest first.
    pub(super) begun: VecDeque<Begun>,
    /// When a batch that was begun last became durable; `took` is about how long such a batch takes,
    /// and zero when each is durable before the next one begins.
    pub(super) settled: Instant,
    pub(super) took: Duration,
}

impl Journal {
    pub(super) fn run(mut self, mut events: Box<dyn Events>) {
        let _ = self.shared.journal.set(thread::current().id());
        // A panic here, ours or a callback's, must not leave callers waiting
        // for a thread that is gone.
        let ended = catch_unwind(AssertUnwindSafe(|| self.work(events.as_mut())));
        let error = match ended {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(Error::Stopped {
                reason: "the journal thread panicked".into(),
            }),
        };
        if let Some(error) = error {
            {
                let reason: Arc<str> = error.to_string().into();
                let mut queue = self.shared.queue.lock();
                let _ = self.shared.failure.set(Arc::clone(&reason));
                queue.closed = Some(reason);
                queue.records.clear(0);
            }
            let _ = catch_unwind(AssertUnwindSafe(|| events.failed(&error)));
        }
        self.medium.stop();
        // The call that told this thread to stop may have come from one of its callbacks, which cannot
        // wait for this.
        if self.shared.stopping.load(Ordering::SeqCst) {
            self.medium.close();
        }
    }

    fn work(&mut self, events: &mut dyn Events) -> Result<(), Error> {
        let mut records = Batched::with_room();
        loop {
            match self.wait(&mut records, events)? {
                Task::Write => {
                    self.write(&mut records, events)?;
                    // One huge batch must not keep its memory for good.
                    records.clear(self.batch_bytes_max);
                }
                Task::Settle => self.settle(events)?,
                Task::Seal => self.writer.seal()?,
                Task::Stop => return self.writer.finish(),
            }
        }
    }

    /// Waits for something to do; takes all records that are queued.
    fn wait(&mut self, records: &mut Batched, events: &dyn Events) -> Result<Task, Error> {
        let shared = Arc::clone(&self.shared);
        let begun: usize = self.begun.iter().map(|begun| begun.records).sum();
        let (enough, apart) = gathered_beside(events.in_flight(), begun, self.took);
        let mut queue = shared.queue.lock();
        let seal_at = (self.begun.is_empty() && self.writer.is_unsealed())
            .then(|| Instant::now() + self.seal_after);
        // A lone appender is not kept waiting.
        let mut gather_until = (self.batch_records >= FEW).then(|| self.gathers_from() + apart);
        loop {
            if self.writer.has_settled() {
                return Ok(Task::Settle);
            }
            if let Some(failure) = self.writer.failure() {
                return Err(failure);
            }
            if !self.writer.may_begin() {
                queue.wake_at = None;
                shared.work.wait(&mut queue);
                continue;
            }
            let stopping = shared.stopping.load(Ordering::SeqCst);
            if let Some(until) = gather_until
                && queue.records.count() < enough
                && !stopping
            {
                queue.wake_at = Some(enough);
                if shared.work.wait_until(&mut queue, until).timed_out() {
                    gather_until = None;
                }
                queue.wake_at = None;
                continue;
            }
            if !queue.records.is_empty() {
                std::mem::swap(records, &mut queue.records);
                self.batch_began = Instant::now();
                self.batch_records = records.count();
                return Ok(Task::Write);
            }
            if stopping && self.begun.is_empty() {
                return Ok(Task::Stop);
            }
            queue.wake_at = Some(1);
            match seal_at {
                None => shared.work.wait(&mut queue),
                Some(at) => {
                    let late = shared.work.wait_until(&mut queue, at).timed_out();
                    if late && queue.records.is_empty() && !shared.stopping.load(Ordering::SeqCst) {
                        queue.wake_at = None;
                        return Ok(Task::Seal);
                    }
                }
            }
            queue.wake_at = None;
        }
    }

    /// Returns the time from which the next batch is gathered. When no batch is in flight, the callers
    /// that were just answered may be about to append.
    fn gathers_from(&self) -> Instant {
        match self.begun.is_empty() {
            true => self.batch_began.max(self.settled),
            false => self.batch_began,
        }
    }

    fn write(&mut self, records: &mut Batched, events: &mut dyn Events) -> Result<(), Error> {
        for batch in records.batches(self.batch_bytes_max) {
            self.until_it_may_begin(events)?;
            self.writer.make_room(batch)?;
            let at = Instant::now();
            match self.writer.begin(batch)? {
                Some(last) => {
                    let bytes = batch.payload_bytes();
                    self.shared.note_durable(bytes, at.elapsed(), last);
                    events.durable(last);
                }
                None => self.begun.push_back(Begun {
                    at,
                    records: batch.count(),
                    bytes: batch.payload_bytes(),
                }),
            }
        }
        Ok(())
    }

    /// Waits until another batch may be begun; reports meanwhile what has become durable.
    fn until_it_may_begin(&mut self, events: &mut dyn Events) -> Result<(), Error> {
        while !self.writer.may_begin() {
            let shared = Arc::clone(&self.shared);
            let mut queue = shared.queue.lock();
            while !self.writer.has_settled() && !self.writer.may_begin() {
                if let Some(failure) = self.writer.failure() {
                    return Err(failure);
                }
                shared.work.wait(&mut queue);
            }
            drop(queue);
            self.settle(events)?;
        }
        Ok(())
    }

    /// Reports all batches that were begun and have become durable.
    fn settle(&mut self, events: &mut dyn Events) -> Result<(), Error> {
        while let Some(last) = self.writer.settle()? {
            let Some(begun) = self.begun.pop_front() else {
                return Err(Error::Stopped {
                    reason: "a batch has become durable that was not begun".into(),
                });
            };
            let took = begun.at.elapsed();
            self.took = (self.took * 7 + took) / 8;
            self.settled = Instant::now();
            self.shared.note_durable(begun.bytes, took, last);
            events.durable(last);
        }
        Ok(())
    }
}
