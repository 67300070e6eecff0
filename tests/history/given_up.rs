//! What the log has given up is not shown, and what it has is, though it rests on what was given up.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::play::Play;
use super::{history, scalars_of};
use crate::support::{Answer, World, run};

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
fn revisions_given_up_are_gone_and_later_ones_show_what_was_before() {
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

const PROFILE: &str = "/mother/profile";

/// The mother gives her profile, at this revision, another name.
fn rename(play: &Play, revision: u64, name: &str) {
    let update = json!({
        "expectedProfileRevision": revision,
        "expectedAddressRevision": revision,
        "fullName": name,
        "birthDate": "1990-01-01",
        "address": {"postalCode": "12345", "roadAddress": "road", "detailAddress": "1"},
    });
    let key = format!("rename-{revision}");
    let headers = [("Idempotency-Key", &*key)];
    let mother = &play.tokens()[0];
    let mut client = play.client();
    let renamed = client.send_json("PATCH", PROFILE, mother, &headers, &update);
    assert_eq!(renamed.status, 201, "{renamed:?}");
}

/// The mother's profile, and what is asked of it.
fn profile(play: &Play, query: &str) -> Answer {
    let path = format!("{PROFILE}{query}");
    play.client().get(&path, &play.tokens()[0])
}

/// Whether this consent is required of every mother comes to be another.
fn require_privacy(play: &mut Play, revision: i64, is_required: bool) {
    let members = json!({"required": is_required});
    play.fact("consent-version", "privacy@2025-01", revision, &members);
}

/// What a history tells where a body follows on this one.
fn changes(before: &Answer, after: &Answer) -> BTreeSet<String> {
    let (before, after) = (scalars_of(&before.body), scalars_of(&after.body));
    let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differ = paths
        .into_iter()
        .filter(|path| before.get(*path) != after.get(*path));
    differ
        .map(|path| json!({"path": path, "before": before.get(path), "after": after.get(path)}))
        .map(|change| change.to_string())
        .collect()
}

fn changes_told(one: &Value) -> BTreeSet<String> {
    let changes = one["changes"].as_array().unwrap().iter();
    changes.map(ToString::to_string).collect()
}

/// All revisions of an incomplete history: the same in pages of one, of two and all together.
fn told_in_pages(play: &Play, path: &str, token: &str) -> Vec<Value> {
    let mut client = play.client();
    let (told, is_complete) = history(&mut client, path, token, 50);
    assert!(!is_complete, "{told:?}");
    for limit in [1, 2] {
        let paged = history(&mut client, path, token, limit);
        assert_eq!(paged, (told.clone(), false), "pages of {limit}");
    }
    told
}

#[test]
fn the_first_kept_change_is_shown_though_joined_resources_changed_before() {
    let mut play = Play::begin(World::new());
    rename(&play, 1, "A");
    let second = profile(&play, "");
    require_privacy(&mut play, 2, false);
    give_up(&mut play);
    let before = profile(&play, "");
    assert_ne!(before.body, second.body, "what is joined is shown");
    rename(&play, 2, "B");
    let third = profile(&play, "");
    let mother = play.tokens()[0].clone();
    let told = told_in_pages(&play, PROFILE, &mother);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["revision"], 3);
    assert_eq!(changes_told(&told[0]), changes(&before, &third));
    // What changes after the log's beginning is in the revision that comes next.
    require_privacy(&mut play, 3, true);
    rename(&play, 3, "C");
    let fourth = profile(&play, "");
    let later = told_in_pages(&play, PROFILE, &mother);
    assert_eq!(later.len(), 2, "{later:?}");
    assert_eq!(later[0]["revision"], 4);
    assert_eq!(changes_told(&later[0]), changes(&third, &fourth));
    assert_eq!(later[1], told[0]);
    for (revision, body) in [(3, &third), (4, &fourth)] {
        let found = profile(&play, &format!("?revision={revision}"));
        assert_eq!((found.status, &found.body), (200, &body.body));
    }
    assert_eq!(profile(&play, "?revision=2").status, 410);
}

