//! The settlement data-room request: its state, its events, and how it looks from outside.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::state::may_request;
use crate::base::actor::{Actor, ActorKind};
use crate::base::digest::Fingerprint;
use crate::base::json::{
    AtLeast, FaultCode, FromJson, Json, NonEmpty, Nullable, Reader, Scanner, Shape, all_differ,
};
use crate::base::revision::Revision;
use crate::base::shared;
use crate::base::text::{CollectionName, Ident, ObjectKey, Sha256Hex};
use crate::base::time::{Date, Timestamp};
use crate::domain::follow::cannot_follow;
use crate::domain::index::{Index, IndexKey};
use crate::domain::listing::{Filter, List, by_many, is};
use crate::domain::resource::{Kind, Resource};
use crate::domain::response_body::response_body;
use crate::{json_object, public_events, wire_enum};

wire_enum! {
    /// A request's status.
    pub enum DataRoomStatus {
        /// Nothing is there to fetch yet.
        Open = "open",
        /// An artifact is ready.
        Ready = "ready",
    }
}

wire_enum! {
    /// Commands that move a request.
    pub enum DataRoomAction {
        /// Opens it.
        OpenRequest = "open_request",
        /// Adds an artifact.
        MarkArtifactReady = "mark_artifact_ready",
    }
}

/// Maximum number of keys of evidence that a request may name: each of its responses has all of them.
pub const EVIDENCE_KEYS_MAX: usize = 1_000;

/// The evidence that an export rests on: one key or more, each once, in the sender's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EvidenceKeys(Vec<Ident>);

impl FromJson for EvidenceKeys {
    fn read(value: &Json<'_>, at: &mut Reader) -> Option<Self> {
        let Json::Array(items) = value else {
            return at.fault(FaultCode::WrongType);
        };
        if items.is_empty() {
            return at.fault(FaultCode::TooShort);
        }
        if items.len() > EVIDENCE_KEYS_MAX {
            return at.fault(FaultCode::TooLong);
        }
        // A repeated key is reported though another one cannot be read.
        let mut seen = HashSet::with_capacity(items.len());
        let mut keys = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            keys.extend(at.item(index, |at| {
                let text = at.text(item)?;
                let key = Ident::check(text, at)?;
                if !seen.insert(key) {
                    return at.fault(FaultCode::NotUnique);
                }
                Some(Ident::from_trusted(key))
            }));
        }
        (keys.len() == items.len()).then_some(Self(keys))
    }

    fn read_straight(from: &mut Scanner<'_>) -> Option<Self> {
        let NonEmpty(keys) = NonEmpty::<Ident>::read_straight(from)?;
        let is_good = keys.len() <= EVIDENCE_KEYS_MAX && all_differ(keys.iter().map(Ident::as_str));
        is_good.then_some(Self(keys))
    }

    fn shape() -> Shape {
        Shape::List {
            of: Box::new(Ident::shape()),
            shortest: 1,
            longest: Some(EVIDENCE_KEYS_MAX),
            unique: true,
        }
    }
}

json_object! {
    /// What is to be exported, and for whom.
    pub struct DataRoomScope {
        /// The records.
        pub collection: CollectionName = "collection",
        /// First day of the period, which is part of it.
        pub settlement_period_start: Date = "settlementPeriodStart",
        /// Last day of the period, which is part of it too: the first day again for a period of one day.
        pub settlement_period_end: Date = "settlementPeriodEnd",
        /// The branch whose records they are; none: not of one branch.
        pub branch_profile_id: Nullable<Ident> = "branchProfileId",
        /// Who is to have them, outside the platform.
        pub external_recipient_code: Nullable<Ident> = "externalRecipientCode" personal FreeText,
        /// The oldest revision of the data set that will do.
        pub source_dataset_revision: AtLeast<1> = "sourceDatasetRevision",
        /// The evidence; each key once.
        pub source_evidence_keys: EvidenceKeys = "sourceEvidenceKeys",
    }
    rules period_in_order(Fields)
}

fn period_in_order(at: &mut Reader, fields: &Fields<'_>) {
    if let (Some(start), Some(end)) = (fields.settlement_period_start, fields.settlement_period_end)
        && start > end
    {
        at.fault_at::<()>("settlementPeriodEnd", FaultCode::OutOfRange);
    }
}

