//! What a writer sends by itself, while it may have been replaced: nothing leaves before it is known
//! that it writes still.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use carebook::base::actor::{Actor, ActorKind};
use carebook::cli::runtime::on_lane;
use carebook::cli::serve::demo::load_samples;
use carebook::engine::channel::Bounds;
use carebook::engine::outbox::{Delivery, OutgoingMessage, Receiver};
use carebook::engine::publisher::{EventSink, Publisher, Publishing};
use carebook::engine::role::writer_proof::{Confirming, WriterProof};
use carebook::engine::webhooks::handle::{Delivered, OutgoingEvent, Sender, Sending};
use carebook::journal::events::Event;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::operations::branch::external_directory::{creation, receiving};
use crate::support::inside::{Inside, Wanted};
use crate::support::{PATIENCE, World, actor};

/// A right that cannot be confirmed so often at first, and then once that is said.
struct Unsaid {
    refused: usize,
    said: watch::Sender<bool>,
    asked: watch::Sender<usize>,
}

impl Unsaid {
    /// The right of this service, which is refused so often.
    fn of(inside: &Inside, refused: usize) -> Arc<Self> {
        let right = Arc::new(Self {
            refused,
            said: watch::Sender::new(false),
            asked: watch::Sender::new(0),
        });
        inside.engine().answer_by(Arc::clone(&right) as _);
        right
    }

    fn say(&self) {
        self.said.send_replace(true);
    }

    /// Waits until it was asked for so often.
    async fn until_asked(&self, times: usize) {
        let mut asked = self.asked.subscribe();
        let asked = asked.wait_for(|asked| *asked >= times);
        assert!(timeout(PATIENCE, asked).await.is_ok(), "nobody asks");
    }
}

impl WriterProof for Unsaid {
    fn confirm(&self, _: Instant) -> Confirming<'_> {
        self.asked.send_modify(|asked| *asked += 1);
        let is_refused = *self.asked.borrow() <= self.refused;
        Box::pin(async move {
            let mut said = self.said.subscribe();
            !is_refused && said.wait_for(|said| *said).await.is_ok()
        })
    }
}

/// What takes everything that it is sent, and remembers how much that is.
#[derive(Default)]
struct Takes(AtomicUsize);

impl Takes {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    async fn until(&self, count: usize) {
        let taken = async {
            while self.count() < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let in_the_end = timeout(PATIENCE, taken).await;
        assert!(in_the_end.is_ok(), "{} are sent", self.count());
    }
}

impl Receiver for Takes {
    fn deliver<'a>(&'a self, _: &'a OutgoingMessage) -> Delivery<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(()) })
    }
}

impl EventSink for Takes {
    fn publish<'a>(&'a self, _: String, _: &'a Event) -> Publishing<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(()) })
    }

    fn is_back(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// A sender by which everything is taken; it remembers of which subscriptions that was.
#[derive(Default)]
struct TakesOf(parking_lot::Mutex<Vec<String>>);

impl Sender for TakesOf {
    fn send(self: Arc<Self>, outgoing: OutgoingEvent) -> Sending {
        self.0.lock().push(outgoing.subscription.to_string());
        Box::pin(async { Delivered::Taken })
    }
}

fn manager(world: &World) -> String {
    world.token(&Actor {
        permissions: vec!["facts:write".into(), "webhooks:manage".into()],
        ..actor(ActorKind::SystemWorkflow, "workflow-1")
    })
}

#[test]
fn messages_wait_for_the_writer_s_right_and_count_no_attempt_until_then() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    let receiver = Arc::new(Takes::default());
    let (receivers, bounds) = receiving(Arc::clone(&receiver) as _);
    inside.engine().deliver_to(receivers, bounds);
    let administrator = Actor {
        permissions: vec!["branch:create".into()],
        ..actor(ActorKind::HeadquartersAdministrator, "hq-1")
    };
    let token = world.token(&administrator);
    // It is not the receiver that fails then, and the message waits as it did.
    let right = Unsaid::of(&inside, 1);
    on_lane(inside.engine(), async {
        inside.engine().start_deliveries();
        let create = inside.send_json("POST", "/admin/branches", &token, "1", Some(creation()));
        let meanwhile = async {
            right.until_asked(2).await;
            assert_eq!(receiver.count(), 0);
            right.say();
        };
        tokio::join!(create, meanwhile);
        receiver.until(3).await;
        let settled = async {
            while inside.engine().figures_of_outbox().receivers[0].taken < 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, settled).await.unwrap();
    })
    .unwrap();
    let figures = inside.engine().figures_of_outbox();
    let figures = &figures.receivers[0];
    assert_eq!((figures.attempts, figures.taken), (3, 3));
    inside.engine().shut_down().unwrap();
}

