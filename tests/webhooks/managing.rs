//! Subscriptions as resources: who may, what is refused, replays, secrets, lists.

use std::cell::RefCell;

use carebook::base::actor::ActorKind;

use super::*;
use crate::support::{files, said_in};

fn body(url: &str) -> Value {
    json!({"url": url, "types": ["carebook.*"], "description": null})
}

#[test]
fn only_permitted_workflows_and_head_office_may_manage_webhooks() {
    let house = House::new();
    let subscription = house.subscribe("https://example.com/", &["carebook.*"]);
    let permitted = [
        ActorKind::SystemWorkflow,
        ActorKind::HeadquartersAdministrator,
        ActorKind::HeadquartersFinanceOperator,
    ];
    let path = path_of(&subscription);
    for kind in ActorKind::ALL {
        for has_permission in [false, true] {
            let token = house.world.token(&Actor {
                permissions: match has_permission {
                    true => vec!["webhooks:manage".into()],
                    false => vec!["facts:write".into(), "events:read".into()],
                },
                ..actor(kind, &format!("{kind}-{has_permission}"))
            });
            let may = has_permission && permitted.contains(&kind);
            let mut client = house.client();
            let made = client.post_keyed(SUBSCRIPTIONS, &token, "k", &body("https://a.example/"));
            assert_eq!(made.status, if may { 201 } else { 403 }, "{kind}: {made:?}");
            for read in [
                SUBSCRIPTIONS.to_owned(),
                path.clone(),
                format!("{path}/deliveries"),
            ] {
                let answer = client.get(&read, &token);
                assert_eq!(answer.status, if may { 200 } else { 403 }, "{kind} {read}");
            }
            if !may {
                assert_eq!(made.json()["code"], "permission_denied");
            }
        }
    }
    let nobody = house.client().request("GET", SUBSCRIPTIONS, &[], b"");
    assert_eq!(nobody.status, 401);
}

#[test]
fn every_fault_of_a_subscription_is_told() {
    let house = House::new();
    let many: Vec<_> = (0..51)
        .map(|number| format!("carebook.a{number}"))
        .collect();
    for (sent, faults) in [
        (json!({}), vec![("url", "required"), ("types", "required")]),
        (
            json!({"url": "ftp://a/", "types": [], "description": 1, "more": 1}),
            vec![
                ("more", "unknown_field"),
                ("url", "pattern"),
                ("types", "too_short"),
                ("description", "wrong_type"),
            ],
        ),
        (
            json!({"url": "https://a/", "types": ["*", "a*b", ""], "description": ""}),
            vec![
                ("types[0]", "pattern"),
                ("types[1]", "pattern"),
                ("types[2]", "too_short"),
                ("description", "too_short"),
            ],
        ),
        (
            json!({"url": "https://a/", "types": many}),
            vec![("types", "too_long")],
        ),
        (
            json!({"url": "http://example.com/", "types": ["carebook.*"]}),
            vec![("url", "not_allowed")],
        ),
    ] {
        let answer = house.send("POST", SUBSCRIPTIONS, &sent);
        assert_eq!(answer.status, 400, "{answer:?}");
        let told = answer.faults();
        let told: Vec<_> = told
            .iter()
            .map(|(at, code)| (at.as_str(), code.as_str()))
            .collect();
        assert_eq!(told, faults, "{sent}");
    }
    let no_key = house
        .client()
        .post(SUBSCRIPTIONS, &house.token, &body("https://a/"));
    let fault = ("header.Idempotency-Key".to_owned(), "required".to_owned());
    assert_eq!(no_key.faults(), [fault]);
    let house = House::with(&["--webhooks-allow-http"]);
    house.subscribe("http://example.com/", &["carebook.*"]);
}

