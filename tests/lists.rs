//! Lists over HTTP: pages, cursors, filters, refusals. That each actor is shown what reads by id
//! give, for every list and filter, is in `tests/model`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use carebook::base::actor::ActorKind;
use carebook::base::digest::Fingerprint;
use carebook::catalogue::LISTS;
use carebook::cli::open::Replaying;
use carebook::engine::clock::SystemClock;
use carebook::engine::{Engine, Limits};
use carebook::http::response::Answer as Response;
use carebook::http::service::Service;
use carebook::http::token::TokenVerifier;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body as _;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use wal::memory::MemoryLog;

use crate::support::stage::assert_faults;
use crate::support::{AUDIENCE, Answer, Client, ISSUER, Server, World, actor, run};

const STATEMENTS: &str = "/settlement-statements";

/// A statement that headquarters opens; its identifier.
fn open(world: &World, client: &mut Client, token: &str, branch: &str, code: &str) -> String {
    let mut body = world.deposit_request(code, &format!("key {code}"));
    body["branchProfileId"] = json!(branch);
    let answer = client.post("/settlement-deposit-requests", token, &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["statementId"].as_str().unwrap().to_owned()
}

/// As [`open`], so many of the first branch; their codes begin with this.
fn open_some(
    world: &World,
    client: &mut Client,
    token: &str,
    code: &str,
    count: usize,
) -> Vec<String> {
    let codes = (0..count).map(|number| format!("{code}-{number}"));
    codes
        .map(|code| open(world, client, token, "branch-1", &code))
        .collect()
}

/// The branch's manager acknowledges a statement's only line.
fn acknowledge(client: &mut Client, manager: &str, id: &str) {
    let body = json!({
        "statementId": id,
        "expectedRevision": 1,
        "actorKind": "branch_manager",
        "actorProfileId": "manager-1",
        "idempotencyKey": format!("ack {id}"),
        "reason": null,
        "lineAcknowledgements": [{
            "lineAcknowledgementId": format!("line of {id}"),
            "settlementLineKey": "key-1",
            "settlementLineKind": "membership_due",
            "acknowledgedByActorProfileId": "manager-1",
            "acknowledgedAt": "2026-01-01T00:00:00Z",
            "acknowledgementNote": null,
        }],
    });
    let path = "/settlement-branch-deposit-acknowledgements";
    let answer = client.post(path, manager, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn page(client: &mut Client, token: &str, query: &str) -> Answer {
    let answer = client.get(&format!("{STATEMENTS}?{query}"), token);
    assert_eq!(answer.status, 200, "{query}: {answer:?}");
    answer
}

fn ids(page: &Answer) -> Vec<String> {
    let body = page.json();
    let items = body["items"].as_array().unwrap().iter();
    items
        .map(|item| item["statementId"].as_str().unwrap().to_owned())
        .collect()
}

fn next(page: &Answer) -> Option<String> {
    page.json()["next"].as_str().map(ToOwned::to_owned)
}

#[test]
fn pages_have_all_in_order_of_creation_and_cursors_survive_a_restart() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let token = world.headquarters();
    let mut opened = open_some(&world, &mut client, &token, "C", 7);
    let oldest = page(&mut client, &token, "order=oldest&limit=3");
    assert_eq!(ids(&oldest), opened[..3]);
    let newest = page(&mut client, &token, "limit=3");
    assert_eq!(ids(&newest), [&*opened[6], &*opened[5], &*opened[4]]);
    assert_eq!(newest.position(), client.get(STATEMENTS, &token).position());
    server.stop();
    let server = Server::start(&world);
    let mut client = server.client();
    // What comes in between is before the newest, and after the oldest.
    opened.push(open(&world, &mut client, &token, "branch-1", "C-7"));
    let on = format!("cursor={}&limit=500", next(&newest).unwrap());
    let rest = page(&mut client, &token, &on);
    assert_eq!(
        ids(&rest),
        [&*opened[3], &*opened[2], &*opened[1], &*opened[0]]
    );
    assert_eq!(next(&rest), None);
    let on = format!("order=oldest&cursor={}", next(&oldest).unwrap());
    let rest = page(&mut client, &token, &on);
    assert_eq!(ids(&rest), opened[3..]);
    assert_eq!(next(&rest), None);
    // A page that ends with the last one says so.
    let all = page(&mut client, &token, "limit=8");
    assert_eq!((ids(&all).len(), next(&all)), (8, None));
}

#[test]
fn cursors_of_the_log_before_are_refused_after_a_restore() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let token = world.headquarters();
    open_some(&world, &mut client, &token, "C", 3);
    let cursor = next(&page(&mut client, &token, "limit=1")).unwrap();
    server.stop();
    let (data, restored) = (world.data(), world.path("restored"));
    let [from, to] = [&data, &restored].map(|path| path.to_str().unwrap());
    let (code, _, err) = run(&["restore", "--from", from, "--data", to]);
    assert_eq!(code, Some(0), "{err}");
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&restored, &data).unwrap();
    let server = Server::start(&world);
    let path = format!("{STATEMENTS}?limit=1&cursor={cursor}");
    let answer = server.client().get(&path, &token);
    assert_faults(&answer, 400, &[("query.cursor", "pattern")]);
}