#[test]
fn webhooks_wait_for_the_writer_s_right_and_skip_deleted_subscriptions() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    let token = manager(&world);
    let (path, types) = ("/webhook-subscriptions", ["carebook.reference-fact.*"]);
    let create = json!({"url": "https://receiver.invalid/", "types": types, "description": null});
    let sender = Arc::new(TakesOf::default());
    on_lane(inside.engine(), async {
        let mut ids = Vec::new();
        for key in ["1", "2"] {
            let created = inside.send_json("POST", path, &token, key, Some(create.clone()));
            let created = created.await.json();
            ids.push(created["subscriptionId"].as_str().unwrap().to_owned());
        }
        let somebody = json!({
            "kind": "actor", "id": "somebody", "revision": 1, "facts": {"lifecycle": "active"}
        });
        let fact = json!({"facts": [somebody]});
        let put = inside.send_json("POST", "/reference-facts", &token, "-", Some(fact));
        assert_eq!(put.await.json()["applied"], 1);
        let right = Unsaid::of(&inside, 2);
        let bounds = Bounds::default();
        let engine = inside.engine();
        let (figures, deliveries) =
            engine.deliver_webhooks(Arc::clone(&sender) as _, bounds, 1_000);
        let deliveries = tokio::spawn(deliveries);
        right.until_asked(4).await;
        assert_eq!(sender.0.lock().len(), 0);
        // The third that waits is the answer to this.
        let delete = format!("{path}/{}?expectedRevision=1", ids[0]);
        let deleted = inside.send_json("DELETE", &delete, &token, "3", None);
        let confirmed = async {
            right.until_asked(5).await;
            right.say();
        };
        let (deleted, ()) = tokio::join!(deleted, confirmed);
        assert_eq!(deleted.status, 204, "{deleted:?}");
        let counted = async {
            // Figures are those of the last second.
            while figures.figures().iter().all(|one| one.attempts == 0) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, counted).await.unwrap();
        // It is not their receivers that failed.
        assert!(figures.figures().iter().all(|one| one.failures == 0));
        assert_eq!(*sender.0.lock(), ids[1..]);
        deliveries.abort();
    })
    .unwrap();
    inside.engine().shut_down().unwrap();
}

#[test]
fn events_wait_for_the_writer_s_right_and_many_share_a_confirmation() {
    let world = World::new();
    let inside = Inside::start(&world, Wanted::default());
    load_samples(inside.engine()).unwrap();
    let sink = Arc::new(Takes::default());
    let right = Unsaid::of(&inside, 1);
    on_lane(inside.engine(), async {
        let publisher = Publisher::new(inside.engine(), Arc::clone(&sink) as _);
        let publishing = tokio::spawn(publisher.run());
        right.until_asked(2).await;
        assert_eq!(sink.count(), 0);
        right.say();
        sink.until(10).await;
        publishing.abort();
    })
    .unwrap();
    let figures = inside.engine().publisher_figures().unwrap();
    assert_eq!(figures.failures, 0);
    let asked = *right.asked.borrow();
    assert!(asked < sink.count(), "{asked} times");
    inside.engine().shut_down().unwrap();
}
