//! A thread that processes the tasks of a reading thread, in order, in chunks. Such a thread with its queue is called
//! a worker here.
//!
//! The memory of chunks is reused. So many chunks may wait that a thread without a processor for a moment does not
//! delay the others. Tasks that fit into one chunk start no thread: the caller of [`ReplayThread::end`] does them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use super::replay_error::ReplayError;

/// Size of a chunk, in bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// Number of chunks that may wait in all workers together; in one worker, at least `CHUNKS_LEAST` and at most
/// `CHUNKS_MOST`.
const CHUNKS: usize = 32;
const CHUNKS_LEAST: usize = 4;
const CHUNKS_MOST: usize = 16;

/// Number of tasks looked ahead for: the data prefetched for them fits into a processor's cache.
const AHEAD: usize = 256;

/// Work of a worker.
pub(super) trait ReplayWork: Send + 'static {
    /// Data of each task, beside its bytes.
    type Task: Send;

    /// Prefetches for tasks that are about to be done.
    fn look_ahead(&self, _tasks: &[(Self::Task, usize)]) {}

    /// Does one task.
    ///
    /// # Errors
    /// When no later task may be done.
    fn work(&mut self, task: &Self::Task, bytes: &[u8]) -> Result<(), ReplayError>;
}

/// Tasks in order, each with the number of its bytes.
struct Chunk<T> {
    tasks: Vec<(T, usize)>,
    bytes: Vec<u8>,
}

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        Self {
            tasks: Vec::new(),
            bytes: Vec::new(),
        }
    }
}

impl<T> Chunk<T> {
    fn work<W: ReplayWork<Task = T>>(&self, work: &mut W) -> Result<(), ReplayError> {
        let mut rest = self.bytes.as_slice();
        for tasks in self.tasks.chunks(AHEAD) {
            work.look_ahead(tasks);
            for (task, length) in tasks {
                let (bytes, after) = rest.split_at(*length);
                rest = after;
                work.work(task, bytes)?;
            }
        }
        Ok(())
    }
}

/// A worker, as the reading thread uses it.
pub(super) struct ReplayThread<W: ReplayWork> {
    chunk: Chunk<W::Task>,
    failed: Arc<AtomicBool>,
    /// Maximum number of waiting chunks.
    waiting: usize,
    /// The work; `None` once a thread has it.
    work: Option<W>,
    thread: Option<Thread<W>>,
}

struct Thread<W: ReplayWork> {
    /// Queue to the thread; `None` after the last chunk.
    chunks: Option<SyncSender<Chunk<W::Task>>>,
    empty: Receiver<Chunk<W::Task>>,
    /// Bytes of each chunk that has not come back from the thread.
    given: VecDeque<usize>,
    handle: JoinHandle<Result<W, ReplayError>>,
}

impl<W: ReplayWork> Thread<W> {
    /// Passes the chunk to the thread, in exchange for an empty one. Waiting chunks have at most `bytes_most` bytes
    /// beyond one chunk, so that large tasks count by their size.
    fn give(
        &mut self,
        chunk: &mut Chunk<W::Task>,
        bytes_most: usize,
    ) -> Result<(), ReplayThreadFailed> {
        let Some(chunks) = &self.chunks else {
            return Ok(());
        };
        let mut empty = self.empty.try_recv().ok();
        if empty.is_some() {
            self.given.pop_front();
        }
        while self.given.iter().sum::<usize>() > bytes_most {
            empty = Some(self.empty.recv().map_err(|_| ReplayThreadFailed)?);
            self.given.pop_front();
        }
        let full = std::mem::replace(chunk, empty.unwrap_or_default());
        self.given.push_back(full.bytes.len());
        chunks.send(full).map_err(|_| ReplayThreadFailed)
    }
}

/// A worker has failed; [`ReplayThread::end`] returns the error.
#[derive(Debug)]
pub(super) struct ReplayThreadFailed;

impl<W: ReplayWork> ReplayThread<W> {
    /// Creates one of `workers` workers, which does this work. The workers share the flag `failed`, which is set when
    /// one of them fails.
    pub(super) fn new(work: W, workers: usize, failed: &Arc<AtomicBool>) -> Self {
        Self {
            chunk: Chunk::default(),
            failed: Arc::clone(failed),
            waiting: (CHUNKS / workers).clamp(CHUNKS_LEAST, CHUNKS_MOST),
            work: Some(work),
            thread: None,
        }
    }

