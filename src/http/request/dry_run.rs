//! Whether a request asks for a dry run.

use crate::base::json::{FaultCode, Reader};
use crate::domain::rejection::Rejection;

/// Whether a request asks for a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// The query has no `dryRun`.
    No,
    /// The query has `dryRun=true`, once.
    Yes,
    /// The query has any other `dryRun`, or any at all on a route without dry runs: a fault.
    Invalid,
}

impl DryRun {
    /// Parses `dryRun` in this query; other parameters are ignored.
    #[must_use]
    pub fn of(query: Option<&str>) -> Self {
        let Some(query) = query else {
            return Self::No;
        };
        let pairs = form_urlencoded::parse(query.as_bytes());
        let mut values = pairs.filter(|(name, _)| name == "dryRun");
        match (values.next(), values.next()) {
            (None, _) => Self::No,
            (Some((_, value)), None) if value == "true" => Self::Yes,
            _ => Self::Invalid,
        }
    }

    /// Returns the same for a route that offers dry runs or not: without them, one is invalid.
    #[must_use]
    pub(in crate::http) fn where_offered(self, is_offered: bool) -> Self {
        match self {
            Self::Yes if !is_offered => Self::Invalid,
            said => said,
        }
    }

    /// Notes a fault if the parameter is invalid.
    pub(in crate::http) fn judged(self, at: &mut Reader) {
        if self == Self::Invalid {
            at.inside("query", |at| {
                at.fault_at::<()>("dryRun", FaultCode::NotAllowed)
            });
        }
    }
}

/// Returns the rejection of a dry run on a route that carries nothing out.
pub(in crate::http) fn no_dry_run() -> Rejection {
    Rejection::invalid_at("query.dryRun", FaultCode::NotAllowed)
}
