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

Each commit produces one *event* for each resource that it changed, in the order of the log. An event
is published once its commit is durable, and never before. Actors with the permission `events:read`
(`system_workflow` and the headquarters' kinds) read them with `GET /events`; an operator can
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
| `subject` | the path at which the resource is read, without its first slash, percent-encoded; `{kind}/{id}` for a resource that has no read |
| `time` | the commit's time |
| `sequence` | the position, as 20 decimal digits |
| `data` | `operation` (`reference_fact` for a fact that was loaded), `revision` (null if the resource has none), `actorKind` and `actorProfileId` (null for operations without a token), and the fields of the type |

No event contains a name, a contact, an address, an account number, a registration number or free text. For
those, read the resource, with a token that may read it. A type never changes its meaning. Later versions add types and
fields, so a receiver must let unknown ones pass. A client that cannot do so, as many generated ones, reads with
`type=` the types that it knows ([api.md](api.md#what-later-versions-add)).

An adjustment whose fact moves to another booking is told under the booking that it belongs to from then on, and nothing
is told under the one that it left. Clients that keep `reservation-payment-change-adjustments/{booking}`
by subject must read it again at each `carebook.reference-fact.applied` of an adjustment that was seen there
(`reference-facts/payment-change-adjustment/{id}`).

An update of a branch's office by the branch changes its fact, too, and is told under `branch-office-profiles/{id}`
alone. Clients that keep `reference-facts/branch-office-profile/{id}` by subject must read it again at each
`carebook.branch-office-profile.updated` as well.

Commits that change no resource produce no event, and leave gaps in the positions. So do the commits that record the
progress of publishing.

## Pages

`GET /events` answers `{"events": […], "next": "id to continue after", "end": false}`, oldest first.

| parameter | meaning |
|---|---|
| `after` | an event's `id`, or `0-0`; without it, the earliest that is kept |
| `limit` | 1 to 1,000, by default 100 |
| `type` | a type, or a prefix of types that ends with `*`; at most 200 characters, not blank; may be repeated, up to 50 |
| `subject` | exactly this subject |

`next` is the last event that was examined, whether it matched or not: a client stores it, and sends it as the next
`after`. It counts only together with the `source` of the events, which the client stores, too: after a
[restore](runbook.md#restore-a-backup) the log has another `source`, and the same identifiers name other events. A
client that meets another `source` begins without `after`, and reads anew what it keeps.

`end` is true when the page has reached the end of the durable log. An `after` before the first kept event is
410 `events_gone`, and the message names the earliest that may be kept, and the `after` that leads to all that are
kept; one in the future, or a malformed one, is 400. A
[standby](cluster.md#standbys) cannot know the future from what it does not have yet: it waits for up to five seconds,
as for `Carebook-Min-Position`, and then answers 503 `position_not_reached`. The same goes for streams. While
128 MiB of large answers are being sent, or 64 MiB and more than 8 MiB of them to the same user (the token's `sub`), a
page of more than 16 KiB is 429: ask again, or for fewer events.

Readers at the end of the log share what is read of it. For a reader further behind, the log is read separately: two such
readings at a time, each of up to 10,000 commits or 4 MiB, and the users take turns, so one with hundreds of
readers who catch up delays another by one reading, and delays neither readers at the end nor webhooks nor
NATS. 1,024 requests of a user may wait for a reading and 4,096 in all; further ones are 429
`overloaded` with `Retry-After`. A stream that is open waits for its turns.

## Stream

With `Accept: text/event-stream` the same events are sent as
[server-sent events](https://html.spec.whatwg.org/multipage/server-sent-events.html), without an end: `id:` is
the event's `id`, `event:` its type, `data:` the object on one line. `Last-Event-ID`, sent once, is the same as
`after`, and takes precedence; `limit` is not looked at. A comment with the `id:` of the last examined event is sent at
least every 15 seconds. After a client has closed its side of a connection over HTTP/1.1, comments come sooner, the first
within 250 ms and then each after twice the time, since only the response to them shows whether it reads on or has gone.
The connection of a client that reads nothing for 30 seconds is closed; it can continue from its
last `id`. The token is checked again at least every minute; the stream ends when the token is no longer valid, and when
the server stops. Once an actor's withdrawal is acknowledged, no more events are handed to its connection; a reader
that is slow may still get the 64 KiB of events that wait there, and what its connection had already taken.

At a terminal:

```text
carebook events --url https://care.example.com --token-file token --follow
carebook events --url https://care.example.com --token-file token --type 'carebook.branch.*' --json
```

`--follow` reconnects when the connection breaks, and continues after the last event. It ends with 1 where the server
cannot be reached at the beginning, also with `--after`, so that what runs it starts it again (`Restart=on-failure`);
and where the events have another `source` than those before. For more: `carebook events --help`.

## Order and delivery

Pages and streams return every event once, in the order of the log: `id` rises, by position and then by number
(compare them as numbers; `sequence` compares as text). A client that stores the last `id` misses nothing and gets
nothing twice, over any number of disconnects and restarts of either side, as long as the log is the same one
(`source`). What is pushed (webhooks, NATS) is delivered *at least once*: after a disconnect some events are sent again,
under the same identifier.

Events are kept as long as the log's records: seven days and 16 GiB, unless `--log-retention` and
`--log-retention-bytes` say otherwise. Older events are gone; their resources are not. Events that NATS has not
acknowledged are kept longer, up to `--log-kept-for-delivery` and `--log-kept-for-delivery-bytes`.

## NATS

```text
nats stream add CAREBOOK --subjects 'carebook.events.>' --storage file --dupe-window 2m
carebook serve … --nats nats://nats.internal:4222 --nats-credentials carebook.creds
```

Every event is published to JetStream: to the subject `carebook.events.{type without "carebook."}`, with the
object above as the message, the header `Nats-Msg-Id: {log id}-{event id}`, and `content-type:
application/cloudevents+json`. With a trace collector (`--otlp-endpoint`), it has a `traceparent` of its own trace, too.

- The operator creates the stream; it has to accept the subjects `carebook.events.>`. The first start begins with the
  earliest event that is kept, each later one where the previous one ended.
- Events are published in the log's order, the next one only when the previous one is acknowledged. So the first
  message of each event is in the stream in the log's order, even after failures; the rate is one event for each round
  trip.
- At least once: when carebook or the server is killed, an event in flight is published again, and after a kill of
  carebook also those acknowledged in the last second. A stream drops duplicates within its duplicate window
  (two minutes by default); after a longer outage a consumer recognizes them by `Nats-Msg-Id`.
- The servers have to be the operator's own: the NATS library takes what a server sends into memory without a bound.
- The progress of publishing is recorded in the log, at most once a second and at a stop. It belongs to the log, not to
  the server's address: another `--nats` continues from there. The commit that records it produces no event.
- A server that cannot be reached, a stream that does not exist, or an error instead of an
  acknowledgement delays neither start, nor commands, nor stop. Publishing is retried without a limit, after pauses from
  100 ms that double up to 10 s; when the connection is back, at once.
- When events were removed from the log before they were published, publishing continues with the earliest that is
  kept; a line of the service's log reports it, and `carebook_nats_gaps_total` counts it.
- `nats://` uses TLS if the server requires it, `tls://` always. The system's certificate authorities are
  trusted, and those of `--ca-file FILE`. To log in: a credentials file (JWT and
  seed, as `nsc` writes it), read at the start, or a user and a password, or a token, in the URL, where anyone who
  may list processes sees it. The user needs permission to publish to `carebook.events.>`, and to subscribe to
  `_INBOX.>`.

`GET /readyz` has the state of publishing, and stays 200: `{"status":"ready","nats":{"state":"publishing","waiting":0}}`,
where `failing` means that the newest attempt failed, and `waiting` counts positions of the log. `GET /metrics`
has, with `--nats`:

| metric | what |
|---|---|
| `carebook_nats_waiting_positions` | positions of the log whose events are not published yet |
| `carebook_nats_oldest_age_seconds` | the age of the oldest event that waits |
| `carebook_nats_failures_total` | attempts that were not acknowledged |
| `carebook_nats_gaps_total` | how often events were removed from the log before they were published |
| `carebook_nats_publish_duration_seconds` | events published (`_count`), and how long their acknowledged attempts took (`_sum`) |

## Types

Beside its fields, `data` of every event has `operation`, `revision`, `actorKind` and `actorProfileId`. The subject
of the event of a fact that an operation has written is the path of the fact or, if the operation changes the
resource itself, that of the resource.

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
            of.description.trim(),
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
