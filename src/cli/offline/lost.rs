//! The names of the resources that lose commits by a way out of damage.

use super::inspect::ids::Ids;
use super::inspect::mask::Mask;
use super::inspect::records::changes_of;
use crate::base::digest::Digest;
use crate::base::hex::hex;
use crate::catalogue;
use crate::cli::output::kind_name;
use crate::domain::resource::Source as _;
use crate::journal::record::Record;
use crate::journal::tables::Tables;

/// A resource that loses commits.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) kind: &'static str,
    /// The parts of the resource's identifier; `None` if no readable data contains it.
    id: Option<Vec<String>>,
    /// The digest of the resource's key.
    digest: Digest,
}

impl Name {
    /// Returns the identifier as it is shown; without one, the digest.
    pub(super) fn id(&self, mask: Mask) -> String {
        let Some(id) = &self.id else {
            return hex(&self.digest.0);
        };
        let parts: Vec<_> = id.iter().map(|part| mask.id(self.kind, part)).collect();
        parts.join("/")
    }
}

/// Finds the identifiers of the resources in lost records, without a replay: the records before one that follows the
/// damage may be lost.
pub(super) struct LostNames<'a> {
    kept: &'a Tables,
    ids: Ids,
}

impl<'a> LostNames<'a> {
    /// Creates a finder that also reads the kept tables.
    pub(super) fn new(kept: &'a Tables) -> Self {
        Self {
            kept,
            ids: Ids::default(),
        }
    }

    /// Returns each resource that a record changes, with the identifier in the kept state or in the record.
    pub(super) fn of(&mut self, record: &Record<'_>) -> Vec<Name> {
        let in_record = changes_of(&mut self.ids, record).unwrap_or_default();
        let changes = record.changes.iter().enumerate();
        changes
            .map(|(index, change)| {
                let in_record = in_record.get(index).and_then(|changed| changed.id());
                let id = self.kept_id(change.kind, change.key);
                Name {
                    kind: kind_name(change.kind),
                    id: id.or_else(|| in_record.map(<[String]>::to_vec)),
                    digest: change.key,
                }
            })
            .collect()
    }

    fn kept_id(&self, kind: u16, key: Digest) -> Option<Vec<String>> {
        let mut state = None;
        self.kept
            .read(key, &mut |bytes| state = Some(bytes.to_vec()));
        catalogue::resource(kind)?.id(&state?).ok()
    }
}
