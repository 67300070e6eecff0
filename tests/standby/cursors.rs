//! Cursors of the writer, sent to a standby that does not have yet what they are about.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use carebook::cli::runtime::on_lane;
use carebook::cli::serve::demo::load_samples;
use carebook::engine::role::Role;
use serde_json::json;

use super::{feed, get, readers, records};
use crate::support::inside::{Inside, Wanted};
use crate::support::{PATIENCE, World, office};

const HISTORY: &str = "/branch-office-profiles/office-2/history";
const LIST: &str = "/branch-office-profiles";

/// A second page of what is at this path, as the writer has it: what asks for it, and its body.
async fn second_page(writer: &Inside, token: &str, path: &str) -> (String, String) {
    let first = get(writer, token, &format!("{path}?limit=1"), None).await;
    assert_eq!(first.status, 200, "{first:?}");
    let first = first.json();
    let next = first["next"].as_str().unwrap();
    let second = format!("{path}?limit=1&cursor={next}");
    let page = get(writer, token, &second, None).await;
    assert_eq!(page.status, 200, "{page:?}");
    (second, page.text().to_owned())
}

/// The same request with a cursor to another place.
fn at_place(request: &str, place: &str) -> String {
    let (path, cursor) = request.split_once("&cursor=").unwrap();
    let cursor = BASE64_URL_SAFE_NO_PAD.decode(cursor).unwrap();
    let (bound_to, _) = std::str::from_utf8(&cursor).unwrap().split_at(16);
    let cursor = BASE64_URL_SAFE_NO_PAD.encode(format!("{bound_to}{place}"));
    format!("{path}&cursor={cursor}")
}

#[test]
fn a_standby_waits_for_a_writer_s_cursor_position_and_answers_the_same() {
    let world = World::new();
    let writer = Inside::start(&world, Wanted::default());
    load_samples(writer.engine()).unwrap();
    let known = usize::try_from(writer.engine().durable()).unwrap();
    let [headquarters, workflow] = readers(&world);
    let pages = on_lane(writer.engine(), async {
        for (id, revision) in [
            ("office-1", 1),
            ("office-2", 1),
            ("office-2", 2),
            ("office-2", 3),
        ] {
            let facts = json!({"facts": [office(id, revision)]});
            let put = writer
                .send_json("POST", "/reference-facts", &workflow, "-", Some(facts))
                .await;
            assert_eq!(put.json()["applied"], 1, "{put:?}");
        }
        let history = second_page(&writer, &headquarters, HISTORY).await;
        let list = second_page(&writer, &headquarters, LIST).await;
        [history, list]
    });
    let [(history, history_page), (list, list_page)] = pages.unwrap();
    writer.engine().shut_down().unwrap();
    let all = records(&writer.disk);
    let (early, late) = all.split_at(known);
    let wanted = Wanted {
        role: Role::Standby,
        ..Wanted::default()
    };
    let standby = Arc::new(Inside::start(&world, wanted));
    feed(&standby, early);
    let (feeding, fed) = (Arc::clone(&standby), late.to_vec());
    on_lane(standby.engine(), async {
        let comes = async {
            let wait = async {
                while standby.engine().figures().min_position.0 < 2 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(PATIENCE, wait).await.unwrap();
            std::thread::spawn(move || feed(&feeding, &fed));
        };
        let (of_history, of_list, ()) = tokio::join!(
            get(&standby, &headquarters, &history, None),
            get(&standby, &headquarters, &list, None),
            comes,
        );
        for (answer, expected) in [(of_history, history_page), (of_list, list_page)] {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.text(), expected);
        }
        // No log comes to this position.
        let beyond = at_place(&history, "9223372036854775808");
        let refused = get(&standby, &headquarters, &beyond, None).await;
        let fault = ("query.cursor".to_owned(), "pattern".to_owned());
        assert_eq!(refused.status, 400, "{refused:?}");
        assert_eq!(refused.faults(), [fault]);
    })
    .unwrap();
    standby.engine().shut_down().unwrap();
}
