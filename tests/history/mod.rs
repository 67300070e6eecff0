//! Histories, and how things were: each body that was ever read is read again by its revision and by
//! its time, and a history's changes lead to it.

mod given_up;
mod hostile;
mod moved;
mod play;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Client, World, run};
use play::{Play, Seen};

/// All revisions of a history, newest first, read in pages of `limit`; and whether it is complete.
fn history(client: &mut Client, path: &str, token: &str, limit: usize) -> (Vec<Value>, bool) {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{path}/history?limit={limit}{cursor}"), token);
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert!(page.header("etag").is_none());
        let page = page.json();
        let revisions = page["revisions"].as_array().unwrap();
        assert!(revisions.len() <= limit);
        all.extend(revisions.iter().cloned());
        let is_complete = page["complete"].as_bool().unwrap();
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (all, is_complete),
        }
    }
}

/// Every scalar of a body that is not null, by its path.
fn scalars(path: String, value: &Value, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            let dot = if path.is_empty() { "" } else { "." };
            for (name, value) in members {
                scalars(format!("{path}{dot}{name}"), value, found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                scalars(format!("{path}[{index}]"), value, found);
            }
        }
        scalar => {
            found.insert(path, scalar.clone());
        }
    }
}

fn scalars_of(body: &[u8]) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    scalars(
        String::new(),
        &serde_json::from_slice(body).unwrap(),
        &mut found,
    );
    found
}

/// The revision in an entity tag.
fn revision_of(tag: &str) -> u64 {
    let tag = tag.trim_matches('"');
    tag.split('-').next().unwrap().parse().unwrap()
}

/// Checks that everything that was seen is seen again, by those who may read it now and no others.
fn check(play: &Play, client: &mut Client) {
    let tokens = play.tokens();
    let mut histories: BTreeMap<(usize, &str), Vec<Value>> = BTreeMap::new();
    for (who, token) in tokens.iter().enumerate() {
        for path in play.paths() {
            let may = client.get(&path, token).status;
            let told = client.get(&format!("{path}/history"), token).status;
            assert_eq!(told, may, "{path} {who}");
            if may == 200 {
                let path = play.seen.iter().find(|seen| seen.path == path);
                let Some(Seen { path, .. }) = path else {
                    continue;
                };
                let (told, is_complete) = history(client, path, token, 2);
                assert!(is_complete, "{path}");
                assert_eq!(told, history(client, path, token, 500).0);
                histories.insert((who, path), told);
            }
        }
    }
    let mut firsts: BTreeMap<(usize, &str, u64), &Seen> = BTreeMap::new();
    for seen in &play.seen {
        let token = &tokens[seen.who];
        let revision = revision_of(&seen.tag);
        firsts
            .entry((seen.who, &seen.path, revision))
            .or_insert(seen);
        let at = client.get(&format!("{}?at={}", seen.path, seen.at), token);
        let Some(history) = histories.get(&(seen.who, seen.path.as_str())) else {
            assert_eq!(at.status, 404, "{seen:?}");
            let by_number = client.get(&format!("{}?revision={revision}", seen.path), token);
            assert_eq!(by_number.status, 404, "{seen:?}");
            continue;
        };
        assert_eq!(at.status, 200, "{seen:?}: {at:?}");
        assert_eq!(at.text(), String::from_utf8_lossy(&seen.body), "{seen:?}");
        assert_eq!(at.header("etag"), Some(seen.tag.as_str()), "{seen:?}");
        let is_told = history.iter().any(|told| told["revision"] == revision);
        assert!(is_told, "{seen:?}: {history:?}");
    }
    for ((who, path, revision), seen) in firsts {
        // What was read first of all was joined by facts that came in after it.
        if seen.looks == 0 || !histories.contains_key(&(who, path)) {
            continue;
        }
        let found = client.get(&format!("{path}?revision={revision}"), &tokens[who]);
        assert_eq!(found.status, 200, "{seen:?}: {found:?}");
        assert_eq!(
            found.text(),
            String::from_utf8_lossy(&seen.body),
            "{seen:?}"
        );
        assert_eq!(found.header("etag"), Some(seen.tag.as_str()), "{seen:?}");
    }
    for ((who, path), told) in histories {
        let token = &tokens[who];
        let mut body = BTreeMap::new();
        for one in told.iter().rev() {
            for change in one["changes"].as_array().unwrap() {
                let place = change["path"].as_str().unwrap().to_owned();
                let before = body.remove(&place).unwrap_or_default();
                assert_eq!(change["before"], before, "{path}: {one}");
                assert_ne!(change["after"], before, "{path}: {one}");
                if !change["after"].is_null() {
                    body.insert(place, change["after"].clone());
                }
            }
            let revision = &one["revision"];
            let found = client.get(&format!("{path}?revision={revision}"), token);
            assert_eq!(found.status, 200, "{path}: {one}: {found:?}");
            assert_eq!(body, scalars_of(&found.body), "{path}: {one}");
        }
    }
}

