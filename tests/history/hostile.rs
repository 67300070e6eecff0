//! Long histories, many readers, and a log that is given up meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rand::Rng as _;
use serde_json::{Value, json};

use crate::support::{Server, World, office};

/// A fact of an office's profile that changes again and again.
const PATH: &str = "/branch-office-profiles/office-1";

fn fact(revision: u64) -> Value {
    office("office-1", revision)
}

/// Revisions from this one to that one, each a commit.
fn put(server: &Server, world: &World, revisions: std::ops::RangeInclusive<u64>) {
    let facts: Vec<_> = revisions.map(fact).collect();
    let mut client = server.client();
    for some in facts.chunks(500) {
        let put = client.put_facts(&world.workflow(), some);
        assert_eq!(put.status, 200, "{put:?}");
    }
}

#[test]
fn pages_of_a_long_history_are_contiguous_and_any_revision_is_found() {
    let world = World::new();
    let server = Server::start(&world);
    put(&server, &world, 1..=1_500);
    let (mut client, token) = (server.client(), world.headquarters());
    let (told, is_complete) = super::history(&mut client, PATH, &token, 97);
    assert!(is_complete);
    let numbers: Vec<_> = told
        .iter()
        .map(|one| one["revision"].as_u64().unwrap())
        .collect();
    assert!(numbers.into_iter().eq((1..=1_500).rev()));
    let of = json!([{"path": "revisionNumber", "before": 699, "after": 700}]);
    let changes: Vec<_> = told[800]["changes"].as_array().unwrap().clone();
    let number = changes
        .iter()
        .find(|change| change["path"] == "revisionNumber");
    assert_eq!(json!([number]), of);
    for revision in [1, 2, 63, 700, 1_499, 1_500] {
        let found = client.get(&format!("{PATH}?revision={revision}"), &token);
        assert_eq!(found.json()["revisionNumber"], revision);
        let at = &told[1_500 - revision]["at"];
        let found = client.get(&format!("{PATH}?at={}", at.as_str().unwrap()), &token);
        // Several may have been made in one millisecond.
        let number = found.json()["revisionNumber"].as_u64().unwrap();
        let same = &told[usize::try_from(1_500 - number).unwrap()]["at"];
        assert!(
            number >= revision as u64 && same == at,
            "{number} {revision}"
        );
    }
    assert_eq!(server.stop(), Some(0));
}

/// A cursor is no secret: who has one can write another place into it.
#[test]
fn a_cursor_to_a_place_where_the_resource_was_not_changed_is_refused() {
    let world = World::new();
    let server = Server::start(&world);
    put(&server, &world, 1..=2);
    let mut other = fact(1);
    other["id"] = json!("office-2");
    let mut client = server.client();
    client.put_facts(&world.workflow(), &[other]);
    put(&server, &world, 3..=4);
    let token = world.headquarters();
    let first = client.get(&format!("{PATH}/history?limit=1"), &token);
    let end: u64 = first.header("carebook-position").unwrap().parse().unwrap();
    let next = first.json()["next"].as_str().unwrap().to_owned();
    let next = BASE64_URL_SAFE_NO_PAD.decode(next).unwrap();
    let (bound_to, place) = std::str::from_utf8(&next).unwrap().split_at(16);
    let mut at = |place: u64| {
        let cursor = BASE64_URL_SAFE_NO_PAD.encode(format!("{bound_to}{place}"));
        client.get(&format!("{PATH}/history?cursor={cursor}"), &token)
    };
    let page = at(place.parse().unwrap());
    assert_eq!(page.json()["revisions"].as_array().unwrap().len(), 3);
    let path = "/branch-office-profiles/office-2/history";
    let of_other = server.client().get(path, &token).json();
    let others = of_other["revisions"][0]["position"].as_u64().unwrap();
    for wrong in [0, others, end + 1, u64::MAX] {
        let refused = at(wrong);
        let fault = ("query.cursor".to_owned(), "pattern".to_owned());
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
        assert_eq!(refused.faults(), [fault], "{wrong}");
    }
    assert_eq!(server.stop(), Some(0));
}

