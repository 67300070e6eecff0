//! Each operation's rejections are tested in the order of its table: for every one of them, a
//! request to which it applies, and all that come after it as well; the first one is returned.

#![allow(clippy::unwrap_used)]

use serde_json::Value;

use super::example::{self, filled};
use super::rejection::Rejection;
use super::resource::Resource;
use super::scenario::{Scenario, Then};
use crate::base::actor::ActorKind::BranchManager;
use crate::base::actor::{Actor, ActorKind};
use crate::catalogue::{MANAGEMENT, OPERATIONS, Row};

/// Every operation that a request leads to.
fn all() -> impl Iterator<Item = &'static Row> {
    OPERATIONS.iter().chain(MANAGEMENT)
}

/// Every operation whose example is carried out by itself.
fn all_with_example() -> impl Iterator<Item = &'static Row> {
    all().filter(|row| row.operation.example().runs_alone)
}

/// Makes a rejection apply to a case.
type Cause = for<'c> fn(&'c mut Case) -> &'c mut Case;

/// The rejections of an operation in their order, each with what makes it apply to the operation's
/// example. The causes are brought about from the last one to the first, so each comes to a case to
/// which those after it apply already.
pub struct Ladder {
    /// Who may carry the operation out who has all else that it takes: the kinds of actors that are
    /// not refused for what they are, in the order of [`ActorKind::ALL`].
    permitted: &'static [ActorKind],
    rejections: Vec<(Rejection, Option<Cause>)>,
}

impl Ladder {
    /// One of no rejections yet, of an operation for these kinds of actors.
    pub const fn of(permitted: &'static [ActorKind]) -> Self {
        Self {
            permitted,
            rejections: Vec::new(),
        }
    }

    /// One of no rejections yet, of an operation by which the service is managed.
    pub const fn of_managers() -> Self {
        Self::of(&[
            ActorKind::HeadquartersAdministrator,
            ActorKind::HeadquartersFinanceOperator,
            ActorKind::SystemWorkflow,
        ])
    }

    /// The next rejection, and its cause.
    pub fn then(mut self, rejection: impl Into<Rejection>, cause: Cause) -> Self {
        self.rejections.push((rejection.into(), Some(cause)));
        self
    }

    /// The next rejection, which the engine finds, not the operation.
    pub fn then_by_engine(mut self, rejection: impl Into<Rejection>) -> Self {
        self.rejections.push((rejection.into(), None));
        self
    }

    /// The place and the cause of each that the operation finds.
    fn causes(&self) -> impl DoubleEndedIterator<Item = (usize, Cause)> {
        let causes = self.rejections.iter().enumerate();
        causes.filter_map(|(place, (_, cause))| Some((place, (*cause)?)))
    }

    /// The rejection at this place was returned, with the sentence that is published; another sentence
    /// may follow it.
    #[track_caller]
    fn assert_told(&self, place: usize, then: Then, row: &Row) {
        let (expected, _) = &self.rejections[place];
        let Then::Refused(told) = then else {
            panic!("{}: {} expected, {then:?} told", row.name, expected.code);
        };
        assert_eq!(
            (told.class, told.code),
            (expected.class, expected.code),
            "{}",
            row.name
        );
        assert_eq!(told.conflicting, expected.conflicting, "{}", row.name);
        let more = told.message.strip_prefix(&*expected.message);
        assert!(
            more.is_some_and(|more| more.is_empty() || more.starts_with(' ')),
            "{}: {:?} is sent, {:?} is published",
            row.name,
            told.message,
            expected.message
        );
    }
}

/// A request in a world: the example's in the samples', until something is changed.
#[derive(Clone)]
pub struct Case {
    row: &'static Row,
    /// The world.
    pub service: Scenario,
    /// Who asks.
    pub actor: Actor,
    path: Vec<(&'static str, String)>,
    /// The body.
    pub body: Value,
}

impl Case {
    /// The example of this operation, after what it goes on with.
    pub fn of_example(row: &'static Row) -> Self {
        let example = row.operation.example();
        let (service, before) = match example.after {
            None => (Scenario::of_samples(), Value::Null),
            Some(name) => {
                let before = all().find(|row| row.name == name);
                let mut before = Self::of_example(before.unwrap());
                let answer = before.ask().committed();
                (before.service, answer)
            }
        };
        let values = example.path.iter().map(|text| filled(text, &before));
        Self {
            row,
            service,
            actor: example::actor(example.actor, &str::to_owned),
            path: row.parameters().zip(values).collect(),
            body: example.body(&before),
        }
    }

    /// Asks for it.
    pub fn ask(&mut self) -> Then {
        let path = self.path.iter();
        let path: Vec<_> = path.map(|(name, value)| (*name, value.as_str())).collect();
        self.service.acting(self.actor.clone());
        self.service.when(self.row.name, &path, &self.body)
    }

    /// The sample actor of this kind asks.
    pub fn by(&mut self, kind: ActorKind) -> &mut Self {
        self.actor = example::actor(kind, &str::to_owned);
        self
    }

    /// Another actor of the same kind asks, without any rights.
    pub fn by_a_stranger(&mut self) -> &mut Self {
        self.actor = Actor {
            kind: self.actor.kind,
            subject: "stranger".into(),
            ..Actor::nobody()
        };
        self
    }

    /// The parameter of the path is an unknown one.
    pub fn at_unknown(&mut self) -> &mut Self {
        "unknown".clone_into(&mut self.path[0].1);
        self
    }

    /// The parameter of the path.
    pub fn parameter(&self) -> &str {
        &self.path[0].1
    }

