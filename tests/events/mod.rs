//! What is committed, as readers of events get it.

mod command;
mod kept;
mod paced;
mod pages;
mod secured;
mod stream;
mod told;

use std::sync::Arc;

use carebook::base::actor::{Actor, ActorKind};
use carebook::catalogue::OPERATIONS;
use serde_json::Value;

use crate::support::good::Good;
use crate::support::stage::{Stage, Theatre};
use crate::support::{Answer, Client, Server, World, actor};

/// A stage on a server of its own, on which each operation's example was carried out.
fn played() -> Stage {
    played_with_bodies().0
}

/// The same, and the bodies that were sent.
fn played_with_bodies() -> (Stage, Vec<Value>) {
    let world = World::new();
    let server = Server::start(&world);
    let stage = Stage::at(Arc::new(Theatre { world, server }));
    let mut client = stage.client();
    let mut bodies = Vec::new();
    // What an example goes on with is carried out with it.
    let examples = OPERATIONS.iter().map(|row| row.operation.example());
    let before: Vec<_> = examples.filter_map(|example| example.after).collect();
    for row in OPERATIONS.iter().filter(|row| !before.contains(&row.name)) {
        let good = Good::of(row, &stage);
        good.carried_out(&mut client, &good.token(&stage));
        bodies.push(good.body);
    }
    (stage, bodies)
}

/// An actor who may read events.
pub fn reader() -> Actor {
    Actor {
        permissions: vec!["events:read".into()],
        ..actor(ActorKind::SystemWorkflow, "reader-1")
    }
}

/// What a page of events has.
struct Page {
    events: Vec<Value>,
    next: String,
    end: bool,
}

fn page_of(answer: &Answer) -> Page {
    let body = answer.json();
    assert_eq!(answer.status, 200, "{body}");
    Page {
        events: body["events"].as_array().unwrap().clone(),
        next: body["next"].as_str().unwrap().to_owned(),
        end: body["end"].as_bool().unwrap(),
    }
}

/// All events that this query gives, in pages of `limit`.
pub fn all(client: &mut Client, token: &str, query: &str, limit: usize) -> Vec<Value> {
    let mut events = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("/events?limit={limit}{query}{after}");
        let page = page_of(&client.get(&path, token));
        assert!(page.events.len() <= limit);
        events.extend(page.events);
        if page.end {
            return events;
        }
        after = format!("&after={}", page.next);
    }
}
