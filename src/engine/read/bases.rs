//! Bases: the states of resources that a record stores as they were before its changes, see
//! [`bases`](crate::journal::bases).

use crate::domain::change::Change;
use crate::domain::erased::Decided;
use crate::domain::resource::{ReadView, Source as _};
use crate::engine::core::ActorMessage;
use crate::journal::bases::{Recording, is_due};

impl ActorMessage {
    /// Returns the bases that are to be recorded, each at the index of its change.
    pub(in crate::engine) fn bases(
        &self,
        decided: &Decided,
        view: &ReadView<'_>,
    ) -> Vec<Option<Vec<u8>>> {
        let newest_part = self.shared.journal.newest_part();
        let is_due = |change: &Change| {
            let recording = Recording {
                key: change.key,
                before: view.position(change.key),
                event: change.event.len(),
                state: change.state.len(),
            };
            is_due(recording, newest_part).then_some(recording.before)
        };
        if !decided
            .changes
            .iter()
            .any(|change| is_due(change).is_some())
        {
            return Vec::new();
        }
        let base = |change: &Change| {
            let before = is_due(change)?;
            let mut state = None;
            let copy = &mut |bytes: &[u8]| state = Some(bytes.to_vec());
            let position = self.shared.tables.read(change.key, copy);
            // If the state has changed since the decision, the commit will not be valid.
            state.filter(|_| position == Some(before))
        };
        decided.changes.iter().map(base).collect()
    }
}
