//! Reading a settlement statement: headquarters and workflows see all of it, a manager of its
//! branch all but the head office's private memo.

use super::state::{Statement, StatementView, may_request};
use crate::domain::read::{Found, ReadRequest};
use crate::domain::rejection::Rejection;

/// Reads the statement that the path names.
///
/// # Errors
/// `not_found` when it does not exist, or is not for the actor to see.
pub fn read_statement(request: &ReadRequest<'_>) -> Result<Found, Rejection> {
    let actor = request.actor;
    let statement = request.view.get::<Statement>(&[request.param("statementId")]);
    match statement {
        Some(statement)
            if may_request(actor) || actor.manages_branch(&statement.opening.branch_profile_id) =>
        {
            Found::at_revision(&statement, &StatementView::new(&statement, actor))
        }
        _ => Err(Rejection::not_found()),
    }
}
