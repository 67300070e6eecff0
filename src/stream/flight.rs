//! Several appends in flight, each of which expects its predecessor.
//!
//! Appends are sent in order, and acknowledged in order: while the outcome of one is unknown, no later one is
//! acknowledged, whatever the servers say. When one fails, all later ones fail. When the outcome of one is unknown,
//! it is sent again with all later ones, in order and byte for byte, once the stream has shown its predecessor.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::append::{
    Appended, Appending, Attempt, OUTCOME_TIMEOUT, Other, PAUSE, PAUSE_WHEN_FULL, Watched,
    given_up_when_full,
};
use super::error::StreamError;
use super::figures::InFlight;

/// How long after the stream last accepted a message it is believed to be unchanged.
const UNCHANGED_MAX: Duration = Duration::from_secs(1);

/// Timeout for a last look at the place of a message whose outcome is not known.
const SHOW_TIMEOUT: Duration = Duration::from_secs(3);

/// A message in flight.
pub(super) struct InFlightAppend {
    pub(super) appending: Appending,
    /// Epoch of the writer; `log_id` is the id of its log.
    pub(super) epoch: u64,
    pub(super) log_id: [u8; 16],
    /// Whether it is a barrier: nobody waits for its content.
    pub(super) is_barrier: bool,
    /// When the message was created.
    pub(super) began: Instant,
    /// Counts the message as in flight.
    pub(super) _counted: InFlight,
}

impl InFlightAppend {
    /// Whether the message at its sequence comes from a deposed writer of this log, and is therefore void.
    fn is_behind(&self, other: &Other) -> bool {
        other.log_id == Some(self.log_id)
            && other.ahead > 0
            && other
                .by
                .as_ref()
                .is_some_and(|(epoch, _)| *epoch < self.epoch)
    }
}

/// Notified of the outcomes of messages in flight.
pub(super) trait InFlightEvents: Watched + Send + 'static {
    /// Notifies that the oldest message in flight is in the stream, with all before it.
    fn acknowledged(&self, append: InFlightAppend);
    /// Notifies that the oldest message in flight, which is the only one, moves to the next sequence.
    fn postpone(&self);
    /// Notifies that there is no room for the oldest message in flight, a barrier. Returns whether it is withdrawn,
    /// since none was created after it.
    fn withdraw(&self, why: &str) -> bool;
    /// Notifies that nothing more is sent, because of this error.
    fn has_failed(&self, error: StreamError);
}

/// Result of one attempt: its number, and the answer.
type Answered = (u64, Result<Attempt, StreamError>);

/// The messages in flight.
struct Flight<T> {
    events: T,
    /// Messages in flight, the oldest first, each with the number of its newest attempt.
    in_flight: VecDeque<(u64, InFlightAppend)>,
    /// Attempts without an answer yet.
    attempts: JoinSet<Answered>,
    /// Answers to attempts of messages that are not the oldest.
    early: Vec<Answered>,
    /// Number of the next attempt.
    next: u64,
    /// Deadline for the outcome of the oldest message.
    until: Instant,
    /// Since when there is no room for the oldest message.
    full: Option<Instant>,
    /// Whether an earlier attempt may still be in flight.
    is_unknown: bool,
    /// When the stream last showed that it had everything, and how often the connection had been lost until then.
    sure: Option<(Instant, u64)>,
}

/// Sends the messages of a queue, in order, until it is closed.
pub(super) async fn fly<T: InFlightEvents + Clone>(
    events: T,
    coming: UnboundedReceiver<InFlightAppend>,
) {
    let flight = tokio::spawn(fly_on(events.clone(), coming));
    if let Err(why) = flight.await
        && why.is_panic()
    {
        // The outcomes of messages in flight are not reported any more.
        events.has_failed(StreamError::Unknown {
            what: format!("the sending task has failed: {why}"),
        });
    }
}

