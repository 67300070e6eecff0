//! Prints `docs/operations.md` from the catalogue. A test holds the file to what this prints:
//!
//! ```text
//! cargo run --example operations_table > docs/operations.md
//! ```

use std::fmt::Write as _;

use carebook::base::json::{Presence, Shape};
use carebook::catalogue::{
    KeySource, LISTS, Method, OPERATIONS, ProblemShape, READS, RESOURCES, Row, Success,
};
use carebook::domain::fact_kinds::FACTS;
use carebook::http::figures_page::described;
use carebook::http::response::statuses;

/// Statuses whose codes are the same for every operation; they are told once.
const COMMON: [u16; 7] = [401, 408, 413, 415, 429, 500, 503];

const INTRODUCTION: &str = "\
# Operations, reads, kinds, metrics

<!-- Printed by `cargo run --example operations_table` from the catalogue, `src/catalogue.rs`; a test
compares. After a change of the catalogue: `REWRITE_DOCS=1 cargo test docs::`. -->

## Operations

A *key* is the idempotency key: in the header `Idempotency-Key`, or in the body. Each status is listed
with the codes of its problems; the operation's own codes are in the order in which they are tested.
";

const COMMON_CODES: &str = "\
### Responses of every operation

With a token: 401 `authentication_required`, 403 `actor_inactive` and `actor_withdrawn`. All: 408 `request_invalid`
(the body was silent for 20 seconds, or did not arrive whole within ten minutes), 413 `body_too_large`,
415 `unsupported_media_type`, 429 `overloaded`, 500 `internal_error`, 503 `service_unavailable`; with a key also 503
`outcome_unknown`. [codes.md](codes.md) says what each means, and what a client does.

An unknown path is 404 `route_not_found`, a method that the path does not have 405
`method_not_allowed`. A head that cannot be parsed is 400 or 431 `request_invalid`, in the full shape;
[contract-choices.md](contract-choices.md#http) says which heads are rejected. A body whose chunks or trailers are
malformed is `request_invalid` with the status and the shape that the operation has for a body that is no JSON.

| shape of problems | fields |
|---|---|
| full | `status`, `code`, `message`, `fieldErrors`, `conflictingFieldPaths`, `retryable` |
| profile | `status`, `code`, `retryable` |
| invitation | `status`, `code`, `message`, `retryable` |

A 409 of `confirm_reservation_draft` has a body of its own: `conflictCode` instead of the code,
`draftId`, `expectedDraftRevision`, `currentDraftRevision`,
`reservationDraftStepAuthorityProjectionId`, `expectedReviewRevision`, `currentReviewRevision`,
`refreshRequired`, `conflictingFieldPaths`, `disabledReasonCodes`. `create_branch` responds 202
when an external directory has left a side effect pending (a replay is 200). With the embedded
directory all side effects are completed in the commit.
";

const READS_INTRODUCTION: &str = "\
## Reads

All `GET`, with a token. 200 with an `ETag`; 304 for a matching `If-None-Match`; 400 `request_invalid` for a
query that is not valid; 401; 403 `actor_inactive` and `actor_withdrawn`; 404 `not_found` for what does not
exist and for what the actor may not see; 410 `revision_gone`, of a read with a [history](history.md); 429
`overloaded`; 500 `internal_error`; 503 `service_unavailable` when the log has failed, and
`position_not_reached`. A read's own 403 is `permission_denied`.

| read | path | shape of problems |
|---|---|---|
";

const LISTS_INTRODUCTION: &str = "\
## Lists

All `GET`, with a token; [lists.md](lists.md) says how to page through them. 200, also where there is
nothing to show; 304; 400 `request_invalid` for a query that is not valid; 401; 403 `actor_inactive` and
`actor_withdrawn`; 429 `overloaded`; 500 `internal_error`; 503 `service_unavailable` and
`position_not_reached`. An item is the body that the read gives.

| list | path | of what | filters |
|---|---|---|---|
";

const BESIDE: &str = "\
Beside them, with a token: `GET {read path}/history` ([history.md](history.md)), `POST /reference-facts` (a batch
of facts), `GET /events` ([events.md](events.md)), `/webhook-subscriptions` and what is below it
([webhooks.md](webhooks.md)), `/outbox` and what is below it ([messages.md](messages.md)). Without a token:
`GET /healthz` (the process runs), `GET /readyz` (commands are accepted; else 503), `GET /metrics` (Prometheus'
text format), `GET /openapi.json` and `GET /docs` ([api.md](api.md)). With `--internal-listen`, `/metrics` and the
operations without a token are on that listener alone.
";

