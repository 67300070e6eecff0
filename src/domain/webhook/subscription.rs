//! The webhook subscription: its state, its events, and who may manage it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::base::actor::Actor;
use crate::base::json::{FaultCode, FromJson, Json, Reader, Shape};
use crate::base::revision::Revision;
use crate::base::text::{EventTypePattern, ReceiverUrl};
use crate::base::time::Timestamp;
use crate::domain::follow::cannot_follow;
use crate::domain::index::{Index, IndexKey};
use crate::domain::rank::Rank;
use crate::domain::resource::{Kind, Resource};
use crate::{public_events, wire_enum};

/// The permission to manage webhooks.
pub const WEBHOOKS_MANAGE: &str = "webhooks:manage";
/// Maximum number of subscriptions.
pub const SUBSCRIPTIONS_MAX: usize = 5_000;
/// Time for which the secret before a rotation signs beside the new one, in seconds.
pub const OLD_SECRET_SECONDS: i64 = 24 * 3_600;

/// Whether the actor may manage webhooks: a workflow, or a person of the head office, with the
/// permission.
#[must_use]
pub fn may_manage(actor: &Actor) -> bool {
    actor.may_be_granted(WEBHOOKS_MANAGE)
}

wire_enum! {
    /// What a PATCH may set a subscription to.
    pub enum Switch {
        /// Deliveries go out.
        Enabled = "enabled",
        /// They wait.
        Paused = "paused",
    }
}

/// The types of events that go to a subscription: 1 to 50 patterns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventTypePatterns(pub Vec<EventTypePattern>);

/// Maximum number of patterns of a subscription.
const PATTERNS_MAX: usize = 50;

impl FromJson for EventTypePatterns {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        match value {
            Json::Array(items) if items.is_empty() => at.fault(FaultCode::TooShort),
            Json::Array(items) if items.len() > PATTERNS_MAX => at.fault(FaultCode::TooLong),
            value => Vec::read(value, at).map(Self),
        }
    }

    fn shape() -> Shape {
        Shape::List {
            of: Box::new(EventTypePattern::shape()),
            shortest: 1,
            longest: Some(PATTERNS_MAX),
            unique: false,
        }
    }
}

crate::schema_of_shape!(EventTypePatterns);

/// The purpose of a subscription, in its maker's words; empty where none is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Description(pub Box<str>);

/// Maximum number of characters of a description.
const DESCRIPTION_CHARS_MAX: usize = 4_000;

impl Description {
    /// Returns the description, if there is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&self.0)
    }
}

impl FromJson for Description {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        match value {
            Json::Text(text) if text.is_empty() => at.fault(FaultCode::TooShort),
            Json::Text(text) if text.chars().count() > DESCRIPTION_CHARS_MAX => {
                at.fault(FaultCode::TooLong)
            }
            Json::Text(text) => Some(Self(text.as_ref().into())),
            _ => at.fault(FaultCode::WrongType),
        }
    }

    fn shape() -> Shape {
        Shape::Text {
            shortest: 1,
            longest: DESCRIPTION_CHARS_MAX,
            blank: true,
            form: "",
            pattern: "",
            known: &[],
        }
    }
}

/// A webhook subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSubscription {
    /// Its identifier.
    pub subscription_id: Uuid,
    /// The number of commits that it has seen.
    pub revision: Revision,
    /// When it was created.
    pub created_at: Timestamp,
    /// The URL to which events are sent; empty once it is deleted.
    pub url: Box<str>,
    /// The types of events that are sent.
    pub types: EventTypePatterns,
    /// Its purpose.
    pub description: Description,
    /// Whether it was paused.
    pub is_paused: bool,
    /// Whether it was deleted; no read shows it then.
    pub is_deleted: bool,
    /// The number of the secret that signs; the first is 1.
    pub secret_number: u32,
    /// When the secret was rotated last.
    pub rotated_at: Option<Timestamp>,
}

/// The event that a subscription is created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionCreated {
    /// Its identifier.
    pub subscription_id: Uuid,
    /// The URL to which events are sent.
    pub url: ReceiverUrl,
    /// The types of events that are sent.
    pub types: EventTypePatterns,
    /// Its purpose.
    pub description: Description,
}

/// The event that a subscription is changed, with its new values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionUpdated {
    /// The URL to which events are sent.
    pub url: ReceiverUrl,
    /// The types of events that are sent.
    pub types: EventTypePatterns,
    /// Its purpose.
    pub description: Description,
    /// Whether events are sent.
    pub status: Switch,
}

/// What can happen to a subscription. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SubscriptionEvent {
    /// It is created.
    Created(Box<SubscriptionCreated>),
    /// It is changed.
    Updated(Box<SubscriptionUpdated>),
    /// It has a new secret, of this number.
    SecretRotated {
        /// The number of the new secret.
        secret_number: u32,
    },
    /// It is deleted.
    Deleted,
}

impl Resource for WebhookSubscription {
    const KIND: Kind = Kind {
        tag: 130,
        name: "webhook-subscription",
    };
    type Event = SubscriptionEvent;

