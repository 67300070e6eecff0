//! The form of the catalogue's rows, of operations and of reads.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::domain::erased::AnyOperation;
use crate::domain::listing::Filter;
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
    /// In the header `Idempotency-Key`, which is optional; a request without it is carried out each
    /// time.
    HeaderIfSent,
    /// In the body, scoped to operation and subject.
    Body,
    /// In the body, scoped to the operation alone, with a conflict code of its own.
    BodyOfAll {
        /// The code of the conflict when the key was used with other facts.
        reused: &'static str,
    },
    /// The operation only reads, so there is no key.
    None,
}

/// Where a command's content is, apart from its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodySource {
    /// In a JSON body.
    Json,
    /// In the query; there is no body.
    Query,
    /// There is no content: the body is empty, or an empty object.
    Nothing,
}

/// The status of a success: `Created` where a resource is created.
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

/// The status of the response to an invalid request.
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

/// What an operation is for, which decides how it is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The service's own business: a dry run can rehearse it.
    Service,
    /// To manage webhooks: their dispatcher has to be notified.
    Webhooks,
    /// To manage messages to other systems.
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
    /// Where its idempotency key is.
    pub key: KeySource,
    /// Where its content is.
    pub body: BodySource,
    /// The status of a success.
    pub success: Success,
    /// The status of the response to an invalid request.
    pub invalid: Invalid,
    /// The shape of its problems.
    pub problem: ProblemShape,
    /// What it is for.
    pub purpose: Purpose,
    /// Whether its answer waits a little until the receivers have taken the messages that it sends.
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
    /// The schema of its body.
    pub body: SchemaOf,
    /// Whether it refuses actors without a permission as such; otherwise they get "not found".
    pub needs_permission: bool,
    /// Whether the resource always exists.
    pub is_always: bool,
    /// Where its history comes from, if it has one.
    pub history: Option<HistorySource>,
}

/// Makes the schema of a body, for a document whose schemas the generator collects.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

impl Row {
    /// Makes a usual row: POST with a token, no key, 200, 400, the full problem.
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

    /// Sets where its key is.
    pub(super) const fn keyed(self, key: KeySource) -> Self {
        Self { key, ..self }
    }

    /// Sets the status of a success.
    pub(super) const fn succeeds_with(self, success: Success) -> Self {
        Self { success, ..self }
    }

    /// Lets the operation need no token, and ignore one.
    pub(super) const fn without_token(self) -> Self {
        Self {
            bearer: false,
            ..self
        }
    }

    /// Answers an invalid request with 422 instead of 400.
    pub(super) const fn unprocessable(self) -> Self {
        Self {
            invalid: Invalid::Unprocessable,
            ..self
        }
    }

    /// Marks an operation that manages webhooks.
    pub(super) const fn of_webhooks(self) -> Self {
        Self {
            purpose: Purpose::Webhooks,
            ..self
        }
    }

    /// Marks an operation that manages messages to other systems.
    pub(super) const fn of_messages(self) -> Self {
        Self {
            purpose: Purpose::Messages,
            ..self
        }
    }

    /// Lets its answer wait a little until the receivers have taken the messages that it sends.
    pub(super) const fn awaits_receivers(self) -> Self {
        Self {
            awaits_receivers: true,
            ..self
        }
    }

    /// Sets the method PATCH.
    pub(super) const fn patch(self) -> Self {
        Self {
            method: Method::Patch,
            ..self
        }
    }

    /// Sets the method DELETE, with the content in the query.
    pub(super) const fn delete(self) -> Self {
        Self {
            method: Method::Delete,
            body: BodySource::Query,
            ..self
        }
    }

    /// Lets the operation have no content apart from its path.
    pub(super) const fn without_body(self) -> Self {
        Self {
            body: BodySource::Nothing,
            ..self
        }
    }

    /// Sets the shape of its problems.
    pub(super) const fn problems(self, problem: ProblemShape) -> Self {
        Self { problem, ..self }
    }

    /// Returns the names of the parameters of its path.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        parameters(self.path)
    }

    /// Returns the sentence that rejects a command whose key was used before with other request content.
    #[must_use]
    pub fn key_reused(&self) -> Cow<'static, str> {
        match self.operation.key_field() {
            Some(field) => {
                format!("The {field} was used before with other request content.").into()
            }
            None => "The idempotency key was used before with other request content.".into(),
        }
    }
}

/// One list, of a kind whose resources can be read by id.
pub struct ListRow {
    /// Its name.
    pub name: &'static str,
    /// Its path.
    pub path: &'static str,
    /// The kind.
    pub resource: &'static dyn AnyResource,
    /// The read of one of its resources, whose body is the list's item.
    pub read: &'static ReadRow,
    /// The part of the list that an actor may be shown.
    pub scope: ScopeOf,
}

impl ListRow {
    /// Returns the filters that a request can name, in the order of the documents.
    pub fn filters(&self) -> impl Iterator<Item = (Filter, &'static str)> {
        Filter::PUBLIC.into_iter().filter_map(|filter| {
            self.resource.filter(filter)?;
            Some((filter, filter.parameter()?))
        })
    }
}

impl ReadRow {
    /// Makes a read whose body is a `B`.
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
            history: None,
        }
    }

    /// Refuses actors without a permission as such.
    pub(super) const fn permitted(self) -> Self {
        Self {
            needs_permission: true,
            ..self
        }
    }

    /// Marks a read of a resource that always exists.
    pub(super) const fn always(self) -> Self {
        Self {
            is_always: true,
            ..self
        }
    }

    /// Makes a read of the resource that the path names, whose revisions are its own.
    pub(super) const fn of<R: Resource, B: JsonSchema>(
        name: &'static str,
        path: &'static str,
        read: Read,
    ) -> Self {
        Self::new::<B>(name, path, read).with(HistorySource::of_path::<R>(Numbered::ByRevision))
    }

    /// Makes a read of the resource that the path names, which has no revision of its own: the
    /// positions of its commits number its history.
    pub(super) const fn of_commits<R: Resource, B: JsonSchema>(
        name: &'static str,
        path: &'static str,
        read: Read,
    ) -> Self {
        Self::new::<B>(name, path, read).with(HistorySource::of_path::<R>(Numbered::ByPosition))
    }

    /// Sets where its history comes from.
    pub(super) const fn with(self, history: HistorySource) -> Self {
        Self {
            history: Some(history),
            ..self
        }
    }

    /// Returns the names of the parameters of its path.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        parameters(self.path)
    }
}

/// Returns the names of the parameters of a path.
fn parameters(path: &'static str) -> impl Iterator<Item = &'static str> {
    let parts = path.split('/');
    parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}
