//! Requests for histories.

use std::sync::Arc;

use hyper::Uri;
use hyper::header::HeaderMap;

use super::history::{self, HistoryQuery};
use super::response::{Answer, Problems};
use super::service::{Caller, Parameters, Service};
use crate::base::actor::Actor;
use crate::catalogue::ReadRow;
use crate::domain::rejection::Rejection;

impl Service {
    /// The answer to a read that asks for an earlier body.
    pub(super) async fn earlier_body(
        &self,
        row: &'static ReadRow,
        actor: &Arc<Actor>,
        parameters: &Parameters<'_>,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<Answer> {
        let trail = row.trail?;
        let problems = Problems::of_read(row);
        match history::asked_of_read(query) {
            Ok(asked) => {
                let found = self
                    .engine
                    .past(row, trail, actor, parameters, asked?)
                    .await;
                Some(history::answer(problems, found, None, headers))
            }
            Err(rejection) => Some(problems.rejected(&rejection)),
        }
    }

    /// A page of the history of what `row` reads.
    pub(super) async fn history(
        &self,
        caller: &Caller,
        row: &'static ReadRow,
        parameters: &Parameters<'_>,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> Answer {
        let problems = Problems::of_read(row);
        let actor = match self.reader(caller, headers, uri.query(), problems).await {
            Ok(actor) => actor,
            Err(answer) => return *answer,
        };
        let asked = match HistoryQuery::read(uri, &actor.subject) {
            Ok(asked) => asked,
            Err(rejection) => return problems.rejected(&rejection),
        };
        let Some(trail) = row.trail else {
            return problems.rejected(&Rejection::not_found());
        };
        let found = self
            .engine
            .past(row, trail, &actor, parameters, asked.query)
            .await;
        history::answer(problems, found, Some(&asked), headers)
    }
}
