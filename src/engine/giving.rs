//! A command whose outcome has an identifier that was known before: for what a demonstration begins
//! with.

use std::pin::pin;

use uuid::Uuid;

use super::Engine;
use super::core::{CommandRequest, CommandResult};
use super::limits::admission::Permit;
use crate::base::panics::unless_its_future_panics;

impl Engine {
    /// Carries a command out; what it brings into being gets this identifier, which nothing else may
    /// have.
    pub async fn execute_giving(
        &self,
        born: Uuid,
        request: CommandRequest,
        permit: Permit,
    ) -> CommandResult {
        let answer = self
            .shared
            .execute(request, Some(permit), false, Some(born));
        let answer = unless_its_future_panics(pin!(answer)).await;
        answer.unwrap_or(CommandResult::Fault)
    }
}
