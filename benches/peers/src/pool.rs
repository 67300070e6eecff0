//! Which connection to the database carries out which command.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Deref;
use std::rc::Rc;

use tokio::sync::oneshot;

/// Connections that all commands share; each carries at most `depth` commands at a time, sent one
/// after the other without waiting for the answers in between.
pub(crate) struct Pool<C> {
    connections: Vec<C>,
    depth: usize,
    state: RefCell<State<C>>,
}

struct State<C> {
    /// Commands on each connection.
    load: Vec<usize>,
    /// Those who wait for a connection, the first first.
    waiting: VecDeque<oneshot::Sender<Slot<C>>>,
}

impl<C> Pool<C> {
    pub(crate) fn new(connections: Vec<C>, depth: usize) -> Rc<Self> {
        let load = vec![0; connections.len()];
        let waiting = VecDeque::new();
        Rc::new(Self {
            connections,
            depth,
            state: RefCell::new(State { load, waiting }),
        })
    }

    /// All connections, for what is no command.
    pub(crate) fn connections(&self) -> &[C] {
        &self.connections
    }

    /// The connection with the fewest commands, once there is one with fewer than `depth`.
    pub(crate) async fn any(self: &Rc<Self>) -> Slot<C> {
        let turn = {
            let mut state = self.state.borrow_mut();
            let least = (0..state.load.len()).min_by_key(|&index| state.load[index]);
            match least.filter(|&index| state.load[index] < self.depth) {
                Some(index) => {
                    state.load[index] += 1;
                    return self.slot(index);
                }
                None => {
                    let (sender, turn) = oneshot::channel();
                    state.waiting.push_back(sender);
                    turn
                }
            }
        };
        turn.await
            .expect("the pool lives as long as its caller, and drops no one who waits")
    }

    /// The one connection for all commands on this resource, whatever it already carries.
    pub(crate) fn of_resource(self: &Rc<Self>, resource: &str) -> Slot<C> {
        let mut hasher = DefaultHasher::new();
        resource.hash(&mut hasher);
        let size = u64::try_from(self.connections.len()).expect("a length fits 64 bits");
        let index = usize::try_from(hasher.finish() % size).expect("less than a length");
        self.state.borrow_mut().load[index] += 1;
        self.slot(index)
    }

    fn slot(self: &Rc<Self>, index: usize) -> Slot<C> {
        Slot {
            pool: Some(Rc::clone(self)),
            index,
        }
    }

    /// Gives the place on a connection to the first who waits, or back.
    fn release(self: Rc<Self>, index: usize) {
        let mut state = self.state.borrow_mut();
        if state.load[index] <= self.depth {
            while let Some(next) = state.waiting.pop_front() {
                match next.send(self.slot(index)) {
                    Ok(()) => return,
                    // The receiver is gone: the place is still ours.
                    Err(mut slot) => slot.pool = None,
                }
            }
        }
        state.load[index] -= 1;
    }
}

/// A place on a connection, given back when dropped.
pub(crate) struct Slot<C> {
    pool: Option<Rc<Pool<C>>>,
    index: usize,
}

impl<C> Deref for Slot<C> {
    type Target = C;

    fn deref(&self) -> &C {
        let pool = self
            .pool
            .as_ref()
            .expect("only an undelivered slot has none");
        &pool.connections[self.index]
    }
}

impl<C> Drop for Slot<C> {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.release(self.index);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn commands_spread_evenly_and_wait_beyond_the_depth() {
        let pool = Pool::new(vec!['a', 'b'], 2);
        let slots: Vec<_> = (0..4)
            .map(|_| now(Box::pin(pool.any()).as_mut()).unwrap())
            .collect();
        let letters: String = slots.iter().map(|slot| **slot).collect();
        assert_eq!(letters, "abab");
        let mut fifth = Box::pin(pool.any());
        assert!(now(fifth.as_mut()).is_none());
        let mut sixth = Box::pin(pool.any());
        assert!(now(sixth.as_mut()).is_none());
        let mut slots = slots.into_iter();
        drop(slots.next());
        assert!(
            now(sixth.as_mut()).is_none(),
            "the first who waits is the first to go on"
        );
        assert_eq!(*now(fifth.as_mut()).unwrap(), 'a');
        assert!(now(sixth.as_mut()).is_some());
        drop(slots);
        drop((fifth, sixth));
        assert_eq!(pool.state.borrow().load, [0, 0]);
    }

    #[test]
    fn a_waiter_that_leaves_holds_no_connection() {
        let pool = Pool::new(vec!['a'], 1);
        let held = now(Box::pin(pool.any()).as_mut()).unwrap();
        let mut gone = Box::pin(pool.any());
        assert!(now(gone.as_mut()).is_none());
        let mut told = Box::pin(pool.any());
        assert!(now(told.as_mut()).is_none());
        drop(gone);
        drop(held);
        // It was given the place, and leaves before it looks.
        drop(told);
        assert_eq!(pool.state.borrow().load, [0]);
        assert!(now(Box::pin(pool.any()).as_mut()).is_some());
    }

    #[test]
    fn a_resource_keeps_its_connection() {
        let pool = Pool::new((0..8).collect::<Vec<usize>>(), 1);
        let first = pool.of_resource("resource-1");
        let again = pool.of_resource("resource-1");
        assert_eq!(*first, *again);
        drop((first, again));
        assert_eq!(pool.state.borrow().load, [0; 8]);
    }
}
