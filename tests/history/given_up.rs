//! What the log has given up is not shown, and what it has is, though it rests on what was given up.

use serde_json::json;

use super::history;
use super::play::Play;
use crate::support::{World, run};

/// Gives up all of the log that can be.
fn give_up(play: &mut Play) {
    play.end();
    let data = play.world.data();
    let data = data.to_str().unwrap();
    let compacted = run(&["compact", "--keep", "0s", "--data", data]);
    assert_eq!(compacted.0, Some(0), "{compacted:?}");
    play.again();
}

#[test]
fn what_is_given_up_is_gone_and_what_comes_after_it_is_told_with_what_was_before() {
    let mut play = Play::begin(World::new());
    play.walk();
    give_up(&mut play);
    let (token, mother) = (play.headquarters(), play.tokens()[0].clone());
    let mut client = play.client();
    let mut told = 0;
    for path in play.paths() {
        let token = if path == "/mother/profile" {
            &mother
        } else {
            &token
        };
        let present = client.get(&path, token);
        if present.status != 200 {
            continue;
        }
        told += 1;
        assert_eq!(
            history(&mut client, &path, token, 50),
            (vec![], false),
            "{path}"
        );
        let tag = present.header("etag").unwrap().to_owned();
        let revision = super::revision_of(&tag);
        let now = client.get(&format!("{path}?revision={revision}"), token);
        assert_eq!(
            (now.status, &now.body),
            (200, &present.body),
            "{path}: {now:?}"
        );
        assert_eq!(now.header("etag"), Some(&*tag));
        if revision > 1 {
            let gone = client.get(&format!("{path}?revision={}", revision - 1), token);
            assert_eq!(gone.status, 410, "{path}: {gone:?}");
            assert_eq!(gone.json()["code"], "revision_gone");
        }
        let gone = client.get(&format!("{path}?at=2020-01-01T00:00:00Z"), token);
        assert_eq!(gone.status, 410, "{path}: {gone:?}");
    }
    assert!(told >= 14, "{told}");

    // One that is older than the log changes.
    let path = "/branch-office-profiles/branch-seoul-1";
    let before = client.get(path, &token);
    play.look();
    let at = play.seen.last().unwrap().at.clone();
    play.fact(
        "branch-office-profile",
        "branch-seoul-1",
        9,
        &json!({"displayName": "another"}),
    );
    let (told, is_complete) = history(&mut client, path, &token, 50);
    assert!(!is_complete);
    let changes = told[0]["changes"].as_array().unwrap();
    let revision = json!({"path": "revisionNumber", "before": 2, "after": 9});
    assert!(told.len() == 1 && changes.contains(&revision), "{told:?}");
    // Its states since the log begins are known, by time.
    let then = client.get(&format!("{path}?at={at}"), &token);
    assert!([200, 410].contains(&then.status), "{then:?}");
    if then.status == 200 {
        assert_eq!(then.body, before.body);
    }
    let gone = client.get(&format!("{path}?revision=2"), &token);
    assert_eq!(gone.status, 410, "{gone:?}");
    let found = client.get(&format!("{path}?revision=9"), &token);
    assert_eq!(found.status, 200, "{found:?}");
    // A number that none had, within what is kept.
    let none = client.get(&format!("{path}?revision=7"), &token);
    assert_eq!(none.status, 404, "{none:?}");
}
