//! Senders who hang up, and send again.

use serde_json::json;

use super::load::{Town, request};
use crate::support::{Client, Server};

/// A sender who hangs up does not end its command; the same command on another connection has to
/// wait for it all the same, and is its replay. Were it not so, two commits would take one key,
/// and the log could not be replayed.
#[test]
fn a_command_whose_sender_hung_up_still_holds_its_key() {
    let town = Town::new();
    let server = Server::start(&town.world);
    let address = server.address.clone();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (town, address) = (&town, &address);
            scope.spawn(move || {
                let mut kept = [Client::connect(address), Client::connect(address)];
                for number in 0..60 {
                    let code = format!("code-{thread}-{number}");
                    let body = town.world.deposit_request(&code, "");
                    let wanted = request("hq-0", &format!("key-{code}"), &body);
                    let bytes = town.bytes(&wanted);
                    for _ in 0..2 {
                        let mut leaving = Client::connect(address);
                        leaving.send_raw(&bytes);
                    }
                    for client in &mut kept {
                        client.send_raw(&bytes);
                    }
                    let [one, other] = kept
                        .each_mut()
                        .map(|client| client.read_answer("POST").unwrap());
                    assert_eq!((one.status, other.status), (201, 201), "{one:?} {other:?}");
                    assert_eq!(one.text(), other.text());
                    let first = |answer: &crate::support::Answer| {
                        usize::from(answer.header("idempotent-replayed").is_none())
                    };
                    assert!(first(&one) + first(&other) <= 1, "carried out twice");
                }
            });
        }
    });
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&town.world);
    let again = request(
        "hq-0",
        "key-code-0-0",
        &town.world.deposit_request("code-0-0", ""),
    );
    let answer = town.send(&mut server.client(), &again).unwrap();
    assert_eq!(answer.header("idempotent-replayed"), Some("true"));
    assert_eq!(answer.json()["revision"], json!(1));
}
