//! Puts a fact that comes in: the result is applied, unchanged, stale, in conflict, or invalid.

use std::marker::PhantomData;

use super::{FactHolder, FactKind};
use crate::base::digest::Digest;
use crate::base::json::{Fault, FaultCode, FromJson, Json, Reader, Shape};
use crate::base::revision::Revision;
use crate::base::text::Ident;
use crate::domain::erased::AnyCommand;
use crate::domain::index::IndexKey;
use crate::domain::operation::{Commit, Context, Decision, to_json};
use crate::domain::rejection::{Class, Rejection};
use crate::domain::report::Report;
use crate::domain::resource::{Kind, ReadView};

crate::wire_enum! {
    /// What came of a fact that came in.
    pub enum FactResult {
        /// It was stored.
        Applied = "applied",
        /// It was stored already.
        Unchanged = "unchanged",
        /// A later revision is stored.
        Stale = "stale",
        /// The same revision is stored with other facts, or the fact conflicts with another.
        Conflict = "conflict",
        /// It breaks its kind's schema.
        Invalid = "invalid",
    }
}

impl FactResult {
    /// Returns the result that the engine's refusal of a fact stands for.
    #[must_use]
    pub fn of_refusal(rejection: &Rejection) -> Self {
        if rejection.code == Self::Stale.as_str() {
            Self::Stale
        } else if rejection.class == Class::Invalid {
            Self::Invalid
        } else {
            Self::Conflict
        }
    }

    fn refusal(self) -> Rejection {
        Rejection::new(Class::Conflict, self.as_str(), "The fact was not applied.")
    }
}

/// Returns the rejection of a fact that conflicts with what is stored, with the fault that says why.
fn conflict_at(path: &str, code: FaultCode) -> Rejection {
    let path = path.to_owned();
    Rejection {
        faults: vec![Fault { path, code }],
        ..FactResult::Conflict.refusal()
    }
}

/// A kind of fact with its types erased.
pub trait AnyFactKind: Send + Sync {
    /// Returns the kind.
    fn kind(&self) -> Kind;
    /// See [`FactKind::ID`].
    fn id(&self) -> &'static str;
    /// See [`FactKind::id_shape`].
    fn id_shape(&self) -> Shape;
    /// See [`FactKind::id_fault`].
    fn id_fault(&self, id: &str) -> Option<FaultCode>;
    /// Returns the shape of the field `facts`.
    fn shape(&self) -> Shape;
    /// Reads the field `facts` and makes the command that puts the fact in place.
    fn read(
        &self,
        id: Ident,
        revision: Revision,
        facts: Option<&Json<'_>>,
        at: &mut Reader,
    ) -> Option<Box<dyn AnyCommand>>;
    /// Returns the current fact: its revision, and its facts in JSON.
    fn find(&self, id: &str, view: &ReadView<'_>) -> Option<(Revision, Vec<u8>)>;
    /// Returns the fact's current revision.
    fn revision(&self, id: &str, view: &ReadView<'_>) -> Option<Revision>;
}

/// The kind of the facts that the resource `H` receives.
pub struct FactsOf<H>(PhantomData<H>);

impl<H> FactsOf<H> {
    /// The one value of the type.
    pub const NEW: Self = Self(PhantomData);
}

impl<H: FactHolder> AnyFactKind for FactsOf<H> {
    fn kind(&self) -> Kind {
        <H::Facts as FactKind>::KIND
    }

    fn id(&self) -> &'static str {
        <H::Facts as FactKind>::ID
    }

    fn shape(&self) -> Shape {
        H::Facts::shape()
    }

    fn id_shape(&self) -> Shape {
        H::Facts::id_shape()
    }

    fn id_fault(&self, id: &str) -> Option<FaultCode> {
        H::Facts::id_fault(id)
    }

    fn read(
        &self,
        id: Ident,
        revision: Revision,
        facts: Option<&Json<'_>>,
        at: &mut Reader,
    ) -> Option<Box<dyn AnyCommand>> {
        let facts: H::Facts = crate::base::json::field(facts, "facts", at)?;
        Some(Box::new(PutFact::<H> {
            id,
            revision,
            facts,
            faults_of_new: at.faults().to_vec(),
        }))
    }

    fn find(&self, id: &str, view: &ReadView<'_>) -> Option<(Revision, Vec<u8>)> {
        let holder = view.get::<H>(&[id])?;
        let (revision, facts) = holder.fact()?;
        Some((revision, to_json(facts)))
    }

    fn revision(&self, id: &str, view: &ReadView<'_>) -> Option<Revision> {
        H::revision_in(view, id)
    }
}

/// The command that puts a fact in place.
struct PutFact<H: FactHolder> {
    id: Ident,
    revision: Revision,
    facts: H::Facts,
    /// What is wrong with it, unless it is stored already ([`Reader::fault_of_new_at`]).
    faults_of_new: Vec<Fault>,
}

impl<H: FactHolder> Report for PutFact<H> {
    type Resource = H;

