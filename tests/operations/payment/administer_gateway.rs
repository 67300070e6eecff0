//! Operations at the payment gateway, replayed, raced, and read after the plug was pulled.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use super::{assert_read, is_replay, put_facts};
use crate::support::{Answer, Server, World, actor};

const OPERATIONS: &str = "/billing-engine-payment-admin-operations";

fn administrator(world: &World, subject: &str) -> String {
    world.token(&Actor {
        permissions: vec!["payment:administer".into()],
        ..actor(ActorKind::HeadquartersAdministrator, subject)
    })
}

fn operation(action: &str, key: &str, expected_revision: i64) -> Value {
    let mut body = json!({
        "operationAction": action,
        "reason": "A customer called.",
        "idempotencyKey": key,
        "expectedRevision": expected_revision,
    });
    let subject = match action {
        "search_payments" => ("searchKey", "booking-1"),
        _ => ("paymentId", "payment-1"),
    };
    body[subject.0] = json!(subject.1);
    body
}

#[test]
fn operations_at_the_gateway_are_audited_replayed_and_kept() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    put_facts(&mut client, &world);
    let administrator = administrator(&world, "admin-1");
    let mut kept = Vec::new();
    for (action, key, expected_revision) in [
        ("search_payments", "key-1", 0),
        ("lookup_payment", "key-2", 0),
        ("close_virtual_account", "key-3", 1),
    ] {
        let body = operation(action, key, expected_revision);
        let first = client.post(OPERATIONS, &administrator, &body);
        assert_eq!(first.status, 200, "{first:?}");
        assert!(!is_replay(&first));
        let audit = first.json();
        assert_eq!(audit["operationStatus"], "succeeded", "{action}");
        assert_eq!(audit["replayedFromAuditId"], Value::Null);
        let replay = client.post(OPERATIONS, &administrator, &body);
        assert_eq!(replay.status, 200);
        assert!(is_replay(&replay));
        let mut expected = audit.clone();
        expected["replayedFromAuditId"] = audit["billingAdminOperationAuditId"].clone();
        assert_eq!(replay.json(), expected);
        let id = audit["billingAdminOperationAuditId"].as_str().unwrap();
        let path = format!("{OPERATIONS}/{id}");
        let position = first.position().unwrap();
        assert_read(&mut client, &path, &administrator, position, &first);
        kept.push((path, position, first));
    }
    let fact = client.get(
        "/reference-facts/gateway-payment/payment-1",
        &world.workflow(),
    );
    assert_eq!(fact.json()["revision"], 2, "{fact:?}");
    assert_eq!(fact.json()["facts"]["virtualAccountState"], "closed");

    let stale = client.post(
        OPERATIONS,
        &administrator,
        &operation("lookup_payment", "key-4", 1),
    );
    assert_eq!(
        (stale.status, &stale.json()["code"]),
        (409, &json!("revision_stale"))
    );
    let reused = client.post(
        OPERATIONS,
        &administrator,
        &operation("search_payments", "key-2", 1),
    );
    assert_eq!(reused.json()["code"], "idempotency_key_reused");
    let forbidden = client.post(
        OPERATIONS,
        &world.headquarters(),
        &operation("lookup_payment", "key-1", 2),
    );
    assert_eq!(forbidden.status, 403);
    let mut whole = operation("record_chargeback", "key-5", 2);
    whole["paymentId"] = Value::Null;
    let invalid = client.post(OPERATIONS, &administrator, &whole);
    assert_eq!(invalid.status, 400);
    let required = |path: &str| (path.to_owned(), "required".to_owned());
    assert_eq!(
        invalid.faults(),
        [required("paymentId"), required("amountKrw")]
    );

    server.kill();
    let server = Server::start(&world);
    let mut client = server.client();
    for (path, position, first) in &kept {
        assert_read(&mut client, path, &administrator, *position, first);
    }
    let next = client.post(
        OPERATIONS,
        &administrator,
        &operation("lookup_payment", "key-4", 2),
    );
    assert_eq!(next.status, 200, "{next:?}");
}

#[test]
fn exactly_one_of_many_operations_on_one_revision_is_recorded() {
    for action in ["record_chargeback", "search_payments"] {
        let world = World::new();
        let server = Server::start(&world);
        put_facts(&mut server.client(), &world);
        let answers: Vec<Answer> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|number| {
                    let (server, world) = (&server, &world);
                    scope.spawn(move || {
                        let token = administrator(world, &format!("admin-{number}"));
                        let mut body = operation(action, "key-1", 0);
                        body["amountKrw"] = json!(400_000);
                        server.client().post(OPERATIONS, &token, &body)
                    })
                })
                .collect();
            racers
                .into_iter()
                .map(|racer| racer.join().unwrap())
                .collect()
        });
        let recorded = answers.iter().filter(|answer| answer.status == 200);
        assert_eq!(recorded.count(), 1, "{action}");
        let stale = |answer: &&Answer| answer.json()["code"] == "revision_stale";
        assert_eq!(answers.iter().filter(stale).count(), 7, "{action}");
        let charged_back = if action == "record_chargeback" {
            400_000
        } else {
            0
        };
        let fact = server.client().get(
            "/reference-facts/gateway-payment/payment-1",
            &world.workflow(),
        );
        assert_eq!(fact.json()["facts"]["chargedBackKrw"], charged_back);
    }
}