#[test]
fn list_items_are_the_read_bodies_and_only_head_office_sees_the_memo() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let (token, manager) = (world.headquarters(), world.manager("branch-2"));
    let id = open(&world, &mut client, &token, "branch-2", "C-1");
    open(&world, &mut client, &token, "branch-1", "C-2");
    for reader in [&token, &manager] {
        let read = client.get(&format!("{STATEMENTS}/{id}"), reader);
        let listed = page(&mut client, reader, "branchProfileId=branch-2");
        assert_eq!(listed.json(), json!({"items": [read.json()], "next": null}));
    }
    assert_eq!(ids(&page(&mut client, &manager, "")), [id]);
    let others = page(&mut client, &manager, "branchProfileId=branch-1");
    assert_eq!(others.json(), json!({"items": [], "next": null}));
    let nothing = page(&mut client, &token, "status=nothing+has+it");
    assert_eq!(nothing.json(), json!({"items": [], "next": null}));
    for kind in ActorKind::ALL {
        let nobody = world.token(&actor(kind, "nobody"));
        for row in LISTS.iter() {
            let answer = client.get(row.path, &nobody);
            assert_eq!(answer.status, 200, "{kind} {}: {answer:?}", row.path);
        }
    }
}

#[test]
fn a_filter_follows_a_statement_when_it_moves_on() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let (token, manager) = (world.headquarters(), world.manager("branch-1"));
    let id = open(&world, &mut client, &token, "branch-1", "C-1");
    let other = open(&world, &mut client, &token, "branch-1", "C-2");
    let waiting = "status=awaiting_branch_deposit&branchProfileId=branch-1";
    assert_eq!(ids(&page(&mut client, &manager, waiting)), [&*other, &*id]);
    acknowledge(&mut client, &manager, &id);
    assert_eq!(ids(&page(&mut client, &manager, waiting)), [&*other]);
    let confirming = page(&mut client, &token, "status=awaiting_confirmation");
    assert_eq!(ids(&confirming), [&*id]);
}

