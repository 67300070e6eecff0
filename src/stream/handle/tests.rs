use super::*;
use crate::stream::fake::{Fake, LOG, until};
use crate::stream::maintenance::hold;
use crate::stream::message::{Message, Records};

/// A time much shorter than any timeout for an answer here.
const AT_ONCE: Duration = Duration::from_secs(5);
const MIB: usize = 1 << 20;

/// Whether the response to a request that comes now may be sent, which must be known at once.
#[track_caller]
fn may_answer(link: &Arc<JournalHandle>) -> bool {
    let came = Instant::now();
    let may = link.connection().block(link.confirm(came));
    assert!(came.elapsed() < AT_ONCE, "{:?}", came.elapsed());
    may
}

#[test]
fn barriers_leave_room_for_a_fence_and_reads_are_then_refused_at_once() {
    let fake = Fake::with_room(MIB);
    let first = fake.writer(1);
    assert!(may_answer(&first));
    assert_eq!(
        fake.kept.lock().messages.len(),
        2,
        "the fence and a barrier"
    );
    let others = MIB - (60 << 10);
    fake.kept.lock().others = others;
    until("it is told", || first.room.is_for_fences());
    for _ in 0..3 {
        assert!(!may_answer(&first));
    }
    assert!(first.lack(0).is_some());
    assert_eq!(fake.kept.lock().messages.len(), 2);
    // Another process takes over, and may answer once there is room again.
    let second = fake.writer(2);
    until("it is told", || second.room.is_for_fences());
    assert!(!may_answer(&second));
    fake.kept.lock().others = 0;
    until("it is told", || !second.room.is_for_fences());
    assert!(may_answer(&second));
    until("it hears of the other one", || first.ended().is_some());
    assert!(!may_answer(&first));
    fake.tail();
}

#[test]
fn a_barrier_without_room_is_dropped_and_the_next_message_replaces_it() {
    let fake = Fake::with_room(64 * MIB);
    let link = fake.writer(1);
    assert!(may_answer(&link));
    fake.kept.lock().is_full = true;
    assert!(!may_answer(&link));
    assert!(!link.has_in_flight());
    // No other source reports the lack of room, so the reason must stay known.
    let before = fake.kept.lock().appends;
    until("it is tried again", || {
        fake.kept.lock().appends >= before + 2
    });
    assert!(link.lack(0).unwrap().contains("insufficient storage"));
    assert!(!may_answer(&link));
    fake.kept.lock().is_full = false;
    until("there is room", || link.lack(0).is_none());
    assert!(may_answer(&link));
    let record = [1, 0, 0, 0, 9];
    let content = Content::Batch(Records::of(&record, 1).unwrap());
    let appended = link.connection().block(link.append(content));
    assert_eq!(appended, Ok(()));
    assert!(may_answer(&link));
    assert_eq!(fake.tail().next, 2);
    until("all is counted", || link.figures().counted().in_flight == 0);
}

#[test]
fn reads_are_refused_at_once_while_a_batch_waits_for_room() {
    let fake = Fake::with_room(64 * MIB);
    let link = fake.writer(1);
    assert!(may_answer(&link));
    fake.kept.lock().is_full = true;
    let record = [1, 0, 0, 0, 9];
    let content = Content::Batch(Records::of(&record, 1).unwrap());
    assert!(link.begin(content).unwrap().is_some());
    until("it is refused", || link.lack(0).is_some());
    assert!(!may_answer(&link));
    assert!(link.has_in_flight(), "somebody's data is in it");
    fake.kept.lock().is_full = false;
    let known = link.connection().block(link.until_acknowledged());
    assert_eq!(known, Ok(()));
    assert!(may_answer(&link));
    assert_eq!(fake.tail().next, 2);
}

/// Appends a record; returns the outcome.
fn append(link: &Arc<JournalHandle>) -> Result<(), StreamError> {
    let content = Content::Batch(Records::of(&[1, 0, 0, 0, 9], 1).unwrap());
    link.connection().block(link.append(content))
}

