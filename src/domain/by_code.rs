//! Finds resources by their code, which people use as a name and which is unique; each comes with
//! the read that shows it.

use serde::{Deserialize, Serialize};

use super::branch::state::Branch;
use super::index::{Index, IndexKey};
use super::operation::to_json;
use super::read::{ReadRequest, Representation};
use super::rejection::Rejection;
use super::resource::Resource;
use super::settlement::data_room::DataRoomRequest;
use super::settlement::statement::Statement;

/// A resource that has a code: the name of its read, and its identifier there. That read decides
/// whether an actor may see it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coded {
    /// The name of the read.
    pub read: String,
    /// The value of the parameter of its path.
    pub id: String,
}

/// Finds the resources whose code is the parameter `code`.
///
/// # Errors
/// Never; it returns a `Result` as every read does.
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
