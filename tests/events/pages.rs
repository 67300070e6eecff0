//! Events in pages.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use super::{all, page_of, played, reader};
use crate::support::{Server, World, actor};

fn ids(events: &[Value]) -> Vec<&str> {
    let ids = events.iter().map(|event| event["id"].as_str().unwrap());
    ids.collect()
}

#[test]
fn pages_of_every_size_give_the_same_events_and_filters_a_part_of_them() {
    let stage = played();
    let token = stage.token(&reader());
    let mut client = stage.client();
    let whole = all(&mut client, &token, "", 1_000);
    assert!(whole.len() > 60, "{}", whole.len());
    for limit in [1, 2, 7, 64] {
        assert_eq!(ids(&all(&mut client, &token, "", limit)), ids(&whole));
    }
    for after in &whole {
        let path = format!("/events?limit=3&after={}", after["id"].as_str().unwrap());
        let page = page_of(&client.get(&path, &token));
        let begin = whole.iter().position(|event| event == after).unwrap() + 1;
        let expected = &whole[begin..whole.len().min(begin + 3)];
        assert_eq!(page.events, expected, "{path}");
        assert_eq!(page.end, begin + 3 >= whole.len(), "{path}");
    }
    let of = |wanted: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        whole
            .iter()
            .filter(|event| wanted(event))
            .cloned()
            .collect()
    };
    let is_type = |event: &Value, text: &str| event["type"].as_str().unwrap().starts_with(text);
    let branches = of(&|event| is_type(event, "carebook.branch."));
    assert!(!branches.is_empty());
    let two = of(&|event| is_type(event, "carebook.branch.") || is_type(event, "carebook.pay"));
    let subject = branches[0]["subject"].as_str().unwrap();
    let of_subject = of(&|event| event["subject"] == *subject);
    for (query, expected) in [
        ("&type=carebook.branch.*", &branches),
        ("&type=carebook.branch.*&type=carebook.pay*", &two),
        (&format!("&subject={subject}"), &of_subject),
        ("&type=carebook.nothing-has-this", &Vec::new()),
    ] {
        for limit in [1, 1_000] {
            assert_eq!(&all(&mut client, &token, query, limit), expected, "{query}");
        }
    }
}

#[test]
fn an_empty_log_has_an_empty_page_that_can_be_gone_on_from() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let token = world.token(&reader());
    for path in ["/events", "/events?after=0-0"] {
        let page = page_of(&client.get(path, &token));
        assert_eq!((page.events.len(), &*page.next, page.end), (0, "0-0", true));
    }
    let body = world.deposit_request("code-1", "key-1");
    client.post("/settlement-deposit-requests", &world.headquarters(), &body);
    let page = page_of(&client.get("/events?after=0-0", &token));
    assert_eq!(
        (ids(&page.events), &*page.next, page.end),
        (vec!["1-0"], "1-0", true)
    );
    // The same again changes nothing, and gives no event.
    client.post("/settlement-deposit-requests", &world.headquarters(), &body);
    let page = page_of(&client.get("/events?after=1-0", &token));
    assert_eq!((page.events.len(), page.end), (0, true));
}

#[test]
fn readers_without_permission_and_invalid_queries_are_refused() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    assert_eq!(client.request("GET", "/events", &[], b"").status, 401);
    let with = |kind, permissions: &[&str]| {
        let permissions = permissions.iter().map(|name| (*name).into()).collect();
        world.token(&Actor {
            permissions,
            ..actor(kind, "somebody")
        })
    };
    for kind in ActorKind::ALL {
        let may = matches!(
            kind,
            ActorKind::SystemWorkflow
                | ActorKind::HeadquartersAdministrator
                | ActorKind::HeadquartersFinanceOperator
        );
        let answer = client.get("/events", &with(kind, &["events:read"]));
        assert_eq!(answer.status, if may { 200 } else { 403 }, "{kind}");
        let answer = client.get("/events", &with(kind, &["facts:read"]));
        assert_eq!(
            (answer.status, &answer.json()["code"]),
            (403, &json!("permission_denied"))
        );
    }
    let token = world.token(&reader());
    let many = "&type=a".repeat(51);
    let long = format!("type={}", "a".repeat(201));
    for (query, path) in [
        ("after=1-0", "query.after"),
        ("after=1", "query.after"),
        ("after=", "query.after"),
        ("after=0-0&after=0-0", "query.after"),
        ("limit=0", "query.limit"),
        ("limit=1001", "query.limit"),
        ("limit=x", "query.limit"),
        ("limit=1&limit=1", "query.limit"),
        ("type=*", "query.type"),
        ("type=a*b", "query.type"),
        ("type=", "query.type"),
        ("type=%20", "query.type"),
        ("type=a&type=%E2%80%A8%20", "query.type"),
        (&long, "query.type"),
        (&many[1..], "query.type"),
        ("subject=a&subject=b", "query.subject"),
        ("other=1", "query.other"),
    ] {
        let answer = client.get(&format!("/events?{query}"), &token);
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
        assert_eq!(answer.faults()[0].0, path, "{query}");
    }
    // That there is nothing yet is an answer about the log, as of a position.
    let future = client.get("/events?after=1-0", &token);
    assert_eq!(future.position(), Some(0), "{future:?}");
    assert_eq!(client.get("/events?after=1", &token).position(), None);
    // Shape is looked at before who may do what.
    let mother = world.plain(ActorKind::Mother, "mother-1");
    assert_eq!(client.get("/events?limit=0", &mother).status, 400);
    assert_eq!(
        client
            .get(&format!("/events?{}", &"&type=a".repeat(50)[1..]), &token)
            .status,
        200
    );
}
