//! A fair queue for what reads the log for one request (a *look*): reads of past states, and of events for readers who
//! are behind. Few looks run at a time, and the waiting subjects take turns, round robin, however many looks one of
//! them has requested. Each kind of look has a queue of its own.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// Maximum number of looks at the past that run at a time: each holds a thread, and some memory.
pub(in crate::engine) const PAST_READS_MAX: usize = 2;
/// Maximum number of waiting looks of one subject; further ones are refused.
const OF_ONE_MAX: usize = 1_024;
/// Maximum number of waiting looks of all subjects; further ones are refused.
const OF_ALL_MAX: usize = 4_096;

/// Maximum number of looks in pieces, of all subjects, that have had a turn and have not ended. Each holds what it has
/// found so far, which may be a hundred bytes for each of many thousand resources; a look that has had no turn holds
/// nothing. It is many times [`PAST_READS_MAX`], so that a few long looks keep no short one waiting; where so many are
/// begun, a short one waits until one of them ends.
const BEGUN_MAX: usize = 64;

/// The look is refused, because too many wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct QueueFull;

/// Why a look has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum QueueError {
    /// See [`QueueFull`].
    QueueFull,
    /// The look panicked, or the process ends.
    Failed,
}

/// The running and the waiting looks. A look counts until it ends, even if its client has gone: so a client that sends
/// requests and disconnects again and again gets no more looks than others.
pub(in crate::engine) struct FairQueue {
    line: Mutex<Line>,
}

struct Line {
    /// Number of looks that may run at a time.
    turns: usize,
    /// Number of looks that may begin without waiting. While there are any, none waits.
    free: usize,
    waiting: usize,
    /// Those of the waiting that are begun.
    begun: usize,
    /// The waiting looks by subject, in the order in which the subjects get their turns.
    subjects: VecDeque<(Box<str>, Waiting)>,
}

/// The waiting looks of one subject, each kind in the order of arrival.
#[derive(Default)]
struct Waiting {
    /// Looks that have had a turn, and hold what they found in it. They go first, so a subject never has more begun
    /// looks than there are turns.
    begun: VecDeque<oneshot::Sender<Turn>>,
    /// The others, and whether each is the first piece of a look in pieces.
    others: VecDeque<(oneshot::Sender<Turn>, bool)>,
}

/// How a look enters the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    /// Refused where too many wait.
    New,
    /// As a new one; and as it may be begun after its turn, it waits while too many are.
    InPieces,
    /// Never refused.
    Admitted,
    /// Never refused, and served before all looks of its subject that have had no turn.
    Begun,
}

/// The turn, or the channel on which it arrives.
type Entered = Result<Result<Turn, oneshot::Receiver<Turn>>, QueueFull>;

/// The right to run a look, which is passed on to the next one when it is dropped.
struct Turn(Option<Arc<FairQueue>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.pass_on();
        }
    }
}

impl FairQueue {
    /// Creates a queue that runs at most `most` looks at a time.
    pub(in crate::engine) fn new(most: usize) -> Arc<Self> {
        // Else none might be served where only first pieces wait.
        debug_assert!(most < BEGUN_MAX, "more turns than looks that may be begun");
        let line = Line {
            turns: most,
            free: most,
            waiting: 0,
            begun: 0,
            subjects: VecDeque::new(),
        };
        Arc::new(Self {
            line: Mutex::new(line),
        })
    }

    /// Runs `look` when it is this subject's turn. A look that continues an earlier one (`is_begun`) is never refused.
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

