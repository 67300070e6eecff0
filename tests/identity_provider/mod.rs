//! Keys that come from an identity provider's URL, with the real server.

pub(crate) mod oidc;
mod provider;
mod stands;

use std::process::Command;

use carebook::base::actor::ActorKind;
use carebook::cli::token::signing::{Claims, SigningKey};

use crate::support::{AUDIENCE, Client, World, actor, carebook, claims};

/// A server without `--jwks`, of the world's directory.
fn command(world: &World, arguments: &[&str]) -> Command {
    let mut command = carebook();
    command
        .arg("serve")
        .arg("--data")
        .arg(world.data())
        .args(["--listen", "127.0.0.1:0", "--audience", AUDIENCE])
        .args(arguments);
    command
}

/// The same, of this issuer, which its certificate vouches for.
pub(crate) fn of_issuer(world: &World, issuer: &str, arguments: &[&str]) -> Command {
    let mut command = command(world, &["--issuer", issuer]);
    command
        .arg("--ca-file")
        .arg(world.path("ca.pem"))
        .args(arguments);
    command
}

/// A token of a headquarters administrator of this issuer.
fn token(key: &SigningKey, issuer: &str) -> String {
    let actor = actor(ActorKind::HeadquartersAdministrator, "hq-1");
    let claims = claims(&actor, 3_600);
    let mut claims = serde_json::to_value::<Claims>(claims).unwrap();
    claims["iss"] = issuer.into();
    key.sign(&claims).unwrap()
}

/// The status of a read of nothing: 404 when the token is accepted.
fn status(client: &mut Client, token: &str) -> u16 {
    client.get("/settlement-statements/nothing", token).status
}
