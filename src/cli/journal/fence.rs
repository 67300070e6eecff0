//! `carebook journal fence`: stops the present writer.

use clap::Args;
use serde_json::json;

use super::super::exit::Failure;
use super::super::output::Output;
use super::args::Common;
use super::opening::checked;
use super::reading::end_of;
use crate::stream::extent::StreamState;
use crate::stream::maintenance::hold;

/// Arguments of `carebook journal fence`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook journal fence --journal nats://a:4222,b:4222,c:4222 \\
      --journal-name main

Stops a writer that cannot be reached: it ends with exit code 5, at the latest at its next \
append, and sends no more responses that only a writer may send. The next server that is started \
with this journal becomes the writer. Acknowledged commits remain.

Exit codes:
  0  no earlier writer can write any more
  1  the servers are not reached, or the stream has no messages
  2  the arguments are wrong
  3  the last message is not one of a journal")]
pub(super) struct FenceArgs {
    #[command(flatten)]
    common: Common,
}

/// How often the end is read again after a concurrent append.
const ATTEMPTS: usize = 100;

impl FenceArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Common { place, trust, json } = self.common;
        let connection = place.connect(&trust.config()?)?;
        let link = hold(
            connection.clone(),
            "carebook journal fence",
            uuid::Uuid::new_v4().into_bytes(),
        );
        for _ in 0..ATTEMPTS {
            checked(&connection, place.journal_replicas)?;
            let found =
                StreamState::read(&connection).map_err(|error| Failure::of_journal(&error))?;
            let end = end_of(&connection, &found.extent)?;
            let Some(log_id) = end.tail.log_id else {
                return Err(Failure::other(format!(
                    "the stream {} has no messages: it had no writer yet",
                    connection.names().stream
                )));
            };
            let fenced = connection.block(link.fence(&end.tail, log_id));
            if !fenced.map_err(|error| Failure::of_journal(&error))? {
                continue;
            }
            let epoch = end.tail.epoch + 1;
            let last = end.tail.next - 1;
            let before = end.writer.unwrap_or_default();
            let mut out = Output::new();
            if json {
                let told = json!({
                    "stream": connection.names().stream,
                    "epoch": epoch,
                    "lastPosition": last,
                    "fenced": before,
                });
                out.line(format_args!("{told:#}"))?;
            } else {
                out.pairs([
                    ("fenced".to_owned(), before),
                    ("epoch".to_owned(), epoch.to_string()),
                    ("last position".to_owned(), last.to_string()),
                ])?;
            }
            return out.flush();
        }
        Err(Failure::other(
            "others append faster than the end can be read: try again",
        ))
    }
}
