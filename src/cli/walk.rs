//! A walk through all operations with the sample data, as shell commands: what the demonstration
//! prints, and docs/walkthrough.md, come from here.
//!
//! Each step is a `curl` line that works as it is pasted, in the order given, against a fresh
//! demonstration; what a later step needs of a response is kept in a variable. No step needs more
//! than `sh`, `curl` and `sed`. Idempotency keys are literal, so that a second walk is a walk of
//! replays.

use std::fmt::Write as _;

use crate::base::actor::ActorKind;
use crate::catalogue::{KeySource, Method, OPERATIONS, Row, Success};
use crate::domain::example;

/// The variable that holds the address of the service.
pub const ADDRESS: &str = "CAREBOOK";
/// The last line of the walk as it is printed.
pub const END: &str = "# That was all of it. Pasted once more, it is answered by replays.";

/// What a step calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The operation of this name, with its example.
    Operation(&'static str),
    /// A read: who asks, and the path.
    Read(ActorKind, &'static str),
}

/// One request.
#[derive(Debug)]
pub struct Step {
    /// The operation or read.
    pub call: Call,
    /// What happens, in one sentence that is safe in a shell comment: without quotes and the like.
    pub title: &'static str,
    /// Who sends it, if not the example's actor.
    pub by: Option<ActorKind>,
    /// Replacements in the example's path and body; `$name` stands for a variable of an earlier
    /// step.
    pub with: &'static [(&'static str, &'static str)],
    /// The fields of the response that are kept, each in a variable of its name.
    pub kept: &'static [&'static str],
    /// What to look at in the response; for the document.
    pub look: &'static str,
}

/// Steps that belong together.
#[derive(Debug)]
pub struct Part {
    /// What they are about.
    pub title: &'static str,
    /// The steps.
    pub steps: &'static [Step],
}

use Call::{Operation, Read};

/// A step that is its operation's example, or a read, and keeps nothing.
const STEP: Step = Step {
    call: Operation(""),
    title: "",
    by: None,
    with: &[],
    kept: &[],
    look: "",
};

/// The booking that the walk itself has created, instead of the sample data's.
const BOOKING: (&str, &str) = ("reservation-booking-1", "$reservationBookingId");