const REQUESTS_INTRODUCTION: &str = "
## Request bodies

Every field of each operation's body, in the order in which they are declared, and a body that succeeds
with the sample data (`carebook serve --demo`). A field that is not in the table is a fault, and so is a
duplicate. *Optional*: absent and null mean the same. `a.b` is the field `b` of `a`, `a[].b` that of
each item. Texts are counted in characters. Where an example uses the response of another operation,
`$field` stands for that field of the response.
";

const NO_FIELD: &str = "\
Its problems name no field. Check the body against the table, and that there is an `Idempotency-Key`; the operator
finds the faults in the log, at `RUST_LOG=carebook=debug`, under the `X-Request-Id` of the answer.";

const FACTS_INTRODUCTION: &str = "
## Facts

A fact is an object of `kind`, one of those below; `id`, a text of 1 to 512 characters, not blank, with the form that its
kind gives it; `revision`, an integer from 1 to 4611686018427387904 (2^62), as the system that owns the fact counts; and
`facts`, whose fields are in the table of the kind.
";

const METRICS_INTRODUCTION: &str = "
## Metrics

Every metric that `GET /metrics` has, in its order. Counters begin at the start. Some are there only with
a flag: `carebook_nats_…` with `--nats`, `carebook_certificate_…` with `--tls-cert`, `carebook_backup_…`
with `--backup-status`. `carebook_webhook_…` are of the 200 subscriptions in the greatest need.

| metric | kind | labels | what |
|---|---|---|---|
";

const KINDS_INTRODUCTION: &str = "\
## Kinds of resources

The tag is stored in the log and never changes.

| tag | kind | loaded as reference facts |
|---|---|---|
";

fn main() {
    print!("{}", page());
}

/// The page.
pub fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str(
        "\n| no. | operation | request | key | problems | responses |\n|---|---|---|---|---|---|\n",
    );
    for row in OPERATIONS {
        let method = match row.method {
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        };
        let token = if row.bearer { "" } else { "<br>no token" };
        let _ = writeln!(
            page,
            "| {} | `{}` | `{method} {}`{token} | {} | {} | {} |",
            row.tag,
            row.name,
            row.path,
            key(row),
            shape(row.problem),
            answers(row)
        );
    }
    let _ = write!(page, "\n{COMMON_CODES}\n{READS_INTRODUCTION}");
    for row in READS {
        let _ = writeln!(
            page,
            "| `{}` | `{}` | {} |",
            row.name,
            row.path,
            shape(row.problem)
        );
    }
    let _ = write!(page, "\n{LISTS_INTRODUCTION}");
    for row in LISTS.iter() {
        let filters: Vec<_> = row.filters().map(|(_, name)| format!("`{name}`")).collect();
        let _ = writeln!(
            page,
            "| `{}` | `{}` | `{}` | {} |",
            row.name,
            row.path,
            row.read.name,
            filters.join(", ")
        );
    }
    let _ = write!(page, "\n{BESIDE}\n{KINDS_INTRODUCTION}");
    for resource in RESOURCES {
        let kind = resource.kind();
        let holds_facts = FACTS.iter().any(|fact| fact.kind() == kind);
        let has_facts = if holds_facts { "yes" } else { "" };
        let _ = writeln!(page, "| {} | `{}` | {has_facts} |", kind.tag, kind.name);
    }
    requests(&mut page);
    facts(&mut page);
    metrics(&mut page);
    page
}

/// What is counted and measured.
fn metrics(page: &mut String) {
    page.push_str(METRICS_INTRODUCTION);
    for metric in described() {
        let labels: Vec<_> = metric
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            metric.name,
            metric.kind,
            labels.join(", "),
            metric.says.trim_end_matches('.')
        );
    }
}

/// What each operation's request holds: parameters, members and an example.
fn requests(page: &mut String) {
    page.push_str(REQUESTS_INTRODUCTION);
    for row in OPERATIONS {
        let example = row.operation.example();
        let _ = writeln!(page, "\n### {}. `{}`\n", row.tag, row.name);
        let _ = writeln!(page, "{}\n", row.operation.doc());
        if row.problem == ProblemShape::Profile {
            let _ = writeln!(page, "{NO_FIELD}\n");
        }
        let _ = writeln!(page, "| field | value | what |\n|---|---|---|");
        members(page, "", &row.operation.shape());
        let _ = writeln!(page, "\n```json\n{}\n```", example.body);
    }
}

