//! How long an attempt at a receiver may take, and where it may not go. These tests wait for limits
//! that cannot be configured, so they are among the first to begin.

use crate::webhooks::House;
use crate::webhooks::receiver::{Receiver, Reply};
use crate::{outbox, webhooks};

#[test]
fn a_webhook_receiver_that_responds_byte_by_byte_has_15_seconds_as_others() {
    let (house, hostile, _bad) = webhooks::hostile::beside(|_| Reply::Trickles);
    let read = house.wait(&hostile, |read| !read["lastFailure"].is_null());
    assert_eq!(read["lastFailure"]["error"], "it did not answer in time");
    assert_eq!(read["status"], "failing");
}

#[test]
fn a_receiver_of_messages_that_answers_a_byte_at_a_time_has_15_seconds() {
    let beside = outbox::hostile::beside(|_| Reply::Trickles);
    beside.wait("waiting", |waiting| {
        let mut errors = waiting.iter().map(|message| &message["lastError"]);
        errors.any(|error| error == "it did not answer in time")
    });
}

#[test]
fn this_machine_and_its_network_are_refused_unless_they_are_named() {
    let house = House::with(&["--webhooks-allow", "10.0.0.0/8", "--webhooks-hurry", "1000"]);
    let receiver = Receiver::start();
    let at = |host: &str| format!("http://{host}:{}/", receiver.port);
    for url in [
        at("127.0.0.1"),
        at("localhost"),
        at("[::1]"),
        at("[::ffff:127.0.0.1]"),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://192.168.0.1/".to_owned(),
        "https://[fd00:ec2::254]/".to_owned(),
        // Other ways to write the loopback.
        "https://0x7f000001/".to_owned(),
        "https://2130706433/".to_owned(),
        "https://127.1/".to_owned(),
    ] {
        let subscription = house.subscribe(&url, &["carebook.reference-fact.*"]);
        house.fact(&url, 1);
        let read = house.wait(&subscription, |read| !read["lastFailure"].is_null());
        let error = read["lastFailure"]["error"].as_str().unwrap();
        let refused = ["its address is not allowed", "its name cannot be resolved"];
        assert!(refused.contains(&error), "{url}: {error}");
    }
    assert_eq!(receiver.connections(), 0);
}
