//! A server of NATS that works, one that does not, and one that is not there.

use std::io::Read as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use carebook::engine::checkpointer::CheckpointPolicy;
use carebook::engine::log_space::retention::LogRetention;

use serde_json::Value;

use super::{Nats, ask_for_deposit, assert_published, told, until};
use crate::support::{PATIENCE, Server, World, carebook, run, serve_arguments};

#[test]
fn every_event_is_published_once_in_log_order_and_a_restart_continues() {
    let Some(nats) = Nats::started() else {
        return;
    };
    let world = World::new();
    let arguments = ["--nats", &nats.url()];
    let server = Server::start(&world);
    let mut client = server.client();
    // What was committed before anybody published is published first.
    for number in 0..10 {
        assert!(ask_for_deposit(&world, &mut client, number));
    }
    drop(client);
    assert_eq!(server.stop(), Some(0));
    let server = Server::start_with(&world, &arguments);
    let mut client = server.client();
    for number in 10..40 {
        assert!(ask_for_deposit(&world, &mut client, number));
    }
    let events = told(&world, &server);
    assert_eq!(events.len(), 40);
    assert_eq!(assert_published(&nats, &events), 0);
    let ready = client.request("GET", "/readyz", &[], b"").json();
    assert_eq!(ready["nats"]["state"], "publishing", "{ready}");
    until("nothing waits", || {
        server.metric("carebook_nats_waiting_positions") == 0.0
    });
    assert_eq!(server.metric("carebook_nats_oldest_age_seconds"), 0.0);
    assert_eq!(server.metric("carebook_nats_failures_total"), 0.0);
    drop(client);
    assert_eq!(server.stop(), Some(0));

    // Its progress is in the log: the next start publishes what is new, and no more.
    let server = Server::start_with(&world, &arguments);
    assert!(ask_for_deposit(&world, &mut server.client(), 40));
    assert_eq!(assert_published(&nats, &told(&world, &server)), 0);
    let published = "carebook_nats_publish_duration_seconds_count";
    assert_eq!(server.metric(published), 1.0);
}

#[test]
fn how_far_it_is_is_told_to_nobody_and_does_not_go_on_by_itself() {
    let Some(nats) = Nats::started() else {
        return;
    };
    let world = World::new();
    let server = Server::start_with(&world, &["--nats", &nats.url()]);
    assert!(ask_for_deposit(&world, &mut server.client(), 0));
    let durable = || server.metric("carebook_durable_position");
    until("how far it is stands in the log", || durable() == 2.0);
    // Were the commit of that a reason for another one, it would come within a second.
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(durable(), 2.0);
    assert_eq!(told(&world, &server).len(), 1);
    assert_eq!(assert_published(&nats, &told(&world, &server)), 0);
}

#[test]
fn an_absent_nats_server_delays_nothing_and_gets_all_once_it_has_a_stream() {
    let Some(mut nats) = Nats::absent() else {
        return;
    };
    let world = World::new();
    let arguments = ["--nats", &nats.url()];
    let server = Server::start_with(&world, &arguments);
    let mut client = server.client();
    for number in 0..5 {
        assert!(ask_for_deposit(&world, &mut client, number));
    }
    until("an attempt has failed", || {
        server.metric("carebook_nats_failures_total") > 0.0
    });
    let ready = client.request("GET", "/readyz", &[], b"");
    assert_eq!(ready.status, 200);
    let ready = ready.json();
    assert_eq!(ready["status"], "ready");
    assert_eq!(ready["nats"]["state"], "failing", "{ready}");
    assert!(server.metric("carebook_nats_waiting_positions") >= 5.0);
    drop(client);
    let began = Instant::now();
    assert_eq!(server.stop(), Some(0));
    let took = began.elapsed();
    assert!(took < PATIENCE, "{took:?}");

    let server = Server::start_with(&world, &arguments);
    let failures = || server.metric("carebook_nats_failures_total");
    until("an attempt has failed", || failures() > 0.0);
    nats.start();
    let before = failures();
    until("an attempt without a stream has failed", || {
        failures() > before + 1.0
    });
    nats.make_stream();
    assert_eq!(assert_published(&nats, &told(&world, &server)), 0);
    until("all is well again", || {
        let ready = server.client().request("GET", "/readyz", &[], b"");
        ready.json()["nats"]["state"] == "publishing"
    });
}

