//! Reads a settlement statement: headquarters and workflows see all of it, a manager of its branch
//! all but the head office's private memo.

use super::body::StatementBody;
use super::state::may_request;
use super::statement::Statement;
use crate::domain::listing::Scope;
use crate::domain::read::{ReadRequest, Representation};
use crate::domain::rejection::Rejection;

/// Reads the statement that the path names.
///
/// # Errors
/// `not_found` when it does not exist, or the actor may not see it.
pub fn read_statement(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let actor = request.actor;
    let statement = request
        .view
        .get::<Statement>(&[request.param("statementId")]);
    match statement {
        Some(statement)
            if request.allows(|| {
                may_request(actor) || actor.manages_branch(&statement.opening.branch_profile_id)
            }) =>
        {
            Representation::at_revision_and_digest(
                &statement,
                &StatementBody::new(&statement, actor),
            )
        }
        _ => Err(Rejection::not_found()),
    }
}

/// Returns the part of the statements that the actor may be shown.
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

    use super::super::samples::{acknowledgement, deposit_request, opened, workflow};
    use super::*;
    use crate::base::actor::{Actor, ActorKind};
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, actor, headquarters, manager, revision_of};

    fn read(
        scenario: &mut Scenario,
        reader: Actor,
        id: &str,
    ) -> Result<(String, Value), Rejection> {
        let (tag, body) = tagged(scenario, reader, id)?;
        Ok((revision_of(&tag), body))
    }

    /// Reads like [`read`], and also returns the current tag.
    fn tagged(
        scenario: &mut Scenario,
        reader: Actor,
        id: &str,
    ) -> Result<(String, Value), Rejection> {
        scenario
            .acting(reader)
            .read("read_statement", &[("statementId", id)])
    }

    #[test]
    fn a_tag_is_that_of_what_the_reader_sees() {
        let (mut scenario, id) = opened("head_office_to_branch");
        let branch = || manager("manager-1", "branch-1");
        let (whole, body) = tagged(&mut scenario, headquarters(), &id).unwrap();
        let (without_memo, _) = tagged(&mut scenario, branch(), &id).unwrap();
        assert_ne!(body["headOfficePrivateMemo"], Value::Null);
        assert_ne!(whole, without_memo, "the memo is not for the branch");
        assert_eq!(tagged(&mut scenario, workflow(), &id).unwrap().0, whole);
        let (again, _) = tagged(&mut scenario, branch(), &id).unwrap();
        assert_eq!(again, without_memo);
    }

    #[test]
    fn headquarters_and_workflows_read_all_that_the_opening_answered() {
        let mut scenario = Scenario::new();
        let statement = scenario
            .when("request_deposit", &[], &deposit_request())
            .committed();
        let id = statement["statementId"].as_str().unwrap();
        for reader in [
            headquarters(),
            workflow(),
            actor(ActorKind::SystemWorkflow, "another"),
        ] {
            let (tag, body) = read(&mut scenario, reader, id).unwrap();
            assert_eq!(tag, "1");
            assert_eq!(body, statement);
            assert_eq!(body["headOfficePrivateMemo"], "Late twice this year.");
        }
    }

    #[test]
    fn a_manager_of_its_branch_reads_all_but_the_memo() {
        let (mut scenario, id) = opened("head_office_to_branch");
        let (_, mut whole) = read(&mut scenario, headquarters(), &id).unwrap();
        let mut of_several = manager("manager-1", "branch-7");
        of_several.branch_profile_ids.push("branch-1".into());
        for reader in [manager("manager-1", "branch-1"), of_several] {
            let (tag, body) = read(&mut scenario, reader, &id).unwrap();
            whole["headOfficePrivateMemo"] = Value::Null;
            assert_eq!((tag.as_str(), &body), ("1", &whole));
        }
    }

    #[test]
    fn the_branch_reads_the_acknowledged_statement_headquarters_its_memo_too() {
        let (mut scenario, id) = opened("head_office_to_branch");
        let branch = manager("manager-1", "branch-1");
        scenario.acting(branch.clone());
        let mut answer = scenario
            .when("acknowledge_deposit", &[], &acknowledgement(&id))
            .committed();
        assert_eq!(answer["headOfficePrivateMemo"], Value::Null);
        assert_eq!(
            read(&mut scenario, branch, &id).unwrap(),
            ("2".to_owned(), answer.clone())
        );
        answer["headOfficePrivateMemo"] = json!("Late twice this year.");
        assert_eq!(
            read(&mut scenario, headquarters(), &id).unwrap(),
            ("2".to_owned(), answer)
        );
    }

    #[test]
    fn for_others_it_is_as_if_there_were_none() {
        let (mut scenario, id) = opened("head_office_to_branch");
        let nothing = read(&mut scenario, headquarters(), "no-such-statement").unwrap_err();
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
            let refusal = read(&mut scenario, reader.clone(), &id).unwrap_err();
            assert_eq!(refusal, nothing, "{}", reader.kind);
        }
    }
}
