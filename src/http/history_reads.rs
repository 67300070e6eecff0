//! Requests for histories.

use hyper::Uri;
use hyper::header::HeaderMap;

use super::history::{self, HistoryQuery};
use super::request::DryRun;
use super::response::{Answer, Problems};
use super::service::{Caller, Parameters, Service, no_dry_run};
use crate::catalogue::ReadRow;
use crate::domain::rejection::Rejection;

impl Service {
    /// A page of the history of what `row` reads.
    pub(super) async fn history(
        &self,
        caller: &Caller,
        row: &'static ReadRow,
        parameters: &Parameters<'_>,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> Answer {
        let problems = Problems {
            problem: row.problem,
            ..Problems::PLAIN
        };
        let actor = match self.actor(caller, headers, problems).await {
            Ok(actor) => actor,
            Err(answer) => return *answer,
        };
        if DryRun::of(uri.query()) != DryRun::No {
            return problems.rejected(&no_dry_run());
        }
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
