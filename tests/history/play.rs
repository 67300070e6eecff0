//! The walk through all operations, and some facts behind it, with everything that can be read after
//! each step.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use carebook::base::actor::ActorKind;
use carebook::base::time::Timestamp;
use carebook::catalogue::KeySource;
use carebook::cli::serve::walk::{PARTS, Step};
use carebook::domain::reference::samples;
use carebook::domain::sample_actors::sample_actors;
use serde_json::{Value, json};

use crate::support::{Client, Server, World, good, text_of};

/// What is read, with names for what the answers have said.
const PATHS: &[&str] = &[
    "/settlement-statements/$statementId",
    "/settlement-data-room-requests/$requestId",
    "/family-payment-delegations/$paymentDelegationId",
    "/reservation-care-history-access-grants/$reservationCareHistoryAccessGrantId",
    "/mother/profile",
    "/admin/branches/$branchId",
    "/branch-office-profiles/branch-seoul-1",
    "/branch-office-profiles/$branchId",
    "/care-team-rosters/reservation-booking-1",
    "/caregiver-payout-receipt-states/reservation-booking-1/contract-assignment-1/payout-instruction-1",
    "/reservation-financial-lifecycles/reservation-booking-1",
    "/reservation-financial-lifecycles/reservation-booking-2",
    "/reservation-payment-change-adjustments/reservation-booking-1",
    "/reservation-payment-change-adjustments/reservation-booking-2",
    "/reservation-payment-pre-registrations/$paymentObligationId",
    "/branch-settlement-account-statement-snapshots/$snapshotId",
    "/billing-engine-payment-admin-operations/$billingAdminOperationAuditId",
];

/// A body that was read.
pub struct Seen {
    pub path: String,
    pub who: usize,
    pub body: Vec<u8>,
    pub tag: String,
    /// A time at which this was its state.
    pub at: String,
    /// How many commits the test had made before.
    pub looks: usize,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} {}", self.path, self.who, self.tag, self.at)
    }
}

pub struct Play {
    pub world: World,
    server: Option<Server>,
    kept: BTreeMap<String, String>,
    pub seen: Vec<Seen>,
    looks: usize,
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

impl Play {
    /// With the sample facts.
    pub fn begin(world: World) -> Self {
        let server = Server::start(&world);
        let facts: Vec<Value> = samples::lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let placed = server.client().put_facts(&world.workflow(), &facts);
        assert_eq!(placed.status, 200, "{placed:?}");
        let mut play = Self {
            world,
            server: Some(server),
            kept: BTreeMap::new(),
            seen: Vec::new(),
            looks: 0,
        };
        play.look();
        play
    }

    pub fn client(&self) -> Client {
        self.server.as_ref().unwrap().client()
    }

    pub fn end(&mut self) {
        assert_eq!(self.server.take().unwrap().stop(), Some(0));
    }

    /// Ends the server, if one runs, and starts another one.
    pub fn again(&mut self) {
        if self.server.is_some() {
            self.end();
        }
        self.server = Some(Server::start(&self.world));
    }

    /// Tokens of the cast, in the order of [`ActorKind::ALL`].
    pub fn tokens(&self) -> Vec<String> {
        let tokens = sample_actors().into_iter();
        tokens.map(|actor| self.world.token(&actor)).collect()
    }

    pub fn headquarters(&self) -> String {
        self.tokens()[4].clone()
    }

    /// A path with what the answers have said.
    pub fn path(&self, path: &str) -> String {
        let kept = self.kept.iter().rev();
        kept.fold(path.to_owned(), |path, (name, value)| {
            path.replace(&format!("${name}"), value)
        })
    }

    /// All paths that are known by now.
    pub fn paths(&self) -> Vec<String> {
        let paths = PATHS.iter().map(|path| self.path(path));
        paths.filter(|path| !path.contains('$')).collect()
    }

    /// Everybody reads everything; then the time goes on.
    pub fn look(&mut self) {
        let mut client = self.client();
        let tokens = self.tokens();
        let mut seen = Vec::new();
        for path in self.paths() {
            for (who, token) in tokens.iter().enumerate() {
                let found = client.get(&path, token);
                if found.status == 200 {
                    seen.push(Seen {
                        path: path.clone(),
                        who,
                        tag: found.header("etag").unwrap().to_owned(),
                        body: found.body,
                        at: String::new(),
                        looks: self.looks,
                    });
                }
            }
        }
        let time = now();
        let at = Timestamp::from_millis(time).to_string();
        self.looks += 1;
        self.seen.extend(seen.into_iter().map(|seen| Seen {
            at: at.clone(),
            ..seen
        }));
        // The next commit is later.
        while now() <= time {
            std::hint::spin_loop();
        }
    }