/// The walk.
pub static PARTS: &[Part] = &[
    Part {
        title: "A mother and her family",
        steps: &[
            Step {
                call: Operation("update_mother_profile"),
                title: "A mother completes her profile and accepts the published consent.",
                look: "`profileRevision` and `addressRevision` are 2, `profileCompleteness` is `complete`, \
                       and `start_reservation` is among `allowedNextActions`.",
                ..STEP
            },
            Step {
                call: Operation("confirm_reservation_draft"),
                title: "She confirms her reviewed draft: a booking and a payment obligation come into being.",
                kept: &["reservationBookingId", "paymentObligationId"],
                look: "The handoff asks for 300,000 won. The booking and the obligation are kept in \
                       `$reservationBookingId` and `$paymentObligationId`: the next steps use them at once.",
                ..STEP
            },
            Step {
                call: Operation("grant_payment_authority"),
                title: "She lets a member of her family pay for this booking, up to 500,000 won.",
                with: &[BOOKING],
                kept: &["paymentDelegationId"],
                look: "`authorityEvidence` names the facts that the grant rests on, with their revisions.",
                ..STEP
            },
            Step {
                call: Operation("authorize_payment"),
                title: "The payer proves the authority to pay 300,000 won.",
                with: &[BOOKING],
                look: "The delegation. With an `amountKrw` of 500001 it is a 400 \
                       `payment_grant_missing_or_out_of_scope`.",
                ..STEP
            },
            Step {
                call: Operation("grant_care_history_access"),
                title: "She lets the same member read the care history of the booking.",
                with: &[BOOKING],
                look: "A grant at `revision` 1.",
                ..STEP
            },
            Step {
                call: Read(
                    ActorKind::FamilyMember,
                    "/family-payment-delegations/$paymentDelegationId",
                ),
                title: "The payer reads the delegation.",
                look: "The body of the grant, unchanged. For anybody who is not concerned it is a 404.",
                ..STEP
            },
        ],
    },
    Part {
        title: "Payments",
        steps: &[
            Step {
                call: Operation("decide_cash_receipt_eligibility"),
                title: "The payer asks whether a cash receipt can be issued.",
                by: Some(ActorKind::FamilyMember),
                look: "`decisionState` is `accepted`, and the provider may issue it.",
                ..STEP
            },
            Step {
                call: Operation("pre_register_payment"),
                title: "The payer pre-registers the payment of the booking.",
                by: Some(ActorKind::FamilyMember),
                with: &[("payment-1", "$paymentObligationId")],
                look: "Three frozen snapshots: who pays by which delegation, the fee of 7,500 won \
                       (2.5 % of 300,000), and the decision on the receipt.",
                ..STEP
            },
            Step {
                call: Operation("capture_adjustment_payment"),
                title: "The mother pays the latest change of an earlier booking.",
                look: "`adjustmentStatus` is `paid`, and the settlement goes on: \
                       `settlementContinuationStatus` is `queued`.",
                ..STEP
            },
            Step {
                call: Operation("finalize_charge"),
                title: "A backend finalizes the charge of that booking; no token is needed.",
                with: &[
                    (
                        r#""quotedOn""#,
                        r#""serviceAddressLevel2": "중구",
  "quotedOn""#,
                    ),
                    (
                        r#""ownPriceKrw": 1000000"#,
                        r#""ownPriceKrw": 1000000,
  "couponDiscountAmountKrw": 50000,
  "amountByComponentCode": {"night_care": 30000}"#,
                    ),
                ],
                look: "The district's benefit is 10 % of the price, but at most 120,000 won, so that \
                       the mother pays 860,000. Of the gross 1,530,000 the caregiver gets 1,071,000, \
                       headquarters 153,000 and the branch the rest, 306,000.",
                ..STEP
            },
            Step {
                call: Operation("administer_gateway"),
                title: "Headquarters looks a payment up at the gateway.",
                look: "An audit, whatever the gateway says; here `operationStatus` is `succeeded`.",
                ..STEP
            },
        ],
    },
    Part {
        title: "Caregivers",
        steps: &[
            Step {
                call: Operation("assign_caregiver"),
                title: "The manager of the branch assigns a caregiver out of the frozen candidates.",
                look: "A decision of the kind `assign`. The roster was at revision 0 before it and is at 1 now.",
                ..STEP
            },
            Step {
                call: Operation("repair_payout_receipt"),
                title: "Headquarters repairs the receipt state of a payout.",
                look: "`receiptState` is `repaired`, at `revision` 1.",
                ..STEP
            },
            Step {
                call: Operation("acknowledge_payout_deposit"),
                title: "The manager acknowledges that this payout was deposited.",
                look: "`status` is `acknowledged`.",
                ..STEP
            },
            Step {
                call: Read(
                    ActorKind::BranchManager,
                    "/caregiver-payout-receipt-states/reservation-booking-1/contract-assignment-1/payout-instruction-1",
                ),
                title: "The manager reads the state of the payout.",
                look: "The acknowledgement has advanced the receipt state to `revision` 2.",
                ..STEP
            },
        ],
    },
    Part {
        title: "Settlement",
        steps: &[
            Step {
                call: Operation("request_deposit"),
                title: "Headquarters asks the branch for a deposit.",
                kept: &["statementId"],
                look: "A statement that is `awaiting_branch_deposit`; its identifier is kept in `$statementId`.",
                ..STEP
            },
            Step {
                call: Operation("snapshot_settlement_account"),
                title: "The manager freezes the settlement account of the branch for the statement.",
                with: &[(r#""statement-1""#, r#""$statementId""#)],
                look: "A copy of the account that no later change of it alters.",
                ..STEP
            },
            Step {
                call: Operation("acknowledge_deposit"),
                title: "The manager acknowledges the deposit, line by line.",
                look: "`status` is `awaiting_confirmation`. The memo of headquarters is null: it is not \
                       for branches.",
                ..STEP
            },
            Step {
                call: Read(
                    ActorKind::HeadquartersAdministrator,
                    "/settlement-statements/$statementId",
                ),
                title: "Headquarters reads the statement.",
                look: "The same statement, with the memo, and both transitions in `transitionAudits`.",
                ..STEP
            },
            Step {
                call: Operation("open_data_room_request"),
                title: "Headquarters asks for an export of the settlement lines.",
                kept: &["requestId"],
                look: "A request that is `open`; its identifier is kept in `$requestId`.",
                ..STEP
            },
            Step {
                call: Operation("mark_artifact_ready"),
                title: "The workflow that made the export says that it is ready.",
                look: "`status` is `ready`, and the journal has both commands.",
                ..STEP
            },
        ],
    },
    Part {
        title: "Branches",
        steps: &[
            Step {
                call: Operation("create_branch"),
                title: "Headquarters creates a branch and invites its first manager.",
                kept: &["branchId"],
                look: "`outcomeStatus` is `completed`: the embedded directory has done all side effects in \
                       the commit. The branch is kept in `$branchId`.",
                ..STEP
            },
            Step {
                call: Operation("accept_manager_invitation"),
                title: "The invited manager accepts.",
                look: "The membership is active; the relationship is `queued` in the outbox.",
                ..STEP
            },
            Step {
                call: Read(
                    ActorKind::HeadquartersAdministrator,
                    "/admin/branches/$branchId",
                ),
                title: "Headquarters reads the branch.",
                look: "It is at `revision` 2, its invitation is `accepted`.",
                ..STEP
            },
            Step {
                call: Operation("update_branch_office_profile"),
                title: "Headquarters renames the branch in Seoul.",
                look: "`revisionNumber` is 2.",
                ..STEP
            },
        ],
    },
];

/// The variable that holds the token of the demonstration's actor of this kind.
#[must_use]
pub fn token_variable(kind: ActorKind) -> String {
    kind.as_str().to_uppercase()
}

/// The text with variables for `$name`, inside single quotes of a shell.
fn in_single_quotes(text: &str) -> String {
    let mut quoted = String::from("'");
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        let end = after
            .find(|next: char| !next.is_ascii_alphanumeric())
            .unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let _ = write!(quoted, "{before}'\"${name}\"'");
        rest = after;
    }
    quoted + rest + "'"
}

impl Step {
    /// The operation that it calls; none for a read.
    ///
    /// # Panics
    /// When there is none of that name.
    #[must_use]
    pub fn row(&self) -> Option<&'static Row> {
        match self.call {
            Operation(name) => {
                let row = OPERATIONS.iter().find(|row| row.name == name);
                Some(row.expect("a step's operation is in the catalogue"))
            }
            Read(..) => None,
        }
    }

    /// Whose token it has; none for operations without a token.
    #[must_use]
    pub fn who(&self) -> Option<ActorKind> {
        match (self.call, self.row()) {
            (Read(who, _), _) => Some(who),
            (_, Some(row)) if row.bearer => self.by.or(Some(row.operation.example().actor)),
            _ => None,
        }
    }

    /// A text of the example, with the step's replacements.
    fn with(&self, text: &str) -> String {
        let with = self.with.iter();
        with.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// The path; `$name` stands for a variable of an earlier step.
    #[must_use]
    pub fn path(&self) -> String {
        match (self.call, self.row()) {
            (_, Some(row)) => {
                let example = row.operation.example();
                example.path(row.path, &|parameter| self.with(parameter))
            }
            (Read(_, path), None) => path.to_owned(),
            (Operation(_), None) => String::new(),
        }
    }

    /// The body, like the path; none for a read.
    #[must_use]
    pub fn body(&self) -> Option<String> {
        let row = self.row()?;
        let key = format!(r#""idempotencyKey": "{}""#, example::KEY);
        let own_key = format!(r#""idempotencyKey": "walk-{}""#, row.tag);
        let body = row.operation.example().body;
        Some(self.with(&body.replace(&key, &own_key)))
    }

    /// The status of its response, the first time.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self.row().map(|row| row.success) {
            Some(Success::Created | Success::CreatedOnce) => 201,
            Some(Success::Accepted) => 202,
            Some(Success::Ok) | None => 200,
            Some(Success::NoContent) => 204,
        }
    }

    /// Its lines for a shell. The last line of what they print is the status.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut curl = String::from("curl -sS -w '\\n%{http_code}\\n'");
        if self.row().is_some_and(|row| row.method == Method::Patch) {
            curl.push_str(" -X PATCH");
        }
        let _ = write!(curl, " \"${ADDRESS}{}\"", self.path());
        if let Some(kind) = self.who() {
            let token = token_variable(kind);
            let _ = write!(curl, " \\\n  -H \"Authorization: Bearer ${token}\"");
        }
        if let (Some(row), Some(body)) = (self.row(), self.body()) {
            if row.key == KeySource::Header {
                let _ = write!(curl, " \\\n  -H 'Idempotency-Key: walk-{}'", row.tag);
            }
            curl.push_str(" \\\n  -H 'Content-Type: application/json'");
            let _ = write!(curl, " \\\n  -d {}", in_single_quotes(&body));
        }
        if self.kept.is_empty() {
            return curl;
        }
        let mut lines = format!("answer=$({curl})\nprintf '%s\\n' \"$answer\"");
        for member in self.kept {
            let _ = write!(
                lines,
                "\n{member}=$(printf '%s\\n' \"$answer\" | \
                 sed -n 's/.*\"{member}\":\"\\([^\"]*\\)\".*/\\1/p')"
            );
        }
        lines
    }
}

