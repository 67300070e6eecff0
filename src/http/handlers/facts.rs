//! `POST /reference-facts`: a batch of facts, as one JSON body or as a stream of lines.
//!
//! A stream is read as it arrives: some facts are in flight at once, and more bytes are read when
//! one of them is durable, so a batch of millions needs no more memory than one of hundreds. Facts
//! of one resource keep their order.
//!
//! A batch may last longer than its sender is authorized: token, keys and lifecycle are checked
//! again every `Rhythm`. Nothing is in flight at that moment, so if the batch ends there, its
//! response says exactly what was applied. A stream that goes on when the service stops is ended, too; facts in
//! flight are then awaited, and counted.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::HeaderMap;
use tokio::time::{Instant, timeout};

use crate::base::actor::Actor;
use crate::base::json::{Json, Reader};
use crate::base::time::Timestamp;
use crate::catalogue::Success;
use crate::domain::fact_kinds::FACTS;
use crate::domain::operation::to_json;
use crate::domain::reference::fact_lines::{Incoming, Line, Lines, parse_batch};
use crate::domain::reference::read_fact::may_write;
use crate::domain::rejection::Rejection;
use crate::engine::fact_loading::{Ended, FactBatch};
use crate::engine::limits::admission::{Admission, Permit};
use crate::engine::{CommandResult, Engine};
use crate::http::limits::response_room::{ResponseRoom, ResponseRoomOf};
use crate::http::request::arriving::{BodyError, is_media_type};
use crate::http::request::body::{last, read_json_body, shed, unsupported_media_type};
use crate::http::request::command::{Unread, parse_object};
use crate::http::request::{DryRun, no_dry_run};
use crate::http::response::{Answer, Problems, at_position};

/// How long a stream may stay silent.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long a stream may go on once the service stops: its response has to be sent before the stop is over.
const COMING_AT_STOP: Duration = Duration::from_millis(300);

/// How often the sender of a batch is authorized again.
#[derive(Clone, Copy, Debug)]
struct Rhythm {
    /// Number of facts after which the sender is authorized again, at the latest.
    facts: usize,
    /// Time after which the sender is authorized again, at the latest.
    every: Duration,
}

impl Rhythm {
    const OF_BATCHES: Self = Self {
        facts: 512,
        every: Duration::from_secs(5),
    };
}

/// A batch's sender, and the engine.
pub struct Sender<'s> {
    /// The engine that applies the facts.
    pub engine: &'s Arc<Engine>,
    /// The sending actor.
    pub actor: Arc<Actor>,
    /// Whether the token is still valid: its expiry, and the keys.
    pub token_is_good: &'s (dyn Fn() -> bool + Sync),
    /// The bytes of bodies that may be in flight.
    pub bodies: &'s Arc<Admission>,
    /// The budget that the answer's body is charged to.
    pub outgoing: &'s ResponseRoom,
    /// The request's `dryRun`, which a batch does not offer.
    pub dry_run: DryRun,
}

impl Sender<'_> {
    fn outgoing(&self) -> ResponseRoomOf<'_> {
        self.outgoing.to(&self.actor.subject)
    }
}

/// Applies a batch of facts.
pub async fn put<B>(sender: Sender<'_>, headers: &HeaderMap, body: B) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let problems = Problems::PLAIN;
    let engine = sender.engine;
    if engine.is_full() || !sender.outgoing().may_be_answered() {
        return shed(problems).await;
    }
    if is_media_type(headers, "application/x-ndjson") {
        if sender.dry_run == DryRun::Invalid {
            return problems.rejected(&no_dry_run());
        }
        if let Err(answer) = authorized(engine, &sender.actor).await {
            return *answer;
        }
        return stream(&sender, body).await;
    }
    if !is_media_type(headers, "application/json") {
        return unsupported_media_type(
            problems,
            "The body must be application/json, or application/x-ndjson with a fact on each line.",
        );
    }
    let body = read_json_body(headers, body, sender.bodies, engine.feed(), problems).await;
    let (body, mut share) = match body {
        Ok(body) => body,
        Err(answer) => return *answer,
    };
    let parsed = match parse_object(&body, &mut share) {
        Ok(parsed) => parsed,
        Err(Unread::Rejected(rejection)) => return problems.rejected(&rejection),
        Err(Unread::Overloaded) => return shed(problems).await,
    };
    // No rule of the shape depends on the time.
    let mut at = Reader::new(Timestamp::default());
    sender.dry_run.judged(&mut at);
    let items = match parse_batch(&parsed, at) {
        Ok(items) => items,
        Err(rejection) => return problems.rejected(&rejection),
    };
    if let Err(answer) = authorized(engine, &sender.actor).await {
        return *answer;
    }
    one_body(&sender, items).await
}