#[test]
fn a_secret_shows_at_creation_rotation_and_replay_and_nowhere_else() {
    let house = House::new();
    let (receiver, mut client) = (Receiver::start(), house.client());
    let made = client.post_keyed(SUBSCRIPTIONS, &house.token, "make", &body(&receiver.url()));
    let subscription = made.json();
    let first = subscription["secret"].as_str().unwrap().to_owned();
    assert_eq!(first.len(), "whsec_".len() + 44);
    let replay = client.post_keyed(SUBSCRIPTIONS, &house.token, "make", &body(&receiver.url()));
    assert_eq!((replay.status, &replay.body), (201, &made.body));
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    let other = client.post_keyed(SUBSCRIPTIONS, &house.token, "make", &body("https://b/"));
    assert_eq!(other.json()["code"], "idempotency_key_reused");
    assert!(house.read(&subscription).get("secret").is_none());

    let rotations = format!("{}/secret-rotations", path_of(&subscription));
    let expected = |revision| json!({"expectedRevision": revision});
    let rotated = client.post_keyed(&rotations, &house.token, "turn", &expected(1));
    assert_eq!(rotated.status, 200, "{rotated:?}");
    let second = rotated.json()["secret"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    let stale = client.post_keyed(&rotations, &house.token, "late", &expected(1));
    assert_eq!(
        (stale.status, &stale.json()["code"]),
        (409, &json!("revision_stale"))
    );
    house.fact("a", 1);
    let came = receiver.wait_for(1);
    let came = came
        .iter()
        .find(|one| one.kind() == "carebook.reference-fact.applied")
        .unwrap();
    assert_eq!((came.signed_by(&first), came.signed_by(&second)), (1, 1));
    let third = client.post_keyed(&rotations, &house.token, "turn again", &expected(2));
    let third = third.json()["secret"].as_str().unwrap().to_owned();
    house.fact("a", 2);
    let came = receiver.wait_for(2);
    let signed = |secret: &str| came[1].signed_by(secret);
    assert_eq!(
        [&first, &second, &third].map(|secret| signed(secret)),
        [0, 1, 1]
    );
    let again = client.post_keyed(&rotations, &house.token, "turn", &expected(1));
    assert_eq!(again.json()["secret"], *second, "as it was told then");

    let metrics = client.request("GET", "/metrics", &[], b"");
    let (world, server) = (&house.world, house.server);
    let backup = world.path("backup");
    let (code, _, told) = crate::support::run(&[
        "backup",
        "--data",
        world.data().to_str().unwrap(),
        "--to",
        backup.to_str().unwrap(),
    ]);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(server.stop(), Some(0));
    let key = world.data().join("webhook.key");
    let master = std::fs::read_to_string(&key).unwrap();
    let mut looked = 0;
    // All there is: no snapshot has been taken.
    assert!(
        files(&world.data())
            .iter()
            .all(|file| file.extension() != Some("snap".as_ref()))
    );
    let said = [world.data(), backup.clone()].map(|data| said_in(&data));
    let said = said.concat();
    assert!(said.len() > 10);
    let files = files(&world.data()).into_iter().chain(files(&backup));
    let files = files.filter(|file| *file != key);
    let read = files.map(|file| {
        looked += 1;
        std::fs::read(&file).unwrap()
    });
    for bytes in read.chain(said) {
        for secret in [&first, &second, &third, &master] {
            let text = secret.trim_end().trim_start_matches("whsec_").as_bytes();
            let is_there = bytes.windows(text.len()).any(|window| window == text);
            assert!(!is_there, "a secret stands in a file");
        }
    }
    assert!(looked >= 2);
    assert!(!metrics.text().contains("whsec_"));
}

#[test]
fn a_subscription_is_changed_and_deleted_by_those_who_know_its_revision() {
    let house = House::new();
    let receiver = Receiver::start();
    let subscription = house.subscribe("https://a.example/", &["carebook.branch.*"]);
    let path = path_of(&subscription);
    let change = json!({
        "expectedRevision": 1,
        "url": receiver.url(),
        "types": ["carebook.reference-fact.*"],
        "description": "Another.",
    });
    let changed = house.send("PATCH", &path, &change).json();
    assert_eq!(changed["revision"], 2);
    assert_eq!(changed["description"], "Another.");
    let stale = house.send("PATCH", &path, &change);
    assert_eq!(
        stale.json()["conflictingFieldPaths"],
        json!(["expectedRevision"])
    );
    house.wait(&subscription, |read| read["revision"] == 2);
    // What it wants is what it says from the commit on; that the dispatcher has heard is seen here.
    house.fact("a", 1);
    receiver.wait_for(1);

    let bearer = format!("Bearer {}", house.token);
    let delete = |query: &str, key: &str| {
        let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", key)];
        let path = format!("{path}{query}");
        house.client().request("DELETE", &path, &headers, b"")
    };
    let fault = |at: &str, code: &str| vec![(at.to_owned(), code.to_owned())];
    for (query, faults) in [
        ("", fault("query.expectedRevision", "required")),
        (
            "?expectedRevision=x",
            fault("query.expectedRevision", "wrong_type"),
        ),
        (
            "?expectedRevision=",
            fault("query.expectedRevision", "too_short"),
        ),
        (
            "?expectedRevision=9223372036854775808",
            fault("query.expectedRevision", "out_of_range"),
        ),
        ("?expectedRevision=2&a=b", fault("query.a", "unknown_field")),
        (
            "?expectedRevision=2&expectedRevision=2",
            fault("query.expectedRevision", "duplicate_field"),
        ),
    ] {
        assert_eq!(delete(query, "k").faults(), faults, "{query}");
    }
    assert_eq!(
        delete("?expectedRevision=1", "k").json()["code"],
        "revision_stale"
    );
    let gone = delete("?expectedRevision=2", "k");
    assert_eq!((gone.status, gone.body.len()), (204, 0));
    let replay = delete("?expectedRevision=02", "k");
    assert_eq!(replay.status, 204);
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert_eq!(delete("?expectedRevision=3", "other").status, 404);
    assert_eq!(house.client().get(&path, &house.token).status, 404);
    assert_eq!(house.send("PATCH", &path, &change).status, 404);
    let all = house.client().get(SUBSCRIPTIONS, &house.token).json();
    assert_eq!(all["items"], json!([]));
    house.fact("a", 2);
    let other = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.fact("a", 3);
    let came = receiver.wait_for(2);
    assert_eq!(taken(&came), [(subject("a"), 1), (subject("a"), 3)]);
    drop(other);
}

#[test]
fn lists_go_page_by_page_in_the_order_asked_for() {
    let house = House::new();
    let mut made: Vec<_> = (0..5)
        .map(|number| house.subscribe(&format!("https://a{number}.example/"), &["carebook.*"]))
        .collect();
    // Of one millisecond, the identifier says which comes first.
    made.sort_by_key(|one| {
        ["createdAt", "subscriptionId"].map(|name| one[name].as_str().unwrap().to_owned())
    });
    let mut client = house.client();
    for (order, is_reversed) in [("oldest", false), ("newest", true)] {
        let (mut urls, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("{SUBSCRIPTIONS}?limit=2&order={order}{cursor}");
            let page = client.get(&path, &house.token).json();
            let items = page["items"].as_array().unwrap().clone();
            assert!(items.len() <= 2);
            urls.extend(items.iter().map(|item| item["url"].clone()));
            let Some(next) = page["next"].as_str() else {
                break;
            };
            cursor = format!("&cursor={next}");
        }
        let mut expected: Vec<_> = made.iter().map(|one| one["url"].clone()).collect();
        if is_reversed {
            expected.reverse();
        }
        assert_eq!(urls, expected, "{order}");
    }
    let page = client
        .get(&format!("{SUBSCRIPTIONS}?limit=2"), &house.token)
        .json();
    let cursor = page["next"].as_str().unwrap();
    for query in [
        format!("?cursor={cursor}&order=oldest"),
        "?cursor=nonsense".to_owned(),
        "?limit=0".to_owned(),
        "?limit=501".to_owned(),
        "?status=enabled".to_owned(),
    ] {
        let answer = client.get(&format!("{SUBSCRIPTIONS}{query}"), &house.token);
        assert_eq!(answer.status, 400, "{query}");
    }
    let path = format!("{}/deliveries?state=taken", path_of(&made[0]));
    assert_eq!(client.get(&path, &house.token).status, 400);
    let unknown = client.get(&format!("{SUBSCRIPTIONS}/unknown/deliveries"), &house.token);
    assert_eq!(unknown.status, 404);
}

#[test]
fn waiting_deliveries_are_paged_each_once_in_the_requested_order() {
    let (house, receiver) = (House::new(), Receiver::start());
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    house.switch(&subscription, 1, "paused");
    for number in 0..5 {
        house.fact(&format!("fact-{number}"), 1);
    }
    house.wait(&subscription, |read| read["waiting"] == 5);
    let all = house.deliveries(&subscription, "?state=waiting&order=oldest");
    let all = all["items"].as_array().unwrap().clone();
    assert_eq!(all.len(), 5);
    for (order, is_reversed) in [("oldest", false), ("newest", true)] {
        let (mut listed, mut sizes, mut cursor) = (Vec::new(), Vec::new(), String::new());
        loop {
            let query = format!("?state=waiting&limit=2&order={order}{cursor}");
            let page = house.deliveries(&subscription, &query);
            let items = page["items"].as_array().unwrap();
            sizes.push(items.len());
            listed.extend(items.clone());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let mut expected = all.clone();
        if is_reversed {
            expected.reverse();
        }
        assert_eq!((listed, sizes), (expected, vec![2, 2, 1]), "{order}");
    }
}

/// A subscription with as much in it as there may be.
fn widest(number: usize) -> Value {
    let type_of = |number: usize| format!("carebook.{number:02}{}", "가".repeat(189));
    let url = format!("https://a{number}.example/");
    json!({
        "url": format!("{url}{}", "a".repeat(2_000 - url.len())),
        "types": (0..50).map(type_of).collect::<Vec<_>>(),
        "description": "가".repeat(4_000),
    })
}

/// The identifiers of a list of the widest subscriptions, from full page to full page; between two of
/// them `happens` is called with what is seen so far.
#[track_caller]
fn walk(house: &House, order: &str, happens: impl Fn(&[Value])) -> Vec<Value> {
    const PAGE: usize = 4 << 20;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    let mut client = house.client();
    loop {
        let path = format!("{SUBSCRIPTIONS}?order={order}&limit=500{cursor}");
        let answer = client.get(&path, &house.token);
        assert_eq!(answer.status, 200);
        let page = answer.json();
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|item| item["subscriptionId"].clone()));
        let bytes = answer.body.len();
        assert!(bytes < PAGE + 1_000, "{bytes}");
        let Some(next) = page["next"].as_str() else {
            return seen;
        };
        let one = items[0].to_string().len();
        assert!(
            bytes + one + 1_000 > PAGE,
            "it had room for more: {bytes} {one}"
        );
        cursor = format!("&cursor={next}");
        happens(&seen);
    }
}

