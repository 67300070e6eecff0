//! What an event says.

use std::collections::{BTreeMap, BTreeSet};

use carebook::base::time::Timestamp;
use carebook::catalogue::OPERATIONS;
use carebook::domain::event::EventField;
use carebook::domain::reference::samples;
use carebook::journal::events::event_types;
use carebook::journal::personal::{Masking, shown};
use serde_json::{Value, json};

use super::{all, played, played_with_bodies, reader};

/// What every event has.
const ATTRIBUTES: [&str; 9] = [
    "specversion",
    "id",
    "source",
    "type",
    "subject",
    "time",
    "sequence",
    "datacontenttype",
    "data",
];

/// Puts the texts of a body's fields that are shown so into `found`.
fn texts(of: Masking, name: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                texts(of, name, value, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(of, name, item, found)),
        Value::String(text) if shown(name) == of && text.len() > 3 => {
            found.insert(text.clone());
        }
        _ => {}
    }
}

#[test]
fn every_event_is_a_cloud_event_of_a_declared_type_without_personal_data() {
    let (stage, bodies) = played_with_bodies();
    let token = stage.token(&reader());
    let events = all(&mut stage.client(), &token, "", 1_000);
    let types: BTreeMap<String, Vec<EventField>> = event_types()
        .iter()
        .map(|of| (of.name.event_type(), (of.fields)()))
        .collect();
    let facts = samples::lines().map(|line| stage.named(line.parse().unwrap()));
    let sent: Vec<Value> = facts.chain(bodies).collect();
    let all_texts = |of| {
        let mut found = BTreeSet::new();
        sent.iter()
            .for_each(|value| texts(of, "", value, &mut found));
        found
    };
    // What was searched for may be an identifier that is shown elsewhere.
    let personal = &all_texts(Masking::Hidden) - &all_texts(Masking::Plain);
    assert!(personal.len() > 20, "{personal:?}");
    let mut last = (0, 0);
    let mut operations = BTreeSet::new();
    let source = events[0]["source"].as_str().unwrap().to_owned();
    assert!(source.starts_with("urn:carebook:"), "{source}");
    let (mut client, workflow) = (stage.client(), stage.workflow());
    for event in &events {
        let fields: BTreeSet<_> = event.as_object().unwrap().keys().cloned().collect();
        assert_eq!(fields, ATTRIBUTES.map(str::to_owned).into(), "{event}");
        assert_eq!(event["specversion"], "1.0");
        assert_eq!(event["source"], *source);
        assert_eq!(event["datacontenttype"], "application/json");
        let id = event["id"].as_str().unwrap();
        let (position, number) = id.split_once('-').unwrap();
        let id: (u64, u32) = (position.parse().unwrap(), number.parse().unwrap());
        assert!(id > last, "{id:?} after {last:?}");
        let follows = if id.0 == last.0 { last.1 + 1 } else { 0 };
        assert_eq!(id.1, follows, "{event}");
        last = id;
        assert_eq!(event["sequence"], format!("{:020}", id.0));
        assert!(Timestamp::parse(event["time"].as_str().unwrap()).is_some());
        let declared = &types[event["type"].as_str().unwrap()];
        let mut names: BTreeSet<_> = declared.iter().map(|field| field.name.to_owned()).collect();
        names.extend(["operation", "revision", "actorKind", "actorProfileId"].map(str::to_owned));
        let data = event["data"].as_object().unwrap();
        assert_eq!(
            data.keys().cloned().collect::<BTreeSet<_>>(),
            names,
            "{event}"
        );
        for field in declared {
            assert!(field.is_nullable || !data[field.name].is_null(), "{event}");
        }
        operations.insert(data["operation"].as_str().unwrap().to_owned());
        let text = event.to_string();
        let told = personal.iter().find(|personal| text.contains(*personal));
        assert_eq!(told, None, "{event}");
        let subject = event["subject"].as_str().unwrap();
        if subject.starts_with("reference-facts/") {
            let read = client.get(&format!("/{subject}"), &workflow);
            assert_eq!(read.status, 200, "{event}");
        }
    }
    let silent: Vec<_> = OPERATIONS
        .iter()
        .map(|row| row.name)
        .filter(|name| !operations.contains(*name))
        .collect();
    assert_eq!(
        silent,
        ["authorize_payment", "decide_cash_receipt_eligibility"],
        "those that change nothing"
    );
}

#[test]
fn no_type_of_event_has_a_field_that_is_personal() {
    for of in event_types() {
        for field in (of.fields)() {
            assert_ne!(
                shown(field.name),
                Masking::Hidden,
                "{:?} {}",
                of.name,
                field.name
            );
        }
    }
}

