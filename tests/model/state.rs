//! The model's state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use carebook::catalogue::Success;
use serde_json::{Value, json};

use super::commands::{Command, key_member};
use super::expected::{Answer, Expected};
use super::values::plain;
pub use super::values::{millis, moment, n, s, texts};
use crate::support::good;

/// A current fact.
#[derive(Clone, Debug)]
pub struct FactHeld {
    pub revision: i64,
    /// As values: moments in one form, nulls left out.
    pub facts: Value,
    /// When it was committed last.
    pub at: i64,
    /// Whether all its fields are known: those of a new branch's office are not all determined.
    pub known: bool,
}

/// What a key was used for first.
#[derive(Clone, Debug)]
pub struct KeyHeld {
    pub facts: String,
    pub status: u16,
    pub body: Value,
}

/// A record that an operation made.
#[derive(Clone, Debug)]
pub struct Held {
    pub id: String,
    /// As it reads.
    pub body: Value,
    /// Whose command made it.
    pub subject: String,
    /// The facts of that command.
    pub facts: String,
    /// The position of its last commit.
    pub position: Option<u64>,
}

/// A delegation, none of which is ever revoked.
#[derive(Clone, Debug)]
pub struct Delegation {
    pub id: String,
    pub account: String,
    pub body: Value,
}

/// A branch.
#[derive(Clone, Debug)]
pub struct Branch {
    pub id: String,
    pub code: String,
    pub registration: String,
    pub command_id: String,
    /// In lower case.
    pub email: String,
    pub revision: i64,
    pub accepted_by: Option<String>,
    pub accepted_at: i64,
    pub body: Value,
}

/// A profile: what its facts own is read from them.
#[derive(Clone, Debug)]
pub struct Profile {
    pub id: String,
    pub owner: String,
    pub revision: i64,
    pub address_revision: i64,
    /// Account, name, day of birth, address, creation: the first fact's, then the updates'.
    pub own: Value,
    /// What later facts own.
    pub owned: Value,
    pub receipts: Vec<Value>,
    pub updated_at: i64,
}

/// The care team of a booking.
#[derive(Clone, Debug)]
pub struct Roster {
    pub booking: String,
    pub revision: i64,
    /// The existing assignments.
    pub standing: Vec<String>,
    /// Each decision with the id of the roster decision that it belongs to.
    pub decisions: Vec<(String, Value)>,
    pub last: Value,
}

/// The receipt state of one payout.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// Booking, contract assignment, instruction.
    pub id: (String, String, String),
    pub revision: i64,
    pub acknowledged: bool,
    pub view: Value,
}

/// Everything.
pub struct Model {
    pub now: i64,
    pub facts: BTreeMap<(String, String), FactHeld>,
    recent: BTreeMap<String, VecDeque<String>>,
    pub keys: BTreeMap<(u16, String, String), KeyHeld>,
    ids: BTreeSet<String>,
    pub last_commit: u64,

    pub delegations: Vec<Delegation>,
    pub grants: Vec<Held>,
    pub organization_revision: i64,
    pub branches: Vec<Branch>,
    pub offices: BTreeMap<String, Value>,
    pub office_revisions: BTreeSet<String>,
    pub snapshots: Vec<Held>,
    pub profiles: Vec<Profile>,
    pub requests: Vec<Held>,
    pub statements: Vec<Held>,
    pub rosters: Vec<Roster>,
    pub assignment_ids: BTreeSet<String>,
    /// What consultations are to pay: only the mother may pre-register it.
    pub consultations: BTreeSet<String>,
    pub drafts_confirmed: Vec<(String, Option<String>)>,
    pub lifecycles: Vec<Held>,
    pub captures: BTreeMap<String, Value>,
    pub receipts: Vec<Receipt>,
    pub registrations: Vec<Held>,
    pub audits: Vec<Held>,
    pub gateway_revisions: BTreeMap<String, i64>,
}

impl Model {
    pub fn new() -> Self {
        Self {
            now: 0,
            facts: BTreeMap::new(),
            recent: BTreeMap::new(),
            keys: BTreeMap::new(),
            ids: BTreeSet::new(),
            last_commit: 0,
            delegations: Vec::new(),
            grants: Vec::new(),
            organization_revision: 1,
            branches: Vec::new(),
            offices: BTreeMap::new(),
            office_revisions: BTreeSet::new(),
            snapshots: Vec::new(),
            profiles: Vec::new(),
            requests: Vec::new(),
            statements: Vec::new(),
            rosters: Vec::new(),
            assignment_ids: BTreeSet::new(),
            consultations: BTreeSet::new(),
            drafts_confirmed: Vec::new(),
            lifecycles: Vec::new(),
            captures: BTreeMap::new(),
            receipts: Vec::new(),
            registrations: Vec::new(),
            audits: Vec::new(),
            gateway_revisions: BTreeMap::new(),
        }
    }

    pub fn fact(&self, kind: &str, id: &str) -> Option<&FactHeld> {
        self.facts.get(&(kind.to_owned(), id.to_owned()))
    }

    /// The facts of this kind, by their ids.
    pub fn facts_of_kind(&self, kind: &str) -> impl Iterator<Item = (&str, &FactHeld)> {
        let first = (kind.to_owned(), String::new());
        let kind = kind.to_owned();
        self.facts
            .range(first..)
            .take_while(move |((known, _), _)| *known == kind)
            .map(|((_, id), fact)| (id.as_str(), fact))
    }

