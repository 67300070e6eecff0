//! Prints `docs/events.md`: what events are, and the types of all of them. A test holds the file to
//! what this prints:
//!
//! ```text
//! cargo run --example events_page > docs/events.md
//! ```

use std::fmt::Write as _;

use carebook::base::json::Shape;
use carebook::domain::event::EventField;
use carebook::journal::events::event_types;

const BEFORE_TYPES: &str = r#"# Events

Printed by `cargo run --example events_page`; a test compares. After a change of an event, or of
`examples/events_page.rs`: `REWRITE_DOCS=1 cargo test docs::`.

Each commit is told as one *event* for each resource that it changed, in the order of the log. An event
is told once its commit is durable, and never before. Whoever may read events
(`events:read`, for `system_workflow` and the headquarters' kinds) gets them from `GET /events`; an operator can
have all of them [published to NATS](#nats).

An event is a [CloudEvents 1.0](https://cloudevents.io) object:

```json
{
  "specversion": "1.0",
  "id": "4711-0",
  "source": "urn:carebook:00112233445566778899aabbccddeeff",
  "type": "carebook.settlement-statement.deposit-requested",
  "subject": "settlement-statements/0199e1f2-7c33-7d6a-8f8e-0242ac120002",
  "time": "2026-11-20T09:30:00.123Z",
  "sequence": "00000000000000004711",
  "datacontenttype": "application/json",
  "data": {
    "operation": "request_deposit",
    "revision": 1,
    "actorKind": "headquarters_administrator",
    "actorProfileId": "hq-1",
    "...": "the fields of its type"
  }
}
```

| attribute | content |
|---|---|
| `id` | `{position}-{n}`: the commit's position in the log, and 0, 1, 2 … within the commit |
| `source` | the log: `urn:carebook:` and the log's identity. `source` and `id` together are unique; a log that was restored from a backup has another identity |
| `type` | `carebook.{kind}.{what happened}` |
| `subject` | the path at which the resource is read, without its first slash, percent-encoded; `{kind}/{id}` for what has no read |
| `time` | the commit's time |
| `sequence` | the position, as 20 decimal digits |
| `data` | `operation` (`reference_fact` for a fact that came in), `revision` (null where the resource has none), `actorKind` and `actorProfileId` (null where no token is looked at), and the fields of the type |

No event carries a name, a contact, an address, an account number, a registration number or free text.
Whoever needs those reads the resource, with a right to it. A type never changes its meaning; fields are
only added, so a receiver must ignore those that it does not know.

Commits that change no resource tell nothing, and leave gaps in the positions. So does the commit of how far
the publishing of events is.

## Pages

`GET /events` answers `{"events": […], "next": "id to go on after", "end": false}`, oldest first.

| parameter | meaning |
|---|---|
| `after` | an event's `id`, or `0-0`; without it, the earliest that is kept |
| `limit` | 1 to 1,000, by default 100 |
| `type` | a type, or the beginning of types with `*` as the last character; at most 200 characters, not blank; may be repeated, up to 50 |
| `subject` | exactly this subject |

`next` is the last event that was looked at, whether it matched or not: a reader keeps it, and sends it as
`after`. `end` is true when nothing durable lies beyond. An `after` before what is kept is 410 `events_gone`,
and the message names the earliest; one of the future, or malformed, is 400.

## Stream

With `Accept: text/event-stream` the same comes as
[server-sent events](https://html.spec.whatwg.org/multipage/server-sent-events.html), without an end: `id:` is
the event's `id`, `event:` its type, `data:` the object on one line. `Last-Event-ID` is `after`, and goes before
it. A comment with the `id:` of what was passed comes at least every 15 seconds. A reader that takes nothing for
30 seconds is closed, and goes on from its last `id`. The token is judged again at least every minute; the
stream ends when it no longer holds, and at a stop of the server.

At a terminal:

```text
carebook events --url https://care.example.com --token-file token --follow
carebook events --url https://care.example.com --token-file token --type 'carebook.branch.*' --json
```

`--follow` opens a connection that breaks again, and goes on after the last event. `carebook events --help`
says the rest.

## Order, and how often

Pages and streams give every event once, in the order of the log: `id` rises, by position and then by number
(compare them as numbers; `sequence` compares as text). A reader that keeps the last `id` misses nothing and gets
nothing twice, over any number of breaks and restarts of either side. What is brought to a receiver, as by NATS,
comes *at least once*: after a break some come again, under the same identifier.

What is kept is what the log keeps: seven days and 16 GiB, unless `--log-retention` and `--log-retention-bytes`
say otherwise. Events of commits before that are gone; the resources they tell of are not. What NATS has not
acknowledged is kept longer, up to `--log-kept-for-delivery` and `--log-kept-for-delivery-bytes`.

## NATS

```text
nats stream add CAREBOOK --subjects 'carebook.events.>' --storage file --dupe-window 2m
carebook serve … --nats nats://nats.internal:4222 --nats-credentials carebook.creds
```

Every event is published to JetStream: to the subject `carebook.events.{type without "carebook."}`, with the
object above as the message, the header `Nats-Msg-Id: {log id}-{event id}`, and `content-type:
application/cloudevents+json`. Where traces go to a collector (`--otlp-endpoint`), `traceparent` is the place of this
publication in a trace of its own.

- The operator makes the stream; it has to take the subjects `carebook.events.>`. A first start begins with the
  earliest event that is kept, each further one where the last one was.
- Events are published in the log's order, the next one only when the one before is acknowledged. So the first
  message of each event stands in the stream in the log's order, whatever happens; the rate is that of one round trip
  after the other.
- At least once: what was on its way when either side was killed, and what was acknowledged in the last second
  before carebook was, comes again. A stream drops what comes again within its duplicate window
  (two minutes unless it says otherwise); after a longer outage a consumer tells by `Nats-Msg-Id`.
- How far it is stands in the log, at most once a second and at a stop. It belongs to the log, not to the server's
  address: another `--nats` goes on from there. The commit of that tells no event.
- A server that cannot be reached, a stream that does not exist, or an error in the place of an
  acknowledgement delays neither start, nor commands, nor stop. It is tried again after pauses from 100 ms that
  double to 10 s, for as long as it takes; when the connection is back, at once.
- When the log has given up events before they were published, publishing goes on with the earliest that is
  kept; the log of the service says so, and `carebook_nats_gaps_total` counts it.
- `nats://` takes what the server asks for, `tls://` insists on TLS. The authorities that the system trusts are
  trusted, and those of `--ca-file FILE`. To log in: a file of credentials (JWT and
  seed, as `nsc` writes it), read at the start, or a user and a password, or a token, in the URL, which whoever
  may list processes sees. The user needs to publish to `carebook.events.>`, and to subscribe to `_INBOX.>`.

`GET /readyz` tells how it stands, and stays 200: `{"status":"ready","nats":{"state":"publishing","waiting":0}}`,
where `failing` means that the newest attempt failed, and `waiting` counts positions of the log. `GET /metrics`
has, while `--nats` is given:

| metric | what |
|---|---|
| `carebook_nats_waiting_positions` | positions of the log whose events are not published yet |
| `carebook_nats_oldest_age_seconds` | the age of the oldest event that waits |
| `carebook_nats_failures_total` | attempts that were not acknowledged |
| `carebook_nats_gaps_total` | how often the log had given events up before they were published |
| `carebook_nats_publish_duration_seconds` | events published (`_count`), and how long their acknowledged attempts took (`_sum`) |

## Types

Beside its fields, `data` of every event has `operation`, `revision`, `actorKind` and `actorProfileId`. The event
of a fact that an operation has put in place is told under the path of the fact or, where the operation changes the
resource itself, under the resource's.

"#;

fn main() {
    print!("{}", page());
}

/// The page.
pub fn page() -> String {
    let mut page = BEFORE_TYPES.to_owned();
    page.push_str("| type | what it says | fields |\n|---|---|---|\n");
    for of in event_types() {
        let fields: Vec<_> = (of.fields)().iter().map(field).collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |",
            of.name.event_type(),
            of.says.trim(),
            fields.join("<br>")
        );
    }
    page
}

fn field(field: &EventField) -> String {
    let or_null = if field.is_nullable { ", or null" } else { "" };
    format!("`{}`: {}{or_null}", field.name, value(&field.shape))
}

/// What a value is, in words.
fn value(shape: &Shape) -> String {
    match shape {
        Shape::Flag => "true or false".to_owned(),
        Shape::Integer { .. } => "integer".to_owned(),
        Shape::Text { form: "", .. } => "text".to_owned(),
        Shape::Text { form, .. } => (*form).to_owned(),
        Shape::Words(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        Shape::Time => "time".to_owned(),
        Shape::Date => "date".to_owned(),
        Shape::List { of, .. } => format!("list: {}", value(of)),
        Shape::Map { of, .. } => format!("object with names of any kind: {}", value(of)),
        Shape::Any | Shape::Object(_) => "object".to_owned(),
    }
}
