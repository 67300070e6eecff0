//! A command around another one: to see what is asked of it, to hold it up, to have it fail.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use carebook::base::actor::Actor;
use carebook::base::digest::{Digest, Fingerprint};
use carebook::domain::erased::{AnyCommand, AnyDecision, AnyState};
use carebook::domain::index::IndexKey;
use carebook::domain::operation::Context;
use carebook::domain::rejection::Rejection;
use carebook::domain::resource::ReadView;

/// What is asked of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Fingerprint,
    KeyReused,
    Target,
    UniqueKeys,
    Decide,
}

/// What a test does around a command; nothing, where it does not say otherwise.
pub trait Around: Send + Sync {
    /// The command itself.
    fn inner(&self) -> &dyn AnyCommand;

    /// Called before the command is asked.
    fn asked(&self, _: Asked) {}

    /// The fingerprint of the command.
    fn fingerprint(&self) -> Fingerprint {
        self.inner().fingerprint()
    }

    /// What the command belongs to.
    fn target(&self, context: &Context<'_>) -> Option<Digest> {
        self.inner().target(context)
    }

    /// What the command comes to.
    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        self.inner().decide(target, slot, context)
    }
}

/// A command with what is done around it.
pub struct Wrapped<A>(pub A);

impl<A: Around> AnyCommand for Wrapped<A> {
    fn key(&self) -> Option<&str> {
        self.0.inner().key()
    }

    fn fingerprint(&self) -> Fingerprint {
        self.0.asked(Asked::Fingerprint);
        Around::fingerprint(&self.0)
    }

    fn fingerprint_as_sent(&self) -> Option<Fingerprint> {
        self.0.inner().fingerprint_as_sent()
    }

    fn key_reused(&self, actor: &Actor, view: &ReadView<'_>) -> Option<Vec<u8>> {
        self.0.asked(Asked::KeyReused);
        self.0.inner().key_reused(actor, view)
    }

    fn target(&self, context: &Context<'_>) -> Option<Digest> {
        self.0.asked(Asked::Target);
        self.0.target(context)
    }

    fn unique_keys(&self, context: &Context<'_>) -> Vec<IndexKey> {
        self.0.asked(Asked::UniqueKeys);
        self.0.inner().unique_keys(context)
    }

    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        self.0.asked(Asked::Decide);
        self.0.decide(target, slot, context)
    }
}

/// A command that waits at two barriers once it has decided, in each of its first decisions, so that
/// something can be done before it is committed.
pub struct HeldUp {
    pub inner: Box<dyn AnyCommand>,
    /// A list that its decision rests on, too.
    pub needs_facts: Option<IndexKey>,
    pub meanwhile: Arc<(Barrier, Barrier)>,
    /// In how many decisions it waits.
    pub times: usize,
    /// How often it has decided.
    pub decided: Arc<AtomicUsize>,
}

impl Around for HeldUp {
    fn inner(&self) -> &dyn AnyCommand {
        self.inner.as_ref()
    }

    fn decide(
        &self,
        target: Option<Digest>,
        slot: &mut AnyState,
        context: &Context<'_>,
    ) -> Result<AnyDecision, Rejection> {
        if let Some(list) = self.needs_facts {
            let _ = context.view.listed(list);
        }
        let decided = self.inner.decide(target, slot, context);
        if self.decided.fetch_add(1, Ordering::SeqCst) < self.times {
            self.meanwhile.0.wait();
            self.meanwhile.1.wait();
        }
        decided
    }
}