#[test]
fn pages_of_wide_subscriptions_end_before_4_mib_and_together_have_all() {
    let house = House::new();
    let mut made: Vec<_> = (0..250)
        .map(|number| {
            let made = house.send("POST", SUBSCRIPTIONS, &widest(number));
            assert_eq!(made.status, 201);
            made.json()
        })
        .collect();
    made.sort_by_key(|one| {
        ["createdAt", "subscriptionId"].map(|name| one[name].as_str().unwrap().to_owned())
    });
    let id = |one: &Value| one["subscriptionId"].clone();
    let mut ids: Vec<_> = made.iter().map(id).collect();
    assert_eq!(walk(&house, "oldest", |_| ()), ids);
    ids.reverse();
    assert_eq!(walk(&house, "newest", |_| ()), ids);
    ids.reverse();

    let delete = |id: &Value| {
        let path = format!("{SUBSCRIPTIONS}/{}", id.as_str().unwrap());
        let (bearer, key) = (format!("Bearer {}", house.token), house.key());
        let headers = [("Authorization", &*bearer), ("Idempotency-Key", &*key)];
        let path = format!("{path}?expectedRevision=1");
        let gone = house.client().request("DELETE", &path, &headers, b"");
        assert_eq!(gone.status, 204, "{gone:?}");
    };
    // Between pages the one goes that the next page begins after, the one that it would begin with,
    // and a new one comes.
    let (gone, new) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let seen = walk(&house, "oldest", |seen| {
        let (last, next) = (&ids[seen.len() - 1 + gone.borrow().len()], seen.len());
        assert_eq!(seen.last(), Some(last));
        let next = &ids[next + gone.borrow().len()];
        [last, next].into_iter().for_each(delete);
        gone.borrow_mut().push(next.clone());
        let number = 1_000 + new.borrow().len();
        let made = house.send("POST", SUBSCRIPTIONS, &widest(number)).json();
        new.borrow_mut().push(id(&made));
    });
    let (gone, new) = (gone.into_inner(), new.into_inner());
    assert_eq!(gone.len(), 2, "three pages");
    let stayed = ids.iter().filter(|id| !gone.contains(id));
    let expected: Vec<_> = stayed.chain(&new).cloned().collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_tag_changes_with_what_is_delivered() {
    let (house, receiver) = (House::new(), Receiver::start());
    let subscription = house.subscribe(&receiver.url(), &["carebook.reference-fact.*"]);
    let before = house.client().get(&path_of(&subscription), &house.token);
    house.fact("a", 1);
    let id = receiver.wait_for(1)[0].id();
    house.wait_through(&subscription, &id);
    let after = house.client().get(&path_of(&subscription), &house.token);
    assert_eq!(after.json()["revision"], before.json()["revision"]);
    assert_ne!(after.header("etag"), before.header("etag"));
}
