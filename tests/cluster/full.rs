//! A full journal refuses commands, as a full disk does, and goes on when there is room again.
//!
//! `FULL_SECONDS=20 cargo test --test main -- cluster::full` lets it be full for nearly as long as room
//! is waited for.

use std::time::{Duration, Instant};

use serde_json::json;

use super::flight::through;
use super::proxy::{Fate, From, Proxy};
use super::{Cluster, ROOMY, ask, ask_for, ask_saying, until};
use crate::support::{PATIENCE, Server, World};

/// What the stream may have at first.
const LITTLE: u64 = 1 << 20;

#[test]
fn a_full_journal_refuses_commands_answers_reads_and_resumes_with_room() {
    let Some(cluster) = Cluster::with_journal(1, LITTLE) else {
        return;
    };
    let world = World::new();
    let server = cluster.serve(&world);
    let mut client = server.client();
    let memo = "x".repeat(1_900);
    let mut granted = 0;
    let mut refused = None;
    for number in 0..2_000 {
        match ask_saying(&world, &mut client, number, &memo) {
            Some(201) => granted += 1,
            status => {
                refused = status;
                break;
            }
        }
    }
    assert_eq!(refused, Some(503), "after {granted} commands");
    assert_eq!(client.request("GET", "/readyz", &[], b"").status, 503);
    let reason = "carebook_unready{reason=\"no_journal\"}";
    assert_eq!(server.metric(reason), 1.0);
    let held = cluster.status();
    assert_eq!(held["lastPosition"], granted, "{held}");
    assert!(held["bytes"].as_u64().unwrap() <= LITTLE, "{held}");
    cluster.change(&json!({"max_bytes": 64 << 20}));
    until("there is room again", || {
        ask_saying(&world, &mut server.client(), 5_000, &memo) == Some(201)
    });
    assert_eq!(server.stop(), Some(0));
    let told = cluster.verify(&world.data());
    assert_eq!(told["records"], granted + 1, "{told}");
}

#[test]
fn when_only_a_fence_fits_reads_are_refused_at_once_and_a_node_takes_over() {
    let Some(cluster) = Cluster::with_journal(1, LITTLE) else {
        return;
    };
    let world = World::new();
    let first = cluster.serve(&world);
    let memo = "x".repeat(1_900);
    let mut client = first.client();
    let mut granted = 0;
    while ask_saying(&world, &mut client, granted, &memo) == Some(201) {
        granted += 1;
    }
    let read = |server: &Server| {
        let path = "/settlement-statements?limit=1";
        let began = Instant::now();
        let answer = server.client().get(path, &world.headquarters());
        assert!(began.elapsed() < Duration::from_secs(5), "{answer:?}");
        answer
    };
    assert_eq!(read(&first).status, 200, "barriers find room");
    // Barriers would need an hour to leave so little.
    let held = cluster.status()["bytes"].as_u64().unwrap();
    let little = held + 20_000;
    cluster.change(&json!({"max_bytes": little}));
    // Until it has looked, the writer goes by the room that there was.
    until("the writer knows of it", || {
        first.metric("carebook_journal_stream_bytes_max") <= little as f64
    });
    until("only room for a fence is left", || {
        read(&first).status == 503
    });
    let messages = cluster.messages().len();
    for _ in 0..3 {
        let refused = read(&first);
        assert_eq!(refused.json()["code"], "service_unavailable", "{refused:?}");
    }
    assert_eq!(cluster.messages().len(), messages, "none is a barrier");
    first.kill();
    let second = Server::spawn(cluster.command(&world, &world.path("second")));
    assert_eq!(read(&second).status, 503);
    cluster.change(&json!({"max_bytes": ROOMY}));
    until("there is room again", || read(&second).status == 200);
    ask_for(&world, &second, 5_000..5_002);
    assert_eq!(second.stop(), Some(0));
    cluster.verify(&world.path("second"));
}

