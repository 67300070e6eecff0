//! A mother reads her own profile, also while her account is not active. Nobody else does, the
//! head office included.

use super::state::{MotherProfile, ProfileView};
use crate::base::actor::ActorKind;
use crate::domain::read::{Found, ReadRequest};
use crate::domain::reference::consent_version::required_at;
use crate::domain::reference::mother_profile::owner;
use crate::domain::rejection::Rejection;

/// Reads the profile of the actor's own.
///
/// # Errors
/// `not_found` when the actor is no mother, or has no profile.
pub fn read_profile(request: &ReadRequest<'_>) -> Result<Found, Rejection> {
    if request.actor.kind != ActorKind::Mother {
        return Err(Rejection::not_found());
    }
    let Some(profile) = request
        .view
        .named::<MotherProfile>(owner(&request.actor.subject))
    else {
        return Err(Rejection::not_found());
    };
    let required = required_at(request.view, request.now);
    Found::at_revision(&profile, &ProfileView::new(&profile, &required))
}
