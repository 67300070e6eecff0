//! Look-ups of host names. Each occupies a thread until it has ended, even when nobody waits for it any more.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

/// A host whose last look-up took this long is doubtful, whether it was found or not. A host that was never looked up
/// is not.
const LONG: Duration = Duration::from_secs(2);
/// Number of doubtful hosts that are remembered; beyond it the first of them is forgotten.
const DOUBTFUL_MAX: usize = 8_192;

/// What a look-up has found.
type Found<T> = Result<T, Arc<io::Error>>;

/// Where all who wait for a look-up get what it has found.
type Answer<T> = watch::Sender<Option<Found<T>>>;

/// Limits look-ups to a total number at once, of which doubtful hosts have at most half, and to one per host, whose
/// answer all get who wait for it. So an unresponsive host delays only itself.
pub(super) struct Lookups<T> {
    all: Arc<Semaphore>,
    /// Permits that a look-up of a doubtful host needs besides.
    of_doubtful: Arc<Semaphore>,
    hosts: Mutex<Hosts<T>>,
}

struct Hosts<T> {
    running: HashMap<String, Arc<Answer<T>>>,
    doubtful: Doubtful,
}

/// Hosts whose last look-up took long.
#[derive(Default)]
struct Doubtful {
    hosts: HashSet<String>,
    /// The same, in the order in which they became doubtful.
    order: VecDeque<String>,
}

impl Doubtful {
    fn note(&mut self, host: &str, is_doubtful: bool) {
        if !is_doubtful {
            if self.hosts.remove(host) {
                self.order.retain(|known| known != host);
            }
            return;
        }
        if !self.hosts.insert(host.to_owned()) {
            return;
        }
        self.order.push_back(host.to_owned());
        if self.order.len() > DOUBTFUL_MAX
            && let Some(first) = self.order.pop_front()
        {
            self.hosts.remove(&first);
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Lookups<T> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(most)),
            of_doubtful: Arc::new(Semaphore::new((most / 2).max(1))),
            hosts: Mutex::new(Hosts {
                running: HashMap::new(),
                doubtful: Doubtful::default(),
            }),
        }
    }

    /// Looks a host up on a thread for blocking calls, once a permit is free, or waits for the look-up of it that is
    /// running already.
    ///
    /// # Errors
    /// When the host was not found, the look-up has panicked, or the runtime ends.
    pub(super) async fn run(
        self: &Arc<Self>,
        host: String,
        look: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let mut answer = self.running(host, look);
        let ended = answer.wait_for(Option::is_some).await;
        let ended = ended.map_err(io::Error::other)?;
        match ended.as_ref() {
            Some(Ok(found)) => Ok(found.clone()),
            Some(Err(error)) => Err(io::Error::new(error.kind(), Arc::clone(error))),
            None => Err(io::ErrorKind::Other.into()),
        }
    }

    /// Returns where the answer of the look-up that is running comes; begins one where there is none.
    fn running(
        self: &Arc<Self>,
        host: String,
        look: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> watch::Receiver<Option<Found<T>>> {
        let mut hosts = self.hosts.lock();
        if let Some(running) = hosts.running.get(&host) {
            return running.subscribe();
        }
        let (answer, receiver) = watch::channel(None);
        let answer = Arc::new(answer);
        hosts.running.insert(host.clone(), Arc::clone(&answer));
        drop(hosts);
        let lookup = Lookup {
            lookups: Arc::clone(self),
            host,
            answer,
        };
        tokio::spawn(lookup.run(look));
        receiver
    }
}

/// A look-up that is running, or waits for its permits. When it is dropped, the next one of its host may begin.
struct Lookup<T> {
    lookups: Arc<Lookups<T>>,
    host: String,
    answer: Arc<Answer<T>>,
}

