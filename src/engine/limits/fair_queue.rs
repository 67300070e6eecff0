//! A fair queue for what reads the log for one request (*looks*): past states, and events for those
//! who are behind. Few run at a time, and the subjects that wait have their turns round robin, however
//! many looks one of them has asked for. Each kind of looks has a queue of its own.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// Looks at the past that are under way at once: each holds a thread, and some memory.
pub(in crate::engine) const PAST_READS_MAX: usize = 2;
/// Looks of one subject that may wait; further ones are refused.
const OF_ONE_MAX: usize = 1_024;
/// Looks of all subjects that may wait; further ones are refused.
const OF_ALL_MAX: usize = 4_096;

/// So many looks wait already that this one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct QueueFull;

/// Why a look came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum QueueError {
    /// See [`QueueFull`].
    QueueFull,
    /// It panicked, or the process ends.
    Failed,
}

/// The looks that run, and those that wait. A look counts until it ends, also when its client has
/// gone: so a client that asks and disconnects again and again gets no more of them than others.
pub(in crate::engine) struct FairQueue {
    line: Mutex<Line>,
}

struct Line {
    /// How many more may look at once.
    free: usize,
    waiting: usize,
    /// Those who wait, by their subjects, in the order in which those have their turns.
    subjects: VecDeque<(Box<str>, Waiting)>,
}

/// The looks of one subject that wait, of each kind in the order in which they came.
#[derive(Default)]
struct Waiting {
    /// Those that have had a turn, and hold what they found in it. They come first, so of a subject
    /// no more looks are begun than there are turns.
    begun: VecDeque<oneshot::Sender<Turn>>,
    others: VecDeque<oneshot::Sender<Turn>>,
}

/// How a look comes to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// Refused where too many wait.
    New,
    /// Never refused.
    Admitted,
    /// Never refused, and before all of its subject that have had no turn.
    Begun,
}

/// The turn, or where it arrives.
type Entered = Result<Result<Turn, oneshot::Receiver<Turn>>, QueueFull>;

/// The turn to look, which goes on to the next one when it is dropped.
struct Turn(Option<Arc<FairQueue>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.pass_on();
        }
    }
}

impl FairQueue {
    /// At most so many at once.
    pub(in crate::engine) fn new(most: usize) -> Arc<Self> {
        let line = Line {
            free: most,
            waiting: 0,
            subjects: VecDeque::new(),
        };
        Arc::new(Self {
            line: Mutex::new(line),
        })
    }

    /// Looks when it is the turn of this subject. One that goes on (`is_begun`) is never refused.
    pub(in crate::engine) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        subject: &str,
        is_begun: bool,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, QueueError> {
        let arrival = match is_begun {
            true => Arrival::Admitted,
            false => Arrival::New,
        };
        let turn = come(self.enter(subject, arrival)).await?;
        let looked = spawn_blocking(move || {
            let looked = look();
            drop(turn);
            looked
        });
        looked.await.map_err(|_| QueueError::Failed)
    }

    /// Looks in pieces, each when it is the turn of this subject: `piece` makes of what there is so far
    /// more of it, or the end.
    pub(in crate::engine) async fn run_in_pieces<S, T>(
        self: &Arc<Self>,
        subject: &str,
        mut so_far: S,
        piece: impl FnOnce(S) -> ControlFlow<T, S> + Clone + Send + 'static,
    ) -> Result<T, QueueError>
    where
        S: Send + 'static,
        T: Send + 'static,
    {
        let mut turn = come(self.enter(subject, Arrival::New)).await?;
        loop {
            let (queue, subject) = (Arc::clone(self), Box::<str>::from(subject));
            let piece = piece.clone();
            let looked = spawn_blocking(move || {
                let looked = piece(so_far);
                // Before its turn goes on, which would begin another one of the subject otherwise.
                let again = looked
                    .is_continue()
                    .then(|| queue.enter(&subject, Arrival::Begun));
                drop(turn);
                (looked, again)
            });
            match looked.await.map_err(|_| QueueError::Failed)? {
                (ControlFlow::Continue(further), Some(again)) => {
                    turn = come(again).await?;
                    so_far = further;
                }
                (ControlFlow::Break(end), _) => return Ok(end),
                (ControlFlow::Continue(_), None) => return Err(QueueError::Failed),
            }
        }
    }

    /// How many wait.
    #[cfg(test)]
    pub(in crate::engine) fn waiting(&self) -> usize {
        self.line.lock().waiting
    }

