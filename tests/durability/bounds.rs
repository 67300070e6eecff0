//! Beyond its bounds the service refuses work; it loses none.

use std::sync::atomic::{AtomicU64, Ordering};

use carebook::engine::Limits;
use serde_json::json;

use super::load::{CLIENTS, Town, request};
use super::sequencer::engine;
use crate::support::{Answer, Client, Server};

fn is_trouble(answer: &Answer, status: u16, code: &str) -> bool {
    answer.status == status
        && answer.json()["code"] == json!(code)
        && answer.json()["retryable"] == json!(true)
        && answer
            .header("retry-after")
            .is_some_and(|seconds| seconds.parse::<u32>().is_ok())
}

#[test]
fn facts_have_half_of_the_permits_and_commands_the_rest() {
    let limits = Limits {
        commands_max: 4,
        ..Limits::default()
    };
    let engine = engine(1, limits);
    let mut facts: Vec<_> = std::iter::from_fn(|| engine.admit_fact()).take(5).collect();
    assert_eq!(facts.len(), 2);
    let commands: Vec<_> = std::iter::from_fn(|| engine.admit()).take(5).collect();
    assert_eq!(commands.len(), 2);
    // A fact has a command's permit, too: where commands have them all there is none.
    facts.pop();
    let command = engine.admit();
    assert!(command.is_some() && engine.admit_fact().is_none());
    drop(commands);
    assert!(engine.admit_fact().is_some());
}

#[test]
fn on_a_full_disk_commands_get_503_and_replays_reads_and_refusals_go_on() {
    let town = Town::new();
    let server = Server::start(&town.world);
    town.settle(&server);
    let known = request("hq-0", "key-1", &town.world.deposit_request("S-1", ""));
    let first = town.send(&mut server.client(), &known).unwrap();
    assert_eq!(first.status, 201, "{first:?}");
    let statement = first.json()["statementId"].as_str().unwrap().to_owned();
    let path = format!("/settlement-statements/{statement}");
    assert_eq!(server.stop(), Some(0));

    let plenty = (1_u64 << 60).to_string();
    let server = Server::start_with(&town.world, &["--reserve-bytes", &plenty]);
    let mut client = server.client();
    let fresh = request("hq-0", "key-2", &town.world.deposit_request("S-2", ""));
    let mut second_key = known.clone();
    second_key.body["idempotencyKey"] = json!("key-3");
    for wanted in [&fresh, &second_key] {
        let refused = town.send(&mut client, wanted).unwrap();
        assert!(
            is_trouble(&refused, 503, "service_unavailable"),
            "{refused:?}"
        );
    }
    let fact =
        json!({"kind": "actor", "id": "somebody", "revision": 1, "facts": {"lifecycle": "active"}});
    let refused = client.put_facts(town.token("workflow"), std::slice::from_ref(&fact));
    assert!(
        is_trouble(&refused, 503, "service_unavailable"),
        "{refused:?}"
    );
    let refused = client.request("GET", "/readyz", &[], b"");
    assert!(
        is_trouble(&refused, 503, "service_unavailable"),
        "{refused:?}"
    );
    // What needs no room goes on.
    town.replay(&mut client, &known, &first);
    assert_eq!(town.read(&mut client, "hq-0", &path).unwrap(), 1);
    let other = request("hq-1", "key-4", &town.world.deposit_request("S-1", ""));
    assert_eq!(town.send(&mut client, &other).unwrap().status, 409);
    assert_eq!(server.stop(), Some(0));

    let server = Server::start(&town.world);
    let mut client = server.client();
    let now = town.send(&mut client, &fresh).unwrap();
    assert_eq!((now.status, now.header("idempotent-replayed")), (201, None));
    let now = client.put_facts(town.token("workflow"), &[fact]);
    assert_eq!(now.json()["applied"], json!(1), "{now:?}");
    assert_eq!(client.request("GET", "/readyz", &[], b"").status, 200);
    town.content();
}

#[test]
fn beyond_the_bound_commands_are_shed_and_none_is_lost() {
    const EACH: usize = 20;
    let town = Town::new();
    let server = Server::start_with(&town.world, &["--commands-max", "1"]);
    let address = server.address.clone();
    let shed = AtomicU64::new(0);
    let kept: Vec<_> = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|number| {
            let (town, address, shed) = (&town, &address, &shed);
            scope.spawn(move || {
                let mut client = Client::connect(address);
                let one = |index| {
                    let code = format!("S-{number}-{index}");
                    let body = town.world.deposit_request(&code, "");
                    let wanted = request("hq-0", &format!("key-{code}"), &body);
                    loop {
                        let answer = town.send(&mut client, &wanted).unwrap();
                        if answer.status == 201 {
                            // What was shed had not been begun.
                            assert_eq!(answer.header("idempotent-replayed"), None);
                            return (wanted, answer);
                        }
                        assert!(is_trouble(&answer, 429, "overloaded"), "{answer:?}");
                        shed.fetch_add(1, Ordering::Relaxed);
                    }
                };
                (0..EACH).map(one).collect::<Vec<_>>()
            })
        });
        let clients: Vec<_> = clients.collect();
        let kept = clients.into_iter().map(|client| client.join().unwrap());
        kept.flatten().collect()
    });
    println!("{} commands were shed", shed.load(Ordering::Relaxed));
    assert!(shed.load(Ordering::Relaxed) > 0);
    assert_eq!(kept.len(), CLIENTS * EACH);
    server.kill();
    let server = Server::start(&town.world);
    let mut client = server.client();
    for (wanted, first) in &kept {
        town.replay(&mut client, wanted, first);
    }
    town.content();
}