json_object! {
    /// A file of an export. It lies in a store outside this service.
    pub struct Artifact {
        /// Its identifier, unique in the request.
        pub artifact_id: Ident = "artifactId",
        /// What it is; a later one of the same kind takes its place.
        pub artifact_kind: Ident = "artifactKind",
        /// The part of the store.
        pub storage_bucket: Ident = "storageBucket",
        /// Its name in the store.
        pub storage_object_key: ObjectKey = "storageObjectKey" personal FreeText,
        /// Its format.
        pub export_format: Ident = "exportFormat",
        /// Its name for people.
        pub file_name: Ident = "fileName" personal FreeText,
        /// Its size in bytes.
        pub byte_size: AtLeast<0> = "byteSize",
        /// The SHA-256 of its content.
        pub content_sha256: Sha256Hex = "contentSha256",
        /// When it was made.
        pub generated_at: Timestamp = "generatedAt",
        /// The revision of the data set that it was made from.
        pub source_dataset_revision: i64 = "sourceDatasetRevision",
    }
}

/// How many artifacts a request may have, superseded ones included: each response lists all.
pub const ARTIFACTS_MAX: usize = 200;

/// An artifact of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandingArtifact {
    /// The artifact as it was marked ready.
    #[serde(with = "shared")]
    pub artifact: Arc<Artifact>,
    /// When a later one of its kind took its place.
    pub superseded_at: Option<Timestamp>,
}

/// One move of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The move's identifier.
    pub action_id: Uuid,
    /// The command.
    pub action_kind: DataRoomAction,
    /// The actor's kind.
    pub actor_kind: ActorKind,
    /// The actor's profile.
    pub actor_profile_id: Box<str>,
    /// The command's key.
    pub idempotency_key: Box<str>,
    /// The revision that the command expected.
    pub expected_revision: Revision,
    /// The revision that it made.
    pub committed_revision: Revision,
    /// When.
    pub recorded_at: Timestamp,
    /// The artifact, where the move added one.
    pub artifact_id: Option<Ident>,
}

/// A request for an export of settlement records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataRoomRequest {
    /// What the opening said.
    #[serde(with = "shared")]
    pub opening: Arc<DataRoomOpened>,
    /// Its status.
    pub status: DataRoomStatus,
    /// How many commits it has seen.
    pub revision: Revision,
    /// When it opened.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Its artifacts, oldest first.
    pub artifacts: Vec<StandingArtifact>,
    /// Its moves, oldest first.
    pub journal: Vec<JournalEntry>,
}

/// A request is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataRoomOpened {
    /// The request's identifier.
    pub request_id: Uuid,
    /// Its code, one request to a code.
    pub request_code: Ident,
    /// What is asked for.
    pub scope: DataRoomScope,
    /// Who asked: the token's subject.
    pub subject: Box<str>,
    /// The kind of actor who asked.
    pub actor_kind: ActorKind,
    /// The profile of the actor who asked.
    pub actor_profile_id: Box<str>,
    /// The opening command's key.
    pub idempotency_key: Box<str>,
    /// The fingerprint of the opening command's facts.
    pub fingerprint: Fingerprint,
    /// The identifier of the opening in the journal.
    pub action_id: Uuid,
}

/// An artifact is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactReady {
    /// The artifact.
    #[serde(with = "shared")]
    pub artifact: Arc<Artifact>,
    /// The kind of actor who says so.
    pub actor_kind: ActorKind,
    /// The profile of that actor.
    pub actor_profile_id: Box<str>,
    /// The command's key.
    pub idempotency_key: Box<str>,
    /// The move's identifier in the journal.
    pub action_id: Uuid,
}

/// What can happen to a request. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum DataRoomEvent {
    /// It is opened.
    Opened(#[serde(with = "shared")] Arc<DataRoomOpened>),
    /// An artifact is ready.
    ArtifactReady(Box<ArtifactReady>),
}

impl Resource for DataRoomRequest {
    const KIND: Kind = Kind {
        tag: 103,
        name: "settlement-data-room-request",
    };
    type Event = DataRoomEvent;
    const LIST: Option<List<Self>> = Some(List::<Self>::by(&[
        by_many(Filter::Branch, |it| {
            is(it.opening.scope.branch_profile_id.0.as_ref()?)
        }),
        by_many(Filter::Status, |it| is(it.status.as_str())),
    ]));

    fn apply(state: Option<Self>, event: &DataRoomEvent, at: Timestamp) -> Self {
        match (state, event) {
            (None, DataRoomEvent::Opened(opening)) => Self::opened(opening, at),
            (Some(mut request), DataRoomEvent::ArtifactReady(ready)) => {
                request.add(ready, at);
                request
            }
            (state, event) => cannot_follow(event, "a data-room request", state.is_some()),
        }
    }