impl<T: Clone + Send + Sync + 'static> Lookup<T> {
    async fn run(self, look: impl FnOnce() -> io::Result<T> + Send + 'static) {
        let Some(permits) = self.permits().await else {
            return;
        };
        let began = Instant::now();
        let looked = tokio::task::spawn_blocking(move || {
            let found = look();
            drop(permits);
            found
        });
        let found = looked
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)));
        let is_doubtful = began.elapsed() >= LONG;
        let mut hosts = self.lookups.hosts.lock();
        hosts.doubtful.note(&self.host, is_doubtful);
        drop(hosts);
        // Whoever asks from here on begins another look-up.
        let answer = Arc::clone(&self.answer);
        drop(self);
        answer.send_replace(Some(found.map_err(Arc::new)));
    }

    /// Waits for the permits; `None` once nobody waits for the answer any more. A doubtful host keeps its place even
    /// then: those before it may take longer than anybody waits, and it would never be looked up.
    async fn permits(&self) -> Option<Permits> {
        let lookups = &self.lookups;
        let is_doubtful = lookups.hosts.lock().doubtful.hosts.contains(&self.host);
        let mut acquired = pin!(self.acquire(is_doubtful));
        loop {
            tokio::select! {
                permits = &mut acquired => return permits.ok(),
                () = self.answer.closed(), if !is_doubtful => {
                    let mut hosts = self.lookups.hosts.lock();
                    // Somebody may have come meanwhile.
                    if self.answer.receiver_count() == 0 {
                        hosts.remove(&self.host, &self.answer);
                        return None;
                    }
                }
            }
        }
    }

    async fn acquire(&self, is_doubtful: bool) -> Result<Permits, AcquireError> {
        let lookups = &self.lookups;
        let of_doubtful = match is_doubtful {
            true => Some(Arc::clone(&lookups.of_doubtful).acquire_owned().await?),
            false => None,
        };
        let one_of_all = Arc::clone(&lookups.all).acquire_owned().await?;
        Ok((of_doubtful, one_of_all))
    }
}

/// The permits of a look-up: one of those for doubtful hosts where it is of one, and one of all.
type Permits = (Option<OwnedSemaphorePermit>, OwnedSemaphorePermit);

impl<T> Hosts<T> {
    /// Forgets the look-up with this answer; another one of the same host may have begun since.
    fn remove(&mut self, host: &str, answer: &Arc<Answer<T>>) {
        let running = self.running.get(host);
        if running.is_some_and(|running| Arc::ptr_eq(running, answer)) {
            self.running.remove(host);
        }
    }
}

impl<T> Drop for Lookup<T> {
    fn drop(&mut self) {
        self.lookups.hosts.lock().remove(&self.host, &self.answer);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    /// Look-ups that end when they are told to, and are counted as they begin.
    struct Held {
        begun: Arc<AtomicUsize>,
        release: mpsc::Sender<()>,
        held: Arc<std::sync::Mutex<mpsc::Receiver<()>>>,
    }

    impl Held {
        fn new() -> Self {
            let (release, held) = mpsc::channel();
            Self {
                begun: Arc::default(),
                release,
                held: Arc::new(std::sync::Mutex::new(held)),
            }
        }

        fn look(&self) -> impl FnOnce() -> io::Result<i32> + Send + use<> {
            let (begun, held) = (Arc::clone(&self.begun), Arc::clone(&self.held));
            move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let _ = held.lock().unwrap().recv();
                Ok(0)
            }
        }

        fn begun(&self) -> usize {
            self.begun.load(Ordering::SeqCst)
        }
    }