async fn fly_on<T: InFlightEvents>(events: T, mut coming: UnboundedReceiver<InFlightAppend>) {
    let mut flight = Flight {
        events,
        in_flight: VecDeque::new(),
        attempts: JoinSet::new(),
        early: Vec::new(),
        next: 0,
        until: Instant::now(),
        full: None,
        is_unknown: false,
        sure: None,
    };
    loop {
        let went = tokio::select! {
            biased;
            Some(answered) = flight.attempts.join_next() => match answered {
                Ok(answered) => flight.hear(answered).await,
                // Only the flight itself ends an attempt.
                Err(error) => Err(StreamError::Unknown { what: error.to_string() }),
            },
            append = coming.recv() => match append {
                Some(append) => flight.take(append).await,
                None => return,
            },
        };
        if let Err(error) = went {
            flight.events.has_failed(error);
            return;
        }
    }
}

impl<T: InFlightEvents> Flight<T> {
    async fn take(&mut self, append: InFlightAppend) -> Result<(), StreamError> {
        let is_first = self.in_flight.is_empty();
        if is_first {
            self.begins_to_wait();
        }
        self.in_flight.push_back((0, append));
        if is_first && !self.is_sure() {
            return self.send_again().await;
        }
        self.send(self.in_flight.len() - 1);
        Ok(())
    }

    /// Whether the stream cannot have been replaced: a replacement takes a while, or a loss of the connection.
    fn is_sure(&self) -> bool {
        let losses = self.oldest().connection.losses();
        self.sure
            .is_some_and(|(shown, before)| shown.elapsed() < UNCHANGED_MAX && before == losses)
    }

    /// Resets the deadline and the state of the oldest message.
    fn begins_to_wait(&mut self) {
        self.until = Instant::now() + OUTCOME_TIMEOUT;
        self.full = None;
        self.is_unknown = false;
    }

    fn send(&mut self, at: usize) {
        let number = self.next;
        self.next += 1;
        let (its, append) = &mut self.in_flight[at];
        *its = number;
        let appending = append.appending.clone();
        self.attempts
            .spawn(async move { (number, appending.attempt().await) });
    }

    /// Sends all messages again. Answers to earlier attempts are ignored.
    fn send_all(&mut self) {
        self.attempts = JoinSet::new();
        self.early.clear();
        for at in 0..self.in_flight.len() {
            self.send(at);
        }
    }

    /// Sends all messages again, once the stream shows the predecessor of the oldest.
    async fn send_again(&mut self) -> Result<(), StreamError> {
        let losses = self.oldest().connection.losses();
        while let Err(error) = self.oldest().until_it_follows().await {
            let StreamError::Unreachable { what } = error else {
                return Err(error);
            };
            self.events.tries_again(&what, false);
            self.fail_if_too_late(&what).await?;
            sleep(PAUSE).await;
        }
        self.sure = Some((Instant::now(), losses));
        self.send_all();
        Ok(())
    }

    /// Fails when the outcome of the oldest message did not become known in time. Looks at its place before: a process
    /// that was suspended has not asked for all of that time, and may have been replaced.
    async fn fail_if_too_late(&mut self, why: &str) -> Result<(), StreamError> {
        if Instant::now() < self.until {
            return Ok(());
        }
        let (_, append) = &self.in_flight[0];
        let (epoch, log_id) = (append.epoch, append.log_id);
        let oldest = append.appending.clone();
        let replaced = async {
            let Ok(Some(Appended::Other(other))) = oldest.at_the_place().await else {
                return None;
            };
            let is_later = other.by.as_ref().is_some_and(|(by, _)| *by > epoch);
            if !is_later || other.log_id != Some(log_id) {
                return None;
            }
            // The writer of that message may belong to another history.
            let follows = oldest.until_it_follows().await.err();
            let damage = follows.filter(StreamError::is_damage);
            Some(damage.unwrap_or(StreamError::Fenced { by: other.by }))
        };
        let replaced = timeout(SHOW_TIMEOUT, replaced).await;
        Err(replaced.ok().flatten().unwrap_or(StreamError::Unknown {
            what: format!("no answer for {} s, {why}", OUTCOME_TIMEOUT.as_secs()),
        }))
    }

