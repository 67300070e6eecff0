//! What a row of the catalogue says of its operation, or of its read.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::domain::listing::Filter;
use crate::domain::operation::AnyOperation;
use crate::domain::read::{HistorySource, Numbered, Read, ScopeOf};
use crate::domain::registered::AnyResource;
use crate::domain::resource::Resource;

/// The method of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `POST`
    Post,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

/// Where a command's idempotency key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In the header `Idempotency-Key`.
    Header,
    /// In that header, where it is sent; a request without it is carried out each time.
    HeaderIfSent,
    /// In the body, scoped to operation and subject.
    Body,
    /// In the body, scoped to the operation alone, with a conflict code of its own.
    BodyOfAll {
        /// The code of a key with other facts.
        reused: &'static str,
    },
    /// It only reads: there is none.
    None,
}

/// Where what a command says beside its path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodySource {
    /// In a JSON body.
    Json,
    /// In the query; there is no body.
    Query,
    /// Nothing is said: the body is empty, or an empty object.
    Nothing,
}

/// What a success is answered with: what was brought into being is Created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// 200, always.
    Ok,
    /// 201, always.
    Created,
    /// 201 the first time, 200 for a replay.
    CreatedOnce,
    /// 202, always.
    Accepted,
    /// 204, always.
    NoContent,
}

/// What an invalid request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// 400
    BadRequest,
    /// 422
    Unprocessable,
}

/// The shape of a problem's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemShape {
    /// `{status, code, message, fieldErrors, conflictingFieldPaths, retryable}`
    Full,
    /// `{status, code, retryable}`
    Profile,
    /// `{status, code, message, retryable}`
    Invitation,
}

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The service's own: it can be rehearsed by a dry run.
    Service,
    /// Webhooks are managed by it, of which their dispatcher has to hear.
    Webhooks,
    /// Messages to other systems are managed by it.
    Messages,
}

/// One operation.
pub struct Row {
    /// Its number in the contract, which records store.
    pub tag: u16,
    /// Its name, which is part of fingerprints.
    pub name: &'static str,
    /// Its method.
    pub method: Method,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Whether it needs a token.
    pub bearer: bool,
    /// Where its key is.
    pub key: KeySource,
    /// Where what it says is.
    pub body: BodySource,
    /// What a success is answered with.
    pub success: Success,
    /// What an invalid request is answered with.
    pub invalid: Invalid,
    /// The shape of its problems.
    pub problem: ProblemShape,
    /// What it is for.
    pub purpose: Purpose,
    /// Whether its answer waits a little until the messages that it sends are taken.
    pub awaits_receivers: bool,
    /// How it reads and decides.
    pub operation: &'static dyn AnyOperation,
}

/// One read.
pub struct ReadRow {
    /// Its name.
    pub name: &'static str,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// The shape of its problems.
    pub problem: ProblemShape,
    /// How it reads.
    pub read: Read,
    /// The schema of what it gives.
    pub body: SchemaOf,
    /// Whether actors without a permission are rejected as such; others get "not found".
    pub needs_permission: bool,
    /// Whether what it gives is always there.
    pub is_always: bool,
    /// How its history is found, where it has one.
    pub trail: Option<HistorySource>,
}

/// Makes the schema of a body, among those of the document that it is for.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

impl Row {
    /// The usual: POST with a token, no key, 200, 400, the full problem.
    pub(super) const fn new(
        tag: u16,
        name: &'static str,
        path: &'static str,
        operation: &'static dyn AnyOperation,
    ) -> Self {
        Self {
            tag,
            name,
            method: Method::Post,
            path,
            bearer: true,
            key: KeySource::None,
            body: BodySource::Json,
            success: Success::Ok,
            invalid: Invalid::BadRequest,
            problem: ProblemShape::Full,
            purpose: Purpose::Service,
            awaits_receivers: false,
            operation,
        }
    }

    /// With its key there.
    pub(super) const fn keyed(self, key: KeySource) -> Self {
        Self { key, ..self }
    }

    /// With this success.
    pub(super) const fn succeeds_with(self, success: Success) -> Self {
        Self { success, ..self }
    }