/// Returns 403 for an actor that may not act, or that may not write facts.
async fn authorized(engine: &Engine, actor: &Actor) -> Result<(), Box<Answer>> {
    let problems = Problems::PLAIN;
    if let Err(reply) = engine.may_act(actor).await {
        return Err(Box::new(problems.reply(reply, Success::Ok)));
    }
    if !may_write(actor) {
        let rejection = Rejection::permission_denied(
            "Only a system workflow with facts:write may write facts.",
        );
        return Err(Box::new(at_position(
            problems.rejected(&rejection),
            engine.durable(),
        )));
    }
    Ok(())
}

async fn one_body(sender: &Sender<'_>, items: &[Json<'_>]) -> Answer {
    let mut going = Going::new(sender, Rhythm::OF_BATCHES);
    for (index, item) in (0..).zip(items) {
        if !going.authorized_again().await {
            break;
        }
        let now = sender.engine.now();
        going.take(Incoming::of_item(index, item, FACTS, now)).await;
    }
    going.answer("facts").await
}

async fn stream<B>(sender: &Sender<'_>, mut body: B) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut going = Going::new(sender, Rhythm::OF_BATCHES);
    let mut lines = Lines::default();
    let mut begun = Permit::none(sender.bodies);
    let mut heard = Instant::now();
    let mut over = pin!(sender.engine.feed().ended_for(COMING_AT_STOP));
    'stream: while going.authorized_again().await {
        let silence = SILENCE_MAX.saturating_sub(heard.elapsed());
        let wait = going.until_due().min(silence);
        let frame = tokio::select! {
            biased;
            // When the service stops, a stream that goes on is cut off after a grace period.
            () = &mut over => {
                going.batch.end(CommandResult::Unavailable);
                break;
            }
            frame = timeout(wait, body.frame()) => frame,
        };
        let frame = match frame {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => {
                if let Some(line) = lines.finish() {
                    going.take_line(&line).await;
                }
                break;
            }
            Err(_) if heard.elapsed() < SILENCE_MAX => continue,
            Ok(Some(Err(error))) => return going.broke_off(&BodyError::of(error)).await,
            Err(_) => return going.broke_off(&BodyError::Broken).await,
        };
        heard = Instant::now();
        let Ok(chunk) = frame.into_data() else {
            continue;
        };
        let mut rest = &chunk[..];
        while let Some(line) = lines.next(&mut rest) {
            if !going.authorized_again().await {
                break 'stream;
            }
            going.take_line(&line).await;
        }
        let more = lines.held_bytes().saturating_sub(begun.amount());
        if more > 0 && !begun.grow(more, lines.held_bytes()) {
            // The parser's incomplete line is dropped while the batch ends.
            lines = Lines::default();
            going.batch.end(CommandResult::Overloaded);
        }
        // The time to apply the lines is no silence: the client may have waited for this service.
        heard = Instant::now();
    }
    going.answer("lines").await
}

/// A batch in progress, and the state that decides whether it may go on.
struct Going<'s> {
    sender: &'s Sender<'s>,
    batch: FactBatch<'s>,
    rhythm: Rhythm,
    /// Number of facts since the sender was last authorized. `judged_at` is when that was.
    taken: usize,
    judged_at: Instant,
    token_is_bad: bool,
}

impl<'s> Going<'s> {
    fn new(sender: &'s Sender<'s>, rhythm: Rhythm) -> Self {
        let batch = FactBatch::new(sender.engine, Arc::clone(&sender.actor));
        Self {
            sender,
            batch: batch.charged_to(sender.bodies),
            rhythm,
            taken: 0,
            judged_at: Instant::now(),
            token_is_bad: false,
        }
    }

    async fn take(&mut self, incoming: Incoming) {
        self.taken += 1;
        self.batch.take(incoming).await;
    }

    async fn take_line(&mut self, line: &Line<'_>) {
        self.taken += 1;
        self.batch.take_line(line).await;
    }

    /// How long until the next check, if no facts arrive.
    fn until_due(&self) -> Duration {
        self.rhythm.every.saturating_sub(self.judged_at.elapsed())
    }

    /// Whether the batch may go on. Authorizes the sender again when that is due.
    async fn authorized_again(&mut self) -> bool {
        if self.taken >= self.rhythm.facts || self.until_due().is_zero() {
            // Facts in flight were authorized when they were sent, and are counted in the response.
            self.batch.wait_for_all().await;
            self.token_is_bad = !(self.sender.token_is_good)();
            if !self.token_is_bad
                && let Err(reply) = self.sender.engine.may_act(&self.sender.actor).await
            {
                self.batch.end(reply);
            }
            self.taken = 0;
            self.judged_at = Instant::now();
        }
        !self.token_is_bad && !self.batch.is_broken()
    }