/// The walk as the demonstration prints it.
#[must_use]
pub fn printed() -> String {
    let mut text = String::from(
        "# all operations, step by step: paste the exports above, then a step at a time or all of them",
    );
    let mut number = 0;
    for part in PARTS {
        let _ = write!(text, "\n\n# == {} ==", part.title);
        for step in part.steps {
            number += 1;
            let _ = write!(text, "\n\n# {number}. {}\n{}", step.title, step.lines());
        }
    }
    text + "\n\n" + END
}

/// The walk as a document.
#[must_use]
pub fn document() -> String {
    let mut text = String::from(INTRODUCTION);
    let mut number = 0;
    for part in PARTS {
        let _ = write!(text, "\n## {}\n", part.title);
        for step in part.steps {
            number += 1;
            let called = match step.row() {
                Some(row) => format!("Operation {}", row.tag),
                None => "A read".to_owned(),
            };
            let _ = write!(
                text,
                "\n### {number}. {}\n\n```sh\n{}\n```\n\n{called}: `{}`. {}\n",
                step.title.trim_end_matches('.'),
                step.lines(),
                step.status(),
                step.look
            );
        }
    }
    text + CONCLUSION
}

const INTRODUCTION: &str = "\
# A walk through all operations

This document is generated (`REWRITE_DOCS=1 cargo test walk::`), and a test runs each line of it in
a shell, against a server of its own.