    /// The facts of an active or other booking.
    pub fn booking(&self, id: &str) -> Option<&FactHeld> {
        self.fact("reservation-booking", id)
    }

    /// The ids of this kind that came into being last.
    pub fn recent(&self, kind: &str) -> Vec<String> {
        let recent = self.recent.get(kind);
        recent
            .map(|ids| ids.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// Puts a fact that an operation brings into being or changes.
    pub fn set_fact(&mut self, kind: &str, id: &str, revision: i64, facts: Value) {
        let key = (kind.to_owned(), id.to_owned());
        if !self.facts.contains_key(&key) {
            let recent = self.recent.entry(kind.to_owned()).or_default();
            recent.push_back(id.to_owned());
            if recent.len() > 8 {
                recent.pop_front();
            }
        }
        let held = FactHeld {
            revision,
            facts: plain(&facts),
            at: self.now,
            known: true,
        };
        self.facts.insert(key, held);
    }

    /// A new identifier, from the service's answer.
    pub fn new_id(&mut self, answer: &Answer, pointer: &str) -> Value {
        let id = answer.body.pointer(pointer).and_then(Value::as_str);
        let good = id.filter(|id| {
            let parsed = uuid::Uuid::try_parse(id);
            parsed.is_ok_and(|uuid| uuid.get_version_num() == 7 && uuid.to_string() == **id)
                && self.ids.insert((*id).to_owned())
        });
        good.map_or(json!("(a new UUIDv7)"), |id| json!(id))
    }

    /// An identifier that the service makes, in any form, from its answer.
    pub fn made(&mut self, answer: &Answer, pointer: &str) -> Value {
        match answer.body.pointer(pointer) {
            Some(Value::String(id)) if !id.is_empty() && self.ids.insert(id.clone()) => json!(id),
            _ => json!("(a new identifier)"),
        }
    }
}

/// Whether an actor may read something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Yes,
    No,
    /// The description leaves it open.
    Undetermined,
}

impl Access {
    pub fn when(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// What a read finds: the body, and the tag where it is determined.
pub type Found = (Option<(Value, Option<String>)>, Access);

/// Faults of values, with their places.
pub struct Faults(pub Vec<(String, String)>);

impl Faults {
    pub fn add(&mut self, path: impl Into<String>, code: &str) {
        self.0.push((path.into(), code.to_owned()));
    }

    /// An integer that has to be at least `least`.
    pub fn least(&mut self, body: &Value, member: &str, least: i64) {
        if body[member].as_i64().is_some_and(|number| number < least) {
            self.add(member, "out_of_range");
        }
    }
}

/// The amounts of a charge that are 0 where they are absent.
const CHARGE_AMOUNTS: [&str; 7] = [
    "additionalServiceChargeKrw",
    "rentalEquipmentChargeKrw",
    "governmentDiscountAmountKrw",
    "couponDiscountAmountKrw",
    "preReservationPaymentAmountKrw",
    "voucherServiceBalanceAddOnKrw",
    "voucherInhomeUserFeeChangeAmountKrw",
];

/// The fields of a charge that are empty where they are absent.
const CHARGE_COLLECTIONS: [&str; 3] = [
    "amountByComponentCode",
    "enabledFlags",
    "serviceCalendarImpactFactIds",
];

/// Whether the field of a charge says what its absence says.
fn is_default(member: &str, value: &Value) -> bool {
    match value {
        Value::Number(amount) => CHARGE_AMOUNTS.contains(&member) && amount.as_i64() == Some(0),
        Value::Object(members) => CHARGE_COLLECTIONS.contains(&member) && members.is_empty(),
        Value::Array(items) => CHARGE_COLLECTIONS.contains(&member) && items.is_empty(),
        _ => false,
    }
}

/// The facts of a command: its operation, its path parameters, and its body without the key, as
/// values; of a charge, without the fields that say what their absence says.
pub fn facts_of(command: &Command) -> String {
    let mut body = plain(&command.body);
    if let Some(member) = key_member(command.op)
        && let Some(body) = body.as_object_mut()
    {
        body.remove(member);
        if command.op == 13 {
            body.retain(|member, value| !is_default(member, value));
        }
    }
    json!([command.op, command.params, body]).to_string()
}

/// The answer to the same command again.
pub fn replay_of(op: u16, first: &KeyHeld) -> Expected {
    let mut body = first.body.clone();
    if body.get("idempotentReplay").is_some() {
        body["idempotentReplay"] = json!(true);
    }
    if op == 21 {
        body["replayedFromAuditId"] = body["billingAdminOperationAuditId"].clone();
    }
    let status = match good::row(op).map(|row| row.success) {
        Some(Success::CreatedOnce) => 200,
        _ => first.status,
    };
    Expected {
        replayed: true,
        ..Expected::found(status, body)
    }
}

/// What the service said there.
pub fn seen(answer: &Answer, pointer: &str) -> Value {
    answer.body.pointer(pointer).cloned().unwrap_or_default()
}

/// A fingerprint that the service made.
pub fn fingerprint(answer: &Answer, pointer: &str) -> Value {
    let text = answer.body.pointer(pointer).and_then(Value::as_str);
    let good = text.filter(|text| {
        text.len() == 64
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    good.map_or(json!("(a fingerprint)"), |text| json!(text))
}

/// The number of an outbox message.
pub fn number(answer: &Answer, pointer: &str) -> Value {
    let number = answer.body.pointer(pointer).and_then(Value::as_i64);
    number.map_or(json!("(a number)"), |number| json!(number))
}
