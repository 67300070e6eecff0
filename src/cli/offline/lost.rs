//! The names of what a way out of damage loses.

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
    /// The parts of its identifier; none if nothing that can be read has it.
    id: Option<Vec<String>>,
    /// Its key's digest.
    digest: Digest,
}

impl Name {
    /// Its identifier as it is shown; the digest if it has none.
    pub(super) fn id(&self, mask: Mask) -> String {
        let Some(id) = &self.id else {
            return hex(&self.digest.0);
        };
        let parts: Vec<_> = id.iter().map(|part| mask.id(self.kind, part)).collect();
        parts.join("/")
    }
}

/// Finds the identifiers of the resources of lost records. Nothing is replayed: what came before a
/// record after the damage may be lost.
pub(super) struct LostNames<'a> {
    kept: &'a Tables,
    ids: Ids,
}

impl<'a> LostNames<'a> {
    /// Beside these tables, which are kept.
    pub(super) fn beside(kept: &'a Tables) -> Self {
        Self {
            kept,
            ids: Ids::default(),
        }
    }

    /// Each resource that a record changes, with the identifier that the kept state has, or the
    /// record.
    pub(super) fn of(&mut self, record: &Record<'_>) -> Vec<Name> {
        let told = changes_of(&mut self.ids, record).unwrap_or_default();
        let changes = record.changes.iter().enumerate();
        changes
            .map(|(index, change)| {
                let told = told.get(index).and_then(|changed| changed.id());
                let id = self.kept_id(change.kind, change.key);
                Name {
                    kind: kind_name(change.kind),
                    id: id.or_else(|| told.map(<[String]>::to_vec)),
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
