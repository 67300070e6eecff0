//! What lists show, by brute force: for each actor, list and filter exactly what reads by id give,
//! each once, in one order.

use std::collections::BTreeMap;

use carebook::catalogue::{LISTS, ListRow};
use serde_json::Value;

use super::expected::Answer;
use super::state::Model;
use super::world::{ACTORS, HEADQUARTERS};

/// The fields of bodies that have a resource's status, under any of their names.
const STATUS: [&str; 7] = [
    "adjustmentStatus",
    "preRegistrationStatus",
    "operationStatus",
    "receiptState",
    "financialStage",
    "lifecycleStatus",
    "status",
];

/// What is asked.
pub trait Asks {
    /// What a GET of this path gives this actor.
    async fn get(&self, path: &str, who: usize) -> Answer;
}

/// The bodies of all lists in the order in which headquarters sees them.
pub type Orders = BTreeMap<&'static str, Vec<Value>>;

/// A restart leaves every order as it was.
pub fn assert_same(before: &Orders, after: &Orders) {
    for (list, items) in before {
        assert_eq!(after.get(list), Some(items), "{list}");
    }
    assert_eq!(before.len(), after.len());
}

fn text<'v>(body: &'v Value, pointers: &[&str]) -> Option<&'v str> {
    pointers
        .iter()
        .find_map(|pointer| body.pointer(pointer)?.as_str())
}

/// The value that an item has for a filter: in its body, its id, or its booking's present fact.
fn value_of(row: &ListRow, filter: &str, body: &Value, model: &Model) -> Option<String> {
    let booking = || {
        let booking = text(body, &["/reservationBookingId"])?;
        Some(&model.fact("reservation-booking", booking)?.facts)
    };
    let own = match filter {
        "status" => STATUS.iter().find_map(|name| body[*name].as_str()),
        "reservationBookingId" => text(body, &["/reservationBookingId"]),
        "paymentId" => text(
            body,
            &[
                "/paymentId",
                "/paymentReceipt/paymentId",
                "/preRegistration/paymentId",
            ],
        ),
        "branchProfileId" => text(
            body,
            &[
                "/branchProfileId",
                "/scope/branchProfileId",
                "/paymentActorSnapshot/branchProfileId",
                "/branchOfficeProfileId",
                "/branchId",
            ],
        ),
        "motherUserId" => text(
            body,
            &["/motherUserId", "/paymentActorSnapshot/motherUserId"],
        ),
        other => panic!("{}: {other}", row.name),
    };
    let own = own.map(ToOwned::to_owned);
    own.or_else(|| Some(booking()?[filter].as_str()?.to_owned()))
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// All pages of a list, as this actor gets them; `None` where it is refused.
async fn walk(running: &impl Asks, row: &ListRow, who: usize, query: &str) -> Option<Vec<Value>> {
    let (mut items, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let path = format!("{}?limit=7{query}{cursor}", row.path);
        let answer = running.get(&path, who).await;
        if answer.status == 403 && pages == 0 {
            return None;
        }
        assert_eq!(answer.status, 200, "{path}: {answer:#?}");
        let page = answer.body["items"].as_array().unwrap();
        assert!(page.len() <= 7);
        items.extend(page.iter().cloned());
        let Some(next) = answer.body["next"].as_str() else {
            assert!(answer.body["next"].is_null());
            return Some(items);
        };
        cursor = format!("&cursor={next}");
        pages += 1;
        assert!(pages < 10_000, "{path}");
    }
}

fn sorted(items: &[Value]) -> Vec<String> {
    let mut items: Vec<_> = items.iter().map(Value::to_string).collect();
    items.sort();
    items
}

/// Checks all of it; the orders.
pub async fn check(running: &impl Asks, model: &Model, seed: u64) -> Orders {
    let mut orders = Orders::new();
    let reads = model.reads();
    let mut shown = 0;
    for row in LISTS.iter() {
        let below = format!("{}/", row.path);
        let mut paths: Vec<_> = reads.iter().map(|read| &read.path).collect();
        paths.retain(|path| path.starts_with(&below));
        paths.sort();
        paths.dedup();
        for (who, actor) in ACTORS.iter().enumerate() {
            let at = |what: &str| format!("{} for {} {what} SEED={seed}", row.name, actor.subject);
            let mut found = Vec::new();
            for path in &paths {
                let answer = running.get(path, who).await;
                if answer.status == 200 {
                    found.push(answer.body);
                }
            }
            let Some(all) = walk(running, row, who, "").await else {
                assert!(found.is_empty(), "{}", at("is refused"));
                continue;
            };
            assert_eq!(sorted(&all), sorted(&found), "{}", at("all"));
            shown += all.len();
            let mut oldest = walk(running, row, who, "&order=oldest").await.unwrap();
            oldest.reverse();
            assert_eq!(oldest, all, "{}", at("from its end"));
            let mut both: Vec<(String, String)> = Vec::new();
            for (_, filter) in row.filters() {
                let values = all
                    .iter()
                    .filter_map(|body| value_of(row, filter, body, model));
                let mut values: Vec<_> = values.collect();
                values.sort();
                values.dedup();
                values.truncate(4);
                values.push("nothing that is".to_owned());
                for value in &values {
                    let query = format!("&{filter}={}", encoded(value));
                    let given = walk(running, row, who, &query).await.unwrap();
                    let has =
                        |body: &&Value| value_of(row, filter, body, model).as_ref() == Some(value);
                    let expected: Vec<_> = all.iter().filter(has).cloned().collect();
                    assert_eq!(given, expected, "{}", at(&query));
                }
                both.push((filter.to_owned(), values.swap_remove(0)));
            }
            for (one, other) in both.iter().zip(both.iter().skip(1)) {
                let query = format!(
                    "&{}={}&{}={}",
                    one.0,
                    encoded(&one.1),
                    other.0,
                    encoded(&other.1)
                );
                let given = walk(running, row, who, &query).await.unwrap();
                let has = |body: &&Value| {
                    [one, other].into_iter().all(|(filter, value)| {
                        value_of(row, filter, body, model).as_ref() == Some(value)
                    })
                };
                let expected: Vec<_> = all.iter().filter(has).cloned().collect();
                assert_eq!(given, expected, "{}", at(&query));
            }
            if who == HEADQUARTERS {
                assert_eq!(all.len(), paths.len(), "{}", at("everything"));
                orders.insert(row.name, all);
            }
        }
    }
    assert!(shown > 0);
    orders
}