    fn id(&self) -> Vec<String> {
        vec![self.opening.request_id.to_string()]
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn unique_keys(&self) -> Vec<IndexKey> {
        vec![Self::code(&self.opening.request_code)]
    }

    fn validate(&self) -> Result<(), String> {
        let moves = self.journal.len();
        if i64::try_from(moves) != Ok(self.revision.number()) {
            return Err(format!(
                "{moves} moves in the journal at revision {}",
                self.revision
            ));
        }
        if self.artifacts.len() + 1 != moves {
            return Err("artifacts and the journal do not tell the same".to_owned());
        }
        if (self.status == DataRoomStatus::Ready) == self.artifacts.is_empty() {
            return Err("ready is what has an artifact".to_owned());
        }
        let scope = &self.opening.scope;
        if scope.settlement_period_start > scope.settlement_period_end {
            return Err("the period ends before it starts".to_owned());
        }
        let mut ids = BTreeSet::new();
        let mut current_kinds = BTreeSet::new();
        for StandingArtifact {
            artifact,
            superseded_at,
        } in &self.artifacts
        {
            if !ids.insert(&artifact.artifact_id) {
                return Err("two artifacts have one identifier".to_owned());
            }
            if superseded_at.is_none() && !current_kinds.insert(&artifact.artifact_kind) {
                return Err("two artifacts of one kind are current".to_owned());
            }
        }
        Ok(())
    }
}

public_events! {
    DataRoomRequest by DataRoomEvent, read at "settlement-data-room-requests/{}", revision own;

    /// An export for the data room is asked for.
    Opened(opening) => "opened" {
        "requestCode": Ident = opening.request_code,
        "collection": CollectionName = opening.scope.collection,
        "settlementPeriodStart": Date = opening.scope.settlement_period_start,
        "settlementPeriodEnd": Date = opening.scope.settlement_period_end,
        "branchProfileId": Nullable<Ident> = opening.scope.branch_profile_id,
        "status": DataRoomStatus = DataRoomStatus::Open,
    },
    /// An artifact of the export is ready to be fetched.
    ArtifactReady(ready) => "artifact-ready" {
        "artifactId": Ident = ready.artifact.artifact_id,
        "artifactKind": Ident = ready.artifact.artifact_kind,
        "byteSize": AtLeast<0> = ready.artifact.byte_size,
        "contentSha256": Sha256Hex = ready.artifact.content_sha256,
        "generatedAt": Timestamp = ready.artifact.generated_at,
        "status": DataRoomStatus = DataRoomStatus::Ready,
    },
}

impl DataRoomRequest {
    /// The name that belongs to the request with this code.
    #[must_use]
    pub fn code(request_code: &str) -> IndexKey {
        IndexKey::new(Index::DataRoomRequestCode, &[request_code])
    }

    /// Whether an artifact with this identifier exists, superseded or not.
    #[must_use]
    pub fn has_artifact(&self, artifact_id: &str) -> bool {
        self.artifacts
            .iter()
            .any(|standing| *standing.artifact.artifact_id == *artifact_id)
    }

    fn opened(opening: &Arc<DataRoomOpened>, at: Timestamp) -> Self {
        Self {
            status: DataRoomStatus::Open,
            revision: Revision::FIRST,
            created_at: at,
            updated_at: at,
            artifacts: Vec::new(),
            journal: vec![JournalEntry {
                action_id: opening.action_id,
                action_kind: DataRoomAction::OpenRequest,
                actor_kind: opening.actor_kind,
                actor_profile_id: opening.actor_profile_id.clone(),
                idempotency_key: opening.idempotency_key.clone(),
                expected_revision: Revision::NONE,
                committed_revision: Revision::FIRST,
                recorded_at: at,
                artifact_id: None,
            }],
            opening: Arc::clone(opening),
        }
    }