    fn enter(self: &Arc<Self>, subject: &str, arrival: Arrival) -> Entered {
        let mut line = self.line.lock();
        if let Some(free) = line.free.checked_sub(1) {
            line.free = free;
            return Ok(Ok(Turn(Some(Arc::clone(self)))));
        }
        let known = line
            .subjects
            .iter()
            .position(|(known, _)| **known == *subject);
        let of_one = known.map_or(0, |place| line.subjects[place].1.count());
        if arrival == Arrival::New && (of_one >= OF_ONE_MAX || line.waiting >= OF_ALL_MAX) {
            return Err(QueueFull);
        }
        let (sender, receiver) = oneshot::channel();
        line.waiting += 1;
        match known {
            Some(place) => line.subjects[place].1.add(sender, arrival),
            None => {
                let mut waiting = Waiting::default();
                waiting.add(sender, arrival);
                line.subjects.push_back((subject.into(), waiting));
            }
        }
        Ok(Err(receiver))
    }

    fn pass_on(self: Arc<Self>) {
        loop {
            let next = {
                let mut line = self.line.lock();
                let next = line.next();
                if next.is_none() {
                    line.free += 1;
                }
                next
            };
            let Some(next) = next else {
                return;
            };
            match next.send(Turn(Some(Arc::clone(&self)))) {
                Ok(()) => return,
                // That client has gone.
                Err(mut turn) => drop(turn.0.take()),
            }
        }
    }
}

/// Waits for the turn.
async fn come(entered: Entered) -> Result<Turn, QueueError> {
    match entered {
        Ok(Ok(turn)) => Ok(turn),
        Ok(Err(turn)) => turn.await.map_err(|_| QueueError::Failed),
        Err(QueueFull) => Err(QueueError::QueueFull),
    }
}

impl Waiting {
    fn count(&self) -> usize {
        self.begun.len() + self.others.len()
    }

    fn add(&mut self, sender: oneshot::Sender<Turn>, arrival: Arrival) {
        match arrival {
            Arrival::New | Arrival::Admitted => self.others.push_back(sender),
            Arrival::Begun => self.begun.push_back(sender),
        }
    }

    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        self.begun.pop_front().or_else(|| self.others.pop_front())
    }
}

impl Line {
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let (subject, mut waiting) = self.subjects.pop_front()?;
        let next = waiting.next();
        if waiting.count() > 0 {
            self.subjects.push_back((subject, waiting));
        }
        self.waiting -= usize::from(next.is_some());
        next
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Holds the only turn until it is released.
    fn hold(
        queue: &Arc<FairQueue>,
    ) -> (
        tokio::task::JoinHandle<Result<(), QueueError>>,
        mpsc::Sender<()>,
    ) {
        let (end, may_end) = mpsc::channel::<()>();
        let own = Arc::clone(queue);
        let wait = move || may_end.recv().unwrap();
        let held = tokio::spawn(async move { own.run("holder", false, wait).await });
        (held, end)
    }

    fn waiting(queue: &Arc<FairQueue>, subject: &str, arrival: Arrival) -> oneshot::Receiver<Turn> {
        let entered = queue.enter(subject, arrival).unwrap();
        entered.err().unwrap()
    }

