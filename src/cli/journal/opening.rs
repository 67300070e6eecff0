//! Opening a data directory as the copy of a journal: compared, filled up, and written to.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use tokio_rustls::rustls::ClientConfig;
use wal::{Options, Report};

use super::super::copy_mark::{DirectoryMark, WHEN_A_COPY};
use super::super::ending::end_the_process_of;
use super::super::exit::Failure;
use super::super::open::{Opening, Replaying, unusable};
use super::args::PlaceArgs;
use crate::engine::clock::SystemClock;
use crate::engine::role::Role;
use crate::engine::role::writer_proof::WriterProof;
use crate::engine::{Engine, Limits};
use crate::stream::cache::{self, Opened};
use crate::stream::connection::{Connection, StreamInfo};
use crate::stream::error::StreamError;
use crate::stream::extent::StreamState;
use crate::stream::handle::JournalHandle;
use crate::stream::holder::Terms;
use crate::stream::log::StreamLog;
use crate::stream::maintenance::hold;
use crate::stream::message::{FORM_BYTES, IN_FLIGHT_MAX, MESSAGE_BYTES_MAX, RECORD_FORM_BYTES};
use crate::stream::reader::Reader;
use crate::stream::settings::{is_importing, small_payload, weaker};

/// Number of bytes after which the directory is synced: what it loses is filled up from the stream.
const SYNC_BYTES: u64 = 8 << 20;
/// Maximum bytes of records in a message.
pub(super) const BATCH_BYTES_MAX: usize = MESSAGE_BYTES_MAX - FORM_BYTES;

/// How the writer confirms reads and rejections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Reads {
    /// An append that began after the request came: no clock is part of it.
    #[default]
    Append,
    /// The writer's lease, while it holds: nothing is appended, and clocks have to run alike.
    Lease,
}

/// The journal of a service.
#[derive(Args)]
pub struct JournalArgs {
    #[command(flatten)]
    pub(in super::super) place: PlaceArgs,
    /// How this process, as the writer, confirms reads and rejections.
    #[arg(
        long,
        value_name = "WHAT",
        requires = "journal",
        value_enum,
        default_value = "append"
    )]
    journal_reads: Reads,
    /// How many batches may be in flight to the journal at once, 1 to 4.
    #[arg(long, value_name = "N", requires = "journal", default_value_t = IN_FLIGHT_MAX,
        value_parser = clap::value_parser!(u8).range(1..=i64::from(IN_FLIGHT_MAX)))]
    journal_in_flight: u8,
    /// The name of this node, shown to operators; by default that of the machine.
    #[arg(long, value_name = "NAME", requires = "journal")]
    journal_node: Option<String>,
    /// The address of this node for clients, which standbys report while it is the writer; by
    /// default the one that it listens on.
    #[arg(long, value_name = "URL", requires = "journal", value_parser = address)]
    journal_address: Option<String>,
    /// Follows the journal: answers reads, each with the position that it reflects, rejects
    /// commands, and takes over when no other node writes any more.
    #[arg(long, requires = "journal", conflicts_with = "demo")]
    pub(super) standby: bool,
}

/// A directory that was filled up from the journal.
pub(super) struct Begun {
    pub(super) opened: Opened,
    /// The recovery of the directory, which is not complete yet.
    pub(super) filling: Replaying,
    pub(super) link: Arc<JournalHandle>,
    opening: Opening,
}

impl JournalArgs {
    /// Returns the data about this node for the lease: it listens at `base`, and `webhook_key` is the fingerprint of
    /// its key of webhooks.
    pub(in super::super) fn terms(&self, base: &str, webhook_key: String) -> Terms {
        Terms {
            address: self
                .journal_address
                .clone()
                .unwrap_or_else(|| base.to_owned()),
            webhook_key,
            relies: self.journal_reads == Reads::Lease,
            replicas: usize::try_from(self.place.journal_replicas).unwrap_or(1),
        }
    }

    /// Opens the directory as the copy of the journal, and makes this process the writer.
    ///
    /// # Errors
    /// When the journal cannot be used, does not belong to the directory, or is another's.
    pub(super) fn write(
        &self,
        data: &Path,
        opening: Opening,
        trusted: &ClientConfig,
    ) -> Result<(Engine, Report, Arc<JournalHandle>), Failure> {
        let mut begun = self.begin(data, opening, trusted)?;
        let link = Arc::clone(&begun.link);
        cache::begin_to_write(&mut begun.opened, &link, &mut begun.filling)
            .map_err(|error| of_copy(&error, link.connection()))?;
        let epoch = link.figures().counted().epoch;
        tracing::info!(epoch, node = link.node(), "this process writes the journal");
        let (engine, report, _) = begun.start(Role::Writer)?;
        engine.answer_by(Arc::clone(&link) as Arc<dyn WriterProof>);
        Ok((engine, report, link))
    }