    /// Looks a host up, which takes this long by a clock that is paused.
    async fn looked_up(lookups: &Arc<Lookups<i32>>, host: &str, took: Duration) {
        let held = Held::new();
        let (own, host, look) = (Arc::clone(lookups), host.to_owned(), held.look());
        let looking = tokio::spawn(async move { own.run(host, look).await });
        while held.begun() == 0 {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(took).await;
        held.release.send(()).unwrap();
        looking.await.unwrap().unwrap();
    }

    /// Waits until no look-up is running or waiting.
    async fn ended(lookups: &Lookups<i32>) {
        while !lookups.hosts.lock().running.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_hanging_lookup_holds_one_thread_while_other_names_are_resolved() {
        let lookups = Arc::new(Lookups::new(2));
        let silent = Held::new();
        // The callers give up, but the thread stays busy, so no other look-up of this host begins.
        for _ in 0..3 {
            let lookup = lookups.run("silent".to_owned(), silent.look());
            assert!(timeout(SHORT, lookup).await.is_err());
        }
        assert_eq!(silent.begun(), 1);
        assert_eq!(lookups.run("good".to_owned(), || Ok(7)).await.unwrap(), 7);
        // A second silent host takes the last permit.
        let lookup = lookups.run("mute".to_owned(), silent.look());
        assert!(timeout(SHORT, lookup).await.is_err());
        let lookup = lookups.run("good".to_owned(), || Ok(8));
        assert!(timeout(SHORT, lookup).await.is_err());
        silent.release.send(()).unwrap();
        silent.release.send(()).unwrap();
        ended(&lookups).await;
        assert_eq!(lookups.run("good".to_owned(), || Ok(9)).await.unwrap(), 9);
        assert_eq!(lookups.run("silent".to_owned(), || Ok(1)).await.unwrap(), 1);
        ended(&lookups).await;
    }

    #[tokio::test]
    async fn all_who_wait_for_the_same_host_get_the_answer_of_one_look_up() {
        let lookups = Arc::new(Lookups::new(2));
        let held = Held::new();
        let waiting: Vec<_> = (0..300)
            .map(|_| {
                let (lookups, look) = (Arc::clone(&lookups), held.look());
                tokio::spawn(async move { lookups.run("host".to_owned(), look).await })
            })
            .collect();
        while held.begun() == 0 {
            tokio::task::yield_now().await;
        }
        held.release.send(()).unwrap();
        for one in waiting {
            assert_eq!(one.await.unwrap().unwrap(), 0);
        }
        assert_eq!(held.begun(), 1);
        // What failed is told to all, too.
        let unknown = || Err(io::ErrorKind::NotFound.into());
        let [one, other] = [(); 2].map(|()| lookups.run("unknown".to_owned(), unknown));
        let (one, other) = tokio::join!(one, other);
        assert_eq!(one.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(other.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[tokio::test(start_paused = true)]
    async fn hosts_that_took_long_leave_half_of_all_look_ups_to_others() {
        let lookups = Arc::new(Lookups::new(4));
        let names: Vec<_> = (0..10).map(|number| format!("silent-{number}")).collect();
        for name in &names {
            looked_up(&lookups, name, LONG).await;
        }
        let silent = Held::new();
        for name in &names {
            let (lookups, name, look) = (Arc::clone(&lookups), name.clone(), silent.look());
            tokio::spawn(async move { lookups.run(name, look).await });
        }
        while silent.begun() < 2 {
            tokio::task::yield_now().await;
        }
        for number in 0..4 {
            let good = lookups.run("good".to_owned(), move || Ok(number)).await;
            assert_eq!(good.unwrap(), number);
        }
        assert_eq!(silent.begun(), 2);
        for _ in &names {
            silent.release.send(()).unwrap();
        }
        ended(&lookups).await;
        assert_eq!(silent.begun(), names.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_is_doubtful_while_its_last_look_up_took_long() {
        let lookups = Arc::new(Lookups::new(4));
        let is_doubtful = || lookups.hosts.lock().doubtful.hosts.contains("host");
        for took in [LONG, Duration::from_millis(5), LONG] {
            looked_up(&lookups, "host", took).await;
            assert_eq!(is_doubtful(), took >= LONG, "{took:?}");
        }
        // One that is soon known not to exist keeps nobody waiting.
        let unknown = || Err(io::ErrorKind::NotFound.into());
        assert!(lookups.run("host".to_owned(), unknown).await.is_err());
        assert!(!is_doubtful());
    }

    #[tokio::test]
    async fn a_doubtful_host_is_looked_up_in_its_turn_though_nobody_waits() {
        let lookups = Arc::new(Lookups::new(2));
        let silent = Held::new();
        for name in ["silent", "mute"] {
            lookups.hosts.lock().doubtful.note(name, true);
            let lookup = lookups.run(name.to_owned(), silent.look());
            assert!(timeout(SHORT, lookup).await.is_err());
        }
        assert_eq!(silent.begun(), 1);
        silent.release.send(()).unwrap();
        silent.release.send(()).unwrap();
        ended(&lookups).await;
        assert_eq!(silent.begun(), 2);
        assert!(lookups.hosts.lock().doubtful.hosts.is_empty());
    }

    #[test]
    fn so_many_doubtful_hosts_are_remembered_and_no_more() {
        let mut doubtful = Doubtful::default();
        for number in 0..2 * DOUBTFUL_MAX {
            doubtful.note(&number.to_string(), true);
        }
        assert_eq!(doubtful.hosts.len(), DOUBTFUL_MAX);
        assert!(!doubtful.hosts.contains("0"));
        // One that comes and goes takes the place of one other alone.
        for _ in 0..100 {
            doubtful.note("again", true);
            doubtful.note("again", false);
        }
        assert_eq!(doubtful.hosts.len(), DOUBTFUL_MAX - 1);
        assert_eq!(doubtful.order.len(), DOUBTFUL_MAX - 1);
        assert!(!doubtful.hosts.contains("again"));
    }
}