#[test]
fn an_answer_that_is_lost_while_the_journal_is_full_ends_nothing() {
    let Some((cluster, world)) = Cluster::with_world() else {
        return;
    };
    let proxy = Proxy::to(cluster.nodes[0].port(), |_| Fate::Passes);
    let server = through(&cluster, &proxy, &world, &world.data());
    ask_for(&world, &server, 0..3);
    let retries = || server.metric("carebook_journal_retries_total");
    let full = std::env::var("FULL_SECONDS").map_or(1, |seconds| seconds.parse().unwrap());
    // The servers have less room from one moment to the next: a command is on its way then.
    cluster.change(&json!({"max_bytes": 1_024}));
    std::thread::scope(|scope| {
        let mut client = server.client();
        let world = &world;
        let asking = scope.spawn(move || ask(world, &mut client, 3));
        until("the journal is full", || retries() >= 1.0);
        // What the servers say of the append that is tried again and again is lost for a while.
        proxy.judge_by(|from| match from {
            From::Server => Fate::IsLost,
            From::Writer => Fate::Passes,
        });
        let before = retries();
        // One may have been answered before.
        until("an answer is missed", || retries() >= before + 2.0);
        proxy.judge_by(|_| Fate::Passes);
        std::thread::sleep(Duration::from_secs(full));
        cluster.change(&json!({"max_bytes": ROOMY}));
        // Who asked may have given up.
        assert!(matches!(asking.join().unwrap(), None | Some(201)));
    });
    until("there is room again", || {
        ask(&world, &mut server.client(), 4) == Some(201)
    });
    // The unacknowledged one is there, too.
    ask_for(&world, &server, 3..6);
    assert_eq!(server.stop(), Some(0));
    let told = cluster.verify(&world.data());
    assert_eq!(told["records"], 6, "{told}");
}

#[test]
fn a_command_for_which_there_is_no_room_after_all_is_answered_in_the_end() {
    let Some((cluster, world, server)) = Cluster::with_writer(3) else {
        return;
    };
    let answered = loop {
        cluster.change(&json!({"max_bytes": ROOMY}));
        until("it is ready", || {
            server.client().request("GET", "/readyz", &[], b"").status == 200
        });
        // The writer has not heard of it yet, most likely.
        cluster.change(&json!({"max_bytes": 1_024}));
        let began = Instant::now();
        let answered = ask(&world, &mut server.client(), 3);
        // One that was refused at once was not accepted.
        if began.elapsed() > Duration::from_secs(20) {
            break answered;
        }
    };
    // The connection may have ended with the process.
    assert!(matches!(answered, None | Some(503)), "{answered:?}");
    assert_eq!(server.ended_within(PATIENCE), Some(1));
    cluster.change(&json!({"max_bytes": ROOMY}));
    let server = cluster.serve(&world);
    ask_for(&world, &server, 0..5);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(cluster.verify(&world.data())["records"], 5);
}

#[test]
fn a_command_whose_record_fits_no_message_is_at_fault_itself() {
    let Some((cluster, world)) = Cluster::with_world() else {
        return;
    };
    let server = cluster.serve(&world);
    // Its record has the evidence twice: in the event, and in the answer.
    let export = |number: usize, keys: usize| {
        let rest = "가".repeat(130);
        let evidence = (0..keys).map(|key| format!("{key:0200}{rest}"));
        json!({
            "requestCode": format!("request-{number}"),
            "scope": {
                "collection": "settlement_lines",
                "settlementPeriodStart": "2026-10-01",
                "settlementPeriodEnd": "2026-10-31",
                "branchProfileId": "branch-1",
                "externalRecipientCode": null,
                "sourceDatasetRevision": 1,
                "sourceEvidenceKeys": evidence.collect::<Vec<_>>(),
            },
            "actorKind": "headquarters_administrator",
            "actorProfileId": "hq-1",
            "idempotencyKey": format!("export-{number}"),
        })
    };
    let ask = |server: &Server, world: &World, number, keys| {
        let body = export(number, keys);
        assert!(
            body.to_string().len() < 1 << 20,
            "the body itself is in order"
        );
        let path = "/settlement-data-room-export-requests";
        server.client().post(path, &world.headquarters(), &body)
    };
    let refused = ask(&server, &world, 1, 1_000);
    assert_eq!(refused.status, 400, "{refused:.300?}");
    assert_eq!(refused.json()["code"], "request_invalid");
    let faults = vec![(String::new(), "too_long".to_owned())];
    assert_eq!(refused.faults(), faults);
    // Nothing of it stays: not its code, and not its key; and a little less is taken.
    let taken = ask(&server, &world, 1, 700);
    assert_eq!(taken.status, 201, "{taken:.300?}");
    super::ask_for(&world, &server, 0..2);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(cluster.verify(&world.data())["records"], 3);
    // It is the journal's bound: a file takes it.
    let file = World::new();
    let alone = Server::start(&file);
    assert_eq!(ask(&alone, &file, 1, 1_000).status, 201);
}
