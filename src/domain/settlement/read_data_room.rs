//! Reads a data-room request: headquarters and workflows, and the managers of its branch where it
//! has one, see all of it.

use super::data_room::{DataRoomBody, DataRoomRequest, may_open};
use super::state::may_request;
use crate::domain::listing::Scope;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;

/// Reads the request that the path names.
///
/// # Errors
/// `not_found` when it does not exist, or the actor may not see it.
pub fn read_data_room(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let standing = request
        .view
        .get::<DataRoomRequest>(&[request.param("requestId")]);
    match standing {
        Some(standing) if request.allows(|| may_open(request.actor, &standing.opening.scope)) => {
            Representation::at_revision(&standing, &DataRoomBody::new(&standing))
        }
        _ => Err(Rejection::not_found()),
    }
}

/// Returns the part of the requests that the actor may be shown.
#[must_use]
pub fn scope(request: &ReadRequest<'_>) -> Scope {
    match may_request(request.actor) {
        true => Scope::All,
        false => Scope::managed_by(request.actor),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{
        DATA_ROOM_ID, data_room_request, opened_data_room, ready_artifact, workflow,
    };
    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, actor, headquarters, manager, with};

    fn read(
        scenario: &mut Scenario,
        reader: Actor,
        id: &str,
    ) -> Result<(String, Value), Rejection> {
        scenario
            .acting(reader)
            .read("read_data_room_request", &[("requestId", id)])
    }

    #[test]
    fn those_who_may_open_it_read_what_each_operation_answered() {
        let mut scenario = Scenario::new();
        let opened = scenario
            .when("open_data_room_request", &[], &data_room_request())
            .committed();
        let mut of_several = manager("manager-1", "branch-7");
        of_several.branch_profile_ids.push("branch-1".into());
        let readers = [
            headquarters(),
            workflow(),
            actor(ActorKind::SystemWorkflow, "another"),
            manager("manager-1", "branch-1"),
            of_several,
        ];
        for reader in &readers {
            let found = read(&mut scenario, reader.clone(), DATA_ROOM_ID).unwrap();
            assert_eq!(found, ("1".to_owned(), opened.clone()), "{}", reader.kind);
        }
        let ready = scenario
            .acting(workflow())
            .when(
                "mark_artifact_ready",
                &[("settlementDataRoomRequestId", DATA_ROOM_ID)],
                &ready_artifact(1, "lines", 1),
            )
            .committed();
        for reader in readers {
            let kind = reader.kind;
            let found = read(&mut scenario, reader, DATA_ROOM_ID).unwrap();
            assert_eq!(found, ("2".to_owned(), ready.clone()), "{kind}");
        }
    }

    #[test]
    fn for_others_it_is_as_if_there_were_none() {
        let mut scenario = opened_data_room();
        let nothing = read(&mut scenario, headquarters(), "no-such-request").unwrap_err();
        assert_eq!((nothing.class, nothing.code), (Class::Missing, "not_found"));
        let mut readers = vec![manager("manager-2", "branch-2")];
        for kind in [
            ActorKind::Mother,
            ActorKind::FamilyMember,
            ActorKind::BranchFinanceOperator,
            ActorKind::HeadquartersFinanceOperator,
        ] {
            let mut reader = actor(kind, "somebody");
            reader.branch_profile_ids = vec!["branch-1".into()];
            readers.push(reader);
        }
        for reader in readers {
            let kind = reader.kind;
            let refusal = read(&mut scenario, reader, DATA_ROOM_ID).unwrap_err();
            assert_eq!(refusal, nothing, "{kind}");
        }
    }

    #[test]
    fn a_request_of_no_branch_is_no_managers_to_read() {
        let mut scenario = Scenario::new();
        let body = with(
            &data_room_request(),
            &[("scope.branchProfileId", json!(null))],
        );
        let opened = scenario
            .when("open_data_room_request", &[], &body)
            .committed();
        let refusal = read(
            &mut scenario,
            manager("manager-1", "branch-1"),
            DATA_ROOM_ID,
        );
        assert_eq!(refusal.unwrap_err().code, "not_found");
        let (_, found) = read(&mut scenario, headquarters(), DATA_ROOM_ID).unwrap();
        assert_eq!(found, opened);
    }
}