    fn resource(&self) -> Digest {
        H::KIND.key(&[&self.id])
    }

    fn unique_keys(&self) -> Vec<IndexKey> {
        self.facts.unique_keys(&self.id)
    }

    fn decide(&self, state: Option<&H>, context: &Context<'_>) -> Result<Decision<H>, Rejection> {
        if let Some((revision, facts)) = state.and_then(H::fact) {
            if revision > self.revision {
                return Err(FactResult::Stale.refusal());
            }
            if revision == self.revision && *facts == self.facts {
                return Ok(Decision::Answer(to_json(&FactResult::Unchanged)));
            }
        }
        if !self.faults_of_new.is_empty() {
            return Err(Rejection::invalid(self.faults_of_new.clone()));
        }
        if let Some((revision, _)) = state.and_then(H::fact)
            && revision == self.revision
        {
            return Err(conflict_at("facts", FaultCode::NotAllowed));
        }
        let own = self.resource();
        let taken = |name: &IndexKey| {
            context
                .view
                .holder(*name)
                .is_some_and(|holder| holder != own)
        };
        if Report::unique_keys(self).iter().any(taken) {
            return Err(conflict_at(H::CONFLICT_AT, FaultCode::NotUnique));
        }
        let Some(event) = H::put(state, &self.id, self.revision, &self.facts) else {
            return Err(conflict_at(H::CONFLICT_AT, FaultCode::NotAllowed));
        };
        Commit::new(state, event, context.at).answer(to_json(&FactResult::Applied))
    }
}

/// The fields around the `facts` of every fact.
pub struct Envelope {
    /// The kind, where it is known.
    pub kind: Option<&'static dyn AnyFactKind>,
    /// The name given for the kind.
    pub kind_name: Option<String>,
    /// The identifier.
    pub id: Option<Ident>,
    /// The command, when the fact has no fault but those that only a new one may not have: the command
    /// refuses a new one for them.
    pub command: Option<Box<dyn AnyCommand>>,
}

/// The revision of a fact: from 1 to 2^62, so that another 2^62 commits can follow here.
pub(in crate::domain) struct FactRevision(Revision);

/// Maximum revision with which a fact can come in.
const FACT_REVISION_MAX: i64 = 1 << 62;

impl FromJson for FactRevision {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let number = i64::read(value, at)?;
        match (1..=FACT_REVISION_MAX).contains(&number) {
            true => Some(Self(Revision::new(number))),
            false => at.fault(FaultCode::OutOfRange),
        }
    }

    fn shape() -> Shape {
        Shape::Integer {
            least: 1,
            most: FACT_REVISION_MAX,
        }
    }
}

/// Reads one fact, `{"kind", "id", "revision", "facts"}`, of one of `kinds`; faults are noted with
/// `at`.
pub fn read_fact(
    value: &Json<'_>,
    kinds: &[&'static dyn AnyFactKind],
    at: &mut Reader,
) -> Envelope {
    use crate::base::json::field;
    let mut envelope = Envelope {
        kind: None,
        kind_name: None,
        id: None,
        command: None,
    };
    let Some([kind, id, revision, facts]) = at.slots(value, &["kind", "id", "revision", "facts"])
    else {
        return envelope;
    };
    envelope.kind = at.inside("kind", |at| {
        let Some(value) = kind else {
            return at.fault(FaultCode::Required);
        };
        let name = at.text(value)?;
        envelope.kind_name = Some(name.to_owned());
        match kinds.iter().find(|kind| kind.kind().name == name) {
            Some(kind) => Some(*kind),
            None => at.fault(FaultCode::NotAllowed),
        }
    });
    envelope.id = field(id, "id", at);
    let revision: Option<FactRevision> = field(revision, "revision", at);
    let Some(kind) = envelope.kind else {
        // Facts of every kind are an object.
        at.inside("facts", |at| match facts {
            Some(Json::Object(_)) => None,
            Some(_) => at.fault::<()>(FaultCode::WrongType),
            None => at.fault(FaultCode::Required),
        });
        return envelope;
    };
    if let Some(fault) = envelope.id.as_ref().and_then(|id| kind.id_fault(id)) {
        at.fault_at::<()>("id", fault);
    }
    // The facts are read even when the other fields have faults: all faults are returned at once.
    let id = envelope
        .id
        .clone()
        .unwrap_or_else(|| Ident::from_trusted("?"));
    let revision_read = revision.map_or(Revision::FIRST, |FactRevision(revision)| revision);
    let command = kind.read(id, revision_read, facts, at);
    if at.is_clean_if_stored() {
        envelope.command = command;
    }
    envelope
}
