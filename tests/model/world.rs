//! Who acts, and random commands: from pools of a few identifiers that move on slowly, so that
//! commands meet what earlier ones left, and mostly good, so that they get somewhere.

mod branch;
mod facts;
mod family;
mod mother;
mod payment;
mod payout;
mod reservation;
mod settlement;

use std::collections::VecDeque;

use carebook::catalogue::OPERATIONS;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

pub use super::commands::{
    ACTORS, Command, FACTS, HEADQUARTERS, READ_ADJUSTMENT, READ_AUDIT, READ_BRANCH,
    READ_DELEGATION, READ_FACT, READ_GRANT, READ_LIFECYCLE, READ_OFFICE, READ_ORGANIZATION,
    READ_PROFILE, READ_RECEIPT, READ_REGISTRATION, READ_REQUEST, READ_ROSTER, READ_SNAPSHOT,
    READ_STATEMENT, WORKFLOW, has_header_key, has_no_key, needs_token, operations,
};
use super::expected::Answer;
use super::state::{Model, millis, moment};

/// The mothers by their places among the actors, with the ids that facts know them by.
const MOTHERS: [(usize, &str, &str); 4] = [
    (0, "user-m1", "member-m1"),
    (1, "user-m2", "member-m2"),
    (2, "user-m3", "member-m3"),
    (17, "user-m4", "member-m4"),
];

/// Every kind, those that others rest on more often.
const KINDS: [&str; 31] = [
    "actor",
    "family-account",
    "family-account",
    "reservation-booking",
    "reservation-booking",
    "reservation-booking",
    "mother-profile",
    "mother-profile",
    "consent-version",
    "reservation-draft",
    "reservation-draft",
    "reservation-draft",
    "final-review-projection",
    "final-review-projection",
    "final-review-projection",
    "final-review-projection",
    "extension-eligibility",
    "payment-product-plan",
    "payment-obligation",
    "payment-obligation",
    "candidate-snapshot",
    "candidate-snapshot",
    "payout-instruction",
    "reservation-financial-facts",
    "regional-benefit-policy",
    "payment-change-adjustment",
    "payment-change-adjustment",
    "branch-office-profile",
    "settlement-account",
    "relationship",
    "gateway-payment",
];

