//! Pre-registrations, replayed, raced, and read after the plug was pulled.

use carebook::base::text::MemberId;
use std::collections::BTreeSet;

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use super::{assert_read, is_replay, put_facts};
use crate::support::{Answer, Server, World, actor};

const PRE_REGISTRATIONS: &str = "/reservation-payment-pre-registrations";

fn mother(world: &World) -> String {
    world.token(&Actor {
        member_id: Some(MemberId::from_trusted("member-1")),
        ..actor(ActorKind::Mother, "mother-1")
    })
}

fn registration() -> Value {
    json!({
        "paymentId": "payment-1",
        "cashReceiptIssueRequest": {
            "requestState": "not_requested",
            "purpose": "unknown",
            "registrationIdentityReference": null,
        },
    })
}

#[test]
fn a_pre_registration_is_replayed_told_again_and_kept() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    put_facts(&mut client, &world);
    let mother = mother(&world);
    let path = format!("{PRE_REGISTRATIONS}/payment-1");
    assert_eq!(client.get(&path, &mother).status, 404);
    let first = client.post_keyed(PRE_REGISTRATIONS, &mother, "key-1", &registration());
    assert_eq!(first.status, 200, "{first:?}");
    assert!(!is_replay(&first));
    let position = first.position().unwrap();
    let body = first.json();
    assert_eq!(body["preRegistrationStatus"], "pre_registered");
    assert_eq!(body["paymentActorSnapshot"]["idempotencyKey"], "key-1");
    // 500,500 × 30 / 10,000 is 1,501.5.
    let quote = &body["providerFeeSnapshot"]["methodFeeQuote"];
    assert_eq!(quote["feeAmountKrw"], 1_502);
    assert_eq!(quote["displayMethodName"], "가상계좌");

    let replay = client.post_keyed(PRE_REGISTRATIONS, &mother, "key-1", &registration());
    assert_eq!((replay.status, replay.text()), (200, first.text()));
    assert!(is_replay(&replay));

    // Another key gets what was recorded, and is not used up: other facts with it are a conflict of
    // the obligation, not of the key.
    let other_key = client.post_keyed(PRE_REGISTRATIONS, &mother, "key-2", &registration());
    assert_eq!(other_key.status, 200);
    assert!(!is_replay(&other_key));
    let mut expected = body;
    expected["preRegistrationStatus"] = json!("already_pre_registered");
    assert_eq!(other_key.json(), expected);
    let mut other_facts = registration();
    other_facts["cashReceiptIssueRequest"]["requestState"] = json!("requested");
    for (key, code) in [
        ("key-2", "payment_obligation_conflict"),
        ("key-1", "idempotency_key_reused"),
    ] {
        let refused = client.post_keyed(PRE_REGISTRATIONS, &mother, key, &other_facts);
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (409, &json!(code))
        );
    }

    let no_key = client.post(PRE_REGISTRATIONS, &mother, &registration());
    assert_eq!(no_key.status, 400);
    let header = ("header.Idempotency-Key".to_owned(), "required".to_owned());
    assert_eq!(no_key.faults(), [header]);

    assert_read(&mut client, &path, &mother, position, &first);
    server.kill();
    let server = Server::start(&world);
    let mut client = server.client();
    assert_read(&mut client, &path, &mother, position, &first);
    let replay = client.post_keyed(PRE_REGISTRATIONS, &mother, "key-1", &registration());
    assert_eq!(replay.text(), first.text());
}

#[test]
fn racing_pre_registrations_record_one_snapshot_and_all_report_it() {
    let world = World::new();
    let server = Server::start(&world);
    put_facts(&mut server.client(), &world);
    let mother = mother(&world);
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8)
            .map(|number| {
                let (server, mother) = (&server, &mother);
                scope.spawn(move || {
                    let key = format!("key-{number}");
                    let mut client = server.client();
                    client.post_keyed(PRE_REGISTRATIONS, mother, &key, &registration())
                })
            })
            .collect();
        racers
            .into_iter()
            .map(|racer| racer.join().unwrap())
            .collect()
    });
    assert!(
        answers
            .iter()
            .all(|answer| answer.status == 200 && !is_replay(answer))
    );
    let first = |answer: &&Answer| answer.json()["preRegistrationStatus"] == "pre_registered";
    assert_eq!(answers.iter().filter(first).count(), 1);
    let snapshots: BTreeSet<String> = answers
        .iter()
        .map(|answer| answer.json()["paymentActorSnapshot"].to_string())
        .collect();
    assert_eq!(snapshots.len(), 1);
}
