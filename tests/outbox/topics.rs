//! Which receiver gets a message, and what it gets.

use std::collections::BTreeSet;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use carebook::domain::outbox::topics;
use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{accept, create, listed};
use crate::support::{Server, World, carebook, run};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn the_longest_topic_wins_and_a_message_says_what_it_is_about() {
    let world = World::new();
    let (all, branches, relationships) = (
        Receiver::willing(),
        Receiver::willing(),
        Receiver::willing(),
    );
    let secret = world.path("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let server = Server::start_with(
        &world,
        &[
            "--receiver",
            &format!("*={}", all.url),
            "--directory-url",
            &branches.url,
            "--receiver",
            &format!(
                "branch_onboarding.authorization_relationship={}",
                relationships.url
            ),
            "--receiver-secret",
            &format!("*={}", secret.display()),
        ],
    );
    let mut client = server.client();
    let created = create(&mut client, &world, 1);
    assert_eq!(created.status, 201, "{created:?}");
    let accepted = accept(&mut client, &world, 1);
    assert_eq!(accepted.status, 201, "{accepted:?}");
    let got = all.wait_for(|got| !got.is_empty());
    let topics = |receiver: &Receiver| -> Vec<Value> {
        let got = receiver.got();
        got.iter().map(|got| got.body["topic"].clone()).collect()
    };
    assert_eq!(
        topics(&branches),
        [
            "branch_onboarding.operator_identity",
            "branch_onboarding.manager_invitation"
        ]
    );
    assert_eq!(
        topics(&relationships),
        ["branch_onboarding.authorization_relationship"]
    );
    let message = &got[0];
    let number = accepted.json()["relationshipOutboxMessageId"].clone();
    let branch = created.json()["branchId"].as_str().unwrap().to_owned();
    let mut members: Vec<_> = message.body.as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["at", "body", "number", "resource", "topic"]);
    assert_eq!(message.body["number"], number);
    assert_eq!(
        message.body["topic"],
        "authorization.branch_membership.activated"
    );
    assert_eq!(message.body["resource"], format!("admin/branches/{branch}"));
    assert_eq!(message.body["at"], accepted.json()["acceptedAt"]);
    assert_eq!(message.body["body"]["relation"], "branch_manager");
    assert_eq!(message.headers["content-type"], "application/json");
    assert_eq!(message.id(), message.headers["idempotency-key"]);
    let (log, last) = message.id().split_once('-').unwrap();
    assert_eq!((log.len(), last.to_owned()), (32, number.to_string()));
    let timestamp = &message.headers["webhook-timestamp"];
    let mut signed = format!("{}.{timestamp}.", message.id()).into_bytes();
    signed.extend_from_slice(&message.raw);
    let key = STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap());
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key.unwrap());
    let signature = STANDARD.encode(hmac::sign(&key, &signed));
    assert_eq!(
        message.headers["webhook-signature"],
        format!("v1,{signature}")
    );
    let unsigned = &branches.got()[0];
    assert!(!unsigned.headers.contains_key("webhook-signature"));
}

#[test]
fn a_taken_message_shows_in_reads_but_not_in_revisions_or_replays() {
    let world = World::new();
    let receiver = Receiver::start(|_| 503);
    let server = Server::start_with(
        &world,
        &[
            "--receiver",
            &format!("authorization.*={}", receiver.url),
            "--receivers-hurry",
            "1000",
        ],
    );
    let mut client = server.client();
    let created = create(&mut client, &world, 1);
    assert_eq!(created.status, 201, "the embedded directory does the rest");
    let accepted = accept(&mut client, &world, 1);
    let path = format!(
        "/admin/branches/{}",
        created.json()["branchId"].as_str().unwrap()
    );
    let reader = super::administrator(&world);
    let before = client.get(&path, &reader);
    let effect = |answer: &Value| answer["managerMembership"]["sideEffects"][0].clone();
    assert_eq!(effect(&before.json())["status"], "pending");
    receiver.wait_for(|got| !got.is_empty());
    receiver.answer(|_| 204);
    receiver.wait_for(|got| got.iter().any(super::receiver::Got::is_taken));
    let after = loop {
        let after = client.get(&path, &reader);
        if effect(&after.json())["status"] == "completed" {
            break after;
        }
    };
    assert_eq!(after.json()["revision"], before.json()["revision"]);
    assert_ne!(after.header("etag"), before.header("etag"));
    let again = accept(&mut client, &world, 1);
    let mut first = accepted.json();
    first["idempotentReplay"] = json!(true);
    assert_eq!((again.status, again.json()), (200, first));
    assert_eq!(again.json()["authorizationRelationshipStatus"], "queued");
    let number = accepted.json()["relationshipOutboxMessageId"].clone();
    let [message] = &listed(
        &mut client,
        &world,
        "?topic=authorization.branch_membership.activated",
    )[..] else {
        panic!("one message");
    };
    assert_eq!(message["number"], number);
    assert_eq!(message["state"], "taken");
    assert!(message["attempts"].as_i64().unwrap() >= 2);
}

