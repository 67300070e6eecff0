//! The engine's interface for reads of past states.

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
    /// Reads a past state of the resource that `row` reads, which `history` finds.
    ///
    /// # Errors
    /// Returns the reason when there is nothing to show.
    pub async fn past(
        &self,
        row: &'static ReadRow,
        history: HistorySource,
        actor: &Arc<Actor>,
        path: &[(&str, &str)],
        query: PastQuery,
    ) -> Result<(PastFound, u64), NoPast> {
        let looked = pin!(self.shared.past(row, history, actor, path, query));
        let looked = unless_its_future_panics(looked).await;
        looked.unwrap_or(Err(NoPast::Answered(CommandResult::Fault)))
    }
}