    async fn hear(&mut self, answered: Answered) -> Result<(), StreamError> {
        self.early.push(answered);
        // Messages that were found in the stream itself need no answer any more.
        let waits = |number: u64| self.in_flight.iter().any(|(of, _)| *of == number);
        let early = std::mem::take(&mut self.early).into_iter();
        self.early = early.filter(|(number, _)| waits(*number)).collect();
        // Starts with the oldest message, and goes on as long as its answer is there.
        while let Some((number, _)) = self.in_flight.front() {
            let its = self.early.iter().position(|(of, _)| of == number);
            let attempt = match its {
                Some(at) => self.early.swap_remove(at).1?,
                // A later message is answered first: the answer to the oldest one is lost, or that message is.
                None if !self.early.is_empty() => Attempt::Taken,
                None => return Ok(()),
            };
            self.judge(attempt).await?;
        }
        self.early.clear();
        Ok(())
    }

    /// Continues after the outcome of an attempt of the oldest message.
    async fn judge(&mut self, attempt: Attempt) -> Result<(), StreamError> {
        let why = match attempt {
            Attempt::Acknowledged => {
                self.acknowledge_oldest();
                return Ok(());
            }
            Attempt::Taken => match self.oldest().at_the_place().await? {
                Some(appended) => return self.handle_found(appended).await,
                // An earlier attempt is being replicated, the server is behind, or an attempt was lost.
                None => "the stream does not show the latest messages yet".to_owned(),
            },
            Attempt::Full(why) => {
                // An attempt with unknown outcome may have taken the last room.
                if self.is_unknown
                    && let Some(appended) = self.oldest().at_the_place().await?
                {
                    return self.handle_found(appended).await;
                }
                if self.withdraw_barrier(&why) {
                    return Ok(());
                }
                let full = *self.full.get_or_insert_with(Instant::now);
                let goes_on = self.events.tries_again(&why, true);
                // Callers that wait for it must learn at some time that its outcome is unknown.
                if !goes_on || full.elapsed() >= OUTCOME_TIMEOUT {
                    return Err(given_up_when_full(&why, self.is_unknown));
                }
                self.until = Instant::now() + OUTCOME_TIMEOUT;
                sleep(PAUSE_WHEN_FULL).await;
                return self.send_again().await;
            }
            Attempt::Unknown(why) => why,
        };
        self.is_unknown = true;
        self.events.tries_again(&why, false);
        self.fail_if_too_late(&why).await?;
        sleep(PAUSE).await;
        self.send_again().await
    }

    fn oldest(&self) -> &Appending {
        &self.in_flight[0].1.appending
    }

    /// Handles the message found at the place of the oldest.
    async fn handle_found(&mut self, appended: Appended) -> Result<(), StreamError> {
        match appended {
            Appended::Ours => {
                self.acknowledge_oldest();
                Ok(())
            }
            Appended::Other(other) => self.handle_other(other).await,
        }
    }

    /// Gives up the oldest message, for which there is no room, if it is a barrier, so that callers need not wait for
    /// room. Keeps it when an attempt may still be in flight, since that would take the place of the next message.
    fn withdraw_barrier(&mut self, why: &str) -> bool {
        let is_sure = self.in_flight[0].1.is_barrier && !self.is_unknown;
        let is_gone = is_sure && self.events.withdraw(why);
        if is_gone {
            self.in_flight.pop_front();
            self.begins_to_wait();
        }
        is_gone
    }

    fn acknowledge_oldest(&mut self) {
        if let Some((_, append)) = self.in_flight.pop_front() {
            self.sure = Some((Instant::now(), append.appending.connection.losses()));
            self.events.acknowledged(append);
        }
        self.begins_to_wait();
    }