    /// Runs a look in pieces, each when it is this subject's turn: `piece` gets the state so far, and returns the next
    /// state or the result. While [`BEGUN_MAX`] looks are begun, the first piece waits, and of all that wait so the one
    /// whose subject came first begins next.
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
        let mut turn = come(self.enter(subject, Arrival::InPieces)).await?;
        loop {
            let (queue, subject) = (Arc::clone(self), Box::<str>::from(subject));
            let piece = piece.clone();
            let looked = spawn_blocking(move || {
                let looked = piece(so_far);
                // Queued before the turn is passed on, which would otherwise begin another look of the subject.
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

    /// Returns the number of waiting looks.
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
        let may_be_refused = matches!(arrival, Arrival::New | Arrival::InPieces);
        if may_be_refused && (of_one >= OF_ONE_MAX || line.waiting >= OF_ALL_MAX) {
            return Err(QueueFull);
        }
        let (sender, receiver) = oneshot::channel();
        line.waiting += 1;
        line.begun += usize::from(arrival == Arrival::Begun);
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
                // The client of that look has gone: the next one gets the turn.
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
            Arrival::New | Arrival::Admitted => self.others.push_back((sender, false)),
            Arrival::InPieces => self.others.push_back((sender, true)),
            Arrival::Begun => self.begun.push_back(sender),
        }
    }

    /// Whether one can be served; the first piece of a look only where one `may_begin`.
    fn can_be_served(&self, may_begin: bool) -> bool {
        let other = self.others.front();
        !self.begun.is_empty() || other.is_some_and(|(_, is_first)| may_begin || !is_first)
    }

    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let begun = self.begun.pop_front();
        begun.or_else(|| self.others.pop_front().map(|(sender, _)| sender))
    }
}

impl Line {
    /// The look that gets the turn of one that has ended, which is not free yet. There is one wherever any waits: where
    /// none may begin, there are more begun ones than turns, so some of them wait.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        // Whatever runs may be begun.
        let may_begin = self.begun + self.turns - self.free <= BEGUN_MAX;
        let mut subjects = self.subjects.iter();
        let place = subjects.position(|(_, waiting)| waiting.can_be_served(may_begin))?;
        let (subject, mut waiting) = self.subjects.remove(place)?;
        let begun = waiting.begun.len();
        let next = waiting.next();
        self.begun -= begun - waiting.begun.len();
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
    async fn a_busy_subject_delays_another_by_one_turn_and_a_departed_look_by_none() {
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
    async fn begun_looks_precede_new_ones_of_their_subject_and_subjects_alternate() {
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
    async fn one_subject_begins_no_more_looks_in_pieces_than_there_are_turns() {
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
    async fn looks_in_pieces_are_bounded_over_all_subjects_and_begun_in_order() {
        const LAST: usize = 2;
        let queue = FairQueue::new(1);
        let (held, end) = hold(&queue);
        until(|| queue.line.lock().free == 0).await;
        let (told, pieces) = mpsc::channel();
        let mut asked = Vec::new();
        for number in 0..BEGUN_MAX + 5 {
            let (own, told) = (Arc::clone(&queue), told.clone());
            let piece = move |piece: usize| {
                told.send((number, piece)).unwrap();
                match piece {
                    LAST => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(piece + 1),
                }
            };
            asked.push(tokio::spawn(async move {
                own.run_in_pieces(&number.to_string(), 0, piece).await
            }));
            let waiting = asked.len();
            until(|| queue.waiting() == waiting).await;
        }
        // What takes one turn is not held up by that.
        let single = (usize::MAX, LAST);
        let turn = waiting(&queue, "single", Arrival::Admitted);
        let single_one = tokio::spawn(async move {
            let turn = turn.await.unwrap();
            told.send(single).unwrap();
            drop(turn);
        });
        end.send(()).unwrap();
        held.await.unwrap().unwrap();
        for asked in asked {
            assert_eq!(asked.await.unwrap(), Ok(()));
        }
        single_one.await.unwrap();
        let pieces: Vec<_> = pieces.try_iter().collect();
        assert_eq!(pieces[BEGUN_MAX], single);
        let (mut order, mut begun) = (Vec::new(), 0);
        for (number, piece) in pieces.into_iter().filter(|piece| *piece != single) {
            if piece == 0 {
                order.push(number);
                begun += 1;
                assert!(begun <= BEGUN_MAX, "{begun}");
            }
            begun -= usize::from(piece == LAST);
        }
        assert!(order.into_iter().eq(0..BEGUN_MAX + 5));
        let line = queue.line.lock();
        assert_eq!((line.free, line.waiting, line.begun), (1, 0, 0));
    }

    #[tokio::test]
    async fn a_subject_over_its_bound_is_refused_others_and_begun_looks_are_not() {
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
