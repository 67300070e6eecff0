//! Many events at once for one receiver, and one event for many subscriptions. How fast that is, the
//! bench of webhooks measures.

use super::*;

/// Has 300 facts come in during a pause, which are all told afterwards; meanwhile `waits` is asked.
fn told_after_a_pause(house: &House, waits: impl FnOnce(&Value)) {
    let receiver = Receiver::start();
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.switch(&subscription, 1, "paused");
    let facts: Vec<_> = (0..300)
        .map(|number| fact(&format!("a{number}"), 1))
        .collect();
    let answer = house.client().put_facts(&house.token, &facts);
    assert_eq!(answer.json()["applied"], 300, "{answer:?}");
    waits(&subscription);
    house.switch(&subscription, 2, "enabled");
    let mut all = taken(&receiver.wait_for(300));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 300);
}

#[test]
fn one_quick_receiver_is_told_of_all_events_of_a_load() {
    let house = House::new();
    // What waits while it is paused is there at once afterwards.
    told_after_a_pause(&house, |_| ());
}

#[test]
fn events_of_a_pause_fill_half_the_room_and_the_rest_stays_in_the_log() {
    let house = House::with(&[&NEAR[..], &["--webhooks-waiting-max", "300"]].concat());
    told_after_a_pause(&house, |subscription| {
        house.wait(subscription, |read| read["waiting"] == 150);
        house.wait_for_figures(subscription, |of| of("waiting") == 150.0);
        // What comes later is told to others, and the figures are those of later.
        house.hears_of_it();
        house.wait_for_figures(subscription, |of| of("waiting") == 150.0);
        assert_eq!(house.read(subscription)["waiting"], 150);
    });
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
