//! A full journal refuses commands, as a full disk does, and goes on when there is room again.

use serde_json::json;

use super::{Cluster, ask_saying, until};
use crate::support::World;

/// What the stream may have at first.
const LITTLE: u64 = 1 << 20;

#[test]
fn a_full_journal_refuses_commands_answers_reads_and_goes_on_when_it_has_room() {
    let Some(cluster) = Cluster::with_journal(1, LITTLE) else {
        return;
    };
    let world = World::new();
    let server = cluster.serve(&world);
    let mut client = server.client();
    let memo = "x".repeat(1_900);
    let mut granted = 0;
    let mut refused = None;
    for number in 0..2_000 {
        match ask_saying(&world, &mut client, number, &memo) {
            Some(201) => granted += 1,
            status => {
                refused = status;
                break;
            }
        }
    }
    assert_eq!(refused, Some(503), "after {granted} commands");
    assert_eq!(client.request("GET", "/readyz", &[], b"").status, 503);
    let reason = "carebook_unready{reason=\"no_journal\"}";
    assert_eq!(server.metric(reason), 1.0);
    let held = cluster.status();
    assert_eq!(held["lastPosition"], granted, "{held}");
    assert!(held["bytes"].as_u64().unwrap() <= LITTLE, "{held}");
    cluster.change(&json!({"max_bytes": 64 << 20}));
    until("there is room again", || {
        ask_saying(&world, &mut server.client(), 5_000, &memo) == Some(201)
    });
    assert_eq!(server.stop(), Some(0));
    let told = cluster.verify(&world.data());
    assert_eq!(told["records"], granted + 1, "{told}");
}

#[test]
fn a_command_whose_record_fits_no_message_is_at_fault_itself() {
    let Some(cluster) = Cluster::with_journal(1, super::ROOMY) else {
        return;
    };
    let world = World::new();
    let server = cluster.serve(&world);
    // A fact takes what is sent into its record: all but a little of 1 MiB does not fit.
    let members: Vec<String> = (0..30_000)
        .map(|number| format!("member-with-a-long-name-{number:012}"))
        .collect();
    let facts = json!({"motherMemberId": "member-1", "memberIds": members});
    let fact = json!({"kind": "family-account", "id": "account-1", "revision": 1, "facts": facts});
    let text = fact.to_string();
    assert!(text.len() > 1_000_000, "{}", text.len());
    let answer = server.client().put_lines(&world.workflow(), &text);
    assert!(matches!(answer.status, 200 | 400 | 413 | 422), "{answer:?}");
    super::ask_for(&world, &server, 0..2);
    assert_eq!(server.stop(), Some(0));
}
