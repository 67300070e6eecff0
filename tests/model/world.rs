//! Who acts, and random commands: from pools of a few identifiers that move on slowly, so that
//! commands meet what earlier ones left, and mostly good, so that they get somewhere.

use std::collections::VecDeque;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

pub use super::commands::{
    ACTORS, Command, FACTS, HEADQUARTERS, READ_ADJUSTMENT, READ_AUDIT, READ_BRANCH,
    READ_DELEGATION, READ_FACT, READ_GRANT, READ_LIFECYCLE, READ_OFFICE, READ_ORGANIZATION,
    READ_PROFILE, READ_RECEIPT, READ_REGISTRATION, READ_REQUEST, READ_ROSTER, READ_SNAPSHOT,
    READ_STATEMENT, WORKFLOW,
};
use super::expected::Answer;
use super::state::{Model, millis, moment, n, s, texts};

/// The mothers by their places among the actors, with the ids that facts know them by.
const MOTHERS: [(usize, &str, &str); 4] = [
    (0, "user-m1", "member-m1"),
    (1, "user-m2", "member-m2"),
    (2, "user-m3", "member-m3"),
    (17, "user-m4", "member-m4"),
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
            let keyed = !matches!(command.op, 1 | 17)
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
            .filter(move |(command, _)| command.op == 13 || may_act(command.who))
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
        let op = u16::try_from(1 + self.below(21)).unwrap();
        let mut command = self.operation(op, model);
        if matches!(op, 2 | 3 | 4 | 7 | 14 | 18 | 20) {
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
            5 => self.open_request(),
            6 => self.mark_ready(model),
            7 => self.update_profile(model),
            8 => self.acknowledge_deposit(model),
            9 => self.request_deposit(),
            10 => self.assign(model),
            11 | 12 => self.payout(op, model),
            13 => self.finalize(model),
            14 => self.accept(model),
            15 => self.capture(model),
            16 => self.snapshot(model),
            17 => self.receipt(),
            18 => self.confirm(model),
            19 => self.update_office(model),
            20 => self.pre_register(model),
            _ => self.administer(model),
        }
    }

    fn booking(&mut self, model: &Model) -> String {
        self.standing(&model.recent("reservation-booking"), "B")
    }

    fn family(&mut self, op: u16, model: &Model) -> Command {
        if op == 1
            && self.chance(80)
            && let Some(delegation) = self.late(&model.delegations, 8)
        {
            let view = delegation.body.clone();
            let account = delegation.account.clone();
            let payer = ACTORS
                .iter()
                .position(|who| who.member == Some(s(&view, "payerMemberId")));
            let who = self.who(&[payer.unwrap_or(3)]);
            let maximum = n(&view, "maximumAuthorizedAmountKrw");
            let amount = self.pick(&[maximum, maximum, 1, maximum + 1, 0]);
            let body = json!({
                "familyAccountId": if self.chance(95) { account } else { "FA-1".to_owned() },
                "motherMemberId": view["motherMemberId"],
                "reservationBookingId": view["reservationBookingId"],
                "scope": self.pick(&["reservation_deposit", "reservation_deposit", "summary"]),
                "amountKrw": amount,
            });
            return Command::new(1, &[], who, body);
        }
        let mut booking = self.booking(model);
        let owed = model.recent("payment-obligation");
        if !owed.is_empty() && self.chance(50) {
            // Something is to be paid for it.
            let owed = self.pick(&owed);
            let owed = model.fact("payment-obligation", &owed);
            booking = owed.map_or(booking, |owed| {
                s(&owed.facts, "reservationBookingId").to_owned()
            });
        }

        let mother = model.booking(&booking);
        let mother = mother
            .map_or("user-m1", |booking| s(&booking.facts, "motherUserId"))
            .to_owned();
        let place = MOTHERS
            .iter()
            .position(|(_, subject, _)| *subject == mother);
        let place = place.unwrap_or_default();
        let member = MOTHERS[place].2;
        let account = if self.chance(93) {
            format!("FA-{place}")
        } else {
            self.pick(&["FA-0", "FA-1", "FA-9"]).to_owned()
        };
        let other = self.pick(&[
            "member-f1",
            "member-f1",
            "member-f2",
            "member-f2",
            "member-f9",
        ]);
        let who = self.mother_of(&mother);
        let expires_at = self.later(model, 7_200_000);
        match op {
            1 => {
                let who = self.who(&[3, 4, 5]);
                let body = json!({
                    "familyAccountId": account,
                    "motherMemberId": member,
                    "reservationBookingId": booking,
                    "scope": "reservation_deposit",
                    "amountKrw": 1_000,
                });
                Command::new(1, &[], who, body)
            }
            2 => {
                let scopes = self.pick(&[
                    json!(["reservation_deposit"]),
                    json!(["reservation_deposit"]),
                    json!(["reservation_deposit"]),
                    json!(["reservation_deposit"]),
                    json!(["reservation_deposit"]),
                    json!(["reservation_deposit", "reservation_deposit"]),
                    json!(["summary"]),
                    json!([]),
                ]);
                let body = json!({
                    "familyAccountId": account,
                    "payerMemberId": other,
                    "motherMemberId": member,
                    "reservationBookingId": booking,
                    "scopes": scopes,
                    "maximumAuthorizedAmountKrw": self.pick(&[100_000, 500_000, 900_000, 900_000, 500_000, 900_000, 1, 0]),
                    "expiresAt": expires_at,
                });
                Command::new(2, &[], who, body)
            }
            _ => {
                let scopes = self.pick(&[
                    json!(["summary"]),
                    json!(["summary"]),
                    json!(["summary"]),
                    json!(["summary"]),
                    json!(["summary", "summary"]),
                    json!(["reservation_deposit"]),
                    json!([]),
                ]);
                let body = json!({
                    "granteeMemberId": other,
                    "reservationBookingId": booking,
                    "scopes": scopes,
                    "expiresAt": expires_at,
                });
                Command::new(4, &[&account], who, body)
            }
        }
    }

    /// A business registration number with the right check digit.
    fn registration(&mut self, number: usize) -> String {
        let nine = format!("{:09}", 100_000_000 + number);
        let digits: Vec<u32> = nine
            .chars()
            .filter_map(|digit| digit.to_digit(10))
            .collect();
        let weights = [1, 3, 7, 1, 3, 7, 1, 3, 5];
        let mut sum: u32 = digits
            .iter()
            .zip(weights)
            .map(|(digit, weight)| digit * weight)
            .sum();
        sum += digits[8] * 5 / 10;
        let check = (10 - sum % 10) % 10;
        if self.chance(50) {
            return format!("{nine}{check}");
        }
        format!("{}-{}-{}{check}", &nine[..3], &nine[3..5], &nine[5..])
    }

    fn create_branch(&mut self, model: &Model) -> Command {
        let who = self.who(&[HEADQUARTERS, HEADQUARTERS, 17]);
        let number = self.step / 40 + self.below(5);
        let revision = self.revision(model.organization_revision);
        let email = match self.below(5) {
            4 => self.near("somebody", 4, 100) + "@example.com",
            manager => format!("manager-{}@example.com", manager + 1),
        };
        let email = match self.below(6) {
            0 => email.to_ascii_uppercase(),
            1 => email.replace("man", "Man").replace("some", "SOME"),
            2 => email.replace("example", "Example"),
            _ => email,
        };
        let body = json!({
            "commandId": self.near("create", 12, 30),
            "branchCode": self.near("BR", 8, 30),
            "expectedOrganizationRevision": revision,
            "legalName": "서울산후케어 주식회사",
            "displayName": "서울 지점",
            "businessIdentity": {
                "jurisdiction": "KR",
                "registrationNumber": self.registration(number),
            },
            "contact": {"email": "branch@example.com", "phoneNumber": "+82212345678"},
            "address": {
                "postalCode": "04524",
                "roadAddress": "세종대로 110",
                "detailAddress": "1층",
            },
            "managerInvitation": {"email": email, "displayName": "김지점"},
            "initialLifecycleStatus": self.pick(&["preparing", "active"]),
            "initialMembershipFeePolicy": {
                "policyVersion": "2026-1",
                "monthlyFeeAmount": self.below(3),
                "currencyCode": "KRW",
                "effectiveFrom": "2026-12-01",
            },
            "reason": "growth",
        });
        Command::new(3, &[], who, body)
    }

    fn accept(&mut self, model: &Model) -> Command {
        let who = self.who(&[6, 7, 8, HEADQUARTERS]);
        let email = ACTORS[who].verified_email();
        let branch = model.branches.iter().rev().find(|branch| {
            branch.body["managerInvitationStatus"] == "pending"
                && email.as_ref().is_some_and(|email| branch.is_for(email))
        });
        let revision = branch.map_or(2, |branch| branch.revision);
        let revision = self.revision(revision);
        Command::new(
            14,
            &[],
            who,
            json!({"expectedOnboardingRevision": revision}),
        )
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

    fn open_request(&mut self) -> Command {
        let who = self.who(&[HEADQUARTERS, 10, 15, 6, 7]);
        let keys = self.pick(&[
            json!(["e-1"]),
            json!(["e-1"]),
            json!(["e-1", "e-2"]),
            json!(["e-1", "e-2"]),
            json!(["e-1", "e-2"]),
            json!(["e", "e"]),
            json!([]),
        ]);
        let mut body = json!({
            "requestCode": self.near("DR", 10, 60),
            "scope": {
                "collection": self.pick(&["statements", "statements", "statements", "lines", "lines", "Lines"]),
                "settlementPeriodStart": "2026-10-01",
                "settlementPeriodEnd": self.pick(&["2026-10-31", "2026-10-31", "2026-10-31", "2026-10-31", "2026-09-30"]),
                "branchProfileId": self.pick(&[json!("branch-1"), json!("branch-2"), Value::Null]),
                "externalRecipientCode": self.pick(&[json!("recipient"), Value::Null]),
                "sourceDatasetRevision": self.pick(&[1, 2, 3, 4, 5, 0]),
                "sourceEvidenceKeys": keys,
            },
            "idempotencyKey": self.key(),
        });
        self.acting(who, &mut body);
        Command::new(5, &[], who, body)
    }

    fn mark_ready(&mut self, model: &Model) -> Command {
        let who = self.who(&[15, 16, 18]);
        let request = self.late(&model.requests, 5);
        let (id, revision) = request.map_or(("unknown".to_owned(), 1), |request| {
            (request.id.clone(), n(&request.body, "revision"))
        });
        let id = if self.chance(95) {
            id
        } else {
            "unknown".to_owned()
        };
        let artifact_id = self.near("artifact", 10, 100);
        let mut body = json!({
            "artifact": {
                "artifactId": artifact_id,
                "artifactKind": self.pick(&["summary", "lines"]),
                "storageBucket": "bucket",
                "storageObjectKey": "a/b.csv",
                "exportFormat": "csv",
                "fileName": "b.csv",
                "byteSize": self.pick(&[0, 1, 2, 3, 4, 5, 6, -1]),
                "contentSha256": self.pick(&["ab".repeat(32), "cd".repeat(32), "12".repeat(32), "12".repeat(32), "34".repeat(32), "ab".to_owned()]),
                "generatedAt": self.written(model.now),
                "sourceDatasetRevision": self.pick(&[5, 5, 5, 4, 1]),
            },
            "idempotencyKey": self.key(),
            "expectedRevision": self.revision(revision),
        });
        self.acting(who, &mut body);
        Command::new(6, &[&id], who, body)
    }

    fn request_deposit(&mut self) -> Command {
        let who = self.who(&[HEADQUARTERS, 10, 15, 16]);
        let mut body = json!({
            "statementCode": self.near("ST", 10, 60),
            "statementKind": self.pick(&["head_office_to_branch", "platform_to_branch", "inter_office_service_handoff"]),
            "branchProfileId": self.pick(&["branch-1", "branch-2"]),
            "settlementPeriodStart": "2026-10-01",
            "settlementPeriodEnd": self.pick(&["2026-10-31", "2026-10-31", "2026-10-01", "2026-09-30"]),
            "remittanceAccountSnapshot": {
                "remittanceAccountSnapshotId": "remittance-1",
                "bankName": "한빛은행",
                "accountHolder": "본사",
                "accountNumberDisplay": "110-***-1",
                "capturedAt": self.pick(&["2026-10-31T00:00:00Z", "2026-10-31T09:00:00.000+09:00"]),
                "sourceReferenceKey": self.pick(&[json!("source"), Value::Null]),
            },
            "idempotencyKey": self.key(),
            "messageToBranch": self.pick(&[json!("please"), json!("soon"), Value::Null, Value::Null, json!("")]),
            "headOfficePrivateMemo": self.pick(&[json!("for us"), Value::Null]),
        });
        self.acting(who, &mut body);
        Command::new(9, &[], who, body)
    }

    fn acknowledge_deposit(&mut self, model: &Model) -> Command {
        let view = self
            .late(&model.statements, 4)
            .map(|held| held.body.clone());
        let view = view.unwrap_or(json!({"statementId": "unknown", "revision": 1}));
        let branch = s(&view, "branchProfileId").to_owned();
        let good: &[usize] = if branch == "branch-2" { &[7] } else { &[6, 7] };
        let who = self.who(good);
        let acting = ACTORS[who].profile_id();
        let count = self.pick(&[1, 1, 2, 2, 0]);
        let same = self.chance(5);
        let lines: Vec<_> = (0..count)
            .map(|index| {
                let at = model.now + self.pick(&[0, 0, 0, -60_000, 299_999, 300_000, 300_001]);
                let mut line = json!({
                    "lineAcknowledgementId": format!("line-{index}"),
                    "settlementLineKey": format!("line-key-{}", if same { 0 } else { index }),
                    "settlementLineKind": self.pick(&["membership_due", "delivery_fee"]),
                    "acknowledgedByActorProfileId": if self.chance(97) { acting } else { "somebody" },
                    "acknowledgedAt": self.written(at),
                    "acknowledgementNote": self.pick(&[json!("paid"), Value::Null]),
                });
                if self.chance(50) {
                    line["sourceEvidenceKey"] = self.pick(&[json!("evidence"), Value::Null]);
                }
                line
            })
            .collect();
        let revision = n(&view, "revision");
        let mut body = json!({
            "statementId": if self.chance(96) { s(&view, "statementId") } else { "unknown" },
            "idempotencyKey": self.key(),
            "expectedRevision": self.revision(revision),
            "reason": self.pick(&[json!("as agreed"), Value::Null]),
            "lineAcknowledgements": lines,
        });
        self.acting(who, &mut body);
        body["actorKind"] = json!("branch_manager");
        let handoff = view["statementKind"] == "inter_office_service_handoff";
        if handoff != self.chance(6) {
            let mut keys: Vec<_> = texts_of(&lines, "settlementLineKey");
            keys.dedup();
            keys.reverse();
            if keys.is_empty() || self.chance(4) {
                keys.push("line-key-9".to_owned());
            }
            let other = if branch == "branch-1" {
                "branch-2"
            } else {
                "branch-1"
            };
            let delivers = self.chance(50);
            let acknowledging = if self.chance(95) {
                branch.as_str()
            } else {
                other
            };
            body["interOfficeAcknowledgement"] = json!({
                "interOfficeSettlementCode": "handoff-1",
                "reservationId": "reservation-1",
                "acknowledgementSide": if delivers { "service_delivery_branch" } else { "customer_relationship_branch" },
                "acknowledgingBranchProfileId": if acknowledging.is_empty() { "branch-1" } else { acknowledging },
                "serviceDeliveryBranchProfileId": if delivers { acknowledging } else { "branch-3" },
                "customerRelationshipBranchProfileId": if delivers { "branch-3" } else { acknowledging },
                "actorKind": "branch_manager",
                "actorProfileId": body["actorProfileId"],
                "expectedStatementRevision": self.revision(revision),
                "datasetRevision": self.pick(&[1, 2, 3, 4, 5, 0]),
                "projectedSettlementLineKeys": keys,
            });
            let between = &mut body["interOfficeAcknowledgement"];
            for member in [
                "serviceDeliveryBranchProfileId",
                "customerRelationshipBranchProfileId",
            ] {
                if between[member] == "" {
                    between[member] = json!("branch-1");
                }
            }
        }
        Command::new(8, &[], who, body)
    }

    fn update_profile(&mut self, model: &Model) -> Command {
        let who = self.who(&[0, 1, 17]);
        let profile = model.profile_of(ACTORS[who].subject);
        let (revision, address) = profile.map_or((1, 1), |profile| {
            (profile.revision, profile.address_revision)
        });
        let mut body = json!({
            "expectedProfileRevision": self.revision(revision),
            "expectedAddressRevision": self.revision(address),
            "fullName": self.pick(&["김하늘", "Kim"]),
            "birthDate": self.pick(&["1992-03-14", "1900-01-01", "1990-02-28", "1990-02-28", "1899-12-31", "2199-01-01"]),
            "address": {
                "postalCode": "04524",
                "roadAddress": self.pick(&["세종대로 110", "세종대로 112"]),
                "detailAddress": "101호",
            },
        });
        if self.chance(60) {
            let mut acceptance = || {
                json!({
                    "policyKey": self.pick(&["privacy", "terms", "marketing"]),
                    "versionLabel": self.pick(&["v1", "v2", "v3"]),
                })
            };
            let acceptances = [acceptance(), acceptance()];
            let count = self.pick(&[1, 1, 1, 2, 2, 0]);
            body["consentAcceptances"] = json!(acceptances[..count]);
        }
        Command::new(7, &[], who, body)
    }

    fn assign(&mut self, model: &Model) -> Command {
        let snapshots = model.recent("candidate-snapshot");
        let snapshot_id = self.standing(&snapshots, "CS");
        let snapshot = model.fact("candidate-snapshot", &snapshot_id);
        let facts = snapshot
            .map(|snapshot| snapshot.facts.clone())
            .unwrap_or_default();
        let mut booking_id = s(&facts, "reservationBookingId").to_owned();
        if booking_id.is_empty() || self.chance(3) {
            booking_id = self.booking(model);
        }
        let booking = model.booking(&booking_id);
        let branch = booking.map_or("", |booking| s(&booking.facts, "branchProfileId"));
        let good: &[usize] = if branch == "branch-1" {
            &[6, 7, 9, 10]
        } else {
            &[7, 9, 10]
        };
        let who = self.who(good);
        let candidates = facts["candidates"].as_array().cloned().unwrap_or_default();
        let candidate = if candidates.is_empty() {
            json!({"caregiverProfileId": "c", "role": "r", "scheduleProofId": "p"})
        } else {
            self.pick(&candidates)
        };
        let roster = model.roster(&booking_id);
        let roster_revision = roster.map_or(0, |roster| roster.revision);
        let expected_roster = if self.chance(92) {
            roster_revision
        } else {
            roster_revision + 1
        };
        let mut body = json!({
            "assignmentDecisionId": self.near("AD", 12, 30),
            "rosterDecisionId": self.pick(&["RD-1", "RD-2", "RD-3"]),
            "reservationBookingId": booking_id,
            "targetAssignmentKey": self.pick(&["slot-1", "slot-2", "slot-3", "slot-4"]),
            "matchingRequestKey": if self.chance(96) { s(&facts, "matchingRequestKey") } else { "MR-9" },
            "caregiverProfileId": candidate["caregiverProfileId"],
            "role": candidate["role"],
            "handoffOrder": self.pick(&[1, 2, 3, 1, 2, 3, 0]),
            "selectedCandidateSnapshotId": snapshot_id,
            "expectedCandidateSnapshotRevision": self.revision(snapshot.map_or(1, |snapshot| snapshot.revision)),
            "expectedReservationRevision": self.revision(booking.map_or(1, |booking| booking.revision)),
            "expectedRosterRevision": expected_roster,
            "scheduleProofId": if self.chance(96) { s(&candidate, "scheduleProofId") } else { "proof-9" },
            "reasonCode": "matched",
            "idempotencyKey": self.key(),
        });
        if s(&body, "matchingRequestKey").is_empty() {
            body["matchingRequestKey"] = json!("MR-9");
        }
        if self.chance(50) {
            body["replacementOfAssignmentKey"] = self.pick(&[
                json!("slot-1"),
                json!("slot-2"),
                json!("slot-3"),
                Value::Null,
            ]);
        }
        Command::new(10, &[], who, body)
    }

    fn payout(&mut self, op: u16, model: &Model) -> Command {
        let instructions = model.recent("payout-instruction");
        let id = self.standing(&instructions, "PI");
        let instruction = model.fact("payout-instruction", &id);
        let facts = instruction
            .map(|instruction| instruction.facts.clone())
            .unwrap_or_default();
        let mut booking_id = s(&facts, "reservationBookingId").to_owned();
        if booking_id.is_empty() || self.chance(4) {
            booking_id = self.booking(model);
        }
        let booking = model.booking(&booking_id);
        let branch = booking.map_or("", |booking| s(&booking.facts, "branchProfileId"));
        let good: &[usize] = match (op, branch) {
            (11, "branch-1") => &[6, 7, 9, 10],
            (11, _) => &[7, 9, 10],
            (_, "branch-1") => &[6, 7],
            _ => &[7],
        };
        let who = self.who(good);
        let contract = s(&facts, "contractAssignmentKey").to_owned();
        let contract = if contract.is_empty() || self.chance(4) {
            "CA-1".to_owned()
        } else {
            contract
        };
        let at = model.now + self.pick(&[0, 0, 0, 0, -5_000, 300_000, 300_001]);
        let order = if facts.is_null() {
            1
        } else {
            n(&facts, "handoffOrder")
        };
        let mut body = json!({
            "reservationBookingId": booking_id,
            "contractAssignmentKey": contract,
            "caregiverPayoutInstructionId": id,
            "caregiverRole": if facts.is_null() || self.chance(4) { "assistant" } else { s(&facts, "caregiverRole") },
            "handoffOrder": if self.chance(95) { order } else { self.pick(&[1, 2, 0]) },
            "occurredAt": self.written(at),
            "idempotencyKey": self.key(),
        });
        if self.chance(30) {
            body["caregiverId"] = self.pick(&[json!("c-1"), Value::Null]);
        }
        if op == 11 {
            let revision =
                model.receipt_revision(&booking_id, s(&body, "contractAssignmentKey"), &id);
            body["expectedRevision"] = match self.below(12) {
                0 => json!(revision + 1),
                1 => json!(revision - 1),
                _ => json!(revision),
            };
            body["reason"] = json!("corrected");
        } else {
            if self.chance(50) {
                body["memo"] = self.pick(&[json!("paid out"), Value::Null]);
            }
            if self.chance(50) {
                body["reason"] = self.pick(&[json!("on time"), Value::Null]);
            }
        }
        Command::new(op, &[], who, body)
    }

    fn won(&mut self) -> i64 {
        match self.below(30) {
            0 => 0,
            1 => -1,
            2 => i64::MAX / 2,
            3 => i64::MAX,
            4..10 => self.rng.random_range(0..100),
            _ => self.rng.random_range(0..2_000_000),
        }
    }

    fn finalize(&mut self, model: &Model) -> Command {
        let booking = self.booking(model);
        let service = self.won();
        let own = if self.chance(95) && service > 0 {
            self.rng.random_range(0..=service)
        } else {
            self.won()
        };
        let mut body = json!({
            "branchProfileId": "branch-1",
            "finalizedChargeSnapshotId": if self.chance(95) { self.key() } else { self.near("charge", 6, 80) },
            "capturedOn": "2026-11-05",
            "serviceType": self.pick(&["svc-1", "svc-1", "svc-2"]),
            "serviceAddressLevel1": self.pick(&["서울", "부산"]),
            "quotedOn": self.pick(&["2026-11-01", "2026-11-05", "2026-06-30", "2026-06-30", "2026-11-06"]),
            "servicePriceKrw": service,
            "ownPriceKrw": own,
        });
        if self.chance(70) {
            body["serviceAddressLevel2"] = self.pick(&[json!("강남"), json!("서초"), Value::Null]);
            body["serviceAddressLevel3"] = self.pick(&[json!("역삼"), Value::Null]);
        }
        for member in [
            "additionalServiceChargeKrw",
            "rentalEquipmentChargeKrw",
            "governmentDiscountAmountKrw",
            "couponDiscountAmountKrw",
            "preReservationPaymentAmountKrw",
            "voucherServiceBalanceAddOnKrw",
            "voucherInhomeUserFeeChangeAmountKrw",
        ] {
            if self.chance(20) {
                body[member] = json!(self.won());
            }
        }
        if self.chance(10) {
            body["voucherInhomeUserFeeChangeAmountKrw"] = json!(-5_000);
        }
        if self.chance(30) {
            body["amountByComponentCode"] = json!({"meal": self.won(), "taxi": 700});
        }
        if self.chance(30) {
            body["enabledFlags"] = self.pick(&[
                json!({"regionalBenefit": false}),
                json!({"regionalBenefit": true}),
                json!({"other": false}),
            ]);
        }
        let who = self.who(&[0]);
        Command::new(13, &[&booking], who, body)
    }

    fn capture(&mut self, model: &Model) -> Command {
        let ids = model.recent("payment-change-adjustment");
        let id = self.standing(&ids, "ADJ");
        let facts = model.fact("payment-change-adjustment", &id);
        let booking = facts
            .map_or("B-1", |fact| s(&fact.facts, "reservationBookingId"))
            .to_owned();
        let view = model
            .adjustment(&booking)
            .map(|(_, view)| view)
            .unwrap_or_default();
        let mother = s(&view, "motherUserId").to_owned();
        let who = self.mother_of(&mother);
        let registered = &view["preRegistration"];
        let (payment, provider) = if registered.is_null() {
            (self.key(), "gateway".to_owned())
        } else {
            (
                s(registered, "paymentId").to_owned(),
                s(registered, "providerName").to_owned(),
            )
        };
        let own = ACTORS[who].subject.to_owned();
        let body = json!({
            "motherUserId": if self.chance(95) { own } else { "user-m1".to_owned() },
            "paymentId": if self.chance(95) { payment } else { self.near("captured", 5, 100) },
            "providerName": if self.chance(96) { provider.as_str() } else { "other" },
            "providerContext": self.pick(&[json!({}), json!({"a": null}), json!({"a": {"b": [1, "x"]}})]),
        });
        Command::new(15, &[&booking], who, body)
    }

    fn snapshot(&mut self, model: &Model) -> Command {
        let id = self.pick(&["SA-0", "SA-1", "SA-2", "SA-3", "SA-4"]);
        let account = model.fact("settlement-account", id);
        let revision = account.map_or(1, |account| account.revision);
        let office = account.map_or("branch-1", |account| {
            s(&account.facts, "branchOfficeProfileId")
        });
        let office = if self.chance(95) {
            office.to_owned()
        } else {
            "branch-2".to_owned()
        };
        let good: &[usize] = if office == "branch-1" {
            &[6, 7, 9, 11, 12]
        } else {
            &[7, 10, 11]
        };
        let who = self.who(good);
        let body = json!({
            "snapshotId": self.near("SN", 40, 20),
            "settlementStatementId": self.pick(&["statement-1", "statement-2"]),
            "branchOfficeProfileId": office,
            "settlementAccountId": id,
            "expectedSettlementAccountRevision": self.revision(revision),
            "idempotencyKey": self.key(),
        });
        Command::new(16, &[], who, body)
    }

    fn receipt_request(&mut self) -> (Value, Value, Value) {
        (
            self.pick(&[
                json!("requested"),
                json!("requested"),
                json!("requested"),
                json!("not_requested"),
                json!("unknown"),
            ]),
            self.pick(&[
                json!("income_deduction"),
                json!("income_deduction"),
                json!("business_expense_proof"),
                json!("unknown"),
            ]),
            self.pick(&[json!("identity-1"), json!("identity-1"), Value::Null]),
        )
    }

    fn receipt(&mut self) -> Command {
        let who = self.below(ACTORS.len());
        let (state, purpose, reference) = self.receipt_request();
        let obligation = self.pick(&[
            "customer_share_deposit",
            "customer_share_balance",
            "service_balance",
            "pre_reservation_deposit",
            "gift_coupon_purchase",
        ]);
        let mut body =
            json!({"obligationPurpose": obligation, "requestState": state, "purpose": purpose});
        if !reference.is_null() || self.chance(50) {
            body["registrationIdentityReference"] = reference;
        }
        let plan = self.pick(&["PLAN-0", "PLAN-1", "PLAN-2", "PLAN-9"]);
        Command::new(17, &[plan], who, body)
    }

    fn confirm(&mut self, model: &Model) -> Command {
        let drafts = model.recent("reservation-draft");
        let id = self.standing(&drafts, "D");
        let draft = model.fact("reservation-draft", &id);
        let owner = draft
            .map_or("user-m1", |draft| s(&draft.facts, "ownerSubject"))
            .to_owned();
        let who = self.mother_of(&owner);
        let current = draft.and_then(|draft| draft.facts["currentReviewProjectionId"].as_str());
        let review_id = match current {
            Some(current) if self.chance(93) => current.to_owned(),
            _ => format!("{}{id}", self.pick(&["RP", "RX"])),
        };
        let review = model.fact("final-review-projection", &review_id);
        let body = json!({
            "expectedDraftRevision": self.revision(draft.map_or(1, |draft| draft.revision)),
            "reservationDraftStepAuthorityProjectionId": review_id,
            "expectedReviewRevision": self.revision(review.map_or(1, |review| review.revision)),
        });
        Command::new(18, &[&id], who, body)
    }

    fn update_office(&mut self, model: &Model) -> Command {
        let mut id = self.pick(&["branch-1", "branch-2", "branch-3"]).to_owned();
        if self.chance(20)
            && let Some(branch) = self.late(&model.branches, 5)
        {
            id.clone_from(&branch.id);
        }
        let revision = model
            .offices
            .get(&id)
            .map_or(1, |office| n(office, "revisionNumber"));
        let good: &[usize] = if id == "branch-1" {
            &[6, 7, 9, 10]
        } else {
            &[9, 10]
        };
        let who = self.who(good);
        let body = json!({
            "commandId": if self.chance(97) { self.key() } else { self.near("office", 5, 100) },
            "revisionId": self.near("REV", 60, 15),
            "branchOfficeProfileId": id,
            "expectedRevision": self.revision(revision),
            "displayName": self.pick(&["서울 1지점", "서울 2지점"]),
            "legalName": "서울산후케어 주식회사",
            "contactEmail": "seoul@example.com",
            "primaryPhoneNumber": "+82212345678",
            "addressLine": "세종대로 110",
            "businessRegistrationReference": "registration-1",
            "reason": "moved",
        });
        Command::new(19, &[], who, body)
    }

    fn pre_register(&mut self, model: &Model) -> Command {
        if self.chance(10)
            && let Some(held) = self.late(&model.registrations, 6)
        {
            // The same once more, under another key.
            let receipt = &held.body["cashReceiptEligibilitySnapshot"];
            let body = json!({
                "paymentId": held.id,
                "cashReceiptIssueRequest": {
                    "requestState": receipt["requestState"],
                    "purpose": receipt["requestedPurpose"],
                    "registrationIdentityReference": receipt["registrationIdentityReference"],
                },
            });
            let actor = ACTORS.iter().position(|who| who.subject == held.subject);
            let who = self.who(&[actor.unwrap_or_default()]);
            return Command::new(20, &[], who, body);
        }
        let ids = model.recent("payment-obligation");
        let id = self.standing(&ids, "PAY");
        let facts = model.fact("payment-obligation", &id);
        let mother = facts
            .map_or("user-m1", |fact| s(&fact.facts, "motherUserId"))
            .to_owned();
        let who = match self.below(6) {
            0 | 1 => self.mother_of(&mother),
            2 | 3 => {
                let booking = facts.map_or("", |fact| s(&fact.facts, "reservationBookingId"));
                let payer = model
                    .delegations
                    .iter()
                    .rfind(|held| s(&held.body, "reservationBookingId") == booking)
                    .and_then(|held| {
                        let payer = s(&held.body, "payerMemberId");
                        ACTORS.iter().position(|who| who.member == Some(payer))
                    });
                self.who(&[payer.unwrap_or(3)])
            }
            _ => self.who(&[11, 12, 13, 14]),
        };
        let (state, purpose, reference) = self.receipt_request();
        let body = json!({
            "paymentId": id,
            "cashReceiptIssueRequest": {
                "requestState": state,
                "purpose": purpose,
                "registrationIdentityReference": reference,
            },
        });
        Command::new(20, &[], who, body)
    }

    fn administer(&mut self, model: &Model) -> Command {
        let who = self.who(&[HEADQUARTERS, 11]);
        let payments = model.recent("gateway-payment");
        let mut body = json!({
            "operationAction": self.pick(&[
                "lookup_payment",
                "search_payments",
                "close_virtual_account",
                "inspect_refund_status",
                "inspect_chargeback_status",
                "record_chargeback",
                "record_chargeback",
            ]),
            "reason": "asked for",
            "idempotencyKey": self.key(),
        });
        if self.chance(95) {
            body["paymentId"] = json!(self.standing(&payments, "GP"));
        }
        if self.chance(70) {
            body["searchKey"] = json!(self.near("search", 3, 200));
        }
        if self.chance(80) {
            body["amountKrw"] = json!(self.pick(&[100, 1_000, 60_000, 200_000, 0]));
        }
        if self.chance(30) {
            body["reservationBookingId"] = self.pick(&[json!("B-1"), Value::Null]);
        }
        let revision = model.gateway_revisions.get(&Model::gateway_subject(&body));
        let revision = revision.copied().unwrap_or_default();
        body["expectedRevision"] = match self.below(12) {
            0 => json!(revision + 1),
            1 => json!(revision - 1),
            _ => json!(revision),
        };
        Command::new(21, &[], who, body)
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

    fn facts(&mut self, model: &Model) -> Command {
        let count = self.pick(&[0, 1, 1, 1, 1, 2, 2, 3]);
        let facts: Vec<_> = (0..count).map(|_| self.fact(model)).collect();
        let who = if self.chance(98) {
            WORKFLOW
        } else {
            self.below(ACTORS.len())
        };
        Command::new(FACTS, &[], who, json!({"facts": facts}))
    }

    fn fact(&mut self, model: &Model) -> Value {
        let kind = self.pick(&KINDS);
        let (id, mut facts) = self.facts_of(kind, model);
        let held = model.fact(kind, &id);
        let mut revision = held.map_or(1, |held| held.revision + 1);
        if let Some(held) = held {
            match self.below(10) {
                // The same once more.
                0 if held.known => {
                    revision = held.revision;
                    facts = held.facts.clone();
                }
                1 if held.known => revision = held.revision,
                2 => revision = held.revision - 1,
                3 => revision = held.revision + 3,
                _ => {}
            }
        } else if self.chance(10) {
            revision = 4;
        }
        if self.chance(1) {
            facts["surprise"] = json!(1);
        }
        if self.chance(30) {
            facts = self.with_nulls(facts);
        }
        json!({"kind": kind, "id": id, "revision": revision, "facts": facts})
    }

    /// The same facts in another form.
    fn with_nulls(&mut self, mut facts: Value) -> Value {
        for member in [
            "verifiedPhone",
            "familyAccountId",
            "capKrw",
            "virtualAccountState",
        ] {
            if facts.get(member).is_none_or(Value::is_null)
                && let Some(members) = facts.as_object_mut()
            {
                members.remove(member);
            }
        }
        self.rewrite(&mut facts);
        facts
    }

    fn mother(&mut self) -> (&'static str, &'static str) {
        let (_, subject, member) = self.pick(&MOTHERS);
        (subject, member)
    }

    fn facts_of(&mut self, kind: &str, model: &Model) -> (String, Value) {
        match kind {
            "actor" => {
                let id = self.pick(&["user-m2", "user-hq2"]).to_owned();
                let lifecycle = self.pick(&[
                    "active",
                    "active",
                    "active",
                    "active",
                    "active",
                    "active",
                    "inactive",
                    "withdrawn",
                    "sleeping",
                ]);
                (id, json!({"lifecycle": lifecycle}))
            }
            "family-account" => {
                let place = self.below(MOTHERS.len());
                let member = MOTHERS[place].2;
                let members = self.pick(&[
                    json!([member, "member-f1", "member-f2"]),
                    json!([member, "member-f1", "member-f2"]),
                    json!([member, "member-f2"]),
                ]);
                (
                    format!("FA-{place}"),
                    json!({"motherMemberId": member, "memberIds": members}),
                )
            }
            "reservation-booking" => {
                let known = model.recent(kind);
                let id = if self.chance(30) {
                    self.standing(&known, "B")
                } else {
                    self.near("B", 6, 300)
                };
                let (user, member) = mother_of_booking(&id);
                let mut facts = json!({
                    "motherUserId": user,
                    "motherMemberId": member,
                    "branchProfileId": self.pick(&["branch-1", "branch-2"]),
                });
                if let Some(held) = model.booking(&id) {
                    facts = held.facts.clone();
                }
                facts["state"] = json!(self.pick(&[
                    "active",
                    "active",
                    "active",
                    "active",
                    "active",
                    "completed",
                    "cancelled"
                ]));
                (id, facts)
            }
            "mother-profile" => self.profile_facts(),
            "consent-version" => {
                let id = format!(
                    "{}@{}",
                    self.pick(&["privacy", "terms", "marketing"]),
                    self.pick(&["v1", "v2"])
                );
                let at = model.now + self.pick(&[-1_000, 0, 1_000_000, -1_000, -1_000]);
                let facts = json!({
                    "publishedAt": self.written(at),
                    "required": self.chance(40),
                    "current": self.chance(50),
                });
                (id, facts)
            }
            "reservation-draft" => self.draft_facts(model),
            "final-review-projection" => self.review_facts(model),
            "extension-eligibility" => {
                let (user, _) = self.mother();
                let bookings = model.recent("reservation-booking");
                (
                    user.to_owned(),
                    json!({"eligibleReservationBookingIds": bookings}),
                )
            }
            "payment-product-plan" => self.plan_facts(),
            "payment-obligation" => {
                let known = model.recent(kind);
                let id = if self.chance(15) {
                    self.standing(&known, "PAY")
                } else {
                    self.near("PAY", 6, 120)
                };
                let booking_id = self.booking(model);
                let (user, member) = mother_of_booking(&booking_id);
                let booking = model
                    .booking(&booking_id)
                    .map(|booking| booking.facts.clone());
                let booking = booking.unwrap_or(json!({
                    "motherUserId": user,
                    "motherMemberId": member,
                    "branchProfileId": "branch-1",
                }));
                let mut facts = json!({
                    "reservationBookingId": booking_id,
                    "paymentMethod": self.pick(&["card", "bank", "vcnt"]),
                    "paymentPurpose": self.pick(&["customer_share_deposit", "customer_share_balance", "service_balance"]),
                    "amountKrw": self.pick(&[1, 99_999, 100_000, 333_333, 500_000, 900_001]),
                    "paymentProductPlanCode": self.pick(&["PLAN-0", "PLAN-0", "PLAN-1", "PLAN-9"]),
                    "motherUserId": booking["motherUserId"],
                    "motherMemberId": booking["motherMemberId"],
                    "branchProfileId": booking["branchProfileId"],
                    "state": self.pick(&["open", "open", "open", "open", "open", "paid", "cancelled"]),
                });
                // What is owed stays the same mother's.
                if let Some(held) = model.fact(kind, &id) {
                    for member in [
                        "reservationBookingId",
                        "motherUserId",
                        "motherMemberId",
                        "branchProfileId",
                    ] {
                        facts[member] = held.facts[member].clone();
                    }
                }
                (id, facts)
            }
            "candidate-snapshot" => {
                let facts = json!({
                    "matchingRequestKey": self.pick(&["MR-1", "MR-2"]),
                    "reservationBookingId": self.booking(model),
                    "expiresAt": self.later(model, 7_200_000),
                    "candidates": [
                        {"caregiverProfileId": "c-1", "role": "primary", "scheduleProofId": "proof-1", "otherAreaService": false},
                        {"caregiverProfileId": "c-2", "role": "primary", "scheduleProofId": "proof-2", "otherAreaService": true},
                    ],
                });
                (self.near("CS", 6, 100), facts)
            }
            "payout-instruction" => {
                let mut facts = json!({
                    "reservationBookingId": self.booking(model),
                    "contractAssignmentKey": self.pick(&["CA-1", "CA-2"]),
                    "caregiverRole": "primary",
                    "handoffOrder": self.pick(&[1, 2]),
                    "amountKrw": 1_000,
                });
                if self.chance(50) {
                    facts["caregiverId"] = json!("c-1");
                }
                (self.near("PI", 6, 150), facts)
            }
            "reservation-financial-facts" => {
                let (caregiver, headquarters) =
                    self.pick(&[(7_000, 1_000), (3_333, 3_333), (10_000, 0), (0, 0)]);
                let mut facts = json!({
                    "caregiverShareBasisPoints": caregiver,
                    "headquartersShareBasisPoints": headquarters,
                });
                if self.chance(50) {
                    facts["careDeliverySessionCode"] = json!("session-1");
                    facts["deliveredDayCount"] = json!(10);
                }
                (self.booking(model), facts)
            }
            "regional-benefit-policy" => self.policy_facts(),
            "payment-change-adjustment" => self.adjustment_facts(model),
            "branch-office-profile" => {
                let id = self.pick(&["branch-1", "branch-2", "branch-3"]).to_owned();
                let facts = json!({
                    "displayName": self.pick(&["서울 1지점", "서울 3지점"]),
                    "legalName": "서울산후케어 주식회사",
                    "contactEmail": "seoul@example.com",
                    "primaryPhoneNumber": "+82212345678",
                    "addressLine": "세종대로 110",
                    "businessRegistrationReference": "registration-1",
                });
                (id, facts)
            }
            "settlement-account" => {
                let mut facts = json!({
                    "branchOfficeProfileId": self.pick(&["branch-1", "branch-1", "branch-2", "branch-9"]),
                    "purpose": "branch_settlement",
                    "bankName": self.pick(&["한빛은행", "새벽은행"]),
                    "accountHolder": "서울산후케어 주식회사",
                    "maskedAccountReference": "110-***-1",
                    "verificationState": self.pick(&["verified", "verified", "verified", "pending", "rejected"]),
                    "effectiveFrom": "2026-01-01",
                });
                if self.chance(50) {
                    facts["effectiveUntil"] = json!("2030-12-31");
                }
                (
                    self.pick(&["SA-0", "SA-1", "SA-2", "SA-3"]).to_owned(),
                    facts,
                )
            }
            "relationship" => {
                let (id, object, subject) = self.pick(&[
                    ("REL-0", "branch/branch-1", "user-bf1"),
                    ("REL-1", "branch/branch-2", "user-bf1"),
                    ("REL-2", "headquarters", "user-hf1"),
                    ("REL-3", "headquarters", "user-hf2"),
                    ("REL-4", "branch/branch-1", "user-bf2"),
                ]);
                let facts = json!({
                    "object": object,
                    "relation": self.pick(&["finance_operator", "finance_operator", "finance_operator", "viewer"]),
                    "subject": subject,
                    "state": self.pick(&["applied", "applied", "applied", "revoked"]),
                });
                (id.to_owned(), facts)
            }
            _ => {
                let method = self.pick(&["card", "vcnt", "vcnt"]);
                let mut facts = json!({
                    "method": method,
                    "amountKrw": self.pick(&[1_000, 100_000]),
                    "refundState": "none",
                    "chargebackState": "none",
                    "chargedBackKrw": 0,
                    "searchKeys": ["search-1"],
                });
                if method == "vcnt" {
                    facts["virtualAccountState"] = json!(self.pick(&["open", "open", "closed"]));
                }
                (self.near("GP", 5, 150), facts)
            }
        }
    }

    fn profile_facts(&mut self) -> (String, Value) {
        let (id, owner, email) = self.pick(&[
            ("MP-1", "user-m1", "mother-1@example.com"),
            ("MP-2", "user-m2", "mother-2@example.com"),
            ("MP-4", "user-m4", "mother-4@example.com"),
            ("MP-9", "user-m1", "mother-1@example.com"),
        ]);
        // The same address, spelled by another system, or by the mother herself.
        let spelled = |email: &str, how: usize| match how {
            0 => email.to_ascii_uppercase(),
            1 => email.replace('m', "M"),
            2 => email.replace("example", "EXAMPLE"),
            _ => email.to_owned(),
        };
        let (own, normal) = (
            spelled(email, self.below(6)),
            spelled(email, self.below(12)),
        );
        let phone = self.pick(&["+821012345678", "+821012345679"]);
        let mut facts = json!({
            "ownerSubject": owner,
            "motherAccountId": format!("account-{owner}"),
            "accountLifecycle": self.pick(&["active", "active", "active", "active", "active", "active", "withdrawal_pending", "withdrawn"]),
            "fullName": "김하늘",
            "birthDate": "1992-03-14",
            "email": own,
            "primaryPhoneNumber": phone,
            "address": {"postalCode": "04524", "roadAddress": "세종대로 110", "detailAddress": "1호"},
            "ownershipState": self.pick(&["pending", "applied"]),
            "createdAt": "2026-01-01T00:00:00.000Z",
        });
        if self.chance(92) {
            facts["verifiedEmail"] = json!({
                "receiptId": "email-receipt",
                "normalizedValue": if self.chance(92) { &normal } else { "other@example.com" },
                "verifiedAt": "2026-01-02T09:00:00+09:00",
            });
        }
        if self.chance(92) {
            facts["verifiedPhone"] = json!({
                "receiptId": "phone-receipt",
                "normalizedValue": if self.chance(92) { phone } else { "+821000000000" },
                "verifiedAt": "2026-01-02T00:00:00.000Z",
            });
        }
        if facts["ownershipState"] == "applied" {
            facts["relationshipReceiptId"] = json!("relationship-receipt");
            facts["appliedAt"] = json!("2026-01-03T00:00:00.000Z");
        }
        (id.to_owned(), facts)
    }

    fn draft_facts(&mut self, model: &Model) -> (String, Value) {
        let id = self.near("D", 5, 100);
        let (user, member) = self.mother();
        let review = self.pick(&["RP", "RP", "RP", "RP", "RP", "RP", "RP", "RX", ""]);
        let mut facts = json!({
            "ownerSubject": user,
            "motherMemberId": member,
            "branchProfileId": self.pick(&["branch-1", "branch-2"]),
            "intent": self.pick(&["consultation", "extension", "extension", "pre_reservation", "full_reservation"]),
        });
        if let Some(held) = model.fact("reservation-draft", &id) {
            facts = held.facts.clone();
        }
        facts["expiresAt"] = self.later(model, 36_000_000);
        facts["currentReviewProjectionId"] = if review.is_empty() {
            Value::Null
        } else {
            json!(format!("{review}{id}"))
        };
        facts["disabledReasonCodes"] = self.pick(&[
            json!([]),
            json!([]),
            json!([]),
            json!([]),
            json!([]),
            json!([]),
            json!(["contract_missing"]),
        ]);
        (id, facts)
    }

    fn review_facts(&mut self, model: &Model) -> (String, Value) {
        let drafts = model.recent("reservation-draft");
        let draft_id = self.standing(&drafts, "D");
        let draft = model.fact("reservation-draft", &draft_id);
        let mut dependencies = Vec::new();
        for (kind, prefix, path) in [
            (
                "payment-product-plan",
                "PLAN",
                "payment.paymentProductPlanCode",
            ),
            ("family-account", "FA", "family"),
        ] {
            if self.chance(30) {
                let id = format!("{prefix}-{}", self.below(2));
                let revision = model.fact(kind, &id).map_or(1, |fact| fact.revision);
                let dependency = json!({"kind": kind, "id": id, "revision": self.revision(revision), "fieldPath": path});
                dependencies.push(dependency);
            }
        }
        let methods = self.pick(&[
            json!(["card", "bank"]),
            json!(["vcnt"]),
            json!(["bank", "card", "vcnt"]),
        ]);
        let mut facts = json!({
            "draftId": draft_id,
            "reviewedFacts": {"days": self.below(20), "note": "산후 \"care\"", "nested": {"z": null, "a": [true, -3]}},
            "dependencies": dependencies,
            "payment": {
                "payableAmountKrw": self.pick(&[1, 54_321, 100_000, 500_000]),
                "eligiblePaymentMethodCodes": methods,
                "paymentPurpose": self.pick(&["customer_share_deposit", "service_balance"]),
                "paymentProductPlanCode": self.pick(&["PLAN-0", "PLAN-1"]),
            },
        });
        if draft.is_some_and(|draft| draft.facts["intent"] == "extension") && self.chance(95) {
            let owner = draft.map_or("", |draft| s(&draft.facts, "ownerSubject"));
            let catalog = model.fact("extension-eligibility", owner);
            let eligible: Vec<_> = catalog
                .map(|catalog| texts(&catalog.facts, "eligibleReservationBookingIds"))
                .unwrap_or_default()
                .into_iter()
                .map(str::to_owned)
                .collect();
            facts["extensionSourceReservationId"] = json!(self.standing(&eligible, "B"));
            facts["extensionCatalogRevision"] =
                json!(self.revision(catalog.map_or(1, |catalog| catalog.revision)));
        }
        let prefix = self.pick(&["RP", "RP", "RP", "RX"]);
        (format!("{prefix}{draft_id}"), facts)
    }

    fn plan_facts(&mut self) -> (String, Value) {
        let (merchant, channel, issuer) = self.pick(&[
            (
                "operator",
                "provider_collected",
                "provider_on_behalf_of_operator",
            ),
            (
                "operator",
                "provider_collected",
                "provider_on_behalf_of_operator",
            ),
            ("operator", "provider_collected", "external_partner"),
            ("caregiver", "direct_to_caregiver", "none"),
        ]);
        let facts = json!({
            "obligationPurposes": ["customer_share_deposit", "customer_share_balance", "service_balance"],
            "receiptablePurposes": self.pick(&[json!(["customer_share_deposit", "service_balance"]), json!([])]),
            "acceptedReceiptPurposes": self.pick(&[json!(["income_deduction"]), json!(["income_deduction", "business_expense_proof"])]),
            "merchantOfRecord": merchant,
            "collectionChannel": channel,
            "receiptIssuer": issuer,
            "providerRoutingKey": "gateway.main",
            "settlementParticipation": "customer_charge",
            "ledgerRecognitionTiming": "immediate",
            "feeRecognitionBasis": "gateway_gross_amount",
            "settlementLineTargets": ["customer_charge"],
            "freezesCustomerVisibleAmountAfterPayment": true,
            "laterCatalogChangesCanAlterExposedResult": false,
            "cardRateBps": if self.chance(50) { 5_000 } else { self.below(10_001) },
            "bankRateBps": 150,
            "virtualAccountRateBps": 0,
        });
        (self.pick(&["PLAN-0", "PLAN-1", "PLAN-2"]).to_owned(), facts)
    }

    fn policy_facts(&mut self) -> (String, Value) {
        let mut facts = json!({
            "serviceType": self.pick(&["svc-1", "svc-2"]),
            "level1": self.pick(&["서울", "부산"]),
            "effectiveFrom": self.pick(&["2026-01-01", "2026-07-01", "2026-11-01"]),
        });
        if self.chance(60) {
            facts["level2"] = json!(self.pick(&["강남", "서초"]));
            if self.chance(60) {
                facts["level3"] = json!("역삼");
            }
        }
        if self.chance(40) {
            facts["effectiveUntil"] = json!(self.pick(&["2026-11-01", "2026-06-30", "2026-12-31"]));
        }
        if s(&facts, "effectiveUntil") < s(&facts, "effectiveFrom")
            && let Some(members) = facts.as_object_mut()
        {
            members.remove("effectiveUntil");
        }
        if self.chance(50) {
            facts["fixedKrw"] = json!(self.below(200_000));
            if self.chance(2) {
                facts["fixedKrw"] = json!(-1);
            }
        } else {
            facts["basisPoints"] = json!(self.below(10_001));
        }
        if self.chance(50) {
            facts["capKrw"] = json!(self.below(150_000));
            if self.chance(2) {
                facts["capKrw"] = json!(-1);
            }
        }
        (format!("POL-{}", self.below(8)), facts)
    }

    fn adjustment_facts(&mut self, model: &Model) -> (String, Value) {
        let id = self.near("ADJ", 6, 120);
        let booking_id = self.booking(model);
        let (user, _) = mother_of_booking(&booking_id);
        let owner = model
            .booking(&booking_id)
            .map(|booking| s(&booking.facts, "motherUserId").to_owned());
        // No two adjustments of a booking were requested at one moment.
        self.serial += 1;
        let amount = self.pick(&[40_000, 40_000, 40_000, 1, 0, -100]);
        let mut facts = json!({
            "reservationBookingId": booking_id,
            "motherUserId": owner.as_deref().unwrap_or(user),
            "customerDeltaKrw": 50_000,
            "couponAdjustmentKrw": -10_000,
            "pureCustomerAmountKrw": 50_000,
            "motherPayableAdjustmentKrw": amount,
            "adjustmentStatus": self.pick(&["payable", "payable", "payable", "requested", "cancelled"]),
            "requestedAt": moment(1_780_000_000_000 + self.serial * 1_000),
        });
        if self.chance(40) {
            facts["preRegistration"] = json!({
                "paymentId": format!("for-{id}"),
                "providerName": "gateway",
                "preRegisteredAt": "2026-10-02T01:00:00.000Z",
            });
        }
        (id, facts)
    }
}

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

/// Whose a booking of the pools is, also before it exists: the facts about it agree.
fn mother_of_booking(id: &str) -> (&'static str, &'static str) {
    let sum: usize = id.bytes().map(usize::from).sum();
    let (_, subject, member) = MOTHERS[sum % MOTHERS.len()];
    (subject, member)
}

fn texts_of(items: &[Value], member: &str) -> Vec<String> {
    items
        .iter()
        .map(|item| s(item, member).to_owned())
        .collect()
}
