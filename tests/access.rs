//! Who may do what, and what of an actor's claims that rests on: found out at a running server by
//! dry runs and lists as each kind of actor, with and without each claim. `docs/access.md` is what
//! was found; `REWRITE_DOCS=1 cargo test access::` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use carebook::base::actor::{Actor, ActorKind};
use carebook::catalogue::{LISTS, OPERATIONS};
use serde_json::json;

use crate::support::good::Good;
use crate::support::stage::{Stage, Theatre};
use crate::support::{Client, Server, World};

const INTRODUCTION: &str = "\
# Who may do what

Found out at a running server, by dry runs and lists as each kind of actor: a test does that again and
compares. `REWRITE_DOCS=1 cargo test access::` writes it anew.

The actors were those that the resource is about: the mother of the booking, the payer to whom she gave authority,
the manager of its branch, finance operators to whom a `relationship` fact gives the branch or headquarters. Each
had the operation's permission, and the invited e-mail address. Each kind is followed by the token claims that it
needs: permissions, and where its token has to say who it is. [tokens.md](tokens.md) tells what
each claim means, and a refusal is 403 `permission_denied`. To read what one may not see is 404, as if it did not
exist; an operation on what is another's is 403, and 404 on what does not exist
([what that discloses](security.md#what-an-actor-may-do)). An actor whose fact
is inactive or withdrawn may do nothing (403 `actor_inactive`, `actor_withdrawn`). An actor whose authority
would come from an unknown booking, draft or profile gets 403, too, and a message about authority. A family
member's delegation has to cover the amount in 1 and 20.

## Operations

| no. | operation | who |
|---|---|---|
";

const READS: &str = "
The draft of 18 is a mother's here. Any kind of actor confirms the drafts that its subject owns, and no others.

## Reads, lists, histories

A read, its history and its list show the same: what a list does not show is 404 when it is read.
An actor that may see nothing of a kind is given an empty list. Headquarters' private memo of a statement is
shown to headquarters administrators and system workflows alone.

| list | who sees something |
|---|---|
";

const BESIDE: &str = "
`GET /mother/profile` shows a mother's own profile, to her alone. Branches are shown also to whoever has
`branch:create`, and to whose verified e-mail address an invitation is pending, or was accepted by.

## Beside them

By the permission alone, of any kind of actor unless a kind is named:

| request | permission |
|---|---|
";

/// Requests that are no operations, and the permissions of which each needs one.
const SPECIALS: [(&str, &str, &[&str]); 7] = [
    ("POST", "/reference-facts", &["facts:write"]),
    (
        "GET",
        "/reference-facts/reservation-booking/reservation-booking-1",
        &["facts:read", "facts:write"],
    ),
    ("GET", "/organization", &["branch:create"]),
    ("GET", "/events?limit=1", &["events:read"]),
    ("GET", "/webhook-subscriptions", &["webhooks:manage"]),
    ("GET", "/outbox", &["outbox:manage"]),
    ("GET", "/console/figures", &["figures:read"]),
];

/// Every permission that there is.
const PERMISSIONS: [&str; 9] = [
    "branch:create",
    "payment:authorize",
    "payment:administer",
    "facts:read",
    "facts:write",
    "events:read",
    "webhooks:manage",
    "outbox:manage",
    "figures:read",
];

/// The operation by which a mother gives authority to pay for her.
const GRANTS: &str = "grant_payment_authority";

/// The claims that the actor has, each by its name, with what the actor is without it.
fn stripped(actor: &Actor) -> Vec<(String, Actor)> {
    let mut all = Vec::new();
    for permission in &actor.permissions {
        let mut without = actor.clone();
        without.permissions.retain(|other| other != permission);
        all.push((permission.to_string(), without));
    }
    let mut claim = |name: &str, is_there: bool, strip: &dyn Fn(&mut Actor)| {
        let mut without = actor.clone();
        strip(&mut without);
        all.extend(is_there.then(|| (name.to_owned(), without)));
    };
    claim("member_id", actor.member_id.is_some(), &|actor| {
        actor.member_id = None
    });
    claim(
        "branch_profile_ids",
        !actor.branch_profile_ids.is_empty(),
        &|actor| {
            actor.branch_profile_ids.clear();
        },
    );
    claim("email", actor.email.is_some(), &|actor| actor.email = None);
    claim("email_verified", actor.email_verified, &|actor| {
        actor.email_verified = false
    });
    all
}

/// Of the claims of an actor that `may`, those without which it may not.
fn needed(actor: &Actor, may: &mut dyn FnMut(&Actor) -> bool) -> Vec<String> {
    let all = stripped(actor);
    let without = all
        .into_iter()
        .filter_map(|(name, without)| (!may(&without)).then_some(name));
    without.collect()
}

/// Each kind with the claims that it needs; what holds of each kind is written once.
fn all_told(who: &[(ActorKind, Vec<String>)]) -> String {
    let told = |kind: String, claims: &[String]| match claims {
        [] => kind,
        _ => format!("{kind} with `{}`", claims.join("`, `")),
    };
    let claims = &who[0].1;
    if who.len() == ActorKind::ALL.len() && who.iter().all(|(_, other)| other == claims) {
        return told("any kind".to_owned(), claims);
    }
    let each = who
        .iter()
        .map(|(kind, claims)| told(format!("`{}`", kind.as_str()), claims));
    each.collect::<Vec<_>>().join("<br>")
}

/// Whether a dry run of the request would be carried out as this actor.
fn would(good: &Good, stage: &Stage, client: &mut Client, actor: &Actor) -> bool {
    let mut body = good.body.clone();
    // Some bodies repeat who sends them.
    if let Some(members) = body.as_object_mut() {
        if members.contains_key("actorKind") {
            members.insert("actorKind".to_owned(), json!(actor.kind.as_str()));
        }
        if members.contains_key("actorProfileId") {
            members.insert("actorProfileId".to_owned(), json!(actor.profile_id()));
        }
    }
    let bearer = format!("Bearer {}", stage.token(actor));
    let mut headers = vec![("Content-Type", "application/json")];
    if good.row.bearer {
        headers.push(("Authorization", bearer.as_str()));
    }
    if let Some(key) = &good.key {
        headers.push(("Idempotency-Key", key));
    }
    let path = format!("{}?dryRun=true", good.path);
    let answer = client.request(good.method(), &path, &headers, body.to_string().as_bytes());
    assert_ne!(answer.status, 401, "{answer:?}");
    assert!(answer.status < 500, "{answer:?}");
    answer.status < 300
}

/// What a list shows to this actor.
fn sees(path: &str, stage: &Stage, client: &mut Client, actor: &Actor) -> bool {
    let answer = client.get(&format!("{path}?limit=1"), &stage.token(actor));
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    let items = &answer.json()["items"];
    items.as_array().is_some_and(|items| !items.is_empty())
}

fn page() -> String {
    let world = World::new();
    let server = Server::start_with(&world, &["--console"]);
    let theatre = Arc::new(Theatre { world, server });
    let mut page = INTRODUCTION.to_owned();
    let mut seen: BTreeMap<(&str, usize), Vec<String>> = BTreeMap::new();
    for row in OPERATIONS {
        let stage = Stage::at(Arc::clone(&theatre));
        let mut client = stage.client();
        if row.name == "pre_register_payment" {
            // Who pays for the mother does so by her authority.
            let granted = OPERATIONS.iter().find(|row| row.name == GRANTS);
            let granted = Good::of(granted.unwrap(), &stage);
            granted.carried_out(&mut client, &granted.token(&stage));
        }
        let good = Good::of(row, &stage);
        let mut who = Vec::new();
        for kind in ActorKind::ALL {
            let actor = match kind == good.actor.kind {
                true => good.actor.clone(),
                false => {
                    let own = stage.actor(kind);
                    let permissions = own.permissions.iter().chain(&good.actor.permissions);
                    let permissions: BTreeSet<_> = permissions.cloned().collect();
                    Actor {
                        permissions: permissions.into_iter().collect(),
                        email: good.actor.email.clone(),
                        email_verified: good.actor.email_verified,
                        ..own
                    }
                }
            };
            if would(&good, &stage, &mut client, &actor) {
                let claims = needed(&actor, &mut |actor| {
                    would(&good, &stage, &mut client, actor)
                });
                who.push((kind, claims));
            }
        }
        assert!(!who.is_empty(), "{}", row.name);
        let who = match row.bearer {
            true => all_told(&who),
            false => "anybody who reaches the listener; there is no token".to_owned(),
        };
        let _ = writeln!(page, "| {} | `{}` | {} |", row.tag, row.name, who);
        good.carried_out(&mut client, &good.token(&stage));
        for list in LISTS.iter() {
            for (number, kind) in ActorKind::ALL.into_iter().enumerate() {
                let actor = stage.actor(kind);
                if !seen.contains_key(&(list.path, number))
                    && sees(list.path, &stage, &mut client, &actor)
                {
                    let claims = needed(&actor, &mut |actor| {
                        sees(list.path, &stage, &mut client, actor)
                    });
                    seen.insert((list.path, number), claims);
                }
            }
        }
    }
    page.push_str(READS);
    for list in LISTS.iter() {
        let who = ActorKind::ALL.into_iter().enumerate();
        let who = who.filter_map(|(number, kind)| Some((kind, seen.get(&(list.path, number))?)));
        let who: Vec<_> = who.map(|(kind, claims)| (kind, claims.clone())).collect();
        assert!(!who.is_empty(), "{}", list.path);
        let _ = writeln!(page, "| `GET {}` | {} |", list.path, all_told(&who));
    }
    page.push_str(BESIDE);
    page.push_str(&specials(&theatre));
    page
}

/// What each of the requests that are no operations needs.
fn specials(theatre: &Arc<Theatre>) -> String {
    let stage = Stage::at(Arc::clone(theatre));
    let mut client = stage.client();
    let mut rows = String::new();
    for (method, path, permissions) in SPECIALS {
        let mut may = |kind: ActorKind, permissions: &[&str]| {
            let actor = Actor {
                permissions: permissions.iter().map(|&one| one.into()).collect(),
                ..stage.actor(kind)
            };
            let bearer = format!("Bearer {}", stage.token(&actor));
            let headers = [
                ("Authorization", bearer.as_str()),
                ("Content-Type", "application/json"),
            ];
            let body: &[u8] = if method == "POST" {
                b"{\"facts\":[]}"
            } else {
                b""
            };
            let status = client.request(method, path, &headers, body).status;
            // What is refused for its content was let in.
            !matches!(status, 401 | 403)
        };
        let mut kinds = Vec::new();
        for kind in ActorKind::ALL {
            let without = PERMISSIONS.iter().filter(|one| !permissions.contains(one));
            let without: Vec<_> = without.copied().collect();
            assert!(!may(kind, &without), "{path} as {kind:?}");
            let alone: Vec<_> = permissions.iter().map(|one| may(kind, &[one])).collect();
            assert!(
                alone.iter().all(|may| *may == alone[0]),
                "{path} as {kind:?}: {alone:?}"
            );
            kinds.extend(alone[0].then_some(kind));
        }
        assert!(!kinds.is_empty(), "{path}");
        let of = match kinds.len() == ActorKind::ALL.len() {
            true => String::new(),
            false => {
                let names: Vec<_> = kinds
                    .iter()
                    .map(|kind| format!("`{}`", kind.as_str()))
                    .collect();
                format!(", of {}", names.join(" and "))
            }
        };
        let path = path.split('?').next().unwrap_or(path);
        let path = match path.starts_with("/reference-facts/") {
            true => "/reference-facts/{kind}/{id}",
            false => path,
        };
        let more = if path.starts_with("/webhook") || path == "/outbox" {
            ", and all below it"
        } else if path.starts_with("/console") {
            ", where the [console](console.md) is served"
        } else {
            ""
        };
        let permissions = permissions.join("` or `");
        let _ = writeln!(rows, "| `{method} {path}`{more} | `{permissions}`{of} |");
    }
    rows
}

#[test]
fn the_page_of_who_may_do_what_is_what_the_service_does() {
    crate::docs::is_as_printed("docs/access.md", &page());
}