    fn apply(state: Option<Self>, event: &SubscriptionEvent, at: Timestamp) -> Self {
        match (state, event) {
            (None, SubscriptionEvent::Created(created)) => Self {
                subscription_id: created.subscription_id,
                revision: Revision::FIRST,
                created_at: at,
                url: created.url.as_str().into(),
                types: created.types.clone(),
                description: created.description.clone(),
                is_paused: false,
                is_deleted: false,
                secret_number: 1,
                rotated_at: None,
            },
            (Some(mut subscription), event) if !subscription.is_deleted => {
                subscription.change(event, at);
                subscription
            }
            (_, event) => cannot_follow(event, "a subscription", false),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.subscription_id.to_string()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn ranked(&self) -> Vec<(IndexKey, Rank)> {
        let rank = || Rank::new(self.created_at, &self.subscription_id.to_string());
        let list = (!self.is_deleted).then(|| (subscriptions(), rank()));
        list.into_iter().collect()
    }

    fn validate(&self) -> Result<(), String> {
        if self.secret_number == 0 {
            return Err("the first secret has the number 1".to_owned());
        }
        if self.is_deleted != self.url.is_empty() {
            return Err("what is deleted has no URL, and nothing else".to_owned());
        }
        Ok(())
    }
}

public_events! {
    WebhookSubscription by SubscriptionEvent, read at "webhook-subscriptions/{}", revision own;

    /// A webhook subscription is created.
    Created(created) => "created" {
        "types": EventTypePatterns = created.types,
        "status": Switch = Switch::Enabled,
    },
    /// A webhook subscription is changed.
    Updated(updated) => "updated" {
        "types": EventTypePatterns = updated.types,
        "status": Switch = updated.status,
    },
    /// The secret of a webhook subscription is rotated.
    SecretRotated { secret_number } => "secret-rotated" {
        "secretNumber": i64 = i64::from(*secret_number),
    },
    /// A webhook subscription is deleted.
    Deleted {} => "deleted" {},
}

impl WebhookSubscription {
    fn change(&mut self, event: &SubscriptionEvent, at: Timestamp) {
        match event {
            SubscriptionEvent::Created(_) => panic!("a subscription is created once"),
            SubscriptionEvent::Updated(updated) => {
                self.url = updated.url.as_str().into();
                self.types = updated.types.clone();
                self.description = updated.description.clone();
                self.is_paused = updated.status == Switch::Paused;
            }
            SubscriptionEvent::SecretRotated { secret_number } => {
                self.secret_number = *secret_number;
                self.rotated_at = Some(at);
            }
            SubscriptionEvent::Deleted => {
                self.url = Box::default();
                self.description = Description::default();
                self.types = EventTypePatterns(Vec::new());
                self.is_deleted = true;
            }
        }
        self.revision = self.revision.next();
    }

    /// Returns the numbers of the secrets that sign at `now`, the present one first: the previous
    /// one signs for a day after a rotation.
    #[must_use]
    pub fn secret_numbers(&self, now: Timestamp) -> Vec<u32> {
        let signs = |rotated: Timestamp| now < rotated.plus_seconds(OLD_SECRET_SECONDS);
        let old = self.rotated_at.is_some_and(signs);
        let old = old.then(|| self.secret_number - 1);
        std::iter::once(self.secret_number).chain(old).collect()
    }
}

/// Returns the key of the list of the existing subscriptions, in the order of their creation; those
/// created in one millisecond are ordered by their identifiers.
#[must_use]
pub fn subscriptions() -> IndexKey {
    IndexKey::new(Index::WebhookSubscriptions, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_secret_signs_for_a_day_after_a_rotation_and_no_longer() {
        let begun = Timestamp::from_millis(1_790_000_000_000);
        let created = SubscriptionEvent::Created(Box::new(SubscriptionCreated {
            subscription_id: Uuid::nil(),
            url: ReceiverUrl::from_trusted("https://example.com/"),
            types: EventTypePatterns(Vec::new()),
            description: Description::default(),
        }));
        let made = WebhookSubscription::apply(None, &created, begun);
        assert_eq!(made.secret_numbers(begun), [1]);
        let rotated = begun.plus_seconds(60);
        let event = SubscriptionEvent::SecretRotated { secret_number: 2 };
        let known = WebhookSubscription::apply(Some(made), &event, rotated);
        let numbers = |later: i64| known.secret_numbers(rotated.plus_seconds(later));
        assert_eq!(numbers(0), [2, 1]);
        assert_eq!(numbers(OLD_SECRET_SECONDS - 1), [2, 1]);
        assert_eq!(numbers(OLD_SECRET_SECONDS), [2]);
        let event = SubscriptionEvent::SecretRotated { secret_number: 3 };
        let again = WebhookSubscription::apply(Some(known), &event, rotated);
        assert_eq!(
            again.secret_numbers(rotated),
            [3, 2],
            "and never a third one"
        );
    }
}