#[test]
fn resources_bound_to_a_booking_are_found_by_its_current_fact() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let (token, workflow) = (world.headquarters(), world.workflow());
    let booking = |revision: i64, branch: &str, mother: &str| {
        json!({"kind": "reservation-booking", "id": "booking-1", "revision": revision,
            "facts": {"motherUserId": mother, "motherMemberId": "member-1",
                "branchProfileId": branch, "state": "active"}})
    };
    let adjustment = |id: &str, revision: i64, booking: &str, status: &str, at: &str| {
        json!({"kind": "payment-change-adjustment", "id": id, "revision": revision,
            "facts": {"reservationBookingId": booking, "motherUserId": "mother-1",
                "customerDeltaKrw": 10, "couponAdjustmentKrw": 0, "pureCustomerAmountKrw": 10,
                "motherPayableAdjustmentKrw": 10, "adjustmentStatus": status,
                "requestedAt": at, "preRegistration": null}})
    };
    let mut put = |facts: &[Value]| {
        let answer = client.put_facts(&workflow, facts);
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = answer.text().to_owned();
        assert!(
            text.contains("\"conflict\":0") && text.contains("\"invalid\":0"),
            "{text}"
        );
    };
    // Before its booking's fact, and after that of another.
    put(&[
        adjustment("a-1", 1, "booking-1", "requested", "2026-01-01T00:00:00Z"),
        adjustment("b-1", 1, "booking-2", "payable", "2026-01-01T00:00:00Z"),
    ]);
    let mut client = server.client();
    let list = |client: &mut Client, query: &str| -> Vec<String> {
        let path = format!("/reservation-payment-change-adjustments?{query}");
        let answer = client.get(&path, &token);
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        let items = body["items"].as_array().unwrap().iter();
        let id = |item: &Value| {
            item["paymentChangeAdjustmentId"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        items.map(id).collect()
    };
    let in_branch =
        |client: &mut Client, branch: &str| list(client, &format!("branchProfileId={branch}"));
    assert_eq!(in_branch(&mut client, "branch-1"), [""; 0]);
    let put = |facts: &[Value]| {
        let answer = server.client().put_facts(&workflow, facts);
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    put(&[booking(1, "branch-1", "mother-1")]);
    assert_eq!(in_branch(&mut client, "branch-1"), ["a-1"]);
    put(&[booking(2, "branch-2", "mother-1")]);
    assert_eq!(in_branch(&mut client, "branch-1"), [""; 0]);
    assert_eq!(in_branch(&mut client, "branch-2"), ["a-1"]);
    put(&[booking(3, "branch-1", "mother-1")]);
    assert_eq!(in_branch(&mut client, "branch-1"), ["a-1"]);
    assert_eq!(in_branch(&mut client, "branch-2"), [""; 0]);
    // A later one takes the place of the first, in the order of the booking's first.
    put(&[adjustment(
        "a-2",
        1,
        "booking-1",
        "payable",
        "2026-02-01T00:00:00Z",
    )]);
    assert_eq!(list(&mut client, ""), ["b-1", "a-2"]);
    assert_eq!(list(&mut client, "status=requested"), [""; 0]);
    assert_eq!(
        list(&mut client, "status=payable&order=oldest"),
        ["a-2", "b-1"]
    );
    assert_eq!(in_branch(&mut client, "branch-1"), ["a-2"]);
    // An item that has nothing left to show follows no fact, and is found again when it has.
    let moved = |revision: i64, to: &str| {
        adjustment("b-1", revision, to, "payable", "2026-01-01T00:00:00Z")
    };
    let other = |revision: i64, branch: &str| {
        let mut fact = booking(revision, branch, "mother-1");
        fact["id"] = "booking-2".into();
        fact
    };
    put(&[moved(2, "booking-3")]);
    put(&[other(1, "branch-3")]);
    assert_eq!(in_branch(&mut client, "branch-3"), [""; 0]);
    put(&[moved(3, "booking-2")]);
    assert_eq!(in_branch(&mut client, "branch-3"), ["b-1"]);
    put(&[moved(4, "booking-3")]);
    put(&[other(2, "branch-4")]);
    put(&[moved(5, "booking-2")]);
    assert_eq!(in_branch(&mut client, "branch-3"), [""; 0]);
    assert_eq!(in_branch(&mut client, "branch-4"), ["b-1"]);
    server.stop();
    let server = Server::start(&world);
    let mut client = server.client();
    assert_eq!(
        list(&mut client, "status=payable&order=oldest"),
        ["a-2", "b-1"]
    );
    assert_eq!(in_branch(&mut client, "branch-1"), ["a-2"]);
}

#[test]
fn an_item_of_which_nothing_is_left_keeps_its_place_over_a_start() {
    let world = World::new();
    let put = |server: &Server, id: &str, revision: i64, booking: &str| {
        let fact = json!({"kind": "payment-change-adjustment", "id": id, "revision": revision,
            "facts": {"reservationBookingId": booking, "motherUserId": "mother-1",
                "customerDeltaKrw": 10, "couponAdjustmentKrw": 0, "pureCustomerAmountKrw": 10,
                "motherPayableAdjustmentKrw": 10, "adjustmentStatus": "payable",
                "requestedAt": "2026-01-01T00:00:00Z", "preRegistration": null}});
        let answer = server.client().put_facts(&world.workflow(), &[fact]);
        assert_eq!(answer.json()["applied"], 1, "{answer:?}");
    };
    let listed = |server: &Server| -> Vec<String> {
        let path = "/reservation-payment-change-adjustments?order=oldest";
        let answer = server.client().get(path, &world.headquarters());
        let items = answer.json()["items"].as_array().unwrap().clone();
        let id = |item: &Value| {
            item["paymentChangeAdjustmentId"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        items.iter().map(id).collect()
    };
    let server = Server::start(&world);
    put(&server, "a-1", 1, "booking-1");
    put(&server, "b-1", 1, "booking-2");
    put(&server, "a-1", 2, "booking-3");
    assert_eq!(listed(&server), ["b-1", "a-1"]);
    server.stop();
    let server = Server::start(&world);
    assert_eq!(listed(&server), ["b-1", "a-1"]);
    put(&server, "a-1", 3, "booking-1");
    assert_eq!(listed(&server), ["a-1", "b-1"]);
    server.stop();
    assert_eq!(listed(&Server::start(&world)), ["a-1", "b-1"]);
}

#[test]
fn every_fault_of_a_request_for_a_page_is_told_with_its_place() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let token = world.headquarters();
    open_some(&world, &mut client, &token, "C", 3);
    let first = page(
        &mut client,
        &token,
        "limit=1&status=awaiting_branch_deposit",
    );
    let cursor = next(&first).unwrap();
    let mut faults = |path: &str, token: &str| {
        let answer = client.get(path, token);
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
        assert_eq!(answer.json()["code"], "request_invalid");
        answer.faults()
    };
    let one = |path: &str, code: &str| vec![(path.to_owned(), code.to_owned())];
    let of = |query: &str| format!("{STATEMENTS}?{query}");
    for (query, path, code) in [
        ("limit=0", "query.limit", "out_of_range"),
        ("limit=501", "query.limit", "out_of_range"),
        ("limit=x", "query.limit", "wrong_type"),
        ("order=up", "query.order", "not_allowed"),
        ("status=", "query.status", "too_short"),
        ("status=a&status=a", "query.status", "duplicate_field"),
        ("paymentId=1", "query.paymentId", "unknown_field"),
        ("motherUserId=1", "query.motherUserId", "unknown_field"),
        ("cursor=x", "query.cursor", "pattern"),
        ("dryRun=true", "query.dryRun", "not_allowed"),
    ] {
        assert_eq!(faults(&of(query), &token), one(path, code), "{query}");
    }
    // Bound to list, filters, order and subject, and to no limit.
    let foreign = one("query.cursor", "pattern");
    assert_eq!(faults(&of(&format!("cursor={cursor}")), &token), foreign);
    let bound = format!("status=awaiting_branch_deposit&cursor={cursor}");
    assert_eq!(
        faults(&of(&format!("{bound}&order=oldest")), &token),
        foreign
    );
    assert_eq!(faults(&of(&bound), &world.manager("branch-1")), foreign);
    let elsewhere = format!("/settlement-data-room-requests?{bound}");
    assert_eq!(faults(&elsewhere, &token), foreign);
    assert_eq!(
        ids(&page(&mut client, &token, &format!("{bound}&limit=2"))).len(),
        2
    );
}

#[test]
fn a_list_is_asked_for_as_a_read_is() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let token = world.headquarters();
    let empty = client.get(STATEMENTS, &token);
    assert_eq!(empty.json(), json!({"items": [], "next": null}));
    open(&world, &mut client, &token, "branch-1", "C-1");
    let bearer = format!("Bearer {token}");
    let authorization = ("authorization", bearer.as_str());
    let found = client.request("GET", STATEMENTS, &[authorization], b"");
    assert_eq!(found.header("cache-control"), Some("private, no-cache"));
    let tag = found.header("etag").unwrap().to_owned();
    assert_ne!(empty.header("etag"), Some(tag.as_str()));
    let same = [authorization, ("if-none-match", tag.as_str())];
    assert_eq!(client.request("GET", STATEMENTS, &same, b"").status, 304);
    let head = client.request("HEAD", STATEMENTS, &[authorization], b"");
    assert_eq!((head.status, head.text()), (200, ""));
    assert_eq!(head.position(), found.position());
    assert_eq!(client.request("GET", STATEMENTS, &[], b"").status, 401);
    for row in LISTS.iter() {
        let options = client.request("OPTIONS", row.path, &[], b"");
        let allow = options.header("allow").unwrap();
        assert!(allow.contains("GET") && allow.contains("HEAD"), "{allow}");
        assert_eq!(client.request("PUT", row.path, &[], b"").status, 405);
        assert_eq!(client.get(&format!("{}/", row.path), &token).status, 404);
    }
    let withdrawn = json!({"kind": "actor", "id": "hq-1", "revision": 1,
        "facts": {"lifecycle": "withdrawn"}});
    let hq = world.plain(ActorKind::HeadquartersAdministrator, "hq-1");
    client.put_facts(&world.workflow(), &[withdrawn]);
    assert_eq!(client.get(STATEMENTS, &hq).status, 403);
}

/// A cursor is a place in the order, not one of those that have the value: it holds when the very
/// statement at which the page ended has left, and others on both sides of it.
#[test]
fn resources_that_leave_a_filter_between_pages_cause_no_repeat_or_gap() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let (token, manager) = (world.headquarters(), world.manager("branch-1"));
    for order in ["oldest", "newest"] {
        let mut opened = open_some(&world, &mut client, &token, order, 12);
        if order == "newest" {
            opened.reverse();
        }
        let filter = format!("order={order}&status=awaiting_branch_deposit&limit");
        let first = page(&mut client, &token, &format!("{filter}=4"));
        assert_eq!(ids(&first), opened[..4]);
        for left in [0, 2, 3, 4, 7] {
            acknowledge(&mut client, &manager, &opened[left]);
        }
        let on = format!("{filter}=4&cursor={}", next(&first).unwrap());
        let second = page(&mut client, &token, &on);
        assert_eq!(ids(&second), [5, 6, 8, 9].map(|index| &*opened[index]));
        let on = format!("{filter}=500&cursor={}", next(&second).unwrap());
        assert_eq!(ids(&page(&mut client, &token, &on)), opened[10..]);
        for left in [1, 5, 6, 8, 9, 10, 11] {
            acknowledge(&mut client, &manager, &opened[left]);
        }
    }
}

/// How many walks go through the lists of one server: more statements than some 2,000 make each
/// walk long, and fewer commits would happen beside it.
const WALKS_OF_A_ROUND: usize = 250;

/// Walks from the first page to the last while statements are opened and acknowledged, those at
/// which a page ends before all others: none repeats, and none is missing that always existed.
#[test]
fn a_walk_repeats_nothing_and_misses_nothing_that_stood_all_the_while() {
    let seed = crate::support::seed();
    let walks: usize = std::env::var("LIST_WALKS").map_or(60, |text| text.parse().unwrap());
    let (mut walked, mut counts) = (0, Counts::default());
    while walked < walks {
        let round = WALKS_OF_A_ROUND.min(walks - walked);
        let seed = seed.wrapping_add(walked as u64);
        let of_round = walks_of_a_round(round, seed);
        assert!(of_round.left > round / 4, "{of_round:?} SEED={seed}");
        walked += round;
        counts.opened += of_round.opened;
        counts.left += of_round.left;
        println!(
            "{walked} walks, {} opened beside them, {} acknowledged at the end of a page",
            counts.opened, counts.left
        );
    }
}

/// What was committed while walks went on.
#[derive(Debug, Default)]
struct Counts {
    opened: usize,
    left: usize,
}

/// `walks` walks by four walkers through the statements of a server of their own.
fn walks_of_a_round(walks: usize, seed: u64) -> Counts {
    let world = World::new();
    let server = Server::start(&world);
    let (token, manager) = (world.headquarters(), world.manager("branch-1"));
    let mut client = server.client();
    let (mut standing, mut leaving) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..120 {
        let mut open = |code: String| open(&world, &mut client, &token, "branch-1", &code);
        standing.insert(open(format!("C-{number}")));
        leaving.insert(open(format!("L-{number}")));
    }
    let leaving = Mutex::new(leaving);
    let is_over = AtomicBool::new(false);
    let walked = AtomicUsize::new(0);
    let (opened, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client();
            // A walk sees those before it as well: there are only so many in the end.
            for number in 0..2_000 {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let branch = ["branch-1", "branch-2"][number % 2];
                let id = open(&world, &mut client, &token, branch, &format!("D-{number}"));
                if branch == "branch-1" {
                    leaving.lock().unwrap().insert(id);
                }
                opened.fetch_add(1, Ordering::Relaxed);
            }
        });
        let walkers: Vec<_> = (0..4_u64)
            .map(|walker| {
                let (server, token, manager) = (&server, &token, &manager);
                let (standing, leaving) = (&standing, &leaving);
                let (walked, left) = (&walked, &left);
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed ^ (walker << 32));
                    let mut client = server.client();
                    while walked.fetch_add(1, Ordering::Relaxed) < walks {
                        let order = ["newest", "oldest"][random.random_range(0..2)];
                        let filter = [
                            "",
                            "&branchProfileId=branch-1",
                            "&status=awaiting_branch_deposit",
                        ][random.random_range(0..3)];
                        let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
                        loop {
                            let limit = random.random_range(20..=500);
                            let query = format!("order={order}&limit={limit}{filter}{cursor}");
                            let found = page(&mut client, token, &query);
                            let shown = ids(&found);
                            for id in shown.iter().rev().take(2) {
                                if leaving.lock().unwrap().remove(id) {
                                    acknowledge(&mut client, manager, id);
                                    left.fetch_add(1, Ordering::Relaxed);
                                }
                            }
                            for id in shown {
                                assert!(seen.insert(id), "{query} repeats SEED={seed}");
                            }
                            match next(&found) {
                                Some(next) => cursor = format!("&cursor={next}"),
                                None => break,
                            }
                        }
                        assert!(seen.is_superset(standing), "{order}{filter} SEED={seed}");
                    }
                })
            })
            .collect();
        let ended = walkers.into_iter().map(|walker| walker.join());
        let ended: Vec<_> = ended.collect();
        // Who opens statements ends in any case.
        is_over.store(true, Ordering::Relaxed);
        for walker in ended {
            walker.unwrap();
        }
    });
    Counts {
        opened: opened.into_inner(),
        left: left.into_inner(),
    }
}

