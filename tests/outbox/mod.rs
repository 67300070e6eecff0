//! Messages to named receivers: order, retries, dead letters, what an operator does about them, and
//! that nothing is lost whichever process is killed. A receiver of the tests speaks real HTTP.

pub mod hostile;
mod manage;
mod receiver;
mod rounds;
mod topics;

use carebook::base::actor::{Actor, ActorKind};
use serde_json::{Value, json};

use crate::support::{Answer, Client, World, actor};

/// An operator who may manage messages.
fn operator(world: &World) -> String {
    world.token(&Actor {
        permissions: vec!["outbox:manage".into()],
        ..actor(ActorKind::SystemWorkflow, "operator-1")
    })
}

/// An actor who may read events.
fn reader(world: &World) -> String {
    world.token(&Actor {
        permissions: vec!["events:read".into()],
        ..actor(ActorKind::SystemWorkflow, "reader-1")
    })
}

fn administrator(world: &World) -> String {
    world.token(&Actor {
        permissions: vec!["branch:create".into()],
        ..actor(ActorKind::HeadquartersAdministrator, "admin-1")
    })
}

/// The creation of the branch of this number, which asks for three side effects: who asks, and what.
pub fn creation(world: &World, number: u32) -> (String, Value) {
    let mut body = crate::operations::branch::external_directory::creation();
    body["commandId"] = json!(format!("command-{number}"));
    body["branchCode"] = json!(format!("BR-{number}"));
    body["expectedOrganizationRevision"] = json!(number);
    let registered =
        carebook::domain::branch::business_registration::BusinessRegistrationNumber::sample(number);
    body["businessIdentity"]["registrationNumber"] = json!(registered.digits());
    body["managerInvitation"]["email"] = json!(format!("manager-{number}@example.org"));
    (administrator(world), body)
}

/// The acceptance by the first manager of the branch of this number, which asks for a relationship.
fn acceptance(world: &World, number: u32) -> (String, Value) {
    let manager = world.token(&Actor {
        email: Some(format!("manager-{number}@example.org").into()),
        email_verified: true,
        ..actor(ActorKind::BranchManager, &format!("manager-{number}"))
    });
    (manager, json!({"expectedOnboardingRevision": 1}))
}

pub(crate) fn create(client: &mut Client, world: &World, number: u32) -> Answer {
    let (token, body) = creation(world, number);
    let key = format!("create-{number}");
    client.post_keyed("/admin/branches", &token, &key, &body)
}

fn accept(client: &mut Client, world: &World, number: u32) -> Answer {
    let (token, body) = acceptance(world, number);
    let (path, key) = (
        "/branch/manager-invitations/accept",
        format!("accept-{number}"),
    );
    client.post_keyed(path, &token, &key, &body)
}

/// The messages that a list has.
fn listed(client: &mut Client, world: &World, query: &str) -> Vec<Value> {
    let answer = client.get(&format!("/outbox{query}"), &operator(world));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["items"].as_array().unwrap().clone()
}