    fn keep(&mut self, answer: &Value) {
        match answer {
            Value::Object(members) => {
                for (name, value) in members {
                    if let Some(text) = value.as_str().filter(|_| name.ends_with("Id")) {
                        self.kept
                            .entry(name.clone())
                            .or_insert_with(|| text.to_owned());
                    }
                    self.keep(value);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.keep(item)),
            _ => {}
        }
    }

    /// Every operation.
    pub fn walk(&mut self) {
        for step in PARTS.iter().flat_map(|part| part.steps) {
            self.step(step);
        }
    }

    fn step(&mut self, step: &Step) {
        let Some(row) = step.row() else {
            return;
        };
        let mut headers = vec![("Content-Type", "application/json")];
        let bearer = step.who().map(|kind: ActorKind| {
            let actor = sample_actors().into_iter().find(|actor| actor.kind == kind);
            format!("Bearer {}", self.world.token(&actor.unwrap()))
        });
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        let key = format!("walk-{}", row.tag);
        if row.key == KeySource::Header {
            headers.push(("Idempotency-Key", &key));
        }
        let body = self.path(&step.body().unwrap_or_default());
        let path = self.path(&step.path());
        let mut client = self.client();
        let answer = client.request(good::method(row), &path, &headers, body.as_bytes());
        assert_eq!(answer.status, step.status(), "{}: {answer:?}", step.title);
        for name in step.kept() {
            if let Some(value) = text_of(&answer.json(), name) {
                self.kept.insert((*name).to_owned(), value);
            }
        }
        let answer = answer.json();
        self.keep(&answer);
        self.look();
    }

    /// A sample fact as its system has it later: at this revision, with these fields.
    pub fn fact(&mut self, kind: &str, id: &str, revision: i64, members: &Value) {
        let samples = samples::lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_kind: Vec<_> = samples.filter(|fact| fact["kind"] == kind).collect();
        let own = of_kind.iter().find(|fact| fact["id"] == id);
        let mut fact = own.unwrap_or(&of_kind[0]).clone();
        fact["id"] = json!(id);
        fact["revision"] = json!(revision);
        for (name, value) in members.as_object().unwrap() {
            fact["facts"][name] = value.clone();
        }
        let put = self.client().put_facts(&self.world.workflow(), &[fact]);
        assert!(put.text().contains("applied"), "{kind} {id}: {put:?}");
        self.look();
    }

    /// Facts behind the walk: what is joined to a profile, an adjustment that takes the place of
    /// another, revisions that are passed over, who has to do with what.
    pub fn facts(&mut self) {
        let version = "consent-version";
        self.fact(version, "privacy@2026-01", 1, &json!({"required": true}));
        self.fact(version, "privacy@2025-01", 2, &json!({"current": false}));
        let adjustment = "payment-change-adjustment";
        let booking = "reservation-booking-1";
        for (id, revision, requested) in [
            ("adjustment-8", 1, "2026-11-19T00:00:00Z"),
            ("adjustment-9", 1, "2026-11-20T00:00:00Z"),
            // Behind the latest one, and past it.
            ("adjustment-8", 2, "2026-11-19T12:00:00Z"),
            ("adjustment-8", 3, "2026-11-21T00:00:00Z"),
            // And back behind it, which is shown once more, and changes.
            ("adjustment-8", 4, "2026-11-18T00:00:00Z"),
            ("adjustment-8", 5, "2026-11-18T01:00:00Z"),
            ("adjustment-8", 6, "2026-11-18T02:00:00Z"),
            ("adjustment-8", 7, "2026-11-18T03:00:00Z"),
            ("adjustment-9", 2, "2026-11-20T12:00:00Z"),
        ] {
            let members = json!({"requestedAt": requested, "reservationBookingId": booking});
            self.fact(adjustment, id, revision, &members);
        }
        // Shown for a while, in the place of one that is shown again in the end.
        for (revision, requested) in [(1, "2100-01-01T00:00:00Z"), (2, "2000-01-01T00:00:00Z")] {
            let booking = "reservation-booking-2";
            let members = json!({"requestedAt": requested, "reservationBookingId": booking});
            self.fact(adjustment, "adjustment-7", revision, &members);
        }
        let profile = json!({"displayName": "another"});
        self.fact("branch-office-profile", "branch-seoul-1", 9, &profile);
        let branch = json!({"branchProfileId": "branch-elsewhere"});
        self.fact("reservation-booking", booking, 2, &branch);
    }
}
