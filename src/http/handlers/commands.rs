//! Carries out parsed commands by the engine, and answers them.

use std::pin::pin;
use std::sync::Arc;

use crate::base::actor::Actor;
use crate::catalogue::{KeySource, Purpose, Row};
use crate::engine::limits::admission::Permit;
use crate::engine::{CommandRequest, CommandResult, Mode};
use crate::http::request::DryRun;
use crate::http::request::body::shed;
use crate::http::request::command::ReadCommand;
use crate::http::response::{Answer, Problems};
use crate::http::service::Service;
use crate::http::webhooks::managing::{Managed, manage};

impl Service {
    /// Returns the answer to a command of the operation, for which `permit` was acquired; `parameters` are those of
    /// its path.
    pub(in crate::http) async fn carried_out(
        &self,
        row: &'static Row,
        actor: Arc<Actor>,
        parameters: &[(&str, &str)],
        read: ReadCommand,
        permit: Permit,
        dry_run: DryRun,
    ) -> Answer {
        let problems = Problems::of(row);
        let asker = Arc::clone(&actor);
        let ReadCommand {
            command,
            header_key,
            refusal,
        } = read;
        let call = CommandRequest {
            row: Some(row),
            actor,
            command,
            header_key,
        };
        // What was committed while a clock was ahead is replayed, whatever the present clock says of it.
        if let Some(refusal) = refusal
            && !self.engine.has_used_key_of(&call)
        {
            return problems.rejected(&refusal);
        }
        let outgoing = self.outgoing.to(&asker.subject);
        // All who need no token would be one subject.
        if row.bearer && !outgoing.may_be_answered() {
            drop(permit);
            return Box::pin(shed(problems)).await;
        }
        if row.purpose == Purpose::Webhooks {
            let Some(webhooks) = &self.webhooks else {
                return problems.unavailable();
            };
            let managed = Managed {
                engine: &self.engine,
                webhooks,
                row,
                parameters,
                outgoing,
            };
            return Box::pin(manage(managed, call, permit)).await;
        }
        let mode = match dry_run {
            DryRun::Yes => Mode::DryRun,
            DryRun::No | DryRun::Invalid => Mode::Commit,
        };
        // Pinned here: the future is large, and would otherwise be moved to where it is awaited.
        let carrying_out = pin!(self.engine.execute(call, permit, mode));
        let mut result = carrying_out.await;
        if let CommandResult::Done { body, .. } = &mut result {
            // A client that repeats a command has to hear that it was carried out, so a replay is owed, too.
            let is_owed = mode == Mode::Commit && row.key != KeySource::None;
            let Some(charged) = outgoing.answer(std::mem::take(body), is_owed) else {
                return problems.not_sent();
            };
            *body = charged;
        }
        problems.reply(result, row.success)
    }
}