    fn add(&mut self, ready: &ArtifactReady, at: Timestamp) {
        let committed = self.revision.next();
        let artifact = &ready.artifact;
        for earlier in &mut self.artifacts {
            if earlier.artifact.artifact_kind == artifact.artifact_kind {
                earlier.superseded_at.get_or_insert(at);
            }
        }
        self.artifacts.push(StandingArtifact {
            artifact: Arc::clone(artifact),
            superseded_at: None,
        });
        self.journal.push(JournalEntry {
            action_id: ready.action_id,
            action_kind: DataRoomAction::MarkArtifactReady,
            actor_kind: ready.actor_kind,
            actor_profile_id: ready.actor_profile_id.clone(),
            idempotency_key: ready.idempotency_key.clone(),
            expected_revision: self.revision,
            committed_revision: committed,
            recorded_at: at,
            artifact_id: Some(artifact.artifact_id.clone()),
        });
        self.status = DataRoomStatus::Ready;
        self.revision = committed;
        self.updated_at = at;
    }
}

/// Headquarters and workflows open and see every request; a branch's manager those of the branch.
#[must_use]
pub fn may_open(actor: &Actor, scope: &DataRoomScope) -> bool {
    let branch = scope.branch_profile_id.0.as_ref();
    may_request(actor) || branch.is_some_and(|branch| actor.manages_branch(branch))
}

response_body! {
    /// A request as its readers see it.
    #[schemars(rename = "SettlementDataRoomRequest")]
    pub struct DataRoomBody<'a> from (request: &'a DataRoomRequest) {
        // The request, which looks the same to all who may see it.
        let opening = &request.opening;
    } as {
        request_id: Uuid = opening.request_id,
        request_code: &'a Ident = &opening.request_code,
        scope: &'a DataRoomScope = &opening.scope,
        status: DataRoomStatus = request.status,
        revision: Revision = request.revision,
        requested_by_actor_profile_id: &'a str = &opening.actor_profile_id,
        created_at: Timestamp = request.created_at,
        updated_at: Timestamp = request.updated_at,
        artifacts: Vec<ArtifactBody<'a>> =
            request.artifacts.iter().map(ArtifactBody::new).collect(),
        action_journal: Vec<JournalBody<'a>> =
            request.journal.iter().map(JournalBody::new).collect(),
    }
}

response_body! {
    #[schemars(rename = "DataRoomArtifact")]
    struct ArtifactBody<'a> from (standing: &'a StandingArtifact) {} as {
        #[serde(flatten)]
        artifact: &'a Artifact = &standing.artifact,
        superseded_at: Option<Timestamp> = standing.superseded_at,
    }
}

response_body! {
    #[schemars(rename = "DataRoomJournalEntry")]
    struct JournalBody<'a> from (entry: &'a JournalEntry) {} as {
        action_id: Uuid = entry.action_id,
        action_kind: DataRoomAction = entry.action_kind,
        actor_kind: ActorKind = entry.actor_kind,
        actor_profile_id: &'a str = &entry.actor_profile_id,
        idempotency_key: &'a str = &entry.idempotency_key,
        expected_revision: Revision = entry.expected_revision,
        committed_revision: Revision = entry.committed_revision,
        recorded_at: Timestamp = entry.recorded_at,
        /// No command carries a reason.
        reason: Option<&'a str> = None,
        artifact_id: Option<&'a Ident> = entry.artifact_id.as_ref(),
        metadata: Nothing = Nothing {},
    }
}

/// An object without fields: no command leaves metadata.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Empty")]
struct Nothing {}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::samples::{DATA_ROOM_ID, opened_data_room, ready_artifact};
    use super::*;

    /// A state that validates, and a change after which it must not.
    type Damage = fn(&mut DataRoomRequest);

    #[test]
    fn a_state_that_cannot_be_does_not_validate() {
        let mut scenario = opened_data_room();
        let path = [("settlementDataRoomRequestId", DATA_ROOM_ID)];
        for number in 1..=2 {
            let body = ready_artifact(number, "lines", number.into());
            scenario
                .when("mark_artifact_ready", &path, &body)
                .committed();
        }
        let request: DataRoomRequest = scenario.state(&[DATA_ROOM_ID]).unwrap();
        assert_eq!(request.validate(), Ok(()));
        let damages: [Damage; 6] = [
            |request| request.revision = Revision::FIRST,
            |request| request.status = DataRoomStatus::Open,
            |request| request.artifacts.truncate(1),
            |request| request.artifacts[0].superseded_at = None,
            |request| {
                let artifact = Arc::make_mut(&mut request.artifacts[1].artifact);
                artifact.artifact_id = Ident::from_trusted("artifact-1");
            },
            |request| {
                let scope = &mut Arc::make_mut(&mut request.opening).scope;
                scope.settlement_period_end = Date::parse("2026-09-30").unwrap();
            },
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut damaged = request.clone();
            damage(&mut damaged);
            assert!(damaged.validate().is_err(), "damage {number}");
        }
    }
}
