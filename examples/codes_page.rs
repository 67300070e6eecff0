//! Prints `docs/codes.md`, the glossary of the codes of problems. A test holds the file to what
//! this prints:
//!
//! ```text
//! cargo run --example codes_page > docs/codes.md
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use carebook::base::json::FaultCode;
use carebook::catalogue::{MANAGEMENT, OPERATIONS};
use carebook::domain::rejection::Class;
use carebook::http::openapi;
use serde_json::Value;

const INTRODUCTION: &str = "\
# The codes of problems

<!-- Printed by `cargo run --example codes_page` from the catalogue; a test compares. After a change:
`REWRITE_DOCS=1 cargo test docs::`. -->

A problem's `code` is a promise; its `message` is for people, and may change. `retryable` is true for 429 and
503 alone: the very same request may be sent again after `Retry-After` seconds, and under the same
idempotency key it is carried out once. (False at 408 and 500 does not forbid that either: a command with a key
may always be sent again.) Most others stay as they are until somebody changes something.
A problem means that nothing was done, with two exceptions: `outcome_unknown`, and a batch of facts that ends
early (then `message` says what was applied; sending all of it again is safe).

Later versions add codes. A client treats one that it does not know by its status and by `retryable`; what a generated
client does is in [api.md](api.md#what-later-versions-add).
";

const FAULTS: &str = "
## The codes of faults

With `request_invalid` come `fieldErrors`, one for each fault: `fieldPath` (`a.b[2].c` in the body,
`query.NAME`, `header.NAME`, a parameter of the path by its name), one of these codes, and its sentence. Requests
below `/mother/profile` and `accept_manager_invitation` tell no faults to their caller. They are in the service's log at `RUST_LOG=carebook=debug`, under the
`X-Request-Id` of the answer.

| code | what is wrong |
|---|---|
";

/// What a code means where no operation says so itself, and what a client does about each.
/// Codes that stand with an operation's own sentence have only the second.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "activation_conflict",
        "",
        "Nothing: you are the manager already. Read the branch.",
    ),
    (
        "actor_inactive",
        "The actor's fact says that it is not active.",
        "Have the actor activated where actors are kept.",
    ),
    (
        "actor_withdrawn",
        "The actor's fact says that it has withdrawn.",
        "Nothing can be done with this actor any more.",
    ),
    (
        "adjustment_not_found",
        "",
        "Check the booking; the adjustment's fact may not have arrived yet.",
    ),
    (
        "adjustment_not_payable",
        "",
        "Read the adjustment: it is paid, cancelled or not payable yet, or there is nothing to pay.",
    ),
    (
        "artifact_id_conflict",
        "",
        "Take another identifier, or read the request: the artifact may be the one that you meant.",
    ),
    ("artifacts_full", "", "Open another data-room request."),
    (
        "assignment_decision_conflict",
        "",
        "Take another identifier, or read the roster: the decision may be the one that you meant.",
    ),
    (
        "assignment_slot_taken",
        "",
        "Read the roster; name the decision that is to be replaced, or take another slot.",
    ),
    (
        "authentication_required",
        "There is no token, or it is not accepted.",
        "Get a fresh token and send the same request again. If that is refused, see [tokens.md](tokens.md#why-a-token-is-refused).",
    ),
    (
        "authoritative_dependency_changed",
        "",
        "Show the review again, and confirm what it says now.",
    ),
    (
        "body_too_large",
        "The body has more than 1 MiB.",
        "Send less; facts can be sent as a stream of lines of any length.",
    ),
    ("branch_code_conflict", "", "Take another code."),
    (
        "business_identity_conflict",
        "",
        "Find the branch that has the number; a business is one branch.",
    ),
    (
        "candidate_snapshot_conflict",
        "",
        "Look for candidates again, and assign from the new snapshot.",
    ),
    (
        "charge_snapshot_reused",
        "The snapshot's identifier was used for other facts.",
        "Take another identifier, or read the lifecycle: the charge may be the one that you meant.",
    ),
    (
        "command_id_reused",
        "",
        "Take another `commandId`, or read the branch that it made.",
    ),
    (
        "confirmation_not_ready",
        "",
        "Do what `disabledReasonCodes` names. With `draft_already_confirmed` there is nothing to do: it was confirmed.",
    ),
    (
        "consent_receipts_full",
        "",
        "Send it without versions that were not accepted before: receipts are never removed, so this profile takes no more. Tell the operator.",
    ),
    (
        "consent_version_not_published",
        "",
        "Show the published version, and send that one.",
    ),
    (
        "contact_unverified",
        "",
        "Have the e-mail address and the phone number verified, then send it again.",
    ),
    ("data_room_request_not_found", "", "Check the identifier."),
    (
        "dataset_revision_stale",
        "",
        "Make the artifact from the data set as the request asks for it, or newer.",
    ),
    (
        "delegation_expiry_conflict",
        "",
        "Choose a later `expiresAt`.",
    ),
    (
        "delegation_overlap",
        "",
        "Read the delegation that stands; one is enough, or wait until it expires.",
    ),
    (
        "delegation_scope_conflict",
        "",
        "Check that payer and booking are this mother's, and that the scopes are `reservation_deposit`, once.",
    ),
    (
        "deposit_already_acknowledged",
        "",
        "Nothing: it was acknowledged. Read the receipt's state.",
    ),
    ("draft_expired", "", "Begin a new draft."),
    (
        "draft_not_found",
        "",
        "Check the identifier; the draft's fact may not have arrived yet.",
    ),
    (
        "draft_revision_mismatch",
        "",
        "Show the draft as it stands now, and confirm that.",
    ),
    (
        "event_gone",
        "The log has given up the event's record.",
        "Read the resource as it is now.",
    ),
    (
        "events_gone",
        "The log has given up events after this place.",
        "Follow the events without `after`, from the earliest that is kept, and read anew the resources that you keep.",
    ),
    (
        "family_account_not_found",
        "",
        "Check the identifier; the account's fact may not have arrived yet.",
    ),
    (
        "final_review_projection_missing",
        "",
        "Have the draft reviewed.",
    ),
    (
        "final_review_projection_not_found",
        "",
        "Check the identifier; the review's fact may not have arrived yet.",
    ),
    (
        "final_review_projection_superseded",
        "",
        "Show the current review, and confirm that.",
    ),
    (
        "final_review_revision_mismatch",
        "",
        "Show the review as it stands now, and confirm that.",
    ),
    (
        "first_answer_forgotten",
        "",
        "Read the resource: what you asked for is there. An adjustment that has a later one is in the list, by its `paymentId`.",
    ),
    ("grant_expiry_conflict", "", "Choose a later `expiresAt`."),
    (
        "grant_overlap",
        "",
        "Read the grant that stands; one is enough, or wait until it expires.",
    ),
    (
        "grant_scope_conflict",
        "",
        "Ask for the scope `summary`, once.",
    ),
    (
        "grantee_not_found",
        "",
        "Check the member; the family account's fact may not have arrived yet.",
    ),
    (
        "idempotency_key_reused",
        "The key was used for another command.",
        "Take a fresh key for each command; send the very same body when you send a command again. Of `capture_adjustment_payment` the payment is the key: send what you sent with it before; another payment has another `paymentId`.",
    ),
    (
        "internal_error",
        "The service has failed at this request.",
        "Tell the operator the `X-Request-Id`. Sent again under the same key it is safe, and may fail again.",
    ),
    (
        "invitation_conflict",
        "",
        "Wait for the invitation that is pending, or invite another address.",
    ),
    (
        "line_already_acknowledged",
        "",
        "Only a statement in arrears gets this far, and nothing puts one there by now ([states.md](states.md)). Of such a one: read it, and acknowledge the lines that are left.",
    ),
    (
        "member_identity_missing",
        "",
        "Have the identity provider give `member_id`, see [tokens.md](tokens.md).",
    ),
    (
        "message_not_found",
        "",
        "Check the number, with `GET /outbox`.",
    ),
    ("message_settled", "", "Nothing: it was taken, or skipped."),
    (
        "method_not_allowed",
        "The path does not have this method.",
        "Take one that the `Allow` header names.",
    ),
    (
        "mother_profile_not_found",
        "",
        "The profile's fact may not have arrived yet, or belongs to another subject.",
    ),
    (
        "not_found",
        "There is nothing here, or nothing that this actor may see.",
        "Check the identifier, and who asks.",
    ),
    (
        "obligation_purpose_not_in_plan",
        "",
        "Take a purpose that the plan has, or another plan.",
    ),
    (
        "organization_revision_stale",
        "",
        "Read the organization, decide, and send the new revision under a fresh key.",
    ),
    (
        "not_the_writer",
        "The service follows another one, which takes the commands.",
        "Send it to the address in `Carebook-Writer`, where there is one, or to the next service that you know; \
         after `Retry-After` seconds here again: it may be the writer by then.",
    ),
    (
        "outcome_unknown",
        "The commit was not durable in time: it may have been done, or not. Or it was done, and its response cannot be read from the log just now.",
        "Send the same request under the same key: it is told what happened, or is carried out then.",
    ),
    (
        "overloaded",
        "It was refused for load before any work; or its response is large and tells of nothing new, and too many are being sent.",
        "Send it again after `Retry-After` seconds, and longer each time.",
    ),
    (
        "payment_grant_missing_or_out_of_scope",
        "",
        "Have the mother grant a delegation that covers the payment, or pay less.",
    ),
    (
        "payment_mismatch",
        "",
        "Take the payment that was prepared for the adjustment.",
    ),
    (
        "payment_obligation_conflict",
        "",
        "Read the pre-registration; its `message` says which of the conditions does not hold.",
    ),
    (
        "payment_obligation_not_found",
        "",
        "Check the payment; the obligation's fact may not have arrived yet.",
    ),
    (
        "payout_instruction_mismatch",
        "",
        "Take caregiver, role and assignment from the instruction.",
    ),
    (
        "permission_denied",
        "The actor's kind, permissions, branches or membership do not allow it.",
        "See who may, in [access.md](access.md).",
    ),
    (
        "position_not_reached",
        "The service did not come to the position in `Carebook-Min-Position` within 5 seconds, or a standby to that of the event after which `/events` is to go on, or of a cursor.",
        "Send it again after `Retry-After` seconds, or read from the writer; check that the position is one of this log.",
    ),
    (
        "product_plan_not_found",
        "",
        "Check the plan's code; its fact may not have arrived yet.",
    ),
    (
        "replacement_not_found",
        "",
        "Read the roster: the slot to be replaced is another one, or is empty.",
    ),
    (
        "request_code_conflict",
        "",
        "Take another code, or read the request that has it.",
    ),
    (
        "request_invalid",
        "The request breaks a rule that can be judged by itself, or the chunks or trailers of its body are malformed; \
         at 408 its body did not arrive whole and in time.",
        "Mend what `fieldErrors` or `message` names; it is refused each time until then. At 408 send it again.",
    ),
    (
        "reservation_booking_not_found",
        "",
        "Check the booking; its fact may not have arrived yet.",
    ),
    (
        "reservation_facts_not_found",
        "",
        "The facts of this reservation may not have arrived yet.",
    ),
    (
        "reservation_not_active",
        "",
        "Read the booking's fact: it has ended, or was never active.",
    ),
    (
        "revision_gone",
        "The log does not reach back to that revision.",
        "Ask for a later one, or have the operator look into the archive (`carebook inspect`).",
    ),
    (
        "revision_id_conflict",
        "",
        "Take another identifier, or read the profile: the revision may be the one that you meant.",
    ),
    (
        "revision_stale",
        "",
        "Read the resource, decide again, and send its revision under a fresh key.",
    ),
    (
        "roster_decision_full",
        "",
        "Take another `rosterDecisionId`.",
    ),
    (
        "route_not_found",
        "No route has this path.",
        "Check the path and its percent-encoding.",
    ),
    (
        "service_unavailable",
        "The disk has no room, the log has failed, or the service is stopping.",
        "Send it again after `Retry-After` seconds, and longer each time.",
    ),
    (
        "settlement_account_conflict",
        "",
        "Check account and branch; the account's fact may not have arrived yet.",
    ),
    (
        "settlement_account_unverified",
        "",
        "Have the account verified, then send it again.",
    ),
    (
        "snapshot_id_conflict",
        "",
        "Take another identifier, or read the snapshot that has it.",
    ),
    (
        "statement_code_conflict",
        "",
        "Take another code, or read the statement that has it.",
    ),
    (
        "statement_not_acknowledgeable",
        "",
        "Read the statement: it was acknowledged already.",
    ),
    ("statement_not_found", "", "Check the identifier."),
    (
        "unsupported_media_type",
        "The body is not `application/json` (for facts also `application/x-ndjson`).",
        "Send `Content-Type: application/json`.",
    ),
    (
        "webhook_delivery_not_found",
        "",
        "List the subscription's deliveries: it was taken, or was never for this subscription.",
    ),
    (
        "webhook_subscription_gone",
        "",
        "Enable the subscription with a `PATCH`, then retry.",
    ),
    (
        "webhook_subscription_not_found",
        "",
        "Check the identifier: it may have been deleted.",
    ),
    (
        "webhook_subscription_starting",
        "",
        "Send it again in a moment.",
    ),
    (
        "webhook_subscriptions_full",
        "",
        "Delete one that nobody needs.",
    ),
];