    /// Opens the directory as the copy of the journal, and fills it up.
    pub(super) fn begin(
        &self,
        data: &Path,
        opening: Opening,
        trusted: &ClientConfig,
    ) -> Result<Begun, Failure> {
        let connection = self.place.connect(trusted)?;
        checked(&connection, self.place.journal_replicas)?;
        tracing::info!(
            stream = connection.names().stream,
            record_bytes_max = BATCH_BYTES_MAX - RECORD_FORM_BYTES,
            "the journal is a stream: no record may be larger than one of its messages"
        );
        let mut filling = Replaying::new("recovering");
        let storage = wal::open_dir(data).map_err(|error| unusable(data, &error))?;
        let options = Options {
            reserve_bytes: opening.reserve_bytes,
            create: opening.create,
            batch_bytes_max: BATCH_BYTES_MAX,
            sync_bytes: Some(SYNC_BYTES),
            ..Options::default()
        };
        let mark = DirectoryMark {
            data,
            stream: &connection.names().stream,
        };
        let opened = cache::open(storage, options, &connection, &mut filling, &mark)
            .map_err(|error| of_copy(&error, &connection))?;
        let node = self.journal_node.clone().unwrap_or_else(machine);
        let link = hold(connection, &node, uuid::Uuid::new_v4().into_bytes());
        link.allow_in_flight(self.journal_in_flight.into());
        let limits = Limits {
            record_bytes_max: BATCH_BYTES_MAX - RECORD_FORM_BYTES,
            ..opening.limits
        };
        Ok(Begun {
            opened,
            filling,
            link,
            opening: Opening { limits, ..opening },
        })
    }
}

impl Begun {
    /// Starts the engine on the directory, in this role. Returns the engine, the report of the recovery, and the reader
    /// that continues.
    pub(super) fn start(self, role: Role) -> Result<(Engine, Report, Reader), Failure> {
        let Self {
            opened,
            filling,
            link,
            opening,
        } = self;
        let directory = opened.log.into_parts();
        let log = StreamLog {
            directory: directory.map_err(|error| Failure::of_log(&error))?,
            link: Arc::clone(&link),
        };
        let engine = Engine::start_as(
            role,
            log,
            filling.finish(),
            opening.lanes,
            opening.limits,
            Arc::new(SystemClock::default()),
            end_the_process_of(link),
        );
        let engine = engine.map_err(|error| Failure::of_log(&error))?;
        Ok((engine, opened.report, opened.reader))
    }
}

/// Returns the failure for a damaged directory. It has nothing that the stream lacks, so no backup is needed. A
/// rejected record may also be in the stream, or in a snapshot of the object store: then an empty directory gets the
/// same failure.
fn of_copy(error: &wal::Error, connection: &Connection) -> Failure {
    let sentence = match (error.damage(), Failure::of_log(error)) {
        (Some(damage), _) => {
            format!("the log is damaged: {damage}. Nothing was changed. Check the disk")
        }
        (None, Failure::Damaged(sentence)) => sentence,
        (None, other) => return other,
    };
    let has_snapshots =
        StreamState::read(connection).is_ok_and(|found| !found.list.snapshots.is_empty());
    let snapshots = Some(connection.names().snapshots.as_str()).filter(|_| has_snapshots);
    Failure::DamagedWithAdvice(format!(
        "{sentence}; {WHEN_A_COPY}; {}",
        advice_if_repeated(snapshots)
    ))
}

/// Returns the advice for the case that an empty directory is refused as well; `snapshots` is the object store, if it
/// has any snapshots.
fn advice_if_repeated(snapshots: Option<&str>) -> String {
    match snapshots {
        None => "if this error comes again, the stream is damaged".to_owned(),
        Some(store) => format!(
            "if this error comes again, the stream is damaged, or the newest snapshot in the object store {store}, \
             with which an empty directory begins: without that one, the older one or the stream fills it"
        ),
    }
}

/// Checks that the connected server takes the longest message, before there is a stream.
pub(super) fn takes_messages(connection: &Connection) -> Result<(), Failure> {
    if let Some(fault) = small_payload(connection.payload_max()) {
        let (stream, faults) = (connection.names().stream.clone(), vec![fault]);
        return Err(Failure::of_journal(&StreamError::Weak { stream, faults }));
    }
    Ok(())
}

/// Returns the information about the stream, after a check of its settings.
pub(super) fn checked(connection: &Connection, replicas: u64) -> Result<StreamInfo, Failure> {
    let info = connection.block(connection.info());
    let info = info.map_err(|error| Failure::of_journal(&error))?;
    let payload_max = connection.payload_max();
    let mut faults = weaker(&info.config, connection.names(), replicas, payload_max);
    let beside = connection.weaker_beside(replicas);
    faults.extend(beside.map_err(|error| Failure::of_journal(&error))?);
    if !faults.is_empty() {
        let stream = connection.names().stream.clone();
        return Err(Failure::of_journal(&StreamError::Weak { stream, faults }));
    }
    if is_importing(&info.config) {
        return Err(not_imported(connection));
    }
    Ok(info)
}

/// Returns the failure for a stream into which an import has not ended: only that import may continue.
pub(super) fn not_imported(connection: &Connection) -> Failure {
    Failure::other(format!(
        "an import into the stream {} has not ended: begin it again with `carebook journal create \
         --from DIR`, which continues where it was",
        connection.names().stream
    ))
}

/// An address that standbys may report to clients.
fn address(text: &str) -> Result<String, String> {
    let uri: hyper::Uri = text
        .parse()
        .map_err(|error| format!("it is no URL: {error}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(_)) => Ok(text.to_owned()),
        _ => Err("it has to begin with https:// or http://, and name a host".to_owned()),
    }
}

/// Returns the name of this machine.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unnamed".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_damage_is_certain_only_if_no_stored_snapshot_may_be_the_cause() {
        assert!(advice_if_repeated(None).ends_with("the stream is damaged"));
        let told = advice_if_repeated(Some("CAREBOOK_SNAPSHOTS_main"));
        assert!(told.contains("the stream is damaged, or the newest snapshot"));
        assert!(told.contains("CAREBOOK_SNAPSHOTS_main"));
    }
}
