//! `carebook journal status`: the stream, its servers, its end, and the writer.

use clap::Args;
use serde_json::json;

use super::super::exit::Failure;
use super::super::output::Output;
use super::args::Common;
use super::opening::not_imported;
use super::reading::{End, end_of};
use crate::base::hex::hex;
use crate::stream::connection::{Connection, StreamInfo};
use crate::stream::error::StreamError;
use crate::stream::extent::StreamState;
use crate::stream::listing::SnapshotList;
use crate::stream::settings::{is_importing, weaker};

/// Arguments of `carebook journal status`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook journal status --journal nats://a:4222,b:4222,c:4222 \\
      --journal-name main
  carebook journal status --journal nats://a:4222 --journal-name main --json \\
      | jq .lastPosition

Exit codes:
  0  the settings are as required, and a majority of the servers is available
  1  the servers are not reached, there is no stream, an import into it has not
     ended, or settings are weaker than required: they are named
  2  the arguments are wrong
  3  the last message is not one of a journal")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    common: Common,
}

impl StatusArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let Common { place, trust, json } = self.common;
        let connection = place.connect(&trust.config()?)?;
        let found = StreamState::read(&connection).map_err(|error| Failure::of_journal(&error))?;
        let StreamState { info, list, extent } = found;
        let end = end_of(&connection, &extent)?;
        let tail = &end.tail;
        let names = connection.names();
        let payload_max = connection.payload_max();
        let mut faults = weaker(&info.config, names, place.journal_replicas, payload_max);
        let beside = connection.weaker_beside(place.journal_replicas);
        faults.extend(beside.map_err(|error| Failure::of_journal(&error))?);
        let is_importing = is_importing(&info.config);
        let log = tail.log_id.map(|log| hex(&log));
        let mut out = Output::new();
        if json {
            let followers = info.followers.iter();
            let followers: Vec<_> = followers
                .map(|(name, is_current)| json!({"name": name, "current": is_current}))
                .collect();
            let object = json!({
                "stream": names.stream,
                "logId": log,
                "epoch": tail.epoch,
                "writer": end.writer,
                "firstPosition": extent.base.next,
                "lastPosition": tail.next - 1,
                "firstSequence": info.first,
                "lastSequence": info.last,
                "messages": info.messages,
                "bytes": info.bytes,
                "bytesMax": info.bytes_max,
                "leader": info.leader,
                "followers": followers,
                "snapshots": list.snapshots.iter().map(|one| json!({
                    "covers": one.carried.covers,
                    "bytes": one.carried.bytes,
                })).collect::<Vec<_>>(),
                "importing": is_importing,
                "weakerSettings": faults,
            });
            out.line(format_args!("{object:#}"))?;
        } else {
            let rows = rows(&connection, &info, &list, extent.base.next, end, &faults);
            out.pairs(rows)?;
        }
        out.flush()?;
        if !faults.is_empty() {
            let stream = names.stream.clone();
            return Err(Failure::of_journal(&StreamError::Weak { stream, faults }));
        }
        match is_importing {
            true => Err(not_imported(&connection)),
            false => Ok(()),
        }
    }
}

/// The figures as text.
fn rows(
    connection: &Connection,
    info: &StreamInfo,
    list: &SnapshotList,
    first: u64,
    End { tail, writer }: End,
    faults: &[String],
) -> Vec<(String, String)> {
    let log = tail.log_id.map(|log| hex(&log));
    let mut rows = vec![
        ("stream".to_owned(), connection.names().stream.clone()),
        (
            "log".to_owned(),
            log.unwrap_or_else(|| "none yet".to_owned()),
        ),
        ("epoch".to_owned(), tail.epoch.to_string()),
        (
            "begun by".to_owned(),
            writer.unwrap_or_else(|| "unknown".to_owned()),
        ),
        ("first position".to_owned(), first.to_string()),
        ("last position".to_owned(), (tail.next - 1).to_string()),
        ("messages".to_owned(), info.messages.to_string()),
        (
            "bytes".to_owned(),
            format!("{} of {}", info.bytes, info.bytes_max),
        ),
        ("led by".to_owned(), info.leader.clone()),
    ];
    for (name, is_current) in &info.followers {
        let state = if *is_current { "current" } else { "behind" };
        rows.push((format!("copy on {name}"), state.to_owned()));
    }
    rows.extend(list.snapshots.iter().map(|one| {
        let snapshot = &one.carried;
        let value = format!(
            "up to position {}, {} bytes",
            snapshot.covers, snapshot.bytes
        );
        ("snapshot".to_owned(), value)
    }));
    if is_importing(&info.config) {
        rows.push(("import".to_owned(), "has not ended".to_owned()));
    }
    rows.extend(
        faults
            .iter()
            .map(|fault| ("weaker".to_owned(), fault.clone())),
    );
    rows
}