/// Where a code stands.
#[derive(Default)]
struct Found {
    statuses: BTreeSet<String>,
    operations: BTreeSet<String>,
}

fn main() {
    print!("{}", page());
}

/// Every code that the API document has.
fn found() -> BTreeMap<String, Found> {
    let document = openapi::document();
    let mut found = BTreeMap::new();
    let paths = document["paths"].as_object();
    for operation in paths
        .into_iter()
        .flat_map(|paths| paths.values())
        .filter_map(Value::as_object)
        .flat_map(|methods| methods.values())
    {
        let name = operation["operationId"].as_str().unwrap_or_default();
        let responses = operation["responses"].as_object();
        for (status, response) in responses.into_iter().flatten() {
            let response = openapi::resolved(&document, response);
            let schema = &response["content"]["application/json"]["schema"];
            if status.as_str() >= "400" {
                let problem = openapi::resolved(&document, schema);
                collect(problem, status, name, &mut found);
            }
        }
    }
    found
}

fn collect(schema: &Value, status: &str, operation: &str, found: &mut BTreeMap<String, Found>) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                let codes = member["enum"].as_array();
                if matches!(name.as_str(), "code" | "conflictCode") {
                    for code in codes.into_iter().flatten().filter_map(Value::as_str) {
                        let at = found.entry(code.to_owned()).or_default();
                        at.statuses.insert(status.to_owned());
                        at.operations.insert(operation.to_owned());
                    }
                }
                collect(member, status, operation, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect(item, status, operation, found);
            }
        }
        _ => {}
    }
}

