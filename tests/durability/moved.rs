//! A data directory that is moved away under a running server, and another log in its place.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use serde_json::json;

use crate::support::{Client, PATIENCE, Server, World, files};

/// Commits a fact; whether it was acknowledged.
fn committed(client: &mut Client, token: &str, number: u32) -> bool {
    let fact = json!({"kind": "actor", "id": format!("actor-{number}"), "revision": 1,
        "facts": {"lifecycle": "active"}});
    let body = json!({"facts": [fact]}).to_string();
    let headers = [
        ("Authorization", format!("Bearer {token}")),
        ("Content-Type", "application/json".to_owned()),
    ];
    let headers = headers
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let answer = client.try_request("POST", "/reference-facts", &headers, body.as_bytes());
    answer.is_ok_and(|answer| answer.status == 200 && answer.json()["applied"] == 1)
}

fn bytes_of(directory: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let all = files(directory).into_iter();
    all.map(|file| (file.clone(), std::fs::read(file).unwrap()))
        .collect()
}

#[test]
fn a_server_whose_directory_is_moved_ends_and_leaves_the_new_one_alone() {
    let (world, another) = (World::new(), World::new());
    let token = another.workflow();
    let server = Server::start(&another);
    assert!(committed(&mut server.client(), &token, 0));
    assert_eq!(server.stop(), Some(0));

    let mut server = Server::start(&world);
    let token = world.workflow();
    let mut client = server.client();
    let before = (0..100).filter(|number| committed(&mut client, &token, *number));
    assert_eq!(before.count(), 100);
    let (data, away) = (world.data(), world.path("away"));
    std::fs::rename(&data, &away).unwrap();
    std::fs::rename(another.data(), &data).unwrap();
    let others = bytes_of(&data);
    let mut acknowledged = 100;
    let moved = Instant::now();
    while server.has_ended().is_none() && committed(&mut client, &token, acknowledged) {
        acknowledged += 1;
        assert!(moved.elapsed() < PATIENCE, "it goes on");
    }
    // As with a damaged log, nobody is to start it again.
    assert_eq!(server.ended_within(PATIENCE), Some(3));
    assert!(
        bytes_of(&data) == others,
        "another log's files are as they were"
    );

    // Both logs have all that was acknowledged.
    std::fs::rename(&data, another.data()).unwrap();
    std::fs::rename(&away, &data).unwrap();
    for (world, count) in [(&another, 1), (&world, acknowledged)] {
        let server = Server::start(world);
        let mut client = server.client();
        for number in 0..count {
            let read = client.get(
                &format!("/reference-facts/actor/actor-{number}"),
                &world.workflow(),
            );
            assert_eq!(read.status, 200, "{number} of {count}: {read:?}");
        }
    }
}
