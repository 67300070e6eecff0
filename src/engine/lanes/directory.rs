//! The directory: which resources have an actor, and where.
//!
//! A resource at rest is bytes in a table. The first command for it takes an actor from the lane's
//! pool (or starts one) and binds it to the resource; as long as commands wait, the actor stays
//! bound and keeps the decoded state; when its mailbox is empty it goes back to the pool. So there
//! is at most one actor to a resource at any time, and none for the millions of resources that are
//! not in use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use ractor::{Actor, ActorProcessingErr, ActorRef, MessagingErr, SpawnErr};

use super::lane;
use crate::base::digest::{Digest, DigestBuild};

const SHARDS: usize = 64;
/// Maximum number of idle actors in a lane's pool. Further actors, started by a burst, end when they have nothing to
/// do: an idle actor costs about 7 kB.
const POOL_MAX: usize = 256;

/// Work that an actor does for its resource, one piece after the other.
pub(crate) trait Work: Sized + Send + 'static {
    /// State that an actor keeps between two pieces of work for the same resource.
    type Kept: Default + Send + 'static;
    /// Owner of the directory, which all work refers to.
    type Home: Send + Sync;

    /// The key of the resource.
    fn target(&self) -> Option<Digest>;

    /// Returns the owner of the directory.
    fn home(&self) -> Arc<Self::Home>;

    /// Returns the owner's directory.
    fn directory(home: &Self::Home) -> &Directory<Self>;

    /// Does the work.
    fn run(self, kept: &mut Self::Kept) -> impl Future<Output = ()> + Send;
}

/// Resources with an actor, by their keys.
type Shard<W> = Mutex<HashMap<Digest, Live<W>, DigestBuild>>;

/// Which resources have an actor.
pub(crate) struct Directory<W: Work> {
    shards: Box<[Shard<W>]>,
    /// Idle actors by the lane on whose thread they run; the last pool is for threads that are no lane.
    pools: Box<[Mutex<Vec<ActorRef<W>>>]>,
    live: AtomicUsize,
}

/// A resource with an actor.
struct Live<W: Work> {
    actor: ActorRef<W>,
    /// Number of pieces of work in the mailbox, including the present one.
    pending: usize,
}

/// The actor that serves one resource at a time.
struct ResourceActor<W>(PhantomData<fn(W)>);

/// State that an actor keeps for the resource that it is bound to.
struct Bound<W: Work> {
    kept: W::Kept,
    lane: usize,
}

impl<W: Work> Actor for ResourceActor<W> {
    type Msg = W;
    type State = Bound<W>;
    type Arguments = usize;

    async fn pre_start(&self, _: ActorRef<W>, lane: usize) -> Result<Bound<W>, ActorProcessingErr> {
        Ok(Bound {
            kept: W::Kept::default(),
            lane,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<W>,
        work: W,
        bound: &mut Bound<W>,
    ) -> Result<(), ActorProcessingErr> {
        let Some(target) = work.target() else {
            return Ok(());
        };
        let home = work.home();
        work.run(&mut bound.kept).await;
        W::directory(&home).finished(target, myself, bound);
        Ok(())
    }
}

impl<W: Work> Directory<W> {
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            pools: (0..=lanes).map(|_| Mutex::default()).collect(),
            live: AtomicUsize::new(0),
        }
    }

    /// How many resources have an actor.
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Hands the work to the actor of the resource `target`, starting one if there is none.
    pub(crate) async fn dispatch(&self, target: Digest, work: W) -> Result<(), String> {
        let elsewhere = self.pools.len() - 1;
        let lane = lane::own().map_or(elsewhere, |lane| lane.min(elsewhere));
        let mut work = work;
        let mut spare = None;
        loop {
            match self.try_dispatch(target, work, lane, spare.take()) {
                Dispatched::Sent => return Ok(()),
                Dispatched::Failed(error) => return Err(error),
                Dispatched::NeedsActor(back) => work = back,
            }
            let started = Self::start(lane).await.map_err(|error| error.to_string())?;
            spare = Some(started);
        }
    }

    async fn start(lane: usize) -> Result<ActorRef<W>, SpawnErr> {
        let (actor, _) = ractor::Actor::spawn(None, ResourceActor::<W>(PhantomData), lane).await?;
        Ok(actor)
    }

