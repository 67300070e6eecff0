//! Functions for demonstrations only: a command whose new resource gets an identifier chosen beforehand, and a check
//! whether a resource exists.

use std::pin::pin;

use uuid::Uuid;

use super::Engine;
use super::core::{CommandRequest, CommandResult, Mode};
use super::limits::admission::Permit;
use crate::base::digest::Digest;
use crate::base::panics::unless_its_future_panics;
use crate::domain::resource::Source as _;

impl Engine {
    /// Executes a command; the resource that it creates gets this identifier, which no other resource may have.
    pub async fn execute_with_id(
        &self,
        born: Uuid,
        request: CommandRequest,
        permit: Permit,
    ) -> CommandResult {
        let answer = self
            .shared
            .execute(request, Some(permit), Mode::Commit, Some(born));
        let answer = unless_its_future_panics(pin!(answer)).await;
        answer.unwrap_or(CommandResult::Fault)
    }

    /// Whether there is a resource with this key.
    #[must_use]
    pub fn has_resource(&self, key: Digest) -> bool {
        self.shared.tables.read(key, &mut |_| {}).is_some()
    }
}