    /// Without a token: none is looked at.
    pub(super) const fn without_token(self) -> Self {
        Self {
            bearer: false,
            ..self
        }
    }

    /// With 422 in the place of 400.
    pub(super) const fn unprocessable(self) -> Self {
        Self {
            invalid: Invalid::Unprocessable,
            ..self
        }
    }

    /// By which webhooks are managed.
    pub(super) const fn of_webhooks(self) -> Self {
        Self {
            purpose: Purpose::Webhooks,
            ..self
        }
    }

    /// By which messages to other systems are managed.
    pub(super) const fn of_messages(self) -> Self {
        Self {
            purpose: Purpose::Messages,
            ..self
        }
    }

    /// With an answer that waits a little until the messages that it sends are taken.
    pub(super) const fn awaits_receivers(self) -> Self {
        Self {
            awaits_receivers: true,
            ..self
        }
    }

    /// With PATCH.
    pub(super) const fn patch(self) -> Self {
        Self {
            method: Method::Patch,
            ..self
        }
    }

    /// With DELETE, and what it says in the query.
    pub(super) const fn delete(self) -> Self {
        Self {
            method: Method::Delete,
            body: BodySource::Query,
            ..self
        }
    }

    /// Without anything to say beside its path.
    pub(super) const fn without_body(self) -> Self {
        Self {
            body: BodySource::Nothing,
            ..self
        }
    }

    /// With this shape of problems.
    pub(super) const fn problems(self, problem: ProblemShape) -> Self {
        Self { problem, ..self }
    }

    /// The names of the parameters of its path.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        parameters(self.path)
    }
}

/// One list: of a kind whose resources can be read by id.
pub struct ListRow {
    /// Its name.
    pub name: &'static str,
    /// Its path.
    pub path: &'static str,
    /// The kind.
    pub resource: &'static dyn AnyResource,
    /// The read of one of them: what it gives of each is the list.
    pub read: &'static ReadRow,
    /// What of it an actor may be shown.
    pub scope: ScopeOf,
}

impl ListRow {
    /// The filters that a request can name, in the order of the documents.
    pub fn filters(&self) -> impl Iterator<Item = (Filter, &'static str)> {
        Filter::PUBLIC.into_iter().filter_map(|filter| {
            self.resource.filter(filter)?;
            Some((filter, filter.parameter()?))
        })
    }
}

impl ReadRow {
    /// A read that gives a `B`.
    pub(super) const fn new<B: JsonSchema>(
        name: &'static str,
        path: &'static str,
        read: Read,
    ) -> Self {
        Self {
            name,
            path,
            problem: ProblemShape::Full,
            read,
            body: |schemas| schemas.subschema_for::<B>(),
            needs_permission: false,
            is_always: false,
            trail: None,
        }
    }

    /// Refused to actors without a permission.
    pub(super) const fn permitted(self) -> Self {
        Self {
            needs_permission: true,
            ..self
        }
    }

    /// Of what is always there.
    pub(super) const fn always(self) -> Self {
        Self {
            is_always: true,
            ..self
        }
    }

    /// Of the resource that the path names, whose revisions are its own.
    pub(super) const fn of<R: Resource, B: JsonSchema>(
        name: &'static str,
        path: &'static str,
        read: Read,
    ) -> Self {
        Self::new::<B>(name, path, read).with(HistorySource::of_path::<R>(Numbered::ByRevision))
    }

    /// Of the resource that the path names, which has no revision but the positions of its commits.
    pub(super) const fn of_commits<R: Resource, B: JsonSchema>(
        name: &'static str,
        path: &'static str,
        read: Read,
    ) -> Self {
        Self::new::<B>(name, path, read).with(HistorySource::of_path::<R>(Numbered::ByPosition))
    }

    /// With a history that is found so.
    pub(super) const fn with(self, trail: HistorySource) -> Self {
        Self {
            trail: Some(trail),
            ..self
        }
    }

    /// The names of the parameters of its path.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        parameters(self.path)
    }
}

/// The names of the parameters of a path.
fn parameters(path: &'static str) -> impl Iterator<Item = &'static str> {
    let parts = path.split('/');
    parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}
