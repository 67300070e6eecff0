//! Reads the organization, for actors who may create branches: they need its revision.

use schemars::JsonSchema;
use serde::Serialize;

use super::organization::Organization;
use super::state::BRANCH_CREATE;
use crate::base::revision::Revision;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;
use crate::domain::resource::Resource;

/// The organization as it is read.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Organization")]
pub struct OrganizationBody {
    organization_revision: Revision,
    branch_count: i64,
}

/// Reads the organization.
///
/// # Errors
/// `permission_denied` without the permission, for every kind of actor.
pub fn read_organization(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    if !request.actor.has_permission(BRANCH_CREATE) {
        return Err(Rejection::permission_denied(
            "Only an actor with the permission branch:create may read the organization.",
        ));
    }
    let organization = request.view.at::<Organization>(Organization::the_key());
    let organization = organization.unwrap_or(Organization::BEFORE_FIRST_BRANCH);
    Representation::at_revision(
        &organization,
        &OrganizationBody {
            organization_revision: organization.revision(),
            branch_count: organization.branch_count,
        },
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::super::samples::{administrator, creation, second_creation};
    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::scenario::{Scenario, actor, headquarters};

    const READ: &str = "read_organization";

    #[test]
    fn it_tells_the_revision_and_counts_the_branches_from_none_on() {
        let mut scenario = Scenario::new();
        scenario.acting(administrator());
        let read = |scenario: &Scenario| scenario.read(READ, &[]).unwrap();
        let body = |count: i64| json!({"organizationRevision": count + 1, "branchCount": count});
        assert_eq!(read(&scenario), ("1".to_owned(), body(0)));
        scenario.when("create_branch", &[], &creation()).committed();
        assert_eq!(read(&scenario), ("2".to_owned(), body(1)));
        let second = second_creation();
        scenario.when("create_branch", &[], &second).committed();
        assert_eq!(read(&scenario), ("3".to_owned(), body(2)));
    }

    #[test]
    fn it_takes_the_permission_and_nothing_else() {
        let mut scenario = Scenario::new();
        for kind in ActorKind::ALL {
            scenario.acting(Actor {
                permissions: vec![BRANCH_CREATE.into()],
                ..actor(kind, "somebody")
            });
            assert!(scenario.read(READ, &[]).is_ok(), "{kind}");
            scenario.acting(actor(kind, "somebody"));
            let refusal = scenario.read(READ, &[]).unwrap_err();
            assert_eq!(refusal.code, "permission_denied", "{kind}");
        }
        scenario.acting(headquarters());
        assert_eq!(
            scenario.read(READ, &[]).unwrap_err().code,
            "permission_denied"
        );
    }
}