/// Each revision has another reason, of 12 KB.
#[test]
fn a_page_of_a_history_ends_at_4_mib_and_the_next_one_goes_on() {
    const PAGE: usize = 4 << 20;
    let world = World::new();
    let server = Server::start(&world);
    put(&server, &world, 1..=1);
    let (mut client, token) = (server.client(), world.headquarters());
    for revision in 1..400 {
        let mut update = fact(revision)["facts"].take();
        update["commandId"] = json!(format!("command-{revision}"));
        update["revisionId"] = json!(format!("revision-{revision}"));
        update["branchOfficeProfileId"] = json!("office-1");
        update["expectedRevision"] = json!(revision);
        update["reason"] = json!(["가", "나"][usize::from(revision % 2 == 0)].repeat(4_000));
        let updated = client.post("/branch-office-profile-updates", &token, &update);
        assert_eq!(updated.status, 200, "{updated:?}");
    }
    let (mut told, mut cursor) = (Vec::new(), String::new());
    let mut full = 0;
    loop {
        let found = client.get(&format!("{PATH}/history?limit=500{cursor}"), &token);
        assert_eq!(found.status, 200);
        let page = found.json();
        let revisions = page["revisions"].as_array().unwrap();
        told.extend(
            revisions
                .iter()
                .map(|one| one["revision"].as_u64().unwrap()),
        );
        assert_eq!(page["complete"], true);
        let (bytes, one) = (found.body.len(), revisions[0].to_string().len());
        // It ends with the revision that reaches the bound.
        assert!(bytes < PAGE + one + 1_000, "{bytes}");
        let Some(next) = page["next"].as_str() else {
            break;
        };
        assert!(bytes > PAGE, "it had room for more: {bytes}");
        full += 1;
        cursor = format!("&cursor={next}");
    }
    assert_eq!(full, 2);
    assert!(told.into_iter().eq((1..=400).rev()));
    assert_eq!(server.stop(), Some(0));
}

/// So many letters in no order.
fn letters(count: usize) -> String {
    let mut random = rand::rng();
    let letter = || char::from(random.random_range(b'a'..=b'z'));
    std::iter::repeat_with(letter).take(count).collect()
}

/// Says that it is over when it is dropped, by a panic too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_history_given_up_during_a_read_is_gone_and_nothing_else() {
    let world = World::new();
    let often = ["--snapshot-log-bytes", "65536", "--log-retention", "0s"];
    let server = Server::start_with(&world, &often);
    let token = world.headquarters();
    // Of 12 KB each that cannot be packed, so that segments are filled soon.
    let mut put = {
        let (mut client, workflow, mut last) = (server.client(), world.workflow(), 0);
        move || {
            let facts: Vec<_> = (last + 1..=last + 60)
                .map(|revision| {
                    let mut fact = fact(revision);
                    for member in ["displayName", "legalName", "addressLine"] {
                        fact["facts"][member] = Value::from(letters(4_000));
                    }
                    fact
                })
                .collect();
            last += 60;
            let put = client.put_facts(&workflow, &facts);
            assert_eq!(put.status, 200, "{put:?}");
        }
    };
    put();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        for reader in 0..3 {
            let (server, token, is_over) = (&server, &token, &is_over);
            scope.spawn(move || {
                let mut client = server.client();
                let mut revision = 1;
                while !is_over.load(Ordering::Relaxed) {
                    revision = (revision + 6) % 60 + 1;
                    let (query, expected): (_, &[u16]) = match reader {
                        0 => ("/history?limit=500".to_owned(), &[200]),
                        1 => (format!("?revision={revision}"), &[200, 410]),
                        _ => ("?at=2020-01-01T00:00:00Z".to_owned(), &[404, 410]),
                    };
                    let answer = client.get(&format!("{PATH}{query}"), token);
                    assert!(expected.contains(&answer.status), "{query}: {answer:?}");
                }
            });
        }
        let mut client = server.client();
        for round in 0.. {
            put();
            let (told, is_complete) = super::history(&mut client, PATH, &token, 500);
            if !is_complete {
                break;
            }
            // Of an incomplete one, all may have been given up before it was read.
            assert!(!told.is_empty());
            assert!(round < 100, "nothing is given up");
        }
    });
    let mut client = server.client();
    let gone = client.get(&format!("{PATH}?revision=1"), &token);
    assert_eq!(gone.status, 410, "{gone:?}");
    assert_eq!(server.stop(), Some(0));
}