    async fn until(mut is_so: impl FnMut() -> bool) {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_look_counts_until_it_ends_though_nobody_waits_for_it() {
        let queue = FairQueue::new(1);
        let (held, end) = hold(&queue);
        until(|| queue.line.lock().free == 0).await;
        tokio::task::yield_now().await;
        held.abort();
        assert!(held.await.unwrap_err().is_cancelled());
        assert_eq!(queue.line.lock().free, 0, "its thread still looks");
        end.send(()).unwrap();
        assert_eq!(queue.run("other", false, || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_look_that_panics_gives_its_turn_on() {
        let queue = FairQueue::new(1);
        let panicked = queue.run("one", false, || -> u8 { panic!("a fault") });
        assert_eq!(panicked.await, Err(QueueError::Failed));
        assert_eq!(queue.run("one", false, || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn who_asks_for_much_delays_another_by_one_turn_and_who_has_gone_by_none() {
        let queue = FairQueue::new(1);
        let (held, end) = hold(&queue);
        until(|| queue.line.lock().free == 0).await;
        let (told, order) = mpsc::channel();
        let mut asked = Vec::new();
        for (subject, number) in (0..5).map(|number| ("many", number)).chain([("few", 0)]) {
            let (own, told) = (Arc::clone(&queue), told.clone());
            let look = move || told.send((subject, number)).unwrap();
            asked.push(tokio::spawn(
                async move { own.run(subject, false, look).await },
            ));
            let waiting = asked.len();
            until(|| queue.line.lock().waiting == waiting).await;
        }
        asked[1].abort();
        until(|| asked[1].is_finished()).await;
        end.send(()).unwrap();
        held.await.unwrap().unwrap();
        for (number, asked) in asked.into_iter().enumerate() {
            assert_eq!(asked.await.is_ok(), number != 1);
        }
        let order: Vec<_> = order.try_iter().collect();
        let expected = [
            ("many", 0),
            ("few", 0),
            ("many", 2),
            ("many", 3),
            ("many", 4),
        ];
        assert_eq!(order, expected);
        assert_eq!(queue.line.lock().waiting, 0);
        assert_eq!(queue.line.lock().free, 1);
    }

    #[tokio::test]
    async fn what_is_begun_goes_on_before_its_subject_begins_more_and_subjects_take_turns_still() {
        let queue = FairQueue::new(1);
        let (held, end) = hold(&queue);
        until(|| queue.line.lock().free == 0).await;
        let asked = [
            ("many", "new 1", Arrival::New),
            ("many", "admitted", Arrival::Admitted),
            ("few", "few new", Arrival::New),
            ("many", "new 2", Arrival::New),
            ("many", "begun 1", Arrival::Begun),
            ("many", "begun 2", Arrival::Begun),
            ("few", "few begun", Arrival::Begun),
        ];
        let (told, order) = mpsc::channel();
        for (subject, name, arrival) in asked {
            let turn = waiting(&queue, subject, arrival);
            let told = told.clone();
            tokio::spawn(async move {
                let turn = turn.await.unwrap();
                told.send(name).unwrap();
                drop(turn);
            });
        }
        end.send(()).unwrap();
        held.await.unwrap().unwrap();
        until(|| queue.line.lock().free == 1).await;
        let order: Vec<_> = order.try_iter().collect();
        let expected = [
            "begun 1",
            "few begun",
            "begun 2",
            "few new",
            "new 1",
            "admitted",
            "new 2",
        ];
        assert_eq!(order, expected);
        assert_eq!(queue.waiting(), 0);
    }

    #[tokio::test]
    async fn of_one_subject_no_more_looks_in_pieces_are_begun_than_there_are_turns() {
        let queue = FairQueue::new(1);
        let (held, end) = hold(&queue);
        until(|| queue.line.lock().free == 0).await;
        let (told, pieces) = mpsc::channel();
        let mut asked = Vec::new();
        for number in 0..20_usize {
            let (own, told) = (Arc::clone(&queue), told.clone());
            let piece = move |piece: usize| {
                told.send((number, piece)).unwrap();
                match piece {
                    3 => ControlFlow::Break(number),
                    _ => ControlFlow::Continue(piece + 1),
                }
            };
            asked.push(tokio::spawn(async move {
                own.run_in_pieces("many", 0, piece).await
            }));
            let waiting = asked.len();
            until(|| queue.waiting() == waiting).await;
        }
        end.send(()).unwrap();
        held.await.unwrap().unwrap();
        for (number, asked) in asked.into_iter().enumerate() {
            assert_eq!(asked.await.unwrap(), Ok(number));
        }
        let expected =
            (0..20_usize).flat_map(|number| (0..4_usize).map(move |piece| (number, piece)));
        assert!(pieces.try_iter().eq(expected));
        assert_eq!(queue.line.lock().free, 1);
    }

    #[tokio::test]
    async fn a_subject_with_too_many_looks_is_refused_and_another_one_and_what_is_begun_are_not() {
        let queue = FairQueue::new(1);
        let (held, end) = hold(&queue);
        until(|| queue.line.lock().free == 0).await;
        let mut asked: Vec<_> = (0..OF_ONE_MAX)
            .map(|_| waiting(&queue, "many", Arrival::New))
            .collect();
        assert!(matches!(queue.enter("many", Arrival::New), Err(QueueFull)));
        let refused = queue.run("many", false, || ()).await;
        assert_eq!(refused, Err(QueueError::QueueFull));
        asked.push(waiting(&queue, "many", Arrival::Begun));
        let other = waiting(&queue, "few", Arrival::New);
        end.send(()).unwrap();
        held.await.unwrap().unwrap();
        drop(asked);
        drop(other);
        assert_eq!(queue.run("many", false, || 7).await, Ok(7));
    }

    #[tokio::test]
    async fn many_subjects_have_no_more_looks_together_than_may_wait_of_all() {
        let queue = FairQueue::new(1);
        let (held, end) = hold(&queue);
        until(|| queue.line.lock().free == 0).await;
        let subject = |number: usize| (number % 7).to_string();
        let mut asked: Vec<_> = (0..OF_ALL_MAX)
            .map(|number| waiting(&queue, &subject(number), Arrival::New))
            .collect();
        for other in ["0", "other"] {
            assert!(matches!(queue.enter(other, Arrival::New), Err(QueueFull)));
        }
        asked.push(waiting(&queue, "other", Arrival::Begun));
        end.send(()).unwrap();
        held.await.unwrap().unwrap();
        drop(asked);
        assert_eq!(queue.run("other", false, || 7).await, Ok(7));
    }
}
