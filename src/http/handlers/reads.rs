//! Requests that read: a resource, a list, a history.

use std::sync::Arc;

use hyper::Uri;
use hyper::header::HeaderMap;

use crate::base::actor::Actor;
use crate::catalogue::{ListRow, ReadRow, Success};
use crate::domain::rejection::Rejection;
use crate::http::caller::Caller;
use crate::http::read::conditional::found_answer;
use crate::http::read::cursor::CursorOwner;
use crate::http::read::history::{self, HistoryQuery};
use crate::http::read::lists;
use crate::http::read::min_position::{come_to, come_to_place};
use crate::http::request::{DryRun, no_dry_run};
use crate::http::response::{Answer, Problems};
use crate::http::service::{Parameters, Service};

impl Service {
    /// Returns the actor of a request that only reads, and so rejects a dry run. Faults of the request are reported
    /// before a position is waited for.
    async fn reader(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        query: Option<&str>,
        problems: Problems,
    ) -> Result<Arc<Actor>, Box<Answer>> {
        let actor = self.actor(caller, headers, problems).await?;
        match DryRun::of(query) {
            DryRun::No => Ok(actor),
            DryRun::Yes | DryRun::Invalid => Err(Box::new(problems.rejected(&no_dry_run()))),
        }
    }

    /// Returns a page of a list.
    pub(in crate::http) async fn list_row(
        &self,
        caller: &Caller,
        row: &'static ListRow,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Answer {
        let problems = Problems::PLAIN;
        let actor = match self.reader(caller, headers, uri.query(), problems).await {
            Ok(actor) => actor,
            Err(answer) => return *answer,
        };
        let query = match lists::query(&self.engine, row, &actor, uri) {
            Ok(query) => query,
            Err(rejection) => return problems.rejected(&rejection),
        };
        if let Err(answer) = come_to(&self.engine, &actor, headers, problems).await {
            return *answer;
        }
        let place = lists::place(&query);
        if let Err(answer) = come_to_place(&self.engine, &actor, place, problems).await {
            return *answer;
        }
        let outgoing = self.outgoing.to(&actor.subject);
        lists::page(&self.engine, row, &actor, outgoing, &query, headers).await
    }

    /// Returns the answer to a read of the current state or an earlier one.
    pub(in crate::http) async fn read_row(
        &self,
        caller: &Caller,
        row: &'static ReadRow,
        parameters: &Parameters<'_>,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Answer {
        let problems = Problems::of_read(row);
        let actor = match self.reader(caller, headers, query, problems).await {
            Ok(actor) => actor,
            Err(answer) => return *answer,
        };
        let asked = row.history.map(|history| {
            let asked = history::asked_of_read(query)?;
            Ok(asked.map(|asked| (history, asked)))
        });
        let asked = match asked.transpose() {
            Ok(asked) => asked.flatten(),
            Err(rejection) => return problems.rejected(&rejection),
        };
        if let Err(answer) = come_to(&self.engine, &actor, headers, problems).await {
            return *answer;
        }
        let outgoing = self.outgoing.to(&actor.subject);
        if let Some((history, asked)) = asked {
            let found = self
                .engine
                .past(row, history, &actor, parameters, asked)
                .await;
            return history::answer(problems, found, None, headers, outgoing);
        }
        match self.engine.read(row.read, &actor, parameters).await {
            Ok((found, position)) => {
                problems.sent(found_answer(found, headers, outgoing), position)
            }
            Err(reply) => problems.reply(reply, Success::Ok),
        }
    }

    /// Returns a page of the history of the resource that `row` reads.
    pub(in crate::http) async fn history(
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
        let asked = match HistoryQuery::read(uri, CursorOwner::of(&self.engine, &actor)) {
            Ok(asked) => asked,
            Err(rejection) => return problems.rejected(&rejection),
        };
        if let Err(answer) = come_to(&self.engine, &actor, headers, problems).await {
            return *answer;
        }
        if let Err(answer) = come_to_place(&self.engine, &actor, asked.place(), problems).await {
            return *answer;
        }
        let Some(history) = row.history else {
            return problems.rejected(&Rejection::not_found());
        };
        let found = self
            .engine
            .past(row, history, &actor, parameters, asked.query)
            .await;
        let outgoing = self.outgoing.to(&actor.subject);
        history::answer(problems, found, Some(&asked), headers, outgoing)
    }
}