    fn try_dispatch(
        &self,
        target: Digest,
        mut work: W,
        lane: usize,
        spare: Option<ActorRef<W>>,
    ) -> Dispatched<W> {
        let mut shard = self.shards[target.shard(SHARDS)].lock();
        if let Entry::Occupied(mut entry) = shard.entry(target) {
            match entry.get().actor.send_message(work) {
                Ok(()) => {
                    entry.get_mut().pending += 1;
                    if let Some(spare) = spare {
                        self.pools[lane].lock().push(spare);
                    }
                    return Dispatched::Sent;
                }
                // The actor ended without being unbound, for whatever reason: the resource gets another actor.
                Err(MessagingErr::SendErr(back)) => {
                    tracing::error!(
                        "the actor of a resource has ended: the resource gets another one"
                    );
                    work = back;
                    entry.remove();
                    self.live.fetch_sub(1, Ordering::Relaxed);
                }
                Err(error) => return Dispatched::Failed(error.to_string()),
            }
        }
        let was_started = spare.is_some();
        let mut spare = spare;
        loop {
            let Some(actor) = spare.take().or_else(|| self.pools[lane].lock().pop()) else {
                return Dispatched::NeedsActor(work);
            };
            match actor.send_message(work) {
                Ok(()) => {
                    shard.insert(target, Live { actor, pending: 1 });
                    self.live.fetch_add(1, Ordering::Relaxed);
                    return Dispatched::Sent;
                }
                // An actor ends with its runtime. Facts loaded before the server ran had a runtime of their own, so
                // their actors are in the pool but have ended.
                Err(MessagingErr::SendErr(back)) if !was_started => work = back,
                Err(error) => return Dispatched::Failed(error.to_string()),
            }
        }
    }

    /// Records that the actor has done one piece of work for `target`; if none waits, the actor goes back to the
    /// pool.
    fn finished(&self, target: Digest, myself: ActorRef<W>, bound: &mut Bound<W>) {
        {
            let mut shard = self.shards[target.shard(SHARDS)].lock();
            // Another actor may serve the resource by now, if this one was believed to have ended.
            if let Entry::Occupied(mut entry) = shard.entry(target)
                && entry.get().actor.get_id() == myself.get_id()
            {
                entry.get_mut().pending -= 1;
                if entry.get().pending > 0 {
                    return;
                }
                entry.remove();
                self.live.fetch_sub(1, Ordering::Relaxed);
            }
        }
        bound.kept = W::Kept::default();
        let mut pool = self.pools[bound.lane].lock();
        if pool.len() < POOL_MAX {
            pool.push(myself);
        } else {
            drop(pool);
            // There is no other reference, so its mailbox stays empty.
            let _ = myself.drain();
        }
    }
}

enum Dispatched<W> {
    Sent,
    NeedsActor(W),
    Failed(String),
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::cli::runtime::on_lane;
    use crate::domain::reference::Fact;
    use crate::domain::reference::kinds::actor::ActorFact;
    use crate::domain::resource::Resource as _;
    use crate::engine::core::ActorMessage;
    use crate::engine::sample::{engine, put_fact};

    #[test]
    fn an_actor_of_a_thread_that_is_no_lane_serves_no_lane() {
        let engine = engine();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(|| on_lane(&engine, stopped).unwrap());
            runtime.block_on(put_fact(&engine, 1));
            drop(stop);
        });
        let idle = || {
            let pools = engine.shared.directory.pools.iter();
            pools.map(|pool| pool.lock().len()).collect::<Vec<_>>()
        };
        assert_eq!(idle(), [0, 1]);
        let on_its_lane = async {
            // Yields, so that the lane's own task can run.
            tokio::task::yield_now().await;
            put_fact(&engine, 2).await;
        };
        on_lane(&engine, on_its_lane).unwrap();
        assert_eq!(idle()[1], 1);
        engine.shut_down().unwrap();
    }

    #[test]
    fn a_resource_whose_actor_has_ended_gets_another() {
        let engine = engine();
        on_lane(&engine, async {
            put_fact(&engine, 1).await;
            let directory = &engine.shared.directory;
            let ended = Directory::<Box<ActorMessage>>::start(0).await.unwrap();
            ended.stop_and_wait(None, None).await.unwrap();
            let target = Fact::<ActorFact>::KIND.key(&["somebody"]);
            let live = Live {
                actor: ended,
                pending: 1,
            };
            directory.shards[target.shard(SHARDS)]
                .lock()
                .insert(target, live);
            directory.live.fetch_add(1, Ordering::Relaxed);
            for revision in 2..4 {
                put_fact(&engine, revision).await;
            }
            assert_eq!(directory.live(), 0);
        })
        .unwrap();
        engine.shut_down().unwrap();
    }
}