/// Makes commands.
pub struct World {
    rng: StdRng,
    step: usize,
    recent: VecDeque<Command>,
    sample: Vec<(Command, Answer)>,
    serial: i64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            step: 0,
            recent: VecDeque::new(),
            sample: Vec::new(),
            serial: 0,
        }
    }

    /// Milliseconds until the next command.
    pub fn pause(&mut self) -> i64 {
        if self.below(500) == 0 {
            return self.rng.random_range(0..3_600_000);
        }
        self.rng.random_range(0..3_000)
    }

    /// Whether the command is sent twice at once.
    pub fn is_twin(&mut self) -> bool {
        self.chance(5)
    }

    /// Keeps a command, to be sent again, soon or after the restart.
    pub fn remember(&mut self, command: Command, answer: &Answer) {
        if command.op < FACTS && command.fault.is_none() && command.who.is_some() {
            let succeeded = answer.status < 300 && !answer.replayed;
            let keyed = !has_no_key(command.op)
                && answer.body["preRegistrationStatus"] != "already_pre_registered";
            if succeeded && keyed && self.chance(20) {
                self.sample.push((command.clone(), answer.clone()));
            }
            self.recent.push_back(command);
            if self.recent.len() > 150 {
                self.recent.pop_front();
            }
        }
    }

    /// Commands that succeeded, with their first answers.
    pub fn sample(&self) -> impl Iterator<Item = (&Command, &Answer)> {
        // An actor who may no longer act gets no replay.
        let may_act = |who: Option<usize>| {
            who.is_some_and(|who| !matches!(ACTORS[who].subject, "user-m2" | "user-hq2"))
        };
        self.sample
            .iter()
            .filter(move |(command, _)| !needs_token(command.op) || may_act(command.who))
            .map(|(command, answer)| (command, answer))
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.random_range(0..bound)
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        let place = self.below(items.len());
        items[place].clone()
    }

    /// One of `width` ids; the pool moves on by one every `steps` commands.
    fn near(&mut self, prefix: &str, width: usize, steps: usize) -> String {
        let number = self.step / steps + self.below(width);
        format!("{prefix}-{number}")
    }

    /// One that exists, or sometimes any.
    fn standing(&mut self, stand: &[String], prefix: &str) -> String {
        match self.below(50) {
            0 => "unknown".to_owned(),
            1 => self.near(prefix, 6, 300),
            _ if stand.is_empty() => self.near(prefix, 6, 300),
            _ => self.pick(stand),
        }
    }

    /// One of the last of a list.
    fn late<'a, T>(&mut self, items: &'a [T], last: usize) -> Option<&'a T> {
        let width = items.len().min(last);
        if width == 0 {
            return None;
        }
        let back = self.below(width);
        items.get(items.len() - 1 - back)
    }

    /// The revision, or sometimes another.
    fn revision(&mut self, revision: i64) -> i64 {
        match self.below(20) {
            0 => revision + 1,
            1 => (revision - 1).max(1),
            _ => revision,
        }
    }

    fn later(&mut self, model: &Model, most: i64) -> Value {
        let at = model.now + self.rng.random_range(-most / 10..most);
        json!(self.written(at))
    }

    /// A moment in one of its forms.
    fn written(&mut self, at: i64) -> String {
        let text = moment(at);
        if self.chance(80) {
            return text;
        }
        let nine_hours = 9 * 3_600_000;
        moment(at + nine_hours).replace('Z', "+09:00")
    }

    fn who(&mut self, good: &[usize]) -> usize {
        if self.chance(90) {
            return self.pick(good);
        }
        self.below(ACTORS.len())
    }

    fn mother_of(&mut self, subject: &str) -> usize {
        let mother = MOTHERS.iter().find(|(_, known, _)| *known == subject);
        let place = mother.map_or(0, |(place, ..)| *place);
        self.who(&[place])
    }

    fn key(&mut self) -> String {
        if self.chance(8) {
            return self.near("key", 8, 150);
        }
        self.serial += 1;
        format!("key {}", self.serial)
    }

    /// The next command.
    pub fn command(&mut self, step: usize, model: &Model) -> Command {
        self.step = step;
        let what = self.below(100);
        if what < 30 || step < 60 {
            return self.facts(model);
        }
        if what < 40 {
            return self.read(model);
        }
        if what < 48
            && let Some(command) = self.again()
        {
            return command;
        }
        let op = u16::try_from(1 + self.below(OPERATIONS.len())).unwrap();
        let mut command = self.operation(op, model);
        if has_header_key(op) {
            command.key = Some(self.key());
        }
        if self.chance(3) {
            self.spoil(&mut command);
        }
        if self.chance(1) {
            command.who = None;
        }
        command
    }

    /// An earlier command once more: as it was, written differently, by another, or changed.
    fn again(&mut self) -> Option<Command> {
        if self.recent.is_empty() {
            return None;
        }
        let place = self.below(self.recent.len());
        let mut command = self.recent[place].clone();
        match self.below(10) {
            0 => command.who = Some(self.below(ACTORS.len())),
            1 => {
                // The same under another key.
                let key = self.key();
                if command.key.is_some() {
                    command.key = Some(key);
                } else if command.body.get("idempotencyKey").is_some() {
                    command.body["idempotencyKey"] = json!(key);
                }
            }
            2 => {
                for member in [
                    "reason",
                    "reasonCode",
                    "amountKrw",
                    "messageToBranch",
                    "fullName",
                    "providerName",
                    "memo",
                    "bankName",
                    "servicePriceKrw",
                    "expectedReviewRevision",
                    "expectedOnboardingRevision",
                    "expectedSettlementAccountRevision",
                    "maximumAuthorizedAmountKrw",
                    "granteeMemberId",
                    "requestCode",
                    "displayName",
                ] {
                    match command.body.get(member) {
                        Some(Value::String(text)) => {
                            command.body[member] = json!(format!("{text}!"));
                        }
                        Some(Value::Number(number)) => {
                            command.body[member] =
                                json!(number.as_i64().unwrap_or(1).wrapping_add(1));
                        }
                        _ => {}
                    }
                }
            }
            3 => self.rewrite(&mut command.body),
            4 if command.op == 13 && command.body.get("couponDiscountAmountKrw").is_none() => {
                // The same with a default spelled out.
                command.body["couponDiscountAmountKrw"] = json!(0);
            }
            _ => {}
        }
        Some(command)
    }

    /// Writes the same facts in another form.
    fn rewrite(&mut self, value: &mut Value) {
        let Some(members) = value.as_object_mut() else {
            return;
        };
        for (name, value) in members {
            if name == "providerContext" {
                continue;
            }
            match value {
                Value::String(text) if name.ends_with("At") => {
                    let at = millis(text);
                    *text = self.written(at);
                }
                Value::String(text) if name == "registrationNumber" => {
                    let digits = text.replace('-', "");
                    *text = format!("{}-{}-{}", &digits[..3], &digits[3..5], &digits[5..]);
                }
                Value::Array(items) => items.iter_mut().for_each(|item| self.rewrite(item)),
                other => self.rewrite(other),
            }
        }
    }

    /// Gives the command one fault of its shape.
    fn spoil(&mut self, command: &mut Command) {
        let required: &[&str] = match command.op {
            1 => &[
                "familyAccountId",
                "motherMemberId",
                "reservationBookingId",
                "scope",
            ],
            2 => &[
                "familyAccountId",
                "payerMemberId",
                "motherMemberId",
                "reservationBookingId",
            ],
            3 => &["commandId", "legalName", "displayName", "reason"],
            4 => &["granteeMemberId", "reservationBookingId"],
            5 => &["requestCode", "actorProfileId", "idempotencyKey"],
            6 => &["actorProfileId", "idempotencyKey"],
            8 => &["statementId", "idempotencyKey"],
            9 => &["statementCode", "branchProfileId", "idempotencyKey"],
            10 => &[
                "assignmentDecisionId",
                "role",
                "scheduleProofId",
                "reasonCode",
            ],
            11 => &[
                "contractAssignmentKey",
                "caregiverRole",
                "idempotencyKey",
                "reason",
            ],
            12 => &["contractAssignmentKey", "caregiverRole", "idempotencyKey"],
            13 => &[
                "branchProfileId",
                "finalizedChargeSnapshotId",
                "serviceType",
            ],
            15 => &["motherUserId", "paymentId", "providerName"],
            16 => &["snapshotId", "settlementAccountId", "idempotencyKey"],
            18 => &["reservationDraftStepAuthorityProjectionId"],
            19 => &["commandId", "revisionId", "displayName", "reason"],
            20 => &["paymentId"],
            21 => &["reason", "idempotencyKey"],
            _ => return,
        };
        let member = self.pick(required);
        let code = match self.below(5) {
            0 => {
                if let Some(body) = command.body.as_object_mut() {
                    body.remove(member);
                }
                "required"
            }
            1 => {
                command.body[member] = json!(7);
                "wrong_type"
            }
            2 => {
                command.body[member] = json!("");
                "too_short"
            }
            3 => {
                command.body[member] = Value::Null;
                "wrong_type"
            }
            _ => {
                command.body["surprise"] = json!(1);
                command.fault = Some(("surprise".to_owned(), "unknown_field".to_owned()));
                return;
            }
        };
        command.fault = Some((member.to_owned(), code.to_owned()));
    }

    fn operation(&mut self, op: u16, model: &Model) -> Command {
        match op {
            1 | 2 | 4 => self.family(op, model),
            3 => self.create_branch(model),
            5 => self.open_data_room_request(),
            6 => self.mark_artifact_ready(model),
            7 => self.update_mother_profile(model),
            8 => self.acknowledge_deposit(model),
            9 => self.request_deposit(),
            10 => self.assign_caregiver(model),
            11 | 12 => self.payout(op, model),
            13 => self.finalize_charge(model),
            14 => self.accept_manager_invitation(model),
            15 => self.capture_adjustment_payment(model),
            16 => self.snapshot_settlement_account(model),
            17 => self.decide_cash_receipt_eligibility(),
            18 => self.confirm_reservation_draft(model),
            19 => self.update_branch_office_profile(model),
            20 => self.pre_register_payment(model),
            21 => self.administer_gateway(model),
            other => unreachable!("tests/model/world.rs: nothing makes operation {other}"),
        }
    }

    fn booking(&mut self, model: &Model) -> String {
        self.standing(&model.recent("reservation-booking"), "B")
    }

    fn acting(&mut self, who: usize, body: &mut Value) {
        let who = ACTORS[who];
        body["actorKind"] = json!(who.kind.as_str());
        body["actorProfileId"] = json!(who.profile_id());
        match self.below(40) {
            0 => body["actorKind"] = json!("system_workflow"),
            1 => body["actorProfileId"] = json!("profile-other"),
            _ => {}
        }
    }

    fn read(&mut self, model: &Model) -> Command {
        let who = if self.chance(40) {
            HEADQUARTERS
        } else {
            self.below(ACTORS.len())
        };
        let op = READ_DELEGATION + u16::try_from(self.below(16)).unwrap();
        let mut id = |items: &[String]| {
            if items.is_empty() || self.chance(3) {
                return "unknown".to_owned();
            }
            let width = items.len().min(20);
            let back = self.below(width);
            items[items.len() - 1 - back].clone()
        };
        let ids = |items: &[super::state::Held]| -> Vec<String> {
            items
                .iter()
                .rev()
                .take(20)
                .map(|held| held.id.clone())
                .collect()
        };
        let params = match op {
            READ_DELEGATION => {
                let known: Vec<_> = model
                    .delegations
                    .iter()
                    .map(|held| held.id.clone())
                    .collect();
                vec![id(&known)]
            }
            READ_GRANT => vec![id(&ids(&model.grants))],
            READ_STATEMENT => vec![id(&ids(&model.statements))],
            READ_REQUEST => vec![id(&ids(&model.requests))],
            READ_SNAPSHOT => vec![id(&ids(&model.snapshots))],
            READ_REGISTRATION => vec![id(&ids(&model.registrations))],
            READ_AUDIT => vec![id(&ids(&model.audits))],
            READ_LIFECYCLE => vec![id(&ids(&model.lifecycles))],
            READ_ROSTER => {
                let known: Vec<_> = model
                    .rosters
                    .iter()
                    .map(|held| held.booking.clone())
                    .collect();
                vec![id(&known)]
            }
            READ_BRANCH => {
                let known: Vec<_> = model.branches.iter().map(|held| held.id.clone()).collect();
                vec![id(&known)]
            }
            READ_OFFICE => {
                let mut known: Vec<_> = model.offices.keys().cloned().collect();
                known.truncate(20);
                known.extend(["branch-1", "branch-2", "branch-3"].map(str::to_owned));
                vec![id(&known)]
            }
            READ_RECEIPT => {
                let known = self
                    .late(&model.receipts, 10)
                    .map(|receipt| receipt.id.clone());
                let (booking, contract, instruction) =
                    known.unwrap_or(("b".to_owned(), "c".to_owned(), "i".to_owned()));
                vec![booking, contract, instruction]
            }
            READ_ADJUSTMENT => vec![id(&model.recent("reservation-booking"))],
            READ_FACT => {
                let kind = self.pick(&KINDS).to_owned();
                let known = model.recent(&kind);
                let id = self.standing(&known, "unknown");
                vec![kind, id]
            }
            _ => Vec::new(),
        };
        let who = match op {
            READ_FACT if self.chance(90) => self.pick(&[WORKFLOW, 18]),
            READ_PROFILE => self.who(&[0, 1, 2, 17]),
            _ => who,
        };
        let params: Vec<_> = params.iter().map(String::as_str).collect();
        Command::read(op, &params, who)
    }

    fn mother(&mut self) -> (&'static str, &'static str) {
        let (_, subject, member) = self.pick(&MOTHERS);
        (subject, member)
    }
}

/// Whose a booking of the pools is, also before it exists: the facts about it agree.
fn mother_of_booking(id: &str) -> (&'static str, &'static str) {
    let sum: usize = id.bytes().map(usize::from).sum();
    let (_, subject, member) = MOTHERS[sum % MOTHERS.len()];
    (subject, member)
}