#[test]
fn a_server_that_accepts_and_says_nothing_delays_no_stop() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", silent.local_addr().unwrap());
    let world = World::new();
    let server = Server::start_with(&world, &["--nats", &url]);
    let (mut held, _) = silent.accept().unwrap();
    assert!(ask_for_deposit(&world, &mut server.client(), 0));
    let began = Instant::now();
    assert_eq!(server.stop(), Some(0));
    let took = began.elapsed();
    assert!(took < PATIENCE, "{took:?}");
    let mut sent = Vec::new();
    let _ = held.read_to_end(&mut sent);
    assert_eq!(sent, b"", "nothing is sent before the server has spoken");
}

#[test]
fn a_user_and_a_password_in_the_url_are_those_that_log_in() {
    let Some(mut nats) = Nats::absent() else {
        return;
    };
    nats.arguments = ["--user", "ann", "--pass", "p@ss"]
        .map(str::to_owned)
        .to_vec();
    nats.start();
    nats.make_stream();
    let world = World::new();
    let url = format!("nats://ann:p%40ss@127.0.0.1:{}", nats.port);
    let server = Server::start_with(&world, &["--nats", &url]);
    assert!(ask_for_deposit(&world, &mut server.client(), 0));
    assert_eq!(assert_published(&nats, &told(&world, &server)), 0);
}

#[test]
fn a_bad_url_and_credentials_that_cannot_be_used_are_wrong_arguments() {
    let world = World::new();
    let nothing = world.path("nothing");
    let empty = world.path("empty");
    std::fs::write(&empty, "no credentials\n").unwrap();
    let (nothing, empty) = (nothing.to_str().unwrap(), empty.to_str().unwrap());
    for arguments in [
        vec!["--nats", "http://localhost"],
        vec!["--nats", "nats://"],
        vec!["--nats-credentials", empty],
        vec!["--nats", "nats://localhost", "--nats-credentials", nothing],
        vec!["--nats", "nats://localhost", "--nats-credentials", empty],
        vec![
            "--nats",
            "nats://ann@localhost",
            "--nats-credentials",
            empty,
        ],
    ] {
        let mut command = carebook();
        serve_arguments(&mut command, &world).args(&arguments);
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
        assert!(err.to_lowercase().contains("nats"), "{arguments:?}: {err}");
        assert!(!world.data().exists(), "{arguments:?}: nothing is begun");
    }
}

/// Has the log of a stopped server give up all that its snapshots cover, whoever needs it.
fn give_up(world: &World) {
    let engine = world.engine();
    engine.checkpoint_by(CheckpointPolicy {
        log: LogRetention::NOTHING,
        ..CheckpointPolicy::default()
    });
    for _ in 0..2 {
        engine.snapshot_now(&mut |_| {}).unwrap();
    }
    assert_eq!(
        engine.compact_log(&mut |_| {}).unwrap().first_position,
        engine.durable() + 1
    );
    engine.shut_down().unwrap();
}

/// One event is published, and four are committed while nothing is: those that are published, and all.
fn published_and_not(nats: &Nats, world: &World) -> [Vec<Value>; 2] {
    let server = Server::start_with(world, &["--nats", &nats.url()]);
    assert!(ask_for_deposit(world, &mut server.client(), 0));
    let published = told(world, &server);
    assert_eq!(assert_published(nats, &published), 0);
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(world);
    for number in 1..5 {
        assert!(ask_for_deposit(world, &mut server.client(), number));
    }
    let all = told(world, &server);
    assert_eq!(server.stop(), Some(0));
    [published, all]
}

#[test]
fn unpublished_events_outlive_a_compaction() {
    let Some(nats) = Nats::started() else {
        return;
    };
    let world = World::new();
    let [_, events] = published_and_not(&nats, &world);
    let data = world.data();
    let compacted = run(&["compact", "--data", data.to_str().unwrap(), "--keep", "0s"]);
    assert_eq!(compacted.0, Some(0), "{compacted:?}");
    let server = Server::start_with(&world, &["--nats", &nats.url()]);
    assert_eq!(assert_published(&nats, &events), 0);
    assert_eq!(server.metric("carebook_nats_gaps_total"), 0.0);
}

#[test]
fn events_given_up_by_the_log_are_a_counted_gap_and_publishing_goes_on() {
    let Some(nats) = Nats::started() else {
        return;
    };
    let world = World::new();
    let [mut events, _] = published_and_not(&nats, &world);
    give_up(&world);

    let server = Server::start_with(&world, &["--nats", &nats.url()]);
    assert!(ask_for_deposit(&world, &mut server.client(), 5));
    events.extend(told(&world, &server));
    assert_eq!(events.len(), 2);
    assert_eq!(assert_published(&nats, &events), 0);
    assert_eq!(server.metric("carebook_nats_gaps_total"), 1.0);
}
