//! Many events at once for one receiver, and one event for many subscriptions. How fast that is, the
//! bench of webhooks measures.

use super::*;

#[test]
fn one_quick_receiver_is_told_of_all_events_of_a_load() {
    let (house, receiver) = (House::new(), Receiver::start());
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    // What waits while it is paused is there at once afterwards.
    house.switch(&subscription, 1, "paused");
    let facts: Vec<_> = (0..300)
        .map(|number| fact(&format!("a{number}"), 1))
        .collect();
    let answer = house.client().put_facts(&house.token, &facts);
    assert_eq!(answer.json()["applied"], 300, "{answer:?}");
    house.switch(&subscription, 2, "enabled");
    let mut all = taken(&receiver.wait_for(300));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 300);
}

#[test]
fn many_subscriptions_are_all_told_of_one_event() {
    let (house, receiver) = (House::new(), Receiver::start());
    for _ in 0..50 {
        house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    }
    house.fact("a", 1);
    let came = receiver.wait_for(50);
    assert!(came.iter().all(|one| one.id() == came[0].id()));
}
