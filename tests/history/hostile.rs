//! Long histories, many readers, and a log that is given up meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::{Server, World, run};

/// A fact of an office's profile that changes again and again.
const PATH: &str = "/branch-office-profiles/office-1";

fn fact(revision: u64) -> Value {
    json!({
        "kind": "branch-office-profile",
        "id": "office-1",
        "revision": revision,
        "facts": {
            "displayName": format!("Office {revision}"),
            "legalName": "Office",
            "contactEmail": "office@example.com",
            "primaryPhoneNumber": "+82212345678",
            "addressLine": "Seoul",
            "businessRegistrationReference": "reference-1",
        },
    })
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
fn each_page_of_a_long_history_follows_on_the_one_before_and_any_revision_is_found() {
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

#[test]
fn a_log_that_is_given_up_while_it_is_looked_at_is_told_as_gone_and_nothing_else() {
    let world = World::new();
    let server = Server::start(&world);
    put(&server, &world, 1..=600);
    let token = world.headquarters();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (server, token, is_over) = (&server, &token, &is_over);
            scope.spawn(move || {
                let mut client = server.client();
                let mut revision = 1;
                while !is_over.load(Ordering::Relaxed) {
                    revision = revision % 600 + 7;
                    let answer = match reader {
                        0 => client.get(&format!("{PATH}/history?limit=500"), token),
                        1 => client.get(&format!("{PATH}?revision={revision}"), token),
                        _ => client.get(&format!("{PATH}?at=2020-01-01T00:00:00Z"), token),
                    };
                    let expected: &[u16] = match reader {
                        0 => &[200],
                        1 => &[200, 410],
                        _ => &[404, 410],
                    };
                    assert!(expected.contains(&answer.status), "{answer:?}");
                }
            });
        }
        let data = world.data();
        for round in 0..4 {
            put(&server, &world, 600 * (round + 1) + 1..=600 * (round + 2));
            let compacted = run(&["compact", "--keep", "0s", "--data", data.to_str().unwrap()]);
            assert_eq!(compacted.0, Some(0), "{compacted:?}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let mut client = server.client();
    let page = client.get(&format!("{PATH}/history"), &token).json();
    assert_eq!(page["complete"], false);
    assert_eq!(server.stop(), Some(0));
}
