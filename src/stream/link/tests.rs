use super::*;
use crate::stream::fake::{Fake, until};
use crate::stream::message::Records;

/// Much sooner than anything here is given up for want of an answer.
const AT_ONCE: Duration = Duration::from_secs(5);
const MIB: usize = 1 << 20;

/// Whether a request that comes now may be answered, which is known at once.
#[track_caller]
fn may_answer(link: &Arc<Link>) -> bool {
    let came = Instant::now();
    let may = link.connection().block(link.confirm(came));
    assert!(came.elapsed() < AT_ONCE, "{:?}", came.elapsed());
    may
}

#[test]
fn what_barriers_leave_is_refused_to_reads_at_once_and_enough_for_a_fence() {
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
    // Another process takes over, and answers once there is room again.
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
fn a_barrier_for_which_there_is_no_room_is_none_and_what_comes_next_takes_its_place() {
    let fake = Fake::with_room(64 * MIB);
    let link = fake.writer(1);
    assert!(may_answer(&link));
    fake.kept.lock().is_full = true;
    assert!(!may_answer(&link));
    assert!(!link.has_in_flight());
    // Nothing else says that there is no room, so that stays known.
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