#[test]
fn the_current_revision_has_the_body_that_it_had_or_is_gone() {
    let mut play = Play::begin(World::new());
    rename(&play, 1, "A");
    let second = profile(&play, "");
    let is_found = |play: &Play| {
        let found = profile(play, "?revision=2");
        assert_eq!(found.status, 200, "{found:?}");
        assert_eq!(found.text(), second.text());
        assert_eq!(found.header("etag"), second.header("etag"));
    };
    give_up(&mut play);
    is_found(&play);
    // The log has what is joined to it as it was then.
    require_privacy(&mut play, 2, false);
    assert_ne!(profile(&play, "").body, second.body);
    is_found(&play);
    // A change after it that makes no revision.
    play.fact("mother-profile", "mother-profile-1", 2, &json!({}));
    is_found(&play);
    require_privacy(&mut play, 3, true);
    require_privacy(&mut play, 4, false);
    is_found(&play);
}

#[test]
fn the_current_revision_is_gone_where_what_was_joined_to_it_is() {
    let mut play = Play::begin(World::new());
    rename(&play, 1, "A");
    let second = profile(&play, "");
    require_privacy(&mut play, 2, false);
    let found = profile(&play, "?revision=2");
    assert_eq!((found.status, &found.body), (200, &second.body));
    give_up(&mut play);
    let gone = profile(&play, "?revision=2");
    assert_eq!(gone.status, 410, "{gone:?}");
    assert_eq!(gone.json()["code"], "revision_gone");
    assert_eq!(profile(&play, "").status, 200);
}

/// A later revision of an adjustment of this booking, requested at this hour.
fn adjust(play: &mut Play, (booking, id): (&str, &str), revision: i64, hour: u8) {
    let members = json!({
        "requestedAt": format!("2026-11-20T{hour:02}:00:00Z"),
        "reservationBookingId": booking,
    });
    play.fact("payment-change-adjustment", id, revision, &members);
}

#[test]
fn the_first_change_of_the_latest_adjustment_is_found_at_any_page_size() {
    let mut play = Play::begin(World::new());
    let (one, other) = ("reservation-booking-8", "reservation-booking-9");
    // Behind the latest one, and changed after it.
    adjust(&mut play, (one, "adjustment-12"), 1, 12);
    adjust(&mut play, (one, "adjustment-11"), 1, 11);
    adjust(&mut play, (other, "adjustment-21"), 1, 11);
    let path = |booking| format!("/reservation-payment-change-adjustments/{booking}");
    let (one_path, other_path) = (path(one), path(other));
    let token = play.headquarters();
    give_up(&mut play);
    let mut bodies = Vec::new();
    let look = |play: &Play, path: &str| play.client().get(path, &token);
    for path in [&one_path, &other_path] {
        bodies.push(vec![look(&play, path)]);
    }
    adjust(&mut play, (one, "adjustment-13"), 1, 13);
    adjust(&mut play, (other, "adjustment-22"), 1, 13);
    bodies[0].push(look(&play, &one_path));
    bodies[1].push(look(&play, &other_path));
    // Those behind change more often than a page of one revision looks at.
    for revision in 2..=5 {
        adjust(&mut play, (one, "adjustment-11"), revision, 11);
    }
    for revision in 2..=3 {
        adjust(&mut play, (other, "adjustment-21"), revision, 11);
    }
    adjust(&mut play, (one, "adjustment-13"), 2, 14);
    adjust(&mut play, (other, "adjustment-22"), 2, 14);
    bodies[0].push(look(&play, &one_path));
    bodies[1].push(look(&play, &other_path));
    for (path, bodies) in [&one_path, &other_path].into_iter().zip(bodies) {
        let told = told_in_pages(&play, path, &token);
        assert_eq!(told.len(), 2, "{path}: {told:?}");
        for (one, bodies) in told.iter().rev().zip(bodies.windows(2)) {
            assert_eq!(changes_told(one), changes(&bodies[0], &bodies[1]), "{path}");
        }
    }
}
