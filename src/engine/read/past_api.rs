//! The engine's front for what was.

use std::pin::pin;
use std::sync::Arc;

use super::past::{NoPast, PastFound, PastQuery};
use crate::base::actor::Actor;
use crate::base::panics::unless_its_future_panics;
use crate::catalogue::ReadRow;
use crate::domain::read::HistorySource;
use crate::engine::Engine;
use crate::engine::core::CommandResult;

impl Engine {
    /// What was of what `row` reads, which has a history that `trail` finds.
    ///
    /// # Errors
    /// Why there is nothing to show.
    pub async fn past(
        &self,
        row: &'static ReadRow,
        trail: HistorySource,
        actor: &Arc<Actor>,
        path: &[(&str, &str)],
        query: PastQuery,
    ) -> Result<(PastFound, u64), NoPast> {
        let looked = pin!(self.shared.past(row, trail, actor, path, query));
        let looked = unless_its_future_panics(looked).await;
        looked.unwrap_or(Err(NoPast::Answered(CommandResult::Fault)))
    }
}
