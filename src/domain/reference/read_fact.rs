//! Reads a reference fact: for workflows that may read or write facts.

use serde::Serialize;
use serde_json::value::RawValue;

use super::put::AnyFactKind;
use crate::base::actor::{Actor, ActorKind};
use crate::base::revision::Revision;
use crate::domain::operation::to_json;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;

/// The permission to put facts in place.
pub const FACTS_WRITE: &str = "facts:write";
/// The permission to read facts.
pub const FACTS_READ: &str = "facts:read";

#[derive(Serialize)]
struct FactBody<'a> {
    kind: &'a str,
    id: &'a str,
    revision: Revision,
    facts: &'a RawValue,
}

/// Whether the actor may put facts in place.
#[must_use]
pub fn may_write(actor: &Actor) -> bool {
    actor.kind == ActorKind::SystemWorkflow && actor.has_permission(FACTS_WRITE)
}

/// Reads the fact of one of `kinds` that the path names.
///
/// # Errors
/// `permission_denied` for other actors, then `not_found`.
pub fn read_fact(
    request: &ReadRequest<'_>,
    kinds: &[&dyn AnyFactKind],
) -> Result<Representation, Rejection> {
    let actor = request.actor;
    let may_read = actor.kind == ActorKind::SystemWorkflow && actor.has_permission(FACTS_READ);
    if !may_read && !may_write(actor) {
        return Err(Rejection::permission_denied(
            "Only a system workflow with facts:read or facts:write may read facts.",
        ));
    }
    let (kind, id) = (request.param("kind"), request.param("id"));
    let known = kinds.iter().find(|known| known.kind().name == kind);
    let found = known.and_then(|known| known.find(id, request.view));
    let Some((revision, facts)) = found else {
        return Err(Rejection::not_found());
    };
    let facts = String::from_utf8(facts).expect("JSON is UTF-8");
    let facts = RawValue::from_string(facts).expect("facts have a JSON form");
    Ok(Representation {
        tag: revision.to_string(),
        body: to_json(&FactBody {
            kind,
            id,
            revision,
            facts: &facts,
        }),
    })
}
