//! What is measured: workloads of ours, and the forms in which peers do as much.

use crate::commands::row;
use crate::workload;

/// What is asked of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Workload {
    /// One operation, each command the first on resources of its own.
    Operation(&'static str),
    /// The mixed day of a platform.
    Mixed,
    /// All commands on one of so many resources.
    Hot(usize),
    /// Commands on resources drawn uniformly from so many.
    Spread(usize),
    /// Commands that were carried out before: each is answered as it was then.
    Replays,
    /// Commands that rest on a revision that is long past: each is refused.
    Refusals,
    /// EP9 as a dry run: decided and answered, and not committed.
    DryRuns,
    /// Statements read, drawn uniformly.
    Reads,
    /// The least that a service with these promises has to do.
    Limit(Like),
    /// A service in front of PostgreSQL, doing as much.
    Postgres(Form),
}

/// Whose bytes the limit takes in, appends and answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Like {
    /// EP9, a statement opened.
    Deposit,
    /// EP13, a charge finalized anew: what `hot` and `spread` ask for.
    Charge,
}

impl Workload {
    /// Its name in tables.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Operation(name) => format!("EP{} {name}", row(name).tag),
            Self::Mixed => "mixed".to_owned(),
            Self::Hot(_) => "hot, EP13 on 1 resource".to_owned(),
            Self::Spread(resources) => format!("spread, EP13 over {resources}"),
            Self::Replays => "replays of EP9".to_owned(),
            Self::Refusals => "refusals of EP19 (409)".to_owned(),
            Self::DryRuns => "dry runs of EP9".to_owned(),
            Self::Reads => "reads of statements".to_owned(),
            Self::Limit(Like::Deposit) => "the limit, as EP9".to_owned(),
            Self::Limit(Like::Charge) => "the limit, as EP13".to_owned(),
            Self::Postgres(form) => format!("postgres, {}", form.name()),
        }
    }

    /// Whether its server is kept from run to run: what lies on it takes long to make.
    pub(crate) fn keeps_server(self) -> bool {
        matches!(self, Self::Hot(_) | Self::Spread(_))
    }

    /// How many requests can be made at one go.
    pub(crate) fn most(self) -> usize {
        match self {
            Self::Operation(name) => workload::most(name),
            _ => usize::MAX,
        }
    }

    /// Over how many connections it is driven when `connections` are asked for.
    pub(crate) fn connections(self, connections: usize) -> usize {
        match self {
            Self::Operation(name) if workload::one_by_one(name) => 1,
            _ => connections,
        }
    }
}

/// On what the commands are, as the workload of ours that a peer is compared with has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Each on a new one, as EP9.
    Fresh,
    /// All on one of so many.
    Hot(usize),
    /// Drawn uniformly from so many.
    Spread(usize),
}

impl Form {
    /// The form of a workload of ours, where the peers have it too.
    pub(crate) fn of(workload: Workload) -> Option<Self> {
        match workload {
            Workload::Operation("request_deposit") => Some(Self::Fresh),
            Workload::Hot(resources) => Some(Self::Hot(resources)),
            Workload::Spread(resources) => Some(Self::Spread(resources)),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Fresh => "as EP9".to_owned(),
            Self::Hot(_) => "hot, 1 resource".to_owned(),
            Self::Spread(resources) => format!("spread over {resources}"),
        }
    }

    /// Resources that are there before.
    pub(crate) fn resources(self) -> usize {
        match self {
            Self::Fresh => 1,
            Self::Hot(resources) | Self::Spread(resources) => resources,
        }
    }
}