/// The creation of a branch whose body takes 12 KB, and who may create it.
fn wide(world: &World, number: u32) -> (String, Value) {
    let (token, mut body) = crate::outbox::creation(world, number);
    let text = "가".repeat(4_000);
    body["reason"] = json!(text);
    (token, body)
}

/// The most bytes of a page's bodies.
const PAGE: usize = 4 << 20;

#[test]
fn a_page_ends_before_4_mib_of_bodies_and_the_next_one_goes_on() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let created = (1..=400).map(|number| {
        let (token, body) = wide(&world, number);
        let created = client.post_keyed("/admin/branches", &token, &format!("{number}"), &body);
        assert_eq!(created.status, 201, "{created:?}");
        created.json()["branchId"].clone()
    });
    let created: Vec<_> = created.collect();
    let token = world.headquarters();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    let mut full = 0;
    loop {
        let path = format!("/admin/branches?order=oldest&limit=500{cursor}");
        let found = client.get(&path, &token);
        assert_eq!(found.status, 200);
        let page = found.json();
        let items = page["items"].as_array().unwrap();
        seen.extend(items.iter().map(|item| item["branchId"].clone()));
        let (bytes, one) = (found.body.len(), items[0].to_string().len());
        assert!(bytes < PAGE + 1_000, "{bytes}");
        let Some(next) = page["next"].as_str() else {
            break;
        };
        assert!(bytes + one > PAGE, "it had room for more: {bytes} {one}");
        full += 1;
        cursor = format!("&cursor={next}");
    }
    assert_eq!(full, 1);
    assert_eq!(seen, created);
}