    /// Adds a task, which is done after all that were added before it.
    ///
    /// # Errors
    /// When a worker has failed.
    pub(super) fn add(&mut self, task: W::Task, bytes: &[u8]) -> Result<(), ReplayThreadFailed> {
        let chunk = &mut self.chunk;
        chunk.tasks.push((task, bytes.len()));
        chunk.bytes.extend_from_slice(bytes);
        if chunk.bytes.len() + chunk.tasks.len() * size_of::<(W::Task, usize)>() < CHUNK_BYTES {
            return Ok(());
        }
        if self.failed.load(Ordering::Acquire) {
            return Err(ReplayThreadFailed);
        }
        if self.thread.is_none()
            && let Some(work) = self.work.take()
        {
            match start(work, self.waiting, Arc::clone(&self.failed)) {
                Ok(thread) => self.thread = Some(thread),
                Err(work) => self.work = work,
            }
        }
        let Some(thread) = &mut self.thread else {
            // Without a thread the chunk stays here, and grows, until the end.
            return Ok(());
        };
        // Beside the waiting chunks, one is being processed, and one is on its way back.
        thread.give(&mut self.chunk, (self.waiting + 2) * CHUNK_BYTES)
    }

    /// Closes the queue: the worker can end while the caller waits for others.
    pub(super) fn close(&mut self) {
        let chunks = self.thread.as_mut().and_then(|thread| thread.chunks.take());
        if let Some(chunks) = chunks {
            // A worker that has failed accepts no more chunks, and returns its error at the end.
            let _ = chunks.send(std::mem::take(&mut self.chunk));
        }
    }

    /// Waits until all tasks are done.
    ///
    /// # Errors
    /// The error of the work.
    pub(super) fn end(mut self) -> Result<W, ReplayError> {
        self.close();
        if let Some(thread) = self.thread {
            let ended = thread.handle.join();
            return ended.unwrap_or_else(|_| Err(ReplayError::panicked()));
        }
        let mut work = self.work.ok_or_else(ReplayError::panicked)?;
        self.chunk.work(&mut work)?;
        Ok(work)
    }
}

/// Starts a worker's thread; returns the work where that is not possible.
fn start<W: ReplayWork>(
    work: W,
    waiting: usize,
    failed: Arc<AtomicBool>,
) -> Result<Thread<W>, Option<W>> {
    let (chunks, incoming) = sync_channel::<Chunk<W::Task>>(waiting);
    let (outgoing, empty): (Sender<Chunk<W::Task>>, _) = channel();
    let given = Arc::new(Mutex::new(Some(work)));
    let taken = Arc::clone(&given);
    let spawned = thread::Builder::new()
        .name("replay".to_owned())
        .spawn(move || {
            let work = taken.lock().take();
            let mut work = work.ok_or_else(ReplayError::panicked)?;
            let mut ended = Ok(());
            for mut chunk in incoming {
                if ended.is_ok() {
                    ended = chunk.work(&mut work);
                }
                if ended.is_err() {
                    // Later chunks are received and dropped, so that senders do not block.
                    failed.store(true, Ordering::Release);
                }
                chunk.tasks.clear();
                chunk.bytes.clear();
                let _ = outgoing.send(chunk);
            }
            ended.map(|()| work)
        });
    match spawned {
        Ok(handle) => Ok(Thread {
            chunks: Some(chunks),
            empty,
            given: VecDeque::new(),
            handle,
        }),
        Err(_) => Err(given.lock().take()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    use super::*;

    /// Maximum number of tasks that may be added before the first one is done.
    const MOST: usize = 12;

    /// Counts the bytes of its tasks. Does the first one only when `MOST` tasks have been added, or no more are.
    struct Counting {
        added: Arc<AtomicUsize>,
        ahead: usize,
        bytes: usize,
    }

    impl ReplayWork for Counting {
        type Task = ();

        fn work(&mut self, (): &(), bytes: &[u8]) -> Result<(), ReplayError> {
            let began = Instant::now();
            let added = || self.added.load(Ordering::Acquire);
            while self.bytes == 0 && added() < MOST && began.elapsed() < Duration::from_millis(300)
            {
                thread::yield_now();
            }
            if self.bytes == 0 {
                self.ahead = added();
            }
            self.bytes += bytes.len();
            Ok(())
        }
    }

    #[test]
    fn large_tasks_wait_by_their_bytes_and_all_are_done() {
        let large = vec![7; (CHUNKS_MOST + 2) * CHUNK_BYTES / 4];
        let counting = Counting {
            added: Arc::default(),
            ahead: 0,
            bytes: 0,
        };
        let added = Arc::clone(&counting.added);
        let mut worker = ReplayThread::new(counting, 1, &Arc::default());
        for _ in 0..40 {
            assert!(worker.add((), &large).is_ok());
            added.fetch_add(1, Ordering::Release);
        }
        let done = worker.end().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(done.bytes, 40 * large.len());
        // Four waiting tasks, the one that exceeds the limit, and the one that waits for its space.
        assert!(done.ahead <= 6, "{}", done.ahead);
    }
}
