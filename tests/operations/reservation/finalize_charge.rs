//! A reservation's charge is finalized.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable,
};
use crate::support::{Answer, Client};

fn good(stage: &Stage) -> Good {
    Good::of(row_named("finalize_charge"), stage)
}

/// Without a token.
fn send(client: &mut Client, path: &str, body: &Value) -> Answer {
    let headers = [("Content-Type", "application/json")];
    client.request("POST", path, &headers, body.to_string().as_bytes())
}

fn path_of(booking: &str) -> String {
    format!("/reservation-financial-lifecycles/{booking}/regional-benefit-charge-finalizations")
}

/// The good request, with other values.
fn changed(good: &Good, changes: &[(&str, Value)]) -> Value {
    let mut body = good.body.clone();
    for (member, value) in changes {
        body[*member] = value.clone();
    }
    body
}

#[test]
fn a_charge_is_finalized_whole_without_a_token_and_its_parties_read_it() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let read = format!(
        "/reservation-financial-lifecycles/{}",
        stage.id("reservation-booking-1")
    );
    let readers = [stage.headquarters(), stage.manager(), stage.mother()];
    for reader in &readers {
        assert_unreadable(&mut client, reader, &read);
    }
    let first = send(&mut client, &good.path, &good.body);
    assert_eq!(
        (first.status, first.header("idempotent-replayed")),
        (200, None)
    );
    // Without the district, the benefit is the city's: 100,000 won.
    let expected = stage.named(json!({
        "reservationBookingId": "reservation-booking-1",
        "financialStage": "charge_finalized",
        "motherVisiblePayableKrw": 900_000,
        "caregiverPayoutKrw": 1_050_000,
        "branchSettlementKrw": 300_000,
        "hqSettlementKrw": 150_000,
        "careDeliverySessionCode": "session-1",
        "deliveredDayCount": 10,
        "ledgerLineCount": 6,
    }));
    assert_eq!(first.json(), expected);
    let position = first.position().unwrap().to_string();
    for reader in &readers {
        assert_reads(&mut client, reader, &read, &position, &expected);
    }
    let ledger = format!("{read}/ledger");
    let lines = client.get(&ledger, &stage.headquarters()).json();
    assert_eq!(lines["lines"].as_array().unwrap().len(), 6, "{lines}");
    for reader in &readers {
        assert_reads(&mut client, reader, &ledger, &position, &lines);
    }
    let elsewhere = Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..stage.actor(ActorKind::BranchManager)
    };
    let neighbour = Actor {
        subject: "neighbour".into(),
        ..stage.actor(ActorKind::Mother)
    };
    for stranger in [
        stage.token(&elsewhere),
        stage.token(&neighbour),
        stage.workflow(),
        stage.family_member(),
    ] {
        assert_unreadable(&mut client, &stranger, &read);
        assert_unreadable(&mut client, &stranger, &ledger);
    }
    // Though finalizing needs no token, reading does.
    assert_eq!(client.request("GET", &read, &[], b"").status, 401);

    let again = send(&mut client, &good.path, &good.body);
    assert_eq!((again.status, again.text()), (200, first.text()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    // No token is looked at, not even one that is none.
    let headers = [
        ("Authorization", "Bearer nonsense"),
        ("Content-Type", "application/json"),
    ];
    let body = good.body.to_string();
    let again = client.request("POST", &good.path, &headers, body.as_bytes());
    assert_eq!(again.text(), first.text());
}

#[test]
fn a_charge_without_a_known_booking_is_shown_to_the_branch_it_names() {
    let stage = Stage::new();
    let mut client = stage.client();
    let put = |kind: &str, facts: Value| {
        let fact = json!({"kind": kind, "id": "not-booked", "revision": 1, "facts": facts});
        let answer = stage.client().put_facts(&stage.workflow(), &[fact]);
        assert_eq!(answer.json()["applied"], 1, "{answer:?}");
    };
    let shares = json!({"caregiverShareBasisPoints": 7_000, "headquartersShareBasisPoints": 1_000});
    put("reservation-financial-facts", shares);
    let body = changed(&good(&stage), &[("branchProfileId", json!("charged"))]);
    assert_eq!(send(&mut client, &path_of("not-booked"), &body).status, 200);
    let [charged, own] = ["charged", "own"].map(|branch| {
        stage.token(&Actor {
            branch_profile_ids: vec![branch.into()],
            ..stage.actor(ActorKind::BranchManager)
        })
    });
    let mut is_shown_to = |manager: &str| {
        let read = client.get("/reservation-financial-lifecycles/not-booked", manager);
        let listed = client
            .get("/reservation-financial-lifecycles", manager)
            .json();
        let listed = listed["items"].as_array().unwrap().len();
        assert_eq!((read.status == 200, listed), (listed == 1, listed));
        listed == 1
    };
    assert!(is_shown_to(&charged) && !is_shown_to(&own));
    let booking = json!({"motherUserId": "mother-1", "motherMemberId": "member-1",
        "branchProfileId": "own", "state": "active"});
    put("reservation-booking", booking);
    assert!(!is_shown_to(&charged) && is_shown_to(&own));
}

/// What is read of each is short, and its state is hundreds of kilobytes.
#[test]
fn a_list_page_ends_before_reading_all_large_states_and_the_next_goes_on() {
    let stage = Stage::new();
    let mut client = stage.client();
    let bookings: Vec<_> = (0..14).map(|number| format!("large-{number}")).collect();
    let shares = json!({"caregiverShareBasisPoints": 7_000, "headquartersShareBasisPoints": 1_000});
    let fact = |id: &String| {
        let kind = "reservation-financial-facts";
        json!({"kind": kind, "id": id, "revision": 1, "facts": shares})
    };
    let facts: Vec<_> = bookings.iter().map(fact).collect();
    let put = client.put_facts(&stage.workflow(), &facts);
    assert_eq!(put.json()["applied"], 14, "{put:?}");
    let components: serde_json::Map<_, _> = (0..90_000)
        .map(|number| (format!("c{number}"), json!(1)))
        .collect();
    let good = good(&stage);
    let mut body = changed(&good, &[("amountByComponentCode", Value::from(components))]);
    for booking in &bookings {
        body["finalizedChargeSnapshotId"] = json!(format!("snapshot-of-{booking}"));
        let finalized = send(&mut client, &path_of(booking), &body);
        assert_eq!(finalized.status, 200, "{booking}");
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    let mut pages = 0;
    loop {
        let path = format!("/reservation-financial-lifecycles?order=oldest&limit=500{cursor}");
        let page = client.get(&path, &stage.headquarters()).json();
        let items = page["items"].as_array().unwrap();
        assert!(!items.is_empty(), "{page}");
        let ids = items
            .iter()
            .map(|item| item["reservationBookingId"].clone());
        seen.extend(ids.filter(|id| id.as_str().unwrap().starts_with("large-")));
        pages += 1;
        let Some(next) = page["next"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    assert!(pages > 1, "one page looked at all of them");
    assert_eq!(seen, bookings);
}

#[test]
fn every_amount_counts_and_a_new_snapshot_finalizes_anew() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    send(&mut client, &good.path, &good.body);
    let all = changed(
        &good,
        &[
            (
                "finalizedChargeSnapshotId",
                json!(stage.id("charge-snapshot-2")),
            ),
            ("serviceAddressLevel2", json!("중구")),
            ("serviceAddressLevel3", json!("명동")),
            ("additionalServiceChargeKrw", json!(50_000)),
            ("rentalEquipmentChargeKrw", json!(30_000)),
            ("governmentDiscountAmountKrw", json!(40_000)),
            ("couponDiscountAmountKrw", json!(10_000)),
            ("preReservationPaymentAmountKrw", json!(100_000)),
            ("voucherServiceBalanceAddOnKrw", json!(5_000)),
            ("voucherInhomeUserFeeChangeAmountKrw", json!(-3_000)),
            (
                "amountByComponentCode",
                json!({"night_care": 20_001, "nothing": 0}),
            ),
            (
                "enabledFlags",
                json!({"regionalBenefit": true, "another": false}),
            ),
            ("branchId", json!(7)),
            ("assignedCaregiverUserId", json!("caregiver-1")),
            ("serviceCalendarImpactPlanId", json!("plan-1")),
            (
                "serviceCalendarImpactPolicyFingerprint",
                json!("fingerprint-1"),
            ),
            ("serviceCalendarImpactFactIds", json!(["fact-1", "fact-2"])),
        ],
    );
    let answer = send(&mut client, &good.path, &all);
    assert_eq!(answer.status, 200, "{answer:?}");
    // Gross 1,600,001; the district's benefit is 10 %, at most 120,000.
    let expected = stage.named(json!({
        "reservationBookingId": "reservation-booking-1",
        "financialStage": "charge_finalized",
        "motherVisiblePayableKrw": 832_001,
        "caregiverPayoutKrw": 1_120_000,
        "branchSettlementKrw": 320_001,
        "hqSettlementKrw": 160_000,
        "careDeliverySessionCode": "session-1",
        "deliveredDayCount": 10,
        "ledgerLineCount": 11,
    }));
    assert_eq!(answer.json(), expected);
    let read = format!(
        "/reservation-financial-lifecycles/{}",
        stage.id("reservation-booking-1")
    );
    let position = answer.position().unwrap().to_string();
    assert_reads(&mut client, &stage.mother(), &read, &position, &expected);
    // The first snapshot is answered as it was.
    let again = send(&mut client, &good.path, &good.body);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json()["motherVisiblePayableKrw"], 900_000);
    // What was paid too much is no negative payable.
    let credit = changed(
        &good,
        &[
            (
                "finalizedChargeSnapshotId",
                json!(stage.id("charge-snapshot-3")),
            ),
            ("ownPriceKrw", json!(0)),
            ("preReservationPaymentAmountKrw", json!(100_000)),
            ("enabledFlags", json!({"regionalBenefit": false})),
        ],
    );
    let answer = send(&mut client, &good.path, &credit).json();
    assert_eq!(answer["motherVisiblePayableKrw"], 0);
    assert_eq!(answer["ledgerLineCount"], 6);
}

#[test]
fn a_default_that_is_spelt_out_is_the_same_charge_as_without_it() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let defaults = [
        ("couponDiscountAmountKrw", json!(0)),
        ("voucherInhomeUserFeeChangeAmountKrw", json!(0)),
        ("amountByComponentCode", json!({})),
        ("enabledFlags", json!({})),
        ("serviceCalendarImpactFactIds", json!([])),
    ];
    let of = |id: &str, changes: &[(&str, Value)]| {
        let id = ("finalizedChargeSnapshotId", json!(stage.id(id)));
        changed(&good, &[&[id][..], changes].concat())
    };
    let without = of("charge-snapshot-1", &[]);
    let with = of("charge-snapshot-2", &defaults);
    for body in [&without, &with] {
        let first = send(&mut client, &good.path, body);
        assert_eq!(first.status, 200, "{first:?}");
        assert_eq!(first.header("idempotent-replayed"), None);
    }
    for (first, id) in [
        (&without, "charge-snapshot-1"),
        (&with, "charge-snapshot-2"),
    ] {
        let first = send(&mut client, &good.path, first);
        for default in &defaults {
            let again = send(
                &mut client,
                &good.path,
                &of(id, std::slice::from_ref(default)),
            );
            assert_eq!(
                again.header("idempotent-replayed"),
                Some("true"),
                "{default:?}"
            );
            assert_eq!(again.text(), first.text(), "{default:?}");
        }
        let other = of(id, &[("couponDiscountAmountKrw", json!(1))]);
        let reused = send(&mut client, &good.path, &other);
        assert_refused(&reused, 409, "charge_snapshot_reused", &[]);
    }
}

#[test]
fn refusals_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let unknown = send(&mut client, &path_of("unknown"), &good.body);
    assert_refused(&unknown, 404, "reservation_facts_not_found", &[]);
    let first = send(&mut client, &good.path, &good.body);
    assert_eq!(first.header("idempotent-replayed"), None);
    // The snapshot's identifier is unique in the whole service, for this booking and its facts.
    let other_booking = path_of(&stage.id("reservation-booking-2"));
    for (path, body) in [(&good.path, &good.other), (&other_booking, &good.body)] {
        let reused = send(&mut client, path, body);
        assert_refused(&reused, 409, "charge_snapshot_reused", &[]);
    }
    let read = format!(
        "/reservation-financial-lifecycles/{}",
        stage.id("reservation-booking-2")
    );
    assert_unreadable(&mut client, &stage.headquarters(), &read);
}

