//! Reads: what a `GET` shows of a resource, and to whom.

use serde::Serialize;

use super::listing::Scope;
use super::operation::to_json;
use super::rejection::Rejection;
use super::resource::{Kind, ReadView, Resource};
use crate::base::actor::Actor;
use crate::base::digest::{Digest, Fingerprint};
use crate::base::time::Timestamp;

/// A request to read.
pub struct ReadRequest<'a> {
    /// The actor who sends the request.
    pub actor: &'a Actor,
    /// The time of reading.
    pub now: Timestamp,
    /// The parameters of the path, by name, percent-decoded.
    pub path: &'a [(&'a str, &'a str)],
    /// Committed state.
    pub view: &'a ReadView<'a>,
    /// Whether access was already granted on current state, while the view is of the past.
    pub access_checked: bool,
}

impl ReadRequest<'_> {
    /// Whether the actor may see the body: `may` tells whether it may read the resource as the view
    /// shows it.
    #[must_use]
    pub fn allows(&self, may: impl FnOnce() -> bool) -> bool {
        self.access_checked || may()
    }

    /// Returns a parameter of the path; empty when the route has none of that name.
    #[must_use]
    pub fn param(&self, name: &str) -> &str {
        self.path
            .iter()
            .find(|(known, _)| *known == name)
            .map_or("", |(_, value)| value)
    }
}

/// The result of a read.
#[derive(Debug, PartialEq, Eq)]
pub struct Representation {
    /// The content of the entity tag: the revision, with a digest where the body depends on more
    /// than the resource; or the position of the last commit, where the resource has no revision of
    /// its own.
    pub tag: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Representation {
    /// Makes the representation of a resource at its revision.
    ///
    /// # Errors
    /// Never; it returns a `Result` so that a ladder of guards can end with it.
    pub fn at_revision(resource: &impl Resource, body: &impl Serialize) -> Result<Self, Rejection> {
        Ok(Self {
            tag: resource.revision().to_string(),
            body: to_json(body),
        })
    }

    /// Makes the representation of a resource at its revision whose body depends on more than the
    /// resource: on data joined to it, or on the reader. The tag has a digest of the body beside the
    /// revision (16 hexadecimal digits), so that it changes whenever the body does.
    ///
    /// # Errors
    /// Never; it returns a `Result` so that a ladder of guards can end with it.
    pub fn at_revision_and_digest(
        resource: &impl Resource,
        body: &impl Serialize,
    ) -> Result<Self, Rejection> {
        let body = to_json(body);
        let mut digest = Fingerprint::of(&body).to_hex();
        digest.truncate(16);
        Ok(Self {
            tag: format!("{}-{digest}", resource.revision()),
            body,
        })
    }

    /// Makes the representation of a resource that has no revision of its own, at the position of
    /// its last commit.
    ///
    /// # Errors
    /// Never; it returns a `Result` so that a ladder of guards can end with it.
    pub fn at_position(
        view: &ReadView<'_>,
        key: Digest,
        body: &impl Serialize,
    ) -> Result<Self, Rejection> {
        Ok(Self {
            tag: view.position(key).to_string(),
            body: to_json(body),
        })
    }
}

/// How a resource's revisions are numbered for its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbered {
    /// By the resource's own revision; commits that do not advance it are not counted.
    ByRevision,
    /// By the positions of the resource's commits, since it has no revision of its own.
    ByPosition,
}

/// How the history of a resource is found for its readers.
#[derive(Clone, Copy)]
pub struct HistorySource {
    /// The kind of the resource whose commits the history lists.
    pub kind: Kind,
    /// How its revisions are numbered.
    pub numbered: Numbered,
    /// Whether the read shows the latest of several resources. Which ones they are may change, and there may be only
    /// one of them.
    pub shows_latest: bool,
    /// Returns the keys of the resources whose commits the history lists: one, or several of which
    /// the read shows the latest.
    pub keys: fn(&ReadRequest<'_>) -> Vec<Digest>,
}

impl HistorySource {
    /// Makes the source of the history of the resource that the path names.
    #[must_use]
    pub const fn of_path<R: Resource>(numbered: Numbered) -> Self {
        Self::of::<R>(numbered, |request| {
            let id: Vec<_> = request.path.iter().map(|(_, value)| *value).collect();
            vec![R::KIND.key(&id)]
        })
    }

    /// Makes the source of the history of the resource with this key.
    #[must_use]
    pub const fn of<R: Resource>(
        numbered: Numbered,
        keys: fn(&ReadRequest<'_>) -> Vec<Digest>,
    ) -> Self {
        Self {
            kind: R::KIND,
            numbered,
            shows_latest: false,
            keys,
        }
    }

    /// Makes the source of the history of the resources with these keys, of which the read shows the latest.
    #[must_use]
    pub const fn of_latest<R: Resource>(keys: fn(&ReadRequest<'_>) -> Vec<Digest>) -> Self {
        Self {
            kind: R::KIND,
            numbered: Numbered::ByPosition,
            shows_latest: true,
            keys,
        }
    }
}

/// Reads one resource for one actor; by default, into its response.
pub type Read<T = Representation> = fn(&ReadRequest<'_>) -> Result<T, Rejection>;

/// Returns the part of a list that the actor of this request, which has no path, may be shown.
pub type ScopeOf = fn(&ReadRequest<'_>) -> Scope;
