//! What the directory is told of the side effects of a branch's creation: as it stands in the
//! outbox of the commit, and as it is delivered.

use serde::Serialize;
use uuid::Uuid;

use super::onboarding::{SideEffect, SideEffectKind, SideEffectStatus};
use super::state::{BusinessIdentity, Founding, RelationshipTuple};
use crate::base::text::{BranchCode, Sentence};
use crate::domain::operation::to_json;

/// A message as it is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryMessage {
    /// Its number, the same whenever it is delivered.
    pub number: i64,
    /// The body of the request, JSON.
    pub body: Vec<u8>,
}

impl DirectoryMessage {
    /// The message of this side effect.
    #[must_use]
    pub fn new(founding: &Founding, side_effect: &SideEffect) -> Self {
        let number = side_effect.outbox_message_id;
        Self {
            number,
            body: to_json(&Delivered {
                message_number: number,
                kind: side_effect.kind,
                branch_id: founding.branch_id,
                content: content(founding, side_effect.kind),
            }),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Delivered<'a> {
    message_number: i64,
    kind: SideEffectKind,
    branch_id: Uuid,
    #[serde(flatten)]
    content: Content<'a>,
}

/// A message as it is recorded: with how far its side effect was in the commit. What is completed
/// there needs no delivery.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Recorded<'a> {
    branch_id: Uuid,
    status: SideEffectStatus,
    #[serde(flatten)]
    content: Content<'a>,
}

/// The message of this side effect as it is recorded.
pub(super) fn recorded(founding: &Founding, side_effect: &SideEffect) -> impl Serialize {
    Recorded {
        branch_id: founding.branch_id,
        status: side_effect.status,
        content: content(founding, side_effect.kind),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    #[serde(rename_all = "camelCase")]
    OperatorIdentity {
        operator_identity_id: Uuid,
        branch_code: &'a BranchCode,
        legal_name: &'a Sentence,
        display_name: &'a Sentence,
        business_identity: &'a BusinessIdentity,
    },
    #[serde(rename_all = "camelCase")]
    AuthorizationRelationship {
        authorization_relationships: [RelationshipTuple; 2],
    },
    #[serde(rename_all = "camelCase")]
    ManagerInvitation {
        invitation_id: Uuid,
        email: &'a str,
        display_name: &'a Sentence,
    },
}

fn content(founding: &Founding, kind: SideEffectKind) -> Content<'_> {
    match kind {
        SideEffectKind::OperatorIdentity => Content::OperatorIdentity {
            operator_identity_id: founding.operator_identity_id,
            branch_code: &founding.branch_code,
            legal_name: &founding.legal_name,
            display_name: &founding.display_name,
            business_identity: &founding.business_identity,
        },
        SideEffectKind::AuthorizationRelationship => Content::AuthorizationRelationship {
            authorization_relationships: founding.relationships(),
        },
        SideEffectKind::ManagerInvitation => Content::ManagerInvitation {
            invitation_id: founding.invitation_id,
            email: &founding.invitee.email,
            display_name: &founding.invitee.display_name,
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{SILENT, branch_of, created_with, deliveries_of, minted};

    #[test]
    fn the_directory_is_told_all_that_it_needs_in_their_order() {
        let (scenario, answer) = created_with(SILENT);
        let branch = branch_of(&scenario, &answer);
        let told: Vec<Value> = deliveries_of(&scenario, &answer)
            .pending_messages(&branch)
            .iter()
            .map(|message| serde_json::from_slice(&message.body).unwrap())
            .collect();
        assert_eq!(
            told,
            [
                json!({
                    "messageNumber": 6,
                    "kind": "operator_identity",
                    "branchId": minted(1),
                    "operatorIdentityId": minted(4),
                    "branchCode": "SEOUL-1",
                    "legalName": "서울산후케어 주식회사",
                    "displayName": "서울 1지점",
                    "businessIdentity":
                        {"jurisdiction": "KR", "registrationNumber": "1248100998"},
                }),
                json!({
                    "messageNumber": 7,
                    "kind": "authorization_relationship",
                    "branchId": minted(1),
                    "authorizationRelationships": answer["authorizationRelationships"],
                }),
                json!({
                    "messageNumber": 8,
                    "kind": "manager_invitation",
                    "branchId": minted(1),
                    "invitationId": minted(3),
                    "email": "Mina.Kim@Example.org",
                    "displayName": "김 미나",
                }),
            ]
        );
    }
}