#[test]
fn a_faulty_charge_is_invalid_and_every_fault_is_reported() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let mut all = good.body.clone();
    let mut faults = Vec::new();
    for (member, value, path, code) in [
        (
            "servicePriceKrw",
            json!(-1),
            "servicePriceKrw",
            "out_of_range",
        ),
        ("quotedOn", json!("2026-10-11"), "quotedOn", "out_of_range"),
        (
            "couponDiscountAmountKrw",
            json!(-1),
            "couponDiscountAmountKrw",
            "out_of_range",
        ),
        (
            "voucherInhomeUserFeeChangeAmountKrw",
            json!("0"),
            "voucherInhomeUserFeeChangeAmountKrw",
            "wrong_type",
        ),
        (
            "amountByComponentCode",
            json!({"night": -1}),
            "amountByComponentCode.night",
            "out_of_range",
        ),
        (
            "enabledFlags",
            json!({"regionalBenefit": 1}),
            "enabledFlags.regionalBenefit",
            "wrong_type",
        ),
        ("serviceType", json!(""), "serviceType", "too_short"),
        (
            "finalizedChargeSnapshotId",
            json!(" "),
            "finalizedChargeSnapshotId",
            "blank",
        ),
    ] {
        let body = changed(&good, &[(member, value.clone())]);
        assert_faults(&send(&mut client, &good.path, &body), 422, &[(path, code)]);
        all[member] = value;
        faults.push((path, code));
    }
    assert_faults(&send(&mut client, &good.path, &all), 422, &faults);
    for (changes, path, code) in [
        (
            vec![("ownPriceKrw", json!(1_500_001))],
            "ownPriceKrw",
            "out_of_range",
        ),
        (
            vec![("amountByComponentCode", json!({" ": 1}))],
            "amountByComponentCode. ",
            "blank",
        ),
        (
            vec![("additionalServiceChargeKrw", json!(i64::MAX))],
            "",
            "out_of_range",
        ),
    ] {
        let body = changed(&good, &changes);
        assert_faults(&send(&mut client, &good.path, &body), 422, &[(path, code)]);
    }
    // On the same day, for the whole price.
    let bounds = changed(
        &good,
        &[
            ("quotedOn", json!("2026-10-10")),
            ("ownPriceKrw", json!(1_500_000)),
            ("branchId", Value::Null),
        ],
    );
    assert_eq!(send(&mut client, &good.path, &bounds).status, 200);
}
