//! Events that the log has given up.

use super::{all, page_of, reader};
use crate::support::{Server, World, carebook, run};

#[test]
fn compacted_events_are_gone_and_the_rest_is_read_from_the_earliest() {
    let world = World::new();
    let server = Server::start(&world);
    let mut client = server.client();
    let path = "/settlement-deposit-requests";
    for number in 1..=5 {
        let body = world.deposit_request(&format!("code-{number}"), &format!("key-{number}"));
        let done = client.post(path, &world.headquarters(), &body);
        assert_eq!(done.position(), Some(number));
    }
    drop(client);
    assert_eq!(server.stop(), Some(0));
    let data = world.data();
    let data = data.to_str().unwrap();
    let compacted = run(&["compact", "--data", data, "--keep", "0s"]);
    assert_eq!(compacted.0, Some(0), "{compacted:?}");

    let server = Server::start(&world);
    let token = world.token(&reader());
    let mut client = server.client();
    // What was read to its end can be gone on from, though it is not kept.
    let page = page_of(&client.get("/events?after=5-0", &token));
    assert_eq!((page.events.len(), &*page.next, page.end), (0, "5-0", true));
    let mut named = String::new();
    for query in ["after=0-0", "after=1-0", "after=4-0"] {
        let gone = client.get(&format!("/events?{query}"), &token);
        assert_eq!(gone.status, 410, "{query}: {gone:?}");
        let gone = gone.json();
        assert_eq!(gone["code"], "events_gone");
        let message = gone["message"].as_str().unwrap();
        assert!(message.contains("6-0"), "{query}: {message}");
        // It leads to all that is kept, which is nothing yet.
        let last = message.trim_end_matches('.').rsplit(' ').next();
        named = last.unwrap().to_owned();
        let page = page_of(&client.get(&format!("/events?after={named}"), &token));
        assert!(page.events.is_empty() && page.end, "{message}");
    }
    let body = world.deposit_request("code-6", "key-6");
    client.post(path, &world.headquarters(), &body);
    let kept = all(&mut client, &token, "", 100);
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0]["id"], "6-0");
    let page = page_of(&client.get(&format!("/events?after={named}"), &token));
    assert_eq!(page.events, kept);

    let mut command = carebook();
    command
        .args(["events", "--url", &format!("http://{}", server.address)])
        .args(["--after", "0-0", "--follow"])
        .env("CAREBOOK_TOKEN", &token);
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("events_gone") && err.contains("6-0"), "{err}");
}