    /// Returns the response once everything has arrived, or once the batch may not go on.
    async fn answer(self, noun: &str) -> Answer {
        let problems = Problems::PLAIN;
        let (token_is_bad, outgoing) = (self.token_is_bad, self.sender.outgoing());
        match self.batch.finish().await {
            Ok((summary, position)) if token_is_bad => {
                let before = before(summary.applied, noun);
                let message = format!("The token is no longer valid. {before}");
                at_position(problems.no_longer_authenticated(&message), position)
            }
            Ok((summary, position)) => {
                // Facts may have been applied, so it is owed.
                let body = outgoing.answer(to_json(&summary).into(), true);
                problems.sent_body(body, position)
            }
            Err(ended) => ended_early(ended, noun),
        }
    }

    /// Returns the response to a stream that broke off, or cannot be read on.
    async fn broke_off(self, error: &BodyError) -> Answer {
        let is_malformed = *error == BodyError::Malformed;
        let (status, why) = match is_malformed {
            true => (
                StatusCode::BAD_REQUEST,
                "The chunks or trailers of the stream are malformed, or too long: mend them.",
            ),
            false => (StatusCode::REQUEST_TIMEOUT, "The stream broke off."),
        };
        let answer = match self.batch.finish().await {
            Ok((summary, _)) => {
                let before = before(summary.applied, "lines");
                let message = format!("{why} {before}");
                Problems::PLAIN.problem(status, "request_invalid", &message)
            }
            Err(ended) => ended_early(ended, "lines"),
        };
        match is_malformed {
            true => last(answer),
            false => answer,
        }
    }
}

/// Says how many facts were applied; `noun` is what they are called in the plural.
fn before(applied: u64, noun: &str) -> String {
    let (noun, were, remain) = match applied {
        1 => (noun.trim_end_matches('s'), "was", "remains"),
        _ => (noun, "were", "remain"),
    };
    format!("{applied} {noun} {were} applied before that and {remain}. Sending all again is safe.")
}

fn ended_early(ended: Ended, noun: &str) -> Answer {
    let problems = Problems::PLAIN;
    let Ended { reply, applied } = ended;
    let before = before(applied, noun);
    match reply {
        CommandResult::Refused {
            rejection,
            position,
        } => {
            let message = format!("{} {before}", rejection.message);
            let rejection = Rejection::new(rejection.class, rejection.code, message);
            at_position(problems.rejected(&rejection), position)
        }
        CommandResult::Overloaded => problems.problem(
            StatusCode::TOO_MANY_REQUESTS,
            "overloaded",
            &format!("The service is busy. {before}"),
        ),
        CommandResult::Unavailable => problems.problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "service_unavailable",
            &format!("The service cannot do this at present. {before}"),
        ),
        reply => problems.reply(reply, Success::Ok),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http_body_util::Full;
    use hyper::header::{CONTENT_TYPE, HeaderValue};
    use serde_json::{Map, json};

    use super::*;
    use crate::base::actor::ActorKind;
    use crate::cli::runtime::on_lane;
    use crate::engine::sample::engine;
    use crate::http::limits::response_room::{SMALL_BYTES_MAX, taken};
    use crate::http::request::arriving::bodies_budget;

    #[test]
    fn one_fact_that_was_applied_before_the_end_is_told_of_as_one() {
        let after = "Sending all again is safe.";
        for (applied, noun, told) in [
            (0, "lines", "0 lines were applied before that and remain."),
            (1, "lines", "1 line was applied before that and remains."),
            (1, "facts", "1 fact was applied before that and remains."),
            (2, "facts", "2 facts were applied before that and remain."),
        ] {
            assert_eq!(before(applied, noun), format!("{told} {after}"));
        }
    }

    #[test]
    fn a_large_batch_response_is_charged_until_sent_and_its_sender_waits() {
        let engine = Arc::new(engine());
        let (outgoing, _all) = taken();
        let bodies = bodies_budget();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // With a fault for each field.
        let unknown = (0..900).map(|number| (format!("unknown{number}"), json!(0)));
        let unknown: Map<_, _> = unknown.collect();
        let fact = json!({"kind": "actor", "id": "somebody", "revision": 1, "facts": unknown});
        let batch = Bytes::from(json!({ "facts": [fact] }).to_string());
        let send = async |subject: &str| {
            let sender = Sender {
                engine: &engine,
                actor: Arc::new(Actor {
                    subject: subject.into(),
                    kind: ActorKind::SystemWorkflow,
                    permissions: vec!["facts:write".into()],
                    ..Actor::nobody()
                }),
                token_is_good: &|| true,
                bodies: &bodies,
                outgoing: &outgoing,
                dry_run: DryRun::No,
            };
            put(sender, &headers, Full::new(batch.clone())).await
        };
        let work = async {
            let told = send("me").await;
            assert_eq!(told.status(), StatusCode::OK);
            let bytes = told.body().size_hint().exact().unwrap();
            assert!(bytes > u64::try_from(SMALL_BYTES_MAX).unwrap(), "{bytes}");
            let refused = send("me").await;
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(send("you").await.status(), StatusCode::OK);
            drop(told);
            assert_eq!(send("me").await.status(), StatusCode::OK);
        };
        on_lane(&engine, work).unwrap();
        engine.shut_down().unwrap();
    }
}
