//! What people call a resource by: its code, which is unique. Each with the read that gives it.

use serde::{Deserialize, Serialize};

use super::branch::state::Branch;
use super::operation::to_json;
use super::read::{ReadRequest, Representation};
use super::rejection::Rejection;
use super::resource::{Index, IndexKey, Resource};
use super::settlement::data_room::DataRoomRequest;
use super::settlement::statement::Statement;

/// A resource that has a code: its read, and its identifier there. Whether an actor may see it is
/// up to that read.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coded {
    /// The name of the read.
    pub read: String,
    /// The parameter of its path.
    pub id: String,
}

/// The resources whose code is the parameter `code`.
///
/// # Errors
/// Never; a `Result` as every read has one.
pub fn by_code(request: &ReadRequest<'_>) -> Result<Representation, Rejection> {
    let (code, view) = (request.param("code"), request.view);
    let mut found = Vec::new();
    let statement = view.named::<Statement>(IndexKey::new(Index::StatementCode, &[code]));
    found.extend(statement.and_then(|it| coded("read_statement", &it)));
    let data_room = view.named::<DataRoomRequest>(DataRoomRequest::code(code));
    found.extend(data_room.and_then(|it| coded("read_data_room_request", &it)));
    let branch = view.named::<Branch>(IndexKey::new(Index::BranchCode, &[code]));
    found.extend(branch.and_then(|it| coded("read_branch", &it)));
    Ok(Representation {
        tag: String::new(),
        body: to_json(&found),
    })
}

fn coded(read: &str, resource: &impl Resource) -> Option<Coded> {
    let id = resource.id().into_iter().next()?;
    let read = read.to_owned();
    Some(Coded { read, id })
}
