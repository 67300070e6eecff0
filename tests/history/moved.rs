//! Adjustments that move to another booking, and come back.

use serde_json::{Value, json};

use super::history;
use super::play::Play;
use crate::support::World;

const BOOKING: &str = "reservation-booking-8";
const OTHER: &str = "reservation-booking-9";

fn path(booking: &str) -> String {
    format!("/reservation-payment-change-adjustments/{booking}")
}

/// This revision of an adjustment is of this booking, and was requested at this hour.
fn put(play: &mut Play, id: &str, revision: i64, (booking, hour): (&str, u8)) {
    let members = json!({
        "requestedAt": format!("2026-11-20T{hour:02}:00:00Z"),
        "reservationBookingId": booking,
    });
    play.fact("payment-change-adjustment", id, revision, &members);
}

#[test]
fn a_history_s_next_page_is_found_though_its_latest_adjustment_left() {
    let mut play = Play::begin(World::new());
    let token = play.headquarters();
    // One adjustment is left, or two.
    for (booking, left) in [(BOOKING, 1), (OTHER, 2)] {
        let id = |number: usize| format!("{booking}-{number}");
        for number in 0..left {
            put(&mut play, &id(number), 1, (booking, 10));
            put(&mut play, &id(number), 2, (booking, 11));
        }
        let latest = id(left);
        for revision in 1..=3 {
            put(&mut play, &latest, revision, (booking, 12));
        }
        let path = path(booking);
        let first = play
            .client()
            .get(&format!("{path}/history?limit=1"), &token);
        let first = first.json();
        let next = first["next"].as_str().unwrap();
        put(&mut play, &latest, 4, ("reservation-booking-7", 12));
        let mut client = play.client();
        let rest = client.get(&format!("{path}/history?cursor={next}"), &token);
        assert_eq!(rest.status, 200, "{left}: {rest:?}");
        let (told, is_complete) = history(&mut client, &path, &token, 50);
        assert!(is_complete && told.len() >= 2, "{left}: {told:?}");
        let rest = rest.json();
        assert_eq!(rest["revisions"], Value::from(told), "{left}");
        assert_eq!(rest["next"], Value::Null, "{left}");
    }
}

#[test]
fn a_returned_adjustment_shows_its_earlier_values_at_any_page_size() {
    let mut play = Play::begin(World::new());
    let token = play.headquarters();
    let id = "adjustment-11";
    put(&mut play, id, 1, (BOOKING, 11));
    // It changes elsewhere more often than a page of one revision looks at.
    for revision in 2..=12 {
        put(&mut play, id, revision, (OTHER, 12));
    }
    put(&mut play, id, 13, (BOOKING, 13));
    let (mut client, path) = (play.client(), path(BOOKING));
    let all = history(&mut client, &path, &token, 500);
    let (told, is_complete) = &all;
    assert!(told.len() == 2 && *is_complete, "{all:?}");
    let changes = told[0]["changes"].as_array().unwrap();
    let requested = json!({
        "path": "requestedAt",
        "before": "2026-11-20T11:00:00.000Z",
        "after": "2026-11-20T13:00:00.000Z",
    });
    assert!(changes.contains(&requested), "{changes:?}");
    assert!(changes.iter().all(|change| !change["before"].is_null()));
    for limit in [1, 2, 3] {
        let paged = history(&mut client, &path, &token, limit);
        assert_eq!(paged, all, "pages of {limit}");
    }
}