#[test]
fn every_body_read_before_is_found_again_by_revision_time_and_history() {
    let mut play = Play::begin(World::new());
    play.walk();
    play.facts();
    let kinds: std::collections::BTreeSet<_> = play
        .seen
        .iter()
        .map(|seen| seen.path.split('/').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(kinds.len(), 14, "{kinds:?}");
    check(&play, &mut play.client());
    // By another process, from what the log has.
    play.again();
    check(&play, &mut play.client());
    // Behind a snapshot, with all of the log.
    play.end();
    let data = play.world.data();
    let data = data.to_str().unwrap();
    let compacted = run(&["compact", "--keep", "1h", "--data", data]);
    assert_eq!(compacted.0, Some(0), "{compacted:?}");
    play.again();
    check(&play, &mut play.client());
}

#[test]
fn a_revision_says_who_made_it_when_and_by_what() {
    let mut play = Play::begin(World::new());
    play.walk();
    let (mut client, token) = (play.client(), play.headquarters());
    let path = play.path("/settlement-statements/$statementId");
    let (told, is_complete) = history(&mut client, &path, &token, 50);
    assert!(is_complete);
    let what: Vec<_> = told
        .iter()
        .map(|one| {
            let names: Vec<_> = one
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            assert_eq!(names.len(), 7, "{names:?}");
            json!([
                one["revision"],
                one["operation"],
                one["actorKind"],
                one["actorProfileId"]
            ])
        })
        .collect();
    assert_eq!(
        what,
        [
            json!([
                2,
                "acknowledge_deposit",
                "branch_manager",
                "manager-profile-1"
            ]),
            json!([
                1,
                "request_deposit",
                "headquarters_administrator",
                "headquarters-profile-1"
            ]),
        ]
    );
    let changes = told[0]["changes"].as_array().unwrap();
    let status = changes.iter().find(|change| change["path"] == "status");
    assert_eq!(
        status.unwrap(),
        &json!({
            "path": "status",
            "before": "awaiting_branch_deposit",
            "after": "awaiting_confirmation",
        })
    );
    // A fact, and a commit without an actor.
    let path = play.path("/branch-office-profiles/branch-seoul-1");
    let (told, _) = history(&mut client, &path, &token, 50);
    let operations: Vec<_> = told.iter().map(|one| &one["operation"]).collect();
    assert_eq!(
        operations,
        ["update_branch_office_profile", "reference_fact"]
    );
    assert_eq!(told[1]["actorKind"], "system_workflow");
    let path = play.path("/reservation-financial-lifecycles/reservation-booking-1");
    let (told, _) = history(&mut client, &path, &token, 50);
    assert_eq!(told[0]["operation"], "finalize_charge");
    assert_eq!(told[0]["actorKind"], Value::Null);
    assert_eq!(told[0]["actorProfileId"], Value::Null);
    assert_eq!(told[0]["revision"], told[0]["position"]);
}

#[test]
fn a_branch_is_shown_no_memo_of_what_was_either() {
    let mut play = Play::begin(World::new());
    play.walk();
    let mut client = play.client();
    let path = play.path("/settlement-statements/$statementId");
    let memo = |told: &[Value]| {
        let first = told.last().unwrap()["changes"].as_array().unwrap().clone();
        first
            .iter()
            .any(|change| change["path"] == "headOfficePrivateMemo")
    };
    let manager = play.tokens()[2].clone();
    let (own, _) = history(&mut client, &path, &manager, 50);
    let (all, _) = history(&mut client, &path, &play.headquarters(), 50);
    assert!(memo(&all) && !memo(&own));
    let first = client.get(&format!("{path}?revision=1"), &manager).json();
    assert_eq!(first["headOfficePrivateMemo"], Value::Null);
}

#[test]
fn an_impossible_revision_or_time_is_refused_with_its_parameter() {
    let mut play = Play::begin(World::new());
    play.walk();
    let (mut client, token) = (play.client(), play.headquarters());
    let path = play.path("/settlement-statements/$statementId");
    let mut get = |query: &str| client.get(&format!("{path}{query}"), &token);
    let mut status = |query: &str| get(query).status;
    assert_eq!(status("?revision=2"), 200);
    assert_eq!(status("?revision=3"), 404);
    assert_eq!(status("?revision=0"), 404);
    assert_eq!(status("?revision=9223372036854775807"), 404);
    assert_eq!(status("?at=2020-01-01T00:00:00Z"), 404);
    assert_eq!(status("?at=2999-01-01T00:00:00Z"), 200);
    assert_eq!(status("?at=2999-01-01T00:00:00+09:00"), 200);
    assert_eq!(status("?something=else"), 200);
    assert_eq!(status("/history?something=else"), 400);
    assert_eq!(status("/history/"), 404);
    let mut faults = |query: &str| {
        let answer = get(query);
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
        answer.faults()
    };
    let one = |path: &str, code: &str| vec![(path.to_owned(), code.to_owned())];
    assert_eq!(faults("?revision=x"), one("query.revision", "wrong_type"));
    assert_eq!(faults("?at=x"), one("query.at", "pattern"));
    let both = "?revision=1&at=2020-01-01T00:00:00Z";
    assert_eq!(faults(both), one("query.at", "not_allowed"));
    let both = one("query.dryRun", "not_allowed");
    assert_eq!(faults("?revision=1&dryRun=true"), both);
    assert_eq!(faults("/history?dryRun=false"), both);
    assert_eq!(
        faults("/history?limit=0&cursor=x&order=newest"),
        [
            one("query.order", "unknown_field"),
            one("query.limit", "out_of_range"),
            one("query.cursor", "pattern")
        ]
        .concat()
    );
    // What has no history is not looked at for it.
    assert_eq!(
        status_of(&mut client, "/organization?revision=7", &token),
        200
    );
    assert_eq!(status_of(&mut client, "/organization/history", &token), 404);
    // Problems of a profile have its shape, and only the mother gets them.
    let mother = play.tokens()[0].clone();
    let problem = client.get("/mother/profile?revision=99", &mother);
    assert_eq!(
        problem.json(),
        json!({"status": 404, "code": "not_found", "retryable": false})
    );
    let problem = client.get("/mother/profile/history", &token);
    assert_eq!(problem.status, 404);
    let problem = client.get("/mother/profile/history?limit=x", &mother);
    assert_eq!(
        problem.json(),
        json!({"status": 400, "code": "request_invalid", "retryable": false})
    );
}

fn status_of(client: &mut Client, path: &str, token: &str) -> u16 {
    client.get(path, token).status
}

#[test]
fn an_old_body_is_not_sent_again_to_who_has_it() {
    let mut play = Play::begin(World::new());
    play.walk();
    let mut client = play.client();
    let path = play.path("/settlement-statements/$statementId?revision=1");
    let bearer = format!("Bearer {}", play.headquarters());
    let found = client.request("GET", &path, &[("Authorization", &bearer)], b"");
    let tag = found.header("etag").unwrap().to_owned();
    let headers = [("Authorization", &*bearer), ("If-None-Match", &*tag)];
    let again = client.request("GET", &path, &headers, b"");
    assert_eq!((again.status, again.body.len()), (304, 0), "{again:?}");
    let present = path.replace("?revision=1", "");
    assert_eq!(client.request("GET", &present, &headers, b"").status, 200);
}