#[test]
fn the_receiver_of_a_demonstration_s_first_start_takes_its_messages() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::willing();
    let mut command = carebook();
    command
        .args(["serve", "--demo", "--listen", "127.0.0.1:0", "--data"])
        .arg(directory.path().join("demo"))
        .args(["--receiver", &format!("*={}", receiver.url)]);
    let server = Server::spawn(command);
    receiver.wait_for(|got| got.iter().any(|got| got.number() == 1 && got.is_taken()));
    let ready = server.client().request("GET", "/readyz", &[], b"");
    assert_eq!(ready.json()["outbox"]["receivers"], 1);
    assert_eq!(ready.json()["outbox"]["withoutReceiver"], 0);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_message_without_a_receiver_waits_and_is_taken_by_a_later_one() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    create(&mut client, &world, 1);
    let accepted = accept(&mut client, &world, 1);
    let number = accepted.json()["relationshipOutboxMessageId"].clone();
    let waiting = listed(&mut client, &world, "?state=waiting");
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0]["number"], number);
    assert_eq!(waiting[0]["attempts"], 0);
    let ready = client.request("GET", "/readyz", &[], b"");
    assert_eq!(ready.status, 200);
    assert_eq!(ready.json()["outbox"]["withoutReceiver"], 1);
    assert_eq!(server.stop(), Some(0));
    // A compaction takes nothing of it away.
    let data = world.data();
    let (code, out, err) = run(&["compact", "--data", data.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{out}{err}");
    let receiver = Receiver::willing();
    let server = Server::start_with(&world, &["--receiver", &format!("*={}", receiver.url)]);
    let got = receiver.wait_for(|got| !got.is_empty());
    assert_eq!(got[0].body["number"], number);
    let mut client = server.client();
    while !listed(&mut client, &world, "?state=waiting").is_empty() {}
    let events = client.get(
        "/events?type=carebook.outbox-message.*",
        &super::reader(&world),
    );
    let events = events.json()["events"].as_array().unwrap().clone();
    assert_eq!(events.len(), 1, "its birth tells nothing: {events:?}");
    assert_eq!(events[0]["type"], "carebook.outbox-message.taken");
    assert_eq!(events[0]["subject"], format!("outbox/{number}"));
    assert_eq!(events[0]["data"]["revision"], Value::Null);
    // The figures follow what is committed.
    let lines = [
        "carebook_receiver_taken_total{receiver=\"*\"} 1",
        "carebook_receiver_waiting{receiver=\"*\"} 0",
        "carebook_outbox_unclaimed 0",
    ];
    let began = std::time::Instant::now();
    loop {
        let metrics = client.get("/metrics", "").text().to_owned();
        let Some(line) = lines.iter().find(|line| !metrics.contains(**line)) else {
            break;
        };
        assert!(
            began.elapsed() < std::time::Duration::from_secs(60),
            "{line}"
        );
    }
}

#[test]
fn receivers_that_cannot_be_are_refused_at_the_start() {
    let world = World::new();
    let secret = world.path("secret");
    std::fs::write(&secret, SECRET).unwrap();
    let unfit = world.path("unfit");
    std::fs::write(&unfit, "whsec_short").unwrap();
    let secret = |name: &str, file: &std::path::Path| format!("{name}={}", file.display());
    let named = "settlement.*=http://127.0.0.1:1/";
    let another = secret("settlement.continuation.*", &world.path("secret"));
    let missing = secret("settlement.*", &world.path("missing"));
    for arguments in [
        vec!["--receiver", "settlement.*=ftp://host/"],
        vec!["--receiver", "a b=http://host/"],
        vec!["--receiver", "http://host/"],
        vec!["--receiver", named, "--receiver", named],
        vec![
            "--directory-url",
            "http://host/",
            "--receiver",
            "branch_onboarding.*=http://other/",
        ],
        vec!["--receiver", named, "--receiver-secret", &another],
        vec!["--receiver", named, "--receiver-secret", &missing],
        vec![
            "--receiver",
            named,
            "--receiver-secret",
            &secret("settlement.*", &unfit),
        ],
    ] {
        let (code, _, error) = run(&[&["serve", "--demo"], &arguments[..]].concat());
        assert_eq!(code, Some(2), "{arguments:?}: {error}");
    }
}

#[test]
fn a_receiver_is_named_for_topics_that_messages_have_and_for_no_others() {
    // Those that the page lists.
    let page = include_str!("../../docs/messages.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let listed: BTreeSet<_> = rows.filter_map(|row| row.split('`').next()).collect();
    assert_eq!(listed, BTreeSet::from(topics::ALL));
    let started = |topics: &str, more: &[&str]| {
        let receiver = format!("{topics}=http://127.0.0.1:1/");
        run(&[&["serve", "--demo", "--receiver", &receiver][..], more].concat())
    };
    let starts = [
        "*",
        "branch_onboarding.*",
        "authorization.branch_membership.*",
    ];
    for topics in topics::ALL.into_iter().chain(starts) {
        let (code, _, error) = started(topics, &["--check"]);
        assert_eq!(code, Some(0), "{topics}: {error}");
    }
    for none in [
        "branch_onbording.*",
        "authorization",
        "settlement.continuation",
        "branch_onboarding.manager_invitations",
        "branch_onboarding.manager_invitation.*",
        "outbox.*",
    ] {
        for more in [&["--check"][..], &[]] {
            let (code, _, error) = started(none, more);
            assert_eq!(code, Some(2), "{none} {more:?}: {error}");
            for topic in topics::ALL {
                assert!(error.contains(topic), "{none} {more:?}: {error}");
            }
        }
    }
}