/// Pages and other large answers that are on their way out take 128 MiB at most, over all clients.
#[test]
fn pages_in_transit_are_bounded_and_the_next_is_refused_until_one_is_sent() {
    const ON_THEIR_WAY: usize = 128 << 20;
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let log = MemoryLog::new();
        let mut recovering = Replaying::new("recovering");
        log.open(&mut recovering).unwrap();
        let engine = Engine::start(
            log,
            recovering.finish(),
            1,
            Limits::default(),
            Arc::new(SystemClock::default()),
            Box::new(|why| panic!("the log failed: {why}")),
        );
        let engine = Arc::new(engine.unwrap());
        tokio::spawn(engine.lanes().run(0));
        let verifier = TokenVerifier::new(world.key.jwks().as_bytes(), ISSUER, AUDIENCE);
        let service = Service::new(engine, Arc::new(verifier.unwrap()));
        let send = async |method: &str, path: &str, token: &str, body: String| {
            let request = hyper::Request::builder()
                .method(method)
                .uri(path)
                .header("idempotency-key", Fingerprint::of(body.as_bytes()).to_hex())
                .header("authorization", format!("Bearer {token}"))
                .header("content-type", "application/json")
                .body(Full::new(Bytes::from(body)))
                .unwrap();
            let caller = service.caller([127, 0, 0, 1].into(), false);
            service.handle(&caller, request).await
        };
        for number in 1..=350 {
            let (token, body) = wide(&world, number);
            let created = send("POST", "/admin/branches", &token, body.to_string()).await;
            assert_eq!(created.status(), 201);
        }
        let list = async |subject: usize| {
            let path = "/admin/branches?limit=500";
            let subject = format!("headquarters-{subject}");
            let token = world.token(&actor(ActorKind::HeadquartersAdministrator, &subject));
            send("GET", path, &token, String::new()).await
        };
        let bytes = |answer: &Response| {
            let hint = answer.body().size_hint().exact().unwrap();
            usize::try_from(hint).unwrap()
        };
        let (mut held, mut sum, mut subject) = (Vec::new(), 0, 0);
        let mut of_subject = 0;
        loop {
            let answer = list(subject).await;
            if answer.status() == 200 {
                sum += bytes(&answer);
                of_subject += bytes(&answer);
                held.push(answer);
                assert!(sum < ON_THEIR_WAY + held.len() * 1_000, "{sum}");
                continue;
            }
            assert_eq!(answer.status(), 429);
            if of_subject == 0 {
                break;
            }
            if subject == 0 {
                // One by itself leaves half to others.
                let off = of_subject.abs_diff(ON_THEIR_WAY / 2);
                assert!(off < 64 << 10, "{of_subject}");
            }
            (subject, of_subject) = (subject + 1, 0);
        }
        assert!(sum > ON_THEIR_WAY - (64 << 10), "{sum}");
        // What can be read by id is not held up, and neither is who comes when one is sent.
        let (administrator, _) = wide(&world, 1);
        let one = send("GET", "/organization", &administrator, String::new());
        assert_eq!(one.await.status(), 200);
        // Events are, as pages of lists are.
        let reader = world.token(&crate::events::reader());
        let events = async |path: &str| send("GET", path, &reader, String::new()).await;
        let metrics = async || send("GET", "/metrics", &reader, String::new()).await;
        // That of metrics is there all the same.
        let page = metrics().await;
        assert_eq!(page.status(), 200);
        assert!(bytes(&page) > 16 << 10, "one that would be charged");
        let refused = events("/events?limit=1000").await;
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers()["retry-after"], "1");
        assert_eq!(events("/events?limit=1").await.status(), 200);
        // What was done is told all the same.
        let (token, body) = wide(&world, 1);
        let replay = send("POST", "/admin/branches", &token, body.to_string()).await;
        assert_eq!(replay.status(), 200);
        let sent = held.remove(0);
        let length = bytes(&sent);
        sent.into_body().collect().await.unwrap();
        let answer = list(subject).await;
        assert_eq!((answer.status().as_u16(), bytes(&answer)), (200, length));
        assert_eq!(list(subject).await.status(), 429);
        // A large answer of a command is sent, and that of its replay, but none that does nothing.
        let (token, mut body) = wide(&world, 351);
        body["reason"] = json!("🐣".repeat(4_000));
        let body = body.to_string();
        let create = async |path: &str| send("POST", path, &token, body.clone()).await;
        let dry_run = create("/admin/branches?dryRun=true").await;
        assert_eq!(dry_run.status(), 429);
        assert_eq!(dry_run.headers()["carebook-dry-run"], "true");
        assert_eq!(dry_run.headers()["retry-after"], "1");
        let created = create("/admin/branches").await;
        assert_eq!(created.status(), 201);
        assert!(bytes(&created) > 16 << 10, "one that is charged");
        drop(created);
        assert_eq!(create("/admin/branches").await.status(), 200);
        // Who has much on its way has no command carried out until it has taken some.
        let greedy = world.token(&actor(
            ActorKind::HeadquartersAdministrator,
            "headquarters-0",
        ));
        let command = async || send("POST", "/admin/branches", &greedy, body.clone()).await;
        assert_eq!(command().await.status(), 429);
        drop(held);
        assert_ne!(command().await.status(), 429);
        assert_eq!(create("/admin/branches").await.status(), 200);
        assert_eq!(metrics().await.status(), 200);
        let answer = events("/events?limit=1000").await;
        assert_eq!(answer.status(), 200);
        assert!(bytes(&answer) > 16 << 10, "one that is charged");
    });
}