/// The sentences that operations have for a code, each once.
fn sentences(code: &str) -> BTreeSet<&'static str> {
    let rows = OPERATIONS.iter().chain(MANAGEMENT);
    let declared = rows.flat_map(|row| row.operation.rejections());
    let of_code = declared.filter(|declared| declared.code == code);
    of_code.map(|declared| declared.message).collect()
}

/// What a client does about a code of operations' rejections of which nothing more is known.
fn usual(code: &str) -> &'static str {
    let rows = OPERATIONS.iter().chain(MANAGEMENT);
    let mut declared = rows.flat_map(|row| row.operation.rejections());
    match declared.find(|declared| declared.code == code) {
        None => "",
        Some(declared) => match declared.class {
            Class::Invalid => "Correct the request.",
            Class::Forbidden => "Ask with the token of somebody who may.",
            Class::Missing => "Check the identifier.",
            Class::Conflict => "Read the resource again, then decide.",
        },
    }
}

/// The page; a code that nothing is known of stands with an empty cell, which a test refuses.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str(
        "\n| code | status | where | what it means | what a client does |\n|---|---|---|---|---|\n",
    );
    let mut all = found();
    all.entry("method_not_allowed".to_owned())
        .or_default()
        .statuses
        .insert("405".to_owned());
    for (code, at) in all {
        let known = KNOWN.iter().find(|(known, ..)| *known == code);
        let (means, does) = known.map_or(("", ""), |(_, means, does)| (means, does));
        let does = if does.is_empty() { usual(&code) } else { does };
        let own = sentences(&code);
        let means = match means {
            "" => own.into_iter().collect::<Vec<_>>().join("<br>"),
            means => means.to_owned(),
        };
        let place = match at.operations.len() {
            0 => "any path".to_owned(),
            1..=3 => {
                let names = at.operations.iter().map(|name| format!("`{name}`"));
                names.collect::<Vec<_>>().join(", ")
            }
            many => format!("{many} requests"),
        };
        let statuses: Vec<_> = at.statuses.into_iter().collect();
        let statuses = statuses.join(", ");
        let _ = writeln!(
            page,
            "| `{code}` | {statuses} | {place} | {means} | {does} |"
        );
    }
    page.push_str(FAULTS);
    for code in FaultCode::ALL {
        let _ = writeln!(page, "| `{}` | {} |", code.as_str(), code.message());
    }
    page
}

/// Codes of the glossary that nothing answers any more.
pub fn unused() -> Vec<&'static str> {
    let found = found();
    let codes = KNOWN.iter().map(|(code, ..)| *code);
    codes
        .filter(|code| *code != "method_not_allowed" && !found.contains_key(*code))
        .collect()
}