#[test]
fn an_event_tells_who_did_what_to_which_resource() {
    let stage = played();
    let token = stage.token(&reader());
    let mut client = stage.client();
    let only = |events: Vec<Value>| {
        assert_eq!(events.len(), 1, "{events:?}");
        events.into_iter().next().unwrap()
    };
    let of_type = "&type=carebook.settlement-statement.deposit-requested";
    let requested = all(&mut client, &token, of_type, 100);
    // The acknowledgement's example goes on with another statement.
    let event = &requested[0];
    let subject = event["subject"].as_str().unwrap();
    assert!(subject.starts_with("settlement-statements/"), "{event}");
    assert_eq!(event["data"]["operation"], "request_deposit");
    assert_eq!(event["data"]["revision"], 1);
    assert_eq!(event["data"]["actorKind"], "headquarters_administrator");
    let headquarters = stage.headquarters();
    let read = client.get(&format!("/{subject}"), &headquarters);
    assert_eq!(read.json()["statementCode"], event["data"]["statementCode"]);
    // No token was asked for.
    let finalized = "&type=carebook.reservation-financial-lifecycle.*";
    let event = only(all(&mut client, &token, finalized, 100));
    assert_eq!(event["data"]["actorKind"], Value::Null);
    assert_eq!(event["data"]["actorProfileId"], Value::Null);
    assert_eq!(event["data"]["revision"], Value::Null);
    // A fact that came in.
    let mother = stage.id("mother-1");
    let of_actor = format!("&subject=reference-facts/actor/{mother}");
    let event = only(all(&mut client, &token, &of_actor, 100));
    assert_eq!(event["type"], "carebook.reference-fact.applied");
    assert_eq!(event["data"]["kind"], "actor");
    assert_eq!(event["data"]["operation"], "reference_fact");
    assert_eq!(event["data"]["revision"], 1);
}

#[test]
fn adjustment_events_have_the_adjustment_s_id_status_and_amount() {
    let stage = played();
    let token = stage.token(&reader());
    let of_type = "&type=carebook.payment-change-adjustment.*";
    let events = all(&mut stage.client(), &token, of_type, 100);
    let id = stage.id("adjustment-2");
    let told = |what: &str| {
        let of_it = events
            .iter()
            .filter(|event| event["data"]["adjustmentId"] == *id);
        let event_type = format!("carebook.payment-change-adjustment.{what}");
        let mut found = of_it.filter(|event| event["type"] == *event_type);
        found.next().unwrap()["data"].clone()
    };
    let changed = told("changed");
    assert_eq!(changed["adjustmentStatus"], "payable");
    assert_eq!(changed["amountKrw"], 40_000);
    let captured = told("payment-captured");
    assert_eq!(captured["amountKrw"], 40_000);
    assert_eq!(captured["providerName"], "sample-gateway");
}

#[test]
fn a_pre_registered_payment_s_fact_is_an_event_of_the_registration_too() {
    let stage = played();
    let token = stage.token(&reader());
    let (mut client, workflow) = (stage.client(), stage.workflow());
    let of_type = "&type=carebook.payment-obligation.pre-registered";
    let registered = all(&mut client, &token, of_type, 100);
    let subject = registered[0]["subject"].as_str().unwrap();
    let (_, id) = subject.split_once('/').unwrap();
    let fact_path = format!("reference-facts/payment-obligation/{id}");
    let mut fact = client.get(&format!("/{fact_path}"), &workflow).json();
    let revision = fact["revision"].as_i64().unwrap() + 1;
    fact["revision"] = json!(revision);
    fact["facts"]["state"] = json!("paid");
    let put = client.put_facts(&workflow, &[fact]);
    assert_eq!(put.status, 200, "{put:?}");

    let of_fact = all(&mut client, &token, &format!("&subject={fact_path}"), 100);
    let applied = of_fact.last().unwrap();
    assert_eq!(applied["type"], "carebook.reference-fact.applied");
    assert_eq!(applied["data"]["revision"], revision);
    let of_registration = all(&mut client, &token, &format!("&subject={subject}"), 100);
    let [first, changed] = &of_registration[..] else {
        panic!("{of_registration:?}");
    };
    assert_eq!(first["type"], "carebook.payment-obligation.pre-registered");
    assert_eq!(changed["type"], "carebook.payment-obligation.changed");
    assert_eq!(changed["data"]["operation"], "reference_fact");
    assert_eq!(changed["data"]["revision"], Value::Null);
    // The fact's own event stays the first of the commit.
    let position = applied["id"].as_str().unwrap().strip_suffix("-0").unwrap();
    assert_eq!(changed["id"], format!("{position}-1"));
    let history = client.get(&format!("/{subject}/history"), &stage.headquarters());
    let newest = &history.json()["revisions"][0];
    assert_eq!(newest["operation"], "reference_fact");
    assert_eq!(newest["position"].to_string(), position);
}