Start a demonstration in one terminal:

```sh
carebook serve --demo
```

It prints its address and a token of each kind of actor as `export` lines, and then the steps
below. Paste the `export` lines into a second terminal, and then a step at a time. Each step prints
the response body, and the status on a line of its own. What a later step needs is kept in a
shell variable; only `sh`, `curl` and `sed` are used.

Take the steps in their order, against a fresh demonstration: they name revisions, and
revisions advance. Taken a second time, each of them is a replay: the same response again, with the
header `Idempotent-Replayed: true`, and nothing is done twice.
";

const CONCLUSION: &str = "
## And then

Stop the server, with Ctrl-C or `kill -9`, and start it again on its data directory (`--data DIR`,
printed as the first comment): everything above is still there, and every replay gets the same
response. `carebook verify --data DIR` checks the log and reports what is in it.
";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn steps() -> impl Iterator<Item = &'static Step> {
        PARTS.iter().flat_map(|part| part.steps)
    }

    #[test]
    fn every_operation_is_called_once() {
        let called: Vec<_> = steps().filter_map(Step::row).map(|row| row.tag).collect();
        let known: BTreeSet<_> = OPERATIONS.iter().map(|row| row.tag).collect();
        assert_eq!(called.iter().copied().collect::<BTreeSet<_>>(), known);
        assert_eq!(called.len(), known.len());
    }

    #[test]
    fn a_step_has_a_token_where_its_operation_looks_at_one_and_a_body_that_is_json() {
        for step in steps() {
            match step.row() {
                Some(row) => {
                    assert_eq!(step.who().is_some(), row.bearer, "{}", row.name);
                    serde_json::from_str::<Value>(&step.body().unwrap()).unwrap();
                }
                None => assert!(step.body().is_none() && step.who().is_some()),
            }
        }
    }

    #[test]
    fn what_a_step_has_in_the_place_of_the_examples_is_there_and_was_kept_before() {
        let mut kept: BTreeSet<&str> = BTreeSet::new();
        for step in steps() {
            let text = format!("{}{}", step.path(), step.body().unwrap_or_default());
            for used in text.split('$').skip(1) {
                let end = used.find(|next: char| !next.is_ascii_alphanumeric());
                let name = &used[..end.unwrap_or(used.len())];
                assert!(kept.contains(name), "{name} in {}", step.title);
            }
            for (_, to) in step.with {
                assert!(text.contains(to), "{to} in {}", step.title);
            }
            kept.extend(step.kept);
        }
    }

    #[test]
    fn a_shell_reads_past_titles_and_nothing_ends_a_quote() {
        // Some shells read a pasted comment as a command: there must be no quote, no pattern and
        // no parenthesis in it.
        let is_plain = |text: &str| !text.contains(|c| "'\"`$!*?()[]<>|&\\".contains(c));
        for part in PARTS {
            assert!(is_plain(part.title), "{}", part.title);
        }
        for step in steps() {
            assert!(is_plain(step.title), "{}", step.title);
            let body = step.body().unwrap_or_default();
            assert!(!body.contains(['\'', '!', '\\']), "{body}");
        }
        assert_eq!(in_single_quotes(r#"{"a": "$b"}"#), r#"'{"a": "'"$b"'"}'"#);
    }
}