#[test]
fn a_writer_whose_journal_has_lost_its_end_ends_and_appends_nothing_more() {
    let lost = StreamError::Ahead {
        directory: 3,
        journal: 1,
    };
    for has_to_write in [true, false] {
        let fake = Fake::with_room(64 * MIB);
        let link = fake.written(1, 3);
        // The stream has the fence, a record, and another fence, instead of the fence and three records.
        let short = fake.written_on(2, 0);
        fake.has(&short);
        if has_to_write {
            assert_eq!(append(&link), Err(lost.clone()));
        }
        until("it is noticed", || link.ended().is_some());
        assert_eq!(link.ended(), Some(&lost));
        assert!(fake.kept.lock().messages == short);
    }
}

#[test]
fn a_writer_distinguishes_its_successor_from_another_history() {
    let fake = Fake::with_room(64 * MIB);
    let link = fake.written(1, 3);
    fake.has(&fake.written_on(4, 2));
    let by = Some((2, "node".to_owned()));
    assert_eq!(append(&link), Err(StreamError::Fenced { by }));
    let fake = Fake::with_room(64 * MIB);
    let link = fake.written(1, 3);
    fake.has(&fake.written_on(2, 4));
    assert_eq!(append(&link), Err(StreamError::Replaced { position: 3 }));
}

#[test]
fn a_reconnected_writer_appends_nothing_to_another_equally_long_history() {
    let fake = Fake::with_room(64 * MIB);
    let link = fake.written(1, 3);
    fake.kept.lock().cuts = true;
    let connection = link.connection();
    until("it is connected again", || {
        connection.losses() > 0 && connection.is_up()
    });
    // Where the stream is the same one, the writer goes on.
    assert_eq!(append(&link), Ok(()));
    let other = fake.written_on(2, 2);
    assert_eq!(other.len(), fake.kept.lock().messages.len());
    fake.kept.lock().cuts = true;
    until("it is connected again", || {
        connection.losses() > 1 && connection.is_up()
    });
    fake.has(&other);
    assert_eq!(append(&link), Err(StreamError::Replaced { position: 4 }));
    assert!(fake.kept.lock().messages == other);
}

#[test]
fn the_first_append_of_an_epoch_comes_after_its_own_fence() {
    let fake = Fake::with_room(64 * MIB);
    let link = fake.writer(1);
    let other = fake.written_on(0, 0);
    fake.has(&other);
    assert_eq!(append(&link), Err(StreamError::Replaced { position: 0 }));
    assert!(fake.kept.lock().messages == other);
}

#[test]
fn no_epoch_is_begun_in_a_journal_that_does_not_have_what_was_read() {
    let fake = Fake::with_room(64 * MIB);
    drop(fake.written(1, 3));
    let (tail, whole) = (fake.tail(), fake.kept.lock().messages.clone());
    let replaced = StreamError::Replaced { position: 3 };
    let lost = StreamError::Ahead {
        directory: 3,
        journal: 1,
    };
    let others = [
        (fake.written_on(2, 0), lost),
        (fake.written_on(2, 1), replaced.clone()),
        (fake.written_on(2, 2), replaced),
    ];
    for (messages, error) in others {
        fake.has(&messages);
        let next = hold(fake.connection(), "next", [2; 16]);
        let fenced = next.connection().block(next.fence(&tail, LOG));
        assert_eq!(fenced, Err(error));
        assert!(!next.writes());
        assert!(fake.kept.lock().messages == messages);
    }
    fake.has(&whole);
    let next = hold(fake.connection(), "next", [2; 16]);
    let fenced = next.connection().block(next.fence(&tail, LOG));
    assert_eq!(fenced, Ok(true));
}

#[test]
fn an_epoch_is_begun_after_a_message_that_is_void() {
    let fake = Fake::with_room(64 * MIB);
    drop(fake.writer(1));
    // Of two messages in flight, the first lost its place to a fence.
    let (first, _) = fake.tail().place(LOG, 1, 0).message(Content::Barrier);
    let mut tail = fake.tail();
    tail.follow(2, &Message::read(&first).unwrap()).unwrap();
    let (second, _) = tail.place(LOG, 1, 1).message(Content::Barrier);
    drop(fake.writer(2));
    fake.kept.lock().messages.push(second.to_vec());
    let third = fake.writer(3);
    assert!(may_answer(&third));
    assert_eq!(fake.tail().epoch, 3);
}
