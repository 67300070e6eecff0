//! The bytes that the limit moves for a command: as many as the service does, whose log and answers
//! are looked at for that.

use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use carebook::cli::open::existing;
use wal::{BoxError, Record, Visitor};

use crate::check::Request;
use crate::commands::{FIRST, facts};
use crate::server::{Server, Start};
use crate::template::{Template, headquarters};
use crate::workload::carry_out;

/// Commands of each kind that are looked at; of what is in the log before them, more than a record
/// tells nothing.
const COMMANDS: usize = 200;

/// Bytes of a record and of its answer, as means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) record: usize,
    pub(crate) answer: usize,
}

/// Of a statement opened (EP9), and of a charge finalized (EP13).
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfBoth {
    pub(crate) deposit: Sizes,
    pub(crate) charge: Sizes,
}

impl OfBoth {
    /// As the service has them; it is started for that once.
    ///
    /// # Errors
    /// When it does not start, or answers something wrong.
    pub(crate) fn measured(start: &Start) -> Result<Self, String> {
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
        let measured = Self { deposit, charge };
        eprintln!("the limit moves what a command does: {measured:?}");
        Ok(*MEASURED.get_or_init(|| measured))
    }

    /// As the limit's process is told them.
    pub(crate) fn argument(self) -> String {
        let Self { deposit, charge } = self;
        let all = [deposit.record, deposit.answer, charge.record, charge.answer];
        all.map(|size| size.to_string()).join(",")
    }
}

impl FromStr for OfBoth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
        match sizes.as_deref() {
            Ok([deposit, created, charge, finalized]) => Ok(Self {
                deposit: Sizes {
                    record: *deposit,
                    answer: *created,
                },
                charge: Sizes {
                    record: *charge,
                    answer: *finalized,
                },
            }),
            _ => Err(format!("four sizes are needed, not {text}")),
        }
    }
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
