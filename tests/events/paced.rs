//! What a stream does as time goes by, which goes by here as fast as it can: heartbeats, a reader
//! that takes nothing, a token that expires.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use carebook::base::time::Timestamp;
use carebook::cli::open::Replaying;
use carebook::cli::token::signing::{SigningAlgorithm, SigningKey};
use carebook::engine::clock::Clock;
use carebook::engine::{Engine, Limits};
use carebook::http::caller::Caller;
use carebook::http::client_end::ClientEnd;
use carebook::http::response::Answer;
use carebook::http::service::Service;
use carebook::http::token::TokenVerifier;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use tokio::time::Instant;
use wal::memory::MemoryLog;

use super::reader;
use crate::support::claims;

const BEGINNING: i64 = 1_800_000_000_000;

/// A clock that stops until the test moves it.
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Duration {
        Duration::ZERO
    }
}

struct House {
    service: Service,
    clock: Arc<TestClock>,
    /// Of a reader of events who may write facts, too; good for an hour.
    token: String,
}

impl House {
    fn open() -> Self {
        let key = SigningKey::generate(SigningAlgorithm::EdDsa).unwrap();
        let mut who = reader();
        who.permissions.push("facts:write".into());
        let mut claims = claims(&who, 3_600);
        claims.iat = u64::try_from(BEGINNING / 1_000).unwrap();
        claims.exp = claims.iat + 3_600;
        let verifier = TokenVerifier::new(key.jwks().as_bytes(), &claims.iss, &claims.aud);
        let clock = Arc::new(TestClock(AtomicI64::new(BEGINNING)));
        let log = MemoryLog::new();
        let mut recovering = Replaying::new("recovering");
        log.open(&mut recovering).unwrap();
        let engine = Engine::start(
            log,
            recovering.finish(),
            1,
            Limits::default(),
            Arc::clone(&clock) as Arc<dyn Clock>,
            Box::new(|why| panic!("the log failed: {why}")),
        );
        let engine = Arc::new(engine.unwrap());
        tokio::spawn(engine.lanes().run(0));
        Self {
            service: Service::new(engine, Arc::new(verifier.unwrap())),
            clock,
            token: key.sign(&claims).unwrap(),
        }
    }

    async fn send(&self, method: &str, path: &str, accept: &str, body: String) -> Answer {
        let caller = self.service.caller([127, 0, 0, 1].into(), false);
        self.send_as(&caller, method, path, accept, body).await
    }

    async fn send_as(
        &self,
        caller: &Caller,
        method: &str,
        path: &str,
        accept: &str,
        body: String,
    ) -> Answer {
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", accept)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        self.service.handle(caller, request).await
    }

    /// Commits so many facts.
    async fn commit(&self, facts: usize) {
        let numbers: Vec<_> = (0..facts).collect();
        for some in numbers.chunks(500) {
            let some = some.iter().map(|number| {
                json!({"kind": "actor", "id": format!("actor-{number}"), "revision": 1,
                    "facts": {"lifecycle": "active"}})
            });
            let body = json!({"facts": some.collect::<Vec<_>>()}).to_string();
            let answer = self.send("POST", "/reference-facts", "*/*", body).await;
            assert_eq!(answer.status(), 200);
        }
    }

    /// A stream from the beginning on.
    async fn follow(&self) -> Answer {
        self.follow_until(&Arc::default()).await
    }

    /// The same for a client of which this tells whether it may have left.
    async fn follow_until(&self, end: &Arc<ClientEnd>) -> Answer {
        let caller = self.service.caller([127, 0, 0, 1].into(), false);
        let answer = self
            .send_as(
                &caller.noticing(end),
                "GET",
                "/events?after=0-0",
                "text/event-stream",
                String::new(),
            )
            .await;
        assert_eq!(answer.status(), 200);
        answer
    }
}

