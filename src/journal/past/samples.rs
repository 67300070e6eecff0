//! Adjustments of bookings with their records in memory, for tests of past states.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::{Lost, Past, Records};
use crate::base::codec::{self, Blob};
use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::text::BookingId;
use crate::base::time::Timestamp;
use crate::catalogue;
use crate::domain::index::IndexKey;
use crate::domain::reference::FactHolder as _;
use crate::domain::reference::kinds::payment_change_adjustment::{
    PaymentChangeAdjustmentFact, adjustments_of,
};
use crate::domain::reservation::adjustment::PaymentChangeAdjustment;
use crate::domain::reservation::adjustment::samples::adjustment;
use crate::domain::resource::Resource as _;
use crate::domain::scenario::with;
use crate::domain::stored::Versioned;
use crate::journal::record::{NewChange, NewRecord, RecordOutcome, SCHEMA};
use crate::journal::tables::Tables;

/// Returns the key of the list of a booking's adjustments.
pub(crate) fn list(booking: &str) -> IndexKey {
    adjustments_of(&BookingId::from_trusted(booking))
}

/// Adjustments of bookings, and the record of each of their commits.
#[derive(Default)]
pub(crate) struct Adjustments {
    pub(crate) tables: Tables,
    records: Vec<Vec<u8>>,
}

impl Adjustments {
    pub(crate) fn key(id: &str) -> Digest {
        PaymentChangeAdjustment::KIND.key(&[id])
    }

    /// Commits that an adjustment belongs to this booking, requested on this day of a month.
    pub(crate) fn put(&mut self, id: &str, booking: &str, day: u8) {
        let facts = with(
            &adjustment(),
            &[
                ("reservationBookingId", json!(booking)),
                ("preRegistration", Value::Null),
                ("requestedAt", json!(format!("2026-06-{day:02}T00:00:00Z"))),
            ],
        );
        let fact: PaymentChangeAdjustmentFact = serde_json::from_value(facts).unwrap();
        let event = PaymentChangeAdjustment::put(None, id, Revision::FIRST, &fact).unwrap();
        let event = codec::encode(&event);
        let kind = catalogue::resource(PaymentChangeAdjustment::KIND.tag).unwrap();
        let stored = Versioned {
            version: kind.version(),
            bytes: &event,
        };
        let key = Self::key(id);
        let before = self.tables.copied(key);
        let state = before.as_ref().map(|(_, state, _)| state.as_slice());
        let change = kind.change(state, stored, Timestamp::default()).unwrap();
        let recorded = NewChange {
            kind: change.kind,
            version: change.version,
            key,
            before: before.as_ref().map_or(0, |(position, ..)| *position),
            revision: change.revision,
            advances: change.advances,
            path: &change.path,
            event: Blob(event.as_slice()),
            base: None,
        };
        let record = NewRecord {
            schema: SCHEMA,
            at: Timestamp::default(),
            operation: 0,
            subject: "workflow",
            actor: None,
            key: None,
            changes: vec![recorded],
            outbox: &[],
            outcome: RecordOutcome::None,
        };
        self.records.push(record.encode());
        let position = u64::try_from(self.records.len()).unwrap();
        self.tables.publish(position, change);
    }

    pub(crate) fn past(&self) -> Past<'_> {
        Past::new(self, &self.tables, catalogue::resource, [0; 16])
    }
}

impl Records for Adjustments {
    fn first(&self) -> u64 {
        1
    }

    fn read(&self, position: u64) -> Result<Vec<u8>, Lost> {
        let place = usize::try_from(position).unwrap() - 1;
        Ok(self.records[place].clone())
    }
}
