//! `actor`, by the token's subject: whether the actor may act at all.

use crate::domain::reference::{FactKind, HeldAlone};
use crate::domain::resource::Kind;
use crate::{json_object, wire_enum};

wire_enum! {
    /// An actor's lifecycle state.
    pub enum ActorLifecycle {
        /// May act.
        Active = "active",
        /// May not act for now.
        Inactive = "inactive",
        /// Has left.
        Withdrawn = "withdrawn",
    }
}

json_object! {
    /// What is known of an actor.
    pub struct ActorFact {
        /// The actor's state.
        pub lifecycle: ActorLifecycle = "lifecycle",
    }
}

impl HeldAlone for ActorFact {
    type Id = str;
}

impl FactKind for ActorFact {
    const KIND: Kind = Kind {
        tag: 1,
        name: "actor",
    };
    const ID: &'static str = "the actor's subject, `sub`";
}