fn at_its_own_pace(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

/// What comes next, and how long after `since`.
async fn next(answer: &mut Answer, since: Instant) -> Option<(String, u64)> {
    let frame = answer.body_mut().frame().await?.unwrap();
    let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
    Some((text, since.elapsed().as_secs()))
}

#[test]
fn a_silent_stream_tells_its_position_within_15_s_while_its_token_holds() {
    at_its_own_pace(async {
        let house = House::open();
        house.commit(1).await;
        let mut stream = house.follow().await;
        tokio::time::pause();
        let since = Instant::now();
        assert_eq!(next(&mut stream, since).await.unwrap().0, ": events\n\n");
        assert!(
            next(&mut stream, since)
                .await
                .unwrap()
                .0
                .starts_with("id: 1-0\nevent: ")
        );
        let heartbeat = ": \nid: 1-0\n\n";
        for seconds in [10, 20, 30, 40] {
            let came = next(&mut stream, since).await.unwrap();
            assert_eq!(came, (heartbeat.to_owned(), seconds));
        }
        // It is judged again within a minute, and may go on.
        while let Some((text, seconds)) = next(&mut stream, since).await {
            assert_eq!(text, heartbeat);
            if seconds >= 80 {
                break;
            }
        }
        house.clock.0.fetch_add(7_200_000, Ordering::SeqCst);
        let mut last = 0;
        while let Some((_, seconds)) = next(&mut stream, since).await {
            last = seconds;
        }
        assert!((80..=140).contains(&last), "{last}");
    });
}

#[test]
fn a_stream_whose_client_may_have_left_has_comments_soon_then_as_usual() {
    at_its_own_pace(async {
        let house = House::open();
        house.commit(1).await;
        let end = Arc::<ClientEnd>::default();
        let mut stream = house.follow_until(&end).await;
        tokio::time::pause();
        for _ in 0..2 {
            assert!(next(&mut stream, Instant::now()).await.is_some());
        }
        let since = Instant::now();
        end.notice();
        let mut times = Vec::new();
        for _ in 0..8 {
            let (text, seconds) = next(&mut stream, since).await.unwrap();
            assert_eq!(text, ": \nid: 1-0\n\n");
            times.push(seconds);
        }
        // After 0.25, 0.75, 1.75, 3.75, 7.75, 15.75, 25.75 and 35.75 seconds.
        assert_eq!(times, [0, 0, 1, 3, 7, 15, 25, 35]);
    });
}

#[test]
fn a_stream_of_events_has_its_comments_all_the_same() {
    at_its_own_pace(async {
        let house = House::open();
        let mut stream = house.follow().await;
        tokio::time::pause();
        let since = Instant::now();
        assert_eq!(next(&mut stream, since).await.unwrap().0, ": events\n\n");
        let (mut events, mut comments, mut steps) = (0, 0, 0);
        while events < 10 {
            tokio::time::sleep(Duration::from_secs(4)).await;
            steps += 1;
            // The log is another thread, for which a clock that stands would jump.
            tokio::time::resume();
            // One more than there are.
            house.commit(events + 1).await;
            let before = events;
            while events == before {
                let (text, _) = next(&mut stream, since).await.unwrap();
                events += text.matches("\ndata: ").count();
                if text.starts_with(": ") {
                    comments += 1;
                    steps = 0;
                }
            }
            // Of 15 seconds three such steps are over at the most.
            assert!(steps <= 3, "{events}");
            tokio::time::pause();
        }
        assert!(comments >= 2, "{comments}");
    });
}

#[test]
fn a_stream_not_read_for_30_seconds_ends_with_what_was_queued_for_it() {
    const FACTS: usize = 3_000;
    at_its_own_pace(async {
        let house = House::open();
        house.commit(FACTS).await;
        let mut slow = house.follow().await;
        let mut patient = house.follow().await;
        tokio::time::pause();
        // One takes a little before that, and is kept.
        tokio::time::sleep(Duration::from_secs(29)).await;
        let since = Instant::now();
        assert!(next(&mut patient, since).await.is_some());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let taken = |text: &str| text.matches("\ndata: ").count();
        let mut waited = 0;
        let mut bytes = 0;
        while let Some((text, seconds)) = next(&mut slow, since).await {
            assert_eq!(seconds, 2, "nothing is made for it any more");
            waited += taken(&text);
            bytes += text.len();
        }
        assert!(waited < FACTS / 4, "{waited}");
        assert!(bytes <= 128 << 10, "{bytes}");
        let mut all = 0;
        while all < FACTS {
            all += taken(&next(&mut patient, since).await.unwrap().0);
        }
    });
}