    /// As [`Case::alter`], the resource that the path is of.
    #[track_caller]
    pub fn alter_at_parameter<R: Resource>(&mut self, change: impl FnOnce(&mut R)) -> &mut Self {
        let id = self.parameter().to_owned();
        self.alter(&id, change)
    }

    /// The text at this place of the body.
    #[track_caller]
    pub fn text(&self, pointer: &str) -> String {
        let text = self.body.pointer(pointer).and_then(Value::as_str);
        text.unwrap().to_owned()
    }

    /// The value at this place of the body (RFC 6901) is this one.
    #[track_caller]
    pub fn set(&mut self, pointer: &str, value: impl Into<Value>) -> &mut Self {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        self.body.pointer_mut(parent).unwrap()[name] = value.into();
        self
    }

    /// The resource with this identifier has another state, at the same revision.
    #[track_caller]
    pub fn alter<R: Resource>(&mut self, id: &str, change: impl FnOnce(&mut R)) -> &mut Self {
        let mut state: R = self.service.state(&[id]).unwrap();
        change(&mut state);
        self.service.given(&state);
        self
    }

    /// The resource with this identifier, in its state after the example was carried out.
    #[track_caller]
    pub fn done<R: Resource>(&self, id: &str) -> R {
        let mut example = Self::of_example(self.row);
        example.ask().committed();
        example.service.state(&[id]).unwrap()
    }

    /// The example was carried out before, with these changes.
    #[track_caller]
    pub fn done_before(&mut self, change: impl FnOnce(&mut Self)) -> &mut Self {
        let mut before = Self::of_example(self.row);
        before.service = self.service.clone();
        // As where it is to be asked for after something else has been carried out.
        before.path.clone_from(&self.path);
        change(&mut before);
        let then = before.ask();
        assert!(matches!(then, Then::Committed(_)), "{then:?}");
        self.service = before.service;
        self
    }
}

#[test]
fn the_first_applicable_rejection_wins() {
    for row in all_with_example() {
        let ladder = row.operation.ladder();
        let table: Vec<_> = ladder
            .rejections
            .iter()
            .map(|(one, _)| (one.class, one.code))
            .collect();
        let declared = row.operation.rejections().iter();
        let declared: Vec<_> = declared.map(|one| (one.class, one.code)).collect();
        assert_eq!(table, declared, "{}", row.name);
        let example = Case::of_example(row);
        let then = example.clone().ask();
        assert!(
            matches!(then, Then::Committed(_) | Then::Answered(_)),
            "{}: {then:?}",
            row.name
        );
        let mut case = example.clone();
        for (place, cause) in ladder.causes().rev() {
            let then = cause(&mut case).clone().ask();
            ladder.assert_told(place, then, row);
            // And when nothing else is wrong.
            let then = cause(&mut example.clone()).ask();
            ladder.assert_told(place, then, row);
        }
    }
}

#[test]
fn actor_kinds_not_permitted_are_refused_whatever_else_the_token_says() {
    for row in all_with_example() {
        let may = |kind: &ActorKind| {
            let mut case = Case::of_example(row);
            let actors = ActorKind::ALL.map(|kind| example::actor(kind, &str::to_owned));
            let permissions = actors.iter().flat_map(|actor| &actor.permissions);
            case.actor.permissions = permissions.cloned().collect();
            case.actor.branch_profile_ids = vec!["branch-seoul-1".into()];
            case.actor.kind = *kind;
            if case.body.get("actorKind").is_some() {
                let own = case.clone();
                case.set("/actorKind", kind.as_str());
                if matches!(case.clone().ask(), Then::Refused(told) if told.code == "request_invalid")
                {
                    case = own;
                }
            }
            match case.ask() {
                Then::Refused(told) if told.code == "permission_denied" => false,
                Then::Committed(_) | Then::Answered(_) => true,
                other => panic!("{} by {kind}: {other:?}", row.name),
            }
        };
        let permitted: Vec<_> = ActorKind::ALL.into_iter().filter(may).collect();
        assert_eq!(permitted, row.operation.ladder().permitted, "{}", row.name);
    }
}

#[test]
fn a_manager_of_another_branch_may_not_act_for_this_one() {
    for row in OPERATIONS {
        let (name, kinds) = (row.name, row.operation.ladder().permitted);
        if kinds.contains(&BranchManager) && kinds.len() < ActorKind::ALL.len() {
            let mut case = Case::of_example(row);
            let own_profile = case.body.get("actorKind").is_some();
            case.by(BranchManager);
            if own_profile {
                let profile = case.actor.profile_id().to_owned();
                case.set("/actorKind", "branch_manager")
                    .set("/actorProfileId", profile);
            }
            let then = case.clone().ask();
            assert!(matches!(then, Then::Committed(_)), "{name}: {then:?}");
            case.actor.branch_profile_ids = vec!["another".into()];
            assert_eq!(case.ask().code(), "permission_denied", "{name}");
        }
    }
}

#[test]
fn a_revision_is_stale_on_either_side_of_the_current_one() {
    let mut tried = 0;
    for row in OPERATIONS {
        let example = Case::of_example(row);
        for (name, expected) in example.body.as_object().unwrap() {
            if !(name.starts_with("expected") && name.ends_with("Revision")) {
                continue;
            }
            for other in [-1, 1] {
                let mut case = example.clone();
                case.set(&format!("/{name}"), expected.as_i64().unwrap() + other);
                let told = case.ask().refusal();
                // The least that there can be has none below it.
                if told.faults.is_empty() {
                    assert_eq!(told.conflicting, [name.as_str()], "{}", row.name);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 20, "{tried}");
}
