//! How fast deliveries are. Small here; `EVENTS` and `SUBSCRIPTIONS` make it a measurement, to be
//! built with `--release`.

use super::*;

fn number(name: &str, small: usize) -> usize {
    std::env::var(name).map_or(small, |number| number.parse().unwrap())
}

#[test]
fn one_quick_receiver_is_told_of_all_events_of_a_load() {
    let (house, receiver) = (House::new(), Receiver::start());
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    let count = number("EVENTS", 300);
    // What waits while it is paused is there at once afterwards.
    let switch = |revision, status| {
        let body = json!({"expectedRevision": revision, "status": status});
        house.send("PATCH", &path_of(&subscription), &body);
    };
    switch(1, "paused");
    let numbers: Vec<_> = (0..count).collect();
    for numbers in numbers.chunks(500) {
        let facts = numbers.iter().map(|number| fact(&format!("a{number}"), 1));
        let facts: Vec<_> = facts.collect();
        let answer = house.client().put_facts(&house.token, &facts);
        assert_eq!(answer.json()["applied"], facts.len(), "{answer:?}");
    }
    let begun = Instant::now();
    switch(2, "enabled");
    let came = receiver.wait_for(count);
    let took = begun.elapsed();
    let rate = count as f64 / took.as_secs_f64();
    println!(
        "{count} events in {took:?}: {rate:.0} a second on {} connections",
        receiver.connections()
    );
    let mut all = taken(&came);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn many_subscriptions_are_all_told_of_one_event() {
    let (house, receiver) = (House::new(), Receiver::start());
    let count = number("SUBSCRIPTIONS", 50);
    for _ in 0..count {
        house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    }
    let begun = Instant::now();
    house.fact("a", 1);
    let came = receiver.wait_for(count);
    println!("{count} subscriptions told in {:?}", begun.elapsed());
    assert!(came.iter().all(|one| one.id() == came[0].id()));
}
