//! How many bytes the service moves for a command: its log and its answers are looked at.

use std::path::Path;
use std::sync::OnceLock;

use carebook::cli::open::existing;
use wal::{BoxError, Record, Visitor};

use crate::check::Request;
use crate::commands::{FIRST, facts};
use crate::server::{Server, Start};
use crate::sizes::{OfBoth, Sizes};
use crate::template::{Template, headquarters};
use crate::workload::carry_out;

/// Commands of each kind that are looked at.
const COMMANDS: usize = 200;

/// The sizes that the service has; it is started for that once.
///
/// # Errors
/// When it does not start, or answers something wrong.
pub(crate) fn moved(start: &Start) -> Result<OfBoth, String> {
    static MEASURED: OnceLock<OfBoth> = OnceLock::new();
    if let Some(known) = MEASURED.get() {
        return Ok(*known);
    }
    let server = start.service()?;
    let template = Template::request_deposit(&headquarters(&server));
    let deposit = measure(server, |number| template.fill(number, 0))?;
    let server = start.service()?;
    server.load(&facts("finalize_charge", &[FIRST]))?;
    let template = Template::finalize_charge();
    let charge = measure(server, |number| template.fill(number, 0))?;
    let measured = OfBoth { deposit, charge };
    eprintln!("the limit moves what a command does: {measured:?}");
    Ok(*MEASURED.get_or_init(|| measured))
}

fn measure(server: Server, request: impl Fn(usize) -> Request) -> Result<Sizes, String> {
    let answers = carry_out(&server, 1, (0..COMMANDS).map(request).collect())?;
    let directory = server.end()?.ok_or("the server had no directory")?;
    let records = records(&directory.path().join("data"))?;
    let last = records.len().checked_sub(COMMANDS);
    let records = &records[last.ok_or("the log lacks records")?..];
    let answer = answers.iter().map(Vec::len).sum::<usize>() / COMMANDS;
    let record = records.iter().sum::<usize>() / COMMANDS;
    Ok(Sizes { record, answer })
}

/// The bytes of each record of a log.
fn records(data: &Path) -> Result<Vec<usize>, String> {
    struct Lengths(Vec<usize>);

    impl Visitor for Lengths {
        fn record(&mut self, record: Record<'_>) -> Result<(), BoxError> {
            self.0.push(record.payload.len());
            Ok(())
        }
    }

    let storage = existing(data).map_err(|error| error.to_string())?;
    let mut lengths = Lengths(Vec::new());
    wal::verify(storage, &mut lengths).map_err(|error| error.to_string())?;
    Ok(lengths.0)
}