/// What each kind of facts holds.
fn facts(page: &mut String) {
    page.push_str(FACTS_INTRODUCTION);
    for kind in FACTS {
        let _ = writeln!(page, "\n### `{}`\n", kind.kind().name);
        let _ = writeln!(page, "Its `id`: {}.\n", kind.id());
        let _ = writeln!(page, "| field | value | what |\n|---|---|---|");
        members(page, "", &kind.shape());
    }
}

/// A line for each member, and for each within it.
fn members(page: &mut String, within: &str, shape: &Shape) {
    match shape {
        Shape::Object(fields) => {
            for field in fields {
                let place = format!("{within}{}", field.name);
                let presence = match field.presence {
                    Presence::Required => "",
                    Presence::Nullable => "; or null",
                    Presence::Optional => "; optional",
                };
                let value = value(&field.shape);
                let says = field.says.trim().trim_end_matches('.');
                let _ = writeln!(page, "| `{place}` | {value}{presence} | {says} |");
                members(page, &format!("{place}."), &field.shape);
            }
        }
        Shape::List { of, .. } => {
            let within = within.trim_end_matches('.');
            members(page, &format!("{within}[]."), of);
        }
        Shape::Map { of, .. } => {
            let within = within.trim_end_matches('.');
            members(page, &format!("{within}.*."), of);
        }
        _ => {}
    }
}

/// What a value may be, in words.
fn value(shape: &Shape) -> String {
    match shape {
        Shape::Flag => "true or false".to_owned(),
        Shape::Integer { least, most } => match (*least, *most) {
            (i64::MIN, i64::MAX) => "integer".to_owned(),
            (least, i64::MAX) => format!("integer, at least {least}"),
            (least, most) => format!("integer, {least} to {most}"),
        },
        Shape::Text { known, .. } if !known.is_empty() => {
            let words: Vec<_> = known.iter().map(|word| format!("`{word}`")).collect();
            format!(
                "{}; another text is the operation's to refuse",
                words.join(", ")
            )
        }
        Shape::Text {
            longest,
            blank,
            form,
            ..
        } => {
            let blank = if *blank { "" } else { ", not blank" };
            let most = format!("text of 1 to {longest} characters{blank}");
            match (*form, *longest) {
                ("", _) => most,
                // The form says how long it may be.
                (form, 4_000) => format!("text: {form}"),
                (form, _) => format!("{most}: {form}"),
            }
        }
        Shape::Words(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Shape::Time => "time with an offset".to_owned(),
        Shape::Date => "date".to_owned(),
        Shape::List {
            of,
            shortest,
            longest,
            ..
        } => {
            let count = match (shortest, longest) {
                (0, None) => String::new(),
                (shortest, None) => format!(" of at least {shortest}"),
                (shortest, Some(longest)) => format!(" of {shortest} to {longest}"),
            };
            format!("list{count}: {}", value(of))
        }
        Shape::Map { of, .. } => format!("object with names of your choice: {}", value(of)),
        Shape::Any => "any object".to_owned(),
        Shape::Object(_) => "object".to_owned(),
    }
}

fn key(row: &Row) -> &'static str {
    match row.key {
        KeySource::Header => "header",
        KeySource::HeaderIfSent => "header, where it is sent",
        KeySource::Body => "body",
        KeySource::BodyOfAll { .. } => "body, one scope for all subjects",
        KeySource::None => "none: it only reads",
    }
}

fn shape(problem: ProblemShape) -> &'static str {
    match problem {
        ProblemShape::Full => "full",
        ProblemShape::Profile => "profile",
        ProblemShape::Invitation => "invitation",
    }
}

/// The statuses, each with its codes where they are not those of every operation.
fn answers(row: &Row) -> String {
    let mut cells = Vec::new();
    let mut common = Vec::new();
    for (status, codes) in statuses(row) {
        let own: Vec<_> = codes
            .iter()
            .filter(|code| !matches!(**code, "actor_inactive" | "actor_withdrawn"))
            .map(|code| format!("`{code}`"))
            .collect();
        if COMMON.contains(&status) {
            common.push(status.to_string());
        } else if status == 200 && row.success == Success::CreatedOnce {
            cells.push("200 for a replay".to_owned());
        } else if own.is_empty() {
            cells.push(status.to_string());
        } else {
            cells.push(format!("{status} {}", own.join(", ")));
        }
    }
    cells.push(common.join(", "));
    cells.join("<br>")
}
