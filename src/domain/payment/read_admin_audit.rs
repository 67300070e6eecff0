//! Reads the audit of an operation at the payment gateway: for actors who may operate it, and for
//! the head office's administrators whatever their permissions.

use super::admin_audit::{AdminAudit, AdminAuditBody};
use super::administer_gateway::may_administer;
use crate::domain::listing::Scope;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource;

/// Reads the audit that the path names. It has no revision of its own.
///
/// # Errors
/// `not_found` when it does not exist, or the actor may not see it.
pub fn read_admin_audit(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let actor = request.actor;
    if !request.allows(|| actor.is_headquarters() || may_administer(actor)) {
        return Err(Rejection::not_found());
    }
    let audit = request.view.get::<AdminAudit>(&[request.param("auditId")]);
    let Some(audit) = audit else {
        return Err(Rejection::not_found());
    };
    Representation::at_position(request.view, audit.key(), &AdminAuditBody::new(&audit))
}

/// Returns the part of the audits that the actor may be shown.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    match request.actor.is_headquarters() || may_administer(request.actor) {
        true => Scope::All,
        false => Scope::NOTHING,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::samples::administrator;
    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::scenario::{Scenario, actor, member};

    const READ: &str = "read_admin_audit";

    #[test]
    fn payment_administrators_and_headquarters_read_audits_others_find_none() {
        let mut service = Scenario::new();
        let body = json!({
            "operationAction": "search_payments",
            "reason": "A customer called.",
            "idempotencyKey": "key-1",
            "expectedRevision": 0,
            "searchKey": "order-1",
        });
        service.acting(administrator());
        let audit = service.when("administer_gateway", &[], &body).committed();
        let id = audit["billingAdminOperationAuditId"].as_str().unwrap();
        // A later operation on the same subject does not change the audit and its tag.
        let mut later = body.clone();
        later["expectedRevision"] = json!(1);
        later["idempotencyKey"] = json!("key-2");
        service.when("administer_gateway", &[], &later).committed();
        for kind in ActorKind::ALL {
            for permission in ["payment:administer", "payment:authorize"] {
                service.acting(Actor {
                    permissions: vec![permission.into()],
                    branch_profile_ids: vec!["branch-1".into()],
                    ..member(kind, "somebody", "member-1")
                });
                let may_read = kind == ActorKind::HeadquartersAdministrator
                    || kind == ActorKind::HeadquartersFinanceOperator
                        && permission == "payment:administer";
                let expected = if may_read {
                    Ok(("1".to_owned(), audit.clone()))
                } else {
                    Err(Rejection::not_found())
                };
                let found = service.read(READ, &[("auditId", id)]);
                assert_eq!(found, expected, "{kind} {permission}");
            }
        }
        service.acting(actor(ActorKind::HeadquartersAdministrator, "admin-2"));
        for unknown in ["", "no-such", "order-1", &format!("{id} ")] {
            let found = service.read(READ, &[("auditId", unknown)]);
            assert_eq!(found, Err(Rejection::not_found()), "{unknown}");
        }
    }
}