    /// Handles another message at the place of the oldest.
    async fn handle_other(&mut self, other: Other) -> Result<(), StreamError> {
        if self.in_flight.len() > 1 || !self.in_flight[0].1.is_behind(&other) {
            // The writer of that message may belong to another history.
            let follows = self.oldest().until_it_follows().await;
            if let Some(error) = follows.err().filter(StreamError::is_damage) {
                return Err(error);
            }
            return Err(StreamError::Fenced { by: other.by });
        }
        self.in_flight[0].1.appending.after += 1;
        self.events.postpone();
        self.begins_to_wait();
        self.send_again().await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::stream::connection::Connection;
    use crate::stream::fake::Fake;
    use crate::stream::figures::Figures;

    /// The notifications received, as words.
    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<&'static str>>>);

    impl Watched for Heard {
        fn tries_again(&self, _: &str, _: bool) -> bool {
            self.0.lock().push("again");
            true
        }
    }

    impl InFlightEvents for Heard {
        fn acknowledged(&self, _: InFlightAppend) {
            self.0.lock().push("there");
        }

        fn postpone(&self) {
            self.0.lock().push("later");
        }

        fn withdraw(&self, _: &str) -> bool {
            self.0.lock().push("none");
            true
        }

        fn has_failed(&self, _: StreamError) {
            self.0.lock().push("failed");
        }
    }

    /// Returns a flight of one message, for which there is no room.
    fn full(connection: &Arc<Connection>, is_barrier: bool) -> Flight<Heard> {
        let appending = Appending {
            connection: Arc::clone(connection),
            after: 0,
            id: "1".to_owned(),
            bytes: vec![1; 100].into(),
        };
        let append = InFlightAppend {
            appending,
            epoch: 1,
            log_id: [7; 16],
            is_barrier,
            began: Instant::now(),
            _counted: Figures::default().begins_append(),
        };
        Flight {
            events: Heard::default(),
            in_flight: [(0, append)].into(),
            attempts: JoinSet::new(),
            early: Vec::new(),
            next: 1,
            until: Instant::now() + OUTCOME_TIMEOUT,
            full: None,
            is_unknown: false,
            sure: None,
        }
    }

    async fn is_full(flight: &mut Flight<Heard>) -> Result<(), StreamError> {
        flight.judge(Attempt::Full("no room".to_owned())).await
    }

    #[test]
    fn a_barrier_without_room_is_given_up_unless_an_attempt_is_unresolved() {
        let connection = Fake::with_room(0).connection();
        let events = |flight: &Flight<Heard>| flight.events.0.lock().clone();
        connection.block(async {
            let mut flight = full(&connection, true);
            assert_eq!(is_full(&mut flight).await, Ok(()));
            assert!(flight.in_flight.is_empty());
            assert_eq!(events(&flight), ["none"]);
            for (is_barrier, is_unknown) in [(true, true), (false, false)] {
                let mut flight = full(&connection, is_barrier);
                flight.is_unknown = is_unknown;
                assert_eq!(is_full(&mut flight).await, Ok(()));
                assert_eq!(flight.in_flight.len(), 1);
                assert_eq!(events(&flight), ["again"]);
            }
        });
    }

    #[test]
    fn a_writer_whose_time_is_up_looks_whether_another_one_took_the_place() {
        let fake = Fake::with_room(64 << 20);
        let connection = fake.connection();
        let late = |epoch| {
            let mut flight = full(&connection, false);
            flight.in_flight[0].1.epoch = epoch;
            flight.until = Instant::now();
            let unknown = Attempt::Unknown("no answer".to_owned());
            connection.block(flight.judge(unknown)).unwrap_err()
        };
        assert!(matches!(late(0), StreamError::Unknown { .. }));
        // The fence of epoch 1.
        drop(fake.writer(1));
        let other = late(0);
        assert!(
            matches!(&other, StreamError::Fenced { by: Some((1, node)) } if node == "node"),
            "{other:?}"
        );
        assert!(matches!(late(1), StreamError::Unknown { .. }));
    }

    #[test]
    fn a_message_waits_for_room_for_half_a_minute() {
        let connection = Fake::with_room(0).connection();
        connection.block(async {
            let mut flight = full(&connection, false);
            assert_eq!(is_full(&mut flight).await, Ok(()));
            let nearly = OUTCOME_TIMEOUT.checked_sub(Duration::from_secs(5)).unwrap();
            flight.full = Some(Instant::now().checked_sub(nearly).unwrap());
            assert_eq!(is_full(&mut flight).await, Ok(()));
            flight.full = Some(Instant::now().checked_sub(OUTCOME_TIMEOUT).unwrap());
            let ended = is_full(&mut flight).await.unwrap_err();
            assert!(ended.to_string().contains("the journal is full"), "{ended}");
            // The time without room counts for the oldest message only.
            let mut flight = full(&connection, false);
            flight.full = Some(Instant::now().checked_sub(OUTCOME_TIMEOUT).unwrap());
            flight.judge(Attempt::Acknowledged).await.unwrap();
            assert_eq!(flight.full, None);
        });
    }
}
